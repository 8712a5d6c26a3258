"""What of a whole script mixed precision breaks."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.precision.script_hazards import (
    computes_in_half,
    custom_function,
    data_parallel,
    gradient_hook,
    line_search,
    quasi_newton,
    scripted,
)

HEAD = """\
import torch
from torch import nn
model = nn.Linear(4, 4)
"""


@pytest.mark.parametrize(
    ("check", "yes", "no"),
    [
        pytest.param(
            line_search,
            "torch.optim.LBFGS(model.parameters(), line_search_fn='strong_wolfe')",
            "torch.optim.LBFGS(model.parameters(), line_search_fn=None)",
            id="a search along a line",
        ),
        pytest.param(
            quasi_newton,
            "torch.optim.LBFGS(model.parameters())",
            "torch.optim.SGD(model.parameters()).step(lambda: 0)",
            id="curvature from gradients",
        ),
        pytest.param(
            gradient_hook, "model.register_full_backward_hook(f)", "model.register_forward_hook(f)", id="a hook"
        ),
        pytest.param(
            data_parallel, "nn.DataParallel(model)", "nn.parallel.DistributedDataParallel(model)", id="threads"
        ),
        pytest.param(
            scripted, "run = torch.jit.script(model)\nrun(x)", "run = torch.compile(model)\nrun(x)", id="TorchScript"
        ),
        pytest.param(
            custom_function,
            "class Own(torch.autograd.Function):\n    def forward(ctx, x):\n        return x.pow(2)\nOwn.apply(x)",
            "class Own(torch.autograd.Function):\n    @staticmethod\n    @torch.amp.custom_fwd(device_type='cuda')\n"
            "    def forward(ctx, x):\n        return x\nOwn.apply(x)",
            id="a function of its own",
        ),
        pytest.param(
            custom_function,
            "class Own(torch.autograd.Function):\n    def forward(ctx, x):\n        return x @ torch.sigmoid(x)\nOwn.apply(x)",
            "class Own(torch.autograd.Function):\n    def forward(ctx, x):\n        return x * torch.sigmoid(x)\nOwn.apply(x)",
            id="a function of its own that multiplies matrices",
        ),
    ],
)
def test_what_a_script_does_that_stands_against_it(check: object, yes: str, no: str) -> None:
    assert check(script(HEAD + yes)) is not None  # type: ignore[operator]
    assert check(script(HEAD + no)) is None  # type: ignore[operator]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "class Own(torch.autograd.Function):\n    def forward(ctx, x):\n        return x / 2",
            None,
            id="it is not used",
        ),
        pytest.param(
            "class Own(torch.autograd.Function):\n    def forward(ctx, x):\n        return x / 2\nOwn.apply(x)",
            "Own",
            id="it divides",
        ),
        pytest.param(
            "class Own(nn.Module):\n    def forward(self, x):\n        return x / 2\nOwn()(x)", None, id="it is a model"
        ),
    ],
)
def test_a_function_with_a_backward_of_its_own(text: str, expected: str | None) -> None:
    class_ = custom_function(script(HEAD + text))

    assert (class_ and class_.name) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("@torch.jit.script\ndef f(x):\n    return x", "torch.jit.script", id="a function, decorated"),
        pytest.param("class Net(torch.jit.ScriptModule):\n    pass", "torch.jit.ScriptModule", id="a class"),
        pytest.param("run = torch.jit.trace(model, x)\nrun(x)", "torch.jit.trace(model, x)", id="what is called"),
        pytest.param("run = torch.jit.trace(model, x)\nrun.save('a')", None, id="what is only saved"),
    ],
)
def test_what_torchscript_runs(text: str, expected: str | None) -> None:
    node = scripted(script(HEAD + text))

    assert (node and ast.unparse(node)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", None, id="a layer of matrices"),
        pytest.param("run = nn.DataParallel(model)", "data-parallel", id="threads"),
        pytest.param("model = nn.Sequential(nn.LSTM(4, 4))", "computes-in-fp16", id="a recurrent layer"),
    ],
)
def test_what_computes_in_fp16_whatever_it_is_told(text: str, expected: str | None) -> None:
    known = script(f"{HEAD}{text}\nlast = model\n")
    last = known.module.tree.body[-1].value  # type: ignore[attr-defined]
    reason = computes_in_half(known, known.flow.values(last))

    assert (reason and reason.code) == expected
