"""What ``no-grad-eval`` makes of networks that compute targets within training: teachers, target networks, momentum encoders."""

from __future__ import annotations

import re
from textwrap import indent

import pytest
from kit import check_leaves, check_rewrites, check_silent, run

from codemods.codemod import UNMEASURED, Promise
from codemods.rules.no_grad_eval import NoGradEval
from tests.training import run_script

HEAD = """\
import copy
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
"""
INSIDE = """\


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.online = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5))
        self.target = copy.deepcopy(self.online)
        self.predict = nn.Linear(8, 8)

    def forward(self, one, other):
        predicted = self.predict(self.online(one))
        goal = self.target(other)
        return F.mse_loss(predicted, goal.detach())


model = Pair()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    images = torch.randn(8, 4)
    loss = model(images, images + 0.1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
"""
GOAL = "        goal = self.target(other)\n"


def without_gradients(code: str, *lines: str) -> str:
    """The code with neighbouring lines under ``torch.no_grad()``."""
    block = "".join(lines)
    indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
    wrapped = f"{indent}with torch.no_grad():\n" + "".join(f"    {each}" for each in lines)
    assert block in code
    return code.replace(block, wrapped)


def check_trains_alike(before: str, after: str) -> None:
    """The rule makes this of it, which prints the same losses to the last bit."""
    check_rewrites(NoGradEval, before, after)
    assert run_script(before) == run_script(after)


# Inside of a model's own methods.


def test_a_model_computes_the_target_of_its_own_loss_without_gradients() -> None:
    check_trains_alike(HEAD + INSIDE, without_gradients(HEAD + INSIDE, GOAL))


def test_a_correction_that_is_passed_straight_through() -> None:
    code = HEAD + INSIDE.replace(
        "        return F.mse_loss(predicted, goal.detach())",
        "        return F.mse_loss(predicted + (goal - predicted).detach(), torch.zeros(8, 8))",
    )

    check_trains_alike(code, without_gradients(code, GOAL))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("goal.detach()", "goal", id="a target with its graph"),
        pytest.param("goal.detach())", "goal.detach()) + goal.mean()", id="one that is also trained"),
        pytest.param(GOAL, f"{GOAL}        self.goal = goal\n", id="one that the model keeps"),
        pytest.param("return F", "return goal, F", id="one that it returns"),
    ],
)
def test_a_target_whose_graph_is_used_is_no_site(old: str, new: str) -> None:
    check_silent(NoGradEval, HEAD + INSIDE.replace(old, new))


def test_a_layer_that_keeps_what_it_computes_is_left() -> None:
    keeps = """\


class Last(nn.Linear):
    def forward(self, x):
        self.last = super().forward(x)
        return self.last
"""
    code = (
        HEAD
        + keeps
        + INSIDE.replace("copy.deepcopy(self.online)", "Last(4, 8)").replace(
            "goal.detach())", "goal.detach()) + self.target.last.mean()"
        )
    )

    check_leaves(NoGradEval, code, "the model's forward keeps a tensor that is read elsewhere (line 11)")


def test_autocast_around_the_call_of_the_model_may_keep_weights_without_a_graph() -> None:
    code = HEAD + INSIDE.replace(
        "    loss = model(images, images + 0.1)\n",
        '    with torch.autocast("cpu", dtype=torch.bfloat16):\n        loss = model(images, images + 0.1)\n',
    )

    check_leaves(NoGradEval, code, "it shares an autocast block, which may keep weights without a graph (line 26)")


def test_a_model_that_becomes_torchscript_is_left() -> None:
    code = HEAD + INSIDE.replace("model = Pair()", "model = torch.jit.script(Pair())")

    check_leaves(NoGradEval, code, "the model may be compiled to TorchScript, which knows few `with` blocks")


# Models that no optimizer steps.

NET = """\


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.hidden = nn.Linear(8, width)
        self.norm = nn.BatchNorm1d(width)
        self.drop = nn.Dropout(0.3)
        self.out = nn.Linear(width, 4)

    def forward(self, x):
        return self.out(self.drop(F.relu(self.norm(self.hidden(x)))))


"""
TAUGHT = f"""\
{HEAD}{NET}teacher = Net(32)
student = Net(8)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for step in range(4):
    x, y = torch.randn(16, 8), torch.randint(0, 4, (16,))
    logits = student(x)
    soft = teacher(x)
    loss = F.cross_entropy(logits, y) + F.mse_loss(logits, soft)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
"""
SOFT = "    soft = teacher(x)\n"
MAKE, BEFORE_LOSS, SHOW = "optimizer =", "    loss =", "    print(loss"


def taught(*changes: tuple[str, str]) -> str:
    """The script of teacher and student with some changes."""
    code = TAUGHT
    for old, new in changes:
        assert old in code
        code = code.replace(old, new)
    return code


TARGETS = {
    "a teacher that is not detached": (),
    "its probabilities": ((SOFT, "    soft = F.softmax(teacher(x) / 4, dim=1)\n"),),
    "several lines": ((SOFT, "    soft = teacher(\n        x\n    )  # of the teacher\n"),),
    "under a condition": ((SOFT, f"    if step < 9:\n    {SOFT}"),),
    "its method": (("teacher(x)", "teacher.forward(x)"),),
    "the student's gradients are clipped": (
        ("    optimizer.step()", "    nn.utils.clip_grad_norm_(student.parameters(), 1)\n    optimizer.step()"),
    ),
    "the student's gradients are shown": ((SHOW, "    print(student.out.weight.grad.norm())\n    print(loss"),),
    "losses in a list": (
        ("    loss = F.cross_entropy(logits, y) + F.mse_loss(logits, soft)\n", ""),
        (
            "    optimizer.zero_grad()",
            "    losses = []\n    losses.append(F.cross_entropy(logits, y))\n"
            "    losses.append(F.mse_loss(logits, soft))\n    loss = sum(losses)\n    optimizer.zero_grad()",
        ),
    ),
    "a loss that is not always there": (("F.mse_loss(logits, soft)", "(F.mse_loss(logits, soft) if step % 2 else 0)"),),
    "projected by what is trained": (
        (MAKE, "project = nn.Linear(4, 4)\noptimizer ="),
        ("(student.parameters(), lr", "([*student.parameters(), *project.parameters()], lr"),
        ("logits, soft)", "logits, project(soft))"),
    ),
    "an item of a dictionary": (
        (SOFT, '    softs = {}\n    softs["x"] = teacher(x)\n'),
        ("logits, soft)", 'logits, softs["x"])'),
    ),
    "an attribute": ((SOFT, "    student.soft = teacher(x)\n"), ("logits, soft)", "logits, student.soft)")),
    "layers that it is made of": (("teacher = Net(32)", "teacher = nn.Sequential(nn.Linear(8, 4), nn.ReLU())"),),
    "a checkpoint of the other kind": (
        ("import copy\n", "from torch.utils.checkpoint import checkpoint\n"),
        (MAKE, "head = nn.Linear(4, 4)\noptimizer ="),
        ("(student.parameters(), lr", "([*student.parameters(), *head.parameters()], lr"),
        ("logits, soft)", "logits, checkpoint(head, soft, use_reentrant=False))"),
    ),
    "several of them": (
        ("teacher = Net(32)", "teachers = [Net(16) for _ in range(3)]"),
        (SOFT, "    soft = sum(each(x) for each in teachers) / 3\n"),
    ),
    "autocast": (
        (
            "    logits = student(x)\n",
            '    with torch.autocast("cpu", dtype=torch.bfloat16):\n        logits = student(x)\n',
        ),
        (SOFT, f"    {SOFT}"),
    ),
}


@pytest.mark.parametrize("changes", TARGETS.values(), ids=list(TARGETS))
def test_a_model_that_no_optimizer_steps_computes_without_gradients(changes: tuple[tuple[str, str], ...]) -> None:
    code = taught(*changes)
    lines = code.splitlines(keepends=True)
    start = next(at for at, each in enumerate(lines) if re.match(r" +(student\.)?softs?(\[.*\])? = .*teacher", each))
    count = 3 if lines[start].endswith("(\n") else 1

    check_trains_alike(code, without_gradients(code, *lines[start : start + count]))


def test_a_closure_returns_the_loss_that_it_has_differentiated() -> None:
    start = TAUGHT.index("    logits =")
    body = TAUGHT[start : TAUGHT.index("    optimizer.step()")]
    code = f"{TAUGHT[:start]}    def closure():\n{indent(body, '    ')}        return loss\n\n    optimizer.step(closure)\n"
    code = code.replace("torch.optim.SGD", "torch.optim.LBFGS")

    check_trains_alike(code, without_gradients(code, f"    {SOFT}"))


def test_its_message_names_what_is_spared() -> None:
    (site,) = run(NoGradEval, TAUGHT).sites

    assert site.message == "a backward pass would only compute gradients of a model that no optimizer steps"
    assert site.gain == UNMEASURED  # what is known of the gain is of evaluation


COPIED = ("teacher = Net(32)\nstudent = Net(8)", "student = Net(8)\nteacher = copy.deepcopy(student)")
AVERAGES = "    for p, q in zip(student.parameters(), teacher.parameters()):\n        q.data.lerp_(p.data, 0.1)\n"
COPIES = {
    "a copy of the student": (),
    "the student is the copy": (
        ("student = Net(8)\nteacher = copy.deepcopy(student)", "teacher = Net(8)\nstudent = copy.deepcopy(teacher)"),
    ),
    "that averages its weights": ((SHOW, f"{AVERAGES}{SHOW}"),),
    "gradients of the student are clipped and shown": (
        (
            "    optimizer.step()",
            "    nn.utils.clip_grad_norm_(student.parameters(), 1)\n"
            "    for p in student.parameters():\n        print(p.grad.norm())\n    optimizer.step()",
        ),
    ),
    "that is made anew": ((SHOW, f"    if step == 2:\n        teacher = copy.deepcopy(student)\n{SHOW}"),),
}


@pytest.mark.parametrize("changes", COPIES.values(), ids=list(COPIES))
def test_a_copy_that_no_optimizer_steps_computes_without_gradients(changes: tuple[tuple[str, str], ...]) -> None:
    code = taught(COPIED, *changes)

    check_trains_alike(code, without_gradients(code, SOFT))


NO_TEACHERS = {
    "another copy is stepped": (
        ("student = Net(8)\n", "base = Net(8)\nstudent = copy.deepcopy(base)\n"),
        ("copy.deepcopy(student)", "copy.deepcopy(base)"),
    ),
    "both are": (("(student.parameters(), lr", "([*student.parameters(), *teacher.parameters()], lr"),),
    "in a loop over both": (
        ("(student.parameters(), lr", "([p for net in (student, teacher) for p in net.parameters()], lr"),
    ),
    "it takes the place of the student": ((SHOW, f"    student, teacher = teacher, student\n{SHOW}"),),
    "it is the student itself at times": ((SHOW, f"    if step == 2:\n        teacher = student\n{SHOW}"),),
    "a copy that is not deep": (("copy.deepcopy", "copy.copy"),),
}


@pytest.mark.parametrize("changes", NO_TEACHERS.values(), ids=list(NO_TEACHERS))
def test_a_copy_that_may_be_stepped_is_no_site(changes: tuple[tuple[str, str], ...]) -> None:
    check_silent(NoGradEval, taught(COPIED, *changes))


READ = "no optimizer steps the model, but its gradients may be read"
OTHERWISE = "no optimizer steps the model, but it may be differentiated otherwise"
GIVEN = "no optimizer steps the model, but what it is given to may ask for its gradients"
PART = "no optimizer steps the model, but a part of it may be one of another model, too"
CHANGED = "no optimizer steps the model, but what it computes may be changed in place"
ALONE = "no optimizer steps the model, and what is differentiated may depend on nothing else"
TOO = (
    "no optimizer steps the model that it calls, but it computes what is trained on, too: compute it in a statement of "
    "its own, under torch.no_grad()"
)
CALLS = "    optimizer.step()"
HEAD_IN_PLACE = """\
class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        x *= self.scale
        return x


head = Head()
"""
LEFT = {
    "its gradients are shown": (READ, ((SHOW, "    print(teacher.out.weight.grad.norm())\n    print(loss"),)),
    "by the name of the attribute": (
        READ,
        ((SHOW, '    print(getattr(teacher.out.weight, "grad").norm())\n    print(loss'),),
    ),
    "it is updated by hand": (
        READ,
        (
            (
                CALLS,
                f"{CALLS}\n    for p in teacher.parameters():\n        p.data -= 0.1 * p.grad\n        p.grad = None",
            ),
        ),
    ),
    "they are zeroed by hand": (
        READ,
        ((CALLS, f"{CALLS}\n    for p in teacher.parameters():\n        p.grad.zero_()"),),
    ),
    "a hook on its gradients": (
        READ,
        ((MAKE, 'teacher.register_full_backward_hook(lambda *_: print("hook"))\noptimizer ='),),
    ),
    "they are clipped": (GIVEN, ((CALLS, f"    print(nn.utils.clip_grad_norm_(teacher.parameters(), 1))\n{CALLS}"),)),
    "an optimizer of another library": (
        GIVEN,
        (
            ("import copy\n", "import copy\nimport lion\n"),
            (MAKE, "other = lion.Lion(teacher.parameters())\noptimizer ="),
        ),
    ),
    "a tracker of gradients": (
        GIVEN,
        (("import copy\n", "import copy\nimport wandb\n"), (MAKE, "wandb.watch(teacher)\noptimizer =")),
    ),
    "a shared layer": (PART, ((MAKE, "student.hidden = teacher.hidden\noptimizer ="),)),
    "a tied weight": (PART, ((MAKE, "student.out.weight = teacher.out.weight\noptimizer ="),)),
    "a layer that another model is made with": (
        PART,
        ((MAKE, "head = nn.Sequential(teacher.out, nn.ReLU())\noptimizer ="),),
    ),
    "in place by what is trained": (CHANGED, ((BEFORE_LOSS, "    soft += 0.1 * logits\n    loss ="),)),
    "a part of it in place": (CHANGED, ((BEFORE_LOSS, "    soft[:4] = logits[:4]\n    loss ="),)),
    "a view of it in place": (CHANGED, ((BEFORE_LOSS, "    rows = soft[:4]\n    rows.add_(logits[:4])\n    loss ="),)),
    "its graph is asked for": (
        "gradients are needed in it",
        ((BEFORE_LOSS, "    assert soft.requires_grad\n    loss ="),),
    ),
    "another derivative": (
        OTHERWISE,
        ((CALLS, f"{CALLS}\n    print(torch.autograd.grad(teacher(x).sum(), teacher.out.weight)[0].norm())"),),
    ),
    "one loss without the student": (
        ALONE,
        (
            (
                "    loss = F.cross_entropy(logits, y) + F.mse_loss(logits, soft)\n",
                "    if step < 2:\n        loss = F.cross_entropy(soft, y)\n"
                "    else:\n        loss = F.mse_loss(logits, soft)\n",
            ),
        ),
    ),
    "a copy whose gradients are handed to the student": (
        READ,
        (
            COPIED,
            (
                CALLS,
                "    for p, q in zip(student.parameters(), teacher.parameters()):\n"
                f"        p.grad = p.grad + q.grad\n{CALLS}",
            ),
        ),
    ),
    "a copy alone at times": (
        ALONE,
        (COPIED, ("F.cross_entropy(logits, y) + F", "F.mse_loss(soft, x[:, :4]) if step < 2 else F")),
    ),
    "one of two losses without the student": (
        ALONE,
        (
            (BEFORE_LOSS, "    other = F.cross_entropy(soft, y)\n    loss ="),
            ("loss.backward()", "torch.autograd.backward([loss, other])"),
        ),
    ),
    "a list of losses": (
        ALONE,
        (("loss.backward()", "both = [loss, F.cross_entropy(soft, y)]\n    torch.autograd.backward(both)"),),
    ),
    "a student that is frozen at first": (
        ALONE,
        (("    logits =", "    for p in student.parameters():\n        p.requires_grad = step > 1\n    logits ="),),
    ),
    "a checkpoint that needs gradients to hand on any": (
        "no optimizer steps the model, but a checkpoint may have to be given gradients",
        (
            ("import copy\n", "from torch.utils.checkpoint import checkpoint\n"),
            (MAKE, "head = nn.Linear(4, 4)\noptimizer ="),
            ("(student.parameters(), lr", "([*student.parameters(), *head.parameters()], lr"),
            ("logits, soft)", "logits, checkpoint(head, soft))"),
        ),
    ),
    "in place by a model that is trained": (
        CHANGED,
        (
            (MAKE, f"{HEAD_IN_PLACE}optimizer ="),
            ("(student.parameters(), lr", "([*student.parameters(), *head.parameters()], lr"),
            ("logits, soft)", "logits, head(soft))"),
        ),
    ),
    "a global name": (
        "it keeps a tensor for later",
        (
            (SOFT, "    soften(x)\n"),
            (MAKE, "soft = None\n\n\ndef soften(x):\n    global soft\n    soft = teacher(x)\n\n\noptimizer ="),
        ),
    ),
    "an attribute that is changed in place": (
        "it keeps a tensor for later",
        (
            (SOFT, "    student.soft = teacher(x)\n    student.soft += logits\n"),
            ("logits, soft)", "logits, student.soft)"),
        ),
    ),
    "one statement for both": (TOO, ((SOFT, ""), ("logits, soft)", "logits, teacher(x))"))),
    "a tuple of both": (
        TOO,
        (("    logits = student(x)\n", ""), (SOFT, "    logits, soft = student(x), teacher(x)\n")),
    ),
    "projected at once": (
        TOO,
        (
            (MAKE, "project = nn.Linear(4, 4)\noptimizer ="),
            ("(student.parameters(), lr", "([*student.parameters(), *project.parameters()], lr"),
            (SOFT, "    soft = project(teacher(x))\n"),
        ),
    ),
    "several processes": (
        "no optimizer steps the model, but its gradients are exchanged with other processes",
        ((MAKE, "teacher = nn.parallel.DistributedDataParallel(teacher)\noptimizer ="),),
    ),
    "compiled for CUDA graphs": (
        "no optimizer steps the model, but it is compiled in a mode that may overwrite what it computed",
        ((MAKE, 'teacher = torch.compile(teacher, mode="reduce-overhead")\noptimizer ='),),
    ),
    "kept for later": ("it keeps a tensor for later", ((BEFORE_LOSS, "    student.last = soft\n    loss ="),)),
    "a forward hook": (
        "a forward hook may keep tensors for later",
        ((MAKE, "teacher.out.register_forward_hook(lambda *_: None)\noptimizer ="),),
    ),
    "an input that is told to have gradients": (
        "no optimizer steps the model, but what it is given may ask for gradients",
        ((SOFT, f"    x.requires_grad_()\n{SOFT}"),),
    ),
    "an input into which what is trained is written": (
        "no optimizer steps the model, but what it is given may have been computed by one",
        (
            ("for step", "def soften(x, y):\n    x[:, :4] = y\n    soft = teacher(x)\n    return soft\n\n\nfor step"),
            ("    soft = teacher(x)\n    loss", "    soft = soften(x * 2, logits)\n    loss"),
        ),
    ),
    "by another name": (
        "no optimizer steps the model, but what it is given may have been computed by one",
        (
            (
                "for step",
                "def soften(x, y):\n    part = x[:, :4]\n    part.add_(y)\n"
                "    soft = teacher(x)\n    return soft\n\n\nfor step",
            ),
            ("    soft = teacher(x)\n    loss", "    soft = soften(x * 2, logits)\n    loss"),
        ),
    ),
    "an input from elsewhere": (
        "no optimizer steps the model, but what it is given may have been computed by one",
        (("import copy\n", "import copy\nimport other\n"), (SOFT, "    soft = teacher(other.noise(x))\n")),
    ),
}


@pytest.mark.parametrize(("because", "changes"), LEFT.values(), ids=list(LEFT))
def test_what_would_see_it_is_named(because: str, changes: tuple[tuple[str, str], ...]) -> None:
    code = taught(*changes)
    found = run(NoGradEval, code)

    assert found.after == code
    assert {re.sub(r" \(line \d+\)(: (put|give) .*)?$", "", each.message) for each in found.sites} == {because}


SILENT = {
    "one optimizer for both": (("(student.parameters(), lr", "([*student.parameters(), *teacher.parameters()], lr"),),
    "added to the optimizer": (("for step", 'optimizer.add_param_group({"params": teacher.parameters()})\nfor step'),),
    "an optimizer of its own": ((MAKE, "other = torch.optim.SGD(teacher.parameters(), lr=0.1)\noptimizer ="),),
    "its parameters by a comprehension": (
        ("(student.parameters(), lr", "([p for net in (student, teacher) for p in net.parameters()], lr"),
    ),
    "the same object": (("teacher = Net(32)\nstudent = Net(8)", "teacher = student = Net(8)"),),
    "made by one call of a function": (
        (
            "teacher = Net(32)\nstudent = Net(8)",
            "def make():\n    return Net(8)\n\n\nteacher, student = make(), make()",
        ),
    ),
    "of what the student computes": (("teacher(x)", "teacher(x + logits.mean())"),),
    "of what is learned": (
        (MAKE, "prompt = nn.Parameter(torch.zeros(8))\noptimizer ="),
        ("(student.parameters(), lr", "([*student.parameters(), prompt], lr"),
        ("teacher(x)", "teacher(x + prompt)"),
    ),
    "frozen": ((MAKE, "for p in teacher.parameters():\n    p.requires_grad = False\noptimizer ="),),
    "frozen at once": ((MAKE, "teacher.requires_grad_(False)\noptimizer ="),),
    "differentiated by itself": ((CALLS, f"{CALLS}\n    teacher(x).sum().backward()"),),
    "an optimizer that is not known": (
        ("import copy\n", "import copy\nimport lion\n"),
        ("torch.optim.SGD(student", "lion.Lion(student"),
    ),
}


@pytest.mark.parametrize("changes", SILENT.values(), ids=list(SILENT))
def test_a_model_that_may_be_trained_or_has_no_graph_is_no_site(changes: tuple[tuple[str, str], ...]) -> None:
    check_silent(NoGradEval, taught(*changes))


PERCEPTUAL = f"""\
{HEAD}{NET}class Perceptual(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = Net(16)

    def forward(self, output, target):
        ours = self.features(output)
        theirs = self.features(target)
        return F.mse_loss(ours, theirs)


net, criterion = nn.Linear(8, 8), Perceptual()
optimizer = torch.optim.Adam(net.parameters())
for _ in range(3):
    x = torch.randn(16, 8)
    loss = criterion(net(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
"""
THEIRS = "        theirs = self.features(target)\n"


def test_a_loss_of_features_needs_no_graph_of_the_target() -> None:
    check_trains_alike(PERCEPTUAL, without_gradients(PERCEPTUAL, THEIRS))


def test_a_loss_of_features_that_is_given_both_ways_around_needs_both() -> None:
    check_silent(NoGradEval, PERCEPTUAL.replace("criterion(net(x), x)", "criterion(net(x), x) + criterion(x, net(x))"))


DISTILLED = f"""\
{HEAD}{NET}class Distilled(nn.Module):
    def __init__(self, teacher, student):
        super().__init__()
        self.teacher, self.student = teacher, student

    def forward(self, x):
        logits = self.student(x)
        soft = self.teacher(x)
        return F.mse_loss(logits, soft)


model = Distilled(Net(16), Net(8))
optimizer = torch.optim.Adam(model.student.parameters())
for _ in range(3):
    loss = model(torch.randn(16, 8))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
"""


def test_a_teacher_inside_of_a_model_computes_without_gradients() -> None:
    check_trains_alike(DISTILLED, without_gradients(DISTILLED, "        soft = self.teacher(x)\n"))


def test_a_teacher_whose_model_is_stepped_as_a_whole_is_no_site() -> None:
    check_silent(NoGradEval, DISTILLED.replace("model.student.parameters()", "model.parameters()"))


LEARNED = f"""\
{HEAD}{NET}policy, target = Net(16), Net(16)
target.load_state_dict(policy.state_dict())
optimizer = torch.optim.Adam(policy.parameters())
for step in range(6):
    state, later, reward = torch.randn(16, 8), torch.randn(16, 8), torch.randn(16)
    value = policy(state).gather(1, torch.randint(0, 4, (16, 1))).squeeze(1)
    best = policy(later).argmax(1, keepdim=True)
    goal = target(later).gather(1, best).squeeze(1)
    loss = F.smooth_l1_loss(value, reward + 0.99 * goal)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 3 == 0:
        target.load_state_dict(policy.state_dict())
    print(loss.item().hex())
"""


def test_one_block_serves_neighbours() -> None:
    goals = [each for each in LEARNED.splitlines(keepends=True) if "best =" in each or "goal =" in each]

    check_trains_alike(LEARNED, without_gradients(LEARNED, *goals))


@pytest.mark.parametrize(
    ("made", "promise"),
    [
        pytest.param("Net(32)", Promise.BITWISE, id="convolutions and the like"),
        pytest.param("torch.compile(Net(32))", Promise.PRECISION, id="another graph is compiled"),
        pytest.param("nn.Sequential(nn.TransformerEncoderLayer(8, 2), Net(4))", Promise.PRECISION, id="a fused path"),
    ],
)
def test_promises_what_the_layers_of_a_teacher_keep(made: str, promise: Promise) -> None:
    (site,) = run(NoGradEval, taught(("teacher = Net(32)", f"teacher = {made}"))).sites

    assert site.promise is promise


def test_what_runs_once_is_no_site() -> None:
    lines = TAUGHT.splitlines(keepends=True)
    start = next(at for at, each in enumerate(lines) if each.startswith("for step"))

    check_silent(NoGradEval, "".join((*lines[:start], *(each.removeprefix("    ") for each in lines[start + 1 :]))))


def test_a_function_that_is_called_once_gains_nothing() -> None:
    start = TAUGHT.index("for step")
    body = TAUGHT[start:].replace("for step in range(4):\n", "def train():\n")
    code = f"{TAUGHT[:start]}{body}\n\ntrain()\n"

    check_leaves(NoGradEval, code, "it computes a graph that nobody asks for, but only once")


QUEUE = f"""\
{HEAD}
class Keys(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 4)
        self.register_buffer("queue", torch.zeros(16, 4))

    def forward(self, x):
        keys = self.net(x)
        self.queue = torch.cat([self.queue[len(keys) :], keys.detach()])
        return keys @ self.queue.T


model = Keys()
optimizer = torch.optim.Adam(model.parameters())


def evaluate(batches):
    return sum(model(x).mean().item() for x in batches)


for _ in range(2):
    for x in torch.randn(3, 8, 8):
        loss = F.cross_entropy(model(x), torch.zeros(8, dtype=torch.long))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item().hex(), evaluate(torch.randn(2, 8, 8)))
"""


def test_a_model_that_keeps_what_it_has_detached_is_evaluated_without_gradients() -> None:
    check_trains_alike(QUEUE, QUEUE.replace("def evaluate", "@torch.no_grad()\ndef evaluate"))


def test_a_model_that_keeps_what_it_computes_is_left() -> None:
    because = "the model keeps self.queue from one call to the next (line 16)"

    check_leaves(NoGradEval, QUEUE.replace("keys.detach()", "keys"), because)


# What functions are given for parameters.

TRAINS = TAUGHT.replace(
    "for step in range(4):\n    x, y = torch.randn(16, 8), torch.randint(0, 4, (16,))\n", "def train(x, y):\n"
)
LOOP = """\


for step in range(4):
    x, y = torch.randn(16, 8), torch.randint(0, 4, (16,))
"""


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("train(x, y)", id="a batch"),
        pytest.param("train(x + 0.1, y)", id="what is computed from one"),
        pytest.param("train(x * 2, y)\n    train(y=y, x=-x)", id="several calls"),
    ],
)
def test_a_function_that_is_given_no_graph(call: str) -> None:
    code = f"{TRAINS}{LOOP}    {call}\n"

    check_trains_alike(code, without_gradients(code, SOFT))


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("train(student(x).repeat(1, 2), y)", id="what is trained"),
        pytest.param("train(*(x * 2, y))", id="it is not seen what"),
        pytest.param("train(x * 2, y)\n    train(student(x).repeat(1, 2), y)", id="both"),
        pytest.param("other(train, x * 2, y)", id="others may call it"),
        pytest.param("(lambda z: train(z * 2, y))(x)", id="a lambda calls it"),
    ],
)
def test_a_function_that_may_be_given_a_graph(call: str) -> None:
    result = run(NoGradEval, f"{TRAINS}{LOOP}    {call}\n")

    assert [site.code for site in result.sites] == ["needs-gradients"]


def test_a_model_whose_inputs_carry_no_graph() -> None:
    averaged = INSIDE.replace("goal.detach()", "goal").replace(
        "model.parameters()", "[*model.online.parameters(), *model.predict.parameters()]"
    )

    check_trains_alike(HEAD + averaged, without_gradients(HEAD + averaged, GOAL))


def test_a_loss_of_features_that_another_model_runs() -> None:
    """Which inputs it is given there is not seen."""
    code = PERCEPTUAL.replace("criterion(net(x), x)", "criterion(net(x), 2 * x) + parallel(x, net(x))").replace(
        "optimizer =", "parallel = nn.DataParallel(criterion)\noptimizer ="
    )

    check_silent(NoGradEval, code)


FEATURES = f"""\
{HEAD}{NET}class Trainer:
    def __init__(self):
        self.net, self.features = nn.Linear(8, 8), Net(16)
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def step(self, x):
        self.image = self.net(x)
        ours = self.features(self.image)
        theirs = self.features(x)
        loss = F.mse_loss(ours, theirs) + self.net(x).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        print(loss.item().hex())


trainer = Trainer()
for _ in range(3):
    trainer.step(torch.randn(16, 8))
"""


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param("self.image = self.net(x)", id="by its name"),
        pytest.param("self.__dict__.update(image=self.net(x))", id="where it is not seen"),
        pytest.param('setattr(self, "image", self.net(x))', id="by a text"),
        pytest.param("self.image = render(self.net(x))", id="by a function that is not seen"),
    ],
)
def test_an_attribute_may_hold_what_is_trained(kept: str) -> None:
    code = FEATURES.replace("self.image = self.net(x)", kept)
    result = run(NoGradEval, code)

    assert result.after == without_gradients(code, "        theirs = self.features(x)\n")
    assert [site.code for site in result.sites if not site.rewrites] == ["needs-gradients"]


def test_what_is_yielded_may_be_trained() -> None:
    code = TAUGHT.replace(
        "optimizer =",
        "def pairs():\n    for _ in range(4):\n        x = torch.randn(16, 8)\n        yield x, student(x)\n\n\noptimizer =",
    ).replace(
        "for step in range(4):\n    x, y = torch.randn(16, 8), torch.randint(0, 4, (16,))\n    logits = student(x)\n",
        "for x, logits in pairs():\n    y = torch.randint(0, 4, (16,))\n",
    )

    check_silent(NoGradEval, code.replace("teacher(x)", "teacher(logits.repeat(1, 2))"))


# What a generator makes for the step of its discriminator.

FAKE = "    fake = generator(torch.randn(8, 4))\n"
CRITIC = """\
    critic = bce(discriminator(real), one) + bce(discriminator(fake.detach()), zero)
    critic_optimizer.zero_grad()
    critic.backward()
    critic_optimizer.step()
"""
DECEIVES = """\
    loss = bce(discriminator(fake), one)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(critic.item().hex(), loss.item().hex())
"""
ADVERSARIAL = f"""\
{HEAD}generator = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8))
discriminator = nn.Linear(8, 1)
optimizer = torch.optim.Adam(generator.parameters())
critic_optimizer = torch.optim.Adam(discriminator.parameters())
bce, one, zero = nn.BCEWithLogitsLoss(), torch.ones(8, 1), torch.zeros(8, 1)
for step in range(4):
    real = torch.randn(8, 8)
"""
POOL = "pool = []\n\n\ndef query(images):\n    pool.append(images)\n    return pool[0]\n\n\nfor step"


@pytest.mark.parametrize(
    "critic",
    [
        pytest.param(CRITIC, id="detached for it"),
        pytest.param(CRITIC.replace("(fake.detach())", "(fake.data)"), id="the data alone"),
        pytest.param(f"{CRITIC}    print(fake.mean().item())\n", id="shown"),
    ],
)
def test_what_is_made_anew_for_the_generators_own_step(critic: str) -> None:
    code = ADVERSARIAL + FAKE + critic + FAKE + DECEIVES

    check_trains_alike(code, code.replace(FAKE, f"    with torch.no_grad():\n    {FAKE}", 1))


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(ADVERSARIAL + FAKE + CRITIC + DECEIVES, id="one for both steps"),
        pytest.param(
            f"{ADVERSARIAL}{FAKE}{CRITIC}    if step % 2:\n    {FAKE}{DECEIVES}",
            id="made anew in some iterations alone",
        ),
        pytest.param(
            (ADVERSARIAL + FAKE + CRITIC + FAKE + DECEIVES)
            .replace("for step", POOL)
            .replace("(fake.detach())", "(query(fake).detach())"),
            id="a pool that keeps it with its graph",
        ),
    ],
)
def test_what_the_generators_own_step_may_read_keeps_its_graph(code: str) -> None:
    check_silent(NoGradEval, code)


FACTORY = """\


def build(name):
    return {"small": nn.Linear, "wide": nn.Linear}[name](4, 4)


teacher = build("wide")
student = build("small")
optimizer = torch.optim.Adam(student.parameters())
for images in torch.randn(9, 8, 4):
    goal = teacher(images)
    loss = F.mse_loss(student(images), goal)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_model_that_a_function_makes_beside_what_is_stepped_has_a_reason() -> None:
    line = 7 + FACTORY[: FACTORY.index("teacher =")].count("\n")
    because = (
        f"an optimizer steps what the function makes that makes the model (line {line}), which may be this one:"
        " put torch.no_grad() around it where nothing trains it"
    )

    check_leaves(NoGradEval, HEAD + FACTORY, because)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("(student.parameters())", "([*student.parameters(), *teacher.parameters()])", id="both are"),
        pytest.param('teacher = build("wide")', 'teacher = build("wide").requires_grad_(False)', id="it is frozen"),
        pytest.param(
            "    goal = teacher(images)", "    with torch.no_grad():\n        goal = teacher(images)", id="done"
        ),
    ],
)
def test_a_model_of_a_function_of_which_nothing_is_said(old: str, new: str) -> None:
    check_silent(NoGradEval, HEAD + FACTORY.replace(old, new))


def test_a_layer_that_a_function_makes_is_stepped_with_its_model() -> None:
    code = """\


def layer():
    return nn.Linear(4, 4)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = layer()
        self.second = layer()

    def forward(self, x):
        return self.second(self.first(x))


net = Net()
optimizer = torch.optim.Adam(net.parameters())
for images in torch.randn(9, 8, 4):
    loss = net(images).sum() + net.first(images).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    check_silent(NoGradEval, HEAD + code)
