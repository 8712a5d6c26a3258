from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.devices.ranges import may_go_backwards, range_of


def asked(made: str) -> tuple[bool, bool]:
    """Whether what is made holds a range, and whether that may end before it starts."""
    found = script(f"import torch\n\n\ndef run(x, n):\n    return {made}\n")
    maker = next(each for each in found.module.nodes(ast.Call) if ast.unparse(each) == made)
    (name,) = (each.name for each in found.flow.values(maker.func))
    counted = range_of(found, name, maker)
    return counted is not None, counted is not None and may_go_backwards(found, counted)


@pytest.mark.parametrize("end", ["4", "0", "x.size(0)", "len(x)", "x.shape[1]", "2 * len(x) + 1", "0, len(x)", "-2, 3"])
def test_a_range_that_never_goes_backwards(end: str) -> None:
    assert asked(f"torch.LongTensor(range({end}))") == (True, False)


@pytest.mark.parametrize("end", ["n", "-1", "len(x) - 1", "1, len(x)", "n, 9", "4, 3"])
def test_a_range_that_may_go_backwards(end: str) -> None:
    assert asked(f"torch.LongTensor(range({end}))") == (True, True)


@pytest.mark.parametrize(
    "made", ["torch.tensor(range(3))", "torch.LongTensor(3)", "torch.LongTensor(range(0, 9, 3))", "torch.LongTensor(n)"]
)
def test_what_is_made_of_no_plain_range(made: str) -> None:
    assert asked(made) == (False, False)
