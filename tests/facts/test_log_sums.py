"""Logarithms of sums of exponentials that one function computes."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.precision.log_sums import log_sums

HEAD = "import torch\nx = torch.randn(2, 3)\n"
LOG = "torch.log(torch.sum(torch.exp(x - m), 1, keepdim=True))"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            f"m = x.amax(1, keepdim=True)\ny = m + {LOG}", [("torch.logsumexp(x, 1, keepdim=True)", 1, "")], id="added"
        ),
        pytest.param(
            f"m = x.amax(1, keepdim=True)\ny = x - m - {LOG}", [("torch.log_softmax(x, 1)", 1, "")], id="taken off"
        ),
        pytest.param(
            f"m = x.amax(1, keepdim=True)\ny = x - m - {LOG}\nprint(m)",
            [("torch.log_softmax(x - m, 1)", 0, "")],
            id="taken off, and used",
        ),
        pytest.param(f"m = x.amax(0)\ny = m + {LOG}", [("torch.logsumexp(x, )", 0, "other-result")], id="another size"),
        pytest.param(f"m = torch.zeros(2, 1)\ny = m + {LOG}", [], id="no maximum"),
        pytest.param(f"m = x.amax(1, keepdim=True)\ny = m * {LOG}", [], id="a product"),
        pytest.param("y = torch.log(torch.sum(torch.exp(x), *[1]))", [], id="with a star"),
        pytest.param("y = torch.log(torch.sum(torch.exp(x), x.dim() - 1))", [], id="a dimension that is computed"),
        pytest.param(
            "def put(v):\n    print(v)\n    return 0\nm = x[0, put(x)]\nr = m.view(1, -1).expand(1, x.size()[1])\n"
            "y = m + torch.log(torch.sum(torch.exp(x - r)))",
            [],
            id="a function that does more",
        ),
        pytest.param(
            "def at(v):\n    return v.argmax().item()\nm = x[0, at(x)]\nr = m.view(1, -1).expand(1, x.size(1))\n"
            "y = m + torch.log(torch.sum(torch.exp(x - r)))",
            [("torch.logsumexp(x, dim=(0, 1))", 2, "")],
            id="a row",
        ),
        pytest.param(
            "def at(v):\n    return v.argmax().item()\nm = x[0, at(x)]\nr = m.view(1, -1).expand(1, 3)\n"
            "y = m + torch.log(torch.sum(torch.exp(x - r)))",
            [("torch.logsumexp(x, )", 0, "other-result")],
            id="a row of another length",
        ),
    ],
)
def test_which_sums_there_are(body: str, expected: list[tuple[str, int, str]]) -> None:
    found = log_sums(script(f"{HEAD}{body}\n"))

    shown = [
        (
            f"{each.function}({each.operand}, {each.arguments})",
            len(each.idle),
            each.why_not.code if each.why_not else "",
        )
        for each in found
    ]
    assert shown == expected
