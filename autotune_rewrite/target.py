"""The torch version that a script is known to run on, read from the requirements beside it.

What is pinned decides: ``torch==1.13.1``, a lock, ``torch<2``. A mere lower bound says what the author began with:
``torch>=2.1`` is known to have what 2.1 has, as nobody would install less; ``torch>=0.4`` says nothing, as hardly
anybody has torch 0.4 today. The torch that happens to be installed says nothing about the script.
"""

from __future__ import annotations

import json
import os.path
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune_rewrite import beside
from codemods.facts.target import UNKNOWN, Target

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codemods.facts.target import Version

_ROOT_MARKS = (".git", "setup.py", "setup.cfg")
_SECOND: Version = (2, 0)
LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "conda-lock.yml", "requirements.lock")
"""The files that say what is installed."""
PATTERNS = (
    *("*requirements*.txt", "requirements/*.txt", "constraints*.txt", "setup.cfg"),
    *("environment*.yml", "environment*.yaml", "conda*.yml", "conda*.yaml"),
    *("setup.py", "Pipfile"),
)
"""The files, beside ``pyproject.toml``, that say what is asked for; all but the last two are read line by line."""

_TORCH = r"(?:py)?torch(?:-[cg]pu)?(?![\w.-])"
_LINE = re.compile(
    rf"\s*(?:-\s+)?[\"']?(?:[\w.-]+::)?{_TORCH}\s*(?:\[[^\]]*\])?\s*(?P<bounds>[^\"'#;]*)", re.IGNORECASE
)
_SECTION = re.compile(r"(\w+):")
_WHEEL = re.compile(r"/(?:py)?torch-(?P<version>\d[\w.]*)")
_IN_QUOTES = re.compile(rf"[\"']({_TORCH}\s*(?:\[[^\]]*\])?\s*[<>=~!][^\"']*)[\"']")
_LOCKED_BY_CONDA = re.compile(
    r"^\s*-?\s*name:\s*(?:py)?torch\s*\n\s*version:\s*[\"']?(?P<version>[\w.+]+)", re.MULTILINE
)
_BOUND = re.compile(
    r"(?P<operator>===|==|~=|>=|<=|!=|<|>|=|\^|~)?\s*v?"
    r"(?P<major>\d+)(?:\.(?P<minor>\d+|[*x]))?(?:\.(?P<patch>\d+|[*x]))?[\w.+*!-]*(?P<build>=[\w.*+-]*|\s+[\w.*+-]+)?\s*"
)


@dataclass(frozen=True, slots=True)
class _Said:
    """What one line says of torch."""

    bounds: str
    """As it is written there, without the name."""
    where: str


def parse(text: str) -> Version:
    """``2.1``, ``2.1.3`` and ``2`` as a version.

    Raises:
        ValueError: when it is none of these.
    """
    found = re.fullmatch(r"\s*(\d+)(?:\.(\d+)(?:\.[\w.+]*)?)?\s*", text)
    if found is None:
        msg = f"{text!r} is not a torch version such as '2.1'"
        raise ValueError(msg)
    return int(found[1]), int(found[2] or 0)


@cache
def find(directory: Path) -> Target:
    """What the nearest requirements at or above an absolute directory say, up to the project's root."""
    for each in _up_to_root(directory):
        said = _in_directory(each)
        if said:
            return _weakest(said)
    return UNKNOWN


def _up_to_root(directory: Path) -> tuple[Path, ...]:
    """The directory and those above it that belong to its project; it alone where no project is seen."""
    above = (directory, *directory.parents)
    for index, each in enumerate(above):
        if any((each / mark).exists() for mark in _ROOT_MARKS):
            return above[: index + 1]
    projects = [index for index, each in enumerate(above) if (each / "pyproject.toml").exists()]
    return above[: projects[0] + 1] if projects else above[:1]


# What the files say.


def _in_directory(directory: Path) -> list[_Said]:
    """What the files of one directory say of torch, with their names as seen from the current one."""

    def said(path: Path, bounds: Iterable[str]) -> list[_Said]:
        # On Windows there is no way from one drive to another.
        shown = os.path.relpath(path) if path.drive == Path.cwd().drive else str(path)
        return [_Said(each.strip(), shown) for each in bounds]

    # A lock says what is installed, whatever the requirements would also allow.
    locked = [one for name in LOCKS for one in said(directory / name, _locked(name, _read(directory / name)))]
    if locked:
        return locked
    found = said(directory / "pyproject.toml", _pyproject(beside.tables(_read(directory / "pyproject.toml"))))
    found += said(directory / "Pipfile", _tables_of_bounds(beside.tables(_read(directory / "Pipfile")), "packages"))
    found += said(directory / "setup.py", _in_quotes(_read(directory / "setup.py")))
    for path in (path for pattern in PATTERNS[:-2] for path in sorted(directory.glob(pattern))):
        for number, line in _listed(path.name, _read(path)):
            found += (replace(each, where=f"{each.where}, line {number}") for each in said(path, _of_line(line)))
    return found


def _read(path: Path) -> str:
    """The file's text, if it names torch at all."""
    found = beside.text(path) or ""
    return found if "torch" in found.lower() else ""


def _table(tables: object, *keys: str) -> dict[str, Any]:
    """The table under these keys; none where a file has something else there."""
    for key in keys:
        tables = tables.get(key) if isinstance(tables, dict) else None
    return tables if isinstance(tables, dict) else {}


def _locked(name: str, text: str) -> Iterator[str]:
    """The versions of torch in a lock: several where they differ by platform."""
    if name == "requirements.lock":
        yield from (bounds for line in text.splitlines() for bounds in _of_line(line))
    elif name == "conda-lock.yml":
        yield from (f"=={found['version']}" for found in _LOCKED_BY_CONDA.finditer(text))
    elif name == "Pipfile.lock":
        try:
            tables = json.loads(text) if text else {}
        except ValueError:
            return
        yield from _tables_of_bounds(tables, "default", "develop")
    else:
        packages = beside.tables(text).get("package")
        for each in map(_table, packages) if isinstance(packages, list) else ():
            if each.get("name") == "torch" and "version" in each:
                yield f"=={each['version']}"


def _tables_of_bounds(tables: object, *keys: str) -> Iterator[str]:
    """The bounds on torch in tables of packages, as Poetry and Pipenv write them: ``{torch = "^2.1"}``."""
    for key in keys:
        table = _table(tables, key)
        given = table.get("torch", table.get("pytorch"))
        for each in given if isinstance(given, list) else [given]:
            bounds = each.get("version", "") if isinstance(each, dict) else each
            if isinstance(bounds, str):
                yield from map(str.strip, bounds.split("||"))


def _pyproject(tables: dict[str, Any]) -> Iterator[str]:
    """The bounds on torch in a ``pyproject.toml``: dependencies, optional ones, groups, and Poetry's."""
    project = _table(tables, "project")
    groups = (_table(project, "optional-dependencies"), _table(tables, "dependency-groups"))
    for lines in (project.get("dependencies"), *(lines for group in groups for lines in group.values())):
        if isinstance(lines, list):
            yield from (bounds for line in lines if isinstance(line, str) for bounds in _of_line(line))
    poetry = _table(tables, "tool", "poetry")
    for table in (poetry, *map(_table, _table(poetry, "group").values())):
        yield from _tables_of_bounds(table, "dependencies", "dev-dependencies")


def _in_quotes(text: str) -> Iterator[str]:
    """The bounds on torch in the strings of a ``setup.py``; the bare word may stand for anything there."""
    for found in _IN_QUOTES.finditer(text):
        yield from _of_line(found[1])


def _listed(name: str, text: str) -> Iterator[tuple[int, str]]:
    """The lines of a file that may be requirements, with their numbers from 1."""
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        found = _SECTION.match(line)
        section = found[1] if found is not None else section
        # A channel of conda is called pytorch, too; in a setup.cfg, what is not indented is a key.
        is_other = (
            section != "dependencies" if name.endswith(("yml", "yaml")) else name == "setup.cfg" and line[:1] != " "
        )
        if not is_other:
            yield number, line


def _of_line(line: str) -> Iterator[str]:
    """The bounds on torch in a line such as ``torch>=2.1,<3; python_version > "3.9"  # why``, or in an address."""
    if line.lstrip().startswith("#"):
        return
    wheel = _WHEEL.search(line.partition(" #")[0])
    found = _LINE.match(line.partition(" --")[0])
    if wheel is not None:
        yield f"=={wheel['version']}"
    elif found is not None:
        # Of an address without a version nothing is known.
        yield found["bounds"].partition("@")[0].strip().removesuffix("\\").strip("() ")


# What that means.


def _target(said: _Said) -> Target:
    """``>=2.1,<3`` as a target."""
    lower: list[Version] = []
    upper: list[Version] = []
    for text in re.split(r"\s*,\s*|\s+(?=[<>=~!^])", said.bounds):
        if text in {"", "*"}:
            continue
        found = _BOUND.fullmatch(text)
        if found is None:
            return Target(unread=(f"{said.where}: torch{_spaced(said.bounds)}",))
        _add(found, lower, upper)
    low, high = max(lower, default=None), min(upper, default=None)
    if low is not None and low < _SECOND and (high is None or high > _SECOND):
        low = None
    is_bound = low is not None or high is not None
    return Target(low, high, f"{said.where}: torch{_spaced(said.bounds)}" if is_bound else "")


def _spaced(bounds: str) -> str:
    return f" {bounds}" if bounds[:1].isalnum() else bounds


def _add(found: re.Match[str], lower: list[Version], upper: list[Version]) -> None:
    """Take in one bound, as pip, conda and Poetry understand it."""
    operator, minor, patch = found["operator"] or "=", found["minor"], found["patch"]
    is_any_minor = minor in {"*", "x"} or (minor is None and operator in {"=", "~"})
    version = int(found["major"]), 0 if is_any_minor else int(minor or 0)
    next_major, next_minor = (version[0] + 1, 0), (version[0], version[1] + 1)
    if operator in {"<", "<="}:
        upper.append(version if operator == "<" and (patch or "0") in {"0", "*", "x"} else next_minor)
    elif operator != "!=" and not (is_any_minor and version < _SECOND):
        lower.append(version)
    if operator == "^":
        upper.append(next_major if version[0] else next_minor)
    elif operator in {"=", "==", "===", "~", "~="}:
        is_major = is_any_minor or (operator == "~=" and patch is None)
        upper.append(next_major if is_major else next_minor)


def _weakest(said: Sequence[_Said]) -> Target:
    """What holds whichever of the requirements the script is run with; an old torch that one of them pins counts."""
    targets = [_target(each) for each in said]
    bound = [each for each in targets if each.known is not None]
    below = [each.below for each in targets if each.below is not None]
    oldest = min(bound, key=lambda each: each.known or _SECOND, default=UNKNOWN)
    decides = len(bound) == len(targets) or (oldest.known or _SECOND) < _SECOND
    highest = max(below) if len(below) == len(targets) else None
    source = oldest.source if decides else next((each.source for each in targets if highest and each.source), "")
    unread = tuple(dict.fromkeys(one for each in targets for one in each.unread))
    return Target(oldest.known if decides else None, highest, source, unread)
