"""Under which condition an iteration runs on CUDA."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.devices.conditions import Conditions
from codemods.facts.devices.cuda_condition import CudaCondition
from codemods.facts.reach import Reach

HEAD = """\
import argparse
import torch
from torch import nn
args = argparse.ArgumentParser().parse_args()
model = nn.Linear(4, 2)
"""


def at_end(body: str) -> CudaCondition | None:
    """The condition as the last statement of the script can say it, or the last of its last function."""
    known = script(HEAD + body)
    last = known.module.tree.body[-1]
    place = last.body[-1] if hasattr(last, "body") else last
    return Conditions.of_script(known).at(place)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("model.cuda()\nprint(1)", CudaCondition(None), id="always"),
        pytest.param(
            "device = 'cuda:1'\nmodel.to(device)\nprint(1)",
            CudaCondition(None, "device"),
            id="always on the second device",
        ),
        pytest.param("if args.cuda:\n    model.cuda()\nprint(1)", CudaCondition("args.cuda"), id="a flag"),
        pytest.param(
            "if not args.no_cuda:\n    model.cuda()\nprint(1)",
            CudaCondition("not args.no_cuda"),
            id="a flag against it",
        ),
        pytest.param(
            "if not args.cuda:\n    pass\nelse:\n    model.cuda()\nprint(1)", CudaCondition("args.cuda"), id="the else"
        ),
        pytest.param(
            "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\nmodel.to(device)\nprint(1)",
            CudaCondition("device.type == 'cuda'", "device"),
            id="a device",
        ),
        pytest.param(
            "if torch.cuda.is_available():\n    model.cuda()\nprint(1)",
            CudaCondition("torch.cuda.is_available()"),
            id="where there is one",
        ),
        pytest.param("model.to('cpu')\nprint(1)", None, id="never"),
        pytest.param("print(1)", None, id="nothing is moved"),
    ],
)
def test_how_the_script_says_that_it_runs_on_cuda(body: str, expected: CudaCondition | None) -> None:
    assert at_end(body) == expected


def test_a_name_that_is_not_bound_there_is_not_used() -> None:
    body = """\
def main():
    use_cuda = torch.cuda.is_available() and args.gpu
    if use_cuda:
        model.cuda()
def train():
    print(1)
"""

    assert at_end(body) == CudaCondition("torch.cuda.is_available()")


def test_a_parameter_that_the_function_hands_on() -> None:
    body = """\
def main():
    train(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
def train(device):
    model.to(device)
    print(device)
"""

    assert at_end(body) == CudaCondition('device.type == "cuda"', "device")


def test_of_code_only_the_moves_count_that_it_depends_on() -> None:
    known = script(HEAD + "other = nn.Linear(4, 2)\nother.cuda()\nif args.cuda:\n    model.cuda()\nmodel(1)\n")
    last = known.module.tree.body[-1]
    every = Conditions.of_script(known)
    model = known.models[0]

    assert every.at(last) == CudaCondition(None)
    assert every.of_code(Reach(known.flow), [last], frozenset({model.value})).at(last) == CudaCondition("args.cuda")


def test_why_nothing_is_known() -> None:
    known = script(HEAD + "model.to(choose())\n")
    found = Conditions.of_script(known)

    assert not found.are_about_cuda
    assert found.why_not is not None
    assert found.why_not.code == "unknown-device"
    assert Conditions.of_script(script(HEAD + "model.to('cpu')\n")).why_not is None


@pytest.mark.parametrize(
    ("condition", "is_name", "operand"),
    [
        (CudaCondition("use_cuda"), True, "use_cuda"),
        (CudaCondition("args.cuda"), True, "args.cuda"),
        (CudaCondition("a or b"), False, "(a or b)"),
        (CudaCondition("a if b else c"), False, "(a if b else c)"),
        (CudaCondition("device.type == 'cuda'"), False, "device.type == 'cuda'"),
        (CudaCondition(None), False, ""),
    ],
)
def test_how_it_stands_beside_and(condition: CudaCondition, is_name: bool, operand: str) -> None:  # noqa: FBT001 - expected
    assert (condition.is_name, condition.operand) == (is_name, operand)
