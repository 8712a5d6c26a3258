"""How truths are told, and how the scripts under test are run."""

from __future__ import annotations

import atexit
import contextlib
import json
import subprocess
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune_rewrite.verify import run as verifier
from autotune_rewrite.verify.plan import Plan, Turn, VerifyError
from autotune_rewrite.verify.records import as_json, run_of
from tests.gpu.crashes import fork_works
from tests.gpu.running import as_line, of_fork
from tests.gpu.tasks import Task, Values
from tests.gpu.zygotes import Zygotes, zygotes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from autotune_rewrite.verify.records import Run
    from tests.gpu.setting import Setting

START = 8.0
"""Seconds that a process takes on the machine with the GPU before its script trains: torch is imported, CUDA starts."""
FORK = 1.5
"""The same of a fork of a process that has imported torch: CUDA starts."""
BESIDE = 12
"""Runs at once, where nothing is timed; the machine has 16 cores."""
MOST = 2.5
"""Times its estimate that a task may take, before it is given up for the sake of the others."""
LEAST = 2.0
"""Seconds below which no run is begun."""
LONGER = 1.3
"""Times the longest round so far that has to be left for another one."""
LAST_LINES = 20
STARTING = 60.0
"""Seconds that a process that forks may take to start, and its first fork."""
OWN_HARNESS = Path(verifier.__file__).parent / "child" / "harness.py"
FORESEEN = (
    ArithmeticError,
    AttributeError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    VerifyError,
    subprocess.SubprocessError,
)
"""What may go wrong in one task, and must not cost the others their time on the device."""


@dataclass(frozen=True, slots=True)
class Truth:
    """One thing that is known, and what was seen of it."""

    name: str
    expected: Any
    seen: Any
    right: bool | None
    """None where it cannot be told on this device."""


def told(truths: Sequence[Truth], **more: Any) -> Values:
    """The values of a line.

    Args:
        truths: With different names.
        more: Figures and records.
    """
    known = [truth for truth in truths if truth.right is not None]
    values: Values = as_json(
        {
            "expected": {truth.name: truth.expected for truth in truths},
            "seen": {truth.name: truth.seen for truth in truths},
            "right": all(truth.right for truth in known) if known else None,
            "wrong": [truth.name for truth in known if not truth.right],
            "not_here": [truth.name for truth in truths if truth.right is None],
            **more,
        }
    )
    return values


class Bench:
    """Runs scripts under test on the setting's device."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.real = setting.device == "cuda"
        self._lock = threading.Lock()
        self._pool: Zygotes | None = None
        self._asked = False

    def task(self, key: str, seconds: float, work: Callable[[Path, float], Values], *, alone: bool = True) -> Task:
        """A task that never raises what may be foreseen.

        Args:
            key: Of the task; the work gets a folder of this name.
            seconds: As estimated.
            work: Gets the folder, and until when it may take, by ``time.monotonic``.
            alone: Whether nothing else may run beside it.
        """
        folder = self.setting.scratch / "truths" / key.replace(" ", "-").replace(",", "")

        def run(left: float) -> Values:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                if not self.real:
                    self._forks()  # not from a thread of the work's own: Linux ends them with the thread that began them
                values = work(folder, time.monotonic() + (min(left, MOST * seconds) if self.real else left))
            except FORESEEN as error:
                values = {"right": None, "failed": traceback.format_exception(error)[-LAST_LINES:]}
            return {"device": self.setting.device, **values}

        return Task(key, seconds, run, alone=alone)

    def plan(self, folder: Path, original: str, rewritten: str | None = None, **options: Any) -> Plan:
        """A plan for two texts.

        Args:
            folder: Theirs. The scripts lie two folders deeper: what lies around a script is linked to for each run.
            original: Its text.
            rewritten: The other text; None: the same one, from a file of its own.
            options: Fields of the plan, ``name`` among them, which keeps the plans of one folder apart.
        """
        name = options.pop("name", "script")
        place = folder / name / "project"
        place.mkdir(parents=True, exist_ok=True)
        files = place / "original.py", place / "rewritten.py"
        for file, text in zip(files, (original, original if rewritten is None else rewritten), strict=True):
            file.write_text(text, encoding="utf-8")
        return Plan(*files, **{"device": self.setting.device, "timeout": 60.0, **options})

    def run(
        self,
        plan: Plan,
        turn: Turn,
        *,
        deadline: float,
        watch: Callable[[int, float], None] | None = None,
        forked: bool = False,
    ) -> Run:
        """One run.

        Args:
            plan: Says what is run.
            turn: Says which of it.
            deadline: By ``time.monotonic``.
            watch: Is told of iterations.
            forked: Whether it forks from a process that has imported torch. On a simulated device all do.

        Raises:
            TimeoutError: There is no time left.
        """
        left = deadline - time.monotonic()
        if left < LEAST:
            raise TimeoutError("the time was over before all runs were begun")
        fitting = replace(plan, timeout=min(plan.seconds_of_run, left))
        pool = self._forks() if forked or not self.real else None
        with contextlib.nullcontext() if pool is None else pool.harness() as harness:
            run = verifier.run_script(fitting, turn, watch=watch, harness=harness)
        return run if pool is None else of_fork(run)

    def several(
        self,
        work: Sequence[tuple[Plan, Turn]],
        deadline: float,
        watch: Callable[[int, int], None] | None = None,
    ) -> list[Run]:
        """Runs beside each other, in the order in which they were asked for; nothing of them may be timed.

        Args:
            work: What is run.
            deadline: By ``time.monotonic``.
            watch: Is told the number of a run, from 0, and how many iterations it has told so far.

        Raises:
            TimeoutError: There was no time left for one of them.
        """

        def run(number: int) -> Run:
            tell = None if watch is None else lambda iterations, _: watch(number, iterations)
            return self.run(*work[number], deadline=deadline, watch=tell)

        with ThreadPoolExecutor(BESIDE if self.real else 1) as pool:
            return list(pool.map(run, range(len(work))))

    @property
    def forks(self) -> bool:
        """Whether runs that were to be forks were; else they started processes of their own."""
        return self._pool is not None

    def _forks(self) -> Zygotes | None:
        """What runs fork from, until this process ends; None where that does not work, or tests have their own way."""
        with self._lock:
            if not self._asked and verifier.HARNESS == OWN_HARNESS:
                stack = contextlib.ExitStack()
                atexit.register(stack.close)
                pool = stack.enter_context(zygotes(1, time.monotonic() + STARTING))
                self._pool = pool if fork_works(self.setting, pool, STARTING) else None
            self._asked = True
            return self._pool


class Rounds:
    """Rounds of runs that end early, rather than fail, where the next one would not end in time."""

    def __init__(self, numbers: Iterable[int], deadline: float) -> None:
        self._numbers, self._deadline = numbers, deadline

    def __iter__(self) -> Iterator[int]:
        """The numbers of the rounds: of the first in any case."""
        longest = 0.0
        for number in self._numbers:
            start = time.monotonic()
            if longest and self._deadline - start < LONGER * longest:
                return
            yield number
            longest = max(longest, time.monotonic() - start)


def read_json(path: Path) -> Any:
    """What a script has told; an empty object where it told nothing."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def kept(run: Run) -> Values:
    """The record of a run for a line; what it said is kept only where it failed."""
    return as_line(replace(run, lines=(), output=run.output if run.outcome != "ok" else ()))


def runs_of(values: Sequence[Mapping[str, Any]]) -> list[Run]:
    """The runs that ``kept`` has described."""
    return [run_of(each) for each in values]
