"""Stage 2: is it faster? The naive script, the rewritten one and the expert's beside each other, in rounds.

A round runs every text of a script once, one after the other and in random order, with one seed; the rounds of all
scripts are gone through one after the other, so that a call that ends early has all scripts. In the first round the
naive script also runs with TF32 in its matrix products: one line that everybody should have written before.
"""

from __future__ import annotations

import os
import random
import tempfile
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.gpu.running import NAIVE, Extent, Prepared, as_line, is_unfinished
from tests.gpu.scripts import SCRIPTS
from tests.gpu.tasks import Task, Values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from autotune_rewrite.verify.plan import Kind
    from tests.gpu.scripts import Script
    from tests.gpu.setting import Setting
    from tests.gpu.zygotes import Zygotes

ROUNDS = 3
START = 5.0
"""Seconds from the start of a process to the script's first line, and from its last one to the next process."""
WARM = 0.4
"""Of the seconds that compiling takes: the part that is left where stage 1 has made most of the kernels."""
TF32, COLD = "tf32", "cold"
COLD_ITERATIONS = 6
"""Of a run that compiles all its kernels: the backward pass is compiled in the first, other shapes perhaps later."""
TIMEOUT = 300.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One text of a script that is measured once in a round."""

    script: str
    label: str
    """What the report calls it."""
    variant: str
    """Which text it runs."""
    extent: Extent
    seconds: float
    """Of the script alone, as estimated."""
    kind: Kind = "pair"
    cold: bool = False
    """Whether compiled kernels are made anew."""


def tasks(setting: Setting) -> list[Task]:
    """Of all rounds, the first one's first."""
    prepared = Prepared(setting)
    return [
        task
        for number in range(1 if setting.tries_only else ROUNDS)
        for script in SCRIPTS
        if script.name in prepared.names()
        for task in measured(prepared, entries(prepared, script, number), number)
    ]


def entries(prepared: Prepared, script: Script, number: int) -> list[Entry]:
    """What a round of this number measures of a script."""
    extent = Extent.of(script.length(prepared.setting, "measured"))
    seconds = script.seconds
    first = WARM * seconds.compiling if number == 0 else 0.0
    found = [
        Entry(script.name, NAIVE, NAIVE, extent, seconds.naive),
        Entry(script.name, "default", "default", extent, seconds.default + first),
        Entry(script.name, "expert", "expert", extent, seconds.expert),
    ]
    if number == 0:
        found.append(Entry(script.name, TF32, NAIVE, extent, seconds.naive, kind="tf32"))
    if number == 1 and script.measures_cold:
        short = replace(extent, iterations=COLD_ITERATIONS)
        found.append(Entry(script.name, f"default, {COLD}", "default", short, seconds.compiling, cold=True))
    return found


def measured(
    prepared: Prepared,
    found: Sequence[Entry],
    number: int,
    *,
    prefix: str = "",
    zygotes: Zygotes | None = None,
    start: float = START,
) -> Iterator[Task]:
    """The tasks of one round of one script, in random order.

    Args:
        prepared: What there is to run.
        found: What the round measures.
        number: Of the round, from 0: its seed.
        prefix: Of the keys, where a script is measured in several ways.
        zygotes: What the runs fork from; None: each starts a process of its own.
        start: Seconds that this takes.
    """
    order = list(found)
    random.Random(f"{number} {order[0].script}").shuffle(order)  # noqa: S311 - an order, not a secret
    for entry in order:
        key = f"{prefix}{entry.script}/{entry.label}/{number}"
        yield Task(key, start + entry.seconds, _runner(prepared, entry, number, zygotes))


def _runner(prepared: Prepared, entry: Entry, number: int, zygotes: Zygotes | None) -> Callable[[float], Values | None]:
    """What carries out one entry of a round."""

    def run(seconds: float) -> Values | None:
        forked = nullcontext() if zygotes is None else zygotes.harness()
        with _kernels(prepared.setting, cold=entry.cold), forked as harness:
            made = prepared.run(
                entry.script,
                entry.variant,
                entry.extent,
                kind=entry.kind,
                seed=number,
                timeout=max(1.0, min(TIMEOUT, seconds)),
                harness=harness,
            )
        if is_unfinished(made, seconds, TIMEOUT):
            return None
        return {
            "script": entry.script,
            "label": entry.label,
            "variant": entry.variant,
            "round": number,
            "claims": prepared.variants(entry.script).get(entry.variant),
            "run": as_line(made),
        }

    return run


@contextmanager
def _kernels(setting: Setting, *, cold: bool) -> Iterator[None]:
    """Compiled kernels come from where those of earlier runs are kept; of a cold run, from nowhere."""
    if not cold:
        yield
        return
    name = "TORCHINDUCTOR_CACHE_DIR"
    before = os.environ.get(name)
    setting.scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="torchfast-", dir=setting.scratch) as empty:
        os.environ[name] = empty
        try:
            yield
        finally:
            os.environ.pop(name)
            if before is not None:
                os.environ[name] = before
