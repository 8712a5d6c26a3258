"""Random numbers and fills: what the device draws for a seed, and what format, type and place change about it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

from tests.gpu.facts.recording import answer, rounded, type_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gpu.facts.recording import Seen

untyped: Any = torch


def random_draws(seen: Seen) -> None:
    """Each question draws twice from the same seed, in two ways."""
    with seen.part("dropout"):
        seen["dropout_masks_equal"] = dropout_masks()
    with seen.part("streams"):
        if seen.on_cuda("streams", "the simulated device draws from the host's generator"):
            seen["streams"] = streams()
    with seen.part("places"):
        if seen.on_cuda("same_draws_on_host_and_device", "the simulated device draws from the host's generator"):
            seen["same_draws_on_host_and_device"] = places()
    with seen.part("fills"):
        if seen.on_cuda("fills_differ_by", "the host makes the simulated device's tensors"):
            seen["fills_differ_by"] = fills()
    with seen.part("sums"):
        seen["sums"] = sums()


def from_seed(draw: Callable[[], Any], seed: int = 0) -> Any:
    """What is drawn after a seed."""
    torch.manual_seed(seed)
    return draw()


def dropout_masks() -> dict[str, bool]:
    """Whether the same elements are dropped."""
    images, rows = torch.ones(8, 16, 12, 12, device="cuda"), torch.ones(1000, 33, device="cuda")
    last = images.to(memory_format=torch.channels_last)

    def kept(x: torch.Tensor, layer: Callable[[torch.Tensor], torch.Tensor] = F.dropout) -> torch.Tensor:
        torch.manual_seed(0)
        return layer(x).float().ne(0)

    def region(dtype: torch.dtype) -> torch.Tensor:
        weights = torch.eye(33, device="cuda")
        torch.manual_seed(0)
        with torch.autocast("cuda", dtype):
            return F.dropout(rows @ weights).float().ne(0)

    def attention(dtype: torch.dtype) -> torch.Tensor:
        x = torch.ones(2, 4, 64, 32, device="cuda", dtype=dtype)
        values = torch.eye(64, 32, device="cuda", dtype=dtype).expand(2, 4, 64, 32)
        torch.manual_seed(0)
        return F.scaled_dot_product_attention(x, x, values, dropout_p=0.5).float().ne(0)

    plain, module = kept(rows), nn.Dropout(0.5).to("cuda")
    return {
        "repeated": torch.equal(plain, kept(rows)),
        "function_and_module": torch.equal(plain, kept(rows, module)),
        "in_place": torch.equal(plain, kept(rows.clone(), lambda x: F.dropout(x, inplace=True))),
        "channels_last_and_contiguous": torch.equal(kept(images), kept(last)),
        "dropout2d_channels_last_and_contiguous": torch.equal(kept(images, F.dropout2d), kept(last, F.dropout2d)),
        "alpha_dropout_channels_last_and_contiguous": torch.equal(
            from_seed(lambda: F.alpha_dropout(images, training=True)),
            from_seed(lambda: F.alpha_dropout(last, training=True)),
        ),
        "rrelu_channels_last_and_contiguous": torch.equal(
            from_seed(lambda: F.rrelu(-images, training=True)), from_seed(lambda: F.rrelu(-last, training=True))
        ),
        "transposed_and_contiguous": torch.equal(kept(rows), kept(rows.mT.contiguous().mT)),
        "reshaped": torch.equal(kept(images).flatten(), kept(images.flatten())),
        "bfloat16_and_float32": torch.equal(plain, kept(rows.bfloat16())),
        "float16_and_float32": torch.equal(plain, kept(rows.half())),
        "autocast_to_bfloat16": torch.equal(plain, region(torch.bfloat16)),
        "autocast_to_float16": torch.equal(plain, region(torch.float16)),
        "odd_sizes_bfloat16": torch.equal(kept(rows[:7, :5].contiguous()), kept(rows[:7, :5].contiguous().bfloat16())),
        "under_no_grad": torch.equal(plain, no_grad(lambda: kept(rows))),
        "with_gradient": torch.equal(plain, kept(rows.clone().requires_grad_())),
        "attention_bfloat16_and_float32": torch.equal(attention(torch.bfloat16), attention(torch.float32)),
        "part_of_a_larger_batch": torch.equal(plain[:500], kept(rows[:500])),
    }


def no_grad(call: Callable[[], torch.Tensor]) -> torch.Tensor:
    """The result without a graph."""
    with torch.no_grad():
        return call()


def streams() -> dict[str, Any]:
    """Which draws move which generator."""

    def next_on_host(before: Callable[[], object]) -> float:
        torch.manual_seed(0)
        before()
        return float(torch.rand(()))

    def next_on_device(before: Callable[[], object]) -> float:
        torch.manual_seed(0)
        before()
        return float(torch.rand((), device="cuda"))

    def nothing() -> None:
        """Draws nothing."""

    host, device = next_on_host(nothing), next_on_device(nothing)
    generator = torch.Generator(device="cuda").manual_seed(5)
    moves = {
        "dropout": lambda: F.dropout(torch.ones(8, device="cuda")),
        "rand": lambda: torch.rand(8, device="cuda"),
        "randperm": lambda: torch.randperm(8, device="cuda"),
        "multinomial": lambda: torch.multinomial(torch.ones(8, device="cuda"), 2),
        "module_on_the_device": lambda: nn.Linear(4, 4, device="cuda"),
        "module_moved": lambda: nn.Linear(4, 4).to("cuda"),
        "own_generator": lambda: torch.rand(8, device="cuda", generator=generator),
    }
    return {
        "moves_the_host": {name: next_on_host(draw) != host for name, draw in moves.items()},
        "moves_the_device": {name: next_on_device(draw) != device for name, draw in moves.items()},
        "manual_seed_seeds_the_device": next_on_device(nothing) == device,
        "cuda_manual_seed_leaves_the_host": next_on_host(lambda: untyped.cuda.manual_seed(9)) == host,
        "generator_of_the_other_place": answer(
            lambda: torch.rand(8, device="cuda", generator=torch.Generator("cpu")), RuntimeError, ValueError
        ),
    }


def places() -> dict[str, bool]:
    """Whether the device draws what the host draws from the same seed."""
    draws: dict[str, Callable[[Any], torch.Tensor]] = {
        "rand": lambda place: torch.rand(100, device=place),
        "randn": lambda place: torch.randn(100, device=place),
        "randint": lambda place: torch.randint(0, 10, (100,), device=place),
        "randperm": lambda place: torch.randperm(100, device=place),
        "bernoulli": lambda place: torch.bernoulli(torch.full((100,), 0.5, device=place)),
        "normal_": lambda place: torch.empty(100, device=place).normal_(),
        "linear_layer": lambda place: nn.Linear(8, 8, device=place).weight.detach(),
    }
    return {
        name: torch.equal(from_seed(partial(draw, "cpu")), from_seed(partial(draw, "cuda")).cpu())
        for name, draw in draws.items()
    }


def fills() -> dict[str, float]:
    """The greatest difference between a tensor that the device makes and one that the host makes and hands over."""
    half = torch.float16
    calls: dict[str, Callable[[Any], torch.Tensor]] = {
        "arange": lambda place: torch.arange(0, 1000, 0.1, device=place),
        "arange_int": lambda place: torch.arange(100_000, device=place),
        "linspace": lambda place: torch.linspace(0, 1, 10_001, device=place),
        "linspace_symmetric": lambda place: torch.linspace(-3, 3, 777, device=place),
        "linspace_float64": lambda place: torch.linspace(0, 1, 10_001, device=place, dtype=torch.float64),
        "linspace_float16": lambda place: torch.linspace(0, 1, 101, device=place, dtype=half),
        "logspace": lambda place: torch.logspace(-5, 5, 1001, device=place),
        "full": lambda place: torch.full((100,), 0.1, device=place),
        "eye": lambda place: torch.eye(10, device=place),
        "tril": lambda place: torch.tril(torch.ones(10, 10, device=place)),
        "hann_window": lambda place: torch.hann_window(400, device=place),
        "scalar_tensor": lambda place: torch.scalar_tensor(0.1, device=place),
        "tensor_of_numbers": lambda place: torch.tensor([0.1, 0.2, 1e-8], device=place),
        "exp_of_arange": lambda place: torch.exp(torch.arange(0, 10, 0.01, device=place)),
        "sin_of_positions": lambda place: torch.sin(torch.arange(0, 5000.0, device=place)),
        "pow_of_10000": lambda place: 10000 ** (torch.arange(0, 512.0, 2, device=place) / 512),
        "cast_to_bfloat16": lambda place: torch.linspace(0, 1, 999).to(place).to(torch.bfloat16),
    }
    return {
        name: rounded(float((call("cuda").cpu().double() - call("cpu").double()).abs().max()), 3)
        for name, call in calls.items()
    }


def sums() -> dict[str, Any]:
    """Whether losses that are summed on the device in 64 bits give the sum of ``item()``."""
    losses = torch.rand(500, generator=torch.Generator("cpu").manual_seed(0)).to("cuda")
    host, wide, narrow = 0.0, torch.zeros((), dtype=torch.float64, device="cuda"), torch.zeros((), device="cuda")
    for loss in losses:
        host += loss.item() * 64
        wide = wide + loss.detach().double() * 64
        narrow = narrow + loss.detach() * 64
    return {
        "float64_equals_the_host": float(wide) == host,
        "float32_equals_the_host": float(narrow) == host,
        "float32_off_by": rounded(abs(float(narrow) - host) / host, 3),
        "formatted": f"{losses[0]:.4f}",
        "type_of_a_sum_with_a_number": type_name((0.0 + losses[0].double()).dtype),
    }
