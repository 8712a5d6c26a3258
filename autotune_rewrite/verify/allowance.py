"""What is left of a time budget, and whether another pair of runs fits into it."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from statistics import fmean


@dataclass(slots=True)
class Allowance:
    """The time for all runs of a comparison. On a busy machine runs take longer than those before them have shown."""

    seconds: float
    runs: float = 0.0
    """Seconds of all runs so far."""
    reserved: float = 0.0
    """Seconds that are kept for runs that belong to no pair."""
    pairs: list[float] = field(default_factory=list)
    """Seconds of each pair that is as long as the next."""
    limit: float = math.inf
    """Seconds after which a run is ended: what was left when its pair began."""
    _began: float = field(default_factory=time.monotonic)

    @property
    def spent(self) -> float:
        """Seconds so far, those between runs among them."""
        return max(self.runs, time.monotonic() - self._began)

    @property
    def left(self) -> float:
        """Seconds for all that is to come; none are left where it is 0 or less."""
        return self.seconds - self.spent

    @property
    def for_pairs(self) -> float:
        """Of these, the seconds for pairs."""
        return self.left - self.reserved if math.isfinite(self.seconds) else math.inf

    @property
    def holds_another_pair(self) -> bool:
        """Whether a pair fits that takes as long as those before it."""
        return fmean(self.pairs) <= self.for_pairs if self.pairs else self.for_pairs > 0
