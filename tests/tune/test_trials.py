"""How trials are carried out and remembered, with a verifier made for the purpose: no script runs here."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from autotune_rewrite.rewriting.batch import read_project
from autotune_rewrite.rewriting.config import Options
from autotune_rewrite.tune.search import ORIGINAL, Question, SpentError, Trial, Variant
from autotune_rewrite.tune.trials import OPTIONS, PAIRS, Budget, InterruptedByUserError, Records, Trials
from autotune_rewrite.verify.judgement import Judgement, speed_word
from autotune_rewrite.verify.plan import Plan
from autotune_rewrite.verify.statistics.ratio import Ratio

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from autotune_rewrite.verify.comparison import Basis
    from autotune_rewrite.verify.judgement import Speed
    from autotune_rewrite.verify.records import Environment, Run

FASTER = Judgement("ok", "faster", "not-checked", "It is.", "precision", whole=Ratio(2.0, 1.9, 2.1))
CRASHED = Judgement("crashed", "not-checked", "not-checked", "The rewritten script crashed.", "precision")
PIN, ZERO = Variant(frozenset({"loader-pin"})), Variant(frozenset({"zero-grad-none"}))

COMPILED = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(8, 8)
        self.two = nn.Linear(8, 2)

    def forward(self, x):
        return self.two(self.one(x).relu())

model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(9, 4, 8).cuda():
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
"""


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


# --- more runs of what is not told ----------------------------------------------------------------------------------


@dataclass
class Measured(Verifier):
    """Runs as many pairs as it is asked for, and takes a second for each of them; their ratios are known."""

    ratios: Iterator[float] = field(default_factory=lambda: iter(()))
    basis: Basis = "whole"

    def __post_init__(self) -> None:
        super().__init__()

    def __call__(self, plan: Plan, *, probe: bool) -> tuple[Judgement, Sequence[Run]]:
        super().__call__(plan, probe=probe)
        ratios = tuple(itertools.islice(self.ratios, plan.pairs))
        whole = Ratio.of(ratios, [1.0] * len(ratios))
        judgement = replace(FASTER, whole=whole, speed=speed_word(whole), basis=self.basis)
        return replace(judgement, pairs=len(ratios), of_pairs=ratios), []


def test_what_two_pairs_do_not_tell_gets_two_more(naive: Path) -> None:
    verifier = Measured(ratios=iter([1.2, 0.9, 1.3, 1.2]))
    some = trials(naive, verifier)
    question = Question(ORIGINAL, PIN, "alone", "")

    some.depth = 2
    first = some(ORIGINAL, PIN, "alone")
    assert (first.answer, some.knows(question)) == ("not-told", True)
    some.depth = 4
    assert not some.knows(question)
    some(ORIGINAL, PIN, "alone")

    assert [(plan.pairs, plan.seed) for plan in verifier.plans] == [(2, 0), (2, 2)]
    assert some.records.known[f"original | {PIN.key}"]["of_pairs"] == [1.2, 0.9, 1.3, 1.2]


def test_two_pairs_tell_where_those_of_other_trials_hardly_vary(naive: Path) -> None:
    some = trials(naive, Measured(ratios=iter([1.1, 1.12])))
    some.depth = 2
    some.spread = (1.5, 1.51, 1.49, 1.5)

    assert some(ORIGINAL, PIN, "alone").answer == "kept"


def test_what_all_its_pairs_do_not_tell_is_told_to_gain_nothing(naive: Path) -> None:
    verifier = Measured(ratios=itertools.cycle([1.2, 0.9]))
    some = trials(naive, verifier)

    assert [some(ORIGINAL, PIN, "alone").answer for _ in range(2)] == ["dropped"] * 2
    assert [plan.pairs for plan in verifier.plans] == [PAIRS["alone"]]


def test_the_same_texts_are_one_trial(naive: Path) -> None:
    verifier = Measured(ratios=itertools.repeat(1.0))
    some = trials(naive, verifier)
    some.depth = 4

    some(ORIGINAL, PIN, "alone")
    some(ORIGINAL.beside(["compile-cache"]), PIN, "beside-the-rest")

    assert [plan.pairs for plan in verifier.plans] == [4]


def test_with_no_pairs_nothing_is_run_and_what_is_known_is_told(naive: Path) -> None:
    some = trials(naive, Measured(ratios=iter([1.2, 0.9])))
    some.depth = 2
    some(ORIGINAL, PIN, "alone")
    some.depth = 0

    assert some(ORIGINAL, PIN, "alone").answer == "not-told"
    with pytest.raises(SpentError):
        some(ORIGINAL, ZERO, "alone")


def test_another_pair_is_not_begun_where_it_would_not_fit(naive: Path) -> None:
    verifier = Measured(ratios=iter([1.2, 0.9]))
    some = trials(naive, verifier)
    some.depth = 2
    some(ORIGINAL, PIN, "alone")
    some.records.known[f"original | {PIN.key}"]["seconds"] = 50.0
    some.budget.take(40.0)
    some.depth = 4

    with pytest.raises(SpentError):
        some(ORIGINAL, PIN, "alone")


@pytest.mark.parametrize(("seconds_of_pair", "runs"), [(6.0, (1, True)), (None, (2, False)), (11.0, (2, False))])
def test_runs_are_not_cut_where_one_pair_of_whole_ones_fits(
    naive: Path, seconds_of_pair: float | None, runs: tuple[int, bool]
) -> None:
    verifier = Measured(ratios=iter([1.2, 0.9]))
    some = trials(naive, verifier, seconds=40)
    some.depth, some.seconds_of_pair = 2, seconds_of_pair
    some(ORIGINAL, PIN, "alone")

    assert [(plan.pairs, plan.full) for plan in verifier.plans] == [runs]


@pytest.mark.parametrize(
    ("basis", "speed"),
    [
        pytest.param("cut", "faster", id="runs that were cut, and nobody knows how long they would go on"),
        pytest.param("whole", "inconclusive", id="runs that were disturbed"),
    ],
)
def test_ratios_say_nothing_of(naive: Path, basis: Basis, speed: Speed) -> None:
    class Odd(Measured):
        def __call__(self, plan: Plan, *, probe: bool) -> tuple[Judgement, Sequence[Run]]:
            judgement, runs = super().__call__(plan, probe=probe)
            return replace(judgement, speed=speed), runs

    some = trials(naive, Odd(ratios=itertools.cycle([1.2, 1.21]), basis=basis))

    assert some(ORIGINAL, PIN, "alone").speed == speed
    assert some.records.known[f"original | {PIN.key}"]["of_pairs"] == []


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
    records.keep(f"original | {PIN.key}", {**_kept(), "seconds": 25.0})

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
    place.write_text(json.dumps({"key": f"original | {PIN.key}", **_kept()})[:-10])
    verifier = Verifier()

    trials(naive, verifier, records=place)(ORIGINAL, PIN, "alone")
    trials(naive, verifier, records=place)(ORIGINAL, PIN, "alone")

    assert len(verifier.plans) == 1


def test_what_was_interrupted_is_not_remembered(naive: Path, tmp_path: Path) -> None:
    place = tmp_path / "records"
    with pytest.raises(InterruptedByUserError):
        trials(naive, Verifier(replace(FASTER, interrupted=True)), records=place)(ORIGINAL, PIN, "alone")

    assert not place.exists()


# --- several at once ------------------------------------------------------------------------------------------------


class Backwards(Verifier):
    """Takes as many plans as it has places, and carries out the last one first."""

    def __init__(self, judgement: Judgement = FASTER, places: int = 2) -> None:
        super().__init__(judgement)
        self.places = places
        self.hardware: Environment = {}

    def several(self, plans: Iterable[tuple[str, Plan]]) -> Iterator[tuple[str, Judgement]]:
        for name, plan in reversed(list(plans)):
            yield name, self(plan, probe=True)[0]


def at_once(naive: Path, executor: Backwards, records: Path | None = None, seconds: float = 60.0) -> Trials:
    some = trials(naive, executor, records=records, seconds=seconds)
    some.executor = executor
    return some


ALONE = [Question(ORIGINAL, each, "alone", f"{each.key} alone") for each in (PIN, ZERO)]


def test_what_was_run_ahead_is_known_when_it_is_asked_for(naive: Path, tmp_path: Path) -> None:
    executor, begun = Backwards(), list[Question]()
    some = at_once(naive, executor, tmp_path / "records")

    some.ahead(ALONE, begun.append, sure=True)
    answers = [some(each.before, each.after, each.step) for each in ALONE]

    assert begun == ALONE
    assert [("set_to_none=True" in after, "pin_memory" in after) for _, after in executor.texts] == [
        (True, False),
        (False, True),
    ]
    assert [each.ratio for each in answers] == [FASTER.whole] * 2
    later = Verifier()
    trials(naive, later, records=tmp_path / "records")(ORIGINAL, PIN, "alone")
    assert later.plans == [], "the records are those of trials that are run one after the other"


def test_the_budget_is_spent_by_the_clock_and_each_of_those_at_once_gets_more_of_it(
    naive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter((0.0, 20.0, 21.0))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    executor = Backwards()
    some = at_once(naive, executor, seconds=40)

    some.ahead(ALONE, lambda _: None, sure=True)

    assert [plan.time_budget for plan in executor.plans] == [20, 20]
    assert some.budget.spent == 21
    for each in ALONE:
        some(each.before, each.after, each.step)
    assert (some.budget.spent, some.budget.trials) == (21, 2)


def test_one_that_ended_with_the_budget_has_spent_it_and_is_not_on_record(
    naive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter((0.0, 40.0))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    some = at_once(naive, Backwards(replace(CRASHED, run="timed-out")), seconds=40)

    some.ahead(ALONE[:1], lambda _: None, sure=True)

    assert (some.budget.left, some.records.known) == (0, {})


def test_none_is_begun_once_the_time_is_spent(naive: Path) -> None:
    executor = Backwards()
    some = at_once(naive, executor)
    some.budget.take(60)

    some.ahead(ALONE, lambda _: None, sure=True)

    assert executor.plans == []


def test_the_time_of_what_is_remembered_counts_before_more_is_run(naive: Path, tmp_path: Path) -> None:
    place = tmp_path / "records"
    Records(place).keep(f"original | {PIN.key}", {**_kept(), "seconds": 60.0})
    executor = Backwards()

    at_once(naive, executor, place).ahead(ALONE, lambda _: None, sure=True)

    assert executor.plans == []


@pytest.mark.parametrize(("places", "number"), [(2, 2), (8, 3)])
def test_what_may_be_asked_in_vain_is_run_in_free_places_only(naive: Path, places: int, number: int) -> None:
    executor = Backwards(places=places)
    some = at_once(naive, executor)
    more = Question(ORIGINAL, PIN.beside(["zero-grad-none"]), "alone", "both")

    some.ahead([*ALONE, more], lambda _: None, sure=False)
    some.ahead([*ALONE, more], lambda _: None, sure=False)

    assert len(executor.plans) == number


def test_what_has_the_same_text_takes_no_place(naive: Path) -> None:
    executor, begun = Backwards(), list[Question]()
    same = Question(PIN, PIN.beside(["compile-cache"]), "together", "nothing else")

    at_once(naive, executor).ahead([same, *ALONE], begun.append, sure=True)

    assert begun == ALONE


def test_those_that_ended_before_an_interrupt_are_on_record(naive: Path, tmp_path: Path) -> None:
    class Interrupted(Backwards):
        def several(self, plans: Iterable[tuple[str, Plan]]) -> Iterator[tuple[str, Judgement]]:
            yield next(super().several(plans))
            raise InterruptedByUserError

    some = at_once(naive, Interrupted(), tmp_path / "records")
    with pytest.raises(InterruptedByUserError):
        some.ahead(ALONE, lambda _: None, sure=True)

    assert list(Records(tmp_path / "records").known) == [f"original | {ZERO.key}"]


def _kept() -> dict[str, object]:
    ratio = {"estimate": 2.0, "low": 1.9, "high": 2.1, "confidence": 0.95}
    return {"ratio": ratio, "speed": "faster", "failed": "", "is_same": False, "seconds": 1.0}


def test_a_variant_is_known_by_its_rules_and_values() -> None:
    assert ORIGINAL.key == "original"
    assert PIN.beside(["amp"]).having("workers", "2").having("amp", "bf16").key == "amp,loader-pin amp=bf16 workers=2"
    assert Trial(ORIGINAL, PIN, "alone").may_pay is False


LOADED = """\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

def main():
    data = datasets.MNIST("data", transform=transforms.ToTensor())
    loader = DataLoader(data, 64)
    for x, y in loader:
        x = x.cuda()

if __name__ == "__main__":
    main()
"""


def test_numbers_of_batches_ahead_are_tried(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(LOADED)
    verifier = Verifier()
    workers = Variant(frozenset({"loader-workers"}))
    options = Options(select=("loader-workers",))
    trials = Trials(read_project(str(script)), options, Plan(script, script), verifier, Budget(60.0, 4), Records(None))

    trials(workers, workers.having("prefetch", "8"), "value")

    ((before, after),) = verifier.texts
    assert "DataLoader(data, 64, num_workers=4)\n" in before
    assert "DataLoader(data, 64, num_workers=4, prefetch_factor=8)\n" in after
    assert trials(workers, workers.having("prefetch", "2"), "value").is_same


def test_a_mode_of_compiling_is_tried(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(COMPILED)
    verifier = Verifier()
    compiled = Variant(frozenset({"compile"}))
    options = Options(select=("compile",))
    trials = Trials(read_project(str(script)), options, Plan(script, script), verifier, Budget(60.0, 4), Records(None))

    trials(compiled, compiled.having("compile", "reduce-overhead"), "value")

    ((before, after),) = verifier.texts
    assert "model.compile()\n" in before
    assert 'model.compile(mode="reduce-overhead")\n' in after
    assert OPTIONS["compile"].flag == "--compile-mode"
