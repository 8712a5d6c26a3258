"""Findings as a table of Markdown, for the description of a pull request or the summary of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotune_rewrite.report.entries import entries
from autotune_rewrite.report.markdown import escaped
from autotune_rewrite.report.summary import summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autotune_rewrite.errors import FileError
    from autotune_rewrite.rewriting.results import Rewrite


def as_table(rewrites: Sequence[Rewrite], errors: Sequence[FileError]) -> str:
    """A heading that counts, then a row for each finding, then what cannot be read."""
    counts = summary(rewrites, check=True) or "nothing found"
    blocks = [f"### torchfast: {escaped(counts)}"]
    rows = [
        f"| {escaped(each.title)} | `{each.site.rule}` | {each.site.mark} | {escaped(_why(each.message))} |"
        for each in entries(rewrites)
    ]
    if rows:
        blocks.append("\n".join(("| Place | Rule | Promise | Why |", "| --- | --- | --- | --- |", *rows)))
    if errors:
        blocks.append("\n".join(f"- {escaped(str(each))}" for each in errors))
    return "\n\n".join(blocks)


def _why(message: str) -> str:
    """The message without the promise, which has a column of its own."""
    return message.rpartition(" [")[0]
