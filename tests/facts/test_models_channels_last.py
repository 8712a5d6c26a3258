from __future__ import annotations

import pytest
from probe import script

from codemods.facts.models.channels_last import ChannelsLast, is_chosen
from codemods.facts.models.placement import Home

TRAINING = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = {}
        self.fc = nn.Linear(8, 2)

    def forward(self, x):
        x = self.conv(x)
        return self.fc(x.view(x.size(0), -1))


model = Net().cuda()
for x in torch.randn(4, 2, 3, 8, 8).cuda():
    model(x).sum().backward()
"""


def fact(layer: str) -> ChannelsLast:
    found = script(TRAINING.format(layer))
    (trained,) = found.trained_models
    return ChannelsLast(found, trained)


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        ("nn.Conv2d(3, 8, 3)", True),
        ("nn.Conv3d(3, 8, 3)", True),
        ("nn.Sequential(nn.ReLU(), nn.ConvTranspose2d(3, 8, 3))", True),
        ("nn.Conv1d(3, 8, 3)", False),
        ("nn.Linear(3, 8)", False),
    ],
)
def test_which_models_convolve_images(layer: str, *, expected: bool) -> None:
    assert fact(layer).convolves_images is expected


def test_the_views_that_have_to_change() -> None:
    found = fact("nn.Conv2d(3, 8, 3)")
    home = found.trained.home

    assert [each.lineno for each in found.views] == [13]
    assert isinstance(home, Home)
    assert found.why_not(home) is None
    assert found.why_wrapped() is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("x = torch.zeros(1, 2, 3, 4).to(memory_format=torch.channels_last)\n", True),
        ("from torch import channels_last\nformat = channels_last\n", True),
        ("channels_last = False\n", False),
        ("", False),
    ],
)
def test_whether_the_script_speaks_of_it(line: str, *, expected: bool) -> None:
    assert is_chosen(script("import torch\n" + line)) is expected
