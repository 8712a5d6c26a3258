"""fixtures/*/README.md say which steps of the experts' the tool takes: that is what it reports, and what both texts hold."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from tests.scripts import FIXTURES

SCRIPTS = sorted(each.parent.name for each in FIXTURES.glob("*/expert.py"))
LEAST = {"gpt": 6, "text_lstm": 2}
"""Of the expert's steps, that the tool takes: four of the scripts that are not named here."""
TOLD_WHOLLY = "gpt"
"""The script whose table has each line of the report: of others it has those of the expert's steps."""
_FINDING = re.compile(r"naive\.py:([\d, ]+)(?::\d+)? (\S+)  (.*)")
_CODE = re.compile(r"`([^`]+)`")
_NO_RULE = "\N{EN DASH}"
_EACH_SCRIPT = pytest.mark.parametrize("script", SCRIPTS)


class Step(NamedTuple):
    """A row of the table."""

    step: str
    rule: str
    line: str
    said: str


def text(script: str, name: str) -> str:
    return (FIXTURES / script / name).read_text(encoding="utf-8")


def steps(script: str) -> list[Step]:
    rows = [line.strip("| ").split(" | ") for line in text(script, "README.md").splitlines() if line.startswith("| ")]
    return [Step(*row) for row in rows[2:]]


def reported(script: str) -> dict[tuple[str, str], str]:
    found = filter(None, map(_FINDING.match, text(script, "report.txt").splitlines()))
    return {(rule, line): said for lines, rule, said in (each.groups() for each in found) for line in lines.split(", ")}


def test_each_script_with_an_experts_text_is_asked() -> None:
    assert len(SCRIPTS) >= 6


@_EACH_SCRIPT
def test_the_rules_and_lines_are_those_of_the_report(script: str) -> None:
    told = {(each.rule, each.line) for each in steps(script) if each.rule != _NO_RULE}

    assert told <= reported(script).keys()
    assert script != TOLD_WHOLLY or told == reported(script).keys()


@_EACH_SCRIPT
def test_what_is_made_and_what_is_left_is_what_the_report_says(script: str) -> None:
    for each in steps(script):
        if each.rule == _NO_RULE:
            continue
        said = reported(script)[each.rule, each.line]
        left = re.match(r"left: [^.(:]*", each.said)
        assert said.startswith("left: ") is (left is not None), each
        assert left is None or said.startswith(left.group().strip()), each


@_EACH_SCRIPT
def test_each_step_is_one_of_the_experts(script: str) -> None:
    for each in steps(script):
        (code,) = _CODE.findall(each.step)
        assert code in text(script, "expert.py"), code
        assert code not in text(script, "naive.py"), code


@_EACH_SCRIPT
def test_enough_steps_are_made_and_each_other_has_its_reason(script: str) -> None:
    made = [each for each in steps(script) if each.said.startswith("made")]

    assert len(made) >= LEAST.get(script, 4)
    assert all(each.said.strip() for each in steps(script))
