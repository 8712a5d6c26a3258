"""What Python's operators and functions make of amounts, as far as these are known."""

from __future__ import annotations

import ast
import math
import operator
from typing import TYPE_CHECKING, Any

from codemods.facts.cost.amounts import LONGEST, PLAIN, UNKNOWN, AtMost, holds_bound, is_known, is_long

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_LARGEST = 10**15
_OPERATIONS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda item, items: item in items,
    ast.NotIn: lambda item, items: item not in items,
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{f"builtins.{each.__name__}": each for each in (abs, bool, float, int, len, max, min, round, sum)},
    **{f"builtins.{each.__name__}": each for each in (list, tuple, range, dict)},
    "builtins.reversed": lambda items: list(reversed(items)),
    "builtins.sorted": sorted,
    "builtins.enumerate": lambda items, start=0: list(enumerate(items, start)),
    "builtins.zip": lambda *several: list(zip(*several, strict=False)),
    "collections.OrderedDict": dict,
    **{f"math.{each.__name__}": each for each in (math.ceil, math.floor, math.sqrt, math.log2, math.prod)},
    "numpy.prod": math.prod,
}
"""Functions without side effects that are called with what is known."""
_KEEPING = frozenset(
    {
        *(f"builtins.{name}" for name in ("int", "list", "tuple", "dict", "len", "reversed", "enumerate", "zip")),
        "collections.OrderedDict",
    }
)
"""Those that leave the items as they are that they are given."""
_COMPARISONS = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)


def operate(operation: ast.AST, *operands: object) -> Any:  # noqa: ANN401 - whatever it is
    """What an operator makes of its operands; ``UNKNOWN`` where that is not known, or would be too large."""
    function = _OPERATIONS.get(type(operation))
    if isinstance(operation, ast.Pow) and all(isinstance(each, (int, float)) for each in operands):
        function = _power
    if function is None or not all(isinstance(each, PLAIN) for each in operands):
        return UNKNOWN
    if any(isinstance(each, AtMost) for each in operands):
        is_monotonic = isinstance(operation, (ast.Add, ast.Mult))
        is_natural = all(isinstance(each, int) and each >= 0 for each in operands)
        return AtMost(function(*operands)) if is_monotonic and is_natural else UNKNOWN
    if isinstance(operation, _COMPARISONS) and not all(map(is_known, operands)):
        return UNKNOWN
    if any(map(is_long, operands)) or (isinstance(operation, ast.Mod) and isinstance(operands[0], str)):
        return UNKNOWN
    numbers = [each for each in operands if isinstance(each, (int, float))]
    largest = _LARGEST if len(numbers) == len(operands) else LONGEST  # [0] * 3
    if isinstance(operation, ast.Mult) and max(map(abs, numbers), default=0) > largest:
        return UNKNOWN
    try:
        return function(*operands)
    except (TypeError, ValueError, ArithmeticError):
        return UNKNOWN


def apply(name: str, given: Sequence[Any], keywords: Mapping[str, Any]) -> Any:  # noqa: ANN401 - whatever it is
    """What a function of Python's returns; ``UNKNOWN`` where it is another one, or given what is not known."""
    function, values = _FUNCTIONS.get(name), [*given, *keywords.values()]
    is_lost = any(map(holds_bound, values)) and name not in _KEEPING
    too_long = any(map(is_long, values)) and name not in {"builtins.len", "builtins.range"}
    if function is None or is_lost or too_long or any(not isinstance(each, PLAIN) for each in values):
        return UNKNOWN
    if name == "builtins.int" and values and isinstance(values[0], AtMost):
        return values[0]
    try:
        return function(*given, **keywords)
    except (TypeError, ValueError, ArithmeticError):
        return UNKNOWN


def _power(base: float, exponent: float) -> float:
    if abs(exponent) > 64 or abs(base) > _LARGEST:  # noqa: PLR2004 - no size of anything
        raise ValueError
    found: float = base**exponent
    return found
