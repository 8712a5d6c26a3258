"""What goes under ``if __name__ == "__main__":`` so that workers can import the script, and what must not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from kit import check_leaves, check_rewrites, run

from autotune_rewrite.rewriting.config import Settings
from autotune_rewrite.rewriting.rewrite import rewrite
from codemods.codemod import Choices, Codemod, Promise
from codemods.rules.cudnn_benchmark import CudnnBenchmark
from codemods.rules.h2d_non_blocking import H2dNonBlocking
from codemods.rules.loader_pin import LoaderPin
from codemods.rules.loader_workers import LoaderWorkers
from codemods.rules.no_grad_eval import NoGradEval

if TYPE_CHECKING:
    from autotune_rewrite.rewriting.results import Rewrite

HEAD = """\
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import datasets, transforms

to_tensor = transforms.ToTensor()
epochs = 2
"""
GUARD = 'if __name__ == "__main__":\n'
MADE = """\
data = datasets.MNIST("data", transform=to_tensor)
loader = DataLoader(data, 64)
"""
READ = """\
for x, y in loader:
    x, y = x.cuda(), y.cuda()
"""
NET = """\


class Net(nn.Module):
    pass


"""
IMAGES = """\


class Images(Dataset):
    def __len__(self):
        return 9

    def __getitem__(self, index):
        return to_tensor(Image.open("a.png")), index


"""


def guarded(code: str) -> str:
    """The code under a guard, with workers where a loader is made."""
    given = code.replace("64)", "64, num_workers=4)")
    return GUARD + re.sub(r"(?m)^(?=.)", "    ", given)


REWRITES = {
    "all of it, less settings and imports": (HEAD + MADE + READ, HEAD + guarded(MADE + READ)),
    "two parts: a class stands between": (
        HEAD + MADE + NET + "# Train\nmodel = Net()\n" + READ,
        HEAD + guarded(MADE) + NET + guarded("# Train\nmodel = Net()\n" + READ),
    ),
    "a class that comes late": (HEAD + MADE + READ + NET, HEAD + guarded(MADE + READ) + NET),
    "three parts": (
        HEAD + MADE + READ + NET + "model = Net()\n" + NET + READ,
        HEAD + guarded(MADE + READ) + NET + guarded("model = Net()\n") + NET + guarded(READ),
    ),
    "settings between the parts stay": (
        HEAD + MADE + NET + "rate = 0.1\nmodel = Net()\nrest = 3\n" + NET + "last = rest\n" + READ,
        HEAD
        + guarded(MADE)
        + NET
        + "rate = 0.1\n"
        + guarded("model = Net()\n")
        + "rest = 3\n"
        + NET
        + "last = rest\n"
        + guarded(READ),
    ),
    "a setting that reads what is guarded goes along": (
        HEAD + MADE + NET + "batches = loader\n" + READ,
        HEAD + guarded(MADE) + NET + guarded("batches = loader\n" + READ),
    ),
    "what uses CUDA goes along": (
        HEAD + NET + "model = Net().cuda()\nrate = 0.1\n" + MADE + READ,
        HEAD + NET + guarded("model = Net().cuda()\nrate = 0.1\n" + MADE + READ),
    ),
    "what writes a file goes along": (
        HEAD + 'log = open("log.txt", "w")\nrate = 0.1\n' + MADE + READ,
        HEAD + guarded('log = open("log.txt", "w")\nrate = 0.1\n' + MADE + READ),
    ),
    "what starts a program goes along": (
        HEAD + 'import os\nos.system("make data")\nrate = 0.1\n' + MADE + READ,
        HEAD + "import os\n" + guarded('os.system("make data")\nrate = 0.1\n' + MADE + READ),
    ),
    "the data set goes along, however far above": (
        HEAD + MADE.replace("loader =", "rate = 0.1\nloader =") + READ,
        HEAD + guarded(MADE.replace("loader =", "rate = 0.1\nloader =") + READ),
    ),
    "what reads a file may stay": (
        HEAD + 'names = open("names.txt", "r")\nrate = 0.1\n' + MADE + READ,
        HEAD + 'names = open("names.txt", "r")\nrate = 0.1\n' + guarded(MADE + READ),
    ),
    "an import in the middle goes along": (
        HEAD + MADE + "import time\n" + READ,
        HEAD + guarded(MADE + "import time\n" + READ),
    ),
    "what the workers read stays": (
        HEAD + IMAGES.replace('"a.png"', "root") + 'root = str("here")\nloader = DataLoader(Images(), 64)\n' + READ,
        HEAD
        + IMAGES.replace('"a.png"', "root")
        + 'root = str("here")\n'
        + guarded("loader = DataLoader(Images(), 64)\n" + READ),
    ),
    "what the workers read stays, though it comes after the loader": (
        HEAD + IMAGES.replace('"a.png"', "root") + 'loader = DataLoader(Images(), 64)\nroot = str("here")\n' + READ,
        HEAD
        + IMAGES.replace('"a.png"', "root")
        + guarded("loader = DataLoader(Images(), 64)\n")
        + 'root = str("here")\n'
        + guarded(READ),
    ),
    "what changes what the workers read stays": (
        HEAD
        + "roots = []\n"
        + IMAGES.replace('"a.png"', "roots[0]")
        + 'loader = DataLoader(Images(), 64)\nroots.append("a")\n'
        + READ,
        HEAD
        + "roots = []\n"
        + IMAGES.replace('"a.png"', "roots[0]")
        + guarded("loader = DataLoader(Images(), 64)\n")
        + 'roots.append("a")\n'
        + guarded(READ),
    ),
    "the loaders stay where a definition needs them": (
        HEAD + MADE + NET.replace("pass", "loader = loader") + READ,
        HEAD + MADE.replace("64)", "64, num_workers=4)") + NET.replace("pass", "loader = loader") + guarded(READ),
    ),
    "a function that is called calls one that reads": (
        HEAD + MADE + "def once():\n    for x, y in loader:\n        x = x.cuda()\ndef all():\n    once()\nall()\n",
        HEAD
        + guarded(MADE)
        + "def once():\n    for x, y in loader:\n        x = x.cuda()\ndef all():\n    once()\n"
        + guarded("all()\n"),
    ),
    "the file's own quotes": (
        (HEAD + MADE + READ).replace('"', "'"),
        (HEAD + guarded(MADE + READ)).replace('"', "'"),
    ),
}


@pytest.mark.parametrize(("before", "after"), REWRITES.values(), ids=REWRITES.keys())
def test_what_goes_under_guards(before: str, after: str) -> None:
    check_rewrites(LoaderWorkers, before, after)


PLAIN = HEAD + MADE + READ
LEFT = {
    "more than three would be needed": (
        HEAD + MADE + READ + 3 * (NET + "model = Net()\n"),
        ": definitions stand between code that runs (line 15): put them above it",
    ),
    "only a part of the script has one": (
        PLAIN + GUARD + "    print(loader)\n",
        ": only a part of the script has a __main__ guard (line 13)",
    ),
    "a class that is defined later needs what runs": (
        PLAIN + "rate = float(1)\n" + NET.replace("pass", "rate = rate"),
        ": Net needs 'rate' when the script is imported (line 16)",
    ),
    "a default needs what runs": (
        PLAIN + "rate = float(1)\ndef f(x=rate):\n    pass\n",
        ": f needs 'rate' when the script is imported (line 14)",
    ),
    "an annotation needs what runs": (
        PLAIN + "Rate = type(1)\ndef f(x: Rate):\n    pass\n",
        ": f needs 'Rate' when the script is imported (line 14)",
    ),
    "a base class is made by what runs": (
        PLAIN + "Base = type(Dataset)\nclass Late(Base):\n    pass\n",
        ": Late needs 'Base' when the script is imported (line 14)",
    ),
    "a decorator needs what runs": (
        PLAIN + "rate = float(1)\ndef timed(f):\n    return rate\n@timed\ndef f(x):\n    pass\n",
        ": f needs 'rate' when the script is imported (line 17)",
    ),
    "a function that a class calls needs what runs": (
        PLAIN + "rate = float(1)\ndef rated():\n    return rate\nclass Late:\n    rate = rated()\n",
        ": Late needs 'rate' when the script is imported (line 16)",
    ),
    "the workers run what only running the script defines": (
        HEAD
        + "for _ in range(1):\n    def joined(items):\n        return items\n"
        + '    loader = DataLoader(datasets.MNIST("data", transform=to_tensor), 64, collate_fn=joined)\n'
        + "    for x, y in loader:\n        x = x.cuda()\n",
        ": joined is defined after code that runs (line 10)",
    ),
    "the workers read what the code around them binds": (
        HEAD
        + IMAGES.replace('"a.png"', "last")
        + "loader = DataLoader(Images(), 64)\n"
        + READ
        + "for last in range(3):\n    for x, y in loader:\n        pass\n",
        ": the data set reads 'last' (line 16), which has to stay outside the guard",
    ),
    "what the workers read needs what runs": (
        HEAD
        + IMAGES.replace('"a.png"', "root")
        + "loader = DataLoader(Images(), 64)\n"
        + READ
        + "count = len(loader)\nroot = str(count)\n",
        ": what the data set reads needs 'count' when the script is imported (line 23)",
    ),
}


@pytest.mark.parametrize(("code", "why"), LEFT.values(), ids=LEFT.keys())
def test_no_guard_is_right_where(code: str, why: str) -> None:
    first = re.search(r"(?m)^for (.* in loader|_ in range)", code)
    assert first is not None
    line = code[: first.start()].count("\n") + 1
    check_leaves(LoaderWorkers, code, f"workers need a __main__ guard around what reads it (line {line}){why}")


def unguarded(code: str) -> Rewrite:
    settings = Settings(frozenset({"loader-workers"}), Promise.TRAINING, choices=Choices(main_guard=False))
    return rewrite("train.py", code, settings, rounds=((LoaderWorkers,),))


def test_workers_are_forked_where_no_guard_is_wanted() -> None:
    result = unguarded(PLAIN)
    forked = ', num_workers=4 if torch.multiprocessing.get_start_method() == "fork" else 0)'
    assert result.after == PLAIN.replace("DataLoader(data, 64)", f"DataLoader(data, 64{forked}")
    assert [each.message for each in result.sites] == [
        "the training waits while each batch is read and transformed; workers only where they are forked: "
        "no main guard is wanted around what reads it (line 11)"
    ]


def test_no_workers_where_the_script_says_how_they_start() -> None:
    code = PLAIN.replace("epochs = 2\n", "epochs = 2\ntorch.multiprocessing.set_start_method('spawn')\n")
    result = unguarded(code)
    assert result.after == code
    assert [each.message for each in result.sites] == ["workers need a __main__ guard around what reads it (line 12)"]


@pytest.mark.parametrize(
    "joined",
    [
        "def joined(items):\n    return torch.stack([x for x, _ in items])\n",
        "def joined(items):\n    return {x: y for x, y in items}\n",
        "def joined(items):\n    return [y for x in items for y in x]\n",
    ],
)
def test_what_a_comprehension_binds_is_no_name_of_the_script(joined: str) -> None:
    made = MADE.replace("64)", "64, collate_fn=joined{})") + READ
    before = HEAD + joined + GUARD + re.sub("(?m)^(?=.)", "    ", made)
    check_rewrites(LoaderWorkers, before.replace("{})", ")"), before.replace("{})", ", num_workers=4)"))


def test_what_a_comprehension_goes_over_is_a_name_of_the_script() -> None:
    joined = "def joined(items):\n    return [x for x in x]\n"
    code = HEAD + joined + GUARD + re.sub("(?m)^(?=.)", "    ", MADE.replace("64)", "64, collate_fn=joined)") + READ)
    because = "the data set reads 'x' (line 10), a tensor on a device"
    check_leaves(LoaderWorkers, code, because)


def test_two_loaders_share_the_guards() -> None:
    before = HEAD + MADE + NET + READ + "for x, y in DataLoader(data, 9):\n    x = x.cuda()\n"
    result = run(LoaderWorkers, before)
    assert [site.rewrites for site in result.sites] == [True, True]
    assert result.after.count("__main__") == 2


def test_a_class_between_the_parts_can_be_used_in_both() -> None:
    before = HEAD + "model = None\n" + MADE + "print(model)\n" + NET + "model = Net()\n" + READ
    # What runs, in the order in which it runs, is the same: nothing but the guards was added.
    after = run(LoaderWorkers, before).after
    lines = [
        line.strip() for line in after.replace(", num_workers=4", "").splitlines() if line.strip() != GUARD.strip()
    ]
    assert lines == [line.strip() for line in before.splitlines()]
    assert after.count(GUARD) == 2


def test_other_rules_in_the_same_pass_land_inside_the_guard() -> None:
    before = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

epochs = 2
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
data = datasets.MNIST("data", transform=transforms.ToTensor())
loader = DataLoader(data, 64)
model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Flatten(), nn.Linear(5408, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for epoch in range(epochs):
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    model.eval()
    for images, labels in loader:
        print(model(images.to(device)).argmax(1))
"""
    after = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

epochs = 2
if __name__ == "__main__":
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = datasets.MNIST("data", transform=transforms.ToTensor())
    loader = DataLoader(data, 64, pin_memory=device.type == "cuda", num_workers=4 if device.type == "cuda" else 0)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Flatten(), nn.Linear(5408, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for epoch in range(epochs):
        for images, labels in loader:
            images = images.to(device, non_blocking=True)
            labels = labels.to(device, non_blocking=True)
            optimizer.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for images, labels in loader:
                print(model(images.to(device, non_blocking=True)).argmax(1))
"""
    rules: tuple[type[Codemod], ...] = (LoaderPin, H2dNonBlocking, CudnnBenchmark, NoGradEval, LoaderWorkers)
    settings = Settings(frozenset(each.name() for each in rules), Promise.TRAINING)
    result = rewrite("train.py", before, settings, rounds=(rules,))
    assert result.after == after
    assert all(site.rewrites for site in result.sites)
    assert rewrite("train.py", after, settings, rounds=(rules,)).after == after
