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


def test_what_may_be_trained_on_is_none() -> None:
    body = """
for x, y in loader:
    scores = model(x)
    criterion(scores, y).backward()
"""

    assert found(body) == []
