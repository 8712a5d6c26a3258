"""Where results are written, and what is said of it."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from autotune_rewrite.cli.findings import STDIN, say, write_lines
from autotune_rewrite.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from autotune_rewrite.cli.findings import Report
    from autotune_rewrite.project.journal import Written
    from autotune_rewrite.rewriting.batch import Done, Result

INTERRUPTED = 130
"""The exit code that shells know."""


@dataclass(slots=True)
class Writer:
    """Puts results where they were asked for, if anywhere, and says so."""

    paths: tuple[str, ...]
    """The files and directories that the user named."""
    apply: bool
    output: str | None
    quiet: bool
    patch: str | None = None
    """Where the changes go as a patch."""
    written: list[str] = field(default_factory=list)
    _journal: list[Written] = field(default_factory=list)
    _patch: list[str] = field(default_factory=list)

    @property
    def writes(self) -> bool:
        """Whether anything is to be written."""
        return self.apply or self.output is not None or self.patch is not None

    def write(self, done: Done) -> None:
        """Write the result for one file.

        Raises:
            FileError: when it cannot be written.
        """
        from autotune_rewrite.project import files

        source, after = done.source, done.rewrite.after
        changed = after != source.text
        data = source.encode(after) if changed else source.data
        if self.output == STDIN:
            sys.stdout.buffer.write(data)
        elif self.output is not None:
            files.write(self.output, data)
            self._wrote(self.output, done)
        elif self.patch is not None and changed:
            from autotune_rewrite.report.diff import unified

            # What is no UTF-8 comes back as it was.
            old, new = (each.decode(errors="surrogateescape") for each in (source.data, data))
            self._patch += unified(source.path, old, new)
        elif self.apply and changed:
            from autotune_rewrite.project import journal

            beside = self._beside(source.path)
            files.replace(source, after)
            self._journal.append(journal.Written.of(source.path, source.data))
            self._wrote(source.path, done, beside)

    def end(self) -> None:
        """Write the patch, and keep what is needed to take all back; say that nothing was written where that is so.

        Raises:
            Fault: when the patch cannot be written.
        """
        self._keep()
        if self.patch is not None and self._patch:
            write_lines(self.patch, self._patch)
            self.written.append(self.patch)
            if not self.quiet:
                say(f"{self.patch}: written; `git apply -p0` or `patch -p0` takes it")
        if self.writes and self.output != STDIN and not self.written and not self.quiet:
            say("nothing was written")

    def interrupt(self) -> None:
        """Say what was written before the user ended it."""
        from autotune_rewrite.report.summary import counted

        self._keep()
        so_far = f"{counted(len(self.written), 'file')} written before" if self.written else "nothing was written"
        say(f"interrupted: {so_far}")

    def _keep(self) -> None:
        if self._journal:
            from autotune_rewrite.project import journal

            journal.keep(self._journal)

    def _wrote(self, path: str, done: Done, beside: str = "") -> None:
        from autotune_rewrite.report.summary import counted

        self.written.append(path)
        # What nobody named is said however quiet it is to be.
        if not self.quiet or beside:
            number = sum(site.rewrites for site in done.rewrite.sites)
            say(f"{path}: {counted(number, 'change')} written{beside}")

    def _beside(self, path: str) -> str:
        """What is to be known of a file that the user did not name, before it is written."""
        if self._is_named(path):
            return ""
        from autotune_rewrite.project.git import has_uncommitted_changes

        whose = self.paths[0] if len(self.paths) == 1 else "a script named"
        too = ", beside changes that are not committed" if has_uncommitted_changes(path) else ""
        return f" (not named, but imported for {whose}){too}"

    def _is_named(self, path: str) -> bool:
        real = Path(os.path.realpath(path))
        return any(real.is_relative_to(os.path.realpath(each)) for each in self.paths)


def carry_out(found: Iterable[Result], report: Report, writer: Writer) -> None:
    """Tell what became of each file, and write it; what cannot be written is told as what cannot be read is."""
    try:
        for result in found:
            if isinstance(result, FileError):
                report.fail(result)
                continue
            report.add(result.rewrite)
            try:
                writer.write(result)
            except FileError as error:
                report.fail(error)
    except KeyboardInterrupt:
        writer.interrupt()
        sys.exit(INTERRUPTED)
    report.end(diffs=True, written=writer.written)
    writer.end()
