"""What a loop does to each tensor of a model by itself, as operations on the list of all of them."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from codemods.dataflow.source import walk
from codemods.facts.models.local_numbers import is_number
from codemods.facts.reason import HERE, Reason, at
from codemods.library.foreach import METHODS, OPERATORS, is_exact, since

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module


@dataclass(frozen=True, slots=True)
class Column:
    """One tensor of each parameter: itself, ``p.data``, ``p.grad``."""

    variable: str
    """What the loop calls the parameter."""
    code: str
    is_gradient: bool = False
    is_detached: bool = False

    @property
    def memory(self) -> tuple[str, bool]:
        """What tells the memory that it names: ``p`` and ``p.data`` are the same numbers."""
        return self.variable, self.is_gradient


@dataclass(frozen=True, slots=True)
class Applied:
    """What an operator makes of the tensors of a list, with those of another list or with one number."""

    name: str
    left: Operand
    right: Operand | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """A result that is computed before the operation that uses it."""

    value: Applied


@dataclass(frozen=True, slots=True)
class Change:
    """The tensors of a list are changed in place."""

    name: str
    target: Column
    operand: Operand | None = None
    alpha: str = ""
    """What the operand is multiplied by on the way, or its weight; empty where it is not."""


Operand: TypeAlias = "Column | Applied | Kept | str"
"""Lists of tensors; a text is a number, as it is written."""
Step: TypeAlias = "Kept | Change"


class NoFormError(Exception):
    """There is no operation on lists for it."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.text)
        self.reason = reason


@dataclass(frozen=True)
class Elementwise:
    """Reads statements of a loop over parameters."""

    flow: Flow
    module: Module
    variables: Collection[str]
    """What the loop calls the parameters."""

    def steps(self, statement: ast.stmt) -> list[Step]:
        """What the statement does to the tensors.

        Raises:
            NoFormError: where there are no operations on lists for it.
        """
        match statement:
            case ast.AugAssign(target, operator, value):
                column = self.column(target)
                name = OPERATORS.get(type(operator).__name__)
                if column is not None and name is not None:
                    return [self._change(column, f"{name}_", value)]
            case ast.Expr(ast.Call() as call):
                return self._called(call)
            case ast.Assign([ast.Subscript() as target], value) if self._computes(value):
                text = f"{self._shown(target)} is made anew each time ({HERE}), which no function for lists does:"
                remedy = "keep the tensors in a list, and change them in place"
                raise NoFormError(Reason("not-elementwise", text, (at(self.module, statement),), remedy))
            case ast.Assign([ast.Attribute() as target]) if self.column(target) is not None:
                text = f"{self._shown(target)} is given other memory, which no function for lists does ({HERE}):"
                remedy = "copy_() keeps the memory"
                raise NoFormError(Reason("not-elementwise", text, (at(self.module, statement),), remedy))
        raise self._no_form(statement)

    def updates(self, statement: ast.stmt) -> bool:
        """Whether the statement changes a parameter in place, or its gradient."""
        match statement:
            case ast.AugAssign(target):
                return self.column(target) is not None
            case ast.Assign([ast.Attribute() as target], value):
                return self.column(target) is not None and self._has_tensors(value)
            case ast.Assign([ast.Subscript()], value):
                return self._computes(value)
            case ast.Expr(ast.Call(ast.Attribute(tensor, name))) if name in METHODS:
                while isinstance(tensor, ast.Call) and isinstance(tensor.func, ast.Attribute):
                    tensor = tensor.func.value
                return self.column(tensor) is not None
        return False

    def _computes(self, value: ast.expr) -> bool:
        """Whether something is computed of a parameter itself, as an average is: ``0.9 * a[n] + 0.1 * p``."""
        sides = (side for each in walk(value) if isinstance(each, ast.BinOp) for side in (each.left, each.right))
        return any(self.column(each) is not None for each in sides)

    def column(self, node: ast.expr) -> Column | None:
        """The tensor of each parameter that the expression is, if it is one."""
        match node:
            case ast.Name(name) if name in self.variables:
                return Column(name, name)
            case ast.Attribute(owner, "data" | "grad" as attribute):
                found = self.column(owner)
                if found is None or (attribute == "grad" and (found.is_gradient or found.is_detached)):
                    return None
                code = f"{found.code}.{attribute}"
                is_data = attribute == "data"
                return replace(found, code=code, is_gradient=found.is_gradient or not is_data, is_detached=is_data)
            case ast.Call(ast.Attribute(owner, "detach"), [], []):
                found = self.column(owner)
                return replace(found, code=f"{found.code}.detach()", is_detached=True) if found is not None else None
        return None

    # Calls of methods, one after the other.

    def _called(self, call: ast.Call) -> list[Step]:
        match call.func:
            case ast.Attribute(owner, method) if method in METHODS:
                before = self._called(owner) if isinstance(owner, ast.Call) and self.column(owner) is None else []
                column = before[-1].target if before and isinstance(before[-1], Change) else self.column(owner)
                if column is not None:
                    return [*before, *self._method(column, call, method)]
        raise self._no_form(call)

    def _method(self, column: Column, call: ast.Call, method: str) -> list[Step]:
        given = {each.arg: each.value for each in call.keywords}
        match method, call.args:
            case "clamp_", _:
                bounds = dict(zip(("min", "max"), call.args, strict=False)) | given
                names = {"min": "clamp_min_", "max": "clamp_max_"}
                if len(call.args) <= len(names) and bounds and bounds.keys() <= names.keys():
                    return [Change(names[each], column, self._number(bounds[each])) for each in names if each in bounds]
            case "copy_", [value] if not given:
                return self._copied(column, value)
            case (("zero_" | "neg_"), []) if not given:
                return [Change(method, column)]
            case (("add_" | "sub_"), [value]) if given.keys() <= {"alpha"}:
                alpha = self._number(given["alpha"]) if "alpha" in given else ""
                return [replace(self._change(column, method, value), alpha=alpha)]
            case (("mul_" | "div_" | "clamp_min_" | "clamp_max_"), [value]) if not given:
                return [Change(method, column, self._number(value))]
            case "lerp_", [end, *rest] if len(rest) + len(given) == 1 and given.keys() <= {"weight"}:
                weight = self._number(rest[0] if rest else given["weight"])
                return [Change(method, column, self._tensors(end), weight)]
        raise self._no_form(call)

    def _change(self, column: Column, name: str, value: ast.expr) -> Change:
        """What adds tensors or a number to those of the column, or scales them by a number."""
        return Change(name, column, self._tensors(value) if self._has_tensors(value) else self._number(value))

    def _copied(self, column: Column, value: ast.expr) -> list[Step]:
        """``t.copy_(a * p + b * t)`` as operations in place, each of which rounds as those of the expression do."""
        made = self._tensors(value)
        if isinstance(made, Column):
            return [Change("copy_", column, made)]
        if made.name == "mul" and self._is_of(column, made.left) and isinstance(made.right, str):
            return [Change("mul_", column, made.right)]
        sides = [(made.left, made.right), (made.right, made.left)] if made.name == "add" else [(made.left, made.right)]
        for own, other in sides if made.name in {"add", "sub"} else ():
            if not isinstance(other, Applied):
                continue
            if self._is_of(column, own):
                return [Change(f"{made.name}_", column, other)]
            if isinstance(own, Applied) and own.name == "mul" and self._is_of(column, own.left):
                # Where both names are the same memory, what is added is computed of what was there before.
                kept = Kept(other)
                return [kept, Change("mul_", column, own.right), Change(f"{made.name}_", column, kept)]
        raise self._no_form(value)

    @staticmethod
    def _is_of(column: Column, operand: Operand | None) -> bool:
        return isinstance(operand, Column) and operand.memory == column.memory

    # Expressions.

    def _tensors(self, node: ast.expr) -> Column | Applied:
        column = self.column(node)
        if column is not None:
            return column
        match node:
            case ast.UnaryOp(ast.USub(), operand):
                return Applied("neg", self._tensors(operand))
            case ast.BinOp(left, ast.Mult(), right) if not self._has_tensors(left):
                return Applied("mul", self._tensors(right), self._number(left))
            case ast.BinOp(left, ast.Mult() | ast.Div() as operator, right) if not self._has_tensors(right):
                return Applied(OPERATORS[type(operator).__name__], self._tensors(left), self._number(right))
            case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult() | ast.Div() as operator, right):
                return Applied(OPERATORS[type(operator).__name__], self._tensors(left), self._tensors(right))
        raise self._no_form(node)

    def _has_tensors(self, node: ast.expr) -> bool:
        return any(isinstance(each, ast.Name) and each.id in self.variables for each in walk(node))

    def _number(self, node: ast.expr) -> str:
        if self._has_tensors(node):
            raise self._no_form(node)
        if not is_number(self.flow, self.module, node):
            text = f"{self._shown(node)} is not known to be a number of Python's ({HERE})"
            raise NoFormError(Reason("unknown-number", text, (at(self.module, node),)))
        return self._shown(node)

    def _shown(self, node: ast.AST) -> str:
        code = self.module.code(node)
        return ast.unparse(node) if "\n" in code else code

    def _no_form(self, node: ast.AST) -> NoFormError:
        text = f"torch has no function for lists of tensors that does the same as '{self._shown(node)}' ({HERE})"
        if isinstance(node, ast.stmt) and not isinstance(node, (ast.Expr, ast.Assign, ast.AugAssign)):
            text = f"the loop does more than to change each parameter ({HERE})"
        return NoFormError(Reason("not-elementwise", text, (at(self.module, node),)))


def operands(step: Step) -> Iterator[Operand]:
    """All that a step reads, the parts of results among it; not what it changes."""
    todo: list[Operand | None] = [step.value if isinstance(step, Kept) else step.operand]
    while todo:
        here = todo.pop()
        if here is None:
            continue
        yield here
        if isinstance(here, Applied):
            todo += [here.left, here.right]
        elif isinstance(here, Kept):
            todo.append(here.value)


def names_of(step: Step) -> Iterator[str]:
    """The names of the functions for lists that a step calls."""
    if isinstance(step, Change):
        yield step.name
    yield from (each.name for each in operands(step) if isinstance(each, Applied))


def rounds_alike(step: Step) -> bool:
    """Whether the step gives the same numbers bit for bit, on each device."""
    is_scaled = isinstance(step, Change) and bool(step.alpha)
    return not is_scaled and all(is_exact(each) for each in names_of(step))


def needed_torch(steps: list[Step]) -> tuple[int, int]:
    """The first torch that has all functions that the steps call."""
    return max(since(each) for step in steps for each in names_of(step))
