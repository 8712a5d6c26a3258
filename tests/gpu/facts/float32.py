"""Numbers of 32 bits: the switches for TF32, what they change, and how fast matrix products are."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from tests.gpu.facts.recording import answer, device_ms, rounded, sized

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gpu.facts.recording import Seen

untyped: Any = torch
backends: Any = torch.backends
LEGACY: dict[str, Callable[[], object]] = {
    "float32_matmul_precision": torch.get_float32_matmul_precision,
    "cuda.matmul.allow_tf32": lambda: backends.cuda.matmul.allow_tf32,
    "cudnn.allow_tf32": lambda: backends.cudnn.allow_tf32,
}
"""The older way to ask."""
PRECISIONS: dict[str, Callable[[], object]] = {
    "fp32_precision": lambda: backends.fp32_precision,
    "cuda.matmul.fp32_precision": lambda: backends.cuda.matmul.fp32_precision,
    "cudnn.fp32_precision": lambda: backends.cudnn.fp32_precision,
    "cudnn.conv.fp32_precision": lambda: backends.cudnn.conv.fp32_precision,
    "cudnn.rnn.fp32_precision": lambda: backends.cudnn.rnn.fp32_precision,
}
"""The way since torch 2.9."""
OTHERS: dict[str, Callable[[], object]] = {
    "cudnn.enabled": lambda: backends.cudnn.enabled,
    "cudnn.benchmark": lambda: backends.cudnn.benchmark,
    "cudnn.deterministic": lambda: backends.cudnn.deterministic,
    "cudnn.benchmark_limit": lambda: backends.cudnn.benchmark_limit,
    "allow_fp16_reduced_precision_reduction": lambda: backends.cuda.matmul.allow_fp16_reduced_precision_reduction,
    "allow_bf16_reduced_precision_reduction": lambda: backends.cuda.matmul.allow_bf16_reduced_precision_reduction,
    "allow_fp16_accumulation": lambda: backends.cuda.matmul.allow_fp16_accumulation,
    "deterministic_algorithms": torch.are_deterministic_algorithms_enabled,
}
"""Other switches that decide which kernels run."""


def float32_precision(seen: Seen) -> None:
    """Switches, errors and rates. The two ways to set TF32 are mixed last: that cannot be undone."""
    with seen.part("defaults"):
        seen["defaults"] = switches(LEGACY | PRECISIONS | OTHERS)
        if seen.on_cuda("preferred_libraries", "there are no libraries of CUDA"):
            libraries = answer(backends.cuda.preferred_blas_library), answer(backends.cuda.preferred_linalg_library)
            seen["preferred_libraries"] = list(libraries)
    for precision in ("highest", "high", "medium"):
        with seen.part(f"errors_{precision}"):
            torch.set_float32_matmul_precision(precision)
            seen[f"switches_{precision}"] = switches(LEGACY | PRECISIONS)
            if precision == "highest" or seen.on_cuda(f"errors_{precision}", "the CPU does not compute in TF32"):
                seen[f"errors_{precision}"] = errors()
    torch.set_float32_matmul_precision("highest")
    with seen.part("without_tf32"):
        if seen.on_cuda("errors_without_any_tf32", "the CPU does not compute in TF32"):
            backends.cudnn.allow_tf32 = False
            seen["errors_without_any_tf32"] = errors()
            backends.cudnn.allow_tf32 = True
    with seen.part("sixteen_bits"):
        seen["errors_of_16_bits"] = {
            name: product_error(getattr(torch, name)) for name in ("float32", "bfloat16", "float16")
        }
    with seen.part("rates"):
        if seen.times_on_cuda("tflops"):
            seen["tflops"] = rates()
    with seen.part("mixing"):
        mix(seen)


def switches(ask: dict[str, Callable[[], object]]) -> dict[str, Any]:
    """What the switches say; an exception where torch refuses to say."""
    values = {name: answer(one) for name, one in ask.items()}
    return {name: value.get("returns", value) for name, value in values.items()}


def distance(value: torch.Tensor, exact: torch.Tensor) -> dict[str, float]:
    """How far a result is from one in 64 bits: at most, and as a whole, both relative to the largest and the whole."""
    difference = value.double() - exact
    return {
        "max": rounded(float(difference.abs().max() / exact.abs().max()), 3),
        "norm": rounded(float(difference.norm() / exact.norm()), 3),
    }


def errors() -> dict[str, dict[str, float]]:
    """Errors of what runs in cuBLAS and in cuDNN under the present switches, against 64 bits."""
    torch.manual_seed(0)
    size = sized(2048, 128)
    left, right = torch.randn(size, size, device="cuda"), torch.randn(size, size, device="cuda")
    found = {"matmul": distance(left @ right, left.double() @ right.double())}
    linear = nn.Linear(size, 64).to("cuda")
    found["linear"] = distance(linear(left), copy.deepcopy(linear).double()(left.double()))
    images, convolution = torch.randn(8, 32, 28, 28, device="cuda"), nn.Conv2d(32, 32, 3).to("cuda")
    found["conv2d"] = distance(convolution(images), copy.deepcopy(convolution).double()(images.double()))
    steps, lstm = torch.randn(16, 8, 64, device="cuda"), nn.LSTM(64, 64).to("cuda")
    found["lstm"] = distance(lstm(steps)[0], copy.deepcopy(lstm).double()(steps.double())[0])
    batch = torch.einsum("bij,bjk->bik", left.view(8, -1, size), right.expand(8, size, size))
    found["einsum"] = distance(batch, left.view(8, -1, size).double() @ right.double())
    return found


def product_error(dtype: torch.dtype) -> dict[str, float]:
    """The error of a matrix product in a type, of factors that the type holds exactly."""
    torch.manual_seed(0)
    size = sized(2048, 128)
    left, right = (torch.randn(size, size, device="cuda").to(dtype) for _ in range(2))
    return distance(left @ right, left.double() @ right.double())


def rates() -> dict[str, dict[str, float]]:
    """TFLOP/s of square matrix products, of random numbers."""
    kinds = {
        "float32": ("highest", torch.float32),
        "tf32": ("high", torch.float32),
        "bfloat16": ("highest", torch.bfloat16),
        "float16": ("highest", torch.float16),
    }
    found: dict[str, dict[str, float]] = {}
    for name, (precision, dtype) in kinds.items():
        torch.set_float32_matmul_precision(precision)
        found[name] = {str(size): rate(size, dtype) for size in (1024, 4096, 8192)}
    torch.set_float32_matmul_precision("highest")
    return found | {"float64": {"4096": rate(4096, torch.float64)}}


def rate(size: int, dtype: torch.dtype) -> float:
    """TFLOP/s of one product."""
    left, right = (torch.randn(size, size, device="cuda").to(dtype) for _ in range(2))
    out = torch.empty_like(left)
    milliseconds = device_ms(lambda: torch.mm(left, right, out=out), warm_up=2, repeats=5, inner=4)
    return rounded(2 * size**3 / milliseconds / 1e9)


def mix(seen: Seen) -> None:
    """What the older way says after the newer was used, and the reverse."""
    backends.cuda.matmul.fp32_precision = "tf32"
    seen["after_new_tf32_for_matmul"] = switches(LEGACY | PRECISIONS)
    seen["matmul_after_new_tf32_for_matmul"] = answer(
        lambda: torch.ones(8, 8, device="cuda") @ torch.ones(8, device="cuda")
    )
    seen["legacy_setter_after_new"] = answer(lambda: torch.set_float32_matmul_precision("high"))
    seen["after_legacy_setter"] = switches(LEGACY | PRECISIONS)
    backends.cudnn.conv.fp32_precision = "ieee"
    seen["after_new_ieee_for_convolutions"] = switches(LEGACY | PRECISIONS)
    backends.cuda.matmul.allow_tf32 = False
    seen["after_legacy_flag_for_matmul"] = switches(LEGACY | PRECISIONS)
    backends.fp32_precision = "ieee"
    seen["after_new_ieee_for_all"] = switches(LEGACY | PRECISIONS)
