"""From which statements of a loop is a loss computed, so that its graph goes through them?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import walk
from codemods.dataflow.values import Container, library_names
from codemods.facts.autograd.carriers import may_carry
from codemods.facts.reach import is_model_call, own
from codemods.facts.training.iterations import called_functions
from codemods.library.kinds import Kind, kind
from codemods.library.operators import attribute, operator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module

_PLAIN = (
    *(ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Tuple, ast.Constant, ast.expr_context, ast.keyword),
    *(ast.Subscript, ast.Slice),
)
"""What hands on the graphs of its parts, and none besides."""


class NotSeenError(Exception):
    """A graph may come from where it is not seen."""


class LossSlices:
    """Follows losses back through the assignments of a loop.

    Args:
        flow: The values of the project.
        module: Where the loop stands.
        loop: The loop.
    """

    def __init__(self, flow: Flow, module: Module, loop: ast.For | ast.While) -> None:
        self._flow = flow
        self._module = module
        self._loop = loop
        self._stores: dict[str, list[ast.Name]] = {}
        for name in own(loop, ast.Name):
            if isinstance(name.ctx, ast.Store):
                self._stores.setdefault(name.id, []).append(name)
        target = loop.target if isinstance(loop, ast.For) else None
        self._handed_out = {each.id for each in walk(target) if isinstance(each, ast.Name)} if target else set()

    def of(self, loss: ast.expr) -> frozenset[ast.Assign] | None:
        """The assignments of the loop's own suite that a loss is computed by; None where others may take part."""
        found: set[ast.Assign] = set()
        try:
            todo = list(self._read(loss))
            while todo:
                for assignment in self._bound_by(todo.pop()) - found:
                    found.add(assignment)
                    todo += self._read(assignment.value)
        except NotSeenError:
            return None
        return frozenset(found)

    def _bound_by(self, name: ast.Name) -> set[ast.Assign]:
        """The assignments that give a name what it holds in the loop."""
        if any(isinstance(each, Container) and each.name != "tuple" for each in self._flow.values(name)):
            raise NotSeenError  # others may have put something into it
        if name.id in self._handed_out:
            return set()
        found: set[ast.Assign] = set()
        for store in self._stores.get(name.id, ()):
            statement = self._module.statement(store)
            is_own = isinstance(statement, ast.Assign) and any(statement is each for each in self._loop.body)
            if not is_own or not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
                raise NotSeenError
            found.add(statement)
        return found

    def _read(self, node: ast.AST) -> Iterator[ast.Name]:
        """The names that an expression reads with their graphs."""
        match node:
            case ast.Name():
                yield node
            case ast.Attribute(value, name):
                row = attribute(name)
                if row is not None and not row.carries_graph:
                    return  # ``x.data``
                if row is not None:
                    yield from self._read(value)
                elif may_carry(self._flow, self._flow.values(node)):
                    raise NotSeenError
            case ast.Call():
                yield from self._read_by(node)
            case _ if isinstance(node, _PLAIN):
                for part in ast.iter_child_nodes(node):
                    yield from self._read(part)
            case _:
                raise NotSeenError

    def _read_by(self, call: ast.Call) -> Iterator[ast.Name]:
        given: list[ast.AST] = [*call.args, *call.keywords]
        values = self._flow.values(call.func)
        is_known = is_model_call(self._flow, call) or bool(called_functions(self._flow, call))
        is_known = is_known or (bool(values) and len(library_names(values)) == len(values))
        if not is_known and all(kind(self._flow, each) is not Kind.LOSS for each in values):
            row = operator(call.func.attr) if isinstance(call.func, ast.Attribute) else None
            if row is None or not isinstance(call.func, ast.Attribute):
                raise NotSeenError
            if not row.carries_graph:
                return  # ``x.detach()``
            given.append(call.func.value)
        for each in given:
            yield from self._read(each)
