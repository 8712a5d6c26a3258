"""What statements of a loop add to a sum, or put into a list or dictionary."""

from __future__ import annotations

import ast

import pytest

from codemods.facts.training.collecting import collected, is_of_pass


@pytest.mark.parametrize(
    ("statement", "owner", "value"),
    [
        pytest.param("losses.append(x)", "losses", "x", id="a list"),
        pytest.param("log['a'].append(x)", "log['a']", "x", id="a list of a dictionary"),
        pytest.param("self.losses += [x]", "self.losses", "x", id="a list of an object"),
        pytest.param("total -= x", "total", "x", id="a sum"),
        pytest.param("total = x + total", "total", "x", id="a sum that is assigned"),
        pytest.param("self.total = self.total + x", "self.total", "x", id="a sum of an object that is assigned"),
        pytest.param("log['a'] = x + log['a']", "log['a']", "x", id="a sum of a dictionary that is assigned"),
        pytest.param("log[i] = x", "log[i]", "x", id="an item for each pass"),
    ],
)
def test_what_is_collected(statement: str, owner: str, value: str) -> None:
    loop = loop_of(statement)
    found = collected(loop.body[0], loop)

    assert found is not None
    assert (ast.unparse(found.owner), ast.unparse(found.value)) == (owner, value)


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("log['a'] = x", id="the same item in each pass"),
        pytest.param("total = x + 1", id="another sum"),
        pytest.param("losses += [x, x]", id="a list of several"),
        pytest.param("losses += [each for each in x]", id="a list of any length"),
        pytest.param("self.total *= x", id="a product"),
        pytest.param("losses.extend(x)", id="another method"),
    ],
)
def test_nothing_is_collected(statement: str) -> None:
    loop = loop_of(statement)

    assert collected(loop.body[0], loop) is None


@pytest.mark.parametrize(
    ("body", "is_new"),
    [
        pytest.param("self.total += x", False, id="the sum stays"),
        pytest.param("self.total += x; self.total = 0", True, id="the sum begins anew"),
        pytest.param("self.total += x; self = other()", True, id="another object has it"),
        pytest.param("log[i].total += x", True, id="the object of the pass has it"),
    ],
)
def test_a_sum_of_each_pass(body: str, *, is_new: bool) -> None:
    loop = loop_of(body)
    found = collected(loop.body[0], loop)

    assert found is not None
    assert is_of_pass(loop, found) is is_new


def loop_of(body: str) -> ast.For:
    loop = ast.parse(f"for i, x in enumerate(loader):\n    {body}\n").body[0]
    assert isinstance(loop, ast.For)
    return loop
