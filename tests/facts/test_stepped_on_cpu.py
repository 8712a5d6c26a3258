"""Which models' parameters does an optimizer step on the CPU?"""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.models.stepped_on_cpu import stepped_on_cpu
from codemods.facts.reason import Reason

CODE = """\
import torch
from torch import nn, optim
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(2, 2)
other = nn.Linear(2, 2)
{}
optimizer = optim.Adam({})
"""


@pytest.mark.parametrize(
    ("moved", "given", "answer"),
    [
        pytest.param("", "model.parameters()", "Linear: ", id="it is never moved"),
        pytest.param("model.cpu()", "model.parameters()", "Linear: ", id="it is moved to the CPU"),
        pytest.param("model.to(device)", "model.parameters()", 'Linear: device.type == "cuda"', id="to either device"),
        pytest.param("model.cuda()", "model.parameters()", None, id="always to CUDA"),
        pytest.param("", "[*model.parameters(), *other.parameters()]", "Linear, Linear: ", id="two models"),
        pytest.param("other.cuda()", "model.parameters()", "unknown-device", id="another model is moved"),
        pytest.param("model.to('mps')", "model.parameters()", "other-accelerator", id="to Apple's GPU"),
        pytest.param("model.to('xpu')", "model.parameters()", "other-accelerator", id="to Intel's"),
        pytest.param("model.to(chosen())", "model.parameters()", "unknown-device", id="somewhere"),
        pytest.param("torch.set_default_device('cuda')", "model.parameters()", "unknown-device", id="by default"),
        pytest.param("", "[torch.ones(2)]", "unknown-model", id="a tensor"),
        pytest.param("", "*given", "unknown-arguments", id="what is not seen"),
    ],
)
def test_stepped_on_cpu(moved: str, given: str, answer: str | None) -> None:
    known = script(CODE.format(moved, given))
    found = stepped_on_cpu(known, known.optimizers[0])

    if isinstance(found, Reason):
        assert found.code == answer
    elif found is None:
        assert answer is None
    else:
        models, test = found
        assert f"{', '.join(each.name.rpartition('.')[2] for each in models)}: {test}" == answer


def test_a_model_that_is_moved_again_and_again_is_left() -> None:
    known = script(CODE.format("", "model.parameters()") + "for _ in range(3):\n    model.to(device)\n")
    found = stepped_on_cpu(known, known.optimizers[0])

    assert isinstance(found, Reason)
    assert found.code == "moved-later"
