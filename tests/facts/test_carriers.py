"""Which values may carry a graph, and which functions hand one on."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.autograd.carriers import hands_out, may_carry, passes_on

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
loader = DataLoader(torch.zeros(8, 3), 4)
model = nn.Linear(3, 3)
for batch in loader:
    answer = {0}
"""


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("model(batch)", True, id="what a model computes"),
        pytest.param("nn.Parameter(batch)", True, id="a parameter"),
        pytest.param("model.weight", True, id="a parameter of a layer"),
        pytest.param("torch.zeros(3, requires_grad=True)", True, id="a tensor that starts one"),
        pytest.param("torch.zeros(3).requires_grad_()", True, id="a tensor that is asked to start one"),
        pytest.param("torch.zeros(3).requires_grad_(False)", False, id="a tensor that is asked not to start one"),
        pytest.param("torch.zeros(3, device='cuda').requires_grad_(flag)", True, id="a tensor that may be asked to"),
        pytest.param("torch.autograd.Variable(batch, requires_grad=True)", True, id="a variable that starts one"),
        pytest.param("torch.autograd.Variable(batch)", False, id="a variable that starts none"),
        pytest.param("[1, nn.Parameter(batch)]", True, id="a list with a parameter in it"),
        pytest.param("nn.Parameter(batch).cuda()", True, id="a parameter, moved"),
        pytest.param("nn.Parameter(batch) * 2", True, id="what is computed of a parameter"),
        pytest.param("-nn.Parameter(batch)", True, id="a parameter, negated"),
        pytest.param("nn.Parameter(batch).T", True, id="a view of a parameter"),
        pytest.param("abs(nn.Parameter(batch))", True, id="what a built-in function computes of a parameter"),
        pytest.param("model.weight * 2", True, id="what is computed of the weight of a layer"),
        pytest.param("model.in_features * 2", False, id="a size of a layer"),
        pytest.param("nn.Parameter(batch).detach_()", True, id="what another of its methods returns"),
        pytest.param("find()", True, id="what is not known"),
        pytest.param("torch.zeros(3)", False, id="a fresh tensor"),
        pytest.param("torch.zeros(3).cuda()", False, id="a fresh tensor, moved"),
        pytest.param("batch", False, id="a batch"),
        pytest.param("batch.cuda()", False, id="a batch, moved"),
        pytest.param("[1, 'text']", False, id="a list of plain things"),
        pytest.param("3", False, id="a number"),
    ],
)
def test_what_may_carry_a_graph(expression: str, *, expected: bool) -> None:
    known = script(HEAD.format(expression))
    loop = known.module.tree.body[-1]
    node = loop.body[-1].value  # type: ignore[attr-defined]

    assert may_carry(known.flow, known.flow.values(node)) is expected


def test_what_is_not_known_counts_only_where_it_is_asked_for() -> None:
    known = script("answer = find()\n")
    (assignment,) = known.module.nodes(ast.Assign)

    assert not may_carry(known.flow, known.flow.values(assignment.value), opaque=False)


@pytest.mark.parametrize(
    ("name", "out", "on"),
    [
        pytest.param("builtins.zip", True, True, id="what holds what it is given"),
        pytest.param("copy.deepcopy", True, True, id="a copy"),
        pytest.param("builtins.sum", False, True, id="what computes with it"),
        pytest.param("builtins.len", False, False, id="what returns a number"),
        pytest.param("builtins.print", False, False, id="what returns nothing"),
        pytest.param("torch.exp", False, True, id="an operator"),
        pytest.param("torch.argmax", False, False, id="an operator that returns indices"),
        pytest.param("numpy.mean", False, False, id="a package that knows no graphs"),
        pytest.param("somewhere.function", False, True, id="a function of which nothing is known"),
    ],
)
def test_which_functions_hand_a_graph_on(name: str, *, out: bool, on: bool) -> None:
    assert (hands_out(name), passes_on(name)) == (out, on)
