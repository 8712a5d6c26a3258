from __future__ import annotations

import pytest
from probe import script

from codemods.facts.target import Target

DEMANDS = {
    'assert torch.__version__ == "1.3.1"': ((1, 3), (1, 4)),
    'assert torch.__version__.startswith("0.4")': ((0, 4), (0, 5)),
    'assert torch.__version__.startswith("1.")': (None, (2, 0)),
    'assert torch.__version__.split(".")[0] == "1"': (None, (2, 0)),
    'assert int(torch.__version__.split(".")[0]) == 1, "torch 1"': (None, (2, 0)),
    'assert torch.__version__[0] == "1"': (None, (2, 0)),
    'assert int(torch.__version__.split(".")[0]) >= 2': ((2, 0), None),
    'assert torch.__version__ < "1.5"': (None, (1, 5)),
    'assert torch.__version__ <= "1.4.0"': (None, (1, 5)),
    'assert "1.7" > torch.__version__': (None, (1, 7)),
    'assert torch.__version__ >= "1.0"': (None, None),
    'assert torch.__version__ >= "2.1"': ((2, 1), None),
    'assert torch.__version__ != "1.5"': (None, None),
    'assert LooseVersion(torch.__version__) < LooseVersion("2.0")': (None, (2, 0)),
    'assert version.parse(torch.__version__) >= version.parse("2.2.1")': ((2, 2), None),
    "assert version.parse(torch.__version__).major == 1": (None, (2, 0)),
    'if torch.__version__ < "2.1":\n    raise RuntimeError("too old")': ((2, 1), None),
    'if not torch.__version__.startswith("1.3"):\n    raise RuntimeError': ((1, 3), (1, 4)),
    'if torch.__version__ >= "2":\n    print("new")': (None, None),
    "assert torch.__version__ in known": (None, None),
    'assert numpy.__version__ < "1.5"': (None, None),
    "assert torch.cuda.is_available()": (None, None),
}
HEAD = """\
from distutils.version import LooseVersion
import numpy
import torch
from packaging import version
known = []
"""


@pytest.mark.parametrize(("statement", "bounds"), DEMANDS.items(), ids=list(DEMANDS))
def test_what_a_script_demands_of_torch(statement: str, bounds: tuple[object, object]) -> None:
    found = script(f"{HEAD}{statement}\n").target

    assert (found.known, found.below) == bounds


def test_where_it_demands_that_is_said() -> None:
    found = script(f'{HEAD}assert torch.__version__ < "1.5"\n').target

    assert found.source == "train.py, line 6: torch.__version__ < '1.5'"


@pytest.mark.parametrize(
    ("told", "bounds"),
    [
        pytest.param(Target((1, 2), None, "requirements.txt"), ((1, 2), (1, 5)), id="both are known"),
        pytest.param(Target(None, (1, 4), "requirements.txt"), (None, (1, 4)), id="the nearer bound counts"),
        pytest.param(Target((2, 4)), ((2, 4), None), id="the user knows better"),
    ],
)
def test_what_it_demands_narrows_what_is_told(told: Target, bounds: tuple[object, object]) -> None:
    known = script(f'{HEAD}assert torch.__version__ < "1.5"\n')
    found = known.seen_from(known.module, told).target

    assert (found.known, found.below) == bounds


@pytest.mark.parametrize(
    ("statement", "since"),
    [
        ("model = torch.compile(model)", (2, 0)),
        ("if hasattr(torch, 'compile'):\n    model = torch.compile(model)", (2, 0)),
        ("from torch.func import vmap", (2, 0)),
        ("from torchvision.transforms import v2", (2, 0)),
        ("scaler = torch.amp.GradScaler('cuda')", (2, 3)),
        ("model = torch.nn.Linear(4, 4)", (0, 0)),
        ("model = torch.nn.Linear(4, 4)\nmodel.compile()", (2, 1)),
        ("class Net(torch.nn.Module):\n    pass\nnet = Net()\nnet.compile()", (2, 1)),
        ("class Net(torch.nn.Module):\n    def compile(self): pass\nnet = Net()\nnet.compile()", (0, 0)),
        ("class Keras:\n    pass\nnet = Keras()\nnet.compile()", (0, 0)),
        ("torch.backends.cuda.enable_flash_sdp(False)", (2, 0)),
        ("import re\nre.compile('a')", (0, 0)),
        pytest.param("torch.optim.Adam([], fused=True)", (2, 0), id="a fused step"),
        pytest.param("torch.optim.SGD([], lr=1, fused=True)", (2, 3), id="a fused step of an optimizer that had none"),
        pytest.param("torch.optim.Adam([])", (0, 0), id="a plain step"),
    ],
)
def test_what_torch_2_brought_is_known(statement: str, since: tuple[int, int]) -> None:
    assert script(f"{HEAD}{statement}\n").newest_used == since
