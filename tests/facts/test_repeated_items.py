"""Which code makes the same item each time, and what of other code is named."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.data.kept_items import own_datasets
from codemods.facts.data.repeated_items import why_items_differ

HEAD = """\
import json
import random
import warnings

import cv2
import numpy as np
import torch
import torch.nn.functional as F
import torchvision.transforms.functional as TF
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from torchvision.transforms import v2
import albumentations


class Times:
    def __init__(self, n):
        self.n = n

    def __call__(self, image):
        return TF.to_tensor(image) * self.n


class Cells(Dataset):
    def __init__(self, paths, transform=None):
        self.paths = paths
        self.transform = transform

    def __len__(self):
        return len(self.paths)

    @property
    def size(self):
        return random.random()

    def load(self, path):
        return np.array(Image.open(path))

    def __getitem__(self, i):
        image = Image.open(self.paths[i])
        row = self.paths[i]
        {}
        return image


loader = DataLoader(Cells(["a.png"], {}))
"""


def differs(code: str, transform: str = "None") -> str | None:
    """Why items that are made with this line, too, may differ."""
    asked = script(HEAD.format(code.replace("\n", "\n        "), transform))
    (found,) = (each for each in own_datasets(asked) if each.class_.name == "Cells")
    reason = why_items_differ(found.code)
    return None if reason is None else reason.words.said(asked.module).text.partition(" (line")[0]


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("x = np.array(image)\nx[0] = 1\nx += 2\nx.sort()", id="an array of its own is changed"),
        pytest.param("d = {}\nd[i] = 1\nd.update(a=2)", id="a dictionary of its own"),
        pytest.param("x = row.copy()\nx[0] = 1", id="a copy is changed"),
        pytest.param("with Image.open(row) as x:\n    image = x.convert('L')", id="a block"),
        pytest.param("f = open(row)\nt = json.load(f)\nf.close()", id="a file of its own"),
        pytest.param("x = self.load(row)", id="a method of its own"),
        pytest.param("x = i % len(self)", id="the length"),
        pytest.param("x = sorted(self.paths, key=lambda p: p.lower())", id="a key"),
        pytest.param("x = TF.to_tensor(image).to(torch.float16)", id="another number format"),
        pytest.param("if i > 3:\n    raise IndexError(i)", id="an error"),
        pytest.param("x = transforms.ToTensor()(image)", id="a transform that is made anew"),
        pytest.param("x = self.transform(image) if self.transform else 1", id="what is never there"),
    ],
)
def test_code_that_repeats(code: str) -> None:
    assert differs(code) is None


@pytest.mark.parametrize(
    ("code", "why"),
    [
        pytest.param(
            "x = np.random.rand()", "np.random.rand() draws random numbers for each item in each epoch", id="NumPy"
        ),
        pytest.param("x = torch.rand(1)", "torch.rand() draws random numbers for each item in each epoch", id="torch"),
        pytest.param(
            "x = np.random.RandomState(i).rand()",
            "np.random.RandomState(i).rand() draws random numbers for each item in each epoch",
            id="a generator",
        ),
        pytest.param(
            "x = transforms.RandomCrop(3)(image)",
            "RandomCrop draws random numbers for each item in each epoch",
            id="a transform",
        ),
        pytest.param("print(i)", "print() tells of each item that is read", id="it prints"),
        pytest.param("warnings.warn('x')", "warnings.warn() tells of each item that is read", id="it warns"),
        pytest.param(
            "self.n = 1", "whether 'self.n' is the same each time that an item is read is not known", id="a flag"
        ),
        pytest.param("self.paths.append(i)", "reading an item changes the data set or the script", id="a list grows"),
        pytest.param(
            "row['x'] = image", "reading an item changes the data set or the script", id="a dictionary that it holds"
        ),
        pytest.param(
            "x = np.asarray(row)\nx[0] = 1", "reading an item changes the data set or the script", id="the same memory"
        ),
        pytest.param(
            "for p in self.paths:\n    p['x'] = 1", "reading an item changes the data set or the script", id="in a loop"
        ),
    ],
)
def test_what_is_known_to_differ(code: str, why: str) -> None:
    assert differs(code) == why


@pytest.mark.parametrize(
    ("code", "what"),
    [
        pytest.param("x = next(self.it)", "what next() returns", id="an iterator"),
        pytest.param("x = self.file.read(3)", "what self.file.read() returns", id="a file that stays open"),
        pytest.param("x = open(row, 'a')", "what open() returns", id="a file that is written"),
        pytest.param("x = torch.ones(3, device='cuda')", "what torch.ones() does with 'device'", id="on a device"),
        pytest.param("x = image.cuda()", "what image.cuda() returns", id="a copy on a device"),
        pytest.param("x = image.to('cuda')", "what image.to() returns", id="another one"),
        pytest.param("F.relu(row, inplace=True)", "what F.relu() does with 'inplace'", id="in place"),
        pytest.param("cv2.imwrite('x', image)", "what cv2.imwrite() returns", id="a file is written"),
        pytest.param(
            "x = list(map(random.random, []))", "what 'random.random' does here", id="a function is handed on"
        ),
        pytest.param("x = self.size", "'self.size', which a property computes,", id="a property"),
        pytest.param("x = [y for y in self]", "what 'self' does here", id="its other items"),
        pytest.param("x = getattr(self, 'f')()", "what getattr(self, 'f')() returns", id="a computed name"),
        pytest.param("global LAST\nLAST = i", "'global LAST'", id="a global name"),
        pytest.param("x = torch.nn.Linear(2, 2)", "what torch.nn.Linear() returns", id="a layer"),
        pytest.param(
            "import encoders\nx = encoders.Encoder().encode(row)",
            "what encoders.Encoder().encode() returns",
            id="an object of another library",
        ),
    ],
)
def test_what_is_not_known(code: str, what: str) -> None:
    assert differs(code) == f"whether {what} is the same each time that an item is read is not known"


@pytest.mark.parametrize(
    ("transform", "why"),
    [
        pytest.param("transforms.ToTensor()", None, id="one"),
        pytest.param("transforms.Compose([transforms.Resize(3), transforms.ToTensor()])", None, id="several"),
        pytest.param("transforms.Compose([transforms.Compose([transforms.ToTensor()])])", None, id="nested ones"),
        pytest.param("transforms.Compose([transforms.Lambda(lambda x: TF.to_tensor(x))])", None, id="a lambda"),
        pytest.param("v2.Compose([v2.Resize(3), v2.Lambda(lambda x: v2.functional.hflip(x))])", None, id="version 2"),
        pytest.param("Times(3)", None, id="an object of the script's"),
        pytest.param(
            "albumentations.Resize(3, 3)",
            "whether what Resize makes of what it is given is the same each time that an item is read is not known",
            id="another package",
        ),
        pytest.param(
            "transforms.Compose([transforms.RandomHorizontalFlip()])",
            "RandomHorizontalFlip draws random numbers for each item in each epoch",
            id="one draws",
        ),
        pytest.param(
            "transforms.Compose([transforms.Lambda(lambda x: x * random.random())])",
            "random.random() draws random numbers for each item in each epoch",
            id="a lambda draws",
        ),
        pytest.param(
            "transforms.Compose(STEPS)",
            "whether what Compose makes of an image is the same each time that an item is read is not known",
            id="steps that are not seen",
        ),
        pytest.param(
            "ANY",
            "whether what self.transform() returns is the same each time that an item is read is not known",
            id="nothing is known of it",
        ),
    ],
)
def test_transforms(transform: str, why: str | None) -> None:
    assert differs("image = self.transform(image)", transform) == why


def test_what_the_script_replaces() -> None:
    asked = script(HEAD.format("pass", "None") + "Image.open = print\n")
    (found,) = (each for each in own_datasets(asked) if each.class_.name == "Cells")
    reason = why_items_differ(found.code)
    assert reason is not None
    assert reason.code == "library-changed"
