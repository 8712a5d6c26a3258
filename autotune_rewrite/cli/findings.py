"""Findings, told to the user as they come or at the end."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autotune_rewrite.cli.faults import Fault, as_fault
from autotune_rewrite.errors import FileError
from autotune_rewrite.report.formats import STREAMED, Format

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from autotune_rewrite.report.limits import Limits
    from autotune_rewrite.report.text import Line, Told
    from autotune_rewrite.rewriting.batch import Result
    from autotune_rewrite.rewriting.config import Options
    from autotune_rewrite.rewriting.results import Rewrite

STDIN = "-"
STDIN_NAME = "<stdin>"


@dataclass(slots=True)
class Report:
    """What was found so far, told to the user as it comes (text) or at the end (formats for programs)."""

    form: Format
    quiet: bool
    check: bool
    """Whether findings are told as those of a check."""
    diff: bool = False
    """Whether changes are shown."""
    whole: bool = False
    """Whether lines that only move are shown among them."""
    writes: bool = False
    """Whether changes are written."""
    to_stderr: bool = False
    output_file: str | None = None
    """Where the report goes, in the place of standard output."""
    statistics: bool = False
    """Whether findings are only counted, by their rules."""
    limits: Limits | None = None
    """What each site can gain at most, where a profile tells."""
    hint: str = ""
    """What the user can do about the changes."""
    rewrites: list[Rewrite] = field(default_factory=list)
    errors: list[FileError] = field(default_factory=list)
    _noted: set[str] = field(default_factory=set)
    _told: Told | None = None
    _lines: list[str] = field(default_factory=list)
    """Of the output file."""

    def add(self, rewrite: Rewrite) -> None:
        """Take in what became of one script."""
        self.rewrites.append(rewrite)
        if self.form in STREAMED and not self.statistics:
            self._tell(rewrite)
        for note in rewrite.remarks:
            if note not in self._noted and not self.quiet:
                self._noted.add(note)
                say(f"note: {note}")

    def _tell(self, rewrite: Rewrite) -> None:
        from autotune_rewrite.report import text
        from autotune_rewrite.report.full import full

        self._told = self._told or text.Told()
        if self.diff:
            self._print(text.diff(rewrite, whole=self.whole))
        # Quiet, each command says what it was called for alone: the findings, the diff, or nothing.
        if self.quiet and (self.diff or self.writes or not self.check):
            return
        if self.form == "full":
            self._print(full(rewrite, quiet=self.quiet, told=self._told))
        else:
            self._print(text.findings(rewrite, check=self.check, quiet=self.quiet, told=self._told, limits=self.limits))

    def fail(self, error: FileError) -> None:
        """Take in what is wrong with one file."""
        self.errors.append(error)
        say(str(error))

    def end(self, *, diffs: bool, **more: object) -> None:
        """Say how much there was, or print what is for programs; JSON has more in it.

        Raises:
            Fault: when the output file cannot be written.
        """
        if self.form in STREAMED:
            self._print(self._ending())
        elif self.form == "json":
            self._put(self._as_json(diffs=diffs, **more))
        else:
            from autotune_rewrite.report.formats import rendered

            self._put(rendered(self.form, self.rewrites, self.errors))
        if self.output_file is not None:
            write_lines(self.output_file, self._lines)

    def _as_json(self, *, diffs: bool, **more: object) -> str:
        from autotune_rewrite.report import statistics
        from autotune_rewrite.report.jsons import as_json

        if self.statistics:
            return json.dumps(statistics.counts(self.rewrites), indent=2)
        said = as_json(self.rewrites, self.errors, diffs=diffs, fixes=self.check, limits=self.limits)
        return json.dumps({**said, **more}, indent=2)

    def _ending(self) -> Iterator[Line]:
        from autotune_rewrite.report import statistics
        from autotune_rewrite.report.summary import summary
        from autotune_rewrite.report.text import Line

        if self.statistics:
            yield from map(Line, statistics.lines(self.rewrites))
        said = "" if self.quiet else summary(self.rewrites, check=self.check, hint=self.hint)
        if said:
            yield Line(said, "bold")
        elif not self.quiet and not self.errors and sys.stdout.isatty():
            yield Line("no findings", "dim")  # silence would leave open whether anything was looked at

    def _put(self, text: str) -> None:
        """Print what is for programs, whole."""
        if self.output_file is not None:
            self._lines.append(text)
        elif text:
            click.echo(text)

    def _print(self, lines: Iterable[Line]) -> None:
        if self.output_file is None:
            print_lines(lines, to_stderr=self.to_stderr)
        else:
            self._lines += (line.text for line in lines)


def write_lines(path: str, lines: Iterable[str]) -> None:
    """Write lines to a file; what was read and is no UTF-8 comes back as it was.

    Raises:
        Fault: when it cannot be written.
    """
    from autotune_rewrite.project import files

    with as_fault():
        files.write(path, "".join(f"{line}\n" for line in lines).encode(errors="surrogateescape"))


def refuse_contradictions(  # noqa: PLR0913 - what may contradict
    paths: tuple[str, ...],
    *,
    diff: bool = False,
    apply: bool = False,
    patch: str | None = None,
    output: str | None = None,
    verify: bool = False,
) -> None:
    """Refuse options that cannot be followed together."""
    if diff + apply + (patch is not None) + (output is not None) > 1:
        raise Fault("--diff, --apply, --interactive, --patch and --output exclude each other")
    if STDIN in paths and (apply or patch is not None or verify):
        raise Fault("--apply, --interactive, --patch and --verify need a file, not standard input")
    if (verify or output is not None or STDIN in paths) and (len(paths) > 1 or Path(paths[0]).is_dir()):
        raise Fault("--verify, --output and standard input take one script: name its file")
    if output not in (None, STDIN) and paths[0].endswith(".ipynb") and not output.endswith(".ipynb"):
        raise Fault(f"--output {output}: what is rewritten is a notebook, whose name ends in .ipynb")


def results(
    paths: tuple[str, ...], options: Options, *, check: bool, follow: bool = True, fixes: bool = False
) -> Iterator[Result]:
    """What became of each file, followed or not into the modules that it imports, or of standard input."""
    from autotune_rewrite.project import files
    from autotune_rewrite.rewriting import batch

    if paths != (STDIN,):
        yield from batch.run(paths, options, check=check, follow=follow, fixes=fixes)
        return
    data = sys.stdin.buffer.read()
    if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") and b'"nbformat"' in data:
        yield FileError(STDIN_NAME, "a notebook: give the name of its file instead")
        return
    try:
        yield from batch.process_read(batch.alone(files.decode(STDIN_NAME, data)), options, check=check, fixes=fixes)
    except FileError as error:
        yield error


def say(message: str) -> None:
    """Tell the user, beside what a program may read from standard output."""
    click.echo(message, err=True)


def print_lines(lines: Iterable[Line], *, to_stderr: bool = False) -> None:
    """Print lines, with their styles where somebody is looking."""
    if (sys.stderr if to_stderr else sys.stdout).isatty():
        from rich.console import Console
        from rich.text import Text

        console = Console(stderr=to_stderr)
        for line in lines:
            console.print(Text(line.text.rstrip("\r"), line.style), soft_wrap=True)
    else:
        for line in lines:
            click.echo(line.text, err=to_stderr)
