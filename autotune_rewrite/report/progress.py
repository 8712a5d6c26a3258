"""How far a verification has come: in one line that is written over again, and in a pipe in a line a minute."""

from __future__ import annotations

import math
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.text import Text

from autotune_rewrite.report.judgement import significant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from autotune_rewrite.verify import Progress


MINUTE = 60.0
"""Seconds between two lines where no line can be written over again."""


@contextmanager
def live(console: Console | None = None) -> Iterator[Callable[[Progress], None]]:
    """Shows what it is told in the last line of a terminal, and takes the line away in the end, however that comes.

    Args:
        console: Of a terminal; None: standard error, where a plain line is written each minute if it is no terminal.

    Yields:
        A function to be told of each step.
    """
    if console is None:
        if not sys.stderr.isatty():  # rich would take FORCE_COLOR for a terminal
            yield _plain()
            return
        console = Console(stderr=True)
    with Live(console=console, transient=True) as line:
        yield lambda progress: line.update(Text(words(progress), no_wrap=True, overflow="ellipsis"))


def _plain() -> Callable[[Progress], None]:
    """Tells of steps in lines of their own, without control characters; of short verifications nothing."""
    last = time.monotonic()

    def tell(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= MINUTE:
            last = now
            sys.stderr.write(f"{words(progress)}\n")
            sys.stderr.flush()

    return tell


def words(progress: Progress) -> str:
    """Such as "run 3 of 16 · original · 812 iterations · 140/s · about 2 min left", as far as it is known."""
    parts = [f"run {progress.number} of {progress.total}", progress.side]
    if progress.iterations:
        parts.append("1 iteration" if progress.iterations == 1 else f"{progress.iterations} iterations")
    if progress.per_second:
        parts.append(f"{significant(progress.per_second)}/s")
    if progress.seconds_left is not None:
        parts.append(f"about {about(progress.seconds_left)} left")
    return " · ".join(parts)


def about(seconds: float) -> str:
    """A time as coarse as it is uncertain, and never none."""
    if seconds <= 60:  # noqa: PLR2004 - seconds in a minute
        return f"{10 * max(1, math.ceil(seconds / 10))} s"
    minutes = math.ceil(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{seconds / 3600:.1f} h"  # noqa: PLR2004 - two digits
