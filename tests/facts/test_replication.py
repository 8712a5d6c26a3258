"""Where ``nn.DataParallel`` may copy a model to several GPUs, and where it does not."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.models.obstacles import wrappers_in_threads
from codemods.facts.models.placement import Home
from codemods.facts.models.replication import is_only_on_several, replicating

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


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("if torch.cuda.device_count() > 1:\n    model = nn.DataParallel(model)\n", True, id="several"),
        pytest.param(
            "if torch.cuda.device_count() >= 2:\n    model = nn.DataParallel(model)\n", True, id="two or more"
        ),
        pytest.param(
            "from torch.cuda import device_count\nif args.dp and device_count() > 1:\n    model = nn.DataParallel(model)\n",
            True,
            id="several, and on request",
        ),
        pytest.param(
            "if args.dp or torch.cuda.device_count() > 1:\n    model = nn.DataParallel(model)\n",
            False,
            id="or on request",
        ),
        pytest.param("if torch.cuda.device_count() >= 1:\n    model = nn.DataParallel(model)\n", False, id="one"),
        pytest.param("if args.gpus > 1:\n    model = nn.DataParallel(model)\n", False, id="as many as the user says"),
        pytest.param(
            "if torch.cuda.device_count() > 1:\n    print(1)\nelse:\n    model = nn.DataParallel(model)\n",
            False,
            id="the other side",
        ),
        pytest.param("model = nn.DataParallel(model)\n", False, id="always"),
        pytest.param(
            "if torch.cuda.device_count() > 1:\n    model = nn.DataParallel(model)\n"
            "elif args.dp:\n    model = nn.DataParallel(model)\n",
            False,
            id="in another arm, too",
        ),
    ],
)
def test_copies_for_several_gpus_alone(body: str, *, expected: bool) -> None:
    known = script(f"{HEAD}model = Net().cuda()\n{body}{LOOP}")
    (trained,) = known.trained_models

    assert is_only_on_several(known.flow, wrappers_in_threads(known, trained)) is expected
