"""What does ``torchfast facts`` print."""

from __future__ import annotations

import pytest
from probe import facts, script

from codemods.facts.describe import facts_by_line

HEAD = "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n"


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        pytest.param(
            "model = nn.Linear(3, 4)",
            ["model: torch.nn.Linear; every parameter gets a gradient", "size: 16 parameters"],
            id="a model",
        ),
        pytest.param(
            "optimizer = torch.optim.SGD([torch.zeros(3)], lr=1)",
            [
                "optimizer: torch.optim.SGD",
                "parameters: not all that it steps is known to be parameters of models: it is given a tensor",
            ],
            id="an optimizer",
        ),
        pytest.param("device = torch.device('cuda')", ["device: torch.device('cuda') is always CUDA"], id="a device"),
        pytest.param("x = torch.zeros(3).cuda()", ["transfer: torch.zeros(3) (host) to always CUDA"], id="a move"),
        pytest.param(
            "x = (torch.zeros(3) + torch.ones(3)).cuda()",
            ["transfer: torch.zeros(3) + torch.ones(3) (tensor) to always CUDA"],
            id="a move of what is not known to be on the host",
        ),
        pytest.param("print(1)", [], id="nothing"),
    ],
)
def test_what_is_said_of_a_line(statement: str, expected: list[str]) -> None:
    assert facts(HEAD + statement).get(4, []) == expected


def test_what_concerns_the_whole_script_is_said_at_its_first_line() -> None:
    found = facts("from accelerate import Accelerator\naccelerator = Accelerator()\n")

    assert any(each.startswith("framework: ") for each in found[1])


def test_only_the_script_that_is_asked_for_is_described() -> None:
    assert facts("import other\n", other=HEAD + "model = nn.Linear(3, 4)\n") == {}


def test_they_are_in_the_order_of_the_lines() -> None:
    known = script(f"{HEAD}model = nn.Linear(3, 4)\nloader = DataLoader([1])\nmodel.cuda()\n")
    lines = [line for line, _ in facts_by_line(known)]

    assert lines == sorted(lines)
    assert len(lines) > 2


def test_a_loader_that_outlives_the_script_is_said_to() -> None:
    found = facts(f"{HEAD}loader = DataLoader([1])\n")

    assert "at exit: 'loader' still refers to the loader (line 4)" in found[4]
