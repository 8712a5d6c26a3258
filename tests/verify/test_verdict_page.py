"""The page of a judgement: what it shows, for few and many points, and for runs that failed."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from autotune_rewrite.report import charts
from autotune_rewrite.report.verdict_page import Changed, as_html, changed_files
from autotune_rewrite.verify.judgement import Judgement
from autotune_rewrite.verify.plan import Plan
from autotune_rewrite.verify.records import Run
from autotune_rewrite.verify.statistics.measurement import Figures
from autotune_rewrite.verify.statistics.ratio import Ratio
from tests.chromium import PROGRAM, Browser
from tests.markup import Checked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autotune_rewrite.verify.plan import Side

PLAN = Plan(Path("train.py"), Path("fast.py"), arguments=("--name", "<b>&"))
PASSED = Judgement(
    run="ok",
    speed="faster",
    equality="equal",
    reason="Every loss is the same <script>.",
    promise="bitwise",
    iteration=Ratio(2.0, 1.9, 2.1),
    whole=Ratio(1.5, 1.25, 1.8),
    basis="whole",
    pairs=4,
    losses=3,
    environment={"torch": "2.9.0", "python": "3.12.1", "cpus": 2, "gpu": "NVIDIA <A100>"},
    original=Figures(10.0, 2.0, 1.0, 0.01, waiting=0.25, device_allocated=2**30, host_bytes=2**29),
    rewritten=Figures(5.0, 1.0, 1.0, 0.005, waiting=0.0, device_allocated=2**29, host_bytes=2**29),
)
CRASHED = Judgement(
    run="crashed",
    speed="not-checked",
    equality="not-checked",
    reason="The rewritten script ended by an exception.",
    promise="bitwise",
    side="rewritten",
    output=("Traceback (most recent call last):", "\x1b[31mValueError: </pre><script>1</script>\x1b[0m"),
)


def run(side: Side, offset: int, points: int, **others: object) -> Run:
    each = 0.5 if side == "original" else 0.25
    given = Run(
        side,
        offset,
        "ok",
        "",
        (),
        1 + points * each,
        ended="finished",
        times=tuple(1 + at * each for at in range(points)),
        losses=tuple(1 / (at + 1) + offset for at in range(points)),
        lines=tuple(f"Epoch {at}, val acc: {at / points:.3f}" for at in range(points)),
        script_seconds=1 + points * each,
    )
    return replace(given, **others)  # type: ignore[arg-type]


def page(judgement: Judgement = PASSED, runs: Sequence[Run] = (), changed: Sequence[Changed] | None = ()) -> str:
    return as_html(judgement, PLAN, runs, ("train.py", "fast.py"), changed)


def both(points: int, pairs: int = 4, **others: object) -> list[Run]:
    return [run(side, offset, points, **others) for offset in range(pairs) for side in ("original", "rewritten")]


TITLES = [
    "Time of a run",
    "How many times as fast",
    "Losses",
    "Metric: val acc",
    "Time of each iteration",
    "Where the time went",
    "Memory",
]


@pytest.mark.parametrize("points", [3, 300])
def test_a_page_has_all_that_was_seen(points: int) -> None:
    text = page(runs=both(points))
    checked = Checked(text)

    assert re.findall(r"<figure><h2>(.*?)</h2><svg", text) == TITLES
    assert (checked.scripts, checked.loaded) == (0, [])
    assert "The rewritten script is faster; it computes the same, bit for bit." in checked.text
    assert "whole run: 1.50 times as fast (1.25 to 1.80, 95 % interval)" in checked.text
    assert "A run takes 5.00 s less: 5.00 s, where it took 10.0 s." in checked.text
    assert "NVIDIA <A100>" in checked.text
    assert "started as SCRIPT --name '<b>&'" in checked.text


def test_what_a_chart_shows_lies_within_it() -> None:
    for points in (3, 300):
        for chart in re.findall(r"<svg.*?</svg>", page(runs=both(points)), re.DOTALL):
            _, _, width, height = map(float, re.search(r'viewBox="([^"]*)"', chart)[1].split())  # type: ignore[index]
            xs = [float(each) for each in re.findall(r'\b(?:x|x1|x2|cx)="([^"]+)"', chart)]
            ys = [float(each) for each in re.findall(r'\b(?:y|y1|y2|cy)="([^"]+)"', chart)]
            for pair in " ".join(re.findall(r'points="([^"]+)"', chart)).split():
                x, y = map(float, pair.split(","))
                xs.append(x)
                ys.append(y)
            assert min(xs) >= 0
            assert max(xs) <= width
            assert min(ys) >= 0
            assert max(ys) <= height


def test_each_run_has_its_curve() -> None:
    text = page(runs=both(300))
    losses = text.partition("<h2>Losses</h2>")[2].partition("</svg>")[0]

    assert len(re.findall(r'<polyline [^>]*class="original"', losses)) == 4
    assert len(re.findall(r'<polyline [^>]*class="rewritten"', losses)) == 4
    assert "4 of the original script, 4 of the rewritten script" in text


def test_a_curve_has_gaps_where_losses_are_no_numbers() -> None:
    runs = both(5, pairs=1, losses=(3.0, 2.0, math.nan, 1.0, math.inf))
    losses = page(runs=runs).partition("<h2>Losses</h2>")[2].partition("</svg>")[0]

    assert losses.count("<polyline") == 4
    assert "nan" not in losses
    assert "inf" not in losses


def test_long_curves_keep_their_peaks() -> None:
    values = [1.0] * 100_000
    values[54_321] = 9.0

    chart = str(charts.curves("Losses", [charts.Curve("original", tuple(values))], "iteration"))

    assert len(chart) < 150_000
    assert len(re.findall(r",12\.0\b", chart)) == 1  # the upper edge


@pytest.mark.parametrize(
    "values",
    [
        pytest.param((), id="none"),
        pytest.param((math.nan,), id="no number"),
        pytest.param((2.0,), id="one"),
        pytest.param((0.0, 0.0), id="nothing but 0"),
        pytest.param((1e-30, 2e-30), id="small"),
        pytest.param((-1e30, 1e30), id="large"),
    ],
)
def test_any_values_can_be_drawn(values: tuple[float, ...]) -> None:
    chart = str(charts.curves("Losses", [charts.Curve("original", values)], "iteration"))

    Checked(chart)
    assert "nan" not in chart
    assert ("<circle" in chart) is any(map(math.isfinite, values))


def test_of_a_run_that_failed_there_are_its_last_lines() -> None:
    text = page(CRASHED, [run("rewritten", 0, 3, outcome="crashed")])
    checked = Checked(text)

    assert "The rewritten script crashed: speed and results were NOT CHECKED." in checked.text
    assert "ValueError: </pre><script>1</script>" in checked.text
    assert "\x1b" not in text
    assert "<figure>" not in text


def test_of_a_simulated_device_no_time_is_shown() -> None:
    text = page(replace(PASSED, simulated=True, whole=None, iteration=None, speed="not-checked"), both(3))

    assert re.findall(r"<figure><h2>(.*?)</h2>", text) == ["Losses", "Metric: val acc"]


def test_without_runs_there_are_the_figures_that_are_known() -> None:
    assert re.findall(r"<figure><h2>(.*?)</h2>", page()) == ["How many times as fast", *TITLES[-2:]]


def test_what_was_changed_is_shown(tmp_path: Path) -> None:
    for name, text in (("train.py", "a = 1\nb = '<script>'\n"), ("fast.py", "a = 2\nb = '<script>'\n")):
        (tmp_path / name).write_text(text)
    (tmp_path / "net.py").write_text("c = 1\n")
    (tmp_path / "new.py").write_text("c = 3\n")
    plan = Plan(tmp_path / "train.py", tmp_path / "fast.py", modules=((tmp_path / "net.py", tmp_path / "new.py"),))

    changed = changed_files(plan)
    checked = Checked(page(changed=changed))

    assert [Path(each.name).name for each in changed] == ["train.py", "net.py"]
    assert all(text in checked.text for text in ("a = 1", "a = 2", "c = 1", "c = 3", "b = '<script>'"))
    assert "The records of runs do not have the scripts." in page(changed=None)


@pytest.mark.parametrize("width", [400, 1600])
@pytest.mark.parametrize("points", [3, 300])
def test_nothing_is_cut_or_wider_than_the_window(tmp_path: Path, width: int, points: int) -> None:
    if PROGRAM is None:
        pytest.skip("there is no Chromium")
    path = tmp_path / "page.html"
    path.write_text(page(runs=both(points)))
    browser = Browser(tmp_path, width)
    try:
        browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        browser.open(path)
        assert browser.value("document.documentElement.scrollWidth") <= width
        cut = (
            "[...document.querySelectorAll('svg text')].filter((each) => { const text = each.getBoundingClientRect(), "
            "all = each.ownerSVGElement.getBoundingClientRect(); return text.left < all.left - 1 || "
            "text.right > all.right + 1 || text.bottom > all.bottom + 1 }).map((each) => each.textContent)"
        )
        assert browser.value(cut) == []
        small = (
            "Math.min(...[...document.querySelectorAll('svg text')].map((each) => each.getBoundingClientRect().height))"
        )
        assert browser.value(small) >= 10
    finally:
        browser.close()
