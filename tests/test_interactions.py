"""Rules beside each other: all of them, each alone, each two, and those that would be in each other's way.

Rules never look at each other, so that any of them can be left out. Whole scripts show that it holds: whatever is
chosen, what comes out is Python, and a second pass with the same choice changes nothing.
"""

from __future__ import annotations

import functools
from difflib import ndiff
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from autotune_rewrite.rewriting.config import Options, settings
from autotune_rewrite.rewriting.rewrite import rewrite
from codemods.catalogue import RULES
from tests.scripts import ALL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from autotune_rewrite.rewriting.results import Rewrite
    from tests.scripts import Fixture


def rewritten(text: str, rules: Iterable[str]) -> Rewrite:
    """What these rules make of a script, as if they were selected on the command line."""
    return rewrite("train.py", text, settings(Path("/"), Options(select=tuple(rules))))


@functools.cache
def acting(script: Fixture) -> tuple[str, ...]:
    """The rules that change the script when they run alone."""
    text = script.text("naive.py")
    return tuple(rule for rule in RULES if rewritten(text, [rule]).after != text)


def check_stays(text: str, rules: Iterable[str]) -> None:
    """What the rules make of a script is Python, and they make nothing more of it."""
    once = rewritten(text, rules).after
    compile(once, "train.py", "exec")
    assert rewritten(once, rules).after == once


@pytest.mark.parametrize("script", ALL, ids=lambda script: script.name)
class TestOfAWholeScript:
    def test_each_rule_alone_stays(self, script: Fixture) -> None:
        assert acting(script)
        for rule in acting(script):
            check_stays(script.text("naive.py"), [rule])

    def test_all_rules_with_those_that_are_opt_in_stay(self, script: Fixture) -> None:
        check_stays(script.text("naive.py"), RULES)

    @pytest.mark.slow
    def test_each_two_rules_stay(self, script: Fixture) -> None:
        for two in combinations(acting(script), 2):
            check_stays(script.text("naive.py"), two)


HEAD = """\
import torch
from torch import nn

device = torch.device("cuda")
"""
TRAINS = """\
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(10000):
    x, y = torch.rand(512, 784, device=device), torch.rand(512, 1, device=device)
    optimizer.zero_grad()
    loss = {loss}
    loss.backward()
    optimizer.step()
"""
READS = """\
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
"""
IN_MEMORY = f"""\
from torch.utils.data import DataLoader, TensorDataset
{HEAD}
data = TensorDataset(torch.rand(60000, 784), torch.randint(10, (60000,)))
loader = DataLoader(data, batch_size=64, shuffle=True)
{READS}"""
DECODED = f"""\
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
{HEAD}
data = datasets.MNIST("data", transform=transforms.ToTensor())
loader = DataLoader(data, batch_size=64, shuffle=True)
{READS}"""
SCRIPTED = f"""\
{HEAD}
model = torch.jit.script(nn.Sequential(nn.Linear(784, 4096), nn.ReLU(), nn.Linear(4096, 1)).to(device))
{TRAINS.format(loss="nn.functional.mse_loss(model(x), y)")}"""
PROBABILITIES = f"""\
{HEAD}
model = nn.Sequential(nn.Linear(784, 4096), nn.ReLU(), nn.Linear(4096, 1), nn.Sigmoid()).to(device)
criterion = nn.BCELoss()
{TRAINS.format(loss="criterion(model(x), y)")}"""
WIDE = f"""\
{HEAD}
model = nn.Sequential(nn.Linear(784, 4096), nn.ReLU(), nn.Linear(4096, 1)).to(device)
{TRAINS.format(loss="nn.functional.mse_loss(model(x), y)")}"""
SUMS = f"""\
{HEAD}
model = nn.Sequential(nn.Linear(784, 4096), nn.ReLU(), nn.Linear(4096, 1)).to(device)
kept = total = 0.0
{TRAINS.format(loss="nn.functional.mse_loss(model(x), y)")}\
    kept += loss
    total += loss.item()
print(float(kept), total)
"""
HALVED = f"""\
{HEAD}
model = nn.Sequential(nn.Linear(784, 4096), nn.ReLU(), nn.Linear(4096, 1)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.cuda.amp.GradScaler()
for step in range(10000):
    x, y = torch.rand(512, 784, device=device), torch.rand(512, 1, device=device)
    optimizer.zero_grad()
    with torch.cuda.amp.autocast():
        loss = nn.functional.mse_loss(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


RECOLOURED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

transform = transforms.ToTensor()
colours = datasets.CIFAR10("data", transform=transform)
loader = DataLoader(colours, batch_size=512)
model = nn.Sequential(nn.Conv2d(3, 512, 3, padding=1), nn.Conv2d(512, 512, 3, padding=1), nn.Conv2d(512, 3, 3, padding=1))
model.cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(50):
    for x, _ in loader:
        x = x.cuda()
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), x)
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("text", "rules", "inserted", "left"),
    [
        pytest.param(
            IN_MEMORY,
            ("dataset-on-device", "loader-pin", "h2d-non-blocking", "loader-workers", "loader-persistent"),
            [
                "from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset",
                "data = TensorDataset(torch.rand(60000, 784).to(device), torch.randint(10, (60000,)).to(device))",
                "loader = DataLoader(data, batch_size=None, sampler=BatchSampler(RandomSampler(data), 64, drop_last=False))",
            ],
            {"loader-pin", "h2d-non-blocking", "loader-workers"},
            id="what lies on the device is neither pinned nor sent by workers",
        ),
        pytest.param(
            DECODED,
            ("dataset-materialize", "loader-workers", "loader-pin", "h2d-non-blocking"),
            [
                "from torch.utils.data import DataLoader, TensorDataset",
                "# all images at once, as one tall image",
                "images = data.transform(",
                "    data.data.flatten(0, 1).numpy()",
                ").view(data.data.unsqueeze(1).shape)",
                "data = TensorDataset(images, data.targets)",
                "loader = DataLoader(data, batch_size=64, shuffle=True, pin_memory=True)",
                "        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)",
            ],
            {"loader-workers"},
            id="what is decoded once needs no workers but pinned memory",
        ),
        pytest.param(
            SCRIPTED,
            ("jit-to-compile", "compile"),
            [
                "model = nn.Sequential(nn.Linear(784, 4096), nn.ReLU(), nn.Linear(4096, 1)).to(device)",
                "compiled_model = torch.compile(model)",
                "    loss = nn.functional.mse_loss(compiled_model(x), y)",
            ],
            set(),
            id="TorchScript goes before compile comes",
        ),
        pytest.param(
            SCRIPTED, ("jit-to-compile",), [], {"jit-to-compile"}, id="TorchScript stays where compile is not to come"
        ),
        pytest.param(
            PROBABILITIES,
            ("bce-logits", "amp"),
            [
                "model = nn.Sequential(nn.Linear(784, 4096), nn.ReLU(), nn.Linear(4096, 1)).to(device)",
                "criterion = nn.BCEWithLogitsLoss()",
                "amp_dtype = torch.bfloat16 if torch.cuda.get_device_capability()[0] >= 8 else torch.float16",
                'scaler = torch.amp.GradScaler("cuda", enabled=amp_dtype is torch.float16)',
                '    with torch.autocast("cuda", dtype=amp_dtype):',
                "        loss = criterion(model(x), y)",
                "    scaler.scale(loss).backward()",
                "    scaler.step(optimizer)",
                "    scaler.update()",
            ],
            set(),
            id="logits let 16 bits in",
        ),
        pytest.param(PROBABILITIES, ("amp",), [], {"amp"}, id="probabilities keep 16 bits out"),
        pytest.param(
            WIDE,
            ("amp", "tf32-matmul"),
            [
                "amp_dtype = torch.bfloat16 if torch.cuda.get_device_capability()[0] >= 8 else torch.float16",
                'scaler = torch.amp.GradScaler("cuda", enabled=amp_dtype is torch.float16)',
                '    with torch.autocast("cuda", dtype=amp_dtype):',
                "        loss = nn.functional.mse_loss(model(x), y)",
                "    scaler.scale(loss).backward()",
                "    scaler.step(optimizer)",
                "    scaler.update()",
            ],
            {"tf32-matmul"},
            id="beside 16 bits TF32 has nothing to do",
        ),
        pytest.param(
            WIDE,
            ("tf32-matmul",),
            ['torch.set_float32_matmul_precision("high")'],
            set(),
            id="without 16 bits TF32 has",
        ),
        pytest.param(
            SUMS,
            ("loss-history-detach", "defer-sync"),
            [
                "    kept += loss.detach()",
                "    total += loss.detach().double()",
                "total = float(total)",
            ],
            set(),
            id="two sums of one loss are changed each by its rule",
        ),
        pytest.param(
            HALVED,
            ("amp-migrate", "amp", "tf32-matmul"),
            ['scaler = torch.amp.GradScaler("cuda")', '    with torch.amp.autocast("cuda"):'],
            {"tf32-matmul"},
            id="mixed precision that is there gets its new names alone",
        ),
        pytest.param(
            RECOLOURED,
            ("dataset-materialize", "amp", "channels-last"),
            [
                "from torch import nn, tensor",
                "from torch.utils.data import DataLoader, TensorDataset",
                "# all images at once, as one tall image",
                "colours_images = transform(colours.data.reshape(-1, 32, 3)).reshape(3, -1, 32, 32).transpose(0, 1).contiguous()",
                "colours = TensorDataset(colours_images, tensor(colours.targets))",
                "model.to(memory_format=torch.channels_last)",
                "amp_dtype = torch.bfloat16 if torch.cuda.get_device_capability()[0] >= 8 else torch.float16",
                'scaler = torch.amp.GradScaler("cuda", enabled=amp_dtype is torch.float16)',
                '        with torch.autocast("cuda", dtype=amp_dtype):',
                "            loss = nn.functional.mse_loss(model(x), x)",
                "        scaler.scale(loss).backward()",
                "        scaler.step(optimizer)",
                "        scaler.update()",
            ],
            set(),
            id="images that are transformed at once are no view that another layout lets fail",
        ),
    ],
)
def test_rules_make_room_for_each_other(text: str, rules: tuple[str, ...], inserted: list[str], left: set[str]) -> None:
    result = rewritten(text, rules)

    lines = ndiff(text.splitlines(), result.after.splitlines())
    assert [line[2:] for line in lines if line.startswith("+ ") and line[2:].strip()] == inserted
    assert {site.rule for site in result.sites if not site.rewrites} == left
    check_stays(text, rules)


MAKES = """\
import torch
from torch import nn
device = torch.device("cuda")
model = nn.Linear(5, 5).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(100, 8, 5).to(device):
    index = {}
    optimizer.zero_grad()
    loss = model(x)[:, index].sum()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "made",
    [
        "torch.LongTensor(range(5)).to(device)",
        "torch.LongTensor([0, 1]).to(device)",
        "torch.FloatTensor(5).fill_(1).long().to(device)",
        "torch.zeros(5).to(device).long()",
        "torch.arange(5).to(device)",
    ],
)
def test_what_goes_above_the_loop_goes_in_the_first_pass(made: str) -> None:
    text = MAKES.format(made)

    assert f"\nindex = {made}\n" in rewritten(text, RULES).after
    check_stays(text, RULES)
