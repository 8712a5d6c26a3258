from __future__ import annotations

import json
import subprocess
import sys

import pytest
from kit import check_leaves, check_rewrites, check_silent, run

from autotune_rewrite.rewriting.config import Options, Settings, settings
from autotune_rewrite.rewriting.results import Rewrite
from autotune_rewrite.rewriting.rewrite import Text, rewrite, rewrite_project
from codemods.codemod import Default, Promise
from codemods.rules.gpu_normalize import GpuNormalize
from tests.conftest import ROOT

IMPORTS = """\
import torch
from torch.utils.data import DataLoader, Subset, random_split
from torchvision import datasets, transforms

device = torch.device("cuda")
"""
GREY = "transforms.Normalize((0.1307,), (0.3081,))"
COLOUR = "transforms.Normalize((0.49, 0.48, 0.45), (0.2, 0.2, 0.3))"
APPLIED = ".float().div_(255).sub_(0.1307).div_(0.3081)"
TRANSFORM = f"transform = transforms.Compose([transforms.ToTensor(), {GREY}])\n"
BYTES = "transform = transforms.Compose([transforms.PILToTensor()])\n"
DATA = 'data = datasets.MNIST("data", transform=transform)\n'
LOADER = "loader = DataLoader(data, batch_size=64)\n"
READ = "for epoch in range(3):\n    for x, y in loader:\n        x, y = x.to(device), y.to(device)\n"
AFTER = f"{READ}        x = x{APPLIED}\n"
WHOLE = IMPORTS + TRANSFORM + DATA + LOADER + READ


def rewrites(before: str, after: str) -> None:
    check_rewrites(GpuNormalize, IMPORTS + before, IMPORTS + after)


def left(before: str, because: str) -> None:
    """Each of the sites is left for that reason."""
    check_leaves(GpuNormalize, IMPORTS + before, because)


# What is written.


@pytest.mark.parametrize(
    ("read", "after"),
    [
        pytest.param(
            "for x, y in loader:\n    x = x.cuda()\n",
            f"for x, y in loader:\n    x = x.cuda()\n    x = x{APPLIED}\n",
            id="a line below the move",
        ),
        pytest.param(
            "for i, (x, y) in enumerate(loader):\n    z = x.to(device, non_blocking=True)\n",
            f"for i, (x, y) in enumerate(loader):\n    z = x.to(device, non_blocking=True)\n    z = z{APPLIED}\n",
            id="under the name of what was moved",
        ),
        pytest.param(
            "for batch in loader:\n    x, y = batch\n    x, y = x.cuda(), y.cuda()\n",
            f"for batch in loader:\n    x, y = batch\n    x, y = x.cuda(), y.cuda()\n    x = x{APPLIED}\n",
            id="of a batch that is taken apart",
        ),
        pytest.param(
            "for batch in loader:\n    x, y = batch[0].cuda(), batch[1].cuda()\n",
            f"for batch in loader:\n    x, y = batch[0].cuda(), batch[1].cuda()\n    x = x{APPLIED}\n",
            id="of a batch's first part",
        ),
        pytest.param(
            "for x, y in loader:\n    print(x.cuda().mean(), y.sum())\n",
            f"for x, y in loader:\n    print(x.cuda(){APPLIED}.mean(), y.sum())\n",
            id="in the line itself, where the moved batch has no name",
        ),
        pytest.param(
            "for x, y in loader:\n    x = x.view(-1, 784).to(device)\n",
            f"for x, y in loader:\n    x = x.view(-1, 784).to(device)\n    x = x{APPLIED}\n",
            id="of another shape, where all channels get the same number",
        ),
        pytest.param(
            "for x, _ in loader:\n    n = len(x) + x.size(0) + x.shape[1]\n    x = x.to(device)\n",
            f"for x, _ in loader:\n    n = len(x) + x.size(0) + x.shape[1]\n    x = x.to(device)\n    x = x{APPLIED}\n",
            id="sizes are asked before",
        ),
        pytest.param(
            "from torch.autograd import Variable\nfor x, y in loader:\n    x, y = Variable(x).cuda(), Variable(y).cuda()\n",
            "from torch.autograd import Variable\nfor x, y in loader:\n    x, y = Variable(x).cuda(), Variable(y).cuda()\n"
            f"    x = x{APPLIED}\n",
            id="as scripts of old have it",
        ),
        pytest.param(
            "for x, y in loader:\n    x = x.to(device)\nfor x, y in loader:\n    z = x.to(device)\nfor _, y in loader:\n    y\n",
            f"for x, y in loader:\n    x = x.to(device)\n    x = x{APPLIED}\n"
            f"for x, y in loader:\n    z = x.to(device)\n    z = z{APPLIED}\nfor _, y in loader:\n    y\n",
            id="in each loop that moves images",
        ),
    ],
)
def test_batches_are_normalised_where_they_are_moved(read: str, after: str) -> None:
    rewrites(TRANSFORM + DATA + LOADER + read, BYTES + DATA + LOADER + after)


@pytest.mark.parametrize(
    ("steps", "after"),
    [
        pytest.param(
            f"[\n    transforms.RandomCrop(28),\n    transforms.ToTensor(),  # to [0, 1]\n    {GREY},\n]",
            "[\n    transforms.RandomCrop(28),\n    transforms.PILToTensor(),  # to [0, 1]\n]",
            id="on lines of their own",
        ),
        pytest.param(
            f"[transforms.Resize(32), transforms.ToTensor(),\n    {GREY}]",
            "[transforms.Resize(32), transforms.PILToTensor()]",
            id="the last on a line of its own",
        ),
        pytest.param(
            "[transforms.ToTensor(), transforms.Normalize(mean=[0.1307], std=[0.3081], inplace=True)]",
            "[transforms.PILToTensor()]",
            id="numbers by name",
        ),
    ],
)
def test_the_steps_of_the_transform(steps: str, after: str) -> None:
    transform = "transform = transforms.Compose({})\n"
    rewrites(transform.format(steps) + DATA + LOADER + READ, transform.format(after) + DATA + LOADER + AFTER)


def test_names_that_are_imported_one_by_one() -> None:
    before = WHOLE.replace("datasets, transforms", "datasets").replace("transforms.", "")
    before = before.replace("\n\n", "\nfrom torchvision.transforms import Compose, Normalize, ToTensor\n\n", 1)
    after = before.replace(f"ToTensor(), {GREY.removeprefix('transforms.')}", "PILToTensor()")
    after = after.replace("Normalize, ToTensor", "Normalize, PILToTensor, ToTensor")
    check_rewrites(GpuNormalize, before, after + f"        x = x{APPLIED}\n")


def test_numbers_of_channels_are_put_on_the_device_before_the_loops() -> None:
    transform = TRANSFORM.replace(GREY, COLOUR)
    made = (
        "mean = torch.tensor((0.49, 0.48, 0.45), device=device).view(-1, 1, 1)\n"
        "std = torch.tensor((0.2, 0.2, 0.3), device=device).view(-1, 1, 1)\n"
    )
    data = DATA.replace("MNIST", "CIFAR10")
    line = "        x = x.float().div_(255).sub_(mean).div_(std)\n"
    again = "for x, y in loader:\n    print(x.to(device))\n"
    rewrites(
        transform + data + LOADER + READ + again,
        BYTES + data + LOADER + made + READ + line + again.replace("device)", f"device){line.strip()[5:]}"),
    )


def test_numbers_keep_the_names_that_they_have() -> None:
    names = "MEAN = [0.49, 0.48, 0.45]\nmean, STD = 1, [0.2, 0.2, 0.2]\n"
    transform = TRANSFORM.replace(GREY, "transforms.Normalize(MEAN, STD)")
    data = DATA.replace("MNIST", "CIFAR10")
    made = "image_mean = torch.tensor(MEAN, device=device).view(-1, 1, 1)\n"
    line = "        x = x.float().div_(255).sub_(image_mean).div_(0.2)\n"
    rewrites(names + transform + data + LOADER + READ, names + BYTES + data + LOADER + made + READ + line)


FUNCTIONS = """\
def train(loader):
    for x, y in loader:
        x = x.to(device){}


def test(loader):
    for x, y in loader:
        x = x.to(device){}


"""


def test_numbers_that_several_functions_need_are_made_once() -> None:
    transform = TRANSFORM.replace(GREY, COLOUR)
    calls = f"{LOADER}train(loader)\ntest(loader)\n"
    made = (
        "mean = torch.tensor((0.49, 0.48, 0.45), device=device).view(-1, 1, 1)\n"
        "std = torch.tensor((0.2, 0.2, 0.3), device=device).view(-1, 1, 1)\n"
    )
    line = "\n        x = x.float().div_(255).sub_(mean).div_(std)"
    data = DATA.replace("MNIST", "CIFAR10")
    rewrites(
        FUNCTIONS.format("", "") + transform + data + calls,
        FUNCTIONS.format(line, line) + made + BYTES + data + calls,
    )


def test_under_a_main_guard_each_function_makes_its_own() -> None:
    """Or worker processes, which import the script where they are not forked, would make them, too."""
    transform = TRANSFORM.replace(GREY, "transforms.Normalize((0.49, 0.48, 0.45), (0.2, 0.2, 0.2))")
    calls = f'{LOADER}if __name__ == "__main__":\n    train(loader)\n    test(loader)\n'
    made = "    mean = torch.tensor((0.49, 0.48, 0.45), device=device).view(-1, 1, 1)\n"
    line = "\n        x = x.float().div_(255).sub_(mean).div_(0.2)"
    data = DATA.replace("MNIST", "CIFAR10")
    after = FUNCTIONS.format(line, line).replace("    for", f"{made}    for")
    rewrites(FUNCTIONS.format("", "") + transform + data + calls, after + BYTES + data + calls)


OBJECT = """\
class Trainer:
    def __init__(self, device):
        self.device = device

    def fit(self, loader):
{}        for x, y in loader:
            x = x.to(self.device){}


"""


def test_a_device_that_an_object_was_given() -> None:
    transform = TRANSFORM.replace(GREY, "transforms.Normalize((0.49, 0.48, 0.45), (0.2, 0.2, 0.2))")
    data = DATA.replace("MNIST", "CIFAR10")
    calls = f"{LOADER}Trainer(device).fit(loader)\n"
    made = "        mean = torch.tensor((0.49, 0.48, 0.45), device=self.device).view(-1, 1, 1)\n"
    line = "\n            x = x.float().div_(255).sub_(mean).div_(0.2)"
    rewrites(OBJECT.format("", "") + transform + data + calls, OBJECT.format(made, line) + BYTES + data + calls)
    changed = f"trainer = Trainer(device)\ntrainer.device = 'cuda:1'\n{LOADER}trainer.fit(loader)\n"
    text = "the device of the move cannot be named before the loop (line 11)"
    left(OBJECT.format("", "") + transform + data + changed, text)


NAMED = """\
def main():
    normalize = {}
    train_data = datasets.ImageFolder("train", transforms.Compose([transforms.RandomCrop(8), {}]))
    test_data = datasets.ImageFolder("test", transforms.Compose([transforms.CenterCrop(8), {}]))
    train(DataLoader(train_data, batch_size=64))
    test(DataLoader(test_data, batch_size=64))


main()
"""


def test_an_object_of_which_nothing_is_left_goes() -> None:
    before = FUNCTIONS.format("", "") + NAMED.format(GREY, *["transforms.ToTensor(), normalize"] * 2)
    line = f"\n        x = x{APPLIED}"
    after = FUNCTIONS.format(line, line) + NAMED.format(GREY, *["transforms.PILToTensor()"] * 2)
    rewrites(before, after.replace(f"    normalize = {GREY}\n", ""))


def test_an_object_that_is_used_otherwise_stays() -> None:
    first, second = "transforms.ToTensor(), normalize", f"transforms.ToTensor(), {GREY}"
    end = "    print(normalize)\n"
    before = FUNCTIONS.format("", "") + NAMED.format(GREY, first, second).replace("\n\n\nmain", f"\n{end}\n\nmain")
    line = f"\n        x = x{APPLIED}"
    after = FUNCTIONS.format(line, line) + NAMED.format(GREY, *["transforms.PILToTensor()"] * 2)
    rewrites(before, after.replace("\n\n\nmain", f"\n{end}\n\nmain"))


def test_data_that_get_to_one_place_change_together() -> None:
    dictionary = """\
steps = {{
    "train": transforms.Compose([transforms.RandomCrop(8), {}]),
    "val": transforms.Compose([transforms.CenterCrop(8), {}]),
}}
sets = {{name: datasets.ImageFolder(name, steps[name]) for name in ("train", "val")}}
loaders = {{name: DataLoader(sets[name], batch_size=4) for name in ("train", "val")}}
print(sets["train"].classes, len(sets["val"]))
for phase in ("train", "val"):
    for x, y in loaders[phase]:
        x = x.to(device){}
"""
    old, new = f"transforms.ToTensor(), {GREY}", "transforms.PILToTensor()"
    rewrites(dictionary.format(old, old, ""), dictionary.format(new, new, f"\n        x = x{APPLIED}"))
    other = old.replace("0.1307", "0.5")
    result = run(GpuNormalize, IMPORTS + dictionary.format(old, other, ""))
    assert [(site.line, site.message) for site in result.sites] == [
        (7, "images that are normalised by other numbers (line 8) are moved at the same place"),
        (8, "images that are normalised by other numbers (line 7) are moved at the same place"),
    ]


def test_parts_of_a_data_set_are_read_by_loaders_of_their_own() -> None:
    split = "data, rest = random_split(data, [50000, 10000])\nother = DataLoader(Subset(rest, range(8)))\n"
    loop = "for x, y in other:\n    x = x.cuda()\n"
    rewrites(
        TRANSFORM + DATA + split + LOADER + READ + loop,
        BYTES + DATA + split + LOADER + AFTER + f"{loop}    x = x{APPLIED}\n",
    )


def test_two_data_sets_in_one_loader_change_together() -> None:
    both = 'data = data + datasets.MNIST("data", train=False, transform=transform)\n'
    rewrites(TRANSFORM + DATA + both + LOADER + READ, BYTES + DATA + both + LOADER + AFTER)


def test_other_images_in_a_sum_of_data_sets_are_seen() -> None:
    both = 'data = data + datasets.MNIST("data", train=False, transform=transforms.ToTensor())\n'
    left(
        TRANSFORM + DATA + both + LOADER + READ,
        "images that are transformed otherwise, by torchvision.transforms.ToTensor() (line 8), are moved at the same place",
    )


# What is left.


@pytest.mark.parametrize(
    ("old", "new", "because"),
    [
        pytest.param(
            f"{GREY}]",
            f"{GREY}, transforms.RandomErasing()]",
            "'transforms.RandomErasing()' follows Normalize (line 6)",
            id="a step behind",
        ),
        pytest.param(
            f"(), {GREY}",
            f"(), transforms.Grayscale(), {GREY}",
            "no ToTensor() stands right before Normalize (line 6)",
            id="a step between",
        ),
        pytest.param(
            "[transforms",
            "[lambda image: image.rotate(9), transforms",
            "whether 'lambda image: image.rotate(9)' leaves images 8 bits for each channel is not known (line 6)",
            id="a step of the project's own",
        ),
        pytest.param(
            f"[transforms.ToTensor(), {GREY}]",
            f"[transforms.ToTensor()] + [{GREY}]",
            "the steps of a transform are not written out (line 6)",
            id="a computed list",
        ),
        pytest.param(
            "(0.1307,)",
            "[each / 255 for each in (33,)]",
            "the numbers that Normalize is given as mean are not known (line 6): write them out",
            id="computed numbers",
        ),
        pytest.param(
            "(0.3081,)",
            "(0.0,)",
            "the numbers that Normalize is given as std are not known (line 6): write them out",
            id="a deviation of 0, which Normalize refuses",
        ),
        pytest.param(
            "datasets.MNIST",
            "datasets.VOCSegmentation",
            "what torchvision.datasets.VOCSegmentation() makes its images of is not known (line 7): they may have more "
            "than 8 bits",
            id="another data set",
        ),
        pytest.param(
            'MNIST("data"',
            'ImageFolder("data", loader=print',
            "the data set reads or transforms its images in a way of its own (line 7)",
            id="files of which nobody knows how they are read",
        ),
        pytest.param(
            "for epoch",
            "print(data[0])\nfor epoch",
            "the data set is used in another way than through a loader (line 9)",
            id="an item is shown",
        ),
        pytest.param(
            "for epoch",
            "for image, label in data:\n    print(image)\nfor epoch",
            "the data set is used in another way than through a loader (line 9)",
            id="the items are read",
        ),
        pytest.param(
            "for epoch",
            "print(loader.dataset[0])\nfor epoch",
            "the data set is used in another way than through a loader (line 9)",
            id="an item is shown through the loader",
        ),
        pytest.param(
            "for epoch",
            "part = Subset(data, [1])\nprint(part[0])\nfor epoch",
            "the data set is used in another way than through a loader (line 10)",
            id="an item of a part is shown",
        ),
        pytest.param(
            "for epoch",
            "kept = list(data)\nfor epoch",
            "the images are read once, and then kept (line 9)",
            id="they are in memory",
        ),
        pytest.param(
            "for epoch",
            "print(transform(None))\nfor epoch",
            "the transform is used by itself, or by code that is not followed (line 9)",
            id="the transform is called",
        ),
        pytest.param(
            "for epoch",
            "images, labels = next(iter(loader))\nfor epoch",
            "a single batch is read outside of a loop (line 9)",
            id="a batch is shown",
        ),
        pytest.param(
            "for epoch",
            "batches = iter(loader)\nfor epoch",
            "how its batches are read is not followed (line 9)",
            id="an iterator is kept",
        ),
        pytest.param(
            "        x, y",
            "        print(x.mean())\n        x, y",
            "its images are used before they are on the device (line 11), where they are not normalised yet",
            id="read before the move",
        ),
        pytest.param(
            "x.to(",
            "x[0].to(",
            "its images are used before they are on the device (line 11), where they are not normalised yet",
            id="a part of the images is moved",
        ),
        pytest.param(
            "        x, y = x.to(device), y.to(device)\n",
            "        if epoch:\n            x = x.cuda()\n        print(x.mean())\n",
            "its images are used before they are on the device (line 13), where they are not normalised yet",
            id="moved on a condition",
        ),
        pytest.param(
            "x.to(device)",
            "x.to(device, torch.float16)",
            "the move changes more than the device (line 11)",
            id="moved to another format",
        ),
        pytest.param(
            "size=64",
            "size=64, collate_fn=lambda items: torch.utils.data.default_collate(items)",
            "a loader of the images has a collate_fn of its own (line 8)",
            id="collated otherwise",
        ),
        pytest.param(
            "for epoch",
            "torch.set_default_dtype(torch.float64)\nfor epoch",
            "the script sets the number format that images are made tensors of (line 9)",
            id="floats of 64 bits",
        ),
        pytest.param(
            "Normalize((0.1307,), (0.3081,))",
            "Normalize(*[(0.1307,), (0.3081,)])",
            "the arguments of Normalize cannot be seen (line 6)",
            id="arguments that are not written out",
        ),
        pytest.param(
            "for x, y in loader",
            "for pair in enumerate(loader)",
            "how its batches are read is not followed (line 10)",
            id="a batch beside its number",
        ),
        pytest.param(
            "        x, y = x.to(device), y.to(device)\n",
            "        for _ in range(2):\n            x = x.cuda()\n",
            "other tensors than batches may be moved at the same place (line 12)",
            id="moved again and again",
        ),
        pytest.param(
            "        x, y = x.to(device), y.to(device)\n",
            "        y = y.to(device)\n",
            "no images of its batches are moved to a device",
            id="labels are moved alone",
        ),
        pytest.param("to(device)", "to('cpu')", "its batches stay on the CPU", id="the CPU"),
        pytest.param(
            "        x, y = x.to(device), y.to(device)\n",
            "        print(x.mean())\n",
            "its batches are not moved to a device in this file",
            id="no move",
        ),
    ],
)
def test_why_images_are_normalised_on_the_host(old: str, new: str, because: str) -> None:
    assert WHOLE.count(old) in {1, 2}
    check_leaves(GpuNormalize, WHOLE.replace(old, new), because)


def test_channels_that_are_flattened_are_normalised_before() -> None:
    read = "for x, y in loader:\n    x = x.view(-1, 3072).to(device)\n"
    text = "its images are used before they are on the device (line 10), where they are not normalised yet"
    left(TRANSFORM.replace(GREY, COLOUR) + DATA.replace("MNIST", "CIFAR10") + LOADER + read, text)


@pytest.mark.parametrize(
    ("transform", "text"),
    [
        pytest.param(
            "transform=transforms.ToTensor()",
            "images that are transformed otherwise, by torchvision.transforms.ToTensor() (line 11), are moved at the same"
            " place",
            id="another transform",
        ),
        pytest.param(
            "transform=transforms.Compose([transforms.ToTensor()])",
            "images that are not normalised (line 11) are moved at the same place",
            id="no Normalize",
        ),
        pytest.param("train=True", "images that are not transformed (line 11) are moved at the same place", id="none"),
    ],
)
def test_what_else_is_moved_there_decides(transform: str, text: str) -> None:
    function = "def train(loader):\n    for x, y in loader:\n        x = x.to(device)\n"
    plain = f'plain = DataLoader(datasets.MNIST("data", {transform}))\n'
    left(f"{function}{TRANSFORM}{DATA}{plain}{LOADER}train(plain)\ntrain(loader)\n", text)


def test_numbers_for_which_no_names_are_free_are_left() -> None:
    taken = "mean = image_mean = pixel_mean = 1\n"
    colours = TRANSFORM.replace(GREY, COLOUR) + DATA.replace("MNIST", "CIFAR10") + LOADER
    left(taken + colours + READ, "no name is free for the means and standard deviations of the channels")


def test_numbers_on_a_device_that_is_computed_in_the_loop_are_left() -> None:
    colours = TRANSFORM.replace(GREY, COLOUR) + DATA.replace("MNIST", "CIFAR10") + LOADER
    read = READ.replace("x.to(device)", "x.to(torch.device('cuda'))")
    left(colours + read, "the device of the move cannot be named before the loop (line 10)")


UNSURE = (
    "a pass of the loop may do without the move (line {}), as where there is no CUDA: "
    "move the batches to a device that is chosen above the loop"
)


@pytest.mark.parametrize(
    ("read", "line"),
    [
        pytest.param(
            "    if not torch.cuda.is_available():\n        continue\n    x = x.cuda()\n", 11, id="it goes on"
        ),
        pytest.param("    if not torch.cuda.is_available():\n        break\n    x = x.to(device)\n", 11, id="it ends"),
        pytest.param(
            "    if torch.cuda.is_available():\n        x = x.cuda()\n        print(x.mean())\n", 10, id="in an if"
        ),
        pytest.param("    torch.cuda.is_available() and print(x.cuda().mean())\n", 10, id="after a test"),
        pytest.param(
            "    try:\n        print(x.cuda().mean())\n    except RuntimeError:\n        pass\n",
            10,
            id="its error is caught",
        ),
    ],
)
def test_numbers_are_left_where_there_may_be_no_cuda_before_the_loop(read: str, line: int) -> None:
    colours = TRANSFORM.replace(GREY, COLOUR) + DATA.replace("MNIST", "CIFAR10") + LOADER
    left(f"{colours}for x, y in loader:\n{read}", UNSURE.format(line))


def test_numbers_are_left_before_a_loop_that_asks_for_cuda() -> None:
    colours = TRANSFORM.replace(GREY, COLOUR) + DATA.replace("MNIST", "CIFAR10") + LOADER
    left(
        f"{colours}while torch.cuda.is_available():\n    for x, y in loader:\n        x = x.cuda()\n", UNSURE.format(9)
    )


@pytest.mark.parametrize(
    ("before", "read"),
    [
        pytest.param(
            'device = "cuda" if torch.cuda.is_available() else "cpu"\n',
            "for x, y in loader:\n    if len(x) < 8:\n        continue\n    x = x.to(device)\n",
            id="a device that says where",
        ),
        pytest.param(
            "",
            "for x, y in loader:\n    x = x.to(device)\n    if len(x) < 8:\n        continue\n",
            id="a pass that ends later",
        ),
    ],
)
def test_numbers_are_there_before_a_loop_that_ends_early(before: str, read: str) -> None:
    colours = before + TRANSFORM.replace(GREY, "transforms.Normalize((0.1, 0.2, 0.3), (0.5,))")
    data = DATA.replace("MNIST", "CIFAR10") + LOADER
    made = "mean = torch.tensor((0.1, 0.2, 0.3), device=device).view(-1, 1, 1)\n"
    line = "x = x.to(device)\n"
    after = read.replace(line, f"{line}    x = x.float().div_(255).sub_(mean).div_(0.5)\n")
    rewrites(colours + data + read, f"{before}{BYTES}{data}{made}{after}")


@pytest.mark.parametrize(
    "read",
    [
        "for x, y in loader:\n    if not torch.cuda.is_available():\n        continue\n    x = x.cuda()\n",
        "for x, y in loader:\n    if torch.cuda.is_available():\n        x = x.cuda()\n",
    ],
)
def test_one_number_for_all_channels_is_made_nowhere(read: str) -> None:
    lead = read[: read.index("x = x.cuda()")].rpartition("\n")[2]
    rewrites(TRANSFORM + DATA + LOADER + read, f"{BYTES}{DATA}{LOADER}{read}{lead}x = x{APPLIED}\n")


def test_numbers_on_a_device_that_is_written_out() -> None:
    colours = TRANSFORM.replace(GREY, "transforms.Normalize((0.49, 0.48, 0.45), (0.2, 0.2, 0.2))")
    data = DATA.replace("MNIST", "CIFAR10")
    read = "while True:\n    for x, y in loader:\n        x = {}\n"
    line = "        x = x.float().div_(255).sub_(mean).div_(0.2)\n"
    for move, device in (("x.cuda()", '"cuda"'), ("x.to('cuda:1')", "'cuda:1'")):
        made = f"mean = torch.tensor((0.49, 0.48, 0.45), device={device}).view(-1, 1, 1)\n"
        before = f"{colours}{data}{LOADER}{read.format(move)}"
        rewrites(before, f"{BYTES}{data}{LOADER}{made}{read.format(move)}{line}")


def test_a_data_set_of_the_project_s_own() -> None:
    own = (
        "class Own(torch.utils.data.Dataset):\n    def __init__(self, transform):\n        self.transform = transform\n"
    )
    text = "what an object of class Own makes its images of is not known (line 10): they may have more than 8 bits"
    left(own + TRANSFORM + "data = Own(transform)\n" + LOADER + READ, text)


@pytest.mark.parametrize(
    "used", ["print(transform(None))\n", ""], ids=["applied to a single image", "of which nothing is made"]
)
def test_a_transform_of_no_data_set_is_no_site(used: str) -> None:
    check_silent(GpuNormalize, IMPORTS + TRANSFORM + used)


def test_what_another_file_moves_is_left() -> None:
    other = "def train(loader):\n    for x, y in loader:\n        x = x.cuda()\n"
    main = f"{IMPORTS}from other import train\n{TRANSFORM}{DATA}{LOADER}train(loader)\n"
    chosen = Settings(frozenset({GpuNormalize.name()}), Promise.PRECISION)
    texts = [Text("train.py", main, chosen), Text("other.py", other, chosen, name="other", is_entry=False)]
    result = rewrite_project(texts)[0]

    assert isinstance(result, Rewrite)
    assert [(site.code, site.message) for site in result.sites] == [
        ("other-module", "another module moves the images to the device (other.py, line 3)")
    ]


def test_torch_that_stacks_permuted_images_otherwise_is_too_old() -> None:
    result = run(GpuNormalize, WHOLE, target=(1, 13))

    assert [site.code for site in result.sites] == ["older-torch"]


def test_it_runs_only_by_name() -> None:
    assert GpuNormalize.default is Default.OPT_IN
    assert GpuNormalize.name() not in settings(ROOT, Options(select=("DEFAULT",))).rules
    assert GpuNormalize.name() in settings(ROOT, Options(select=("gpu-normalize",))).exempt


def test_with_other_rules_the_move_below_which_it_stands_does_not_block() -> None:
    rules = frozenset({"gpu-normalize", "loader-pin", "h2d-non-blocking"})
    result = rewrite("train.py", WHOLE, Settings(rules, Promise.PRECISION))

    assert (
        "x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)\n        x = x.float()" in result.after
    )
    assert rewrite("train.py", result.after, Settings(rules, Promise.PRECISION)).after == result.after


# What is computed.

TRAINED = """\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(4 * 6 * 6, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
transform = transforms.Compose([
    transforms.RandomHorizontalFlip(),
    transforms.ToTensor(),
    {},
])
data = datasets.FakeData(24, (3, 8, 8), transform=transform)
loader = DataLoader(data, batch_size=8, shuffle=True, num_workers={})
found = []
for epoch in range(2):
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        found.append((images.shape, images.stride(), str(images.dtype), images.tolist()))
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
"""
RUNNER = """\
import json, sys
if sys.argv[1] == "simulated":
    from autotune_rewrite.verify.child import simulated
    simulated.install("9.0")
found = []
for text in json.load(sys.stdin):
    names = {"__name__": "__main__"}
    exec(compile(text, "train.py", "exec"), names)
    found.append(names["found"])
json.dump(found, sys.stdout)
"""


@pytest.mark.parametrize("device", ["cpu", "simulated"])
def test_batches_and_losses_are_the_same(device: str) -> None:
    """Bit for bit, on the CPU and on a simulated device: memory, numbers, random numbers, and so all losses."""
    befores = [TRAINED.format(COLOUR, 0), TRAINED.format("transforms.Normalize((0.5,), (0.25,))", 1)]
    afters = [run(GpuNormalize, each).after for each in befores]
    assert all(after.count("div_(255)") == 1 for after in afters)
    result = subprocess.run(
        [sys.executable, "-c", RUNNER, device],
        input=json.dumps([*befores, *afters]),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found[:2] == found[2:]
