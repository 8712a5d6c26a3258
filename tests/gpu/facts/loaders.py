"""Data loaders beside CUDA: what is pinned, what workers may do, how long they take to start, and what keeps data near."""

from __future__ import annotations

import collections
import dataclasses
import re
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, TensorDataset

from tests.gpu.facts.recording import answer, rounded, sized, warned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.gpu.facts.recording import Seen

untyped: Any = torch


def patience() -> float:
    """Seconds to wait for a forked worker: what it cannot send is lost without a word."""
    return sized(3, 60)


class Pair(NamedTuple):
    """A batch as a named tuple."""

    x: Any
    y: Any


@dataclasses.dataclass
class Record:
    """A batch as a data class, of which the loader knows nothing."""

    x: Any


class Custom:
    """A batch that pins itself."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x

    def pin_memory(self) -> Custom:
        """As the loader asks for."""
        return Custom(self.x.pin_memory())


class Strict(collections.UserDict[str, Any]):
    """A mapping that cannot be made from a dictionary."""

    def __init__(self, first: Any, second: Any) -> None:
        super().__init__({"first": first, "second": second})


class Fixed(list[Any]):
    """A list that is made from two values."""

    def __init__(self, first: Any, second: Any) -> None:
        super().__init__([first, second])


class Batches(Dataset[Any]):
    """Eight items, each made by a function of the index, which may use the device."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        self.make = make

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        return self.make(index)


def kinds() -> dict[str, Callable[[int], Any]]:
    """Batches of the types that collate functions return."""

    def ones(_: int = 0) -> torch.Tensor:
        return torch.ones(4)

    return {
        "tensor": ones,
        "tuple": lambda _: (ones(), ones()),
        "list": lambda _: [ones(), ones()],
        "dict": lambda _: {"x": ones(), "y": [ones()]},
        "named tuple": lambda _: Pair(ones(), ones()),
        "data class": lambda _: Record(ones()),
        "class with pin_memory": lambda _: Custom(ones()),
        "ordered dict": lambda _: collections.OrderedDict(x=ones()),
        "default dict": lambda _: collections.defaultdict(list, x=ones()),
        "mapping with another constructor": lambda _: Strict(ones(), ones()),
        "list with another constructor": lambda _: Fixed(ones(), ones()),
        "set": lambda _: {ones()},
        "array": lambda _: np.ones(4),
        "strings and numbers": lambda _: ("name", 3, ones()),
        "sparse": lambda _: torch.eye(4).to_sparse(),
        "view of a larger tensor": lambda _: torch.ones(100, 4)[3],
        "on the device": lambda _: torch.ones(4, device="cuda"),
    }


FROM_WORKERS = ("tensor", "named tuple", "data class", "class with pin_memory", "sparse", "on the device")
"""Those that are asked for from a worker, too: its batches are pinned in a thread."""


def leaves(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in a batch of one of those types."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, collections.abc.Mapping):
        for one in value.values():
            yield from leaves(one)
    elif isinstance(value, (list, tuple, set)):
        for one in value:
            yield from leaves(one)
    elif hasattr(value, "x"):
        yield from leaves(value.x)


def loader_and_device(seen: Seen) -> None:
    """What is pinned, in which thread, and what workers that were forked after CUDA had started may do."""
    torch.ones(1, device="cuda")  # from here on CUDA is in use
    for workers in (0, 1):
        with seen.part(f"pinned_with_{workers}_workers"):
            seen[f"pinned_with_{workers}_workers"] = {
                name: answer(partial(pinned, make, workers), RuntimeError, TypeError, NotImplementedError)
                for name, make in kinds().items()
                if not workers or name in FROM_WORKERS
            }
    with seen.part("thread"):
        seen["threads_while_iterating"] = threads()
    with seen.part("warnings"):
        seen["warnings_of_many_workers"] = warned(lambda: DataLoader(Batches(kinds()["tensor"]), num_workers=999))
    with seen.part("forked"):
        seen["forked_workers"] = forked()


def pinned(make: Callable[[int], Any], workers: int) -> dict[str, Any]:
    """What the loader makes of a batch: its type, and which of its tensors are pinned."""
    loader = DataLoader(
        Batches(make), batch_size=None, pin_memory=True, num_workers=workers, timeout=patience() if workers else 0
    )
    batch = next(iter(loader))
    return {"type": type(batch).__name__, "pinned": [one.is_pinned() for one in leaves(batch)]}


def threads() -> list[str]:
    """The functions of the threads that run while a pinning loader with a worker is iterated."""
    loader = DataLoader(Batches(kinds()["tensor"]), batch_size=None, pin_memory=True, num_workers=1)
    iterator = iter(loader)
    next(iterator)
    return sorted(re.sub(r"-\d+", "", one.name) for one in threading.enumerate())


def forked() -> dict[str, Any]:
    """What a forked worker's item says when it uses the device."""
    on_device = torch.ones(4, device="cuda")
    questions: dict[str, Callable[[int], Any]] = {
        "host tensors only": lambda _: torch.ones(4),
        "is_available": lambda _: str(untyped.cuda.is_available()),
        "is_initialized": lambda _: str(untyped.cuda.is_initialized()),
        "new tensor on the device": lambda _: torch.ones(4, device="cuda"),
        "moves to the device": lambda _: torch.ones(4).to("cuda"),
        "moves with .cuda()": lambda _: torch.ones(4).cuda(),
        "uses the parent's tensor": lambda _: on_device + 1,
        "returns the parent's tensor": lambda _: on_device,
        "manual_seed": lambda _: str(torch.manual_seed(0).initial_seed()),
        "current_device": lambda _: str(untyped.cuda.current_device()),
        "autocast": autocast_in_worker,
    }

    def asked(make: Callable[[int], Any]) -> str:
        loader = DataLoader(
            Batches(make), batch_size=None, num_workers=1, timeout=patience(), multiprocessing_context="fork"
        )
        value = next(iter(loader))
        return value if isinstance(value, str) else f"{type(value).__name__}"

    return {name: answer(partial(asked, make), RuntimeError, AssertionError) for name, make in questions.items()}


def autocast_in_worker(_: int) -> str:
    """A region for the device in a worker that has none."""
    with torch.autocast("cuda", torch.bfloat16):
        return str(torch.is_autocast_enabled("cuda"))


class Slow(Dataset[Any]):
    """Items of some size, for loaders whose start is timed; its workers need nothing of this process."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((3, 32, 32), float(index))


def worker_start(seen: Seen) -> None:
    """Seconds until the first batch, and until the workers have gone, by start method."""
    torch.ones(1, device="cuda")
    with seen.part("works"):
        seen["batches"] = {method: sum(1 for _ in loader_of(method, 1)) for method in sized((), ("fork",))}
    for method in ("fork", "spawn", "forkserver"):
        with seen.part(method):
            if seen.times_on_cuda(f"{method}_seconds"):
                seen[f"{method}_seconds"] = start_times(method)
    with seen.part("passes"):
        if seen.times_on_cuda("pass_seconds"):
            seen["pass_seconds"] = {
                f"{workers} workers, pin_memory={pin}": rounded(passed(workers, pin=pin))
                for workers in (0, 2)
                for pin in (False, True)
            }


def loader_of(method: str, workers: int, **options: Any) -> DataLoader[Any]:
    """A loader with workers of a start method."""
    return DataLoader(Slow(), batch_size=8, num_workers=workers, multiprocessing_context=method, **options)


def start_times(method: str) -> dict[str, float]:
    """Seconds of the first pass's parts, and with a second loader where that is quick."""
    found: dict[str, float] = {}
    for name in ("first", "again") if method == "fork" else ("first",):
        loader = loader_of(method, 2 if method != "fork" else 4, persistent_workers=True)
        start = time.perf_counter()
        iterator = iter(loader)
        made = time.perf_counter()
        next(iterator)
        first = time.perf_counter()
        collections.deque(iterator, maxlen=0)
        whole = time.perf_counter()
        next(iter(loader))
        second = time.perf_counter()
        del loader, iterator
        found |= {
            f"{name}_iterator": rounded(made - start),
            f"{name}_batch_after_iterator": rounded(first - made),
            f"{name}_rest_of_pass": rounded(whole - first),
            f"{name}_second_pass_of_the_same_workers_first_batch": rounded(second - whole),
            f"{name}_end_of_workers": rounded(time.perf_counter() - second),
        }
    return found


def passed(workers: int, *, pin: bool) -> float:
    """Seconds of a pass over batches of 8 MiB that go to the device, the start of workers left out."""
    data = TensorDataset(torch.ones(128, 512, 512))
    loader = DataLoader(data, batch_size=8, num_workers=workers, pin_memory=pin, persistent_workers=workers > 0)
    seconds = 0.0
    for _ in range(2):  # the second counts
        untyped.cuda.synchronize()
        start = time.perf_counter()
        for (batch,) in loader:
            batch.to("cuda", non_blocking=True)
        untyped.cuda.synchronize()
        seconds = time.perf_counter() - start
    return seconds


def loader_forms(seen: Seen) -> None:
    """A small network on data that fits on the device: plain loader, batched indices, data on the device."""
    losses: dict[str, list[float]] = {}
    for name, form in FORMS.items():
        with seen.part(name):
            losses[name] = train(form, sized(1024, 128))[0]
    with seen.part("equal"):
        seen["losses_equal_to_the_plain_loader"] = {name: values == losses["plain"] for name, values in losses.items()}
    with seen.part("defer"):
        deferred = train(FORMS["plain"], sized(1024, 128), defer=True)[0]
        seen["losses_equal_when_read_at_the_end"] = deferred == losses["plain"]
    with seen.part("times"):
        if seen.times_on_cuda("pass_ms"):
            count = 8192
            train(FORMS["plain"], 1024)
            seen["steps"] = count // BATCH
            seen["pass_ms"] = {name: train(form, count)[1] for name, form in FORMS.items()}
            seen["pass_ms_when_losses_are_read_at_the_end"] = {
                name: train(FORMS[name], count, defer=True)[1] for name in ("plain", "batched", "batched_on_device")
            }


BATCH = 64


def plain(data: TensorDataset) -> Iterable[Any]:
    """A loader as scripts have it."""
    return DataLoader(data, batch_size=BATCH, shuffle=True)


def pinning(data: TensorDataset) -> Iterable[Any]:
    """The same with pinned memory."""
    return DataLoader(data, batch_size=BATCH, shuffle=True, pin_memory=True)


def batched(data: TensorDataset) -> Iterable[Any]:
    """The same batches, each by one index."""
    return DataLoader(data, sampler=BatchSampler(RandomSampler(data), BATCH, drop_last=False), batch_size=None)


def on_device(data: TensorDataset) -> Iterable[Any]:
    """The plain loader over data on the device."""
    return plain(TensorDataset(*(one.to("cuda") for one in data.tensors)))


def batched_on_device(data: TensorDataset) -> Iterable[Any]:
    """One index for each batch, over data on the device."""
    return batched(TensorDataset(*(one.to("cuda") for one in data.tensors)))


def with_workers(data: TensorDataset) -> Iterable[Any]:
    """Two workers."""
    return DataLoader(data, batch_size=BATCH, shuffle=True, num_workers=2, pin_memory=True)


FORMS: dict[str, Callable[[TensorDataset], Iterable[Any]]] = {
    form.__name__: form for form in (plain, pinning, batched, on_device, batched_on_device, with_workers)
}


def train(
    form: Callable[[TensorDataset], Iterable[Any]], count: int, *, defer: bool = False
) -> tuple[list[float], float]:
    """One pass of a network with one hidden layer.

    Args:
        form: Makes the loader.
        count: Rows.
        defer: Whether losses are read at the end and not in each step.

    Returns:
        The losses, and the milliseconds of the pass.
    """
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(count, 32), torch.randint(0, 10, (count,)))
    model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 10)).to("cuda")
    optimizer, criterion = torch.optim.SGD(model.parameters(), lr=0.1), nn.CrossEntropyLoss()
    loader, losses = form(data), []
    untyped.cuda.synchronize()
    start = time.perf_counter()
    for x, y in loader:
        x, y = x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)  # noqa: PLW2901 - as scripts do
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach() if defer else loss.item())
    values = torch.stack(losses).tolist() if defer else losses
    untyped.cuda.synchronize()
    return values, rounded(1000 * (time.perf_counter() - start))
