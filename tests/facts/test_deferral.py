"""Which numbers a loop reads from the device in each pass, and which of them it could add up there."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.reason import Reason
from codemods.facts.training.deferral import outcomes
from codemods.facts.training.deferred_lists import NUMBERS
from codemods.facts.training.seldom_uses import SeldomUse

HEAD = """\
import torch
from torch import nn
model = nn.Linear(4, 2).cuda()
criterion = nn.CrossEntropyLoss()
def train(batches, more, args):
    s, n, size = 0.0, 0, 8
    for i, (x, y) in enumerate(batches):
        x, y = x.cuda(), y.cuda()
        out = model(x)
        loss = criterion(out, y)
        loss.backward()
"""
CALL = "    return s, n\nimport argparse\ntrain(nobody(), 2, argparse.ArgumentParser().parse_args())\n"


def found(inside: str, head: str = HEAD) -> list[str]:
    """What becomes of each reading of the loop: the name and kind of a sum, or why it is none."""
    known = script(head + "".join(f"        {each}\n" for each in inside.splitlines()) + CALL)
    return [
        each.words.said(known.module).text
        if isinstance(each, Reason)
        else f"{ast.unparse(each.statement)} above {ast.unparse(each.anchor)}"
        if isinstance(each, SeldomUse)
        else f"{each.total.name}: {'floats' if each.has_floats else 'integers'}"
        for _, each in outcomes(known)
    ]


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        pytest.param("s += loss.item()", ["s: floats"], id="floats"),
        pytest.param("s = s * 0.9 + loss.item() * 0.1", ["s: floats"], id="a moving average"),
        pytest.param("s = (1 - 0.5) * loss.item() + 0.5 * s", ["s: floats"], id="a moving average, the new one first"),
        pytest.param("s = s * size + (out.argmax(1) == y).sum().item()", ["s: floats"], id="one of integers"),
        pytest.param(
            "s = s * batches.part + loss.item()",
            ["whether 'batches.part' is a number of Python's is not known (line 12)"],
            id="a moving average with a factor that is not known",
        ),
        pytest.param(
            "n = n * 0.9 + loss.item()",
            ["where nothing was added, 'n' is 0, and would be 0.0 (line 13): start it from 0.0"],
            id="a moving average that starts from an integer",
        ),
        pytest.param(
            "s = s * 0.9 + loss.item() * s",
            ["'s * 0.9' is computed with 's' in each iteration (line 12)"],
            id="a part that grows with it",
        ),
        pytest.param("n += (out.argmax(1) == y).sum().item()", ["n: integers"], id="integers"),
        pytest.param("s += (out.argmax(1) == y).sum().item()", ["s: floats"], id="integers from a float on"),
        pytest.param(
            "n += (out.argmax(1) == y).byte().max().item()",
            ["whether 'n' is a sum of integers or of floats is not known (line 12): start it from 0.0"],
            id="integers that overflow",
        ),
        pytest.param(
            "n += (out.argmax(1) == y).sum().item() * 0.5",
            ["'n' is a sum of integers and floats, or of large integers (line 12)"],
            id="integers times a float",
        ),
        pytest.param(
            "n += (out.argmax(1) == y).sum().item() * size - 1", ["n: integers"], id="integers times an integer"
        ),
        pytest.param(
            "n += out.max().item()",
            ["whether 'n' is a sum of integers or of floats is not known (line 12): start it from 0.0"],
            id="what is not known",
        ),
        pytest.param("s += int(loss)", ["int() may cut it (line 12)"], id="cut floats"),
        pytest.param(
            "n += (out.argmax(1) == y).sum().item() * 4_000_000_000_000_000_000",
            ["'n' is a sum of integers and floats, or of large integers (line 12)"],
            id="integers of which 64 bits hold no sum",
        ),
        pytest.param(
            "s += loss.item()\ns += model(x.to('cuda:0')).mean().item() + model(x.to('cuda:1')).mean().item()",
            ["the script uses several CUDA devices (lines 13, 13), and tensors of two cannot be added up"],
            id="tensors of two devices",
        ),
        pytest.param(
            "s += loss.to('cuda:0').item()\ny = x.to('cuda:1')", ["s: floats"], id="tensors of one of two devices"
        ),
        pytest.param("s += (loss * args.weight).item()", ["s: floats"], id="of what the user weighs"),
        pytest.param("s += -loss.item()", ["s: floats"], id="negated"),
        pytest.param("s += loss.item() ** 2", ["s: floats"], id="squared"),
        pytest.param(
            "s += loss.item() ** 3", ["'loss.item() ** 3' is computed of it on the host (line 12)"], id="cubed"
        ),
        pytest.param("s += (out.argmax(1) == y).sum().item() / len(y)", ["s: floats"], id="shares of integers"),
        pytest.param("if i % 9 == 0:\n    s += loss.item()", [], id="in few passes"),
        pytest.param(
            "s += loss.item()\nprint(out.cpu())",
            ["each iteration waits for the device anyway (line 13)"],
            id="beside another wait",
        ),
        pytest.param(
            "s += loss.item()\nprint(nobody(out).item())",
            [
                "each iteration waits for the device anyway, if 'nobody(out)' is a tensor (line 13)",
                "print() is given its value in each iteration (line 13): do that every so many iterations",
            ],
            id="beside what may be another wait",
        ),
        pytest.param(
            "s += loss.item()\nif i > 3:\n    print(nobody(out).item())",
            [
                "s: floats",
                "print() is given its value in each iteration (line 14): do that every so many iterations",
            ],
            id="beside what may be another wait of some passes",
        ),
        pytest.param(
            "s += loss.item()\nshown = 'loss {:.3f}'.format(loss)",
            [
                "each iteration waits for the device anyway (line 13)",
                "a tensor of the device is written out in each iteration (line 13): do that every so many iterations",
            ],
            id="beside a text that shows it",
        ),
        pytest.param(
            "s += loss.item()\nif i % 9 == 0:\n    shown = 'loss %.3f' % loss",
            ["s: floats"],
            id="beside a text at times",
        ),
        pytest.param("s += loss.item()\nif i % 9 == 0:\n    print(out.cpu())", ["s: floats"], id="beside a rare wait"),
        pytest.param(
            "s += loss.item()\nn += 2 / loss.item()",
            [
                "each iteration waits for the device anyway (line 13)",
                "'2 / loss.item()' is computed of it on the host (line 13)",
            ],
            id="beside a sum that stays on the host",
        ),
    ],
)
def test_sums(inside: str, expected: list[str]) -> None:
    assert found(inside) == expected


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        pytest.param(
            "print(loss.item())",
            "print() is given its value in each iteration (line 12): do that every so many iterations",
            id="printed",
        ),
        pytest.param(
            "more.append(loss.item())",
            "'more' is not known to be a new list before each run of the loop (line 7): append to one, and extend this by it",
            id="in a list",
        ),
        pytest.param(
            "more += [loss.item()]",
            "'more' is not known to be a new list before each run of the loop (line 7): append to one, and extend this by it",
            id="added to a list",
        ),
        pytest.param(
            "found = (loss, 1) if i else batches.found\ns += found.item()",
            "whether 'found' is a tensor is not known (line 13)",
            id="what is no tuple where it is asked for its item",
        ),
        pytest.param(
            "s += batches.loss.item()",
            "whether 'batches.loss' is a tensor is not known (line 12)",
            id="nobody knows of what",
        ),
        pytest.param(
            "last = loss.item()",
            "its value is kept in 'last' in each iteration, and nothing reads that (line 12): remove it",
            id="in a name",
        ),
        pytest.param(
            "last = loss.item()\nif i % 10:\n    y = 2\nprint('loss {:.3f}'.format(last))",
            "print() is given 'last' in each iteration (line 15): do that every so many iterations",
            id="printed by a name",
        ),
        pytest.param(
            "last = more.noise(x, loss.item())\nmore.step(last)",
            "noise() is given its value in each iteration (line 12)",
            id="given to what makes something of it",
        ),
        pytest.param(
            "last = loss.item()\nn = x / last",
            "'x / last' is computed with 'last' in each iteration (line 13)",
            id="computed with",
        ),
        pytest.param(
            "last = float(loss)\nif last > 3:\n    y = 2",
            "the iteration goes on by 'last' (line 13): do that every so many iterations",
            id="asked for",
        ),
        pytest.param(
            "last = loss.item()\nif i % 100 == 0:\n    print(last)",
            "last = loss.item() above print(last)",
            id="printed by few iterations",
        ),
        pytest.param(
            "last = loss.item()\nloss /= 2\nif i % 100 == 0:\n    print(last)",
            "'last' is read from the device in each iteration, and used in few (line 15): ask for the number there",
            id="printed by few iterations, and computed of what changes",
        ),
        pytest.param(
            "last = loss.item()\nother = last\nmore.step(f'{other:.2f}')",
            "step() is given 'other' in each iteration (line 14)",
            id="given to what may need it, by another name",
        ),
        pytest.param(
            "more[i] = loss.item()",
            f"its value is kept in 'more[i]' in each iteration (line 12): {NUMBERS}",
            id="in an item",
        ),
        pytest.param(
            "more.s += loss.item()",
            "other code may read 'more.s' while the loop runs (line 12): add up under a name of the function",
            id="added to an attribute",
        ),
        pytest.param(
            "more['s'] += loss.item()",
            "other code may read 'more['s']' while the loop runs (line 12): add up under a name of the function",
            id="added to an item",
        ),
        pytest.param(
            "more['s'] += loss.item()\nbar.set_description('%.4f' % (more['s'] / i))",
            "set_description() is given 'more['s']' in each iteration (line 13): do that every so many iterations",
            id="added to an item that is shown in each iteration",
        ),
        pytest.param(
            "more.s += loss.item()\nif more.s > 3:\n    y = 2",
            "the iteration goes on by 'more.s' (line 13): do that every so many iterations",
            id="added to an attribute that is asked for in each iteration",
        ),
        pytest.param(
            "more['s'] += loss.item()\nif i % 100 == 0:\n    print(more['s'], more['n'])",
            "other code may read 'more['s']' while the loop runs (line 12): add up under a name of the function",
            id="added to an item that is printed by few iterations",
        ),
        pytest.param(
            "more['s'] += loss.item()\nprint(more['n'])",
            "other code may read 'more['s']' while the loop runs (line 12): add up under a name of the function",
            id="another item is printed",
        ),
        pytest.param(
            "if loss.item() > 3:\n    pass",
            "the iteration goes on by its value (line 12): do that every so many iterations",
            id="asked for",
        ),
        pytest.param("yield loss.item()", "its value is used on the host in each iteration (line 12)", id="otherwise"),
        pytest.param("return loss.item()", None, id="returned once"),
    ],
)
def test_what_is_needed_in_each_iteration(inside: str, expected: str | None) -> None:
    assert found(inside) == ([] if expected is None else [expected])


OBSTACLES = {
    "no CUDA": (".cuda()", "", "no CUDA: nothing in this file moves a model or its batches to a CUDA device"),
    "streams": (
        "        out = model(x)\n",
        "        with torch.cuda.stream(torch.cuda.Stream()):\n            out = model(x)\n",
        "the script runs kernels on streams of its own (line 9), which may wait for each other here",
    ),
    "a copy to the host that does not block": (
        "        out = model(x)\n",
        "        out = model(x)\n        more = out.to('cpu', non_blocking=True)\n",
        "a copy to the host does not block (line 10), and is over once the iteration waits",
    ),
    "a copy from the host that does not block": (
        "        out = model(x)\n",
        "        out = model(torch.zeros(8, 4).to('cuda', non_blocking=True))\n",
        "a copy in the loop does not block (line 9), and the host may write to its memory while it runs",
    ),
    "compiled code": (
        "def train",
        "@torch.compile\ndef train",
        "the function of the loop is compiled (line 6), and its sums may then be fused with what they add",
    ),
    "captured graphs": (
        "        out = model(x)\n",
        "        with torch.cuda.graph(torch.cuda.CUDAGraph()):\n            out = model(x)\n",
        "the script captures CUDA graphs itself (line 9)",
    ),
}


@pytest.mark.parametrize(("before", "after", "because"), OBSTACLES.values(), ids=list(OBSTACLES))
def test_what_speaks_against_all_sums(before: str, after: str, because: str) -> None:
    assert found("s += loss.item()", HEAD.replace(before, after)) == [because]


TIMED = """\
import time
s += loss.item()
if i % 100 == 99:
    {}
    {}
"""
CLOCK = "print(time.time() - start)"
SHOWN = "print(loss.item())"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param((SHOWN, CLOCK), ["s: floats"], id="after a loss that is shown"),
        pytest.param(("print(s)", CLOCK), ["s: floats"], id="after the sum"),
        pytest.param(
            (CLOCK, SHOWN),
            [
                "the loop reads a clock, which shows how long the device took as long as the host waits (line 15): read it below what is printed there of the device"
            ],
            id="before a loss that is shown",
        ),
        pytest.param(
            ("print(i)", CLOCK),
            [
                "the loop reads a clock, which shows how long the device took as long as the host waits (line 16): read it below what is printed there of the device"
            ],
            id="after nothing of the device",
        ),
        pytest.param(
            (f"if args.show:\n        {SHOWN}", CLOCK),
            [
                "the loop reads a clock, which shows how long the device took as long as the host waits (line 17): read it below what is printed there of the device"
            ],
            id="after a loss that may be shown",
        ),
    ],
)
def test_a_clock_is_read_now_and_then(lines: tuple[str, str], expected: list[str]) -> None:
    assert found(TIMED.format(*lines)) == expected


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        pytest.param("n += (out.argmax(1) == y).sum().item()", ["n: integers"], id="integers"),
        pytest.param("s += loss.item()", ["s: floats"], id="floats that have a name to ask"),
        pytest.param(
            "s += (2 * loss).item()",
            ["the script may run on another accelerator, which may have no floats of 64 bits (line 3)"],
            id="floats",
        ),
    ],
)
def test_floats_alone_are_added_in_64_bits(inside: str, expected: list[str]) -> None:
    head = HEAD.replace(
        "nn.Linear(4, 2).cuda()", "nn.Linear(4, 2).to('mps' if torch.backends.mps.is_available() else 'cuda')"
    )

    assert found(inside, head) == expected


def test_a_list_holds_tensors_of_any_device() -> None:
    head = HEAD.replace(
        "nn.Linear(4, 2).cuda()", "nn.Linear(4, 2).to('mps' if torch.backends.mps.is_available() else 'cuda')"
    )
    head = head.replace("    s, n, size = 0.0, 0, 8\n", "    s, n = [], 0\n")

    assert found("s.append(loss.item())", head)[0].startswith("s: ")


ITERATION = """\
import torch
from torch import nn
model = nn.Linear(4, 2).cuda()
criterion = nn.CrossEntropyLoss()
def differentiate(loss):
    loss.backward()
s = 0.0
for x, y in batches:
    out = model(x.cuda())
    loss = criterion(out, y.cuda())
{lines}print(s)
"""
WAITS = "each iteration waits for the device anyway (line {})"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(
            "print(out.cpu())\nloss.backward()\ns += loss.item()", "s: floats", id="it waits before a backward"
        ),
        pytest.param(
            "s += loss.item()\nloss.backward()\nprint(out.cpu())", "s: floats", id="it waits after a backward"
        ),
        pytest.param(
            "with torch.no_grad():\n    print(out.cpu())\ndifferentiate(loss)\ns += loss.item()",
            "s: floats",
            id="it waits in a block, before a function that differentiates",
        ),
        pytest.param(
            "print(out.cpu() if out.sum() > 0 else x)\nloss.backward()\ns += loss.item()",
            "s: floats",
            id="it decides before that",
        ),
        pytest.param(
            "print(out.cpu())\ns += loss.item()\nloss.backward()", WAITS.format(11), id="it waits beside, before"
        ),
        pytest.param(
            "loss.backward()\nprint(out.cpu())\ns += loss.item()", WAITS.format(12), id="it waits beside, after"
        ),
        pytest.param(
            "print(out.cpu())\nloss.backward()\ns += loss.item()\nprint(out.cpu())",
            WAITS.format(14),
            id="on both sides",
        ),
        pytest.param(
            "s += loss.item()\nprint(out.cpu())\nloss.backward()\ns += loss.item()",
            WAITS.format(12),
            id="it adds on both sides",
        ),
    ],
)
def test_a_sum_is_worth_it_where_a_backward_lies_between_it_and_another_wait(lines: str, expected: str) -> None:
    inside = "".join(f"    {each}\n" for each in lines.splitlines())
    known = script(ITERATION.format(lines=inside))

    assert [
        each.words.said(known.module).text if isinstance(each, Reason) else f"{each.total.name}: floats"
        for _, each in outcomes(known)
        if not isinstance(each, SeldomUse)
    ] == [expected]
