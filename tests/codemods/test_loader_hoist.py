from __future__ import annotations

import pytest
from kit import ACCELERATED, check_leaves, check_rewrites, check_silent, run

from autotune_rewrite.rewriting.config import Settings
from autotune_rewrite.rewriting.rewrite import rewrite
from codemods.catalogue import GROUPS
from codemods.codemod import Promise
from codemods.rules.loader_hoist import LoaderHoist
from tests.training import run_script

IMPORTS = """\
import torch
from torch.utils.data import ConcatDataset, DataLoader, Subset, TensorDataset, random_split
from torchvision import datasets, transforms

"""
DATA = "data = TensorDataset(torch.arange(64.0), torch.arange(64))\n"
TOP = IMPORTS + DATA
FIRST = 6
"""The line below these."""
EPOCHS = "for epoch in range(3):\n"
READ = "    for x, y in loader:\n        print(x.sum(), y.sum())\n"
LOADER = "    loader = DataLoader(data, batch_size=8, shuffle=True)\n"


def left(code: str, because: str) -> None:
    check_leaves(LoaderHoist, TOP + code, because)


def rewrites(before: str, after: str) -> None:
    check_rewrites(LoaderHoist, TOP + before, TOP + after)


# What goes above the loop.


def test_a_loader_goes_above_the_loop_with_its_comments() -> None:
    rewrites(
        f"# Train.\n{EPOCHS}    total = 0\n\n    # Shuffled.\n    loader = DataLoader(\n        data,\n"
        f"        batch_size=8,  # small\n    )  # new\n\n{READ}",
        "# Shuffled.\nloader = DataLoader(\n    data,\n    batch_size=8,  # small\n)  # new\n"
        f"# Train.\n{EPOCHS}    total = 0\n\n{READ}",
    )


@pytest.mark.parametrize(
    ("before", "header", "name"),
    [
        pytest.param("", "for x, y in {}:", "loader", id="a loop over it"),
        pytest.param("", "for i, (x, y) in enumerate({}, 1):", "loader", id="counted"),
        pytest.param(
            "train_set = data\n", "for x, y in {}:  # batches", "train_loader", id="of a data set for training"
        ),
        pytest.param("digits = data\n", "for x, y in {}:", "digits_loader", id="of one with another name"),
        pytest.param("loader = 3\n", "for x, y in {}:", "data_loader", id="where a name is taken"),
    ],
)
def test_one_without_a_name_gets_one_above_the_loop(before: str, header: str, name: str) -> None:
    data = before.partition(" ")[0] if before.endswith("= data\n") else "data"
    made = f"DataLoader({data}, batch_size=8, shuffle=True)"

    read = "        print(x.sum(), y.sum())\n"
    rewrites(
        f"{before}# Train.\n{EPOCHS}    {header.format(made)}\n{read}",
        f"{before}# Train.\n{name} = {made}\n{EPOCHS}    {header.format(name)}\n{read}",
    )


def test_several_lines_of_one_without_a_name_keep_their_form() -> None:
    made = "DataLoader(\n        data,\n        batch_size=8,  # small\n    )"
    read = "        print(x, y)\n"
    rewrites(
        f"{EPOCHS}    for x, y in {made}:\n{read}",
        f"loader = {made.replace(chr(10) + '    ', chr(10))}\n{EPOCHS}    for x, y in loader:\n{read}",
    )


def test_two_without_names_get_two() -> None:
    read = "    for x, y in {}:\n        print(x, y)\n"
    made = ("DataLoader(data, 8)", "DataLoader(data, 16)")
    rewrites(
        EPOCHS + "".join(map(read.format, made)),
        f"loader = {made[0]}\ndata_loader = {made[1]}\n{EPOCHS}" + "".join(map(read.format, ("loader", "data_loader"))),
    )


def test_what_the_loop_builds_it_of_goes_along_in_its_order() -> None:
    inner = (
        "    size = 8\n    train, test = Subset(data, range(60)), Subset(data, [60, 61])\n"
        "    loader = DataLoader(train, size)\n    others = DataLoader(test, size * 2)\n"
    )
    read = f"{READ}    for x, y in others:\n        print(x)\n"
    rewrites(EPOCHS + inner + read, inner.replace("    ", "") + EPOCHS + read)


def test_archives_are_read_where_the_loop_surely_has_a_pass() -> None:
    inner = (
        "    transform = transforms.Compose([transforms.RandomHorizontalFlip(), transforms.ToTensor()])\n"
        '    train = datasets.CIFAR10("data", transform=transform)\n    loader = DataLoader(train, 8)\n'
    )
    for loop in (EPOCHS, "count = 3\nfor epoch in range(1, count):\n", "while True:\n"):
        above, header = loop.rsplit("\n", 2)[0] if loop.count("\n") > 1 else "", loop.splitlines()[-1]
        rewrites(loop + inner + READ, (above and above + "\n") + inner.replace("    ", "") + f"{header}\n{READ}")


def test_a_function_that_only_builds_is_called_once() -> None:
    function = (
        'def build(size, workers=2):\n    """Loaders."""\n    subset = Subset(data, range(60))\n'
        "    train = DataLoader(subset, size, shuffle=True, num_workers=workers)\n"
        "    return train, DataLoader(data, size)\n\n\n"
    )
    call = "    loader, others = build(8)\n"
    read = f"{READ}    for x, y in others:\n        print(x)\n"
    rewrites(function + EPOCHS + call + read, f"{function}{call.strip()}\n{EPOCHS}{read}")


def test_a_method_that_only_builds_is_called_once() -> None:
    script = (
        "class Trainer:\n    def __init__(self, data, size):\n        self.data = data\n        self.size = size\n\n"
        "    def loader(self):\n        return DataLoader(self.data, self.size, shuffle=True)\n\n"
        "    def fit(self, epochs):\n{}        for epoch in range(epochs):\n{}            for x, y in loader:\n"
        "                print(x)\n\n\nTrainer(data, 8).fit(3)\n"
    )
    line = "loader = self.loader()\n"
    rewrites(script.format("", " " * 12 + line), script.format(" " * 8 + line, ""))


SUMMED = """\
for epoch in range(3):
{}    total = 0.0
    correct, seen = 0, 0
    for x, y in loader:
        total += x.sum().item() * 0.5
        correct += (x.argmax(1) == y).float().sum()
        seen += len(x)
"""


@pytest.mark.parametrize(
    ("before", "made"),
    [
        pytest.param(
            "transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])\n",
            'datasets.MNIST("data", transform=transform)',
            id="numbers, where a transform has some",
        ),
        pytest.param(
            "rows = torch.ones(9, 3) / 3\n", "TensorDataset(rows)", id="a tensor, where the data set has some"
        ),
    ],
)
def test_what_the_loop_adds_up_is_no_number_or_tensor_of_the_loader_s(before: str, made: str) -> None:
    lines = [f"images = {made}\n", "loader = DataLoader(images, 8)\n"]
    inside = SUMMED.format("".join(f"    {each}" for each in lines))
    rewrites(before + inside, before + "".join(lines) + SUMMED.format(""))


@pytest.mark.parametrize(
    ("before", "call"),
    [
        pytest.param("", "data, batch_size=args.size, num_workers=args.workers > 0", id="the user's choices"),
        pytest.param("g = torch.Generator()\n", "data, 8, shuffle=True, generator=g", id="a generator from outside"),
        pytest.param('kwargs = {"num_workers": 2}\n', "data, 8, **kwargs", id="a dictionary that stays"),
        pytest.param('sets = {"train": data}\n', 'sets["train"], 8', id="an item of a dictionary that stays"),
        pytest.param("", "data, 8, collate_fn=lambda items: items", id="a function without names of the loop"),
        pytest.param("parts = random_split(data, [60, 4])\n", "parts[0], 8", id="a split from outside"),
        pytest.param("", "ConcatDataset([data, data]), 8", id="a data set that keeps others"),
        pytest.param("other = Subset(data, [1])\n", "data + other, 8", id="two data sets, one after the other"),
    ],
)
def test_arguments_that_stay(before: str, call: str) -> None:
    options = (
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--size', type=int, default=8)\n"
        "parser.add_argument('--workers', type=int, default=2)\nargs = parser.parse_args()\n"
    )
    line = f"loader = DataLoader({call})\n"
    rewrites(f"{options}{before}{EPOCHS}    {line}{READ}", f"{options}{before}{line}{EPOCHS}{READ}")


@pytest.mark.parametrize(
    "read",
    [
        pytest.param("    x, y = next(iter(loader))\n", id="its first batch"),
        pytest.param("    print(len(loader), len(loader.dataset), loader.batch_size)\n" + READ, id="its length"),
        pytest.param("    batches = iter(loader)\n    print(next(batches), next(batches))\n", id="an iterator"),
        pytest.param("    fit(loader)\n", id="a function of the project"),
    ],
)
def test_uses_to_which_it_is_the_same_loader(read: str) -> None:
    function = "def fit(batches):\n    for x, y in batches:\n        print(x)\n\n\n"
    rewrites(function + EPOCHS + LOADER + read, function + LOADER.strip() + "\n" + EPOCHS + read)


def test_a_sampler_that_is_set_in_the_loop_is_the_same_object() -> None:
    sampler = (
        "from torch.utils.data.distributed import DistributedSampler\n\nsampler = DistributedSampler(data, 1, 0)\n"
    )
    line, setting = "loader = DataLoader(data, 8, sampler=sampler)\n", "    sampler.set_epoch(epoch)\n"
    rewrites(f"{sampler}{EPOCHS}{setting}    {line}{READ}", f"{sampler}{line}{EPOCHS}{setting}{READ}")


def test_a_loop_over_epochs_in_another_loop_keeps_it_inside_of_that() -> None:
    before = f"for run in range(2):\n    for epoch in range(3):\n    {LOADER}        for x, y in loader:\n            print(x)\n"
    after = (
        f"for run in range(2):\n{LOADER}    for epoch in range(3):\n        for x, y in loader:\n            print(x)\n"
    )
    rewrites(before, after)


def test_workers_stay_and_images_are_decoded_once_afterwards() -> None:
    made = 'data = datasets.MNIST("data", transform=transforms.ToTensor())\n'
    before = f"{IMPORTS}{made}{EPOCHS}    loader = DataLoader(data, 8{{}})\n{READ}"
    settings = Settings(GROUPS["ALL"], Promise.TRAINING)

    result = rewrite("train.py", before.format(", num_workers=2"), settings)
    assert f"loader = DataLoader(data, 8, num_workers=2, persistent_workers=True)\n{EPOCHS}" in result.after
    assert {(site.rule, site.line) for site in result.sites if site.rewrites} == {
        ("loader-hoist", 7),
        ("loader-persistent", 7),
    }
    none = rewrite("train.py", before.format(""), settings)
    assert "dataset-materialize" in {site.rule for site in none.sites if site.rewrites}


# That it is the same.


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("data, 8, shuffle=True", id="shuffled"),
        pytest.param("data, 8, shuffle=True, num_workers=2", id="with workers"),
        pytest.param("data, 8, shuffle=True, generator=g", id="with a generator from outside"),
        pytest.param("data, 8, sampler=sampler", id="with a sampler that is told the epoch"),
        pytest.param("data, 8, sampler=torch.utils.data.SubsetRandomSampler(range(40))", id="with a sampler"),
    ],
)
def test_losses_and_random_numbers_are_the_same_bit_for_bit(call: str) -> None:
    text = (
        f"{TOP}from torch.utils.data.distributed import DistributedSampler\n\n"
        "torch.manual_seed(0)\ng = torch.Generator()\nsampler = DistributedSampler(data, 1, 0)\n"
        "model = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.Dropout(), torch.nn.Linear(4, 1))\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)\n"
        f"{EPOCHS}    sampler.set_epoch(epoch)\n    loader = DataLoader({call})\n    for x, y in loader:\n"
        "        optimizer.zero_grad()\n        loss = (model(x[:, None])[:, 0] - y).square().mean()\n"
        "        loss.backward()\n        optimizer.step()\n        print(loss.item().hex())\n"
        "print(torch.random.get_rng_state().sum())\n"
    )
    after = run(LoaderHoist, text).after
    assert after is not None
    assert after != text
    assert run_script(after) == run_script(text)


def test_a_generator_that_is_seeded_with_the_loader_shuffles_otherwise_once_it_is_not() -> None:
    text = f"{TOP}{EPOCHS}    loader = DataLoader(data, 64, shuffle=True{{}})\n    print(next(iter(loader)))\n"
    lines = text.format(", generator=torch.Generator().manual_seed(0)").splitlines(keepends=True)
    above = [*lines[:5], lines[6].strip() + "\n", lines[5], lines[7]]
    assert run_script("".join(lines)) != run_script("".join(above))


def test_workers_that_stay_shuffle_otherwise_where_the_loader_does() -> None:
    text = (
        f"{TOP}torch.manual_seed(0)\n{EPOCHS}    loader = DataLoader(data, 64, shuffle=True, num_workers=1, "
        "persistent_workers=True)\n    for x, y in loader:\n        print(x)\n    del x, y\n"
    )
    lines = text.splitlines(keepends=True)
    above = [*lines[:6], lines[7].strip() + "\n", lines[6], *lines[8:]]
    assert run_script(text) != run_script("".join(above))


# What is left for what it is built of.


@pytest.mark.parametrize(
    ("code", "because"),
    [
        pytest.param(
            f"{EPOCHS}    import torch.utils.data as source\n    loader = source.DataLoader(data, 8)\n{READ}",
            "'source' changes from one pass of the loop to the next (line 6)",
            id="its class is imported in the loop",
        ),
        pytest.param(
            "def train():\n    def size():\n        return n\n\n    n = 8\n    for epoch in range(3):\n"
            "        loader = DataLoader(data, size())\n        for x, y in loader:\n            print(x)\n"
            "        n += 8\n\n\ntrain()\n",
            "'n' changes from one pass of the loop to the next (line 15)",
            id="a function beside the loop reads what that changes",
        ),
        pytest.param(
            f"options = {{'size': 8}}\nalso = options\n{EPOCHS}    loader = DataLoader(data, options['size'])\n{READ}"
            "    also |= {'size': 16}\n",
            "'also' is changed in the loop (line 12)",
            id="a dictionary is joined by another name",
        ),
        *(
            pytest.param(
                f"class Options:\n    size = 8\n\n\nargs = Options()\n{EPOCHS}"
                f"    loader = DataLoader(data, args.size)\n{READ}    {change}\n",
                "'args.size' may be written in the loop (line 15)",
                id=change,
            )
            for change in (
                "vars(args)['size'] = 16",
                "args.__dict__.update(size=16)",
                "parse(namespace=args)",
                "args.__dict__ |= {'size': 16}",
                "args.__dict__ = {'size': 16}",
                "args.__setattr__('size', 16)",
            )
        ),
        *(
            pytest.param(
                f"import argparse\n\nparser = argparse.ArgumentParser()\nparser.add_argument('--size', type=int)\n"
                f"args = parser.parse_args()\n{before}{EPOCHS}    loader = DataLoader(data, args.size)\n{READ}    {change}\n",
                f"'args.size' may be written in the loop (line {line})",
                id=f"{before}{change}",
            )
            for before, change, line in (
                ("d = vars(args)\n", "d['size'] = 16", 16),
                ("d = args.__dict__\n", "d.update(size=16)", 16),
                ("d = vars(args)\n", "d |= {'size': 16}", 16),
                ("def grow(d):\n    d['size'] *= 2\n", "grow(vars(args))", 12),
            )
        ),
        pytest.param(
            "import types\n\n\ndef grow(d):\n    d.update(size=16)\n\n\nargs = types.SimpleNamespace(size=8)\n"
            f"d = args.__dict__\n{EPOCHS}    loader = DataLoader(data, args.size)\n{READ}    grow(d)\n",
            "'args.size' may be written in the loop (line 10)",
            id="the dictionary of a namespace that is not followed",
        ),
        *(
            pytest.param(
                f"size = 8\n{EPOCHS}    loader = DataLoader(data, size)\n{READ}    {change}\n",
                f"{what} may be given another value in the loop (line 11)",
                id=change,
            )
            for what, change in (
                ("'size'", "globals()['size'] = 16"),
                ("a variable that is not named", "vars().update(size=16)"),
                ("a variable that is not named", "exec('size = 16')"),
            )
        ),
        pytest.param(
            f"{EPOCHS}    loader = DataLoader(data, 8 + epoch)\n{READ}",
            "'epoch' changes from one pass of the loop to the next (line 6)",
            id="the epoch",
        ),
        pytest.param(
            f"{EPOCHS}    chosen = torch.randperm(64)[:8].tolist()\n"
            f"    loader = DataLoader(Subset(data, chosen), 8)\n{READ}",
            "randperm() draws random numbers in each pass of the loop (line 7)",
            id="a part that is drawn anew",
        ),
        pytest.param(
            f"{EPOCHS}    train, test = random_split(data, [60, 4])\n    loader = DataLoader(train, 8)\n{READ}",
            "random_split() draws random numbers in each pass of the loop (line 7)",
            id="a split that is drawn anew",
        ),
        pytest.param(
            f"{EPOCHS}    loader = DataLoader(data, 8, shuffle=True, generator=torch.Generator().manual_seed(0))\n{READ}",
            "its generator is seeded anew in each pass of the loop (line 7)",
            id="a generator that is seeded anew",
        ),
        pytest.param(
            f"size = 8\n{EPOCHS}    loader = DataLoader(data, size)\n{READ}    size += 8\n",
            "'size' changes from one pass of the loop to the next (line 11)",
            id="a number that grows",
        ),
        pytest.param(
            f"size = 8\ndef grow():\n    global size\n    size += 8\n{EPOCHS}    loader = DataLoader(data, size)\n{READ}"
            "    grow()\n",
            "'size' is given a value by grow() (line 7)",
            id="a number that a function changes",
        ),
        pytest.param(
            f"kwargs = {{'batch_size': 8}}\n{EPOCHS}    loader = DataLoader(data, **kwargs)\n{READ}"
            "    kwargs['batch_size'] = 9\n",
            "'kwargs' is changed in the loop (line 11)",
            id="a dictionary that changes",
        ),
        pytest.param(
            f"import types\nconfig = types.SimpleNamespace(size=8)\n{EPOCHS}    loader = DataLoader(data, config.size)\n"
            f"{READ}    config.size = 9\n",
            "'config.size' is written in the loop (line 12)",
            id="an attribute that changes",
        ),
        pytest.param(
            f"pool = []\n{EPOCHS}    pool.append(torch.zeros(1))\n    loader = DataLoader(pool, 8, shuffle=True)\n"
            "    for x in loader:\n        print(x)\n",
            "'pool' is changed in the loop (line 8)",
            id="a list that is empty before",
        ),
        pytest.param(
            f"images = torch.zeros(9, 3) / 3\ndef shift(total, by):\n    total += by\n{EPOCHS}"
            f"    loader = DataLoader(TensorDataset(images), 8)\n{READ.replace('x, y', 'x, *y').replace('y.sum()', 'y')}"
            "    shift(images, 1)\n",
            "'total' is changed in the loop (line 8)",
            id="a tensor that a function adds to",
        ),
        pytest.param(
            f"labeled = [0, 1]\n{EPOCHS}    loader = DataLoader(Subset(data, labeled), 8)\n{READ}    labeled.append(epoch)\n",
            "'labeled' is changed in the loop (line 11)",
            id="active learning",
        ),
        pytest.param(
            "class Replay(torch.utils.data.Dataset):\n    def __init__(self):\n        self.items = []\n\n"
            "    def add(self, item):\n        self.items.append(item)\n\n    def __len__(self):\n"
            "        return len(self.items)\n\n    def __getitem__(self, index):\n        return self.items[index]\n\n\n"
            f"replay = Replay()\n{EPOCHS}    replay.add((torch.zeros(1), 0))\n    loader = DataLoader(replay, 8)\n{READ}",
            "its data set, or what that works with, is changed in the loop (line 22)",
            id="a data set to which the loop adds",
        ),
        pytest.param(
            f"{EPOCHS}    images = datasets.FakeData(10)\n    loader = DataLoader(images, 8)\n{READ}",
            "FakeData() is not known to make the same in each pass of the loop (line 7): build it above the loop if it "
            "does",
            id="a data set that is not known to be the same",
        ),
        pytest.param(
            f"{EPOCHS}    loader = DataLoader(data, 8, num_workers=2, persistent_workers=True)\n{READ}",
            "its workers stay, and one that is built once draws no new seed, and so shuffles otherwise: build it above "
            "the loop where that may be",
            id="workers that stay",
        ),
        pytest.param(
            f"def build():\n    print('new')\n    return DataLoader(data, 8)\n{EPOCHS}    loader = build()\n{READ}",
            "build() does more than build (line 7)",
            id="a function that does more",
        ),
        pytest.param(
            f"def fit(data, epochs):\n    for epoch in range(epochs):\n    {LOADER}        for x, y in loader:\n"
            "            print(x)\n",
            "its data set is not known: 'data' is a parameter of fit(), which nothing in this file calls",
            id="a data set that is not known",
        ),
    ],
)
def test_a_loader_is_left_for_what_it_is_built_of(code: str, because: str) -> None:
    left(code, because)


# What is left for where it stands, and who uses it.


@pytest.mark.parametrize(
    ("code", "because"),
    [
        pytest.param(
            f"{EPOCHS}    if epoch > 0:\n        loader = DataLoader(data, 8)\n    else:\n        loader = []\n{READ}",
            "it does not stand in the loop itself, but in an inner block (line 7): build it above the loop",
            id="under a condition",
        ),
        pytest.param(
            f"{EPOCHS}    part = Subset(data, range(8))\n    for x, y in DataLoader(part, 8):\n        print(x)\n",
            "it is built where it is read, or kept in something else than a name (line 8): give it a name above the "
            "loop",
            id="without a name, of what the loop makes",
        ),
        pytest.param(
            f"{EPOCHS}    for x, y in [*DataLoader(data, 8)]:\n        print(x)\n",
            "it is built where it is read, or kept in something else than a name (line 7): give it a name above the "
            "loop",
            id="without a name, unpacked",
        ),
        pytest.param(
            f"{EPOCHS}    x, y = next(iter(DataLoader(data, 8)))\n    print(x)\n",
            "it is built where it is read, or kept in something else than a name (line 7): give it a name above the "
            "loop",
            id="its first batch, without a name",
        ),
        pytest.param(
            f"def train():\n{LOADER}    total = 0\n{READ}{EPOCHS}    train()\n",
            "a function builds it anew each time that a loop calls it, or calls what does (line 12): build it above the "
            "loop, and pass it on",
            id="in a function that also reads it",
        ),
        pytest.param(
            f"loader = None\n{EPOCHS}{LOADER}{READ}",
            "'loader' is given another value elsewhere (line 6)",
            id="a name with another value before",
        ),
        pytest.param(
            f"{EPOCHS}    if epoch > 0:\n        print(len(loader))\n{LOADER}{READ}",
            "'loader' is read before it is made (line 8)",
            id="a name that is read before",
        ),
        pytest.param(
            f"kept = []\n{EPOCHS}{LOADER}    kept.append(loader)\n{READ}",
            "it is kept or used in another way than to read its batches (line 9)",
            id="kept in a list",
        ),
        pytest.param(
            f"{EPOCHS}{LOADER}{READ}    loader.collate_fn = None\n",
            "it is kept or used in another way than to read its batches (line 10)",
            id="changed itself",
        ),
        pytest.param(
            f"import some_package\n{EPOCHS}{LOADER}    some_package.fit(loader)\n",
            "some_package.fit() reads it, in code that is not followed (line 9)",
            id="handed to other code",
        ),
        pytest.param(
            "def batches():\n    while True:\n        loader = DataLoader(data, 8)\n        for x, y in loader:\n"
            "            yield x\n",
            "other code runs where the loop yields, and may change what the loader is built of: build it above the loop",
            id="a generator",
        ),
        pytest.param(
            "class Loader(DataLoader):\n    def __iter__(self):\n        return super().__iter__()\n\n\n"
            f"{EPOCHS}    loader = Loader(data, 8)\n{READ}",
            "class Loader makes or reads its batches in a way of its own",
            id="a class of the project",
        ),
        pytest.param(
            "import sys\nfor epoch in range(int(sys.argv[1])):\n    train = datasets.MNIST('data')\n"
            f"    loader = DataLoader(train, 8)\n{READ}",
            "the loop may have no pass, and then no data are read (line 7): build data set and loader above the loop",
            id="files that would be read without a pass",
        ),
        pytest.param(
            f"{EPOCHS}    if epoch < 9:\n        continue\n    train = datasets.MNIST('data')\n"
            f"    loader = DataLoader(train, 8)\n{READ}",
            "a pass may end before it reads the data (line 8)",
            id="files that would be read in no pass",
        ),
    ],
)
def test_a_loader_is_left_where_it_stands(code: str, because: str) -> None:
    left(code, because)


def test_a_dictionary_of_options_may_be_written_under_another_key() -> None:
    before = "import argparse\nargs = argparse.ArgumentParser().parse_args()\nd = vars(args)\n"
    loader = LOADER.replace("8", "args.size")
    moved, after = loader.removeprefix("    "), "    d['epoch'] = epoch\n"
    rewrites(f"{before}{EPOCHS}{loader}{READ}{after}", f"{before}{moved}{EPOCHS}{READ}{after}")


SOME = "import sys\nfor epoch in range(int(sys.argv[1])):\n"


@pytest.mark.parametrize(
    ("code", "line"),
    [
        pytest.param(f"{SOME}{LOADER}{READ}if 'loader' in globals():\n    print(len(loader))\n", 11, id="globals"),
        pytest.param(f"{SOME}{LOADER}{READ}for name in dir():\n    print(name)\n", 11, id="dir"),
        pytest.param(
            f"{SOME}{LOADER}{READ}try:\n    print(len(loader))\nexcept NameError:\n    print('no epochs')\n",
            13,
            id="NameError",
        ),
        pytest.param(
            f"{SOME}{LOADER}{READ}try:\n    print(len(loader))\nexcept:\n    print('no epochs')\n", 13, id="any error"
        ),
        pytest.param(f"{EPOCHS}    print('loader' in vars())\n{LOADER}{READ}", 7, id="before it is built"),
    ],
)
def test_one_is_left_whose_name_is_asked_for(code: str, line: int) -> None:
    because = f"the script asks which names there are (line {line}), and its name would be there before the loop"
    left(code, f"{because}: build it above the loop")


@pytest.mark.parametrize(
    ("head", "after"),
    [
        pytest.param(EPOCHS, "print('loader' in globals(), sorted(locals()))\n", id="after a loop that has a pass"),
        pytest.param(SOME, "print(globals()['data'], 'data' in globals())\n", id="for another name"),
        pytest.param(SOME, "try:\n    print(epoch)\nexcept NameError:\n    print('none')\n", id="for the epoch"),
        pytest.param(SOME, "try:\n    print(len(loader))\nexcept OSError:\n    pass\n", id="another error"),
    ],
)
def test_names_that_are_asked_for_otherwise_are_no_obstacle(head: str, after: str) -> None:
    first, loop = head.partition("for")[0], head[head.index("for") :]
    moved = LOADER.removeprefix("    ")
    rewrites(f"{head}{LOADER}{READ}{after}", f"{first}{moved}{loop}{READ}{after}")


def test_one_that_two_loops_build_by_a_function_of_a_function_is_one_site() -> None:
    build = "def build():\n    loader = DataLoader(data, 8)\n    print(len(loader))\n    return loader\n\n\n"
    train = f"def train():\n    loader = build()\n{READ}\n\n"
    result = run(LoaderHoist, f"{TOP}{build}{train}{EPOCHS}    train()\n{EPOCHS}    train()\n")

    (site,) = result.sites
    assert site.line == 7
    assert "a function builds it anew each time that a loop calls it, or calls what does (line 19)" in site.message


def test_one_that_accelerate_prepares_is_left() -> None:
    lines = ACCELERATED.splitlines(keepends=True)
    made = next(line for line in lines if line.startswith("loader ="))
    text = ACCELERATED.replace(made, "").replace(
        "loader = accelerator.prepare(model, optimizer, loader)", "_ = 0, 0, 0"
    )
    text = text.replace("    for x, y", f"    {made}    for x, y").replace(
        "in loader", "in accelerator.prepare(loader)"
    )
    check_leaves(LoaderHoist, text, "accelerator.prepare() reads it, in code that is not followed (line 12)")


# What is no site.


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(LOADER.strip() + "\n" + EPOCHS + READ, id="it is built once"),
        pytest.param(
            f"for fold in range(3):\n{LOADER}    for epoch in range(3):\n    {READ.replace(chr(10), chr(10) + '    ')}",
            id="each fold reads it again",
        ),
        pytest.param("loaders = [DataLoader(data, size) for size in (8, 16)]\n", id="a list of loaders"),
    ],
)
def test_other_loaders_are_no_sites(code: str) -> None:
    check_silent(LoaderHoist, TOP + code)
