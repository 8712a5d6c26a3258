"""The sum: how long a script runs, how large its models are, and which changes cannot pay for that."""

from __future__ import annotations

import ast
import types
from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.dataflow.values import Unknown
from codemods.facts.cost.worth import Worth
from codemods.library.kinds import Kind, kind

if TYPE_CHECKING:
    from codemods.dataflow.values import Value
    from codemods.facts.script import Script

IMPORTS = """\
import argparse, math, torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, SubsetRandomSampler, TensorDataset
from torch.utils.data import WeightedRandomSampler, random_split
from torchvision import datasets, models, transforms
device = "cuda"
"""


def worth(text: str, **others: str) -> Worth:
    return Worth(script(IMPORTS + text, **others))


def length(text: str, **others: str) -> int | None:
    """How often the training iteration of the script runs."""
    found = worth(text, **others)
    (iteration,) = found.script.iterations
    return found.lengths.of_iteration(iteration)


def loop(data: str, around: str = "for epoch in range(5):", rest: str = "batch_size=64") -> str:
    return f"""\
model = nn.Linear(8, 8)
loader = DataLoader({data}, {rest})
{around}
    for x, y in loader:
        model(x).sum().backward()
"""


@pytest.mark.parametrize(
    ("data", "batches"),
    [
        pytest.param("datasets.MNIST('d')", 938, id="60,000 images to train on, the last batch smaller"),
        pytest.param("datasets.MNIST('d', train=False)", 157, id="10,000 to test with"),
        pytest.param("datasets.CIFAR10('d', False)", 157, id="selected by position"),
        pytest.param("datasets.SVHN('d', split='extra')", 8299, id="a part of its own"),
        pytest.param("datasets.SVHN('d', 'test')", 407, id="the part to test with"),
        pytest.param(
            "datasets.EMNIST('d', split='letters')", 1950, id="a part that has images to train on and to test with"
        ),
        pytest.param("datasets.CIFAR100('d', train=bool(torch.rand(1)))", 782, id="unknown which: the larger part"),
        pytest.param("datasets.FakeData()", 16, id="generated, as many as torchvision makes"),
        pytest.param("datasets.FakeData(size=640)", 10, id="generated, as many as asked for"),
        pytest.param("datasets.ImageFolder('d')", None, id="whatever lies in a folder"),
        pytest.param("TensorDataset(torch.randn(640, 3), torch.zeros(640))", 10, id="tensors"),
        pytest.param("TensorDataset(torch.randint(0, 9, (640, 3)))", 10, id="whole numbers"),
        pytest.param("TensorDataset(torch.load('x'))", None, id="tensors from a file"),
        pytest.param("Subset(datasets.MNIST('d'), range(64))", 938, id="a part: at most all"),
        pytest.param("ConcatDataset([datasets.MNIST('d'), datasets.USPS('d')])", 1052, id="two of them"),
        pytest.param("random_split(datasets.MNIST('d'), [50000, 10000])[0]", 938, id="a random part: at most all"),
    ],
)
def test_batches(data: str, batches: int | None) -> None:
    found = worth(loop(data))
    assert found.lengths.batches(found.script.loaders[0]) == batches
    assert length(loop(data)) == (None if batches is None else 5 * batches)


@pytest.mark.parametrize(
    ("rest", "batches"),
    [
        pytest.param("", 60000, id="one at a time"),
        pytest.param("batch_size=64, drop_last=True", 937, id="without the last batch"),
        pytest.param("batch_size=4 * 16", 938, id="computed"),
        pytest.param("batch_size=int(input())", None, id="not known"),
        pytest.param("batch_sampler=object()", None, id="a sampler of batches"),
        pytest.param("batch_size=64, sampler=SubsetRandomSampler(range(9))", 938, id="a part"),
        pytest.param("batch_size=64, sampler=WeightedRandomSampler([1], 9)", None, id="drawn again and again"),
        pytest.param("**{'batch_size': 64}", 938, id="from a dictionary"),
        pytest.param("**dict(options)", None, id="from what is not known"),
    ],
)
def test_batches_by_arguments(rest: str, batches: int | None) -> None:
    found = worth(loop("datasets.MNIST('d')", rest=rest))
    assert found.lengths.batches(found.script.loaders[0]) == batches


@pytest.mark.parametrize(
    ("around", "epochs"),
    [
        pytest.param("for epoch in range(1, 5 + 1):", 5, id="from one"),
        pytest.param("epochs = 2 * 3\nfor epoch in range(epochs):", 6, id="a constant of the module"),
        pytest.param("epochs = 5\nepochs = 6\nfor epoch in range(epochs):", 6, id="bound again"),
        pytest.param("for epoch in [1, 2]:", 2, id="a list"),
        pytest.param("import tqdm\nfor epoch in tqdm.tqdm(range(3)):", 3, id="with a bar"),
        pytest.param("import tqdm\nfor epoch in tqdm.trange(3):", 3, id="the bar's own range"),
        pytest.param("for epoch in enumerate(range(3)):", 3, id="counted"),
        pytest.param("while True:", None, id="until something happens"),
        pytest.param("for epoch in range(int(input())):", None, id="asked for"),
        pytest.param("for epoch in list(range(10 ** 12)):", None, id="a list of more than anybody follows"),
        pytest.param("for epoch in [0] * 999 * 999 * 999 * 999:", None, id="a list that is multiplied"),
        pytest.param("for epoch in ('%999999999d' % 3):", None, id="a text that is formatted"),
        pytest.param("n = 3\nn += int(input())\nfor epoch in range(n):", None, id="added to"),
        pytest.param("if device:", 1, id="at most once"),
    ],
)
def test_epochs(around: str, epochs: int | None) -> None:
    assert length(loop("datasets.MNIST('d')", around)) == (None if epochs is None else 938 * epochs)


OPTIONS = """\
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--steps", type=int)
args = parser.parse_args()
"""


@pytest.mark.parametrize(
    ("text", "count"),
    [
        pytest.param(OPTIONS + loop("datasets.MNIST('d')", "for epoch in range(args.epochs):"), 2814, id="a default"),
        pytest.param(OPTIONS + loop("datasets.MNIST('d')", "for epoch in range(args.steps):"), None, id="no default"),
        pytest.param(
            "model = nn.Linear(8, 8)\nmax_iters = 200\nfor step in range(max_iters):\n    model(x).sum().backward()\n",
            200,
            id="its own loop over steps",
        ),
        pytest.param(
            """\
model = nn.Linear(8, 8)
def train(loader):
    for x in loader:
        model(x).sum().backward()
def main(epochs):
    loader = DataLoader(datasets.MNIST('d'), 64)
    for epoch in range(epochs):
        train(loader)
    train(loader)
main(3)
""",
            4 * 938,
            id="through functions, all calls together",
        ),
        pytest.param(
            """\
model = nn.Linear(8, 8)
def train(loader, depth):
    for x in loader:
        model(x).sum().backward()
    train(loader, depth - 1)
train(DataLoader(datasets.MNIST('d'), 64), 3)
""",
            None,
            id="a function that calls itself",
        ),
        pytest.param(
            """\
class Data(Dataset):
    def __init__(self, n):
        self.n = n
    def __len__(self):
        return 10 * self.n
    def __getitem__(self, i):
        return torch.rand(8), 0
"""
            + loop("Data(32)"),
            25,
            id="a data set of the project",
        ),
        pytest.param(
            """\
class Data(Dataset):
    def __init__(self):
        self.items = []
        for line in open("x"):
            self.items.append(line)
    def __len__(self):
        return len(self.items)
    def __getitem__(self, i):
        return self.items[i]
"""
            + loop("Data()"),
            None,
            id="a list that is filled when the script runs",
        ),
        pytest.param(
            "config = {'epochs': 3}\n" + loop("datasets.MNIST('d')", "for epoch in range(config['epochs']):"),
            2814,
            id="from a dictionary",
        ),
        pytest.param(
            "config = {'epochs': 3}\nconfig['epochs'] = int(input())\n"
            + loop("datasets.MNIST('d')", "for epoch in range(config['epochs']):"),
            None,
            id="from a dictionary that is changed",
        ),
    ],
)
def test_iterations(text: str, count: int | None) -> None:
    assert length(text) == count


def test_defaults_of_click() -> None:
    text = """\
import click
@click.command()
@click.option("--epochs", default=3)
def main(epochs):
    model = nn.Linear(8, 8)
    for x in range(epochs):
        model(x).sum().backward()
main()
"""
    assert length(text) == 3


def test_iterations_through_modules() -> None:
    text = "from engine import train\nfor epoch in range(3):\n    train(DataLoader(datasets.MNIST('d'), 64))\n"
    engine = "from torch import nn\nmodel = nn.Linear(8, 8)\ndef train(loader):\n    for x in loader:\n        model(x).sum().backward()\n"
    assert length(text, engine=engine) == 2814


# Models.

NETWORKS = {
    "layers by computed names": """\
class Net(nn.Module):
    def __init__(self, count=3):
        super().__init__()
        for i in range(count):
            setattr(self, f"layer{i}", nn.Linear(8, 8))
        self.rest = nn.ModuleList()
        for i in range(2):
            self.rest.append(nn.Linear(8, 4))
        self.add_module("last", nn.Linear(4, 2))
    def forward(self, x):
        return self.last(self.rest[0](self.layer0(x)))
model = Net()
""",
    "layers in a row": """\
class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2, bias=False))
model = Net()
""",
    "a function that makes blocks": """\
def block(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())
model = nn.Sequential(block(1, 8), nn.MaxPool2d(2), block(8, 16), nn.Flatten(), nn.Linear(16 * 14 * 14, 10))
""",
    "blocks in a comprehension": """\
class Block(nn.Module):
    def __init__(self, width, expansion=4):
        super().__init__()
        hidden = int(expansion * width)
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
    def forward(self, x):
        return self.down(self.up(self.norm(x)))
class Net(nn.Module):
    def __init__(self, depth, width):
        super().__init__()
        self.embedding = nn.Embedding(100, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
model = Net(3, width=16)
""",
    "a list that grows": """\
class Net(nn.Module):
    def __init__(self, widths=(32, 16)):
        super().__init__()
        layers, width = [], 8
        for size in widths:
            layers += [nn.Linear(width, size), nn.BatchNorm1d(size), nn.PReLU()]
            width = size
        layers.append(nn.Linear(width, 1))
        self.layers = nn.Sequential(*layers)
    def forward(self, x):
        return self.layers(x)
model = Net()
""",
    "stages as in a residual network": """\
class Unit(nn.Module):
    expansion = 2
    def __init__(self, inputs, width, stride=1, downsample=None):
        super().__init__()
        self.conv = nn.Conv2d(inputs, width * self.expansion, 3, stride, 1)
        self.downsample = downsample
    def forward(self, x):
        return self.conv(x) + (x if self.downsample is None else self.downsample(x))
class Net(nn.Module):
    def __init__(self, unit, counts):
        super().__init__()
        self.width = 8
        self.first = self._stage(unit, 8, counts[0])
        self.second = self._stage(unit, 16, counts[1], stride=2)
        self.fc = nn.Linear(16 * unit.expansion, 10)
    def _stage(self, unit, width, count, stride=1):
        downsample = None
        if stride != 1 or self.width != width * unit.expansion:
            downsample = nn.Sequential(nn.Conv2d(self.width, width * unit.expansion, 1, stride))
        layers = [unit(self.width, width, stride, downsample)]
        self.width = width * unit.expansion
        for _ in range(1, count):
            layers.append(unit(self.width, width))
        return nn.Sequential(*layers)
    def forward(self, x):
        return self.fc(self.second(self.first(x)).mean((2, 3)))
model = Net(Unit, [2, 3])
""",
    "what torch stacks itself": """\
model = nn.Sequential(
    nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 3),
    nn.TransformerDecoderLayer(d_model=16, nhead=2, dim_feedforward=64),
    nn.Transformer(16, 2, 2, 3, 32, batch_first=True),
    nn.LSTM(16, 8, num_layers=2, bidirectional=True),
    nn.GRU(16, 8), nn.RNN(8, 4, 3),
    nn.ConvTranspose2d(4, 6, 2, groups=2), nn.Conv1d(4, 8, (3,), groups=4), nn.GroupNorm(2, 8),
)
""",
    "a class that derives from one of the project": """\
class Base(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(width, width)
class Net(Base):
    def __init__(self, width, flag=True):
        super().__init__(2 * width)
        self.second = nn.Linear(width, 1) if flag else None
        self.same = self.first
model = Net(8)
""",
    "layers by name": """\
from collections import OrderedDict
model = nn.Sequential(OrderedDict([("a", nn.Linear(8, 4)), ("b", nn.Linear(4, 2))]))
""",
}


@pytest.mark.parametrize("text", NETWORKS.values(), ids=NETWORKS.keys())
def test_parameters_are_those_that_torch_counts(text: str) -> None:
    pytest.importorskip("torchvision")
    module = types.ModuleType("network")
    exec(compile(IMPORTS + text, "network", "exec"), module.__dict__)  # noqa: S102 - texts of this file
    assert parameters(text) == sum(each.numel() for each in module.model.parameters())


def model(found: Script) -> Value:
    """The model that is assigned to ``model``."""
    assignment = [each for each in found.module.nodes(ast.Assign) if ast.unparse(each.targets[0]) == "model"][-1]
    (value,) = found.flow.values(assignment.value)
    assert kind(found.flow, value) is Kind.MODEL or isinstance(value, Unknown)
    return value


def parameters(text: str) -> int | None:
    found = worth(text)
    sizes = found.networks.sizes(model(found.script))
    return None if sizes is None else sizes.parameters


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("model = nn.Linear(int(input()), 8)", id="a width that is asked for"),
        pytest.param("model = nn.Sequential(*make())", id="layers from code that is not read"),
        pytest.param("import timm\nmodel = timm.create_model('resnet18')", id="a network of another library"),
        pytest.param(
            "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        if input():\n            self.a = nn.Linear(8, 8)\nmodel = Net()",
            id="a layer that may be there or not",
        ),
        pytest.param(
            "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        layers = []\n"
            "        for each in open('x'):\n            layers.append(nn.Linear(8, 8))\n"
            "        self.layers = nn.Sequential(*layers)\nmodel = Net()",
            id="as many layers as a file has lines",
        ),
        pytest.param(
            "class Net(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n"
            "        self.a = nn.Linear(8, 8)\n        self.b = Net(n)\nmodel = Net(3)",
            id="a class that makes itself for ever",
        ),
        pytest.param(
            "model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(10 ** 9)])", id="more than anybody follows"
        ),
        pytest.param(
            "from elsewhere import backbone\nclass Net(nn.Module):\n    def __init__(self):\n"
            "        super().__init__()\n        self.backbone = backbone()\n        self.head = nn.Linear(8, 2)\n"
            "model = Net()",
            id="a layer from code that is not read",
        ),
        pytest.param(
            "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.features = models.vgg16().features\n        self.head = nn.Linear(8, 2)\nmodel = Net()",
            id="a part of a network of a library",
        ),
        pytest.param(
            "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.layers = nn.ModuleDict()\n        for name in open('x'):\n"
            "            self.layers[name] = nn.Linear(8, 2)\nmodel = Net()",
            id="layers by names from a file",
        ),
        pytest.param(
            "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        for i in range(10 ** 9):\n            pass\n        self.a = nn.Linear(8, 2)\nmodel = Net()",
            id="a loop that nobody follows to its end",
        ),
        pytest.param(
            "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.a = nn.Parameter(torch.zeros(8, 8))\nmodel = Net()",
            id="parameters of its own",
        ),
    ],
)
def test_size_is_not_known(text: str) -> None:
    assert parameters(text) is None


def test_size_of_a_network_of_torchvision() -> None:
    assert parameters("model = models.resnet18(weights=None, num_classes=7)") == 11_690_000


def operations(
    text: str, data: str = "datasets.MNIST('d', transform=transforms.ToTensor())", batch: int = 50
) -> int | None:
    """Operations of an iteration that trains the model on the data."""
    training = f"for x, y in DataLoader({data}, {batch}):\n    model(x).sum().backward()\n"
    found = worth(text + training)
    return found.operations(model(found.script))


MLP = "model = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))\n"


def test_linear_layers_on_images() -> None:
    assert operations(MLP) == 3 * 2 * 50 * (784 * 128 + 128 * 10)


def test_convolutions_on_images() -> None:
    text = "model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1))\n"
    assert operations(text) == 3 * 2 * 50 * 28 * 28 * 9 * (8 + 8 * 16)


@pytest.mark.parametrize(
    ("steps", "side"),
    [
        pytest.param("transforms.ToTensor()", 32, id="as large as they are"),
        pytest.param("transforms.Resize(64)", 64, id="larger"),
        pytest.param(
            "transforms.Compose([transforms.Pad(4), transforms.RandomHorizontalFlip()])", 40, id="with a border"
        ),
        pytest.param("transforms.Compose([transforms.Resize(64), transforms.RandomCrop(56, 4)])", 56, id="cropped"),
        pytest.param("transforms.Resize((64, 64))", 64, id="both sides are given"),
        pytest.param("transforms.Lambda(lambda x: x)", None, id="some function"),
    ],
)
def test_sizes_of_images(steps: str, side: int | None) -> None:
    data = f"datasets.CIFAR10('d', transform={steps})"
    found = operations("model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())\n", data)
    assert found == (None if side is None else 3 * 2 * 50 * side * side * 3 * 8 * 9)


def test_network_of_torchvision_on_small_images() -> None:
    # At least as much as for the images that it was published with: its last layers do not shrink.
    data = "datasets.CIFAR10('d', transform=transforms.ToTensor())"
    assert operations("model = models.resnet18()\n", data) == 3 * 50 * int(2e9 * 1.814)


@pytest.mark.parametrize(
    "forward",
    [
        pytest.param("return self.a(x) @ x", id="a product of its own"),
        pytest.param("return torch.matmul(x, self.a(x))", id="a product by a function"),
        pytest.param("return attend(self.a(x))", id="a product in a function of the project"),
        pytest.param("return fused(self.a(x))", id="a function that is not read"),
        pytest.param("return nn.functional.interpolate(self.a(x), scale_factor=9)", id="made larger"),
        pytest.param("for _ in range(n):\n            x = self.a(x)\n        return x", id="again and again"),
    ],
)
def test_operations_are_not_known(forward: str) -> None:
    text = f"""\
from kernels import fused

def attend(x):
    return x @ x

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(1, 1, 3)
    def forward(self, x):
        {forward}
model = Net()
"""
    assert operations(text) is None


def test_a_layer_that_is_called_twice_counts_twice() -> None:
    text = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(1, 1, 3, padding=1)
        self.relu = nn.ReLU()
    def forward(self, x):
        return self.relu(self.a(self.relu(self.a(self.relu(x)))))
model = Net()
"""
    assert operations(text) == 2 * 3 * 2 * 50 * 28 * 28 * 9


def test_steps_within_a_step_count() -> None:
    text = "for x, y in DataLoader(datasets.MNIST('d', transform=transforms.ToTensor()), 50):\n"
    text += "    loss = 0\n    for _ in range(4):\n        loss = loss + model(x).sum()\n    loss.backward()\n"
    found = worth(MLP + text)
    assert found.operations(model(found.script)) == 4 * 3 * 2 * 50 * (784 * 128 + 128 * 10)
