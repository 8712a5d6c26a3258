"""The gradient scaler's first steps and growth, what it says to each misuse, and how it meets fused optimizers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from tests.gpu.facts.recording import answer, rounded, sized, warned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.gpu.facts.recording import Seen

untyped: Any = torch
ERRORS = (RuntimeError, AssertionError, ValueError)


def grad_scaler(seen: Seen) -> None:
    """All in fp16, with the scaler's own settings where nothing else is said."""
    with seen.part("defaults"):
        scaler = untyped.amp.GradScaler("cuda")
        seen["initial_scale_before_use"] = scaler.get_scale()
        seen["settings"] = {
            "init_scale": scaler._init_scale,
            "growth_factor": scaler.get_growth_factor(),
            "backoff_factor": scaler.get_backoff_factor(),
            "growth_interval": scaler.get_growth_interval(),
        }
        seen["state"] = scaler.state_dict()
    for name, factor in (("tiny", 1.0), ("large_loss", 100.0), ("overflowing", 1e5)):
        with seen.part(name):
            seen[name] = first_steps(factor)
    with seen.part("growth"):
        seen["growth"] = growth()
    with seen.part("misuse"):
        seen["misuse"] = misuse()
    with seen.part("disabled"):
        seen["disabled"] = disabled()
    with seen.part("norms"):
        seen["norms"] = norms()
    with seen.part("schedulers"):
        seen["warnings_with_a_scheduler"] = with_scheduler()
    with seen.part("fused"):
        # Adagrad has a fused form for the CPU alone in torch 2.11.
        seen["fused"] = {
            name: answer(partial(with_fused, name), *ERRORS) for name in ("Adam", "AdamW", "SGD", "Adagrad")
        }
    with seen.part("resumed"):
        seen["resumed"] = {name: resumed(name) for name in ("Adam", "SGD")}


class Training:
    """A small network in fp16, and one step of its training after the other."""

    def __init__(self, optimizer: str = "SGD", factor: float = 1.0, **options: Any) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1)).to("cuda")
        self.optimizer: Any = getattr(torch.optim, optimizer)(self.model.parameters(), lr=1e-3, **options)
        self.scaler: Any = untyped.amp.GradScaler("cuda")
        self.x = torch.randn(64, 32).to("cuda")
        self.factor = factor

    def loss(self) -> Any:
        """Of the network, times the factor."""
        with torch.autocast("cuda", torch.float16):
            return self.model(self.x).float().square().mean() * self.factor

    def backward(self) -> None:
        """The gradients, scaled."""
        self.optimizer.zero_grad()
        self.scaler.scale(self.loss()).backward()

    def step(self) -> bool:
        """One step; whether it changed the parameters."""
        self.backward()
        before = [parameter.detach().clone() for parameter in self.model.parameters()]
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return any(not torch.equal(old, new) for old, new in zip(before, self.model.parameters(), strict=True))


def first_steps(factor: float) -> dict[str, Any]:
    """Which of the first steps are skipped, and the scale after each."""
    training = Training(factor=factor)
    training.optimizer.param_groups[0]["lr"] = 1e-3 / factor
    made, scales = [], []
    for _ in range(20):
        made.append(training.step())
        scales.append(training.scaler.get_scale())
    return {"skipped": [number for number, one in enumerate(made, 1) if not one], "scales": scales}


def growth() -> dict[str, Any]:
    """When the scale doubles, with a short interval and with the default one."""
    training = Training()
    training.scaler.set_growth_interval(4)
    scales = []
    for _ in range(12):
        training.step()
        scales.append(training.scaler.get_scale())
    long = Training()
    number = sized(2010, 50)
    for _ in range(number):
        long.backward()
        long.scaler.step(long.optimizer)
        long.scaler.update()
    return {"with_an_interval_of_4": scales, "steps": number, "scale_after_them": long.scaler.get_scale()}


def misuse() -> dict[str, Any]:
    """What is said where the order of the calls is wrong."""

    def order(*calls: str) -> Callable[[], str]:
        def done() -> str:
            training = Training()
            names: dict[str, Callable[[], object]] = {
                "backward": training.backward,
                "plain_backward": lambda: training.loss().backward(),
                "unscale": lambda: training.scaler.unscale_(training.optimizer),
                "step": lambda: training.scaler.step(training.optimizer),
                "plain_step": training.optimizer.step,
                "update": training.scaler.update,
                "zero_grad": training.optimizer.zero_grad,
            }
            for call in calls:
                names[call]()
            return f"no exception; scale {training.scaler.get_scale():g}"

        return done

    questions: dict[str, Callable[[], object]] = {
        "unscale_twice": order("backward", "unscale", "unscale"),
        "unscale_after_step": order("backward", "step", "unscale"),
        "step_twice": order("backward", "step", "step"),
        "step_without_scale": order("plain_backward", "step"),
        "update_without_step": order("backward", "update"),
        "update_without_scale": order("update"),
        "step_without_gradients": order("backward", "zero_grad", "step"),
        "second_iteration_without_update": order("backward", "unscale", "step", "backward", "unscale"),
        "second_iteration_without_step_and_update": order("backward", "unscale", "backward", "unscale"),
        "plain_step_of_scaled_gradients": order("backward", "plain_step", "update"),
        "narrow_gradients": narrow_gradients,
        "closure_by_keyword": lambda: with_closure(keyword=True),
        "closure_by_position": lambda: with_closure(keyword=False),
        "empty_state": lambda: untyped.amp.GradScaler("cuda").load_state_dict({}),
        "loss_on_the_host": loss_on_the_host,
    }
    return {name: answer(call, *ERRORS) for name, call in questions.items()}


def narrow_gradients() -> str:
    """Parameters that are themselves in fp16."""
    training = Training()
    training.model.half()
    training.backward()
    training.scaler.unscale_(training.optimizer)
    return "no exception"


def with_closure(*, keyword: bool) -> str:
    """A closure handed to the scaler's step."""
    training = Training("LBFGS")
    calls = []

    def closure() -> Any:
        calls.append(1)
        training.optimizer.zero_grad()
        loss = training.loss()
        loss.backward()
        return loss

    training.backward()
    if keyword:
        training.scaler.step(training.optimizer, closure=closure)
    else:
        training.scaler.step(training.optimizer, closure)
    return f"no exception; {len(calls)} calls of the closure"


def loss_on_the_host() -> str:
    """A loss that is not on the device."""
    value = untyped.amp.GradScaler("cuda").scale(torch.ones(1))
    return f"no exception; {'cuda' if value.is_cuda else 'cpu'}"


def disabled() -> dict[str, Any]:
    """A scaler that is switched off."""
    scaler, value = untyped.amp.GradScaler("cuda", enabled=False), torch.ones(1, device="cuda")
    return {
        "warnings": warned(lambda: untyped.amp.GradScaler("cuda", enabled=False)),
        "scale_returns_its_argument": scaler.scale(value) is value,
        "get_scale": scaler.get_scale(),
        "state": scaler.state_dict(),
    }


def norms() -> dict[str, float]:
    """The norm that clipping sees before and after unscaling, and that of gradients in 32 bits."""
    training = Training()
    training.backward()
    scaled = total_norm(parameter.grad for parameter in training.model.parameters())
    training.scaler.unscale_(training.optimizer)
    unscaled = total_norm(parameter.grad for parameter in training.model.parameters())
    training.optimizer.zero_grad()
    training.model(training.x).square().mean().backward()
    exact = total_norm(parameter.grad for parameter in training.model.parameters())
    return {"scaled": rounded(scaled), "unscaled": rounded(unscaled), "float32": rounded(exact)}


def total_norm(gradients: Iterable[Any]) -> float:
    """The norm of all gradients together."""
    return float(sum(gradient.double().square().sum() for gradient in gradients) ** 0.5)


def with_scheduler() -> list[str]:
    """Warnings where the first step is skipped and the scheduler is not."""
    training = Training(factor=1e5)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(training.optimizer, 0.9)

    def steps() -> None:
        for _ in range(3):
            training.step()
            scheduler.step()

    return warned(steps)


def with_fused(name: str) -> dict[str, Any]:
    """Fused beside plain steps under a scaler: whether they skip the same steps, and how far the parameters differ."""
    pair = Training(name, 100.0, fused=True), Training(name, 100.0)
    changed = [[training.step() for _ in range(12)] for training in pair]
    scales = [training.scaler.get_scale() for training in pair]
    parameters = zip(pair[0].model.parameters(), pair[1].model.parameters(), strict=True)
    difference = max(float((a - b).detach().abs().max()) for a, b in parameters)
    return {
        "steps_that_changed_parameters": changed,
        "scales": scales,
        "difference": rounded(difference, 3),
        "takes_the_scale_itself": getattr(pair[0].optimizer, "_step_supports_amp_scaling", False),
    }


def resumed(name: str) -> dict[str, Any]:
    """A fused optimizer that loads the state of one that is not, and goes on under the scaler."""

    def go_on(*, repaired: bool) -> str:
        old, new = Training(name), Training(name, fused=True)
        old.step()
        new.optimizer.load_state_dict(old.optimizer.state_dict())
        loaded = str(new.optimizer.param_groups[0].get("fused"))
        for group in new.optimizer.param_groups if repaired else ():
            group["fused"] = True
        new.step()
        return f"no exception; fused was {loaded} after loading"

    return {
        "as_loaded": answer(lambda: go_on(repaired=False), *ERRORS),
        "with_fused_set_again": answer(lambda: go_on(repaired=True), *ERRORS),
    }
