"""What an expression may come to."""

from __future__ import annotations

import ast

import pytest

from codemods.facts.cost.amounts import (
    UNKNOWN,
    AtMost,
    Built,
    Layer,
    attribute_of,
    children,
    holds_bound,
    is_exact,
    is_known,
    is_long,
)

LINEAR = Layer("torch.nn.Linear", [8, 4])


@pytest.mark.parametrize(
    ("value", "known", "bound", "exact"),
    [
        pytest.param(3, True, False, True, id="a whole number"),
        pytest.param(0.5, True, False, False, id="a fraction"),
        pytest.param(AtMost(3), False, True, False, id="a bound"),
        pytest.param(UNKNOWN, False, False, False, id="nothing"),
        pytest.param([1, (2, "x")], True, False, False, id="a list"),
        pytest.param([1, (2, UNKNOWN)], False, False, False, id="a list with something unknown in it"),
        pytest.param({"a": [AtMost(3)]}, False, True, False, id="a dictionary with a bound in it"),
        pytest.param(LINEAR, False, False, False, id="a layer"),
    ],
)
def test_what_is_known_of_a_value(value: object, *, known: bool, bound: bool, exact: bool) -> None:
    assert (is_known(value), holds_bound(value), is_exact(value)) == (known, bound, exact)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(range(1000), False), (range(1001), True), ("x" * 1001, True), (10**9, False)],
    ids=["as many as are followed", "one more", "a text", "a large number"],
)
def test_what_is_too_long_to_follow(value: object, *, expected: bool) -> None:
    assert is_long(value) is expected


def test_the_arguments_of_a_layer_by_position_and_by_name() -> None:
    layer = Layer("torch.nn.Linear", [8], {"out_features": 4})

    assert [layer.argument(0, "in_features"), layer.argument(1, "out_features")] == [8, 4]
    assert layer.argument(2, "bias", default=True) is True
    assert layer.argument(2, "bias") is UNKNOWN


def test_a_default_is_not_known_where_more_may_have_been_given() -> None:
    assert Layer("torch.nn.Linear", [8, 4], is_spread=True).argument(2, "bias", default=True) is UNKNOWN


def test_what_a_layer_says_of_itself() -> None:
    assert [attribute_of(LINEAR, name) for name in ("in_features", "out_features", "weight")] == [8, 4, UNKNOWN]


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        pytest.param(Layer("torch.nn.Sequential", [LINEAR, LINEAR]), [LINEAR, LINEAR], id="one by one"),
        pytest.param(Layer("torch.nn.ModuleList", [[LINEAR]]), [LINEAR], id="in a list"),
        pytest.param(Layer("torch.nn.ModuleDict", [{"a": LINEAR}]), [LINEAR], id="in a dictionary"),
        pytest.param(Layer("torch.nn.Sequential", [[("a", LINEAR)]]), [LINEAR], id="as pairs"),
        pytest.param(Layer("torch.nn.ModuleList", added=[LINEAR]), [LINEAR], id="added later"),
        pytest.param(Layer("torch.nn.Sequential", [UNKNOWN]), None, id="something unknown"),
        pytest.param(Layer("torch.nn.Sequential", is_spread=True), None, id="what is not seen"),
        pytest.param(LINEAR, None, id="no container"),
    ],
)
def test_what_a_container_holds(layer: Layer, expected: list[Layer] | None) -> None:
    assert children(layer) == expected


def test_an_object_of_the_project_is_a_layer_too() -> None:
    (class_,) = ast.parse("class Net: pass").body
    assert isinstance(class_, ast.ClassDef)
    built = Built(class_)

    assert children(Layer("torch.nn.Sequential", [built])) == [built]
