"""Carries out trials: writes the texts of two variants, runs them in pairs, and remembers what came of it."""

from __future__ import annotations

import json
import math
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from autotune_rewrite.rewriting import batch
from autotune_rewrite.tune.search import Question, SpentError, Trial, Variant
from autotune_rewrite.tune.texts import written
from autotune_rewrite.tune.verified import SHORTEST_TIMEOUT, TIMES_THE_ORIGINAL
from autotune_rewrite.verify.comparison import confidence_of_looks
from autotune_rewrite.verify.judgement import speed_word
from autotune_rewrite.verify.statistics.ratio import Ratio
from codemods.catalogue import RULES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from autotune_rewrite.rewriting.batch import Changes, Read
    from autotune_rewrite.rewriting.config import Options
    from autotune_rewrite.tune.executors import Executor
    from autotune_rewrite.tune.search import Step
    from autotune_rewrite.tune.texts import Verify
    from autotune_rewrite.verify.judgement import Judgement, Speed
    from autotune_rewrite.verify.plan import Plan

PAIRS: dict[Step, int] = {"alone": 8, "together": 16, "beside-the-rest": 16, "value": 8, "whole": 16}
"""Of each trial, at most: what decides is looked at longer."""
DEPTHS = (2, 4, 8, 16)
"""Pairs that trials have, at most, each time that the search is gone through: those that are not told get more."""
CONFIDENCE = confidence_of_looks(len(DEPTHS))
"""Of the intervals by which a trial is told: it is looked at that often."""


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
    "prefetch": Option("prefetch", int),
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
        return max(0.0, self.left) / max(1, self.trials)

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
        spread: Ratios of pairs of this script that were run before, which show how far pairs vary.
        seconds_of_pair: That a pair of whole runs takes, about; None where that is not known.
    """

    parts: Read
    options: Options
    plan: Plan
    verify: Verify
    budget: Budget
    records: Records
    executor: Executor | None = None
    spread: tuple[float, ...] = ()
    seconds_of_pair: float | None = None
    depth: int = DEPTHS[-1]
    """Pairs that a trial has at most, for now; with 0 nothing is run."""
    _names: dict[tuple[tuple[str, ...], tuple[str, ...]], str] = field(default_factory=dict)
    """What trials are called in the records, by their texts: what has the same texts is one trial."""
    _changes: dict[Variant, Changes] = field(default_factory=dict)
    _counted: dict[str, float] = field(default_factory=dict)
    """Seconds of each trial that were taken from the budget."""
    _early: set[str] = field(default_factory=set)
    """Trials whose time was taken before they were asked for."""
    _asked: dict[str, int] = field(default_factory=dict)
    """Trials in the order in which they were asked for, each with the pairs that it had then."""

    def __call__(self, before: Variant, after: Variant, step: Step) -> Trial:
        """Run two variants beside each other, unless that was done as often as it takes.

        Raises:
            SpentError: The budget is spent.
            InterruptedByUserError: The user has ended it.
            FileError: The script cannot be rewritten so.
            VerifyError: It cannot be run.
        """
        key = self._key(before, after)
        if self._count(key, step):
            if self.depth == 0 or self.budget.left <= 0:
                raise SpentError
            self.records.keep(key, self._run(before, after, step, key))
        known = self.records.known[key]
        if key in self._early or key not in self._counted or known["seconds"] > self._counted[key]:
            self.budget.take(known["seconds"] - self._counted.get(key, 0.0))
        self._counted[key] = known["seconds"]
        self._early.discard(key)
        self._asked[key] = len(_ratios(known))
        return self._trial(before, after, step, key)

    def knows(self, question: Question) -> bool:
        """Whether nothing has to be run to answer a question, for now."""
        return not self._count(self._key(question.before, question.after), question.step)

    def ahead(self, questions: Sequence[Question], begins: Callable[[Question], None], *, sure: bool) -> None:
        """Run what is not known of these as far as there is time, as many at once as there are places.

        The records hold it as it ends; each has the seconds since the one before it ended.

        Raises:
            InterruptedByUserError: The user has ended it.
            FileError: The script cannot be rewritten so.
            VerifyError: It cannot be run.
        """
        asked = {self._key(each.before, each.after): each for each in questions}
        if self.executor is None or self.depth == 0 or (not sure and self.knows(questions[0])):
            return
        width = self.executor.places
        for key in asked if sure else ():
            seconds = self.records.known[key]["seconds"] if key in self.records.known else 0.0
            self.budget.spent += max(0.0, seconds - self._counted.get(key, 0.0))
            self._counted[key] = seconds
            if seconds:
                self._early.add(key)
        new = {key: each for key, each in asked.items() if not self.knows(each)}
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
                    self.records.keep(key, self._with(key, judgement, seconds))
                    self._counted[key] = self.records.known[key]["seconds"]
                    self._early.add(key)

    def _plans(
        self, questions: Mapping[str, Question], begins: Callable[[Question], None], width: int, directory: Path
    ) -> Iterator[tuple[str, Plan]]:
        """The plans of trials whose texts differ, until there is no time left to begin another."""
        share = self.budget.share * min(width, len(questions))
        for number, (key, question) in enumerate(questions.items()):
            if self.changes(question.before).texts == self.changes(question.after).texts:
                continue
            if self.budget.left <= 0:
                return
            place = directory / str(number)
            place.mkdir()
            begins(question)
            yield key, self._plan(question, min(share, self.budget.left), place)

    def changes(self, variant: Variant) -> Changes:
        """What becomes of the files of the project.

        Raises:
            FileError: One of them cannot be used.
        """
        if variant not in self._changes:
            without = frozenset(RULES) - variant.rules
            self._changes[variant] = batch.changes(self.parts, self.options_of(variant), without=without)
        return self._changes[variant]

    def options_of(self, variant: Variant) -> Options:
        """How the script is rewritten with the variant's values."""
        options = ((OPTIONS[name], value) for name, value in variant.values)
        chosen: dict[str, Any] = {option.name: option.type(value) for option, value in options}
        return replace(self.options, **chosen)

    def _key(self, before: Variant, after: Variant) -> str:
        """What a trial is called in the records: the same for all variants with these texts."""
        texts = self.changes(before).texts, self.changes(after).texts
        return self._names.setdefault(texts, f"{before.key} | {after.key}")

    def _count(self, key: str, step: Step) -> int:
        """How many pairs more a trial needs, for now; 0 where it is told."""
        most = min(self.depth, PAIRS[step])
        known = self.records.known.get(key)
        if known is None:
            return max(1, most)
        if known["failed"] or known["is_same"] or not known.get("pairs") or self._ratio(key)[1] != "inconclusive":
            return 0
        pairs: int = known["pairs"]
        return max(0, most - pairs)

    def _ratio(self, key: str) -> tuple[Ratio | None, Speed]:
        """What the pairs of a trial say, by the spread of all that were asked for by now."""
        known = self.records.known[key]
        if ratios := _ratios(known):
            others = [_ratios(self.records.known[each])[:count] for each, count in self._asked.items() if each != key]
            ratio = Ratio.among(ratios, [self.spread, *others], CONFIDENCE)
            return ratio, speed_word(ratio)
        return None if known["ratio"] is None else Ratio(**known["ratio"]), known["speed"]

    def _trial(self, before: Variant, after: Variant, step: Step, key: str) -> Trial:
        """What is known of a trial."""
        known = self.records.known[key]
        ratio, speed = self._ratio(key)
        has_all = not known.get("pairs") or known["pairs"] >= PAIRS[step]
        return Trial(
            before,
            after,
            step,
            ratio,
            speed,
            known["failed"],
            is_same=known["is_same"],
            is_told=has_all or speed != "inconclusive",
            seconds=known["seconds"],
        )

    def _run(self, before: Variant, after: Variant, step: Step, key: str) -> dict[str, Any]:
        """What came of a trial by now, as it is kept."""
        start = time.monotonic()
        if self.changes(before).texts == self.changes(after).texts:
            return {"ratio": None, "speed": "no-difference", "failed": "", "is_same": True, "seconds": 0.0}
        with TemporaryDirectory(prefix="torchfast-") as directory:
            plan = self._plan(Question(before, after, step, ""), self._share(key), Path(directory))
            judgement, _ = self.verify(plan, probe=True)
        if judgement.interrupted:
            raise InterruptedByUserError
        seconds = time.monotonic() - start
        if self.budget.ended(judgement, seconds):
            raise SpentError
        return self._with(key, judgement, seconds)

    def _share(self, key: str) -> float:
        """Seconds for a trial: another pair of one that had some is begun as long as there is time for it.

        Raises:
            SpentError: There is none.
        """
        pair = self._seconds_of_pair(key)
        if pair is None or key not in self.records.known:
            return self.budget.share
        if self.budget.left < pair:
            raise SpentError
        return max(self.budget.share, pair)

    def _seconds_of_pair(self, key: str) -> float | None:
        """Seconds that another pair of a trial takes, about; None where runs are cut, or that is not known."""
        known = self.records.known.get(key, {})
        if not known.get("pairs"):
            return self.seconds_of_pair
        seconds: float = known["seconds"] / known["pairs"]
        return seconds if known["basis"] == "whole" else None

    def _with(self, key: str, judgement: Judgement, seconds: float) -> dict[str, Any]:
        """What is known of a trial, with what came of more runs."""
        known = self.records.known.get(key, {})
        whole = judgement.whole
        ratio = None if whole is None else asdict(whole)
        # Of runs of which nobody knows how long they would have gone on, or that were disturbed, ratios say nothing.
        is_plain = whole is not None and judgement.basis != "cut"
        was_disturbed = whole is not None and judgement.speed == "inconclusive" != speed_word(whole)
        return {
            "ratio": ratio,
            "of_pairs": [*_ratios(known), *(judgement.of_pairs if is_plain and not was_disturbed else ())],
            "pairs": known.get("pairs", 0) + judgement.pairs,
            "basis": judgement.basis,
            "speed": judgement.speed,
            "failed": "" if judgement.run == "ok" else judgement.reason,
            "is_same": False,
            "seconds": known.get("seconds", 0.0) + seconds,
        }

    def _plan(self, question: Question, seconds: float, directory: Path) -> Plan:
        """How two rewrites are compared, whose texts are written to the directory."""
        ours, theirs = self.changes(question.before), self.changes(question.after)
        original_text, original_modules = written(ours, self.plan.original, directory / "before")
        rewritten, modules = written(theirs, self.plan.original, directory / "after")
        key = self._key(question.before, question.after)
        count = self._count(key, question.step)
        pair = self._seconds_of_pair(key)
        fitting = 0 if pair is None else int(seconds / pair)
        return replace(
            self.plan,
            original_text=original_text,
            original_modules=original_modules,
            rewritten=rewritten,
            modules=modules,
            script_directory=self.plan.original.parent,
            seed=self.plan.seed + self.records.known.get(key, {}).get("pairs", 0),
            pairs=min(count, fitting) if fitting else count,
            full=self.plan.full or fitting > 0,
            time_budget=seconds,
            timeout=min(self.plan.timeout or math.inf, self.budget.longest_run(seconds)),
            speed_only=True,
        )


def _ratios(known: Mapping[str, Any]) -> list[float]:
    """The ratios of a trial's pairs."""
    ratios: list[float] = known.get("of_pairs", [])
    return ratios
