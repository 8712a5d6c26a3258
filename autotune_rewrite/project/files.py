"""Files: which ones there are, what is in them, and how one is replaced."""

from __future__ import annotations

import contextlib
import io
import os
import re
import stat
import tempfile
import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from autotune_rewrite.errors import FileError, NoPythonFilesError
from autotune_rewrite.project import notebooks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pathspec import GitIgnoreSpec

SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages"})
"""Directories of what nobody wrote by hand."""
ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")
"""What the directory of an environment holds."""


_HASHBANG = re.compile(rb"#![^\n]*\bpython[\d.]*\b")
_FIRST_BYTES = 128


@dataclass(frozen=True, slots=True)
class Source:
    """A Python file, decoded: ``text`` keeps every newline as it stands, and the byte order mark, if there is one."""

    path: str
    data: bytes
    text: str
    """Of a notebook, the program that its code cells are together."""
    encoding: str
    cells: notebooks.Cells | None = None
    """Of a notebook, where its cells stand in that program."""

    @property
    def mentions_torch(self) -> bool:
        """Whether there is anything in it for torchfast."""
        return b"torch" in self.data if self.cells is None else "torch" in self.text

    def encode(self, text: str) -> bytes:
        """This file with another text, in its encoding.

        Raises:
            FileError: when a notebook's cells cannot have that text.
        """
        if self.cells is None:
            return text.encode(self.encoding)
        return notebooks.with_program(self.path, self.data, self.cells, text)


def read(path: str) -> Source:
    """The Python file, or notebook, at a path.

    Raises:
        FileError: when it is missing, no regular file, unreadable, no text, or no notebook that is understood.
    """
    try:
        # Opening a pipe would wait for somebody to write.
        if not stat.S_ISREG(Path(path).stat().st_mode):
            raise FileError(path, "not a regular file")
        data = Path(path).read_bytes()
    except OSError as error:
        raise FileError(path, _reason(error)) from error
    return decode(path, data)


def decode(path: str, data: bytes, *, as_text: bool = False) -> Source:
    """The Python file, or notebook, with these bytes.

    Args:
        path: Its name.
        data: What is in it.
        as_text: Whether its text is wanted even where it does not mention torch.

    Raises:
        FileError: when the bytes are no text in the encoding that the file declares, or no notebook.
    """
    if b"\0" in data:
        raise FileError(path, "not a text file: it holds a null byte", _line(data, data.index(b"\0")))
    if b"torch" not in data and not as_text:
        # Nobody will look at the text, so that its encoding is not this tool's business.
        return Source(path, data, data.decode("latin-1"), "latin-1")
    if path.endswith(".ipynb"):
        program, cells = notebooks.program(path, data, as_text=as_text)
        return Source(path, data, program, "utf-8", cells)
    try:
        declared, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        encoding = "utf-8" if declared == "utf-8-sig" else declared
        text = data.decode(encoding)
        kept = text.encode(encoding) == data
    except SyntaxError as error:
        raise FileError(path, error.msg, 1) from error
    except UnicodeDecodeError as error:
        raise FileError(path, f"not {error.encoding}: {error.reason}", _line(data, error.start)) from error
    except (UnicodeError, LookupError) as error:
        raise FileError(path, f"the declared encoding cannot be read: {error}", 1) from error
    if not kept:
        raise FileError(path, f"cannot be written back unchanged in its encoding, {encoding}", 1)
    return Source(path, data, text, encoding)


def replace(source: Source, text: str) -> None:
    """Give a file another text: at any moment it is wholly the old or wholly the new one, and its mode stays.

    Of a symbolic link the target is replaced.

    Raises:
        FileError: when the file is read-only, was changed since it was read, or cannot be written.
    """
    try:
        target = Path(source.path).resolve(strict=True)
        before = target.stat()
        if not before.st_mode & 0o222 or not os.access(target, os.W_OK):
            raise FileError(source.path, "is read-only: not written")
        if target.read_bytes() != source.data:
            raise FileError(source.path, "was changed while torchfast ran: not written")
        _replace(target, before, source.encode(text))
    except OSError as error:
        raise FileError(source.path, f"not written: {_reason(error)}") from error


def content(path: str) -> bytes:
    """The bytes of a file.

    Raises:
        FileError: when it cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise FileError(path, _reason(error)) from error


def restore(path: str, data: bytes) -> None:
    """Give a file the bytes that it had before, at once; its mode stays.

    Raises:
        FileError: when it cannot be written.
    """
    try:
        target = Path(path).resolve(strict=True)
        _replace(target, target.stat(), data)
    except OSError as error:
        raise FileError(path, f"not written: {_reason(error)}") from error


def _replace(target: Path, before: os.stat_result, data: bytes) -> None:
    """Put a file with these bytes in the target's place."""
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as new:
            new.write(data)
            new.flush()
            os.fsync(new.fileno())
        if hasattr(os, "chown"):
            # Only root may give a file away; for everybody else it is the owner's already.
            with contextlib.suppress(PermissionError):
                os.chown(temporary, before.st_uid, before.st_gid)
        temporary.chmod(stat.S_IMODE(before.st_mode))
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write(path: str, data: bytes) -> None:
    """Write a file that the user named for it, or write over it.

    Raises:
        FileError: when it cannot be written.
    """
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise FileError(path, f"not written: {_reason(error)}") from error


def refuse_unwritable(path: Path, *, is_directory: bool = False) -> None:
    """Refuse, before work that takes long, what could not be written after it.

    Args:
        path: A file, whose directory has to be there; or a directory, which need not be there.
        is_directory: Which of the two it is.

    Raises:
        FileError: it cannot be written.
    """
    try:
        problem = _problem_of_directory(path) if is_directory else _problem_of_file(path)
    except OSError as error:
        problem = _reason(error)
    if problem:
        raise FileError(str(path), f"cannot be written: {problem}")


def _problem_of_file(path: Path) -> str:
    if not path.parent.is_dir():
        return f"there is no directory {path.parent}"
    if path.is_dir():
        return "it is a directory"
    return "" if os.access(path if path.exists() else path.parent, os.W_OK) else "permission denied"


def _problem_of_directory(path: Path) -> str:
    there = next(each for each in (path, *path.parents, Path()) if each.exists())
    if not there.is_dir():
        return f"{there} is not a directory"
    return "" if os.access(there, os.W_OK) else "permission denied"


class Excludes(Protocol):
    """Which files and directories the user wants left out."""

    def __call__(self, path: Path, *, directory: bool = False) -> bool:
        """Whether a path is left out."""


def _nothing(path: Path, *, directory: bool = False) -> bool:  # noqa: ARG001 - the interface
    return False


def python_files(paths: Iterable[str], excludes: Excludes = _nothing) -> Iterator[str | FileError]:
    """The files named, and the Python files of the directories named, each once; or what is wrong with a name.

    Args:
        paths: Files and directories.
        excludes: What is left out below the directories.
    """
    seen = set()
    for path in paths:
        files = _walk(Path(path), excludes) if Path(path).is_dir() else iter([path])
        found = False
        for file in files:
            found = True
            real = os.path.realpath(file)
            if real not in seen:
                seen.add(real)
                yield file
        if not found:
            yield NoPythonFilesError(path, "no Python files in this directory")


def _walk(root: Path, excludes: Excludes) -> Iterator[str]:
    """The Python files below a directory, in order, without what nobody wrote by hand, git ignores or is excluded."""
    ignores = Ignores.above(root)
    for name, directories, files in os.walk(root):
        here = Path(name)
        ignores.read(here)
        directories[:] = sorted(
            each
            for each in directories
            if not each.startswith(".")
            and each not in SKIPPED
            and not any((here / each / mark).exists() for mark in ENVIRONMENT_MARKS)
            and not ignores.cover(here / each, directory=True)
            and not excludes(here / each, directory=True)
        )
        for file in sorted(files):
            if is_python(name, file) and not ignores.cover(here / file) and not excludes(here / file):
                yield str(here / file)


def is_python(directory: str, name: str) -> bool:
    """Whether a file of a directory is a script, a module or a notebook, by its name or its first line."""
    return name.endswith((".py", ".ipynb")) or is_command(directory, name)


def is_command(directory: str, name: str) -> bool:
    """Whether a file without a suffix says in its first line that Python runs it: ``#!/usr/bin/env python3``."""
    if "." in name:
        return False
    path = os.path.join(directory, name)  # noqa: PTH118 - thousands of times
    try:
        # Opening a pipe would wait for somebody to write.
        if not os.path.isfile(path):  # noqa: PTH113
            return False
        with open(path, "rb") as file:  # noqa: PTH123
            return _HASHBANG.match(file.read(_FIRST_BYTES)) is not None
    except OSError:
        return False


class Ignores:
    """The .gitignore files that speak of a directory tree."""

    def __init__(self) -> None:
        self._specs: dict[Path, GitIgnoreSpec] = {}

    @classmethod
    def above(cls, root: Path) -> Ignores:
        """Those of the directories above ``root`` in its git work tree."""
        ignores = cls()
        parents = root.absolute().parents
        tops = [index for index, each in enumerate(parents) if (each / ".git").exists()]
        if tops and not (root / ".git").exists():
            for each in parents[: tops[0] + 1]:
                ignores.read(each)
        return ignores

    def read(self, directory: Path) -> None:
        """Take in the .gitignore of a directory, if there is one."""
        # git passes over patterns that are none; here the whole file is passed over.
        with contextlib.suppress(OSError, ValueError):
            lines = (directory / ".gitignore").read_text(encoding="utf-8", errors="replace").splitlines()
            from pathspec import GitIgnoreSpec

            self._specs[directory.absolute()] = GitIgnoreSpec.from_lines(lines)

    def cover(self, path: Path, *, directory: bool = False) -> bool:
        """Whether git ignores the path: the deepest .gitignore that speaks of it decides."""
        path = path.absolute()
        for parent in path.parents:
            spec = self._specs.get(parent)
            if spec is not None:
                said = spec.check_file(path.relative_to(parent).as_posix() + "/" * directory).include
                if said is not None:
                    return said
        return False


def _line(data: bytes, offset: int) -> int:
    """The line, from 1, of the byte at an offset."""
    return data.count(b"\n", 0, offset) + 1


def _reason(error: OSError) -> str:
    """What the operating system says, in small letters and without the file's name."""
    said = error.strerror or str(error)
    return said[:1].lower() + said[1:]
