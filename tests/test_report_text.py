"""Findings as lines for people: what is equal is said once."""

from __future__ import annotations

import pytest

from autotune_rewrite.report.text import Told, findings
from autotune_rewrite.rewriting.results import Rewrite, Site, Span
from codemods.codemod import Promise
from codemods.facts.reason import Spot


def site(line: int, message: str, *, rule: str = "amp", column: int = 1, **more: object) -> Site:
    edits = (Span(line, line),) if not more else ()
    fields = {"spots": (), "code": "", **more}
    return Site(rule, line, column, line, 9, message, Promise.BITWISE, "", fails=False, edits=edits, **fields)  # type: ignore[arg-type]


def lines(*sites: Site, path: str = "train.py", told: Told | None = None) -> list[str]:
    rewrite = Rewrite(path, "", "", sites)
    return [each.text for each in findings(rewrite, check=False, quiet=False, told=told)]


def test_two_places_of_one_line_are_counted() -> None:
    assert lines(site(3, "why"), site(3, "why", column=7), site(4, "why")) == [
        "train.py:3:1 amp  why (2 places)  [bitwise]",
        "train.py:4:1 amp  why  [bitwise]",
    ]


def test_what_is_left_for_one_reason_shares_a_line() -> None:
    found = lines(
        site(3, "why", code="no-cuda"),
        site(4, "another", code="no-cuda"),
        site(7, "why", code="no-cuda"),
        site(7, "why", code="no-cuda", rule="compile", column=5),
    )

    assert found == [
        "train.py:3, 7 amp  left: why",
        "train.py:4:1 amp  left: another",
        "train.py:7:5 compile  left: for the same reason as train.py:3, 7",
    ]


def test_reasons_that_name_their_own_line_share_one() -> None:
    found = lines(
        *(site(line, f"made in line {line}", code="no-cuda", spots=(Spot(8, 14, (line,)),)) for line in (3, 4)),
        site(5, "made in line 9", code="no-cuda", spots=(Spot(8, 14, (9,)),)),
    )

    assert found == ["train.py:3, 4 amp  left: made in lines 3, 4", "train.py:5:1 amp  left: made in line 9"]


@pytest.mark.parametrize("code", ["fails-today", "no-cuda", "older-torch"])
def test_a_cause_of_the_project_is_told_of_its_first_file(code: str) -> None:
    told = Told()

    assert lines(site(3, "net.py fails", code=code), told=told) == ["train.py:3:1 amp  left: net.py fails"]
    assert lines(site(5, "net.py fails", code=code), path="test.py", told=told) == [
        "test.py:5:1 amp  left: for the same reason as train.py:3"
    ]
    assert lines(site(5, "short", code="no-name"), site(6, "net.py fails", code="no-name"), told=told) == [
        "train.py:5:1 amp  left: short",
        "train.py:6:1 amp  left: net.py fails",
    ]
