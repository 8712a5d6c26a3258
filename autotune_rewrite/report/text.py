"""What became of a script, as lines for people."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from autotune_rewrite.report.diff import preview, texts, unified
from codemods.facts.reason import HERE, Spot, listed
from codemods.facts.reason import Said as Sentence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from autotune_rewrite.report.limits import Limits
    from autotune_rewrite.rewriting.results import Rewrite, Site

_DIFF_STYLES = {"---": "bold", "+++": "bold", "@@ ": "cyan"}
_CHANGE_STYLES = {"-": "red", "+": "green"}

_OF_THE_PROJECT = frozenset(
    {"fails-today", "determinism", "framework", "default-device", "captured", "no-cuda", "older-torch"}
)
"""Causes of which one, in one place, may concern many files."""


class Line(NamedTuple):
    """One line of output and how it looks on a terminal, in rich's words."""

    text: str
    style: str = ""


@dataclass(slots=True)
class Told:
    """What was told of the files before, and is not told again."""

    causes: dict[str, str] = field(default_factory=dict)
    """Causes that lie in the project, with the place of which each was told."""
    gains: set[str] = field(default_factory=set)
    """Sentences about the gain to expect."""


def diff(rewrite: Rewrite, *, whole: bool) -> Iterator[Line]:
    """The change as a unified diff; unless whole, blocks that move to another indentation are shown in short."""
    for cell, before, after in texts(rewrite):
        path = rewrite.path if cell is None else f"{rewrite.path}:cell {cell}"
        for number, line in enumerate((unified if whole else preview)(path, before, after)):
            # Only the first two lines are headers: a removed `-- x` reads like one.
            style = _DIFF_STYLES.get(line[:3], "") if number < 2 or line.startswith("@@ ") else ""  # noqa: PLR2004
            yield Line(line, style or _CHANGE_STYLES.get(line[:1], ""))


def findings(
    rewrite: Rewrite, *, check: bool, quiet: bool, told: Told | None = None, limits: Limits | None = None
) -> Iterator[Line]:
    """One line for each line of the script that a rule rewrites; unless quiet, advice, and each reason to leave sites.

    Sites that are left for the same reason share a line, be they of several rules or in several lines of the script.

    Args:
        rewrite: What became of the script.
        check: Whether it is a check: then the gain is shown, and what does not fail it.
        quiet: Whether only what is rewritten is shown.
        told: What was told of other files.
        limits: What sites can gain at most, if it is known.
    """
    told = Told() if told is None else told
    yield from (line for line, _ in rewritten(rewrite, check=check, told=told, limits=limits))
    if not quiet:
        yield from advised(rewrite, told=told)
        yield from left(rewrite, told=told, limits=limits)


def rewritten(
    rewrite: Rewrite, *, check: bool, told: Told, limits: Limits | None = None
) -> Iterator[tuple[Line, list[Site]]]:
    """One line for each line of the script that a rule rewrites, and the sites there; see ``findings``."""
    groups: dict[tuple[int, str, str, str], list[Site]] = {}
    for site in rewrite.sites:
        if site.rewrites:
            mark = f"{site.promise}; does not fail" if check and not site.fails else str(site.promise)
            groups.setdefault((site.line, site.rule, rewrite.message(site), mark), []).append(site)
    for (_, rule, message, mark), sites in groups.items():
        gain = _gain(sites[0], told) if check else ""
        most = "" if limits is None else f"  {limits.words(sites[0])}"
        number = f" ({len(sites)} places)" if len(sites) > 1 else ""
        yield Line(f"{_place(rewrite, sites[0])} {rule}  {message}{number}  [{mark}]{gain}{most}"), sites


def advised(rewrite: Rewrite, *, told: Told) -> Iterator[Line]:
    """One line for each site of which users are told what they may do themselves."""
    for site in rewrite.sites:
        if site.advises:
            yield Line(f"{_place(rewrite, site)} {site.rule}  advice: {rewrite.message(site)}{_gain(site, told)}")


def left(rewrite: Rewrite, *, told: Told, limits: Limits | None = None) -> Iterator[Line]:
    """One line for each reason to leave sites; see ``findings``."""
    for group in _left(rewrite):
        most = "" if limits is None else f"  ({limits.words(group[0])})"
        yield Line(f"{_reason(rewrite, group, told.causes)}{most}", "dim")


def _gain(site: Site, told: Told) -> str:
    """What the rewrite typically gains, at the first finding that has it."""
    if not site.gain or site.gain in told.gains:
        return ""
    told.gains.add(site.gain)
    return f"  {site.gain}"


def _left(rewrite: Rewrite) -> Iterator[list[Site]]:
    """The sites that are left, those with one reason together: of several rules at a place, or at several places."""
    at_place: dict[tuple[int, int, str], list[Site]] = {}
    for site in rewrite.sites:
        if site.code:
            at_place.setdefault((site.line, site.column, site.message), []).append(site)
    groups: dict[tuple[tuple[str, ...], str], list[Site]] = {}
    for sites in at_place.values():
        rules = tuple(dict.fromkeys(site.rule for site in sites))
        groups.setdefault((rules, _without_own_line(sites[0])), []).extend(sites)
    yield from groups.values()


def _without_own_line(site: Site) -> str:
    """The message, with a hole where it names the site's own line."""
    match site.spots:
        case [Spot(start, end, (line,))] if line == site.line:
            return f"{site.message[:start]}{HERE}{site.message[end:]}"
    return site.message


def _reason(rewrite: Rewrite, sites: list[Site], said_before: dict[str, str]) -> str:
    """The line that says why sites are left, all for one reason."""
    rules = ", ".join(dict.fromkeys(site.rule for site in sites))
    lines = list(dict.fromkeys(site.line for site in sites))
    sentence = sites[0].sentence
    if len(lines) > 1 and sentence.spots and HERE in _without_own_line(sites[0]):
        (spot,) = sentence.spots
        words = listed("line", lines, spot.last)
        text = f"{sentence.text[: spot.start]}{words}{sentence.text[spot.end :]}"
        sentence = Sentence(text, (Spot(spot.start, spot.start + len(words), tuple(lines), spot.last),))
    message = sentence.text if rewrite.cells is None else rewrite.cells.words(sentence)
    if sites[0].code in _OF_THE_PROJECT and not sentence.spots:
        here = f"{rewrite.path}:{', '.join(_line(rewrite, line) for line in lines)}"
        first = said_before.setdefault(message, here)
        message = message if first == here else f"for the same reason as {first}"
    return f"{_places(rewrite, sites)} {rules}  left: {message}"


def _places(rewrite: Rewrite, sites: list[Site]) -> str:
    """``train.py:3:5`` of one line, ``train.py:3, 7`` of several."""
    lines = list(dict.fromkeys(site.line for site in sites))
    if len(lines) == 1:
        return _place(rewrite, sites[0])
    return f"{rewrite.path}:{', '.join(_line(rewrite, line) for line in lines)}"


def _place(rewrite: Rewrite, site: Site) -> str:
    """``train.py:3:5``, ``nb.ipynb:cell 2:3:5``: terminals and editors take one there."""
    return f"{rewrite.path}:{_line(rewrite, site.line)}:{site.column}"


def _line(rewrite: Rewrite, line: int) -> str:
    return str(line) if rewrite.cells is None else rewrite.cells.named(line)
