"""Where an import goes, and whether it reaches a place."""

from __future__ import annotations

import ast

import pytest

from codemods.dataflow.source import Module
from codemods.editing.imports import can_import, can_import_name, import_place, importing, is_docstring, joining


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("import os\nimport torch\nimport sys\nx = 1\n", ("after", "import torch"), id="of its package"),
        pytest.param(
            "import torch\nfrom torch import nn\nimport sys\n",
            ("after", "from torch import nn"),
            id="the last of a run",
        ),
        pytest.param("import os\nimport sys\nx = 1\n", ("after", "import sys"), id="below all others"),
        pytest.param("import os\nx = 1\nimport sys\n", ("after", "import os"), id="below the first run of them"),
        pytest.param("'''What.'''\nx = 1\n", ("after", "'What.'"), id="below the docstring"),
        pytest.param(
            "from __future__ import annotations\nx = 1\n",
            ("after", "from __future__ import annotations"),
            id="below what must be first",
        ),
        pytest.param("x = 1\n", ("before", "x = 1"), id="above all"),
        pytest.param("", None, id="there is nothing"),
    ],
)
def test_where_an_import_of_torch_goes(text: str, expected: tuple[str, str] | None) -> None:
    place = import_place(Module("train.py", text), "import torch")

    assert (place and (place[0], ast.unparse(place[1]))) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("from a.b import c\n", True, id="it names some"),
        pytest.param("from a.b import *\n", False, id="it names all"),
        pytest.param("from a.b import c; x = 1\n", False, id="it shares its line"),
        pytest.param("x = 1; from a.b import c\n", False, id="it shares the line of another"),
        pytest.param("from .a.b import c\n", False, id="a package of the project"),
        pytest.param("from a import b\n", False, id="another package"),
        pytest.param("if a:\n    from a.b import c\n", False, id="in a branch"),
    ],
)
def test_which_import_takes_another_name(text: str, *, expected: bool) -> None:
    assert (importing(Module("train.py", text), "a.b") is not None) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("from a import b\n", True, id="it fits"),
        pytest.param(f"from a import {'b' * 110}\n", False, id="the line would get too wide"),
        pytest.param(f"from a import (\n    {'b' * 110},\n)\n", True, id="it has a line for each name"),
    ],
)
def test_whether_a_name_joins_the_line(text: str, *, expected: bool) -> None:
    assert (joining(Module("train.py", text), "a", ["another"]) is not None) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("import os\nhere\n", True, id="below the imports"),
        pytest.param("import os\ndef f():\n    here\n", True, id="in a function"),
        pytest.param("here\nimport os\n", False, id="above the imports"),
        pytest.param("import os\ntorch = 1\nhere\n", False, id="the name is something else's"),
        pytest.param("import os\ndef f(torch):\n    here\n", False, id="a parameter has the name"),
        pytest.param("import os\ndef f():\n    global torch\n    here\n", False, id="a function that may bind it"),
    ],
)
def test_whether_an_import_reaches_a_place(text: str, *, expected: bool) -> None:
    module = Module("train.py", text)
    (here,) = [each for each in module.nodes(ast.Name) if each.id == "here"]

    assert can_import(module, "torch", here) is expected
    assert can_import_name(module, "a.b", "torch", here) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("'''What.'''\n", True, id="a module's"),
        pytest.param("def f():\n    '''What.'''\n", True, id="a function's"),
        pytest.param("x = 1\n'''What.'''\n", False, id="a text below something"),
        pytest.param("if a:\n    '''What.'''\n", False, id="a text in a branch"),
        pytest.param("1\n", False, id="a number"),
    ],
)
def test_what_a_docstring_is(text: str, *, expected: bool) -> None:
    module = Module("train.py", text)

    assert any(is_docstring(module, each) for each in module.nodes(ast.Expr)) is expected
