"""What do expressions come to as the script stands."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.cost.amounts import UNKNOWN, Built, Layer, children
from codemods.facts.cost.constants import Constants

HEAD = """\
import argparse, math, os
import torch
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int, default=8)
parser.add_argument("--name")
args = parser.parse_args()
WIDTH = 4
SIZES = [2, 3, 5]
def double(x):
    return x * 2
def shrink(x, by=2):
    if x > 3:
        return x // by
    return x
def endless(x):
    return endless(x)
class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.layer = nn.Linear(width, double(width))
"""


def value(expression: str, before: str = "") -> object:
    known = script(f"{HEAD}{before}\n{expression}\n")
    return Constants(known).of(known.module.tree.body[-1].value)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("3 * WIDTH", 12),
        ("args.size", 8),
        ("double(WIDTH)", 8),
        ("shrink(10)", 5),
        ("shrink(2)", 2),
        ("shrink(9, by=3)", 3),
        ("SIZES[2]", 5),
        ("len(SIZES)", 3),
        ("sum(SIZES)", 10),
        ("[double(each) for each in SIZES]", [4, 6, 10]),
        ("max(SIZES) if WIDTH > 3 else 0", 5),
        ("math.ceil(2.5)", 3),
        ("int('7')", 7),
    ],
)
def test_what_is_known(expression: str, expected: object) -> None:
    assert value(expression) == expected


@pytest.mark.parametrize(
    "expression",
    ["unknown", "library(3)", "os.environ['SIZE']", "endless(1)", "1 / 0", "SIZES[9]", "torch.zeros(3)[0]"],
)
def test_what_is_not(expression: str) -> None:
    assert value(expression) is UNKNOWN


def test_a_name_that_may_be_bound_anew_is_not_known() -> None:
    assert value("WIDTH", "if torch:\n    WIDTH = 9") is UNKNOWN


WIDTHS = "widths = [args.size] * WIDTH + [3]"


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        pytest.param(WIDTHS, [8, 8, 8, 8, 3], id="of an option and a constant"),
        pytest.param(f"{WIDTHS}\nlog = []\nlog.append(widths)", [8, 8, 8, 8, 3], id="another list has it as an item"),
        pytest.param(f"{WIDTHS}\nwidths.append(9)", UNKNOWN, id="an item is added"),
        pytest.param(f"{WIDTHS}\nwidths.reverse()", UNKNOWN, id="it is turned around"),
        pytest.param(f"{WIDTHS}\nwidths[0] = 9", UNKNOWN, id="an item is set"),
        pytest.param(f"{WIDTHS}\nwidths += [9]", UNKNOWN, id="items are added by an operator"),
        pytest.param(
            f"{WIDTHS}\ndef widen(given):\n    given[-1] = 64\nwiden(widths)", UNKNOWN, id="a function sets an item"
        ),
    ],
)
def test_a_list_that_is_repeated(before: str, expected: object) -> None:
    assert value("widths", before) == expected


def test_a_number_is_no_bool() -> None:
    known = script(f"{HEAD}True\n3\n'3'\n")
    constants = Constants(known)
    nodes = [each.value for each in known.module.tree.body[-3:] if isinstance(each, ast.Expr)]

    assert [constants.number(each) for each in nodes] == [None, 3, None]
    assert constants.number(None) is None


def test_a_layer_and_its_arguments() -> None:
    layer = value("nn.Linear(WIDTH, out_features=2, bias=False)")

    assert isinstance(layer, Layer)
    assert layer.name == "torch.nn.Linear"
    assert (layer.argument(0, "in_features"), layer.argument(1, "out_features")) == (4, 2)
    assert layer.argument(3, "device", None) is None


def test_a_model_of_the_project_with_its_layers() -> None:
    net = value("Net(3)")

    assert isinstance(net, Built)
    assert net.attributes["width"] == 3
    assert net.attributes["layer"].argument(1, "out_features") == 6


def test_what_a_container_holds() -> None:
    row = value("nn.Sequential(nn.ReLU(), nn.Linear(2, 2))")
    assert isinstance(row, Layer)

    assert [each.name for each in children(row) or []] == ["torch.nn.ReLU", "torch.nn.Linear"]
    one = value("nn.ReLU()")
    assert isinstance(one, Layer)
    assert children(one) is None
