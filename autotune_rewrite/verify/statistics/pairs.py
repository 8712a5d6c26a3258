"""Two runs with one seed, side by side."""

from __future__ import annotations

import math
import re
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autotune_rewrite.verify import metrics

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from autotune_rewrite.verify.records import File, Run


FIRST = slice(0, 1)
START = slice(1, 20)
"""The iterations over which losses that begin the same have to stay together, after the first one."""
EARLY = slice(1, 5)
"""The first of them, in which a difference has not had the time to grow by itself."""
DATA = (".npy", ".npz", ".safetensors", ".csv", ".json", ".pt", ".pth", ".ckpt", ".tar")
"""Files that hold results: of checkpoints, to whose state a rewrite may add, only the tensors were read."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The two runs with one seed."""

    original: Run
    rewritten: Run

    @property
    def equal(self) -> bool:
        """Whether every loss and every final parameter is the same, bit for bit."""
        return not self.lengths_differ and self.first_difference is None and not self.parameters_differ

    @property
    def repeats(self) -> bool:
        """Whether they are equal, and so is every metric that they print or give to TensorBoard."""
        return self.equal and not self.metrics_that_differ

    @property
    def metrics_that_differ(self) -> tuple[str, ...]:
        """The names of those whose values differ."""
        return metrics.differing(self.original, self.rewritten)

    @property
    def files_that_differ(self) -> tuple[str, ...]:
        """The names, with ``#`` for numbers, of files of plain data that both wrote with other contents."""
        return tuple(name for name in self._other_contents if name.endswith(DATA))

    @property
    def other_contents(self) -> tuple[str, ...]:
        """As ``files_that_differ``, of other files: logs hold times.

        Source text is left out: scripts keep a copy of themselves beside their results.
        """
        return tuple(name for name in self._other_contents if not name.endswith((*DATA, ".py", ".pyc")))

    @property
    def _other_contents(self) -> tuple[str, ...]:
        before, after = (_contents(run.files) for run in (self.original, self.rewritten))
        return tuple(name for name in before if name in after and before[name] != after[name])

    def beside(self, varying: Collection[str]) -> tuple[str, ...]:
        """The metrics and files that differ, but for those in which the original differs from itself."""
        return tuple(name for name in (*self.metrics_that_differ, *self.files_that_differ) if name not in varying)

    @property
    def lengths_differ(self) -> bool:
        """Whether they have different numbers of losses."""
        return len(self.original.losses) != len(self.rewritten.losses)

    @property
    def parameters_differ(self) -> bool:
        """Whether any final parameter, or the number of optimizers, differs."""
        return self.original.parameters != self.rewritten.parameters

    @property
    def first_difference(self) -> int | None:
        """The first iteration whose losses differ, from 0; not-a-number equals itself."""
        losses = zip(self.original.losses, self.rewritten.losses, strict=False)
        different = (at for at, (a, b) in enumerate(losses) if a != b and not (math.isnan(a) and math.isnan(b)))
        return next(different, None)

    def distance(self, iterations: slice) -> float:
        """The mean relative difference of the losses of these iterations; infinite where only one side has a number.

        A loss that starts at zero by its construction, as PPO's, is small beside those that follow: differences are
        relative to the median of the first losses, where that is more than the loss itself.
        """
        losses = zip(self.original.losses[iterations], self.rewritten.losses[iterations], strict=False)
        sizes = [abs(loss) for loss in self.original.losses[: START.stop] if math.isfinite(loss)]
        usual = statistics.median(sizes) if sizes else 0.0
        distances = [relative(a, b, usual) for a, b in losses]
        return mean(distances) if distances else 0.0

    @property
    def first_loss_distance(self) -> float:
        """The relative difference of the first losses; infinite where only one of them is there, or is a number."""
        both = self.original.losses and self.rewritten.losses
        return self.distance(FIRST) if both else math.inf

    @property
    def diverged(self) -> bool:
        """Whether a loss of the rewritten script is not finite, and all of the original's are."""
        return all(map(math.isfinite, self.original.losses)) and not all(map(math.isfinite, self.rewritten.losses))


@dataclass(frozen=True, slots=True)
class Check:
    """Under deterministic algorithms, with one seed: the original, the bitwise changes alone, the original again."""

    original: Run
    rewritten: Run
    again: Run | None = None
    """None where it was not needed, as the first two are equal."""

    @property
    def pair(self) -> Pair:
        """The original beside the bitwise changes."""
        return Pair(self.original, self.rewritten)

    @property
    def repeated(self) -> Pair | None:
        """The original beside itself, where it was run again."""
        return None if self.again is None else Pair(self.original, self.again)

    @property
    def varying(self) -> tuple[str, ...]:
        """The metrics in which the original differs from itself."""
        return () if self.repeated is None else self.repeated.metrics_that_differ


def relative(a: float, b: float, usual: float) -> float:
    """The difference as a part of the larger one, or of what is usual if that is more."""
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    distance = abs(a - b) / max(abs(a), abs(b), usual)
    return distance if math.isfinite(distance) else math.inf


def mean(values: Sequence[float]) -> float:
    """Infinite where the sum is too large for a float."""
    try:
        return statistics.fmean(values)
    except OverflowError:
        return math.inf


def _contents(files: Sequence[File]) -> dict[str, tuple[str, ...]]:
    """The digests of files that are known, in the order of their names, for each name without its numbers."""
    contents: dict[str, tuple[str, ...]] = {}
    for file in files:
        if file.digest:
            name = re.sub(r"\d+", "#", file.name)
            contents[name] = (*contents.get(name, ()), file.digest)
    return contents
