"""Whether all images that a model is given have one size."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.models.image_sizes import why_size_varies
from codemods.facts.reason import HERE

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
data = datasets.MNIST("data", transform=transforms.ToTensor())
model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Flatten(), nn.Linear(5408, 10)).cuda()
"""
LOADER = "loader = DataLoader(data, batch_size=64)\n"
LOOP = "for x, y in loader:\n    F.cross_entropy(model(x.cuda()), y.cuda()).backward()\n"


def why(body: str, *, few_will_do: bool = True, **others: str) -> str | None:
    known = script(HEAD + body, **others)
    reason = why_size_varies(known, known.models[0], few_will_do=few_will_do)
    assert reason is None or reason.code
    return None if reason is None else reason.text


def test_images_of_a_data_set_of_one_size() -> None:
    assert why(LOADER + LOOP) is None


RESIZED_ALIKE = {
    "by a factor": "x = F.interpolate(x, scale_factor=4)",
    "to a picture for the log": "shown = nn.functional.interpolate(x, scale_factor=2.0, mode='nearest')",
    "to a size": "x = F.interpolate(x, size=(14, 14))",
    "by a name that holds the number": "x = F.interpolate(x, None, double)",
    "by a function for images": "x = transforms.functional.resize(x, [28, 28])",
}


@pytest.mark.parametrize("resized", RESIZED_ALIKE.values(), ids=RESIZED_ALIKE)
def test_images_that_are_all_resized_alike_have_one_size(resized: str) -> None:
    body = "double = 2\n" + LOADER + LOOP.replace("    F.c", f"    {resized}\n    F.c")

    assert why(body) is None
    assert why(body, few_will_do=False) == f"images are resized ({HERE})"


RESIZED_OTHERWISE = {
    "by a factor that changes": "x = F.interpolate(x, scale_factor=0.5 + scale / 10)",
    "by one of two factors": "x = F.interpolate(x, scale_factor=factor)",
    "to a size that changes": "x = F.interpolate(x, size=(scale, 14))",
    "along the shorter side alone": "x = transforms.functional.resize(x, 28)",
    "to an unknown part": "x = transforms.functional.resized_crop(x, 0, 0, scale, scale, (9, scale))",
}


@pytest.mark.parametrize("resized", RESIZED_OTHERWISE.values(), ids=RESIZED_OTHERWISE)
def test_images_that_are_resized_otherwise_may_differ(resized: str) -> None:
    body = (
        LOADER
        + "for scale in range(9):\n    factor = 2 if scale > 4 else 3\n"
        + LOOP.replace("for", "    for").replace("    F.c", f"        {resized}\n        F.c")
    )

    assert why(body) == f"images are resized ({HERE})"


VARIES = {
    "no loader": ("x = torch.randn(2, 1, 28, 28).cuda()\nmodel(x).sum().backward()\n", "no DataLoader is seen"),
    "images of a folder": (
        "data = datasets.ImageFolder('data', transforms.ToTensor())\n" + LOADER + LOOP,
        "the images of torchvision.datasets.ImageFolder() are not cropped to one size",
    ),
    "another collate_fn": (
        "def pad(batch):\n    return batch\nloader = DataLoader(data, 64, collate_fn=pad)\n" + LOOP,
        f"the loader in {HERE} has a collate_fn of its own",
    ),
    "images that are resized": (
        LOADER + LOOP.replace("    F.c", "    x = F.interpolate(x, size=scale)\n    F.c"),
        f"images are resized ({HERE})",
    ),
    "images that are cropped to a computed size": (
        LOADER + LOOP.replace("    F.c", "    x = x[:, :, :size, :size]\n    F.c"),
        f"images are cropped ({HERE})",
    ),
    "a transform that is replaced": (
        LOADER + "data.transform = transforms.Resize(9)\n" + LOOP,
        f"the transform of a data set is replaced ({HERE})",
    ),
}


@pytest.mark.parametrize(("body", "because"), VARIES.values(), ids=VARIES)
def test_the_size_varies_or_is_not_known_with(body: str, because: str) -> None:
    assert why(body) == because


def test_a_collate_fn_that_stacks_keeps_one_size() -> None:
    body = "def stacked(batch):\n    return torch.stack([x for x, y in batch])\n"

    assert why(body + "loader = DataLoader(data, 64, collate_fn=stacked)\n" + LOOP) is None


def test_images_that_another_module_resizes() -> None:
    body = LOADER + "import sizes\n" + LOOP.replace("model(x", "model(sizes.smaller(x)")

    assert why(
        body, sizes="import torch.nn.functional as F\ndef smaller(x):\n    return F.interpolate(x, len(x))\n"
    ) == (f"images are resized ({HERE})")


def test_a_crop_by_plain_numbers_keeps_one_size() -> None:
    assert why(LOADER + LOOP.replace("    F.c", "    x = x[:, :, 2:26, 2:-2]\n    F.c")) is None


RESIZED = """\
class Net(nn.Module):
    def forward(self, x):
        return resized(x, 5)
{chain}
model = Net().cuda()
"""


@pytest.mark.parametrize(
    ("chain", "call", "because"),
    [
        pytest.param(
            "def resized(x, n):\n    return f5(x)\n"
            + "".join(f"def f{at}(x):\n    return f{at - 1}(x)\n" for at in range(5, 0, -1))
            + "def f0(x):\n    return F.interpolate(x, size=9)",
            "model(x.cuda())",
            None,
            id="in the model, through many functions",
        ),
        pytest.param(
            "def resized(x, n):\n    return resized(x, n - 1) if n else F.interpolate(x, size=9 + n)",
            "model(x.cuda())",
            None,
            id="in the model, by a function that calls itself",
        ),
        pytest.param(
            "def resized(x, n):\n    return resized(x, n - 1) if n else F.interpolate(x, size=9 + n)",
            "model(resized(x, 2).cuda())",
            f"images are resized ({HERE})",
            id="elsewhere, too",
        ),
    ],
)
def test_where_images_are_resized(chain: str, call: str, because: str | None) -> None:
    assert why(RESIZED.format(chain=chain) + LOADER + LOOP.replace("model(x.cuda())", call)) == because
