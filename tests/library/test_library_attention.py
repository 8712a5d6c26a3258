from __future__ import annotations

import pytest
import torch

from codemods.library.attention import FUSED, KEEPS_LAYOUT, PRODUCTS, TURNING, VIEWS, means_of, scores_of
from codemods.library.operators import operator


def test_the_names_are_those_of_torch() -> None:
    package, _, name = FUSED.rpartition(".")
    assert package == "torch.nn.functional"
    assert hasattr(torch.nn.functional, name)
    for each in PRODUCTS | TURNING | VIEWS | KEEPS_LAYOUT:
        assert hasattr(torch.Tensor, each)
        assert operator(each) is not None, each


SCORES = {
    "heads first": ("bhid,bhjd->bhij", 0, None, 1, None, 4),
    "blanks and an ellipsis": ("... i d, ... j d -> ... i j", 0, None, 1, None, None),
    "heads behind": ("nqhd,nkhd->nhqk", 0, (0, 2, 1, 3), 1, (0, 2, 1, 3), 4),
    "keys first": ("bjd,bid->bij", 1, None, 0, None, 3),
}


@pytest.mark.parametrize(("equation", "expected"), [(each[0], each[1:]) for each in SCORES.values()], ids=SCORES)
def test_scores_have_a_row_for_each_query(equation: str, expected: tuple[object, ...]) -> None:
    found = scores_of(equation)

    assert found is not None
    query, key = found.query, found.key
    assert (query.position, query.order, key.position, key.order, found.dimensions) == expected


@pytest.mark.parametrize(
    "equation",
    [
        pytest.param("bhid,bjd->bhij", id="heads share keys"),
        pytest.param("bhij,hg->bgij", id="heads are mixed"),
        pytest.param("bhid,bhjd", id="without a result"),
        pytest.param("bid,bjd,bkd->bijk", id="three operands"),
        pytest.param("bii,bjd->bij", id="a diagonal"),
        pytest.param("bid,bjd->j", id="one dimension"),
        pytest.param("bide,bjde->bij", id="two depths"),
    ],
)
def test_what_multiplies_no_queries_by_keys(equation: str) -> None:
    assert scores_of(equation) is None


def test_means_are_put_in_the_order_of_the_result() -> None:
    found = means_of("nhql,nlhd->nqhd", 0)

    assert found is not None
    assert (found.value.position, found.value.order, found.order) == (1, (0, 2, 1, 3), (0, 2, 1, 3))


def test_weights_may_stand_behind_values() -> None:
    found = means_of("bjd,bij->bid", 1)

    assert found is not None
    assert (found.value.position, found.value.order, found.order) == (0, None, None)


@pytest.mark.parametrize(
    "equation",
    [
        pytest.param("bhij,bjd->bhid", id="heads share values"),
        pytest.param("bij,bjd->bjd", id="nothing is summed"),
        pytest.param("bij,bjde->bide", id="values of two dimensions"),
        pytest.param("i,bjd->bid", id="weights of one dimension"),
    ],
)
def test_what_is_no_mean_of_values(equation: str) -> None:
    assert means_of(equation, 0) is None


@pytest.mark.parametrize("equation", ["nqhd,nkhd->nhqk", "bhid,bhjd->bhij", "bjd,bid->bij"])
def test_the_orders_are_those_of_einsum(equation: str) -> None:
    found = scores_of(equation)
    assert found is not None
    shape = {"n": 2, "b": 2, "h": 3, "q": 4, "i": 4, "k": 5, "j": 5, "d": 6}
    factors = [torch.randn([shape[each] for each in part]) for part in equation.partition("->")[0].split(",")]
    query, key = (
        factors[each.position] if each.order is None else factors[each.position].permute(each.order)
        for each in (found.query, found.key)
    )

    torch.testing.assert_close(query @ key.transpose(-2, -1), torch.einsum(equation, *factors))
