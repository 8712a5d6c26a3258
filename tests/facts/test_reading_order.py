"""What runs before a loader is read, and what between two of its batches."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.data.reading_order import is_before_reading, is_between_batches, ways

MARKED = """\
from torch.utils.data import DataLoader
def mark(): pass
loader = DataLoader(range(9), num_workers=2)
"""
ITERATOR = "batches = iter(loader)\nfor step in range(9):\n    x = next(batches)\n"


@pytest.mark.parametrize(
    ("body", "is_before", "is_between"),
    [
        ("mark()\nfor x in loader:\n    pass\n", True, False),
        ("for x in loader:\n    pass\nmark()\n", False, False),
        ("for x in loader:\n    mark()\n", False, True),
        ("for i in range(3):\n    mark()\n" + ITERATOR, True, False),
        (ITERATOR + "    mark()\n", False, True),
        ("def setup():\n    mark()\nsetup()\nfor x in loader:\n    pass\n", True, False),
        ("def setup():\n    mark()\nfor x in loader:\n    setup()\n", False, True),
        ("def setup():\n    mark()\nfor x in loader:\n    pass\n", False, False),
        ("def fit():\n    for x in loader:\n        pass\nmark()\nfit()\n", True, False),
        ("def fit():\n    for x in loader:\n        pass\nfit()\nmark()\n", False, False),
    ],
    ids=[
        "above",
        "below",
        "in the loop",
        "a loop above an iterator",
        "a loop that asks an iterator",
        "a function that is called above",
        "a function that the loop calls",
        "a function that nothing calls",
        "above what reads it",
        "below what reads it",
    ],
)
def test_when_the_mark_is_set(body: str, is_before: bool, is_between: bool) -> None:  # noqa: FBT001 - the expectations
    known = script(MARKED + body)
    (loader,) = known.loaders
    mark = next(
        each for each in known.module.nodes(ast.Call) if isinstance(each.func, ast.Name) and each.func.id == "mark"
    )

    assert is_before_reading(known.flow, loader, known.module, mark) is is_before
    assert is_between_batches(known.flow, loader, known.module, mark) is is_between


def test_the_calls_that_lead_to_the_reading() -> None:
    known = script(MARKED + "def fit():\n    for x in loader:\n        pass\nfit()\nfit()\n")
    (loader,) = known.loaders
    (reading,) = loader.passes
    found = ways(known.flow, known.module, reading.node, known.module, None, loader.value)

    assert [each.lineno for each in found if isinstance(each, ast.Call)] == [7, 8]
