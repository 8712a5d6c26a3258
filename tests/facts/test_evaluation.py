"""Which functions only evaluate, and which code does in all."""

from __future__ import annotations

import pytest
from probe import script

HEAD = """\
import torch
from torch import nn

model = nn.Linear(4, 2)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = [(torch.randn(2, 4), torch.tensor([0, 1]))]

def train():
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
"""
RUN = """
for epoch in range(3):
    train()
    {}()
"""


def regions(body: str, run: str = "", head: str = HEAD, **others: str) -> list[tuple[str, str]]:
    """The evaluating functions by their names ("" for statements), each with the code of the reason against it."""
    found = script(head + body + run, **others).evaluations
    return [(each.function.name if each.function else "", each.why_not.code if each.why_not else "") for each in found]


def function(name: str, *lines: str, end: str = "return total") -> str:
    body = "".join(f"        {line}\n" for line in lines)
    return f"def {name}():\n    total = 0\n    for x, y in loader:\n{body}    {end}\n"


COUNT = "total += (model(x).argmax(1) == y).sum().item()"


@pytest.mark.parametrize("name", ["test", "evaluate", "validate_once", "run_validation", "check_accuracy"])
def test_a_function_that_says_that_it_evaluates(name: str) -> None:
    assert regions(function(name, COUNT), RUN.format(name)) == [(name, "")]


@pytest.mark.parametrize(
    ("name", "is_named"), [("latest", False), ("protest", False), ("evaluator", False), ("test2", True)]
)
def test_only_a_whole_word_says_so(name: str, is_named: bool) -> None:  # noqa: FBT001 - the expectation itself
    """Of one that does not evaluate, nothing is said of its graphs."""
    found = regions(function(name, "total = total + model(x).sum()"), f"for _ in range(3):\n    {name}().backward()\n")

    assert found == ([(name, "graph-escapes")] if is_named else [])


def test_a_function_that_switches_its_model_evaluates() -> None:
    switched = function("report", COUNT).replace("    total = 0", "    model.eval()\n    total = 0")

    assert regions(switched, RUN.format("report")) == [("report", "")]


def test_a_function_of_which_no_graph_is_used_evaluates() -> None:
    assert regions(function("report", COUNT), RUN.format("report")) == [("report", "")]


def test_a_function_whose_graph_is_handed_on_does_not() -> None:
    body = function("report", "total = total + model(x).sum()")

    assert regions(body, "for epoch in range(3):\n    report().backward()\n") == []


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("@torch.no_grad()\n" + function("test", COUNT), id="by a decorator"),
        pytest.param(function("test", "with torch.no_grad():", "    " + COUNT), id="by a block"),
    ],
)
def test_it_has_no_gradients_already(body: str) -> None:
    assert regions(body, RUN.format("test")) == []


def test_all_that_call_it_have_none_already() -> None:
    run = "for epoch in range(3):\n    with torch.no_grad():\n        test()\n"

    assert regions(function("test", COUNT), run) == []
    assert regions(function("test", COUNT), run + "    test()\n") == [("test", "")]


@pytest.mark.parametrize(
    ("body", "run", "code"),
    [
        pytest.param(
            function("test", "x.requires_grad_()", "score = model(x).sum()", "score.backward()", COUNT),
            "",
            "needs-gradients",
            id="an attack on its images",
        ),
        pytest.param(
            function("test", "outputs.append(model(x))").replace("def", "outputs = []\ndef"),
            "",
            "graph-escapes",
            id="it keeps what the model computes",
        ),
        pytest.param(
            function("test", "total = total + model(x).sum()"),
            "for epoch in range(3):\n    test().backward()\n",
            "graph-escapes",
            id="what it returns is trained on",
        ),
        pytest.param("async " + function("test", COUNT), "", "not-editable", id="a coroutine"),
        pytest.param("@cached\n" + function("test", COUNT), "", "not-editable", id="another decorator"),
        pytest.param(
            "def test(x):\n    model.eval()\n    return model(x).argmax(1)\n",
            "print(test(loader[0][0]))\n",
            "nothing-to-gain",
            id="once",
        ),
    ],
)
def test_it_evaluates_and_has_to_stay(body: str, run: str, code: str) -> None:
    assert regions(body, run or RUN.format("test"))[0] == ("test", code)


def test_a_parameter_says_whether_it_trains() -> None:
    body = """
def evaluate(training):
    for x, y in loader:
        loss = criterion(model(x), y)
        if training:
            loss.backward()
            optimizer.step()
for epoch in range(3):
    evaluate(True)
    evaluate(False)
"""

    assert regions(body) == [("evaluate", "also-trains")]


def test_what_a_region_calls_is_covered_by_the_region_that_it_is() -> None:
    body = function("predict", COUNT) + "def test():\n    return predict()\n"

    assert regions(body, RUN.format("test")) == [("predict", "")]


def test_a_unit_test_is_none() -> None:
    module = "from torch import nn\nmodel = nn.Linear(4, 2)\n" + function("test_model", COUNT, end="assert total > 0")

    assert regions("import test_net\n", test_net=module) == []
    assert regions("import nets\n", nets=module) == [("test_model", "")]


def test_statements_that_a_script_ends_with() -> None:
    body = (
        "train()\nmodel.eval()\nright = 0\nfor x, y in loader:\n    right += (model(x).argmax(1) == y).sum().item()\n"
    )

    assert regions(body) == [("", "")]


def test_a_function_of_another_module() -> None:
    steps = "def test(model, loader):\n    for x, y in loader:\n        print(model(x).argmax(1))\n"
    run = "import steps\nfor epoch in range(3):\n    train()\n    steps.test(model, loader)\n"

    assert regions(run, steps=steps) == [("test", "")]
