"""Findings, errors and diffs as JSON values, version 1.

Lines and columns count from 1, and ends are inclusive; an insertion before line n is ``line`` n, ``end_line`` n - 1.
In a notebook, lines are those of the ``cell`` that is given with them; cells count from 1, those of text included.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from autotune_rewrite.report.diff import texts, unified

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from autotune_rewrite.errors import FileError
    from autotune_rewrite.report.limits import Limits
    from autotune_rewrite.rewriting.results import Rewrite, Site

VERSION = 1


def as_json(
    rewrites: Sequence[Rewrite], errors: Iterable[FileError], *, diffs: bool, fixes: bool, limits: Limits | None = None
) -> dict[str, Any]:
    """The answer of ``rewrite`` or ``check``.

    Args:
        rewrites: What became of each file.
        errors: What is wrong with other files.
        diffs: Whether what was changed is part of it.
        fixes: Whether the change of each finding alone is.
        limits: What each finding can gain at most, if it is known.
    """
    changed = [each for each in rewrites if each.after != each.before] if diffs else []
    return {
        "version": VERSION,
        "findings": [
            {**_finding(each, site), **(_fix(each, site) if fixes else {}), **_limited(site, limits)}
            for each in rewrites
            for site in each.sites
        ],
        "errors": [
            {"path": error.path, **_cell(error.cell), "line": error.line, "message": error.message} for error in errors
        ],
        "notes": list(dict.fromkeys(note for each in rewrites for note in each.remarks)),
        "diffs": [_diff(each.path, *text) for each in changed for text in texts(each)],
    }


def as_json_lines(rewrites: Iterable[Rewrite], _: Iterable[FileError]) -> str:
    """Each finding of a check as a line of its own, with the keys that it has in ``as_json``."""
    found = ({**_finding(each, site), **_fix(each, site)} for each in rewrites for site in each.sites)
    return "\n".join(map(json.dumps, found))


def _diff(path: str, cell: int | None, before: str, after: str) -> dict[str, Any]:
    title = path if cell is None else f"{path}:cell {cell}"
    return {"path": path, **_cell(cell), "diff": "".join(f"{line}\n" for line in unified(title, before, after))}


def _finding(rewrite: Rewrite, site: Site) -> dict[str, Any]:
    lines = _lines(rewrite, site.line, site.end_line)
    return {
        "rule": site.rule,
        "path": rewrite.path,
        **lines,
        "column": site.column,
        "end_column": site.end_column,
        "status": "rewrites" if site.rewrites else "advice" if site.advises else "left",
        "message": rewrite.message(site),
        "code": site.code,
        "remedy": site.remedy,
        "promise": str(site.promise),
        "gain": site.gain,
        "fails": site.fails,
        "edits": [{"path": rewrite.path, **_lines(rewrite, span.line, span.end_line)} for span in site.edits],
    }


def _fix(rewrite: Rewrite, site: Site) -> dict[str, Any]:
    pieces = ({"line": each.line, "end_line": each.end_line, "text": each.text} for each in site.fix)
    return {"fix": [{"path": rewrite.path, **piece} for piece in pieces], "no_fix": site.no_fix}


def _limited(site: Site, limits: Limits | None) -> dict[str, Any]:
    return {} if limits is None else {"at_most": limits.number(site), "acts_here": limits.acts(site)}


def _lines(rewrite: Rewrite, line: int, end_line: int) -> dict[str, int]:
    """A first and a last line of the text, in the cell where they stand."""
    if rewrite.cells is None:
        return {"line": line, "end_line": end_line}
    cell, first = rewrite.cells.place(line)
    return {**_cell(cell), "line": first, "end_line": first + end_line - line}


def _cell(number: int | None) -> dict[str, int]:
    """The number of a notebook's cell; scripts have none."""
    return {} if number is None else {"cell": number}
