"""Which loops run a model in each of their passes, and what few of the passes come to."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.step_loops import clocks, rare_suite, step_loop

HEAD = """\
import time
import torch
model = torch.nn.Linear(4, 2)
def step(x):
    return model(x)
def epoch_of(batches):
    for x in batches:
        model(x)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def outer(x):
    return step(x)
def stepped(x):
    optimizer.step()
    for each in model.parameters():
        each.mul_(0.9)
def some_of(batches):
    for x in batches:
        step(x).sum().backward()
def accumulated(batches):
    some_of(batches)
    stepped(batches)
def unrolled(words):
    loss = 0
    for x in words:
        loss += step(x).sum()
    loss.backward()
    optimizer.step()
def twice(batches):
    for x in batches:
        step(x).sum().backward()
    step(x).sum().backward()
    optimizer.step()
def ended(batches):
    for x in batches:
        some_of([x])
    optimizer.step()
"""


def mark(text: str) -> tuple[ast.Call, str | None]:
    """The call of ``mark()``, and the first line of the loop that is found for it."""
    known = script(HEAD + text)
    (call,) = (each for each in known.module.nodes(ast.Call) if ast.unparse(each.func) == "mark")
    loop = step_loop(known.flow, known.module, call)
    return call, None if loop is None else ast.unparse(loop).partition("\n")[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("for a in A:\n    model(a)\n    mark()\n", "for a in A:", id="around both"),
        pytest.param("while A:\n    A.mean().backward()\n    mark()\n", "while A:", id="around a backward"),
        pytest.param("for a in A:\n    step(a)\n    mark()\n", "for a in A:", id="around a function for one step"),
        pytest.param("for a in A:\n    epoch_of(a)\n    mark()\n", None, id="around a function with a loop"),
        pytest.param("for a in A:\n    outer(a)\n    mark()\n", "for a in A:", id="two functions below"),
        pytest.param(
            "for a in A:\n    accumulated(a)\n    mark()\n",
            "for a in A:",
            id="around a function that steps after gradients of several parts",
        ),
        pytest.param(
            "for a in A:\n    unrolled(a)\n    mark()\n", "for a in A:", id="around one that unrolls a network"
        ),
        pytest.param("for a in A:\n    twice(a)\n    mark()\n", None, id="around one that differentiates in its loop"),
        pytest.param("for a in A:\n    ended(a)\n    mark()\n", None, id="around one that steps after all batches"),
        pytest.param(
            "for a in A:\n    for b in a:\n        model(b)\n    mark()\n", None, id="around the loop of a model"
        ),
        pytest.param(
            "for a in A:\n    model(a)\n    for b in a:\n        mark()\n",
            "for a in A:",
            id="around another loop inside",
        ),
        pytest.param("for a in A:\n    model(a)\nelse:\n    mark()\n", None, id="before an else"),
        pytest.param("for a in A:\n    model(a)\n    def f():\n        mark()\n", None, id="around a definition"),
        pytest.param("for a in mark():\n    model(a)\n", None, id="that goes over it"),
        pytest.param("mark()\n", None, id="nowhere"),
    ],
)
def test_the_loop_of_a_step(text: str, expected: str | None) -> None:
    assert mark(text)[1] == expected


@pytest.mark.parametrize(
    ("inside", "is_rare"),
    [
        pytest.param("mark()", False, id="always"),
        pytest.param("if a:\n    mark()", False, id="under a condition"),
        pytest.param("if i % 100 == 0:\n    mark()", True, id="by a remainder"),
        pytest.param("if a and not i % 100:\n    mark()", True, id="by a remainder beside a condition"),
        pytest.param("if i % 100:\n    pass\nelse:\n    mark()", True, id="in the other branch"),
        pytest.param("if '%s' % a:\n    mark()", False, id="by a text"),
        pytest.param("if i == len(A) - 1:\n    mark()", True, id="the last one"),
        pytest.param("if i == 3:\n    mark()", True, id="by its number"),
        pytest.param("if a == 3:\n    mark()", False, id="by another number"),
        pytest.param("told = i % 3 == 0\nif told:\n    mark()", True, id="by a remainder with a name"),
        pytest.param("if a:\n    mark()\n    break", True, id="before the loop is left"),
        pytest.param("if mark() and i % 2:\n    pass", False, id="in the condition itself"),
        pytest.param("if i % 2:\n    if a:\n        mark()", True, id="under a condition beside it"),
    ],
)
def test_few_passes_come_to_a_place(inside: str, *, is_rare: bool) -> None:
    text = "for i, a in enumerate(A):\n    model(a)\n" + "".join(f"    {each}\n" for each in inside.splitlines())
    known = script(HEAD + text)
    (call,) = (each for each in known.module.nodes(ast.Call) if ast.unparse(each.func) == "mark")
    loop = step_loop(known.flow, known.module, call)

    assert loop is not None
    suite = rare_suite(known.module, loop, call)
    assert (suite is not None) is is_rare
    assert suite is None or any(call in ast.walk(each) for each in suite)


def test_what_is_returned_is_computed_once() -> None:
    known = script(HEAD + "def f():\n    for i in range(3):\n        model(i)\n        return mark()\n")
    (call,) = (each for each in known.module.nodes(ast.Call) if ast.unparse(each.func) == "mark")
    loop = step_loop(known.flow, known.module, call)

    assert loop is not None
    assert rare_suite(known.module, loop, call) == loop.body


TIMER = """\
def now():
    return time.time()
class Timer:
    def tick(self):
        self.at = now()
def timed(batches):
    for x in batches:
        print(now())
        yield x
def made(batches):
    print(now())
    return batches
timer = Timer()
"""


@pytest.mark.parametrize(
    ("over", "inside", "expected"),
    [
        pytest.param("A", "start = time.perf_counter()\n    a.time()", ["time.perf_counter()"], id="itself"),
        pytest.param("A", "timer.tick()", ["timer.tick()"], id="by a function"),
        pytest.param("A", "if a % 9 == 0:\n        timer.tick()", [], id="few passes call that"),
        pytest.param("A", "if a % 9 == 0:\n        time.time()", ["time.time()"], id="few passes read it"),
        pytest.param("timed(A)", "step(a)", ["timed(A)"], id="what it goes through does"),
        pytest.param("made(A)", "step(a)", [], id="once"),
    ],
)
def test_clocks(over: str, inside: str, expected: list[str]) -> None:
    known = script(f"{HEAD}{TIMER}for a in {over}:\n    model(a)\n    {inside}\n")
    loop = known.module.nodes(ast.For)[-1]

    assert [ast.unparse(each) for each in clocks(known.flow, loop)] == expected
