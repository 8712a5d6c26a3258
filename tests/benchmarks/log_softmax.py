"""How long a loss takes, forward and backward, in three forms: ``loss-fuse``."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 15
FORMS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "nll_loss(log(softmax))": lambda x, y: F.nll_loss(torch.log(F.softmax(x, dim=1)), y),
    "nll_loss(log_softmax)": lambda x, y: F.nll_loss(F.log_softmax(x, dim=1), y),
    "cross_entropy": F.cross_entropy,
}


def microseconds(form: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], rows: int, classes: int) -> float:
    x = torch.randn(rows, classes, requires_grad=True)
    y = torch.randint(classes, (rows,))
    calls = 20_000_000 // (rows * classes + 50_000)
    start = time.perf_counter()
    for _ in range(calls):
        torch.autograd.backward(form(x, y))
        x.grad = None
    return (time.perf_counter() - start) / calls * 1e6


def main() -> None:
    torch.set_num_threads(1)
    for rows, classes in ((64, 10), (128, 1000)):
        times = [{name: microseconds(form, rows, classes) for name, form in FORMS.items()} for _ in range(ROUNDS)]
        for name in FORMS:
            ratios = sorted(each["nll_loss(log(softmax))"] / each[name] for each in times)
            median = statistics.median(each[name] for each in times)
            print(f"{rows} x {classes}  {name:24} {median:5.0f} us, {ratios[2]:.2f} to {ratios[-3]:.2f} times as fast")


if __name__ == "__main__":
    main()
