"""What else is done with gradients that a scaler would disturb."""

from __future__ import annotations

import pytest
from iteration import looped, scaling

from codemods.amp.gradient_obstacles import GradientObstacles

ZERO, LOSS, STEP = "optimizer.zero_grad()", "model(x).mean().backward()", "optimizer.step()"
CLIP = "nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
OF_OTHER = CLIP.replace("model", "other")
SECOND = ("second.zero_grad()", "other(x).mean().backward()", "second.step()")


def why_not(text: str) -> tuple[str, str] | None:
    reason = GradientObstacles(scaling(text)).why_not()
    return None if reason is None else (reason.code, reason.text)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param((ZERO, LOSS, STEP), id="nobody looks at them"),
        pytest.param((ZERO, LOSS, CLIP, STEP), id="they are clipped"),
        pytest.param((ZERO, LOSS, f"if clipped:\n        {CLIP}", STEP), id="they are clipped in a branch"),
        pytest.param((ZERO, LOSS, STEP, *SECOND), id="two models, one after the other"),
        pytest.param((LOSS, STEP, ZERO), id="they are zeroed last"),
        pytest.param((ZERO, LOSS, LOSS, STEP), id="two backwards add up for one step"),
        pytest.param(
            (LOSS, STEP, "for p in model.parameters():\n        p.grad.zero_()"), id="they are zeroed by hand"
        ),
    ],
)
def test_gradients_that_a_scaler_may_scale(lines: tuple[str, ...]) -> None:
    assert why_not(looped(*lines)) is None


@pytest.mark.parametrize(
    ("lines", "code", "text"),
    [
        pytest.param(
            (ZERO, LOSS, CLIP, f"if ready:\n        {STEP}"),
            "gradients-read",
            "gradients are read or changed outside the branch of the step",
            id="the step alone is in a branch",
        ),
        pytest.param(
            (ZERO, LOSS, CLIP, "if x.isnan().any():\n        continue", STEP),
            "gradients-read",
            "the step may be skipped after gradients were read",
            id="the step may be skipped",
        ),
        pytest.param(
            (ZERO, LOSS, CLIP, LOSS, STEP),
            "gradients-read",
            "gradients are read or changed outside the branch of the step",
            id="another backward follows",
        ),
        pytest.param(
            (ZERO, LOSS, OF_OTHER, STEP),
            "gradients-read",
            "gradients that no optimizer is seen to own are read",
            id="gradients of another model",
        ),
        pytest.param(
            (ZERO, "x.requires_grad_()", LOSS, "print(x.grad)", STEP),
            "gradients-read",
            "gradients that no optimizer is seen to own are read",
            id="gradients of an input",
        ),
        pytest.param(
            ("model.register_full_backward_hook(f)", ZERO, LOSS, STEP),
            "gradients-read",
            "a hook would see scaled gradients",
            id="a hook",
        ),
        pytest.param(
            (LOSS, STEP),
            "gradients-accumulated",
            "the gradients for optimizer.step()",
            id="they are never zeroed",
        ),
        pytest.param(
            (ZERO, LOSS, STEP, "second.zero_grad()", LOSS, "other(x).mean().backward()", "second.step()"),
            None,
            "",
            id="what another backward leaves is zeroed before the next step",
        ),
        pytest.param(
            (LOSS, STEP, "other(x).mean().backward()", "second.step()", "second.zero_grad()"),
            "gradients-accumulated",
            "the gradients for optimizer.step()",
            id="one of two is never zeroed",
        ),
    ],
)
def test_why_a_scaler_stays_out(lines: tuple[str, ...], code: str | None, text: str) -> None:
    reason = why_not(looped(*lines))

    assert (reason and reason[0]) == code
    assert reason is None or text in reason[1]


def test_an_optimizer_that_owns_a_choice_of_parameters() -> None:
    text = "own = torch.optim.SGD([p for p in model.parameters() if p.dim() > 1], lr=0.1)\n" + looped(
        "own.zero_grad()", LOSS, CLIP, "own.step()"
    )
    reason = why_not(text)

    assert reason is not None
    assert reason[1].startswith("the optimizer may own only some of the gradients read in")


def test_of_two_optimizers_it_is_not_known_which_owns_them() -> None:
    text = looped(
        ZERO, "second.zero_grad()", "(model(x) + other(x)).mean().backward()", "clip(find())", STEP, "second.step()"
    )
    text = f"clip = nn.utils.clip_grad_norm_\n{text}"
    reason = why_not(text)

    assert reason is not None
    assert reason[1].startswith("it is not known whose gradients are read in")
