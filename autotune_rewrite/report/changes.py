"""What can be changed or left, for reviewers: findings that belong together, each such change with its own diff."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from autotune_rewrite.report.diff import preview, texts
from autotune_rewrite.rewriting.fixes import applied
from autotune_rewrite.rewriting.units import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from autotune_rewrite.rewriting.results import Replacement, Rewrite, Site

_HEADER = 2
"""Lines of a diff that name the file."""


@dataclass(frozen=True, slots=True)
class Change:
    """Findings of one file that are made together or not at all."""

    number: int
    """From 1, over all files."""
    rewrite: Rewrite
    sites: tuple[Site, ...]
    replacements: tuple[Replacement, ...] = ()
    """Its lines, without those of other changes; none in a notebook."""
    needs: tuple[int, ...] = ()
    """The numbers of other changes without which it is not right."""

    @property
    def path(self) -> str:
        """Its file."""
        return self.rewrite.path

    @property
    def rules(self) -> tuple[str, ...]:
        """Each once, in the order of the sites."""
        return tuple(dict.fromkeys(each.rule for each in self.sites))

    @property
    def diff(self) -> list[str]:
        """The lines of its diff, without those that name the file."""
        if self.rewrite.units is None:
            return [line for each in texts(self.rewrite) for line in _of_cell(*each)]
        after = applied(self.rewrite.before, self.replacements)
        return preview(self.path, self.rewrite.before, after)[_HEADER:]


def changes(rewrites: Iterable[Rewrite]) -> list[Change]:
    """The changes of all files; of a notebook, all of it is one."""
    found: list[Change] = []
    number_of: dict[Finding, int] = {}
    needs: list[tuple[Finding, ...]] = []
    for rewrite in rewrites:
        for sites, replacements, needed in _parts(rewrite):
            number = len(found) + 1
            number_of.update((Finding.of(rewrite.path, site), number) for site in sites)
            found.append(Change(number, rewrite, sites, replacements))
            needs.append(needed)
    return [
        Change(each.number, each.rewrite, each.sites, each.replacements, _numbers(needed, number_of))
        for each, needed in zip(found, needs, strict=True)
    ]


_Part = tuple["tuple[Site, ...]", "tuple[Replacement, ...]", tuple[Finding, ...]]


def _parts(rewrite: Rewrite) -> Iterable[_Part]:
    if rewrite.units is None:
        sites = tuple(each for each in rewrite.sites if each.rewrites)
        if sites:
            yield sites, (), ()
        return
    for number, unit in enumerate(rewrite.units.units):
        yield unit.sites, tuple(rewrite.units.wanted({number})), unit.needs


def _numbers(needed: Sequence[Finding], number_of: dict[Finding, int]) -> tuple[int, ...]:
    """The changes that findings belong to; one that was not made is no need of one that was."""
    return tuple(sorted({number_of[each] for each in needed if each in number_of}))


def _of_cell(cell: int | None, before: str, after: str) -> list[str]:
    lines = preview("", before, after)[_HEADER:]
    return lines if cell is None else [f"# cell {cell}", *lines]
