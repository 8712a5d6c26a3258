"""What runs on a file: the command line, then ``[tool.torchfast]``, then what torchfast does by itself."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from autotune_rewrite.errors import FileError
from autotune_rewrite.project import linewidth
from autotune_rewrite.project import target as targets
from autotune_rewrite.suggestions import unknown
from codemods.catalogue import GROUPS, RULES
from codemods.codemod import AmpForm, Choices, Default, Promise
from codemods.facts.target import UNKNOWN, Target

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pathspec import GitIgnoreSpec

LEVELS = ("bitwise", "random", "precision")
"""The levels there are; what changes the training runs only by name."""

_Value = TypeVar("_Value")

AMP_FORMS: tuple[str, ...] = get_args(AmpForm)

_KEYS = ("select", "ignore", "level", "target-torch", "workers", "amp", "main-guard", "exclude", "extend-exclude")


class ConfigError(ValueError):
    """A choice that cannot be followed, in one line for the user."""


@dataclass(frozen=True, slots=True)
class Options:
    """What was chosen, on the command line or in one ``[tool.torchfast]``; None where nothing was said."""

    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] | None = None
    level: str | None = None
    target_torch: str | None = None
    workers: int | None = None
    amp: str | None = None
    main_guard: bool | None = None
    exclude: tuple[str, ...] | None = None
    """Patterns, as in a .gitignore, of what is left out."""
    extend_exclude: tuple[str, ...] | None = None
    """More of them, which are left out whatever else is."""
    force_exclude: bool | None = None
    """Whether what is left out is left out even where it is named."""

    def __post_init__(self) -> None:
        """Refuse what torchfast does not know.

        Raises:
            ConfigError: for an unknown rule, level, version or form of mixed precision, or a number of workers that
                is not positive.
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
        if self.workers is not None and self.workers < 1:
            raise ConfigError(f"workers is {self.workers}, but at least 1 is needed: see --ignore loader-workers")
        if self.amp is not None and self.amp not in AMP_FORMS:
            raise ConfigError(unknown("form of mixed precision", self.amp, AMP_FORMS))


@dataclass(frozen=True, slots=True)
class Settings:
    """What runs on one file."""

    rules: frozenset[str]
    """The names of the rules that run."""
    level: Promise
    """The farthest promise that is applied."""
    exempt: frozenset[str] = frozenset()
    """Opt-in rules asked for by name: they run whatever the level."""
    target: Target = UNKNOWN
    choices: Choices = field(default_factory=Choices)
    widest: int | None = None
    """The widest line that the project's formatter or linter allows."""


def settings(directory: Path, command_line: Options, *, without: frozenset[str] = frozenset()) -> Settings:
    """What runs on the files of an absolute directory.

    Args:
        directory: Where the files are.
        command_line: What was chosen there.
        without: Rules that do not run, whatever was chosen.

    Raises:
        FileError: when the configuration there cannot be followed.
    """
    configured = _configured(directory).options

    def chosen(key: str, otherwise: Any) -> Any:  # noqa: ANN401 - each key has a type of its own
        """The command line's choice, else the project's, else what torchfast does by itself."""
        values = (getattr(options, key) for options in (command_line, configured))
        return next((value for value in values if value is not None), otherwise)

    select = chosen("select", ("DEFAULT",))
    rules = _rules(select) - _rules(chosen("ignore", ())) - without
    version = chosen("target_torch", None)
    usual = Choices()
    return Settings(
        rules=rules,
        level=Promise[chosen("level", LEVELS[-1]).upper()],
        exempt=frozenset(name for name in select if name in RULES and RULES[name].default is Default.OPT_IN),
        target=targets.find(directory) if version is None else Target(targets.parse(version)),
        choices=Choices(
            workers=chosen("workers", usual.workers),
            workers_are_given="loader-workers" in rules,
            batches_are_pinned="loader-pin" in rules,
            main_guard=chosen("main_guard", usual.main_guard),
            amp=chosen("amp", usual.amp),
            weighed=rules - frozenset(select),
        ),
        widest=linewidth.find(directory),
    )


def _rules(names: Iterable[str]) -> frozenset[str]:
    """The rules behind names of rules and groups."""
    return frozenset().union(*(GROUPS.get(name, {name}) for name in names))


@dataclass(frozen=True, slots=True)
class Configured:
    """What a configuration says."""

    options: Options = field(default_factory=Options)
    path: Path | None = None
    """The file that says it; None where there is none."""


@cache
def _configured(directory: Path) -> Configured:
    """The nearest ``[tool.torchfast]`` at or above a directory, or no choice at all."""
    path = directory / "pyproject.toml"
    table = _table(path)
    if table is None:
        return Configured() if directory == directory.parent else _configured(directory.parent)
    try:
        return Configured(_options(table), path)
    except ConfigError as error:
        raise FileError(str(path), f"[tool.torchfast]: {error}") from error


@dataclass(frozen=True, slots=True)
class Excluded:
    """What the command line and the configurations leave out."""

    command_line: Options

    def __call__(self, path: Path, *, directory: bool = False) -> bool:
        """Whether a path is left out: the configuration nearest to it counts, and patterns are relative to that."""
        absolute = path.absolute()
        try:
            configured = _configured(absolute.parent)
        except FileError:
            return False  # that is told where what runs on the file is looked up
        here, there = Path.cwd(), configured.path.parent if configured.path is not None else None
        own, theirs = self.command_line, configured.options
        excluded = (here, own.exclude) if own.exclude is not None else (there, theirs.exclude)
        for base, patterns in (excluded, (here, own.extend_exclude), (there, theirs.extend_exclude)):
            if patterns and base is not None and absolute.is_relative_to(base):
                relative = absolute.relative_to(base).as_posix()
                if _spec(patterns).match_file(relative + "/" * directory):
                    return True
        return False


@cache
def _spec(patterns: tuple[str, ...]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(patterns)


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
        workers=_of_type(table, "workers", int, "a number"),
        amp=_word(table, "amp"),
        main_guard=_of_type(table, "main-guard", bool, "true or false"),
        exclude=_names(table, "exclude", "patterns"),
        extend_exclude=_names(table, "extend-exclude", "patterns"),
    )


def _names(table: dict[str, Any], key: str, what: str = "rule names") -> tuple[str, ...] | None:
    """A list of names, or of something else, in the table."""
    value = table.get(key)
    if value is None:
        return None
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return tuple(value)
    msg = f"{key} is not a list of {what}"
    raise ConfigError(msg)


def _word(table: dict[str, Any], key: str) -> str | None:
    """A string in the table."""
    return _of_type(table, key, str, "a string")


def _of_type(table: dict[str, Any], key: str, kind: type[_Value], words: str) -> _Value | None:
    """A value of exactly this type in the table: true is no number."""
    value = table.get(key)
    if value is None or type(value) is kind:
        return value
    raise ConfigError(f"{key} is not {words}")
