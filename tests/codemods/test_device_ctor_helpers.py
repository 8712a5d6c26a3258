"""Tensors that a function of the project copies to the device: they are made there, and the function stays."""

from __future__ import annotations

import textwrap

import pytest
from kit import check_leaves, check_rewrites, check_silent, run

from autotune_rewrite.rewriting.config import Settings
from autotune_rewrite.rewriting.results import Rewrite
from autotune_rewrite.rewriting.rewrite import Text, rewrite_project
from codemods.codemod import Promise
from codemods.rules.device_ctor import DeviceCtor
from tests.training import run_script

HEAD = """\
import torch
from torch import nn
from torch.autograd import Variable

use_cuda = torch.cuda.is_available()
device = torch.device("cuda" if use_cuda else "cpu")
torch.manual_seed(0)
model = nn.Linear(4, 1).to(device)


def to_var(t, grad=False):
    if use_cuda:
        t = t.cuda()
    return Variable(t, requires_grad=grad)


for x in torch.randn(10, 8, 4):
    BODY
    loss = nn.functional.mse_loss(model(to_var(x)), real)
    loss.backward()
    print(loss.item())
"""
THERE = 'device="cuda" if use_cuda else "cpu"'
MADE = {
    "ones": ("real = to_var(torch.ones(8, 1))", f"real = to_var(torch.ones(8, 1, {THERE}))"),
    "by a keyword": ("real = to_var(t=torch.zeros(8, 1))", f"real = to_var(t=torch.zeros(8, 1, {THERE}))"),
    "with what is called of it": (
        "real = to_var(torch.arange(8).view(-1, 1)).float()",
        f"real = to_var(torch.arange(8, {THERE}).view(-1, 1)).float()",
    ),
    "a number in each place": (
        "real = to_var(torch.FloatTensor(8, 1).fill_(0.9))",
        f"real = to_var(torch.full((8, 1), 0.9, dtype=torch.float32, {THERE}))",
    ),
    "a leaf of the function": (
        "real = to_var(torch.ones(8, 1), grad=True)",
        f"real = to_var(torch.ones(8, 1, {THERE}), grad=True)",
    ),
    "by a name": (
        "real = torch.ones(8, 1)\n    real = to_var(real)",
        f"real = torch.ones(8, 1, {THERE})\n    real = to_var(real)",
    ),
    "under another name": (
        "ones = torch.ones(8, 1)\n    real = to_var(ones)",
        f"ones = torch.ones(8, 1, {THERE})\n    real = to_var(ones)",
    ),
    "in what is joined": (
        "real = torch.cat([to_var(torch.ones(4, 1)), to_var(torch.zeros(4, 1))])",
        f"real = torch.cat([to_var(torch.ones(4, 1, {THERE})), to_var(torch.zeros(4, 1, {THERE}))])",
    ),
}


@pytest.mark.parametrize(("before", "after"), MADE.values(), ids=MADE)
def test_the_tensor_is_made_where_the_function_copies_it(before: str, after: str) -> None:
    check_rewrites(DeviceCtor, HEAD.replace("BODY", before), HEAD.replace("BODY", after))


def test_the_same_bits_come_out() -> None:
    before = HEAD.replace("BODY", "real = to_var(torch.ones(8, 1))")
    result = run(DeviceCtor, before)

    assert [each.promise for each in result.sites] == [Promise.BITWISE]
    assert run_script(result.after) == run_script(before)


RANDOM = (
    "random numbers are drawn from another generator on the device, and all later ones on the host change:"
    " name the device in the call where other numbers will do"
)
SEVERAL = "several conditions decide whether it is copied"
LEFT = {
    "random numbers": ("real = to_var(torch.rand(8, 1))", RANDOM),
    "random numbers of a name": ("real = torch.rand(8, 1)\n    real = to_var(real)", RANDOM),
    "elements that share their memory": (
        "real = to_var(torch.ones(1, 1).expand(8, 1))",
        "'expand()' keeps one element for several, and the copy has several of it",
    ),
    "a leaf on the host": (
        "real = to_var(torch.ones(8, 1, requires_grad=True)).detach()",
        "gradients are asked for of the tensor on the host, and would be of the one on the device",
    ),
    "what devices round otherwise": (
        "real = to_var((torch.arange(8) / 8).exp())",
        "it may round otherwise on the device, which to_var() may show",
    ),
    "several conditions": ("real = torch.ones(8, 1)\n    if device:\n        real = to_var(real)", SEVERAL),
    "arguments that are not seen": ("real = to_var(torch.ones(8, 1), *[])", "what to_var() is given is not all known"),
}


@pytest.mark.parametrize(("body", "because"), LEFT.values(), ids=LEFT)
def test_what_may_be_another_tensor_is_left(body: str, because: str) -> None:
    check_leaves(DeviceCtor, HEAD.replace("BODY", body), because)


FUNCTIONS_LEFT = {
    "it reads it first": (
        "print(t.device)\n    return t.cuda()",
        "to_var() does more than to copy it first (line 12): name the device in the call that makes the tensor",
    ),
    "it knows the device alone": (
        "return t.to(pick())",
        "the device to which to_var() copies it cannot be written where that is called: name the device in the call"
        " that makes the tensor",
    ),
    "its condition would need brackets at the call": (
        'where = "cuda" if use_cuda else "cpu"\n    if where == "cuda":\n        t = t.cuda()\n    return t',
        "the device to which to_var() copies it cannot be written where that is called: name the device in the call"
        " that makes the tensor",
    ),
    "its device would need brackets at the call": (
        'where = "cuda:0" if device else "cuda"\n    if use_cuda:\n        t = t.to(where)\n    return t',
        "the device to which to_var() copies it cannot be written where that is called: name the device in the call"
        " that makes the tensor",
    ),
    "it casts, too": ("return t.to(device, torch.half)", "the copy is cast to another number format, too"),
    "it says a type": (
        "return t.type(torch.cuda.FloatTensor)",
        "a tensor type does not say on which device: give the constructor dtype=… and device=…",
    ),
    "it is asked for a tensor": (
        "return t.to(torch.zeros(2, device=device))",
        "the device to which to_var() copies it cannot be written where that is called: name the device in the call that"
        " makes the tensor",
    ),
}


@pytest.mark.parametrize(("body", "because"), FUNCTIONS_LEFT.values(), ids=FUNCTIONS_LEFT)
def test_a_function_that_does_more_is_left(body: str, because: str) -> None:
    helper = f"def to_var(t, grad=False):\n    {body}\n\n\nfor"
    start, _, rest = HEAD.partition("def to_var")
    code = start + helper + rest.partition("\n\n\nfor")[2].replace("BODY", "real = to_var(torch.arange(8).view(8, 1))")

    check_leaves(DeviceCtor, code, because)


def test_what_new_tensors_are_on_is_not_said_anew() -> None:
    code = HEAD.replace("torch.manual_seed(0)", 'torch.set_default_tensor_type("torch.cuda.FloatTensor")')
    because = "the script says on which device, or of which format, new tensors are made"

    check_leaves(DeviceCtor, code.replace("BODY", "real = to_var(torch.ones(8, 1))"), because)


SILENT = {
    "a batch": "real = to_var(x)[:, :1]",
    "data": "real = to_var(torch.tensor([float(i) for i in range(8)])).view(8, 1)",
    "on the device already": "real = to_var(torch.ones(8, 1, device=device))",
    "what it returned": "real = to_var(to_var(x))[:, :1]",
}


@pytest.mark.parametrize("body", SILENT.values(), ids=SILENT)
def test_what_is_not_filled_is_not_mentioned(body: str) -> None:
    check_silent(DeviceCtor, HEAD.replace("BODY", body))


def test_outside_of_loops_nothing_is_said() -> None:
    code = HEAD.replace("for x", "real = to_var(torch.ones(8, 1))\nfor x").replace("    BODY\n", "")

    check_silent(DeviceCtor, code)


def test_a_data_set_makes_nothing_on_a_device() -> None:
    code = HEAD.replace("    BODY\n", "    real = x[:, :1].to(device)\n") + textwrap.dedent("""\

        class Images(torch.utils.data.Dataset):
            def __getitem__(self, index):
                return to_var(torch.ones(3))


        for each in torch.utils.data.DataLoader(Images()):
            model(each)
        """)

    because = "worker processes may run it, and forked ones cannot use CUDA: copy the batch to the device in the training loop"
    check_leaves(DeviceCtor, code, because)


def test_a_function_of_another_module_is_followed() -> None:
    tools = "import torch\n\n\ndef to_var(t):\n    if torch.cuda.is_available():\n        t = t.cuda()\n    return t\n"
    main = (
        "import torch\nfrom torch import nn\n\nfrom tools import to_var\n\nmodel = to_var(nn.Linear(4, 1))\n"
        "for x in torch.randn(10, 8, 4):\n    real = to_var(torch.ones(8, 1))\n"
        "    nn.functional.mse_loss(model(to_var(x)), real).backward()\n"
    )
    settings = Settings(frozenset({DeviceCtor.name()}), Promise.TRAINING)
    changed, other = rewrite_project([Text("train.py", main, settings), Text("tools.py", tools, settings, "tools")])

    there = 'torch.ones(8, 1, device="cuda" if torch.cuda.is_available() else "cpu")'
    assert isinstance(changed, Rewrite)
    assert isinstance(other, Rewrite)
    assert changed.after == main.replace("torch.ones(8, 1)", there)
    assert other.after == tools


OBJECT = """\
import torch
from torch import nn


class Trainer:
    def __init__(self):
        CUDA
        self.device = self.best
        self.model = nn.Linear(4, 1).to(self.device)

    def to_var(self, t):
        return t.to(self.device)

    def choose(self):
        self.CHOSEN = self.best

    def train(self):
        for x in torch.randn(10, 8, 4):
            real = torch.ones(8, 1)
            self.choose()
            real = self.to_var(real)
            nn.functional.mse_loss(self.model(self.to_var(x)), real).backward()


Trainer().train()
""".replace("CUDA", 'self.best = torch.device("cuda" if torch.cuda.is_available() else "cpu")')


def test_an_attribute_that_changes_before_the_copy_is_not_read_earlier() -> None:
    other = OBJECT.replace("CHOSEN", "chosen")

    check_rewrites(DeviceCtor, other, other.replace("torch.ones(8, 1)", "torch.ones(8, 1, device=self.device)"))
    check_silent(DeviceCtor, OBJECT.replace("CHOSEN", "device"))
