"""What became of a script, as lines for people."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

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


@dataclass(frozen=True, slots=True)
class Line:
    """One line of output and how it looks on a terminal, in rich's words."""

    text: str
    style: str = ""


def diff(rewrite: Rewrite, *, whole: bool) -> Iterator[Line]:
    """The change as a unified diff; unless whole, blocks that move to another indentation are shown in short."""
    for cell, before, after in texts(rewrite):
        path = rewrite.path if cell is None else f"{rewrite.path}:cell {cell}"
        for number, line in enumerate((unified if whole else preview)(path, before, after)):
            # Only the first two lines are headers: a removed `-- x` reads like one.
            style = _DIFF_STYLES.get(line[:3], "") if number < 2 or line.startswith("@@ ") else ""  # noqa: PLR2004
            yield Line(line, style or _CHANGE_STYLES.get(line[:1], ""))


def findings(
    rewrite: Rewrite,
    *,
    gains: bool,
    quiet: bool,
    said_before: dict[str, str] | None = None,
    limits: Limits | None = None,
) -> Iterator[Line]:
    """One line for each line of the script that a rule rewrites, then, unless quiet, for each reason to leave sites.

    Sites that are left for the same reason share a line, be they of several rules or in several lines of the script.

    Args:
        rewrite: What became of the script.
        gains: Whether the gain is shown.
        quiet: Whether only what is rewritten is shown.
        said_before: Causes that lie in the project and were told of another file, with the place where that was.
        limits: What sites can gain at most, if it is known.
    """
    rewritten: Counter[str] = Counter()
    for site in rewrite.sites:
        if site.rewrites:
            gain = f"  {site.gain}" if gains and site.gain else ""
            most = "" if limits is None else f"  {limits.words(site)}"
            places = f"{_place(rewrite, site)} {site.rule}  {rewrite.message(site)}"
            rewritten[f"{places}\0  [{site.promise}]{gain}{most}"] += 1
    for text, number in rewritten.items():
        yield Line(text.replace("\0", f" ({number} places)" if number > 1 else ""))
    if not quiet:
        for group in _left(rewrite):
            most = "" if limits is None else f"  ({limits.words(group[0])})"
            yield Line(f"{_reason(rewrite, group, {} if said_before is None else said_before)}{most}", "dim")


def _left(rewrite: Rewrite) -> Iterator[list[Site]]:
    """The sites that are left, those with one reason together: of several rules at a place, or at several places."""
    at_place: dict[tuple[int, int, str], list[Site]] = {}
    for site in rewrite.sites:
        if not site.rewrites:
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
    places = ", ".join(str(line) if rewrite.cells is None else rewrite.cells.named(line) for line in lines)
    sentence = sites[0].sentence
    if len(lines) > 1 and sentence.spots and HERE in _without_own_line(sites[0]):
        (spot,) = sentence.spots
        words = listed("line", lines, spot.last)
        text = f"{sentence.text[: spot.start]}{words}{sentence.text[spot.end :]}"
        sentence = Sentence(text, (Spot(spot.start, spot.start + len(words), tuple(lines), spot.last),))
    message = sentence.text if rewrite.cells is None else rewrite.cells.words(sentence)
    place = f"{rewrite.path}:{places}"
    if sites[0].code in _OF_THE_PROJECT and not sentence.spots:
        first = said_before.setdefault(message, place)
        message = message if first == place else f"for the same reason as {first}"
    return f"{place} {rules}  left: {message}"


def _place(rewrite: Rewrite, site: Site) -> str:
    place = site.line if rewrite.cells is None else rewrite.cells.named(site.line)
    return f"{rewrite.path}:{place}"
