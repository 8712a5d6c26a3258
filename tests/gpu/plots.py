"""The pictures of the page: plain values, drawn as SVG, the same bytes each time.

Whether a picture is current is told by its values and by this file, not by its bytes: other versions of matplotlib draw
other ones, and to ask needs none.
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.gpu.running import NAIVE
from tests.gpu.speed import TF32
from tests.gpu.tables import (
    NAMES,
    contributions,
    judgement_of,
    kind_of,
    memory_of,
    paid_back,
    ratio_text,
    reserved_of,
    word_of,
    workers_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from autotune_rewrite.verify.statistics.measurement import Figures
    from autotune_rewrite.verify.statistics.ratio import Ratio
    from tests.gpu.judging import Beside
    from tests.gpu.results import Device

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7f7f7f")
"""Told apart by the colour-blind, too (Okabe and Ito)."""
PLAIN, INK, FAINT = "#a9b4be", "#222222", "#d9d9d9"
WIDTH, SLOT = 9.0, 0.27
"""Inches: of a picture, and of the height of a bar with the gap to the next one."""
GAP = 0.6
"""Above a group, in slots."""
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0, 100.0)
"""Of an axis of ratios."""
BEYOND = 1.5
"""Times as far as the farthest estimate an axis goes for the sake of intervals: two rounds have very long ones."""
STYLE: Any = {
    "svg.hashsalt": "torchfast",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10.0,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


@dataclass(frozen=True, slots=True)
class Bar:
    """A figure with its interval."""

    text: str
    """Stands beside it."""
    value: float | None = None
    """None: there is no bar, only the text."""
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """Bars of the same thing, one for each series of the picture."""

    label: str
    bars: tuple[Bar | None, ...]
    accent: bool = False
    """Whether its bars stand out, in a picture of one series."""


@dataclass(frozen=True, slots=True)
class Group:
    """Rows under a name."""

    name: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Bars:
    """Horizontal bars."""

    title: str
    axis: str
    groups: tuple[Group, ...]
    series: tuple[str, ...] = ("",)
    ratios: bool = False
    """Whether bars are ratios: they start at 1, on a logarithmic axis."""

    @property
    def alt(self) -> str:
        """What is to be seen, in words."""
        said = (
            f"{group.name}: {', '.join(f'{row.label} {_said(self.series, row)}' for row in group.rows)}"
            for group in self.groups
        )
        return f"Bars. {self.title}. {'; '.join(said)}."

    @property
    def shows(self) -> bool:
        """Whether there is a bar."""
        bars = [bar for group in self.groups for row in group.rows for bar in row.bars]
        return any(bar is not None and bar.value is not None for bar in bars)


@dataclass(frozen=True, slots=True)
class Line:
    """A curve: where it is at each place of the axis, if it is there."""

    name: str
    bars: tuple[Bar | None, ...]


@dataclass(frozen=True, slots=True)
class Curves:
    """Ratios over an axis of a few places."""

    title: str
    axis: str
    height: str
    """What the other axis shows."""
    places: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def alt(self) -> str:
        """What is to be seen, in words."""
        said = (
            f"{line.name}: "
            + ", ".join(f"{place} {bar.text}" for place, bar in zip(self.places, line.bars, strict=True) if bar)
            for line in self.lines
        )
        return f"Curves over {self.axis}. {self.title}. {'; '.join(said)}."

    @property
    def shows(self) -> bool:
        """Whether there is a point."""
        return any(bar is not None and bar.value is not None for line in self.lines for bar in line.bars)


Picture = Bars | Curves


def rounded(value: float | None) -> float | None:
    """Four significant digits: what comes after them may be another one on another machine."""
    return None if value is None else float(f"{value:.4g}")


def mark(picture: Picture) -> str:
    """Stands in the file of a picture that is current."""
    drawn = hashlib.sha256(Path(__file__).read_bytes() + repr(picture).encode())
    return f"drawn from sha256:{drawn.hexdigest()}"


def svg(picture: Picture) -> bytes:
    """The picture as a file."""
    from matplotlib import rc_context

    written = io.BytesIO()
    with rc_context(STYLE):
        about = {"Title": picture.title, "Description": mark(picture), "Date": None, "Creator": None}
        drawn(picture).savefig(written, format="svg", metadata=about, bbox_inches="tight", pad_inches=0.15)
    # matplotlib ends some lines with blanks, which tools for text take away.
    return b"".join(line.rstrip() + b"\n" for line in written.getvalue().splitlines())


def drawn(picture: Picture) -> Figure:
    """The picture as matplotlib has it."""
    return _drawn_bars(picture) if isinstance(picture, Bars) else _drawn_curves(picture)


def _drawn_bars(picture: Bars) -> Figure:
    from matplotlib.figure import Figure

    many = len(picture.series)
    height = 0.86 * many if many > 1 else 1.0
    slots = sum(1 + GAP + height * len(group.rows) for group in picture.groups)
    figure = Figure(figsize=(WIDTH, SLOT * (slots + 1)), facecolor="white")
    # The axes take all of the figure: what stands around them is added when it is saved.
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    start = 1.0 if picture.ratios else 0.0
    every = [bar for group in picture.groups for row in group.rows for bar in row.bars if bar is not None]
    least, most = _reach(every, start)
    if picture.ratios:
        axes.set_xscale("log")
        axes.set_xlim(least / 1.1, most * 1.1)
        _ticks(axes, least / 1.1, most * 1.1, "x")
    else:
        axes.set_xlim(0.0, 1.05 * most or 1.0)
    at, labels = 0.0, []
    for group in picture.groups:
        axes.text(-0.01, at, group.name, transform=axes.get_yaxis_transform(), ha="right", va="center", weight="bold")
        for number, row in enumerate(group.rows):
            middle = at + 1 + height * number + (height - 1) / 2
            labels.append((middle, row.label))
            for which, bar in enumerate(row.bars):
                if bar is not None:
                    place = middle + 0.8 * (which - (many - 1) / 2)
                    colour = COLOURS[which] if many > 1 or row.accent else PLAIN
                    _bar(axes, bar, place, start, colour)
        at += 1 + GAP + height * len(group.rows)
    axes.set_ylim(at - GAP - 0.3, -0.7)
    axes.set_yticks([place for place, _ in labels], [label for _, label in labels])
    axes.tick_params(axis="y", length=0)
    _frame(axes, picture.title, "x")
    axes.set_xlabel(picture.axis)
    if picture.ratios:
        axes.axvline(1.0, color=INK, linewidth=1.0, zorder=3)
    if many > 1:
        from matplotlib.patches import Patch

        handles = [Patch(color=colour, label=name) for colour, name in zip(COLOURS, picture.series, strict=False)]
        axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.5 / (SLOT * (slots + 1))), ncols=many)
    return figure


def _bar(axes: Axes, bar: Bar, place: float, start: float, colour: str) -> None:
    if bar.value is not None:
        axes.barh(place, bar.value - start, left=start, height=0.7, color=colour, zorder=2)
        if bar.low is not None and bar.high is not None:
            ends = [[bar.value - bar.low], [bar.high - bar.value]]
            axes.errorbar(bar.value, place, xerr=ends, color=INK, linewidth=0.9, capsize=2.5, zorder=4)
            least, most = axes.get_xlim()
            for beyond, at, arrow in ((bar.low < least, least, "<"), (bar.high > most, most, ">")):
                if beyond:
                    axes.plot(at, place, marker=arrow, color=INK, markersize=4, clip_on=False, zorder=4)
    axes.text(1.01, place, bar.text, transform=axes.get_yaxis_transform(), va="center", fontsize=9)


def _drawn_curves(picture: Curves) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, 4.5), facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    least, most = _reach([bar for line in picture.lines for bar in line.bars if bar is not None], 1.0)
    axes.set_yscale("log")
    axes.set_ylim(least / 1.1, most * 1.1)
    _ticks(axes, least / 1.1, most * 1.1, "y")
    for number, line in enumerate(picture.lines):
        # Beside each other: intervals at the same place would hide one another.
        aside = 0.06 * (number - (len(picture.lines) - 1) / 2)
        known = [
            (at + aside, bar.value, bar)
            for at, bar in enumerate(line.bars)
            if bar is not None and bar.value is not None
        ]
        colour = COLOURS[number % len(COLOURS)]
        axes.errorbar(
            [at for at, _, _ in known],
            [value for _, value, _ in known],
            yerr=[
                [value - (value if bar.low is None else bar.low) for _, value, bar in known],
                [(value if bar.high is None else bar.high) - value for _, value, bar in known],
            ],
            color=colour,
            marker="os^Dv"[number % 5],
            linestyle="-" if number < len(COLOURS) else "--",
            capsize=2.5,
            label=line.name,
        )
    axes.set_xlim(-0.5, len(picture.places) - 0.5)
    axes.set_xticks(range(len(picture.places)), picture.places)
    _frame(axes, picture.title, "y")
    axes.set_xlabel(picture.axis)
    axes.set_ylabel(picture.height)
    axes.axhline(1.0, color=INK, linewidth=1.0, zorder=1)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    return figure


def _reach(bars: Iterable[Bar], start: float) -> tuple[float, float]:
    """From where to where an axis goes: to all bars, and to the ends of intervals unless they are far away."""
    known = [bar for bar in bars if bar.value is not None]
    values = [start, *(bar.value for bar in known if bar.value is not None)]
    least, most = min(values), max(values)
    lows, highs = ([end for bar in known if (end := getattr(bar, name)) is not None] for name in ("low", "high"))
    return max(min([least, *lows]), least / BEYOND), min(max([most, *highs]), most * BEYOND)


def _ticks(axes: Axes, least: float, most: float, which: str) -> None:
    """Ratios as people write them."""
    from matplotlib.ticker import NullLocator

    ticks = [tick for tick in TICKS if least <= tick <= most]
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_minor_locator(NullLocator())


def _frame(axes: Axes, title: str, grid: str) -> None:
    axes.set_title(title, fontsize=12, loc="left", pad=12)
    axes.grid(visible=True, axis="x" if grid == "x" else "y", color=FAINT, linewidth=0.8, zorder=0)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _said(series: tuple[str, ...], row: Row) -> str:
    """A row's figures in words."""
    if len(series) == 1:
        return row.bars[0].text if row.bars[0] is not None else "not measured"
    return " and ".join(f"{name} {bar.text}" for name, bar in zip(series, row.bars, strict=True) if bar is not None)


# --- Its pictures -----------------------------------------------------------------------------------------------------


def pictures(device: Device) -> dict[str, Picture]:
    """By the names of their files; those for which nothing was measured are left out."""
    texts: dict[str, dict[str, Beside]] = {}
    for stage in (2, 6):
        for one in device.besides.get(stage, ()):
            if kind_of(one) == "text":
                texts.setdefault(one.script, {}).setdefault(one.label, one)
    first = (TF32, "default", "expert")
    ordered = {
        script: sorted(of_script.values(), key=lambda one: (*first, one.label).index(one.label))
        for script, of_script in texts.items()
    }
    dissected = device.besides.get(3, [])
    found: dict[str, Picture] = {
        "speed": Bars(
            "How many times as fast as the naive script",
            "ratio of whole runs, with the 95 % interval; an arrow: it goes on (logarithmic)",
            _groups(ordered, _of_speed),
            ratios=True,
        ),
        "start": Bars(
            "Seconds until training starts, and after how many iterations a longer start is paid back",
            "seconds from the start of the process to the first call of backward",
            _groups(ordered, _of_start),
        ),
        "memory": Bars(
            "Memory of the device",
            "GiB, at most",
            _groups(ordered, _of_memory),
            ("in tensors", "taken by torch's allocator"),
        ),
        "rules": Bars(
            "What each rule brings: how many times as fast an iteration is",
            "ratio of an iteration, with the 95 % interval; an arrow: it goes on (logarithmic)",
            _of_rules(dissected),
            ("alone, over naive", "in the whole, over all others without it"),
            ratios=True,
        ),
        "workers": _of_workers(dissected),
    }
    return {name: picture for name, picture in found.items() if picture.shows}


def _groups(
    texts: Mapping[str, Sequence[Beside]], rows: Callable[[Beside, Figures | None], Iterable[Row]]
) -> tuple[Group, ...]:
    """One for each script of which something is to be shown.

    Args:
        texts: Of each script.
        rows: Makes the rows of a text; with the first of a script it is given the figures of the naive one, too.
    """
    found = []
    for script, besides in texts.items():
        timed = [one for one in besides if one.judgement.run != "ok" or judgement_of(one).whole is not None]
        good = next((one for one in timed if one.judgement.run == "ok"), None)
        if good is not None:
            found.append(
                Group(
                    script,
                    tuple(
                        row for one in timed for row in rows(one, judgement_of(good).original if one is good else None)
                    ),
                )
            )
    return tuple(found)


def _named(beside: Beside) -> str:
    return NAMES.get(beside.label, beside.label)


def _of_speed(beside: Beside, _: Figures | None) -> Iterator[Row]:
    bar = _of_ratio(judgement_of(beside).whole) or Bar(word_of(beside))
    yield Row(_named(beside), (bar,), accent=beside.label == "default")


def _of_start(beside: Beside, naive: Figures | None) -> Iterator[Row]:
    judgement = judgement_of(beside)
    if naive is not None:
        yield Row(NAMES[NAIVE], (_amount(naive.start_seconds, "s"),))
    if judgement.rewritten is None:
        return
    accent = beside.label == "default"
    after = paid_back(judgement)
    paid = {"-": "", "never": ", never paid back"}.get(after, f", paid back after {after} iterations")
    yield Row(_named(beside), (_amount(judgement.rewritten.start_seconds, f"s{paid}"),), accent=accent)
    if beside.compiling is not None:
        yield Row(f"{_named(beside)}, compiling anew", (_amount(beside.compiling, "s more"),), accent=accent)


def _of_memory(beside: Beside, naive: Figures | None) -> Iterator[Row]:
    for name, figures in ((NAMES[NAIVE], naive), (_named(beside), judgement_of(beside).rewritten)):
        if figures is not None:
            yield Row(name, (_amount(memory_of(figures), "GiB", 2), _amount(reserved_of(figures), "GiB", 2)))


def _of_rules(besides: Sequence[Beside]) -> tuple[Group, ...]:
    groups: dict[str, list[Row]] = {}
    for one in contributions([each for each in besides if kind_of(each) in ("text", "rule")]):
        bars: tuple[Bar | None, ...] = (
            _of_ratio(None if one.alone is None else judgement_of(one.alone).iteration),
            _of_ratio(one.brings),
        )
        if one.alone is not None and one.alone.judgement.run != "ok":
            bars = Bar(word_of(one.alone)), bars[1]
        if any(bars):
            groups.setdefault(one.script, []).append(Row(one.rule, bars))
    return tuple(Group(script, tuple(rows)) for script, rows in groups.items())


def _of_workers(besides: Sequence[Beside]) -> Curves:
    swept = [one for one in besides if kind_of(one) == "workers"]
    counts = sorted({workers_of(one) for one in swept})
    bars = {(one.script, workers_of(one)): _of_ratio(judgement_of(one).iteration) for one in swept}
    lines = tuple(
        Line(script, tuple(bars.get((script, count)) for count in counts))
        for script in dict.fromkeys(one.script for one in swept)
    )
    return Curves(
        "How many times as fast an iteration is, by the number of workers",
        "worker processes of the loader",
        "ratio over the naive script (logarithmic)",
        tuple(map(str, counts)),
        lines,
    )


def _of_ratio(ratio: Ratio | None) -> Bar | None:
    if ratio is None:
        return None
    return Bar(ratio_text(ratio), rounded(ratio.estimate), rounded(ratio.low), rounded(ratio.high))


def _amount(value: float | None, unit: str, digits: int = 1) -> Bar | None:
    return None if value is None else Bar(f"{value:.{digits}f} {unit}", rounded(value))
