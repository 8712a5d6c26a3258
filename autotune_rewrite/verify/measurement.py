"""What one run says about time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autotune_rewrite.verify.records import Gpu, Run

WARM_UP = 10
"""Iterations that are not timed, or a quarter of them where there are few: workers start, kernels are chosen."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The times of one run, in seconds."""

    script_seconds: float
    """From the script's first line to the end of its process, or to where it was cut; without ``import torch``."""
    iteration_seconds: float | None
    """Per iteration after the warm-up, all that happens between two of them included; None with fewer than two."""
    iterations: int
    cut: bool

    @classmethod
    def of(cls, run: Run) -> Measurement:
        """What the run's record says.

        A mean over the whole stretch, not a median of single iterations: with prefetching most of them are short and a
        few are long, and a median would leave the long ones out.
        """
        times = run.times
        first = min(WARM_UP, len(times) // 4)
        # The script cannot change how long torch takes to be imported before it starts, nor what we do after its end.
        whole = run.wall_seconds - run.import_seconds - run.bookkeeping_seconds
        return cls(
            script_seconds=run.script_seconds if run.cut else whole,
            iteration_seconds=(times[-1] - times[first]) / (len(times) - 1 - first) if len(times) > 1 else None,
            iterations=len(times),
            cut=run.cut,
        )

    def seconds_at(self, length: int) -> float:
        """How long the script would have run with this many iterations; what was measured where it was not cut."""
        if not self.cut or self.iteration_seconds is None:
            return self.script_seconds
        return self.script_seconds + (length - self.iterations) * self.iteration_seconds


@dataclass(frozen=True, slots=True)
class Figures:
    """What the runs of one side say, in the median over them. Times are seconds; None: not seen."""

    run_seconds: float
    start_seconds: float | None = None
    """To the first backward call: imports, workers, compiling."""
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
    """Whether the two halves of the timed iterations take the same time, in most of the runs."""
    gpu: Gpu | None = None
