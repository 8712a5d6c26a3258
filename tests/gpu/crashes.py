"""Stage 1: does it run? Every script in every form, for a few iterations, several at a time.

A crash is the most valuable thing that this stage can bring. Beside it: whether the rewrite that promises the same bits
keeps that under deterministic algorithms, and whether losses stay where the promise says.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune_rewrite.verify.plan import Plan, Turn
from autotune_rewrite.verify.records import run_of
from autotune_rewrite.verify.run import run_script
from autotune_rewrite.verify.statistics.pairs import START, Pair
from tests.gpu.running import NAIVE, Extent, Prepared
from tests.gpu.scripts import BY_NAME
from tests.gpu.tasks import Task, Values
from tests.scripts import SMALL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from autotune_rewrite.verify.plan import Kind
    from autotune_rewrite.verify.records import Run
    from tests.gpu.setting import Setting
    from tests.gpu.tasks import Result
    from tests.gpu.zygotes import Zygotes

ITERATIONS = 20
BESIDE = 8
"""Runs at once, each on its part of the cores: ten that took all 16 of them ran ten times as long as one alone."""
TIMEOUT, SLOW_TIMEOUT = 170.0, 900.0
"""Seconds for one run: compiling a large model takes a minute where other runs compile, too; and for one on the simulated
device, as a CPU takes minutes for convolutions in float16."""
PROBING = 60.0
"""Seconds that the first fork may take, at most."""
DETERMINISTIC = "deterministic"
LOOSE = 0.1
"""Of the mean relative distance of the losses that follow the first: chaos makes more of rounding from step to step, and
more than this is worth a look."""
COMPILED, KNOWN, PLAIN = {True: 92.0, False: 33.0}, {True: 31.0, False: 12.0}, {True: 12.0, False: 3.0}
"""Seconds of a run on an H100, for scripts of a GPU's size and for small ones: one that compiles, one for which others
have compiled most, one that does not. The last are those of a run alone; the others were seen beside nine more."""

Form = tuple[str, "Kind"]


def forms(prepared: Prepared, script: str) -> Iterator[tuple[str, Form]]:
    """The names of a script's runs, each with the variant and the kind of its run."""
    yield NAIVE, (NAIVE, "pair")
    for variant in ("default", "bf16", "fp16"):
        yield variant, (variant, "pair")
    if prepared.has(script, "expert"):
        yield "expert", ("expert", "pair")
    yield f"{NAIVE}, {DETERMINISTIC}", (NAIVE, "check")
    yield f"bitwise, {DETERMINISTIC}", ("bitwise", "check")


def tasks(setting: Setting, zygotes: Zygotes | None = None) -> list[Task]:
    """One for each script and form: what is compiled for the first time early, as it takes longest.

    Args:
        setting: Where and on what.
        zygotes: What the runs fork from; None: each starts a process of its own.
    """
    prepared = Prepared(setting)
    found: list[tuple[int, Task]] = []
    for script in prepared.names():
        for order, (name, form) in enumerate(forms(prepared, script)):
            kind = (
                PLAIN if not prepared.compiles(script, form[0]) else KNOWN if form[0] in ("bf16", "fp16") else COMPILED
            )
            seconds = kind[script in BY_NAME]
            run = _runner(prepared, script, form, zygotes)
            # Forms that share their compiled kernels come one after the other: the second finds them made.
            task = Task(f"{script}/{name}", seconds, run, alone=False, doubtful=_had_no_memory)
            found.append((order, task))
    return [task for _, task in sorted(found, key=lambda each: each[0])]


PROBE = """
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
weight = torch.ones(2, device=device, requires_grad=True)
for _ in range(3):
    (weight * 2).sum().backward()
print(device)
"""
"""A script that computes on the GPU, and says so."""


def fork_works(setting: Setting, pool: Zygotes, seconds: float) -> bool:
    """Whether a fork can use the device; where it cannot, each run needs a process of its own.

    Args:
        setting: Says which device.
        pool: What it forks from.
        seconds: That finding out may take.
    """
    with tempfile.TemporaryDirectory(prefix="torchfast-") as folder, pool.harness() as harness:
        script = Path(folder) / "probe.py"
        script.write_text(PROBE, encoding="utf-8")
        plan = Plan(script, script, device=setting.device, timeout=max(1.0, seconds))
        run = run_script(plan, Turn("original", 0), harness=harness)
    return run.outcome == "ok" and run.lines[:1] == ("cuda",) and run.losses == (4.0, 4.0, 4.0)


def _had_no_memory(values: Values) -> bool:
    """Whether the run wanted more memory than the others left it."""
    return "run" in values and values["run"]["outcome"] == "out-of-memory"


def _runner(prepared: Prepared, script: str, form: Form, zygotes: Zygotes | None) -> Callable[[float], Result]:
    variant, kind = form
    fixture = next((each for each in SMALL if each.name == script), None)
    extent = (
        Extent.of(BY_NAME[script].length(prepared.setting, "smoke"), iterations=ITERATIONS)
        if fixture is None
        else Extent(fixture.arguments, iterations=ITERATIONS)
    )

    most = SLOW_TIMEOUT if prepared.setting.tries_only else TIMEOUT

    def run(seconds: float) -> Result:
        with nullcontext() if zygotes is None else zygotes.harness() as harness:
            made = prepared.run(script, variant, extent, seconds=seconds, most=most, kind=kind, harness=harness)
        claims = prepared.variants(script).get(variant)
        return made.result({"script": script, "variant": variant, "kind": kind, "claims": claims})

    return run


def beside(setting: Setting) -> int:
    """How many runs there may be at once."""
    return min(BESIDE, os.cpu_count() or 1) if setting.tries_only else BESIDE


def summary(lines: Sequence[Values]) -> Iterator[str]:
    """What was seen, in sentences: crashes with their text first, then bits, then losses.

    Args:
        lines: Of the stage.
    """
    lines = [line for line in lines if "run" in line]
    claims = {(line["script"], line["variant"]): line["claims"] for line in lines}
    runs = {(line["script"], line["variant"], line["kind"]): run_of(line["run"]) for line in lines}
    failed = {key: run for key, run in runs.items() if run.outcome != "ok"}
    yield f"{len(runs)} runs, {len(failed)} failed."
    for (script, variant, kind), run in failed.items():
        how = f" ({DETERMINISTIC} algorithms)" if kind == "check" else ""
        yield f"FAILED {script}/{variant}.py{how} {run.problem}:"
        yield from (f"    {line}" for line in run.output)
    for script in dict.fromkeys(script for script, *_ in runs):
        own = {variant: said for (name, variant), said in claims.items() if name == script}
        yield from _compared(script, {key[1:]: run for key, run in runs.items() if key[0] == script}, own)


def _compared(script: str, runs: Mapping[tuple[str, str], Run], claims: Mapping[str, Any]) -> Iterator[str]:
    """What a script's runs say beside each other."""
    exact, naive = runs.get(("bitwise", "check")), runs.get((NAIVE, "check"))
    if exact is not None and naive is not None and exact.outcome == naive.outcome == "ok":
        rules = ", ".join(claims["bitwise"]["rules"]) or "nothing changed"
        yield f"{script}: {_bits(Pair(naive, exact))} ({rules})"
    original = runs.get((NAIVE, "pair"))
    for (variant, kind), run in runs.items():
        if kind == "check" or variant == NAIVE or original is None:
            continue
        if original.outcome == run.outcome == "ok":
            yield f"{script}/{variant}: {losses_apart(Pair(original, run), claims[variant])}"


def _bits(pair: Pair) -> str:
    if pair.equal:
        return f"bitwise equal over {len(pair.original.losses)} losses and all parameters"
    at = pair.first_difference
    where = "the parameters" if at is None else f"loss {at + 1}"
    return f"BITS DIFFER from {where} on"


def losses_apart(pair: Pair, variant: Mapping[str, Any] | None) -> str:
    """How far the losses of a run are from the original's, and whether that is more than was promised.

    Args:
        pair: Both runs.
        variant: What the manifest says of the rewritten script; None for one that was written by hand.
    """
    first, rest = pair.first_loss_distance, pair.distance(START)
    words = f"first loss {first:.2e} apart, the next ones {rest:.2e}"
    if pair.diverged:
        return f"DIVERGED: {words}"
    if variant is None or variant["redraws_at_once"]:
        return f"{words} (other random draws)"
    if first > variant["tolerance"] or rest > LOOSE:
        return f"FARTHER APART THAN PROMISED ({variant['tolerance']:g}): {words}"
    return words
