"""What the worker rules write is run: with forked and with spawned workers, under the guards and without them."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from autotune_rewrite.rewriting.config import Settings
from autotune_rewrite.rewriting.rewrite import rewrite
from codemods.codemod import Promise
from codemods.rules.loader_persistent import LoaderPersistent
from codemods.rules.loader_workers import LoaderWorkers

if TYPE_CHECKING:
    from pathlib import Path

# Its workers are as many as the user says, so that they run without CUDA too.
SCRIPT = """\
import argparse
import json

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--start", default="fork")
parser.add_argument("--epochs", type=int, default=3)
opt = parser.parse_args()
torch.multiprocessing.set_start_method(opt.start, force=True)
use_cuda = torch.cuda.is_available()
size = 4


class Ramps(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        numbers = json.loads(str([index + each for each in range(size)]))
        return torch.tensor(numbers, dtype=torch.float32), float(index)


torch.manual_seed(0)
loader = DataLoader(Ramps(), batch_size=5, shuffle=True)


def epoch_losses(loader, model, optimizer):
    for numbers, target in loader:
        if use_cuda:
            numbers, target = numbers.cuda(), target.cuda()
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(numbers).squeeze(1), target.float())
        loss.backward()
        optimizer.step()
        yield loss.item().hex()


model = nn.Linear(size, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for epoch in range(opt.epochs):
    print(*epoch_losses(loader, model, optimizer))
"""
# What would go wrong, were it not left.
CRASHES = """\
import multiprocessing, sys, warnings
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

warnings.simplefilter("ignore")


class Items(Dataset):
    def __init__(self):
        self.cache = {}

    def __len__(self):
        return 4

    def __getitem__(self, index):
        self.cache[index] = index
        return torch.tensor(index)


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(4))


class Drawing(Items):
    def __init__(self):
        self.numbers = torch.Generator().manual_seed(0)

    def __getitem__(self, index):
        return torch.rand(1, generator=self.numbers)


def train(_):
    try:
        return len(list(DataLoader(Items(), num_workers=1)))
    except AssertionError as error:
        return str(error)


def orders(workers):
    torch.manual_seed(0)
    one, other = (DataLoader(range(9), shuffle=True, num_workers=workers) for _ in "ab")
    return [(a.item(), b.item()) for a, b in zip(one, other)]


def late(workers):
    torch.manual_seed(0)
    batches = iter(DataLoader(range(9), shuffle=True, num_workers=workers))
    torch.randn(3)
    return [batch.item() for batch in batches]


items = Items()
list(DataLoader(items, num_workers=2))
print("cached", len(items.cache))
print("streamed", len(list(DataLoader(Stream(), num_workers=2))))
print("different", len({x.item() for x in DataLoader(Drawing(), num_workers=4)}))
with multiprocessing.get_context("fork").Pool(1) as pool:
    print("pool", *pool.map(train, [0]))
print("zipped alike", orders(0) == orders(1))
print("late alike", late(0) == late(1))
loader = DataLoader(range(4), num_workers=1, persistent_workers=True)
print("pairs", [(a.item(), b.item()) for a, b in zip(loader, loader)])
"""
# Runs scripts one after another in one process, as importing torch takes seconds, and prints what each printed.
RUN_ALL = """\
import contextlib, io, json, runpy, sys

printed = []
for script, *arguments in json.loads(sys.argv[1]):
    sys.argv = [script, *arguments]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        runpy.run_path(script, run_name="__main__")
    printed.append(out.getvalue().splitlines())
print(json.dumps(printed))
"""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], capture_output=True, check=False, text=True, timeout=500)


def rewritten(*rules: type[LoaderWorkers | LoaderPersistent]) -> str:
    settings = Settings(frozenset(rule.name() for rule in rules), Promise.TRAINING)
    return rewrite("train.py", SCRIPT, settings, rounds=(rules,)).after


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the script as it was published, and rewritten by one rule and by both."""
    folder = tmp_path_factory.mktemp("scripts")
    (folder / "before.py").write_text(SCRIPT, encoding="utf-8")
    (folder / "workers.py").write_text(rewritten(LoaderWorkers), encoding="utf-8")
    (folder / "staying.py").write_text(rewritten(LoaderWorkers, LoaderPersistent), encoding="utf-8")
    (folder / "crashes.py").write_text(CRASHES, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def printed(scripts: Path) -> list[list[str]]:
    """The lines: before, with forked workers, with such that stay, with none, and of what would go wrong."""
    runs = (["before.py"], ["workers.py"], ["staying.py"], ["staying.py", "--workers", "0"], ["crashes.py"])
    done = run("-c", RUN_ALL, json.dumps([[str(scripts / name), *arguments] for name, *arguments in runs]))
    assert done.returncode == 0, done.stderr
    return [list(lines) for lines in json.loads(done.stdout)]


def test_the_script_needs_two_guards(scripts: Path) -> None:
    text = (scripts / "workers.py").read_text(encoding="utf-8")
    assert text.count('if __name__ == "__main__":') == 2
    assert "num_workers=opt.workers" in text


def test_the_losses_are_the_same_with_workers_that_are_forked(printed: list[list[str]]) -> None:
    assert printed[1] == printed[0]
    assert len(printed[0]) == 3


def test_workers_that_stay_train_as_well(printed: list[list[str]]) -> None:
    # The first epoch alike, the others in another order.
    assert printed[2][0] == printed[0][0]
    assert [len(line.split()) for line in printed[2]] == [len(line.split()) for line in printed[0]]


def test_without_workers_none_stay(printed: list[list[str]]) -> None:
    assert printed[3] == printed[0]


def test_the_losses_are_the_same_with_workers_that_import_the_script(scripts: Path, printed: list[list[str]]) -> None:
    # Each worker imports torch, for each epoch.
    done = run(str(scripts / "workers.py"), "--start", "spawn", "--workers", "1", "--epochs", "1")

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == printed[0][:1]


@pytest.mark.slow
def test_without_the_guards_workers_that_import_the_script_fail(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        SCRIPT.replace("shuffle=True)", "shuffle=True, num_workers=opt.workers)"), encoding="utf-8"
    )
    done = run(str(tmp_path / "train.py"), "--start", "spawn", "--workers", "1")

    assert done.returncode != 0
    assert "bootstrapping phase" in done.stderr


def test_what_the_guards_prevent_happens(printed: list[list[str]]) -> None:
    assert printed[4] == [
        "cached 0",
        "streamed 8",
        "different 1",
        "pool daemonic processes are not allowed to have children",
        "zipped alike False",
        "late alike False",
        "pairs [(0, 1), (2, 3)]",
    ]
