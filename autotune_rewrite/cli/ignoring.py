"""``check --add-ignores``: comments that leave alone what is found today."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotune_rewrite.cli.findings import say
from autotune_rewrite.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from autotune_rewrite.project.journal import Written
    from autotune_rewrite.rewriting.batch import Done, Result


def add_ignores(found: Iterable[Result]) -> bool:
    """Write the comments, and say how many sites they leave alone; whether all files could be read and written."""
    from autotune_rewrite.project import journal

    added = [each if isinstance(each, FileError) else _added(each) for each in found]
    faults = [each for each in added if isinstance(each, FileError)]
    for fault in faults:
        say(str(fault))
    written = [each for each in added if isinstance(each, journal.Written)]
    if written:
        journal.keep(written)
    return not faults


def _added(done: Done) -> Written | FileError | None:
    """Write the comments of one file, if it has findings, or answer why that cannot be."""
    from autotune_rewrite.project import files, journal, suppress
    from autotune_rewrite.report.summary import counted
    from codemods.dataflow.source import Module

    source, wanted = done.source, dict[int, set[str]]()
    for site in done.rewrite.sites:
        if site.rewrites:
            wanted.setdefault(site.line, set()).add(site.rule)
    if not wanted:
        return None
    mark = "\ufeff" if source.text.startswith("\ufeff") else ""
    text, missed = suppress.with_ignores(Module(source.path, source.text.removeprefix(mark)), wanted)
    try:
        files.replace(source, mark + text)
    except FileError as error:
        return error
    without = f"; {counted(missed, 'line')} can have no comment" if missed else ""
    say(f"{source.path}: {counted(len(wanted) - missed, 'line')} left alone{without}")
    return journal.Written.of(source.path, source.data)
