"""What the methods of Python's containers put into them and take out of them."""

from __future__ import annotations

import pytest
from probe import answers

HEAD = "import torch\na, b = 1, 'b'\nheld, named = [], {}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("held.append(a)\nanswer = held[0]", {"1"}, id="append"),
        pytest.param("held.insert(0, a)\nanswer = held[0]", {"1"}, id="insert"),
        pytest.param("held.extend([a, b])\nanswer = held[0]", {"1", "'b'"}, id="extend"),
        pytest.param("held.append(a)\nanswer = held.pop()", {"1"}, id="pop"),
        pytest.param("held.append(a)\nfor answer in held:\n    pass\nanswer = held.copy()[0]", {"1"}, id="copy"),
        pytest.param("named.update(x=a)\nanswer = named['x']", {"1"}, id="update by name"),
        pytest.param("named.update({'x': a})\nanswer = named['x']", {"1"}, id="update by another"),
        pytest.param("named['x'] = a\nanswer = named.get('x')", {"1"}, id="get"),
        pytest.param("named['x'] = a\nanswer = named.get('y', b)", {"'b'"}, id="get with a default"),
        pytest.param("answer = named.setdefault('x', a)", {"1"}, id="setdefault"),
        pytest.param("named['x'] = a\nanswer = list(named.values())[0]", {"1"}, id="values"),
        pytest.param(
            "named['x'] = a\n(answer_,) = [answer for _, answer in named.items()]\nanswer = answer_", {"1"}, id="items"
        ),
        pytest.param("answer = held.count(a)", {"plain"}, id="a number"),
        pytest.param("answer = held.append(a)", {"plain"}, id="nothing"),
    ],
)
def test_what_goes_in_comes_out(text: str, expected: set[str]) -> None:
    assert answers(HEAD + text)[-1] == expected
