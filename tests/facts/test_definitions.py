"""What the only statement that binds a name gives it."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.cost.definitions import binding


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("x = 1 + 2\nuse(x)", "1 + 2", id="of its module"),
        pytest.param("def f():\n    x = 3\n    use(x)", "3", id="of its function"),
        pytest.param("x = 1\ndef f():\n    use(x)", "1", id="of the module around its function"),
        pytest.param("x = 1\ndef f():\n    x = 2\n    use(x)", "2", id="the function's, where the module has one, too"),
        pytest.param("x = 1\nx = 2\nuse(x)", None, id="there are two"),
        pytest.param("x = 1\ndef f(x):\n    use(x)", None, id="a parameter"),
        pytest.param("x, y = 1, 2\nuse(y)", "2", id="one of several at once"),
        pytest.param("x, y = f()\nuse(x)", None, id="a part of what is unpacked"),
        pytest.param("*x, y = 1, *z\nuse(y)", None, id="a part of what is unpacked with a star"),
        pytest.param("x = y = 1\nuse(x)", None, id="two names at once"),
        pytest.param("for x in y:\n    use(x)", None, id="a loop's variable"),
        pytest.param("use(x)", None, id="it is bound nowhere"),
    ],
)
def test_the_only_statement(text: str, expected: str | None) -> None:
    known = script(text)
    (call,) = [each for each in known.module.nodes(ast.Call) if ast.unparse(each.func) == "use"]
    (name,) = call.args
    assert isinstance(name, ast.Name)
    bound = binding(known.flow, name)

    assert (bound and ast.unparse(bound)) == expected
