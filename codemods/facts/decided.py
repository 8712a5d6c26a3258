"""Whether a condition holds, as far as its parts tell."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def holds(test: ast.expr, of_part: Callable[[ast.expr], bool | None]) -> bool | None:
    """What ``not``, ``and`` and ``or`` make of their parts; None where that depends on a part that is not known.

    Args:
        test: The condition.
        of_part: Says of a part that is none of these whether it holds; None where that is not known.
    """
    match test:
        case ast.UnaryOp(ast.Not(), operand):
            inner = holds(operand, of_part)
            return None if inner is None else not inner
        case ast.BoolOp(join, parts):
            decides = isinstance(join, ast.Or)
            found = [holds(each, of_part) for each in parts]
            return decides if decides in found else None if None in found else not decides
    return of_part(test)


def agreed(answers: Iterable[bool | None]) -> bool | None:
    """The answer, where all are the same one."""
    found = set(answers)
    return found.pop() if len(found) == 1 else None
