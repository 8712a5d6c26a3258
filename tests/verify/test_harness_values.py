"""How losses leave a CUDA device without being waited for; its memory and its events are those of a stand-in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from autotune_rewrite.verify.child import measures

if TYPE_CHECKING:
    from collections.abc import Callable


class Device:
    """A device that is as far as the test says."""

    def __init__(self) -> None:
        self.done = False

    def event(self) -> Any:
        return SimpleNamespace(record=lambda _: None, query=lambda: self.done)


@pytest.fixture
def device() -> Device:
    return Device()


@pytest.fixture
def values(device: Device, monkeypatch: pytest.MonkeyPatch) -> measures.DeviceValues:
    buffers = measures.DeviceValues(torch.device("cpu"))
    empty: Callable[..., torch.Tensor] = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *sizes, dtype, **_: empty(*sizes, dtype=dtype))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: None)
    monkeypatch.setattr(buffers, "_cuda", SimpleNamespace(Event=device.event))
    monkeypatch.setattr(measures, "CHUNK", 4)
    return buffers


def add(values: measures.DeviceValues, *numbers: float) -> None:
    for number in numbers:
        values.add(10 * len(values.keys), torch.tensor(number))


def pretend_cuda(values: measures.DeviceValues) -> None:
    values.device = SimpleNamespace(type="cuda")  # type: ignore[assignment]


def test_what_is_on_its_way_is_told_when_it_has_come(values: measures.DeviceValues, device: Device) -> None:
    add(values, 1.0, 2.0, 3.0)
    pretend_cuda(values)
    assert values.news() == []
    assert values.news() == [], "the copy has not come yet"
    device.done = True
    assert values.news() == [(0, 1.0), (10, 2.0), (20, 3.0)]
    assert values.news() == []


def test_a_chunk_that_is_full_is_told_before_the_next(values: measures.DeviceValues, device: Device) -> None:
    add(values, 1.0, 2.0, 3.0, 4.0, 5.0)
    pretend_cuda(values)
    device.done = True
    assert values.news() == []
    assert values.news() == [(0, 1.0), (10, 2.0), (20, 3.0), (30, 4.0)]
    assert values.news() == [(40, 5.0)]


def test_at_the_end_all_of_them_are_read(values: measures.DeviceValues) -> None:
    add(values, *map(float, range(9)))
    assert list(values.read()) == [(10 * at, float(at)) for at in range(9)]
    assert values.news() == [], "a device without pinned memory is not waited for"
