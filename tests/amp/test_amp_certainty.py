"""Whether a run that comes to a header fails without CUDA anyway."""

from __future__ import annotations

import ast

import pytest
from iteration import script

from codemods.amp.certainty import is_surely_on_cuda
from codemods.facts.devices.conditions import Conditions

HEAD = """\
import sys
import torch
from torch import nn
model = nn.Linear(8, 4)
data = torch.ones(3, 2, 8)
"""
TRAIN = "for x in data:\n    use(model(x.cuda()))\n"


def surely(text: str, **others: str) -> bool:
    """Whether CUDA is sure where ``made = …`` stands, of a script whose training is ``use()``."""
    known = script(text, HEAD, **others)
    (anchor,) = [each for each in known.module.nodes(ast.Assign) if "made" in ast.unparse(each.targets[0])]
    training = [each for each in known.module.nodes(ast.Expr) if ast.unparse(each).startswith("use(")]
    return is_surely_on_cuda(known, Conditions.of_script(known).to_cuda, anchor, training)


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"model.cuda()\nmade = 1\nif sys.argv[1:]:\n    sys.exit()\n{TRAIN}", id="the model was moved"),
        pytest.param(f"made = 1\n{TRAIN}", id="the training follows"),
        pytest.param(f"made = 1\nfor epoch in range(3):\n{indented(TRAIN)}", id="it follows in a loop"),
        pytest.param(f"def train():\n{indented(TRAIN)}made = 1\ntrain()\n", id="it follows in a function"),
        pytest.param(
            f"def make():\n    return nn.Linear(8, 4).cuda()\ndef main():\n    model = make()\n    made = 1\n    if model:\n"
            f"{indented(indented(TRAIN))}main()\n",
            id="a function has moved the model",
        ),
        pytest.param(
            f"model.cuda()\ndef main():\n    made = 1\n    if data.sum():\n        return\n{indented(TRAIN)}main()\n",
            id="the module has moved the model",
        ),
    ],
)
def test_the_run_fails_without_cuda(text: str) -> None:
    assert surely(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"made = 1\nif sys.argv[1:]:\n    sys.exit()\n{TRAIN}", id="the script may end before"),
        pytest.param(
            f"def main():\n    made = 1\n    if sys.argv[1:]:\n        return\n{indented(TRAIN)}main()\n",
            id="the function may return before",
        ),
        pytest.param(f"made = 1\nif not sys.argv[1:]:\n{indented(TRAIN)}", id="the training stands in a branch"),
        pytest.param(
            f"def train():\n{indented(TRAIN)}made = 1\nif not sys.argv[1:]:\n    train()\n",
            id="it is called in a branch",
        ),
        pytest.param(
            f"def train():\n    if sys.argv[1:]:\n        return\n{indented(TRAIN)}made = 1\ntrain()\n",
            id="the function that trains may return before",
        ),
        pytest.param(
            f"if sys.argv[1:]:\n    model.cuda()\nmade = 1\nif sys.argv[1:]:\n{indented(TRAIN)}",
            id="the model is moved in a branch",
        ),
        pytest.param(f"{TRAIN}made = 1\nif made:\n{indented(TRAIN)}", id="another training was before, in a loop"),
        pytest.param(
            f"class Trainer:\n    def __init__(self):\n        made = 1\n    def train(self):\n{indented(indented(TRAIN))}"
            "Trainer().train()\n",
            id="an object is made that may train",
        ),
    ],
)
def test_the_run_may_go_on_without_cuda(text: str) -> None:
    assert not surely(text)


def test_what_is_imported_has_run() -> None:
    text = f"import nets\nmade = 1\nif sys.argv[1:]:\n    sys.exit()\n{TRAIN}"

    assert surely(text, nets="from torch import nn\nnet = nn.Linear(8, 4).cuda()\n")
