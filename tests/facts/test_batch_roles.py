"""What do names in a loop over batches hold."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.data.batch_roles import Role, role_of, roles_in, takes_parts
from codemods.facts.reason import Reason

HEAD = """\
import torch
from torch.autograd import Variable
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
from tqdm import tqdm
loader = DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), batch_size=64)
"""
BATCH, IMAGES, LABELS = Role.BATCH, Role.IMAGES, Role.LABELS


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        pytest.param("for x, y in loader:\n    pass", {"x": IMAGES, "y": LABELS}, id="unpacked"),
        pytest.param("for [x, *y] in loader:\n    pass", {"x": IMAGES}, id="the rest has no name of its own"),
        pytest.param("for i, (x, y) in enumerate(tqdm(loader)):\n    pass", {"x": IMAGES, "y": LABELS}, id="counted"),
        pytest.param(
            "for batch in loader:\n    x, y = batch", {"batch": BATCH, "x": IMAGES, "y": LABELS}, id="unpacked within"
        ),
        pytest.param("for x, x in loader:\n    pass", {}, id="one name for both"),
    ],
)
def test_what_names_hold(loop: str, expected: dict[str, Role]) -> None:
    known = script(f"{HEAD}{loop}\n")
    (found,) = known.loaders

    assert roles_in(known, found, found.passes[0]) == expected


@pytest.mark.parametrize(
    ("reading", "said"),
    [
        pytest.param("x, y = next(iter(loader))", "a single batch is read outside of a loop", id="one batch"),
        pytest.param("for i in enumerate(loader):\n    x, y = i[1]", "is not followed", id="counted, and not unpacked"),
    ],
)
def test_what_is_not_followed(reading: str, said: str) -> None:
    known = script(f"{HEAD}{reading}\n")
    (found,) = known.loaders
    reason = roles_in(known, found, found.passes[0])

    assert isinstance(reason, Reason)
    assert reason.code == "unknown-reading"
    assert said in reason.text


@pytest.mark.parametrize(
    ("expression", "may_reshape", "expected"),
    [
        pytest.param("x", False, IMAGES, id="a name"),
        pytest.param("z", False, None, id="another name"),
        pytest.param("batch[0]", False, IMAGES, id="the first part"),
        pytest.param("batch[1]", False, LABELS, id="another part"),
        pytest.param("batch[-1]", False, None, id="a part from the end"),
        pytest.param("Variable(x)", False, IMAGES, id="a variable"),
        pytest.param("torch.abs(x)", False, None, id="something new"),
        pytest.param("x.view(-1, 784)", True, IMAGES, id="in another shape"),
        pytest.param("x.view(-1, 784)", False, None, id="in another shape, where channels differ"),
    ],
)
def test_what_an_expression_is(expression: str, expected: Role | None, *, may_reshape: bool) -> None:
    known = script(f"{HEAD}for batch in loader:\n    x, y = batch\n    z = y\n    {expression}\n")
    end = known.module.nodes(ast.Expr)[-1]

    assert role_of(known, end.value, {"batch": BATCH, "x": IMAGES, "y": LABELS}, may_reshape=may_reshape) is expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [("x, y = batch", True), ("x = batch[0]", True), ("x = batch[-1]", False), ("x = batch", False)],
)
def test_whether_parts_of_a_batch_are_taken(statement: str, *, expected: bool) -> None:
    known = script(f"{statement}\n")
    (node,) = (each for each in known.module.nodes(ast.Name) if each.id == "batch")

    assert takes_parts(known.module.parent(node), node) is expected
