"""What compiling costs before the first step has ended, with and without Inductor's cache; and what compiles again."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

from tests.gpu.facts.recording import answer, backward, host_ms, once_seconds, rounded, sized

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gpu.facts.recording import Seen

untyped: Any = torch
CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


class Own(nn.Module):
    """A script's own class around torch's: not every release compiles torch's classes themselves in place."""

    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """What the layers return."""
        out: torch.Tensor = self.layers(x)
        return out


def perceptron() -> tuple[nn.Module, torch.Tensor]:
    """A network of three linear layers, and its input."""
    width = sized(1024, 8)
    layers = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
    return Own(layers).to("cuda"), torch.randn(sized(256, 2), width, device="cuda")


def convolutional() -> tuple[nn.Module, torch.Tensor]:
    """A small convolutional network."""
    width, size = sized(64, 4), sized(32, 8)
    layers = [nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.AdaptiveAvgPool2d(1)]
    network = nn.Sequential(*layers, nn.Flatten(), nn.Linear(width, 10))
    return Own(network).to("cuda"), torch.randn(sized(128, 2), 3, size, size, device="cuda")


def transformer() -> tuple[nn.Module, torch.Tensor]:
    """One block of a transformer without dropout."""
    width = sized(256, 8)
    block = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
    return Own(block).to("cuda"), torch.randn(sized(32, 2), sized(128, 4), width, device="cuda")


NETWORKS = {"mlp": perceptron, "cnn": convolutional, "transformer block": transformer}


def compile_warm_up(seen: Seen) -> None:
    """The first calls of three networks with empty caches, then in a second process that finds them filled."""
    with seen.part("runs"):
        seen["networks"] = {name: answer(partial(trains, make)) for name, make in NETWORKS.items()}
    if not seen.times_on_cuda("cold") or not seen.times_on_cuda("warm"):
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ[CACHES[0]] = folder
        os.environ.pop(CACHES[1], None)
        with seen.part("cold"):
            seen["cold"] = warm_ups()
        with seen.part("warm"):
            program = "import json; from tests.gpu.facts.compiling import warm_ups; print(json.dumps(warm_ups()))"
            command, start = [sys.executable, "-c", program], time.perf_counter()
            out, err = (
                Path(folder, "out"),
                Path(folder, "err"),
            )  # no pipes: compiling processes may hold them for longer
            with out.open("w") as to_out, err.open("w") as to_err:
                ended = subprocess.run(command, stdout=to_out, stderr=to_err, check=False, timeout=120)
            seen["warm_process_seconds"] = rounded(time.perf_counter() - start)
            if ended.returncode:
                raise RuntimeError(f"the second process failed: {err.read_text()[-400:]}")
            seen["warm"] = json.loads(out.read_text().splitlines()[-1])


def trains(make: Callable[[], tuple[nn.Module, torch.Tensor]]) -> str:
    """Whether a network runs as it is."""
    model, x = make()
    model(x).sum().backward()
    return "trained"


def warm_ups() -> dict[str, Any]:
    """Seconds of the first calls of each compiled network, and milliseconds of the steps that follow."""
    start = time.perf_counter()
    import torch._inductor.compile_fx

    found: dict[str, Any] = {"inductor_import_seconds": rounded(time.perf_counter() - start)}
    for name, make in NETWORKS.items():
        torch._dynamo.reset()
        model, x = make()

        def step(model: nn.Module = model, x: torch.Tensor = x) -> None:
            model.zero_grad()
            model(x).square().mean().backward()

        eager = host_ms(step, warm_up=3, repeats=5, inner=3)
        model.compile()
        outs: list[torch.Tensor] = []

        def forward(model: nn.Module = model, x: torch.Tensor = x, outs: list[torch.Tensor] = outs) -> None:
            outs.append(model(x))

        first_forward = once_seconds(forward)
        first_backward = once_seconds(partial(backward, outs[0].square().mean()))
        found[name] = {
            "first_forward_seconds": first_forward,
            "first_backward_seconds": first_backward,
            "second_step_seconds": once_seconds(step),
            "eager_step_ms": eager,
            "compiled_step_ms": host_ms(step, warm_up=2, repeats=5, inner=3),
        }
    counters = untyped._dynamo.utils.counters
    found["cache"] = {name: int(count) for name, count in counters["inductor"].items() if "fxgraph_cache" in name}
    return found


class Graphs:
    """Counts the graphs that are compiled, and keeps what Dynamo logs."""

    def __init__(self) -> None:
        self.before = 0
        self.texts: list[str] = []
        self.handler = logging.Handler()
        self.handler.emit = lambda record: self.texts.append(record.getMessage())  # type: ignore[method-assign]

    def __enter__(self) -> Graphs:  # noqa: PYI034 - there is no other
        import torch._dynamo.utils

        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        logging.getLogger("torch._dynamo").addHandler(self.handler)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("torch._dynamo").removeHandler(self.handler)

    def new(self) -> int:
        """Graphs since this was last asked."""
        count = int(untyped._dynamo.utils.counters["stats"]["unique_graphs"])
        count, self.before = count - self.before, count
        return count


def compile_again(seen: Seen) -> None:
    """The number of graphs after each call, without Inductor: it is Dynamo that decides."""
    questions = (
        *(
            in_place,
            train_and_eval,
            batches,
            many_batches,
            lengths,
            attributes,
            counted,
            recurrent,
            hooks,
            toggled,
            legacy,
            keys,
        ),
    )
    for question in questions:
        with seen.part(question.__name__):
            seen[question.__name__] = question()


def small() -> nn.Module:
    """A network with dropout and batch normalization, compiled in place."""
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 4))
    model = Own(layers).to("cuda")
    model.compile(backend="aot_eager")
    return model


def rows(count: int, *shape: int) -> torch.Tensor:
    """So many rows of ones."""
    return torch.ones(count, *(shape or (8,)), device="cuda")


class Listed(nn.Sequential):
    """A script's own class without a forward of its own."""


def in_place() -> dict[str, Any]:
    """Graphs of modules that are compiled in place, and of the same when they are wrapped."""
    made: dict[str, Callable[[], nn.Module]] = {
        "Linear": lambda: nn.Linear(8, 8),
        "Sequential": lambda: nn.Sequential(nn.Linear(8, 8), nn.ReLU()),
        "own class without forward": lambda: Listed(nn.Linear(8, 8), nn.ReLU()),
        "TransformerEncoderLayer": lambda: nn.TransformerEncoderLayer(8, 2, 16),
        "own class around Sequential": lambda: Own(nn.Sequential(nn.Linear(8, 8), nn.ReLU())),
        "own class": Attributes,
        "BatchNorm1d": lambda: nn.BatchNorm1d(8),
    }
    found: dict[str, Any] = {}
    for name, make in made.items():
        with Graphs() as graphs:
            module = make().to("cuda")
            module.compile(backend="aot_eager")
            module(rows(4))
            placed = graphs.new()
        with Graphs() as graphs:
            untyped.compile(make().to("cuda"), backend="aot_eager")(rows(4))
            found[name] = {"in place": placed, "wrapped": graphs.new()}
    return found


def train_and_eval() -> dict[str, Any]:
    """Modes, gradients and autocast, one after the other and then once more."""
    model = small()

    def evaluated(*, graph: bool) -> None:
        model.eval()
        with torch.set_grad_enabled(graph):
            model(rows(4))

    def under(dtype: torch.dtype) -> None:
        model.train()
        with torch.autocast("cuda", dtype):
            model(rows(4))

    calls: dict[str, Callable[[], object]] = {
        "train": lambda: model.train()(rows(4)),
        "eval under no_grad": lambda: evaluated(graph=False),
        "train again": lambda: model.train()(rows(4)),
        "eval under no_grad again": lambda: evaluated(graph=False),
        "eval with a graph": lambda: evaluated(graph=True),
        "inference_mode": lambda: torch.inference_mode()(model)(rows(4)),
        "autocast to bfloat16": lambda: under(torch.bfloat16),
        "autocast to bfloat16 again": lambda: under(torch.bfloat16),
        "autocast to float16": lambda: under(torch.float16),
        "input that wants a gradient": lambda: model.train()(rows(4).requires_grad_()),
        "input of another type": lambda: model.train()(rows(4).double().float()),
    }
    with Graphs() as graphs:
        return {name: [call(), graphs.new()][1] for name, call in calls.items()}


def batches() -> dict[str, Any]:
    """A smaller last batch, two epochs long, with batches of one; and with ``dynamic=False``."""
    found: dict[str, Any] = {}
    sizes = (8, 8, 5, 8, 8, 5, 7, 3, 2, 1, 9)
    for name, options in (("default", {}), ("dynamic=False", {"dynamic": False}), ("dynamic=True", {"dynamic": True})):
        model = Own(nn.Sequential(nn.Linear(8, 8), nn.ReLU())).to("cuda")
        with Graphs() as graphs:
            model.compile(backend="aot_eager", **options)
            found[name] = [[size, [model(rows(size)), graphs.new()][1]] for size in sizes]
    return found


def many_batches() -> dict[str, Any]:
    """Twelve sizes with ``dynamic=False``, until Dynamo gives up."""
    model = Own(nn.Linear(8, 8)).to("cuda")
    with Graphs() as graphs:
        model.compile(backend="aot_eager", dynamic=False)
        counts = [[model(rows(size)), graphs.new()][1] for size in range(2, 14)]
        return {"graphs": counts, "limit": untyped._dynamo.config.recompile_limit, "log": logged(graphs)}


def logged(graphs: Graphs) -> list[str]:
    """The beginnings of what Dynamo warned of."""
    return [" ".join(text.split())[:200] for text in graphs.texts if "recompile_limit" in text]


class Pooled(nn.Module):
    """Pools over the whole length of a text, as networks for sentences do (K23)."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv1d(4, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The greatest activation of each channel."""
        x = self.layer(x)
        return F.max_pool1d(x, x.size(2)).squeeze(2)


class Greatest(Pooled):
    """The same without a kernel of that length."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The greatest activation of each channel."""
        return torch.amax(self.layer(x), 2)


def lengths() -> dict[str, Any]:
    """Twelve lengths, where the length becomes an argument and where it does not."""
    found: dict[str, Any] = {}
    for kind in (Pooled, Greatest):
        model = kind().to("cuda")
        with Graphs() as graphs:
            model.compile(backend="aot_eager")
            counts = [[model(rows(2, 4, length)), graphs.new()][1] for length in range(5, 17)]
            found[kind.__name__] = {"graphs": counts, "log": logged(graphs)}
    return found


class Attributes(nn.Module):
    """Reads what the script sets, and counts its calls if it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.temperature, self.epoch, self.calls, self.counts = 1.0, 0, 0, False
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer's output by the attributes."""
        if self.counts:
            self.calls += 1
        out: torch.Tensor = self.layer(x) / self.temperature + self.epoch
        return out


def attributes() -> dict[str, Any]:
    """A float and an int that change with each epoch (K21)."""
    found: dict[str, Any] = {}
    for name in ("temperature", "epoch"):
        model = Attributes().to("cuda")
        with Graphs() as graphs:
            model.compile(backend="aot_eager")
            counts = []
            for epoch in range(6):
                setattr(model, name, 1.0 / (epoch + 1) if name == "temperature" else epoch)
                model(rows(4))
                counts.append(graphs.new())
            found[name] = counts
    return found


def counted() -> dict[str, Any]:
    """An attribute that the forward itself counts up (K6)."""
    model = Attributes().to("cuda")
    model.counts = True
    with Graphs() as graphs:
        model.compile(backend="aot_eager")
        counts = [[model(rows(4)), graphs.new()][1] for _ in range(12)]
        return {"graphs": counts, "calls": model.calls, "log": logged(graphs)}


def recurrent() -> dict[str, Any]:
    """Networks that Dynamo leaves alone (K9)."""
    found: dict[str, Any] = {}
    for kind in (nn.LSTM, nn.GRU, nn.LSTMCell):
        model: Any = kind(8, 8).to("cuda")
        with Graphs() as graphs:
            model.compile(backend="aot_eager")
            model(rows(4))
            placed = graphs.new()
            untyped.compile(kind(8, 8).to("cuda"), backend="aot_eager")(rows(4))
            found[kind.__name__] = {"in place": placed, "wrapped": graphs.new()}
    return found


def hooks() -> dict[str, Any]:
    """Hooks that are registered before and after the first call."""
    calls: dict[str, int] = {"before": 0, "after": 0}
    model = small()

    def hook(name: str) -> Callable[..., None]:
        def called(*_: object) -> None:
            calls[name] += 1

        return called

    with Graphs():
        model.register_forward_hook(hook("before"))
        model(rows(4))
        model.register_forward_hook(hook("after"))
        model(rows(4))
        model(rows(4))
    return {"calls_of_three": calls}


def toggled() -> dict[str, Any]:
    """Parameters whose ``requires_grad`` is switched, as with GANs."""
    model = small()
    with Graphs() as graphs:
        counts = []
        for flag in (True, False, True, False):
            model.requires_grad_(flag)
            model(rows(4))
            counts.append(graphs.new())
    return {"graphs": counts}


class Legacy(nn.Module):
    """Makes a tensor from a size by an old constructor (K22)."""

    def __init__(self, make: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.make = make

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The input plus zeros."""
        return x + self.make(x).to(x.device).fill_(0)


def shape_of(model: nn.Module) -> list[int]:
    """Of what the network makes of three rows of five."""
    return list(model(rows(3, 5)).shape)


def legacy() -> dict[str, Any]:
    """Old constructors with a size, as they are and compiled."""
    forms: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "torch.cuda.FloatTensor(x.size())": lambda x: untyped.cuda.FloatTensor(x.size()),
        "torch.FloatTensor(x.size())": lambda x: torch.FloatTensor(x.size()),
        "torch.Tensor(x.size())": lambda x: torch.Tensor(x.size()),
        "torch.cuda.FloatTensor(*x.size())": lambda x: untyped.cuda.FloatTensor(*x.size()),
        "torch.cuda.FloatTensor(3, 5)": lambda _: untyped.cuda.FloatTensor(3, 5),
        "torch.zeros(x.size(), device)": lambda x: torch.zeros(x.size(), device="cuda"),
        "x.new(x.size())": lambda x: untyped.Tensor.new(x, x.size()),
    }
    found: dict[str, Any] = {}
    for name, make in forms.items():
        model = Legacy(make)
        eager = answer(partial(shape_of, model), RuntimeError, TypeError)
        with Graphs() as graphs:
            model.compile(backend="aot_eager")
            compiled = answer(partial(shape_of, model), RuntimeError, TypeError)
            found[name] = {"eager": eager, "compiled": compiled, "graphs": graphs.new()}
    return found


def keys() -> dict[str, Any]:
    """Names in the state of compiled modules."""
    plain, wrapped = nn.Linear(2, 2), untyped.compile(nn.Linear(2, 2), backend="aot_eager")
    plain.compile(backend="aot_eager")
    return {"in place": list(plain.state_dict()), "wrapped": list(wrapped.state_dict())}
