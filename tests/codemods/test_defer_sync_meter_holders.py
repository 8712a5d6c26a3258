"""Meters that an object of the project shows at times: ``progress.display(i)`` of ``ProgressMeter(n, [losses, top1])``."""

from __future__ import annotations

import pytest
from deferring import METER, indented, meter_script
from kit import check_leaves, check_rewrites

from codemods.rules.defer_sync import DeferSync
from tests.training import run_script

PLAIN = METER.replace("        self.all = []\n", "").replace("        self.all.append(float(value))\n", "")
PLAIN = PLAIN.replace(" {self.all}", "")
SHOWING = """\


class Progress:
    def __init__(self, n, meters, prefix=""):
        self.n = n
        self.meters = meters
        self.prefix = prefix

    def display(self, batch):
        entries = [f"{self.prefix}{batch}/{self.n}"]
        entries += [str(meter) for meter in self.meters]
        print(", ".join(entries))
"""
CLASSES = PLAIN + SHOWING
START = 'm = Meter("loss")\nhits = Meter("hits")\np = Progress(len(batches), [m, hits], prefix="batch ")'
NEW = "\nm_updates = []"
TOLD = "m.update(loss.item(), len(x))\nhits.update(len(x))\n"
KEPT = "m_updates.append((loss.detach(), len(x)))\nhits.update(len(x))\n"
LATER = "for value, n in m_updates:\n    m.update(value.item(), n)\n"
CLEARED = f"{LATER}m_updates.clear()\n"
RETURNED = "return hits.mean"


def shown(*lines: str, when: str = "i % 3 == 2") -> str:
    return f"if {when}:\n" + indented("\n".join(each.rstrip() for each in lines), 4)


SHOW = shown("p.display(i)")
SHOWN = shown(CLEARED, "p.display(i)")
WRITTEN = {
    "few passes show it": (TOLD + SHOW, KEPT + SHOWN, RETURNED, False),
    "code after the loop shows it": (TOLD + SHOW, KEPT + SHOWN, "p.display(7)\nreturn hits.mean", True),
    "code after the loop asks it": (TOLD + SHOW, KEPT + SHOWN, "return m.mean", True),
    "nothing shows it before": (TOLD, KEPT, "p.display(7)\nreturn hits.mean", True),
    "they show it before they tell it": (SHOW + TOLD, SHOWN + KEPT, RETURNED, False),
    "they leave the loop": (
        TOLD + shown("p.display(i)", "break", when="i == 4"),
        KEPT + shown(CLEARED, "p.display(i)", "break", when="i == 4"),
        "return m.mean",
        True,
    ),
    "they end the function": (
        TOLD + SHOW + shown("return p.prefix", when="i == 4"),
        KEPT + SHOWN + shown(CLEARED, "return p.prefix", when="i == 4"),
        "return m.mean",
        True,
    ),
    "some passes tell it nothing": (
        shown("continue", when="i % 2") + TOLD + SHOW,
        shown("continue", when="i % 2") + KEPT + SHOWN,
        "return m.mean",
        True,
    ),
    "they empty it": (
        TOLD + shown("p.display(i)", "m.reset()"),
        KEPT + shown(CLEARED, "p.display(i)", "m.reset()"),
        "return m.sum",
        True,
    ),
    "they fail and go on": (
        TOLD + shown("try:", "    p.display(i / 0)", "except ZeroDivisionError:", "    p.display(i)"),
        KEPT + shown(CLEARED, "try:", "    p.display(i / 0)", "except ZeroDivisionError:", "    p.display(i)"),
        "return m.mean",
        True,
    ),
}


@pytest.mark.parametrize(("inside", "new_inside", "end", "after"), WRITTEN.values(), ids=list(WRITTEN))
@pytest.mark.parametrize("before", ["", "\np.display(0)"], ids=["first the loop", "it is shown before the loop"])
def test_few_passes_tell_a_meter_before_it_is_shown(
    before: str,
    inside: str,
    new_inside: str,
    end: str,
    after: bool,  # noqa: FBT001 - an expectation
) -> None:
    old = meter_script(START + before, inside, end, CLASSES)
    new = meter_script(START + before + NEW, new_inside, (LATER if after else "") + end, CLASSES)

    check_rewrites(DeferSync, old, new)
    assert run_script(old) == run_script(new)


SHOWS = {
    "as many meters as there are": (
        SHOWING.replace("n, meters,", "n, *meters,"),
        START.replace("[m, hits]", "m, hits"),
    ),
    "each of them": (
        SHOWING.replace("entries += [str(meter) for meter in self.meters]", "for each in self.meters:").replace(
            '        print(", "', '            entries.append(f"{each.name} {each.mean:.3f}")\n        print(", "'
        ),
        START,
    ),
    "texts": (
        SHOWING.replace("[str(meter) for meter in self.meters]", "map(str, [1])").replace(
            ".join(entries)", ".join(map(str, self.meters))"
        ),
        START,
    ),
    "one meter": (
        SHOWING.replace("[str(meter) for meter in self.meters]", "[str(self.meters), f'{self.meters.mean:.3f}']"),
        START.replace("[m, hits]", "m"),
    ),
}


@pytest.mark.parametrize(("class_", "start"), SHOWS.values(), ids=list(SHOWS))
def test_an_object_shows_meters_in_other_ways(class_: str, start: str) -> None:
    old = meter_script(start, TOLD + SHOW, RETURNED, PLAIN + class_)
    new = meter_script(start + NEW, KEPT + SHOWN, RETURNED, PLAIN + class_)

    check_rewrites(DeferSync, old, new)
    assert run_script(old) == run_script(new)


def left(inside: str, because: str, at: str, *, start: str = START, class_: str = SHOWING) -> None:
    """The meter is told in each pass because of something on the last line that has this text."""
    text = meter_script(start, inside, RETURNED, PLAIN + class_)
    line = max(number for number, each in enumerate(text.splitlines(), 1) if at in each)

    check_leaves(DeferSync, text, because.replace("@", str(line)))


KEEPS = "other code may keep 'p' (line @)"
USED = {
    "each pass shows it": ("p.display(i)", "'p' is read in each iteration (line @): do that every so many iterations"),
    "they keep it": (shown("kept.append(p)"), KEEPS),
    "they keep its meters": (shown("kept.append(p.meters)"), KEEPS),
    "they keep a method": (shown("kept.append(p.display)"), KEEPS),
    "they change it": (shown("p.meters = []"), KEEPS),
    "a function shows it": (shown("kept.append(lambda: p.display(i))"), "another function reads 'p' (line @)"),
}


@pytest.mark.parametrize(("inside", "because"), USED.values(), ids=list(USED))
def test_an_object_that_is_used_otherwise(inside: str, because: str) -> None:
    left(TOLD + inside, because, inside.splitlines()[-1])


HAVE = {
    "another name has it": (START + "\nq = p", "q = p", "p"),
    "something has its meters": (START + "\nkept.append(p.meters)", "kept.append", "p"),
    "there are two": (START + "\np = Progress(3, [m])", "p = Progress(len", "m"),
    "something else is given it beside": (START.replace("len(batches)", "kept.append(m)"), "p = P", "m"),
    "it has no name": (START.replace("p = ", "kept.append(") + ")", "kept.append", "m"),
    "the meters have a name": (
        START.replace("[m, hits]", "both").replace("p =", "both = [m, hits]\np ="),
        "both = ",
        "m",
    ),
}


@pytest.mark.parametrize(("start", "at", "name"), HAVE.values(), ids=list(HAVE))
def test_an_object_that_others_may_have(start: str, at: str, name: str) -> None:
    left(TOLD + (SHOW if "\np = " in start else ""), f"other code may have '{name}' already (line @)", at, start=start)


def test_an_object_that_keeps_its_meters_elsewhere() -> None:
    class_ = SHOWING.replace("self.meters = meters", "self.meters = meters\n        kept.extend(meters)")

    left(TOLD + SHOW, "other code may have 'm' already (line @)", "p = Progress", class_=class_)


def test_an_object_that_a_handler_shows() -> None:
    old = meter_script(START, TOLD + SHOW, RETURNED, CLASSES)
    head, loop = old.split("    for i, (x, y)", 1)
    loop, rest = loop.split("    return hits.mean\n", 1)
    tried = "    try:\n" + indented("    for i, (x, y)" + loop, 4)
    handled = "    except KeyboardInterrupt:\n        p.display(7)\n    return hits.mean\n"
    because = "'m' may be read after an exception has left the loop (line 60)"

    check_leaves(DeferSync, head + tried + handled + rest, because)


def test_a_share_of_hits_is_one_number() -> None:
    accuracy = """\


def accuracy(output, target, topk=(1,)):
    with torch.no_grad():
        _, pred = output.topk(max(topk), 1, True, True)
        correct = pred.t().eq(target.view(1, -1).expand_as(pred.t()))
        res = []
        for k in topk:
            correct_k = correct[:k].reshape(-1).float().sum(0, keepdim=True)
            res.append(correct_k.mul_(100.0 / target.size(0)))
        return res
"""
    told = "acc1, acc2 = accuracy(out, y, topk=(1, 2))\nm.update(acc1[0].item(), len(x))\n" + SHOW
    kept = "acc1, acc2 = accuracy(out, y, topk=(1, 2))\nm_updates.append((acc1[0].detach(), len(x)))\n" + SHOWN
    old = meter_script(START, told, "return i", CLASSES + accuracy)
    new = meter_script(START + NEW, kept, "return i", CLASSES + accuracy)

    check_rewrites(DeferSync, old, new)
    assert run_script(old) == run_script(new)
