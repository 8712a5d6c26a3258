"""Which changes make a script slower although they are correct: each is left out of the whole, and both are timed."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from autotune_rewrite.tune.texts import written

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from autotune_rewrite.rewriting.batch import Changes
    from autotune_rewrite.tune.texts import Verify
    from autotune_rewrite.verify.plan import Plan
    from autotune_rewrite.verify.statistics.ratio import Ratio

PAIRS = 16
"""Of each comparison, at most: it decides."""


@dataclass(frozen=True, slots=True)
class Slowing:
    """The search for a change that makes the whole slower, for certain."""

    plan: Plan
    """How the script is run: its time budget is for the whole search."""
    verify: Verify
    rewritten: Callable[[frozenset[str]], Changes]
    """The rewrite without the changes of some rules, beside those that are left out anyway."""
    say: Callable[[str], None]

    def found(self, whole: Changes, suspects: Sequence[str]) -> tuple[str, str] | None:
        """The first rule without which the script is faster, and that in a sentence; None where it is none for certain.

        Args:
            whole: The rewrite that is slower than the original.
            suspects: The rules whose changes act here, in the order in which they are left out.

        Raises:
            KeyboardInterrupt: The user has ended it.
        """
        end = time.monotonic() + self.plan.time_budget
        for number, rule in enumerate(suspects):
            share = (end - time.monotonic()) / (len(suspects) - number)
            without = self.rewritten(frozenset({rule}))
            if share <= 0:
                return None
            if without.texts == whole.texts:
                continue
            self.say(f"is it slower because of {rule}? For {share:.0f} s at most")
            ratio = self._slower(without, whole, share)
            if ratio is not None:
                return rule, measured(ratio)
        return None

    def _slower(self, before: Changes, after: Changes, seconds: float) -> Ratio | None:
        """How many times as fast the second rewrite is, where it is slower than the first for certain."""
        with TemporaryDirectory(prefix="torchfast-") as directory:
            original_text, original_modules = written(before, self.plan.original, Path(directory) / "before")
            rewritten, modules = written(after, self.plan.original, Path(directory) / "after")
            plan = replace(
                self.plan,
                original_text=original_text,
                original_modules=original_modules,
                rewritten=rewritten,
                modules=modules,
                script_directory=self.plan.original.parent,
                pairs=min(PAIRS, self.plan.pairs),
                time_budget=seconds,
                speed_only=True,
                keep=False,
            )
            judgement, _ = self.verify(plan, probe=True)
        if judgement.interrupted:
            raise KeyboardInterrupt
        return judgement.whole if judgement.run == "ok" and judgement.speed == "slower" else None


def measured(ratio: Ratio) -> str:
    """Why a change is left out, in a sentence."""
    between = "" if ratio.low is None or ratio.high is None else f" ({1 / ratio.high:.2f} to {1 / ratio.low:.2f})"
    return f"Measured: it made the script take {1 / ratio.estimate:.2f} times as long{between}."
