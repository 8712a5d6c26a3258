"""Where scripts ask which names have a value."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.asked_names import asked

LOOP = "for i in range(n):\n    x = i\n"


def lines(text: str, *, may_be_skipped: bool = True) -> list[int]:
    """Where it is asked for ``x``, to which the first loop gives a value."""
    known = script(text)
    loop = known.module.nodes(ast.For)[0]
    found = asked(known, known.module, loop, {"x"}, may_be_skipped=may_be_skipped)
    return sorted(each.lineno for each in found if isinstance(each, (ast.expr, ast.ExceptHandler)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(f"{LOOP}print('x' in globals())\n", [3], id="globals"),
        pytest.param(f"{LOOP}print(dir(), vars(), locals())\n", [3, 3, 3], id="names of the module"),
        pytest.param(f"{LOOP}def f():\n    return 'x' in globals()\n", [4], id="in a function"),
        pytest.param(f"{LOOP}def f():\n    return locals()\n", [], id="names of another function"),
        pytest.param(f"def f():\n    {LOOP.replace('    ', '        ')}    return locals()\n", [4], id="of its own"),
        pytest.param(
            f"def f():\n    {LOOP.replace('    ', '        ')}    return globals()\n", [], id="of the module around it"
        ),
        pytest.param(f"{LOOP}print('y' in globals(), globals()['y'])\n", [], id="another name"),
        pytest.param(f"{LOOP}print(vars(x), dir(x))\n", [], id="names of an object"),
        pytest.param(f"{LOOP}try:\n    print(x)\nexcept NameError:\n    pass\n", [5], id="NameError"),
        pytest.param(f"{LOOP}try:\n    print(x)\nexcept (KeyError, Exception):\n    pass\n", [5], id="any error"),
        pytest.param(f"{LOOP}try:\n    print(x)\nexcept:\n    pass\n", [5], id="all that is raised"),
        pytest.param(f"{LOOP}try:\n    print(x)\nexcept KeyError:\n    pass\n", [], id="another error"),
        pytest.param(f"{LOOP}try:\n    print(3)\nexcept Exception:\n    pass\nprint(x)\n", [], id="elsewhere"),
        pytest.param(
            f"def f():\n    {LOOP.replace('    ', '        ')}    return x\ntry:\n    f()\nexcept UnboundLocalError:\n"
            "    pass\n",
            [7],
            id="by what calls the function",
        ),
        pytest.param(
            "try:\n    for i in range(n):\n        x = i\n        print(x)\nexcept Exception:\n    pass\n",
            [],
            id="read in the loop alone",
        ),
    ],
)
def test_where_it_is_asked_for_a_name(text: str, expected: list[int]) -> None:
    assert lines(text) == expected


def test_after_a_loop_that_has_a_pass_it_is_there_anyway() -> None:
    after = "print(dir())\ntry:\n    print(x)\nexcept NameError:\n    pass\n"

    assert lines(LOOP + after, may_be_skipped=False) == []
    assert lines(f"for i in range(n):\n    print(dir())\n    x = i\n{after}", may_be_skipped=False) == [2]
