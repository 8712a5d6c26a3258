"""How long a loop over parameters takes, and the same with functions for lists: ``foreach-manual-update``."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable

TAU = 0.005
CALLS = 300
ROUNDS = 15


def network() -> nn.Sequential:
    return nn.Sequential(*(nn.Linear(256, 256) for _ in range(3)))


def in_a_loop(model: nn.Module, target: nn.Module) -> None:
    for p, q in zip(model.parameters(), target.parameters(), strict=True):
        q.data.copy_(TAU * p.data + (1 - TAU) * q.data)


def as_lists(model: nn.Module, target: nn.Module) -> None:
    params = [p.data for p in model.parameters()]
    target_params = [q.data for q in target.parameters()]
    scaled = torch._foreach_mul(params, TAU)
    torch._foreach_mul_(target_params, 1 - TAU)
    torch._foreach_add_(target_params, scaled)


def milliseconds(update: Callable[[nn.Module, nn.Module], None]) -> float:
    model, target = network(), network()
    start = time.perf_counter()
    for _ in range(CALLS):
        update(model, target)
    return (time.perf_counter() - start) / CALLS * 1e3


def main() -> None:
    torch.set_num_threads(1)
    pairs = [(milliseconds(in_a_loop), milliseconds(as_lists)) for _ in range(ROUNDS)]
    loops, lists = (statistics.median(each) for each in zip(*pairs, strict=True))
    ratios = sorted(one / other for one, other in pairs)
    print(f"loop {loops:.3f} ms, lists {lists:.3f} ms; ratios {ratios[0]:.2f} to {ratios[-1]:.2f}")


if __name__ == "__main__":
    main()
