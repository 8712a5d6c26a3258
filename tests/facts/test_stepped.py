"""Which models' parameters an optimizer is given, and whether they are on CUDA when it is made."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.models.stepped import Stepped, stepped
from codemods.facts.reason import Reason

IMPORTS = "import torch\nfrom torch import nn, optim\n"
SGD = "optimizer = optim.SGD(model.parameters(), lr=0.1)\n"


KEEPING = """\
class Keeping:
    def __init__(self, model, optimizer, place):
        self.model = model.to(place)
        self.optimizer = optimizer
"""
CHOSEN = f"""\
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(1, 2)
{SGD}"""
FILLED_IN = """\
import argparse
def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", type=str)
    args = parser.parse_args()
    if args.device is None:
        args.device = "cuda" if torch.cuda.is_available() else "cpu"
    return args
args = options()
device = args.device
model = nn.Linear(1, 2).to(device)
"""


LAYERED = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(1, 2)

    def forward(self, x):
        return self.first(x)

model = Net()
"""


def of_last(text: str, **others: str) -> Stepped | Reason:
    """What is known of the optimizer that the script makes last."""
    known = script(IMPORTS + text, **others)
    return stepped(known, known.optimizers[-1])


def test_the_models_are_those_whose_parameters_are_given() -> None:
    found = of_last(
        "a, b, c = nn.Linear(1, 2).cuda(), nn.Conv2d(1, 2, 3).cuda(), nn.Embedding(3, 2).cuda()\n"
        "optimizer = optim.SGD([*a.parameters(), *b.parameters()], lr=0.1)\n"
    )

    assert isinstance(found, Stepped)
    assert [each.name for each in found.models] == ["torch.nn.Linear", "torch.nn.Conv2d"]
    assert found.test == "True"


@pytest.mark.parametrize(
    ("text", "test"),
    [
        pytest.param("model = nn.Linear(1, 2).cuda()\n", "True", id="always"),
        pytest.param(
            "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\nmodel = nn.Linear(1, 2).to(device)\n",
            "device.type == 'cuda'",
            id="where there is a device",
        ),
        pytest.param(
            "def moved(model, device):\n    return model.to(device)\n"
            "model = moved(nn.Linear(1, 2), 'cuda' if torch.cuda.is_available() else 'cpu')\n",
            "next(model.parameters()).is_cuda",
            id="where no name says so",
        ),
        pytest.param(
            "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.layer = nn.Linear(1, 2)\nmodel = nn.DataParallel(Net().cuda())\n",
            "True",
            id="in a wrapper",
        ),
        pytest.param(
            "model = nn.Linear(1, 2)\nif input():\n    model = nn.Linear(1, 3)\nmodel.cuda()\n",
            "True",
            id="whichever of two a name holds",
        ),
        pytest.param(
            "def moved(net):\n    net.cuda()\n    return net\nother = moved(nn.Linear(1, 3))\n"
            "model = moved(nn.Linear(1, 2))\n",
            "True",
            id="by a function that moves another, too",
        ),
    ],
)
def test_it_is_said_whether_they_are_on_cuda(text: str, test: str) -> None:
    found = of_last(text + SGD)

    assert isinstance(found, Stepped)
    assert found.test == test


@pytest.mark.parametrize(
    ("text", "test"),
    [
        pytest.param("model = nn.Linear(1, 2)\n" + SGD + "model.cuda()\n", "True", id="for certain"),
        pytest.param(
            "cuda = bool(input())\nmodel = nn.Linear(1, 2)\n" + SGD + "if cuda:\n    model.cuda()\n",
            "cuda",
            id="where a flag says so",
        ),
        pytest.param(
            'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\nmodel = nn.Linear(1, 2)\n'
            + SGD
            + "model.to(device)\n",
            'device.type == "cuda"',
            id="on a device that has a name",
        ),
        pytest.param(
            "model = nn.Linear(1, 2)\nif input():\n    " + SGD + "model.cuda()\n",
            "True",
            id="whichever optimizer is made",
        ),
        pytest.param(
            "def moved(model):\n    return model.cuda()\nmodel = nn.Linear(1, 2)\n" + SGD + "model = moved(model)\n",
            "True",
            id="by a function that is called then",
        ),
        pytest.param(
            f"{KEEPING}{CHOSEN}Keeping(model, optimizer, device)\n", 'device.type == "cuda"', id="by a constructor"
        ),
        pytest.param(
            "class Parallel(nn.DataParallel):\n    def gather(self, outputs, output_device):\n        return outputs\n"
            "model = nn.Linear(1, 2)\n" + SGD + "parallel = Parallel(model).cuda()\n",
            "True",
            id="in a wrapper of the script's own",
        ),
        pytest.param(
            f"{LAYERED}optimizer = optim.SGD(model.first.parameters(), lr=0.1)\nmodel = nn.DataParallel(model).cuda()\n",
            "True",
            id="as a layer of what is wrapped",
        ),
        pytest.param(
            f"{LAYERED}optimizer = optim.SGD(model.first.parameters(), lr=0.1)\nmodel.cuda()\n"
            "model = nn.parallel.DistributedDataParallel(model)\n",
            "True",
            id="as a layer of what is wrapped later",
        ),
        pytest.param(
            f"{KEEPING}{CHOSEN}Keeping(optimizer=optimizer, place=device, model=model)\n",
            'device.type == "cuda"',
            id="by a constructor that is given it by name",
        ),
        pytest.param(
            f"{KEEPING}{CHOSEN}Keeping(model, optimizer, device)\nKeeping(nn.Linear(1, 2), None, 'cpu')\n",
            'device.type == "cuda"',
            id="by a constructor that is also given others",
        ),
    ],
)
def test_a_model_may_be_moved_right_after_the_optimizer_is_made(text: str, test: str) -> None:
    found = of_last(text)

    assert isinstance(found, Stepped)
    assert (found.test, found.is_moved_later) == (test, True)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param("model = nn.Linear(1, 2)\n" + SGD, "no-cuda", id="they stay on the host"),
        pytest.param(
            "model = nn.Linear(1, 2)\n" + SGD + "for i in range(2):\n    model.cuda()\n",
            "moved-later",
            id="they are moved in a loop after that",
        ),
        pytest.param(
            "model = nn.Linear(1, 2)\n" + SGD + "if input():\n    model.cuda()\n",
            "moved-later",
            id="perhaps they are moved after that",
        ),
        pytest.param(
            "model = nn.Linear(1, 2)\n"
            + SGD
            + 'device = torch.device("cuda" if input() else "cpu")\nmodel.to(device)\n',
            "moved-later",
            id="they are moved after that to a device which has no name yet",
        ),
        pytest.param(
            f"{KEEPING}{CHOSEN}kept = Keeping(model, optimizer, device) if input() else None\n",
            "moved-later",
            id="perhaps a constructor moves them after that",
        ),
        pytest.param(
            f"{KEEPING}{CHOSEN}Keeping(nn.Linear(1, 2), optimizer, device)\nif input():\n    "
            "Keeping(model, optimizer, device)\n",
            "moved-later",
            id="the constructor is given another model for certain",
        ),
        pytest.param(
            f"{KEEPING}{CHOSEN}Keeping(model, optimizer, torch.device('cuda' if input() else 'cpu'))\n",
            "moved-later",
            id="a constructor moves them to a device which has no name",
        ),
        pytest.param(
            f"{KEEPING.replace('model.to(', 'model if input() else model.to(')}{CHOSEN}Keeping(model, optimizer, device)\n",
            "moved-later",
            id="the constructor moves them at times",
        ),
        pytest.param(
            f"{KEEPING.replace('self.model', 'place = place or input(); self.model')}{CHOSEN}"
            "Keeping(model, optimizer, device)\n",
            "unknown-device",
            id="the constructor moves them elsewhere at times",
        ),
        pytest.param(
            "def train(model):\n    "
            + SGD
            + "    if input():\n        return\n    model.cuda()\ntrain(nn.Linear(1, 2))\n",
            "moved-later",
            id="they are moved after that unless the function is left",
        ),
        pytest.param(
            "model = nn.Linear(1, 2)\nfor i in range(2):\n    " + SGD + "model.cuda()\n",
            "moved-later",
            id="they are moved after a loop that makes it",
        ),
        pytest.param(
            "for i in range(2):\n    model = nn.Linear(1, 2)\n    if i:\n        model.cuda()\n    " + SGD,
            "moved-later",
            id="perhaps they are moved",
        ),
        pytest.param(
            "def train(model, device):\n    model.to(device)\n    " + SGD + "train(nn.Linear(1, 2), input())\n",
            "unknown-device",
            id="the device is not known",
        ),
        pytest.param("import nets\nmodel = nets.make().cuda()\n" + SGD, "unknown-model", id="the model is not known"),
        pytest.param("optimizer = optim.SGD(lr=0.1)\n", "unknown-arguments", id="nothing is given"),
        pytest.param(
            "import sys\na = nn.Linear(1, 2)\nif sys.argv[1:]:\n    pass\nb = nn.Linear(1, 2).cuda()\n"
            "optimizer = optim.SGD([*a.parameters(), *b.parameters()], lr=0.1)\n",
            "no-cuda",
            id="one of them is not moved",
        ),
        pytest.param(
            "first = model = nn.Linear(1, 2)\nif input():\n    model = nn.Linear(1, 3)\nmodel.cuda()\n"
            "optimizer = optim.SGD(first.parameters(), lr=0.1)\n",
            "unknown-device",
            id="the name that is moved may hold another model",
        ),
    ],
)
def test_it_is_not_known(text: str, code: str) -> None:
    found = of_last(text)

    assert isinstance(found, Reason)
    assert found.code == code


@pytest.mark.parametrize(
    "moved",
    [
        pytest.param("average = torch.optim.swa_utils.AveragedModel(model).cuda()\n", id="a copy is moved"),
        pytest.param("parallel = nn.DataParallel(model)\n", id="it is wrapped alone"),
    ],
)
def test_what_is_moved_is_another_model(moved: str) -> None:
    found = of_last(f"{LAYERED}optimizer = optim.SGD(model.first.parameters(), lr=0.1)\n{moved}")

    assert isinstance(found, Reason)
    assert found.code == "no-cuda"


def test_several_models_go_to_a_device_that_the_module_keeps_with_its_options() -> None:
    found = of_last(
        "import argparse\nargs = argparse.ArgumentParser().parse_args()\n"
        "if torch.cuda.is_available():\n    args.device = torch.device('cuda')\n"
        "else:\n    args.device = torch.device('cpu')\n"
        "a, b = nn.Linear(1, 2).to(args.device), nn.Linear(1, 2).to(args.device)\n"
        "optimizer = optim.SGD(list(a.parameters()) + list(b.parameters()), lr=0.1)\n"
    )

    assert isinstance(found, Stepped)
    assert found.test == "args.device.type == 'cuda'"


def test_devices_that_are_named_in_two_ways_have_no_one_test() -> None:
    found = of_last(
        "first = torch.device('cuda:0' if torch.cuda.is_available() else 'cpu')\n"
        "second = torch.device('cuda:1' if torch.cuda.is_available() else 'cpu')\n"
        "a, b = nn.Linear(1, 2).to(first), nn.Linear(1, 2).to(second)\n"
        "optimizer = optim.SGD([*a.parameters(), *b.parameters()], lr=0.1)\n"
    )

    assert isinstance(found, Reason)
    assert found.code == "unknown-device"


def test_a_model_is_followed_into_another_module() -> None:
    optimizers = "from torch import optim\ndef make(model):\n    return optim.SGD(model.parameters(), lr=0.1)\n"

    found = of_last(
        "from steps import make\nmodel = nn.Linear(1, 2).cuda()\noptimizer = make(model)\n", steps=optimizers
    )

    assert isinstance(found, Stepped)
    assert found.test == "True"


TRAINER = """\
class Trainer:
    def __init__(self):
        self.model = self.build().cuda()

    def build(self):
        return nn.Linear(1, 2)

    def train(self):
        optimizer = optim.SGD(self.model.parameters(), lr=0.1)

Trainer().{method}()
"""


def test_a_model_that_a_method_makes_for_the_one_that_moves_it() -> None:
    found = of_last(TRAINER.format(method="train"))

    assert isinstance(found, Stepped)
    assert found.test == "True"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            TRAINER.format(method="train").replace("lr=0.1)\n", "lr=0.1)\n        self.model = self.build()\n"),
            id="another method has it made, too",
        ),
        pytest.param(
            TRAINER.format(method="train").replace(
                "return nn.Linear(1, 2)",
                "self.model = nn.Linear(1, 2)\n        self.train()\n        return self.model",
            ),
            id="the optimizer is made on the way",
        ),
    ],
)
def test_a_model_that_may_not_be_moved_when_the_optimizer_is_made(text: str) -> None:
    found = of_last(text)

    assert isinstance(found, Reason)
    assert found.code == "moved-later"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param(FILLED_IN, 'torch.device(device).type == "cuda"', id="something"),
        pytest.param(FILLED_IN.replace("args.device is None", "input()"), None, id="something at times"),
        pytest.param(FILLED_IN.replace('"cuda" if', "None if"), None, id="perhaps nothing"),
    ],
)
def test_what_an_option_is_given_that_the_user_omits(text: str, found: str | None) -> None:
    said = of_last(text + SGD)
    asked = said.test if isinstance(said, Stepped) else None

    assert asked == (found or "next(model.parameters()).is_cuda")


AGENT = """\
class {name}:
    def __init__(self, device):
        self.device = device
        self.first = Twin().to(device)
        self.second = Twin().to(self.device)
        self.optimizer = optim.SGD([*self.first.one.parameters(), *self.second.other.parameters()], lr=0.1)
"""
TWIN = """\
class Twin(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(1, 2), nn.Linear(1, 2)
"""


def test_other_functions_move_other_models_of_the_class() -> None:
    chosen = 'torch.device("cuda" if torch.cuda.is_available() else "cpu")'
    agent = AGENT.replace("Twin().to(device)", "Twin().to(self.device)")
    imports = f"{IMPORTS}from twins import Twin\n"
    found = of_last(
        f"from twins import Twin\nimport other\n{agent.format(name='Agent')}Agent({chosen})\n",
        twins=f"{IMPORTS}{TWIN}",
        other=f"{imports}{agent.format(name='Other')}Other({chosen})\n",
    )

    assert isinstance(found, Stepped)
    assert found.test == 'self.device.type == "cuda"'


def test_another_model_does_not_say_where_a_model_is() -> None:
    code = (
        f"{TWIN}def place(model, where):\n    return model.to('cuda:0' if where else 'cpu')\n"
        "one = nn.Linear(1, 2).cuda()\nother = place(nn.Linear(1, 2), unknown)\n"
        "optimizer = optim.SGD([*one.parameters(), *other.parameters()], lr=0.1)\n"
    )
    found = of_last(code)

    assert isinstance(found, Stepped)
    assert found.test == "next(other.parameters()).is_cuda"
