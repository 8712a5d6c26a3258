"""What the statements of a function do one after the other: which value each of its names has, and what it returns."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from codemods.dataflow.source import walk
from codemods.facts.cost.amounts import UNKNOWN, Built, Layer, children, is_exact, is_long
from codemods.facts.cost.arithmetic import operate
from codemods.library.kinds import Kind, kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codemods.dataflow.flow import Flow

Names: TypeAlias = "dict[str, Any]"

ADDING = frozenset({"append", "extend", "insert", "add_module", "register_module"})
"""Methods that add to a list or a layer."""
_BRANCHING = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.With, ast.AsyncWith, ast.Match)


class NotKnownError(Exception):
    """What is asked for depends on what is not known."""


class _ReturnError(Exception):
    """A function's end."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value


class Expressions(Protocol):
    """What says what the expressions in the statements come to."""

    def value(self, node: ast.expr, names: Names) -> Any:  # noqa: ANN401 - whatever it is
        """What an expression comes to."""

    def truth(self, node: ast.expr, names: Names) -> bool | None:
        """Whether a test holds; None where that is not known."""

    def perform(self, call: ast.Call, names: Names) -> None:
        """Makes a call whose result nobody reads."""

    def step(self) -> None:
        """Counts what is followed.

        Raises:
            NotKnownError: when there were too many steps.
        """


class Statements:
    """Runs statements, as far as it is known what they do."""

    def __init__(self, flow: Flow, expressions: Expressions) -> None:
        self._flow = flow
        self._expressions = expressions

    def run(self, body: Iterable[ast.stmt], names: Names) -> Any:  # noqa: ANN401 - whatever it is
        """What a function returns.

        Args:
            body: Its statements.
            names: Its names with their values, which the statements change.

        Raises:
            NotKnownError: when that depends on what is not known.
        """
        try:
            self._run_all(body, names)
        except _ReturnError as end:
            return end.value
        return None

    def _run_all(self, body: Iterable[ast.stmt], names: Names) -> None:  # noqa: C901 - one case each
        for statement in body:
            self._expressions.step()
            match statement:
                case ast.Return(value):
                    raise _ReturnError(self._expressions.value(value, names) if value is not None else None)
                case ast.Assign(targets, value):
                    assigned = self._expressions.value(value, names)
                    for target in targets:
                        self.bind(target, assigned, names)
                case ast.AnnAssign(target, _, value) if value is not None:
                    self.bind(target, self._expressions.value(value, names), names)
                case ast.AugAssign(target, operation, value):
                    self._augment(target, operation, self._expressions.value(value, names), names)
                case ast.Expr(ast.Call() as call):
                    self._expressions.perform(call, names)
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    names.pop(statement.name, None)
                case ast.If(test, then, otherwise):
                    holds = self._expressions.truth(test, names)
                    if holds is None:
                        self._skip(statement, names)
                    else:
                        self._run_all(then if holds else otherwise, names)
                case ast.For():
                    self._loop(statement, names)
                case ast.With():
                    self._run_all(statement.body, names)
                case _ if isinstance(statement, _BRANCHING):
                    self._skip(statement, names)

    def _loop(self, statement: ast.For, names: Names) -> None:
        items = self._expressions.value(statement.iter, names)
        if isinstance(items, Layer):
            items = children(items)
        if not isinstance(items, (list, tuple, range, dict)):
            self._skip(statement, names)
            return
        for item in items:
            self.bind(statement.target, item, names)
            self._run_all(statement.body, names)
            if any(isinstance(each, (ast.Break, ast.Continue)) for each in walk(statement)):
                raise NotKnownError

    def _skip(self, statement: ast.stmt, names: Names) -> None:
        """Code that may run or may not: it must build nothing, and what it binds is not known any more."""
        for node in walk(statement):
            if isinstance(node, ast.Return):
                raise NotKnownError
            if isinstance(node, ast.Call):
                adds = isinstance(node.func, ast.Attribute) and node.func.attr in ADDING
                if adds or any(kind(self._flow, each) is Kind.MODEL for each in self._flow.values(node)):
                    raise NotKnownError
            is_stored = isinstance(getattr(node, "ctx", None), ast.Store)
            if is_stored and isinstance(node, (ast.Name, ast.Attribute)):
                # A layer that is perhaps taken away counts.
                held = self._expressions.value(node, names)
                self.bind(node, held if isinstance(held, (Layer, Built)) else UNKNOWN, names)

    def _augment(self, target: ast.expr, operation: ast.operator, value: object, names: Names) -> None:
        before = self._expressions.value(target, names)
        if isinstance(before, (list, Layer)) and isinstance(operation, ast.Add):
            if isinstance(before, Layer) or not isinstance(value, (list, tuple)) or is_long(before):
                raise NotKnownError
            before.extend(value)
            return
        self.bind(target, operate(operation, before, value), names)

    def bind(self, target: ast.expr, value: object, names: Names) -> None:  # noqa: C901 - one case each
        """Gives a value to what a statement assigns to: a name, an attribute, an item, or several of them."""
        match target:
            case ast.Name(name):
                names[name] = value
            case ast.Attribute(owner, name):
                is_name = isinstance(owner, (ast.Name, ast.Attribute))
                holder = self._expressions.value(owner, names) if is_name else UNKNOWN
                if isinstance(holder, Built):
                    holder.attributes[name] = value
            case ast.Tuple(elements) | ast.List(elements):
                is_known = isinstance(value, (list, tuple)) and len(value) == len(elements)
                parts = value if is_known and isinstance(value, (list, tuple)) else [UNKNOWN] * len(elements)
                for each, part in zip(elements, parts, strict=True):
                    self.bind(each, part, names)
            case ast.Subscript(ast.Name(name), key):
                holder, index = names.get(name), self._expressions.value(key, names)
                if isinstance(holder, dict) and (isinstance(index, str) or is_exact(index)):
                    holder[index] = value
                elif isinstance(holder, (list, Layer)):
                    raise NotKnownError
            case ast.Subscript():
                if isinstance(value, (Layer, Built)):
                    raise NotKnownError
