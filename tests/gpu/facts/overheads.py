"""What habits cost in each step: anomaly mode, the emptied cache, reading losses, zeroing, profiling, conversions."""

from __future__ import annotations

import contextlib
import gc
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

from tests.gpu.facts.recording import answer, backward, host_ms, is_simulated, rounded, sized

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gpu.facts.recording import Seen

untyped: Any = torch


class Step:
    """A training step of a network, in the usual form or with one habit changed."""

    def __init__(self, *, large: bool) -> None:
        torch.manual_seed(0)
        width, depth, batch = (4096, 3, 1024) if large else (128, 3, 64)
        if is_simulated():
            width, depth, batch = 8, 1, 2
        hidden = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())]
        self.model = nn.Sequential(*hidden, nn.Linear(width, 10)).to("cuda")
        self.x, self.y = torch.randn(batch, width, device="cuda"), torch.zeros(batch, dtype=torch.long, device="cuda")
        self.optimizer: Any = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9)
        self.scaler: Any = untyped.amp.GradScaler("cuda")

    def __call__(self, *, dtype: torch.dtype | None = None, after: Callable[[Any], object] | None = None) -> None:
        """One step, and what is done after it with the loss."""
        self.optimizer.zero_grad()
        region = torch.autocast("cuda", dtype) if dtype else contextlib.nullcontext()
        with region:
            loss = F.cross_entropy(self.model(self.x), self.y)
        self.finish(loss, scaled=dtype is torch.float16)
        if after is not None:
            after(loss)

    def finish(self, loss: Any, *, scaled: bool) -> None:
        """Backward and the optimizer's step."""
        if scaled:
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            loss.backward()
            self.optimizer.step()

    def zeroed(self, *, to_none: bool) -> None:
        """A step whose gradients are set to zero, or to None."""
        self.optimizer.zero_grad(set_to_none=to_none)
        loss = F.cross_entropy(self.model(self.x), self.y)
        self.finish(loss, scaled=False)

    def anomaly(self, *, check_nan: bool) -> None:
        """A step in anomaly mode."""
        with torch.autograd.set_detect_anomaly(mode=True, check_nan=check_nan):
            self()

    def evaluated(self, *, graph: bool) -> None:
        """A forward pass in eval."""
        with contextlib.nullcontext() if graph else torch.no_grad():
            self.model(self.x)


def step_overheads(seen: Seen) -> None:
    """Milliseconds of a step with each habit, of a small and of a large network."""
    for size in ("small", "large"):
        step = Step(large=size == "large")
        habits = habits_of(step)
        with seen.part(f"{size}_runs"):
            for habit in habits.values():
                habit()
            seen[f"{size}_habits"] = list(habits)
        with seen.part(f"{size}_times"):
            if seen.times_on_cuda(f"{size}_step_ms"):
                inner = 5 if size == "small" else 3
                seen[f"{size}_step_ms"] = {name: host_ms(one, inner=inner, repeats=3) for name, one in habits.items()}
                seen[f"{size}_evaluation"] = evaluations(step)
        del step, habits
    with seen.part("anomaly"):
        seen["anomaly_text"] = answer(nan_found)
    with seen.part("conversions"):
        seen["conversions_equal"] = conversions_equal()
        if seen.times_on_cuda("conversion_ms"):
            seen["conversion_ms"] = conversion_times()
    with seen.part("profiled"):
        if seen.times_on_cuda("profiled_step_ms"):
            seen["profiled_step_ms"] = profiled()


def habits_of(step: Step) -> dict[str, Callable[[], object]]:
    """What scripts do in each step. The first is the step itself."""
    cuda = untyped.cuda
    total = torch.zeros((), dtype=torch.float64, device="cuda")
    return {
        "plain": step,
        "item": lambda: step(after=lambda loss: loss.item()),
        "two items": lambda: step(after=lambda loss: (loss.item(), loss.item())),
        "sum on the device": lambda: step(after=lambda loss: total + loss.detach().double()),
        "if isnan": lambda: step(after=lambda loss: bool(torch.isnan(loss))),
        "synchronize": lambda: step(after=lambda _: cuda.synchronize()),
        "empty_cache": lambda: step(after=lambda _: cuda.empty_cache()),
        "gc.collect": lambda: step(after=lambda _: gc.collect()),
        "anomaly mode": lambda: step.anomaly(check_nan=True),
        "anomaly mode without NaN check": lambda: step.anomaly(check_nan=False),
        "zero_grad to None": lambda: step.zeroed(to_none=True),
        "zero_grad to zeros": lambda: step.zeroed(to_none=False),
        "clip_grad_norm_": lambda: step(after=lambda _: nn.utils.clip_grad_norm_(step.model.parameters(), 1.0)),
        "bfloat16": lambda: step(dtype=torch.bfloat16),
        "float16 with scaler": lambda: step(dtype=torch.float16),
        "torch.zeros().to(device)": lambda: step(after=lambda _: torch.zeros(64, 10).to("cuda")),
        "torch.zeros(device)": lambda: step(after=lambda _: torch.zeros(64, 10, device="cuda")),
    }


def evaluations(step: Step) -> dict[str, Any]:
    """Forward passes with and without a graph: milliseconds, and MiB that they need beyond what is there."""
    found: dict[str, Any] = {}
    for graph in (True, False):
        cuda = untyped.cuda
        step.evaluated(graph=graph)
        cuda.reset_peak_memory_stats()
        before = cuda.memory_allocated()
        step.evaluated(graph=graph)
        name = "with graph" if graph else "no_grad"
        found[f"{name} mib"] = rounded((cuda.max_memory_allocated() - before) / 2**20)
        found[f"{name} ms"] = host_ms(partial(step.evaluated, graph=graph), inner=10, repeats=3)
    return found


def profiled() -> dict[str, float]:
    """Steps of the small network under torch's profilers, and the seconds of their start and end."""
    step = Step(large=False)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    found = {"plain": host_ms(step, inner=50, repeats=3)}
    start = time.perf_counter()
    with untyped.profiler.profile(activities=activities):
        begun = time.perf_counter()
        found["torch.profiler"] = host_ms(step, inner=30, repeats=1)
        end = time.perf_counter()
    found["torch.profiler start seconds"] = rounded(begun - start)
    found["torch.profiler end seconds"] = rounded(time.perf_counter() - end)
    with untyped.profiler.profile(activities=activities, record_shapes=True, with_stack=True, profile_memory=True):
        found["torch.profiler with all"] = host_ms(step, inner=30, repeats=1)
    with untyped.autograd.profiler.emit_nvtx():
        found["emit_nvtx"] = host_ms(step, inner=30, repeats=1)
    return found


def nan_found() -> str:
    """A NaN in anomaly mode."""
    x = torch.zeros(2, device="cuda", requires_grad=True)
    with torch.autograd.set_detect_anomaly(mode=True):
        backward((x.sqrt() * 0).sum())
    return "no exception"


def arrays() -> tuple[Any, list[Any], list[float]]:
    """A large array, many small ones, and numbers."""
    size = sized(64, 4)
    large = np.zeros((sized(2048, 16), 1024), dtype=np.float32)
    return large, [np.full((size, size), float(one), dtype=np.float32) for one in range(64)], [0.5] * 1000


def conversions_equal() -> dict[str, Any]:
    """Whether the quicker conversions give the same tensors, and share memory."""
    large, many, numbers = arrays()
    shared = torch.as_tensor(large)
    large[0, 0] = 9
    return {
        "list_of_arrays": torch.equal(torch.tensor(np.array(many)), torch.from_numpy(np.array(many))),
        "as_tensor_shares": bool(shared[0, 0] == 9),
        "as_tensor_on_the_device_shares": bool(torch.as_tensor(large, device="cuda").cpu()[0, 0] != large[0, 0]),
        "types_of_numbers": [str(torch.tensor(numbers).dtype), str(torch.from_numpy(np.array(numbers)).dtype)],
    }


def conversion_times() -> dict[str, float]:
    """Milliseconds on the host, and to the device."""
    large, many, numbers = arrays()
    calls: dict[str, Callable[[], object]] = {
        "tensor(array of 8 MiB)": lambda: torch.tensor(large),
        "as_tensor(array of 8 MiB)": lambda: torch.as_tensor(large),
        "tensor(array of 8 MiB).to(device)": lambda: torch.tensor(large).to("cuda"),
        "as_tensor(array of 8 MiB).to(device)": lambda: torch.as_tensor(large).to("cuda"),
        "tensor(array of 8 MiB, device)": lambda: torch.tensor(large, device="cuda"),
        "tensor(list of 64 arrays)": lambda: torch.tensor(many),
        "from_numpy(np.array(list of 64 arrays))": lambda: torch.from_numpy(np.array(many)),
        "stack of from_numpy": lambda: torch.stack([torch.from_numpy(one) for one in many]),
        "tensor(1000 numbers)": lambda: torch.tensor(numbers),
        "as_tensor(1000 numbers)": lambda: torch.as_tensor(numbers),
        "tensor(number, device)": lambda: torch.tensor(0.5, device="cuda"),
        "full((), number, device)": lambda: torch.full((), 0.5, device="cuda"),
    }
    return {name: host_ms(call, repeats=3) for name, call in calls.items()}
