"""The traps that the sweep has found in torch: no rule may walk into one, and the sweep finds them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kit import run

from codemods.rules.amp import Amp
from codemods.rules.compile import Compile
from tests.traps.idioms import IDIOMS, SHAPES, Idiom
from tests.traps.sweep import swept

if TYPE_CHECKING:
    from codemods.codemod import Codemod

Version = tuple[int, int]
RESULTS: dict[Version, dict[str, Any]] = {
    (int(major), int(minor)): found
    for path in sorted((Path(__file__).parents[1] / "traps" / "results").glob("torch-*.json"))
    for found in [json.loads(path.read_text(encoding="utf-8"))]
    for major, minor, *_ in [found["torch"].split(".")]
}
FIRST = {
    "matrix": "nn.Linear(6, 6)",
    "images": "nn.Conv2d(4, 4, 3, padding=1)",
    "sequence": "nn.Linear(8, 8)",
    "volume": "nn.Conv3d(4, 4, 3, padding=1)",
    "signal": "nn.Conv1d(4, 4, 3, padding=1)",
}
ON_THE_CPU_ALONE = {
    "functional.bilinear(x, x, torch.ones(2, 6, 6))": "autocast on CUDA widens both",
    "functional.pdist(x)": "autocast on CUDA widens it",
    "torch.nn.Bilinear Bilinear(6, 6, 2)": "autocast on CUDA widens both",
    "torch.nn.PReLU PReLU()": "autocast on CUDA narrows both",
    "functional.prelu(x, torch.ones(1))": "autocast on CUDA narrows both",
    "torch.nn.RReLU RReLU()": "CUDA has the kernel",
    "torch.nn.MaxUnpool3d MaxUnpool3d(2)": "CUDA has the kernel",
    "x.mv(torch.ones(6))": "autocast on CUDA narrows both",
    "x if isinstance(x, torch.FloatTensor) else x * 2": "on CUDA it is not one of these in 32 bits, either",
    "x if x.type() == 'torch.FloatTensor' else x * 2": "on CUDA it is not one of these in 32 bits, either",
}
"""What 16 bits refuse or change on the CPU, where the sweep runs, and why it is no trap on CUDA."""
TEXT = """\
import numpy
import torch
from torch import nn
from torch.nn import functional


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = {first}
        self.layer = {made}

    def forward(self, x):
        x = self.first(x)
        return {source}


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100000):
    x = torch.randn({shape}).to(device)
    optimizer.zero_grad()
    loss = model(x).float().square().mean()
    loss.backward()
    optimizer.step()
"""


def text_of(idiom: Idiom) -> str:
    """A script whose network computes the idiom."""
    return TEXT.format(
        first=FIRST[idiom.operand],
        made=idiom.made or "nn.Identity()",
        source=idiom.source.replace("layer(", "self.layer("),
        shape=", ".join(map(str, SHAPES[idiom.operand])),
    )


def traps(*keys: str) -> list[tuple[str, Version]]:
    """The idioms that run as they are and fail in one of these ways, each with the torch that says so."""
    return [
        (name, version)
        for version, found in RESULTS.items()
        for name, outcome in found["idioms"].items()
        if "eager" not in outcome and any(key in outcome for key in keys)
        if keys == ("compiled",) or name not in ON_THE_CPU_ALONE
    ]


def rewritten(rule: type[Codemod], idiom: Idiom, target: Version | None) -> str:
    """What the rule inserts into a script with the idiom in its network."""
    before = text_of(idiom)
    return "\n".join(line for line in run(rule, before, target).after.splitlines() if line not in before.splitlines())


def test_at_least_three_versions_were_swept() -> None:
    assert len(RESULTS) >= 3
    assert all(found["tried"] >= 350 for found in RESULTS.values())


@pytest.mark.parametrize("rule", [Amp, Compile])
def test_a_network_without_a_trap_is_rewritten(rule: type[Codemod]) -> None:
    assert rewritten(rule, Idiom("relu", "functional.relu(x)"), (2, 4))


@pytest.mark.parametrize(("name", "version"), traps("compiled"), ids=str)
def test_what_compiled_code_refuses_or_changes_is_not_compiled(name: str, version: Version) -> None:
    assert rewritten(Compile, IDIOMS[name], version) == ""


@pytest.mark.parametrize(("name", "version"), traps("bfloat16"), ids=str)
def test_what_bf16_refuses_or_changes_is_in_no_region_of_autocast(name: str, version: Version) -> None:
    assert rewritten(Amp, IDIOMS[name], version) == ""


@pytest.mark.parametrize(("name", "version"), traps("float16"), ids=str)
def test_what_fp16_refuses_or_changes_is_in_no_region_of_it(name: str, version: Version) -> None:
    assert "float16" not in rewritten(Amp, IDIOMS[name], version).replace("bfloat16", "")


@pytest.mark.parametrize(
    "source",
    [
        "x if isinstance(x, torch.cuda.FloatTensor) else x * 2",
        "x if isinstance(x.data, (torch.FloatTensor, torch.cuda.FloatTensor)) else x * 2",
        "x if x.type() == 'torch.cuda.FloatTensor' else x * 2",
    ],
)
def test_what_asks_on_cuda_for_32_bits_is_in_no_region_of_autocast(source: str) -> None:
    assert rewritten(Amp, Idiom("asks", source), (2, 4)) == ""


@pytest.mark.parametrize(
    "source",
    [
        "x * torch.from_numpy(x.detach().cpu().float().numpy()).to(x)",
        "x * float(x.argmax(1).cpu().numpy().sum())",
        "x * float(x.max(1)[1].cpu().numpy().sum())",
        "x * float((x > 0).cpu().numpy().sum())",
    ],
)
def test_arrays_of_what_never_has_16_bits_do_not_keep_autocast_away(source: str) -> None:
    assert "autocast" in rewritten(Amp, Idiom("array", source), (2, 4))


def test_the_sweep_tells_what_is_refused_and_what_differs() -> None:
    matrix = Idiom("fine", "functional.relu(x)")
    gone = Idiom("gone", "torch.no_such_function(x)")
    mixed = Idiom("mixed", "torch.zeros(4, 6).index_add_(0, torch.arange(4), x)")
    other = Idiom("other", "x * 2 if x.dtype is torch.float32 else x * 3")

    found = swept({each.name: each for each in (matrix, gone, mixed, other)})["idioms"]

    assert "fine" not in found
    assert found["gone"]["eager"].startswith("raises AttributeError")
    assert found["mixed"]["bfloat16"].startswith("raises RuntimeError")
    assert found["other"]["bfloat16"] == "result differs by 0.5"
    assert "compiled" not in found["other"]
