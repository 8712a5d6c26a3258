"""README.md as written: its commands are run, and its tables are held against the program.

So are the commands of the site's guide, and those within the sentences of CONTRIBUTING.md.

What needs a network is not run here: ``.ci/run`` installs the package and runs the first command of the page.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click
import pytest
import yaml

from autotune_rewrite.cli import cli
from autotune_rewrite.profiling import PROFILED
from autotune_rewrite.report.judgement import EQUALITY, SPEED
from autotune_rewrite.verify.equality import Equality
from autotune_rewrite.verify.judgement import Speed
from autotune_rewrite.verify.records import Outcome
from autotune_rewrite.verify.run import HARNESS
from codemods.catalogue import RULES
from tests import transcripts
from tests.conftest import NAIVE, ROOT, Answer

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Callable

    Torchfast = Callable[..., Answer]

README = (ROOT / "README.md").read_text(encoding="utf-8")
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def blocks(language: str, page: str = README) -> list[str]:
    """The page's code blocks in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def section(title: str) -> str:
    """What stands below a heading, up to the next one."""
    return re.split(r"^#+ ", README.partition(f"\n{title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def rows(text: str) -> dict[str, list[str]]:
    """The rows of the tables in a text, by their first cells."""
    lines = [line.strip().strip("|") for line in text.splitlines() if line.lstrip().startswith("|")]
    cells = [[cell.strip() for cell in line.split("|")] for line in lines]
    return {first: rest for first, *rest in cells if not set(first) <= set("- ")}


# --- the commands ---------------------------------------------------------------------------------------------------

TRAINING = """\
import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--batch-size", type=int, default=16)
args = parser.parse_args()

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
data = TensorDataset(torch.randn(128, 8), torch.randint(2, (128,)))
loader = DataLoader(data, batch_size=args.batch_size)
model = nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(args.epochs):
    for inputs, targets in loader:
        inputs, targets = inputs.to(device), targets.to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        time.sleep(0.02)
    print(f"epoch {epoch}: loss {loss.item():.4f}")
"""
FASTER = TRAINING.replace("        time.sleep(0.02)\n", "")
"""The same losses, in a part of the time."""

GUIDE = "\n".join(page.read_text(encoding="utf-8") for page in transcripts.PAGES)
COMMANDS = [
    line.partition("  #")[0].strip()
    for block in (*blocks("sh"), *blocks("sh", GUIDE))
    for line in block.splitlines()
    if not line.startswith("#")
]
INLINE = {
    " ".join(found.split())
    for page, pattern in (
        (README, r"`(torchfast [^`]+)`"),
        ((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), r"`(torchfast [^`]+)`"),
        (GUIDE, r"`(torchfast \w+ [^`]+)`"),  # a command alone is only named there
    )
    for found in re.findall(pattern, page)
    if "my-rule" not in found and not re.search("RULE|COMMAND|DIR|FILE", found)
}
"""Commands within sentences."""

CODES = {
    "torchfast check --evidence": 1,
    "torchfast rewrite train.py": 0,
    "torchfast rewrite src/ --apply": 0,
    "torchfast rewrite train.py --apply": 0,
    "torchfast check --format rdjson --exit-zero": 0,
    "torchfast rewrite train.py --interactive": 130,  # nobody answers
    "torchfast undo": 2,  # nothing was written
    "torchfast rewrite train.py --patch changes.patch": 0,
    "torchfast rewrite train.py --output fast.py": 0,
    "torchfast rewrite - < train.py > fast.py": 0,
    "torchfast check src/": 1,
    "torchfast check src/ --diff": 1,
    "torchfast check src/ --format full": 1,
    "torchfast check src/ --format sarif --output-file torchfast.sarif": 1,
    "torchfast review --base origin/main --output-file review.md": 2,  # there is no repository
    "torchfast review --base origin/main --format html --output-file review.html": 2,
    "python -m libcst.tool codemod --no-format -x codemods.commands.LoaderPinCommand train.py": 0,
    "torchfast rules": 0,
    "torchfast explain loader-pin": 0,
    "torchfast facts train.py": 0,
    "torchfast clean": 0,
    "torchfast server": 0,  # nobody speaks
    "torchfast mcp": 0,  # as above
    "torchfast completion bash": 0,
    "torchfast config train.py": 0,
    "torchfast profile train.py --format json > profile.json && torchfast check train.py --profile profile.json": 1,
    "torchfast profile train.py": 0,
    "torchfast verify --base main train.py": 2,  # there is no repository
}
"""The exit codes of what runs no script twice."""
RUNNING = {
    "torchfast rewrite train.py --verify": (pytest.mark.slow,),
    "torchfast verify train.py fast.py --pairs 8 -- --epochs 2 --batch-size 64": (pytest.mark.slow,),
    "torchfast rewrite train.py --verify --pairs 8 -- --epochs 2 --batch-size 64": (pytest.mark.slow,),
    'torchfast verify -m package.train package.fast --launcher "torchrun --nproc_per_node=2"': (pytest.mark.slow,),
    "torchfast verify train.py fast.py --records runs && torchfast verify --from runs --margin 0.01": (),
    "torchfast verify train.py fast.py --device simulated": (),
    "torchfast verify train.py fast.py --device simulated --capability 7.0": (pytest.mark.slow,),
}
"""What compares scripts."""
TUNING = ("torchfast tune train.py --budget 30m --gpu-hourly 2.5 -- --epochs 2", "torchfast tune train.py --apply")
"""What tries their changes."""
ELSEWHERE = (
    "torchfast tune train.py --gpus 1",
    "torchfast tune train.py --executor ray",
    "torchfast tune train.py --executor ray --gpus 2 --accelerator-type H100",
)
"""The same on GPUs, or on a cluster, which may not be there."""
INSTALLING = {
    "pip install '.[verify]'",
    "pip install '.[verify]' && torchfast rewrite fixtures/mnist_feedforward/naive.py --verify -- --samples 12000 --test-samples 2000",
    "pip install '.[dev]' && pytest",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project that has all files that the page's commands name."""
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "package").mkdir()
    (folder / "src" / "naive.py").write_text(NAIVE)
    (folder / "package" / "__init__.py").touch()
    for place in (folder, folder / "package"):
        (place / "train.py").write_text(TRAINING)
        (place / "fast.py").write_text(FASTER)
    (folder / "pyproject.toml").touch()
    return folder


@pytest.fixture(scope="session")
def launched(forking: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with commands as pip puts them on the path, but for ``torchfast``, which imports torch once for all.

    There is no ``black`` on this path: whoever installs torchfast does not get it.
    """
    folder = tmp_path_factory.mktemp("bin")
    torchfast = (
        f"#!{sys.executable}\n"
        "from pathlib import Path\n"
        "from autotune_rewrite.verify import run\n"
        f"run.HARNESS = Path({str(forking(HARNESS))!r})\n"
        "from autotune_rewrite import profiling\n"
        f"profiling.PROFILED = Path({str(forking(PROFILED))!r})\n"
        "from autotune_rewrite.cli import main\n"
        "main()\n"
    )
    # A link to the interpreter of a virtual environment would not find its packages on every system.
    programs = {"torchfast": torchfast, "python": f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'}
    for name, program in programs.items():
        (folder / name).write_text(program)
        (folder / name).chmod(0o755)
    torchrun = shutil.which("torchrun", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if torchrun is not None:
        (folder / "torchrun").symlink_to(torchrun)
    return folder


@pytest.fixture
def shell(project: Path, launched: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Runs a line as a user's shell does, in the project."""

    def run(line: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PATH": f"{launched}:/usr/bin:/bin"}
        return subprocess.run(
            ["sh", "-c", line], cwd=project, env=environment, capture_output=True, text=True, check=False
        )

    return run


def test_every_command_is_tried() -> None:
    assert {*COMMANDS, *INLINE} == {*CODES, *RUNNING, *TUNING, *ELSEWHERE, *INSTALLING}


@pytest.mark.parametrize(("line", "code"), [pytest.param(line, code, id=line) for line, code in CODES.items()])
def test_a_command_runs_as_written(
    shell: Callable[[str], subprocess.CompletedProcess[str]], line: str, code: int
) -> None:
    ended = shell(line)

    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        pytest.param("torchfast rewrite train.py", set(), id="shown only"),
        pytest.param("torchfast rewrite src/ --apply", {"src/naive.py"}, id="applied"),
        pytest.param("torchfast rewrite train.py --output fast.py", {"fast.py"}, id="written elsewhere"),
        pytest.param("torchfast rewrite - < train.py > fast.py", {"fast.py"}, id="from one stream to another"),
        pytest.param(
            "python -m libcst.tool codemod --no-format -x codemods.commands.LoaderPinCommand train.py",
            {"train.py"},
            id="as a LibCST command",
        ),
    ],
)
def test_a_command_writes_what_the_page_says(
    shell: Callable[[str], subprocess.CompletedProcess[str]], project: Path, line: str, changed: set[str]
) -> None:
    assert line in COMMANDS
    before = {path: path.read_text() for path in project.rglob("*.py")}

    shell(line)

    now = {path: path.read_text() for path in project.rglob("*.py")}
    assert {path.relative_to(project).as_posix() for path in now if now[path] != before.get(path)} == changed
    for path in changed:
        assert "pin_memory" in (project / path).read_text()
        compile((project / path).read_text(), path, "exec")


@pytest.mark.parametrize("line", [pytest.param(line, marks=marks, id=line) for line, marks in RUNNING.items()])
def test_a_command_that_runs_scripts_ends_as_the_page_says(
    shell: Callable[[str], subprocess.CompletedProcess[str]], line: str
) -> None:
    ended = shell(line)

    said = " ".join(ended.stdout.split())
    headline = re.search(r"The rewritten script [^.]*; it [^.]*\.", said)
    assert headline is not None, f"{ended.stdout}\n{ended.stderr}"
    speed = next(word for word, words in SPEED.items() if f"script {words}" in headline[0])
    equality = next(word for word, words in EQUALITY.items() if f"it {words}" in headline[0])
    good = {"faster", "no-difference"}
    if "simulated" in line:
        good = {"not-checked"}
    if line.startswith("torchfast rewrite"):
        good |= {"inconclusive", "not-checked"}  # written is what is not slower
    assert ended.returncode == (0 if speed in good and equality in {"equal", "non-inferior"} else 1), headline[0]
    if line.startswith("torchfast verify"):
        assert equality == "equal"


@pytest.mark.slow
@pytest.mark.parametrize("line", TUNING)
def test_a_command_that_tunes_comes_to_an_answer(
    shell: Callable[[str], subprocess.CompletedProcess[str]], line: str
) -> None:
    ended = shell(line)

    assert ended.returncode in (0, 1), ended.stderr
    assert re.match(r"train\.py: (Nothing is changed\.|\d+ of \d+ rules pays?:)", ended.stdout)


@pytest.mark.parametrize("line", ELSEWHERE)
def test_a_command_that_tunes_elsewhere_says_where_there_is_no_such_place(
    shell: Callable[[str], subprocess.CompletedProcess[str]], monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("RAY_ADDRESS", "nonsense")

    ended = shell(line)

    assert ended.returncode == 2
    said = r"Error: (--gpus is 1, but scripts see 0 GPUs|no Ray cluster at|--executor ray needs Ray: pip install)"
    assert re.match(said, ended.stderr.splitlines()[-1]), ended.stderr


def test_what_is_installed_first_is_run_by_the_checks_of_the_project() -> None:
    checks = (ROOT / ".ci" / "run").read_text(encoding="utf-8")

    for line in INSTALLING:
        install, _, command = line.partition(" && ")
        extra = re.fullmatch(r"pip install '\.\[(\w+)\]'", install)
        assert extra is not None
        assert extra[1] in PYPROJECT["project"]["optional-dependencies"]
        assert not command or re.search(rf"^{re.escape(command)}\b", checks, re.MULTILINE)


# --- the exit codes -------------------------------------------------------------------------------------------------

UNSEEN = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
for (batch,) in DataLoader(TensorDataset(torch.ones(8, 2)), batch_size=4):
    batch.to(device)
"""
"""Has sites, and neither losses nor metrics."""
FILES = {
    "train.py": TRAINING,
    "fast.py": FASTER,
    "other.py": TRAINING.replace("lr=0.1", "lr=5.0"),
    "fails.py": TRAINING.replace("for epoch", "1 / 0\nfor epoch"),
    "unseen.py": UNSEEN,
    "clean.py": "print('no torch')\n",
    "broken.py": "def torch(:\n",
}


@dataclass(frozen=True, slots=True)
class Case:
    """A command line, and what the table of exit codes says where it belongs."""

    line: str
    says: str

    @property
    def command(self) -> str:
        return self.line.split()[0]


CASES = [
    (0, Case("rewrite train.py", "done, or nothing to do; with `--verify`: fit to be written")),
    (0, Case("rewrite clean.py", "done, or nothing to do; with `--verify`: fit to be written")),
    (
        0,
        Case(
            "rewrite train.py --verify --level bitwise --pairs 1 --device simulated",
            "done, or nothing to do; with `--verify`: fit to be written",
        ),
    ),
    (0, Case("check clean.py", "no rewrite is available")),
    (
        0,
        Case(
            "verify train.py fast.py --pairs 1 --device simulated",
            "runs, faster or no difference, equal or non-inferior",
        ),
    ),
    (1, Case("rewrite unseen.py --verify --pairs 1", "with `--verify`: not fit")),
    (1, Case("check train.py", "a rewrite is available, and not marked `does not fail`")),
    (1, Case("verify train.py other.py --pairs 1 --device simulated --promise bitwise", "any other judgement")),
    (2, Case("rewrite broken.py", "a file or an option cannot be used")),
    (2, Case("rewrite train.py --level far", "a file or an option cannot be used")),
    (2, Case("check missing.py", "the same")),
    (2, Case("check train.py --select none", "the same")),
    (2, Case("verify train.py fails.py --pairs 1", "a run failed, or a script or an option cannot be used")),
    (2, Case("verify train.py broken.py", "a run failed, or a script or an option cannot be used")),
    (2, Case("verify train.py fast.py --pairs 0", "a run failed, or a script or an option cannot be used")),
    (
        130,
        Case("rewrite train.py --verify", "ended by Ctrl-C; it says what was written before: nothing with `--verify`"),
    ),
    (130, Case("check train.py", "ended by Ctrl-C")),
    (130, Case("verify train.py fast.py", "ended by Ctrl-C; the report says what is known")),
]
"""On a simulated device, speed does not count, and other programs cannot make it look slower."""


def documented() -> dict[tuple[str, int], str]:
    """The page's table of exit codes, by command and code, without empty cells."""
    table = rows(section("## Rewriting"))
    header = [cell.strip("`") for cell in table["Exit code"]]
    return {
        (command, int(code)): said
        for code, cells in table.items()
        if code.isdecimal()
        for command, said in zip(header, cells, strict=True)
        if said
    }


def test_every_documented_exit_code_is_tried() -> None:
    assert {(case.command, code): case.says for code, case in CASES} == documented()


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize(("code", "case"), [pytest.param(*case, id=f"{case[0]}: {case[1].line}") for case in CASES])
def test_a_documented_exit_code(
    torchfast: Torchfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, case: Case
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    if code == 130:
        monkeypatch.setattr("autotune_rewrite.verify.run._wait", interrupt)
        monkeypatch.setattr("autotune_rewrite.checking.checked.check", interrupt)

    answer = torchfast(*case.line.split())

    assert answer.code == code, answer.out + answer.err
    if code == 130:
        assert "interrupted" in answer.out + answer.err
        assert (tmp_path / "train.py").read_text() == TRAINING


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


# --- the tables -----------------------------------------------------------------------------------------------------


def options(command: str) -> set[str]:
    """The long names of a command's options."""
    found = cli.get_command(click.Context(cli), command)
    assert found is not None
    written = [[*each.opts, *each.secondary_opts] for each in found.params if isinstance(each, click.Option)]
    return {name for names in written for name in names if name.startswith("--")}


def test_the_tables_of_options_name_each_and_no_other() -> None:
    tables = {**rows(section("## Rewriting")), **rows(section("## Verifying"))}
    named = {name for cell in tables for name in re.findall(r"`(--[a-z-]+)", cell)}

    assert named | {"--apply", "--output"} == options("rewrite") | options("check") | options("verify")
    of_profile = {
        name for cell in rows(section("### Where the time goes")) for name in re.findall(r"`(--[a-z-]+)", cell)
    }
    assert options("profile") - named <= of_profile <= options("profile")


def test_the_words_of_every_answer_are_explained() -> None:
    text = section("## Verifying")

    assert {cell.strip("`") for cell in rows(text) if not cell.startswith("`-")} - {"Option"} == {
        "run",
        *get_args(Outcome),
    }
    for word in (*get_args(Speed), *get_args(Equality)):
        assert f"`{word}`" in text


def test_the_configuration_as_written_is_accepted(torchfast: Torchfast, naive: Path) -> None:
    (written,) = blocks("toml")
    (naive.parent / "pyproject.toml").write_text(written)

    answer = torchfast("check", "train.py", "--target-torch", "2.13")  # where workers may stay

    assert answer.code == 1
    assert "above level bitwise" in answer.out


def test_the_comment_as_written_leaves_the_loader_alone(torchfast: Torchfast, naive: Path) -> None:
    (written,) = blocks("python")
    line = next(line for line in NAIVE.splitlines() if line.startswith("loader ="))
    naive.write_text(NAIVE.replace(line, written.rstrip("\n")))

    findings = json.loads(torchfast("check", "train.py", "--format", "json").out)["findings"]

    (pinned,) = [each for each in findings if each["rule"] == "loader-pin"]
    assert (pinned["status"], pinned["message"]) == ("left", "ignored here: memory is short on this machine")
    assert any(each["status"] == "rewrites" for each in findings)


def test_the_hooks_as_written_are_those_of_this_project() -> None:
    (written,) = blocks("yaml")
    (repository,) = yaml.safe_load(written)["repos"]
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))

    assert {each["id"] for each in repository["hooks"]} == {each["id"] for each in hooks}
    assert repository["repo"] == PYPROJECT["project"]["urls"]["Repository"]


def test_the_json_as_written_has_the_keys_of_the_program_s(torchfast: Torchfast, naive: Path) -> None:
    (written,) = blocks("json")
    example = json.loads(written)
    (naive.parent / "broken.py").write_text("print('torch'\n")

    said = json.loads(torchfast("rewrite", "train.py", "broken.py", "--format", "json").out)

    checked = json.loads(torchfast("check", "train.py", "--format", "json").out)
    pinned, found = (next(each for each in of["findings"] if each["rule"] == "loader-pin") for of in (said, checked))
    (shown,) = example["findings"]
    assert said.keys() == example.keys()
    assert found.keys() == shown.keys() == {*pinned, "fix", "no_fix"}
    assert found["fix"][0].keys() == shown["fix"][0].keys()
    assert pinned["edits"][0].keys() == shown["edits"][0].keys()
    for part in ("errors", "diffs"):
        assert said[part][0].keys() == example[part][0].keys()
    same = ("rule", "path", "status", "message", "promise", "gain", "fails")
    assert {key: pinned[key] for key in same} == {key: shown[key] for key in same}


def test_the_line_of_a_finding_is_as_written(torchfast: Torchfast, naive: Path) -> None:
    (written,) = (block for block in blocks("text") if block.startswith("train.py:41:10 "))
    _, _, said = written.partition(" ")
    assert naive.is_file()

    assert f"train.py:8:10 {said}" in torchfast("rewrite", "train.py").out


def test_every_rule_that_the_page_names_is_one() -> None:
    named = set(re.findall(r"`((?:loader|h2d|zero|no-grad|cudnn|as)-[a-z-]+)`", README))

    assert named <= set(RULES)
