"""What a script says of the precision of its matrix products in 32 bits, and what needs all of it."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.precision.tf32 import is_allowed, multiplies, uses_tf32_already, why_decided, why_precise

IMPORTS = "import os\nimport torch\nfrom torch import nn\n"


@pytest.mark.parametrize(
    ("text", "allowed", "code"),
    [
        pytest.param("", False, "", id="nothing is said"),
        pytest.param("torch.set_float32_matmul_precision('high')\n", True, "script-decides", id="it is allowed"),
        pytest.param(
            "if os.environ.get('FAST'):\n    torch.set_float32_matmul_precision('high')\n",
            False,
            "script-decides",
            id="it is allowed where something else holds",
        ),
        pytest.param(
            "if torch.cuda.is_available():\n    torch.backends.cuda.matmul.allow_tf32 = True\n",
            True,
            "script-decides",
            id="it is allowed where there is a device",
        ),
        pytest.param("torch.backends.cudnn.allow_tf32 = True\n", False, "script-decides", id="for convolutions"),
        pytest.param("print('allow_tf32')\n", False, "", id="it is spoken of"),
        pytest.param("nn.Linear(1, 2).double()\n", False, "other-precision", id="the model has 64 bits"),
        pytest.param("with torch.autocast('cuda'):\n    pass\n", False, "done-already", id="there are 16 bits"),
    ],
)
def test_what_the_script_says(text: str, *, allowed: bool, code: str) -> None:
    known = script(IMPORTS + text)
    reason = why_decided(known)

    assert is_allowed(known) is allowed
    assert ("" if reason is None else reason.code) == code


def test_another_module_may_say_it() -> None:
    settings = "import torch\ntorch.backends.cuda.matmul.allow_tf32 = True\n"

    assert is_allowed(script("import settings\n", settings=settings))


@pytest.mark.parametrize(
    ("text", "is_precise"),
    [
        pytest.param("torch.linalg.norm(torch.ones(2))\n", False, id="a norm"),
        pytest.param("torch.linalg.solve(torch.eye(2), torch.ones(2))\n", True, id="a solver"),
        pytest.param("torch.eye(2).inverse()\n", True, id="a method of a tensor"),
        pytest.param("class Gate:\n    def inverse(self): ...\nGate().inverse()\n", False, id="a method of its own"),
        pytest.param("torch.autograd.gradcheck(print, ())\n", True, id="a check"),
        pytest.param("torch.equal(torch.ones(2), torch.ones(2))\n", False, id="a comparison of labels"),
        pytest.param("torch.ones(2).sum().backward(create_graph=True)\n", True, id="second derivatives"),
        pytest.param("torch.ones(2).sum().backward(create_graph=False)\n", False, id="first derivatives"),
    ],
)
def test_what_needs_precision(text: str, *, is_precise: bool) -> None:
    reason = why_precise(script(IMPORTS + text))

    assert (reason is not None) is is_precise
    assert reason is None or reason.code == "needs-precision"


@pytest.mark.parametrize(
    ("option", "code"),
    [
        pytest.param('default="net"', "unknown-model", id="any module can be asked for"),
        pytest.param('default="net", choices=["net"]', "", id="all of them are seen"),
    ],
)
def test_a_module_that_an_option_names_may_compute_distances(option: str, code: str) -> None:
    reason = why_precise(
        script(
            f"""
            import argparse, importlib, torch
            parser = argparse.ArgumentParser()
            parser.add_argument("--model", {option})
            model = importlib.import_module(parser.parse_args().model).get_model().cuda()
            for x in torch.randn(100, 128, 64, 512).cuda():
                model(x).sum().backward()
            """,
            net="from torch import nn\n\ndef get_model():\n    return nn.Transformer()\n",
        )
    )

    assert ("" if reason is None else reason.code) == code


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        pytest.param("nn.Linear(8, 2)", True, id="linear layers"),
        pytest.param("nn.Linear(8, out_features=1)", False, id="weights of one row"),
        pytest.param("nn.Linear(1, 8)", False, id="weights of one column"),
        pytest.param("nn.Sequential(nn.LSTM(4, 8), nn.Linear(8, 1))", False, id="a head for one number"),
        pytest.param("nn.MultiheadAttention(8, 2)", True, id="attention"),
        pytest.param("nn.GRUCell(1, 2)", True, id="recurrent cells"),
        pytest.param("nn.Conv2d(1, 2, 3)", False, id="convolutions"),
        pytest.param("nn.LSTM(1, 2)", False, id="recurrent layers"),
        pytest.param("nn.Sequential(nn.Conv2d(1, 2, 3), nn.Linear(2, 2))", False, id="the last layer of convolutions"),
        pytest.param("__import__('torchvision').models.resnet18()", False, id="what is not known"),
    ],
)
def test_what_multiplies_matrices(model: str, *, expected: bool) -> None:
    known = script(f"{IMPORTS}model = {model}\n")

    assert any(multiplies(known, each.value) for each in known.models) is expected


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        pytest.param("nn.Conv2d(1, 2, 3)", True, id="convolutions"),
        pytest.param("nn.Sequential(nn.GRU(1, 2))", True, id="recurrent layers"),
        pytest.param("nn.GRUCell(1, 2)", False, id="recurrent cells"),
        pytest.param("nn.Embedding(1, 2)", False, id="tables"),
    ],
)
def test_what_uses_tf32_already(model: str, *, expected: bool) -> None:
    known = script(f"{IMPORTS}model = {model}\n")

    assert any(uses_tf32_already(known, each.value) for each in known.models) is expected


BY_FUNCTIONS = """\
import torch
from torch import nn
import torch.nn.functional as F
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.ParameterList(torch.rand(4, 4) for _ in range(3))
    def forward(self, x):
        {}
model = Net()
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("return F.linear(x, self.weights[0])", True, id="a linear function"),
        pytest.param("return F.linear(F.conv2d(x, self.weights[0]), self.weights[1])", False, id="after a convolution"),
        pytest.param(
            "x = F.linear(F.conv2d(x, self.weights[0]), self.weights[1])\n"
            "        return F.linear(F.linear(x, self.weights[1]), self.weights[2])",
            True,
            id="several of them",
        ),
        pytest.param("return F.conv2d(x, self.weights[0]) @ self.weights[1]", True, id="a product of its own"),
    ],
)
def test_functions_count_as_layers(body: str, *, expected: bool) -> None:
    known = script(BY_FUNCTIONS.format(body))

    assert any(multiplies(known, each.value) for each in known.models) is expected


def test_an_agent_that_learns_in_another_module_than_the_loop() -> None:
    agent = """\
import torch
from torch import nn
from torch.nn import functional as F


class Agent:
    def __init__(self):
        self.net, self.target = nn.Linear(8, 2).cuda(), nn.Linear(8, 2).cuda()
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def learn(self, state, reward, following):
        with torch.no_grad():
            wanted = reward + 0.99 * self.target(following)
        loss = F.mse_loss(self.net(state), wanted)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
"""
    loop = "from agent import Agent\nagent = Agent()\nfor step in range(1000):\n    agent.learn(*memory.sample())\n"
    reason = why_precise(script(loop, agent=agent))

    assert reason is not None
    assert reason.text.startswith("a network learns from targets that it estimates itself, as Q-learning does")


OF_WORDS = (
    IMPORTS
    + """\
class Net(nn.Module):
    def __init__(self, words, classes):
        super().__init__()
        self.rows = nn.Embedding(words, 64)
        self.convolved = nn.Sequential(nn.Conv1d(64, 64, 3), nn.Conv1d(64, 64, 3))
        self.out = nn.Linear(64, {})
    def forward(self, x):
        return self.out(self.convolved(self.rows(x).mT).mT)
model = Net({}, len(open("labels").readlines()))
"""
)


@pytest.mark.parametrize(
    ("width", "words", "expected"),
    [
        pytest.param("words", "len(open('words').readlines())", True, id="a score for each word of a vocabulary"),
        pytest.param("words", "26", False, id="a score for each letter"),
        pytest.param("classes", "len(open('words').readlines())", False, id="a score for each class of a text"),
    ],
)
def test_the_last_layer_of_a_language_model_is_not_little(width: str, words: str, *, expected: bool) -> None:
    known = script(OF_WORDS.format(width, words))

    assert any(multiplies(known, each.value) for each in known.models) is expected
