"""Runs every idiom as it is, compiled, and under autocast in both formats of 16 bits, and says what became different."""

from __future__ import annotations

import builtins
import platform
import warnings
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch._dynamo
import torch.utils.checkpoint
from torch import nn

from tests.traps.idioms import SHAPES, Idiom

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

untyped: Any = torch
LOOSE = {"compiled": 1e-5, "bfloat16": 0.15, "float16": 0.02}
"""Relative to the largest number: more than this is another result."""
SMALLEST = 1e-3
"""What is smaller counts as this large."""
LONGEST = 160
"""Characters of a message."""
OK, NO_NUMBERS = "ok", "not finite"
Function = "Callable[[torch.Tensor], Any]"


def swept(idioms: Mapping[str, Idiom]) -> dict[str, Any]:
    """What became of the idioms, by their names: of ``eager``, ``compiled``, ``graphs``, ``bfloat16`` and ``float16`` those
    that are not as one expects, which is ``ok``, and one graph.
    """
    warnings.simplefilter("ignore")
    found = {name: outcomes(idiom) for name, idiom in idioms.items()}
    told = {name: {key: each for key, each in one.items() if each not in {OK, 1}} for name, one in found.items()}
    return {
        "torch": str(torch.__version__).partition("+")[0],
        "python": platform.python_version(),
        "tried": len(found),
        "idioms": {name: one for name, one in told.items() if one},
    }


def outcomes(idiom: Idiom) -> dict[str, Any]:
    """How an idiom ends: ``ok``, ``raises …``, ``not finite``, or by how much it differs."""
    expected = attempt(idiom, lambda call: call)
    if isinstance(expected, str):
        return {"eager": expected}
    found: dict[str, Any] = {"eager": OK}
    untyped._dynamo.reset()
    untyped._dynamo.utils.counters.clear()
    compiled = attempt(idiom, lambda call: untyped.compile(call, backend="aot_eager"))
    found["compiled"] = compared(idiom, expected, compiled, LOOSE["compiled"])
    found["graphs"] = untyped._dynamo.utils.counters["stats"]["unique_graphs"]
    for name in formats():
        narrow = attempt(idiom, lambda call: call, dtype=getattr(torch, name))
        found[name] = compared(idiom, expected, narrow, LOOSE[name])
    return found


def formats() -> list[str]:
    """Those of 16 bits that autocast on the CPU knows: torch 2.0 knows but one."""
    found = []
    for name in ("bfloat16", "float16"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                untyped.autocast("cpu", dtype=getattr(torch, name))
            except (RuntimeError, UserWarning):
                continue
        found.append(name)
    return found


def attempt(idiom: Idiom, wrapped: Callable[[Any], Any], dtype: torch.dtype | None = None) -> list[torch.Tensor] | str:
    """The result and the gradient of ``x``, or how it is refused.

    Args:
        idiom: What is computed.
        wrapped: What is called instead of the function.
        dtype: Of the region of autocast, and of ``x``; None: neither is changed.
    """
    torch.manual_seed(0)
    scope: dict[str, Any] = {"torch": torch, "functional": nn.functional, "numpy": np, "layer": None}
    try:
        if idiom.made:
            scope["layer"] = builtins.eval(idiom.made, scope)  # noqa: S307 - this package's own text
        call = builtins.eval(f"lambda x: {idiom.source}", scope)  # noqa: S307
        leaf = torch.randn(SHAPES[idiom.operand], requires_grad=True)
        x = leaf if dtype is None else leaf.to(dtype)
        torch.manual_seed(1)
        with nullcontext() if dtype is None else untyped.autocast("cpu", dtype=dtype):
            result = wrapped(call)(x)
            if result.is_floating_point() and result.requires_grad:
                weights = torch.linspace(0.5, 1.5, result.numel()).view(result.shape)
                (result.float() * weights).mean().backward()
    except Exception as error:  # noqa: BLE001 - every refusal is a result
        return f"raises {type(error).__name__}: {' '.join(str(error).split())}"[:LONGEST]
    gradient = torch.zeros(0) if leaf.grad is None else leaf.grad.detach()
    return [result.detach(), gradient]


def compared(idiom: Idiom, expected: list[torch.Tensor], found: list[torch.Tensor] | str, loose: float) -> str:
    """Whether a result is the expected one, in words."""
    if isinstance(found, str):
        return found
    for what, left, right in zip(("result", "gradient"), expected, found, strict=True):
        if left.shape != right.shape:
            return f"{what} of shape {tuple(right.shape)} instead of {tuple(left.shape)}"
        if idiom.draws or not left.numel():
            continue
        if bool(right.isfinite().all()) != bool(left.isfinite().all()):
            return f"{what} {NO_NUMBERS}"
        difference = left.double().nan_to_num() - right.double().nan_to_num()
        largest = max(float(left.double().nan_to_num().abs().max()), SMALLEST)
        distance = float(difference.abs().max()) / largest
        if distance > loose:
            return f"{what} differs by {distance:.2g}"
    return OK
