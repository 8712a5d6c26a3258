"""Stage 5: the verifier itself. Does ``autotune_rewrite.verify`` say the truth on CUDA?

Scripts of which the truth is known go through the verifier. A task tells what was expected, what was seen, and whether
that was right; what a simulated device cannot tell stands under ``not_here``, and is neither right nor wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.gpu.tasks import results
from tests.gpu.truths.bench import Bench
from tests.gpu.truths.device import device_tasks
from tests.gpu.truths.equality import equality_task, verify_task
from tests.gpu.truths.outcomes import outcome_tasks
from tests.gpu.truths.speed import SAME, SLOWER, forks_task, joined, overhead_task, same_tasks, slower_tasks
from tests.gpu.truths.watching import watching_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.gpu.setting import Setting
    from tests.gpu.tasks import Task, Values

__all__ = ["summary", "tasks"]

LONGEST = 160
"""Characters of what was seen, in a sentence."""


def tasks(setting: Setting) -> list[Task]:
    """All truths, the most valuable first."""
    bench = Bench(setting)
    same, slower = same_tasks(bench), slower_tasks(bench)
    return [
        same[0],
        slower[0],
        equality_task(bench),
        *outcome_tasks(bench),
        *watching_tasks(bench),
        *device_tasks(bench),
        overhead_task(bench),
        *same[1:],
        *slower[1:],
        verify_task(bench),
        forks_task(bench),
    ]


def summary(lines: Sequence[Values]) -> list[str]:
    """What was expected, what was seen, and whether that is right, in sentences; pairs of all tasks judged together.

    Args:
        lines: Of the stage, as its file has them.
    """
    single = (f"{SAME} ", f"{SLOWER} ")
    lines = results(lines)
    shown = [*(line for line in lines if not line["key"].startswith(single) or "failed" in line), *joined(lines)]
    names = [(line, name) for line in shown for name in line.get("expected", ())]
    wrong = sum(name in line["wrong"] for line, name in names)
    untold = sum(name in line["not_here"] for line, name in names)
    failed = sum("failed" in line for line in shown)
    right = len(names) - wrong - untold
    count = f"{right} truths right, {wrong} WRONG, {untold} not to be told here; {failed} tasks failed."
    return [count, *(sentence for line in shown for sentence in _said(line))]


def _said(line: Values) -> Iterator[str]:
    if "failed" in line:
        yield f"FAILED {line['key']}: {''.join(line['failed'][-1:]).strip()}"
        return
    for name, expected in line["expected"].items():
        if name not in line["not_here"]:
            word = "WRONG" if name in line["wrong"] else "right"
            yield f"{line['key']}: {name}: expected {_short(expected)}, seen {_short(line['seen'][name])}: {word}."
    if line["not_here"]:
        yield f"{line['key']}: not to be told here: {', '.join(line['not_here'])}."


def _short(value: Any) -> str:
    if isinstance(value, dict) and "word" in value:
        ratios = [
            f"{name} {ratio['estimate']:.4f} ({ratio['low']:.4f} to {ratio['high']:.4f})"
            for name in ("iteration", "whole")
            if (ratio := value.get(name)) is not None and ratio["low"] is not None
        ]
        noise = "" if value["noise"] is None else f", noise {value['noise']:.2%}"
        return f"{value['word']} ({', '.join(ratios)}{noise})"
    text = f"{value:.5g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
