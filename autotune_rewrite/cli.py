"""The ``torchfast`` command: the only module that prints and exits.

Everything but click is imported by the command that needs it: the time to start is a promise.
"""

from __future__ import annotations

import functools
import io
import json
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import click

from autotune_rewrite import __version__
from autotune_rewrite.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from autotune_rewrite.batch import Done, Result
    from autotune_rewrite.config import Options
    from autotune_rewrite.report.text import Line
    from autotune_rewrite.rewrite import Rewrite
    from autotune_rewrite.verify import Judgement, Progress
    from autotune_rewrite.verify.plan import PromiseName
    from codemods.declaration import Codemod

_STDIN = "-"
_STDIN_NAME = "<stdin>"

Format = Literal["text", "json"]


class Fault(click.ClickException):
    """What the user asked for cannot be done; said in one line."""

    exit_code = 2


def main() -> None:
    """Entry point of ``torchfast`` and ``python -m autotune_rewrite``."""
    cli(prog_name="torchfast")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="torchfast")
def cli() -> None:
    """Rewrite PyTorch training scripts so that they run faster, and run both versions to prove it."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A script's text or name may hold what the terminal's encoding does not.
        sys.stdout.reconfigure(errors="backslashreplace")


def _names(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...] | None:
    """``--select a,b --select c`` as one tuple; None where the option was not given."""
    return tuple(name.strip() for value in values for name in value.split(",") if name.strip()) if values else None


def _with_selection(command: Callable[..., None]) -> Callable[..., None]:
    """The arguments that ``rewrite`` and ``check`` share; the choice of rules reaches them as ``options``."""

    @functools.wraps(command)
    def chosen(  # noqa: PLR0913 - the command line has these options
        *,
        select: tuple[str, ...] | None,
        ignore: tuple[str, ...] | None,
        level: str | None,
        target_torch: str | None,
        workers: int | None,
        amp: str | None,
        no_main_guard: bool,
        **others: object,
    ) -> None:
        from autotune_rewrite.config import ConfigError, Options

        main_guard = False if no_main_guard else None
        try:
            options = Options(select, ignore, level, target_torch, workers, amp, main_guard)
        except ConfigError as error:
            raise Fault(str(error)) from error
        command(options=options, **others)

    selection = (
        click.argument("paths", nargs=-1, required=True, metavar="PATH..."),
        click.option(
            "--level",
            metavar="LEVEL",
            help="The farthest that results may differ: bitwise, random or precision (default).",
        ),
        click.option(
            "--select",
            multiple=True,
            callback=_names,
            metavar="RULE,...",
            help="Exactly the rules that run; DEFAULT and ALL are groups.",
        ),
        click.option("--ignore", multiple=True, callback=_names, metavar="RULE,...", help="Rules that do not run."),
        click.option("--target-torch", metavar="VERSION", help="The oldest torch that the scripts run on."),
        click.option("--workers", type=int, metavar="N", help="Worker processes of a loader.  [default: 4]"),
        click.option("--amp", metavar="FORM", help="Form of mixed precision: auto (default), bf16 or fp16."),
        click.option("--no-main-guard", is_flag=True, help="Put no code under `if __name__ == '__main__':`."),
        click.option("-q", "--quiet", is_flag=True, help="Do not list the sites that are left."),
        click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True),
    )
    for decorate in reversed(selection):
        chosen = decorate(chosen)
    return chosen


# --- rewrite and check ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Report:
    """What was found so far, told to the user as it comes (text) or at the end (JSON)."""

    form: Format
    quiet: bool
    gains: bool
    to_stderr: bool = False
    rewrites: list[Rewrite] = field(default_factory=list)
    errors: list[FileError] = field(default_factory=list)

    def add(self, rewrite: Rewrite, *, diff: bool, whole: bool = False) -> None:
        """Take in what became of one script; its diff may be shown whole."""
        from autotune_rewrite.report import text

        self.rewrites.append(rewrite)
        if self.form == "text":
            if diff:
                self._print(text.diff(rewrite, whole=whole))
            self._print(text.findings(rewrite, gains=self.gains, quiet=self.quiet))

    def fail(self, error: FileError) -> None:
        """Take in what is wrong with one file."""
        self.errors.append(error)
        click.echo(str(error), err=True)

    def end(self, *, diffs: bool, **more: object) -> None:
        """Print the JSON, if that was asked for."""
        if self.form == "json":
            from autotune_rewrite.report.jsons import as_json

            click.echo(json.dumps({**as_json(self.rewrites, self.errors, diffs=diffs), **more}, indent=2))

    def _print(self, lines: Iterable[Line]) -> None:
        _print(lines, to_stderr=self.to_stderr)


@cli.command()
@_with_selection
@click.option("--diff", is_flag=True, help="Show the whole change, for patch or git apply (default: for people).")
@click.option("--apply", is_flag=True, help="Write the files.")
@click.option("--output", metavar="FILE", help="Write the result of one script to this file.")
@click.option("--verify", is_flag=True, help="Run both versions; with --apply, write only what is fit.")
def rewrite(  # noqa: PLR0913 - the command line has these options
    *,
    paths: tuple[str, ...],
    diff: bool,
    apply: bool,
    output: str | None,
    verify: bool,
    form: Format,
    quiet: bool,
    options: Options,
) -> None:
    """Rewrite training scripts; `-` reads standard input and writes the result to standard output."""
    _refuse_contradictions(paths, diff=diff, apply=apply, output=output, verify=verify)
    if paths == (_STDIN,) and output is None and not diff and form == "text":
        output = _STDIN
    report = _Report(form, quiet, gains=False, to_stderr=output == _STDIN)
    judgement: Judgement | None = None
    shown = not apply and output is None
    for result in _results(paths, options, check=False):
        if isinstance(result, FileError):
            report.fail(result)
            continue
        try:
            if verify:
                result, judgement = _verified(result, options, report, diff=shown, whole=diff)  # noqa: PLW2901 - the one that holds
            else:
                report.add(result.rewrite, diff=shown, whole=diff)
            if judgement is None or judgement.fit:
                _write(result, apply=apply, output=output)
        except FileError as error:
            report.fail(error)
    report.end(diffs=True, **({"verification": _judgement_as_json(judgement)} if verify else {}))
    if report.errors:
        sys.exit(2)
    sys.exit(0 if judgement is None or judgement.fit else 1)


@cli.command()
@_with_selection
def check(*, paths: tuple[str, ...], form: Format, quiet: bool, options: Options) -> None:
    """Report what a rewrite would change and the gain to expect; exit with 1 when a rewrite is available."""
    _refuse_contradictions(paths)
    report = _Report(form, quiet, gains=True)
    for result in _results(paths, options, check=True):
        if isinstance(result, FileError):
            report.fail(result)
        else:
            report.add(result.rewrite, diff=False)
    report.end(diffs=False)
    if report.errors:
        sys.exit(2)
    sys.exit(1 if any(each.fails for each in report.rewrites) else 0)


def _refuse_contradictions(
    paths: tuple[str, ...],
    *,
    diff: bool = False,
    apply: bool = False,
    output: str | None = None,
    verify: bool = False,
) -> None:
    """Refuse options that cannot be followed together."""
    if diff + apply + (output is not None) > 1:
        raise Fault("--diff, --apply and --output exclude each other")
    if _STDIN in paths and (apply or verify):
        raise Fault("--apply and --verify need a file, not standard input")
    if (verify or output is not None or _STDIN in paths) and (len(paths) > 1 or Path(paths[0]).is_dir()):
        raise Fault("--verify, --output and standard input take one script")


def _results(paths: tuple[str, ...], options: Options, *, check: bool) -> Iterator[Result]:
    """What became of each file, or of standard input."""
    from autotune_rewrite import batch, files

    if paths != (_STDIN,):
        yield from batch.run(paths, options, check=check)
        return
    data = sys.stdin.buffer.read()
    try:
        yield batch.process(files.decode(_STDIN_NAME, data), options, check=check)
    except FileError as error:
        yield error


def _write(done: Done, *, apply: bool, output: str | None) -> None:
    """Put the result where it was asked for, if anywhere.

    Raises:
        FileError: when it cannot be written there.
    """
    from autotune_rewrite import files

    source, after = done.source, done.rewrite.after
    changed = after != source.text
    if output == _STDIN:
        sys.stdout.buffer.write(source.encode(after) if changed else source.data)
    elif output is not None:
        files.write(output, source.encode(after) if changed else source.data)
    elif apply and changed:
        files.replace(source, after)


# --- verify ---------------------------------------------------------------------------------------------------------


@cli.command()
@click.argument("original", type=click.Path(path_type=Path))
@click.argument("rewritten", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, metavar="[-- SCRIPT ARGUMENTS...]", type=click.UNPROCESSED)
@click.option(
    "--promise",
    type=click.Choice(["bitwise", "random", "precision"]),
    default="precision",
    show_default=True,
    help="How far the results may differ.",
)
@click.option("--pairs", type=int, help="Pairs of runs, at most.  [default: 8]")
@click.option("--time-budget", type=float, help="Seconds that all runs together should take.  [default: 300]")
@click.option("--iterations", type=int, help="End every run after so many iterations.")
@click.option("--seed", type=int, help="Seed of the first pair.")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda", "simulated"]), help="Where both run.")
@click.option("--capability", metavar="X.Y", help="Of the simulated CUDA device; 7.0 has float16 only.  [default: 9.0]")
@click.option("--timeout", type=float, help="Seconds that one run may take.")
@click.option("--margin", type=float, help="How much larger the last losses may be.  [default: as seeds move them]")
@click.option("--keep", is_flag=True, default=None, help="Keep the copies of the project that the scripts ran in.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def verify(*, form: Format, **choices: Any) -> None:  # noqa: ANN401 - the plan says what they are
    """Run two scripts in pairs of fresh processes: is the second faster, and does it compute the same?"""
    from autotune_rewrite.report.judgement import as_text
    from autotune_rewrite.verify import Plan, VerifyError
    from autotune_rewrite.verify import verify as run

    # What was not given is the plan's to decide.
    plan = Plan(**{name: value for name, value in choices.items() if value is not None})
    try:
        judgement = run(plan, _progress)
    except VerifyError as error:
        raise Fault(str(error)) from error
    click.echo(json.dumps(_judgement_as_json(judgement), indent=2) if form == "json" else as_text(judgement))
    sys.exit(judgement.exit_code)


def _verified(
    done: Done, options: Options, report: _Report, *, diff: bool, whole: bool
) -> tuple[Done, Judgement | None]:
    """Run a script and its rewrite, and say what came of it.

    A rule that a failure points to is left out, and the rest is verified again.

    Returns:
        The rewrite that was judged last, and the judgement; None where nothing was rewritten.

    Raises:
        FileError: when they cannot be run at all.
    """
    from autotune_rewrite import batch

    without: frozenset[str] = frozenset()
    while True:
        report.add(done.rewrite, diff=diff, whole=whole)
        judgement = _judged(done, report)
        if judgement is None or not judgement.blamed:
            return done, judgement
        report.rewrites.pop()
        without |= frozenset(judgement.blamed)
        click.echo(f"{' and '.join(judgement.blamed)} left out; what is left is verified again", err=True)
        done = batch.process(done.source, options, check=False, without=without)


def _judged(done: Done, report: _Report) -> Judgement | None:
    """Run a script and its rewrite, and say what came of it; None where nothing was rewritten.

    Raises:
        FileError: when they cannot be run at all.
    """
    from autotune_rewrite.catalogue import RULES
    from autotune_rewrite.report.judgement import as_text
    from autotune_rewrite.verify import Plan, VerifyError
    from autotune_rewrite.verify import verify as run

    source, rewrite = done.source, done.rewrite
    if rewrite.promise is None:
        click.echo("nothing was rewritten: nothing to verify", err=True)
        return None
    original = Path(source.path)
    with tempfile.TemporaryDirectory(prefix="torchfast-") as directory:
        rewritten = Path(directory, original.name)
        rewritten.write_bytes(source.encode(rewrite.after))
        promise = cast("PromiseName", str(rewrite.promise))
        signatures = tuple((name, RULES[name].failures) for name in sorted(rewrite.rules))
        plan = Plan(original, rewritten, promise, signatures=signatures, script_directory=original.parent)
        try:
            judgement = run(plan, _progress)
        except VerifyError as error:
            raise FileError(source.path, str(error)) from error
    if not judgement.environment.get("cuda"):
        judgement = replace(judgement, not_measured=_needing_cuda(rewrite.rules))
    if report.form == "text":
        click.echo(as_text(judgement))
    return judgement


def _progress(progress: Progress) -> None:
    click.echo(f"run {progress.number} of {progress.total}: {progress.side}", err=True)


def _needing_cuda(rules: Iterable[str]) -> tuple[str, ...]:
    """The rules among these whose changes act only where there is a CUDA device."""
    from autotune_rewrite.catalogue import RULES

    return tuple(sorted(name for name in rules if RULES[name].needs_cuda))


def _judgement_as_json(judgement: Judgement | None) -> dict[str, Any] | None:
    from autotune_rewrite.report.judgement import as_json

    return None if judgement is None else as_json(judgement)


# --- what torchfast knows -------------------------------------------------------------------------------------------


@cli.command()
@click.argument("script")
def facts(script: str) -> None:
    """Print what is understood of a script, line by line."""
    from autotune_rewrite import batch

    try:
        for line, fact in batch.facts(script):
            click.echo(f"{line}: {fact}")
    except FileError as error:
        raise Fault(str(error)) from error


@cli.command()
@click.argument("rule")
def explain(rule: str) -> None:
    """Print the page of a rule."""
    from autotune_rewrite.report.pages import page

    text = page(_rule(rule))
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(text))
    else:
        click.echo(text)


@cli.command()
@click.option("--format", "form", type=click.Choice(["text", "markdown"]), default="text", show_default=True)
def rules(form: Literal["text", "markdown"]) -> None:
    """List the rules."""
    from autotune_rewrite.catalogue import RULES
    from autotune_rewrite.report import pages

    if form == "markdown":
        click.echo(pages.markdown_table(RULES.values()))
    else:
        for line in pages.text_table(RULES.values()):
            click.echo(line)


def _rule(name: str) -> type[Codemod]:
    from autotune_rewrite.catalogue import RULES
    from autotune_rewrite.suggestions import unknown

    if name not in RULES:
        raise Fault(unknown("rule", name, RULES))
    return RULES[name]


def _print(lines: Iterable[Line], *, to_stderr: bool = False) -> None:
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
