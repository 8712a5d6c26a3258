from __future__ import annotations

import json
import subprocess
import sys

import pytest
from kit import check_leaves, check_rewrites, check_silent, run

from autotune_rewrite.rewriting.config import Settings
from autotune_rewrite.rewriting.results import Rewrite
from autotune_rewrite.rewriting.rewrite import Text, rewrite, rewrite_project
from codemods.codemod import Leaves, Promise, Rewrites
from codemods.rules.compile import Compile
from codemods.rules.loader_workers import LoaderWorkers

NEWEST = (2, 15)
"""Compiles torch's own modules in place, too."""

HEAD = """\
import torch
from torch import nn
import torch.nn.functional as F

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 2)

    def forward(self, x):
        return self.second(F.relu(self.first(x)))


"""
TRAINING = """\
for x in torch.randn(4, 16, 8, device=device):
    model(x).square().mean().backward()
"""
WHERE_CUDA = 'if device.type == "cuda":\n    model.compile()\n'


@pytest.mark.parametrize("example", [each for each in Compile.examples if isinstance(each, Rewrites)])
def test_examples_that_are_rewritten(example: Rewrites) -> None:
    check_rewrites(Compile, example.before, example.after)


@pytest.mark.parametrize("example", [each for each in Compile.examples if isinstance(each, Leaves)])
def test_examples_that_are_left(example: Leaves) -> None:
    check_leaves(Compile, example.code, example.because)


PLACES = {
    "where DataParallel does not copy it": (
        "model = Net().to(device)\nif torch.cuda.device_count() > 1:\n    model = nn.DataParallel(model)\n",
        "model = Net().to(device)\nif torch.cuda.device_count() > 1:\n    model = nn.DataParallel(model)\n"
        'elif device.type == "cuda":\n    model.compile()\n',
    ),
    "where DataParallel does not copy it, with an else": (
        "import sys\n\nmodel = Net().cuda()\nif len(sys.argv) > 1:\n    model = nn.DataParallel(model)\n"
        "else:\n    print('one GPU')\n",
        "import sys\n\nmodel = Net().cuda()\nif len(sys.argv) > 1:\n    model = nn.DataParallel(model)\n"
        "else:\n    print('one GPU')\n    model.compile()\n",
    ),
    "where it is moved beside DataParallel": (
        "import sys\n\nmodel = Net()\nif len(sys.argv) > 1:\n    model = nn.DataParallel(model).cuda()\n"
        "else:\n    model.cuda()\n",
        "import sys\n\nmodel = Net()\nif len(sys.argv) > 1:\n    model = nn.DataParallel(model).cuda()\n"
        "else:\n    model.cuda()\n    model.compile()\n",
    ),
    "under the device's condition": (
        "model = Net().to(device)\n",
        "model = Net().to(device)\n" + WHERE_CUDA,
    ),
    "plain where CUDA is certain": (
        "model = Net().cuda()\n",
        "model = Net().cuda()\nmodel.compile()\n",
    ),
    "after it is made on the device": (
        "model = nn.Sequential(nn.Linear(8, 8, device=device), nn.ReLU())\n",
        "model = nn.Sequential(nn.Linear(8, 8, device=device), nn.ReLU())\n" + WHERE_CUDA,
    ),
    "after its layers are made on the device": (
        "class Net(nn.Module):\n    def __init__(self, device):\n        super().__init__()\n"
        '        self.first = nn.Linear(8, 8, device=device)\n        self.second = nn.Linear(8, 8, device="cpu")\n\n\n'
        "model = Net(device)\n",
        "class Net(nn.Module):\n    def __init__(self, device):\n        super().__init__()\n"
        '        self.first = nn.Linear(8, 8, device=device)\n        self.second = nn.Linear(8, 8, device="cpu")\n\n\n'
        "model = Net(device)\n" + WHERE_CUDA,
    ),
    "after a move on a line of its own": (
        "model = Net()\nmodel.to(device)\nprint(model)\n",
        "model = Net()\nmodel.to(device)\n" + WHERE_CUDA + "print(model)\n",
    ),
    "inside the script's own condition": (
        "model = Net()\nif torch.cuda.is_available():\n    model = model.cuda()\n",
        "model = Net()\nif torch.cuda.is_available():\n    model = model.cuda()\n    model.compile()\n",
    ),
    "in the branch that moves it to CUDA": (
        "gpu = torch.cuda.is_available()\nmodel = Net()\nif gpu:\n    model.cuda()\nelse:\n    model.to('cpu')\n",
        (
            "gpu = torch.cuda.is_available()\nmodel = Net()\nif gpu:\n    model.cuda()\n    model.compile()\n"
            "else:\n    model.to('cpu')\n"
        ),
    ),
    "by the test of a conditional expression": (
        "use_cuda = torch.cuda.is_available()\nmodel = Net().cuda() if use_cuda else Net()\n",
        (
            "use_cuda = torch.cuda.is_available()\nmodel = Net().cuda() if use_cuda else Net()\n"
            "if use_cuda:\n    model.compile()\n"
        ),
    ),
    "after the whole if where its branches move it in different ways": (
        "model = Net()\nif torch.cuda.device_count() > 2:\n    model.to('cuda:1')\nelse:\n    model.to(device)\n",
        (
            "model = Net()\nif torch.cuda.device_count() > 2:\n    model.to('cuda:1')\nelse:\n    model.to(device)\n"
            "if any(each.is_cuda for each in model.parameters()):\n    model.compile()\n"
        ),
    ),
    "after the hooks and moves that follow": (
        "model = Net().to(device)\nloss = nn.L1Loss().cuda()\nmodel.register_forward_hook(print)\nmodel.apply(print)\n",
        "model = Net().to(device)\nloss = nn.L1Loss().cuda()\nmodel.register_forward_hook(print)\nmodel.apply(print)\n"
        + WHERE_CUDA,
    ),
    "after the weights that it is given": (
        "model = Net().to(device)\nmodel.load_state_dict(torch.load('net.pt'))\nmodel.train()\nprint(model)\n",
        "model = Net().to(device)\nmodel.load_state_dict(torch.load('net.pt'))\nmodel.train()\n"
        + WHERE_CUDA
        + "print(model)\n",
    ),
    "before a loss that follows": (
        "model = Net().to(device)\nloss = nn.L1Loss().to(device)\n",
        "model = Net().to(device)\n" + WHERE_CUDA + "loss = nn.L1Loss().to(device)\n",
    ),
    "where a model moves itself": (
        "class Own(Net):\n    def __init__(self):\n        super().__init__()\n        self.to(device)\n\n\nmodel = Own()\n",
        (
            "class Own(Net):\n    def __init__(self):\n        super().__init__()\n        self.to(device)\n\n\n"
            "model = Own()\n" + WHERE_CUDA
        ),
    ),
    "in the function that a process runs": (
        "def work(rank):\n    model = Net().cuda(rank)\n    for x in torch.randn(4, 16, 8).cuda(rank):\n"
        "        model(x).sum().backward()\n\n\ntorch.multiprocessing.spawn(work, nprocs=2)\nmodel = print\n",
        "def work(rank):\n    model = Net().cuda(rank)\n    model.compile()\n    for x in torch.randn(4, 16, 8).cuda(rank):\n"
        "        model(x).sum().backward()\n\n\ntorch.multiprocessing.spawn(work, nprocs=2)\nmodel = print\n",
    ),
    "where a function's result gets its name": (
        "def build():\n    net = Net()\n    return net.to(device)\n\n\nmodel = build()\n",
        "def build():\n    net = Net()\n    return net.to(device)\n\n\nmodel = build()\n" + WHERE_CUDA,
    ),
}


def test_two_models_beside_one_choice_share_its_else() -> None:
    before = """\
import sys

model, critic = Net().cuda(), Net().cuda()
if len(sys.argv) > 1:
    model = nn.DataParallel(model)
    critic = nn.DataParallel(critic)
optimizer = torch.optim.SGD([*model.parameters(), *critic.parameters()], lr=0.1)
"""
    after = before.replace("optimizer", "else:\n    model.compile()\n    critic.compile()\noptimizer")
    training = (
        TRAINING.replace("model(x)", "critic(F.pad(model(x), (0, 6)))")
        .replace(", device=device", "")
        .replace("(x)", "(x.cuda())")
    )

    check_rewrites(Compile, HEAD + before + training, HEAD + after + training)


def test_a_recurrent_model_is_left_beside_dataparallel_for_what_it_is() -> None:
    start = "import sys\n\nmodel = nn.LSTM(8, 8, 2).cuda()\nif len(sys.argv) > 1:\n    model = nn.DataParallel(model)\n"

    result = run(Compile, HEAD + start + TRAINING.replace("model(x)", "model(x)[0]"))

    assert "compile()" not in result.after


@pytest.mark.parametrize(("before", "after"), PLACES.values(), ids=PLACES)
def test_it_stands_where_a_colleague_would_put_it(before: str, after: str) -> None:
    check_rewrites(Compile, HEAD + before + TRAINING, HEAD + after + TRAINING, NEWEST)


def test_the_inner_module_is_compiled_before_ddp_wraps_it() -> None:
    wrap = "ddp = nn.parallel.DistributedDataParallel(model)\n"
    training = TRAINING.replace("model(x)", "ddp(x)")
    before = "model = Net().cuda()\n"
    check_rewrites(Compile, HEAD + before + wrap + training, HEAD + before + "model.compile()\n" + wrap + training)


SYNCHRONIZED = HEAD.replace("self.second =", "self.norm = nn.BatchNorm1d(8)\n        self.second =").replace(
    "F.relu(self.first(x))", "F.relu(self.norm(self.first(x)))"
)
GATHERS = (
    "its batch norms gather from other processes, which is not compiled: the graph breaks at each of them (line {})"
)


@pytest.mark.parametrize(
    "models",
    [
        pytest.param("model = nn.SyncBatchNorm.convert_sync_batchnorm(Net()).cuda()\n", id="where it is made"),
        pytest.param("model = Net()\nmodel = nn.SyncBatchNorm.convert_sync_batchnorm(model).cuda()\n", id="later"),
        pytest.param("import apex\nmodel = apex.parallel.convert_syncbn_model(Net()).cuda()\n", id="by apex"),
        pytest.param(
            "import sys\nmodel = Net().cuda()\nif len(sys.argv) > 1:\n"
            "    model = nn.SyncBatchNorm.convert_sync_batchnorm(model)\n",
            id="under a condition",
        ),
    ],
)
def test_a_model_whose_batch_norms_are_synchronized_is_left(models: str) -> None:
    line = (
        SYNCHRONIZED.count("\n")
        + [(" = " in each and "convert_" in each) for each in models.splitlines()].index(True)
        + 1
    )
    check_leaves(Compile, SYNCHRONIZED + models + TRAINING, GATHERS.format(line))


def test_a_model_with_a_layer_that_synchronizes_is_left() -> None:
    code = SYNCHRONIZED.replace("nn.BatchNorm1d", "nn.SyncBatchNorm")
    line = [("nn.SyncBatchNorm" in each) for each in code.splitlines()].index(True) + 1
    check_leaves(Compile, f"{code}model = Net().cuda()\n{TRAINING}", GATHERS.format(line))


def test_a_model_that_only_an_option_synchronizes_or_that_has_no_batch_norms_is_compiled() -> None:
    option = (
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--sync', action='store_true')\n"
        "args = parser.parse_args()\nmodel = Net().cuda()\n"
        "{}if args.sync:\n    model = nn.SyncBatchNorm.convert_sync_batchnorm(model)\n"
    )
    always = "model = nn.SyncBatchNorm.convert_sync_batchnorm(Net()).cuda()\n"
    for before, after in [
        (SYNCHRONIZED + option.format(""), SYNCHRONIZED + option.format("model.compile()\n")),
        (HEAD + always, HEAD + always + "model.compile()\n"),
    ]:
        check_rewrites(Compile, before + TRAINING, after + TRAINING)


WRAP = "model = nn.parallel.DistributedDataParallel(model)\n"
SPREAD = (
    "import sys\n\nmodel = Net()\nprint(model)\nif len(sys.argv) > 1:\n"
    "    model = nn.SyncBatchNorm.convert_sync_batchnorm(model)\n"
    f"    if len(sys.argv) > 2:\n        model.cuda(1)\n        {WRAP}    else:\n        model.cuda()\n        {WRAP}"
)
ARMS = {
    "each arm of a choice moves it in a way of its own": f"{SPREAD}else:\n    model = model.cuda()\n",
    "another arm ends in an error": f"{SPREAD}else:\n    model.cuda()\n    raise NotImplementedError\n",
    "it does so before it moves the model": f"{SPREAD}else:\n    raise NotImplementedError\n",
}


@pytest.mark.parametrize("models", ARMS.values(), ids=ARMS)
def test_it_is_compiled_where_it_is_made_if_every_arm_below_brings_it_to_cuda(models: str) -> None:
    after = models.replace("model = Net()\n", "model = Net()\nmodel.compile()\n")
    check_rewrites(Compile, HEAD + models + TRAINING, HEAD + after + TRAINING)


def test_the_condition_of_one_arm_is_not_asked_below_both_where_each_moves_it_to_cuda() -> None:
    convert = "    model = nn.SyncBatchNorm.convert_sync_batchnorm(model)\n"
    models = f"{SPREAD}else:\n    print('on the CPU')\n".replace(convert, "")
    after = models.replace("else:\n    print", "    model.compile()\nelse:\n    print")
    check_rewrites(Compile, HEAD + models + TRAINING, HEAD + after + TRAINING)


def test_a_move_after_which_an_error_ends_the_script_is_no_place_to_compile_it() -> None:
    models = "import sys\n\nmodel = Net()\nif sys.argv[1:]:\n    model.cuda()\n    raise ValueError\n"
    training = TRAINING.replace("model(x)", "model(x.cuda())")
    check_leaves(Compile, HEAD + models + training, "it is not moved to CUDA in this file")


@pytest.mark.parametrize(
    ("class_", "is_said"),
    [
        pytest.param("nn.Linear", True, id="a layer"),
        pytest.param("(nn.Linear if input() else Wide)", False, id="a layer or a network"),
    ],
)
def test_of_what_is_chosen_in_one_place_a_network_is_meant(class_: str, *, is_said: bool) -> None:
    network = "class Wide(Net):\n    def __init__(self, size, number):\n        super().__init__()\n\n\n"
    text = f"{HEAD}{network}model = {class_}(8, 2).to(device)\n{TRAINING}"
    said = {each.message for each in run(Compile, text).sites}

    assert ("it is a single layer: there is nothing to fuse in it" in said) is is_said


LOSSES = """\
class Weighted(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = {inner}

    def forward(self, x):
        return self.inner(x, x.argmax(1))


class FocalLoss(nn.Module):
    def forward(self, x):
        return x.exp().mean()


loss = {loss}()
model = Net().to(device)
"""


@pytest.mark.parametrize(
    ("inner", "loss", "is_said"),
    [
        pytest.param("nn.CrossEntropyLoss()", "Weighted", False, id="a loss of torch in it"),
        pytest.param("None", "FocalLoss", False, id="a class of that name"),
        pytest.param("nn.Bilinear(2, 1, 3)", "Weighted", True, id="something that is trained"),
    ],
)
def test_a_loss_need_not_be_on_cuda(inner: str, loss: str, *, is_said: bool) -> None:
    text = HEAD + LOSSES.format(inner=inner, loss=loss) + TRAINING.replace("model(x)", "loss(model(x))")

    said = [each.message for each in run(Compile, text).sites if not each.rewrites]
    assert ("it is not moved to CUDA in this file" in said) is is_said


def test_a_model_that_is_moved_only_inside_ddp_is_compiled_before() -> None:
    wrap = "ddp = nn.parallel.DistributedDataParallel(model.cuda())\n"
    training = TRAINING.replace("model(x)", "ddp(x)")
    check_rewrites(
        Compile, HEAD + "model = Net()\n" + wrap + training, HEAD + "model = Net()\nmodel.compile()\n" + wrap + training
    )


@pytest.mark.parametrize(
    "copied",
    [
        pytest.param("import copy\naverage = copy.deepcopy(model).eval().cuda()\n", id="in one expression"),
        pytest.param("from copy import deepcopy\naverage = deepcopy(model)\naverage.cuda()\n", id="by its name"),
    ],
)
def test_a_copy_that_is_moved_is_not_the_model_that_trains(copied: str) -> None:
    wrap = "model = nn.parallel.DistributedDataParallel(model.cuda())\n"
    made = f"{HEAD}model = Net()\n"
    check_rewrites(Compile, f"{made}{copied}{wrap}{TRAINING}", f"{made}model.compile()\n{copied}{wrap}{TRAINING}")


def test_a_copy_that_trains_itself_is_compiled_where_it_is_moved() -> None:
    before = "import copy\nfirst = Net()\nmodel = copy.deepcopy(first)\nmodel.cuda()\n"
    check_rewrites(Compile, HEAD + before + TRAINING, HEAD + before + "model.compile()\n" + TRAINING)


def test_an_attribute_of_a_trainer_is_compiled_where_the_trainer_moves_it() -> None:
    before = """\
class Trainer:
    def __init__(self, model):
        self.model = model.to(device)

    def train(self):
        for x in torch.randn(4, 16, 8, device=device):
            self.model(x).sum().backward()


Trainer(Net()).train()
"""
    line = "        self.model = model.to(device)\n"
    added = '        if device.type == "cuda":\n            self.model.compile()\n'
    check_rewrites(Compile, HEAD + before, HEAD + before.replace(line, line + added))


def test_the_maker_of_a_model_comes_before_a_function_that_is_given_it() -> None:
    code = """\
def train(net):
    net.to(device)
    for x in torch.randn(4, 16, 8, device=device):
        net(x).sum().backward()


model = Net().to(device)
"""
    check_rewrites(Compile, HEAD + code + "train(model)\n", HEAD + code + WHERE_CUDA + "train(model)\n")


def test_several_models_are_compiled_under_one_condition() -> None:
    models = "G = Net().to(device)\nD = Net().to(device)\n"
    training = TRAINING.replace("model(x)", "D(F.pad(G(x), (0, 6)))")
    added = 'if device.type == "cuda":\n    G.compile()\n    D.compile()\n'
    check_rewrites(Compile, HEAD + models + training, HEAD + models + added + training)


TWO_NAMES = HEAD.replace("    def forward", "    def compile(self):\n        return self\n\n    def forward")


def test_two_names_are_kept_where_the_class_has_a_compile_of_its_own() -> None:
    before = "model = Net().to(device)\n" + TRAINING + "torch.save(model.state_dict(), 'net.pt')\n"
    after = before.replace(
        "model = Net().to(device)\n",
        'model = Net().to(device)\ncompiled_model = torch.compile(model) if device.type == "cuda" else model\n',
    ).replace("model(x)", "compiled_model(x)")
    check_rewrites(Compile, TWO_NAMES + before, TWO_NAMES + after)


ONE_NAME = (
    "its class has a compile of its own, and a second name would not be seen where the training calls it (line {})"
)


def test_two_names_are_not_kept_where_the_model_is_handed_on() -> None:
    code = """\
def train(net):
    for x in torch.randn(4, 16, 8, device=device):
        net(x).sum().backward()


model = Net().to(device)
train(model)
"""
    check_leaves(Compile, TWO_NAMES + code, ONE_NAME.format(23))


TRAIN = "def train():\n    for x in torch.randn(4, 16, 8, device=device):\n        model(x).sum().backward()\n\n\n"
TOO_EARLY = {
    "in the same function": ("model = Net()\n" + TRAINING + "model.to(device)\n" + TRAINING, 23),
    "in a function that is called": ("model = Net()\n\n\n" + TRAIN + "train()\nmodel.to(device)\ntrain()\n", 26),
    "in a function that may be called at any time": (
        "model = Net()\n\n\n" + TRAIN + "start(train)\nmodel.to(device)\n",
        26,
    ),
}


@pytest.mark.parametrize(("code", "line"), TOO_EARLY.values(), ids=TOO_EARLY)
def test_two_names_are_not_kept_where_the_second_would_be_read_before_it_is_there(code: str, line: int) -> None:
    check_leaves(Compile, TWO_NAMES + code, ONE_NAME.format(line))


def test_two_names_are_kept_for_a_function_that_is_called_later() -> None:
    moved = "model = Net().to(device)\n"
    added = 'compiled_model = torch.compile(model) if device.type == "cuda" else model\n'
    check_rewrites(
        Compile,
        TWO_NAMES + moved + "\n\n" + TRAIN + "train()\n",
        TWO_NAMES + moved + added + "\n\n" + TRAIN.replace("model(x)", "compiled_model(x)") + "train()\n",
    )


def test_the_name_compiled_is_not_taken_twice() -> None:
    code = "model = Net().to(device)\ncompiled_model = None\n" + TRAINING
    check_leaves(Compile, TWO_NAMES + code, "its class has a compile of its own, and compiled_model is taken")


# The guards.

PENALTY = """\
for x in torch.randn(4, 16, 8, device=device):
    mixed = F.pad(G(x), (0, 6)).detach().requires_grad_()
    {grad}
    (slope.norm() - 1).square().backward()
"""
GAN = "G = Net().to(device)\nD = Net().to(device)\n"
PENALTIES = {
    "autograd.grad of a name": "out = D(mixed)\n    (slope,) = torch.autograd.grad(out, mixed, create_graph=True)",
    "autograd.grad of a call": "slope = torch.autograd.grad(D(mixed).sum(), mixed, create_graph=True)[0]",
    "autograd.grad by keywords": (
        "out = D(mixed)\n    slope = torch.autograd.grad(outputs=out.sum(), inputs=mixed, create_graph=True)[0]"
    ),
    "a flag that decides when the script runs": (
        "slope = torch.autograd.grad(D(mixed).sum(), mixed, create_graph=torch.is_grad_enabled())[0]"
    ),
    "backward with create_graph": "D(mixed).sum().backward(create_graph=True)\n    slope = mixed.grad",
}


@pytest.mark.parametrize("grad", PENALTIES.values(), ids=PENALTIES)
def test_only_the_model_under_the_gradient_penalty_is_left(grad: str) -> None:
    code = HEAD + GAN + PENALTY.format(grad=grad)
    line = next(i for i, each in enumerate(code.splitlines(), 1) if "create_graph" in each)
    result = run(Compile, code)

    assert result.after == code.replace(GAN, GAN + 'if device.type == "cuda":\n    G.compile()\n')
    assert [site.message for site in result.sites if not site.rewrites] == [
        f"gradient penalty / second derivative through D (line {line})"
    ]


def test_the_penalty_is_found_through_a_function() -> None:
    code = """\
def gradient_penalty(critic, real):
    real.requires_grad_()
    out = critic(real)
    return torch.autograd.grad(out.sum(), real, create_graph=True)[0].norm()


model = Net().to(device)
for x in torch.randn(4, 16, 8, device=device):
    gradient_penalty(model, x).backward()
"""
    check_leaves(Compile, HEAD + code, "gradient penalty / second derivative through model (line 21)")


def test_the_penalty_is_found_through_what_callers_computed() -> None:
    code = """\
def penalty(out, x):
    return torch.autograd.grad(out.sum(), x, create_graph=True)[0].norm()


model = Net().to(device)
for x in torch.randn(4, 16, 8, device=device):
    x.requires_grad_()
    y = model(x)
    penalty(y, x).backward()
"""
    check_leaves(Compile, HEAD + code, "gradient penalty / second derivative through model (line 19)")


@pytest.mark.parametrize("transform", ["torch.func.hessian", "torch.func.jacrev", "torch.autograd.functional.hessian"])
def test_function_transforms_are_not_compiled_through(transform: str) -> None:
    code = f"model = Net().to(device)\n{TRAINING}    print({transform}(lambda z: model(z).sum())(x))\n"
    line = (HEAD + code).count("\n")
    check_leaves(Compile, HEAD + code, f"derivatives by {transform}() through model (line {line})")


def test_first_derivatives_with_respect_to_the_input_are_fine() -> None:
    training = """\
for x in torch.randn(4, 16, 8, device=device):
    x.requires_grad_()
    loss = model(x).square().mean()
    slope = torch.autograd.grad(loss, x, retain_graph=True)[0]
    loss.backward()
"""
    check_rewrites(
        Compile,
        HEAD + "model = Net().to(device)\n" + training,
        HEAD + "model = Net().to(device)\n" + WHERE_CUDA + training,
    )


FORWARD = "        return self.second(F.relu(self.first(x)))\n"
FORWARDS = {
    "reads a number out of a tensor": (
        "        if self.first(x).sum().item() > 0:\n            x = -x\n",
        "forward has data-dependent Python: .item() (line 15)",
    ),
    "makes an array": (
        "        x = x * float(x.detach().cpu().numpy().max())\n",
        "forward has data-dependent Python: .numpy() (line 15)",
    ),
    "branches on a tensor": (
        "        if x.sum() > 0:\n            x = -x\n",
        "forward has data-dependent Python: it branches on a tensor (line 15)",
    ),
    "branches on two tensors": (
        "        if self.training and not (x > 0).all():\n            x = -x\n",
        "forward has data-dependent Python: it branches on a tensor (line 15)",
    ),
    "makes a Python number of a tensor": (
        "        x = x * int(x.sum())\n",
        "forward has data-dependent Python: int() of a tensor (line 15)",
    ),
    "prints": ("        print(x.shape)\n", "forward prints (line 15)"),
    "counts its calls": (
        "        self.calls += 1\n",
        "forward counts in self.calls, and each new value compiles it anew (line 15)",
    ),
    "calls an extension": (
        "        x = torch.utils.cpp_extension.load('fused', ['fused.cpp']).act(x)\n",
        "forward calls torch.utils.cpp_extension.load, which is not compiled (line 15)",
    ),
    "is sparse": (
        "        x = torch.sparse.mm(x, x)\n",
        "forward calls torch.sparse.mm, which is not compiled (line 15)",
    ),
}


@pytest.mark.parametrize(("line", "because"), FORWARDS.values(), ids=FORWARDS)
def test_not_compiling_a_forward_that(line: str, because: str) -> None:
    head = HEAD.replace(FORWARD, line + FORWARD)
    check_leaves(Compile, head + "model = Net().to(device)\n" + TRAINING, because)


def test_not_compiling_a_forward_that_calls_an_object_that_does_so() -> None:
    size = "class Size:\n    def __call__(self, x):\n        return x.sum().item()\n\n\nsize = Size()\n\n\n"
    head = HEAD.replace("class Net", f"{size}class Net").replace(FORWARD, "        x = x * size(x)\n" + FORWARD)
    because = "forward has data-dependent Python: .item() (line 10)"
    check_leaves(Compile, head + "model = Net().to(device)\n" + TRAINING, because)


GRAPH = """\
edges = torch.tensor([[0, 1], [1, 0]])
graph = torch.sparse_coo_tensor(edges, torch.ones(2), (8, 8), device=device)
"""
OF_SPARSE = "multiply a sparse tensor: TorchDynamo compiles nothing of a function that is given one (line 15)"


@pytest.mark.parametrize(
    ("line", "product"),
    [
        pytest.param("x = torch.mm(self.graph, x)", "mm()", id="a function that takes any matrices"),
        pytest.param("x = self.graph.matmul(x)", "matmul()", id="a method"),
        pytest.param("x = self.graph @ x", "a product", id="an operator"),
    ],
)
def test_not_compiling_products_in_a_script_that_makes_sparse_tensors(line: str, product: str) -> None:
    head = HEAD.replace(FORWARD, f"        {line}\n{FORWARD}")
    model = "model = Net().to(device)\n"

    check_leaves(Compile, f"{head}{GRAPH}{model}model.graph = graph\n{TRAINING}", f"{product} may {OF_SPARSE}")
    dense = "model.graph = torch.eye(8, device=device)\n"
    check_rewrites(Compile, head + model + dense + TRAINING, head + model + WHERE_CUDA + dense + TRAINING)


def test_not_compiling_a_product_that_only_sparse_tensors_have() -> None:
    head = HEAD.replace(FORWARD, f"        x = torch.spmm(self.graph, x)\n{FORWARD}")

    check_leaves(Compile, f"{head}model = Net().to(device)\n{TRAINING}", f"spmm() may {OF_SPARSE}")


def test_compiling_beside_sparse_tensors_that_are_not_multiplied() -> None:
    text = f"{HEAD}{GRAPH}model = Net().to(device)\n"

    check_rewrites(Compile, text + TRAINING, text + WHERE_CUDA + TRAINING)


FINE = {
    "the shape of a tensor": "        if x.shape[0] > 4:\n            x = -x\n",
    "whether there is a tensor": "        if x is not None:\n            x = -x\n",
    "the mode": "        if self.training:\n            x = -x\n",
    "keeping a tensor": "        self.last = x\n",
    "no leaf": "        x = x + torch.ones(8, device=x.device).requires_grad_(False)\n",
}


@pytest.mark.parametrize("line", FINE.values(), ids=FINE)
def test_compiling_a_forward_that_depends_on(line: str) -> None:
    head = HEAD.replace(FORWARD, line + FORWARD)
    check_rewrites(
        Compile,
        head + "model = Net().to(device)\n" + TRAINING,
        head + "model = Net().to(device)\n" + WHERE_CUDA + TRAINING,
    )


def test_not_compiling_through_kernels_of_other_libraries() -> None:
    head = "import torch_geometric\n" + HEAD.replace("nn.Linear(8, 8)", "torch_geometric.nn.GCNConv(8, 8)")
    because = "forward calls torch_geometric.nn.GCNConv, which is not compiled (line 16)"
    check_leaves(Compile, head + "model = Net().to(device)\n" + TRAINING, because)


BREAKS = {
    "a Variable": (
        "        x = x + torch.autograd.Variable(torch.zeros(8, device=x.device))\n",
        "forward makes a Variable, which ends the graph: "
        "write the tensor itself: Variable does nothing since torch 0.4 (line 15)",
    ),
    "a new leaf": (
        "        x = x + torch.zeros(8, device=x.device, requires_grad=True)\n",
        "forward makes a tensor that requires gradients, which ends the graph: "
        "make it before the model is called (line 15)",
    ),
    "a question for the type of a tensor": (
        "        if isinstance(x.data, torch.cuda.FloatTensor):\n            x = x * 2\n",
        "forward asks for the type of a tensor, which ends the graph: ask for its is_cuda (line 15)",
    ),
    "a tensor made a leaf": (
        "        x = torch.relu(x).requires_grad_()\n",
        "forward makes a tensor that requires gradients, which ends the graph: "
        "make it before the model is called (line 15)",
    ),
}
TYPED = {
    "a size": "torch.cuda.FloatTensor(x.size())",
    "a shape": "torch.cuda.FloatTensor(x.shape)",
    "a part of a shape": "torch.FloatTensor(x.shape[1:])",
    "a generic tensor": "torch.Tensor(x.size())",
    "a size by name": "torch.cuda.FloatTensor(size)",
}


@pytest.mark.parametrize(("line", "because"), BREAKS.values(), ids=BREAKS)
def test_not_compiling_a_forward_with(line: str, because: str) -> None:
    code = HEAD.replace(FORWARD, line + FORWARD) + "model = Net().to(device)\n" + TRAINING
    check_leaves(Compile, code, because)


def test_not_compiling_for_a_new_size_in_each_iteration() -> None:
    training = TRAINING.replace("model(x)", "model(x[:rows])").replace(
        "\n    ", "\n    rows = random.randint(1, 16)\n    ", 1
    )
    code = "import random\n" + HEAD + "model = Net().to(device)\n" + training
    check_leaves(
        Compile,
        code,
        "a random number (line 21) says how large what model is given is, and each size may compile it anew",
    )


@pytest.mark.parametrize("made", TYPED.values(), ids=TYPED)
def test_not_compiling_a_typed_constructor_of(made: str) -> None:
    """Dynamo makes a tensor of two elements of it, and the script dies: seen with torch 2.12, 2.14 and 2.15."""
    lines = f"        size = x.size()\n        x = x + {made}.normal_()\n"
    code = HEAD.replace(FORWARD, lines + FORWARD) + "model = Net().to(device)\n" + TRAINING
    because = (
        f"forward calls {made.partition('(')[0]}(size), which takes the size for data once it is compiled: "
        "write torch.empty(size, device=...) (line 16)"
    )
    check_leaves(Compile, code, because)


ARRAYS = {
    "an array": "torch.FloatTensor(np.zeros(8))",
    "what may be an array": "torch.LongTensor(unseen())",
    "a list of arrays": "torch.Tensor([np.zeros(8)])",
    "a list of arrays, as a tensor": "torch.as_tensor([np.zeros(8)])",
    "a list of NumPy's numbers": "torch.FloatTensor([np.sqrt(x.size(1))])",
    "a list of tensors": "torch.as_tensor([x.sum(), x.mean()])",
}


@pytest.mark.parametrize("made", ARRAYS.values(), ids=ARRAYS)
def test_not_compiling_what_makes_tensors_of(made: str) -> None:
    """Dynamo takes an array for a tensor, of which these make none: TorchRuntimeError, seen with torch 2.14."""
    head = "import numpy as np\nfrom elsewhere import unseen\n" + HEAD
    lines = f"        x = x + {made}.to(x.device).sum()\n"
    code = head.replace(FORWARD, lines + FORWARD) + "model = Net().to(device)\n" + TRAINING
    because = (
        f"forward calls {made.partition('(')[0]} of what may be NumPy arrays, which fails once it is compiled: "
        "write torch.tensor(..., dtype=...), or make it before (line 17)"
    )
    check_leaves(Compile, code, because)


NUMBERS = (
    *("torch.FloatTensor([0.5, 2, x.size(1)])", "torch.LongTensor(list(range(8)))", "torch.LongTensor(range(8))"),
    *("torch.Tensor([[i, len(x)] for i in range(4)])", "torch.as_tensor([1, 2])", "torch.tensor(np.zeros(8))"),
)


@pytest.mark.parametrize("made", NUMBERS)
def test_compiling_tensors_that_are_made_of_numbers(made: str) -> None:
    lines = f"        x = x + {made}.to(x.device).sum()\n"
    head = "import numpy as np\n" + HEAD.replace(FORWARD, lines + FORWARD) + "model = Net().to(device)\n"
    check_rewrites(Compile, head + TRAINING, head + WHERE_CUDA + TRAINING)


@pytest.mark.parametrize("made", ["torch.FloatTensor(*x.size())", "torch.FloatTensor(16, 8)", "x.new(x.size())"])
def test_compiling_other_legacy_constructors(made: str) -> None:
    head = HEAD.replace(FORWARD, f"        x = x + {made}.normal_().to(x.device)\n" + FORWARD)
    drawing = head + "model = Net().to(device)\n"
    check_rewrites(Compile, drawing + TRAINING, drawing + WHERE_CUDA + TRAINING)


LENGTHS = {
    "the size of a kernel": (
        "        x = F.max_pool1d(x, x.size(2))\n",
        "batches are padded to lengths of their own, which set the size of a kernel (line 15)",
    ),
    "the size of a kernel, by name and shape": (
        "        x = F.avg_pool1d(x, kernel_size=x.shape[-1])\n",
        "batches are padded to lengths of their own, which set the size of a kernel (line 15)",
    ),
    "the passes of a loop": (
        "        for i in range(x.size(1)):\n            x = x + i\n",
        "batches are padded to lengths of their own, each of which unrolls a loop anew (line 15)",
    ),
    "the size of a kernel that is named": (
        "        rows, width = x.shape\n        x = F.max_pool1d(x, kernel_size=width)\n",
        "batches are padded to lengths of their own, which set the size of a kernel (line 16)",
    ),
    "the size of a layer that is made there": (
        "        x = nn.MaxPool1d(x.size(1))(x)\n",
        "batches are padded to lengths of their own, which set the size of a kernel (line 15)",
    ),
    "the passes of a loop by a name": (
        "        steps = x.size(1)\n        for i in range(1, steps - 1):\n            x = x + i\n",
        "batches are padded to lengths of their own, each of which unrolls a loop anew (line 16)",
    ),
}
PADDED = """\
def join(items):
    return nn.utils.rnn.pad_sequence(items)


"""


@pytest.mark.parametrize(("line", "because"), LENGTHS.values(), ids=LENGTHS)
def test_not_compiling_where_a_length_decides(line: str, because: str) -> None:
    head = HEAD.replace(FORWARD, line + FORWARD)
    code = head + PADDED + "model = Net().to(device)\n" + TRAINING
    check_leaves(Compile, code, because)

    # Images of one size have one graph; a padded convolution pads no batch.
    fixed = head + "model = Net().to(device)\nfilter = nn.Conv1d(1, 1, 3, padding=1)\n"
    assert any(site.rewrites for site in run(Compile, fixed + TRAINING).sites)


BY_HAND = {
    "a collate function": (
        "def join(items):\n    longest = max(len(each) for each in items)\n"
        "    return torch.tensor([each + [0] * (longest - len(each)) for each in items])\n\n\n"
        "loader = torch.utils.data.DataLoader(texts, 8, collate_fn=join)\n"
    ),
    "an object that joins": (
        "class Join:\n    def __call__(self, items):\n        lengths = [len(each) for each in items]\n"
        "        return torch.zeros(len(items), max(lengths))\n\n\n"
        "loader = torch.utils.data.DataLoader(texts, 8, collate_fn=Join())\n"
    ),
    "a loop": (
        "def batches(texts):\n    for start in range(0, len(texts), 8):\n        some = texts[start : start + 8]\n"
        "        yield np.zeros((8, max(map(len, some))))\n\n\n"
    ),
    "a function that a loop calls": (
        "def fill(some):\n    lengths = np.array([len(each) for each in some])\n"
        "    return np.zeros((len(some), lengths.max()))\n\n\n"
        "for part in parts:\n    fill(part)\n"
    ),
    "lengths that are converted": (
        "for some in parts:\n    lengths = [len(each) for each in some]\n"
        "    lengths = torch.tensor(lengths)\n    width = lengths.max()\n"
    ),
    "the longest itself": "for some in parts:\n    width = len(max(some, key=len))\n",
}
ONCE = {
    "all of the data": "longest = max(len(each) for each in texts)\n",
    "another number": "for some in parts:\n    longest = max(each.size for each in some)\n",
    "a name that is converted": "for some in parts:\n    some = torch.tensor(some)\n    longest = some.max()\n",
}


@pytest.mark.parametrize("padding", BY_HAND.values(), ids=BY_HAND)
def test_batches_are_padded_by_hand_in(padding: str) -> None:
    head = "import numpy as np\n" + HEAD.replace(FORWARD, "        x = F.max_pool1d(x, x.size(1))\n" + FORWARD)
    because = "batches are padded to lengths of their own, which set the size of a kernel (line 16)"
    check_leaves(Compile, head + padding + "model = Net().to(device)\n" + TRAINING, because)


@pytest.mark.parametrize("padding", ONCE.values(), ids=ONCE)
def test_batches_are_of_one_length_where_it_is_that_of(padding: str) -> None:
    head = HEAD.replace(FORWARD, "        x = F.max_pool1d(x, x.size(1))\n" + FORWARD)
    made = head + padding + "model = Net().to(device)\n"
    check_rewrites(Compile, made + TRAINING, made + WHERE_CUDA + TRAINING)


def test_compiling_padded_batches_whose_length_decides_nothing() -> None:
    head = HEAD.replace(FORWARD, "        x = x.view(x.size(0), x.size(1))\n" + FORWARD) + PADDED
    check_rewrites(
        Compile,
        head + "model = Net().to(device)\n" + TRAINING,
        head + "model = Net().to(device)\n" + WHERE_CUDA + TRAINING,
    )


LEFT = {
    "DataParallel copies the model": (
        "model = nn.DataParallel(Net().to(device))\n",
        TRAINING,
        "nn.DataParallel copies the model in each iteration: convert to DistributedDataParallel first",
    ),
    "DataParallel only where there are several devices": (
        "net = Net().to(device)\nmodel = net\nif torch.cuda.device_count() > 1:\n    model = nn.DataParallel(net)\n",
        TRAINING,
        "nn.DataParallel copies the model in each iteration where torch.cuda.device_count() > 1 (line 20): "
        "convert to DistributedDataParallel first",
    ),
    "TorchScript": (
        "net = Net().to(device)\nmodel = torch.jit.script(net)\n",
        TRAINING,
        "torch.jit.script() has made TorchScript of it, which is not compiled again: remove that first",
    ),
    "a class that derives from DataParallel": (
        "class Spread(nn.DataParallel):\n    pass\n\n\nmodel = Spread(Net().to(device))\n",
        TRAINING,
        "nn.DataParallel copies the model in each iteration: convert to DistributedDataParallel first",
    ),
    "a wrapper around DataParallel": (
        "model = nn.SyncBatchNorm.convert_sync_batchnorm(nn.DataParallel(Net().to(device)))\n",
        TRAINING,
        "nn.DataParallel copies the model in each iteration: convert to DistributedDataParallel first",
    ),
    "DataParallel around a wrapper": (
        "model = nn.DataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(Net().to(device)))\n",
        TRAINING,
        "nn.DataParallel copies the model in each iteration: convert to DistributedDataParallel first",
    ),
    "DataParallel in one branch, something else in the other": (
        "model = Net().cuda()\nif __debug__:\n    model = nn.DataParallel(model)\nelse:\n"
        "    model = nn.parallel.DistributedDataParallel(model)\n",
        TRAINING,
        "nn.DataParallel copies the model in each iteration, in one branch (line 20): "
        "call model.compile() in the others",
    ),
    "wrappers that may be in each other": (
        "class Run:\n    def __init__(self):\n        self.model = Net().cuda()\n        if args.a:\n"
        "            self.model = nn.DataParallel(self.model)\n        elif args.b:\n"
        "            self.model = nn.parallel.DistributedDataParallel(self.model)\n\n\nmodel = Run().model\n",
        TRAINING,
        "nn.DataParallel copies the model in each iteration: convert to DistributedDataParallel first",
    ),
    "DataParallel around a part": (
        "model = nn.Sequential(nn.DataParallel(nn.Linear(8, 8)), nn.ReLU()).to(device)\n",
        TRAINING,
        "nn.DataParallel copies the model in each iteration: convert to DistributedDataParallel first",
    ),
    "an export": (
        "model = Net().to(device)\n",
        TRAINING + "torch.onnx.export(model, (x,), 'net.onnx')\n",
        "torch.onnx.export() traces the model, which fails once it is compiled (line 21): "
        "trace a copy that is not compiled",
    ),
    "a graph for TensorBoard": (
        "from torch.utils.tensorboard import SummaryWriter\n\nmodel = Net().to(device)\nwriter = SummaryWriter()\n",
        TRAINING + "writer.add_graph(model, torch.randn(1, 8, device=device))\n",
        "writer.add_graph() traces the model, which fails once it is compiled (line 24): "
        "trace a copy that is not compiled",
    ),
    "a graph that a function shows": (
        "def show(model):\n    open_log().add_graph(model, torch.randn(1, 8))\n\n\nmodel = Net().to(device)\nshow(model)\n",
        TRAINING,
        "open_log().add_graph() traces the model, which fails once it is compiled (line 19): "
        "trace a copy that is not compiled",
    ),
    "DataParallel, of a model that is traced as well": (
        "model = nn.DataParallel(Net().to(device))\n",
        TRAINING + "torch.onnx.export(model, (x,), 'net.onnx')\n",
        "nn.DataParallel copies the model in each iteration: convert to DistributedDataParallel first",
    ),
    "another process": (
        "def work(rank, model):\n    for x in torch.randn(4, 16, 8, device=device):\n        model(x).sum().backward()\n\n\n"
        "model = Net().to(device)\n",
        "process = torch.multiprocessing.Process(target=work, args=(0, model))\n",
        "it is given to another process: compile it in the function that runs there (line 24)",
    ),
    "spawned processes": (
        "def work(rank, model):\n    for x in torch.randn(4, 16, 8, device=device):\n        model(x).sum().backward()\n\n\n"
        "model = Net().to(device)\n",
        "torch.multiprocessing.spawn(work, args=(model,), nprocs=2)\n",
        "it is given to another process: compile it in the function that runs there (line 24)",
    ),
    "a recurrent model": (
        "model = nn.Sequential(nn.Linear(8, 8), nn.GRU(8, 8)).to(device)\n",
        TRAINING.replace("model(x)", "model(x)[0]"),
        "RNN model: TorchDynamo does not trace torch.nn.GRU()",
    ),
    "images of any size": (
        "import torchvision\n\nmodel = torchvision.models.detection.fasterrcnn_resnet50_fpn().to(device)\n",
        TRAINING,
        "dynamic shapes: the model is made for images that differ in size",
    ),
    "determinism": (
        "torch.backends.cudnn.deterministic = True\nmodel = Net().to(device)\n",
        TRAINING,
        (
            "determinism requested (line 18): without torch.use_deterministic_algorithms(True), kernels are chosen by "
            "timing them, and runs differ"
        ),
    ),
    "only another method": (
        "model = Net().to(device)\n",
        TRAINING.replace("model(x)", "model.forward(x)"),
        "only __call__ is compiled, and the training calls forward() (line 20): call the model itself",
    ),
    "hooks that are added while it trains": (
        "model = Net().to(device)\n",
        TRAINING + "    model.first.register_forward_hook(print)\n",
        "a compiled model ignores hooks that are added after its first call (line 21)",
    ),
    "hooks that are added after it was trained": (
        "model = Net().to(device)\n",
        TRAINING + "model.first.register_forward_hook(print)\n",
        "a compiled model ignores hooks that are added after its first call (line 21)",
    ),
    "hooks that some function adds": (
        "def watch(net):\n    net.first.register_forward_hook(print)\n\n\nmodel = Net().to(device)\n",
        TRAINING + "watch(model)\n",
        "a compiled model ignores hooks that are added after its first call (line 19)",
    ),
    "a single layer": (
        "model = nn.Linear(8, 2).to(device)\n",
        TRAINING,
        "it is a single layer: there is nothing to fuse in it",
    ),
    "a single layer of a class of the script": (
        "class Probe(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.linear = nn.Linear(8, 2)\n        self.linear.weight.data.normal_()\n\n"
        "    def forward(self, x):\n        x = x.view(x.size(0), -1)\n        return self.linear(x)\n\n\n"
        "model = Probe().cuda()\nmodel = nn.parallel.DistributedDataParallel(model)\n",
        TRAINING,
        "it is a single layer: there is nothing to fuse in it",
    ),
    "a single layer that is made on the device": (
        "model = nn.Linear(8, 2, device=device)\n",
        TRAINING,
        "it is a single layer: there is nothing to fuse in it",
    ),
    "a model in each pass of a loop": (
        "for fold in range(5):\n    model = Net().to(device)\n",
        "    for x in torch.randn(4, 16, 8, device=device):\n        model(x).sum().backward()\n",
        "it is made or moved again in each pass of a loop (line 18)",
    ),
    "a device that is not known": (
        "import settings\n\nmodel = Net().to(settings.where())\n",
        TRAINING,
        "the device is not known: the device comes from settings.where()",
    ),
    "a model whose class was not read": (
        "import nets\n\nmodel = nets.Net().to(device)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n",
        TRAINING,
        "it comes from nets.Net(), which is not known to be a model",
    ),
    "a model that comes from where nobody sees": (
        "from nets import *\n\nmodel = Big()\nmodel.cuda()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n",
        TRAINING,
        "'Big' is defined in no place that can be seen",
    ),
    "a name that may be another thing": (
        "from nets import get\n\nmodel = Net()\nif len(sys.argv) > 1:\n    model = get()\nmodel = model.to(device)\n",
        TRAINING,
        "what model is there is not known: it comes from nets.get(), which is not known to be a model",
    ),
    "no name before it is wrapped": (
        "model = nn.parallel.DistributedDataParallel(Net().cuda())\n",
        TRAINING,
        "it has no name of its own where it is moved to its device",
    ),
    "a function that moves several models": (
        "def train(model):\n    model.to(device)\n",
        "    for x in torch.randn(4, 8).to(device):\n        model(x).sum().backward()\n\ntrain(Net())\ntrain(Net())\n",
        "it is moved to its device in a function that is called more than once (line 19)",
    ),
    "a framework's own loop": (
        "import accelerate\n\naccelerator = accelerate.Accelerator()\nmodel = Net().to(device)\n",
        TRAINING,
        "the training loop runs inside Accelerate, which has a switch of its own for this",
    ),
    "the new switches of TF32": (
        'torch.backends.cuda.matmul.fp32_precision = "tf32"\nmodel = Net().to(device)\n',
        TRAINING,
        "Inductor of torch 2.9 to 2.13 fails beside fp32_precision (line 18)",
    ),
    "determinism that is asked for by the environment": (
        "import os\n\nos.environ['CUBLAS_WORKSPACE_CONFIG'] = ':4096:8'\nmodel = Net().to(device)\n",
        TRAINING,
        (
            "determinism requested (line 20): without torch.use_deterministic_algorithms(True), kernels are chosen by "
            "timing them, and runs differ"
        ),
    ),
    "determinism that is switched off at once": (
        "torch.backends.cudnn.deterministic = True\ntorch.use_deterministic_algorithms(False)\nmodel = Net().to(device)\n",
        TRAINING,
        (
            "determinism requested (line 18): without torch.use_deterministic_algorithms(True), kernels are chosen by "
            "timing them, and runs differ"
        ),
    ),
    "it stays on the CPU, and others do not": (
        "model = Net()\n",
        "for x in torch.randn(4, 16, 8):\n    model(x).sum().backward()\n    x = x.to(device)\n",
        "it is not moved to CUDA in this file",
    ),
}


@pytest.mark.parametrize(("models", "training", "because"), LEFT.values(), ids=LEFT)
def test_not_compiling(models: str, training: str, because: str) -> None:
    check_leaves(Compile, HEAD + models + training, because)


def test_a_model_s_methods_are_known_though_other_objects_have_attributes_of_their_names() -> None:
    others = "class Data:\n    def __init__(self, train):\n        self.train = train\n\n\nargs.cuda = torch.cuda.is_available()\n"
    training = TRAINING + "Data(True)\n"
    check_rewrites(
        Compile,
        HEAD + others + "model = Net().cuda().train()\n" + training,
        HEAD + others + "model = Net().cuda().train()\nmodel.compile()\n" + training,
    )


def test_a_name_that_may_be_a_model_that_is_left_is_left_too() -> None:
    code = "model = Net() if torch.__version__ else nn.Sequential(nn.Linear(8, 8), nn.GRU(8, 8))\nmodel.to(device)\n"
    result = run(Compile, HEAD + code + TRAINING)

    assert result.after == HEAD + code + TRAINING
    assert [site.message for site in result.sites] == [
        "model may also be a model that is left",
        "RNN model: TorchDynamo does not trace torch.nn.GRU()",
    ]


def test_models_that_one_call_may_make_are_left_for_one_reason() -> None:
    networks = "class Recurrent(Net):\n    def __init__(self):\n        super().__init__()\n        self.rnn = nn.GRU(8, 8)\n\n\n"
    code = (
        "networks = {'plain': Net, 'recurrent': Recurrent}\nmodel = networks[torch.__version__]()\nmodel.to(device)\n"
    )
    check_leaves(Compile, HEAD + networks + code + TRAINING, "RNN model: TorchDynamo does not trace torch.nn.GRU()")


def test_a_name_that_may_be_a_model_with_a_compile_of_its_own_is_left() -> None:
    own = "class Own(Net):\n    def compile(self):\n        return self\n\n\n"
    code = "model = Net() if len(torch.__version__) > 4 else Own()\nmodel.to(device)\n"
    because = "some of the models that it may be have a compile of their own"
    check_leaves(Compile, HEAD + own + code + TRAINING, because)


def test_what_is_differentiated_with_respect_to_is_not_differentiated_twice() -> None:
    training = """\
for x in torch.randn(4, 16, 8, device=device):
    fake = F.pad(G(x), (0, 6))
    (slope,) = torch.autograd.grad(D(fake).sum(), fake, create_graph=True)
    slope.norm().backward()
"""
    result = run(Compile, HEAD + GAN + training)

    assert result.after == HEAD + GAN + 'if device.type == "cuda":\n    G.compile()\n' + training


def test_the_new_switches_of_tf32_are_fine_from_2_14() -> None:
    before = 'torch.backends.cuda.matmul.fp32_precision = "tf32"\nmodel = Net().to(device)\n'
    check_rewrites(Compile, HEAD + before + TRAINING, HEAD + before + WHERE_CUDA + TRAINING, target=(2, 14))


def test_determinism_that_inductor_keeps_to_is_fine() -> None:
    before = "torch.backends.cudnn.deterministic = True\ntorch.use_deterministic_algorithms(True)\nmodel = Net().to(device)\n"
    check_rewrites(Compile, HEAD + before + TRAINING, HEAD + before + WHERE_CUDA + TRAINING)


PARSER = """\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int)
parser.add_argument("--repeat", action="store_true")
"""
SEEDED = "torch.backends.cudnn.deterministic = True\n"
FREE = {
    "an option asks for determinism, which is off by default": (
        f"args = parser.parse_args()\nif args.seed is not None:\n    {SEEDED}model = Net().cuda()\n",
        "if args.seed is None:\n    model.compile()\n",
    ),
    "two options do": (
        f"args = parser.parse_args()\nif args.seed is not None:\n    {SEEDED}if args.repeat:\n    {SEEDED}"
        "model = Net().cuda()\n",
        "if args.seed is None and not args.repeat:\n    model.compile()\n",
    ),
    "beside the condition of the device": (
        f"args = parser.parse_args()\nif args.repeat:\n    {SEEDED}model = Net().to(device)\n",
        'if device.type == "cuda" and not args.repeat:\n    model.compile()\n',
    ),
}
SETTLE = f"def settle(seed, repeat=False):\n    if repeat:\n        {SEEDED}\n\n"


def test_it_is_compiled_where_no_call_gives_the_parameter_that_asks_for_determinism() -> None:
    models = SETTLE + "settle(3)\nmodel = Net().cuda()\n"
    check_rewrites(Compile, HEAD + models + TRAINING, HEAD + models + "model.compile()\n" + TRAINING)


ASKED = {
    "a call gives the parameter that asks for it": f"{SETTLE}settle(3, True)\nmodel = Net().cuda()\n",
    "the option is on by default": f"args = parser.parse_args()\nif not args.repeat:\n    {SEEDED}model = Net().cuda()\n",
    "another place asks for it anyway": (
        f"args = parser.parse_args()\n{SEEDED}if args.repeat:\n    {SEEDED}model = Net().cuda()\n"
    ),
    "the options have no name where the model is": (
        f"def seed():\n    options = parser.parse_args()\n    if options.repeat:\n        {SEEDED}\n\n"
        "seed()\nmodel = Net().cuda()\n"
    ),
    "the option is written to in between": (
        f"args = parser.parse_args()\nif args.seed is not None:\n    {SEEDED}args.seed = None\nmodel = Net().cuda()\n"
    ),
}


@pytest.mark.parametrize(("models", "compiled"), FREE.values(), ids=FREE)
def test_it_is_compiled_where_the_user_does_not_ask_for_determinism(models: str, compiled: str) -> None:
    check_rewrites(Compile, HEAD + PARSER + models + TRAINING, HEAD + PARSER + models + compiled + TRAINING)


def test_the_options_are_asked_by_the_name_that_they_have_where_the_model_is_made() -> None:
    models = (
        "def main():\n    args = parser.parse_args()\n    if args.seed is not None:\n"
        f"        {SEEDED}    return work(args)\n\n\ndef work(given):\n    return Net().cuda()\n"
    )
    named = models.replace(
        "    return Net().cuda()\n", "    model = Net().cuda()\n    return model\n\n\nmodel = main()\n"
    )
    compiled = named.replace(".cuda()\n", ".cuda()\n    if given.seed is None:\n        model.compile()\n")
    check_rewrites(Compile, HEAD + PARSER + named + TRAINING, HEAD + PARSER + compiled + TRAINING)


@pytest.mark.parametrize("models", ASKED.values(), ids=ASKED)
def test_it_is_left_where_nothing_there_can_say_that_determinism_is_not_asked_for(models: str) -> None:
    text = HEAD + PARSER + models + TRAINING
    line = next(at for at, each in enumerate(text.splitlines(), 1) if "deterministic" in each)
    because = (
        f"determinism requested (line {line}): without torch.use_deterministic_algorithms(True), kernels are chosen by "
        "timing them, and runs differ"
    )
    check_leaves(Compile, text, because)


def test_a_criterion_without_parameters_is_no_model() -> None:
    training = TRAINING.replace("model(x).square()", "nn.CosineSimilarity(dim=1).cuda()(model(x), model(x))")
    before = f"{HEAD}model = Net().cuda()\n{training}"
    result = run(Compile, before)
    assert [site.rewrites for site in result.sites] == [True]


def test_the_page_says_what_no_script_shows() -> None:
    page = " ".join((Compile.__doc__ or "").split())
    assert "It takes a C compiler and Triton, which comes with torch for Linux alone" in page
    assert "Python 3.12 takes torch 2.4, 3.13 takes 2.6" in page


INSIDE = HEAD.replace(
    "        return self.second(F.relu(self.first(x)))",
    "        self.inner = self.first(x)\n        return self.second(F.relu(self.inner)), self.inner",
)
OUTSIDE = {
    "its whole output": (HEAD, "fake = model(x)\n    torch.autograd.grad(fake.square().sum(), fake)"),
    "its input": (HEAD, "x.requires_grad_()\n    torch.autograd.grad(model(x).sum(), x)"),
    "one of its weights": (INSIDE, "torch.autograd.grad(model(x)[0].sum(), model.first.weight)"),
    "its output, kept for what comes after": (
        HEAD,
        "fake = model(x)\n    fake.retain_grad()\n    fake.sum().backward()",
    ),
    "what another model was given": (
        INSIDE,
        "out, inner = model(x)\n    torch.autograd.grad(inner.square().sum(), inner)",
    ),
}


@pytest.mark.parametrize(("head", "use"), OUTSIDE.values(), ids=OUTSIDE)
def test_compiling_where_a_gradient_is_asked_for_of(head: str, use: str) -> None:
    training = f"for x in torch.randn(4, 16, 8, device=device):\n    {use}\n    model(x).sum().backward()\n"
    training = training.replace("model(x).sum()", "model(x)[0].sum()") if head is INSIDE else training
    check_rewrites(
        Compile,
        head + "model = Net().to(device)\n" + training,
        head + "model = Net().to(device)\n" + WHERE_CUDA + training,
    )


def test_not_rewriting_below_2_1() -> None:
    code = HEAD + "model = Net().to(device)\n" + TRAINING
    result = run(Compile, code, target=(2, 0))

    assert result.after == code
    assert [site.message for site in result.sites] == [
        (
            "needs torch 2.1, and the script may run on an older one: "
            "each operation of model is launched from Python, and none are fused"
        )
    ]


OLD = "needs torch 2.1, and the script may run on an older one"
OBSTRUCTED = HEAD.replace("        return self", "        print(x.shape)\n        return self")


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(OBSTRUCTED + "model = Net().to(device)\n" + TRAINING, id="an obstacle in its forward"),
        pytest.param(
            HEAD + "G = Net().cuda()\nD = Net().cuda()\n" + TRAINING.replace("model(x)", "(G(x) + D(x))"),
            id="several models",
        ),
        pytest.param(
            HEAD
            + "import nets\n\nmodel = Net().to(device)\noptimizer = torch.optim.SGD(model.parameters())\n"
            + TRAINING.replace("model(x)", "nets.run(model, x)"),
            id="a model that is not called",
        ),
    ],
)
def test_a_torch_without_a_compiler_decides_before_anything_else(code: str) -> None:
    assert [site.message for site in run(Compile, code, target=(1, 8)).sites] == [OLD]


def test_a_torch_without_a_compiler_does_not_matter_without_a_device_for_it() -> None:
    code = HEAD.replace("cuda", "cpu") + "model = Net()\n" + TRAINING
    because = "no CUDA: nothing in this file moves a model or its batches to a CUDA device"
    check_leaves(Compile, code, because, target=(1, 8))


LOOKS = {
    "a summary": "from torchinfo import summary\n\nmodel = Net().to(device)\nsummary(model, (1, 8))\n",
    "its operations, and what is said of them": (
        "from thop import profile\n\nmodel = Net().to(device)\nprint('made')\nmacs, _ = profile(model, (torch.ones(1, 8),))\n"
    ),
    "a graph for TensorBoard": (
        "from torch.utils.tensorboard import SummaryWriter\n\nmodel = Net().to(device)\nwriter = SummaryWriter()\n"
        "writer.add_graph(model, torch.randn(1, 8, device=device))\n"
    ),
    "under a condition": (
        "import sys\nimport torchsummary\n\nmodel = Net().to(device)\nif len(sys.argv) > 1:\n"
        "    torchsummary.summary(model, (8,))\n"
    ),
    "the last of two, and weights after it": (
        "from torchinfo import summary\n\nmodel = Net().to(device)\nsummary(model)\nsummary(model, (1, 8))\n"
        "model.load_state_dict(torch.load('weights.pt'))\n"
    ),
}


@pytest.mark.parametrize("models", LOOKS.values(), ids=LOOKS)
def test_it_is_compiled_after_the_script_has_looked_at_it(models: str) -> None:
    check_rewrites(Compile, HEAD + models + TRAINING, HEAD + models + WHERE_CUDA + TRAINING)


NO_LOOKS = {
    "another model": "from torchinfo import summary\n\n{}summary(Net())\n",
    "a function of the script": "def summary(model):\n    print(model)\n\n\n{}summary(model)\n",
    "the name is another thing's by then": (
        "from torchinfo import summary\n\n{}net, model = model, nn.Linear(8, 2)\nsummary(model)\nmodel = net\n"
    ),
}


@pytest.mark.parametrize("models", NO_LOOKS.values(), ids=NO_LOOKS)
def test_it_is_compiled_at_once_where_nothing_looks_at_it(models: str) -> None:
    made = "model = Net().to(device)\n"
    check_rewrites(Compile, HEAD + models.format(made) + TRAINING, HEAD + models.format(made + WHERE_CUDA) + TRAINING)


def test_what_looks_at_the_model_once_it_is_trained_does_not_move_its_compilation() -> None:
    imports, made = "from torchinfo import summary\n\n", "model = Net().to(device)\n"
    after = TRAINING + "summary(model)\n"
    check_rewrites(Compile, HEAD + imports + made + after, HEAD + imports + made + WHERE_CUDA + after)


TRACED = """\
class History:
    def __init__(self, model, writer):
        writer.add_graph(model, torch.randn(1, 8))


"""


def test_what_traces_the_model_before_it_is_moved_does_not_stand_against_it() -> None:
    models = TRACED + "model = Net()\nhistory = History(model, open_log())\nmodel.to(device)\n"
    check_rewrites(Compile, HEAD + models + TRAINING, HEAD + models + WHERE_CUDA + TRAINING)


def test_what_traces_the_model_before_and_after_it_is_moved_stands_against_it() -> None:
    models = TRACED + "model = Net()\nhistory = History(model, open_log())\nmodel.to(device)\n"
    because = (
        "writer.add_graph() traces the model, which fails once it is compiled (line 20): "
        "trace a copy that is not compiled"
    )
    check_leaves(Compile, HEAD + models + TRAINING + "History(model, open_log())\n", because)


SILENT = {
    "it compiles already": "model = Net().to(device)\nmodel.compile()\n" + TRAINING,
    "it compiles by a switch of its own": "model = Net().to(device)\nif FAST:\n    model = torch.compile(model)\n"
    + TRAINING,
    "it decorates": "@torch.compile\ndef add(x):\n    return x + 1\n\n\nmodel = Net().to(device)\n" + TRAINING,
    "nothing trains": "model = Net().to(device)\nprint(model(torch.randn(2, 8, device=device)))\n",
    "tensors are moved, whoever made them": "import nets\n\nx = nets.load().to(device)\n"
    + TRAINING.replace("model(x)", "x()"),
    "what is moved does not train": (
        "import nets\n\nother = nets.Net().to(device)\nprint(len(list(other.parameters())))\nw = torch.ones(8, requires_grad=True)\n"
        + TRAINING.replace("model(x)", "(w * x)")
    ),
    "a loss": "class Loss(nn.Module):\n    def forward(self, x):\n        return x\n\n\nmodel = Loss().to(device)\n"
    + TRAINING,
}


@pytest.mark.parametrize("code", SILENT.values(), ids=SILENT)
def test_no_site_where(code: str) -> None:
    check_silent(Compile, HEAD + code)


HELPED = """\
import torch
from torch import nn


def backward(loss, again=False):
    loss.backward(create_graph=again)


model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).cuda()
for x in torch.randn(3, 6, 8).cuda():
    backward(model(x).sum())
"""


def test_a_switch_for_second_derivatives_that_nobody_uses() -> None:
    check_rewrites(Compile, HELPED, HELPED.replace(".cuda()\nfor", ".cuda()\nmodel.compile()\nfor"), NEWEST)
    code = HELPED.replace("sum())", "sum(), again=True)")
    check_leaves(Compile, code, "gradient penalty / second derivative through model (line 6)")


CHOSEN = """\
import sys
import torch
from torch import nn


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x):
        print(x.shape)
        return self.second(self.first(x))


class Large(Small):
    pass


model = {"small": Small, "large": Large}[sys.argv[1]]().cuda()
for x in torch.randn(3, 6, 8).cuda():
    model(x).sum().backward()
"""


def test_models_that_one_call_may_make_are_left_once() -> None:
    assert [each.message for each in run(Compile, CHOSEN).sites] == ["forward prints (line 12)"]


FACTORY = """\
import torch
from torch import nn


def make(width):
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 8))


actor = make(16).cuda()
critic = make(32).cuda()
for x in torch.randn(3, 6, 8).cuda():
    critic(actor(x)).sum().backward()
"""


def test_models_that_one_function_makes_are_all_compiled() -> None:
    check_rewrites(
        Compile, FACTORY, FACTORY.replace(".cuda()\nfor", ".cuda()\nactor.compile()\ncritic.compile()\nfor"), NEWEST
    )


def test_models_that_one_function_makes_and_that_are_moved_later() -> None:
    code = FACTORY.replace("make(16).cuda()", "make(16)").replace(
        "make(32).cuda()", "make(32)\nprint(actor, critic)\nactor.cuda()\ncritic.cuda()"
    )
    check_rewrites(
        Compile, code, code.replace("critic.cuda()\n", "critic.cuda()\nactor.compile()\ncritic.compile()\n"), NEWEST
    )


def test_another_name_of_one_model_is_not_compiled_again() -> None:
    code = FACTORY.replace("critic = make(32).cuda()", "critic = actor.cuda()")
    check_rewrites(Compile, code, code.replace("\nfor", "\nactor.compile()\nfor"), NEWEST)


FEATURES = """\
import torch
from torch import nn
from torchvision import models


class Features(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = models.vgg19().features

    def forward(self, x):
        return [x := layer(x) for layer in self.layers][-1]


net = Features().cuda()
image = torch.rand(1, 3, 64, 64).cuda().requires_grad_()
for _ in range(3):
    net(image).sum().backward()
"""


def test_a_part_of_a_model_of_a_library() -> None:
    (site,) = run(Compile, FEATURES).sites
    assert site.rewrites


def test_a_script_for_the_cpu_is_left() -> None:
    code = "model = Net()\nfor x in torch.randn(4, 16, 8):\n    model(x).sum().backward()\n"
    check_leaves(Compile, HEAD + code, "no CUDA: nothing in this file moves a model or its batches to a CUDA device")


def test_copies_for_averages_and_targets_do_not_stand_against_it() -> None:
    models = "model = Net().to(device)\n"
    rest = "import copy\n\ntarget = copy.deepcopy(model)\n" + TRAINING
    check_rewrites(Compile, HEAD + models + rest, HEAD + models + WHERE_CUDA + rest)


DRAWS = {
    "dropout": ("nn.Linear(8, 8)", "nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1))"),
    "dropout as a function": ("F.relu(self.first(x))", "F.dropout(self.first(x))"),
    "noise": ("F.relu(self.first(x))", "self.first(x) + torch.randn_like(x)"),
    "noise in place": ("F.relu(self.first(x))", "self.first(x) + torch.empty_like(x).normal_()"),
    **{
        f"noise by {method}": ("F.relu(self.first(x))", f"self.first(x) + torch.empty_like(x).{method}")
        for method in ("exponential_()", "cauchy_()", "log_normal_()", "geometric_(0.5)", "uniform_()")
    },
    **{
        f"draws by {name}": ("F.relu(self.first(x))", f"self.first(x) + torch.{name}(self.first(x).sigmoid())")
        for name in ("poisson", "bernoulli", "rand_like", "randint_like")
    },
    "binomial draws": ("F.relu(self.first(x))", "self.first(x) + torch.binomial(x, x.sigmoid())"),
    "the sample of a distribution": ("F.relu(self.first(x))", "torch.distributions.Normal(self.first(x), 1).rsample()"),
    "attention that drops": (
        "F.relu(self.first(x))",
        "F.scaled_dot_product_attention(self.first(x), x, x, dropout_p=0.1)",
    ),
    "attention as a layer that drops": ("nn.Linear(8, 8)", "nn.MultiheadAttention(8, 2, 0.1)"),
    "pooling at random": ("F.relu(self.first(x))", "F.fractional_max_pool2d(self.first(x), 2, 4)"),
    "depth at random": ("nn.Linear(8, 8)", "torchvision.ops.StochasticDepth(0.1, 'row')"),
    "a layer that has dropout": ("nn.Linear(8, 8)", "nn.TransformerEncoderLayer(8, 2)"),
    "a library's network": ("nn.Linear(8, 8)", "torchvision.models.vgg11(num_classes=8)"),
}


@pytest.mark.parametrize(("code", "drawing"), DRAWS.values(), ids=DRAWS)
def test_users_are_told_that_other_random_numbers_are_drawn_by(code: str, drawing: str) -> None:
    plain = "import torchvision\n" + HEAD + "model = Net().to(device)\n" + TRAINING
    because = "each operation of model is launched from Python, and none are fused"
    said = "; compiled, any dropout or noise in it draws other random numbers"

    assert [site.message for site in run(Compile, plain).sites] == [because]
    (site,) = run(Compile, plain.replace(code, drawing, 1)).sites
    assert site.message == because + said
    assert max(site.promise, Promise.RANDOM) is Promise.PRECISION


@pytest.mark.parametrize(
    ("code", "silent"),
    [
        pytest.param(
            "F.relu(self.first(x))",
            "F.scaled_dot_product_attention(self.first(x), x, x)",
            id="attention without dropout",
        ),
        pytest.param("nn.Linear(8, 8)", "nn.MultiheadAttention(8, 2)", id="attention as a layer without dropout"),
        pytest.param("nn.Linear(8, 8)", "nn.TransformerEncoderLayer(8, 2, dropout=0)", id="a dropout of 0"),
        pytest.param("F.relu(self.first(x))", "self.first(x).clamp_(0)", id="another method in place"),
    ],
)
def test_what_draws_nothing_is_not_said_to_draw(code: str, silent: str) -> None:
    plain = "import torchvision\n" + HEAD + "model = Net().to(device)\n" + TRAINING
    (site,) = run(Compile, plain.replace(code, silent, 1)).sites

    assert site.rewrites
    assert not site.redraws


def test_it_promises_no_more_than_other_rounding() -> None:
    assert run(Compile, HEAD + "model = Net().to(device)\n" + TRAINING).promise is Promise.PRECISION


# What the rewritten script does.

SCRIPT = (
    HEAD
    + """\
torch.manual_seed(0)
model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for x in torch.randn(6, 16, 8):
    loss = model(x.to(device)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
answer = [losses, list(model.state_dict()), type(model).__name__]
"""
)
# The CPU stands in for CUDA; the graphs are taken down and counted, and run as they are.
DRIVER = """\
import json
import sys

import torch

torch.set_num_threads(1)
plain, graphs = torch.compile, []


def backend(graph, _):
    graphs.append(graph)
    return graph.forward


torch.compile = lambda model, **_: plain(model, backend=backend)
answers = []
for text in json.load(sys.stdin):
    names = {"__name__": "__main__"}
    exec(text, names)
    answers.append([*names["answer"], len(graphs)])
json.dump(answers, sys.stdout)
"""


def test_the_compiled_model_trains_alike_and_stays_the_same_object_with_the_same_keys() -> None:
    in_place = run(Compile, SCRIPT).after
    with_two_names = run(Compile, SCRIPT.replace(HEAD, TWO_NAMES)).after
    assert WHERE_CUDA in in_place
    assert "torch.compile(model) if" in with_two_names
    texts = [SCRIPT, *(each.replace('device.type == "cuda"', "True") for each in (in_place, with_two_names))]
    done = subprocess.run(
        [sys.executable, "-c", DRIVER], input=json.dumps(texts), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr

    (losses, keys, name, graphs), *compiled = json.loads(done.stdout)
    assert (keys, name, graphs) == (["first.weight", "first.bias", "second.weight", "second.bias"], "Net", 0)
    assert [each[0] for each in compiled] == [pytest.approx(losses, rel=1e-6)] * 2
    assert [each[1:] for each in compiled] == [[keys, name, 1], [keys, name, 2]]


def test_what_is_inserted_after_a_block_s_last_statement_goes_under_the_main_guard_with_it() -> None:
    before = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

loader = DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()))
device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).to(device)


def report():
    print("done")


for epoch in range(3):
    for images, labels in loader:
        nn.functional.cross_entropy(model(images.to(device)), labels.to(device)).backward()
report()
"""
    settings = Settings(frozenset({"compile", "loader-workers"}), Promise.TRAINING)
    after = rewrite("train.py", before, settings, rounds=((LoaderWorkers, Compile),)).after

    guarded = after[after.index('if __name__ == "__main__":') : after.index("def report")]
    assert guarded.endswith(f".to(device)\n    {SECOND_NAME}\n\n".replace("device.type", "device"))


ITEMS_TRAINING = """\
for x in torch.randn(4, 16, 8, device=device):
    (models["one"](x).mean() + models["two"](x).mean()).backward()
"""
BOTH = 'if device.type == "cuda":\n    models["one"].compile()\n    models["two"].compile()\n'
ITEMS = {
    "a dictionary": ('models = {"one": Net().to(device), "two": Net().to(device)}\n', BOTH),
    "a ModuleDict": ('models = nn.ModuleDict({"one": Net(), "two": Net()}).to(device)\n', BOTH),
    "a ModuleDict that is moved on a line of its own": (
        'models = nn.ModuleDict({"one": Net(), "two": Net()})\nmodels.to(device)\n',
        BOTH,
    ),
}


@pytest.mark.parametrize(("models", "compiled"), ITEMS.values(), ids=ITEMS)
def test_models_that_are_items_are_compiled_by_their_keys(models: str, compiled: str) -> None:
    check_rewrites(Compile, HEAD + models + ITEMS_TRAINING, HEAD + models + compiled + ITEMS_TRAINING)


def test_items_of_a_list_are_compiled_by_their_indices() -> None:
    models = "models = [Net().to(device), nn.Sequential(nn.Linear(8, 8), nn.ReLU()).to(device)]\n"
    training = ITEMS_TRAINING.replace('"one"', "0").replace('"two"', "1")
    compiled = BOTH.replace('"one"', "0").replace('"two"', "1")

    check_rewrites(Compile, HEAD + models + training, HEAD + models + compiled + training, NEWEST)


def test_items_that_are_added_are_compiled_where_they_are_moved() -> None:
    code = (
        HEAD
        + 'models = {}\nmodels["one"] = Net().to(device)\nprint()\nmodels["two"] = Net()\nmodels["two"].to(device)\n'
    )
    first, _, second = BOTH.partition('    models["two"]')
    after = code.replace("print()\n", first + "print()\n")
    after += 'if device.type == "cuda":\n    models["two"]' + second

    check_rewrites(Compile, code + ITEMS_TRAINING, after + ITEMS_TRAINING)


NOT_ITEMS = {
    "models of one comprehension": (
        'models = {name: Net().to(device) for name in ("one", "two")}\n',
        "it has no name of its own where it is moved to its device",
    ),
    "models that a loop moves": (
        'models = {"one": Net(), "two": Net()}\nfor model in models.values():\n    model.to(device)\n',
        "several models are moved to their device in one loop (line 19): compile each there",
    ),
}


@pytest.mark.parametrize(("models", "because"), NOT_ITEMS.values(), ids=NOT_ITEMS)
def test_items_that_have_no_name_are_left(models: str, because: str) -> None:
    check_leaves(Compile, HEAD + models + ITEMS_TRAINING, because)


COLLECTED = """\
def build():
    return Net()


student = Net()
parts = nn.ModuleList([])
parts.append(student)
"""
MOVED = """\
if torch.cuda.is_available():
    parts.cuda()
    student.compile()
"""
COLLECTED_TRAINING = """\
optimizer = torch.optim.SGD(parts.parameters())
for x in torch.randn(4, 16, 8):
    (parts[0](x).mean() + parts[1](x).mean()).backward()
"""


def test_a_model_is_compiled_behind_the_move_of_the_list_that_holds_it() -> None:
    training = COLLECTED_TRAINING.replace(" + parts[1](x).mean()", "")
    before = HEAD + COLLECTED + MOVED.replace("    student.compile()\n", "") + training
    check_rewrites(Compile, before, HEAD + COLLECTED + MOVED + training)


def test_models_that_one_function_makes_are_all_compiled_behind_the_move_of_their_list() -> None:
    models = COLLECTED.replace("student = Net()", "student = build()\nteacher = build()") + "parts.append(teacher)\n"
    before = HEAD + models + MOVED.replace("    student.compile()\n", "") + COLLECTED_TRAINING
    after = HEAD + models + MOVED + "    teacher.compile()\n" + COLLECTED_TRAINING
    check_rewrites(Compile, before, after)


def test_a_model_that_has_no_name_where_the_list_that_holds_it_is_moved_is_left() -> None:
    """A condition at its construction would be false in every run."""
    models = COLLECTED + "def add(parts):\n    head = Net()\n    parts.append(head)\n\n\nadd(parts)\n"
    code = HEAD + models + MOVED.replace("    student.compile()\n", "") + COLLECTED_TRAINING
    because = "it is moved to its device later, as a part of parts (line 32): compile it there"

    result = run(Compile, code)
    assert [site.message for site in result.sites if not site.rewrites] == [because]
    assert result.after == code.replace("    parts.cuda()\n", MOVED.partition("\n")[2])


LOOPS = {
    "over the list that holds them": "parts = nn.ModuleList([])\nparts.append(G)\nparts.append(D)\nfor each in parts:\n",
    "over their names": "for each in (G, D):\n",
}
MAKERS = {"made by their class": "Net()", "made by one function": "build()"}


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_models_that_a_loop_moves_are_compiled_behind_it_by_their_names(loop: str, maker: str) -> None:
    models = f"def build():\n    return Net()\n\n\nG = {maker}\nD = {maker}\n{loop}    each.to(device)\n"
    training = TRAINING.replace("model(x)", "D(F.pad(G(x), (0, 6)))")
    added = WHERE_CUDA.replace("    model.compile()\n", "    G.compile()\n    D.compile()\n")
    check_rewrites(Compile, HEAD + models + training, HEAD + models + added + training)


def test_what_only_collects_models_is_no_site() -> None:
    models = "model = Net().to(device)\nparts = nn.ModuleList([])\nparts.append(model.first)\n"
    training = TRAINING.replace(".square()", ".square() + parts[0](x)")
    training = "optimizer = torch.optim.SGD(parts.parameters())\n" + training
    result = run(Compile, HEAD + models + training)

    assert [site.line for site in result.sites] == [18]


def test_a_function_that_is_called_in_one_of_several_branches_is_called_once() -> None:
    function = """\
def train(net):
    net.to(device)
    for x in torch.randn(4, 16, 8, device=device):
        net(x).sum().backward()


"""
    calls = "model = Net()\nif LONG:\n    train(model)\nelif SHORT:\n    train(model)\nelse:\n    train(model)\n"
    line = "    net.to(device)\n"
    added = '    if device.type == "cuda":\n        net.compile()\n'
    check_rewrites(Compile, HEAD + function + calls, HEAD + function.replace(line, line + added) + calls)


def test_what_a_function_of_a_library_makes_of_a_model_is_left() -> None:
    models = """\
from torch.distributed.tensor.parallel import parallelize_module

model = Net().to(device)
model = parallelize_module(model, mesh, {})
"""
    because = "torch.distributed.tensor.parallel.parallelize_module() takes the model, and what it returns is not known to be one"
    assert because in {site.message for site in run(Compile, HEAD + models + TRAINING).sites}


def test_a_model_that_trains_itself_by_its_own_forward_is_left() -> None:
    code = """\
class Layer(Net):
    def train(self, x):
        for _ in range(3):
            self.forward(x).mean().backward()


Layer().to(device).train(torch.randn(4, 8, device=device))
"""
    because = "only __call__ is compiled, and the training calls forward() (line 21): call the model itself"
    check_leaves(Compile, HEAD + code, because)


def test_a_device_of_batches_that_is_not_known_is_said() -> None:
    code = "import settings\n\nmodel = Net()\nfor x in torch.randn(4, 16, 8):\n    model(x.to(settings.where())).sum().backward()\n"
    because = "whether settings.where() is a CUDA device is not known (line 22): the device comes from settings.where()"
    check_leaves(Compile, HEAD + code, because)


NOT_CALLED = {
    "an unknown model that a function is given": (
        """\
import networks


def train(net):
    for x in torch.randn(4, 16, 8, device=device):
        net(x).mean().backward()


mine = networks.make()
mine.to(device)
optimizer = torch.optim.SGD(mine.parameters(), lr=0.1)
train(mine)
""",
        "it comes from networks.make(), which is not known to be a model",
    ),
    "what functions of libraries make of each other": (
        """\
import wraps

model = Net().to(device)
whole = wraps.outer(wraps.inner(model))
for x in torch.randn(4, 16, 8, device=device):
    whole(x).mean().backward()
""",
        "wraps.outer() takes the model, and what it returns is not known to be one",
    ),
    "a single layer that another name hides": (
        """\
line = nn.Linear(8, 2)
optimizer = torch.optim.SGD(line.parameters(), lr=0.1)
for x in torch.randn(4, 16, 8):
    line(x.to(device)).mean().backward()
""",
        "it is a single layer: there is nothing to fuse in it",
    ),
    "an unknown model that nobody is seen to move": (
        """\
import networks

mine = networks.make(device)
optimizer = torch.optim.SGD(mine.parameters(), lr=0.1)
for x in torch.randn(4, 16, 8, device=device):
    mine(x).mean().backward()
""",
        "what mine is there is not known: it comes from networks.make(), which is not known to be a model",
    ),
    "an unknown model on the CPU": (
        """\
import networks

mine = networks.make()
optimizer = torch.optim.SGD(mine.parameters(), lr=0.1)
for x in torch.randn(4, 16, 8):
    mine(x).mean().backward()
""",
        "no CUDA: nothing in this file moves a model or its batches to a CUDA device",
    ),
    "a part of what is not known": (
        """\
import wraps

encoder = Net()
whole = wraps.Pair(encoder).to(device)
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
for x in torch.randn(4, 16, 8, device=device):
    whole.loss(x).backward()
""",
        "wraps.Pair() takes the model, and what it returns is not known to be one",
    ),
    "a model that is called where nobody sees it": (
        """\
import losses

model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(4, 16, 8, device=device):
    losses.of(model, x).backward()
""",
        "no training iteration is seen to call it",
    ),
    "a model of layers that are not known": (
        """\
from torch_geometric.nn import GATConv


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = GATConv(8, 8)

    def forward(self, x):
        return self.layer(x)


model = Graph().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
        + TRAINING,
        "forward calls torch_geometric.nn.GATConv, which is not compiled (line 27)",
    ),
}


@pytest.mark.parametrize(("code", "because"), NOT_CALLED.values(), ids=NOT_CALLED)
def test_what_an_optimizer_trains_is_left_with_a_reason(code: str, because: str) -> None:
    check_leaves(Compile, HEAD + code, because)


def test_a_default_device_that_is_not_followed_is_said() -> None:
    code = """\
torch.set_default_device(device)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(4, 16, 8):
    model.forward(x).mean().backward()
"""
    because = "whether the default device is CUDA is not followed (line 18): move the model to it"
    check_leaves(Compile, HEAD + code, because)


def test_a_part_of_a_model_that_is_compiled_needs_no_word() -> None:
    before = HEAD + "model = Net().to(device)\noptimizer = torch.optim.SGD(model.first.parameters(), lr=0.1)\n"
    assert [site.message for site in run(Compile, before + TRAINING).sites] == [
        "each operation of model is launched from Python, and none are fused"
    ]


OWN_LAYERS = """\
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return self.two(self.one(x).relu())


"""
SECOND_NAME = 'compiled_model = torch.compile(model) if device.type == "cuda" else model\n'
TORCHS_OWN = {
    "a sequence of torch's layers": "model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).to(device)\n",
    "a class of the script without a forward": (
        "class Layers(nn.Sequential):\n    pass\n\n\nmodel = Layers(nn.Linear(8, 8), nn.ReLU()).to(device)\n"
    ),
    "a transformer's layer": "model = nn.TransformerEncoderLayer(8, 2).to(device)\n",
}


@pytest.mark.parametrize("made", TORCHS_OWN.values(), ids=TORCHS_OWN)
def test_what_holds_torch_s_own_modules_alone_gets_a_second_name(made: str) -> None:
    called = TRAINING.replace("model(x)", "compiled_model(x)")
    for target in (None, (2, 14)):
        check_rewrites(Compile, HEAD + made + TRAINING, HEAD + made + SECOND_NAME + called, target)
    check_rewrites(Compile, HEAD + made + TRAINING, HEAD + made + WHERE_CUDA + TRAINING, NEWEST)


def test_a_sequence_of_the_script_s_own_layers_is_compiled_in_place() -> None:
    made = OWN_LAYERS + "model = nn.Sequential(Block(), nn.ReLU(), Block()).to(device)\n"
    check_rewrites(Compile, HEAD + made + TRAINING, HEAD + made + WHERE_CUDA + TRAINING)


IN_VAIN = (
    "{0}.compile() compiles nothing of torch's own modules before torch 2.15, and {1}: "
    "train what torch.compile({0}) returns"
)


def test_what_has_no_name_of_its_own_is_left_where_in_place_nothing_is_compiled() -> None:
    code = """\
class Trainer:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).to(device)

    def train(self, inputs):
        for x in inputs:
            self.model(x.to(device)).mean().backward()


Trainer().train(torch.randn(4, 16, 8))
"""
    check_leaves(Compile, HEAD + code, IN_VAIN.format("self.model", "self.model is no plain name"))


def test_what_another_function_calls_gets_no_second_name() -> None:
    code = """\
def train(net):
    for x in torch.randn(4, 16, 8, device=device):
        net(x).mean().backward()


model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).to(device)
train(model)
"""
    because = "a second name would not be seen where the training calls it (line 20)"
    check_leaves(Compile, HEAD + code, IN_VAIN.format("model", because))


def test_models_that_one_function_makes_of_torch_s_own_modules_are_left() -> None:
    check_leaves(Compile, FACTORY, IN_VAIN.format("actor", "the function that makes it makes others"))


CAPTURED = """\
model = Net().to(device)
batch = torch.randn(16, 8, device=device)
model(batch).mean().backward()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    model(batch).mean().backward()
for x in torch.randn(4, 16, 8):
    batch.copy_(x)
    graph.replay()
"""


def test_a_script_that_captures_its_training_itself_is_left() -> None:
    line = (HEAD + CAPTURED).splitlines().index("graph = torch.cuda.CUDAGraph()") + 1
    check_leaves(Compile, HEAD + CAPTURED, f"the script captures CUDA graphs itself (line {line})")


ADVERSARIES = (
    HEAD
    + """\
def slope(outputs, inputs):
    (gradient,) = torch.autograd.grad(outputs.sum(), inputs, create_graph=True)
    return gradient.square().mean()


maker, judge = Net().to(device), Net().to(device)
for x in torch.randn(4, 16, 8, device=device):
"""
)
CUT = {
    "a leaf that is made without a graph": (
        "    with torch.no_grad():\n        made = maker(x)\n    made.requires_grad_()\n"
        "    (judge(x).mean() + slope(judge(made), made)).backward()\n"
    ),
    "what the gradient is taken by": "    made = x + maker(x)\n    (judge(x).mean() + slope(judge(made), made)).backward()\n",
}


@pytest.mark.parametrize("steps", CUT.values(), ids=CUT)
def test_a_second_derivative_ends_at(steps: str) -> None:
    code = ADVERSARIES + steps + "    maker(x).mean().backward()\n"

    assert {(site.message.partition(" (")[0], site.rewrites) for site in run(Compile, code).sites} == {
        ("each operation of maker is launched from Python, and none are fused", True),
        ("gradient penalty / second derivative through judge", False),
    }


def test_a_second_derivative_goes_on_past_other_names() -> None:
    code = ADVERSARIES + "    made = maker(x.requires_grad_())\n    slope(judge(made), x).backward()\n"

    assert {site.message.partition(" (")[0] for site in run(Compile, code).sites} == {
        "gradient penalty / second derivative through maker",
        "gradient penalty / second derivative through judge",
    }


def test_what_trains_itself_is_not_to_be_moved_into_forward() -> None:
    code = """\
import torch
from torch import nn


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(8, 8))
        self.optimizer = torch.optim.Adam([self.weight])

    def update(self, x):
        loss = (x @ self.weight).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


agent = Agent().cuda()
for x in torch.randn(4, 16, 8).cuda():
    agent.update(x)
"""
    because = (
        "only __call__ is compiled, and the training calls update() (line 20): "
        "let update() call a model to compute its loss"
    )
    check_leaves(Compile, code, because)


def test_of_architectures_to_choose_from_one_reason_is_said_once() -> None:
    code = (
        HEAD
        + """\
import sys

class Wide(Net):
    def forward(self, x):
        return super().forward(x) * 2


if sys.argv[1] == "net":
    model = Net()
else:
    model = Wide()
model = model.to(device)
model = nn.DataParallel(model)
"""
    )
    (site,) = run(Compile, code + TRAINING).sites

    assert site.code == "data-parallel"


OPTIONS = (
    "import argparse\nimport sys\n"
    + HEAD
    + """\
def train(net):
    for x in torch.randn(4, 16, 8, device=device):
        net(x).mean().backward()


def test(net):
    with torch.no_grad():
        print(net(torch.randn(16, 8, device=device)))


"""
)
PARSED = "parser = argparse.ArgumentParser()\nparser.add_argument({})\nargs = parser.parse_args()\n"
EVALUATE = PARSED.format('"--evaluate", action="store_true"')
MODE = PARSED.format('"--mode", default="train"')
ONE_PASS = {
    "a pass before the script ends": (
        EVALUATE,
        "if args.evaluate:\n    test(model)\n    sys.exit()\ntrain(model)\n",
        "not args.evaluate",
    ),
    "a pass before an error ends the script": (
        EVALUATE,
        "if args.evaluate:\n    test(model)\n    raise SystemExit\ntrain(model)\n",
        "not args.evaluate",
    ),
    "one of two modes": (
        MODE,
        'if args.mode == "train":\n    train(model)\nelse:\n    test(model)\n',
        'args.mode == "train"',
    ),
    "the other of two modes": (
        MODE,
        'if args.mode == "test":\n    test(model)\nelif args.mode:\n    train(model)\n',
        'args.mode != "test"',
    ),
    "what is not to be evaluated": (
        EVALUATE,
        "if not args.evaluate:\n    train(model)\nelse:\n    test(model)\n",
        "not args.evaluate",
    ),
}
TRAINED_ANYWAY = {
    "both branches train": (EVALUATE, "if args.evaluate:\n    train(model)\n    sys.exit()\ntrain(model)\n"),
    "the other branch does not run it": (
        EVALUATE,
        "if args.evaluate:\n    print(device)\n    sys.exit()\ntrain(model)\n",
    ),
    "it is evaluated and trained": (EVALUATE, "if args.evaluate:\n    test(model)\ntrain(model)\n"),
    "the option changes": (
        EVALUATE,
        "args.evaluate = input()\nif args.evaluate:\n    test(model)\n    sys.exit()\ntrain(model)\n",
    ),
}


@pytest.mark.parametrize(("options", "ways", "test"), ONE_PASS.values(), ids=ONE_PASS)
def test_not_compiling_for(options: str, ways: str, test: str) -> None:
    made = OPTIONS + options + "model = Net().to(device)\n"
    compiled = WHERE_CUDA.replace(":", f" and {test}:", 1)
    check_rewrites(Compile, made + ways, made + compiled + ways)

    certain = OPTIONS + options + "model = Net().cuda()\n"
    check_rewrites(Compile, certain + ways, certain + f"if {test}:\n    model.compile()\n" + ways)


@pytest.mark.parametrize(("options", "ways"), TRAINED_ANYWAY.values(), ids=TRAINED_ANYWAY)
def test_compiling_whatever_the_options_where(options: str, ways: str) -> None:
    made = OPTIONS + options + "model = Net().to(device)\n"
    check_rewrites(Compile, made + ways, made + WHERE_CUDA + ways)


def test_a_second_name_is_not_compiled_for_one_pass() -> None:
    made = OPTIONS + EVALUATE + "model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).to(device)\n"
    ways = "if args.evaluate:\n    test(model)\n    sys.exit()\n" + TRAINING
    compiled = 'compiled_model = torch.compile(model) if device.type == "cuda" and not args.evaluate else model\n'
    check_rewrites(Compile, made + ways, made + compiled + ways.replace("    model(x)", "    compiled_model(x)"))


def test_what_cannot_be_mended_is_said_before_what_can() -> None:
    recurrent = "model = nn.Sequential(nn.Linear(8, 8), nn.GRU(8, 8)).to(device)\n"
    because = "RNN model: TorchDynamo does not trace torch.nn.GRU()"
    wrapped = HEAD + recurrent + "model = nn.DataParallel(model)\n" + TRAINING.replace("model(x)", "model(x)[0]")
    check_leaves(Compile, wrapped, because)

    twice = (
        "    x.requires_grad_()\n    (slope,) = torch.autograd.grad(model.forward(x).sum(), x, create_graph=True)\n"
        "    slope.square().mean().backward()\n"
    )
    because = "gradient penalty / second derivative through model (line 21)"
    called = HEAD + "model = Net().to(device)\n" + TRAINING.replace("    model(x).square().mean().backward()\n", twice)
    check_leaves(Compile, called, because)


def test_a_model_whose_parameters_a_function_gives_to_the_optimizer_is_left_with_a_reason() -> None:
    code = """\
def adam(parameters):
    return torch.optim.Adam(parameters)


def train(losses):
    model = {model}
    optimizer = adam(model.parameters())
    for x in torch.randn(4, 16, 8, device=device):
        losses.of(model, x).backward()
        optimizer.step()
"""
    check_leaves(Compile, HEAD + code.format(model="Net().to(device)"), "no training iteration is seen to call it")
    because = "nn.DataParallel copies the model in each iteration: convert to DistributedDataParallel first"
    check_leaves(Compile, HEAD + code.format(model="nn.DataParallel(Net().to(device))"), because)


def test_a_model_is_compiled_where_it_is_trained_whatever_another_script_does_with_it() -> None:
    nets = HEAD.replace('torch.device("cuda" if torch.cuda.is_available() else "cpu")', 'torch.device("cuda")')
    nets += "def make():\n    model = Net()\n    model.to(device)\n    return model\n"
    train = "import torch\nfrom nets import device, make\n\nmodel = make()\n" + TRAINING
    demo = "import torch\nfrom nets import device, make\n\nmodel = make()\nmodel.to(device)\nmodel.eval()\n"
    settings = Settings(frozenset({"compile"}), Promise.TRAINING)

    results = rewrite_project(
        [
            Text("demo.py", demo, settings, "demo"),
            Text("train.py", train, settings, "train"),
            Text("nets.py", nets, settings, "nets", is_entry=False),
        ]
    )

    changed = {each.path: each.after for each in results if isinstance(each, Rewrite) and each.after != each.before}
    assert changed == {"nets.py": nets.replace("    return model\n", "    model.compile()\n    return model\n")}


def test_it_is_said_that_inputs_which_grow_compile_once_more() -> None:
    generating = (
        "with torch.no_grad():\n    for _ in range(9):\n        y = model(text)\n"
        "        text = torch.cat([text, y[:, -1:]], dim=1)\n"
    )
    code = HEAD + "model = Net().to(device)\n" + TRAINING + generating
    (site,) = run(Compile, code).sites

    assert site.rewrites
    assert site.message.endswith(f"; where its input grows (line {code.count(chr(10)) - 1}), it is compiled once more")


ATTACKING = """\
def attack(net, x):
    {before}for _ in range(10):
        x.requires_grad_()
        (grad,) = torch.autograd.grad(net(x).sum(), x)
        x = x.detach() + 0.01 * grad.sign()
    {after}return x.detach()


"""
ATTACKED = TRAINING.replace("    model(x)", "    x = attack(model, x)\n    model(x)")


def test_an_attack_asks_for_no_gradients_of_weights() -> None:
    code = HEAD + ATTACKING.format(before="", after="") + "model = Net().to(device)\n" + ATTACKED
    because = (
        "a loop in each iteration asks for gradients of what model is given alone (line 21), where a compiled backward "
        "computes those of all weights, too: model.requires_grad_(False) before that loop, and model.requires_grad_() "
        "after it"
    )
    check_leaves(Compile, code, because)


def test_compiling_where_an_attack_switches_gradients_of_weights_off() -> None:
    switches = {"before": "net.requires_grad_(False)\n    ", "after": "net.requires_grad_()\n    "}
    head = HEAD + ATTACKING.format(**switches) + "model = Net().to(device)\n"
    check_rewrites(Compile, head + ATTACKED, head + WHERE_CUDA + ATTACKED)
