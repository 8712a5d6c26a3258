"""Which values that a name is given on the host go to a device where the name is read below, and nowhere else?

``alpha = torch.tensor([0.5])`` in one branch, ``alpha = torch.rand(1)`` in another, and ``alpha = alpha.to(device)``
below both.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.names import bound_names, declared_outer
from codemods.dataflow.source import FUNCTIONS, LOOPS, is_name, last_name, walk
from codemods.dataflow.values import library_names
from codemods.facts.reaching import is_seen_elsewhere, reaching

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.devices.transfers import Transfer

_VARIABLE = "torch.autograd.Variable"
_ASKING = frozenset({"torch.cuda.is_available", "torch.device"})
_PLAIN = (ast.Name, ast.Attribute, ast.BoolOp, ast.UnaryOp, ast.Constant, ast.boolop, ast.unaryop, ast.expr_context)
_ENDING = frozenset({"exit", "_exit", "quit", "abort", "error", "skip"})
"""Functions that end the script, however they are imported."""
_PARTS = (ast.stmt, ast.excepthandler, ast.match_case)
_HIDING = (*FUNCTIONS, *LOOPS, ast.Try, ast.Match)
"""Statements in which a value is given only perhaps, or again and again."""
_INNER = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.BoolOp)


@dataclass(frozen=True, eq=False)
class NamedMove:
    """One value that a name may have where it is copied: ``torch.ones(n)``."""

    name: str
    made: ast.expr
    values: int
    """How many values the name may have there; 0 where they are not all known."""
    statement: ast.Assign | None
    """``x = x.cuda()``; None where the copy is a part of something else."""
    condition: ast.If | ast.IfExp | None
    """The ``if use_cuda:`` under which it is, or ``x.cuda() if use_cuda else x``."""


def named_moves(flow: Flow, transfer: Transfer) -> list[NamedMove]:
    """The values that a copy takes to a device by a name, and that nothing reads before."""
    module = transfer.module
    name = named_in(flow, transfer.receiver)
    statement = module.statement(transfer.call)
    if name is None or is_seen_elsewhere(module, name) or transfer.may_fail_unseen():
        return []
    scope = module.function(transfer.call) or module.tree
    given, condition = reaching(scope), _condition(module, transfer, name.id)
    below = _below(module, transfer, condition)
    if below is None or isinstance(transfer.target, (ast.BoolOp, ast.UnaryOp)):
        return []
    moves = _moves_itself(statement, transfer, name.id, condition)
    if isinstance(condition, ast.If) and not moves:
        return []
    test = condition.test if condition is not None else None
    asked = [*transfer.asked, *([] if test is None else [test])]
    found = []
    for value in given.known(name):
        between = _between(module, value, below)
        is_unseen = all(_is_read_below(one, name, condition, below) for one in given.readers(value))
        if between and is_unseen and all(_stays_the_same(flow, module, each, between) for each in asked):
            found.append(value)
    values = len(given.given(name) or ())
    itself = statement if moves and isinstance(statement, ast.Assign) else None
    return [NamedMove(name.id, each, values, itself, condition) for each in found]


def named_in(flow: Flow, node: ast.expr) -> ast.Name | None:
    """The name of ``x.long()``, ``Variable(x)``."""
    while isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and not library_names(flow.values(node.func)):
            node = node.func.value
        elif library_names(flow.values(node.func)) == {_VARIABLE} and node.args:
            node = node.args[0]
        else:
            return None
    return node if isinstance(node, ast.Name) else None


def _condition(module: Module, transfer: Transfer, name: str) -> ast.If | ast.IfExp | None:
    """``if use_cuda:`` directly around ``x = x.cuda()``, or ``… if use_cuda else x`` around the copy."""
    above = module.parent(transfer.call)
    match above:
        case ast.IfExp(_, copy, orelse) if copy is transfer.call and is_name(orelse, name):
            return above
    statement = module.statement(transfer.call)
    match module.parent(statement):
        case ast.If(_, body, []) as found if statement in body:
            return found
    return None


def _moves_itself(statement: ast.stmt, transfer: Transfer, name: str, condition: ast.If | ast.IfExp | None) -> bool:
    """``x = x.cuda()``, ``x, y = x.cuda(), y.cuda()``, ``x = x.cuda() if use_cuda else x``: no more than the copy."""
    moved = condition if isinstance(condition, ast.IfExp) else transfer.call
    match statement:
        case ast.Assign([ast.Name(target)], value):
            return target == name and value is moved and transfer.receiver is _root(transfer.receiver)
    return False


def _root(node: ast.expr) -> ast.expr | None:
    return node if isinstance(node, ast.Name) else None


def _below(module: Module, transfer: Transfer, condition: ast.If | ast.IfExp | None) -> ast.stmt | None:
    """The statement that copies whenever it runs, or when the condition holds; None where more decides that."""
    statement = module.statement(transfer.call)
    for each in module.ancestors(transfer.call):
        if each is statement:
            break
        if isinstance(each, _INNER) or (isinstance(each, ast.IfExp) and each is not condition):
            return None
    return condition if isinstance(condition, ast.If) else statement


def _between(module: Module, made: ast.expr, below: ast.stmt) -> Sequence[ast.stmt]:
    """The statements from the one that gives the value to what is below; none where these may be jumped over.

    They stand in the same suite; the value may be given under an ``if``.
    """
    suite = module.suite(below)
    around = [made, *module.ancestors(made)]
    first = next((each for each in suite if any(each is one for one in around)), None)
    if first is None or suite.index(first) >= suite.index(below):
        return ()
    within = around[: next(number for number, each in enumerate(around) if each is first) + 1]
    between = suite[suite.index(first) : suite.index(below)]
    is_hidden = any(isinstance(each, _HIDING) for each in within) or any(map(_jumps, between))
    return () if is_hidden else between


def _jumps(statement: ast.AST, *, in_loop: bool = False) -> bool:
    """Whether the function, or a pass of the loop around, may be left there: perhaps where there is no such device."""
    match statement:
        case ast.Return() | ast.Raise():
            return True
        case ast.Expr(ast.Call(func)) if last_name(func) in _ENDING:
            return True
    if isinstance(statement, (ast.Break, ast.Continue)):
        return not in_loop
    if isinstance(statement, FUNCTIONS):
        return False
    in_loop = in_loop or isinstance(statement, LOOPS)
    inner = (each for each in ast.iter_child_nodes(statement) if isinstance(each, _PARTS))
    return any(_jumps(each, in_loop=in_loop) for each in inner)


def _is_read_below(read: ast.Name, name: ast.Name, condition: ast.If | ast.IfExp | None, below: ast.stmt) -> bool:
    """Whether the copy reads it, or what comes after that, where it was not copied as CUDA is not used."""
    if read is name or (isinstance(condition, ast.IfExp) and read is condition.orelse):
        return True
    end = (below.end_lineno or 0, below.end_col_offset or 0)
    return condition is not None and read.id == name.id and (read.lineno, read.col_offset) >= end


def _is_pure(flow: Flow, node: ast.AST) -> bool:
    """Whether it only reads names and attributes, what device is meant, and whether CUDA is available."""
    if isinstance(node, ast.Call):
        return not node.keywords and bool(names := library_names(flow.values(node.func))) and names <= _ASKING
    return isinstance(node, _PLAIN)


def _stays_the_same(flow: Flow, module: Module, asked: ast.expr, between: Sequence[ast.stmt]) -> bool:
    """Whether what is written below means the same where the value is given: nothing in between binds its names."""
    parts = list(walk(asked))
    if not all(_is_pure(flow, each) for each in parts):
        return False
    names = {each.id for each in parts if isinstance(each, ast.Name)}
    attributes = {each.attr for each in parts if isinstance(each, ast.Attribute)}
    functions = [each for each in module.nodes(ast.FunctionDef) if not names.isdisjoint(declared_outer(each))]
    bound = {name for each in between for name in bound_names(each)}
    stores = (each for each in module.nodes(ast.Attribute) if each.attr in attributes)
    return (
        not functions
        and names.isdisjoint(bound)
        and not any(not isinstance(each.ctx, ast.Load) and _is_stored_late(module, each) for each in stores)
    )


def _is_stored_late(module: Module, attribute: ast.Attribute) -> bool:
    """Whether a function that may be called in between gives an attribute of that name its value."""
    function = module.function(attribute)
    return function is not None and getattr(function, "name", "") != "__init__"
