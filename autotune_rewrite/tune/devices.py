"""Trials on several GPUs of this machine: each has some of them for itself, in a process of its own."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from autotune_rewrite.tune import hardware
from autotune_rewrite.tune.runner import Job, LostError, Runner
from autotune_rewrite.verify.gpu import visible
from autotune_rewrite.verify.plan import VerifyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from autotune_rewrite.tune.runner import Answer
    from autotune_rewrite.verify.judgement import Judgement
    from autotune_rewrite.verify.plan import Plan
    from autotune_rewrite.verify.records import Environment, Run

LOOK = 0.05
"""Seconds between two looks at which trials have ended."""


def devices(plan: Plan, gpus: int, say: Callable[[str], None]) -> Devices:
    """The GPUs of this machine in groups of so many; the groups that are alike.

    Raises:
        VerifyError: There are not so many, or torch cannot be imported.
    """
    found = [] if plan.device == "cpu" else visible()
    if len(found) < gpus:
        raise VerifyError(f"--gpus is {gpus}, but scripts see {len(found)} GPUs here")
    groups = [",".join(found[at : at + gpus]) for at in range(0, len(found) - gpus + 1, gpus)]
    known: dict[str, Environment] = {}
    for group in groups:  # a plan is given to whichever is free, and each is to be asked
        ((_, answer),) = _answers((group,), [(group, plan)], describes=True)
        known[group] = answer.hardware
    chosen, kind = hardware.alike(known, dict.fromkeys(groups, 1))
    at_once = "1 trial" if len(chosen) == 1 else f"{len(chosen)} trials"
    each = "one GPU" if gpus == 1 else f"{gpus} GPUs"
    say(f"{at_once} at once, with {each} each: {hardware.named(kind)}")
    return Devices(tuple(chosen), kind)


@dataclass(frozen=True, slots=True)
class Devices:
    """Groups of GPUs that are alike; an executor, see ``Executor``."""

    groups: tuple[str, ...]
    """Each as ``CUDA_VISIBLE_DEVICES`` has it."""
    hardware: Environment

    @property
    def places(self) -> int:
        """How many trials run at once."""
        return len(self.groups)

    def __call__(self, plan: Plan, *, probe: bool) -> tuple[Judgement, Sequence[Run]]:
        """Carry out one plan.

        Raises:
            VerifyError: It cannot be.
        """
        del probe
        ((_, answer),) = _answers(self.groups, [("", plan)])
        assert answer.judgement is not None  # noqa: S101 - it was not refused
        return answer.judgement, answer.runs

    def several(self, plans: Iterable[tuple[str, Plan]]) -> Iterator[tuple[str, Judgement]]:
        """Carry out plans, one in each group at a time.

        Raises:
            VerifyError: One cannot be carried out.
        """
        for name, answer in _answers(self.groups, plans):
            assert answer.judgement is not None  # noqa: S101 - it was not refused
            yield name, answer.judgement


def _answers(
    groups: Sequence[str], plans: Iterable[tuple[str, Plan]], *, describes: bool = False
) -> Iterator[tuple[str, Answer]]:
    """What comes of plans, by their names, as they end.

    Raises:
        VerifyError: One cannot be carried out.
    """
    waiting = iter(plans)
    with _runners() as (running, folder):
        number = 0
        while True:
            free = [group for group in groups if group not in running]
            while free and (taken := next(waiting, None)) is not None:
                (name, plan), group = taken, free.pop(0)
                number += 1
                own = folder / str(number)
                own.mkdir()
                environment = {**os.environ, "CUDA_VISIBLE_DEVICES": group}
                running[group] = name, Runner(Job(plan, Path.cwd(), group, describes), environment, own)
            if not running:
                return
            for group, (name, runner) in list(running.items()):
                if runner.has_ended:
                    del running[group]
                    yield name, _answer(runner)
            time.sleep(LOOK)


@contextmanager
def _runners() -> Iterator[tuple[dict[str, tuple[str, Runner]], Path]]:
    """A place for trials that run, by their groups, and a folder for them; those that still do at the end are ended."""
    running: dict[str, tuple[str, Runner]] = {}
    with TemporaryDirectory(prefix="torchfast-") as folder:
        try:
            yield running, Path(folder)
        finally:
            for _, runner in running.values():
                runner.end()


def _answer(runner: Runner) -> Answer:
    try:
        answer = runner.wait()
    except LostError as error:
        raise VerifyError(str(error)) from error
    if answer.refused:
        raise VerifyError(answer.refused)
    return answer
