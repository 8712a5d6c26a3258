"""Which parameters surely get a gradient in every training iteration."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.recursion import closure
from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import is_name, last_name, walk
from codemods.dataflow.values import (
    Choice,
    Class,
    Container,
    External,
    Function,
    HostTensor,
    Literal,
    Made,
    Method,
    MovedTensor,
    Plain,
    SomeTensor,
    Unbound,
    Value,
    Values,
    without_none,
)
from codemods.facts.loops import place
from codemods.facts.models.layers import Model
from codemods.facts.reason import HERE, Reason
from codemods.library.kinds import Kind, has_integers, kind
from codemods.library.layers import has_no_parameters, uses_all_parameters
from codemods.library.operations import Parts, parts
from codemods.library.operators import operator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, FunctionNode
    from codemods.facts.reason import Place

# Methods of tensors whose arguments a gradient gets to, and not only the tensor itself.
_ARITHMETIC = frozenset(
    {"add", "sub", "mul", "div", "matmul", "mm", "bmm", "mv", "dot", "pow", "addmm", "baddbmm", "add_", "mul_"}
)
_NO_PARAMETERS = (
    *(Plain, Literal, Choice, Function, Method, External, Class, Unbound),
    *(SomeTensor, HostTensor, MovedTensor),
)
_WITH_INDICES = frozenset({Parts.VALUES_FIRST, Parts.ONE_OR_VALUES_FIRST})
_BRANCHES = (ast.If, ast.IfExp, ast.While, ast.Try, ast.Match, ast.BoolOp, ast.Break, ast.Continue)


def why_gradients_may_miss(model: Model) -> Reason | None:
    """Why some parameter may get no gradient from a loss of the model's output; None where each provably gets one."""
    for layer in model.layers:
        reason = (
            _why_library_layer(model.flow, layer) if isinstance(layer, Made) else _why_class(Model(model.flow, layer))
        )
        if reason is not None:
            return reason
    return None


def _missing(text: str, *places: Place) -> Reason:
    return Reason("gradients-may-miss", text, places)


def _why_library_layer(flow: Flow, layer: Value) -> Reason | None:
    name = layer.name.rpartition(".")[2]
    if not uses_all_parameters(layer.name):
        return _missing(f"whether all of {layer.name}() is used is not known")
    if name in {"Sequential", "ModuleList"} and isinstance(layer.site, ast.Call):
        for each in layer.site.args:
            values = flow.values(each.value if isinstance(each, ast.Starred) else each)
            items = frozenset().union(*(flow.items(one) if isinstance(one, Container) else {one} for one in values))
            if not items or not all(kind(flow, one) is Kind.MODEL for one in items):
                return _missing(f"what {layer.name}() holds is not known")
    if isinstance(layer.site, ast.Call) and any(
        each.arg in {"sparse", "scale_grad_by_freq"} for each in layer.site.keywords
    ):
        return _missing(f"{layer.name}() has gradients of its own kind")
    return None


def _why_class(model: Model) -> Reason | None:
    flow, class_ = model.flow, model.class_
    forward = flow.method(class_, "forward") if class_ is not None else None
    if class_ is None or forward is None:
        return _missing("the model's forward is not known")
    for base in flow.bases(class_):
        if isinstance(base, str) and base != "torch.nn.Module":
            return _missing(f"what {base} holds is not known")
    for node in (each for own in flow.project_bases(class_) for each in walk(own)):
        if isinstance(node, ast.Call) and last_name(node.func) in {
            "register_parameter",
            "add_module",
            "register_module",
            "setattr",
        }:
            return _missing(f"its layers are registered by name ({HERE})", place(flow, node))
    reached = _Reached(flow, class_)
    reason = reached.through(forward)
    if reason is not None:
        return reason
    for name, values in sorted(flow.attributes(class_).items()):
        held = _holds_parameters(flow, without_none(values))
        if held is None:
            return _missing(f"what self.{name} holds is not known")
        if held and name not in reached.attributes:
            return _missing(f"self.{name} is not used in forward in a way that surely gives it a gradient")
    return None


def _holds_parameters(flow: Flow, values: Values) -> bool | None:
    """Whether one of the values holds parameters; None where that is not known."""
    found = False
    for value in closure(values, lambda each: flow.items(each) if isinstance(each, Container) else ()):
        if isinstance(value, (Container, *_NO_PARAMETERS)) or kind(flow, value) in {Kind.LOSS, Kind.DEVICE}:
            continue
        if isinstance(value, Made) and has_no_parameters(value.name):
            continue
        if kind(flow, value) is Kind.MODEL or value.name == "torch.nn.Parameter":
            found = True
        else:
            return None
    return found


class _Reached:
    """The attributes of a model that a gradient of what its forward returns surely gets to."""

    def __init__(
        self, flow: Flow, class_: ast.ClassDef, known: dict[ast.ClassDef, frozenset[str]] | None = None
    ) -> None:
        self._flow = flow
        self._class = class_
        self._known = {class_: frozenset[str]()} if known is None else known
        """Of which parameters of their forwards models surely make use; of those that are looked at, of none."""
        self.attributes: set[str] = set()
        self._live: set[str] = set()
        self._inside: list[FunctionNode] = []

    def through(self, method: FunctionNode) -> Reason | None:
        """Goes back through a straight method from what it returns; the reason where that cannot be done."""
        if method.decorator_list:
            return _missing(f"{method.name} is decorated ({HERE})", place(self._flow, method.decorator_list[0]))
        for node in walk(method):
            if isinstance(node, _BRANCHES):
                return _missing(f"{method.name} has a branch ({HERE})", place(self._flow, node))
            if isinstance(node, (ast.With, ast.AsyncWith)):
                return _missing(f"{method.name} has a with block ({HERE})", place(self._flow, node))
            if isinstance(node, ast.Return) and node is not method.body[-1]:
                return _missing(f"{method.name} returns early ({HERE})", place(self._flow, node))
        last = method.body[-1]
        if not isinstance(last, ast.Return) or last.value is None:
            return _missing(f"{method.name} returns nothing")
        if isinstance(last.value, (ast.Tuple, ast.Dict, ast.List)):
            text = f"{method.name} returns several values, not all of which may be in the loss ({HERE})"
            return _missing(text, place(self._flow, last))
        self._live = set()
        self._inside.append(method)
        self._from(last.value)
        for statement in reversed(method.body[:-1]):
            self._back(statement)
        self._inside.pop()
        return None

    def parameters(self, method: FunctionNode) -> frozenset[str]:
        """The parameters that a gradient of what a method returns surely gets to."""
        return frozenset(self._live) if self.through(method) is None else frozenset()

    def _back(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign([ast.Name(name)], value) if name in self._live:
                self._live.discard(name)
                self._from(value)
            case ast.AugAssign(ast.Name(name), _, value) if name in self._live:
                self._from(value)
            case ast.For(ast.Name(layer), ast.Attribute(ast.Name("self"), name), body):
                self._back_through(body, layer, name)
            case _:
                stored = (
                    each.id
                    for each in walk(statement)
                    if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
                )
                self._live.difference_update(stored)

    def _back_through(self, body: list[ast.stmt], layer: str, attribute: str) -> None:
        """``for layer in self.layers: x = layer(x)``: does a gradient get to the layer in each of the passes?"""
        seen: list[set[str]] = []
        in_all = True
        while self._live not in seen:
            seen.append(set(self._live))
            for each in reversed(body):
                self._back(each)
            in_all = in_all and layer in self._live
            self._live.discard(layer)
        if in_all:
            self.attributes.add(attribute)

    def _from(self, node: ast.expr) -> None:
        """A gradient gets to the expression: where does it go on to?"""
        match node:
            case ast.Name(name):
                self._live.add(name)
            case ast.BinOp(left, _, right):
                self._from(left)
                self._from(right)
            case ast.UnaryOp(_, operand):
                self._from(operand)
            case ast.Subscript(operand, index):
                self._from_item(operand, index)
            case ast.Attribute(ast.Name("self"), name):
                if any(each.name == "torch.nn.Parameter" for each in self._flow.values(node)):
                    self.attributes.add(name)
            case ast.List(elements) | ast.Tuple(elements):
                for each in elements:
                    self._from(each)
            case ast.Call():
                self._from_call(node)

    def _from_item(self, operand: ast.expr, index: ast.expr) -> None:
        """Of values and the places where they stand a gradient gets to the values only."""
        if not isinstance(operand, ast.Call) or parts(self._flow, operand) not in _WITH_INDICES:
            self._from(operand)
        elif isinstance(index, ast.Constant) and index.value == 0:
            self._from_operands(operand.func, operand.args)

    def _makes_integers(self, call: ast.Call) -> bool:
        """``x.to(torch.long)``, ``x.type(torch.LongTensor)``."""
        given = arguments_of(call) if last_name(call.func) in {"to", "type"} else ()
        return any(has_integers(value) for each in given for value in self._flow.values(each))

    def _from_call(self, call: ast.Call) -> None:
        if parts(self._flow, call) not in _WITH_INDICES and not self._makes_integers(call):
            self._from_operands(call.func, call.args)

    def _from_operands(self, func: ast.expr, arguments: list[ast.expr]) -> None:
        callees = without_none(self._flow.values(func))
        is_layer = bool(callees) and all(kind(self._flow, each) is Kind.MODEL for each in callees)
        method = (
            self._flow.method(self._class, func.attr)
            if isinstance(func, ast.Attribute) and _is_self(func.value)
            else None
        )
        if method is not None:
            self._from_method(method, arguments)
            return
        if is_layer and isinstance(func, ast.Attribute) and _is_self(func.value):
            self.attributes.add(func.attr)
            arguments = self._used(callees, arguments)
        elif is_layer and isinstance(func, ast.Name):
            self._live.add(func.id)
            arguments = self._used(callees, arguments)
        elif _cuts(func) or operator(last_name(func)) is None:
            return
        elif (
            callees
            and all(isinstance(each, Method) and each.site is None for each in callees)
            and isinstance(func, ast.Attribute)
        ):
            self._from(func.value)
            if func.attr not in _ARITHMETIC:
                return
        elif not callees or not all(isinstance(each, External) and each.name.startswith("torch.") for each in callees):
            return
        for each in arguments:
            self._from(each)

    def _used(self, layers: Values, arguments: list[ast.expr]) -> list[ast.expr]:
        """The arguments of which each of the layers that may be called surely makes use."""
        found = arguments
        for layer in layers:
            class_ = Model(self._flow, layer).class_
            forward = self._flow.method(class_, "forward") if class_ is not None else None
            if class_ is not None and forward is not None:
                names = self._flow.signature(forward).positional_names
                used = {
                    each for name, each in zip(names, arguments, strict=False) if name in self._used_in(class_, forward)
                }
                found = [each for each in found if each in used]
        return found

    def _used_in(self, class_: ast.ClassDef, forward: FunctionNode) -> frozenset[str]:
        if class_ not in self._known:
            self._known[class_] = frozenset()
            self._known[class_] = _Reached(self._flow, class_, self._known).parameters(forward)
        return self._known[class_]

    def _from_method(self, method: FunctionNode, arguments: list[ast.expr]) -> None:
        """A gradient gets to what another method of the model returns."""
        outside, self._live = self._live, set()
        is_straight = method not in self._inside and self.through(method) is None
        inside, self._live = self._live, outside
        if is_straight:
            for name, each in zip(self._flow.signature(method).positional_names, arguments, strict=False):
                if name in inside:
                    self._from(each)


def depends(
    flow: Flow, expression: ast.expr, statements: list[ast.stmt], is_source: Callable[[ast.Call], bool]
) -> bool:
    """Whether the expression is surely computed from a source's result, by the neighbouring statements before it."""
    todo: list[ast.expr] = [expression]
    seen: set[ast.expr] = set()
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        match node:
            case ast.Name(name):
                todo.extend(_only_value(statements, name))
            case ast.BinOp(left, _, right):
                todo.extend((left, right))
            case ast.UnaryOp(_, operand) | ast.Subscript(operand):
                todo.append(operand)
            case ast.Call(func, arguments):
                if is_source(node):
                    return True
                if _cuts(func) or not _hands_on(flow, func):
                    continue
                todo.extend(arguments)
                todo.extend(each.value for each in node.keywords)
                if isinstance(func, ast.Attribute):
                    todo.append(func.value)
    return False


def _hands_on(flow: Flow, func: ast.expr) -> bool:
    """Whether what a call returns depends on its arguments in every run: a project's function may return a constant."""
    callees = without_none(flow.values(func))
    return bool(callees) and all(_is_torchs_own(flow, each) or _is_straight(flow.run_by(each)) for each in callees)


def _is_torchs_own(flow: Flow, callee: Value) -> bool:
    if isinstance(callee, External):
        return callee.name.startswith(("torch.", "builtins."))
    if isinstance(callee, Method):
        return callee.site is None
    return (
        isinstance(callee, Made) and callee.name.startswith("torch.") and kind(flow, callee) in {Kind.LOSS, Kind.MODEL}
    )


def _is_straight(function: Callee | None) -> bool:
    """Whether a function computes what it returns in the same way whatever it is given."""
    return (
        isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        and isinstance(function.body[-1], ast.Return)
        and not any(
            isinstance(node, _BRANCHES) or (isinstance(node, ast.Return) and node is not function.body[-1])
            for node in walk(function)
        )
    )


def _only_value(statements: list[ast.stmt], name: str) -> Iterator[ast.expr]:
    """The value of the name where the statements bind it once only."""
    stores = [
        each for part in statements for each in walk(part) if is_name(each, name) and not isinstance(each.ctx, ast.Load)
    ]
    if len(stores) != 1:
        return
    for statement in statements:
        if isinstance(statement, ast.Assign) and any(each is stores[0] for each in statement.targets):
            yield statement.value


def _is_self(node: ast.expr) -> bool:
    return is_name(node, "self")


def _cuts(func: ast.expr) -> bool:
    """Whether what the operator of that name returns has no graph."""
    row = operator(last_name(func))
    return row is not None and not row.carries_graph
