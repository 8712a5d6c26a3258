"""Findings as a report of GitLab's Code Quality."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from autotune_rewrite.report.entries import entries

if TYPE_CHECKING:
    from collections.abc import Iterable

    from autotune_rewrite.errors import FileError
    from autotune_rewrite.report.entries import Entry
    from autotune_rewrite.rewriting.results import Rewrite


def as_gitlab(rewrites: Iterable[Rewrite], _: Iterable[FileError]) -> str:
    """A list of findings; it has no place for files that cannot be read."""
    return json.dumps([_issue(each) for each in entries(rewrites)], indent=2)


def _issue(entry: Entry) -> dict[str, Any]:
    cell = "" if entry.cell is None else f" (cell {entry.cell})"
    return {
        "description": f"{entry.message}{cell}",
        "check_name": entry.site.rule,
        "fingerprint": entry.fingerprint,
        "severity": "minor" if entry.site.fails else "info",
        "location": {"path": entry.path, "lines": {"begin": entry.line, "end": entry.end_line}},
    }
