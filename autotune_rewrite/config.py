"""What runs on a file: the command line, then ``[tool.torchfast]``, then what torchfast does by itself."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from autotune_rewrite import target as targets
from autotune_rewrite.catalogue import GROUPS, RULES
from autotune_rewrite.errors import FileError
from autotune_rewrite.suggestions import unknown
from autotune_rewrite.target import Target
from codemods.declaration import Default, Promise

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

LEVELS = ("bitwise", "random", "precision")
"""The levels there are; what changes the training runs only by name."""

_KEYS = ("select", "ignore", "level", "target-torch")


class ConfigError(ValueError):
    """A choice that cannot be followed, in one line for the user."""


@dataclass(frozen=True, slots=True)
class Options:
    """What was chosen, on the command line or in one ``[tool.torchfast]``; None where nothing was said."""

    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] | None = None
    level: str | None = None
    target_torch: str | None = None

    def __post_init__(self) -> None:
        """Refuse what torchfast does not know.

        Raises:
            ConfigError: for an unknown rule, level or version.
        """
        for name in (*(self.select or ()), *(self.ignore or ())):
            if name not in RULES and name not in GROUPS:
                raise ConfigError(unknown("rule", name, (*RULES, *GROUPS)))
        if self.level is not None and self.level not in LEVELS:
            raise ConfigError(unknown("level", self.level, LEVELS))
        if self.target_torch is not None:
            try:
                targets.parse(self.target_torch)
            except ValueError as error:
                raise ConfigError(str(error)) from error


@dataclass(frozen=True, slots=True)
class Settings:
    """What runs on one file."""

    rules: frozenset[str]
    """The names of the rules that run."""
    level: Promise
    """The farthest promise that is applied."""
    exempt: frozenset[str] = frozenset()
    """Opt-in rules asked for by name: they run whatever the level."""
    target: Target = targets.UNKNOWN


def settings(directory: Path, command_line: Options) -> Settings:
    """What runs on the files of an absolute directory.

    Raises:
        FileError: when the configuration there cannot be followed.
    """
    configured = _configured(directory)
    select = _first(command_line.select, configured.select, ("DEFAULT",))
    ignored = _rules(_first(command_line.ignore, configured.ignore, ()))
    version = command_line.target_torch or configured.target_torch
    return Settings(
        rules=_rules(select) - ignored,
        level=Promise[(command_line.level or configured.level or LEVELS[-1]).upper()],
        exempt=frozenset(name for name in select if name in RULES and RULES[name].default is Default.OPT_IN),
        target=targets.find(directory) if version is None else Target(targets.parse(version)),
    )


def _first(*choices: tuple[str, ...] | None) -> tuple[str, ...]:
    """The first choice that was made."""
    return next((choice for choice in choices if choice is not None), ())


def _rules(names: Iterable[str]) -> frozenset[str]:
    """The rules behind names of rules and groups."""
    return frozenset().union(*(GROUPS.get(name, {name}) for name in names))


@cache
def _configured(directory: Path) -> Options:
    """The nearest ``[tool.torchfast]`` at or above a directory, or no choice at all."""
    for each in (directory, *directory.parents):
        path = each / "pyproject.toml"
        table = _table(path)
        if table is not None:
            try:
                return _options(table)
            except ConfigError as error:
                raise FileError(str(path), f"[tool.torchfast]: {error}") from error
    return Options()


def _table(path: Path) -> dict[str, Any] | None:
    """``[tool.torchfast]`` of a pyproject.toml, or None where there is no such file or table."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(str(path), f"cannot be read: {error}") from error
    if "torchfast" not in text:
        return None
    try:
        tool = tomllib.loads(text).get("tool")
    except tomllib.TOMLDecodeError as error:
        raise FileError(str(path), f"is not TOML: {error}") from error
    table = tool.get("torchfast") if isinstance(tool, dict) else None
    return table if isinstance(table, dict) else None


def _options(table: dict[str, Any]) -> Options:
    """The choices in a ``[tool.torchfast]`` table."""
    for key in table:
        if key not in _KEYS:
            raise ConfigError(unknown("key", key, _KEYS))
    return Options(
        select=_names(table, "select"),
        ignore=_names(table, "ignore"),
        level=_word(table, "level"),
        target_torch=_word(table, "target-torch"),
    )


def _names(table: dict[str, Any], key: str) -> tuple[str, ...] | None:
    """A list of names in the table."""
    value = table.get(key)
    if value is None:
        return None
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return tuple(value)
    msg = f"{key} is not a list of rule names"
    raise ConfigError(msg)


def _word(table: dict[str, Any], key: str) -> str | None:
    """A string in the table."""
    value = table.get(key)
    if value is None or isinstance(value, str):
        return value
    msg = f"{key} is not a string"
    raise ConfigError(msg)
