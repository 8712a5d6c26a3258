"""Logarithms of softmaxes: each form, what is left, and how near the numbers are."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from kit import check_leaves, check_rewrites, check_silent, run

from codemods.rules.loss_fuse import LossFuse

HEAD = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.functional import softmax

torch.manual_seed(0)
x = torch.randn(8, 4, requires_grad=True)
soft = nn.Softmax(dim=1)
"""
LINE = len(HEAD.splitlines()) + 1
FORMS = {
    "functions": ("y = torch.log(F.softmax(x, dim=1))", "y = F.log_softmax(x, dim=1)"),
    "functions of torch": ("y = torch.log(torch.softmax(x, 1)).sum()", "y = torch.log_softmax(x, 1).sum()"),
    "methods": ("y = (x + 1).softmax(-1).log()", "y = (x + 1).log_softmax(-1)"),
    "a layer that is made there": ("y = torch.log(nn.Softmax(dim=1)(x))", "y = nn.LogSoftmax(dim=1)(x)"),
    "a function by its name": ("y = softmax(x, 1).log()", "y = F.log_softmax(x, 1)"),
    "in another format": (
        "y = torch.log(input=F.softmax(x, dim=1, dtype=torch.float64))",
        "y = F.log_softmax(x, dim=1, dtype=torch.float64)",
    ),
    "on several lines": (
        "y = torch.log(F.softmax(\n    x,\n    dim=1,  # classes\n))",
        "y = F.log_softmax(\n    x,\n    dim=1,  # classes\n)",
    ),
    "in a name": ("p = F.softmax(x, 1)\ny = 2 * torch.log(p)", "y = 2 * F.log_softmax(x, 1)"),
    "in the same name": ("y = x.softmax(1)\ny = y.log()", "y = x.log_softmax(1)"),
    "a sum that is divided by": (
        "y = x - torch.log(torch.sum(torch.exp(x), 1, keepdim=True))",
        "y = torch.log_softmax(x, 1)",
    ),
    "a sum that is divided by, by methods": (
        "y = x - x.exp().sum(dim=-1, keepdim=True).log()",
        "y = torch.log_softmax(x, dim=-1)",
    ),
    "a dimension that a layer keeps": (
        "class L(nn.Module):\n    def __init__(self, axis=-1):\n        super().__init__()\n        self.axis = axis\n"
        "    def forward(self, x):\n        return x - torch.logsumexp(x, self.axis, keepdim=True)\ny = L()(x)",
        "class L(nn.Module):\n    def __init__(self, axis=-1):\n        super().__init__()\n        self.axis = axis\n"
        "    def forward(self, x):\n        return torch.log_softmax(x, self.axis)\ny = L()(x)",
    ),
    "an attribute": (
        "class P:\n    def __init__(self):\n        self.logits = x\np = P()\n"
        "y = p.logits - torch.logsumexp(p.logits, 1, keepdim=True)",
        "class P:\n    def __init__(self):\n        self.logits = x\np = P()\ny = torch.log_softmax(p.logits, 1)",
    ),
    "a function whose names are not listed": (
        "def f(x):\n    m = x.amax(1)\n    return m + torch.log(torch.exp(x - m[:, None]).sum(1))\n"
        "y = f(x) if 'x' in globals() else None",
        "def f(x):\n    return torch.logsumexp(x, 1)\ny = f(x) if 'x' in globals() else None",
    ),
    "a logsumexp that is divided by": ("y = x - x.logsumexp(1, keepdim=True)", "y = torch.log_softmax(x, 1)"),
    "a maximum that is taken off a softmax": (
        "m = x.max(dim=1, keepdim=True)[0]\ny = x - m - torch.log(torch.sum(torch.exp(x - m), dim=1, keepdim=True))",
        "y = torch.log_softmax(x, dim=1)",
    ),
    "a maximum of another dimension that is taken off": (
        "m = x.max(dim=0, keepdim=True)[0]\ns = x - m\ny = s - torch.log(torch.sum(torch.exp(s), dim=1, keepdim=True))",
        "m = x.max(dim=0, keepdim=True)[0]\ns = x - m\ny = torch.log_softmax(s, dim=1)",
    ),
    "a maximum that keeps its dimension": (
        "m, _ = torch.max(x, 1, keepdim=True)\ny = m + torch.log(torch.sum(torch.exp(x - m), 1, keepdim=True))",
        "y = torch.logsumexp(x, 1, keepdim=True)",
    ),
    "a maximum that loses its dimension": (
        "m = torch.max(x, 1, True).values\ny = m.squeeze(1) + (x - m).exp().sum(1).log()",
        "y = torch.logsumexp(x, 1)",
    ),
    "a maximum that is given its dimension back": (
        "m = torch.max(x, dim=1)[0]\ns = x - m.unsqueeze(1)\ny = torch.log(torch.sum(torch.exp(s), dim=1)) + m",
        "y = torch.logsumexp(x, dim=1)",
    ),
    "a maximum that is given its dimension by an index": (
        "m = x.amax(1)\ny = m + torch.log(torch.exp(x - m[:, None]).sum(1))",
        "y = torch.logsumexp(x, 1)",
    ),
    "a dimension that an option keeps": (
        """\
def log_sum_exp(value, dim=1, keepdim=False):
    m, _ = torch.max(value, dim=dim, keepdim=True)
    value0 = value - m
    if keepdim is False:
        m = m.squeeze(dim)
    return m + torch.log(torch.sum(torch.exp(value0), dim=dim, keepdim=keepdim))
y = log_sum_exp(x) + log_sum_exp(x, keepdim=True)""",
        """\
def log_sum_exp(value, dim=1, keepdim=False):
    return torch.logsumexp(value, dim=dim, keepdim=keepdim)
y = log_sum_exp(x) + log_sum_exp(x, keepdim=True)""",
    ),
    "scores that lose their maximum for good": (
        "def f(x):\n    m = x.amax(1)\n    x = x - m.unsqueeze(1)\n    return m + torch.log(torch.exp(x).sum(1))\ny = f(x)",
        "def f(x):\n    return torch.logsumexp(x, 1)\ny = f(x)",
    ),
    "a row of scores": (
        """\
def argmax(vec):
    _, at = torch.max(vec, 1)
    return at.item()
def log_sum_exp(vec):
    best = vec[0, argmax(vec)]
    row = best.view(1, -1).expand(1, vec.size()[1])
    return best + \\
        torch.log(torch.sum(torch.exp(vec - row)))
y = log_sum_exp(x[:1])""",
        """\
def argmax(vec):
    _, at = torch.max(vec, 1)
    return at.item()
def log_sum_exp(vec):
    return torch.logsumexp(vec, dim=(0, 1))
y = log_sum_exp(x[:1])""",
    ),
    "in two branches": (
        "if x.sum() > 0:\n    y = x.softmax(1).log()\nelse:\n    y = torch.log(x.softmax(1))",
        "if x.sum() > 0:\n    y = x.log_softmax(1)\nelse:\n    y = x.log_softmax(1)",
    ),
}


ROW = """\
def log_sum_exp(vec):
    best = vec[0, argmax(vec)]
    row = best.view(1, -1).expand(1, vec.size()[1])
    return best + torch.log(torch.sum(torch.exp(vec - row)))
y = log_sum_exp(x[:1])"""
SCALARS = {
    "a function between": "def number(v):\n    return v.view(-1).data.tolist()[0]\n"
    "def argmax(vec):\n    _, at = torch.max(vec, 1)\n    return number(at)\n",
    "an integer": "def argmax(vec):\n    at = int(torch.max(vec, 1)[1])\n    return at\n",
    "a lambda": "argmax = lambda vec: vec.argmax().item()\n",
}


@pytest.mark.parametrize(("before", "after"), FORMS.values(), ids=FORMS)
def test_each_form_is_computed_at_once(before: str, after: str) -> None:
    check_rewrites(LossFuse, f"{HEAD}{before}\n", f"{HEAD}{after}\n")


@pytest.mark.parametrize("form", FORMS)
def test_the_numbers_are_nearly_the_same(form: str) -> None:
    before = HEAD + FORMS[form][0] + "\ny.sum().backward()\n"
    results = []
    for text in (before, run(LossFuse, before).after):
        state = dict[str, Any]()
        exec(text, state)  # noqa: S102 - the script is written above
        results.append((state["y"], state["x"].grad))

    for one, other in zip(*results, strict=True):
        assert torch.allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("function", SCALARS.values(), ids=SCALARS)
def test_a_row_whose_maximum_is_a_number_is_summed_at_once(function: str) -> None:
    after = "def log_sum_exp(vec):\n    return torch.logsumexp(vec, dim=(0, 1))\ny = log_sum_exp(x[:1])"

    check_rewrites(LossFuse, f"{HEAD}{function}{ROW}\n", f"{HEAD}{function}{after}\n")


def test_only_what_is_computed_at_once_is_finite() -> None:
    scores = torch.tensor([[0.0, 200.0]])

    assert torch.log(F.softmax(scores, 1))[0, 0] == -math.inf
    assert F.log_softmax(scores, 1)[0, 0] == -200


BETWEEN = "something may run between the softmax and its logarithm (line {}), and change what it is of"
MAXIMUM = "m = x.max(1, keepdim=True)[0]"
NOT_ALONG = (
    f"whether 'm' is taken off along the dimension of the sum is not seen (line {LINE}): torch.logsumexp(x, dim) computes"
    " all of it"
)
LEFT = {
    "the probabilities are used": (
        "p = F.softmax(x, 1)\ny = p * torch.log(p)",
        f"the probabilities are used elsewhere as well (line {LINE + 1}), so that both would be computed",
    ),
    "something is added": (
        "y = torch.log(1e-8 + F.softmax(x, 1))",
        "'1e-8' is added to the probabilities, and bounds their logarithm from below: log_softmax() is finite without it",
    ),
    "a layer": (
        "y = torch.log(soft(x))",
        f"a layer of the model computes the softmax (line {LINE}), which it may do elsewhere as well: call"
        " torch.log_softmax() there",
    ),
    "a statement between": ("p = F.softmax(x, 1)\nx = x + 1\ny = torch.log(p)", BETWEEN.format(LINE + 2)),
    "a call before it": ("p = F.softmax(x, 1)\ny = x.detach().add_(1) + torch.log(p)", BETWEEN.format(LINE + 1)),
    "a loop": ("p = F.softmax(x, 1)\nfor _ in range(3):\n    y = torch.log(p)", BETWEEN.format(LINE + 2)),
    "a comprehension": ("p = F.softmax(x, 1)\ny = [torch.log(p) for _ in range(3)]", BETWEEN.format(LINE + 1)),
    "a condition": ("p = F.softmax(x, 1)\ny = torch.log(p) if x.sum() > 0 else x", BETWEEN.format(LINE + 1)),
    "other functions have the name": (
        "def log_p():\n    global p\n    p = F.softmax(x, 1)\n    return torch.log(p)\ny = log_p() * p",
        f"'p' is a name of other code, too (line {LINE + 1}), which may read the probabilities",
    ),
    "the name is deleted": (
        "p = F.softmax(x, 1)\ny = torch.log(p)\ndel p",
        f"'p' is deleted, and would not be there (line {LINE + 2}): take that statement away",
    ),
    "a statement of two softmaxes": (
        "p, q = F.softmax(x, 1), 2\ny = torch.log(p)",
        f"the statement of the softmax does more (line {LINE})",
    ),
    "a maximum that is used elsewhere": (
        f"{MAXIMUM}\ny = m + torch.log(torch.sum(torch.exp(x - m), 1, keepdim=True))\nprint(m)",
        f"'m' is used elsewhere as well (line {LINE + 2}), so that both would be computed",
    ),
    "the number of the maximum is used": (
        "m, i = torch.max(x, 1, keepdim=True)\ny = (m + torch.log(torch.sum(torch.exp(x - m), 1, keepdim=True))) * i",
        f"'i' is used elsewhere as well (line {LINE + 1}), so that both would be computed",
    ),
    "a maximum that a function reads": (
        f"{MAXIMUM}\ny = m + torch.log(torch.sum(torch.exp(x - m), 1, keepdim=True))\ndef f():\n    return m",
        f"other code may read 'm' (line {LINE})",
    ),
    "a maximum without a graph": (
        "m = x.detach().max(1, keepdim=True)[0]\ny = m + torch.log(torch.sum(torch.exp(x - m), 1, keepdim=True))",
        f"the maximum is taken off without a graph (line {LINE}): torch.logsumexp() would take as long",
    ),
    "a maximum of another dimension": (
        "m = x.max(0, keepdim=True)[0]\ny = m + torch.log(torch.sum(torch.exp(x - m), 1, keepdim=True))",
        NOT_ALONG,
    ),
    "a maximum that is added in another size": (
        f"{MAXIMUM}\ny = m + torch.log(torch.sum(torch.exp(x - m), 1))",
        NOT_ALONG,
    ),
    "a dimension that an option keeps": (
        f"{MAXIMUM}\ns = x - m\nif k:\n    m = m.squeeze(1)\ny = m + torch.log(torch.sum(torch.exp(s), 1, keepdim=k))",
        NOT_ALONG,
    ),
    "a dimension that another option keeps": (
        f"k = q = bool(len(x))\n{MAXIMUM}\ns = x - m\nif not k:\n    m = m.squeeze(1)\n"
        "y = m + torch.log(torch.sum(torch.exp(s), 1, keepdim=q))",
        NOT_ALONG.replace(f"line {LINE}", f"line {LINE + 1}"),
    ),
    "a statement between the maximum and the sum": (
        f"{MAXIMUM}\nx = x + 1\ny = m + torch.log(torch.sum(torch.exp(x - m), 1, keepdim=True))",
        f"other statements stand between the maximum and the sum (line {LINE})",
    ),
    "a function that lists the name of the probabilities": (
        "def f(x):\n    p = F.softmax(x, 1)\n    y = torch.log(p)\n    return y, dict(vars())\ny = f(x)[0]",
        f"'vars()' lists names (line {LINE + 3}), and 'p' would be none any more",
    ),
    "a function that lists its names": (
        f"def f(x):\n    {MAXIMUM}\n    y = m + torch.log(torch.sum(torch.exp(x - m), 1, keepdim=True))\n"
        "    return y, sorted(locals())\ny = f(x)[0]",
        f"'locals()' lists names (line {LINE + 3}), and 'm' would be none any more",
    ),
    "a function that lists the names of the module": (
        f"def f():\n    print(sorted(globals()))\n{MAXIMUM}\ny = m + torch.log(torch.sum(torch.exp(x - m), 1, True))\nf()",
        f"'globals()' lists names (line {LINE + 1}), and 'm' would be none any more",
    ),
    "two dimensions": (
        "dims = (0, 1)\ny = x - torch.logsumexp(x, dims, keepdim=True)",
        f"whether 'dims' is one dimension is not known (line {LINE + 1}), and torch.log_softmax() takes one",
    ),
    "dimensions that a layer keeps": (
        "class L(nn.Module):\n    def __init__(self, axes=[0, 1]):\n        super().__init__()\n        self.axes = axes\n"
        "    def forward(self, x):\n        return x - torch.logsumexp(x, self.axes, keepdim=True)\ny = L()(x)",
        f"whether 'self.axes' is one dimension is not known (line {LINE + 5}), and torch.log_softmax() takes one",
    ),
    "integers": (
        "n = torch.tensor([[1, 2], [3, -4]])\ny = n - torch.logsumexp(n, 1, keepdim=True)",
        f"what is summed may be integers (line {LINE}), which torch.log_softmax() does not take",
    ),
    "integers that a function is given": (
        "def f(v):\n    return v - v.logsumexp(0, keepdim=True)\ny = f(torch.bincount(torch.arange(3)))",
        f"what is summed may be integers (line {LINE + 2}), which torch.log_softmax() does not take",
    ),
    "integers that a loop changes": (
        "n = torch.randint(0, 5, (4, 6))\nfor _ in range(2):\n    y = n - torch.logsumexp(n, 1, keepdim=True)\n    n = n + 1",
        f"what is summed may be integers (line {LINE}), which torch.log_softmax() does not take",
    ),
    "complex numbers": (
        "z = torch.tensor([[1 + 1j, 2.0]])\ny = z - torch.log(torch.sum(torch.exp(z), 1, keepdim=True))",
        f"what is summed may be complex (line {LINE + 1}), as the project names complex numbers: torch.log_softmax() takes"
        " none",
    ),
    "a property that draws": (
        "class P:\n    @property\n    def logits(self):\n        return torch.randn(2, 3)\np = P()\n"
        "y = p.logits - torch.log(torch.sum(torch.exp(p.logits), -1, keepdim=True))",
        f"a function computes 'p.logits' each time it is read (line {LINE + 2}): give it a name first",
    ),
    "a maximum of another tensor": (
        "z = x[:1]\nm = x.max(1, keepdim=True)[0]\ny = m + torch.log(torch.sum(torch.exp(z - m), 1, keepdim=True))",
        f"'m' is the largest of 'x' (line {LINE + 1}), which may have another size: torch.logsumexp(z, dim) takes off the"
        " largest of 'z' itself",
    ),
    "a row's maximum that has a dimension": (
        f"def argmax(vec):\n    _, at = torch.max(vec, 1)\n    return at\n{ROW}",
        f"'best' may be a tensor of one dimension (line {LINE + 4}), and so what is computed: torch.logsumexp(vec, 1) has"
        " one, too",
    ),
    "a row of numbers": (
        f"def argmax(vec):\n    return torch.max(vec, 1)[1].tolist()[0:1]\n{ROW}",
        f"'best' may be a tensor of one dimension (line {LINE + 3}), and so what is computed: torch.logsumexp(vec, 1) has"
        " one, too",
    ),
    "two names": ("p = q = F.softmax(x, 1)\ny = torch.log(p)", BETWEEN.format(LINE + 1)),
}


@pytest.mark.parametrize(("code", "because"), LEFT.values(), ids=LEFT)
def test_it_is_left_for_the_reason_that_decides(code: str, because: str) -> None:
    check_leaves(LossFuse, f"{HEAD}{code}\n", because)


SILENT = {
    "another logarithm": "y = torch.log10(F.softmax(x, 1))",
    "into other memory": "y = torch.log(F.softmax(x, 1), out=torch.empty(8, 4))",
    "of NumPy": "import numpy as np\ny = np.log(F.softmax(x, 1).detach())",
    "of something else": "p = torch.sigmoid(x)\ny = torch.log(p)",
    "a method of the project": "class Log:\n    def log(self): pass\ny = Log().log()",
    "both at once, as cross_entropy does": "y = F.nll_loss(F.log_softmax(x, 1), torch.zeros(8).long())",
    "a sum alone, which is as fast": "y = torch.log(torch.sum(torch.exp(x), 1))",
    "a sum with a mask": "y = x - torch.log(torch.sum(torch.exp(x) * (x > 0), 1, keepdim=True))",
    "a sum of something else": "z = 2 * x\ny = z - torch.log(torch.sum(torch.exp(x), 1, keepdim=True))",
    "a sum that loses its dimension": "y = x - torch.log(torch.sum(torch.exp(x), 1))[:, None]",
    "a sum in another format": "y = x - torch.log(torch.sum(torch.exp(x), 1, keepdim=True, dtype=torch.float64))",
    "of two things": "p = x\nif x.sum() > 0:\n    p = F.softmax(x, 1)\ny = torch.log(p)",
}


@pytest.mark.parametrize("code", SILENT.values(), ids=SILENT)
def test_what_is_no_site(code: str) -> None:
    check_silent(LossFuse, f"{HEAD}{code}\n")


def test_cross_entropy_gives_the_bits_of_what_it_would_take_the_place_of() -> None:
    for size in ((7, 5), (64, 10), (4, 6, 5, 5)):
        scores, targets = torch.randn(size), torch.randint(size[1], (size[0], *size[2:]))
        for reduction in ("mean", "sum", "none"):
            once = F.cross_entropy(scores, targets, reduction=reduction)
            assert torch.equal(once, F.nll_loss(F.log_softmax(scores, 1), targets, reduction=reduction))


def test_softmax_cannot_be_named() -> None:
    code = "from torch.nn.functional import softmax\n\n\ndef f(x):\n    return softmax(x, 1).log()\n\n\nf(1)\n"

    check_leaves(LossFuse, code, "what computes both at once cannot be named here (line 5)")
