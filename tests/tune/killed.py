"""Tunes a script in a world whose times are known, and in which each comparison takes a while: it is there to be killed.

``python killed.py SCRIPT RECORDS SECONDS`` prints a line for each comparison that begins, and what was kept.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from worlds import MARKS, OPTIONS, World

from autotune_rewrite.rewriting.batch import read_project
from autotune_rewrite.tune.trials import Records
from autotune_rewrite.tune.tuned import Tuning
from autotune_rewrite.verify.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autotune_rewrite.verify.judgement import Judgement
    from autotune_rewrite.verify.records import Run


def main(script: Path, records: Path, seconds: float) -> None:
    """Tunes it."""
    world = World({"loader-pin": 1.5, "zero-grad-none": 1.2})

    def verify(plan: Plan, *, probe: bool) -> tuple[Judgement, Sequence[Run]]:
        print("begins", flush=True)
        time.sleep(seconds)
        return world(plan, probe=probe)

    parts = read_project(str(script))
    tuned = Tuning(parts, OPTIONS, Plan(script, script), verify, lambda _: None, 600, Records(records)).end()
    text = "" if tuned.changes is None else tuned.changes.dones[0].rewrite.after
    print("kept", *sorted(rule for rule, mark in MARKS.items() if mark in text), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))
