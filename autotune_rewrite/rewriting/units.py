"""Which changes of a rewrite can be left out alone, and which lines each of them takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from autotune_rewrite.errors import FileError
from autotune_rewrite.rewriting.fixes import applied, pieces, with_fixes
from autotune_rewrite.rewriting.results import Replacement
from autotune_rewrite.rewriting.rewrite import rewrite_project
from codemods.catalogue import ROUNDS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from autotune_rewrite.rewriting.results import Rewrite, Site
    from autotune_rewrite.rewriting.rewrite import Ask, Text

_Part: TypeAlias = "tuple[Replacement, tuple[int, ...]]"
"""Lines that are replaced, and the numbers of the findings that have a part in that."""
_MOST_TRIALS = 16
"""More changes than these are not tried one by one for what depends on them: all that comes later needs all of them."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A site of a file."""

    path: str
    site: Site
    """Without its own change."""

    @classmethod
    def of(cls, path: str, site: Site) -> Finding:
        """The finding of a site that may have its change."""
        return cls(path, site._replace(fix=(), no_fix=""))


@dataclass(frozen=True, slots=True)
class Unit:
    """Findings of one file that are rewritten together or not at all: they change the same lines."""

    sites: tuple[Site, ...]
    needs: tuple[Finding, ...] = ()
    """Findings, perhaps of other files, without whose changes these would not be right."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Lines that are replaced as soon as any of some units is wanted."""

    replacement: Replacement
    units: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Units:
    """The changes of one file."""

    units: tuple[Unit, ...]
    pieces: tuple[Piece, ...]
    """In the order of their lines; none has a line of another."""

    def wanted(self, units: Collection[int]) -> Iterator[Replacement]:
        """What is replaced where only some units are wanted."""
        return (each.replacement for each in self.pieces if not set(units).isdisjoint(each.units))


def with_units(texts: Sequence[Text], *, ask: Ask | None = None) -> list[Rewrite | FileError]:
    """What becomes of each module that is asked for, in which is said what of it can be left out.

    Args:
        texts: The modules of a project.
        ask: Whether a change is wanted at all.
    """
    said = with_fixes(texts, check=False, ask=ask)
    needs = _needs(texts, [each for each in said if not isinstance(each, FileError)], ask)
    return [each if isinstance(each, FileError) else replace(each, units=_units(each, needs)) for each in said]


def _needs(texts: Sequence[Text], done: Sequence[Rewrite], ask: Ask | None) -> dict[Finding, tuple[Finding, ...]]:
    """For each finding that is made only after others, those without which it is not made."""
    number_of = {rule.name(): number for number, group in enumerate(ROUNDS) for rule in group}
    made = [(Finding.of(each.path, site), site) for each in done for site in each.sites if site.rewrites]
    later = [each for each, site in made if not site.fix]
    if not later:
        return {}
    last = max(number_of[each.site.rule] for each in later)
    earlier = [each for each, _ in made if number_of[each.site.rule] < last]
    before = {
        each: tuple(one for one in earlier if number_of[one.site.rule] < number_of[each.site.rule]) for each in later
    }
    if len(earlier) > _MOST_TRIALS:
        return before
    gone = {each: set(later) - _made(texts, ask, {each}) for each in earlier}
    needs = {each: tuple(one for one in before[each] if each in gone[one]) for each in later}
    # Where any of several would do, none of them shows alone.
    for found in set(needs.values()):
        there = _made(texts, ask, set(earlier) - set(found))
        needs.update({each: before[each] for each in later if needs[each] == found and each not in there})
    return needs


def _made(texts: Sequence[Text], ask: Ask | None, unwanted: Collection[Finding]) -> set[Finding]:
    """The findings that are rewritten where some are not wanted."""

    def wanted(path: str, site: Site, texts: Callable[[], tuple[str, str]]) -> bool:
        return Finding(path, site) not in unwanted and (ask is None or ask(path, site, texts))

    said = rewrite_project(texts, check=True, ask=wanted)
    done = (each for each in said if not isinstance(each, FileError))
    return {Finding(each.path, site) for each in done for site in each.sites if site.rewrites}


def _units(rewrite: Rewrite, needs: Mapping[Finding, tuple[Finding, ...]]) -> Units:
    """The changes of a file, in as many parts as lines and needs allow."""
    sites = [each for each in rewrite.sites if each.rewrites]
    parts = _parts(list(pieces(rewrite.before, rewrite.after)), sites)
    together = _Groups(range(len(sites)))
    for piece, found in parts:
        if not found:
            together.join(range(len(sites)))
        elif any(piece not in sites[each].fix for each in found):
            together.join(found)
    for _, found in parts:
        # Who has all pieces of another makes the same change: one of them cannot be left out alone.
        together.join(each for each in found if sites[each].fix and sites[each].fix == sites[found[0]].fix)
    units = _numbered(sites, parts, together, rewrite, needs)
    if not _is_right(rewrite, units):
        together.join(range(len(sites)))
        units = _numbered(sites, parts, together, rewrite, needs)
    return units


def _parts(hunks: Sequence[Replacement], sites: Sequence[Site]) -> list[_Part]:
    """The hunks of all changes, each with the findings that have a part in it, by their numbers.

    A hunk that is made up of the pieces of single findings is taken apart into these.
    """
    about: dict[Replacement, set[int]] = {each: set() for each in hunks}
    for number, site in enumerate(sites):
        for line, end_line in _lines(site):
            # Beside other changes, what is inserted may be seen a line above or below.
            away = {each: max(each.line - end_line, line - each.end_line, 0) for each in hunks}
            for each, lines in away.items():
                if lines == min(away.values()):
                    about[each].add(number)
    return [part for hunk in hunks for part in _split(hunk, sorted(about[hunk]), sites)]


def _lines(site: Site) -> Iterator[tuple[int, int]]:
    """The lines of a finding's own change; where it has none, those of its edits."""
    if site.fix:
        yield from ((each.line, each.end_line) for each in site.fix)
    else:
        # What is inserted before a line counts to the line above it, as it does in a hunk.
        yield from ((min(each.line, each.end_line), max(each.line, each.end_line)) for each in site.edits)


def _split(hunk: Replacement, about: Sequence[int], sites: Sequence[Site]) -> list[_Part]:
    """A hunk in the pieces of the findings that have a part in it, taken off from both ends as far as these make it up.

    What is left between them is one piece, of all that have a part in that.
    """
    rough = [span for number in about if not sites[number].fix for span in _lines(sites[number])]
    own = {piece for number in about for piece in sites[number].fix if _overlap(piece, hunk)}
    clear = sorted(
        (
            piece
            for piece in own
            if not any(_overlap(piece, other) for other in own - {piece})
            and not any(start <= piece.end_line and piece.line <= end for start, end in rough)
        ),
        key=lambda each: each.line,
    )
    left = hunk
    above: list[Replacement] = []
    below: list[Replacement] = []
    while clear and clear[0].line == left.line and left.text.startswith(clear[0].text):
        above.append(clear.pop(0))
        left = Replacement(above[-1].end_line + 1, left.end_line, left.text.removeprefix(above[-1].text))
    while clear and clear[-1].end_line == left.end_line and left.text.endswith(clear[-1].text):
        below.insert(0, clear.pop())
        left = Replacement(left.line, below[0].line - 1, left.text.removesuffix(below[0].text))
    # Whoever has no piece here, as its change is seen otherwise than alone, has a part in what is left.
    rest = [
        each
        for each in about
        if not {*above, *below}.issuperset(own & {*sites[each].fix}) or _is_rough(own, sites[each])
    ]
    if left.line > left.end_line and (left.text or rest):
        return [(hunk, tuple(about))]
    parts = [(each, tuple(number for number in about if each in sites[number].fix)) for each in (*above, *below)]
    if left.line <= left.end_line:
        parts.insert(len(above), (left, tuple(rest)))
    return parts


def _is_rough(own: Collection[Replacement], site: Site) -> bool:
    """Whether it is not known which of some pieces are a finding's."""
    return set(own).isdisjoint(site.fix)


def _overlap(one: Replacement, other: Replacement) -> bool:
    return one.line <= other.end_line and other.line <= one.end_line


class _Groups:
    """Numbers that belong together."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self._group = {each: each for each in numbers}

    def join(self, numbers: Iterable[int]) -> None:
        """Put the groups of some numbers together."""
        groups = {self._group[each] for each in numbers}
        if not groups:
            return
        self._group = {each: min(groups) if group in groups else group for each, group in self._group.items()}

    def of(self, number: int) -> int:
        """The first of its group."""
        return self._group[number]


def _numbered(
    sites: Sequence[Site],
    parts: Sequence[_Part],
    together: _Groups,
    rewrite: Rewrite,
    needs: Mapping[Finding, tuple[Finding, ...]],
) -> Units:
    order = list(dict.fromkeys(map(together.of, range(len(sites)))))
    units = []
    for first in order:
        members = tuple(site for number, site in enumerate(sites) if together.of(number) == first)
        own = {Finding.of(rewrite.path, each) for each in members}
        needed = dict.fromkeys(one for each in members for one in needs.get(Finding.of(rewrite.path, each), ()))
        units.append(Unit(members, tuple(one for one in needed if one not in own)))
    everything = tuple(range(len(order)))
    return Units(
        tuple(units),
        tuple(
            Piece(piece, tuple(sorted({order.index(together.of(each)) for each in found})) or everything)
            for piece, found in parts
        ),
    )


def _is_right(rewrite: Rewrite, units: Units) -> bool:
    """Whether each unit of one finding comes to that finding's own change."""
    return all(
        applied(rewrite.before, units.wanted({number})) == applied(rewrite.before, unit.sites[0].fix)
        for number, unit in enumerate(units.units)
        if len(unit.sites) == 1 and unit.sites[0].fix
    )
