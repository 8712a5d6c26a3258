"""What trials run on: those that are compared run on the same."""

from __future__ import annotations

import json
import platform
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from autotune_rewrite.verify.records import Environment

Place = TypeVar("Place")

CPU_INFO = Path("/proc/cpuinfo")


def processor(info: Path | None = None) -> str:
    """The model of the CPU: two machines with as many cores may still differ in speed."""
    try:
        lines = (info or CPU_INFO).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.lower().startswith(("model name", "cpu model")))
    return next(filter(None, named), platform.processor() or platform.machine())


def described(environment: Environment) -> Environment:
    """The hardware and what drives it, in so far as times depend on it: what is compared runs where all is equal."""
    return {**environment, "processor": processor()}


def alike(places: Mapping[Place, Environment], weights: Mapping[Place, int]) -> tuple[list[Place], Environment]:
    """The largest set of places with equal hardware, and what that is.

    Args:
        places: At least one, each with its hardware.
        weights: How many trials fit into each at once.
    """
    kinds: Counter[str] = Counter()
    for place, hardware in places.items():
        kinds[_kind(hardware)] += weights[place]
    chosen = min(kinds, key=lambda kind: (-kinds[kind], kind))
    found = [place for place, hardware in places.items() if _kind(hardware) == chosen]
    return found, places[found[0]]


def named(hardware: Environment) -> str:
    """What the user is told of hardware, such as "NVIDIA H100 80GB HBM3, 16 CPUs (AMD EPYC 9354)"."""
    gpu = f"{hardware['gpu']}, " if hardware.get("gpu") else ""
    cpus = "1 CPU" if hardware.get("cpus") == 1 else f"{hardware.get('cpus', '?')} CPUs"
    return f"{gpu}{cpus} ({hardware.get('processor') or 'of unknown model'})"


def _kind(hardware: Environment) -> str:
    return json.dumps(hardware, sort_keys=True)
