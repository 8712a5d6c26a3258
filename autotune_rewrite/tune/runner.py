"""A plan in a process of its own, here or on another machine; it ends all that it runs once whoever asked is gone."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import gettempdir
from typing import IO, TYPE_CHECKING, Any

from autotune_rewrite.tune.hardware import described
from autotune_rewrite.verify import verify
from autotune_rewrite.verify.plan import Plan, VerifyError
from autotune_rewrite.verify.run import probe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from autotune_rewrite.verify.judgement import Judgement
    from autotune_rewrite.verify.records import Environment, Run

TOP = Path(__file__).resolve().parents[2]
"""Where torchfast's packages are."""
START = "import sys; sys.path[0] = sys.argv[1]; from autotune_rewrite.tune.runner import main; main(*sys.argv[2:])"
"""The directory that it is started in, which is the user's, is none that modules come from."""
PATIENCE = 30.0
"""Seconds that a runner gets to end what it runs."""


class LostError(Exception):
    """A runner ended and left no answer: something outside of the scripts has ended it."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a runner is to do."""

    plan: Plan
    directory: Path
    """That scripts are started in."""
    place: str
    """Names what no two jobs may use at once: GPUs, or all processors of a machine."""
    describes: bool = False
    """Whether only the machine is asked about."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a job."""

    hardware: Environment = field(default_factory=dict)
    judgement: Judgement | None = None
    runs: tuple[Run, ...] = ()
    refused: str = ""
    """Why the plan cannot be carried out, in a line; else empty."""


class Runner:
    """A process that does a job.

    Args:
        job: What it does.
        environment: Its variables.
        folder: For the two of them; where whoever waits is killed, the process removes it.
    """

    def __init__(self, job: Job, environment: Mapping[str, str], folder: Path) -> None:
        asked, self._answer = (folder / name for name in ("job", "answer"))
        asked.write_bytes(pickle.dumps(job))
        self._process = subprocess.Popen(  # noqa: S603 - this Python, and this module
            [sys.executable, "-c", START, str(TOP), str(asked), str(self._answer)],
            env=dict(environment),
            cwd=job.directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for whoever waits
        )

    @property
    def has_ended(self) -> bool:
        """Whether the process is no more."""
        return self._process.poll() is not None

    def wait(self) -> Answer:
        """What came of it, when it has ended.

        Raises:
            LostError: Nothing did.
        """
        try:
            self._process.wait()
            if not self._answer.exists():
                raise LostError(f"a trial's process ended with status {self._process.returncode} and left no answer")
            answer: Answer = pickle.loads(self._answer.read_bytes())  # noqa: S301 - our own process wrote it
            return answer
        finally:
            self.end()

    def end(self) -> None:
        """Has it end what it runs, if it still does, and itself."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def main(asked: str, answer: str) -> None:
    """Does a job, as the process that is made for it.

    Args:
        asked: The file with the job.
        answer: The file that what came of it is written to.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # Ray's workers block it, and that is inherited
    threading.Thread(target=_end_with, args=(sys.stdin.buffer,), daemon=True).start()
    job: Job = pickle.loads(Path(asked).read_bytes())  # noqa: S301 - whoever started this process wrote it
    with _alone(job.place):
        done = _done(job)
    if done.judgement is not None and done.judgement.interrupted:
        shutil.rmtree(Path(asked).parent, ignore_errors=True)
        return
    written = Path(f"{answer}.new")
    written.write_bytes(pickle.dumps(done))
    written.replace(answer)


def _done(job: Job) -> Answer:
    runs: list[Run] = []
    try:
        if job.describes:
            return Answer(described(probe(job.plan)))
        judgement = verify(job.plan, on_run=runs.append)
    except VerifyError as error:
        return Answer(refused=str(error))
    return Answer(described(judgement.environment), judgement, tuple(runs))


def _end_with(pipe: IO[bytes]) -> None:
    """Interrupts the main thread when the other end of a pipe is closed, also by the end of its process."""
    pipe.read()
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)  # what it waits in is interrupted, too
    else:
        signal.raise_signal(signal.SIGINT)


@contextlib.contextmanager
def _alone(place: str) -> Any:  # noqa: ANN401 - an iterator of nothing
    """Waits until no other job is in this place of this machine: one whose asker was killed ends a little later."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    lock = Path(gettempdir()) / f"torchfast-{os.getuid()}-{''.join(c if c.isalnum() else '-' for c in place)}.lock"
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # which the system gives back with the process
        yield


# --- from one machine to another --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Parcel:
    """A plan with the texts that it names, for a machine where the project lies elsewhere."""

    plan: Plan
    texts: tuple[tuple[Path, bytes], ...]
    own: tuple[tuple[Path, Path], ...]
    """Files and directories of the project that the plan names by absolute paths, and where they are from its top."""
    top: Path
    """Where the project lies on the machine that the plan was made on."""
    started: Path
    """From there, the directory that scripts are started in."""
    left_out: tuple[Path, ...] = ()
    """What was not shipped of the project, from there."""

    @classmethod
    def of(cls, plan: Plan, top: Path, left_out: tuple[Path, ...] = ()) -> Parcel:
        """Pack a plan of this process.

        Args:
            plan: What is to be carried out.
            top: The directory that is shipped, without links.
            left_out: What is not, from there.

        Raises:
            VerifyError: The plan changes a file that is not shipped.
        """
        texts = tuple((path, path.read_bytes()) for path in sorted(_texts(plan)))
        own = {path: _from(top, path) for path in sorted(_own(plan))}
        moved = tuple((path, place) for path, place in own.items() if path.is_absolute())
        return cls(plan, texts, moved, top, Path.cwd().resolve().relative_to(top), left_out)

    def job(self, root: Path, folder: Path, place: str, *, describes: bool) -> Job:
        """Unpack it.

        Args:
            root: Where the project lies here.
            folder: An empty directory for the texts.
            place: See ``Job``.
            describes: See ``Job``.
        """
        self._link(root)
        places = {path: root / place for path, place in self.own}
        for number, (own, text) in enumerate(self.texts):
            places[own] = folder / str(number) / own.name
            places[own].parent.mkdir()
            places[own].write_bytes(text)

        def here(path: Path | None) -> Path | None:
            return None if path is None else places.get(path, path)

        moved: dict[str, Any] = {name: here(getattr(self.plan, name)) for name in _PATHS}
        for name in _PAIRS:
            moved[name] = tuple((here(own), here(text)) for own, text in getattr(self.plan, name))
        return Job(replace(self.plan, **moved), root / self.started, place, describes)

    def told(self, answer: Answer, root: Path) -> Answer:
        """The answer with the paths of the machine that asked."""
        there: Answer = _renamed(answer, str(root), str(self.top))
        return there

    def _link(self, root: Path) -> None:
        """Links to what was not shipped, where it lies here as it does there: on disks that machines share."""
        for each in self.left_out:
            if (self.top / each).exists():
                (root / each).parent.mkdir(parents=True, exist_ok=True)
                with contextlib.suppress(FileExistsError):  # an earlier trial was here
                    (root / each).symlink_to(self.top / each)


_PATHS = ("original", "rewritten", "original_text", "bitwise", "script_directory")
_PAIRS = ("modules", "bitwise_modules", "original_modules")


def _own(plan: Plan) -> set[Path]:
    """The files and directories of the user that the plan names."""
    named = {plan.original, *([] if plan.script_directory is None else [plan.script_directory])}
    return named | {own for name in _PAIRS for own, _ in getattr(plan, name)}


def _texts(plan: Plan) -> set[Path]:
    """The files whose texts are run in the place of the user's own."""
    alone = {getattr(plan, name) for name in ("rewritten", "original_text", "bitwise")} - {None, plan.original}
    return alone | {text for name in _PAIRS for _, text in getattr(plan, name)}


def _from(top: Path, path: Path) -> Path:
    """Where a file is from the top of its project.

    Raises:
        VerifyError: It is not below it.
    """
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - links stay, as the script would be another's
    for each in (absolute, absolute.resolve()):
        if each.is_relative_to(top):
            return each.relative_to(top)
    message = f"{path}: it lies outside of {top}, and only what is below that is shipped"
    raise VerifyError(message)


def _renamed(value: Any, old: str, new: str) -> Any:  # noqa: ANN401 - any of the values of an answer
    """The same with other texts, however deep they are."""
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, tuple):
        return tuple(_renamed(each, old, new) for each in value)
    if isinstance(value, dict):
        return {key: _renamed(each, old, new) for key, each in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {each.name: _renamed(getattr(value, each.name), old, new) for each in dataclasses.fields(value)}
        return replace(value, **fields)
    return value
