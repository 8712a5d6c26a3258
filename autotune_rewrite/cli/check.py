"""``torchfast check``: what could be rewritten."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

import click

from autotune_rewrite.cli.completing import LEVELS, files, one_of
from autotune_rewrite.cli.faults import Fault, as_fault
from autotune_rewrite.cli.findings import STDIN, Report, refuse_contradictions, results, say, write_lines
from autotune_rewrite.cli.helping import Explained
from autotune_rewrite.cli.narrowing import Narrowing
from autotune_rewrite.cli.narrowing import write_baseline as write_baseline_
from autotune_rewrite.cli.selection import Chosen, with_selection
from autotune_rewrite.cli.writing import Writer, carry_out
from autotune_rewrite.errors import FileError
from autotune_rewrite.report.formats import NAMES, STREAMED, WITH_FIXES, Format

if TYPE_CHECKING:
    from collections.abc import Iterator

    from autotune_rewrite.report.limits import Limits
    from autotune_rewrite.rewriting.results import Rewrite


EXAMPLES = (
    ("torchfast check", "all scripts below this directory"),
    ("torchfast check train.py --format full", "each line that is meant, with marks below"),
    ("torchfast check --level bitwise", "what changes no result by a bit"),
    ("torchfast check --fix", "write the changes"),
    ("torchfast check --diff-base origin/main", "what stands on lines changed since"),
)


@click.command(cls=Explained, examples=EXAMPLES)
@with_selection
@click.option("--format", "form", type=click.Choice(NAMES), help="How findings are told.  [default: text]")
@click.option("--output-file", metavar="FILE", shell_complete=files, help="Write the report to this file.")
@click.option("--statistics", is_flag=True, help="Count findings by rule, in the place of telling each.")
@click.option("--diff", is_flag=True, help="Show the changes, too.")
@click.option("--fix", is_flag=True, help="Write the changes.")
@click.option("--add-ignores", is_flag=True, help="Write comments that leave alone what is found.")
@click.option("--diff-base", metavar="REV", help="Tell only what stands on lines changed since this git revision.")
@click.option("--baseline", metavar="FILE", shell_complete=files, help="Tell only what this file does not know.")
@click.option(
    "--write-baseline", metavar="FILE", shell_complete=files, help="Write what is found to this file, and pass."
)
@click.option(
    "--fail-on",
    metavar="LEVEL",
    shell_complete=one_of((*LEVELS, "never")),
    help="The farthest promise of findings that fail, or never.",
)
@click.option("--evidence", is_flag=True, help="Say whether what `tune` measured still stands; run no rule.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 whatever is found.")
@click.option("--no-cache", is_flag=True, help="Read all files again, and remember nothing.")
@click.option(
    "--profile",
    "profile",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Say what each rewrite can gain at most, and the most first, by what `profile --format json` printed.",
)
def check(  # noqa: PLR0913 - the command line has these options
    *,
    paths: tuple[str, ...],
    form: Format | None,
    quiet: bool,
    chosen: Chosen,
    output_file: str | None,
    statistics: bool,
    diff: bool,
    fix: bool,
    add_ignores: bool,
    diff_base: str | None,
    baseline: str | None,
    write_baseline: str | None,
    fail_on: str | None,
    evidence: bool,
    exit_zero: bool,
    no_cache: bool,
    profile: Path | None,
) -> None:
    """Report what a rewrite would change and the gain to expect; exit with 1 when a rewrite is available."""
    if evidence:
        _evidence(paths, form, output_file, exit_zero=exit_zero)
    chosen = replace(chosen, fail_on=fail_on)
    form = _configured_format() if form is None else form
    _refuse_contradictions(paths, form, statistics=statistics, diff=diff, fix=fix, profile=profile)
    _refuse_narrowing(baseline, diff_base, write_baseline, changes=diff or fix)
    if add_ignores:
        _add_ignores(paths, chosen, alone=not (diff or fix or profile or baseline or diff_base or write_baseline))
    hint = "" if diff or fix or paths == (STDIN,) else "--diff shows them, --fix writes them"
    report = Report(
        form,
        quiet,
        check=True,
        diff=diff,
        writes=fix,
        hint=hint,
        output_file=output_file,
        statistics=statistics,
    )
    if diff or fix:
        _changes(paths, chosen, report, fix=fix, exit_zero=exit_zero)
    narrowing = Narrowing(baseline, diff_base)
    report.limits = limits = None if profile is None else _limits(profile)
    rewrites: list[Rewrite] = []
    for said in _said(paths, chosen, cached=not no_cache, fixes=form in WITH_FIXES and not statistics):
        if isinstance(said, FileError):
            report.fail(said)
        elif limits is None:
            report.add(narrowing(said))
        else:
            rewrites.append(narrowing(said))
    for each in () if limits is None else _in_order(rewrites, limits):
        report.add(each)
    report.end(diffs=False)
    if write_baseline is not None:
        write_baseline_(write_baseline, report.rewrites)
        _exit(report, fails=False)
    narrowing.end(quiet=quiet)
    _exit(report, fails=any(each.fails for each in report.rewrites) and not exit_zero)


_WITH_EVIDENCE = frozenset({"evidence", "paths", "form", "output_file", "exit_zero", "quiet"})


def _evidence(paths: tuple[str, ...], form: Format | None, output_file: str | None, *, exit_zero: bool) -> NoReturn:
    """Say of each script whether what was measured of it still stands; what does not fails."""
    from autotune_rewrite.checking.evidence import verdicts

    context = click.get_current_context()
    for each in context.command.params:
        source = context.get_parameter_source(each.name or "")
        if each.name not in _WITH_EVIDENCE and source is click.core.ParameterSource.COMMANDLINE:
            raise Fault(f"{max(each.opts, key=len)} is about findings, and --evidence runs no rule")
    if form not in (None, "text", "json"):
        raise Fault(f"--evidence is text or JSON, not {form}")
    with as_fault():
        found = list(verdicts(paths))
    lines = [f"{each.script}: {each.gain}" if each.is_fresh else f"{each.script}: {each.why}" for each in found]
    if form == "json":
        told = [{"script": each.script, "fresh": each.is_fresh, "gain": each.gain, "why": each.stale} for each in found]
        lines = [json.dumps({"version": 1, "evidence": told}, indent=2)]
    if output_file is not None:
        write_lines(output_file, lines)
    for line in lines if output_file is None else ():
        click.echo(line)
    sys.exit(int(not exit_zero and not all(each.is_fresh for each in found)))


def _configured_format() -> Format:
    """The format that the configuration of the current directory asks for."""
    from autotune_rewrite.project import configuration
    from autotune_rewrite.suggestions import unknown

    asked: object = "text"
    with suppress(FileError):  # what is wrong with the file is told where it is looked up for scripts
        written = configuration.nearest(Path.cwd())
        asked = written.table.get("output-format", asked)
    if asked not in NAMES:
        raise Fault(str(written.fault(unknown("output-format", str(asked), NAMES))))
    return cast("Format", asked)


def _refuse_contradictions(  # noqa: PLR0913 - what may contradict
    paths: tuple[str, ...], form: Format, *, statistics: bool, diff: bool, fix: bool, profile: Path | None
) -> None:
    """Refuse options that cannot be followed together."""
    if diff + fix + (profile is not None) > 1:
        raise Fault("--diff, --fix and --profile exclude each other")
    if fix and STDIN in paths:
        raise Fault("--fix needs a file, not standard input")
    if statistics and form not in {*STREAMED, "json"}:
        raise Fault(f"--statistics is text or JSON, not {form}")
    refuse_contradictions(paths)


def _refuse_narrowing(
    baseline: str | None, diff_base: str | None, write_baseline: str | None, *, changes: bool
) -> None:
    """Refuse options that choose among findings where all are meant."""
    if changes and (baseline, diff_base, write_baseline) != (None, None, None):
        raise Fault("--diff and --fix are about all changes: --baseline and --diff-base choose among findings")
    if write_baseline is not None and (baseline, diff_base) != (None, None):
        raise Fault("--write-baseline writes all findings: --baseline and --diff-base leave some out")


def _changes(paths: tuple[str, ...], chosen: Chosen, report: Report, *, fix: bool, exit_zero: bool) -> NoReturn:
    """Show the changes, or write them: what was written fails no check any more."""
    writer = Writer(paths, fix, None, report.quiet)
    fixes = report.form in WITH_FIXES and not report.statistics
    carry_out(results(paths, chosen.options(), check=False, fixes=fixes), report, writer)
    _exit(report, fails=not fix and any(each.fails for each in report.rewrites) and not exit_zero)


def _add_ignores(paths: tuple[str, ...], chosen: Chosen, *, alone: bool) -> NoReturn:
    """Write comments that leave alone what is found."""
    from autotune_rewrite.cli.ignoring import add_ignores

    if not alone:
        raise Fault("--add-ignores is about all findings, and goes with no option that shows, writes or chooses some")
    if STDIN in paths:
        raise Fault("--add-ignores needs a file, not standard input")
    sys.exit(0 if add_ignores(results(paths, chosen.options(), check=True)) else 2)


def _exit(report: Report, *, fails: bool) -> NoReturn:
    sys.exit(2 if report.errors else int(fails))


def _in_order(rewrites: list[Rewrite], limits: Limits) -> Iterator[Rewrite]:
    """The scripts, those parts first whose sites can gain most."""
    script = limits.profile.script
    if Path(script).name not in {Path(each.path).name for each in rewrites}:
        say(f"note: the profile is of {script}, which is not checked here")
    yield from limits.in_order(rewrites)


def _limits(path: Path) -> Limits:
    """What can be gained at most, by a profile in a file."""
    from autotune_rewrite.profiling.profiles import load
    from autotune_rewrite.report.limits import Limits

    with as_fault():
        found = load(path)
    if not found.parts:
        raise Fault(f"{path}: a profile of a simulated device has no times: make one on the device that will train")
    return Limits(found)


def _said(paths: tuple[str, ...], chosen: Chosen, *, cached: bool, fixes: bool) -> Iterator[Rewrite | FileError]:
    """What a check says of each file, or of standard input."""
    if paths == (STDIN,):
        found = results(paths, chosen.options(), check=True, fixes=fixes)
        yield from (each if isinstance(each, FileError) else each.rewrite for each in found)
        return
    from autotune_rewrite.checking import checked
    from autotune_rewrite.checking.cache import Cache

    yield from checked.check(paths, repr(chosen), chosen.options, cache=Cache() if cached else None, fixes=fixes)
