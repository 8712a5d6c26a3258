"""Findings with the line that each is about, and marks below the site."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from autotune_rewrite.report.text import Line, advised, left, rewritten

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from autotune_rewrite.report.text import Told
    from autotune_rewrite.rewriting.results import Rewrite, Site


def full(rewrite: Rewrite, *, quiet: bool, told: Told) -> Iterator[Line]:
    """The lines of a check; after each about a line that can be rewritten, that line."""
    for line, sites in rewritten(rewrite, check=True, told=told):
        yield line
        yield from _excerpt(rewrite, sites)
    if not quiet:
        yield from advised(rewrite, told=told)
        yield from left(rewrite, told=told)


def _excerpt(rewrite: Rewrite, sites: Sequence[Site]) -> Iterator[Line]:
    """The line, and marks below the sites in it; those that go on in later lines are marked to the end of this one."""
    text = sites[0].excerpt
    marks = [" "] * len(text)
    for site in sites:
        end = min(site.end_column if site.end_line == site.line else len(text), len(text))
        marks[site.column - 1 : end] = "^" * (end - site.column + 1)
    # What is a tab in the line is one below it, or the marks would stand elsewhere.
    indentation = "".join(takewhile(str.isspace, text))
    below = f"{indentation}{''.join(marks)[len(indentation) :]}".rstrip()
    number = str(sites[0].line if rewrite.cells is None else rewrite.cells.place(sites[0].line)[1])
    margin = " " * len(number)
    yield Line(f" {margin} |", "cyan")
    yield Line(f" {number} | {text}")
    yield Line(f" {margin} | {below}", "cyan")
    yield Line("")
