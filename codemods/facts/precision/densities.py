"""Where does code compute the logarithm of a determinant, which normalizing flows add up for a density?"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from codemods.facts.reach import own

if TYPE_CHECKING:
    from collections.abc import Iterator

_DETERMINANT = re.compile(r"(^|_)(log_?(abs_?)?det(s|erminants?)?|s?ldj)(_|$)", re.IGNORECASE)


def log_determinants(node: ast.AST) -> Iterator[ast.Name]:
    """The names that code binds to such a logarithm, as they say themselves: ``log_det = log_scale.sum(-1)``.

    Its terms are outputs of layers: each digit that these lose shows in the density.
    """
    for name in own(node, ast.Name):
        if isinstance(name.ctx, ast.Store) and _DETERMINANT.search(name.id):
            yield name
