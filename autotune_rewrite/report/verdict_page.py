"""A judgement as a page: what was answered, its figures and curves, what was changed, and where it was seen."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from autotune_rewrite.errors import FileError
from autotune_rewrite.project import files
from autotune_rewrite.report import charts
from autotune_rewrite.report import judgement as words
from autotune_rewrite.report.page import Hunk, rendered, side_by_side
from autotune_rewrite.report.verified import per_run
from autotune_rewrite.verify import metrics
from autotune_rewrite.verify.statistics.measurement import Measurement
from autotune_rewrite.verify.statistics.ratio import quantile_of_t

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from markupsafe import Markup

    from autotune_rewrite.verify.judgement import Judgement
    from autotune_rewrite.verify.plan import Plan
    from autotune_rewrite.verify.records import Run
    from autotune_rewrite.verify.statistics.measurement import Figures

_SIDES = ("original", "rewritten")


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart, and what it shows."""

    title: str
    chart: Markup
    caption: str


@dataclass(frozen=True, slots=True)
class Changed:
    """A file that the two scripts differ in."""

    name: str
    hunks: tuple[Hunk, ...]


def changed_files(plan: Plan) -> tuple[Changed, ...]:
    """What the rewritten script has otherwise, as its files are now; none of a notebook, whose text is no program."""
    scripts = (plan.original_text or plan.original, plan.rewritten)
    own = dict(plan.original_modules)
    pairs = [(plan.original, *scripts), *((each, own.get(each, each), text) for each, text in plan.modules)]
    if plan.base is not None:
        then, top = plan.base.folder, plan.base.top
        names = [name for name in plan.base.laid if name.endswith(".py") and then / name != plan.original]
        pairs += [(Path(name), then / name, top / name) for name in names]
    found = []
    for name, before, after in pairs:
        try:
            texts = [files.read(str(each)) for each in (before, after)]
        except FileError:
            continue  # what runs says so
        hunks = side_by_side(texts[0].text, texts[1].text) if all(each.cells is None for each in texts) else []
        if hunks:
            found.append(Changed(str(plan.named(name)), tuple(hunks)))
    return tuple(found)


def as_html(
    judgement: Judgement, plan: Plan, runs: Sequence[Run], titles: tuple[str, str], changed: Sequence[Changed] | None
) -> str:
    """One page that needs nothing else, no script either.

    Args:
        judgement: What is said.
        plan: What was compared.
        runs: Of both sides, in the order in which they were made.
        titles: What the two scripts are called.
        changed: What the rewritten one has otherwise; None where that is not known any more.
    """
    passed = judgement.run == "ok"
    good = judgement.exit_code == 0 and not words.idle(judgement)
    return rendered(
        "verdict.html",
        headline=words.headline(judgement),
        mood="bad" if not passed else "good" if good else "warn",
        idle=words.idle(judgement),
        answers=[("It runs", judgement.run), ("Speed", judgement.speed), ("Results", judgement.equality)],
        sentences=[*per_run(judgement), *filter(None, [words.paid_back(judgement)])] if passed else [],
        ratios=list(words.ratios(judgement)) if passed else [],
        reason=judgement.reason,
        limits=judgement.limits,
        figures=list(_figures(judgement, plan, runs)) if passed else [],
        rows=list(words.rows(judgement)) if passed else [],
        titles=titles,
        notes=list(words.notes(judgement)),
        output="\n".join(words.output(judgement)),
        seen=words.seen(judgement) if passed else "",
        environment=sorted(judgement.environment.items()),
        command=_command(plan),
        changed=changed,
    )


def _command(plan: Plan) -> str:
    """How the scripts were started, but for their names; empty where these were all."""
    return shlex.join((*plan.launcher, "SCRIPT", *plan.arguments)) if plan.launcher or plan.arguments else ""


def _figures(judgement: Judgement, plan: Plan, runs: Sequence[Run]) -> Iterator[Figure]:
    """All charts for which there is something to show."""
    pairs = [each for each in runs if each.kind == "pair" and each.outcome == "ok"]
    if not judgement.simulated:
        yield from _of_times(judgement, pairs)
    losses = [charts.Curve(each.side, each.losses) for each in pairs if each.losses]
    if losses:
        caption = f"Each line is a run; {_of_sides(losses)}."
        yield Figure("Losses", charts.curves("Losses", losses, "iteration"), caption)
    yield from _of_metric(plan, pairs)
    if not judgement.simulated:
        steps = [charts.Curve(each.side, tuple(b - a for a, b in pairwise(each.times))) for each in pairs]
        steps = [each for each in steps if each.values]
        if steps:
            chart = charts.curves("Seconds of each iteration", steps, "iteration", without_outliers=True)
            caption = "In seconds, warm-up included. The longest hundredth is drawn at the upper edge."
            yield Figure("Time of each iteration", chart, caption)
        yield from _of_parts(judgement)
        yield from _of_memory(judgement)


def _of_times(judgement: Judgement, pairs: Sequence[Run]) -> Iterator[Figure]:
    found = []
    for side in _SIDES:
        seconds = tuple(_seconds(each) for each in pairs if each.side == side)
        if seconds:
            low, high = charts.interval(seconds, quantile_of_t) or (None, None)
            found.append(charts.Bar(side, side, sum(seconds) / len(seconds), low, high, seconds))
    if found:
        caption = "The mean of all runs with its 95 % interval; each dot is a run."
        cut = " Runs were cut." if any(each.cut for each in pairs) else ""
        yield Figure("Time of a run", charts.bars("Time of a run", found, words.duration), caption + cut)
    known = (("whole run", judgement.whole), ("over TF32", judgement.over_tf32), ("iteration", judgement.iteration))
    rows = [(name, each.estimate, each.low, each.high) for name, each in known if each is not None]
    if rows:
        confidence = next(each.confidence for _, each in known if each is not None)
        of = f"Intervals of {100 * confidence:.0f} %, of pairs with the same seed."
        caption = f"Above 1 the rewritten script is faster. {of}"
        yield Figure("How many times as fast", charts.ratios("How many times as fast", rows), caption)


def _seconds(run: Run) -> float:
    return run.import_seconds + Measurement.of(run).script_seconds


def _of_sides(found: Sequence[charts.Curve]) -> str:
    counts = {side: sum(each.side == side for each in found) for side in _SIDES}
    return ", ".join(f"{number} of the {side} script" for side, number in counts.items())


def _of_metric(plan: Plan, pairs: Sequence[Run]) -> Iterator[Figure]:
    first = next((each for each in pairs if each.side == "original"), None)
    if first is None:
        return
    wanted = metrics.chosen(first) if plan.metric is None else metrics.asked(first, plan.metric, plan.higher)
    if wanted is None or isinstance(wanted, str):
        return
    series = [(each.side, metrics.same_in(each, wanted)) for each in pairs]
    found = [charts.Curve(side, each.values) for side, each in series if each is not None]
    chart = charts.curves(wanted.name, found, "value, in their order")
    better = {True: "Higher is better", False: "Lower is better", None: "Which is better is not known"}[wanted.higher]
    yield Figure(f"Metric: {wanted.name}", chart, f"{better}. {_of_sides(found)}.")


def _of_parts(judgement: Judgement) -> Iterator[Figure]:
    """Where the time of a run went, as far as it was seen from outside."""
    known = [(side, _parts(each)) for side, each in _figures_of(judgement)]
    if len(known) == len(_SIDES) and all(parts is not None for _, parts in known):
        chart = charts.stacked("Where the time went", [(side, parts or ()) for side, parts in known], words.duration)
        caption = (
            "Medians of all runs. What of the iterations was waiting for data is taken from those after the warm-up."
        )
        yield Figure("Where the time went", chart, caption)


def _parts(figures: Figures) -> list[tuple[str, float]] | None:
    if figures.start_seconds is None:
        return None
    end = figures.exit_seconds or 0.0
    middle = max(0.0, figures.run_seconds - figures.start_seconds - end)
    waiting = middle * (figures.waiting or 0.0)
    return [
        ("start", figures.start_seconds),
        ("waiting for data", waiting),
        ("iterations, and all else", middle - waiting),
        ("end of the process", end),
    ]


def _of_memory(judgement: Judgement) -> Iterator[Figure]:
    kinds: tuple[tuple[str, Callable[[Figures], int | None]], ...] = (
        ("device", lambda each: each.device_allocated),
        ("host", lambda each: each.host_bytes),
    )
    found = [
        charts.Bar(f"{kind}, {side}", side, float(size))
        for kind, of in kinds
        for side, each in _figures_of(judgement)
        if (size := of(each))
    ]
    if found:
        chart = charts.bars("Memory", found, lambda value: words.memory(round(value)))
        yield Figure("Memory", chart, "The most that was taken at once, in the median; the host's without workers.")


def _figures_of(judgement: Judgement) -> list[tuple[str, Figures]]:
    sides = zip(_SIDES, (judgement.original, judgement.rewritten), strict=True)
    return [(side, each) for side, each in sides if each is not None]
