"""Which tensors are computed of counted numbers so that another device rounds their last bit otherwise, and no more?

``torch.exp(-math.log(10000) * torch.arange(n) / n)``: the frequencies of an embedding.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeAlias

from codemods.dataflow.source import last_name, walk
from codemods.dataflow.values import Choice, Literal, Plain, library_names
from codemods.facts.loops import module_of
from codemods.facts.reaching import reaching
from codemods.library.fills import counts, is_sized, is_smooth, may_make_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.facts.devices.transfers import Transfer
    from codemods.facts.script import Script

Part: TypeAlias = "ast.Call | ast.BinOp"

_OF_NUMBERS = frozenset({"builtins.float", "builtins.int", "builtins.len"})
_EXACT = (ast.Add, ast.Sub, ast.Mult)
_ARITHMETIC = (*_EXACT, ast.Div, ast.FloorDiv, ast.Pow)


def of_number(script: Script, node: ast.BinOp) -> ast.expr | None:
    """What a number is added to, multiplied with, divided by or raised to the power of; None for other operations."""
    if not isinstance(node.op, (*_EXACT, ast.Div, ast.Pow)):
        return None
    counted = frozenset(
        ast.unparse(part)
        for call in walk(node)
        if isinstance(call, ast.Call) and _counts(script, call)
        for given in (*call.args, *(each.value for each in call.keywords))
        for part in _terms(given)
    )
    sides = [each for each in (node.left, node.right) if not _is_number(script, each, counted, frozenset())]
    return sides[0] if len(sides) == 1 else None


def _counts(script: Script, call: ast.Call) -> bool:
    """Whether it counts, or fills a size, so that what it is given are numbers: ``torch.arange(n)``."""
    names = library_names(script.flow.values(call.func))
    return bool(names) and all(counts(each) or is_sized(each) for each in names)


def _terms(node: ast.expr) -> Iterator[ast.expr]:
    """The names of which a number is computed: ``n`` and ``self.k`` of ``n - self.k // 2``."""
    match node:
        case ast.Name() | ast.Attribute():
            yield node
        case ast.BinOp(left, _, right):
            yield from _terms(left)
            yield from _terms(right)


def _is_number(script: Script, node: ast.expr, counted: frozenset[str], seen: frozenset[ast.expr]) -> bool:
    """Whether it is one number: what a call beside it counts to is one, and what is computed of such."""
    if node in seen or ast.unparse(node) in counted:
        return node not in seen
    seen |= {node}
    match node:
        case ast.Constant(value):
            return type(value) in {int, float}
        case ast.UnaryOp(ast.USub() | ast.UAdd(), operand):
            return _is_number(script, operand, counted, seen)
        case ast.BinOp(left, operator, right) if isinstance(operator, _ARITHMETIC):
            return _is_number(script, left, counted, seen) and _is_number(script, right, counted, seen)
        case ast.Call():
            names = library_names(script.flow.values(node.func))
            return bool(names) and all(each in _OF_NUMBERS or each.startswith("math.") for each in names)
        case ast.Name():
            module = module_of(script.flow, node)
            given = reaching(module.function(node) or module.tree).given(node)
            if given:
                return all(_is_number(script, each, counted, seen) for each in given)
    values = script.flow.values(node)
    return bool(values) and all(isinstance(each, (Literal, Choice, Plain)) for each in values)


def is_inexact(part: Part) -> bool:
    """Whether devices may round it otherwise: a division by a number may be a multiplication on CUDA."""
    return not isinstance(part.op, _EXACT) if isinstance(part, ast.BinOp) else is_smooth(last_name(part.func) or "")


def is_continuous(parts: Sequence[Part]) -> bool:
    """Whether what is rounded otherwise in a chain is computed by a function that leaves no whole numbers.

    Of a mere division they may be the point: ``torch.arange(n) / 2``.
    """
    return any(
        isinstance(each.op, ast.Pow) if isinstance(each, ast.BinOp) else is_inexact(each)
        for each in parts
        if is_inexact(each)
    )


def why_rounding_shows(transfer: Transfer, parts: Sequence[Part]) -> str | None:
    """What would show that the last bit is another one: a cast, a comparison, an index; None where nothing is seen."""
    innermost = max(number for number, each in enumerate(parts) if is_inexact(each))
    for part in parts[:innermost]:
        method = last_name(part.func) if isinstance(part, ast.Call) else None
        if method is not None and may_make_whole(method):
            return f"{method}()"
    module, call = transfer.module, transfer.call
    scope = module.function(call) or module.tree
    for node in (call, *reaching(scope).readers(call)):
        above = module.parent(node)
        if isinstance(above, ast.Attribute) and may_make_whole(above.attr):
            return f"{above.attr}()"
        if isinstance(above, ast.Call) and may_make_whole(last_name(above.func) or ""):
            return f"{last_name(above.func)}()"
        if isinstance(above, ast.Compare) or (isinstance(above, ast.Subscript) and above.slice is node):
            return f"'{ast.unparse(above)}'"
    return None
