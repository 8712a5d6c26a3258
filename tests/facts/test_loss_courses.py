"""Is each loss of a training seen to be computed by the same parameters in each step?"""

from __future__ import annotations

import ast
import textwrap

import pytest
from probe import script

from codemods.facts.models.stepped import Stepped, stepped
from codemods.facts.training.late_gradients import why_late
from codemods.facts.training.loss_courses import Courses

IMPORTS = """\
import argparse
import itertools
import random
import torch
import torch.nn.functional as F
from torch import nn
from torchvision import models

parser = argparse.ArgumentParser()
parser.add_argument("--aux", action="store_true")
args = parser.parse_args()
"""
NET = """\
class Net(nn.Module):
    def __init__(self, on=False):
        super().__init__()
        self.body = nn.Linear(16, 16)
        self.head = nn.Linear(16, 3)
        self.aux = nn.Linear(16, 3)
        self.blocks = nn.ModuleList([nn.Linear(16, 16) for _ in range(3)])
        self.tasks = nn.ModuleDict({{"a": nn.Linear(16, 3), "b": nn.Linear(16, 3)}})
        self.on = on
        self.count = 0
        self.flags = [False]
        self.options = {{"aux": False}}
        self.active = [self.blocks[0]]
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, x):
{}
"""
MAKE = """\
model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
"""
TWO = "h = self.body(x)\nreturn self.head(h), self.aux(h)"
ONE = "return self.head(self.body(x))"
PLAIN = "loss = F.cross_entropy(model(x), y)"
STEP = "\noptimizer.zero_grad()\nloss.backward()\noptimizer.step()"


def loop(body: str, after: str = "print(epoch)", before: str = "") -> str:
    inner = textwrap.indent(body + STEP, " " * 8)
    return f"{before}for epoch in range(3):\n    for i, (x, y) in enumerate(loader):\n{inner}\n    {after}\n"


def text_of(forward: str, training: str) -> str:
    return IMPORTS + NET.format(textwrap.indent(forward, " " * 8)) + MAKE + training


def decides(text: str) -> str:
    """What may make the loss depend on other parameters in some steps; empty where nothing does."""
    known = script(text)
    made = known.optimizers[-1]
    found = stepped(known, made)
    assert isinstance(found, Stepped), found
    place = Courses(known.flow, found.models, known.iterations).what_varies()
    assert (place is None) >= (why_late(known, made, found.models) is None)
    return "" if place is None else ast.unparse(place[1])


CRITERION = "def criterion(o, y, e):\n    l = F.cross_entropy(o[0], y)\n"
ELBO = "def elbo(out, x, beta):\n    o, a = out\n    l = F.mse_loss(o, x)\n    if beta > 0:\n        l = l - beta * a.mean()\n    return l\n"
CALLBACK = "class Callback:\n    def __init__(self, m):\n        self.m = m\n    def on_epoch_end(self, e):\n        setattr(self.m, 'on', e >= 0)\ncallback = Callback(model)\n"
GAN = "\ndef d_loss(self, x):\n    return self.head(self.body(x).detach()).mean()\ndef g_loss(self, x):\n    return self.head(self.body(x)).mean()"
VARIES = {
    "a loss function adds an output later": (
        TWO,
        CRITERION
        + "    return l + F.cross_entropy(o[1], y) if e > 0 else l\n"
        + loop("loss = criterion(model(x), y, epoch)"),
        "e > 0",
    ),
    "a weight of 0 leaves out a term": (
        TWO,
        ELBO + loop("loss = elbo(model(x), x, 0.0 if epoch < 2 else 1.0)"),
        "beta > 0",
    ),
    "as many outputs as epochs": (
        TWO,
        loop("o = model(x)\nloss = sum(F.cross_entropy(a, y) for a in o[:epoch + 1])"),
        ":epoch + 1",
    ),
    "the epoch chooses the output": (
        TWO,
        loop("o = model(x)\nloss = F.cross_entropy(o[min(epoch, 1)], y)"),
        "min(epoch, 1)",
    ),
    "a weight decides whether there is a term": (
        TWO,
        loop(
            "o, a = model(x)\nloss = F.cross_entropy(o, y)\nloss = loss + (w[epoch] and F.cross_entropy(a, y))",
            before="w = [0, 1, 1]\n",
        ),
        "w[epoch]",
    ),
    "the task chooses a head outside of forward": (
        "return self.body(x)",
        loop("t = random.choice(['a', 'b'])\nloss = F.cross_entropy(model.tasks[t](model(x)), y)"),
        "t",
    ),
    "a function chooses a head": (
        "return self.body(x)",
        "def step(m, x, y, e):\n    h = m(x)\n    f = m.aux if e % 2 else m.head\n    return F.cross_entropy(f(h), y)\n"
        + loop("loss = step(model, x, y, epoch)"),
        "e % 2",
    ),
    "forward returns all heads": (
        "return {k: t(self.body(x)) for k, t in self.tasks.items()}",
        loop("out = model(x)\nloss = F.cross_entropy(out['a' if epoch == 0 else 'b'], y)"),
        "'a' if epoch == 0 else 'b'",
    ),
    "forward cuts the graph at first": (
        "h = self.body(x)\nh = h if self.on else h.detach()\nreturn self.head(h)",
        loop(PLAIN, "model.on = True"),
        "self.on",
    ),
    "the loop cuts the graph at first": (
        "return self.body(x)",
        loop("h = model(x)\nh = h.detach() if epoch == 0 else h\nloss = F.cross_entropy(model.head(h), y)"),
        "epoch == 0",
    ),
    "a callback sets an attribute": (
        "h = self.body(x)\nif self.on:\n    h = self.blocks[0](h)\nreturn self.head(h)",
        CALLBACK + loop(PLAIN, "callback.on_epoch_end(epoch)"),
        "self.on",
    ),
    "experts that some batch needs": (
        "out = 0\nchosen = self.body(x).argmax(1) % 3\nfor k, b in enumerate(self.blocks):\n    m = chosen == k\n"
        "    if m.any():\n        out = out + b(x).masked_fill(~m[:, None], 0)\nreturn self.head(out)",
        loop(PLAIN),
        "m.any()",
    ),
    "an early exit": (
        "for b in self.blocks:\n    x = x + b(x)\n    if x.abs().mean() < 1.2:\n        break\nreturn self.head(x)",
        loop(PLAIN),
        "x.abs().mean() < 1.2",
    ),
    "two losses of one model": (
        ONE + textwrap.indent(GAN, "    ").replace("\n    def", "\ndef").replace("\ndef", "\n\0def").replace("\0", ""),
        loop("loss = model.d_loss(x)\nif i % 3 == 2:\n    loss = loss + model.g_loss(x)"),
        "i % 3 == 2",
    ),
    "the loop is in a function": (
        TWO,
        "def main():\n"
        + textwrap.indent(loop("o = model(x)\nloss = F.cross_entropy(o[min(epoch, 1)], y)"), "    ")
        + "main()\n",
        "min(epoch, 1)",
    ),
    "a dictionary of the model is changed": (
        "h = self.body(x)\nif self.options['aux']:\n    h = self.blocks[0](h)\nreturn self.head(h)",
        loop(PLAIN, "model.options['aux'] = True"),
        "self.options['aux']",
    ),
    "a dictionary of the module is": (
        "h = self.body(x)\nif OPTIONS['aux']:\n    h = self.blocks[0](h)\nreturn self.head(h)",
        loop(PLAIN, "OPTIONS['aux'] = True", "OPTIONS = {'aux': False}\n"),
        "OPTIONS['aux']",
    ),
    "a list of layers grows": (
        "h = self.body(x)\nfor b in self.active:\n    h = b(h)\nreturn self.head(h)",
        loop(PLAIN, "model.active.append(model.blocks[1])"),
        "self.active",
    ),
    "a buffer counts": (
        "self.steps.add_(1)\nh = self.body(x)\nreturn self.head(h) if self.steps < 4 else self.aux(h)",
        loop(PLAIN),
        "self.steps < 4",
    ),
    "the larger of two losses": (
        TWO,
        loop("o, a = model(x)\nloss = max(F.cross_entropy(o, y), F.cross_entropy(a, y))"),
        "max(F.cross_entropy(o, y), F.cross_entropy(a, y))",
    ),
    "a list of losses grows": (
        TWO,
        loop("o = model(x)\nlosses = [o[0].sum()]\nif epoch > 0:\n    losses.append(o[1].sum())\nloss = sum(losses)"),
        "epoch > 0",
    ),
    "a list is repeated": (
        TWO,
        loop("o, a = model(x)\nloss = sum([o.sum()] + [a.sum()] * (epoch > 0))"),
        "epoch > 0",
    ),
    "a dictionary has no item at times": (
        TWO,
        loop("o, a = model(x)\nloss = {0: o.sum()}.get(epoch, a.sum())"),
        "epoch",
    ),
    "heads take turns": (
        ONE,
        loop("loss = next(heads)(x).sum()", before="heads = itertools.cycle([model.head, model.aux])\n"),
        "next(heads)",
    ),
    "a list of functions": (
        ONE,
        loop("loss = fs[epoch % 2](x)", before="fs = [lambda x: model.head(x).sum(), lambda x: model.aux(x).sum()]\n"),
        "epoch % 2",
    ),
    "as many passes as the data say": (
        "h = self.body(x)\nl = h.mean()\nfor r in (x[:, 0] > 1.5).nonzero():\n    l = l + self.head(h[r]).mean()\nreturn l",
        loop("loss = model(x)"),
        "(x[:, 0] > 1.5).nonzero()",
    ),
    "an object counts": (
        TWO,
        loop(
            "o, a = model(x)\nloss = mix(o.sum(), a.sum())",
            before="class Mix:\n    def __init__(self):\n        self.t = 0\n    def __call__(self, l, a):\n        self.t += 1\n"
            "        return l if self.t < 4 else l + a\nmix = Mix()\n",
        ),
        "self.t < 4",
    ),
    "a training is run again with more": (
        TWO,
        "def fit(aux):\n    for x, y in loader:\n        o, a = model(x)\n        loss = o.sum() + (a.sum() if aux else 0)\n"
        + textwrap.indent(STEP, " " * 8)
        + "\nfit(False)\nfit(True)\n",
        "aux",
    ),
    "a second training has another loss": (
        TWO,
        "for x, y in loader:\n    loss = model(x)[0].sum()\n"
        + textwrap.indent(STEP, " " * 4)
        + "\nfor x, y in loader:\n    loss = model(x)[1].sum()\n"
        + textwrap.indent(STEP, " " * 4)
        + "\n",
        "loss.backward()",
    ),
    "a head is chosen before a training that is run again": (
        "return self.body(x)",
        "def fit(aux):\n    head = model.aux if aux else model.head\n    for x, y in loader:\n"
        "        loss = head(model(x)).sum()\n" + textwrap.indent(STEP, " " * 8) + "\nfit(False)\nfit(True)\n",
        "aux",
    ),
    "a name gets another function": (
        TWO,
        loop(
            "loss = f(*model(x))",
            "f = later",
            "def first(o, a):\n    return o.sum()\ndef later(o, a):\n    return o.sum() + a.sum()\nf = first\n",
        ),
        "f(*model(x))",
    ),
    "gradients are switched on by a call": (
        TWO,
        loop(
            "torch.set_grad_enabled(epoch > 0)\na = model.aux(x)\ntorch.set_grad_enabled(True)\nloss = model(x)[0].sum() + a.sum()"
        ),
        "torch.set_grad_enabled(epoch > 0)",
    ),
    "a function appends to the losses": (
        TWO,
        loop(
            "o, a = model(x)\nlosses = [o.sum()]\nadd(losses, a, epoch)\nloss = sum(losses)",
            before="def add(losses, a, e):\n    if e:\n        losses.append(a.sum())\n",
        ),
        "e",
    ),
    "a list of heads grows": (
        ONE,
        loop(PLAIN + "\nfor f in extra:\n    loss = loss + f(x).sum()", "extra.append(model.aux)", "extra = []\n"),
        "extra",
    ),
    "forward is replaced": (ONE, loop(PLAIN, "model.forward = lambda x: x"), "model.forward"),
}


@pytest.mark.parametrize(("forward", "training", "test"), VARIES.values(), ids=VARIES)
def test_a_loss_may_reach_other_parameters(forward: str, training: str, test: str) -> None:
    assert decides(text_of(forward, training)) == test


RESNET = """\
class Block(nn.Module):
    def __init__(self, inputs, outputs, stride=1, downsample=None):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn = nn.BatchNorm2d(outputs)
        self.downsample = downsample
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x):
        identity = x
        out = F.relu(self.bn(self.conv(x)))
        if self.downsample is not None:
            identity = self.downsample(x)
        else:
            identity = self.shortcut(x)
        return F.relu(out + identity)


class Net(nn.Module):
    def __init__(self, depth=3, classes=10):
        super().__init__()
        self.width = 16
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.layer1 = self._make(16, depth, 1)
        self.layer2 = self._make(32, depth, 2)
        self.fc = nn.Linear(32, classes)

    def _make(self, width, depth, stride):
        layers = []
        for each in [stride] + [1] * (depth - 1):
            layers.append(Block(self.width, width, each))
            self.width = width
        return nn.Sequential(*layers)

    def forward(self, x):
        x = self.layer2(self.layer1(F.relu(self.conv(x))))
        x = F.avg_pool2d(x, 4)
        x = x.view(x.size(0), -1)
        return self.fc(x)
"""
VGG = """\
cfg = {"small": [64, "M", 128, "M"]}


class Net(nn.Module):
    def __init__(self, name="small"):
        super().__init__()
        self.features = self._make(cfg[name])
        self.classifier = nn.Linear(128, 10)

    def forward(self, x):
        out = self.features(x)
        out = out.view(out.size(0), -1)
        return self.classifier(out)

    def _make(self, cfg):
        layers = []
        inputs = 3
        for x in cfg:
            if x == "M":
                layers += [nn.MaxPool2d(2)]
            else:
                layers += [nn.Conv2d(inputs, x, 3, padding=1), nn.BatchNorm2d(x), nn.ReLU(inplace=True)]
                inputs = x
        return nn.Sequential(*layers)
"""
DENSE = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv2d(3 + i, 1, 3, padding=1) for i in range(3)])
        self.drop_rate = 0.1
        self.fc = nn.Linear(6, 10)

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            new = F.relu(layer(x))
            if self.drop_rate > 0:
                new = F.dropout(new, p=self.drop_rate, training=self.training)
            x = torch.cat([x, new], 1)
        return self.fc(x.mean((2, 3)))
"""
UNET = """\
class Double(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.double = nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU())

    def forward(self, x):
        return self.double(x)


class Up(nn.Module):
    def __init__(self, inputs, outputs, bilinear=True):
        super().__init__()
        if bilinear:
            self.up = nn.Upsample(scale_factor=2, mode="bilinear")
        else:
            self.up = nn.ConvTranspose2d(inputs, inputs // 2, 2, 2)
        self.conv = Double(inputs, outputs)

    def forward(self, x1, x2):
        x1 = self.up(x1)
        dy = x2.size()[2] - x1.size()[2]
        dx = x2.size()[3] - x1.size()[3]
        x1 = F.pad(x1, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        if x1.shape[2:] != x2.shape[2:]:
            x1 = F.interpolate(x1, size=x2.shape[2:])
        return self.conv(torch.cat([x2, x1], dim=1))


class Net(nn.Module):
    def __init__(self, n_classes=1):
        super().__init__()
        self.n_classes = n_classes
        self.first = Double(3, 8)
        self.down = nn.Sequential(nn.MaxPool2d(2), Double(8, 16))
        self.up = Up(24, 8)
        self.last = nn.Conv2d(8, n_classes, 1)

    def forward(self, x):
        x1 = self.first(x)
        x2 = self.down(x1)
        return self.last(self.up(x2, x1))


def dice(a, b, reduce=False):
    assert a.size() == b.size()
    dims = (-1, -2) if a.dim() == 2 or not reduce else (-1, -2, -3)
    inter = 2 * (a * b).sum(dim=dims)
    sets = a.sum(dim=dims) + b.sum(dim=dims)
    sets = torch.where(sets == 0, inter, sets)
    return ((inter + 1e-6) / (sets + 1e-6)).mean()


def many(a, b, reduce=False):
    return dice(a.flatten(0, 1), b.flatten(0, 1), reduce)


def dice_loss(a, b, multiclass=False):
    fn = many if multiclass else dice
    return 1 - fn(a, b, reduce=True)
"""
UNET_LOOP = """\
masks = model(x)
if model.n_classes == 1:
    loss = criterion(masks.squeeze(1), y.float())
    loss += dice_loss(torch.sigmoid(masks.squeeze(1)), y.float(), multiclass=False)
else:
    loss = criterion(masks, y)
    loss += dice_loss(F.softmax(masks, dim=1).float(), y, multiclass=True)
if i % 100 == 0:
    print(loss.item())"""
DIGITS = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 10, 5)
        self.drop = nn.Dropout2d()
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.drop(self.conv(x)), 2))
        x = torch.flatten(x, 1)
        x = F.dropout(F.relu(self.fc1(x)), training=self.training)
        return F.log_softmax(self.fc2(x), dim=1)
"""
LSTM = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(1, 32, batch_first=True)
        self.cell = nn.LSTMCell(32, 32)
        self.fc = nn.Linear(32, 1)

    def forward(self, x):
        out, _ = self.lstm(x)
        h = c = torch.zeros(x.size(0), 32, device=x.device)
        for t in range(x.size(1)):
            h, c = self.cell(out[:, t], (h, c))
        return self.fc(h)
"""
CRIT = "criterion = nn.CrossEntropyLoss().cuda()\n"
MIXED = """\
r = random.random()
if r < 0.5:
    x, y1, y2, lam = mix(x, y)
    out = model(x)
    loss = criterion(out, y1) * lam + criterion(out, y2) * (1.0 - lam)
else:
    out = model(x)
    loss = criterion(out, y)"""
PHASES = """\
for epoch in range(3):
    for phase in ["train", "val"]:
        if phase == "train":
            model.train()
        else:
            model.eval()
        for x, y in loaders[phase]:
            x, y = x.cuda(), y.cuda()
            optimizer.zero_grad()
            with torch.set_grad_enabled(phase == "train"):
                loss = criterion(model(x), y)
                if phase == "train":
                    loss.backward()
                    optimizer.step()
"""
FUNCTIONS = """\
def train(loader, model, criterion, optimizer, epoch):
    model.train()
    for i, (x, y) in enumerate(loader):
        x, y = x.cuda(), y.cuda()
        output = model(x)
        loss = criterion(output, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 10 == 0:
            print(epoch, loss.item())


def validate(loader, model, criterion):
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            print(criterion(model(x.cuda()), y.cuda()))


for epoch in range(90):
    train(loader, model, criterion, optimizer, epoch)
    validate(loader, model, criterion)
"""
KNOWN = "model = models.resnet18().cuda()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)\n"
SAME = {
    "a residual network with a shortcut": RESNET + MAKE + CRIT + FUNCTIONS,
    "a network by a list of widths": VGG + MAKE + CRIT + FUNCTIONS,
    "a dense network with a list of layers": DENSE + MAKE + CRIT + FUNCTIONS,
    "a U-Net with padding and a dice loss": UNET + MAKE + CRIT + loop(UNET_LOOP),
    "a small network for digits": DIGITS
    + MAKE
    + loop("model.train()\nloss = F.nll_loss(model(x), y)\nif i % 10 == 0:\n    print(loss.item())", "model.eval()"),
    "a recurrent network": LSTM + MAKE + loop("loss = F.mse_loss(model(x).squeeze(), y)"),
    "a network of torchvision in functions": KNOWN + CRIT + FUNCTIONS,
    "phases that train and validate": KNOWN + CRIT + PHASES,
    "images are mixed at times": RESNET + MAKE + CRIT + loop(MIXED),
    "gradients are added up, and steps skipped": KNOWN
    + CRIT
    + "for i, (x, y) in enumerate(loader):\n    loss = criterion(model(x), y) / 4\n    if torch.isnan(loss):\n        continue\n"
    "    loss.backward()\n    if (i + 1) % 4 == 0:\n        optimizer.step()\n        optimizer.zero_grad()\n",
    "an option adds an output": NET.format(textwrap.indent(TWO, " " * 8)).replace("{{", "{")
    + MAKE
    + loop("o, a = model(x)\nloss = o.sum()\nif args.aux:\n    loss = loss + 0.4 * a.sum()"),
    "batches are changed at times": RESNET
    + MAKE
    + CRIT
    + loop("if random.random() < 0.5:\n    x = x.flip(3)\nloss = criterion(model(x), y)"),
}


@pytest.mark.parametrize("text", SAME.values(), ids=SAME)
def test_each_step_reaches_the_same_parameters(text: str) -> None:
    assert decides(IMPORTS + text) == ""
