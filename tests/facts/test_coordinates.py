"""Where are images sampled at coordinates that matrices are multiplied for."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.precision.coordinates import sampled

HEAD = """\
import torch
import torch.nn.functional as F
from torch.nn.functional import affine_grid, grid_sample
loader = torch.utils.data.DataLoader(frames)
for x, p, given in loader:
"""


def found(*lines: str) -> list[str]:
    """The calls that sample at coordinates which are computed."""
    known = script(HEAD + "".join(f"    {each}\n" for each in lines))
    return [ast.unparse(each) for each in sampled(known.flow, [known.module.tree])]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(["c = p @ x", "y = F.grid_sample(x, c)"], ["F.grid_sample(x, c)"], id="a projection"),
        pytest.param(
            ["c = torch.matmul(p, x)[:, :2]", "y = grid_sample(x, grid=c / c[:, 2:])"],
            ["grid_sample(x, grid=c / c[:, 2:])"],
            id="by name, in the call",
        ),
        pytest.param(
            ["y = F.grid_sample(x, affine_grid(p, x.size()))"],
            ["F.grid_sample(x, affine_grid(p, x.size()))"],
            id="an affine grid",
        ),
        pytest.param(["y = F.grid_sample(x, net(x) + base)"], [], id="a flow, added up"),
        pytest.param(["c = p @ x", "y = F.grid_sample(x, given)"], [], id="what the loader gives"),
        pytest.param(["c = p @ x", "y = F.grid_sample(x, self.grid)"], [], id="what is kept"),
        pytest.param(["c = p @ x", "y = library.grid_sample(x, c)"], [], id="another function"),
        pytest.param(["c = p @ x", "y = F.interpolate(x, c)"], [], id="nothing is sampled"),
    ],
)
def test_coordinates_that_are_computed(lines: list[str], expected: list[str]) -> None:
    assert found(*lines) == expected


def test_the_product_may_be_in_another_function() -> None:
    known = script(
        "import torch\nimport torch.nn.functional as F\ndef project(p, x):\n    return p.bmm(x)\n"
        "def warp(p, x):\n    return F.grid_sample(x, project(p, x))\n"
    )
    project, warp = known.module.nodes(ast.FunctionDef)

    assert [each.lineno for each in sampled(known.flow, [warp, project])] == [6]
    assert list(sampled(known.flow, [warp])) == []
