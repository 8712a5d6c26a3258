"""A judgement as Markdown, for the description of a pull request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from autotune_rewrite.report import judgement as report

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from autotune_rewrite.verify.judgement import Judgement


def as_markdown(judgement: Judgement, original: Path | str, rewritten: Path | str) -> str:
    """The judgement as a heading, figures as a table, then why and where; without a final newline.

    Args:
        judgement: What to say.
        original: The name of the original script, where the judgement has none.
        rewritten: The name of the rewritten script, likewise.
    """
    if judgement.base is not None:
        original, rewritten = judgement.base.then, judgement.base.now
    return "\n\n".join(_blocks(judgement, str(original), str(rewritten)))


def _blocks(judgement: Judgement, original: str, rewritten: str) -> Iterator[str]:
    yield f"### {escaped(report.headline(judgement)).replace('NOT CHECKED', '**NOT CHECKED**')}"
    if report.idle(judgement):
        yield escaped(report.idle(judgement))
    passed = judgement.run == "ok"
    ratios = [f"- {name}: {escaped(ratio)}" for name, ratio in report.ratios(judgement)] if passed else []
    if ratios and judgement.break_even is not None:
        ratios.append(f"- {report.paid_back(judgement)}")
    if ratios:
        yield "\n".join(ratios)
    rows = tuple(report.rows(judgement)) if passed else ()
    if rows:
        heads = ("", f"original: {original}", f"rewritten: {rewritten}")
        cells = [" | ".join(map(escaped, row)) for row in (heads, *rows)]
        yield "\n".join(f"| {row} |" for row in (cells[0], ":-- | --: | --:", *cells[1:]))
    else:
        yield f"original: {escaped(original)}, rewritten: {escaped(rewritten)}"
    yield escaped(judgement.reason)
    if judgement.limits:
        yield escaped(judgement.limits)
    notes = [f"- {escaped(note)}" for note in report.notes(judgement)]
    if notes:
        yield "\n".join(notes)
    if judgement.output:
        yield from _details(judgement)
    yield f"<sub>{escaped(report.seen(judgement) if passed else report.environment(judgement))}</sub>"


def _details(judgement: Judgement) -> Iterator[str]:
    """What a failed run said, folded away."""
    lines = "\n".join(report.output(judgement))
    longest = max(map(len, re.findall("`+", lines)), default=0)
    fence = "`" * max(3, longest + 1)
    yield "<details>\n<summary>Its last lines</summary>"
    yield f"{fence}text\n{lines}\n{fence}"
    yield "</details>"


def escaped(text: str) -> str:
    """One line in which Markdown finds nothing of its own."""
    return re.sub(r"([\\`*_{}\[\]<>#|~$&])", r"\\\1", " ".join(text.split()))
