"""``torchfast profile``."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from autotune_rewrite.cli.completing import files
from autotune_rewrite.cli.faults import Fault, not_empty
from autotune_rewrite.cli.findings import say
from autotune_rewrite.cli.running import HANGUP, Running, ScriptCommand, ended_by, script_file
from autotune_rewrite.errors import FileError

if TYPE_CHECKING:
    from autotune_rewrite.profiling import Profile, Profiling

_PATH = click.Path(path_type=Path)


EXAMPLES = (
    ("torchfast profile train.py", "where does the time of an iteration go?"),
    ("torchfast profile train.py -- --batch-size 64", "with arguments of the script"),
)


@click.command(cls=ScriptCommand, examples=EXAMPLES)
@click.argument("script", metavar="SCRIPT", callback=not_empty, shell_complete=files)
@click.option("--iterations", type=int, metavar="N", help="Iterations that are measured, at most.  [default: 200]")
@click.option("--warm-up", type=int, metavar="N", help="Iterations before them that are not.  [default: 5]")
@click.option("--time-budget", type=float, metavar="S", help="Seconds that both runs should take.  [default: 60]")
@click.option("--timeout", type=float, metavar="S", help="Seconds that one run may take.  [default: 600]")
@click.option("--threads", type=int, metavar="N", help="Threads of torch's operators.  [default: as torch chooses]")
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda", "simulated"]),
    help="Device that the script runs on; a simulated one shows what would wait for it.  [default: auto]",
)
@click.option("--capability", metavar="X.Y", help="Capability of the simulated device.  [default: 9.0]")
@click.option("-m", "--module", is_flag=True, default=None, help="Run the script as `python -m` does.")
@click.option("--trace", type=_PATH, metavar="FILE", help="Write a Chrome trace of some iterations.")
@click.option("--memory", type=_PATH, metavar="FILE", help="Write a snapshot of CUDA memory.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def profile(*, script: str, form: Literal["text", "json"], **chosen: Any) -> None:  # noqa: ANN401 - each option has a type of its own
    """Run some iterations of a script: where does their time go, and what can rules gain at most?"""
    from autotune_rewrite.report import profile as report

    found = _profiled(_asked(script, chosen))
    if form == "json":
        click.echo(json.dumps(report.as_json(found), indent=2))
    else:
        report.show(found)


def _asked(script: str, chosen: dict[str, Any]) -> Profiling:
    """What is to be profiled, and how."""
    from autotune_rewrite.profiling import TIME_BUDGET, TIMEOUT, Profiling

    known = {name: value for name, value in chosen.items() if value not in (None, ())}
    own = {name: known.pop(name) for name in ("iterations", "warm_up", "threads", "trace", "memory") if name in known}
    file = script_file(script, is_module=bool(known.get("module")))
    if file.suffix == ".ipynb":
        convert = f"convert it with `jupyter nbconvert --to script {file}`"
        raise Fault(f"{file}: notebooks cannot be profiled: {convert}")
    running = Running({"time_budget": TIME_BUDGET, "timeout": TIMEOUT, **known}, None, None, None, ())
    return Profiling(running.plan(file, file), **own)


def _profiled(profiling: Profiling) -> Profile:
    """The profile; what keeps it from being made is said in a line."""
    from autotune_rewrite.profiling import profile as profiled
    from autotune_rewrite.report.progress import live
    from autotune_rewrite.verify import VerifyError

    try:
        with ended_by(signal.SIGTERM, *HANGUP), live() as progress:
            return profiled(profiling, progress)
    except (VerifyError, FileError) as error:
        raise Fault(str(error)) from error
    except KeyboardInterrupt:
        say("interrupted: nothing can be said")
        sys.exit(130)
