"""The seven stages: what each asks, its tasks, and what it says at the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.gpu import contributions, crashes, machine, rivals, speed, truths, tuning
from tests.gpu.facts import FACTS, Fact
from tests.gpu.running import Prepared
from tests.gpu.tables import answers, measured
from tests.gpu.tasks import UNFINISHED, Hung, Ledger, Progress, Task, Values, carry_out, fits, results, unfinished
from tests.gpu.zygotes import zygotes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.gpu.setting import Setting
    from tests.gpu.tasks import Result
    from tests.gpu.zygotes import Zygotes

ROOT = Path(__file__).parents[2]
FACTS_BESIDE = 3
"""Facts that are asked for at once, of those that measure no time."""
FACT_TIMEOUT = 150.0
"""Seconds after which a fact counts as one that hangs."""
LAST_LINES = 20
"""Of what a fact that failed has said."""
CALL, CALLS = 570.0, 3
"""Seconds of a call on a machine with a GPU, and how many calls there are when one is at hand. A call that takes ten
minutes may be ended from outside: 570 were enough to end by itself."""
CHECKING = 10.0
"""Seconds of a call before its first stage: torch is imported, and looks for the device."""
FORKING = 20.0
"""Seconds until processes that fork are ready, and a fork has found the device."""
SHORT = ("mnist_feedforward", "mnist_cnn", "tabular_mlp", "text_lstm")
"""The scripts of which a single call has the first round of speed, beside the first stage."""
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
    generating: float = 0.0
    """Seconds that its data take on a new machine, as estimated from those of one core."""


def _one(_: Setting) -> int:
    return 1


def fact_tasks(setting: Setting) -> list[Task]:
    """One for each fact, in a process of its own: an error on the device harms no other."""
    return [Task(fact.name, fact.seconds, _asked(fact, setting), alone=fact.alone) for fact in FACTS]


def _asked(fact: Fact, setting: Setting) -> Callable[[float], Result]:
    def run(seconds: float) -> Result:
        command = [sys.executable, "-m", "tests.gpu.facts", fact.name, "--device", setting.device]
        limit = max(1.0, min(FACT_TIMEOUT, seconds))
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
                timeout=limit,
            )
        except subprocess.TimeoutExpired:
            failed = {**about, "failed": f"no answer within {limit:.0f} seconds"}
            return Hung(limit, failed) if limit < FACT_TIMEOUT else failed
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
        generating=30.0,
    ),
    2: Stage("is it faster?", speed.tasks, measured, _one, generating=35.0),
    3: Stage("what does each rule bring?", contributions.tasks, measured, _one, contributions.tasks, generating=8.0),
    4: Stage("facts", fact_tasks, answers, lambda _: FACTS_BESIDE),
    5: Stage("the verifier itself", truths.tasks, truths.summary, _one),
    6: Stage("what would a user pick instead?", rivals.tasks, measured, _one),
    7: Stage("what does tuning keep?", tuning.tasks, tuning.summary, _one, generating=8.0),
}


def ledger(number: int, out: Path) -> Ledger:
    """The file of a stage."""
    return Ledger(out / f"stage-{number}.jsonl")


def run(number: int, setting: Setting, out: Path, deadline: float, tell: Callable[[Values], None]) -> Progress:
    """Carries out what a stage has left to do, until the deadline.

    Args:
        number: Of the stage.
        setting: Where and on what.
        out: The folder of the results.
        deadline: By ``time.monotonic``.
        tell: Is given each line as it comes.
    """
    stage, file = STAGES[number], ledger(number, out)
    before = sum(line["key"].startswith(MACHINE) for line in file.lines())
    about = {"commit": Prepared(setting).manifest["commit"], "device": setting.device, "arguments": sys.argv[1:]}
    file.append({"key": f"{MACHINE} {before + 1}", **about, **machine.described()})
    beside = stage.beside(setting)
    tasks = stage.tasks(setting)
    known = file.keys()
    if stage.forking is None or all(task.key in known for task in tasks):
        return carry_out(tasks, file, deadline, beside=beside, tell=tell)
    ready = time.monotonic() + FORKING
    if ready >= deadline:  # what forks would not be ready in time
        return carry_out(tasks, file, time.monotonic(), beside=beside, tell=tell)
    try:
        with zygotes(beside, deadline) as pool:
            if crashes.fork_works(setting, pool, min(crashes.PROBING, deadline - time.monotonic())):
                tasks = stage.forking(setting, pool)
            return carry_out(tasks, file, deadline, beside=beside, tell=tell)
    except ChildProcessError as error:
        tell({"key": "what runs fork from", "took": time.monotonic() - ready + FORKING, UNFINISHED: str(error)})
    return carry_out(tasks, file, deadline, beside=beside, tell=tell)


def rounds(number: int, setting: Setting) -> list[float]:
    """Seconds that each round of a stage should take, as estimated; of a stage without rounds, the whole of it."""
    stage = STAGES[number]
    tasks = stage.tasks(setting)
    numbers = sorted({task.round for task in tasks})
    found = [fits([task for task in tasks if task.round == each], stage.beside(setting)) for each in numbers]
    found[0] += stage.generating + (0.0 if stage.forking is None else FORKING)
    return found


def planned(setting: Setting) -> float:
    """Seconds that the calls should take: the first and fourth stage, and the first part of the second and third."""
    whole = sum(sum(rounds(number, setting)) for number in (1, 4))
    return CALLS * CHECKING + whole + sum(rounds(number, setting)[0] for number in (2, 3))


def short(setting: Setting) -> float:
    """Seconds that the least should take: whether all run, and one round of speed of the first scripts."""
    first = [task for task in STAGES[2].tasks(setting) if task.round == 0 and task.key.startswith(SHORT)]
    return CHECKING + sum(rounds(1, setting)) + STAGES[2].generating + fits(first)


def said(number: int, out: Path) -> Iterator[str]:
    """What a stage's results say so far, and what is to be tried again."""
    lines = [line for line in ledger(number, out).lines() if not line["key"].startswith(MACHINE)]
    for line in unfinished(lines):
        yield f"TO BE TRIED AGAIN {line['key']}: {line[UNFINISHED]}"
    yield from STAGES[number].said(results(lines))
