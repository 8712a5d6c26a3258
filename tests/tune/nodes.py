"""What takes the place of the verifier on the nodes of a cluster in tests: known times, and a note of each trial.

It is appended to ``autotune_rewrite/tune/runner.py`` in the copy of torchfast that is shipped; ``NOTES`` is given to
it there: a folder, in which ``seconds`` says how long a trial takes.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from autotune_rewrite.verify.judgement import Judgement, speed_word
from autotune_rewrite.verify.records import Run
from autotune_rewrite.verify.statistics.ratio import Ratio

if TYPE_CHECKING:
    from collections.abc import Callable

    from autotune_rewrite.verify.plan import Plan
    from autotune_rewrite.verify.records import Environment

NOTES = Path()
FACTORS = {"pin_memory": 1.5, "non_blocking": 1.0, "set_to_none=True": 1.2}
ENVIRONMENT: Environment = {"torch": "2.15.0", "cuda": True, "gpu": "a GPU", "capability": "9.0"}


def note(text: str) -> None:
    """With the processes that this one is of: the worker, which waits for it, and the raylet of the node."""
    raylet = os.environ["RAY_RAYLET_PID"]
    with (NOTES / "trials").open("a", encoding="utf-8") as file:
        file.write(f"{text} {os.getppid()} {os.getpid()} {raylet} {Path.cwd()} {Path('data').exists()}\n")


def time_of(script: Path) -> float:
    text = script.read_text(encoding="utf-8")
    seconds = 10.0
    for mark, factor in FACTORS.items():
        seconds /= factor if mark in text else 1.0
    return seconds


def probe(plan: Plan) -> Environment:
    del plan
    return ENVIRONMENT


def verify(plan: Plan, *, on_run: Callable[[Run], None]) -> Judgement:
    note("began")
    time.sleep(float((NOTES / "seconds").read_text(encoding="utf-8")))
    before, after = time_of(plan.original_text or plan.original), time_of(plan.rewritten)
    ratio = Ratio(before / after, before / after / 1.01, before / after * 1.01)
    on_run(Run("original", 0, "ok", "", (), before, times=(1.0, 2.0), ended="finished", lines=(str(Path.cwd()),)))
    note("ended")
    reason = f"The same bits in {Path.cwd()}."
    return Judgement("ok", speed_word(ratio), "equal", reason, "bitwise", whole=ratio, environment=ENVIRONMENT)
