"""Which number formats tensors have, and what is collated of arrays and numbers."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.data.number_formats import NumberFormats, why_converted

HEAD = "import torch\nimport numpy as np\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("answer = torch.randn(3)", "float32", id="drawn floats"),
        pytest.param("answer = torch.randint(9, (3,))", "int64", id="drawn integers"),
        pytest.param("answer = torch.zeros(3, dtype=torch.float64)", "float64", id="a format that is asked for"),
        pytest.param("answer = torch.zeros(3, dtype=chosen)", None, id="one that is not known"),
        pytest.param("answer = torch.zeros(3, **given)", None, id="perhaps one among the keywords"),
        pytest.param("torch.set_default_dtype(torch.float64)\nanswer = torch.zeros(3)", None, id="another default"),
        pytest.param("answer = torch.ByteTensor(3)", "uint8", id="a legacy constructor"),
        pytest.param("answer = torch.tensor([[1, 2], [3, 4]])", "int64", id="integers of Python"),
        pytest.param("answer = torch.tensor(0.5)", "float32", id="a float of Python, as a tensor"),
        pytest.param("answer = torch.tensor([1, 2.5])", "float32", id="numbers of several kinds"),
        pytest.param("answer = 0.5", "float64", id="a float of Python, collated"),
        pytest.param("answer = True", "bool", id="a truth value"),
        pytest.param("answer = int(name[3:])", "int64", id="an integer that is computed"),
        pytest.param("answer = float(line)", "float64", id="a float that is computed"),
        pytest.param("def int(x):\n    return x / 2\nanswer = int(3)", None, id="another function of that name"),
        pytest.param("x = int(name)\nanswer = torch.tensor(x)", "int64", id="a tensor of one"),
        pytest.param("answer = torch.tensor(float(line))", "float32", id="a tensor of a float"),
        pytest.param("answer = np.zeros(3)", "float64", id="an array"),
        pytest.param("answer = torch.from_numpy(np.zeros(3))", "float64", id="a tensor of an array"),
        pytest.param("answer = torch.tensor(np.zeros(3, np.float32))", "float32", id="a copy of an array"),
        pytest.param("answer = torch.from_numpy(given)", None, id="of an array that is not known"),
        pytest.param("answer = torch.zeros(3).long()", "int64", id="cast"),
        pytest.param("answer = torch.zeros(3).to(torch.float16)", "float16", id="cast to what is named"),
        pytest.param("answer = torch.zeros(3).view(1, 3).clone()[0]", "float32", id="a view, a copy, an item"),
        pytest.param("answer = torch.zeros(3).argmax()", None, id="another method"),
        pytest.param("x = torch.zeros(3)\nanswer = x", "float32", id="a name"),
        pytest.param("x = torch.zeros(3) if a else torch.zeros(3).long()\nanswer = x", None, id="one of two"),
        pytest.param("def f(x):\n    answer = x\nf(torch.zeros(3))\nf(torch.ones(2))", "float32", id="a parameter"),
        pytest.param(
            "def f(x):\n    x = np.zeros(x)\n    x = torch.from_numpy(x).float()\n    answer = x",
            "float32",
            id="what a name was given last",
        ),
        pytest.param(
            "def f(x):\n    y = torch.zeros(3)\n    if x:\n        y = y.long()\n    answer = y",
            None,
            id="what it may have been given last",
        ),
        pytest.param("def f(x):\n    answer = x", None, id="one that nobody is seen to give"),
        pytest.param("answer = other(3)", None, id="what is not followed"),
    ],
)
def test_the_number_format(text: str, expected: str | None) -> None:
    known = script(HEAD + text)
    (given,) = (each for each in known.module.nodes(ast.Assign) if ast.unparse(each.targets[0]) == "answer")

    assert NumberFormats(known.flow).of(known.module, given.value) == expected


ITEMS = """\
import torch
import numpy as np
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms


class Flip:
    def __call__(self, item):
        image, mask = item
        return image[::-1], mask[::-1]


class ToTensors:
    def __call__(self, item):
        image, mask = item
        image = np.array(image).astype(np.float32)
        image = torch.from_numpy(image)
        return image, torch.from_numpy(np.array(mask))


class Scenes(Dataset):
    def __init__(self, files, transform=None):
        self.files, self.transform = files, transform

    def __getitem__(self, index):
        {item}


loader = DataLoader(Scenes("abc", {transform}), batch_size=8, pin_memory=True)
for image, mask in loader:
    image = image.float()
    image = image.cuda()
"""
IMAGE = 'image = Image.open(self.files[index]).convert("RGB")'
ON_IMAGE = f"{IMAGE}\n        {{}}\n        return image, 0"
ON_ITEM = "item = self.files[index], 0\n        {}\n        return item"
IF_GIVEN = "if self.transform is not None:\n            {0} = self.transform({0})"
COMPOSED = "transforms.Compose([transforms.{}])"
AS_FLOATS = COMPOSED.format("Resize(9), transforms.ToTensor()")
NORMALIZED = COMPOSED.format("ToTensor(), transforms.Normalize(0.5, 0.5)")
DIVIDED = COMPOSED.format("ToTensor(), transforms.Lambda(halved)")


@pytest.mark.parametrize(
    ("item", "transform"),
    [
        pytest.param(ON_IMAGE.format("image = self.transform(image)"), AS_FLOATS, id="an image that ToTensor is given"),
        pytest.param(ON_IMAGE.format(IF_GIVEN.format("image")), AS_FLOATS, id="else it would be no tensor"),
        pytest.param(ON_IMAGE.format("image = self.transform(image)"), NORMALIZED, id="what is normalized"),
        pytest.param(
            ON_IMAGE.format("image = self.transform(image)").replace('.convert("RGB")', ""),
            NORMALIZED,
            id="Normalize refuses what is no float",
        ),
        pytest.param("return self.transform((self.files[index], 0))", "ToTensors()", id="a transform of the project"),
        pytest.param(
            ON_ITEM.format("item = self.transform(item)"),
            "transforms.Compose([Flip(), ToTensors()])",
            id="the last of several",
        ),
        pytest.param(ON_ITEM.format(IF_GIVEN.format("item")), "ToTensors()", id="one that is always given"),
    ],
)
def test_items_have_the_format_that_transforms_of_the_script_give_them(item: str, transform: str) -> None:
    (loader,) = script(ITEMS.format(item=item, transform=transform)).loaders

    assert why_converted(loader) is None


@pytest.mark.parametrize(
    ("item", "transform"),
    [
        pytest.param(
            ON_IMAGE.format("image = self.transform(image)").replace('.convert("RGB")', ""),
            AS_FLOATS,
            id="the image may have 16 bits",
        ),
        pytest.param(
            ON_IMAGE.format("image = self.transform(np.zeros((9, 9, 3)))"), AS_FLOATS, id="an array of 64-bit floats"
        ),
        pytest.param(ON_IMAGE.format("image = self.transform(image)"), DIVIDED, id="a function of the script's own"),
        pytest.param(ON_IMAGE.format("image = self.transform(image)"), "chosen", id="a transform that is not known"),
        pytest.param(ON_ITEM.format(IF_GIVEN.format("item")), "chosen()", id="it may be None"),
        pytest.param(
            ON_ITEM.format("item = self.transform(item)"),
            "transforms.Compose([ToTensors(), Flip()])",
            id="what the last one hands on",
        ),
        pytest.param(
            ON_ITEM.format("item = list(self.transform(item))\n        item[0] = load()"),
            "ToTensors()",
            id="an item that is changed",
        ),
    ],
)
def test_nothing_is_said_of_items_that_other_transforms_make(item: str, transform: str) -> None:
    (loader,) = script(ITEMS.format(item=item, transform=transform)).loaders

    reason = why_converted(loader)

    assert reason is not None
    assert "which is not known" in reason.text
