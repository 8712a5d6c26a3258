"""Copies between host and device: how long they take, when the host goes on, and what a source may suffer meanwhile."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch

from tests.gpu.facts.recording import answer, device_ms, host_ms, rounded, sized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.gpu.facts.recording import Seen

untyped: Any = torch
KIB, MIB = 2**10, 2**20
BUSY_MS = 10
"""For so long the device is kept busy before a copy whose order is asked for."""
CYCLES = 2_000_000
"""Of a millisecond of the device, at its highest clock; at a lower one the device is busy for longer."""
REPEATS = 3


def copies_host_device(seen: Seen) -> None:
    """Order, loss and time of copies, from pageable and from pinned memory."""
    with seen.part("values"):
        seen["values_arrive"] = values_arrive()
    with seen.part("busy"):
        if seen.on_cuda("host_waits_for_a_busy_device", "the simulated device is never busy"):
            seen["busy_ms"] = rounded(host_ms(keep_busy, warm_up=1, repeats=3))
            seen["host_waits_for_a_busy_device"] = {name: waits(name) for name in copiers(4)}
            seen["overwritten_at_once"] = {name: overwritten(name) for name in ("pageable", "pinned")}
            seen["read_at_once_from_the_device"] = read_at_once()
    with seen.part("pinning"):
        seen["pinning"] = pinning()
    with seen.part("prefetching"):
        seen["prefetched_values_arrive"] = prefetched_arrive()
        if seen.times_on_cuda("prefetching_ms"):
            seen["prefetching_ms"] = prefetching()
    with seen.part("times"):
        if seen.times_on_cuda("copy_ms"):
            seen["copy_ms"] = times()
            seen["gigabytes_per_second"] = bandwidths()
            seen["pin_memory_ms"] = pin_times()


def keep_busy() -> None:
    """Keeps the device busy for a while, and returns at once."""
    untyped.cuda._sleep(BUSY_MS * CYCLES)


def source(size: int, *, pinned: bool) -> torch.Tensor:
    """So many bytes on the host, all ones, in pages that have been touched."""
    tensor = torch.ones(size, dtype=torch.uint8, pin_memory=pinned)
    return tensor.fill_(1)


def copiers(size: int) -> dict[str, Callable[[], object]]:
    """The ways to copy so many bytes."""
    pageable, pinned = source(size, pinned=False), source(size, pinned=True)
    device = torch.ones(size, dtype=torch.uint8, device="cuda")
    return {
        "pageable": lambda: pageable.to("cuda"),
        "pageable non_blocking": lambda: pageable.to("cuda", non_blocking=True),
        "pinned": lambda: pinned.to("cuda"),
        "pinned non_blocking": lambda: pinned.to("cuda", non_blocking=True),
        "pinned first, then non_blocking": lambda: pageable.pin_memory().to("cuda", non_blocking=True),
        "to the host": device.cpu,
        "to the host non_blocking": lambda: device.to("cpu", non_blocking=True),
        "into pinned, non_blocking": lambda: pinned.copy_(device, non_blocking=True),
        "into pageable, non_blocking": lambda: pageable.copy_(device, non_blocking=True),
        "device to device": device.clone,
    }


def values_arrive() -> dict[str, bool]:
    """Whether what was copied is what was there, once the device is waited for."""
    found = {}
    for name, copy in copiers(sized(MIB, KIB)).items():
        value: Any = copy()
        untyped.cuda.synchronize()
        found[name] = bool((value == 1).all())
    return found


def waits(name: str) -> dict[str, Any]:
    """Milliseconds until the call returns while the device is busy, by the number of bytes."""
    found = {}
    for size in (4 * KIB, 128 * KIB, 16 * MIB):
        copy = copiers(size)[name]
        copy()
        untyped.cuda.synchronize()
        keep_busy()
        start = time.perf_counter()
        copy()
        found[str(size)] = rounded(1000 * (time.perf_counter() - start), 3)
        untyped.cuda.synchronize()
    return found


def overwritten(kind: str) -> dict[str, int]:
    """How many of some copies hold what was written into their source after the call, by the number of bytes."""
    found = {}
    for size in (4 * KIB, 48 * KIB, 128 * KIB, MIB, 16 * MIB):
        lost = 0
        for _ in range(REPEATS):
            host = source(size, pinned=kind == "pinned")
            host.to("cuda")  # gets the memory, for which the driver may wait
            untyped.cuda.synchronize()
            keep_busy()
            copied = host.to("cuda", non_blocking=True)
            host.fill_(7)
            untyped.cuda.synchronize()
            lost += int(bool((copied != 1).any()))
        found[str(size)] = lost
    return found


def read_at_once() -> dict[str, Any]:
    """How many of some copies to the host are not there yet when they are read without waiting."""
    found: dict[str, Any] = {}
    for size in (4, 4 * KIB, MIB):
        early, pinned = 0, False
        for _ in range(REPEATS):
            device = torch.zeros(size, dtype=torch.uint8, device="cuda")
            device.to("cpu", non_blocking=True)  # as above
            untyped.cuda.synchronize()
            keep_busy()
            device.fill_(1)
            copied = device.to("cpu", non_blocking=True)
            early += int(bool((copied != 1).any()))
            pinned = copied.is_pinned()
            untyped.cuda.synchronize()
        found[str(size)] = {"read_too_early": early, "result_is_pinned": pinned}
    return found


def pinning() -> dict[str, Any]:
    """What of a pinned tensor is pinned, and what cannot be."""
    pinned = torch.ones(4, 4).pin_memory()
    questions: dict[str, Callable[[], object]] = {
        "itself": pinned.is_pinned,
        "view": lambda: pinned.view(16).is_pinned(),
        "slice": pinned[1:].is_pinned,
        "transposed": pinned.mT.is_pinned,
        "cast": lambda: pinned.double().is_pinned(),
        "contiguous": lambda: pinned.contiguous().is_pinned(),
        "indexed": pinned[torch.tensor([0])].is_pinned,
        "clone": lambda: pinned.clone().is_pinned(),
        "concatenated": lambda: torch.cat([pinned, pinned]).is_pinned(),
        "numpy_and_back": lambda: torch.from_numpy(pinned.numpy()).is_pinned(),
        "pinned_again_is_itself": lambda: pinned.pin_memory() is pinned,
        "on_the_device": lambda: torch.ones(4, device="cuda").pin_memory(),
        "sparse": lambda: torch.eye(4).to_sparse().pin_memory(),
        "is_pinned_of_a_device_tensor": lambda: torch.ones(4, device="cuda").is_pinned(),
        "empty_pinned_on_the_device": lambda: torch.empty(4, device="cuda", pin_memory=True),
    }
    return {name: answer(call, RuntimeError, TypeError, ValueError) for name, call in questions.items()}


def prefetched(batches: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Pinned batches on the device, each copied on a stream of its own while the one before it is used."""
    cuda = untyped.cuda
    side, ready = cuda.Stream(), None
    for batch in batches:
        with cuda.stream(side):
            coming = batch.to("cuda", non_blocking=True)
        if ready is not None:
            yield ready
        cuda.current_stream().wait_stream(side)
        untyped.Tensor.record_stream(coming, cuda.current_stream())
        ready = coming
    if ready is not None:
        yield ready


def prefetched_arrive() -> bool:
    """Whether batches that are copied ahead are what was there, also where their memory is used again."""
    batches = [source(sized(MIB, KIB), pinned=True).mul_(number) for number in range(20)]
    sums = [each.sum(dtype=torch.long) for each in prefetched(batches)]
    return [int(each) for each in sums] == [int(each.sum(dtype=torch.long)) for each in batches]


def prefetching() -> dict[str, Any]:
    """Milliseconds of an iteration that computes for as long as its copy takes, and for ten times as long.

    With ``non_blocking`` on one stream the copy waits for the computation before it; on a stream of its own it need not.
    """
    found: dict[str, Any] = {}
    for size in (4 * MIB, 64 * MIB):
        batches = [source(size, pinned=True)] * 20
        copying = host_ms(copiers(size)["pinned"])
        for factor in (1, 10):
            cycles = int(copying * factor * CYCLES)

            def alone(batches: list[torch.Tensor] = batches, cycles: int = cycles) -> None:
                for batch in batches:
                    batch.to("cuda", non_blocking=True)
                    untyped.cuda._sleep(cycles)

            def ahead(batches: list[torch.Tensor] = batches, cycles: int = cycles) -> None:
                for _ in prefetched(batches):
                    untyped.cuda._sleep(cycles)

            for name, loop in (("one stream", alone), ("copied ahead", ahead)):
                each = rounded(host_ms(loop, warm_up=1, repeats=3) / len(batches), 4)
                found.setdefault(name, {})[f"{size}, computing {factor} times as long as copying"] = each
    return found


def times() -> dict[str, Any]:
    """Milliseconds until the call returns, and until the copy is done, from an idle device on."""
    found: dict[str, Any] = {}
    for size in (4 * KIB, 200 * KIB, 4 * MIB, 64 * MIB):
        inner = 1 if size > MIB else 20
        for name, copy in copiers(size).items():
            found.setdefault(name, {})[str(size)] = {
                "returns": host_ms(copy, inner=inner, wait=False),
                "done": host_ms(copy, inner=inner),
            }
    return found


def bandwidths() -> dict[str, float]:
    """Gigabytes per second of large copies; a copy on the device reads and writes."""
    size = 256 * MIB
    pageable, pinned = source(size, pinned=False), source(size, pinned=True)
    device, other = (torch.ones(size, dtype=torch.uint8, device="cuda") for _ in range(2))
    wide = torch.ones(8, size // 4, device="cuda")
    copy = torch.empty_like(wide)
    return {
        "pageable to the device": rounded(size / 1e6 / host_ms(lambda: other.copy_(pageable), warm_up=1)),
        "pinned to the device": rounded(size / 1e6 / host_ms(lambda: other.copy_(pinned), warm_up=1)),
        "device to pageable": rounded(size / 1e6 / host_ms(lambda: pageable.copy_(device), warm_up=1)),
        "device to pinned": rounded(size / 1e6 / host_ms(lambda: pinned.copy_(device), warm_up=1)),
        "on the device, read and written": rounded(2 * 8 * size / 1e6 / device_ms(lambda: copy.copy_(wide), inner=3)),
    }


def pin_times() -> dict[str, Any]:
    """Milliseconds of ``pin_memory()``: of the first call, whose memory is new, and of those that find it cached."""
    found = {}
    for size in (200 * KIB, 4 * MIB, 64 * MIB):
        host = source(size + 1, pinned=False)
        start = time.perf_counter()
        host.pin_memory()
        first = 1000 * (time.perf_counter() - start)
        found[str(size)] = {"first": rounded(first), "later": host_ms(host.pin_memory, wait=False)}
    return found
