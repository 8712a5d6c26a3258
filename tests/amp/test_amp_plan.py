"""One training iteration in mixed precision: its blocks, its backwards, its validation."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from iteration import looped, script

from codemods.amp.grouping import groups
from codemods.amp.naming import Names
from codemods.amp.plan import Site
from codemods.amp.reasons import BF16_CAN, NO_SCALER, LeftError
from codemods.editing.values import Insert, Replace, Surround, Wrap
from codemods.facts.devices.conditions import Conditions
from codemods.facts.training.loss_regions import Phases
from codemods.facts.training.validations import validations

if TYPE_CHECKING:
    from codemods.codemod import AmpForm

ZERO, STEP = "optimizer.zero_grad()", "optimizer.step()"
LOSS = ("loss = model(x).mean()", "loss.backward()")


def site(text: str, form: AmpForm = "auto") -> Site:
    """The only training iteration of the script."""
    known = script(text)
    phases = Phases(known)
    ((group, iteration),) = groups(known, phases)
    names, blocks = Names.free(known), list(validations(known, phases))
    return Site(known, form, phases, Conditions.of_script(known), names, group, iteration, blocks)


def why_left(text: str, form: AmpForm = "auto") -> tuple[str, str]:
    """The code and the remedy for which it is left."""
    with pytest.raises(LeftError) as left:
        site(text, form).edits()
    return left.value.reason.code, left.value.reason.remedy


def test_a_block_around_the_loss_and_a_scaler_around_backward_and_step() -> None:
    edits = site(looped(ZERO, *LOSS, STEP)).edits()

    assert [[ast.unparse(each) for each in edit.statements] for edit in edits if isinstance(edit, Wrap)] == [
        ["loss = model(x).mean()"]
    ]
    assert [edit.before for edit in edits if isinstance(edit, Surround)] == ["scaler.scale("]
    assert [edit.template for edit in edits if isinstance(edit, Replace)] == ["scaler.step({optimizer})"]
    assert edits[-1] == Insert(edits[-1].module, edits[-1].anchor, "scaler.update()", "after")  # type: ignore[union-attr]


def test_bf16_has_a_block_alone() -> None:
    edits = site(looped(ZERO, *LOSS, STEP), "bf16").edits()

    assert [type(each) for each in edits] == [Wrap]


def test_a_loss_that_is_differentiated_where_it_is_computed_becomes_a_statement() -> None:
    edits = site(looped(ZERO, "F.mse_loss(model(x), x[:, :4]).backward(retain_graph=False)", STEP), "bf16").edits()

    assert [each.template for each in edits if isinstance(each, Replace)] == [
        'with torch.autocast("cuda", dtype=torch.bfloat16):\n    loss = {loss}\nloss.backward(retain_graph=False)'
    ]


def test_what_leaves_the_block_in_16_bits_gets_32_again() -> None:
    edits = site(
        looped(ZERO, "y = model(x)", "loss = y.mean()", "loss.backward()", STEP, "seen.append(y.numpy())")
    ).edits()

    assert "y = y.float()" in [each.code for each in edits if isinstance(each, Insert)]


def test_a_validation_of_its_models_runs_in_mixed_precision_too() -> None:
    below = "with torch.no_grad():\n    for x in torch.ones(4, 2, 8).cuda():\n        y = model(x)\n        seen += y.sum()\n"
    own = site(looped(ZERO, *LOSS, STEP) + below)
    edits = own.edits()

    assert [ast.unparse(each) for block in own.validated for each in block] == ["y = model(x)"]
    assert len([each for each in edits if isinstance(each, Wrap)]) == 2


@pytest.mark.parametrize(
    ("text", "form", "code", "remedy"),
    [
        pytest.param(
            looped(ZERO, "loss = torch.fft.fft(model(x)).abs().mean()", "loss.backward()", STEP),
            "auto",
            "breaks-in-16-bits",
            "",
            id="an operator without a kernel",
        ),
        pytest.param(
            looped(ZERO, "loss = model(x).masked_fill(x[:, :4] > 0, -1e9).mean()", "loss.backward()", STEP),
            "auto",
            "fp16-range",
            BF16_CAN,
            id="a number that fp16 does not hold",
        ),
        pytest.param(
            looped(ZERO, *LOSS, "torch.optim.LBFGS(model.parameters())", STEP),
            "bf16",
            "breaks-in-16-bits",
            "",
            id="LBFGS",
        ),
        pytest.param(
            looped(*LOSS, "model.register_full_backward_hook(f)", STEP),
            "auto",
            "gradients-read",
            NO_SCALER,
            id="a hook",
        ),
        pytest.param(
            "for trial in range(9):\n    own = torch.optim.SGD(model.parameters(), lr=0.1)\n    own.zero_grad()\n"
            "    loss = model(torch.ones(2, 8).cuda()).mean()\n    loss.backward()\n    own.step()\n",
            "auto",
            "made-in-loop",
            NO_SCALER,
            id="an optimizer for one step",
        ),
        pytest.param(
            "net = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid()).cuda()\n"
            + looped("loss = nn.BCELoss()(net(x), x[:, :1])", "loss.backward()", STEP),
            "bf16",
            "loss-of-probabilities",
            "return the logits and use its with_logits form",
            id="a loss of rounded probabilities",
        ),
    ],
)
def test_why_it_is_left(text: str, form: AmpForm, code: str, remedy: str) -> None:
    assert why_left(text, form) == (code, remedy)


def test_a_number_that_fp16_does_not_hold_is_none_of_bf16() -> None:
    lines = (ZERO, "loss = model(x).masked_fill(x[:, :4] > 0, -1e9).mean()", "loss.backward()", STEP)

    assert site(looped(*lines), "bf16").edits()


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param((ZERO, *LOSS, STEP), False, id="an optimizer steps"),
        pytest.param((LOSS[0], "loss.backward(create_graph=True)", STEP), True, id="gradients of gradients"),
        pytest.param((*LOSS, "model[0].weight.data -= model[0].weight.grad"), True, id="an update by hand"),
    ],
)
def test_gradients_that_do_more_than_to_be_stepped_with(lines: tuple[str, ...], *, expected: bool) -> None:
    assert site(looped(*lines)).is_delicate is expected
