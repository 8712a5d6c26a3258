"""Scripts of several modules: sites are rewritten where they stand, each once, if that is right for all who run them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Answer

SCRIPT = """\
import torch
from torch import nn

from data import get_loader
from engine import evaluate, train_one_epoch


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = get_loader(64)
    model = nn.Linear(4, 2).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        train_one_epoch(model, loader, optimizer, device)
        print(evaluate(model, loader, device))


if __name__ == "__main__":
    main()
"""
DATA = """\
import torch
from torch.utils.data import DataLoader, TensorDataset


def get_loader(batch_size):
    inputs = torch.arange(512.0).reshape(128, 4) / 512
    return DataLoader(TensorDataset(inputs, inputs[:, 0].gt(0.5).long()), batch_size=batch_size)
"""
ENGINE = """\
import torch
from torch.nn.functional import cross_entropy


def train_one_epoch(model, loader, optimizer, device):
    for inputs, labels in loader:
        inputs, labels = inputs.to(device), labels.to(device)
        optimizer.zero_grad(set_to_none=False)
        cross_entropy(model(inputs), labels).backward()
        optimizer.step()


def evaluate(model, loader, device):
    model.eval()
    right = sum((model(inputs.to(device)).argmax(1) == labels.to(device)).sum().item() for inputs, labels in loader)
    model.train()
    return right
"""
RULES = ("--select", "loader-pin,h2d-non-blocking,no-grad-eval")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "data.py").write_text(DATA)
    (tmp_path / "engine.py").write_text(ENGINE)
    return tmp_path


def findings(answer: Answer) -> list[tuple[str, int, str, str]]:
    """File, line, rule and what becomes of each site."""
    found = json.loads(answer.out)["findings"]
    return [(each["path"], each["line"], each["rule"], each["status"]) for each in found]


def test_sites_are_rewritten_in_the_modules_in_which_they_stand(
    torchfast: Callable[..., Answer], project: Path
) -> None:
    answer = torchfast("rewrite", "train.py", "--apply", *RULES)

    assert (answer.code, "Error" in answer.err) == (0, False)
    assert (project / "train.py").read_text() == SCRIPT
    assert (project / "data.py").read_text() == DATA.replace(
        "batch_size=batch_size)",
        "batch_size=batch_size,\n                      pin_memory=torch.cuda.is_available())",
    )
    assert (project / "engine.py").read_text() == ENGINE.replace("to(device)", "to(device, non_blocking=True)").replace(
        "def evaluate", "@torch.no_grad()\ndef evaluate"
    )


def test_a_second_pass_changes_nothing(torchfast: Callable[..., Answer], project: Path) -> None:
    torchfast("rewrite", "train.py", "--apply")
    after = {each.name: each.read_text() for each in project.iterdir()}

    torchfast("rewrite", "train.py", "--apply")

    assert {each.name: each.read_text() for each in project.iterdir()} == after


@pytest.mark.parametrize(
    "paths",
    [
        pytest.param(("train.py",), id="by the script"),
        pytest.param((".",), id="by the directory"),
        pytest.param(("engine.py", "train.py", "data.py"), id="all of them, in another order"),
        pytest.param((".", "engine.py"), id="twice"),
    ],
)
def test_each_site_is_reported_once(torchfast: Callable[..., Answer], project: Path, paths: tuple[str, ...]) -> None:
    (project / "again.py").write_text(SCRIPT)

    found = findings(torchfast("check", *paths, *RULES, "--format", "json"))

    sites = [("data.py", 7, "loader-pin", "rewrites")]
    sites += [("engine.py", line, "h2d-non-blocking", "rewrites") for line in (7, 7, 15, 15)]
    sites += [("engine.py", 13, "no-grad-eval", "rewrites")]
    assert sorted(found) == sorted(sites)


def test_a_module_alone_is_understood_by_who_runs_it(torchfast: Callable[..., Answer], project: Path) -> None:
    assert [path for path, *_ in findings(torchfast("check", "data.py", *RULES, "--format", "json"))] == ["data.py"]

    (project / "train.py").unlink()

    found = findings(torchfast("check", "engine.py", *RULES, "--format", "json"))
    assert [each for each in found if each[2] == "h2d-non-blocking"] == [
        ("engine.py", line, "h2d-non-blocking", "left") for line in (7, 7, 15, 15)
    ]


SHARED = """\
import torch
from torch.utils.data import DataLoader


def get_loader(dataset):
    return DataLoader(dataset, batch_size=8)


def train_one_epoch(model, loader, optimizer):
    for inputs, labels in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs.cuda()), labels.cuda()).backward()
        optimizer.step()
"""
USE = """\
import torch
from torch.utils.data import TensorDataset

from shared import get_loader, train_one_epoch

device = "cpu"
inputs = torch.rand(64, 4).to(device)
model = torch.nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train_one_epoch(model, get_loader(TensorDataset(inputs, inputs[:, 0].gt(0.5).long())), optimizer)
"""


def test_what_is_not_right_for_all_who_run_a_module_is_left(torchfast: Callable[..., Answer], tmp_path: Path) -> None:
    (tmp_path / "shared.py").write_text(SHARED)
    (tmp_path / "train.py").write_text(USE)
    before = findings(torchfast("check", "train.py", "--select", "loader-pin", "--format", "json"))
    (tmp_path / "other.py").write_text(USE.replace('"cpu"', '"cuda"'))

    answer = torchfast("check", "train.py", "--select", "loader-pin")

    assert before == [("shared.py", 6, "loader-pin", "rewrites")]
    assert (
        answer.out
        == "shared.py:6:12 loader-pin  left: its data set already holds tensors on a device (other.py, line 7)\n"
        "no changes; 1 left\n"
    )


def test_what_stands_under_a_module_s_main_guard_is_not_run_with_who_imports_it(
    torchfast: Callable[..., Answer], project: Path
) -> None:
    (project / "engine.py").write_text(
        f'{ENGINE}\n\nif __name__ == "__main__":\n    import lightning\n    import slow\n'
    )
    (project / "slow.py").write_text("import torch\ntorch.use_deterministic_algorithms(True)\n")
    conv = SCRIPT.replace("nn.Linear(4, 2)", "nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten())")
    (project / "train.py").write_text(conv)

    found = findings(torchfast("check", "train.py", "--select", "cudnn-benchmark", "--format", "json"))

    assert ("train.py", 11, "cudnn-benchmark", "rewrites") in found


def test_the_output_of_one_script_is_about_that_alone(torchfast: Callable[..., Answer], project: Path) -> None:
    answer = torchfast("rewrite", "train.py", "--output", "fast.py", "--select", "zero-grad-none,loader-pin")

    told = "not rewritten: data.py, engine.py, which train.py imports; --apply writes these files, too\n"
    assert (answer.code, answer.err) == (0, f"fast.py: no changes written\n{told}")
    assert (project / "fast.py").read_text() == SCRIPT
    assert (project / "data.py").read_text() == DATA
    assert (project / "engine.py").read_text() == ENGINE


def test_a_module_that_is_not_python_is_reported_and_holds_up_no_other(
    torchfast: Callable[..., Answer], project: Path
) -> None:
    (project / "engine.py").write_text("import torch\nprint 'x'\n")

    answer = torchfast("rewrite", "train.py", "--apply", *RULES)

    assert answer.code == 2
    assert answer.err.startswith("engine.py:2: not Python 3")
    assert "pin_memory" not in (project / "engine.py").read_text()


def test_a_module_that_has_nothing_to_do_with_torch_need_not_be_python(
    torchfast: Callable[..., Answer], project: Path
) -> None:
    (project / "old.py").write_text("print 'x'\n")
    (project / "train.py").write_text(SCRIPT.replace("from torch import nn", "from torch import nn\nimport old"))

    answer = torchfast("check", "train.py", *RULES)

    assert (answer.code, answer.err) == (0, "") or answer.code == 1


def test_what_is_to_be_ignored_in_a_module_is(torchfast: Callable[..., Answer], project: Path) -> None:
    (project / "data.py").write_text(
        DATA.replace("batch_size=batch_size)", "batch_size=batch_size)  # torchfast: ignore[loader-pin] tried")
    )

    answer = torchfast("check", "train.py", *RULES)

    assert "data.py:7:12 loader-pin  left: ignored here: tried" in answer.out


def test_each_module_has_the_configuration_of_its_directory(torchfast: Callable[..., Answer], project: Path) -> None:
    (project / "lib").mkdir()
    (project / "data.py").rename(project / "lib" / "data.py")
    (project / "lib" / "pyproject.toml").write_text('[tool.torchfast]\nignore = ["loader-pin"]\n')
    (project / "train.py").write_text(SCRIPT.replace("from data", "from lib.data"))

    found = findings(torchfast("check", "train.py", "--format", "json"))

    assert "loader-pin" not in {rule for path, _, rule, _ in found if path.startswith("lib")}
    assert "zero-grad-none" in {rule for path, _, rule, _ in found if path == "engine.py"}


@pytest.mark.usefixtures("forked")
def test_verified_with_all_its_modules(torchfast: Callable[..., Answer], project: Path) -> None:
    answer = torchfast(
        "rewrite",
        "train.py",
        "--verify",
        "--apply",
        "--pairs",
        "1",
        "--device",
        "simulated",
        "--level",
        "bitwise",
        *RULES,
    )

    assert "is equal bit for bit" in " ".join(answer.out.split())
    assert "pin_memory" in (project / "data.py").read_text()
    assert "non_blocking" in (project / "engine.py").read_text()


@pytest.mark.usefixtures("forked")
def test_what_harms_in_a_module_is_seen(torchfast: Callable[..., Answer], project: Path) -> None:
    """The rewritten modules are those that run: one of them that fails, fails the verification."""
    (project / "engine.py").write_text(
        ENGINE.replace("    right = sum(", "    assert 'grad_fn' in repr(model.weight.sum())\n    right = sum(")
    )

    answer = torchfast("rewrite", "train.py", "--verify", "--apply", "--pairs", "1", "--device", "simulated", *RULES)

    assert "no-grad-eval left out" in answer.err
    assert "no_grad" not in (project / "engine.py").read_text()
    assert "non_blocking" in (project / "engine.py").read_text()


def test_facts_of_a_script_know_its_modules(torchfast: Callable[..., Answer], project: Path) -> None:
    (project / "data.py").write_text(f"class Loader:\n    pass\n\n\n{DATA}")

    answer = torchfast("facts", "data.py")

    assert answer.code == 0
    assert "read in" in answer.out


NET = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(256, 256)

    def forward(self, x):
        return self.fc(x)
"""
FIT = """\
import torch
from torch.nn.functional import cross_entropy


def fit(net):
    net.cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(1000):
        optimizer.zero_grad()
        loss = cross_entropy(net(torch.randn(512, 256).cuda()), torch.zeros(512, dtype=torch.long).cuda())
        loss.backward()
        optimizer.step()
"""
CHOOSES = """\
import argparse
import importlib

from fit import fit

parser = argparse.ArgumentParser()
parser.add_argument("--model", {option})
args = parser.parse_args()
fit(importlib.import_module({name}).Net())
"""
NO_16_BITS = NET.replace("self.fc(x)", "torch.stft(self.fc(x), 64)").replace("from", "import torch\nfrom", 1)


@pytest.mark.parametrize(
    ("option", "name", "large", "code"),
    [
        pytest.param("required=True", 'f"models.{args.model}"', NET, "", id="each module of a package may be meant"),
        pytest.param(
            "required=True", 'f"models.{args.model}"', NO_16_BITS, "breaks-in-16-bits", id="one of them forbids it"
        ),
        pytest.param('choices=["models.small", "models.large"]', "args.model", NET, "", id="choices that are written"),
        pytest.param(
            'choices=["models.small", "models.large"]', "args.model", NO_16_BITS, "breaks-in-16-bits", id="one of these"
        ),
        pytest.param('default="models.small"', "args.model", NET, "unknown-model", id="a default, and any other"),
        pytest.param("required=True", "args.model", NET, "unknown-model", id="any module"),
        pytest.param("choices=MODELS", "args.model", NET, "unknown-model", id="choices that are computed"),
    ],
)
def test_a_module_that_an_option_names(
    *, torchfast: Callable[..., Answer], tmp_path: Path, option: str, name: str, large: str, code: str
) -> None:
    (tmp_path / "models").mkdir()
    files = {"run.py": CHOOSES.format(option=option, name=name), "fit.py": FIT, "models/__init__.py": ""}
    for file, text in {**files, "models/small.py": NET, "models/large.py": large}.items():
        (tmp_path / file).write_text(text)

    answer = torchfast("check", ".", "--select", "amp", "--amp", "bf16", "--format", "json")

    found = json.loads(answer.out)["findings"]
    assert [(each["path"], each["line"], each["code"]) for each in found] == [("fit.py", 11, code)]


CHOSEN = """\
import argparse
import importlib
import sys

import torch

sys.path.append("models")
parser = argparse.ArgumentParser()
parser.add_argument("--model", default="small")
model = importlib.import_module(parser.parse_args().model).Net().cuda()
for x in torch.randn(100, 8, 252).cuda():
    model(x).sum().backward()
"""


def test_a_model_runs_that_is_chosen_by_default(torchfast: Callable[..., Answer], tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "run.py").write_text(CHOSEN)
    (tmp_path / "models/parts.py").write_text(
        "import torch\n\n\ndef padded(x):\n    return torch.cat([x, torch.zeros(len(x), 4).to(x.device)], 1)\n"
    )
    net = NET.replace("self.fc(x)", "self.fc(padded(x))").replace("from", "from parts import padded\nfrom", 1)
    (tmp_path / "models/small.py").write_text(net)

    answer = torchfast("check", "run.py", "--select", "device-ctor", "--format", "json")

    found = json.loads(answer.out)["findings"]
    assert [(each["path"], each["line"]) for each in found] == [("models/parts.py", 5)]


FOLDER = """\
import importlib
import os

import torch


class Experiment:
    def __init__(self, name):
        folder = "models"
        self.paths = {each[:-3]: f"{folder}.{each[:-3]}" for each in os.listdir(folder)}
        self.model = self.build(name).cuda()

    def build(self, name):
        return importlib.import_module(self.paths[name]).Net()

    def train(self):
        for x in torch.randn(100, 8, 252).cuda():
            self.model(x).sum().backward()


Experiment(input()).train()
"""
PADDED = NET.replace("self.fc(x)", "self.fc(torch.cat([x, torch.zeros(len(x), 4).to(x.device)], 1))").replace(
    "from", "import torch\nfrom", 1
)


def test_models_of_a_folder_run_though_nobody_sees_who_makes_them(
    torchfast: Callable[..., Answer], tmp_path: Path
) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "run.py").write_text(FOLDER)
    (tmp_path / "models/small.py").write_text(PADDED)

    answer = torchfast("rewrite", "run.py", "--select", "device-ctor", "--format", "json")

    assert findings(answer) == [("models/small.py", 11, "device-ctor", "rewrites")]
