"""Which numbers does a loop read from the device in each pass, of which only few passes have a use?"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.names import bound_names, declared_outer, lists_object
from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import FUNCTIONS, is_name, walk
from codemods.facts.models.local_steps import may_change, names_of_one
from codemods.facts.numbers import is_without_dimensions
from codemods.facts.reaching import reaching, targets
from codemods.facts.training.step_loops import rare_suite
from codemods.facts.training.written_by_calls import writes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.facts.devices.readings import Reading
    from codemods.facts.training.totals import Loop

_ROUNDS = frozenset({"float", "int", "round"})
_LOOK_AT_ALL = frozenset({"locals", "globals", "vars", "eval", "exec"})
_TAKE_THE_SAME = frozenset({"data", "detach"})


@dataclass(frozen=True, eq=False)
class SeldomUse:
    """``value = loss.item()``, of which only what stands under ``if i % 100 == 0:`` further down has a use."""

    statement: ast.Assign
    anchor: ast.stmt
    """The first statement there that reads the name: what comes before it can read the number as well."""
    readings: tuple[Reading, ...]
    """What the statement reads from the device."""


def seldom_uses(flow: Flow, loop: Loop, readings: Sequence[Reading]) -> Iterator[SeldomUse]:
    """The statements that read numbers in each pass and could do so in few, with the same outcome."""
    by_statement: dict[ast.stmt, list[Reading]] = {}
    for one in readings:
        by_statement.setdefault(one.module.statement(one.node), []).append(one)
    for statement, read in by_statement.items():
        match statement:
            case ast.Assign([ast.Name(name)], value) if statement.lineno == statement.end_lineno:
                found = _Sinking(flow, read[0].module, loop, statement, name, value, tuple(read))
                anchor = found.anchor()
                if anchor is not None:
                    yield SeldomUse(statement, anchor, found.readings)


@dataclass(frozen=True, eq=False)
class _Sinking:
    """A statement that gives a name what it reads, and whether it may stand further down."""

    flow: Flow
    module: Module
    loop: Loop
    statement: ast.Assign
    name: str
    value: ast.expr
    readings: tuple[Reading, ...]

    def anchor(self) -> ast.stmt | None:
        """Before which statement it may stand; None where it has to stay."""
        if not self._is_plain() or self._is_seen_elsewhere():
            return None
        scope = self.module.function(self.statement) or self.module.tree
        inside = walk(self.loop)
        reads = reaching(scope).readers(self.value)
        suites = [rare_suite(self.module, self.loop, each) if each in inside else None for each in reads]
        suite = suites[0] if suites else None
        if suite is None or any(each is not suite for each in suites):
            return None
        anchor = next((each for each in suite if reads[0] in walk(each)), None)
        between = self._between(anchor) if anchor is not None else None
        concerned = self._concerned()
        if between is None or concerned is None:
            return None
        is_changed = any(may_change(each, name) for each in between for name in concerned)
        return None if is_changed or any(self._is_handed(each, concerned) for each in between) else anchor

    def _is_plain(self) -> bool:
        """Whether nothing but these readings is computed, which have no other effect: numbers, displays, sums."""
        readings = {each.node for each in self.readings}
        of_readings = {node for each in readings for node in walk(each)}
        for node in walk(self.value):
            if node in of_readings:
                continue
            if isinstance(node, (ast.Attribute, ast.Subscript, ast.Lambda, ast.ListComp, ast.DictComp, ast.Await)):
                return False
            if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in _ROUNDS):
                return False
        return True

    def _is_seen_elsewhere(self) -> bool:
        """Whether code of other functions may read the name, or all names at once."""
        function = self.module.function(self.statement)
        if function is not None and self.name in declared_outer(function):
            return True
        scope = function or self.module.tree
        for node in walk(scope):
            if is_name(node, self.name) and self._is_free(node, function):
                return True
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            if node.func.id in _LOOK_AT_ALL and not lists_object(self.module, node, {self.name}):
                return True
        return False

    def _is_free(self, node: ast.AST, function: Callee | None) -> bool:
        """Whether the name stands in another function, of which it is no own one."""
        inner = self.module.function(node)
        if inner is function or inner is None:
            return False
        return self.name not in bound_names(inner) or self.name in declared_outer(inner)

    def _between(self, anchor: ast.stmt) -> Sequence[ast.AST] | None:
        """What runs between the statement and the other one, under conditions below; None where that is not known."""
        found: list[ast.AST] = []
        here, home = anchor, self.module.suite(self.statement)
        while (suite := self.module.suite(here)) is not home:
            above = self.module.parent(here)
            if not isinstance(above, ast.If):
                return None
            found += [*suite[: suite.index(here)], above.test]
            here = above
        first, last = suite.index(self.statement), suite.index(here)
        return [*found, *suite[first + 1 : last]] if first < last else None

    def _concerned(self) -> set[str] | None:
        """The names that it reads; None where a tensor may be one that the iteration changes, such as a parameter."""
        scope = self.module.function(self.statement) or self.module.tree
        inside = walk(self.loop)
        found: set[str] = set()
        for one in self.readings:
            tensor = _root(one.tensor)
            if tensor is None or not one.is_sure or not is_without_dimensions(self.flow, one.module, tensor):
                return None
            bound = targets(scope).of(tensor)
            given = reaching(scope).given(tensor) or ()
            if not bound or any(each not in inside for each in (*bound, *given)):
                return None  # it was made before the loop
            found |= {*names_of_one(self.loop, tensor.id)}
        return found | {each.id for each in walk(self.value) if isinstance(each, ast.Name)}

    def _is_handed(self, node: ast.AST, concerned: set[str]) -> bool:
        """Whether a function is given one of the names, which may change what it holds."""
        for call in (each for each in walk(node) if isinstance(each, ast.Call)):
            is_given = any(is_name(each, name) for each in arguments_of(call) for name in concerned)
            if (is_given and self.flow.called(call)) or any(writes(self.flow, call, name) for name in concerned):
                return True
        return any(isinstance(each, FUNCTIONS) for each in walk(node))


def _root(node: ast.expr) -> ast.Name | None:
    """``loss`` of ``loss``, ``loss.data`` and ``loss.detach()``; None of anything else."""
    match node:
        case ast.Name():
            return node
        case ast.Attribute(inner, name) | ast.Call(ast.Attribute(inner, name), [], []) if name in _TAKE_THE_SAME:
            return _root(inner)
    return None
