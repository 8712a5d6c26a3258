from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.facts.devices.later_moves import LaterMove, is_only_compared, later_move, read_before, why_other_device

if TYPE_CHECKING:
    from codemods.facts.devices.transfers import Transfer
    from codemods.facts.script import Script

HEAD = "import torch\n\n\ndef run(x, y, log):\n"


def copies(text: str) -> tuple[Script, list[Transfer]]:
    """The script, and its copies to devices."""
    made = script(text)
    return made, [each for each in made.transfers if each.method in {"cuda", "to"}]


FOUND = {
    "directly below": "    a = torch.eye(3)\n    if x.is_cuda:\n        a = a.cuda()\n    return a\n",
    "on one line": "    a = torch.eye(3)\n    if x.is_cuda: a = a.cuda()\n    return a\n",
    "to the device by its name": "    a = torch.eye(3)\n    if x.is_cuda:\n        a = a.to(x.device)\n    return a\n",
    "other things in between": "    a = torch.eye(3)\n    b = log(y)\n    if x.is_cuda:\n        a = a.cuda()\n    return a, b\n",
    "beside another one": "    a = torch.eye(3)\n    if x.is_cuda:\n        y = y.cuda()\n        a = a.cuda()\n    return a, y\n",
    "an attribute that is asked": "    a = torch.eye(3)\n    if log.weight.is_cuda:\n        a = a.cuda()\n    return a\n",
}


@pytest.mark.parametrize("body", FOUND.values(), ids=FOUND)
def test_a_copy_under_the_condition_is_found(body: str) -> None:
    made, found = copies(HEAD + body)
    moves = [each for each in map(later_move, found) if each is not None]

    assert [ast.unparse(each.made) for each in moves] == ["torch.eye(3)"]
    assert ast.unparse(moves[0].statement).startswith("a = a.")
    assert moves[0].statement in moves[0].condition.body
    assert ast.unparse(moves[0].other) in {"x", "log.weight"}
    assert all(why_other_device(made.flow, each) is None for each in found)


NOT_FOUND = {
    "it is read in between": "    a = torch.eye(3)\n    log(a)\n    if x.is_cuda:\n        a = a.cuda()\n",
    "it is written to in between": "    a = torch.eye(3)\n    a[0] = 1\n    if x.is_cuda:\n        a = a.cuda()\n",
    "it is read before it is copied": "    a = torch.eye(3)\n    if x.is_cuda:\n        log(a)\n        a = a.cuda()\n",
    "the other name is bound in between": "    a = torch.eye(3)\n    x = y\n    if x.is_cuda:\n        a = a.cuda()\n",
    "the other name is bound by a loop": "    a = torch.eye(3)\n    for x in y:\n        pass\n    if x.is_cuda:\n        a = a.cuda()\n",
    "the other tensor is moved in between": (
        "    a = torch.eye(3)\n    x.data = x.data.cuda()\n    if x.is_cuda:\n        a = a.cuda()\n"
    ),
    "an attribute may be moved by what is called": (
        "    a = torch.eye(3)\n    log.move()\n    if log.weight.is_cuda:\n        a = a.cuda()\n"
    ),
    "a function within reads it": (
        "    def shown():\n        return a\n\n    a = torch.eye(3)\n    log(shown)\n    if x.is_cuda:\n        a = a.cuda()\n"
    ),
    "the name is global": ("    global a\n    a = torch.eye(3)\n    log(y)\n    if x.is_cuda:\n        a = a.cuda()\n"),
    "something else is done without CUDA": (
        "    a = torch.eye(3)\n    if x.is_cuda:\n        a = a.cuda()\n    else:\n        log(y)\n"
    ),
    "it is one of several conditions": (
        "    a = torch.eye(3)\n    if y is None:\n        log(y)\n    elif x.is_cuda:\n        a = a.cuda()\n"
    ),
    "another condition holds, too": "    a = torch.eye(3)\n    if x.is_cuda and y:\n        a = a.cuda()\n",
    "it asks the tensor itself": "    a = torch.eye(3)\n    if a.is_cuda:\n        a = a.cuda()\n",
    "it asks what is called": "    a = torch.eye(3)\n    if log(x).is_cuda:\n        a = a.cuda()\n",
    "the copy has another name": "    a = torch.eye(3)\n    if x.is_cuda:\n        b = a.cuda()\n",
    "the copy goes elsewhere": '    a = torch.eye(3)\n    if x.is_cuda:\n        a = a.to("cuda:1")\n',
    "the copy goes to where a third tensor is": (
        "    a = torch.eye(3)\n    if x.is_cuda:\n        a = a.to(y.device)\n"
    ),
    "it is made under a condition": ("    if y:\n        a = torch.eye(3)\n    if x.is_cuda:\n        a = a.cuda()\n"),
    "it is made further out": ("    a = torch.eye(3)\n    while y:\n        if x.is_cuda:\n            a = a.cuda()\n"),
    "two names share it": "    a = b = torch.eye(3)\n    if x.is_cuda:\n        a = a.cuda()\n    log(b)\n",
}


@pytest.mark.parametrize("body", NOT_FOUND.values(), ids=NOT_FOUND)
def test_what_may_be_another_tensor_is_not_found(body: str) -> None:
    _, found = copies(HEAD + body)

    assert found
    assert not any(later_move(each) for each in found)


def test_at_the_top_of_a_script_nothing_may_stand_between() -> None:
    text = "import torch\n\nx = torch.ones(3).cuda()\na = torch.eye(3)\n{}if x.is_cuda:\n    a = a.cuda()\n"
    _, near = copies(text.format(""))
    _, far = copies(text.format("print(x)\n"))

    assert [each.call.lineno for each in near if later_move(each)] == [6]
    assert not any(later_move(each) for each in far)


@pytest.mark.parametrize(
    ("other", "line"),
    [
        pytest.param('y.to("cuda:1")', (8,), id="by its name"),
        pytest.param("y.cuda(1)", (8,), id="by its index"),
        pytest.param('y.to("cuda:0")', None, id="the first one alone"),
        pytest.param("y.sum(1)", None, id="a number that is no index"),
    ],
)
def test_of_several_devices_the_current_one_may_be_another(other: str, line: tuple[int] | None) -> None:
    made, found = copies(f"{HEAD}{FOUND['directly below'].replace('return a', 'z = ' + other)}")
    reason = why_other_device(made.flow, found[0])

    assert (reason.places[0].lines if reason is not None else None) == line


def move(body: str) -> LaterMove:
    """The one that a function's body makes."""
    _, found = copies(HEAD + body)
    (made,) = [each for each in map(later_move, found) if each is not None]
    return made


BELOW = "    if x.is_cuda:\n        b = b.cuda()\n"
EARLIER = {
    "another name": ("    a = torch.eye(3)\n    b = a[None]\n" + BELOW, {"a"}),
    "two other names": ("    a = torch.eye(3)\n    c = a[None]\n    b = c.long()\n" + BELOW, {"a", "c"}),
    "the same name": ("    b = torch.eye(3)\n    b = b[None]\n" + BELOW, {"b"}),
    "other things in between": ("    a = torch.eye(3)\n    log(y)\n    b = a[None]\n" + BELOW, {"a"}),
    "it is read twice": ("    a = torch.eye(3)\n    b = a[None]\n    log(a)\n" + BELOW, set()),
    "it is read twice at once": ("    a = torch.eye(3)\n    b = a.repeat(a.size(0), 1)\n" + BELOW, set()),
    "it is read below": ("    a = torch.eye(3)\n    b = a[None]\n" + BELOW + "    log(a)\n", set()),
    "it is bound again": ("    a = torch.eye(3)\n    b = a[None]\n    a = 3\n" + BELOW, set()),
    "it is read before it is bound again": (
        "    b = torch.eye(3)\n    log(b)\n    b = b[None]\n" + BELOW,
        set(),
    ),
    "it is made under a condition": ("    if y:\n        a = torch.eye(3)\n    b = a[None]\n" + BELOW, set()),
    "the other name is bound in between": ("    a = torch.eye(3)\n    x = y\n    b = a[None]\n" + BELOW, set()),
    "it is made of itself": ("    a = 0\n    a = a + torch.eye(3)\n    b = a[None]\n" + BELOW, set()),
    "an attribute may be moved by what is called": (
        "    a = torch.eye(3)\n    log.move()\n    b = a[None]\n    if log.weight.is_cuda:\n        b = b.cuda()\n",
        set(),
    ),
    "a function within reads it": (
        "    a = torch.eye(3)\n    b = a[None]\n    log(lambda: a)\n" + BELOW,
        set(),
    ),
}


@pytest.mark.parametrize(("body", "names"), EARLIER.values(), ids=EARLIER)
def test_names_that_are_only_read_to_make_it(body: str, names: set[str]) -> None:
    assert set(move(body).earlier) == names


COMPARED = {
    "with a column": ("    return b < x.unsqueeze(1)\n", True),
    "with a column by its index": ("    return x[:, None] >= b\n", True),
    "with a column that is expanded by it": ("    c = x.unsqueeze(1).expand_as(b)\n    return b < c\n", True),
    "with what may lie otherwise in memory": ("    return b < x\n", False),
    "with what has two values": ("    c = x.unsqueeze(1)\n    c = c.T\n    return b < c\n", False),
    "it is written to": ("    b[0] = 1\n    return b < x.unsqueeze(1)\n", False),
    "it is added to": ("    b += 1\n    return b < x.unsqueeze(1)\n", False),
    "it is returned": ("    return b\n", False),
    "it is handed on": ("    log(b)\n    return b < x.unsqueeze(1)\n", False),
    "a function within reads it": ("    return lambda: b < x.unsqueeze(1)\n", False),
    "nothing reads it": ("    return x\n", False),
}


@pytest.mark.parametrize(("body", "expected"), COMPARED.values(), ids=COMPARED)
def test_what_is_only_compared_may_share_its_memory(body: str, *, expected: bool) -> None:
    made = move("    b = torch.arange(3).expand(2, 3)\n" + BELOW + body)

    assert made.is_only_compared is expected


def test_the_next_pass_of_a_loop_may_do_something_else_with_it() -> None:
    body = "    while y:\n        log(b)\n        b = torch.eye(3)\n        if x.is_cuda:\n            b = b.cuda()\n        y = b < x.unsqueeze(1)\n"

    assert not move(body).is_only_compared


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        pytest.param("    log(a)\n", 6, id="it is read"),
        pytest.param("    log(y)\n", None, id="something else is read"),
        pytest.param("    a[0] = y\n    log(a)\n", None, id="it is written to"),
        pytest.param("    a = torch.ones(len(log(a)))\n", None, id="it is bound anew"),
    ],
)
def test_what_reads_a_name_before_its_copy(between: str, expected: int | None) -> None:
    _, (copy,) = copies(f"{HEAD}    a = torch.eye(3)\n{between}    a = a.cuda()\n    return a\n")
    found = read_before(copy)

    assert (found[1].lineno if found is not None else None) == expected


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        pytest.param("b = a < y.unsqueeze(1)", True, id="it is compared with a column"),
        pytest.param("b = a < y", False, id="it is compared with anything"),
        pytest.param("b = a.sum()", False, id="it is computed with"),
    ],
)
def test_what_is_only_compared(use: str, *, expected: bool) -> None:
    _, (copy,) = copies(f"{HEAD}    a = torch.arange(3).expand(2, 3).cuda()\n    {use}\n    return b\n")

    assert is_only_compared(copy) is expected
