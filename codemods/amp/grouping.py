"""Which backwards are parts of one training iteration."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import FUNCTIONS, LOOPS
from codemods.facts.training.iterations import EventKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.facts.script import Script
    from codemods.facts.training.iterations import TrainingIteration
    from codemods.facts.training.loss_regions import Phase, Phases

_AROUND = (*LOOPS, *FUNCTIONS, ast.Module)


def groups(script: Script, phases: Phases) -> Iterator[tuple[tuple[Phase, ...], TrainingIteration]]:
    """The phases that are parts of one training iteration, with the iteration that holds most of them."""
    remaining = list(phases.all)
    found: list[tuple[tuple[Phase, ...], TrainingIteration]] = []
    for iteration in sorted(script.iterations, key=lambda each: -len(each.of(EventKind.BACKWARD))):
        calls = {each.node for each in iteration.of(EventKind.BACKWARD)}
        group = tuple(each for each in remaining if each.call in calls)
        if group:
            found.append((group, iteration))
            remaining = [each for each in remaining if each not in group]
    for group, iteration in sorted(found, key=lambda each: each[0][0].call.lineno):
        yield group, _with_step(script, iteration)


def _with_step(script: Script, iteration: TrainingIteration) -> TrainingIteration:
    """The iteration; the one of the code around it, where that steps after some passes of an inner loop."""
    iterations, here = script.whole.iterations, iteration
    while not here.of(EventKind.STEP) and isinstance(here.owner, LOOPS):
        above = next(each for each in here.module.ancestors(here.owner) if isinstance(each, _AROUND))
        here = iterations.of(above, here.module)
    return here if here.of(EventKind.STEP) else iteration
