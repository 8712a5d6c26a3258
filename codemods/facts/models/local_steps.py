"""How the statements of one block make a tensor step by step under one name, or under several."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.source import walk
from codemods.library.tensors import SAME_MEMORY

if TYPE_CHECKING:
    from codemods.dataflow.source import Module


@dataclass(frozen=True, eq=False)
class Given:
    """What a statement gives a name: ``x = …``, ``x /= …``, ``x.mul_(…)``, also under ``if mask is not None:``."""

    statement: ast.stmt
    """The statement of the block."""
    value: ast.expr | None
    """What is assigned, or called in place."""
    update: ast.AugAssign | None = None
    condition: ast.expr | None = None
    """What the statement depends on."""
    inside: ast.stmt | None = None
    """The statement under the condition."""


def given_before(block: list[ast.stmt], at: ast.stmt, name: str) -> Given | ast.stmt | None:
    """What a name was given last before a statement of the block.

    Returns:
        What gives it; the statement that may give it something, and is in no such form; None where none does.
    """
    index = next(number for number, each in enumerate(block) if each is at)
    for statement in reversed(block[:index]):
        found = _given(statement, name)
        if found is not None:
            return found
        if isinstance(statement, ast.If) and len(statement.body) == 1 and not statement.orelse:
            found = _given(statement.body[0], name)
            if found is not None:
                return Given(statement, found.value, found.update, statement.test, statement.body[0])
        if may_change(statement, name):
            return statement
    return None


def _given(statement: ast.stmt, name: str) -> Given | None:
    match statement:
        case ast.Assign([ast.Name(target)], value) if target == name:
            return Given(statement, value)
        case ast.AugAssign(ast.Name(target), _, value) if target == name:
            return Given(statement, value, statement)
        case ast.Expr(ast.Call(ast.Attribute(ast.Name(target), method)) as call) if target == name:
            return Given(statement, call) if is_in_place(method) else None
    return None


def is_in_place(method: str) -> bool:
    """Whether a tensor's method of that name writes into it."""
    return method.endswith("_") and not method.endswith("__")


def may_change(statement: ast.AST, name: str) -> bool:
    """Whether a statement binds the name, or writes into what it holds by an index or a method in place."""
    for node in walk(statement):
        if writes_into(node, name):
            return True
        match node:
            case ast.Name(each, ast.Store() | ast.Del()) if each == name:
                return True
            case ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef() if node.name == name:
                return True
            case ast.alias() if (node.asname or node.name).partition(".")[0] == name:
                return True
    return False


def writes_into(node: ast.AST, name: str) -> bool:
    """Whether a node itself writes into what the name holds, by an index or in place: ``loss /= n``, ``q.mul_(2)``."""
    match node:
        case ast.Subscript(owner, _, ast.Store() | ast.Del()) | ast.AugAssign(owner):
            return _root(owner) == name
        case ast.Call(ast.Attribute(owner, method)):
            return is_in_place(method) and _root(owner) == name
    return False


def names_of_one(within: ast.AST, name: str) -> list[str]:
    """The names that may have the memory of what a name holds, the name itself first, as far as a statement gives them.

    ``last = running`` and ``value = loss.detach()`` do.
    """
    pairs = [
        {target.id, root}
        for each in walk(within)
        if isinstance(each, (ast.Assign, ast.NamedExpr)) and (root := held_by(each.value)) is not None
        for target in (each.targets if isinstance(each, ast.Assign) else [each.target])
        if isinstance(target, ast.Name)
    ]
    names = [name]
    for each in names:
        names += sorted({other for pair in pairs if each in pair for other in pair}.difference(names))
    return names


def held_by(node: ast.expr) -> str | None:
    """The name whose memory an expression may have: of ``loss``, ``loss.data``, ``loss.detach()[0]``."""
    match node:
        case ast.Name(name):
            return name
        case ast.Attribute(inner, name) | ast.Call(ast.Attribute(inner, name)) if name in SAME_MEMORY:
            return held_by(inner)
        case ast.Subscript(inner):
            return held_by(inner)
    return None


def is_written_to(module: Module, node: ast.expr) -> bool:
    """Whether code writes here into the tensor of a name or attribute: ``mask[:, :4] = 1``, ``mask.zero_()``."""
    above = module.parent(node)
    while isinstance(above, ast.Subscript) and above.value is node:
        node, above = above, module.parent(above)
        if not isinstance(node.ctx, ast.Load):
            return True
    is_called = isinstance(above, ast.Attribute) and isinstance(module.parent(above), ast.Call)
    is_updated = isinstance(above, ast.AugAssign) and above.target is node
    return is_updated or (is_called and isinstance(above, ast.Attribute) and is_in_place(above.attr))


def _root(node: ast.expr) -> str:
    """The name that an expression begins with: ``q`` of ``q[0].data``."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def later_reads(module: Module, first: ast.stmt, last: ast.stmt, name: str) -> list[ast.Name]:
    """Where the name is read from a statement of a block on, until a later one than ``last`` binds it anew.

    Functions that are defined in the same scope, and earlier code of a loop around the block, count as well.
    """
    block = module.suite(first)
    begin = next(number for number, each in enumerate(block) if each is first)
    end = next(number for number, each in enumerate(block) if each is last)
    bound = next((each for each in block[end:] if _binds_plainly(each, name)), None)
    scope = module.function(first)
    start, stop = module.span(block[begin])[0], module.span(bound)[1] if bound is not None else None
    loops = [each for each in module.ancestors(first) if isinstance(each, (ast.For, ast.AsyncFor, ast.While))]
    outer = min((module.span(each)[0] for each in loops if module.function(each) is scope), default=start)
    found = []
    for each in module.nodes(ast.Name):
        if each.id != name or not isinstance(each.ctx, (ast.Load, ast.Del)):
            continue
        at = module.span(each)[0]
        is_here = module.function(each) is scope
        if is_here and not (outer <= at if stop is None else outer <= at < stop):
            continue
        if is_here or (scope is not None and scope in module.ancestors(each)) or scope is None:
            found.append(each)
    return found


def _binds_plainly(statement: ast.stmt, name: str) -> bool:
    """Whether the statement gives the name something new, which is all that is read of it later."""
    if not isinstance(statement, ast.Assign):
        return False
    targets = [part for each in statement.targets for part in (each.elts if isinstance(each, ast.Tuple) else [each])]
    return any(isinstance(each, ast.Name) and each.id == name for each in targets)
