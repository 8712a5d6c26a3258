"""Why the tensor of an array, or of a list of arrays, is not to be made in another way."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.data.array_obstacles import (
    why_no_call,
    why_not_of_array,
    why_not_of_legacy,
    why_not_of_list,
    why_unknown,
)
from codemods.facts.data.arrays import Arrays
from codemods.facts.data.conversions import Conversion, conversions
from codemods.facts.reason import HERE

HEAD = "import numpy as np\nimport torch\n\n"


def conversion(call: str, before: str = "", head: str = HEAD) -> Conversion:
    """The conversion in a loop, below what stands before it there."""
    known = script(
        f"{head}for i in range(9):\n    {before}\n    x = {call}\n"
        if before
        else f"{head}for i in b:\n    x = {call}\n"
    )
    (found,) = conversions(known, Arrays(known.flow))
    return found


@pytest.mark.parametrize(
    ("call", "head", "expected"),
    [
        pytest.param("torch.tensor(a)", HEAD, None, id="nothing is against it"),
        pytest.param("torch.tensor(a, dtype=torch.int64, device='cpu')", HEAD, None, id="what as_tensor takes, too"),
        pytest.param("tensor(a)", "from torch import tensor\n", "no-name", id="torch is not named"),
        pytest.param("torch.tensor(a, pin_memory=True)", HEAD, "other-arguments", id="what as_tensor does not take"),
        pytest.param("torch.tensor(a, **more)", HEAD, "other-arguments", id="arguments that are not seen"),
        pytest.param(
            "torch.Tensor(a, device='cpu')", HEAD, "other-arguments", id="more than the data to the old class"
        ),
        pytest.param(
            "torch.tensor(a)", HEAD + "torch.set_default_device('cuda')\n", "default-device", id="a default device"
        ),
        pytest.param(
            "torch.Tensor(a)", HEAD + "torch.set_default_dtype(torch.float64)\n", "other-result", id="a default format"
        ),
        pytest.param(
            "torch.FloatTensor(a)", HEAD + "torch.set_default_dtype(torch.float64)\n", None, id="a format by its name"
        ),
    ],
)
def test_why_there_is_no_other_call(call: str, head: str, expected: str | None) -> None:
    reason = why_no_call(conversion(call, head=head))

    assert (reason and reason.code) == expected


@pytest.mark.parametrize(
    ("call", "before", "expected"),
    [
        pytest.param("torch.tensor(a)", "a = np.zeros(3)", None, id="it is new, and nothing else holds it"),
        pytest.param("torch.tensor(a, requires_grad=True)", "a = np.zeros(3)", None, id="with a gradient"),
        pytest.param(
            "torch.tensor(a, requires_grad=i > 3)", "a = np.zeros(3)", "unknown-arguments", id="perhaps with a gradient"
        ),
        pytest.param("torch.tensor(a, device='cuda')", "a = np.zeros(3)", "nothing-to-gain", id="to the device"),
        pytest.param("torch.tensor(a, device='cpu')", "a = np.zeros(3)", None, id="on the host"),
        pytest.param(
            "torch.tensor(a, dtype=torch.float32)", "a = np.zeros(3)", "nothing-to-gain", id="into another format"
        ),
        pytest.param("torch.tensor(a, dtype=torch.float64)", "a = np.zeros(3)", None, id="in its own format"),
        pytest.param("torch.tensor(a)", "a = np.zeros(3); kept.append(a)", "memory-shared", id="somebody keeps it"),
        pytest.param("torch.tensor(np.zeros((3, 4))[:, 1:])", "pass", "other-result", id="its elements have gaps"),
    ],
)
def test_why_an_array_is_not_taken_over(call: str, before: str, expected: str | None) -> None:
    found = conversion(call, before)
    array = found.arrays.array(found.module, found.data)

    assert array is not None
    reason = why_not_of_array(found, array)
    assert (reason and reason.code) == expected


LOCKED = "it is copied once in either form: the array of an image, or of a table of pandas, may be read-only"


@pytest.mark.parametrize(
    "made",
    [
        pytest.param("np.asarray(Image.open(str(i)))", id="an image"),
        pytest.param("pd.read_csv(str(i)).values", id="a table that has no name"),
        pytest.param("pd.read_csv(str(i)).values.T[0]", id="a column of such a table"),
        pytest.param("pd.read_csv(str(i)).to_numpy()", id="a table as an array"),
    ],
)
def test_the_array_of_an_image_or_table_is_copied_in_either_form(made: str) -> None:
    found = conversion("torch.tensor(a)", f"a = {made}", HEAD + "import pandas as pd\nfrom PIL import Image\n")
    array = found.arrays.array(found.module, found.data)

    assert array is not None
    reason = why_not_of_array(found, array)
    assert reason is not None
    assert reason.text == LOCKED


@pytest.mark.parametrize(
    ("data", "before", "expected"),
    [
        pytest.param("a", "a = np.zeros(3); kept.append(a)", "with 'a', which is used elsewhere", id="a name"),
        pytest.param(
            "a[1:]", "a = np.zeros(3); kept.append(a)", "with 'a', which is used elsewhere", id="a part of it"
        ),
        pytest.param(
            "load(i).numpy()",
            "pass",
            "with what load(i) returns, and that may be kept there",
            id="what a function may keep",
        ),
    ],
)
def test_who_would_share_the_memory_is_named(data: str, before: str, expected: str) -> None:
    found = conversion(f"torch.tensor({data})", before)
    array = found.arrays.array(found.module, found.data)

    assert array is not None
    reason = why_not_of_array(found, array)
    assert reason is not None
    assert reason.text == f"the tensor would share its memory {expected}"


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param("np.zeros(3)", None, id="floats"),
        pytest.param("np.array([1, 2, 3])", None, id="a list of numbers is no number"),
        pytest.param("np.array(count)", "other-result", id="it may be one integer"),
    ],
)
def test_why_the_old_class_stays(made: str, expected: str | None) -> None:
    found = conversion("torch.Tensor(a)", f"a = {made}")
    array = found.arrays.array(found.module, found.data)

    assert array is not None
    reason = why_not_of_legacy(found, array)
    assert (reason and reason.code) == expected


@pytest.mark.parametrize(
    ("call", "item", "expected"),
    [
        pytest.param("torch.tensor(a)", "np.zeros(3)", None, id="of one format"),
        pytest.param("torch.tensor(a)", "np.array(rows)", "unknown-array", id="of a format that is not known"),
        pytest.param("torch.tensor(a, requires_grad=True)", "np.zeros(3)", "other-arguments", id="with a gradient"),
        pytest.param("torch.tensor(a, dtype=torch.float32)", "np.zeros(3)", None, id="rounded as each number is"),
        pytest.param(
            "torch.tensor(a, dtype=torch.int32)",
            "np.zeros(3, dtype=np.int64)",
            "other-result",
            id="integers that smaller ones do not hold",
        ),
        pytest.param(
            "torch.tensor(a, dtype=torch.float32)",
            "np.zeros(3, dtype=np.int64)",
            None,
            id="integers over a double, which torch rounds first, too",
        ),
        pytest.param("torch.FloatTensor(a)", "np.zeros(3, dtype=np.int64)", None, id="the same by the class"),
        pytest.param("torch.FloatTensor(a)", "np.array(rows)", None, id="of any format, over a double"),
        pytest.param("torch.LongTensor(a)", "np.array(rows)", None, id="of any format, for integers of 64 bits"),
        pytest.param("torch.IntTensor(a)", "np.array(rows)", "unknown-array", id="of any format, for smaller integers"),
    ],
)
def test_why_a_list_of_arrays_is_not_joined(call: str, item: str, expected: str | None) -> None:
    found = conversion(call, f"a = [{item}, {item}]")
    items = found.arrays.list_of(found.module, found.data)

    assert items is not None
    reason = why_not_of_list(found, items)
    assert (reason and reason.code) == expected


def test_a_list_that_may_be_empty_is_not_joined() -> None:
    found = conversion("torch.tensor(a)", "a = [np.zeros(3) for row in rows]")
    items = found.arrays.list_of(found.module, found.data)

    assert items is not None
    reason = why_not_of_list(found, items)
    assert reason is not None
    assert reason.text == "an empty list would become a tensor of another number format"


def test_what_is_not_known_of_an_array_names_what_it_depends_on() -> None:
    found = conversion("torch.tensor(a)", "a = load(i) + 1")
    found.arrays.array(found.module, found.data)
    reason = why_unknown(found)

    assert reason.code == "unknown-array"
    assert "that depends on load(i) + 1 (" in reason.text
    assert [ast.unparse(node) for place in reason.places for node in place.nodes] == ["load(i) + 1"]


def test_what_is_not_known_by_itself_is_not_named() -> None:
    found = conversion("torch.tensor(load(i))", "pass")
    found.arrays.array(found.module, found.data)

    assert why_unknown(found).text == "it is not known to be a NumPy array"


@pytest.mark.parametrize(
    ("data", "rest", "places"),
    [
        pytest.param("a", ": it is bound in 7 places, more than are followed", [], id="the data"),
        pytest.param(
            "a + 1",
            f": that depends on a ({HERE}), which is bound in 7 places, more than are followed",
            ["a"],
            id="what it is made of",
        ),
    ],
)
def test_a_name_that_is_bound_too_often_is_told(data: str, rest: str, places: list[str]) -> None:
    head = HEAD + "b = np.zeros(3)\n" + "".join(f"if i == {at}:\n    a = b + {at}\n" for at in range(7))
    found = conversion(f"torch.tensor({data})", head=head)
    found.arrays.array(found.module, found.data)
    reason = why_unknown(found)

    assert reason.text == f"it is not known to be a NumPy array{rest}"
    assert [ast.unparse(node) for place in reason.places for node in place.nodes] == places


def test_a_long_expression_is_named_by_its_line_alone() -> None:
    found = conversion("torch.tensor(a)", "a = load_from_somewhere_else(i, j, k) + another_one")
    found.arrays.array(found.module, found.data)

    assert "that depends on what is computed there (" in why_unknown(found).text
