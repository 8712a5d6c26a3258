"""What happens in a training iteration, in order."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.iterations import EventKind, Iterations

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(4, 1)
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.ones(8, 4), torch.ones(8, 1)))
"""


def events(body: str, **others: str) -> list[tuple[str, list[str]]]:
    """Of each iteration, what owns it and what happens in it."""
    known = script(HEAD + body, **others)
    return [(type(each.owner).__name__, [event.kind.value for event in each.events]) for each in known.iterations]


PLAIN = """\
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""


def test_the_events_are_in_the_order_in_which_they_run() -> None:
    assert events(PLAIN) == [("For", ["zero", "forward", "loss", "backward", "step"])]


def test_nothing_is_differentiated() -> None:
    assert events("for x, y in loader:\n    model(x)\n") == []


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        pytest.param("x.cuda()", "transfer", id="a batch is moved"),
        pytest.param("nn.utils.clip_grad_norm_(model.parameters(), 1)", "gradient", id="gradients are clipped"),
        pytest.param("print(model.weight.grad)", "gradient", id="a gradient is read"),
        pytest.param("model.weight.grad *= 0.5", "gradient", id="a gradient is scaled"),
        pytest.param("model.weight.grad *= 0", "zero", id="a gradient is multiplied by zero"),
        pytest.param("model.weight.grad = None", "zero", id="a gradient is dropped"),
        pytest.param("model.weight.grad = torch.zeros_like(model.weight)", "zero", id="a gradient is new zeros"),
        pytest.param("torch.optim.lr_scheduler.StepLR(optimizer, 1).step()", "schedule", id="a scheduler"),
        pytest.param("nn.functional.mse_loss(x, y)", "loss", id="a loss function"),
        pytest.param("torch.amp.GradScaler().step(optimizer)", "step", id="a scaler steps"),
        pytest.param("loss.item()", "log", id="a number is read"),
    ],
)
def test_what_a_statement_is(statement: str, kind: str) -> None:
    ((_, found),) = events(f"{PLAIN}    {statement}\n")

    assert found[5] == kind


@pytest.mark.parametrize(
    "statement",
    ["unknown.step()", "x.to_dense()", "model.weight.grad_fn", "model.eval()", "unknown.zero_grad()"],
)
def test_what_is_no_event(statement: str) -> None:
    assert events(f"{PLAIN}    {statement}\n") == events(PLAIN)


@pytest.mark.parametrize(
    ("body", "owner"),
    [
        pytest.param("model(torch.ones(4)).sum().backward()\n", "Module", id="no loop"),
        pytest.param("while True:\n    model(torch.ones(4)).sum().backward()\n", "While", id="a while loop"),
        pytest.param("def step():\n    model(torch.ones(4)).sum().backward()\n", "FunctionDef", id="nobody calls it"),
        pytest.param(
            "def step():\n    model(torch.ones(4)).sum().backward()\nfor _ in range(3):\n    step()\n",
            "For",
            id="a loop calls it",
        ),
        pytest.param(
            "def step():\n    for x in range(2):\n        model(torch.ones(4)).sum().backward()\n"
            "while True:\n    step()\n",
            "For",
            id="the nearest loop",
        ),
    ],
)
def test_what_a_pass_belongs_to(body: str, owner: str) -> None:
    assert [found for found, _ in events(body)] == [owner]


def test_functions_of_other_modules_are_looked_into() -> None:
    steps = "def step(model, x):\n    model(x).sum().backward()\n"

    assert events("import steps\nfor x, y in loader:\n    steps.step(model, x)\n", steps=steps) == [
        ("For", ["forward", "backward"])
    ]


def test_a_function_that_two_loops_call_is_part_of_both() -> None:
    body = "def step(x):\n    model(x).sum().backward()\nfor x, y in loader:\n    step(x)\nwhile True:\n    step(y)\n"

    assert [owner for owner, _ in events(body)] == ["For", "While"]


def test_a_function_that_calls_itself_ends() -> None:
    body = "def step(x):\n    model(x).sum().backward()\n    step(x)\n"

    assert events(body) == [("FunctionDef", ["forward", "backward"])]


CHAIN = "def f0(x):\n    model(x).sum().backward()\n" + "".join(
    f"def f{at}(x):\n    f{at - 1}(x)\n" for at in range(1, 7)
)


def test_functions_of_functions_are_looked_into() -> None:
    assert events(f"{CHAIN}for x, y in loader:\n    f6(x)\n") == [("For", ["forward", "backward"])]


def test_a_function_that_is_called_twice_happens_twice() -> None:
    assert events(f"{CHAIN}for x, y in loader:\n    f6(x)\n    f6(y)\n") == [("For", 2 * ["forward", "backward"])]


def test_functions_that_call_each_other_end() -> None:
    body = "def one(x):\n    model(x).sum().backward()\n    other(x)\ndef other(x):\n    one(x)\n"

    assert events(body) == [("FunctionDef", ["forward", "backward"])]
    assert events(f"{body}for x, y in loader:\n    other(x)\n") == [("For", ["forward", "backward"])]


def test_an_event_knows_its_conditions_and_loops_and_function() -> None:
    known = script(f"""{HEAD}
def update(i):
    if i % 2:
        for _ in range(3):
            optimizer.step()
for i, (x, y) in enumerate(loader):
    model(x).sum().backward()
    update(i)
""")
    (iteration,) = known.iterations
    (step,) = iteration.of(EventKind.STEP)

    assert [ast.unparse(each) for each in step.conditions] == ["i % 2"]
    assert [type(each).__name__ for each in step.loops] == ["For"]
    assert getattr(step.frame, "name", None) == "update"
    assert {each.name for each in step.subjects} == {"torch.optim.SGD"}


def test_a_backward_of_the_project_is_looked_into() -> None:
    body = """\
class Loss:
    def __init__(self, value):
        self.value = value
    def backward(self):
        self.value.backward()
for x, y in loader:
    Loss(model(x).sum()).backward()
"""

    assert events(body) == [("For", ["forward", "backward"])]


def trains(statement: str, **others: str) -> bool:
    known = script(HEAD + "def fit_it(x):\n    model(x).sum().backward()\n" + statement, **others)
    return Iterations(known.flow, known.modules).why_trains(known.module.tree.body[-1]) is not None


@pytest.mark.parametrize(
    "statement",
    [
        "model(x).sum().backward()",
        "torch.autograd.backward([model(x).sum()])",
        "optimizer.step()",
        "fit_it(x)",
        "from library import train_epoch\nif x:\n    train_epoch(model)",
        "trainer.train()",
    ],
)
def test_code_that_trains(statement: str) -> None:
    assert trains(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "model.train()",
        "model(x)",
        "scheduler.step()",
        "torch.optim.SGD(model.parameters(), lr=1)",
        "from library import load_train_data\nload_train_data()",
        "dataset.train()",
    ],
)
def test_code_that_trains_nothing(statement: str) -> None:
    assert not trains(statement)


def test_what_a_loop_does_after_its_last_pass_is_no_part_of_one() -> None:
    body = "total = 0\nfor x, y in loader:\n    total = total + model(x).sum()\nelse:\n    total.backward()\n"

    assert [owner for owner, _ in events(body)] == ["Module"]


def test_functions_that_call_each_other_by_very_many_ways_are_followed_often_enough() -> None:
    """Each calls the next one twice: of 40 there are more ways than could ever be followed."""
    steps = "".join(f"def step{each}():\n    step{each + 1}()\n    step{each + 1}()\n\n" for each in range(40))
    last = "def step40():\n    optimizer.step()\n\n"
    body = PLAIN.replace("    optimizer.step()\n", "    step0()\n")

    ((_, kinds),) = events(last + steps + body)

    assert kinds[:4] == ["zero", "forward", "loss", "backward"]
    assert set(kinds[4:]) == {"step"}
    assert len(kinds) > 5
