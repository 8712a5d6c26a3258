"""All findings in one line."""

from __future__ import annotations

import pytest

from autotune_rewrite.report.summary import summary
from autotune_rewrite.rewriting.results import Rewrite, Site, Span
from codemods.codemod import Promise


def change(promise: Promise = Promise.BITWISE, *, fails: bool = True) -> Site:
    return Site("amp", 1, 1, 1, 9, "why", promise, "", fails=fails, edits=(Span(1, 1),))


def left(code: str = "no-cuda", promise: Promise = Promise.PRECISION) -> Site:
    return Site("amp", 1, 1, 1, 9, "why", promise, "", fails=False, edits=(), code=code)


def said(*sites: Site, check: bool = False, hint: str = "", more: tuple[Site, ...] = ()) -> str:
    files = [Rewrite("train.py", "", "", sites), *([Rewrite("test.py", "", "", more)] if more else [])]
    return summary(files, check=check, hint=hint)


@pytest.mark.parametrize(
    ("sites", "line"),
    [
        pytest.param((), "", id="nothing found, nothing said"),
        pytest.param((change(),), "1 change: 1 bitwise", id="one"),
        pytest.param(
            (change(Promise.PRECISION), change(), change(Promise.RANDOM), change(), left()),
            "4 changes: 2 bitwise, 1 random, 1 precision; 1 left",
            id="promises, the nearest first",
        ),
        pytest.param((left(), left()), "no changes; 2 left", id="left only"),
        pytest.param(
            (change(), left("above-level", Promise.RANDOM), left("above-level"), left()),
            "1 change: 1 bitwise; 3 left, of which --level random would change 1 and --level precision would change 2",
            id="what a lower level hides",
        ),
        pytest.param((left("above-level", Promise.TRAINING),), "no changes; 1 left", id="no level reaches that"),
    ],
)
def test_findings_are_counted(sites: tuple[Site, ...], line: str) -> None:
    assert said(*sites) == line


@pytest.mark.parametrize(
    ("fails", "line"),
    [
        pytest.param([True, True], "2 changes: 2 bitwise", id="all fail"),
        pytest.param([True, False], "2 changes: 2 bitwise, 1 of which does not fail the check", id="one does not"),
        pytest.param([False, False], "2 changes: 2 bitwise, none of which fails the check", id="none does"),
        pytest.param([False], "1 change: 1 bitwise, which does not fail the check", id="the only one does not"),
    ],
)
def test_a_check_says_how_many_do_not_fail_it(fails: list[bool], line: str) -> None:
    assert said(*(change(fails=each) for each in fails), check=True) == line


def test_files_are_counted_where_several_change() -> None:
    assert said(change(), more=(change(), change())) == "3 changes in 2 files: 3 bitwise"
    assert said(change(), more=(left(),)) == "1 change: 1 bitwise; 1 left"


def test_a_hint_is_given_where_something_can_be_done() -> None:
    assert said(change(), hint="--apply writes them") == "1 change: 1 bitwise (--apply writes them)"
    assert said(left(), hint="--apply writes them") == "no changes; 1 left"
