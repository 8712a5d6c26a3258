from __future__ import annotations

import pytest
from kit import check_leaves, check_rewrites, check_silent, run

from codemods.codemod import Promise
from codemods.facts.training.deferred_lists import NUMBERS
from codemods.rules.defer_sync import DeferSync
from tests.training import run_script

HEAD = """\
import math
import time
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(6, 3).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [(torch.randn(4 + i % 3, 6), torch.randint(3, (4 + i % 3,))) for i in range(7)]

"""
STEP = """\
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = criterion(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
LOOP = f"    for i, (x, y) in enumerate(batches):\n{STEP}"
CALL = "\nfor epoch in range(2):\n    print(train())\n"
FIRST = HEAD.count("\n") + 1
"""The line below the head."""


def function(start: str, inside: str, end: str) -> str:
    """A function that trains, with lines before its loop, at the end of the loop and after it."""
    indented = "".join(f"        {each}\n" for each in inside.splitlines())
    before, after = ("".join(f"    {each}\n" for each in part.splitlines()) for part in (start, end))
    return f"def train():\n{before}{LOOP}{indented}{after}"


def line_of(code: str, text: str) -> int:
    return FIRST + code[: code.index(text)].count("\n")


# What is written.

SUMS = {
    "a moving average": (
        "s = 0.0",
        "s = 0.9 * s + loss.item() * 0.1\nif i % 3 == 0:\n    print('so far ' + str(s))",
        "return s",
        "s = 0.9 * s + loss.detach().double() * 0.1\nif i % 3 == 0:\n    print('so far ' + str(float(s)))",
        "s = float(s)\nreturn s",
    ),
    "a loss": ("s = 0.0", "s += loss.item()", "return s", "s += loss.detach().double()", "s = float(s)\nreturn s"),
    "a loss, beside what lists the attributes of an object": (
        "s = 0.0\nprint(vars(model))",
        "s += loss.item()",
        "return s",
        "s += loss.detach().double()",
        "s = float(s)\nreturn s",
    ),
    "a loss that has a name of its own": (
        "s = 0.0",
        "v = loss.item()\ns += v",
        "return s",
        "v = loss.detach().double()\ns += v",
        "s = float(s)\nreturn s",
    ),
    "a count that has a name of its own": (
        "s = 0",
        "v = (out.argmax(1) == y).sum().item()\ns += 2 * v",
        "return s",
        "v = (out.argmax(1) == y).sum()\ns += 2 * v",
        "s = int(s)\nreturn s",
    ),
    "a share that has a name of its own": (
        "s = 0.0",
        "v = (out.argmax(1) == y).sum().item() / len(y)\ns += v",
        "return s",
        "v = (out.argmax(1) == y).sum().double() / len(y)\ns += v",
        "s = float(s)\nreturn s",
    ),
    "a loss, weighted by the size of its batch": (
        "s = 0.0",
        "s += loss.item() * x.size(0)",
        "return s / 35",
        "s += loss.detach().double() * x.size(0)",
        "s = float(s)\nreturn s / 35",
    ),
    "the size first": (
        "s = 0.0",
        "s += len(x) * float(loss)",
        "return s",
        "s += len(x) * loss.detach().double()",
        "s = float(s)\nreturn s",
    ),
    "a size with a name": (
        "s = 0.0",
        "n = x.shape[0]\ns += loss.item() * n",
        "return s",
        "n = x.shape[0]\ns += loss.detach().double() * n",
        "s = float(s)\nreturn s",
    ),
    "on the way over the host": (
        "s = 0.0",
        "s += loss.detach().cpu().item()",
        "return s",
        "s += loss.detach().double()",
        "s = float(s)\nreturn s",
    ),
    "of the data": (
        "s = 0.0",
        "s += loss.data.item()",
        "return s",
        "s += loss.data.double()",
        "s = float(s)\nreturn s",
    ),
    "written out": (
        "s = 0.0",
        "s = s + loss.item()",
        "return s",
        "s = s + loss.detach().double()",
        "s = float(s)\nreturn s",
    ),
    "subtracted": ("s = 0.0", "s -= loss.item()", "return s", "s -= loss.detach().double()", "s = float(s)\nreturn s"),
    "a sum of two": (
        "s = 0.0",
        "s += loss.item() + out.mean().item()",
        "return s",
        "s += loss.detach().double() + out.mean().detach().double()",
        "s = float(s)\nreturn s",
    ),
    "a count": (
        "n = 0",
        "n += (out.argmax(1) == y).sum().item()",
        "return n",
        "n += (out.argmax(1) == y).sum()",
        "n = int(n)\nreturn n",
    ),
    "a count by a function": (
        "n = 0",
        "pred = out.argmax(dim=1, keepdim=True)\nn += int(torch.sum(pred.eq(y.view_as(pred))))",
        "return n",
        "pred = out.argmax(dim=1, keepdim=True)\nn += torch.sum(pred.eq(y.view_as(pred)))",
        "n = int(n)\nreturn n",
    ),
    "a count of the pair that max() returns": (
        "n = 0",
        "_, pred = torch.max(out.data, 1)\nn += (pred == y).sum().item()",
        "return n",
        "_, pred = torch.max(out.data, 1)\nn += (pred == y).sum()",
        "n = int(n)\nreturn n",
    ),
    "a count from 0.0": (
        "n = 0.0",
        "n += (out.argmax(1) == y).sum().item()",
        "return n",
        "n += (out.argmax(1) == y).sum().double()",
        "n = float(n)\nreturn n",
    ),
    "a count of floats": (
        "n = 0.0",
        "n += (out.argmax(1) == y).type(torch.float).sum().item()",
        "return n",
        "n += (out.argmax(1) == y).type(torch.float).sum().double()",
        "n = float(n)\nreturn n",
    ),
    "floats from 0 that are divided": (
        "s = 0",
        "s += loss.item()",
        "return s / 7",
        "s += loss.detach().double()",
        "s = float(s)\nreturn s / 7",
    ),
    "floats from 0 that are scaled and divided": (
        "s = 0",
        "s += loss.item()",
        "return 100 * s / 7 + 100. * s",
        "s += loss.detach().double()",
        "s = float(s)\nreturn 100 * s / 7 + 100. * s",
    ),
    "floats from 0 that are scaled and formatted": (
        "s = 0",
        "s += loss.item()",
        "return f'{100 * s:.1f} %'",
        "s += loss.detach().double()",
        "s = float(s)\nreturn f'{100 * s:.1f} %'",
    ),
    "floats from 0 that are divided in place": (
        "s = 0",
        "s += loss.item()",
        "s /= 7\nreturn s",
        "s += loss.detach().double()",
        "s = float(s)\ns /= 7\nreturn s",
    ),
    "floats from 0 that are formatted": (
        "s = 0",
        "s += loss.item()",
        "return f'{s:.3f}'",
        "s += loss.detach().double()",
        "s = float(s)\nreturn f'{s:.3f}'",
    ),
    "floats from 0 that are formatted beside others": (
        "s = 0",
        "s += loss.item()",
        "return '{} {:.3f}'.format('loss', s) + '%s %.2f' % ('loss', s)",
        "s += loss.detach().double()",
        "s = float(s)\nreturn '{} {:.3f}'.format('loss', s) + '%s %.2f' % ('loss', s)",
    ),
    "in one branch of the iteration": (
        "s = 0.0",
        "if i > 2:\n    s += loss.item()",
        "return s",
        "if i > 2:\n    s += loss.detach().double()",
        "s = float(s)\nreturn s",
    ),
    "with numbers of Python's besides": (
        "s = 0.0",
        "s += loss.item()\ns += 0.5",
        "return s",
        "s += loss.detach().double()\ns += 0.5",
        "s = float(s)\nreturn s",
    ),
    "read every so many iterations": (
        "s, told = 0.0, []",
        "s += loss.item()\nif i % 3 == 2:\n    told.append(s / 3)\n    s = 0.0",
        "return told",
        "s += loss.detach().double()\nif i % 3 == 2:\n    told.append(float(s) / 3)\n    s = 0.0",
        "return told",
    ),
    "read every so many iterations in a text": (
        "s = 0.0",
        "s += loss.item()\nif i % 3 == 2:\n    print(f'{s / 3:.3f}')\n    s = 0.0",
        "return None",
        "s += loss.detach().double()\nif i % 3 == 2:\n    s = float(s)\n    print(f'{s / 3:.3f}')\n    s = 0.0",
        "return None",
    ),
    "read twice every so many iterations": (
        "s = 0.0",
        "s += loss.item()\nif not i % 3:\n    print(s, s / 3)",
        "return s",
        "s += loss.detach().double()\nif not i % 3:\n    s = float(s)\n    print(s, s / 3)",
        "s = float(s)\nreturn s",
    ),
    "returned from the loop": (
        "s = 0.0",
        "s += loss.item()\nif i == 3:\n    return s / 3",
        "return s",
        "s += loss.detach().double()\nif i == 3:\n    return float(s) / 3",
        "s = float(s)\nreturn s",
    ),
    "read before the loop is left": (
        "s = 0.0",
        "s += loss.item()\nif i > 3:\n    print(s)\n    break",
        "return s",
        "s += loss.detach().double()\nif i > 3:\n    print(float(s))\n    break",
        "s = float(s)\nreturn s",
    ),
    "read after the last iteration": (
        "s = 0.0",
        "s += loss.item()\nif i == len(batches) - 1:\n    print(s)",
        "return None",
        "s += loss.detach().double()\nif i == len(batches) - 1:\n    print(float(s))",
        "return None",
    ),
    "two at once": (
        "s, n = 0.0, 0",
        "s += loss.item()\nn += (out.argmax(1) == y).sum().item()",
        "return s, n",
        "s += loss.detach().double()\nn += (out.argmax(1) == y).sum()",
        "s = float(s)\nn = int(n)\nreturn s, n",
    ),
    "given a new start before it is read": (
        "s = 0.0",
        "s += loss.item()",
        "s = 0.0\nreturn s",
        "s += loss.detach().double()",
        "s = 0.0\nreturn s",
    ),
    "a list of losses": (
        "s = []",
        "s.append(loss.item())",
        "return sum(s) / len(s), max(s), s",
        "s.append(loss.detach())",
        "s = [each.item() for each in s]\nreturn sum(s) / len(s), max(s), s",
    ),
    "a list of shares, in one branch": (
        "s = list()",
        "if len(x) > 4:\n    s.append((out.argmax(1) == y).float().mean().item())",
        "return s",
        "if len(x) > 4:\n    s.append((out.argmax(1) == y).float().mean())",
        "s = [each.item() for each in s]\nreturn s",
    ),
    "a list of losses that have a name first": (
        "s = []",
        "v = loss.item()\ns.append(v)",
        "return s",
        "v = loss.detach()\ns.append(v)",
        "s = [each.item() for each in s]\nreturn s",
    ),
    "a list of counts, which stay integers": (
        "s = []",
        "s.append((out.argmax(1) == y).sum().cpu().item())",
        "return s",
        "s.append((out.argmax(1) == y).sum())",
        "s = [each.item() for each in s]\nreturn s",
    ),
    "a list of losses, weighted": (
        "s = []",
        "s.append(loss.item() * x.size(0) - 1)",
        "return s",
        "s.append(loss.detach().double() * x.size(0) - 1)",
        "s = [each.item() for each in s]\nreturn s",
    ),
    "a list of shares": (
        "s = []",
        "s.append((out.argmax(1) == y).sum().item() / float(x.size()[0]))",
        "return s",
        "s.append((out.argmax(1) == y).sum().double() / float(x.size()[0]))",
        "s = [each.item() for each in s]\nreturn s",
    ),
    "a list of half of what has a name": (
        "s = []",
        "v = loss.item() / 2\ns.append(v)",
        "return s",
        "v = loss.detach().double() / 2\ns.append(v)",
        "s = [each.item() for each in s]\nreturn s",
    ),
    "a list of twice what has a name": (
        "s = []",
        "v = (out.argmax(1) == y).sum().item()\ns.append(2 * v)",
        "return s",
        "v = (out.argmax(1) == y).sum()\ns.append(2 * v)",
        "s = [each.item() for each in s]\nreturn s",
    ),
    "a list of counts that stay integers": (
        "s = []",
        "s.append(-(out.argmax(1) == y).sum().item() + len(y))",
        "return s",
        "s.append(-(out.argmax(1) == y).sum() + len(y))",
        "s = [each.item() for each in s]\nreturn s",
    ),
    "a list of counts, as floats": (
        "s = []",
        "s.append(float((out.argmax(1) == y).sum()))",
        "return s",
        "s.append((out.argmax(1) == y).sum().double())",
        "s = [each.item() for each in s]\nreturn s",
    ),
    "a list of floats": (
        "s = []",
        "s.append(float(loss))",
        "return s",
        "s.append(loss.detach())",
        "s = [each.item() for each in s]\nreturn s",
    ),
    "a list of products of two": (
        "s = []",
        "s.append(loss.item() * (out.argmax(1) == y).sum().item() * 1.0)",
        "return s",
        "s.append(loss.detach().double() * (out.argmax(1) == y).sum().double() * 1.0)",
        "s = [each.item() for each in s]\nreturn s",
    ),
    "a count that is copied to the host on its way": (
        "s = 0",
        "s += (out.argmax(1) == y).cpu().sum().item()",
        "return s",
        "s += (out.argmax(1) == y).sum()",
        "s = int(s)\nreturn s",
    ),
    "a list of counts that are copied to the host by a name": (
        "s = []",
        "hits = (out.argmax(1) == y).cpu().sum()\ns.append(hits.item() / len(y))",
        "return s",
        "hits = (out.argmax(1) == y).sum()\ns.append(hits.double() / len(y))",
        "s = [each.item() for each in s]\nreturn s",
    ),
    "a truth value": (
        "s = 0",
        "s += (out.argmax(1) == y).all().item()",
        "return s",
        "s += (out.argmax(1) == y).all()",
        "s = int(s)\nreturn s",
    ),
    "the opposite of a truth value, as a number": (
        "s = 0",
        "s += 1 - (out.argmax(1) == y).all().item()",
        "return s",
        "s += 1 - (out.argmax(1) == y).all().long()",
        "s = int(s)\nreturn s",
    ),
    "what a truth value is taken from": (
        "s = 9",
        "s -= (out.argmax(1) == y).any().item()",
        "return s",
        "s -= (out.argmax(1) == y).any().long()",
        "s = int(s)\nreturn s",
    ),
    "two truth values": (
        "s = 0",
        "s += (out.argmax(1) == y).any().item() + (loss > 0).item()",
        "return s",
        "s += (out.argmax(1) == y).any().long() + (loss > 0).long()",
        "s = int(s)\nreturn s",
    ),
    "a list of negated truth values, as numbers": (
        "s = []",
        "s.append(-(out.argmax(1) == y).any().item())",
        "return s",
        "s.append(-(out.argmax(1) == y).any().long())",
        "s = [each.item() for each in s]\nreturn s",
    ),
    "a list to which nothing is appended": (
        "s = []",
        "if len(x) > 9:\n    s.append(loss.item())",
        "return s",
        "if len(x) > 9:\n    s.append(loss.detach())",
        "s = [each.item() for each in s]\nreturn s",
    ),
    "a list that few passes read and empty": (
        "s = []",
        "s.append(loss.item())\nif i % 3 == 2:\n    print(sum(s) / len(s))\n    s = []",
        "return s",
        "s.append(loss.detach())\nif i % 3 == 2:\n    s = [each.item() for each in s]\n"
        "    print(sum(s) / len(s))\n    s = []",
        "s = [each.item() for each in s]\nreturn s",
    ),
    "a list that few passes read once and empty": (
        "s = []",
        "s.append(loss.item())\nif i % 3 == 2:\n    print(math.fsum(s))\n    s = list()",
        "return i",
        "s.append(loss.detach())\nif i % 3 == 2:\n    print(math.fsum([each.item() for each in s]))\n    s = list()",
        "return i",
    ),
    "a list of which a loop takes the items": (
        "s = []",
        "s.append(loss.item())\nif i % 3 == 2:\n    for _ in range(2):\n        print(s.pop())\n    s = []",
        "return i",
        "s.append(loss.detach())\nif i % 3 == 2:\n    s = [each.item() for each in s]\n"
        "    for _ in range(2):\n        print(s.pop())\n    s = []",
        "return i",
    ),
    "a list of rows": (
        "s = []",
        "s.append([loss.item(), (out.argmax(1) == y).sum().cpu().item()])",
        "return s",
        "s.append([loss.detach(), (out.argmax(1) == y).sum()])",
        "s = [[one.item() for one in each] for each in s]\nreturn s",
    ),
    "a list of tuples, which few passes read and empty": (
        "s = []",
        "s += [(loss.item(), out.max().item())]\nif i % 3 == 2:\n    print(math.fsum(each for each, _ in s))\n    s = []",
        "return tuple(zip(*s))",
        "s += [(loss.detach(), out.max().detach())]\nif i % 3 == 2:\n"
        "    s = [tuple(one.item() for one in each) for each in s]\n"
        "    print(math.fsum(each for each, _ in s))\n    s = []",
        "s = [tuple(one.item() for one in each) for each in s]\nreturn tuple(zip(*s))",
    ),
    "a list and a sum": (
        "s, n = [], 0.0",
        "n += loss.item()\ns.append(loss.item())",
        "return s, n",
        "n += loss.detach().double()\ns.append(loss.detach())",
        "n = float(n)\ns = [each.item() for each in s]\nreturn s, n",
    ),
    "a loss, divided by a number": (
        "s = 0.0",
        "s += loss.item() / len(batches)",
        "return s",
        "s += loss.detach().double() / len(batches)",
        "s = float(s)\nreturn s",
    ),
    "a share of each batch": (
        "s = 0",
        "s += (out.argmax(1) == y).sum().item() / len(y)",
        "return s / 7",
        "s += (out.argmax(1) == y).sum().double() / len(y)",
        "s = float(s)\nreturn s / 7",
    ),
    "a square, and its root in the end": (
        "s = 0\nk = float(2)",
        "s += loss.item() ** k",
        "return s ** (1 / k)",
        "s += loss.detach().double() ** k",
        "s = float(s)\nreturn s ** (1 / k)",
    ),
    "a list to which lists are added": (
        "s = []",
        "s += [loss.item()]\ns += [loss.item() * len(x)]",
        "return s",
        "s += [loss.detach()]\ns += [loss.detach().double() * len(x)]",
        "s = [each.item() for each in s]\nreturn s",
    ),
    "a list to which lists are added, and which is emptied": (
        "s = []",
        "s += [loss.item()]\nif i % 3 == 2:\n    print(sum(s) / len(s))\n    s = []",
        "return s",
        "s += [loss.detach()]\nif i % 3 == 2:\n    s = [each.item() for each in s]\n    print(sum(s) / len(s))\n    s = []",
        "s = [each.item() for each in s]\nreturn s",
    ),
    "added to in two statements": (
        "s = 0.0",
        "s += loss.item()\ns += out.abs()[0, 0].item()",
        "return s",
        "s = s + loss.detach().double()\ns = s + out.abs()[0, 0].detach().double()",
        "s = float(s)\nreturn s",
    ),
    "added to in two statements that add what has no dimensions": (
        "s = 0.0",
        "s += loss.item()\ns += out.abs().max().item()",
        "return s",
        "s += loss.detach().double()\ns += out.abs().max().detach().double()",
        "s = float(s)\nreturn s",
    ),
}


@pytest.mark.parametrize(("start", "inside", "end", "new_inside", "new_end"), SUMS.values(), ids=list(SUMS))
@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
def test_a_sum_stays_on_the_device(start: str, inside: str, end: str, new_inside: str, new_end: str) -> None:
    before, after = function(start, inside, end) + CALL, function(start, new_inside, new_end) + CALL

    check_rewrites(DeferSync, HEAD + before, HEAD + after)
    assert run_script(HEAD + before) == run_script(HEAD + after)


@pytest.mark.parametrize(
    ("inside", "rewritten"),
    [
        pytest.param("s += loss.item()", "s += loss.detach().double() if loss.is_cuda else loss.item()", id="a loss"),
        pytest.param(
            "s += loss.item() * x.size(0)",
            "s += (loss.detach().double() if loss.is_cuda else loss.item()) * x.size(0)",
            id="a loss times the size of its batch",
        ),
        pytest.param(
            "s = 0.9 * s + 0.1 * loss.item()",
            "s = 0.9 * s + 0.1 * (loss.detach().double() if loss.is_cuda else loss.item())",
            id="a moving average",
        ),
    ],
)
def test_a_device_that_may_have_no_floats_of_64_bits_is_asked_for_by_the_loss(inside: str, rewritten: str) -> None:
    head = HEAD.replace('else "cpu"', 'else "mps" if torch.backends.mps.is_available() else "cpu"')
    before = head + function("s = 0.0", inside, "return s") + CALL
    after = head + function("s = 0.0", rewritten, "s = float(s)\nreturn s") + CALL

    check_rewrites(DeferSync, before, after)
    assert run_script(before) == run_script(after)


@pytest.mark.parametrize(
    ("computed", "promise"),
    [
        pytest.param("loss.item() * 3", Promise.BITWISE, id="multiplied"),
        pytest.param("(loss / 3).item()", Promise.BITWISE, id="divided on the device already"),
        pytest.param("loss.item() / 3", Promise.PRECISION, id="divided, where CUDA multiplies by the reciprocal"),
        pytest.param("loss.item() ** 2", Promise.PRECISION, id="squared"),
    ],
)
def test_what_is_divided_or_squared_may_be_rounded_otherwise(computed: str, promise: Promise) -> None:
    code = HEAD + function("s = 0.0", f"s += {computed}", "return s")

    assert [site.promise for site in run(DeferSync, code).sites] == [promise]


@pytest.mark.parametrize(
    ("computed", "promise"),
    [
        pytest.param("loss.item() * 3", Promise.BITWISE, id="multiplied"),
        pytest.param("loss.item() / 3", Promise.PRECISION, id="divided, where CUDA multiplies by the reciprocal"),
    ],
)
def test_what_is_divided_and_kept_may_be_rounded_otherwise(computed: str, promise: Promise) -> None:
    code = HEAD + function("s = []", f"s.append({computed})", "return s")

    assert [site.promise for site in run(DeferSync, code).sites] == [promise]


def test_what_is_computed_of_two_tensors_needs_both_on_one_device() -> None:
    inside = "s.append(loss.item() * out.mean().item())\nmodel.cuda(0)\nmodel.cuda(1)"
    both = HEAD + function("s = []", inside, "return s")

    assert not any(site.rewrites for site in run(DeferSync, both).sites)
    assert any(site.rewrites for site in run(DeferSync, both.replace(" * out.mean().item()", " * 2")).sites)


def test_a_division_by_zero_that_is_handled_stays_on_the_host() -> None:
    handled = "try:\n    train()\nexcept ZeroDivisionError:\n    print('nothing to divide by')\n"
    code = HEAD + function("s = 0.0\nsize = 0", "s += loss.item() / size", "return s") + handled
    line = code[: code.index("ZeroDivisionError")].count("\n") + 1

    (site,) = run(DeferSync, code).sites
    assert site.message == f"a division by 0 raises on the host alone, and the script handles that (line {line})"
    by_number = code.replace("/ size", "/ 4")
    assert [each.rewrites for each in run(DeferSync, by_number).sites] == [True]


# Another place of the loop.

PLACES = {
    "of the module": (
        "s = 0.0\nfor x, y in batches:\n    loss = criterion(model(x.to(device)), y.to(device))\n    s += loss.item()\n"
        "print(s)\n",
        "s = 0.0\nfor x, y in batches:\n    loss = criterion(model(x.to(device)), y.to(device))\n"
        "    s += loss.detach().double()\ns = float(s)\nprint(s)\n",
    ),
    "of lists, one for each epoch": (
        "for epoch in range(2):\n    s = []\n    for x, y in batches:\n"
        "        loss = criterion(model(x.to(device)), y.to(device))\n        s.append(loss.item())\n    print(s)\n",
        "for epoch in range(2):\n    s = []\n    for x, y in batches:\n"
        "        loss = criterion(model(x.to(device)), y.to(device))\n        s.append(loss.detach())\n"
        "    s = [each.item() for each in s]\n    print(s)\n",
    ),
    "with its sum over all epochs": (
        "s = 0.0\nfor epoch in range(3):\n    for x, y in batches:\n"
        "        s += criterion(model(x.to(device)), y.to(device)).item()\n    print(s)\n",
        "s = 0.0\nfor epoch in range(3):\n    for x, y in batches:\n"
        "        s += criterion(model(x.to(device)), y.to(device)).detach().double()\n    s = float(s)\n    print(s)\n",
    ),
    "without gradients": (
        "@torch.no_grad()\ndef test():\n    s = n = 0.0\n    for x, y in batches:\n        x, y = x.to(device), y.to(device)\n"
        "        s += F.cross_entropy(model(x), y, reduction='sum').item()  # summed\n    return s\nprint(test())\n",
        "@torch.no_grad()\ndef test():\n    s = n = 0.0\n    for x, y in batches:\n        x, y = x.to(device), y.to(device)\n"
        "        s += F.cross_entropy(model(x), y, reduction='sum').double()  # summed\n    s = float(s)\n    return s\n"
        "print(test())\n",
    ),
    "with gradients, where it trains": (
        "def run(train):\n    s = 0.0\n    with torch.enable_grad() if train else torch.no_grad():\n"
        "        for x, y in batches:\n            loss = criterion(model(x.to(device)), y.to(device))\n"
        "            if train:\n                loss.backward()\n            s += loss.item()\n    return s\n"
        "print(run(True), run(False))\n",
        "def run(train):\n    s = 0.0\n    with torch.enable_grad() if train else torch.no_grad():\n"
        "        for x, y in batches:\n            loss = criterion(model(x.to(device)), y.to(device))\n"
        "            if train:\n                loss.backward()\n            s += loss.detach().double()\n"
        "        s = float(s)\n    return s\n"
        "print(run(True), run(False))\n",
    ),
    "within a with": (
        "def test():\n    s, n = 0.0, 0\n    with torch.no_grad():\n        for x, y in batches:\n"
        "            n += model(x.to(device)).argmax(1).eq(y.to(device)).sum().item()\n\n    print(n)\ntest()\n",
        "def test():\n    s, n = 0.0, 0\n    with torch.no_grad():\n        for x, y in batches:\n"
        "            n += model(x.to(device)).argmax(1).eq(y.to(device)).sum()\n        n = int(n)\n\n    print(n)\ntest()\n",
    ),
    "by a function for each iteration": (
        "def step(x, y):\n    optimizer.zero_grad()\n    loss = criterion(model(x), y)\n    loss.backward()\n"
        "    optimizer.step()\n    return loss\n\ns = 0.0\nfor x, y in batches:\n    loss = step(x.to(device), y.to(device))\n"
        "    s += loss.item()\nprint(s)\n",
        "def step(x, y):\n    optimizer.zero_grad()\n    loss = criterion(model(x), y)\n    loss.backward()\n"
        "    optimizer.step()\n    return loss\n\ns = 0.0\nfor x, y in batches:\n    loss = step(x.to(device), y.to(device))\n"
        "    s += loss.detach().double()\ns = float(s)\nprint(s)\n",
    ),
    "that is endless": (
        "s, i = 0.0, 0\nwhile True:\n    x, y = batches[i]\n    s += criterion(model(x.to(device)), y.to(device)).item()\n"
        "    i += 1\n    if i == 5:\n        break\nprint(s)\n",
        "s, i = 0.0, 0\nwhile True:\n    x, y = batches[i]\n"
        "    s += criterion(model(x.to(device)), y.to(device)).detach().double()\n"
        "    i += 1\n    if i == 5:\n        break\ns = float(s)\nprint(s)\n",
    ),
}


@pytest.mark.parametrize(("before", "after"), PLACES.values(), ids=list(PLACES))
def test_a_loop_is_found_wherever_it_is(before: str, after: str) -> None:
    check_rewrites(DeferSync, HEAD + before, HEAD + after)
    assert run_script(HEAD + before) == run_script(HEAD + after)


CHOSEN = """\
class Relative(nn.Module):
    def forward(self, out, y):
        return 2 * torch.mean(F.one_hot(y, 3) - out)

def pick(name):
    if name == "cross":
        return nn.CrossEntropyLoss()
    elif name == "relative":
        return Relative()

criterion = pick("relative")

"""


def test_a_loss_that_is_picked_by_its_name_is_a_tensor() -> None:
    before = function("s = 0.0", "s += loss.item()", "return s")
    after = function("s = 0.0", "s += loss.detach().double()", "s = float(s)\nreturn s")
    check_rewrites(DeferSync, HEAD + CHOSEN + before + CALL, HEAD + CHOSEN + after + CALL)


POLICY = """\
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 3)

    def evaluate(self, x, y):
        dist = torch.distributions.Categorical(logits=self.body(x))
        return dist.log_prob(y), dist.entropy().mean()

policy = Policy().to(device)
total = 0
for x, y in batches:
    logs, entropy = policy.evaluate(x.to(device), y.to(device))
    (-logs.mean() - entropy * 0.01).backward()
    {}
{}print(total / 7)
"""


def test_what_a_distribution_computes_is_a_tensor() -> None:
    before = HEAD + POLICY.format("total += entropy.item()", "")
    after = HEAD + POLICY.format("total += entropy.detach().double()", "total = float(total)\n")

    check_rewrites(DeferSync, before, after)
    assert run_script(before) == run_script(after)


# What is left.

MANY = "do that every so many iterations"
LEFT = {
    "the sum is printed in each iteration": (
        ("s = 0.0", "s += loss.item()\nprint(s)", "return s"),
        ("print(s)", "'s' is read in each iteration ({}): " + MANY),
    ),
    "the sum is read for a name that something else changes": (
        ("s = 0.0", "s += loss.item()\nshown = note(s)\nif i % 3 == 0:\n    print(shown)", "return s"),
        ("shown = ", "'s' is read in each iteration ({}): " + MANY),
    ),
    "the sum is read for a name that each iteration uses, too": (
        ("s = 0.0", "s += loss.item()\nshown = {'s': s}\nif i % 3 == 0:\n    print(shown)\nprint(shown)", "return s"),
        ("shown = ", "'s' is read in each iteration ({}): " + MANY),
    ),
    "the sum is read for a name that is used after the loop, too": (
        ("s = 0.0", "s += loss.item()\nshown = {'s': s}\nif i % 3 == 0:\n    print(shown)", "return s, shown"),
        ("shown = ", "'s' is read in each iteration ({}): " + MANY),
    ),
    "the sum decides": (
        ("s = 0.0", "s += loss.item()\nif s > 3:\n    y = x", "return s"),
        ("if s > 3", "'s' is read in each iteration ({}): " + MANY),
    ),
    "the sum is asked for beside a condition that is always the same": (
        ("s = 0.0", "s += loss.item()\nif device.type == 'cpu':\n    print(s)", "return s"),
        ("print(s)", "'s' is read in each iteration ({}): " + MANY),
    ),
    "a number is computed on the host": (
        ("s = 0.0", "s += math.exp(loss.item())", "return s"),
        ("s += ", "'math.exp(loss.item())' is computed of it on the host ({})"),
    ),
    "something is divided by it, and Python raises where that is 0": (
        ("s = 0.0", "s += 1 / loss.item()", "return s"),
        ("s += ", "'1 / loss.item()' is computed of it on the host ({})"),
    ),
    "it is divided by what may be a tensor": (
        ("s = 0.0", "s += loss.item() / x.sum()", "return s"),
        ("s += ", "whether 'x.sum()' is a number of Python's is not known ({})"),
    ),
    "a power that Python may find too large": (
        ("s = 0.0", "s += loss.item() ** 40", "return s"),
        ("s += ", "'loss.item() ** 40' is computed of it on the host ({})"),
    ),
    "a power that the caller chooses": (
        ("s = 0.0\nk = float(CALLS)", "s += loss.item() ** k", "return s"),
        ("s += ", "'loss.item() ** k' is computed of it on the host ({})"),
    ),
    "it starts from 0, and is scaled by an integer": (
        ("s = 0", "s += loss.item()", "return 100 * s"),
        ("return 100 * s", "where nothing was added, 's' is 0, and would be 0.0 ({}): start it from 0.0"),
    ),
    "it starts from 0, and changes its sign": (
        ("s = 0", "s += loss.item()", "return -1 * s / 7"),
        ("return -1 * s", "where nothing was added, 's' is 0, and would be 0.0 ({}): start it from 0.0"),
    ),
    "a share of each batch may stay the integer that it starts from": (
        ("s = 0", "s += (out.argmax(1) == y).sum().item() / len(y)", "return s"),
        ("return s", "where nothing was added, 's' is 0, and would be 0.0 ({}): start it from 0.0"),
    ),
    "a count of which shares are taken at times": (
        ("s = 0", "s += (out > 0).sum().item()\nif i > 3:\n    s += (out > 0).sum().item() / 2", "return s"),
        ("s += ", "whether 's' is a sum of integers or of floats is not known ({}): start it from 0.0"),
    ),
    "a factor may be a tensor": (
        ("s = 0.0", "s += loss.item() * x.sum()", "return s"),
        ("s += ", "whether 'x.sum()' is a number of Python's is not known ({})"),
    ),
    "it is not known where it starts": (
        ("s = first()", "s += loss.item()", "return s"),
        ("s += ", "'s' is not known to start from a number that is written out ({})"),
    ),
    "it starts from 0 and may stay that": (
        ("s = 0", "s += loss.item()", "return s"),
        ("return s", "where nothing was added, 's' is 0, and would be 0.0 ({}): start it from 0.0"),
    ),
    "it is given something else": (
        ("s = 0.0", "s += loss.item()\ns = math.sqrt(s)", "return s"),
        ("s = math", "'s' is read in each iteration ({}): " + MANY),
    ),
    "it is halved in each iteration": (
        ("s = 0.0", "s += loss.item()\ns *= 0.5", "return s"),
        ("s *= 0.5", "'s' is read in each iteration ({}): " + MANY),
    ),
    "it is read after an exception": (
        ("s = 0.0\ntry:\n    pass\nfinally:\n    pass", "s += loss.item()\nprint(locals())", "return s"),
        ("print(", "locals() may see 's' ({})"),
    ),
    "a function beside it reads the sum": (
        ("s = 0.0\nshow = lambda: print(s)", "s += loss.item()\nshow()", "return s"),
        ("show = ", "another function reads 's' ({})"),
    ),
    "another function has the name": (
        ("global s\ns = 0.0", "s += loss.item()", "return s"),
        ("global s", "other functions see 's' ({})"),
    ),
    "a list is read in the loop": (
        ("s = []", "s.append(loss.item())\nif i == 3:\n    print(s[-1])", "return s"),
        ("print(", "'s' is used in the loop ({}): use it after the loop"),
    ),
    "a list is kept elsewhere already": (
        ("s = []\nkept = {'losses': s}", "s.append(loss.item())\nprint(kept)", "return s"),
        ("kept = ", "other code may have 's' already ({})"),
    ),
    "a list that was given": (
        ("s = CALLS", "s.append(loss.item())", "return s"),
        (
            "for i",
            "'s' is not known to be a new list before each run of the loop ({}): append to one, and extend this by it",
        ),
    ),
    "a list that has two names": (
        ("s = kept = []", "s.append(loss.item())", "return s, kept"),
        (
            "for i",
            "'s' is not known to be a new list before each run of the loop ({}): append to one, and extend this by it",
        ),
    ),
    "a list of rows of two sorts": (
        ("s = []", "s.append([loss.item()])\ns.append((loss.item(),))", "return s"),
        ("s.append((", "'s' has rows of several sorts ({})"),
    ),
    "a row of what float() makes a number": (
        ("s = []", "s.append([loss.item(), float(loss)])", "return s"),
        (
            "s.append",
            "append() keeps its value in each iteration ({}): keep the tensor, detached, and make numbers of all of them "
            "after the loop",
        ),
    ),
    "a row of what is written to later": (
        ("s = []", "s.append([loss.item(), 0])\ns[-1][1] = 1\nloss.data.mul_(2)", "return s"),
        (
            "s.append",
            "append() keeps its value in each iteration ({}): keep the tensor, detached, and make numbers of all of them "
            "after the loop",
        ),
    ),
    "a loss to which the next pass adds": (
        ("s, total = [], model.bias.detach().sum()", "total += loss.detach()\ns.append(total.item())", "return s"),
        ("total +=", "'total' is written to in each iteration ({})"),
    ),
    "a loss that few passes make anew": (
        (
            "s, total = [], model.bias.detach().sum()",
            "if i % 2:\n    total = loss.detach() * 1\ntotal += loss.detach()\ns.append(total.item())",
            "return s",
        ),
        ("total +=", "'total' is written to in each iteration ({})"),
    ),
    "a loss to which is added before it is made anew": (
        (
            "s, total = [], model.bias.detach().sum()",
            "total += 1\ntotal = loss.detach() * 1\ns.append(total.item())",
            "return s",
        ),
        ("total +=", "'total' is written to in each iteration ({})"),
    ),
    "another name of a loss, to which is added": (
        (
            "s, held = [], model.bias.detach().sum()",
            "total = held\ntotal += loss.detach()\ns.append(total.item())",
            "return s",
        ),
        ("total +=", "'total' is written to in each iteration ({})"),
    ),
    "the same memory, to which is added": (
        (
            "s, held = [], model.bias.detach().sum()",
            "total = held.to(device)\ntotal += loss.detach()\ns.append(total.item())",
            "return s",
        ),
        ("s.append", "whether 'total' is a new tensor without dimensions is not known ({})"),
    ),
    "a list of pairs": (
        ("s = []", "s.append((loss.item(), len(x)))", "return s"),
        (
            "s.append",
            "append() keeps its value in each iteration ({}): keep the tensor, detached, and make numbers of all of them "
            "after the loop",
        ),
    ),
    "a list of lists": (
        ("s = []", "s.append([loss.item(), len(x)])", "return s"),
        (
            "s.append",
            "append() keeps its value in each iteration ({}): keep the tensor, detached, and make numbers of all of them "
            "after the loop",
        ),
    ),
    "a list holds more than what the device computes": (
        ("s = []", "s.append(loss.item())\nif i == 3:\n    s.append(0.0)", "return s"),
        ("s.append(0.0)", "append() keeps its value in each iteration ({})"),
    ),
    "a count that is copied for something that waits, too": (
        ("s = 0", "print(y.cpu())\ns += (out.argmax(1) == y).cpu().sum().item()", "return s"),
        ("print(y", "each iteration waits for the device anyway ({})"),
    ),
    "a list of what is rounded on the host": (
        ("s = []", "s.append(round(loss.item(), 2))", "return s"),
        ("s.append", "append() keeps its value in each iteration ({})"),
    ),
    "a list of half of what is rounded on the host": (
        ("s = []", "s.append(round(loss.item(), 2) / 2)", "return s"),
        ("s.append", "'round(loss.item(), 2)' is computed of it on the host ({})"),
    ),
    "a list of what is divided by it": (
        ("s = []", "s.append(1 / loss.item())", "return s"),
        ("s.append", "'1 / loss.item()' is computed of it on the host ({})"),
    ),
    "a list of what is multiplied by what is not known": (
        ("s = []", "s.append(loss.item() * first())", "return s"),
        ("s.append", "whether 'first()' is a number of Python's is not known ({})"),
    ),
    "a list of what may be integers or floats": (
        ("s = []", "s.append((out.argmax(1) == y).sum().item() * 0.5)", "return s"),
        (
            "s.append",
            "whether '(out.argmax(1) == y).sum().item() * 0.5' is an integer or a float is not known ({})",
        ),
    ),
    "a list of what is cut": (
        ("s = []", "s.append(int(loss) * 2)", "return s"),
        ("s.append", "int() may cut it ({})"),
    ),
    "a list that holds a sum of numbers, too": (
        ("s = []", "s.append(loss.item() * 2)\nif i == 3:\n    s.append(1 + 2)", "return s"),
        ("s.append(1", "append() keeps its value in each iteration ({})"),
    ),
    "a list of losses that are written to": (
        ("s = []", "s.append(loss.item())\nloss.data.mul_(0)", "return s"),
        ("loss.data", "'loss' is written to in each iteration ({})"),
    ),
    "a list of losses that are divided in place": (
        ("s = []", "s.append(loss.item())\nwith torch.no_grad():\n    loss /= 2", "return s"),
        ("loss /=", "'loss' is written to in each iteration ({})"),
    ),
    "a list of what may be one tensor in all iterations": (
        ("s = []", "s.append(model.bias[0].item())", "return s"),
        ("s.append", "whether 'model.bias[0]' is a tensor is not known ({})"),
    ),
    "a list of a tensor into which each iteration writes": (
        (
            "s = []\nkept = torch.zeros(1, device=device)",
            "kept.copy_(loss.detach())\ns.append(kept.item())",
            "return s",
        ),
        ("s.append", "whether 'kept' is a new tensor without dimensions is not known ({})"),
    ),
    "arrays of one number each": (
        ("s = []", "s.append(loss.detach().cpu().numpy())", "return s"),
        (
            "s.append",
            "append() keeps its value in each iteration ({}): keep the tensor, detached, and make numbers of all of them "
            "after the loop",
        ),
    ),
    "a sum of arrays of one number each": (
        ("s = 0.0", "s += loss.data.cpu().numpy()", "return s"),
        (
            "s += ",
            "its value is kept in 's' in each iteration ({}): keep the tensor, detached, and make numbers of all of them "
            "after the loop",
        ),
    ),
    "few passes read a list, and fewer empty it": (
        ("s = []", "s.append(loss.item())\nif i % 3 == 2:\n    print(s)\n    if i == 5:\n        s = []", "return s"),
        ("print(s)", "'s' is used in the loop ({}): use it after the loop"),
    ),
    "few passes empty a list before they read it": (
        (
            "s = []",
            "s.append(loss.item())\nif i % 3 == 2:\n    print(s)\n    s = []\nif i % 2 == 1:\n    print(s)",
            "return s",
        ),
        ("print(s)\n    return", "'s' is used in the loop ({}): use it after the loop"),
    ),
    "few passes read a list, and leave the loop before they empty it": (
        (
            "s = []",
            "s.append(loss.item())\nif i % 3 == 2:\n    print(s)\n    if i == 5:\n        break\n    s = []",
            "return s",
        ),
        ("print(s)", "'s' is used in the loop ({}): use it after the loop"),
    ),
    "something else has the new list": (
        ("s, seen = [], {}", "s.append(loss.item())\nif i % 3 == 2:\n    s = []\n    seen[i] = s", "return seen"),
        ("seen[i]", "'s' is used in the loop ({}): use it after the loop"),
    ),
    "few passes go on with another list": (
        ("s = []", "if i % 3 == 2:\n    s = [0.5]\ns.append(loss.item())", "return s"),
        ("s.append", "'s' is not known to be a new list where the loop appends to it ({})"),
    ),
    "a list of what has a name, and is written to": (
        ("s = []", "v = loss.item()\ns.append(v)\nloss.data.mul_(0)", "return s"),
        ("s.append", "append() keeps 'v' in each iteration ({})"),
    ),
    "a function beside it reads the list": (
        ("s = []\nseen = lambda: s", "s.append(loss.item())", "return s"),
        ("seen = ", "another function reads 's' ({})"),
    ),
    "a list of what code writes that is compiled for CUDA graphs": (
        ("s = []\nfast = torch.compile(model, mode='reduce-overhead')", "s.append(fast(x).mean().item())", "return s"),
        ("fast = ", "compiled code may write over its results ({})"),
    ),
    "a clock is read": (
        ("s = 0.0", "s += loss.item()\nstart = time.time()", "return s"),
        (
            "start = ",
            "the loop reads a clock, which shows how long the device took as long as the host waits ({}): read it every so many iterations, below what these print of the device",
        ),
    ),
}


@pytest.mark.parametrize(("lines", "expected"), LEFT.values(), ids=list(LEFT))
def test_a_sum_is_left(lines: tuple[str, str, str], expected: tuple[str, str]) -> None:
    code = function(*lines)
    at, because = expected

    check_leaves(DeferSync, HEAD + code, because.format(f"line {line_of(code, at)}"))


def test_a_sum_that_starts_from_0_and_is_divided_by_the_caller_is_deferred() -> None:
    code = HEAD + function("s = 0", "s += loss.item()", "return s, 1")
    caller = "\n\ns, n = train()\nprint(s / 3, n)\n"
    after = code.replace("s += loss.item()", "s += loss.detach().double()")
    after = after.replace("return s", "s = float(s)\n    return s")
    check_rewrites(DeferSync, code + caller, after + caller)


@pytest.mark.parametrize(
    ("seldom", "is_left"),
    [
        pytest.param("torch.cuda.synchronize()\n    print(time.time())", False, id="which is waited for at last"),
        pytest.param("print(time.time())\n    torch.cuda.synchronize()", True, id="before it is waited for"),
        pytest.param("later = torch.cuda.synchronize\n    print(time.time())", True, id="that is not waited for"),
    ],
)
def test_a_clock_that_is_read_after_the_device_is_waited_for_shows_the_same(seldom: str, is_left: bool) -> None:  # noqa: FBT001 - the expectation itself
    code = HEAD + function("s = 0.0", f"s += loss.item()\nif i % 100 == 0:\n    {seldom}", "return s")
    if is_left:
        at = f"line {code[: code.index('print(')].count(chr(10)) + 1}"
        check_leaves(
            DeferSync,
            code,
            f"the loop reads a clock, which shows how long the device took as long as the host waits ({at}): read it below what is printed there of the device",
        )
    else:
        after = code.replace("s += loss.item()", "s += loss.detach().double()")
        check_rewrites(DeferSync, code, after.replace("return s", "s = float(s)\n    return s"))


METER = """\
class Meter:
    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n

"""


@pytest.mark.parametrize(
    ("start", "remedy"),
    [
        pytest.param(
            "[Meter()][0]",
            ": give it the tensor, detached, and make a number of its average where that is shown",
            id="a meter",
        ),
        pytest.param("set()", f": {NUMBERS}", id="something of Python's"),
    ],
)
def test_what_keeps_a_number_is_left(start: str, remedy: str) -> None:
    code = METER + function(f"meter = {start}", "meter.update(loss.item(), len(x))", "return meter")
    because = f"update() keeps its value in each iteration (line {line_of(code, 'meter.update')}){remedy}"

    check_leaves(DeferSync, HEAD + code, because)


def test_what_keeps_a_number_beside_a_clock_is_left_for_that() -> None:
    code = METER + function(
        "meter = [Meter()][0]", "print(time.time())\nmeter.update(loss.item(), len(x))", "return meter"
    )
    because = (
        "the loop reads a clock, which shows how long the device took as long as the host waits (line {}): read it every "
        "so many iterations, below what these print of the device"
    )

    check_leaves(DeferSync, HEAD + code, because.format(line_of(code, "print(time")))


def test_what_keeps_a_number_beside_another_wait_is_left_for_that() -> None:
    inside = "torch.cuda.synchronize()\nmeter.update(loss.item(), len(x))"
    code = METER + function("meter = [Meter()][0]", inside, "return meter")

    because = f"each iteration waits for the device anyway (line {line_of(code, 'torch.cuda.synchronize()')})"
    check_leaves(DeferSync, HEAD + code, because)


@pytest.mark.parametrize(
    ("above", "start", "added"),
    [
        pytest.param("from torch import *\n", "s = 0.0", "loss.item()", id="an import of *"),
        pytest.param("def int(x):\n    return x\n", "s = 0", "(out > 0).sum().item()", id="a function of the script"),
    ],
)
def test_what_would_be_made_a_number_by_something_else_is_left(above: str, start: str, added: str) -> None:
    code = HEAD + above + function(start, f"s += {added}", "return s")
    builtin = "float" if start == "s = 0.0" else "int"

    check_leaves(DeferSync, code, f"the script gives the name '{builtin}' to something else")


RETURNED = (
    "{} returns its value in each iteration (line {{}}): return the tensor, detached, and ask for its number as seldom"
    " as that is read"
)
STEP_FUNCTION = "def step(x, y):\n" + "".join(f"{line[4:]}\n" for line in STEP.splitlines())
IN_FUNCTIONS = {
    "a function returns the number of a batch": (
        f"{STEP_FUNCTION}    return loss.item()\n\n\ntotal = 0.0\nfor x, y in batches:\n    total += step(x, y)\n",
        "step(x, y)\n",
    ),
    "by a name": (
        f"{STEP_FUNCTION}    value = loss.item()\n    return value, out\n\n\n"
        "losses = []\nfor x, y in batches:\n    value, _ = step(x, y)\n    losses.append(value)\n",
        "value, _ = step",
    ),
    "a method does": (
        "class Trainer:\n    def step(self, x, y):\n"
        + "".join(f"    {line}\n" for line in STEP_FUNCTION.splitlines()[1:])
        + "        return loss.item()\n\n\ntrainer = Trainer()\nfor x, y in batches:\n"
        "    losses = [*losses, trainer.step(x, y)]\n",
        "losses = [*",
    ),
    "in a dictionary that a dictionary is made of": (
        f"{STEP_FUNCTION}    numbers = {{'n': len(x)}}\n    numbers.update(dict(loss=loss.item()))\n"
        "    return numbers\n\n\nlast = {}\nfor x, y in batches:\n    last.update(step(x, y))\n",
        "last.update",
    ),
    "as an item of a dictionary": (
        f"{STEP_FUNCTION}    numbers = {{}}\n    numbers['loss'] = float(loss)\n    return numbers\n\n\n"
        "last = {}\nfor x, y in batches:\n    last.update(step(x, y))\n",
        "last.update",
    ),
}

PARTS = """\
def loss_of(outputs):
    parts, total, loss = [], 0.0, 0
    for each in outputs:
        part = (each - 1).square().mean()
        loss = loss + part
        {kept}
    share = total / 2
    return loss, {returned}


for i, (x, y) in enumerate(batches):
    loss, parts = loss_of([model(x.to(device))])
    loss.backward()
    optimizer.step()
    if i % 100 == 0:
        print(parts)
"""
NORM = """\
def norm_of(parameters):
    parameters = list(filter(lambda p: p.grad is not None, parameters))
    total = 0
    for p in parameters:
        norm = p.grad.data.norm(2)
        total += norm.item() ** 2
    total = total ** 0.5
    return total


"""


@pytest.mark.parametrize(
    ("kept", "returned", "new", "converted"),
    [
        pytest.param(
            "parts.append(part.item())",
            "parts",
            "parts.append(part.detach())",
            "parts = [each.item() for each in parts]",
            id="a list",
        ),
        pytest.param(
            "total += part.item()", "total", "total += part.detach().double()", "total = float(total)", id="a sum"
        ),
        pytest.param(
            "total += part.item()",
            "share",
            "total += part.detach().double()",
            "total = float(total)",
            id="a sum of which something is computed",
        ),
    ],
)
def test_what_a_loop_keeps_in_each_iteration_is_read_when_it_ends(
    kept: str, returned: str, new: str, converted: str
) -> None:
    before = HEAD + PARTS.format(kept=kept, returned=returned)
    after = HEAD + PARTS.format(kept=new, returned=returned).replace("    share", f"    {converted}\n    share")

    check_rewrites(DeferSync, before, after)
    assert run_script(before) == run_script(after)


SQUARES = NORM.replace("norm.item() ** 2", "norm.double() ** 2").replace(
    "    total = total **", "    total = float(total)\n    total = total **"
)
NORM_USES = {
    "seldom read": "norm = norm_of(model.parameters())\n    if i % 100 == 0:\n        print(norm)\n",
    "read in each iteration": "print(norm_of(model.parameters()))\n",
    "read by nobody": "norm_of(model.parameters())\n",
    "by way of another function": "show()\n",
}
OF_MODULE = "".join(f"{line[4:]}\n" for line in LOOP.splitlines())
SHOW = "def show():\n    print(norm_of(model.parameters()))\n\n\n"


@pytest.mark.parametrize("use", NORM_USES.values(), ids=NORM_USES)
def test_numbers_of_all_parameters_are_added_up_on_the_device(use: str) -> None:
    before, after = (HEAD + norm + SHOW + f"{OF_MODULE}    {use}" for norm in (NORM, SQUARES))

    check_rewrites(DeferSync, before, after)
    assert run_script(before) == run_script(after)


INLINE = """\
    total = 0.0
    for p in model.parameters():
        total += {norm}
{end}    print(total ** 0.5)
"""


def test_a_loop_within_the_iteration_adds_up_on_the_device() -> None:
    start = HEAD + OF_MODULE
    before = start + INLINE.format(norm="p.grad.detach().norm(2).item() ** 2", end="")
    after = start + INLINE.format(norm="p.grad.detach().norm(2).double() ** 2", end="    total = float(total)\n")

    check_rewrites(DeferSync, before, after)
    assert run_script(before) == run_script(after)


OUTPUTS = """\
def mean_of(outputs):
    total = 0.0
    for each in outputs:
        {added}
{end}    return total


for x, y in batches:
    out = model(x.to(device))
    out.sum().backward()
    print(mean_of([out.mean(), out[:1, :1].detach()]))
"""


def test_tensors_of_other_shapes_are_not_added_in_place() -> None:
    before = HEAD + OUTPUTS.format(added="total += (2 * each).item()", end="")
    after = HEAD + OUTPUTS.format(
        added="total = total + (2 * each).detach().double()", end="    total = float(total)\n"
    )

    check_rewrites(DeferSync, before, after)
    assert run_script(before) == run_script(after)


def test_a_function_that_torchscript_may_compile_is_left() -> None:
    code = f"@torch.jit.script\n{PARTS.format(kept='total += part.item()', returned='total')}"

    check_leaves(DeferSync, HEAD + code, RETURNED.format("'loss_of()'").format(line_of(code, "loss, parts = loss_of")))


SUNK = {
    "a number that is printed now and then": (
        "last = loss.item()\nif i % 3 == 0:\n    # So far.\n    print(i)\n    print(last)",
        "if i % 3 == 0:\n    # So far.\n    print(i)\n    last = loss.item()\n    print(last)",
    ),
    "beside a clock": (
        "last = loss.item()\nif i % 3 == 0:\n    print(last, time.time() > 0)",
        "if i % 3 == 0:\n    last = loss.item()\n    print(last, time.time() > 0)",
    ),
    "beside a sum, for which no pass waits any more": (
        "last = {'loss': loss.item()}\ns += loss.item()\nif i % 3 == 0:\n    print(last)",
        "s += loss.detach().double()\nif i % 3 == 0:\n    last = {'loss': loss.item()}\n    print(last)",
    ),
}


@pytest.mark.parametrize(("inside", "rewritten"), SUNK.values(), ids=SUNK)
def test_a_number_that_few_passes_use_is_read_there(inside: str, rewritten: str) -> None:
    has_sum = "s +=" in inside
    before = HEAD + function("s = 0.0", inside, "return s") + CALL
    after = HEAD + function("s = 0.0", rewritten, "s = float(s)\nreturn s" if has_sum else "return s") + CALL

    check_rewrites(DeferSync, before, after)
    assert run_script(before) == run_script(after)
    assert {each.promise for each in run(DeferSync, before).sites} == {Promise.BITWISE}


SUNK_LEFT = {
    "a clock above it": (
        "now = time.time()\nlast = loss.item()\nif i % 3 == 0:\n    print(last, now)",
        "the loop reads a clock, which shows how long the device took as long as the host waits (line {}): read it every so many iterations, below what these print of the device",
        "now = ",
    ),
    "each pass waits for something else": (
        "last = loss.item()\nif loss > 99:\n    break\nif i % 3 == 0:\n    print(last)",
        "each iteration waits for the device anyway (line {})",
        "if loss",
    ),
}


@pytest.mark.parametrize(("inside", "because", "place"), SUNK_LEFT.values(), ids=SUNK_LEFT)
def test_a_number_that_few_passes_use_is_left(inside: str, because: str, place: str) -> None:
    code = function("s = 0.0", inside, "return s") + CALL

    reasons = [each.message for each in run(DeferSync, HEAD + code).sites]
    assert because.format(line_of(code, place)) in reasons


SELDOM = (
    "'norm_of()' returns its value, and 'norm' is read from the device in each iteration, and used in few "
    "(line {}): return the tensor, detached, and ask for the number there"
)


@pytest.mark.parametrize(
    ("norm", "use"),
    [
        pytest.param(
            NORM,
            "from apex import amp\n    norm = norm_of(amp.master_params(optimizer) if i else model.parameters())\n",
            id="of copies that a library has",
        ),
        pytest.param(NORM.replace("** 2", "** 3"), "norm = norm_of(model.parameters())\n", id="a power of three"),
        pytest.param(
            NORM.replace("total ** 0.5", "total + 1"),
            "norm = norm_of(model.parameters())\n",
            id="0 may stay an integer",
        ),
        pytest.param(
            NORM.replace("** 2\n", "** 2\n        if total > 9:\n            p.grad.zero_()\n"),
            "norm = norm_of(model.parameters())\n",
            id="each pass of the loop reads it",
        ),
        pytest.param(
            NORM,
            "norm = norm_of(model.parameters())\n    y = x.to('cuda:0') if i else x.to('cuda:1')\n",
            id="on one of two devices",
        ),
        pytest.param(
            NORM,
            "norm = norm_of(model.parameters())\n    load = lambda kind: kind.from_pretrained('name', device_map='auto')\n",
            id="on devices that a library chooses",
        ),
    ],
)
def test_a_number_of_each_parameter_is_left(norm: str, use: str) -> None:
    code = f"{norm}{OF_MODULE}    {use}    if i % 100 == 0:\n        print(norm)\n"

    check_leaves(DeferSync, HEAD + code, SELDOM.format(line_of(code, "print(norm)")))


def test_a_sum_that_is_read_for_what_few_iterations_use_is_read_there() -> None:
    shown = "shown = {\n    'mean': s / (i + 1),\n}\n"
    often = function("s = 0.0", f"s += loss.item()\n{shown}if i % 3 == 0:\n    print(shown)", "return s")
    text = "'s' is read in each iteration (line {}) for 'shown', which few use (line {}): give 'shown' its value there"
    check_leaves(DeferSync, HEAD + often, text.format(line_of(often, "'mean'"), line_of(often, "print(shown)")))

    there = "    shown = {'mean': %s / (i + 1)}\n    print(shown)"
    before = function("s = 0.0", "s += loss.item()\nif i % 3 == 0:\n" + there % "s", "return s")
    added = "s += loss.detach().double()\nif i % 3 == 0:\n"
    after = function("s = 0.0", added + there % "float(s)", "s = float(s)\nreturn s")
    check_rewrites(DeferSync, HEAD + before, HEAD + after)


def test_what_the_method_of_a_wrapped_model_computes_is_on_the_device() -> None:
    wrapped = "model = nn.DataParallel(model)\n\n"
    start, end = "hits = 0", "hits = int(hits)\nreturn hits"
    step = STEP.replace("model(x)", "model.forward(x)")
    before = function(start, "right = out.argmax(1).eq(y).sum().item()\nhits += right", "return hits")
    after = function(start, "right = out.argmax(1).eq(y).sum()\nhits += right", end)
    before, after = (each.replace(STEP, step) for each in (before, after))
    check_rewrites(DeferSync, HEAD + wrapped + before, HEAD + wrapped + after)


def test_a_norm_that_is_asked_for_at_times_is_not_mentioned() -> None:
    check_silent(
        DeferSync, HEAD + NORM + OF_MODULE + "    if i % 100 == 0:\n        print(norm_of(model.parameters()))\n"
    )


def test_another_sum_waits_for_what_a_function_returns_and_the_reason_says_what_to_do() -> None:
    code = "def hits_of(out, y):\n    hits = (out.argmax(1) == y).sum().item()\n    return hits\n\n\n" + function(
        "s, n = 0.0, 0", "n += hits_of(out, y)\ns += loss.item()", "return s, n"
    )
    messages = [each.message for each in run(DeferSync, HEAD + code).sites]

    assert (
        f"each iteration waits for the device anyway (line {line_of(code, 'hits = (out')}): return the tensor from "
        "'hits_of()', detached, and add it up as this one"
    ) in messages


@pytest.mark.parametrize(("code", "call"), IN_FUNCTIONS.values(), ids=IN_FUNCTIONS)
def test_what_a_function_returns_in_each_iteration_is_left(code: str, call: str) -> None:
    because = RETURNED.format("'step()'").format(line_of(code, call))

    check_leaves(DeferSync, HEAD + code, because)


def test_what_one_function_returns_to_another_that_returns_it_is_left() -> None:
    code = (
        f"{STEP_FUNCTION}    return loss.item()\n\n\ndef update(x, y):\n    value = step(x, y)\n"
        "    return {'loss': value}\n\n\nlast = {}\nfor x, y in batches:\n    last.update(update(x, y))\n"
    )

    check_leaves(DeferSync, HEAD + code, RETURNED.format("'update()'").format(line_of(code, "last.update")))


@pytest.mark.parametrize(
    ("uses", "because"),
    [
        pytest.param(
            ["print(loss.item())"],
            "print() is given its value in each iteration (line {}): do that every so many iterations",
            id="printed",
        ),
        pytest.param(
            ["value = loss.item()", "kept.append(value)"],
            "append() keeps 'value' in each iteration (line {}): keep the tensor, detached, and make numbers of all of "
            "them after the loop",
            id="kept",
        ),
        pytest.param(
            ["rows = int(loss)", "return x.view(rows, -1)"],
            "view() is given 'rows' in each iteration (line {})",
            id="a tensor of that size is returned",
        ),
        pytest.param(
            ["value = loss.item()"],
            "its value is kept in 'value' in each iteration, and nothing reads that (line {}): remove it",
            id="not read",
        ),
        pytest.param(
            ["value = loss.item()", "if value > 1:\n        kept.append(1)"],
            "the iteration goes on by 'value' (line {}): do that every so many iterations",
            id="compared",
        ),
    ],
)
def test_what_a_function_of_each_iteration_uses_itself_is_left(uses: list[str], because: str) -> None:
    lines = "".join(f"    {each}\n" for each in uses)
    code = f"kept = []\n\n\n{STEP_FUNCTION}{lines}\n\nfor x, y in batches:\n    step(x, y)\n"

    check_leaves(DeferSync, HEAD + code, because.format(line_of(code, uses[-1])))


def test_what_a_function_of_each_iteration_computes_on_the_host_is_not_mentioned() -> None:
    code = (
        "def size_of(n):\n    weights = torch.linspace(0, 1, n)\n    return int(weights.sum())\n\n\n"
        f"for x, y in batches:\n    size_of(len(x))\n{STEP.replace('        ', '    ')}"
    )

    check_silent(DeferSync, HEAD + code)


@pytest.mark.parametrize(
    ("use", "calls"),
    [
        pytest.param("if len(kept) % 100 == 0:\n        print(loss.item())", "step(x, y)", id="read at times"),
        pytest.param("if len(kept) > 3:\n        kept.append(loss.item())", "step(x, y)", id="read under a condition"),
        pytest.param("kept.append(loss.item())", "if len(kept) % 100 == 0:\n        step(x, y)", id="called at times"),
    ],
)
def test_what_a_function_does_not_read_in_each_iteration_is_not_mentioned(use: str, calls: str) -> None:
    code = f"kept = []\n\n\n{STEP_FUNCTION}    {use}\n\n\nfor x, y in batches:\n    {calls}\n"

    check_silent(DeferSync, HEAD + code)


@pytest.mark.parametrize(
    ("uses", "because"),
    [
        pytest.param(
            ["print(step(x, y))"],
            "print() is given it in each iteration (line {}): return the tensor, detached, and do that every so many "
            "iterations",
            id="printed",
        ),
        pytest.param(
            ["value = step(x, y)", "advance(value)"],
            "advance() is given 'value' in each iteration (line {})",
            id="given",
        ),
        pytest.param(
            ["value = step(x, y)", "x = x / value"],
            "'x / value' is computed with 'value' in each iteration (line {})",
            id="computed with",
        ),
    ],
)
def test_who_reads_at_once_what_a_function_returns_is_told(uses: list[str], because: str) -> None:
    lines = "".join(f"    {each}\n" for each in uses)
    code = f"{STEP_FUNCTION}    return loss.item()\n\n\nfor x, y in batches:\n{lines}"

    expected = because.format(line_of(code, uses[-1]))
    check_leaves(DeferSync, HEAD + code, f"'step()' returns its value, and {expected}")


def test_what_a_function_returns_on_the_cpu_is_left_for_that() -> None:
    code = f"{STEP_FUNCTION}    return loss.item()\n\n\ntotal = 0.0\nfor x, y in batches:\n    total += step(x, y)\n"
    head = HEAD.replace('"cuda" if torch.cuda.is_available() else "cpu"', '"cpu"')

    because = "no CUDA: nothing in this file moves a model or its batches to a CUDA device"
    check_leaves(DeferSync, head + code, because)


NOT_IN_LOOPS = {
    "the function is called once": f"{STEP_FUNCTION}    return loss.item()\n\n\nprint(step(*batches[0]))\n",
    "few iterations call it": (
        f"{STEP_FUNCTION}    return loss.item()\n\n\nfor i, (x, y) in enumerate(batches):\n    model(x.to(device))\n"
        "    if i % 100 == 0:\n        print(step(x, y))\n"
    ),
    "a loop of its own comes before": (
        "def count():\n    n = 0\n    for x, y in batches:\n        n = n + 1\n    return model(x.to(device)).sum().item()\n\n\n"
        "for epoch in range(2):\n    print(count())\n"
    ),
}


@pytest.mark.parametrize("code", NOT_IN_LOOPS.values(), ids=NOT_IN_LOOPS)
def test_what_is_not_returned_in_each_iteration_is_not_mentioned(code: str) -> None:
    check_silent(DeferSync, HEAD + code)


COUNT = """\
def train():
    hits, seen = 0, 0
{loop}        hits += out.argmax(1).eq(y){copied}.sum()
        seen += len(y)
    print("{{}}/{{}}, {{:.2f}}".format(hits, seen, {share}))
"""


@pytest.mark.parametrize(
    ("share", "promise"),
    [
        pytest.param("100. * hits", Promise.BITWISE, id="the count alone"),
        pytest.param("100. * hits / seen", Promise.PRECISION, id="a share, which CUDA may round otherwise"),
    ],
)
def test_a_count_is_not_copied_in_each_iteration(share: str, promise: Promise) -> None:
    before, after = (
        HEAD + COUNT.format(loop=LOOP, copied=copied, share=share) + "\ntrain()\n" for copied in (".cpu()", "")
    )

    check_rewrites(DeferSync, before, after)
    assert [site.promise for site in run(DeferSync, before).sites] == [promise]
    assert run_script(before) == run_script(after)


def test_a_count_is_copied_once_where_its_share_is_a_tensor() -> None:
    before, after = (
        f"{HEAD}def train():\n    hits = 0\n    seen = 0\n{LOOP}        hits += out.argmax(1).eq(y){copied}.sum()\n"
        f"        seen += len(y)\n    return 100.0 * hits{once} / seen\n\n\nprint(train())\n"
        for copied, once in ((".cpu()", ""), ("", ".cpu()"))
    )

    check_rewrites(DeferSync, before, after)
    assert [site.promise for site in run(DeferSync, before).sites] == [Promise.BITWISE]
    assert run_script(before) == run_script(after)


def test_a_count_that_shows_where_it_is_stays_on_the_host() -> None:
    code = COUNT.format(loop=LOOP, copied=".cpu()", share="hits") + "    return hits\n\ntrain()\n"
    because = "'hits' is used as a tensor of the host (line {}): write hits.item() there"

    check_leaves(DeferSync, HEAD + code, because.format(line_of(code, "return hits")))


ONE_BATCH = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(6, 3).cuda()
data = TensorDataset(torch.randn(90, 6))
other = TensorDataset(torch.randn(9, 6))
loader = DataLoader(data, batch_size={size})


def evaluate():
    total = 0.0
    with torch.no_grad():
        for (x,) in {read}:
            total += model(x.cuda()).sum().item()
    return total


evaluate()
"""


@pytest.mark.parametrize("read", ["(loader)", "enumerate(loader)"], ids=["as it is", "counted"])
def test_a_loop_of_one_batch_gains_nothing(read: str) -> None:
    text = ONE_BATCH.format(size="len(data)", read=read)
    text = text.replace("(x,) in enumerate", "_, (x,) in enumerate")

    check_leaves(DeferSync, text, "the loop has one pass, as one batch holds all items (line 8)")


@pytest.mark.parametrize("size", ["len(other)", "len(data) // 2", "90", "len(data[:9])"])
def test_a_loop_of_several_batches_gains(size: str) -> None:
    before = ONE_BATCH.format(size=size, read="loader")
    after = before.replace("sum().item()", "sum().double()").replace(
        "    return", "        total = float(total)\n    return"
    )

    check_rewrites(DeferSync, before, after)


GIVEN = """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def train(net, loader, optimizer):
    net = net.to(device)
    criterion = nn.CrossEntropyLoss()
    hits, seen = 0.0, 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        out = net(x)
        loss = {loss}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        hits += {hits}
        seen += len(y)
{after}    return hits / seen
"""


@pytest.mark.parametrize(
    ("loss", "hits"),
    [
        pytest.param("criterion(out, y)", "(out.argmax(1) == y).sum()", id="a loss takes tensors alone"),
        pytest.param("net.loss(out, y)", "(out.argmax(dim=1) == y).sum()", id="tensors alone have a dim"),
    ],
)
def test_what_a_model_that_is_not_seen_computes(loss: str, hits: str) -> None:
    check_rewrites(
        DeferSync,
        GIVEN.format(loss=loss, hits=f"{hits}.item()", after=""),
        GIVEN.format(loss=loss, hits=f"{hits}.double()", after="    hits = float(hits)\n"),
    )


def test_what_may_be_an_array_is_read_in_each_iteration() -> None:
    code = GIVEN.format(loss="net.loss(out, y)", hits="(out.argmax(1) == y).sum().item()", after="")

    check_leaves(DeferSync, code, "whether '(out.argmax(1) == y).sum()' is a tensor is not known (line 18)")


def test_a_copy_that_nothing_reads_is_named() -> None:
    code = HEAD + function("pass", "seen = out.detach().cpu().numpy()", "return 1")

    check_leaves(
        DeferSync, code, "'seen' is copied to the host in each iteration, and nothing reads it: remove the copy"
    )


def test_a_number_that_nothing_reads_is_named() -> None:
    code = function("pass", "seen = loss.item()", "return 1")
    line = line_of(code, "seen = loss.item()")
    because = f"its value is kept in 'seen' in each iteration, and nothing reads that (line {line})"

    check_leaves(DeferSync, HEAD + code, f"{because}: remove it")


@pytest.mark.parametrize(
    ("inside", "because"),
    [
        pytest.param(
            "kept += out.argmax(1).tolist()",
            "its items are kept in a list in each iteration (line {}): keep the tensors, detached, and make lists of "
            "them after the loop",
            id="lists",
        ),
        pytest.param(
            "hits += (out.argmax(1).cpu() == y.cpu()).sum()",
            "it is compared and counted on the host in each iteration (line {}): compare it on the device with what was "
            "moved there, and ask for the sum where it is read",
            id="counts",
        ),
    ],
)
def test_what_is_copied_to_be_kept_is_left(inside: str, because: str) -> None:
    code = function("kept, hits = [], 0", inside, "return kept, hits")

    check_leaves(DeferSync, HEAD + code + CALL, because.format(line_of(code, inside)))


def test_a_number_of_what_is_computed_on_the_host_is_left() -> None:
    inside = "hits += (out.argmax(1).cpu() == y.cpu()).sum().item()"
    code = function("hits = 0", inside, "return hits")
    result = run(DeferSync, HEAD + code + CALL)

    assert result.after == HEAD + code + CALL
    because = f"each iteration waits for the device anyway (line {line_of(code, inside)})"
    assert because in [each.message for each in result.sites]
