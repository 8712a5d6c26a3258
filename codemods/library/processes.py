"""What starts other processes and threads."""

from __future__ import annotations

_PACKAGES = ("torch.multiprocessing", "multiprocessing")
_PROCESSES = frozenset(f"{package}.Process" for package in _PACKAGES) | {"multiprocessing.context.Process"}
_SPAWNS = frozenset(
    f"torch.multiprocessing.{name}" for name in ("spawn", "spawn.spawn", "start_processes", "spawn.start_processes")
)
_POOLS = frozenset(f"{package}.Pool" for package in _PACKAGES)


def starts_training(name: str) -> bool:
    """Whether the class or function of that qualified name starts processes that may run the whole training."""
    return name in _PROCESSES or name in _SPAWNS


def sending_arguments() -> frozenset[str]:
    """The classes and functions that hand what they are given to other processes."""
    return _PROCESSES | _SPAWNS | _POOLS


def threads_and_processes() -> frozenset[str]:
    """The classes whose objects run their ``target``."""
    return _PROCESSES | {"threading.Thread"}
