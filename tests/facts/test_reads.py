"""Where and how often is a loader read."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.data.reads import passes, tops

HEAD = """\
import itertools
import torch
from torch.utils.data import DataLoader
from tqdm import tqdm
loader = DataLoader(torch.zeros(8, 3))
"""


def reads(body: str, **others: str) -> list[str]:
    """How the loader is read, in the order of the text."""
    known = script(HEAD + body, **others)
    (loader,) = known.loaders
    return [each.how.name for each in passes(known.flow, loader.value)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("for x in loader:\n    pass", ["LOOP"], id="a loop"),
        pytest.param("for i, x in enumerate(tqdm(loader)):\n    pass", ["LOOP"], id="through others"),
        pytest.param("y = [x for x in loader]", ["LOOP"], id="a comprehension"),
        pytest.param("y = list(loader)", ["LOOP"], id="all at once"),
        pytest.param("y = [*loader]", ["LOOP"], id="unpacked"),
        pytest.param("for x, y in zip(loader, loader):\n    pass", ["LOOP", "LOOP"], id="twice at once"),
        pytest.param("x = next(iter(loader))", ["FIRST"], id="the first batch"),
        pytest.param("x = iter(loader).next()", ["FIRST"], id="the first batch, as of old"),
        pytest.param("it = iter(loader)", ["ITERATOR"], id="an iterator that is kept"),
        pytest.param("it = itertools.cycle(loader)", ["ITERATOR"], id="round and round"),
        pytest.param("bar = tqdm(loader)\nfor x in bar:\n    pass", ["LOOP"], id="a bar that has a name"),
        pytest.param("from library import fit\nfit(loader)", ["HANDED"], id="code that is not followed"),
        pytest.param("print(len(loader))", [], id="only measured"),
        pytest.param("def run(data):\n    for x in data:\n        pass\nrun(loader)", ["LOOP"], id="a function's"),
        pytest.param("other = loader", [], id="another name"),
    ],
)
def test_how_it_is_read(body: str, expected: list[str]) -> None:
    assert reads(body) == expected


def test_who_reads_it_is_named() -> None:
    known = script(HEAD + "import library\nlibrary.fit(loader)\n")
    (loader,) = known.loaders

    assert [each.reader for each in passes(known.flow, loader.value)] == ["library.fit"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("MARK\n", [("MARK", False)], id="the statement itself"),
        pytest.param("if c:\n    MARK\n", [("if c:", False)], id="the statement around it"),
        pytest.param("def f():\n    MARK\nf()\nf()\n", [("f()", False), ("f()", False)], id="through calls"),
        pytest.param("def f():\n    MARK\n", [], id="nobody calls it"),
        pytest.param(
            "def f():\n    MARK\nif __name__ == '__main__':\n    f()\n",
            [("if __name__ == '__main__':", True)],
            id="under the main guard",
        ),
        pytest.param("def f():\n    MARK\n    f()\nf()\n", [("f()", False)], id="a function that calls itself"),
    ],
)
def test_the_statements_of_a_module_that_run_code(body: str, expected: list[tuple[str, bool]]) -> None:
    known = script(body)
    (mark,) = [each for each in known.module.nodes(ast.Name) if each.id == "MARK"]
    found = [
        (ast.unparse(each.statement).split("\n")[0], each.is_guarded) for each in tops(known.flow, known.module, mark)
    ]

    assert found == expected


def test_a_statement_of_another_module_runs_code() -> None:
    known = script("import other\nother.f()\n", other="def f():\n    MARK\n")
    other = known.modules[1]
    (mark,) = [each for each in other.nodes(ast.Name) if each.id == "MARK"]

    assert [each.module.path for each in tops(known.flow, other, mark)] == ["train.py"]
