"""Which expressions are tensors without dimensions."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.numbers import is_item_of_number, is_number_alone, is_without_dimensions

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
criterion = nn.MSELoss()
each = nn.MSELoss(reduction="none")
def mean(x):
    return torch.mean(x)
def pair(x):
    return torch.mean(x), x
def perhaps(x):
    return x.mean() if flag else x
def likeness(x, y, whole=True):
    return compared(x, y, whole)
def compared(x, y, whole):
    if whole:
        return torch.mean(x * y)
    else:
        return torch.mean(x * y, 1)
"""


def is_item(expression: str, before: str = "pass") -> bool:
    """Whether an item is asked of a tensor that has none."""
    known = script(f"{HEAD}{before}\n{expression}\n")
    last = known.module.tree.body[-1]
    assert isinstance(last, ast.Expr)
    (item,) = [each for each in known.module.nodes(ast.Subscript) if last in known.module.ancestors(each)]
    return is_item_of_number(known.flow, known.module, item)


@pytest.mark.parametrize(
    ("expression", "before"),
    [
        ("loss[0]", "loss = criterion(x, y)"),
        ("loss.data[0]", "loss = criterion(x, y)"),
        ("loss.data.cpu().numpy()[0]", "loss = criterion(x, y)"),
        ("loss[0]", "loss = F.cross_entropy(x, y)"),
        ("loss[0]", "loss = criterion(x, y) + 0.1 * criterion(y, x)"),
        ("loss[0]", "loss = -criterion(x, y)"),
        ("loss[0]", "loss = nn.MSELoss(reduction='mean')(x, y)"),
        ("loss[0]", "loss = F.kl_div(x, y, reduction='batchmean')"),
        ("loss[0]", "how = 'sum' if flag else 'mean'\nloss = F.mse_loss(x, y, reduction=how)"),
        ("loss.tolist()[0]", "loss = criterion(x, y)"),
        ("largest[0]", "largest = torch.max(x)"),
        ("torch.rand(3).norm().data[0]", "pass"),
        ("likeness(x, y).data[0]", "pass"),
        ("loss[0]", "loss = torch.mean(x)"),
        ("loss[0]", "loss = mean(x)"),
        ("loss[0]", "loss = criterion(x, y) + torch.sum(x).mul_(-0.5)"),
        ("loss[0]", "loss = torch.sum(x).div(2).add(criterion(x, y), alpha=0.1)"),
        ("loss[0]", "loss = torch.mean(x).add_(y)"),
        ("loss[0]", "n = x.size(0)\nloss = F.mse_loss(x, y, size_average=False).div(n)"),
        ("loss[0]", "loss = torch.sum(x) / len(x) + torch.sum(y) / y.shape[0] / y.numel()"),
        ("loss[0]", "loss = (nn.L1Loss() if flag else nn.MSELoss())(x, y)"),
        ("loss[0]", "loss = criterion(x, y)\nif flag:\n    loss = criterion(y, x)"),
        ("loss[0]", "loss = nn.NLLLoss2d(None, False, 255)(x, y)"),
        ("loss[0]", "loss = nn.CrossEntropyLoss(x, flag)(x, y)"),
        ("loss[0]", "loss = (mean if flag else torch.mean)(x)"),
        ("loss[0]", "loss = torch.mean(x) if flag else torch.sum(x)"),
        ("loss[0]", "found = criterion(x, y)\nloss = found[0] if isinstance(found, tuple) else found"),
        ("loss[0]", "found = (mean if flag else pair)(x)\nloss = found[0] if type(found) in (tuple, list) else found"),
        (
            "loss[0]",
            "chosen = None\nif flag:\n    chosen = criterion\nelif x:\n    chosen = nn.L1Loss()\nloss = chosen(x, y)",
        ),
    ],
)
def test_a_tensor_without_dimensions(expression: str, before: str) -> None:
    assert is_item(expression, before)


@pytest.mark.parametrize(
    ("expression", "before"),
    [
        pytest.param("loss[0]", "loss = each(x, y)", id="one for each sample"),
        pytest.param("loss[0]", "loss = F.mse_loss(x, y, reduction='none')", id="one for each sample, by a function"),
        pytest.param("loss[0]", "loss = F.mse_loss(x, y, reduction=flag)", id="a reduction that is not known"),
        pytest.param(
            "loss[0]",
            "how = 'none' if flag else 'mean'\nloss = F.mse_loss(x, y, reduction=how)",
            id="perhaps one for each sample",
        ),
        pytest.param("loss[0]", "loss = nn.MSELoss(reduce=flag, reduction='mean')(x, y)", id="an older option"),
        pytest.param("loss[0]", "loss = nn.NLLLoss(None, True, 255, False)(x, y)", id="it is not to reduce"),
        pytest.param("loss[0]", "loss = nn.MSELoss(True, False)(x, y)", id="nor is this one"),
        pytest.param("loss[0]", "loss = nn.MSELoss(*given)(x, y)", id="what the loss is given is not known"),
        pytest.param("loss[0]", "loss = nn.MSELoss(**given)(x, y)", id="nor by which names"),
        pytest.param("loss[0]", "loss = criterion(x, y).view(1)", id="it has one dimension"),
        pytest.param("loss[0]", "loss = torch.mean(x, 1)", id="the mean of each row"),
        pytest.param("loss[0]", "loss = torch.max(x, 0)", id="the largest of each column, and where they are"),
        pytest.param("loss[0]", "loss = likeness(x, y, whole=False)", id="one for each row, as it is told"),
        pytest.param("loss[0]", "loss = likeness(x, y)\nlikeness(y, x, False)", id="as it is told elsewhere, perhaps"),
        pytest.param("loss[0]", "n = x.size(0)\nn = y\nloss = torch.sum(x).div(n)", id="a size, or something else"),
        pytest.param("loss[0]", "loss = torch.sum(x) / torch.tensor(x.shape[1:])", id="divided by several sizes"),
        pytest.param("loss[0]", "loss = torch.mean(x).add(y)", id="a number beside what may have dimensions"),
        pytest.param("loss[0]", "loss = x.mul_(torch.mean(x))", id="in place of what may have dimensions"),
        pytest.param("loss[0]", "loss = library(x)", id="what is not known"),
        pytest.param("loss[0]", "loss = (nn.L1Loss() if flag else each)(x, y)", id="one of two losses keeps them"),
        pytest.param("loss[0]", "loss = (torch.mean if flag else perhaps)(x)", id="a mean, or what may return more"),
        pytest.param("loss[0]", "loss = perhaps(x)", id="a function that may return more"),
        pytest.param("loss[0]", "loss = criterion(x, y)\nif flag:\n    loss = x", id="something else on one way"),
        pytest.param("loss[0]", "loss = torch.mean(x) if flag else x", id="a mean, or what may have dimensions"),
        pytest.param(
            "loss[0]",
            "found = (mean if flag else pair)(x)\nloss = found[1] if isinstance(found, tuple) else found",
            id="of a mean or a pair, what may have dimensions",
        ),
        pytest.param(
            "loss[0]",
            "found = (pair if flag else library)(x)\nloss = found[0] if isinstance(found, tuple) else found",
            id="the first of a pair, or what is not known",
        ),
        pytest.param(
            "loss[0]",
            "found = (mean if flag else pair)(x)\nloss = found[2] if isinstance(found, tuple) else found",
            id="what a pair has not",
        ),
        pytest.param("loss[None]", "loss = criterion(x, y)", id="a new dimension"),
        pytest.param("loss[...]", "loss = criterion(x, y)", id="all of them"),
    ],
)
def test_what_may_have_items(expression: str, before: str) -> None:
    assert not is_item(expression, before)


def test_what_is_computed_of_itself_is_not_known() -> None:
    assert not is_item("total[0]", "total = total + 1")


@pytest.mark.parametrize(
    "before",
    [
        pytest.param("pair = loss, 3\npair, rest = pair", id="into its own name"),
        pytest.param("one, other = other, loss\nother, one = one", id="into one another"),
    ],
)
def test_what_is_unpacked_from_itself_is_not_known(before: str) -> None:
    name = before.partition(" ")[0].rstrip(",")
    assert not is_item(f"{name}[0]", before)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("p.grad.data.norm(2)", True, id="the norm of a gradient"),
        pytest.param("p.detach().sum()", True, id="a sum"),
        pytest.param("p.grad.norm(2, 1)", False, id="norms of rows"),
        pytest.param("p.grad.norm(dim=0)", False, id="norms of columns"),
        pytest.param("p.sum(0)", False, id="sums of columns"),
    ],
)
def test_what_is_made_of_all_items_of_a_parameter(expression: str, *, expected: bool) -> None:
    known = script(f"{HEAD}for p in nn.Linear(2, 3).parameters():\n    answer = {expression}\n")
    (call,) = (each.value for each in known.module.nodes(ast.Assign) if ast.unparse(each.targets[0]) == "answer")

    assert is_without_dimensions(known.flow, known.module, call) is expected


ACCURACY = """\
import torch
def accuracy(output, target, topk=(1,)):
    hits = output.topk(max(topk), 1)[1].t().eq(target)
    result = []
    for k in topk:
        top = {top}
        result.append({share})
    return result
kept = torch.zeros(3)
def last(x):
    return kept
def f(x, y):
    acc1, acc5 = accuracy(x, y, (1, 5))
    {read}.item()
f(torch.randn(3, 4), torch.ones(3))
"""
KEEPDIM = "hits[:k].reshape(-1).float().sum(0, keepdim=True)"
FLAT = "hits[:k].reshape(-1).float().sum(0)"


@pytest.mark.parametrize(
    ("top", "share", "read", "expected"),
    [
        pytest.param(KEEPDIM, "top.mul_(100.0 / output.size(0))", "acc1", True, id="in place"),
        pytest.param(KEEPDIM, "top.mul_(100.0 / output.size(0))", "acc1[0]", True, id="the first of one"),
        pytest.param(KEEPDIM, "top * (100.0 / output.size(0))", "acc5[0]", True, id="the first of a product"),
        pytest.param(KEEPDIM.replace("keepdim=", ""), "top.div(3)", "acc1[0]", True, id="by position"),
        pytest.param(FLAT, "top.mul_(100.0)", "acc1", True, id="without dimensions"),
        pytest.param(FLAT, "top.mul_(100.0)", "acc1[0]", False, id="the first of several, perhaps"),
        pytest.param(KEEPDIM, "top.mul(output)", "acc1[0]", False, id="the first of a product with another tensor"),
        pytest.param(KEEPDIM, "top.mul_(100.0)", "acc1[1]", False, id="another one"),
        pytest.param(KEEPDIM, "hits[k, 0]", "acc1", False, id="an item of something larger"),
        pytest.param(KEEPDIM, "last(top)", "acc1", False, id="what is kept elsewhere"),
        pytest.param(KEEPDIM, "top", "x.topk(1)[0]", False, id="of a pair"),
        pytest.param(KEEPDIM, "top", "x.sum(0, keepdim=True).detach().view(-1)", True, id="other shapes of it"),
        pytest.param(KEEPDIM, "top", "(x - y)", True, id="a difference"),
        pytest.param(FLAT, "top.mul_(100.0)", "accuracy(x, y)[1]", True, id="an item of the list at once"),
        pytest.param(KEEPDIM, "hits[k, 0]", "accuracy(x, y)[0]", False, id="an item of a list of parts"),
        pytest.param(KEEPDIM, "top", "last(x)[0]", False, id="an item of a tensor"),
        pytest.param(KEEPDIM, "top", "acc1.data", True, id="without its graph"),
        pytest.param(KEEPDIM, "top", "kept.data", False, id="of what any function may have"),
        pytest.param(KEEPDIM, "top", "kept.detach()", False, id="what any function may have"),
    ],
)
def test_what_item_reads_alone(top: str, share: str, read: str, expected: bool) -> None:  # noqa: FBT001 - as above
    known = script(ACCURACY.format(top=top, share=share, read=read))
    (item,) = (each for each in known.module.nodes(ast.Attribute) if each.attr == "item")

    assert is_number_alone(known.flow, known.module, item.value) is expected
