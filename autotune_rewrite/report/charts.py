"""Charts as SVG that stands in a page: bars with intervals, ratios, curves; their colours are the page's."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_WIDTH = 420
"""Of a chart: it is shown as wide as its column, so that its text is readable on a telephone."""
_LEFT, _RIGHT = 56, 14
"""Room for labels beside what is drawn."""
_ROW = 26
_MOST_POINTS = 6000
"""Of all curves of a chart: more make a page heavy and show nothing more."""
_FEWEST_POINTS = 60
"""Of each curve, where there are so many."""
_DOTS = 12
"""Values of a curve up to which each is marked."""
_OUTLIERS = 0.99
"""The part of values that a chart without outliers shows."""
_WIDE_LABEL = 110
_NEAR = 24
"""Labels would touch."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A value with what is known of its spread."""

    label: str
    side: str
    """``original`` or ``rewritten``: its colour."""
    value: float
    low: float | None = None
    high: float | None = None
    dots: tuple[float, ...] = ()
    """Single values."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Values in their order."""

    side: str
    values: tuple[float, ...]


def bars(title: str, found: Sequence[Bar], written: Callable[[float], str]) -> Markup:
    """Horizontal bars from 0.

    Args:
        title: What they show, for who does not see.
        found: From above to below.
        written: How a value is told.
    """
    most = max((value for each in found for value in (each.value, each.high or 0.0, *each.dots)), default=0.0) or 1.0
    across = _Scale(0.0, most, _WIDE_LABEL, _WIDTH - _RIGHT - 60)
    parts = []
    for number, each in enumerate(found):
        middle = _ROW * number + _ROW / 2
        parts.append(_text(_WIDE_LABEL - 6, middle + 4, each.label, "end"))
        parts.append(_rect(across(0.0), middle - 8, across(each.value) - across(0.0), 16, each.side))
        parts += (_circle(across(dot), middle, 2) for dot in each.dots)
        end = across(each.value)
        if each.low is not None and each.high is not None:
            parts.append(_interval(across(max(each.low, 0.0)), across(each.high), middle))
            end = across(each.high)
        parts.append(_text(max([end, *map(across, each.dots)]) + 6, middle + 4, written(each.value)))
    return _svg(title, _ROW * len(found) + 6, parts)


def ratios(title: str, found: Sequence[tuple[str, float, float | None, float | None]]) -> Markup:
    """Ratios with intervals beside the line of 1, where nothing is gained.

    Args:
        title: What they show.
        found: Names, estimates and intervals.
    """
    ends = [value for _, *values in found for value in values if value is not None]
    across = _Scale(min([0.9, *ends]), max([1.1, *ends]), _WIDE_LABEL, _WIDTH - _RIGHT - 46)
    height = _ROW * len(found) + 24
    parts = [_line(across(1.0), 0, across(1.0), height - 20, "axis"), _text(across(1.0), height - 6, "1", "middle")]
    for value in across.ticks():
        if abs(across(value) - across(1.0)) < _NEAR:
            continue
        parts += [
            _line(across(value), 0, across(value), height - 20, "grid"),
            _text(across(value), height - 6, _number(value), "middle", "faint"),
        ]
    for number, (name, estimate, low, high) in enumerate(found):
        middle = _ROW * number + _ROW / 2
        parts.append(_text(_WIDE_LABEL - 6, middle + 4, name, "end"))
        if low is not None and high is not None:
            parts.append(_interval(across(low), across(high), middle))
        parts.append(_circle(across(estimate), middle, 4, "rewritten"))
        parts.append(_text(across(high if high is not None else estimate) + 8, middle + 4, f"{estimate:.2f}"))
    return _svg(title, height, parts)


def curves(title: str, found: Sequence[Curve], of: str, *, without_outliers: bool = False) -> Markup:
    """Values over their number, from 1.

    Args:
        title: What they show.
        found: One for each run.
        of: What is counted.
        without_outliers: Whether the largest values are left above the chart, as single pauses hide all else.
    """
    height, bottom = 230, 190
    known = sorted(value for each in found for value in each.values if math.isfinite(value))
    if not known:
        return Markup()
    top = known[max(0, math.ceil(_OUTLIERS * len(known)) - 1)] if without_outliers else known[-1]
    longest = max(len(each.values) for each in found)
    up = _Scale(0.0 if without_outliers else known[0], top, bottom, 12)
    across = _Scale(1.0, float(max(longest, 2)), _LEFT, _WIDTH - _RIGHT)
    parts = [_line(_LEFT, bottom, _WIDTH - _RIGHT, bottom, "axis")]
    for value in up.ticks():
        parts += [
            _line(_LEFT, up(value), _WIDTH - _RIGHT, up(value), "grid"),
            _text(_LEFT - 6, up(value) + 4, _number(value), "end", "faint"),
        ]
    for value in across.ticks():
        if value == int(value):
            parts.append(_text(across(value), bottom + 16, f"{value:.0f}", "middle", "faint"))
    parts.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, bottom + 34, of, "middle", "faint"))
    most = max(_FEWEST_POINTS, _MOST_POINTS // len(found))
    for each in found:
        for stretch in _finite(_thinned(each.values, most)):
            points = [(across(at), up(min(value, top))) for at, value in stretch]
            parts.append(_polyline(points, each.side))
            if len(each.values) <= _DOTS or len(points) == 1:
                parts += (_circle(x, y, 2.5, each.side) for x, y in points)
    return _svg(title, height, parts)


def stacked(
    title: str, found: Sequence[tuple[str, Sequence[tuple[str, float]]]], written: Callable[[float], str]
) -> Markup:
    """Bars that are made up of parts, which are named below.

    Args:
        title: What they show.
        found: For each bar its label, and its parts with their names; all bars have the same.
        written: How the whole of a bar is told.
    """
    whole = max((sum(value for _, value in parts) for _, parts in found), default=0.0) or 1.0
    across = _Scale(0.0, whole, _WIDE_LABEL, _WIDTH - _RIGHT - 60)
    names = [name for name, _ in found[0][1]]
    parts: list[Markup] = []
    for number, (label, values) in enumerate(found):
        middle = _ROW * number + _ROW / 2
        parts.append(_text(_WIDE_LABEL - 6, middle + 4, label, "end"))
        start = 0.0
        for at, (_, value) in enumerate(values):
            parts.append(_rect(across(start), middle - 8, across(start + value) - across(start), 16, f"part{at}"))
            start += value
        parts.append(_text(across(start) + 6, middle + 4, written(start)))
    below = _ROW * len(found) + 12
    for at, name in enumerate(names):
        x, y = 10 + (at % 2) * (_WIDTH / 2), below + (at // 2) * 20
        parts += [_rect(x, y, 12, 12, f"part{at}"), _text(x + 18, y + 11, name)]
    return _svg(title, below + 20 * math.ceil(len(names) / 2) + 6, parts)


def interval(values: Sequence[float], quantile: Callable[[float, int], float]) -> tuple[float, float] | None:
    """The 95 % interval of the mean of some values, by Student; None of fewer than two.

    Args:
        values: Single values.
        quantile: Of Student's distribution.
    """
    if len(values) < 2:  # noqa: PLR2004 - one value shows no spread
        return None
    half = quantile(0.975, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    mean = statistics.fmean(values)
    return mean - half, mean + half


class _Scale:
    """Where values are drawn."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        if high <= low:
            room = abs(low) * 0.1 or 1.0
            low, high = low - room, high + room
        self._low, self._high = low, high
        self._start, self._end = start, end

    def __call__(self, value: float) -> float:
        """The place of a value."""
        return self._start + (value - self._low) / (self._high - self._low) * (self._end - self._start)

    def ticks(self) -> list[float]:
        """Some round values."""
        rough = (self._high - self._low) / 4
        power = 10 ** math.floor(math.log10(rough))
        step = next(each * power for each in (1, 2, 2.5, 5, 10) if each * power >= rough * 0.999)
        first = math.ceil(self._low / step - 1e-9)
        return [number * step for number in range(first, math.floor(self._high / step + 1e-9) + 1)]


def _thinned(values: Sequence[float], most: int) -> list[tuple[int, float]]:
    """Values with their numbers: of each stretch of many the least and the largest, so that no peak is lost."""
    numbered = list(enumerate(values, start=1))
    if len(numbered) <= most:
        return numbered
    size = math.ceil(2 * len(numbered) / most)
    kept: list[tuple[int, float]] = []
    for at in range(0, len(numbered), size):
        some = numbered[at : at + size]
        finite = [each for each in some if math.isfinite(each[1])]
        ends = {min(finite, key=lambda each: each[1]), max(finite, key=lambda each: each[1])} if finite else set()
        gap = {each for each in some[:1] if len(finite) < len(some) and not math.isfinite(each[1])}
        kept += sorted(ends | gap)
    return kept


def _finite(points: Iterable[tuple[int, float]]) -> Iterator[list[tuple[int, float]]]:
    """Stretches without what is no number."""
    stretch: list[tuple[int, float]] = []
    for point in points:
        if math.isfinite(point[1]):
            stretch.append(point)
        elif stretch:
            yield stretch
            stretch = []
    if stretch:
        yield stretch


def _number(value: float) -> str:
    return f"{value:.4g}" if value else "0"


def _svg(title: str, height: float, parts: Iterable[Markup]) -> Markup:
    frame = Markup('<svg viewBox="0 0 {} {}" role="img"><title>{}</title>{}</svg>')
    return frame.format(_WIDTH, f"{height:.0f}", title, Markup().join(parts))


def _text(x: float, y: float, text: str, anchor: str = "start", name: str = "") -> Markup:
    return Markup('<text x="{}" y="{}" text-anchor="{}" class="{}">{}</text>').format(
        f"{x:.1f}", f"{y:.1f}", anchor, name, text
    )


def _rect(x: float, y: float, width: float, height: float, name: str) -> Markup:
    return Markup('<rect x="{}" y="{}" width="{}" height="{}" class="{}"/>').format(
        f"{x:.1f}", f"{y:.1f}", f"{max(width, 0.0):.1f}", f"{height:.0f}", name
    )


def _line(x: float, y: float, to_x: float, to_y: float, name: str) -> Markup:
    return Markup('<line x1="{}" y1="{}" x2="{}" y2="{}" class="{}"/>').format(
        f"{x:.1f}", f"{y:.1f}", f"{to_x:.1f}", f"{to_y:.1f}", name
    )


def _circle(x: float, y: float, radius: float, name: str = "dot") -> Markup:
    return Markup('<circle cx="{}" cy="{}" r="{}" class="{}"/>').format(f"{x:.1f}", f"{y:.1f}", radius, name)


def _polyline(points: Iterable[tuple[float, float]], name: str) -> Markup:
    return Markup('<polyline points="{}" class="{}"/>').format(" ".join(f"{x:.1f},{y:.1f}" for x, y in points), name)


def _interval(start: float, end: float, y: float) -> Markup:
    drawn = f"M{start:.1f} {y:.1f}H{end:.1f}M{start:.1f} {y - 5:.1f}v10M{end:.1f} {y - 5:.1f}v10"
    return Markup('<path d="{}" class="interval"/>').format(drawn)
