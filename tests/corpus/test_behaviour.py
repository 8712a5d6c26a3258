from __future__ import annotations

import math
from pathlib import Path

import pytest
from behaviour import Entry, Row, Verdict, judge, summary

NAN, INF = math.nan, math.inf
SEEDS = [[2.0, 1.0, 0.5], [2.1, 1.3, 0.6], [1.9, 1.2, 0.4]]


def test_a_line_is_read_with_its_options() -> None:
    line = "recipe=words.py folder=../models items=50,20 iterations=40 ../models/lstm/train.py --text 'a b'  # slow"

    entry = Entry.of(line, Path("lists"))

    assert entry == Entry(
        script=Path("lists/../models/lstm/train.py"),
        arguments=("--text", "a b"),
        folder=Path("lists/../models"),
        recipe=Path("lists/words.py"),
        items="50,20",
        iterations=40,
    )


def test_an_absolute_path_is_kept_and_brings_its_own_folder() -> None:
    entry = Entry.of("alone=yes /scripts/train.py", Path("lists"))

    assert (entry.script, entry.root, entry.alone) == (Path("/scripts/train.py"), Path("/scripts"), True)


@pytest.mark.parametrize("line", ["items=5,5", "item=5,5 train.py", "alone=no train.py"])
def test_a_line_that_cannot_be_meant_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=line):
        Entry.of(line, Path())


@pytest.mark.parametrize(
    "losses",
    [
        pytest.param([2.0, 1.0, 0.5], id="equal"),
        pytest.param([2.019, 1.0, 0.5], id="first off by rounding"),
        pytest.param([2.0, 1.29, 0.5], id="later off by less than seeds make of it"),
        pytest.param([2.0, 1.0, 0.69], id="later off by less than seeds usually make of it"),
    ],
)
def test_within(losses: list[float]) -> None:
    assert judge(SEEDS, losses).word == "within"


@pytest.mark.parametrize(
    ("losses", "at"),
    [
        pytest.param([2.03, 1.0, 0.5], 0, id="first off by more than rounding, though not by more than seeds"),
        pytest.param([2.0, 1.31, 0.5], 1, id="later off by more than seeds make of it"),
        pytest.param([2.0, NAN, 0.5], 1, id="not a number"),
        pytest.param([2.0, INF, 0.5], 1, id="infinite"),
    ],
)
def test_differs(losses: list[float], at: int) -> None:
    verdict = judge(SEEDS, losses)

    assert verdict.word == "differs"
    assert verdict.detail.startswith(f"loss {at}: ")


def test_the_first_loss_is_judged_as_the_others_where_batches_are_drawn_anew() -> None:
    assert judge(SEEDS, [2.1, 1.0, 0.5], same_batches=False).word == "within"
    assert judge(SEEDS, [2.4, 1.0, 0.5], same_batches=False).word == "differs"


def test_the_small_difference_of_large_terms_may_be_off_by_their_rounding() -> None:
    assert judge([[0.012, 0.1], [0.023, 0.1], [-0.001, 0.1]], [0.009, 0.1]).word == "within"
    assert judge([[0.012, 0.1], [0.014, 0.1], [0.011, 0.1]], [0.009, 0.1]).word == "differs"


def test_what_is_not_a_number_as_published_may_be_none_as_rewritten() -> None:
    assert judge([[1.0, NAN]] * 3, [1.0, NAN]).word == "within"
    assert judge([[1.0, NAN]] * 3, [1.0, 1.0]).word == "differs"


def test_controls_are_not_counted_as_run() -> None:
    rows = [
        Row("a.py", "", {"cpu": Verdict("control"), "simulated": Verdict("equal")}),
        Row("b.py", "", {"cpu": Verdict("control"), "simulated": Verdict("no losses")}),
        Row("c.py", "", {"cpu": Verdict("equal"), "simulated": Verdict("crashed")}),
    ]

    assert [row.ran for row in rows] == [True, False, True]
    assert [row.bad for row in rows] == [False, False, True]
    assert summary(rows).splitlines()[0] == "3 scripts, 2 of them run as published and train"
    assert summary(rows).splitlines()[1].split() == ["cpu", "2", "control,", "1", "equal"]
