"""Tensors of which a loop sets items to what the device computes: ``losses[k] = loss.item()``."""

from __future__ import annotations

import pytest
from kit import check_leaves, check_rewrites

from codemods.facts.training.deferred_lists import NUMBERS
from codemods.rules.defer_sync import DeferSync
from tests.training import run_script

HEAD = """\
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(6, 3).to(device)
data = torch.randn(64, 6)
steps = 5

"""
ESTIMATE = """\
@torch.no_grad()
def estimate():
    out = {}
    for split in ("train", "val"):
        losses = torch.zeros(steps)
        for k in range(steps):
            x = data[torch.randint(64, (4,))].to(device)
            loss = model(x).square().mean()
            losses[k] = loss.item()
        out[split] = losses.mean()
    return out


print(estimate())
"""


def rewritten(text: str, *changes: tuple[str, str]) -> str:
    """The text after the changes, each of which is in it."""
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


THERE = ("torch.zeros(steps)", "torch.zeros(steps, device=device)")
KEPT = ("losses[k] = loss.item()", "losses[k] = loss")
READ = ("losses.mean()", "losses.cpu().mean()")
COPIED = (
    "            losses[k] = loss.item()\n",
    "            losses[k] = loss.item()\n        losses = losses.cpu()\n",
)

WRITTEN = {
    "read once": ((), (THERE, KEPT, READ)),
    "with gradients": (
        (("@torch.no_grad()\n", ""),),
        (THERE, ("losses[k] = loss.item()", "losses[k] = loss.detach()"), READ),
    ),
    "read twice": (
        (("losses.mean()", "losses.mean(), losses.std()"),),
        (THERE, COPIED, KEPT),
    ),
    "an item is read": ((("losses.mean()", "losses[0]"),), (THERE, COPIED, KEPT)),
    "divided in place": (
        (("        out[split] = losses.mean()", "        losses /= 2\n        out[split] = losses"),),
        (THERE, COPIED, KEPT),
    ),
    "read again and again": (
        (("        out[split] = losses.mean()", "        for _ in range(3):\n            print(losses.tolist())"),),
        (THERE, COPIED, KEPT),
    ),
    "read in a text": (
        (("out[split] = losses.mean()", 'print(f"{losses.mean():.4f}")'),),
        (THERE, COPIED, KEPT),
    ),
    "never read": ((("        out[split] = losses.mean()\n", ""),), (THERE, KEPT)),
    "made on the device already, and read in the loop": (
        (THERE, ("losses[k] = loss.item()", "losses[k] = loss.item()\n            seen = losses[: k + 1]")),
        (KEPT,),
    ),
    "copied to the device as soon as it is made": ((("torch.zeros(steps)", "torch.zeros(steps).to(device)"),), (KEPT,)),
    "of 64 bits": (
        (("torch.zeros(steps)", "torch.zeros(steps, dtype=torch.float64)"),),
        (("dtype=torch.float64)", "dtype=torch.float64, device=device)"), KEPT, READ),
    ),
    "float()": (
        (("loss.item()", "float(loss)"),),
        (THERE, ("float(loss)", "loss"), READ),
    ),
    "the length of it counts": ((("range(steps)", "range(len(losses))"),), (THERE, KEPT, READ)),
    "several items of each pass": (
        (
            ("torch.zeros(steps)", "torch.empty(steps, 2)"),
            ("losses[k] = ", "losses[k, 1] = x.sum().item()\n            losses[k, 0] = "),
        ),
        (
            ("torch.empty(steps, 2)", "torch.empty(steps, 2, device=device)"),
            ("x.sum().item()", "x.sum()"),
            ("loss.item()", "loss"),
            READ,
        ),
    ),
    "another function copies the batches": (
        (
            (
                "@torch.no_grad()\n",
                "def batch():\n    return data[torch.randint(64, (4,))].to(device)\n\n\n@torch.no_grad()\n",
            ),
            ("x = data[torch.randint(64, (4,))].to(device)", "x = batch()"),
        ),
        (THERE, KEPT, READ),
    ),
    "functions are given the device by other names": (
        (
            (
                "@torch.no_grad()\n",
                "def batch(there):\n    return data[torch.randint(64, (4,))].to(there)\n\n\n@torch.no_grad()\n",
            ),
            ("x = data[torch.randint(64, (4,))].to(device)", "x = batch(where)"),
            ("def estimate()", "def estimate(where)"),
            ("print(estimate())", "print(estimate(device))"),
        ),
        (THERE, KEPT, READ),
    ),
}


@pytest.mark.parametrize(("changes", "edits"), WRITTEN.values(), ids=list(WRITTEN))
def test_a_tensor_lies_on_the_device(changes: tuple[tuple[str, str], ...], edits: tuple[tuple[str, str], ...]) -> None:
    before = rewritten(ESTIMATE, *changes)
    after = rewritten(before, *edits)

    check_rewrites(DeferSync, HEAD + before, HEAD + after)
    assert run_script(HEAD + before) == run_script(HEAD + after)


def test_a_copy_that_names_cuda_itself_is_followed() -> None:
    before = HEAD.replace(".to(device)", ".cuda()") + ESTIMATE.replace(".to(device)", ".cuda()")
    edits = (("torch.zeros(steps)", 'torch.zeros(steps, device="cuda")'), KEPT, READ)

    check_rewrites(DeferSync, before, rewritten(before, *edits))


NEEDED = "'losses' is used in the loop ({}): use it after the loop"
LEFT = {
    "the loop reads it": (
        ("losses[k] = loss.item()", "losses[k] = loss.item()\n            print(losses.mean())"),
        "print(losses",
        NEEDED,
    ),
    "few passes read it": (
        (
            "losses[k] = loss.item()",
            "losses[k] = loss.item()\n            if k % 2:\n                print(losses.mean())",
        ),
        "print(losses",
        NEEDED,
    ),
    "an item is added to": (
        ("losses[k] = loss.item()", "losses[k] = loss.item()\n            losses[0] += 1"),
        "losses[0]",
        NEEDED,
    ),
    "the number is computed with": (
        ("loss.item()", "loss.item() / 3"),
        "losses[k]",
        "'loss.item() / 3' is computed on the host ({})",
    ),
    "an item is a number of the host": (
        ("losses[k] = loss.item()", "losses[k] = loss.item()\n            losses[0] = 3.0"),
        "losses[0]",
        "'3.0' is computed on the host ({})",
    ),
    "it is cut": (
        ("loss.item()", "int(loss)"),
        "losses[k]",
        "whether 'int(loss)' changes the number is not known ({})",
    ),
    "a tensor is the index": (
        ("for k in range(steps)", "for k in torch.randperm(steps)"),
        "losses[k]",
        "whether 'k' is a number of Python's is not known ({})",
    ),
    "of 16 bits": (
        ("torch.zeros(steps)", "torch.zeros(steps, dtype=torch.float16)"),
        "losses = ",
        "whether 'losses' has floats of 32 or 64 bits is not known ({})",
    ),
    "other code has it already": (
        ("        for k in range", "        out['all'] = losses\n        for k in range"),
        "out['all']",
        "other code may have 'losses' already ({})",
    ),
    "made for several runs of the loop": (
        (
            '    for split in ("train", "val"):\n        losses = torch.zeros(steps)\n',
            '    losses = torch.zeros(steps)\n    for split in ("train", "val"):\n',
        ),
        "for k in",
        "'losses' is not known to be a new tensor before each run of the loop ({}): make it there",
    ),
    "a function beside it reads it": (
        ("        for k in range", "        seen = lambda: losses\n        for k in range"),
        "seen = ",
        "another function reads 'losses' ({})",
    ),
    "the script sets the device of new tensors": (
        ("@torch.no_grad", 'torch.set_default_device("cuda")\n\n\n@torch.no_grad'),
        "torch.set_default",
        "the script sets the device of new tensors ({}), which 'losses' may lie on already",
    ),
    "the script sets the number format of new tensors": (
        ("@torch.no_grad", "torch.set_default_dtype(torch.float16)\n\n\n@torch.no_grad"),
        "torch.set_default",
        "the script sets the number format of new tensors ({}), which 'losses' then has",
    ),
    "the batches come to the device by a name of the loop": (
        (
            "x = data[torch.randint(64, (4,))].to(device)",
            "there = next(model.parameters()).device\n            x = data[torch.randint(64, (4,))].to(there)",
        ),
        "losses = ",
        "no name for the device of the batches is known where 'losses' is made ({}): make it on the device",
    ),
    "the loop waits anyway": (
        ("            losses[k]", "            torch.cuda.synchronize()\n            losses[k]"),
        "torch.cuda.sync",
        "each iteration waits for the device anyway ({})",
    ),
}


@pytest.mark.parametrize(("change", "at", "because"), LEFT.values(), ids=list(LEFT))
def test_a_tensor_is_left(change: tuple[str, str], at: str, because: str) -> None:
    code = HEAD + rewritten(ESTIMATE, change)
    line = code[: code.index(at)].count("\n") + 1

    check_leaves(DeferSync, code, because.format(f"line {line}"))


def test_a_tensor_of_64_bits_is_left_where_the_device_may_have_none() -> None:
    head = HEAD.replace('"cpu")', '"mps" if torch.backends.mps.is_available() else "cpu")')
    code = head + ESTIMATE.replace("zeros(steps)", "zeros(steps, dtype=torch.float64)")

    because = "the script may run on another accelerator, which may have no floats of 64 bits (line 5)"
    check_leaves(DeferSync, code, because)


def test_an_array_is_left() -> None:
    code = HEAD + ESTIMATE.replace("torch.zeros(steps)", "np.zeros(steps)")
    code = code.replace("import torch\n", "import numpy as np\nimport torch\n", 1)

    check_leaves(DeferSync, code, f"its value is kept in 'losses[k]' in each iteration (line 19): {NUMBERS}")
