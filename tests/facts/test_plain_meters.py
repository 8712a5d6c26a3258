"""Which meters nothing but their own methods reads."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.own_meters import own_meter
from codemods.facts.training.plain_meters import holds_containers

PLAIN = """\
class Meter:
    def __init__(self, name="m"):
        self.name = name
        self.reset()
    def reset(self):
        self.sum, self.count = 0.0, 0
    def update(self, value, n=1):
        self.sum += value * n
        self.count += n
    @property
    def mean(self):
        return self.sum / self.count
"""
SHARED = {
    "it is what it says": ("", "", True),
    "the constructor keeps it": ("self.name = name", "self.name = name\n        kept.append(self)", False),
    "a method keeps it": ("self.sum, self.count = 0.0, 0", "self.sum, self.count = 0.0, 0; kept.append(self)", False),
    "its class keeps it": ("self.name = name", "self.name = name\n        type(self).newest = self", False),
    "a method returns it": ("return self.sum", "return self and self.sum", False),
    "a method returns one of its methods": ("return self.sum /", "return self.update, self.sum /", False),
    "a method makes a function of it": ("return self.sum / self.count", "return lambda: self.sum", False),
    "it goes on later": ("return self.sum / self.count", "yield self.sum", False),
    "there is one object": ("    def reset", "    def __new__(cls):\n        return kept[0]\n    def reset", False),
    "what is told depends on the class": ("value * n", "value * n * self.weight", False),
    "its class has a weight": ("class Meter:", "class Meter:\n    weight = 1", False),
    "it reads what it was given": ("self.name = name", "self.name = name\n        self.count = options.count", False),
    "it is computed of what it was given": ("self.sum, self.count = 0.0, 0", "self.sum, self.count = start()", False),
    "processes have their numbers added": (
        "    @property",
        "    def join(self):\n        self.sum, self.count = gathered(self.sum, self.count).tolist()\n"
        "        self.sum = self.sum / -self.count\n    @property",
        True,
    ),
    "processes have each number added": (
        "    @property",
        "    def join(self):\n        t = gathered(self.sum, self.count)\n        t = t.tolist()\n"
        "        self.sum, self.count = t[0], int(t[1])\n    @property",
        True,
    ),
    "a method computes with what is not known": (
        "    @property",
        "    def join(self):\n        self.sum = self.sum * self.name\n    @property",
        False,
    ),
    "a method takes what is not known": (
        "    @property",
        "    def join(self):\n        t = gathered(self.sum, self.count)\n        self.sum = t[0]\n    @property",
        False,
    ),
    "it is a property that is set": ("@property", "@mean.setter", False),
    "a parent": ("class Meter:", "class Meter(Base):", False),
}


@pytest.mark.parametrize(("old", "new", "expected"), SHARED.values(), ids=list(SHARED))
@pytest.mark.parametrize("made", ["Meter()", "Meter('loss')", "Meter(options)", "keep(Meter())"])
def test_whose_a_meter_is(old: str, new: str, made: str, expected: bool) -> None:  # noqa: FBT001 - the expectation
    assert old in PLAIN
    use = f"def f(xs, options):\n    m = {made}\n    for x in xs:\n        m.update(x, 2)\nf([1], 2)\n"
    keep = "kept = []\ndef keep(x):\n    kept.append(x)\n    return x\n"
    known = script(keep + PLAIN.replace(old, new, 1) + use)
    loop = next(iter(known.module.nodes(ast.For)))
    found = own_meter(known.flow, known.module, loop, loop.body[0])

    assert (found is not None) is (expected and made != "keep(Meter())")


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param("Meter(3)", True, id="a number"),
        pytest.param("Meter()", True, id="a number by default"),
        pytest.param("Meter(options)", False, id="anything"),
        pytest.param("Meter(*options)", False, id="unpacked"),
    ],
)
def test_what_it_starts_from(made: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    text = PLAIN.replace('name="m"', "start=0, name=None").replace("self.sum, self.count = 0.0, 0", "pass")
    text = text.replace("self.reset()", "self.sum, self.count = 0, start")
    known = script(f"{text}def f(xs, options):\n    m = {made}\n    for x in xs:\n        m.update(x, 2)\nf([1], 2)\n")
    loop = next(iter(known.module.nodes(ast.For)))

    assert (own_meter(known.flow, known.module, loop, loop.body[0]) is not None) is expected


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("0", False),
        ("'a'", False),
        ("[]", True),
        ("{}", True),
        ("0, 0", False),
        ("[x for x in y]", True),
        ("torch.tensor([0, 1]).sum()", False),
    ],
)
def test_what_a_name_may_hold_of_it(start: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    (class_,) = ast.parse(f"class Meter:\n    def __init__(self):\n        self.all = {start}\n").body

    assert isinstance(class_, ast.ClassDef)
    assert holds_containers(class_) is expected
