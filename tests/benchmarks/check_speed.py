"""How fast ``torchfast check`` is, beside its peers or project by project (no test: it takes minutes).

Beside its peers, in one run and in turn, because a machine is not as fast at one minute as at another::

    python tests/benchmarks/check_speed.py DIRECTORY... --hotpath hotpath --torchfix torchfix

Project by project (a file alone is one, too), over whatever repositories there are below the directories::

    python tests/benchmarks/check_speed.py DIRECTORY... --projects
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from autotune_rewrite.rewriting import batch
from autotune_rewrite.rewriting.config import Options

if TYPE_CHECKING:
    from collections.abc import Sequence

WORST = 10
SHORTEST = 20
"""Lines of the shortest projects that are told: below, it is the time to ask that is measured."""


@dataclass(frozen=True, slots=True)
class Run:
    """Seconds that one command took, and those that it and its children kept processors busy."""

    wall: float
    cpu: float


def run(command: Sequence[str]) -> Run:
    """Run a command whose output nobody reads; what it found is no failure."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if "Traceback" in done.stderr:
        sys.exit(done.stderr)
    return Run(wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def beside_peers(commands: dict[str, list[str]], rounds: int) -> None:
    """Print the best and the median time of each command, and how the others' compare with the first's."""
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            runs[name].append(run(command))
    first = runs[next(iter(runs))]
    print(f"{'':18}{'best':>9}{'median':>9}{'CPU':>9}{'ratio of best, of CPU':>26}   ({rounds} rounds)")
    for name, several in runs.items():
        best, cpu = (min(getattr(each, what) for each in several) for what in ("wall", "cpu"))
        ratio = best / min(each.wall for each in first)
        cpu_ratio = cpu / min(each.cpu for each in first)
        middle = median(each.wall for each in several)
        print(f"{name:18}{best:8.2f}s{middle:8.2f}s{cpu:8.2f}s{ratio:16.2f}{cpu_ratio:10.2f}")


def project_by_project(directories: Sequence[str]) -> None:
    """Print the projects that take longest for their length, and the memory of a check of all."""
    times: list[tuple[float, float, int, str]] = []
    for project in batch.found(directories, Options())[1]:
        if project.has_torch:
            start = time.process_time()
            batch.process(project, Options(), check=True)
            seconds = time.process_time() - start
            lines = sum(Path(each.path).read_bytes().count(b"\n") for each in project.parts)
            name = project.parts[0].path + (f" and {len(project.parts) - 1} more" if len(project.parts) > 1 else "")
            times.append((1000 * seconds / max(lines, 1), seconds, lines, name))
    lines = sum(each[2] for each in times)
    print(f"{len(times)} projects, {lines} lines, {sum(each[1] for each in times):.1f} s on one processor")
    long = sorted((each for each in times if each[2] >= SHORTEST), reverse=True)
    for per_thousand, seconds, lines, name in long[:WORST]:
        print(f"{per_thousand:6.2f} s per 1,000 lines  {seconds:6.2f} s  {lines:6} lines  {name}")
    whole = run([*TORCHFAST, "--no-cache", *directories])
    unit = 1024 * 1024 if sys.platform == "darwin" else 1024  # bytes there, kibibytes elsewhere
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / unit
    print(f"a check of all: {whole.wall:.1f} s, {whole.cpu:.1f} s of processors, {peak:.0f} MiB in the largest process")


TORCHFAST = [sys.executable, "-m", "autotune_rewrite", "check", "--quiet"]


def main() -> None:
    """Measures what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directories", nargs="+")
    parser.add_argument("--hotpath", help="the executable of hotpath-ai")
    parser.add_argument("--torchfix", help="the executable of torchfix")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--projects", action="store_true", help="project by project")
    options = parser.parse_args()
    if options.projects:
        project_by_project(options.directories)
        return
    # Once for the cache, which is not of the first round alone.
    run([*TORCHFAST, *options.directories])
    commands = {
        "torchfast check": [*TORCHFAST, "--no-cache", *options.directories],
        "... once more": [*TORCHFAST, *options.directories],
    }
    if options.hotpath:
        commands["hotpath analyze"] = [options.hotpath, "analyze", *options.directories]
    if options.torchfix:
        commands["torchfix"] = [options.torchfix, "--select=ALL", *options.directories]
    beside_peers(commands, options.rounds)


if __name__ == "__main__":
    main()
