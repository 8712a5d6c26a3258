"""What a text is said to be beside the naive one: single values, the cells of tables, and tables for the terminal.

A figure that was not measured is a dash. Failures come first, with what they said.
"""

from __future__ import annotations

import math
import re
import textwrap
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from autotune_rewrite.verify.comparison import Comparison
from autotune_rewrite.verify.judgement import ENDED, SAME
from autotune_rewrite.verify.records import run_of
from autotune_rewrite.verify.statistics.pairs import Pair
from tests.gpu.judging import compared
from tests.gpu.running import NAIVE
from tests.gpu.speed import COLD, TF32

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from autotune_rewrite.verify.judgement import Judgement
    from autotune_rewrite.verify.records import Run
    from autotune_rewrite.verify.statistics.measurement import Figures
    from autotune_rewrite.verify.statistics.ratio import Ratio
    from tests.gpu.judging import Beside
    from tests.gpu.tasks import Values

MISSING = "\N{EN DASH}"
"""Stands in Markdown where nothing was measured."""
NOT_CHECKED = "Speed was not checked: the CUDA device was simulated on the CPU."
NAMES = {
    NAIVE: "naive",
    TF32: "naive with TF32",
    "default": "rewritten",
    f"default, {COLD}": "rewritten, compiling anew",
    f"expert, {COLD}": "expert, compiling anew",
    "with_accelerate": "Accelerate, by hand",
    "with_lightning": "Lightning, by hand",
}
"""What the page and its pictures call the texts."""
ONLY, WITHOUT, WORKERS = "only-", "without-", "workers-"
LAST_LINES = 20
"""Of a run that failed."""
LONGEST = 118
"""Characters of a line about a fact."""
FEW = 6
"""Entries that are named one by one."""
GIB, HUNDRED = 2**30, 100
Cells = tuple[str, ...]


# --- What is shown of a text beside the naive one ---------------------------------------------------------------------


def is_simulated(judgement: Judgement) -> bool:
    """Whether no times may be shown, as nothing was a GPU."""
    return judgement.simulated or "simulated" in judgement.environment


def judgement_of(beside: Beside) -> Judgement:
    """What is judged of it, without any times that say nothing."""
    judgement = beside.judgement
    if not is_simulated(judgement) and beside.comparison.pairs:
        return judgement
    none: dict[str, Any] = dict.fromkeys(
        ("iteration", "whole", "over_tf32", "noise", "break_even", "original", "rewritten", "basis")
    )
    return replace(judgement, speed="not-checked", **none)


def word_of(beside: Beside) -> str:
    """Equality, or how a run failed."""
    judgement = beside.judgement
    if judgement.run != "ok":
        return f"{judgement.run}{' (naive)' if judgement.side == 'original' else ''}"
    return judgement.equality if beside.comparison.pairs else "no pair"


def ratio_text(ratio: Ratio | None) -> str:
    """The estimate with its interval; one round has none."""
    if ratio is None:
        return "-"
    if ratio.low is None or ratio.high is None:
        return f"{ratio.estimate:.2f} (-)"
    high = f"{ratio.high:.2f}" if ratio.high < HUNDRED else f"{ratio.high:.0f}"
    return f"{ratio.estimate:.2f} ({ratio.low:.2f}-{high})"


def _sides(judgement: Judgement, value: Callable[[Figures], float | None], digits: int) -> str:
    """A figure of the naive script and of this one."""
    known = [None if side is None else value(side) for side in (judgement.original, judgement.rewritten)]
    if known == [None, None]:
        return "-"
    return " → ".join("-" if each is None else f"{each:.{digits}f}" for each in known)


def _start(figures: Figures) -> float | None:
    return figures.start_seconds


def _end(figures: Figures) -> float | None:
    return figures.exit_seconds


def memory_of(figures: Figures) -> float | None:
    return None if figures.device_allocated is None else figures.device_allocated / GIB


def reserved_of(figures: Figures) -> float | None:
    return None if figures.device_reserved is None else figures.device_reserved / GIB


def _busy(figures: Figures) -> float | None:
    return None if figures.gpu is None else figures.gpu.utilization


def _energy(figures: Figures) -> float | None:
    return None if figures.gpu is None else figures.gpu.energy


def paid_back(judgement: Judgement) -> str:
    if judgement.break_even is None:
        return "-"
    return "never" if math.isinf(judgement.break_even) else str(math.ceil(judgement.break_even))


HEAD: Cells = ("script", "text", "run", "iteration", "start, s", "end, s", "paid back", "GiB", "GPU, %", "J", "result")


def _cells(beside: Beside) -> Cells:
    """A row under ``HEAD``: ratios, start-up and end, iterations until it is paid back, memory, load, energy."""
    judgement = judgement_of(beside)
    return (
        beside.script,
        beside.label,
        ratio_text(judgement.whole),
        ratio_text(judgement.iteration),
        _sides(judgement, _start, 1),
        _sides(judgement, _end, 1),
        paid_back(judgement),
        _sides(judgement, memory_of, 2),
        _sides(judgement, _busy, 0),
        _sides(judgement, _energy, 0),
        word_of(beside),
    )


@dataclass(frozen=True, slots=True)
class Contribution:
    """What a rule brings to a script: alone, and to the whole of all rules."""

    script: str
    rule: str
    alone: Beside | None
    without: Beside | None
    brings: Ratio | None
    """Time of an iteration without the rule, beside that with all rules."""

    @property
    def order(self) -> tuple[float, float]:
        """What brings most comes first."""
        alone = None if self.alone is None else judgement_of(self.alone).iteration
        estimates = [0.0 if ratio is None else ratio.estimate for ratio in (self.brings, alone)]
        return -estimates[0], -estimates[1]

    @property
    def cells(self) -> Cells:
        """A row under ``RULES_HEAD``."""
        alone, without = (None if one is None else judgement_of(one) for one in (self.alone, self.without))
        return (
            self.script,
            self.rule,
            ratio_text(None if alone is None else alone.iteration),
            ratio_text(None if without is None else without.iteration),
            ratio_text(self.brings),
            *(
                ("-",) * 3
                if alone is None
                else (_sides(alone, _start, 1), paid_back(alone), _sides(alone, memory_of, 2))
            ),
            "-" if self.alone is None else word_of(self.alone),
            "-" if self.without is None else word_of(self.without),
        )


RULES_HEAD: Cells = (
    *("script", "rule", "alone", "all others", "brings to them"),
    *("start alone, s", "paid back", "GiB alone", "result alone", "result of all others"),
)


def contributions(besides: Sequence[Beside]) -> list[Contribution]:
    """Of each rule, script by script, what brings most first."""
    known = {(beside.script, beside.label): beside for beside in besides}
    found = []
    for script in dict.fromkeys(script for script, _ in known):
        labels = [label for one, label in known if one == script]
        rules = dict.fromkeys(
            label.removeprefix(prefix) for prefix in (ONLY, WITHOUT) for label in labels if label.startswith(prefix)
        )
        all_rules = known.get((script, "default"))
        of_script = []
        for rule in rules:
            alone, without = (known.get((script, f"{prefix}{rule}")) for prefix in (ONLY, WITHOUT))
            of_script.append(Contribution(script, rule, alone, without, _brings(without, all_rules)))
        found += sorted(of_script, key=lambda one: one.order)
    return found


def _brings(without: Beside | None, all_rules: Beside | None) -> Ratio | None:
    """The ratio of an iteration without a rule to one with all, over the rounds that both ran in."""
    if without is None or all_rules is None or {without.judgement.run, all_rules.judgement.run} != {"ok"}:
        return None
    if is_simulated(without.judgement):
        return None
    before, after = (
        {pair.rewritten.offset: pair.rewritten for pair in one.comparison.pairs} for one in (without, all_rules)
    )
    pairs = tuple(Pair(before[at], after[at]) for at in sorted(before.keys() & after.keys()))
    return Comparison(pairs).iteration if pairs else None


def kind_of(beside: Beside) -> str:
    """Which table it is in."""
    if ": " in beside.script:
        return "batch"
    kinds = {ONLY: "rule", WITHOUT: "rule", WORKERS: "workers"}
    return next((kind for prefix, kind in kinds.items() if beside.label.startswith(prefix)), "text")


def tables_of(besides: Sequence[Beside]) -> Iterator[tuple[str, Cells, list[Cells]]]:
    """The titles, heads and rows of what was measured: texts, rules, numbers of workers, batch sizes."""
    kinds = {kind: [one for one in besides if kind_of(one) == kind] for kind in ("text", "rule", "workers", "batch")}
    if kinds["text"]:
        yield "", HEAD, [_cells(one) for one in kinds["text"]]
    if kinds["rule"]:
        rows = [one.cells for one in contributions([*kinds["text"], *kinds["rule"]])]
        yield "Rules alone and left out: ratios of an iteration", RULES_HEAD, rows
    if kinds["workers"]:
        yield "Numbers of workers", HEAD, [_cells(one) for one in sorted(kinds["workers"], key=_by_workers)]
    if kinds["batch"]:
        yield "Batch sizes", HEAD, [_cells(one) for one in kinds["batch"]]


def _by_workers(beside: Beside) -> tuple[str, int]:
    return beside.script, workers_of(beside)


def workers_of(beside: Beside) -> int:
    return int(beside.label.removeprefix(WORKERS))


def notes_on(besides: Iterable[Beside]) -> Iterator[str]:
    """What the reader of a table has to know beside it, in sentences."""
    for one in besides:
        judgement = judgement_of(one)
        if judgement.run != "ok":
            continue
        sides = [side.gpu for side in (judgement.original, judgement.rewritten) if side is not None]
        disturbed = any(gpu is not None and (gpu.shared or gpu.throttled) for gpu in sides)
        told = judgement.equality == "different" or judgement.speed == "slower" or _slower_in_the_only_pair(one)
        if told or disturbed:
            reasons = sorted({reason for gpu in sides if gpu is not None for reason in gpu.throttled})
            held = f" The GPU's clock was held back: {', '.join(reasons)}." if reasons else ""
            yield f"{one.script}/{one.label}: {judgement.reason}{held}"
    if any(judgement_of(one).basis == "cut" for one in besides):
        yield "Runs were cut: the ratio of a run is that of its part, in which a start weighs more than in the whole."


def _slower_in_the_only_pair(beside: Beside) -> bool:
    """Whether a single pair, which has no interval to be slower by, says so."""
    whole = judgement_of(beside).whole
    return whole is not None and whole.low is None and whole.estimate < SAME[0]


# --- For the terminal -------------------------------------------------------------------------------------------------


def measured(lines: Iterable[Values]) -> Iterator[str]:
    """The lines of a text on what a stage has measured: failures, then tables, then what else there is to know.

    Args:
        lines: Of a stage that measures.
    """
    lines = list(lines)
    yield from failures_in(lines)
    besides = list(compared(lines))
    if not besides:
        yield "Nothing was measured beside the naive scripts yet."
        return
    simulated = any(is_simulated(beside.judgement) for beside in besides)
    if simulated:
        yield NOT_CHECKED
    for title, head, rows in tables_of(besides):
        if title:
            yield f"{title}:"
        which = (head.index("result"),) if head == HEAD else (-2, -1)
        yield from _aligned([(*row[:2], *(row[at] for at in which)) if simulated else row for row in (head, *rows)])
    yield from notes_on(besides)


def _aligned(rows: Sequence[Cells]) -> Iterator[str]:
    """The rows of a table, the cells of a column below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def failures_in(lines: Iterable[Values]) -> Iterator[str]:
    """Which runs failed, and their last lines; those that failed the same way in several rounds once."""
    found: dict[tuple[str, str], list[tuple[int, Run]]] = {}
    for line in lines:
        if "run" in line and line["run"]["outcome"] != "ok":
            run = run_of(line["run"])
            name, _, number = line["key"].rpartition("/")
            known = "round" in line
            what = (name if known else line["key"], run.problem or ENDED[run.outcome])
            found.setdefault(what, []).append((int(number) if known else 0, run))
        elif "failed" in line:
            yield f"FAILED {line['key']}: {line['failed']}"
            yield from (f"    {each}" for each in _last(line.get("output", ())))
    for (name, problem), runs in found.items():
        rounds = f" in {len(runs)} rounds" if len(runs) > 1 else ""
        yield f"FAILED {name}{rounds}: the script {problem}"
        yield from (f"    {each}" for each in _last(runs[0][1].output))


def _last(output: Sequence[str]) -> Iterator[str]:
    """The last lines, without what steers a terminal."""
    for line in output[-LAST_LINES:]:
        yield re.sub(r"\x1b\[[0-9;?]*[ -/]*[@-~]", "", line).rstrip()


def answers(lines: Iterable[Values]) -> Iterator[str]:
    """The lines of a text on facts: failures first, then each fact's question and what was seen.

    Args:
        lines: Of the stage of facts.
    """
    lines = list(lines)
    for line in lines:
        if "failed" in line:
            said = f"exit status {line['failed']}" if isinstance(line["failed"], int) else line["failed"]
            yield f"FAILED {line['key']}: {line['question']} {said}"
            yield from (f"    {each}" for each in _last(line.get("output", ())))
        for part, error in line.get("seen", {}).get("failed", {}).items():
            yield f"FAILED {line['key']}, {part}: {_short(error)}"
    for line in lines:
        if "seen" in line:
            yield f"{line['key']}: {line['question']}"
            yield from (f"    {each}" for each in entries_of(line["seen"]))


def entries_of(seen: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """What was seen, in short lines: tables of many equal answers by the answer, deep ones by their paths."""
    for name, value in seen.items():
        if name == "failed" and not prefix:
            continue
        if name == "not_here" and not prefix:
            yield from (f"not seen here: {each} ({why})" for each, why in value.items())
        elif not isinstance(value, dict):
            yield _cut(f"{prefix}{name}: {_short(value)}")
        elif _repeats(value):
            yield f"{prefix}{name}:"
            for answer, names in _by_answer(value).items():
                said = f"  {_cut(answer)} ({len(names)}): {', '.join(names)}"
                yield from textwrap.wrap(said, LONGEST, subsequent_indent="      ", break_on_hyphens=False)
        elif any(isinstance(each, dict) for each in value.values()) or len(value) > FEW:
            yield from entries_of(value, f"{prefix}{name}.")
        else:
            yield _cut(f"{prefix}{name}: {_short(value)}")


def _by_answer(values: Mapping[str, Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in values.items():
        found.setdefault(_short(value), []).append(name)
    return found


def _repeats(values: Mapping[str, Any]) -> bool:
    """Whether these are many questions with few different answers."""
    return len(values) > FEW and 2 * len(_by_answer(values)) <= len(values)


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_short(each)}" for name, each in value.items())
    if isinstance(value, list):
        more = f" … ({len(value)} in all)" if len(value) > FEW else ""
        return ", ".join(map(_short, value[:FEW])) + more
    return " ".join(str(value).split())


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
