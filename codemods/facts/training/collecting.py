"""Which statements add to a sum, or put something into a list or dictionary, where the next pass of a loop finds it?"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.source import unparsed, walk
from codemods.facts.reach import own, stores
from codemods.facts.training.totals import added

if TYPE_CHECKING:
    from codemods.dataflow.source import Callee
    from codemods.facts.training.totals import Loop


@dataclass(frozen=True)
class Collected:
    """What a statement collects, and where."""

    owner: ast.expr
    """The sum or list: ``total``, ``history["train"]``, ``self.losses``."""
    value: ast.expr
    """What is added to it, or put into it."""

    @property
    def root(self) -> ast.expr:
        """``history`` of ``history["train"]``; of an attribute, that itself."""
        node = self.owner
        while isinstance(node, ast.Subscript):
            node = node.value
        return node


def collected(statement: ast.stmt, loop: Loop | Callee) -> Collected | None:
    """What a statement of a loop or function collects: ``losses.append(x)``, ``self.total += x``, ``losses[i] = x``."""
    match statement:
        case ast.Expr(ast.Call(ast.Attribute(owner, "append"), [value], [])):
            return Collected(owner, value)
        case ast.AugAssign(owner, ast.Add(), ast.List([value])):
            return Collected(owner, value)
        case ast.AugAssign(value=ast.List() | ast.ListComp()):
            return None
        case ast.AugAssign(owner, ast.Add() | ast.Sub(), value):
            return Collected(owner, value)
        case ast.Assign([ast.Name() as owner]):
            pair = added(statement)
            return None if pair is None else Collected(owner, pair[1])
        case ast.Assign([ast.Attribute() | ast.Subscript() as owner], value):
            return _assigned(owner, value, loop)
    return None


def _assigned(owner: ast.Attribute | ast.Subscript, value: ast.expr, loop: Loop | Callee) -> Collected | None:
    """``self.total = self.total + x``, and ``losses[i] = x`` where each pass has an item of its own."""
    match value:
        case ast.BinOp(left, ast.Add(), right):
            for one, other in ((left, right), (right, left)):
                if unparsed(one) == unparsed(owner):
                    return Collected(owner, other)
    bound = {each.id for each in stores(loop) if isinstance(each, ast.Name)}
    indices = walk(owner.slice) if isinstance(owner, ast.Subscript) else ()
    varies = any(isinstance(each, ast.Name) and each.id in bound for each in indices)
    return Collected(owner, value) if varies else None


def is_of_pass(loop: Loop, found: Collected) -> bool:
    """Whether each pass of the loop has a sum or list of its own: something in its name is bound in the loop."""
    of_sums = {
        each for statement in own(loop, ast.stmt) if collected(statement, loop) is not None for each in walk(statement)
    }
    bound = {unparsed(each) for each in stores(loop) if each not in of_sums}
    return any(unparsed(each) in bound for each in walk(found.root) if isinstance(each, (ast.Name, ast.Attribute)))
