"""Which torch is a script known to run on."""

from __future__ import annotations

import pytest

from codemods.facts.target import ASSUMED, UNKNOWN, Target, weakest

AT_LEAST, BEFORE = Target((2, 1), source="a"), Target(below=(1, 8), source="b")


@pytest.mark.parametrize(
    ("target", "version", "expected"),
    [
        pytest.param(UNKNOWN, ASSUMED, (True, False, True), id="nothing is known"),
        pytest.param(UNKNOWN, (2, 9), (False, False, True), id="more than is assumed"),
        pytest.param(AT_LEAST, (2, 0), (True, True, True), id="an older one"),
        pytest.param(AT_LEAST, (2, 1), (True, True, True), id="the very one"),
        pytest.param(AT_LEAST, (2, 2), (False, False, False), id="a newer one"),
        pytest.param(BEFORE, (1, 7), (True, False, True), id="before a bound"),
        pytest.param(BEFORE, (1, 8), (False, False, False), id="at a bound"),
    ],
)
def test_what_may_be_written_and_is_there(
    target: Target, version: tuple[int, int], expected: tuple[bool, bool, bool]
) -> None:
    assert (target.allows(version), target.reaches(version), target.may_be(version)) == expected


@pytest.mark.parametrize(
    ("told", "demanded", "expected"),
    [
        pytest.param(UNKNOWN, AT_LEAST, AT_LEAST, id="the script alone says it"),
        pytest.param(Target((2, 5)), AT_LEAST, Target((2, 5)), id="the user stands above it"),
        pytest.param(Target((1, 9), source="file"), AT_LEAST, Target((2, 1), source="a"), id="the newer one"),
        pytest.param(AT_LEAST, UNKNOWN, AT_LEAST, id="the script says nothing"),
        pytest.param(Target(below=(2, 0), source="file"), BEFORE, BEFORE, id="the older bound"),
    ],
)
def test_what_a_script_demands_itself(told: Target, demanded: Target, expected: Target) -> None:
    assert told.narrowed(demanded) == expected


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        pytest.param([Target((2, 1)), Target((2, 3))], Target((2, 1)), id="the oldest of all"),
        pytest.param([Target((2, 1)), UNKNOWN], UNKNOWN, id="one of which nothing is known"),
        pytest.param([Target((1, 9)), UNKNOWN], Target((1, 9)), id="an old one counts"),
        pytest.param([Target(below=(2, 0)), Target(below=(2, 2))], Target(below=(2, 2)), id="the highest bound"),
        pytest.param([], UNKNOWN, id="none"),
    ],
)
def test_what_holds_whichever_it_is(targets: list[Target], expected: Target) -> None:
    assert weakest(targets) == expected


@pytest.mark.parametrize(
    ("target", "silent"), [(UNKNOWN, True), (AT_LEAST, False), (BEFORE, False), (Target(unread=("x",)), False)]
)
def test_whether_anything_is_said(target: Target, silent: bool) -> None:  # noqa: FBT001 - the expectation itself
    assert target.is_silent is silent


def test_who_says_that_torch_is_too_old() -> None:
    reason = Target((1, 13), source="requirements.txt, line 2").why_too_old((2, 3))

    assert reason.text == "needs torch 2.3, and the script may run on an older one (requirements.txt, line 2)"
    assert reason.remedy.endswith("requirements.txt, line 2 says otherwise")
