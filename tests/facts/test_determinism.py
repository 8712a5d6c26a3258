"""The same script has the same facts: in every process, and whatever is asked first."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

from probe import shown

from codemods.dataflow.source import Module
from codemods.facts.describe import facts_by_line
from codemods.facts.script import Script

HERE = Path(__file__).parent
FIXTURES = sorted((HERE.parent.parent / "fixtures").glob("*/*.py"))

# Sets of several values everywhere: branches, dictionaries, overridden methods, helpers that everything goes through.
TANGLED = """\
import argparse, random, torch
from functools import partial
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torchvision import datasets, models, transforms

args = argparse.ArgumentParser().parse_args()
args.device = torch.device("cuda" if args.cuda else "cpu")
kwargs = {"num_workers": 2, "pin_memory": True} if args.cuda else {}
kwargs.update({"shuffle": True})

def default(value, other):
    return value if value is not None else other

class Base(Dataset):
    def __init__(self, data, transform=None):
        self.data, self.transform = data, default(transform, transforms.ToTensor())
    def __getitem__(self, i):
        return self.change(self.data[i])
    def change(self, x):
        return self.transform(x)

class Random(Base):
    def change(self, x):
        return super().change(x) + random.random()

class Net(nn.Module):
    def __init__(self, depth, make=nn.ReLU):
        super().__init__()
        self.layers = nn.ModuleList()
        for kind in [nn.Linear, nn.Conv2d, nn.GRU, make]:
            self.layers.append(kind(8, 8))
        setattr(self, f"head{depth}", nn.Tanh())
        self.body = nn.Sequential(*[nn.Linear(8, 8) for _ in range(depth)], models.resnet18())
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.body(x)

def data(kind):
    if kind == "a":
        return Base(datasets.MNIST("d"))
    elif kind == "b":
        return Random(TensorDataset(torch.zeros(3)))
    return {"c": [1, 2], "d": datasets.ImageFolder("e")}[kind]

loaders = {name: DataLoader(data(name), args.batch, **kwargs) for name in ["a", "b", "c"]}
nets = [Net(3), nn.DataParallel(Net(4)), partial(Net, 5)(make=nn.ELU)]
optimizers = [getattr(optim, args.optimizer)(net.parameters()) for net in nets] + [optim.SGD(nets[0].parameters(), 1)]

def run(step, phase="train"):
    for x, y in loaders[phase]:
        x = x.to(args.device) if args.cuda else x.to("cpu")
        for net, optimizer in zip(nets, optimizers):
            net = default(net, nets[0])
            loss = nn.functional.cross_entropy(net(x), y.to(args.device, non_blocking=step))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

for phase in ("train", "val"):
    run(1, phase)
    if phase == "val":
        for net in nets:
            net.eval()
            print(net(torch.zeros(1).to(args.device)).argmax())
"""

DUMP = """\
import sys
sys.path[:0] = sys.argv[1:3]
from test_determinism import dump
print(dump())
"""


def scripts() -> list[Script]:
    texts = [TANGLED, *(path.read_text(encoding="utf-8") for path in FIXTURES)]
    # Halves of the tangle are scripts, too: names are missing, functions are never called.
    texts += [TANGLED[: TANGLED.index(mark)] for mark in ("class Net", "loaders =", "def run", "for phase")]
    return [Script.of(Module("train.py", text)) for text in texts]


def dump() -> str:
    """The facts of the scripts, and the values of all of their nodes."""
    found = []
    for script in scripts():
        values = [
            sorted(shown(value) for value in script.flow.values(node))
            for kind in (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Tuple)
            for node in script.module.nodes(kind)
        ]
        callers = [[call.lineno for call in script.flow.callers(each)] for each, _, _ in script.flow.functions()]
        found.append(f"{facts_by_line(script)}\n{values}\n{callers}")
    return "\n".join(found)


def run(*command: str, seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False, env=environment, cwd=HERE
    ).stdout


def test_facts_do_not_depend_on_hash_seeds() -> None:
    root = str(HERE.parent.parent)
    one, two, three = (run("-c", DUMP, root, str(HERE), seed=seed) for seed in ("0", "1", "2"))
    assert "loader: batch_size by position" in one
    assert one == two == three


def test_findings_do_not_depend_on_hash_seeds(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(TANGLED, encoding="utf-8")
    command = ("-m", "autotune_rewrite", "check", "--format", "json", str(path), *map(str, FIXTURES))
    one, two = (run(*command, seed=seed) for seed in ("0", "1"))
    assert '"loader-pin"' in one
    assert one == two


def test_facts_do_not_depend_on_the_order_of_questions() -> None:
    questions = ["evaluations", "iterations", "schedulers", "optimizers", "models", "transfers", "loaders"]
    for one, two in zip(scripts(), scripts(), strict=True):
        for question in questions:
            assert getattr(two, question) is not None
        assert facts_by_line(one) == facts_by_line(two)
        assert facts_by_line(one) == facts_by_line(one), "asked twice"
