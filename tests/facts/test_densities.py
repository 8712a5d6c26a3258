"""Where the logarithm of a determinant is computed."""

from __future__ import annotations

import ast

import pytest

from codemods.facts.precision.densities import log_determinants


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("log_det = scale.sum(-1)", ["log_det"]),
        ("z, logdet = flow(x)", ["logdet"]),
        ("log_abs_det_jacobian = -scale", ["log_abs_det_jacobian"]),
        ("sldj += scale.sum(-1)", ["sldj"]),
        ("print(log_det)", []),
        ("details = catalog_details(x)", []),
        ("blog_detail = log_details = 3", []),
    ],
)
def test_the_names_of_logarithms(code: str, expected: list[str]) -> None:
    assert [each.id for each in log_determinants(ast.parse(code))] == expected
