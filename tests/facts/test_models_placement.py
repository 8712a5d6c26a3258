"""Where is a model on its device, and can be named."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.facts.models.placement import Home, home, moves, unknown_models, unwrapped

if TYPE_CHECKING:
    from codemods.facts.reason import Reason

HEAD = """\
import torch
from torch import nn
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""


def place(body: str, **others: str) -> Home | Reason | None:
    """The home of the script's first model."""
    known = script(HEAD + body, **others)
    return home(known.flow, known.modules, known.models[0].value)


@pytest.mark.parametrize(
    ("body", "anchor", "name"),
    [
        pytest.param("model = nn.Linear(3, 3).cuda()\n", "model = nn.Linear(3, 3).cuda()", "model", id="made there"),
        pytest.param("model = nn.Linear(3, 3)\nmodel.to(device)\n", "model.to(device)", "model", id="moved later"),
        pytest.param(
            "model = nn.Linear(3, 3)\nmodel = model.to(device)\n", "model = model.to(device)", "model", id="named anew"
        ),
        pytest.param(
            "model = nn.Linear(3, 3, device='cuda')\n",
            "model = nn.Linear(3, 3, device='cuda')",
            "model",
            id="by device=",
        ),
        pytest.param(
            "model = nn.Linear(3, 3)\nmodel.train()\nif c:\n    model.cuda(0)\nelse:\n    model.cuda(1)\n",
            "model = nn.Linear(3, 3)",
            "model",
            id="made above a choice of which each arm moves it",
        ),
        pytest.param(
            "model = nn.Linear(3, 3)\nif c:\n    model = other\nif d:\n    model.cuda(0)\nelse:\n    model.cuda(1)\n",
            "if d:\n    model.cuda(0)\nelse:\n    model.cuda(1)",
            "model",
            id="perhaps another before such a choice",
        ),
        pytest.param(
            "model = nn.Linear(3, 3)\nif c:\n    model.cuda()\n    raise ValueError\nmodel.to(device)\n",
            "model.to(device)",
            "model",
            id="not where an error ends the script",
        ),
        pytest.param(
            "model = nn.Linear(3, 3)\nmodel = nn.SyncBatchNorm.convert_sync_batchnorm(model)\nmodel.cuda()\n",
            "model.cuda()",
            "model",
            id="moved after its layers were replaced",
        ),
        pytest.param(
            "models = {'a': nn.Linear(3, 3).to(device)}\nmodels['a'].to(device)\n",
            "models['a'].to(device)",
            "models['a']",
            id="an item",
        ),
    ],
)
def test_the_statement_after_which_it_is_on_its_device(body: str, anchor: str, name: str) -> None:
    found = place(body)

    assert isinstance(found, Home)
    assert (ast.unparse(found.anchor), ast.unparse(found.name)) == (anchor, name)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param("model = nn.Linear(3, 3)\n", None, id="it is not moved"),
        pytest.param("model = nn.Linear(3, 3)\nmodel.to('cpu')\n", None, id="it stays on the host"),
        pytest.param("model = nn.Linear(3, 3)\nmodel.to(torch.float16)\n", None, id="a number format"),
        pytest.param(
            "model = nn.Linear(3, 3)\nmodel.to(choose())\n", "unknown-device", id="a device that is not known"
        ),
        pytest.param("run(nn.Linear(3, 3).cuda())\n", "no-name", id="it has no name"),
        pytest.param(
            "for i in range(3):\n    model = nn.Linear(3, 3).cuda()\n    train(model)\n",
            "made-in-loop",
            id="one of several",
        ),
    ],
)
def test_there_is_no_such_statement(body: str, code: str | None) -> None:
    found = place(body)

    assert not isinstance(found, Home)
    assert (None if found is None else found.code) == code


def test_a_function_of_another_module_moves_it() -> None:
    found = place(
        "import tools\nmodel = tools.make()\n",
        tools="from torch import nn\ndef make():\n    net = nn.Linear(3, 3)\n    net.cuda()\n    return net\n",
    )

    assert isinstance(found, Home)
    assert found.module.path == "tools.py"


def test_the_moves_of_a_model_and_of_its_own_methods() -> None:
    known = script(f"""{HEAD}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.to(device)
net = Net()
net.cuda()
other = nn.Linear(3, 3)
other.cuda()
""")
    found = moves(known.flow, known.modules, known.models[0].value)

    assert [ast.unparse(each.call) for each in found] == ["self.to(device)", "net.cuda()"]


def test_the_model_in_a_wrapper() -> None:
    known = script(f"{HEAD}model = nn.DataParallel(module=nn.parallel.DistributedDataParallel(nn.Linear(3, 3)))\n")
    (value,) = known.flow.values(known.module.tree.body[-1].value)  # type: ignore[attr-defined]

    assert [each.name for each in unwrapped(known.flow, value)] == ["torch.nn.Linear"]


def test_what_may_be_a_model_for_all_that_is_known() -> None:
    known = script(f"{HEAD}import library\nnet = library.make()\nnet.cuda()\ntorch.optim.SGD(net.parameters(), lr=1)\n")

    assert [name for name, _ in unknown_models(known.flow, known.modules)] == ["net"]
