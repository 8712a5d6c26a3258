"""Where ``nn.DataParallel`` may copy a model to several GPUs, and where it does not."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.models.placement import Home
from codemods.facts.models.replication import replicating

HEAD = """\
import argparse
import torch
from torch import nn
args = argparse.ArgumentParser().parse_args()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(4, 4)
        self.two = nn.Linear(4, 4)
    def forward(self, x):
        return self.two(self.one(x))
"""
LOOP = "for x in data:\n    model(x).sum().backward()\n"


def chosen(body: str) -> int | None:
    """The line of the ``if`` that decides, from the first line of the body on."""
    known = script(HEAD + body + LOOP)
    (trained,) = known.trained_models
    assert isinstance(trained.home, Home)
    found = replicating(known, trained, trained.home)
    return None if found is None else found.lineno - HEAD.count("\n")


@pytest.mark.parametrize(
    ("body", "line"),
    [
        pytest.param(
            "model = Net().cuda()\nif args.dp:\n    model = nn.DataParallel(model)\n", 2, id="after it is moved"
        ),
        pytest.param(
            "model = Net()\nif args.dp:\n    model = nn.DataParallel(model)\nmodel.to(device)\n",
            2,
            id="before it is moved to a device that is known",
        ),
        pytest.param(
            "model = Net()\nif args.dp:\n    model = nn.DataParallel(model)\n"
            "device = torch.device(args.device)\nmodel.to(device)\n",
            None,
            id="before its device is known",
        ),
        pytest.param(
            "model = Net()\nif args.dp:\n    model = nn.DataParallel(model).cuda()\nelse:\n    model = model.cuda()\n",
            2,
            id="it is moved on each side",
        ),
        pytest.param(
            "model = Net().cuda()\nif args.dp:\n    model = nn.DataParallel(model)\n"
            "elif args.ddp:\n    model = nn.parallel.DistributedDataParallel(model)\n",
            None,
            id="a chain",
        ),
        pytest.param(
            "model = Net().cuda()\nif args.dp:\n    model = nn.DataParallel(model)\n"
            "else:\n    model = nn.parallel.DistributedDataParallel(model)\n",
            None,
            id="the other side wraps it, too",
        ),
        pytest.param(
            "model = Net().to(device)\nif device.type == 'cuda':\n    model = nn.DataParallel(model)\n",
            None,
            id="wherever there is a GPU",
        ),
        pytest.param(
            "model = Net().to(device)\nif torch.cuda.device_count() > 1:\n    model = nn.DataParallel(model)\n",
            2,
            id="where there are several GPUs",
        ),
        pytest.param(
            "model = Net().to(device)\nif device.type == 'cuda' and args.dp:\n    model = nn.DataParallel(model)\n",
            2,
            id="where there is a GPU and an option is given",
        ),
        pytest.param(
            "net = Net().cuda()\nmodel = net\nif args.dp:\n    model = nn.DataParallel(net)\n", None, id="another name"
        ),
        pytest.param("model = Net().cuda()\nmodel = nn.DataParallel(model)\n", None, id="always"),
        pytest.param(
            "model = Net().cuda()\nmodel = nn.DataParallel(model) if args.dp else model\n", None, id="an expression"
        ),
        pytest.param(
            "model = Net().cuda()\nif args.dp:\n    model = nn.DataParallel(model)\n"
            "if args.more:\n    model = nn.DataParallel(model)\n",
            None,
            id="two of them",
        ),
    ],
)
def test_the_choice_that_decides(body: str, line: int | None) -> None:
    assert chosen(body) == line
