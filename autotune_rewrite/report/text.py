"""What became of a script, as lines for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from autotune_rewrite.report.diff import preview, texts, unified

if TYPE_CHECKING:
    from collections.abc import Iterator

    from autotune_rewrite.rewriting.results import Rewrite, Site

_DIFF_STYLES = {"---": "bold", "+++": "bold", "@@ ": "cyan"}
_CHANGE_STYLES = {"-": "red", "+": "green"}


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


def findings(rewrite: Rewrite, *, gains: bool, quiet: bool) -> Iterator[Line]:
    """One line for each site that is rewritten, then, unless quiet, for each that is left and why.

    Rules that leave one place for the same reason share a line.
    """
    for site in rewrite.sites:
        if site.rewrites:
            gain = f"  {site.gain}" if gains and site.gain else ""
            yield Line(f"{_place(rewrite, site)} {site.rule}  {rewrite.message(site)}  [{site.promise}]{gain}")
    left: dict[tuple[int, int, str], list[Site]] = {}
    for site in rewrite.sites:
        if not site.rewrites and not quiet:
            left.setdefault((site.line, site.column, site.message), []).append(site)
    for sites in left.values():
        rules = ", ".join(dict.fromkeys(site.rule for site in sites))
        yield Line(f"{_place(rewrite, sites[0])} {rules}  left: {rewrite.message(sites[0])}", "dim")


def _place(rewrite: Rewrite, site: Site) -> str:
    place = site.line if rewrite.cells is None else rewrite.cells.named(site.line)
    return f"{rewrite.path}:{place}"
