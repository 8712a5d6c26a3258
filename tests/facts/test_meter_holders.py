"""Which objects hold meters only to show them."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.own_meters import own_meter

CODE = """\
class Meter:
    def __init__(self):
        self.sum = 0.0
    def update(self, value):
        self.sum += value
    def text(self):
        return f"{self.sum}"
    def __str__(self):
        return self.text()
class Progress:
    def __init__(self, n, meters, prefix=""):
        self.n, self.prefix = n, prefix
        self.meters = meters
    def show(self, number):
        print(number, self.n, self.prefix, len(self.meters))
        @
    def other(self):
        return self.prefix
kept = []
def f(xs):
    m = Meter()
    o = Meter()
    p = Progress(3, [m, o], prefix="p")
    for x in xs:
        m.update(x)
    p.show(1)
f([1])
"""


def holders(text: str) -> list[str]:
    """The names of what shows the meter ``m``, each with that of its class."""
    known = script(text)
    loop = next(each for each in known.module.nodes(ast.For) if ast.unparse(each.iter) == "xs")
    told = next(each for each in loop.body if "m.update" in ast.unparse(each))
    own = own_meter(known.flow, known.module, loop, told)
    assert own is not None
    return [f"{each.name} {each.class_.name}" for each in own.holders]


SHOWN = {
    "in a list": "print([str(each) for each in self.meters])",
    "one after the other": "for each in self.meters:\n            print(each, each.text(), f'{each.sum:.2f}')",
    "as one text": "print(', '.join(str(each) for each in self.meters))",
    "by map()": "print(', '.join(map(str, self.meters)))",
    "they are told something": "for each in self.meters:\n            each.update(3)",
}


@pytest.mark.parametrize("shown", SHOWN.values(), ids=list(SHOWN))
def test_what_shows_a_meter(shown: str) -> None:
    assert holders(CODE.replace("@", shown)) == ["p Progress"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("n, meters, prefix", "n, *meters, prefix", id="as many as there are"),
        pytest.param("Progress(3, [m, o], ", "Progress(3, (m, o), ", id="a tuple of them"),
        pytest.param("Progress(3, [m, o], ", "Progress(n=3, meters=[m], ", id="by its name"),
    ],
)
def test_how_it_is_given_one(old: str, new: str) -> None:
    text = CODE.replace("@", SHOWN["in a list"]).replace(old, new)
    text = text.replace("[m, o], prefix", "m, o, prefix") if "*" in new else text

    assert holders(text) == ["p Progress"]


def test_one_that_has_a_single_meter() -> None:
    text = (
        CODE.replace("[m, o]", "m").replace("@", "print(self.meters, self.meters.sum)").replace("len(self.meters)", "4")
    )

    assert holders(text) == ["p Progress"]


OTHERS = {
    "a method returns them": ("return self.prefix", "return self.meters"),
    "a method keeps one": ("@", "kept.append(self.meters[0])"),
    "a method keeps each": ("@", "for each in self.meters:\n            kept.append(each)"),
    "a method keeps a method of each": ("@", "kept.extend([each.text for each in self.meters])"),
    "a generator shows them later": ("@", "kept.append(str(each) for each in self.meters)"),
    "a function shows them later": ("@", "kept.append(lambda: self.meters)"),
    "the constructor keeps them": ("self.meters = meters", "self.meters = meters\n        kept.append(meters)"),
    "the constructor keeps itself": ("self.meters = meters", "self.meters = meters\n        kept.append(self)"),
    "the constructor has others": ("self.meters = meters", "meters = meters[1:]\n        self.meters = meters"),
    "it takes others later": ("@", "self.meters = [each for each in self.meters]"),
    "it hands on all it has": ("@", "kept.append(dict(**self.__dict__))"),
    "map() is the script's own": ("kept = []", "kept = []\ndef map(f, x):\n    kept.extend(x)"),
    "it has a parent": ("class Progress:", "class Progress(dict):"),
    "it is a dictionary": ("Progress(3, [m, o], ", "dict(meters=[m, o], "),
    "it has them in a dictionary": ("[m, o]", "{'m': m}"),
    "unpacked": ("Progress(3, [m, o], ", "Progress(*[3, [m, o]], "),
    "it has two names": ("p = Progress", "p = q = Progress"),
    "it is one of two": ("    p = Progress", "    p = None\n    p = Progress"),
    "it is made perhaps": ("    p = Progress", "    if kept:\n        p = Progress"),
    "it is kept at once": ("    p = Progress(3, [m, o], prefix='p')", "    kept.append(Progress(3, [m, o]))"),
    "the meter is another later": ("        m.update(x)", "        m.update(x)\n        m = Meter()"),
}


@pytest.mark.parametrize(("old", "new"), OTHERS.values(), ids=list(OTHERS))
def test_what_may_do_more_with_a_meter(old: str, new: str) -> None:
    text = CODE.replace('prefix="p"', "prefix='p'")
    assert old in text
    shown = "print(', '.join(map(str, self.meters)))"

    assert holders(text.replace(old, new).replace("@", shown)) == []
