from __future__ import annotations

import pytest
import torch
from kit import check_leaves, check_rewrites, check_silent, run

from autotune_rewrite.rewriting.config import Settings
from autotune_rewrite.rewriting.results import Rewrite
from autotune_rewrite.rewriting.rewrite import Text, rewrite, rewrite_project
from codemods.codemod import Choices, Leaves, Promise, Rewrites
from codemods.dataflow.source import Module
from codemods.facts.script import Script
from codemods.rules.channels_last import ChannelsLast

START = """\
import torch
from torch import nn
import torch.nn.functional as F

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 256, 3, padding=1)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(256, 10)
{init}
    def forward(self, x):
        x = F.relu(self.conv(x))
{forward}


"""
IN_16_BITS = """\
for images in torch.randn(100, 64, 3, 64, 64):
    with torch.autocast("cuda", torch.bfloat16):
        out = model(images.to(device))
        loss = {loss}
    loss.backward()
"""
VECTORS = "return self.fc(torch.flatten(self.pool(x), 1))"
WHERE_CUDA = 'if device.type == "cuda":\n    model.to(memory_format=torch.channels_last)\n'


def text(
    *,
    init: str = "",
    forward: str = VECTORS,
    move: str = "model = Net().to(device)\n",
    loss: str = "out.square().mean()",
    more: str = "",
) -> str:
    """A script that trains a convolutional network."""
    inside = "\n".join(f"        {each}" for each in forward.split("\n"))
    head = START.format(init=f"        {init}\n" if init else "", forward=inside)
    return head + move + IN_16_BITS.format(loss=loss) + more


OPTIONS = (
    "import argparse\n\nparser = argparse.ArgumentParser()\nparser.add_argument('--ngpu', type=int, default=1)\n"
    "args = parser.parse_args()\n"
)
ASKED = "if args.ngpu > 1:\n    model = nn.DataParallel(model, device_ids=list(range(args.ngpu)))\n"
SEVERAL = "if torch.cuda.device_count() > 1:\n    model = nn.DataParallel(model)\n"


@pytest.mark.parametrize(
    ("move", "after"),
    [
        pytest.param(
            "model = Net().to(device)\n" + SEVERAL,
            "model = Net().to(device)\n" + WHERE_CUDA + SEVERAL,
            id="after it is moved",
        ),
        pytest.param(
            "model = Net()\n" + SEVERAL + "model.to(device)\n",
            "model = Net()\n" + SEVERAL + "model.to(device)\n" + WHERE_CUDA,
            id="before it is moved",
        ),
        pytest.param(
            OPTIONS + "model = Net()\n" + ASKED + "model.to(device)\n",
            OPTIONS + "model = Net()\n" + ASKED + "model.to(device)\n" + WHERE_CUDA,
            id="an option asks for several",
        ),
        pytest.param(
            "model = Net()\n" + SEVERAL.replace("model", "model.conv") + "model.to(device)\n",
            "model = Net()\n" + SEVERAL.replace("model", "model.conv") + "model.to(device)\n" + WHERE_CUDA,
            id="a part of it",
        ),
    ],
)
def test_one_gpu_is_served_where_only_several_have_copies(move: str, after: str) -> None:
    check_rewrites(ChannelsLast, text(move=move), text(move=after))


def reason(script: str) -> tuple[str, str]:
    """Why the one site of the script is left."""
    result = run(ChannelsLast, script)
    assert result.after == script
    (site,) = result.sites
    return site.code, site.message


@pytest.mark.parametrize("example", [each for each in ChannelsLast.examples if isinstance(each, Rewrites)])
def test_examples_that_are_rewritten(example: Rewrites) -> None:
    check_rewrites(ChannelsLast, example.before, example.after)


@pytest.mark.parametrize("example", [each for each in ChannelsLast.examples if isinstance(each, Leaves)])
def test_examples_that_are_left(example: Leaves) -> None:
    check_leaves(ChannelsLast, example.code, example.because)


MOVES = {
    "under the device's condition": ("model = Net().to(device)\n", WHERE_CUDA),
    "plain where CUDA is certain": ("model = Net()\nmodel.cuda()\n", "model.to(memory_format=torch.channels_last)\n"),
    "in the branch that moves it": (
        "model = Net()\nif torch.cuda.is_available():\n    model.cuda()\n",
        "    model.to(memory_format=torch.channels_last)\n",
    ),
    "before it is wrapped to be trained by several processes": (
        "model = Net().to(device)\n",
        WHERE_CUDA + "model = nn.parallel.DistributedDataParallel(model)\n",
    ),
    "after its weights are loaded": (
        'model = Net().to(device)\nmodel.load_state_dict(torch.load("weights.pt"))\n',
        WHERE_CUDA,
    ),
}


@pytest.mark.parametrize(("move", "new"), MOVES.values(), ids=MOVES)
def test_it_is_written_below_the_move(move: str, new: str) -> None:
    wrapping = new.removeprefix(WHERE_CUDA) if new.startswith(WHERE_CUDA) else ""

    check_rewrites(ChannelsLast, text(move=move + wrapping), text(move=move + new))


VIEWS = {
    "a view of images": (
        "x = F.avg_pool2d(x, 64)\nx = x.view(x.size(0), -1)\nreturn self.fc(x)",
        "x = F.avg_pool2d(x, 64)\nx = x.reshape(x.size(0), -1)\nreturn self.fc(x)",
    ),
    "a view of what was a view of images": (
        "x = F.avg_pool2d(x, 64).view(len(x), -1)\nx = x.view(x.size(0), 256)\nreturn self.fc(x)",
        "x = F.avg_pool2d(x, 64).reshape(len(x), -1)\nx = x.view(x.size(0), 256)\nreturn self.fc(x)",
    ),
    "a view that takes the name of the images and is written to": (
        "x = self.pool(x) + x.mean()\nx = x.view(-1, 256)\nx = F.relu(x, inplace=True)\nreturn self.fc(x)",
        "x = self.pool(x) + x.mean()\nx = x.reshape(-1, 256)\nx = F.relu(x, inplace=True)\nreturn self.fc(x)",
    ),
    "in a loop": (
        "for _ in range(2):\n    x = x.view(-1, 256, 64, 64)\n" + VECTORS,
        "for _ in range(2):\n    x = x.reshape(-1, 256, 64, 64)\n" + VECTORS,
    ),
    "view_as": ("x = x + x.view_as(x)\n" + VECTORS, "x = x + x.reshape_as(x)\n" + VECTORS),
    "on one of two ways": (
        "y = self.pool(x)\nif self.training:\n    y = x.mean((2, 3), keepdim=True) * x\n"
        "return self.fc(y.view(x.size(0), -1)[:, :256])",
        "y = self.pool(x)\nif self.training:\n    y = x.mean((2, 3), keepdim=True) * x\n"
        "return self.fc(y.reshape(x.size(0), -1)[:, :256])",
    ),
    "not of one pixel, which may be viewed in any layout": (
        "return self.fc(self.pool(x).view(x.size(0), -1))",
        "return self.fc(self.pool(x).view(x.size(0), -1))",
    ),
    "not of one pixel that has a name": (
        "y = F.adaptive_avg_pool2d(x, (1, 1))\ny = torch.sigmoid(y)\nreturn self.fc(y.view(-1, 256))",
        "y = F.adaptive_avg_pool2d(x, (1, 1))\ny = torch.sigmoid(y)\nreturn self.fc(y.view(-1, 256))",
    ),
    "not of vectors": (
        "x = self.fc(torch.flatten(self.pool(x), 1))\nreturn x.transpose(0, 1).view(-1) if False else x.view(-1)",
        "x = self.fc(torch.flatten(self.pool(x), 1))\nreturn x.transpose(0, 1).reshape(-1) if False else x.view(-1)",
    ),
}


def test_a_buffer_is_laid_out_with_the_model() -> None:
    init, view = (
        'self.register_buffer("grid", torch.randn(1, 256, 4, 4))',
        "x = x + self.grid.view(1, 256, 16).mean()\n",
    )
    before = text(init=init, forward=view + VECTORS)
    after = text(
        init=init, forward=view.replace("view", "reshape") + VECTORS, move="model = Net().to(device)\n" + WHERE_CUDA
    )

    check_rewrites(ChannelsLast, before, after)


def test_a_layer_without_weights_may_be_made_for_the_call() -> None:
    forward = "x = nn.ReLU(inplace=True)(x + 1)\n" + VECTORS
    moved = "model = Net().to(device)\n" + WHERE_CUDA

    check_rewrites(ChannelsLast, text(forward=forward), text(forward=forward, move=moved))


@pytest.mark.parametrize(("before", "after"), VIEWS.values(), ids=VIEWS)
def test_what_fails_in_this_layout_is_written_otherwise(before: str, after: str) -> None:
    moved = "model = Net().to(device)\n" + WHERE_CUDA

    check_rewrites(ChannelsLast, text(forward=before), text(forward=after, move=moved))


def test_a_view_with_a_row_for_each_image_stays() -> None:
    forward = "x = F.avg_pool2d(x, 64)\nx = x.view(-1, self.wide)\nreturn self.fc(x)"
    init = "self.norm = nn.BatchNorm2d(256)\n        self.wide = 256"
    before = text(init=init, forward=forward)

    check_rewrites(ChannelsLast, before, before.replace("for images", f"{WHERE_CUDA}for images", 1))


@pytest.mark.parametrize(
    "wrapper", ["", "model = nn.parallel.DistributedDataParallel(model)\n"], ids=["plain", "wrapped"]
)
def test_a_model_may_be_run_by_forward(wrapper: str) -> None:
    before = text(more="").replace("out = model(", "out = model.forward(")
    before = before.replace("for images in", wrapper + "for images in")
    moved = "model = Net().to(device)\n"

    check_rewrites(ChannelsLast, before, before.replace(moved, moved + WHERE_CUDA))


def test_a_matrix_may_be_summed_over_processes() -> None:
    forward = (
        "x = torch.flatten(self.pool(x), 1)\nc = x.T @ x\ntorch.distributed.all_reduce({})\nreturn self.fc(x) + c.sum()"
    )
    moved = "model = Net().to(device)\n" + WHERE_CUDA

    check_rewrites(ChannelsLast, text(forward=forward.format("c")), text(forward=forward.format("c"), move=moved))
    assert reason(text(forward="torch.distributed.all_reduce(x)\n" + VECTORS)) == (
        "unknown-model",
        "whether torch.distributed.all_reduce() keeps the layout is not known (line 17)",
    )


def test_rows_of_a_vector_may_be_viewed() -> None:
    forward = "x.flatten()[:-1].view(3, -1).sum()\n" + VECTORS
    moved = "model = Net().to(device)\n" + WHERE_CUDA

    check_rewrites(ChannelsLast, text(forward=forward), text(forward=forward, move=moved))


LEFT = {
    "a view is written to": (
        text(forward="x.view(-1).mul_(2)\n" + VECTORS),
        "other-layout",
        "what is written to a view of images would be lost in this layout (line 17)",
    ),
    "a view with a name is written to": (
        text(forward="y = x.view(-1)\ny *= 2\n" + VECTORS),
        "other-layout",
        "what is written to a view of images would be lost in this layout (line 17)",
    ),
    "a view with a name is given to a function that writes": (
        text(forward="y = x.view(-1)\nF.relu_(y)\n" + VECTORS),
        "other-layout",
        "what is written to a view of images would be lost in this layout (line 17)",
    ),
    "a view is given to a layer that works in place": (
        text(init="self.relu = nn.ReLU(inplace=True)", forward="self.relu(x.view(-1))\n" + VECTORS),
        "other-layout",
        "what is written to a view of images would be lost in this layout (line 18)",
    ),
    "a view is given to a layer that works in place and is made for the call": (
        text(forward="nn.ReLU(inplace=True)(x.view(-1))\n" + VECTORS),
        "other-layout",
        "what is written to a view of images would be lost in this layout (line 17)",
    ),
    "a convolution is made for the call": (
        text(forward="x = nn.Conv2d(256, 256, 3)(x)\n" + VECTORS),
        "unknown-model",
        "whether nn.Conv2d() keeps the layout is not known (line 17)",
    ),
    "what is written to is a view in the usual layout alone": (
        text(forward="x.flatten(1)[:, 0] = 0\n" + VECTORS),
        "other-layout",
        "what is written to a view of images would be lost in this layout (line 17)",
    ),
    "such a view with a name is written to": (
        text(forward="y = torch.reshape(x, (x.size(0), -1))\ny.mul_(2)\n" + VECTORS),
        "other-layout",
        "what is written to a view of images would be lost in this layout (line 17)",
    ),
    "such a view of weights is written to": (
        text(more="    for p in model.parameters():\n        p.data.reshape(-1).clamp_(-1, 1)\n"),
        "other-layout",
        "what is written to a view of images or weights would be lost in this layout (line 27)",
    ),
    "such a view of what the model computes is written to": (
        text(forward="return x", loss="out.square().mean()").replace(
            "        loss =", "        out.flatten(1)[:, 0] = 0\n        loss ="
        ),
        "other-layout",
        "what is written to a view of images or weights would be lost in this layout (line 24)",
    ),
    "bytes are viewed as other numbers": (
        text(forward="y = x.view(torch.int16)\n" + VECTORS),
        "other-layout",
        "x.view() takes the bytes of images for other numbers, as they lie (line 17)",
    ),
    "pairs are viewed as complex numbers": (
        text(forward="y = torch.view_as_complex(x[..., :2])\n" + VECTORS),
        "other-layout",
        "its code asks how a tensor lies in memory, by torch.view_as_complex() (line 17)",
    ),
    "images are laid out as before": (
        text(forward="x = x.contiguous()\n" + VECTORS),
        "other-layout",
        "x.contiguous() lays images out as before (line 17)",
    ),
    "edges are reflected": (
        text(forward='x = F.pad(x, (1, 1, 1, 1), mode="reflect")\n' + VECTORS),
        "other-layout",
        "F.pad() of edges lays images out as before (line 17)",
    ),
    "the code asks for the memory": (
        text(forward="self.at = x.data_ptr()\n" + VECTORS),
        "other-layout",
        "its code asks how a tensor lies in memory, by x.data_ptr() (line 17)",
    ),
    "convolutions have groups": (
        text(init="self.deep = nn.Conv2d(256, 256, 3, groups=256)"),
        "other-layout",
        "its convolutions have groups, which may be slower so in 16 bits (line 14)",
    ),
    "convolutions have groups by position": (
        text(init="self.deep = nn.Conv2d(256, 256, 3, 1, 1, 1, 256)"),
        "other-layout",
        "its convolutions have groups, which may be slower so in 16 bits (line 14)",
    ),
    "convolutions may have groups": (
        text(init="self.deep = nn.Conv2d(256, 256, 3, **options)"),
        "other-layout",
        "its convolutions may have groups, which may be slower so in 16 bits (line 14)",
    ),
    "a volume is convolved": (
        text(init="self.deep = nn.Conv3d(1, 1, 1)"),
        "other-layout",
        "torch.nn.Conv3d() has weights of five dimensions, which have another layout (line 14)",
    ),
    "a weight has five dimensions": (
        text(init="self.scale = nn.Parameter(torch.zeros(1, 1, 1, 1, 1))"),
        "other-layout",
        "a tensor of the model is not seen to have four dimensions at most: five have another layout (line 14)",
    ),
    "a weight has unknown dimensions": (
        text(init="self.scale = nn.Parameter(torch.zeros(sizes()))"),
        "other-layout",
        "a tensor of the model is not seen to have four dimensions at most: five have another layout (line 14)",
    ),
    "a layer is not known": (
        text(init="self.more = mystery()", forward="x = self.more(x)\n" + VECTORS),
        "unknown-model",
        "whether self.more() keeps the layout is not known (line 18)",
    ),
    "a function of autograd is the project's": (
        text(
            forward="x = Same.apply(x)\n" + VECTORS,
            move="class Same(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
            "        return x.view(-1)\n\n\nmodel = Net().to(device)\n",
        ),
        "unknown-model",
        "whether Same.apply() keeps the layout is not known (line 17)",
    ),
    "weights are copied to several GPUs": (
        text(move="model = nn.DataParallel(Net()).to(device)\n"),
        "data-parallel",
        "nn.DataParallel copies the model in each iteration, and lays out the weights anew: "
        "convert to DistributedDataParallel first",
    ),
    "weights are copied to several GPUs if no option is given": (
        text(move=OPTIONS.replace("=1", "=2") + "model = Net()\n" + ASKED + "model.to(device)\n"),
        "data-parallel",
        "nn.DataParallel copies the model in each iteration, and lays out the weights anew: "
        "convert to DistributedDataParallel first",
    ),
    "an option without a default": (
        text(move=OPTIONS.replace(", default=1", ", required=True") + "model = Net()\n" + ASKED + "model.to(device)\n"),
        "data-parallel",
        "nn.DataParallel copies the model in each iteration, and lays out the weights anew: "
        "convert to DistributedDataParallel first",
    ),
    "weights are copied to several GPUs in one branch": (
        text(
            move="model = Net().to(device)\nif __debug__:\n    model = nn.DataParallel(model)\nelse:\n"
            "    model = nn.parallel.DistributedDataParallel(model)\n"
        ),
        "data-parallel",
        "nn.DataParallel lays out the weights anew in each iteration, in one branch (line 22)",
    ),
    "it is scripted": (
        text(move="model = torch.jit.script(Net().to(device))\n"),
        "torchscript",
        "TorchScript of the model is made, of which nothing is followed",
    ),
    "weights are viewed": (
        text(loss="out.mean() + sum(p.view(-1).norm() for p in model.parameters())"),
        "other-layout",
        "view() fails on weights in this layout (line 24): write reshape",
    ),
    "weights are written to through a view": (
        text(more="    for p in model.parameters():\n        p.data.view(-1).add_(0.1)\n"),
        "other-layout",
        "view() fails on weights in this layout (line 27)",
    ),
    "gradients are viewed": (
        text(more="    n = [p.grad.view(-1) for p in model.parameters()]\n"),
        "other-layout",
        "view() fails on weights in this layout (line 26): write reshape",
    ),
    "weights become a vector": (
        text(more="    v = nn.utils.parameters_to_vector(model.parameters())\n"),
        "other-layout",
        "nn.utils.parameters_to_vector() fails on weights in this layout (line 26)",
    ),
    "a checkpoint is loaded into a fused optimizer": (
        text(
            move="model = Net().to(device)\noptimizer = torch.optim.Adam(model.parameters(), fused=True)\n"
            'optimizer.load_state_dict(torch.load("last.pt"))\n',
            more="    optimizer.step()\n    optimizer.zero_grad()\n",
        ),
        "checkpoint-loaded",
        "it is stepped by a fused optimizer (line 21), which would misread a checkpoint in another layout",
    ),
    "a fused optimizer steps with gradients of the script's own": (
        text(
            move="model = Net().to(device)\noptimizer = torch.optim.Adam(model.parameters(), fused=True)\n",
            more="    for p in model.parameters():\n        p.grad = p.grad.contiguous()\n    optimizer.step()\n",
        ),
        "gradients-read",
        "a fused optimizer would misread gradients that the script makes (line 28)",
    ),
    "weights are made orthogonal later": (
        text(move="model = Net().to(device)\nfor each in model.modules():\n    nn.init.orthogonal_(each.weight)\n"),
        "other-layout",
        "nn.init.orthogonal_() fails on weights in this layout (line 22)",
    ),
    "the model computes images, which are viewed": (
        text(forward="return x", loss="out.view(-1).mean()"),
        "other-layout",
        "view() may fail on what the model computes, where that is images in this layout (line 24): write reshape",
    ),
    "a layer of the model is called alone": (
        text(loss="out.mean() + model.conv(images.to(device)).view(-1).mean()"),
        "other-layout",
        "view() may fail on what the model computes, where that is images in this layout (line 24): write reshape",
    ),
    "another method of the model views images": (
        text(
            forward=VECTORS + "\n\ndef features(self, x):\n    return self.conv(x).view(x.size(0), -1)",
            loss="out.mean() + 0",
        ).replace("        def features", "    def features"),
        "other-layout",
        "view() may fail on what the model computes, where that is images in this layout (line 20): write reshape",
    ),
    "hooks see what layers compute": (
        text(
            move="seen = []\nmodel = Net().to(device)\n"
            "model.conv.register_forward_hook(lambda layer, given, out: seen.append(out))\n",
            more="    sizes = [each.view(-1) for each in seen]\n",
        ),
        "other-layout",
        "view() may fail on what the model computes, where that is images in this layout (line 28): write reshape",
    ),
    "the script has a format of its own": (
        text(move="model = Net().to(device).half()\n"),
        "other-precision",
        "the script chooses its number formats itself (manual half precision)",
    ),
    "its class moves it in a way of its own": (
        text(
            forward=VECTORS + "\n\ndef to(self, device):\n    return super().to(device)",
            move="model = Net()\nmodel.cuda()\n",
        ).replace("        def to", "    def to"),
        "own-method",
        "its class has a method to() of its own",
    ),
    "apex is used": (
        text(
            move="from apex.optimizers import FusedSGD\n\nmodel = Net().to(device)\n"
            "optimizer = FusedSGD(model.parameters(), lr=0.1)\n"
        ),
        "apex",
        "Apex may keep copies of weights, and step them, in the usual layout",
    ),
    "nothing goes to CUDA": (
        text(move='device = "cpu"\nmodel = Net().to(device)\n'),
        "no-cuda",
        "no CUDA: nothing in this file moves a model or its batches to a CUDA device",
    ),
    "it is made in a loop": (
        text(move="for seed in range(3):\n    model = Net().to(device)\n"),
        "made-in-loop",
        "it is made or moved again in each pass of a loop (line 20)",
    ),
}


@pytest.mark.parametrize(("script", "code", "because"), LEFT.values(), ids=LEFT)
def test_it_is_left(script: str, code: str, because: str) -> None:
    assert reason(script) == (code, because)


def test_a_name_of_which_one_model_is_left_is_left() -> None:
    other = "nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8)).to(device)"
    result = run(ChannelsLast, text(move=f"import sys\n\nmodel = Net().to(device) if sys.argv[1:] else {other}\n"))

    assert [(each.code, each.message) for each in result.sites] == [
        ("left-with-another", "model may also be a model that is left"),
        ("other-layout", "torch.nn.GroupNorm() lays images out as before (line 22)"),
    ]


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(text(move="model = Net().to(device, memory_format=torch.channels_last)\n"), id="it is written"),
        pytest.param(
            "import torch\nfrom torch import nn\n\nmodel = nn.Conv1d(3, 8, 3).cuda()\n"
            "for x in torch.randn(9, 8, 3, 64).cuda():\n    model(x).sum().backward()\n",
            id="no images are convolved",
        ),
    ],
)
def test_there_is_nothing_to_say(script: str) -> None:
    check_silent(ChannelsLast, script)


ALLOWED = {
    "weights are made orthogonal before": text(
        move="model = Net()\nfor each in model.modules():\n    nn.init.orthogonal_(each.weight)\nmodel.to(device)\n"
    ),
    "a constant of few dimensions": text(init='self.register_buffer("m", torch.tensor([0.5, 0.2]).view(1, -1, 1, 1))'),
    "layers in a list": text(
        init="self.more = nn.ModuleList([nn.Conv2d(256, 256, 1) for _ in range(3)])",
        forward="for each in self.more:\n    x = each(x)\n" + VECTORS,
    ),
    "images that are joined": text(forward="x = torch.cat([x, x], 1)[:, :256]\n" + VECTORS),
    "labels that are viewed": text(loss="(out.argmax(1) == torch.zeros(64).to(device).view(-1)).float().mean()"),
    "vectors that are viewed": text(loss="out.view(-1).mean()"),
    "images that are laid out by reshape": text(forward="return x", loss="out.reshape(-1).mean()"),
}


@pytest.mark.parametrize("script", ALLOWED.values(), ids=ALLOWED)
def test_it_is_written_all_the_same(script: str) -> None:
    (site,) = run(ChannelsLast, script).sites

    assert site.rewrites


def test_dropout_draws_other_masks() -> None:
    with_dropout = text(init="self.drop = nn.Dropout()", forward="x = self.drop(x)\n" + VECTORS)
    (drawing,), (plain,) = run(ChannelsLast, with_dropout).sites, run(ChannelsLast, text()).sites

    assert (drawing.redraws, plain.redraws) == (True, False)


@pytest.mark.parametrize(
    ("before", "after", "redraws"),
    [
        pytest.param("", "model.apply(fill)\n", True, id="after the change"),
        pytest.param("", "fill(model.conv)\n", True, id="by a call of the function"),
        pytest.param("net = Net()\nnet.apply(fill)\n", "", False, id="before the model is moved"),
    ],
)
def test_weights_that_are_drawn_later_are_others(before: str, after: str, *, redraws: bool) -> None:
    fill = "def fill(layer):\n    if hasattr(layer, 'weight'):\n        nn.init.normal_(layer.weight)\n\n"
    move = f"model = {'net' if before else 'Net()'}.to(device)\n"

    (site,) = run(ChannelsLast, text(move=fill + before + move + after)).sites

    assert (site.redraws, "weights that are drawn later" in site.message) == (redraws, redraws)


# Beside mixed precision, and beside what is compiled.

PLAIN = text(
    move="model = Net().to(device)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n",
).replace(IN_16_BITS.format(loss="out.square().mean()"), "") + (
    "for images in torch.randn(100, 64, 3, 64, 64):\n    optimizer.zero_grad()\n"
    "    loss = model(images.to(device)).square().mean(){}\n    loss.backward()\n    optimizer.step()\n"
)


def together(script: str, *rules: str) -> tuple[dict[str, str], str]:
    result = rewrite("train.py", script, Settings(frozenset(rules), Promise.TRAINING))
    return {site.rule: site.code for site in result.sites}, result.after


@pytest.mark.parametrize(
    ("script", "rules", "codes"),
    [
        pytest.param(
            PLAIN.format(""),
            ("amp", "channels-last"),
            {"amp": "", "channels-last": ""},
            id="16 bits come in the same rewrite",
        ),
        pytest.param(
            PLAIN.format(" + torch.fft.fft(images.to(device)).abs().sum()"),
            ("amp", "channels-last"),
            {"amp": "breaks-in-16-bits", "channels-last": "left-with-another"},
            id="the rule for 16 bits leaves the script",
        ),
        pytest.param(
            PLAIN.format(""),
            ("channels-last",),
            {"channels-last": "left-with-another"},
            id="the rule for 16 bits does not run",
        ),
    ],
)
def test_in_32_bits_it_is_left(script: str, rules: tuple[str, ...], codes: dict[str, str]) -> None:
    assert together(script, *rules)[0] == codes


def test_mixed_precision_in_another_module_counts() -> None:
    engine = "import torch\n\ndef train(model, device):\n    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    engine += "".join(f"    {line}" for line in PLAIN.format("").partition("lr=0.1)\n")[2].splitlines(keepends=True))
    main = PLAIN.partition("optimizer")[0].replace("import torch\n", "import torch\nfrom engine import train\n", 1)
    settings = Settings(frozenset({"amp", "channels-last"}), Promise.TRAINING)

    results = rewrite_project(
        [
            Text("main.py", main + "train(model, device)\n", settings),
            Text("engine.py", engine, settings, "engine", is_entry=False),
        ]
    )

    found = {(each.path, site.rule): site.code for each in results if isinstance(each, Rewrite) for site in each.sites}
    assert found == {("engine.py", "amp"): "", ("main.py", "channels-last"): ""}


def test_the_layout_comes_before_compiling_under_one_condition() -> None:
    _, after = together(PLAIN.format(""), "amp", "channels-last", "compile")

    assert (
        'model = Net().to(device)\nif device.type == "cuda":\n'
        "    model.to(memory_format=torch.channels_last)\n    model.compile()\n"
    ) in after


def test_a_view_in_another_file_is_named() -> None:
    net = (
        START.partition("device =")[0] + text(forward="return self.fc(x.view(x.size(0), -1))").partition('"cpu")\n')[2]
    )
    net = net.partition("model = ")[0]
    main = 'import torch\nfrom net import Net\n\ndevice = torch.device("cuda")\nmodel = Net().to(device)\n'
    settings = Settings(frozenset({"channels-last"}), Promise.TRAINING)

    results = rewrite_project(
        [
            Text("main.py", main + IN_16_BITS.format(loss="out.mean()"), settings),
            Text("net.py", net, settings, "net", is_entry=False),
        ]
    )

    (site,) = [site for each in results if isinstance(each, Rewrite) for site in each.sites]
    assert (site.code, site.message) == (
        "other-module",
        f"x.view() may fail on images in this layout (net.py, line {net[: net.index('x.view')].count(chr(10)) + 1}): "
        "write reshape there",
    )


@pytest.mark.parametrize(
    ("channels", "code"),
    [
        pytest.param(8, "never-pays-back", id="small convolutions"),
        pytest.param(512, "", id="large ones"),
    ],
)
def test_small_convolutions_are_left_where_the_rule_is_not_named(channels: int, code: str) -> None:
    data = (
        "from torch.utils.data import DataLoader\nfrom torchvision import datasets, transforms\n\n"
        'data = datasets.CIFAR10("data", transform=transforms.ToTensor())\n'
    )
    training = IN_16_BITS.format(loss="out.square().mean()").replace(
        "for images in torch.randn(100, 64, 3, 64, 64):", "for images, _ in DataLoader(data, batch_size=64):"
    )
    net = f"nn.Sequential(nn.Conv2d(3, {channels}, 3), nn.ReLU(), nn.Conv2d({channels}, {channels}, 3), nn.Flatten())"
    script = START.partition("class Net")[0] + data + f"model = {net}.to(device)\n" + training
    found = Script.of(Module("train.py", script))

    (by_default,) = ChannelsLast(Choices(weighed=frozenset({"channels-last"}))).find(found)
    (by_name,) = ChannelsLast().find(found)

    assert (by_default.because.code if by_default.because else "") == code
    assert by_name.rewrites


# What is relied on.


def _trained(script: str) -> list[float]:
    """The losses of some iterations of an example, small and on the CPU."""
    small = script.replace(".cuda()", "").replace('"cuda"', '"cpu"').replace("256", "8").replace("12544", "392")
    lines = small.replace("(100, 8, 3, 32, 32)", "(4, 8, 3, 32, 32)").replace("    loss.backward()\n", "")
    names: dict[str, object] = {"losses": []}
    exec(  # noqa: S102 - the example is this repository's own
        "import torch\ntorch.manual_seed(0)\n" + lines + "    loss.backward()\n    losses.append(loss.item())\n"
        "    with torch.no_grad():\n        for each in model.parameters():\n            each -= 0.1 * each.grad\n",
        names,
    )
    return names["losses"]  # type: ignore[return-value]


def test_the_rewritten_example_computes_the_same_as_far_as_it_rounds_alike() -> None:
    before, after = (ChannelsLast.examples[1].before, ChannelsLast.examples[1].after)

    assert _trained(after) == pytest.approx(_trained(before), rel=1e-2)


@pytest.mark.parametrize(("fused", "is_right"), [(False, True), (True, False)])
def test_only_a_fused_optimizer_misreads_a_checkpoint_of_the_other_layout(*, fused: bool, is_right: bool) -> None:
    def stepped(*, is_last: bool) -> torch.Tensor:
        torch.manual_seed(0)
        layer, images = torch.nn.Conv2d(3, 8, 3), torch.randn(2, 3, 8, 8)
        first = torch.optim.Adam(layer.parameters(), lr=0.1)
        layer(images).square().mean().backward()
        first.step()
        if is_last:
            layer.to(memory_format=torch.channels_last)
        second = torch.optim.Adam(layer.parameters(), lr=0.1)
        second.load_state_dict(first.state_dict())
        second.param_groups[0]["fused"] = fused
        second.zero_grad()
        layer(images).square().mean().backward()
        second.step()
        return layer.weight.detach()

    assert torch.allclose(stepped(is_last=True), stepped(is_last=False), atol=1e-4) is is_right


def test_without_reshape_it_fails() -> None:
    after = ChannelsLast.examples[1].after

    with pytest.raises(RuntimeError, match="view size is not compatible"):
        _trained(after.replace("reshape", "view"))


BY_NAME = """\
import argparse

import torch
from torchvision import models

parser = argparse.ArgumentParser()
parser.add_argument("--arch", default="{}")
args = parser.parse_args()
device = torch.device("cuda")
model = models.__dict__[args.arch]()
model.to(device)
""" + IN_16_BITS.format(loss="out.square().mean()")


def test_a_network_that_is_chosen_by_its_name_is_the_one_by_default() -> None:
    before = BY_NAME.format("resnet50")
    moved = "model.to(device)\n"
    check_rewrites(ChannelsLast, before, before.replace(moved, f"{moved}model.to(memory_format=torch.channels_last)\n"))


def test_a_network_that_is_chosen_by_its_name_is_left_if_the_one_by_default_may_be_slower() -> None:
    because = (
        "whether what is chosen by its name from torchvision.models keeps the layout, or has convolutions with groups, "
        "is not known (line 10)"
    )
    check_leaves(ChannelsLast, BY_NAME.format("mobilenet_v2"), because)


OPTIONAL = """\
        self.norm = nn.GroupNorm(8, 256) if grouped else None
        self.gate = None

    def forward(self, x):
        x = F.relu(self.conv(x))
        if self.norm is not None:
            x = self.norm(x)
        if self.gate is not None:
            x = self.gate(x)
        return self.fc(torch.flatten(self.pool(x), 1))
"""


def optional(made: str) -> str:
    """A script whose network has a layer that goes back to the usual layout only if it is asked for."""
    head = START.format(init="", forward="").replace("def __init__(self):", "def __init__(self, grouped=False):")
    head = head[: head.index("\n    def forward")] + OPTIONAL
    return f"{head}\n\nmodel = {made}.to(device)\n" + IN_16_BITS.format(loss="out.square().mean()")


def test_a_layer_of_a_branch_that_no_call_takes_is_none_of_the_model() -> None:
    before = optional("Net()")
    made = "model = Net().to(device)\n"
    check_rewrites(ChannelsLast, before, before.replace(made, made + WHERE_CUDA))


def test_a_layer_of_a_branch_that_a_call_takes_is_one_of_the_model() -> None:
    code, message = reason(optional("Net(grouped=True)"))
    assert (code, message) == ("other-layout", "torch.nn.GroupNorm() lays images out as before (line 14)")
