from __future__ import annotations

import pytest
from kit import check_leaves, check_rewrites, check_silent, run

from codemods.rules.retain_graph import RetainGraph
from tests.training import run_script

HEAD = """\
import argparse
import torch
import torch.nn.functional as F
from torch import nn

model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(12, 4), batch_size=4)
"""
N = HEAD.count("\n")

FREED = {
    "each batch computes its own loss": (
        "for x in loader:\n    optimizer.zero_grad()\n    loss = model(x).square().mean()\n    loss.backward({})\n"
        "    optimizer.step()\n"
    ),
    "the loss is of a function of the project": (
        "def criterion(out):\n    return out.square().mean()\n\nfor x in loader:\n    criterion(model(x)).backward({})\n"
    ),
    "the loss is logged": (
        "total = 0.0\nfor x in loader:\n    loss = model(x).square().mean()\n    loss.backward({})\n    total += loss.item()\nprint(total)\n"
    ),
    "batches in an inner loop": (
        "for epoch in range(2):\n    for x in loader:\n        model(x).square().mean().backward({})\n"
    ),
    "in a function with the loop": (
        "def train(model, loader):\n    for x in loader:\n        loss = model(x).square().mean()\n"
        "        loss.backward({})\n\ntrain(model, loader)\n"
    ),
    "what the iteration reads is a size, goes to NumPy, or was just made": (
        "import numpy as np\n\nclass Memory:\n    def __init__(self, rows):\n        self.rows, self.size = rows, rows.shape[0]\n\n"
        "    def sample(self, n):\n        return self.rows[np.random.randint(0, min(self.size, 9), n)]\n\n"
        "    def learn(self, width):\n        x = self.sample(3)\n        noise = x.new_empty(3, 4).uniform_(-1, 1)\n"
        "        first, _ = torch.split(model(x + noise).repeat(1, 2), self.size // 12, dim=-1)\n"
        "        return first.mean()\n\n"
        "memory = Memory(torch.randn(12, 4))\nfor _ in range(3):\n    memory.learn(4).backward({})\n"
    ),
    "a memory that the iteration fills with what it is given": (
        "class Memory:\n    def __init__(self):\n        self.rows, self.seen, self.at = torch.zeros(9, 4), torch.zeros(4), 0\n\n"
        "    def put(self, row):\n        self.rows[self.at] = torch.tensor(row)\n        self.rows[0] *= 0.5\n"
        "        self.seen.add_(1)\n        self.seen[0].copy_(torch.tensor(2.0))\n        self.at = (self.at + 1) % 9\n\n"
        "    def learn(self):\n        return model(self.rows + self.seen).mean()\n\n"
        "memory = Memory()\nfor i in range(3):\n    memory.put([1.0, 2.0, 3.0, float(i)])\n    memory.learn().backward({})\n"
    ),
    "a buffer that is filled with numbers": (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.layer = nn.Linear(4, 1)\n"
        "        self.table = torch.zeros(4)\n        self.table[1:] = torch.ones(3)\n        with torch.no_grad():\n"
        "            self.table[0] = self.layer(torch.ones(4)).sum()\n\n"
        "    def forward(self, x):\n        return self.layer(x * self.table)\n\n"
        "net = Net()\nfor x in loader:\n    net(x).mean().backward({})\n"
    ),
    "a tensor that each iteration makes and fills": (
        "for x in loader:\n    both = torch.zeros(2, len(x), 1)\n    both[0] = model(x)\n    both[1] = model(x * 2)\n"
        "    both.mean().backward({})\n"
    ),
    "the state of a network is detached": (
        "rnn = nn.GRU(4, 4)\nstate = torch.zeros(1, 4)\nfor x in loader:\n    state = state.detach()\n"
        "    out, state = rnn(x, state)\n    out.mean().backward({})\n"
    ),
    "another backward comes before it": (
        "for x in loader:\n    model(x).square().mean().backward()\n    model(x).mean().backward({})\n"
    ),
}


@pytest.mark.parametrize("code", FREED.values(), ids=FREED)
def test_the_graph_is_freed(code: str) -> None:
    before, after = HEAD + code.format("retain_graph=True"), HEAD + code.format("")

    check_rewrites(RetainGraph, before, after)
    run_script(after)


FROM_BEFORE = "what is differentiated may have been computed before the iteration, in part (line {})"
ELSEWHERE = "what calls its function again may use the graph, too: take retain_graph away if nothing does"
NEEDED = {
    "a second loss of the same output": (
        "for x in loader:\n    out = model(x)\n    out.mean().backward(retain_graph=True)\n    out.square().mean().backward()\n",
        f"another backward of the iteration may go through the graph (line {N + 4})",
    ),
    "a gradient of the same output": (
        "for x in loader:\n    x.requires_grad_()\n    out = model(x).sum()\n    out.backward(retain_graph=True)\n"
        "    torch.autograd.grad(out, x)\n",
        f"another backward of the iteration may go through the graph (line {N + 5})",
    ),
    "a state of a recurrent network": (
        "rnn = nn.GRU(4, 4)\nstate = torch.zeros(1, 4)\nfor x in loader:\n    out, state = rnn(x, state)\n"
        "    out.mean().backward(retain_graph=True)\n",
        FROM_BEFORE.format(N + 5),
    ),
    "a tensor that is computed once": (
        "hidden = model(torch.ones(4))\nfor x in loader:\n    (hidden * x).mean().backward(retain_graph=True)\n",
        FROM_BEFORE.format(N + 3),
    ),
    "a sum over iterations": (
        "total = 0\nfor x in loader:\n    total = total + model(x).mean()\n    total.backward(retain_graph=True)\n",
        FROM_BEFORE.format(N + 4),
    ),
    "a sum over iterations, after them": (
        "losses = []\nfor x in loader:\n    loss = model(x).mean()\n    loss.backward(retain_graph=True)\n"
        "    losses.append(loss)\nsum(losses).backward()\n",
        f"a tensor of the iteration is kept (line {N + 6}), and another backward may go through it (line {N + 6})",
    ),
    "a method keeps a state of its object": (
        "class Agent:\n    def __init__(self):\n        self.state = torch.zeros(1)\n\n    def learn(self, x):\n"
        "        self.state = model(x).mean() + self.state\n        return self.state\n\n"
        "agent = Agent()\nfor x in loader:\n    agent.learn(x).backward(retain_graph=True)\n",
        f"'self.state' may have a graph from before the iteration (line {N + 6})",
    ),
    "a part of a tensor of an object is copied": (
        "class Memory:\n    def __init__(self):\n        self.rows = torch.zeros(9, 1)\n\n    def learn(self, x):\n"
        "        out = model(x)\n        self.rows[0].copy_(out[0])\n        return out.mean()\n\n"
        "memory = Memory()\nfor x in loader:\n    memory.learn(x).backward(retain_graph=True)\n",
        f"'self.rows[0]' is changed in place, and may keep a graph (line {N + 7})",
    ),
    "an attribute that comes from a file, or is computed": (
        "class Agent:\n    def __init__(self, saved):\n        self.scale = saved['scale'] if saved else 1\n"
        "        if not saved:\n            self.scale = model(torch.ones(4))\n\n"
        "    def learn(self, x):\n        return (model(x) * self.scale).mean()\n\n"
        "agent = Agent({})\nfor x in loader:\n    agent.learn(x).backward(retain_graph=True)\n",
        f"'self.scale' may have a graph from before the iteration (line {N + 8})",
    ),
    "another function has the loop": (
        "def step(x):\n    loss = model(x).mean()\n    loss.backward(retain_graph=True)\n    return loss.item()\n\n"
        "def run():\n    for x in loader:\n        print(step(x))\n\nrun()\n",
        ELSEWHERE,
    ),
    "a table that is filled with what a model computes": (
        "table = torch.zeros(4)\ntable[0] = model(torch.ones(4))[0]\nfor x in loader:\n"
        "    model(x * table).mean().backward(retain_graph=True)\n",
        FROM_BEFORE.format(N + 4),
    ),
    "such a table under another name": (
        "table = torch.zeros(4)\nrows = table\nrows.view(-1)[0] = model(torch.ones(4))[0]\nfor x in loader:\n"
        "    model(x * table).mean().backward(retain_graph=True)\n",
        FROM_BEFORE.format(N + 5),
    ),
    "such a table of an object": (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.table = torch.zeros(4)\n"
        "        self.table[0] = model(torch.ones(4))[0]\n\n    def forward(self, x):\n        return model(x * self.table)\n\n"
        "net = Net()\nfor x in loader:\n    net(x).mean().backward(retain_graph=True)\n",
        f"'self.table' may have a graph from before the iteration (line {N + 8})",
    ),
    "tensors of another shape of which one has a graph": (
        "width = model(torch.ones(4))\n\ndef loss(x):\n    both = torch.broadcast_tensors(model(x), width)\n"
        "    return (both[0] * both[1]).mean()\n\nfor x in loader:\n    loss(x).backward(retain_graph=True)\n",
        f"'width' may have a graph from before the iteration (line {N + 4})",
    ),
    "an option": (
        "args = argparse.ArgumentParser().parse_args()\nfor x in loader:\n"
        "    model(x).mean().backward(retain_graph=args.retain)\n",
        "'args.retain' decides whether the graph is kept",
    ),
    "a function that is not known": (
        "from losses import criterion\nfor x in loader:\n    criterion(model(x)).backward(retain_graph=True)\n",
        f"'criterion' is not seen, and may use the graph again (line {N + 3})",
    ),
    "one loss for all iterations": (
        "loss = model(torch.ones(4)).mean()\nfor _ in range(2):\n    loss.backward(retain_graph=True)\n",
        FROM_BEFORE.format(N + 3),
    ),
    "a loss that only the first iteration computes": (
        "for i, x in enumerate(loader):\n    if i == 0:\n        loss = model(x).mean()\n"
        "    loss.backward(retain_graph=True)\n",
        FROM_BEFORE.format(N + 4),
    ),
    "a loop over losses of one output": (
        "for x in loader:\n    out = model(x)\n    for loss in (out.mean(), out.square().mean()):\n"
        "        loss.backward(retain_graph=True)\n",
        FROM_BEFORE.format(N + 4),
    ),
    "a sum that is changed in place": (
        "total = torch.zeros(())\nfor x in loader:\n    total += model(x).mean()\n    total.backward(retain_graph=True)\n",
        FROM_BEFORE.format(N + 4),
    ),
    "a tensor that a method changes": (
        "total = torch.zeros(())\nfor x in loader:\n    total.add_(model(x).mean())\n"
        "    total.backward(retain_graph=True)\n",
        FROM_BEFORE.format(N + 4),
    ),
    "a tensor whose items are written": (
        "losses = torch.zeros(3)\nfor i, x in enumerate(loader):\n    losses[i] = model(x).mean()\n"
        "    losses.sum().backward(retain_graph=True)\n",
        FROM_BEFORE.format(N + 4),
    ),
    "a buffer that a model changes": (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.layer = nn.Linear(4, 1)\n"
        "        self.register_buffer('mean', torch.zeros(()))\n\n    def forward(self, x):\n"
        "        self.mean.add_(self.layer(x).mean())\n        return self.mean * 1\n\n"
        "net = Net()\nfor x in loader:\n    net(x).backward(retain_graph=True)\n",
        f"'self.mean' is changed in place, and may keep a graph (line {N + 8})",
    ),
    "an operator of an object": (
        "class Bias:\n    def __init__(self):\n        self.bias = model(torch.ones(4))\n\n"
        "    def __add__(self, other):\n        return self.bias + other\n\n"
        "bias = Bias()\nfor x in loader:\n    (bias + x).mean().backward(retain_graph=True)\n",
        f"'bias + x' may have a graph from before the iteration (line {N + 10})",
    ),
    "an item of an object": (
        "class Rows:\n    def __init__(self):\n        self.rows = model(torch.ones(3, 4))\n\n"
        "    def __getitem__(self, i):\n        return self.rows[i]\n\n"
        "rows = Rows()\nfor i in range(3):\n    rows[i].mean().backward(retain_graph=True)\n",
        f"'rows[i]' may have a graph from before the iteration (line {N + 10})",
    ),
    "a comprehension over losses of one output": (
        "for x in loader:\n    out = model(x)\n    losses = [out.mean(), out.square().mean()]\n"
        "    [loss.backward(retain_graph=True) for loss in losses]\n",
        "a comprehension runs it for several tensors, whose graphs may be one",
    ),
    "the loss of the iteration before": (
        "last = None\nfor x in loader:\n    if last is not None:\n        last.backward()\n"
        "    loss = last = model(x).mean()\n    loss.backward(retain_graph=True)\n",
        FROM_BEFORE.format(N + 4),
    ),
    "a closure that an optimizer runs": (
        "for x in loader:\n    out = model(x)\n    out.mean().backward(retain_graph=True)\n"
        "    def closure():\n        loss = out.square().mean()\n        loss.backward()\n        return loss\n"
        "    optimizer.step(closure)\n",
        f"a tensor of the iteration is kept (line {N + 8}), and another backward may go through it (line {N + 6})",
    ),
    "a generator with a state": (
        "def losses():\n    total = torch.zeros(())\n    for x in loader:\n        total = total + model(x).mean()\n"
        "        yield total\n\nfor loss in losses():\n    loss.backward(retain_graph=True)\n",
        FROM_BEFORE.format(N + 8),
    ),
    "a default that is one object": (
        "def summed(x, losses=[]):\n    losses.append(model(x).mean())\n    return sum(losses)\n\n"
        "for x in loader:\n    summed(x).backward(retain_graph=True)\n",
        f"'losses' may have a graph from before the iteration (line {N + 3})",
    ),
    "a data set of what was computed": (
        "computed = torch.utils.data.TensorDataset(model(torch.ones(4, 4)))\n"
        "loader = torch.utils.data.DataLoader(computed)\nfor (x,) in loader:\n"
        "    x.square().mean().backward(retain_graph=True)\n",
        f"the batches of a loader may have been computed together (line {N + 2})",
    ),
    "weights that are computed once": (
        "with torch.nn.utils.parametrize.cached():\n    for x in loader:\n"
        "        model(x).mean().backward(retain_graph=True)\n",
        f"weights are computed once, and used in every iteration (line {N + 1})",
    ),
    "a method that is handed on": (
        "for x in loader:\n    loss = model(x).mean()\n    again = loss.backward\n"
        "    loss.backward(retain_graph=True)\n    again()\n",
        f"'backward' is handed on, and may be called later (line {N + 3})",
    ),
    "a method that a text names": (
        "for x in loader:\n    loss = model(x).mean()\n    loss.backward(retain_graph=True)\n"
        "    getattr(loss, 'backward')()\n",
        f"what a text names may be another backward, or be computed before (line {N + 4})",
    ),
    "a function that remembers what it returned": (
        "from functools import lru_cache\n\n@lru_cache(maxsize=1)\ndef features(x):\n    return model(x).exp()\n\n"
        "for x in loader:\n    one = features(x).mean()\n    two = features(x).square().mean()\n"
        "    one.backward(retain_graph=True)\n    two.backward()\n",
        f"what a function has computed once, it may return again (line {N + 4})",
    ),
    "the graph is looked at": (
        "for x in loader:\n    loss = model(x).square().mean()\n    loss.backward(retain_graph=True)\n"
        "    print(loss.grad_fn.next_functions[0][0]._saved_self)\n",
        f"the script looks at the graph itself (line {N + 4})",
    ),
    "a layer of a library that is not known": (
        "import spikes\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.layer = spikes.Leaky()\n\n    def forward(self, x):\n        return self.layer(x)\n\n"
        "net = Net()\nfor x in loader:\n    net(x).mean().backward(retain_graph=True)\n",
        f"'self.layer' is not seen, and may use the graph again (line {N + 9})",
    ),
}


@pytest.mark.parametrize(("code", "because"), NEEDED.values(), ids=NEEDED)
def test_the_graph_may_be_used_again(code: str, because: str) -> None:
    check_leaves(RetainGraph, HEAD + code, because)


NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        {}

    def forward(self, x):
        {}
        return (x * self.weight).sum()


net = Net()
for x in loader:
    net(x).backward(retain_graph=True)
"""


def test_a_model_may_compute_with_what_it_computed_when_it_was_made() -> None:
    code = HEAD + NET.format("self.scale = self.weight.exp()", "x = x * self.scale")

    check_leaves(RetainGraph, code, f"'self.scale' may have a graph from before the iteration (line {N + 8})")
    with pytest.raises(RuntimeError, match="second time"):
        run_script(code.replace("retain_graph=True", ""))


def test_a_model_may_keep_a_state() -> None:
    code = HEAD + NET.format("self.state = torch.zeros(4)", "x = self.state = x * self.weight + self.state")

    (site,) = run(RetainGraph, code).sites
    assert site.code in {"graph-escapes", "graph-used"}
    with pytest.raises(RuntimeError, match="second time"):
        run_script(code.replace("retain_graph=True", ""))


def test_a_model_with_parameters_and_buffers_keeps_nothing() -> None:
    before = HEAD + NET.format("self.scale = torch.ones(4)", "x = x * self.scale")

    check_rewrites(RetainGraph, before, before.replace("retain_graph=True", ""))


SILENT = {
    "it runs once": "model(torch.ones(4)).mean().backward(retain_graph=True)\n",
    "it is not asked for": "for x in loader:\n    model(x).mean().backward(retain_graph=False)\n",
    "gradients are differentiated again": "for x in loader:\n    model(x).mean().backward(create_graph=True)\n",
}


@pytest.mark.parametrize("code", SILENT.values(), ids=SILENT)
def test_what_keeps_nothing_is_not_mentioned(code: str) -> None:
    check_silent(RetainGraph, HEAD + code)


def test_the_losses_are_the_same_bits() -> None:
    code = (
        HEAD + FREED["each batch computes its own loss"].format("retain_graph=True") + "    print(loss.item().hex())\n"
    )
    text = "import torch\ntorch.manual_seed(0)\n" + code
    result = run(RetainGraph, text)

    assert "retain_graph" not in result.after
    assert run_script(result.after) == run_script(text)


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param("x = x.reshape(-1, width)", id="a size"),
        pytest.param("x = x.view(width, -1)", id="a size, in a view"),
        pytest.param("x = x.to(width)", id="a device or a format"),
    ],
)
def test_what_says_how_a_tensor_is_seen_has_no_graph(seen: str) -> None:
    before = HEAD + "width = read_settings()\n" + NET.format("pass", seen)

    check_rewrites(RetainGraph, before, before.replace("retain_graph=True", ""))


@pytest.mark.parametrize(
    "computed",
    [
        pytest.param("x = x.mul(width)", id="a factor"),
        pytest.param("x = torch.reshape(width, (-1,))", id="what is seen in another shape"),
        pytest.param("x = x * width.reshape(-1)", id="whose method it is"),
        pytest.param("x = self.reshape(width)", id="a method of the model"),
    ],
)
def test_what_may_be_computed_with_has_a_graph(computed: str) -> None:
    own = "    def reshape(self, x):\n        return x.exp()\n\n    def forward"
    code = HEAD + "width = read_settings()\n" + NET.format("pass", computed).replace("    def forward", own)

    (site,) = run(RetainGraph, code).sites
    assert not site.rewrites


LEARNS = """\
def learn(x, state):
    {}
    for epoch in range(3):
        loss = model(x[0] + first + pair[0]).mean()
        loss.backward(retain_graph=True)


for x in loader:
    learn(x, load_state())
"""
DETACHED = "first = state.detach()\n    pair = (state.detach(), first.detach())"


def test_what_was_detached_before_a_loop_has_no_graph() -> None:
    before = HEAD + LEARNS.format(DETACHED)

    check_rewrites(RetainGraph, before, before.replace("retain_graph=True", ""))


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(DETACHED.replace("first.detach()", "state"), id="a part of a tuple is not detached"),
        pytest.param(DETACHED.replace("state.detach(), first", "state * 2, first"), id="a part of a tuple is computed"),
        pytest.param(f"{DETACHED}\n    first = state", id="the name is bound anew"),
        pytest.param(f"{DETACHED}\n    first += model(state)", id="something is added to it"),
        pytest.param(f"{DETACHED}\n    first.add_(model(state))", id="it is changed in place"),
        pytest.param(f"{DETACHED}\n    first[0] = model(state)", id="a part of it is changed"),
        pytest.param(f"{DETACHED}\n    first = first * model(state)", id="something is computed from it"),
        pytest.param(DETACHED.replace("first = ", "first = own = "), id="it has two names"),
        pytest.param(DETACHED.replace("(state.detach(), first.detach())", "[state.detach()]"), id="a list"),
    ],
)
def test_what_may_have_a_graph_before_a_loop_keeps_it(given: str) -> None:
    (site,) = run(RetainGraph, HEAD + LEARNS.format(given)).sites

    assert (site.rewrites, site.code) == (False, "graph-used")


TWO = (
    HEAD
    + """\
other = nn.Linear(4, 4)
scale = torch.ones(1, requires_grad=True)


class Holder:
    pass


def features(x):
    return model(x)


def both(x):
    out = other(x)
    return out + 1, out * 2


def squared(x):
    return x.square()


holder = Holder()
for x in loader:
    {}
    one.backward(retain_graph=True)
    two.backward()
"""
)
APART = {
    "each of its own network": "one = model(x).mean()\n    two = other(x).mean()",
    "each of its own call": "one = model(x).mean()\n    two = model(x + 1).mean()",
    "what the first computes is detached for the second": (
        "fake = other(x)\n    one = model(fake).mean()\n    two = model(fake.detach()).mean()"
    ),
    "the data of what the first computes": "fake = other(x)\n    one = fake.mean()\n    two = model(fake.data).mean()",
    "in two steps": "one = model(x)\n    one = one.mean()\n    two = squared(other(x))\n    two = two.mean()",
    "noise for both": "seen = torch.randn(3, 4)\n    one = model(seen).mean()\n    two = other(seen).mean()",
    "losses of classes": "one = nn.MSELoss()(model(x), x[:, :1])\n    two = F.mse_loss(other(x), x)",
}


@pytest.mark.parametrize("losses", APART.values(), ids=APART)
def test_the_graph_of_a_later_backward_is_another(losses: str) -> None:
    before = TWO.format(losses)

    after = before.replace("retain_graph=True", "")
    check_rewrites(RetainGraph, before, after)
    run_script(after)


SHARED = {
    "the second goes through the first": "fake = other(x)\n    one = fake.exp().mean()\n    two = model(fake).mean()",
    "one is a part of the other": "one = model(x).square().mean()\n    two = one + other(x).mean()",
    "what a function of the project returns": "out = features(x).exp()\n    one = out.mean()\n    two = out.sum()",
    "two parts of one result": "a, b = both(x).__iter__()\n    one = a.square().mean()\n    two = b.square().mean()",
    "what is computed from a parameter": (
        "grown = scale.exp()\n    one = (model(x) * grown).mean()\n    two = (other(x) * grown).mean()"
    ),
    "a list that takes up both": (
        "outs = []\n    outs.append(other(x).exp())\n    one = outs[0].mean()\n    two = outs[0].sum()"
    ),
    "an attribute": "holder.out = other(x).exp()\n    one = holder.out.mean()\n    two = holder.out.sum()",
    "what is added in place": (
        "total = torch.zeros(4, 4)\n    total += other(x).exp()\n    one = total.exp().mean()\n    two = total.exp().sum()"
    ),
    "what is written into a part": (
        "total = torch.zeros(4, 4)\n    total[:] = other(x).exp()\n    one = total.exp().mean()\n    two = total.mean()"
    ),
    "what a branch binds": (
        "out = other(x).exp()\n    if len(x) > 1:\n        again = out\n    one = out.mean()\n    two = again.sum()"
    ),
    "what an expression binds": "one = (out := other(x).exp()).mean()\n    two = out.sum()",
    "a name by another": "out = same = other(x).exp()\n    one = out.mean()\n    two = same.sum()",
    "what a lambda reads": "out = other(x).exp()\n    one = out.mean()\n    two = (lambda: out.sum())()",
    "what a comprehension reads": "out = other(x).exp()\n    one = out.mean()\n    two = sum(each.sum() for each in out)",
}


@pytest.mark.parametrize("losses", SHARED.values(), ids=SHARED)
def test_the_graph_of_a_later_backward_may_be_the_same(losses: str) -> None:
    code = TWO.format(losses)

    (site,) = run(RetainGraph, code).sites
    assert not site.rewrites
    with pytest.raises(RuntimeError, match="second time"):
        run_script(code.replace("retain_graph=True", ""))
