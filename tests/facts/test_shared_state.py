"""What do workers not share with the script."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.workers.ingredients import why_changed_while_read
from codemods.facts.workers.payload import worker_code
from codemods.facts.workers.shared_state import changes, changes_of_what_is_sent, why_not_shared

HEAD = """\
import random
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
{before}
class Data(Dataset):
    def __init__(self):
        self.items = list(range(8))
        self.size = 8
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return {item}
    def resize(self, size):
        self.size = size
    def drop(self):
        self.items.pop()
    def mix(self):
        random.shuffle(self.items)
    def mixed(self):
        self.mix()
    def show(self):
        return len(self.items)
{after}
data = Data()
loader = DataLoader(data, num_workers=2)
"""
MAIN = "if __name__ == '__main__':\n"


def why(item: str, before: str = "", after: str = "", end: str = "") -> str | None:
    known = script(HEAD.format(item=item, before=before, after=after) + end)
    (loader,) = known.loaders
    reason = why_not_shared(worker_code(known.flow, loader))
    return None if reason is None else reason.code


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param({"item": "self.items[index]"}, None, id="its own"),
        pytest.param({"item": "ROOT + str(index)", "before": "ROOT = 'data'"}, None, id="a constant of the module"),
        pytest.param(
            {"item": "ROOT + str(index)", "end": f"{MAIN}    ROOT = 'data'\n"},
            "unseen-by-workers",
            id="a name that only the script binds",
        ),
        pytest.param(
            {"item": "OPTIONS['size']", "before": "OPTIONS = {}", "end": f"{MAIN}    OPTIONS['size'] = 3\n"},
            "unseen-by-workers",
            id="a dict that only the script fills",
        ),
        pytest.param(
            {"item": "self.items[index]", "end": f"{MAIN}    torch.set_default_dtype(torch.float64)\n"},
            "unseen-by-workers",
            id="a default of torch",
        ),
    ],
)
def test_what_workers_do_not_see(arguments: dict[str, str], expected: str | None) -> None:
    assert why(**arguments) == expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        pytest.param("data.size = 4", True, id="an attribute"),
        pytest.param("setattr(data, 'size', 4)", True, id="an attribute by its name"),
        pytest.param("setattr(other, 'size', 4)", False, id="an attribute of something else"),
        pytest.param("data.resize(4)", True, id="a method that sets one"),
        pytest.param("data.items[0] = 4", True, id="an item"),
        pytest.param("data.items.append(4)", True, id="a list grows"),
        pytest.param("random.shuffle(data.items)", True, id="the order"),
        pytest.param("data.drop()", True, id="a method that shortens a list"),
        pytest.param("data.mix()", True, id="a method that changes the order"),
        pytest.param("data.mixed()", True, id="a method that calls such a one"),
        pytest.param("data.show()", False, id="a method that reads"),
        pytest.param("print(data.items[0])", False, id="an item is read"),
        pytest.param("print(data.items.index(3))", False, id="a list is asked"),
    ],
)
def test_the_script_changes_the_data_set(statement: str, expected: bool) -> None:  # noqa: FBT001 - the expectation
    loop = f"for epoch in range(3):\n    for x in loader:\n        {statement}\n"
    known = script(HEAD.format(item="index", before="", after="") + loop)
    (loader,) = known.loaders

    assert any(changes_of_what_is_sent(worker_code(known.flow, loader))) is expected
    assert (why_changed_while_read(worker_code(known.flow, loader)) is not None) is expected


def test_between_two_epochs_it_is_not_being_read() -> None:
    loop = "for epoch in range(3):\n    data.mix()\n    for x in loader:\n        pass\n"
    known = script(HEAD.format(item="index", before="", after="") + loop)
    (loader,) = known.loaders

    assert any(changes_of_what_is_sent(worker_code(known.flow, loader)))
    assert why_changed_while_read(worker_code(known.flow, loader)) is None


@pytest.mark.parametrize(
    ("code", "paths"),
    [
        ("opt.root = 1", ["opt.root"]),
        ("opt.model[0].size = 1", ["opt.model"]),
        ("cache['a'] = 1", ["cache"]),
        ("del cache['a']", ["cache"]),
        ("cache.append(1)", ["cache"]),
        ("setattr(opt, 'root', 1)", ["opt"]),
        ("random.shuffle(opt.order)", ["opt.order"]),
        ("cache = 1", []),
        ("cache.index(1)", []),
        ("make().root = 1", [""]),
    ],
)
def test_what_code_changes_without_binding_a_name(code: str, paths: list[str]) -> None:
    known = script(code)

    assert [path for path, _ in changes(known.module.tree)] == paths


HELD = """\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
class Crop:
    def __init__(self, size):
        self.size, self.seen = size, []
    def __call__(self, image):
        return image[..., : self.size]
    def shrink(self):
        self.size -= 1
class Pad:
    def __init__(self):
        self.length = 3
    def __call__(self, items):
        return torch.stack([each[: self.length] for each in items])
class Kept(torch.utils.data.Dataset):
    def __init__(self, targets):
        self.targets = targets
    def __getitem__(self, index):
        return self.targets[index]
crop, pad, targets = Crop(3), Pad(), torch.zeros(9)
images = datasets.ImageFolder("d", transforms.Compose([transforms.ToTensor(), crop]))
loader = DataLoader({data}, collate_fn=pad)
for epoch in range(3):
    for x in loader:
        {statement}
"""


@pytest.mark.parametrize(
    ("statement", "data", "expected"),
    [
        pytest.param("crop.size = 2", "images", "its data set", id="a transform"),
        pytest.param("crop.shrink()", "images", "its data set", id="a method of a transform"),
        pytest.param("images.transform.transforms[1].size = 2", "images", "its data set", id="one that is reached"),
        pytest.param("images.transform.transforms.append(crop)", "images", "its data set", id="one more transform"),
        pytest.param("pad.length += 1", "images", "its collate_fn", id="what puts items together"),
        pytest.param("loader.collate_fn.length += 1", "images", "its collate_fn", id="the same, by the loader"),
        pytest.param("loader.collate_fn = Pad()", "images", "its collate_fn", id="another one"),
        pytest.param("targets[0] = 1", "Kept(targets)", "its data set", id="a tensor that it holds"),
        pytest.param("targets[0] = 1", "images", None, id="a tensor that it does not hold"),
        pytest.param("crop.seen.append(1)", "images", None, id="what no worker reads"),
        pytest.param("crop.size = 2", "Kept(targets)", None, id="a transform of another data set"),
    ],
)
def test_the_script_changes_what_the_data_set_works_with(statement: str, data: str, expected: str | None) -> None:
    known = script(HELD.format(data=data, statement=statement))
    (loader,) = known.loaders

    reason = why_changed_while_read(worker_code(known.flow, loader))

    assert (reason.text.partition(" is changed")[0] if reason is not None else None) == expected
