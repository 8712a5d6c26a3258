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


def sends_arguments(name: str) -> bool:
    """Whether what the class or function of that qualified name is given goes to other processes."""
    return starts_training(name) or name in _POOLS


def threads_and_processes() -> frozenset[str]:
    """The classes whose objects run their ``target``."""
    return _PROCESSES | {"threading.Thread"}
