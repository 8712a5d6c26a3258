"""How trials are carried out and remembered, with a verifier made for the purpose: no script runs here."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from autotune_rewrite.rewriting.batch import read_project
from autotune_rewrite.rewriting.config import Options
from autotune_rewrite.tune.search import ORIGINAL, SpentError, Trial, Variant
from autotune_rewrite.tune.trials import Budget, InterruptedByUserError, Records, Trials
from autotune_rewrite.verify.judgement import Judgement
from autotune_rewrite.verify.plan import Plan
from autotune_rewrite.verify.statistics.ratio import Ratio

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from autotune_rewrite.verify.records import Run

FASTER = Judgement("ok", "faster", "not-checked", "It is.", "precision", whole=Ratio(2.0, 1.9, 2.1))
CRASHED = Judgement("crashed", "not-checked", "not-checked", "The rewritten script crashed.", "precision")
PIN, ZERO = Variant(frozenset({"loader-pin"})), Variant(frozenset({"zero-grad-none"}))


class Verifier:
    """Answers what it is told to; keeps plans, and the texts that they compare."""

    def __init__(self, judgement: Judgement = FASTER) -> None:
        self.judgement = judgement
        self.plans: list[Plan] = []
        self.texts: list[tuple[str, str]] = []

    def __call__(self, plan: Plan, *, probe: bool) -> tuple[Judgement, Sequence[Run]]:
        assert probe
        assert plan.original_text is not None
        self.plans.append(plan)
        self.texts.append((plan.original_text.read_text(), plan.rewritten.read_text()))
        return self.judgement, []


def trials(naive: Path, verifier: Verifier, *, records: Path | None = None, seconds: float = 60.0) -> Trials:
    plan = Plan(naive, naive)
    return Trials(read_project(str(naive)), Options(), plan, verifier, Budget(seconds, 4), Records(records))


def test_two_variants_are_run_beside_each_other(naive: Path) -> None:
    verifier = Verifier()

    trial = trials(naive, verifier)(PIN, PIN.beside(["zero-grad-none"]), "beside-the-rest")

    ((before, after),) = verifier.texts
    assert ("pin_memory" in before, "set_to_none=True" in before) == (True, False)
    assert ("pin_memory" in after, "set_to_none=True" in after) == (True, True)
    assert (trial.ratio, trial.speed, trial.pays) == (FASTER.whole, "faster", True)


def test_the_script_acts_as_if_it_lay_where_it_lies(naive: Path) -> None:
    verifier = Verifier()
    trials(naive, verifier)(ORIGINAL, PIN, "alone")

    (plan,) = verifier.plans
    assert (plan.original, plan.script_directory) == (naive, naive.parent)
    assert plan.speed_only


def test_what_has_the_same_text_is_not_run(naive: Path) -> None:
    verifier = Verifier()

    trial = trials(naive, verifier)(PIN, PIN.beside(["compile-cache"]), "together")

    assert (trial.is_same, trial.pays, verifier.plans) == (True, False, [])


def test_what_crashes_is_told(naive: Path) -> None:
    trial = trials(naive, Verifier(CRASHED))(ORIGINAL, PIN, "alone")

    assert trial.failed == "The rewritten script crashed."
    assert not trial.pays


def test_a_value_is_written(naive: Path) -> None:
    naive.write_text(naive.read_text().replace(", num_workers=2", ""))
    workers = Variant(frozenset({"loader-workers"}))
    verifier = Verifier()

    trials(naive, verifier)(workers, workers.having("workers", "7"), "value")

    ((before, after),) = verifier.texts
    assert ("num_workers=4" in before, "num_workers=7" in after) == (True, True)


# --- time -----------------------------------------------------------------------------------------------------------


def test_a_trial_gets_its_share_of_the_time(naive: Path) -> None:
    verifier = Verifier()
    trials(naive, verifier, seconds=40)(ORIGINAL, PIN, "alone")

    assert [plan.time_budget for plan in verifier.plans] == [10]


def test_what_a_trial_leaves_over_goes_to_the_next() -> None:
    budget = Budget(40, 4)
    budget.take(1)

    assert budget.share == 13


def test_no_trial_begins_once_the_time_is_spent(naive: Path) -> None:
    some = trials(naive, Verifier())
    some.budget.take(60)

    with pytest.raises(SpentError):
        some(ORIGINAL, PIN, "alone")


# --- what is remembered ---------------------------------------------------------------------------------------------


def test_what_was_run_before_is_not_run_again(naive: Path, tmp_path: Path) -> None:
    first, second = Verifier(), Verifier()
    ran = trials(naive, first, records=tmp_path / "some" / "records")(ORIGINAL, PIN, "alone")

    again = trials(naive, second, records=tmp_path / "some" / "records")(ORIGINAL, PIN, "alone")

    assert again == ran
    assert (len(first.plans), second.plans) == (1, [])


def test_the_time_of_what_is_remembered_counts(naive: Path, tmp_path: Path) -> None:
    place = tmp_path / "records"
    records = Records(place)
    records.keep(f"alone: original | {PIN.key}", {**_kept(), "seconds": 25.0})

    some = trials(naive, Verifier(), records=place)
    some(ORIGINAL, PIN, "alone")

    assert some.budget.left == 35


def test_another_question_is_asked(naive: Path, tmp_path: Path) -> None:
    verifier = Verifier()
    some = trials(naive, verifier, records=tmp_path / "records")

    some(ORIGINAL, PIN, "alone")
    some(ORIGINAL, ZERO, "alone")

    assert len(verifier.plans) == 2


def test_a_record_that_was_not_written_whole_is_none(naive: Path, tmp_path: Path) -> None:
    place = tmp_path / "records"
    place.write_text(json.dumps({"key": f"alone: original | {PIN.key}", **_kept()})[:-10])
    verifier = Verifier()

    trials(naive, verifier, records=place)(ORIGINAL, PIN, "alone")
    trials(naive, verifier, records=place)(ORIGINAL, PIN, "alone")

    assert len(verifier.plans) == 1


def test_what_was_interrupted_is_not_remembered(naive: Path, tmp_path: Path) -> None:
    place = tmp_path / "records"
    with pytest.raises(InterruptedByUserError):
        trials(naive, Verifier(replace(FASTER, interrupted=True)), records=place)(ORIGINAL, PIN, "alone")

    assert not place.exists()


def _kept() -> dict[str, object]:
    ratio = {"estimate": 2.0, "low": 1.9, "high": 2.1, "confidence": 0.95}
    return {"ratio": ratio, "speed": "faster", "failed": "", "is_same": False, "seconds": 1.0}


def test_a_variant_is_known_by_its_rules_and_values() -> None:
    assert ORIGINAL.key == "original"
    assert PIN.beside(["amp"]).having("workers", "2").having("amp", "bf16").key == "amp,loader-pin amp=bf16 workers=2"
    assert Trial(ORIGINAL, PIN, "alone").may_pay is False
