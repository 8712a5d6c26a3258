"""What ``torchfast tune`` finds in whole scripts, beside the best of all combinations (no test: it takes half an hour).

``OMP_NUM_THREADS=1 python -m tests.benchmarks.tune_fixtures`` on a machine of which nothing else is wanted writes
``docs/records/tune.json``: for each fixture what was kept and its ratio in fresh runs; for some of them every combination
of the four changes that gain most alone, each measured beside the original in pairs, and the best of them beside what was
kept. The file is written after each part, so that what was measured stays where the rest is ended; at the end the table of
``docs/measured.md`` is. ``--table`` measures nothing and writes the table.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autotune_rewrite.rewriting.batch import read_project
from autotune_rewrite.rewriting.config import Options
from autotune_rewrite.tune.search import ORIGINAL, SpentError, Trial, Variant
from autotune_rewrite.tune.trials import DEPTHS, Budget, Records, Trials
from autotune_rewrite.verify import Judgement, Plan, verify
from autotune_rewrite.verify.run import probe as described
from tests.gpu.calls import commit
from tests.scripts import ALL, FIXTURES, Fixture

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from autotune_rewrite.verify.records import Environment, Run
    from autotune_rewrite.verify.statistics.ratio import Ratio

ROOT = FIXTURES.parent
NAMES = (
    *("digits_args", "digits_cnn", "digits_feedforward", "digits_gan"),
    *("digits_trainer", "series_lstm", "tabular_mlp", "text_lstm"),
)
EXHAUSTIVE = ("digits_args", "digits_cnn", "digits_feedforward")
MOST = 4
"""Changes that are combined: 15 combinations."""
UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
DOCUMENT = ROOT / "docs" / "measured.md"
TABLE = re.compile(r"(?<=<!-- tune -->\n).*?(?=\n<!-- end of tune -->)", re.DOTALL)
COLUMNS = ("script", "kept", "whole run", "best of all combinations", "beside what was kept")
LAST = 0.25
"""The part of the time of all combinations in which the best of them is run beside what was kept."""


@dataclass
class Record:
    """What is written."""

    path: Path
    values: dict[str, Any]
    end: float
    """When no part may begin any more, as ``time.monotonic`` counts."""
    began: float = field(default_factory=time.monotonic)

    def keep(self, name: str, part: str, values: dict[str, Any]) -> None:
        """Writes a part of a fixture's record."""
        self.values["fixtures"].setdefault(name, {})[part] = values
        self.values["seconds"] = round(time.monotonic() - self.began)
        self.path.write_text(f"{json.dumps(self.values, indent=2)}\n", encoding="utf-8")

    def holds(self, seconds: float, what: str) -> bool:
        """Whether there is time for so much."""
        if time.monotonic() + seconds <= self.end:
            return True
        say(f"{what} is left out: --total holds no more")
        return False


def seconds_of(_: click.Context, __: click.Parameter, value: str) -> float:
    """``90``, ``90s``, ``2.5m`` or ``1h``."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", value)
    if found is None:
        raise click.BadParameter(f"{value!r} is no time such as 90s, 15m or 1h")
    return float(found[1]) * UNITS[found[2]]


def names(_: click.Context, __: click.Parameter, value: str) -> list[str]:
    """Those of fixtures, with commas between them."""
    known = {each.name for each in ALL}
    given = [each for each in value.split(",") if each]
    unknown = next((each for each in given if each not in known), None)
    if unknown is not None:
        raise click.BadParameter(f"{unknown!r} is none of {', '.join(sorted(known))}")
    return given


def say(text: str) -> None:
    """Tells on standard error how far it has come."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def tuned(script: Fixture, budget: float) -> dict[str, Any]:
    """What the command says of a fixture."""
    path = script.folder / "naive.py"
    command = [sys.executable, "-m", "autotune_rewrite", "tune", str(path), "--format", "json", "--fresh"]
    command += ["--budget", f"{budget:g}s", "--", *script.arguments]
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "XDG_CACHE_HOME": cache, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=False, text=True)
    seconds = round(time.monotonic() - start, 1)
    if not done.stdout:
        return {"failed": f"it ended with exit status {done.returncode}", "seconds": seconds}
    told = json.loads(done.stdout)
    verified = told["verification"]
    return {
        **{each: told[each] for each in ("pays", "rules", "values", "is_complete", "parts", "not_measured", "failed")},
        "reason": told["reason"].replace(f"{ROOT}/", ""),
        "ratio": None if verified is None else verified["ratios"]["run"],
        "everything": None if told["everything"] is None else told["everything"]["ratios"]["run"],
        "exit_code": told["exit_code"],
        "seconds": seconds,
    }


def gaining_most(told: dict[str, Any]) -> list[str]:
    """Of the changes that act on this device, those that gain most alone."""
    alone = {
        part["rule"]: 1.0 if part["alone"] is None else part["alone"]["estimate"]
        for part in told.get("parts", ())
        if part["answer"] != "failed"
    }
    return sorted(sorted(alone, key=lambda rule: -alone[rule])[:MOST])


def carried_out(plan: Plan, *, probe: bool) -> tuple[Judgement, Sequence[Run]]:
    """Runs what a trial asks for."""
    del probe
    runs: list[Run] = []
    return verify(plan, on_run=runs.append, environment=device()), runs


@cache
def device() -> Environment:
    """That everything is run on."""
    return described(Plan(Path(__file__), Path(__file__), device="cpu"))


def combinations(rules: Sequence[str]) -> Iterator[frozenset[str]]:
    """All of them, but for none."""
    for count in range(1, len(rules) + 1):
        yield from map(frozenset, itertools.combinations(rules, count))


def exhausted(script: Fixture, told: dict[str, Any], budget: float) -> dict[str, Any]:
    """Each combination beside the original, and the best of them beside what was kept."""
    path = script.folder / "naive.py"
    rules = gaining_most(told)
    every = list(combinations(rules))
    plan = Plan(path, path, device="cpu", arguments=script.arguments, takes_turns=True)
    parts = read_project(str(path), options=Options())
    start = time.monotonic()
    trials = Trials(parts, Options(), plan, carried_out, Budget(budget * (1 - LAST), len(every)), Records(None))
    found: dict[frozenset[str], Trial] = {}
    kept = frozenset(told.get("rules", ()))
    beside: Trial | None = None
    with suppress(SpentError):
        for trials.depth in DEPTHS:
            trials.budget.trials = len(every)
            for each in every:
                found[each] = trials(ORIGINAL, Variant(each), "together")
    for each, trial in found.items():
        said = "the same text" if trial.is_same else trial.failed or trial.ratio
        say(f"{script.name}: {' and '.join(sorted(each))}: {said}")
    timed = (trial for trial in found.values() if trial.ratio is not None and not trial.failed)
    best = max(timed, key=lambda trial: trial.ratio.estimate if trial.ratio is not None else 0.0, default=None)
    with suppress(SpentError):
        if best is not None and best.after.rules != kept:
            trials.depth, trials.budget = DEPTHS[-1], Budget(budget - (time.monotonic() - start), 1)
            beside = trials(Variant(kept), best.after, "whole")
            said = "the same text" if beside.is_same else beside.ratio
            say(f"{script.name}: the best of them beside what was kept: {said}")
    return {
        "rules": rules,
        "combinations": [_shown(each) for each in found.values()],
        "is_complete": len(found) == len(every),
        "best": None if best is None else sorted(best.after.rules),
        "is_what_was_kept": best is not None and best.after.rules == kept,
        "best_beside_what_was_kept": None if beside is None else _shown(beside),
        "seconds": round(time.monotonic() - start, 1),
    }


def _shown(trial: Trial) -> dict[str, Any]:
    ratio = _ratio(trial.ratio)
    failed = trial.failed.replace(f"{ROOT}/", "")
    told = {"speed": trial.speed, "ratio": ratio, "is_same_text": trial.is_same, "failed": failed}
    return {"rules": sorted(trial.after.rules), **told}


def _ratio(ratio: Ratio | None) -> dict[str, Any] | None:
    return None if ratio is None else asdict(ratio)


def table(record: dict[str, Any]) -> str:
    """What a record says, in Markdown, and what it was measured on."""
    on = record["machine"]
    threads = "1 thread" if on["threads"] == 1 else f"{on['threads']} threads"
    where = f"{on['cpus']} cores, {threads}, load {on['load'][0] if on['load'] else 'unknown'} before"
    commit, torch, python = record["commit"], on["torch"], on["python"]
    budgets = f"{record['budget']:g} s for each search, {record['exhaustive_budget']:g} s for all combinations"
    head = f"Measured with commit {commit}, torch {torch}, Python {python}, {where}: {budgets}."
    rows = [COLUMNS, ("---",) * len(COLUMNS), *(row(*each) for each in record["fixtures"].items())]
    return "\n".join([head, "", *("| " + " | ".join(each) + " |" for each in rows)])


def row(name: str, parts: dict[str, Any]) -> tuple[str, ...]:
    """A script's."""
    told, every = parts["tune"], parts.get("exhaustive")
    kept = ", ".join(f"`{rule}`" for rule in told.get("rules", ())) or "nothing"
    ratio = shown_ratio(told["ratio"]) if told.get("pays") else "1"
    if every is None:
        return f"`{name}`", kept, ratio, "", ""
    best = next((each for each in every["combinations"] if each["rules"] == every["best"]), None)
    beside = every["best_beside_what_was_kept"]
    rules = ", ".join(f"`{rule}`" for rule in every["best"] or ()) or "none"
    of_best = "" if best is None else f"{rules}: {shown_ratio(best['ratio'])}"
    same = every["is_what_was_kept"] or (beside is not None and beside["is_same_text"])
    return f"`{name}`", kept, ratio, of_best, "the same" if same else shown_ratio(beside and beside["ratio"])


def shown_ratio(ratio: dict[str, Any] | None) -> str:
    """Such as "2.48 (2.26 to 2.72)"."""
    if ratio is None or ratio["estimate"] is None:
        return "not measured"
    interval = "" if ratio["low"] is None else f" ({ratio['low']:.2f} to {ratio['high']:.2f})"
    return f"{ratio['estimate']:.2f}{interval}"


def write_table(record: Path) -> None:
    """Writes the table of a record to the document."""
    found = table(json.loads(record.read_text(encoding="utf-8")))
    DOCUMENT.write_text(TABLE.sub(lambda _: found, DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")


def machine() -> dict[str, Any]:
    """What everything was measured on."""
    environment = device()
    try:
        told = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        told = ""
    model = re.search(r"^model name\s*:\s*(.+)$", told, re.MULTILINE)
    return {
        "cpu": model[1] if model is not None else platform.processor() or platform.machine(),
        **{name: environment.get(name) for name in ("cpus", "threads", "torch", "python")},
        "python": platform.python_version(),
        "system": platform.system(),
        "load": [round(each, 2) for each in os.getloadavg()] if hasattr(os, "getloadavg") else None,
    }


@click.command()
@click.option("--fixtures", default=",".join(NAMES), callback=names, show_default=True, help="What is tuned.")
@click.option("--budget", default="200s", callback=seconds_of, show_default=True, help="For each of them.")
@click.option("--exhaustive", default=",".join(EXHAUSTIVE), callback=names, show_default=True, help="All combinations.")
@click.option("--exhaustive-budget", default="240s", callback=seconds_of, show_default=True, help="For each of these.")
@click.option(
    "--total", default="40m", callback=seconds_of, show_default=True, help="Nothing begins that does not fit."
)
@click.option("--out", default=ROOT / "docs" / "records" / "tune.json", type=click.Path(path_type=Path))
@click.option("--table", "only_table", is_flag=True, help="Measure nothing: write the table of --out.")
def main(
    *,
    fixtures: list[str],
    budget: float,
    exhaustive: list[str],
    exhaustive_budget: float,
    total: float,
    out: Path,
    only_table: bool,
) -> None:
    """Tunes whole scripts, and tries all combinations in some of them."""
    if only_table:
        write_table(out)
        return
    end = time.monotonic() + total
    values = {"version": 1, "commit": commit(), "time": time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime())}
    chosen = {"budget": budget, "exhaustive_budget": exhaustive_budget}
    record = Record(out, {**values, "machine": machine(), **chosen, "fixtures": {}}, end)
    scripts = {each.name: each for each in ALL}
    # The scripts of which all combinations are tried come first: their parts belong together.
    for name in sorted(fixtures, key=lambda each: each not in exhaustive):
        if not record.holds(budget, name):
            continue
        say(f"{name}: torchfast tune, for {budget:g} s")
        told = {"arguments": list(scripts[name].arguments), **tuned(scripts[name], budget)}
        record.keep(name, "tune", told)
        say(f"{name}: {' and '.join(told.get('rules', ())) or 'nothing'} kept, {told.get('ratio')}")
        if (
            name in exhaustive
            and gaining_most(told)
            and record.holds(exhaustive_budget, f"every combination of {name}")
        ):
            record.keep(name, "exhaustive", exhausted(scripts[name], told, exhaustive_budget))
    write_table(out)


if __name__ == "__main__":
    main()
