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

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 1).to(device)
data = torch.randn(10, 8, 4)
for x in data:
    x = x.to(device)
    model(x).mean().backward()
"""
N = HEAD.count("\n")

MADE_THERE = {
    "floats of a type": ("torch.zeros(2).type(torch.cuda.FloatTensor)", 'torch.zeros(2, device="cuda")'),
    "integers of a type": (
        "torch.arange(5).repeat(x.size(0)).type(torch.cuda.LongTensor)",
        'torch.arange(5, device="cuda").repeat(x.size(0))',
    ),
    "integers that may be floats": (
        "torch.arange(input()).type(torch.cuda.LongTensor)",
        'torch.arange(input(), device="cuda").type(torch.cuda.LongTensor)',
    ),
    "cast to a type": (
        "torch.full((2,), 3).type(torch.cuda.LongTensor)",
        'torch.full((2,), 3, device="cuda").type(torch.cuda.LongTensor)',
    ),
    "cast before": (
        "torch.ones(2).long().type(torch.cuda.FloatTensor)",
        'torch.ones(2, device="cuda").long().type(torch.cuda.FloatTensor)',
    ),
    "zeros": ("torch.zeros(2, 3).to(device)", "torch.zeros(2, 3, device=device)"),
    "ones of a batch's size": ("torch.ones(x.size(0), 1).to(device)", "torch.ones(x.size(0), 1, device=device)"),
    "a number": ("torch.full((2,), 0.9).to(device)", "torch.full((2,), 0.9, device=device)"),
    "no number": ("torch.empty(2, dtype=torch.long).to(device)", "torch.empty(2, dtype=torch.long, device=device)"),
    "the diagonal": ("torch.eye(3).to(device)", "torch.eye(3, device=device)"),
    "integers": ("torch.arange(0, x.shape[0]).to(device)", "torch.arange(0, x.shape[0], device=device)"),
    "whole numbers up to what is not known": (
        "torch.arange(input()).long().to(device)",
        "torch.arange(input(), device=device).long()",
    ),
    "whole numbers up to a float": ("torch.arange(1, end=5.5).to(device)", "torch.arange(1, end=5.5, device=device)"),
    "integers up to a length": ("torch.arange(len(data)).to(device)", "torch.arange(len(data), device=device)"),
    "not filled, as of old": (
        "torch.LongTensor(8, 2).to(device)",
        "torch.empty(8, 2, dtype=torch.int64, device=device)",
    ),
    "not filled, as of old, floats": ("torch.Tensor(x.size(0), 2).cuda()", 'torch.empty(x.size(0), 2, device="cuda")'),
    "not filled, as of old, one size": ("torch.FloatTensor(8).to(x.device)", "torch.empty(8, device=x.device)"),
    "not filled, as of old, a shape": ("torch.FloatTensor(x.size()).cuda()", 'torch.empty(x.size(), device="cuda")'),
    "filled, as of old, after another step": (
        "torch.FloatTensor(8).view(2, 4).fill_(1).cuda()",
        'torch.empty(8, device="cuda").view(2, 4).fill_(1)',
    ),
    "ones, as of old": ("torch.FloatTensor(8, 1).fill_(1).cuda()", 'torch.ones(8, 1, device="cuda")'),
    "zeros, as of old": ("torch.Tensor(x.size(0), 1).zero_().to(device)", "torch.zeros(x.size(0), 1, device=device)"),
    "of one size, as of old": (
        "torch.FloatTensor(len(data)).fill_(1.0).cuda()",
        'torch.ones(len(data), device="cuda")',
    ),
    "of another tensor's shape, as of old": (
        "torch.FloatTensor(x.size()).fill_(0.9).to(device)",
        "torch.full(x.size(), 0.9, dtype=torch.float32, device=device)",
    ),
    "of a shape and a number, as of old": (
        "torch.FloatTensor(x.size() + (3,)).zero_().to(device)",
        "torch.zeros(x.size() + (3,), device=device)",
    ),
    "a number in each place, as of old": (
        "torch.FloatTensor(8, 1).fill_(-1).view(-1).to(device)",
        "torch.full((8, 1), -1, dtype=torch.float32, device=device).view(-1)",
    ),
    "in one place after the other, as of old": (
        "torch.FloatTensor(8).fill_(0.9).to(device)",
        "torch.full((8,), 0.9, dtype=torch.float32, device=device)",
    ),
    "integers, as of old": (
        "torch.LongTensor(8).zero_().to(device)",
        "torch.zeros(8, dtype=torch.int64, device=device)",
    ),
    "one class, as of old": (
        "torch.LongTensor(8).fill_(3).to(device)",
        "torch.full((8,), 3, dtype=torch.int64, device=device)",
    ),
    "in a variable, as of old": (
        "Variable(torch.FloatTensor(8, 1).fill_(1)).to(device)",
        "Variable(torch.ones(8, 1, device=device))",
    ),
    "like another tensor, as of old": (
        "torch.FloatTensor(8, 1).fill_(1).type_as(x)",
        "torch.ones(8, 1, device=x.device).type_as(x)",
    ),
    "compared with a number": (
        "(torch.triu(torch.ones(8, 8)) == 1).transpose(0, 1).to(device)",
        "(torch.triu(torch.ones(8, 8, device=device)) == 1).transpose(0, 1)",
    ),
    "all but the diagonal": (
        "(~torch.eye(8, dtype=torch.bool)).to(device)",
        "(~torch.eye(8, dtype=torch.bool, device=device))",
    ),
    "the other way round": (
        "torch.eye(8).bool().logical_not().to(device)",
        "torch.eye(8, device=device).bool().logical_not()",
    ),
    "times a number, by a method": (
        "torch.ones(8, 1).mul(0.9).to(device)",
        "torch.ones(8, 1, device=device).mul(0.9)",
    ),
    "below a number, by a method": (
        "torch.arange(8).lt(3).to(device)",
        "torch.arange(8, device=device).lt(3)",
    ),
    "one number": ("torch.tensor(0.5).to(device)", "torch.full((), 0.5, device=device)"),
    "nothing, to add to": ("torch.tensor(0.0).to(device)", "torch.zeros((), device=device)"),
    "an integer of no dimensions": (
        "torch.tensor(0).to(device)",
        "torch.full((), 0, device=device)",
    ),
    "an integer that is cast to floats": ("torch.tensor(0).float().to(device)", "torch.zeros((), device=device)"),
    "one that is cast further": (
        "torch.tensor([1]).float().view(1, 1).to(device)",
        "torch.ones(1, device=device).view(1, 1)",
    ),
    "another one that is cast to floats": (
        "torch.tensor([3, 3]).float().cuda()",
        'torch.full((2,), 3, dtype=torch.float32, device="cuda")',
    ),
    "a size that is cast to floats": (
        "torch.tensor(x.size(0)).float().to(device)",
        "torch.full((), x.size(0), dtype=torch.float32, device=device)",
    ),
    "an integer that is cast there": ("torch.tensor(0).to(device).float()", "torch.full((), 0, device=device).float()"),
    "an integer that is cast to integers": (
        "torch.tensor(0).long().to(device)",
        "torch.full((), 0, device=device).long()",
    ),
    "a number that torch.as_tensor copies": ("torch.as_tensor(0.5).to(device)", "torch.full((), 0.5, device=device)"),
    "one number in a list": ("torch.tensor([1.0]).to(device)", "torch.ones(1, device=device)"),
    "one number in a list, in its format": (
        "torch.tensor([[7]], dtype=torch.long).to(device)",
        "torch.full((1, 1), 7, dtype=torch.long, device=device)",
    ),
    "one number in a list, as of old": (
        "torch.FloatTensor([0.5]).cuda()",
        'torch.full((1,), 0.5, device="cuda")',
    ),
    "a class for each row": (
        "torch.LongTensor([3] * x.size(0)).to(device)",
        "torch.full((x.size(0),), 3, dtype=torch.int64, device=device)",
    ),
    "times a number": (
        "(torch.ones(8) * 5).long().to(device)",
        "(torch.ones(8, device=device) * 5).long()",
    ),
    "with a number added": ("(1 + torch.zeros(8)).to(device)", "(1 + torch.zeros(8, device=device))"),
    "another format than that of the sum": (
        "(torch.ones(8) + 0.1).type_as(x)",
        "(torch.ones(8, device=x.device) + 0.1).type_as(x)",
    ),
    "of whatever is given as the device": (
        "torch.zeros(2).to(device=input())",
        "torch.zeros(2, device=input())",
    ),
    "by the parameter's name": ("torch.zeros(2).to(device=device)", "torch.zeros(2, device=device)"),
    "without blocking": ("torch.zeros(2).to(device, non_blocking=True)", "torch.zeros(2, device=device)"),
    "cuda()": ("torch.zeros(2).cuda()", 'torch.zeros(2, device="cuda")'),
    "cuda() with the device of another tensor": ("torch.zeros(2).cuda(x.device)", "torch.zeros(2, device=x.device)"),
    "cuda() with an index": ("torch.zeros(2).cuda(1)", 'torch.zeros(2, device="cuda:1")'),
    "a name": ('torch.zeros(2).to("cuda")', 'torch.zeros(2, device="cuda")'),
    "the device of another tensor": ("torch.zeros(2).to(x.device)", "torch.zeros(2, device=x.device)"),
    "the device of what is not known": (
        "torch.zeros(2).to(input().device)",
        "torch.zeros(2, device=input().device)",
    ),
    "the device of the model": ("torch.zeros(2).to(model.device)", "torch.zeros(2, device=model.device)"),
    "another format, too": (
        "torch.zeros(2).to(device, torch.float64)",
        "torch.zeros(2, device=device, dtype=torch.float64)",
    ),
    "a format in between": ("torch.ones(2).long().to(device)", "torch.ones(2, device=device).long()"),
    "a format by its name in between": (
        "torch.ones(2).type(torch.long).to(device)",
        "torch.ones(2, device=device).type(torch.long)",
    ),
    "the format of what is not known in between": (
        "torch.ones(2).to(input().dtype).to(device)",
        "torch.ones(2, device=device).to(input().dtype)",
    ),
    "a part of a parameter's sizes": (
        "torch.ones(model.weight.expand(2, 4).size()[:-1]).to(device)",
        "torch.ones(model.weight.expand(2, 4).size()[:-1], device=device)",
    ),
    "a part of the sizes of a parameter of the script": (
        "torch.ones(nn.Parameter(data[0]).expand(8, 4).size()[:-1]).to(device)",
        "torch.ones(nn.Parameter(data[0]).expand(8, 4).size()[:-1], device=device)",
    ),
    "dimensions are added in between": (
        "torch.eye(3)[None, :, :].to(device)",
        "torch.eye(3, device=device)[None, :, :]",
    ),
    "another shape in between": ("torch.zeros(4).view(2, 2).to(device)", "torch.zeros(4, device=device).view(2, 2)"),
    "filled in between": ("torch.empty(4).fill_(0.5).to(device)", "torch.empty(4, device=device).fill_(0.5)"),
    "a triangle": ("torch.triu(torch.ones(4, 4), 1).to(device)", "torch.triu(torch.ones(4, 4, device=device), 1)"),
    "a variable": ("Variable(torch.ones(2)).cuda()", 'Variable(torch.ones(2, device="cuda"))'),
    "within a variable": ("Variable(torch.ones(2).cuda())", 'Variable(torch.ones(2, device="cuda"))'),
    "like another tensor": (
        "torch.ones(x.size(0)).type_as(x)",
        "torch.ones(x.size(0), dtype=x.dtype, device=x.device)",
    ),
    "to where another tensor is": ("torch.zeros(2).to(x)", "torch.zeros(2, dtype=x.dtype, device=x.device)"),
    "to another tensor, without blocking": (
        "torch.zeros(2).to(x, non_blocking=True)",
        "torch.zeros(2, dtype=x.dtype, device=x.device)",
    ),
    "a diagonal like another tensor, by the parameter's name": (
        "torch.eye(2).type_as(other=x)",
        "torch.eye(2, dtype=x.dtype, device=x.device)",
    ),
    "like a weight of the model": (
        "torch.ones(2).type_as(model.weight)",
        "torch.ones(2, dtype=model.weight.dtype, device=model.weight.device)",
    ),
    "a number is rounded before it is cast": (
        "torch.full((2,), 0.1).type_as(x)",
        "torch.full((2,), 0.1, device=x.device).type_as(x)",
    ),
    "a format of its own, like another tensor": (
        "torch.zeros(2, dtype=torch.long).to(x)",
        "torch.zeros(2, dtype=torch.long, device=x.device).to(x)",
    ),
    "integers like another tensor": (
        "torch.arange(x.size(0)).type_as(x)",
        "torch.arange(x.size(0), device=x.device).type_as(x)",
    ),
    "filled in between, like another tensor": (
        "torch.empty(4).fill_(8).type_as(x)",
        "torch.empty(4, device=x.device).fill_(8).type_as(x)",
    ),
    "what follows stays": (
        "torch.zeros(2).to(device).requires_grad_()",
        "torch.zeros(2, device=device).requires_grad_()",
    ),
    "sizes that are spread": ("torch.zeros(*x.shape).to(device)", "torch.zeros(*x.shape, device=device)"),
}


@pytest.mark.parametrize(("before", "after"), MADE_THERE.values(), ids=MADE_THERE)
def test_it_is_made_on_the_device(before: str, after: str) -> None:
    check_rewrites(DeviceCtor, f"{HEAD}    y = {before}\n", f"{HEAD}    y = {after}\n")


def test_arguments_on_lines_of_their_own_get_one_more() -> None:
    before = "    y = torch.zeros(\n        x.size(0),\n        1,\n    ).to(device)\n"
    after = "    y = torch.zeros(\n        x.size(0),\n        1,\n        device=device,\n    )\n"

    check_rewrites(DeviceCtor, HEAD + before, HEAD + after)


def test_each_of_several_in_one_statement_is_made_there() -> None:
    check_rewrites(
        DeviceCtor,
        HEAD + "    y, z = torch.zeros(2).to(device), torch.ones(2).to(device)\n",
        HEAD + "    y, z = torch.zeros(2, device=device), torch.ones(2, device=device)\n",
    )


def test_a_second_copy_is_no_site_of_its_own() -> None:
    code = HEAD + "    y = torch.empty(4).fill_(8).type_as(x).to(device)\n"
    (site,) = run(DeviceCtor, code).sites

    assert site.rewrites


def test_a_method_that_the_loop_calls_makes_it_there() -> None:
    net = HEAD.replace("model = nn.Linear(4, 1)", "model = Net()").replace(
        "device =",
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.a = nn.Linear(4, 1)\n\n"
        "    def forward(self, x):\n        return self.a(x) + {}\n\n\ndevice =",
        1,
    )

    check_rewrites(
        DeviceCtor,
        net.format("torch.zeros(8, 1).to(x.device)"),
        net.format("torch.zeros(8, 1, device=x.device)"),
    )


LAYERS = """\
class Layer(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.gap = torch.zeros(n, n).to(device)
        self.steps = [torch.ones(n).to(device) for _ in range(3)]

    def forward(self, x):
        return x + self.gap.mean()


"""


def test_what_the_constructor_of_a_layer_makes_is_no_site() -> None:
    check_silent(DeviceCtor, HEAD.replace("model = nn.Linear(4, 1)", LAYERS + "model = [Layer(4) for _ in range(9)]"))


def test_a_layer_that_each_iteration_makes_is_one() -> None:
    before = HEAD.replace("model = nn.Linear", LAYERS + "model = nn.Linear", 1) + "    layer = Layer(4)\n"
    made = (("zeros(n, n)", "zeros(n, n, device=device)"), ("ones(n)", "ones(n, device=device)"))
    after = before.replace(".to(device)\n        self.steps", "\n        self.steps").replace(".to(device) for", " for")

    check_rewrites(DeviceCtor, before, after.replace(*made[0]).replace(*made[1]))


def test_what_is_not_known_may_have_a_device_but_be_no_number() -> None:
    code = HEAD + "\ndef predict(state):\n    return [{} for _ in range(9)]\n"

    check_rewrites(
        DeviceCtor,
        code.format("torch.zeros(2).to(state.device)"),
        code.format("torch.zeros(2, device=state.device)"),
    )
    check_leaves(
        DeviceCtor,
        code.format("torch.empty(2).fill_(state).to(device)"),
        "whether 'state' is a number is not known, and a tensor may be on the host",
    )


RANDOM = (
    "random numbers are drawn from another generator on the device, and all later ones on the host change:"
    " name the device in the call where other numbers will do"
)
AS_OF_OLD = "the legacy constructor takes no device: write torch.zeros(…) or torch.full(…) with the device"
LEFT = {
    "noise": ("torch.randn(2, 3).to(device)", RANDOM),
    "an order": ("torch.randperm(10).cuda()", RANDOM),
    "labels by chance": ("torch.randint(0, 10, (8,)).to(device)", RANDOM),
    "noise like what is on the host": ("torch.randn_like(data).to(device)", RANDOM),
    "filled by chance": ("torch.empty(8).uniform_(0, 1).to(device)", RANDOM),
    "filled by chance, as of old, several sizes": ("torch.FloatTensor(8, 1).uniform_(-1, 1).cuda()", RANDOM),
    "filled by chance, as of old": ("torch.FloatTensor(8).normal_().cuda()", RANDOM),
    "filled, as of old, of what may be a list": ("torch.FloatTensor(input()).fill_(1).cuda()", AS_OF_OLD),
    "filled, as of old, of a list": ("torch.FloatTensor([8, 1]).zero_().to(device)", AS_OF_OLD),
    "filled, as of old, of a tuple": ("torch.FloatTensor((8, 1)).zero_().to(device)", AS_OF_OLD),
    "filled, as of old, of what is unpacked": ("torch.FloatTensor(*input()).zero_().to(device)", AS_OF_OLD),
    "filled, as of old, by a float that is cut": ("torch.LongTensor(8).fill_(0.5).to(device)", AS_OF_OLD),
    "times what may be a tensor, by a method": (
        "torch.ones(8).mul(load(x)).to(device)",
        "whether 'load(x)' is a number is not known, and a tensor may be on the host",
    ),
    "times a number that is added, too": (
        "torch.ones(8).add(2, alpha=0.1).to(device)",
        "'add()' is given more than a number",
    ),
    "compared where the last bit shows, by a method": (
        "(torch.arange(8) / 3).exp().eq(1).to(device)",
        "it may round otherwise on the device, which eq() may show",
    ),
    "floats in steps": ("torch.linspace(0, 1, 10).to(device)", "torch.linspace() may round otherwise on the device"),
    "a range of floats": (
        "torch.arange(0, 1, 0.1).to(device)",
        "'0.1' is not known to be an integer, and floats may round otherwise there",
    ),
    "a range from what is not known": (
        "torch.arange(input(), 8).to(device)",
        "'input()' is not known to be an integer, and floats may round otherwise there",
    ),
    "a range from what is not known, by the parameter's name": (
        "torch.arange(input(), end=8).to(device)",
        "'input()' is not known to be an integer, and floats may round otherwise there",
    ),
    "a range in steps that are not known": (
        "torch.arange(0, 8, step=input()).to(device)",
        "'input()' is not known to be an integer, and floats may round otherwise there",
    ),
    "a range of several things that are not known": (
        "torch.arange(*input()).to(device)",
        "'*input()' is not known to be an integer, and floats may round otherwise there",
    ),
    "gradients are asked for": (
        "torch.zeros(2, requires_grad=True).to(device)",
        "gradients are asked for of the tensor on the host, and would be of the one on the device",
    ),
    "gradients are asked for in between": (
        "torch.zeros(2).requires_grad_().to(device)",
        "gradients are asked for of the tensor on the host, and would be of the one on the device",
    ),
    "another format of a number": (
        "torch.full((2,), 0.1).to(device, torch.float16)",
        "the copy is cast to another number format, too",
    ),
    "two formats": (
        "torch.zeros(2, dtype=torch.long).to(device, torch.float32)",
        "the copy is cast to another number format, too",
    ),
    "noise like another tensor": ("torch.randn(2, 3).type_as(x)", RANDOM),
    "steps like another tensor": (
        "torch.linspace(0, 1, 10).type_as(x)",
        "torch.linspace() may round otherwise on the device",
    ),
    "like a tensor that is computed": (
        "torch.zeros(2).type_as(model(x))",
        "'model(x)' would be computed twice, for its device and its number format: give it a name",
    ),
    "like another tensor, in memory of its own": (
        "torch.zeros(2).to(x, copy=True)",
        "the copy has arguments that the constructor does not take",
    ),
    "one element for several, like another tensor": (
        "torch.zeros(1, 4).expand(8, 4).type_as(x)",
        "'expand()' keeps one element for several, and the copy has several of it",
    ),
    "the type of another tensor": (
        "torch.zeros(2).type(x.type())",
        "'x.type()' says that it is on CUDA, but not on which device: write dtype=x.dtype, device=x.device",
    ),
    "a tensor type": (
        "torch.zeros(2).type(torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor)",
        "a tensor type does not say on which device: give the constructor dtype=… and device=…",
    ),
    "like another tensor, filled as of old": ("torch.FloatTensor(input()).fill_(1).type_as(x)", AS_OF_OLD),
    "another layout": (
        "torch.zeros(1, 2, 3, 4).to(device, memory_format=torch.channels_last)",
        "the copy has arguments that the constructor does not take",
    ),
    "filled with what a tensor holds": (
        "torch.full((2,), data[0, 0, 0]).to(device)",
        "'data[0, 0, 0]' is a tensor, which may be on the host",
    ),
    "pinned memory": (
        "torch.zeros(2, pin_memory=True).to(device)",
        "it is given pin_memory, which may not go together with a device",
    ),
    "arguments that are not seen": (
        "torch.zeros(2, **dict(dtype=torch.long)).to(device)",
        "the device may be among its ** arguments",
    ),
    "something is computed of it": (
        "torch.ones(2).erfinv().to(device)",
        "'erfinv()' may compute otherwise on the device",
    ),
    "one element for several": (
        "torch.zeros(1, 4).expand(8, 4).to(device)",
        "'expand()' keeps one element for several, and the copy has several of it",
    ),
    "a device that is not known": (
        "torch.zeros(2).to(input())",
        "whether 'input()' is a device is not known: where the device comes from is not followed",
    ),
    "perhaps the current device": (
        "torch.zeros(2).cuda(input())",
        "the device may be None, which means the current one here",
    ),
}


@pytest.mark.parametrize(
    ("index", "is_made_there"),
    [
        pytest.param("0", True, id="a number"),
        pytest.param("0 if data.is_cuda else 1", True, id="one of two numbers"),
        pytest.param("0 if data.is_cuda else None", False, id="none, perhaps"),
        pytest.param("False", False, id="no number"),
    ],
)
def test_the_number_of_a_device_has_a_name(index: str, *, is_made_there: bool) -> None:
    before = f"{HEAD}    index = {index}\n    print(torch.zeros(2).cuda(index))\n"
    if is_made_there:
        check_rewrites(DeviceCtor, before, before.replace("zeros(2).cuda(index)", "zeros(2, device=index)"))
    else:
        check_leaves(DeviceCtor, before, "the device may be None, which means the current one here")


@pytest.mark.parametrize(("code", "because"), LEFT.values(), ids=LEFT)
def test_it_is_left(code: str, because: str) -> None:
    check_leaves(DeviceCtor, f"{HEAD}    y = {code}\n", because)


def test_another_stream_might_not_wait_for_it() -> None:
    code = HEAD + "    with torch.cuda.stream(torch.cuda.Stream()):\n        y = torch.zeros(2).to(device)\n"

    check_leaves(
        DeviceCtor, code, f"another stream is used (line {N + 1}), which may not wait for the tensor to be filled"
    )


SILENT = {
    "divided by a number, which CUDA may round otherwise": "    y = (torch.ones(8) / 3).to(device)\n",
    "a part of it, of which the copy has the memory in order": "    y = torch.ones(4, 4)[:, :2].to(device)\n",
    "one row of it": "    y = torch.ones(4, 4)[0].to(device)\n",
    "compared with a tensor, which is on the host": "    y = (torch.ones(4) < data[0]).to(device)\n",
    "compared with what may be a tensor": "    y = (torch.ones(4) == load(x)).to(device)\n",
    "compared with two numbers": "    y = (torch.ones(4) < 2 < 3).to(device)\n",
    "compared where the last bit shows": "    y = ((torch.arange(4) / 3).exp() == 1).to(device)\n",
    "times a tensor, which is on the host": "    y = (torch.ones(4) * data[0]).to(device)\n",
    "times what may be a tensor": "    y = (torch.ones(4) * load(x)).to(device)\n",
    "it is made there already": "    y = torch.zeros(2, device=device)\n",
    "it runs once": "y = torch.zeros(2).to(device)\n",
    "it stays on the host": '    y = torch.zeros(2).to("cpu")\n',
    "only its format changes": "    y = torch.zeros(2).to(torch.float64)\n",
    "numbers are copied in either form": "    y = torch.tensor([1, 2]).to(device)\n",
    "only its format changes, to that of another on the host": "    y = torch.zeros(2).type_as(data)\n",
    "only its type changes, to one on the host": "    y = torch.zeros(2).type(torch.FloatTensor)\n",
    "only its type changes, to one that is not known": "    y = torch.zeros(2).type(input())\n",
    "it is made there already, like another tensor": "    y = x.new_zeros(2).type_as(x)\n",
    "drawn like what is there": "    x = x.to(device)\n    y = torch.randn_like(x).to(device)\n",
    "drawn into what is like it": "    x = x.to(device)\n    y = torch.ones_like(x).data.normal_(0, 0.2).to(device)\n",
    "numbers that Python counts, of old": "    y = torch.FloatTensor([i + 1 for i in range(8)]).to(device)\n",
    "numbers that Python counts": "    y = torch.tensor([i for i in range(8)], dtype=torch.long).to(device)\n",
    "data of old": "    y = torch.FloatTensor([1, 2]).to(device)\n",
    "what may be data, of old": "    y = torch.FloatTensor(input()).to(device)\n",
    "a tuple, of old": "    y = torch.FloatTensor((8, 1)).to(device)\n",
    "what is unpacked, of old": "    y = torch.FloatTensor(*input()).to(device)\n",
    "of old, on the host": "    y = torch.FloatTensor(8, 1)\n",
    "it has a name on the host": "    y = torch.zeros(2)\n    print(y)\n    z = y.to(device)\n",
    "a function of the project": "    y = zeros(2).to(device)\n",
}


@pytest.mark.parametrize("code", SILENT.values(), ids=SILENT)
def test_what_needs_no_change_is_not_mentioned(code: str) -> None:
    head = HEAD.replace("device =", "def zeros(n):\n    return torch.zeros(n)\n\ndevice =", 1)

    check_silent(DeviceCtor, head + code)


def test_a_device_that_another_file_has_keeps_its_name() -> None:
    settings = Settings(frozenset({DeviceCtor.name()}), Promise.TRAINING)
    engine = (
        "import torch\nimport config\n\n\ndef train(model, data):\n    for x in data:\n"
        "        y = torch.zeros(8, 1).to(config.device)\n        (model(x) - y).mean().backward()\n"
    )
    texts = [
        Text("train.py", HEAD + "from engine import train\ntrain(model, data)\n", settings),
        Text("engine.py", engine, settings, "engine"),
        Text("config.py", 'import torch\ndevice = torch.device("cuda:0")\n', settings, "config"),
    ]

    _, other, _ = rewrite_project(texts)

    assert isinstance(other, Rewrite)
    assert other.after == engine.replace("(8, 1).to(config.device)", "(8, 1, device=config.device)")


def test_an_index_is_counted_where_the_tensor_is() -> None:
    body = "    y = model(x)\n    labels = torch.zeros(8, dtype=torch.long, device=device)\n    print(y[{}, labels].sum().item().hex())\n"
    before, after = (HEAD + body.format(each) for each in ("torch.arange(8)", "torch.arange(8, device=y.device)"))
    seeded = "import torch\ntorch.manual_seed(0)\n"

    check_rewrites(DeviceCtor, before, after)
    assert run_script(seeded + before) == run_script(seeded + after)


@pytest.mark.parametrize(
    ("index", "counted"),
    [
        ("range(8)", "torch.arange(8, device=y.device)"),
        ("list(range(x.size(0)))", "torch.arange(x.size(0), device=y.device)"),
        ("np.arange(0, len(labels))", "torch.arange(0, len(labels), device=y.device)"),
    ],
)
def test_so_is_an_index_that_python_makes_a_tensor_of(index: str, counted: str) -> None:
    body = "    y = model(x)\n    labels = torch.zeros(8, dtype=torch.long, device=device)\n    print(y[{}, labels].sum().item().hex())\n"
    before, after = (f"import numpy as np\n{HEAD}{body.format(each)}" for each in (index, counted))
    seeded = "import torch\ntorch.manual_seed(0)\n"

    check_rewrites(DeviceCtor, before, after)
    assert run_script(seeded + before) == run_script(seeded + after)


@pytest.mark.parametrize("index", ["range(int(input()))", "np.arange(options.size)"])
def test_an_index_that_may_end_before_it_starts_is_left(index: str) -> None:
    body = f"    y = model(x)\n    z = y[{index}, 0]\n"

    check_leaves(
        DeviceCtor,
        f"import numpy as np\nimport options\n{HEAD}{body}",
        f"whether '{index}' may end before it starts is not known, for which torch.arange fails",
    )


@pytest.mark.parametrize(
    ("body", "remedy"),
    [
        ("    z = y[order] + y[order]\n", "make it once, by torch.as_tensor(order, device=y.device)"),
        ("    z = y[order]\n", "make it there, by functions of torch"),
    ],
)
def test_an_array_is_copied_each_time_that_it_is_an_index(body: str, remedy: str) -> None:
    start = f"import numpy as np\n{HEAD}    y = model(x)\n    order = np.random.permutation(8)\n"

    check_leaves(
        DeviceCtor,
        start + body,
        f"each index by the array 'order' makes a tensor of it, and copies that to where 'y' is: {remedy}",
    )


INDICES_SILENT = {
    "of an array": "    y = model(x).detach().cpu().numpy()\n    z = y[range(8), 0]\n",
    "in steps": "    y = model(x)\n    z = y[range(0, 8, 2), 0]\n",
    "of a number format": "    y = model(x)\n    z = y[np.arange(8, dtype=np.int32), 0]\n",
    "a list of others": "    y = model(x)\n    z = y[list(input()), 0]\n",
    "a tensor": "    y = model(x)\n    order = torch.randperm(8, device=device)\n    z = y[order]\n",
}


@pytest.mark.parametrize("body", INDICES_SILENT.values(), ids=INDICES_SILENT)
def test_an_index_that_stays(body: str) -> None:
    check_silent(DeviceCtor, f"import numpy as np\n{HEAD}{body}")


def test_an_array_is_no_index_outside_of_loops() -> None:
    body = "y = model(data[0].to(device))\norder = np.arange(8)[::-1]\nz = y[order]\n"

    check_silent(DeviceCtor, f"import numpy as np\n{HEAD}{body}")


def test_an_index_that_may_round_otherwise_is_left() -> None:
    body = "    y = model(x)\n    z = y[torch.arange(float(input()), 8).long()]\n"

    check_leaves(
        DeviceCtor,
        HEAD + body,
        "'float(input())' is not known to be an integer, and floats may round otherwise there",
    )


def test_the_losses_are_the_same_bits_on_the_cpu() -> None:
    text = (
        "import torch\ntorch.manual_seed(0)\n"
        + HEAD
        + (
            "    mask = torch.tril(torch.ones(8, 8)).to(device)\n    noise = torch.randn(8, 4).to(device)\n"
            "    print((mask @ model(x + noise)).sum().item().hex(), torch.arange(8).to(device).sum().item())\n"
        )
    )
    result = run(DeviceCtor, text)

    assert result.after.count("device=device") == 2
    assert run_script(result.after) == run_script(text)


LIKE = """\
import torch

for other in (torch.zeros(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float16), torch.zeros(1).long()):
    {before}
    x = other.view(1)
    for made in (
        torch.ones(3).type_as(x),
        torch.zeros(3).to(x),
        torch.full((3,), 0.1).type_as(x),
        torch.full((3,), 1 / 3).to(x),
        torch.arange(3).type_as(x),
        torch.empty(3).fill_(8).type_as(x),
    ):
        print(made.dtype, made.double().sum().item().hex())
"""


def test_what_is_made_like_another_tensor_has_its_bits() -> None:
    text = LIKE.format(before="other = other.to(torch.device('cuda' if torch.cuda.is_available() else 'cpu'))")
    result = run(DeviceCtor, text)

    assert result.after.count("device=x.device") == 6
    assert run_script(result.after) == run_script(text)


def test_a_line_that_gets_too_wide_is_broken() -> None:
    long = "occlusion_of_the_images"
    text = HEAD + f"    {long} = x\n    y = torch.ones({long}.size(0), 1).type_as({long})\n"
    made = f"    y = torch.ones({long}.size(0), 1,\n{' ' * 19}dtype={long}.dtype, device={long}.device)\n"

    check_rewrites(DeviceCtor, text, HEAD + f"    {long} = x\n{made}")


CLOSURE = """\
optimizer = torch.optim.LBFGS(model.parameters())


def closure():
    optimizer.zero_grad()
    loss = (model(data[0].to(device)) - torch.ones(8, 1).to(device)).square().mean()
    loss.backward()
    return loss


"""


@pytest.mark.parametrize(
    "step",
    [
        pytest.param("optimizer.step(closure)\n", id="one step calls it again and again"),
        pytest.param("for _ in range(9):\n    optimizer.step(closure=closure)\n", id="by the parameter's name"),
    ],
)
def test_a_closure_runs_again_and_again(step: str) -> None:
    code = HEAD + CLOSURE + step
    new = code.replace("torch.ones(8, 1).to(device)", "torch.ones(8, 1, device=device)")

    check_rewrites(DeviceCtor, code, new)
    assert run_script(new) == run_script(code)


def test_a_function_that_nothing_calls_is_no_closure() -> None:
    check_silent(DeviceCtor, HEAD + CLOSURE)


ITEMS = {
    "an item of a data set": (
        "class Rows(torch.utils.data.Dataset):\n    def __len__(self):\n        return 10\n\n"
        "    def __getitem__(self, index):\n        return data[index], torch.zeros(1).to(device)\n\n\n"
        "loader = torch.utils.data.DataLoader(Rows(), 2)\n"
    ),
    "what collate_fn makes": (
        "def collate(rows):\n    return torch.stack(rows), torch.zeros(len(rows)).to(device)\n\n\n"
        "loader = torch.utils.data.DataLoader(data, 2, collate_fn=collate)\n"
    ),
}


@pytest.mark.parametrize("code", ITEMS.values(), ids=ITEMS)
def test_what_worker_processes_may_run_is_left(code: str) -> None:
    because = "worker processes may run it, and forked ones cannot use CUDA: copy the batch to the device in the training loop"

    check_leaves(DeviceCtor, HEAD + code, because)


@pytest.mark.parametrize("code", ITEMS.values(), ids=ITEMS)
def test_what_worker_processes_make_on_the_host_is_right(code: str) -> None:
    check_silent(DeviceCtor, HEAD + code.replace(".to(device)", ""))


def mask_of_class(*, call: str = "Mask(8, device=x.device)", first: str = "", made: str = "self.kept =") -> str:
    """A script that makes a mask in the constructor of a class, to which its calls give a device."""
    return HEAD.replace(
        "device =",
        f'class Mask:\n    def __init__(self, n, device="cpu"):\n{first}'
        f"        {made} torch.triu(torch.ones(n, n), 1).to(device)\n\n\n"
        "def cut(n, place):\n    return Mask(n, place)\n\n\ndevice =",
        1,
    ) + (f"    mask = {call}\n" if call else "")


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("Mask(8, device=x.device)", id="that of a tensor"),
        pytest.param("Mask(8)", id="its own default is a device"),
        pytest.param("cut(8, x.device)", id="through a function"),
        pytest.param("Mask(8), Mask(8, data.new_zeros(1).device)", id="each call gives another one"),
    ],
)
def test_what_each_call_of_a_class_gives_as_the_device_is_one(call: str) -> None:
    before = mask_of_class(call=f"{call}, cut(8, x.device)")

    check_rewrites(
        DeviceCtor, before, before.replace("torch.ones(n, n), 1).to(device)", "torch.ones(n, n, device=device), 1)")
    )


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(mask_of_class(call="cut(8, input())"), id="one call gives what is not known"),
        pytest.param(mask_of_class(call="Mask(8, x.dtype)"), id="one call gives a number format"),
        pytest.param(mask_of_class(call="Mask(8, **eval(input()))"), id="a call has arguments that are not seen"),
        pytest.param(
            mask_of_class(call="cut(8, x.device)", first="        device = eval(device)\n"), id="it is bound anew"
        ),
    ],
)
def test_what_a_call_of_a_class_gives_may_be_no_device(code: str) -> None:
    (site,) = run(DeviceCtor, code).sites

    assert not site.rewrites
    assert "whether 'device' is a device is not known" in site.message


LATER = {
    "one tensor": (
        "    y = torch.zeros(x.size())\n    if x.is_cuda:\n        y = y.cuda()\n",
        "    y = torch.zeros(x.size(), device=x.device)\n",
    ),
    "a variable, on one line": (
        "    y = Variable(torch.ones(2, 1))\n    if x.is_cuda: y = y.cuda()\n",
        "    y = Variable(torch.ones(2, 1, device=x.device))\n",
    ),
    "a chain, with a number": (
        "    y = (torch.eye(4).view(1, 16).repeat(8, 1) * 2)[None]\n    if x.is_cuda:\n        y = y.cuda()\n",
        "    y = (torch.eye(4, device=x.device).view(1, 16).repeat(8, 1) * 2)[None]\n",
    ),
    "a comment on the copy goes along": (
        "    y = torch.zeros(2)\n    # on the GPU\n    if x.is_cuda:\n        y = y.cuda()  # here\n\n    print(y)\n",
        "    y = torch.zeros(2, device=x.device)\n\n    print(y)\n",
    ),
    "all that is copied under one condition": (
        "    y = torch.zeros(2)\n    z = torch.ones(2)\n    if x.is_cuda:\n        y = y.cuda()\n        z = z.to(x.device)\n",
        "    y = torch.zeros(2, device=x.device)\n    z = torch.ones(2, device=x.device)\n",
    ),
    "a tensor that is made in two steps": (
        "    z = torch.arange(2)\n    y = z[None].repeat(8, 1)\n    if x.is_cuda:\n        y = y.cuda()\n",
        "    z = torch.arange(2, device=x.device)\n    y = z[None].repeat(8, 1)\n",
    ),
    "as many as a tensor says": (
        "    y = torch.arange(0, x[0, 0].long() + 2)\n    if x.is_cuda:\n        y = y.cuda()\n",
        "    y = torch.arange(0, x[0, 0].long() + 2, device=x.device)\n",
    ),
    "a mask of lengths": (
        "    steps = torch.arange(0, 4).long()\n    row = steps.unsqueeze(0).expand(8, 4)\n    row = Variable(row)\n"
        "    if x.is_cuda:\n        row = row.cuda()\n"
        "    lengths = x[:, 0].unsqueeze(1).expand_as(row)\n    y = (row < lengths).float()\n",
        "    steps = torch.arange(0, 4, device=x.device).long()\n    row = steps.unsqueeze(0).expand(8, 4)\n"
        "    row = Variable(row)\n"
        "    lengths = x[:, 0].unsqueeze(1).expand_as(row)\n    y = (row < lengths).float()\n",
    ),
    "an identity of NumPy's": (
        "    y = Variable(torch.from_numpy(np.array([1, 0, 0, 1]).astype(np.float32))).view(1, 4).repeat(\n"
        "        8, 1)\n    if x.is_cuda:\n        y = y.cuda()\n",
        "    y = Variable(torch.eye(2, device=x.device)).view(1, 4).repeat(\n        8, 1)\n",
    ),
    "an identity in a row": (
        "    y = torch.from_numpy(np.eye(self.k).flatten().astype(np.float32))\n    if x.is_cuda:\n        y = y.cuda()\n",
        "    y = torch.eye(self.k, device=x.device).flatten()\n",
    ),
    "other statements stay under the condition": (
        "    y = torch.zeros(2)\n    if x.is_cuda:\n        print(x)\n        y = y.cuda()\n",
        "    y = torch.zeros(2, device=x.device)\n    if x.is_cuda:\n        print(x)\n",
    ),
}


def in_a_pass(body: str) -> str:
    """A script whose model runs the statements for each batch."""
    net = (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.a = nn.Linear(4, 1)\n"
        "        self.k = 4\n\n"
        f"    def forward(self, x):\n{textwrap.indent(body, '    ')}        return self.a(x) + y.sum()\n\n\ndevice ="
    )
    return (
        HEAD.replace("import torch", "import numpy as np\nimport torch", 1)
        .replace("model = nn.Linear(4, 1)", "model = Net()")
        .replace("device =", net, 1)
    )


@pytest.mark.parametrize(("before", "after"), LATER.values(), ids=LATER)
def test_what_is_copied_to_where_another_tensor_is_is_made_there(before: str, after: str) -> None:
    check_rewrites(DeviceCtor, in_a_pass(before), in_a_pass(after))
    assert run_script(in_a_pass(before)) == run_script(in_a_pass(after))


def test_what_is_drawn_stays_under_the_condition() -> None:
    before = (
        "    y = torch.zeros(2)\n    z = torch.rand(2)\n    if x.is_cuda:\n        y = y.cuda()\n        z = z.cuda()\n"
    )
    after = before.replace("        y = y.cuda()\n", "").replace("zeros(2)", "zeros(2, device=x.device)")
    result = run(DeviceCtor, in_a_pass(before))

    assert result.after == in_a_pass(after)
    assert [each.message for each in result.sites if not each.rewrites] == [RANDOM]


NEXT = {
    "cast to a type": (
        "    y = torch.arange(8).repeat(2)\n    y = y.type(torch.cuda.LongTensor)\n    y = y.cuda()\n",
        '    y = torch.arange(8, device="cuda").repeat(2)\n    y = y.cuda()\n',
    ),
    "a row that is only compared": (
        "    ids = torch.arange(0, 4).unsqueeze(0).expand(8, -1).to(device)\n    y = ids >= x[:, :1].sum(1).unsqueeze(1)\n",
        "    ids = torch.arange(0, 4, device=device).unsqueeze(0).expand(8, -1)\n    y = ids >= x[:, :1].sum(1).unsqueeze(1)\n",
    ),
    "a row that is copied below, and only compared": (
        "    ids = torch.arange(0, 4).unsqueeze(0).expand(8, -1)\n    ids = ids.to(device)\n    y = ids >= x[:, 0][:, None]\n",
        "    ids = torch.arange(0, 4, device=device).unsqueeze(0).expand(8, -1)\n    y = ids >= x[:, 0][:, None]\n",
    ),
    "directly below": ("    y = torch.zeros(2)\n    y = y.to(device)\n", "    y = torch.zeros(2, device=device)\n"),
    "a mask that is made in steps": (
        "    y = torch.triu(torch.ones(8, 8), diagonal=1).bool()\n    y = y.to(x.device)  # beside it\n",
        "    y = torch.triu(torch.ones(8, 8, device=x.device), diagonal=1).bool()\n",
    ),
    "to the current device": ("    y = torch.zeros(2)\n    y = y.cuda()\n", '    y = torch.zeros(2, device="cuda")\n'),
    "with something else in between": (
        "    y = torch.zeros(2)\n    z = x.size(0)\n    y = y.to(x.device)\n    y = y + z\n",
        "    y = torch.zeros(2, device=x.device)\n    z = x.size(0)\n    y = y + z\n",
    ),
    "in another number format": (
        "    y = torch.zeros(2)\n    y = y.to(device, torch.float64)\n",
        "    y = torch.zeros(2, device=device, dtype=torch.float64)\n",
    ),
    "like another tensor": (
        "    rows = x.shape[0]\n    y = torch.ones(rows, 1)\n    y = y.to(x)\n",
        "    rows = x.shape[0]\n    y = torch.ones(rows, 1, dtype=x.dtype, device=x.device)\n",
    ),
}


@pytest.mark.parametrize(("before", "after"), NEXT.values(), ids=NEXT)
def test_what_a_statement_of_its_own_copies_is_made_there(before: str, after: str) -> None:
    check_rewrites(DeviceCtor, in_a_pass(before), in_a_pass(after))
    if "cuda" not in before:
        assert run_script(in_a_pass(before)) == run_script(in_a_pass(after))


def test_the_copy_may_have_the_name_of_what_it_is_made_of() -> None:
    before = "    y = x.size(0)\n    y = torch.zeros(y)\n    y = y.to(device)\n"

    check_rewrites(
        DeviceCtor, in_a_pass(before), in_a_pass("    y = x.size(0)\n    y = torch.zeros(y, device=device)\n")
    )


NEXT_SILENT = {
    "it is added to in between": "    y = torch.zeros(2)\n    y += 1\n    y = y.to(device)\n",
    "it is made in a branch": "    if len(x) > 1:\n        y = torch.zeros(2)\n    print(y)\n    y = y.to(device)\n",
    "it is written to in between": "    y = torch.zeros(2)\n    y[0] = 1\n    y = y.to(device)\n",
    "the device is bound in between": (
        "    where = x.device\n    y = torch.zeros(2)\n    where = device\n    y = y.to(where)\n"
    ),
    "it is copied where a condition holds": "    y = torch.zeros(2)\n    if len(x) > 1:\n        y = y.to(device)\n",
}


def test_what_is_read_before_it_is_copied_is_left() -> None:
    check_leaves(
        DeviceCtor,
        in_a_pass("    y = torch.zeros(2)\n    print(y)\n    y = y.to(device)\n"),
        "'y' is read on the host before it is copied (line 14): name the device where it is made if it may be there already",
    )


@pytest.mark.parametrize("body", NEXT_SILENT.values(), ids=NEXT_SILENT)
def test_what_a_statement_of_its_own_copies_may_be_seen_before(body: str) -> None:
    check_silent(DeviceCtor, in_a_pass(body))


BY_NAME = {
    "under a condition": (
        "    y = torch.ones(2) * -1\n    if torch.cuda.is_available():\n        y = y.cuda()\n",
        '    y = torch.ones(2, device="cuda" if torch.cuda.is_available() else "cpu") * -1\n',
    ),
    "all that a condition copies": (
        "    y = torch.zeros(2)\n    z = Variable(torch.ones(2))\n    if OPTIONS.is_cuda:\n"
        "        y = y.cuda()\n        z = z.cuda()\n    y = y + z\n",
        '    y = torch.zeros(2, device="cuda" if OPTIONS.is_cuda else "cpu")\n'
        '    z = Variable(torch.ones(2, device="cuda" if OPTIONS.is_cuda else "cpu"))\n    y = y + z\n',
    ),
    "something else stays under the condition": (
        "    y = torch.zeros(2)\n    if OPTIONS.is_cuda:\n        print(x)\n        y = y.cuda()\n",
        '    y = torch.zeros(2, device="cuda" if OPTIONS.is_cuda else "cpu")\n'
        "    if OPTIONS.is_cuda:\n        print(x)\n",
    ),
    "in one expression": (
        "    y = torch.zeros(2)\n    y = y.cuda() if OPTIONS.is_cuda else y\n",
        '    y = torch.zeros(2, device="cuda" if OPTIONS.is_cuda else "cpu")\n',
    ),
    "the copy has another name": (
        "    z = torch.zeros(2)\n    y = z.to(device)\n",
        "    z = torch.zeros(2, device=device)\n    y = z\n",
    ),
    "the copy is a part of what it is for": (
        "    z = torch.zeros(2, 4)\n    rows = x.size(0)\n    y = self.a(z.to(x.device)) * rows\n",
        "    z = torch.zeros(2, 4, device=x.device)\n    rows = x.size(0)\n    y = self.a(z) * rows\n",
    ),
    "in each branch": (
        "    if x.size(0) > 4:\n        y = torch.zeros(2)\n    else:\n        y = torch.tensor([0.5])\n"
        "    y = y.to(device)\n",
        "    if x.size(0) > 4:\n        y = torch.zeros(2, device=device)\n    else:\n"
        "        y = torch.full((1,), 0.5, device=device)\n",
    ),
    "the copy is one of something else, too": (
        "    if x.size(0) > 4:\n        y = x.cpu().sum()\n    else:\n        y = torch.tensor([0.5])\n"
        "    y = y.to(device)\n",
        "    if x.size(0) > 4:\n        y = x.cpu().sum()\n    else:\n"
        "        y = torch.full((1,), 0.5, device=device)\n    y = y.to(device)\n",
    ),
    "the copy casts, too": (
        "    z = torch.zeros(2)\n    y = z.to(x)\n",
        "    z = torch.zeros(2, device=x.device)\n    y = z.to(x)\n",
    ),
}
OPTIONS = "import argparse\nimport numpy as np\nOPTIONS = argparse.Namespace(is_cuda=torch.cuda.is_available())\n"


def with_options(body: str) -> str:
    return in_a_pass(body).replace("\n\nclass", f"\n{OPTIONS}\nclass", 1)


@pytest.mark.parametrize(("before", "after"), BY_NAME.values(), ids=BY_NAME)
def test_what_is_copied_by_its_name_is_made_there(before: str, after: str) -> None:
    check_rewrites(DeviceCtor, with_options(before), with_options(after))
    assert run_script(with_options(before)) == run_script(with_options(after))


def test_what_is_drawn_in_another_branch_is_still_copied() -> None:
    before = (
        "    if x.size(0) > 4:\n        y = torch.rand(2)\n    else:\n        y = torch.ones(2)\n    y = y.to(device)\n"
    )
    result = run(DeviceCtor, in_a_pass(before))

    assert result.after == in_a_pass(before.replace("ones(2)", "ones(2, device=device)"))
    assert [each.message for each in result.sites if not each.rewrites] == [RANDOM]


def test_the_host_is_not_named_where_another_device_is_the_default() -> None:
    body = BY_NAME["all that a condition copies"][0]

    check_silent(DeviceCtor, with_options(body).replace("\ndata =", '\ntorch.set_default_device("cpu")\ndata =', 1))


SHAPED = {
    "its shape is taken apart above": (
        "    rows, _ = x.shape\n    y = torch.zeros(rows, 1).to(x)\n",
        "    rows, _ = x.shape\n    y = torch.zeros(rows, 1, dtype=x.dtype, device=x.device)\n",
    ),
    "in the statement itself": (
        "    y = torch.zeros(x.size(0), 1).to(x)\n",
        "    y = torch.zeros(x.size(0), 1, dtype=x.dtype, device=x.device)\n",
    ),
}


@pytest.mark.parametrize(("before", "after"), SHAPED.values(), ids=SHAPED)
def test_what_has_a_shape_is_no_device(before: str, after: str) -> None:
    """Nothing that the project calls says what the model is given: ``run`` of a library may do so."""
    before, after = (in_a_pass(each).replace(" model(x)", " run(model, x)") for each in (before, after))

    check_rewrites(DeviceCtor, before, after)


NAMED = {
    "of what is not known": (
        "    place = x.device\n    y = torch.zeros(8, 1).to(place)\n",
        "    place = x.device\n    y = torch.zeros(8, 1, device=place)\n",
    ),
    "of one thing or another": (
        "    place = x.device if x.ndim else self.device\n    y = torch.zeros(8, 1).to(place)\n",
        None,
    ),
    "which another name may be, too": (
        "    place = x.device\n    if x.ndim > 2:\n        place = self.place\n    y = torch.zeros(8, 1).to(place)\n",
        None,
    ),
    "of the number format": ("    place = x.dtype\n    y = torch.zeros(8, 1).to(place)\n", None),
}


@pytest.mark.parametrize(("before", "after"), NAMED.values(), ids=NAMED)
def test_a_device_of_another_tensor_has_a_name(before: str, after: str | None) -> None:
    """Nothing that the project calls says what the model is given: ``run`` of a library may do so."""
    code = in_a_pass(before).replace(" model(x)", " run(model, x)")

    if after is None:
        assert not any(each.rewrites for each in run(DeviceCtor, code).sites)
    else:
        check_rewrites(DeviceCtor, code, code.replace(before_in_pass(before), before_in_pass(after)))


def before_in_pass(body: str) -> str:
    """The statements as the model of the script has them."""
    return textwrap.indent(body, "    ")


def test_what_has_a_shape_is_asked_whether_it_is_on_cuda() -> None:
    """Options may have a flag of that name, and no device."""
    made = "    n = x.size(1)\n    y = torch.eye(n)[None]\n    if x.is_cuda:\n        y = y.cuda()\n"
    before = in_a_pass(made).replace(" model(x)", " run(model, x)")
    after = before.replace("torch.eye(n)", "torch.eye(n, device=x.device)")

    check_rewrites(DeviceCtor, before, after.replace("        if x.is_cuda:\n            y = y.cuda()\n", ""))
    unknown = after.replace("x.size(1)", "len(x)").replace("device=x.device", 'device="cuda" if x.is_cuda else "cpu"')
    after_that = unknown.replace("        if x.is_cuda:\n            y = y.cuda()\n", "")
    check_rewrites(DeviceCtor, before.replace("x.size(1)", "len(x)"), after_that)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("    y = torch.zeros(8, 1).to(x)\n", id="nothing asks for it"),
        pytest.param(
            "    if x is not None:\n        n = x.shape\n    y = torch.zeros(8, 1).to(x)\n", id="at times only"
        ),
        pytest.param("    y = torch.zeros(8, 1).to(x)\n    n = x.shape\n", id="below"),
        pytest.param("    n = x.shape\n    x = pick(x)\n    y = torch.zeros(8, 1).to(x)\n", id="of something else"),
        pytest.param("    n = x.shape if x else 0\n    y = torch.zeros(8, 1).to(x)\n", id="in a part at times"),
    ],
)
def test_what_nothing_surely_asks_for_a_shape_may_be_a_device(body: str) -> None:
    code = in_a_pass(body).replace(" model(x)", " run(model, x)")

    assert [each.rewrites for each in run(DeviceCtor, code).sites] == [False]


def test_what_was_filled_as_of_old_is_made_where_another_tensor_is() -> None:
    made = "    y = torch.FloatTensor(x.size() + (2,)).zero_()\n    if x.is_cuda:\n        y = y.cuda()\n"
    there = "    y = torch.zeros(x.size() + (2,), device=x.device)\n"
    check_rewrites(DeviceCtor, in_a_pass(made), in_a_pass(there))


def test_a_class_with_a_size_of_its_own_may_tell_it_as_a_list() -> None:
    own = "class Grid:\n    def size(self):\n        return [8, 1]\n\n\ngrid = Grid()\n"
    code = HEAD.replace("device =", f"{own}device =", 1) + "    y = torch.FloatTensor(grid.size()).zero_().to(device)\n"

    check_leaves(DeviceCtor, code, AS_OF_OLD)


LATER_LEFT = {
    "noise": ("torch.randn(2)", RANDOM),
    "filled, as of old, of a list": ("torch.FloatTensor([2, 3]).zero_()", AS_OF_OLD),
    "one element for several": ("torch.zeros(1, 4).expand(8, 4)", LEFT["one element for several"][1]),
}


@pytest.mark.parametrize(("made", "because"), LATER_LEFT.values(), ids=LATER_LEFT)
def test_what_is_copied_later_is_left_for_the_same_reasons(made: str, because: str) -> None:
    check_leaves(DeviceCtor, in_a_pass(f"    y = {made}\n    if x.is_cuda:\n        y = y.cuda()\n"), because)


def test_the_current_device_may_be_another_one() -> None:
    code = in_a_pass(LATER["one tensor"][0]) + "    z = torch.tensor([1, 2]).cuda(1)\n"
    because = (
        f"the copy goes to the current device, and the script names several (line {code.count(chr(10))}): name that of"
        " the other tensor in the constructor if it is the same"
    )

    check_leaves(DeviceCtor, code, because)


LATER_SILENT = {
    "it is read on the host": "    y = torch.zeros(2)\n    print(y)\n    if x.is_cuda:\n        y = y.cuda()\n",
    "numbers of NumPy": ("    y = torch.from_numpy(np.eye(3))\n    if x.is_cuda:\n        y = y.cuda()\n"),
    "it is there already": "    y = torch.zeros(2, device=x.device)\n    if x.is_cuda:\n        y = y.cuda()\n",
}


@pytest.mark.parametrize("body", LATER_SILENT.values(), ids=LATER_SILENT)
def test_what_is_copied_later_and_needs_no_change_is_not_mentioned(body: str) -> None:
    check_silent(DeviceCtor, with_options(body))


def test_a_batch_on_the_host_makes_no_copy() -> None:
    code = HEAD.replace("    x = x.to(device)\n", "").replace(".to(device)", "")

    check_silent(DeviceCtor, code + LATER["one tensor"][0])


COPIED_THERE = {
    "nothing, to add to": ("torch.tensor(0.0, device=device)", "torch.zeros((), device=device)"),
    "one, in a list": ("torch.tensor([1.0], device=x.device)", "torch.ones(1, device=x.device)"),
    "an integer": ("torch.tensor(0, device=device)", "torch.full((), 0, device=device)"),
    "an integer that is cast to floats": ("torch.tensor(0, device=device).float()", "torch.zeros((), device=device)"),
    "in its format": (
        "torch.tensor(3, device=device, dtype=torch.long)",
        "torch.full((), 3, dtype=torch.long, device=device)",
    ),
    "a size": (
        "torch.tensor(x.size(0), dtype=torch.float, device=device)",
        "torch.full((), x.size(0), dtype=torch.float, device=device)",
    ),
    "by torch.as_tensor": ('torch.as_tensor(0.5, device="cuda")', 'torch.full((), 0.5, device="cuda")'),
    "several times": ("torch.tensor([[0.5, 0.5]], device=device)", "torch.full((1, 2), 0.5, device=device)"),
}
NOT_COPIED_THERE = {
    "it stays on the host": "    y = torch.tensor(0.0, device='cpu')\n",
    "it is made once": "y = torch.tensor(0.0, device=device)\n",
    "several numbers": "    y = torch.tensor([0.0, 1.0], device=device)\n",
    "what may be data": "    y = torch.tensor(input(), device=device)\n",
    "a tensor": "    y = torch.tensor(x.mean(), device=device)\n",
    "what a tensor holds": "    y = torch.tensor(x.mean().item(), device=device)\n",
    "gradients are asked for": "    y = torch.tensor(0.0, device=device, requires_grad=True)\n",
    "its arguments are not seen": "    y = torch.tensor(0.0, device=device, **kind)\n",
    "it is filled there already": "    y = torch.full((), 0.5, device=device)\n",
    "torch.scalar_tensor fills it there": "    y = torch.scalar_tensor(0.5, device=device)\n",
    "a list that may be empty": "    y = torch.tensor([0] * x.size(0), device=device)\n",
}


@pytest.mark.parametrize(("before", "after"), COPIED_THERE.values(), ids=COPIED_THERE)
def test_a_number_is_filled_in_where_it_is_copied_to(before: str, after: str) -> None:
    check_rewrites(DeviceCtor, f"{HEAD}    y = {before}\n", f"{HEAD}    y = {after}\n")


@pytest.mark.parametrize("code", NOT_COPIED_THERE.values(), ids=NOT_COPIED_THERE)
def test_no_number_is_copied_again_and_again(code: str) -> None:
    check_silent(DeviceCtor, HEAD + code)


def test_no_number_is_copied_without_a_gpu() -> None:
    check_silent(DeviceCtor, HEAD.replace("cuda", "cpu") + "    y = torch.tensor(0.0, device=device)\n")


def test_a_number_is_not_filled_in_beside_another_stream() -> None:
    code = HEAD + "    with torch.cuda.stream(torch.cuda.Stream()):\n        y = torch.tensor(0.0, device=device)\n"

    check_leaves(
        DeviceCtor, code, f"another stream is used (line {N + 1}), which may not wait for the tensor to be filled"
    )


def test_a_default_format_is_said_where_an_integer_is_cast_to_floats() -> None:
    head = HEAD.replace("device =", "torch.set_default_dtype(torch.float64)\ndevice =", 1)

    check_rewrites(
        DeviceCtor,
        head + "    y = torch.tensor(0).float().to(device)\n",
        head + "    y = torch.zeros((), dtype=torch.float32, device=device)\n",
    )


STEPS = """
class Steps:
    def __init__(self, n: int):
        self.n = n

    def run(self, x):
        for i in range(self.n):
            t = torch.tensor({}){}
            model(x + t.view(1, 1))

"""
COUNTED = {
    "a part of all": "i / self.n",
    "a negative one": "1 - -i * 0.5",
    "an integer": "i + len(data)",
    "what a batch has": "i % x.size(0)",
}


def steps(number: str, copy: str = ".to(device)") -> str:
    """A script that makes a tensor of a number in each step of a loop."""
    return HEAD + STEPS.format(number, copy) + "\nSteps(9).run(data[0].to(device))\nSteps(int(input())).run(data[1])\n"


@pytest.mark.parametrize("number", COUNTED.values(), ids=COUNTED)
def test_a_number_that_is_computed_is_filled_in(number: str) -> None:
    made = f"torch.full((), {number}, device=device)"

    check_rewrites(DeviceCtor, steps(number), steps("NEW", "").replace("torch.tensor(NEW)", made))


def test_a_number_that_is_computed_takes_what_follows_along() -> None:
    check_rewrites(
        DeviceCtor,
        steps("i / 9", ".float().cuda()"),
        steps("NEW", ".float()").replace("torch.tensor(NEW)", 'torch.full((), i / 9, device="cuda")'),
    )


def test_a_filled_number_has_the_bits_of_a_copied_one() -> None:
    show = "            print(t.dtype, t.shape, t.double().item().hex())\n            model("
    before = steps("i / self.n", ".to(device)").replace("            model(", show).replace("int(input())", "7")
    before = "import torch\ntorch.manual_seed(0)\n" + before
    result = run(DeviceCtor, before)

    assert "torch.full((), i / self.n, device=device)" in result.after
    assert run_script(result.after) == run_script(before)


UNCOUNTED = {
    "what NumPy may have made": "i / scale",
    "what is computed with NumPy": "np.sqrt(i) / 2",
    "what is said to be nothing": "i / self.scale",
    "a tensor": "i / x[0, 0]",
}


@pytest.mark.parametrize("number", UNCOUNTED.values(), ids=UNCOUNTED)
def test_what_may_be_a_number_of_another_kind_is_not_mentioned(number: str) -> None:
    code = steps(number).replace("        self.n = n\n", "        self.n, self.scale = n, scale\n")

    check_silent(
        DeviceCtor, code.replace("import torch\n", "import numpy as np\nimport torch\nscale = np.load('a')\n", 1)
    )


UNNAMED = """\
from torch import nn, tensor

model = nn.Linear(1, 1).cuda()
for i in range(10):
    model(tensor(i / 10).cuda().view(1)).backward()
"""


def test_the_function_that_fills_in_a_number_cannot_be_named() -> None:
    check_leaves(DeviceCtor, UNNAMED, "torch.full, which fills in the number there, cannot be named here")


POSITIONS = """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Choosing(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 6)

    def forward(self, x, kind):
        rows = ROWS
        return self.layer(x)[rows, kind]


torch.manual_seed(0)
n = int(input())
choosing = Choosing().to(device)
for x in torch.randn(10, 8, 4):
    x, kind = x.to(device), torch.ones(8, dtype=torch.long, device=device)
    choosing(x, kind).mean().backward()
    print(choosing.layer.weight.grad.sum().item().hex())
"""
RANGES = {
    "as many as there are samples": (
        "torch.LongTensor(range(kind.size(0))).to(kind.device)",
        "torch.arange(kind.size(0), device=kind.device)",
    ),
    "by the length": ("torch.LongTensor(range(len(x))).to(device)", "torch.arange(len(x), device=device)"),
    "by the shape": ('torch.LongTensor(range(x.shape[0])).to("cuda")', 'torch.arange(x.shape[0], device="cuda")'),
    "from zero": ("torch.LongTensor(range(0, len(x))).cuda()", 'torch.arange(0, len(x), device="cuda")'),
    "of numbers": ("torch.LongTensor(range(2, 8)).cuda()", 'torch.arange(2, 8, device="cuda")'),
    "with a dimension more": (
        "torch.LongTensor(range(len(x))).unsqueeze(1).to(x.device)",
        "torch.arange(len(x), device=x.device).unsqueeze(1)",
    ),
    "in the format of another tensor": (
        "torch.LongTensor(range(len(x))).type_as(kind)",
        "torch.arange(len(x), device=kind.device).type_as(kind)",
    ),
}


@pytest.mark.parametrize(("before", "after"), RANGES.values(), ids=RANGES)
def test_a_range_is_counted_on_the_device(before: str, after: str) -> None:
    check_rewrites(DeviceCtor, POSITIONS.replace("ROWS", before), POSITIONS.replace("ROWS", after))


def test_a_range_that_is_counted_on_the_device_gives_the_same_bits() -> None:
    before = POSITIONS.replace("ROWS", RANGES["as many as there are samples"][0]).replace("int(input())", "8")
    result = run(DeviceCtor, before)

    assert RANGES["as many as there are samples"][1] in result.after
    assert run_script(result.after) == run_script(before)


RANGES_LEFT = {
    "it may be empty, where torch.arange fails": ("range(n)", "'range(n)'"),
    "it may end before it starts": ("range(1, len(x))", "'range(1, len(x))'"),
    "a difference may be below zero": ("range(len(x) - 9)", "'range(len(x) - 9)'"),
    "its start may be any": ("range(n, 9)", "'range(n, 9)'"),
}


@pytest.mark.parametrize(("counted", "quoted"), RANGES_LEFT.values(), ids=RANGES_LEFT)
def test_a_range_of_which_it_is_not_known_where_it_ends_is_left(counted: str, quoted: str) -> None:
    because = f"whether {quoted} may end before it starts is not known, for which torch.arange fails"

    check_leaves(DeviceCtor, POSITIONS.replace("ROWS", f"torch.LongTensor({counted}).to(device)"), because)


def test_a_range_is_left_where_torch_has_no_name() -> None:
    code = "from torch import LongTensor, nn\n\nmodel = nn.Linear(4, 6).cuda()\nfor x in input():\n    "
    code += "x = x.cuda()\n    model(x)[LongTensor(range(len(x))).cuda(), 1].mean().backward()\n"

    check_leaves(DeviceCtor, code, "torch.arange, which counts the same there, cannot be named here")


@pytest.mark.parametrize(
    "rows",
    {
        "another number format": "torch.IntTensor(range(8)).to(device)",
        "floats": "torch.FloatTensor(range(8)).to(device)",
        "in steps": "torch.LongTensor(range(0, 8, 2)).to(device)",
        "numbers of a list": "torch.LongTensor(list(range(8))).to(device)",
        "it stays on the host": "torch.LongTensor(range(8))",
    }.items(),
    ids=lambda each: each[0],
)
def test_what_is_no_plain_range_is_not_mentioned(rows: tuple[str, str]) -> None:
    check_silent(DeviceCtor, POSITIONS.replace("ROWS", rows[1]))


def test_a_range_of_the_script_itself_is_not_mentioned() -> None:
    code = POSITIONS.replace("ROWS", "torch.LongTensor(range(8)).to(device)")

    check_silent(DeviceCtor, code.replace("\n\nclass", "\n\ndef range(n):\n    return [n]\n\n\nclass", 1))


EMBEDDING = """\
import math
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.a = nn.Linear(width, 4)

    def forward(self, t, width=8):
{body}        return self.a((t[:, None] * y).sin())


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
model = Net(8).to(device)
for t in torch.rand(10, 4):
    loss = model(t.to(device)).square().mean()
    loss.backward()
    print(loss.item())
"""
ROUNDED = {
    "frequencies": (
        "        half = width // 1\n        y = torch.exp(-math.log(10000) * torch.arange(0, half) / half).to(t.device)\n",
        "        half = width // 1\n"
        "        y = torch.exp(-math.log(10000) * torch.arange(0, half, device=t.device) / half)\n",
    ),
    "by an attribute": (
        "        y = torch.exp(torch.arange(self.width) / self.width).to(t.device)\n",
        "        y = torch.exp(torch.arange(self.width, device=t.device) / self.width)\n",
    ),
    "by a method": (
        "        y = (torch.arange(8) * -0.5).exp().to(device)\n",
        "        y = (torch.arange(8, device=device) * -0.5).exp()\n",
    ),
    "a power of a number": (
        "        y = (1 / 10000 ** (torch.arange(8).float() / 8)).to(device)\n",
        "        y = (1 / 10000 ** (torch.arange(8, device=device).float() / 8))\n",
    ),
    "one name for the number, the tensor and its copy": (
        "        y = math.log(10000) / (width - 1)\n        y = torch.exp(torch.arange(width) * -y)\n"
        "        y = y.to(device=t.device)\n",
        "        y = math.log(10000) / (width - 1)\n        y = torch.exp(torch.arange(width, device=t.device) * -y)\n",
    ),
}


@pytest.mark.parametrize(("before", "after"), ROUNDED.values(), ids=ROUNDED)
def test_what_only_the_last_bit_may_differ_of_is_computed_there(before: str, after: str) -> None:
    text = EMBEDDING.format(body=before)
    result = run(DeviceCtor, text)

    assert result.after == EMBEDDING.format(body=after)
    assert [each.promise for each in result.sites] == [Promise.PRECISION]
    assert run_script(text) == run_script(result.after)


SHOWN = {
    "a cast": ("(torch.arange(8) / 8).exp().long().to(device)", "long()"),
    "a cast of the copy": ("(torch.arange(8) / 8).exp().to(device).int()", "int()"),
    "a function of the copy": ("torch.floor((torch.arange(8) / 8).exp().to(device))", "floor()"),
    "a comparison": ("(torch.arange(8) / 8).exp().to(device) < 2", "'(torch.arange(8) / 8).exp().to(device) < 2'"),
    "what the copy is like": ("(torch.arange(8) / 8).exp().to(t)", "the cast of the copy"),
}


@pytest.mark.parametrize(("code", "shown"), SHOWN.values(), ids=SHOWN)
def test_where_a_last_bit_may_show_it_is_left(code: str, shown: str) -> None:
    text = EMBEDDING.format(body=f"        t = torch.tensor([0.5, 2.5]).to(device)\n        y = {code}\n")
    check_leaves(DeviceCtor, text, f"it may round otherwise on the device, which {shown} may show")


UNROUNDED = {
    "a division alone, of which whole numbers may be the point": "(torch.arange(8) / 2).to(device)",
    "computed with a tensor of the host": "torch.exp(torch.arange(8) * torch.ones(8)).to(device)",
    "computed with what may be a tensor of the host": "torch.exp(torch.arange(8) * self.scale).to(device)",
    "with what is only measured in what counts": "torch.exp(torch.arange(len(z)) * z).to(device)",
    "two of them": "torch.exp(torch.arange(8) / torch.arange(1, 9)).to(device)",
}


@pytest.mark.parametrize("code", UNROUNDED.values(), ids=UNROUNDED)
def test_what_may_be_more_than_one_number_stays_on_the_host(code: str) -> None:
    check_silent(DeviceCtor, EMBEDDING.format(body=f"        z = torch.ones(8)\n        y = {code}\n"))
