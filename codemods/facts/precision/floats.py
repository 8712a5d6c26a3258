"""Does a tensor hold floating-point numbers or integers, as far as that is certain, and may it carry a graph?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow import names
from codemods.dataflow.source import last_name, unparsed, walk
from codemods.dataflow.values import Instance, Literal, Made, Method, class_of, library_names
from codemods.facts.complex_numbers import may_be_computed
from codemods.facts.reaching import reaching
from codemods.library.kinds import computes_loss, has_integers, is_dtype
from codemods.library.operations import Parts, operands, operation, parts
from codemods.library.operators import Result

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Value


class Content(NamedTuple):
    """What a tensor, or a number, holds."""

    floats: bool
    """Floating-point numbers; else integers or truth values."""
    graph: bool
    """Whether it may carry a graph for gradients."""
    narrow: bool = False
    """Whether they may be integers of less than 64 bits."""
    is_tensor: bool = False
    """Whether it is known to be a tensor where nothing else tells: what a distribution computes."""
    truth: bool = False
    """Whether they may be truth values, which Python takes for integers, and a tensor neither negates nor adds up."""


_INTEGERS = Content(floats=False, graph=False)
_NARROW = Content(floats=False, graph=False, narrow=True)
_TRUTH = Content(floats=False, graph=False, truth=True)
_LOSS = Content(floats=True, graph=True)
_COMPUTED = Content(floats=True, graph=True, is_tensor=True)
_WIDE_CASTS = frozenset({"long", "int64", "bool", "LongTensor", "BoolTensor"})
_TRUTH_CASTS = frozenset({"bool", "BoolTensor"})
_WIDENING = frozenset({"sum", "prod", "cumsum", "cumprod"})
"""What adds up integers in 64 bits, whatever they have."""
_NARROW_CASTS = frozenset({"int", "short", "char", "byte"})
_FLOATS = frozenset({Result.FLOAT, Result.WIDE, Result.HALF})
_WITHOUT_FLOATS = frozenset({Result.BOOL, Result.INTEGER})
_ALIKE = frozenset({Result.SAME, Result.REDUCED, Result.DETACHED})
_PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.Module.parameters"})
_WITHOUT_GRAPH = frozenset({"data", "detach"})
_OF_TENSORS_ALONE = names.words("grad norm detach")
"""What arrays of NumPy's do not have."""
_DISTRIBUTIONS = "torch.distributions."
_KL_DIVERGENCE = frozenset({"torch.distributions.kl_divergence", "torch.distributions.kl.kl_divergence"})
_OF_DISTRIBUTIONS = names.words("entropy log_prob")
_REAL = names.words("norm abs")
_FLOATS_OF_FLOATS = names.words("norm abs sum mean max min pow square sqrt detach float double clone")
"""Methods of tensors that make one of floats of one of floats."""


def content(flow: Flow, module: Module, node: ast.expr) -> Content | None:
    """What the tensor holds that an expression is; None where that is not known."""
    return _Contents(flow).of(module, node)


def is_of_parameters(value: Value) -> bool:
    """Whether it is one of a model's parameters, or something that comes of one: ``p.grad.norm()``."""
    return isinstance(value, Made) and value.name.removesuffix("(…)") in _PARAMETERS


def is_made_of_parameter(flow: Flow, module: Module, node: ast.expr) -> bool:
    """Whether methods surely make it, a tensor of floats, of one of a model's parameters: ``p.grad.data.norm(2)``."""
    return _is_made_of_parameter(flow, module, node, frozenset())


def _is_made_of_parameter(flow: Flow, module: Module, node: ast.expr, used: frozenset[str]) -> bool:
    """The same of what is used by these names."""
    match node:
        case ast.Call(ast.Attribute(inner, name)) if name in _FLOATS_OF_FLOATS:
            return _is_made_of_parameter(flow, module, inner, used | {name})
        case ast.Attribute(inner, "grad" | "data" as name):
            return _is_made_of_parameter(flow, module, inner, used | {name})
        case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult() | ast.Div() | ast.Pow(), right):
            tensors = [each for each in (left, right) if not _is_real_number(each)]
            return bool(tensors) and all(_is_made_of_parameter(flow, module, each, used) for each in tensors)
        case ast.Name():
            given = reaching(module.function(node) or module.tree).given(node)
            if given:
                return all(_is_made_of_parameter(flow, module, each, used) for each in given)
            values = flow.values(node)
            is_real = not used.isdisjoint(_REAL) or not may_be_computed(flow)
            return bool(values) and all(map(is_of_parameters, values)) and bool(used & _OF_TENSORS_ALONE) and is_real
    return False


def _is_real_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float))


def is_differentiated(module: Module, node: ast.expr) -> bool:
    """Whether its function calls ``backward()`` of what is written so: ``loss``, which then is a tensor of floats."""
    written, function = unparsed(node), module.function(node)
    return any(
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "backward"
        and module.function(call) is function
        and unparsed(unscaled(call.func.value)) == written
        for call in module.nodes(ast.Call)
    )


def unscaled(node: ast.expr) -> ast.expr:
    """``loss`` of ``scaler.scale(loss)`` and of ``loss / steps``."""
    match node:
        case ast.Call(ast.Attribute(attr="scale"), [inner]) | ast.BinOp(inner, ast.Div() | ast.Mult()):
            return unscaled(inner)
    return node


class _Contents:
    """What expressions hold, each asked once."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._known: dict[ast.expr, Content | None] = {}
        """What was asked so far; what is computed of itself is not known."""

    def of(self, module: Module, node: ast.expr) -> Content | None:
        if node not in self._known:
            self._known[node] = None
            self._known[node] = self._found(module, node)
        return self._known[node]

    def _found(self, module: Module, node: ast.expr) -> Content | None:
        match node:
            case ast.Constant(int()) | ast.Compare():
                return _TRUTH if isinstance(node, ast.Compare) else _INTEGERS
            case ast.Constant(float()):
                return _LOSS._replace(graph=False)
            case ast.BinOp(left, operator, right):
                return _computed([self.of(module, left), self.of(module, right)], divides=isinstance(operator, ast.Div))
            case ast.IfExp(_, one, other):
                return _agreed([self.of(module, one), self.of(module, other)])
            case ast.Attribute(inner, "data"):
                return _detached(self.of(module, inner))
            case ast.Subscript(ast.Call() as call, ast.Constant(int(index))):
                return self._part(module, call, index)
            case ast.Subscript(inner) | ast.UnaryOp(operand=inner):
                return self.of(module, inner)
            case ast.Name():
                return _LOSS if is_differentiated(module, node) else self._named(module, node)
            case ast.Call():
                return (
                    self._of_parameter(module, node)
                    or self._of_distribution(module, node)
                    or self._called(module, node)
                )
        return None

    def _named(self, module: Module, name: ast.Name) -> Content | None:
        """What a name holds, by the statements that it has it of, or by all that give it something in its function."""
        function = module.function(name)
        if function is not None and name.id not in names.bound_names(function):
            return None
        given = reaching(function or module.tree).given(name)
        reached = _agreed([self.of(module, each) for each in given]) if given else None
        return reached or self._ever_named(module, name)

    def _ever_named(self, module: Module, name: ast.Name) -> Content | None:
        """What a name holds, by all statements of its function that give it something."""
        function = module.function(name)
        stores = [each for each in module.stores.get(name.id, ()) if module.function(each) is function]
        parents = {each: module.parent(each) for each in stores}
        adding = [each.value for each in parents.values() if isinstance(each, ast.AugAssign)]
        held = [self._given(module, each) for each in stores if not isinstance(parents[each], ast.AugAssign)]
        is_passed = isinstance(function, ast.FunctionDef) and name.id in {each.arg for each in function.args.args}
        found = None if is_passed else _agreed(held)
        more = [self.of(module, each) for each in adding]
        both = _joined([found, *more])
        return both if found is not None and both is not None and both.floats == found.floats else None

    def _given(self, module: Module, store: ast.expr) -> Content | None:
        parent = module.parent(store)
        if isinstance(parent, (ast.Assign, ast.AnnAssign)) and parent.value is not None:
            return self.of(module, parent.value)
        statement = module.parent(parent) if isinstance(parent, ast.Tuple) else None
        if isinstance(parent, ast.Tuple) and isinstance(statement, ast.Assign):
            index = next(at for at, each in enumerate(parent.elts) if each is store)
            match statement.value:
                case ast.Tuple(items) if len(items) == len(parent.elts):
                    return self.of(module, items[index])
                case ast.Call() as call:
                    return self._part(module, call, index)
        return None

    def _part(self, module: Module, call: ast.Call, index: int) -> Content | None:
        """One of several tensors that a call returns, or one element of the only one."""
        functions = self._flow.called(call)
        if functions:
            is_all = len(functions) == len(self._flow.values(call.func))
            return _agreed([self._returned(each, index) for each in functions]) if is_all else None
        given = operands(self._flow, call)
        match parts(self._flow, call):
            case Parts.VALUES_FIRST:
                return (self.of(module, given[0]) if given else None) if index == 0 else _INTEGERS
            case Parts.ONE:
                return self.of(module, call)
        return None

    def _called(self, module: Module, call: ast.Call) -> Content | None:
        if computes_loss(self._flow, call):
            return _LOSS
        functions = self._flow.called(call)
        if functions:
            is_all = len(functions) == len(self._flow.values(call.func))
            return _agreed([self._returned(each) for each in functions]) if is_all else None
        found = operation(self._flow, call)
        given = operands(self._flow, call)
        if found is None or found.result in _WITHOUT_FLOATS:
            is_truth = found is not None and found.result is Result.BOOL
            integers = _TRUTH if is_truth else _NARROW if last_name(call.func) in _NARROW_CASTS else _INTEGERS
            return None if found is None else integers
        if not given:
            return None
        first = self.of(module, given[0])
        if found.result in _FLOATS:
            return Content(floats=True, graph=first is None or first.graph)
        if found.result is Result.CAST:
            return self._cast(given[1:], first)
        if found.result in _ALIKE and parts(self._flow, call) is Parts.ONE:
            alike = first if first is None or first.floats else _joined([self.of(module, each) for each in given])
            if alike is not None and last_name(call.func) in _WIDENING:
                alike = alike._replace(narrow=False, truth=False)
            return _detached(alike) if found.result is Result.DETACHED else alike
        return None

    def _of_parameter(self, module: Module, call: ast.Call) -> Content | None:
        if not is_made_of_parameter(self._flow, module, call):
            return None
        cut = (each for each in walk(call) if isinstance(each, ast.Attribute) and each.attr in _WITHOUT_GRAPH)
        return _LOSS._replace(graph=next(cut, None) is None)

    def _of_distribution(self, module: Module, call: ast.Call) -> Content | None:
        """What a distribution of torch computes, ``dist.entropy()``, and what methods make of that."""
        callees = self._flow.values(call.func)
        if library_names(callees) & _KL_DIVERGENCE and len(callees) == 1:
            return _COMPUTED
        if not isinstance(call.func, ast.Attribute):
            return None
        if call.func.attr in _OF_DISTRIBUTIONS:
            return _agreed([self._by_distribution(each) for each in callees])
        found = self.of(module, call.func.value) if call.func.attr in _FLOATS_OF_FLOATS else None
        if found is None or not found.is_tensor:
            return None
        return _detached(found) if call.func.attr in _WITHOUT_GRAPH else found

    def _by_distribution(self, callee: Value) -> Content | None:
        """The same of one method: torch's, or one of the project's that computes with it."""
        if not isinstance(callee, Method):
            return None
        if callee.site is not None:
            return self._returned(callee.site)
        class_ = class_of(callee.of) if isinstance(callee.of, Instance) else None
        bases = self._flow.bases(class_) if class_ is not None else [callee.of.name]
        libraries = [each for each in bases if isinstance(each, str)]
        is_torchs = bool(libraries) and all(each.startswith(_DISTRIBUTIONS) for each in libraries)
        return _COMPUTED if is_torchs and "(" not in callee.of.name else None

    def _cast(self, given: list[ast.expr], first: Content | None) -> Content | None:
        """What ``x.to(…)`` and ``x.type(…)`` hold."""
        values = [value for each in given for value in self._flow.values(each)]
        integers = {each.name.rpartition(".")[2] for each in values if has_integers(each)}
        if integers:
            found = _INTEGERS if integers <= _WIDE_CASTS else _NARROW
            return found._replace(truth=not integers.isdisjoint(_TRUTH_CASTS))
        if any(map(is_dtype, values)):
            return Content(floats=True, graph=first is None or first.graph)
        names_format = any(isinstance(each, Literal) and "Tensor" in str(each.value) for each in values)
        return None if names_format else first

    def _returned(self, function: Callee, index: int | None = None) -> Content | None:
        """What a function of the project returns, wherever it does: all of it, or one of several."""
        module = self._flow.module_of(function)
        if isinstance(function, ast.Lambda):
            found: list[ast.expr | None] = [function.body]
        else:
            found = [each.value for each in module.nodes(ast.Return) if module.function(each) is function]
        if index is not None:
            found = [_item(each, index) for each in found]
        return _agreed([self.of(module, each) if each is not None else None for each in found])


def _item(node: ast.expr | None, index: int) -> ast.expr | None:
    """One of several things that are written out; an item of a tensor holds what that does."""
    if not isinstance(node, ast.Tuple):
        return node
    is_told = 0 <= index < len(node.elts) and not any(isinstance(each, ast.Starred) for each in node.elts)
    return node.elts[index] if is_told else None


def _joined(several: list[Content | None]) -> Content | None:
    """What holds all of several; None where one of them is not known."""
    known = [each for each in several if each is not None]
    if not known or len(known) != len(several):
        return None
    floats, graph = any(each.floats for each in known), any(each.graph for each in known)
    narrow = not floats and any(each.narrow for each in known)
    truth = not floats and any(each.truth for each in known)
    is_tensor = all(each.is_tensor for each in known)
    return Content(floats=floats, graph=graph, narrow=narrow, is_tensor=is_tensor, truth=truth)


def _computed(several: list[Content | None], *, divides: bool) -> Content | None:
    """What an operator makes of several: floats where one of them has some, or where it divides."""
    if divides or any(each is not None and each.floats for each in several):
        is_tensor = any(each is not None and each.is_tensor for each in several)
        return Content(floats=True, graph=any(each is None or each.graph for each in several), is_tensor=is_tensor)
    return _joined(several)


def _agreed(several: list[Content | None]) -> Content | None:
    """What one of several is, where all hold numbers of one sort."""
    found = _joined(several)
    return found if found is not None and len({each.floats for each in several if each is not None}) == 1 else None


def _detached(found: Content | None) -> Content | None:
    return None if found is None else found._replace(graph=False)
