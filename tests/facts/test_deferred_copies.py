"""Which counts that are copied to the host in each pass of a loop could stay on the device."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.reason import Reason
from codemods.facts.training.deferral import outcomes
from codemods.facts.training.deferred_copies import DeferredCopy
from codemods.facts.training.seldom_uses import SeldomUse

HEAD = """\
import torch
from torch import nn
model = nn.Linear(4, 2).cuda()
def test(batches, size, scale):
    hits, seen = {start}, 0
    with torch.no_grad():
        for x, y in batches:
            x, y = x.cuda(), y.cuda()
            guess = model(x).argmax(1)
            seen += len(x)
"""
COUNTED = "hits += guess.eq(y).cpu().sum()"
SHOWN = "print('{}/{} {:.0f}%'.format(hits, size, 100. * hits / size))"


def found(inside: str = COUNTED, after: str = SHOWN, start: str = "0") -> list[str]:
    """What becomes of each reading of the loop."""
    lines = "".join(f"            {each}\n" for each in inside.splitlines())
    below = "".join(f"    {each}\n" for each in after.splitlines())
    known = script(f"{HEAD.format(start=start)}{lines}{below}test(nobody(), 2, nobody())\n")
    return [
        each.words.said(known.module).text if isinstance(each, Reason) else f"{type(each).__name__} {each.total.name}"
        for _, each in outcomes(known)
        if not isinstance(each, SeldomUse)
    ]


@pytest.mark.parametrize(
    "inside",
    [
        pytest.param(COUNTED, id="copied before the sum"),
        pytest.param("hits += guess.eq(y).sum().cpu()", id="copied behind the sum"),
        pytest.param("hits = hits + (guess == y).cpu().sum()", id="written out"),
        pytest.param("hits += (guess == y).to('cpu').sum()", id="by another name"),
    ],
)
def test_a_count_stays_on_the_device(inside: str) -> None:
    assert found(inside) == ["DeferredCopy hits"]


@pytest.mark.parametrize(
    "inside",
    [
        pytest.param("hits += guess.eq(y).sum()", id="it is not copied"),
        pytest.param("hits += torch.stack([guess.eq(y).cpu().sum()])", id="more is done with it"),
        pytest.param("hits += guess.eq(y).cpu()", id="no sum"),
        pytest.param("hits += guess.eq(y).cpu().sum(0)", id="sums of rows"),
        pytest.param("hits = guess.eq(y).cpu().sum()", id="nothing is added up"),
    ],
)
def test_what_is_no_count(inside: str) -> None:
    assert found(inside) == []


@pytest.mark.parametrize(
    "after",
    [
        pytest.param("print(f'{hits} {100 * hits / size:.1f}')", id="an f-string"),
        pytest.param("print('%d of %d' % (hits, size))", id="an old format"),
        pytest.param("return hits.item() / size", id="its number"),
        pytest.param("return float(hits) / size", id="a number made of it"),
        pytest.param("pass", id="nobody asks for it"),
    ],
)
def test_who_asks_for_the_number_alone(after: str) -> None:
    assert found(after=after) == ["DeferredCopy hits"]


@pytest.mark.parametrize(
    "after",
    [
        pytest.param("print(hits)", id="a tensor is printed with its device"),
        pytest.param("print('%s' % hits)", id="as text"),
        pytest.param("print(f'{hits!r}')", id="as Python would write it"),
        pytest.param("print('{!r}'.format(hits))", id="the same in a format"),
        pytest.param("return hits", id="it is returned"),
        pytest.param("return hits.numpy()", id="an array of it"),
        pytest.param("print(f'{scale * hits}')", id="what it is multiplied by may be an array"),
        pytest.param("best = max(hits, 3)\nprint(best)", id="it is compared, and kept"),
        pytest.param("hits /= size\nprint(f'{hits}')", id="it is divided in place"),
    ],
)
def test_who_would_see_the_device(after: str) -> None:
    (said,) = found(after=after)

    assert said.startswith("'hits' is used as a tensor of the host (line 12)")
    assert said.endswith("write hits.item() there")


@pytest.mark.parametrize(
    ("inside", "start"),
    [
        pytest.param("hits += model(x).cpu().sum()", "0", id="floats, which a device sums in another order"),
        pytest.param(COUNTED, "torch.zeros(1)", id="it starts from a tensor"),
    ],
)
def test_a_sum_that_may_be_another(inside: str, start: str) -> None:
    assert found(inside, start=start) == ["whether 'hits' is a sum of integers is not known (line 11)"]


def test_a_count_that_the_loop_reads_in_each_pass() -> None:
    said = found(f"{COUNTED}\nprint(f'{{hits}}')")

    assert "'hits' is read in each iteration (line 12): do that every so many iterations" in said


def test_each_sum_of_a_loop_stays() -> None:
    inside = f"{COUNTED}\nloss += model(x).sum().item()"
    known = found(inside, after=f"{SHOWN}\nprint(loss)", start="0\n    loss = 0.0\n    seen, _ = 0")

    assert known == ["DeferredCopy hits", "Deferral loss"]


@pytest.mark.parametrize(
    ("after", "is_divided"), [("print(f'{100 * hits}')", False), ("print(f'{100 * hits / size}')", True)]
)
def test_whether_a_share_is_computed(after: str, *, is_divided: bool) -> None:
    known = script(f"{HEAD.format(start='0')}            {COUNTED}\n    {after}\ntest(nobody(), 2, nobody())\n")
    ((_, outcome),) = outcomes(known)

    assert isinstance(outcome, DeferredCopy)
    assert outcome.is_divided is is_divided


SHARE = """\
import torch
from torch import nn
model = nn.Linear(4, 2).cuda()
def test(batches, size):
    hits = 0
    seen = 0
    with torch.no_grad():
        for x, y in batches:
            x, y = x.cuda(), y.cuda()
            guess = model(x).argmax(1)
            seen += len(x)
            hits += guess.eq(y).cpu().sum()
    share = 100.0 * hits / seen
    return share
test(nobody(), 2)
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("", "", id="by what is 0 without a pass"),
        pytest.param("100.0 * hits", "hits", id="at once"),
    ],
)
def test_a_count_is_copied_where_its_share_is_kept_as_a_tensor(old: str, new: str) -> None:
    known = script(SHARE.replace(old, new))
    ((_, outcome),) = outcomes(known)

    assert isinstance(outcome, DeferredCopy)
    assert isinstance(outcome.copied_after, ast.Name)
    assert not outcome.is_divided


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("hits / seen", "hits / size", id="another divisor may be none without a pass"),
        pytest.param("    seen = 0\n", "    seen = 1\n", id="which is 1 without a pass"),
        pytest.param("    seen = 0\n", "    seen = size\n", id="which starts anywhere"),
        pytest.param("    seen = 0\n", "    seen = 0\n    seen = size\n", id="which is given another start"),
        pytest.param(
            "            hits +=", "            if size:\n                hits +=", id="some passes add nothing"
        ),
        pytest.param(
            "            hits +=",
            "            if size:\n                continue\n            hits +=",
            id="or leave before",
        ),
        pytest.param("share = 100", "print(f'{hits}')\n    share = 100", id="it is read twice"),
        pytest.param("def test", "def careful():\n    raise ZeroDivisionError\ndef test", id="that error is known"),
    ],
)
def test_a_count_that_may_be_no_tensor_is_not_copied(old: str, new: str) -> None:
    ((_, found),) = outcomes(script(SHARE.replace(old, new, 1)))

    assert isinstance(found, Reason)
    assert found.code == "seen-elsewhere"


def test_a_divisor_that_goes_on_from_run_to_run_may_be_none_without_a_pass() -> None:
    loop = SHARE[SHARE.index("    with torch") : SHARE.index("    return share")]
    again = "    while size:\n        hits = 0\n" + "".join(f"    {each}\n" for each in loop.splitlines())
    ((_, found),) = outcomes(script(SHARE.replace(loop, again).replace("    hits = 0\n    seen", "    seen", 1)))

    assert isinstance(found, Reason)
    assert found.code == "seen-elsewhere"
