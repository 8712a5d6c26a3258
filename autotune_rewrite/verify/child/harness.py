"""Runs one training script as ``__main__`` and writes down what it did: ``python harness.py CONFIG``.

This file is executed inside the measured child process, where alone torch is imported. It stands on torch and the
standard library only, so that it runs wherever the script runs; so do the files beside it, which it loads by itself:
``clock.py``, ``recorder.py`` with ``measures.py`` and ``passes.py``, and the package ``simulated`` on demand.

It observes through hooks and never waits for the device: a loss is copied, on the device, into a buffer that was
allocated before, and read when the script has ended. ``CONFIG`` is a JSON object with the keys of ``Config``. The
record is a file of JSON objects, one a line: windows of what was seen, about two a second (``Window``), in case that
the process is killed, and at the end all of it (``Record``). Times are seconds.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import functools
import json
import os
import platform
import random
import signal
import sys
import time
import types
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from multiprocessing import spawn
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable

    from autotune_rewrite.verify.child import clock


def beside(name: str) -> Any:  # noqa: ANN401 - its names are known where types are checked
    """The module or package that lies beside this one; its own name is one that no script may want."""
    known = f"__torchfast_{name}__"
    if known not in sys.modules:
        path = Path(__file__).with_name(name)
        spec = spec_from_file_location(known, path / "__init__.py" if path.is_dir() else path.with_suffix(".py"))
        assert spec is not None  # noqa: S101 - the file is there; for the type checker
        assert spec.loader is not None  # noqa: S101 - likewise
        module = sys.modules[known] = module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[known]


def die_with_parent() -> None:
    """Asks Linux to end this process when the one that measures is killed."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            set_parent_death_signal = 1
            ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


if not TYPE_CHECKING:
    clock = beside("clock")

if __name__ == "__main__":
    die_with_parent()  # before the long import: what is stopped then would stay for ever

STARTED, STARTED_AT = clock.now(), time.time() - clock.stopped()

import torch  # noqa: E402 - its import is timed

if TYPE_CHECKING:
    from autotune_rewrite.verify.child.measures import number
    from autotune_rewrite.verify.child.recorder import Record, Recorder
else:
    number = beside("recorder").measures.number
    Record, Recorder = beside("recorder").Record, beside("recorder").Recorder

VERSION = 2
"""Of the record's layout."""

RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
"""The variables by which launchers tell a process its rank."""


class Config(TypedDict):
    """What to run."""

    script: str | None
    """The file to run, or None to only describe this machine."""
    module: str | None
    """The name of the module that the file is, to be run as ``python -m`` runs it; None: as a script."""
    notebook: bool
    """Whether it is that of a notebook: then it finds what IPython gives it."""
    argv: list[str]
    path: list[str]
    """The directories that take the place of the script's own at the head of ``sys.path``."""
    copies: list[tuple[str, str]]
    """Directories of the user, without links, and where they were copied to."""
    capability: str | None
    """Of the CUDA device to simulate; None: what torch finds is what there is."""
    seed: int
    offset: int
    """Is added to every seed that the script sets by itself, so that runs with different seeds do differ."""
    iterations: int | None
    """Ends the run at the start of the backward call after this many, or never."""
    seconds: float | None
    """Ends the run at the start of the first backward call after so many seconds of the script, or never."""
    batches: int | None
    """Ends every pass through a data loader after so many, or never."""
    deterministic: bool
    """Runs under deterministic algorithms, so that bits can be compared."""
    tf32: bool
    """Runs with TF32 in matrix products: ``torch.set_float32_matmul_precision("high")``."""
    launched: bool
    """Whether a launcher started this process with others: then only the one with rank 0 writes a record."""
    record: str
    """Where the record is written."""


def import_copies(copies: list[tuple[str, str]]) -> None:
    """Lets what was copied be imported from its copy, where an absolute path leads to the user's own.

    ``PYTHONPATH`` has such paths, and packages that were installed to be edited (``pip install -e``).

    Args:
        copies: Directories of the user, without links, and where they were copied to.
    """

    def led(path: str) -> str:
        real = os.path.realpath(path) if path else ""
        inside = [pair for pair in copies if real == pair[0] or real.startswith(pair[0] + os.sep)]
        if not inside:
            return path
        own, copy = max(inside, key=lambda pair: len(pair[0]))
        place = copy + real[len(own) :]
        # What is linked is the user's own, and of a home what is hidden is not there.
        is_copied = Path(place).exists() and os.path.realpath(place) != real
        return place if is_copied else path

    sys.path[:] = map(led, sys.path)
    if "PYTHONPATH" in os.environ:
        os.environ["PYTHONPATH"] = os.pathsep.join(map(led, os.environ["PYTHONPATH"].split(os.pathsep)))
    for name, module in [*sys.modules.items()]:
        installed = getattr(module, "MAPPING", None)
        if name.startswith("__editable__") and isinstance(installed, dict):  # by setuptools
            installed.update({each: led(path) for each, path in installed.items()})


def seed_everything(seed: int, offset: int) -> None:
    """Seeds Python, torch and numpy (where torch brought it), and shifts the seeds that the script sets itself."""
    random.seed(seed)
    torch.manual_seed(seed)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)
    if offset == 0:
        return
    seeders: list[tuple[Any, str]] = [
        (random, "seed"),
        (torch, "manual_seed"),
        (torch.random, "manual_seed"),
        (torch.cuda, "manual_seed"),
        (torch.cuda, "manual_seed_all"),
    ]
    if numpy is not None:
        seeders += [(numpy.random, "seed"), (numpy.random, "default_rng")]
    for owner, name in seeders:
        setattr(owner, name, shifted(getattr(owner, name), offset))


def shifted(seeder: Callable[..., Any], offset: int) -> Callable[..., Any]:
    """The seeding function, with the offset added to the seed where that is a number."""

    @functools.wraps(seeder)
    def seed(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passed on as it came
        if args and isinstance(args[0], int):
            args = ((args[0] + offset) % 2**32, *args[1:])
        return seeder(*args, **kwargs)

    return seed


def simulate(capability: str) -> None:
    """Puts a simulated CUDA device into this process.

    Args:
        capability: Of the device, as "9.0".
    """
    beside("simulated").install(capability)


def environment(capability: str | None = None) -> dict[str, str | int | bool]:
    """What ran the script.

    Args:
        capability: Of the simulated CUDA device, if there is one.
    """
    described: dict[str, str | int | bool] = {
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "cuda": torch.cuda.is_available(),
    }
    if torch.cuda.is_available():
        described["gpu"] = torch.cuda.get_device_name()
        described["capability"] = ".".join(map(str, torch.cuda.get_device_capability()))
    if capability is not None:
        described["simulated"] = capability
    return described


def main_module(config: Config, script: str) -> tuple[types.ModuleType, types.CodeType]:
    """A fresh ``__main__`` for the script, as Python makes it, and the code to execute in it."""
    if config["capability"] is not None:
        simulate_in_spawned_workers(config["capability"], config, script)
    sys.modules["__torchfast_harness__"] = sys.modules["__main__"]  # keeps this module's names alive
    module = types.ModuleType("__main__")
    module.__dict__.update(__builtins__=builtins, __cached__=None, __file__=script)
    if config["notebook"]:
        module.__dict__.update(display=display, get_ipython=get_ipython)
    if config["module"] is None:
        module.__loader__ = SourceFileLoader("__main__", script)
    else:
        spec = find_spec(config["module"])  # imports the packages that it lies in, as ``python -m`` does
        if spec is None:
            raise SystemExit(f"No module named {config['module']}")
        module.__dict__.update(__spec__=spec, __loader__=spec.loader, __package__=spec.parent)
    sys.modules["__main__"] = module
    return module, compile(Path(script).read_bytes(), script, "exec", dont_inherit=True)


def display(*objects: object, **_: object) -> None:
    """What IPython's does where nothing but text can be shown."""
    for each in objects:
        print(repr(each))  # noqa: T201 - it is what the notebook prints


def get_ipython() -> None:
    """What IPython's says outside of IPython."""


def simulate_in_spawned_workers(capability: str, config: Config, script: str) -> None:
    """Lets workers that start by importing the main file believe in the simulated CUDA device before they do.

    Args:
        capability: Of the device.
        config: Of this run.
        script: The file that runs.
    """
    stand_in = Path(config["record"]).with_name("main_for_workers.py")
    stand_in.write_text(
        f"__import__('runpy').run_path({__file__!r})['simulate']({capability!r})\n"
        f"__file__ = {script!r}\n"
        f"with open({script!r}, 'rb') as script:\n"
        "    code = compile(script.read(), __file__, 'exec', dont_inherit=True)\n"
        "exec(code)\n",
        encoding="utf-8",
    )
    prepare = spawn.get_preparation_data

    @functools.wraps(prepare)
    def prepared(name: str) -> dict[str, Any]:
        data = prepare(name)
        if data.get("init_main_from_path") == os.path.normpath(script):
            data["init_main_from_path"] = str(stand_in)
        return data

    spawn.get_preparation_data = prepared


def is_recorded(config: Config) -> bool:
    """Whether the record of this process counts: of those that a launcher started, only that of rank 0 does."""
    return not config["launched"] or all(os.environ.get(name, "0") == "0" for name in RANKS)


def prepare(config: Config) -> None:
    """Sets the numerics that were asked for, before the script can."""
    if config["deterministic"]:
        torch.use_deterministic_algorithms(True, warn_only=True)  # noqa: FBT003 - torch's own signature
        torch.backends.cudnn.benchmark = False
    if config["tf32"]:
        torch.set_float32_matmul_precision("high")


def execute(config: Config, script: str, watching: Callable[[Config], Recorder]) -> int | str | None:
    """Runs the script to its end and writes the record.

    Args:
        config: Of this run.
        script: The file.
        watching: Makes what watches the script.

    Returns:
        The status to exit with, as the script would have left it.
    """
    first = is_recorded(config)
    if not first:
        config["seconds"] = None  # all have to end at the same iteration, or one waits for the others for ever
    recorder = watching(config)
    recorder.install()
    prepare(config)
    seed_everything(config["seed"], config["offset"])
    status: int | str | None = 0
    ended = "finished"
    start = recorder.begin(config["record"] if first else None)

    def give_up() -> None:
        recorder.tell(recorded(recorder, config, "cut", start, recorder.cut or start))
        os._exit(0)

    recorder.give_up = give_up
    try:
        module, code = main_module(config, script)
        exec(code, module.__dict__)  # noqa: S102 - running the script is what this file is for
    except SystemExit as error:
        status = error.code
    except BaseException as error:  # noqa: BLE001 - whatever the script raised is its own; it is shown as Python shows it
        traceback = error.__traceback__.tb_next if error.__traceback__ else None
        show(error.with_traceback(traceback))
        ended, status = "raised", 1
    end = clock.now()
    if recorder.forked:
        return status  # a fork of the script that came to its end: the record is the first process's
    if recorder.cut is not None:
        ended, status, end = "cut", 0, recorder.cut
    try:
        record = recorded(recorder, config, ended, start, end)
    except RuntimeError as error:  # on the device, and nobody has waited for it until now
        show(error.with_traceback(None))  # it would lead through this file
        status, record = 1, recorded(recorder, config, "raised", start, end)
    recorder.tell(record)
    return status


def show(error: BaseException) -> None:
    """Shows an error of the script as Python does, by the script's own hook if it has one that works."""
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except BaseException:  # noqa: BLE001 - Python goes on, too, whatever the hook raises
        sys.__excepthook__(type(error), error, error.__traceback__)


def recorded(recorder: Recorder, config: Config, ended: str, start: float, end: float) -> Record:
    """All that was seen; of what lies on the device nothing after an error, which may have made it unusable.

    Args:
        recorder: The hooks.
        config: Of this run.
        ended: How the script ended.
        start: When it was started, by ``clock.now``.
        end: When it ended.
    """
    busy = clock.busy() - recorder.busy
    whole = ended != "raised"
    if whole and config["capability"] is None and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.set_sync_debug_mode("default")  # or what refuses the script to wait refuses us to read
    cuda = whole and torch.cuda.is_available() and config["capability"] is None
    record = Record(
        version=VERSION,
        ended=ended,
        times=recorder.since_start(recorder.times),
        waits=list(recorder.waits),
        compiles=recorder.since_start(recorder.compiles),
        passes=[
            {
                "start": one.start - start,
                "end": one.end - start,
                "waited": one.waited,
                "batches": one.batches,
                "samples": one.samples,
                "iterations": one.iterations,
            }
            for one in recorder.passes.all
        ],
        scalars=[(tag, step, number(value)) for tag, step, value in (recorder.scalars() if whole else ())],
        losses=[number(loss) for loss in (recorder.losses() if whole else ())],
        parameters=recorder.parameters() if whole else [],
        moved=recorder.moved() if whole else [],
        started_at=STARTED_AT,
        import_seconds=start - STARTED,
        script_seconds=end - start,
        busy_seconds=busy,
        bookkeeping_seconds=0.0,
        device_allocated=torch.cuda.max_memory_allocated() if cuda else None,
        device_reserved=torch.cuda.max_memory_reserved() if cuda else None,
        host_bytes=peak_memory(),
        environment=environment(config["capability"]) if whole else {},
        imported=[],
        strayed=[],
    )
    record["imported"], record["strayed"] = imported(config["copies"])
    record["bookkeeping_seconds"] = clock.now() - end
    return record


def imported(copies: list[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """The files of the project's modules, as the user has them, and those of them that were not read from the copy.

    Args:
        copies: Directories of the user, without links, and where they were copied to.
    """
    inside, strayed = [], []
    loaded: list[object] = [*sys.modules.values()]
    for module in loaded:
        # Of other objects that stand there, and of modules that load late, nothing is asked.
        file = module.__dict__.get("__file__") if isinstance(module, types.ModuleType) else None
        if not isinstance(file, str) or f"{os.sep}site-packages{os.sep}" in file:
            continue
        real = os.path.realpath(file)
        for own, copy in copies:
            if file.startswith(copy + os.sep):
                inside.append(own + file[len(copy) :])
            elif real.startswith(own + os.sep) and not file.startswith(tuple(each + os.sep for _, each in copies)):
                inside.append(real)
                strayed.append(real)
    return sorted({*inside}), sorted({*strayed})


def peak_memory() -> int:
    """Bytes of resident memory of this process, at most; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(watching: Callable[[Config], Recorder] = Recorder) -> int | str | None:
    """Does what the configuration in the last argument says.

    Args:
        watching: Makes what watches the script.
    """
    *added, configuration = sys.argv[1:]
    config: Config = json.loads(configuration)
    if not getattr(sys.flags, "safe_path", False):
        sys.path[:1] = config["path"]
    import_copies(config["copies"])
    sys.argv[:] = [config["argv"][0], *added, *config["argv"][1:]]  # some launchers add arguments of their own
    if config["capability"] is not None:
        simulate(config["capability"])
    if config["script"] is not None:
        return execute(config, config["script"], watching)
    described = json.dumps({"environment": environment(config["capability"])})
    Path(config["record"]).write_text(f"{described}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
