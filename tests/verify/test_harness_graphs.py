"""Iterations that are replays of a CUDA graph; the graph is a stand-in that runs again what was captured."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from autotune_rewrite.verify.child import recorder as recorders

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Cuda:
    """Knows whether something is being captured."""

    capturing = False

    def is_initialized(self) -> bool:
        return True

    def is_current_stream_capturing(self) -> bool:
        return self.capturing


class Graph:
    """Keeps what was to be computed; copies that became a part of it are made again at each replay."""

    def __init__(self, cuda: Cuda) -> None:
        self.cuda = cuda
        self.step: Callable[[], None] = lambda: None

    def capture_begin(self) -> None:
        self.cuda.capturing = True

    def capture_end(self) -> None:
        self.cuda.capturing = False

    def replay(self) -> None:
        self.step()


@pytest.fixture
def cuda() -> Cuda:
    return Cuda()


@pytest.fixture
def recorder(cuda: Cuda, monkeypatch: pytest.MonkeyPatch) -> recorders.Recorder:
    config: Any = {"iterations": None, "seconds": None, "batches": None}
    recorder = recorders.Recorder(config)
    monkeypatch.setattr(recorder, "_cuda", cuda)
    for name, watch in (
        ("capture_begin", recorder._watched_capture),
        ("capture_end", recorder._watched_capture_end),
        ("replay", recorder._watched_replay),
    ):
        monkeypatch.setattr(Graph, name, watch(getattr(Graph, name)))
    return recorder


class OnDevice(torch.Tensor):
    """A loss that is not on the CPU, as far as the recorder can see."""

    is_cpu = False


def on_device(value: float) -> torch.Tensor:
    return torch.tensor([value]).as_subclass(OnDevice).sum()


def captured(graph: Graph, backward: Callable[..., None], *losses: torch.Tensor) -> None:
    """The backward calls of these losses, which compute nothing."""
    graph.capture_begin()
    for loss in losses:
        backward(loss)
    graph.capture_end()


def copies(recorder: recorders.Recorder, graph: Graph) -> list[Any]:
    """Where replays put their losses."""
    return recorder._captured[graph]


def test_what_is_captured_is_no_iteration(recorder: recorders.Recorder, cuda: Cuda) -> None:
    backward = recorder._watched_backward(lambda *_: None)
    captured(Graph(cuda), backward, on_device(1.0))
    assert recorder.losses() == []


def test_each_replay_is_an_iteration_with_the_loss_that_it_computed(recorder: recorders.Recorder, cuda: Cuda) -> None:
    graph, backward = Graph(cuda), recorder._watched_backward(lambda *_: None)
    captured(graph, backward, on_device(9.0))
    (copy,) = copies(recorder, graph)

    coming = iter((3.0, 2.0, 1.0))
    graph.step = lambda: copy.fill_(next(coming))
    for _ in range(3):
        graph.replay()

    assert recorder.losses() == [3.0, 2.0, 1.0]
    assert len(recorder.times) == len(recorder.waits) == 3


def test_the_loss_of_the_script_is_not_the_copy(recorder: recorders.Recorder, cuda: Cuda) -> None:
    graph, loss = Graph(cuda), on_device(9.0)
    captured(graph, recorder._watched_backward(lambda *_: None), loss)
    assert copies(recorder, graph)[0].data_ptr() != loss.data_ptr(), "the script's graph may use its memory again"


def test_two_backward_calls_in_a_graph_are_two_iterations(recorder: recorders.Recorder, cuda: Cuda) -> None:
    graph = Graph(cuda)
    captured(graph, recorder._watched_backward(lambda *_: None), on_device(1.0), on_device(2.0))
    graph.replay()
    assert recorder.losses() == [1.0, 2.0]


def test_eager_iterations_and_replays_count_together(recorder: recorders.Recorder, cuda: Cuda) -> None:
    graph, backward = Graph(cuda), recorder._watched_backward(lambda *_: None)
    backward(on_device(5.0))
    captured(graph, backward, on_device(4.0))
    graph.replay()
    backward(on_device(3.0))
    assert recorder.losses() == [5.0, 4.0, 3.0]


def test_a_graph_that_is_captured_anew_forgets_what_was_in_it(recorder: recorders.Recorder, cuda: Cuda) -> None:
    graph, backward = Graph(cuda), recorder._watched_backward(lambda *_: None)
    captured(graph, backward, on_device(1.0), on_device(2.0))
    captured(graph, backward, on_device(3.0))
    graph.replay()
    assert recorder.losses() == [3.0]


def test_graphs_without_a_backward_call_are_no_iterations(recorder: recorders.Recorder, cuda: Cuda) -> None:
    graph = Graph(cuda)
    captured(graph, recorder._watched_backward(lambda *_: None))
    graph.replay()
    assert recorder.losses() == []


def test_a_capture_by_another_class_is_left_alone(recorder: recorders.Recorder, cuda: Cuda) -> None:
    cuda.capturing = True
    recorder._watched_backward(lambda *_: None)(on_device(1.0))
    assert (recorder.losses(), len(recorder._captured)) == ([], 0)


def test_a_run_ends_before_the_replay_after_its_last_iteration(recorder: recorders.Recorder, cuda: Cuda) -> None:
    graph = Graph(cuda)
    captured(graph, recorder._watched_backward(lambda *_: None), on_device(1.0))
    recorder.limit = 2
    replayed: list[int] = []
    graph.step = lambda: replayed.append(1)
    graph.replay()
    graph.replay()

    with pytest.raises(recorders.Enough):
        graph.replay()

    assert (len(replayed), recorder.losses()) == (2, [1.0, 1.0])


def test_replays_tell_their_windows(
    recorder: recorders.Recorder, cuda: Cuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = Graph(cuda)
    captured(graph, recorder._watched_backward(lambda *_: None), on_device(1.0))
    recorder.begin(str(tmp_path / "record"))
    now = recorder._start + 10 * recorders.WINDOW
    monkeypatch.setattr(recorders, "clock", SimpleNamespace(now=lambda: now))

    graph.replay()

    (window,) = map(json.loads, (tmp_path / "record").read_text().splitlines())
    assert window["times"] == [10 * recorders.WINDOW]
