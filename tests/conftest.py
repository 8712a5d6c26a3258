from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from autotune_rewrite.cli import cli
from autotune_rewrite.verify.run import HARNESS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytest.register_assert_rewrite("kit")  # its assertions are explained as those of the tests are

TESTS = Path(__file__).parent
ROOT = TESTS.parent

MEASURED = {TESTS / room for room in ("amp", "codemods", "editing", "facts", "library")}
"""Whose tests show what of ``codemods/`` is covered. In the others and in those of drawn programs, which take a third of
the time, coverage would be measured for nothing."""

# Every process that a test starts is to run this checkout, whether or not it is installed.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))

NAIVE = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

device = torch.device("cuda")
data = datasets.ImageFolder("data", transform=transforms.ToTensor())
loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=2)
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
"""
"""A script with a site of ``loader-pin`` (line 8), ``h2d-non-blocking`` (13) and ``zero-grad-none`` (14)."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    """Groups of tests that run one after the other, most of which take long, come first, or all wait for the last."""
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)
    for item in items:
        if MEASURED.isdisjoint(item.path.parents) or hasattr(getattr(item, "obj", None), "hypothesis"):
            item.add_marker("no_cover")
    if not getattr(config.option, "loadgroup", False):
        return
    for item in items:
        mark = item.get_closest_marker("xdist_group")
        if mark is not None and not item.nodeid.endswith(f"@{mark.args[0]}"):
            # pytest 9.2 takes no notice of where pytest-xdist 3.8 writes the group, and every test is a group of its own.
            item._id = item._id.parse(f"{item.nodeid}@{mark.args[0]}")


def pytest_runtest_call() -> None:
    """Has the small scripts of tests computed in one thread: tests run beside each other and would wait for cores."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is checked in tests is not remembered among what the user checks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def forking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], Path]]:
    """For a script that imports torch, one that has it run by a fork of a process that has imported torch already.

    Not for tests of what becomes of processes: the system shows forks with the environment that they were forked with.
    """
    if sys.platform != "linux":
        yield lambda script: script  # elsewhere libraries of the system do not survive a fork
        return
    folder = tmp_path_factory.mktemp("zygote")
    zygote = str(folder / "socket")
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    command = [sys.executable, str(TESTS / "zygote.py"), zygote]

    def client(script: Path) -> Path:
        path = folder / script.name
        path.write_text(
            f"import sys\nsys.path[0] = {str(TESTS)!r}\n"
            f"from zygote_client import run\nrun({zygote!r}, {str(script)!r})\n",
            encoding="utf-8",
        )
        return path

    with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield client
        server.kill()


@pytest.fixture
def forked(forking: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets each run of the verifier fork, in place of importing torch."""
    monkeypatch.setattr("autotune_rewrite.verify.run.HARNESS", forking(HARNESS))
    monkeypatch.setattr("autotune_rewrite.verify.turns.POSSIBLE", False)  # a fork does not stop with who asked for it


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str


@pytest.fixture
def torchfast(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Answer]:
    """The command, in this process and in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, stdin: bytes | None = None) -> Answer:
        result = CliRunner().invoke(cli, [str(each) for each in arguments], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Answer(result.exit_code, result.stdout_bytes.decode(), result.stderr)

    return run


@pytest.fixture
def torchfast_process(tmp_path: Path) -> Callable[..., Answer]:
    """The command as a process of its own, in an empty folder."""

    def run(*arguments: str, stdin: bytes = b"") -> Answer:
        command = [sys.executable, "-m", "autotune_rewrite", *arguments]
        ended = subprocess.run(command, input=stdin, capture_output=True, cwd=tmp_path, check=False)
        return Answer(ended.returncode, ended.stdout.decode(), ended.stderr.decode())

    return run


@pytest.fixture
def naive(tmp_path: Path) -> Path:
    """A naive training script in the test's folder."""
    path = tmp_path / "train.py"
    path.write_text(NAIVE)
    return path
