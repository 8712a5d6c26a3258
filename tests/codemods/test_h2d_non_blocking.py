from __future__ import annotations

import pytest
import torch
from kit import check_leaves, check_rewrites, check_silent

from codemods.h2d_non_blocking import H2dNonBlocking

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
MPS = "the device may be MPS, where a batch copied without blocking may be read too early: compare it with 'cuda'"
PAGEABLE = "what is moved was made from the batch on the host (line {}), and is not in pinned memory"
WRITTEN = "the batch is written on the host again while it may be copied (line {})"
NO_TENSOR = "its collate_fn may return something else than tensors"


def rewrites(before: str, after: str) -> None:
    check_rewrites(H2dNonBlocking, HEAD + before, HEAD + after)


def leaves(code: str, because: str) -> None:
    check_leaves(H2dNonBlocking, HEAD + code, because)


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
    "Variable(x).cuda()": ("Variable(x).cuda()", "Variable(x).cuda(non_blocking=True)"),
    "Variable(x.cuda())": ("Variable(x.cuda())", "Variable(x.cuda(non_blocking=True))"),
    "a view": ("x.view(-1, 784).to(device)", "x.view(-1, 784).to(device, non_blocking=True)"),
    "a slice": ("x[:8].to(device)", "x[:8].to(device, non_blocking=True)"),
    "what is written in place before": ("x.mul_(2).to(device)", "x.mul_(2).to(device, non_blocking=True)"),
    "several lines": ("x.to(\n        device,\n    )", "x.to(\n        device,\n        non_blocking=True,\n    )"),
    "a call in a call": (
        "nn.functional.relu(x.to(device))",
        "nn.functional.relu(x.to(device, non_blocking=True))",
    ),
}


@pytest.mark.parametrize(("before", "after"), FORMS.values(), ids=FORMS)
def test_rewritten_in_the_form(before: str, after: str) -> None:
    loop = "for x, y in loader:\n    z = {}\n"

    rewrites(loop.format(before), loop.format(after))


BATCHES = {
    "in a tuple": (
        "for x, y in loader:\n    x, y = x.to(device), y.to(device)\n",
        "for x, y in loader:\n    x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)\n",
    ),
    "in a list": (
        "for batch in loader:\n    x, y = [t.to(device) for t in batch]\n",
        "for batch in loader:\n    x, y = [t.to(device, non_blocking=True) for t in batch]\n",
    ),
    "in a generator": (
        "for batch in loader:\n    x, y = (t.to(device) for t in batch)\n",
        "for batch in loader:\n    x, y = (t.to(device, non_blocking=True) for t in batch)\n",
    ),
    "in a dictionary": (
        "for batch in loader:\n    batch = {k: v.to(device) for k, v in batch.items()}\n",
        "for batch in loader:\n    batch = {k: v.to(device, non_blocking=True) for k, v in batch.items()}\n",
    ),
    "in map()": (
        "for batch in loader:\n    x, y = map(lambda t: t.to(device), batch)\n",
        "for batch in loader:\n    x, y = map(lambda t: t.to(device, non_blocking=True), batch)\n",
    ),
    "by index": (
        "for i, batch in enumerate(loader):\n    x = batch[0].to(device)\n",
        "for i, batch in enumerate(loader):\n    x = batch[0].to(device, non_blocking=True)\n",
    ),
    "by key": (
        'for i, batch in enumerate(loader):\n    x = batch["image"].to(device)\n',
        'for i, batch in enumerate(loader):\n    x = batch["image"].to(device, non_blocking=True)\n',
    ),
    "through a progress bar": (
        "from tqdm import tqdm\nfor x, y in tqdm(loader):\n    x = x.to(device)\n",
        "from tqdm import tqdm\nfor x, y in tqdm(loader):\n    x = x.to(device, non_blocking=True)\n",
    ),
    "by next()": (
        "x, y = next(iter(loader))\nx = x.to(device)\n",
        "x, y = next(iter(loader))\nx = x.to(device, non_blocking=True)\n",
    ),
    "from a dictionary of loaders": (
        'loaders = {"train": loader, "val": loader}\nfor phase in ["train", "val"]:\n'
        "    for x, y in loaders[phase]:\n        x = x.to(device)\n",
        'loaders = {"train": loader, "val": loader}\nfor phase in ["train", "val"]:\n'
        "    for x, y in loaders[phase]:\n        x = x.to(device, non_blocking=True)\n",
    ),
    "in a function that is given the loader": (
        "def train(loader, device):\n    for x, y in loader:\n        x = x.to(device)\ntrain(loader, device)\n",
        "def train(loader, device):\n    for x, y in loader:\n        x = x.to(device, non_blocking=True)\n"
        "train(loader, device)\n",
    ),
    "in a helper": (
        "def to_device(batch, device):\n    if isinstance(batch, (list, tuple)):\n"
        "        return [to_device(b, device) for b in batch]\n    return batch.to(device)\n"
        "for batch in loader:\n    x, y = to_device(batch, device)\n",
        "def to_device(batch, device):\n    if isinstance(batch, (list, tuple)):\n"
        "        return [to_device(b, device) for b in batch]\n    return batch.to(device, non_blocking=True)\n"
        "for batch in loader:\n    x, y = to_device(batch, device)\n",
    ),
    "in a helper that binds its parameter anew": (
        "def to_var(x):\n    if torch.cuda.is_available():\n        x = x.cuda()\n    return Variable(x)\n"
        "for x, y in loader:\n    x = to_var(x)\n",
        "def to_var(x):\n    if torch.cuda.is_available():\n        x = x.cuda(non_blocking=True)\n    return Variable(x)\n"
        "for x, y in loader:\n    x = to_var(x)\n",
    ),
    "in a method, with the device on self": (
        "class Trainer:\n    def __init__(self):\n        self.device = device\n        self.loader = loader\n"
        "    def train(self):\n        for x, y in self.loader:\n            x = x.to(self.device)\nTrainer().train()\n",
        "class Trainer:\n    def __init__(self):\n        self.device = device\n        self.loader = loader\n"
        "    def train(self):\n        for x, y in self.loader:\n            x = x.to(self.device, non_blocking=True)\n"
        "Trainer().train()\n",
    ),
    "ahead, on a stream of its own": (
        "class Prefetcher:\n    def __init__(self):\n        self.batches = iter(loader)\n        self.fetch()\n"
        "    def fetch(self):\n        self.x, self.y = next(self.batches)\n"
        "        with torch.cuda.stream(torch.cuda.Stream()):\n            self.x = self.x.cuda()\nPrefetcher()\n",
        "class Prefetcher:\n    def __init__(self):\n        self.batches = iter(loader)\n        self.fetch()\n"
        "    def fetch(self):\n        self.x, self.y = next(self.batches)\n"
        "        with torch.cuda.stream(torch.cuda.Stream()):\n            self.x = self.x.cuda(non_blocking=True)\n"
        "Prefetcher()\n",
    ),
    "under a flag": (
        "cuda = torch.cuda.is_available()\nfor x, y in loader:\n    if cuda:\n        x = x.cuda()\n",
        "cuda = torch.cuda.is_available()\nfor x, y in loader:\n    if cuda:\n        x = x.cuda(non_blocking=True)\n",
    ),
    "by a tensor type that depends on CUDA": (
        "Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor\n"
        "for x, y in loader:\n    x = Variable(x.type(Tensor))\n",
        "Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor\n"
        "for x, y in loader:\n    x = Variable(x.type(Tensor, non_blocking=True))\n",
    ),
    "where one of the two is not blocking yet": (
        "for x, y in loader:\n    x, y = x.to(device, non_blocking=True), y.to(device)\n",
        "for x, y in loader:\n    x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)\n",
    ),
    "from a loader that loader-pin pins": (
        "other = DataLoader(data)\nfor x, y in other:\n    x = x.to(device)\n",
        "other = DataLoader(data)\nfor x, y in other:\n    x = x.to(device, non_blocking=True)\n",
    ),
    "from loaders of which one is pinned": (
        "def train(loader):\n    for x, y in loader:\n        x = x.cuda()\n"
        "train(loader)\ntrain(DataLoader(data, pin_memory=False))\n",
        "def train(loader):\n    for x, y in loader:\n        x = x.cuda(non_blocking=True)\n"
        "train(loader)\ntrain(DataLoader(data, pin_memory=False))\n",
    ),
    "from a loader class that pins in its own __init__": (
        "class Loader(DataLoader):\n    def __init__(self):\n        super().__init__(data, pin_memory=True)\n"
        "for x, y in Loader():\n    x = x.cuda()\n",
        "class Loader(DataLoader):\n    def __init__(self):\n        super().__init__(data, pin_memory=True)\n"
        "for x, y in Loader():\n    x = x.cuda(non_blocking=True)\n",
    ),
    "from a collate_fn that makes tensors": (
        "def collate(items):\n    return torch.stack([i[0] for i in items]), torch.tensor([i[1] for i in items])\n"
        "for x, y in DataLoader(data, collate_fn=collate):\n    x = x.to(device)\n",
        "def collate(items):\n    return torch.stack([i[0] for i in items]), torch.tensor([i[1] for i in items])\n"
        "for x, y in DataLoader(data, collate_fn=collate):\n    x = x.to(device, non_blocking=True)\n",
    ),
    "X1: moved again to the same device": (
        "for x, y in loader:\n    if len(x) == 64:\n        x = x.to(device)\n    x = x.to(device)\n",
        "for x, y in loader:\n    if len(x) == 64:\n        x = x.to(device, non_blocking=True)\n"
        "    x = x.to(device, non_blocking=True)\n",
    ),
    "X5: printed at once": (
        "for x, y in loader:\n    x = x.to(device)\n    print(x, x.sum().item())\n",
        "for x, y in loader:\n    x = x.to(device, non_blocking=True)\n    print(x, x.sum().item())\n",
    ),
    "X6: to another tensor's device": (
        "for x, y in loader:\n    z = torch.zeros(3).cuda()\n    x = x.to(z)\n",
        "for x, y in loader:\n    z = torch.zeros(3).cuda()\n    x = x.to(z, non_blocking=True)\n",
    ),
}


@pytest.mark.parametrize(("before", "after"), BATCHES.values(), ids=BATCHES)
def test_rewritten_where_batches_are_moved(before: str, after: str) -> None:
    rewrites(before, after)


MAY_BE_MPS = {
    "a device found in three steps": (
        'if torch.cuda.is_available():\n    device = torch.device("cuda")\nelif torch.backends.mps.is_available():\n'
        '    device = torch.device("mps")\nelse:\n    device = torch.device("cpu")\n',
        'device.type == "cuda"',
    ),
    "a name found in three steps": (
        'device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"\n',
        'device == "cuda"',
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
        'args = argparse.ArgumentParser().parse_args()\nif args.device == "mps":\n    print("hot")\n'
        "device = torch.device(args.device)\n",
        'device.type == "cuda"',
    ),
}


@pytest.mark.parametrize(("start", "value"), MAY_BE_MPS.values(), ids=MAY_BE_MPS)
def test_X8_only_cuda_is_not_waited_for_where_it_may_be_mps(start: str, value: str) -> None:  # noqa: N802 - a guard's name
    loop = "for x, y in loader:\n    x = x.to(device{})\n"

    rewrites(start + loop.format(""), start + loop.format(f", non_blocking={value}"))


def test_the_user_s_choice_is_trusted_in_a_script_that_knows_no_mps() -> None:
    start = "args = argparse.ArgumentParser().parse_args()\ndevice = torch.device(args.device)\n"
    loop = "for x, y in loader:\n    x = x.to(device{})\n"

    rewrites(start + loop.format(""), start + loop.format(", non_blocking=True"))


def test_completed_with_the_loader_s_pinning_in_one_round() -> None:
    # Both rules ask the loader's facts: neither waits for what the other has written.
    code = HEAD.replace(", pin_memory=True", "") + "for x, y in loader:\n    x = x.to(device)\n"

    check_rewrites(H2dNonBlocking, code, code.replace("x.to(device)", "x.to(device, non_blocking=True)"))


DECLINED = {
    "X1: the target may be the CPU and the tensor on CUDA": (
        "x = None\nfor x, y in loader:\n    if len(x) == 64:\n        x = x.cuda()\n    z = x.to(device)\n",
        "what is moved may be on a device already, and the target may be the CPU",
        "x = x.cuda(non_blocking=True)",
    ),
    "X1: a tensor of unknown place": (
        "def move(t):\n    return t.to(device)\nfor x, y in loader:\n    x = move(x)\nmove(nn.Linear(3, 3).weight.sum())\n",
        "what is moved may be on a device already, and the target may be the CPU",
        "",
    ),
    "X2: the loader does not pin": (
        "for x, y in DataLoader(data, pin_memory=False):\n    x = x.to(device)\n",
        "the loader in line 11 does not pin its batches: pin_memory is False there",
        "",
    ),
    "X2: the loader cannot pin": (
        "class Own(torch.utils.data.Dataset):\n    def __getitem__(self, i):\n        return torch.zeros(3).cuda()\n"
        "for x in DataLoader(Own()):\n    x = x.cuda()\n",
        "the loader in line 14 does not pin its batches: its data set moves tensors to a device itself (line 13)",
        "",
    ),
    "X2: the batch is cast before": (
        "for x, y in loader:\n    x = x.float().to(device)\n",
        PAGEABLE.format(12),
        "",
    ),
    "X2: the batch is scaled before": (
        "for x, y in loader:\n    x = (x - 0.5) * 2\n    x = x.to(device)\n",
        "what is moved was made from the batch on the host, and is not in pinned memory",
        "",
    ),
    "X3: written by a method": ("for x, y in loader:\n    z = x.to(device)\n    x.mul_(2)\n", WRITTEN.format(13), ""),
    "X3: written by an operator": ("for x, y in loader:\n    z = x.to(device)\n    x += 1\n", WRITTEN.format(13), ""),
    "X3: written by index": ("for x, y in loader:\n    z = x.to(device)\n    x[0] = 0\n", WRITTEN.format(13), ""),
    "X3: written by index and operator": ("for x, y in loader:\n    z = x.to(device)\n    x[0] += 1\n", WRITTEN.format(13), ""),
    "X3: written as out": (
        "for x, y in loader:\n    z = x.to(device)\n    torch.add(x, 1, out=x)\n",
        WRITTEN.format(13),
        "",
    ),
    "X3: written through a view": (
        "for x, y in loader:\n    v = x.view(-1)\n    z = x.to(device)\n    v[0] = 0\n",
        WRITTEN.format(14),
        "",
    ),
    "X3: written through NumPy": (
        "for x, y in loader:\n    z = x.to(device)\n    x.numpy()[:] = 0\n",
        WRITTEN.format(13),
        "",
    ),
    "X3: written through a NumPy array of before": (
        "for x, y in loader:\n    a = x.numpy()\n    z = x.to(device)\n    a[:] = 0\n",
        WRITTEN.format(14),
        "",
    ),
    "X3: written in an outer block": (
        "for x, y in loader:\n    if len(x) > 1:\n        z = x.to(device)\n    x[0] = 0\n",
        WRITTEN.format(14),
        "",
    ),
    "X3: written as an element": (
        "for batch in loader:\n    z = [t.to(device) for t in batch]\n    batch[0].zero_()\n",
        WRITTEN.format(13),
        "",
    ),
    "X3: written by the caller of a helper": (
        "def move(t):\n    return t.to(device)\nfor x, y in loader:\n    z = move(x)\n    x.zero_()\n",
        WRITTEN.format(15),
        "",
    ),
    "X3: written in the next round, one batch for all": (
        "x, y = next(iter(loader))\nfor step in range(9):\n    x.mul_(2)\n    z = x.to(device)\n",
        WRITTEN.format(13),
        "",
    ),
    "X7: an object of the collate_fn": (
        "class Batch:\n    def pin_memory(self):\n        return self\n    def to(self, device):\n        return self\n"
        "for batch in DataLoader(data, collate_fn=lambda b: Batch()):\n    batch = batch.to(device)\n",
        NO_TENSOR,
        "",
    ),
    "X7: a batch of a collate_fn of another file": (
        "from mine import collate\nfor batch in DataLoader(data, collate_fn=collate):\n    batch = batch.cuda()\n",
        NO_TENSOR,
        "",
    ),
    "X7: a tokenizer's batch": (
        "from transformers import AutoTokenizer, DataCollatorWithPadding\n"
        "collate = DataCollatorWithPadding(AutoTokenizer.from_pretrained('bert'))\n"
        "for batch in DataLoader(data, collate_fn=collate):\n    batch = batch.to(device)\n",
        NO_TENSOR,
        "",
    ),
    "X7: perhaps a model": (
        "def move(t):\n    return t.to(device)\nmodel = move(nn.Linear(3, 3))\nfor x, y in loader:\n    x = move(x)\n",
        "what is moved may be something else than a batch: torch.nn.Linear()",
        "",
    ),
    "X8: MPS alone": (
        'device = torch.device("mps")\nfor x, y in loader:\n    x = x.to(device)\n',
        "the batch goes to another accelerator than CUDA",
        "",
    ),
    "X8: MPS or a numbered CUDA device": (
        'device = "cuda:0" if torch.cuda.is_available() else "mps"\nfor x, y in loader:\n    x = x.to(device)\n',
        MPS,
        "",
    ),
    "the user said so": (
        "for x, y in loader:\n    x = x.to(device, non_blocking=False)\n",
        "non_blocking=False is written there",
        "",
    ),
    "batches of something unknown": (
        "from mine import get_loader\nfor x, y in get_loader():\n    x = x.to(device)\n",
        "what is moved is not known to be a batch: what iterating over mine.get_loader() yields is not known",
        "",
    ),
    "batches of a parameter": (
        "def train(batches):\n    for batch in batches:\n        x = batch[0].to(device)\n",
        "what is moved is not known to be a batch: 'batches' is a parameter of train(), which nothing in this file calls",
        "",
    ),
    "an unknown device": (
        "def train(where):\n    for x, y in loader:\n        x = x.to(where)\n",
        "the device is not known: 'where' is a parameter of train(), which nothing in this file calls",
        "",
    ),
    "the device of a tensor": (
        "where = torch.zeros(3).cuda().device\nfor x, y in loader:\n    x = x.to(where)\n",
        "the device is not known: where the device comes from is not followed",
        "",
    ),
    "an unknown tensor type": (
        "def train(kind):\n    for x, y in loader:\n        x = x.type(kind)\n",
        "the device is not known: the tensor type is not known",
        "",
    ),
}


@pytest.mark.parametrize(("code", "because", "but"), DECLINED.values(), ids=DECLINED)
def test_declined_because_of(code: str, because: str, but: str) -> None:
    if but:
        # The other site of the script is rewritten already.
        code = code.replace(but.replace("non_blocking=True", ""), but)
    leaves(code, because)


SILENT = {
    "X1: to the CPU": "for x, y in loader:\n    x = x.to('cpu')\n",
    "X1: with cpu()": "for x, y in loader:\n    x = x.cuda(non_blocking=True)\n    x = x.cpu()\n",
    "X1: to a CPU device": "host = torch.device('cpu')\nfor x, y in loader:\n    x = x.cuda(non_blocking=True)\n    x = x.to(host)\n",
    "X2: new tensors": "for x, y in loader:\n    z = torch.randn(64, 9).to(device)\n    w = torch.tensor([1]).cuda()\n",
    "X2: a buffer": "buffer = torch.empty(64, 784).pin_memory()\nfor x, y in loader:\n    buffer.copy_(x)\n    z = buffer.to(device)\n",
    "X4: a model and a loss": "model = nn.Linear(3, 3).to(device)\nloss = nn.MSELoss().cuda()\n",
    "X4: models of a list": "from mine import models\nfor model in models:\n    model.to(device)\n",
    "only the number format": "for x, y in loader:\n    x = x.to(torch.float64)\n    x = x.to(dtype=torch.float32)\n",
    "only the memory format": "for x, y in loader:\n    x = x.to(memory_format=torch.channels_last)\n",
    "what type() says": "for x, y in loader:\n    print(x.type())\n",
    "by position, after a device": "for x, y in loader:\n    x = x.to(device, torch.float32, True)\n",
    "by position, of cuda()": "for x, y in loader:\n    x = x.cuda(0, True)\n",
    "the user's choice": "args = argparse.ArgumentParser().parse_args()\n"
    "for x, y in loader:\n    x = x.to(device, non_blocking=args.fast)\n",
    "not a tensor": "for name in ['a', 'b']:\n    name.to(device)\n",
}


@pytest.mark.parametrize("code", SILENT.values(), ids=SILENT)
def test_nothing_is_said_of(code: str) -> None:
    check_silent(H2dNonBlocking, HEAD + code)


def test_the_written_forms_run() -> None:
    x = torch.zeros(2, 3)

    assert x.type(torch.DoubleTensor, non_blocking=True).dtype is torch.float64
    assert x.to(torch.ones(1, dtype=torch.float64), non_blocking=True).dtype is torch.float64
    assert x.to(torch.device("cpu"), torch.float64, non_blocking=True).dtype is torch.float64
    assert x.to(dtype=torch.float64, device="cpu", non_blocking=True).dtype is torch.float64
    assert x.to("cpu", memory_format=torch.preserve_format, non_blocking=True) is x
