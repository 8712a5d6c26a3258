"""May a parameter that an optimizer steps get its first gradient only after others were stepped?"""

from __future__ import annotations

import textwrap

import pytest
import torch
from probe import script

from codemods.facts.models.stepped import Stepped, stepped
from codemods.facts.training.late_gradients import why_late

IMPORTS = """\
import argparse
import random
import torch
import torch.nn.functional as F
from torch import nn, optim
from torchvision.models import resnet18

args = argparse.ArgumentParser().parse_args()
"""
MODEL = "model = resnet18().cuda()\n"
FROZEN = MODEL + "for p in model.parameters():\n    p.requires_grad = False\n"
HEAD = MODEL + "head = nn.Linear(1000, 3).cuda()\n"
TWO = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = resnet18()
        self.head = nn.Linear(1000, 10)
        self.aux = nn.Linear(1000, 10)

    def forward(self, x):
        x = self.backbone(x)
        return self.head(x), self.aux(x)

model = Net().cuda()
"""
SET = "def set_grad(net, on):\n    for p in net.parameters():\n        p.requires_grad = on\n"
SGD = "optimizer = optim.SGD({}, 0.1, momentum=0.9)\n"
ONE, BOTH = SGD.format("model.parameters()"), SGD.format("[*model.parameters(), *head.parameters()]")
LOSS = "loss = F.cross_entropy(model(x), y)\n"
STEP = "optimizer.zero_grad()\nloss.backward()\noptimizer.step()\n"
ALSO = "out = model(x)\nloss = F.cross_entropy(out, y)\nif {}:\n    loss = loss + head(out).sum()\n"
OUTPUTS = "out, aux = model(x)\nloss = F.cross_entropy(out, y)\nif {}:\n    loss = loss + F.cross_entropy(aux, y)\n"


def loop(body: str) -> str:
    return "for epoch in range(10):\n    for i, (x, y) in enumerate(loader):\n" + textwrap.indent(body, " " * 8)


def why(text: str) -> str:
    known = script(IMPORTS + text)
    (made,) = known.optimizers
    found = stepped(known, made)
    assert isinstance(found, Stepped)
    reason = why_late(known, made, found.models)
    return "" if reason is None else reason.text.partition(" (")[0]


IN_TIME = {
    "a plain training": MODEL + ONE + loop(LOSS + STEP),
    "what is frozen stays so": FROZEN + ONE + loop(LOSS + STEP),
    "a head is thawed before": FROZEN + "model.fc.requires_grad_()\n" + ONE + loop(LOSS + STEP),
    "a function thaws it before": SET + MODEL + "set_grad(model.fc, True)\n" + ONE + loop(LOSS + STEP),
    "the function that makes the model does so": "def build():\n    net = resnet18()\n    net.requires_grad_(False)\n"
    "    net.fc.requires_grad_(True)\n    return net.cuda()\nmodel = build()\n" + ONE + loop(LOSS + STEP),
    "the model's constructor does so": TWO.replace(
        "        self.head", "        self.backbone.fc.requires_grad_()\n        self.head"
    )
    + ONE
    + loop("out, aux = model(x)\nloss = out.sum() + aux.sum()\n" + STEP),
    "each pass of a loop has an optimizer of its own": "for fold in range(3):\n"
    + textwrap.indent(MODEL + "model.requires_grad_(True)\n" + ONE + loop(LOSS + STEP), "    "),
    "it is only given what has gradients": FROZEN
    + "model.fc.requires_grad_()\n"
    + SGD.format("[p for p in model.parameters() if p.requires_grad]")
    + "for epoch in range(3):\n    model.requires_grad_(epoch > 1)\n"
    + loop(LOSS + STEP),
    "a name is given what has gradients": FROZEN
    + "given = filter(lambda p: p.requires_grad, model.parameters())\n"
    + SGD.format("given")
    + "model.requires_grad_(True)\n"
    + loop(LOSS + STEP),
    "gradients of images are asked for": MODEL + ONE + loop("x.requires_grad = True\n" + LOSS + STEP),
    "those of another model are": MODEL
    + ONE
    + "other = nn.Linear(2, 2)\n"
    + loop("other.requires_grad_(epoch > 2)\n" + LOSS + STEP),
    "they are dropped later": MODEL + ONE + loop(LOSS + STEP + "model.fc.requires_grad_(False)\n"),
    "an option adds a model": HEAD + BOTH + loop(ALSO.format("args.head") + STEP),
    "an option adds an output": TWO + ONE + loop(OUTPUTS.format("args.aux") + STEP),
    "an output is printed at times": TWO
    + ONE
    + loop("out, aux = model(x)\nloss = out.sum() + aux.sum()\nif i % 9 == 0:\n    print(aux)\n" + STEP),
    "both branches call the model": MODEL
    + ONE
    + loop("if random.random() < 0.5:\n    loss = model(x).sum()\nelse:\n    loss = model(-x).sum()\n" + STEP),
    "it steps where it computes": MODEL
    + ONE
    + loop("if i % 2:\n    " + (LOSS + STEP).replace("\n", "\n    ").rstrip() + "\n"),
    "gradients are added up": MODEL + ONE + loop(LOSS + "loss.backward()\nif i % 4 == 0:\n    optimizer.step()\n"),
    "one of two ways to step": HEAD
    + BOTH
    + loop(
        "loss = head(model(x)).sum()\nif args.amp:\n    scaler.scale(loss).backward()\n    scaler.step(optimizer)\n"
        "else:\n    loss.backward()\n    optimizer.step()\n"
    )
    + "scaler = torch.amp.GradScaler()\n",
    "all gradients are set to None": MODEL
    + ONE
    + loop("for p in model.parameters():\n    if p.grad is not None:\n        p.grad = None\n" + LOSS + STEP),
    "a second training of the same": MODEL + ONE + loop(LOSS + STEP) + loop(LOSS + STEP),
    "all parameters are used": "model = nn.parallel.DistributedDataParallel(resnet18().cuda(), find_unused_parameters=False)\n"
    + ONE
    + loop(LOSS + STEP),
}


@pytest.mark.parametrize("text", IN_TIME.values(), ids=IN_TIME)
def test_nothing_speaks_for_late_gradients(text: str) -> None:
    assert why(text) == ""


THAWED = "gradients of its parameters may be asked for later"
UNSEEN = "what computes its loss may reach other parameters in later steps"
CALLED = "a model that it steps is called in some iterations only"
SKIPS = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.extra = {}

    def forward(self, x):
        x = self.a(x)
        return self.extra(x){}

model = Net().cuda()
"""
LATE = {
    "a backbone is thawed in a later epoch": (
        FROZEN
        + ONE
        + loop("if epoch == 5:\n    for p in model.parameters():\n        p.requires_grad = True\n" + LOSS + STEP),
        THAWED,
    ),
    "between two trainings": (
        SET
        + MODEL
        + "set_grad(model, False)\n"
        + ONE
        + loop(LOSS + STEP)
        + "set_grad(model, True)\n"
        + loop(LOSS + STEP),
        THAWED,
    ),
    "as an epoch says": (FROZEN + ONE + loop("model.requires_grad_(epoch > 3)\n" + LOSS + STEP), THAWED),
    "before an optimizer that is made once in a loop": (
        MODEL
        + "for fold in range(3):\n    model.requires_grad_(fold > 1)\n    if fold == 0:\n        "
        + ONE
        + textwrap.indent(loop(LOSS + STEP), "    "),
        THAWED,
    ),
    "a layer is dropped at random": (
        SKIPS.format("nn.Linear(4, 4)", " if random.random() < 0.5 else x") + ONE + loop(LOSS + STEP),
        "self.extra is reached by some calls of forward and not by others",
    ),
    "a head is not known by its name": (
        SKIPS.format("None", " + getattr(self, str(int(x.sum())))(x)") + ONE + loop(LOSS + STEP),
        "layers are reached by some calls of forward and not by others",
    ),
    "targets choose the clusters": (
        SKIPS.format("nn.AdaptiveLogSoftmaxWithLoss(4, 100, [10])", "") + ONE + loop(LOSS + STEP),
        "AdaptiveLogSoftmaxWithLoss uses only the parts that its targets are in",
    ),
    "a second output joins the loss": (
        TWO + ONE + loop(OUTPUTS.format("epoch > 3") + STEP),
        "'aux', which its model returns, is used in some iterations only",
    ),
    "the task chooses the output": (
        TWO + ONE + loop("out, aux = model(x)\nif i % 2:\n    loss = out.sum()\nelse:\n    loss = aux.sum()\n" + STEP),
        "'out', which its model returns, is used in some iterations only",
    ),
    "a second model joins": (HEAD + BOTH + loop(ALSO.format("epoch > 3") + STEP), CALLED),
    "a part of the model joins": (
        TWO
        + ONE
        + loop("loss = model.head(model.backbone(x)).sum()\nif i > 3:\n    loss += model.aux(x).sum()\n" + STEP),
        CALLED,
    ),
    "two losses take turns": (
        HEAD + BOTH + loop("loss = head(model(x).detach()).sum()\n" + STEP + "loss = head(model(x)).sum()\n" + STEP),
        "it steps several models, by one loss and then by another",
    ),
    "a first training of a part": (
        HEAD + BOTH + loop("loss = model(x).sum()\n" + STEP) + loop("loss = head(model(x)).sum()\n" + STEP),
        "it first steps a part of what it steps here",
    ),
    "gradients of some are dropped": (
        MODEL
        + ONE
        + loop(
            LOSS + "loss.backward()\nfor n, p in model.named_parameters():\n    if epoch < 1 and 'fc' in n:\n"
            "        p.grad = None\noptimizer.step()\n"
        ),
        "gradients of some parameters are dropped",
    ),
    "branches call functions that are not compared": (
        "def fit(model, x):\n    return model(x).sum()\n"
        + MODEL
        + ONE
        + loop("if random.random() < 0.5:\n    loss = fit(model, x)\nelse:\n    loss = fit(model, -x)\n" + STEP),
        UNSEEN,
    ),
    "one model is stepped twice by two losses": (
        TWO + ONE + loop("loss = model(x)[0].sum()\n" + STEP + "loss = model(x)[1].sum()\n" + STEP),
        UNSEEN,
    ),
    "trainings by different losses": (
        HEAD + BOTH + loop("loss = head(model(x)).sum()\n" + STEP) + loop("loss = model(x).sum()\n" + STEP),
        UNSEEN,
    ),
    "the script says so": (
        "model = nn.parallel.DistributedDataParallel(resnet18().cuda(), find_unused_parameters=True)\n"
        + ONE
        + loop(LOSS + STEP),
        "the script says that a pass may leave parameters out",
    ),
}


@pytest.mark.parametrize(("text", "because"), LATE.values(), ids=LATE)
def test_some_gradients_may_come_late(text: str, because: str) -> None:
    assert why(text) == because


def test_what_thaws_a_model_in_another_module_is_found() -> None:
    known = script(
        IMPORTS + "from tools import thaw\n" + FROZEN + ONE + loop("if epoch == 3:\n    thaw(model)\n" + LOSS + STEP),
        tools="def thaw(net):\n    net.requires_grad_(True)\n",
    )
    (made,) = known.optimizers
    found = stepped(known, made)
    assert isinstance(found, Stepped)
    reason = why_late(known, made, found.models)

    assert reason is not None
    assert [(each.module.path, each.lines) for each in reason.places] == [("tools.py", (2,))]


def first(momentum: float, *, grouped: bool, fused: bool) -> None:
    """Two layers, of which the second gets gradients from the third step on."""
    early, late = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    groups = [[*early.parameters()], [*late.parameters()]] if grouped else [[*early.parameters(), *late.parameters()]]
    optimizer = torch.optim.SGD([{"params": each} for each in groups], 0.1, momentum=momentum, fused=fused)
    for step in range(4):
        optimizer.zero_grad()
        x = early(torch.ones(1, 2))
        torch.autograd.backward((late(x) if step > 1 else x).sum())
        optimizer.step()


@pytest.mark.parametrize(
    ("momentum", "grouped", "fused", "fails"),
    [
        pytest.param(0.9, False, True, True, id="fused, with momentum, in one group"),
        pytest.param(0.9, True, True, False, id="in a group of its own"),
        pytest.param(0.0, False, True, False, id="without momentum"),
        pytest.param(0.9, False, False, False, id="not fused"),
    ],
)
def test_torch_fails_at_late_gradients(momentum: float, *, grouped: bool, fused: bool, fails: bool) -> None:
    if fails:
        with pytest.raises(TypeError, match=r"expected Tensor as element \d+ in argument 2, but got NoneType"):
            first(momentum, grouped=grouped, fused=fused)
    else:
        first(momentum, grouped=grouped, fused=fused)
