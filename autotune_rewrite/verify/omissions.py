"""What a rewritten script no longer does, although every run of the original does it."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING

from autotune_rewrite.verify import metrics
from autotune_rewrite.verify.statistics.measurement import evaluation_passes, training_passes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from autotune_rewrite.verify.comparison import Comparison
    from autotune_rewrite.verify.plan import Plan
    from autotune_rewrite.verify.records import File, Pass, Run

NAMES = 64
"""Bytes by which a file may be smaller, as names of devices and options may be in it."""
ADDED = 4096
"""Bytes by which it may be larger: a rewrite adds the state of a gradient scaler to checkpoints."""
SIZE_PART = 0.01
"""Of a large file's size that it may differ by."""
SETTLED = 20
"""Iterations after which a gradient scaler has found its scale: until then it skips steps, as it should."""
MIN_VARIED = 3
"""Runs that all end the same say something only beside as many that all end differently."""


def omissions(plan: Plan, comparison: Comparison) -> Iterator[str]:
    """Sentences on what the rewritten script leaves out, or does another number of times than any original.

    What only a whole run shows is looked for in whole runs only; where the others were cut, in the pair that was not.

    Args:
        plan: What was asked.
        comparison: At least one pair.
    """
    originals = comparison.originals
    rewritten = [pair.rewritten for pair in comparison.pairs]
    yield from _counts(originals, rewritten)
    yield from _seeds(comparison)
    if comparison.whole_pairs:
        if comparison.basis != "whole":
            originals = tuple(pair.original for pair in comparison.whole_pairs)
        rewritten = [pair.rewritten for pair in comparison.whole_pairs]
        yield from _counts(originals, rewritten)
        yield from _judging_metric(plan, originals, rewritten)
        yield from _not_finite(originals, rewritten)
        yield from _numbers_of_values(originals, rewritten)
        yield from _passes(originals, rewritten)
        yield from _files(plan, originals, rewritten)


def unseen(comparison: Comparison) -> str:
    """A sentence on what could not be compared; empty where all could."""
    trains, evaluates = _no_longer_seen(comparison, _trains), unseen_evaluation(comparison)
    does = " and ".join([*(["trains"] if trains else []), *(["evaluates"] if evaluates else [])])
    if not does:
        return ""
    return f"The rewritten script {does} without a DataLoader, so the samples that it {does} on were not counted."


def unseen_evaluation(comparison: Comparison) -> bool:
    """Whether the original's evaluations were seen, and none of the rewritten script."""
    return _no_longer_seen(comparison, _evaluates)


def _no_longer_seen(comparison: Comparison, of_kind: Callable[[Pass], bool]) -> bool:
    """Whether data of that kind go through a loader in every original, and not in every rewritten script."""
    pairs = comparison.whole_pairs or comparison.pairs
    return all(any(map(of_kind, pair.original.passes)) for pair in pairs) and not all(
        any(map(of_kind, pair.rewritten.passes)) for pair in pairs
    )


def _trains(one: Pass) -> bool:
    return one.iterations > 0


def _evaluates(one: Pass) -> bool:
    return one.iterations == 0 and one.batches > 0


def within(count: int, counts: Sequence[int]) -> bool:
    """Whether a count is as far from the original's counts as these are from each other, and half of them at least."""
    spread = max(counts) - min(counts)
    return max(min(counts) - spread, min(counts) / 2) <= count <= max(counts) + spread


def _counts(originals: Sequence[Run], rewritten: Sequence[Run]) -> Iterator[str]:
    losses = [len(run.losses) for run in originals]
    for run in rewritten:
        if not within(len(run.losses), losses) or (any(losses) and not run.losses):
            yield f"The original has {_range(losses)} losses, the rewritten {len(run.losses)}."
    optimizers = [len(run.parameters) for run in originals]
    for run in rewritten:
        if not within(len(run.parameters), optimizers):
            yield f"Optimizers in the original: {_range(optimizers)}, in the rewritten script: {len(run.parameters)}."
    yield from _moved(originals, rewritten)


def _moved(originals: Sequence[Run], rewritten: Sequence[Run]) -> Iterator[str]:
    """A layer that is frozen, or an optimizer that is never stepped, may show late in the losses, or never."""
    for run in rewritten:
        if len({len(each.moved) for each in (*originals, run)}) != 1:
            continue  # that there are other optimizers is told already, or they vary
        if len(run.losses) < SETTLED:
            continue
        for number, moved in enumerate(run.moved):
            fewest = min(each.moved[number] for each in originals)
            if moved < fewest:
                which = f" of optimizer {number + 1}" if len(run.moved) > 1 else ""
                yield f"The original changes {fewest} parameters{which}, the rewritten script {moved}."


def _seeds(comparison: Comparison) -> Iterator[str]:
    """Results that no longer follow the seed were not computed, or not from the same random numbers."""
    pairs = comparison.pairs
    if len({pair.original.offset for pair in pairs}) < max(2, len(pairs)):
        return
    before = {pair.original.losses for pair in pairs}
    after = {pair.rewritten.losses for pair in pairs}
    if len(before) == len(pairs) > len(after) == 1:
        yield "The rewritten script has the same losses with every seed, the original has others with each."
    if len(pairs) < MIN_VARIED:
        return
    for series in metrics.of_run(pairs[0].original):
        if series.higher is not None and series.source != "progress":
            sides = [
                {getattr(metrics.same_in(run, series), "values", None) for run in runs}
                for runs in zip(*((pair.original, pair.rewritten) for pair in pairs), strict=True)
            ]
            if len(sides[0]) == len(pairs) and len(sides[1]) == 1 and None not in sides[1]:
                yield f"{series.name} is the same with every seed in the rewritten script, and never in the original."


def _judging_metric(plan: Plan, originals: Sequence[Run], rewritten: Sequence[Run]) -> Iterator[str]:
    """What the scripts are to be judged by must be there, however often it is printed."""
    first = originals[0]
    wanted = metrics.chosen(first) if plan.metric is None else metrics.asked(first, plan.metric, plan.higher)
    if not isinstance(wanted, metrics.Series) or any(metrics.same_in(run, wanted) is None for run in originals):
        return
    if any(metrics.same_in(run, wanted) is None for run in rewritten):
        yield f"The rewritten script never {_tells(wanted.source, wanted.name)}, as the original does."


def _not_finite(originals: Sequence[Run], rewritten: Sequence[Run]) -> Iterator[str]:
    for series in metrics.of_run(originals[0]):
        if not series.matters or not all(_ends_finite(run, series) for run in originals):
            continue
        if any(_ends_finite(run, series) is False for run in rewritten):
            yield f"{series.name} ends with a number that is not finite, as it never does in the original."


def _ends_finite(run: Run, series: metrics.Series) -> bool | None:
    """None where the run has no such series."""
    same = metrics.same_in(run, series)
    return None if same is None else math.isfinite(same.final)


def _numbers_of_values(originals: Sequence[Run], rewritten: Sequence[Run]) -> Iterator[str]:
    flooded = any(map(metrics.flooded, (*originals, *rewritten)))
    always = sorted(set.intersection(*map(_named, originals)))
    for run in () if flooded else rewritten:
        for name, source in sorted(set(always) - _named(run)):
            yield f"The rewritten script never {_tells(source, name)}, as the original does."
    expected = [_counted(run) for run in originals]
    for (name, source), count in expected[0].items():
        counts = [count, *(each[name, source] for each in expected[1:])]
        for found in map(_counted, rewritten) if all(counts) else ():
            if not found[name, source]:
                yield f"The rewritten script never {_tells(source, name)}, as the original does."
            elif not within(found[name, source], counts) and not (source == "output" and flooded):
                times = f"{_times(counts)}, the rewritten script {_times([found[name, source]])}"
                yield f"The original {_tells(source, name)} {times}."


def _named(run: Run) -> set[tuple[str, str]]:
    """What it prints, with names that may say nothing of what is better."""
    return {(each.name, each.source) for each in metrics.of_run(run) if each.compared and each.counted}


def _counted(run: Run) -> Counter[tuple[str, str]]:
    """How many values each metric has, where that is the script's choice."""
    numbers: Counter[tuple[str, str]] = Counter()
    for series in metrics.of_run(run):
        if series.matters and series.counted:
            numbers[series.name, series.source] += len(series.values)
    return numbers


def _tells(source: str, name: str) -> str:
    return f"gives {name} to TensorBoard" if source == "TensorBoard" else f"prints {name}"


def _passes(originals: Sequence[Run], rewritten: Sequence[Run]) -> Iterator[str]:
    samples = [sum(each.samples for each in training_passes(run)) for run in originals]
    passes = [len(evaluation_passes(run)) for run in originals]
    evaluated = [sum(each.samples for each in evaluation_passes(run)) for run in originals]
    # Data that come another way are not seen at all, which unseen() tells.
    for run in rewritten:
        seen = sum(each.samples for each in training_passes(run))
        if seen and not within(seen, samples):
            yield f"The original trains on {_range(samples)} samples, the rewritten script on {seen}."
        number = len(evaluation_passes(run))
        if number and not within(number, passes) and number < min(passes):
            yield f"The original evaluates {_times(passes)}, the rewritten script {_times([number])}."
        seen = sum(each.samples for each in evaluation_passes(run))
        if number and not within(seen, evaluated) and seen < min(evaluated):
            yield f"The original evaluates on {_range(evaluated)} samples, the rewritten script on {seen}."


def _files(plan: Plan, originals: Sequence[Run], rewritten: Sequence[Run]) -> Iterator[str]:
    original = plan.original if plan.base is None else plan.base.typed
    expected = [_general(run.files, original) for run in originals]
    for name, files in expected[0].items():
        counts = [len(each.get(name, ())) for each in expected]
        for found in (_general(run.files, plan.rewritten).get(name, ()) for run in rewritten) if all(counts) else ():
            if not found:
                yield f"The rewritten script does not write {files[0].name}, as the original does."
            elif len(found) < min(counts) and not within(len(found), counts):
                named = f"{_range(counts)} files such as {files[0].name}"
                yield f"The original writes {named}, the rewritten script {len(found)}."
            else:
                yield from _sizes([each[name] for each in expected], found)


def _sizes(expected: Sequence[Sequence[File]], found: Sequence[File]) -> Iterator[str]:
    """That files are of another size, where the originals agree on it, or are less than half of what one had."""
    sizes = [sorted(file.size for file in files) for files in expected]
    if len(sizes) > 1 and all(each == sizes[0] for each in sizes):
        less, more = max(NAMES, max(sizes[0]) * SIZE_PART), max(ADDED, max(sizes[0]) * SIZE_PART)
    elif len(sizes) == 1:
        less, more = max(sizes[0]) / 2, math.inf
    else:
        return
    for before, after in zip(expected[0], found, strict=False):
        if not before.size - less <= after.size <= before.size + more:
            yield f"{before.name} has {before.size} bytes in the original, {after.size} in the rewritten script."


def _general(files: Sequence[File], script: Path) -> dict[str, list[File]]:
    """The files for each name without what differs from run to run (dates, numbers) and from script to script."""
    stem = re.compile(rf"(?<![A-Za-z0-9]){re.escape(script.stem)}(?![A-Za-z0-9])")
    names: dict[str, list[File]] = {}
    for file in files:
        if "__pycache__" not in file.name:
            names.setdefault(re.sub(r"\d+", "#", stem.sub("<script>", file.name)), []).append(file)
    return names


def _times(counts: Sequence[int]) -> str:
    words = {0: "never", 1: "once"}
    return words.get(max(counts), f"{_range(counts)} times")


def _range(counts: Sequence[int]) -> str:
    return f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
