"""The options about running scripts, which ``verify`` and ``rewrite --verify`` share, and what carries them out."""

from __future__ import annotations

import functools
import shlex
import signal
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

import click

from autotune_rewrite.cli.faults import Fault, as_fault
from autotune_rewrite.cli.findings import STDIN, say
from autotune_rewrite.cli.helping import Explained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from autotune_rewrite.project.revisions import Revision
    from autotune_rewrite.report.verdict_page import Changed
    from autotune_rewrite.verify import Judgement, Plan
    from autotune_rewrite.verify.records import Environment, Run

VerdictFormat = Literal["text", "json", "markdown"]


class ScriptCommand(Explained):
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
        files = args[at + 1 :]
        if not runs and any(each.startswith("-") and not Path(each).exists() for each in files):
            raise Fault(f"-- {' '.join(files)}: a script's arguments are for --verify, which is not given")
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
class Running:
    """What was chosen about running scripts."""

    choices: dict[str, Any]
    """Fields of the plan; what was not chosen is not among them, and the plan's to decide."""
    records: Path | None
    tensorboard: Path | None
    markdown: Path | None
    given: tuple[str, ...]
    """The options that were given, as they are written."""
    html: Path | None = None

    @contextmanager
    def plan_since(self, revision: str, original: Path, rewritten: Path) -> Iterator[Plan]:
        """The plan for a script as it was at a git revision, with its project, and another as it is now.

        Raises:
            FileError: There is no such script or revision.
        """
        from autotune_rewrite.project.revisions import at_revision

        with TemporaryDirectory(prefix="torchfast-") as folder:
            base = at_revision(original, revision, Path(folder).resolve(), now=rewritten)
            yield self.plan(base.text, rewritten, base)

    def plan(self, original: Path, rewritten: Path, base: Revision | None = None) -> Plan:
        """The plan for two scripts; of notebooks it is said what is left out.

        Raises:
            FileError: A notebook cannot be run.
        """
        from autotune_rewrite.project import files
        from autotune_rewrite.project.runnable import is_notebook, runnable
        from autotune_rewrite.verify import Plan

        plan = Plan(original, rewritten, base=base, **self.choices)
        for each in dict.fromkeys((original, rewritten)):
            if is_notebook(each) and each.is_file():
                name = plan.named(each)
                left_out = runnable(name, files.content(str(each))).left_out
                if left_out:
                    say(f"note: left out of {name}: {', '.join(left_out)}")
        return plan


def with_running(command: Callable[..., None]) -> Callable[..., None]:
    """The options that ``verify`` and ``rewrite --verify`` share; they reach the command as ``running``."""

    @functools.wraps(command)
    def chosen(**values: Any) -> None:  # noqa: ANN401 - each option has a type of its own
        written = {name: values.pop(name) for name in ("records", "tensorboard", "markdown", "html")}
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
        if values.get("verify", True):
            results = (Path(each) for name in ("patch", "output") if (each := values.get(name)) not in (None, STDIN))
            reports = (written["markdown"], written["html"])
            refuse_unwritable((*reports, *results), (written["records"], written["tensorboard"]))
        fields = {name: value for name, value in choices.items() if value not in (None, ())}
        command(running=Running(fields, **written, given=tuple(given)), **values)

    path = click.Path(path_type=Path)
    running = (
        click.option("--pairs", type=int, metavar="N", help="Pairs of runs, at most.  [default: 32]"),
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
        click.option("--html", type=path, metavar="FILE", help="Write the report as a page with charts, too."),
    )
    for decorate in reversed(running):
        chosen = decorate(chosen)
    return chosen


def refuse_unwritable(files: Iterable[Path | None], directories: Iterable[Path | None] = ()) -> None:
    """Refuse, before anything runs, what was asked for and could not be written after all runs.

    Raises:
        Fault: One of them cannot be written.
    """
    from autotune_rewrite.project import files as project_files

    with as_fault():
        for each in filter(None, files):
            project_files.refuse_unwritable(each)
        for each in filter(None, directories):
            project_files.refuse_unwritable(each, is_directory=True)


def script_file(name: str, *, is_module: bool) -> Path:
    """The file of a script, as it was named; what is there only as a module has to be named as one."""
    if is_module:
        return module_file(name)
    given = Path(name)
    as_module, _ = _files_of(name)
    if given.suffix != ".py" and not given.exists() and as_module.is_file():
        raise Fault(f"{name}: no such file; -m {name} names the module {as_module}")
    return given


def module_file(name: str) -> Path:
    """The file of a module, as seen from the current directory; nothing is imported.

    Args:
        name: ``package.module``, or a file, which stays one.
    """
    given = Path(name)
    if given.suffix == ".py" or given.is_file():
        return given
    candidates = _files_of(name)
    found = next((each for each in candidates if each.is_file()), None)
    if found is None:
        raise Fault(f"no module {name} here: neither {candidates[0]} nor {candidates[1]} is a file")
    return found


def _files_of(module: str) -> tuple[Path, Path]:
    """The two files that a module of this name may be; a name of dots alone is none of any, but a directory."""
    inside = Path(*module.split("."))
    return Path(f"{inside}.py"), inside / "__main__.py"


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


HANGUP = (signal.SIGHUP,) if sys.platform != "win32" else ()
"""The terminal is closed."""


@contextmanager
def ended_by(*signals: signal.Signals) -> Iterator[None]:
    """Lets signals that would end this process at once do what Ctrl-C does: nothing is left running or lying about."""
    before = {each: signal.signal(each, signal.default_int_handler) for each in signals}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@dataclass(slots=True)
class Verifier:
    """Carries out plans, and shows what came of the last that was no probe."""

    running: Running
    plan: Plan = field(init=False)
    runs: Sequence[Run] = field(init=False)
    changed: Sequence[Changed] | None = field(init=False, default=None)
    """What the rewritten script has otherwise, for a page; None where that is not known any more, or not asked for."""
    known: Environment | None = field(init=False, default=None)
    """The device, as the plan before has found it."""

    def __call__(self, plan: Plan, *, probe: bool) -> tuple[Judgement, list[Run]]:
        """Run what there is to run; records are written of what is no probe."""
        from autotune_rewrite.report.progress import live
        from autotune_rewrite.verify import verify
        from autotune_rewrite.verify.statistics.seeds import MIN_SEEDS

        if self.running.tensorboard is not None:
            from autotune_rewrite.report.tensorboard import check_tensorboard

            check_tensorboard(self.running.tensorboard)
        if 0 < plan.pairs < MIN_SEEDS and not probe:
            say(f"note: results that differ cannot be judged by fewer than {MIN_SEEDS} pairs: see --pairs")
        changed = None
        if self.running.html is not None and not probe:
            from autotune_rewrite.report.verdict_page import changed_files

            changed = changed_files(plan)  # texts that have no file in the project are soon gone
        runs: list[Run] = []
        with ended_by(signal.SIGTERM, *HANGUP), live() as progress:
            judgement = verify(
                plan,
                progress,
                records=None if probe else self.running.records,
                on_run=runs.append,
                environment=self.known if probe else None,
            )
        self.known = judgement.environment or None
        if not probe:
            self.plan, self.runs, self.changed = plan, runs, changed
        return judgement, runs

    def again(self, scripts: tuple[str, ...], saved: Path) -> Judgement:
        """Judge records; what is about running, and not about judging, cannot be followed."""
        from autotune_rewrite.verify import judge_again
        from autotune_rewrite.verify.records import load

        judging = ("--margin", "--metric", "--higher", "--lower", "--markdown", "--html")
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

        original, rewritten = _titles(self.plan, judgement)
        if form == "text" and to_stderr:
            click.echo(report.as_text(judgement), err=True)
        elif form == "text":
            report.show(judgement)
        if form == "markdown":
            click.echo(as_markdown(judgement, original, rewritten))
        if self.running.markdown is not None:
            files.write(str(self.running.markdown), f"{as_markdown(judgement, original, rewritten)}\n".encode())
        if self.running.html is not None:
            from autotune_rewrite.report.verdict_page import as_html

            page = as_html(judgement, self.plan, self.runs, (original, rewritten), self.changed)
            files.write(str(self.running.html), f"{page}\n".encode(errors="surrogateescape"))
        if self.running.tensorboard is not None:
            from autotune_rewrite.report.tensorboard import write_tensorboard

            write_tensorboard(self.running.tensorboard, self.plan, self.runs, judgement)


def _titles(plan: Plan, judgement: Judgement) -> tuple[str, str]:
    """What the two scripts are called in a report."""
    if judgement.base is not None:
        return judgement.base.then, judgement.base.now
    original = str(plan.original)
    return original, str(plan.rewritten) if plan.script_directory is None else f"{original}, rewritten"


def judgement_as_json(judgement: Judgement) -> dict[str, Any]:
    """The judgement, as ``--format json`` prints it."""
    from autotune_rewrite.report.judgement import as_json

    return as_json(judgement)
