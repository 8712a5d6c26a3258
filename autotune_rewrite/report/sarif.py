"""Findings as SARIF 2.1.0, with fixes: for code scanning."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from autotune_rewrite import __version__
from autotune_rewrite.report.entries import entries, shown_path
from autotune_rewrite.report.pages import page, summary
from codemods.catalogue import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from autotune_rewrite.errors import FileError
    from autotune_rewrite.report.entries import Entry
    from autotune_rewrite.rewriting.results import Replacement, Rewrite

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def as_sarif(rewrites: Iterable[Rewrite], errors: Sequence[FileError]) -> str:
    """One log with one run."""
    found = list(entries(rewrites))
    rules = sorted({each.site.rule for each in found})
    driver = {"name": "torchfast", "version": __version__, "rules": [_rule(each) for each in rules]}
    invocation = {
        "executionSuccessful": not errors,
        "toolExecutionNotifications": [_notification(each) for each in errors],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "columnKind": "unicodeCodePoints",
        "results": [_result(each, rules) for each in found],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _rule(name: str) -> dict[str, Any]:
    text = page(RULES[name])
    return {
        "id": name,
        "shortDescription": {"text": summary(RULES[name])},
        "help": {"text": text, "markdown": text},
    }


def _result(entry: Entry, rules: Sequence[str]) -> dict[str, Any]:
    where = {"artifactLocation": _artifact(entry.path), "region": _region(entry)}
    result: dict[str, Any] = {
        "ruleId": entry.site.rule,
        "ruleIndex": rules.index(entry.site.rule),
        "level": "warning" if entry.site.fails else "note",
        "message": {"text": f"{entry.message}; no fix: {entry.site.no_fix}" if entry.site.no_fix else entry.message},
        "locations": [{"physicalLocation": where}],
        "partialFingerprints": {"torchfast/v1": entry.fingerprint},
    }
    if entry.site.fix:
        change = {"artifactLocation": _artifact(entry.path), "replacements": list(map(_replacement, entry.site.fix))}
        result["fixes"] = [{"description": {"text": entry.message}, "artifactChanges": [change]}]
    return result


def _region(entry: Entry) -> dict[str, Any]:
    """The end's column is that behind the last character. A notebook's lines are those of a cell, which it names."""
    region: dict[str, Any] = {
        "startLine": entry.line,
        "startColumn": entry.site.column,
        "endLine": entry.end_line,
        "endColumn": entry.site.end_column + 1,
    }
    return region if entry.cell is None else {**region, "message": {"text": f"cell {entry.cell}"}}


def _replacement(piece: Replacement) -> dict[str, Any]:
    """A region without columns is whole lines, but for the end of the last one."""
    region = {"startLine": piece.line, "endLine": piece.end_line}
    return {"deletedRegion": region, "insertedContent": {"text": piece.content}}


def _notification(error: FileError) -> dict[str, Any]:
    where: dict[str, Any] = {"artifactLocation": _artifact(shown_path(error.path))}
    if error.line is not None:
        where["region"] = {"startLine": error.line}
    return {"level": "error", "message": {"text": error.message}, "locations": [{"physicalLocation": where}]}


def _artifact(path: str) -> dict[str, str]:
    absolute = PurePosixPath(path).is_absolute()
    return {"uri": PurePosixPath(path).as_uri() if absolute else quote(path.encode(errors="surrogateescape"))}
