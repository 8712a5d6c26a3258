"""What watching costs one iteration: ``python tests/benchmarks/harness_overhead.py`` (about a minute, no test).

One script under the harness times its own iterations, and takes the hooks off and puts them on again from epoch to epoch:
two processes differ by more than the hooks cost.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from autotune_rewrite.verify.plan import Plan, Turn
from autotune_rewrite.verify.run import run_script

SCRIPT = """
import time
import torch
from torch.utils.data import DataLoader, dataloader

torch.set_num_threads(1)
weight = torch.ones(64, 64, requires_grad=True)
places = (torch.autograd, "backward"), (DataLoader, "__iter__"), (dataloader._BaseDataLoaderIter, "__next__")
hooks = [getattr(*place) for place in places]
seconds = [], []
for epoch in range(80):
    watched = epoch % 2
    for (owner, name), hook in zip(places, hooks):
        setattr(owner, name, hook if watched else hook.__wrapped__)
    start = time.perf_counter()
    for batch in DataLoader([torch.randn(64)] * 2000, batch_size=4):
        loss = (batch @ weight).square().mean()
        loss.backward()
        now = time.perf_counter()
        seconds[watched].append(now - start)
        start = now
for each in seconds:
    print(sorted(each)[len(each) // 4])
"""
"""Batches come from a loader, as every hook that is called in each iteration should be there.

The lower quartile is told: what else the machine does only adds to an iteration.
"""
TARGET_ITERATION = 2e-3
"""Seconds: a short iteration of a real script."""


def main() -> None:
    """Prints both and the cost."""
    with tempfile.TemporaryDirectory() as directory:
        script = Path(directory) / "train.py"
        script.write_text(SCRIPT, encoding="utf-8")
        plan = Plan(script, script, device="cpu")
        bare, watched = map(float, run_script(plan, Turn("original", 0)).output[-2:])
    cost = watched - bare
    print(f"bare     {1e6 * bare:7.1f} µs an iteration")
    print(f"watched  {1e6 * watched:7.1f} µs an iteration")
    print(f"cost     {1e6 * cost:7.1f} µs, {cost / TARGET_ITERATION:.2%} of an iteration of 2 ms")


if __name__ == "__main__":
    main()
