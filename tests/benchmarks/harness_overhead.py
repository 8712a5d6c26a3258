"""What watching costs one iteration: ``python tests/benchmarks/harness_overhead.py`` (about three minutes, no test).

The same script, which times its own loop, is run bare and under the harness in turn.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from autotune_rewrite.verify.plan import Plan, Turn
from autotune_rewrite.verify.run import run_script

SCRIPT = """
import time
import torch
from torch.utils.data import DataLoader

torch.set_num_threads(1)
weight = torch.ones(64, 64, requires_grad=True)
seconds = []
for epoch in range(4):
    start = time.perf_counter()
    for batch in DataLoader([torch.randn(64)] * 4000, batch_size=4):
        loss = (batch @ weight).square().mean()
        loss.backward()
        now = time.perf_counter()
        seconds.append(now - start)
        start = now
print(sorted(seconds)[len(seconds) // 4])
"""
"""Batches come from a loader, as every hook that is called in each iteration should be there."""
TURNS = 9
TARGET_ITERATION = 2e-3
"""Seconds: a short iteration of a real script."""


def main() -> None:
    """Prints the shortest of both and the cost: what else the machine does only adds to them."""
    bare, watched = [], []
    with tempfile.TemporaryDirectory() as directory:
        script = Path(directory) / "train.py"
        script.write_text(SCRIPT, encoding="utf-8")
        plan = Plan(script, script, device="cpu")
        for _ in range(TURNS):
            done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
            bare.append(float(done.stdout))
            watched.append(float(run_script(plan, Turn("original", 0)).output[-1]))
    cost = min(watched) - min(bare)
    print(f"bare     {1e6 * min(bare):7.1f} µs an iteration")
    print(f"watched  {1e6 * min(watched):7.1f} µs an iteration")
    print(f"cost     {1e6 * cost:7.1f} µs, {cost / TARGET_ITERATION:.2%} of an iteration of 2 ms")


if __name__ == "__main__":
    main()
