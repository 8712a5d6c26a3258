"""Losses of probabilities: where the sigmoid stands, who else uses what it returns, and what amp makes of it then."""

from __future__ import annotations

from typing import Any

import pytest
from kit import check_leaves, check_rewrites, run

from autotune_rewrite.rewriting.config import Settings
from autotune_rewrite.rewriting.results import Rewrite
from autotune_rewrite.rewriting.rewrite import Text, rewrite, rewrite_project
from codemods.codemod import Choices, Promise
from codemods.rules.bce_logits import BceLogits

HEAD = """\
import torch
import torch.nn as nn
import torch.nn.functional as F

x = torch.randn(16, 8).cuda()
y = torch.ones(16, 1).cuda()
"""
NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 1){layers}

    def forward(self, x):
{body}

net = Net().cuda()
criterion = nn.BCELoss({options})
loss = criterion(net(x), y)
loss.backward()
"""


def net(body: str, layers: str = "", options: str = "") -> str:
    lines = "".join(f"        {each}\n" for each in body.splitlines()).rstrip("\n")
    made = "".join(f"\n        {each}" for each in layers.splitlines())
    return NET.format(body=lines, layers=made, options=options)


def with_logits(code: str) -> str:
    return code.replace("BCELoss", "BCEWithLogitsLoss")


# Where the sigmoid stands.

FORMS = {
    "around the argument": (
        "loss = F.binary_cross_entropy(torch.sigmoid(x), y, reduction='sum')\n",
        "loss = F.binary_cross_entropy_with_logits(x, y, reduction='sum')\n",
    ),
    "a hook on the sigmoid, and another one takes the argument": (
        net("return torch.sigmoid(self.fc(x))", "self.other = nn.Sigmoid()")
        + "net.other.register_forward_hook(print)\n",
        with_logits(net("return self.fc(x)", "self.other = nn.Sigmoid()")) + "net.other.register_forward_hook(print)\n",
    ),
    "as a method, of the argument by its name": (
        "loss = F.binary_cross_entropy(input=(x + 1).sigmoid(), target=y)\n",
        "loss = F.binary_cross_entropy_with_logits(input=(x + 1), target=y)\n",
    ),
    "as a layer that is made there": (
        "loss = nn.BCELoss()(nn.Sigmoid()(x), y)\n",
        "loss = nn.BCEWithLogitsLoss()(x, y)\n",
    ),
    "in a name": (
        "p = torch.sigmoid(x)\nloss = F.binary_cross_entropy(p, y)\nloss.backward()\n",
        "p = x\nloss = F.binary_cross_entropy_with_logits(p, y)\nloss.backward()\n",
    ),
    "in a name that is given something else later": (
        "p = torch.sigmoid(x)\nloss = F.binary_cross_entropy(p, y)\np = x.mean()\nprint(p)\n",
        "p = x\nloss = F.binary_cross_entropy_with_logits(p, y)\np = x.mean()\nprint(p)\n",
    ),
    "in two branches": (
        "if x.sum() > 0:\n    p = torch.sigmoid(x)\nelse:\n    p = torch.sigmoid(-x)\n"
        "loss = F.binary_cross_entropy(p.view(-1), y)\n",
        "if x.sum() > 0:\n    p = x\nelse:\n    p = -x\nloss = F.binary_cross_entropy_with_logits(p.view(-1), y)\n",
    ),
    "as the last step of forward": (
        net("return torch.sigmoid(self.fc(x))"),
        with_logits(net("return self.fc(x)")),
    ),
    "as a layer of its own": (
        net("x = self.fc(x)\nx = self.act(x)\nreturn x", "self.act = nn.Sigmoid()"),
        with_logits(net("x = self.fc(x)\nreturn x")),
    ),
    "as a layer that is used elsewhere as well": (
        net("x = self.fc(self.act(x))\nreturn self.act(x)", "self.act = nn.Sigmoid()"),
        with_logits(net("x = self.fc(self.act(x))\nreturn x", "self.act = nn.Sigmoid()")),
    ),
    "as the last layer of a sequence": (
        net("x = self.main(x)\nreturn x.view(-1, 1)", "self.main = nn.Sequential(\n    self.fc,\n    nn.Sigmoid(),\n)"),
        with_logits(net("x = self.main(x)\nreturn x.view(-1, 1)", "self.main = nn.Sequential(\n    self.fc,\n)")),
    ),
    "with weights": (
        net("return self.fc(x).sigmoid()", options="torch.ones(1).cuda()"),
        with_logits(net("return self.fc(x)", options="torch.ones(1).cuda()")),
    ),
    "in the outputs of one model for two losses": (
        net("return torch.sigmoid(self.fc(x))")
        + "fake = net(-x)\nfake_loss = criterion(fake, y)\nfake = net(x + 1)\nother = criterion(fake, y)\n",
        with_logits(net("return self.fc(x)"))
        + "fake = net(-x)\nfake_loss = criterion(fake, y)\nfake = net(x + 1)\nother = criterion(fake, y)\n",
    ),
    "under the name of the function": (
        "from torch.nn.functional import binary_cross_entropy\nloss = binary_cross_entropy(torch.sigmoid(x), y)\n",
        "from torch.nn.functional import binary_cross_entropy\nloss = F.binary_cross_entropy_with_logits(x, y)\n",
    ),
    "in what only its sizes are asked of": (
        "p = torch.sigmoid(x)\nF.binary_cross_entropy(p, 0.9 * torch.ones_like(p))\nprint(p.shape, len(y))\n",
        "p = x\nF.binary_cross_entropy_with_logits(p, 0.9 * torch.ones_like(p))\nprint(p.shape, len(y))\n",
    ),
    "in a criterion that two branches make": (
        "if x.sum() > 0:\n    loss_fn = nn.BCELoss().cuda()\nelse:\n    loss_fn = nn.BCELoss()\n"
        "loss = loss_fn(torch.sigmoid(x), y)\n",
        "if x.sum() > 0:\n    loss_fn = nn.BCEWithLogitsLoss().cuda()\nelse:\n    loss_fn = nn.BCEWithLogitsLoss()\n"
        "loss = loss_fn(x, y)\n",
    ),
}


@pytest.mark.parametrize(("before", "after"), FORMS.values(), ids=FORMS)
def test_the_sigmoid_goes_wherever_it_stands(before: str, after: str) -> None:
    check_rewrites(BceLogits, HEAD + before, HEAD + after)


# Where it is left.

FORWARD = net("return torch.sigmoid(self.fc(x))")
USED = "the probabilities are used beside the loss (line {}): use the sigmoid of the logits there"
LAST = len((HEAD + FORWARD).splitlines())
LEFT = {
    "printed": ("p = torch.sigmoid(x)\nF.binary_cross_entropy(p, y)\nprint(p)\n", USED.format(9)),
    "compared in a later pass": (
        "p = torch.sigmoid(-x)\nwhile (p > 0.5).all():\n    p = torch.sigmoid(x)\n    F.binary_cross_entropy(p, y)\n",
        USED.format(8),
    ),
    "read in a function": (
        "p = torch.sigmoid(x)\nF.binary_cross_entropy(p, y)\n\ndef show():\n    print(p)\n\nshow()\n",
        USED.format(11),
    ),
    "computed for an evaluation": (FORWARD + "print(net(x) > 0.5)\n", USED.format(LAST + 1)),
    "computed by forward itself": (FORWARD + "print(net.forward(x))\n", USED.format(LAST + 1)),
    "seen by a hook": (FORWARD + "net.register_forward_hook(print)\n", USED.format(LAST + 1)),
    "a hook on the sigmoid": (
        net("return self.last(self.fc(x))", "self.last = nn.Sigmoid()") + "net.last.register_forward_hook(print)\n",
        f"a hook may be given the probabilities (line {LAST + 2})",
    ),
    "hooks on all layers": (
        net("return self.last(self.fc(x))", "self.last = nn.Sigmoid()")
        + "for layer in net.modules():\n    layer.register_forward_hook(print)\n",
        f"a hook may be given the probabilities (line {LAST + 3})",
    ),
    "a model that is saved": (
        FORWARD + "torch.save({'net': net}, 'net.pt')\n",
        f"net is handed to code that may use its outputs (line {LAST + 1})",
    ),
    "a model in a wrapper": (
        FORWARD + "wrapped = nn.DataParallel(net)\n",
        f"net is handed to code that may use its outputs (line {LAST + 1})",
    ),
    "a sequence whose layers are gone through": (
        "net = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid()).cuda()\nF.binary_cross_entropy(net(x), y)\n"
        "for layer in net:\n    x = layer(x)\n",
        "net is handed to code that may use its outputs (line 9)",
    ),
    "a sequence to which a layer is added": (
        "net = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid()).cuda()\nnet.append(nn.Hardtanh(0, 0.9))\n"
        "F.binary_cross_entropy(net(x), y)\n",
        "net is not seen to be what a sigmoid returns (line 8)",
    ),
    "a criterion whose class is asked for": (
        "criterion = nn.BCELoss()\ncriterion(torch.sigmoid(x), y)\nprint(isinstance(criterion, nn.BCELoss))\n",
        "the script asks of which class criterion is (line 9)",
    ),
    "another object of the class": (FORWARD + "other = Net().cuda()\nprint(other(x))\n", USED.format(LAST + 2)),
    "a method of the class": (
        FORWARD.replace("net = Net", "    def predict(self, x):\n        return self(x) > 0.5\n\nnet = Net"),
        USED.format(16),
    ),
    "a class that derives from it": (
        FORWARD + "class Wide(Net):\n    pass\n",
        "other classes derive from Net, or it from them (line 7)",
    ),
    "a criterion of something else": (
        FORWARD + "criterion(x, y)\n",
        "torch.randn(16, 8).cuda() is not seen to be what a sigmoid returns (line 5)",
    ),
    "no sigmoid": (
        "F.binary_cross_entropy(x.clamp(0, 1), y)\n",
        "x.clamp(0, 1) is not seen to be what a sigmoid returns (line 7)",
    ),
    "a softmax": (
        "F.binary_cross_entropy(x.softmax(1), y)\n",
        "x.softmax(1) is not seen to be what a sigmoid returns (line 7)",
    ),
    "one branch without": (
        "p = x\nif y.sum() > 0:\n    p = torch.sigmoid(x)\nF.binary_cross_entropy(p, y)\n",
        "torch.randn(16, 8).cuda() is not seen to be what a sigmoid returns (line 5)",
    ),
    "a parameter": (
        "def f(p):\n    return F.binary_cross_entropy(p, y)\n\nf(torch.sigmoid(x))\n",
        "p is not seen to be what a sigmoid returns (line 8)",
    ),
    "two losses by one name": (
        "loss = nn.BCELoss() if y.sum() > 0 else nn.MSELoss()\nloss(torch.sigmoid(x), y)\n",
        "loss may be another loss, too (line 8)",
    ),
    "arguments that are not known": (
        "pair = [torch.sigmoid(x), y]\nF.binary_cross_entropy(*pair)\n",
        "which arguments F.binary_cross_entropy is given is not known (line 8)",
    ),
    "TorchScript": (
        FORWARD.replace("class Net", "@torch.jit.script\ndef twice(x):\n    return 2 * x\n\nclass Net"),
        "TorchScript keeps the sigmoid (line 7)",
    ),
}


@pytest.mark.parametrize(("code", "because"), LEFT.values(), ids=LEFT)
def test_it_is_left_for_the_reason_that_decides(code: str, because: str) -> None:
    check_leaves(BceLogits, HEAD + code, because)


def test_without_cuda_there_are_no_16_bits_to_win() -> None:
    code = (HEAD + FORWARD).replace(".cuda()", "")

    check_leaves(BceLogits, code, "no CUDA: nothing in this file moves a model or its batches to a CUDA device")


def test_it_makes_no_room_for_16_bits_that_do_not_pay() -> None:
    settings = Settings(frozenset({"bce-logits"}), Promise.TRAINING, choices=Choices(weighed=frozenset({"bce-logits"})))
    small = GAN.replace("4096", "64")
    result = rewrite("gan.py", small, settings)

    assert result.after == small
    assert [site.message for site in result.sites] == [
        "16 bits bring nothing here, as no layer is wider than 64: casting takes longer than they save"
    ]


def test_a_model_of_another_file_is_left() -> None:
    settings = Settings(frozenset({"bce-logits"}), Promise.TRAINING)
    model = "import torch\nfrom torch import nn\n\n" + FORWARD.partition("net = ")[0].strip() + "\n"
    train = HEAD + "from nets import Net\n\n" + "net = " + FORWARD.partition("net = ")[2]
    texts = [Text("train.py", train, settings), Text("nets.py", model, settings, "nets", is_entry=False)]
    first, second = (each for each in rewrite_project(texts, rounds=((BceLogits,),)) if isinstance(each, Rewrite))

    assert [site.message for site in first.sites] == [
        "the sigmoid and the loss stand in different files (nets.py, line 10)"
    ]
    assert second.sites == ()


# amp takes up what is left of it, and the results are nearly the same.

GAN = """\
import torch
from torch import nn


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(64, 4096), nn.LeakyReLU(0.2), nn.Linear(4096, 1), nn.Sigmoid())

    def forward(self, images):
        validity = self.model(images)
        return validity


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(16, 4096), nn.ReLU(), nn.Linear(4096, 64), nn.Tanh()).to(device)
discriminator = Discriminator().to(device)
adversarial_loss = nn.BCELoss()
optimizer_g = torch.optim.Adam(generator.parameters(), lr=1e-4)
optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=1e-4)
losses = []
for real in torch.randn(4, 32, 64):
    real = real.to(device)
    valid, fake = torch.ones(32, 1).to(device), torch.zeros(32, 1).to(device)
    optimizer_g.zero_grad()
    images = generator(torch.randn(32, 16).to(device))
    loss_g = adversarial_loss(discriminator(images), valid)
    loss_g.backward()
    optimizer_g.step()
    optimizer_d.zero_grad()
    real_loss = adversarial_loss(discriminator(real), valid)
    fake_loss = adversarial_loss(discriminator(images.detach()), fake)
    loss_d = (real_loss + fake_loss) / 2
    loss_d.backward()
    optimizer_d.step()
    losses += [loss_g.item(), loss_d.item()]
"""


def test_amp_rewrites_what_it_left_for_the_sigmoid() -> None:
    alone = rewrite("gan.py", GAN, Settings(frozenset({"amp"}), Promise.TRAINING))
    both = rewrite("gan.py", GAN, Settings(frozenset({"amp", "bce-logits"}), Promise.TRAINING))

    assert "loss-of-probabilities" in {site.code for site in alone.sites}
    assert [site.message for site in both.sites if not site.rewrites] == []
    assert "nn.BCEWithLogitsLoss()" in both.after
    assert "with torch.autocast(" in both.after


def test_losses_agree_as_long_as_no_logit_is_saturated() -> None:
    after = run(BceLogits, GAN).after
    before_state, after_state = dict[str, Any](), dict[str, Any]()
    exec(GAN, before_state)  # noqa: S102 - the script is written above
    exec(after, after_state)  # noqa: S102 - as above

    assert after != GAN
    assert after_state["losses"] == pytest.approx(before_state["losses"], rel=1e-4)
