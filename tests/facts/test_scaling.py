"""What is wrong with a scaler or a block of autocast; the sentences are tested with the rule."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.precision.scaling import faults, is_switched_off

HEAD = """\
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler()
"""


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        pytest.param("scaler.scale(loss()).backward()\n scaler.step(optimizer)\n scaler.update()", [], id="right"),
        pytest.param("scaler.scale(loss()).backward()\n optimizer.step()", ["scaled-step"], id="a plain step"),
        pytest.param("loss().backward()\n optimizer.step()", ["idle-scaler"], id="a scaler that is not used"),
        pytest.param("scaler.scale(loss()).backward()\n scaler.step(optimizer)", ["scale-not-updated"], id="no update"),
        pytest.param(
            "scaler.scale(loss()).backward()\n torch.nn.utils.clip_grad_norm_(model.parameters(), 1)\n "
            "scaler.step(optimizer)\n scaler.update()",
            ["clipped-scaled"],
            id="clipped while scaled",
        ),
        pytest.param(
            "scaler.scale(loss()).backward()\n scaler.step(optimizer)\n scaler.update()\n "
            "torch.nn.utils.clip_grad_norm_(model.parameters(), 1)",
            [],
            id="clipped after the step, which divides the gradients",
        ),
        pytest.param(
            "with torch.autocast('cuda'):\n  scaler.scale(loss()).backward()\n scaler.step(optimizer)\n "
            "scaler.update()",
            ["backward-in-autocast"],
            id="a backward within the block",
        ),
    ],
)
def test_what_is_wrong(loop: str, expected: list[str]) -> None:
    known = script(f"{HEAD}def loss():\n return model(torch.ones(4)).sum()\nfor i in range(9):\n {loop}\n")

    assert [reason.code for _, reason in faults(known)] == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(", momentum=0.9, fused=True", ["momentum-unset"], id="fused, with momentum"),
        pytest.param(", momentum=0.9, fused=use_cuda", ["momentum-unset"], id="perhaps fused"),
        pytest.param(", momentum=0.9", [], id="not fused"),
        pytest.param(", fused=True", [], id="without momentum"),
    ],
)
def test_a_scaler_may_leave_momentum_unset(given: str, expected: list[str]) -> None:
    head = HEAD.replace("lr=0.1", f"lr=0.1{given}")
    loop = "scaler.scale(model(torch.ones(4)).sum()).backward()\n scaler.step(optimizer)\n scaler.update()"
    known = script(f"{head}for i in range(9):\n {loop}\n")

    assert [reason.code for _, reason in faults(known)] == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        pytest.param("autocast('cuda', enabled=False)", True, id="by its name"),
        pytest.param("autocast(False)", True, id="by position"),
        pytest.param("autocast('cuda', enabled=flag)", False, id="not known"),
        pytest.param("autocast('cuda')", False, id="on"),
    ],
)
def test_whether_a_block_is_switched_off(call: str, *, expected: bool) -> None:
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)

    assert is_switched_off(node) is expected
