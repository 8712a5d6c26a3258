"""What starts other processes and threads."""

from __future__ import annotations

_PACKAGES = ("torch.multiprocessing", "multiprocessing")
_PROCESSES = frozenset(f"{package}.Process" for package in _PACKAGES) | {"multiprocessing.context.Process"}
_SPAWNS = frozenset(
    f"torch.multiprocessing.{name}" for name in ("spawn", "spawn.spawn", "start_processes", "spawn.start_processes")
)
_POOLS = frozenset(f"{package}.Pool" for package in _PACKAGES)

_RANKS = frozenset({"rank", "local_rank", "global_rank", "world_rank", "node_rank", "nr", "get_rank", "get_local_rank"})
_FIRST = frozenset(
    {"is_main_process", "is_master", "is_master_process", "is_main", "is_local_main_process", "is_rank_zero"}
)


def is_rank(name: str) -> bool:
    """Whether scripts give the number of a process that name; of one that runs alone, it is 0."""
    return name in _RANKS


def is_first(name: str) -> bool:
    """Whether scripts ask by that name whether a process is the first, as one that runs alone is."""
    return name in _FIRST


def starts_training(name: str) -> bool:
    """Whether the class or function of that qualified name starts processes that may run the whole training."""
    return name in _PROCESSES or name in _SPAWNS


def sending_arguments() -> frozenset[str]:
    """The classes and functions that hand what they are given to other processes."""
    return _PROCESSES | _SPAWNS | _POOLS


def threads_and_processes() -> frozenset[str]:
    """The classes whose objects run their ``target``."""
    return _PROCESSES | {"threading.Thread"}
