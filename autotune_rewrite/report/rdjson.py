"""Findings in reviewdog's format, with suggestions for review."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from autotune_rewrite.report.entries import entries, shown_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from autotune_rewrite.errors import FileError
    from autotune_rewrite.report.entries import Entry
    from autotune_rewrite.rewriting.results import Replacement, Rewrite, Site

SOURCE = {"name": "torchfast"}


def as_rdjson(rewrites: Iterable[Rewrite], errors: Iterable[FileError]) -> str:
    """One result of a tool. Columns count the bytes of UTF-8, and ends are exclusive."""
    found = [*map(_of_error, errors), *map(_of_entry, entries(rewrites))]
    return json.dumps({"source": SOURCE, "severity": "WARNING", "diagnostics": found}, indent=2)


def _of_entry(entry: Entry) -> dict[str, Any]:
    cell = "" if entry.cell is None else f" (cell {entry.cell})"
    why = _why_none(entry.site)
    return {
        "message": f"{entry.message}{cell}{f'; no suggestion: {why}' if why else ''}",
        "location": {"path": entry.path, **({} if entry.cell is not None else {"range": _range(entry)})},
        "severity": "WARNING" if entry.site.fails else "INFO",
        "code": {"value": entry.site.rule},
        "suggestions": [] if why else list(map(_suggestion, entry.site.fix)),
    }


def _why_none(site: Site) -> str:
    """Why no suggestion is made: each is taken over by itself, and part of a change may be another program."""
    if len(site.fix) > 1:
        return f"the change is in {len(site.fix)} places, which belong together"
    return site.no_fix


def _range(entry: Entry) -> dict[str, Any]:
    """From the site to its end, or to the end of its first line, whose text is known."""
    line = entry.site.excerpt
    end = entry.site.end_column if entry.line == entry.end_line else len(line)
    start = _bytes(line[: entry.site.column - 1])
    return {
        "start": {"line": entry.line, "column": start + 1},
        "end": {"line": entry.line, "column": max(start, _bytes(line[:end])) + 1},
    }


def _suggestion(piece: Replacement) -> dict[str, Any]:
    """Places without columns are whole lines, but for the end of the last one."""
    places = {"start": {"line": piece.line}, "end": {"line": piece.end_line}}
    return {"range": places, "text": piece.content}


def _of_error(error: FileError) -> dict[str, Any]:
    place = {"range": {"start": {"line": error.line}}} if error.line is not None and error.cell is None else {}
    where = {"path": shown_path(error.path), **place}
    return {"message": error.message, "location": where, "severity": "ERROR"}


def _bytes(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))
