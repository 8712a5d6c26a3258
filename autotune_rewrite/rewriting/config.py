"""What runs on a file: the command line, then the nearest configuration, then what torchfast does by itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_args

from autotune_rewrite.errors import FileError
from autotune_rewrite.project import configuration, linewidth
from autotune_rewrite.project import target as targets
from autotune_rewrite.suggestions import unknown
from codemods.catalogue import GROUPS, RULES
from codemods.codemod import AmpForm, Choices, CompileMode, Default, Promise
from codemods.facts.target import ASSUMED, UNKNOWN, Target

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pathspec import GitIgnoreSpec

LEVELS = ("bitwise", "random", "precision")
"""The levels there are; what changes the training runs only by name."""

_Value = TypeVar("_Value")

AMP_FORMS: tuple[str, ...] = get_args(AmpForm)
COMPILE_MODES: tuple[str, ...] = get_args(CompileMode)

FAIL_ON = (*LEVELS, "never")
"""The farthest promise of findings that fail a check, or that none does."""

_KEYS = (
    "select",
    "ignore",
    "per-file-ignores",
    "level",
    "target-torch",
    "workers",
    "prefetch",
    "amp",
    "compile-mode",
    "main-guard",
    "exclude",
    "extend-exclude",
    "fail-on",
    "output-format",
    "mcp",
)
ALLOWED = ("run-scripts", "write-files")
"""What an assistant may do only where the configuration says so."""


class ConfigError(ValueError):
    """A choice that cannot be followed, in one line for the user."""


@dataclass(frozen=True, slots=True)
class Options:
    """What was chosen, on the command line or in one configuration; None where nothing was said."""

    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] | None = None
    level: str | None = None
    target_torch: str | None = None
    workers: int | None = None
    prefetch: int | None = None
    amp: str | None = None
    compile_mode: str | None = None
    main_guard: bool | None = None
    exclude: tuple[str, ...] | None = None
    """Patterns, as in a .gitignore, of what is left out."""
    extend_exclude: tuple[str, ...] | None = None
    """More of them, which are left out whatever else is."""
    force_exclude: bool | None = None
    """Whether what is left out is left out even where it is named."""
    fail_on: str | None = None
    """The farthest promise of findings that fail a check, or ``never``."""
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] | None = None
    """Patterns, as in a .gitignore, each with rules that do not run on such files."""
    mcp: tuple[str, ...] | None = None
    """What an assistant may do, of ``ALLOWED``."""

    def __post_init__(self) -> None:
        """Refuse what torchfast does not know.

        Raises:
            ConfigError: for an unknown rule, level, promise, version, form of mixed precision or mode of compiling, or
                a number of workers, or of batches ahead, that is not positive.
        """
        of_files = (name for _, names in self.per_file_ignores or () for name in names)
        for name in (*(self.select or ()), *(self.ignore or ()), *of_files):
            if name not in RULES and name not in GROUPS:
                raise ConfigError(unknown("rule", name, (*RULES, *GROUPS)))
        if self.level is not None and self.level not in LEVELS:
            raise ConfigError(unknown("level", self.level, LEVELS))
        if self.target_torch is not None:
            try:
                targets.parse(self.target_torch)
            except ValueError as error:
                raise ConfigError(str(error)) from error
        self._check_numbers()
        if self.fail_on is not None and self.fail_on not in FAIL_ON:
            raise ConfigError(unknown("promise to fail on", self.fail_on, FAIL_ON))
        if self.amp is not None and self.amp not in AMP_FORMS:
            raise ConfigError(unknown("form of mixed precision", self.amp, AMP_FORMS))
        if self.compile_mode is not None and self.compile_mode not in COMPILE_MODES:
            raise ConfigError(unknown("mode of torch.compile", self.compile_mode, COMPILE_MODES))

    def _check_numbers(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise ConfigError(f"workers is {self.workers}, but at least 1 is needed: see --ignore loader-workers")
        if self.prefetch is not None and self.prefetch < 1:
            raise ConfigError(f"prefetch is {self.prefetch}, but each worker has at least 1 batch ahead")


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
    fail_on: Promise | None = Promise.TRAINING
    """The farthest promise of findings that fail a check; None: none fails."""

    def may_fail(self, promise: Promise) -> bool:
        """Whether findings of such a promise fail a check."""
        return self.fail_on is not None and promise <= self.fail_on


def settings(
    directory: Path, command_line: Options, *, name: str = "", without: frozenset[str] = frozenset()
) -> Settings:
    """What runs on the files of an absolute directory.

    Args:
        directory: Where the files are.
        command_line: What was chosen there.
        name: The one that is meant, where it is about one.
        without: Rules that do not run, whatever was chosen.

    Raises:
        FileError: when the configuration there cannot be followed.
    """
    found = _configured(directory)
    configured = found.options

    def chosen(key: str, otherwise: Any) -> Any:  # noqa: ANN401 - each key has a type of its own
        """The command line's choice, else the project's, else what torchfast does by itself."""
        values = (getattr(options, key) for options in (command_line, configured))
        return next((value for value in values if value is not None), otherwise)

    select = chosen("select", ("DEFAULT",))
    rules = _rules(select) - _rules(chosen("ignore", ())) - _rules(found.ignored_in(directory / name)) - without
    fail_on = chosen("fail_on", "training")
    version = chosen("target_torch", None)
    usual = Choices()
    return Settings(
        rules=rules,
        level=Promise[chosen("level", LEVELS[-1]).upper()],
        exempt=frozenset(name for name in select if name in RULES and RULES[name].default is Default.OPT_IN),
        target=targets.find(directory) if version is None else Target(targets.parse(version)),
        choices=Choices(
            workers=chosen("workers", usual.workers),
            prefetch=chosen("prefetch", usual.prefetch),
            workers_are_given="loader-workers" in rules,
            batches_are_pinned="loader-pin" in rules,
            models_are_compiled="compile" in rules,
            main_guard=chosen("main_guard", usual.main_guard),
            amp=chosen("amp", usual.amp),
            compile_mode=chosen("compile_mode", usual.compile_mode),
            weighed=rules - frozenset(select),
        ),
        widest=linewidth.find(directory),
        fail_on=None if fail_on == "never" else Promise[fail_on.upper()],
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

    def ignored_in(self, path: Path) -> Iterator[str]:
        """The rules and groups that do not run on a file; patterns are relative to the configuration."""
        for pattern, names in self.options.per_file_ignores or ():
            if self.path is not None and _spec((pattern,)).match_file(path.relative_to(self.path.parent).as_posix()):
                yield from names


@cache
def _configured(directory: Path) -> Configured:
    """The nearest configuration at or above a directory, or no choice at all."""
    written = configuration.nearest(directory)
    try:
        return Configured(_options(written.table), written.path)
    except ConfigError as error:
        raise written.fault(str(error)) from error


def allowed(directory: Path) -> dict[str, bool]:
    """What an assistant may do that works in an absolute directory.

    Raises:
        FileError: when the configuration there cannot be followed.
    """
    asked = _configured(directory).options.mcp or ()
    return {each: each in asked for each in ALLOWED}


def forget() -> None:
    """Reads again, from now on, what lies beside files and says what runs on them: it was changed."""
    _configured.cache_clear()
    targets.found_from.cache_clear()
    linewidth.forget()


class Shown(NamedTuple):
    """A key of the configuration, what applies, and where that is said."""

    key: str
    value: Any
    source: str


def shown(path: Path) -> list[Shown]:
    """What applies to a file or a directory, by an absolute path, where the command line says nothing.

    Raises:
        FileError: when the configuration there cannot be followed.
    """
    directory, name = (path, "") if path.is_dir() else (path.parent, path.name)
    applied = settings(directory, Options(), name=name)
    written = configuration.nearest(directory)
    usual = Choices()
    by_default = {
        "select": ["DEFAULT"],
        "ignore": [],
        "per-file-ignores": {},
        "level": LEVELS[-1],
        "workers": usual.workers,
        "prefetch": usual.prefetch,
        "amp": usual.amp,
        "compile-mode": usual.compile_mode,
        "main-guard": usual.main_guard,
        "exclude": [],
        "extend-exclude": [],
        "fail-on": LEVELS[-1],
        "output-format": "text",
        "mcp": dict.fromkeys(ALLOWED, False),
    }
    rows = []
    for key in _KEYS:
        if key in written.table:
            rows.append(Shown(key, written.table[key], str(written.path)))
        elif key == "target-torch":
            version, source = applied.target.known or ASSUMED, applied.target.source
            rows.append(Shown(key, ".".join(map(str, version)), source or "assumed, as nothing says it"))
        else:
            rows.append(Shown(key, by_default[key], "by default"))
    rows.append(
        Shown("rules", [each for each in RULES if each in applied.rules], "by select, ignore, per-file-ignores")
    )
    return rows


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


def _options(table: dict[str, Any]) -> Options:
    """The choices in a table."""
    for key in table:
        if key not in _KEYS:
            raise ConfigError(unknown("key", key, _KEYS))
    return Options(
        select=_names(table, "select"),
        ignore=_names(table, "ignore"),
        level=_word(table, "level"),
        target_torch=_word(table, "target-torch"),
        workers=_of_type(table, "workers", int, "a number"),
        prefetch=_of_type(table, "prefetch", int, "a number"),
        amp=_word(table, "amp"),
        compile_mode=_word(table, "compile-mode"),
        main_guard=_of_type(table, "main-guard", bool, "true or false"),
        exclude=_names(table, "exclude", "patterns"),
        extend_exclude=_names(table, "extend-exclude", "patterns"),
        fail_on=_word(table, "fail-on"),
        per_file_ignores=_of_files(table),
        mcp=_allowed(table),
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


def _allowed(table: dict[str, Any]) -> tuple[str, ...] | None:
    """What an assistant may do."""
    said = _of_type(table, "mcp", dict, "a table")
    if said is None:
        return None
    for key in said:
        if key not in ALLOWED:
            raise ConfigError(unknown("key of mcp", key, ALLOWED))
    return tuple(key for key in ALLOWED if _of_type(said, key, bool, "true or false"))


def _of_files(table: dict[str, Any]) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
    """Patterns of files, each with names of rules."""
    key = "per-file-ignores"
    value = _of_type(table, key, dict, "a table of patterns, each with a list of rule names")
    if value is None:
        return None
    return tuple((pattern, _names(value, pattern, f"rule names, as {key} has them") or ()) for pattern in value)


def _word(table: dict[str, Any], key: str) -> str | None:
    """A string in the table."""
    return _of_type(table, key, str, "a string")


def _of_type(table: dict[str, Any], key: str, kind: type[_Value], words: str) -> _Value | None:
    """A value of exactly this type in the table: true is no number."""
    value = table.get(key)
    if value is None or type(value) is kind:
        return value
    raise ConfigError(f"{key} is not {words}")
