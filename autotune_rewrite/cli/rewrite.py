"""``torchfast rewrite``: what is written, and where."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

import click

from autotune_rewrite.cli.completing import files
from autotune_rewrite.cli.faults import Fault
from autotune_rewrite.cli.findings import STDIN, Report, refuse_contradictions, results, say
from autotune_rewrite.cli.running import (
    Running,
    ScriptCommand,
    Verifier,
    judgement_as_json,
    script_file,
    with_running,
)
from autotune_rewrite.cli.selection import Chosen, with_selection
from autotune_rewrite.cli.writing import INTERRUPTED, Writer, carry_out
from autotune_rewrite.errors import FileError

if TYPE_CHECKING:
    from autotune_rewrite.rewriting.batch import Result
    from autotune_rewrite.rewriting.config import Options
    from autotune_rewrite.verify import Judgement, Plan
    from autotune_rewrite.verify.records import Environment


EXAMPLES = (
    ("torchfast rewrite train.py", "the change as a diff, and why the rest is left"),
    ("torchfast rewrite train.py --apply", "write it; `torchfast undo` takes it back"),
    ("torchfast rewrite train.py --level bitwise", "only what changes no result by a bit"),
    ("torchfast rewrite train.py --select DEFAULT,sdpa", "with a rule named, whether it pays or not"),
    ("torchfast rewrite train.py --verify -- --epochs 2", "run both: is it faster, and the same?"),
)


@click.command(cls=ScriptCommand, examples=EXAMPLES)
@with_selection
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How findings and the change are told.",
)
@click.option("--diff", is_flag=True, help="Show the lines that only move, too: a diff for patch or git apply.")
@click.option("--apply", is_flag=True, help="Write the files.")
@click.option("-i", "--interactive", is_flag=True, help="Ask for each change, and write those that are wanted.")
@click.option("--patch", metavar="FILE", shell_complete=files, help="Write the changes to this file, as a patch.")
@click.option("--output", metavar="FILE", shell_complete=files, help="Write the result of one script to this file.")
@click.option(
    "--verify", is_flag=True, help="Run both versions; with --apply, write only what is fit. The options below need it."
)
@click.option(
    "--unmeasured", is_flag=True, help="With --verify, also write changes of rounding that cannot act on this device."
)
@with_running
def rewrite(  # noqa: PLR0913 - the command line has these options
    *,
    paths: tuple[str, ...],
    diff: bool,
    apply: bool,
    interactive: bool,
    patch: str | None,
    output: str | None,
    verify: bool,
    unmeasured: bool,
    form: Literal["text", "json"],
    quiet: bool,
    chosen: Chosen,
    running: Running,
) -> None:
    """Rewrite training scripts; `-` reads standard input and writes the result to standard output."""
    options = chosen.options()
    is_module = bool(running.choices.get("module"))
    found_files = [script_file(each, is_module=is_module) for each in paths]
    if is_module:
        paths = tuple(map(str, found_files))
    if interactive and (apply or verify or form == "json"):
        raise Fault("--interactive asks and writes: --apply, --verify and --format json go without it")
    refuse_contradictions(paths, diff=diff, apply=apply or interactive, patch=patch, output=output, verify=verify)
    for given in (*(["--unmeasured"] if unmeasured else []), *running.given):
        if not verify and given != "--module":
            raise Fault(f"{given} is for --verify, which is not given")
    if paths == (STDIN,) and output is None and patch is None and not diff and form == "text":
        output = STDIN
    writer = Writer(paths, apply or interactive, output, quiet, patch)
    report = Report(
        form,
        quiet,
        check=False,
        diff=not writer.writes,
        whole=diff,
        writes=writer.writes,
        to_stderr=output == STDIN,
        hint="" if writer.writes else "--apply writes them",
    )
    if verify:
        _rewrite_verified(paths[0], options, running, report, writer, unmeasured=unmeasured)
    found = (
        _wanted(paths, options, writer) if interactive else results(paths, options, check=False, follow=output is None)
    )
    carry_out(found, report, writer)
    if output is not None and paths != (STDIN,):
        _say_what_is_not_written(paths[0], options)
    sys.exit(2 if report.errors else 0)


def _wanted(paths: tuple[str, ...], options: Options, writer: Writer) -> list[Result]:
    """What becomes of each file with those changes alone that the user wants; all are asked for before one is made."""
    from autotune_rewrite.cli.asking import Asking
    from autotune_rewrite.rewriting import batch

    try:
        return list(batch.run_asking(paths, options, Asking()))
    except (click.Abort, KeyboardInterrupt):
        click.echo(err=True)  # the question's line is open
        writer.interrupt()
        sys.exit(INTERRUPTED)


def _rewrite_verified(  # noqa: PLR0913 - what to rewrite, how, and where to
    path: str, options: Options, running: Running, report: Report, writer: Writer, *, unmeasured: bool
) -> NoReturn:
    """Rewrite one script, take back what does not hold up, and write the rest if it is fit."""
    from autotune_rewrite.rewriting import batch
    from autotune_rewrite.tune.verified import verified
    from autotune_rewrite.verify import VerifyError

    judgement: Judgement | None = None
    try:
        parts = batch.read_project(path, follow=writer.output is None, options=options)
        verifier = Verifier(running)
        plan = running.plan(Path(path), Path(path))
        held_back = writer.writes and not unmeasured
        device = functools.partial(_environment, plan) if held_back else None
        result = verified(parts, options, plan, verifier, say, environment=device, slowing=True)
        judgement = result.judgement
        for done in result.changes.dones:
            report.add(done.rewrite)
        if judgement is None:
            say("nothing was rewritten: nothing to verify")
        else:
            verifier.show(judgement, "json" if report.form == "json" else "text", to_stderr=report.to_stderr)
        if judgement is None or (judgement.fit and not judgement.interrupted):
            for done in result.changes.dones:
                writer.write(done)
    except FileError as error:
        report.fail(error)
    except VerifyError as error:
        raise Fault(str(error)) from error
    code = 2 if report.errors else 0 if judgement is None else _code_of(judgement)
    told = None if judgement is None else {**judgement_as_json(judgement), "exit_code": code}
    report.end(diffs=True, written=writer.written, verification=told)
    writer.end()
    if writer.output is not None:
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


def _say_what_is_not_written(path: str, options: Options) -> None:
    """Say which files that the script imports could be rewritten, too, where one file alone is written."""
    from autotune_rewrite.rewriting import batch

    projects = [
        each
        for each in batch.found((path,), options)[1]
        if any(part.asked and part.path != path for part in each.parts)
    ]
    found = (each for project in projects for each in batch.process(project, options, check=True))
    done = (each for each in found if not isinstance(each, FileError))
    files_ = [each.rewrite.path for each in done if each.rewrite.path != path and each.rewrite.rules]
    if files_:
        say(f"not rewritten: {', '.join(files_)}, which {path} imports; --apply writes these files, too")
