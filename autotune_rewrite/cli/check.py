"""``torchfast check``: what could be rewritten."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from autotune_rewrite.cli.findings import STDIN, Report, refuse_contradictions, results
from autotune_rewrite.cli.selection import Chosen, Format, with_selection
from autotune_rewrite.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from autotune_rewrite.rewriting.results import Rewrite


@click.command()
@with_selection
@click.option("--no-cache", is_flag=True, help="Read all files again, and remember nothing.")
def check(*, paths: tuple[str, ...], form: Format, quiet: bool, chosen: Chosen, no_cache: bool) -> None:
    """Report what a rewrite would change and the gain to expect; exit with 1 when a rewrite is available."""
    refuse_contradictions(paths)
    report = Report(form, quiet, gains=True)
    for said in _said(paths, chosen, cached=not no_cache):
        if isinstance(said, FileError):
            report.fail(said)
        else:
            report.add(said)
    report.end(diffs=False)
    if report.errors:
        sys.exit(2)
    sys.exit(1 if any(each.fails for each in report.rewrites) else 0)


def _said(paths: tuple[str, ...], chosen: Chosen, *, cached: bool) -> Iterator[Rewrite | FileError]:
    """What a check says of each file, or of standard input."""
    if paths == (STDIN,):
        found = results(paths, chosen.options(), check=True)
        yield from (each if isinstance(each, FileError) else each.rewrite for each in found)
        return
    from autotune_rewrite.checking import checked
    from autotune_rewrite.checking.cache import Cache

    yield from checked.check(paths, repr(chosen), chosen.options, cache=Cache() if cached else None)
