"""``torchfast profile``, with real scripts on the CPU: what is named, what adds up, and what is said where it fails."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

from autotune_rewrite.profiling import PROFILED
from autotune_rewrite.verify.child.profiled import PHASES
from codemods.codemod import Phase

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Answer

    Torchfast = Callable[..., Answer]

pytestmark = pytest.mark.xdist_group("profile")  # what takes time is compared: not beside each other

SCRIPT = """
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class Items(Dataset):
    def __len__(self):
        return 60

    def __getitem__(self, index):
        time.sleep({sleep})
        return torch.randn(4), torch.tensor(index % 2)


model = nn.Sequential(nn.Linear(4, 8), {layers} nn.Linear(8, 2))
spare = nn.ParameterList(nn.Parameter(torch.zeros({spare})) for _ in range(20))
optimizer = torch.optim.Adam([*model.parameters(), *spare], foreach=False)
for parameter in spare:
    parameter.grad = torch.zeros_like(parameter)
for epoch in range(3):
    for rows, labels in DataLoader(Items(), batch_size=4):
        for parameter in model.parameters():
            parameter.grad = None
        loss = nn.functional.cross_entropy(model(rows), labels)
        loss.backward()
        optimizer.step()
"""


def script(path: Path, *, sleep: float = 0.0, layers: str = "", spare: int = 1) -> Path:
    path.write_text(SCRIPT.format(sleep=sleep, layers=layers, spare=spare))
    return path


@pytest.fixture
def fast(forking: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets each run fork, in place of importing torch."""
    monkeypatch.setattr("autotune_rewrite.profiling.PROFILED", forking(PROFILED))


def profiled(torchfast: Torchfast, path: Path, *options: str) -> dict[str, Any]:
    answer = torchfast("profile", path, "--format", "json", "--device", "cpu", *options)
    assert answer.code == 0, answer.err
    values: dict[str, Any] = json.loads(answer.out)
    return values


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize(
    ("sizes", "bottlenecks", "rules"),
    [
        pytest.param({"sleep": 0.004}, {"data"}, {"loader-workers", "loader-persistent"}, id="items that take long"),
        pytest.param(
            {"layers": "*(nn.Tanh() for _ in range(800)),"},
            {"forward", "backward"},
            {"amp", "compile"},
            id="a deep model",
        ),
        pytest.param({"spare": 100_000}, {"optimizer"}, {"fused-optimizer"}, id="parameters that need no computing"),
    ],
)
def test_names_the_bottleneck_and_the_rules_for_it(
    tmp_path: Path, torchfast: Torchfast, sizes: dict[str, Any], bottlenecks: set[str], rules: set[str]
) -> None:
    path = script(tmp_path / "train.py", **sizes)

    found = profiled(torchfast, path, "--iterations", "20")

    assert set(found["bottleneck"]) == bottlenecks
    parts = {each["phase"]: each for each in found["parts"]}
    assert sum(parts[each]["share"]["value"] for each in bottlenecks) > 0.5
    assert sum(each["seconds"] for each in found["parts"]) == pytest.approx(found["iteration"]["value"])
    assert sum(each["share"]["value"] for each in found["parts"]) == pytest.approx(1)
    assert all(each["share"]["low"] <= each["share"]["value"] <= each["share"]["high"] for each in found["parts"])
    limits = [each for each in found["limits"] if rules <= {*each["rules"], *each["rules_that_cannot_act_here"]}]
    (limit,) = limits
    assert limit["at_most"] == pytest.approx(1 / (1 - sum(parts[each]["share"]["value"] for each in limit["phases"])))
    assert (found["iterations"], found["warm_up"], found["device"]) == (20, 5, "cpu")
    assert {each["name"] for each in found["operators"]} >= {"aten::addmm"}
    assert 0 < found["overhead"] < 0.2
    assert [each.name for each in tmp_path.iterdir()] == ["train.py"]
    assert sorted(found) == sorted(
        [
            "accumulation",
            "arguments",
            "bottleneck",
            "busy",
            "computing",
            "device",
            "environment",
            "evaluation",
            "iteration",
            "iterations",
            "kind",
            "limits",
            "loaders",
            "modules",
            "notes",
            "on_device",
            "operators",
            "overhead",
            "parts",
            "passes",
            "script",
            "sites",
            "version",
            "warm_up",
            "watched",
        ]
    )


@pytest.mark.usefixtures("fast")
def test_says_it_in_words_and_check_orders_findings_by_it(tmp_path: Path, torchfast: Torchfast) -> None:
    path = script(tmp_path / "train.py", sleep=0.004)
    with path.open("a") as file:
        file.write(
            dedent("""
            model.eval()
            for rows, labels in DataLoader(Items(), batch_size=30):
                print((model(rows).argmax(1) == labels).sum().item())
            for rows, labels in DataLoader(Items(), batch_size=4):
                optimizer.zero_grad(set_to_none=False)
                model(rows).sum().backward()
            """)
        )

    said = torchfast("profile", path, "--trace", "trace.json", "--device", "cpu")
    saved = torchfast("profile", path, "--format", "json", "--device", "cpu")
    (tmp_path / "profile.json").write_text(saved.out)
    checked = torchfast("check", path, "--profile", "profile.json")
    (tmp_path / "other.py").write_text("import torch\n")
    other = torchfast("check", "other.py", "--profile", "profile.json")
    as_json = torchfast("check", path, "--profile", "profile.json", "--format", "json")

    assert said.code == 0
    assert said.out.startswith("Waiting for data is ")
    assert "Rules that shorten it: loader-persistent" in said.out
    assert "Only on CUDA: loader-workers" in said.out.replace("\n", " ")
    assert "█████" in said.out
    assert "Between the iterations lay 1 evaluation: " in said.out
    assert "There is no CUDA device here" in said.out
    names = {each.get("name") for each in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]}
    assert {"torchfast: data", "torchfast: forward", "torchfast: backward", "torchfast: optimizer"} <= names
    rewritten = [line for line in checked.out.splitlines()[:-1] if "  left: " not in line]
    assert [line.split()[1] for line in rewritten] == ["no-grad-eval"]
    assert all("  at most 1." in line for line in rewritten)
    left = [line for line in checked.out.splitlines()[:-1] if line not in rewritten]
    ends = r"\((at most \S+ times as fast|cannot act where the profile was made)\)$"
    assert [line for line in left if not re.search(ends, line)] == []
    found = json.loads(as_json.out)["findings"]
    factors = [each["at_most"] for each in found if each["acts_here"] and each["at_most"] is not None]
    assert factors == sorted(factors, reverse=True)
    assert {each["at_most"] for each in found if not each["acts_here"]} == {1.0}
    assert checked.code == as_json.code == 1
    assert (checked.err, other.err) == ("", f"note: the profile is of {path}, which is not checked here\n")


@pytest.mark.usefixtures("fast")
def test_a_simulated_device_shows_the_lines_that_wait(tmp_path: Path, torchfast: Torchfast) -> None:
    (tmp_path / "data").mkdir()
    path = tmp_path / "train.py"
    path.write_text(
        dedent("""
        import sys
        import torch

        assert sys.argv[1:] == ["--steps", "40"]
        model = torch.nn.Linear(2, 1).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(40):
            rows = torch.ones(4, 2).to("cuda")
            loss = model(rows).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if loss > 0 or step % 2:
                print(loss, loss.item())
            mean = rows.mean().cpu()
        """)
    )

    said = torchfast("profile", path, "--device", "simulated", "--", "--steps", "40")
    saved = torchfast("profile", path, "--device", "simulated", "--format", "json", "--", "--steps", "40")
    (tmp_path / "profile.json").write_text(saved.out)
    refused = torchfast("check", path, "--profile", "profile.json")

    assert said.code == 0
    assert said.out.startswith("Times on a simulated device say nothing")
    found = json.loads(saved.out)
    assert [(each["line"], set(each["calls"])) for each in found["sites"]] == [
        (14, {"bool"}),
        (16, {"cpu"}),
        (15, {"item", "repr"}),
    ]
    assert {each["path"] for each in found["sites"]} == {str(path)}
    assert (found["parts"], found["iteration"], found["limits"]) == ([], None, [])
    assert (refused.code, refused.err) == (
        2,
        "Error: profile.json: a profile of a simulated device has no times: make one on the device that will train\n",
    )


@pytest.mark.usefixtures("fast")
def test_what_torch_profiler_breaks_is_told_and_the_times_are_kept(tmp_path: Path, torchfast: Torchfast) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        dedent("""
        import torch

        assert torch.get_num_threads() == 2
        weight = torch.ones(3, requires_grad=True)
        for step in range(40):
            if torch.autograd.profiler._is_profiler_enabled:
                raise RuntimeError("not under a profiler")
            weight.sum().backward()
        """)
    )

    said = torchfast("profile", path, "--threads", "2")
    traced = torchfast("profile", path, "--threads", "2", "--trace", "trace.json")

    why = "under torch.profiler, the script ended with an exception after 6 iterations: RuntimeError: not under a profiler"
    assert said.code == 0
    assert f"Operators were not seen: {why}." in said.out.replace("\n", " ")
    assert "Measured: 34 iterations after 5 that warm up" in said.out
    assert "No DataLoader was read" in said.out
    assert "No module was called" in said.out
    assert (traced.code, traced.out, traced.err) == (2, "", f"Error: {path}: {why}\n")
    assert [each.name for each in tmp_path.iterdir()] == ["train.py"]


def test_ctrl_c_ends_it_with_a_line(naive: Path, torchfast: Torchfast, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("autotune_rewrite.profiling.run_script", interrupted)

    answer = torchfast("profile", naive)

    assert (answer.code, answer.out, answer.err) == (130, "", "interrupted: nothing can be said\n")


FAILING = [
    pytest.param("raise SystemExit(3)", "the script ended with exit status 3", id="the script gives up"),
    pytest.param(
        "import no_such_package",
        "the script ended with an exception: ModuleNotFoundError: No module named 'no_such_package'. It was run by "
        f"{sys.executable}: no_such_package has to be installed there",
        id="a package is missing",
    ),
    pytest.param("1 / 0", "the script ended with an exception: ZeroDivisionError: division by zero", id="it fails"),
    pytest.param("print('done')", "came to its end without an iteration: it never calls backward", id="no training"),
    pytest.param(
        "import torch\nfor _ in range(4):\n    torch.ones(1, requires_grad=True).sum().backward()",
        "ended after 4 iterations, of which the first 5 warm up: nothing was measured (--warm-up 1 would do)",
        id="it ends before the warm-up does",
    ),
    pytest.param(
        "import torch\ntorch.ones(1, requires_grad=True).sum().backward()",
        "ended after 1 iteration, and what is measured lies between two of them",
        id="one iteration alone",
    ),
]


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize(("text", "message"), FAILING)
def test_a_script_that_cannot_be_profiled_is_told_in_a_line(
    tmp_path: Path, torchfast: Torchfast, text: str, message: str
) -> None:
    path = tmp_path / "train.py"
    path.write_text(text)

    answer = torchfast("profile", path)

    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"Error: {path}: the script ")
    assert message in answer.err
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["nowhere.py"], "nowhere.py: No such file or directory", id="no such script"),
        pytest.param(["broken.py"], "broken.py:1: '(' was never closed", id="no Python"),
        pytest.param(["train.ipynb"], "train.ipynb: notebooks cannot be profiled", id="a notebook"),
        pytest.param(["train.py", "--iterations", "0"], "the number of iterations is 0, but at least 1", id="none"),
        pytest.param(["train.py", "--warm-up", "-1"], "the number of warm-up iterations is -1", id="fewer than none"),
        pytest.param(["train.py", "--threads", "0"], "the number of threads is 0, but at least 1", id="no thread"),
        pytest.param(["train.py", "--trace", "a/b.json"], "a/b.json: its directory does not exist", id="no folder"),
        pytest.param(
            ["train.py", "--trace", "a.json", "--device", "simulated"],
            "--trace: times on a simulated device say nothing",
            id="a trace of nothing",
        ),
        pytest.param(
            ["train.py", "--memory", "a.pickle", "--device", "cpu"],
            "--memory: a snapshot is of CUDA memory, and there is no CUDA device",
            id="memory of a device that is not there",
        ),
        pytest.param(["train.py", "--capability", "7.0"], "the capability is that of a simulated device", id="real"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_line(
    tmp_path: Path, torchfast: Torchfast, arguments: list[str], message: str
) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit\n")
    (tmp_path / "broken.py").write_text("print(\n")

    answer = torchfast("profile", *arguments)

    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(None, "No such file or directory", id="missing"),
        pytest.param("{", "not JSON: ", id="not JSON"),
        pytest.param('{"version": 1, "findings": []}', "not a profile: `torchfast profile", id="of another command"),
        pytest.param(
            '{"kind": "torchfast-profile", "version": 99}',
            "profiles of version 1 are read here, and this one has 99",
            id="of another version",
        ),
        pytest.param('{"kind": "torchfast-profile", "version": 1}', "not a whole profile", id="in part"),
    ],
)
def test_check_refuses_what_is_no_profile(
    naive: Path, tmp_path: Path, torchfast: Torchfast, text: str | None, message: str
) -> None:
    if text is not None:
        (tmp_path / "profile.json").write_text(text)

    answer = torchfast("check", naive, "--profile", "profile.json")

    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"Error: profile.json: {message}")
    assert answer.err.count("\n") == 1


def test_the_child_needs_torch_and_the_standard_library_alone(tmp_path: Path) -> None:
    code = f"""
import runpy, sys

sys.modules["libcst"] = None
runpy.run_path({str(PROFILED)!r})
print([name for name in sys.modules if name.startswith(("autotune_rewrite", "codemods"))])
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-I", "-c", code]

    seen = subprocess.run(command, cwd=tmp_path, env=environment, check=False, capture_output=True, text=True)

    assert (seen.returncode, seen.stdout) == (0, "[]\n"), seen.stderr


def test_the_child_has_the_phases_that_rules_have() -> None:
    assert {name.upper() for name in PHASES} == {phase.name for phase in Phase} - {Phase.ACCUMULATION.name}
