"""The search for culprits, with answers made for the purpose."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune_rewrite.tune.bisect import NotFoundError, culprits

if TYPE_CHECKING:
    from collections.abc import Callable

RULES = tuple("abcdefgh")


class Asked:
    """Fails where all rules of one of the conflicts are applied; counts how often it was asked."""

    def __init__(self, *conflicts: str) -> None:
        self.conflicts = tuple(map(frozenset, conflicts))
        self.times = 0

    def __call__(self, rules: frozenset[str]) -> bool:
        self.times += 1
        return any(conflict <= rules for conflict in self.conflicts)


@pytest.mark.parametrize("culprit", RULES)
def test_one_culprit_of_eight_takes_five_questions(culprit: str) -> None:
    fails = Asked(culprit)

    assert culprits(RULES, fails) == {culprit}
    assert fails.times <= 5


@pytest.mark.parametrize("pair", list(combinations(RULES, 2)), ids="".join)
def test_two_independent_culprits_both_go(pair: tuple[str, str]) -> None:
    fails = Asked(*pair)

    assert culprits(RULES, fails) == set(pair)
    assert fails.times <= 10


@pytest.mark.parametrize("pair", list(combinations(RULES, 2)), ids="".join)
def test_of_two_that_fail_only_together_the_last_goes(pair: tuple[str, str]) -> None:
    fails = Asked("".join(pair))

    assert culprits(RULES, fails) == {pair[1]}
    assert fails.times <= 5


@pytest.mark.parametrize(
    ("conflicts", "found"),
    [
        pytest.param(("abc",), "c", id="three that fail only together"),
        pytest.param(("ac", "bc"), "c", id="one that fails with either of two"),
        pytest.param(("ab", "d"), "bd", id="two together and one alone"),
        pytest.param(("a", "d", "h"), "adh", id="three alone"),
        pytest.param(tuple(RULES), "abcdefgh", id="each alone"),
    ],
)
def test_what_goes_is_enough(conflicts: tuple[str, ...], found: str) -> None:
    assert culprits(RULES, Asked(*conflicts)) == set(found)


def test_a_single_rule_is_asked_for_once_and_once_without_it() -> None:
    fails = Asked("a")

    assert culprits(("a",), fails) == {"a"}
    assert fails.times == 2


def test_what_does_not_happen_again_blames_nothing() -> None:
    fails = Asked()

    with pytest.raises(NotFoundError, match=r"^The fault did not show again, so no change can be blamed\.$"):
        culprits(RULES, fails)
    assert fails.times == 1


@pytest.mark.parametrize("rules", [RULES, ("a",)], ids=["eight rules", "one rule"])
def test_what_happens_without_any_change_blames_nothing(rules: tuple[str, ...]) -> None:
    fails = Asked("")

    with pytest.raises(NotFoundError, match=r"^The fault shows without any change, too, so none can be blamed\.$"):
        culprits(rules, fails)
    assert fails.times <= 6


def now_and_then(answers: list[bool]) -> Callable[[frozenset[str]], bool]:
    return lambda _: answers.pop(0) if answers else True


@given(st.lists(st.booleans(), max_size=30))
def test_answers_by_chance_end_the_search_and_blame_no_more_than_there_is(answers: list[bool]) -> None:
    try:
        found = culprits(RULES, now_and_then(answers))
    except NotFoundError:
        return
    assert found
    assert found <= set(RULES)


@given(st.lists(st.sets(st.sampled_from(RULES), min_size=1), min_size=1, max_size=4))
def test_what_is_left_is_fine_and_nothing_goes_needlessly(conflicts: list[set[str]]) -> None:
    fails = Asked(*map("".join, conflicts))
    everything = frozenset(RULES)

    found = culprits(RULES, fails)

    assert not fails(everything - found)
    assert all(fails(everything - found | {rule}) for rule in found)
