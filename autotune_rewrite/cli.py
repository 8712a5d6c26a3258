"""The ``torchfast`` command: the only module that prints and exits.

Everything but click is imported by the command that needs it: the time to start is a promise.
"""

from __future__ import annotations

import functools
import io
import json
import shlex
import signal
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import click

from autotune_rewrite import __version__
from autotune_rewrite.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from autotune_rewrite.report.text import Line
    from autotune_rewrite.rewriting.batch import Done, Result
    from autotune_rewrite.rewriting.config import Options
    from autotune_rewrite.rewriting.results import Rewrite
    from autotune_rewrite.verify import Judgement, Plan
    from autotune_rewrite.verify.records import Environment, Run
    from codemods.codemod import Codemod

_STDIN = "-"
_STDIN_NAME = "<stdin>"


Format = Literal["text", "json"]
VerdictFormat = Literal["text", "json", "markdown"]


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


@dataclass(frozen=True, slots=True)
class _Chosen:
    """What was chosen about rules, as it was written: to look at it, all rules are needed."""

    select: tuple[str, ...] | None
    ignore: tuple[str, ...] | None
    level: str | None
    target_torch: str | None
    workers: int | None
    amp: str | None
    main_guard: bool | None

    def options(self) -> Options:
        """The same, looked at.

        Raises:
            Fault: when something in it is not known.
        """
        from autotune_rewrite.rewriting.config import ConfigError, Options

        try:
            return Options(*(getattr(self, each.name) for each in fields(self)))
        except ConfigError as error:
            raise Fault(str(error)) from error


def _with_selection(command: Callable[..., None]) -> Callable[..., None]:
    """The arguments that ``rewrite`` and ``check`` share; the choice of rules reaches them as ``chosen``."""

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
        main_guard = False if no_main_guard else None
        command(chosen=_Chosen(select, ignore, level, target_torch, workers, amp, main_guard), **others)

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
            help="Run these rules only; DEFAULT and ALL are groups.",
        ),
        click.option("--ignore", multiple=True, callback=_names, metavar="RULE,...", help="Do not run these rules."),
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


class ScriptCommand(click.Command):
    """A command that runs scripts: what follows the first ``--`` are their arguments, and reaches it as ``arguments``.

    Where it has an option ``--verify``, that is so with this option alone.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Split the command line before click does.

        Raises:
            Fault: An option or a value is none.
        """
        at = args.index("--") if "--" in args else len(args)
        runs = "--verify" in args[:at] or not any(each.name == "verify" for each in self.params)
        try:
            left = super().parse_args(ctx, args[:at] if runs else args)
        except click.UsageError as error:
            raise Fault(error.format_message()) from error
        ctx.params["arguments"] = tuple(args[at + 1 :]) if runs else ()
        return left

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The words after the command's name in its help."""
        return [*super().collect_usage_pieces(ctx), "[-- SCRIPT ARGUMENTS...]"]


_CHOICES = (
    "arguments",
    "pairs",
    "time_budget",
    "iterations",
    "full",
    "seed",
    "device",
    "capability",
    "timeout",
    "margin",
    "metric",
    "higher",
    "module",
    "launcher",
    "keep",
)
"""The fields of a plan that users choose."""


@dataclass(frozen=True, slots=True)
class _Running:
    """What was chosen about running scripts."""

    choices: dict[str, Any]
    """Fields of the plan; what was not chosen is not among them, and the plan's to decide."""
    records: Path | None
    tensorboard: Path | None
    markdown: Path | None
    given: tuple[str, ...]
    """The options that were given, as they are written."""

    def plan(self, original: Path, rewritten: Path) -> Plan:
        """The plan for two scripts."""
        from autotune_rewrite.verify import Plan

        notebook = next((each for each in (original, rewritten) if each.suffix == ".ipynb"), None)
        if notebook is not None:
            convert = f"convert it with `jupyter nbconvert --to script {notebook}`"
            raise Fault(f"{notebook}: notebooks cannot be run yet: {convert}")
        return Plan(original, rewritten, **self.choices)


def _with_running(command: Callable[..., None]) -> Callable[..., None]:
    """The options that ``verify`` and ``rewrite --verify`` share; they reach the command as ``running``."""

    @functools.wraps(command)
    def chosen(**values: Any) -> None:  # noqa: ANN401 - each option has a type of its own
        written = {name: values.pop(name) for name in ("records", "tensorboard", "markdown")}
        choices = {name: values.pop(name) for name in _CHOICES}
        options = click.get_current_context().command.params
        given = [
            _spelled(each, value) for each in options if (value := {**written, **choices}.get(each.name)) is not None
        ]
        if choices["arguments"]:
            given.append("--")
        if choices["launcher"] is not None:
            choices["launcher"] = _words(choices["launcher"])
        if choices["metric"] is not None:
            from autotune_rewrite.verify.metrics import check_pattern

            problem = check_pattern(choices["metric"])
            if problem is not None:
                raise Fault(problem)
        fields = {name: value for name, value in choices.items() if value not in (None, ())}
        command(running=_Running(fields, **written, given=tuple(given)), **values)

    path = click.Path(path_type=Path)
    running = (
        click.option("--pairs", type=int, metavar="N", help="Pairs of runs, at most.  [default: 8]"),
        click.option(
            "--time-budget", type=float, metavar="S", help="Seconds that all runs together should take.  [default: 300]"
        ),
        click.option("--iterations", type=int, metavar="N", help="End every run after so many iterations."),
        click.option("--full", is_flag=True, default=None, help="Do not cut runs to keep to the time budget."),
        click.option("--seed", type=int, metavar="N", help="Seed of the first pair.  [default: 0]"),
        click.option(
            "--device",
            type=click.Choice(["auto", "cpu", "cuda", "simulated"]),
            help="Device that both scripts run on.  [default: auto]",
        ),
        click.option(
            "--capability",
            metavar="X.Y",
            help="Capability of the simulated device; 7.0 has float16 only.  [default: 9.0]",
        ),
        click.option("--timeout", type=float, metavar="S", help="Seconds that one run may take."),
        click.option(
            "--margin",
            type=float,
            metavar="X",
            help="How much worse a run may end.  [default: two standard deviations over the seeds, 5 % at most]",
        ),
        click.option(
            "--metric", metavar="REGEX", help="The lines of output with the metric: its group, or the number after it."
        ),
        click.option("--higher/--lower", default=None, help="Which metric is better.  [default: by its name]"),
        click.option("-m", "--module", is_flag=True, default=None, help="Run scripts as `python -m` does."),
        click.option("--launcher", metavar="COMMAND", help='Such as "torchrun --nproc_per_node=2".'),
        click.option("--keep", is_flag=True, default=None, help="Keep the copies of the project that scripts ran in."),
        click.option("--records", type=path, metavar="DIR", help="Write what each run left behind, for --from."),
        click.option("--tensorboard", type=path, metavar="DIR", help="Write the curves of all runs for TensorBoard."),
        click.option("--markdown", type=path, metavar="FILE", help="Write the report as Markdown, too."),
    )
    for decorate in reversed(running):
        chosen = decorate(chosen)
    return chosen


def _spelled(option: click.Parameter, value: object) -> str:
    """The option as it was given: ``--lower`` is ``--higher`` denied."""
    return max(option.secondary_opts if value is False else option.opts, key=len)


def _words(command: str) -> tuple[str, ...]:
    """The words of a launcher's command, as a shell reads them."""
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise Fault(f"--launcher: {str(error).lower()}: {command}") from error
    if not words:
        raise Fault("--launcher is empty")
    return words


# --- rewrite and check ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Report:
    """What was found so far, told to the user as it comes (text) or at the end (JSON)."""

    form: Format
    quiet: bool
    gains: bool
    diff: bool = False
    """Whether changes are shown."""
    whole: bool = False
    """Whether lines that only move are shown among them."""
    to_stderr: bool = False
    rewrites: list[Rewrite] = field(default_factory=list)
    errors: list[FileError] = field(default_factory=list)
    _noted: set[str] = field(default_factory=set)

    def add(self, rewrite: Rewrite) -> None:
        """Take in what became of one script."""
        from autotune_rewrite.report import text

        self.rewrites.append(rewrite)
        if self.form == "text":
            if self.diff:
                self._print(text.diff(rewrite, whole=self.whole))
            self._print(text.findings(rewrite, gains=self.gains, quiet=self.quiet))
        for note in rewrite.notes:
            if note not in self._noted and not self.quiet:
                self._noted.add(note)
                click.echo(f"note: {note}", err=True)

    def fail(self, error: FileError) -> None:
        """Take in what is wrong with one file."""
        self.errors.append(error)
        click.echo(str(error), err=True)

    def end(self, *, diffs: bool, **more: object) -> None:
        """Print the JSON, with more of it, if that was asked for."""
        if self.form == "json":
            from autotune_rewrite.report.jsons import as_json

            click.echo(json.dumps({**as_json(self.rewrites, self.errors, diffs=diffs), **more}, indent=2))

    def _print(self, lines: Iterable[Line]) -> None:
        _print(lines, to_stderr=self.to_stderr)


@cli.command(cls=ScriptCommand)
@_with_selection
@click.option("--diff", is_flag=True, help="Show the lines that only move, too: a diff for patch or git apply.")
@click.option("--apply", is_flag=True, help="Write the files.")
@click.option("--output", metavar="FILE", help="Write the result of one script to this file.")
@click.option(
    "--verify", is_flag=True, help="Run both versions; with --apply, write only what is fit. The options below need it."
)
@click.option(
    "--unmeasured", is_flag=True, help="With --verify, also write changes of rounding that cannot act on this device."
)
@_with_running
def rewrite(  # noqa: PLR0913 - the command line has these options
    *,
    paths: tuple[str, ...],
    diff: bool,
    apply: bool,
    output: str | None,
    verify: bool,
    unmeasured: bool,
    form: Format,
    quiet: bool,
    chosen: _Chosen,
    running: _Running,
) -> None:
    """Rewrite training scripts; `-` reads standard input and writes the result to standard output."""
    options = chosen.options()
    _refuse_contradictions(paths, diff=diff, apply=apply, output=output, verify=verify)
    for given in (*(["--unmeasured"] if unmeasured else []), *running.given)[:1]:
        if not verify:
            raise Fault(f"{given} is for --verify, which is not given")
    if paths == (_STDIN,) and output is None and not diff and form == "text":
        output = _STDIN
    report = _Report(
        form, quiet, gains=False, diff=not apply and output is None, whole=diff, to_stderr=output == _STDIN
    )
    if verify:
        _rewrite_verified(paths[0], options, running, report, apply=apply, output=output, unmeasured=unmeasured)
    written: list[str] = []
    for result in _results(paths, options, check=False, follow=output is None):
        if isinstance(result, FileError):
            report.fail(result)
            continue
        report.add(result.rewrite)
        try:
            written += _write(result, apply=apply, output=output)
        except FileError as error:
            report.fail(error)
    report.end(diffs=True, written=written)
    if output is not None and paths != (_STDIN,):
        _say_what_is_not_written(paths[0], options)
    sys.exit(2 if report.errors else 0)


def _rewrite_verified(  # noqa: PLR0913 - what to rewrite, how, and where to
    path: str,
    options: Options,
    running: _Running,
    report: _Report,
    *,
    apply: bool,
    output: str | None,
    unmeasured: bool,
) -> NoReturn:
    """Rewrite one script, take back what does not hold up, and write the rest if it is fit."""
    from autotune_rewrite.rewriting import batch
    from autotune_rewrite.tune.verified import verified
    from autotune_rewrite.verify import VerifyError

    judgement: Judgement | None = None
    written: list[str] = []
    try:
        parts = batch.read_project(path, follow=output is None)
        verifier = _Verifier(running)
        plan = running.plan(Path(path), Path(path))
        held_back = (apply or output is not None) and not unmeasured
        device = functools.partial(_environment, plan) if held_back else None
        result = verified(parts, options, plan, verifier, _say, environment=device)
        judgement = result.judgement
        for done in result.changes.dones:
            report.add(done.rewrite)
        if judgement is None:
            _say("nothing was rewritten: nothing to verify")
        else:
            verifier.show(judgement, report.form, to_stderr=report.to_stderr)
        if judgement is None or (judgement.fit and not judgement.interrupted):
            for done in result.changes.dones:
                written += _write(done, apply=apply, output=output)
    except FileError as error:
        report.fail(error)
    except VerifyError as error:
        raise Fault(str(error)) from error
    code = 2 if report.errors else 0 if judgement is None else _code_of(judgement)
    told = None if judgement is None else {**_judgement_as_json(judgement), "exit_code": code}
    report.end(diffs=True, written=written, verification=told)
    if output is not None:
        _say_what_is_not_written(path, options)
    sys.exit(code)


def _code_of(judgement: Judgement) -> int:
    """The exit code of a rewrite that was verified: unlike that of ``verify``, it says whether the result is fit."""
    return judgement.exit_code if judgement.interrupted else int(not judgement.fit)


def _environment(plan: Plan) -> Environment:
    """What the device is that scripts run on.

    Raises:
        VerifyError: torch cannot be imported, or there is no such device.
    """
    from autotune_rewrite.verify.run import probe

    if plan.simulated is not None:
        return {"cuda": True, "capability": plan.simulated}
    return {"cuda": False} if plan.device == "cpu" else probe(plan)


@cli.command()
@_with_selection
@click.option("--no-cache", is_flag=True, help="Read all files again, and remember nothing.")
def check(*, paths: tuple[str, ...], form: Format, quiet: bool, chosen: _Chosen, no_cache: bool) -> None:
    """Report what a rewrite would change and the gain to expect; exit with 1 when a rewrite is available."""
    _refuse_contradictions(paths)
    report = _Report(form, quiet, gains=True)
    for said in _said(paths, chosen, cached=not no_cache):
        if isinstance(said, FileError):
            report.fail(said)
        else:
            report.add(said)
    report.end(diffs=False)
    if report.errors:
        sys.exit(2)
    sys.exit(1 if any(each.fails for each in report.rewrites) else 0)


def _said(paths: tuple[str, ...], chosen: _Chosen, *, cached: bool) -> Iterator[Rewrite | FileError]:
    """What a check says of each file, or of standard input."""
    if paths == (_STDIN,):
        results = _results(paths, chosen.options(), check=True)
        yield from (each if isinstance(each, FileError) else each.rewrite for each in results)
        return
    from autotune_rewrite.checking import checked
    from autotune_rewrite.checking.cache import Cache

    yield from checked.check(paths, repr(chosen), chosen.options, cache=Cache() if cached else None)


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
    if output not in (None, _STDIN) and paths[0].endswith(".ipynb") and not output.endswith(".ipynb"):
        raise Fault(f"--output {output}: what is rewritten is a notebook, whose name ends in .ipynb")


def _results(paths: tuple[str, ...], options: Options, *, check: bool, follow: bool = True) -> Iterator[Result]:
    """What became of each file, followed or not into the modules that it imports, or of standard input."""
    from autotune_rewrite.project import files
    from autotune_rewrite.rewriting import batch

    if paths != (_STDIN,):
        yield from batch.run(paths, options, check=check, follow=follow)
        return
    data = sys.stdin.buffer.read()
    if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") and b'"nbformat"' in data:
        yield FileError(_STDIN_NAME, "a notebook: give the name of its file instead")
        return
    try:
        yield from batch.process_read(batch.alone(files.decode(_STDIN_NAME, data)), options, check=check)
    except FileError as error:
        yield error


def _say_what_is_not_written(path: str, options: Options) -> None:
    """Say which files that the script imports could be rewritten, too, where one file alone is written."""
    results = (each for each in _results((path,), options, check=True) if not isinstance(each, FileError))
    files_ = [each.rewrite.path for each in results if each.rewrite.path != path and each.rewrite.rules]
    if files_:
        _say(f"not rewritten: {', '.join(files_)}, which {path} imports; --apply writes these files, too")


def _write(done: Done, *, apply: bool, output: str | None) -> list[str]:
    """Put the result where it was asked for, if anywhere.

    Returns:
        The file that was written, if one was.

    Raises:
        FileError: when it cannot be written there.
    """
    from autotune_rewrite.project import files

    source, after = done.source, done.rewrite.after
    changed = after != source.text
    data = source.encode(after) if changed else source.data
    if output == _STDIN:
        sys.stdout.buffer.write(data)
        return []
    if output is not None:
        files.write(output, data)
        return [output]
    if not apply or not changed:
        return []
    files.replace(source, after)
    return [source.path]


# --- verify ---------------------------------------------------------------------------------------------------------


@cli.command(cls=ScriptCommand)
@click.argument("scripts", nargs=-1, metavar="ORIGINAL REWRITTEN")
@click.option(
    "--promise",
    type=click.Choice(["bitwise", "random", "precision"]),
    help="How far the results may differ.  [default: precision]",
)
@_with_running
@click.option(
    "--from", "saved", type=click.Path(path_type=Path), metavar="DIR", help="Run nothing: judge these records again."
)
@click.option("--format", "form", type=click.Choice(["text", "json", "markdown"]), default="text", show_default=True)
def verify(
    *, scripts: tuple[str, ...], promise: str | None, saved: Path | None, form: VerdictFormat, running: _Running
) -> None:
    """Run two scripts in pairs of fresh processes: is the second faster, and does it compute the same?"""
    from autotune_rewrite.verify import VerifyError

    if promise is not None:
        running = replace(running, choices={**running.choices, "promise": promise})
    verifier = _Verifier(running)
    try:
        if saved is not None:
            judgement = verifier.again(scripts, saved)
        else:
            if len(scripts) != 2:  # noqa: PLR2004 - an original and a rewritten one
                raise Fault(f"verify takes two scripts, or --from with records, but got {len(scripts)}")
            files = [_module_file(script) if running.choices.get("module") else Path(script) for script in scripts]
            judgement, _ = verifier(running.plan(*files), probe=False)
        verifier.show(judgement, form)
    except (VerifyError, FileError) as error:
        raise Fault(str(error)) from error
    if form == "json":
        click.echo(json.dumps(_judgement_as_json(judgement), indent=2))
    sys.exit(judgement.exit_code)


_HANGUP = (signal.SIGHUP,) if sys.platform != "win32" else ()
"""The terminal is closed."""


@contextmanager
def _ended_by(*signals: signal.Signals) -> Iterator[None]:
    """Lets signals that would end this process at once do what Ctrl-C does: nothing is left running or lying about."""
    before = {each: signal.signal(each, signal.default_int_handler) for each in signals}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@dataclass(slots=True)
class _Verifier:
    """Carries out plans, and shows what came of the last that was no probe."""

    running: _Running
    plan: Plan = field(init=False)
    runs: Sequence[Run] = field(init=False)

    def __call__(self, plan: Plan, *, probe: bool) -> tuple[Judgement, list[Run]]:
        """Run what there is to run; records are written of what is no probe."""
        from autotune_rewrite.report.progress import live
        from autotune_rewrite.verify import verify

        if self.running.tensorboard is not None:
            from autotune_rewrite.report.tensorboard import check_tensorboard

            check_tensorboard(self.running.tensorboard)
        runs: list[Run] = []
        with _ended_by(signal.SIGTERM, *_HANGUP), live() as progress:
            judgement = verify(plan, progress, records=None if probe else self.running.records, on_run=runs.append)
        if not probe:
            self.plan, self.runs = plan, runs
        return judgement, runs

    def again(self, scripts: tuple[str, ...], saved: Path) -> Judgement:
        """Judge records; what is about running, and not about judging, cannot be followed."""
        from autotune_rewrite.verify import judge_again
        from autotune_rewrite.verify.records import load

        judging = ("--margin", "--metric", "--higher", "--lower", "--markdown")
        other = next((given for given in self.running.given if given not in judging), None)
        if scripts or other is not None:
            raise Fault(f"{other or 'a script'} cannot be followed with --from: nothing is run")
        judgement = judge_again(saved, **self.running.choices)
        self.plan, _, self.runs = load(saved)
        return judgement

    def show(self, judgement: Judgement, form: VerdictFormat, *, to_stderr: bool = False) -> None:
        """Print the judgement, unless as JSON, and write what else was asked for.

        Raises:
            FileError: A file cannot be written.
            VerifyError: Nor can what TensorBoard reads.
        """
        from autotune_rewrite.project import files
        from autotune_rewrite.report import judgement as report
        from autotune_rewrite.report.markdown import as_markdown

        original, rewritten = _titles(self.plan)
        if form == "text" and to_stderr:
            click.echo(report.as_text(judgement), err=True)
        elif form == "text":
            report.show(judgement)
        if form == "markdown":
            click.echo(as_markdown(judgement, original, rewritten))
        if self.running.markdown is not None:
            files.write(str(self.running.markdown), f"{as_markdown(judgement, original, rewritten)}\n".encode())
        if self.running.tensorboard is not None:
            from autotune_rewrite.report.tensorboard import write_tensorboard

            write_tensorboard(self.running.tensorboard, self.plan, self.runs, judgement)


def _titles(plan: Plan) -> tuple[str, str]:
    """What the two scripts are called in a report."""
    original = str(plan.original)
    return original, str(plan.rewritten) if plan.script_directory is None else f"{original}, rewritten"


def _module_file(name: str) -> Path:
    """The file of a module, as seen from the current directory; nothing is imported.

    Args:
        name: ``package.module``, or a file, which stays one.
    """
    given = Path(name)
    if given.suffix == ".py" or given.is_file():
        return given
    inside = Path(*name.split("."))
    candidates = (inside.with_suffix(".py"), inside / "__main__.py")
    found = next((each for each in candidates if each.is_file()), None)
    if found is None:
        raise Fault(f"no module {name} here: neither {candidates[0]} nor {candidates[1]} is a file")
    return found


def _say(message: str) -> None:
    click.echo(message, err=True)


def _judgement_as_json(judgement: Judgement) -> dict[str, Any]:
    from autotune_rewrite.report.judgement import as_json

    return as_json(judgement)


# --- what torchfast knows -------------------------------------------------------------------------------------------


@cli.command()
@click.argument("script")
def facts(script: str) -> None:
    """Print what is understood of a script, line by line."""
    from autotune_rewrite.rewriting import batch

    try:
        for place, fact in batch.facts(script):
            click.echo(f"{place}: {fact}")
    except FileError as error:
        raise Fault(str(error)) from error


@cli.command()
def clean() -> None:
    """Remove what `check` remembers of files that did not change."""
    from autotune_rewrite.checking.cache import Cache

    cache = Cache()
    try:
        size = cache.clean()
    except OSError as error:
        raise Fault(f"{cache.place}: not removed: {error.strerror}") from error
    click.echo(f"{size / 2**20:.1f} MiB removed" if size else "nothing to remove")


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
    from autotune_rewrite.report import pages
    from autotune_rewrite.rewriting.catalogue import RULES

    if form == "markdown":
        click.echo(pages.markdown_table(RULES.values()))
    else:
        for line in pages.text_table(RULES.values()):
            click.echo(line)


def _rule(name: str) -> type[Codemod]:
    from autotune_rewrite.rewriting.catalogue import RULES
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
