"""All findings in one line: how many changes there are, what they promise, and what was left."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING

from codemods.codemod import Promise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autotune_rewrite.rewriting.results import Rewrite, Site

_LEVELS = (Promise.BITWISE, Promise.RANDOM, Promise.PRECISION)


def summary(rewrites: Sequence[Rewrite], *, check: bool, hint: str = "") -> str:
    """``15 changes: 8 bitwise, 4 random, 3 precision; 2 left``; empty where nothing was found.

    Args:
        rewrites: What became of the scripts.
        check: Whether it is a check: then it says how many changes do not fail it.
        hint: What the user can do about the changes.
    """
    sites = [site for each in rewrites for site in each.sites]
    if not sites:
        return ""
    changes = [site for site in sites if site.rewrites]
    left = [site for site in sites if site.code]
    advised = sum(site.advises for site in sites)
    files = len({each.path for each in rewrites if each.rules})
    parts = [_changes(changes, files, check=check)]
    if advised:
        parts.append(f"{advised} advised")
    if left:
        parts.append(f"{len(left)} left{_above(left)}")
    return "; ".join(parts) + (f" ({hint})" if hint and changes else "")


def counted(number: int, what: str) -> str:
    """``1 change``, ``2 changes``, ``no changes``."""
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"


def _changes(sites: Sequence[Site], files: int, *, check: bool) -> str:
    where = f" in {files} files" if files > 1 else ""
    promises = Counter(site.promise for site in sites)
    named = [f"{promises[each]} {each}" for each in Promise if promises[each]]
    said = f"{counted(len(sites), 'change')}{where}{': ' if named else ''}{', '.join(named)}"
    harmless = sum(not site.fails for site in sites) if check else 0
    return f"{said}, {_which(harmless, len(sites))}" if harmless else said


def _which(harmless: int, number: int) -> str:
    """How many do not fail the check."""
    if harmless == number:
        return "which does not fail the check" if number == 1 else "none of which fails the check"
    return f"{harmless} of which {'does' if harmless == 1 else 'do'} not fail the check"


def _above(left: Sequence[Site]) -> str:
    """Which levels would change some of what is left."""
    above = Counter(site.promise for site in left if site.code == "above-level")
    reached = accumulate(above[level] for level in _LEVELS)
    more = [(level, number) for level, number in zip(_LEVELS, reached, strict=True) if above[level]]
    if not more:
        return ""
    return f", of which {' and '.join(f'--level {level} would change {number}' for level, number in more)}"
