"""Small scripts and what ``torchfast facts`` prints of them: each promise of the facts has its script."""

from __future__ import annotations

import pytest
from probe import facts, script

TRAINING = """\
import argparse
import torch
from torch import nn, optim
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

def train(args, model, device, train_loader, optimizer, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(train_loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        output = model(data)
        loss = nn.functional.nll_loss(output, target)
        loss.backward()
        optimizer.step()
        if batch_idx % 10 == 0:
            print(loss.item())

def test(model, device, test_loader):
    model.eval()
    correct = 0
    for data, target in test_loader:
        output = model(data.to(device))
        correct += output.argmax(1).eq(target.to(device)).sum().item()
    return correct

def main():
    args = argparse.ArgumentParser().parse_args()
    use_cuda = not args.no_cuda and torch.cuda.is_available()
    device = torch.device("cuda" if use_cuda else "cpu")
    kwargs = {"num_workers": 1, "pin_memory": True} if use_cuda else {}
    transform = transforms.Compose([transforms.RandomCrop(28), transforms.ToTensor()])
    train_loader = DataLoader(datasets.MNIST("data", transform=transform), batch_size=64, shuffle=True, **kwargs)
    test_loader = DataLoader(datasets.MNIST("data", train=False, transform=transforms.ToTensor()), 1000)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10), nn.LogSoftmax(1)).to(device)
    optimizer = optim.Adadelta(model.parameters(), lr=args.lr)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=1)
    for epoch in range(args.epochs):
        train(args, model, device, train_loader, optimizer, epoch)
        test(model, device, test_loader)
        scheduler.step()

if __name__ == "__main__":
    main()
"""


def test_the_shape_of_pytorchs_own_example() -> None:
    assert facts(TRAINING) == {
        9: ["iteration: transfer, transfer, zero, forward, loss, backward, step, log, log"],
        10: [
            "transfer: data (batch) to CUDA where there is one",
            "transfer: target (batch) to CUDA where there is one",
        ],
        19: ["evaluation: models are called with gradients on in line 23"],
        23: ["transfer: data (batch) to CUDA where there is one"],
        24: ["transfer: target (batch) to CUDA where there is one"],
        30: ["device: torch.device('cuda' if use_cuda else 'cpu') is CUDA where there is one"],
        33: [
            "data set: map-style; reads, decodes or transforms; draws random numbers, or may",
            "length: at most 938 batches",
            "loader: batch_size by keyword, dataset by position, num_workers through **, pin_memory through **, "
            "shuffle by keyword; read in line 9; moved in line 10; is pinned",
        ],
        34: [
            "data set: map-style; reads, decodes or transforms; draws nothing",
            "length: at most 10 batches",
            "loader: batch_size by position, dataset by position; read in line 22; moved in lines 23, 24; can be pinned",
        ],
        35: [
            "model: torch.nn.Sequential of Flatten, Linear, LogSoftmax; every parameter gets a gradient",
            "products: multiplies matrices",
            "size: 7,850 parameters, at most 3,010,560 operations an iteration",
        ],
        36: [
            "optimizer: torch.optim.Adadelta",
            'parameters: of what is made in line 35, on CUDA if device.type == "cuda"',
        ],
        37: ["scheduler: torch.optim.lr_scheduler.StepLR"],
    }


def of(text: str, kind: str) -> list[str]:
    """The facts of one kind, in the order of the lines, without the kind."""
    return [
        fact.removeprefix(f"{kind}: ")
        for _, found in sorted(facts(text).items())
        for fact in found
        if fact.startswith(f"{kind}: ")
    ]


DATA = """\
import random
import numpy as np
import torch
from PIL import Image
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset, TensorDataset, random_split
from torchvision import datasets, transforms
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("DataLoader(TensorDataset(torch.zeros(3)))", "in memory", id="tensors"),
        pytest.param("DataLoader([1, 2, 3])", "in memory", id="a list"),
        pytest.param("DataLoader(torch.zeros(3, 4))", "in memory", id="one tensor"),
        pytest.param("DataLoader(Subset(TensorDataset(torch.zeros(3)), [0]))", "in memory", id="a part of tensors"),
        pytest.param(
            "DataLoader(ConcatDataset([TensorDataset(torch.zeros(3)), TensorDataset(torch.zeros(4))]))",
            "in memory",
            id="tensors, joined",
        ),
        pytest.param(
            "DataLoader(datasets.ImageFolder('d', transforms.ToTensor()))",
            "map-style; reads, decodes or transforms; draws nothing",
            id="image files",
        ),
        pytest.param(
            "DataLoader(datasets.CIFAR10('d', transform=transforms.Compose([transforms.RandomHorizontalFlip()])))",
            "map-style; reads, decodes or transforms; draws random numbers, or may",
            id="random transforms",
        ),
        pytest.param(
            "class D(Dataset):\n"
            "    def __getitem__(self, i): return self.x[i]\n"
            "    def __init__(self): self.x = torch.zeros(3)\n"
            "DataLoader(D())",
            "map-style; indexes what is in memory; draws nothing",
            id="own class that indexes",
        ),
        pytest.param(
            "class D(Dataset):\n    def __getitem__(self, i): return Image.open(self.paths[i])\nDataLoader(D())",
            "map-style; reads, decodes or transforms; draws nothing",
            id="own class that opens images",
        ),
        pytest.param(
            "class D(Dataset):\n"
            "    def __getitem__(self, i): return self.noise(i)\n"
            "    def noise(self, i): return random.random()\n"
            "DataLoader(D())",
            "map-style; indexes what is in memory; draws random numbers, or may",
            id="own class that draws, in a method of its own",
        ),
        pytest.param(
            "class D(IterableDataset):\n    def __iter__(self): yield 1\nDataLoader(D())",
            "iterable; indexes what is in memory; draws nothing",
            id="iterable",
        ),
        pytest.param(
            "DataLoader(data)",
            "its data set is not known: 'data' is defined in no place that can be seen",
            id="not known",
        ),
        pytest.param(
            "import argparse\nDataLoader(argparse.ArgumentParser().parse_args().data)",
            "its data set is chosen when the script is started (args.data)",
            id="the user's choice",
        ),
    ],
)
def test_data_sets(text: str, expected: str) -> None:
    assert of(DATA + text, "data set") == [expected]


def test_a_data_set_that_touches_cuda() -> None:
    text = (
        "class D(Dataset):\n    def __getitem__(self, i): return self.x[i].cuda()\nfor x in DataLoader(D()): x.cuda()"
    )
    (found,) = of(DATA + text, "loader")
    assert found.endswith("moved in line 9; its data set moves tensors to a device itself (line 8)")


MNIST = "from torch.utils.data import DataLoader\nfrom torchvision import datasets\ndata = datasets.MNIST('d')\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "loader = DataLoader(data, 8, True)",
            "batch_size by position, dataset by position, shuffle by position",
            id="by position",
        ),
        pytest.param("loader = DataLoader(dataset=data)", "dataset by keyword", id="by keyword"),
        pytest.param(
            "loader = DataLoader(data, **{'num_workers': 2})",
            "dataset by position, num_workers through **",
            id="through a literal",
        ),
        pytest.param(
            "k = {'num_workers': 1} if c else {}\nk.update(shuffle=True)\nloader = DataLoader(data, **k)",
            "dataset by position, num_workers through **, shuffle through **",
            id="through a dictionary that is filled later",
        ),
        pytest.param(
            "def make(**k):\n    return DataLoader(data, **k)\nloader = make(batch_size=3)",
            "batch_size through **, dataset by position",
            id="handed on",
        ),
        pytest.param(
            "loader = DataLoader(data, **k)",
            "dataset by position; its arguments are given with **k: 'k' is defined in no place that can be seen",
            id="through what is not known",
        ),
        pytest.param("loader = DataLoader(*k)", "its arguments are given with *", id="by a star"),
        pytest.param(
            "class L(DataLoader):\n    pass\nloader = L(data, batch_size=2)",
            "batch_size by keyword, dataset by position",
            id="own class",
        ),
        pytest.param(
            "import torch as t\nloader = t.utils.data.DataLoader(data, num_workers=0)",
            "dataset by position, num_workers by keyword",
            id="other spelling",
        ),
    ],
)
def test_arguments_of_loaders_and_how_they_are_given(text: str, expected: str) -> None:
    (found,) = of(MNIST + text, "loader")
    assert found == f"{expected}; read in no line; moved in no line; {found.rpartition('; ')[2]}"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("from torch_geometric.loader import DataLoader\nDataLoader(data)", id="of a graph library"),
        pytest.param("class DataLoader:\n    def __iter__(self): yield 1\nDataLoader(data)", id="the user's own"),
        pytest.param("from loaders import DataLoader\nDataLoader(data)", id="of a file that was not read"),
    ],
)
def test_loaders_that_are_not_torchs(text: str) -> None:
    assert of(text, "loader") == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param("for x in loader: pass", [5], id="a loop"),
        pytest.param("for i, (x, y) in enumerate(loader): pass", [5], id="enumerate"),
        pytest.param("from tqdm import tqdm\nfor x in tqdm(enumerate(loader)): pass", [6], id="tqdm around enumerate"),
        pytest.param("from tqdm import tqdm\nbar = tqdm(loader)\nfor x in bar: pass", [6], id="a bar"),
        pytest.param("for a, b in zip(loader, loader): pass", [5, 5], id="zip reads it twice"),
        pytest.param("x = [b for b in loader]", [5], id="a comprehension"),
        pytest.param("x = next(iter(loader))", [5], id="the first batch"),
        pytest.param("def f(dl):\n    for x in dl: pass\nf(loader)", [6], id="in a function"),
        pytest.param("loaders = {'a': loader}\nfor p in loaders:\n    for x in loaders[p]: pass", [7], id="by phase"),
        pytest.param("n = len(loader)", [], id="only its length"),
        pytest.param("for i in range(len(loader)): pass", [], id="a loop over its length"),
    ],
)
def test_where_loaders_are_read(text: str, lines: list[int]) -> None:
    found = script(f"{MNIST}loader = DataLoader(data)\n{text}")
    (loader,) = found.loaders
    assert [each.module.statement(each.node).lineno for each in loader.passes] == lines


MODEL = "import torch, torchvision\nfrom torch import nn\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU())", "torch.nn.Sequential of Conv2d, ReLU", id="Sequential"
        ),
        pytest.param(
            "layers = []\nfor i in range(3):\n    layers.append(nn.Linear(1, 1))\nm = nn.Sequential(*layers)",
            "torch.nn.Sequential of Linear",
            id="Sequential of a list that is filled",
        ),
        pytest.param(
            "class Net(nn.Module):\n    def __init__(self):\n        self.a = nn.Linear(1, 1)\n        self.b = nn.Tanh()\nNet()",
            "Net of Linear, Tanh",
            id="attributes",
        ),
        pytest.param(
            "class Net(nn.Module):\n    def __init__(self):\n        self.layers = nn.ModuleList()\n"
            "        for i in range(3):\n            self.layers.append(nn.Linear(1, 1))\nNet()",
            "Net of ModuleList, Linear",
            id="ModuleList that is filled",
        ),
        pytest.param(
            "class Net(nn.Module):\n    def __init__(self):\n        self.layers = nn.ModuleList([nn.GRU(1, 1) for _ in range(3)])\nNet()",
            "Net of ModuleList, GRU",
            id="ModuleList of a comprehension",
        ),
        pytest.param(
            "class Net(nn.Module):\n    def __init__(self):\n        self.layers = nn.ModuleDict({'a': nn.ReLU()})\nNet()",
            "Net of ModuleDict, ReLU",
            id="ModuleDict",
        ),
        pytest.param(
            "class Net(nn.Module):\n    def __init__(self):\n        for i in range(3):\n            setattr(self, f'l{i}', nn.Linear(1, 1))\nNet()",
            "Net of Linear",
            id="setattr",
        ),
        pytest.param(
            "class Net(nn.Module):\n    def __init__(self):\n        self.add_module('a', nn.Conv1d(1, 1, 1))\nNet()",
            "Net of Conv1d",
            id="add_module",
        ),
        pytest.param(
            "m = nn.Sequential()\nm.add_module('a', nn.ReLU())",
            "torch.nn.Sequential of ReLU",
            id="add_module on a Sequential",
        ),
        pytest.param(
            "class Net(nn.Module):\n    def __init__(self):\n        self.body = self.block(3)\n"
            "    def block(self, n):\n        return nn.Sequential(nn.Linear(n, n), nn.ELU())\nNet()",
            "Net of Sequential, Linear, ELU",
            id="a method that makes layers",
        ),
        pytest.param(
            "class Block(nn.Module):\n    def __init__(self):\n        self.a = nn.Linear(1, 1)\n"
            "class Net(nn.Module):\n    def __init__(self):\n        self.b = Block()\nNet()",
            "Net of Linear, Block",
            id="a class of the project as a layer",
        ),
        pytest.param("torchvision.models.resnet18()", "torchvision.models.resnet18", id="torchvision's constructor"),
        pytest.param(
            "m = torchvision.models.resnet18()\nm.fc = nn.Linear(512, 2)",
            "torchvision.models.resnet18 of Linear",
            id="with another head",
        ),
        pytest.param("getattr(torchvision.models, name)()", "torchvision.models.?", id="torchvision's, by name"),
        pytest.param("m = nn.DataParallel(nn.Linear(1, 1))", "torch.nn.DataParallel of Linear", id="wrapped"),
        pytest.param(
            "class A(nn.Module):\n    def __init__(self):\n        self.a = nn.Linear(1, 1)\nclass B(A):\n    pass\nB()",
            "B of Linear",
            id="inherited",
        ),
    ],
)
def test_models_and_their_layers(text: str, expected: str) -> None:
    (found,) = of(MODEL + text, "model")
    assert found.partition(";")[0] == expected


OPTIMIZED = "import torch\nfrom torch import nn, optim\nmodel = nn.Linear(1, 1)\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("optim.SGD(model.parameters())", ["torch.optim.SGD"], id="through the module"),
        pytest.param(
            "from torch.optim import Adam as A\nA(model.parameters())", ["torch.optim.Adam"], id="under another name"
        ),
        pytest.param("getattr(optim, name)(model.parameters())", ["torch.optim.?"], id="by name"),
        pytest.param(
            "optim.__dict__[name](model.parameters())", ["torch.optim.?"], id="out of the module's dictionary"
        ),
        pytest.param("class Own(optim.Adam): pass\nOwn(model.parameters())", ["Own"], id="a class of the project"),
        pytest.param(
            "[optim.SGD(p) for p in ps]\noptim.Adam(q)", ["torch.optim.SGD", "torch.optim.Adam"], id="several"
        ),
        pytest.param("import gym\ngym.make('x').step(0)", [], id="an environment has a step, too"),
        pytest.param("from apex.optimizers import FusedAdam\nFusedAdam(p)", [], id="another library's"),
    ],
)
def test_optimizers(text: str, expected: list[str]) -> None:
    assert of(OPTIMIZED + text, "optimizer") == expected


DEVICES = "import argparse, torch\nargs = argparse.ArgumentParser().parse_args()\nx = torch.zeros(3)\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("x.cuda()", "always CUDA", id="cuda()"),
        pytest.param("x.to('cuda:1')", "always CUDA", id="a literal"),
        pytest.param("x.to(0)", "always CUDA", id="an index"),
        pytest.param("x.to(f'cuda:{rank}')", "always CUDA", id="an f-string"),
        pytest.param("x.to(torch.device('cuda'))", "always CUDA", id="a device"),
        pytest.param(
            "x.to('cuda' if torch.cuda.is_available() else 'cpu')", "CUDA where there is one", id="conditional"
        ),
        pytest.param(
            "d = torch.device('cuda' if args.cuda else 'cpu')\nx.to(d)",
            "CUDA where there is one",
            id="by the user's flag",
        ),
        pytest.param(
            "if args.cuda:\n    d = 'cuda'\nelse:\n    d = 'cpu'\nx.to(d)", "CUDA where there is one", id="by branches"
        ),
        pytest.param("x.to(args.device)", "CUDA where there is one", id="the user's choice"),
        pytest.param(
            "args.device = torch.device(args.device)\nx.to(args.device)",
            "CUDA where there is one",
            id="written back into the options",
        ),
        pytest.param(
            "class A:\n    def __init__(self):\n        self.d = torch.device('cuda')\n    def f(self):\n        x.to(self.d)\nA().f()",
            "always CUDA",
            id="an attribute",
        ),
        pytest.param("def f(device='cuda'):\n    x.to(device)\nf()", "always CUDA", id="a default"),
        pytest.param("x.to('cpu')", "the CPU", id="the CPU"),
        pytest.param("x.to('mps')", "another accelerator", id="another"),
        pytest.param("x.to(device)", "unknown", id="not known"),
        pytest.param("if args.cuda:\n    x.cuda()", "always CUDA, if args.cuda is True", id="under a condition"),
    ],
)
def test_devices(text: str, expected: str) -> None:
    (found,) = of(DEVICES + text, "transfer")
    assert found.partition(") to ")[2] == expected


LOOP = """\
import torch
from torch import nn
model = nn.Linear(1, 1)
loss_fn = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "for x, y in data:\n    optimizer.zero_grad()\n    loss_fn(model(x), y).backward()\n    optimizer.step()",
            "zero, forward, loss, backward, step",
            id="in one expression, in the order of evaluation",
        ),
        pytest.param(
            "def step(x, y):\n    loss = loss_fn(model(x), y)\n    loss.backward()\n    optimizer.step()\nfor x, y in data:\n    step(x, y)",
            "forward, loss, backward, step",
            id="in a function that is called per batch",
        ),
        pytest.param(
            "class T:\n    def __init__(self):\n        self.m, self.o = model, optimizer\n"
            "    def step(self, x):\n        self.o.zero_grad()\n        self.m(x).sum().backward()\n        self.o.step()\n"
            "    def run(self):\n        for x in data:\n            self.step(x)\nT().run()",
            "zero, forward, backward, step",
            id="in a method",
        ),
        pytest.param(
            "for x in data:\n    model(x).sum().backward()\n    nn.utils.clip_grad_norm_(model.parameters(), 1)\n    optimizer.step()\n    scheduler.step()",
            "forward, backward, gradient, step, schedule",
            id="clipping and a schedule",
        ),
        pytest.param(
            "for i, x in enumerate(data):\n    model(x).sum().backward()\n    if i % 4 == 0:\n        optimizer.step()\n        optimizer.zero_grad()",
            "forward, backward, step, zero",
            id="accumulation",
        ),
        pytest.param(
            "scaler = torch.cuda.amp.GradScaler()\nfor x in data:\n    scaler.scale(model(x).sum()).backward()\n    scaler.step(optimizer)\n    scaler.update()",
            "forward, backward, step",
            id="a gradient scaler",
        ),
        pytest.param(
            "while True:\n    x = next(it)\n    x = x.cuda()\n    model(x).sum().backward()\n    env.step(1)",
            "forward, backward",
            id="what is not an optimizer does not step",
        ),
        pytest.param("model(x).sum().backward()\noptimizer.step()", "forward, backward, step", id="without a loop"),
    ],
)
def test_training_iterations_as_events_in_order(text: str, expected: str) -> None:
    assert of(LOOP + text, "iteration") == [expected]


def test_an_event_knows_its_conditions_loops_and_subject() -> None:
    found = script(
        f"{LOOP}for x in data:\n    for k in range(2):\n        if k:\n            model(x).sum().backward()\n    optimizer.step()"
    )
    (iteration,) = found.iterations
    assert [event.kind.value for event in iteration.events] == ["forward", "backward"]
    assert [type(loop).__name__ for loop in iteration.events[0].loops] == []
    assert [test.id for test in iteration.events[0].conditions] == ["k"]  # type: ignore[attr-defined]
    assert {value.name for value in iteration.events[0].subjects} == {"torch.nn.Linear"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "def evaluate(x):\n    model.eval()\n    print(model(x))",
            ["models are called with gradients on in line 9"],
            id="a function",
        ),
        pytest.param(
            "model.eval()\nfor x in data:\n    print(model(x).argmax())",
            ["models are called with gradients on in line 9"],
            id="statements",
        ),
        pytest.param(
            "@torch.no_grad()\ndef evaluate(x):\n    model.eval()\n    print(model(x))",
            [],
            id="without gradients already",
        ),
        pytest.param(
            "def evaluate(x):\n    model.eval()\n    with torch.no_grad():\n        print(model(x))",
            [],
            id="within no_grad",
        ),
    ],
)
def test_evaluation_regions(text: str, expected: list[str]) -> None:
    assert of(LOOP + text, "evaluation") == expected


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import pytorch_lightning as pl\ntrainer = pl.Trainer()", "Lightning"),
        ("import lightning as L\nclass Net(L.LightningModule): pass", "Lightning"),
        ("from ignite.engine import Engine\nEngine(update)", "Ignite"),
        ("from transformers import Trainer\nTrainer(model).train()", "the Hugging Face Trainer"),
        ("from accelerate import Accelerator\naccelerator = Accelerator()", "Accelerate"),
        ("import deepspeed\nengine, *_ = deepspeed.initialize(model=m)", "DeepSpeed"),
        ("from fastai.vision.all import Learner\nLearner(dls, model)", "fastai"),
    ],
)
def test_a_loop_owned_by_a_framework_is_said_to_be(text: str, name: str) -> None:
    assert of(text, "framework") == [f"the training loop runs inside {name}"]


STEPPED = """\
import torch
from torch import nn
model = nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1)
"""
TRAINED = "for x in torch.randn(9, 4).cuda():\n    model(x).sum().backward()\n    optimizer.step()\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(STEPPED, "of what is made in line 3, on CUDA", id="on the device"),
        pytest.param(
            STEPPED + "optimizer.load_state_dict(torch.load('o'))\n",
            "of what is made in line 3, on CUDA; a checkpoint is loaded into it, which decides how it steps (line 5)",
            id="a checkpoint",
        ),
        pytest.param(
            STEPPED.replace(".cuda()", ""), "its model is not moved to CUDA in this file", id="not on the device"
        ),
    ],
)
def test_parameters_of_an_optimizer(text: str, expected: str) -> None:
    assert of(text, "parameters") == [expected]


MULTIPLIED = f"{STEPPED}{TRAINED}".replace("nn.Linear(4, 1)", "nn.Linear(4, 2)")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(MULTIPLIED, ["multiplies matrices"], id="nothing is said of them"),
        pytest.param(
            f"{MULTIPLIED}torch.set_float32_matmul_precision('high')\n",
            ["the script lets them use TF32", "multiplies matrices"],
            id="TF32 is on",
        ),
        pytest.param(
            f"{MULTIPLIED}torch.backends.cuda.matmul.allow_tf32 = False\n",
            ["the script chooses the precision of products itself (line 8)", "multiplies matrices"],
            id="TF32 is off",
        ),
        pytest.param(
            f"{MULTIPLIED}print(torch.cdist(model.weight, model.weight))\n",
            ["torch.cdist() loses digits, and needs them all (line 8)", "multiplies matrices"],
            id="what needs all digits",
        ),
        pytest.param(
            MULTIPLIED.replace("nn.Linear(4, 2)", "nn.Conv1d(1, 1, 1)"),
            ["hardly multiplies matrices"],
            id="a convolution",
        ),
        pytest.param(STEPPED, [], id="nothing is trained"),
    ],
)
def test_products_in_32_bits(text: str, expected: list[str]) -> None:
    assert of(text, "products") == expected


def test_no_framework_where_it_is_only_imported() -> None:
    assert of("import accelerate\nimport torch", "framework") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("loader = DataLoader([])", ["'loader' still refers to the loader (line 2)"], id="a module's name"),
        pytest.param("def main():\n    loader = DataLoader([])", [], id="a function's"),
        pytest.param(
            "def main():\n    loader = DataLoader([])\n    watch(loader)",
            ["something may still refer to the loader (line 4)"],
            id="what is not followed",
        ),
        pytest.param("DataLoader([])", [], id="nothing"),
        pytest.param(
            "first = [each for each in [DataLoader([])]]", ["'first' still refers to the loader (line 2)"], id="a list"
        ),
        pytest.param(
            "def read():\n    for each in [DataLoader([])]:\n        print(each)\n\nread()", [], id="a loop's name"
        ),
        pytest.param(
            "def endless():\n    loader = DataLoader([])\n    while True:\n        yield from loader\n\nitems = endless()",
            ["'items' still refers to the loader (line 7)"],
            id="a generator that is kept",
        ),
        pytest.param(
            "from functools import partial\n\ndef run(loader):\n    print(loader)\n\nrun = partial(run, DataLoader([]))",
            ["'run' still refers to the loader (line 7)"],
            id="a partial function",
        ),
        pytest.param(
            "from functools import cache\n\n@cache\ndef get():\n    return DataLoader([])\n\ndef main():\n    get()",
            ["'get' still refers to the loader (line 5)"],
            id="a cache",
        ),
        pytest.param(
            "loader = None\n\ndef main(given=DataLoader([])):\n    print(given)",
            ["'main' still refers to the loader (line 4)"],
            id="a default",
        ),
        pytest.param(
            "def main():\n    batches = iter(DataLoader([]))\n    print(next(batches))\n\nmain()", [], id="an iterator"
        ),
        pytest.param(
            "batches = iter(DataLoader([]))",
            ["'batches' still refers to the loader (line 2)"],
            id="an iterator that is kept",
        ),
        pytest.param(
            "def get():\n    return DataLoader([])",
            ["something may still refer to the loader (line 3)"],
            id="whoever calls",
        ),
    ],
)
def test_what_refers_to_a_loader_at_the_end(text: str, expected: list[str]) -> None:
    assert of(f"from torch.utils.data import DataLoader\n{text}\n", "at exit") == expected
