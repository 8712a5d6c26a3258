"""Stage 7: what pays? ``torchfast tune`` looks for it in two scripts on the device, with as much time as a call has.

It rewrites while it searches, so that Python needs libcst here, too: that of the machine, or one that was installed below
the prepared folder (``pip install --target build/gpu/packages libcst``).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tests.gpu.running import NAIVE, Extent, Prepared
from tests.gpu.scripts import BY_NAME
from tests.gpu.tasks import UNFINISHED, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.gpu.setting import Setting
    from tests.gpu.tasks import Result, Values

ROOT = Path(__file__).parents[2]
TUNED = ("mnist_feedforward", "tabular_mlp")
"""One that waits for its data, and one that waits for its launches."""
BUDGET, TRYING = 255.0, 30.0
"""Seconds of a search: two of them fit into one call. And where nothing that is measured counts."""
AROUND = 20.0
"""Seconds that the command takes besides."""
LAST_LINES = 20
"""Of what a command that failed has said."""
KEPT = ("pays", "reason", "rules", "values", "is_complete", "parts", "not_measured", "failed", "everything")
"""Of what the command tells as JSON."""


def tasks(setting: Setting) -> list[Task]:
    """One for each script."""
    prepared = Prepared(setting)
    budget = TRYING if setting.tries_only else BUDGET
    names = [name for name in TUNED if name in prepared.names()]
    return [Task(name, budget + AROUND, _tuning(prepared, name, budget)) for name in names]


def command(prepared: Prepared, name: str, budget: float, seconds: float) -> list[str]:
    """What is called; the script's data are generated within so many seconds if they are not there."""
    setting, script = prepared.setting, BY_NAME[name]
    length = script.length(setting, "measured")
    if script.dissected is not None and not setting.tries_only:
        length = script.dissected.length  # shorter: a search makes many runs
    device = "cpu" if setting.tries_only else setting.device  # a simulated one has no times, and is refused
    options = ("--format", "json", "--quiet", "--fresh", "--budget", f"{budget:g}s", "--device", device)
    file, arguments = prepared.file(name, NAIVE), prepared.arguments(name, Extent.of(length), seconds)
    return [sys.executable, "-m", "autotune_rewrite", "tune", str(file), *options, "--", *arguments]


def _tuning(prepared: Prepared, name: str, budget: float) -> Callable[[float], Result]:
    packages = prepared.setting.prepared / "packages"

    def run(seconds: float) -> Result:
        if find_spec("libcst") is None and not (packages / "libcst").is_dir():
            return {UNFINISHED: f"libcst is neither installed nor in {packages}"}
        end = time.monotonic() + seconds
        called = command(prepared, name, budget, seconds)
        path = os.pathsep.join((str(ROOT), str(packages)))
        environment = {**os.environ, "PYTHONPATH": path, "XDG_CACHE_HOME": str(prepared.setting.scratch / "cache")}
        done = subprocess.run(
            called,
            env=environment,
            capture_output=True,
            check=False,
            text=True,
            timeout=max(1.0, end - time.monotonic()),
        )
        about: Values = {"script": name, "budget": budget, "command": called[1:]}
        if not done.stdout.startswith("{"):
            return {**about, "failed": done.returncode, "output": done.stderr.splitlines()[-LAST_LINES:]}
        told = json.loads(done.stdout)
        verified = told["verification"]
        ratio = None if verified is None else verified["ratios"]["run"]
        return {**about, **{each: told[each] for each in KEPT}, "ratio": ratio, "exit_code": told["exit_code"]}

    return run


def summary(lines: Sequence[Values]) -> Iterator[str]:
    """What was kept of each script, and how much faster that is, in sentences."""
    for line in lines:
        if "failed" in line and "output" in line:
            yield f"FAILED {line['key']}: {''.join(line['output'][-1:]).strip()}"
            continue
        ratio = line["ratio"]
        faster = "" if ratio is None else f", {ratio['estimate']:.2f} times as fast"
        kept = f"{', '.join(line['rules'])}{faster}" if line["pays"] else f"nothing. {line['reason']}"
        whole = "" if line["is_complete"] else " The budget was spent before all was tried."
        yield f"{line['key']}: kept {kept.rstrip('.')}.{whole}"
