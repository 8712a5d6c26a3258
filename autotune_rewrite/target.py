"""The torch version that a script is known to run on, read from the requirements beside it.

Only a lower bound guarantees a feature: ``torch>=2.1`` is known to have what 2.1 has, ``torch<2`` is known to lack what
2.0 brought, and a bare ``torch`` says nothing. The torch that happens to be installed says nothing about the script.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

Version: TypeAlias = "tuple[int, int]"

ASSUMED: Version = (2, 4)
"""What an unknown target counts as when a rule needs a minimum."""

_ROOT_MARKS = (".git", "setup.py", "setup.cfg")
_CONDA_LINE = re.compile(r"""^\s*-\s*["']?(?:[\w.-]+::)?(?:pytorch|torch)(?![\w-])(?P<bounds>[^"'#]*)""", re.MULTILINE)
_POETRY_BOUND = re.compile(r"^[\^~]\s*(?=\d)")


@dataclass(frozen=True, slots=True)
class Target:
    """Bounds of the torch version that a script runs on; both may be unknown."""

    known: Version | None = None
    """The script runs on this version or a later one."""
    below: Version | None = None
    """The script runs on a version before this one."""

    def allows(self, minimum: Version) -> bool:
        """Whether code that needs this version may be written."""
        if self.known is not None:
            return minimum <= self.known
        return minimum <= ASSUMED and (self.below is None or minimum < self.below)


UNKNOWN = Target()


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
        target = _in_directory(each)
        if target is not None:
            return target
    return UNKNOWN


def _up_to_root(directory: Path) -> tuple[Path, ...]:
    """The directory and those above it that belong to its project; it alone where no project is seen."""
    above = (directory, *directory.parents)
    for index, each in enumerate(above):
        if any((each / mark).exists() for mark in _ROOT_MARKS):
            return above[: index + 1]
    projects = [index for index, each in enumerate(above) if (each / "pyproject.toml").exists()]
    return above[: projects[0] + 1] if projects else above[:1]


def _in_directory(directory: Path) -> Target | None:
    """What the files of one directory say together, or None where none of them speaks of torch."""
    # A lock says what is installed, whatever the requirements would also allow.
    locked = [_target(f"=={version}") for version in _locked(_read(directory / "uv.lock"))]
    if locked:
        return _weakest(locked)
    bounds = [*_pyproject(_read(directory / "pyproject.toml"))]
    for path in sorted(directory.glob("requirements*.txt")):
        bounds += _requirements(_read(path).splitlines())
    for name in ("environment.yml", "environment.yaml"):
        bounds += [_conda_bounds(found["bounds"]) for found in _CONDA_LINE.finditer(_read(directory / name))]
    return _weakest([_target(each) for each in bounds]) if bounds else None


def _read(path: Path) -> str:
    """The file's text, or none where there is no such file or it is no text."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return ""
    return text if "torch" in text else ""


def _toml(text: str) -> dict[str, Any]:
    """The tables of a TOML file; a broken one says nothing here (as configuration it is reported)."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}


def _table(tables: object, *keys: str) -> dict[str, Any]:
    """The table under these keys; none where a file has something else there."""
    for key in keys:
        tables = tables.get(key) if isinstance(tables, dict) else None
    return tables if isinstance(tables, dict) else {}


def _locked(text: str) -> list[str]:
    """The versions of torch in a ``uv.lock``: several where they differ by platform."""
    packages = _toml(text).get("package")
    tables = [_table(each) for each in packages] if isinstance(packages, list) else []
    return [str(each["version"]) for each in tables if each.get("name") == "torch" and "version" in each]


def _pyproject(text: str) -> Iterator[str]:
    """The bounds on torch in a ``pyproject.toml``: dependencies, optional ones, groups, and Poetry's."""
    tables = _toml(text)
    project = _table(tables, "project")
    groups = (_table(project, "optional-dependencies"), _table(tables, "dependency-groups"))
    for lines in (project.get("dependencies"), *(lines for group in groups for lines in group.values())):
        if isinstance(lines, list):
            yield from _requirements(line for line in lines if isinstance(line, str))
    poetry = _table(tables, "tool", "poetry")
    for table in (poetry, *_table(poetry, "group").values()):
        bound = _table(table, "dependencies").get("torch")
        if bound is not None:
            text = str(bound.get("version", "") if isinstance(bound, dict) else bound)
            yield _poetry_bounds(text)


def _requirements(lines: Iterable[str]) -> Iterator[str]:
    """The bounds on torch in lines such as ``torch>=2.1,<3; python_version > "3.9"  # a comment``."""
    from packaging.requirements import InvalidRequirement, Requirement

    for line in lines:
        text = line.partition(" #")[0].partition(" --")[0].strip()
        if not text.startswith("torch"):
            continue
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if requirement.name == "torch":
            yield str(requirement.specifier)


def _poetry_bounds(text: str) -> str:
    """Poetry's ``^2.1``, ``~2.1``, ``2.1.*`` and ``*`` in pip's words, as far as lower bounds go."""
    if text[:1].isdigit():
        return f"=={text}"
    return _POETRY_BOUND.sub(">=", text).removeprefix("*")


def _conda_bounds(text: str) -> str:
    """Conda's ``=1.13.1=py3.8_cuda11``, ``1.13.1`` and ``>=2.0`` in pip's words."""
    text = text.strip()
    if re.match(r"=?\s*\d", text):
        return "==" + re.split(r"[=\s]", text.lstrip("= "))[0].rstrip(".*")
    return text


def _target(bounds: str) -> Target:
    """``>=2.1,<3`` as a target; a bound that cannot be read says nothing."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        specifiers = SpecifierSet(bounds)
    except InvalidSpecifier:
        return UNKNOWN
    lower = [_release(each.version) for each in specifiers if each.operator in {">=", ">", "==", "===", "~="}]
    upper = [_release(each.version) for each in specifiers if each.operator == "<"]
    upper += [(major, minor + 1) for major, minor in (_release(s.version) for s in specifiers if s.operator == "<=")]
    return Target(max(lower, default=None), min(upper, default=None))


def _release(version: str) -> Version:
    """The first two numbers of ``2.3.1+cu121`` or ``2.*``."""
    major, minor = [*re.findall(r"\d+", version.partition("+")[0]), "0", "0"][:2]
    return int(major), int(minor)


def _weakest(targets: list[Target]) -> Target:
    """What holds whichever of the requirements the script is run with."""
    known = [each.known for each in targets]
    below = [each.below for each in targets]
    return Target(
        min((each for each in known if each is not None), default=None) if None not in known else None,
        max((each for each in below if each is not None), default=None) if None not in below else None,
    )
