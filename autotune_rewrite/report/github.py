"""Findings as commands of a GitHub workflow, which become annotations of the lines of a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotune_rewrite.report.entries import entries, shown_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from autotune_rewrite.errors import FileError
    from autotune_rewrite.report.entries import Entry
    from autotune_rewrite.rewriting.results import Rewrite


def as_github(rewrites: Iterable[Rewrite], errors: Iterable[FileError]) -> str:
    """One line for each finding, errors first."""
    return "\n".join([*map(_of_error, errors), *map(_of_entry, entries(rewrites))])


def _of_entry(entry: Entry) -> str:
    places: dict[str, str | int] = {"file": entry.path, "line": entry.line}
    if entry.cell is not None:
        places = {"file": entry.path}  # lines of a cell are none of the file
    elif entry.line == entry.end_line:
        # Columns are told of one line only.
        places |= {"col": entry.site.column, "endColumn": entry.site.end_column}
    else:
        places |= {"endLine": entry.end_line}
    kind = "error" if entry.site.fails else "notice"
    return _command(kind, {**places, "title": f"torchfast ({entry.site.rule})"}, f"{entry.title}: {entry.message}")


def _of_error(error: FileError) -> str:
    place: dict[str, str | int] = {"file": shown_path(error.path)}
    if error.line is not None and error.cell is None:
        return _command("error", {**place, "line": error.line, "title": "torchfast"}, str(error))
    return _command("error", {**place, "title": "torchfast"}, str(error))


def _command(kind: str, properties: dict[str, str | int], message: str) -> str:
    named = ",".join(f"{name}={_in_property(str(value))}" for name, value in properties.items())
    return f"::{kind} {named}::{_escaped(message)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _in_property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")
