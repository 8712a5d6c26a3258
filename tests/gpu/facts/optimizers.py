"""Fused, foreach and single-tensor optimizers: their bits, their refusals, and how long their steps take."""

from __future__ import annotations

import copy
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from tests.gpu.facts.recording import answer, device_ms, host_ms, raised, rounded, sized

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.gpu.facts.recording import Seen

untyped: Any = torch
OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "Adam": ("Adam", {"lr": 1e-3}),
    "Adam with decay": ("Adam", {"lr": 1e-3, "weight_decay": 0.01}),
    "Adam with amsgrad": ("Adam", {"lr": 1e-3, "amsgrad": True}),
    "AdamW": ("AdamW", {"lr": 1e-3}),
    "SGD": ("SGD", {"lr": 1e-2}),
    "SGD with momentum": ("SGD", {"lr": 1e-2, "momentum": 0.9, "weight_decay": 1e-4}),
    "SGD with Nesterov": ("SGD", {"lr": 1e-2, "momentum": 0.9, "nesterov": True}),
    "Adagrad": ("Adagrad", {"lr": 1e-2}),
}
FORMS: dict[str, dict[str, bool]] = {
    "single": {"foreach": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
    "default": {},
}
SHAPES = ((64, 32), (64,), (7, 13, 3), (1,), (1000, 33))


def number_of_steps() -> int:
    """Of each optimizer."""
    return sized(20, 4)


def optimizer_forms(seen: Seen) -> None:
    """Each optimizer in each form on the same gradients."""
    with seen.part("numerics"):
        seen["numerics"] = {name: numerics(*chosen) for name, chosen in OPTIMIZERS.items()}
    with seen.part("default_form"):
        seen["default_form"] = default_form()
    with seen.part("clipping"):
        seen["clipping"] = clipping()
    with seen.part("averages"):
        seen["averages"] = averages()
    with seen.part("refusals"):
        seen["refusals"] = refusals()
    with seen.part("times"):
        if seen.times_on_cuda("step_ms"):
            seen["step_ms"] = step_times()
            seen["averages_ms"] = average_times()


def parameters(shapes: Sequence[Sequence[int]] = SHAPES, seed: int = 0) -> list[nn.Parameter]:
    """Parameters with the same values whenever they are asked for."""
    generator = torch.Generator("cpu").manual_seed(seed)
    return [nn.Parameter(torch.randn(*shape, generator=generator).to("cuda")) for shape in shapes]


def trained(name: str, options: dict[str, Any], form: dict[str, bool], dtype: torch.dtype) -> list[torch.Tensor]:
    """The parameters after some steps with gradients that are drawn anew for each."""
    values = [nn.Parameter(one.detach().to(dtype)) for one in parameters()]
    optimizer: Any = getattr(torch.optim, name)(values, **options, **form)
    generator = torch.Generator("cpu").manual_seed(1)
    for step in range(number_of_steps()):
        for value in values:
            gradient = torch.randn(value.shape, generator=generator).to("cuda")
            value.grad = gradient.to(dtype) * 10.0 ** (step % 5 - 3)
        optimizer.step()
    return [value.detach() for value in values]


def tried(name: str, options: dict[str, Any], form: dict[str, bool]) -> list[torch.Tensor] | dict[str, str]:
    """The parameters after some steps, or the refusal: Adagrad has a fused form for the CPU alone in torch 2.11."""
    try:
        return trained(name, options, form, torch.float32)
    except RuntimeError as error:
        return raised(error)


def numerics(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Whether two forms agree bit for bit, how far they differ, and how far each is from 64 bits."""
    outcomes = {form: tried(name, options, chosen) for form, chosen in FORMS.items()}
    results = {form: outcome for form, outcome in outcomes.items() if isinstance(outcome, list)}
    refused = {form: outcome for form, outcome in outcomes.items() if isinstance(outcome, dict)}
    exact = trained(name, options, FORMS["single"], torch.float64)
    pairs = (
        ("foreach", "single"),
        ("fused", "single"),
        ("fused", "foreach"),
        ("default", "foreach"),
        ("default", "single"),
    )
    return {
        **{f"{a}_and_{b}": difference(results[a], results[b]) for a, b in pairs if {a, b} <= results.keys()},
        "from_float64": {form: difference(result, exact) for form, result in results.items()},
        **({"refused": refused} if refused else {}),
    }


def difference(left: Sequence[torch.Tensor], right: Sequence[torch.Tensor]) -> float:
    """The greatest difference of an element; 0 where all bits are equal."""
    if all(torch.equal(a, b) for a, b in zip(left, right, strict=True)):
        return 0.0
    most = max(float((a.double() - b.double()).abs().max()) for a, b in zip(left, right, strict=True))
    return rounded(most, 3) or 5e-324  # zeros of different sign are different bits


def default_form() -> list[bool]:
    """Whether torch chooses fused, and whether foreach, where the script says nothing."""
    module = import_module("torch.optim.optimizer")  # torch.optim itself hides the name
    chosen = module._default_to_fused_or_foreach(parameters(), differentiable=False, use_fused=False)
    return [bool(one) for one in chosen]


def clipping() -> dict[str, Any]:
    """The norm of all gradients in both forms, and clipped gradients' difference."""
    norms, clipped = [], []
    for foreach in (False, True, None):
        values = parameters()
        for value, gradient in zip(values, parameters(seed=2), strict=True):
            value.grad = gradient.detach().clone()
        norms.append(float(torch.nn.utils.clip_grad_norm_(values, 1.0, foreach=foreach)))
        clipped.append([value.grad for value in values if value.grad is not None])
    return {
        "norms": norms,
        "foreach_and_single": difference(clipped[0], clipped[1]),
        "default_and_foreach": difference(clipped[2], clipped[1]),
    }


def looped(ema: list[torch.Tensor], values: list[torch.Tensor]) -> None:
    """An average of parameters as scripts write it."""
    for average, value in zip(ema, values, strict=True):
        average.mul_(0.999).add_(value, alpha=1 - 0.999)


def with_foreach(ema: list[torch.Tensor], values: list[torch.Tensor]) -> None:
    """The same by two calls for all."""
    untyped._foreach_mul_(ema, 0.999)
    untyped._foreach_add_(ema, values, alpha=1 - 0.999)


def with_lerp(ema: list[torch.Tensor], values: list[torch.Tensor]) -> None:
    """Nearly the same by one."""
    untyped._foreach_lerp_(ema, values, 1 - 0.999)


def copied(ema: list[torch.Tensor], values: list[torch.Tensor]) -> None:
    """The form of target networks."""
    for average, value in zip(ema, values, strict=True):
        average.copy_(0.001 * value + (1 - 0.001) * average)


def copied_with_foreach(ema: list[torch.Tensor], values: list[torch.Tensor]) -> None:
    """The same by calls for all, in the same order."""
    old = untyped._foreach_mul(ema, 1 - 0.001)
    new = untyped._foreach_mul(values, 0.001)
    untyped._foreach_add_(new, old)
    untyped._foreach_copy_(ema, new)


AVERAGES = (looped, with_foreach, with_lerp, copied, copied_with_foreach)


def averages() -> dict[str, float]:
    """How the forms of an average of parameters differ after some steps."""
    results = {}
    for average in AVERAGES:
        ema, values = ([one.detach() for one in parameters(seed=seed)] for seed in (0, 3))
        for _ in range(number_of_steps()):
            average(ema, values)
        results[average.__name__] = ema
    return {
        "foreach_and_loop": difference(results["with_foreach"], results["looped"]),
        "lerp_and_loop": difference(results["with_lerp"], results["looped"]),
        "foreach_and_copy": difference(results["copied_with_foreach"], results["copied"]),
    }


def refusals() -> dict[str, Any]:
    """What fused forms refuse."""

    def stepped(name: str, values: list[nn.Parameter], **options: Any) -> str:
        optimizer = getattr(torch.optim, name)(values, fused=True, lr=options.pop("lr", 0.1), **options)
        for value in values:
            if value.grad is None:
                value.grad = torch.ones_like(value)
        optimizer.step()
        state = optimizer.state.get(values[0], {})
        return f"no exception; step is {type(state.get('step')).__name__}"

    def sparse(name: str) -> str:
        table = nn.Embedding(10, 4, sparse=True).to("cuda")
        table(torch.tensor([1, 2], device="cuda")).sum().backward()
        return stepped(name, list(table.parameters()))

    narrow = nn.Parameter(torch.ones(4, device="cuda", dtype=torch.bfloat16))
    questions: dict[str, Callable[[], object]] = {
        "sparse_Adam": lambda: sparse("Adam"),
        "sparse_SGD": lambda: sparse("SGD"),
        "complex_Adam": lambda: stepped("Adam", [nn.Parameter(torch.ones(4, device="cuda", dtype=torch.complex64))]),
        "host_Adam": lambda: stepped("Adam", [nn.Parameter(torch.ones(4))]),
        "bfloat16_Adam": lambda: stepped("Adam", [copy.deepcopy(narrow)]),
        "float64_Adam": lambda: stepped("Adam", [nn.Parameter(torch.ones(4, device="cuda", dtype=torch.float64))]),
        "tensor_rate_Adam": lambda: stepped("Adam", parameters(), lr=torch.tensor(0.1)),
        "tensor_rate_on_the_device_Adam": lambda: stepped("Adam", parameters(), lr=torch.tensor(0.1, device="cuda")),
        "with_foreach": lambda: stepped("Adam", parameters(), foreach=True),
        "differentiable": lambda: stepped("Adam", parameters(), differentiable=True),
        "moved_after_it_was_made": moved,
    }
    return {name: answer(call, RuntimeError, ValueError, TypeError) for name, call in questions.items()}


def moved() -> str:
    """A network that goes to the device when its optimizer exists already."""
    model = nn.Linear(4, 4)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    model.to("cuda")
    model(torch.ones(2, 4, device="cuda")).sum().backward()
    optimizer.step()
    return "no exception"


def step_times() -> dict[str, Any]:
    """Milliseconds of a step, by the host's clock with the device's work, and with clipping before it."""
    sizes: dict[str, list[tuple[int, ...]]] = {
        "400_small": [(64, 64)] * 200 + [(64,)] * 200,
        "60_of_a_resnet": [(256, 256, 3, 3)] * 20 + [(256,)] * 40,
    }
    sizes["6_large"] = [(4096, 4096)] * 6
    found: dict[str, Any] = {}
    for size, shapes in sizes.items():
        for name in ("Adam", "AdamW", "SGD with momentum"):
            kind, options = OPTIMIZERS[name]
            for form, chosen in FORMS.items():
                values = [nn.Parameter(torch.randn(*shape, device="cuda")) for shape in shapes]
                for value in values:
                    value.grad = torch.randn_like(value)
                step = getattr(torch.optim, kind)(values, **options, **chosen).step
                found.setdefault(size, {}).setdefault(name, {})[form] = host_ms(step, warm_up=3)
                if name == "Adam" and form in ("foreach", "fused"):
                    launch = host_ms(step, warm_up=1, wait=False)
                    found[size][name][f"{form}_until_it_returns"] = launch
        for foreach in (False, True):
            clip = partial(torch.nn.utils.clip_grad_norm_, values, 1.0, foreach=foreach)
            found[size][f"clip_foreach_{foreach}"] = host_ms(clip)
    return found


def average_times() -> dict[str, float]:
    """Milliseconds of an average over 400 small parameters."""
    count = sized(200, 2)
    shapes = [(64, 64)] * count + [(64,)] * count
    ema, values = ([torch.randn(*shape, device="cuda") for shape in shapes] for _ in range(2))
    return {one.__name__: device_ms(partial(one, ema, values)) for one in AVERAGES}
