"""Stage 2: is it faster? The naive script, the rewritten one and the expert's beside each other, in rounds.

A round runs every text of a script once, one after the other and in random order, with one seed; the rounds of all
scripts are gone through one after the other, so that a call that ends early has all scripts. In the second round the
naive script also runs with TF32 in its matrix products: one line that everybody should have written before.

In the first round a text that compiles runs cold, with an empty folder for its kernels: that tells what compiling takes,
and is beside the naive script what its users see the first time. The scripts that take least come first. From the second
round on every such run is a warm one: where the machine of that call has no kernels yet, a run before makes them.
"""

from __future__ import annotations

import os
import random
import shutil
import uuid
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.gpu.running import NAIVE, Extent, Prepared
from tests.gpu.scripts import SCRIPTS
from tests.gpu.tasks import Hung, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from autotune_rewrite.verify.plan import Kind
    from tests.gpu.scripts import Script
    from tests.gpu.setting import Setting
    from tests.gpu.tasks import Result
    from tests.gpu.zygotes import Zygotes

ROUNDS = 4
"""The first one and three that are warm."""
START = 11.0
"""Seconds of a run besides its work, as seen on an H100: imports 4, what CUDA and the script take before the first
iteration 5 to 6, the end of the process 1."""
TF32, COLD, FIRST = "tf32", "cold", "0"
CACHE = "TORCHINDUCTOR_CACHE_DIR"
NAME, MADE = "name", "made"
"""The files in a folder of kernels that hold a name of its own, and that say that a run to the script's end made them."""
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
    compiling: float = 0.0
    """Seconds more where its kernels have to be made."""


def tasks(setting: Setting) -> list[Task]:
    """Of all rounds, the first one's first."""
    prepared = Prepared(setting)
    groups = [list(_first(prepared, script)) for script in SCRIPTS if script.name in prepared.names()]
    groups.sort(key=lambda group: sum(task.seconds for task in group))
    found = [task for group in groups for task in group]
    # By then every script has a pair: what an expert compiles is the last thing to wait for.
    found.sort(key=lambda task: f"/expert, {COLD}/" in task.key)
    count = 1 if setting.tries_only else ROUNDS - 1
    later = in_rounds(prepared, count, lambda script, number: entries(prepared, script, number + 1), start=1)
    return [*found, *later]


def _first(prepared: Prepared, script: Script) -> Iterator[Task]:
    """The first round of a script: what compiles runs cold."""
    found = entries(prepared, script, 0)
    cold = [entry for entry in found if prepared.compiles(script.name, entry.variant)]
    warm = [entry for entry in found if entry not in cold]
    for entry in cold:
        seconds = START + entry.seconds + entry.compiling
        yield Task(f"{entry.script}/{entry.label}, {COLD}/{FIRST}", seconds, _cold_runner(prepared, entry, FIRST))
    yield from measured(prepared, warm, 0)


def in_rounds(
    prepared: Prepared,
    count: int,
    entries_of: Callable[[Script, int], Sequence[Entry]],
    known: Collection[str] = (),
    start: int = 0,
) -> list[Task]:
    """The tasks of all rounds, and in the first one before them, script by script, what makes the kernels.

    Args:
        prepared: What there is to run.
        count: Of the rounds.
        entries_of: What a round of this number measures of a script.
        known: The labels for which there need not be a cold run where their kernels are there: another stage has it.
        start: The number of the first round.
    """
    scripts = [script for script in SCRIPTS if script.name in prepared.names()]
    found: list[Task] = []
    for number in range(count):
        for script in scripts:
            if number == 0:
                every = [(entry, start + at) for at in range(count) for entry in entries_of(script, at)]
                made = _cold(prepared, every, known)
                found += [replace(task, round=start) for task in made]
            found += measured(prepared, entries_of(script, number), start + number, own_kernels=True)
    return found


def entries(prepared: Prepared, script: Script, number: int) -> list[Entry]:
    """What a round of this number measures of a script."""
    extent = Extent.of(script.length(prepared.setting, "measured"))
    seconds = script.seconds
    found = [
        Entry(script.name, NAIVE, NAIVE, extent, seconds.naive),
        Entry(script.name, "default", "default", extent, seconds.default, compiling=seconds.compiling),
        Entry(script.name, "expert", "expert", extent, seconds.expert, compiling=seconds.compiling),
    ]
    if number == 1:
        found.append(Entry(script.name, TF32, NAIVE, extent, seconds.naive, kind="tf32"))
    return found


def _cold(prepared: Prepared, entries: Iterable[tuple[Entry, int]], known: Collection[str]) -> Iterator[Task]:
    """The runs that make the kernels, each once on a machine: its key has the name that its kernels have there.

    Args:
        prepared: What there is to run.
        entries: Of all rounds of a script, each with the number of its round.
        known: As in ``in_rounds``.
    """
    served: dict[str, tuple[Entry, set[str]]] = {}
    for entry, number in entries:
        if prepared.compiles(entry.script, entry.variant):
            served.setdefault(entry.label, (entry, set()))[1].add(_key(entry, number))
    for entry, keys in served.values():
        own = kernels(prepared.setting, entry)
        if entry.label in known and (own / MADE).exists():
            continue
        named = own / NAME
        name = named.read_text(encoding="utf-8") if named.exists() else uuid.uuid4().hex[:8]
        yield Task(
            f"{entry.script}/{entry.label}, {COLD}/{name}",
            START + entry.seconds + entry.compiling,
            _cold_runner(prepared, entry, name),
            serves=frozenset(keys),
        )


def kernels(setting: Setting, entry: Entry) -> Path:
    """The folder of the kernels of a text."""
    return setting.scratch / "kernels" / f"{entry.script}-{entry.variant}"


def _key(entry: Entry, number: int, prefix: str = "") -> str:
    return f"{prefix}{entry.script}/{entry.label}/{number}"


def measured(
    prepared: Prepared,
    found: Sequence[Entry],
    number: int,
    *,
    prefix: str = "",
    zygotes: Zygotes | None = None,
    start: float = START,
    own_kernels: bool = False,
) -> Iterator[Task]:
    """The tasks of one round of one script, in random order.

    Args:
        prepared: What there is to run.
        found: What the round measures.
        number: Of the round, from 0: its seed.
        prefix: Of the keys, where a script is measured in several ways.
        zygotes: What the runs fork from; None: each starts a process of its own.
        start: Seconds that this takes.
        own_kernels: Whether a text that compiles has a folder for its kernels, and waits for the run that makes them.
    """
    order = list(found)
    random.Random(f"{number} {order[0].script}").shuffle(order)  # noqa: S311 - an order, not a secret
    for entry in order:
        compiles = own_kernels and prepared.compiles(entry.script, entry.variant)
        own = kernels(prepared.setting, entry) if compiles else None
        run = _runner(prepared, entry, number, zygotes, own)
        yield Task(_key(entry, number, prefix), start + entry.seconds, run, round=number)


def _runner(
    prepared: Prepared, entry: Entry, number: int, zygotes: Zygotes | None, own: Path | None
) -> Callable[[float], Result]:
    """What carries out one entry of a round."""

    def run(seconds: float) -> Result:
        if own is not None and not (own / MADE).exists():
            return None  # it would be measured with the time that compiling takes
        forked = nullcontext() if zygotes is None else zygotes.harness()
        with _compiling_into(own), forked as harness:
            return _made(prepared, entry, seconds, {"round": number}, seed=number, harness=harness)

    return run


def _cold_runner(prepared: Prepared, entry: Entry, name: str) -> Callable[[float], Result]:
    """What makes the kernels of an entry, and leaves their name beside them."""
    own = kernels(prepared.setting, entry)

    def run(seconds: float) -> Result:
        if name != FIRST and (own / MADE).exists():
            return None  # the first round has made them in this call
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir(parents=True)
        (own / NAME).write_text(name, encoding="utf-8")
        with _compiling_into(own):
            result = _made(prepared, entry, seconds, {"label": f"{entry.label}, {COLD}"})
        if result is not None and not isinstance(result, Hung):
            (own / MADE).touch()
        return result

    return run


def _made(
    prepared: Prepared,
    entry: Entry,
    seconds: float,
    more: dict[str, object],
    *,
    seed: int = 0,
    harness: Path | None = None,
) -> Result:
    """A run of an entry, and its line with these values more."""
    made = prepared.run(
        entry.script,
        entry.variant,
        entry.extent,
        seconds=seconds,
        most=TIMEOUT,
        kind=entry.kind,
        seed=seed,
        harness=harness,
    )
    claims = prepared.variants(entry.script).get(entry.variant)
    return made.result(
        {"script": entry.script, "label": entry.label, "variant": entry.variant, "claims": claims, **more}
    )


@contextmanager
def _compiling_into(folder: Path | None) -> Iterator[None]:
    """Compiled kernels come from this folder, and from nowhere else; None: from where all others' are."""
    if folder is None:
        yield
        return
    before = os.environ.get(CACHE)
    os.environ[CACHE] = str(folder)
    try:
        yield
    finally:
        os.environ.pop(CACHE)
        if before is not None:
            os.environ[CACHE] = before
