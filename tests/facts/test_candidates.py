"""Which models are to be compiled, and in which way."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.cost.worth import worth
from codemods.facts.models.candidates import InPlace, NotCompiled, SecondName, Unreplicated, Wanted, candidates

NET = """\
class {0}(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(4, 4)
        self.two = nn.Linear(4, 4)
    def forward(self, x):
        return self.two(self.one(x))
"""
HEAD = "import torch\nfrom torch import nn\n" + NET.format("Net") + NET.format("Other")


def found(body: str, *, is_weighed: bool = False) -> list[str]:
    """What is to be done, at which line from the first one of the body on, and with what or why."""
    known = script(HEAD + body)
    return [_told(each) for each in candidates(known, Wanted(worth(known) if is_weighed else None))]


def _told(candidate: InPlace | Unreplicated | SecondName | NotCompiled) -> str:
    line = candidate.site.lineno - HEAD.count("\n")  # type: ignore[attr-defined]
    match candidate:
        case InPlace(_, anchor, models):
            names = [each.home.name.id for each in models]  # type: ignore[attr-defined]
            return f"{line}: {' and '.join(names)} below {anchor.lineno - HEAD.count(chr(10))}"
        case Unreplicated(_, choice, model):
            return f"{line}: {model.home.name.id} beside {choice.lineno - HEAD.count(chr(10))}"  # type: ignore[attr-defined]
        case SecondName(_, name, function, model, _):
            return f"{line}: {name} = {function}({model})"
        case NotCompiled(_, because):
            return f"{line}: {because.code}"


LOOP = "for x in data:\n    model(x).sum().backward()\n"
SUM = "for x in data:\n    (model(x) + other(x)).sum().backward()\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("model = Net().cuda()\n" + LOOP, ["1: model below 1"], id="where it is moved"),
        pytest.param(
            "model = Net().cuda()\nprint(model)\nother = Other().cuda()\n" + SUM,
            ["1: model below 1", "3: other below 3"],
            id="two models, each where it is moved",
        ),
        pytest.param(
            "model, other = Net(), Other()\nmodel.cuda()\nother.cuda()\n" + SUM,
            ["1: model and other below 3"],
            id="two models, together once both are moved",
        ),
        pytest.param(
            "model, other = Net(), Other()\nfor each in (model, other):\n    each.cuda()\n" + SUM,
            ["1: model and other below 2"],
            id="two models that a loop moves",
        ),
        pytest.param(
            "def make():\n    return Net()\nmodel = make().cuda()\nprint(model)\nother = make().cuda()\n" + SUM,
            ["2: model below 3", "5: other below 5"],
            id="one that a function makes twice",
        ),
        pytest.param(
            "model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)).cuda()\n" + LOOP,
            ["1: compiled_model = torch.compile(model)"],
            id="nothing but torch's own",
        ),
        pytest.param(
            "compiled_model = None\nmodel = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).cuda()\n" + LOOP,
            ["2: compiles-nothing"],
            id="nothing but torch's own, and the name is taken",
        ),
        pytest.param(
            "model = Net().cuda()\nif many:\n    model = nn.DataParallel(model)\n" + LOOP,
            ["1: model beside 2"],
            id="on the side where it is not copied",
        ),
        pytest.param(
            "model = Net().cuda()\nmodel = nn.DataParallel(model)\n" + LOOP, ["1: data-parallel"], id="it is copied"
        ),
        pytest.param("model = Net()\n" + LOOP, ["1: no-cuda"], id="it stays where it is"),
        pytest.param(
            "model = (Net() if large else Other()).cuda()\n" + LOOP,
            ["1: model and model below 1"],
            id="the script chooses",
        ),
        pytest.param(
            "model = Net().cuda()\noptimizer = torch.optim.Adam(model.parameters())\n"
            "for x in data:\n    model.forward(x).sum().backward()\n",
            ["1: not-called"],
            id="its method is called alone",
        ),
        pytest.param(
            "model, other = Net().cuda(), Other().cuda()\n"
            "optimizer = torch.optim.Adam([*model.parameters(), *other.parameters()])\n" + LOOP,
            ["1: model below 1", "1: not-called"],
            id="another one is trained as well",
        ),
        pytest.param(
            "model.cuda()\noptimizer = torch.optim.Adam(model.parameters())\n" + LOOP,
            ["1: unknown-model"],
            id="nobody knows what it is",
        ),
    ],
)
def test_what_becomes_of_models(body: str, expected: list[str]) -> None:
    assert found(body) == expected


def test_what_cannot_pay_is_left_where_that_is_weighed() -> None:
    body = "model = Net().cuda()\nfor x in torch.randn(10, 4, 4).cuda():\n    model(x).sum().backward()\n"
    assert [found(body, is_weighed=each) for each in (False, True)] == [["1: model below 1"], ["1: never-pays-back"]]
