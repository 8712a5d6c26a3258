"""Where the user's choices about a directory stand: the nearest ``torchfast.toml`` or ``[tool.torchfast]``."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from autotune_rewrite.errors import FileError

if TYPE_CHECKING:
    from pathlib import Path

OWN_FILE = "torchfast.toml"
FILES = (OWN_FILE, "pyproject.toml")
"""Of two in one directory the first counts."""


@dataclass(frozen=True, slots=True)
class Written:
    """A table of choices as it is written."""

    table: dict[str, Any] = field(default_factory=dict)
    path: Path | None = None
    """The file in which it stands; None where there is none."""

    def fault(self, message: str) -> FileError:
        """What is wrong with the table."""
        title = "" if self.path is None or self.path.name == OWN_FILE else "[tool.torchfast]: "
        return FileError(str(self.path), f"{title}{message}")


def nearest(directory: Path) -> Written:
    """The nearest configuration at or above an absolute directory, or an empty one.

    Raises:
        FileError: when a file there cannot be read.
    """
    for each in (directory, *directory.parents):
        for name in FILES:
            table = _table(each / name)
            if table is not None:
                return Written(table, each / name)
    return Written()


def _table(path: Path) -> dict[str, Any] | None:
    """The choices in a file, or None where there is no such file or it has none."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(str(path), f"cannot be read: {error}") from error
    is_own = path.name == OWN_FILE
    if not is_own and "torchfast" not in text:
        return None
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        read = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FileError(str(path), f"is not TOML: {error}") from error
    if is_own:
        return read
    tool = read.get("tool")
    table = tool.get("torchfast") if isinstance(tool, dict) else None
    return table if isinstance(table, dict) else None
