"""The six stages: what each asks, its tasks, and what it says at the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.gpu import contributions, crashes, machine, rivals, speed, truths
from tests.gpu.facts import FACTS, Fact
from tests.gpu.running import Prepared
from tests.gpu.tables import answers, measured
from tests.gpu.tasks import Ledger, Progress, Task, Values, carry_out, fits
from tests.gpu.zygotes import zygotes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tests.gpu.setting import Setting
    from tests.gpu.zygotes import Zygotes

ROOT = Path(__file__).parents[2]
FACTS_BESIDE = 3
"""Facts that are asked for at once, of those that measure no time."""
LAST_LINES = 20
"""Of what a fact that failed has said."""
CALL, CALLS = 540.0, 3
"""Seconds of a call on a machine with a GPU, and how many calls there are when one is at hand."""
MACHINE = "machine"
"""The key of the lines that say what the others were measured on."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A question, and what it takes to answer it."""

    question: str
    tasks: Callable[[Setting], list[Task]]
    said: Callable[[list[Values]], Iterable[str]]
    """What was seen, in sentences."""
    beside: Callable[[Setting], int]
    """How many tasks there may be at once, where they may have others beside them."""
    forking: Callable[[Setting, Zygotes], list[Task]] | None = None
    """The same tasks, by forks of processes that have imported torch; None: each run starts as users' runs do."""


def _one(_: Setting) -> int:
    return 1


def fact_tasks(setting: Setting) -> list[Task]:
    """One for each fact, in a process of its own: an error on the device harms no other."""
    return [Task(fact.name, fact.seconds, _asked(fact, setting), alone=fact.alone) for fact in FACTS]


def _asked(fact: Fact, setting: Setting) -> Callable[[float], Values]:
    def run(seconds: float) -> Values:
        command = [sys.executable, "-m", "tests.gpu.facts", fact.name, "--device", setting.device]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        if setting.device == "simulated":
            environment["CUDA_VISIBLE_DEVICES"] = ""
        about: Values = {"question": fact.question, "source": fact.source}
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                capture_output=True,
                check=False,
                text=True,
                timeout=max(seconds, 1.0),
            )
        except subprocess.TimeoutExpired:
            return {**about, "failed": f"no answer within {seconds:.0f} seconds"}
        answer = done.stdout.splitlines()[-1:]
        if done.returncode != 0 and not (answer and answer[0].startswith("{")):
            return {**about, "failed": done.returncode, "output": done.stderr.splitlines()[-LAST_LINES:]}
        return {**about, **json.loads(answer[0])}

    return run


STAGES: dict[int, Stage] = {
    1: Stage(
        "does it run?",
        crashes.tasks,
        crashes.summary,
        crashes.beside,
        crashes.tasks,
    ),
    2: Stage("is it faster?", speed.tasks, measured, _one),
    3: Stage("what does each rule bring?", contributions.tasks, measured, _one, contributions.tasks),
    4: Stage("facts", fact_tasks, answers, lambda _: FACTS_BESIDE),
    5: Stage("the verifier itself", truths.tasks, truths.summary, _one),
    6: Stage("what would a user pick instead?", rivals.tasks, measured, _one),
}


def ledger(number: int, out: Path) -> Ledger:
    """The file of a stage."""
    return Ledger(out / f"stage-{number}.jsonl")


def run(number: int, setting: Setting, out: Path, budget: float, tell: Callable[[Values], None]) -> Progress:
    """Carries out what a stage has left to do, within so many seconds.

    Args:
        number: Of the stage.
        setting: Where and on what.
        out: The folder of the results.
        budget: Seconds.
        tell: Is given each line as it comes.
    """
    stage, results = STAGES[number], ledger(number, out)
    before = sum(line["key"].startswith(MACHINE) for line in results.lines())
    about = {"commit": Prepared(setting).manifest["commit"], "device": setting.device, "arguments": sys.argv[1:]}
    results.append({"key": f"{MACHINE} {before + 1}", **about, **machine.described()})
    beside = stage.beside(setting)
    if stage.forking is None:
        return carry_out(stage.tasks(setting), results, budget, beside=beside, tell=tell)
    with zygotes(beside) as pool:
        tasks = stage.forking(setting, pool) if crashes.fork_works(setting, pool) else stage.tasks(setting)
        return carry_out(tasks, results, budget, beside=beside, tell=tell)


def rounds(number: int, setting: Setting) -> list[float]:
    """Seconds that each round of a stage should take, as estimated; of a stage without rounds, the whole of it."""
    stage = STAGES[number]
    tasks = stage.tasks(setting)
    if number not in (2, 3, 6):
        return [fits(tasks, stage.beside(setting))]
    names = dict.fromkeys(task.key.rpartition("/")[2] for task in tasks)
    return [fits([task for task in tasks if task.key.endswith(f"/{name}")]) for name in names]


def planned(setting: Setting) -> float:
    """Seconds that the first four stages should take, with one round of the third."""
    return sum(sum(rounds(number, setting)) for number in (1, 2, 4)) + rounds(3, setting)[0]


def short(setting: Setting) -> float:
    """Seconds that the least should take: whether all run, and one round of speed."""
    return sum(rounds(1, setting)) + rounds(2, setting)[0]


def said(number: int, out: Path) -> Sequence[str]:
    """What a stage's results say so far."""
    lines = [line for line in ledger(number, out).lines() if not line["key"].startswith(MACHINE)]
    return list(STAGES[number].said(lines))
