"""The programs of open files, as they stand in the editor, saved or not: what was found is kept as long as it holds."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from autotune_rewrite.checking.cache import surroundings
from autotune_rewrite.errors import FileError
from autotune_rewrite.project.files import ENVIRONMENT_MARKS, SKIPPED, Source
from autotune_rewrite.project.programs import Project, outline, projects
from autotune_rewrite.rewriting import batch, config
from autotune_rewrite.rewriting.batch import Done

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from autotune_rewrite.rewriting.batch import Read, Result
    from autotune_rewrite.rewriting.results import Rewrite, Site

Opened: TypeAlias = "Mapping[str, str]"
"""The texts of the files that are open, by their real paths."""

_HOLDS = 2.0
"""Seconds for which it is taken that nobody has changed what is on disk, unless the editor says so."""


@dataclass(frozen=True, slots=True)
class Found:
    """What is said of a file, and of the modules that it imports."""

    own: Rewrite
    others: tuple[Rewrite, ...]


@dataclass(slots=True)
class _Program:
    """The files that are understood together with one, and what they were read from."""

    project: Project
    outlines: object
    until: float


@dataclass(slots=True)
class Programs:
    """Answers about open files; one question at a time."""

    _programs: dict[str, _Program] = field(default_factory=dict)
    _around: dict[Path, bytes] = field(default_factory=dict)
    """What says how torchfast runs, by the directory that it stands in."""
    _around_until: float = 0.0
    _said: dict[tuple[str, bool], tuple[object, list[Result]]] = field(default_factory=dict)
    """What was said of a file, with each finding's own change or without, and what it followed from."""

    def look_again(self) -> None:
        """Reads what is on disk again: it was changed."""
        self._around_until = 0.0
        self._programs.clear()

    def check(self, opened: Opened, path: str, *, fixes: bool = False) -> Found | None:
        """What is found in a file; None where it is left out.

        Args:
            opened: All files that are open.
            path: The file, absolute or as seen from the current directory.
            fixes: Whether each finding is to hold its own change, which takes longer.

        Raises:
            FileError: when the file, or the configuration that counts for it, cannot be used.
        """
        self._surroundings([str(Path(path).absolute().parent)])  # or what it excludes may be an old answer
        if _is_of_others(path) or config.Excluded(config.Options())(Path(path)):
            return None
        parts, depends_on = self._read(opened, path)
        known = self._said.get((path, fixes))
        if known is None or known[0] != depends_on:
            known = depends_on, batch.process_read(parts, config.Options(), check=True, fixes=fixes)
            self._said[path, fixes] = known
        dones = [each for each in known[1] if isinstance(each, Done)]
        own = next((each.rewrite for each in dones if each.source.path == path), None)
        if own is not None:
            return Found(own, tuple(each.rewrite for each in dones if each.source.path != path))
        others = {part.path for part, _ in parts} - {path}
        for each in known[1]:
            if isinstance(each, FileError) and each.path not in others:
                raise each  # about the file, or about its configuration
        return None

    def rewritten(self, opened: Opened, path: str, wanted: Callable[[str, Site], bool] | None = None) -> Sequence[Done]:
        """The files that are changed where what is wanted is rewritten, in a file and the modules that it imports.

        Args:
            opened: All files that are open.
            path: The file.
            wanted: Which changes are, by the file that they are in and the finding; None: all.

        Raises:
            FileError: when a file cannot be used.
        """
        parts, _ = self._read(opened, path)
        ask = None if wanted is None else lambda where, site, _: wanted(where, site)
        results = batch.process_read(parts, config.Options(), check=False, ask=ask)
        for each in results:
            if isinstance(each, FileError) and (wanted is None or each.path == path):
                raise each
        return [each for each in results if isinstance(each, Done) and each.rewrite.after != each.source.text]

    def _read(self, opened: Opened, path: str) -> tuple[Read, object]:
        """The files of a program, and all that what is said of them follows from."""
        sources = {name: _source(name, text) for name, text in opened.items()}
        project = self._project(sources, path)
        places = sorted({str(Path(part.path).absolute().parent) for part in project.parts if part.asked})
        around = self._surroundings(places)
        parts = batch.read(project, sources)
        contents = tuple(str(each) if isinstance(each, FileError) else each.data for _, each in parts)
        return parts, (project, around, contents)

    def _project(self, sources: Mapping[str, Source], path: str) -> Project:
        """The program of a file: it is sought again where imports have changed in the editor or, perhaps, on disk."""
        outlines = {name: outline(name, each.data) for name, each in sources.items()}
        known = self._programs.get(path)
        if known is None or known.outlines != outlines or time.monotonic() > known.until:
            (found,) = projects([path], opened={name: each.data for name, each in sources.items()})
            found = batch.without_excluded(found, {path}, config.Excluded(config.Options()))
            known = self._programs[path] = _Program(found, outlines, time.monotonic() + _HOLDS)
        return known.project

    def _surroundings(self, places: Sequence[str]) -> tuple[bytes, ...]:
        """What says how torchfast runs in some directories; where that was changed, it is no longer remembered."""
        if time.monotonic() > self._around_until:
            before, self._around = self._around, {}
            for each in before:
                surroundings(str(each), self._around)
            if self._around != before:
                config.forget()
            self._around_until = time.monotonic() + _HOLDS
        return tuple(surroundings(each, self._around) for each in places)


def _source(path: str, text: str) -> Source:
    """An open file: the editor has decoded it, whatever encoding it declares."""
    return Source(path, text.encode(errors="surrogatepass"), text, "utf-8")


def _is_of_others(path: str) -> bool:
    """Whether a file was installed: editors open such files to show a definition."""
    above = Path(os.path.abspath(path)).parents  # noqa: PTH100 - a link stays what it is
    return any(each.name in SKIPPED for each in above) or any(
        (each / mark).exists() for each in above for mark in ENVIRONMENT_MARKS
    )
