"""Is the bottleneck that ``torchfast profile`` names the one? ``python tests/benchmarks/bottlenecks.py`` (half an hour).

Each script is profiled; then what it names is mended, by the tool's own rule where that acts on a CPU, by hand else; and
both versions are timed in pairs, by marks alone. A gain above the bound would be a wrong bound, and none at all a wrong
word. With names of scripts as arguments, those alone are tried. The table goes into docs/profiling.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autotune_rewrite import profiling as package
from autotune_rewrite.profiling import Profiling, profile
from autotune_rewrite.profiling.limits import limit
from autotune_rewrite.verify.plan import Plan
from autotune_rewrite.verify.statistics.ratio import Ratio
from codemods.catalogue import RULES
from codemods.codemod import Phase

if TYPE_CHECKING:
    from collections.abc import Iterator

FIXTURES = Path(__file__).parents[2] / "fixtures"
PAIRS = 4
KEPT = """\
from torchvision import datasets as _datasets
_make, _read = _datasets.MNIST.__init__, _datasets.MNIST.__getitem__
def _made(self, *args, **kwargs):
    _make(self, *args, **kwargs)
    self.items = [_read(self, index) for index in range(len(self))]
_datasets.MNIST.__init__ = _made
_datasets.MNIST.__getitem__ = lambda self, index: self.items[index]
"""
"""Keeps all items, read and transformed, in memory."""

SLOW_ITEMS = """\
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Items(Dataset):
    def __len__(self):
        return 3000
    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.randn(64), index % 10

model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = torch.optim.Adam(model.parameters())
for rows, labels in DataLoader(Items(), batch_size=16):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(rows), labels).backward()
    optimizer.step()
"""
MANY_PARAMETERS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = nn.Sequential(*[nn.Sequential(nn.Linear(256, 256), nn.LayerNorm(256), nn.ReLU()) for _ in range(24)])
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
for rows in DataLoader(torch.randn(2000, 256), batch_size=4):
    optimizer.zero_grad()
    model(rows).square().mean().backward()
    optimizer.step()
"""
ZEROS = """\
import torch
from torch import nn

torch.manual_seed(0)
words = nn.Embedding(20000, 64)
optimizer = torch.optim.SGD(words.parameters(), lr=0.1)
for step in range(300):
    rows = torch.randint(20000, (32, 16))
    optimizer.zero_grad(set_to_none=False)
    words(rows).square().mean().backward()
    optimizer.step()
"""
EVALUATION = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
train, test = (TensorDataset(torch.randn(n, 128), torch.randint(10, (n,))) for n in (512, 20000))
model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()

def evaluate():
    model.eval()
    right = 0
    for rows, labels in DataLoader(test, batch_size=2000):
        right += (model(rows).argmax(1) == labels).sum().item()
    return right / len(test)

for epoch in range(20):
    model.train()
    for rows, labels in DataLoader(train, batch_size=64):
        optimizer.zero_grad()
        loss = criterion(model(rows), labels)
        loss.backward()
        optimizer.step()
    print(epoch, evaluate())
"""
ARRAYS = """\
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(200, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(300):
    frames = [np.ones(200) for _ in range(256)]
    rows = torch.FloatTensor(frames)
    optimizer.zero_grad()
    model(rows).square().mean().backward()
    optimizer.step()
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A script, and how what its profile names is mended."""

    name: str
    text: str
    remedy: str
    """In words."""
    phases: frozenset[Phase]
    """What that shortens."""
    rule: str = ""
    """The rule that mends it; empty: it is mended by hand."""
    before: str = ""
    after: str = ""
    """What is put in the place of what."""

    def mended(self, script: Path) -> str:
        """The text of the mended script."""
        if not self.rule:
            text = self.text.replace(self.before, self.after) if self.before else self.after + self.text
            assert text != self.text, self.name
            return text
        made = script.with_name("made.py")
        command = [sys.executable, "-m", "autotune_rewrite", "rewrite", str(script)]
        subprocess.run(
            [*command, "--select", self.rule, "--output", str(made)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        text = made.read_text(encoding="utf-8")
        assert text != self.text, self.name
        return text


def fixture(name: str) -> str:
    """A fixture's text, which finds its data from anywhere."""
    text = (FIXTURES / name / "naive.py").read_text(encoding="utf-8")
    text = text.replace("from __future__ import print_function\n", "")  # code may come before it
    return text.replace("__file__", repr(str(FIXTURES / name / "naive.py")))


DATA, COMPUTING = frozenset({Phase.DATA}), frozenset({Phase.FORWARD, Phase.BACKWARD})
CASES = (
    *(
        Case(name, fixture(name), "items kept in memory, by hand", DATA, after=KEPT)
        for name in ("digits_args", "digits_feedforward", "digits_finetune", "digits_gan")
    ),
    Case(
        "digits_cnn",
        fixture("digits_cnn"),
        "`compile`, by hand on the CPU",
        COMPUTING,
        before="criterion = ",
        after="model.compile()\ncriterion = ",
    ),
    Case(
        "slow items",
        SLOW_ITEMS,
        "`loader-workers`, by hand on the CPU",
        DATA,
        before="batch_size=16",
        after="batch_size=16, num_workers=4",
    ),
    Case(
        "many parameters",
        MANY_PARAMETERS,
        "`fused-optimizer`, by hand on the CPU",
        RULES["fused-optimizer"].phases,
        before="foreach=False",
        after="fused=True",
    ),
    Case("an embedding", ZEROS, "`zero-grad-none`", RULES["zero-grad-none"].phases, rule="zero-grad-none"),
    Case("an evaluation", EVALUATION, "`no-grad-eval`", RULES["no-grad-eval"].phases, rule="no-grad-eval"),
    Case("lists of arrays", ARRAYS, "`as-tensor`", RULES["as-tensor"].phases, rule="as-tensor"),
)


def row(case: Case, folder: Path) -> str:
    """A line of the table."""
    script, fast = folder / "train.py", folder / "fast.py"
    script.write_text(case.text, encoding="utf-8")
    fast.write_text(case.mended(script), encoding="utf-8")
    named = profile(asked(script))
    most = limit(named, case.phases)
    assert most is not None
    assert named.bottleneck is not None
    between = case.phases == {Phase.EVALUATION}
    seconds: list[list[float]] = [[], []]
    for pair in range(PAIRS):
        for side in (0, 1) if pair % 2 == 0 else (1, 0):
            found = profile(asked((script, fast)[side], operators=False))
            assert found.iteration is not None
            evaluated = found.evaluation.seconds if between and found.evaluation is not None else 0.0
            seconds[side].append(found.iteration.value + evaluated)
    ratio = Ratio.of(seconds[0], seconds[1])
    share = named.bottleneck.share
    between_them = f" ({100 * (share.low or 0):.0f} to {100 * (share.high or 1):.0f} %)"
    bottleneck = f"{named.bottleneck.name}, {100 * share.value:.0f} %{between_them}"
    if between and named.evaluation is not None:
        bottleneck += f"; evaluation {100 * named.evaluation.share.value:.0f} % of all"
    gained = f"{ratio.estimate:.2f} ({ratio.low or 0:.2f} to {ratio.high or 0:.2f})"
    cells = (case.name, bottleneck, case.remedy, f"{most.factor:.2f}", gained, f"{100 * named.overhead:.2g} %")
    return f"| {' | '.join(cells)} |"


def asked(script: Path, *, operators: bool = True) -> Profiling:
    """Sixty iterations on one thread: threads wait for each other where something else computes, too."""
    plan = Plan(script, script, device="cpu", time_budget=90.0, timeout=600.0)
    return Profiling(plan, iterations=60, threads=1, operators=operators)


@contextmanager
def forking() -> Iterator[None]:
    """Lets runs fork off a process that has imported torch, which takes most of the time of a short run."""
    tests = Path(__file__).parents[1]
    with tempfile.TemporaryDirectory() as folder:
        zygote, client = str(Path(folder) / "socket"), Path(folder) / "profiled.py"
        client.write_text(
            f"import sys\nsys.path[0] = {str(tests)!r}\n"
            f"from zygote_client import run\nrun({zygote!r}, {str(package.PROFILED)!r})\n",
            encoding="utf-8",
        )
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, str(tests / "zygote.py"), zygote]
        with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            server.stdout.readline()
            package.PROFILED = client
            try:
                yield
            finally:
                server.kill()


def main() -> None:
    """Prints the table."""
    print("| Script | Bottleneck that is named | What was changed | At most | Measured | Marks |")
    print("| --- | --- | --- | --- | --- | --- |")
    with forking():
        for case in CASES:
            if not sys.argv[1:] or case.name in sys.argv[1:]:
                with tempfile.TemporaryDirectory() as folder:
                    print(row(case, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
