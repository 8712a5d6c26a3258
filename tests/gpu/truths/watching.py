"""Truths about the harness: it never waits for the device, and the losses that it records are those of the script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autotune_rewrite.verify.plan import Turn
from tests.gpu.truths.bench import LAST_LINES, START, Truth, read_json, told
from tests.gpu.truths.texts import LEFT_ON, LOSSES, STREAMS, SYNC

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from autotune_rewrite.verify.records import Run
    from tests.gpu.tasks import Task, Values
    from tests.gpu.truths.bench import Bench

WORKS = {
    "plain": "losses on the device",
    "scaled": "losses that a gradient scaler has scaled",
    "not_scalar": "losses that are no scalars",
    "several": "several losses at once",
}
SECONDS = 1.2
"""Of each kind: the harness writes a window twice a second."""
WINDOWS = 4
"""That have to be seen, at least, in all of them."""
BUFFER = 4096
"""Losses in one buffer of the harness."""
LOSSES_PLAIN, LOSSES_FEW = 5000, 300
FEW_OF_STREAM = 50


def sync_task(bench: Bench) -> Task:
    """Training while torch refuses to wait for the device."""

    def work(folder: Path, deadline: float) -> Values:
        path = folder / "told.json"
        path.unlink(missing_ok=True)
        seen: list[tuple[int, int]] = []
        device = bench.setting.device
        plans = [
            bench.plan(folder, SYNC, name="sync", arguments=(device, str(SECONDS), str(path))),
            bench.plan(folder, LEFT_ON, name="left-on", arguments=(device,)),
        ]
        run, after = bench.several(
            [(plan, Turn("original", 0)) for plan in plans], deadline, lambda *told: seen.append(told)
        )
        found = read_json(path)
        windows = sum(number == 0 and iterations > 0 for number, iterations in seen)
        truths = [
            Truth("training while waiting is refused", "ok", run.outcome, run.outcome == "ok"),
            *(_never_waits(bench, words, found.get(name)) for name, words in WORKS.items()),
            _control(bench, found.get("waits")),
            Truth("windows meanwhile", f"at least {WINDOWS}", windows, windows >= WINDOWS),
            Truth(
                "waiting still refused when the script ends", "ok", after.outcome, _ok(after) if bench.real else None
            ),
        ]
        return told(truths, figures=found, output=[*run.output, *after.output][-LAST_LINES:] if not _ok(after) else [])

    return bench.task("sync", START + 7.0, work, alone=False)


def _ok(run: Run) -> bool:
    return run.outcome == "ok"


def _never_waits(bench: Bench, words: str, found: Any) -> Truth:
    seen = "not reached" if found is None else found["error"] or f"{found['iterations']} iterations"
    right = found is not None and found["error"] is None and found["iterations"] > 0
    return Truth(f"nothing waits: {words}", "no error", seen, right if bench.real else None)


def _control(bench: Bench, found: Any) -> Truth:
    seen = "not reached" if found is None else found["error"]
    return Truth("what waits is refused", "an error", seen, seen not in (None, "not reached") if bench.real else None)


def losses_task(bench: Bench) -> Task:
    """The losses of the record beside those that the script itself has recorded."""

    def work(folder: Path, deadline: float) -> Values:
        path = folder / "told.json"
        path.unlink(missing_ok=True)
        plain, few = (LOSSES_PLAIN, LOSSES_FEW) if bench.real else (BUFFER + 4, 4)
        plan = bench.plan(folder, LOSSES, name="losses", arguments=(str(plain), str(few), str(path)))
        streams = bench.plan(
            folder, STREAMS, name="streams", arguments=(bench.setting.device, str(BUFFER), str(FEW_OF_STREAM))
        )
        run, aside = bench.several([(each, Turn("original", 0)) for each in (plan, streams)], deadline)
        own = read_json(path) or []
        parts = {
            f"{plain} losses, in more than one buffer": slice(0, plain),
            "from another stream": slice(plain, plain + few),
            "overwritten right after backward": slice(plain + few, plain + 2 * few),
            "scaled": slice(plain + 2 * few, plain + 3 * few),
        }
        truths = [Truth("a script that records its losses", "ok", run.outcome, _ok(run))]
        truths += [_same(name, own[part], run.losses[part]) for name, part in parts.items()]
        return told([*truths, *_streams(aside)], output=run.output if not _ok(run) else ())

    return bench.task("losses", START + 8.0, work, alone=False)


def _same(name: str, own: Sequence[float], recorded: Sequence[float]) -> Truth:
    differ = [at for at, (a, b) in enumerate(zip(own, recorded, strict=False)) if a != b]
    whole = bool(own) and len(own) == len(recorded)
    seen = "bit for bit the same" if whole and not differ else _differing(own, recorded, differ)
    return Truth(name, "bit for bit the same", seen, whole and not differ)


def _differing(own: Sequence[float], recorded: Sequence[float], differ: Sequence[int]) -> str:
    if not differ:
        return f"{len(recorded)} recorded, and {len(own)} by the script"
    at = differ[0]
    return (
        f"{len(differ)} of {len(own)} differ, the first at {at}: {recorded[at]!r} recorded, {own[at]!r} by the script"
    )


def _streams(run: Run) -> list[Truth]:
    """Losses of two streams that do not wait for each other; each is the number of its iteration."""
    few = FEW_OF_STREAM
    own = [float(at) for at in range(BUFFER + 1 + 2 * few)]
    end = BUFFER + 1 + few
    parts: dict[str, slice] = {
        "after a buffer that another stream began": slice(BUFFER, end),
        "still computed by another stream at the end": slice(end, end + few),
    }
    truths = [Truth("two streams that do not wait for each other", "ok", run.outcome, _ok(run))]
    return [*truths, *(_same(name, own[part], run.losses[part]) for name, part in parts.items())]


def watching_tasks(bench: Bench) -> list[Task]:
    """Both."""
    found: tuple[Callable[[Bench], Task], ...] = (sync_task, losses_task)
    return [make(bench) for make in found]
