"""A judgement as text and as JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autotune_rewrite.verify.comparison import Ratio
    from autotune_rewrite.verify.judgement import Judgement

VERSION = 1
"""Of the JSON layout."""

SPEED = {
    "faster": "is faster",
    "no-difference": "is as fast as the original",
    "slower": "is slower",
    "inconclusive": "may or may not be faster: the measurement is inconclusive",
    "not-checked": "was not timed",
}
EQUALITY = {
    "equal": "computes the same, bit for bit",
    "non-inferior": "ends no worse than the original",
    "different": "computes something different",
    "inconclusive": "may or may not compute the same: the comparison is inconclusive",
    "not-checked": "was NOT CHECKED for equal results",
}
BASIS = {"whole": "", "extrapolated": ", extrapolated to the script's own length", "cut": ", of runs that were cut"}


def as_json(judgement: Judgement) -> dict[str, Any]:
    """The judgement as plain values, all of them valid JSON."""
    return {
        "version": VERSION,
        "run": judgement.run,
        "speed": judgement.speed,
        "equality": judgement.equality,
        "ratios": {
            "iteration": _ratio_as_json(judgement.iteration),
            "run": {**_ratio_as_json(judgement.whole), "basis": judgement.basis},
        },
        "reason": judgement.reason,
        "side": judgement.side,
        "promise": judgement.promise,
        "pairs": judgement.pairs,
        "losses": judgement.losses,
        "extrapolated": judgement.basis == "extrapolated",
        "not_measured": list(judgement.not_measured),
        "environment": dict(judgement.environment),
        "output": list(judgement.output),
        "sized": judgement.sized,
        "break_even": "never" if judgement.break_even == math.inf else judgement.break_even,
        "blamed": list(judgement.blamed),
        "written": list(judgement.written),
        "copies": list(judgement.copies),
    }


def as_text(judgement: Judgement) -> str:
    """The judgement in words, then the ratios, then the reason; without a final newline."""
    if judgement.run != "ok":
        return "\n".join([judgement.reason, *(f"  {line}" for line in judgement.output), *_notes(judgement)])
    lines = [f"The rewritten script {SPEED[judgement.speed]}; it {EQUALITY[judgement.equality]}."]
    if judgement.whole is not None and judgement.basis is not None:
        lines.append(f"  whole run  {_ratio_as_text(judgement.whole)}{BASIS[judgement.basis]}")
    if judgement.iteration is not None:
        lines.append(f"  iteration  {_ratio_as_text(judgement.iteration)}")
    if judgement.break_even is not None:
        lines.append(f"  the longer start {_paid_back(judgement.break_even)}")
    lines.append(judgement.reason)
    pairs = "1 pair" if judgement.pairs == 1 else f"{judgement.pairs} pairs"
    lines.append(
        f"Seen: {pairs} of runs with {judgement.losses} losses each, promise {judgement.promise}, {_where(judgement)}."
    )
    return "\n".join([*lines, *_notes(judgement)])


def _notes(judgement: Judgement) -> list[str]:
    """What else the user should know."""
    notes = [judgement.sized] if judgement.sized else []
    if judgement.not_measured:
        named = ", ".join(judgement.not_measured)
        notes.append(f"Not measured here, because they cannot act on this device: {named}.")
    if judgement.written:
        named = ", ".join(judgement.written)
        notes.append(f"Changed while the scripts ran, as they were too large for the copy of the project: {named}.")
    if judgement.copies:
        notes.append(f"Copies of the project: {', '.join(judgement.copies)}.")
    return notes


def _paid_back(iterations: float) -> str:
    return "is never paid back" if math.isinf(iterations) else f"is paid back after {math.ceil(iterations)} iterations"


def _where(judgement: Judgement) -> str:
    seen = judgement.environment
    cores = f"{seen.get('cpus', '?')} CPU cores"
    device = seen.get("gpu", cores)
    if judgement.simulated:
        device = f"{device} of capability {seen.get('simulated', '?')} on {cores}"
    return f"torch {seen.get('torch', '?')}, Python {seen.get('python', '?')}, {device}"


def _ratio_as_json(ratio: Ratio | None) -> dict[str, float | None]:
    if ratio is None:
        return {"estimate": None, "low": None, "high": None}
    return {"estimate": ratio.estimate, "low": ratio.low, "high": ratio.high}


def _ratio_as_text(ratio: Ratio) -> str:
    text = f"{ratio.estimate:.2f} times as fast"
    if ratio.low is None or ratio.high is None:
        return f"{text} (no interval from one pair)"
    return f"{text} ({ratio.low:.2f} to {ratio.high:.2f}, {100 * ratio.confidence:.0f} % interval)"
