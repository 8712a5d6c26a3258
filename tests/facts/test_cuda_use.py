"""Does the script use CUDA, and does it capture graphs of CUDA's?"""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.devices.cuda_use import capture, no_cuda, unknown_device

HEAD = """\
import torch
from torch import nn
model = nn.Linear(4, 4)
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("g = torch.cuda.CUDAGraph()", "g", id="a graph that is made"),
        pytest.param("with torch.cuda.graph(g):\n    model(x)", "torch.cuda.graph", id="a graph that is filled"),
        pytest.param(
            "from torch.cuda import make_graphed_callables as graphed\nrun = graphed(model, (x,))",
            "run",
            id="by another name",
        ),
        pytest.param("graph = cuda(model)", None, id="the words alone"),
        pytest.param("torch.cuda.synchronize()", None, id="something else of CUDA's"),
    ],
)
def test_what_captures_a_graph(text: str, expected: str | None) -> None:
    reason = capture(script(HEAD + text))

    assert (None if reason is None else ast.unparse(reason.places[0].nodes[0])) == expected
    assert reason is None or reason.code == "captured"


def test_what_captures_a_graph_in_another_module() -> None:
    reason = capture(script("import graphs\n", graphs="import torch\nstep = torch.cuda.graph(None)  # of cuda\n"))

    assert reason is not None
    assert [place.module.path for place in reason.places] == ["graphs.py"]


def test_what_is_said_where_nothing_is_moved() -> None:
    assert no_cuda(script(HEAD)).code == "no-cuda"
    assert no_cuda(script(f"{HEAD}torch.set_default_device('cuda')\n")).code == "unknown-device"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("model.to(choose())", "choose()", id="what chooses is not known"),
        pytest.param("model.to('cuda')\nmodel.to(find())", "find()", id="one of two"),
        pytest.param("model.to('cuda')", None, id="CUDA"),
        pytest.param("model.to('cpu')", None, id="the host"),
        pytest.param("print(model)", None, id="it is not moved"),
    ],
)
def test_which_device_is_not_known(text: str, expected: str | None) -> None:
    known = script(
        HEAD + f"for x in torch.zeros(8, 4):\n    {text.replace('model', 'x').replace(chr(10), chr(10) + '    ')}\n"
    )
    reason = unknown_device(known, known.transfers)

    assert (None if reason is None else reason.text.partition(" (")[0]) == (
        None if expected is None else f"whether {expected} is a CUDA device is not known"
    )
