"""The runs of both sides as event files, for TensorBoard to show beside each other."""

from __future__ import annotations

import time
from collections import Counter
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from autotune_rewrite.report.markdown import as_markdown
from autotune_rewrite.verify import metrics
from autotune_rewrite.verify.plan import VerifyError
from autotune_rewrite.verify.statistics.measurement import Measurement
from autotune_rewrite.verify.statistics.seeds import last_tenth

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from autotune_rewrite.verify.judgement import Judgement
    from autotune_rewrite.verify.plan import Plan
    from autotune_rewrite.verify.records import Run

    _Summary = tuple[int, float, Any]
    """A step, seconds from the start of the run, and the protocol buffer."""

ITERATION = "summary/iteration_seconds"
LOSS = "summary/final_loss"
METRICS = {ITERATION: "seconds per iteration", LOSS: "mean loss of the last tenth"}
"""One figure for each run, by tag: what is compared in the tab HPARAMS."""


def check_tensorboard(directory: Path) -> None:
    """Refuses what ``write_tensorboard`` could not do, before anything runs.

    Raises:
        VerifyError: The package is missing, or the directory holds something: TensorBoard would mix it with the runs.
    """
    if find_spec("tensorboard") is None:
        message = "--tensorboard needs tensorboard, which is not installed: pip install 'autotune-rewrite[tensorboard]'"
        raise VerifyError(message)
    try:
        used = directory.exists() and any(directory.iterdir())
    except OSError as error:
        message = f"{directory}: {error.strerror or error}"
        raise VerifyError(message) from error
    if used:
        message = f"{directory}: not empty, and TensorBoard would mix what is there with these runs"
        raise VerifyError(message)


def write_tensorboard(directory: Path, plan: Plan, runs: Sequence[Run], judgement: Judgement) -> None:
    """Writes a subdirectory for each run, such as ``original-0``, and beside them what was judged.

    All runs begin at the same time, so that TensorBoard's axes WALL and RELATIVE lay them over each other.

    Args:
        directory: Missing or empty.
        plan: What was compared; its seed is that of the first pair.
        runs: Of both sides, in the order in which they were made.
        judgement: Of these runs.

    Raises:
        VerifyError: As ``check_tensorboard``, or the files cannot be written.
    """
    check_tensorboard(directory)
    began = time.time()
    names: list[str] = []
    try:
        _write(directory, began, _of_judgement(plan, runs, judgement))
        for run in runs:
            names.append(_name(run, names))
            _write(directory / names[-1], began, _of_run(plan, run, names[-1], judgement))
    except OSError as error:
        message = f"{error.filename or directory}: {error.strerror or error}"
        raise VerifyError(message) from error


def _write(directory: Path, began: float, summaries: Iterable[_Summary]) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    directory.mkdir(parents=True, exist_ok=True)
    writer = EventFileWriter(str(directory))
    try:
        for step, seconds, summary in summaries:
            writer.add_event(Event(step=step, wall_time=began + seconds, summary=summary))
    finally:
        writer.close()


def _of_judgement(plan: Plan, runs: Sequence[Run], judgement: Judgement) -> Iterator[_Summary]:
    """What the tabs HPARAMS and TEXT begin with."""
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams.summary_v2 import Discrete, HParam, Metric, hparams_config_pb
    from tensorboard.plugins.text.metadata import create_summary_metadata
    from tensorboard.util.tensor_util import make_tensor_proto

    of_runs = [_parameters(plan, run, judgement) for run in runs]
    values = {name: {each[name] for each in of_runs} for name in (of_runs[0] if of_runs else ())}
    parameters = [HParam(name, Discrete(each)) for name, each in values.items()]
    yield 0, 0, hparams_config_pb(parameters, [Metric(tag, display_name=name) for tag, name in METRICS.items()])
    text = make_tensor_proto([as_markdown(judgement, plan.original, plan.rewritten).encode()])
    metadata = create_summary_metadata("judgement", "")
    yield 0, 0, Summary(value=[Summary.Value(tag="judgement", metadata=metadata, tensor=text)])


def _of_run(plan: Plan, run: Run, name: str, judgement: Judgement) -> Iterator[_Summary]:
    """Steps are iterations, or lines of a kind that it printed, from 1, or what the script itself calls a step."""
    from tensorboard.plugins.hparams.summary_v2 import hparams_pb

    yield 0, 0, hparams_pb(_parameters(plan, run, judgement), trial_id=name)
    for at, (seconds, loss) in enumerate(zip(run.times, run.losses, strict=False), start=1):
        yield at, seconds, _scalar("iteration/loss", loss)
    if run.kind != "check":  # that is not timed
        for at, (before, seconds) in enumerate(pairwise(run.times), start=2):
            yield at, seconds, _scalar("iteration/seconds", seconds - before)
        of_iteration = Measurement.of(run).iteration_seconds
        if of_iteration is not None:
            yield 0, 0, _scalar(ITERATION, of_iteration)
    if run.losses:
        yield 0, 0, _scalar(LOSS, last_tenth(run.losses))
    printed: set[str] = set()
    for series in metrics.of_run(run):
        tag = f"output/{series.name}"
        if series.source == "TensorBoard" or tag in printed:
            continue  # it comes below, or is in another line, too
        printed.add(tag)
        for at, value in enumerate(series.values, start=1):
            yield at, 0, _scalar(tag, value)
    given: Counter[str] = Counter()
    for scalar in run.scalars:
        given[scalar.tag] += 1
        yield given[scalar.tag] if scalar.step is None else scalar.step, 0, _scalar(scalar.tag, scalar.value)


def _scalar(tag: str, value: float) -> Any:  # noqa: ANN401 - tensorboard has no types
    from tensorboard.compat.proto.summary_pb2 import Summary

    return Summary(value=[Summary.Value(tag=tag, simple_value=value)])


def _parameters(plan: Plan, run: Run, judgement: Judgement) -> dict[str, str | int]:
    """What a run is told apart by."""
    return {
        "side": run.side,
        "kind": run.kind,
        "seed": plan.seed + run.offset,
        "device": str(judgement.environment.get("gpu", "CPU")),
        "torch": str(judgement.environment.get("torch", "?")),
    }


def _name(run: Run, taken: Sequence[str]) -> str:
    """Of the run's subdirectory, and unlike those that are taken."""
    name = f"{run.side}-{run.offset}" + ("" if run.kind == "pair" else f"-{run.kind}")
    same = sum(each == name or each.startswith(f"{name}-again-") for each in taken)
    return f"{name}-again-{same}" if same else name
