"""Which names of a function or module may lead to the same memory: views, parts, other names, what is in a list."""

from __future__ import annotations

import ast
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from codemods.dataflow.forward import ForwardAnalysis
from codemods.dataflow.names import words
from codemods.dataflow.recursion import Answers
from codemods.dataflow.signatures import arguments_of, signature
from codemods.dataflow.source import lasting
from codemods.dataflow.values import (
    Class,
    Container,
    External,
    Function,
    Literal,
    Made,
    Plain,
    library_names,
    without_none,
)
from codemods.facts.autograd.carriers import hands_out, passes_on
from codemods.facts.training.iterations import called_functions
from codemods.library.drawing import samples_without_graph
from codemods.library.kinds import Kind, kind
from codemods.library.operations import operands, operation
from codemods.library.operators import Memory, attribute

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from codemods.dataflow.effects import Doing
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee
    from codemods.dataflow.values import Value, Values

_Roots: TypeAlias = "frozenset[ast.AST | str]"
"""The expressions that made some memory, or the names of what was there before."""
_NO_ROOTS: _Roots = frozenset()
_CONTAINERS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.SetComp, ast.DictComp)
"""What makes a container that can take something up."""
_DISPLAYS = (*_CONTAINERS, ast.Tuple)


class _Leads(NamedTuple):
    """What an expression leads to."""

    own: _Roots = _NO_ROOTS
    """What it may be itself, or a view of."""
    inside: _Roots = _NO_ROOTS
    """What may be in it, where it is a container."""

    @property
    def all(self) -> _Roots:
        return self.own | self.inside

    @property
    def item(self) -> _Leads:
        """What an item or a part of it leads to; a list that is written out is no item of itself."""
        return _Leads(
            frozenset(each for each in self.own if not isinstance(each, _DISPLAYS)) | self.inside, self.inside
        )

    def joined(self, other: _Leads) -> _Leads:
        return _Leads(self.own | other.own, self.inside | other.inside)


_NOTHING = _Leads()


KEEPS = frozenset(
    {"append", "appendleft", "extend", "extendleft", "add", "insert", "put", "put_nowait", "push", "store", "remember"}
    | {"setdefault"}
)
"""Methods by which a container takes up what it is given."""
_PUTS = KEEPS | {"update", "__setitem__"}
_OWN = frozenset({Memory.NEW, Memory.NONE})
_HANDING_ON = words("torch.nn.Dropout torch.nn.Flatten torch.nn.Identity torch.nn.Unflatten torch.nn.Unfold")
"""Layers that may return what they are given, or a view of it."""


def leading_to(
    flow: Flow, statement: ast.stmt, node: ast.expr, *, is_list: bool = False
) -> tuple[list[str], list[str]]:
    """The names that may lead to the tensor or container that an expression is or shows, where a statement begins.

    Numbers, functions, models and the like are none of them.

    Args:
        flow: The values of the project.
        statement: A statement of the project, or another one, for which nothing is known.
        node: The expression.
        is_list: Whether it is known to be a container, such as ``results["outputs"]`` that is appended to.

    Returns:
        Those that are bound before the statement; those of what was there before the function, or is bound around it.
    """
    module = next((each for each in flow.modules if each.holds(statement)), None)
    if module is None:
        return [], []
    walk = _followed(flow, module.function(statement) or module.tree)
    names = walk.before.get(statement, {})
    here = _Walk(flow, {**walk.ever, **names})
    roots = here.of(node).own
    while is_list and isinstance(node, ast.Subscript):
        node = node.value
        around = here.of(node)
        roots = around.own | {each for each in around.inside if isinstance(each, _CONTAINERS)}
    values = flow.before(statement)
    bound = (name for name, held in names.items() if held.all & roots)
    others = (each for each in roots if isinstance(each, str))
    return (
        sorted(each for each in bound if not _is_no_memory(flow, values.get(each, frozenset()))),
        sorted(each for each in others if each in names or not _is_no_memory(flow, values.get(each, frozenset()))),
    )


def _is_no_memory(flow: Flow, values: Values) -> bool:
    """Whether all of some values are known to be no tensors and to hold none that can be handed out."""
    known = without_none(values)
    return bool(known) and all(
        isinstance(each, (Class, External, Function, Literal, Plain)) or kind(flow, each) is not None for each in known
    )


@lasting
def _followed(flow: Flow, scope: Callee | ast.Module) -> _Walk:
    walk = _Walk(flow, {})
    if not isinstance(scope, ast.Lambda):
        walk.run(scope.body)
    return walk


@lasting
def _results(flow: Flow) -> Answers[Callee, _Leads]:
    """What the functions of the project return, or yield."""

    def result(function: Callee) -> _Leads:
        walk = _Walk(flow, {})
        if isinstance(function, ast.Lambda):
            return walk.of(function.body)
        walk.run(function.body)
        return walk.result

    return Answers(result, _NOTHING, _Leads.joined)


class _Walk(ForwardAnalysis[_Leads]):
    """A name holds what it leads to; one that nothing here has bound yet leads to what is known by that name."""

    def __init__(self, flow: Flow, names: Mapping[str, _Leads]) -> None:
        super().__init__(names, _NOTHING)
        self._flow = flow
        self.before: dict[ast.stmt, dict[str, _Leads]] = {}
        """What the names may lead to before each statement."""
        self.ever: dict[str, _Leads] = {}
        """What each name ever led to, those of comprehensions among them."""
        self.result = _NOTHING
        """What is returned, or yielded."""

    def join(self, one: _Leads, other: _Leads) -> _Leads:
        return one.joined(other)

    def reached(self, statement: ast.stmt) -> None:
        known = self.before.setdefault(statement, {})
        for name, held in self.names.items():
            known[name] = known.get(name, _NOTHING).joined(held)

    def bound(self, target: ast.Name, held: _Leads) -> None:
        self.ever[target.id] = self.ever.get(target.id, _NOTHING).joined(held)

    def element(self, node: ast.expr) -> _Leads:
        return self.of(node).item

    def entered(self, node: ast.expr) -> _Leads:
        return self.of(node).item

    def captured(self, node: ast.expr) -> _Leads:
        return self.of(node).item

    def returned(self, statement: ast.Return) -> None:
        if statement.value is not None:
            self.result = self.result.joined(self.of(statement.value))

    def augmented(self, statement: ast.AugAssign) -> _Leads:
        held = self.of(statement.target)
        if any(isinstance(each, Container) for each in self._flow.values(statement.value)):  # ``views += [x[:4]]``
            given = self.of(statement.value).all
            self._take_up(held.own, given)
            held = held.joined(_Leads(inside=given))
        return held

    def stored(self, target: ast.Attribute | ast.Subscript, held: _Leads) -> None:
        self._take_up(self.of(target.value).own, held.all)

    def done(self, node: Doing, *, is_statement: bool) -> None:  # noqa: ARG002 - whatever becomes of its value
        if not isinstance(node, ast.Call):
            self.result = self.result if node.value is None else self.result.joined(self.of(node.value))
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _PUTS:
            self._take_up(self.of(node.func.value).own, self._all_of(arguments_of(node)))

    def _take_up(self, container: _Roots, held: _Roots) -> None:
        """What leads to a container leads to what is put into it, too."""
        for name in {*self.names, *(each for each in container if isinstance(each, str))}:
            before = self.names.get(name, _Leads(frozenset({name})))
            if before.all & container:
                self.put(name, before.joined(_Leads(inside=held)))

    def _all_of(self, nodes: Iterable[ast.expr]) -> _Roots:
        return _NO_ROOTS.union(*(self.of(each).all for each in nodes))

    def of(self, node: ast.expr) -> _Leads:  # noqa: C901 - a table of cases
        new = _Leads(frozenset({node}))
        match node:
            case ast.Name(name):
                named = _NOTHING if _is_no_memory(self._flow, self._flow.values(node)) else _Leads(frozenset({name}))
                return self.names.get(name, named)
            case ast.Attribute(value, name):
                row = attribute(name)
                is_apart = row is not None and (row.memory in _OWN or not row.carries_graph)
                is_apart = is_apart or _is_no_memory(self._flow, self._flow.values(node))
                return _NOTHING if is_apart else self.of(value).item
            case ast.Subscript(value) | ast.Await(value):
                return self.of(value).item
            case ast.Starred(value) | ast.NamedExpr(_, value):
                return self.of(value)
            case ast.Call():
                return self._of_call(node)
            case ast.List() | ast.Tuple() | ast.Set() | ast.Dict():
                parts = node.values if isinstance(node, ast.Dict) else node.elts
                return _Leads(new.own, self._all_of(parts))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return _Leads(new.own, self.comprehended(node).all)
            case ast.IfExp(_, body, orelse):
                return self.of(body).joined(self.of(orelse))
            case ast.BoolOp(_, values):
                return reduce(_Leads.joined, map(self.of, values))
            case ast.BinOp(left, _, right):
                # Of lists, it holds what they do.
                is_list = any(isinstance(each, Container) for each in self._flow.values(node))
                return _Leads(new.own, self._all_of((left, right))) if is_list else new
            case ast.UnaryOp():
                return new
        return _NOTHING

    def _of_call(self, call: ast.Call) -> _Leads:
        callees = without_none(self._flow.values(call.func))
        row = operation(self._flow, call)
        if (row is not None and (row.memory in _OWN or not row.carries_graph)) or (
            callees and all(map(samples_without_graph, callees))
        ):
            return _Leads(frozenset({call}))
        if row is not None:
            operand = operands(self._flow, call)
            return self.of(operand[0]).item if operand else _NOTHING
        receiver = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        functions = called_functions(self._flow, call)
        if functions and len(functions) == len(callees):
            return reduce(_Leads.joined, (self._of_function(each, call, receiver) for each in functions))
        forwards = [each for each in map(self._flow.run_by, callees) if each is not None]
        if forwards and len(forwards) == len(callees):
            return reduce(_Leads.joined, (self._of_function(each, call, receiver) for each in forwards))
        given, externals = [*receiver, *arguments_of(call)], library_names(callees)
        if callees and all(kind(self._flow, each) in {Kind.MODEL, Kind.LOSS} for each in callees):
            hands_on = any(self._hands_on(each) for each in callees)
            given = given if hands_on else []
        elif externals and len(externals) == len(callees):
            hands_on = any(hands_out(each) or passes_on(each) for each in externals)
            given = arguments_of(call) if hands_on else []
        return _Leads(self._all_of(given) | {call}, self._all_of(given))

    def _hands_on(self, layer: Value, around: frozenset[Value] = frozenset()) -> bool:
        """Whether a layer may return what it is given, or a view of it; several in sequence do where all of them do.

        One call makes sequences that stand in each other, as ``self.net = nn.Sequential(self.net, layer)`` does: what
        another layer does decides there.
        """
        if layer in around:
            return True
        if isinstance(layer, Made) and layer.name == "torch.nn.Sequential" and isinstance(layer.site, ast.Call):
            inside, layers = around | {layer}, arguments_of(layer.site)
            return all(any(self._hands_on(value, inside) for value in self._flow.values(each)) for each in layers)
        return isinstance(layer, (External, Made)) and layer.name in _HANDING_ON

    def _of_function(self, function: Callee, call: ast.Call, receiver: list[ast.expr]) -> _Leads:
        """What a call of a function of the project leads to: where that returns parameters, what these are given."""
        binding, result = self._flow.bind(function, call), _results(self._flow).of(function)
        given: Mapping[str, Iterable[ast.expr]] = dict(binding.filled())
        found, parameters = [_Leads(frozenset({call}))], frozenset(signature(function).names)
        for root in result.all:
            if isinstance(root, str):
                roots = self._all_of(given.get(root, binding.rest or receiver)) | ({root} - parameters)
                found.append(_Leads(roots if root in result.own else _NO_ROOTS, roots))
        return reduce(_Leads.joined, found)
