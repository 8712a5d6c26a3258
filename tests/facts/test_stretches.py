"""Which statements only evaluate, within code that trains, and why others do not."""

from __future__ import annotations

import ast

from probe import script

HEAD = """\
import torch
from torch import nn
from torch.autograd import Variable

model = nn.Linear(4, 3)
criterion = nn.CrossEntropyLoss()
loader = [(torch.randn(2, 4), torch.tensor([0, 2]))]
"""


def found(body: str) -> list[tuple[list[str], str]]:
    """The first line of each statement of each stretch, and the code of the reason why it is left."""
    return [
        (
            [ast.unparse(each).splitlines()[0] for each in region.statements],
            region.why_not.code if region.why_not else "",
        )
        for region in script(HEAD + body).evaluations
        if region.function is None
    ]


def test_the_statements_between_eval_and_train() -> None:
    body = """
for epoch in range(2):
    criterion(model(loader[0][0]), loader[0][1]).backward()
    model.eval()
    for x, y in loader:
        print(model(x))
    model.train()
"""

    assert found(body) == [(["for x, y in loader:"], "")]


def test_what_is_computed_from_the_stretch_alone_goes_along() -> None:
    body = """
for x, y in loader:
    values = model(x)
    later = model(x + 1)
    target = later.max(1)[0] + 1
    (values.sum(1) - target.data).pow(2).mean().backward()
"""

    assert found(body) == [(["later = model(x + 1)", "target = later.max(1)[0] + 1"], "")]


def test_a_loss_of_another_graph_stays_behind() -> None:
    body = """
for x, y in loader:
    values = model(x)
    later = model(x + 1)
    loss = (values - later.data).pow(2).mean()
    loss.backward()
"""

    assert found(body) == [(["later = model(x + 1)"], "")]


def test_a_stretch_that_must_be_left_gives_way_to_a_part_of_it() -> None:
    body = """
for x, y in loader:
    state = Variable(x + 1, volatile=True)
    values = model(x)
    later = model(state)
    loss = (values - later.data).pow(2).mean()
    loss.backward()
"""

    assert found(body) == [(["later = model(state)"], "")]


def test_once_is_nothing_to_gain() -> None:
    assert found("x = torch.load('x.pt')\nprint(model(x).argmax(1))\n") == [
        (["print(model(x).argmax(1))"], "nothing-to-gain")
    ]


def test_shapes_alone_are_nothing_to_gain_in_a_loop_too() -> None:
    body = """
for x, y in loader:
    scores = model(x)
    assert scores.shape == (2, 3)
"""

    assert found(body) == [(["scores = model(x)"], "nothing-to-gain")]


BESIDE = """
other = nn.Linear(3, 3)
{loop}
    loss = criterion(other({given}), y)
    loss.backward()
"""
LOOP = "for x, y in loader:"


def test_what_is_cut_off_within_what_is_trained_on_has_no_statement_of_its_own() -> None:
    assert found(BESIDE.format(loop=LOOP, given="model(x).detach()")) == [
        (["loss = criterion(other(model(x).detach()), y)"], "not-editable")
    ]


def test_what_is_not_cut_off_is_trained_on() -> None:
    assert found(BESIDE.format(loop=LOOP, given="model(x)")) == []


def test_a_frozen_model_computes_no_graph() -> None:
    frozen = "for each in model.parameters():\n    each.requires_grad = False\n"

    assert found(frozen + BESIDE.format(loop=LOOP, given="model(x).detach()")) == []


def test_what_is_cut_off_once_is_not_mentioned() -> None:
    assert found(BESIDE.format(loop="with open(path) as (x, y):", given="model(x).detach()")) == []


def test_what_is_cut_off_in_a_statement_of_its_own_needs_no_graph() -> None:
    code = BESIDE.format(loop=LOOP, given="seen").replace("    loss =", "    seen = model(x).detach()\n    loss =")

    assert found(code) == [(["seen = model(x).detach()"], "")]


def test_a_condition_is_no_statement_that_could_be_split() -> None:
    code = f"other = nn.Linear(3, 3)\n{LOOP}\n    if other(model(x).detach()).sum() > 0:\n        other(x).sum().backward()\n"

    assert not [each for each in found(code) if each[1] == "not-editable"]


def test_what_may_be_trained_on_is_none() -> None:
    body = """
for x, y in loader:
    scores = model(x)
    criterion(scores, y).backward()
"""

    assert found(body) == []


RUN = """
def run(data, test=False):
    total = 0.0
    for x, y in data:
        loss = criterion(model(x), y)
        if not test and total < 9:
            loss.backward()
        total += loss.item()
    return total


for epoch in range(2):
    model.train()
    run(loader)
    model.eval()
    print(run(loader, test=True))
"""


def test_a_call_whose_constant_keeps_it_from_training() -> None:
    assert found(RUN) == [(["print(run(loader, test=True))"], "also-trains")]


def test_a_call_that_trains_behind_eval_is_no_evaluation() -> None:
    assert found(RUN.replace("test=True", "test=False")) == []


def test_a_call_without_gradients_is_right_already() -> None:
    assert found(RUN.replace("    print(run", "    with torch.no_grad():\n        print(run")) == []


def test_a_call_that_needs_gradients_though_it_does_not_train() -> None:
    body = RUN.replace(
        "    total = 0.0\n    for x, y in data:\n",
        "    total = 0.0\n    for x, y in data:\n        x.requires_grad_()\n",
    )

    assert found(body) == [(["print(run(loader, test=True))"], "needs-gradients")]


def test_what_the_function_does_itself_is_not_said_of_its_calls() -> None:
    body = RUN.replace(" and total < 9", "")

    assert found(body) == [(["loss = criterion(model(x), y)"], "")]


ADAPTING = """
class Learner(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3, 4))
    def forward(self, x, w):
        return nn.functional.linear(x, w)
class Meta(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Learner()
        self.optimizer = torch.optim.Adam(self.net.parameters())
    def forward(self, x, y):
        self.optimizer.zero_grad()
        criterion(self.net(x, self.net.w), y).backward()
        self.optimizer.step()
        return x.size(0)
    def adapt(self, x, y):
        w, right = self.net.w, []
        for k in range(3):
            first = self.net(x, w)
            w = w - torch.autograd.grad(criterion(first, y), w)[0]
            second = self.net(x, w)
            right.append((second.argmax(1) == y).sum().item())
        return right
meta = Meta()
for x, y in loader:
    {}
"""


def test_a_models_method_that_adapts_it_may_evaluate_beside() -> None:
    assert found(ADAPTING.format("print(meta.adapt(x, y))")) == [(["second = self.net(x, w)"], "")]


def test_a_model_that_trains_in_its_forward_is_no_evaluation() -> None:
    lines = [line for lines, _ in found(ADAPTING.format("count = meta(x, y)")) for line in lines]

    assert "count = meta(x, y)" not in lines
