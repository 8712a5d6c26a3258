"""Where a script looks at a model before it trains it."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.models.looked_at import last_look
from codemods.facts.models.placement import Home

HEAD = """\
import torch
from torch import nn
from torchinfo import summary
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)
    def forward(self, x):
        return self.two(self.one(x))
def main(data):
    model = Net().cuda()
    {beside}
    for x in data:
        model(x).sum().backward()
    {after}
"""


@pytest.mark.parametrize(
    ("beside", "after", "expected"),
    [
        pytest.param("summary(model)", "", "summary(model)", id="a summary"),
        pytest.param("summary(model); writer.add_graph(model, x)", "", "writer.add_graph(model, x)", id="its graph"),
        pytest.param("print(summary(model, (1, 4)))", "", "print(summary(model, (1, 4)))", id="within another call"),
        pytest.param("summary(Net())", "", None, id="another one"),
        pytest.param("model = nn.DataParallel(model); summary(model)", "", None, id="another thing of its name"),
        pytest.param("", "summary(model)", None, id="after it was trained"),
        pytest.param("model(torch.ones(4)); print(model)", "", None, id="it only runs"),
    ],
)
def test_the_last_look_at_a_model(beside: str, after: str, expected: str | None) -> None:
    known = script(HEAD.format(beside=beside, after=after) + "main(torch.ones(3, 4).cuda())\n")
    (model,) = known.trained_models
    assert isinstance(model.home, Home)

    found = last_look(known, model, model.home)

    assert (found and ast.unparse(found)) == expected
