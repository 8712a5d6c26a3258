"""Where gradients are zeroed, and whose they are."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.zeroing import (
    ZeroedTensor,
    ZeroGrad,
    ZeroingLoop,
    adds_parameters,
    models_of,
    why_not_torchs,
    zeroings,
)

HEAD = """\
import torch
from torch import nn
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


def found(body: str, **others: str) -> list[ZeroGrad | ZeroingLoop | ZeroedTensor]:
    return list(zeroings(script(HEAD + body, **others)))


def test_a_call_with_what_it_is_called_on() -> None:
    (one,) = found("optimizer.zero_grad()")

    assert isinstance(one, ZeroGrad)
    assert {each.name for each in one.owners} == {"torch.optim.SGD"}
    assert (one.to_zeros, one.is_unpacked, one.twin) == (None, False, "")


@pytest.mark.parametrize("argument", ["set_to_none=False", "False"])
def test_an_argument_that_asks_for_zeros(argument: str) -> None:
    (one,) = found(f"optimizer.zero_grad({argument})")

    assert isinstance(one, ZeroGrad)
    assert one.to_zeros is not None
    assert ast.unparse(one.to_zeros) == argument


def test_arguments_that_are_not_seen() -> None:
    (one,) = found("options = dict()\noptimizer.zero_grad(**options)")

    assert isinstance(one, ZeroGrad)
    assert one.is_unpacked


@pytest.mark.parametrize("argument", ["True", "set_to_none=True", "set_to_none=fast"])
def test_a_call_that_drops_gradients_or_may_is_none(argument: str) -> None:
    assert found(f"optimizer.zero_grad({argument})") == []


def test_what_never_has_gradients_is_not_among_the_owners() -> None:
    (one,) = found("""\
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
def pick(name):
    return {"optimizer": optimizer, "scheduler": scheduler}[name]
pick(name).zero_grad()
""")

    assert isinstance(one, ZeroGrad)
    assert "torch.optim.lr_scheduler.StepLR" not in {each.name for each in one.owners}


def test_of_two_calls_that_zero_the_same_the_model_s_is_the_second() -> None:
    calls = [each for each in found("model.zero_grad()\noptimizer.zero_grad()") if isinstance(each, ZeroGrad)]

    assert [each.twin for each in calls] == ["optimizer.zero_grad()", ""]


def test_a_loop_over_all_parameters_of_a_model() -> None:
    (one,) = found("for p in model.parameters():\n    p.grad.zero_()")

    assert isinstance(one, ZeroingLoop)
    assert one.owner is not None
    assert ast.unparse(one.owner) == "model"
    assert {each.name for each in one.owners} == {"torch.nn.Linear"}


def test_a_loop_over_the_groups_of_an_optimizer_is_known_from_its_outermost() -> None:
    (one,) = found("""\
for group in optimizer.param_groups:
    for p in group["params"]:
        p.grad.zero_()
""")

    assert isinstance(one, ZeroingLoop)
    assert one.outermost is not None
    assert ast.unparse(one.outermost.target) == "group"
    assert {each.name for each in one.owners} == {"torch.optim.SGD"}


def test_a_loop_that_does_more_has_no_owner_as_it_is_written() -> None:
    (one,) = found("for p in model.parameters():\n    p.data -= 0.1 * p.grad\n    p.grad.zero_()")

    assert isinstance(one, ZeroingLoop)
    assert one.owner is None
    assert {each.name for each in one.owners} == {"torch.nn.Linear"}


def test_a_loop_over_what_is_not_known_has_no_owners() -> None:
    (one,) = found("for p in parameters:\n    p.grad.zero_()")

    assert isinstance(one, ZeroingLoop)
    assert one.owners == frozenset()


def test_one_tensor_s_gradient() -> None:
    (one,) = found("image.grad.zero_()")

    assert isinstance(one, ZeroedTensor)


@pytest.mark.parametrize("statement", ["p.grad = None", "p.grad += 0", "p.grad.fill_(1)", "p.zero_()"])
def test_what_is_no_zeroing(statement: str) -> None:
    assert found(f"for p in model.parameters():\n    {statement}") == []


def names(text: str, owner: str = "optimizer") -> list[str] | None:
    known = script(text)
    module = known.module
    node = next(each for each in module.nodes(ast.Name) if each.id == owner and isinstance(each.ctx, ast.Load))
    models = models_of(known, known.flow.values(node))
    return None if models is None else [each.value.name for each in models]


def test_the_models_of_an_optimizer() -> None:
    assert names(HEAD + "optimizer.step()") == ["torch.nn.Linear"]


@pytest.mark.parametrize(
    "parameters",
    ["[model.weight]", "[{'params': model.parameters()}]", "filter(needs, model.parameters())", "given"],
    ids=["a choice", "groups", "a filter", "not known"],
)
def test_the_models_of_an_optimizer_are_not_known_with(parameters: str) -> None:
    assert names(HEAD.replace("model.parameters()", parameters) + "optimizer.step()") is None


def test_models_that_a_loop_makes_are_several() -> None:
    assert (
        names("""\
import torch
for width in (2, 4):
    model = torch.nn.Linear(4, width)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.step()
""")
        is None
    )


def test_parameters_that_another_module_adds() -> None:
    late = "def late(optimizer, layer):\n    optimizer.add_param_group({'params': layer.parameters()})\n"

    added = adds_parameters(script(HEAD + "import late", late=late))

    assert added is not None
    assert added[0].path == "late.py"
    assert adds_parameters(script(HEAD)) is None


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param("optimizer.zero_grad()", None, id="an optimizer of torch"),
        pytest.param("model.zero_grad()", None, id="a model"),
        pytest.param("find().zero_grad()", "unknown-optimizer", id="what is not known"),
        pytest.param(
            "class Mine(torch.optim.SGD):\n    def zero_grad(self):\n        pass\nMine(model.parameters()).zero_grad()",
            "own-method",
            id="the script's own",
        ),
        pytest.param(
            "def step(opt: torch.optim.Optimizer):\n    opt.zero_grad()\nstep(find())", None, id="its type is said"
        ),
        pytest.param(
            "def step(opt: 'optim.Optimizer'):\n    opt.zero_grad()\nstep(find())", None, id="its type is said as text"
        ),
        pytest.param(
            "def step(opt: Other):\n    opt.zero_grad()\nstep(find())", "unknown-optimizer", id="its type is another"
        ),
        pytest.param(
            "from accelerate import Accelerator\naccelerator = Accelerator()\naccelerator.prepare(find()).zero_grad()",
            "framework",
            id="what Accelerate prepared",
        ),
    ],
)
def test_whether_it_is_torch_s(body: str, code: str | None) -> None:
    known = script(HEAD + body)
    (one,) = zeroings(known)

    assert isinstance(one, ZeroGrad)
    reason = why_not_torchs(known, one)
    assert (reason and reason.code) == code


@pytest.mark.parametrize(
    ("functions", "models"),
    [
        pytest.param(
            "def f0():\n    return nn.Linear(4, 2)\n"
            + "".join(f"def f{at}():\n    return f{at - 1}()\n" for at in range(1, 8)),
            ["torch.nn.Linear"],
            id="through many functions",
        ),
        pytest.param(
            "def f0():\n    return f7()\ndef f7():\n    return f0() if flag else nn.Linear(4, 2)\n",
            None,
            id="by functions that call each other",
        ),
    ],
)
def test_whether_a_model_is_one_object(functions: str, models: list[str] | None) -> None:
    made = HEAD.replace("model = nn.Linear(4, 2)", f"{functions}model = f7()")

    assert names(made + "optimizer.step()") == models
