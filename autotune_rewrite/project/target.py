"""The torch version that a script is known to run on, read from the requirements beside it.

What is pinned decides: ``torch==1.13.1``, a lock, ``torch<2``. A mere lower bound says what the author began with:
``torch>=2.1`` is known to have what 2.1 has, as nobody would install less; ``torch>=0.4`` says nothing, as hardly
anybody has torch 0.4 today. Where no file asks for a torch, or only for whichever there is (``torch``), the README
decides if it pins one: by a command that installs it, ``pip install torch==1.4.0``, or in a line of its own as in a
requirements file, ``torch == 1.2.0``. The torch that happens to be installed says nothing about the script.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from autotune_rewrite.project import beside
from codemods.facts.target import ASSUMED, Target, weakest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from codemods.facts.target import Version

_ROOT_MARKS = (".git", "setup.py", "setup.cfg")
_SECOND: Version = (2, 0)
SPEAKING = ("[Rr][Ee][Aa][Dd][Mm][Ee]*", "[Ii][Nn][Ss][Tt][Aa][Ll][Ll]*", "[Gg]et*[Ss]tarted*", "Dockerfile*")
"""Files that may name the torch that a project was tried with, and hold the commands that install it."""
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
_SECTION = re.compile(r"(\w+):(?:\s*\[(?P<items>[^\]]*))?")
_ITEM = re.compile(r"\"[^\"]*\"|'[^']*'|[^,]+")
_WHEEL = re.compile(r"/(?:py)?torch-(?P<version>\d[\w.]*)")
_IN_QUOTES = re.compile(rf"[\"']({_TORCH}\s*(?:\[[^\]]*\])?\s*[<>=~!][^\"']*)[\"']")
_LOCKED_BY_CONDA = re.compile(
    r"^\s*-?\s*name:\s*(?:py)?torch\s*\n\s*version:\s*[\"']?(?P<version>[\w.+]+)", re.MULTILINE
)
_NAMED = re.compile(r"(?<![\w-])(?:py)?torch(?![\w-])", re.IGNORECASE)
_INCLUDED = re.compile(r"\s*(?:-r|-c|--requirement|--constraint)[ \t=]*(?P<file>[^\s#]+)")
_COMMAND = re.compile(r"\b(?:pip3?|conda|mamba)\s+install\b(?P<given>[^`;&|#]*)")
_PINNED = re.compile(rf"{_TORCH}={{1,2}}\d.*", re.IGNORECASE)
_ALONE = re.compile(
    # - `torch==1.4.0`, or a line of a command that goes on.
    rf"\s*(?:[-*+]\s+)?`?{_TORCH}\s*(?P<bounds>={{2,3}}\s*\d[\w.+*]*)`?\s*(?:\\|\s#.*)?\s*",
    re.IGNORECASE,
)
_WHICHEVER = frozenset({"", "*"})
"""Bounds that every torch is within."""
_SPOKEN_OF = re.compile(
    # In Markdown the word may be a link: [PyTorch](https://pytorch.org) 1.2, [PyTorch][1] (>= 1.2).
    r"(?<![\w-])(?:py)?torch(?:\*|_|`)*(?:\](?:\([^)]*\)|\[[^\]]*\]))?"
    r"(?:[*_`()]|\s|,? version|tested (?:on|with)|v|&[gl]t;|[:=>~≥-]){1,12}(?P<version>\d+\.\d+)",
    re.IGNORECASE,
)
_BOUND = re.compile(
    r"(?P<operator>===|==|~=|>=|<=|!=|<|>|=|\^|~)?\s*v?"
    r"(?P<major>\d+)(?:\.(?P<minor>\d+|[*x]))?(?:\.(?P<patch>\d+|[*x]))?[\w.+*!-]*(?P<build>=[\w.*+-]*|\s+[\w.*+-]+)?\s*"
)


class _Said(NamedTuple):
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


def find(directory: Path) -> Target:
    """What the nearest requirements at or above an absolute directory say, up to the project's root."""
    return found_from(directory, Path.cwd())


def read_in(directory: Path) -> set[Path]:
    """The files of a directory, and those that they include, that may say which torch is used."""
    seen: set[Path] = set()
    for path in _matching(directory, PATTERNS[:-2]):
        _by_line(path, seen)
    return {*seen, *_matching(directory, (*PATTERNS, *SPEAKING))}


def _matching(directory: Path, patterns: Sequence[str]) -> list[Path]:
    """The files that match one of the patterns after the other, in order: each directory is listed but once."""
    listed: dict[Path, list[str]] = {}
    found: list[Path] = []
    for pattern in patterns:
        below, _, name = pattern.rpartition("/")
        where = directory / below
        if where not in listed:
            listed[where] = _names_in(where)
        found += sorted(where / each for each in fnmatch.filter(listed[where], name))
    return found


def _names_in(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)  # noqa: PTH208 - the names are enough
    except OSError:
        return []


@cache
def found_from(directory: Path, current: Path) -> Target:
    """The same, where torchfast was called in the other directory."""
    above = _up_to_root(directory, current)
    broken = tuple(one for each in above for one in _broken(each))
    for each in above:
        said = _in_directory(each)
        if any(one.bounds not in _WHICHEVER for one in said):
            found = weakest([_target(each) for each in said])
            return found._replace(unread=(*found.unread, *broken))
        if said:
            break
    installed = [one for each in above for one in _installed(each)]
    if installed:
        return weakest([_target(each) for each in installed])._replace(unread=broken)
    return Target(unread=broken, spoken_of=next((one for each in above for one in _spoken_of(each)), ""))


def _up_to_root(directory: Path, current: Path) -> tuple[Path, ...]:
    """The directory and those above it that belong to its project.

    Where nothing marks a project's root, it is taken to be the directory where torchfast was called, if the files lie
    below that.
    """
    above = (directory, *directory.parents)
    for index, each in enumerate(above):
        if any((each / mark).exists() for mark in _ROOT_MARKS):
            return above[: index + 1]
    projects = [index for index, each in enumerate(above) if (each / "pyproject.toml").exists()]
    ends = projects or [index for index, each in enumerate(above) if each == current]
    return above[: ends[0] + 1] if ends else above[:1]


# What the files say.


def _in_directory(directory: Path) -> list[_Said]:
    """What the files of one directory say of torch, with their names as seen from the current one."""
    # A lock says what is installed, whatever the requirements would also allow.
    locked = [one for name in LOCKS for one in _said(directory / name, partial(_locked, name))]
    if locked:
        return locked
    found = _said(directory / "pyproject.toml", lambda text: _pyproject(beside.tables(text)))
    found += _said(directory / "Pipfile", lambda text: _tables_of_bounds(beside.tables(text), "packages"))
    found += _said(directory / "setup.py", _in_quotes)
    seen: set[Path] = set()
    for path in _matching(directory, PATTERNS[:-2]):
        found += _by_line(path, seen)
    return found


def _said(path: Path, bounds: Callable[[str], Iterable[str]]) -> list[_Said]:
    """The bounds that are found in the file's text, with the lines where they stand."""
    text = _read(path)
    return [_Said(each.strip(), _shown(path) + _line_of(text, each)) for each in bounds(text)]


def _by_line(path: Path, seen: set[Path]) -> list[_Said]:
    """What the lines of a file, and the files that they include, say of torch.

    Args:
        path: The file.
        seen: The files that were read already.
    """
    if path.resolve() in seen:
        return []
    seen.add(path.resolve())
    found: list[_Said] = []
    for number, line in _listed(path.name, beside.text(path) or ""):
        found += (_Said(each.strip(), f"{_shown(path)}, line {number}") for each in _of_line(line))
        included = _INCLUDED.match(line)
        if included is not None:
            found += _by_line(path.parent / included["file"], seen)
    return found


def _shown(path: Path) -> str:
    """The file's name as seen from the current directory."""
    # On Windows there is no way from one drive to another.
    return os.path.relpath(path) if path.drive == Path.cwd().drive else str(path)


def _line_of(text: str, bounds: str) -> str:
    """Where the text names torch with these bounds, in words; of a lock the version stands in a line below."""
    lines = text.splitlines()
    version = bounds.strip().lstrip("<>=~!^ ").partition(",")[0].strip()
    for index, line in enumerate(lines):
        if _NAMED.search(line):
            near = next((n for n, each in enumerate(lines[index : index + 3], index) if version in each), None)
            if near is not None:
                return f", line {near + 1}"
    return ""


def _broken(directory: Path) -> Iterator[str]:
    """The files of a directory that name torch and cannot be read."""
    for name in ("pyproject.toml", "Pipfile", "uv.lock", "poetry.lock", "pdm.lock"):
        text = _read(directory / name)
        if text and not beside.tables(text):
            yield f"{_shown(directory / name)}: what it says of torch, as it is not TOML,"


def _speaking(directory: Path) -> Iterator[tuple[Path, int, str]]:
    """The lines of the files that may tell how the project is set up, with their numbers from 1."""
    for path in sorted({*_matching(directory, SPEAKING)}):
        yield from ((path, number, line) for number, line in enumerate(_read(path).splitlines(), start=1))


def _installed(directory: Path) -> Iterator[_Said]:
    """What is pinned by commands that install a torch, ``conda install pytorch=1.8 -c pytorch``, and by lines alone."""
    for path, number, line in _speaking(directory):
        alone = _ALONE.fullmatch(line)
        if alone is not None:
            yield _Said(alone["bounds"].replace(" ", ""), f"{_shown(path)}, line {number}")
        command = _COMMAND.search(line)
        for word in command["given"].split() if command is not None else ():
            if _PINNED.fullmatch(word.strip("\"'")):
                yield from (_Said(each.strip(), f"{_shown(path)}, line {number}") for each in _of_line(word))


def _spoken_of(directory: Path) -> Iterator[str]:
    """Where files that pin no torch name one that is older than what is assumed."""
    for path, number, line in _speaking(directory):
        found = _SPOKEN_OF.search(line)
        if found is not None and parse(found["version"]) < ASSUMED:
            yield f"{_shown(path)}, line {number}: torch {found['version']}"


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
            # `dependencies: [python=3.8, pytorch=1.7]`
            items = found["items"] if found is not None else None
            yield from ((number, each) for each in (_ITEM.findall(items) if items else [line]))


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
        if text in _WHICHEVER:
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
