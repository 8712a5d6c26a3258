"""What loaders cost that each epoch builds anew, and whether more batches ahead help (no test: it takes minutes).

``python tests/benchmarks/loaders.py`` on a machine of which nothing else is wanted. docs/measured.md has what it said.
"""

from __future__ import annotations

import math
import struct
import tempfile
import time
from pathlib import Path
from statistics import mean, median, stdev
from typing import TYPE_CHECKING

import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torchvision import datasets  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ROUNDS = 12
T = 2.201
"""The 97.5th percentile of Student's distribution with ``ROUNDS - 1`` degrees of freedom."""
BATCHES, SIZE, STEP = 60, 8, 0.03
FACTORS = (2, 4, 8)


class Waiting(Dataset[torch.Tensor]):
    """Items for which a worker waits, as for a file, or computes, so many seconds for each batch."""

    def __init__(self, costs: Sequence[float], *, computes: bool) -> None:
        self.costs = costs
        self.computes = computes

    def __len__(self) -> int:
        return BATCHES * SIZE

    def __getitem__(self, index: int) -> torch.Tensor:
        cost = self.costs[index // SIZE] / SIZE
        if self.computes:
            end = time.thread_time() + cost
            while time.thread_time() < end:
                pass
        else:
            time.sleep(cost)
        return torch.zeros(4)


def epoch_of(data: Waiting, factor: int) -> float:
    """The seconds of an epoch in which a device computes for each batch, while workers make the next ones."""
    batches = iter(DataLoader(data, SIZE, num_workers=2, prefetch_factor=factor))
    next(batches)
    start = time.perf_counter()
    for _ in batches:
        time.sleep(STEP)
    return time.perf_counter() - start


def in_turn(name: str, runs: Mapping[str, Callable[[], float]]) -> None:
    """Prints the median of each run, and how many times as fast as the first each other is, by adjacent pairs."""
    times: dict[str, list[float]] = {each: [] for each in runs}
    for number in range(ROUNDS):
        order = list(runs)
        for each in order[number % len(order) :] + order[: number % len(order)]:
            times[each].append(runs[each]())
    first, *others = runs
    print(f"{name}: {first} {median(times[first]):.3g} s")
    for each in others:
        logs = [math.log(one / other) for one, other in zip(times[first], times[each], strict=True)]
        middle, half = mean(logs), T * stdev(logs) / math.sqrt(ROUNDS)
        low, high = math.exp(middle - half), math.exp(middle + half)
        print(f"  {each} {median(times[each]):.3g} s, {math.exp(middle):.2f} times as fast [{low:.2f}, {high:.2f}]")


def seconds(run: Callable[[], object], times: int) -> float:
    """What a call takes in the mean."""
    start = time.perf_counter()
    for _ in range(times):
        run()
    return (time.perf_counter() - start) / times


def write_images(folder: Path, count: int = 60_000) -> None:
    """Writes files as large as MNIST's."""
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for part in ("train", "t10k"):
        for kind, shape in (("images-idx3", (count, 28, 28)), ("labels-idx1", (count,))):
            head = struct.pack(">BBBB", 0, 0, 8, len(shape)) + struct.pack(f">{len(shape)}I", *shape)
            (raw / f"{part}-{kind}-ubyte").write_bytes(head + bytes(math.prod(shape)))


def main() -> None:
    """Prints all of it."""
    torch.set_num_threads(1)
    items = TensorDataset(torch.zeros(1000, 3))
    print(f"a loader: {seconds(lambda: DataLoader(items, 64, shuffle=True), 2000):.2g} s")
    with tempfile.TemporaryDirectory() as folder:
        write_images(Path(folder))
        print(f"the data set of MNIST: {median(seconds(lambda: datasets.MNIST(folder), 1) for _ in range(15)):.2g} s")

    def read(loader: DataLoader[tuple[torch.Tensor, ...]]) -> None:
        for _ in loader:
            pass

    once, stay = DataLoader(items, 64, num_workers=2), DataLoader(items, 64, num_workers=2, persistent_workers=True)
    built_anew = {
        "built anew": lambda: seconds(lambda: read(DataLoader(items, 64, num_workers=2)), 5),
        "built once": lambda: seconds(lambda: read(once), 5),
        "workers stay": lambda: seconds(lambda: read(stay), 5),
    }
    in_turn("an epoch with 2 workers", built_anew)
    uneven = [0.02 if number % 10 else 0.2 for number in range(BATCHES)]
    for name, costs in (("uneven", uneven), ("even", [mean(uneven)] * BATCHES)):
        for computes in (False, True):
            data = Waiting(costs, computes=computes)
            runs = {f"prefetch_factor={each}": lambda data=data, each=each: epoch_of(data, each) for each in FACTORS}
            in_turn(f"{name} batches, {'computed' if computes else 'waited for'}", runs)


if __name__ == "__main__":
    main()
