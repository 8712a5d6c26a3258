"""Which names does nothing give a value to."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.unbound import is_bound_nowhere, is_whole

END = "\nif __name__ == '__main__':\n    main()\n"


def unbound(text: str, **others: str) -> set[str]:
    known = script("def main():\n    pass\n" + text, **others)
    return {each.id for each in known.module.nodes(ast.Name) if is_bound_nowhere(known.flow, known.module, each)}


def test_what_nothing_binds() -> None:
    assert unbound("def test():\n    return Tester(main).rate") == {"Tester"}
    assert unbound("from settings import *\nprint(rate, size)", settings="rate = 1") == {"size"}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("def f(a, *b, c=1, **d):\n    print(a, b, c, d)", id="parameters"),
        pytest.param("def f():\n    global rate\n    rate = 1\nprint(rate)", id="a name of the module, by a function"),
        pytest.param("def f():\n    other = 1\nprint(other)", id="a name of another scope"),
        pytest.param("import a.b, c.d as e\nfrom f import g, h as i\nprint(a, e, g, i)", id="imports"),
        pytest.param("for i, (j, *k) in x():\n    print(i, j, k)\ndef x(): pass", id="targets"),
        pytest.param("print([a for a in [1]], {b: c for b, c in {}}, (y := 1), y)", id="comprehensions"),
        pytest.param("try:\n    pass\nexcept OSError as e:\n    print(e)", id="errors"),
        pytest.param("match main:\n    case [a, *b] | {'c': a, **b}:\n        print(a, b)", id="patterns"),
        pytest.param("def f(x: Later) -> Later:\n    y: Later = x", id="annotations"),
        pytest.param("print(__file__, len, profile, unicode_)\nunicode_ = 1", id="what Python and others give"),
        pytest.param("from numpy import *\nprint(zeros)", id="a star import of a library"),
        pytest.param("exec(open('settings.py').read())\nprint(rate)", id="what a text binds"),
        pytest.param("globals().update(rate=1)\nprint(rate)", id="what is written to the module"),
        pytest.param("vars().update(rate=1)\nprint(rate)", id="what is written to the names here"),
        pytest.param("import builtins\nbuiltins.rate = 1\nprint(rate)", id="what is written to the builtins"),
        pytest.param("import sys\nsys.modules[__name__].rate = 1\nprint(rate)", id="to the module, by its name"),
    ],
)
def test_what_may_be_bound(text: str) -> None:
    assert unbound(text) == set()


@pytest.mark.parametrize(
    "other",
    [
        pytest.param("import train\ntrain.rate = 1", id="by its name"),
        pytest.param("import train\nsetattr(train, name, 1)", id="by a name that is not known"),
        pytest.param("import train\ntrain.__dict__.update(rate=1)", id="all at once"),
    ],
)
def test_what_another_module_binds(other: str) -> None:
    text = "def main():\n    print(rate)\nif __name__ == '__main__':\n    main()\n"
    known = script("import train\n" + text, train=text, other=other)
    module = next(each for each in known.modules if each.name == "train")
    names = [each for each in module.nodes(ast.Name) if each.id == "rate"]

    assert names
    assert not any(is_bound_nowhere(known.flow, module, each) for each in names)


def test_what_is_a_whole_program() -> None:
    assert is_whole(script(f"def main():\n    pass\n{END}").flow)
    assert not is_whole(script("print(rate)").flow)
