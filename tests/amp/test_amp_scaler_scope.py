"""Where the scaler is made, and how it gets to where it is used."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from iteration import looped, script, texts

from codemods.amp.reasons import LeftError
from codemods.amp.scaler_scope import Home, Homes, after_all, path
from codemods.facts.reach import Reach

if TYPE_CHECKING:
    from codemods.facts.script import Script

TRAINING = looped("model(x).mean().backward()", "optimizer.step()")
MADE = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"


def home(known: Script) -> Home:
    """The home for what steps in the script."""
    steps = [each for each in known.module.nodes(ast.Call) if ast.unparse(each.func).endswith(".step")]
    optimizers = [each.func.value for each in steps if isinstance(each.func, ast.Attribute)]
    return Homes(known, Reach(known.flow)).find(optimizers, [known.module.statement(each) for each in steps])


def why_not(text: str) -> str:
    """Why there is no home in the script."""
    with pytest.raises(LeftError) as left:
        home(script(text))
    return left.value.reason.text


def test_beside_an_optimizer_of_the_module() -> None:
    assert texts(home(script(TRAINING)).anchors) == [MADE]


def test_below_the_last_of_several_optimizers() -> None:
    found = home(script(looped("model(x).mean().backward()", "optimizer.step()", "second.step()")))

    assert texts(found.anchors) == ["second = torch.optim.SGD(other.parameters(), lr=0.1)"]


def test_the_optimizers_that_a_loop_runs_over_are_those_of_the_list() -> None:
    found = home(script(looped("model(x).mean().backward()", "for each in [optimizer, second]:\n        each.step()")))

    assert texts(found.anchors) == ["second = torch.optim.SGD(other.parameters(), lr=0.1)"]


def test_beside_the_optimizer_of_a_function() -> None:
    found = home(script(f"def train():\n    {MADE.replace('optimizer', 'own', 1)}\n    own.step()\ntrain()\n"))

    assert texts(found.anchors) == [MADE.replace("optimizer", "own", 1)]


def test_beside_the_attribute_of_a_class() -> None:
    text = f"""\
class Trainer:
    def __init__(self):
        self.{MADE}

    def train(self):
        self.optimizer.step()
"""
    found = home(script(text))

    assert texts(found.anchors) == [f"self.{MADE}"]
    assert found.owner is not None
    assert found.owner.name == "Trainer"


def test_what_a_function_is_given_is_handed_to_it() -> None:
    found = home(script("def train(opt):\n    opt.step()\n\n\nfor epoch in range(3):\n    train(optimizer)\n"))

    assert texts(found.anchors) == [MADE]
    assert texts(found.passing) == ["train(optimizer)"]
    assert [each.name for each in found.receivers] == ["train"]


def test_through_two_functions() -> None:
    text = "def step(opt):\n    opt.step()\n\n\ndef train(opt):\n    step(opt)\n\n\ntrain(optimizer)\n"
    found = home(script(text))

    assert texts(found.anchors) == [MADE]
    assert sorted(texts(found.passing)) == ["step(opt)", "train(optimizer)"]
    assert sorted(each.name for each in found.receivers) == ["step", "train"]


def test_trainings_one_after_the_other_have_a_scaler_each() -> None:
    later = MADE.replace("optimizer", "later", 1)
    text = f"def train(opt):\n    opt.step()\n\n\ntrain(optimizer)\n{later}\ntrain(later)\n"

    assert texts(home(script(text)).anchors) == [MADE, later]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("find().step()\n", "the optimizer is not a plain name", id="it has no name"),
        pytest.param("def train(opt):\n    opt.step()\n", "which nothing in this file calls", id="nobody calls it"),
        pytest.param(
            "def train(opt):\n    opt.step()\n\n\ntrain(optimizer)\nregister(train)\n",
            "train() is handed to other code",
            id="somebody else calls it",
        ),
        pytest.param(
            "def train(opt):\n    opt.step()\n\n\ntrain(*both)\n",
            "passes the optimizer in a way that can be seen",
            id="it is unpacked",
        ),
        pytest.param(
            "def train(opt):\n    opt.step()\n    second.step()\n\n\ntrain(optimizer)\n",
            "the optimizers are kept in different places",
            id="a parameter and a global name",
        ),
        pytest.param(
            "for x in xs:\n    own.step()\n    own = make()\n",
            "no place is after all optimizers and before all their uses",
            id="it steps first",
        ),
        pytest.param("unseen.step()\n", "where the optimizer is made is not seen", id="it is made nowhere"),
        pytest.param(
            "def train():\n    global optimizer\n    optimizer = make()\n    optimizer.step()\n",
            "the optimizers are kept in different places",
            id="a function that replaces it",
        ),
    ],
)
def test_why_there_is_no_place(text: str, expected: str) -> None:
    assert expected in why_not(text)


def test_a_call_in_another_file_would_have_to_pass_it() -> None:
    known = script("def train(opt):\n    opt.step()\n", run="import train\ntrain.train(train.optimizer)\n")

    with pytest.raises(LeftError) as left:
        home(known)
    assert left.value.reason.text == "train() is called in run.py, which would have to pass the scaler"


def test_an_attribute_that_begins_as_none_is_made_where_it_is_not() -> None:
    text = f"""\
class Trainer:
    def __init__(self):
        self.optimizer = None

    def build(self):
        self.{MADE}

    def train(self):
        self.optimizer.step()
"""
    assert texts(home(script(text)).anchors) == [f"self.{MADE}"]


def test_who_saves_it_is_handed_it_too() -> None:
    text = f"def save(opt):\n    torch.save(opt.state_dict(), 'o.pt')\n\n\n{TRAINING}save(optimizer)\n"
    known = script(text)
    (saved,) = [each for each in known.module.nodes(ast.Call) if ast.unparse(each) == "opt.state_dict()"]
    assert isinstance(saved.func, ast.Attribute)
    found = Homes(known, Reach(known.flow)).handed_on(home(known), saved.func.value, known.module.statement(saved))

    assert texts(found.passing) == ["save(optimizer)"]
    assert [each.name for each in found.keepers] == ["save"]
    assert found.receivers == ()


def test_a_function_is_told_the_number_format_by_all_that_call_it() -> None:
    known = script(f"def forward(x):\n    return model(x)\n\n\n{TRAINING}forward(3)\nforward(4)\n")
    (function,) = known.module.nodes(ast.FunctionDef)
    found = Homes(known, Reach(known.flow)).informed(home(known), function, lambda *_: True)

    assert texts(found.informing) == ["forward(3)", "forward(4)"]
    assert found.informed == (function,)


def test_what_is_after_all_and_before_the_uses() -> None:
    known = script("if a:\n    x = 1\nelse:\n    x = 2\ny = 3\nprint(x, y)\n")
    first, second, third = [each for each in known.module.nodes(ast.Assign) if ast.unparse(each)[0] in "xy"]
    use = known.module.tree.body[-1]

    assert after_all(known, [first, third], [use]) is third
    assert after_all(known, [first, second], [third]) is known.module.parent(first)
    assert after_all(known, [third], [first]) is None


def test_the_way_to_a_statement_ends_at_its_function() -> None:
    known = script("if a:\n    def f():\n        for x in y:\n            print(x)\n")
    (use,) = [each for each in known.module.nodes(ast.Expr) if ast.unparse(each) == "print(x)"]

    assert [type(each) for each in path(known, use)] == [ast.For, ast.Expr]
