"""How much faster than written out is attention by torch's fused function, on this CPU (no test: it takes minutes)?

``python tests/benchmarks/attention.py``. docs/measured.md has what it said.
"""

from __future__ import annotations

import math
import time
from statistics import mean, median, stdev
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F  # noqa: N812 - as scripts write it

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    Function: TypeAlias = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

PAIRS = 16
T = 2.131
"""The 97.5th percentile of Student's distribution with ``PAIRS - 1`` degrees of freedom."""
HEADS, DEPTH = 4, 64
LENGTHS = {64: 8, 256: 2, 1024: 1}
"""Tokens, and sequences in a batch."""


def written_out(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """As minGPT writes it."""
    scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
    scores = scores.masked_fill(mask == 0, float("-inf"))
    return F.softmax(scores, dim=-1) @ v


def plain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    """Without a mask."""
    return F.softmax(q @ k.transpose(-2, -1) / math.sqrt(k.size(-1)), dim=-1) @ v


def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    """The mask is known to be a triangle."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The mask is given."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask != 0)


def unmasked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    """Without a mask."""
    return F.scaled_dot_product_attention(q, k, v)


def seconds(function: Function, tensors: list[torch.Tensor], mask: torch.Tensor) -> float:
    """What a forward and a backward take."""
    start = time.perf_counter()
    q, k, v = tensors
    torch.autograd.grad(function(q, k, v, mask).sum(), tensors)
    return time.perf_counter() - start


def compared(name: str, one: Function, other: Function, tensors: list[torch.Tensor], mask: torch.Tensor) -> None:
    """Prints how many times as fast the other is, by adjacent pairs in turn."""
    for each in (one, other):
        seconds(each, tensors, mask)
    pairs = []
    for number in range(PAIRS):
        order = (one, other) if number % 2 else (other, one)
        times = {each: seconds(each, tensors, mask) for each in order}
        pairs.append((times[one], times[other]))
    logs = [math.log(first / second) for first, second in pairs]
    middle, half = mean(logs), T * stdev(logs) / math.sqrt(PAIRS)
    low, high = math.exp(middle - half), math.exp(middle + half)
    took = " and ".join(f"{1e3 * median(each):.3g}" for each in zip(*pairs, strict=True))
    print(f"{name}: {took} ms, {math.exp(middle):.2f} times as fast [{low:.2f}, {high:.2f}]")


def main() -> None:
    """Compares each form at several lengths."""
    torch.manual_seed(0)
    for length, batch in LENGTHS.items():
        tensors = [torch.randn(batch, HEADS, length, DEPTH, requires_grad=True) for _ in range(3)]
        mask = torch.tril(torch.ones(length, length))
        compared(f"{length} tokens, no mask", plain, unmasked, tensors, mask)
        compared(f"{length} tokens, causal", written_out, causal, tensors, mask)
        compared(f"{length} tokens, a mask that is given", written_out, masked, tensors, mask)
        flat = [each.detach().flatten(0, 1).requires_grad_() for each in tensors]
        compared(f"{length} tokens, no mask, three dimensions", plain, unmasked, flat, mask)


if __name__ == "__main__":
    main()
