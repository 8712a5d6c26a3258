from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from autotune_rewrite.errors import FileError
from autotune_rewrite.rewriting.config import ConfigError, Options, settings
from codemods.catalogue import GROUPS, RULES
from codemods.codemod import Choices, Promise
from codemods.facts.target import Target

if TYPE_CHECKING:
    from pathlib import Path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("text", ["", "two", "2.x", "2.1,", ">=2.1", "-2"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a torch version"):
        Options(target_torch=text)


def test_by_default_the_default_rules_run_at_the_farthest_level(tmp_path: Path) -> None:
    chosen = settings(tmp_path, Options())

    assert chosen.rules == GROUPS["DEFAULT"]
    assert chosen.level is Promise.PRECISION
    assert chosen.exempt == frozenset()


def test_selected_rules_are_exactly_those_that_run(tmp_path: Path) -> None:
    assert settings(tmp_path, Options(select=("loader-pin",))).rules == {"loader-pin"}
    assert settings(tmp_path, Options(select=("ALL",))).rules == set(RULES)


def test_ignoring_wins_over_selecting(tmp_path: Path) -> None:
    chosen = settings(tmp_path, Options(select=("DEFAULT",), ignore=("loader-pin",)))

    assert chosen.rules == GROUPS["DEFAULT"] - {"loader-pin"}


def test_configuration_counts_and_the_command_line_wins(tmp_path: Path) -> None:
    write(
        tmp_path / "pyproject.toml",
        "[tool.torchfast]\nselect = ['loader-pin']\nlevel = 'bitwise'\ntarget-torch = '2.1'\n",
    )

    chosen = settings(tmp_path / "src", Options(level="random"))

    assert chosen.rules == {"loader-pin"}
    assert chosen.level is Promise.RANDOM
    assert chosen.target == Target((2, 1))


def test_how_rules_rewrite_is_configured_and_the_command_line_wins(tmp_path: Path) -> None:
    write(
        tmp_path / "pyproject.toml",
        "[tool.torchfast]\nworkers = 8\nprefetch = 6\namp = 'bf16'\ncompile-mode = 'reduce-overhead'\nmain-guard = false\n",
    )

    configured = settings(tmp_path, Options()).choices
    chosen = settings(
        tmp_path, Options(workers=2, prefetch=3, amp="fp16", compile_mode="default", main_guard=True)
    ).choices

    rules = GROUPS["DEFAULT"]
    assert configured == Choices(
        workers=8, prefetch=6, main_guard=False, amp="bf16", compile_mode="reduce-overhead", weighed=rules
    )
    assert chosen == Choices(workers=2, prefetch=3, main_guard=True, amp="fp16", weighed=rules)


def test_rules_that_are_selected_by_name_are_not_weighed(tmp_path: Path) -> None:
    assert settings(tmp_path, Options(select=("ALL",))).choices.weighed == set(RULES)
    assert settings(tmp_path, Options(select=("amp", "compile"))).choices.weighed == set()
    assert settings(tmp_path, Options(select=("DEFAULT", "amp"))).choices.weighed == GROUPS["DEFAULT"] - {"amp"}


def test_rules_know_whether_loaders_are_given_workers(tmp_path: Path) -> None:
    assert settings(tmp_path, Options()).choices.workers_are_given
    assert not settings(tmp_path, Options(ignore=("loader-workers",))).choices.workers_are_given
    assert settings(tmp_path, Options()).choices.batches_are_pinned
    assert not settings(tmp_path, Options(ignore=("loader-pin",))).choices.batches_are_pinned


def test_a_pyproject_without_the_table_does_not_hide_one_above(tmp_path: Path) -> None:
    write(tmp_path / "pyproject.toml", "[tool.torchfast]\nlevel = 'bitwise'\n")
    write(tmp_path / "src/pyproject.toml", "[project]\nname = 'torchfast-user'\n")

    assert settings(tmp_path / "src", Options()).level is Promise.BITWISE


@pytest.mark.parametrize(
    ("table", "message"),
    [
        pytest.param("selct = []", "unknown key 'selct'; did you mean 'select'?", id="key"),
        pytest.param("select = ['loader-pinn']", "unknown rule 'loader-pinn'; did you mean 'loader-pin'?", id="rule"),
        pytest.param("level = 'bitwize'", "unknown level 'bitwize'; did you mean 'bitwise'?", id="level"),
        pytest.param("select = 'loader-pin'", "select is not a list of rule names", id="no list"),
        pytest.param("ignore = [1]", "ignore is not a list of rule names", id="no names"),
        pytest.param("target-torch = 2.1", "target-torch is not a string", id="no string"),
        pytest.param("workers = '4'", "workers is not a number", id="no number"),
        pytest.param("prefetch = 0", "prefetch is 0, but each worker has at least 1 batch ahead", id="no batch ahead"),
        pytest.param("workers = true", "workers is not a number", id="true is no number"),
        pytest.param("main-guard = 1", "main-guard is not true or false", id="no truth value"),
        pytest.param("amp = 'fp8'", "unknown form of mixed precision 'fp8'", id="form"),
        pytest.param("compile-mode = 'max'", "unknown mode of torch.compile 'max'", id="mode"),
        pytest.param("level = ", "is not TOML", id="no TOML"),
    ],
)
def test_a_fault_in_the_configuration_is_said_in_one_line(tmp_path: Path, table: str, message: str) -> None:
    write(tmp_path / "pyproject.toml", f"[tool.torchfast]\n{table}\n")

    with pytest.raises(FileError) as caught:
        settings(tmp_path, Options())

    assert caught.value.path == str(tmp_path / "pyproject.toml")
    assert message in caught.value.message
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("files", "widest"),
    [
        pytest.param({}, None, id="nothing says"),
        pytest.param({"pyproject.toml": "[tool.ruff]\nline-length = 100\n"}, 100, id="ruff"),
        pytest.param({"pyproject.toml": "[tool.ruff.lint]\nselect = ['E']\n"}, 88, id="ruff, as it is usual"),
        pytest.param({"ruff.toml": "line-length = 79\n"}, 79, id="a file of ruff's own"),
        pytest.param({"pyproject.toml": "[tool.black]\n"}, 88, id="black, as it is usual"),
        pytest.param({"pyproject.toml": "[tool.black]\nline-length = 'wide'\n"}, 88, id="not understood"),
        pytest.param({"pyproject.toml": "[tool.yapf]\ncolumn_limit = 90\n"}, 90, id="yapf"),
        pytest.param({"pyproject.toml": "[tool.yapf]\n"}, None, id="yapf says nothing"),
        pytest.param({"pyproject.toml": "[tool."}, None, id="no TOML"),
        pytest.param({"setup.cfg": "[flake8]\nmax-line-length = 99  # wide\n"}, 99, id="flake8"),
        pytest.param({".flake8": "[flake8]\nignore = E501\n"}, None, id="flake8 says nothing"),
        pytest.param({"tox.ini": "max-line-length"}, None, id="no sections"),
        pytest.param(
            {"pyproject.toml": "[project]\n", "tox.ini": "[pycodestyle]\nmax_line_length=95\n"}, 95, id="both"
        ),
    ],
)
def test_the_widest_line(tmp_path: Path, files: dict[str, str], widest: int | None) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "package").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    assert settings(tmp_path / "package", Options()).widest == widest


@pytest.mark.parametrize(
    ("files", "level"),
    [
        pytest.param({"torchfast.toml": "level = 'random'\n"}, Promise.RANDOM, id="a file of its own"),
        pytest.param(
            {"torchfast.toml": "level = 'random'\n", "pyproject.toml": "[tool.torchfast]\nlevel = 'bitwise'\n"},
            Promise.RANDOM,
            id="beside a pyproject.toml it counts",
        ),
        pytest.param(
            {"torchfast.toml": "level = 'random'\n", "src/pyproject.toml": "[tool.torchfast]\nlevel = 'bitwise'\n"},
            Promise.BITWISE,
            id="the nearest counts",
        ),
    ],
)
def test_a_file_of_its_own_holds_choices(tmp_path: Path, files: dict[str, str], level: Promise) -> None:
    for name, text in files.items():
        write(tmp_path / name, text)

    assert settings(tmp_path / "src", Options()).level is level


@pytest.mark.parametrize(
    ("name", "pattern", "is_left"),
    [
        pytest.param("tests/a.py", "tests/", True, id="a directory"),
        pytest.param("tests/a.py", "a.py", True, id="a name anywhere"),
        pytest.param("tests/a.py", "/a.py", False, id="a name beside the configuration"),
        pytest.param("tests/deep/a.py", "tests/**/*.py", True, id="at any depth"),
        pytest.param("src/tests.py", "tests/", False, id="a file is no directory"),
    ],
)
def test_rules_are_ignored_in_files(tmp_path: Path, name: str, pattern: str, is_left: bool) -> None:  # noqa: FBT001
    write(tmp_path / "torchfast.toml", f"[per-file-ignores]\n'{pattern}' = ['loader-pin']\n")
    path = tmp_path / name

    rules = settings(path.parent, Options(), name=path.name).rules

    assert rules == GROUPS["DEFAULT"] - ({"loader-pin"} if is_left else set())


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("[per-file-ignores]\n'a.py' = ['loader-pinn']\n", "unknown rule 'loader-pinn'; did you mean 'loader-pin'?"),
        (
            "[per-file-ignores]\n'a.py' = 'loader-pin'\n",
            "a.py is not a list of rule names, as per-file-ignores has them",
        ),
        (
            "per-file-ignores = ['a.py']\n",
            "per-file-ignores is not a table of patterns, each with a list of rule names",
        ),
        ("fail-on = 'bits'\n", "unknown promise to fail on 'bits'"),
        ("levels = 'bitwise'\n", "unknown key 'levels'; did you mean 'level'?"),
    ],
)
def test_a_fault_in_a_file_of_its_own_is_said_in_one_line(tmp_path: Path, table: str, message: str) -> None:
    write(tmp_path / "torchfast.toml", table)

    with pytest.raises(FileError) as fault:
        settings(tmp_path, Options())

    assert str(fault.value).startswith(f"{tmp_path / 'torchfast.toml'}: {message}")
