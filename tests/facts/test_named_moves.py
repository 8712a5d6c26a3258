"""Values that a name is given on the host, and that go to a device by it below."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.devices.named_moves import NamedMove, named_moves

HEAD = "import torch\nfrom torch.autograd import Variable\n\nuse_cuda = torch.cuda.is_available()\n\n\n"
DEF = "def run(n, device, opt, log):\n"


def moves(body: str, head: str = HEAD + DEF) -> list[NamedMove]:
    made = script(head + body)
    (transfer,) = [each for each in made.transfers if each.method in {"cuda", "to"}]
    return named_moves(made.flow, transfer)


FOUND = {
    "under a condition": ("    a = torch.ones(n)\n    if use_cuda:\n        a = a.cuda()\n    log(a)\n", "use_cuda"),
    "under an option": ("    a = torch.ones(n)\n    if opt.cuda:\n        a = a.cuda()\n    log(a)\n", "opt.cuda"),
    "where CUDA is available": (
        "    a = torch.ones(n)\n    if torch.cuda.is_available() and not opt.cpu:\n        a = a.cuda()\n    log(a)\n",
        "torch.cuda.is_available() and (not opt.cpu)",
    ),
    "in an expression with a condition": ("    a = torch.ones(n)\n    a = a.cuda() if use_cuda else a\n", "use_cuda"),
    "in any case": ("    a = torch.ones(n)\n    log(n)\n    a = a.to(device)\n", None),
    "as a part of a call": ("    a = torch.ones(n)\n    return log(a.to(device))\n", None),
    "under another name": ("    a = torch.ones(n)\n    b = Variable(a).long().to(device)\n    return b\n", None),
    "with a device that is named": ("    a = torch.ones(n)\n    a = a.to(torch.device('cuda'))\n    return a\n", None),
    "what a loop jumps over is another loop's": (
        "    a = torch.ones(n)\n    for each in log:\n        if each:\n            break\n    return log(a.to(device))\n",
        None,
    ),
}


@pytest.mark.parametrize(("body", "condition"), FOUND.values(), ids=FOUND)
def test_the_one_value_of_a_name_is_found(body: str, condition: str | None) -> None:
    (move,) = moves(body)

    assert ast.unparse(move.made) == "torch.ones(n)"
    assert (move.name, move.values) == ("a", 1)
    assert (move.condition and ast.unparse(move.condition.test)) == condition


def test_what_copies_the_name_to_itself_is_a_statement_of_its_own() -> None:
    copies = ["a = a.to(device)", "a = a.cuda() if use_cuda else a", "b = a.to(device)", "a = a.long().to(device)"]
    found = [moves(f"    a = torch.ones(n)\n    {each}\n") for each in copies]

    assert [move.statement is not None for (move,) in found] == [True, True, False, False]


def test_each_branch_may_give_it_a_value() -> None:
    body = "    if opt:\n        a = torch.ones(n)\n    else:\n        a = torch.rand(n)\n    a = a.to(device)\n"

    assert [ast.unparse(each.made) for each in moves(body)] == ["torch.ones(n)", "torch.rand(n)"]
    assert {each.values for each in moves(body)} == {2}


def test_what_is_not_known_of_it_stays_a_copy() -> None:
    body = "    if opt:\n        n = torch.ones(2)\n    n = n.to(device)\n"

    assert [(ast.unparse(each.made), each.values) for each in moves(body)] == [("torch.ones(2)", 0)]


def test_names_of_a_module_may_be_copied_in_a_loop() -> None:
    body = "for i in range(9):\n    a = torch.ones(i)\n    if use_cuda:\n        a = a.cuda()\n    print(a)\n"

    assert len(moves(body, HEAD)) == 1


NOT_FOUND = {
    "it is read in between": "    a = torch.ones(n)\n    log(a)\n    if use_cuda:\n        a = a.cuda()\n",
    "it is written to in between": "    a = torch.ones(n)\n    a[0] = 1\n    if use_cuda:\n        a = a.cuda()\n",
    "it is read under the condition": "    a = torch.ones(n)\n    if use_cuda:\n        log(a)\n        a = a.cuda()\n",
    "it has another name, too": "    a = torch.ones(n)\n    b = a\n    if use_cuda:\n        a = a.cuda()\n    log(b)\n",
    "it is copied elsewhere, too, on the host": "    a = torch.ones(n)\n    b = a.to(device)\n    return a, b\n",
    "there is another branch": "    a = torch.ones(n)\n    if use_cuda:\n        a = a.cuda()\n    else:\n        log(a)\n",
    "the condition has an effect": "    a = torch.ones(n)\n    if log():\n        a = a.cuda()\n",
    "it has another name under a condition": "    a = torch.ones(n)\n    if use_cuda:\n        b = a.cuda()\n",
    "the option is set in between": "    a = torch.ones(n)\n    opt = log\n    if opt.cuda:\n        a = a.cuda()\n",
    "the device is chosen in between": "    a = torch.ones(n)\n    device = log(n)\n    a = a.to(device)\n",
    "the device is computed": "    a = torch.ones(n)\n    a = a.to(log(n))\n",
    "the device is one of two": "    a = torch.ones(n)\n    a = a.to(opt or device)\n",
    "only one of the two expressions is computed": "    a = torch.ones(n)\n    b = opt and a.to(device)\n",
    "another expression where CUDA is not used": "    a = torch.ones(n)\n    a = a.cuda() if use_cuda else n\n",
    "a function reads it later": "    a = torch.ones(n)\n    log(lambda: a)\n    a = a.to(device)\n",
    "made once and copied again and again": "    a = torch.ones(n)\n    for _ in log:\n        log(a.to(device))\n",
    "made in a loop, perhaps": "    for a in log:\n        a = torch.ones(n)\n    a = a.to(device)\n",
    "a pass may end before it": (
        "    for i in log:\n        a = torch.ones(n)\n        if i:\n            continue\n        a = a.to(device)\n"
    ),
    "the function may end before it, where there is no device": (
        "    a = torch.ones(n)\n    if device is None:\n        return None\n    return log(a.to(device))\n"
    ),
    "it fails before it where CUDA is not available": (
        "    a = torch.ones(n)\n    for i in log:\n        if not use_cuda:\n            raise ValueError\n    a = a.cuda()\n"
    ),
    "the script may end before it": (
        "    a = torch.ones(n)\n    try:\n        log(n)\n    except ValueError:\n        exit()\n    a = a.to(device)\n"
    ),
    "the script goes on without CUDA": (
        "    try:\n        a = torch.ones(n)\n        a = a.cuda()\n    except RuntimeError:\n        pass\n    log(a)\n"
    ),
    "a function of the name": "    a = torch.ones(n)\n    a = torch.cat([a]).to(device)\n",
}


@pytest.mark.parametrize("body", NOT_FOUND.values(), ids=NOT_FOUND)
def test_what_may_be_seen_on_the_host_or_go_elsewhere_is_not_found(body: str) -> None:
    assert moves(body) == []


@pytest.mark.parametrize(
    "setter",
    [
        pytest.param("def choose():\n    global use_cuda\n    use_cuda = False\n\n\n", id="a name of the module"),
        pytest.param("def choose(opt):\n    opt.cuda = False\n\n\n", id="an attribute"),
    ],
)
def test_a_function_that_is_called_in_between_may_choose_otherwise(setter: str) -> None:
    body = "    a = torch.ones(n)\n    log(opt)\n    if use_cuda and opt.cuda:\n        a = a.cuda()\n"

    assert len(moves(body)) == 1
    assert moves(body, HEAD + setter + DEF) == []
