from __future__ import annotations

import pytest
import torch
from kit import ACCELERATED, check_leaves, check_rewrites, check_silent, run

from codemods.rules.h2d_non_blocking import H2dNonBlocking

HEAD = """\
import argparse
import torch
from torch import nn
from torch.autograd import Variable
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
data = datasets.MNIST("data", transform=transforms.ToTensor())
loader = DataLoader(data, batch_size=64, pin_memory=True)
"""
MPS = (
    "the device may be MPS, where a copy that does not block may read the batch's memory too late: "
    "make it a torch.device, or compare it with 'cuda'"
)
PAGEABLE = "what is moved was made from the batch on the host (line {}), and is not in pinned memory"
CUT = "what is moved was made by the script itself (line {}), not by a loader, and is not in pinned memory"
WRITTEN = "the batch is written on the host again while it may be copied (line {})"
NO_TENSOR = "its collate_fn may return something else than tensors"


def rewrites(before: str, after: str) -> None:
    check_rewrites(H2dNonBlocking, HEAD + before, HEAD + after)


def leaves(code: str, because: str) -> None:
    check_leaves(H2dNonBlocking, HEAD + code, because)


def indented(code: str) -> str:
    return "".join(f"    {line}" for line in code.splitlines(keepends=True))


FORMS = {
    "to(device)": ("x.to(device)", "x.to(device, non_blocking=True)"),
    "to(device=device)": ("x.to(device=device)", "x.to(device=device, non_blocking=True)"),
    "to(device, dtype)": ("x.to(device, torch.float32)", "x.to(device, torch.float32, non_blocking=True)"),
    "to(device, dtype=dtype)": (
        "x.to(device, dtype=torch.float32)",
        "x.to(device, dtype=torch.float32, non_blocking=True)",
    ),
    "to(dtype=dtype, device=device)": (
        "x.to(dtype=torch.float32, device=device)",
        "x.to(dtype=torch.float32, device=device, non_blocking=True)",
    ),
    "to(device, memory_format=…)": (
        "x.to(device, memory_format=torch.channels_last)",
        "x.to(device, memory_format=torch.channels_last, non_blocking=True)",
    ),
    "to(text)": ('x.to("cuda:1")', 'x.to("cuda:1", non_blocking=True)'),
    "to(number)": ("x.to(0)", "x.to(0, non_blocking=True)"),
    "cuda()": ("x.cuda()", "x.cuda(non_blocking=True)"),
    "cuda(index)": ("x.cuda(1)", "x.cuda(1, non_blocking=True)"),
    "cuda(device=index)": ("x.cuda(device=1)", "x.cuda(device=1, non_blocking=True)"),
    "type(a CUDA type)": ("x.type(torch.cuda.FloatTensor)", "x.type(torch.cuda.FloatTensor, non_blocking=True)"),
    "type(its name)": ('x.type("torch.cuda.FloatTensor")', 'x.type("torch.cuda.FloatTensor", non_blocking=True)'),
    "type(one of two types)": (
        "Variable(x.type(torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor))",
        "Variable(x.type(torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor, "
        "non_blocking=True))",
    ),
    "type(dtype=a CUDA type)": (
        "Variable(x).type(dtype=torch.cuda.LongTensor)",
        "Variable(x).type(dtype=torch.cuda.LongTensor, non_blocking=True)",
    ),
    "Variable(x).cuda()": ("Variable(x).cuda()", "Variable(x).cuda(non_blocking=True)"),
    "Variable(x.cuda())": ("Variable(x.cuda())", "Variable(x.cuda(non_blocking=True))"),
    "a view": ("x.view(-1, 784).to(device)", "x.view(-1, 784).to(device, non_blocking=True)"),
    "a slice": ("x[:8].to(device)", "x[:8].to(device, non_blocking=True)"),
    "what is written in place before": ("x.mul_(2).to(device)", "x.mul_(2).to(device, non_blocking=True)"),
    "several lines": (
        """\
x.to(
        device,
    )""",
        """\
x.to(
        device,
        non_blocking=True,
    )""",
    ),
    "a call in a call": (
        "nn.functional.relu(x.to(device))",
        "nn.functional.relu(x.to(device, non_blocking=True))",
    ),
}


CAST_AFTER = {
    "a batch": ("x = x.float().to(device)", "x = x.to(device, non_blocking=True).float()"),
    "a batch, to what is named": (
        "x = x.float().to(device=device)",
        "x = x.to(device=device, non_blocking=True).float()",
    ),
    "a field of a batch": ('x = batch["x"].float().cuda()', 'x = batch["x"].cuda(non_blocking=True).float()'),
    "an item of a batch": ("x = batch[0].double().cuda(1)", "x = batch[0].cuda(1, non_blocking=True).double()"),
    "a format that is named": ("x = x.to(torch.float32).cuda()", "x = x.cuda(non_blocking=True).to(torch.float32)"),
    "a view": ("x = x.view(64, -1).float().cuda()", "x = x.view(64, -1).cuda(non_blocking=True).float()"),
    "inside a call": ("x = Variable(x.float().cuda())", "x = Variable(x.cuda(non_blocking=True).float())"),
}


CAST_BEFORE = {
    "classes are int64 already": ("y.long().to(device)", "y.long().to(device, non_blocking=True)"),
    "the copy casts, too": (
        "x.float().to(device, torch.float16)",
        "x.float().to(device, torch.float16, non_blocking=True)",
    ),
    "the target is a tensor, which has a format": ("x.float().to(other)", "x.float().to(other, non_blocking=True)"),
    "MPS has no float64": (
        "x.float().to(maybe_mps)",
        'x.float().to(maybe_mps, non_blocking=maybe_mps.type == "cuda")',
    ),
}


@pytest.mark.parametrize(("before", "after"), CAST_BEFORE.values(), ids=CAST_BEFORE.keys())
def test_a_batch_that_is_of_the_format_already_is_copied_as_it_stands(before: str, after: str) -> None:
    head = (
        "other = torch.zeros(3).cuda()\n"
        'maybe_mps = torch.device("cuda" if torch.cuda.is_available() else "mps")\n'
        "for x, y in loader:\n    z = "
    )
    if "maybe_mps" not in before:
        head = head.replace("mps", "cpu")
    rewrites(head + before + "\n", head + after + "\n")


CAST_IN_ANOTHER_STATEMENT = {
    "images are float32 already": "    x = x.float()\n",
    "classes are int64 already": "    x = y.long()\n",
    "under another name": "    images = x.float()\n    x = images\n",
    "under a condition": "    if debug:\n        x = x.long()\n",
}


@pytest.mark.parametrize("cast", CAST_IN_ANOTHER_STATEMENT.values(), ids=CAST_IN_ANOTHER_STATEMENT.keys())
def test_a_batch_that_an_earlier_statement_casts_may_be_the_loaders_own(cast: str) -> None:
    loop = "for x, y in loader:\n" + cast + "    if torch.cuda.is_available():\n        x = x.cuda({})\n"
    rewrites(loop.format(""), loop.format("non_blocking=True"))


NEW = "'{}' (line {}) makes a new tensor on the host, which is not in pinned memory"
UNLESS = ", unless the batch is {} already, which is not known"
FIRST, IN_DATA = ": move the batch first, and convert it on the device", ": convert it in the data set"
ITEMS = """\
class Items(torch.utils.data.Dataset):
    def __getitem__(self, index):
        return {}, 0
loader = DataLoader(Items(), pin_memory=True)
"""
CONVERTED = {
    "images to integers": ("", "x = x.long()\n    x = x.cuda()", NEW.format("x.long()", 12) + FIRST),
    "one of two formats": (
        "",
        "x = x.float() if len(x) else x.long()\n    x = x.cuda()",
        NEW.format("x.long()", 12) + FIRST,
    ),
    "tensors of 64-bit floats": (
        "data = torch.utils.data.TensorDataset(torch.zeros(100, 3, dtype=torch.float64), torch.zeros(100))\n"
        "loader = DataLoader(data, batch_size=8)\n",
        "x = x.float()\n    x = x.cuda()",
        NEW.format("x.float()", 14) + FIRST,
    ),
    "items of 64-bit floats, for MPS, which has none": (
        ITEMS.format("np.zeros(3)").replace("class", "import numpy as np\nclass")
        + 'device = torch.device("cuda" if torch.cuda.is_available() else "mps")\n',
        "x = x.float().to(device)",
        NEW.format("x.float()", 18) + IN_DATA,
    ),
    "items that are not known": (
        ITEMS.format("load(index)"),
        "x = x.long().to(device)",
        NEW.format("x.long()", 16) + UNLESS.format("int64") + FIRST,
    ),
    "before a function is given it": (
        ITEMS.format("load(index)") + "def use(x):\n    return x.cuda()\n",
        "use(x.float())",
        NEW.format("x.float()", 18) + UNLESS.format("float32") + FIRST,
    ),
}


@pytest.mark.parametrize(("head", "loop", "because"), CONVERTED.values(), ids=CONVERTED.keys())
def test_a_batch_of_another_format_is_converted_on_the_host(head: str, loop: str, because: str) -> None:
    leaves(f"{head}for x, y in loader:\n    {loop}\n", because)


def test_a_batch_of_items_of_the_format_is_moved_as_it_came() -> None:
    loop = ITEMS.format("torch.tensor([1.5, 2])") + "for x, y in loader:\n    x = x.float()\n    x = x.cuda({})\n"
    rewrites(loop.format(""), loop.format("non_blocking=True"))


@pytest.mark.parametrize(("before", "after"), CAST_AFTER.values(), ids=CAST_AFTER.keys())
def test_a_batch_is_cast_after_the_copy_which_is_then_one_of_the_loaders_own(before: str, after: str) -> None:
    name = "batch" if "batch" in before else "x, y"
    rewrites(f"for {name} in loader:\n    {before}\n", f"for {name} in loader:\n    {after}\n")


@pytest.mark.parametrize(("before", "after"), FORMS.values(), ids=FORMS)
def test_rewritten_in_the_form(before: str, after: str) -> None:
    loop = """\
for x, y in loader:
    z = {}
"""

    rewrites(loop.format(before), loop.format(after))


WITH_SIZES = """\
def collate(items):
    images, sizes = zip(*items)
    return torch.stack(images, 0), sizes
"""
BATCHES = {
    "in a tuple": (
        """\
for x, y in loader:
    x, y = x.to(device), y.to(device)
""",
        """\
for x, y in loader:
    x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
""",
    ),
    "in a list": (
        """\
for batch in loader:
    x, y = [t.to(device) for t in batch]
""",
        """\
for batch in loader:
    x, y = [t.to(device, non_blocking=True) for t in batch]
""",
    ),
    "in a generator": (
        """\
for batch in loader:
    x, y = (t.to(device) for t in batch)
""",
        """\
for batch in loader:
    x, y = (t.to(device, non_blocking=True) for t in batch)
""",
    ),
    "in a dictionary": (
        """\
for batch in loader:
    batch = {k: v.to(device) for k, v in batch.items()}
""",
        """\
for batch in loader:
    batch = {k: v.to(device, non_blocking=True) for k, v in batch.items()}
""",
    ),
    "in map()": (
        """\
for batch in loader:
    x, y = map(lambda t: t.to(device), batch)
""",
        """\
for batch in loader:
    x, y = map(lambda t: t.to(device, non_blocking=True), batch)
""",
    ),
    "by index": (
        """\
for i, batch in enumerate(loader):
    x = batch[0].to(device)
""",
        """\
for i, batch in enumerate(loader):
    x = batch[0].to(device, non_blocking=True)
""",
    ),
    "by key": (
        """\
for i, batch in enumerate(loader):
    x = batch["image"].to(device)
""",
        """\
for i, batch in enumerate(loader):
    x = batch["image"].to(device, non_blocking=True)
""",
    ),
    "through a progress bar": (
        """\
from tqdm import tqdm
for x, y in tqdm(loader):
    x = x.to(device)
""",
        """\
from tqdm import tqdm
for x, y in tqdm(loader):
    x = x.to(device, non_blocking=True)
""",
    ),
    "by next()": (
        """\
x, y = next(iter(loader))
x = x.to(device)
""",
        """\
x, y = next(iter(loader))
x = x.to(device, non_blocking=True)
""",
    ),
    "from a dictionary of loaders": (
        """\
loaders = {"train": loader, "val": loader}
for phase in ["train", "val"]:
    for x, y in loaders[phase]:
        x = x.to(device)
""",
        """\
loaders = {"train": loader, "val": loader}
for phase in ["train", "val"]:
    for x, y in loaders[phase]:
        x = x.to(device, non_blocking=True)
""",
    ),
    "in a function that is given the loader": (
        """\
def train(loader, device):
    for x, y in loader:
        x = x.to(device)
train(loader, device)
""",
        """\
def train(loader, device):
    for x, y in loader:
        x = x.to(device, non_blocking=True)
train(loader, device)
""",
    ),
    "in a helper": (
        """\
def to_device(batch, device):
    if isinstance(batch, (list, tuple)):
        return [to_device(b, device) for b in batch]
    return batch.to(device)
for batch in loader:
    x, y = to_device(batch, device)
""",
        """\
def to_device(batch, device):
    if isinstance(batch, (list, tuple)):
        return [to_device(b, device) for b in batch]
    return batch.to(device, non_blocking=True)
for batch in loader:
    x, y = to_device(batch, device)
""",
    ),
    "in a helper that binds its parameter anew": (
        """\
def to_var(x):
    if torch.cuda.is_available():
        x = x.cuda()
    return Variable(x)
for x, y in loader:
    x = to_var(x)
""",
        """\
def to_var(x):
    if torch.cuda.is_available():
        x = x.cuda(non_blocking=True)
    return Variable(x)
for x, y in loader:
    x = to_var(x)
""",
    ),
    "in a method, with the device on self": (
        """\
class Trainer:
    def __init__(self):
        self.device = device
        self.loader = loader
    def train(self):
        for x, y in self.loader:
            x = x.to(self.device)
Trainer().train()
""",
        """\
class Trainer:
    def __init__(self):
        self.device = device
        self.loader = loader
    def train(self):
        for x, y in self.loader:
            x = x.to(self.device, non_blocking=True)
Trainer().train()
""",
    ),
    "ahead, on a stream of its own": (
        """\
class Prefetcher:
    def __init__(self):
        self.batches = iter(loader)
        self.stream = torch.cuda.Stream()
        self.fetch()
    def fetch(self):
        self.x, self.y = next(self.batches)
        with torch.cuda.stream(self.stream):
            self.x = self.x.cuda()
    def next(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        return self.x
Prefetcher()
""",
        """\
class Prefetcher:
    def __init__(self):
        self.batches = iter(loader)
        self.stream = torch.cuda.Stream()
        self.fetch()
    def fetch(self):
        self.x, self.y = next(self.batches)
        with torch.cuda.stream(self.stream):
            self.x = self.x.cuda(non_blocking=True)
    def next(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        return self.x
Prefetcher()
""",
    ),
    "ahead, with the device by keyword": (
        """\
class Prefetcher:
    def __init__(self):
        self.x, self.y = next(iter(loader))
        self.x = self.x.to(device=device)
Prefetcher()
""",
        """\
class Prefetcher:
    def __init__(self):
        self.x, self.y = next(iter(loader))
        self.x = self.x.to(device=device, non_blocking=True)
Prefetcher()
""",
    ),
    "where collate_fn is None": (
        "for x, y in DataLoader(data, collate_fn=None):\n    x = x.to(device)\n",
        "for x, y in DataLoader(data, collate_fn=None):\n    x = x.to(device, non_blocking=True)\n",
    ),
    "under a flag": (
        """\
cuda = torch.cuda.is_available()
for x, y in loader:
    if cuda:
        x = x.cuda()
""",
        """\
cuda = torch.cuda.is_available()
for x, y in loader:
    if cuda:
        x = x.cuda(non_blocking=True)
""",
    ),
    "by a tensor type that depends on CUDA": (
        """\
Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
for x, y in loader:
    x = Variable(x.type(Tensor))
""",
        """\
Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
for x, y in loader:
    x = Variable(x.type(Tensor, non_blocking=True))
""",
    ),
    "where one of the two is not blocking yet": (
        """\
for x, y in loader:
    x, y = x.to(device, non_blocking=True), y.to(device)
""",
        """\
for x, y in loader:
    x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
""",
    ),
    "from a loader that loader-pin pins": (
        """\
other = DataLoader(data)
for x, y in other:
    x = x.to(device)
""",
        """\
other = DataLoader(data)
for x, y in other:
    x = x.to(device, non_blocking=True)
""",
    ),
    "from loaders of which one is pinned": (
        """\
def train(loader):
    for x, y in loader:
        x = x.cuda()
train(loader)
train(DataLoader(data, pin_memory=False))
""",
        """\
def train(loader):
    for x, y in loader:
        x = x.cuda(non_blocking=True)
train(loader)
train(DataLoader(data, pin_memory=False))
""",
    ),
    "from a loader class that pins in its own __init__": (
        """\
class Loader(DataLoader):
    def __init__(self):
        super().__init__(data, pin_memory=True)
for x, y in Loader():
    x = x.cuda()
""",
        """\
class Loader(DataLoader):
    def __init__(self):
        super().__init__(data, pin_memory=True)
for x, y in Loader():
    x = x.cuda(non_blocking=True)
""",
    ),
    "from a collate_fn that makes tensors": (
        """\
def collate(items):
    return torch.stack([i[0] for i in items]), torch.tensor([i[1] for i in items])
for x, y in DataLoader(data, collate_fn=collate):
    x = x.to(device)
""",
        """\
def collate(items):
    return torch.stack([i[0] for i in items]), torch.tensor([i[1] for i in items])
for x, y in DataLoader(data, collate_fn=collate):
    x = x.to(device, non_blocking=True)
""",
    ),
    "from a bar that is entered": (
        """\
from tqdm import tqdm
with tqdm(enumerate(loader)) as bar:
    for i, (x, y) in bar:
        x = x.to(device)
""",
        """\
from tqdm import tqdm
with tqdm(enumerate(loader)) as bar:
    for i, (x, y) in bar:
        x = x.to(device, non_blocking=True)
""",
    ),
    "the items of a dictionary, one by one": (
        """\
for batch in loader:
    for key in batch.keys():
        batch[key] = batch[key].to(device)
    batch["z"] = batch["y"].to(device)
""",
        """\
for batch in loader:
    for key in batch.keys():
        batch[key] = batch[key].to(device, non_blocking=True)
    batch["z"] = batch["y"].to(device, non_blocking=True)
""",
    ),
    "the items of a dictionary by its keys": (
        """\
for batch in loader:
    for key in batch:
        batch[key] = batch[key].to(device)
""",
        """\
for batch in loader:
    for key in batch:
        batch[key] = batch[key].to(device, non_blocking=True)
""",
    ),
    "the items of a dictionary with their keys": (
        """\
for batch in loader:
    for key, x in list(batch.items()):
        batch[key] = x.to(device)
""",
        """\
for batch in loader:
    for key, x in list(batch.items()):
        batch[key] = x.to(device, non_blocking=True)
""",
    ),
    "from a collate_fn that makes tensors and lists of numbers": (
        """\
def collate(items):
    sizes = [len(i) for i, _ in items]
    return torch.stack([i for i, _ in items]), sizes
for x, sizes in DataLoader(data, collate_fn=collate):
    x = x.to(device)
""",
        """\
def collate(items):
    sizes = [len(i) for i, _ in items]
    return torch.stack([i for i, _ in items]), sizes
for x, sizes in DataLoader(data, collate_fn=collate):
    x = x.to(device, non_blocking=True)
""",
    ),
    "the tensors of a collate_fn that hands on whatever else items hold": (
        WITH_SIZES + "for i, (x, sizes) in enumerate(DataLoader(data, collate_fn=collate)):\n    x = x.to(device)\n",
        WITH_SIZES
        + "for i, (x, sizes) in enumerate(DataLoader(data, collate_fn=collate)):\n"
        + "    x = x.to(device, non_blocking=True)\n",
    ),
    "X1: moved again to the same device": (
        """\
for x, y in loader:
    if len(x) == 64:
        x = x.to(device)
    x = x.to(device)
""",
        """\
for x, y in loader:
    if len(x) == 64:
        x = x.to(device, non_blocking=True)
    x = x.to(device, non_blocking=True)
""",
    ),
    "X5: printed at once": (
        """\
for x, y in loader:
    x = x.to(device)
    print(x, x.sum().item())
""",
        """\
for x, y in loader:
    x = x.to(device, non_blocking=True)
    print(x, x.sum().item())
""",
    ),
    "X6: to another tensor's device": (
        """\
for x, y in loader:
    z = torch.zeros(3).cuda()
    x = x.to(z)
""",
        """\
for x, y in loader:
    z = torch.zeros(3).cuda()
    x = x.to(z, non_blocking=True)
""",
    ),
}


@pytest.mark.parametrize(("before", "after"), BATCHES.values(), ids=BATCHES)
def test_rewritten_where_batches_are_moved(before: str, after: str) -> None:
    rewrites(before, after)


MAY_BE_MPS = {
    "a device found in three steps": (
        """\
if torch.cuda.is_available():
    device = torch.device("cuda")
elif torch.backends.mps.is_available():
    device = torch.device("mps")
else:
    device = torch.device("cpu")
""",
        'device.type == "cuda"',
    ),
    "a name found in three steps": (
        'device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"\n',
        'device == "cuda"',
    ),
    "a numbered device": (
        'device = "cuda:0" if torch.cuda.is_available() else "mps"\n',
        'torch.device(device).type == "cuda"',
    ),
    "whatever accelerator there is": (
        'device = torch.accelerator.current_accelerator() or torch.device("cpu")\n',
        'device.type == "cuda"',
    ),
    "the name of whatever accelerator there is": (
        'device = torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"\n',
        'device == "cuda"',
    ),
    "the user's choice in a script that knows MPS": (
        """\
args = argparse.ArgumentParser().parse_args()
if args.device == "mps":
    print("hot")
device = torch.device(args.device)
""",
        'device.type == "cuda"',
    ),
}


PARAMETER = """\
def train(model, loader, non_blocking=False):
    for x, y in loader:
        model(x.to(device, non_blocking=non_blocking)).backward()

train(nn.Linear(1, 1), loader)
"""
METHOD = "class Trainer:\n" + indented(PARAMETER.partition("\n\n")[0].replace("(model", "(self, model")) + "\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(PARAMETER, PARAMETER.replace("=False", "=True"), id="a parameter that nobody passes"),
        pytest.param(
            PARAMETER.replace("loader, non", "loader, *, non"),
            PARAMETER.replace("loader, non", "loader, *, non").replace("=False", "=True"),
            id="a parameter that is passed by name alone",
        ),
        pytest.param(
            METHOD + "Trainer.train(Trainer(), nn.Linear(1, 1), loader)\n",
            METHOD.replace("=False", "=True") + "Trainer.train(Trainer(), nn.Linear(1, 1), loader)\n",
            id="a method that is given its object, too",
        ),
    ],
)
def test_the_default_of_a_parameter_becomes_true(before: str, after: str) -> None:
    rewrites(before, after)


@pytest.mark.parametrize(
    ("code", "because"),
    [
        pytest.param(
            PARAMETER + "train(nn.Linear(1, 1), loader, False)\n",
            "non_blocking is False wherever this runs",
            id="every caller passes False",
        ),
        pytest.param(
            METHOD + "Trainer().train(nn.Linear(1, 1), loader, False)\n",
            "non_blocking is False wherever this runs",
            id="a caller of the method passes False",
        ),
        pytest.param(
            PARAMETER.replace("):\n", "):\n    print(non_blocking)\n", 1),
            "non_blocking is False wherever this runs, and is used for something else, too",
            id="the parameter is used for something else",
        ),
        pytest.param(
            PARAMETER.replace("model(x.to", "x = x * 2\n        model(x.to"),
            PAGEABLE.replace(" (line {})", ""),
            id="what is moved is not pinned",
        ),
    ],
)
def test_the_default_of_a_parameter_is_left_where(code: str, because: str) -> None:
    leaves(code, because)


def test_a_parameter_that_some_caller_passes_is_the_script_s_business() -> None:
    check_silent(H2dNonBlocking, HEAD + PARAMETER.replace("Linear(1, 1), loader)", "Linear(1, 1), loader, True)"))


@pytest.mark.parametrize(("start", "value"), MAY_BE_MPS.values(), ids=MAY_BE_MPS)
def test_X8_only_cuda_is_not_waited_for_where_it_may_be_mps(start: str, value: str) -> None:  # noqa: N802 - a guard's name
    loop = """\
for x, y in loader:
    x = x.to(device{})
"""

    rewrites(start + loop.format(""), start + loop.format(f", non_blocking={value}"))


CHOSEN = """\
parser = argparse.ArgumentParser()
parser.add_argument("--device"{})
args = parser.parse_args()
device = {}
for x, y in loader:
    x = x.to(device{})
"""


@pytest.mark.parametrize(
    ("option", "device", "value"),
    [
        pytest.param("", "torch.device(args.device)", 'device.type == "cuda"', id="a device"),
        pytest.param(', default="cuda"', "args.device", 'torch.device(device).type == "cuda"', id="a text"),
        pytest.param(', choices=["cuda", "cpu"]', "torch.device(args.device)", "True", id="one of two"),
    ],
)
def test_a_device_that_the_user_names_may_be_mps(option: str, device: str, value: str) -> None:
    before = CHOSEN.format(option, device, "")
    rewrites(before, CHOSEN.format(option, device, f", non_blocking={value}"))


def test_a_text_that_the_user_may_not_give_is_left() -> None:
    leaves(CHOSEN.format("", "args.device", ""), MPS)


@pytest.mark.parametrize("target", [(2, 13), (2, 14)])
def test_a_copy_to_mps_keeps_its_batch_in_a_newer_torch(target: tuple[int, int]) -> None:
    before = HEAD + CHOSEN.format("", "args.device", "")
    after = HEAD + CHOSEN.format("", "args.device", ", non_blocking=True")
    check_rewrites(H2dNonBlocking, before, after, target)


@pytest.mark.parametrize("needs", ["torch.cuda.set_device(0)\n", "nn.Linear(1, 1).cuda()\n"])
def test_the_user_s_choice_is_no_mps_in_a_script_that_needs_cuda(needs: str) -> None:
    before, after = (CHOSEN.format("", "args.device", each) for each in ("", ", non_blocking=True"))
    rewrites(needs + before, needs + after)


def test_completed_with_the_loader_s_pinning_in_one_round() -> None:
    # Both rules ask the loader's facts: neither waits for what the other has written.
    code = (
        HEAD.replace(", pin_memory=True", "")
        + """\
for x, y in loader:
    x = x.to(device)
"""
    )

    check_rewrites(H2dNonBlocking, code, code.replace("x.to(device)", "x.to(device, non_blocking=True)"))


NOT_THE_BATCH = {
    "other things": """\
counts, total = [0], 0
for x, y in loader:
    z = x.to(device)
    counts[0] = 1
    total += 1
    z.mul_(2)
    z[0] = 0
    torch.add(z, 1, out=z)
    a = z.cpu().numpy()
    a[:] = 0
""",
    "another loader's batch": """\
for x, y in loader:
    z = x.to(device)
for u, v in DataLoader(data, pin_memory=True):
    u.mul_(2)
""",
    "the batch, before it is moved": """\
for x, y in loader:
    x.mul_(2)
    z = x.to(device)
""",
    "the batch, before the loop in which it is moved": """\
x, y = next(iter(loader))
x.mul_(2)
for step in range(9):
    z = x.to(device)
""",
    "the batch's flags and shape": """\
for x, y in loader:
    z = x.to(device)
    x.requires_grad_()
    x.unsqueeze_(0)
    x.swapaxes_(0, 1)
""",
}


@pytest.mark.parametrize("code", NOT_THE_BATCH.values(), ids=NOT_THE_BATCH)
def test_X3_what_is_written_is(code: str) -> None:  # noqa: N802 - a guard's name
    rewrites(code, code.replace("x.to(device)", "x.to(device, non_blocking=True)"))


DECLINED = {
    "X1: the target may be the CPU and the tensor on CUDA": (
        """\
x = None
for x, y in loader:
    if len(x) == 64:
        x = x.cuda()
    z = x.to(device)
""",
        "what is moved may be on a device already, and the target may be the CPU",
        "x = x.cuda(non_blocking=True)",
    ),
    "X1: a tensor of unknown place": (
        """\
def move(t):
    return t.to(device)
for x, y in loader:
    x = move(x)
move(nn.Linear(3, 3).weight.sum())
""",
        "what is moved may be on a device already, and the target may be the CPU",
        "",
    ),
    "X2: the loader does not pin": (
        """\
for x, y in DataLoader(data, pin_memory=False):
    x = x.to(device)
""",
        "the loader in line 11 does not pin its batches: pin_memory is False there",
        "",
    ),
    "X2: the loader cannot pin": (
        """\
class Own(torch.utils.data.Dataset):
    def __getitem__(self, i):
        return torch.zeros(3).cuda()
for x in DataLoader(Own()):
    x = x.cuda()
""",
        "the loader in line 14 does not pin its batches: its data set moves tensors to a device itself (line 13)",
        "",
    ),
    "X2: the batch is cast before": (
        """\
for x, y in loader:
    x = x.int().to(device)
""",
        PAGEABLE.format(12),
        "",
    ),
    "X2: the batch is cast before to a format that halves the copy": (
        """\
for x, y in loader:
    x = x.half().to(device)
""",
        PAGEABLE.format(12),
        "",
    ),
    "X2: the batch is cast, and written afterwards": (
        """\
for x, y in loader:
    z = x.float().to(device)
    x.zero_()
""",
        WRITTEN.format(13),
        "",
    ),
    "X2: the batch is cast, and scaled in memory of its own": (
        """\
for x, y in loader:
    x = x.float().div(255)
    x = x.to(device)
""",
        PAGEABLE.format(12),
        "",
    ),
    "X2: what an earlier statement casts is written afterwards": (
        """\
for x, y in loader:
    x = x.float()
    z = x.to(device)
    x.zero_()
""",
        WRITTEN.format(14),
        "",
    ),
    "X2: the batch is scaled before": (
        """\
for x, y in loader:
    x = (x - 0.5) * 2
    x = x.to(device)
""",
        "what is moved was made from the batch on the host, and is not in pinned memory",
        "",
    ),
    "X3: written by a method": (
        """\
for x, y in loader:
    z = x.to(device)
    x.mul_(2)
""",
        WRITTEN.format(13),
        "",
    ),
    "X3: written by an operator": (
        """\
for x, y in loader:
    z = x.to(device)
    x += 1
""",
        WRITTEN.format(13),
        "",
    ),
    "X3: written by index": (
        """\
for x, y in loader:
    z = x.to(device)
    x[0] = 0
""",
        WRITTEN.format(13),
        "",
    ),
    "X3: written by index and operator": (
        """\
for x, y in loader:
    z = x.to(device)
    x[0] += 1
""",
        WRITTEN.format(13),
        "",
    ),
    "X3: written as out": (
        """\
for x, y in loader:
    z = x.to(device)
    torch.add(x, 1, out=x)
""",
        WRITTEN.format(13),
        "",
    ),
    "X3: written through a view": (
        """\
for x, y in loader:
    v = x.view(-1)
    z = x.to(device)
    v[0] = 0
""",
        WRITTEN.format(14),
        "",
    ),
    "X3: written through NumPy": (
        """\
for x, y in loader:
    z = x.to(device)
    x.numpy()[:] = 0
""",
        WRITTEN.format(13),
        "",
    ),
    "X3: written through a NumPy array of before": (
        """\
for x, y in loader:
    a = x.numpy()
    z = x.to(device)
    a[:] = 0
""",
        WRITTEN.format(14),
        "",
    ),
    "X3: written in an outer block": (
        """\
for x, y in loader:
    if len(x) > 1:
        z = x.to(device)
    x[0] = 0
""",
        WRITTEN.format(14),
        "",
    ),
    "X3: written as an element": (
        """\
for batch in loader:
    z = [t.to(device) for t in batch]
    batch[0].zero_()
""",
        WRITTEN.format(13),
        "",
    ),
    "X3: written by the caller of a helper": (
        """\
def move(t):
    return t.to(device)
for x, y in loader:
    z = move(x)
    x.zero_()
""",
        WRITTEN.format(15),
        "",
    ),
    "X3: written in the next round, one batch for all": (
        """\
x, y = next(iter(loader))
for step in range(9):
    x.mul_(2)
    z = x.to(device)
""",
        WRITTEN.format(13),
        "",
    ),
    "X7: an object of the collate_fn": (
        """\
class Batch:
    def pin_memory(self):
        return self
    def to(self, device):
        return self
for batch in DataLoader(data, collate_fn=lambda b: Batch()):
    batch = batch.to(device)
""",
        NO_TENSOR,
        "",
    ),
    "X7: a batch of a collate_fn of another file": (
        """\
from mine import collate
for batch in DataLoader(data, collate_fn=collate):
    batch = batch.cuda()
""",
        NO_TENSOR,
        "",
    ),
    "X7: a tokenizer's batch": (
        """\
from transformers import AutoTokenizer, DataCollatorWithPadding
collate = DataCollatorWithPadding(AutoTokenizer.from_pretrained('bert'))
for batch in DataLoader(data, collate_fn=collate):
    batch = batch.to(device)
""",
        NO_TENSOR,
        "",
    ),
    "X7: perhaps a model": (
        """\
def move(t):
    return t.to(device)
model = move(nn.Linear(3, 3))
for x, y in loader:
    x = move(x)
""",
        "what is moved may be something else than a batch: torch.nn.Linear()",
        "",
    ),
    "X8: MPS alone": (
        """\
device = torch.device("mps")
for x, y in loader:
    x = x.to(device)
""",
        "the batch goes to another accelerator than CUDA",
        "",
    ),
    "X8: MPS or CUDA, found in the call": (
        'for x, y in loader:\n    x = x.to("cuda" if torch.cuda.is_available() else "mps")\n',
        MPS,
        "",
    ),
    "X2: a loader that nothing makes": (
        """\
class Loader(DataLoader):
    def batches(self):
        for x, y in self:
            yield x.cuda()
""",
        "the loader is not made in a way that can be seen",
        "",
    ),
    "the user said so": (
        """\
for x, y in loader:
    x = x.to(device, non_blocking=False)
""",
        "non_blocking=False is written there",
        "",
    ),
    "batches of something unknown": (
        """\
from mine import get_loader
for x, y in get_loader():
    x = x.to(device)
""",
        "what is moved is not known to be a batch: what iterating over mine.get_loader() yields is not known",
        "",
    ),
    "batches of a parameter": (
        """\
def train(batches):
    for batch in batches:
        x = batch[0].to(device)
""",
        (
            "what is moved is not known to be a batch:"
            " 'batches' is a parameter of train(), which nothing in this file calls"
        ),
        "",
    ),
    "a batch that comes next": (
        """\
import mine
batches = mine.endless()
for step in range(9):
    x, y = next(batches)
    x = x.to(device)
""",
        "what is moved is not known to be a batch: what iterating over mine.endless() yields is not known",
        "",
    ),
    "a loader that is None by default": (
        """\
def train(batches=None):
    for x, y in batches:
        x = x.to(device)
""",
        (
            "what is moved is not known to be a batch:"
            " 'batches' is a parameter of train(), which nothing in this file calls"
        ),
        "",
    ),
    "X2: batches that are cut by hand": (
        """\
images = torch.randn(900, 784)
for i in range(0, 900, 9):
    x = images[i : i + 9].to(device)
""",
        CUT.format(11),
        "",
    ),
    "X2: batches that a function puts together": (
        """\
text = torch.arange(900)
def batch():
    starts = torch.randint(800, (9,))
    return torch.stack([text[i : i + 9] for i in starts])
for step in range(9):
    x = batch()
    x = x.to(device)
""",
        CUT.format(14),
        "",
    ),
    "an unknown device": (
        """\
def train(where):
    for x, y in loader:
        x = x.to(where)
""",
        "the device is not known: 'where' is a parameter of train(), which nothing in this file calls",
        "",
    ),
    "the device of a tensor": (
        """\
where = torch.zeros(3).cuda().device
for x, y in loader:
    x = x.to(where)
""",
        "the device is not known: where the device comes from is not followed",
        "",
    ),
    "an unknown tensor type": (
        """\
def train(kind):
    for x, y in loader:
        x = x.type(kind)
""",
        "the device is not known: the tensor type is not known",
        "",
    ),
}


ON_STREAMS = {
    "the copy is queued on a stream of its own": (
        """\
stream = torch.cuda.Stream()
for x, y in loader:
    with torch.cuda.stream(stream):
        x = x.cuda()
    print(x.sum())
""",
        "the batch is copied on a stream of its own (line 13), and others may not wait for that",
    ),
    "only the copy waits for the current stream": (
        """\
stream = torch.cuda.Stream()
for x, y in loader:
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        x = x.cuda()
    print(x.sum())
""",
        "the batch is copied on a stream of its own (line 14), and others may not wait for that",
    ),
    "so is the call of its function": (
        """\
def fetch(x):
    return x.cuda()

stream = torch.cuda.Stream()
for x, y in loader:
    with stream:
        x = fetch(x)
    print(x.sum())
""",
        "the batch is copied on a stream of its own (line 16), and others may not wait for that",
    ),
    "the batch is used on another stream": (
        """\
stream = torch.cuda.Stream()
for x, y in loader:
    x = x.cuda()
    with torch.cuda.stream(stream):
        print(x.sum())
""",
        "another stream than that of the copy runs kernels (line 14), and is not seen to wait for it",
    ),
    "another stream becomes the current one": (
        """\
for x, y in loader:
    x = x.cuda()
    torch.cuda.set_stream(torch.cuda.Stream())
    print(x.sum())
""",
        "another stream than that of the copy runs kernels (line 13), and is not seen to wait for it",
    ),
}


@pytest.mark.parametrize(("code", "because"), ON_STREAMS.values(), ids=ON_STREAMS)
def test_only_the_host_waits_for_the_copy_where(code: str, because: str) -> None:
    leaves(code, because)


BUFFERS = {
    "made on CUDA": "buffer = torch.cuda.FloatTensor(64, 1, 28, 28)",
    "made on a device": "buffer = torch.empty(64, 1, 28, 28, device=device)",
    "of a type that depends on CUDA": (
        "Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.Tensor\nbuffer = Tensor(64, 1, 28, 28)"
    ),
    "moved to CUDA": "buffer = torch.FloatTensor(64, 1, 28, 28)\nbuffer = buffer.cuda()",
    "moved where there is CUDA": (
        "buffer = torch.FloatTensor(64, 1, 28, 28)\nif torch.cuda.is_available():\n    buffer = buffer.cuda()"
    ),
    "moved to a device": "buffer = torch.zeros(64, 1, 28, 28).to(device)",
}


@pytest.mark.parametrize("made", BUFFERS.values(), ids=BUFFERS)
def test_a_buffer_on_a_device_is_filled_without_blocking(made: str) -> None:
    code = f"{made}\nfor x, y in loader:\n    {{}}\n"
    rewrites(code.format("buffer.copy_(x)"), code.format("buffer.copy_(x, non_blocking=True)"))


FILLED = {
    "after it has another size": (
        "buffer.data.resize_(x.size()).copy_(x)",
        "buffer.data.resize_(x.size()).copy_(x, non_blocking=True)",
    ),
    "in part": ("buffer[:8].copy_(x[:8])", "buffer[:8].copy_(x[:8], non_blocking=True)"),
    "and used": ("z = Variable(buffer.copy_(x))", "z = Variable(buffer.copy_(x, non_blocking=True))"),
    "by keyword": ("buffer.copy_(other=x)", "buffer.copy_(other=x, non_blocking=True)"),
    "with a field": ('buffer.copy_(batch["x"])', 'buffer.copy_(batch["x"], non_blocking=True)'),
}


@pytest.mark.parametrize(("before", "after"), FILLED.values(), ids=FILLED)
def test_a_buffer_is_filled(before: str, after: str) -> None:
    code = "buffer = torch.cuda.FloatTensor(64, 1, 28, 28)\nfor batch in loader:\n    x, y = batch\n    {}\n"
    rewrites(code.format(before), code.format(after))


def test_a_buffer_of_an_object_is_filled() -> None:
    code = """\
class Model:
    def __init__(self):
        self.input = torch.empty(64, 1, 28, 28, device=device)
    def set_input(self, batch):
        self.input.resize_(batch["A"].size()).copy_(batch["A"]{})
model = Model()
for batch in loader:
    model.set_input(batch)
"""
    rewrites(code.format(""), code.format(", non_blocking=True"))


NOT_FILLED = {
    "the batch is written after": ("buffer.copy_(x)\n    x.mul_(2)", WRITTEN.format(14)),
    "the batch is converted before": (
        "buffer.copy_(x.double() / 255)",
        "what is moved was made from the batch on the host, and is not in pinned memory",
    ),
    "the script says so": ("buffer.copy_(x, False)", "non_blocking=False is written there"),
}


@pytest.mark.parametrize(("code", "because"), NOT_FILLED.values(), ids=NOT_FILLED)
def test_a_buffer_is_filled_as_before_where(code: str, because: str) -> None:
    leaves(f"buffer = torch.cuda.FloatTensor(64, 1, 28, 28)\nfor x, y in loader:\n    {code}\n", because)


def test_a_buffer_that_may_be_anywhere_is_filled_as_before() -> None:
    code = "def fill(buffer):\n    for x, y in loader:\n        buffer.copy_(x)\n"
    leaves(code, "the device is not known: where the tensor was made that is filled is not seen")


def test_a_buffer_that_may_be_on_mps_is_filled_as_before() -> None:
    start = 'where = torch.device("cuda" if torch.cuda.is_available() else "mps")\n'
    leaves(f"{start}buffer = torch.empty(64, device=where)\nfor x, y in loader:\n    buffer.copy_(y)\n", MPS)


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("torch.empty(64).copy_(y)", id="to the host"),
        pytest.param("torch.empty(64).cuda().copy_(y, non_blocking=True)", id="without blocking already"),
        pytest.param("torch.empty(64).cuda().copy_(y.cuda(non_blocking=True))", id="what is on a device already"),
    ],
)
def test_nothing_is_said_of_what_is_copied(code: str) -> None:
    check_silent(H2dNonBlocking, HEAD + f"for x, y in loader:\n    z = {code}\n")


ARRAYS = {
    "a part of an array": ("torch.from_numpy(images[i : i + 64]).to(device)", CUT.format(15)),
    "an array of another format": ("torch.from_numpy(images).float().cuda()", CUT.format(15)),
    "an array, into a buffer": ("torch.empty(9, device=device).copy_(torch.from_numpy(images))", CUT.format(15)),
    "an array with a graph": ("Variable(torch.from_numpy(images).cuda())", CUT.format(15)),
}


@pytest.mark.parametrize(("made", "because"), ARRAYS.values(), ids=ARRAYS)
def test_what_is_copied_from_an_array_is_left(made: str, because: str) -> None:
    code = f"""\
import numpy as np

images = np.zeros((640, 784))
for i in range(0, 640, 64):
    x = {made}
"""
    leaves(code, because)


def test_a_tensor_that_is_made_of_numbers_in_a_loop_is_not_mentioned() -> None:
    check_silent(H2dNonBlocking, HEAD + "for i in range(9):\n    x = torch.tensor([1.0]).to(device)\n")


@pytest.mark.parametrize(
    "made",
    [
        pytest.param("torch.from_numpy(x.numpy()).to(device)", id="its own memory"),
        pytest.param("torch.from_numpy(x.numpy()[:, ::-1].copy()).to(device)", id="a copy of it"),
        pytest.param("torch.from_numpy(array).to(device)", id="by a name"),
    ],
)
def test_a_batch_that_goes_through_numpy_is_left(made: str) -> None:
    because = "what is moved is what NumPy made of a batch (line 13), which may not be in pinned memory: move the batch itself"
    leaves(f"for x, y in loader:\n    array = x.numpy()\n    x = {made}\n", because)


@pytest.mark.parametrize(
    "made",
    [
        pytest.param("np.arange(x.shape[0])", id="by its shape"),
        pytest.param("np.zeros(rows)", id="by its size under a name"),
        pytest.param("np.eye(len(x))", id="by its length"),
        pytest.param("np.ones(3, x.numpy().dtype)", id="in its number format"),
    ],
)
def test_an_array_of_the_size_of_a_batch_is_none_of_its_numbers(made: str) -> None:
    code = f"import numpy as np\n\nfor x, y in loader:\n    rows = x.size(0)\n    z = torch.from_numpy({made}).to(device)\n"
    leaves(code, "what is moved was made by the script itself (line 15), not by a loader, and is not in pinned memory")


def test_batches_of_a_model_that_is_perhaps_copied_to_several_devices_are_moved() -> None:
    code = """\
parser = argparse.ArgumentParser()
parser.add_argument("--dp", action="store_true")
args = parser.parse_args()
model = nn.Linear(784, 10).cuda()
if args.dp:
    model = nn.DataParallel(model)
for x, y in loader:
    model(x.cuda({}))
"""
    rewrites(code.format(""), code.format("non_blocking=True"))


def test_a_helper_that_moves_what_it_finds_in_a_batch_does_so_without_blocking() -> None:
    code = """\
def to_device(value):
    if isinstance(value, dict):
        return {{key: to_device(each) for key, each in value.items()}}
    if isinstance(value, (list, tuple)):
        return [to_device(each) for each in value]
    if isinstance(value, torch.Tensor):
        return value.to(device{})
    return value
for batch in loader:
    x, y = to_device(batch)
"""
    rewrites(code.format(""), code.format(", non_blocking=True"))


def test_a_stream_that_waits_for_that_of_the_copy_may_use_it() -> None:
    code = """\
stream = torch.cuda.Stream()
for x, y in loader:
    x = {}
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        print(x.sum())
"""
    rewrites(code.format("x.cuda()"), code.format("x.cuda(non_blocking=True)"))


@pytest.mark.parametrize(("code", "because", "but"), DECLINED.values(), ids=DECLINED)
def test_declined_because_of(code: str, because: str, but: str) -> None:
    if but:
        # The other site of the script is rewritten already.
        code = code.replace(but.replace("non_blocking=True", ""), but)
    leaves(code, because)


COLLATOR = """\
from torch.utils.data import default_collate

class Flip:
    def __init__(self, share):
        self.share = share

    def __call__(self, rows):
        {made}

loader = DataLoader(data, 64, pin_memory=True, collate_fn=Flip(0.5))
for x, y in loader:
    x = x.cuda()
"""


@pytest.mark.parametrize(
    "made",
    [
        "x, y = default_collate(rows)\n        return x.flip(0) * self.share, y",
        "batch = default_collate(rows)\n        return batch[0] * self.share, batch[1]",
    ],
    ids=["unpacked", "by index"],
)
def test_what_an_object_collates_are_tensors(made: str) -> None:
    code = COLLATOR.format(made=made)
    rewrites(code, code.replace("cuda()", "cuda(non_blocking=True)"))


def test_what_an_object_collates_may_be_anything() -> None:
    leaves(COLLATOR.format(made="return encode(rows), len(rows)"), NO_TENSOR)


def test_what_a_command_line_passes_has_no_batches() -> None:
    code = "def validate(loader):\n    for x, _ in loader:\n        x.to(device)\n\nvalidate(loader)\n"
    start = "import fire\n"
    end = "if __name__ == '__main__':\n    fire.Fire()\n"
    rewrites(start + code + end, start + code.replace("device)", "device, non_blocking=True)") + end)


def test_a_number_times_a_moved_batch_is_a_moved_batch() -> None:
    before = """\
class Mixed:
    def __init__(self, share, loader):
        self.share = share
        self.loader = loader

    def mixed(self, loader):
        def mix(share, x):
            return share * x + (1 - share) * x.flip(0)

        for x, y in loader:
            x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
            yield mix(self.share, x), y

    def __iter__(self):
        return self.mixed(self.loader)

def main(mixup):
    batches = loader
    if mixup:
        batches = Mixed(0.2, batches)
    def train():
        for x, y in batches:
            x = x.cuda()
    train()
main(True)
"""
    rewrites(before, before.replace("cuda()", "cuda(non_blocking=True)"))


def test_batches_that_a_class_hands_on_are_those_of_its_loader() -> None:
    code = """\
class Endless(DataLoader):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.batches = super().__iter__()

    def __iter__(self):
        for _ in range(len(self)):
            yield next(self.batches)


loader = Endless(data, 64, pin_memory=True)
for x, y in loader:
    x = x.to(device{})
"""
    rewrites(code.format(""), code.format(", non_blocking=True"))


@pytest.mark.parametrize(
    "loop",
    [
        "for i, (x, sizes) in enumerate(DataLoader(data, collate_fn=collate)):\n    sizes = sizes.to(device)\n",
        "for i, (x, y) in enumerate(DataLoader(data, collate_fn=collate)):\n    x = y if i else x\n    x = x.to(device)\n",
        "for batch in DataLoader(data, collate_fn=collate):\n    x = batch[i].to(device)\n",
        "for x, y in ((b[1], b[0]) for b in DataLoader(data, collate_fn=collate)):\n    x = x.to(device)\n",
        "for *y, x in DataLoader(data, collate_fn=collate):\n    y = y[0].to(device)\n",
    ],
    ids=[
        "it is the other part",
        "it may be the other part",
        "which part it is is not known",
        "the parts are put in another order",
        "how many parts there are is not known",
    ],
)
def test_a_part_of_a_batch_that_may_be_anything_is_left(loop: str) -> None:
    leaves("import mine\n" + WITH_SIZES.replace("sizes\n", "mine.Sizes(sizes)\n", 2) + loop, NO_TENSOR)


TASKS = """\
from torch.utils.data import DataLoader, Dataset

class Series(Dataset):
    def __getitem__(self, index):
        return self.x[index], self.y[index], self.marks[index]

    def __len__(self):
        return 900

class Bags(Series):
    def __getitem__(self, index):
        return self.x[index], self.y[index]

def with_names(rows):
    x, y = zip(*rows)
    return torch.stack(x), Names(y)

def loader_of(task):
    if task == "bags":
        return DataLoader(Bags(), 64, pin_memory=True, collate_fn=with_names)
    return DataLoader(Series(), 64, pin_memory=True)

loader = loader_of(input())
"""


@pytest.mark.parametrize(
    "loop",
    [
        "for x, y, marks in loader:\n    marks = marks.to(device)\n    marks = marks[:, :8]\n",
        "for i, (x, y, marks) in enumerate(loader):\n    y = y.unsqueeze(1)\n    y = y[:, :8].to(device)\n",
    ],
    ids=["the name is cut later", "what is cut before"],
)
def test_batches_of_another_task_cannot_be_unpacked_here(loop: str) -> None:
    rewrites(TASKS + loop, TASKS + loop.replace("device)", "device, non_blocking=True)"))


@pytest.mark.parametrize(
    "loop",
    [
        "for x, y in loader:\n    y = y.to(device)\n",
        "for x, *y in loader:\n    y = y[0].to(device)\n",
        "for i, batch in enumerate(loader):\n    batch = batch.to(device)\n",
        "for x, y, marks in loader:\n    if x.shape[0] > 8:\n        y = next(iter(loader))[1]\n    y = y.to(device)\n",
    ],
    ids=["batches of both have two parts", "of any length", "a batch that is numbered", "from elsewhere on one way"],
)
def test_batches_of_another_task_may_be_moved_here(loop: str) -> None:
    # With two parts, those of the first task alone come here: what it collates decides.
    leaves(TASKS + loop, TWO_LOADERS)


TWO_LOADERS = "the collate_fn of one of its loaders (line 30) may return something else than tensors"
NO_LOADER = "what is moved is not known to be a batch: no loader is seen to hand it out"


@pytest.mark.parametrize(
    ("code", "because"),
    [
        ("def parts(n):\n    for i in range(n):\n        yield torch.ones(3) + i\n\nfor x in parts(4):\n", NO_LOADER),
        ("for x in [torch.ones(3), 'text']:\n", NO_LOADER),
        (
            "def run(batches=[torch.ones(3)]):\n  for x in batches:\n",
            "what is moved is not known to be a batch: 'batches' is a parameter of run(), which nothing in this file calls",
        ),
    ],
    ids=["a generator makes it", "a list holds it", "it may be anything, or new"],
)
def test_what_another_loop_hands_out_has_a_reason(code: str, because: str) -> None:
    leaves(code + "    x = x.to(device)\n", because)


UNKNOWN_BATCHES = "import words\n\nloader = words.batches()\n"


@pytest.mark.parametrize(
    "rest",
    [
        "    x = batch.view(-1, 80).to(device)\n",
        "    x = batch.text[0].long().to(device)\n",
        "    batch.to(device)\n    print(batch['x'])\n",
        "    batch.to(device)\n    net = nn.Linear(2, 2)\n    net(batch)\n",
        "    batch.to(device)\n    nn.Linear(2, 2)(**batch)\n",
    ],
    ids=["a view", "a part of it", "itself, and its items are read", "itself, for a model", "itself, as arguments"],
)
def test_what_is_made_of_unknown_batches_has_a_reason(rest: str) -> None:
    because = "what is moved is not known to be a batch: what iterating over words.batches() yields is not known"
    leaves(UNKNOWN_BATCHES + "for batch in loader:\n" + rest, because)


def test_unknown_things_that_move_themselves_and_are_no_batches_are_passed_over() -> None:
    check_silent(
        H2dNonBlocking, HEAD + UNKNOWN_BATCHES + "for part in loader:\n    part.to(device)\n    part.train()\n"
    )


SILENT = {
    "X1: to the CPU": """\
for x, y in loader:
    x = x.to('cpu')
""",
    "X1: with cpu()": """\
for x, y in loader:
    x = x.cuda(non_blocking=True)
    x = x.cpu()
""",
    "X1: to a CPU device": """\
host = torch.device('cpu')
for x, y in loader:
    x = x.cuda(non_blocking=True)
    x = x.to(host)
""",
    "X2: new tensors": """\
for x, y in loader:
    z = torch.randn(64, 9).to(device)
    w = torch.tensor([1]).cuda()
""",
    "X2: a buffer": """\
buffer = torch.empty(64, 784).pin_memory()
for x, y in loader:
    buffer.copy_(x)
    z = buffer.to(device)
""",
    "X4: a model and a loss": """\
model = nn.Linear(3, 3).to(device)
loss = nn.MSELoss().cuda()
""",
    "X4: models of a list": """\
from mine import models
for model in models:
    model.to(device)
""",
    "only the number format": """\
for x, y in loader:
    x = x.to(torch.float64)
    x = x.to(dtype=torch.float32)
""",
    "only the memory format": """\
for x, y in loader:
    x = x.to(memory_format=torch.channels_last)
""",
    "what type() says": """\
for x, y in loader:
    print(x.type())
""",
    "by position, after a device": """\
for x, y in loader:
    x = x.to(device, torch.float32, True)
""",
    "by position, of cuda()": """\
for x, y in loader:
    x = x.cuda(0, True)
""",
    "the user's choice": """\
args = argparse.ArgumentParser().parse_args()
for x, y in loader:
    x = x.to(device, non_blocking=args.fast)
""",
    "not a tensor": """\
for name in ['a', 'b']:
    name.to(device)
""",
}


@pytest.mark.parametrize("code", SILENT.values(), ids=SILENT)
def test_nothing_is_said_of(code: str) -> None:
    check_silent(H2dNonBlocking, HEAD + code)


def test_the_written_forms_run() -> None:
    x = torch.zeros(2, 3)

    assert x.type(torch.DoubleTensor, non_blocking=True).dtype is torch.float64  # type: ignore[call-overload]
    assert x.to(torch.ones(1, dtype=torch.float64), non_blocking=True).dtype is torch.float64
    assert x.to(torch.device("cpu"), torch.float64, non_blocking=True).dtype is torch.float64
    assert x.to(dtype=torch.float64, device="cpu", non_blocking=True).dtype is torch.float64
    assert x.to("cpu", memory_format=torch.preserve_format, non_blocking=True) is x


def test_accelerate_moves_the_batches() -> None:
    check_leaves(
        H2dNonBlocking, ACCELERATED, "the training loop runs inside Accelerate, which moves the batches itself"
    )


def test_a_model_that_one_function_makes_like_the_loader_is_not_read() -> None:
    before = """\
import sys
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


class Net(torch.nn.Module):
    def forward(self, x):
        return x


def make(name):
    if name == "net":
        return Net()
    if name == "adam":
        return torch.optim.Adam([torch.zeros(1)])
    return DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), 64, pin_memory=True)


net, loader = make(sys.argv[1]), make(sys.argv[2])
for x, y in loader:
    net(x.to("cuda"))
"""
    check_rewrites(H2dNonBlocking, before, before.replace('to("cuda")', 'to("cuda", non_blocking=True)'))


CALLERS = """\
import torch

device = torch.device("cuda")


def train(loader, model):
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        model(x)
"""


def test_a_loader_of_callers_that_are_not_seen_may_pin() -> None:
    check_rewrites(H2dNonBlocking, CALLERS, CALLERS.replace("to(device)", "to(device, non_blocking=True)"))


@pytest.mark.parametrize(
    "code",
    [
        CALLERS.replace("x, y = x.to(device), y.to(device)", "z = x.to(device)"),
        CALLERS.replace("(x, y)", "x").replace("x, y = x.to(device), y.to(device)", "x = x.to(device)"),
        CALLERS.replace("loader, model", "model, loader=None"),
    ],
    ids=["the host's name lives on", "the whole batch may be an object", "it may be None"],
)
def test_a_loader_of_callers_that_are_not_seen_is_left_where(code: str) -> None:
    assert {site.code for site in run(H2dNonBlocking, code).sites} == {"unknown-batch"}


TASK = """\
parser = argparse.ArgumentParser()
parser.add_argument("--task")
args = parser.parse_args()
"""
NEW_OR_FROM_ABOVE = """\
batches = iter(loader)
_, goal = next(batches)
for step in range(1000):
    x, y = next(batches)
    if args.task == "same":
        goal = y.clone()
    elif args.task == "next":
        goal = y + 1
    goal = goal.cuda()
"""
IN_THE_LOOP = "what the loop moves was made on the host (line {}), not in pinned memory, or came before the loop"


def test_what_the_loop_makes_is_not_the_batch_from_above_the_loop() -> None:
    leaves(TASK + NEW_OR_FROM_ABOVE, IN_THE_LOOP.format(19))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("y.clone()", "y", id="one branch hands on the batch itself"),
        pytest.param(
            "    if args", "    x, goal = next(batches)\n    if args", id="the loop takes it from a batch, too"
        ),
    ],
)
def test_a_batch_that_the_loop_moves_in_some_passes_gains(old: str, new: str) -> None:
    code = TASK + NEW_OR_FROM_ABOVE.replace(old, new, 1)
    rewrites(code, code.replace("goal.cuda()", "goal.cuda(non_blocking=True)"))


def test_what_is_on_the_device_already_is_not_mentioned() -> None:
    code = """\
from torch.utils.data import DataLoader
from torchvision import datasets

loader = DataLoader(datasets.MNIST("data"), batch_size=64, pin_memory=True)
for x, y in loader:
    x = x.cuda()
    print(x.clone().cuda(), x.view(-1).cuda())
"""

    assert {site.line for site in run(H2dNonBlocking, code).sites} == {6}


def test_a_message_says_what_is_pinned_only_with_another_change() -> None:
    code = """\
from torch.utils.data import DataLoader
from torchvision import datasets

loader = DataLoader(datasets.MNIST("data"), batch_size=64)
for x, y in loader:
    x = x.cuda()
"""
    (site,) = run(H2dNonBlocking, code).sites

    assert site.message == "the host waits for the copy of a batch that can be in pinned memory"


MAYBE_MPS = HEAD.replace('"cpu"', '"mps"')
WIDE = "    images, labels = images.to(device), labels.to(device)"
IN_TWO = """\
    images = images.to(device, non_blocking=device.type == "cuda"){}
    labels = labels.to(device, non_blocking=device.type == "cuda")
"""
SPLIT = {
    "the line gets too wide": (f"{WIDE}\n", IN_TWO.format("")),
    "a comment stays with the first": (f"{WIDE}  # both\n", IN_TWO.format("  # both")),
    "methods come before the copy": (
        "    images, labels = images.view(64, -1).to(device), labels.to(device)\n",
        IN_TWO.format("").replace("images.to", "images.view(64, -1).to"),
    ),
}


@pytest.mark.parametrize(("before", "after"), SPLIT.values(), ids=SPLIT.keys())
def test_a_line_that_gets_too_wide_is_split_into_one_for_each_name(before: str, after: str) -> None:
    loop = "for images, labels in loader:\n"

    check_rewrites(H2dNonBlocking, MAYBE_MPS + loop + before, MAYBE_MPS + loop + after)


ONE_LINE = {
    "the file has lines as wide": (
        f"width = loader{'[0]' * 35}\nfor x, labels in loader:\n    x, labels = x.to(device), labels.to(device)\n",
        "x.to(device)",
    ),
    "the second value reads the first name": (
        "for images, labels in loader:\n    labels, images = images.to(device), labels.to(device)\n",
        "images.to(device)",
    ),
    "another statement is in the line": (
        f"for images, labels in loader:\n{WIDE}; step = len(images)\n",
        "images.to(device)",
    ),
    "another function is called between": (
        "for images, labels in loader:\n    images, labels, n = images.to(device), labels.to(device), count()\n",
        "images.to(device)",
    ),
}


@pytest.mark.parametrize(("code", "moved"), ONE_LINE.values(), ids=ONE_LINE.keys())
def test_a_line_is_not_split_where(code: str, moved: str) -> None:
    after = run(H2dNonBlocking, MAYBE_MPS + code).after

    assert moved.replace(")", ', non_blocking=device.type == "cuda"), labels') in after


FETCHES = """\
import torch
from munch import Munch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Feed:
    def __init__(self, loader):
        self.loader = loader

    def __next__(self):
        try:
            image, digit = next(self.rest)
        except (AttributeError, StopIteration):
            self.rest = iter(self.loader)
            image, digit = next(self.rest)
        given = Munch(image=image, digit=digit, noise=torch.randn(len(image), 8))
        return Munch({name: tensor.to(device) for name, tensor in given.items()})


feed = Feed(DataLoader(datasets.MNIST("data"), batch_size=64, num_workers=2, pin_memory=PIN))
model = nn.Linear(784, 10).to(device)
for _ in range(1000):
    given = next(feed)
    nn.functional.cross_entropy(model(given.image.flatten(1)), given.digit).backward()
"""


def fetches(pin: str = "True") -> str:
    """A script whose batches are taken apart, and kept together in a dictionary with attributes."""
    return FETCHES.replace("PIN", pin)


def test_a_batch_in_a_dictionary_with_attributes() -> None:
    check_rewrites(H2dNonBlocking, fetches(), fetches().replace("to(device) for", "to(device, non_blocking=True) for"))


def test_a_batch_in_such_a_dictionary_that_is_not_pinned_is_left() -> None:
    because = "the loader in line 24 does not pin its batches: pin_memory is False there"

    check_leaves(H2dNonBlocking, fetches("False"), because)


def test_a_dictionary_that_holds_other_things_is_not_mentioned() -> None:
    check_silent(H2dNonBlocking, fetches().replace("digit=digit", "digit=digit, rate=0.5"))


HELPER = """\
def step(x):
    inputs = x.cuda()
    return inputs.sum()

use_gpu = torch.cuda.is_available()
for x, y in loader:
"""
THERE = "    if use_gpu:\n        x = x.cuda()\n"


def of_helper(body: str) -> tuple[bool, set[str]]:
    """Whether the copy in the helper is rewritten, and what is said of those that are left."""
    result = run(H2dNonBlocking, HEAD + HELPER + body)
    return "inputs = x.cuda(non_blocking=True)" in result.after, {
        each.message for each in result.sites if not each.rewrites
    }


@pytest.mark.parametrize("cast", ["", ".detach()"], ids=["as it is", "without a graph"])
def test_what_each_caller_has_moved_is_there(cast: str) -> None:
    body = THERE.replace("x.cuda()", f"x.cuda(){cast}") + "    step(x)\n"

    assert of_helper(body) == (False, {f"wherever CUDA is used, it is there already (line {HEAD.count(chr(10)) + 8})"})


NOT_THERE = {
    "under another condition": THERE.replace("use_gpu", "len(y) > 9") + "    step(x)\n",
    "where CUDA is not used": THERE.replace("use_gpu", "not use_gpu") + "    step(x)\n",
    "with another condition beside it": THERE.replace("use_gpu", "use_gpu and len(y) > 9") + "    step(x)\n",
    "below the call": "    step(x)\n" + THERE,
    "in a part of the passes": "    if len(y) > 9:\n        if use_gpu:\n            x = x.cuda()\n    step(x)\n",
    "for one of two callers": THERE + "    step(x)\nfor x, y in loader:\n    step(x)\n",
    "and bound again": THERE + "    for x, y in loader:\n        step(x)\n",
    "another batch": THERE.replace("        x = x", "        z = x") + "    step(x)\n",
}


@pytest.mark.parametrize("body", NOT_THERE.values(), ids=NOT_THERE)
def test_what_a_caller_may_not_have_moved_is_copied(body: str) -> None:
    assert of_helper(body) == (True, set())
