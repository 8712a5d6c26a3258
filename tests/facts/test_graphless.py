"""Which calls of models compute no graph, as nothing in them needs a gradient."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.graphless import computes_no_graph

HEAD = "import torch\nfrom torch import nn\n"


def answer(code: str) -> bool:
    """What is said of the last call of a model, ``model(x)`` or ``clip(each)``."""
    found = script(HEAD + code)
    calls = [
        each
        for each in found.module.nodes(ast.Call)
        if ast.unparse(each) in {"model(x)", "clip(each)", "model(x.cuda())"}
    ]
    return computes_no_graph(found.flow, calls[-1])


GRAPHLESS = {
    "without parameters": """\
class Clip(nn.Module):
    def __init__(self, most):
        super().__init__()
        self.most = most
        self.pool = nn.Sequential(nn.MaxPool2d(2), nn.ReLU())
    def forward(self, boxes):
        return self.pool(boxes).clamp(0, self.most)
def evaluate(boxes):
    clip = Clip(1)
    for each in boxes:
        print(clip(each))
""",
    "frozen as a whole": """\
def evaluate(model):
    for x in torch.randn(3, 8, 4):
        print(model(x.cuda()))
model = nn.Linear(4, 1)
model.requires_grad_(False)
evaluate(model)
evaluate(model)
""",
    "frozen one by one": """\
model = nn.Linear(4, 1)
for p in model.parameters():
    p.requires_grad = False
def evaluate(batches):
    for x in torch.randn(3, 8, 4):
        print(model(x))
""",
}

_SPECTRUM = """\
class Spectrum(nn.Module):
    def __init__(self, bins):
        super().__init__()
        window, basis = torch.hann_window(16).float(), torch.ones(bins, 9)
        self.register_buffer("window", window)
        self.register_buffer("basis", basis)
        self.scale = torch.ones(bins, 1)
    def forward(self, x):
        return self.scale * (self.basis @ torch.stft(x, 16, window=self.window, return_complex=True).abs())
model = Spectrum(4).cuda()
for x in torch.randn(3, 64):
    print(model(x.cuda()).detach())
"""
GRAPHLESS["with buffers, and a tensor that it makes"] = _SPECTRUM


@pytest.mark.parametrize("code", GRAPHLESS.values(), ids=GRAPHLESS)
def test_no_graph_is_computed_by_models(code: str) -> None:
    assert answer(code)


NOT_GRAPHLESS = {
    "thawed": GRAPHLESS["frozen as a whole"].replace("evaluate(model)\nevaluate", "model.requires_grad_()\nevaluate"),
    "frozen where an option says so": GRAPHLESS["frozen as a whole"].replace(
        "model.requires_grad_(False)", "if len(__file__) > 3:\n    model.requires_grad_(False)"
    ),
    "frozen in part": GRAPHLESS["frozen one by one"]
    .replace("nn.Linear(4, 1)\n", "nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))\n")
    .replace("model.parameters()", "model[0].parameters()"),
    "given what another model computes": GRAPHLESS["frozen one by one"]
    .replace("(batches)", "(made)")
    .replace("torch.randn(3, 8, 4)", "made"),
    "with a parameter of its own": GRAPHLESS["without parameters"].replace(
        "self.most = most", "self.most = nn.Parameter(most)"
    ),
    "with a parameter beside buffers": _SPECTRUM.replace(
        "self.scale = torch.ones(bins, 1)", "self.scale = nn.Parameter(torch.ones(bins, 1))"
    ),
    "with a tensor that is to have a gradient": _SPECTRUM.replace(
        "torch.ones(bins, 1)", "torch.ones(bins, 1, requires_grad=True)"
    ),
    "with a tensor that gets one later": _SPECTRUM.replace(
        "        self.scale = torch.ones(bins, 1)\n",
        "        self.scale = torch.ones(bins, 1)\n        self.scale.requires_grad_()\n",
    ),
    "with a tensor that it is given": _SPECTRUM.replace("torch.ones(bins, 1)", "bins").replace(
        "Spectrum(4)", "Spectrum(torch.ones(4, 1, requires_grad=True))"
    ),
    "with layers of another model": _SPECTRUM.replace(
        "Spectrum(4)", "nn.Sequential(*list(models.vgg16().children())[:1])"
    ).replace("from torch import nn\n", "from torch import nn\nfrom torchvision import models\n"),
    "with what is not seen": GRAPHLESS["without parameters"].replace("self.most = most", "self.most = made(most)"),
}


@pytest.mark.parametrize("code", NOT_GRAPHLESS.values(), ids=NOT_GRAPHLESS)
def test_a_graph_may_be_computed_by_models(code: str) -> None:
    assert not answer(code)
