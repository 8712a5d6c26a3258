from __future__ import annotations

import pytest
from probe import script

from codemods.facts.data.normalizing import Together, normalized_images
from codemods.facts.reason import Reason

SCRIPT = """
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
steps = transforms.Compose([transforms.ToTensor(), transforms.Normalize({})])
train = DataLoader(datasets.MNIST("data", transform=steps), batch_size=64)
test = DataLoader(datasets.MNIST("data", train=False, transform=steps), batch_size=64)
for x, y in train:
    x = x.cuda()
for x, y in test:
    x = x.cuda()
"""


def found(text: str) -> Together | Reason:
    ((_, answer),) = normalized_images(script(text))
    return answer


@pytest.mark.parametrize(
    ("given", "means", "deviations"),
    [
        ("(0.5,), (0.25,)", (0.5,), (0.25,)),
        ("[0.5, 0.5, 0.5], [1, 2, 3]", (0.5,), (1.0, 2.0, 3.0)),
        ("std=(0.5, 0.6), mean=(-0.5, 0.5)", (-0.5, 0.5), (0.5, 0.6)),
        ("0.5, 0.25", (0.5,), (0.25,)),
    ],
)
def test_the_numbers_of_the_channels(given: str, means: tuple[float, ...], deviations: tuple[float, ...]) -> None:
    together = found(SCRIPT.format(given))

    assert isinstance(together, Together)
    (transform,) = together.transforms
    assert (transform.means, transform.deviations) == (means, deviations)


def test_what_changes_together() -> None:
    together = found(SCRIPT.format("(0.5,), (0.5,)"))

    assert isinstance(together, Together)
    assert [(each.transfer.call.lineno, each.loop.lineno) for each in together.moves] == [(9, 8), (11, 10)]


def test_numbers_in_a_list_that_changes_are_not_known() -> None:
    text = SCRIPT.format("MEAN, (0.5,)").replace("steps =", "MEAN = [0.5]\nMEAN.append(0.3)\nsteps =", 1)
    reason = found(text)

    assert isinstance(reason, Reason)
    assert reason.code == "unknown-arguments"


def test_a_transform_of_no_data_set_is_not_asked_about() -> None:
    text = "from torchvision import transforms\nsteps = transforms.Compose([transforms.Normalize(0.5, 0.5)])\n"

    assert list(normalized_images(script(text))) == []
