"""Constants of training loops: what is made above the loop, what stays, and the numbers of both."""

from __future__ import annotations

from typing import Any

import pytest
from kit import check_leaves, check_rewrites, check_silent, run

from autotune_rewrite.rewriting.config import Settings
from autotune_rewrite.rewriting.rewrite import rewrite
from codemods.codemod import Promise
from codemods.rules.const_hoist import ConstHoist

HEAD = """\
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
size = 8
mean = [0.5, 0.25]
kept = []
net = nn.Linear(4, 1)
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""
LOOP = "for i, x in enumerate(torch.randn(5, size, 4)):\n"
REST = """\
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
LINE = len((HEAD + LOOP).splitlines()) + 1
"""Where the body begins."""


def indented(lines: str) -> str:
    return "".join(f"    {each}\n" for each in lines.splitlines())


def script(body: str, above: str = "") -> str:
    return HEAD + "".join(f"{each}\n" for each in above.splitlines()) + LOOP + indented(body) + REST


LABELS = "real = torch.ones(size, 1)"
LOSS = "loss = criterion(net(x), real)"
FORMS = {
    "labels": (LABELS, LOSS),
    "with a comment": (f"# All are real.\n{LABELS}  # for now", LOSS),
    "two at once": ("real, fake = torch.ones(size, 1), torch.zeros(size, 1)", LOSS + " + F.mse_loss(net(-x), fake)"),
    "on a device": ('device = torch.device("cpu")\nreal = torch.full((size, 1), 0.9).to(device)', LOSS),
    "of a list of numbers": ("scale = torch.tensor(mean)", "loss = net(x).mean() * scale.sum()"),
    "of a number": ("half = torch.tensor(0.5)", "loss = half * net(x).mean()"),
    "a mask": (
        "mask = torch.triu(torch.ones(size, size), diagonal=1).bool()",
        "loss = net(x).expand(size, size).masked_fill(mask, 0).mean()",
    ),
    "indices": ("index = torch.arange(size // 2)", "loss = net(x)[index].mean()"),
    "indices of a range": ("index = torch.LongTensor(range(4))", "loss = net(x)[index].mean()"),
    "numbers in an old constructor": ("scale = torch.FloatTensor([0.5, 2])", "loss = net(x).mean() * scale.sum()"),
    "filled by an old constructor": ("real = torch.FloatTensor(size, 1).fill_(1.0)", LOSS),
    "zeros of an old constructor": ("fake = torch.Tensor(size, 1).zero_()", "loss = F.mse_loss(net(x), fake)"),
    "joined to others": ("one = torch.ones(size, 1)", "loss = torch.cat([net(x), one], dim=1).mean()"),
    "a loss": ("huber = nn.HuberLoss(delta=0.5)", "loss = huber(net(x), x[:, :1])"),
    "a variable": ("real = torch.autograd.Variable(torch.ones(size, 1), requires_grad=False)", LOSS),
    "another name": (f"{LABELS}\nother = real", LOSS),
    "a variable without gradients": ("real = torch.autograd.Variable(torch.ones(size, 1), False)", LOSS),
    "a variable of its name": (
        f"{LABELS}\nwrapped = torch.autograd.Variable(real)",
        "loss = criterion(net(x), wrapped)",
    ),
    "a part that the batch tells": (LABELS, f"{LOSS}\nrow = real[i]\nloss = loss * row.sum()"),
    "a view": (f"{LABELS}\nrow = real.view(-1)", LOSS),
    "what is computed of it": (
        "one = torch.FloatTensor([1])\nminus = one * -1",
        "loss = net(x).mean() * one + net(-x).mean() * minus",
    ),
    "a grid": (
        "row, column = torch.meshgrid(torch.linspace(0, size - 1, size), torch.zeros(2), indexing='ij')\n"
        "grid = torch.stack([row, column], -1)[..., None]",
        "loss = net(x).mean() * grid.sum() * row[0, 0]",
    ),
    "copied by its name": ('index = torch.arange(4).repeat(2)\nindex = index.to("cpu")', "loss = net(x)[index].mean()"),
    "copied under a condition": (
        "one = torch.ones(1)\nminus = one * -1\n"
        "if size > 8:\n    one = one.double()\n    minus = minus.double()\nelse:\n    one = one.float()",
        "loss = net(x).mean() * one + net(-x).mean() * minus",
    ),
    "copied as a condition says": (
        "index = torch.arange(4).repeat(2)\n"
        "index = index.type(torch.cuda.LongTensor) if torch.cuda.is_available() else index.type(torch.LongTensor)",
        "loss = net(x)[index].mean()",
    ),
    "reshaped by its name": (
        "row, column = torch.meshgrid(torch.arange(3), torch.arange(2), indexing='ij')\nrow = row.t()\n"
        "grid = torch.stack((row, column.t()), -1)\ngrid = torch.reshape(grid, [-1, 2])",
        "loss = net(x).mean() * grid.sum()",
    ),
    "a number, several times": ("real = torch.FloatTensor([[0.9]] * size)", LOSS),
    "of an array of numbers": ("real = torch.from_numpy(np.ones((size, 1)).astype(np.float32))", LOSS),
    "of an identity of NumPy's": (
        "real = torch.tensor(np.eye(2)).view(-1, 1).repeat(2, 1)",
        "loss = criterion(net(x), real.float())",
    ),
    "of the name of an array": ("ones = np.ones((size, 1))\nreal = torch.from_numpy(ones).float()", LOSS),
    "a number before it": ("n = 2\nscale = torch.ones(n)", "loss = net(x).mean() * scale.sum() / n"),
}


@pytest.mark.parametrize(("constant", "use"), FORMS.values(), ids=FORMS)
def test_a_constant_is_made_above_the_loop(constant: str, use: str) -> None:
    check_rewrites(ConstHoist, script(f"{constant}\n{use}"), script(use, above=constant))


@pytest.mark.parametrize(("constant", "use"), FORMS.values(), ids=FORMS)
def test_the_numbers_are_the_same(constant: str, use: str) -> None:
    before = script(f"{constant}\n{use}")
    losses = []
    for text in (before, run(ConstHoist, before).after):
        state = dict[str, Any]()
        exec(text.replace("    optimizer.step()", "    optimizer.step()\n    kept.append(loss.item())"), state)  # noqa: S102 - the script is written above
        losses.append([*state["kept"], *(each.item() for each in state["net"].weight[0])])

    assert losses[0] == losses[1]


def test_a_type_for_either_device_fills_the_same() -> None:
    above = "Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor"
    made = "real = torch.autograd.Variable(Tensor(size, 1).fill_(1.0), requires_grad=False)"

    check_rewrites(ConstHoist, script(f"{made}\n{LOSS}", above), script(LOSS, f"{above}\n{made}"))


GIVEN = "'{}' may be written to or kept by what it is given to (line {}): make it once, above the loop, where that is not so"
LEFT = {
    "other values of its name": (
        "grid = torch.stack([torch.arange(2), torch.arange(2)])\ngrid = grid + i\nloss = net(x).mean() * grid.sum()",
        "the same is computed in each iteration, but 'grid' is given other values, too: compute it once, above the loop,"
        " under a name of its own",
    ),
    "a part of it that is kept": (
        f"{LABELS}\n{LOSS}\nrow = real[0]\nfirst = row.view(-1)\nkept.append(first)",
        GIVEN.format("real", LINE + 4),
    ),
    "a model gets it": (
        "one = torch.ones(size, 4)\nloss = net(one + x).mean() + net(one).mean()",
        GIVEN.format("one", LINE + 1),
    ),
    "a list keeps it": (f"{LABELS}\n{LOSS}\nkept.append(real)", GIVEN.format("real", LINE + 2)),
    "another name that is kept": (
        f"{LABELS}\nother = real\n{LOSS}\nkept.append(other)",
        GIVEN.format("real", LINE + 3),
    ),
    "a variable in its memory is filled": (
        f"{LABELS}\nwrapped = torch.autograd.Variable(real)\n{LOSS}\nwrapped.data.fill_(0)",
        GIVEN.format("real", LINE + 1),
    ),
    "a variable in its memory is added to": (
        f"{LABELS}\nwrapped = torch.autograd.Variable(real)\nwrapped += i\n{LOSS}",
        GIVEN.format("real", LINE + 1),
    ),
    "an optimizer steps a parameter in its memory": (
        "noise = torch.zeros(size, 4)\ndelta = nn.Parameter(noise)\ninner = torch.optim.SGD([delta])\n"
        "loss = net(x + delta).mean()",
        GIVEN.format("noise", LINE + 2),
    ),
    "a function writes to it where it is asked": (
        f"{LABELS}\nF.dropout(real, 0.5, True, True)\n{LOSS}",
        GIVEN.format("real", LINE + 1),
    ),
    "what is made of it is in its memory": (
        "a = torch.ones(1)\nloss = net(x).mean() * a\nb = F.relu(a, True)\nloss = loss * b",
        GIVEN.format("a", LINE + 2),
    ),
    "a normalization counts into it": (
        "m, v = torch.zeros(4), torch.ones(4)\nloss = net(F.batch_norm(x, m, v, training=True)).mean()",
        GIVEN.format("m", LINE + 1),
    ),
    "each pass would add an axis": (
        "one = torch.ones(1)\none.unsqueeze_(0)\nloss = (net(x) * one).mean()",
        GIVEN.format("one", LINE + 1),
    ),
    "each pass would add an axis under another name": (
        "one = torch.ones(1)\nloss = (net(x) * one).mean()\nrow = one.unsqueeze_(0)\nloss = loss * row.sum()",
        GIVEN.format("one", LINE + 2),
    ),
    "a cast has nothing to do": (
        "index = torch.arange(4)\nother = index.long()\nother += i\nloss = net(x)[other % 8].mean() + index.sum()",
        GIVEN.format("index", LINE + 1),
    ),
    "an array in its memory": (f"{LABELS}\narray = real.numpy()\n{LOSS}", GIVEN.format("real", LINE + 1)),
    "a view of it that is kept": (
        f"{LABELS}\nrow = real.view(-1)\n{LOSS}\nkept.append(row)",
        GIVEN.format("real", LINE + 3),
    ),
    "a model gets what is computed of it": (
        "grid = torch.cat([torch.ones(size, 2), torch.eye(size)[:, :2]], 1) / 2\nloss = net(x).mean() + net(grid).mean()",
        GIVEN.format("grid", LINE + 1),
    ),
    "under a with": (
        f"with torch.enable_grad():\n    {LABELS}\n    {LOSS}",
        f"it does not stand in the loop itself, but in an inner block (line {LINE}): make it above the loop",
    ),
    "gradients": (
        "leaf = torch.ones(1, requires_grad=True)\nloss = net(x).mean() * leaf",
        "gradients are asked for of it, and would be added up from one iteration to the next",
    ),
    "gradients that are asked for later": (
        "leaf = torch.ones(1).requires_grad_()\nloss = net(x).mean() * leaf",
        "gradients are asked for of it, and would be added up from one iteration to the next",
    ),
    "gradients of a parameter": (
        "leaf = nn.Parameter(torch.ones(1))\nloss = net(x).mean() * leaf",
        "gradients are asked for of it, and would be added up from one iteration to the next",
    ),
    "gradients of a variable": (
        "leaf = torch.autograd.Variable(torch.ones(1), True)\nloss = net(x).mean() * leaf",
        "gradients are asked for of it, and would be added up from one iteration to the next",
    ),
    "a choice of it and a batch": (
        "one = torch.ones(size, 4)\nshift = one if i else x\nshift.add_(1)\nloss = net(x + shift).mean()",
        GIVEN.format("one", LINE + 1),
    ),
    "a list that is added keeps it": (f"{LABELS}\n{LOSS}\nkept += [real]", GIVEN.format("real", LINE + 2)),
    "a device is set": (
        f"torch.set_default_dtype(torch.float64)\n{LABELS}\n{LOSS}",
        f"the loop sets a device or a number format (line {LINE})",
    ),
    "the script asks for names": (
        f"{LABELS}\n{LOSS}\nprint(locals())",
        f"the script asks which names there are (line {LINE + 2})",
    ),
}


@pytest.mark.parametrize(("body", "because"), LEFT.values(), ids=LEFT)
def test_it_is_left_for_the_reason_that_decides(body: str, because: str) -> None:
    check_leaves(ConstHoist, script(body), because)


@pytest.mark.parametrize(
    "made",
    [
        pytest.param("return torch.linspace(0, 1, n, requires_grad=True)", id="as it is made"),
        pytest.param("return torch.ones(n).requires_grad_()", id="by its method"),
        pytest.param("return nn.Parameter(torch.ones(n))", id="as a parameter"),
    ],
)
def test_a_function_asks_for_gradients(made: str) -> None:
    body = "leaf = points(2)\nloss = net(x).mean() * leaf.sum()"

    check_leaves(
        ConstHoist,
        script(body, above=f"def points(n):\n    {made}"),
        "gradients are asked for of it, and would be added up from one iteration to the next",
    )


FULL = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

net = nn.Linear(4, 1)
criterion = nn.BCEWithLogitsLoss()
loader = DataLoader(TensorDataset(torch.randn(20, 4)), 8{})
for i, (x,) in enumerate(loader):
    n = x.shape[0]
    real = torch.ones({}, 1)
    criterion(net(x), real).backward()
"""
SHORTER = (
    "it is as long as the batch, and the last batch of an epoch may be shorter: make it once for a full batch, and take as"
    " many rows of it here"
)


@pytest.mark.parametrize("length", ["n", "x.size(0)", "len(x)", "x.shape[0]", "x.size()[0]"])
def test_labels_as_long_as_the_batch_had_better_be_longer(length: str) -> None:
    check_leaves(ConstHoist, FULL.format("", length), SHORTER)


def test_full_batches_are_of_one_length() -> None:
    because = (
        "it is as long as the batch, and all batches are of one length: make it once, above the loop, for the size that"
        " the loader has"
    )

    check_leaves(ConstHoist, FULL.format(", drop_last=True", "n"), because)


STEPS = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(4, 4)

    def forward(self, x, state):
        if not isinstance(state, torch.Tensor):
            return x
        y, state = self.rnn(x, state)
        return y


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, x, state=None):
        return self.net(self.net(x, state), state=state)


def start():
    net = Twice()
{above}    for x in torch.randn(3, 5, 8, 4):
{inside}        net(x, state).sum().backward()
"""
STATE = "state = torch.zeros(1, 8, 4)\n"


def steps(*, is_above: bool) -> str:
    return STEPS.format(above=f"    {STATE}" * is_above, inside=f"        {STATE}" * (not is_above))


def test_the_state_that_a_recurrent_network_starts_from() -> None:
    check_rewrites(ConstHoist, steps(is_above=False), steps(is_above=True))


def test_its_name_may_mean_something_else_below_the_loop() -> None:
    below = "    state = torch.ones(1, 2, 4)\n    return net(torch.ones(5, 2, 4), state)\n"

    check_rewrites(ConstHoist, steps(is_above=False) + below, steps(is_above=True) + below)


def test_its_name_may_mean_something_else_in_another_loop() -> None:
    body = LOOP + indented(f"{{}}{LOSS}") + REST
    other = LOOP + indented("real = torch.zeros(size, 1)\nreal[0] = i\nkept.append(real)")

    def text(above: str, inside: str) -> str:
        return HEAD + "for epoch in range(2):\n" + indented(above + body.format(inside) + other)

    check_rewrites(ConstHoist, text("", f"{LABELS}\n    "), text(f"{LABELS}\n", ""))


MODELS = {
    "it is written to": ("        y, state", "        state[0] = 1\n        y, state"),
    "it is added to": ("        y, state", "        state += 1\n        y, state"),
    "a method writes to it": ("        y, state", "        state.mul_(2)\n        y, state"),
    "it is kept": ("        y, state", "        self.last = state\n        y, state"),
    "it is returned": ("return x", "return state"),
    "it is the input of a layer": ("self.rnn(x, state)", "self.rnn(state, state)"),
    "another layer gets it": ("nn.GRU(4, 4)", "nn.Bilinear(4, 4, 4)"),
    "something unknown gets it": ("        y, state", "        look(state)\n        y, state"),
    "a wrapper gets it": ("net = Twice()", "net = nn.DataParallel(Twice())"),
    "a hook may get it": ("net = Twice()", "net = Twice()\n    net.register_forward_pre_hook(look)"),
    "a decorator may": ("    def forward(self, x, state):", "    @look\n    def forward(self, x, state):"),
    "it is one of many": (
        "    def forward(self, x, state):",
        "    def forward(self, x, *all, state=None):\n        look(all)",
    ),
}


@pytest.mark.parametrize(("old", "new"), MODELS.values(), ids=MODELS)
def test_a_model_that_may_do_more_with_it_than_compute(old: str, new: str) -> None:
    code = steps(is_above=False)
    assert old in code
    code = code.replace(old, new)
    line = next(i for i, each in enumerate(code.splitlines(), 1) if "backward" in each)

    check_leaves(ConstHoist, code, GIVEN.format("state", line))


def test_what_it_is_made_of_has_to_be_constant_too() -> None:
    code = script(
        "base = torch.ones(size, size)\nmask = torch.triu(base)\nbase.add_(1)\nloss = net(x).mean() * mask.sum()"
    )

    check_leaves(ConstHoist, code, f"'base', of which it is made, is written to (line {LINE})")


SETTERS = {
    "a number format": "torch.set_default_dtype(torch.float64)",
    "a number format of old": "torch.set_default_tensor_type(torch.DoubleTensor)",
}


@pytest.mark.parametrize("setter", SETTERS.values(), ids=SETTERS)
def test_what_a_function_of_the_loop_sets_counts(setter: str) -> None:
    code = f"def widen():\n    {setter}\n\n\n" + script(f"{LABELS}\n{LOSS}\nwiden()")

    check_leaves(ConstHoist, code, "the loop sets a device or a number format (line 2)")


COPIED = {
    "an array that is written": "goal[0] = i",
    "an array that has another name": "row *= 2",
    "an array that a function writes": "write(goal)",
    "a tensor that is written": "base.mul_(0.5)",
    "a list in a list": "mean.reverse()",
}


@pytest.mark.parametrize("change", COPIED.values(), ids=COPIED)
def test_a_copy_of_what_changes_is_no_constant(change: str) -> None:
    above = "import numpy as np\ngoal = np.ones(size)\nrow = goal[1:]\nbase = torch.ones(size, size)\n"
    above += "def write(array):\n    array[0] = 2"
    source = {"base": "torch.triu(base)", "mean": "torch.tensor([mean])"}.get(
        change.partition(".")[0], "torch.tensor(goal)"
    )

    check_silent(ConstHoist, script(f"scale = {source}\nloss = net(x).mean() * scale.sum()\n{change}", above))


def test_what_is_made_of_such_a_copy_is_no_constant_either() -> None:
    body = "scale = torch.tensor(goal)\nmask = torch.triu(scale)\nloss = net(x).mean() * mask.sum()\ngoal[0] = i"

    check_silent(ConstHoist, script(body, "import numpy as np\ngoal = np.ones((size, size))"))


def test_what_is_copied_by_its_name_is_made_on_the_device_in_the_same_pass() -> None:
    text = """\
import torch
from torch import nn

device = torch.device("cuda")
net = nn.Linear(4, 5).to(device)
for epoch in range(3):
    for x in torch.randn(10, 5, 4):
        y = torch.arange(5)
        y = y.to(device)
        nn.functional.cross_entropy(net(x.to(device)), y).backward()
"""
    settings = Settings(frozenset({"const-hoist", "device-ctor"}), Promise.BITWISE)
    first = rewrite("train.py", text, settings).after

    assert "for epoch in range(3):\n    y = torch.arange(5, device=device)\n    for x in" in first
    assert rewrite("train.py", first, settings).after == first


def test_a_copy_of_what_a_caller_may_write_is_no_constant() -> None:
    body = LOOP + indented("scale = torch.tensor(goal)\nloss = net(x).mean() * scale.sum()\nafter(i)") + REST
    code = HEAD + "import numpy as np\ngoals = np.ones(4)\ndef train(goal, after):\n" + indented(body)
    code += "train(goals, goals.fill)\n"

    check_silent(ConstHoist, code)


def test_a_copy_of_an_array_that_nobody_writes_is_a_constant() -> None:
    above = "import numpy as np\ngoal = np.ones(size)"
    use = "loss = net(x).mean() * scale.sum()"
    constant = "scale = torch.tensor(goal)"

    check_rewrites(ConstHoist, script(f"{constant}\n{use}", above), script(use, f"{above}\n{constant}"))


SILENT = {
    "a variable in its memory is written to": f"{LABELS}\ntorch.autograd.Variable(real).mul_(2)\n{LOSS}",
    "as large as the batch": "real = torch.ones(x.size())\nloss = net(x).mean() * real.sum()",
    "as long as the batch, under another name": "y = x\ny = y[:3]\nreal = torch.ones(y.size(1), 1)\n" + LOSS,
    "as long as the batch, and kept": "real = torch.ones(len(x), 1)\nkept.append(real)\n" + LOSS,
    "as its pass": "step = torch.tensor(i)\nloss = net(x).mean() * step",
    "random": "noise = torch.randn(size, 1)\nloss = (net(x) * noise).mean()",
    "not filled": "buffer = torch.empty(size, 1)\nloss = net(x).mean() + buffer.sum()",
    "added to": "loss = torch.zeros(1)\nloss = loss + net(x).mean()",
    "added to in place": "total = torch.zeros(1)\ntotal += 1\nloss = net(x).mean() * total",
    "written to by a method": "real = torch.zeros(size, 1)\nreal.fill_(0.9)\n" + LOSS,
    "written to item by item": "real = torch.zeros(size, 1)\nreal[0] = 1\n" + LOSS,
    "written to as out": "real = torch.zeros(size, 1)\ntorch.ones(size, 1, out=real)\n" + LOSS,
    "computed of weights": "shift = torch.cat([torch.ones(1, 4), net.weight])\nloss = net(x).mean() * shift.sum()",
    "multiplied with weights": "shift = torch.ones(1, 4).mul(net.weight)\nloss = net(x).mean() * shift.sum()",
    "copied in some iterations": "one = torch.ones(1)\nif i > 2:\n    one = one * 2\nloss = net(x).mean() * one",
    "made in some iterations": "if i > 2:\n    one = torch.ones(1)\n    one = one * 2\nloss = net(x).mean()",
    "made like the batch by its name": "one = torch.ones(1)\none = one.to(x)\nloss = net(x).mean() * one",
    "another value later": "one = torch.ones(1)\none = one * 2\nloss = net(x).mean() * one\none = loss.detach()",
    "read between its values": "one = torch.ones(1)\ny = net(x) * one\none = one * 2\nloss = (y * one).mean()",
    "read by a function between": "one = torch.ones(1)\none = one * 2\nloss = net(x).mean() * (lambda: one)()",
    "left in between": "one = torch.ones(1)\nif i > 3:\n    break\none = one * 2\nloss = net(x).mean() * one",
    "halved each time": "a, b = torch.ones(1), torch.ones(1)\na = a + b\nb = b * x\nloss = (net(x) * b).mean() * a",
    "an array that is written to": "a = np.zeros((size, 1))\na[i] = 1\nreal = torch.from_numpy(a).float()\n" + LOSS,
    "a copy of an array that is written to": "a = np.zeros((size, 1))\na[i] = 1\nreal = torch.tensor(a).float()\n"
    + LOSS,
    "an array by itself": "a = np.zeros(3)\nkept.append(a)\nloss = net(x).mean()",
    "an array of a list": "real = torch.tensor(np.array(mean))\nmean[0] = i\nloss = net(x).mean() * real.sum()",
    "of a list that changes": "mean.append(i)\nscale = torch.tensor(mean)\nloss = net(x).mean() * scale.sum()",
    "read before": "loss = net(x).mean()\nif i:\n    loss = loss + one\none = torch.ones(1)",
    "a loss with weights of its own": "head = nn.AdaptiveLogSoftmaxWithLoss(4, 8, [4])\nloss = head(x, torch.zeros(8, dtype=torch.long)).loss",
}


@pytest.mark.parametrize("body", SILENT.values(), ids=SILENT)
def test_what_is_no_constant(body: str) -> None:
    check_silent(ConstHoist, script(body))


def test_a_loop_that_does_not_train_is_left_in_peace() -> None:
    check_silent(ConstHoist, HEAD + LOOP + indented(f"{LABELS}\nprint(criterion(net(x), real))"))


def test_what_a_model_copies_in_each_pass_had_better_be_a_buffer() -> None:
    code = """\
import torch
from torch import nn


class Shift(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.by = torch.arange(width)

    def forward(self, x):
        return x + self.by.to(x.device)


model = nn.Sequential(nn.Linear(4, 4), Shift(4)).cuda()
for x in torch.randn(10, 8, 4):
    model(x.cuda()).mean().backward()
"""

    check_leaves(
        ConstHoist,
        code,
        "each forward pass copies 'by' to the device, which the constructor made (line 8): give it to"
        " register_buffer('by', …, persistent=False) there, and move the model",
    )


def test_so_had_the_array_that_each_pass_indexes_by() -> None:
    code = """\
import numpy as np
import torch
from torch import nn


class Turn(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.order = np.random.permutation(width)

    def forward(self, x):
        return x[:, self.order]


model = nn.Sequential(nn.Linear(4, 4), Turn(4)).cuda()
for x in torch.randn(10, 8, 4):
    model(x.cuda()).mean().backward()
"""

    check_leaves(
        ConstHoist,
        code,
        "each forward pass copies 'order' to the device, which the constructor made (line 9): give a tensor of the array"
        " to register_buffer('order', …, persistent=False) there, and move the model",
    )


WAITS = "the same numbers are made a tensor and copied to the device each time, for which the host waits: "


@pytest.mark.parametrize(
    ("above", "body", "remedy"),
    [
        pytest.param(
            "class Scaled(nn.Module):\n    def forward(self, x):\n        return x / torch.tensor([0.1, 0.2, 1, 2]).to(x.device)\n"
            "net = nn.Sequential(Scaled(), nn.Linear(4, 1)).cuda()",
            "loss = net(x.cuda()).mean()",
            "give the tensor to register_buffer(…, persistent=False) in the constructor",
            id="a model",
        ),
        pytest.param(
            "net = net.cuda()",
            "loss = net(x.cuda() / torch.tensor([0.1, 0.2, 1, 2]).cuda()).mean()",
            "make it once, above the loop",
            id="the loop",
        ),
    ],
)
def test_numbers_that_are_copied_each_time(above: str, body: str, remedy: str) -> None:
    check_leaves(ConstHoist, script(body, above), WAITS + remedy)


def test_the_mode_is_set_above_the_loop() -> None:
    body = "optimizer.zero_grad()\nloss = net(x).mean()\nloss.backward()"
    switch = "# They are trained.\nnet.train()"
    before = f"{HEAD}{LOOP}{indented(f'{switch}{chr(10)}{body}')}"

    check_rewrites(ConstHoist, before, f"{HEAD}{switch}\n{LOOP}{indented(body)}")


def test_a_mode_that_an_iteration_changes_is_set_in_each() -> None:
    body = "net.train()\nloss = net(x).mean()\nloss.backward()\nif i > 3:\n    net.eval()\n    print(net(x))"

    check_silent(ConstHoist, f"{HEAD}{LOOP}{indented(body)}")


def test_a_module_that_each_pass_makes_is_left() -> None:
    code = """\
import torch
from torch import nn


class Range(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.values = torch.Tensor(list(range(size))).cuda()

    def forward(self, x):
        return (x * self.values).sum(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return Range(4)(self.fc(x))


model = Net().cuda()
for x in torch.randn(10, 8, 4):
    model(x.cuda()).mean().backward()
"""
    because = (
        "each forward pass makes an object of class Range, which copies a constant to the device (line 8):"
        " make it once, in the constructor"
    )

    check_leaves(ConstHoist, code, because)


def test_a_table_that_each_call_copies_is_left() -> None:
    code = """\
import numpy as np
import torch
from torch import nn


def extract(table, t):
    return torch.from_numpy(table).to(t.device)[t]


class Diffusion:
    def __init__(self, betas):
        self.roots = np.sqrt(np.cumprod(betas))

    def loss(self, model, x, t):
        return (model(extract(self.roots, t).float() * x) - x).pow(2).mean()


model = nn.Linear(4, 4).cuda()
diffusion = Diffusion(np.linspace(0.1, 0.2, 10))
for x in torch.randn(10, 8, 4):
    t = torch.randint(10, (8, 1), device="cuda")
    diffusion.loss(model, x.cuda(), t).backward()
"""
    because = (
        "each call copies 'table', such as 'self.roots', unless the constructor made that on the device (line 12):"
        " make a tensor of it there, on the device"
    )

    check_leaves(ConstHoist, code, because)


def test_an_index_that_each_pass_counts_is_left() -> None:
    code = """\
import torch
from torch import nn


class Pairs(nn.Module):
    def forward(self, x):
        rows = torch.tensor([i for i in range(x.size(1)) for j in range(i)])
        return x[:, rows]


model = Pairs()
for x in torch.randn(10, 8, 4):
    model(x.cuda()).mean().backward()
"""
    because = (
        "Python counts the index 'rows' anew each time, and it is copied to where 'x' is (line 8):"
        " keep it on the device of 'x' as long as its length is the same"
    )

    check_leaves(ConstHoist, code, because)
