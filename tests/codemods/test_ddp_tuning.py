from __future__ import annotations

import pytest
from kit import ACCELERATED, check_leaves, check_rewrites, check_silent, run

from codemods.codemod import Promise
from codemods.rules.ddp_tuning import DdpTuning
from tests.training import run_script

HEAD = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
"""
N = HEAD.count("\n")
OPTIMIZER = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)\n"
STEP = """\
for x in torch.randn(6, 8, 4):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
"""


def script(made: str, optimizer: str = OPTIMIZER, step: str = STEP) -> str:
    """A script that makes its model in line N + 1, its optimizer in the next one, and steps in line N + 7."""
    return f"{HEAD}model = {made}\n{optimizer}{step}"


MADE = {
    "nothing else": ("DDP(model)", "DDP(model, gradient_as_bucket_view=True)"),
    "the device": ("DDP(model, [0], 0)", "DDP(model, [0], 0, gradient_as_bucket_view=True)"),
    "by its full name": (
        "nn.parallel.DistributedDataParallel(model, device_ids=[0])",
        "nn.parallel.DistributedDataParallel(model, device_ids=[0], gradient_as_bucket_view=True)",
    ),
    "nothing to look for": (
        "DDP(model, find_unused_parameters=False)",
        "DDP(model, find_unused_parameters=False, gradient_as_bucket_view=True)",
    ),
}


@pytest.mark.parametrize(("made", "new"), MADE.values(), ids=MADE)
def test_gradients_become_views(made: str, new: str) -> None:
    check_rewrites(DdpTuning, script(made), script(new))


FINE = {
    "gradients are clipped": STEP.replace(
        "    optimizer.step()", "    nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    optimizer.step()"
    ),
    "a gradient is asked for beside": STEP + "torch.autograd.grad(loss, x)\n",
    "gradients are set to zero": STEP.replace("zero_grad()", "zero_grad(set_to_none=False)"),
}


@pytest.mark.parametrize("step", FINE.values(), ids=FINE)
def test_torchs_own_use_of_gradients_does_not_matter(step: str) -> None:
    check_rewrites(
        DdpTuning, script("DDP(model)", step=step), script("DDP(model, gradient_as_bucket_view=True)", step=step)
    )


READ = f"gradients are read, kept or replaced (line {N + 7})"
LEFT = {
    "a gradient is read": (
        script(
            "DDP(model)",
            step=STEP.replace("    optimizer.step", "    print(model.module[0].weight.grad)\n    optimizer.step"),
        ),
        READ,
    ),
    "gradients are replaced": (
        script(
            "DDP(model)",
            step=STEP.replace("    optimizer.step", "    model.module[0].weight.grad = None\n    optimizer.step"),
        ),
        READ,
    ),
    "a hook gets them": (
        script("DDP(model)", step=f"model.module[0].weight.register_hook(print)\n{STEP}"),
        f"a hook is given gradients, and may keep them (line {N + 3})",
    ),
    "they are sent in another way": (
        script("DDP(model)", step=f"model.register_comm_hook(None, print)\n{STEP}"),
        f"a hook is given gradients, and may keep them (line {N + 3})",
    ),
    "they are differentiated": (
        script("DDP(model)", step=STEP.replace("backward()", "backward(create_graph=True)")),
        f"gradients may be differentiated again (line {N + 6})",
    ),
    "a CUDA graph has them": (
        script("DDP(model)", step=f"graph = torch.cuda.CUDAGraph()\n{STEP}"),
        f"a CUDA graph holds on to gradients (line {N + 3})",
    ),
    "the optimizer is unknown": (
        script("DDP(model)", optimizer="from optimizers import Own\noptimizer = Own(model.parameters())\n"),
        "no optimizer is seen, and it may keep gradients",
    ),
    "the optimizer is divided among processes": (
        script(
            "DDP(model)",
            optimizer="from torch.distributed.optim import ZeroRedundancyOptimizer\n"
            "optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)\n",
        ),
        f"torch.distributed.optim.ZeroRedundancyOptimizer() has gradients of its own (line {N + 3})",
    ),
    "other arguments": (
        script("DDP(model, **dict(bucket_cap_mb=50))"),
        "its arguments are given with *, ** or by position: name them",
    ),
}


@pytest.mark.parametrize(("code", "because"), LEFT.values(), ids=LEFT)
def test_gradients_are_left_as_they_are(code: str, because: str) -> None:
    check_leaves(DdpTuning, code, because)


def test_what_the_script_says_is_right() -> None:
    check_silent(DdpTuning, script("DDP(model, gradient_as_bucket_view=False)"))


def test_a_script_of_one_process_has_no_buckets() -> None:
    check_silent(DdpTuning, script("nn.DataParallel(model)"))
    check_silent(DdpTuning, ACCELERATED)


def test_what_has_no_gradient_is_looked_for() -> None:
    result = run(DdpTuning, script("DDP(model, find_unused_parameters=True)"))
    left = [each.message for each in result.sites if not each.rewrites]

    assert left == [
        "in each iteration DDP looks for parameters without a gradient: take it away where DDP warns that there are none"
    ]
    assert "find_unused_parameters=True, gradient_as_bucket_view=True)" in result.after


def test_another_rounding_is_promised() -> None:
    (site,) = run(DdpTuning, script("DDP(model)")).sites

    assert site.promise is Promise.PRECISION


def test_one_process_computes_the_same_bits() -> None:
    group = 'dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)\n'
    step = f"{STEP}    print(loss.item().hex())\ndist.destroy_process_group()\n"
    old = script("DDP(model)", step=step).replace("model = DDP", f"{group}model = DDP")
    result = run(DdpTuning, old)

    assert "gradient_as_bucket_view=True" in result.after
    assert run_script(result.after) == run_script(old)
