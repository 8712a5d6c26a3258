"""Which changes are kept, in worlds whose times are known: no script runs here."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from intervals import HALF_WIDTH, speed_of

from autotune_rewrite.tune.search import ORIGINAL, Found, SpentError, Trial, Variant, search
from autotune_rewrite.verify.judgement import SAME
from autotune_rewrite.verify.statistics.ratio import Ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from autotune_rewrite.tune.search import Question, Step


@dataclass
class World:
    """Seconds that a script takes by the rules that changed it, and how it is measured."""

    seconds: Mapping[frozenset[str], float] = field(default_factory=dict)
    """Of sets of rules, where that is not the product of what each of them does."""
    factors: Mapping[str, float] = field(default_factory=dict)
    """How many times as fast each rule makes it."""
    values: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """How many times as fast values make it."""
    crashing: frozenset[frozenset[str]] = frozenset()
    """Sets of rules with which it does not run."""
    trials: int = 100
    """That there is time for."""
    noise: Mapping[Variant, float] = field(default_factory=dict)
    """How many times as fast variants seem to be besides."""
    asked: list[tuple[Variant, Variant]] = field(default_factory=list)

    def time(self, variant: Variant) -> float:
        product = math.prod(self.factors.get(rule, 1.0) for rule in variant.rules)
        known = self.seconds.get(variant.rules, 10.0 / product)
        return known / math.prod(self.values.get(each, 1.0) for each in variant.values)

    def __call__(self, before: Variant, after: Variant, step: Step) -> Trial:
        if len(self.asked) >= self.trials:
            raise SpentError
        self.asked.append((before, after))
        if after.rules in self.crashing:
            return Trial(before, after, step, failed="It crashes.")
        estimate = self.time(before) / self.time(after) * self.noise.get(after, 1.0)
        ratio = Ratio(estimate, estimate / HALF_WIDTH, estimate * HALF_WIDTH)
        return Trial(before, after, step, ratio, speed_of(ratio))

    def found(self, rules: Sequence[str], values: Mapping[str, Sequence[str]] | None = None) -> Found:
        return search(rules, self, lambda _: None, values)


def answers(found: Found) -> dict[str, str]:
    return {part.rule: part.answer for part in found.parts}


def test_what_pays_is_kept_and_what_does_not_is_dropped() -> None:
    found = World(factors={"data": 2.0, "copy": 1.0, "slow": 0.8}).found(["data", "copy", "slow"])

    assert found.variant.rules == {"data"}
    assert answers(found) == {"data": "kept", "copy": "dropped", "slow": "dropped"}


def test_nothing_is_kept_where_nothing_pays() -> None:
    found = World(factors={"a": 1.0, "b": 0.99}).found(["a", "b"])

    assert found.variant == ORIGINAL


@pytest.mark.parametrize("order", list(itertools.permutations(["workers", "pin"])))
def test_two_that_pay_only_together_are_both_kept(order: Sequence[str]) -> None:
    found = World({frozenset({"workers", "pin"}): 5.0}).found(order)

    assert found.variant.rules == {"workers", "pin"}
    assert answers(found) == {"workers": "kept", "pin": "kept"}


def test_of_two_that_gain_the_same_thing_the_one_with_less_goes() -> None:
    both = frozenset({"memory", "workers"})
    found = World({both: 5.0}, {"memory": 2.0, "workers": 1.5}).found(["memory", "workers"])

    assert found.variant.rules == {"memory"}
    assert answers(found)["workers"] == "dropped"


def test_what_pays_alone_and_harms_the_others_is_dropped() -> None:
    world = World({frozenset({"memory", "workers"}): 6.0}, {"memory": 2.0, "workers": 1.2})

    assert world.found(["memory", "workers"]).variant.rules == {"memory"}


def test_small_gains_that_show_only_together_are_kept() -> None:
    found = World(factors=dict.fromkeys("abcd", 1.008)).found(list("abcd"))

    assert found.variant.rules == set("abcd")


def test_small_gains_beside_a_large_one_are_kept_where_they_show_together() -> None:
    factors = {"large": 2.0, **dict.fromkeys("abcd", 1.008)}

    assert World(factors=factors).found(["large", *"abcd"]).variant.rules == {"large", *"abcd"}


def test_what_seems_to_pay_by_chance_is_asked_again() -> None:
    alone = Variant(frozenset({"lucky"}))
    found = World(factors={"large": 2.0}, noise={alone: 1.1}).found(["large", "lucky"])

    assert found.variant.rules == {"large"}


def test_a_rule_that_crashes_alone_is_left_out_with_its_reason() -> None:
    found = World(factors={"a": 2.0, "b": 3.0}, crashing=frozenset({frozenset({"b"})})).found(["a", "b"])

    assert found.variant.rules == {"a"}
    assert [part.why for part in found.parts if part.answer == "failed"] == ["It crashes."]


def test_a_value_that_pays_is_taken_and_the_next_is_tried_beside_it() -> None:
    world = World(factors={"workers": 2.0}, values={("workers", "2"): 1.2, ("workers", "8"): 0.9})

    found = world.found(["workers"], {"workers": ["2", "8"]})

    assert found.variant.values == (("workers", "2"),)


def test_no_values_are_tried_of_what_pays_nothing() -> None:
    world = World()

    world.found(["a", "b"], {"workers": ["2", "8"]})

    assert all(not after.values for _, after in world.asked)


@pytest.mark.parametrize("trials", range(8))
def test_what_there_was_no_time_for_stays_and_is_told(trials: int) -> None:
    rules = ["data", "other", "more"]
    found = World(factors={"data": 2.0, "other": 1.5, "more": 1.2}, trials=trials).found(rules)

    assert found.variant.rules == set(rules)
    assert set(answers(found).values()) <= {"kept", "not-told"}
    assert found.is_complete == (trials >= 6)


def test_a_single_rule_is_asked_about_once() -> None:
    world = World(factors={"data": 2.0})

    assert world.found(["data"]).variant.rules == {"data"}
    assert len(world.asked) == 1


# --- several at once ------------------------------------------------------------------------------------------------


@dataclass
class Crowd:
    """Carries out trials of a world several at once; they end in an order that is drawn."""

    world: World
    places: int
    order: random.Random
    known: dict[tuple[Variant, Variant], Trial] = field(default_factory=dict)
    batches: list[list[str]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def __call__(self, before: Variant, after: Variant, step: Step) -> Trial:
        if (before, after) not in self.known:
            self.known[before, after] = self.world(before, after, step)
        return self.known[before, after]

    def ahead(self, questions: Sequence[Question], begins: Callable[[Question], None], *, sure: bool) -> None:
        new = [each for each in questions if (each.before, each.after) not in self.known]
        batch = new if sure else new[: self.places]
        self.batches.append([each.said for each in batch])
        for each in batch:
            begins(each)
        for each in self.order.sample(batch, len(batch)):
            self.known[each.before, each.after] = self.world(each.before, each.after, each.step)

    def found(self, rules: Sequence[str], values: Mapping[str, Sequence[str]] | None = None) -> Found:
        return search(rules, self, self.said.append, values, self.ahead)


@pytest.mark.parametrize("places", [2, 3, 8])
@pytest.mark.parametrize("number", range(0, 100, 25))
def test_it_finds_the_same_whichever_of_the_trials_ends_first(places: int, number: int) -> None:
    for seed in range(number, number + 25):
        draw = random.Random(seed)  # noqa: S311 - worlds, not secrets
        factors = {rule: draw.choice([0.9, 1.0, 1.008, 1.2, 1.5]) for rule in "abcd"}
        values = {("workers", value): draw.choice([0.9, 1.0, 1.2]) for value in "248"}
        pair = frozenset(draw.sample("abcd", 2))
        world = World(
            {pair: draw.choice([3.0, 10.0])}, factors, values, frozenset({pair}) if seed % 5 == 0 else frozenset()
        )

        crowd = Crowd(world, places, draw)

        assert crowd.found(list("abcd"), {"workers": "248"}) == world.found(list("abcd"), {"workers": "248"})


def test_rules_are_tried_alone_all_at_once() -> None:
    crowd = Crowd(World(factors={"a": 2.0, "b": 1.5}), 2, random.Random(0))  # noqa: S311 - an order
    crowd.found(["a", "b", "c"])

    assert crowd.batches[0] == ["a alone", "b alone", "c alone"]


def test_what_is_run_before_it_is_asked_for_is_told_once() -> None:
    crowd = Crowd(World(factors={"a": 2.0, "b": 1.5}), 2, random.Random(0))  # noqa: S311 - an order
    crowd.found(["a", "b"])

    assert [each for each in crowd.said if each.startswith("trying ")] == [
        "trying a alone",
        "trying b alone",
        "trying everything without b",
        "trying everything without a",
    ]


def test_what_came_of_each_trial_is_told_as_it_is_known() -> None:
    said: list[str] = []
    world = World(factors={"a": 2.0}, crashing=frozenset({frozenset({"b"})}))

    search(["a", "b", "c"], world, said.append)

    assert said == [
        "trying a alone",
        "a alone: 2.00 times as fast (1.97 to 2.03)",
        "trying b alone",
        "b alone: left out: It crashes.",
        "trying c alone",
        "c alone: no gain beyond the noise: 1.00 times as fast (0.99 to 1.01)",
        "trying c beside a",
        "c beside a: no gain beyond the noise: 1.00 times as fast (0.99 to 1.01)",
    ]


def test_one_pair_of_runs_is_not_said_to_show_no_gain() -> None:
    said: list[str] = []

    def measured_once(before: Variant, after: Variant, step: Step) -> Trial:
        return Trial(before, after, step, Ratio(2.5, None, None), "inconclusive")

    search(["a"], measured_once, said.append)

    assert said[1] == "a alone: too few runs to tell: 2.50 times as fast"


@pytest.mark.parametrize(
    ("iterations", "kept"),
    [
        pytest.param(50, set(), id="a short run does not pay back what compiling takes"),
        pytest.param(100_000, {"compile"}, id="a long run does"),
    ],
)
def test_what_takes_long_to_start_is_kept_by_the_length_of_this_script(iterations: int, kept: set[str]) -> None:
    def seconds(*, compiles: bool) -> float:
        return 2 + 20 * compiles + iterations * (0.005 if compiles else 0.01)

    world = World({frozenset(): seconds(compiles=False), frozenset({"compile"}): seconds(compiles=True)})

    assert world.found(["compile"]).variant.rules == kept


def test_an_edit_that_is_always_possible_and_useless_is_dropped() -> None:
    """Workers for data that are in memory cost an epoch its workers' start; everything else pays."""
    found = World(factors={"workers": 0.7, "memory": 2.0, "pin": 1.0}).found(["memory", "pin", "workers"])

    assert answers(found) == {"memory": "kept", "pin": "dropped", "workers": "dropped"}


SETS = [frozenset(some) for count in range(5) for some in itertools.combinations("abcd", count)]


@pytest.mark.parametrize("number", range(0, 1000, 50))
def test_the_result_is_within_the_noise_of_the_best_of_all_sixteen_sets(number: int) -> None:
    for seed in range(number, number + 50):
        draw = random.Random(seed)  # noqa: S311 - worlds, not secrets
        factors = {rule: draw.choice([0.9, 1.0, 1.0, 1.2, 1.5]) for rule in "abcd"}
        pair, together = frozenset(draw.sample("abcd", 2)), draw.choice([0.8, 1.0, 1.3])
        if together > 1 and any(factors[rule] < 1 for rule in pair):
            continue  # what harms alone and pays beside one other rule is looked for beside all
        products = {some: math.prod(factors[rule] for rule in some) for some in SETS}
        world = World({some: 10.0 / products[some] / (together if pair <= some else 1.0) for some in SETS})

        found = world.found(list("abcd"))

        assert world.time(found.variant) <= min(world.seconds.values()) * SAME[1], (factors, pair, together)
