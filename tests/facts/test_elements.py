"""What looks like a batch or a part of one."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.facts.data.elements import binds, is_element, is_field, is_value_of_dictionary

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("batch['x']", True, id="by a name"),
        pytest.param("for key in batch:\n    batch[key]", True, id="by each of its keys"),
        pytest.param("for key in list(batch.keys()):\n    batch[key]", True, id="by each of a list of its keys"),
        pytest.param("for key, x in batch.items():\n    batch[key]", True, id="by the key of each item"),
        pytest.param("for i in range(3):\n    batch[i]", False, id="by a number that counts"),
        pytest.param("batch[0]", False, id="by a number"),
        pytest.param("batch[1:]", False, id="some rows"),
        pytest.param("for key in other:\n    batch[key]", False, id="by the keys of another one"),
    ],
)
def test_the_fields_of_a_dictionary(text: str, *, expected: bool) -> None:
    known = script(text)
    (item,) = known.module.nodes(ast.Subscript)

    assert is_field(known.module, item) is expected
    assert is_value_of_dictionary(known.module, item) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("for key, x in batch.items():\n    use(x)", True, id="of each item"),
        pytest.param("for x in batch.values():\n    use(x)", True, id="each value"),
        pytest.param("moved = {key: use(x) for key, x in batch.items()}", True, id="in a comprehension"),
        pytest.param("for x in batch.keys():\n    use(x)", False, id="each key"),
        pytest.param("for x, y in batch.items():\n    use(x)", False, id="the key of each item"),
        pytest.param("for x in batch:\n    use(x)", False, id="what a loop names"),
    ],
)
def test_the_values_of_a_dictionary(text: str, *, expected: bool) -> None:
    known = script(text)

    assert is_value_of_dictionary(known.module, used(known.module.nodes(ast.Call))) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("for x in loader:\n    use(x)", True, id="what a loop names"),
        pytest.param("for i, (x, y) in enumerate(loader):\n    use(y)", True, id="a part that a loop names"),
        pytest.param("for batch in loader:\n    use(batch.image[0])", True, id="a part of it"),
        pytest.param("for x in loader:\n    use(x.view(-1).float())", True, id="a view of it"),
        pytest.param("all_ = [use(x) for x in loader]", True, id="what a comprehension names"),
        pytest.param("x, y = next(batches)\nuse(y)", True, id="what next() returned"),
        pytest.param("use(next(batches))", True, id="what next() returns"),
        pytest.param("x = batches.next()\nuse(x)", True, id="what a prefetcher returned"),
        pytest.param("x = next(batches)\ndef f(x):\n    use(x)", False, id="a name of another function"),
        pytest.param("for x in loader:\n    pass\nuse(x)", False, id="below the loop"),
        pytest.param("for x in loader:\n    def f():\n        use(x)", False, id="in a function of the loop"),
        pytest.param("for x in loader:\n    use(torch.ones(3))", False, id="what a function makes"),
        pytest.param("use(x)", False, id="a name"),
        pytest.param("use(x + 1)", False, id="a sum"),
    ],
)
def test_what_a_loop_or_next_hands_out(text: str, *, expected: bool) -> None:
    known = script(text)

    assert is_element(known.module, used(known.module.nodes(ast.Call))) is expected


def used(calls: Sequence[ast.Call]) -> ast.expr:
    """What ``use`` is given."""
    (given,) = [each.args[0] for each in calls if ast.unparse(each.func) == "use"]
    return given


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param("x", True, id="the name"),
        pytest.param("(y, (z, x))", True, id="among others"),
        pytest.param("y", False, id="another one"),
    ],
)
def test_what_a_target_binds(target: str, *, expected: bool) -> None:
    assert binds(ast.parse(target, mode="eval").body, "x") is expected
