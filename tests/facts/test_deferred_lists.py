"""Which lists of what the device computes may hold tensors while a loop runs."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.reason import Reason
from codemods.facts.training.deferral import outcomes
from codemods.facts.training.deferred_lists import DeferredList

CODE = """\
import torch
from torch import nn
model = nn.Linear(4, 2).cuda()
{before}
for x in torch.randn(8, 4, 4):
    loss = model(x.cuda()).sum()
    {inside}
print(losses)
"""


@pytest.mark.parametrize(
    ("before", "inside", "expected"),
    [
        pytest.param("losses = []", "losses.append(loss.item())", None, id="losses"),
        pytest.param("losses = [0.0]", "losses.append(loss.item())", "unknown-number", id="a list with an item"),
        pytest.param("losses = []", "losses.append(float(loss))", None, id="floats"),
        pytest.param("losses = []", "losses.append(int(loss))", "needed-each-step", id="what is cut"),
        pytest.param("losses = []", "losses.append(loss.item() / len(x))", None, id="shares"),
        pytest.param("losses = []", "losses.append(loss.item() / x)", "unknown-number", id="by what is no number"),
        pytest.param(
            "losses = []\nrunning = torch.zeros(3, device='cuda').sum()",
            "running.add_(loss.detach())\n    last = running\n    losses.append(last.item())",
            "needed-each-step",
            id="another name of what is written to",
        ),
        pytest.param(
            "losses = []",
            "value = loss.detach().view(1)\n    losses.append(loss.item())\n    value.mul_(2)",
            "needed-each-step",
            id="what is written to has its memory",
        ),
        pytest.param(
            "losses = []",
            "losses.append(loss.detach().item())\n    loss.data.mul_(2)",
            "needed-each-step",
            id="a view of it is read",
        ),
        pytest.param(
            "losses = []",
            "losses.append(loss.item())\n    torch.distributed.all_reduce(loss.data)",
            "needed-each-step",
            id="other processes write into it",
        ),
        pytest.param(
            "losses = []",
            "torch.distributed.all_reduce(loss.data)\n    losses.append(loss.item())",
            None,
            id="other processes have written into it",
        ),
        pytest.param(
            "losses = []",
            "value = loss.clone()\n    losses.append(loss.item())\n    value.mul_(2)",
            None,
            id="a copy is written to",
        ),
        pytest.param("losses = []", "losses.append((loss.item(), 2))", "needed-each-step", id="pairs"),
        pytest.param(
            "losses = []\nmodel = torch.compile(model, mode='max-autotune')",
            "losses.append(loss.item())",
            "captured",
            id="code writes over its results",
        ),
    ],
)
def test_lists(before: str, inside: str, expected: str | None) -> None:
    ((_, outcome),) = outcomes(script(CODE.format(before=before, inside=inside)))

    assert (outcome.code if isinstance(outcome, Reason) else None) == expected
    assert isinstance(outcome, (Reason, DeferredList))


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        pytest.param("for step in range(500):", None, id="a small number"),
        pytest.param("steps = 500\nfor step in range(steps):", None, id="a small number with a name"),
        pytest.param("for step in range(0, len(data), 32):", None, id="the length of data"),
        pytest.param("for x in data:", None, id="what there is of data"),
        pytest.param("for step in range(10_000_000):", "grows-long", id="a large number"),
        pytest.param(
            "import argparse\nargs = argparse.ArgumentParser().parse_args()\nfor step in range(args.steps):",
            "grows-long",
            id="a number that the user chooses",
        ),
        pytest.param("import itertools\nfor step in itertools.count():", "grows-long", id="no end"),
        pytest.param("while data.sum() > 0:", "grows-long", id="a condition"),
    ],
)
def test_a_loop_of_many_passes(loop: str, expected: str | None) -> None:
    code = CODE.replace("for x in torch.randn(8, 4, 4):", loop).replace("x.cuda()", "data.cuda()")
    before = "data, losses = torch.randn(8, 4), []"
    ((_, outcome),) = outcomes(script(code.format(before=before, inside="losses.append(loss.item())")))

    assert (outcome.code if isinstance(outcome, Reason) else None) == expected
