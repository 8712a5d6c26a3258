from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
import torch
from kit import check_leaves, check_rewrites, check_silent, found_by, run

from autotune_rewrite.rewriting.config import Settings
from autotune_rewrite.rewriting.rewrite import rewrite
from codemods.catalogue import GROUPS
from codemods.codemod import Promise
from codemods.rules.dataset_materialize import DatasetMaterialize

if TYPE_CHECKING:
    from pathlib import Path

IMPORTS = """\
import torch
from torch.utils.data import DataLoader, random_split
from torchvision import datasets, transforms

"""
AFTER = IMPORTS.replace("DataLoader, random_split", "DataLoader, TensorDataset, random_split")
DECODING = IMPORTS.replace("DataLoader, random_split", "DataLoader, TensorDataset, default_collate, random_split")
TRANSFORM = "transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])\n"
MADE = 'data = datasets.MNIST("data", transform=transform)\n'
ONCE = """\
# all images at once, as one tall image
images = transform(data.data.flatten(0, 1).numpy()).view(data.data.unsqueeze(1).shape)
data = TensorDataset(images, data.targets)
"""
DECODED = "data = TensorDataset(*default_collate(list(data)))  # decode once\n"
LOADER = "loader = DataLoader(data, batch_size=64)\n"
READ = "for epoch in range(3):\n    for a, b in loader:\n        print(a.sum(), b.sum())\n"


def rewrites(before: str, after: str, imports: str = AFTER) -> None:
    """Of a script with these lines before its epochs the rule makes one with those."""
    check_rewrites(DatasetMaterialize, f"{IMPORTS}{TRANSFORM}{before}{READ}", f"{imports}{TRANSFORM}{after}{READ}")


def left(code: str, because: str, read: str = READ, transform: str = TRANSFORM) -> None:
    check_leaves(DatasetMaterialize, f"{IMPORTS}{transform}{code}{read}", because)


# What is written.


def test_a_data_set_with_a_name_is_read_once_under_its_name() -> None:
    rewrites(MADE + LOADER, MADE + ONCE + LOADER)


def test_one_without_a_name_gets_one_before_its_loader() -> None:
    loader = "train_loader = DataLoader(\n    {},\n    batch_size=64, shuffle=True)\n"
    made = """\
datasets.MNIST("data", train=True,
                   transform=transforms.Compose([
                       transforms.ToTensor(),  # between 0 and 1
                   ]))"""
    once = """\
train_set = datasets.MNIST("data", train=True,
                           transform=transforms.Compose([
                               transforms.ToTensor(),  # between 0 and 1
                           ]))
# all images at once, as one tall image
train_images = train_set.transform(
    train_set.data.flatten(0, 1).numpy()
).view(train_set.data.unsqueeze(1).shape)
train_set = TensorDataset(train_images, train_set.targets)
"""
    read = READ.replace("in loader", "in train_loader")
    check_rewrites(
        DatasetMaterialize,
        f"{IMPORTS}{loader.format(made)}{read}",
        f"{AFTER}{once}{loader.format('train_set')}{read}",
    )


def test_those_of_several_loaders_in_a_statement_get_names_of_their_own() -> None:
    made = 'datasets.{}("data", transform=transform)'
    loaders = "loaders = {{'left': DataLoader({}), 'right': DataLoader({}), 0: DataLoader({}), 1: DataLoader({})}}\n"
    read = "for epoch in range(3):\n    for loader in loaders.values():\n        for a, b in loader:\n            print(a)\n"
    sets = ("left_set", "right_set", "dataset", "data_set")
    after = "".join(
        f"{name} = {made.format('SVHN')}\n{DECODED.replace('data =', f'{name} =').replace('(data)', f'({name})')}"
        for name in sets
    )
    check_rewrites(
        DatasetMaterialize,
        f"{IMPORTS}{TRANSFORM}{loaders.format(*[made.format('SVHN')] * 4)}{read}",
        f"{DECODING}{TRANSFORM}{after}{loaders.format(*sets)}{read}",
    )


@pytest.mark.parametrize(
    "loader",
    [
        pytest.param("loader = DataLoader({}) if torch.cuda.is_available() else []\n", id="in one of two cases"),
        pytest.param("loader = DataLoader(batch_size=int(input()), dataset={})\n", id="after what reads something"),
        pytest.param("dataset = data_set = 0\nloader = DataLoader({})\n", id="all names are taken"),
    ],
)
def test_one_without_a_name_is_read_where_it_is_made(loader: str) -> None:
    made = 'datasets.MNIST("data", transform=transform)'
    rewrites(loader.format(made), loader.format(f"TensorDataset(*default_collate(list({made})))"), DECODING)


def test_a_loader_whose_data_set_gets_a_name_is_told_of_by_its_line() -> None:
    loader = f"loader = DataLoader(\n    {MADE.removeprefix('data = ').rstrip()},\n    batch_size=64)\n"
    rules = frozenset({"dataset-materialize", "loader-batched-index"})
    sites = rewrite("train.py", f"{IMPORTS}{TRANSFORM}{loader}{READ}", Settings(rules, Promise.BITWISE)).sites
    assert [(site.rule, site.line) for site in sites] == [("loader-batched-index", 6), ("dataset-materialize", 7)]


def test_one_that_a_function_reads_has_no_other_value_before() -> None:
    function = "def report():\n    return data\n"
    made = MADE.replace("datasets.MNIST", "TensorDataset(*default_collate(list(datasets.MNIST")
    rewrites(MADE + function + LOADER, made.replace("transform)\n", "transform))))\n") + function + LOADER, DECODING)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param("def report(data):\n    return data\n", id="a parameter"),
        pytest.param("def report():\n    data = 3\n    return data\n", id="a variable of its own"),
    ],
)
def test_a_function_may_have_another_variable_of_that_name(function: str) -> None:
    rewrites(MADE + function + LOADER, MADE + ONCE + function + LOADER)


def test_a_function_that_hands_its_data_set_out_reads_it_once_under_its_name() -> None:
    def indented(code: str) -> str:
        return "".join(f"    {line}" for line in code.splitlines(keepends=True))

    made = "def load():\n{}    return data\n\n\ndata = load()\n"
    rewrites(made.format(indented(MADE)) + LOADER, made.format(indented(MADE + ONCE)) + LOADER)


def test_a_variable_of_the_module_that_a_function_sets_has_no_other_value_before() -> None:
    made = "data = None\ndef load():\n    global data\n    data = {}\n\n\ndef show():\n    return data\n\n\nload()\n"
    call = MADE.removeprefix("data = ").rstrip()
    once = f"TensorDataset(*default_collate(list({call})))"
    rewrites(made.format(call) + LOADER, made.format(once) + LOADER, DECODING)


def test_several_that_a_statement_names_are_read_once_below_it() -> None:
    made = (
        'data, test_data = datasets.MNIST("data", transform=transform), datasets.KMNIST("data", transform=transform)\n'
    )
    test = ONCE.replace("data", "test_data").replace("images =", "test_images =").replace("(images", "(test_images")
    test = test.replace(".test_data", ".data")
    other = READ.replace("in loader", "in DataLoader(test_data)")
    rewrites(made + LOADER + other, made + ONCE + test + LOADER + other)


def test_a_transform_that_the_same_statement_replaces_is_asked_of_the_data_set() -> None:
    made = 'data, transform = datasets.MNIST("data", transform=transform), None\n'
    rewrites(made + LOADER, made + ONCE.replace("transform(", "data.transform(") + LOADER)


def test_one_whose_length_a_function_asks_for_is_read_once_under_its_name() -> None:
    function = "def report():\n    print(len(data))\n"
    rewrites(MADE + function + LOADER, MADE + ONCE + function + LOADER)


def test_parts_of_a_random_split_are_parts_of_what_was_read() -> None:
    split = "data, rest = random_split(data, [50000, 10000])\n"
    rewrites(MADE + split + LOADER, MADE + ONCE + split + LOADER)


def test_the_indices_of_a_part_stay_as_they_are() -> None:
    split = "data, rest = random_split(data, [50000, 10000])\nprint(len(rest), rest.indices[:3])\n"
    rewrites(MADE + split + LOADER, MADE + ONCE + split + LOADER)


def test_a_look_at_the_first_batch_and_at_the_length_is_none_at_its_items() -> None:
    look = "images, labels = next(iter(loader))\nprint(len(data), len(loader.dataset))\n"
    once = ONCE.replace("images = ", "data_images = ").replace("(images", "(data_images")
    rewrites(MADE + LOADER + look, MADE + once + LOADER + look)


@pytest.mark.parametrize(
    "used",
    [
        "print(data.classes)",
        "image, label = data[0]",
        "counts = torch.bincount(data.targets)",
        "print(data.data.shape)",
        "print(data)",
        'print(f"{data}", isinstance(data, datasets.MNIST))',
        "labels = data.targets\nprint(labels.unique(), labels[:3] == 7)",
    ],
)
def test_what_else_is_used_of_it_stays_as_it_was(used: str) -> None:
    images = ONCE.partition("data = ")[0].replace("images = transform", "images = data.transform")
    loader = LOADER.replace("(data", "(TensorDataset(images, data.targets)")
    rewrites(f"{MADE}{used}\n{LOADER}", f"{MADE}{used}\n{images}{loader}")


def test_what_else_is_used_of_one_that_is_read_one_by_one_stays_as_it_was() -> None:
    used = MADE.replace("MNIST", "SVHN") + "print(data.classes)\n"
    loader = LOADER.replace("(data", "(TensorDataset(*default_collate(list(data)))")
    rewrites(f"{used}{LOADER}", f"{used}{loader}", DECODING)


def test_batches_of_such_a_loader_are_gathered_by_one_index() -> None:
    code = f"{IMPORTS}{TRANSFORM}{MADE}print(data.classes)\n{LOADER}{READ}"
    rules = frozenset({"dataset-materialize", "loader-batched-index"})
    after = rewrite("train.py", code, Settings(rules, Promise.BITWISE)).after
    assert "sampler=BatchSampler(SequentialSampler(images), 64, drop_last=False)" in after


def test_two_functions_that_read_it_once_each_read_it_again() -> None:
    code = f"{IMPORTS}{TRANSFORM}{MADE}{LOADER}for a, b in loader:\n    print(a)\nfor a, b in loader:\n    print(b)\n"
    assert ONCE in run(DatasetMaterialize, code).after


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("CIFAR10", "transforms.Resize(16), transforms.ToTensor()"),
        ("FashionMNIST", "transforms.Resize(32), transforms.CenterCrop(28), transforms.PILToTensor()"),
        ("KMNIST", "transforms.Grayscale(3), transforms.Pad(2), transforms.ToTensor()"),
        ("SVHN", "transforms.ToTensor(), transforms.ConvertImageDtype(torch.float32)"),
    ],
)
def test_images_of_other_transforms_and_data_sets_are_read_one_by_one(name: str, steps: str) -> None:
    code = MADE.replace("MNIST", name).replace("=transform", f"=transforms.Compose([{steps}])")
    rewrites(code + LOADER, code + DECODED + LOADER, DECODING)


def test_transforms_of_the_second_version() -> None:
    v2 = (
        "from torchvision.transforms import v2\n"
        "transform = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize((0.1,), (0.3,))])\n"
    )
    check_rewrites(DatasetMaterialize, f"{IMPORTS}{v2}{MADE}{LOADER}{READ}", f"{AFTER}{v2}{MADE}{ONCE}{LOADER}{READ}")


def test_the_loader_of_what_was_read_once_is_seen_as_it_is() -> None:
    """By all rules, in a second round: batches by one index, no workers, and lines as the user knows them."""
    device = "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
    read = "for epoch in range(3):\n    for a, b in loader:\n        a = a.to(device)\n"
    code = f"{IMPORTS}{device}{TRANSFORM}{MADE}loader = DataLoader(data, batch_size=64, shuffle=True)\n{read}"
    result = rewrite("train.py", code, Settings(GROUPS["DEFAULT"], Promise.PRECISION))

    assert "sampler=BatchSampler(RandomSampler(data), 64, drop_last=False)" in result.after
    assert [(site.rule, site.line) for site in result.sites if site.rewrites] == [
        ("dataset-materialize", 7),
        ("loader-batched-index", 8),
        ("loader-pin", 8),
        ("h2d-non-blocking", 11),
    ]
    assert {site.code for site in result.sites if site.rule == "loader-workers"} == {"data-in-memory"}
    again = rewrite("train.py", result.after, Settings(GROUPS["DEFAULT"], Promise.PRECISION))
    assert again.after == result.after


def test_a_line_that_a_reason_names_is_the_one_before_any_change() -> None:
    own = "test = DataLoader(data, batch_size=64, shuffle=True)\nprint(test.batch_size)\nfor a, b in test:\n    print(a)\n"
    code = f"{IMPORTS}{TRANSFORM}{MADE}{LOADER}{own}{READ}"
    rules = frozenset({"dataset-materialize", "loader-batched-index"})
    sites = rewrite("train.py", code, Settings(rules, Promise.BITWISE)).sites
    (reason,) = [site for site in sites if not site.rewrites]
    assert (reason.line, reason.message) == (
        8,
        "'.batch_size' of it is used (line 9), which a sampler of batches would change",
    )


@pytest.mark.parametrize(
    ("transform", "sign"),
    [
        pytest.param(TRANSFORM, ".flatten(0, 1)", id="at once"),
        pytest.param(TRANSFORM.replace("[", "[transforms.Pad(2), "), "default_collate", id="one by one"),
    ],
)
def test_batches_and_random_numbers_are_the_same(tmp_path: Path, transform: str, sign: str) -> None:
    """Of all epochs: the values, strides, formats and containers, and what is drawn afterwards.

    Files of MNIST's format may hold images of any size.
    """
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for part in ("train", "t10k"):
        images = torch.randint(256, (70, 9, 8), dtype=torch.uint8)
        (raw / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 0x803, 70, 9, 8) + images.numpy().tobytes())
        labels = torch.randint(10, (70,), dtype=torch.uint8)
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 0x801, 70) + labels.numpy().tobytes())
    before = (
        f"{IMPORTS}torch.manual_seed(3)\n{transform}data = datasets.MNIST({str(tmp_path)!r}, transform=transform)\n"
        "loader = DataLoader(data, batch_size=16, shuffle=True)\nfound = []\n"
        "for epoch in range(2):\n    for batch in loader:\n"
        "        found.append((type(batch), [(each.tolist(), each.stride(), each.dtype) for each in batch]))\n"
        "found.append((len(loader), len(loader.dataset), torch.rand(3).tolist()))\n"
    )
    rules = frozenset({"dataset-materialize", "loader-batched-index"})
    after = rewrite("train.py", before, Settings(rules, Promise.BITWISE)).after
    assert sign in after
    assert "BatchSampler" in after
    assert found_by(before) == found_by(after)


def test_a_class_gets_no_attribute_more() -> None:
    body = "class Options:\n    loader = DataLoader({}, batch_size=64)\n\n\n"
    made, read = MADE.removeprefix("data = ").rstrip(), READ.replace("in loader", "in Options.loader")
    check_rewrites(
        DatasetMaterialize,
        f"{IMPORTS}{TRANSFORM}{body.format(made)}{read}",
        f"{DECODING}{TRANSFORM}{body.format(f'TensorDataset(*default_collate(list({made})))')}{read}",
    )


def test_names_that_would_be_long_are_imported() -> None:
    imports = "import torch\nfrom torchvision import datasets, transforms\n\n"
    loader = "loader = torch.utils.data.DataLoader(data, batch_size=64)\n"
    after = imports.replace("torch\n", "torch\nfrom torch.utils.data import TensorDataset\n", 1)
    before = f"{imports}{TRANSFORM}{MADE}{loader}{READ}"
    check_rewrites(DatasetMaterialize, before, f"{after}{TRANSFORM}{MADE}{ONCE}{loader}{READ}")


@pytest.mark.parametrize(
    "made",
    [
        'MNIST("data"',
        'FashionMNIST("data"',
        'KMNIST("data"',
        'EMNIST("data", "balanced"',
        'EMNIST("data", train=False, split="letters"',
    ],
)
def test_images_whose_pixels_are_changed_each_for_itself_are_transformed_at_once(made: str) -> None:
    made = MADE.replace('MNIST("data"', made)
    rewrites(made + LOADER, made + ONCE + LOADER)


@pytest.mark.parametrize(
    "made",
    [
        pytest.param('QMNIST("data"', id="labels are a column of a table"),
        pytest.param('QMNIST("data", "test10k", False', id="labels are the table's rows"),
        pytest.param('USPS("data"', id="images are an array"),
    ],
)
def test_data_sets_that_hold_images_or_labels_otherwise_are_read_one_by_one(made: str) -> None:
    made = MADE.replace('MNIST("data"', made)
    rewrites(made + LOADER, made + DECODED + LOADER, DECODING)


def test_images_of_three_colours_and_labels_in_a_list_are_transformed_at_once() -> None:
    made = MADE.replace("MNIST", "CIFAR10")
    once = """\
# all images at once, as one tall image
images = transform(
    data.data.reshape(-1, 32, 3)
).reshape(3, -1, 32, 32).transpose(0, 1).contiguous()
data = TensorDataset(images, torch.tensor(data.targets))
"""
    rewrites(made + LOADER, made + once + LOADER)


def test_a_call_that_gets_too_wide_is_split_at_its_parentheses() -> None:
    name = "handwritten_digits"
    made = MADE.replace("data =", f"{name} =").replace("=transform)", "=transforms.ToTensor())")
    loader = LOADER.replace("(data", f"({name}")
    once = f"""\
# all images at once, as one tall image
{name}_images = {name}.transform(
    {name}.data.flatten(0, 1).numpy()
).view({name}.data.unsqueeze(1).shape)
{name} = TensorDataset({name}_images, {name}.targets)
"""
    rewrites(made + loader, made + once + loader)


# What is left.


@pytest.mark.parametrize(
    ("transform", "because"),
    [
        pytest.param(
            "transform = transforms.Compose([transforms.RandomCrop(28, padding=2), transforms.ToTensor()])\n",
            "RandomCrop draws random numbers for each image in each epoch (line 5)",
            id="it draws",
        ),
        pytest.param(
            "transform = transforms.Compose([transforms.ToTensor(), transforms.Lambda(lambda x: x + torch.rand(1))])\n",
            "what Lambda does to an image is not known (line 5): it may draw random numbers",
            id="a lambda",
        ),
        pytest.param(
            "import sys\nfrom steps import transform\n",
            "its transform is not known: it may draw random numbers",
            id="unread",
        ),
        pytest.param(
            "transform = transforms.Resize(14)\n",
            "its transform is not seen to make tensors of its images",
            id="no tensors",
        ),
        pytest.param(
            "transform = transforms.Compose([transforms.Resize(224), transforms.ToTensor()])\n",
            "60,000 images of 1 x 224 x 224 take 11 GiB of memory",
            id="too large",
        ),
    ],
)
def test_a_data_set_is_left_for_its_transform(transform: str, because: str) -> None:
    left(MADE + LOADER, because, transform=transform)


@pytest.mark.parametrize(
    ("code", "because"),
    [
        pytest.param(
            MADE.replace(")", ", target_transform=lambda label: label % 2)") + LOADER,
            "its labels are transformed, and may be other numbers once they are stacked",
            id="labels",
        ),
        pytest.param(
            f"{MADE}{LOADER}print(data.classes)\nother = DataLoader(data)\nfor a, b in other:\n    print(a)\n",
            "'.classes' of it is used (line 8), and a TensorDataset has none",
            id="classes, and two loaders",
        ),
        pytest.param(
            f"{MADE}{LOADER}print(loader.dataset.targets)\n",
            "'.targets' of it is used (line 8), and a TensorDataset has none",
            id="targets, through the loader",
        ),
        pytest.param(
            f"{MADE}{LOADER}import some_package\nsome_package.show(loader.dataset)\n",
            "it is used in another way than through a loader (line 9)",
            id="handed to other code, through the loader",
        ),
        pytest.param(
            f"{MADE}{LOADER}data.transform = transforms.ToTensor()\n",
            "'.transform' of it is used (line 8), and a TensorDataset has none",
            id="another transform from then on",
        ),
        pytest.param(
            f"{MADE}{LOADER}data.targets[0] = 3\n",
            "'.targets' of it is used (line 8), and a TensorDataset has none",
            id="other labels from then on",
        ),
        pytest.param(
            f"{MADE}{LOADER}data.data.zero_()\n",
            "'.data' of it is used (line 8), and a TensorDataset has none",
            id="other images from then on",
        ),
        pytest.param(
            "list = ['a', 'b']\n"
            + MADE.replace("=transform)", "=transforms.Compose([transforms.Resize(28), transforms.ToTensor()]))")
            + LOADER,
            "list is not Python's own where the data set is made, which is to list its items",
            id="another list",
        ),
        pytest.param(
            f"{MADE}{LOADER}labels = data.targets\nlabels[0] = 3\n",
            "'.targets' of it is used (line 8), and a TensorDataset has none",
            id="other labels from then on, under another name",
        ),
        pytest.param(
            f"{MADE}{LOADER}part = data.data[:10].view(-1)\npart.zero_()\n",
            "'.data' of it is used (line 8), and a TensorDataset has none",
            id="other images from then on, under another name",
        ),
        pytest.param(
            f"{MADE}{LOADER}import random\nrandom.shuffle(data.targets)\n",
            "'.targets' of it is used (line 9), and a TensorDataset has none",
            id="labels in another order from then on",
        ),
        pytest.param(
            f"{MADE}{LOADER}print(loader.dataset)\n",
            "it is used in another way than through a loader (line 8)",
            id="printed, through the loader",
        ),
        pytest.param(
            f"{MADE}loader = DataLoader(data, batch_size=None)\n",
            "a loader hands out its items as they are (line 7), and would hand out rows of tensors",
            id="items that may be written to",
        ),
        pytest.param(
            f"{MADE}{LOADER}torch.set_default_dtype(torch.float64)\n",
            "the script says in which format its images become tensors (line 8)",
            id="another number format from then on",
        ),
        pytest.param(
            f"{MADE}train, val = random_split(data, [50000, 10000])\nimage, label = val[0]\n"
            "loader = DataLoader(train, 64)\n",
            "it is used in another way than through a loader (line 8)",
            id="an item of a part of it",
        ),
        pytest.param(
            f"{MADE}train, val = random_split(data, [50000, 10000])\nfor image, label in val:\n    print(label)\n"
            "loader = DataLoader(train, 64)\n",
            "it is used in another way than through a loader (line 8)",
            id="the items of a part of it",
        ),
        pytest.param(
            f"{MADE}{LOADER}import some_package\nsome_package.show(data)\n",
            "it is used in another way than through a loader (line 9)",
            id="handed to other code",
        ),
        pytest.param(
            f"{MADE}loader = DataLoader(data, batch_size=64, collate_fn=lambda items: items)\n",
            "a loader of it has a collate_fn of its own (line 7)",
            id="collate_fn",
        ),
        pytest.param(
            f"{MADE}loader = DataLoader(data, batch_size=64, num_workers=4)\n",
            "worker processes read it beside the training (line 7): take num_workers away where the processors are busy "
            "anyway",
            id="workers",
        ),
        pytest.param(
            f"{MADE}loader = DataLoader(torch.utils.data.Subset(data, range(100)), batch_size=64)\n",
            "a loader reads a part of it, or more than it alone (line 7)",
            id="a part",
        ),
        pytest.param(
            f"{MADE}more = random_split(data, [100, 59900])[0]\nloader = DataLoader(data + more, batch_size=64)\n",
            "a loader reads a part of it, or more than it alone (line 8)",
            id="the sum of two data sets",
        ),
        pytest.param(
            f"{MADE}data += random_split(data, [100, 59900])[0]\n{LOADER}",
            "a loader reads a part of it, or more than it alone (line 8)",
            id="what another data set is added to",
        ),
        pytest.param(
            'data = datasets.MNIST("data", True, transform, lambda label: label % 2)\n' + LOADER,
            "its labels are transformed, and may be other numbers once they are stacked",
            id="other labels, by the fourth argument",
        ),
        pytest.param(
            'data = datasets.EMNIST("data", "byclass", transform=transform)\n' + LOADER,
            "697,932 images of 1 x 28 x 28 take 2 GiB of memory",
            id="too large, the largest part",
        ),
        pytest.param(
            'data = datasets.EMNIST("data", input(), transform=transform)\n' + LOADER,
            "how many images it has, or how large they are, is not known",
            id="a part that is not known",
        ),
        pytest.param(
            'data = datasets.SVHN("data", input(), transform=transform)\n' + LOADER,
            "how many images it has, or how large they are, is not known",
            id="a part that is not known, of which another one is too large",
        ),
    ],
)
def test_a_data_set_is_left(code: str, because: str) -> None:
    left(code, because)


OWN = "class Numbered(datasets.MNIST):\n    {}\n\n\ndata = Numbered('data', transform=transform)\n" + LOADER


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("folder = 'digits'", id="as its base makes them"),
        pytest.param(
            "def __getitem__(self, index):\n        return (*super().__getitem__(index), index)", id="with another part"
        ),
        pytest.param(
            "def __getitem__(self, index):\n        return self.transform(self.data[index].numpy()), index",
            id="transformed in a way of its own",
        ),
    ],
)
def test_items_of_a_class_of_the_script_are_left(body: str) -> None:
    because = "class Numbered is the script's own (line 6), and may make other items in each epoch"
    left(OWN.format(body), f"{because}: give the loader a TensorDataset of its items where it does not")


def test_those_of_a_class_of_another_class_of_the_script_are_left() -> None:
    classes = "class Digits(datasets.CIFAR10):\n    pass\n\n\nclass Numbered(Digits):\n    pass\n\n\n"
    because = "class Numbered is the script's own (line 10), and may make other items in each epoch"
    made = "data = Numbered('data', transform=transform)\n"
    left(f"{classes}{made}{LOADER}", f"{because}: give the loader a TensorDataset of its items where it does not")


def test_a_class_of_the_script_whose_items_are_tensors_already_is_no_site() -> None:
    item = "def __getitem__(self, index):\n        return self.data[index], self.targets[index]"
    check_silent(DatasetMaterialize, f"{IMPORTS}{TRANSFORM}{OWN.format(item)}{READ}")


LISTED = "steps = [transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))]\n"
CHANGED = {
    "a step is added": "transform.transforms.append(transforms.Normalize((0.5,), (0.5,)))",
    "a step has other numbers": "steps[1].mean = (0.5,)",
    "a step is another one": "steps[1] = transforms.Normalize((0.5,), (0.5,))",
    "the list of steps gets one": "steps.append(transforms.Normalize((0.5,), (0.5,)))",
    "the list of steps is extended": "steps += [transforms.Normalize((0.5,), (0.5,))]",
}


@pytest.mark.parametrize("change", CHANGED.values(), ids=list(CHANGED))
def test_one_whose_transform_changes_later_is_left(change: str) -> None:
    transform = f"{LISTED}transform = transforms.Compose(steps)\n"
    because = "what its images are made with is changed (line 9), and images made before would not follow"
    left(f"{MADE}{LOADER}{change}\n", because, transform=transform)


def test_steps_may_be_listed_one_by_one_before() -> None:
    listed = "steps = [transforms.ToTensor()]\nsteps.append(transforms.Normalize((0.1307,), (0.3081,)))\n"
    transform = f"{listed}transform = transforms.Compose(steps)\n"
    before, after = f"{transform}{MADE}{LOADER}{READ}", f"{transform}{MADE}{ONCE}{LOADER}{READ}"
    check_rewrites(DatasetMaterialize, IMPORTS + before, AFTER + after)


RESIZING = "transform = transforms.Compose([transforms.Resize(32), transforms.ToTensor()])\n"
PASSES = {
    "a pass": "for a, b in loader:\n    print(a)\n",
    "one epoch": "for epoch in range(1):\n    for a, b in loader:\n        print(a)\n",
}


@pytest.mark.parametrize(("read", "line"), [(PASSES["a pass"], 8), (PASSES["one epoch"], 9)], ids=list(PASSES))
def test_one_that_is_read_once_and_image_by_image_is_left(read: str, line: int) -> None:
    left(MADE + LOADER, f"it is read once (line {line}), and nothing would read it again", read, RESIZING)


@pytest.mark.parametrize("read", PASSES.values(), ids=list(PASSES))
def test_one_that_is_read_once_is_transformed_by_one_call(read: str) -> None:
    before, after = f"{TRANSFORM}{MADE}{LOADER}{read}", f"{TRANSFORM}{MADE}{ONCE}{LOADER}{read}"

    check_rewrites(DatasetMaterialize, IMPORTS + before, AFTER + after)

    (site,) = run(DatasetMaterialize, IMPORTS + before).sites
    assert site.message == "each image is decoded and transformed by itself"


@pytest.mark.parametrize(
    ("before", "data"),
    [
        pytest.param("dataset = data_set = 1\n", MADE.removeprefix("data = ").strip(), id="no name is free"),
        pytest.param("images = data_images = 1\n" + MADE, "data", id="its images cannot have a name"),
    ],
)
def test_one_that_is_read_once_is_left_where_one_call_cannot_be_written(before: str, data: str) -> None:
    loader = f"loader = DataLoader({data}, batch_size=64)\n"
    line = 7 + before.count("\n")
    left(before + loader, f"it is read once (line {line}), and nothing would read it again", PASSES["a pass"])


def test_a_test_set_is_left_that_the_function_reads_once_that_validates_in_each_epoch() -> None:
    function = "def validate(loader):\n    for a, b in loader:\n        print(a.sum(), b.sum())\n"
    sets = "\n".join(f"{name} = datasets.MNIST('data', transform=transform)" for name in ("valid", "test"))
    loaders = "valid_loader, test_loader = DataLoader(valid, batch_size=64), DataLoader(test, batch_size=64)\n"
    read = "for epoch in range(5):\n    validate(valid_loader)\nvalidate(test_loader)\n"

    first, second = run(DatasetMaterialize, f"{IMPORTS}{function}{RESIZING}{sets}\n{loaders}{read}").sites

    assert first.rewrites
    assert second.message == "it is read once (line 6), and nothing would read it again"


def test_one_of_which_a_loop_reads_a_part_is_left() -> None:
    part = "for epoch in range(9):\n    for a, b in loader:\n        print(a)\n        if b.sum() > 9:\n            break\n"
    left(MADE + LOADER, "it is not seen to be read from the start to the end", part)
    inner = part.replace("        if b.sum() > 9:", "        for _ in range(3):")
    assert ONCE in run(DatasetMaterialize, IMPORTS + TRANSFORM + MADE + LOADER + inner).after


def test_one_that_is_made_in_each_epoch_is_left() -> None:
    read = (
        f"for epoch in range(3):\n    {MADE}    {LOADER}    for a, b in loader:\n        print(a)\n"
        "    for a, b in loader:\n        print(b)\n"
    )
    left("", "it is made anew in each pass of a loop (line 6)", read)


def test_one_of_a_framework_is_left() -> None:
    read = "import pytorch_lightning as pl\npl.Trainer(max_epochs=3).fit(object(), loader)\n"
    left(MADE + LOADER, "pl.Trainer(max_epochs=3).fit() reads it, in code that is not followed (line 9)", read)


# What is no site.


@pytest.mark.parametrize(
    "code",
    [
        pytest.param('data = datasets.ImageFolder("data", transform=transform)\n' + LOADER, id="images of any size"),
        pytest.param(MADE + "loader = DataLoader(datasets.FakeData(transform=transform))\n", id="nobody reads it"),
    ],
)
def test_other_data_sets_are_no_sites(code: str) -> None:
    check_silent(DatasetMaterialize, f"{IMPORTS}{TRANSFORM}{code}{READ}")
