from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from autotune_rewrite.project import beside, target
from codemods.facts.target import Target

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from pathlib import Path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("file", "text", "known", "below"),
    [
        pytest.param("requirements.txt", "torch>=2.1\n", (2, 1), None, id="lower bound"),
        pytest.param("requirements.txt", "torch>=1.4\n", None, None, id="what the author began with says nothing"),
        pytest.param("requirements.txt", "torch==2.3.1\n", (2, 3), (2, 4), id="pinned"),
        pytest.param("requirements.txt", "torch===2.3.1\n", (2, 3), (2, 4), id="pinned to the letter"),
        pytest.param("requirements.txt", "torch==1.7.1+cu110\n", (1, 7), (1, 8), id="pinned to a local build"),
        pytest.param("requirements.txt", "torch==2.1.0.dev20230301\n", (2, 1), (2, 2), id="pinned to a nightly"),
        pytest.param("requirements.txt", "torch==2.*\n", (2, 0), (3, 0), id="any of a major version"),
        pytest.param("requirements.txt", "torch==1.*\n", None, (2, 0), id="any of torch 1"),
        pytest.param("requirements.txt", "torch~=1.13.0\n", (1, 13), (1, 14), id="compatible release"),
        pytest.param("requirements.txt", "torch~=1.12.1+cu113\n", (1, 12), (1, 13), id="compatible local build"),
        pytest.param("requirements.txt", "torch~=1.7\n", (1, 7), (2, 0), id="compatible with all that follow"),
        pytest.param("requirements.txt", "torch>=1.7,<2.0\n", (1, 7), (2, 0), id="both bounds"),
        pytest.param("requirements.txt", "torch>=1.7,<2.6\n", None, (2, 6), id="an old lower bound and an upper one"),
        pytest.param("requirements.txt", "torch (>=1.7, <=1.9.1)\n", (1, 7), (1, 10), id="parentheses"),
        pytest.param("requirements.txt", "torch<2\n", None, (2, 0), id="an upper bound guarantees nothing"),
        pytest.param("requirements.txt", "torch<1.4.1\n", None, (1, 5), id="an upper bound within a release"),
        pytest.param("requirements.txt", "torch\n", None, None, id="any version guarantees nothing"),
        pytest.param("requirements.txt", "torch!=2.0.0\n", None, None, id="an exclusion guarantees nothing"),
        pytest.param("requirements.txt", "torch @ https://a.b/torch-2.0.whl\n", (2, 0), (2, 1), id="an address"),
        pytest.param("requirements.txt", "torch @ https://a.b/c.whl\n", None, None, id="an address without a version"),
        pytest.param(
            "requirements.txt", "https://a.b/cu100/torch-1.0.1.post2-cp36-linux.whl\n", (1, 0), (1, 1), id="a wheel"
        ),
        pytest.param("requirements.txt", "torch >= 2.1  # why\n", (2, 1), None, id="comment"),
        pytest.param("requirements.txt", "# torch==1.2\ntorch>=2.1\n", (2, 1), None, id="line of comment"),
        pytest.param("requirements.txt", "torch>=2.1; python_version > '3.9'\n", (2, 1), None, id="marker"),
        pytest.param("requirements.txt", "torch==2.1.0 --hash=sha256:00\n", (2, 1), (2, 2), id="hash"),
        pytest.param("requirements.txt", "torch==2.1.0 \\\n    --hash=sha256:00\n", (2, 1), (2, 2), id="hash below"),
        pytest.param("requirements.txt", "torchvision>=0.9\ntorch-geometric>=2\n", None, None, id="other packages"),
        pytest.param("requirements.txt", "pytorch-lightning==1.2\n", None, None, id="built on PyTorch"),
        pytest.param("requirements.txt", "pytorch==1.3.1\n", (1, 3), (1, 4), id="PyTorch by its whole name"),
        pytest.param("requirements.txt", "PyTorch 1.3.1\n", (1, 3), (1, 4), id="in words"),
        pytest.param("requirements.txt", "pytorch=1.3.1=py3.7_cuda10.1_0\n", (1, 3), (1, 4), id="conda list --export"),
        pytest.param("requirements-gpu.txt", "torch>=2.2\n", (2, 2), None, id="another requirements file"),
        pytest.param("requirements/base.txt", "torch>=2.2\n", (2, 2), None, id="a directory of requirements"),
        pytest.param("pip-requirements.txt", "torch==1.9\n", (1, 9), (1, 10), id="a name before requirements"),
        pytest.param("constraints.txt", "torch==1.9\n", (1, 9), (1, 10), id="constraints"),
        pytest.param("requirements.txt", "torch>=two\n", None, None, id="no version"),
        pytest.param(
            "setup.py", "setup(name='torch', install_requires=['torch==1.4'])\n", (1, 4), (1, 5), id="setup.py"
        ),
        pytest.param("setup.cfg", "[options]\ninstall_requires =\n    torch==1.4\n", (1, 4), (1, 5), id="setup.cfg"),
        pytest.param("pyproject.toml", "[project]\ndependencies = ['torch>=2.1']\n", (2, 1), None, id="dependency"),
        pytest.param(
            "pyproject.toml",
            "[project.optional-dependencies]\ntrain = ['torch>=2.2', 'numpy']\n",
            (2, 2),
            None,
            id="optional dependency",
        ),
        pytest.param(
            "pyproject.toml",
            "[dependency-groups]\ntrain = ['torch>=2.2', {include-group = 'a'}]\n",
            (2, 2),
            None,
            id="dependency group",
        ),
        pytest.param("pyproject.toml", "[tool.poetry.dependencies]\ntorch = '^1.12'\n", (1, 12), (2, 0), id="Poetry"),
        pytest.param("pyproject.toml", "[tool.poetry.dependencies]\ntorch = '^2.2'\n", (2, 2), (3, 0), id="caret"),
        pytest.param("pyproject.toml", "[tool.poetry.dependencies]\ntorch = '~1.12'\n", (1, 12), (1, 13), id="tilde"),
        pytest.param("pyproject.toml", "[tool.poetry.dependencies]\ntorch = '*'\n", None, None, id="any"),
        pytest.param(
            "pyproject.toml",
            "[tool.poetry.dependencies]\ntorch = {version = '2.1.*'}\n",
            (2, 1),
            (2, 2),
            id="Poetry table",
        ),
        pytest.param(
            "pyproject.toml",
            "[tool.poetry.group.dev.dependencies]\ntorch = [{version = '1.13'}, {version = '2.1'}]\n",
            (1, 13),
            (2, 2),
            id="Poetry's several platforms",
        ),
        pytest.param("pyproject.toml", "project = 'torch'\n", None, None, id="no project table"),
        pytest.param("pyproject.toml", "torch = = \n", None, None, id="broken TOML"),
        pytest.param(
            "environment.yml", "dependencies:\n  - pytorch=1.13.1=py3.8_0\n", (1, 13), (1, 14), id="conda build"
        ),
        pytest.param("environment.yml", "dependencies:\n  - pytorch=1.13\n", (1, 13), (1, 14), id="conda's one sign"),
        pytest.param(
            "environment.yml", "dependencies: [python=3.8, pytorch=1.7]\n", (1, 7), (1, 8), id="conda's list in a line"
        ),
        pytest.param(
            "environment.yml",
            "dependencies: ['pytorch>=2.1,<2.3', numpy]\n",
            (2, 1),
            (2, 3),
            id="conda's list with quotes",
        ),
        pytest.param("environment.yml", "channels: [pytorch]\n", None, None, id="conda's channels in a line"),
        pytest.param("environment.yml", "dependencies:\n  - pytorch=2\n", (2, 0), (3, 0), id="conda's major version"),
        pytest.param(
            "environment.yml", "dependencies:\n  - pytorch 1.3.1 py3_0\n", (1, 3), (1, 4), id="conda's spaces"
        ),
        pytest.param("environment.yml", "dependencies:\n  - pytorch::pytorch>=2.0\n", (2, 0), None, id="conda channel"),
        pytest.param(
            "environment.yml",
            "channels:\n- pytorch\ndependencies:\n- pytorch>=2.0\n",
            (2, 0),
            None,
            id="a channel is no requirement",
        ),
        pytest.param(
            "environment.yml", "dependencies:\n  - pip:\n    - torch==2.1\n", (2, 1), (2, 2), id="pip in conda"
        ),
        pytest.param(
            "environment-gpu.yaml", "dependencies:\n  - pytorch=1.8\n", (1, 8), (1, 9), id="another environment"
        ),
        pytest.param("environment.yml", "dependencies:\n  - pytorch-cuda=12.1\n", None, None, id="conda's CUDA"),
        pytest.param("uv.lock", "[[package]]\nname = 'torch'\nversion = '2.6.0'\n", (2, 6), (2, 7), id="uv"),
        pytest.param("poetry.lock", "[[package]]\nname = 'torch'\nversion = '1.13.1'\n", (1, 13), (1, 14), id="poetry"),
        pytest.param("Pipfile", "[packages]\ntorch = '==1.9.0'\n", (1, 9), (1, 10), id="Pipenv"),
        pytest.param(
            "Pipfile.lock", '{"default": {"torch": {"version": "==1.9.0"}}}', (1, 9), (1, 10), id="Pipenv's lock"
        ),
        pytest.param("Pipfile.lock", '{"torch"', None, None, id="broken JSON"),
        pytest.param("requirements.lock", "torch==2.3.0\n    # via timm\n", (2, 3), (2, 4), id="rye"),
        pytest.param(
            "conda-lock.yml", "package:\n- name: pytorch\n  version: 2.0.1\n", (2, 0), (2, 1), id="conda's lock"
        ),
    ],
)
def test_the_target_is_what_the_requirements_beside_the_script_guarantee(
    tmp_path: Path, file: str, text: str, known: tuple[int, int] | None, below: tuple[int, int] | None
) -> None:
    write(tmp_path / file, text)

    found = target.find(tmp_path)

    assert (found.known, found.below) == (known, below)


@pytest.mark.parametrize(
    ("files", "known", "source"),
    [
        pytest.param(
            {"requirements.txt": "torch>=2.1\n", "requirements-old.txt": "numpy\ntorch==1.13\n"},
            (1, 13),
            "requirements-old.txt, line 2: torch==1.13",
            id="the weakest of several",
        ),
        pytest.param(
            {"requirements.txt": "torch>=2.1\n", "environment.yml": "dependencies:\n  - pytorch\n"},
            None,
            "",
            id="one of several without a bound",
        ),
        pytest.param(
            {"requirements.txt": "torch==1.3.1\n", "setup.cfg": "[options]\ninstall_requires =\n  torch\n"},
            (1, 3),
            "requirements.txt, line 1: torch==1.3.1",
            id="an old torch that is pinned decides",
        ),
        pytest.param(
            {
                "pyproject.toml": "[project]\ndependencies = ['torch']\n",
                "uv.lock": "[[package]]\nname = 'torch'\nversion = '2.6.0'\n",
            },
            (2, 6),
            "uv.lock, line 3: torch==2.6.0",
            id="a lock says more than the requirement",
        ),
        pytest.param(
            {"setup.py": "setup(\n    install_requires=[\n        'torch==1.4',\n    ],\n)\n"},
            (1, 4),
            "setup.py, line 3: torch==1.4",
            id="the line of a setup.py",
        ),
        pytest.param(
            {"pyproject.toml": "[project]\nname = 'torch-runs'\ndependencies = [\n  'torch>=2.1',\n]\n"},
            (2, 1),
            "pyproject.toml, line 4: torch>=2.1",
            id="the line of a pyproject.toml",
        ),
        pytest.param(
            {"requirements.txt": "numpy\n-r deps/base.in\n", "deps/base.in": "torch==1.8.1\n"},
            (1, 8),
            "deps/base.in, line 1: torch==1.8.1",
            id="a file that is included",
        ),
        pytest.param(
            {"requirements.txt": "-r other.txt\ntorch==1.8.1\n", "other.txt": "-r requirements.txt\n"},
            (1, 8),
            "requirements.txt, line 2: torch==1.8.1",
            id="files that include each other",
        ),
    ],
)
def test_of_several_files_the_oldest_torch_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], known: tuple[int, int] | None, source: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for file, text in files.items():
        write(tmp_path / file, text)

    found = target.find(tmp_path)

    assert (found.known, found.source) == (known, source)


def test_what_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "requirements.txt", "numpy\ntorch>=two\n")
    write(tmp_path / "setup.py", "setup(install_requires=['torch==1.4'])\n")

    found = target.find(tmp_path)

    assert found.unread == ("requirements.txt, line 2: torch>=two",)
    assert found.known == (1, 4)


def test_a_file_that_is_not_toml_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "pyproject.toml", "[project\ndependencies = ['torch==1.4']\n")

    found = target.find(tmp_path)

    assert found.unread == ("pyproject.toml: what it says of torch, as it is not TOML,",)
    assert found.known is None


@pytest.mark.parametrize(
    ("file", "text", "spoken_of"),
    [
        pytest.param("README.md", "# Net\n\nTested with PyTorch 1.6.\n", "README.md, line 3: torch 1.6", id="tested"),
        pytest.param("README.md", "- torch >= 1.4.1\n", "README.md, line 1: torch 1.4", id="a list"),
        pytest.param("README.md", "[PyTorch](https://pytorch.org) 1.2\n", "README.md, line 1: torch 1.2", id="a link"),
        pytest.param("README.md", "[PyTorch][1] (>= 1.2)\n", "README.md, line 1: torch 1.2", id="a link by number"),
        pytest.param("README.md", "**PyTorch** (tested on 1.1.0)\n", "README.md, line 1: torch 1.1", id="in brackets"),
        pytest.param("README.md", "PyTorch, version 1.5\n", "README.md, line 1: torch 1.5", id="after a comma"),
        pytest.param("README.md", "PyTorch &gt;= 1.0\n", "README.md, line 1: torch 1.0", id="a sign of HTML"),
        pytest.param("README.md", "[PyTorch](https://torch.org/whl/1.2)\n", "", id="a version in an address"),
        pytest.param("README.md", "needs PyTorch, 1.5 GB of memory\n", "", id="another number"),
        pytest.param("README.md", "Tested with PyTorch 2.6.\n", "", id="newer than what is assumed"),
        pytest.param("README.md", "pytorch-lightning 1.2, torchvision 0.5\n", "", id="other packages"),
        pytest.param(
            "Dockerfile", "FROM pytorch/pytorch:1.7.1-cuda11\n", "Dockerfile, line 1: torch 1.7", id="an image"
        ),
    ],
)
def test_a_torch_that_is_only_spoken_of_is_no_requirement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, spoken_of: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / file, text)

    found = target.find(tmp_path)

    assert (found.known, found.below, found.spoken_of) == (None, None, spoken_of)


@pytest.mark.parametrize(
    ("file", "text", "below", "source"),
    [
        pytest.param(
            "README.md", "    pip install torch==1.4.0\n", (1, 5), "README.md, line 1: torch==1.4.0", id="pip"
        ),
        pytest.param(
            "readme.md",
            "Run `pip3 install numpy 'torch==1.7.1+cu110' -f URL`.\n",
            (1, 8),
            "readme.md, line 1: torch==1.7.1+cu110",
            id="in a sentence",
        ),
        pytest.param(
            "get_started.md",
            "conda install pytorch=1.8 torchvision=0.9 -c pytorch\n",
            (1, 9),
            "get_started.md, line 1: torch=1.8",
            id="conda",
        ),
        pytest.param(
            "README.md",
            "## Environment\n\ntorch == 1.2.0\n",
            (1, 3),
            "README.md, line 3: torch==1.2.0",
            id="a line of its own",
        ),
        pytest.param("README.md", "- `PyTorch==1.4`\n", (1, 5), "README.md, line 1: torch==1.4", id="a list"),
        pytest.param(
            "Dockerfile",
            "RUN pip install \\\n    torch==1.7.1+cu110 \\\n    numpy\n",
            (1, 8),
            "Dockerfile, line 2: torch==1.7.1+cu110",
            id="a line of a command",
        ),
        pytest.param(
            "Dockerfile",
            "RUN pip install torch==1.6.0 && true\n",
            (1, 7),
            "Dockerfile, line 1: torch==1.6.0",
            id="an image",
        ),
    ],
)
def test_a_command_that_installs_a_torch_pins_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, below: tuple[int, int], *, source: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / file, text)

    found = target.find(tmp_path)

    assert (found.below, found.source) == (below, source)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("pip install torch torchvision\n", id="whatever is newest"),
        pytest.param("pip install torchvision==0.5.0 pytorch-lightning==1.2\n", id="other packages"),
        pytest.param("pip install torch>=1.4\n", id="a lower bound"),
        pytest.param("We used torch==1.4.0 for the paper.\n", id="no command"),
        pytest.param("PyTorch 1.2.0\n", id="no pin"),
        pytest.param("torch >= 1.2.0\n", id="a lower bound in a line of its own"),
        pytest.param("torch == 1.2.0 or newer\n", id="a line that goes on"),
        pytest.param("torchvision == 0.4.0\n", id="another package in a line of its own"),
        pytest.param("# torch==1.2.0\n", id="a heading"),
    ],
)
def test_a_readme_without_a_pinned_install_pins_nothing(tmp_path: Path, text: str) -> None:
    write(tmp_path / "README.md", text)

    found = target.find(tmp_path)

    assert (found.known, found.below) == (None, None)


def test_requirements_decide_before_a_command_in_a_readme(tmp_path: Path) -> None:
    write(tmp_path / "README.md", "pip install torch==1.4.0\n")
    write(tmp_path / "requirements.txt", "torch>=2.1\n")

    assert target.find(tmp_path).known == (2, 1)


def test_what_is_asked_for_silences_what_is_spoken_of(tmp_path: Path) -> None:
    write(tmp_path / "README.md", "Tested with PyTorch 1.6.\n")
    write(tmp_path / "requirements.txt", "torch>=1.0\n")

    assert target.find(tmp_path) == Target()


@pytest.mark.parametrize("name", ["torch", "torch[all]  # any", "torch @ git+https://example.org/torch"])
def test_requirements_of_whichever_torch_leave_it_to_the_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "requirements.txt", f"{name}\nnumpy==1.17\n")
    write(tmp_path / "README.md", "Tested with PyTorch 1.6.\n")
    assert target.find(tmp_path).spoken_of == "README.md, line 1: torch 1.6"

    target.found_from.cache_clear()
    write(tmp_path / "README.md", "torch == 1.2.0\n")
    assert target.find(tmp_path) == Target((1, 2), (1, 3), "README.md, line 1: torch==1.2.0")


def test_without_a_marked_root_requirements_count_up_to_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "requirements.txt", "torch==2.1\n")
    write(tmp_path / "project/environment.yml", "dependencies:\n  - pip:\n    - torch==1.9.0\n")
    write(tmp_path / "project/exp/train.py", "")

    monkeypatch.chdir(tmp_path / "project/exp")
    assert target.find(tmp_path / "project/exp") == Target()

    monkeypatch.chdir(tmp_path / "project")
    found = target.find(tmp_path / "project/exp")
    assert (found.known, found.source) == ((1, 9), "environment.yml, line 3: torch==1.9.0")


def test_requirements_count_up_to_the_project_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "requirements.txt", "torch>=2.1\n")
    write(tmp_path / "project/.git/HEAD", "")
    write(tmp_path / "project/examples/train.py", "")

    assert target.find(tmp_path / "project/examples").known is None

    write(tmp_path / "project/requirements.txt", "torch>=2.2\n")
    target.found_from.cache_clear()

    found = target.find(tmp_path / "project/examples")
    assert (found.known, found.source) == ((2, 2), "project/requirements.txt, line 1: torch>=2.2")


def test_the_nearest_requirement_counts(tmp_path: Path) -> None:
    write(tmp_path / ".git/HEAD", "")
    write(tmp_path / "requirements.txt", "torch>=2.1\n")
    write(tmp_path / "old/requirements.txt", "torch==1.4\n")

    assert target.find(tmp_path / "old").known == (1, 4)


@pytest.mark.parametrize(
    ("given", "minimum", "allowed"),
    [
        pytest.param(Target(), (2, 4), True, id="unknown counts as 2.4"),
        pytest.param(Target(), (2, 5), False, id="unknown is not newer"),
        pytest.param(Target((1, 13)), (2, 0), False, id="known to be older"),
        pytest.param(Target((2, 0)), (2, 0), True, id="known to be new enough"),
        pytest.param(Target(None, (2, 0)), (2, 0), False, id="known to be before"),
        pytest.param(Target(None, (2, 0)), (1, 13), True, id="perhaps before"),
    ],
)
def test_a_minimum_is_held_against_the_target(given: Target, minimum: tuple[int, int], *, allowed: bool) -> None:
    assert given.allows(minimum) is allowed


@pytest.mark.parametrize(
    ("text", "version"), [("2.1", (2, 1)), ("2", (2, 0)), ("2.3.1", (2, 3)), ("1.13.1+cu117", (1, 13))]
)
def test_versions_are_read(text: str, version: tuple[int, int]) -> None:
    assert target.parse(text) == version


def test_a_lock_is_read_as_toml_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock has thousands of lines, and to read it as TOML takes longer than to check a script."""
    write(tmp_path / "uv.lock", '[[package]]\nname = "torch"\nversion = "2.3.1"\n')
    (tmp_path / ".git").mkdir()
    read: list[str] = []
    loads = tomllib.loads

    def counted(text: str) -> dict[str, object]:
        read.append(text)
        return loads(text)

    monkeypatch.setattr(tomllib, "loads", counted)
    beside.tables.cache_clear()
    assert target.find(tmp_path).known == (2, 3)
    assert read.count((tmp_path / "uv.lock").read_text()) == 1
