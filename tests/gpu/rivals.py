"""Stage 6: what would a user pick instead? Each on the same scripts, in the same rounds as the rewritten one.

TF32 in matrix products is one line, and so is ``torch.compile``; Accelerate and Lightning are the script written anew for
them, with their own mixed precision, and with workers and pinned memory as their users set them by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.gpu.running import NAIVE, Extent, Prepared
from tests.gpu.speed import TF32, Entry, in_rounds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.gpu.scripts import Script
    from tests.gpu.setting import Setting
    from tests.gpu.tasks import Task

ROUNDS = 2
FRAMEWORKS = {"with_accelerate": 4.0, "with_lightning": 8.0}
"""The hand-written texts, with the seconds that importing the framework takes."""


def tasks(setting: Setting) -> list[Task]:
    """Of all rounds, the first one's first."""
    prepared = Prepared(setting)
    rounds = 1 if setting.tries_only else ROUNDS
    return in_rounds(prepared, rounds, lambda script, _: list(entries(prepared, script)), known=("default",))


def entries(prepared: Prepared, script: Script) -> Iterator[Entry]:
    """The naive and the rewritten script, and their rivals."""
    extent = Extent.of(script.length(prepared.setting, "measured"))
    seconds = script.seconds
    yield Entry(script.name, NAIVE, NAIVE, extent, seconds.naive)
    yield Entry(script.name, "default", "default", extent, seconds.default, compiling=seconds.compiling)
    yield Entry(script.name, TF32, NAIVE, extent, seconds.naive, kind="tf32")
    if prepared.has(script.name, "only-compile"):
        compiling = seconds.compiling
        yield Entry(script.name, "torch.compile alone", "only-compile", extent, seconds.naive, compiling=compiling)
    for variant, importing in FRAMEWORKS.items():
        yield Entry(script.name, variant, variant, extent, seconds.default + importing)
