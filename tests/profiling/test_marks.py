"""The marks of phases, with a clock and events that say what the test says."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.autograd import DeviceType  # type: ignore[attr-defined]

from autotune_rewrite.verify.child import profiled, tables
from autotune_rewrite.verify.child.profiled import (
    BACKWARD,
    COPIES,
    DATA,
    EVALUATION,
    FORWARD,
    OPTIMIZER,
    OTHER,
    WAITING,
    ZEROING,
    Marks,
)
from autotune_rewrite.verify.child.reads import Reads
from autotune_rewrite.verify.child.reads import target as device_told


class Event:
    """A CUDA event: the device is there twice as late as the host queues it."""

    def __init__(self, at: float) -> None:
        self.at = 2 * at

    def elapsed_time(self, later: Event) -> float:
        return 1000 * (later.at - self.at)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock is a second later than the one before it."""
    now = [0.0]

    def tick() -> float:
        now[0] += 1
        return now[0]

    monkeypatch.setattr(profiled, "time", SimpleNamespace(perf_counter=tick))
    monkeypatch.setattr(profiled, "_event", lambda: Event(now[0] + 1))


def run(marks: Marks, *phases: Any) -> None:
    """Goes through phases, one after the other; a tuple is a phase with those in it."""
    for phase in phases:
        first, *inner = phase if isinstance(phase, tuple) else (phase,)
        marks.around(first, lambda inner=inner: run(marks, *inner))()


def row(
    marks: Marks, *, on_device: bool = False, evaluations: tuple[tuple[float, float], ...] = ()
) -> dict[int, float]:
    first, last = marks.boundaries[-2:]
    seconds = marks.row(first, last, evaluations, on_device=on_device)
    return {phase: each for phase, each in enumerate(seconds) if each}


def iteration(*phases: Any, on_device: bool = False) -> Marks:
    marks = Marks(on_device=on_device)
    marks.begin()
    run(marks, BACKWARD, *phases)
    marks.begin()
    return marks


def test_phases_add_up_to_the_iteration() -> None:
    marks = iteration(OPTIMIZER, DATA, COPIES, ZEROING, FORWARD)

    found = row(marks)

    assert found == {OTHER: 6, BACKWARD: 1, OPTIMIZER: 1, DATA: 1, COPIES: 1, ZEROING: 1, FORWARD: 2}
    assert sum(found.values()) == marks.times[marks.boundaries[1]] - marks.times[marks.boundaries[0]]


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        pytest.param((FORWARD, WAITING), {FORWARD: 2, WAITING: 1}, id="a read in a model waits"),
        pytest.param((DATA, FORWARD, COPIES), {}, id="transforms that are modules belong to the data"),
        pytest.param((BACKWARD, FORWARD), {BACKWARD: 1}, id="a checkpoint runs in backward"),
        pytest.param((FORWARD, FORWARD), {FORWARD: 1}, id="a module in a module is no other phase"),
        pytest.param(
            (OPTIMIZER, ZEROING, FORWARD, BACKWARD),
            {OPTIMIZER: 4, ZEROING: 1, FORWARD: 1, BACKWARD: 1},
            id="a closure's parts are not the optimizer's",
        ),
    ],
)
def test_the_innermost_phase_counts(phase: tuple[int, ...], expected: dict[int, float]) -> None:
    found = row(iteration(phase, DATA))

    del found[OTHER]
    around = {BACKWARD: 1, DATA: 1}
    wanted = {each: around.get(each, 0) + expected.get(each, 0) for each in {*around, *expected}}
    assert found == ({**wanted, DATA: 2} if phase[0] == DATA else wanted)


def test_what_follows_the_model_is_the_loss() -> None:
    marks = iteration(FORWARD, WAITING, ZEROING)

    assert row(marks) == {OTHER: 2, BACKWARD: 1, FORWARD: 4, WAITING: 1, ZEROING: 1}
    assert marks.modules


@pytest.mark.parametrize("phase", [DATA, OPTIMIZER, BACKWARD])
def test_what_follows_anything_else_is_no_loss_of_a_model_before_it(phase: int) -> None:
    marks = iteration(FORWARD, phase)

    assert row(marks)[FORWARD] == 1
    assert not marks.modules


def test_without_a_module_nothing_is_taken_for_a_loss() -> None:
    marks = iteration(DATA)

    assert row(marks) == {OTHER: 3, BACKWARD: 1, DATA: 1}
    assert not marks.modules


def test_an_evaluation_owns_all_that_happens_in_it() -> None:
    marks = iteration(OPTIMIZER, DATA, FORWARD, DATA)
    start = marks.times[marks.boundaries[0]]

    found = row(marks, evaluations=((start + 4.5, start + 7.5),))

    assert found[EVALUATION] == 3
    assert sum(found.values()) == marks.times[marks.boundaries[1]] - start


def test_the_device_s_clock_counts_where_there_is_one() -> None:
    marks = iteration(DATA, on_device=True)

    assert row(marks, on_device=True) == {OTHER: 6, BACKWARD: 2, DATA: 2}


def test_a_mark_without_an_event_is_passed_over() -> None:
    marks = iteration(DATA, on_device=True)
    marks.events[marks.boundaries[0] + 3] = None  # where the data begins

    assert row(marks, on_device=True) == {OTHER: 8, BACKWARD: 2}


def test_a_fork_marks_nothing() -> None:
    marks = iteration(DATA)
    before = len(marks.times)
    marks.stop()

    run(marks, DATA, FORWARD)

    assert len(marks.times) == before


def test_an_error_leaves_the_phase() -> None:
    marks = Marks(on_device=False)
    with pytest.raises(StopIteration):
        marks.around(DATA, iter(()).__next__)()
    marks.begin()
    run(marks, FORWARD)
    marks.begin()

    assert row(marks) == {OTHER: 1, FORWARD: 2}


@pytest.mark.parametrize(
    ("args", "kwargs", "target"),
    [
        pytest.param(("cuda:1",), {}, "cuda", id="a name with an index"),
        pytest.param((torch.device("cuda"), torch.float16), {}, "cuda", id="a device, and a format"),
        pytest.param((), {"device": "mps"}, "mps", id="a keyword"),
        pytest.param((torch.float16,), {"device": "cuda"}, "cuda", id="a format, and a keyword"),
        pytest.param((0,), {}, "cuda", id="an index"),
        pytest.param((torch.ones(1),), {}, "cpu", id="another tensor's"),
        pytest.param((torch.float16,), {}, None, id="a format alone"),
        pytest.param((), {"dtype": torch.float16}, None, id="a format by keyword"),
    ],
)
def test_the_target_of_a_move_is_read_from_its_arguments(
    args: tuple[Any, ...], kwargs: dict[str, Any], target: str | None
) -> None:
    assert device_told(args, kwargs) == target


class TestReads:
    """What CUDA says of its waits, where warnings say it in its place."""

    SCRIPT = """
import warnings

def train(reads):
    for step in range(3):
        warnings.warn("called a synchronizing CUDA operation")
        reads.count("item")
    warnings.warn("of the script")
    reads.count("cpu")
"""

    @pytest.fixture
    def modes(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        asked: list[str] = []
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", asked.append)
        return asked

    def sites(self, reads: Any) -> list[dict[str, Any]]:
        names: dict[str, Any] = {}
        exec(compile(self.SCRIPT, "/copy/train.py", "exec"), names)  # noqa: S102 - a script of this test
        names["train"](reads)
        found: list[dict[str, Any]] = reads.sites()
        return found

    def test_are_counted_at_the_user_s_own_lines_and_confirmed_by_cuda(self, modes: list[str]) -> None:
        reads = Reads({"/copy": "/home/user"}, simulated=False)
        with warnings.catch_warnings(record=True) as others:
            warnings.simplefilter("ignore")  # as the script may have it
            reads.open()
            found = self.sites(reads)
            reads.close()

        assert found == [
            {"path": "/home/user/train.py", "line": 6, "calls": {}, "confirmed": 3},
            {"path": "/home/user/train.py", "line": 7, "calls": {"item": 3}, "confirmed": 0},
            {"path": "/home/user/train.py", "line": 9, "calls": {"cpu": 1}, "confirmed": 0},
        ]
        assert modes == ["warn", "default"]
        assert others == []

    @pytest.mark.usefixtures("modes")
    def test_leave_the_script_s_own_warnings_alone(self) -> None:
        shown: list[str] = []
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = lambda message, *_, **__: shown.append(str(message))
            reads = Reads({"/copy": "/home/user"}, simulated=False)
            reads.open()
            self.sites(reads)
            reads.close()

        assert shown == ["of the script"]

    def test_nobody_confirms_them_on_a_simulated_device(self) -> None:
        reads = Reads({"/copy": "/home/user"}, simulated=True)
        reads.is_open = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = self.sites(reads)

        assert [(each["line"], each["confirmed"]) for each in found] == [(7, None), (9, None)]


def test_the_device_is_busy_where_kernels_run_at_once_or_one_after_the_other() -> None:
    def event(start: float, end: float, kind: str = "CUDA", *, marked: bool = False) -> Any:
        return SimpleNamespace(
            time_range=SimpleNamespace(start=start, end=end),
            device_type=getattr(DeviceType, kind),
            is_user_annotation=marked,
            name="kernel",
        )

    events = [event(0, 100, "CPU"), event(10, 30), event(20, 40), event(60, 70), event(0, 100, marked=True)]

    assert tables.busy(events) == pytest.approx(0.4)
    assert tables.busy(events[:1]) is None


def test_adding_to_gradients_is_a_part_of_backward_by_the_device_s_time_where_there_is_one() -> None:
    def node(name: str, host: float, device: float) -> Any:
        return SimpleNamespace(key=f"{tables.ENGINE}{name}", cpu_time_total=host, device_time_total=device)

    adds = "torch::autograd::AccumulateGrad"

    assert tables.accumulation([node(adds, 1, 0), node("MmBackward0", 3, 0)]) == 0.25
    assert tables.accumulation([node(adds, 1, 1), node("MmBackward0", 3, 1)]) == 0.5
    assert tables.accumulation([]) is None
