"""``python -m tests.gpu prepare | run | plan | report``."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from tests.gpu.setting import PREPARED, Setting

if TYPE_CHECKING:
    from tests.gpu.tasks import Values

BEGAN = time.monotonic()
STAGES = click.IntRange(1, 7)
SCRATCH = Path(tempfile.gettempdir()) / "torchfast-gpu"


class Refused(click.ClickException):
    """The call cannot begin; told in one line."""

    exit_code = 2


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
def cli() -> None:
    """Measure the fixtures on a GPU, stage by stage.

    \b
    1  does it run?                  4  facts about torch on CUDA
    2  is it faster?                 5  the verifier itself
    3  what does each rule bring?    6  what would a user pick instead?
    7  what does tuning keep?
    """


@cli.command()
@click.option("--folder", type=click.Path(path_type=Path), default=PREPARED, show_default=True)
def prepare(folder: Path) -> None:
    """Write the scripts under test and all that the tool makes of them, where libcst is."""
    from tests.gpu.prepare import PrepareError, size_of
    from tests.gpu.prepare import prepare as write

    try:
        manifest = write(folder)
    except PrepareError as error:
        raise click.ClickException(str(error)) from error
    texts = sum(len(variants) for variants in manifest["scripts"].values())
    click.echo(
        f"{folder}: {len(manifest['scripts'])} scripts, {texts} rewritten texts, {size_of(folder) / 2**20:.1f} MiB"
    )


@cli.command()
@click.option("--stage", "stages", type=STAGES, multiple=True, required=True, help="In the order given.")
@click.option(
    "--budget", type=click.FloatRange(min=0), default=570.0, show_default=True, help="Seconds, of the whole call."
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The folder of the results.")
@click.option("--device", type=click.Choice(["cuda", "simulated"]), default="cuda", show_default=True)
@click.option("--only", multiple=True, metavar="SCRIPT", help="Only this script; may be repeated.")
@click.option("--prepared", type=click.Path(path_type=Path), default=PREPARED, show_default=True)
@click.option(
    "--scratch", type=click.Path(path_type=Path), default=SCRATCH, show_default=True, help="For data and kernels."
)
def run(  # noqa: PLR0917 - click gives options by their names
    stages: tuple[int, ...],
    budget: float,
    out: Path,
    device: Literal["cuda", "simulated"],
    only: tuple[str, ...],
    prepared: Path,
    scratch: Path,
) -> None:
    """Carry out what stages have left to do. What is in --out already is not done again."""
    from tests.gpu.calls import CallError, alone, check, doubts

    setting = Setting(prepared.resolve(), scratch.resolve(), device, frozenset(only))
    out = out.resolve()
    started = setting.scratch / "started"  # what runs are started in is copied for each: it has to be empty
    try:
        started.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"--scratch {scratch}: {error.strerror}") from error
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(setting.scratch / "kernels"))
    try:
        with alone(out):
            check(setting)
            for doubt in doubts(setting):
                click.echo(f"Warning: {doubt}.", err=True)
            os.chdir(started)
            _carry_out(stages, setting, out, BEGAN + budget)
    except CallError as error:
        raise Refused(str(error)) from error


def _carry_out(stages: tuple[int, ...], setting: Setting, out: Path, deadline: float) -> None:
    """Goes through the stages, and says after each what is known."""
    from tests.gpu import stages as known

    for number in stages:
        click.echo(f"stage {number}: {known.STAGES[number].question}")
        progress = known.run(number, setting, out, deadline, _tell)
        for sentence in known.said(number, out):
            click.echo(f"  {sentence}")
        again = f", {len(progress.unfinished)} to be tried again" if progress.unfinished else ""
        click.echo(
            f"stage {number}: {len(progress.done)} done now, {progress.before} before, "
            f"{len(progress.postponed)} left{again}"
        )


def _tell(line: Values) -> None:
    known = (name for name in ("unfinished", "failed") if name in line)
    outcome = line["run"]["outcome"] if "run" in line else next(known, "ok")
    click.echo(f"  {line['took']:7.1f} s  {outcome:10} {line['key']}", err=True)


@cli.command()
@click.option("--prepared", type=click.Path(path_type=Path), default=PREPARED, show_default=True)
def plan(prepared: Path) -> None:
    """Show how long each stage should take, as estimated."""
    from tests.gpu import stages as known

    setting = Setting(prepared.resolve(), SCRATCH, "cuda")
    for number, stage in known.STAGES.items():
        rounds = known.rounds(number, setting)
        first = f"{rounds[0]:6.0f} s the first part, " if len(rounds) > 1 else " " * 23
        count = len(stage.tasks(setting))
        click.echo(f"stage {number}: {count:4} tasks,{first} {sum(rounds):6.0f} s in all   {stage.question}")
    planned = known.planned(setting)
    click.echo(
        f"stages 1 and 4, and the first part of stages 2 and 3: {planned:.0f} s, "
        f"of {known.CALLS * known.CALL:.0f} in three calls"
    )
    short = known.short(setting)
    scripts = ", ".join(known.SHORT)
    click.echo(f"stage 1, and one round of stage 2 of {scripts}: {short:.0f} s, of {known.CALL:.0f} in one call")


@cli.command()
@click.option("--results", type=click.Path(path_type=Path), default=Path("fixtures/results"), show_default=True)
@click.option("--check", is_flag=True, help="Change nothing; exit with 1 where README or the page are not current.")
def report(results: Path, check: bool) -> None:  # noqa: FBT001 - click's way
    """Write README's table and the page with plots from what is in a folder of results."""
    from tests.gpu.report import current, write

    stale = current(results) if check else write(results)
    for path in stale:
        click.echo(path)
    sys.exit(1 if check and stale else 0)


if __name__ == "__main__":
    cli(prog_name="python -m tests.gpu")
