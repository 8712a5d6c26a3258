"""Stage 3: what does each rule bring? Alone, and left out of the whole; other numbers of workers, other batch sizes.

What is compared is the time of an iteration, and of an evaluation where one is reached. Runs are short, and fork from
processes that have imported torch: how long a script takes to start is what stage 2 measures.

The rules of one script are planned for by themselves: three calls have no time for more beside the other stages.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.gpu.running import NAIVE, Extent, Prepared
from tests.gpu.scripts import BY_NAME, DISSECTED, WORKERS
from tests.gpu.speed import Entry, measured

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.gpu.scripts import Dissected, Script
    from tests.gpu.setting import Setting
    from tests.gpu.tasks import Task
    from tests.gpu.zygotes import Zygotes

ROUNDS = 3
FIRST = ("mnist_feedforward",)
"""Scripts whose rules are the first part of a round: three calls have time for no others."""
START = 2.0
"""Seconds of a fork until the script's first line, and from its last one to the next fork."""
WARM = 0.4
"""Of the seconds that compiling takes: the part that is left where the kernels were made by another run."""


def tasks(setting: Setting, zygotes: Zygotes | None = None) -> list[Task]:
    """Of all rounds; in each the rules first, then the numbers of workers, then the batch sizes.

    Args:
        setting: Where and on what.
        zygotes: What the runs fork from; None: each starts a process of its own.
    """
    prepared = Prepared(setting)
    wanted = [BY_NAME[name] for name in DISSECTED if name in prepared.names()]
    found: list[Task] = []
    for number in range(1 if setting.tries_only else ROUNDS):
        of_rules = [("", list(rules(prepared, script))) for script in wanted]
        first = [group for script, group in zip(wanted, of_rules, strict=True) if script.name in FIRST]
        rest = [group for script, group in zip(wanted, of_rules, strict=True) if script.name not in FIRST]
        others = [("", list(workers(prepared, script))) for script in wanted]
        others += [(f"batch {size}/", pair) for script in wanted for size, pair in batches(prepared, script)]
        for part, groups in enumerate((first, rest + others)):
            for prefix, entries in groups:
                made = (
                    measured(prepared, entries, number, prefix=prefix, zygotes=zygotes, start=START) if entries else ()
                )
                found += [replace(task, round=2 * number + part) for task in made]
    return found


def _dissected(script: Script) -> Dissected:
    assert script.dissected is not None
    return script.dissected


def _entry(prepared: Prepared, script: Script, variant: str, arguments: tuple[str, ...] = ()) -> Entry:
    how = _dissected(script)
    length = script.small if prepared.setting.tries_only else how.length
    extent = Extent((*length.arguments, *arguments), length.data)
    compiles = "compile" in prepared.variants(script.name).get(variant, {}).get("rules", ())
    seconds = how.seconds * (1.0 if variant == NAIVE else 0.5) + (WARM * how.compiling if compiles else 0.0)
    return Entry(script.name, variant, variant, extent, seconds)


def rules(prepared: Prepared, script: Script) -> Iterator[Entry]:
    """The naive script, all rules, each alone, and all but each."""
    yield _entry(prepared, script, NAIVE)
    yield _entry(prepared, script, "default")
    for rule in prepared.variants(script.name)["default"]["rules"]:
        yield _entry(prepared, script, f"only-{rule}")
        yield _entry(prepared, script, f"without-{rule}")


def workers(prepared: Prepared, script: Script) -> Iterator[Entry]:
    """Other numbers of workers than the 4 that are written where nobody says another."""
    for count in (0, *WORKERS):
        if prepared.has(script.name, f"workers-{count}"):
            yield _entry(prepared, script, f"workers-{count}")


def batches(prepared: Prepared, script: Script) -> Iterator[tuple[int, list[Entry]]]:
    """The naive and the rewritten script with other batch sizes."""
    for size, arguments in _dissected(script).batches.items():
        yield size, [_entry(prepared, script, variant, arguments) for variant in (NAIVE, "default")]
