"""What a verification said before: a judgement read from a file, and what a run gains and costs by it."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import TYPE_CHECKING, Any

from autotune_rewrite.errors import FileError
from autotune_rewrite.report.judgement import VERSION, duration, memory
from autotune_rewrite.verify.judgement import Judgement
from autotune_rewrite.verify.records import Gpu
from autotune_rewrite.verify.statistics.measurement import Figures
from autotune_rewrite.verify.statistics.ratio import CONFIDENCE, Ratio
from autotune_rewrite.verify.statistics.seeds import Summary

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_COSTS = 0.05
"""The part by which a start, an end or memory has to grow to be a cost that is told."""


def load(path: Path) -> Judgement:
    """The judgement that a file or a directory of records holds.

    Args:
        path: What ``verify --format json`` or ``rewrite --verify --format json`` printed, or where ``--records`` wrote.

    Raises:
        FileError: when it is neither.
        VerifyError: when it is a directory, and its records cannot be judged.
    """
    if path.is_dir():
        from autotune_rewrite.verify import judge_again

        return judge_again(path)
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileError(str(path), error.strerror or str(error)) from error
    except ValueError as error:
        raise FileError(str(path), f"not JSON: {error}") from error
    if isinstance(values, dict) and "verification" in values:
        values = values["verification"]
    if not isinstance(values, dict) or values.get("version") != VERSION:
        raise FileError(str(path), f"not what `verify --format json` of this torchfast prints (version {VERSION})")
    try:
        return from_json(values)
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(str(path), f"not a judgement of torchfast verify ({error})") from error


def from_json(values: dict[str, Any]) -> Judgement:
    """The judgement that ``report.judgement.as_json`` has described.

    Raises:
        KeyError, TypeError, ValueError: when it has not.
    """
    names = {each.name for each in dataclasses.fields(Judgement)}
    known = {name: _frozen(value) for name, value in values.items() if name in names}
    confidence = values["confidence"] or CONFIDENCE
    ratios = {name: _ratio(each, confidence) for name, each in values["ratios"].items()}
    summary = values["summary"]
    breaks_even = values["break_even"]
    given: dict[str, Any] = {
        **known,
        "environment": values["environment"],
        "written": _frozen(values["changed_outside"]),
        "iteration": ratios["iteration"],
        "whole": ratios["run"],
        "over_tf32": ratios["over_tf32"],
        "basis": values["ratios"]["run"]["basis"],
        "break_even": math.inf if breaks_even == "never" else breaks_even,
        "original": _figures(values["original"]),
        "rewritten": _figures(values["rewritten"]),
        "summary": None if summary is None else Summary(**{key: _number(each) for key, each in summary.items()}),
    }
    return Judgement(**given)


def per_run(judgement: Judgement) -> Iterator[str]:
    """What a run gains and costs, in sentences; nothing of a simulated device."""
    before, after = judgement.original, judgement.rewritten
    if before is None or after is None or judgement.simulated:
        return
    saved = before.run_seconds - after.run_seconds
    amount = f"{duration(abs(saved))} {'less' if saved >= 0 else 'more'}"
    cut = " (runs were cut)" if judgement.basis in ("cut", "extrapolated") else ""
    yield f"A run takes {amount}{cut}: {duration(after.run_seconds)}, where it took {duration(before.run_seconds)}."
    costs = []
    for name, old, new in (
        ("start", before.start_seconds, after.start_seconds),
        ("end of the process", before.exit_seconds, after.exit_seconds),
    ):
        # What takes a hundredth of the run is no cost of it.
        if old is not None and new is not None and new - old > max(_COSTS * old, 0.01 * after.run_seconds):
            costs.append(f"its {name} {duration(new - old)} more")
    for name, size, larger in (
        ("device memory", before.device_allocated, after.device_allocated),
        ("host memory", before.host_bytes, after.host_bytes),
    ):
        if size and larger and larger - size > _COSTS * size:
            costs.append(f"{memory(larger - size)} more {name}")
    if costs:
        yield f"It costs: {', '.join(costs)}."


def _ratio(values: dict[str, Any], confidence: float) -> Ratio | None:
    estimate = values["estimate"]
    return None if estimate is None else Ratio(estimate, values["low"], values["high"], confidence)


def _figures(values: dict[str, Any] | None) -> Figures | None:
    if values is None:
        return None
    gpu = values["gpu"]
    return Figures(**{**values, "gpu": None if gpu is None else Gpu(**{**gpu, "throttled": tuple(gpu["throttled"])})})


def _number(value: object) -> Any:  # noqa: ANN401 - of any type
    """JSON has null for what is not a number."""
    return math.nan if value is None else value


def _frozen(value: object) -> Any:  # noqa: ANN401 - of any type
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
