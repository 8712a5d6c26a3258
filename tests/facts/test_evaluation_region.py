"""What is known of code that only evaluates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from probe import script

if TYPE_CHECKING:
    from codemods.facts.training.evaluation_region import EvaluationRegion

LOOP = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for x, y in loader:
        model(x).sum().backward()
    test(model)
"""


def region(model: str, run: str = LOOP, **others: str) -> EvaluationRegion:
    known = script(
        f"""import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
    def forward(self, x):
        self.last = self.layer(x)
        return self.last
def test(model):
    for x, y in loader:
        print(model(x).argmax(1))
model = {model}
{run}""",
        **others,
    )
    (found,) = known.evaluations
    return found


def test_its_node_is_the_function() -> None:
    found = region("nn.Linear(4, 2)")

    assert found.function is not None
    assert found.node is found.function
    assert [each.value.name for each in found.models] == ["torch.nn.Linear"]


@pytest.mark.parametrize(
    ("model", "is_exact"),
    [
        pytest.param("nn.Linear(4, 2)", True, id="a layer"),
        pytest.param("nn.TransformerEncoderLayer(4, 2)", False, id="a layer that has a faster path without gradients"),
        pytest.param("make()", False, id="a model that is not known"),
    ],
)
def test_whether_it_computes_the_same_bits(model: str, is_exact: bool) -> None:  # noqa: FBT001 - the expectation itself
    assert region(model).is_exact is is_exact


def test_models_keep_tensors_that_training_reads() -> None:
    found = region("Net()", LOOP + "    print(model.last)\n")

    assert [each.module.path for each in found.kept] == ["train.py"]
    assert found.why_not is not None
    assert found.why_not.code == "graph-escapes"


PUT_IN = (
    "keeping = Net()\n{}\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    + LOOP
    + ("    keeping.last.sum().backward()\n")
)


@pytest.mark.parametrize(
    ("put", "is_run"),
    [
        pytest.param("model[0] = keeping", True, id="in the place of a layer"),
        pytest.param("model.head = nn.Sequential(keeping, nn.ReLU())", True, id="with others, as an attribute"),
        pytest.param("model[0] = nn.Linear(4, 2)", False, id="another layer is put in"),
        pytest.param("rows = [0]\nrows[0] = 2", False, id="something else gets an item"),
    ],
)
def test_a_model_that_keeps_tensors_may_be_put_into_another_one(put: str, is_run: bool) -> None:  # noqa: FBT001
    found = region("nn.Sequential(nn.Linear(4, 2))", PUT_IN.format(put))

    assert (found.why_not is not None) is is_run


def test_what_another_script_keeps_is_no_obstacle() -> None:
    known = script(
        "from torch import nn\nmodel = nn.Linear(4, 2)\nmodel.register_forward_hook(keep)\n",
        other="""\
from torch import nn
model = nn.Linear(4, 2)
def test():
    for x in data:
        print(model(x).argmax(1))
for epoch in range(3):
    test()
""",
    )
    (found,) = known.whole.evaluations
    other = known.modules[1]

    assert found.why_not is None
    assert found.beside([other]).why_not is None
    kept = found.beside(known.modules).why_not
    assert kept is not None
    assert kept.code == "graph-escapes"


CHAIN = "".join(f"def f{at}(model, x):\n    return f{at - 1}(model, x)\n" for at in range(1, 7))


@pytest.mark.parametrize(
    ("functions", "is_exact"),
    [
        pytest.param(f"def f0(model, x):\n    return model(x)\n{CHAIN}", True, id="however many functions"),
        pytest.param(
            f"other = nn.TransformerEncoderLayer(4, 2)\ndef f0(model, x):\n    return other(x)\n{CHAIN}",
            False,
            id="another model",
        ),
        pytest.param(
            "def f6(model, x, n=3):\n    return f6(model, x, n - 1) if n else model(x)\n",
            True,
            id="a function that calls itself",
        ),
    ],
)
def test_whether_functions_of_functions_run_exact_models(functions: str, is_exact: bool) -> None:  # noqa: FBT001
    run = LOOP.replace("    test(model)", "    with torch.no_grad():\n        f6(model, x)\n    test(model)")
    known = script(
        f"import torch\nfrom torch import nn\n{functions}def test(model):\n    for x, y in loader:\n"
        f"        print(f6(model, x).argmax(1))\nmodel = nn.Linear(4, 2)\n{run}"
    )

    assert {each.is_exact for each in known.evaluations if each.function is not None} == {is_exact}
