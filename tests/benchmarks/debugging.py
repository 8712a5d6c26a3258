"""What anomaly detection and collecting garbage cost an iteration on a CPU: ``python tests/benchmarks/debugging.py``.

Iterations with and without take turns, in one thread. What counts is the time of the processor, which other programs
change little.
"""

from __future__ import annotations

import gc
import statistics
import time
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable

PAIRS = 60


class Steps(nn.Module):
    """A recurrent network, step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = nn.GRUCell(64, 64), nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The answer after the last step."""
        state = x.new_zeros(x.shape[1], 64)
        for step in x:
            state = self.cell(step, state)
        return self.out(state)  # type: ignore[no-any-return]


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "three linear layers of 512, 64 vectors": (
        lambda: nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)),
        (64, 512),
    ),
    "four convolutions of 32 channels, 32 images of 32 x 32": (
        lambda: nn.Sequential(
            *(layer for n in (3, 32, 32, 32) for layer in (nn.Conv2d(n, 32, 3), nn.BatchNorm2d(32), nn.ReLU())),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(32, 10),
        ),
        (32, 3, 32, 32),
    ),
    "a recurrent network that is written out, 50 steps of 16 vectors of 64": (Steps, (50, 16, 64)),
}


def seconds(run: Callable[[], None]) -> float:
    """How long the processor worked."""
    start = time.process_time()
    run()
    return time.process_time() - start


def report(name: str, pairs: list[tuple[float, float]]) -> None:
    """One line: both medians, and the quartiles of the ratio."""
    low, middle, high = statistics.quantiles((with_ / without for with_, without in pairs), n=4)
    with_, without = (1000 * statistics.median(each) for each in zip(*pairs, strict=True))
    print(f"{name}: {with_:.1f} and {without:.1f} ms, {middle:.2f} times ({low:.2f} to {high:.2f})")


def main() -> None:
    """Both measurements."""
    torch.set_num_threads(1)
    for name, (make, size) in NETWORKS.items():
        model, x = make(), torch.randn(size)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

        def iterate() -> None:
            optimizer.zero_grad()  # noqa: B023 - runs in this pass of the loop alone
            model(x).square().mean().backward()  # noqa: B023
            optimizer.step()  # noqa: B023

        def detecting() -> None:
            with torch.autograd.detect_anomaly():
                iterate()

        def collecting() -> None:
            iterate()
            gc.collect()

        for _ in range(5):
            iterate()
        report(f"anomaly detection, {name}", [(seconds(detecting), seconds(iterate)) for _ in range(PAIRS)])
        report(f"gc.collect(), {name}", [(seconds(collecting), seconds(iterate)) for _ in range(PAIRS)])


if __name__ == "__main__":
    main()
