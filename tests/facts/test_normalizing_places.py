"""Where numbers may be put on the device by which batches are normalised."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.facts.data.normalizing import Together, normalized_images
from codemods.facts.data.normalizing_places import (
    given_name,
    home_before_loops,
    home_of_all,
    made_for,
    numbers_at,
)

if TYPE_CHECKING:
    from codemods.facts.script import Script

HEAD = """\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
steps = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1, 0.2, 0.3), (0.5, 0.6, 0.7))])
loader = DataLoader(datasets.CIFAR10("data", transform=steps), batch_size=64)
"""


def found(text: str) -> tuple[Script, Together]:
    known = script(text)
    ((_, together),) = normalized_images(known)
    assert isinstance(together, Together)
    return known, together


@pytest.mark.parametrize(
    ("code", "line", "device"),
    [
        pytest.param("for e in range(3):\n    for x, y in loader:\n        x = x.cuda()\n", 6, "'cuda'", id="CUDA"),
        pytest.param("for x, y in loader:\n    x = x.to('cuda:1')\n", 6, "'cuda:1'", id="written out"),
        pytest.param(
            "for e in range(3):\n    device = torch.device('cuda')\n    for x, y in loader:\n        x = x.to(device)\n",
            8,
            "device",
            id="a name of the outer loop",
        ),
        pytest.param(
            "device = torch.device('cuda')\ndef train():\n    for x, y in loader:\n        x = x.to(device)\ntrain()\n",
            8,
            "device",
            id="a name from around the function",
        ),
        pytest.param(
            "class Trainer:\n    def __init__(self):\n        self.device = torch.device('cuda')\n"
            "    def fit(self):\n        for x, y in loader:\n            x = x.to(self.device)\nTrainer().fit()\n",
            10,
            "self.device",
            id="an attribute that the constructor sets",
        ),
    ],
)
def test_tensors_are_made_before_the_outermost_loop_that_knows_the_device(code: str, line: int, device: str) -> None:
    known, together = found(HEAD + code)
    home = home_before_loops(known, together.moves[0])

    assert home is not None
    assert (home.statement.lineno, home.device.replace('"', "'")) == (line, device)


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("for x, y in loader:\n    x = x.to(torch.device('cuda'))\n", id="no name"),
        pytest.param(
            "for x, y in loader:\n    device = torch.device('cuda')\n    x = x.to(device)\n", id="made inside"
        ),
        pytest.param(
            "class Trainer:\n    def fit(self):\n        for x, y in loader:\n            x = x.to(self.device)\n"
            "    def prepare(self):\n        self.device = torch.device('cuda')\n"
            "trainer = Trainer()\ntrainer.prepare()\ntrainer.fit()\n",
            id="an attribute that another method sets",
        ),
    ],
)
def test_a_device_that_is_not_known_before_the_loop_has_no_home(code: str) -> None:
    known, together = found(HEAD + code)

    assert home_before_loops(known, together.moves[0]) is None


TRAIN = "def {0}():\n    for x, y in loader:\n        x = x.to(device)\n{0}()\n"


def test_loops_of_several_functions_share_what_is_made_before_the_transform() -> None:
    top, _, rest = HEAD.partition("steps")
    text = f"{top}device = torch.device('cuda')\nsteps{rest}"
    known, together = found(text + TRAIN.format("train") + TRAIN.format("test"))
    home = home_of_all(known, [together])

    assert home is not None
    assert (home.statement.lineno, home.device) == (5, "device")


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("device = torch.device('cuda')\n" + TRAIN.format("train"), id="one function"),
        pytest.param(
            "device = torch.device('cuda')\n" + TRAIN.format("train") + TRAIN.format("test"), id="the device is later"
        ),
    ],
)
def test_other_loops_share_nothing(code: str) -> None:
    known, together = found(HEAD + code)

    assert home_of_all(known, [together]) is None


@pytest.mark.parametrize(
    ("statement", "name"),
    [("x = x.cuda()", "x"), ("x, y = x.cuda(), y.cuda()", "x"), ("print(x.cuda())", None), ("z = [x.cuda()]", None)],
)
def test_the_name_of_a_moved_batch(statement: str, name: str | None) -> None:
    _, together = found(f"{HEAD}for x, y in loader:\n    {statement}\n")

    assert given_name(together.moves[0]) == name


@pytest.mark.parametrize(("use", "lines"), [("", [4]), ("print(normalize)\n", [])])
def test_what_only_the_transform_uses_is_needed_no_more(use: str, lines: list[int]) -> None:
    named = HEAD.replace("steps =", "normalize = transforms.Normalize((0.1, 0.2, 0.3), (0.5, 0.6, 0.7))\nsteps =")
    named = named.replace("transforms.Normalize((0.1, 0.2, 0.3), (0.5, 0.6, 0.7))])", "normalize])")
    known, together = found(f"{named}{use}for x, y in loader:\n    x = x.cuda()\n")

    assert [each.lineno for each in made_for(known, together)] == lines


def test_numbers_are_written_as_they_are_given() -> None:
    named = HEAD.replace("steps =", "means = (0.1, 0.2, 0.3)\nsteps =").replace("((0.1, 0.2, 0.3)", "(means")
    known, together = found(f"{named}for x, y in loader:\n    x = x.cuda()\n")
    loop = known.module.nodes(ast.For)[0]

    assert [numbers_at(known, together.transforms[0], index, loop) for index in (0, 1)] == ["means", "(0.5, 0.6, 0.7)"]


def test_numbers_whose_name_means_something_else_before_the_loop_are_written_out() -> None:
    named = HEAD.replace("steps =", "means = (0.1, 0.2, 0.3)\nsteps =").replace("((0.1, 0.2, 0.3)", "(means")
    known, together = found(f"{named}means = None\nfor x, y in loader:\n    x = x.cuda()\n")
    loop = known.module.nodes(ast.For)[0]

    assert numbers_at(known, together.transforms[0], 0, loop) == "(0.1, 0.2, 0.3)"
