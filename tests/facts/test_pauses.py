"""Where iterations wait or tidy up."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.training.pauses import pauses
from codemods.library.idling import Pause

HEAD = """\
import gc
import torch
from torch import nn

net, critic = nn.Linear(4, 1), nn.Linear(4, 1)
loader = torch.utils.data.DataLoader(torch.randn(8, 4))
"""


def found(code: str, **others: str) -> list[tuple[int, set[Pause]]]:
    """The lines below the head, and what is done there."""
    return [
        (each.statement.lineno - HEAD.count("\n"), set(each.kinds)) for each in pauses(script(HEAD + code, **others))
    ]


ITERATIONS = {
    "a loop over batches": ("for x in loader:\n    net(x).sum().backward()\n    gc.collect()\n", 3),
    "a loop until something happens": ("while True:\n    net(torch.ones(4)).backward()\n    gc.collect()\n", 3),
    "an epoch that is one iteration": (
        "for epoch in range(9):\n    gc.collect()\n    net(torch.ones(4)).backward()\n",
        2,
    ),
    "several steps of one network in an iteration": (
        "for x in loader:\n    for _ in range(5):\n        critic(x).sum().backward()\n"
        "    net(x).sum().backward()\n    gc.collect()\n",
        5,
    ),
    "a loop over something else within an iteration": (
        "for x in loader:\n    net(x).sum().backward()\n    for name in names:\n        gc.collect()\n",
        4,
    ),
    "a loop within the forward pass": (
        "class Net(torch.nn.Module):\n    def forward(self, x):\n        for _ in range(4):\n            x = x * x\n"
        "            gc.collect()\n        return x\n\nmodel = Net()\nfor x in loader:\n    net(model(x)).sum().backward()\n",
        5,
    ),
    "a loop that only evaluates": ("for x in loader:\n    net(x)\n    gc.collect()\n", 3),
}


@pytest.mark.parametrize(("code", "line"), ITERATIONS.values(), ids=ITERATIONS)
def test_it_runs_in_each_iteration(code: str, line: int) -> None:
    assert found(code) == [(line, {Pause.COLLECTION})]


EPOCHS = {
    "batches in an inner loop": (
        "for epoch in range(9):\n    for x in loader:\n        net(x).sum().backward()\n    gc.collect()\n"
    ),
    "batches in a function": (
        "def train():\n    for x in loader:\n        net(x).sum().backward()\n\n"
        "for epoch in range(9):\n    train()\n    gc.collect()\n"
    ),
    "the model is called after the batches": (
        "for epoch in range(9):\n    for x in loader:\n        net(x).sum().backward()\n"
        "    print(net(torch.ones(4)))\n    gc.collect()\n"
    ),
    "a loop over something else between epochs": (
        "for epoch in range(9):\n    for x in loader:\n        net(x).sum().backward()\n"
        "    for name in names:\n        gc.collect()\n"
    ),
    "a loop over something else before all": (
        "for name in names:\n    gc.collect()\nfor x in loader:\n    net(x).sum().backward()\n"
    ),
    "the else of a loop": "for x in loader:\n    net(x).sum().backward()\nelse:\n    gc.collect()\n",
}


@pytest.mark.parametrize("code", EPOCHS.values(), ids=EPOCHS)
def test_it_runs_between_iterations(code: str) -> None:
    assert found(code) == []


def test_a_function_that_only_tidies_up_is_known_by_its_calls() -> None:
    clean = "import gc\nimport torch\ndef clean():\n    'Tidies up.'\n    gc.collect()\n    torch.cuda.empty_cache()\n"
    code = "from helpers import clean\nfor x in loader:\n    net(x).sum().backward()\n    clean()\n"

    assert found(code, helpers=clean) == [(4, {Pause.COLLECTION, Pause.CACHE})]


def test_a_function_that_calls_itself_is_followed_once() -> None:
    code = "def train(n):\n    for x in loader:\n        net(x).sum().backward()\n        train(n - 1)\n        gc.collect()\ntrain(3)\n"

    assert found(code) == [(5, {Pause.COLLECTION})]
