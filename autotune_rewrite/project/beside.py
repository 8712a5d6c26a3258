"""Reads the files beside a script that others are there to check: a broken one says nothing here."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from pathlib import Path


def text(path: Path) -> str | None:
    """The file's text; None where there is no such file, or it is no text."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None


@lru_cache(maxsize=8)  # rules, widths and targets ask the same few files
def tables(toml: str) -> dict[str, Any]:
    """The tables of a TOML file; none of a broken one (as torchfast's configuration it is reported)."""
    try:
        return tomllib.loads(toml)
    except tomllib.TOMLDecodeError:
        return {}
