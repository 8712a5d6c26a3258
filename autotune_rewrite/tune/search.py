"""Which of the changes of a rewrite pay: a search for the smallest set within the noise of the fastest."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Protocol

from autotune_rewrite.verify.judgement import FASTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from autotune_rewrite.verify.judgement import Speed
    from autotune_rewrite.verify.statistics.ratio import Ratio

Answer = Literal["kept", "dropped", "failed", "not-measured", "not-told"]
"""It pays; it gains nothing beyond the noise; it crashes or changes the results; it cannot act on this device; the
budget was spent before it was told apart from the others, and it stays."""
Step = Literal["alone", "together", "beside-the-rest", "value", "whole"]
"""What is asked: whether a rule pays alone; whether several do, beside the others; whether a rule does, beside the
others; whether another value of an option does; whether what was found is as fast as everything."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to rewrite a script: the rules that may change it, and the values that they write."""

    rules: frozenset[str] = frozenset()
    values: tuple[tuple[str, str], ...] = ()
    """Options, such as ``workers``, and what they are given; in the order of their names."""

    def without(self, rules: Iterable[str]) -> Variant:
        """The same without some rules."""
        return replace(self, rules=self.rules - frozenset(rules))

    def beside(self, rules: Iterable[str]) -> Variant:
        """The same with more rules."""
        return replace(self, rules=self.rules | frozenset(rules))

    def having(self, option: str, value: str) -> Variant:
        """The same with another value of an option."""
        return replace(self, values=tuple(sorted({**dict(self.values), option: value}.items())))

    @property
    def key(self) -> str:
        """Tells it from all others."""
        return " ".join(
            [",".join(sorted(self.rules)) or "original", *(f"{name}={value}" for name, value in self.values)]
        )


ORIGINAL = Variant()


@dataclass(frozen=True, slots=True)
class Question:
    """Two variants that are to be run beside each other."""

    before: Variant
    after: Variant
    step: Step
    said: str = field(compare=False)
    """What the user is told when their trial begins."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Two variants, run beside each other."""

    before: Variant
    after: Variant
    step: Step
    ratio: Ratio | None = None
    """How many times as fast the second is; None where that was not timed."""
    speed: Speed = "not-checked"
    failed: str = ""
    """What is wrong with the second, in a sentence: it does not run, or computes something else."""
    is_same: bool = False
    """Whether both have the same text, so that nothing had to be run."""
    is_told: bool = True
    """Whether it had as many runs as it takes to tell them apart, or as many as one may have."""
    seconds: float = 0.0
    """That it took."""

    @property
    def pays(self) -> bool:
        """Whether the second is faster, beyond the noise."""
        return not self.failed and self.speed == "faster"

    @property
    def may_pay(self) -> bool:
        """Whether more runs could show that it is: their mean is, beyond what counts as a difference."""
        return not self.failed and self.ratio is not None and self.ratio.estimate >= FASTER

    @property
    def answer(self) -> Answer:
        """What follows for the change that the second has and the first has not."""
        if self.failed:
            return "failed"
        if self.pays:
            return "kept"
        return "dropped" if self.is_told or not self.may_pay else "not-told"


class SpentError(Exception):
    """No time is left for another trial."""


class Measure(Protocol):
    """How trials are carried out."""

    def __call__(self, before: Variant, after: Variant, step: Step) -> Trial:
        """Runs two variants beside each other.

        Raises:
            SpentError: No time is left for it.
        """


class Ahead(Protocol):
    """How trials are carried out before they are asked for, several at once."""

    def __call__(self, questions: Sequence[Question], begins: Callable[[Question], None], *, sure: bool) -> None:
        """Carries out trials as far as there is time; what comes of them is known when they are asked for.

        Args:
            questions: Those that will be asked next, if nothing that is found out in between makes them others.
            begins: Is told of each as its trial begins.
            sure: Whether they will be asked in any case.
        """


@dataclass(frozen=True, slots=True)
class Part:
    """What was found out about the changes of one rule."""

    rule: str
    answer: Answer
    why: str = ""
    alone: Ratio | None = None
    """How many times as fast it makes the original, alone."""
    beside: Ratio | None = None
    """How many times as fast it makes the script beside all others that were kept."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search has found."""

    variant: Variant
    """The rules that pay, and the values that pay most."""
    parts: tuple[Part, ...]
    """Of all rules that were looked at, in the order in which they were."""
    trials: tuple[Trial, ...]
    is_complete: bool = True
    """Whether there was time for all of it."""


def search(  # noqa: PLR0913, PLR0917 - what to search, how, and whom to tell
    rules: Sequence[str],
    measure: Measure,
    say: Callable[[str], None],
    values: Mapping[str, Sequence[str]] | None = None,
    ahead: Ahead | None = None,
    knows: Callable[[Question], bool] = lambda _: False,
) -> Found:
    """Finds the smallest set of rules within the noise of the fastest.

    Each rule is measured alone. Those that may pay are then left out one by one, beside all others that do; those that
    do not pay alone are tried together, beside these, as two changes may pay only together. What was left out is tried
    once more beside the result, all at once, as many small gains can add up to one beyond the noise.

    Args:
        rules: All of them together run, and compute the same; those that are expected to gain most come first.
        measure: Carries out trials.
        say: Is told, in a line, what happens next.
        values: Options, each with values that are to be tried in the place of its usual one.
        ahead: Carries out several trials at once; None: each is run when it is asked for. What is found is the same.
        knows: Whether a trial's answer is there already: of these nothing is said.
    """
    return _Search(list(rules), measure, say, dict(values or {}), ahead, knows).end()


@dataclass(slots=True)
class _Search:
    """What is known so far."""

    rules: list[str]
    measure: Measure
    say: Callable[[str], None]
    values: dict[str, Sequence[str]]
    ahead: Ahead | None
    knows: Callable[[Question], bool]
    parts: dict[str, Part] = field(default_factory=dict)
    trials: list[Trial] = field(default_factory=list)
    kept: Variant = ORIGINAL
    begun: set[Question] = field(default_factory=set)
    """Trials that the user was told of."""

    def end(self) -> Found:
        """Everything, as far as there is time."""
        self.kept = Variant(frozenset(self.rules))
        is_complete = True
        try:
            self._measure_alone()
            self._take_together()
            self._leave_out()
            self._try_values()
            self._look_at_the_whole()
        except SpentError:
            is_complete = False
        return Found(self.kept, tuple(map(self._told, self.rules)), tuple(self.trials), is_complete)

    def _told(self, rule: str) -> Part:
        """What is known of a rule; of one that is there because nothing showed that it could go, that."""
        part = self.parts.get(rule, Part(rule, "not-told"))
        return replace(part, answer="not-told") if rule in self.kept.rules and part.answer == "dropped" else part

    def _tried(self, question: Question) -> Trial:
        is_new = question in self.begun or not self.knows(question)
        if is_new and question not in self.begun:
            self._begin(question)
        trial = self.measure(question.before, question.after, question.step)
        self.trials.append(trial)
        if is_new:
            self.say(f"{question.said}: {_outcome(trial)}")
        return trial

    def _begin(self, question: Question) -> None:
        self.begun.add(question)
        self.say(f"trying {question.said}")

    def _look_ahead(self, questions: Sequence[Question], *, sure: bool = False) -> None:
        """Has trials run that are to be asked for one after the other, where several can run at once."""
        if self.ahead is not None and len(questions) > 1:
            self.ahead(questions, self._begin, sure=sure)

    def _measure_alone(self) -> None:
        """Each rule beside the original; where there is one alone, that is all there is to ask."""
        questions = [Question(ORIGINAL, Variant(frozenset({rule})), "alone", f"{rule} alone") for rule in self.rules]
        self._look_ahead(questions, sure=True)
        for rule, question in zip(self.rules, questions, strict=True):
            trial = self._tried(question)
            if trial.failed:
                self.kept = self.kept.without([rule])
                self.parts[rule] = Part(rule, "failed", trial.failed, trial.ratio)
            else:
                self.parts[rule] = Part(rule, trial.answer, _why(trial), trial.ratio)

    def _take_together(self) -> None:
        """Those that may pay by what they do alone; the others, too, if they pay beside these."""
        alone = {each.after: each for each in self.trials}
        promising = [rule for rule in self.kept.rules if alone[Variant(frozenset({rule}))].may_pay]
        rest = self.kept.rules - frozenset(promising)
        start = Variant(frozenset(promising))
        if rest and self._pay_together(start, rest):
            return
        self._drop(rest)

    def _pay_together(self, start: Variant, rest: frozenset[str]) -> bool:
        """Whether rules that gain nothing alone gain something together, beside others."""
        if not start.rules and len(rest) == 1:
            return False
        said = f"{_listed(rest)} beside {_listed(start.rules) or 'the original'}"
        return self._tried(Question(start, start.beside(rest), "together", said)).pays

    def _drop(self, rules: Iterable[str]) -> None:
        """Leaves rules out that were found to gain nothing."""
        rules = frozenset(rules)
        self.kept = self.kept.without(rules)
        for rule in rules:
            self.parts[rule] = replace(self.parts[rule], answer="dropped")

    def _leave_out(self) -> None:
        """Each rule that is left, beside all others that are: those with the smallest gain alone may go first."""
        rules = sorted(self.kept.rules, key=self._gain)
        for number, rule in enumerate(rules):
            if self.kept.rules == {rule}:
                continue  # beside nothing else: it was measured alone
            # Where this one goes, those after it are beside others.
            self._look_ahead([self._without(each) for each in rules[number:]])
            trial = self._tried(self._without(rule))
            part = replace(self.parts[rule], beside=trial.ratio, why=_why(trial))
            # Without it the others do not run, which is no fault of theirs: they build on it.
            self._keep_or_drop(replace(part, answer="kept" if trial.failed else trial.answer))
        self._look_at_the_last()

    def _keep_or_drop(self, part: Part) -> None:
        """What may pay stays as long as it was not told from the others: all of it together is confirmed afresh."""
        self.parts[part.rule] = part
        if part.answer in ("dropped", "failed"):
            self.kept = self.kept.without([part.rule])

    def _without(self, rule: str) -> Question:
        """Whether a rule pays beside all others that are left."""
        return Question(self.kept.without([rule]), self.kept, "beside-the-rest", f"everything without {rule}")

    def _look_at_the_last(self) -> None:
        """What alone is left is kept if it pays alone."""
        for rule in list(self.kept.rules) if len(self.kept.rules) == 1 else ():
            part = self.parts[rule]
            if part.beside is None and part.answer != "kept":
                said = f"{rule} beside the original"
                trial = self._tried(Question(ORIGINAL, self.kept, "beside-the-rest", said))
                self._keep_or_drop(replace(part, answer=trial.answer, why=_why(trial)))

    def _gain(self, rule: str) -> tuple[float, str]:
        alone = self.parts[rule].alone
        return (1.0 if alone is None else alone.estimate, rule)

    def _try_values(self) -> None:
        """Other values of options, one after the other, each beside the best so far."""
        pairs = [(option, value) for option, values in self.values.items() for value in values]
        for number in range(len(pairs) if self.kept.rules else 0):
            # Where this one pays, those after it are beside it.
            questions = [
                Question(self.kept, self.kept.having(option, value), "value", f"{option} {value}")
                for option, value in pairs[number:]
            ]
            self._look_ahead(questions)
            if self._tried(questions[0]).pays:
                self.kept = questions[0].after

    def _look_at_the_whole(self) -> None:
        """Whether what was dropped pays after all, all of it beside what was kept; then it stays."""
        dropped = frozenset(rule for rule, part in self.parts.items() if part.answer == "dropped")
        everything = self.kept.beside(dropped)
        is_known = any(each.before == self.kept and each.after == everything for each in self.trials if not each.pays)
        if len(dropped) < 2 or is_known:  # noqa: PLR2004 - several; of one it is known
            return
        said = f"{_listed(dropped)} beside {_listed(self.kept.rules) or 'the original'}"
        trial = self._tried(Question(self.kept, everything, "whole", said))
        if trial.pays:
            self.kept = everything
            for rule in dropped:
                why = f"none of {_listed(dropped)} shows to pay by itself; together they do: {_why(trial)}"
                self.parts[rule] = replace(self.parts[rule], answer="kept", why=why)


def _why(trial: Trial) -> str:
    """What a trial says about time."""
    if trial.is_same:
        return "it changes nothing without the others" if trial.step == "alone" else "it changes nothing"
    if trial.ratio is None:
        return trial.failed or "not timed"
    return str(trial.ratio)


def _outcome(trial: Trial) -> str:
    """What came of a trial, as the user is told of it while others run."""
    if trial.failed:
        return f"left out: {trial.failed}"
    if trial.pays or trial.is_same:
        return _why(trial)
    is_told = trial.is_told and trial.ratio is not None and trial.ratio.low is not None
    return f"{'no gain beyond the noise' if is_told else 'too few runs to tell'}: {_why(trial)}"


def _listed(rules: Iterable[str]) -> str:
    return " and ".join(sorted(rules))
