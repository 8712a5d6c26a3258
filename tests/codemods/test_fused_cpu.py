from __future__ import annotations

import pytest
import torch
from kit import ACCELERATED, check_leaves, check_rewrites, check_silent, found_by, run

from autotune_rewrite.rewriting.config import Settings
from autotune_rewrite.rewriting.rewrite import rewrite
from codemods.codemod import Choices, Promise
from codemods.rules.fused_cpu import FusedCpu

IMPORTS = """\
import torch
from torch import nn, optim
from torchvision.models import resnet18

"""
DEVICE = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
MODEL = "model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4))\n"
MOVED = DEVICE + MODEL.replace("4))\n", "4)).to(device)\n")
ADAM = "optimizer = optim.Adam(model.parameters())\n"
SGD = "optimizer = optim.SGD(model.parameters(), 0.1, momentum=0.9)\n"
TRAIN = """\
for x in torch.randn(100, 8, 64):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
"""
ORDER = "and a fused step on the CPU goes by the order in memory alone"


def check(before: str, after: str, target: tuple[int, int] | None = None) -> None:
    check_rewrites(FusedCpu, IMPORTS + before + TRAIN, IMPORTS + after + TRAIN, target)


def left(code: str, because: str, target: tuple[int, int] | None = None) -> None:
    check_leaves(FusedCpu, IMPORTS + code + TRAIN, because, target)


# What is written.


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(MODEL + "{}", "", id="there is no CUDA"),
        pytest.param(MODEL + 'model.to("cpu")\n{}', "", id="it is moved to the CPU"),
        pytest.param(MOVED + "{}", "", id="CUDA where there is some"),
        pytest.param(DEVICE + MODEL + "{}model.to(device)\n", "", id="it is moved after that"),
    ],
)
@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD"])
def test_it_is_fused_on_each_device(before: str, after: str, name: str) -> None:
    made = f"optimizer = optim.{name}(model.parameters(), lr=0.1%s)\n"

    check(before.format(made % "") + after, before.format(made % ", fused=True") + after)


def test_a_condition_that_asks_for_cuda_goes() -> None:
    for quote in "\"'":
        given = f"device.type == {quote}cuda{quote}"
        check(
            MOVED + f"optimizer = optim.Adam(model.parameters(), fused={given})\n",
            MOVED + "optimizer = optim.Adam(model.parameters(), fused=True)\n",
        )


def test_both_rules_together_need_no_condition() -> None:
    settings = Settings(frozenset({"fused-optimizer", "fused-cpu"}), Promise.TRAINING)
    wide = MOVED.replace("nn.ReLU(), ", "nn.ReLU(), nn.Linear(32, 32), ")

    result = rewrite("train.py", IMPORTS + wide + ADAM + TRAIN, settings)

    assert result.after == IMPORTS + wide + ADAM.replace("())", "(), fused=True)") + TRAIN
    assert {site.rule: site.code for site in result.sites} == {"fused-optimizer": "", "fused-cpu": ""}
    assert rewrite("train.py", result.after, settings).sites == ()


@pytest.mark.parametrize(
    ("made", "promise"),
    [
        ("SGD(model.parameters(), 0.1)", Promise.BITWISE),
        ("SGD(model.parameters(), 0.1, momentum=0)", Promise.BITWISE),
        ("SGD(model.parameters(), 0.1, momentum=0.9)", Promise.PRECISION),
        ("Adam(model.parameters())", Promise.PRECISION),
        ("Adagrad(model.parameters())", Promise.PRECISION),
    ],
)
def test_the_promise(made: str, promise: Promise) -> None:
    (site,) = run(FusedCpu, f"{IMPORTS}{MODEL}optimizer = optim.{made}\n{TRAIN}").sites

    assert site.rewrites
    assert site.promise is promise
    assert site.needs == ""


@pytest.mark.parametrize(
    ("model", "name", "target", "code"),
    [
        (MODEL, "Adam", (2, 4), ""),
        (MODEL, "Adam", (2, 3), "older-torch"),
        (MODEL, "Adagrad", (2, 4), ""),
        (MOVED, "Adagrad", (2, 14), "older-torch"),
        (MOVED, "Adagrad", (2, 15), ""),
    ],
    ids=["2.4", "2.3", "Adagrad on the CPU", "Adagrad on CUDA before 2.15", "Adagrad on CUDA"],
)
def test_each_has_a_torch_that_it_needs(model: str, name: str, target: tuple[int, int], code: str) -> None:
    (site,) = run(FusedCpu, f"{IMPORTS}{model}optimizer = optim.{name}(model.parameters())\n{TRAIN}", target).sites

    assert site.code == code


FOUND = """\
import torch
from torch import nn, optim

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 33), nn.ReLU(), nn.Linear(33, 5))
optimizer = optim.{}
found = []
for x in torch.randn(30, 4, 1, 8, 8):
    loss = nn.functional.cross_entropy(model(x), torch.randint(5, (4,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    found.append(loss.item())
"""


@pytest.mark.parametrize(
    ("made", "is_exact"),
    [
        ("SGD(model.parameters(), 0.1, weight_decay=1e-4)", True),
        ("SGD(model.parameters(), 0.1, momentum=0.9, nesterov=True)", False),
        ("Adam(model.parameters(), amsgrad=True)", False),
        ("AdamW([{'params': model[0].parameters()}, {'params': model[3:].parameters(), 'lr': 0.01}])", False),
        ("Adagrad(model.parameters(), 0.1)", False),
    ],
)
def test_it_computes_the_same(made: str, *, is_exact: bool) -> None:
    before = FOUND.format(made)
    after = run(FusedCpu, before).after if "[3:]" not in made else before.replace("01}])", "01}], fused=True)")
    one, other = found_by(before), found_by(after)

    assert "fused=True" in after
    assert isinstance(one, list)
    assert one == other if is_exact else one == pytest.approx(other, rel=1e-4)


# What is left.

LEFT = {
    "Accelerate moves the model": (None, "Accelerate prepares the optimizer and moves the model"),
    "a checkpoint is loaded into it": (
        MODEL + ADAM + "optimizer.load_state_dict(torch.load('x'))\n",
        "a checkpoint is loaded into it, which decides how it steps (line 7)",
    ),
    "gradients may be sparse": (
        MODEL + "table = nn.Embedding(9, 2, sparse=True)\n" + ADAM,
        "gradients may be sparse, which no fused step takes (line 6)",
    ),
    "parameters may be complex": (
        MODEL + "phase = torch.zeros(2, dtype=torch.cfloat)\n" + ADAM,
        "parameters may be complex, which no fused step takes (line 6)",
    ),
    "another step is chosen": (
        MODEL + ADAM.replace("())", "(), differentiable=True)"),
        "differentiable is given (line 6)",
    ),
    "a class of the project derives from it": (
        MODEL + "class Mine(optim.Adam):\n    pass\noptimizer = Mine(model.parameters())\n",
        "Mine derives from torch.optim.Adam, and may step in a way of its own",
    ),
    "16 bits": (
        MODEL + "model.bfloat16()\n" + ADAM,
        "the script chooses a number format itself (line 6): manual half precision",
    ),
    "channels come last": (
        MODEL + "model.to(memory_format=torch.channels_last)\n" + ADAM,
        "the script chooses a memory format itself, and a fused step on the CPU knows of none",
    ),
    "gradients are put in": (
        MODEL + ADAM + "for p in model.parameters():\n    p.grad = torch.randn(4, 4)\n",
        f"a gradient is put in by hand (line 8), {ORDER}",
    ),
    "a parameter is a part of another tensor": (
        "class Net(nn.Module):\n    def __init__(self, table):\n        super().__init__()\n"
        "        self.table = nn.Parameter(table[:, :3])\n\n    def forward(self, x):\n        return x @ self.table\n"
        "model = Net(torch.randn(64, 9))\n" + ADAM,
        f"a parameter may be a part of another tensor (line 8), {ORDER}",
    ),
    "parameters are thawed later": (
        MODEL + SGD + "for epoch in range(9):\n    model.requires_grad_(epoch > 5)\n",
        "gradients of its parameters may be asked for later (line 8), and a fused SGD with momentum fails at a first"
        " gradient that comes later than others; parameters that come later need a group of their own: then add"
        " fused=True by hand",
    ),
    "a scaler may skip the first step": (
        MODEL + "scaler = torch.amp.GradScaler('cpu')\n" + SGD,
        "the gradient scaler (line 6) may skip the first step, after which a fused SGD takes its momentum from memory"
        " that was never set; bf16 needs no scaler",
    ),
    "its rate is a tensor": (
        MODEL + "optimizer = optim.Adagrad(model.parameters(), torch.tensor(0.1))\n",
        "its learning rate is a tensor: give it a number",
    ),
    "Apple's GPU": (
        'device = "mps" if torch.backends.mps.is_available() else "cpu"\n' + MODEL + "model.to(device)\n" + ADAM,
        "the device of its model (line 7) may be another accelerator",
    ),
    "a device that is not known": (
        "from settings import device\n" + MODEL + "model.to(device)\n" + ADAM,
        "the device of its model (line 7) is not known: the device comes from settings.device",
    ),
    "a device is the default": (
        "torch.set_default_device('cuda')\n" + MODEL + ADAM,
        "whether the default device is CUDA is not followed (line 5): move the model to it",
    ),
    "only its batches are moved": (
        MODEL + ADAM + "for x in torch.randn(3, 8, 64):\n    model(x.cuda())\n",
        "the script uses CUDA, and its model is not moved in this file",
    ),
    "it is moved again and again": (
        DEVICE + MODEL + ADAM + "for _ in range(3):\n    model.to(device)\n",
        "its model is not seen to be on the device already when it is made (line 9): make the optimizer after the"
        " model is moved",
    ),
    "other tensors are stepped, too": (
        MODEL + "scale = torch.ones(1, requires_grad=True)\noptimizer = optim.Adam([*model.parameters(), scale])\n",
        "not all that it steps is known to be parameters of models: it is given a tensor",
    ),
    "its state is used where it may be on CUDA": (
        MOVED + ADAM + "print(optimizer.state)\n",
        "its state is used, in which the count of steps would be on the device (line 8)",
    ),
}


@pytest.mark.parametrize(("code", "because"), LEFT.values(), ids=LEFT)
def test_it_is_left(code: str | None, because: str) -> None:
    if code is None:
        check_leaves(FusedCpu, ACCELERATED, because)
    else:
        left(code, because)


def test_nothing_that_steps_it_is_seen() -> None:
    check_leaves(FusedCpu, IMPORTS + MODEL + ADAM, "nothing steps it")


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(MODEL + ADAM.replace("())", "(), fused=True)"), id="it is fused"),
        pytest.param(MODEL + ADAM.replace("())", "(), fused=False)"), id="it is told not to be"),
        pytest.param(MODEL + ADAM.replace("())", "(), foreach=True)"), id="another form is chosen"),
        pytest.param(MODEL + ADAM.replace("())", "(), fused=settings.fused)"), id="something else decides"),
        pytest.param(MOVED + ADAM.replace("())", "(), fused=not device)"), id="a condition that is not known"),
        pytest.param(MODEL + "model.cuda()\n" + ADAM, id="it always trains on CUDA"),
        pytest.param(MODEL + "optimizer = optim.RMSprop(model.parameters())\n", id="there is no fused form"),
    ],
)
def test_nothing_is_said(lines: str) -> None:
    check_silent(FusedCpu, IMPORTS + lines + TRAIN)


def test_the_state_on_the_cpu_stays_what_it_was() -> None:
    check(
        MODEL + ADAM + "print(optimizer.state)\n",
        MODEL + ADAM.replace("())", "(), fused=True)") + "print(optimizer.state)\n",
    )
    weight = torch.nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    steps = []
    for fused in (False, True):
        optimizer = torch.optim.Adam([weight], fused=fused)
        optimizer.step()
        steps.append(optimizer.state[weight]["step"])

    assert {(each.dtype, each.device.type, each.item()) for each in steps} == {(torch.float32, "cpu", 1.0)}


@pytest.mark.parametrize(
    ("layers", "given", "is_weighed", "code"),
    [
        pytest.param(2, "SGD(model.parameters(), 0.1)", True, "never-pays-back", id="a plain step of few tensors"),
        pytest.param(2, "SGD(model.parameters(), 0.1)", False, "", id="asked for by name"),
        pytest.param(16, "SGD(model.parameters(), 0.1)", True, "", id="of many"),
        pytest.param(1, "SGD(model.parameters(), 0.1, 0.9)", True, "", id="with momentum"),
        pytest.param(1, "Adam(model.parameters())", True, "", id="Adam"),
    ],
)
def test_a_plain_step_is_one_operation(layers: int, given: str, code: str, *, is_weighed: bool) -> None:
    model = "model = nn.Sequential(" + ", ".join(["nn.Linear(64, 64)"] * layers) + ")\n"
    rule = FusedCpu.name()
    choices = Choices(weighed=frozenset({rule} if is_weighed else ()))
    settings = Settings(frozenset({rule}), Promise.TRAINING, choices=choices)

    result = rewrite("train.py", f"{IMPORTS}{model}optimizer = optim.{given}\n{TRAIN}", settings)

    assert [site.code for site in result.sites] == [code]
