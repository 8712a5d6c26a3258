"""What running some statements does with tensors that carry a graph for gradients."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


WHOLE = (0, 0)


class Course(NamedTuple):
    """What running some statements does with tensors that carry a graph."""

    at_end: frozenset[str] = frozenset()
    """The names that may hold one at the end."""
    at_jumps: frozenset[str] | None = None
    """Those that may where ``break`` or ``continue`` leads out of the statements; None where none does."""
    ever: frozenset[str] = frozenset()
    """The names that may hold one at some point."""
    kept: ast.AST | None = None
    """The first place that keeps one where other code finds it: an attribute, a global name, a list from outside."""
    returned: ast.Return | None = None
    """The first place that returns one."""
    trained: ast.AST | None = None
    """The first place that computes gradients from one."""
    parts: frozenset[tuple[int, int]] = frozenset()
    """Where in what is returned: the length of a tuple and the position in it; ``WHOLE`` where that is not known."""

    @property
    def names(self) -> frozenset[str]:
        """The names that may hold one where other code of the function goes on."""
        return self.at_end | (self.at_jumps or frozenset())

    def join(self, other: Course) -> Course:
        """What one of the two does."""
        return Course(
            self.at_end | other.at_end,
            None,
            self.ever | other.ever,
            self.kept or other.kept,
            self.returned or other.returned,
            self.trained or other.trained,
            self.parts | other.parts,
        )


def items(value: ast.expr, carries: Callable[[ast.expr], bool]) -> frozenset[tuple[int, int]]:
    """The ``parts`` of what is returned."""
    if not isinstance(value, ast.Tuple) or any(isinstance(each, ast.Starred) for each in value.elts):
        return frozenset({WHOLE})
    return frozenset((len(value.elts), at) for at, each in enumerate(value.elts) if carries(each))
