"""Which changes are taken back, with a verifier made for the purpose: no script runs here."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from autotune_rewrite.rewriting.batch import read_project
from autotune_rewrite.rewriting.config import Options
from autotune_rewrite.tune.verified import HELD_BACK, TAKEN_BACK, Verified, verified
from autotune_rewrite.verify.judgement import Judgement
from autotune_rewrite.verify.plan import Plan
from autotune_rewrite.verify.records import Run
from codemods.catalogue import RULES
from tests.conftest import NAIVE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from autotune_rewrite.verify.records import Environment

MARKS = {"loader-pin": "pin_memory", "h2d-non-blocking": "non_blocking", "zero-grad-none": "set_to_none=True"}
"""Words by which the change of a rule to ``NAIVE`` is seen."""

ORIGINAL = Run("original", 0, "ok", "", (), 20.0, times=(1.0, 2.0, 3.0, 4.0), losses=(4.0, 3.0, 2.0, 1.0))
FINE = replace(ORIGINAL, side="rewritten")
CRASHED = replace(FINE, outcome="crashed", problem="ended with exit status 1", times=(1.0, 2.0), losses=(4.0, 3.0))
GOOD = Judgement("ok", "faster", "equal", "They compute the same.", "bitwise")
BAD = Judgement(
    "crashed",
    "not-checked",
    "not-checked",
    "The rewritten script ended with exit status 1.",
    "bitwise",
    side="rewritten",
    output=("RuntimeError: boom",),
)
DIFFERENT = Judgement("ok", "faster", "different", "Losses differ.", "bitwise", pairs=4)


class Verifier:
    """Judges by the rules whose changes it sees; keeps the plans and which of them were probes."""

    def __init__(
        self, judged: Callable[[frozenset[str]], Judgement], rewritten: Run = CRASHED, original: Run = ORIGINAL
    ) -> None:
        self.judged = judged
        self.runs = [original, rewritten]
        self.plans: list[Plan] = []
        self.seen: list[frozenset[str]] = []
        self.probes: list[bool] = []
        self.exact: list[str | None] = []

    def __call__(self, plan: Plan, *, probe: bool) -> tuple[Judgement, list[Run]]:
        text = plan.rewritten.read_text()
        self.plans.append(plan)
        self.probes.append(probe)
        self.seen.append(frozenset(rule for rule, mark in MARKS.items() if mark in text))
        self.exact.append(None if plan.bitwise is None else plan.bitwise.read_text())
        judgement = self.judged(self.seen[-1])
        return judgement, self.runs if judgement in (BAD, DIFFERENT) else [ORIGINAL, FINE]


def tried(naive: Path, verifier: Verifier, *, options: Options | None = None, **choices: object) -> Verified:
    plan = replace(Plan(naive, naive), **choices)  # type: ignore[arg-type]
    said: list[str] = []
    return verified(read_project(str(naive)), options or Options(level="bitwise"), plan, verifier, said.append)


def bad_with(*rules: str, judgement: Judgement = BAD) -> Callable[[frozenset[str]], Judgement]:
    return lambda seen: judgement if seen.issuperset(rules) else GOOD


def test_what_is_fine_is_verified_once(naive: Path) -> None:
    verifier = Verifier(lambda _: GOOD)

    result = tried(naive, verifier)

    (plan,) = verifier.plans
    assert verifier.seen == [frozenset(MARKS)]
    assert (plan.promise, plan.bitwise, plan.script_directory) == ("bitwise", None, naive.parent)
    assert plan.signatures == tuple((rule, RULES[rule].failures) for rule in sorted(MARKS))
    assert (plan.tolerance, plan.redrawn) == (1e-5, False)
    idle = ("h2d-non-blocking", "loader-pin")
    assert result.judgement == replace(GOOD, applied=(*idle, "zero-grad-none"), not_measured=idle)
    assert result.changes.rules == set(MARKS)


@pytest.mark.parametrize("rule", ["zero-grad-none", "h2d-non-blocking"])
def test_a_crash_without_a_signature_is_found_and_the_rest_verified_again(naive: Path, rule: str) -> None:
    verifier = Verifier(bad_with(rule))

    result = tried(naive, verifier)

    rest = frozenset(MARKS) - {rule}
    assert result.judgement is not None
    assert result.judgement.left_out == (
        (
            rule,
            f"Without the changes of {rule} this does not happen: "
            "The rewritten script ended with exit status 1. It said: RuntimeError: boom",
        ),
    )
    assert result.judgement.fit
    assert result.changes.rules == rest == verifier.seen[-1]
    assert verifier.probes == [False, *[True] * (len(verifier.probes) - 2), False]
    assert len(verifier.probes) <= 6
    back = [site.message for site in result.changes.sites if site.rule == rule]
    assert back
    assert set(back) == {TAKEN_BACK}


def test_a_rule_that_builds_on_another_goes_with_it(naive: Path) -> None:
    naive.write_text(NAIVE.replace(", num_workers=2", ""))
    options = Options(select=("loader-workers", "loader-persistent", "zero-grad-none"))
    texts: list[str] = []

    def verify(plan: Plan, *, probe: bool) -> tuple[Judgement, list[Run]]:  # noqa: ARG001 - as the others have
        texts.append(plan.rewritten.read_text())
        return (BAD, [ORIGINAL, CRASHED]) if "num_workers" in texts[-1] else (GOOD, [ORIGINAL, FINE])

    result = verified(read_project(str(naive)), options, Plan(naive, naive), verify, print)

    assert "persistent_workers" in texts[0]
    assert result.changes.rules == {"zero-grad-none"}
    assert result.judgement is not None
    assert [rule for rule, _ in result.judgement.left_out] == ["loader-workers"]


def test_probes_are_cut_to_just_past_the_failure(naive: Path) -> None:
    verifier = Verifier(bad_with("zero-grad-none"))

    tried(naive, verifier, pairs=8, timeout=500.0)

    probes = [plan for plan, probe in zip(verifier.plans, verifier.probes, strict=True) if probe]
    assert probes
    assert {(plan.pairs, plan.iterations, plan.timeout, plan.promise) for plan in probes} == {(1, 3, 80.0, "bitwise")}


def test_a_failure_that_a_short_run_does_not_show_is_looked_for_in_whole_ones(naive: Path) -> None:
    verifier = Verifier(lambda _: GOOD)

    def judged(seen: frozenset[str]) -> Judgement:
        return BAD if "zero-grad-none" in seen and verifier.plans[-1].iterations is None else GOOD

    verifier.judged = judged
    result = tried(naive, verifier)

    assert result.changes.rules == {"loader-pin", "h2d-non-blocking"}
    assert [plan.iterations for plan in verifier.plans[:3]] == [None, 3, None]


@pytest.mark.parametrize(
    ("outcome", "iterations"),
    [
        pytest.param("exited", 3, id="exited: its record is whole"),
        pytest.param("killed", None, id="killed: the end of its record may be lost"),
        pytest.param("timed-out", None, id="hung: the end of its record may be lost"),
    ],
)
def test_how_far_probes_run(naive: Path, outcome: str, iterations: int | None) -> None:
    verifier = Verifier(bad_with("zero-grad-none"), rewritten=replace(CRASHED, outcome=outcome))  # type: ignore[arg-type]

    tried(naive, verifier)

    assert verifier.plans[1].iterations == iterations


@pytest.mark.parametrize(
    ("losses", "iterations", "pairs"),
    [
        pytest.param((4.0, 3.5, 2.0, 1.0), 2, 1, id="other bits"),
        pytest.param((4.0, 3.0, 2.0), None, 4, id="another number of losses"),
        pytest.param((4.0, 3.0, 2.0, 1.0), None, 4, id="other parameters alone"),
    ],
)
def test_what_differs_is_found(naive: Path, losses: tuple[float, ...], iterations: int | None, pairs: int) -> None:
    run = replace(FINE, losses=losses, parameters=("changed",))
    verifier = Verifier(bad_with("zero-grad-none", judgement=DIFFERENT), rewritten=run)

    result = tried(naive, verifier)

    assert result.changes.rules == {"loader-pin", "h2d-non-blocking"}
    assert (verifier.plans[1].iterations, verifier.plans[1].pairs) == (iterations, pairs)


@pytest.mark.parametrize(
    ("losses", "iterations"),
    [
        pytest.param((4.0, 3.0, float("nan"), 1.0), 3, id="a loss that is no number"),
        pytest.param((4.1, 3.0, 2.0, 1.0), 1, id="another first loss"),
        pytest.param((4.0, 3.5, 2.0, 1.0), None, id="rounding, which statistics judge"),
    ],
)
def test_at_another_precision_probes_are_cut_to_what_rounding_does_not_explain(
    naive: Path, losses: tuple[float, ...], iterations: int | None
) -> None:
    verifier = Verifier(lambda _: DIFFERENT, rewritten=replace(FINE, losses=losses))

    tried(naive, verifier, options=Options(select=("zero-grad-none", "amp")))

    assert verifier.plans[0].promise == "precision"
    assert verifier.plans[1].iterations == iterations


def test_a_signature_needs_no_search(naive: Path) -> None:
    blaming = replace(BAD, blamed=("h2d-non-blocking",), reason="It crashed. That points to h2d-non-blocking.")
    verifier = Verifier(bad_with("h2d-non-blocking", judgement=blaming))

    result = tried(naive, verifier)

    assert verifier.probes == [False, False]
    assert result.judgement is not None
    assert result.judgement.left_out == (
        ("h2d-non-blocking", "It crashed. That points to h2d-non-blocking. It said: RuntimeError: boom"),
    )


def test_a_crash_may_hide_another(naive: Path) -> None:
    hidden = replace(DIFFERENT, reason="Losses differ.")

    def judged(seen: frozenset[str]) -> Judgement:
        if "zero-grad-none" in seen:
            return BAD
        return hidden if "h2d-non-blocking" in seen and verifier.plans[-1].iterations is None else GOOD

    verifier = Verifier(judged)
    result = tried(naive, verifier)

    assert result.changes.rules == {"loader-pin"}
    assert result.judgement is not None
    assert [rule for rule, _ in result.judgement.left_out] == ["zero-grad-none", "h2d-non-blocking"]


NOTHING_TO_BLAME = {
    "the original fails": (replace(BAD, side="original"), ""),
    "it is slower": (replace(GOOD, speed="slower"), ""),
    "it is inconclusive": (replace(GOOD, equality="inconclusive"), ""),
    "it was ended by the user": (replace(BAD, interrupted=True), ""),
    "it fails without any change, too": (BAD, " The fault shows without any change, too, so none can be blamed."),
}


@pytest.mark.parametrize("case", NOTHING_TO_BLAME)
def test_nothing_is_blamed_where(naive: Path, case: str) -> None:
    judgement, why = NOTHING_TO_BLAME[case]
    verifier = Verifier(lambda _: judgement)

    result = tried(naive, verifier)

    assert result.judgement is not None
    assert result.judgement.left_out == ()
    assert result.judgement.reason == judgement.reason + why
    assert result.changes.rules == set(MARKS)
    assert any(verifier.probes) == bool(why)


def test_what_does_not_happen_again_blames_nothing(naive: Path) -> None:
    verifier = Verifier(lambda _: BAD if len(verifier.plans) == 1 else GOOD)

    result = tried(naive, verifier)

    assert result.judgement is not None
    assert result.judgement.reason.endswith(" The fault did not show again, so no change can be blamed.")
    assert (result.judgement.fit, result.judgement.left_out) == (False, ())
    assert [plan.iterations for plan in verifier.plans] == [None, 3, None]


def test_what_comes_back_where_the_search_saw_nothing_blames_no_more(naive: Path) -> None:
    # The probes blame zero-grad-none; without it, the same happens again in the whole run.
    verifier = Verifier(lambda seen: BAD if "zero-grad-none" in seen or not verifier.probes[-1] else GOOD)

    result = tried(naive, verifier)

    assert result.judgement is not None
    assert result.judgement.reason.endswith(" The fault shows now and then only, so no change can be blamed.")
    assert not result.judgement.fit
    assert result.changes.rules == {"loader-pin", "h2d-non-blocking"}


def test_all_searches_share_one_time_budget(naive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10_000, 100))
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    verifier = Verifier(bad_with("zero-grad-none"))

    result = tried(naive, verifier, time_budget=150.0)

    assert sum(verifier.probes) == 2
    assert result.judgement is not None
    assert result.judgement.reason == (
        f"{BAD.reason} The time budget of 150 s was spent before the change that does it was found."
    )
    assert (result.judgement.fit, result.judgement.left_out) == (False, ())


def test_an_interrupted_search_is_over(naive: Path) -> None:
    verifier = Verifier(lambda _: replace(GOOD, interrupted=True) if verifier.probes[-1] else BAD)

    result = tried(naive, verifier)

    assert sum(verifier.probes) == 1
    assert result.judgement is not None
    assert (result.judgement.interrupted, result.judgement.fit) == (True, False)


def test_where_no_change_is_left_the_failure_is_what_is_said(naive: Path) -> None:
    verifier = Verifier(bad_with("zero-grad-none"))

    result = tried(naive, verifier, options=Options(select=("zero-grad-none",)))

    assert result.changes.dones[0].rewrite.after == NAIVE
    assert result.judgement is not None
    assert (result.judgement.run, result.judgement.fit) == ("crashed", False)
    assert [rule for rule, _ in result.judgement.left_out] == ["zero-grad-none"]
    assert verifier.seen == [{"zero-grad-none"}, {"zero-grad-none"}, frozenset()]


def test_nothing_rewritten_is_not_verified(naive: Path) -> None:
    verifier = Verifier(lambda _: GOOD)

    result = tried(naive, verifier, options=Options(select=("no-grad-eval",)))

    assert (result.judgement, verifier.plans) == (None, [])


def test_bitwise_changes_are_a_script_of_their_own_where_others_promise_less(naive: Path) -> None:
    verifier = Verifier(lambda _: GOOD)

    tried(
        naive,
        verifier,
        options=Options(level="precision", select=("DEFAULT", "amp"), ignore=("compile", "loader-persistent")),
    )

    (plan,) = verifier.plans
    assert (plan.promise, plan.tolerance, plan.redrawn) == ("precision", 1e-2, False)
    assert plan.bitwise is not None
    assert plan.bitwise.name == naive.name
    (exact,) = verifier.exact
    assert exact == (
        NAIVE.replace("num_workers=2)", "num_workers=2, pin_memory=True)")
        .replace(
            "images, labels = images.to(device), labels.to(device)",
            "images = images.to(device, non_blocking=True)\n        labels = labels.to(device, non_blocking=True)",
        )
        .replace("set_to_none=False", "set_to_none=True")
    )


def test_a_bitwise_change_that_is_none_is_found_among_others(naive: Path) -> None:
    verifier = Verifier(lambda _: GOOD)

    def judged(_: frozenset[str]) -> Judgement:
        return DIFFERENT if "set_to_none=True" in (verifier.exact[-1] or "") else GOOD

    verifier.judged = judged
    verifier.runs = [ORIGINAL, FINE, replace(ORIGINAL, kind="check"), replace(FINE, kind="check", losses=(4.0, 3.5))]
    result = tried(naive, verifier, options=Options(select=("zero-grad-none", "loader-pin", "amp")), keep=True)

    assert result.changes.rules == {"loader-pin", "amp"}
    assert [plan.keep for plan in verifier.plans] == [not probe for probe in verifier.probes]


def test_without_bitwise_changes_there_is_no_script_of_them(naive: Path) -> None:
    verifier = Verifier(lambda _: GOOD)

    tried(naive, verifier, options=Options(select=("amp",)))

    assert [plan.bitwise for plan in verifier.plans] == [None]


@pytest.mark.parametrize(
    ("layers", "redrawn"),
    [
        pytest.param("nn.Flatten(), nn.Linear(784, 10)", False, id="nothing drawn"),
        pytest.param("nn.Flatten(), nn.Dropout(), nn.Linear(784, 10)", True, id="dropout"),
    ],
)
def test_a_compiled_model_that_drops_out_draws_anew(naive: Path, layers: str, redrawn: object) -> None:
    naive.write_text(NAIVE.replace("nn.Flatten(), nn.Linear(784, 10)", layers))
    verifier = Verifier(lambda _: GOOD)

    tried(naive, verifier, options=Options(select=("compile",)))

    assert [(plan.redrawn, plan.tolerance) for plan in verifier.plans] == [(redrawn, 1e-3)]


def test_on_a_simulated_device_everything_acts(naive: Path) -> None:
    result = tried(naive, Verifier(lambda _: replace(GOOD, simulated=True)), device="simulated")

    assert result.judgement is not None
    assert result.judgement.not_measured == ()


CHOSEN = NAIVE.replace('torch.device("cuda")', 'torch.device("cuda" if torch.cuda.is_available() else "cpu")')
TWO_LOADERS = CHOSEN.replace(
    "loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=2)\n",
    "count = 4 if device.type == 'cuda' else 0\n"
    "first = DataLoader(data, batch_size=64, num_workers=4 if device.type == 'cuda' else 0)\n"
    "loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=2)\n",
).replace(
    "    for images, labels in loader:\n", "    for _ in first:\n        pass\n    for images, labels in loader:\n"
)
OPTION = CHOSEN.replace(
    "device = ",
    "import argparse\n\nparser = argparse.ArgumentParser()\nparser.add_argument('--workers', type=int, default=2)\n"
    "args = parser.parse_args()\ndevice = ",
)
MASKED = CHOSEN.replace(
    "nn.functional.cross_entropy(model(images), labels)",
    "nn.functional.cross_entropy(model(images).masked_fill(labels[:, None] < 0, -1e9), labels)",
)
CPU: Environment = {"cuda": False}
VOLTA: Environment = {"cuda": True, "capability": "7.0"}
AMPERE: Environment = {"cuda": True, "capability": "8.0"}


@pytest.mark.parametrize(
    ("text", "rules", "environment", "idle"),
    [
        pytest.param(
            CHOSEN.replace(", num_workers=2", ""),
            ("loader-workers", "loader-persistent"),
            CPU,
            ("loader-persistent", "loader-workers"),
            id="workers that there are with CUDA alone stay where there are some",
        ),
        pytest.param(CHOSEN, ("loader-persistent",), CPU, (), id="workers that there are anywhere"),
        pytest.param(
            OPTION.replace(", num_workers=2", ""), ("loader-workers", "loader-persistent"), CPU, (), id="by an option"
        ),
        pytest.param(
            TWO_LOADERS, ("loader-persistent",), CPU, ("loader-persistent (line 9)",), id="one of two loaders"
        ),
        pytest.param(TWO_LOADERS, ("loader-persistent",), VOLTA, (), id="both loaders with CUDA"),
        pytest.param(CHOSEN, ("amp",), VOLTA, (), id="fp16 where there is no bf16"),
        pytest.param(MASKED, ("amp",), VOLTA, ("amp",), id="bf16 alone, and there is none"),
        pytest.param(MASKED, ("amp",), AMPERE, (), id="bf16 alone, and there is some"),
        pytest.param(MASKED, ("amp",), CPU, ("amp",), id="no CUDA"),
        pytest.param(CHOSEN, ("compile", "zero-grad-none"), CPU, ("compile",), id="one of two rules"),
    ],
)
def test_what_cannot_act_is_told_by_site_and_device(
    naive: Path, text: str, rules: tuple[str, ...], environment: Environment, idle: tuple[str, ...]
) -> None:
    naive.write_text(text)
    result = tried(naive, Verifier(lambda _: replace(GOOD, environment=environment)), options=Options(select=rules))
    assert result.judgement is not None
    assert result.judgement.applied == tuple(sorted(rules))
    assert result.judgement.not_measured == idle


@pytest.mark.parametrize(
    ("capability", "idle"),
    [pytest.param("7.0", ("amp",), id="there is no bf16"), pytest.param("9.0", (), id="there is some")],
)
def test_a_simulated_device_has_a_capability(naive: Path, capability: str, idle: tuple[str, ...]) -> None:
    naive.write_text(MASKED)
    options = Options(select=("amp",))
    result = tried(naive, Verifier(lambda _: GOOD), options=options, device="simulated", capability=capability)
    assert result.judgement is not None
    assert result.judgement.not_measured == idle


def written(naive: Path, environment: Environment, *rules: str) -> tuple[Verified, list[str]]:
    """What is verified where changes of rounding that cannot act are held back, and what is said meanwhile."""
    said: list[str] = []
    plan, options = Plan(naive, naive), Options(select=rules)
    verifier = Verifier(lambda _: replace(GOOD, environment=environment))
    parts = read_project(str(naive))
    return verified(parts, options, plan, verifier, said.append, environment=lambda: environment), said


def test_a_change_of_rounding_that_cannot_act_is_held_back(naive: Path) -> None:
    result, said = written(naive, CPU, "amp", "loader-pin", "zero-grad-none")

    assert result.changes.rules == {"loader-pin", "zero-grad-none"}
    assert said == ["amp held back: --unmeasured writes it all the same"]
    assert result.judgement is not None
    assert result.judgement.left_out == (("amp", "It changes rounding, and nothing of it can act on this device."),)
    assert result.judgement.not_measured == ("loader-pin",)
    (site,) = (site for site in result.changes.sites if site.rule == "amp")
    assert (site.rewrites, site.message, site.code) == (False, HELD_BACK, "not-measured")
    assert site.remedy == "--unmeasured writes it all the same"


def test_where_it_can_act_nothing_is_held_back(naive: Path) -> None:
    result, said = written(naive, AMPERE, "amp", "loader-pin", "zero-grad-none")
    assert result.changes.rules == {"amp", "loader-pin", "zero-grad-none"}
    assert said == []


def test_with_all_held_back_there_is_nothing_to_verify(naive: Path) -> None:
    result, _ = written(naive, CPU, "amp", "compile")
    assert result.judgement is None
    assert result.changes.promise is None


def test_the_device_is_not_asked_for_without_a_change_of_rounding(naive: Path) -> None:
    def environment() -> Environment:
        raise AssertionError

    parts, options = read_project(str(naive)), Options(level="bitwise")
    verifier = Verifier(lambda _: GOOD)
    assert verified(parts, options, Plan(naive, naive), verifier, print, environment=environment).judgement is not None
