"""Many files: each read and put through the rules, several at a time where there are many."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from autotune_rewrite import config, files
from autotune_rewrite.errors import FileError
from autotune_rewrite.rewrite import Rewrite, describe, rewrite
from codemods.declaration import Promise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from autotune_rewrite.config import Options
    from autotune_rewrite.files import Source

_FEW = 16
"""As many files take less time than other processes take to start."""
_CHUNK = 8
"""Files handed to a process at a time."""


@dataclass(frozen=True, slots=True)
class Done:
    """A file that was read, and what became of its text."""

    source: Source
    rewrite: Rewrite


Result: TypeAlias = "Done | FileError"


def run(paths: Iterable[str], options: Options, *, check: bool) -> Iterator[Result]:
    """Put the files named and those below the directories named through the rules, in order.

    What is wrong with one file holds up no other.
    """
    found = list(files.python_files(paths))
    names = [each for each in found if isinstance(each, str)]
    yield from (each for each in found if isinstance(each, FileError))
    work = partial(one, options=options, check=check)
    said = set()
    for result in map(work, names) if len(names) <= _FEW else _in_processes(work, names):
        # A pyproject.toml that cannot be read concerns many files, and is reported once.
        if isinstance(result, FileError):
            if str(result) in said:
                continue
            said.add(str(result))
        yield result


def one(path: str, options: Options, *, check: bool) -> Result:
    """Put one file through the rules."""
    try:
        return process(files.read(path), options, check=check)
    except FileError as error:
        return error


def process(
    source: Source, options: Options, *, check: bool, without: frozenset[str] = frozenset(), bitwise: bool = False
) -> Done:
    """Put a file that was read through the rules; one that does not mention torch is not even parsed.

    Args:
        source: The file.
        options: What was chosen on the command line.
        check: Find the sites only.
        without: Rules that do not run, whatever was chosen.
        bitwise: Apply only what promises the same bits, whatever was chosen.

    Raises:
        FileError: when it, or the configuration for it, cannot be used.
    """
    if not source.mentions_torch:
        return Done(source, Rewrite(source.path, source.text, source.text))
    settings = config.settings(Path(source.path).absolute().parent, options, without=without)
    if bitwise:
        settings = replace(settings, level=Promise.BITWISE, exempt=frozenset())
    return Done(source, rewrite(source.path, source.text, settings, check=check))


def facts(path: str) -> tuple[tuple[int, str], ...]:
    """What is understood of a script: lines, from 1, and facts.

    Raises:
        FileError: when it cannot be used.
    """
    source = files.read(path)
    return describe(path, source.text) if source.mentions_torch else ()


def _in_processes(work: partial[Result], names: Sequence[str]) -> Iterator[Result]:
    """As ``map``, on all cores."""
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    done = 0
    # An interrupt is the parent's to answer: leaving the block drops what has not begun.
    with ProcessPoolExecutor(
        os.cpu_count(), initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)
    ) as pool:
        try:
            for result in pool.map(work, names, chunksize=_CHUNK):
                yield result
                done += 1
        except BrokenProcessPool:
            yield from (FileError(name, "not processed: a worker process was killed") for name in names[done:])
