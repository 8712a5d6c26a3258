"""Carries out trials: writes the texts of two variants, runs them in pairs, and remembers what came of it."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from autotune_rewrite.rewriting import batch
from autotune_rewrite.tune.search import SpentError, Trial, Variant
from autotune_rewrite.tune.texts import written
from autotune_rewrite.tune.verified import SHORTEST_TIMEOUT, TIMES_THE_ORIGINAL
from autotune_rewrite.verify.statistics.ratio import Ratio
from codemods.catalogue import RULES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from autotune_rewrite.rewriting.batch import Changes, Read
    from autotune_rewrite.rewriting.config import Options
    from autotune_rewrite.tune.executors import Executor
    from autotune_rewrite.tune.search import Question, Step
    from autotune_rewrite.tune.texts import Verify
    from autotune_rewrite.verify.judgement import Judgement
    from autotune_rewrite.verify.plan import Plan

PAIRS: dict[Step, int] = {"alone": 8, "together": 16, "beside-the-rest": 16, "value": 8, "whole": 16}
"""Of each trial, at most: what decides is looked at longer."""


class Option(NamedTuple):
    """An option whose values may be tried."""

    name: str
    """As it is called in ``Options``."""
    type: Callable[[str], object] = str

    @property
    def flag(self) -> str:
        """As it is written on the command line."""
        return f"--{self.name.replace('_', '-')}"


OPTIONS: dict[str, Option] = {
    "workers": Option("workers", int),
    "amp": Option("amp"),
    "compile": Option("compile_mode"),
}
"""The options whose values may be tried, as ``--values`` calls them."""


class InterruptedByUserError(Exception):
    """The user has ended a trial; what was known before is on record."""


@dataclass(slots=True)
class Budget:
    """The time for all trials."""

    seconds: float
    trials: int
    """That are to be expected."""
    spent: float = 0.0

    @property
    def left(self) -> float:
        """Seconds for all that is to come."""
        return self.seconds - self.spent

    @property
    def share(self) -> float:
        """Seconds for the next trial: what the others leave over goes to those that come last."""
        return self.left / max(1, self.trials)

    def longest_run(self, share: float) -> float:
        """Seconds after which a run of a trial is ended that has so many seconds as its share."""
        return max(1.0, min(self.left, max(SHORTEST_TIMEOUT, TIMES_THE_ORIGINAL * share)))

    def ended(self, judgement: Judgement, seconds: float) -> bool:
        """Whether a trial of so many seconds was ended with the budget, which is no fault of its change."""
        return judgement.run == "timed-out" and seconds >= self.left

    def take(self, seconds: float) -> None:
        """Notes what a trial took."""
        self.spent += seconds
        self.trials -= 1


@dataclass(slots=True)
class Records:
    """What came of trials, in a file that a search which was interrupted goes on from: a line of JSON for each."""

    path: Path | None
    """None: nothing is kept."""
    known: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read what there is; a line that was not written whole is none."""
        if self.path is None or not self.path.exists():
            return
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                values = json.loads(line)
            except ValueError:
                continue
            self.known[values["key"]] = values

    def keep(self, key: str, values: Mapping[str, Any]) -> None:
        """Remember what came of a trial."""
        self.known[key] = {"key": key, **values}
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"\n{json.dumps(self.known[key])}")  # a line that was not written whole ends here


@dataclass(slots=True)
class Trials:
    """The trials of a script; called with two variants, it runs them beside each other.

    Args:
        parts: The script, which is the plan's original, and the other files of its project.
        options: How it is rewritten, but for what variants say.
        plan: How it is run.
        verify: Carries out plans.
        budget: The time for it.
        records: What came of trials before, and will come of these.
        executor: Carries out several plans at once; None: nothing does.
    """

    parts: Read
    options: Options
    plan: Plan
    verify: Verify
    budget: Budget
    records: Records
    executor: Executor | None = None
    early: set[str] = field(default_factory=set)
    """Trials that were run before they were asked for: their time is taken already."""

    def __call__(self, before: Variant, after: Variant, step: Step) -> Trial:
        """Run two variants beside each other, unless that was done before.

        Raises:
            SpentError: The budget is spent.
            InterruptedByUserError: The user has ended it.
            FileError: The script cannot be rewritten so.
            VerifyError: It cannot be run.
        """
        key = _key(before, after, step)
        known = self.records.known.get(key)
        if known is None:
            if self.budget.left <= 0:
                raise SpentError
            known = self._run(before, after, step)
            self.records.keep(key, known)
        self.budget.take(0.0 if key in self.early else known["seconds"])
        self.early.discard(key)
        ratio = known["ratio"]
        return Trial(
            before,
            after,
            step,
            None if ratio is None else Ratio(**ratio),
            known["speed"],
            known["failed"],
            is_same=known["is_same"],
            seconds=known["seconds"],
        )

    def ahead(self, questions: Sequence[Question], begins: Callable[[Question], None], *, sure: bool) -> None:
        """Run what is not known of these as far as there is time, as many at once as there are places.

        The records hold it as it ends; each has the seconds since the one before it ended.

        Raises:
            InterruptedByUserError: The user has ended it.
            FileError: The script cannot be rewritten so.
            VerifyError: It cannot be run.
        """
        new = {_key(each.before, each.after, each.step): each for each in questions}
        if self.executor is None or (not sure and next(iter(new)) in self.records.known):
            return
        width = self.executor.places
        for key in self.records.known.keys() & new.keys() - self.early if sure else ():
            self.budget.spent += self.records.known[key]["seconds"]
            self.early.add(key)
        new = {key: each for key, each in new.items() if key not in self.records.known}
        if not sure:  # what may be run in vain is run only where there would be nothing else to do
            new = dict(list(new.items())[:width])
        with TemporaryDirectory(prefix="torchfast-") as directory:
            last = time.monotonic()
            for key, judgement in self.executor.several(self._plans(new, begins, width, Path(directory))):
                if judgement.interrupted:
                    raise InterruptedByUserError
                seconds = time.monotonic() - last
                last += seconds
                was_cut = self.budget.ended(judgement, seconds)
                self.budget.spent += seconds
                if not was_cut:
                    self.records.keep(key, {**_as_kept(judgement), "is_same": False, "seconds": seconds})
                    self.early.add(key)

    def _plans(
        self, questions: Mapping[str, Question], begins: Callable[[Question], None], width: int, directory: Path
    ) -> Iterator[tuple[str, Plan]]:
        """The plans of trials whose texts differ, until there is no time left to begin another."""
        share = self.budget.share * min(width, len(questions))
        for number, (key, question) in enumerate(questions.items()):
            ours, theirs = self.changes(question.before), self.changes(question.after)
            if _texts(ours) == _texts(theirs):
                continue
            if self.budget.left <= 0:
                return
            place = directory / str(number)
            place.mkdir()
            begins(question)
            yield key, self._plan(ours, theirs, question.step, min(share, self.budget.left), place)

    def changes(self, variant: Variant) -> Changes:
        """What becomes of the files of the project.

        Raises:
            FileError: One of them cannot be used.
        """
        return batch.changes(self.parts, self.options_of(variant), without=frozenset(RULES) - variant.rules)

    def options_of(self, variant: Variant) -> Options:
        """How the script is rewritten with the variant's values."""
        options = ((OPTIONS[name], value) for name, value in variant.values)
        chosen: dict[str, Any] = {option.name: option.type(value) for option, value in options}
        return replace(self.options, **chosen)

    def _run(self, before: Variant, after: Variant, step: Step) -> dict[str, Any]:
        """What came of a trial, as it is kept."""
        start = time.monotonic()
        ours, theirs = self.changes(before), self.changes(after)
        if _texts(ours) == _texts(theirs):
            return {"ratio": None, "speed": "no-difference", "failed": "", "is_same": True, "seconds": 0.0}
        with TemporaryDirectory(prefix="torchfast-") as directory:
            plan = self._plan(ours, theirs, step, self.budget.share, Path(directory))
            judgement, _ = self.verify(plan, probe=True)
        if judgement.interrupted:
            raise InterruptedByUserError
        seconds = time.monotonic() - start
        if self.budget.ended(judgement, seconds):
            raise SpentError
        return {**_as_kept(judgement), "is_same": False, "seconds": seconds}

    def _plan(self, ours: Changes, theirs: Changes, step: Step, seconds: float, directory: Path) -> Plan:
        """How two rewrites are compared, whose texts are written to the directory."""
        original_text, original_modules = written(ours, self.plan.original, directory / "before")
        rewritten, modules = written(theirs, self.plan.original, directory / "after")
        return replace(
            self.plan,
            original_text=original_text,
            original_modules=original_modules,
            rewritten=rewritten,
            modules=modules,
            script_directory=self.plan.original.parent,
            pairs=PAIRS[step],
            time_budget=seconds,
            timeout=min(self.plan.timeout or math.inf, self.budget.longest_run(seconds)),
            speed_only=True,
        )


def _key(before: Variant, after: Variant, step: Step) -> str:
    """What a trial is called in the records."""
    return f"{step}: {before.key} | {after.key}"


def _texts(changes: Changes) -> tuple[str, ...]:
    return tuple(each.rewrite.after for each in changes.dones)


def _as_kept(judgement: Judgement) -> dict[str, Any]:
    whole = judgement.whole
    ratio = (
        None if whole is None else {name: getattr(whole, name) for name in ("estimate", "low", "high", "confidence")}
    )
    failed = "" if judgement.run == "ok" else judgement.reason
    return {"ratio": ratio, "speed": judgement.speed, "failed": failed}
