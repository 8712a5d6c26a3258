from __future__ import annotations

import pytest
from kit import check_leaves, check_rewrites, check_silent, run

from codemods.rules.loss_history_detach import LossHistoryDetach
from tests.training import run_script

HEAD = """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.MSELoss()
loader = torch.utils.data.DataLoader(torch.randn(12, 4), batch_size=4)
"""
STEP = """\
    optimizer.zero_grad()
    loss = criterion(model(x), torch.ones(len(x), 1))
    loss.backward()
    optimizer.step()
"""
N = HEAD.count("\n")


def loop(before: str, kept: str, after: str) -> str:
    """A script whose loop keeps something of each iteration in line N + 7."""
    return f"{HEAD}{before}\nfor x in loader:\n{STEP}    {kept}\n{after}\n"


def function(after: str) -> str:
    """A script with a function that returns the mean of its losses, in line N + 8."""
    step = "".join(f"    {line}\n" for line in STEP.splitlines())
    return f"{HEAD}def train():\n    total = 0\n    for x in loader:\n{step}        total += loss\n    return total / 3\n\n{after}\n"


REWRITTEN = {
    "a sum": ("total = 0", "total += loss", "total += loss.detach()", "print(f'{total:.9f}')"),
    "a sum from a tensor": (
        "total = torch.zeros(())",
        "total += loss",
        "total += loss.detach()",
        "print(total.item())",
    ),
    "a sum that is assigned": (
        "total = 0.0",
        "total = total + loss",
        "total = total + loss.detach()",
        "print(total.item())",
    ),
    "the tensor of a product": (
        "total = 0.0",
        "total += loss * x.size(0)",
        "total += loss.detach() * x.size(0)",
        "print(total.item())",
    ),
    "what is computed of several tensors": (
        "total = 0.0",
        "total += loss + loss.exp()",
        "total += (loss + loss.exp()).detach()",
        "print(total.item())",
    ),
    "a list": ("losses = []", "losses.append(loss)", "losses.append(loss.detach())", "print(max(losses).item())"),
    "a list of a dictionary": (
        "history = {'train': [], 'val': []}",
        "history['train'].append(loss)",
        "history['train'].append(loss.detach())",
        "print([each.item() for each in history['train']])",
    ),
    "a list of a dictionary that makes them": (
        "from collections import defaultdict\n\nhistory = defaultdict(list)",
        "history['train'].append(loss)",
        "history['train'].append(loss.detach())",
        "print(len(history['train']))",
    ),
    "a list of a dictionary of dictionaries": (
        "history = {phase: {'loss': []} for phase in ('train', 'val')}",
        "history['train']['loss'].append(loss)",
        "history['train']['loss'].append(loss.detach())",
        "print(len(history['train']['loss']))",
    ),
    "a sum of a dictionary": (
        "sums = {'train': 0.0}",
        "sums['train'] += loss",
        "sums['train'] += loss.detach()",
        "print(f'{sums[\"train\"]:.9f}')",
    ),
    "an item for each iteration": (
        "losses = {}",
        "losses[len(losses) + int(x.sum() * 0)] = loss",
        "losses[len(losses) + int(x.sum() * 0)] = loss.detach()",
        "print([each.item() for each in losses.values()])",
    ),
    "a list by +=": ("losses = []", "losses += [loss]", "losses += [loss.detach()]", "print(len(losses))"),
    "a format of numbers alone": (
        "losses = []",
        "losses.append(loss)",
        "losses.append(loss.detach())",
        "print('{:.9f} {:.3f}'.format(sum(losses) / len(losses), losses[-1]))",
    ),
    "a list of numbers of it": (
        "losses = []",
        "losses.append(loss)",
        "losses.append(loss.detach())",
        "print([each.item() for each in losses])",
    ),
    "a function that writes numbers": (
        "def show(value):\n    print(f'{value:.9f}')\n\ntotal = 0",
        "total += loss",
        "total += loss.detach()",
        "show(total)",
    ),
}


@pytest.mark.parametrize(("before", "kept", "detached", "after"), REWRITTEN.values(), ids=REWRITTEN)
def test_what_is_kept_is_detached(before: str, kept: str, detached: str, after: str) -> None:
    old, new = loop(before, kept, after), loop(before, detached, after)

    check_rewrites(LossHistoryDetach, old, new)
    assert run_script(new) == run_script(old)


@pytest.mark.parametrize(
    "switch", ["torch.set_grad_enabled(train)", "torch.enable_grad() if train else torch.no_grad()"]
)
def test_a_sum_of_losses_that_have_graphs_while_it_trains(switch: str) -> None:
    before = (
        f"{HEAD}def run(train):\n    total = 0\n    for x in loader:\n        with {switch}:\n"
        "            loss = criterion(model(x), torch.ones(len(x), 1))\n            total += loss\n"
        "        if train:\n            loss.backward()\n    return total.item()\n\nprint(run(True), run(False))\n"
    )
    check_rewrites(LossHistoryDetach, before, before.replace("total += loss", "total += loss.detach()"))


def test_a_sum_that_is_returned_and_written_as_a_number() -> None:
    text = function("print(f'{train():.9f}')")

    check_rewrites(LossHistoryDetach, text, text.replace("total += loss", "total += loss.detach()"))


def test_a_loss_that_starts_as_a_number_is_a_tensor_after_its_backward() -> None:
    text = (
        f"{HEAD}total = 0\nfor x in loader:\n    loss = 0\n    for _ in range(2):\n        loss += model(x).mean()\n"
        "    loss.backward()\n    total += loss\nprint(f'{total:.9f}')\n"
    )

    check_rewrites(LossHistoryDetach, text, text.replace("total += loss", "total += loss.detach()"))


def test_the_loss_that_a_function_of_each_iteration_returns() -> None:
    step = "".join(f"    {line}\n" for line in STEP.replace("    ", "").splitlines())
    text = f"{HEAD}def train(x):\n{step}    return loss\n\n\ntotal = 0.0\nfor x in loader:\n    total += train(x)\nprint(f'{{total:.9f}}')\n"
    new = text.replace("+= train(x)", "+= train(x).detach()")

    check_rewrites(LossHistoryDetach, text, new)
    assert run_script(new) == run_script(text)


FOUND = "other code may find '{}', and train on what it holds: keep loss.detach() where none does"
METER = """\
class Average:
    def __init__(self):
        self.sum, self.count = 0, 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n


average = Average()"""
SHOWN = "what becomes of '{}' may show whether it has a graph (line {}): use its item() there"
LEFT = {
    "a sum is printed": (loop("total = 0", "total += loss", "print(total)"), SHOWN.format("total", N + 8)),
    "a text is made of it": (
        loop("total = 0", "total += loss", "text = 'loss ' + str(total / 3)"),
        SHOWN.format("total", N + 8),
    ),
    "a text in the old form": (
        loop("total = 0", "total += loss", "print('loss %s' % total)"),
        SHOWN.format("total", N + 8),
    ),
    "a list is written": (
        loop("losses = []", "losses.append(loss)", "print(f'{losses}')"),
        SHOWN.format("losses", N + 8),
    ),
    "an item is printed": (
        loop("losses = []", "losses.append(loss)", "print(losses[-1])"),
        SHOWN.format("losses", N + 8),
    ),
    "a library writes it": (
        loop("from csv import writer\n\ntotal = 0", "total += loss", "writer(print).writerow([total])"),
        SHOWN.format("total", N + 10),
    ),
    "its backward is handed on": (
        loop("total = 0", "total += loss", "again = total.backward"),
        SHOWN.format("total", N + 8),
    ),
    "a text is run": (
        loop("total = 0", "total += loss", "exec('total.backward()')"),
        f"'total' leaves the loop's code, and may be trained on (line {N + 8})",
    ),
    "it is asked": (
        loop("total = 0", "total += loss", "assert total.requires_grad"),
        SHOWN.format("total", N + 8),
    ),
    "it is saved": (
        loop("losses = []", "losses.append(loss)", "torch.save(losses, 'losses.pt')"),
        SHOWN.format("losses", N + 8),
    ),
    "a function prints it": (
        loop("def show(value):\n    print(value)\n\ntotal = 0", "total += loss", "show(total)"),
        SHOWN.format("total", N + 2),
    ),
    "what is returned is printed": (function("print('loss', train())"), SHOWN.format("total", N + 11)),
    "what is returned is printed by a name": (
        function("mean = train()\nprint('loss', mean)"),
        SHOWN.format("total", N + 12),
    ),
    "what is returned may be trained on": (
        function("train().backward()"),
        f"what it returns may be trained on (line {N + 11})",
    ),
    "it may be a number": (
        f"{HEAD}total = 0\nfor i, x in enumerate(loader):\n    loss = 0\n    if i:\n        loss = model(x).mean()\n"
        "        loss.backward()\n    total += loss\n",
        f"whether 'loss' is a tensor is not known (line {N + 7})",
    ),
    "code that is not seen gets it": (
        loop("from shown import show\n\ntotal = 0", "total += loss", "show(total)"),
        f"'total' leaves the loop's code, and may be trained on (line {N + 10})",
    ),
    "a function reads it": (
        loop("losses = []", "losses.append(loss)", "def last():\n    return losses[-1]"),
        f"'losses' leaves the loop's code, and may be trained on (line {N + 9})",
    ),
    "the list has another name": (
        loop("losses = []\nlogs = {'loss': losses}", "losses.append(loss)", "print(logs)"),
        f"'losses' may have another name, or be read before the loop (line {N + 2})",
    ),
    "the list had another name at once": (
        loop("logs = losses = []", "losses.append(loss)", "print(logs)"),
        f"'losses' may have another name (line {N + 1})",
    ),
    "the tensor had another name at once": (
        loop("first = total = torch.zeros(())", "total += loss", "first.backward()"),
        f"'total' may have another name (line {N + 1})",
    ),
    "the list is an item": (
        loop("logs = {'loss': []}\nlosses = logs['loss']", "losses.append(loss)", "print(logs)"),
        f"'losses' may have another name (line {N + 2})",
    ),
    "the list of a dictionary has another name": (
        loop("losses = []\nlogs = {'loss': losses}", "logs['loss'].append(loss)", "print(losses)"),
        f"'logs' may have another name (line {N + 2})",
    ),
    "the list of a dictionary was read before": (
        loop("logs = {'loss': []}\nlosses = logs['loss']", "logs['loss'].append(loss)", "print(losses)"),
        f"'logs' may have another name, or be read before the loop (line {N + 2})",
    ),
    "the dictionary is printed": (
        loop("logs = {'loss': []}", "logs['loss'].append(loss)", "print(logs)"),
        SHOWN.format("logs", N + 8),
    ),
    "an object has the list": (
        loop("model.losses = []", "model.losses.append(loss)", "print(len(model.losses))"),
        FOUND.format("model.losses"),
    ),
    "an object has the sum": (
        loop("model.loss = 0.0", "model.loss += loss", "print(model.loss.item())"),
        FOUND.format("model.loss"),
    ),
    "an object has the sum that is assigned": (
        loop("model.loss = 0.0", "model.loss = model.loss + loss", "print(model.loss.item())"),
        FOUND.format("model.loss"),
    ),
    "an object adds it up": (
        loop(METER, "average.update(loss, len(x))", "print(average.sum.item())"),
        f"'average.update()' keeps the graph, and other code may train on it (line {N + 6}):"
        " keep loss.detach() where none does",
    ),
    "the list is the caller's": (
        f"{HEAD}def train(losses):\n    for x in loader:\n        loss = model(x).mean()\n        loss.backward()\n"
        "        losses.append(loss)\n",
        "'losses' is not of this function alone, and other code may train on it",
    ),
}


@pytest.mark.parametrize(("code", "because"), LEFT.values(), ids=LEFT)
def test_it_is_left(code: str, because: str) -> None:
    check_leaves(LossHistoryDetach, code, because)


SILENT = {
    "it is a number": loop("total = 0", "total += loss.item()", "print(total)"),
    "it was made a number": loop("total = 0", "loss = loss.item(); total += loss", "print(total)"),
    "it is detached": loop("total = 0", "total += loss.detach()", "print(total)"),
    "gradients are off": loop("total = 0", "with torch.no_grad(): total += loss", "print(total)"),
    "it is a part of the loss": (
        f"{HEAD}for x in loader:\n    loss = 0\n    for _ in range(2):\n        loss += model(x).mean()\n    loss.backward()\n"
    ),
    "the sum of several iterations is differentiated": (
        f"{HEAD}total = 0\nfor i, x in enumerate(loader):\n    model(x).mean().backward()\n"
        "    total = total + model(x).mean()\n    if i % 2:\n        total.backward()\n        total = 0\n"
    ),
    "each iteration has a list of its own": (
        f"{HEAD}for x in loader:\n    losses = []\n    losses.append(model(x).mean())\n    losses[0].backward()\n"
    ),
    "an environment returns a reward, and a function trains": (
        f"{HEAD}import gym\n\nenv = gym.make('CartPole-v1')\n\n\ndef train():\n    model(next(iter(loader))).mean().backward()\n\n\n"
        "state, total = env.reset(), 0\nfor _ in range(9):\n    state, reward = env.step(model(state))\n    total += reward\n    train()\n"
    ),
    "a function returns the number beside the output": (
        f"{HEAD}def train(x):\n    output = model(x)\n    loss = output.mean()\n    loss.backward()\n"
        "    return output, loss.item()\n\n\ntotal = 0\nfor x in loader:\n    output, loss = train(x)\n    total += loss\n"
    ),
    "a function returns it detached beside the output": (
        f"{HEAD}def train(x):\n    output = model(x)\n    loss = output.mean()\n    loss.backward()\n"
        "    return output, loss.detach()\n\n\ntotal = 0\nfor x in loader:\n    output, loss = train(x)\n    total += loss\n"
    ),
    "an object keeps a number": loop("model.losses = []", "model.losses.append(loss.item())", ""),
    "an object adds up numbers": loop(METER, "average.update(loss.item())", "print(average.sum)"),
    "an item is the last one": loop("last = {}", "last['loss'] = loss", "print(last)"),
    "each iteration has an object's list of its own": loop(
        "model.losses = []", "model.losses = []; model.losses.append(loss)", "print(model.losses)"
    ),
    "an object's list is differentiated": loop(
        "model.losses = []", "model.losses.append(model(x).mean())", "total = sum(model.losses)\ntotal.backward()"
    ),
    "an object's list is differentiated item by item": loop(
        "model.losses = []",
        "model.losses.append(model(x).mean())",
        "parts = []\nfor each in model.losses:\n    parts.append(each)\ntorch.stack(parts).sum().backward()",
    ),
    "what a function returns of an object's list is differentiated": loop(
        "def summed():\n    return sum(model.losses)\n\nmodel.losses = []",
        "model.losses.append(model(x).mean())",
        "summed().backward()",
    ),
    "what another attribute holds of it is differentiated": loop(
        "model.losses = []",
        "model.losses.append(model(x).mean())",
        "model.total = sum(model.losses)\nmodel.total.backward()",
    ),
    "an array has numbers": loop("import numpy\n\nlosses = numpy.zeros(3)", "losses[len(x) - 4] = loss", ""),
    "what an object adds up is differentiated": loop(
        METER, "average.update(model(x).mean())", "average.sum.backward()"
    ),
    "nothing is trained": f"{HEAD}total = 0\nfor x in loader:\n    total += model(x).mean()\nprint(total)\n",
}


@pytest.mark.parametrize("code", SILENT.values(), ids=SILENT)
def test_it_is_not_mentioned(code: str) -> None:
    check_silent(LossHistoryDetach, code)


def test_the_losses_and_the_sum_are_the_same_bits() -> None:
    text = loop("total = 0", "total += loss\n    print(loss.item().hex())", "print(total.item().hex())")
    result = run(LossHistoryDetach, text)

    assert "total += loss.detach()" in result.after
    assert run_script(result.after) == run_script(text)
