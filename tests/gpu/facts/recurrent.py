"""Recurrent networks of cuDNN: under autocast, packed, in eval, differentiated twice; and CTC's loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from tests.gpu.facts.recording import answer, backward, deterministic, rounded, type_name, warned

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gpu.facts.recording import Seen

untyped: Any = torch
KINDS: tuple[Callable[..., nn.Module], ...] = (nn.LSTM, nn.GRU, nn.RNN)


def recurrent_networks(seen: Seen) -> None:
    """What cuDNN's kernels ask for, where they run and what they refuse."""
    for dtype in (torch.bfloat16, torch.float16):
        with seen.part(f"under_{type_name(dtype)}"):
            seen[f"under_{type_name(dtype)}"] = {kind.__name__: under_autocast(kind, dtype) for kind in KINDS}
    with seen.part("packed"):
        seen["packed"] = packed()
    with seen.part("refusals"):
        seen["refusals"] = refusals()
    with seen.part("weights"):
        seen["weights"] = weights()
    with seen.part("repeated"):
        seen["gradients_repeat_bitwise"] = {kind.__name__: repeats(kind) for kind in KINDS}
    with seen.part("ctc_loss"):
        if seen.on_cuda("ctc_loss", "the CPU has one kernel for it, and no cuDNN"):
            seen["ctc_loss"] = ctc_losses()


def made(kind: Callable[..., nn.Module], **options: Any) -> Any:
    """A network of two layers, always with the same weights."""
    torch.manual_seed(0)
    return kind(32, 64, num_layers=2, **options).to("cuda")


def steps() -> torch.Tensor:
    """A batch of eight sequences of twelve steps, time first."""
    return torch.randn(12, 8, 32, generator=torch.Generator("cpu").manual_seed(0)).to("cuda")


def under_autocast(kind: Callable[..., nn.Module], dtype: torch.dtype) -> dict[str, Any]:
    """Types, warnings, and how far the result is from that in 32 bits."""
    network, x = made(kind), steps()
    exact = network(x)[0]
    results: list[Any] = []

    def train() -> None:
        with torch.autocast("cuda", dtype):
            out, state = network(x)
            again = network(out.new_zeros(12, 8, 32), state)[1]  # a state that is carried on
        out.float().square().mean().backward()
        results.extend((out, state, again))

    warnings = warned(train)
    out, state, again = results
    states = [*(state if isinstance(state, tuple) else (state,)), *(again if isinstance(again, tuple) else (again,))]
    return {
        "warnings": warnings,
        "output": type_name(out.dtype),
        "states": [type_name(one.dtype) for one in states],
        "gradients": sorted({type_name(one.grad.dtype) for one in network.parameters()}),
        "difference": rounded(float((out.float() - exact).detach().abs().max()), 3),
    }


def packed() -> dict[str, Any]:
    """Packed sequences: where their lengths may be, and what comes back under autocast."""
    network, x, lengths = made(nn.LSTM), steps(), torch.tensor([12, 11, 9, 7, 5, 3, 2, 1])

    def run(sequence: Any) -> list[str]:
        with torch.autocast("cuda", torch.bfloat16):
            out, (hidden, _) = network(sequence)
        padded, sizes = pad_packed_sequence(out)
        return [type_name(padded.dtype), type_name(hidden.dtype), "cuda" if sizes.is_cuda else "cpu"]

    return {
        "lengths_on_the_host": answer(lambda: run(pack_padded_sequence(x, lengths))),
        "lengths_on_the_device": answer(
            lambda: run(pack_padded_sequence(x, lengths.to("cuda"))), RuntimeError, TypeError
        ),
        "lengths_as_a_list": answer(lambda: run(pack_padded_sequence(x, lengths.tolist()))),
        "unsorted": answer(lambda: run(pack_padded_sequence(x, lengths.flip(0), enforce_sorted=False))),
        "batch_sizes_on_the_device": pack_padded_sequence(x, lengths).batch_sizes.is_cuda,
    }


def refusals() -> dict[str, Any]:
    """Backward passes that cuDNN has not."""

    def in_eval() -> str:
        made(nn.LSTM).eval()(steps())[0].sum().backward()
        return "a gradient"

    def twice() -> str:
        x = steps().requires_grad_()
        network = made(nn.LSTM)
        (first,) = torch.autograd.grad(network(x)[0].square().sum(), x, create_graph=True)
        backward(first.square().sum())
        return "a gradient"

    def twice_without_cudnn() -> str:
        with untyped.backends.cudnn.flags(enabled=False):
            return twice()

    def state_of_another_type() -> str:
        state = torch.zeros(2, 8, 64, device="cuda", dtype=torch.bfloat16)
        return type_name(made(nn.GRU)(steps(), state)[0].dtype)

    return {
        "backward_in_eval": answer(in_eval),
        "double_backward": answer(twice),
        "double_backward_without_cudnn": answer(twice_without_cudnn),
        "narrow_state_outside_autocast": answer(state_of_another_type, RuntimeError, ValueError),
    }


def weights() -> dict[str, Any]:
    """Warnings about weights that do not lie in one piece, and what flattening does."""
    network, x = made(nn.LSTM), steps()
    scattered = made(nn.LSTM)
    for parameter in scattered.parameters():
        parameter.data = parameter.data.clone()
    return {
        "as_made": warned(lambda: network(x)),
        "replaced_one_by_one": warned(lambda: scattered(x)),
        "flattened_again": warned(lambda: (scattered.flatten_parameters(), scattered(x))),
        "in_channels_last": answer(lambda: type_name(made(nn.LSTM).to(memory_format=torch.channels_last)(x)[0].dtype)),
        "dropout_warns_with_one_layer": warned(lambda: nn.LSTM(8, 8, dropout=0.5)),
    }


def repeats(kind: Callable[..., nn.Module]) -> bool:
    """Whether three runs give the same gradients bit for bit."""

    def gradients() -> list[torch.Tensor]:
        network = made(kind, dropout=0.0)
        network(steps())[0].square().sum().backward()
        return [parameter.grad for parameter in network.parameters()]

    first = gradients()
    return all(torch.equal(a, b) for _ in range(2) for a, b in zip(first, gradients(), strict=True))


def ctc_losses() -> dict[str, Any]:
    """The loss by torch's and by cuDNN's kernel, whether it repeats bit for bit, and what determinism says of it."""
    torch.manual_seed(0)
    scores = torch.randn(50, 8, 20, device="cuda")
    labels, lengths = torch.randint(1, 20, (8, 10)), torch.full((8,), 10)

    def loss(**options: Any) -> tuple[float, torch.Tensor]:
        leaf = scores.clone().requires_grad_()
        targets = (labels.flatten().int() if options.get("cudnn") else labels).to("cuda")
        type_ = torch.int32 if options.get("cudnn") else torch.long
        steps_ = torch.full((8,), 50, dtype=type_)
        value = F.ctc_loss(leaf.log_softmax(-1), targets, steps_, lengths.to(type_))
        backward(value)
        assert leaf.grad is not None
        return float(value), leaf.grad

    native, other = loss(), loss(cudnn=True)
    repeated = [torch.equal(native[1], loss()[1]) for _ in range(3)]
    with deterministic():
        when_deterministic = answer(lambda: loss()[0])
        cudnn_when_deterministic = answer(lambda: loss(cudnn=True)[0])
    return {
        "native": rounded(native[0], 7),
        "cudnn": rounded(other[0], 7),
        "gradients_differ_by": rounded(float((native[1] - other[1]).abs().max()), 3),
        "native_gradients_repeat_bitwise": repeated,
        "native_when_deterministic": when_deterministic,
        "cudnn_when_deterministic": cudnn_when_deterministic,
    }
