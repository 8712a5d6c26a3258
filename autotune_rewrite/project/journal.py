"""What torchfast wrote last from a directory: it can be taken back as long as nobody else changes it."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_state_path

from autotune_rewrite.errors import FileError
from autotune_rewrite.project import files

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

VERSION = 1


@dataclass(frozen=True, slots=True)
class Written:
    """A file that was written."""

    path: str
    """Absolute."""
    before: bytes
    after: str
    """A digest of what was written."""

    @classmethod
    def of(cls, path: str, before: bytes) -> Written:
        """A file that was just written.

        Raises:
            FileError: when it cannot be read.
        """
        absolute = str(Path(path).absolute())
        return cls(absolute, before, _digest(files.content(absolute)))


def keep(written: Iterable[Written]) -> None:
    """Keep it, in the place of what was kept before; where that cannot be, nothing is kept."""
    said = [
        {"path": each.path, "before": base64.b64encode(each.before).decode(), "after": each.after} for each in written
    ]
    place = _place()
    try:
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        place.write_text(json.dumps({"version": VERSION, "files": said}), encoding="utf-8")
    except OSError:
        return  # what is not kept is not taken back: undo looks whether files are as they were written


def kept() -> list[Written]:
    """What was kept; nothing where there is nothing that this version understands."""
    try:
        said = json.loads(_place().read_text(encoding="utf-8"))
        return [
            Written(each["path"], base64.b64decode(each["before"]), each["after"])
            for each in (said["files"] if said["version"] == VERSION else ())
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def take_back(written: Sequence[Written]) -> None:
    """Give files the content that they had before.

    Raises:
        FileError: when one was changed since: then nothing is taken back; or when one cannot be read or written.
    """
    changed = [each for each in written if files.content(each.path) != each.before]
    for each in changed:
        if _digest(files.content(each.path)) != each.after:
            raise FileError(each.path, "was changed since it was written: nothing is taken back")
    for each in changed:
        files.restore(each.path, each.before)
    _place().unlink(missing_ok=True)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _place() -> Path:
    """The file in which it is kept for the current directory."""
    name = _digest(str(Path.cwd()).encode(errors="surrogatepass"))[:32]
    return user_state_path("torchfast", appauthor=False) / "written" / f"{name}.json"
