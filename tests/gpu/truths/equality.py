"""Truths about results, each on texts that share the runs of one original; and the whole verifier, end to end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune_rewrite.verify import judged, verify
from autotune_rewrite.verify.plan import Turn
from tests.gpu.truths.bench import START, Truth, told
from tests.gpu.truths.texts import AUTOCAST, ROLLED, TEN_TIMES, TF32, TRAINING, changed

if TYPE_CHECKING:
    from collections.abc import Callable

    from autotune_rewrite.verify.judgement import Judgement
    from autotune_rewrite.verify.plan import Plan, PromiseName
    from autotune_rewrite.verify.records import Run
    from tests.gpu.tasks import Task, Values
    from tests.gpu.truths.bench import Bench

ITERATIONS = 300
ROOT = Path(__file__).parents[3]
PREPARED = "digits_feedforward"
RUNS = 8
"""Of a pair with a second baseline, a control and looks at the bits, and of the question what machine this is."""
END_TO_END = RUNS * (START + 1.5)


@dataclass(frozen=True, slots=True)
class Case:
    """A rewritten text, and the answers that are right."""

    name: str
    change: tuple[str, str] | None
    """None: the text is the same."""
    promise: PromiseName
    right: tuple[str, ...]
    pairs: int = 1
    check: bool = False
    """Whether its bits are looked at under deterministic algorithms, as the verifier does where bits were promised."""
    here: bool = True
    """Whether a simulated device computes what makes the difference."""


CASES = (
    Case("the same text", None, "bitwise", ("equal",), check=True),
    Case("labels rolled by one", ROLLED, "precision", ("different",), pairs=4),
    Case("labels rolled by one, where bits are promised", ROLLED, "bitwise", ("different",), check=True),
    Case("a learning rate ten times as large", TEN_TIMES, "precision", ("different",)),
    Case("bf16 autocast", AUTOCAST, "precision", ("non-inferior",), pairs=4),
    Case(
        "TF32 where bits are promised",
        TF32,
        "bitwise",
        ("different", "non-inferior", "inconclusive"),
        check=True,
        here=False,
    ),
)
FEWEST_PAIRS = 3
"""From which on the verifier judges what runs end with; so many have to do where nothing counts."""


def equality_task(bench: Bench) -> Task:
    """All cases, their runs beside each other."""
    return bench.task("equality", 2 * (START + 5.0), _compared(bench), alone=False)


def _compared(bench: Bench) -> Callable[[Path, float], Values]:
    def work(folder: Path, deadline: float) -> Values:
        cases = CASES if bench.real else [replace(case, pairs=min(case.pairs, FEWEST_PAIRS)) for case in CASES]
        plans = [_plan(bench, folder, number, case) for number, case in enumerate(cases)]
        shared = [Turn("original", pair) for pair in range(max(case.pairs for case in cases))]
        shared += [Turn("original", 0, "control"), Turn("original", 0, "check"), Turn("original", 0, "check")]
        own = [_turns(case) for case in cases]
        asked = [(plans[0], turn) for turn in shared]
        asked += [(plan, turn) for plan, turns in zip(plans, own, strict=True) for turn in turns]
        runs = iter(bench.several(asked, deadline))
        originals = [next(runs) for _ in shared]
        truths, figures = [], {}
        for case, plan, turns in zip(cases, plans, own, strict=True):
            judgement = _judged(case, plan, originals, [next(runs) for _ in turns])
            right = judgement.run == "ok" and judgement.equality in case.right
            seen = judgement.equality if judgement.run == "ok" else judgement.run
            truths.append(Truth(case.name, " or ".join(case.right), seen, right if bench.real or case.here else None))
            figures[case.name] = _figures(judgement)
        return told(truths, figures=figures)

    return work


def _plan(bench: Bench, folder: Path, number: int, case: Case) -> Plan:
    return bench.plan(
        folder,
        TRAINING,
        TRAINING if case.change is None else changed(TRAINING, case.change),
        name=str(number),
        promise=case.promise,
        pairs=case.pairs,
        arguments=(str(ITERATIONS if bench.real else 120),),
    )


def _turns(case: Case) -> list[Turn]:
    turns = [Turn("rewritten", pair) for pair in range(case.pairs)]
    return [*turns, Turn("rewritten", 0, "check")] if case.check else turns


def _judged(case: Case, plan: Plan, originals: list[Run], own: list[Run]) -> Judgement:
    """As the verifier judges: with a control where it would have asked for one."""
    known = [run for run in originals if run.kind == "pair" and run.offset < case.pairs]
    known += [run for run in originals if run.kind == "control" or (run.kind == "check" and case.check)]
    return judged(plan, [*known, *own], originals[0].environment)


def _figures(judgement: Judgement) -> dict[str, Any]:
    summary = judgement.summary
    return {
        "reason": judgement.reason,
        "losses": judgement.losses,
        "output": judgement.output,
        "worse": None if summary is None else [summary.worse, summary.low, summary.high, summary.margin],
    }


def verify_task(bench: Bench) -> Task:
    """``verify`` itself on the device that it picks, and the command on a prepared script, beside each other."""

    def work(folder: Path, deadline: float) -> Values:
        with ThreadPoolExecutor(2 if bench.real else 1) as pool:
            picked = pool.submit(_picked, bench, folder, deadline)
            commanded = pool.submit(_commanded, bench, deadline)
            (truths, figures), (more, others) = picked.result(), commanded.result()
        return told([*truths, *more], figures={**figures, **others})

    return bench.task("verify", END_TO_END, work, alone=False)


def _picked(bench: Bench, folder: Path, deadline: float) -> tuple[list[Truth], dict[str, Any]]:
    plan = bench.plan(
        folder,
        TRAINING,
        changed(TRAINING, ROLLED),
        promise="bitwise",
        pairs=1,
        device="auto" if bench.real else "simulated",
        arguments=(str(ITERATIONS if bench.real else 60),),
        time_budget=1000.0,  # nothing is to be cut: runs beside each other take longer than they would alone
    )
    runs: list[Run] = []

    def keep(run: Run) -> None:
        runs.append(run)
        if time.monotonic() > deadline:
            raise TimeoutError("the time was over before verify had all its runs")

    judgement = verify(replace(plan, timeout=60.0), on_run=keep)
    machine = judgement.environment
    gpu, capability = str(machine.get("gpu", "")), str(machine.get("capability", ""))
    # Elsewhere the device was named, and does not have to be picked.
    picked = bool(machine.get("cuda")) if bench.real else None
    described = bool(gpu) and re.fullmatch(r"\d+\.\d", capability) is not None
    right = judgement.run == "ok" and judgement.equality == "different"
    seen = judgement.equality if judgement.run == "ok" else judgement.run
    kinds = [f"{run.side} {run.kind}" for run in runs]
    return [
        Truth("labels rolled by one, through verify itself", "different", seen, right),
        Truth("device auto", "CUDA", "CUDA" if machine.get("cuda") else "none", picked),
        Truth("what the machine is", "a name and a capability", f"{gpu} {capability}", described),
    ], {"verify": _figures(judgement), "runs": kinds, "machine": machine}


def _commanded(bench: Bench, deadline: float) -> tuple[list[Truth], dict[str, Any]]:
    """``torchfast verify --device cuda`` on a naive script and what the tool made of it."""
    name = f"the command on {PREPARED}"
    place = bench.setting.prepared / "scripts" / PREPARED
    naive = place / "naive.py"
    # To compile takes long, and where nothing counts a rewrite without it will do.
    texts = ("fast.py", "default.py") if bench.real else ("bitwise.py", "naive.py")
    fast = next((path for path in (place / text for text in texts) if path.exists()), None)
    if fast is None or not naive.exists():
        return [Truth(name, "ok", None, None)], {}
    command = [sys.executable, "-m", "autotune_rewrite", "verify", str(naive), str(fast)]
    command += ["--device", bench.setting.device, "--pairs", "1", "--time-budget", "600", "--timeout", "90"]
    command += ["--format", "json", "--iterations", "60" if bench.real else "10"]
    done = _called(command, deadline)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = {}
    run = answer.get("run", f"no answer, exit status {done.returncode}")
    said = {"exit_code": done.returncode, "errors": done.stderr.splitlines()[-20:], "reason": answer.get("reason")}
    return [Truth(name, "ok", run, run == "ok")], {"command": said}


def _called(command: list[str], deadline: float) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
    left = max(1.0, deadline - time.monotonic())
    return subprocess.run(command, capture_output=True, text=True, timeout=left, check=False, env=environment)
