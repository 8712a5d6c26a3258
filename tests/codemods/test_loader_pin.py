from __future__ import annotations

import pytest
from kit import check_leaves, check_rewrites, check_silent

from codemods.loader_pin import LoaderPin

HEAD = """\
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torchvision import datasets, transforms

data = datasets.MNIST("data", transform=transforms.ToTensor())
"""
MOVED = """\
for x, y in loader:
    x, y = x.cuda(), y.cuda()
"""
MOVED_WHERE_CUDA = """\
for x, y in loader:
    if use_cuda:
        x, y = x.cuda(), y.cuda()
"""
TO_DEVICE = """\
for x, y in loader:
    x, y = x.to(device), y.to(device)
"""
ARGS = "args = argparse.ArgumentParser().parse_args()\n"
ANY_DEVICE = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'


def rewrites(before: str, after: str) -> None:
    check_rewrites(LoaderPin, HEAD + before, HEAD + after)


def leaves(code: str, because: str) -> None:
    check_leaves(LoaderPin, HEAD + code, because)


PLACES = {
    "a keyword at the call": (
        "loader = DataLoader(data, batch_size=64)\n",
        "loader = DataLoader(data, batch_size=64, pin_memory=True)\n",
    ),
    "a keyword after positional arguments": (
        "loader = DataLoader(data, 64, True, None, None, 2)\n",
        "loader = DataLoader(data, 64, True, None, None, 2, pin_memory=True)\n",
    ),
    "a line of its own where each argument has one": (
        "loader = DataLoader(\n    data,\n    batch_size=64,  # fits\n)\n",
        "loader = DataLoader(\n    data,\n    batch_size=64,  # fits\n    pin_memory=True,\n)\n",
    ),
    "the dictionary given with **": (
        'kwargs = {"batch_size": 64}\nloader = DataLoader(data, **kwargs)\n',
        'kwargs = {"batch_size": 64, "pin_memory": True}\nloader = DataLoader(data, **kwargs)\n',
    ),
    "the quotes of the dictionary's keys": (
        "kwargs = {'batch_size': 64}\nloader = DataLoader(data, **kwargs)\n",
        "kwargs = {'batch_size': 64, 'pin_memory': True}\nloader = DataLoader(data, **kwargs)\n",
    ),
    "the dict() given with **": (
        "kwargs = dict(batch_size=64)\nloader = DataLoader(data, **kwargs)\n",
        "kwargs = dict(batch_size=64, pin_memory=True)\nloader = DataLoader(data, **kwargs)\n",
    ),
    "a dictionary that another is merged into": (
        'kwargs = {"batch_size": 64}\nkwargs.update({"num_workers": 2})\nloader = DataLoader(data, **kwargs)\n',
        'kwargs = {"batch_size": 64, "pin_memory": True}\nkwargs.update({"num_workers": 2})\n'
        "loader = DataLoader(data, **kwargs)\n",
    ),
    "a dictionary whose items are assigned": (
        'kwargs = {"batch_size": 64}\nkwargs["num_workers"] = 2\nloader = DataLoader(data, **kwargs)\n',
        'kwargs = {"batch_size": 64, "pin_memory": True}\nkwargs["num_workers"] = 2\n'
        "loader = DataLoader(data, **kwargs)\n",
    ),
    "a dictionary written into the call": (
        'loader = DataLoader(data, **{"batch_size": 64})\n',
        'loader = DataLoader(data, **{"batch_size": 64, "pin_memory": True})\n',
    ),
    "the call, where the dictionary is given to another call too": (
        'kwargs = {"train": False}\nother = datasets.MNIST("data", **kwargs)\n'
        'kwargs = {"batch_size": 64}\nprint(kwargs)\nloader = DataLoader(data, **kwargs)\n',
        'kwargs = {"train": False}\nother = datasets.MNIST("data", **kwargs)\n'
        'kwargs = {"batch_size": 64}\nprint(kwargs)\nloader = DataLoader(data, pin_memory=True, **kwargs)\n',
    ),
    "the call, where two dictionaries are joined": (
        'kwargs = {"batch_size": 64} | {"num_workers": 2}\nloader = DataLoader(data, **kwargs)\n',
        'kwargs = {"batch_size": 64} | {"num_workers": 2}\nloader = DataLoader(data, pin_memory=True, **kwargs)\n',
    ),
    "the call in a helper whose callers are seen": (
        "def make(data, **kwargs):\n    return DataLoader(data, **kwargs)\nloader = make(data, batch_size=64)\n",
        "def make(data, **kwargs):\n    return DataLoader(data, pin_memory=True, **kwargs)\n"
        "loader = make(data, batch_size=64)\n",
    ),
    "the call of a class that has no __init__ of its own": (
        "class Loader(DataLoader):\n    pass\nloader = Loader(data, 64)\n",
        "class Loader(DataLoader):\n    pass\nloader = Loader(data, 64, pin_memory=True)\n",
    ),
    "the call of an alias": (
        "DL = torch.utils.data.DataLoader\nloader = DL(data)\n",
        "DL = torch.utils.data.DataLoader\nloader = DL(data, pin_memory=True)\n",
    ),
}


@pytest.mark.parametrize(("before", "after"), PLACES.values(), ids=PLACES)
def test_the_argument_goes_to(before: str, after: str) -> None:
    rewrites(before + MOVED, after + MOVED)


CONDITIONAL_DICTIONARIES = {
    "its own branch of an expression": (
        "kwargs = {'num_workers': 1} if use_cuda else {}\n",
        "kwargs = {'num_workers': 1, 'pin_memory': True} if use_cuda else {}\n",
    ),
    "its own branch, where the other has items too": (
        "kwargs = {'num_workers': 1} if use_cuda else {'num_workers': 0}\n",
        "kwargs = {'num_workers': 1, 'pin_memory': True} if use_cuda else {'num_workers': 0}\n",
    ),
    "its own branch, turned around": (
        "kwargs = {} if not use_cuda else {'num_workers': 1}\n",
        "kwargs = {} if not use_cuda else {'num_workers': 1, 'pin_memory': True}\n",
    ),
    "its own branch of a statement": (
        "if use_cuda:\n    kwargs = {'num_workers': 1}\nelse:\n    kwargs = {}\n",
        "if use_cuda:\n    kwargs = {'num_workers': 1, 'pin_memory': True}\nelse:\n    kwargs = {}\n",
    ),
    "what is merged where CUDA is used": (
        "kwargs = {'batch_size': 64}\nif use_cuda:\n    more = {'num_workers': 1}\n    kwargs.update(more)\n",
        "kwargs = {'batch_size': 64}\nif use_cuda:\n    more = {'num_workers': 1, 'pin_memory': True}\n"
        "    kwargs.update(more)\n",
    ),
}


@pytest.mark.parametrize(("before", "after"), CONDITIONAL_DICTIONARIES.values(), ids=CONDITIONAL_DICTIONARIES)
def test_a_dictionary_for_cuda_has_the_argument_in(before: str, after: str) -> None:
    start = "use_cuda = torch.cuda.is_available()\n"
    loader = "loader = DataLoader(data, **kwargs)\n"

    rewrites(start + before + loader + MOVED_WHERE_CUDA, start + after + loader + MOVED_WHERE_CUDA)


def test_loaders_that_share_a_dictionary_share_the_argument() -> None:
    rest = "loader = DataLoader(data, **kwargs)\nother = DataLoader(data, **kwargs)\n" + MOVED
    rest += MOVED.replace("loader", "other")

    rewrites('kwargs = {"batch_size": 64}\n' + rest, 'kwargs = {"batch_size": 64, "pin_memory": True}\n' + rest)


def test_a_dictionary_is_not_touched_where_another_loader_has_the_argument_already() -> None:
    # In the dictionary it would be given twice to the other one: a TypeError.
    rest = "other = DataLoader(data, pin_memory=True, **kwargs)\n" + MOVED + MOVED.replace("loader", "other")

    rewrites(
        'kwargs = {"batch_size": 64}\nloader = DataLoader(data, **kwargs)\n' + rest,
        'kwargs = {"batch_size": 64}\nloader = DataLoader(data, pin_memory=True, **kwargs)\n' + rest,
    )


def test_a_dictionary_is_not_touched_where_another_loader_s_batches_stay_on_the_host() -> None:
    rest = "other = DataLoader(data, **kwargs)\n" + MOVED + "for x, y in other:\n    print(x)\n"

    rewrites(
        'kwargs = {"batch_size": 64}\nloader = DataLoader(data, **kwargs)\n' + rest,
        'kwargs = {"batch_size": 64}\nloader = DataLoader(data, pin_memory=True, **kwargs)\n' + rest,
    )


CONDITIONS = {
    "a torch.device": (ANY_DEVICE, TO_DEVICE, 'device.type == "cuda"'),
    "a torch.device with an index": (
        'device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")\n',
        TO_DEVICE,
        'device.type == "cuda"',
    ),
    "a torch.device of the user's choice": (ARGS + "device = torch.device(args.device)\n", TO_DEVICE, 'device.type == "cuda"'),
    "a torch.device with a formatted name": (
        ARGS + 'device = torch.device("cuda:{}".format(args.gpu) if torch.cuda.is_available() else "cpu")\n',
        TO_DEVICE,
        'device.type == "cuda"',
    ),
    "a torch.device from a function": (
        "def find():\n    if torch.cuda.is_available():\n        return torch.device('cuda')\n    return torch.device('cpu')\n"
        'device = find()\nprint("found", "it", "there")\n',
        TO_DEVICE,
        'device.type == "cuda"',
    ),
    "the name of a device": (
        'device = "cuda" if torch.cuda.is_available() else "cpu"\n',
        TO_DEVICE,
        'device == "cuda"',
    ),
    "the name of a device with an index, which is not compared": (
        'device = "cuda:0" if torch.cuda.is_available() else "cpu"\n',
        TO_DEVICE,
        "torch.cuda.is_available()",
    ),
    "the number of a device": (
        'device = 0 if torch.cuda.is_available() else "cpu"\n',
        TO_DEVICE,
        "torch.cuda.is_available()",
    ),
    "the user's name of a device": (ARGS + "device = args.device\n", TO_DEVICE, "torch.cuda.is_available()"),
    "whatever accelerator there is": (
        "device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device('cpu')\n"
        'print("on", "the", "device")\n',
        TO_DEVICE,
        'device.type == "cuda"',
    ),
    "the name of whatever accelerator there is": (
        'device = torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"\n',
        TO_DEVICE,
        'device == "cuda"',
    ),
    "one of three": (
        'if torch.cuda.is_available():\n    device = "cuda"\nelif torch.backends.mps.is_available():\n    device = "mps"\n'
        'else:\n    device = "cpu"\n',
        TO_DEVICE,
        'device == "cuda"',
    ),
    "a device in a dictionary": (
        'config = {"device": "cuda" if torch.cuda.is_available() else "cpu"}\n',
        TO_DEVICE.replace("device", 'config["device"]'),
        "torch.cuda.is_available()",
    ),
    "an attribute of the arguments": (
        ARGS + ANY_DEVICE.replace("device =", "args.device ="),
        TO_DEVICE.replace("device", "args.device"),
        'args.device.type == "cuda"',
    ),
    "a flag": ("use_cuda = torch.cuda.is_available()\n", MOVED_WHERE_CUDA, "use_cuda"),
    "a constant flag": ("use_cuda = True\n", MOVED_WHERE_CUDA, "use_cuda"),
    "a flag in an expression": (
        "use_cuda = torch.cuda.is_available()\n",
        "for x, y in loader:\n    x = x.cuda() if use_cuda else x\n",
        "use_cuda",
    ),
    "a flag that the code is not under": (
        "use_cuda = torch.cuda.is_available()\n",
        "for x, y in loader:\n    if not use_cuda:\n        pass\n    else:\n        x = x.cuda()\n",
        "use_cuda",
    ),
    "the user's flag": (ARGS, MOVED_WHERE_CUDA.replace("use_cuda", "args.cuda"), "args.cuda"),
    "the user's flag, corrected": (
        ARGS + "args.cuda = not args.no_cuda and torch.cuda.is_available()\n",
        MOVED_WHERE_CUDA.replace("use_cuda", "args.cuda"),
        "args.cuda",
    ),
    "the user's flag against CUDA": (ARGS, MOVED_WHERE_CUDA.replace("use_cuda", "not args.no_cuda"), "not args.no_cuda"),
    "the user's flag for the CPU": (ARGS, MOVED_WHERE_CUDA.replace("use_cuda", "not args.cpu"), "not args.cpu"),
    "the user's number": (ARGS, MOVED_WHERE_CUDA.replace("use_cuda", "args.gpu is not None"), "args.gpu is not None"),
    "the type of the device": (
        ANY_DEVICE,
        MOVED_WHERE_CUDA.replace("use_cuda", 'device.type == "cuda"'),
        'device.type == "cuda"',
    ),
    "what CUDA answers": ("", MOVED_WHERE_CUDA.replace("use_cuda", "torch.cuda.is_available()"), "torch.cuda.is_available()"),
    "a condition about something else": (
        "import sys\nverbose = len(sys.argv) > 1\n",
        MOVED_WHERE_CUDA.replace("use_cuda", "verbose"),
        "torch.cuda.is_available()",
    ),
    "a tensor type": (
        "cuda = torch.cuda.is_available()\nTensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor\n",
        "for x, y in loader:\n    x = x.type(Tensor)\n",
        "torch.cuda.is_available()",
    ),
    "a move without condition beside one with": (
        ARGS,
        MOVED_WHERE_CUDA.replace("use_cuda", "args.gpu is not None") + "    y = y.cuda(args.gpu)\n",
        "True",
    ),
    "a CUDA device": ('device = torch.device("cuda:0")\n', TO_DEVICE, "True"),
    "a rank": ('import os\ndevice = int(os.environ["LOCAL_RANK"])\n', TO_DEVICE, "True"),
    "a formatted name": (ARGS + 'device = f"cuda:{args.gpu}"\n', TO_DEVICE, "True"),
}


@pytest.mark.parametrize(("start", "end", "value"), CONDITIONS.values(), ids=CONDITIONS)
def test_the_script_s_own_condition_is_used(start: str, end: str, value: str) -> None:
    before = start + "loader = DataLoader(data, batch_size=64)\n" + end

    rewrites(before, before.replace("batch_size=64)", f"batch_size=64, pin_memory={value})"))


NOT_BOUND = {
    "made before the device": "loader = DataLoader(data)\n" + ANY_DEVICE + TO_DEVICE,
    "made before the flag": ARGS + "loader = DataLoader(data)\nargs.cuda = not args.no_cuda and torch.cuda.is_available()\n"
    + MOVED_WHERE_CUDA.replace("use_cuda", "args.cuda"),
    "made for another device of that name": ANY_DEVICE
    + 'loader = DataLoader(data)\ndevice = torch.device("cuda:1" if torch.cuda.is_available() else "cpu")\n'
    + TO_DEVICE,
    "made in a function above the device": "def make():\n    return DataLoader(data)\n"
    + ANY_DEVICE
    + "loader = make()\n"
    + TO_DEVICE,
    "made in a function while the device is one of main()": "def make():\n    return DataLoader(data)\n"
    "def main():\n    device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
    "    for x, y in make():\n        x = x.to(device)\nmain()\n",
    "made in __init__ before the device": "class Trainer:\n    def __init__(self):\n        self.loader = DataLoader(data)\n"
    "        self.device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
    "    def train(self):\n        for x, y in self.loader:\n            x = x.to(self.device)\nTrainer().train()\n",
    "made in a method that may run before the device is known": "class Trainer:\n    def __init__(self):\n"
    "        self.device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
    "    def build(self):\n        self.loader = DataLoader(data)\n"
    "    def train(self):\n        for x, y in self.loader:\n            x = x.to(self.device)\nTrainer().train()\n",
    "made in a comprehension before the device": 'loaders = {k: DataLoader(data) for k in ["train", "val"]}\n'
    + ANY_DEVICE
    + TO_DEVICE.replace("loader", 'loaders["train"]'),
}


@pytest.mark.parametrize("before", NOT_BOUND.values(), ids=NOT_BOUND)
def test_a_name_is_not_used_where_the_loader_is(before: str) -> None:
    rewrites(before, before.replace("DataLoader(data)", "DataLoader(data, pin_memory=torch.cuda.is_available())"))


BOUND = {
    "made in a function below the device": ANY_DEVICE + "def make():\n    return DataLoader(data)\nloader = make()\n" + TO_DEVICE,
    "made in a function that is given the device": "def make(device):\n    return DataLoader(data)\n"
    + ANY_DEVICE
    + "loader = make(device)\n"
    + TO_DEVICE,
    "made in main(), moved in train()": "def train(loader, device):\n    for x, y in loader:\n        x = x.to(device)\n"
    'def main():\n    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
    "    loader = DataLoader(data)\n    train(loader, device)\nmain()\n",
    "made before the device changes": ANY_DEVICE + "loader = DataLoader(data)\n" + TO_DEVICE + 'device = torch.device("cpu")\n',
}


@pytest.mark.parametrize("before", BOUND.values(), ids=BOUND)
def test_the_device_is_used_where_the_loader_is(before: str) -> None:
    rewrites(before, before.replace("DataLoader(data)", 'DataLoader(data, pin_memory=device.type == "cuda")'))


def test_an_attribute_of_self_is_used_once_it_is_written() -> None:
    before = (
        "class Trainer:\n    def __init__(self):\n"
        '        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
        "        self.loader = DataLoader(data)\n"
        "    def train(self):\n        for x, y in self.loader:\n            x = x.to(self.device)\nTrainer().train()\n"
    )

    rewrites(before, before.replace("DataLoader(data)", 'DataLoader(data, pin_memory=self.device.type == "cuda")'))


def test_another_class_s_attribute_of_that_name_is_another() -> None:
    before = (
        "class Trainer:\n    def __init__(self):\n"
        '        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
        "    def train(self, loader):\n        for x, y in loader:\n            x = x.to(self.device)\n"
        "class Data:\n    def __init__(self):\n        self.device = torch.device('cpu')\n        self.loader = DataLoader(data)\n"
        "Trainer().train(Data().loader)\n"
    )

    rewrites(before, before.replace("DataLoader(data)", "DataLoader(data, pin_memory=torch.cuda.is_available())"))


def test_single_quotes_stay_single() -> None:
    start = "import torch\nfrom torch.utils.data import DataLoader\nfrom torchvision import datasets\n"
    start += "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
    before = start + "loader = DataLoader(datasets.MNIST('data'))\n" + TO_DEVICE

    check_rewrites(LoaderPin, before, before.replace("'data'))", "'data'), pin_memory=device.type == 'cuda')"))


class TestTorchIsNamedWhereTheLoaderIsMade:
    DATA = "from torchvision import datasets\ndata = datasets.MNIST('data')\n"
    REST = "loader = DataLoader(data)\nimport torch\ndevice = 'cuda:0' if torch.cuda.is_available() else 'cpu'\n" + TO_DEVICE

    def test_by_an_import_that_is_added(self) -> None:
        before = "from torch.utils.data import DataLoader\n" + self.DATA + self.REST
        after = "from torch.utils.data import DataLoader\nimport torch\n" + self.DATA + self.REST

        check_rewrites(
            LoaderPin,
            before,
            after.replace("DataLoader(data)", "DataLoader(data, pin_memory=torch.cuda.is_available())"),
        )

    def test_by_an_import_in_a_try(self) -> None:
        before = (
            "try:\n    import torch\nexcept ImportError:\n    raise SystemExit\n"
            "from torch.utils.data import DataLoader\n" + self.DATA + "def make():\n    return DataLoader(data)\n"
            "loader = make()\ndevice = 'cuda:0' if torch.cuda.is_available() else 'cpu'\n" + TO_DEVICE
        )

        check_rewrites(
            LoaderPin,
            before,
            before.replace("DataLoader(data)", "DataLoader(data, pin_memory=torch.cuda.is_available())"),
        )

    def test_by_the_name_that_is_imported(self) -> None:
        before = (
            "from torch import cuda\nfrom torch.utils.data import DataLoader\n" + self.DATA + "loader = DataLoader(data)\n"
            "device = 'cuda:0' if cuda.is_available() else 'cpu'\n" + TO_DEVICE
        )

        check_rewrites(
            LoaderPin, before, before.replace("DataLoader(data)", "DataLoader(data, pin_memory=cuda.is_available())")
        )

    def test_not_where_the_name_is_another_thing(self) -> None:
        code = "from torch.utils.data import DataLoader\n" + self.DATA + self.REST.replace("import torch", "import mine as torch")

        check_leaves(LoaderPin, code, "torch cannot be imported before the loader is made")

    def test_not_where_imports_come_later(self) -> None:
        code = (
            "def main():\n    from torch.utils.data import DataLoader\n    from torchvision import datasets\n"
            "    import argparse\n    args = argparse.ArgumentParser().parse_args()\n"
            "    for x, y in DataLoader(datasets.MNIST('data')):\n        x = x.to(args.device)\n"
            "import math\nmain()\n"
        )

        check_leaves(LoaderPin, code, "torch cannot be imported before the loader is made")


DECLINED = {
    "N1: the data set holds CUDA tensors": (
        "loader = DataLoader(TensorDataset(torch.randn(9, 3).cuda(), torch.zeros(9).cuda()))\n" + MOVED,
        "its data set already holds tensors on a device (line 8)",
    ),
    "N1: the data set may hold CUDA tensors": (
        ANY_DEVICE + "loader = DataLoader(TensorDataset(torch.randn(9, 3, device=device)))\n" + TO_DEVICE,
        "its data set already holds tensors on a device (line 9)",
    ),
    "N1: the data set is put on a device later": (
        "data.data = data.data.cuda()\nloader = DataLoader(data)\n" + MOVED,
        "its data set already holds tensors on a device (line 8)",
    ),
    "N1: an attribute of the data set is on a device": (
        "class Own(Dataset):\n    def __init__(self, x):\n        self.x = x\n"
        "loader = DataLoader(Own(torch.randn(9).cuda()))\n" + MOVED,
        "its data set already holds tensors on a device (line 11)",
    ),
    "N1: the data set moves its items": (
        "class Own(Dataset):\n    def __getitem__(self, i):\n        return torch.zeros(3).cuda(), i\n"
        "loader = DataLoader(Own())\n" + MOVED,
        "its data set moves tensors to a device itself (line 10)",
    ),
    "N1: the data set may move its items": (
        ANY_DEVICE + "class Own(Dataset):\n    def __getitem__(self, i):\n        return torch.zeros(3).to(device), i\n"
        "loader = DataLoader(Own())\n" + TO_DEVICE,
        "its data set moves tensors to a device itself (line 11)",
    ),
    "N1: a helper of the data set makes its items on a device": (
        ANY_DEVICE + "def make():\n    return torch.zeros(3, device=device)\n"
        "class Own(Dataset):\n    def __getitem__(self, i):\n        return make(), i\n"
        "loader = DataLoader(Own())\n" + TO_DEVICE,
        "its data set moves tensors to a device itself (line 10)",
    ),
    "N1: a transform moves the images": (
        'data = datasets.MNIST("data", transform=transforms.Lambda(lambda image: image.cuda()))\n'
        "loader = DataLoader(data)\n" + MOVED,
        "its data set moves tensors to a device itself (line 8)",
    ),
    "N1: a part of a data set that moves its items": (
        "class Own(Dataset):\n    def __getitem__(self, i):\n        return torch.zeros(3).cuda(), i\n"
        "loader = DataLoader(torch.utils.data.Subset(Own(), [1]))\n" + MOVED,
        "its data set moves tensors to a device itself (line 10)",
    ),
    "N1: collate_fn moves the batch": (
        "loader = DataLoader(data, collate_fn=lambda b: torch.stack([i[0] for i in b]).cuda())\n" + MOVED,
        "its collate_fn moves tensors to a device itself (line 8)",
    ),
    "N1: new tensors are made on a device": (
        'torch.set_default_device("cuda")\nloader = DataLoader(data)\n' + MOVED,
        "new tensors are made on a device (line 8), and only tensors on the host can be pinned",
    ),
    "N1: new tensors are of a type on a device": (
        "torch.set_default_tensor_type(torch.cuda.FloatTensor)\nloader = DataLoader(data)\n" + MOVED,
        "new tensors are made on a device (line 8), and only tensors on the host can be pinned",
    ),
    "N1: new tensors are made on a device in a block": (
        'with torch.device("cuda"):\n    data = TensorDataset(torch.zeros(9))\nloader = DataLoader(data)\n' + MOVED,
        "new tensors are made on a device (line 8), and only tensors on the host can be pinned",
    ),
    "N2: the batches stay on the host": (
        "loader = DataLoader(data)\nfor x, y in loader:\n    print(x.sum())\n",
        "its batches are not moved to a device in this file",
    ),
    "N2: the batches go to the CPU": (
        'device = torch.device("cpu")\nloader = DataLoader(data)\n' + TO_DEVICE,
        "its batches stay on the CPU",
    ),
    "N3: the batches go to MPS": (
        'device = torch.device("mps")\nloader = DataLoader(data)\n' + TO_DEVICE,
        "its batches are moved to another accelerator than CUDA",
    ),
    "N4: the batch is an object that cannot be pinned": (
        "class Batch:\n    def __init__(self, items):\n        self.x = torch.stack(items)\n"
        "loader = DataLoader(data, collate_fn=lambda b: Batch([i[0] for i in b]))\n"
        "for batch in loader:\n    x = batch.x.cuda()\n",
        "its collate_fn returns an object of class Batch, which has no pin_memory(): add one to have it pinned",
    ),
    "N5: the batches are cast on the host": (
        "loader = DataLoader(data)\nfor x, y in loader:\n    x = x.float().cuda()\n",
        "new tensors are made from its batches on the host, and those are moved (line 10)",
    ),
    "N5: the batches are scaled on the host": (
        "loader = DataLoader(data)\nfor x, y in loader:\n    x = (x - 0.5) * 2\n    x = x.cuda()\n",
        "new tensors are made from its batches on the host, and those are moved (line 11)",
    ),
    "N5: the batches are shuffled on the host": (
        "loader = DataLoader(data)\nfor x, y in loader:\n    x = x[torch.randperm(64)].cuda()\n",
        "new tensors are made from its batches on the host, and those are moved (line 10)",
    ),
    "N5: the batches are joined on the host": (
        "loader = DataLoader(data)\nfor x, y in loader:\n    x = torch.cat([x, x]).cuda()\n",
        "new tensors are made from its batches on the host, and those are moved (line 10)",
    ),
    "N6: the batches are sparse": (
        "loader = DataLoader(data, collate_fn=lambda b: torch.stack([i[0] for i in b]).to_sparse())\n"
        "for x in loader:\n    x = x.cuda()\n",
        "its collate_fn makes sparse tensors, which cannot be pinned (line 8)",
    ),
    "N6: the items are sparse": (
        "class Own(Dataset):\n    def __getitem__(self, i):\n        return torch.sparse_coo_tensor([[0], [1]], [1.0]), i\n"
        "loader = DataLoader(Own())\n" + MOVED,
        "its data set makes sparse tensors, which cannot be pinned (line 10)",
    ),
    "the user said so": (
        "loader = DataLoader(data, pin_memory=False)\n" + MOVED,
        "pin_memory is False there",
    ),
    "the user said so by position": (
        "loader = DataLoader(data, 64, True, None, None, 0, None, False)\n" + MOVED,
        "pin_memory is False there",
    ),
    "the user said so in a dictionary": (
        'kwargs = {"pin_memory": False}\nloader = DataLoader(data, **kwargs)\n' + MOVED,
        "pin_memory is False there",
    ),
    "a parameter has that default": (
        "def make(pin=False):\n    return DataLoader(data, pin_memory=pin)\nloader = make()\n" + MOVED,
        "pin_memory is False there",
    ),
    "arguments behind a star": (
        "rest = (data, 64)\nloader = DataLoader(*rest)\n" + MOVED,
        "its arguments are given with *",
    ),
    "arguments of an unknown caller": (
        "def train(**kwargs):\n    for x, y in DataLoader(data, **kwargs):\n        x = x.cuda()\n",
        "its arguments are given with **kwargs, and not all of its keys can be seen",
    ),
    "arguments in an unknown dictionary": (
        "def train(options):\n    for x, y in DataLoader(data, **options):\n        x = x.cuda()\n",
        "its arguments are given with **options: 'options' is a parameter of train(), which nothing in this file calls",
    ),
    "arguments read from a file": (
        "import json\noptions = json.load(open('options.json'))\nloader = DataLoader(data, **options)\n" + MOVED,
        "its arguments are given with **options, and not all of its keys can be seen",
    ),
    "a data set that is a parameter": (
        "def train(given):\n    for x, y in DataLoader(given):\n        x = x.cuda()\n",
        "its data set is not known: 'given' is a parameter of train(), which nothing in this file calls",
    ),
    "a class with an __init__ of its own": (
        "class Loader(DataLoader):\n    def __init__(self, data, batch_size, shuffle):\n"
        "        super().__init__(data, batch_size=batch_size, shuffle=shuffle)\nloader = Loader(data, 64, True)\n" + MOVED,
        "class Loader has an __init__ of its own: pin_memory belongs into its call in line 10",
    ),
    "a class with an __init__ that calls another": (
        "class Base(DataLoader):\n    def __init__(self, data, batch_size):\n"
        '        self.kwargs = {"dataset": data, "batch_size": batch_size}\n        super().__init__(**self.kwargs)\n'
        "class Loader(Base):\n    def __init__(self, batch_size):\n        super().__init__(data, batch_size)\n"
        "loader = Loader(64)\n" + MOVED,
        "class Loader has an __init__ of its own: pin_memory belongs into its call in line 11",
    ),
    "a class whose __init__ hides the call": (
        "class Loader(DataLoader):\n    def __init__(self, data):\n        DataLoader.__init__(self, data)\n"
        "loader = Loader(data)\n" + MOVED,
        "how class Loader calls DataLoader's __init__ is not seen",
    ),
    "functools.partial": (
        "from functools import partial\nmake = partial(DataLoader, batch_size=64)\nloader = make(data)\n" + MOVED,
        "what functools.partial makes is not followed: give it pin_memory there",
    ),
    "the device of another tensor": (
        "device = next(nn.Linear(3, 3).cuda().parameters()).device\nloader = DataLoader(data)\n" + TO_DEVICE,
        "the device its batches are moved to is not known: the device comes from '.device' of torch.nn.Parameter()",
    ),
    "a device that nothing gives": (
        "loader = DataLoader(data)\ndef train(device):\n    for x, y in loader:\n        x = x.to(device)\n",
        "the device its batches are moved to is not known: 'device' is a parameter of train(), which nothing in this file calls",
    ),
    "a device made of itself": (
        "class Trainer:\n    def __init__(self):\n        self.device = torch.device(self.device)\n"
        "    def train(self):\n        for x, y in DataLoader(data):\n            x = x.to(self.device)\nTrainer().train()\n",
        "the device its batches are moved to is not known: the device is never given a value in this file",
    ),
    "a framework": (
        "import lightning as L\nclass Model(L.LightningModule):\n    pass\n"
        "loader = DataLoader(data)\nL.Trainer().fit(Model(), loader)\n",
        "the training loop runs inside Lightning, which moves the batches itself",
    ),
}


@pytest.mark.parametrize(("code", "because"), DECLINED.values(), ids=DECLINED)
def test_declined_because_of(code: str, because: str) -> None:
    leaves(code, because)


PINNED_YET = {
    "N5: only views are moved": "for x, y in loader:\n    x = x.view(-1, 784).cuda()\n",
    "N5: an operation in place keeps the memory": "for x, y in loader:\n    x /= 255\n    x.mul_(2)\n    x = x.cuda()\n",
    "N5: one of the two is moved as it came": "for x, y in loader:\n    x = x.float().cuda()\n    y = y.cuda()\n",
    "N9: CUDA is in use already": "model = nn.Linear(3, 3).cuda()\n" + MOVED,
    "the loader is read by hand": "x, y = next(iter(loader))\nx = x.cuda()\n",
    "batches are fetched ahead": "batches = iter(loader)\nfor step in range(9):\n    x, y = next(batches)\n    x = x.cuda()\n",
    "the batch is moved in map()": "for batch in loader:\n    x, y = map(lambda t: t.cuda(), batch)\n",
    "the batch is spread into a helper": "def move(x, y):\n    return x.cuda(), y.cuda()\nfor batch in loader:\n    x, y = move(*batch)\n",
    "the batch is moved in the model": "class Model(nn.Module):\n    def forward(self, x):\n        x = x.cuda()\n        return x\n"
    "model = Model()\nfor x, y in loader:\n    model(x)\n",
}


@pytest.mark.parametrize("rest", PINNED_YET.values(), ids=PINNED_YET)
def test_pinned_although(rest: str) -> None:
    rewrites("loader = DataLoader(data)\n" + rest, "loader = DataLoader(data, pin_memory=True)\n" + rest)


PINNABLE = {
    "N4: the batch's class has pin_memory()": "class Batch:\n    def pin_memory(self):\n        return self\n"
    "loader = DataLoader(data, collate_fn=lambda b: Batch())\n",
    "N7: a named tuple": "from typing import NamedTuple\nclass Batch(NamedTuple):\n    x: torch.Tensor\n    y: torch.Tensor\n"
    "loader = DataLoader(data, collate_fn=lambda b: Batch(1, 2))\n",
    "the data set names the CPU": 'loader = DataLoader(TensorDataset(torch.zeros(9, device="cpu"), torch.zeros(9).to("cpu")))\n',
    "the data set casts": "class Own(Dataset):\n    def __getitem__(self, i):\n        return torch.zeros(3).to(torch.float16), i\n"
    "loader = DataLoader(Own())\n",
    "a data set of another file is moved by the script": "from mine import Mine\nloader = DataLoader(Mine())\n",
    "it is iterable": "class Own(torch.utils.data.IterableDataset):\n    def __iter__(self):\n        yield torch.zeros(3), 1\n"
    "loader = DataLoader(Own())\n",
    "it makes no batches": "loader = DataLoader(data, batch_size=None)\n",
}


@pytest.mark.parametrize("start", PINNABLE.values(), ids=PINNABLE)
def test_can_be_pinned_since(start: str) -> None:
    rewrites(start + MOVED, start.removesuffix(")\n") + ", pin_memory=True)\n" + MOVED)


ALREADY = {
    "by keyword": "loader = DataLoader(data, pin_memory=True)\n",
    "by position": "loader = DataLoader(data, 64, True, None, None, 0, None, True)\n",
    "by the user's choice": ARGS + "loader = DataLoader(data, pin_memory=args.pin)\n",
    "in a dictionary": 'loader = DataLoader(data, **{"pin_memory": True})\n',
    "by assignment": 'kwargs = {}\nkwargs["pin_memory"] = True\nloader = DataLoader(data, **kwargs)\n',
    "by update()": 'kwargs = {}\nkwargs.update({"pin_memory": True})\nloader = DataLoader(data, **kwargs)\n',
    "by update() with keywords": "kwargs = {}\nkwargs.update(pin_memory=True)\nloader = DataLoader(data, **kwargs)\n",
    "where CUDA is used": "kwargs = {'pin_memory': True} if torch.cuda.is_available() else {}\n"
    "loader = DataLoader(data, **kwargs)\n",
    "in a class's own __init__": "class Loader(DataLoader):\n    def __init__(self, data):\n"
    "        super().__init__(data, pin_memory=True)\nloader = Loader(data)\n",
    "in functools.partial": "from functools import partial\nmake = partial(DataLoader, pin_memory=True)\nloader = make(data)\n",
}


@pytest.mark.parametrize("start", ALREADY.values(), ids=ALREADY)
def test_nothing_is_said_of_a_loader_that_pins(start: str) -> None:
    check_silent(LoaderPin, HEAD + start + MOVED)


def test_nothing_is_said_of_another_library_s_loader() -> None:
    check_silent(LoaderPin, HEAD + "from torch_geometric.loader import DataLoader\nloader = DataLoader(data)\n" + MOVED)
