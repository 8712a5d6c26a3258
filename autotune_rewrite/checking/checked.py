"""``check``: what is said of files now, or was said before where nothing has changed since."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from autotune_rewrite.checking.cache import Cache, is_unchanged, key, snapshot, surroundings
from autotune_rewrite.errors import FileError
from autotune_rewrite.rewriting.results import as_json, from_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from autotune_rewrite.project.programs import Project
    from autotune_rewrite.rewriting.config import Options
    from autotune_rewrite.rewriting.results import Said


def check(
    paths: Sequence[str], chosen: str, options: Callable[[], Options], *, cache: Cache | None, fixes: bool = False
) -> Iterator[Said]:
    """What is said of the files named and those below the directories named.

    Args:
        paths: Files and directories.
        chosen: What was chosen on the command line, as text.
        options: The same, which takes long to look at.
        cache: Where it is looked up, and kept; None where it is to be found anew.
        fixes: Whether each finding is to hold its own change.
    """
    chosen = f"{chosen} fixes" if fixes else chosen
    question = key("paths", chosen, str(Path.cwd()), *paths)
    before = _before(cache, question) if cache is not None else None
    if before is not None:
        yield from before
        return
    started = time.time_ns()
    said = []
    for each in _by_content(paths, options(), chosen, cache, fixes=fixes):
        said.append(as_json(each))
        yield each
    if cache is not None:
        seen = snapshot(_tops(paths), started)
        if seen is not None:
            cache.put({question: [seen, said]})


def _before(cache: Cache, question: str) -> list[Said] | None:
    """What was said to the question, where no file was touched since."""
    try:
        seen, said = cache.get([question])[question]
        return [_with_cells(from_json(each)) for each in said] if is_unchanged(seen) else None
    except (KeyError, TypeError, ValueError, AttributeError, FileError):
        return None


def _by_content(
    paths: Sequence[str], options: Options, chosen: str, cache: Cache | None, *, fixes: bool
) -> Iterator[Said]:
    from autotune_rewrite.rewriting import batch

    errors, projects = batch.found(paths, options)
    yield from errors
    work = partial(_say, options=options, fixes=fixes)
    if cache is None:
        yield from batch.once(batch.in_turn(work, projects))
        return
    around: dict[Path, bytes] = {}
    keys = [_key(each, chosen, around) for each in projects]
    asked = {name: sum(part.asked for part in each.parts) for name, each in zip(keys, projects, strict=True)}
    found = ((name, _known(data, asked[name])) for name, data in cache.get(keys).items())
    known = {name: said for name, said in found if said is not None}
    new: dict[str, object] = {}
    rest = batch.in_turn(work, [each for each, name in zip(projects, keys, strict=True) if name not in known])

    def one(project: Project, name: str) -> list[Said]:
        if name in known:
            return known[name]
        said = next(rest)
        # What was changed meanwhile may have been read before or after.
        if _key(project, chosen, around) == name:
            new[name] = [as_json(each) for each in said]
        return said

    try:
        yield from batch.once(map(one, projects, keys))
    finally:
        cache.put(new)


def _say(project: Project, options: Options, *, fixes: bool) -> list[Said]:
    """What is said of the files of a project, without their texts, which nobody asks for."""
    from autotune_rewrite.rewriting import batch

    results = batch.process(project, options, check=True, fixes=fixes)
    return [each if isinstance(each, FileError) else replace(each.rewrite, before="", after="") for each in results]


def _key(project: Project, chosen: str, around: dict[Path, bytes]) -> str:
    """A digest of all that what is said of a project follows from.

    Args:
        project: Its files.
        chosen: What was chosen on the command line.
        around: What says how torchfast runs, by the directory that it stands in, as far as it was read.
    """
    contents = [_content(part.path) for part in project.parts]
    places = sorted({str(Path(part.path).absolute().parent) for part in project.parts if part.asked})
    beside = [surroundings(each, around) for each in places]
    return key("project", chosen, str(Path.cwd()), repr(project), *beside, *contents)


def _content(path: str) -> bytes:
    try:
        # Opening a pipe would wait for somebody to write.
        return Path(path).read_bytes() if os.path.isfile(path) else b""  # noqa: PTH113 - thousands of times
    except OSError as error:
        return str(error).encode()


def _known(data: list[list[object]], number: int) -> list[Said] | None:
    """What was said of so many files."""
    try:
        said = [_with_cells(from_json(each)) for each in data]
    except (TypeError, ValueError, AttributeError, FileError):
        return None  # not what this torchfast wrote
    return said if len(said) == number else None


def _with_cells(said: Said) -> Said:
    """The same, and of a notebook where its cells stand.

    Raises:
        FileError: when the notebook cannot be read any more.
    """
    if isinstance(said, FileError) or not said.sites or not said.path.endswith(".ipynb"):
        return said
    from autotune_rewrite.project import files

    return replace(said, cells=files.read(said.path).cells)


def _tops(paths: Sequence[str]) -> set[str]:
    """The directories in which everything lies that a check of the paths reads."""
    from autotune_rewrite.project.programs import project_top

    real = [os.path.realpath(each) for each in paths]
    given = [each for each in real if Path(each).is_dir()]
    places = {each if each in given else str(Path(each).parent) for each in real}
    return {*map(os.path.abspath, paths), *(project_top(each, given) for each in places)}
