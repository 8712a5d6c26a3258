"""Which training steps do not allow a scaler."""

from __future__ import annotations

import pytest
from iteration import looped, scaling

from codemods.amp.step_obstacles import StepObstacles

LOSS, STEP = "model(x).mean().backward()", "optimizer.step()"
BOTH = "(model(x) + other(x)).mean().backward()"


def why_not(text: str) -> tuple[str, str] | None:
    reason = StepObstacles(scaling(text)).why_not()
    return None if reason is None else (reason.code, reason.text)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param((LOSS, STEP), id="one backward, one step"),
        pytest.param((LOSS, LOSS, STEP), id="two backwards before a step"),
        pytest.param((BOTH, STEP, "second.step()"), id="two optimizers after a backward of both models"),
        pytest.param((LOSS, f"if a:\n        {STEP}"), id="a step in a branch"),
        pytest.param(
            (LOSS, STEP, "scheduler = find()", "scheduler.step()", "scheduler.get_last_lr()"), id="a scheduler"
        ),
        pytest.param((LOSS, STEP, "state, reward = env.step()"), id="an environment, whose result is unpacked"),
    ],
)
def test_steps_that_a_scaler_may_go_around(lines: tuple[str, ...]) -> None:
    assert why_not(looped(*lines)) is None


@pytest.mark.parametrize(
    ("lines", "code", "text"),
    [
        pytest.param(
            (f"def closure():\n        {LOSS}", "optimizer.step(closure)"),
            "step-closure",
            "optimizer.step(closure) is not supported by GradScaler",
            id="a closure",
        ),
        pytest.param((LOSS,), "unseen-step", "the step after the backward in", id="nothing steps"),
        pytest.param(
            (LOSS, "model[0].weight.data -= model[0].weight.grad"),
            "gradients-read",
            "gradients are applied by hand, and nothing would unscale them",
            id="an update by hand",
        ),
        pytest.param(
            (LOSS, "unknown = find()", "unknown.step()"), "unknown-optimizer", "is not known", id="what is not known"
        ),
        pytest.param(
            (LOSS, STEP, "unknown = find()", "unknown.step()"), "unknown-optimizer", "is not known", id="it and another"
        ),
        pytest.param(
            (LOSS, f"print({STEP})"), "not-editable", "is more than a plain statement", id="inside of an expression"
        ),
        pytest.param(
            ("model(x).mean().backward(create_graph=True)", STEP),
            "double-backward",
            "a gradient penalty would be scaled twice",
            id="a graph of the gradients",
        ),
        pytest.param(
            ("g = torch.autograd.grad(model(x).sum(), model.parameters())", LOSS, STEP),
            "gradients-read",
            "nothing scales what torch.autograd.grad differentiates",
            id="gradients beside the backward",
        ),
        pytest.param(
            (f"if a:\n        {LOSS}", STEP),
            "step-without-backward",
            "may run without a backward before it",
            id="a backward in a branch",
        ),
        pytest.param(
            (BOTH, STEP, "second.step()", STEP),
            "several-optimizers",
            "an optimizer steps twice in an iteration",
            id="one of two steps twice",
        ),
        pytest.param(
            (BOTH, STEP, "if a:\n        second.step()\n    else:\n        pass"),
            None,
            "",
            id="one of two steps surely",
        ),
        pytest.param(
            (BOTH, f"if a:\n        {STEP}", "if b:\n        second.step()"),
            "several-optimizers",
            "an iteration may pass without a step",
            id="neither of two steps surely",
        ),
        pytest.param(
            (LOSS, STEP, "second.step()"),
            "step-without-backward",
            "may step without gradients",
            id="the second has no gradients",
        ),
        pytest.param(
            ("(model(x) if a else other(x)).mean().backward()", STEP, "second.step()"),
            "step-without-backward",
            "may step without gradients",
            id="a condition chooses which has some",
        ),
    ],
)
def test_why_a_scaler_stays_out(lines: tuple[str, ...], code: str | None, text: str) -> None:
    reason = why_not(looped(*lines))

    assert (reason and reason[0]) == code
    assert reason is None or text in reason[1]


def test_optimizers_that_share_parameters() -> None:
    text = "third = torch.optim.Adam(model.parameters())\n" + looped(LOSS, STEP, "third.step()")
    reason = why_not(text)

    assert reason is not None
    assert reason[1].startswith("optimizers share parameters")


def test_optimizers_whose_parameters_are_not_known() -> None:
    text = "third = torch.optim.Adam(find())\n" + looped(LOSS, STEP, "third.step()")
    reason = why_not(text)

    assert reason is not None
    assert "are not known, and there are others" in reason[1]


def test_optimizers_that_step_at_different_rates() -> None:
    text = looped(BOTH, STEP, f"for i in range(5):\n        {BOTH}\n        second.step()")
    reason = why_not(text)

    assert reason is not None
    assert reason[1].startswith("optimizers step at different rates")


def test_a_step_in_another_file() -> None:
    known = scaling(
        f"import steps\n{looped(LOSS, 'steps.step(optimizer)')}", steps="def step(optimizer):\n    optimizer.step()\n"
    )
    reason = StepObstacles(known).why_not()

    assert reason is not None
    assert (reason.code, reason.text) == ("unseen-step", "the optimizer steps in another file")


@pytest.mark.parametrize(
    ("loss", "expected"),
    [(LOSS, False), ("model(x).mean().backward(create_graph=True)", True)],
)
def test_whether_gradients_are_differentiated(loss: str, *, expected: bool) -> None:
    assert StepObstacles(scaling(looped(loss, STEP))).differentiates_gradients is expected


MOMENTUM = "optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9{})\n"


@pytest.mark.parametrize(
    ("given", "code"),
    [("", ""), (", fused=False", ""), (", fused=True", "momentum-unset"), (", fused=use_cuda", "momentum-unset")],
)
def test_a_fused_step_that_is_skipped_leaves_momentum_unset(given: str, code: str) -> None:
    reason = why_not(MOMENTUM.format(given) + looped(LOSS, STEP))

    assert (reason or ("",))[0] == code
