"""Truths about what NVML and torch say of the device, beside what the script does to it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any

from autotune_rewrite.verify.gpu import Sampler
from autotune_rewrite.verify.plan import Turn
from tests.gpu.truths.bench import START, Truth, told
from tests.gpu.truths.nvml import card
from tests.gpu.truths.texts import BUSY, COMPANION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future
    from pathlib import Path

    from autotune_rewrite.verify.records import Gpu, Run
    from tests.gpu.tasks import Task, Values
    from tests.gpu.truths.bench import Bench
    from tests.gpu.truths.nvml import Card

HELD = 4 * 2**30
BUSY_SECONDS, IDLE_SECONDS = 5.0, 4.0
EDGE = 1.2
"""Seconds at the ends of a phase that are not sampled: NVML's own samples are up to a second long."""
MOST, LEAST = 80.0, 20.0
"""Percent of utilisation: above while a kernel follows the other, below while none does."""
SHARE = 15.0
"""Percent by which a whole run's utilisation may differ from the part of its time in which it computes."""
MOST_WATT = 750.0
IDLE_READINGS = 5


@dataclass(slots=True)
class Phases:
    """What was sampled while the script was in each of its phases, by the verifier's own sampler."""

    path: Path
    gpus: dict[str, Gpu | None] = field(default_factory=dict)
    processes: list[int] | None = None
    """Those that computed on the device while the script did."""

    def begun(self) -> dict[str, float]:
        """The phases that the script has told, with their times."""
        if not self.path.exists():
            return {}
        lines = [line.split() for line in self.path.read_text().splitlines()]
        return {words[0]: float(words[1]) for words in lines if len(words) == 2}

    def watch(self, run: Future[Run], gpu: Card | None) -> None:
        """Samples the phases until the run has ended."""
        for phase, seconds in (("busy", BUSY_SECONDS), ("idle", IDLE_SECONDS)):
            while phase not in self.begun():
                if run.done():
                    return
                time.sleep(0.02)
            time.sleep(EDGE)
            sampler = Sampler(os.environ.get("CUDA_VISIBLE_DEVICES"), lambda _: True, interval=0.1)
            sampler.start()
            time.sleep(seconds - 2 * EDGE)
            if phase == "busy" and gpu is not None:
                self.processes = gpu.processes()
            self.gpus[phase] = sampler.stop()


def device_tasks(bench: Bench) -> list[Task]:
    """A run alone on the device, and one with a companion."""
    return [
        bench.task("nvml", START + BUSY_SECONDS + IDLE_SECONDS + 3.0, _alone(bench)),
        bench.task("nvml, not alone", 2 * START + 4.0, _not_alone(bench)),
    ]


def _alone(bench: Bench) -> Any:
    def work(folder: Path, deadline: float) -> Values:
        note = folder / "phases.txt"
        note.unlink(missing_ok=True)
        seconds = (BUSY_SECONDS, IDLE_SECONDS) if bench.real else (0.1, 0.1)
        arguments = (str(HELD if bench.real else 2**20), *map(str, seconds), str(note))
        plan = bench.plan(folder, BUSY, arguments=arguments)
        phases = Phases(note)
        with card() as gpu:
            before = _idle_watt(gpu) if bench.real else None
            with ThreadPoolExecutor(1) as pool:
                run = pool.submit(bench.run, plan, Turn("original", 0), deadline=deadline)
                if bench.real:
                    phases.watch(run, gpu)
                made = run.result()
        begun = phases.begun()
        truths = [
            Truth("a script that holds memory and computes", "ok", made.outcome, made.outcome == "ok"),
            _allocated(bench, made),
            *_utilizations(made, phases),
            _energy(made, before),
        ]
        foreign = None if made.gpu is None else made.gpu.foreign
        truths.append(Truth("processes of others", 0, foreign, None if foreign is None else foreign == 0))
        return told(
            truths,
            phases=begun,
            gpu=made.gpu,
            sampled=phases.gpus,
            processes=phases.processes,
            idle_watt=before,
            seconds=made.wall_seconds,
            reserved=made.device_reserved,
            output=made.output if made.outcome != "ok" else (),
        )

    return work


def _allocated(bench: Bench, run: Run) -> Truth:
    seen = run.device_allocated
    right = seen is not None and abs(seen - HELD) <= HELD / 100
    return Truth("bytes allocated, within 1 %", HELD, seen, right if bench.real and run.outcome == "ok" else None)


def _utilizations(run: Run, phases: Phases) -> Iterator[Truth]:
    busy, idle = (phases.gpus.get(phase) for phase in ("busy", "idle"))
    of_busy = None if busy is None else busy.utilization
    of_idle = None if idle is None else idle.utilization
    yield Truth("utilisation while busy", "> 80 %", of_busy, None if of_busy is None else of_busy > MOST)
    yield Truth("utilisation while idle", "< 20 %", of_idle, None if of_idle is None else of_idle < LEAST)
    begun = phases.begun()
    of_run = None if run.gpu is None else run.gpu.utilization
    if of_run is None or "idle" not in begun:
        yield Truth("utilisation of the whole run", "the part of its time in which it computes", of_run, None)
        return
    # The start of the process is a part of the run: torch is imported, and the device has nothing to do.
    expected = 100 * (begun["idle"] - begun["busy"]) / run.wall_seconds
    yield Truth("utilisation of the whole run", expected, of_run, abs(of_run - expected) <= SHARE)


def _energy(run: Run, idle: float | None) -> Truth:
    energy = None if run.gpu is None else run.gpu.energy
    expected = f"between {idle:.0f} and {MOST_WATT:.0f} W" if idle is not None else "a plausible power"
    if energy is None or idle is None:
        return Truth("energy by time", expected, None, None)
    watt = energy / run.wall_seconds
    return Truth("energy by time", expected, watt, 0.8 * idle <= watt <= MOST_WATT)


def _idle_watt(gpu: Card | None) -> float | None:
    if gpu is None:
        return None
    readings = []
    for _ in range(IDLE_READINGS):
        readings.append(gpu.watt())
        time.sleep(0.1)
    known = [reading for reading in readings if reading is not None]
    return fmean(known) if known else None


def _not_alone(bench: Bench) -> Any:
    def work(folder: Path, deadline: float) -> Values:
        note = folder / "phases.txt"
        note.unlink(missing_ok=True)
        arguments = (str(2**24), "1.5" if bench.real else "0.1", "0.0", str(note))
        plan = bench.plan(folder, BUSY, arguments=arguments)
        with contextlib.ExitStack() as stack:
            ready = stack.enter_context(_companion(folder)) if bench.real else False
            gpu = stack.enter_context(card())
            processes = None if gpu is None else gpu.processes()
            run = bench.run(plan, Turn("original", 0), deadline=deadline)
        foreign = None if run.gpu is None else run.gpu.foreign
        right = None if foreign is None or not ready else foreign == 1
        truths = [
            Truth("a script that is not alone", "ok", run.outcome, run.outcome == "ok"),
            Truth("processes of others beside it", 1, foreign, right),
        ]
        return told(truths, gpu=run.gpu, processes=processes, companion=ready)

    return work


@contextlib.contextmanager
def _companion(folder: Path) -> Iterator[bool]:
    """Another process that computes on the device; whether it does."""
    script = folder / "companion.py"
    script.write_text(COMPANION, encoding="utf-8")
    with subprocess.Popen([sys.executable, str(script)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        try:
            yield process.stdout is not None and process.stdout.readline() == b"ready\n"
        finally:
            process.kill()
