from __future__ import annotations

import functools
import textwrap
from typing import TYPE_CHECKING

import pytest
import torch
from kit import ACCELERATED, check_leaves, check_rewrites, check_silent, found_by, run

from autotune_rewrite.rewriting.config import Settings
from autotune_rewrite.rewriting.rewrite import rewrite
from codemods.codemod import Choices, Promise
from codemods.rules.fused_optimizer import FusedOptimizer

if TYPE_CHECKING:
    from codemods.codemod import AmpForm

IMPORTS = """\
import itertools
import torch
from torch import nn, optim
from torchvision.models import resnet18

"""
DEVICE = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
TRAIN = """\
for x in torch.randn(100, 8, 3, 32, 32):
    optimizer.zero_grad()
    model(x.cuda()).sum().backward()
    optimizer.step()
"""


def check(before: str, after: str) -> None:
    """Of a script with these lines before its training the rule makes one with those."""
    check_rewrites(FusedOptimizer, IMPORTS + before + TRAIN, IMPORTS + after + TRAIN)


def left(code: str, because: str) -> None:
    check_leaves(FusedOptimizer, IMPORTS + code + TRAIN, because)


# What is written.

CONDITIONS = {
    "the model is always on CUDA": ("model = resnet18().cuda()\n", "True"),
    "a torch.device chooses": (DEVICE + "model = resnet18().to(device)\n", 'device.type == "cuda"'),
    "a text chooses": (
        'device = "cuda" if torch.cuda.is_available() else "cpu"\nmodel = resnet18().to(device)\n',
        'device == "cuda"',
    ),
    "a flag chooses": (
        "use_cuda = torch.cuda.is_available()\nmodel = resnet18()\nif use_cuda:\n    model.cuda()\n",
        "use_cuda",
    ),
    "the device has another name where the model is moved": (
        DEVICE + "def moved(model, where):\n    return model.to(where)\nmodel = moved(resnet18(), device)\n",
        'device.type == "cuda"',
    ),
    "it is moved in each of two branches": (
        "import sys\nmodel = resnet18()\nif len(sys.argv) > 1:\n    model = nn.DataParallel(model).cuda()\n"
        "else:\n    model.to(sys.argv[0])\n",
        "next(model.parameters()).is_cuda",
    ),
    "it is moved to CUDA in each of two branches": (
        "import sys\nmodel = resnet18()\nif len(sys.argv) > 1:\n    model = nn.DataParallel(model).cuda()\n"
        "else:\n    model.cuda()\n",
        "True",
    ),
    "it is made and moved in a branch": (
        "import sys\nfrom torchvision.models import resnet50\nif len(sys.argv) > 1:\n    model = resnet18().cuda()\n"
        "elif sys.argv:\n    model = resnet50()\n    model = model.cuda()\nelse:\n    raise ValueError\n",
        "True",
    ),
    "the function that makes the model moves it": (
        "def make():\n    model = resnet18()\n    model.cuda()\n    return model\nmodel = make()\n",
        "True",
    ),
    "it is moved where it is returned": ("def make():\n    return resnet18().cuda()\nmodel = make()\n", "True"),
    "it is moved where it is made, in one of several returns": (
        "def make(name):\n    if name == 'a':\n        return resnet18().cuda()\n    if name == 'b':\n"
        "        model = resnet18(num_classes=2)\n        model = model.cuda()\n        return model\n"
        "    raise ValueError(name)\nmodel = make(input())\n",
        "True",
    ),
    "another one takes its place on one way": (
        "model = resnet18().cuda()\nif input():\n    model = resnet18(num_classes=2).cuda()\n",
        "True",
    ),
    "one of two is made and moved in one expression": (
        "from torchvision.models import resnet50\nwhile True:\n"
        "    model = (resnet18() if input() else resnet50()).cuda()\n    if model.fc.in_features:\n        break\n",
        "True",
    ),
    "a layer was replaced before": ("model = resnet18()\nmodel.fc = nn.Linear(512, 2)\nmodel.cuda()\n", "True"),
    "a layer is replaced by one that is moved": (
        "model = resnet18().cuda()\nmodel.fc = nn.Linear(512, 2).cuda()\n",
        "True",
    ),
}


@pytest.mark.parametrize(("lines", "test"), CONDITIONS.values(), ids=CONDITIONS)
def test_the_argument_says_whether_the_model_is_on_cuda(lines: str, test: str) -> None:
    check(
        lines + "optimizer = optim.Adam(model.parameters(), lr=1e-3)\n",
        lines + f"optimizer = optim.Adam(model.parameters(), lr=1e-3, fused={test})\n",
    )


@pytest.mark.parametrize(
    "given",
    [
        "list(model.parameters())",
        "filter(lambda p: p.requires_grad, model.parameters())",
        "[p for p in model.parameters() if p.requires_grad]",
        "itertools.chain(model.parameters(), head.parameters())",
        '[{"params": model.parameters()}, {"params": head.parameters(), "lr": 0.1}]',
        "[*model.parameters(), head.weight, head.bias]",
        "params=model.parameters()",
    ],
)
def test_parameters_are_followed(given: str) -> None:
    lines = "model = resnet18().cuda()\nhead = nn.Linear(1000, 10).cuda()\n"

    check(lines + f"optimizer = optim.Adam({given})\n", lines + f"optimizer = optim.Adam({given}, fused=True)\n")


def test_an_optimizer_is_followed_into_the_function_that_makes_it() -> None:
    before = """\
def make_optimizer(model):
    return optim.AdamW(model.parameters())

model = resnet18().cuda()
optimizer = make_optimizer(model)
"""
    check(before, before.replace("(model.parameters())", "(model.parameters(), fused=True)"))


def test_a_model_that_makes_its_optimizer_asks_itself() -> None:
    before = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = resnet18()

    def forward(self, x):
        return self.layers(x)

    def make_optimizer(self):
        decayed = [p for p in self.parameters() if p.dim() > 1]
        others = [p for p in self.parameters() if p.dim() <= 1]
        return optim.AdamW([{"params": decayed}, {"params": others, "weight_decay": 0.0}])

def train(model, device):
    model.to(device)
    optimizer = model.make_optimizer()
    for x in torch.randn(100, 8, 3, 32, 32):
        optimizer.zero_grad()
        model(x.to(device)).sum().backward()
        optimizer.step()

"""
    call = "train(Net(), torch.device('cuda' if torch.cuda.is_available() else 'cpu'))\n"
    after = before.replace(
        '"weight_decay": 0.0}])',
        '"weight_decay": 0.0}],\n                           fused=next(self.parameters()).is_cuda)',
    )

    check_rewrites(FusedOptimizer, IMPORTS + before + call, IMPORTS + after + call)


def test_methods_are_followed() -> None:
    before = """\
class Trainer:
    def __init__(self, device):
        self.device = device
        self.model = resnet18().to(self.device)
        self.optimizer = optim.Adam(self.model.parameters())

    def train(self, images):
        for x in images:
            self.optimizer.zero_grad()
            self.model(x.to(self.device)).sum().backward()
            self.optimizer.step()

"""
    run_it = DEVICE + "Trainer(device).train(torch.randn(100, 8, 3, 32, 32))\n"
    after = before.replace(".parameters())", '.parameters(), fused=self.device.type == "cuda")')

    check_rewrites(FusedOptimizer, IMPORTS + before + run_it, IMPORTS + after + run_it)


@pytest.mark.parametrize(
    ("optimizer", "scaler", "promise"),
    [
        pytest.param("SGD", "", Promise.BITWISE, id="SGD gives the same bits"),
        pytest.param("SGD", "scaler = torch.amp.GradScaler()\n", Promise.PRECISION, id="not where it unscales"),
        pytest.param("SGD", "scaler = torch.amp.GradScaler(enabled=False)\n", Promise.BITWISE, id="where that is off"),
        pytest.param("SGD", "if args.half:\n    model.half()\n", Promise.PRECISION, id="not in 16 bits"),
        pytest.param("Adam", "", Promise.PRECISION, id="Adam rounds otherwise"),
    ],
)
def test_the_promise(optimizer: str, scaler: str, promise: Promise) -> None:
    code = f"model = resnet18().cuda()\n{scaler}optimizer = optim.{optimizer}(model.parameters(), lr=0.1)\n"

    (site,) = run(FusedOptimizer, IMPORTS + code + TRAIN).sites

    assert site.rewrites
    assert site.promise is promise


@pytest.mark.parametrize(
    ("target", "code"), [((2, 4), ""), ((2, 3), "older-torch"), (None, "")], ids=["2.4", "2.3", "an unknown torch"]
)
def test_a_model_that_is_moved_after_that_needs_a_torch_that_takes_the_host(
    target: tuple[int, int] | None, code: str
) -> None:
    before = IMPORTS + "model = resnet18()\n" + ADAM + "model.cuda()\n" + TRAIN

    result = run(FusedOptimizer, before, target)

    (site,) = result.sites
    assert site.code == code
    assert result.after == (before if code else before.replace("parameters())", "parameters(), fused=True)"))


@pytest.mark.parametrize(
    ("optimizer", "target", "is_written"),
    [
        ("Adam", (2, 0), True),
        ("SGD", (2, 2), False),
        ("SGD", (2, 3), True),
        ("Adam", (1, 13), False),
        ("Adagrad", (2, 14), False),
    ],
)
def test_each_has_a_torch_that_it_needs(optimizer: str, target: tuple[int, int], *, is_written: bool) -> None:
    code = f"model = resnet18().cuda()\noptimizer = optim.{optimizer}(model.parameters(), lr=0.1)\n"

    (site,) = run(FusedOptimizer, IMPORTS + code + TRAIN, target).sites

    assert site.rewrites is is_written
    assert site.code == ("" if is_written else "older-torch")


# Where a checkpoint is loaded.

LAYERS = "nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10))"
RESUMED = IMPORTS + "model = " + LAYERS + ".cuda()\noptimizer = optim.Adam(model.parameters(){})\n{}" + TRAIN
TOLD = """\
for group in checkpoint["optimizer"]["param_groups"]:
    group["fused"] = optimizer.defaults["fused"]
optimizer.load_state_dict(checkpoint["optimizer"])
"""
NAMED = """\
state = torch.load("last.pt")
for group in state["param_groups"]:
    group["fused"] = optimizer.defaults["fused"]
optimizer.load_state_dict(state)
"""


indented = functools.partial(textwrap.indent, prefix="    ")
FUNCTION = "def resume(checkpoint, optimizer):\n{}resume({{}}, optimizer)\n"
LOADS = {
    "an item": ('optimizer.load_state_dict(checkpoint["optimizer"])\n', TOLD),
    "an item, by the argument's name": (
        'optimizer.load_state_dict(state_dict=checkpoint["optimizer"])\n',
        TOLD.replace("_dict(check", "_dict(state_dict=check"),
    ),
    "an item, in other quotes": (
        "optimizer.load_state_dict(checkpoint['optimizer'])\n",
        TOLD.replace('"', "'"),
    ),
    "a name": ("optimizer.load_state_dict(checkpoint)\n", TOLD.replace('checkpoint["optimizer"]', "checkpoint")),
    "what has no name yet": ('optimizer.load_state_dict(torch.load("last.pt"))\n', NAMED),
    "what has no name yet, with a comment": (
        'optimizer.load_state_dict(torch.load(  # the last one\n    "last.pt",\n))\n',
        NAMED.replace('torch.load("last.pt")', 'torch.load(  # the last one\n    "last.pt",\n)'),
    ),
    "an attribute, which may be computed anew": (
        "optimizer.load_state_dict(optim.best)\n",
        NAMED.replace('torch.load("last.pt")', "optim.best"),
    ),
    "where the name group is taken": (
        'group = 3\noptimizer.load_state_dict(checkpoint["optimizer"])\nprint(group)\n',
        "group = 3\n"
        + TOLD.replace("for group", "for param_group").replace(" group[", " param_group[")
        + "print(group)\n",
    ),
    "where the names of the state and the group are another function's": (
        "def other(group):\n    state = group\n    return state\n"
        + FUNCTION.format('    optimizer.load_state_dict(torch.load("last.pt"))\n'),
        "def other(group):\n    state = group\n    return state\n" + FUNCTION.format(indented(NAMED)),
    ),
    "where the name of the state is read in a function inside": (
        FUNCTION.format(
            '    optimizer.load_state_dict(torch.load("last.pt"))\n    def again():\n        return state\n    again()\n'
        ),
        FUNCTION.format(
            indented(NAMED.replace("state =", "saved =").replace("state[", "saved[").replace("(state)", "(saved)"))
            + "    def again():\n        return state\n    again()\n"
        ),
    ),
    "in a function, under a condition": (
        FUNCTION.format('    if checkpoint:\n        optimizer.load_state_dict(checkpoint["optimizer"])\n'),
        FUNCTION.format("    if checkpoint:\n" + indented(indented(TOLD))),
    ),
    "twice": (
        'optimizer.load_state_dict(checkpoint["optimizer"])\noptimizer.load_state_dict(torch.load("last.pt"))\n',
        TOLD + NAMED,
    ),
    "in a loop over optimizers that can be fused": (
        "for each in [optimizer, optim.SGD(model.parameters(), 0.1, fused=True)]:\n"
        '    each.load_state_dict(checkpoint["optimizer"])\n',
        "for each in [optimizer, optim.SGD(model.parameters(), 0.1, fused=True)]:\n"
        + indented(TOLD.replace("optimizer.", "each.")),
    ),
}


@pytest.mark.parametrize(("load", "after"), LOADS.values(), ids=LOADS)
def test_a_checkpoint_is_told_how_the_optimizer_steps(load: str, after: str) -> None:
    check_rewrites(FusedOptimizer, RESUMED.format("", load), RESUMED.format(", fused=True", after))


DECIDES = "a checkpoint is loaded into it, which decides how it steps (line 8)"
UNTOLD = {
    "more is done with what the call returns": ("loaded = optimizer.load_state_dict(checkpoint)\n", DECIDES),
    "what it is loaded into is computed": (
        "(optimizer or None).load_state_dict(checkpoint)\n",
        DECIDES,
    ),
    "the arguments cannot be seen": ("optimizer.load_state_dict(*checkpoint)\n", DECIDES),
    "nothing is given": ("optimizer.load_state_dict()\n", DECIDES),
    "another optimizer has no fused form": (
        "for each in [optimizer, optim.RMSprop(model.parameters())]:\n    each.load_state_dict(checkpoint)\n",
        DECIDES.replace("8", "9"),
    ),
    "all names are taken": (
        "group = param_group = each_group = 1\noptimizer.load_state_dict(checkpoint)\n",
        DECIDES.replace("8", "9"),
    ),
    "the layout is the script's": (
        "model.to(memory_format=torch.channels_last)\noptimizer.load_state_dict(checkpoint)\n",
        "a checkpoint is loaded into it (line 9), of which the weights may have another layout",
    ),
    "the line does more": (
        "if model: optimizer.load_state_dict(checkpoint)\n",
        "the suite is written on the header's line",
    ),
}


@pytest.mark.parametrize(("load", "because"), UNTOLD.values(), ids=UNTOLD)
def test_a_checkpoint_that_cannot_be_told_decides(load: str, because: str) -> None:
    check_leaves(FusedOptimizer, RESUMED.format("", load), because)


def test_a_checkpoint_may_be_loaded_before_the_model_is_moved() -> None:
    code = f"model = {LAYERS}\n{ADAM}optimizer.load_state_dict(checkpoint)\nmodel.cuda()\n"

    left(code, DECIDES)


@pytest.mark.parametrize(
    ("target", "load", "code"),
    [
        pytest.param((2, 0), "", "", id="2.0"),
        pytest.param((2, 0), "optimizer.load_state_dict(checkpoint)\n", "older-torch", id="2.0 and a checkpoint"),
        pytest.param((2, 1), "optimizer.load_state_dict(checkpoint)\n", "", id="2.1 and a checkpoint"),
        pytest.param(
            (2, 2),
            "for each in [optimizer, optim.SGD([x], 0.1, fused=False)]:\n    each.load_state_dict(checkpoint)\n",
            "older-torch",
            id="2.2 and a checkpoint of SGD",
        ),
    ],
)
def test_a_checkpoint_needs_a_torch_that_moves_its_counts(target: tuple[int, int], load: str, code: str) -> None:
    (site,) = run(FusedOptimizer, RESUMED.format("", load), target).sites

    assert site.code == code


SAVING = f"""\
import copy
import torch
from torch import nn, optim

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = {LAYERS}.to(device)
optimizer = optim.Adam(model.parameters())
saved = []
for x in torch.randn(12, 8, 64):
    if len(saved) == 6:
        model.load_state_dict(saved[3]["model"])
        optimizer.load_state_dict(saved[3]["optimizer"])
    optimizer.zero_grad()
    model(x.to(device)).sum().backward()
    optimizer.step()
    saved.append(copy.deepcopy(dict(model=model.state_dict(), optimizer=optimizer.state_dict())))
found = saved[-1]
"""


def test_without_cuda_a_script_that_goes_on_computes_the_same() -> None:
    after = run(FusedOptimizer, SAVING).after

    one, other = found_by(SAVING), found_by(after)

    assert "optimizer.defaults" in after
    assert isinstance(one, dict)
    assert isinstance(other, dict)
    assert all(torch.equal(one["model"][name], other["model"][name]) for name in one["model"])
    assert other["optimizer"]["param_groups"][0]["fused"] is False


@pytest.mark.parametrize("is_told", [True, False])
def test_a_scaler_steps_only_what_was_told(*, is_told: bool) -> None:
    model = torch.nn.Linear(4, 4)
    old = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 4)).sum().backward()
    old.step()
    state = old.state_dict()
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    scaler = torch.amp.GradScaler("cpu")
    for group in state["param_groups"] if is_told else ():
        group["fused"] = optimizer.defaults["fused"]
    optimizer.load_state_dict(state)
    scaler.scale(model(torch.ones(2, 4)).sum()).backward()

    if is_told:
        scaler.step(optimizer)
        assert {each["step"].item() for each in optimizer.state.values()} == {2}
    else:
        with pytest.raises(AssertionError, match="Expected grad_scale and found_inf to be None"):
            scaler.step(optimizer)


# What is left.

MODEL = "model = resnet18().cuda()\n"
ADAM = "optimizer = optim.Adam(model.parameters())\n"
LATER = "make the optimizer after the model is moved"
LEFT = {
    "the model is moved in each epoch": (
        "model = resnet18()\n" + ADAM + "for epoch in range(2):\n    model.cuda()\n",
        f"its model is not seen to be on the device already when it is made (line 9): {LATER}",
    ),
    "the model is perhaps moved": (
        "import sys\nmodel = resnet18()\nif len(sys.argv) > 1:\n    model.cuda()\n" + ADAM,
        f"its model is not seen to be on the device already when it is made (line 9): {LATER}",
    ),
    "the optimizer is made before, on one way": (
        "def make(small):\n    if small:\n        model = resnet18(num_classes=2)\n"
        "        optimizer = optim.Adam(model.parameters())\n        if small > 1:\n            model.cuda()\n"
        "        return model, optimizer\n    return None, None\nmodel, optimizer = make(input())\n",
        f"its model is not seen to be on the device already when it is made (line 11): {LATER}",
    ),
    "the model makes it when it is made": (
        "class Layer(nn.Linear):\n    def __init__(self, n):\n        super().__init__(n, n)\n"
        "        self.step = optim.Adam(self.parameters())\n"
        "model = nn.Sequential(Layer(8).cuda())\noptimizer = model[0].step\n",
        f"its model is not seen to be on the device already when it is made (line 10): {LATER}",
    ),
    "the model makes it in its constructor, which a function runs that moves it": (
        "class Layer(nn.Linear):\n    def __init__(self, n):\n        super().__init__(n, n)\n"
        "        self.step = optim.Adam(self.parameters())\ndef make():\n    model = Layer(8)\n    model.cuda()\n"
        "    return model\nmodel = make()\noptimizer = model.step\n",
        f"its model is not seen to be on the device already when it is made (line 12): {LATER}",
    ),
    "a function returns it before it is moved": (
        "def make(small):\n    if small:\n        model = resnet18()\n        if small > 1:\n            return model\n"
        "        return model.cuda()\n    raise ValueError\nmodel = make(2)\n" + ADAM,
        f"its model is not seen to be on the device already when it is made (line 11): {LATER}",
    ),
    "the function that makes the optimizer is called before the model is moved": (
        "def make(model):\n    return optim.Adam(model.parameters())\nmodel = resnet18()\noptimizer = make(model)\n"
        "model.cuda()\n",
        f"its model is not seen to be on the device already when it is made (line 10): {LATER}",
    ),
    "a layer is replaced later": (
        MODEL + "model.fc = nn.Linear(512, 2)\n" + ADAM,
        "a layer is put into its model after that was moved to the device (line 7): move the model after that",
    ),
    "a tensor is stepped, too": (
        MODEL + "weight = torch.zeros(1, requires_grad=True)\noptimizer = optim.Adam([*model.parameters(), weight])\n",
        "not all that it steps is known to be parameters of models: it is given a tensor",
    ),
    "a checkpoint is loaded into it, and its weights may be laid out anew": (
        MODEL + ADAM + 'optimizer.load_state_dict(torch.load("last.pt"))\n',
        "a checkpoint is loaded into it (line 8), of which the weights may have another layout",
    ),
    "a function that is not read may load one": (
        "from helpers import resume\n" + MODEL + ADAM + "resume(model, optimizer)\n",
        "helpers.resume(), which was not read, may load a checkpoint into it (line 9)",
    ),
    "its state is used": (
        MODEL + ADAM + "print(optimizer.state)\n",
        "its state is used, in which the count of steps would be on the device (line 8)",
    ),
    "a hook runs with its steps": (
        MODEL + ADAM + "optimizer.register_step_pre_hook(print)\n",
        "a hook runs with its steps, and may meet gradients that are scaled (line 8)",
    ),
    "the script captures a graph": (
        MODEL + ADAM + "graph = torch.cuda.CUDAGraph()\n",
        "the script captures CUDA graphs itself (line 8)",
    ),
    "apex has it": (
        "from apex import amp\n" + MODEL + ADAM + "model, optimizer = amp.initialize(model, optimizer)\n",
        "apex changes how optimizers step (line 9)",
    ),
    "apex has it, and its model was called before": (
        "from apex import amp\nfrom apex.parallel import DistributedDataParallel\n"
        + MODEL
        + ADAM
        + "def valid(model):\n    model(1)\nmodel, optimizer = amp.initialize(model, optimizer)\n"
        + "if len(optimizer.param_groups) > 1:\n    model = DistributedDataParallel(model)\nvalid(model)\n",
        "apex changes how optimizers step (line 12)",
    ),
    "apex steps by it": (
        "import apex\nfrom apex.parallel.LARC import LARC\n"
        + MODEL
        + ADAM
        + "model = apex.parallel.convert_syncbn_model(model)\noptimizer = LARC(optimizer)\n",
        "apex changes how optimizers step (line 11)",
    ),
    "parameters are added to it": (
        MODEL + ADAM + 'optimizer.add_param_group({"params": nn.Linear(2, 2).parameters()})\n',
        "parameters are added to it, which may be on another device (line 8)",
    ),
    "gradients may be sparse": (
        "table = nn.Embedding(10, 2, sparse=True)\n" + MODEL + "optimizer = optim.SGD(model.parameters(), lr=0.1)\n",
        "gradients may be sparse, which no fused step takes (line 6)",
    ),
    "parameters may be complex": (
        "phase = torch.zeros(2, dtype=torch.complex64)\n" + MODEL + ADAM,
        "parameters may be complex, which no fused step takes (line 6)",
    ),
    "another step is chosen": (
        MODEL + "optimizer = optim.Adam(model.parameters(), capturable=True)\n",
        "capturable is given (line 7)",
    ),
    "the arguments cannot be seen": (
        "import json\noptions = json.load(open('adam.json'))\n"
        + MODEL
        + "optimizer = optim.Adam(model.parameters(), **options)\n",
        "the arguments come through * or **, and may choose how it steps",
    ),
    "its parameters are thawed later": (
        MODEL + "model.requires_grad_(False)\noptimizer = optim.SGD(model.parameters(), 0.1, momentum=0.9)\n"
        "for epoch in range(10):\n    model.requires_grad_(epoch > 5)\n",
        "gradients of its parameters may be asked for later (line 10), and a fused SGD with momentum fails at a first"
        " gradient that comes later than others; parameters that come later need a group of their own: then add"
        " fused=True by hand",
    ),
    "a scaler may leave its momentum unset": (
        MODEL + "scaler = torch.amp.GradScaler()\noptimizer = optim.SGD(model.parameters(), 0.1, momentum=0.9)\n",
        "the gradient scaler (line 7) may skip the first step, after which a fused SGD takes its momentum from memory"
        " that was never set; bf16 needs no scaler",
    ),
    "one of two may keep momentum": (
        "import sys\nmake = optim.SGD if len(sys.argv) > 1 else optim.Adam\nscaler = torch.amp.GradScaler()\n"
        + MODEL
        + "optimizer = make(model.parameters(), momentum=0.9)\n",
        "the gradient scaler (line 8) may skip the first step, after which a fused SGD takes its momentum from memory"
        " that was never set; bf16 needs no scaler",
    ),
    "it derives from torch's": (
        "class Projected(optim.Adam):\n    pass\n" + MODEL + "optimizer = Projected(model.parameters())\n",
        "Projected derives from torch.optim.Adam, and may step in a way of its own",
    ),
    "which one it is, is chosen when the script runs": (
        "import sys\n" + MODEL + "optimizer = getattr(optim, sys.argv[1])(model.parameters())\n",
        "it may be an optimizer that has no fused form",
    ),
    "it may be one without a fused form": (
        "import sys\nmake = optim.Adam if len(sys.argv) > 1 else optim.RMSprop\n"
        + MODEL
        + "optimizer = make(model.parameters())\n",
        "it may be an optimizer that has no fused form",
    ),
    "another model is moved by the same function": (
        "def moved(model):\n    return model.cuda()\nother = moved(resnet18())\nmodel = resnet18()\n"
        + ADAM
        + "if input():\n    model = moved(model)\n",
        f"its model is not seen to be on the device already when it is made (line 7): {LATER}",
    ),
    "the device may be of another maker": (
        "device = torch.accelerator.current_accelerator()\nmodel = resnet18().to(device)\n" + ADAM,
        "its model may be on an accelerator that is not CUDA",
    ),
}


@pytest.mark.parametrize(("code", "because"), LEFT.values(), ids=LEFT)
def test_it_is_left(code: str, because: str) -> None:
    left(code, because)


@pytest.mark.parametrize("optimizer", ["Adam(model.parameters())", "SGD(model.parameters(), 0.1)"])
def test_late_gradients_are_no_reason_where_there_is_no_momentum(optimizer: str) -> None:
    later = "for epoch in range(10):\n    model.requires_grad_(epoch > 5)\n"

    check(
        MODEL + f"optimizer = optim.{optimizer}\n" + later,
        MODEL + f"optimizer = optim.{optimizer[:-1]}, fused=True)\n" + later,
    )


def test_accelerate_moves_the_model_later() -> None:
    check_leaves(FusedOptimizer, ACCELERATED, "Accelerate prepares the optimizer and moves the model")


def test_without_cuda_there_is_nothing_to_gain() -> None:
    code = "import torch\nmodel = torch.nn.Linear(2, 2)\noptimizer = torch.optim.Adam(model.parameters())\n"

    check_leaves(FusedOptimizer, code, "no CUDA: nothing in this file moves a model or its batches to a CUDA device")


SILENT = {
    "it is written": "optimizer = optim.Adam(model.parameters(), fused=False)\n",
    "another form is": "optimizer = optim.Adam(model.parameters(), foreach=True)\n",
    "it has no fused form": "optimizer = optim.RMSprop(model.parameters())\n",
}


@pytest.mark.parametrize("line", SILENT.values(), ids=SILENT)
def test_nothing_is_said(line: str) -> None:
    check_silent(FusedOptimizer, IMPORTS + MODEL + line + TRAIN)


@pytest.mark.parametrize(
    ("layers", "is_weighed", "is_written"),
    [
        pytest.param("nn.Linear(8, 4), nn.Linear(4, 1)", True, False, id="four tensors take few launches"),
        pytest.param("nn.Linear(8, 4), nn.Linear(4, 1)", False, True, id="asked for by name"),
        pytest.param("nn.Linear(8, 4), nn.Linear(4, 4), nn.Linear(4, 1)", True, True, id="six were seen to gain"),
        pytest.param("nn.TransformerEncoderLayer(8, 2)", True, True, id="one layer that holds many"),
    ],
)
def test_few_tensors_do_not_pay(layers: str, *, is_weighed: bool, is_written: bool) -> None:
    text = f"{IMPORTS}model = nn.Sequential({layers}).cuda()\noptimizer = optim.Adam(model.parameters())\n{TRAIN}"
    rule = FusedOptimizer.name()
    choices = Choices(weighed=frozenset({rule} if is_weighed else ()))

    result = rewrite("train.py", text, Settings(frozenset({rule}), Promise.TRAINING, choices=choices))

    assert [site.code for site in result.sites] == ["" if is_written else "never-pays-back"]


@pytest.mark.parametrize(
    ("given", "because"),
    [
        pytest.param("[scale]", "it steps one tensor, which takes few launches anyway", id="one"),
        pytest.param("[scale, nn.Parameter(x)]", "it steps 2 tensors, which takes few launches anyway", id="two"),
        pytest.param(
            "[scale] * 9", "not all that it steps is known to be parameters of models: it is given a", id="many"
        ),
    ],
)
def test_tensors_that_are_listed_are_few(given: str, because: str) -> None:
    text = (
        f"{IMPORTS}{MODEL}x = torch.ones(2, device='cuda')\nscale = torch.zeros(1, requires_grad=True, device='cuda')\n"
    )
    rule = FusedOptimizer.name()
    settings = Settings(frozenset({rule}), Promise.TRAINING, choices=Choices(weighed=frozenset({rule})))

    result = rewrite("train.py", f"{text}optimizer = optim.Adam({given})\n{TRAIN}", settings)

    assert [site.message.startswith(because) for site in result.sites] == [True]


TRAINER = """\
class Trainer(nn.Module):
    def __init__(self, model, optimizer):
        super().__init__()
        self.model = model
        self.optimizer = optimizer

    def forward(self, x):
        return self.model(x).sum()

    def step(self, x):
        self.optimizer.zero_grad()
        self.forward(x).backward()
        self.optimizer.step()


model = resnet18()
wrapped = model.train()
{}optimizer = optim.SGD(model.parameters(), 0.1{})
trainer = Trainer(wrapped, optimizer)
for x in torch.randn(100, 8, 3, 32, 32):
    trainer.step(x.cuda())
"""
WRAPPED = {
    "always": ("wrapped = nn.DataParallel(wrapped)\nwrapped = wrapped.cuda()\n", "True"),
    "at once": ("wrapped = nn.DataParallel(wrapped).cuda()\n", "True"),
    "where a constant says so": (
        "CUDA = True\nif CUDA:\n    wrapped = nn.DataParallel(wrapped)\n    wrapped = wrapped.cuda()\n",
        "CUDA",
    ),
    "compiled": ("wrapped = torch.compile(wrapped)\nwrapped.cuda()\n", "True"),
}


@pytest.mark.parametrize(("moved", "fused"), WRAPPED.values(), ids=WRAPPED)
def test_what_it_is_wrapped_in_takes_a_model_along(moved: str, fused: str) -> None:
    check_rewrites(
        FusedOptimizer, IMPORTS + TRAINER.format(moved, ""), IMPORTS + TRAINER.format(moved, f", fused={fused}")
    )


@pytest.mark.parametrize("trained", ["wrapped", "average"])
def test_an_average_of_a_model_has_parameters_of_its_own(trained: str) -> None:
    code = TRAINER.format("average = optim.swa_utils.AveragedModel(wrapped)\naverage = average.cuda()\n", "")

    check_leaves(
        FusedOptimizer,
        IMPORTS + code.replace("Trainer(wrapped", f"Trainer({trained}"),
        "its model is not moved to CUDA in this file",
    )


WIDE = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(784, 1280), nn.ReLU(), nn.Linear(1280, 640), nn.ReLU(), nn.Linear(640, 10)).cuda()
optimizer = torch.optim.{}
for images in torch.randn(100, 64, 784):
    optimizer.zero_grad()
    loss = model(images.cuda()).square().mean(){}
    loss.backward()
    optimizer.step()
"""
SGD = "SGD(model.parameters(), lr=0.1{})"
MOMENTUM = SGD.format(", momentum=0.9")


@pytest.mark.parametrize(
    ("optimizer", "more", "form", "codes"),
    [
        pytest.param(MOMENTUM, "", "auto", ["momentum-unset", ""], id="its scaler may leave momentum unset"),
        pytest.param(MOMENTUM, "", "fp16", ["momentum-unset", ""], id="in fp16, too"),
        pytest.param(MOMENTUM, "", "bf16", ["", ""], id="bf16 has no scaler"),
        pytest.param(MOMENTUM, " + torch.fft.fft(x).abs().sum()", "auto", ["", "breaks-in-16-bits"], id="it is left"),
        pytest.param(MOMENTUM, " * 1e6", "auto", ["", ""], id="what is too large for fp16 has bf16 alone"),
        pytest.param(SGD.format(""), "", "auto", ["", ""], id="there is no momentum"),
        pytest.param("Adam(model.parameters())", "", "auto", ["", ""], id="Adam's begins as zeros"),
    ],
)
def test_beside_mixed_precision(optimizer: str, more: str, form: AmpForm, codes: list[str]) -> None:
    rules = frozenset({"amp", "fused-optimizer"})
    settings = Settings(rules, Promise.TRAINING, choices=Choices(amp=form))

    result = rewrite("train.py", WIDE.format(optimizer, more), settings)
    again = rewrite("train.py", result.after, settings)

    assert [site.code for site in sorted(result.sites, key=lambda each: each.line)] == codes
    assert again.after == result.after
