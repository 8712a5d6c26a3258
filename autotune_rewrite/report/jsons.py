"""Findings, errors and diffs as JSON values, version 1.

Lines and columns count from 1, and ends are inclusive; an insertion before line n is ``line`` n, ``end_line`` n - 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autotune_rewrite.report.diff import unified

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from autotune_rewrite.errors import FileError
    from autotune_rewrite.rewrite import Rewrite, Site

VERSION = 1


def as_json(rewrites: Sequence[Rewrite], errors: Iterable[FileError], *, diffs: bool) -> dict[str, Any]:
    """The answer of ``rewrite`` and, without diffs, of ``check``."""
    changed = [each for each in rewrites if each.after != each.before] if diffs else []
    return {
        "version": VERSION,
        "findings": [_finding(each.path, site) for each in rewrites for site in each.sites],
        "errors": [{"path": error.path, "line": error.line, "message": error.message} for error in errors],
        "diffs": [
            {"path": each.path, "diff": "".join(f"{line}\n" for line in unified(each.path, each.before, each.after))}
            for each in changed
        ],
    }


def _finding(path: str, site: Site) -> dict[str, Any]:
    return {
        "rule": site.rule,
        "path": path,
        "line": site.line,
        "column": site.column,
        "end_line": site.end_line,
        "end_column": site.end_column,
        "status": "rewrites" if site.rewrites else "left",
        "message": site.message,
        "promise": str(site.promise),
        "gain": site.gain,
        "fails": site.fails,
        "edits": [{"path": path, "line": span.line, "end_line": span.end_line} for span in site.edits],
    }
