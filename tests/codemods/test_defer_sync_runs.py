"""Lists to which a loop appends in each of its runs: the losses of all epochs."""

from __future__ import annotations

import pytest
from kit import check_leaves, check_rewrites

from codemods.rules.defer_sync import DeferSync
from tests.training import run_script

SCRIPT = """\
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(6, 3).to("cuda" if torch.cuda.is_available() else "cpu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
seen = []


def train(batches, device):
    step = 0
    {start}
    for epoch in range(3):
        {each}
        for x in batches:
            loss = model(x.to(device)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            {inside}
        {after}
    return {end}


print(train(torch.randn(7, 4, 6), next(model.parameters()).device), seen)
"""


def text(start: str, inside: str, after: str, end: str, each: str = "pass") -> str:
    def lines(given: str, by: int) -> str:
        return given.replace("\n", "\n" + " " * by)

    parts = {"start": lines(start, 4), "each": lines(each, 8), "inside": lines(inside, 12), "after": lines(after, 8)}
    return SCRIPT.format(**parts, end=end)


def tried(code: str) -> str:
    """The same where what each epoch does may fail, and the next goes on."""
    above, around, below = code.partition("        for x in batches:\n")
    inside, end, below = below.partition("    return ")
    lines = "".join(f"    {each}" for each in (around + inside).splitlines(keepends=True))
    return f"{above}        try:\n{lines}        except RuntimeError:\n            continue\n{end}{below}"


WRITTEN = {
    "read after all of them": ("s = []", "s", "s.append(loss.item())", "s.append(loss.detach())", "step += 0"),
    "looked at after each": (
        *("s = []", "s", "s.append(loss.item())", "s.append(loss.detach())"),
        "print(np.mean(s[-7:]), len(s))\nif s:\n    seen.append(sum(s) / len(s))",
    ),
    "of counts, which stay integers": (
        *("s = []", "s", "s.append((x.to(device) > 0).sum().item())", "s.append((x.to(device) > 0).sum())"),
        "print(f'{s}')",
    ),
    "in a dictionary": (
        *('s = {"a": [], "n": 0}', 's["a"]', 's["a"].append(loss.item())', 's["a"].append(loss.detach())'),
        'print(s["a"][-1], min(s["a"]))',
    ),
}


@pytest.mark.parametrize(("start", "name", "inside", "new_inside", "after"), WRITTEN.values(), ids=list(WRITTEN))
def test_each_run_makes_numbers_of_what_it_has_appended(
    start: str, name: str, inside: str, new_inside: str, after: str
) -> None:
    mark = "len_s" if name == "s" else "len_s_a"
    numbers = f"{name}[{mark}:] = [each.item() for each in {name}[{mark}:]]"
    before = text(start, inside, after, "s")
    wanted = text(start, new_inside, f"{numbers}\n{after}", "s", each=f"pass\n{mark} = len({name})")

    check_rewrites(DeferSync, before, wanted)
    assert run_script(before) == run_script(wanted)


def test_what_few_passes_read_and_empty_holds_tensors_alone() -> None:
    inside = "s.append(loss.item())\nif step % 5 == 0:\n    seen.append(np.mean(s))\n    s = []"
    new = (
        "s.append(loss.detach())\nif step % 5 == 0:\n    seen.append(np.mean([each.item() for each in s]))\n    s = []"
    )
    before, wanted = text("s = []", inside, "pass", "step"), text("s = []", new, "pass", "step")

    check_rewrites(DeferSync, before, wanted)
    assert run_script(before) == run_script(wanted)


APPEND = "s.append(loss.item())"
NEW = "is not known to be a new list before each run of the loop (line 16): append to one, and extend this by it"
LEFT = {
    "somebody keeps the list": (
        text("s = []", APPEND, "seen.append(s)", "s"),
        "other code may have 's' already (line 23)",
    ),
    "somebody kept it before": (
        text("s = []\nseen.append(s)", APPEND, "pass", "s"),
        "other code may have 's' already (line 14)",
    ),
    "a function that is not known keeps it": (
        text("s = []", APPEND, "np.frombuffer(s)", "s"),
        "other code may have 's' already (line 23)",
    ),
    "something else appends to it": (
        text("s = []", APPEND, "s.append(0.5)", "s"),
        "other code may have 's' already (line 23)",
    ),
    "it has an item": (text("s = [1.0]", APPEND, "pass", "s"), f"'s' {NEW}"),
    "few passes read and empty it, and what is left is read": (
        text("s = []", APPEND + "\nif step % 5 == 0:\n    seen.append(np.mean(s))\n    s = []", "pass", "s"),
        f"'s' {NEW}",
    ),
    "an exception ends a run, and the next goes on": (
        tried(text("s = []", APPEND, "pass", "s")),
        "'s' is not known to be a new list before each run of the loop (line 17): append to one, and extend this by it",
    ),
    "in a dictionary, where an exception ends a run": (
        tried(text('s = {"a": []}', 's["a"].append(loss.item())', "print(sum(s['a']))", "step")),
        "'s' may be read after an exception has left the loop (line 24)",
    ),
    "the name of its length means something": (
        text("s, len_s = [], 3", APPEND, "pass", "s"),
        "'s' goes on from one run of the loop to the next, and 'len' or 'len_s' has a meaning",
    ),
}


@pytest.mark.parametrize(("code", "because"), LEFT.values(), ids=list(LEFT))
def test_a_list_of_several_runs_is_left(code: str, because: str) -> None:
    check_leaves(DeferSync, code, because)


def test_parts_of_an_index_are_few() -> None:
    start = "shares = []\norder = torch.randperm(n)\nfor epoch in range(2):\n    for first in range(0, n, part):\n"
    rows = "        x = data[order[first : first + part]].to(device)\n        out = model(x)\n        loss = out.square().mean()\n"
    step = "        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()\n"
    before = start + rows + "        shares += [(out > 0).float().mean().item()]\n" + step + "print(sum(shares))\n"
    after = (
        start.replace("    for first", "    len_shares = len(shares)\n    for first")
        + rows
        + "        shares += [(out > 0).float().mean()]\n"
        + step
        + "    shares[len_shares:] = [each.item() for each in shares[len_shares:]]\nprint(sum(shares))\n"
    )
    head = SCRIPT[: SCRIPT.index("def train")] + (
        "import argparse\n\nparser = argparse.ArgumentParser()\nparser.add_argument('-n', type=int)\n"
        "args = parser.parse_args(['-n', '12'])\nprint(vars(args))\nn, part = args.n, args.n // 3\ndata = torch.randn(n, 6)\n"
    )

    check_rewrites(DeferSync, head + before, head + after)
