"""Whatever the program, it has facts: nothing is raised, and nothing goes on for ever."""

from __future__ import annotations

import ast
import time
from cProfile import Profile
from itertools import chain
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from test_determinism import TANGLED

from codemods.dataflow.source import Module
from codemods.facts.describe import facts_by_line
from codemods.facts.script import Script

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = ["x", "y", "f", "A", "self", "args", "loader", "model", "torch", "nn", "DataLoader", "partial", "data"]
ATTRIBUTES = [
    "x",
    "f",
    "cuda",
    "to",
    "append",
    "parameters",
    "device",
    "nn",
    "utils",
    "data",
    "forward",
    "Module",
    "items",
]
names = st.sampled_from(NAMES)
attributes = st.sampled_from(ATTRIBUTES)
atoms = names | st.sampled_from(
    ["1", "-1", "'a'", "'cuda'", "None", "True", "1.5", "b''", "...", "[]", "{}", "()", "f'{x}'"]
)


def _expressions(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def made(template: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.tuples(*parts).map(lambda given: template.format(*given))

    return st.one_of(
        made("{}.{}", names, attributes),
        made("({}).{}", inner, attributes),
        made("{}({})", names, inner),
        made("({})({}, *{}, **{})", inner, inner, inner, inner),
        made("{}.{}({}, {}={})", names, attributes, inner, names, inner),
        made("({})[{}]", inner, inner),
        made("({})[{}:]", inner, inner),
        made("[{}, *{}]", inner, inner),
        made("({}, {})", inner, inner),
        made("{{'a': {}, **{}}}", inner, inner),
        made("{{{}: {}}}", inner, inner),
        made("[{} for {} in {} if {}]", inner, names, inner, inner),
        made("{{{}: {} for {}, {} in {}}}", inner, inner, names, names, inner),
        made("({} for {} in {})", inner, names, inner),
        made("(lambda {}={}: {})", names, inner, inner),
        made("({} if {} else {})", inner, inner, inner),
        made("({} or not {})", inner, inner),
        made("({} + {})", inner, inner),
        made("({} | {})", inner, inner),
        made("({} < {})", inner, inner),
        made("({} := {})", names, inner),
        made("getattr({}, {})", inner, inner),
        made("setattr({}, 'x', {})", inner, inner),
        made("partial({}, {})", inner, inner),
        made(
            "{}(*{})",
            st.sampled_from(["zip", "map", "enumerate", "iter", "next", "dict", "list", "super", "vars"]),
            inner,
        ),
        made(
            "torch.{}({})", st.sampled_from(["cat", "zeros", "device", "compile", "nn.Sequential", "optim.SGD"]), inner
        ),
        made("DataLoader({}, num_workers={}, **{})", inner, inner, inner),
    )


expressions = st.recursive(atoms, _expressions, max_leaves=8)
targets = st.one_of(
    names,
    st.tuples(names, attributes).map(".".join),
    names.map("{}[0]".format),
    st.tuples(names, names).map("{0[0]}, *{0[1]}".format),
)


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines] or ["    pass"]


def _statements(inner: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
    def block(header: st.SearchStrategy[str], *others: str) -> st.SearchStrategy[list[str]]:
        """A compound statement with one suite after its header and one after each of the other clauses."""
        suites = st.tuples(header, inner, *[inner for _ in others])
        return suites.map(
            lambda given: [
                line
                for clause, suite in zip((given[0], *others), given[1:], strict=True)
                for line in (clause, *_indented(suite))
            ]
        )

    def header(template: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.tuples(*parts).map(lambda given: template.format(*given))

    return st.one_of(
        block(header("if {}:", expressions)),
        block(header("if {}:", expressions), "else:"),
        block(st.just("if __name__ == '__main__':")),
        block(header("for {} in {}:", targets, expressions), "else:"),
        block(header("while {}:", expressions)),
        block(header("with {} as {}:", expressions, targets)),
        block(st.just("try:"), "except E as x:", "else:", "finally:"),
        block(header("def {}({}, {}, *args, **kwargs):", names, st.just("a"), st.just("b=1"))),
        block(header("@{}\ndef {}(self):", names, names)),
        block(header("async def {}({}):", names, st.just("x"))),
        block(header("class {}({}):", names, names)),
        block(header("match {}:\n  case [x, *y] if {}:", expressions, expressions)).map(
            lambda lines: [lines[0].partition("\n")[0], lines[0].partition("\n")[2], *_indented(lines[1:])]
        ),
    )


simple = st.one_of(
    st.tuples(targets, expressions).map("{0[0]} = {0[1]}".format),
    st.tuples(names, expressions).map("{0[0]} += {0[1]}".format),
    st.tuples(names, expressions).map("{0[0]}: int = {0[1]}".format),
    expressions,
    names.map("del {}".format),
    st.sampled_from(["return x", "return", "yield x", "break", "continue", "raise", "global x", "nonlocal x", "pass"]),
    st.sampled_from(
        [
            "import torch",
            "import torch.nn as nn",
            "from torch.utils.data import DataLoader",
            "from torch import *",
            "from functools import partial",
            "from . import data",
            "from data import f, A as y",
            "args = __import__('argparse').ArgumentParser().parse_args()",
        ]
    ),
).map(lambda line: [line])
suites = st.lists(st.recursive(simple, _statements, max_leaves=6), max_size=8).map(lambda parts: [*chain(*parts)])

many = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def hold(text: str, *others: str) -> None:
    """Finds the facts of a program, if it is one."""
    try:
        modules = [Module("train.py", text), *(Module("data.py", other, "data") for other in others)]
    except (SyntaxError, ValueError):
        return
    start = time.process_time()
    script = Script.of(modules[0], others=modules[1:])
    assert facts_by_line(script) == facts_by_line(Script.of(modules[0], others=modules[1:]))
    assert time.process_time() - start < 20, "a program of few lines takes no time"


@many
@given(suites)
@example(["x = [x]", "while x:", "    x = [x, *x]", "    x = x[0](*x, **x)"])
@example(["class A(A):", "    def f(self): return self.f()", "A().f()"])
@example(["def f(f=lambda: f): return f(f)(f)", "f(f)"])
@example(["for f in f:", "    f = partial(f, f)", "    f(f)"])
@example(["def f():", "    global f", "    f = f()", "f()"])
@example(["raise x", "def f():", "    for x in x:", "        x += x"])
@example(["def f(x, *xs, **ks):", "    return f(f, *xs, x, **ks, f=f)"])
def test_a_generated_program_has_facts(lines: list[str]) -> None:
    hold("\n".join(lines))


@settings(many, max_examples=60)
@given(suites, suites)
def test_two_generated_modules_have_facts(one: list[str], two: list[str]) -> None:
    hold("from data import *\nimport data\n" + "\n".join(one), "from __main__ import *\n" + "\n".join(two))


@settings(many, max_examples=100)
@given(st.data())
def test_a_script_with_parts_from_elsewhere_in_it_has_facts(data: st.DataObject) -> None:
    module = Module("train.py", TANGLED)
    found = [each for each in ast.walk(module.tree) if isinstance(each, ast.expr)]
    one, two = data.draw(st.sampled_from(found)), data.draw(st.sampled_from(found))
    start, end = module.span(one)
    hold(f"{module.between(0, start)}({module.code(two)}){module.between(end, len(TANGLED))}")


@settings(many, max_examples=100)
@given(st.data())
def test_a_script_without_some_of_its_lines_has_facts(data: st.DataObject) -> None:
    lines = TANGLED.splitlines()
    gone = data.draw(st.sets(st.integers(0, len(lines) - 1), max_size=8))
    hold("\n".join(line for number, line in enumerate(lines) if number not in gone))


_AROUND_ITSELF = """
from torch.utils.data import ConcatDataset, DataLoader, Subset
from torchvision import datasets, transforms

class Run:
    def __init__(self):
        self.transform = {transform}
        self.data = datasets.CIFAR10("data", transform=self.transform)
        if a:
            self.data = Subset(self.data, [1])
        else:
            self.data = ConcatDataset([self.data, self.data])
        self.loader = DataLoader(self.data, 4)

for x, y in Run().loader:
    pass
"""


@pytest.mark.parametrize("transform", ["transforms.ToTensor()", "transforms.Compose([self.transform])"])
def test_what_may_be_around_itself_ends(transform: str) -> None:
    text = _AROUND_ITSELF.format(transform=transform)
    for loader in Script.of(Module("train.py", text)).loaders:
        assert all(part.name == "torchvision.datasets.CIFAR10" for part in loader.dataset.parts)
        assert (loader.dataset.transforms is None) == ("Compose" in transform)
    hold(text)


def test_absurd_nesting_is_refused_as_such() -> None:
    module = Module("train.py", "x = " + " + ".join(["x"] * 900))
    with pytest.raises(RecursionError):
        Script.of(module)


def repeated(times: int, text: str) -> str:
    """The text, with a number of its own each time."""
    return "".join(text.format(i, i + 1) for i in range(times))


def calls_to_find_facts(text: str) -> int:
    """How many functions are called to find the facts of a program: its work, the same on each machine."""
    profile = Profile()
    profile.runcall(lambda: facts_by_line(Script.of(Module("train.py", text))))
    return sum(each.callcount for each in profile.getstats())


_LONG_PROGRAMS = {
    "many names": lambda lines: "import torch\n" + repeated(lines, "x{} = torch.zeros(3)\n"),
    "a chain of calls": lambda lines: repeated(lines // 3, "def f{}(x):\n    y = f{}(x)\n    return y\n") + "f0(1)",
    "branches": lambda lines: "x = 0\n" + repeated(lines // 2, "if x > {}:\n    y = x\n"),
    "loops": lambda lines: repeated(lines // 2, "for i in x:\n    y{} = i\n"),
    "a long list": lambda lines: "x = [\n" + repeated(lines, "    'word {}',\n") + "]\nfor y in x: print(y)",
    "a long dictionary": lambda lines: "x = dict(\n" + repeated(lines, "    w{0}={0},\n") + ")\nprint(x['w7'])",
    "classes": lambda lines: repeated(lines // 3, "class C{}(Base):\n    def forward(self, x):\n        return x\n"),
    "one helper for everything": lambda lines: (
        "def f(x): return x\n" + repeated(lines // 2, "f(C{0})\nclass C{0}: pass\n")
    ),
    "attributes": lambda lines: "class A:\n  def f(self):\n" + repeated(lines, "    self.x{1} = self.x{0}\n"),
}


@pytest.mark.parametrize("program", _LONG_PROGRAMS.values(), ids=_LONG_PROGRAMS)
def test_twice_the_lines_take_twice_the_work(program: Callable[[int], str]) -> None:
    assert calls_to_find_facts(program(600)) < 2.6 * calls_to_find_facts(program(300))


@pytest.mark.slow
@pytest.mark.parametrize("program", _LONG_PROGRAMS.values(), ids=_LONG_PROGRAMS)
def test_twenty_thousand_lines_have_facts(program: Callable[[int], str]) -> None:
    assert facts_by_line(Script.of(Module("train.py", program(20_000)))) is not None
