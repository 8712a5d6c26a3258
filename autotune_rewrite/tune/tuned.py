"""What a patient expert does: measure the script, try one change at a time, keep what pays, and confirm the result."""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass, field, replace
from itertools import compress
from statistics import fmean
from typing import TYPE_CHECKING, Any

from autotune_rewrite.rewriting import batch
from autotune_rewrite.tune.search import Found, Part, SpentError, Variant, search
from autotune_rewrite.tune.trials import DEPTHS, Budget, InterruptedByUserError, Trials
from autotune_rewrite.tune.verified import acting, verified
from autotune_rewrite.verify import may_take_turns
from autotune_rewrite.verify.comparison import Comparison
from autotune_rewrite.verify.judgement import Judgement
from autotune_rewrite.verify.statistics.ratio import Ratio
from codemods.catalogue import RULES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from autotune_rewrite.rewriting.batch import Changes, Read
    from autotune_rewrite.rewriting.config import Options
    from autotune_rewrite.tune.executors import Executor
    from autotune_rewrite.tune.search import Answer
    from autotune_rewrite.tune.texts import Verify
    from autotune_rewrite.tune.trials import Records
    from autotune_rewrite.verify.plan import Plan
    from autotune_rewrite.verify.records import Environment, Run

WHOLE = 0.25
"""The part of the budget for everything together: does it run, and compute the same?"""
CONFIRMING = 0.3
"""The part that is kept for the result: it is run afresh, as the best of many looks better than it is."""
SHORT = 100.0
"""Seconds that are told as such; more are told as minutes."""
FEWEST = 3
"""Pairs of whole runs that confirm a result; where the time holds fewer, runs are cut."""
FRESH = 2**16
"""Is added to the seeds of the runs that confirm the result."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """The smallest set of changes within the noise of the fastest, and what shows it."""

    changes: Changes | None
    """What it makes of the files; None where nothing pays, or nothing is known."""
    reason: str
    """Why nothing is changed, in a sentence; empty where something is."""
    whole: Judgement | None
    """Of all changes together; None where there are none."""
    confirmed: Judgement | None
    """Of the result, in runs of their own."""
    found: Found | None
    """What the search has found; None where there was nothing to search."""
    failed: tuple[tuple[str, str], ...] = ()
    """Rules whose changes do not hold up, each with why."""
    not_measured: tuple[str, ...] = ()
    """Rules that cannot act on this device."""
    seconds: float = 0.0
    """That all runs took."""
    length: int | None = None
    """Iterations of a whole run of the original, where one was seen."""

    @property
    def pays(self) -> bool:
        """Whether there is something to be written."""
        return self.changes is not None

    @property
    def gains(self) -> dict[str, Ratio | None]:
        """The rules of the result, each with how many times as fast it makes the script beside the others, if known."""
        return {rule: ratio for rule, (answer, ratio) in self.tried.items() if answer in ("kept", "not-told")}

    @property
    def tried(self) -> dict[str, tuple[Answer, Ratio | None]]:
        """All rules that were tried where there is a result, each with what became of it, and the same."""
        parts = () if self.found is None or not self.pays else self.found.parts
        return {part.rule: (part.answer, part.beside or part.alone) for part in parts}


def duration(seconds: float) -> str:
    """Such as "45 s" or "12 min": a time that a budget may be set to."""
    return f"{math.ceil(seconds)} s" if seconds < SHORT else f"{math.ceil(seconds / 60)} min"


@dataclass(slots=True)
class Tuning:
    """How a script is tuned."""

    parts: Read
    """The script, which is the plan's original, and the other files of its project."""
    options: Options
    """Which rules may be tried."""
    plan: Plan
    """How it is run."""
    verify: Verify
    """Carries out plans."""
    say: Callable[[str], None]
    """Is told, in a line, what happens next."""
    budget: float
    """Seconds for all runs."""
    records: Records
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Options, each with values that are to be tried."""
    order: Sequence[str] = ()
    """Rules, those first that can gain most, where that is known."""
    unmeasured: bool = False
    """Whether changes that cannot act on this device are part of the result."""
    executor: Executor | None = None
    """Carries out several plans at once; None: nothing does."""

    def end(self) -> Tuned:
        """Everything.

        Raises:
            FileError: The script cannot be rewritten.
            VerifyError: It cannot be run.
            InterruptedByUserError: The user has ended it; what was measured is on record.
        """
        try:
            first = self._first()
        except SpentError:
            text = f"The budget of {duration(self.budget)} was spent before everything together was known to run."
            return Tuned(None, text, None, None, Found(Variant(), (), (), is_complete=False), seconds=self.budget)
        whole, changes = first.whole, first.changes
        if whole is None:
            return Tuned(None, "No rule has anything to change.", None, None, None, first.failed)
        if whole.run != "ok" or whole.equality == "different":
            return Tuned(None, whole.reason, whole, None, None, first.failed, seconds=first.seconds)
        acts = acting(changes, first.device)
        idle = tuple(sorted(changes.rules - acts))
        if not acts:
            text = "Nothing of what would be changed can act on this device."
            return Tuned(None, text, whole, None, None, first.failed, idle, first.seconds)
        if self.budget - first.seconds < first.seconds:
            # To confirm a result takes about as long again.
            needed = duration(max(first.seconds / WHOLE, self.budget))
            text = f"Everything together took {duration(first.seconds)}: to tell changes apart takes about {needed}."
            parts = tuple(Part(rule, "not-told") for rule in self._in_order(acts))
            found = Found(Variant(acts), parts, (), is_complete=False)
            return Tuned(None, text, whole, None, found, first.failed, idle, first.seconds)
        budget = Budget(self.budget * (1 - CONFIRMING) - first.seconds, 0)
        plan = replace(self.plan, length=first.length, takes_turns=first.takes_turns)
        trials = Trials(
            self.parts,
            self.options,
            plan,
            self.verify,
            budget,
            self.records,
            self.executor,
            first.spread,
            first.seconds_of_pair,
        )
        return self._confirmed(self._searched(self._in_order(acts), trials), trials, first, idle)

    def _searched(self, rules: list[str], trials: Trials) -> Found:
        """What pays: the search is gone through with few pairs of runs for each trial, and then with more.

        So no trial takes the time of those after it, and what few pairs tell needs no more.
        """
        has_room = self.executor is not None and self.executor.places > 1
        trials.budget.trials = self._expected(rules, trials)
        ahead = trials.ahead if has_room else None
        found = Found(Variant(), (), (), is_complete=False)
        for trials.depth in DEPTHS:
            deeper = search(rules, trials, self.say, self.values, ahead, trials.knows)
            if deeper.is_complete or trials.depth == DEPTHS[0]:
                found = deeper
            trials.budget.trials = open_trials = sum(not trial.is_told for trial in deeper.trials)
            if not deeper.is_complete or not open_trials:
                break
        trials.depth = 0
        known = search(rules, trials, self.say, self.values, knows=lambda _: True)
        if known.is_complete:  # by all pairs that there are, those of a search that the budget has ended among them
            found = known
        is_told = all(part.answer != "not-told" for part in found.parts)
        return replace(found, is_complete=found.is_complete and is_told)

    def _in_order(self, rules: frozenset[str]) -> list[str]:
        places = {rule: place for place, rule in enumerate(self.order)}
        return sorted(rules, key=lambda rule: (places.get(rule, len(places)), rule))

    def _expected(self, rules: list[str], trials: Trials) -> int:
        """Trials, about: each rule alone that changes something, these once more, the others together, and values."""
        naive = trials.changes(Variant()).texts
        alone = sum(trials.changes(Variant(frozenset({rule}))).texts != naive for rule in rules)
        return (2 * alone + 1 if len(rules) > 1 else 1) + sum(map(len, self.values.values()))

    def _confirmed(self, found: Found, trials: Trials, first: _First, idle: tuple[str, ...]) -> Tuned:
        spent = first.seconds + trials.budget.spent
        nothing = Tuned(None, "", first.whole, None, found, first.failed, idle, spent, first.length)
        if not found.variant.rules:
            return replace(nothing, reason="No change gains anything beyond the noise.")
        variant = found.variant.beside(idle) if self.unmeasured else found.variant
        self.say(f"trying the result, in fresh runs: {', '.join(sorted(variant.rules))}")
        left = self.budget - spent
        pairs = 0.0 if first.seconds_of_pair is None else left / first.seconds_of_pair
        plan = replace(
            self.plan,
            seed=self.plan.seed + FRESH,
            time_budget=left,
            takes_turns=first.takes_turns,
            full=self.plan.full or pairs >= FEWEST,
        )
        verify = _Within(self.verify, left, time.monotonic())
        options, without = trials.options_of(variant), frozenset(RULES) - variant.rules
        try:
            result = verified(self.parts, options, plan, verify, self.say, without=without)
        except SpentError:
            reason = "The budget was spent before the result was confirmed in fresh runs."
            return replace(nothing, reason=reason, found=replace(found, is_complete=False))
        judgement = result.judgement
        failed = (*first.failed, *(judgement.left_out if judgement else ()))
        told = replace(nothing, confirmed=judgement, failed=failed, seconds=spent + verify.seconds)
        if judgement is None:
            return replace(told, reason="Nothing of the result held up in fresh runs.")
        if judgement.interrupted:
            raise InterruptedByUserError
        if judgement.fit and judgement.speed == "faster":
            return replace(told, changes=result.changes)
        return replace(told, reason=f"The result did not hold up in fresh runs: {judgement.reason}")

    def _first(self) -> _First:
        """Everything together beside the original: what does not hold up is left out from here on."""
        known = self.records.known.get(_EVERYTHING)
        if known is None and batch.changes(self.parts, self.options).promise is None:
            known = {"failed": {}, "judgement": None, "seconds": 0.0}
        elif known is None:
            known = self._run_everything()
            self.records.keep(_EVERYTHING, known)
        without = frozenset(known["failed"])
        changes = batch.changes(self.parts, self.options, without=without)
        whole = None if known["judgement"] is None else _judgement(known["judgement"])
        return _First(
            changes,
            whole,
            tuple(known["failed"].items()),
            known.get("environment", {}),
            known["seconds"],
            known.get("length"),
            tuple(known.get("spread", ())),
            known.get("seconds_of_pair"),
            known.get("takes_turns", False),
        )

    def _run_everything(self) -> dict[str, Any]:
        """What came of it, as it is kept."""
        self.say("trying everything together")
        verify = _Within(self.verify, self.budget * (1 - CONFIRMING), time.monotonic())
        # A change that takes long to start has more time for that than the runs are sized by.
        longest = min(self.plan.timeout or math.inf, verify.left)
        plan = replace(self.plan, time_budget=self.budget * WHOLE, timeout=longest)
        result = verified(self.parts, self.options, plan, verify, self.say)
        judgement = result.judgement
        if judgement is not None and judgement.interrupted:
            raise InterruptedByUserError
        if judgement is not None:
            self.say(
                f"everything together: {judgement.reason if judgement.run != 'ok' else judgement.whole or 'not timed'}"
            )
        whole = [len(each.times) for each in verify.runs if each.side == "original" and each.ended == "finished"]
        comparison = Comparison.of(plan, verify.runs)
        wholes = [pair.original.wall_seconds + pair.rewritten.wall_seconds for pair in comparison.whole_pairs]
        last = comparison.pairs[-1] if comparison.pairs else comparison.whole
        takes_turns = last is not None and may_take_turns(last)
        # Runs that follow one another vary more than those that take turns, as the runs of trials do.
        alike = [pair.original.in_turns == takes_turns for pair in comparison.pairs]
        return {
            "failed": dict(judgement.left_out) if judgement is not None else {},
            "judgement": None if judgement is None else _as_kept(judgement),
            "environment": {} if judgement is None else judgement.environment,
            "length": whole[0] if whole else None,
            "spread": list(compress(judgement.of_pairs, alike)) if judgement and judgement.basis != "cut" else [],
            "seconds_of_pair": fmean(wholes) if wholes else None,
            "takes_turns": takes_turns,
            "seconds": verify.seconds,
        }


@dataclass(slots=True)
class _Within:
    """Carries out plans, all of them together in so many seconds."""

    verify: Verify
    budget: float
    began: float
    runs: list[Run] = field(default_factory=list)
    """Of all plans."""

    @property
    def seconds(self) -> float:
        """That went by since then."""
        return time.monotonic() - self.began

    @property
    def left(self) -> float:
        """Seconds for all plans that are to come."""
        return self.budget - self.seconds

    def __call__(self, plan: Plan, *, probe: bool) -> tuple[Judgement, Sequence[Run]]:
        """Carry out a plan in what is left of the time.

        Raises:
            SpentError: Nothing is.
        """
        left = self.left
        if left <= 0:
            raise SpentError
        timeout = None if plan.timeout is None else min(plan.timeout, left)
        fitting = replace(plan, time_budget=min(plan.time_budget, left), timeout=timeout)
        judgement, runs = self.verify(fitting, probe=probe)
        self.runs.extend(runs)
        return judgement, runs


@dataclass(frozen=True, slots=True)
class _First:
    """What everything together came to."""

    changes: Changes
    """Without what did not hold up."""
    whole: Judgement | None
    failed: tuple[tuple[str, str], ...]
    device: Environment
    seconds: float
    length: int | None
    """Iterations of a whole run, where one was seen."""
    spread: tuple[float, ...]
    """The ratio of each pair of runs."""
    seconds_of_pair: float | None
    """Of whole runs, where they were seen."""
    takes_turns: bool
    """Whether the two runs of a pair may be alive at once."""


_EVERYTHING = "everything"
_PLAIN = ("run", "speed", "equality", "reason", "promise", "side", "pairs", "output")


def _as_kept(judgement: Judgement) -> dict[str, Any]:
    ratio = None if judgement.whole is None else dataclasses.asdict(judgement.whole)
    return {**{name: getattr(judgement, name) for name in _PLAIN}, "whole": ratio, "environment": judgement.environment}


def _judgement(values: dict[str, Any]) -> Judgement:
    ratio = values["whole"]
    return Judgement(**{**values, "whole": None if ratio is None else Ratio(**ratio)})
