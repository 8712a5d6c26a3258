"""Whether an optimizer is given all parameters of its models, or a choice of them."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.optimizers import chosen

HEAD = "import torch\nfrom torch import nn\nmodel = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))\n"


def left_out(given: str, before: str = "") -> str | None:
    """The text where parameters are left out."""
    known = script(f"{HEAD}{before}\ntorch.optim.SGD({given}, lr=0.1)\n")
    call = known.module.tree.body[-1].value  # type: ignore[attr-defined]
    found = chosen(known.flow, call.args[0])
    return None if found is None else ast.unparse(found)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param("model.parameters()", id="all of them"),
        pytest.param("list(model.parameters())", id="a list"),
        pytest.param("[p for p in model.parameters() if p.requires_grad]", id="those that need gradients"),
        pytest.param("filter(lambda p: p.requires_grad, model.parameters())", id="a filter of those"),
        pytest.param(
            "[{'params': [p for n, p in model.named_parameters() if 'bias' in n]},"
            " {'params': [p for n, p in model.named_parameters() if 'bias' not in n]}]",
            id="two groups that are opposites",
        ),
        pytest.param(
            "[{'params': [p for n, p in model.named_parameters() if not any(w in n for w in words)]},"
            " {'params': [p for n, p in model.named_parameters() if any(w in n for w in words)]}]",
            id="the opposite is written with not",
        ),
        pytest.param(
            "[{'params': [p for p in model.parameters() if p.dim() >= 2]},"
            " {'params': [p for p in model.parameters() if p.dim() < 2]}]",
            id="by their dimensions",
        ),
        pytest.param(
            "[{'params': [p for n, p in model.named_parameters() if 'bias' in n and 'norm' in n]},"
            " {'params': [p for n, p in model.named_parameters() if 'bias' in n and 'norm' not in n]},"
            " {'params': [p for n, p in model.named_parameters() if 'bias' not in n]}]",
            id="all cases of two conditions",
        ),
    ],
)
def test_none_are_left_out(given: str) -> None:
    assert left_out(given) is None


@pytest.mark.parametrize(
    ("given", "where"),
    [
        pytest.param("list(model.parameters())[2:]", "list(model.parameters())[2:]", id="a slice"),
        pytest.param("[p for n, p in model.named_parameters() if 'bias' in n]", "'bias' in n", id="by their names"),
        pytest.param("filter(lambda p: p.dim() > 1, model.parameters())", "p.dim() > 1", id="a filter"),
        pytest.param("[p for p in model.parameters() if p.requires_grad and p.dim() > 1]", "p.dim() > 1", id="and"),
        pytest.param(
            "[{'params': [p for n, p in model.named_parameters() if 'bias' in n]},"
            " {'params': [p for n, p in model.named_parameters() if 'norm' not in n]}]",
            "'norm' not in n",
            id="two groups that are no opposites",
        ),
        pytest.param(
            "[{'params': [p for p in model.parameters() if p.dim() > 2]},"
            " {'params': [p for p in model.parameters() if p.dim() < 2]}]",
            "p.dim() < 2",
            id="the middle is missing",
        ),
        pytest.param(
            "[{'params': [p for n, p in model.named_parameters() if 'bias' in n and 'norm' in n]},"
            " {'params': [p for n, p in model.named_parameters() if 'bias' not in n and 'norm' not in n]}]",
            "'norm' not in n",
            id="two conditions, and only two of their four cases",
        ),
    ],
)
def test_where_some_are_left_out(given: str, where: str) -> None:
    found = left_out(given)

    assert found is not None
    assert where in found


def collected(body: str) -> str | None:
    """What is left out of lists that a loop over the parameters fills."""
    loop = "decay, others = [], []\nfor name, p in model.named_parameters():\n"
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return left_out("[{'params': decay}, {'params': others, 'weight_decay': 0}]", loop + lines)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("if 'bias' in name:\n    others.append(p)\nelse:\n    decay.append(p)", id="both branches add"),
        pytest.param(
            "if 'bias' in name:\n    others.append(p)\nelif p.dim() == 1:\n    others.append(p)\nelse:\n    decay.append(p)",
            id="a chain with an else",
        ),
        pytest.param("if not p.requires_grad:\n    continue\ndecay.append(p)", id="frozen ones are passed over"),
        pytest.param("if p.requires_grad:\n    decay.append(p)", id="those that need gradients"),
    ],
)
def test_a_loop_that_leaves_none_out(body: str) -> None:
    assert collected(body) is None


@pytest.mark.parametrize(
    ("body", "where"),
    [
        pytest.param("if 'bias' in name:\n    decay.append(p)", "if 'bias' in name:", id="one branch"),
        pytest.param(
            "if 'bias' in name:\n    decay.append(p)\nelif p.dim() == 1:\n    others.append(p)",
            "if 'bias' in name:",
            id="a chain without an else",
        ),
        pytest.param("if 'bias' in name:\n    continue\ndecay.append(p)", "continue", id="some are passed over"),
        pytest.param("if len(decay) > 3:\n    break\ndecay.append(p)", "break", id="the loop ends early"),
    ],
)
def test_a_loop_that_leaves_some_out(body: str, where: str) -> None:
    found = collected(body)

    assert found is not None
    assert found.split("\n")[0] == where


def test_an_assertion_says_that_none_is_left() -> None:
    before = """\
names = {n for n, p in model.named_parameters()}
decay = {n for n, p in model.named_parameters() if p.dim() > 1}
"""
    given = "[p for n, p in model.named_parameters() if n in decay]"

    assert left_out(given, before) is not None
    assert left_out(given, before + "assert len(names - decay) == 0\n") is None
    assert left_out(given, before + "assert names - decay\n") is not None


def test_an_assertion_of_another_function_says_nothing() -> None:
    before = "def check(names, decay):\n    assert len(names - decay) == 0\n"

    assert left_out("[p for n, p in model.named_parameters() if 'bias' in n]", before) is not None


def test_a_choice_in_lists_of_lists_that_functions_make() -> None:
    makers = "def f0():\n    return [p for p in model.parameters() if p.dim() > 1]\n"
    makers += "".join(f"def f{at}():\n    return [f{at - 1}()]\n" for at in range(1, 7))

    assert left_out("f6()", makers) == "[p for p in model.parameters() if p.dim() > 1]"


def test_a_list_that_holds_itself() -> None:
    assert left_out("groups", "groups = [model.weight]\ngroups.append(groups)") is None


@pytest.mark.parametrize(
    ("letters", "is_complete"),
    [pytest.param("abcdefgh", True, id="eight"), pytest.param("abcdefghi", False, id="too many to try all answers")],
)
def test_by_how_many_names_parameters_are_told_apart(letters: str, *, is_complete: bool) -> None:
    """Each group has what none of those before it has, and the last one all that is left."""
    without = [" and ".join(f"{each!r} not in n" for each in letters[:end]) for end in range(len(letters) + 1)]
    tests = [
        f"{before} and {each!r} in n".removeprefix(" and ") for before, each in zip(without, letters, strict=False)
    ]
    groups = [f"[p for n, p in model.named_parameters() if {test}]" for test in (*tests, without[-1])]

    given = ", ".join(f"{{'params': {each}}}" for each in groups)
    assert (left_out(f"[{given}]") is None) is is_complete
