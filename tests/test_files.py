from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from autotune_rewrite.errors import FileError
from autotune_rewrite.project import files

OLD = "import torch  # old\n"
NEW = "import torch  # new\n"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(OLD)
    return path


@pytest.mark.parametrize("mode", [0o644, 0o755, 0o600])
def test_a_replaced_file_keeps_its_mode(script: Path, mode: int) -> None:
    script.chmod(mode)

    files.replace(files.read(str(script)), NEW)

    assert script.read_text() == NEW
    assert stat.S_IMODE(script.stat().st_mode) == mode
    assert list(script.parent.iterdir()) == [script]


def test_of_a_symbolic_link_the_target_is_replaced(script: Path, tmp_path: Path) -> None:
    folder = tmp_path / "links"
    folder.mkdir()
    link = folder / "link.py"
    link.symlink_to(script)

    files.replace(files.read(str(link)), NEW)

    assert link.is_symlink()
    assert script.read_text() == NEW


def test_a_read_only_file_is_left(script: Path) -> None:
    script.chmod(0o444)

    with pytest.raises(FileError, match="is read-only"):
        files.replace(files.read(str(script)), NEW)

    assert script.read_text() == OLD


def test_what_was_changed_meanwhile_is_left(script: Path) -> None:
    source = files.read(str(script))
    script.write_text("import torch  # the user's\n")

    with pytest.raises(FileError, match="was changed while torchfast ran"):
        files.replace(source, NEW)

    assert script.read_text() == "import torch  # the user's\n"


def test_an_interrupt_before_the_replacement_leaves_the_old_file_alone(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: Path, __: Path) -> None:
        raise KeyboardInterrupt

    source = files.read(str(script))
    monkeypatch.setattr(Path, "replace", interrupt)

    with pytest.raises(KeyboardInterrupt):
        files.replace(source, NEW)

    assert script.read_text() == OLD
    assert list(script.parent.iterdir()) == [script]


@pytest.mark.parametrize("call", ["fsync", "chown", "fdopen"])
def test_killed_while_writing_the_file_is_the_old_one(script: Path, call: str) -> None:
    # In a process of its own, which ends at once when it comes to the call.
    program = (
        f"import os; from autotune_rewrite.project import files; source = files.read({str(script)!r});"
        f"os.{call} = lambda *_: os._exit(9); files.replace(source, {NEW!r})"
    )

    ended = subprocess.run([sys.executable, "-c", program], check=False)

    assert ended.returncode == 9
    assert script.read_text() == OLD


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        pytest.param(b"import torch\n", "utf-8", id="no declaration"),
        pytest.param(b"\xef\xbb\xbfimport torch\n", "utf-8", id="byte order mark"),
        pytest.param("# coding: latin-1\nimport torch  # é\n".encode("latin-1"), "iso-8859-1", id="latin-1"),
        pytest.param("# coding: cp1252\nimport torch  # €\n".encode("cp1252"), "cp1252", id="cp1252"),
        pytest.param(b"import torch\r\nx = 1\ry = 2\n", "utf-8", id="mixed newlines"),
    ],
)
def test_a_text_comes_back_byte_for_byte(data: bytes, encoding: str) -> None:
    source = files.decode("train.py", data)

    assert source.encoding == encoding
    assert source.encode(source.text) == data


@pytest.mark.parametrize(
    ("data", "line", "message"),
    [
        pytest.param(b"import torch\n\0", 2, "null byte", id="binary"),
        pytest.param("import torch\n".encode("utf-16"), 1, "null byte", id="UTF-16"),
        pytest.param(b"# coding: klingon\nimport torch\n", 1, "unknown encoding", id="unknown encoding"),
        pytest.param(b"import torch\n\n# \xe9\n", 3, "not utf-8", id="not UTF-8"),
        pytest.param(b"# coding: hex\nimport torch\n", 1, "encoding", id="no text encoding"),
        pytest.param(
            b"# coding: utf-7\nimport torch  # ~\n", 1, "unchanged", id="an encoding that does not round-trip"
        ),
        pytest.param(
            b"\xef\xbb\xbf# coding: latin-1\nimport torch\n", 1, "encoding", id="mark and declaration disagree"
        ),
    ],
)
def test_what_is_no_text_is_refused_with_its_line(data: bytes, line: int, message: str) -> None:
    with pytest.raises(FileError, match=message) as caught:
        files.decode("train.py", data)

    assert caught.value.line == line


def test_without_torch_any_bytes_are_kept() -> None:
    data = b"# coding: klingon\nprint 'h\xe9llo'\r\n"

    source = files.decode("other.py", data)

    assert not source.mentions_torch
    assert source.data == data


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")

    for name, message in (("missing.py", "no such file"), ("pipe.py", "not a regular"), ("loop.py", "symbolic links")):
        with pytest.raises(FileError, match=message):
            files.read(str(tmp_path / name))


def tree(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def found(root: Path) -> list[str]:
    return [
        Path(each).relative_to(root).as_posix() for each in files.python_files([str(root)]) if isinstance(each, str)
    ]


def test_directories_are_walked_in_order(tmp_path: Path) -> None:
    tree(tmp_path, "b.py", "a.py", "c/d.py", "notes.txt", "c/e.ipynb")

    assert found(tmp_path) == ["a.py", "b.py", "c/d.py", "c/e.ipynb"]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(".hidden/a.py", id="hidden"),
        pytest.param("__pycache__/a.py", id="cache"),
        pytest.param("node_modules/a.py", id="node_modules"),
        pytest.param("lib/site-packages/a.py", id="installed"),
        pytest.param("env/a.py", id="virtual environment"),
        pytest.param("conda/lib/a.py", id="conda environment"),
    ],
)
def test_what_nobody_wrote_is_not_walked(tmp_path: Path, name: str) -> None:
    tree(tmp_path, "mine.py", "env/pyvenv.cfg", "conda/conda-meta/history", name)

    assert found(tmp_path) == ["mine.py"]


def test_what_git_ignores_is_not_walked(tmp_path: Path) -> None:
    tree(tmp_path, ".git/HEAD", "p/a.py", "p/build/b.py", "p/kept/gen_c.py", "p/gen_d.py", "p/top.py")
    (tmp_path / ".gitignore").write_text("build/\ngen_*.py\n/p/top.py\n")
    (tmp_path / "p/kept/.gitignore").write_text("!gen_c.py\n")

    assert found(tmp_path / "p") == ["a.py", "kept/gen_c.py"]


def test_a_file_named_twice_comes_once(tmp_path: Path) -> None:
    tree(tmp_path, "a.py", "b.py")
    names = [str(tmp_path / "b.py"), str(tmp_path), str(tmp_path / "b.py")]

    assert list(files.python_files(names)) == [str(tmp_path / "b.py"), str(tmp_path / "a.py")]


def test_a_directory_without_python_is_an_error(tmp_path: Path) -> None:
    tree(tmp_path, "notes.txt")

    (error,) = files.python_files([str(tmp_path)])

    assert isinstance(error, FileError)
    assert error.message == "no Python files in this directory"
