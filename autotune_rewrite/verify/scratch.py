"""A copy of a script's project for one run, so that no run touches the user's files or meets another run's."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import zipfile
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import TYPE_CHECKING, TypeAlias

from autotune_rewrite.verify.plan import VerifyError
from autotune_rewrite.verify.records import File

if TYPE_CHECKING:
    from collections.abc import Iterator

    from autotune_rewrite.project.revisions import Revision

COPIED_BYTES = 8 * 2**20
"""A larger file is linked."""
COPIED_IN_ALL = 256 * 2**20
"""Bytes that one copy may take; what comes later is linked."""
COPIED_FILES = 5000
"""Files of one copy; what comes later is linked. Nearer ones come first."""
FILES_OF_CODE = 1000
"""A directory with more entries holds data, and is linked."""
SEEN_ENTRIES = 5000
"""Files and directories that are watched for writes, at most: of the project, and as many around it."""
CHECKPOINTS = frozenset({".pt", ".pth", ".ckpt", ".tar"})
"""Suffixes of what scripts save with ``torch.save``."""
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
    frames: list[tuple[Path, Path]] = field(default_factory=list)
    """For each copy the topmost directory above it that is there, too, and where; paths below lie alike in both."""
    watched: dict[Path, Stamp] = field(default_factory=dict)
    """The user's own files, copied or linked to, as they were before the run; as many as cost little to watch."""
    watchable: int = SEEN_ENTRIES
    """How many more may be watched."""
    settled: dict[str, tuple[Path, int, int]] = field(default_factory=dict)
    """The files of the copy itself before the run: their places, sizes, and times of change."""

    def place(self, path: Path) -> Path:
        """Where the copy of a path lies; the path itself where it was not copied.

        Args:
            path: Absolute, without links.
        """
        nearest = max((each for each in self.places if path.is_relative_to(each)), key=_depth, default=None)
        return path if nearest is None else self.places[nearest] / path.relative_to(nearest)

    def put(self, path: Path, content: bytes) -> None:
        """Gives the copy of a file another content; the user's own stays, also where one of its directories is linked.

        Args:
            path: Where the file is, or would be: absolute, without links.
            content: What is in it then.
        """
        place = self.place(path)
        self._clear(place)
        place.write_bytes(content)

    def go_back(self, revision: Revision) -> None:
        """Gives the copy what lay there at a revision."""
        for directory, copy in self.frames:
            if not revision.top.is_relative_to(directory):
                continue
            top = copy / revision.top.relative_to(directory)
            for name in revision.gone:
                self._clear(top / name)
                _prune(top / name, top)
            for name in revision.laid:
                self._clear(top / name)
                _lay(revision.folder / name, top / name)

    def _clear(self, place: Path) -> None:
        """Makes a place in the copy one that can be written to: above it are directories, and it is free."""
        for above in reversed(place.relative_to(self.root).parents[:-1]):
            directory = self.root / above
            if directory.is_symlink() and directory.is_dir():
                _unfold(directory)
            elif not directory.is_dir():
                directory.unlink(missing_ok=True)
                directory.mkdir()
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)

    def watch(self, path: Path, entries: int = SEEN_ENTRIES) -> None:
        """Remembers how a file or a directory of the user is now, with so many of the entries below it."""
        found = stamp(path, min(entries, self.watchable))
        self.watchable -= len(found)
        if found:
            self.watched[path] = found

    def written(self) -> tuple[str, ...]:
        """The files and directories of the user that changed since the copy was made."""
        return tuple(str(path) for path, before in self.watched.items() if stamp(path, len(before)) != before)

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
def copied(script: Path, directory: Path, *, top: Path | None = None, keep: bool = False) -> Iterator[Scratch]:
    """Copies what a script finds around it: the directory that it is started in, and its own.

    Args:
        script: The script; it need not be there yet.
        directory: Where it is started; it need not be there yet, either.
        top: A directory above them up to which all is there, as links at least.
        keep: Leave the copy where it is.
    """
    scratch = Scratch(Path(mkdtemp(prefix="torchfast-")).resolve())
    own = _there(script.resolve().parent)
    directory = _there(directory.resolve())
    try:
        try:
            _copy(scratch, directory, "started", top)
            if not own.is_relative_to(directory) or (_is_too_wide(directory) and own != directory):
                _copy(scratch, own, "script", top)
        except OSError as error:
            message = f"{error.filename or scratch.root}: {error.strerror or error}, when the project was copied"
            raise VerifyError(message) from error
        yield scratch
    finally:
        if not keep:
            shutil.rmtree(scratch.root, ignore_errors=True)


def digest(path: Path) -> str:
    """SHA-256 of a file, of a checkpoint that of the tensors in it; empty where it cannot be read.

    A rewrite may add to the state that a script saves (a gradient scaler's), and the tensors still are to be the same.
    ``torch.save`` writes a zip file with a member for each of them.
    """
    try:
        if path.suffix not in CHECKPOINTS:
            return hashlib.sha256(path.read_bytes()).hexdigest()
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if re.search(r"/data/\d+$", name)]
            tensors = sorted(hashlib.sha256(archive.read(name)).hexdigest() for name in names)
        return hashlib.sha256("".join(tensors).encode()).hexdigest()
    except (OSError, zipfile.BadZipFile):
        return ""


def stamp(path: Path, entries: int = SEEN_ENTRIES) -> Stamp:
    """Of a file or a directory, with so many of the entries below it; nothing where it is gone."""
    try:
        found = [_seen(str(path), path.stat())]
    except OSError:
        return ()
    waiting = deque([str(path)] if path.is_dir() else [])
    while waiting and len(found) < entries:
        try:
            below = sorted(os.scandir(waiting.popleft()), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in below[: entries - len(found)]:
            with suppress(OSError):  # a link that leads nowhere, or what is gone meanwhile
                found.append(_seen(entry.path, entry.stat()))
                if entry.is_dir():
                    waiting.append(entry.path)
    return tuple(found)


def _seen(name: str, status: os.stat_result) -> tuple[str, int, int]:
    """A directory's own size says nothing, and its time is that of the entries in it."""
    return name, status.st_mtime_ns, 0 if stat.S_ISDIR(status.st_mode) else status.st_size


def _copy(scratch: Scratch, directory: Path, name: str, top: Path | None) -> None:
    """Copies a directory to where its relative paths, upwards too, lead to the same things.

    Nobody's project is a home, or holds all temporary files: there a run finds links.
    """
    if _is_too_wide(directory):
        copy = scratch.places[directory] = scratch.root / name / (directory.name or "root")
        copy.mkdir(parents=True)
        scratch.frames.append((directory, copy))
        _link_entries(scratch, directory, copy, without=scratch.root.name)
        return
    is_below = top is not None and directory.is_relative_to(top)
    levels = max(LEVELS, len(directory.relative_to(top).parts)) if top is not None and is_below else LEVELS
    above = [parent for parent in list(directory.parents)[:levels] if parent != Path(directory.anchor)]
    place = scratch.root.joinpath(name, *(parent.name for parent in reversed(above)))
    place.mkdir(parents=True)
    copy = scratch.places[directory] = place / (directory.name or "root")
    scratch.frames.append((above[-1], scratch.root / name / above[-1].name) if above else (directory, copy))
    _copy_tree(scratch, directory, copy)
    scratch.watchable = SEEN_ENTRIES
    below = directory
    for level, parent in enumerate(above):
        holder = place if level == 0 else place.parents[level - 1]
        _link_entries(scratch, parent, holder, without=below.name)
        below = parent


def _is_too_wide(directory: Path) -> bool:
    return any(each.resolve().is_relative_to(directory) for each in (Path.home(), Path(gettempdir())))


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
        scratch.watch(directory, entries=1)
        for entry in sorted(os.scandir(directory), key=lambda each: each.name):
            path, place = Path(entry.path), copy / entry.name
            if entry.is_symlink():
                _copy_link(scratch, path, place)
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
                    _copy_file(scratch, path, place)
                    files += 1
                    size += length


def _copy_file(scratch: Scratch, source: Path, target: Path) -> None:
    """Copies a file, links to one that may not be read, and leaves out one that is gone meanwhile."""
    try:
        shutil.copy2(source, target)
        scratch.watch(source)
    except FileNotFoundError:
        return
    except PermissionError:
        _link(scratch, source, target)


def _copy_link(scratch: Scratch, source: Path, target: Path) -> None:
    """Makes a link that leads into the copy where the original leads into the project, else to where that leads."""
    leads = source.resolve()
    copied = scratch.place(leads)
    if copied != leads:
        shown = source.readlink()
        target.symlink_to(copied if shown.is_absolute() else shown)
    elif leads.exists():
        _link(scratch, leads, target)
    else:
        target.symlink_to(source.readlink())


def _depth(path: Path) -> int:
    return len(path.parts)


def _is_data(directory: Path) -> bool:
    """Whether it is a virtual environment, or holds too many things to be code; also where it cannot be read."""
    try:
        names = [entry.name for entry in directory.iterdir()]
    except OSError:
        return True
    return len(names) > FILES_OF_CODE or "pyvenv.cfg" in names


def _there(directory: Path) -> Path:
    """The directory, or the nearest one above it that is there."""
    return next(each for each in (directory, *directory.parents) if each.is_dir())


def _lay(source: Path, target: Path) -> None:
    """Copies a file or a link, or links to a large file."""
    if not source.is_symlink() and source.stat().st_size > COPIED_BYTES:
        target.symlink_to(source)
    else:
        shutil.copy2(source, target, follow_symlinks=False)


def _prune(place: Path, top: Path) -> None:
    """Removes the directories above a place, up to a top one, in which nothing is left: git has none that are empty."""
    for above in place.parents:
        if above == top or any(above.iterdir()):
            return
        above.rmdir()


def _unfold(link: Path) -> None:
    """Makes a link to a directory a directory of links to what is in it."""
    source = link.resolve()
    link.unlink()
    link.mkdir()
    for entry in source.iterdir():
        (link / entry.name).symlink_to(entry, target_is_directory=entry.is_dir())


def _link(scratch: Scratch, source: Path, target: Path, *, watched: bool = True) -> None:
    target.symlink_to(source, target_is_directory=source.is_dir())
    if watched:
        scratch.watch(source)
