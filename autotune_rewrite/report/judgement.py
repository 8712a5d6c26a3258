"""A judgement on one screen and as JSON."""

from __future__ import annotations

import dataclasses
import math
import sys
import textwrap
from io import StringIO
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import RenderableType

    from autotune_rewrite.verify.judgement import Judgement
    from autotune_rewrite.verify.records import Gpu
    from autotune_rewrite.verify.statistics.measurement import Figures
    from autotune_rewrite.verify.statistics.ratio import Ratio

VERSION = 3
"""Of the JSON layout. 2: what each side's runs say, the summary, the ratio over TF32, limits, and what went wrong.
3: what runs changed outside of their copies is ``changed_outside``; the rules that were applied."""
WIDTH = 100
"""Columns at most: longer lines are hard to read."""
LAST_LINES = 16
"""Of a failed script: with what is said of it they fill a screen. JSON has all that were kept."""
NAMED = 3
"""Paths that are named before the rest is counted."""

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
SEEN = ("faster", "no-difference", "slower", "equal", "non-inferior")
"""What is said no farther than runs went."""
FAILED = {
    "crashed": "crashed",
    "exited": "ended with an error status",
    "killed": "was killed",
    "vanished": "ended without a trace",
    "out-of-memory": "ran out of memory",
    "timed-out": "did not end in time",
    "interrupted": "was interrupted",
}
CAPTURED_ONLY = (
    "torch.compile captured the graphs here, and ran them as they are (aot_eager): Inductor made no kernels, whose "
    "crashes and rounding a GPU alone shows."
)
BASIS = {"whole": "", "extrapolated": ", extrapolated to its own length", "cut": ", of runs that were cut"}


def as_json(judgement: Judgement) -> dict[str, Any]:
    """The judgement as plain values, all of them valid JSON: a number that is not finite is null."""
    values = {each.name: _plain(getattr(judgement, each.name)) for each in dataclasses.fields(judgement)}
    for name in ("iteration", "whole", "basis", "over_tf32", "written"):
        del values[name]
    return {
        "version": VERSION,
        **values,
        "changed_outside": list(judgement.written),
        "ratios": {
            "iteration": _ratio_as_json(judgement.iteration),
            "run": {**_ratio_as_json(judgement.whole), "basis": judgement.basis},
            "over_tf32": _ratio_as_json(judgement.over_tf32),
        },
        "confidence": None if judgement.whole is None else judgement.whole.confidence,
        "extrapolated": judgement.basis == "extrapolated",
        "break_even": "never" if judgement.break_even == math.inf else judgement.break_even,
        "exit_code": judgement.exit_code,
    }


def as_text(judgement: Judgement) -> str:
    """The judgement in words, then figures, then why and how it was seen; without a final newline."""
    written = StringIO()
    console = Console(file=written, width=WIDTH, color_system=None, force_terminal=False, legacy_windows=False)
    console.print(Group(*_screen(judgement, WIDTH)), crop=False)
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines())


def show(judgement: Judgement, *, to_stderr: bool = False) -> None:
    """Prints the same, in colours and at the width of a terminal where it is one.

    Args:
        judgement: What to say.
        to_stderr: Say it on standard error, as something else stands on standard output.
    """
    stream = sys.stderr if to_stderr else sys.stdout
    if not stream.isatty():
        stream.write(f"{as_text(judgement)}\n")
        return
    console = Console(stderr=to_stderr)
    width = min(console.width, WIDTH)
    console.print(Group(*_screen(judgement, width)), crop=False, width=width)


def idle(judgement: Judgement) -> str:
    """How many rules cannot act on the device, to be said before all else; empty where all can, or it is not known."""
    names = [name for name in judgement.not_measured if name in judgement.applied]
    if not names or judgement.run != "ok":
        return ""
    count, total = len(names), len(judgement.applied)
    rules = "1 rule" if total == 1 else f"{total} rules"
    cannot = f"None of the {rules} can" if count == total > 1 else f"{count} of {rules} cannot"
    acting = ", ".join(name for name in judgement.applied if name not in names)
    judged = f"What follows is about {acting} alone" if acting else "What follows says nothing of them"
    device, advice = ("device", "") if judgement.environment.get("cuda") else ("CPU", "; try --device simulated")
    return f"{cannot} act on this {device}: {', '.join(names)}. {judged}{advice}."


def headline(judgement: Judgement) -> str:
    """The judgement in one sentence."""
    if judgement.run == "ok":
        cut = "" if judgement.reach is None else f" over its first {judgement.reach} iterations"
        timed = cut if judgement.basis == "cut" and judgement.speed in SEEN else ""
        compared = cut if judgement.equality in SEEN else ""
        return f"The rewritten script {SPEED[judgement.speed]}{timed}; it {EQUALITY[judgement.equality]}{compared}."
    # That the user ended it is neither script's failure.
    who = "comparison" if judgement.run == "interrupted" else f"{judgement.side} script"
    return f"The {who} {FAILED[judgement.run]}: speed and results were NOT CHECKED."


def ratios(judgement: Judgement) -> Iterator[tuple[str, str]]:
    """What each ratio is of, and the ratio with its interval."""
    if judgement.whole is not None and judgement.basis is not None:
        yield "whole run", f"{_ratio_as_text(judgement.whole)}{BASIS[judgement.basis]}"
    if judgement.over_tf32 is not None:
        yield "over TF32", _ratio_as_text(judgement.over_tf32, " as the original with TF32")
    if judgement.iteration is not None:
        yield "iteration", _ratio_as_text(judgement.iteration)


def paid_back(judgement: Judgement) -> str:
    """What becomes of a longer start, in words; empty where it is no longer."""
    if judgement.break_even is None:
        return ""
    if math.isinf(judgement.break_even):
        return "the longer start is never paid back"
    return f"the longer start is paid back after {math.ceil(judgement.break_even)} iterations"


def rows(judgement: Judgement) -> Iterator[tuple[str, str, str]]:
    """A name and the figures of the original and the rewritten script, where one of them has one."""
    # Of a simulated device, times and memory say nothing.
    sides = (None, None) if judgement.simulated else (judgement.original, judgement.rewritten)
    for name, cell in _ROWS:
        before, after = ("" if side is None else cell(side) for side in sides)
        if before or after:
            yield name, before or "-", after or "-"
    summary = judgement.summary
    if summary is not None and not (math.isnan(summary.original) and math.isnan(summary.rewritten)):
        after = f"{summary.rewritten:.4g} (margin {significant(summary.margin)})"
        yield summary.name.removeprefix("the "), f"{summary.original:.4g}", after


def seen(judgement: Judgement) -> str:
    """How much was seen, and where, in a sentence."""
    pairs = "1 pair" if judgement.pairs == 1 else f"{judgement.pairs} pairs"
    in_turns = f", {judgement.in_turns} of them in turns," if judgement.in_turns else ""
    amount = f"{pairs} of runs{in_turns} with {judgement.losses} losses each"
    noise = "" if judgement.noise is None else f", {100 * judgement.noise:.1f} % between two runs of the original"
    return f"Seen: {amount}{noise}, promise {judgement.promise}, {environment(judgement)}."


def environment(judgement: Judgement) -> str:
    """Versions and hardware."""
    known = judgement.environment
    cores = f"{known.get('cpus', '?')} CPU cores"
    device = known.get("gpu", cores)
    if judgement.simulated:
        device = f"{device} of capability {known.get('simulated', '?')} on {cores}"
    return f"torch {known.get('torch', '?')}, Python {known.get('python', '?')}, {device}"


def notes(judgement: Judgement) -> Iterator[str]:
    """What else the user should know, in sentences."""
    if judgement.interrupted and judgement.run == "ok":
        yield "The comparison was interrupted: this is judged by the runs that had ended by then."
    yield from filter(None, (_unused(judgement), judgement.sized))
    throttled = _throttled(judgement)
    if throttled:
        yield f"The GPU's clock was held back for a time ({', '.join(throttled)})."
    for rule, why in judgement.left_out:
        yield f"{rule} was left out. {why}"
    others = [name for name in judgement.not_measured if name not in judgement.applied]
    if others:
        yield f"Not measured here, because they cannot act on this device: {', '.join(others)}."
    if judgement.captured_only:
        yield CAPTURED_ONLY
    if judgement.left_running:
        processes = "1 process" if judgement.left_running == 1 else f"{judgement.left_running} processes"
        yield f"Left running by a script, and ended: {processes}."
    if judgement.written:
        named = _named(judgement.written)
        yield f"Changed meanwhile outside the copy of the project, perhaps by the scripts: {named}."
    if judgement.copies:
        yield f"Copies of the project: {_named(judgement.copies)}."


def _unused(judgement: Judgement) -> str:
    """That what differs from the revision was not seen to be used; empty where it was, or none was asked for."""
    base = judgement.base
    if base is None or base.used or base.original != base.rewritten:
        return ""
    files = "1 file differs" if base.differing == 1 else f"{base.differing} files differ"
    return f"{files}, none of which a run imported: unless they are data, both sides were the same."


def output(judgement: Judgement) -> list[str]:
    """The last lines of the run that failed, without what steers a terminal: it would steer this one."""
    return [Text.from_ansi(line).plain.rstrip() for line in judgement.output]


def _throttled(judgement: Judgement) -> list[str]:
    """Why the GPU held its clock back, in either side's runs."""
    gpus = [figures.gpu for figures in (judgement.original, judgement.rewritten) if figures is not None]
    return list(dict.fromkeys(reason for gpu in gpus if gpu is not None for reason in gpu.throttled))


def significant(value: float) -> str:
    """Three significant digits, and never an exponent from 100 on."""
    rounded = float(f"{value:.3g}")
    if rounded == 0:
        return "0"
    return f"{rounded:.0f}" if abs(rounded) >= 100 else f"{rounded:#.3g}"  # noqa: PLR2004 - it has three digits


def _screen(judgement: Judgement, width: int) -> Iterator[RenderableType]:
    """The report, from above to below."""
    passed = judgement.exit_code == 0 and not idle(judgement)
    colour = "red" if judgement.run != "ok" else "green" if passed else "yellow"
    if idle(judgement):
        yield _wrapped(idle(judgement), width, "bold yellow")
    head = _wrapped(headline(judgement), width, f"bold {colour}")
    head.highlight_words(["NOT CHECKED"], "bold reverse red")
    yield head
    if judgement.base is not None:
        yield _wrapped(f"{judgement.base.then} beside {judgement.base.now}", width)
    if judgement.run == "ok":
        yield from (_wrapped(f"  {name}  {ratio}", width) for name, ratio in ratios(judgement))
        if judgement.break_even is not None:
            yield _wrapped(f"  {paid_back(judgement)}", width)
        yield from _table(tuple(rows(judgement)))
    yield _wrapped(judgement.reason, width)
    if judgement.limits:
        yield _wrapped(judgement.limits, width)
    if judgement.run == "ok":
        yield _wrapped(seen(judgement), width, "dim")
    for line in output(judgement)[-LAST_LINES:]:
        yield Text(f"  {line}", "dim", no_wrap=True, overflow="ignore")
    yield from (_wrapped(note, width) for note in notes(judgement))


def _table(cells: Sequence[tuple[str, str, str]]) -> Iterator[RenderableType]:
    if not cells:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
    table.add_column("")
    table.add_column("original", justify="right")
    table.add_column("rewritten", justify="right")
    for row in cells:
        table.add_row(*map(Text, row))
    yield Padding(table, (0, 0, 0, 2))


def _wrapped(text: str, width: int, style: str = "") -> Text:
    """Lines that end between words alone: a path stays whole."""
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    return Text("\n".join(lines), style, no_wrap=True, overflow="ignore")


def duration(seconds: float | None) -> str:
    """Such as "12.3 ms"; empty where it is not known."""
    if seconds is None:
        return ""
    # Rounded first: 999.9 ms are a second.
    long = float(f"{seconds:.3g}") >= 1
    return f"{significant(seconds)} s" if long else f"{significant(1000 * seconds)} ms"


def memory(count: int | None) -> str:
    """Such as "12.3 MiB", from 1000 on "1.23 GiB"; empty where it is not known."""
    if not count:
        return ""
    size = count / 2**20
    large = float(f"{size:.3g}") >= 1000  # noqa: PLR2004 - more has no three digits
    return f"{significant(size / 1024)} GiB" if large else f"{significant(size)} MiB"


def _amount(value: float | None, unit: str = "") -> str:
    return "" if value is None else f"{significant(value)}{unit}"


def _with(value: str, other: str) -> str:
    """A figure with another in brackets, as far as they are known."""
    return f"{value or '-'} ({other})" if other else value


def _gpu(gpu: Gpu | None) -> str:
    if gpu is None:
        return ""
    return _with(_amount(gpu.utilization, " %"), "" if gpu.energy is None else _amount(gpu.energy / 1000, " kJ"))


_ROWS: tuple[tuple[str, Callable[[Figures], str]], ...] = (
    ("iteration", lambda seen: duration(seen.iteration_seconds)),
    ("run (start)", lambda seen: _with(duration(seen.run_seconds), duration(seen.start_seconds))),
    ("end of the process", lambda seen: duration(seen.exit_seconds)),
    ("epoch (evaluation)", lambda seen: _with(duration(seen.epoch_seconds), duration(seen.evaluation_seconds))),
    ("waiting for data", lambda seen: "" if seen.waiting is None else _amount(100 * seen.waiting, " %")),
    ("samples/s", lambda seen: _amount(seen.samples_per_second)),
    ("device memory (reserved)", lambda seen: _with(memory(seen.device_allocated), memory(seen.device_reserved))),
    ("host memory", lambda seen: memory(seen.host_bytes)),
    ("GPU busy (energy)", lambda seen: _gpu(seen.gpu)),
)
"""The table: names, and what stands beside them; empty where it is not known."""


def _named(paths: Sequence[str]) -> str:
    rest = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return f"{', '.join(paths[:NAMED])}{rest}"


def _plain(value: Any) -> Any:  # noqa: ANN401 - any of a judgement's values
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _ratio_as_json(ratio: Ratio | None) -> dict[str, float | None]:
    names = ("estimate", "low", "high")
    return {name: None if ratio is None else _plain(getattr(ratio, name)) for name in names}


def _ratio_as_text(ratio: Ratio, than: str = "") -> str:
    text = f"{ratio.estimate:.2f} times as fast{than}"
    if ratio.low is None or ratio.high is None:
        return f"{text} (no interval from one pair)"
    return f"{text} ({ratio.low:.2f} to {ratio.high:.2f}, {100 * ratio.confidence:.0f} % interval)"
