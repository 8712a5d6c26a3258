"""What is to be compared, how often, and in which order."""

from __future__ import annotations

import os
import random
import re
import shutil
import sys
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from autotune_rewrite.errors import FileError
from autotune_rewrite.project.runnable import is_notebook, runnable

if TYPE_CHECKING:
    from autotune_rewrite.project.revisions import Revision

PromiseName = Literal["bitwise", "random", "precision", "training"]
Device = Literal["auto", "cpu", "cuda", "simulated"]
Side = Literal["original", "rewritten"]
Kind = Literal["pair", "control", "check", "tf32", "whole"]
"""What a run is for: to be timed and judged in a pair; the original again, with the seed of a pair; a look at the bits,
under deterministic algorithms and not timed; the original with TF32 in its matrix products, as a second baseline; the
first pair, which ran to its end and told that the others have to be cut."""

CAPABILITY = "9.0"
"""Of a simulated device, unless another is asked for: mixed precision is in bfloat16."""

MOST_PAIRS = 32
"""Unless another number is asked for: twice as many would narrow an interval by a third, and take twice as long."""
FIRST_LOOK = 4
"""Pairs after which runs are judged first: fewer show too little of their spread."""

NEEDED = ("torch", "scipy", "psutil")
"""Verifying needs them; rewriting and checking do not."""


def search_path() -> str:
    """Where the commands of launchers are looked for: beside this Python, then as the shell does."""
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"


class VerifyError(Exception):
    """The input cannot be verified; the message says why in one line."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One run in its place: the pairs are run one after the other, the two runs of a pair next to each other."""

    side: Side
    offset: int
    """Is added to the plan's seed, and to every seed that the script sets itself; the same on both sides of a pair."""
    kind: Kind = "pair"


@dataclass(frozen=True, slots=True)
class Plan:
    """Two scripts and how to compare them."""

    original: Path
    """The file with its text."""
    rewritten: Path
    promise: PromiseName = "precision"
    """How far the results may differ."""
    pairs: int = MOST_PAIRS
    """At most; as soon as a look tells enough, or the time budget holds no more, there are fewer."""
    iterations: int | None = None
    """Every run ends after this many backward calls, or runs to its own end."""
    time_budget: float = 300.0
    """Seconds that all runs together take: fewer pairs are run, or runs are cut, to keep to it."""
    seed: int = 0
    device: Device = "auto"
    timeout: float | None = None
    """Seconds that one run may take; None: what is left of the time budget, and twice that where nobody counts."""
    arguments: tuple[str, ...] = ()
    """Of both scripts."""
    not_measured: tuple[str, ...] = ()
    """Rules that were applied and cannot act on this device: they are reported as such, never as a gain or a loss."""
    signatures: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The rules that were applied, each with regular expressions over what a run says that fails because of it."""
    script_directory: Path | None = None
    """Where the rewritten script acts as if it lay, for a text that has no file in the project yet.

    None: where it lies; what it cannot import from there, it imports from the original's directory.
    """
    batches: int | None = None
    """Every pass through a data loader ends after so many, so that a second epoch is soon reached."""
    length: int | None = None
    """The backward calls of a whole run, for a caller who knows them; runs that were cut are extrapolated to it."""
    sized: str = ""
    """What was done to keep to the time budget, in a sentence; else empty."""
    margin: float | None = None
    """How much worse the summary of a run may be; None: as much as seeds move the original's."""
    metric: str | None = None
    """A regular expression over lines of output: its group, or the first number after it, is the metric."""
    higher: bool | None = None
    """Whether a higher metric is better; None: its name says so."""
    full: bool = False
    """Runs are not cut to keep to the time budget, so that the metric can be judged at full length."""
    tolerance: float = 1e-2
    """How far first losses may be apart, relative to their size: what the number formats of the rewrite may do."""
    redrawn: bool = False
    """Whether a change draws other random numbers: then first losses are not compared."""
    bitwise: Path | None = None
    """The script with only those changes that promise the same bits; None: the rewritten one, if all of them do."""
    modules: tuple[tuple[Path, Path], ...] = ()
    """Other files of the project that the rewrite changes, each with the file that has its text."""
    bitwise_modules: tuple[tuple[Path, Path], ...] = ()
    """The same for ``bitwise``."""
    original_text: Path | None = None
    """The file with the text that the original is run with; None: its own."""
    original_modules: tuple[tuple[Path, Path], ...] = ()
    """As ``modules``, of the original."""
    speed_only: bool = False
    """Whether it is only asked which one is faster: nothing is run to tell whether they compute the same."""
    takes_turns: bool = False
    """Whether the runs of the first pair, too, may be alive at once: those of earlier pairs of the script were."""
    module: bool = False
    """Scripts are run as ``python -m`` runs them: the files are those of modules, seen from where it is started."""
    launcher: tuple[str, ...] = ()
    """The words of a command that starts the script in several processes, such as ``torchrun --nproc_per_node=2``."""
    keep: bool = False
    """Leave each run's copy of the project where it is."""
    capability: str | None = None
    """Of the simulated device: below 8.0 mixed precision is in float16, with a gradient scaler."""
    base: Revision | None = None
    """The revision at which the original and its whole project are run; None: all as it is now."""

    @property
    def simulated(self) -> str | None:
        """The capability of the simulated CUDA device; None where the device is none, or a real one."""
        return (self.capability or CAPABILITY) if self.device == "simulated" else None

    @property
    def seconds_of_run(self) -> float:
        """After so many a run is ended as one that hangs."""
        return 2 * self.time_budget if self.timeout is None else self.timeout

    @property
    def looks(self) -> tuple[int, ...]:
        """After how many pairs the runs are judged: 4, 8, 16 and so on, and after all.

        Each look has as many pairs as all before it, so that an answer costs at most twice the pairs that it needs. A
        look with hardly more pairs than the one before it would cost confidence and tell nothing.
        """
        looks = []
        pairs = FIRST_LOOK
        while 2 * self.pairs >= 3 * pairs:
            looks.append(pairs)
            pairs *= 2
        return (*looks, self.pairs)

    @property
    def pair_turns(self) -> tuple[tuple[Turn, Turn], ...]:
        """The pairs in order: blocks of two, each ABBA or BAAB at random, so that drift favours neither side."""
        draw = random.Random(self.seed)  # noqa: S311 - an order, not a secret
        pairs: list[tuple[Turn, Turn]] = []
        original_first = True
        for pair in range(self.pairs):
            original_first = draw.random() < 0.5 if pair % 2 == 0 else not original_first  # noqa: PLR2004 - a coin
            turns = Turn("original", pair), Turn("rewritten", pair)
            pairs.append(turns if original_first else turns[::-1])
        return tuple(pairs)

    def script(self, turn: Turn) -> Path:
        """The file with the text that the turn runs."""
        if turn.side == "original":
            return self.original_text or self.original
        return self.bitwise if turn.kind == "check" and self.bitwise is not None else self.rewritten

    def changed_modules(self, turn: Turn) -> tuple[tuple[Path, Path], ...]:
        """Other files of the project that are not the user's in this turn, each with the file that has its text."""
        if turn.side == "original":
            return self.original_modules
        return self.bitwise_modules if self.script(turn) == self.bitwise else self.modules

    def place(self, turn: Turn) -> Path:
        """Where the turn's script acts as if it lay."""
        if turn.side == "original":
            return self.original if self.base is None else self.base.typed
        text = self.script(turn)
        if self.script_directory is not None:
            return self.script_directory / text.name
        if self.module and not text.resolve().is_relative_to(Path.cwd().resolve()):
            return self.original  # a module has a name from where it is started only
        return text

    def location(self, turn: Turn) -> Path:
        """The same as an absolute path without links, as they were at the revision."""
        if turn.side == "original" and self.base is not None:
            return self.base.script
        return self.place(turn).resolve()

    def named(self, script: Path) -> str:
        """What a file with a script's text is called in messages."""
        if self.base is None or script != self.original or script == self.base.script:
            return str(script)
        return f"{self.base.typed} at {self.base.shown}"

    def started(self, turn: Turn) -> Path:
        """The directory in which the turn's script is started: notebooks run in their own."""
        return self.location(turn).parent if is_notebook(self.script(turn)) else Path.cwd()

    def revision(self, turn: Turn) -> Revision | None:
        """What the turn's project is taken back to; None: it is as it is now."""
        return self.base if turn.side == "original" else None

    def check(self) -> None:
        """Refuses what cannot be verified, before anything runs.

        Raises:
            VerifyError: A number is out of range, a script is missing or does not compile, or a package is missing.
        """
        self._check_numbers()
        for script in (self.original, self.rewritten):
            check_script(script, self.named(script))
        books = [each for each in (self.place(Turn("original", 0)), self.rewritten) if is_notebook(each)]
        for refused, what in (
            (self.module, "-m runs modules, and this is a notebook"),
            (self.launcher, "a notebook runs in one process: --launcher is for scripts"),
            (self.arguments, "a notebook has no arguments: -- is for scripts"),
        ):
            if refused and books:
                message = f"{books[0]}: {what}"
                raise VerifyError(message)
        if self.module and not self.location(Turn("original", 0)).is_relative_to(Path.cwd().resolve()):
            typed = self.place(Turn("original", 0))
            message = f"{typed}: -m runs modules of the current directory: go to where python -m finds this one"
            raise VerifyError(message)
        if self.launcher and shutil.which(self.launcher[0], path=search_path()) is None:
            raise VerifyError(f"the launcher {self.launcher[0]} is not to be found")
        for package in NEEDED:
            if find_spec(package) is None:
                message = f"verifying needs {package}, which is not installed: pip install 'autotune-rewrite[verify]'"
                raise VerifyError(message)

    def _check_numbers(self) -> None:
        if self.pairs < 1:
            message = f"the number of pairs is {self.pairs}, but at least 1 is needed"
            raise VerifyError(message)
        if self.iterations is not None and self.iterations < 1:
            message = f"the number of iterations is {self.iterations}, but at least 1 is needed"
            raise VerifyError(message)
        if self.margin is not None and not self.margin > 0:
            message = f"the margin is {self.margin:g}, but it has to be positive"
            raise VerifyError(message)
        for name, seconds in (("time budget", self.time_budget), ("timeout", self.seconds_of_run)):
            if not seconds > 0:
                message = f"the {name} is {seconds:g} seconds, but it has to be positive"
                raise VerifyError(message)
        if not 0 <= self.seed < 2**32 - self.pairs:
            message = f"the seed is {self.seed}, but it has to be between 0 and 2**32 - 1 - pairs"
            raise VerifyError(message)
        if self.capability is not None and self.device != "simulated":
            message = f"the capability is that of a simulated device, but the device is {self.device}"
            raise VerifyError(message)
        if self.capability is not None and not re.fullmatch(r"\d+\.\d", self.capability):
            message = f"the capability is {self.capability!r}, but it has to look like {CAPABILITY}"
            raise VerifyError(message)


def check_script(script: Path, name: str) -> None:
    """Refuses a script that Python could not even start.

    Args:
        script: The file.
        name: What it is called in messages.

    Raises:
        VerifyError: It cannot be read or does not compile.
    """
    if script.exists() and not script.is_file():
        message = f"{name}: not a file"
        raise VerifyError(message)
    book = None
    try:
        source = script.read_bytes()
        if is_notebook(script):
            book = runnable(name, source)
            source = book.text.encode()
    except OSError as error:
        message = f"{name}: {error.strerror or error}"
        raise VerifyError(message) from error
    except FileError as error:
        raise VerifyError(str(error)) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are the script's own, and are shown when it runs
            compile(source, name, "exec", dont_inherit=True)
    except SyntaxError as error:
        line = error.lineno or 1
        message = f"{name}:{line if book is None else book.cells.named(line)}: {error.msg}"
        raise VerifyError(message) from error
    except ValueError as error:  # null bytes, before Python 3.12
        message = f"{name}:1: {error}"
        raise VerifyError(message) from error
    except (RecursionError, MemoryError) as error:
        message = f"{name}:1: nested too deeply to be compiled"
        raise VerifyError(message) from error
