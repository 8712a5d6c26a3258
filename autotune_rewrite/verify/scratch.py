"""A copy of a script's project for one run, so that no run touches the user's files or meets another run's."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import TYPE_CHECKING, TypeAlias

from autotune_rewrite.verify.records import File

if TYPE_CHECKING:
    from collections.abc import Iterator

COPIED_BYTES = 8 * 2**20
"""A larger file is linked."""
COPIED_IN_ALL = 256 * 2**20
"""Bytes that one copy may take; what comes later is linked."""
COPIED_FILES = 5000
"""Files of one copy; what comes later is linked. Nearer ones come first."""
FILES_OF_CODE = 1000
"""A directory with more entries holds data, and is linked."""
SEEN_ENTRIES = 5000
"""Files and directories behind links that are watched for writes, at most."""
READ_BYTES = 64 * 2**20
"""A file that a run wrote is read if it is not larger."""
LEVELS = 2
"""Directories above a project whose entries are linked, for scripts that read ``../data``."""
LINKED = frozenset({".git", ".hg", ".svn", ".tox", ".nox", "node_modules", "site-packages"})
"""Directories that a script does not write to, and that are large."""
SKIPPED = frozenset({"__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"})

Stamp: TypeAlias = "tuple[tuple[str, int, int], ...]"
"""What tells whether something was written: names below it, times of the last change and sizes."""


@dataclass(slots=True)
class Scratch:
    """The copy."""

    root: Path
    """The temporary directory that holds it."""
    places: dict[Path, Path] = field(default_factory=dict)
    """Where the directories that were copied lie, by their own paths."""
    linked: dict[Path, Stamp] = field(default_factory=dict)
    """What the copy only links to, as it was before the run; as much of it as can be watched at little cost."""
    settled: dict[str, tuple[Path, int, int]] = field(default_factory=dict)
    """The files of the copy itself before the run: their places, sizes, and times of change."""

    @property
    def watched(self) -> int:
        """The files and directories behind the links that are watched."""
        return sum(map(len, self.linked.values()))

    def place(self, path: Path) -> Path:
        """Where the copy of a path lies; the path itself where it was not copied.

        Args:
            path: Absolute, without links.
        """
        for original, copy in self.places.items():
            if path.is_relative_to(original):
                return copy / path.relative_to(original)
        return path

    def written(self) -> tuple[str, ...]:
        """The files and directories of the user that changed since the copy was made: it only links to them."""
        return tuple(str(path) for path, before in self.linked.items() if stamp(path) != before)

    def changed(self) -> tuple[File, ...]:
        """The files that were created or changed in the copy itself since the last call of ``settle``, by name."""
        found = sorted((name, one) for name, one in self._files().items() if self.settled.get(name) != one)
        return tuple(File(name, size, digest(path) if size <= READ_BYTES else "") for name, (path, size, _) in found)

    def settle(self) -> None:
        """What lies in the copy now is what the run will find."""
        self.settled = self._files()

    def _files(self) -> dict[str, tuple[Path, int, int]]:
        """The files of the copy by their names in it: where they lie, their sizes, the times of their last change."""
        found: dict[str, tuple[Path, int, int]] = {}
        for copy in self.places.values():
            for directory, names, files in os.walk(copy):
                names[:] = [name for name in names if name not in SKIPPED]
                for name in files:
                    path = Path(directory, name)
                    if path.is_file() and not path.is_symlink():
                        status = path.stat()
                        found[path.relative_to(copy).as_posix()] = path, status.st_size, status.st_mtime_ns
        return found

    def as_original(self, text: str) -> str:
        """A text, such as a traceback, that names the user's files instead of their copies."""
        for original, copy in self.places.items():
            text = text.replace(str(copy), str(original))
        return text


@contextmanager
def copied(script: Path, directory: Path, *, keep: bool = False) -> Iterator[Scratch]:
    """Copies what a script finds around it: the directory that it is started in, and its own.

    Args:
        script: The script.
        directory: Where it is started.
        keep: Leave the copy where it is.
    """
    scratch = Scratch(Path(mkdtemp(prefix="torchfast-")).resolve())
    script, directory = script.resolve(), directory.resolve()
    try:
        home = Path.home().resolve()
        too_wide = home.is_relative_to(directory)  # nobody's project is a home, or all of them
        if not too_wide:
            _copy(scratch, directory, "started")
        if too_wide or not script.is_relative_to(directory):
            _copy(scratch, script.parent, "script")
        yield scratch
    finally:
        if not keep:
            shutil.rmtree(scratch.root, ignore_errors=True)


def digest(path: Path) -> str:
    """SHA-256 of a file; empty where it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def stamp(path: Path) -> Stamp:
    """Of a file or a directory, with all that is in it; nothing where it is gone."""
    found: list[tuple[str, int, int]] = []
    waiting = deque([str(path)])
    while waiting and len(found) < SEEN_ENTRIES:
        name = waiting.popleft()
        try:
            status = Path(name).stat()
            is_directory = stat.S_ISDIR(status.st_mode)
            # A directory's own size says nothing, and its time is that of the entries in it.
            found.append((name, status.st_mtime_ns, 0 if is_directory else status.st_size))
            if is_directory:
                waiting.extend(sorted(entry.path for entry in os.scandir(name)))
        except OSError:
            continue
    return tuple(found)


def _copy(scratch: Scratch, directory: Path, name: str) -> None:
    """Copies a directory to where its relative paths, upwards too, lead to the same things."""
    above = [parent for parent in list(directory.parents)[:LEVELS] if parent != Path(directory.anchor)]
    place = scratch.root.joinpath(name, *(parent.name for parent in reversed(above)))
    place.mkdir(parents=True)
    below = directory
    for level, parent in enumerate(above):
        holder = place if level == 0 else place.parents[level - 1]
        _link_entries(scratch, parent, holder, without=below.name)
        below = parent
    copy = place / (directory.name or "root")
    _copy_tree(scratch, directory, copy)
    scratch.places[directory] = copy


def _link_entries(scratch: Scratch, source: Path, target: Path, *, without: str) -> None:
    """Links to everything in a directory but one; to nothing where it holds too much to be a project's."""
    try:
        entries = [entry for entry in source.iterdir() if entry.name != without]
    except OSError:
        return
    is_shared = source == Path(gettempdir()).resolve()  # where others write all the time
    if len(entries) <= FILES_OF_CODE:
        for entry in entries:
            if not entry.name.startswith("."):
                _link(scratch, entry, target / entry.name, watched=not is_shared)


def _copy_tree(scratch: Scratch, source: Path, target: Path) -> None:
    """Copies files, the nearer ones first, until there are too many; the rest is linked."""
    files = size = 0
    target.mkdir()
    waiting = deque([(source, target)])
    while waiting:
        directory, copy = waiting.popleft()
        for entry in sorted(os.scandir(directory), key=lambda each: each.name):
            path, place = Path(entry.path), copy / entry.name
            if entry.is_symlink():
                place.symlink_to(path.readlink())
            elif entry.is_dir():
                if entry.name in SKIPPED:
                    continue
                if entry.name in LINKED or _is_data(path) or files >= COPIED_FILES:
                    _link(scratch, path, place)
                else:
                    place.mkdir()
                    waiting.append((path, place))
            elif entry.is_file():
                length = entry.stat().st_size
                if length > COPIED_BYTES or size + length > COPIED_IN_ALL or files >= COPIED_FILES:
                    _link(scratch, path, place)
                else:
                    shutil.copy2(path, place)
                    files += 1
                    size += length


def _is_data(directory: Path) -> bool:
    """Whether it is a virtual environment, or holds too many things to be code; also where it cannot be read."""
    try:
        names = [entry.name for entry in directory.iterdir()]
    except OSError:
        return True
    return len(names) > FILES_OF_CODE or "pyvenv.cfg" in names


def _link(scratch: Scratch, source: Path, target: Path, *, watched: bool = True) -> None:
    target.symlink_to(source, target_is_directory=source.is_dir())
    if watched and scratch.watched < SEEN_ENTRIES:
        scratch.linked[source] = stamp(source)
