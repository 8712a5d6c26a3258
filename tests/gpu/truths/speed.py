"""Truths about speed: a script beside itself, and beside itself with five per cent more work.

Runs fork from a process that has imported torch. The verifier gives every run the median time of all imports, so nothing
is lost by that, and a difference weighs more beside a start that is shorter: it is the harsher test. ``forks`` holds such
runs against those of fresh processes.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from autotune_rewrite.verify import judged
from autotune_rewrite.verify.judgement import speed_word
from autotune_rewrite.verify.plan import Plan, Turn
from autotune_rewrite.verify.statistics.measurement import Measurement
from tests.gpu.truths.bench import FORK, START, Rounds, Truth, kept, read_json, runs_of, told
from tests.gpu.truths.texts import MORE_PRODUCTS, OVERHEAD, PAUSES, SPEED, changed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from autotune_rewrite.verify.judgement import Judgement
    from autotune_rewrite.verify.records import Run
    from tests.gpu.tasks import Task, Values
    from tests.gpu.truths.bench import Bench

SAME, SLOWER = "same", "slower"
PAIRS = 20
PAIRS_OF_TASK = 4
ROUNDS = 6
ROUNDS_OF_TASK = 3
ITERATIONS = 220
SECONDS = 2.0
"""Of a run after its start, as estimated: an iteration takes some 7 ms."""
SIZE = 2048
LENGTH = 100_000
"""Iterations of the whole run that runs with more work are extrapolated to: five per cent of two seconds are less than
what starts differ by."""
PART = 0.05
CLOSE = 0.01
"""By which the ratio that was seen may differ from that of the work that was added."""
FORKED_CLOSE = 0.02
CHANGES = {"device": MORE_PRODUCTS, "host": PAUSES}
MODELS = {"tiny": (64, 3, 64, 200, 60), "medium": (2048, 10, 1024, 25, 24)}
"""Width, layers, rows of a batch, iterations of an epoch, epochs: some 0.3 ms and 5 ms for an iteration."""
TINY_MODEL = (8, 1, 4, 5, 8)
COSTS = {"tiny": 0.10, "medium": 0.01}
"""The part of an iteration that watching may cost."""
NEITHER = ("no-difference", "inconclusive")


def same_tasks(bench: Bench) -> list[Task]:
    """A script beside itself, some pairs at a time; the pairs of all are judged together in the summary."""
    pairs, each = (PAIRS, PAIRS_OF_TASK) if bench.real else (4, 2)
    seconds = 2 * each * (FORK + SECONDS)
    return [
        bench.task(f"{SAME} {number + 1}", seconds + (START if number == 0 else 0.0), _same(bench, pairs, number, each))
        for number in range(pairs // each)
    ]


def _same(bench: Bench, pairs: int, number: int, count: int) -> Callable[[Path, float], Values]:
    def work(folder: Path, deadline: float) -> Values:
        arguments = _arguments(bench, folder, ITERATIONS)
        plan = bench.plan(folder, SPEED, promise="bitwise", pairs=pairs, arguments=arguments)
        runs = [
            bench.run(plan, turn, deadline=deadline, forked=True)
            for pair in Rounds(range(number * count, (number + 1) * count), deadline)
            for turn in plan.pair_turns[pair]
        ]
        return told(
            same_truths(replace(plan, pairs=len(runs) // 2), runs), runs=[kept(run) for run in runs], forked=bench.forks
        )

    return work


def same_truths(plan: Plan, runs: list[Run]) -> list[Truth]:
    """What has to be true of runs that all are of one text.

    Args:
        plan: Theirs.
        runs: Of whole pairs.
    """
    judgement = judged(plan, runs, runs[0].environment)
    iteration = None if judgement.iteration is None else speed_word(judgement.iteration)
    timed = plan.simulated is None and judgement.run == "ok"
    return [
        Truth("a script beside itself", "ok", judgement.run, judgement.run == "ok"),
        Truth("its results", "equal", judgement.equality, judgement.equality == "equal"),
        Truth(
            "its speed",
            "neither faster nor slower",
            _speed(judgement) if timed else None,
            judgement.speed in NEITHER if timed else None,
        ),
        Truth("its iterations", "neither faster nor slower", iteration, iteration in NEITHER if timed else None),
    ]


def slower_tasks(bench: Bench) -> list[Task]:
    """The script beside itself with five per cent more work on the device, and on the host."""
    rounds, each = (ROUNDS, ROUNDS_OF_TASK) if bench.real else (2, 2)
    seconds = START / 2 + each * (1 + len(CHANGES)) * (FORK + SECONDS)
    return [
        bench.task(f"{SLOWER} {number + 1}", seconds, _slower(bench, rounds, number, each))
        for number in range(rounds // each)
    ]


def _slower(bench: Bench, rounds: int, number: int, count: int) -> Callable[[Path, float], Values]:
    def work(folder: Path, deadline: float) -> Values:
        plans = {
            name: bench.plan(
                folder,
                SPEED,
                changed(SPEED, change),
                name=name,
                promise="bitwise",
                pairs=rounds,
                iterations=ITERATIONS if bench.real else 12,
                length=LENGTH,
                arguments=_arguments(bench, folder, 10**6),
            )
            for name, change in CHANGES.items()
        }
        runs: dict[str, list[Run]] = {"original": [], **{name: [] for name in plans}}
        figures: dict[str, list[Any]] = {name: [] for name in runs}
        for offset in Rounds(range(number * count, (number + 1) * count), deadline):
            names = list(runs)
            for name in names if offset % 2 == 0 else names[::-1]:
                plan = plans.get(name, plans["device"])
                turn = Turn("original" if name == "original" else "rewritten", offset)
                told_by(plan).unlink(missing_ok=True)
                runs[name].append(bench.run(plan, turn, deadline=deadline, forked=True))
                figures[name].append(read_json(told_by(plan)))
        truths = [
            truth
            for name, plan in plans.items()
            for truth in slower_truths(
                name, replace(plan, pairs=len(runs[name])), runs["original"], runs[name], figures[name]
            )
        ]
        records = {name: [kept(run) for run in made] for name, made in runs.items()}
        return told(truths, runs=records, figures=figures, forked=bench.forks)

    return work


def slower_truths(name: str, plan: Plan, originals: list[Run], runs: list[Run], figures: Sequence[Any]) -> list[Truth]:
    """What has to be true of a script with more work.

    Args:
        name: Where the work is: on the device or on the host.
        plan: Of both texts.
        originals: Runs without it.
        runs: Runs with it.
        figures: What these told of the work.
    """
    judgement = judged(plan, [*originals, *runs], originals[0].environment)
    more = f"more work on the {name}"
    truths = [Truth(f"{more}: its results", "equal", judgement.equality, judgement.equality == "equal")]
    timed = plan.simulated is None and judgement.run == "ok" and judgement.iteration is not None and all(figures)
    truths.append(
        Truth(
            more,
            "slower",
            _speed(judgement) if timed else None,
            judgement.speed == "slower" if timed else None,
        )
    )
    expected = seen = None
    if timed and judgement.iteration is not None:
        each = fmean(Measurement.of(run).iteration_seconds or 0.0 for run in runs)
        added = fmean(values["product" if name == "device" else "slept"] for values in figures)
        expected, seen = 1 - added / each, judgement.iteration.estimate
    close = None if expected is None or seen is None else abs(seen - expected) <= CLOSE
    truths.append(Truth(f"{more}: the ratio of iterations", expected, seen, close))
    return truths


def forks_task(bench: Bench) -> Task:
    """One pair of fresh processes beside one of forks: does an iteration take the same time?"""

    def work(folder: Path, deadline: float) -> Values:
        arguments = _arguments(bench, folder, ITERATIONS)
        plan = bench.plan(folder, SPEED, promise="bitwise", pairs=1, arguments=arguments)
        order = (False, True, True, False)
        runs = [bench.run(plan, Turn("original", 0), deadline=deadline, forked=forked) for forked in order]
        seconds = [Measurement.of(run).iteration_seconds for run in runs]
        known = [each for each in seconds if each]
        ratio = None
        if bench.real and bench.forks and len(known) == len(order):
            ratio = (known[0] + known[3]) / (known[1] + known[2])
        within = None if ratio is None else abs(ratio - 1) <= FORKED_CLOSE
        well = all(run.outcome == "ok" for run in runs)
        return told(
            [
                Truth("runs in fresh processes and in forks", "ok", [run.outcome for run in runs], well),
                Truth("iterations of fresh processes, in those of forks", 1.0, ratio, within),
            ],
            forked=bench.forks,
            iteration_seconds=seconds,
            import_seconds=[run.import_seconds for run in runs],
            script_seconds=[run.script_seconds for run in runs],
            wall_seconds=[run.wall_seconds for run in runs],
        )

    return bench.task("forks", 2 * (START + SECONDS) + 2 * (FORK + SECONDS), work)


def overhead_task(bench: Bench) -> Task:
    """What the hook costs an iteration, within one process."""

    def work(folder: Path, deadline: float) -> Values:
        truths, figures = [], {}
        for name, model in MODELS.items():
            path = folder / f"{name}.json"
            path.unlink(missing_ok=True)
            shape = map(str, model if bench.real else TINY_MODEL)
            plan = bench.plan(folder, OVERHEAD, name=name, arguments=(*shape, str(path)))
            run = bench.run(plan, Turn("original", 0), deadline=deadline)
            seconds = read_json(path)
            truths.append(Truth(f"a {name} model under the hook", "ok", run.outcome, run.outcome == "ok"))
            if not seconds:
                continue
            cost = median(seconds["watched"]) - median(seconds["bare"])
            part = cost / median(seconds["bare"])
            below = f"at most {COSTS[name]:.0%} of an iteration"
            figures[name] = {
                "iteration_microseconds": 1e6 * median(seconds["bare"]),
                "cost_microseconds": 1e6 * cost,
                "cost_part": part,
                **seconds,
            }
            seen, right = (f"{part:.2%}", part <= COSTS[name]) if bench.real else (None, None)
            truths.append(Truth(f"what watching a {name} model costs", below, seen, right))
        return told(truths, figures=figures)

    return bench.task("overhead", 2 * (START + 6.0), work)


def told_by(plan: Plan) -> Path:
    """The file in which the plan's scripts tell of themselves."""
    return Path(plan.arguments[-1])


def _arguments(bench: Bench, folder: Path, iterations: int) -> tuple[str, ...]:
    size = SIZE if bench.real else 16
    return (
        str(size),
        str(iterations if bench.real else min(iterations, 1000 if iterations > 1000 else 12)),
        str(folder / "told.json"),
    )


def _speed(judgement: Judgement) -> dict[str, Any]:
    ratios = {"whole": judgement.whole, "iteration": judgement.iteration}
    return {
        "word": judgement.speed,
        "noise": judgement.noise,
        **{
            name: None if ratio is None else {"estimate": ratio.estimate, "low": ratio.low, "high": ratio.high}
            for name, ratio in ratios.items()
        },
        "reason": judgement.reason,
    }


def joined(lines: Sequence[Values]) -> list[Values]:
    """All pairs of a script beside itself judged together, and all rounds with more work, as lines of their own.

    Args:
        lines: Of the stage; those of other tasks and of tasks that failed are passed over.
    """
    found: list[Values] = []
    same = [line for line in lines if line["key"].startswith(f"{SAME} ") and "runs" in line]
    if same:
        runs = runs_of([run for line in same for run in line["runs"]])
        plan = _plan(same[0], len(runs) // 2)
        words = [seen["word"] for line in same if (seen := line["seen"]["its speed"]) is not None]
        right = all(word in NEITHER for word in words) if words else None
        parts = Truth("the pairs of each task alone", "neither faster nor slower", ", ".join(words), right)
        truths = [*same_truths(plan, runs), parts]
        found.append({"key": f"{SAME}, all {len(runs) // 2} pairs", **told(truths)})
    slower = [line for line in lines if line["key"].startswith(f"{SLOWER} ") and "runs" in line]
    if slower:
        made = {
            name: runs_of([run for line in slower for run in line["runs"][name]]) for name in ("original", *CHANGES)
        }
        plan = replace(_plan(slower[0], len(made["original"])), length=LENGTH, iterations=ITERATIONS)
        truths = [
            truth
            for name in CHANGES
            for truth in slower_truths(
                name, plan, made["original"], made[name], [one for line in slower for one in line["figures"][name]]
            )
        ]
        found.append({"key": f"{SLOWER}, all {len(made['original'])} rounds", **told(truths)})
    return found


def _plan(line: Values, pairs: int) -> Plan:
    device = line["device"]
    return Plan(Path("original.py"), Path("rewritten.py"), promise="bitwise", pairs=max(1, pairs), device=device)
