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
    "with what is not seen": GRAPHLESS["without parameters"].replace("self.most = most", "self.most = made(most)"),
}


@pytest.mark.parametrize("code", NOT_GRAPHLESS.values(), ids=NOT_GRAPHLESS)
def test_a_graph_may_be_computed_by_models(code: str) -> None:
    assert not answer(code)
