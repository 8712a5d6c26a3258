"""What the worker rules write is run: with forked and with spawned workers, under the guard and without it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from autotune_rewrite.config import Settings
from autotune_rewrite.rewrite import rewrite
from codemods.declaration import Promise
from codemods.loader_persistent import LoaderPersistent
from codemods.loader_workers import LoaderWorkers

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


def epoch_losses(loader, model, optimizer):
    for numbers, target in loader:
        if use_cuda:
            numbers, target = numbers.cuda(), target.cuda()
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(numbers).squeeze(1), target.float())
        loss.backward()
        optimizer.step()
        yield loss.item().hex()


torch.manual_seed(0)
model = nn.Linear(size, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
loader = DataLoader(Ramps(), batch_size=5, shuffle=True)
for epoch in range(opt.epochs):
    print(*epoch_losses(loader, model, optimizer))
"""


def run(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = folder / "train.py"
    script.write_text(text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, str(script), *arguments], cwd=folder, capture_output=True, check=False, text=True, timeout=500
    )


def rewritten(*rules: type[LoaderWorkers | LoaderPersistent]) -> str:
    settings = Settings(frozenset(rule.name() for rule in rules), Promise.TRAINING)
    return rewrite("train.py", SCRIPT, settings, rounds=(rules,)).after


@pytest.fixture(scope="module")
def losses(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the script prints as it was published."""
    done = run(tmp_path_factory.mktemp("before"), SCRIPT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_losses_are_the_same_with_workers_that_are_forked(losses: str, tmp_path: Path) -> None:
    after = rewritten(LoaderWorkers)
    assert "num_workers=opt.workers" in after

    done = run(tmp_path, after)

    assert done.returncode == 0, done.stderr
    assert done.stdout == losses


def test_the_losses_are_the_same_with_workers_that_import_the_script(losses: str, tmp_path: Path) -> None:
    # Each worker imports torch, for each epoch.
    done = run(tmp_path, rewritten(LoaderWorkers), "--start", "spawn", "--epochs", "1")

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == losses.splitlines()[:1]


def test_without_the_guard_workers_that_import_the_script_fail(tmp_path: Path) -> None:
    unguarded = SCRIPT.replace("shuffle=True)", "shuffle=True, num_workers=opt.workers)")

    done = run(tmp_path, unguarded, "--start", "spawn", "--workers", "1")

    assert done.returncode != 0
    assert "bootstrapping phase" in done.stderr


def test_workers_that_stay_train_as_well(losses: str, tmp_path: Path) -> None:
    done = run(tmp_path, rewritten(LoaderWorkers, LoaderPersistent))

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == losses.splitlines()[0]
    assert len(done.stdout.split()) == len(losses.split())


def test_without_workers_none_stay(losses: str, tmp_path: Path) -> None:
    done = run(tmp_path, rewritten(LoaderWorkers, LoaderPersistent), "--workers", "0")

    assert done.returncode == 0, done.stderr
    assert done.stdout == losses
