from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.dataflow import names, placement

if TYPE_CHECKING:
    from codemods.facts.script import Script


def marked(text: str, **others: str) -> tuple[Script, ast.expr, ast.stmt]:
    """The script, the expression that it gives to ``source``, and the statement ``PLACE``."""
    found = script(text, **others)
    (source,) = [call.args[0] for call in found.module.nodes(ast.Call) if ast.unparse(call.func) == "source"]
    (place,) = [each for each in found.module.nodes(ast.Expr) if ast.unparse(each) == "PLACE"]
    return found, source, place


ARGS = "import argparse\nargs = argparse.ArgumentParser().parse_args()\n"

CHOOSES = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--cuda", action="store_true")
"""
GLOBAL = f"{CHOOSES}def f():\n    source(args.cuda)\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("x = a\nPLACE\nsource(x)", True, id="a module's name, between its binding and its use"),
        pytest.param("PLACE\nx = a\nsource(x)", False, id="before it is bound"),
        pytest.param("x = 1\nPLACE\nx = 2\nsource(x)", False, id="bound anew in between"),
        pytest.param("if c:\n    x = a\nPLACE\nsource(x)", False, id="perhaps not bound"),
        pytest.param("x = a\ndef f():\n    PLACE\nsource(x)", True, id="in a function defined after it"),
        pytest.param("def f():\n    PLACE\nx = a\nsource(x)", False, id="in a function defined before it"),
        pytest.param("x = a\ndef f(x):\n    PLACE\nsource(x)", False, id="where a parameter has the name"),
        pytest.param("x = 1\nx = 2\ndef f():\n    PLACE\nsource(x)", False, id="bound twice"),
        pytest.param("def f():\n    x = a\n    PLACE\n    source(x)\nf()", True, id="a local name"),
        pytest.param(
            "def f():\n    x = a\n    source(x)\ndef g():\n    PLACE", False, id="another function's local name"
        ),
        pytest.param("def f(x):\n    source(x)\nx = 1\nf(x)\nPLACE", True, id="a parameter that is given just this"),
        pytest.param(
            "def f(x):\n    source(x)\nx = 1\nf(2)\nPLACE", False, id="a parameter that is given another value"
        ),
        pytest.param("PLACE\nsource(1 + 2)", False, id="what is no name"),
        pytest.param(f"{ARGS}PLACE\nsource(args.cuda)", True, id="the user's choice"),
        pytest.param(
            f"{ARGS}PLACE\nargs.cuda = 1\nsource(args.cuda)", False, id="a choice that is overwritten after it"
        ),
        pytest.param(f"{ARGS}args.cuda = 1\nPLACE\nsource(args.cuda)", True, id="a choice that is overwritten before"),
        pytest.param(f"{ARGS}PLACE\nsource(args.cuda and args.device == 'cuda')", True, id="a condition of choices"),
        pytest.param(
            f"{GLOBAL}def g():\n    global args\n    args = parser.parse_args()\n    PLACE\n    f()\ng()",
            True,
            id="a global that the place's function binds before it",
        ),
        pytest.param(
            f"{GLOBAL}def g():\n    global args\n    PLACE\n    args = parser.parse_args()\n    f()\ng()",
            False,
            id="a global that it binds below",
        ),
        pytest.param(
            f"{GLOBAL}def g():\n    global args\n    if c:\n        args = parser.parse_args()\n    PLACE\n    f()\ng()",
            False,
            id="a global that it may bind",
        ),
        pytest.param(
            f"{GLOBAL}def g():\n    global args\n    args = parser.parse_args()\n    PLACE\n    f()\ng()\n"
            "def h():\n    global args\n    args = parser.parse_args([])\nh()\nf()",
            False,
            id="a global that another function binds, too",
        ),
        pytest.param(
            f"{GLOBAL}def g():\n    global args\n    args = parser.parse_args()\n    PLACE\n    f()\ng()\n"
            "args = parser.parse_args([])\nf()",
            False,
            id="a global that the module binds, too",
        ),
        pytest.param(
            f"{CHOOSES}args = None\ndef g():\n    global args\n    args = parser.parse_args()\n    PLACE\n    source(args.cuda)\ng()",
            True,
            id="a global that is nothing until its function binds it",
        ),
        pytest.param(
            f"{GLOBAL}def g():\n    global args\n    args = parser.parse_args()\ndef h():\n    global args\n    PLACE\n    f()\ng()",
            False,
            id="a global that only another function binds",
        ),
        pytest.param("x = a\nPLACE\nsource(not x)", True, id="the opposite"),
        pytest.param("PLACE\nx = a\nsource(not x)", False, id="the opposite of what is not bound"),
        pytest.param(
            "class A:\n    def __init__(self):\n        self.x = 1\n        PLACE\n    def f(self):\n        source(self.x)",
            True,
            id="an attribute written before, in one method",
        ),
    ],
)
def test_what_means_the_same_at_another_place(text: str, expected: bool) -> None:  # noqa: FBT001 - the expectation
    found, source, place = marked(text)
    assert placement.means_the_same(found.flow, found.module, source, place) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("import torch\nPLACE", "torch.no_grad", id="import torch"),
        pytest.param("import torch as th\nPLACE", "th.no_grad", id="under another name"),
        pytest.param("from torch import no_grad\nPLACE", "no_grad", id="the function itself"),
        pytest.param("import torch\nfrom torch import no_grad as ng\nPLACE", "ng", id="the nearest"),
        pytest.param("PLACE\nimport torch", None, id="imported later"),
        pytest.param("import numpy\nPLACE", None, id="not imported"),
        pytest.param("import torch\ndef f():\n    PLACE", "torch.no_grad", id="in a function"),
        pytest.param("import torch\ndef f(torch):\n    PLACE", None, id="in a function with that parameter"),
        pytest.param("def f():\n    import torch\n    PLACE", "torch.no_grad", id="imported in the function"),
        pytest.param("def f():\n    import torch\nPLACE", None, id="imported in another function"),
        pytest.param("if TYPE_CHECKING:\n    import torch\ndef f():\n    PLACE", None, id="imported for types only"),
        pytest.param(
            "try:\n    import torch\nexcept ImportError:\n    raise\ndef f():\n    PLACE",
            "torch.no_grad",
            id="in a try",
        ),
    ],
)
def test_how_a_module_writes_a_librarys_name(text: str, expected: str | None) -> None:
    found, _, place = marked(f"{text}\nsource(0)")
    assert placement.spelled(found.flow, found.module, "torch.no_grad", place) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("from helpers import *\nPLACE", "torch.no_grad", id="at module level"),
        pytest.param("PLACE\nfrom helpers import *", None, id="imported later"),
        pytest.param("from helpers import *\nprint(torch)\ndef f():\n    PLACE", "torch.no_grad", id="in a function"),
        pytest.param(
            "from helpers import *\nprint(torch)\ntorch = find()\ndef f():\n    PLACE", None, id="it is bound anew"
        ),
        pytest.param("from helpers import *\nprint(torch)\ndef f(torch):\n    PLACE", None, id="a parameter has it"),
        pytest.param("from others import *\nprint(torch)\ndef f():\n    PLACE", None, id="from what is not seen"),
    ],
)
def test_a_star_import_brings_a_librarys_name(text: str, expected: str | None) -> None:
    found, _, place = marked(f"{text}\nsource(0)", helpers="import torch\n")
    assert placement.spelled(found.flow, found.module, "torch.no_grad", place) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("source(0)\nPLACE", True, id="above in one suite"),
        pytest.param("PLACE\nsource(0)", False, id="below"),
        pytest.param("source(0)\nfor x in y:\n    PLACE", True, id="above the loop"),
        pytest.param("if c:\n    source(0)\nPLACE", False, id="under a condition"),
        pytest.param("if __name__ == '__main__':\n    source(0)\nPLACE", True, id="in the main guard, which runs"),
        pytest.param("source(0)\ndef f():\n    PLACE", False, id="in another function"),
    ],
)
def test_what_has_certainly_run_before(text: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    found, source, place = marked(text)
    assert placement.dominates(found.module, found.module.statement(source), place) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("PLACE", True, id="nothing else has the name"),
        pytest.param("float = 1\nPLACE", False, id="a variable"),
        pytest.param("def float(x):\n    return x\ndef f():\n    PLACE", False, id="a function of the script"),
        pytest.param("def f(float):\n    PLACE", False, id="a parameter"),
        pytest.param("def f(float):\n    pass\nPLACE", True, id="a parameter of another function"),
        pytest.param("from torch import *\nPLACE", False, id="torch's number format, by an import of *"),
        pytest.param("from torch.nn import *\nPLACE", True, id="an import of * without it"),
    ],
)
def test_where_a_builtin_is_pythons_own(text: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    found, _, place = marked(f"{text}\nsource(0)")
    assert placement.is_pythons_own(found.module, "float", place) is expected


def test_what_a_star_import_hides() -> None:
    star: dict[str, object] = {}
    exec("from torch import *", star)  # noqa: S102 - only functions can hold it elsewhere
    hidden = {each for each, value in vars(builtins).items() if star.get(each, value) is not value}

    assert hidden - {"__name__", "__doc__", "__loader__", "__spec__", "__package__"} == names.HIDDEN_BUILTINS["torch"]
