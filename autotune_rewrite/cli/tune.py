"""``torchfast tune``: keeps what pays, and drops what does not."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from autotune_rewrite.cli.executing import Executing, with_executing
from autotune_rewrite.cli.faults import Fault, as_fault
from autotune_rewrite.cli.findings import say
from autotune_rewrite.cli.running import (
    HANGUP,
    Running,
    ScriptCommand,
    Verifier,
    ended_by,
    module_file,
    with_running,
)
from autotune_rewrite.cli.selection import Chosen, with_selection
from autotune_rewrite.cli.writing import INTERRUPTED, Writer
from autotune_rewrite.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from autotune_rewrite.rewriting.batch import Read
    from autotune_rewrite.tune.trials import Records
    from autotune_rewrite.tune.tuned import Tuned
    from autotune_rewrite.verify import Plan
    from autotune_rewrite.verify.records import Environment

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_NOT_HERE = {
    "--pairs": "trials have as many pairs as the budget holds",
    "--time-budget": "--budget says how long all runs may take",
    "--records": "trials are kept by themselves",
    "--tensorboard": "it is for one comparison: verify the result",
    "--markdown": "--format markdown prints it",
    "--iterations": "a change that pays later would look as if it did not",
}
"""Options of running scripts that tuning has no use for, each with what there is in their place."""


def _seconds(_: click.Context, __: click.Parameter, value: str) -> float:
    """``90``, ``90s``, ``15m`` or ``1.5h``."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", value)
    if found is None or not 0 < float(found[1]) < math.inf:
        raise click.BadParameter(f"{value!r} is no time such as 90s, 15m or 1h")
    return float(found[1]) * _UNITS[found[2]]


def _values(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, list[str]]:
    """``workers=2,8`` and so on."""
    from autotune_rewrite.tune.trials import OPTIONS

    found: dict[str, list[str]] = {}
    for each in given:
        name, _sign, values = each.partition("=")
        if name not in OPTIONS or not values:
            raise click.BadParameter(f"{each!r} is none of {', '.join(f'{name}=…' for name in OPTIONS)}")
        found[name] = [value.strip() for value in values.split(",") if value.strip()]
        for value in found[name]:
            _check_value(name, value)
    return found


def _check_value(name: str, value: str) -> None:
    """Refuse a value that a rewrite would refuse, before anything runs."""
    from autotune_rewrite.rewriting.config import ConfigError, Options
    from autotune_rewrite.tune.trials import OPTIONS

    given: dict[str, Any] = {}
    try:
        given[OPTIONS[name].name] = OPTIONS[name].type(value)
    except ValueError as error:
        raise click.BadParameter(f"{name}={value}: {value!r} is no number") from error
    try:
        Options(**given)
    except ConfigError as error:
        raise click.BadParameter(f"{name}={value}: {error}") from error


def _price(_: click.Context, __: click.Parameter, value: float | None) -> float | None:
    """What an hour costs."""
    if value is not None and not 0 < value < math.inf:
        raise click.BadParameter(f"{value} is no price")
    return value


EXAMPLES = (
    ("torchfast tune train.py", "try each change for a quarter of an hour, and show what pays"),
    (
        "torchfast tune train.py --budget 1h --apply -- --epochs 2",
        "longer, with arguments; write what pays",
    ),
    ("torchfast tune train.py --values workers=2,8", "other numbers of worker processes, too"),
    ("torchfast tune train.py --executor ray", "trials at once on the nodes of a Ray cluster"),
)


@click.command(cls=ScriptCommand, examples=EXAMPLES)
@with_selection
@click.option(
    "--budget", default="15m", show_default=True, callback=_seconds, metavar="TIME", help="How long all runs may take."
)
@click.option(
    "--values",
    multiple=True,
    callback=_values,
    metavar="NAME=A,B",
    help="Try these values, too: workers=2,8, prefetch=4,8, amp=bf16,fp16, compile=reduce-overhead.",
)
@click.option("--apply", is_flag=True, help="Write what pays, and what was measured to torchfast.lock.")
@click.option("--patch", metavar="FILE", help="Write what pays to this file, as a patch.")
@click.option("--unmeasured", is_flag=True, help="Keep changes that cannot act on this device in the result.")
@click.option("--fresh", is_flag=True, help="Run everything again, also what is on record.")
@click.option("--gpu-hourly", type=float, callback=_price, metavar="X", help="What an hour of the machine costs.")
@click.option(
    "--profile", type=click.Path(path_type=Path), metavar="FILE", help="Try first what can gain most by this profile."
)
@click.option("--format", "form", type=click.Choice(["text", "json", "markdown"]), default="text", show_default=True)
@with_executing
@with_running
def tune(  # noqa: PLR0913 - the command line has these options
    *,
    paths: tuple[str, ...],
    budget: float,
    values: dict[str, list[str]],
    apply: bool,
    patch: str | None,
    unmeasured: bool,
    fresh: bool,
    gpu_hourly: float | None,
    profile: Path | None,
    form: Literal["text", "json", "markdown"],
    quiet: bool,
    chosen: Chosen,
    running: Running,
    executing: Executing,
) -> None:
    """Try each change of a script, and keep the smallest set within the noise of the fastest."""
    from autotune_rewrite.rewriting import batch
    from autotune_rewrite.tune.hardware import described
    from autotune_rewrite.tune.trials import InterruptedByUserError
    from autotune_rewrite.tune.tuned import Tuning
    from autotune_rewrite.verify import VerifyError
    from autotune_rewrite.verify.run import probe

    if apply and patch is not None:
        raise Fault("--apply and --patch exclude each other")
    script = _script(paths, running)
    options = chosen.options()
    try:
        parts = batch.read_project(script, options=options)
        plan = running.plan(Path(script), Path(script))
        plan.check()
        order = _order(profile)
        tell = _nothing if quiet else _telling(budget)
        with executing.executor(script, plan) as executor, ended_by(signal.SIGTERM, *HANGUP):
            hardware = described(probe(plan)) if executor is None else executor.hardware
            records = _records(script, parts, (options, plan), hardware, fresh=fresh)
            verify = executor or Verifier(running)
            tuned = Tuning(
                parts, options, plan, verify, tell, budget, records, values, order, unmeasured, executor
            ).end()
    except (FileError, VerifyError) as error:
        raise Fault(str(error)) from error
    except (InterruptedByUserError, KeyboardInterrupt):
        say("interrupted: nothing was written; the same command goes on from what was measured")
        sys.exit(INTERRUPTED)
    code = _exit_code(tuned)
    _show(tuned, script, form, gpu_hourly, code)
    if running.html is not None:
        _write_page(tuned, script, gpu_hourly, running.html)
    if tuned.changes is not None and (apply or patch is not None):
        _write(tuned, script, Writer((script,), apply, None, quiet, patch), plan)
    elif apply or patch is not None:
        say("nothing was written")
    sys.exit(code)


for _option in tune.params:
    if isinstance(_option, click.Option) and not _NOT_HERE.keys().isdisjoint(_option.opts):
        _option.hidden = True  # it is refused, with what there is in its place


def _script(paths: Sequence[str], running: Running) -> str:
    """The one script that is asked for."""
    if len(paths) != 1 or Path(paths[0]).is_dir():
        raise Fault("tune takes one script")
    for option in running.given:
        if option in _NOT_HERE:
            raise Fault(f"{option} is not for tune: {_NOT_HERE[option]}")
    if running.choices.get("device") == "simulated":
        raise Fault("--device simulated is not for tune: what is simulated has no times")
    return str(module_file(paths[0])) if running.choices.get("module") else paths[0]


def _telling(budget: float) -> Callable[[str], None]:
    """Tells in a line, on a terminal and in a pipe alike, what is tried and what came of it, and the time left."""
    from autotune_rewrite.report.progress import about

    end = time.monotonic() + budget

    def tell(text: str) -> None:
        left = end - time.monotonic()
        say(f"{text} · {'no time' if left <= 0 else f'at most {about(left)}'} left")

    return tell


def _nothing(_: str) -> None:
    """Says nothing."""


def _records(script: str, parts: Read, asked: Sequence[object], hardware: Environment, *, fresh: bool) -> Records:
    """What is on record of this script as it is, run as it is asked for, on such hardware."""
    from platformdirs import user_cache_path

    from autotune_rewrite.checking.cache import key
    from autotune_rewrite.tune.trials import Records

    texts = [f"{part.path}\n{getattr(source, 'text', '')}" for part, source in parts]
    where = json.dumps(hardware, sort_keys=True)
    digest = key(str(Path(script).absolute()), *texts, *map(repr, asked), where)
    path = user_cache_path("torchfast", appauthor=False) / "tune" / f"{digest}.jsonl"
    if fresh:
        path.unlink(missing_ok=True)
    return Records(path)


def _order(profile: Path | None) -> list[str]:
    """The rules, those first that can gain most by a profile."""
    if profile is None:
        return []
    from autotune_rewrite.profiling.limits import limit
    from autotune_rewrite.profiling.profiles import load
    from codemods.catalogue import RULES

    with as_fault():
        found = load(profile)
    bounds = {name: limit(found, rule.phases) for name, rule in RULES.items()}
    return sorted(RULES, key=lambda name: -(1.0 if (bound := bounds[name]) is None else bound.factor))


def _exit_code(tuned: Tuned) -> int:
    """0 where the search came to its end; 1 where it did not, or the script or its result did not hold up."""
    if tuned.whole is not None and tuned.whole.run != "ok":
        return 1
    is_complete = tuned.found is None or tuned.found.is_complete or tuned.pays
    return int(not is_complete or (tuned.confirmed is not None and not tuned.pays))


def _show(tuned: Tuned, script: str, form: str, hourly: float | None, code: int) -> None:
    from autotune_rewrite.report import tune as report

    cost = None if hourly is None else report.Cost.of(tuned, hourly)
    if form == "json":
        click.echo(json.dumps(report.as_json(tuned, script, cost, code), indent=2))
    elif form == "markdown":
        click.echo(report.as_markdown(tuned, script, cost))
    else:
        report.show(tuned, script, cost)


def _write_page(tuned: Tuned, script: str, hourly: float | None, page: Path) -> None:
    from autotune_rewrite.project import files
    from autotune_rewrite.report.tune import Cost
    from autotune_rewrite.report.tune_page import as_html

    cost = None if hourly is None else Cost.of(tuned, hourly)
    with as_fault():
        files.write(str(page), f"{as_html(tuned, script, cost)}\n".encode(errors="surrogateescape"))


def _write(tuned: Tuned, script: str, writer: Writer, plan: Plan) -> None:
    """Write what pays, and the evidence beside it."""
    from autotune_rewrite.checking import evidence

    assert tuned.changes is not None  # noqa: S101 - there is something to write
    assert tuned.confirmed is not None  # noqa: S101 - which was confirmed
    try:
        for done in tuned.changes.dones:
            writer.write(done)
        writer.end()
        if writer.apply:
            paths = [each.source.path for each in tuned.changes.dones]
            place = evidence.record(script, tuned.confirmed, tuned.tried, paths, plan.arguments)
            say(f"{os.path.relpath(place)}: what was measured; `torchfast check --evidence` says when that is stale")
    except FileError as error:
        raise Fault(str(error)) from error
