"""fixtures/gpt/README.md says which steps of the expert's the tool takes: that is what it reports, and what both texts hold."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.scripts import FIXTURES

FOLDER = FIXTURES / "gpt"
LEAST = 6
"""Of the expert's steps, that the tool takes."""
_FINDING = re.compile(r"naive\.py:(\d+):\d+ (\S+)  (.*)")
_CODE = re.compile(r"`([^`]+)`")
_NO_RULE = "\N{EN DASH}"


class Step(NamedTuple):
    """A row of the table."""

    step: str
    rule: str
    line: str
    said: str


def text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def steps() -> list[Step]:
    rows = [line.strip("| ").split(" | ") for line in text("README.md").splitlines() if line.startswith("| ")]
    return [Step(*row) for row in rows[2:]]


def reported() -> dict[tuple[str, str], str]:
    found = filter(None, map(_FINDING.match, text("report.txt").splitlines()))
    return {(rule, line): said for line, rule, said in (each.groups() for each in found)}


def test_the_rules_and_lines_are_those_of_the_report() -> None:
    assert {(each.rule, each.line) for each in steps() if each.rule != _NO_RULE} == reported().keys()


def test_what_is_made_and_what_is_left_is_what_the_report_says() -> None:
    for each in steps():
        if each.rule == _NO_RULE:
            continue
        said = reported()[each.rule, each.line]
        left = re.match(r"left: [^.]*", each.said)
        assert said.startswith("left: ") is (left is not None), each
        assert left is None or said.startswith(left.group()), each


def test_each_step_is_one_of_the_experts() -> None:
    for each in steps():
        (code,) = _CODE.findall(each.step)
        assert code in text("expert.py"), code
        assert code not in text("naive.py"), code


def test_enough_steps_are_made_and_each_other_has_its_reason() -> None:
    made = [each for each in steps() if each.said.startswith("made")]

    assert len(made) >= LEAST
    assert all(each.said.strip() for each in steps())
