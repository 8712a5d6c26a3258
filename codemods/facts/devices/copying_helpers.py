"""Which functions of the project copy a tensor that they are given to a device, before anything else reads it?

``def to_var(x):`` with ``if torch.cuda.is_available(): x = x.cuda()`` and ``return Variable(x)``.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.names import bound_names, declared_outer, decorators, words
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import FUNCTIONS, is_name, walk
from codemods.dataflow.values import External, library_names
from codemods.facts.devices.named_moves import named_in
from codemods.facts.reaching import targets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.facts.devices.transfers import Transfer

_DECORATORS = frozenset({"staticmethod", "classmethod"})
_TENSORS = frozenset({"torch.Tensor", "torch.autograd.Variable"})
_NO_TENSORS = words(
    """
    numpy.ndarray torch.nn.Module builtins.list builtins.tuple builtins.dict builtins.str builtins.int builtins.float
    builtins.bool builtins.set collections.abc.Mapping collections.abc.Sequence collections.OrderedDict
    """
)
_ASKING = words("torch.cuda.is_available torch.device")
_PURE = (
    *(ast.Name, ast.Attribute, ast.BoolOp, ast.UnaryOp, ast.Compare, ast.IfExp, ast.Constant),
    *(ast.boolop, ast.unaryop, ast.cmpop, ast.expr_context),
)
_INNER = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.BoolOp, ast.NamedExpr)


@dataclass(frozen=True, eq=False)
class HelperCopy:
    """What a function does first with a tensor: it copies it, perhaps under a condition."""

    transfer: Transfer
    condition: ast.expr | None = None
    is_met: bool = True
    """Whether it is copied where the condition holds; else where it does not."""


class Parameter(NamedTuple):
    """A parameter of a function, by its name."""

    function: Callee
    name: str


def parameter_of(flow: Flow, module: Module, node: ast.expr) -> Parameter | None:
    """The parameter of the function around an expression that it may be made of: ``x`` of ``Variable(x)``."""
    root, function = named_in(flow, node), module.function(node)
    if root is None or function is None or targets(function).of(root) is not None:
        return None
    is_parameter = any(each.arg == root.id for each in signature(function).named)
    return Parameter(function, root.id) if is_parameter else None


def first_copy(function: Callee, parameter: str, transfers: Sequence[Transfer]) -> HelperCopy | ast.AST:
    """The copy of a parameter with which a function starts; or else what stands against that."""
    flow = transfers[0].flow
    reader = _Reader(flow, function, parameter, transfers)
    if isinstance(function, ast.Lambda):
        found = reader.first([ast.Return(function.body)])
        return found if isinstance(found, HelperCopy) else function
    hidden = (ast.Yield, ast.YieldFrom, *FUNCTIONS)
    late = next((each for each in walk(function) if isinstance(each, hidden) and each is not function), None)
    is_plain = isinstance(function, ast.FunctionDef) and decorators(function) <= _DECORATORS
    if late is not None or not is_plain:
        return late or function
    return reader.first(function.body) or function


def held(function: Callee) -> dict[str, ast.expr]:
    """What local names of a function hold that are given one value, at its top, which only reads names and devices."""
    if isinstance(function, ast.Lambda):
        return {}
    stored = [each.id for each in walk(function) if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)]
    found = {}
    for statement in function.body:
        match statement:
            case ast.Assign([ast.Name(name)], value) if stored.count(name) == 1:
                found[name] = value
    return {name: value for name, value in found.items() if name not in signature(function).names}


class _Reader:
    def __init__(self, flow: Flow, function: Callee, parameter: str, transfers: Sequence[Transfer]) -> None:
        self._flow = flow
        self._function = function
        self._name = parameter
        self._transfers = {each.call: each for each in transfers}

    def first(self, suite: Sequence[ast.stmt]) -> HelperCopy | ast.AST | None:
        """The copy that the statements carry out first; None where they leave the tensor alone."""
        for number, statement in enumerate(suite):
            if self._is_aside(statement):
                continue
            if isinstance(statement, ast.If):
                return self._branches(statement, suite[number + 1 :])
            return self._copy_in(statement)
        return None

    def _branches(self, statement: ast.If, rest: Sequence[ast.stmt]) -> HelperCopy | ast.AST | None:
        holds, test = self._asked(statement.test)
        if test is None:
            return self.first([*(statement.body if holds else statement.orelse), *rest])
        if self._mentions(test):
            return test
        for suite, is_met in ((statement.body, True), (statement.orelse, False)):
            found = self.first(suite)
            if isinstance(found, HelperCopy):
                return _under(found, test, is_met=is_met)
        if isinstance(statement.body[-1], ast.Return) and not statement.orelse:  # `if not use_cuda: return x`
            return _under(self.first(rest), test, is_met=False)
        return statement

    def _asked(self, test: ast.expr) -> tuple[bool | None, ast.expr | None]:
        """Whether a condition holds of every tensor; or what else decides, where that is one thing."""
        if not isinstance(test, ast.BoolOp) or not isinstance(test.op, ast.And) or not self._mentions(test):
            holds = self._holds(test)
            return holds, test if holds is None else None
        known = {each: self._holds(each) for each in test.values}
        if any(each is False for each in known.values()):
            return False, None
        unknown = [each for each, holds in known.items() if holds is None]
        if not unknown:
            return True, None
        return None, unknown[0] if len(unknown) == 1 else test

    def _holds(self, test: ast.expr) -> bool | None:
        """What a test says of each tensor: ``isinstance(x, np.ndarray)``, ``x is not None``; None where that varies."""
        match test:
            case ast.UnaryOp(ast.Not(), operand):
                holds = self._holds(operand)
                return None if holds is None else not holds
            case ast.Compare(ast.Name(name), [ast.Is() | ast.IsNot() as operator], [ast.Constant(None)]):
                return isinstance(operator, ast.IsNot) if name == self._name else None
            case ast.Call(func, [ast.Name(name), *kinds], []) if name == self._name:
                return self._is_of(library_names(self._flow.values(func)), kinds)
        return None

    def _is_of(self, asking: frozenset[str], kinds: Sequence[ast.expr]) -> bool | None:
        if asking == {"torch.is_tensor"}:
            return True
        if asking == {"builtins.hasattr"}:
            return True if isinstance(kinds[0], ast.Constant) and kinds[0].value in {"cuda", "to"} else None
        if asking != {"builtins.isinstance"}:
            return None
        parts = kinds[0].elts if isinstance(kinds[0], ast.Tuple) else kinds
        values = [self._flow.values(each) for each in parts]
        names = {value.name if isinstance(value, External) else "" for each in values for value in each}
        if not all(values) or (names & _TENSORS and not names <= _TENSORS | _NO_TENSORS):
            return None
        return True if names & _TENSORS else False if names <= _NO_TENSORS else None

    def _copy_in(self, statement: ast.stmt) -> HelperCopy | ast.AST:
        """The copy that a statement carries out before it reads the tensor otherwise; or else the statement."""
        found = [each for each in walk(statement) if each in self._transfers]
        if not isinstance(statement, (ast.Assign, ast.Return)) or len(found) != 1:
            return statement
        transfer = self._transfers[found[0]]
        copy, unread = HelperCopy(transfer), {named_in(self._flow, transfer.receiver)}
        within: ast.AST = transfer.call
        for above in transfer.module.ancestors(transfer.call):
            if above is statement or above is self._function:
                break
            if isinstance(above, _INNER):
                return above
            if isinstance(above, ast.IfExp) and within is not above.test:
                is_met = within is above.body
                holds, test = self._asked(above.test)
                unread |= set(_names(above.orelse if is_met else above.body))
                if test is None and holds is is_met:
                    unread |= set(_names(above.test))
                elif test is None or copy.condition is not None:
                    return above
                else:
                    unread |= set(_names(above.test)) - set(_names(test))
                    copy = replace(copy, condition=test, is_met=is_met)
            within = above
        other = next((each for each in _names(statement) if self._reads(each) and each not in unread), None)
        return copy if other is None and self._is_last(statement) else other or statement

    def _is_last(self, statement: ast.stmt) -> bool:
        """Whether nothing reads, after the statement, what was copied there: it returns, or gives the name the copy."""
        if isinstance(statement, ast.Return) or self._name in bound_names(statement):
            return True
        end = (statement.end_lineno or 0, statement.end_col_offset or 0)
        return not any(self._reads(each) and (each.lineno, each.col_offset) > end for each in _names(self._function))

    def _is_aside(self, statement: ast.stmt) -> bool:
        """Whether a statement leaves the tensor alone, and what says where it goes."""
        match statement:
            case ast.Pass() | ast.Import() | ast.ImportFrom() | ast.Expr(ast.Constant()):
                return True
            case ast.Assign([ast.Name(name)], value):
                is_local = name != self._name and name not in declared_outer(self._function)
                return is_local and not self._mentions(value) and all(map(partial(_is_pure, self._flow), walk(value)))
        return False

    def _mentions(self, node: ast.AST) -> bool:
        return any(is_name(each, self._name) for each in walk(node))

    def _reads(self, name: ast.Name) -> bool:
        return name.id == self._name and isinstance(name.ctx, ast.Load)


def _under(found: HelperCopy | ast.AST | None, test: ast.expr, *, is_met: bool) -> HelperCopy | ast.AST | None:
    """The copy under one more condition, which may be its only one."""
    if not isinstance(found, HelperCopy):
        return found
    return replace(found, condition=test, is_met=is_met) if found.condition is None else test


def _names(node: ast.AST) -> list[ast.Name]:
    return [each for each in walk(node) if isinstance(each, ast.Name)]


def _is_pure(flow: Flow, node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return not node.keywords and bool(names := library_names(flow.values(node.func))) and names <= _ASKING
    return isinstance(node, _PURE)
