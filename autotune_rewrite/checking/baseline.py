"""Findings that are known: a file of them, which holds where lines move."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from autotune_rewrite.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from autotune_rewrite.rewriting.results import Rewrite, Site

VERSION = 1
Key: TypeAlias = "tuple[str, str, bool, str]"
"""The file as seen from that of the baseline, the rule, whether it rewrites the site, and the text of the line."""


class Baseline:
    """What was found when the baseline was written: each finding is left out as often as it stands there."""

    def __init__(self, path: Path) -> None:
        """The baseline in a file.

        Raises:
            FileError: when it cannot be read, or is none.
        """
        self._directory = os.path.realpath(path.parent)
        self._known = Counter(_read(path))
        self._checked: set[str] = set()
        self.left_out = 0
        """How many findings it left out so far."""

    def without_known(self, rewrite: Rewrite) -> Rewrite:
        """The same without the findings that are known."""
        self._checked.add(_relative(rewrite.path, self._directory))
        return replace(rewrite, sites=tuple(site for site in rewrite.sites if not self._takes(rewrite.path, site)))

    @property
    def gone(self) -> int:
        """How many known findings of the files that were looked at were not there any more."""
        return sum(number for (path, *_), number in self._known.items() if path in self._checked)

    def _takes(self, path: str, site: Site) -> bool:
        key = _key(path, site, self._directory)
        if not self._known[key]:
            return False
        self._known[key] -= 1
        self.left_out += 1
        return True


def write(path: Path, rewrites: Iterable[Rewrite]) -> int:
    """Write what was found to a file.

    Returns:
        The number of findings.

    Raises:
        FileError: when the file cannot be written.
    """
    from autotune_rewrite.project import files

    directory = os.path.realpath(path.parent)
    keys = Counter(_key(each.path, site, directory) for each in rewrites for site in each.sites)
    found = [
        {"path": name, "rule": rule, "rewrites": rewrites_, "line": line, "count": keys[name, rule, rewrites_, line]}
        for name, rule, rewrites_, line in sorted(keys)
    ]
    files.write(str(path), f"{json.dumps({'version': VERSION, 'findings': found}, indent=2)}\n".encode())
    return keys.total()


def _read(path: Path) -> dict[Key, int]:
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        version = said["version"]
        known: dict[Key, int] = {
            (each["path"], each["rule"], each["rewrites"], each["line"]): int(each["count"])
            for each in (said["findings"] if version == VERSION else ())
        }
    except OSError as error:
        raise FileError(str(path), f"{(error.strerror or str(error)).lower()}; --write-baseline writes one") from error
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(str(path), "is no baseline; --write-baseline writes one") from error
    if version != VERSION:
        raise FileError(str(path), f"a baseline of version {version}, and this torchfast reads version {VERSION}")
    return known


def _key(path: str, site: Site, directory: str) -> Key:
    return _relative(path, directory), site.rule, site.rewrites, site.excerpt.strip()


def _relative(path: str, directory: str) -> str:
    return Path(os.path.relpath(os.path.realpath(path), directory)).as_posix()
