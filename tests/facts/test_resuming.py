"""Which loads of a checkpoint can be told how an optimizer steps?"""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.reason import Reason
from codemods.facts.training.resuming import loads

HEAD = """\
import torch
from torch import nn
model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("", [], id="none"),
        pytest.param("optimizer.load_state_dict(state)", [("state", True, "saved")], id="a name"),
        pytest.param("optimizer.load_state_dict(x['a'][0])", [("x['a'][0]", True, "state")], id="an item"),
        pytest.param("optimizer.load_state_dict(f())", [("f()", False, "state")], id="a call"),
        pytest.param("optimizer.load_state_dict(x[f()])", [("x[f()]", False, "state")], id="an item that is computed"),
        pytest.param("x = optimizer.load_state_dict(f())", "checkpoint-loaded", id="more than a statement"),
        pytest.param(
            "try:\n    optimizer.load_state_dict(state)\nexcept AttributeError:\n    pass",
            "checkpoint-loaded",
            id="what fails is caught",
        ),
        pytest.param(
            "try:\n    optimizer.load_state_dict(state)\nexcept KeyboardInterrupt:\n    pass",
            [("state", True, "saved")],
            id="where an interrupt alone is caught",
        ),
        pytest.param(
            "try:\n    optimizer.load_state_dict(state)\nfinally:\n    print(3)",
            [("state", True, "saved")],
            id="where nothing is caught",
        ),
        pytest.param("resume(optimizer)", "checkpoint-loaded", id="a function that was not read"),
    ],
)
def test_which_loads_can_be_told(body: str, expected: list[tuple[str, bool, str]] | str) -> None:
    known = script(HEAD + body)

    found = loads(known, list(known.optimizers))

    if isinstance(found, Reason):
        assert found.code == expected
    else:
        assert [(ast.unparse(each.state), each.is_named, each.name) for each in found] == expected


def test_the_module_that_loads_is_another() -> None:
    known = script(
        HEAD + "from other import load\nload(optimizer)\n",
        other="def load(optimizer):\n    optimizer.load_state_dict(3)\n",
    )

    found = loads(known, list(known.optimizers))

    assert isinstance(found, Reason)
    assert [each.module.path for each in found.places] == ["other.py"]
