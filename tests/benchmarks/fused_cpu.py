"""How long a step of an optimizer takes on a CPU, as it is and fused: ``fused-cpu``.

``python tests/benchmarks/fused_cpu.py``. docs/measured.md has what it said.
"""

from __future__ import annotations

import statistics
import time
from importlib import import_module
from itertools import pairwise
from typing import Any

import torch
from torch import nn

untyped: Any = torch
OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "Adam": ("Adam", {"lr": 1e-3}),
    "AdamW": ("AdamW", {"lr": 1e-3}),
    "SGD": ("SGD", {"lr": 1e-2}),
    "SGD with momentum": ("SGD", {"lr": 1e-2, "momentum": 0.9}),
    "Adagrad": ("Adagrad", {"lr": 1e-2}),
}
ROUNDS = 15
SECONDS = 0.02
"""As long as a form steps in each round."""


def models() -> dict[str, nn.Module]:
    """One linear layer, the network of mnist_feedforward, a longer one, and ResNet-18: 2, 6, 32 and 62 tensors."""
    wide = (784, 128, 64, 10)
    feedforward = [nn.Linear(one, other) for one, other in pairwise(wide)]
    return {
        "2 tensors, 8 thousand numbers": nn.Linear(784, 10),
        "6 tensors, 109 thousand numbers": nn.Sequential(*feedforward),
        "32 tensors, 67 thousand numbers": nn.Sequential(*(nn.Linear(64, 64) for _ in range(16))),
        "62 tensors, 11.7 million numbers": import_module("torchvision.models").resnet18(),
    }


def milliseconds(optimizer: torch.optim.Optimizer) -> float:
    """What a step takes, in the mean of as many as fit into the time."""
    steps, start = 0, time.perf_counter()
    while (took := time.perf_counter() - start) < SECONDS:
        optimizer.step()
        steps += 1
    return took / steps * 1e3


def compared(name: str, options: dict[str, Any], model: nn.Module) -> tuple[list[float], list[float]]:
    """The milliseconds of a step as it is and of a fused one, in turn."""
    parameters = list(model.parameters())
    for each in parameters:
        each.grad = torch.randn_like(each)
    forms = [getattr(untyped.optim, name)(parameters, **options, fused=fused) for fused in (False, True)]
    for each in forms:
        each.step()
    rounds = [tuple(map(milliseconds, forms)) for _ in range(ROUNDS)]
    return [one for one, _ in rounds], [other for _, other in rounds]


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for title, model in models().items():
        print(title)
        for each, (name, options) in OPTIMIZERS.items():
            plain, fused = compared(name, options, model)
            ratios = sorted(one / other for one, other in zip(plain, fused, strict=True))
            took = f"{statistics.median(plain):.3g} and {statistics.median(fused):.3g} ms"
            print(f"  {each}: {took}, {ratios[ROUNDS // 2]:.2f} times as fast ({ratios[1]:.2f} to {ratios[-2]:.2f})")


if __name__ == "__main__":
    main()
