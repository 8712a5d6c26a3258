from __future__ import annotations

import itertools

import pytest
from kit import check_leaves, check_rewrites, check_silent, found_by, run

from autotune_rewrite.rewriting.config import Settings
from autotune_rewrite.rewriting.rewrite import rewrite
from codemods.catalogue import GROUPS
from codemods.codemod import Promise
from codemods.rules.dataset_on_device import DatasetOnDevice

IMPORTS = "import torch\nfrom torch.utils.data import DataLoader, TensorDataset, random_split\n\n"
WITH_RANDOM = IMPORTS.replace("DataLoader,", "BatchSampler, DataLoader, RandomSampler,")
DEVICE = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
DATA = "x, y = torch.randn(1000, 8), torch.randint(10, (1000,))\n"
READ = "for epoch in range(3):\n    for a, b in loader:\n        a, b = a.to(device), b.to(device)\n"
SAMPLER = "batch_size=None, sampler=BatchSampler(RandomSampler(data), 64, drop_last=False)"


def rewrites(before: str, after: str, read: str = READ, device: str = DEVICE) -> None:
    """Of a script with this data set and loader the rule makes one with that."""
    check_rewrites(
        DatasetOnDevice, f"{IMPORTS}{device}{DATA}{before}\n{read}", f"{WITH_RANDOM}{device}{DATA}{after}\n{read}"
    )


def left(code: str, because: str, read: str = READ, device: str = DEVICE) -> None:
    check_leaves(DatasetOnDevice, f"{IMPORTS}{device}{DATA}{code}\n{read}", because)


MADE = "data = TensorDataset(x, y)\nloader = DataLoader(data, batch_size=64, shuffle=True)"


# What is written.


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            MADE,
            f"data = TensorDataset(x.to(device), y.to(device))\nloader = DataLoader(data, {SAMPLER})",
            id="by name",
        ),
        pytest.param(
            "data = TensorDataset(x * 2 + 1, y.long())\nloader = DataLoader(data, batch_size=64, shuffle=True)",
            f"data = TensorDataset((x * 2 + 1).to(device), y.long().to(device))\nloader = DataLoader(data, {SAMPLER})",
            id="tensors that are computed there",
        ),
        pytest.param(
            "data = TensorDataset(x, y)\nloader = DataLoader(data, batch_size=64, shuffle=True, pin_memory=True)",
            f"data = TensorDataset(x.to(device), y.to(device))\nloader = DataLoader(data, {SAMPLER})",
            id="what is on the device cannot be pinned",
        ),
        pytest.param(
            "data = TensorDataset(x, y)\nloader = DataLoader(data, batch_size=64, shuffle=True, num_workers=0)",
            "data = TensorDataset(x.to(device), y.to(device))\nloader = DataLoader(data, batch_size=None, num_workers=0, "
            "sampler=BatchSampler(RandomSampler(data), 64, drop_last=False))",
            id="no workers, as it says itself",
        ),
    ],
)
def test_a_data_set_is_moved_as_a_whole_and_read_by_an_index(before: str, after: str) -> None:
    rewrites(before, after)


def test_parts_of_it_go_with_it() -> None:
    made = "part, rest = random_split(TensorDataset({0}, {1}), [800, 200])\n"
    loaders = "loader = DataLoader(part, batch_size=64, shuffle=True)\ntests = DataLoader(rest, batch_size=200)\n"
    cut = (
        "loader = DataLoader(part, batch_size=None, sampler=BatchSampler(RandomSampler(part), 64, drop_last=False))\n"
        "tests = DataLoader(rest, batch_size=None, sampler=BatchSampler(SequentialSampler(rest), 200, drop_last=False))\n"
    )
    read = f"{READ}    for a, b in tests:\n        a, b = a.to(device), b.to(device)\n"
    imports = WITH_RANDOM.replace("RandomSampler", "RandomSampler, SequentialSampler")
    before = f"{IMPORTS}{DEVICE}{DATA}{made.format('x', 'y')}{loaders}{read}"
    after = f"{imports}{DEVICE}{DATA}{made.format('x.to(device)', 'y.to(device)')}{cut}{read}"
    check_rewrites(DatasetOnDevice, before, after)
    assert run(DatasetOnDevice, before, target=(1, 9)).after == before  # subsets take lists of indices since 1.10


def test_batches_that_a_sampler_makes_already_stay() -> None:
    before = f"{WITH_RANDOM}{DEVICE}{DATA}data = TensorDataset(x, y)\nloader = DataLoader(data, {SAMPLER})\n{READ}"
    check_rewrites(DatasetOnDevice, before, before.replace("(x, y)", "(x.to(device), y.to(device))"))


@pytest.mark.parametrize(
    ("device", "moved", "said"),
    [
        pytest.param("", ".cuda()", ".cuda()", id="the first GPU"),
        pytest.param("", '.to("cuda")', '.to("cuda")', id="a text"),
        pytest.param("gpu = torch.device('cuda:1')\n", ".to(gpu, non_blocking=True)", ".to(gpu)", id="by its name"),
        pytest.param(DEVICE, ".to(device, torch.float64)", ".to(device)", id="with a number format"),
    ],
)
def test_the_device_is_said_as_the_loop_says_it(device: str, moved: str, said: str) -> None:
    read = f"for epoch in range(3):\n    for a, b in loader:\n        a, b = a{moved}, b{moved}\n"
    after = f"data = TensorDataset(x{said}, y{said})\nloader = DataLoader(data, {SAMPLER})"
    rewrites(MADE, after, read, device)


def test_a_function_is_given_the_loader_and_the_device() -> None:
    read = (
        "\ndef train(batches, where):\n    for batch in batches:\n        a, b = [each.to(where) for each in batch]\n\n"
        "for epoch in range(3):\n    train(loader, device)\n"
    )
    rewrites(MADE, f"data = TensorDataset(x.to(device), y.to(device))\nloader = DataLoader(data, {SAMPLER})", read)


IMAGES = """\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

device = torch.device("cuda")
images = datasets.MNIST("data", transform=transforms.ToTensor())
loader = DataLoader(images, batch_size=64, shuffle=True)
model = torch.nn.Linear(784, 10).to(device)
for epoch in range(5):
    for a, b in loader:
        a, b = a.view(-1, 784).to(device), b.to(device)
        torch.nn.functional.cross_entropy(model(a), b).backward()
"""


@pytest.mark.parametrize(
    ("name", "line", "size"),
    [
        pytest.param(
            "SVHN",
            "TensorDataset(*(each.to(device) for each in default_collate(list(images))))  # decode once",
            "901 MB",
            id="read one by one",
        ),
        pytest.param(
            "MNIST",
            "TensorDataset(images_images.to(device), images.targets.to(device))",
            "189 MB",
            id="transformed at once",
        ),
    ],
)
def test_images_that_were_decoded_once_follow(name: str, line: str, size: str) -> None:
    rules = GROUPS["DEFAULT"] | {DatasetOnDevice.name()}
    result = rewrite("train.py", IMAGES.replace("MNIST", name), Settings(rules, Promise.BITWISE))

    assert f"images = {line}\n" in result.after
    assert "sampler=BatchSampler(RandomSampler(images), 64, drop_last=False)" in result.after
    assert "pin_memory" not in result.after
    assert "num_workers" not in result.after
    assert "non_blocking" not in result.after
    (message,) = [site.message for site in result.sites if site.rule == "dataset-on-device"]
    assert message.endswith(f"where all of it takes at most {size}")
    again = rewrite("train.py", result.after, Settings(rules, Promise.BITWISE))
    assert again.after == result.after


def test_it_has_to_be_asked_for() -> None:
    before = f"{IMPORTS}{DEVICE}{DATA}{MADE}\n{READ}"
    sites = rewrite("train.py", before, Settings(GROUPS["DEFAULT"], Promise.BITWISE)).sites

    assert "dataset-on-device" not in {site.rule for site in sites}
    assert "loader-batched-index" in {site.rule for site in sites if site.rewrites}


def test_one_rule_alone_reads_tensors_that_are_in_memory() -> None:
    """Where all run that make loaders faster, those that act on the host find nothing to do."""
    before = f"{IMPORTS}{DEVICE}{DATA}{MADE}\n{READ}"
    rules = GROUPS["DEFAULT"] | {DatasetOnDevice.name()}
    result = rewrite("train.py", before, Settings(rules, Promise.BITWISE))

    assert {site.rule for site in result.sites if site.rewrites} == {"dataset-on-device"}


CASES = [
    ("data", shuffle, drop_last, generator)
    for shuffle, drop_last, generator in itertools.product((True, False), (True, False), (True, False))
] + [("part", True, False, False), ("part", False, True, True)]


@pytest.mark.parametrize(("data", "shuffle", "drop_last", "generator"), CASES)
def test_batches_and_random_numbers_are_the_same(data: str, *, shuffle: bool, drop_last: bool, generator: bool) -> None:
    """Over two epochs, where the device is the CPU: what the loop computes with, and what is drawn afterwards."""
    given = "g = torch.Generator().manual_seed(5)\n" if generator else ""
    arguments = f"shuffle={shuffle}, drop_last={drop_last}{', generator=g' if generator else ''}"
    before = (
        f"{IMPORTS}{DEVICE}torch.manual_seed(3)\nx, y = torch.randn(100, 3, 4), torch.randint(10, (100,))\n"
        f"data = TensorDataset(x, y)\npart, _ = random_split(data, [77, 23])\n{given}"
        f"loader = DataLoader({data}, batch_size=8, {arguments})\nfound = []\n"
        "for _ in range(2):\n    for a, b in loader:\n        a, b = a.to(device), b.to(device)\n"
        "        found.append((a.tolist(), a.stride(), b.tolist(), b.dtype))\n"
        "found.append((len(loader), len(loader.dataset), torch.rand(3).tolist()))\n"
    )
    after = run(DatasetOnDevice, before).after
    assert "TensorDataset(x.to(device), y.to(device))" in after
    assert found_by(before) == found_by(after)


# What is left.


def looped(body: str) -> str:
    return f"for epoch in range(3):\n    for a, b in loader:\n        {body}\n"


ON_HOST = "a batch of it is used before it is moved (line {}), in a way that needs it on the host"
OTHERWISE = "its items are used in another way than through a loader (line {}), and would be on the device"
CONDITION = (
    "its batches are moved under a condition, or in a form that moves no whole data set (line 10): "
    "write x.to(device), with a device that says where"
)


@pytest.mark.parametrize(
    ("read", "because"),
    [
        pytest.param(looped("a = a.to(device); b.numpy()"), ON_HOST.format(10), id="NumPy"),
        pytest.param(looped("a = a.to(device); print((a.cpu()[:, 0] > b).sum())"), ON_HOST.format(10), id="compared"),
        pytest.param(looped("a = (a / 255).to(device)"), ON_HOST.format(10), id="divided before it is moved"),
        pytest.param(
            looped("if not torch.cuda.is_available():\n            continue\n        a, b = a.cuda(), b.cuda()"),
            CONDITION.replace("10", "12"),
            id="after what goes on without CUDA",
        ),
        pytest.param(
            "def train():\n    if not torch.cuda.is_available():\n        return\n    for a, b in loader:\n"
            "        a, b = a.cuda(), b.cuda()\ntrain()\n",
            CONDITION.replace("10", "12"),
            id="in a function that returns without CUDA",
        ),
        pytest.param(looped("a = a.to(device)\n        if a.any():\n            b = b.to(device)"),
                     CONDITION.replace("10", "12"), id="under a condition"),
        pytest.param(looped("a = a.type(torch.cuda.FloatTensor)"), CONDITION, id="by a tensor type"),
        pytest.param(looped("a = a.to(device); b = b.cuda()"),
                     "its batches are moved in several ways (lines 10, 10), perhaps to several devices", id="in two ways"),
        pytest.param(looped("print(len(a))"),
                     "the batches of one of its loaders are not moved to a device (line 7)", id="to none"),
        pytest.param(looped("a = a.to('cpu')"), "its batches stay on the CPU (line 10)", id="to the CPU"),
        pytest.param(looped("a = a.to('xpu')"),
                     "its batches may go to another accelerator than CUDA (line 10)", id="to another accelerator"),
        pytest.param(f"{READ}print(data[0])\n", OTHERWISE.format(11), id="an item of its own"),
        pytest.param(f"{READ}print(data.tensors)\n", OTHERWISE.format(11), id="its tensors"),
        pytest.param(f"{READ}print(loader.dataset[0])\n", OTHERWISE.format(11), id="an item through the loader"),
        pytest.param(f"{READ}for a, b in data:\n    print(a)\n", OTHERWISE.format(11), id="item by item"),
        pytest.param(f"{READ}    x[0] += 1\n",
                     "'x' is written on the host afterwards (line 11), which a copy on the device would not see",
                     id="written"),
        pytest.param(f"model = torch.nn.DataParallel(torch.nn.Linear(8, 2))\n{READ}",
                     "nn.DataParallel spreads each batch over several GPUs (line 8)", id="several GPUs"),
        pytest.param(f"import torch.multiprocessing as mp\nmp.Process(target=print).start()\n{READ}",
                     "the script starts processes, which cannot use CUDA where it was used before they were forked",
                     id="processes"),
        pytest.param(f"{READ}torch.set_default_device('cuda')\n",
                     "the script says on which device tensors are made (line 11)", id="a default device"),
    ],
)  # fmt: skip
def test_what_needs_the_data_on_the_host(read: str, because: str) -> None:
    left(MADE, because, read)


@pytest.mark.parametrize(
    ("code", "because"),
    [
        pytest.param(
            MADE.replace("(x, y)", "(torch.load('x.pt').contiguous(), y)"),
            "how large torch.load('x.pt').contiguous() is, is not known (line 6): "
            "move it to the device there if it fits beside the model",
            id="of unknown size",
        ),
        pytest.param(
            MADE.replace("(x, y)", "(torch.zeros(100_000, 3, 224, 224), y)"),
            "it may take 112.2 GiB of the device's memory",
            id="too large",
        ),
        pytest.param(
            f"{MADE[:-1]}, num_workers=2)",
            "its batches are made in worker processes, from which each has to be sent: take num_workers away, as the "
            "data set is in memory",
            id="workers",
        ),
        pytest.param(
            f"{MADE[:-1]}, collate_fn=list)", "its batches are made by a collate_fn of its own", id="own collate_fn"
        ),
        pytest.param(
            "keys = {'pin_memory': True}\ndata = TensorDataset(x, y)\nloader = DataLoader(data, batch_size=64, **keys)",
            "pin_memory of its loader is not given by its name in the call (line 8), and has to go: "
            "write pin_memory=False there",
            id="pinned through a dictionary",
        ),
        pytest.param(
            "data = TensorDataset(x, y)\nloader = DataLoader(data, batch_size=None)",
            "its items are read one by one (line 7)",
            id="without batches",
        ),
        pytest.param(
            "data = TensorDataset(torch.randn(9, 8, requires_grad=True), y)\nloader = DataLoader(data, batch_size=64)",
            "gradients are asked for of torch.randn(9, 8, requires_grad=True) (line 6)",
            id="gradients are asked for",
        ),
        pytest.param(
            "data = TensorDataset(x, y.cuda())\nloader = DataLoader(data, batch_size=64)",
            "how the items of 'y.cuda()' lie in memory is not known (line 6), and a batch of them would lie alike: "
            "write y.cuda().contiguous()",
            id="one of its tensors is there already",
        ),
        pytest.param(
            "for fold in range(3):\n    data = TensorDataset(x, y)\n    loader = DataLoader(data, batch_size=64)",
            "it is made anew in each pass of a loop (line 6)",
            id="made anew for each fold",
        ),
    ],
)
def test_data_that_stays_on_the_host(code: str, because: str) -> None:
    left(code, because)


def test_the_device_needs_a_name_above() -> None:
    text = "the device of its batches (line 10) has no name where the data set is made: name the device above that"
    check_leaves(DatasetOnDevice, f"{IMPORTS}{DATA}{MADE}\n{DEVICE}{READ}", text)


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(
            "data = TensorDataset(x.cuda(), y.cuda())\nloader = DataLoader(data, 64)", id="it is there already"
        ),
        pytest.param("data = TensorDataset(x, y)", id="no loader reads it"),
        pytest.param("loader = DataLoader(list(zip(x, y)), 64)", id="another data set"),
    ],
)
def test_what_is_no_question(made: str) -> None:
    check_silent(DatasetOnDevice, f"{IMPORTS}{DEVICE}{DATA}{made}\n{READ}")


# Loops that cut batches by hand.

BY_HAND = """\
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x, y = torch.randn(1000, 8), torch.randint(10, (1000,))
{before}for epoch in range(3):
    order = torch.randperm(len(x))
    for i in range(0, x.shape[0], 50):
        {cut}
"""
CUT = "a, b = x[order[i : i + 50]].to(device), y[order[i : i + 50]].long().to(device)"


def by_hand_left(because: str, cut: str = CUT, before: str = "", after: str = "") -> None:
    check_leaves(DatasetOnDevice, BY_HAND.format(cut=cut, before=before) + after, because)


def test_tensors_are_moved_before_the_loop_that_cuts_batches() -> None:
    before = BY_HAND.format(cut=CUT, before="")
    check_rewrites(DatasetOnDevice, before, BY_HAND.format(cut=CUT, before="x = x.to(device)\ny = y.to(device)\n"))


def test_tensors_of_a_function_are_moved_there() -> None:
    lines = BY_HAND.format(cut=CUT, before="{}").splitlines()
    body = "".join(f"    {line}\n" for line in lines[3:])
    code = "\n".join(lines[:3]) + "\ndef main():\n" + body + "main()\n"
    moved = "x = x.to(device)\n    y = y.to(device)\n    "
    check_rewrites(DatasetOnDevice, code.format(""), code.format(moved))


def test_batches_that_are_cut_by_hand_are_the_same() -> None:
    read = "\n        found.append((a.tolist(), a.stride(), b.tolist()))"
    before = BY_HAND.format(cut=CUT + read, before="found = []\n").replace("x, y", "torch.manual_seed(0)\nx, y", 1)
    after = run(DatasetOnDevice, before).after
    assert "x = x.to(device)\n" in after
    assert found_by(before) == found_by(after)


IN_ANOTHER_WAY = "'x' is used in another way than to cut batches from it (line {})"


@pytest.mark.parametrize(
    ("cut", "after", "because"),
    [
        pytest.param(
            "a = x[i : i + 50].to(device)",
            "",
            "'x[i:i + 50]' may be no copy on the device (line 8), and sums over it may round otherwise: "
            "select its rows by a tensor of indices",
            id="a slice",
        ),
        pytest.param(CUT, "    print(x.mean())\n", IN_ANOTHER_WAY.format(9), id="used as a whole"),
        pytest.param(CUT, "torch.save(x, 'x.pt')\n", IN_ANOTHER_WAY.format(9), id="kept afterwards"),
        pytest.param(CUT, "        c = x[order[i]] + 1\n", IN_ANOTHER_WAY.format(9), id="cut, and not moved"),
        pytest.param(CUT, "def show():\n    print(x)\n", IN_ANOTHER_WAY.format(10), id="read by a function"),
        pytest.param(
            CUT + "\n        if i:\n            a = x[order[i : i + 50]].to(device)",
            "",
            "its batches are moved under a condition, or in a form that moves no whole data set (line 10): "
            "write x.to(device), with a device that says where",
            id="under a condition",
        ),
        pytest.param(
            CUT.replace("device", '"xpu"'),
            "",
            "its batches may go to another accelerator than CUDA (line 8)",
            id="to another accelerator",
        ),
    ],
)
def test_tensors_that_stay_on_the_host(cut: str, after: str, because: str) -> None:
    by_hand_left(because, cut, after=after)


def test_a_function_does_not_give_a_name_of_the_module_anew() -> None:
    lines = BY_HAND.format(cut=CUT, before="").splitlines()
    code = "\n".join([*lines[:4], "def main():", *(f"    {line}" for line in lines[4:]), "main()", ""])
    text = (
        "'x' is a name of the module, which the function of the loop only reads (line 6): "
        "move it to the device where it is made if it fits there"
    )
    check_leaves(DatasetOnDevice, code, text)


def test_a_local_name_of_another_function_is_another() -> None:
    before = BY_HAND.format(cut=CUT, before="") + "def show(x):\n    print(x)\n"
    assert "x = x.to(device)\n" in run(DatasetOnDevice, before).after


@pytest.mark.parametrize(
    "cut",
    [
        pytest.param("a = x[order[i : i + 50]]", id="not moved"),
        pytest.param("a = torch.randn(50, 8).to(device)", id="made in the loop"),
        pytest.param("rows = order[i : i + 50].to(device)", id="a part of what is drawn in each epoch"),
    ],
)
def test_loops_that_move_no_part_of_a_tensor(cut: str) -> None:
    check_silent(DatasetOnDevice, BY_HAND.format(cut=cut, before=""))
