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


@pytest.mark.parametrize(
    ("layer", "is_left"),
    [
        pytest.param("nn.Conv2d(1, 8, (3, 8))", True, id="one channel"),
        pytest.param("nn.Conv2d(out_channels=8, in_channels=1, kernel_size=3)", True, id="one channel by its name"),
        pytest.param("nn.Sequential(nn.Conv2d(1, 8, 3), nn.Conv2d(8, 8, 3))", False, id="the second reads eight"),
        pytest.param("nn.Conv2d(*[1, 8, 3])", False, id="what it is given is not seen"),
        pytest.param("nn.ConvTranspose2d(1, 8, 3)", False, id="a transposed one is not meant"),
    ],
)
def test_images_of_one_channel_lie_the_same_in_both_layouts(layer: str, *, is_left: bool) -> None:
    found = fact(layer)
    assert isinstance(found.trained.home, Home)

    reason = found.why_not(found.trained.home)

    assert (reason is not None and reason.code == "nothing-to-gain") is is_left


def test_several_convolutions_of_words() -> None:
    found = script(
        """import torch
import torch.nn.functional as F
from torch import nn


class Words(nn.Module):
    def __init__(self, sizes=(3, 4, 5)):
        super().__init__()
        channels = 1
        self.embed = nn.Embedding(100, 16)
        self.convs = nn.ModuleList([nn.Conv2d(channels, 8, (size, 16)) for size in sizes])

    def forward(self, x):
        x = self.embed(x).unsqueeze(1)
        return torch.cat([F.relu(each(x)).squeeze(3).amax(2) for each in self.convs], 1)


model = Words().cuda()
for x in torch.randint(0, 100, (4, 2, 12)).cuda():
    model(x).sum().backward()
"""
    )
    (trained,) = found.trained_models
    assert isinstance(trained.home, Home)

    reason = ChannelsLast(found, trained).why_not(trained.home)

    assert reason is not None
    assert "one channel" in reason.text
