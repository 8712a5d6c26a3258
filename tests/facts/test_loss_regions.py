"""Which code computes the loss of a backward."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.loss_regions import Phase, Phases

HEAD = """\
import torch
from torch import nn
model = nn.Linear(4, 1)
head = nn.Linear(1, 1)
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


def phases(body: str, head: str = HEAD, **others: str) -> list[Phase]:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    known = script(f"{head}for x, y in data:\n{lines}", **others)
    return list(Phases(known).all)


def region(body: str) -> tuple[list[str], bool]:
    """The statements that compute the loss of the only backward, and whether that does, too."""
    (phase,) = phases(body)
    assert phase.why_not is None
    return [ast.unparse(each) for each in phase.region], phase.is_inline


@pytest.mark.parametrize(
    ("body", "expected", "inline"),
    [
        pytest.param(
            "loss = criterion(model(x), y)\nloss.backward()",
            ["loss = criterion(model(x), y)"],
            False,
            id="one statement",
        ),
        pytest.param(
            "x = x * 2\nout = model(x)\nloss = criterion(out, y)\noptimizer.zero_grad()\nloss.backward()",
            ["out = model(x)", "loss = criterion(out, y)"],
            False,
            id="from the call of the model to the loss",
        ),
        pytest.param(
            "out = model(x)\ny = y + 1\nloss = criterion(out, y)\nloss.backward()",
            ["out = model(x)", "y = y + 1", "loss = criterion(out, y)"],
            False,
            id="what stands between, too",
        ),
        pytest.param(
            "out = model(x)\ncriterion(out, y).backward()", ["out = model(x)"], True, id="the rest is in the backward"
        ),
        pytest.param("criterion(model(x), y).backward()", [], True, id="all is in the backward"),
        pytest.param(
            "a = model(x).sum()\nb = model(y).sum()\n(a + b).backward()",
            ["a = model(x).sum()", "b = model(y).sum()"],
            False,
            id="a sum of losses",
        ),
        pytest.param(
            "losses = {}\nlosses['a'] = model(x).sum()\nlosses['b'] = model(y).sum()\nloss = sum(losses.values())\n"
            "loss.backward()",
            [
                "losses['a'] = model(x).sum()",
                "losses['b'] = model(y).sum()",
                "loss = sum(losses.values())",
            ],
            False,
            id="the items of a dict",
        ),
        pytest.param(
            "losses = []\nlosses.append(model(x).sum())\ntorch.stack(losses).sum().backward()",
            ["losses.append(model(x).sum())"],
            False,
            id="a list that is appended to",
        ),
        pytest.param(
            "out = model(x)\nloss = criterion(out, y)\nif len(x):\n    loss.backward()",
            ["out = model(x)", "loss = criterion(out, y)"],
            False,
            id="the backward is under a condition",
        ),
    ],
)
def test_the_statements_of_a_loss(body: str, expected: list[str], inline: bool) -> None:  # noqa: FBT001 - expected, too
    assert region(body) == (expected, inline)


def test_a_step_parts_two_losses() -> None:
    found = phases("""\
first = model(x).sum()
first.backward()
optimizer.step()
second = head(first.detach()) + model(x)
second.backward()""")

    assert [[ast.unparse(each) for each in phase.region] for phase in found] == [
        ["first = model(x).sum()"],
        ["second = head(first.detach()) + model(x)"],
    ]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param("loss = y.sum()\nloss.backward()", "unknown-loss", id="no model is called"),
        pytest.param("loss = compute(x)\nloss.backward()", "unknown-loss", id="a function that is not seen"),
        pytest.param("trainer = nn.Linear(1, 1)\ntrainer.backward()", "unknown-loss", id="a model's backward"),
        pytest.param(
            "values = [model(x).sum().backward()]", "not-editable", id="the backward is a part of an expression"
        ),
        pytest.param(
            "out = nn.parallel.data_parallel(model, x, [0, 1])\nloss = out.sum()\nloss.backward()",
            "data-parallel",
            id="the model is run in threads",
        ),
    ],
)
def test_why_no_region_is_known(body: str, code: str) -> None:
    (phase,) = phases(body)

    assert phase.why_not is not None
    assert phase.why_not.code == code


@pytest.mark.parametrize(
    ("body", "because"),
    [
        pytest.param(
            "out = model(x)\nfirst = out.sum()\nsecond = criterion(out, y)\n"
            "first.backward(retain_graph=True)\nsecond.backward()",
            "the backward in line 12 goes through the forward pass of the one in line 11, too: add the losses up, "
            "and differentiate the sum",
            id="of another backward",
        ),
        pytest.param(
            "out = model(x)\noptimizer.step()\nout.sum().backward()",
            "something else is differentiated or stepped between the forward pass and the backward in line 10",
            id="before a step",
        ),
        pytest.param(
            "loss = torch.ones(1).sum()\nloss.backward()",
            "the forward pass is not found before the backward in line 9",
            id="there is none",
        ),
    ],
)
def test_where_the_forward_pass_is_not_that_of_the_backward_alone(body: str, because: str) -> None:
    phase = phases(body)[-1]

    assert phase.why_not is not None
    assert phase.why_not.words.said(phase.module).text == because


def test_the_loss_of_a_backward_that_is_a_function() -> None:
    (phase,) = phases("out = model(x)\nloss = out.sum()\ntorch.autograd.backward([loss])")

    assert ast.unparse(phase.loss) == "[loss]"
    assert [ast.unparse(each) for each in phase.region] == ["out = model(x)", "loss = out.sum()"]


def test_the_models_of_a_phase_and_what_is_not_seen_of_them() -> None:
    known = script(f"""{HEAD}
from library import make
extra = make()
extra.train()
def compute(x):
    return extra(model(x))
for x, y in data:
    loss = compute(x).sum()
    loss.backward()
""")
    found = Phases(known)
    (phase,) = found.all
    unseen = found.unseen(phase)

    assert "torch.nn.Linear" in {each.name for each in found.models(phase)}
    assert unseen is not None
    assert ast.unparse(unseen[1]) == "extra(model(x))"


def test_all_models_of_a_phase_are_seen() -> None:
    known = script(HEAD + "for x, y in data:\n    loss = head(model(x)).sum()\n    loss.backward()\n")
    found = Phases(known)
    (phase,) = found.all

    assert found.unseen(phase) is None
    assert {each.name for each in found.called(phase.code)} == {"torch.nn.Linear"}


RELOADED = """\
def train():
    for x, y in data:
        loss = criterion(model(x), y)
        loss.backward()


{during}
{after}
print(model)
"""


@pytest.mark.parametrize(
    ("during", "after", "is_seen"),
    [
        pytest.param("train()", "model = torch.load('best.pt')", True, id="after the training"),
        pytest.param(
            "train()", "with open('best.pt', 'rb') as file:\n    model = torch.load(file)", True, id="from an open file"
        ),
        pytest.param("model = torch.load('first.pt')", "train()", False, id="before it"),
        pytest.param(
            "for epoch in range(9):\n    train()\n    model = torch.load('best.pt')", "", False, id="between two epochs"
        ),
        pytest.param("train()", "model = torch.load('best.pt')\ntrain()", False, id="before it goes on"),
        pytest.param(
            "def resume():\n    global model\n    model = torch.load('best.pt')",
            "resume()\ntrain()",
            False,
            id="by a function",
        ),
    ],
)
def test_what_a_name_is_given_when_the_training_is_over_is_no_model_of_it(
    during: str, after: str, *, is_seen: bool
) -> None:
    found = Phases(script(HEAD + RELOADED.format(during=during, after=after)))
    (phase,) = found.all

    assert (found.unseen(phase) is None) == is_seen


@pytest.mark.parametrize(
    ("made", "is_seen"),
    [
        pytest.param("nn.DataParallel(nn.Linear(2, 2))", True, id="torch's own"),
        pytest.param("nn.DataParallel(elsewhere.Net())", False, id="another package's"),
        pytest.param("nn.DataParallel(module=torch.compile(elsewhere.Net()))", False, id="in two wrappers"),
        pytest.param("elsewhere.Net()", False, id="without a wrapper"),
    ],
)
def test_a_wrapper_is_seen_where_what_it_wraps_is(made: str, *, is_seen: bool) -> None:
    text = f"""\
import elsewhere
import torch
from torch import nn
model = {made}.cuda()
model.train()
for x in torch.randn(4, 2).cuda():
    loss = model(x).sum()
    loss.backward()
"""
    found = Phases(script(text))
    (phase,) = found.all

    assert (found.unseen(phase) is None) == is_seen
