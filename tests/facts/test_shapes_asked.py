"""Which names surely hold something with a shape."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.devices.shapes_asked import has_axis, has_shape


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("n = x.size(0)\n    use(x)", True, id="its size is asked for above"),
        pytest.param("use(x, x.shape)", True, id="in the same statement"),
        pytest.param("rows, columns = x.shape\n    if rows:\n        use(x)", True, id="further out"),
        pytest.param("use(x)\n    n = x.shape", False, id="only below"),
        pytest.param("if other:\n        n = x.shape\n    use(x)", False, id="under a condition"),
        pytest.param("n = [x.shape for _ in other]\n    use(x)", False, id="perhaps in no pass"),
        pytest.param("n = other and x.shape\n    use(x)", False, id="perhaps not computed"),
        pytest.param("n = x.shape\n    x = other\n    use(x)", False, id="of what the name held before"),
        pytest.param("if other:\n        n = x.shape\n        use(x)", True, id="under the same condition"),
        pytest.param("n = x.device\n    use(x)", False, id="models and storages have a device, too"),
    ],
)
def test_whether_its_shape_is_asked_for(body: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    module = script(f"def f(x, other):\n    {body}\n").module
    (call,) = (each for each in module.nodes(ast.Call) if isinstance(each.func, ast.Name) and each.func.id == "use")
    name = call.args[0]

    assert isinstance(name, ast.Name)
    assert has_shape(module, name) is expected


def test_a_name_of_a_module_may_be_given_something_else_at_any_time() -> None:
    module = script("n = x.shape\nuse(x)\n").module
    (call,) = module.nodes(ast.Call)

    assert isinstance(call.args[0], ast.Name)
    assert not has_shape(module, call.args[0])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("x[:, 0:3] = other\n    use(x)", True, id="a part of it is set above"),
        pytest.param("n = x[0]\n    use(x)", True, id="an item is taken"),
        pytest.param("x[1:] *= 2\n    use(x)", True, id="a part of it is changed"),
        pytest.param("n = x[other]\n    use(x)", False, id="a mask of a single number takes that"),
        pytest.param("n = x[...], x[None], x[()]\n    use(x)", False, id="what a single number has, too"),
        pytest.param("n = x[True]\n    use(x)", False, id="a truth is a mask"),
        pytest.param("n = other[x, 0]\n    use(x)", False, id="it is the index"),
        pytest.param("n = other and x[0]\n    use(x)", False, id="perhaps not computed"),
        pytest.param("x[0] = 1\n    x = other\n    use(x)", False, id="of what the name held before"),
        pytest.param("n = x.shape[1]\n    use(x)", True, id="one of its sizes is asked for"),
        pytest.param("n = x[-1]\n    use(x)", True, id="its last item is taken"),
        pytest.param("n = len(x)\n    use(x)", True, id="its length is asked for"),
        pytest.param("n = x.shape\n    use(x)", False, id="a single number has an empty shape"),
        pytest.param("n = x.shape[:2], len(other)\n    use(x)", False, id="a part of an empty shape is empty"),
        pytest.param("n = use(x)\n    return n * x.shape[1]", True, id="below, as it always is"),
        pytest.param("use(x)\n    if other:\n        n = x.shape[1]", False, id="below, under a condition"),
        pytest.param("use(x)\n    if other:\n        return\n    n = x[0]", False, id="below a return"),
        pytest.param("use(x)\n    assert other\n    n = x[0]", False, id="below what may fail on purpose"),
        pytest.param("use(x)\n    x = other\n    n = x[0]", False, id="below, of what the name holds then"),
        pytest.param("if other:\n        use(x)\n    n = x[0]", False, id="below, outside of its suite"),
        pytest.param(
            "try:\n        use(x)\n        n = x[0]\n    except IndexError:\n        pass",
            False,
            id="below, and caught",
        ),
    ],
)
def test_whether_parts_of_it_are_taken(body: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    module = script(f"def f(x, other):\n    {body}\n").module
    (call,) = (each for each in module.nodes(ast.Call) if isinstance(each.func, ast.Name) and each.func.id == "use")
    name = call.args[0]

    assert isinstance(name, ast.Name)
    assert has_axis(module, name) is expected
