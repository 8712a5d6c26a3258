"""Which causes are there, and what does each mean to the user."""

from __future__ import annotations

import re

import pytest

from codemods.catalogue import ROUNDS
from codemods.facts.causes import CAUSES, OF_ALL, OF_SOME
from tests.conftest import ROOT

RULES = [rule for rules in ROUNDS for rule in rules]
TEXTS = [
    path.read_text(encoding="utf-8")
    for package in ("autotune_rewrite", "codemods")
    for path in (ROOT / package).rglob("*.py")
    if path.name != "causes.py"
]


def test_no_cause_is_explained_twice() -> None:
    assert OF_ALL.keys().isdisjoint(OF_SOME)
    assert CAUSES.keys() == OF_ALL.keys() | OF_SOME.keys()


@pytest.mark.parametrize("code", sorted(CAUSES))
def test_each_is_a_few_words_and_some_sentences(code: str) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code)
    assert re.match(r"[A-Z`]", CAUSES[code])
    assert CAUSES[code].endswith(".")


def test_each_of_some_is_declared_by_a_rule() -> None:
    declared = frozenset().union(*(rule.causes for rule in RULES))

    assert sorted(OF_SOME.keys() - declared) == []


def test_each_is_said_somewhere() -> None:
    unsaid = [code for code in CAUSES if not any(f'"{code}"' in text or f"{code} " in text for text in TEXTS)]

    assert unsaid == []
