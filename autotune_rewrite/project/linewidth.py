"""How wide the lines of a script may be: what its formatter or linter is configured to."""

from __future__ import annotations

import configparser
from functools import cache
from typing import TYPE_CHECKING

from autotune_rewrite.project import beside

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_USUAL = 88
"""Of Ruff and Black, where they are configured and their width is not."""
_IN_PYPROJECT = {"ruff": "line-length", "black": "line-length", "yapf": "column_limit", "autopep8": "max_line_length"}
_RUFF = ("ruff.toml", ".ruff.toml")
_INI = ("setup.cfg", "tox.ini", ".flake8")
_INI_SECTIONS = ("flake8", "pycodestyle")


@cache
def find(directory: Path) -> int | None:
    """The widest line that the nearest configuration at or above an absolute directory allows; None where none says."""
    for each in (directory, *directory.parents):
        width = _widest(each)
        if width is not None:
            return width
        if (each / ".git").exists():
            break
    return None


def forget() -> None:
    """Reads again, from now on, what was configured."""
    find.cache_clear()
    _widest.cache_clear()


@cache  # neighbouring directories have the same ones above them
def _widest(directory: Path) -> int | None:
    """The widest line that the files of the directory itself allow."""
    return next((width for width in _said(directory) if width > 0), None)


def _said(directory: Path) -> Iterator[int]:
    for name in _RUFF:
        text = beside.text(directory / name)
        if text is not None:
            yield _number(beside.tables(text).get("line-length")) or _USUAL
    tools = beside.tables(beside.text(directory / "pyproject.toml") or "").get("tool")
    for tool, key in _IN_PYPROJECT.items():
        table = tools.get(tool) if isinstance(tools, dict) else None
        if isinstance(table, dict):
            yield _number(table.get(key)) or (_USUAL if key == "line-length" else 0)
    for name in _INI:
        text = beside.text(directory / name)
        yield from _of_ini(text) if text is not None else ()


def _of_ini(text: str) -> Iterator[int]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return
    for section in _INI_SECTIONS:
        for key in ("max-line-length", "max_line_length"):
            said = parser.get(section, key, fallback="").partition("#")[0].strip()
            yield int(said) if said.isdecimal() else 0


def _number(value: object) -> int:
    return value if type(value) is int else 0
