"""What ``no-grad-eval`` makes of code that trains or evaluates as a name says."""

from __future__ import annotations

import pytest
from kit import check_leaves, check_rewrites, check_silent

from codemods.rules.no_grad_eval import NoGradEval
from tests.training import run_script

HEAD = """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 4))
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
data = {"train": torch.randn(3, 8, 4), "val": torch.randn(2, 8, 4)}
"""
N = HEAD.count("\n")
STEP = """\
optimizer.zero_grad()
out = model(x)
loss = criterion(out, x)
if phase == "train":
    loss.backward()
    optimizer.step()
print(loss.item().hex())"""
COMPUTED = "out = model(x)\nloss = criterion(out, x)\n"


def phases(body: str, *, over: str = '["train", "val"]', before: str = "", after: str = "", above: str = "") -> str:
    """A script whose inner loop is in line N + 8, where nothing stands before and above."""
    indented = "".join(f"            {line}\n" for line in body.splitlines())
    return (
        f'{HEAD}{above}for epoch in range(2):\n    for phase in {over}:\n        if phase == "train":\n'
        "            model.train()\n        else:\n            model.eval()\n"
        f"{before}        for x in data[phase]:\n{indented}{after}"
    )


def function(body: str, parameter: str, calls: str) -> str:
    """A script with a function that is called twice in each epoch; its loop is in line N + 2."""
    indented = "".join(f"        {line}\n" for line in body.splitlines())
    return f'{HEAD}def run({parameter}):\n    for x in data["train"]:\n{indented}\n\nfor epoch in range(2):\n{calls}'


def wrapped(code: str, test: str) -> str:
    """The script with a block around what computes the loss."""
    lines = code.splitlines(keepends=True)
    first = next(at for at, line in enumerate(lines) if line.lstrip().startswith("out = model(x)"))
    indent = lines[first][: -len(lines[first].lstrip())]
    inner = "".join(f"    {line}" for line in lines[first : first + 2])
    return "".join([*lines[:first], f"{indent}with torch.set_grad_enabled({test}):\n{inner}", *lines[first + 2 :]])


TRAIN = "optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\nprint(loss.item().hex())"
CHOSEN = {
    "a loop over phases": (phases(STEP), 'phase == "train"'),
    "phases that have a name": (phases(STEP, over="names", above='names = ("train", "val")\n'), 'phase == "train"'),
    "the keys of a dictionary": (phases(STEP, over="data"), 'phase == "train"'),
    "all but one phase": (phases(STEP.replace('== "train"', '!= "val"')), 'phase != "val"'),
    "training in two places": (
        phases(STEP.replace("    optimizer.step()", 'if phase == "train":\n    optimizer.step()')),
        'phase == "train"',
    ),
    "losses are kept as numbers": (
        phases(f"{STEP}\nlosses.append(loss.item())", above="losses = []\n", after="print(sum(losses).hex())\n"),
        'phase == "train"',
    ),
    "a loop over flags": (
        phases(STEP.replace('phase == "train"', "training"))
        .replace('for phase in ["train", "val"]', "for training in (True, False)")
        .replace('if phase == "train"', "if training")
        .replace("data[phase]", 'data["train"]'),
        "training",
    ),
    "a phase as a parameter": (
        function(f'{COMPUTED}if phase == "train":\n    {TRAIN}', "phase", '    run("train")\n    run("val")\n'),
        'phase == "train"',
    ),
    "an optimizer, or none": (
        function(
            f"{COMPUTED}if optimizer is not None:\n    {TRAIN}", "optimizer=None", "    run(optimizer)\n    run()\n"
        ),
        "optimizer is not None",
    ),
    "a name for the condition": (
        phases(STEP.replace('phase == "train"', "training"), before='        training = phase == "train"\n'),
        "training",
    ),
    "a name for it in a function": (
        function(f"{COMPUTED}if is_train:\n    {TRAIN}", "optimizer=None", "    run(optimizer)\n    run()\n").replace(
            "    for x in", "    is_train = optimizer is not None\n    for x in", 1
        ),
        "is_train",
    ),
    "a flag that says the contrary": (
        function(f"{COMPUTED}if not test:\n    {TRAIN}", "test=False", "    run()\n    run(test=True)\n"),
        "not test",
    ),
}


@pytest.mark.parametrize("is_late", [False, True])
def test_the_condition_has_to_have_its_name_where_models_compute(*, is_late: bool) -> None:
    named, computed = '    training = phase == "train"\n', "    out = model(x)\n    loss = criterion(out, x)\n"
    body = computed + named if is_late else named + computed
    step = "    if training:\n        loss.backward()\n        optimizer.step()\n    print(loss.item().hex())\n"
    code = (
        f'{HEAD}def run(phase, x):\n{body}{step}\n\nfor x in data["train"]:\n    run("train", x)\n    run("val", x)\n'
    )

    if is_late:
        check_silent(NoGradEval, code)
    else:
        check_rewrites(NoGradEval, code, wrapped(code, "training"))


@pytest.mark.parametrize(("code", "test"), CHOSEN.values(), ids=CHOSEN)
def test_gradients_are_on_where_it_trains(code: str, test: str) -> None:
    new = wrapped(code, test)

    check_rewrites(NoGradEval, code, new)
    assert run_script(new) == run_script(code)


ALSO = "it also trains (line {})"
LATER = "a tensor computed in it may be trained on later (line {})"
SERVES = ": torch.set_grad_enabled(phase == 'train') would serve both"
LEFT = {
    "other phases are not known": (
        phases(STEP, over="PHASES", above="from settings import PHASES\n"),
        ALSO.format(N + 13) + SERVES,
    ),
    "there is one phase": (phases(STEP, over='["train"]'), ALSO.format(N + 12) + SERVES),
    "the phase is another one later": (
        phases(STEP, before='        phase = "train"\n'),
        ALSO.format(N + 13) + SERVES,
    ),
    "it trains under another condition": (
        phases(STEP.replace('"train":', '"train" and epoch:')),
        ALSO.format(N + 12),
    ),
    "each phase has a backward": (
        phases(STEP.replace('if phase == "train":\n    loss', 'loss.backward()\nif phase == "train":\n    loss')),
        ALSO.format(N + 11),
    ),
    "it trains in the other branch": (
        phases(STEP.replace('if phase == "train":', 'if phase == "val":\n    pass\nelse:')),
        ALSO.format(N + 14),
    ),
    "the last loss is differentiated": (phases(STEP, after="loss.backward()\n"), LATER.format(N + 15)),
    "the losses are": (
        phases(f"{STEP}\nlosses.append(loss)", above="losses = []\n", after="sum(losses).backward()\n"),
        LATER.format(N + 17),
    ),
    "the next pass goes on from its result": (
        phases(STEP.replace("model(x)", "model(x + state)\nstate = out"), above="state = 0\n"),
        LATER.format(N + 14),
    ),
    "gradients are needed in each phase": (
        phases(STEP.replace("if phase", "slope = torch.autograd.grad(loss, out, retain_graph=True)\nif phase", 1)),
        f"gradients are needed in it (line {N + 11})",
    ),
    "gradients are needed where it does not train": (
        phases(
            f"{STEP}\nelse:\n    print(torch.autograd.grad(loss, out)[0].sum())".replace(
                "print(loss.item().hex())\n", ""
            )
        ),
        f"gradients are needed in it (line {N + 15})",
    ),
    "gradients are needed under another condition, by a function": (
        phases(
            f'{STEP}\nif phase == "val":\n    slope(loss, out)',
            above="def slope(loss, out):\n    return torch.autograd.grad(loss, out)\n",
        ),
        f"gradients are needed in it (line {N + 2})",
    ),
    "it shares a block of autocast": (
        phases(
            'with torch.autocast("cpu"):\n    out = model(x)\n    loss = criterion(out, x)\n'
            '    if phase == "train":\n        loss.backward()\n'
        ),
        f"it shares an autocast block, which may keep weights without a graph (line {N + 8})",
    ),
    "the loss is returned": (
        function(
            f'{COMPUTED}if phase == "train":\n    {TRAIN}\nreturn loss', "phase", '    run("train")\n    run("val")\n'
        ),
        LATER.format(N + 10),
    ),
}


@pytest.mark.parametrize(("code", "because"), LEFT.values(), ids=LEFT)
def test_it_is_left(code: str, because: str) -> None:
    check_leaves(NoGradEval, code, because)


@pytest.mark.parametrize("switch", ["with torch.set_grad_enabled({}):\n{}", "with torch.no_grad():\n{1}"])
def test_what_switches_gradients_itself_is_right(switch: str) -> None:
    inner = "".join(f"    {line}\n" for line in COMPUTED.splitlines())

    check_silent(NoGradEval, phases(STEP.replace(COMPUTED, switch.format('phase == "train"', inner))))
