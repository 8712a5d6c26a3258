"""What one run says about time, and what the runs of one side say together."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from autotune_rewrite.verify.records import Gpu

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from autotune_rewrite.verify.records import Pass, Run

WARM_UP = 10
"""Iterations that are not timed, or a quarter of them where there are few: workers start, kernels are chosen. They are
counted from the end of the last compilation."""
FEWEST_TIMED = 10
"""Iterations, and at least a quarter of all, that are left to be timed after a late compilation."""
UNSTEADY = 0.1
"""The part by which the halves of what is timed may differ: a run that drifts farther is still warming up, or is held
back by heat or by other programs; below it lies what a single pause does to a run of a hundred iterations."""
ERRORS = 2.0
"""Standard errors of the difference of the halves that the variation of single iterations explains."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The times of one run, in seconds."""

    script_seconds: float
    """From the script's first line to the end of its process, or to where it was cut; without ``import torch``."""
    iteration_seconds: float | None
    """Per iteration after the warm-up, all that happens between two of them included; None with fewer than two."""
    iterations: int
    cut: bool
    end_seconds: float = 0.0
    """From the last backward call on: the rest of its iteration, and what follows them all unless the run was cut."""
    warm_up: int = 0
    """The iterations that were not timed."""
    steady: bool = True
    """Whether the halves of what was timed take the same time, and no compilation is among it."""

    @classmethod
    def of(cls, run: Run, beside: Run | None = None) -> Measurement:
        """What the run's record says.

        A mean over the whole stretch, not a median of single iterations: with prefetching most of them are short and a
        few are long, and a median would leave the long ones out.

        Args:
            run: Whose times are asked for.
            beside: The run that it is compared with. The stretch that is timed begins in both after the longer of their
                warm-ups: or where one side compiles its evaluation late, the other's stretch alone would hold one.
        """
        times = run.times
        first, settled = _warm_up(run)
        if beside is not None:
            first = max(first, min(_warm_up(beside)[0], len(times) - 2))
        # The script cannot change how long torch takes to be imported before it starts, nor what we do after its end.
        whole = run.wall_seconds - run.import_seconds - run.bookkeeping_seconds
        script = run.script_seconds if run.cut else whole
        return cls(
            script_seconds=script,
            iteration_seconds=(times[-1] - times[first]) / (len(times) - 1 - first) if len(times) > 1 else None,
            iterations=len(times),
            cut=run.cut,
            end_seconds=script - times[-1] if times else 0.0,
            warm_up=first,
            steady=settled and _halves_agree(run, first),
        )

    def seconds_at(self, length: int) -> float:
        """How long the script would have run with this many iterations; what was measured where it was not cut."""
        if not self.cut or self.iteration_seconds is None:
            return self.script_seconds
        return self.script_seconds + (length - self.iterations) * self.iteration_seconds


def _warm_up(run: Run) -> tuple[int, bool]:
    """How many iterations are not timed, and whether every compilation ended well before the first that is."""
    times = run.times
    count = len(times)
    usual = min(WARM_UP, count // 4)
    # One after the last iteration, as in a final evaluation, does not disturb any of them.
    compiled = max((end for end in run.compiles if times and end <= times[-1]), default=None)
    if compiled is None:
        return usual, True
    first = bisect_right(times, compiled) + WARM_UP
    if count - 1 - first < max(FEWEST_TIMED, count // 4):
        return usual, False
    return max(usual, first), True


def _halves_agree(run: Run, first: int) -> bool:
    """Whether the halves of the timed stretch take the same time per iteration, as far as single iterations tell.

    A pause lies in one of the halves without saying anything of the pace: an evaluation that no loader shows, workers
    that start with an epoch, the last of the bursts in which workers hand over their batches. It makes a few iterations
    long; a run that drifts has many that are longer.
    """
    seconds = _without_evaluations(run, first)
    if len(seconds) < FEWEST_TIMED:
        return True
    middle = len(seconds) // 2
    halves = seconds[:middle], seconds[middle:]
    means = [statistics.fmean(half) for half in halves]
    apart = abs(means[0] - means[1])
    if apart <= UNSTEADY * max(means):
        return True
    return apart <= ERRORS * math.sqrt(sum(statistics.variance(half) / len(half) for half in halves))


def _without_evaluations(run: Run, first: int) -> list[float]:
    """Seconds of each timed iteration, but for the evaluations that its end waited for."""
    timed = run.times[first:]
    seconds = [after - before for before, after in pairwise(timed)]
    evaluations = [each for each in run.passes if each.iterations == 0]
    held = {
        at
        for each in evaluations
        for at in range(max(0, bisect_right(timed, each.start) - 1), min(len(seconds), bisect_left(timed, each.end)))
    }
    for at in held:
        seconds[at] -= covered(evaluations, timed[at], timed[at + 1])
    return seconds


def covered(passes: Iterable[Pass], start: float = float("-inf"), end: float = float("inf")) -> float:
    """Seconds between start and end in which any of the passes went on; passes may overlap or hold each other."""
    seconds, reached = 0.0, start
    for each in sorted(passes, key=lambda each: each.start):
        seconds += max(0.0, min(each.end, end) - max(each.start, reached))
        reached = max(reached, min(each.end, end))
    return seconds


@dataclass(frozen=True, slots=True)
class Figures:
    """What the runs of one side say, in the median over them. Times are seconds; None: not seen."""

    run_seconds: float
    start_seconds: float | None = None
    """To the first backward call: imports, workers, compiling."""
    exit_seconds: float | None = None
    """From the script's end to that of its process: a part of the run that no line of the script shows."""
    iteration_seconds: float | None = None
    epoch_seconds: float | None = None
    """Of a pass through a training loader."""
    evaluation_seconds: float | None = None
    """Of the passes without a backward call that follow it, in all."""
    waiting: float | None = None
    """The part of the time after the warm-up, from 0 to 1, in which batches were waited for."""
    samples_per_second: float | None = None
    device_allocated: int | None = None
    """Bytes, at most."""
    device_reserved: int | None = None
    host_bytes: int = 0
    steady: bool = True
    """Whether the two halves of the timed iterations take the same time, as far as can be told, in most of the runs."""
    gpu: Gpu | None = None
    """The mean over the runs; every reason to throttle, and the most foreign processes, of any of them."""

    @classmethod
    def of(cls, runs: Sequence[Run], beside: Sequence[Run] = ()) -> Figures:
        """The figures of at least one run.

        Args:
            runs: Of one side.
            beside: What each of them is compared with, if anything.
        """
        measured = [Measurement.of(*pair) for pair in zip(runs, beside or runs, strict=True)]
        pairs = list(zip(runs, measured, strict=True))
        return cls(
            run_seconds=statistics.median(run.import_seconds + one.script_seconds for run, one in pairs),
            start_seconds=_median(run.import_seconds + run.times[0] if run.times else None for run in runs),
            exit_seconds=_median(run.exit_seconds for run in runs),
            iteration_seconds=_median(one.iteration_seconds for one in measured),
            epoch_seconds=_median(map(_epoch_seconds, runs)),
            evaluation_seconds=_median(map(_evaluation_seconds, runs)),
            waiting=_median(_waiting(run, one.warm_up) for run, one in pairs),
            samples_per_second=_median(map(_samples_per_second, runs)),
            device_allocated=_bytes(run.device_allocated for run in runs),
            device_reserved=_bytes(run.device_reserved for run in runs),
            host_bytes=_bytes(run.host_bytes for run in runs) or 0,
            steady=2 * sum(one.steady for one in measured) > len(measured),
            gpu=_gpu([run.gpu for run in runs if run.gpu is not None]),
        )


def training_passes(run: Run) -> list[Pass]:
    """The passes that went to their end: the last one of a run that was cut did not."""
    passes = [each for each in run.passes if each.iterations]
    return passes[:-1] if run.cut and passes and passes[-1] is max(run.passes, key=lambda each: each.start) else passes


def evaluation_passes(run: Run) -> list[Pass]:
    """The passes without a backward call that went to their end."""
    passes = [each for each in run.passes if not each.iterations and each.batches]
    return passes[:-1] if run.cut and passes and passes[-1] is max(run.passes, key=lambda each: each.start) else passes


def _epoch_seconds(run: Run) -> float | None:
    passes = training_passes(run)
    return statistics.fmean(each.end - each.start for each in passes) if passes else None


def _evaluation_seconds(run: Run) -> float | None:
    training, evaluations = training_passes(run), evaluation_passes(run)
    return covered(evaluations) / len(training) if training and evaluations else None


def _waiting(run: Run, first: int) -> float | None:
    times, waits = run.times, run.waits
    if not run.passes or len(waits) != len(times) or len(times) < first + 2:
        return None
    seconds = times[-1] - times[first]
    return (waits[-1] - waits[first]) / seconds if seconds > 0 else None


def _samples_per_second(run: Run) -> float | None:
    """Of training, after the first pass where there are several: it starts workers and compiles."""
    passes = training_passes(run)
    passes = passes[1:] or passes
    seconds = covered(passes)
    samples = sum(each.samples for each in passes)
    return samples / seconds if samples and seconds > 0 else None


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _bytes(values: Iterable[int | None]) -> int | None:
    median = _median(values)
    return None if median is None else round(median)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _gpu(seen: Sequence[Gpu]) -> Gpu | None:
    if not seen:
        return None
    return Gpu(
        utilization=_mean(each.utilization for each in seen),
        clock=_mean(each.clock for each in seen),
        throttled=tuple(sorted({reason for each in seen for reason in each.throttled})),
        foreign=max(each.foreign for each in seen),
        foreign_part=_mean(each.foreign_part for each in seen),
        energy=_mean(each.energy for each in seen),
    )
