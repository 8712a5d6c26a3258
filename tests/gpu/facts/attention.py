"""Scaled dot product attention: which kernel is chosen, how it differs from attention by hand, and how long it takes."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

from tests.gpu.facts.recording import answer, backward, device_ms, rounded, sized, type_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gpu.facts.recording import Seen

untyped: Any = torch
Heads = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def attention_kernels(seen: Seen) -> None:
    """Kernels, differences, refusals and times."""
    with seen.part("enabled"):
        backends = untyped.backends.cuda
        seen["enabled"] = {
            name: getattr(backends, f"{name}_sdp_enabled")() for name in ("flash", "mem_efficient", "math", "cudnn")
        }
    with seen.part("chosen"):
        if seen.on_cuda("chosen", "the CPU has kernels of its own to choose from"):
            seen["chosen"] = {
                type_name(dtype): chosen(dtype) for dtype in (torch.float32, torch.bfloat16, torch.float16)
            }
    for dtype in (torch.float32, torch.bfloat16):
        with seen.part(f"differences_{type_name(dtype)}"):
            seen[f"differences_{type_name(dtype)}"] = differences(dtype)
    with seen.part("edges"):
        seen["edges"] = edges()
    with seen.part("fast_path"):
        seen["encoder_fast_path"] = fast_path()
    with seen.part("times"):
        if seen.times_on_cuda("forward_and_backward"):
            seen["forward_and_backward"] = times()


def heads(length: int, size: int = 64, dtype: torch.dtype = torch.float32, *, batch: int = 2) -> Heads:
    """Queries, keys and values of four heads, which want gradients."""
    torch.manual_seed(0)
    query, key, value = (torch.randn(batch, 4, length, size).to("cuda", dtype).requires_grad_() for _ in range(3))
    return query, key, value


def by_hand(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None = None,
    *,
    causal: bool = False,
) -> torch.Tensor:
    """Attention as scripts write it."""
    scores = (query @ key.transpose(-2, -1)) / math.sqrt(key.size(-1))
    if causal:
        mask = torch.ones(query.size(-2), key.size(-2), dtype=torch.bool, device="cuda").tril()
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    return F.softmax(scores, dim=-1) @ value


def chosen(dtype: torch.dtype) -> dict[str, Any]:
    """The kernel by lengths, sizes, masks and dropout, as torch's own choice names it."""

    def kernel(length: int = 128, size: int = 64, *, grad: bool = True, **options: Any) -> str:
        query, key, value = heads(length, size, dtype)
        if not grad:
            query, key, value = query.detach(), key.detach(), value.detach()
        return str(torch.nn.attention.SDPBackend(untyped._fused_sdp_choice(query, key, value, **options)).name)

    mask = torch.ones(128, 128, dtype=torch.bool, device="cuda").tril()
    questions: dict[str, Callable[[], object]] = {
        "plain": kernel,
        "without gradient": lambda: kernel(grad=False),
        "is_causal": lambda: kernel(is_causal=True),
        "bool mask": lambda: kernel(attn_mask=mask),
        "bool mask for each head": lambda: kernel(attn_mask=mask.expand(2, 4, 128, 128)),
        "padding mask": lambda: kernel(attn_mask=mask[0].expand(2, 1, 1, 128)),
        "float mask": lambda: kernel(attn_mask=torch.zeros(128, 128, device="cuda", dtype=dtype)),
        "float mask that wants a gradient": lambda: kernel(
            attn_mask=torch.zeros(128, 128, device="cuda", dtype=dtype, requires_grad=True)
        ),
        "dropout": lambda: kernel(dropout_p=0.1),
        "dropout and is_causal": lambda: kernel(dropout_p=0.1, is_causal=True),
        **{f"length {one}": partial(kernel, one) for one in (1, 8, 16, 63, 512, 4096)},
        **{f"head size {one}": partial(kernel, size=one) for one in (8, 33, 80, 128, 256, 264)},
    }
    return {name: answer(call) for name, call in questions.items()}


def differences(dtype: torch.dtype) -> dict[str, Any]:
    """How far attention by hand and torch's are from 64 bits and from each other, and whether torch's repeats its bits."""
    found: dict[str, Any] = {}
    length = sized(256, 16)
    for causal in (False, True):
        query, key, value = heads(length, dtype=dtype)
        wide = [one.detach().double().requires_grad_() for one in (query, key, value)]
        exact = by_hand(wide[0], wide[1], wide[2], causal=causal)
        results: dict[str, tuple[torch.Tensor, ...]] = {}
        calls: dict[str, Callable[[], torch.Tensor]] = {
            "by_hand": partial(by_hand, query, key, value, causal=causal),
            "sdpa": partial(F.scaled_dot_product_attention, query, key, value, is_causal=causal),
        }
        calls["sdpa_again"] = calls["sdpa"]
        for name, call in calls.items():
            out = call()
            results[name] = (out, *torch.autograd.grad(out.float().square().sum(), (query, key, value)))
        found["causal" if causal else "full"] = {
            **{
                f"{name}_from_float64": rounded(float((results[name][0].double() - exact).abs().max()), 3)
                for name in ("by_hand", "sdpa")
            },
            "forward_repeats_bitwise": torch.equal(results["sdpa"][0], results["sdpa_again"][0]),
            "gradients_repeat_bitwise": [
                torch.equal(a, b) for a, b in zip(results["sdpa"][1:], results["sdpa_again"][1:], strict=True)
            ],
            "gradients_from_by_hand": [
                rounded(float((a.float() - b.float()).abs().max()), 3)
                for a, b in zip(results["sdpa"][1:], results["by_hand"][1:], strict=True)
            ],
        }
    return found


def edges() -> dict[str, Any]:
    """Rows without anything to attend to, lengths that differ, masks' types, and second derivatives."""
    sdpa = F.scaled_dot_product_attention
    found: dict[str, Any] = {}
    for dtype in (torch.float32, torch.bfloat16):
        query, key, value = heads(16, dtype=dtype)
        empty = torch.ones(16, 16, dtype=torch.bool, device="cuda")
        empty[3] = False

        def empty_row(
            given: Heads = (query, key, value), mask: torch.Tensor = empty
        ) -> list[bool]:  # of torch's and of the one by hand
            rows = sdpa(*given, attn_mask=mask)[..., 3, :], by_hand(*given, mask)[..., 3, :]
            return [bool(row.isnan().any()) for row in rows]

        def causal_of_two_lengths(given: Heads = (query, key, value)) -> str:
            out = sdpa(given[0][..., :4, :], given[1], given[2], is_causal=True)[..., 0, :]
            first, last = given[2][..., 0, :], out
            return "top left" if torch.allclose(first.float(), last.float(), atol=1e-2) else "bottom right"

        def twice(given: Heads = (query, key, value), *, causal: bool = False) -> str:
            out = sdpa(*given, is_causal=causal)
            (first,) = torch.autograd.grad(out.float().square().sum(), given[0], create_graph=True)
            backward(first.float().square().sum())
            return "a gradient"

        def wide_mask(given: Heads = (query, key, value)) -> str:
            with torch.autocast("cuda", torch.bfloat16):
                return type_name(sdpa(*given, attn_mask=torch.zeros(16, 16, device="cuda")).dtype)

        def asked(given: Heads = (query, key, value), **options: Any) -> str:
            return type_name(sdpa(*given, **options).dtype)

        found[type_name(dtype)] = {
            "empty_row_is_nan_by_torch_and_by_hand": answer(empty_row),
            "causal_of_two_lengths_aligns": answer(causal_of_two_lengths),
            "double_backward": answer(twice),
            "double_backward_causal": answer(partial(twice, causal=True)),
            "float32_mask_under_autocast": answer(wide_mask),
            "int_mask": answer(partial(asked, attn_mask=empty.int())),
            "mask_and_is_causal": answer(partial(asked, attn_mask=empty, is_causal=True)),
            "float64_mask": answer(partial(asked, attn_mask=empty.double())),
        }
    return found


def fast_path() -> dict[str, Any]:
    """A padded encoder in eval: how far the path without a graph is from that with one."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).to("cuda").eval()
    x, padding = torch.randn(8, 12, 64).to("cuda"), torch.zeros(8, 12, dtype=torch.bool, device="cuda")
    padding[:, 8:] = True
    found: dict[str, Any] = {}
    for name, mask in (("unpadded", None), ("padded", padding)):
        with_graph = encoder(x, src_key_padding_mask=mask)
        with torch.no_grad():
            without = encoder(x, src_key_padding_mask=mask)
        same = with_graph.shape == without.shape
        difference = float((with_graph[:, :8] - without[:, :8]).abs().max())
        found[name] = {
            "shapes": [list(with_graph.shape), list(without.shape)],
            "bits_equal": same and torch.equal(with_graph, without),
            "difference": rounded(difference, 3),
            "padded_positions_are_zero": same and bool((without[:, 8:] == 0).all()),
        }
    return found


def times() -> dict[str, Any]:
    """Milliseconds and MiB of a pass forward and backward by hand and by torch."""
    found: dict[str, Any] = {}
    for dtype in (torch.float32, torch.bfloat16):
        for length in (32, 128, 512, 2048):
            given = heads(length, dtype=dtype, batch=16)
            mask = torch.ones(length, length, dtype=torch.bool, device="cuda").tril()
            calls: dict[str, Callable[[], torch.Tensor]] = {
                "by hand": partial(by_hand, *given),
                "sdpa": partial(F.scaled_dot_product_attention, *given),
                "by hand, causal": partial(by_hand, *given, mask),
                "sdpa, is_causal": partial(F.scaled_dot_product_attention, *given, is_causal=True),
                "sdpa, bool mask": partial(F.scaled_dot_product_attention, *given, attn_mask=mask),
            }
            found[f"{type_name(dtype)} length {length}"] = {name: passed(call, given) for name, call in calls.items()}
    return found


def passed(call: Callable[[], torch.Tensor], given: Heads) -> dict[str, float]:
    """Of one of the forms."""

    def run() -> None:
        torch.autograd.grad(call().float().sum(), given)

    cuda = untyped.cuda
    run()
    cuda.reset_peak_memory_stats()
    before = cuda.memory_allocated()
    run()
    mib = rounded((cuda.max_memory_allocated() - before) / 2**20)
    return {"ms": device_ms(run, warm_up=1, repeats=5), "mib": mib}
