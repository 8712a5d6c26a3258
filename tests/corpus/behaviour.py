"""Runs public training scripts as published and as rewritten, and says whether they still do the same.

``python tests/corpus/behaviour.py LIST --iterations 6 --json RESULTS``; ``README.md`` says what a list looks like and
what the words of the answer mean. Each script runs in a fresh copy of its folder, in a process of its own, with the
stand-ins of ``standins`` for what cannot be downloaded:

1. On the CPU, as published and as rewritten at level bitwise: every loss and final parameter has to be equal.
2. The same two on the simulated CUDA device, where most rules act.
3. On the simulated device as rewritten at the default level, with mixed precision in bfloat16 and in float16: losses
   have to be as near as ``judge`` says.

A script that fails as published is a control: it says nothing about the rewrite.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import math
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

PROJECT = Path(__file__).parents[2]
sys.path.insert(0, str(PROJECT))  # the tool of this checkout, whether or not another one is installed

from autotune_rewrite.verify.plan import Plan, Side, Turn  # noqa: E402 - as above
from autotune_rewrite.verify.run import run_script  # noqa: E402 - as above
from autotune_rewrite.verify.statistics.pairs import Pair  # noqa: E402 - as above

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from autotune_rewrite.verify.plan import Device
    from autotune_rewrite.verify.records import Run

STANDINS = Path(__file__).with_name("standins")
LARGEST_FILE = 5_000_000
"""Bytes; what is larger is left out of the copy of a folder."""
REWRITE_TIMEOUT = 300.0
"""Seconds for the rewrite of a folder, or for a recipe."""
BFLOAT16, FLOAT16 = "9.0", "7.0"
"""Compute capabilities of which mixed precision takes one type or the other."""
FIRST = 1e-2
"""How far the first loss may be off in 16 bits, in terms of the loss: nothing but rounding has happened yet."""
SEEDS = 3
"""Runs as published, with different seeds, that show what luck does to a loss."""
GOOD = ("equal", "within", "unchanged")
BAD = ("differs", "crashed", "timed-out")
COLUMNS = ("cpu", "simulated", "bfloat16", "float16")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the list."""

    script: Path
    arguments: tuple[str, ...] = ()
    folder: Path | None = None
    """What is copied; None: the script's own folder."""
    alone: bool = False
    """Whether the script is copied without its folder."""
    recipe: Path | None = None
    """A Python file that is run in the copy before anything else, to make the input files of the script."""
    items: str = ""
    """How many items the data sets have, as ``standin_datasets`` wants it."""
    iterations: int | None = None
    """Of each run, where the script trains something else first."""

    @classmethod
    def of(cls, line: str, beside: Path) -> Entry:
        """Reads a line: options as ``name=value``, the script, and its arguments.

        Args:
            line: The text, quoted as for a shell.
            beside: The folder that relative paths are relative to.

        Raises:
            ValueError: It has no script, or an option that there is not.
        """
        words = shlex.split(line, comments=True)
        options: dict[str, Any] = {}
        while words and "=" in words[0]:
            name, _, value = words.pop(0).partition("=")
            if name in {"folder", "recipe"}:
                options[name] = beside / value
            elif name == "items":
                options[name] = value
            elif name == "iterations":
                options[name] = int(value)
            elif (name, value) == ("alone", "yes"):
                options["alone"] = True
            else:
                raise ValueError(f"there is no option {name}={value}: {line}")
        if not words:
            raise ValueError(f"a line without a script: {line}")
        return cls(beside / words[0], tuple(words[1:]), **options)

    @property
    def name(self) -> str:
        """For the results: the script with its arguments."""
        return shlex.join([str(self.script), *self.arguments])

    @property
    def root(self) -> Path:
        """The folder that is copied."""
        return self.folder or self.script.parent


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one comparison said."""

    word: str
    """One of ``GOOD``, of ``BAD``, ``control`` (fails as published), ``no losses`` or ``unsteady``."""
    detail: str = ""
    output: tuple[str, ...] = ()
    """The last lines of a run that failed."""

    def __str__(self) -> str:
        return f"{self.word} ({self.detail})" if self.detail else self.word


@dataclass(slots=True)
class Row:
    """What is known of one script."""

    script: str
    tool: str
    """The state of the project that rewrote it."""
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    rules: dict[str, list[str]] = field(default_factory=dict)
    """Those that changed something, by level."""
    losses: dict[str, list[str]] = field(default_factory=dict)
    """Of each run."""
    printed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The last lines of each run: what the script says of its evaluation is to be read there."""

    @property
    def ran(self) -> bool:
        """Whether it runs as published, on one of the two devices, and trains."""
        return any(verdict.word in (*GOOD, *BAD) for verdict in self.verdicts.values())

    @property
    def bad(self) -> bool:
        """Whether a rewritten script failed."""
        return any(verdict.word in BAD for verdict in self.verdicts.values())


class RewriteError(Exception):
    """The tool, or a recipe, failed."""


class Bench:
    """The scratch folder of one script: ``published``, one folder for each level, and ``work``, where it runs."""

    def __init__(self, entry: Entry, scratch: Path, iterations: int, timeout: float, options: Sequence[str]) -> None:
        self.entry = entry
        self.rules: dict[str, list[str]] = {}
        self.losses: dict[str, list[str]] = {}
        self.printed: dict[str, tuple[str, ...]] = {}
        self.draws_anew = False
        """Whether the default level changes which random numbers are drawn, as ``loader-persistent`` says it does."""
        self._scratch = scratch
        self._iterations = entry.iterations or iterations
        self._timeout = timeout
        self._options = options
        self._runs: dict[tuple[str, str, int, int], Run] = {}
        published = scratch / "published"
        if entry.alone:
            published.mkdir(parents=True)
            shutil.copy(entry.script, published)
            self._place = Path(entry.script.name)
        else:
            shutil.copytree(entry.root, published, ignore=too_large, symlinks=True, ignore_dangling_symlinks=True)
            self._place = entry.script.relative_to(entry.root)
        if entry.recipe is not None:
            call([sys.executable, str(entry.recipe.absolute())], published / self._place.parent)
        self._levels = {"published": published}

    def rewrite(self, level: str) -> None:
        """Rewrites every script of the folder, as ``torchfast rewrite --apply`` does, at a level.

        Raises:
            RewriteError: The tool did not do its work.
        """
        folder = self._scratch / level
        shutil.copytree(self._levels["published"], folder, symlinks=True)
        target = folder / self._place if self.entry.alone else folder
        command = [sys.executable, "-m", "autotune_rewrite", "rewrite", "--apply", "--format", "json"]
        report = call([*command, "--level", level, *self._options, str(target)], folder, PYTHONPATH=str(PROJECT))
        findings = [finding for finding in json.loads(report)["findings"] if finding["status"] == "rewrites"]
        self.rules[level] = sorted({finding["rule"] for finding in findings})
        self.draws_anew = any(finding["promise"] == "random" for finding in findings)
        self._levels[level] = folder

    def changed(self, level: str) -> bool:
        """Whether the level changed anything."""
        return bool(self.rules[level])

    @property
    def asks_capability(self) -> bool:
        """Whether the published script itself may choose by what the device can do."""
        text = self.entry.script.read_text(encoding="utf-8", errors="replace")
        return any(name in text for name in ("is_bf16_supported", "get_device_capability"))

    def run(self, level: str, device: Device, capability: str = "", seed: int = 0, again: int = 0) -> Run:
        """Runs the script in a fresh copy of a folder.

        Args:
            level: Of the rewrite, or ``published``.
            device: To run on.
            capability: Of the simulated device.
            seed: Is added to every seed.
            again: Another number stands for another run of the same; without one the answer is remembered.
        """
        key = level, f"{device} {capability}".strip(), seed, again
        if key not in self._runs:
            work = self._scratch / "work"
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(self._levels[level], work, symlinks=True)
            side: Side = "original" if level == "published" else "rewritten"
            place = Path(self._place.name)
            plan = Plan(
                place,
                place,
                device=device,
                capability=capability or None,
                iterations=self._iterations,
                timeout=self._timeout,
                arguments=self.entry.arguments,
            )
            environment = {"STANDIN_ITEMS": self.entry.items} if self.entry.items else {}
            with inside(work / self._place.parent), changed_environment(environment):
                run = run_script(plan, Turn(side, seed))
            self._runs[key] = run
            name = " ".join(map(str, key))
            self.losses[name] = [repr(loss) for loss in run.losses]
            self.printed[name] = run.output
        return self._runs[key]


def compare_bitwise(bench: Bench, device: Device, capability: str) -> Verdict:
    """Whether the script as rewritten at level bitwise is the published one, bit for bit, on a device."""
    if (known := same_on_cpu(bench, "bitwise", capability, 0.0)) is not None:
        return known
    published = bench.run("published", device, capability)
    if (verdict := as_published(published)) is not None:
        return verdict
    if not bench.changed("bitwise"):
        return Verdict("unchanged")
    rewritten = bench.run("bitwise", device, capability)
    if rewritten.outcome != "ok":
        return failed(rewritten)
    pair = Pair(published, rewritten)
    if pair.equal:
        return Verdict("equal", f"{len(published.losses)} losses")
    if not Pair(published, bench.run("published", device, capability, again=1)).equal:
        return Verdict("unsteady", "two runs as published differ, too")
    if pair.lengths_differ:
        return Verdict("differs", f"{len(published.losses)} losses became {len(rewritten.losses)}")
    at = pair.first_difference
    if at is None:
        return Verdict("differs", "in the final parameters")
    return Verdict("differs", f"loss {at}: {published.losses[at]!r} became {rewritten.losses[at]!r}")


def compare_precision(bench: Bench, capability: str) -> Verdict:
    """Whether the script as rewritten at the default level trains like the published one."""
    if (known := same_on_cpu(bench, "precision", capability, FIRST)) is not None:
        return known
    published = bench.run("published", "simulated", capability if bench.asks_capability else BFLOAT16)
    if (verdict := as_published(published)) is not None:
        return verdict
    if not bench.changed("precision"):
        return Verdict("unchanged")
    rewritten = bench.run("precision", "simulated", capability)
    if rewritten.outcome != "ok":
        return failed(rewritten)
    if len(published.losses) != len(rewritten.losses):
        return Verdict("differs", f"{len(published.losses)} losses became {len(rewritten.losses)}")
    farthest = max(distances(published.losses, rewritten.losses))
    if farthest <= FIRST:
        return Verdict("within", f"{farthest:.1e}")
    others = [bench.run("published", "simulated", BFLOAT16, seed=seed) for seed in range(1, SEEDS)]
    seeds = [published.losses, *(other.losses for other in others)]
    return judge(seeds, rewritten.losses, same_batches=not bench.draws_anew)


def same_on_cpu(bench: Bench, level: str, capability: str, allowed: float) -> Verdict | None:
    """The verdict on a run on the simulated device that agrees with the published script on the CPU.

    Both compute on the CPU, so that most scripts do, and one run is saved. Where it does not, the script as published
    has to run on the simulated device, too: it may take other workers there, and with them other random numbers.

    Args:
        bench: The script.
        level: Of the rewrite.
        capability: Of the simulated device; empty for the CPU itself.
        allowed: How far losses may be off, in terms of themselves; 0 asks for the final parameters, too.
    """
    published = bench.run("published", "cpu")
    if not capability or not bench.changed(level) or as_published(published) is not None:
        return None
    rewritten = bench.run(level, "simulated", capability)
    if rewritten.outcome != "ok" or len(rewritten.losses) != len(published.losses):
        return None
    if not allowed:
        return Verdict("equal", f"{len(published.losses)} losses") if Pair(published, rewritten).equal else None
    farthest = max(distances(published.losses, rewritten.losses))
    return Verdict("within", f"{farthest:.1e}") if farthest <= allowed else None


def judge(seeds: Sequence[Sequence[float]], rewritten: Sequence[float], *, same_batches: bool = True) -> Verdict:
    """Whether losses in 16 bits are near enough to those in 32.

    The first one has seen nothing but rounding, and may be off by ``FIRST`` of the scale of the losses. From then on
    two trainings go apart at the rate at which training itself enlarges small differences; a fixed bound would be
    too wide for one script and too narrow for the next. So the others may be off by as much as seeds make of it: by
    the range of the published script's losses over ``SEEDS`` seeds at that iteration, or its median over the
    iterations where that is more, for three seeds may agree by chance. So may a first loss that seeds move by more than
    itself, as a critic's: it is the small difference of large terms, and shows the rounding of those.

    Args:
        seeds: The losses as published, of each seed; the first is the rewritten script's.
        rewritten: The losses as rewritten.
        same_batches: Whether they were drawn as published; otherwise the first loss is judged as the others are.
    """
    published = seeds[0]
    length = min(map(len, seeds))
    ranges = [max(at) - min(at) for at in zip(*seeds, strict=False) if all(map(math.isfinite, at))]
    usual = statistics.median(ranges) if ranges else 0.0
    scale = max((abs(loss) for loss in published if math.isfinite(loss)), default=0.0)
    for at, (before, after) in enumerate(zip(published[:length], rewritten, strict=False)):
        if before == after or (math.isnan(before) and math.isnan(after)):
            continue
        here = [losses[at] for losses in seeds]
        spread = max(here) - min(here)
        allowed = FIRST * scale
        if at or not same_batches or spread > abs(before):
            allowed = max(allowed, usual, spread)
        if not abs(before - after) <= allowed:
            return Verdict("differs", f"loss {at}: {before:.6g} became {after:.6g}, {allowed:.2g} is allowed")
    return Verdict("within", f"{max(distances(published, rewritten)):.1e}, as seeds do")


def distances(published: Sequence[float], rewritten: Sequence[float]) -> list[float]:
    """How far the losses are off, each in terms of itself."""
    found = [0.0]
    for before, after in zip(published, rewritten, strict=True):
        if before == after or (math.isnan(before) and math.isnan(after)):
            continue
        distance = abs(before - after) / max(abs(before), abs(after))
        found.append(distance if math.isfinite(distance) else math.inf)
    return found


def as_published(run: Run) -> Verdict | None:
    """Why the run as published says nothing; None where it does."""
    if run.outcome != "ok":
        return Verdict("control", run.problem, run.output[-6:])
    return None if run.losses else Verdict("no losses")


def failed(run: Run) -> Verdict:
    """The verdict on a rewritten script that failed where the published one did not."""
    return Verdict("timed-out" if run.outcome == "timed-out" else "crashed", run.problem, run.output)


def study(bench: Bench, row: Row) -> None:
    """Runs all comparisons of one script."""
    verdicts = row.verdicts
    bench.rewrite("bitwise")
    bench.rewrite("precision")
    verdicts["cpu"] = compare_bitwise(bench, "cpu", "")
    verdicts["simulated"] = compare_bitwise(bench, "simulated", BFLOAT16)
    verdicts["bfloat16"] = compare_precision(bench, BFLOAT16)
    # Without mixed precision both capabilities run the same.
    verdicts["float16"] = (
        compare_precision(bench, FLOAT16) if "amp" in bench.rules["precision"] else verdicts["bfloat16"]
    )


def call(command: Sequence[str], folder: Path, **environment: str) -> str:
    """Runs a command and returns what it prints.

    Raises:
        RewriteError: It failed, or took too long.
    """
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=REWRITE_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise RewriteError(f"{shlex.join(command)}: did not end within {REWRITE_TIMEOUT:g} seconds") from error
    if "Traceback" in done.stderr or (not done.stdout and done.returncode):
        raise RewriteError(f"{shlex.join(command)}: {done.stderr[-2000:]}")
    return done.stdout


def too_large(folder: str, names: list[str]) -> list[str]:
    """What ``shutil.copytree`` is to leave out."""
    paths = [(Path(folder) / name, name) for name in names]
    return [name for path, name in paths if name == ".git" or (path.is_file() and path.stat().st_size > LARGEST_FILE)]


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Changes into a folder and back: a child process starts where its parent is."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def changed_environment(values: dict[str, str]) -> Iterator[None]:
    """Sets variables for child processes, and takes them away again."""
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            del os.environ[name]


def version() -> str:
    """The commit of the project, with ``+`` where files differ from it; empty where there is none."""
    command = ["git", "-C", str(PROJECT), "describe", "--always", "--dirty=+"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def read_results(path: Path | None) -> dict[str, Row]:
    """What earlier calls found, by script; the last word counts."""
    if path is None or not path.exists():
        return {}
    rows: dict[str, Row] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        values = json.loads(line)
        verdicts = {name: Verdict(**verdict) for name, verdict in values.pop("verdicts").items()}
        rows[values["script"]] = Row(verdicts=verdicts, **values)
    return rows


def summary(rows: Sequence[Row]) -> str:
    """How many scripts each comparison said what of."""
    lines = [f"{len(rows)} scripts, {sum(row.ran for row in rows)} of them run as published and train"]
    for column in COLUMNS:
        counts = collections.Counter(row.verdicts[column].word for row in rows if column in row.verdicts)
        lines.append(f"{column:>10}  " + ", ".join(f"{count} {word}" for word, count in counts.most_common()))
    return "\n".join(lines)


def show(row: Row) -> str:
    """One line, and the last lines of what failed as rewritten."""
    verdicts = ", ".join(f"{column}: {verdict}" for column, verdict in row.verdicts.items())
    failures = [verdict for verdict in row.verdicts.values() if verdict.word in BAD]
    output = [f"    {line}" for verdict in failures for line in verdict.output[-8:]]
    return "\n".join([f"{row.script}: {verdicts}", *output])


def main() -> int:
    """Works through the list.

    Returns:
        The exit status: 1 where a rewritten script failed.
    """
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("list", type=Path, help="the scripts: one a line")
    parser.add_argument("--iterations", type=int, default=6, help="of each run")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for one run")
    parser.add_argument("--json", type=Path, help="results, one line a script; what is there is not run again")
    parser.add_argument("--again", action="store_true", help="run those again that failed as rewritten")
    parser.add_argument("--scratch", type=Path, help="keep the copies in this folder")
    parser.add_argument("--rewrite", default="", metavar="OPTIONS", help="more options of torchfast rewrite, in quotes")
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ["PYTHONPATH"] = str(STANDINS)
    os.environ.setdefault("PYTHONWARNINGS", "ignore")  # or nothing is left of what the script printed
    lines = arguments.list.read_text(encoding="utf-8").splitlines()
    entries = [Entry.of(line, arguments.list.parent) for line in lines if line.partition("#")[0].strip()]
    known = read_results(arguments.json)
    rows = []
    for entry in entries:
        row = known.get(entry.name)
        if row is None or (arguments.again and row.bad):
            row = Row(entry.name, version())
            with contextlib.ExitStack() as stack:
                kept = arguments.scratch and arguments.scratch.absolute() / entry.name.replace("/", "_")[-150:]
                if kept:
                    shutil.rmtree(kept, ignore_errors=True)
                scratch = kept or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="behaviour-")))
                try:
                    bench = Bench(
                        entry, scratch, arguments.iterations, arguments.timeout, shlex.split(arguments.rewrite)
                    )
                    row.rules, row.losses, row.printed = bench.rules, bench.losses, bench.printed
                    study(bench, row)
                except RewriteError as error:
                    row.verdicts["rewrite"] = Verdict("crashed", "", tuple(str(error).splitlines()))
            if arguments.json is not None:
                with arguments.json.open("a", encoding="utf-8") as results:
                    results.write(json.dumps(asdict(row)) + "\n")
            print(show(row), flush=True)
        rows.append(row)
    print(summary(rows))
    return int(any(row.bad for row in rows))


if __name__ == "__main__":
    sys.exit(main())
