"""The judgement as text and as JSON, exactly."""

from __future__ import annotations

import json
from dataclasses import replace

from autotune_rewrite.report.judgement import as_json, as_text
from autotune_rewrite.verify.comparison import Ratio
from autotune_rewrite.verify.judgement import Judgement

PASSED = Judgement(
    run="ok",
    speed="faster",
    equality="equal",
    reason="Every loss is equal. Speed is that of whole runs.",
    promise="bitwise",
    iteration=Ratio(2.0, 1.9, 2.1),
    whole=Ratio(1.5, 1.25, 1.8),
    basis="whole",
    pairs=4,
    losses=96,
    environment={"torch": "2.9.0", "python": "3.12.1", "cpus": 2},
    not_measured=("loader-pin", "h2d-non-blocking"),
)
CRASHED = Judgement(
    run="crashed",
    speed="not-checked",
    equality="not-checked",
    reason="The rewritten script ended with exit status 1.",
    promise="precision",
    side="rewritten",
    output=("Traceback (most recent call last):", "ValueError: no"),
)


def test_text_says_the_judgement_first() -> None:
    assert as_text(PASSED) == (
        "The rewritten script is faster; it computes the same, bit for bit.\n"
        "  whole run  1.50 times as fast (1.25 to 1.80, 95 % interval)\n"
        "  iteration  2.00 times as fast (1.90 to 2.10, 95 % interval)\n"
        "Every loss is equal. Speed is that of whole runs.\n"
        "Seen: 4 pairs of runs with 96 losses each, promise bitwise, torch 2.9.0, Python 3.12.1, 2 CPU cores.\n"
        "Not measured here, because they cannot act on this device: loader-pin, h2d-non-blocking."
    )


def test_text_of_a_crash_shows_its_last_lines() -> None:
    assert as_text(CRASHED) == (
        "The rewritten script ended with exit status 1.\n  Traceback (most recent call last):\n  ValueError: no"
    )


def test_json_has_the_three_answers_and_both_ratios() -> None:
    values = as_json(PASSED)
    assert (values["run"], values["speed"], values["equality"], values["side"]) == ("ok", "faster", "equal", None)
    assert values["ratios"] == {
        "iteration": {"estimate": 2.0, "low": 1.9, "high": 2.1},
        "run": {"estimate": 1.5, "low": 1.25, "high": 1.8, "basis": "whole"},
    }
    assert values["not_measured"] == ["loader-pin", "h2d-non-blocking"]
    assert json.loads(json.dumps(values, allow_nan=False)) == values


def test_json_of_a_crash_has_nulls_where_nothing_was_measured() -> None:
    values = as_json(CRASHED)
    nothing = {"estimate": None, "low": None, "high": None}
    assert values["ratios"] == {"iteration": nothing, "run": {**nothing, "basis": None}}
    assert (values["side"], values["output"][-1]) == ("rewritten", "ValueError: no")


def test_what_was_written_past_the_copy_and_where_copies_are_is_said() -> None:
    judgement = replace(CRASHED, written=("data/big.bin",), copies=("copies/a", "copies/b"))

    assert as_text(judgement).splitlines()[-2:] == [
        "Changed while the scripts ran, as they were too large for the copy of the project: data/big.bin.",
        "Copies of the project: copies/a, copies/b.",
    ]
    assert as_json(judgement)["written"] == ["data/big.bin"]
    assert as_json(judgement)["copies"] == ["copies/a", "copies/b"]
