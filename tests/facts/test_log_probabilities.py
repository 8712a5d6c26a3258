"""Logarithms of softmaxes, and whether something else uses the probabilities."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.precision.log_probabilities import log_probabilities

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\nx = torch.randn(2, 3)\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("torch.log(F.softmax(x, 1))", [(False, "")], id="of the call"),
        pytest.param("p = x.softmax(1)\ny = p.log()", [(True, "")], id="of a name"),
        pytest.param("p: torch.Tensor = x.softmax(1)\ny = p.log()", [(False, "other-result")], id="that is annotated"),
        pytest.param("p = x.softmax(1)\nprint(p.log(), p)", [(True, "probabilities-used")], id="that is used"),
        pytest.param("m = nn.Softmax(1)\ntorch.log(m(x))", [(False, "probabilities-used")], id="of a layer"),
        pytest.param("torch.log(x.softmax(1) + 1)", [(False, "other-result")], id="of a sum"),
        pytest.param("torch.log(x + 1)", [], id="of another sum"),
        pytest.param("torch.log(*[x.softmax(1)])", [], id="with a star"),
        pytest.param("softmax = 1\ntorch.log(x)", [], id="of something else"),
        pytest.param("torch.log(x)", [], id="no softmax at all"),
    ],
)
def test_which_logarithms_there_are(body: str, expected: list[tuple[bool, str]]) -> None:
    found = log_probabilities(script(HEAD + body))

    assert [(each.idle is not None, each.why_not.code if each.why_not else "") for each in found] == expected
