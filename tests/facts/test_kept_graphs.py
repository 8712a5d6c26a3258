"""Which backwards keep their graph, and why something may need it."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.kept_graphs import Keeping, keepings

HEAD = """\
import torch
from torch import nn
model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
"""
LOOP = "for x in torch.randn(3, 2, 4):\n    loss = model(x).mean()\n"


def kept(text: str, **others: str) -> list[Keeping]:
    return list(keepings(script(HEAD + text, **others)))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("loss.backward()", id="it is not asked for"),
        pytest.param("loss.backward(retain_graph=False)", id="it is not wanted"),
        pytest.param("loss.backward(create_graph=True)", id="gradients are differentiated again"),
        pytest.param("loss.backward(retain_graph=True, create_graph=True)", id="both"),
        pytest.param("torch.distributed.autograd.backward(1, [loss])", id="another function takes other arguments"),
        pytest.param("torch.autograd.grad(loss, x, retain_graph=True)", id="it is no backward"),
    ],
)
def test_no_graph_is_kept_to_be_used_again(text: str) -> None:
    assert kept(f"{LOOP}    {text}\n") == []


def test_what_asks_for_it_is_found() -> None:
    (found,) = kept(f"{LOOP}    loss.backward(retain_graph=True)\n")

    assert ast.unparse(found.call) == "loss.backward(retain_graph=True)"
    assert found.argument is found.call.keywords[0]
    assert found.why_needed is None


@pytest.mark.parametrize("call", ["loss.backward(None, True)", "loss.backward(**{'retain_graph': True})"])
def test_what_is_not_written_by_its_name_is_open(call: str) -> None:
    (found,) = kept(f"{LOOP}    {call}\n")

    assert found.argument is None
    assert found.why_needed is not None
    assert found.why_needed.code == "unknown-arguments"


def test_code_that_never_runs_keeps_nothing() -> None:
    main = "from steps import model\nprint(model)\n"
    steps = (
        HEAD + "if __name__ == '__main__':\n    for x in data:\n        model(x).mean().backward(retain_graph=True)\n"
    )

    assert list(keepings(script(main, steps=steps))) == []


def test_a_function_of_another_module_may_differentiate_again() -> None:
    penalty = "import torch\n\ndef penalty(out, x):\n    return torch.autograd.grad(out.sum(), x)\n"
    text = f"from penalties import penalty\n{LOOP}    loss.backward(retain_graph=True)\n    penalty(loss, x)\n"
    (found,) = kept(text, penalties=penalty)

    assert found.why_needed is not None
    assert found.why_needed.code == "graph-used"
    assert found.why_needed.places[0].module.name == "penalties"
