"""Which device an expression names."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.devices.devices import DeviceKind, asks_for_device

HEAD = """\
import torch
from torch import nn
from torchvision.models import resnet18
from transformers import AutoModel

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    @property
    def device(self):
        return next(self.parameters()).device

    def predict(self, x):
        return self.fc(torch.zeros(3).to(self.device))

"""
ON_CUDA = "model.cuda()\n"
CHOSEN = 'model.to("cuda" if torch.cuda.is_available() else "mps")\n'


@pytest.mark.parametrize(
    ("code", "kind", "names"),
    [
        pytest.param(
            "model = resnet18()\n" + ON_CUDA + "torch.zeros(3).to(next(model.parameters()).device)",
            DeviceKind.CONDITIONAL,
            {"cuda", "cpu"},
            id="of a parameter of a model",
        ),
        pytest.param(
            "model = resnet18()\n" + CHOSEN + "torch.zeros(3).to(next(model.parameters()).device)",
            DeviceKind.CONDITIONAL,
            {"cuda", "mps", "cpu"},
            id="of a model that is moved to what there is",
        ),
        pytest.param(
            "model = Net()\n" + ON_CUDA + "torch.zeros(3).to(model.device)",
            DeviceKind.CONDITIONAL,
            {"cuda", "cpu"},
            id="a property of the model",
        ),
        pytest.param(
            'model = AutoModel.from_pretrained("x")\n' + ON_CUDA + "torch.zeros(3).to(model.device)",
            DeviceKind.CONDITIONAL,
            {"cuda", "cpu"},
            id="an attribute of a model of Transformers",
        ),
        pytest.param(
            "model = resnet18().cuda()\ntorch.zeros(3).to(next(model.parameters()).device)",
            DeviceKind.CUDA,
            {"cuda"},
            id="of a model that is moved where it is made",
        ),
        pytest.param(
            "model = resnet18().cuda()\nmodel.cpu()\ntorch.zeros(3).to(next(model.parameters()).device)",
            DeviceKind.CONDITIONAL,
            {"cuda", "cpu"},
            id="of a model that is moved back",
        ),
        pytest.param(
            "model = resnet18()\nmodel.to(torch.float64)\ntorch.zeros(3).to(next(model.parameters()).device)",
            DeviceKind.UNKNOWN,
            {"(unknown)"},
            id="of a model that is nowhere moved",
        ),
        pytest.param(
            "model = resnet18()\nother = resnet18().cuda()\ntorch.zeros(3).to(next(model.parameters()).device)",
            DeviceKind.UNKNOWN,
            {"(unknown)"},
            id="another model is moved",
        ),
    ],
)
def test_the_device_of_a_model_is_where_it_is_moved_to(code: str, kind: DeviceKind, names: set[str]) -> None:
    *_, move = script(HEAD + code).transfers

    assert (move.device.kind, move.device.names) == (kind, frozenset(names))


def test_the_device_of_self_is_that_of_the_objects_of_its_class() -> None:
    move, *_ = script(HEAD + "model = Net()\nmodel.cuda()\n").transfers

    assert move.device.kind is DeviceKind.CONDITIONAL


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        pytest.param("torch.cuda.is_available()", True, id="CUDA"),
        pytest.param("torch.backends.mps.is_available()", True, id="another device"),
        pytest.param('device.type == "xpu"', True, id="its name"),
        pytest.param('device.type == "cuda" and not args.no_cuda', True, id="twice"),
        pytest.param('device.type == "cuda" and step % 10 == 0', False, id="and something else"),
        pytest.param('mode == "train"', False, id="another name"),
        pytest.param("step % 10 == 0", False, id="something else"),
    ],
)
def test_what_asks_for_the_device_alone(test: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    known = script(f"import torch\nif {test}:\n    pass\n")
    (statement,) = known.module.nodes(ast.If)

    assert asks_for_device(known.flow, statement.test) is expected


RANK = "from torch import distributed\nrank = distributed.get_rank()\n"


@pytest.mark.parametrize(
    "index",
    [
        pytest.param("rank % torch.cuda.device_count()", id="of the process"),
        pytest.param("int(os.environ['RANK']) % count", id="of the environment"),
        pytest.param("args.rank % count", id="which the user chooses"),
        pytest.param("int(os.environ['LOCAL_RANK'])", id="of the environment alone"),
    ],
)
def test_the_rank_among_the_gpus_is_the_index_of_one(index: str) -> None:
    options = "import argparse, os\nparser = argparse.ArgumentParser()\nparser.add_argument('--rank', type=int)\n"
    code = f"{options}args = parser.parse_args()\ncount = torch.cuda.device_count()\ndevice = {index}\n"
    *_, move = script(f"{HEAD}{RANK}{code}torch.ones(3).to(device)").transfers

    assert (move.device.kind, move.device.names) == (DeviceKind.CUDA, frozenset({"cuda"}))


@pytest.mark.parametrize(
    "index",
    [
        pytest.param("rank % len(names)", id="of another count"),
        pytest.param("rank + torch.cuda.device_count()", id="another operation"),
        pytest.param("torch.ones(3) % torch.cuda.device_count()", id="of a tensor"),
    ],
)
def test_what_else_is_computed_is_no_index_of_a_gpu(index: str) -> None:
    code = f"import sys\nnames = sys.argv\ndevice = {index}\n"
    *_, move = script(f"{HEAD}{RANK}{code}torch.ones(3).to(device)").transfers

    assert move.device.kind is DeviceKind.UNKNOWN
