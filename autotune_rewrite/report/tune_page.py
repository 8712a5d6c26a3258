"""What tuning a script came to, as a page: the steps from the original to the result, each rule, and the change."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from autotune_rewrite.report import charts
from autotune_rewrite.report import judgement as verdict
from autotune_rewrite.report import tune as words
from autotune_rewrite.report.diff import unified
from autotune_rewrite.report.page import rendered, side_by_side

if TYPE_CHECKING:
    from collections.abc import Iterator

    from autotune_rewrite.report.page import Hunk
    from autotune_rewrite.tune.tuned import Tuned


def as_html(tuned: Tuned, script: str, cost: words.Cost | None) -> str:
    """One page that needs nothing else, no script either.

    Args:
        tuned: What it came to.
        script: What the script is called.
        cost: Of a run, where that is known.
    """
    judgement = tuned.confirmed
    original = None if judgement is None or judgement.original is None else judgement.original.run_seconds
    steps = [] if original is None else list(_steps(tuned, original))
    return rendered(
        "tune.html",
        script=script,
        headline=words.headline(tuned),
        mood="good" if tuned.pays else "warn",
        notes=list(words.notes(tuned, cost)),
        chart=charts.bars("From the original to the result", steps, verdict.duration) if steps else "",
        heads=words.HEADS,
        rows=list(words.rows(tuned)),
        changed=list(_changed(tuned)),
    )


def _steps(tuned: Tuned, original: float) -> Iterator[charts.Bar]:
    for number, (name, part, _) in enumerate(words.bars(tuned)):
        yield charts.Bar(name, "rewritten" if number else "original", part * original)


def _changed(tuned: Tuned) -> Iterator[tuple[str, list[Hunk]]]:
    for done in tuned.changes.changed if tuned.changes is not None else ():
        rewrite = done.rewrite
        hunks = side_by_side(rewrite.before, rewrite.after)
        lines = words.labelled(unified(rewrite.path, rewrite.before, rewrite.after), rewrite.sites, tuned)
        titles = [line.rpartition("@@")[2].strip() for line in lines if line.startswith("@@ ")]
        if rewrite.cells is None and len(titles) == len(hunks):
            hunks = [replace(hunk, title=title) for hunk, title in zip(hunks, titles, strict=True)]
        yield rewrite.path, hunks
