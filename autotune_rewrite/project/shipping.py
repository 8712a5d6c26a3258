"""What of a project goes to other machines: its files, but for what git ignores and what is larger than code."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from autotune_rewrite.errors import FileError
from autotune_rewrite.project import git
from autotune_rewrite.project.files import ENVIRONMENT_MARKS, SKIPPED, Ignores

MOST_BYTES = 256 * 2**20
MOST_FILES = 20_000
NEVER = SKIPPED | {".git", ".hg", ".svn", ".tox", ".nox", ".mypy_cache", ".ruff_cache", ".pytest_cache"}
"""Directories that no script reads."""


@dataclass(frozen=True, slots=True)
class Shipment:
    """The files that go."""

    top: Path
    """The directory that they are below, absolute and without links."""
    files: tuple[Path, ...] = ()
    """Relative to it."""
    size: int = 0
    """Bytes of all of them."""
    left_out: tuple[Path, ...] = ()
    """What is there and does not go: git ignores it, or it is a link to a directory. Relative, too."""

    def lay(self, target: Path) -> None:
        """Copy the files to a directory, which is made.

        Raises:
            FileError: One of them cannot be read.
        """
        target.mkdir(parents=True)
        for each in self.files:
            place = target / each
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                shutil.copy2(self.top / each, place)
            except OSError as error:
                raise FileError(str(self.top / each), f"cannot be shipped: {error.strerror or error}") from error

    @property
    def told(self) -> str:
        """What the user is told of it."""
        number = "1 file" if len(self.files) == 1 else f"{len(self.files)} files"
        size = f"{self.size / 2**20:.1f} MB" if self.size >= 2**20 else f"{self.size / 2**10:.1f} kB"
        told = f"{number} ({size}) of {self.top} shipped to the nodes"
        some = ", ".join(map(str, self.left_out[:5])) + ", …" * (len(self.left_out) > 5)  # noqa: PLR2004 - a few
        left = f"; not shipped, as git ignores it or it is a link: {some}" if self.left_out else ""
        return f"{told}{left}; what is not shipped has to be at the same place on each node"


def top_of(script: Path, started: Path) -> Path:
    """The directory whose files a script needs, by where it lies and where it is started.

    Raises:
        FileError: They have none in common but one that is no project's.
    """
    script, started = script.resolve(), started.resolve()
    found = git.root(str(started))
    tops = [started] if found is None else [started, found.resolve()]
    for top in tops:
        if script.is_relative_to(top) and started.is_relative_to(top):
            return top
    message = f"it lies outside of {started}: start torchfast from the top of the project that is to be shipped"
    raise FileError(str(script), message)


def shipment(top: Path) -> Shipment:
    """What is to be shipped of a directory.

    Raises:
        FileError: It is too much.
    """
    ignores = Ignores.above(top)
    files: list[Path] = []
    left_out: list[Path] = []
    size = 0
    for directory, names, others in os.walk(top):
        here = Path(directory)
        ignores.read(here)
        below = sorted(name for name in names if not _is_never(here / name))
        kept = [name for name in below if not _stays(here / name, ignores)]
        left_out += [(here / name).relative_to(top) for name in below if name not in kept]
        names[:] = kept
        for path in (here / name for name in sorted(others)):
            if not path.is_file():
                continue  # a link that leads nowhere, a socket
            if ignores.cover(path):
                left_out.append(path.relative_to(top))
                continue
            files.append(path.relative_to(top))
            size += path.stat().st_size
        if size > MOST_BYTES or len(files) > MOST_FILES:
            _refuse(top, files)
    return Shipment(top, tuple(files), size, tuple(left_out))


def _is_never(directory: Path) -> bool:
    return directory.name in NEVER or any((directory / mark).exists() for mark in ENVIRONMENT_MARKS)


def _stays(directory: Path, ignores: Ignores) -> bool:
    return directory.is_symlink() or ignores.cover(directory, directory=True)


def _refuse(top: Path, files: list[Path]) -> None:
    """Says what is too large.

    Raises:
        FileError: Always.
    """
    largest = max(files, key=lambda each: (top / each).stat().st_size)
    limits = f"{MOST_BYTES // 2**20} MB in {MOST_FILES} files"
    message = f"more than {limits}, which is no code: name data in .gitignore (the largest file is {largest})"
    raise FileError(str(top), message)
