"""Compiled code that fails or differs: CUDA graphs' buffers, second derivatives, random numbers, the newer TF32 switch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

from tests.gpu.facts.recording import answer, rounded, sized, warned

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gpu.facts.recording import Seen

untyped: Any = torch
GRAPHS = "the simulated device captures no CUDA graphs"
INDUCTOR = "compiled code of the simulated device runs on aot_eager, not on Inductor"


def network() -> nn.Module:
    """A small network, always with the same weights."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4)).to("cuda")


def inputs(count: int = 8) -> list[torch.Tensor]:
    """Batches, always the same."""
    generator = torch.Generator("cpu").manual_seed(1)
    return [torch.randn(8, 16, generator=generator).to("cuda") for _ in range(count)]


def compile_hazards(seen: Seen) -> None:
    """The warnings of the first compilation come first; the switch for TF32 last, for it cannot be taken back."""
    with seen.part("warnings"):
        if seen.on_cuda("warnings_of_the_first_compilation", INDUCTOR):
            seen["warnings_of_the_first_compilation"] = warned(lambda: compiled_of_width(8))
    with seen.part("double_backward"):
        seen["double_backward"] = {
            backend: double_backward(backend) for backend in sized(("inductor", "aot_eager"), ("aot_eager",))
        }
    with seen.part("reduce_overhead"):
        if seen.on_cuda("reduce_overhead", GRAPHS):
            seen["reduce_overhead"] = reduce_overhead()
    with seen.part("numerics"):
        if seen.on_cuda("compiled_differs_by", INDUCTOR):
            seen["compiled_differs_by"] = {"float32": differences(None), "bfloat16": differences(torch.bfloat16)}
    with seen.part("dropout"):
        if seen.on_cuda("dropout_masks_equal_eager", INDUCTOR):
            seen["dropout_masks_equal_eager"] = dropout()
    with seen.part("tf32"):
        if seen.on_cuda("newer_tf32_switch", INDUCTOR):
            seen["newer_tf32_switch"] = newer_switch()


def double_backward(backend: str) -> dict[str, Any]:
    """A penalty on gradients through compiled code, against the same without; silence is seen by wrong gradients."""

    def penalty(call: Callable[[Any], Any], wanted: Callable[[torch.Tensor], list[torch.Tensor]]) -> dict[str, Any]:
        x = inputs(1)[0].requires_grad_()
        sources = wanted(x)
        out = call(x).sum()
        first = torch.autograd.grad(out, sources, create_graph=True)
        total = out + sum(one.square().sum() for one in first)
        return {
            "has_graph": [one.requires_grad for one in first],
            "gradient_of_both": answer(
                lambda: [rounded(float(one.norm()), 6) for one in torch.autograd.grad(total, sources)]
            ),
        }

    model = network()
    forms: dict[str, tuple[Callable[[Any], Any], Callable[[torch.Tensor], list[torch.Tensor]]]] = {
        "network by its input": (model, lambda x: [x]),
        "network by its parameters": (model, lambda _: list(model.parameters())),
        "loss inside": (lambda x: model(x).square().mean(), lambda x: [x]),
        "exp without weights": (lambda x: x.exp().sum(1), lambda x: [x]),
        "sigmoid without weights": (lambda x: torch.sigmoid(x).square(), lambda x: [x]),
        "power without weights": (lambda x: (x**4).sum(), lambda x: [x]),
    }
    if backend == "inductor":  # takes seconds for each, and the decision is made before its turn comes
        forms = {name: forms[name] for name in ("network by its input", "exp without weights")}
    found: dict[str, Any] = {}
    for name, (call, wanted) in forms.items():
        untyped._dynamo.reset()
        eager = answer(partial(penalty, call, wanted))
        compiled = untyped.compile(call, backend=backend)
        found[name] = {"eager": eager, "compiled": answer(partial(penalty, compiled, wanted))}
    untyped._dynamo.reset()
    return found


def reduce_overhead() -> dict[str, Any]:
    """Habits under CUDA graphs: what each says, or how far it ends from the same without compiling."""
    untyped._dynamo.reset()
    compiled = untyped.compile(network(), mode="reduce-overhead")
    habits: dict[str, Callable[[Any], Any]] = {
        "plain steps": plain_steps,
        "accumulated gradients": accumulated,
        "losses appended": appended,
        "losses appended detached": lambda model: appended(model, keep=lambda loss: loss.detach()),
        "losses appended cloned": lambda model: appended(model, keep=lambda loss: loss.detach().clone()),
        "outputs appended": outputs_appended,
        "outputs appended cloned": lambda model: outputs_appended(model, keep=lambda out: out.detach().clone()),
        "last output kept": last_output,
        "outputs kept, steps marked": marked,
        "two forwards, one backward": two_forwards,
    }
    found: dict[str, Any] = {}
    for name, habit in habits.items():
        reset(compiled)
        value = answer(partial(habit, compiled))
        exact = answer(partial(habit, network()))
        found[name] = {"compiled": value, "eager": exact}
    return found


def reset(compiled: Any) -> None:
    """Gives compiled code the weights of a new network, in place."""
    with torch.no_grad():
        for parameter, value in zip(compiled.parameters(), network().parameters(), strict=True):
            parameter.copy_(value)
            parameter.grad = None


def state(model: nn.Module) -> float:
    """One number for all parameters."""
    return rounded(float(sum(parameter.detach().double().abs().sum() for parameter in model.parameters())), 9)


def plain_steps(model: nn.Module) -> float:
    """Training as it is meant."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in inputs():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return state(model)


def accumulated(model: nn.Module) -> float:
    """Gradients of two batches for each step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, x in enumerate(inputs()):
        (model(x).square().mean() / 2).backward()
        if number % 2:
            optimizer.step()
            optimizer.zero_grad()
    return state(model)


def appended(model: nn.Module, keep: Callable[[torch.Tensor], torch.Tensor] = lambda loss: loss) -> float:
    """Losses that are read at the end: they are made outside of the compiled code."""
    losses = []
    for x in inputs():
        loss = model(x).square().mean()
        loss.backward()
        losses.append(keep(loss))
    return rounded(float(torch.stack(losses).sum()), 7)


def outputs_appended(
    model: nn.Module, keep: Callable[[torch.Tensor], torch.Tensor] = lambda out: out.detach()
) -> float:
    """Outputs that are joined at the end."""
    with torch.no_grad():
        outs = [keep(model(x)) for x in inputs()]
        return rounded(float(torch.cat(outs).abs().sum()), 7)


def last_output(model: nn.Module) -> float:
    """The output of the step before, compared with the present one."""
    total, last = 0.0, None
    with torch.no_grad():
        for x in inputs():
            out = model(x)
            if last is not None:
                total += float((out - last).abs().sum())
            last = out
    return rounded(total, 7)


def marked(model: nn.Module) -> float:
    """Outputs that are kept, with the beginning of each step marked."""
    outs = []
    with torch.no_grad():
        for x in inputs():
            untyped.compiler.cudagraph_mark_step_begin()
            outs.append(model(x))
        return rounded(float(torch.cat(outs).abs().sum()), 7)


def two_forwards(model: nn.Module) -> float:
    """A pair of batches through one network, then one backward pass, as with siamese networks."""
    for left, right in zip(inputs()[::2], inputs()[1::2], strict=True):
        (model(left) - model(right)).square().mean().backward()
    return rounded(float(sum(p.grad.double().abs().sum() for p in model.parameters() if p.grad is not None)), 7)


def differences(dtype: torch.dtype | None) -> dict[str, Any]:
    """How far compiled code is from the same as it is, forward and backward; and whether it repeats its bits."""

    def result(model: nn.Module) -> list[torch.Tensor]:
        model.zero_grad()
        with torch.autocast("cuda", dtype or torch.bfloat16, enabled=dtype is not None):
            out = model(inputs(1)[0])
        out.float().square().mean().backward()
        return [
            out.detach().float(),
            *(parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None),
        ]

    untyped._dynamo.reset()
    compiled = untyped.compile(network())
    first, second, eager = result(compiled), result(compiled), result(network())
    return {
        "repeats_bitwise": all(torch.equal(a, b) for a, b in zip(first, second, strict=True)),
        "equal_bits": [torch.equal(a, b) for a, b in zip(first, eager, strict=True)],
        "output": rounded(float((first[0] - eager[0]).abs().max()), 3),
        "gradients": max(rounded(float((a - b).abs().max()), 3) for a, b in zip(first[1:], eager[1:], strict=True)),
    }


def dropout() -> dict[str, Any]:
    """Masks for the same seed, compiled and as they are, with Inductor's own numbers and with torch's."""
    rows = torch.ones(64, 100, device="cuda")

    def mask(call: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        torch.manual_seed(0)
        return call(rows).ne(0)

    def drop(x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, 0.5)

    from torch._inductor import config

    found: dict[str, Any] = {}
    settings: Any = config
    for name in ("fallback_random", "align_random_eager"):
        if hasattr(settings, name):
            untyped._dynamo.reset()
            with settings.patch(**{name: True}):
                found[name] = torch.equal(mask(drop), mask(untyped.compile(drop)))
    untyped._dynamo.reset()
    compiled = untyped.compile(drop)
    found["default"] = torch.equal(mask(drop), mask(compiled))
    found["default_repeats_for_a_seed"] = torch.equal(mask(compiled), mask(compiled))
    return found


def compiled_of_width(width: int) -> str:
    """Compiles a network that no cache has yet, and runs it forward and backward."""
    untyped._dynamo.reset()
    layers = nn.Sequential(nn.Linear(width, 2 * width), nn.Tanh(), nn.Linear(2 * width, width)).to("cuda")
    untyped.compile(layers)(torch.ones(4, width, device="cuda")).sum().backward()
    return "compiled"


def newer_switch() -> dict[str, Any]:
    """Compiling while TF32 is set by ``fp32_precision``, and then by the older setter on top."""
    untyped.backends.cuda.matmul.fp32_precision = "tf32"
    found = {"with_the_newer_switch": answer(lambda: compiled_of_width(12))}
    torch.set_float32_matmul_precision("high")
    return found | {"with_the_older_setter_after_it": answer(lambda: compiled_of_width(20))}
