"""Meters of the project that few passes of a loop ask: ``if i % 100 == 0: print(losses.avg)``."""

from __future__ import annotations

import pytest
from deferring import ITERATION, METER, indented, meter_script
from kit import check_leaves, check_rewrites

from codemods.rules.defer_sync import DeferSync
from tests.training import run_script

TOLD = "m.update(loss.item(), len(x))\n"
KEPT = "m_updates.append((loss.detach(), len(x)))\n"
START = 'm = Meter("loss")'
NEW = "m_updates = []"
LATER = "for value, n in m_updates:\n    m.update(value.item(), n)\n"
CLEARED = f"{LATER}m_updates.clear()\n"
NUMBERS = METER.replace("        self.all = []\n", "").replace("        self.all.append(float(value))\n", "")
NUMBERS = NUMBERS.replace(" {self.all}", "")
"""A meter that has no list."""


def seldom(*lines: str, when: str = "i % 3 == 2") -> str:
    return f"if {when}:\n" + indented("\n".join(each.rstrip() for each in lines), 4)


def rewritten(start: str, inside: str, end: str, *, after: bool = True) -> str:
    """The script with ``NEW`` before its loop; what the meter is told after it, unless nothing asks for it there."""
    return meter_script(f"{start}\n{NEW}", inside, (LATER if after else "") + end, NUMBERS)


WRITTEN = {
    "few passes print it": (
        TOLD + seldom("print(i, m)"),
        KEPT + seldom(CLEARED, "print(i, m)"),
        "return m.mean",
        True,
    ),
    "nothing asks for it after the loop": (
        TOLD + seldom("print('{:.3f} {meter.sum}'.format(m.mean, meter=m))"),
        KEPT + seldom(CLEARED, "print('{:.3f} {meter.sum}'.format(m.mean, meter=m))"),
        "return i",
        False,
    ),
    "they ask before they tell it": (
        seldom("kept.append(m.mean)") + TOLD,
        seldom(CLEARED, "kept.append(m.mean)") + KEPT,
        "return m.mean",
        True,
    ),
    "they empty it": (
        TOLD + seldom("print('%d %s' % (i, m))", "m.reset()"),
        KEPT + seldom(CLEARED, "print('%d %s' % (i, m))", "m.reset()"),
        "return m.sum",
        True,
    ),
    "some of them print it": (
        TOLD + seldom("if x.size(0) > 4:", "    print(f'{m.mean:.4f}')", "m.reset()"),
        KEPT + seldom(CLEARED, "if x.size(0) > 4:", "    print(f'{m.mean:.4f}')", "m.reset()"),
        "return m.sum",
        True,
    ),
    "they make a new one": (
        TOLD + seldom("print(m)", 'm = Meter("next")'),
        KEPT + seldom(CLEARED, "print(m)", 'm = Meter("next")'),
        "return str(m)",
        True,
    ),
    "they make a new one first": (
        seldom('m = Meter("next")', when="i % 3 == 0") + TOLD + seldom("print(m)"),
        seldom('m = Meter("next")', NEW, when="i % 3 == 0") + KEPT + seldom(CLEARED, "print(m)"),
        "return str(m)",
        True,
    ),
    "they end the loop": (
        TOLD + seldom("return m", when="out.size(0) > 99"),
        KEPT + seldom(CLEARED, "return m", when="out.size(0) > 99"),
        "return m.mean",
        True,
    ),
    "a loop there asks": (
        TOLD + seldom("for k in range(2):", "    print(k, m.value)"),
        KEPT + seldom(CLEARED, "for k in range(2):", "    print(k, m.value)"),
        "return m.mean",
        True,
    ),
    "others leave the loop": (
        TOLD + seldom("print(m)") + seldom("break", when="i == 4"),
        KEPT + seldom(CLEARED, "print(m)") + seldom("break", when="i == 4"),
        "return m.mean",
        True,
    ),
    "a handler asks": (
        TOLD + seldom("try:", "    1 / 0", "except ZeroDivisionError:", "    print(m)"),
        KEPT + seldom(CLEARED, "try:", "    1 / 0", "except ZeroDivisionError:", "    print(m)"),
        "return m.mean",
        True,
    ),
    "they read a clock before it": (
        TOLD + seldom("import time", "now = time.time()", "print(m, now > 0)"),
        KEPT + seldom("import time", CLEARED, "now = time.time()", "print(m, now > 0)"),
        "return m.mean",
        True,
    ),
}


@pytest.mark.parametrize(("inside", "new_inside", "end", "after"), WRITTEN.values(), ids=list(WRITTEN))
def test_few_passes_tell_a_meter_before_they_ask_it(inside: str, new_inside: str, end: str, after: bool) -> None:  # noqa: FBT001 - an expectation
    before = meter_script(START, inside, end, NUMBERS)
    wanted = rewritten(START, new_inside, end, after=after)

    check_rewrites(DeferSync, before, wanted)
    assert run_script(before) == run_script(wanted)


def test_a_meter_that_the_loop_alone_makes() -> None:
    made, print_ = seldom("m = Meter()", when="i % 3 == 0"), "print(m)"
    before = meter_script("pass", made + TOLD + seldom(print_), "return i", NUMBERS)
    new = seldom("m = Meter()", NEW, when="i % 3 == 0")
    wanted = meter_script("pass", new + KEPT + seldom(CLEARED, print_), "return i", NUMBERS)

    check_rewrites(DeferSync, before, wanted)
    assert run_script(before) == run_script(wanted)


def test_a_list_of_it_is_shown() -> None:
    shown = "print(m, f'{m.all}', len(str(m.all)))"
    before = meter_script(START, TOLD + seldom(shown), "return m.mean")
    wanted = meter_script(f"{START}\n{NEW}", KEPT + seldom(CLEARED, shown), f"{LATER}return m.mean")

    check_rewrites(DeferSync, before, wanted)
    assert run_script(before) == run_script(wanted)


def epochs(inner: str, made: str = "", before: str = "") -> str:
    """A script whose meter is made before all epochs, or in each."""
    text = meter_script("@", "@", "return 1", NUMBERS)
    head, rest = text.split("    @\n", 1)
    _, tail = rest.split("        @\n", 1)
    made_each = f"        {made}\n" if made else ""
    loop = indented(before + ITERATION, 8) + indented(inner, 12)
    return f"{head}{'' if made else indented(START, 4)}    for epoch in range(3):\n{made_each}{loop}{tail}"


@pytest.mark.parametrize("made", ["", "m = Meter()"])
def test_the_next_epoch_goes_on_with_it_or_not(made: str) -> None:
    told = "" if made else indented(LATER, 8)
    before = epochs(TOLD + seldom("print(m)"), made)
    wanted = epochs(KEPT + seldom(CLEARED, "print(m)"), made, f"{NEW}\n")
    end = "    return 1"
    wanted = wanted.replace(end, told + end)

    check_rewrites(DeferSync, before, wanted)
    assert run_script(before) == run_script(wanted)


READ = "do that every so many iterations"
LEFT = {
    "each pass prints it": (TOLD + "print(m.mean)", f"'m' is read in each iteration (line 41): {READ}"),
    "the condition asks": (
        TOLD + "if i % 3 == 0 and m.mean > 1:\n    print(i)",
        f"'m' is read in each iteration (line 41): {READ}",
    ),
    "a handler of each pass asks": (
        TOLD + "try:\n    1 / (i % 2)\nexcept ZeroDivisionError:\n    print(m)",
        f"'m' is read in each iteration (line 44): {READ}",
    ),
    "each pass makes a new one": (
        TOLD + "m = Meter()\n" + seldom("print(m)"),
        f"'m' is made anew in each iteration (line 41): {READ}",
    ),
    "some of them make a new one, perhaps": (
        seldom("if x.size(0) > 4:", "    m = Meter()", "print(m)") + TOLD,
        "'m' is made anew in some of the iterations that may read it (line 42)",
    ),
    "they keep it": (TOLD + seldom("kept.append(m)"), "other code may keep 'm' (line 42)"),
    "they keep a method of it": (TOLD + seldom("kept.append(m.reset)"), "other code may keep 'm' (line 42)"),
    "they keep its attributes": (TOLD + seldom("kept.append(m.__dict__)"), "other code may keep 'm' (line 42)"),
    "they print a list of it": (TOLD + seldom("print([m])"), "other code may keep 'm' (line 42)"),
    "they set a number of it": (TOLD + seldom("m.sum = 0"), "other code may keep 'm' (line 42)"),
    "a generator asks it later": (
        TOLD + seldom("kept.append(m.mean for each in x)"),
        "other code may keep 'm' (line 42)",
    ),
    "a function asks it later": (TOLD + seldom("kept.append(lambda: m.mean)"), "another function reads 'm' (line 42)"),
    "print() is the script's own": (
        "def print(it):\n    kept.append(it)\n" + TOLD + seldom("print(m)"),
        "other code may keep 'm' (line 44)",
    ),
    "three places ask": (
        TOLD + "".join(seldom("print(m)", when=f"i % {each} == 0") for each in (2, 3, 4)),
        "'m' is read in more than two places of the loop (line 46): do that in one",
    ),
    "it is told there": (
        "value = loss.item()\n" + seldom("m.update(value)", "print(m)"),
        "'m' is told something where few iterations read it (line 42)",
    ),
    "each pass reads a clock": (
        "import time\n" + TOLD + "end = time.time()\n" + seldom("print(m)"),
        "the loop reads a clock, which shows how long the device took as long as the host waits (line 42): read it every so many iterations, below what these print of the device",
    ),
    "its name ends": (
        TOLD + seldom("print(m)", "del m", "m = Meter()"),
        "update() keeps its value in each iteration (line 40): "
        "give it the tensor, detached, and make a number of its average where that is shown",
    ),
    "it may be of another kind then": (
        TOLD + seldom("print(m)", "m = set()"),
        "update() keeps its value in each iteration (line 40): "
        "give it the tensor, detached, and make a number of its average where that is shown",
    ),
}


@pytest.mark.parametrize(("inside", "because"), LEFT.values(), ids=list(LEFT))
def test_a_meter_that_is_asked_otherwise_is_left(inside: str, because: str) -> None:
    check_leaves(DeferSync, meter_script(START, inside, "return m.mean", NUMBERS), because)


def test_a_list_of_it_that_is_kept_is_left() -> None:
    text = meter_script(START, TOLD + seldom("kept.append(m.all)"), "return m.mean")

    check_leaves(DeferSync, text, "other code may keep 'm' (line 44)")


def test_a_meter_that_the_loop_alone_makes_and_that_is_asked_after_it_is_left() -> None:
    text = meter_script("pass", seldom("m = Meter()", when="i % 3 == 0") + TOLD, "return m.mean", NUMBERS)
    because = "give it the tensor, detached, and make a number of its average where that is shown"

    check_leaves(DeferSync, text, f"update() keeps its value in each iteration (line 42): {because}")
