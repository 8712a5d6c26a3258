"""Which layers optimizers step, and which layers backwards reach."""

from __future__ import annotations

import ast

import pytest
from iteration import looped, scaling

from codemods.amp.owners import parameters_of

LOSS, STEP = "loss = model(x).mean()\n    loss.backward()", "optimizer.step()"


def names(layers: object) -> set[str]:
    """The classes of layers."""
    return {each.name.rpartition(".")[2] for each in layers}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param("model.parameters()", {"Sequential", "Linear", "ReLU"}, id="all of a model"),
        pytest.param("model[0].parameters()", {"Linear", "ReLU"}, id="one of its layers, whichever"),
        pytest.param("[*model.parameters(), *other.parameters()]", {"Sequential", "Linear", "ReLU"}, id="two models"),
        pytest.param("[{'params': other.parameters()}]", {"Linear"}, id="a group"),
        pytest.param("(p for n, p in other.named_parameters())", {"Linear"}, id="by their names"),
        pytest.param("[x]", set(), id="a tensor"),
        pytest.param("[[*other.parameters()]]", {"Linear"}, id="a list in a list"),
        pytest.param("(p for p in find(other.parameters()))", {"Linear"}, id="what a function may choose of them"),
        pytest.param("find(other.buffers())", set(), id="what are no parameters"),
    ],
)
def test_what_an_optimizer_owns(given: str, expected: set[str]) -> None:
    known = scaling(f"own = torch.optim.Adam({given})\n" + looped(LOSS, "own.step()"))
    (step,) = known.steps
    (value,) = step.values

    assert names(known.owners.owned(value)) == expected
    assert ast.unparse(parameters_of(value) or ast.Constant(None)) == given


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        pytest.param("other.requires_grad_(False)", {"Linear"}, id="by the model's method"),
        pytest.param("for p in other.parameters():\n    p.requires_grad = False", {"Linear"}, id="one by one"),
        pytest.param("other.requires_grad_(False)\nother.requires_grad_(True)", set(), id="and otherwise later"),
        pytest.param(
            "if quick:\n    for p in other.parameters():\n        p.requires_grad = False", {"Linear"}, id="perhaps"
        ),
        pytest.param(
            "for p in other.parameters():\n    if p.dim() > 1:\n        p.requires_grad = False",
            set(),
            id="some of them",
        ),
        pytest.param("for p in other.parameters():\n    p.requires_grad = flag", set(), id="as a flag says"),
        pytest.param("pass", set(), id="nothing is said"),
    ],
)
def test_what_is_frozen(told: str, expected: set[str]) -> None:
    assert names(scaling(f"{told}\n" + looped(LOSS, STEP)).owners.frozen) == expected


def test_what_a_backward_reaches() -> None:
    known = scaling(looped("loss = other(x).mean()", "loss.backward()", STEP))

    assert [names(known.owners.called(each)) for each in known.phases] == [{"Linear"}]


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        pytest.param("loss = model(x).mean()", False, id="always the same"),
        pytest.param("loss = (model(x) if quick else other(x)).mean()", True, id="one of two"),
        pytest.param("y = model(x)\n    if quick:\n        y = other(x)\n    loss = y.mean()", True, id="in a branch"),
        pytest.param(
            "y = model(x)\n    if quick:\n        y = y + 1\n    loss = y.mean()", False, id="a branch without a model"
        ),
    ],
)
def test_whether_a_condition_chooses_the_model(loss: str, *, expected: bool) -> None:
    known = scaling(looped(loss, "loss.backward()", STEP))

    assert [known.owners.chooses_model(each) for each in known.phases] == [expected]


@pytest.mark.parametrize(("calls", "expected"), [(1, False), (2, True)])
def test_what_a_function_makes_that_is_called_twice(calls: int, *, expected: bool) -> None:
    making = "def make():\n    return torch.optim.SGD(model.parameters(), lr=0.1)\n"
    known = scaling(making + "own = make()\n" * calls + looped(LOSS, "own.step()"))
    (value,) = known.steps[0].values

    assert known.owners.is_made_again(value) is expected


def test_of_self_it_is_the_object_that_the_iteration_calls() -> None:
    text = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)
        self.own = torch.optim.SGD(self.parameters(), lr=0.1)

    def forward(self, x):
        return self.layer(x)


net = Net().cuda()
for x in torch.randn(6, 16, 8).cuda():
    loss = net(x).mean()
    loss.backward()
    net.own.step()
"""
    known = scaling(text)
    (value,) = known.steps[0].values

    assert names(known.owners.owned(value)) == {"Net", "Linear"}
    assert known.owners.owned(value) == known.owners.called(known.phases[0])
