from __future__ import annotations

import ast
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest
from kit import ACCELERATED, check_leaves, check_rewrites, check_silent, run

from autotune_rewrite.rewriting.config import Settings
from autotune_rewrite.rewriting.rewrite import rewrite
from codemods.codemod import Codemod, Promise
from codemods.editing.values import Insert
from codemods.facts.target import Target
from codemods.rules.zero_grad_none import ZeroGradNone
from tests.training import run_script

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.codemod import Finding
    from codemods.facts.script import Script

HEAD = """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
criterion = nn.CrossEntropyLoss()
loader = [(torch.randn(2, 4), torch.tensor([0, 2])) for _ in range(4)]
"""
N = HEAD.count("\n")
TORCH_2 = (2, 1)
MISSES = "parameters without gradient would no longer be updated by momentum or weight decay"
UNSEEN = f"{MISSES}: no loss is seen that surely depends on the whole model before each step"


def script(body: str) -> str:
    return HEAD + dedent(body)


def loop(zeroing: str, *, first: str = "", after: str = "") -> str:
    """A training loop that zeroes gradients in this way, with statements before the backward and after the step."""
    body = [
        *zeroing.splitlines(),
        *first.splitlines(),
        "loss = criterion(model(x), y)",
        "loss.backward()",
        "optimizer.step()",
    ]
    return script("for x, y in loader:\n" + "".join(f"    {line}\n" for line in [*body, *after.splitlines()]))


# What is written → what becomes of it on torch 2, where dropping is the default, and where nothing is known.
FORMS = {
    "set_to_none=False": ("optimizer.zero_grad(set_to_none=False)", "optimizer.zero_grad()"),
    "False by position": ("optimizer.zero_grad(False)", "optimizer.zero_grad()"),
    "of the model": ("model.zero_grad(set_to_none=False)", "model.zero_grad()"),
    "a loop over the model's parameters": (
        "for p in model.parameters():\n    if p.grad is not None:\n        p.grad.zero_()",
        "model.zero_grad()",
    ),
    "a loop over the named parameters": (
        "for name, p in model.named_parameters():\n    if p.grad is not None:\n        p.grad.data.zero_()",
        "model.zero_grad()",
    ),
    "a loop that detaches first": (
        "for p in model.parameters():\n    if p.grad is not None:\n        p.grad.detach_()\n        p.grad.zero_()",
        "model.zero_grad()",
    ),
    "a loop that fills": (
        "for p in model.parameters():\n    if p.grad is not None:\n        p.grad.data.fill_(0)",
        "model.zero_grad()",
    ),
    "a loop that multiplies": (
        "for p in model.parameters():\n    if p.grad is not None:\n        p.grad *= 0",
        "model.zero_grad()",
    ),
    "a loop that puts zeros there": (
        "for p in model.parameters():\n    if p.grad is not None:\n        p.grad = torch.zeros_like(p.grad)",
        "model.zero_grad()",
    ),
    "a loop that asks no questions": (
        "for p in model.parameters():\n    p.grad = torch.zeros_like(p)",
        "model.zero_grad()",
    ),
    "loops over the optimizer's groups": (
        (
            "for group in optimizer.param_groups:\n"
            "    for p in group['params']:\n"
            "        if p.grad is not None:\n"
            "            p.grad.zero_()"
        ),
        "optimizer.zero_grad()",
    ),
}


@pytest.mark.parametrize(("before", "after"), FORMS.values(), ids=list(FORMS))
def test_drops_by_default(before: str, after: str) -> None:
    check_rewrites(ZeroGradNone, loop(before), loop(after), TORCH_2)


@pytest.mark.parametrize(("before", "after"), FORMS.values(), ids=list(FORMS))
def test_says_so_where_the_default_is_not_known(before: str, after: str) -> None:
    argument = "(True)" if "(False)" in before else "(set_to_none=True)"
    check_rewrites(ZeroGradNone, loop(before), loop(after.replace("()", argument)))


@pytest.mark.parametrize("before", [before for before, _ in FORMS.values()], ids=list(FORMS))
def test_trains_alike(before: str) -> None:
    show = "print([p.tolist() for p in model.parameters()])\n"
    text = loop(before)

    assert run_script(text + show) == run_script(run(ZeroGradNone, text).after + show)


def test_adds_the_argument_where_the_torch_is_not_known() -> None:
    before, after = loop("optimizer.zero_grad()"), loop("optimizer.zero_grad(set_to_none=True)")
    check_rewrites(ZeroGradNone, before, after)

    (site,) = run(ZeroGradNone, before).sites
    assert not site.fails
    assert site.gain == "none on torch >= 2.0, 0-4 % before (H100)"


def test_adds_the_argument_on_an_old_torch_and_counts_it() -> None:
    before, after = loop("optimizer.zero_grad()"), loop("optimizer.zero_grad(set_to_none=True)")
    check_rewrites(ZeroGradNone, before, after, (1, 13))

    (site,) = run(ZeroGradNone, before, (1, 13)).sites
    assert site.fails
    assert site.gain == "0-4 % of an iteration (H100)"


def test_zeroing_by_hand_is_a_finding_whatever_the_torch() -> None:
    (site,) = run(ZeroGradNone, loop("optimizer.zero_grad(set_to_none=False)")).sites

    assert site.fails


def test_not_rewriting_below_1_7() -> None:
    (site,) = run(ZeroGradNone, loop("optimizer.zero_grad()"), (1, 6)).sites

    assert not site.rewrites
    assert site.message.startswith("needs torch 1.7")


SILENT = {
    "dropped already": "optimizer.zero_grad(set_to_none=True)",
    "dropped already, by position": "optimizer.zero_grad(True)",
    "dropped by hand": "for p in model.parameters():\n    p.grad = None",
    "decided elsewhere": "optimizer.zero_grad(set_to_none=len(loader) > 2)",
}


@pytest.mark.parametrize("zeroing", SILENT.values(), ids=list(SILENT))
def test_silent(zeroing: str) -> None:
    check_silent(ZeroGradNone, loop(zeroing))


def test_silent_beside_what_torch_2_brought() -> None:
    code = script("if hasattr(torch, 'compile'):\n    model = torch.compile(model)\n")
    code += loop("optimizer.zero_grad()").removeprefix(HEAD)

    check_silent(ZeroGradNone, code)


def test_gradients_are_dropped_in_place_before_zero_grad_could() -> None:
    zeroing = "for p in model.parameters():\n    p.grad.zero_()"

    check_rewrites(ZeroGradNone, loop(zeroing), loop(zeroing.replace("p.grad.zero_()", "p.grad = None")), (1, 6))


def test_silent_on_torch_2() -> None:
    check_silent(ZeroGradNone, loop("optimizer.zero_grad()"), TORCH_2)


# Plain calls, at the receivers that people write.
RECEIVERS = {
    "an attribute": """\
        class Trainer:
            def __init__(self):
                self.opt = torch.optim.Adam(model.parameters())

            def fit(self):
                for x, y in loader:
                    self.opt.zero_grad()
                    criterion(model(x), y).backward()
                    self.opt.step()
        """,
    "a dictionary": """\
        optimizers = {"a": torch.optim.Adam(model.parameters()), "b": torch.optim.SGD(model.parameters(), lr=1.0)}
        optimizers["a"].zero_grad()
        """,
    "a list, in a loop": """\
        optimizers = [torch.optim.Adam(model.parameters()), torch.optim.SGD(model.parameters(), lr=1.0)]
        for opt in optimizers:
            opt.zero_grad()
        """,
    "a closure": """\
        lbfgs = torch.optim.LBFGS(model.parameters())

        def closure():
            lbfgs.zero_grad()
            loss = criterion(model(loader[0][0]), loader[0][1])
            loss.backward()
            return loss

        lbfgs.step(closure)
        """,
    "what a function of the script returns": """\
        def make():
            return model, torch.optim.Adam(model.parameters())

        net, opt = make()
        opt.zero_grad()
        """,
    "an optimizer by its name": """\
        opt = getattr(torch.optim, "Adam")(model.parameters())
        opt.zero_grad()
        """,
    "an own class of optimizer": """\
        class Mine(torch.optim.SGD):
            pass

        Mine(model.parameters(), lr=1.0).zero_grad()
        """,
    "a parameter": """\
        def train(opt):
            opt.zero_grad()

        train(optimizer)
        """,
    "a parameter that says what it is": """\
        def train(opt: torch.optim.Optimizer):
            opt.zero_grad()
        """,
    "a model": """\
        model.zero_grad()
        """,
}


@pytest.mark.parametrize("body", RECEIVERS.values(), ids=list(RECEIVERS))
def test_knows_the_receiver(body: str) -> None:
    codes = {site.code for site in run(ZeroGradNone, script(body), (1, 13)).sites}

    assert codes
    assert not codes & {"unknown-optimizer", "own-method"}


LEFT_PLAIN = {
    "nothing is known of the receiver": (
        "def train(opt):\n    opt.zero_grad()\n",
        (
            "what is zeroed is not known to be an optimizer or a model: "
            "'opt' is a parameter of train(), which nothing in this file calls"
        ),
    ),
    "a library's own optimizer": (
        "from timm.optim import create_optimizer_v2\ncreate_optimizer_v2(model).zero_grad()\n",
        (
            "what is zeroed is not known to be an optimizer or a model: "
            "it comes from timm.optim.create_optimizer_v2(), which is not known to be an optimizer"
        ),
    ),
    "zero_grad is the script's own": (
        (
            "class Mine(torch.optim.SGD):\n    def zero_grad(self):\n        pass\n\n"
            "Mine(model.parameters(), lr=1.0).zero_grad()\n"
        ),
        f"zero_grad() is the script's own (line {N + 2})",
    ),
    "zero_grad of a class that is no optimizer": (
        "class Env:\n    def zero_grad(self):\n        pass\n\nEnv().zero_grad()\n",
        f"zero_grad() is the script's own (line {N + 2})",
    ),
    "sometimes a model, sometimes a function": (
        "def net(x):\n    return x\n\nif len(loader) > 2:\n    net = model\nnet.zero_grad()\n",
        (
            "what is zeroed is not known to be an optimizer or a model: "
            "it comes from the function net(), which is not known to be an optimizer"
        ),
    ),
    "the argument may be there": (
        "options = {}\noptimizer.zero_grad(**options)\n",
        "set_to_none may be among its ** arguments",
    ),
    "Z2: noise is added before backward": (
        (
            "for x, y in loader:\n"
            "    optimizer.zero_grad()\n"
            "    for p in model.parameters():\n"
            "        p.grad += 0.1\n"
            "    criterion(model(x), y).backward()\n"
            "    optimizer.step()\n"
        ),
        f"a gradient is read before it is computed again (line {N + 4})",
    ),
    "Z2: the norm is logged at the top of the next pass": (
        (
            "for x, y in loader:\n"
            "    print(model[0].weight.grad.norm())\n"
            "    criterion(model(x), y).backward()\n"
            "    optimizer.step()\n"
            "    optimizer.zero_grad()\n"
        ),
        f"a gradient is read before it is computed again (line {N + 2})",
    ),
    "Z3: gradients are kept in a list": (
        (
            "for x, y in loader:\n"
            "    optimizer.zero_grad()\n"
            "    criterion(model(x), y).backward()\n"
            "    kept = [p.grad for p in model.parameters()]\n"
        ),
        f"gradients are kept by reference (line {N + 4})",
    ),
    "Z3: a gradient has a name": (
        (
            "for x, y in loader:\n"
            "    criterion(model(x), y).backward()\n"
            "    kept = model[0].weight.grad\n"
            "    optimizer.zero_grad()\n"
            "    print(kept)\n"
        ),
        f"gradients are kept by reference (line {N + 3})",
    ),
    "Z3: gradients are views of buckets": (
        "net = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)\noptimizer.zero_grad()\n",
        f"gradients are kept by reference (line {N + 1})",
    ),
    "Z4: a CUDA graph was captured": (
        "graph = torch.cuda.CUDAGraph()\noptimizer.zero_grad()\n",
        f"a CUDA graph holds on to the gradients (line {N + 1})",
    ),
}


@pytest.mark.parametrize(("body", "because"), LEFT_PLAIN.values(), ids=list(LEFT_PLAIN))
def test_leaves_a_plain_call_on_an_old_torch(body: str, because: str) -> None:
    check_leaves(ZeroGradNone, script(body), because, (1, 13))


@pytest.mark.parametrize("target", [TORCH_2, None], ids=["known", "assumed"])
@pytest.mark.parametrize("body", [body for body, _ in LEFT_PLAIN.values()], ids=list(LEFT_PLAIN))
def test_says_nothing_of_a_plain_call_on_torch_2(body: str, target: tuple[int, int] | None) -> None:
    check_silent(ZeroGradNone, script(body), target)


class Writes(Codemod):
    """Stands for a rule that writes what torch 2 brought."""

    promise = Promise.BITWISE
    needs_cuda = False
    gain = ""
    examples = ()
    causes = frozenset()

    def find(self, script: Script) -> Iterator[Finding]:
        for call in script.module.nodes(ast.Call):
            if isinstance(call.func, ast.Name) and call.func.id == "print":
                edit = Insert(script.module, script.module.statement(call), "model.compile()", "after")
                yield self.rewrites(script.module, call, "eager", edit, since=(2, 1))


@pytest.mark.parametrize("order", [(ZeroGradNone, Writes), (Writes, ZeroGradNone)], ids=["before", "after"])
def test_nothing_is_said_beside_what_another_rule_writes_for_torch_2(order: tuple[type[Codemod], ...]) -> None:
    text = "print()\n" + loop("optimizer.zero_grad()")
    settings = Settings(frozenset({each.name() for each in order}), Promise.TRAINING)

    found = rewrite("train.py", text, settings, rounds=(order,))

    assert {each.rule for each in found.sites} == {"writes"}
    assert "model.compile()\n" in found.after
    assert "optimizer.zero_grad()" in found.after


def test_what_another_rule_cannot_write_is_no_reason_for_silence() -> None:
    text = "print()\n" + loop("optimizer.zero_grad()")
    settings = Settings(frozenset({"writes", "zero-grad-none"}), Promise.TRAINING, target=Target(None, (2, 0)))

    found = rewrite("train.py", text, settings, rounds=((Writes, ZeroGradNone),))

    assert "set_to_none=True" in found.after
    assert "model.compile()" not in found.after


PERHAPS_CONSTANT = {
    "a loss of the project's own that has a branch": (
        "def criterion(out, y):\n"
        "    found = y > 0\n"
        "    if not found.any():\n"
        "        return torch.zeros((), requires_grad=True)\n"
        "    return out[found].sum()\n"
    ),
    "a loss module of the project's own that has a branch": (
        "class Boxes(nn.Module):\n"
        "    def forward(self, out, y):\n"
        "        return out[y > 0].sum() if (y > 0).any() else torch.zeros((), requires_grad=True)\n\n"
        "criterion = Boxes()\n"
    ),
    "a loss that comes from elsewhere": "from losses import criterion\n",
}


@pytest.mark.parametrize("first", PERHAPS_CONSTANT.values(), ids=list(PERHAPS_CONSTANT))
def test_a_loss_may_be_a_constant_that_depends_on_no_parameter(first: str) -> None:
    plain = script(first) + loop("optimizer.zero_grad()").removeprefix(HEAD)
    said = script(first) + loop("optimizer.zero_grad(set_to_none=False)").removeprefix(HEAD)

    check_leaves(ZeroGradNone, plain, UNSEEN, (1, 13))
    check_leaves(ZeroGradNone, said, UNSEEN)


def test_a_loss_of_the_project_s_own_that_is_straight_depends_on_what_it_is_given() -> None:
    first = "class Squares(nn.Module):\n    def forward(self, out, y):\n        return (out - 1).square().sum()\n\n"
    first += "criterion = Squares()\n"
    before = script(first) + loop("optimizer.zero_grad()").removeprefix(HEAD)

    check_rewrites(ZeroGradNone, before, before.replace("zero_grad()", "zero_grad(set_to_none=True)"))


def test_a_layer_that_is_dropped_at_random_may_miss_its_gradient() -> None:
    forward = "return self.b(self.a(x)) if torch.rand(()) < 0.5 else self.a(x)"
    plain = net("", forward).replace("zero_grad(set_to_none=False)", "zero_grad()")

    because = f"{MISSES}: forward has a branch (line {FORWARD + 1})"
    check_leaves(ZeroGradNone, plain, because, (1, 13))


def test_a_gradient_that_is_used_after_backward_is_no_obstacle() -> None:
    body = "optimizer.zero_grad()", "for p in model.parameters():\n    p.grad.clamp_(-1, 1)"
    before, after = (
        script(
            f"for x, y in loader:\n    {zero}\n    criterion(model(x), y).backward()\n"
            "    for p in model.parameters():\n        p.grad.clamp_(-1, 1)\n    optimizer.step()\n"
        )
        for zero in (body[0], "optimizer.zero_grad(set_to_none=True)")
    )
    check_rewrites(ZeroGradNone, before, after)


def net(init: str, forward: str, more: str = "") -> str:
    """A script that trains one class of model with gradients that are filled with zeros."""
    parts = [
        "import torch",
        "from torch import nn",
        "",
        "torch.manual_seed(0)",
        "",
        "",
        "class Net(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        "        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)",
        *(f"        {line}" for line in init.splitlines()),
        "",
        "    def forward(self, x):",
        *(f"        {line}" for line in forward.splitlines()),
        "",
        "",
        "model = Net()",
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)",
        *more.splitlines(),
        "for i, x in enumerate(torch.randn(6, 8, 4)):",
        "    optimizer.zero_grad(set_to_none=False)",
        "    out = model(x)",
        "    loss = out[0].sum() if isinstance(out, tuple) else out.sum()"
        if "return self.a(x), " in forward
        else "    loss = out.sum()",
        "    loss.backward()",
        "    optimizer.step()",
        "print([p.tolist() for p in model.parameters()])",
    ]
    return "\n".join(parts) + "\n"


FORWARD = 12
PROVED = {
    "one layer after the other": ("", "return self.b(torch.relu(self.a(x)))"),
    "names on the way": ("", "h = self.a(x)\nh = h.relu().view(8, 4)\nreturn self.b(h)"),
    "a residual": ("", "x = x + self.a(x)\nx = self.b(x) + x\nreturn x"),
    "a list of layers": (
        "self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])",
        "x = self.b(self.a(x))\nfor layer in self.layers:\n    x = layer(x)\nreturn x",
    ),
    "a parameter of its own": ("self.scale = nn.Parameter(torch.ones(4))", "return self.b(self.a(x)) * self.scale"),
    "layers without parameters": (
        "self.c = nn.Sequential(nn.Hardsigmoid(), nn.LogSigmoid(), nn.CELU())",
        "return self.b(self.c(self.a(x)))",
    ),
    "tied weights": ("self.b.weight = self.a.weight", "return self.b(self.a(x))"),
}


@pytest.mark.parametrize(("init", "forward"), PROVED.values(), ids=list(PROVED))
def test_every_parameter_gets_a_gradient(init: str, forward: str) -> None:
    before = net(init, forward)
    after = before.replace("set_to_none=False", "set_to_none=True")

    check_rewrites(ZeroGradNone, before, after)
    assert run_script(before) == run_script(after)


# Z1: (init, forward, statements before the loop), the reason, and whether results change in this small script.
MISSED = {
    "a branch": (
        ("", "return self.a(x) if x.sum() > 0 else self.b(x)", ""),
        f"forward has a branch (line {FORWARD + 1})",
    ),
    "a head that is not used": (
        ("", "return self.a(x)", ""),
        "self.b is not used in forward in a way that surely gives it a gradient",
    ),
    "a head whose result is dropped": (
        ("", "aside = self.b(x)\nreturn self.a(x)", ""),
        "self.b is not used in forward in a way that surely gives it a gradient",
    ),
    "a head that is detached": (
        ("", "return self.a(x) + self.b(x).detach()", ""),
        "self.b is not used in forward in a way that surely gives it a gradient",
    ),
    "only the shape is used": (
        ("", "return self.a(x).view_as(self.b(x))", ""),
        "self.b is not used in forward in a way that surely gives it a gradient",
    ),
    "only the winner's place is used": (
        ("", "return self.a(x) + self.b(x).argmax(1, keepdim=True)", ""),
        "self.b is not used in forward in a way that surely gives it a gradient",
    ),
    "only a comparison is used": (
        ("", "return self.a(x) * torch.greater(self.b(x), 0)", ""),
        "self.b is not used in forward in a way that surely gives it a gradient",
    ),
    "an operator that is not known": (
        ("", "return self.a(x) + torch.frobnicate(self.b(x))", ""),
        "self.b is not used in forward in a way that surely gives it a gradient",
    ),
    "no_grad inside": (
        ("", "with torch.no_grad():\n    h = self.b(x)\nreturn self.a(h)", ""),
        f"forward has a with block (line {FORWARD + 1})",
    ),
    "several outputs": (
        ("", "return self.a(x), self.b(x)", ""),
        f"forward returns several values, not all of which may be in the loss (line {FORWARD + 1})",
    ),
    "layers that are registered by name": (
        ("self.add_module('c', nn.Linear(4, 4))", "return self.b(self.a(x))", ""),
        f"its layers are registered by name (line {FORWARD - 1})",
    ),
    "one of a list of layers": (
        (
            "self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])",
            "return self.b(self.a(self.layers[0](x)))",
            "",
        ),
        "self.layers is not used in forward in a way that surely gives it a gradient",
    ),
    "some of a list of parameters": (
        ("self.ps = nn.ParameterList([nn.Parameter(torch.ones(4))])", "return self.b(self.a(x))", ""),
        "what self.ps holds is not known",
    ),
    "the weight of a layer without its bias": (
        ("", "return nn.functional.linear(self.a(x), self.b.weight)", ""),
        "self.b is not used in forward in a way that surely gives it a gradient",
    ),
    "a layer with more than one result": (
        ("self.rnn = nn.LSTM(4, 4)", "return self.b(self.a(self.rnn(x)[0]))", ""),
        "whether all of torch.nn.LSTM() is used is not known",
    ),
    "a layer of which a part may be used": (
        ("self.rnn = nn.LSTM(4, 4, 2)", "out, (h, c) = self.rnn(x)\nreturn self.b(self.a(h[0]))", ""),
        "self.rnn is not used in forward in a way that surely gives it a gradient",
    ),
}


@pytest.mark.parametrize(("parts", "because"), MISSED.values(), ids=list(MISSED))
def test_a_parameter_may_miss_its_gradient(parts: tuple[str, str, str], because: str) -> None:
    code = net(*parts)

    check_leaves(ZeroGradNone, code, f"{MISSES}: {because}")


# Those of them that change this small script's results when gradients are dropped all the same.
REAL = [
    *("a branch", "only the shape is used", "only the winner's place is used", "one of a list of layers"),
    "only a comparison is used",
]


@pytest.mark.parametrize("name", REAL)
def test_dropping_a_missed_gradient_changes_results(name: str) -> None:
    init, forward, more = MISSED[name][0]
    # A parameter that once had a gradient goes on moving by its momentum.
    start = "(model.a(torch.ones(4)) + model.b(torch.ones(4))).sum().backward()\noptimizer.step()"
    if "layers" in init:
        start = "sum(layer(torch.ones(4)).sum() for layer in model.layers).backward()\noptimizer.step()"
    code = net(init, forward, more + start)

    assert run_script(code) != run_script(code.replace("set_to_none=False", "set_to_none=True"))


LEFT_EXACT = {
    "Z1: a condition skips backward": (
        (
            "for i, (x, y) in enumerate(loader):\n"
            "    optimizer.zero_grad(set_to_none=False)\n"
            "    loss = criterion(model(x), y)\n"
            "    if i % 2:\n"
            "        loss.backward()\n"
            "    optimizer.step()\n"
        ),
        UNSEEN,
    ),
    "Z1: the loss is another model's": (
        (
            "other = nn.Linear(4, 3)\n"
            "for x, y in loader:\n"
            "    optimizer.zero_grad(set_to_none=False)\n"
            "    seen = model(x)\n"
            "    loss = criterion(other(x), y)\n"
            "    loss.backward()\n"
            "    optimizer.step()\n"
        ),
        UNSEEN,
    ),
    "Z1: the loss has one of two values": (
        (
            "for i, (x, y) in enumerate(loader):\n"
            "    optimizer.zero_grad(set_to_none=False)\n"
            "    loss = criterion(model(x), y)\n"
            "    loss = loss if i else torch.ones(1, requires_grad=True)\n"
            "    loss.backward()\n"
            "    optimizer.step()\n"
        ),
        UNSEEN,
    ),
    "Z1: gradients are zeroed again before the step": (
        (
            "for x, y in loader:\n"
            "    loss = criterion(model(x), y)\n"
            "    loss.backward()\n"
            "    optimizer.zero_grad(set_to_none=False)\n"
            "    optimizer.step()\n"
        ),
        UNSEEN,
    ),
    "Z1: another optimizer of the same parameters": (
        (
            "second = torch.optim.Adam(model.parameters())\n"
            "for x, y in loader:\n"
            "    optimizer.zero_grad(set_to_none=False)\n"
            "    criterion(model(x), y).backward()\n"
            "    optimizer.step()\n"
        ),
        f"{MISSES}: another optimizer may update them, too (line {N + 1})",
    ),
    "Z1: another optimizer steps before the backward": (
        (
            "second = torch.optim.Adam(nn.Linear(2, 2).parameters())\n"
            "for x, y in loader:\n"
            "    optimizer.zero_grad(set_to_none=False)\n"
            "    second.step()\n"
            "    criterion(model(x), y).backward()\n"
            "    optimizer.step()\n"
        ),
        UNSEEN,
    ),
    "Z1: parameters that come later": (
        (
            "optimizer.add_param_group({'params': [torch.ones(1, requires_grad=True)]})\n"
            "for x, y in loader:\n"
            "    optimizer.zero_grad(set_to_none=False)\n"
            "    criterion(model(x), y).backward()\n"
            "    optimizer.step()\n"
        ),
        f"{MISSES}: parameters are added later (line {N + 1})",
    ),
    "Z1: frozen for a while": (
        (
            "for i, (x, y) in enumerate(loader):\n"
            "    model[0].requires_grad_(i > 2)\n"
            "    optimizer.zero_grad(set_to_none=False)\n"
            "    criterion(model(x), y).backward()\n"
            "    optimizer.step()\n"
        ),
        f"{MISSES}: parameters are frozen or unfrozen (line {N + 2})",
    ),
    "Z1: frozen by a class that it derives from": (
        (
            "class Base(nn.Module):\n"
            "    def freeze(self):\n"
            "        for p in self.parameters():\n"
            "            p.requires_grad = False\n"
            "class Net(Base):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            "        self.first = nn.Linear(4, 3)\n"
            "    def forward(self, x):\n"
            "        return self.first(x)\n"
            "net = Net()\n"
            "for i, (x, y) in enumerate(loader):\n"
            "    net.zero_grad(set_to_none=False)\n"
            "    criterion(net(x), y).backward()\n"
            "    if i > 2:\n"
            "        net.freeze()\n"
        ),
        f"{MISSES}: parameters are frozen or unfrozen (line {N + 4})",
    ),
    "Z1: parameters of nobody knows what": (
        (
            "opt = None\n"
            "del optimizer\n"
            "opt = torch.optim.SGD([p for p in model.parameters()], lr=1.0)\n"
            "opt.zero_grad(set_to_none=False)\n"
        ),
        f"{MISSES}: its parameters are not known",
    ),
    "Z1: one of several models of one place": (
        (
            "models = [nn.Linear(4, 3) for _ in range(2)]\n"
            "for x, y in loader:\n"
            "    models[0].zero_grad(set_to_none=False)\n"
            "    criterion(models[1](x), y).backward()\n"
        ),
        f"{MISSES}: its parameters are not known",
    ),
    "Z2: by hand, and read before backward": (
        (
            "for x, y in loader:\n"
            "    for p in model.parameters():\n"
            "        p.grad = torch.zeros_like(p)\n"
            "    total = sum(p.grad.sum() for p in model.parameters())\n"
            "    criterion(model(x), y).backward()\n"
            "    optimizer.step()\n"
        ),
        f"a gradient is read before it is computed again (line {N + 4})",
    ),
    "not in a training iteration": (
        "optimizer.zero_grad(set_to_none=False)\n",
        "it is not part of a training iteration that can be seen",
    ),
    "a single tensor": (
        "w = torch.ones(3, requires_grad=True)\nw.sum().backward()\nw.grad.zero_()\n",
        "the gradient of a single tensor is zeroed",
    ),
    "an attacked image": (
        "x = torch.ones(2, 4, requires_grad=True)\nmodel(x).sum().backward()\nx.grad.data.zero_()\n",
        "the gradient of a single tensor is zeroed",
    ),
    "a list of tensors": (
        "ws = [torch.ones(3, requires_grad=True)]\nfor w in ws:\n    w.grad.zero_()\n",
        "what the zeroed parameters belong to is not known",
    ),
}


@pytest.mark.parametrize(("body", "because"), LEFT_EXACT.values(), ids=list(LEFT_EXACT))
def test_leaves_zeros(body: str, because: str) -> None:
    check_leaves(ZeroGradNone, script(body), because)


OTHERS = {
    "of another model, by the model itself": (
        "other = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=1.0)\n"
        "for x, y in loader:\n"
        "    model.zero_grad(set_to_none=False)\n"
        "    criterion(model(x), y).backward()\n"
        "    optimizer.step()\n"
    ),
    "of another model": (
        "other = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=1.0)\n"
        "for x, y in loader:\n"
        "    optimizer.zero_grad(set_to_none=False)\n"
        "    criterion(model(x), y).backward()\n"
        "    optimizer.step()\n"
    ),
}


@pytest.mark.parametrize("body", OTHERS.values(), ids=OTHERS)
def test_each_gradient_is_computed_before_it_is_used_beside_an_optimizer(body: str) -> None:
    before = script(body)

    check_rewrites(ZeroGradNone, before, before.replace("set_to_none=False", ""), TORCH_2)


def test_a_torch_without_the_argument_is_what_a_plain_call_is_left_for() -> None:
    code = script(LEFT_PLAIN["nothing is known of the receiver"][0])
    result = run(ZeroGradNone, code, (1, 3))

    assert result.after == code
    assert [site.message.partition(",")[0] for site in result.sites] == ["needs torch 1.7"]
    assert {site.code for site in result.sites} == {"older-torch"}


def test_an_old_torch_fills_with_zeros_so_that_a_plain_call_needs_the_proof_too() -> None:
    code = script(
        "for i, (x, y) in enumerate(loader):\n"
        "    optimizer.zero_grad()\n"
        "    loss = criterion(model(x), y)\n"
        "    if i % 2:\n"
        "        loss.backward()\n"
        "    optimizer.step()\n"
    )
    check_leaves(ZeroGradNone, code, UNSEEN, (1, 13))


def test_keeps_what_else_the_loop_does() -> None:
    before = script(
        "for x, y in loader:\n"
        "    criterion(model(x), y).backward()\n"
        "    with torch.no_grad():\n"
        "        for p in model.parameters():\n"
        "            p -= 0.1 * p.grad\n"
        "            p.grad.zero_()\n"
    )
    check_rewrites(ZeroGradNone, before, before.replace("p.grad.zero_()", "p.grad = None"))


def test_drops_gradients_over_a_list_of_the_parameters() -> None:
    before = script(
        "for x, y in loader:\n"
        "    for p in list(model.parameters()):\n"
        "        p.grad = torch.zeros_like(p)\n"
        "    criterion(model(x), y).backward()\n"
        "    optimizer.step()\n"
    )
    check_rewrites(ZeroGradNone, before, before.replace("torch.zeros_like(p)", "None"))


BOTH = {
    "the model's goes where both zero the same": (
        "model.zero_grad()\noptimizer.zero_grad()",
        "optimizer.zero_grad()",
    ),
    "in either order": (
        "optimizer.zero_grad()\nmodel.zero_grad()",
        "optimizer.zero_grad()",
    ),
}


@pytest.mark.parametrize(("before", "after"), BOTH.values(), ids=list(BOTH))
def test_zeroes_once(before: str, after: str) -> None:
    check_rewrites(ZeroGradNone, loop(before), loop(after), TORCH_2)


def test_the_narrower_one_goes() -> None:
    head = (
        "head = nn.Linear(4, 3)\n"
        "whole = nn.Sequential(nn.Linear(4, 4), head)\n"
        "opt = torch.optim.SGD(head.parameters(), lr=1.0)\n"
    )
    check_rewrites(
        ZeroGradNone,
        script(head + "whole.zero_grad()\nopt.zero_grad()\n"),
        script(head + "whole.zero_grad()\n"),
        TORCH_2,
    )


def test_both_stay_where_neither_is_known_to_hold_the_other() -> None:
    check_silent(ZeroGradNone, script("other = nn.Linear(4, 4)\nother.zero_grad()\noptimizer.zero_grad()\n"), TORCH_2)


def test_both_stay_where_parameters_are_added() -> None:
    body = "optimizer.add_param_group({'params': [torch.ones(1)]})\nmodel.zero_grad()\noptimizer.zero_grad()\n"
    check_silent(ZeroGradNone, script(body), TORCH_2)


def test_the_gradient_of_an_image_is_no_parameter_s() -> None:
    before = script(
        "from torch.utils.data import DataLoader\n\n"
        "for x, y in DataLoader(loader):\n"
        "    x.requires_grad = True\n"
        "    criterion(model(x[0]), y[0]).backward()\n"
        "    step = x.grad.data\n"
        "    model.zero_grad()\n"
        "    criterion(model(x[0]), y[0]).backward()\n"
        "    optimizer.step()\n"
    )
    check_rewrites(ZeroGradNone, before, before.replace("zero_grad()", "zero_grad(set_to_none=True)"))


def test_a_model_that_derives_from_layers_holds_more_than_is_seen() -> None:
    code = script(
        "class Net(nn.Linear):\n"
        "    def forward(self, x):\n"
        "        return x * 2\n\n"
        "net = Net(4, 3)\n"
        "for x, y in loader:\n"
        "    net.zero_grad(set_to_none=False)\n"
        "    net(x).sum().backward()\n"
        "    optimizer.step()\n"
    )
    check_leaves(ZeroGradNone, code, f"{MISSES}: what torch.nn.Linear holds is not known")


def test_accumulated_gradients_are_dropped_after_the_step() -> None:
    before = script(
        "for i, (x, y) in enumerate(loader):\n"
        "    loss = criterion(model(x), y) / 2\n"
        "    loss.backward()\n"
        "    if i % 2:\n"
        "        optimizer.step()\n"
        "        optimizer.zero_grad(set_to_none=False)\n"
    )
    check_rewrites(ZeroGradNone, before, before.replace("False", "True"))


def test_leaves_zeros_that_are_read_after_the_loop() -> None:
    code = """\
import torch
from torch import nn

net = nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(3, 8, 4):
    net(x).sum().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
print(net.weight.grad.norm())
"""
    check_leaves(ZeroGradNone, code, "a gradient is read outside the training iteration (line 10)")


def test_leaves_gradients_that_are_parts_of_one_buffer() -> None:
    code = """\
import torch
from torch import nn

net = nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
flat = torch.zeros(10)
start = 0
for p in net.parameters():
    p.grad = flat[start : start + p.numel()].view_as(p)
    start += p.numel()
for x in torch.randn(3, 8, 4):
    optimizer.zero_grad(set_to_none=False)
    net(x).sum().backward()
    print(flat.norm())
    optimizer.step()
"""
    check_leaves(ZeroGradNone, code, "gradients are kept by reference (line 9)")


def test_zeroes_what_one_function_makes_of_whatever_the_configuration_names() -> None:
    code = """\
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader

model = nn.Linear(4, 1)


def make(kind, *args):
    return kind(*args)


loader = make(DataLoader, [torch.ones(4)])
optimizer = make(getattr(torch.optim, sys.argv[1]), model.parameters())
scheduler = make(torch.optim.lr_scheduler.StepLR, optimizer, 3)
for x in loader:
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
"""
    check_leaves(ZeroGradNone, code, f"{MISSES}: its parameters are not known", (1, 13))


def test_the_gradient_of_an_attribute_that_is_zeroed_is_one_tensor_s() -> None:
    code = """\
import torch


class Line:
    def __init__(self):
        self.weight = torch.zeros(3, requires_grad=True)

    def train(self, x):
        (x @ self.weight).mean().backward()
        self.weight.grad.zero_()
"""
    check_leaves(ZeroGradNone, code, "the gradient of a single tensor is zeroed")


def test_accelerate_s_optimizer_knows_how_to_zero() -> None:
    because = "the training step runs inside Accelerate, whose optimizer decides how gradients are zeroed"
    check_leaves(ZeroGradNone, ACCELERATED, because, (1, 13))


@pytest.mark.parametrize(
    "zeros",
    [
        "Variable(data.new().resize_as_(data).zero_())",
        "Variable(torch.zeros(*data.shape))",
        "data.new_zeros(data.shape)",
    ],
)
def test_new_zeros_for_each_gradient_are_zeroing_by_hand(zeros: str) -> None:
    code = f"""\
import torch
from torch.autograd import Variable

w, b = torch.randn(4, 2, requires_grad=True), torch.zeros(2, requires_grad=True)
optimizer = torch.optim.SGD([w, b], lr=0.1)
for x in torch.randn(10, 8, 4):
    (x @ w + b).mean().backward()
    optimizer.step()
    for p in [w, b]:
        data = p.grad.data
        p.grad = {zeros}
"""
    check_leaves(ZeroGradNone, code, "what the zeroed parameters belong to is not known")


def test_another_gradient_is_no_zero() -> None:
    code = """\
import torch

w = torch.randn(4, 2, requires_grad=True)
for x in torch.randn(10, 8, 4):
    for p in [w]:
        p.grad = torch.ones_like(p)
"""
    check_silent(ZeroGradNone, code)


FROZEN_ELSEWHERE = {
    "another model": "other = nn.Linear(4, 3)\nother.requires_grad_(False)\n",
    "the parameters of another model": (
        "other = nn.Linear(4, 3)\nfor p in other.parameters():\n    p.requires_grad = False\n"
    ),
    "a class of which it has no layer": (
        "class Score(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.net = nn.Linear(4, 3)\n"
        "        for p in self.parameters():\n            p.requires_grad = False\nscore = Score()\n"
    ),
}


@pytest.mark.parametrize("frozen", FROZEN_ELSEWHERE.values(), ids=FROZEN_ELSEWHERE)
def test_what_is_frozen_in_another_model_says_nothing(frozen: str) -> None:
    text = loop("optimizer.zero_grad({})").replace("loader = ", frozen + "loader = ")

    check_rewrites(ZeroGradNone, text.format("set_to_none=False"), text.format(""), TORCH_2)
