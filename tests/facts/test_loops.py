"""Which code runs again and again."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.facts.loops import REPEATING, loop_around, makings, may_run, place, places_that_run

if TYPE_CHECKING:
    from codemods.dataflow.source import Module
    from codemods.facts.script import Script


def mark(text: str, **others: str) -> tuple[Script, Module, ast.Name]:
    known = script(text, **others)
    for module in known.modules:
        for node in module.nodes(ast.Name):
            if node.id == "MARK":
                return known, module, node
    raise AssertionError(text)


PROCESS = "from torch.multiprocessing import Process\n"


@pytest.mark.parametrize(
    ("text", "loop"),
    [
        pytest.param("MARK", None, id="no loop"),
        pytest.param("for i in x:\n    MARK", "For", id="in a loop"),
        pytest.param("while x:\n    MARK", "While", id="in a while loop"),
        pytest.param("for i in MARK:\n    pass", None, id="what a loop goes over"),
        pytest.param("for i in x:\n    pass\nelse:\n    MARK", None, id="after the last pass"),
        pytest.param("while MARK:\n    pass", "While", id="the test of a while loop"),
        pytest.param("def f():\n    MARK\nfor i in x:\n    f()", "For", id="a function that a loop calls"),
        pytest.param("def f():\n    MARK\nf()", None, id="a function that runs once"),
        pytest.param("def f():\n    MARK\n    f()\nf()", None, id="a function that calls itself"),
        pytest.param(
            "class A:\n    @property\n    def p(self):\n        MARK\na = A()\nfor i in x:\n    a.p",
            "For",
            id="a property",
        ),
        pytest.param("y = [MARK for i in x]", None, id="a comprehension is no loop"),
        pytest.param(f"{PROCESS}def f():\n    MARK\nfor i in x:\n    Process(target=f).start()", None, id="processes"),
        pytest.param(
            f"{PROCESS}def f():\n    for i in x:\n        MARK\nfor i in x:\n    Process(target=f).start()",
            "For",
            id="a loop within a process",
        ),
        pytest.param(
            f"{PROCESS}def f():\n    MARK\ndef g():\n    for i in x:\n        f()\nfor i in x:\n    Process(target=g).start()",
            "For",
            id="a loop that a process runs",
        ),
        pytest.param(
            f"{PROCESS}def f():\n    MARK\ndef g():\n    f()\nfor i in x:\n    Process(target=g).start()",
            None,
            id="a function that a process calls",
        ),
        pytest.param(
            f"{PROCESS}def f():\n    MARK\nfor i in x:\n    f()\n    Process(target=f).start()", "For", id="called, too"
        ),
        pytest.param(
            "from threading import Thread\ndef f():\n    MARK\nfor i in x:\n    Thread(target=f).start()",
            "For",
            id="threads",
        ),
    ],
)
def test_the_loop_around(text: str, loop: str | None) -> None:
    known, module, node = mark(text)
    found = loop_around(known.flow, module, node)

    assert (None if found is None else type(found).__name__) == loop


def test_expressions_that_are_loops() -> None:
    known, module, node = mark("y = [MARK for i in x]")

    assert isinstance(loop_around(known.flow, module, node, REPEATING), ast.ListComp)


def test_a_call_that_gives_something_else_does_not_count() -> None:
    text = """\
from torch.utils.data import DataLoader
one, other = DataLoader([1]), DataLoader([2])
def f(MARK):
    for x in MARK:
        pass
f(one)
for i in range(3):
    f(other)
"""
    known = script(text)
    (loop,) = [each for each in known.module.nodes(ast.For) if ast.unparse(each.iter) == "MARK"]
    found = [loop_around(known.flow, known.module, loop, given=each.value) for each in known.loaders]

    assert [each is not None for each in found] == [False, True]


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        pytest.param("MARK", True, id="code of the module"),
        pytest.param("def f():\n    MARK\n", False, id="a function that nobody calls"),
        pytest.param("def f():\n    MARK\nf()\n", True, id="a function that it calls"),
        pytest.param("class A:\n    def f(self):\n        MARK\n", False, id="a class of which there is no object"),
        pytest.param("class A:\n    def f(self):\n        MARK\nA().f()\n", True, id="a method that is called"),
        pytest.param(
            "class A:\n    def g(self):\n        self.f()\n    def f(self):\n        pass\n"
            "class B(A):\n    def f(self):\n        MARK\nA().g()\n",
            False,
            id="an override of which only the base has an object",
        ),
        pytest.param(
            "class A:\n    def g(self):\n        self.f()\n    def f(self):\n        MARK\n"
            "class B(A):\n    pass\nB().g()\n",
            True,
            id="a method of the base of an object",
        ),
        pytest.param(
            "class A:\n    def f(self):\n        MARK\ndef main():\n    A().f()\nmain()\n",
            True,
            id="a method of an object, both in one function",
        ),
        pytest.param(
            "class A:\n    def f(self, n):\n        MARK\n        self.g(n)\n    def g(self, n):\n        self.f(n)\n"
            "def main():\n    A().g(1)\nmain()\n",
            True,
            id="methods that call each other",
        ),
        pytest.param(
            "def f(n):\n    MARK\n    g(n)\ndef g(n):\n    f(n)\n", False, id="functions that only call each other"
        ),
        pytest.param(
            "from library import Trainer\nclass A(Trainer):\n    def f(self):\n        MARK\nA().fit()\n",
            True,
            id="a method of a library's class that it may call",
        ),
        pytest.param("@hook\ndef f():\n    MARK\n", True, id="a function that a decorator is given"),
        pytest.param(
            "import torch\n@torch.no_grad()\ndef f():\n    MARK\n",
            False,
            id="a function without gradients that nobody calls",
        ),
        pytest.param("import torch\n@torch.no_grad()\ndef f():\n    MARK\nf()\n", True, id="one that is called"),
        pytest.param("def f():\n    MARK\nlibrary(f)\n", True, id="a function that a library is given"),
    ],
)
def test_whether_code_of_another_module_may_run(other: str, expected: bool) -> None:  # noqa: FBT001 - expected
    known, module, node = mark("import other\n", other=other)

    assert may_run(known.flow, known.module, module, node) is expected


@pytest.mark.parametrize(
    ("train", "expected"),
    [
        pytest.param("net = eval(name)(4)\n", True, id="eval"),
        pytest.param("net = globals()[name](4)\n", True, id="the names of the module"),
        pytest.param("net = eval('Other')(4)\n", False, id="a name that is written out"),
        pytest.param("net = globals()['Other'](4)\n", False, id="a name of the module that is written out"),
        pytest.param("sizes = eval(name)\n", False, id="what it stands for is not called"),
        pytest.param("def eval(n):\n    return print\neval(name)(4)\n", False, id="a function of that name"),
        pytest.param("table = globals()\n", False, id="nothing is taken out of the names"),
    ],
)
@pytest.mark.parametrize(
    "other",
    [
        pytest.param("class Net:\n    def f(self):\n        MARK\n", id="a method"),
        pytest.param("class Net:\n    def __init__(self):\n        MARK\n", id="a constructor"),
        pytest.param(
            "class Base:\n    def __init__(self):\n        self.g()\n    def g(self):\n        MARK\n"
            "class Net(Base):\n    def __init__(self):\n        super().__init__()\n",
            id="a method of a base",
        ),
        pytest.param("def Net():\n    MARK\n", id="a function"),
        pytest.param("def Net():\n    g()\ndef g():\n    MARK\n", id="what it calls"),
    ],
)
def test_what_a_computed_name_may_stand_for_may_run(train: str, other: str, *, expected: bool) -> None:
    known, module, node = mark(f"import sys\nfrom other import Net\nname = sys.argv[1]\n{train}", other=other)

    assert may_run(known.flow, known.module, module, node) is expected


def test_a_computed_name_stands_for_nothing_that_its_module_does_not_name() -> None:
    other = "class Net:\n    pass\nclass Old:\n    def f(self):\n        MARK\n"
    known, module, node = mark("import sys\nfrom other import Net\neval(sys.argv[1])(4)\n", other=other)

    assert may_run(known.flow, known.module, module, node) is False


def test_where_a_function_runs() -> None:
    known = script("def f():\n    pass\nf()\nif c:\n    f()\n")
    function = known.module.tree.body[0]
    assert isinstance(function, ast.FunctionDef)

    assert [place(known.flow, each).lines for each in places_that_run(known.flow, function)] == [(3,), (5,)]


def test_where_objects_of_a_class_and_its_subclasses_are_made() -> None:
    known = script("class A:\n    pass\nclass B(A):\n    pass\nclass C:\n    pass\nA()\nB()\nC()\n")
    class_ = known.module.tree.body[0]
    assert isinstance(class_, ast.ClassDef)

    assert [ast.unparse(each) for each in makings(known.flow, class_)] == ["A()", "B()"]


@pytest.mark.parametrize(
    ("train", "expected"),
    [
        pytest.param("def main():\n    other.f()\n", True, id="a command of its package calls what nothing else does"),
        pytest.param("def main():\n    other.f()\ndef start():\n    main()\n", True, id="by way of another function"),
        pytest.param(
            "def main():\n    pass\ndef old():\n    other.f()\nmain()\n",
            False,
            id="a script that runs says what it runs",
        ),
        pytest.param("class Main:\n    def run(self):\n        other.f()\n", False, id="a class is no command"),
    ],
)
def test_what_a_script_runs_that_only_defines_functions(train: str, *, expected: bool) -> None:
    known, module, node = mark(f"import other\n{train}", other="def f():\n    MARK\n")

    assert may_run(known.flow, known.module, module, node) is expected


@pytest.mark.parametrize(
    ("train", "expected"),
    [
        pytest.param("import shared\n", False, id="another script calls it"),
        pytest.param("import shared\nshared.f()\n", True, id="the script does, too"),
        pytest.param("import shared, second\n", True, id="the script imports the other one"),
        pytest.param("import lib, shared\nlib.call(shared.f)\n", True, id="the script hands it on"),
    ],
)
def test_what_another_script_calls_does_not_run_with_this_one(train: str, *, expected: bool) -> None:
    second = "import shared\ndef g():\n    shared.f()\ng()\n"
    known, module, node = mark(train, shared="def f():\n    MARK\n", second=second)

    assert may_run(known.flow, known.module, module, node) is expected
