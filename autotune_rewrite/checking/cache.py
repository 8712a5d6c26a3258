"""What was found before, by content: a file in the platform's cache directory, which may be removed at any time.

Two kinds of keys are used for it. One is a digest of everything that a result follows from: the files' contents, their
names, what was chosen, and torchfast itself. The other is a digest of the question alone, under which a *snapshot* of
the files is kept with the answer: where none of them was touched since, they need not even be read.

A cache is never in the way: one that is damaged, locked, or cannot be written holds nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from contextlib import closing, suppress
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from platformdirs import user_cache_path

from autotune_rewrite import __version__
from autotune_rewrite.project.configuration import FILES
from autotune_rewrite.project.target import LOCKS, PATTERNS, SPEAKING, read_in

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator, Mapping

Stamp: TypeAlias = "list[int] | None"
"""What tells that a file was touched: times of its change, in ns, its size and its number; None where there is none."""
Snapshot: TypeAlias = "dict[str, Stamp]"

MOST_BYTES = 64 * 2**20
"""What is kept at most; what was not asked for longest goes first."""
_TABLE = "CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, value TEXT, used INTEGER)"
_DAY = 24 * 60 * 60
_PATIENCE = 0.2
"""Seconds to wait for another torchfast that writes."""
_TICK = 2 * 10**9
"""Nanoseconds: what was touched so lately may be touched again with the same stamp, as clocks of disks are coarse."""
_MOST_ENTRIES = 50_000
"""Files and directories of a snapshot; to look at more takes as long as to read some."""
_READ_BESIDE = (*FILES, "requirements.txt", "environment.yml", *LOCKS, ".gitignore")
_ALL_BESIDE = frozenset({*_READ_BESIDE, *PATTERNS})
_READ = (".py", ".ipynb", ".txt", ".yml", ".yaml")
_SPEAKING = tuple(pattern.removesuffix("*") for pattern in SPEAKING)
_MARKS = (".git", ".hg", "setup.py", "setup.cfg", "pyvenv.cfg", "conda-meta", "__init__.py")
"""What is read, and what is looked for, in directories around scripts."""


def path() -> Path:
    """The file in which the cache is."""
    return user_cache_path("torchfast", appauthor=False) / "results.sqlite"


def key(*parts: str | bytes) -> str:
    """A digest of these parts, of torchfast itself and of the Python that it runs on, which parses scripts."""
    digest = hashlib.blake2b(digest_size=20)
    for part in (__version__, sys.version, _own_stamp(), *parts):
        data = part.encode(errors="surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


@cache
def _own_stamp() -> bytes:
    """What tells that torchfast's own code was changed, where it is being worked on."""
    here = Path(__file__).parents[1]
    directories = (each for package in (here, here.parent / "codemods") for each in os.walk(package))
    files = (os.path.join(place, name) for place, _, names in directories for name in names if name.endswith(".py"))  # noqa: PTH118
    return hashlib.blake2b(str([(each, _stamp(each)) for each in sorted(files)]).encode()).digest()


class Cache:
    """Values of JSON by key, in one file."""

    def __init__(self, place: Path | None = None) -> None:
        """The cache at a place, or at the usual one; nothing is opened yet."""
        self.place = path() if place is None else place

    def get(self, keys: Iterable[str]) -> dict[str, Any]:
        """The values that are known of these keys."""
        found: dict[str, Any] = {}

        def read(connection: sqlite3.Connection) -> None:
            for each in keys:
                row = connection.execute("SELECT value FROM results WHERE key = ?", (each,)).fetchone()
                if row is not None:
                    found[each] = json.loads(row[0])
            now = int(time.time())
            # What is used outlives what is not; noted once a day, or every run would have to write.
            old = [(now, each, now - _DAY) for each in found]
            connection.executemany("UPDATE results SET used = ? WHERE key = ? AND used < ?", old)

        if self.place.exists():
            self._with(read)
        return found

    def put(self, values: Mapping[str, Any]) -> None:
        """Keeps values, all or none of them, and lets go of the oldest where that is too much."""

        def write(connection: sqlite3.Connection) -> None:
            now = int(time.time())
            rows = [(each, json.dumps(value, separators=(",", ":")), now) for each, value in values.items()]
            connection.executemany("INSERT OR REPLACE INTO results VALUES (?, ?, ?)", rows)
            sizes = connection.execute(
                "SELECT key, length(value) FROM results ORDER BY used DESC, rowid DESC"
            ).fetchall()
            totals = accumulate(size for _, size in sizes)
            gone = [(each,) for (each, _), total in zip(sizes, totals, strict=True) if total > MOST_BYTES]
            connection.executemany("DELETE FROM results WHERE key = ?", gone)

        if values:
            self._with(write)

    def clean(self) -> int:
        """Removes the cache.

        Returns:
            The bytes that it took.

        Raises:
            OSError: when it cannot be removed.
        """
        size = 0
        for suffix in ("", "-journal", "-wal", "-shm"):
            each = self.place.with_name(self.place.name + suffix)
            with suppress(FileNotFoundError):
                taken = each.stat().st_size
                each.unlink()
                size += taken
        return size

    def _with(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Works in one transaction; what keeps a cache from being used is nobody's business."""
        try:
            import sqlite3
        except ImportError:  # a Python that was built without it
            return
        try:
            self.place.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.place, timeout=_PATIENCE)) as connection, connection:
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, value TEXT, used INTEGER)"
                )
                work(connection)
        except (OSError, ValueError, sqlite3.OperationalError):
            pass  # it is locked, cannot be written, or holds what torchfast did not write
        except sqlite3.DatabaseError:
            # It is damaged: another one takes its place next time.
            with suppress(OSError):
                self.place.unlink()


# --- snapshots ------------------------------------------------------------------------------------------------------


def snapshot(tops: Iterable[str], started: int) -> Snapshot | None:
    """The stamps of everything that decides what is found in some directories or files.

    Args:
        tops: The directories in which everything lies that is read, or single files.
        started: When the reading began, in ns since the epoch.

    Returns:
        The stamps; None where there are too many files, or some were touched so lately that stamps may not tell.
    """
    found: Snapshot = {}
    for top in tops:
        for each in _above(top):
            found[each] = _stamp(each)
        for each in _below(top):
            found[each] = _stamp(each)
            if len(found) > _MOST_ENTRIES:
                return None
    latest = max((max(each[:2]) for each in found.values() if each is not None), default=0)
    return found if latest < started - _TICK else None


def is_unchanged(before: Mapping[str, Stamp]) -> bool:
    """Whether nothing of a snapshot was touched since."""
    return all(_stamp(each) == stamp for each, stamp in before.items())


def surroundings(directory: str, known: dict[Path, bytes]) -> bytes:
    """The contents of the files, in a directory and those above it, that say how torchfast runs there.

    Args:
        directory: The directory.
        known: What was read so far, by the directory that it stands in: it is not read again, and more is added.
    """
    around = (Path(directory), *Path(directory).parents)
    for each in around:
        if each not in known:
            known[each] = _surrounding(each)
    return b"".join(known[each] for each in around)


def _surrounding(directory: Path) -> bytes:
    """The same of one directory alone."""
    found = bytearray()
    named = (directory / name for name in _READ_BESIDE)
    for path in sorted({*named, *read_in(directory)}):
        with suppress(OSError):
            found += f"{path}\0".encode(errors="surrogatepass") + path.read_bytes()
    found += str([(directory / name).exists() for name in _MARKS]).encode()
    return bytes(found)


def _stamp(path: str) -> Stamp:
    try:
        found = os.stat(path)  # noqa: PTH116 - thousands of times
    except OSError:
        return None
    return [found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino]


def _above(top: str) -> Iterator[str]:
    """What may decide in the directories above: files that are there or may come."""
    here = Path(top).absolute()
    in_project = True
    for each in here.parents:
        yield from (str(each / name) for name in (*_READ_BESIDE, *_MARKS))
        in_project = in_project and not any((each / mark).exists() for mark in _MARKS[:4])
        if in_project and (each / "__init__.py").exists():
            yield str(each)
        yield from map(str, read_in(each))


def _may_be_read(name: str) -> bool:
    is_command = "." not in name  # if its first line names Python
    return is_command or name.endswith(_READ) or name.startswith(_SPEAKING) or name in _ALL_BESIDE


def _below(top: str) -> Iterator[str]:
    """The directories, and the files that are read there."""
    yield top
    todo = [top] if os.path.isdir(top) else []  # noqa: PTH112 - thousands of times
    while todo:
        try:
            entries = list(os.scandir(todo.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith(".") and entry.name != "__pycache__":
                    todo.append(entry.path)
                    yield entry.path
            elif _may_be_read(entry.name):
                yield entry.path
