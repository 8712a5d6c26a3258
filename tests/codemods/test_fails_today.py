"""A script that fails before any change is left whole, with one line for each rule that would change it."""

from __future__ import annotations

import pytest
from kit import check_leaves, check_silent

from autotune_rewrite.report import text as report
from autotune_rewrite.rewriting.config import Settings
from autotune_rewrite.rewriting.results import Rewrite
from autotune_rewrite.rewriting.rewrite import Text, rewrite, rewrite_project
from codemods.codemod import Promise
from codemods.rules.loader_pin import LoaderPin
from codemods.rules.zero_grad_none import ZeroGradNone

_BECAUSE = "the script fails before any change; fix first: loss.data[0]: a loss has no dimensions, write .item() instead of .data[0]"  # fmt: skip
_CODE = """\
import torch
from torch import nn

model = nn.Linear(4, 1)
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in torch.randn(10, 2, 8, 4):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.data[0])
"""


def test_one_site_says_what_fails_and_where() -> None:
    check_leaves(ZeroGradNone, _CODE, _BECAUSE)


def test_rules_share_the_line() -> None:
    pairs = "torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(8, 4), torch.ones(8, 1)))"
    code = _CODE.replace("torch.randn(10, 2, 8, 4)", pairs).replace("model(x)", "model(x.cuda())")
    settings = Settings(frozenset({"zero-grad-none", "loader-pin"}), Promise.PRECISION)
    lines = report.findings(rewrite("train.py", code, settings), check=False, quiet=False)

    assert [each.text for each in lines] == [f"train.py:13:11 loader-pin, zero-grad-none  left: {_BECAUSE}"]


def test_a_rule_without_sites_says_nothing() -> None:
    check_silent(LoaderPin, _CODE)


def test_all_places_are_named() -> None:
    code = _CODE.replace("    print(loss.data[0])\n", "    print(loss.data[0])\n    print(loss.data[0])\n")
    check_leaves(ZeroGradNone, code, _BECAUSE.replace("change;", "change (lines 13, 14);"))


_PIN = """\
import torch
from net import Net

loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(8, 4)))
model = Net().cuda()
for (x,) in loader:
    model(x.cuda()).sum().backward()
"""


@pytest.mark.parametrize(
    ("text", "because"),
    [
        pytest.param(
            "x = x.cuda(async=True)\n",
            "net.py cannot be imported: not Python 3: async is a keyword since Python 3.7; "
            "write non_blocking=… instead of async=…",
            id="not Python",
        ),
        pytest.param(
            "from torchtext.data import Field\nfrom torch import nn\n\nclass Net(nn.Module):\n    pass\n",
            "net.py cannot be imported: torchtext.data.Field cannot be imported: it is gone since torchtext 0.12",
            id="what is gone",
        ),
    ],
)
def test_a_script_that_imports_what_cannot_be_imported(text: str, because: str) -> None:
    settings = Settings(frozenset({"loader-pin"}), Promise.PRECISION)
    texts = [Text("train.py", _PIN, settings, "train"), Text("net.py", text, None, "net", is_entry=False)]
    (result,) = rewrite_project(texts)

    assert isinstance(result, Rewrite)
    assert [(site.line, site.message) for site in result.sites] == [
        (2, f"the script fails before any change; fix first: {because}")
    ]


_RETURNS = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x):
        hidden = self.layer(x)
        return {returned}


model = Net()
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in torch.randn(10, 2, 8, 4):
    optimizer.zero_grad(set_to_none=False)
    out = model(x)
    loss = {loss}
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("returned", "loss", "what"),
    [
        pytest.param("hidden, x", "criterion(out, y)", "out is a tuple, of which criterion", id="a tuple"),
        pytest.param("[hidden, x]", "criterion(out, y)", "out is a list, of which criterion", id="a list"),
        pytest.param(
            "{'out': hidden}",
            "nn.functional.mse_loss(out, y)",
            "out is a dict, of which nn.functional.mse_loss",
            id="a dictionary given to a function",
        ),
    ],
)
def test_a_loss_of_all_that_forward_returns_fails(returned: str, loss: str, what: str) -> None:
    because = f"the script fails before any change; fix first: {what} computes no loss"

    check_leaves(ZeroGradNone, _RETURNS.format(returned=returned, loss=loss), because)


@pytest.mark.parametrize(
    ("returned", "loss"),
    [
        pytest.param("hidden, x", "criterion(out[0], y)", id="of one of its parts"),
        pytest.param("(hidden, x) if len(x) > 99 else hidden", "criterion(out, y)", id="it may return a tensor"),
        pytest.param("hidden, x", "Paired()(out, y)", id="a loss of the script's own"),
    ],
)
def test_a_loss_that_may_be_computed_is_no_failure(returned: str, loss: str) -> None:
    paired = (
        "class Paired(nn.MSELoss):\n    def forward(self, out, y):\n        return super().forward(out[0], y)\n\n\n"
    )
    code = _RETURNS.format(returned=returned, loss=loss).replace("model = Net()", paired + "model = Net()")
    settings = Settings(frozenset({"zero-grad-none"}), Promise.PRECISION)

    (site,) = rewrite("train.py", code, settings).sites

    assert "fix first" not in site.message
