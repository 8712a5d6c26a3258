"""What stands against the fused step of an optimizer, wherever its parameters are."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.training.fusing import why_not_fused

MADE = (
    "import torch\nfrom torch import nn, optim\nmodel = nn.Linear(1, 2)\noptimizer = optim.Adam(model.parameters())\n"
)


def code_of(text: str, **others: str) -> str:
    """Why the optimizer is not fused; nothing where it may be."""
    known = script(MADE + text, **others)
    reason = why_not_fused(known, known.optimizers[0])
    return "" if reason is None else reason.code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param("", "", id="nothing does"),
        pytest.param("optimizer.load_state_dict(torch.load('x'))\n", "checkpoint-loaded", id="it loads a checkpoint"),
        pytest.param("model.load_state_dict(torch.load('x'))\n", "", id="the model does"),
        pytest.param(
            "other = optim.Adam(model.parameters())\nother.load_state_dict({})\n", "", id="another optimizer does"
        ),
        pytest.param("import tools\ntools.restore(optimizer)\n", "checkpoint-loaded", id="a function may load one"),
        pytest.param("import tools\ntools.log(optimizer)\n", "", id="a function of another name"),
        pytest.param("optimizer.state.clear()\n", "optimizer-state-used", id="its state is used"),
        pytest.param("print(optimizer.state_dict())\n", "", id="its state is saved"),
        pytest.param("optimizer.register_step_post_hook(print)\n", "gradients-read", id="it has a hook"),
        pytest.param("nn.Embedding(3, 2, sparse=True)\n", "not-fusible", id="gradients are sparse"),
        pytest.param("nn.Embedding(3, 2, sparse=False)\n", "", id="they are said not to be"),
        pytest.param("torch.ones(2, dtype=torch.cfloat)\n", "not-fusible", id="numbers are complex"),
        pytest.param("from apex import amp\namp.initialize(model, optimizer)\n", "other-precision", id="apex has it"),
    ],
)
def test_what_stands_against_it(text: str, code: str) -> None:
    assert code_of(text) == code


def test_a_function_that_was_read_is_followed() -> None:
    tools = "def restore(optimizer):\n    print(optimizer)\n"
    loading = "def restore(optimizer):\n    optimizer.load_state_dict({})\n"

    assert code_of("from tools import restore\nrestore(optimizer)\n", tools=tools) == ""
    assert code_of("from tools import restore\nrestore(optimizer)\n", tools=loading) == "checkpoint-loaded"
