"""Times, from records that no process made."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune_rewrite.verify.records import Gpu, Pass, Run
from autotune_rewrite.verify.statistics.measurement import Figures, Measurement, covered

RUN = Run("original", 0, "ok", "", (), 12.0, ended="finished", import_seconds=2.0)


def paced(*stretches: tuple[int, float], compiles: tuple[float, ...] = ()) -> Run:
    """A run with so many iterations of so many seconds each, one stretch after the other, from second 1 on."""
    times = [1.0]
    for count, seconds in stretches:
        for _ in range(count):
            times.append(times[-1] + seconds)
    return replace(RUN, times=tuple(times), compiles=compiles)


EVALUATED = paced((29, 1.0), (1, 11.0), (29, 1.0))
"""Two epochs of thirty iterations; an evaluation of ten seconds lies between them."""


def test_an_evaluation_is_in_the_timed_stretch_of_both_runs_of_a_pair_or_of_none() -> None:
    compiling = replace(EVALUATED, compiles=(2.0, 40.5))  # the second while it evaluates

    measured = [Measurement.of(EVALUATED, compiling), Measurement.of(compiling, EVALUATED)]

    assert Measurement.of(EVALUATED).iteration_seconds == pytest.approx(59 / 49)
    assert [each.warm_up for each in measured] == [40, 40]
    assert [each.iteration_seconds for each in measured] == [pytest.approx(1.0)] * 2
    figures = Figures.of([EVALUATED], [compiling]), Figures.of([compiling], [EVALUATED])
    assert figures[0].iteration_seconds == figures[1].iteration_seconds


def test_a_run_that_is_shorter_than_the_others_warm_up_is_timed_as_far_as_it_goes() -> None:
    short = paced((12, 1.0))
    assert Measurement.of(short, EVALUATED).iteration_seconds == pytest.approx(1.0)
    assert Measurement.of(paced(), EVALUATED).iteration_seconds is None


@pytest.mark.parametrize(
    ("run", "warm_up", "seconds", "steady"),
    [
        pytest.param(paced((10, 5.0), (90, 1.0)), 10, 1.0, True, id="ten iterations warm up"),
        pytest.param(paced((11, 1.0)), 3, 1.0, True, id="a quarter of few"),
        pytest.param(paced((20, 5.0), (80, 1.0), compiles=(3.0, 99.0)), 30, 1.0, True, id="ten after the last compile"),
        pytest.param(paced((100, 1.0), compiles=(500.0,)), 10, 1.0, True, id="a compile after the last iteration"),
        pytest.param(paced((99, 1.0), compiles=(70.5,)), 10, 1.0, False, id="a compile too late to leave a quarter"),
        pytest.param(paced((10, 1.0), (45, 1.0), (45, 1.3)), 10, 1.15, False, id="halves that disagree"),
        pytest.param(paced((10, 1.0), (45, 1.0), (45, 1.05)), 10, 1.025, True, id="halves that agree"),
        pytest.param(paced((1, 2.0)), 0, 2.0, True, id="two iterations"),
        pytest.param(paced((7, 1.0), (5, 2.0)), 3, 14 / 9, True, id="too few to tell halves apart"),
        pytest.param(paced(), 0, None, True, id="one iteration"),
        pytest.param(RUN, 0, None, True, id="none"),
    ],
)
def test_iterations_are_timed_after_the_warm_up(run: Run, warm_up: int, seconds: float | None, *, steady: bool) -> None:
    measurement = Measurement.of(run)
    assert measurement.warm_up == warm_up
    assert measurement.iteration_seconds == (None if seconds is None else pytest.approx(seconds))
    assert measurement.steady is steady


def test_evaluations_in_one_half_are_no_change_of_pace() -> None:
    run = paced((60, 1.0), *[(1, 1.0), (1, 4.0)] * 20)
    evaluations = tuple(Pass(62.5 + 5 * at, 65.5 + 5 * at, 1.0, 5, 40, 0) for at in range(20))
    assert not Measurement.of(run).steady
    assert Measurement.of(replace(run, passes=evaluations)).steady


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(paced((24, 0.01), (1, 3.55), (23, 0.01)), id="an evaluation without a loader, in one half"),
        pytest.param(paced((24, 0.3), (1, 1.5), (24, 0.3)), id="workers that start with the second epoch"),
        pytest.param(
            paced((10, 0.02), *[(3, 0.02), (1, 0.2)] * 3, (3, 0.02)), id="one burst of the workers more in one half"
        ),
        pytest.param(paced((10, 1.0), *[(9, 1.0), (1, 5.0)] * 2, (20, 1.0)), id="two epochs in one half, none after"),
    ],
)
def test_a_pause_in_one_half_is_no_change_of_pace(run: Run) -> None:
    assert Measurement.of(run).steady


def test_a_pace_that_changes_is_seen_beside_pauses() -> None:
    assert not Measurement.of(paced((10, 0.3), (20, 0.32), (1, 1.5), (24, 0.25))).steady


@pytest.mark.parametrize(
    ("spans", "seconds"),
    [
        pytest.param([(0, 2), (5, 6)], 3.0, id="one after the other"),
        pytest.param([(0, 4), (1, 2)], 4.0, id="one in the other"),
        pytest.param([(0, 4), (3, 6)], 6.0, id="overlapping"),
        pytest.param([], 0.0, id="none"),
    ],
)
def test_time_that_passes_cover(spans: list[tuple[float, float]], seconds: float) -> None:
    passes = [Pass(start, end, 0.0, 1, 1, 0) for start, end in spans]
    assert covered(passes) == seconds
    assert covered(passes, 1.0, 100.0) == max(0.0, seconds - 1.0)


WHOLE = replace(
    RUN,
    wall_seconds=45.0,
    times=tuple(3.0 + at for at in range(21)),
    waits=tuple(0.25 * at for at in range(21)),
    passes=(
        Pass(2.0, 12.0, 3.0, 10, 100, 10),
        Pass(12.0, 14.0, 1.0, 2, 50, 0),
        Pass(14.0, 22.0, 2.0, 8, 80, 8),
        Pass(22.0, 26.0, 1.0, 2, 50, 0),
    ),
    device_allocated=100,
    host_bytes=7,
    gpu=Gpu(utilization=50.0, clock=1000.0, throttled=("power",), foreign=0, energy=10.0),
)


def test_figures_of_one_run() -> None:
    figures = Figures.of([WHOLE])
    assert figures.run_seconds == 45.0
    assert figures.start_seconds == 5.0
    assert figures.iteration_seconds == pytest.approx(1.0)
    assert figures.epoch_seconds == 9.0
    assert figures.evaluation_seconds == 3.0
    assert figures.waiting == pytest.approx(0.25)
    assert figures.samples_per_second == 10.0
    assert (figures.device_allocated, figures.device_reserved, figures.host_bytes) == (100, None, 7)


def test_a_process_that_ends_late_is_a_part_of_its_run() -> None:
    seen = replace(WHOLE, launch_seconds=0.5, script_seconds=23.0, bookkeeping_seconds=1.5)
    assert Figures.of([seen]).exit_seconds == 18.0  # of 45 in all, two of them for the imports
    assert Figures.of([replace(seen, ended="cut")]).exit_seconds is None
    assert Figures.of([replace(seen, outcome="timed-out")]).exit_seconds is None
    assert Figures.of([replace(seen, script_seconds=99.0)]).exit_seconds == 0.0


def test_figures_are_medians_over_runs() -> None:
    figures = Figures.of([WHOLE, replace(WHOLE, wall_seconds=50.0), replace(WHOLE, wall_seconds=500.0)])
    assert figures.run_seconds == 50.0


def test_a_pass_that_was_cut_is_no_epoch() -> None:
    cut = replace(WHOLE, ended="cut", passes=(*WHOLE.passes, Pass(26.0, 27.0, 0.0, 1, 10, 1)))
    assert Figures.of([cut]).epoch_seconds == 9.0


def test_figures_without_a_data_loader() -> None:
    figures = Figures.of([replace(WHOLE, passes=())])
    assert (figures.epoch_seconds, figures.evaluation_seconds, figures.waiting) == (None, None, None)


def test_figures_of_the_gpu_are_the_mean_and_the_worst() -> None:
    other = replace(WHOLE, gpu=Gpu(utilization=100.0, throttled=("thermal",), foreign=2, foreign_part=0.5))
    assert Figures.of([WHOLE, other, replace(WHOLE, gpu=None)]).gpu == Gpu(
        utilization=75.0, clock=1000.0, throttled=("power", "thermal"), foreign=2, foreign_part=0.5, energy=10.0
    )


def test_a_side_is_steady_if_most_of_its_runs_are() -> None:
    even, drifting = paced((100, 1.0)), paced((50, 1.0), (50, 2.0))
    assert Figures.of([even, even, drifting]).steady
    assert not Figures.of([even, drifting, drifting]).steady
