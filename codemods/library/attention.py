"""Attention by hand: the functions of torch that it is made of, and how einsum lays out its products."""

from __future__ import annotations

import re
from typing import NamedTuple

FUSED = "torch.nn.functional.scaled_dot_product_attention"
FUSED_SINCE = (2, 1)
"""The torch since which it takes ``scale`` (pull request 95259; the pages of 2.0 have none, those of 2.1 do), and since
which autocast converts what it is given to one format."""
SOFTMAX = "torch.nn.Softmax"
DROPOUT = "torch.nn.Dropout"
IDENTITY = "torch.nn.Identity"
PRODUCTS = frozenset({"matmul", "bmm", "mm"})
"""Operators that multiply the matrices of two tensors, as ``@`` does."""
TURNING = frozenset({"transpose", "swapaxes", "swapdims"})
"""Operators that swap two dimensions."""
FILLS = frozenset({"masked_fill", "masked_fill_"})
DIVISIONS = frozenset({"div", "div_", "divide", "divide_", "true_divide", "true_divide_"})
FACTORS = frozenset({"mul", "mul_", "multiply", "multiply_"})
SUMS = frozenset({"add", "add_"})
CASTS = frozenset({"to", "type"})
"""Methods that convert a tensor to the number format that they are given."""
VIEWS = frozenset({"view", "view_as"})
"""Methods that fail for some layouts in memory."""
KEEPS_LAYOUT = frozenset(
    {"transpose", "swapaxes", "swapdims", "permute", "movedim", "unsqueeze", "squeeze", "unbind", "detach"}
)
"""Operators whose result lies in their operand's memory as that does."""
_TOKEN = re.compile(r"\.\.\.|[A-Za-z]")


class Turned(NamedTuple):
    """An operand of a product, and how its dimensions have to be put in order."""

    position: int
    """Which operand of the einsum it is."""
    order: tuple[int, ...] | None = None
    """The dimensions in the order that is wanted; None where they are in order."""


class ScoresOfEinsum(NamedTuple):
    """An einsum that multiplies queries by keys."""

    query: Turned
    key: Turned
    dimensions: int | None
    """Of the scores; None where an ellipsis stands for some."""


class MeansOfEinsum(NamedTuple):
    """An einsum that multiplies weights by values."""

    value: Turned
    order: tuple[int, ...] | None
    """The dimensions of what the fused function returns, in the order of the einsum's result."""


def _parts(equation: str) -> tuple[list[list[str]], list[str]] | None:
    """The letters of both operands, and those of the result."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    operands = [_TOKEN.findall(each) for each in left.split(",")]
    if not arrow or len(operands) != 2:  # noqa: PLR2004 - a product has two
        return None
    found = [*operands, _TOKEN.findall(right)]
    if any(len(set(each)) != len(each) for each in found):
        return None
    return operands, found[-1]


def _order(have: list[str], want: list[str]) -> tuple[bool, tuple[int, ...] | None]:
    """Whether the dimensions can be put in order, and how."""
    if have == want:
        return True, None
    if sorted(have) != sorted(want) or "..." in have:
        return False, None
    return True, tuple(have.index(each) for each in want)


def scores_of(equation: str) -> ScoresOfEinsum | None:
    """What an einsum multiplies where its result is one row of scores for each query, one column for each key."""
    parts = _parts(equation)
    if parts is None or len(parts[1]) < 2:  # noqa: PLR2004 - rows and columns
        return None
    operands, result = parts
    *batch, row, column = result
    at = next((number for number, each in enumerate(operands) if row in each and column not in each), None)
    if at is None or column not in operands[1 - at] or row in operands[1 - at]:
        return None
    depth = [each for each in operands[at] if each not in result]
    if len(depth) != 1 or "..." in (row, column, *depth):
        return None
    query, of_query = _order(operands[at], [*batch, row, *depth])
    key, of_key = _order(operands[1 - at], [*batch, column, *depth])
    if not query or not key:
        return None
    return ScoresOfEinsum(Turned(at, of_query), Turned(1 - at, of_key), None if "..." in result else len(result))


def means_of(equation: str, weights: int) -> MeansOfEinsum | None:
    """What an einsum multiplies where one operand is weights, a row for each query, and the other the values."""
    parts = _parts(equation)
    if parts is None or len(parts[0][weights]) < 2:  # noqa: PLR2004 - rows and columns
        return None
    operands, result = parts
    *batch, row, column = operands[weights]
    depth = [each for each in operands[1 - weights] if each not in operands[weights]]
    if len(depth) != 1 or column in result or "..." in (row, column, *depth):
        return None
    value, of_value = _order(operands[1 - weights], [*batch, column, *depth])
    means, of_means = _order([*batch, row, *depth], result)
    return MeansOfEinsum(Turned(1 - weights, of_value), of_means) if value and means else None
