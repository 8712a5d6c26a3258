"""Meters of the project that each pass tells a number: ``losses.update(loss.item(), n)``."""

from __future__ import annotations

import pytest
from deferring import ITERATION, METER, indented, meter_script
from kit import check_leaves, check_rewrites

from codemods.rules.defer_sync import DeferSync
from tests.training import run_script

START = 'm = Meter("loss")'
PENDING = f"{START}\nm_updates = []"
LATER = "for value, n in m_updates:\n    m.update(value.item(), n)\n"
WRITTEN = {
    "its mean is returned": (
        "m.update(loss.item(), x.size(0))",
        "m_updates.append((loss.detach(), x.size(0)))",
        LATER,
        "return m.mean, m.sum, m.value",
    ),
    "it is returned itself": (
        "m.update(loss.item(), len(x))",
        "m_updates.append((loss.detach(), len(x)))",
        LATER,
        "return str(m)",
    ),
    "a count has a name": (
        "hits = (out.argmax(1) == y).sum().item()\nm.update(hits)",
        "hits = (out.argmax(1) == y).sum()\nm_updates.append(hits)",
        "for value in m_updates:\n    m.update(value.item())\n",
        "return m.sum",
    ),
    "by keywords, in one branch": (
        "size = x.size(0)\nif size > 4:\n    m.update(n=size, value=loss.item())",
        "size = x.size(0)\nif size > 4:\n    m_updates.append((loss.detach(), size))",
        "for value, n in m_updates:\n    m.update(n=n, value=value.item())\n",
        "return m.mean",
    ),
    "without its graph": (
        "m.update(loss.data.item(), len(x))",
        "m_updates.append((loss.data, len(x)))",
        LATER,
        "return m.mean",
    ),
    "a number that is written out": (
        "m.update(loss.item(), 2)",
        "m_updates.append(loss.detach())",
        "for value in m_updates:\n    m.update(value.item(), 2)\n",
        "return m.mean",
    ),
    "the loop has a name of the method's": (
        "n = len(x)\nm.update(loss.item(), n)",
        "n = len(x)\nm_updates.append((loss.detach(), n))",
        "for each in m_updates:\n    m.update(each[0].item(), each[1])\n",
        "return m.mean, n",
    ),
}


@pytest.mark.parametrize(("inside", "new_inside", "later", "end"), WRITTEN.values(), ids=list(WRITTEN))
def test_a_meter_is_told_after_the_loop(inside: str, new_inside: str, later: str, end: str) -> None:
    before, after = meter_script(START, inside, end), meter_script(PENDING, new_inside, later + end)

    check_rewrites(DeferSync, before, after)
    assert run_script(before) == run_script(after)


def test_two_meters() -> None:
    start = 'a = Meter("a")\nb = Meter("b")'
    new = "a_updates.append(loss.detach())\nb_updates.append((out.mean().detach(), len(x)))"
    later = "for value in a_updates:\n    a.update(value.item())\nfor value, n in b_updates:\n    b.update(value.item(), n)\n"
    before = meter_script(start, "a.update(loss.item())\nb.update(out.mean().item(), len(x))", "return str(a), str(b)")
    after = meter_script(
        f"{start}\na_updates = []\nb_updates = []",
        new,
        later + "return str(a), str(b)",
    )

    check_rewrites(DeferSync, before, after)
    assert run_script(before) == run_script(after)


TOLD = "m.update(loss.item(), len(x))"
TRIED = "    try:\n" + indented(ITERATION, 8) + indented(TOLD, 12) + "    except KeyboardInterrupt:\n        pass\n"
REMEDY = "give it the tensor, detached, and make a number of its average where that is shown"
AS_BEFORE = f"update() keeps its value in each iteration (line 42): {REMEDY}"
LEFT = {
    "a name holds its list": (
        meter_script(START + "\ntold = m.all", TOLD + "\nprint(len(told))", "return m.mean"),
        "other code may have 'm' already (line 35)",
    ),
    "each pass prints it": (
        meter_script(START, TOLD + "\nprint(m)", "return m.mean"),
        "'m' is read in each iteration (line 43): do that every so many iterations",
    ),
    "something else has it": (
        meter_script(START + "\nkept.append(m)", TOLD, "return m.mean"),
        "other code may have 'm' already (line 35)",
    ),
    "a method of it is kept": (
        meter_script(START + "\nkept.append(m.update)", TOLD, "return m.mean"),
        "other code may have 'm' already (line 35)",
    ),
    "a function reads it": (
        meter_script(START + "\nshow = lambda: m.mean", TOLD, "return m.mean"),
        "another function reads 'm' (line 35)",
    ),
    "it is told two things": (
        meter_script(START, TOLD + "\nm.update(out.mean().item())", "return m.mean"),
        "'m' is told more than one thing in the loop (line 43)",
    ),
    "it is told what is not known to be a number": (
        meter_script(START, "m.update(loss.item(), y.max())", "return m.mean"),
        "whether 'y.max()' is a number of Python's is not known (line 42)",
    ),
    "a handler asks it": (
        meter_script(START, TOLD, "return m.mean").replace(indented(ITERATION, 4) + indented(TOLD, 8), TRIED),
        "'m' may be read after an exception has left the loop (line 46)",
    ),
    "it reads a clock": (
        meter_script(START, TOLD, "return m.mean", METER.replace("self.value = value", "self.value = time.time()")),
        AS_BEFORE,
    ),
    "it prints": (
        meter_script(START, TOLD, "return m.mean", METER.replace("self.value = value", "print(value)")),
        AS_BEFORE,
    ),
    "it reads what others change": (
        meter_script(START, TOLD, "return m.mean", METER.replace("self.value = value", "self.value = len(kept)")),
        AS_BEFORE,
    ),
    "it changes what it is given": (
        meter_script(START, TOLD, "return m.mean", METER.replace("self.value = value", "n.last = value")),
        AS_BEFORE,
    ),
    "it inherits what is not seen": (
        meter_script(START, TOLD, "return m.mean", METER.replace("class Meter:", "class Meter(nn.Module):")),
        AS_BEFORE,
    ),
    "it sees each attribute that is set": (
        meter_script(
            START, TOLD, "return m.mean", METER + "\n    def __setattr__(self, name, value):\n        print(name)\n"
        ),
        AS_BEFORE.replace("42", "45"),
    ),
    "it is made perhaps": (
        meter_script(f"m = None\nif kept:\n    {START}", TOLD, "return m.mean"),
        AS_BEFORE.replace("42", "44"),
    ),
    "the name of what it is still to be told means something": (
        meter_script(f"{START}\nm_updates = 3", TOLD, "return m.mean"),
        "the script gives the name 'm_updates' or 'each' to something else",
    ),
    "the name of one of them means something": (
        meter_script(f"{START}\neach = 3", TOLD, "return m.mean, each"),
        "the script gives the name 'm_updates' or 'each' to something else",
    ),
}


@pytest.mark.parametrize(("text", "because"), LEFT.values(), ids=list(LEFT))
def test_a_meter_is_left(text: str, because: str) -> None:
    check_leaves(DeferSync, text, because)
