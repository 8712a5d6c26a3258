from __future__ import annotations

import pytest
from kit import check_leaves, check_rewrites, check_silent, run

from codemods.rules.h2d_non_blocking import H2dNonBlocking
from codemods.rules.loader_pin import LoaderPin

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
        """\
loader = DataLoader(
    data,
    batch_size=64,  # fits
)
""",
        """\
loader = DataLoader(
    data,
    batch_size=64,  # fits
    pin_memory=True,
)
""",
    ),
    "the dictionary given with **": (
        """\
kwargs = {"batch_size": 64}
loader = DataLoader(data, **kwargs)
""",
        """\
kwargs = {"batch_size": 64, "pin_memory": True}
loader = DataLoader(data, **kwargs)
""",
    ),
    "the quotes of the dictionary's keys": (
        """\
kwargs = {'batch_size': 64}
loader = DataLoader(data, **kwargs)
""",
        """\
kwargs = {'batch_size': 64, 'pin_memory': True}
loader = DataLoader(data, **kwargs)
""",
    ),
    "the dict() given with **": (
        """\
kwargs = dict(batch_size=64)
loader = DataLoader(data, **kwargs)
""",
        """\
kwargs = dict(batch_size=64, pin_memory=True)
loader = DataLoader(data, **kwargs)
""",
    ),
    "a dictionary that another is merged into": (
        """\
kwargs = {"batch_size": 64}
kwargs.update({"num_workers": 2})
loader = DataLoader(data, **kwargs)
""",
        """\
kwargs = {"batch_size": 64, "pin_memory": True}
kwargs.update({"num_workers": 2})
loader = DataLoader(data, **kwargs)
""",
    ),
    "a dictionary whose items are assigned": (
        """\
kwargs = {"batch_size": 64}
kwargs["num_workers"] = 2
loader = DataLoader(data, **kwargs)
""",
        """\
kwargs = {"batch_size": 64, "pin_memory": True}
kwargs["num_workers"] = 2
loader = DataLoader(data, **kwargs)
""",
    ),
    "a dictionary written into the call": (
        'loader = DataLoader(data, **{"batch_size": 64})\n',
        'loader = DataLoader(data, **{"batch_size": 64, "pin_memory": True})\n',
    ),
    "the call, where the dictionary is given to another call too": (
        """\
kwargs = {"train": False}
other = datasets.MNIST("data", **kwargs)
kwargs = {"batch_size": 64}
print(kwargs)
loader = DataLoader(data, **kwargs)
""",
        """\
kwargs = {"train": False}
other = datasets.MNIST("data", **kwargs)
kwargs = {"batch_size": 64}
print(kwargs)
loader = DataLoader(data, pin_memory=True, **kwargs)
""",
    ),
    "the call, where two dictionaries are joined": (
        """\
kwargs = {"batch_size": 64} | {"num_workers": 2}
loader = DataLoader(data, **kwargs)
""",
        """\
kwargs = {"batch_size": 64} | {"num_workers": 2}
loader = DataLoader(data, pin_memory=True, **kwargs)
""",
    ),
    "the call in a helper whose callers are seen": (
        """\
def make(data, **kwargs):
    return DataLoader(data, **kwargs)
loader = make(data, batch_size=64)
""",
        """\
def make(data, **kwargs):
    return DataLoader(data, pin_memory=True, **kwargs)
loader = make(data, batch_size=64)
""",
    ),
    "the call of a class that has no __init__ of its own": (
        """\
class Loader(DataLoader):
    pass
loader = Loader(data, 64)
""",
        """\
class Loader(DataLoader):
    pass
loader = Loader(data, 64, pin_memory=True)
""",
    ),
    "the call of an alias": (
        """\
DL = torch.utils.data.DataLoader
loader = DL(data)
""",
        """\
DL = torch.utils.data.DataLoader
loader = DL(data, pin_memory=True)
""",
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
        """\
if use_cuda:
    kwargs = {'num_workers': 1}
else:
    kwargs = {}
""",
        """\
if use_cuda:
    kwargs = {'num_workers': 1, 'pin_memory': True}
else:
    kwargs = {}
""",
    ),
    "what is merged where CUDA is used": (
        """\
kwargs = {'batch_size': 64}
if use_cuda:
    more = {'num_workers': 1}
    kwargs.update(more)
""",
        """\
kwargs = {'batch_size': 64}
if use_cuda:
    more = {'num_workers': 1, 'pin_memory': True}
    kwargs.update(more)
""",
    ),
}


@pytest.mark.parametrize(("before", "after"), CONDITIONAL_DICTIONARIES.values(), ids=CONDITIONAL_DICTIONARIES)
def test_a_dictionary_for_cuda_has_the_argument_in(before: str, after: str) -> None:
    start = "use_cuda = torch.cuda.is_available()\n"
    loader = "loader = DataLoader(data, **kwargs)\n"

    rewrites(start + before + loader + MOVED_WHERE_CUDA, start + after + loader + MOVED_WHERE_CUDA)


def test_loaders_that_share_a_dictionary_share_the_argument() -> None:
    rest = (
        """\
loader = DataLoader(data, **kwargs)
other = DataLoader(data, **kwargs)
"""
        + MOVED
    )
    rest += MOVED.replace("loader", "other")

    rewrites('kwargs = {"batch_size": 64}\n' + rest, 'kwargs = {"batch_size": 64, "pin_memory": True}\n' + rest)


def test_a_dictionary_is_not_touched_where_another_loader_has_the_argument_already() -> None:
    # In the dictionary it would be given twice to the other one: a TypeError.
    rest = "other = DataLoader(data, pin_memory=True, **kwargs)\n" + MOVED + MOVED.replace("loader", "other")

    rewrites(
        """\
kwargs = {"batch_size": 64}
loader = DataLoader(data, **kwargs)
"""
        + rest,
        """\
kwargs = {"batch_size": 64}
loader = DataLoader(data, pin_memory=True, **kwargs)
"""
        + rest,
    )


@pytest.mark.parametrize("copy", ["{**kwargs, 'shuffle': True}", "(kwargs | {'shuffle': True})", "kwargs.copy()"])
def test_a_dictionary_is_not_touched_where_a_copy_of_it_reaches_a_loader_with_the_argument(copy: str) -> None:
    # In the dictionary, and so in the copy, it would be given twice to the other loader: a TypeError.
    kwargs = 'kwargs = {"batch_size": 64}\n'
    rest = f"other = DataLoader(data, pin_memory=True, **{copy})\n" + MOVED + MOVED.replace("loader", "other")
    here = "loader = DataLoader(data, **kwargs)\n"
    rewrites(kwargs + here + rest, kwargs + here.replace("**", "pin_memory=True, **") + rest)


def test_a_dictionary_is_not_touched_where_another_loader_s_batches_stay_on_the_host() -> None:
    rest = (
        "other = DataLoader(data, **kwargs)\n"
        + MOVED
        + """\
for x, y in other:
    print(x)
"""
    )

    rewrites(
        """\
kwargs = {"batch_size": 64}
loader = DataLoader(data, **kwargs)
"""
        + rest,
        """\
kwargs = {"batch_size": 64}
loader = DataLoader(data, pin_memory=True, **kwargs)
"""
        + rest,
    )


AT_THE_CALL = {
    "one of two dictionaries is given, whatever CUDA is": (
        """\
import sys
if len(sys.argv) > 1:
    kwargs = {'num_workers': 1}
else:
    kwargs = {'num_workers': 2}
""",
        "True",
        MOVED,
    ),
    "the dictionary may be a parameter of unknown callers' too": (
        """\
def pick(**kwargs):
    return kwargs
kwargs = {'num_workers': 1}
if len(data) > 9:
    kwargs = pick(num_workers=2)
""",
        "True",
        MOVED,
    ),
    "what is merged is given to another call too": (
        """\
use_cuda = torch.cuda.is_available()
kwargs = {'batch_size': 64}
if use_cuda:
    more = {'num_workers': 1}
    kwargs.update(more)
    print(more)
""",
        "",
        MOVED_WHERE_CUDA,
    ),
    "what is merged is merged into another dictionary too": (
        """\
use_cuda = torch.cuda.is_available()
kwargs = {'batch_size': 64}
other = {}
if use_cuda:
    more = {'num_workers': 1}
    kwargs.update(more)
    other.update(more)
print(**other)
""",
        "",
        MOVED_WHERE_CUDA,
    ),
    "what is merged is merged into another loader's dictionary, whose batches stay on the host": (
        """\
use_cuda = torch.cuda.is_available()
kwargs = {'batch_size': 64}
other = {}
if use_cuda:
    more = {'num_workers': 1}
    kwargs.update(more)
    other.update(more)
DataLoader(data, **other)
""",
        "",
        MOVED_WHERE_CUDA,
    ),
}


@pytest.mark.parametrize(("start", "value", "end"), AT_THE_CALL.values(), ids=AT_THE_CALL)
def test_a_dictionary_is_not_for_every_loader_where(start: str, value: str, end: str) -> None:
    before = start + "loader = DataLoader(data, **kwargs)\n" + end
    if value:
        rewrites(
            before, before.replace("DataLoader(data, **kwargs)", f"DataLoader(data, pin_memory={value}, **kwargs)")
        )
    else:
        # Into the loader's own dictionary, not into the one that is merged.
        rewrites(before, before.replace("'batch_size': 64}", "'batch_size': 64, 'pin_memory': use_cuda}"))


def test_loaders_that_share_a_dictionary_and_differ_in_their_condition_have_it_at_the_call() -> None:
    before = (
        ANY_DEVICE
        + """\
kwargs = {"batch_size": 64}
loader = DataLoader(data, **kwargs)
other = DataLoader(data, **kwargs)
"""
        + TO_DEVICE
        + MOVED.replace("loader", "other")
    )
    after = before.replace("loader = DataLoader(data,", 'loader = DataLoader(data, pin_memory=device.type == "cuda",')

    rewrites(before, after.replace("other = DataLoader(data,", "other = DataLoader(data, pin_memory=True,"))


CONDITIONS = {
    "a torch.device": (ANY_DEVICE, TO_DEVICE, 'device.type == "cuda"'),
    "a torch.device with an index": (
        'device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")\n',
        TO_DEVICE,
        'device.type == "cuda"',
    ),
    "a torch.device of the user's choice": (
        ARGS + "device = torch.device(args.device)\n",
        TO_DEVICE,
        'device.type == "cuda"',
    ),
    "a torch.device with a formatted name": (
        ARGS + 'device = torch.device("cuda:{}".format(args.gpu) if torch.cuda.is_available() else "cpu")\n',
        TO_DEVICE,
        'device.type == "cuda"',
    ),
    "a torch.device from a function": (
        """\
def find():
    if torch.cuda.is_available():
        return torch.device('cuda')
    return torch.device('cpu')
device = find()
print("found", "it", "there")
""",
        TO_DEVICE,
        'device.type == "cuda"',
    ),
    "the name of a device": (
        'device = "cuda" if torch.cuda.is_available() else "cpu"\n',
        TO_DEVICE,
        'device == "cuda"',
    ),
    "the name of a device with an index": (
        'device = "cuda:0" if torch.cuda.is_available() else "cpu"\n',
        TO_DEVICE,
        'device != "cpu"',
    ),
    "the name of one of several devices": (
        'device = "cuda:0" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"\n',
        TO_DEVICE,
        'torch.device(device).type == "cuda"',
    ),
    "the number of a device": (
        'device = 0 if torch.cuda.is_available() else "cpu"\n',
        TO_DEVICE,
        "torch.cuda.is_available()",
    ),
    "the user's name of a device": (ARGS + "device = args.device\n", TO_DEVICE, "torch.cuda.is_available()"),
    "whatever accelerator there is": (
        """\
device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device('cpu')
print("on", "the", "device")
""",
        TO_DEVICE,
        'device.type == "cuda"',
    ),
    "the name of whatever accelerator there is": (
        'device = torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"\n',
        TO_DEVICE,
        'device == "cuda"',
    ),
    "one of three": (
        """\
if torch.cuda.is_available():
    device = "cuda"
elif torch.backends.mps.is_available():
    device = "mps"
else:
    device = "cpu"
""",
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
        """\
for x, y in loader:
    x = x.cuda() if use_cuda else x
""",
        "use_cuda",
    ),
    "a flag that the code is not under": (
        "use_cuda = torch.cuda.is_available()\n",
        """\
for x, y in loader:
    if not use_cuda:
        pass
    else:
        x = x.cuda()
""",
        "use_cuda",
    ),
    "the user's flag": (ARGS, MOVED_WHERE_CUDA.replace("use_cuda", "args.cuda"), "args.cuda"),
    "the user's flag, corrected": (
        ARGS + "args.cuda = not args.no_cuda and torch.cuda.is_available()\n",
        MOVED_WHERE_CUDA.replace("use_cuda", "args.cuda"),
        "args.cuda",
    ),
    "the user's flag against CUDA": (
        ARGS,
        MOVED_WHERE_CUDA.replace("use_cuda", "not args.no_cuda"),
        "not args.no_cuda",
    ),
    "the user's flag for the CPU": (ARGS, MOVED_WHERE_CUDA.replace("use_cuda", "not args.cpu"), "not args.cpu"),
    "the user's number": (ARGS, MOVED_WHERE_CUDA.replace("use_cuda", "args.gpu is not None"), "args.gpu is not None"),
    "the type of the device": (
        ANY_DEVICE,
        MOVED_WHERE_CUDA.replace("use_cuda", 'device.type == "cuda"'),
        'device.type == "cuda"',
    ),
    "what CUDA answers": (
        "",
        MOVED_WHERE_CUDA.replace("use_cuda", "torch.cuda.is_available()"),
        "torch.cuda.is_available()",
    ),
    "a condition about something else": (
        """\
import sys
verbose = len(sys.argv) > 1
""",
        MOVED_WHERE_CUDA.replace("use_cuda", "verbose"),
        "torch.cuda.is_available()",
    ),
    "a tensor type": (
        """\
cuda = torch.cuda.is_available()
Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor
""",
        """\
for x, y in loader:
    x = x.type(Tensor)
""",
        "torch.cuda.is_available()",
    ),
    "a move without condition beside one with": (
        ARGS,
        MOVED_WHERE_CUDA.replace("use_cuda", "args.gpu is not None") + "    y = y.cuda(args.gpu)\n",
        "True",
    ),
    "a CUDA device": ('device = torch.device("cuda:0")\n', TO_DEVICE, "True"),
    "a rank": (
        """\
import os
device = int(os.environ["LOCAL_RANK"])
""",
        TO_DEVICE,
        "True",
    ),
    "a formatted name": (ARGS + 'device = f"cuda:{args.gpu}"\n', TO_DEVICE, "True"),
}


@pytest.mark.parametrize(("start", "end", "value"), CONDITIONS.values(), ids=CONDITIONS)
def test_the_script_s_own_condition_is_used(start: str, end: str, value: str) -> None:
    before = start + "loader = DataLoader(data, batch_size=64)\n" + end

    rewrites(before, before.replace("batch_size=64)", f"batch_size=64, pin_memory={value})"))


NOT_BOUND = {
    "made before the device": "loader = DataLoader(data)\n" + ANY_DEVICE + TO_DEVICE,
    "made before the flag": ARGS
    + """\
loader = DataLoader(data)
args.cuda = not args.no_cuda and torch.cuda.is_available()
"""
    + MOVED_WHERE_CUDA.replace("use_cuda", "args.cuda"),
    "made for another device of that name": ANY_DEVICE
    + """\
loader = DataLoader(data)
device = torch.device("cuda:1" if torch.cuda.is_available() else "cpu")
"""
    + TO_DEVICE,
    "made in a function above the device": """\
def make():
    return DataLoader(data)
"""
    + ANY_DEVICE
    + "loader = make()\n"
    + TO_DEVICE,
    "made in a function while the device is one of main()": """\
def make():
    return DataLoader(data)
def main():
    device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
    for x, y in make():
        x = x.to(device)
main()
""",
    "made in __init__ before the device": """\
class Trainer:
    def __init__(self):
        self.loader = DataLoader(data)
        self.device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
    def train(self):
        for x, y in self.loader:
            x = x.to(self.device)
Trainer().train()
""",
    "made in a method that runs before the device is known": """\
class Trainer:
    def __init__(self):
        self.build()
        self.device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
    def build(self):
        self.loader = DataLoader(data)
    def train(self):
        for x, y in self.loader:
            x = x.to(self.device)
Trainer().train()
""",
    "made in a comprehension before the device": 'loaders = {k: DataLoader(data) for k in ["train", "val"]}\n'
    + ANY_DEVICE
    + TO_DEVICE.replace("loader", 'loaders["train"]'),
}


NOT_BOUND |= {
    "made where only one way binds the device": "if len(data) > 9:\n    "
    + ANY_DEVICE
    + "loader = DataLoader(data)\n"
    + TO_DEVICE,
    "made while the device is None": "device = None\nloader = DataLoader(data)\n" + ANY_DEVICE + TO_DEVICE,
    "made in a function while the device may be None": """\
device = None
def make():
    return DataLoader(data)
def main():
    global device
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    for x, y in make():
        x = x.to(device)
main()
""",
    "made in a comprehension over something of that name": ANY_DEVICE
    + "loader = [DataLoader(data) for device in range(3)][0]\n"
    + TO_DEVICE,
    "made in a lambda with a parameter of that name": ANY_DEVICE
    + "make = lambda device: DataLoader(data)\nloader = make(1)\n"
    + TO_DEVICE,
    "made in a class with an attribute of that name": ANY_DEVICE
    + "class Settings:\n    device = 1\n    loader = DataLoader(data)\n"
    + TO_DEVICE.replace("loader", "Settings.loader"),
    "moved in a helper that is called where CUDA is used": """\
use_cuda = torch.cuda.is_available()
def put(x):
    return x.cuda()
for x, y in DataLoader(data):
    if use_cuda:
        x = put(x)
""",
    "moved in a helper that returns early where CUDA is not used": """\
use_cuda = torch.cuda.is_available()
def put(x):
    if not use_cuda:
        return x
    return x.cuda()
for x, y in DataLoader(data):
    x = put(x)
""",
}


@pytest.mark.parametrize("before", NOT_BOUND.values(), ids=NOT_BOUND)
def test_a_name_is_not_used_where_the_loader_is(before: str) -> None:
    rewrites(before, before.replace("DataLoader(data)", "DataLoader(data, pin_memory=torch.cuda.is_available())"))


BOUND = {
    "made in a function below the device": ANY_DEVICE
    + """\
def make():
    return DataLoader(data)
loader = make()
"""
    + TO_DEVICE,
    "made in a function that is given the device": """\
def make(device):
    return DataLoader(data)
"""
    + ANY_DEVICE
    + "loader = make(device)\n"
    + TO_DEVICE,
    "made in main(), moved in train()": """\
def train(loader, device):
    for x, y in loader:
        x = x.to(device)
def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(data)
    train(loader, device)
main()
""",
    "made before the device changes": ANY_DEVICE
    + "loader = DataLoader(data)\n"
    + TO_DEVICE
    + 'device = torch.device("cpu")\n',
}


@pytest.mark.parametrize("before", BOUND.values(), ids=BOUND)
def test_the_device_is_used_where_the_loader_is(before: str) -> None:
    rewrites(before, before.replace("DataLoader(data)", 'DataLoader(data, pin_memory=device.type == "cuda")'))


def test_an_attribute_of_self_is_used_once_it_is_written() -> None:
    before = """\
class Trainer:
    def __init__(self):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.loader = DataLoader(data)
    def train(self):
        for x, y in self.loader:
            x = x.to(self.device)
Trainer().train()
"""

    rewrites(before, before.replace("DataLoader(data)", 'DataLoader(data, pin_memory=self.device.type == "cuda")'))


def test_another_class_s_attribute_of_that_name_is_another() -> None:
    before = """\
class Trainer:
    def __init__(self):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    def train(self, loader):
        for x, y in loader:
            x = x.to(self.device)
class Data:
    def __init__(self):
        self.device = torch.device('cpu')
        self.loader = DataLoader(data)
Trainer().train(Data().loader)
"""

    rewrites(before, before.replace("DataLoader(data)", "DataLoader(data, pin_memory=torch.cuda.is_available())"))


def test_single_quotes_stay_single() -> None:
    start = """\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets
"""
    start += "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
    before = start + "loader = DataLoader(datasets.MNIST('data'))\n" + TO_DEVICE

    check_rewrites(LoaderPin, before, before.replace("'data'))", "'data'), pin_memory=device.type == 'cuda')"))


class TestTorchIsNamedWhereTheLoaderIsMade:
    DATA = """\
from torchvision import datasets
data = datasets.MNIST('data')
"""
    REST = (
        """\
loader = DataLoader(data)
import torch
device = 'cuda:0' if torch.cuda.is_available() else 'cpu'
"""
        + TO_DEVICE
    )

    def test_by_an_import_that_is_added(self) -> None:
        before = "from torch.utils.data import DataLoader\n" + self.DATA + self.REST
        after = (
            """\
from torch.utils.data import DataLoader
import torch
"""
            + self.DATA
            + self.REST
        )

        check_rewrites(
            LoaderPin,
            before,
            after.replace("DataLoader(data)", "DataLoader(data, pin_memory=torch.cuda.is_available())"),
        )

    def test_by_an_import_in_a_try(self) -> None:
        before = (
            """\
try:
    import torch
except ImportError:
    raise SystemExit
from torch.utils.data import DataLoader
"""
            + self.DATA
            + """\
def make():
    return DataLoader(data)
loader = make()
device = 'cuda:0' if torch.cuda.is_available() else 'cpu'
"""
            + TO_DEVICE
        )

        check_rewrites(
            LoaderPin,
            before,
            before.replace("DataLoader(data)", "DataLoader(data, pin_memory=torch.cuda.is_available())"),
        )

    def test_by_the_name_that_is_imported(self) -> None:
        before = (
            """\
from torch import cuda
from torch.utils.data import DataLoader
"""
            + self.DATA
            + """\
loader = DataLoader(data)
device = 'cuda:0' if cuda.is_available() else 'cpu'
"""
            + TO_DEVICE
        )

        check_rewrites(
            LoaderPin, before, before.replace("DataLoader(data)", "DataLoader(data, pin_memory=cuda.is_available())")
        )

    @pytest.mark.parametrize("first", ["", "    global torch\n"])
    def test_not_where_the_function_binds_the_name_itself(self, first: str) -> None:
        code = f"""\
from torch.utils.data import DataLoader
from torchvision import datasets
import argparse

def main():
{first}    args = argparse.ArgumentParser().parse_args()
    for x, y in DataLoader(datasets.MNIST('data')):
        x = x.to(args.device)
    import torch
    torch.save(x, 'x')

main()
"""

        check_leaves(LoaderPin, code, "torch cannot be imported before the loader is made")

    def test_not_where_the_name_is_another_thing(self) -> None:
        code = (
            "from torch.utils.data import DataLoader\n"
            + self.DATA
            + self.REST.replace("import torch", "import mine as torch")
        )

        check_leaves(LoaderPin, code, "torch cannot be imported before the loader is made")

    def test_not_where_imports_come_later(self) -> None:
        code = """\
def main():
    from torch.utils.data import DataLoader
    from torchvision import datasets
    import argparse
    args = argparse.ArgumentParser().parse_args()
    for x, y in DataLoader(datasets.MNIST('data')):
        x = x.to(args.device)
import math
main()
"""

        check_leaves(LoaderPin, code, "torch cannot be imported before the loader is made")


DECLINED = {
    "N1: the data set holds CUDA tensors": (
        "loader = DataLoader(TensorDataset(torch.randn(9, 3).cuda(), torch.zeros(9).cuda()))\n" + MOVED,
        "its data set already holds tensors on a device (line 8)",
    ),
    "N1: the data set holds tensors that were moved one after the other": (
        "loader = DataLoader(TensorDataset(*(x.cuda() for x in torch.utils.data.default_collate(list(data)))))\n"
        + MOVED,
        "its data set already holds tensors on a device (line 8)",
    ),
    "N1: what the data set holds was moved, whatever it is": (
        "x = load()\nx = x.cuda()\nloader = DataLoader(TensorDataset(x))\n" + MOVED,
        "its data set already holds tensors on a device (line 9)",
    ),
    "N1: what the data set holds is moved there, whatever it is": (
        "loader = DataLoader(TensorDataset(load().cuda(), torch.zeros(9)))\n" + MOVED,
        "its data set already holds tensors on a device (line 8)",
    ),
    "N1: one of two data sets that are joined may hold CUDA tensors": (
        "loader = DataLoader(data + TensorDataset(torch.zeros(9, 3).cuda()))\n" + MOVED,
        "its data set already holds tensors on a device (line 8)",
    ),
    "N1: the data set may hold CUDA tensors": (
        ANY_DEVICE + "loader = DataLoader(TensorDataset(torch.randn(9, 3, device=device)))\n" + TO_DEVICE,
        "its data set already holds tensors on a device (line 9)",
    ),
    "N1: the data set is put on a device later": (
        """\
data.data = data.data.cuda()
loader = DataLoader(data)
"""
        + MOVED,
        "its data set already holds tensors on a device (line 8)",
    ),
    "N1: an attribute of the data set is on a device": (
        """\
class Own(Dataset):
    def __init__(self, x):
        self.x = x
loader = DataLoader(Own(torch.randn(9).cuda()))
"""
        + MOVED,
        "its data set already holds tensors on a device (line 11)",
    ),
    "N1: the data set moves its items": (
        """\
class Own(Dataset):
    def __getitem__(self, i):
        return torch.zeros(3).cuda(), i
loader = DataLoader(Own())
"""
        + MOVED,
        "its data set moves tensors to a device itself (line 10)",
    ),
    "N1: the data set may move its items": (
        ANY_DEVICE
        + """\
class Own(Dataset):
    def __getitem__(self, i):
        return torch.zeros(3).to(device), i
loader = DataLoader(Own())
"""
        + TO_DEVICE,
        "its data set moves tensors to a device itself (line 11)",
    ),
    "N1: a helper of the data set makes its items on a device": (
        ANY_DEVICE
        + """\
def make():
    return torch.zeros(3, device=device)
class Own(Dataset):
    def __getitem__(self, i):
        return make(), i
loader = DataLoader(Own())
"""
        + TO_DEVICE,
        "its data set moves tensors to a device itself (line 10)",
    ),
    "N1: a transform moves the images": (
        """\
data = datasets.MNIST("data", transform=transforms.Lambda(lambda image: image.cuda()))
loader = DataLoader(data)
"""
        + MOVED,
        "its data set moves tensors to a device itself (line 8)",
    ),
    "N1: a part of a data set that moves its items": (
        """\
class Own(Dataset):
    def __getitem__(self, i):
        return torch.zeros(3).cuda(), i
loader = DataLoader(torch.utils.data.Subset(Own(), [1]))
"""
        + MOVED,
        "its data set moves tensors to a device itself (line 10)",
    ),
    "N1: a list of CUDA tensors": (
        "loader = DataLoader([torch.zeros(3).cuda(), torch.ones(3).cuda()])\n" + MOVED,
        "its data set already holds tensors on a device (line 8)",
    ),
    "N1: collate_fn moves the batch": (
        "loader = DataLoader(data, collate_fn=lambda b: torch.stack([i[0] for i in b]).cuda())\n" + MOVED,
        "its collate_fn moves tensors to a device itself (line 8)",
    ),
    "N1: new tensors are made on a device": (
        """\
torch.set_default_device("cuda")
loader = DataLoader(data)
"""
        + MOVED,
        "new tensors are made on a device (line 8), and only tensors on the host can be pinned",
    ),
    "N1: new tensors are of a type on a device": (
        """\
torch.set_default_tensor_type(torch.cuda.FloatTensor)
loader = DataLoader(data)
"""
        + MOVED,
        "new tensors are made on a device (line 8), and only tensors on the host can be pinned",
    ),
    "N1: new tensors are made on a device in a block": (
        """\
with torch.device("cuda"):
    data = TensorDataset(torch.zeros(9))
loader = DataLoader(data)
"""
        + MOVED,
        "new tensors are made on a device (line 8), and only tensors on the host can be pinned",
    ),
    "N2: the batches stay on the host": (
        """\
loader = DataLoader(data)
for x, y in loader:
    print(x.sum())
""",
        "its batches are not moved to a device in this file",
    ),
    "N2: the batches go to the CPU": (
        """\
device = torch.device("cpu")
loader = DataLoader(data)
"""
        + TO_DEVICE,
        "its batches stay on the CPU",
    ),
    "N3: the batches go to MPS": (
        """\
device = torch.device("mps")
loader = DataLoader(data)
"""
        + TO_DEVICE,
        "its batches are moved to another accelerator than CUDA",
    ),
    "N4: the batch is an object that cannot be pinned": (
        """\
class Batch:
    def __init__(self, items):
        self.x = torch.stack(items)
loader = DataLoader(data, collate_fn=lambda b: Batch([i[0] for i in b]))
for batch in loader:
    x = batch.x.cuda()
""",
        "its collate_fn returns an object of class Batch, which has no method pin_memory()",
    ),
    "N5: the batches are cast on the host": (
        """\
loader = DataLoader(data)
for x, y in loader:
    x = x.int().cuda()
""",
        "new tensors are made from its batches on the host, and those are moved (line 10)",
    ),
    "N5: the batches are scaled on the host": (
        """\
loader = DataLoader(data)
for x, y in loader:
    x = (x - 0.5) * 2
    x = x.cuda()
""",
        "new tensors are made from its batches on the host, and those are moved (line 11)",
    ),
    "N5: the batches are shuffled on the host": (
        """\
loader = DataLoader(data)
for x, y in loader:
    x = x[torch.randperm(64)].cuda()
""",
        "new tensors are made from its batches on the host, and those are moved (line 10)",
    ),
    "N5: the batches are joined on the host": (
        """\
loader = DataLoader(data)
for x, y in loader:
    x = torch.cat([x, x]).cuda()
""",
        "new tensors are made from its batches on the host, and those are moved (line 10)",
    ),
    "N6: the batches are sparse": (
        """\
loader = DataLoader(data, collate_fn=lambda b: torch.stack([i[0] for i in b]).to_sparse())
for x in loader:
    x = x.cuda()
""",
        "its collate_fn makes sparse tensors, which cannot be pinned (line 8)",
    ),
    "N6: the items are sparse": (
        """\
class Own(Dataset):
    def __getitem__(self, i):
        return torch.sparse_coo_tensor([[0], [1]], [1.0]), i
loader = DataLoader(Own())
"""
        + MOVED,
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
        """\
kwargs = {"pin_memory": False}
loader = DataLoader(data, **kwargs)
"""
        + MOVED,
        "pin_memory is False there",
    ),
    "a parameter has that default": (
        """\
def make(pin=False):
    return DataLoader(data, pin_memory=pin)
loader = make()
"""
        + MOVED,
        "pin_memory is False there",
    ),
    "arguments behind a star": (
        """\
rest = (data, 64)
loader = DataLoader(*rest)
"""
        + MOVED,
        "its arguments are given with *",
    ),
    "arguments of an unknown caller": (
        """\
def train(**kwargs):
    for x, y in DataLoader(data, **kwargs):
        x = x.cuda()
""",
        "its arguments are given with **kwargs, and not all of its keys can be seen",
    ),
    "arguments in an unknown dictionary": (
        """\
def train(options):
    for x, y in DataLoader(data, **options):
        x = x.cuda()
""",
        "its arguments are given with **options: 'options' is a parameter of train(), which nothing in this file calls",
    ),
    "arguments read from a file": (
        """\
import json
options = json.load(open('options.json'))
loader = DataLoader(data, **options)
"""
        + MOVED,
        "its arguments are given with **options, and not all of its keys can be seen",
    ),
    "a data set that is a parameter": (
        """\
def train(given):
    for x, y in DataLoader(given):
        x = x.cuda()
""",
        "its data set is not known: 'given' is a parameter of train(), which nothing in this file calls",
    ),
    "a class with an __init__ of its own": (
        """\
class Loader(DataLoader):
    def __init__(self, data, batch_size, shuffle):
        super().__init__(data, batch_size=batch_size, shuffle=shuffle)
loader = Loader(data, 64, True)
"""
        + MOVED,
        "class Loader has an __init__ of its own: pin_memory belongs into its call in line 10",
    ),
    "a class with an __init__ that calls another": (
        """\
class Base(DataLoader):
    def __init__(self, data, batch_size):
        self.kwargs = {"dataset": data, "batch_size": batch_size}
        super().__init__(**self.kwargs)
class Loader(Base):
    def __init__(self, batch_size):
        super().__init__(data, batch_size)
loader = Loader(64)
"""
        + MOVED,
        "class Loader has an __init__ of its own: pin_memory belongs into its call in line 11",
    ),
    "a class whose __init__ hides the call": (
        """\
class Loader(DataLoader):
    def __init__(self, data):
        DataLoader.__init__(self, data)
loader = Loader(data)
"""
        + MOVED,
        "how class Loader calls DataLoader's __init__ is not seen",
    ),
    "a class that makes its batches itself": (
        """\
class Loader(DataLoader):
    def __init__(self, data):
        self.rows = data
    def __iter__(self):
        yield from self.rows
loader = Loader(data)
"""
        + MOVED,
        "class Loader has an __iter__ of its own, which arguments of DataLoader may not reach",
    ),
    "functools.partial": (
        """\
from functools import partial
make = partial(DataLoader, batch_size=64)
loader = make(data)
"""
        + MOVED,
        "what functools.partial makes is not followed: give it pin_memory there",
    ),
    "the device of another tensor": (
        """\
device = next(nn.Linear(3, 3).parameters()).device
loader = DataLoader(data)
"""
        + TO_DEVICE,
        "the device its batches are moved to is not known: it is that of a model or layer, which is not seen to be moved itself",
    ),
    "a device that nothing gives": (
        """\
loader = DataLoader(data)
def train(device):
    for x, y in loader:
        x = x.to(device)
""",
        (
            "the device its batches are moved to is not known:"
            " 'device' is a parameter of train(), which nothing in this file calls"
        ),
    ),
    "a device made of itself": (
        """\
class Trainer:
    def __init__(self):
        self.device = torch.device(self.device)
    def train(self):
        for x, y in DataLoader(data):
            x = x.to(self.device)
Trainer().train()
""",
        "the device its batches are moved to is not known: the device is never given a value",
    ),
    "a framework beside a loop of the script's own": (
        """\
import lightning as L
class Model(L.LightningModule):
    pass
loader = DataLoader(data)
L.Trainer().fit(Model(), loader)
def test(device):
    for x, y in loader:
        x = x.to(device)
""",
        (
            "the device its batches are moved to is not known:"
            " 'device' is a parameter of test(), which nothing in this file calls"
        ),
    ),
    "code that is not read": (
        """\
from somewhere import train
loader = DataLoader(data)
train(loader)
""",
        "train() reads it, in code that is not followed (line 10)",
    ),
    "a framework": (
        """\
import lightning as L
class Model(L.LightningModule):
    pass
loader = DataLoader(data)
L.Trainer().fit(Model(), loader)
""",
        "Lightning moves its batches: give it pin_memory=True if it moves them to a GPU",
    ),
}


@pytest.mark.parametrize(("code", "because"), DECLINED.values(), ids=DECLINED)
def test_declined_because_of(code: str, because: str) -> None:
    leaves(code, because)


PINNED_YET = {
    "the model is perhaps copied to several devices": """\
parser = argparse.ArgumentParser()
parser.add_argument("--dp", action="store_true")
args = parser.parse_args()
model = nn.Linear(784, 10).cuda()
if args.dp:
    model = nn.DataParallel(model)
for x, y in loader:
    model(x.cuda())
""",
    "a function is mapped over the batch": """\
for batch in loader:
    x, y = map(lambda each: each.cuda(), batch)
""",
    "N5: only views are moved": """\
for x, y in loader:
    x = x.view(-1, 784).cuda()
""",
    "N5: an operation in place keeps the memory": """\
for x, y in loader:
    x /= 255
    x.mul_(2)
    x = x.cuda()
""",
    "N5: the cast can follow the copy": """\
for x, y in loader:
    x = x.float().cuda()
""",
    "the device is that of a model": """\
model = nn.Linear(3, 3).cuda()
for x, y in loader:
    x = x.to(next(model.parameters()).device)
""",
    "N5: the cast may change nothing": """\
for x, y in loader:
    y = y.long().cuda()
""",
    "N5: the cast may change nothing, and stands before": """\
for x, y in loader:
    x = x.float()
    x = x.cuda()
""",
    "N5: one of the two is moved as it came": """\
for x, y in loader:
    x = x.half().cuda()
    y = y.cuda()
""",
    "N9: CUDA is in use already": "model = nn.Linear(3, 3).cuda()\n" + MOVED,
    "the loader is read by hand": """\
for step in range(9):
    x, y = next(iter(loader))
    x = x.cuda()
""",
    "the first batch of each epoch": """\
for epoch in range(9):
    for x, y in loader:
        x = x.cuda()
        break
""",
    "the first batch that is good": """\
for x, y in loader:
    if x.isnan().any():
        continue
    x = x.cuda()
    break
""",
    "a function that others may call often": """\
def first():
    x, y = next(iter(loader))
    return x.cuda()
""",
    "batches are fetched ahead": """\
batches = iter(loader)
for step in range(9):
    x, y = next(batches)
    x = x.cuda()
""",
    "the batch is moved in map()": """\
for batch in loader:
    x, y = map(lambda t: t.cuda(), batch)
""",
    "the batch is spread into a helper": """\
def move(x, y):
    return x.cuda(), y.cuda()
for batch in loader:
    x, y = move(*batch)
""",
    "the batch is moved in the model": """\
class Model(nn.Module):
    def forward(self, x):
        x = x.cuda()
        return x
model = Model()
for x, y in loader:
    model(x)
""",
}


BATCHES_COPIED = {
    "made on the device": (
        "buffer = torch.empty(64, 1, 28, 28, device=device)\n",
        'device.type == "cuda"',
    ),
    "of a type that depends on CUDA": (
        "Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.Tensor\nbuffer = Tensor(64)\n",
        "torch.cuda.is_available()",
    ),
}


@pytest.mark.parametrize(("made", "value"), BATCHES_COPIED.values(), ids=BATCHES_COPIED)
def test_batches_that_are_copied_into_a_buffer_go_to_its_device(made: str, value: str) -> None:
    loop = "for x, y in loader:\n    buffer.copy_(x)\n"
    before, after = (
        f"{ANY_DEVICE}loader = DataLoader(data{each})\n{made}{loop}" for each in ("", f", pin_memory={value}")
    )
    rewrites(before, after)


def test_batches_that_go_through_numpy_are_not_moved_themselves() -> None:
    code = "loader = DataLoader(data)\nfor x, y in loader:\n    x = torch.from_numpy(x.numpy() / 255).cuda()\n"
    leaves(code, "new tensors are made from its batches on the host, and those are moved (line 10)")


def test_batches_that_are_copied_into_a_buffer_of_the_host_are_not_moved() -> None:
    code = "loader = DataLoader(data)\nbuffer = torch.empty(64)\nfor x, y in loader:\n    buffer.copy_(y)\n"
    leaves(code, "its batches are not moved to a device in this file")


@pytest.mark.parametrize("rest", PINNED_YET.values(), ids=PINNED_YET)
def test_pinned_although(rest: str) -> None:
    rewrites("loader = DataLoader(data)\n" + rest, "loader = DataLoader(data, pin_memory=True)\n" + rest)


PINNABLE = {
    "N4: the batch's class has pin_memory()": """\
class Batch:
    def pin_memory(self):
        return self
loader = DataLoader(data, collate_fn=lambda b: Batch())
""",
    "N7: a named tuple": """\
from typing import NamedTuple
class Batch(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor
loader = DataLoader(data, collate_fn=lambda b: Batch(1, 2))
""",
    "the data set names the CPU": 'items = TensorDataset(torch.zeros(9, device="cpu"), torch.zeros(9).to("cpu"))\n'
    "loader = DataLoader(items)\n",
    "the data set casts": """\
class Own(Dataset):
    def __getitem__(self, i):
        return torch.zeros(3).to(torch.float16), i
loader = DataLoader(Own())
""",
    "a data set of another file is moved by the script": """\
from mine import Mine
loader = DataLoader(Mine())
""",
    "the data set looks for another item in itself": """\
class Own(Dataset):
    def __getitem__(self, i):
        return self.__getitem__(i - 1) if i else (torch.zeros(3), i)
loader = DataLoader(Own())
""",
    "it is iterable": """\
class Own(torch.utils.data.IterableDataset):
    def __iter__(self):
        yield torch.zeros(3), 1
loader = DataLoader(Own())
""",
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
    "by assignment": """\
kwargs = {}
kwargs["pin_memory"] = True
loader = DataLoader(data, **kwargs)
""",
    "by update()": """\
kwargs = {}
kwargs.update({"pin_memory": True})
loader = DataLoader(data, **kwargs)
""",
    "by update() with keywords": """\
kwargs = {}
kwargs.update(pin_memory=True)
loader = DataLoader(data, **kwargs)
""",
    "where CUDA is used": """\
kwargs = {'pin_memory': True} if torch.cuda.is_available() else {}
loader = DataLoader(data, **kwargs)
""",
    "in a class's own __init__": """\
class Loader(DataLoader):
    def __init__(self, data):
        super().__init__(data, pin_memory=True)
loader = Loader(data)
""",
    "in functools.partial": """\
from functools import partial
make = partial(DataLoader, pin_memory=True)
loader = make(data)
""",
}


@pytest.mark.parametrize("start", ALREADY.values(), ids=ALREADY)
def test_nothing_is_said_of_a_loader_that_pins(start: str) -> None:
    check_silent(LoaderPin, HEAD + start + MOVED)


def test_nothing_is_said_of_another_library_s_loader() -> None:
    check_silent(
        LoaderPin,
        HEAD
        + """\
from torch_geometric.loader import DataLoader
loader = DataLoader(data)
"""
        + MOVED,
    )


def test_a_class_that_gives_its_arguments_on_is_given_one_more() -> None:
    code = """\
from torch.utils.data import DataLoader
from torchvision import datasets


class Loader(DataLoader):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        print(len(self))


loader = Loader(datasets.MNIST("data"), batch_size=64{})
for x, y in loader:
    x = x.cuda()
"""
    check_rewrites(LoaderPin, code.format(""), code.format(", pin_memory=True"))


OWN = """\
from torch.utils.data import DataLoader
from torchvision import datasets


class Joined:
    def __init__(self, width):
        self.width = width

    def __call__(self, batch):
        xs, ys = torch.utils.data.default_collate(batch)
        return xs[:, : self.width]{}, ys


class Loader(DataLoader):
    def __init__(self, {}):
        {}
        self.collate_fn = Joined(width)


loader = Loader(datasets.MNIST("data"), batch_size=64, width=20{})
for x, y in loader:
    x = x.cuda()
""".replace("{}, ys", "{joined}, ys")
OPTIONS = "*args, width=28, **kwargs"
GIVEN_ON = "super().__init__(*args, **kwargs)"


def own(taken: str = OPTIONS, body: str = GIVEN_ON, given: str = "", joined: str = "") -> str:
    return "import torch\n" + OWN.format(taken, body, given, joined=joined)


def test_a_class_with_options_of_its_own_is_given_one_more() -> None:
    check_rewrites(LoaderPin, own(), own(given=", pin_memory=True"))


def test_what_joins_its_items_may_be_set_later() -> None:
    left = "its collate_fn moves tensors to a device itself (line 12)"
    check_leaves(LoaderPin, own(joined=".cuda()"), left)
    late = own(body=f"{GIVEN_ON}\n        if width > 9:\n            self.collate_fn = Joined(width)", joined=".cuda()")
    check_leaves(LoaderPin, late.replace("        self.collate_fn = Joined(width)\n\n", "\n"), left)
    outside = own(joined=".cuda()").replace("        self.collate_fn = Joined(width)\n", "")
    check_leaves(LoaderPin, outside.replace("for x, y", "loader.collate_fn = Joined(9)\nfor x, y"), left)


@pytest.mark.parametrize(
    ("taken", "body"),
    [
        pytest.param("*args, width=28, num_workers=0, **kwargs", GIVEN_ON, id="an option of torch does not go on"),
        pytest.param("*args, width=28, persistent_workers=False, **kwargs", GIVEN_ON, id="a later one of torch"),
        pytest.param(OPTIONS, f"kwargs['drop_last'] = width > 9\n        {GIVEN_ON}", id="an item is set before"),
        pytest.param(OPTIONS, f"kwargs.setdefault('num_workers', 2)\n        {GIVEN_ON}", id="a default is set before"),
        pytest.param(OPTIONS, f"args = args[:1]\n        {GIVEN_ON}", id="some are taken off"),
        pytest.param("data, *args, width=28, **kwargs", "super().__init__(data, *args, **kwargs)", id="by position"),
        pytest.param(OPTIONS, "super().__init__(*args, pin_memory=False, **kwargs)", id="one is given by the class"),
    ],
)
def test_a_class_that_changes_what_it_is_given_is_left(taken: str, body: str) -> None:
    check_leaves(LoaderPin, own(taken, body), "its arguments are given with *")


STAYING = """\
from torch.utils.data import DataLoader
from torchvision import datasets


def get_loader():
    return DataLoader(datasets.MNIST("data"), batch_size=64, num_workers=4, persistent_workers=True{})


def train(loader):
    for epoch in range(9):
        for x, y in loader:
            x = x.cuda()


"""


def test_a_script_is_not_made_to_end_late() -> None:
    code = STAYING.format("") + "loader = get_loader()\ntrain(loader)\n"
    because = (
        "workers that stay and pinned memory make the script end 5 s later for each worker before torch 2.13, as "
        "'loader' still refers to the loader then (line 15): make the loader in a function, or require torch 2.13"
    )
    check_leaves(LoaderPin, code, because)
    check_rewrites(LoaderPin, code, code.replace("s=True", "s=True, pin_memory=True"), (2, 13))
    check_leaves(H2dNonBlocking, code, f"the loader in line 6 does not pin its batches: {because}")


def test_workers_that_stay_end_with_a_function() -> None:
    code = STAYING + "def main():\n    train(get_loader())\n\n\nmain()\n"
    check_rewrites(LoaderPin, code.format(""), code.format(", pin_memory=True"))


NO_MOVES = {
    "stands in a method that reading does not use": """\
class Own(Dataset):
    def __getitem__(self, i):
        return torch.zeros(3), i
    def show(self):
        return torch.zeros(3).cuda()
loader = DataLoader(Own())
""",
    "stands in a method of what the data set holds that it does not call": """\
class Spectrum(nn.Module):
    def magnitude(self, x):
        return x.abs()
    def forward(self, x):
        return self.magnitude(x).cuda()
class Own(Dataset):
    def __init__(self):
        self.spectrum = Spectrum()
    def __getitem__(self, i):
        return self.spectrum.magnitude(torch.zeros(3)), i
loader = DataLoader(Own())
""",
    "follows another tensor": """\
class Own(Dataset):
    def __getitem__(self, i):
        x = torch.zeros(3)
        return torch.ones(3).to(x.device), torch.ones(3, device=x.device)
loader = DataLoader(Own())
""",
    "follows another tensor in place and format": """\
class Own(Dataset):
    def __getitem__(self, i):
        x = torch.zeros(3)
        return torch.ones(3).to(x), i
loader = DataLoader(Own())
""",
    "follows what is asked to be a tensor": """\
def scaled(x):
    mean = torch.ones(3).to(x.device) if torch.is_tensor(x) else 0.5
    return 1 - 1 / 2
class Own(Dataset):
    def __getitem__(self, i):
        return scaled(read(i)), i
loader = DataLoader(Own())
""",
    "follows what is asked to be on CUDA": """\
class Own(Dataset):
    def window(self, x):
        window = torch.ones(3)
        window = window.cuda() if x.is_cuda else window
        return 3
    def __getitem__(self, i):
        return self.window(torch.zeros(3)), i
loader = DataLoader(Own())
""",
    "comes back at once while the data set is made": """\
class Own(Dataset):
    def __init__(self, images):
        self.images = images.cuda().sqrt().cpu()
    def __getitem__(self, i):
        return self.images[i], i
loader = DataLoader(Own(read()))
""",
}


@pytest.mark.parametrize("code", NO_MOVES.values(), ids=NO_MOVES)
def test_the_batches_are_on_the_host_where_a_move(code: str) -> None:
    start, loader = code.rsplit("\n", 2)[:2]

    rewrites(code + MOVED, f"{start}\n{loader[:-1]}, pin_memory=True)\n" + MOVED)


SCALED = """\
class Scaler:
    def scaled(self, x):
        mean = torch.ones(3).to(x.device) if torch.is_tensor(x) else 0.5
        return x - mean
    def restored(self, x):
        return x + torch.ones(3).to(x.device)
class Own(Dataset):
    def __init__(self, images):
        self.scaler = Scaler()
        self.images = self.scaler.scaled(images)
    def __getitem__(self, i):
        return self.images[i], i
class Other(Dataset):
    def __init__(self):
        self.images = None
data = Own(read())
loader = DataLoader(data)
"""


def test_what_is_computed_from_what_follows_the_data_is_on_the_host() -> None:
    rewrites(SCALED + MOVED, SCALED.replace("DataLoader(data)", "DataLoader(data, pin_memory=True)") + MOVED)


ELSEWHERE = {
    "another method computes it on a device": SCALED.replace(
        "class Other", "    def move(self):\n        self.images = self.images.cuda() - 1\nclass Other"
    ),
    "it is computed from what is on a device": "shift = torch.ones(3).cuda() * 2\n"
    + SCALED.replace("return x - mean", "return x - mean - shift"),
    "another module computes it on a device": SCALED + "data.images = data.images - torch.ones(3).cuda()\n",
}


@pytest.mark.parametrize("code", ELSEWHERE.values(), ids=ELSEWHERE)
def test_what_is_computed_may_be_on_a_device_where(code: str) -> None:
    result = run(LoaderPin, HEAD + code + MOVED)

    assert result.after == HEAD + code + MOVED
    assert {each.code for each in result.sites} == {"already-on-device"}


REACHED = {
    "a function that is handed on": (
        """\
class Own(Dataset):
    def move(self, x):
        return x.cuda()
    def __getitem__(self, i):
        return list(map(self.move, [torch.zeros(3)])), i
loader = DataLoader(Own())
""",
        10,
    ),
    "a property": (
        """\
class Own(Dataset):
    @property
    def x(self):
        return read().cuda()
    def __getitem__(self, i):
        return self.x, i
loader = DataLoader(Own())
""",
        11,
    ),
    "an object that is called": (
        """\
class Own(Dataset):
    def __init__(self):
        self.net = Net()
    def __getitem__(self, i):
        return self.net(torch.zeros(3)), i
class Net(nn.Module):
    def forward(self, x):
        return x.cuda()
loader = DataLoader(Own())
""",
        15,
    ),
    "a method that is looked up by its name": (
        """\
class Own(Dataset):
    def right(self):
        return read().cuda()
    def __getitem__(self, i):
        return getattr(self, read())(), i
loader = DataLoader(Own())
""",
        10,
    ),
    "a data set in a data set": (
        """\
class Inner(Dataset):
    def __getitem__(self, i):
        return read(i).cuda(), i
class Own(Dataset):
    def __init__(self):
        self.inner = Inner()
    def __getitem__(self, i):
        return self.inner[i]
loader = DataLoader(Own())
""",
        10,
    ),
    "what is kept when it is made": (
        """\
class Own(Dataset):
    def __init__(self, images):
        self.images = images.cuda()
    def __getitem__(self, i):
        return self.images[i], i
loader = DataLoader(Own(read()))
""",
        10,
    ),
    "the device that an option names": (
        """\
args = argparse.ArgumentParser().parse_args()
class Own(Dataset):
    def __getitem__(self, i):
        return read(i).to(args.device), i
loader = DataLoader(Own())
""",
        11,
    ),
    "what a library calls": (
        """\
class Net(nn.Module):
    def forward(self, x):
        return x.cuda()
class Own(Dataset):
    def __init__(self):
        self.transform = transforms.Compose([transforms.ToTensor(), Net()])
    def __getitem__(self, i):
        return self.transform(read(i)), i
loader = DataLoader(Own())
""",
        10,
    ),
}


@pytest.mark.parametrize(("code", "line"), REACHED.values(), ids=REACHED)
def test_a_move_counts_that_reading_reaches_through(code: str, line: int) -> None:
    leaves(code + MOVED, f"its data set moves tensors to a device itself (line {line})")


def test_what_is_moved_is_converted_from_another_format() -> None:
    tensors = "data = TensorDataset(torch.zeros(100, 3, dtype=torch.float64), torch.zeros(100))\n"
    loop = "loader = DataLoader(data)\nfor x, y in loader:\n    x = x.float()\n    x = x.cuda()\n"
    new = "'x.float()' (line 11) makes a new tensor on the host, which is not in pinned memory"
    check_leaves(LoaderPin, HEAD + tensors + loop, f"{new}: move the batch first, and convert it on the device")


def test_one_of_several_parts_is_moved_as_it_came() -> None:
    loop = "for x, y in loader:\n    x = x.long()\n    x, y = x.cuda(), y.cuda()\n"
    rewrites(f"loader = DataLoader(data)\n{loop}", f"loader = DataLoader(data, pin_memory=True)\n{loop}")


@pytest.mark.parametrize(
    "reading",
    [
        pytest.param("x, y = next(iter(loader))\nx = x.cuda()\n", id="by hand"),
        pytest.param("batches = iter(loader)\nx, y = next(batches)\nx = x.cuda()\n", id="by an iterator with a name"),
        pytest.param(
            "if c:\n    it = iter(loader)\n    x = next(it)[0].cuda()\n"
            "else:\n    it = iter(loader)\n    x = it.__next__()[1].cuda()\n",
            id="by an iterator in each branch",
        ),
        pytest.param("for x, y in loader:\n    x = x.cuda()\n    break\n", id="in a loop that ends there"),
        pytest.param("def show():\n    x, y = next(iter(loader))\n    print(x.cuda())\nshow()\n", id="in a function"),
    ],
)
def test_a_single_batch_is_not_pinned(reading: str) -> None:
    leaves("loader = DataLoader(data)\n" + reading, "only its first batch is read")


def test_more_than_one_batch_is_pinned_of_a_loader_that_a_function_makes() -> None:
    made = "def sample():\n    loader = DataLoader(data{})\n    return [next(iter(loader))[0].cuda() for _ in 'abc']\n"
    rewrites(made.format(""), made.format(", pin_memory=True"))


@pytest.mark.parametrize("calls", ["", "while True:\n    sample()\n"], ids=["others call it", "it is called on and on"])
def test_a_loader_that_a_function_makes_for_a_single_batch_is_not_pinned(calls: str) -> None:
    made = "def sample():\n    loader = DataLoader(data)\n    x, y = next(iter(loader))\n    return x.cuda()\n"
    leaves(made + calls, "only its first batch is read")


@pytest.mark.parametrize(
    "reading",
    [
        pytest.param("x = next(it)[0].cuda()\ny = next(it)[0].cuda()\n", id="another follows"),
        pytest.param("while True:\n    x = next(it)[0].cuda()\n", id="a loop asks on and on"),
        pytest.param("x = next(it)[0].cuda()\nfor x, y in it:\n    x = x.cuda()\n", id="a loop reads the rest"),
        pytest.param("xs = [next(it)[0].cuda() for _ in range(9)]\n", id="a list of them"),
        pytest.param("def step():\n    return next(it)[0].cuda()\nwhile True:\n    step()\n", id="a function asks"),
        pytest.param("batches = it\nwhile True:\n    x = next(batches)[0].cuda()\n", id="by another name"),
    ],
)
def test_more_than_one_batch_is_pinned_that_an_iterator_with_a_name_gives(reading: str) -> None:
    reading = f"it = iter(loader)\n{reading}"
    rewrites(f"loader = DataLoader(data)\n{reading}", f"loader = DataLoader(data, pin_memory=True)\n{reading}")
