"""A script that fails before any change is left whole, with one line for each rule that would change it."""

from __future__ import annotations

from kit import check_leaves, check_silent

from autotune_rewrite.config import Settings
from autotune_rewrite.report import text
from autotune_rewrite.rewrite import rewrite
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
    lines = text.findings(rewrite("train.py", code, settings), gains=False, quiet=False)

    assert [each.text for each in lines] == [f"train.py:13 loader-pin, zero-grad-none  left: {_BECAUSE}"]


def test_a_rule_without_sites_says_nothing() -> None:
    check_silent(LoaderPin, _CODE)
