"""The table of what looks into a run, held against the installed torch."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest
import torch

from codemods.library.diagnostics import (
    ASKS_FOR_ANOMALY,
    HANDS_ON_PROFILE,
    READS_HISTORY,
    Diagnosis,
    diagnosis,
    names,
    reads_clock,
    switch,
)

EARLIER = {"torch.cuda._record_memory_history", "time.clock"}
HIDDEN = {f"torch.autograd.gradcheck.{name}" for name in ("gradcheck", "gradgradcheck")}
"""What a function hides that has the name of its module."""


def found(name: str) -> Any:
    """What the qualified name stands for."""
    parts = name.split(".")
    thing: Any = importlib.import_module(parts[0])
    for index, part in enumerate(parts[1:], start=2):
        thing = getattr(thing, part) if hasattr(thing, part) else importlib.import_module(".".join(parts[:index]))
    return thing


@pytest.mark.parametrize("name", sorted(names() - EARLIER - HIDDEN))
def test_what_is_named_is_there(name: str) -> None:
    assert callable(found(name))


@pytest.mark.parametrize("name", sorted(each for each in names() if switch(each) is not None))
def test_the_first_argument_switches_it_on(name: str) -> None:
    assert next(iter(inspect.signature(found(name)).parameters)) == switch(name)


def test_a_profiler_is_told_by_these_what_to_do_with_what_it_records() -> None:
    assert inspect.signature(torch.profiler.profile).parameters.keys() >= HANDS_ON_PROFILE


def test_the_history_of_memory_is_read_by_functions_of_torch() -> None:
    assert [each for each in READS_HISTORY if not hasattr(torch.cuda.memory, each)] == []


def test_anomaly_detection_can_be_asked_for() -> None:
    assert not any(found(each)() for each in ASKS_FOR_ANOMALY - {"torch.is_anomaly_check_nan_enabled"})


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("torch.autograd.detect_anomaly", Diagnosis.ANOMALY),
        ("torch.profiler.record_function", None),
        ("time.time", None),
    ],
)
def test_what_is_looked_into(name: str, kind: Diagnosis | None) -> None:
    assert diagnosis(name) is kind


@pytest.mark.parametrize(
    ("name", "reads"),
    [("time.perf_counter", True), ("torch.profiler.profile", True), ("time.strftime", False), ("time.sleep", False)],
)
def test_what_reads_a_clock(name: str, reads: bool) -> None:  # noqa: FBT001 - a column of the table
    assert reads_clock(name) is reads
