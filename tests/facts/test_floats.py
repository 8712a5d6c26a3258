"""Which tensors hold floating-point numbers, which integers, and which may carry a graph."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.precision.floats import Content, content, is_differentiated, is_made_of_parameter

INTEGERS = Content(floats=False, graph=False)
NARROW = Content(floats=False, graph=False, narrow=True)
TRUTH = Content(floats=False, graph=False, truth=True)
FLOATS = Content(floats=True, graph=False)
LOSS = Content(floats=True, graph=True)
HEAD = """\
import torch
import torch.nn.functional as F
model = torch.nn.Linear(4, 2)
class Own(torch.nn.Module):
    def forward(self, out, y):
        return F.mse_loss(out, y) + out.mean()
def own(out, y):
    if y is None:
        return out.sum(1).mean()
    return F.l1_loss(out, y)
def either(out, y):
    if y is None:
        return (out == y).sum()
    return F.l1_loss(out, y)
def run(x, y, either_way):
    out = model(x)
    pair = (1, 2.0)
    values, places = torch.max(out, 1)
    again = out.mean()
    again += 1
    whole, part = 3, 0.5
"""


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("F.cross_entropy(out, y)", LOSS, id="a loss"),
        pytest.param("torch.nn.MSELoss()(out, y) * 2", LOSS, id="a loss by an object, doubled"),
        pytest.param("Own()(out, y)", LOSS, id="a loss of the project's own class"),
        pytest.param("own(out, y)", LOSS, id="a loss of the project's own function"),
        pytest.param("F.l1_loss(out, y) if x is None else own(out, y)", LOSS, id="one of two losses"),
        pytest.param("F.l1_loss(out, y) if x is None else (out == y).sum()", None, id="a loss or a count"),
        pytest.param("either(out, y)", None, id="a function that returns either"),
        pytest.param("F.cross_entropy(out, y).detach()", FLOATS, id="detached"),
        pytest.param("F.cross_entropy(out, y).data", FLOATS, id="its data"),
        pytest.param("(out == y).sum()", INTEGERS, id="a count"),
        pytest.param("torch.eq(out, y).sum()", INTEGERS, id="a count by a function"),
        pytest.param("(out == y).all()", TRUTH, id="a truth value"),
        pytest.param("out.isnan()", TRUTH, id="truth values of a method"),
        pytest.param("out.to(torch.bool)", TRUTH, id="cast to truth values"),
        pytest.param("(out == y).float().sum()", FLOATS, id="a count of floats"),
        pytest.param("(out == y).to(torch.float32).sum()", FLOATS, id="a count of floats by to()"),
        pytest.param("out.softmax(1).type(torch.long)", INTEGERS, id="cast to integers"),
        pytest.param("(out == y).byte().max()", NARROW, id="integers of a few bits"),
        pytest.param("(out == y).to(torch.int32).max()", NARROW, id="integers of a few bits by to()"),
        pytest.param("(out == y).int().sum()", INTEGERS, id="their sum"),
        pytest.param("(out == y).to('cuda').sum()", INTEGERS, id="moved"),
        pytest.param("out.mean()", LOSS, id="a mean"),
        pytest.param("out.argmax(1).sum()", INTEGERS, id="indices"),
        pytest.param("(out == y).sum() / 2", FLOATS, id="divided"),
        pytest.param("y.sum() / 2", LOSS, id="something divided"),
        pytest.param("(out == y).float() * y", LOSS, id="floats times something"),
        pytest.param("-(out == y).sum()", INTEGERS, id="negated"),
        pytest.param("(out == y).sum() + out.mean()", LOSS, id="a sum of both"),
        pytest.param("places.sum()", INTEGERS, id="the second of a pair"),
        pytest.param("torch.max(out.mean(1), 0)[1]", INTEGERS, id="the second of a pair by its index"),
        pytest.param("torch.max(out.mean(1), 0)[0]", LOSS, id="the first of a pair"),
        pytest.param("again", LOSS, id="a name that is added to"),
        pytest.param("whole", INTEGERS, id="one of several that are assigned at once"),
        pytest.param("part", FLOATS, id="the other one"),
        pytest.param("out.sum()", None, id="what a model returns"),
        pytest.param("y.sum()", None, id="what a function is given"),
        pytest.param("x.type('torch.LongTensor')", None, id="a format by its name"),
        pytest.param("torch.std_mean(out)", None, id="several"),
        pytest.param("unseen(out)", None, id="a function that is not known"),
        pytest.param("[out]", None, id="a list"),
    ],
)
def test_what_a_tensor_holds(expression: str, expected: Content | None) -> None:
    known = script(f"{HEAD}    answer = {expression}\nrun(torch.ones(2, 4), torch.ones(2, 2), 1)\n")
    answer = next(each for each in known.module.nodes(ast.Assign) if ast.unparse(each.targets[0]) == "answer")

    assert content(known.flow, known.module, answer.value) == expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        pytest.param("loss.backward()", True, id="itself"),
        pytest.param("scaler.scale(loss).backward()", True, id="scaled"),
        pytest.param("(loss / 4).backward()", True, id="divided"),
        pytest.param("other.backward()", False, id="another one"),
        pytest.param("(other * loss).backward()", False, id="as a factor"),
    ],
)
def test_what_is_differentiated_is_a_tensor(statement: str, *, expected: bool) -> None:
    known = script(f"def run(loss, other, scaler):\n    {statement}\n    return loss\n")
    (name,) = (each.value for each in known.module.nodes(ast.Return))

    assert name is not None
    assert is_differentiated(known.module, name) is expected


@pytest.mark.parametrize(
    ("expression", "is_made"),
    [
        pytest.param("p.grad.data.norm(2)", True, id="the norm of a gradient"),
        pytest.param("p.detach().pow(2).sum()", True, id="a sum of squares"),
        pytest.param("named", True, id="by a name"),
        pytest.param("(p.grad ** 2).sum()", True, id="the squares of a gradient"),
        pytest.param("(2 * p.grad * p.detach()).sum()", True, id="the product of two"),
        pytest.param("(p.grad * x).sum()", False, id="a product with a batch"),
        pytest.param("p.data.sum()", False, id="arrays have this, too"),
        pytest.param("p.grad.cpu().numpy().max()", False, id="an array"),
        pytest.param("p.grad.numel()", False, id="a size"),
        pytest.param("x.norm()", False, id="of a batch"),
    ],
)
@pytest.mark.parametrize("is_complex", [False, True])
def test_what_is_made_of_parameters(expression: str, *, is_made: bool, is_complex: bool) -> None:
    imported = "import torch.fft\nprint(torch.fft.fft)\n" if is_complex else ""
    known = script(
        f"{imported}{HEAD}def norm(model, x):\n    for p in model.parameters():\n        named = p.grad.norm()\n"
        f"        answer = {expression}\nnorm(model, torch.ones(3))\n"
    )
    answer = next(each.value for each in known.module.nodes(ast.Assign) if ast.unparse(each.targets[0]) == "answer")

    is_real = "norm" in expression or expression == "named" or not is_complex
    assert is_made_of_parameter(known.flow, known.module, answer) is (is_made and is_real)


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        pytest.param("loss = F.mse_loss(x, y)\nloss = loss.masked_select(x > 0).sum()", LOSS, id="computed of itself"),
        pytest.param("loss = x > y\nloss = F.mse_loss(x, y)", LOSS, id="another thing before"),
        pytest.param("loss = F.mse_loss(x, y)\nif y is x:\n    loss = x > y", None, id="one of two things"),
        pytest.param("loss = x > y\nfor each in x:\n    loss = loss + F.mse_loss(each, y)", None, id="by turns"),
    ],
)
def test_a_name_holds_what_it_was_given_last(statements: str, expected: Content | None) -> None:
    inside = "".join(f"    {each}\n" for each in statements.splitlines())
    known = script(f"import torch.nn.functional as F\ndef run(x, y):\n{inside}    return loss\n")
    (name,) = (each.value for each in known.module.nodes(ast.Return))

    assert name is not None
    assert content(known.flow, known.module, name) == expected


@pytest.mark.parametrize(
    ("returned", "index", "expected"),
    [
        pytest.param("F.mse_loss(x, y), x > y", 0, LOSS, id="the first of a pair"),
        pytest.param("F.mse_loss(x, y), x > y", 1, TRUTH, id="the second of a pair"),
        pytest.param("F.mse_loss(x, y), x > y", 2, None, id="there is no third one"),
        pytest.param("*y, F.mse_loss(x, y)", 1, None, id="below some that are not counted"),
        pytest.param("x > y", 0, TRUTH, id="an item of a tensor"),
    ],
)
def test_what_a_function_returns_besides(returned: str, index: int, expected: Content | None) -> None:
    known = script(
        f"import torch.nn.functional as F\ndef both(x, y):\n    return {returned}\n"
        f"def run(x, y):\n    return both(x, y)[{index}]\n"
    )
    *_, given = (each.value for each in known.module.nodes(ast.Return))

    assert given is not None
    assert content(known.flow, known.module, given) == expected


DISTRIBUTIONS = """\
import torch
from torch import nn
from torch.distributions import Bernoulli, Categorical, Normal, kl_divergence
class Fixed(Normal):
    def entropy(self):
        return super().entropy().sum(-1)
class Named(Categorical):
    def mode(self):
        return self.probs.argmax(-1)
class Rounded(Normal):
    def entropy(self):
        return round(self.scale.item())
class Mixed(Normal, nobody()):
    pass
class Own:
    def entropy(self):
        return self.number
class Policy(nn.Module):
    def forward(self, x):
        return Fixed(x, x) if x.shape[0] else Named(logits=x)
    def evaluate(self, x):
        return x, self(x).entropy().mean()
policy, x = Policy(), torch.ones(3)
_, entropy = policy.evaluate(x)
"""


@pytest.mark.parametrize(
    ("expression", "is_tensor"),
    [
        pytest.param("Bernoulli(x).entropy()", True, id="the entropy of one of torch's"),
        pytest.param("Categorical(logits=x).log_prob(x).mean()", True, id="a mean of logarithms"),
        pytest.param("Fixed(x, x).entropy()", True, id="a sum of what a base computes"),
        pytest.param("Named(logits=x).entropy().mean()", True, id="of a class that derives from torch's"),
        pytest.param("policy(x).entropy().mean()", True, id="of one of several"),
        pytest.param("entropy", True, id="the second of what a method returns"),
        pytest.param("-entropy * 0.5", True, id="scaled"),
        pytest.param("kl_divergence(Normal(x, x), Fixed(x, x)).mean()", True, id="a divergence"),
        pytest.param("Rounded(x, x).entropy()", False, id="a method of its own computes it on the host"),
        pytest.param("Mixed(x, x).entropy()", False, id="of a class that derives from something else, too"),
        pytest.param("Own().entropy()", False, id="of something else"),
        pytest.param("entropy.numpy()", False, id="an array of it"),
        pytest.param("Normal(x, x).entropy", False, id="the method itself"),
    ],
)
def test_what_distributions_compute(expression: str, *, is_tensor: bool) -> None:
    known = script(f"{DISTRIBUTIONS}answer = {expression}\n")
    answer = next(each for each in known.module.nodes(ast.Assign) if ast.unparse(each.targets[0]) == "answer")
    found = content(known.flow, known.module, answer.value)

    assert (found is not None and found.is_tensor) is is_tensor
    assert not is_tensor or found == Content(floats=True, graph=True, is_tensor=True)
