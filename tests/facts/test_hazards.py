"""Which code does mixed precision break."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.precision.hazards import bce_in_model, hazards, numbers, without_bf16
from codemods.facts.reach import Reach
from codemods.facts.target import UNKNOWN, Target

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
model = nn.Linear(4, 4)
"""


def found(body: str) -> list[tuple[str, bool]]:
    """What breaks in the code, and whether in fp16 alone."""
    known = script(HEAD + body)
    statements = known.module.tree.body[len(ast.parse(HEAD).body) :]
    return [(ast.unparse(each.node), each.only_fp16) for each in hazards(Reach(known.flow), known.module, statements)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("y = F.relu(model(x))", [], id="a layer"),
        pytest.param("y = F.cross_entropy(model(x), x)", [], id="a loss in 32 bits"),
        pytest.param("y = x.masked_fill(m, -1e9)", [("x.masked_fill(m, -1e9)", True)], id="more than fp16 holds"),
        pytest.param("y = x.masked_fill(m, -1e4)", [], id="what fp16 holds"),
        pytest.param("y = model(x) * 1e6", [("model(x) * 1e6", True)], id="a product that fp16 does not hold"),
        pytest.param("f = x.view(3, -1)\ny = f @ f.t()", [("f @ f.t()", True)], id="a Gram matrix"),
        pytest.param("x[m > 0] = model(x)[m > 0]", [("x[m > 0] = model(x)[m > 0]", False)], id="what a mask takes"),
        pytest.param(
            "for x in torch.utils.data.DataLoader(d):\n    for k, v in x.items():\n        x[k] = v.cuda()\n",
            [],
            id="the items of a batch",
        ),
        pytest.param(
            "for x in torch.utils.data.DataLoader(d):\n    for k, v in x.items():\n        y[k] = v.cuda()\n",
            [("y[k] = v.cuda()", False)],
            id="items of a batch that are written elsewhere",
        ),
        pytest.param("log_det = model(x).sum(-1)", [("log_det", False)], id="a density"),
        pytest.param(
            "c = p.bmm(x)\ny = F.grid_sample(x, c)", [("F.grid_sample(x, c)", False)], id="coordinates of pixels"
        ),
        pytest.param("g = x.to_sparse()\ny = g.mm(x)", [("g.mm(x)", False)], id="a product with a sparse matrix"),
        pytest.param("g = x.to_sparse()\ny = torch.einsum('ij,jk', x, w)", [], id="a product that takes none"),
    ],
)
def test_what_breaks_under_autocast(body: str, expected: list[tuple[str, bool]]) -> None:
    assert [node for node, _ in found(body)] == [
        node.replace("1e6", "1000000.0").replace("-1e9", "-1000000000.0") for node, _ in expected
    ]


def test_a_model_that_computes_a_loss_which_autocast_refuses() -> None:
    net = "class Net(nn.Module):\n    def forward(self, x):\n        return {}\nnet = Net()\nnet(x)\n"
    results = []
    for loss in ("F.binary_cross_entropy(x, x)", "F.mse_loss(x, x)"):
        known = script(HEAD + net.format(loss))
        results.append(bce_in_model(Reach(known.flow), known.module.tree.body[-1:]))

    assert [each is not None for each in results] == [True, False]


@pytest.mark.parametrize(("target", "expected"), [(Target((2, 0)), True), (Target((2, 1)), False), (UNKNOWN, False)])
def test_a_kernel_that_an_old_torch_has_not(target: Target, expected: bool) -> None:  # noqa: FBT001 - expected
    known = script(f"{HEAD}y = F.interpolate(x, 2)\n")
    hazard = without_bf16(Reach(known.flow), target, known.module, known.module.tree.body[-1:])

    assert (hazard is not None) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1e-8", [1e-8]), ("-3", [3.0]), ("2 * 4", [8.0]), ("x = 5\nx", [5.0]), ("True", []), ("unknown", [])],
)
def test_the_numbers_that_an_expression_stands_for(text: str, expected: list[float]) -> None:
    known = script(text)
    node = known.module.tree.body[-1].value  # type: ignore[attr-defined]

    assert [abs(each) for each in numbers(known.module, node)] == expected


@pytest.mark.parametrize(("kept", "expected"), [("{}", []), ("torch.zeros(4)", ["kept[x > 0] = x.mean()"])])
def test_a_dict_takes_values_of_any_format(kept: str, expected: list[str]) -> None:
    assert [node for node, _ in found(f"kept = {kept}\nkept[x > 0] = x.mean()\n")] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a = 5\nb = a\nc = b\nd = c\ne = -d\ne", [5.0], id="by many names"),
        pytest.param("a = 5\nfor _ in x:\n    a = a * 2\na", [5.0], id="one that is computed from itself"),
        pytest.param("a = b\nb = a\na", [], id="two that are each other"),
    ],
)
def test_the_numbers_that_names_stand_for(text: str, expected: list[float]) -> None:
    known = script(text)
    node = known.module.tree.body[-1].value  # type: ignore[attr-defined]

    assert [abs(each) for each in numbers(known.module, node)] == expected


@pytest.mark.parametrize(
    ("mask", "breaks"),
    [
        pytest.param("m = y > 0\nm = m.unsqueeze(1)\nm = m.clone()", False, id="a name is given what it held"),
        pytest.param(
            "a = y > 0\nb = a.unsqueeze(0)\nc = b[0]\nd = c.clone()\nm = d.squeeze()", False, id="by many names"
        ),
        pytest.param("m = y > 0\nm = m.float()\nm = m.clone()", True, id="numbers among them"),
        pytest.param("from masks import m\nm = m.clone()", True, id="it begins with what is not known"),
    ],
)
def test_whether_a_masked_assignment_writes_floats(mask: str, breaks: bool) -> None:  # noqa: FBT001 - the expectation
    assert (("x[x > 0] = m", False) in found(f"{mask}\nx[x > 0] = m")) is breaks
