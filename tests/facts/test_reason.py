"""Sentences that name places, for who reads one module or another."""

from __future__ import annotations

import pytest

from codemods.dataflow.source import Module
from codemods.facts.reason import HERE, Place, Reason, Said, Spot, Words, at

TRAIN = Module("train.py", "a\nb\nc\n")
DATA = Module("lib/data.py", "\n\nd\n", "data")
A, B, C = TRAIN.tree.body
D = DATA.tree.body[0]


@pytest.mark.parametrize(
    ("text", "places", "said"),
    [
        pytest.param("why", (), Said("why"), id="no place"),
        pytest.param(f"why ({HERE})", (at(TRAIN, B),), Said("why (line 2)", (Spot(5, 11, (2,)),)), id="one"),
        pytest.param(f"why ({HERE})", (at(DATA, D),), Said("why (lib/data.py, line 3)"), id="in another module"),
        pytest.param(f"{HERE} why", (at(TRAIN, A, C),), Said("lines 1, 3 why", (Spot(0, 10, (1, 3)),)), id="several"),
        pytest.param(
            f"why ({HERE})",
            (at(TRAIN, A, C, last=" and "),),
            Said("why (lines 1 and 3)", (Spot(5, 18, (1, 3), " and "),)),
            id="two in words",
        ),
        pytest.param(
            f"{HERE} reads {HERE}, {HERE}",
            (at(TRAIN, C), at(DATA, D), at(TRAIN, A)),
            Said("line 3 reads lib/data.py, line 3, line 1", (Spot(0, 6, (3,)), Spot(34, 40, (1,)))),
            id="one after the other",
        ),
        pytest.param(
            f"why ({HERE}, {HERE}, {HERE})",
            (at(DATA, D), at(TRAIN, A), at(TRAIN, C)),
            Said("why (lib/data.py, line 3, lines 1, 3)", (Spot(26, 36, (1, 3)),)),
            id="those of one module together",
        ),
        pytest.param("why", (at(TRAIN, TRAIN.tree),), Said("why"), id="more places than holes"),
        pytest.param(f"'{HERE}' why", (), Said(f"'{HERE}' why"), id="the character in the user's code"),
    ],
)
def test_places_fill_the_holes(text: str, places: tuple[Place, ...], said: Said) -> None:
    assert Words(text, places).said(TRAIN) == said
    assert all(said.text[each.start : each.end].startswith("line") for each in said.spots)


def test_a_module_s_place_is_its_first_line() -> None:
    assert at(TRAIN, TRAIN.tree).lines == (1,)


@pytest.mark.parametrize(
    ("text", "remedy", "sentence"),
    [
        pytest.param("it is not known", "", "it is not known", id="no remedy"),
        pytest.param("it is not known:", "say it", "it is not known: say it", id="after a colon"),
        pytest.param("it is not known;", "say it", "it is not known; say it", id="after a semicolon"),
        pytest.param("it is not known", "say it", "it is not known", id="a remedy beside the sentence"),
        pytest.param("it is not known:", "", "it is not known:", id="a colon of the user's own"),
    ],
)
def test_a_remedy_ends_the_sentence_that_asks_for_it(text: str, remedy: str, sentence: str) -> None:
    reason = Reason("unknown-loader", text, remedy=remedy)

    assert reason.words.text == sentence
    assert reason.cause.text == "it is not known"


def test_words_around_a_reason_keep_the_order_of_places() -> None:
    reason = Reason("no-cuda", f"why ({HERE}):", (at(TRAIN, B),), "move it")
    longer = reason.following(f"in {HERE}: ", at(TRAIN, A)).followed(f" ({HERE})", at(TRAIN, C))

    assert longer.words.said(TRAIN).text == "in line 1: why (line 2): move it (line 3)"
    assert (longer.code, longer.remedy) == ("no-cuda", "move it")


def test_another_cause_and_another_remedy_take_their_places() -> None:
    reason = Reason("no-cuda", "why:", remedy="move it")

    assert reason.following("as ", code="framework") == Reason("framework", "as why:", remedy="move it")
    assert reason.followed(";", remedy="ask").words.text == "why: move it; ask"
