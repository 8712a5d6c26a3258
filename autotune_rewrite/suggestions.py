"""Names that are not known, and the one that was perhaps meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """``unknown rule 'loader-pinn'; did you mean 'loader-pin'?``, or what there is where nothing is near."""
    import difflib

    choices = sorted(known)
    near = difflib.get_close_matches(name, choices, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there is {', '.join(choices)}"
    return f"unknown {kind} {name!r}; {hint}"
