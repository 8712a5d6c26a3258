"""What of a project goes to other machines."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from autotune_rewrite.errors import FileError
from autotune_rewrite.project import shipping
from autotune_rewrite.project.shipping import shipment, top_of


def write(top: Path, *names: str) -> None:
    for name in names:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text("x")


def test_files_go_but_for_those_that_git_ignores(tmp_path: Path) -> None:
    write(
        tmp_path,
        "train.py",
        "nets/small.py",
        "data/a.bin",
        "nets/cache.log",
        "__pycache__/a.pyc",
        ".git/config",
        "env/pyvenv.cfg",
    )
    (tmp_path / ".gitignore").write_text("data/\n*.log\n")

    found = shipment(tmp_path)

    assert set(map(str, found.files)) == {".gitignore", "train.py", "nets/small.py"}
    assert set(map(str, found.left_out)) == {"data", "nets/cache.log"}
    assert found.told.startswith(f"3 files (0.0 kB) of {tmp_path} shipped to the nodes; not shipped")
    assert "data" in found.told


def test_patterns_of_a_repository_count_below_its_top(tmp_path: Path) -> None:
    write(tmp_path, ".git/config", "project/train.py", "project/model.pt")
    (tmp_path / ".gitignore").write_text("*.pt\n")

    assert shipment(tmp_path / "project").files == (Path("train.py"),)


def test_a_link_to_a_directory_stays_and_one_to_a_file_goes_as_a_file(tmp_path: Path) -> None:
    write(tmp_path, "elsewhere/large.bin", "project/train.py")
    (tmp_path / "project" / "data").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "project" / "one.bin").symlink_to(tmp_path / "elsewhere" / "large.bin")

    found = shipment(tmp_path / "project")
    found.lay(tmp_path / "laid")

    assert found.left_out == (Path("data"),)
    assert (tmp_path / "laid" / "one.bin").read_text() == "x"
    assert not (tmp_path / "laid" / "one.bin").is_symlink()


@pytest.mark.parametrize("limit", ["MOST_BYTES", "MOST_FILES"])
def test_what_is_too_large_for_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    write(tmp_path, "train.py", "other.py")
    (tmp_path / "images.bin").write_text("x" * 100)
    monkeypatch.setattr(shipping, limit, 2)

    with pytest.raises(FileError, match=r"name data in \.gitignore \(the largest file is images\.bin\)"):
        shipment(tmp_path)


def test_the_project_is_where_torchfast_is_started(tmp_path: Path) -> None:
    write(tmp_path, "scripts/train.py")

    assert top_of(tmp_path / "scripts" / "train.py", tmp_path) == tmp_path


def test_it_is_the_repository_where_the_script_lies_beside_that(tmp_path: Path) -> None:
    write(tmp_path, "scripts/train.py", "run/here")
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)

    assert top_of(tmp_path / "scripts" / "train.py", tmp_path / "run") == tmp_path


def test_a_script_elsewhere_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "scripts/train.py", "run/here")

    with pytest.raises(FileError, match="start torchfast from the top of the project"):
        top_of(tmp_path / "scripts" / "train.py", tmp_path / "run")
