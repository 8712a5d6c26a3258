"""Which statements of a phase go into a block under autocast."""

from __future__ import annotations

import ast

import pytest
from iteration import looped, script

from codemods.amp.blocks import Blocks
from codemods.amp.reasons import LeftError
from codemods.facts.training.loss_regions import Phases

HEAD = "net = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid()).cuda()\nbce = nn.BCELoss()\n"
STEP = "optimizer.step()"


def blocks(*lines: str) -> list[tuple[list[str], list[tuple[str, str]]]]:
    """What each block wraps, and what it names for a loss that stays outside."""
    known = script(HEAD + looped(*lines))
    phases = Phases(known)
    (phase,) = phases.all
    pieces = Blocks(known, phases).of(phase)
    return [
        (
            [ast.unparse(each) for each in piece.statements],
            [(ast.unparse(each.node), each.name) for each in piece.hoists],
        )
        for piece in pieces
    ]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(
            ("y = model(x)", "loss = y.mean()", "loss.backward()"),
            [(["y = model(x)", "loss = y.mean()"], [])],
            id="from the model to the loss",
        ),
        pytest.param(
            ("z = x + 1", "y = model(z)", "loss = y.mean()", "print(z)", "loss.backward()"),
            [(["y = model(z)", "loss = y.mean()"], [])],
            id="neither what is before the model nor what is after the loss",
        ),
        pytest.param(("model(x).mean().backward()",), [], id="a loss where it is differentiated"),
        pytest.param(
            ("y = model(x)", "F.mse_loss(y, x[:, :4]).backward()"),
            [(["y = model(x)"], [])],
            id="a model before a loss where it is differentiated",
        ),
        pytest.param(
            ("y = net(x)", "loss = bce(y, x[:, :1])", "loss.backward()"),
            [(["y = net(x)"], [])],
            id="a loss of probabilities stays outside",
        ),
        pytest.param(
            ("real_loss = bce(net(x), x[:, :1])", "real_loss.backward()"),
            [([], [("net(x)", "real_output")])],
            id="a model inside of such a loss gets a name like the loss's",
        ),
        pytest.param(
            ("a = bce(net(x), x[:, :1])", "b = bce(net(x + 1), x[:, :1])", "loss = a + b", "loss.backward()"),
            [([], [("net(x)", "output"), ("net(x + 1)", "prediction")])],
            id="two of them",
        ),
        pytest.param(
            ("y = net(x)", "loss = bce(y, x[:, :1])", "z = model(x)", "loss = loss + z.mean()", "loss.backward()"),
            [(["y = net(x)"], []), (["z = model(x)", "loss = loss + z.mean()"], [])],
            id="two blocks around it",
        ),
        pytest.param(
            (
                "y = model(x)",
                "with torch.no_grad():\n        t = model(x + 1)",
                "loss = (y - t).mean()",
                "loss.backward()",
            ),
            [
                (["y = model(x)"], []),
                (["with torch.no_grad():\n    t = model(x + 1)"], []),
            ],
            id="a target of the same model has a block of its own",
        ),
        pytest.param(
            (
                "y = model(x)",
                "with torch.no_grad():\n        t = other(x + 1)",
                "loss = (y - t).mean()",
                "loss.backward()",
            ),
            [(["y = model(x)", "with torch.no_grad():\n    t = other(x + 1)", "loss = (y - t).mean()"], [])],
            id="a target of another model is in the block",
        ),
    ],
)
def test_what_goes_into_blocks(lines: tuple[str, ...], expected: object) -> None:
    assert blocks(*lines, STEP) == expected


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        pytest.param(
            ("loss = bce(net(x), net(x + 1)) + net(x).mean()", "loss.backward()"),
            "loss-of-probabilities",
            id="a model beside the loss in one statement",
        ),
        pytest.param(
            (
                "y = net(x)",
                "if a:\n        loss = bce(net(y), x[:, :1])\n    else:\n        loss = y.mean()",
                "loss.backward()",
            ),
            "loss-of-probabilities",
            id="a model inside of a branch",
        ),
        pytest.param(
            ("a = bce(net(x), x[:, :1])", "b = bce(net(x * a), x[:, :1])", "b.backward()"),
            "not-editable",
            id="a model that is given a loss",
        ),
    ],
)
def test_what_cannot_be_taken_out(lines: tuple[str, ...], code: str) -> None:
    with pytest.raises(LeftError) as left:
        blocks(*lines, STEP)

    assert left.value.reason.code == code


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("bce(net(x), x[:, :1]).backward()", True, id="of probabilities"),
        pytest.param("F.mse_loss(net(x), x[:, :1]).backward()", False, id="of numbers"),
    ],
)
def test_whether_the_loss_where_it_is_differentiated_is_outside(line: str, *, expected: bool) -> None:
    known = script(HEAD + looped(line, STEP))
    phases = Phases(known)

    assert Blocks(known, phases).is_outside(phases.all[0]) is expected
