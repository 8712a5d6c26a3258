"""What tuning a script came to: on one screen, as JSON, and as Markdown."""

from __future__ import annotations

import dataclasses
import re
import sys
from io import StringIO
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from autotune_rewrite.report import judgement as verdict
from autotune_rewrite.report.diff import preview, texts, unified
from autotune_rewrite.report.markdown import escaped
from autotune_rewrite.tune.trials import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from autotune_rewrite.rewriting.results import Site
    from autotune_rewrite.tune.search import Part
    from autotune_rewrite.tune.tuned import Tuned
    from autotune_rewrite.verify.statistics.ratio import Ratio

VERSION = 1
"""Of the JSON layout."""
WIDTH = verdict.WIDTH
BAR = 40
"""Columns of the longest bar."""
ANSWERS = {
    "kept": "kept",
    "dropped": "dropped: no gain beyond the noise",
    "failed": "left out",
    "not-told": "not told apart from the others: the budget was spent",
}
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? ")
_STYLES = {"---": "bold", "+++": "bold", "@@": "cyan", "-": "red", "+": "green"}
HEADS = ("rule", "alone", "beside the others", "")


@dataclasses.dataclass(frozen=True, slots=True)
class Cost:
    """What a run costs."""

    hourly: float
    """Of the machine, in whatever currency."""
    original: float
    rewritten: float

    @classmethod
    def of(cls, tuned: Tuned, hourly: float) -> Cost | None:
        """By how long a whole run takes; None where none was seen."""
        judgement = tuned.confirmed
        if judgement is None or judgement.original is None or judgement.whole is None or judgement.basis == "cut":
            return None
        seconds = judgement.original.run_seconds
        return cls(hourly, seconds * hourly / 3600, seconds / judgement.whole.estimate * hourly / 3600)


def headline(tuned: Tuned) -> str:
    """The answer in a sentence."""
    if not tuned.pays:
        whole = tuned.whole.whole if tuned.whole is not None and tuned.found is not None else None
        is_open = whole is not None and tuned.found is not None and not tuned.found.is_complete
        known = f" It is {whole}." if is_open and whole is not None else ""
        return f"Nothing is changed. {tuned.reason}{known}"
    assert tuned.found is not None  # noqa: S101 - something of it pays
    assert tuned.confirmed is not None  # noqa: S101 - what pays was confirmed
    kept = tuned.found.variant.rules
    looked_at = len(tuned.found.parts) + len(tuned.failed)
    ratio = tuned.confirmed.whole
    faster = "" if ratio is None else f": {ratio}"
    same = verdict.EQUALITY[tuned.confirmed.equality]
    return f"{len(kept)} of {looked_at} rules pay{'s' * (len(kept) == 1)}{faster}. The result {same}."


def rows(tuned: Tuned) -> Iterator[tuple[str, str, str, str]]:
    """What was found out about each rule."""
    for part in tuned.found.parts if tuned.found is not None else ():
        yield part.rule, _cell(part.alone), _cell(part.beside), _answer(part)
    for rule, why in tuned.failed:
        yield rule, "", "", f"left out: {why}"
    for rule in tuned.not_measured:
        yield rule, "", "", "not measured here: it cannot act on this device"


def bars(tuned: Tuned) -> Iterator[tuple[str, float, str]]:
    """From the original to the result: what is shown, the part of the original's time, and words.

    Each step is the gain of a rule beside the others; what they do together is the ratio that was confirmed.
    """
    judgement = tuned.confirmed
    if not tuned.pays or judgement is None or judgement.whole is None or tuned.found is None:
        return
    original = None if judgement.original is None else judgement.original.run_seconds
    yield "original", 1.0, verdict.duration(original)
    gains = ((rule, ratio.estimate) for rule, ratio in tuned.gains.items() if ratio is not None)
    known = sorted(gains, key=lambda each: -each[1])
    left = 1.0
    for rule, factor in known[:-1]:
        left /= factor
        yield rule, left, f"{factor:.2f} x"
    end = 1 / judgement.whole.estimate
    yield (known[-1][0] if known else "result"), end, verdict.duration(None if original is None else original * end)


def figures(tuned: Tuned) -> Iterator[tuple[str, str, str]]:
    """What the runs that confirmed the result show: a name, and the figures of the original and of the result."""
    if tuned.confirmed is not None and tuned.pays:
        yield from verdict.rows(tuned.confirmed)


def labelled(lines: Sequence[str], sites: Sequence[Site], tuned: Tuned) -> Iterator[str]:
    """The lines of a diff; behind the numbers of each hunk stand its rules, each with what it gains.

    ``patch`` and ``git apply`` take no notice of that.
    """
    for line in lines:
        found = _HUNK.match(line)
        yield line if found is None else f"{line} {_gains_within(*_lines_of(found), sites, tuned)}".rstrip()


def _lines_of(found: re.Match[str]) -> tuple[int, int]:
    """The first and the last line of a hunk in the original; an insertion behind a line is in a hunk of it."""
    first, count = int(found[1]), int(found[2] or 1)
    return first, first + max(count, 1) - 1


def _gains_within(first: int, last: int, sites: Sequence[Site], tuned: Tuned) -> str:
    """The rules that change something within these lines, each with what it gains beside the others."""
    rules = {
        site.rule
        for site in sites
        for span in site.edits
        if span.line <= last and first <= max(span.line, span.end_line)
    }
    gains = tuned.gains
    return "; ".join(f"{rule} {_gain(gains[rule]) if rule in gains else 'not measured here'}" for rule in sorted(rules))


def _gain(ratio: Ratio | None) -> str:
    return "beside the others" if ratio is None else _cell(ratio)


def show(tuned: Tuned, script: str, cost: Cost | None) -> None:
    """Prints it, in colours and at the width of a terminal where it is one."""
    if not sys.stdout.isatty():
        sys.stdout.write(f"{as_text(tuned, script, cost)}\n")
        return
    console = Console()
    width = min(console.width, WIDTH)
    console.print(Group(*_screen(tuned, script, cost)), crop=False, width=width)


def as_text(tuned: Tuned, script: str, cost: Cost | None) -> str:
    """The same without colours; without a final newline."""
    written = StringIO()
    console = Console(file=written, width=WIDTH, color_system=None, force_terminal=False, legacy_windows=False)
    console.print(Group(*_screen(tuned, script, cost)), crop=False)
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines())


def as_json(tuned: Tuned, script: str, cost: Cost | None, exit_code: int) -> dict[str, Any]:
    """The same as plain values."""
    found = tuned.found
    return {
        "version": VERSION,
        "script": script,
        "pays": tuned.pays,
        "reason": tuned.reason,
        "rules": sorted(found.variant.rules) if found is not None and tuned.pays else [],
        "values": dict(found.variant.values) if found is not None and tuned.pays else {},
        "is_complete": found is None or found.is_complete,
        "parts": [_part(each) for each in found.parts] if found is not None else [],
        "failed": dict(tuned.failed),
        "not_measured": list(tuned.not_measured),
        "everything": None if tuned.whole is None else verdict.as_json(tuned.whole),
        "verification": None if tuned.confirmed is None else verdict.as_json(tuned.confirmed),
        "cost": None if cost is None else dataclasses.asdict(cost),
        "seconds": tuned.seconds,
        "length": tuned.length,
        "figures": [dict(zip(("name", "original", "result"), each, strict=True)) for each in figures(tuned)],
        "diff": "\n".join(_diff(tuned, whole=True)),
        "exit_code": exit_code,
    }


def as_markdown(tuned: Tuned, script: str, cost: Cost | None) -> str:
    """The same for the description of a pull request; without a final newline."""
    blocks = [f"### {escaped(script)}: {escaped(headline(tuned))}"]
    cells = [HEADS, *rows(tuned)]
    if len(cells) > 1:
        lines = ["| " + " | ".join(map(escaped, row)) + " |" for row in cells]
        blocks.append("\n".join([lines[0], "| :-- | --: | --: | :-- |", *lines[1:]]))
    blocks += [escaped(note) for note in notes(tuned, cost)]
    diff = list(_diff(tuned, whole=False))
    if diff:
        fence = "`" * (3 + max((len(line) - len(line.lstrip("`")) for line in diff), default=0))
        blocks += ["<details>\n<summary>The changes</summary>", "\n".join([f"{fence}diff", *diff, fence]), "</details>"]
    return "\n\n".join(blocks)


def notes(tuned: Tuned, cost: Cost | None) -> Iterator[str]:
    """What else is to be known, in sentences."""
    if tuned.found is not None and tuned.found.variant.values and tuned.pays:
        values = ", ".join(f"{OPTIONS[name].flag} {value}" for name, value in tuned.found.variant.values)
        yield f"With {values}."
    if tuned.whole is not None and tuned.whole.output:
        yield from (f"  {line}" for line in verdict.output(tuned.whole)[-verdict.LAST_LINES :])
    if tuned.found is not None and not tuned.found.is_complete:
        yield "The budget was spent before all was tried: --budget gives it more, and goes on from here."
    if cost is not None:
        yield f"A run costs {cost.rewritten:.3g} in the place of {cost.original:.3g}, at {cost.hourly:g} an hour."
    judgement = tuned.confirmed
    for name, before, after in figures(tuned):
        yield f"{name[0].upper()}{name[1:]}: {before} → {after}."
    if judgement is not None and verdict.paid_back(judgement):
        length = "" if tuned.length is None else f", of {tuned.length} in a run of this script"
        yield f"{verdict.paid_back(judgement).capitalize()}{length}."
    if judgement is not None:
        yield verdict.seen(judgement)


def _screen(tuned: Tuned, script: str, cost: Cost | None) -> Iterator[RenderableType]:
    yield Text(f"{script}: {headline(tuned)}", "bold green" if tuned.pays else "bold yellow")
    cells = list(rows(tuned))
    if cells:
        yield Text()
        yield _table(cells)
    steps = list(bars(tuned))
    if steps:
        yield Text()
        yield _bars(steps)
    more = list(notes(tuned, cost))
    if more:
        yield Text()
        yield from (Text(each, "dim") for each in more)
    diff = list(_diff(tuned, whole=False))
    if diff:
        yield Text()
        yield from (Text(each, _style(each), no_wrap=True, overflow="ignore") for each in diff)


def _style(line: str) -> str:
    """Of a line of a diff."""
    return next((style for mark, style in _STYLES.items() if line.startswith(mark)), "")


def _table(cells: Sequence[tuple[str, str, str, str]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False, header_style="dim")
    for head, side in zip(HEADS, ("left", "right", "right", "left"), strict=True):
        table.add_column(head, justify=side, no_wrap=side == "right" or head == "rule")  # type: ignore[arg-type]
    for row in cells:
        table.add_row(*row)
    return table


def _bars(steps: Sequence[tuple[str, float, str]]) -> Table:
    longest = max(part for _, part, _ in steps)
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False, show_header=False)
    for name, part, words in steps:
        table.add_row(name, "█" * max(1, round(BAR * part / longest)), words)
    return table


def _diff(tuned: Tuned, *, whole: bool) -> Iterator[str]:
    for done in tuned.changes.dones if tuned.changes is not None else ():
        for cell, before, after in texts(done.rewrite):
            path = done.rewrite.path if cell is None else f"{done.rewrite.path} cell {cell}"
            lines = (unified if whole else preview)(path, before, after)
            yield from labelled(lines, done.rewrite.sites, tuned) if cell is None else lines


def _part(part: Part) -> dict[str, Any]:
    return {
        "rule": part.rule,
        "answer": part.answer,
        "why": part.why,
        **{name: _ratio(getattr(part, name)) for name in ("alone", "beside")},
    }


def _ratio(ratio: Ratio | None) -> dict[str, Any] | None:
    return None if ratio is None else dataclasses.asdict(ratio)


def _answer(part: Part) -> str:
    said = ANSWERS[part.answer]
    return f"{said}: {part.why}" if part.answer == "failed" else said


def _cell(ratio: Ratio | None) -> str:
    return "" if ratio is None else str(ratio).replace("times as fast", "x")
