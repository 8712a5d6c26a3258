"""What the tables of ``torch.profiler`` say: the operators that took most, and how busy the device was.

It stands on torch and the standard library only, as ``harness.py`` does, which loads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from torch.autograd import DeviceType  # type: ignore[attr-defined]

if TYPE_CHECKING:
    from collections.abc import Iterable

PREFIX = "torchfast: "
"""Before the name of a phase in a trace."""
ENGINE = "autograd::engine::evaluate_function: "
"""Before the name of each node that a backward evaluates."""
ACCUMULATES = f"{ENGINE}torch::autograd::AccumulateGrad"
MOST_OPERATORS = 30
"""That are written down."""


class Operator(TypedDict):
    """What one operator took in all, without those that it called."""

    name: str
    calls: int
    host_seconds: float
    device_seconds: float


def operators(table: Iterable[Any]) -> list[Operator]:
    """The operators that took most, by the device's time where there is any."""
    found = [
        Operator(
            name=row.key,
            calls=row.count,
            host_seconds=row.self_cpu_time_total / 1e6,
            device_seconds=_device_time(row, "self_device_time_total") / 1e6,
        )
        for row in table
        if row.device_type == DeviceType.CPU and not row.key.startswith((PREFIX, ENGINE))
    ]
    found.sort(key=lambda one: (-one["device_seconds"], -one["host_seconds"]))
    return found[:MOST_OPERATORS]


def accumulation(table: Iterable[Any]) -> float | None:
    """The part of what backward evaluates that adds to gradients."""
    nodes = [row for row in table if row.key.startswith(ENGINE)]
    for total in ("device_time_total", "cpu_time_total"):
        spent = {row.key: _device_time(row, total) for row in nodes}
        if sum(spent.values()):
            return float(spent.get(ACCUMULATES, 0.0) / sum(spent.values()))
    return None


def _device_time(row: Any, name: str) -> float:  # noqa: ANN401 - a row of torch.profiler's table
    """A time of a row; before torch 2.4 the device's was named after CUDA."""
    return float(getattr(row, name, 0.0) or getattr(row, name.replace("device", "cuda"), 0.0))


def busy(events: Iterable[Any]) -> float | None:
    """The part of the time in which kernels and copies ran on the device; they may overlap."""
    events = list(events)
    ran = [
        (event.time_range.start, event.time_range.end)
        for event in events
        if event.device_type == DeviceType.CUDA and not event.is_user_annotation and not event.name.startswith(PREFIX)
    ]
    if not ran:
        return None
    every = [(event.time_range.start, event.time_range.end) for event in events]
    whole = max(end for _, end in every) - min(start for start, _ in every)
    seconds = reached = 0.0
    for start, end in sorted(ran):
        seconds += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return seconds / whole if whole else None
