"""Many files: each read and put through the rules, several at a time where there are many."""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from autotune_rewrite.errors import FileError
from autotune_rewrite.project import files
from autotune_rewrite.project.programs import Part, Project, projects
from autotune_rewrite.rewriting import config
from autotune_rewrite.rewriting.results import Rewrite
from autotune_rewrite.rewriting.rewrite import Text, describe, parse, rewrite_project
from codemods.codemod import Promise

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from autotune_rewrite.project.files import Source
    from autotune_rewrite.rewriting.config import Options
    from autotune_rewrite.rewriting.results import Site
    from autotune_rewrite.rewriting.rewrite import Ask

One = TypeVar("One")

_FEW = 16
"""As many files take less time than other processes take to start."""
_OBJECTS = 500_000
"""New objects between two searches for cycles."""


@dataclass(frozen=True, slots=True)
class Done:
    """A file that was read, and what became of its text."""

    source: Source
    rewrite: Rewrite


Result: TypeAlias = "Done | FileError"


@dataclass(frozen=True, slots=True)
class Changes:
    """What became of the files of a project that are asked for."""

    dones: tuple[Done, ...]

    @property
    def rules(self) -> frozenset[str]:
        """The rules that changed something."""
        return frozenset().union(*(each.rewrite.rules for each in self.dones))

    @property
    def promise(self) -> Promise | None:
        """The farthest promise applied; None where nothing was."""
        promises = (each.rewrite.promise for each in self.dones)
        return max((each for each in promises if each is not None), default=None)

    @property
    def redraws(self) -> bool:
        """Whether anything that was applied draws other random numbers."""
        return any(each.rewrite.redraws for each in self.dones)

    @property
    def changed(self) -> tuple[Done, ...]:
        """The files that were changed."""
        return tuple(each for each in self.dones if each.rewrite.after != each.source.text)

    @property
    def texts(self) -> tuple[str, ...]:
        """What the files have become, changed or not."""
        return tuple(each.rewrite.after for each in self.dones)

    @property
    def sites(self) -> tuple[Site, ...]:
        """The sites of all files."""
        return tuple(site for each in self.dones for site in each.rewrite.sites)


def run(
    paths: Iterable[str], options: Options, *, check: bool, follow: bool = True, fixes: bool = False
) -> Iterator[Result]:
    """Put the files named and those below the directories named through the rules.

    What is wrong with one file holds up no other.

    Args:
        paths: Files and directories.
        options: What was chosen on the command line.
        check: Find the sites only.
        follow: Put the modules of their projects that they import through the rules, too.
        fixes: Find the change of each site alone, too.
    """
    errors, groups = found(paths, options, follow=follow)
    yield from errors
    yield from once(in_turn(partial(process, options=options, check=check, fixes=fixes), groups))


def run_in_units(paths: Iterable[str], options: Options, ask: Ask) -> Iterator[Result]:
    """As ``run``, where it is said which changes can be left out alone.

    Args:
        paths: Files and directories.
        options: What was chosen on the command line.
        ask: Whether a change is wanted at all; it may be asked in another process.
    """
    errors, groups = found(paths, options)
    yield from errors
    yield from once(in_turn(partial(_process_in_units, options=options, ask=ask), groups))


def _process_in_units(project: Project, options: Options, ask: Ask) -> list[Result]:
    return process_read(read(project), options, check=False, units=True, ask=ask)


def run_asking(paths: Iterable[str], options: Options, ask: Ask) -> Iterator[Result]:
    """As ``run``, one project after the other, where each change is asked for.

    Args:
        paths: Files and directories.
        options: What was chosen on the command line.
        ask: Whether a change is wanted.
    """
    errors, groups = found(paths, options)
    yield from errors
    for each in groups:
        books = [part.path for part in each.parts if part.asked and part.path.endswith(".ipynb")]
        if books:
            yield from (FileError(path, "a notebook: changes are asked for in scripts only") for path in books)
        else:
            yield from process_read(read(each), options, check=False, ask=ask)


def found(paths: Iterable[str], options: Options, *, follow: bool = True) -> tuple[list[FileError], list[Project]]:
    """What is wrong with some paths, and the projects of the files there."""
    excluded = config.Excluded(options)
    paths = [each for each in paths if not (options.force_exclude and excluded(Path(each)))]
    tops = [each for each in paths if Path(each).is_dir()]
    broken = {each: fault for each in paths if each not in tops and (fault := _fault_of_named(each)) is not None}
    names = [broken.get(each, each) if isinstance(each, str) else each for each in files.python_files(paths, excluded)]
    groups = projects([each for each in names if isinstance(each, str)], tops, follow=follow)
    faults = [each for each in names if isinstance(each, FileError)]
    return faults, [without_excluded(each, set(paths), excluded) for each in groups]


def without_excluded(project: Project, named: Collection[str], excluded: config.Excluded) -> Project:
    """The project, in which modules that are left out are read only, be they imported by what is not."""
    parts = (
        part._replace(asked=part.asked and (part.path in named or not excluded(Path(part.path))))
        for part in project.parts
    )
    return project._replace(parts=tuple(parts))


def _fault_of_named(path: str) -> FileError | None:
    """What is wrong with the text of a file that the user named, where it does not mention torch.

    What is wrong with others is found when they are put through the rules.
    """
    try:
        source = files.read(path)
    except FileError:
        return None
    try:
        refuse_broken(source)
    except FileError as error:
        return error
    return None


def refuse_broken(source: Source) -> None:
    """Refuse what is no Python, and does not mention torch, either: else nobody would parse it.

    Raises:
        FileError: where it stops being Python.
    """
    if not source.mentions_torch:
        parse(source.path, files.decode(source.path, source.data, as_text=True).text)


def in_turn(work: Callable[[Project], list[One]], groups: Sequence[Project]) -> Iterator[list[One | FileError]]:
    """What comes of the projects, in their order, several at a time where there are many."""
    if sum(len(each.parts) for each in groups) > _FEW:
        yield from _in_processes(work, groups)
        return
    thresholds = gc.get_threshold()
    _search_seldom()
    try:
        for each in groups:
            yield [*work(each)]
    finally:
        gc.set_threshold(*thresholds)


def once(several: Iterable[Sequence[One | FileError]]) -> Iterator[One | FileError]:
    """What is said in turn; what concerns many files, as a pyproject.toml that cannot be read does, is said once."""
    said = set()
    for results in several:
        for result in results:
            if isinstance(result, FileError):
                if str(result) in said:
                    continue
                said.add(str(result))
            yield result


def process(project: Project, options: Options, *, check: bool, fixes: bool = False) -> list[Result]:
    """Put the files of a project through the rules; of one that does not mention torch none is even parsed.

    Args:
        project: The files.
        options: What was chosen on the command line.
        check: Find the sites only.
        fixes: Find the change of each site alone, too.

    Returns:
        What became of each file that is asked for.
    """
    return process_read(read(project), options, check=check, fixes=fixes)


Read: TypeAlias = "list[tuple[Part, Source | FileError]]"


def read_project(path: str, *, follow: bool = True, options: Options | None = None) -> Read:
    """A script and the other files of its project.

    Args:
        path: The script.
        follow: Whether the modules that it imports are asked for, too.
        options: What was chosen on the command line.

    Raises:
        FileError: when the script cannot be used.
    """
    (project,) = projects([path], follow=follow)
    parts = read(without_excluded(project, {path}, config.Excluded(options or config.Options())))
    for part, source in parts:
        if part.path == path:
            if isinstance(source, FileError):
                raise source
            refuse_broken(source)
    return parts


def read(project: Project, opened: Mapping[str, Source] = MappingProxyType({})) -> Read:
    """The files of a project as they are now, or what is wrong with one.

    Args:
        project: The files.
        opened: What files hold, by their real paths, whatever there is on disk.
    """
    return [(part, _read(part.path, opened, as_text=project.has_torch)) for part in project.parts]


def _read(path: str, opened: Mapping[str, Source], *, as_text: bool) -> Source | FileError:
    here = opened.get(os.path.realpath(path)) if opened else None
    if here is not None:
        return replace(here, path=path)
    try:
        source = files.read(path)
        if as_text and not source.mentions_torch:
            # Where the text is in no encoding, that is nothing to report of a file that torch is not used in.
            with suppress(FileError):
                return files.decode(path, source.data, as_text=True)
    except FileError as error:
        return error
    return source


def process_read(  # noqa: PLR0913 - as the command line has these options
    parts: Read,
    options: Options,
    *,
    check: bool,
    without: frozenset[str] = frozenset(),
    bitwise: bool = False,
    fixes: bool = False,
    units: bool = False,
    ask: Ask | None = None,
) -> list[Result]:
    """Put files that were read through the rules; see ``process``.

    Args:
        parts: The files of one project.
        options: What was chosen on the command line.
        check: Find the sites only.
        without: Rules that do not run, whatever was chosen.
        bitwise: Apply only what promises the same bits, whatever was chosen.
        fixes: Find the change of each site alone, too.
        units: Find which changes can be left out alone, too.
        ask: Whether a change is wanted; see ``run_asking``.
    """
    has_torch = any(not isinstance(source, FileError) and source.mentions_torch for _, source in parts)
    texts: list[tuple[Source, Text]] = []
    results: list[Result] = []
    for part, source in parts:
        if isinstance(source, FileError):
            results += [source] * part.asked
        elif not has_torch:
            results += [Done(source, Rewrite(source.path, source.text, source.text))] * part.asked
        else:
            try:
                settings = _settings(source, options, without=without, bitwise=bitwise) if part.asked else None
            except FileError as error:
                results.append(error)
                continue
            texts.append((source, _text(part, source, settings)))
    asked = [source for source, text in texts if text.settings is not None]
    if asked:
        results += map(
            _result, asked, _found([text for _, text in texts], check=check, ask=ask, fixes=fixes, units=units)
        )
    unread = {part.path: part.unread for part, _ in parts}
    return [each if isinstance(each, FileError) else _with_unread(each, unread[each.source.path]) for each in results]


def _with_unread(done: Done, packages: Iterable[tuple[str, int]]) -> Done:
    """What became of a file, with a note for each package that was too large to be read with it."""
    notes = tuple(
        f"{package} is not followed from what imports it, as it has {files} files: name it to have them checked"
        for package, files in packages
    )
    return replace(done, rewrite=replace(done.rewrite, notes=(*done.rewrite.notes, *notes))) if notes else done


def _found(
    texts: Sequence[Text], *, check: bool, ask: Ask | None, fixes: bool, units: bool
) -> list[Rewrite | FileError]:
    if units:
        from autotune_rewrite.rewriting.units import with_units

        return with_units(texts, ask=ask)
    if not fixes:
        return rewrite_project(texts, check=check, ask=ask)
    from autotune_rewrite.rewriting.fixes import with_fixes

    return with_fixes(texts, check=check)


def _text(part: Part, source: Source, settings: config.Settings | None = None) -> Text:
    return Text(source.path, source.text, settings, part.name, part.is_package, part.is_entry, dict(part.local))


def _result(source: Source, found: Rewrite | FileError) -> Result:
    """A file that does not mention torch need not be Python."""
    if not isinstance(found, FileError):
        return Done(source, found if source.cells is None else found.in_cells(source.cells))
    if not source.mentions_torch:
        return Done(source, Rewrite(source.path, source.text, source.text))
    return found if source.cells is None else source.cells.error(found)


def _settings(source: Source, options: Options, *, without: frozenset[str], bitwise: bool) -> config.Settings:
    path = Path(source.path).absolute()
    settings = config.settings(path.parent, options, name=path.name, without=without)
    return replace(settings, level=Promise.BITWISE, exempt=frozenset()) if bitwise else settings


def alone(source: Source) -> Read:
    """A file that is no part of a project, such as standard input."""
    return [(Part(source.path), source)]


def changes(parts: Read, options: Options, *, without: frozenset[str] = frozenset(), bitwise: bool = False) -> Changes:
    """What becomes of the files of one project; see ``process``.

    Raises:
        FileError: when one of them cannot be used.
    """
    results = process_read(parts, options, check=False, without=without, bitwise=bitwise)
    for each in results:
        if isinstance(each, FileError):
            raise each
    return Changes(tuple(each for each in results if isinstance(each, Done)))


def facts(path: str) -> Iterator[tuple[str, str]]:
    """What is understood of a script: lines, from 1, and facts; of a notebook, ``cell 3:5`` and facts.

    Raises:
        FileError: when it cannot be used.
    """
    parts = read_project(path)
    texts = [(source, _text(part, source)) for part, source in parts if not isinstance(source, FileError)]
    source, asked = next((source, text) for source, text in texts if source.path == path)
    if not source.mentions_torch:
        return
    for line, fact in describe([text for _, text in texts], asked):
        yield (str(line), fact.text) if source.cells is None else (source.cells.named(line), source.cells.words(fact))


def imported(path: str) -> list[str]:
    """The modules of its project that a script imports and that mention torch.

    Raises:
        FileError: when the script cannot be used.
    """
    return [
        part.path
        for part, source in read_project(path)
        if part.asked and part.path != path and not isinstance(source, FileError) and source.mentions_torch
    ]


def _search_seldom() -> None:
    """Facts are many objects that live as long as their project: to look for cycles among them took a fifth of all."""
    gc.freeze()
    gc.set_threshold(_OBJECTS)


def _start_process() -> None:
    # An interrupt is the parent's to answer: leaving the block drops what has not begun.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_parent()
    _search_seldom()


def _end_with_parent() -> None:
    """A parent that is killed closes nothing: this process would wait for work for ever. Linux ends it then."""
    if sys.platform == "linux":
        import ctypes

        set_parent_death_signal = 1
        with suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def _in_processes(work: Callable[[Project], list[One]], groups: Sequence[Project]) -> Iterator[list[One | FileError]]:
    """As ``map``, on all cores, the largest projects first."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    # A process that is forked has imported the rules already; where that is not safe, it is Python's to choose.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else None)
    with ProcessPoolExecutor(os.cpu_count(), context, _start_process) as pool:
        order = sorted(range(len(groups)), key=lambda index: len(groups[index].parts), reverse=True)
        futures = {index: pool.submit(work, groups[index]) for index in order}
        try:
            for index, group in enumerate(groups):
                if isinstance(futures[index].exception(), BrokenProcessPool):
                    killed = "not processed: a worker process was killed"
                    yield [FileError(part.path, killed) for part in group.parts if part.asked]
                else:
                    yield [*futures[index].result()]
        finally:
            pool.shutdown(cancel_futures=True)
