"""Probabilities that 16 bits round to 1: where a logarithm of the rest is a part of the loss, the training is left."""

from __future__ import annotations

import pytest
import torch
from kit import check_leaves, run
from torch import nn

from codemods.rules.amp import Amp

START = """\
import torch
import torch.nn.functional as F
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 4).to(device)
classifier = nn.Sequential(nn.Linear(8, 4), nn.Sequential(nn.ReLU(), nn.Sigmoid())).to(device)
optimizer = torch.optim.SGD([*model.parameters(), *classifier.parameters()], lr=0.1)


class Coder(nn.Module):
    def __init__(self):
        super().__init__()
        self.decoder = nn.Linear(8, 4)

    def forward(self, x):
        return torch.sigmoid(self.decoder(x))


def elbo(p, y):
    return F.binary_cross_entropy(p, y, reduction="sum")


coder = Coder().to(device)
for x, y in zip(torch.randn(6, 16, 8), torch.rand(6, 16, 4)):
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
"""
END = """\
    loss.backward()
    optimizer.step()
"""
OF_LOSS = (
    "probabilities above 0.998 are 1 in bf16, where binary_cross_entropy ({}) has no gradient; "
    "return the logits and use its with_logits form"
)
OF_LOG = (
    "{} has no gradient where a sigmoid is 1 in 16 bits, as it is above 6: F.logsigmoid of the logits needs no sigmoid"
)


OF_CLASS = """\
class Smoothed(nn.BCELoss):
    def forward(self, p, y):
        return super().forward(p, y.clamp(0.1, 0.9))


"""


def test_a_loss_of_a_class_that_derives_from_torchs_is_left() -> None:
    code = lines("p = torch.sigmoid(model(x))", "loss = Smoothed()(p, y)").replace(
        "class Coder", f"{OF_CLASS}class Coder"
    )

    check_leaves(Amp, code, OF_LOSS.format("line 34"))


def lines(*statements: str) -> str:
    """The training with these statements."""
    return START + "".join(f"    {each}\n" for each in statements) + END


@pytest.mark.parametrize(
    ("statements", "because"),
    [
        pytest.param(
            ["p = torch.sigmoid(model(x))", "loss = F.binary_cross_entropy(p, y)"],
            OF_LOSS.format("line 29"),
            id="a function",
        ),
        pytest.param(
            ["p = model(x).sigmoid().float()", "loss = nn.BCELoss()(p, y)"],
            OF_LOSS.format("line 29"),
            id="what is rounded stays rounded when it is converted",
        ),
        pytest.param(
            ["loss = nn.BCELoss()(classifier(x), y)"], OF_LOSS.format("line 28"), id="the last layer of a nested model"
        ),
        pytest.param(["p = nn.Sigmoid()(model(x))", "loss = elbo(p, y)"], OF_LOSS.format("line 21"), id="a layer"),
        pytest.param(["p = coder(x)", "loss = elbo(p, y)"], OF_LOSS.format("line 21"), id="in a forward"),
        pytest.param(
            ["p = model(x).clamp(0, 1)", "loss = nn.BCELoss()(p, y)"],
            OF_LOSS.format("line 29"),
            id="nothing is seen to make probabilities",
        ),
        pytest.param(
            ["p = torch.sigmoid(model(x))", "loss = -torch.log(1 - p + 1e-3).mean()"],
            OF_LOG.format("torch.log(1 - p + 1e-3)") + " (line 29)",
            id="a logarithm",
        ),
        pytest.param(
            ["p = coder(x).float()", "q = 1 - p", "loss = -q.log().mean()"],
            OF_LOG.format("q.log()") + " (line 30)",
            id="a logarithm by names",
        ),
        pytest.param(
            ["p = torch.sigmoid(model(x))", "loss = -torch.log1p(-p).mean()"],
            OF_LOG.format("torch.log1p(-p)") + " (line 29)",
            id="a logarithm of one more",
        ),
    ],
)
def test_a_loss_of_rounded_probabilities_is_left(statements: list[str], because: str) -> None:
    check_leaves(Amp, lines(*statements), because)


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param(["p = torch.sigmoid(model(x).float())", "loss = elbo(p, y)"], id="logits of 32 bits"),
        pytest.param(["z = model(x).float()", "loss = elbo(z.sigmoid(), y)"], id="logits of 32 bits by a name"),
        pytest.param(["z = model(x)", "loss = elbo(z.sigmoid(), y)"], id="outside of the block"),
        pytest.param(["p = model(x).softmax(1)", "loss = elbo(p, y)"], id="autocast computes softmax in 32 bits"),
        pytest.param(
            ["p = torch.sigmoid(model(x).float())", "loss = -torch.log(1 - p).mean()"], id="a logarithm of 32 bits"
        ),
        pytest.param(
            ["p = torch.sigmoid(model(x))", "loss = -torch.log(p).mean()"], id="the logarithm of what is near 1"
        ),
        pytest.param(["p = torch.sigmoid(model(x))", "loss = (p * torch.log(1 - y)).mean()"], id="of labels"),
        pytest.param(["loss = F.binary_cross_entropy_with_logits(model(x), y)"], id="of logits"),
    ],
)
def test_a_loss_of_probabilities_of_32_bits_is_rewritten(statements: list[str]) -> None:
    result = run(Amp, lines(*statements))

    assert "with torch.autocast" in result.after


def test_a_sigmoid_of_bf16_has_no_gradient_above_6() -> None:
    gradients = []
    for format_ in (torch.bfloat16, torch.float32):
        logits = torch.tensor([6.5], dtype=format_, requires_grad=True)
        loss = nn.functional.binary_cross_entropy(torch.sigmoid(logits).float(), torch.zeros(1))
        loss.backward()  # type: ignore[no-untyped-call]
        assert logits.grad is not None
        gradients.append(logits.grad.item())

    assert gradients == [0, pytest.approx(1, abs=0.01)]
