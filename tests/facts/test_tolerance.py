"""Which uses of a tensor give the same answer where it holds 16-bit floats."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.precision.tolerance import Tolerance

HEAD = """\
import torch
from torch import nn
model = nn.Linear(4, 4)
y = model(x)
"""
DEEP = "".join(f"def f{at}(t):\n    f{at - 1}(t)\n" for at in range(1, 7))


@pytest.mark.parametrize(
    ("body", "harmless"),
    [
        pytest.param("a = y\nb = a.detach()\nc = b * 2\nd = c\ne = d\nprint(e)", True, id="by many names"),
        pytest.param(
            "a = y\nb = a.detach()\nc = b * 2\nd = c\ne = d\nlibrary(e)", False, id="to code that is not seen"
        ),
        pytest.param(f"def f0(t):\n    print(t)\n{DEEP}f6(y)", True, id="through many functions"),
        pytest.param(f"def f0(t):\n    library(t)\n{DEEP}f6(y)", False, id="to code that is not seen by functions"),
        pytest.param(
            "total = 0\nfor _ in range(9):\n    total = total + y\nprint(total)", False, id="a sum over passes"
        ),
        pytest.param("def f(t):\n    print(t)\n    f(t)\nf(y)", False, id="a function that hands it to itself"),
        pytest.param("v, i = y.max(1)\nw = v\nprint(w, i)", True, id="values and indices"),
        pytest.param("m = y.max(1)\nn = m\no = n\np = o\nq = p\nprint(q[1])", True, id="both, by many names"),
        pytest.param("m = y.max(1)\nn = m\no = n\np = o\nq = p\nlibrary(q[0])", False, id="the values, by many names"),
        pytest.param("print(f'{y.dtype}')", True, id="its format is printed"),
        pytest.param("log = '{}'.format(y.type())", True, id="the name of its format is printed"),
        pytest.param("h = (x > 0).to(dtype=y.dtype).mean()\nprint(h)", True, id="one mean is taken in its format"),
        pytest.param(
            "hits = 0\nfor _ in range(9):\n    hits += (x > 0).to(dtype=y.dtype).mean()",
            False,
            id="a sum over passes is taken in its format",
        ),
        pytest.param("hits = 0\nhits += (x > 0).type(y.type()).sum()", False, id="a sum in the format that it names"),
        pytest.param("kept = torch.zeros(4, dtype=y.dtype)\nkept[1] += 1", False, id="a tensor is made in its format"),
        pytest.param("library(y.dtype)", False, id="code that is not seen gets its format"),
        pytest.param("assert y.dtype == torch.float32", False, id="its format is compared"),
        pytest.param("c = y.type(torch.long)\nkept = [c]", True, id="it is converted to a format that is named"),
    ],
)
def test_whether_a_use_is_harmless(body: str, harmless: bool) -> None:  # noqa: FBT001 - the expectation itself
    known = script(HEAD + body)
    reads = [each for each in known.module.nodes(ast.Name) if each.id == "y" and isinstance(each.ctx, ast.Load)]

    assert [Tolerance(known.flow).is_harmless(known.module, each) for each in reads] == [harmless]
