"""Where the scaler is made and how it gets to where it is used; without such a place, fp16 is not offered."""

from __future__ import annotations

from itertools import pairwise
from textwrap import indent

import pytest
from kit import run

from codemods.rules.amp import Amp

HEAD = """\
import torch
from torch import nn
import torch.nn.functional as F

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
data = list(zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))))


def network():
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)


"""
MADE = "model = network()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
IN_CLASS = "        self.model = network()\n        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)\n"


TWO = "one = nn.Linear(8, 32).to(device)\ntwo = nn.Linear(32, 4).to(device)\n"


def loop(levels: int = 0, *, output: str = "model(x)", optimizers: tuple[str, ...] = ("optimizer",)) -> str:
    """A training loop that is indented so many levels."""
    zeroed = "".join(f"    {each}.zero_grad()\n" for each in optimizers)
    stepped = "".join(f"    {each}.step()\n" for each in optimizers)
    lines = (
        "for x, y in data:\n"
        f"    x, y = x.to(device), y.to(device)\n{zeroed}"
        f"    loss = F.cross_entropy({output}, y)\n"
        f"    loss.backward()\n{stepped}"
    )
    return indent(lines, "    " * levels)


TRAIN = f"def train(model, optimizer):\n{loop(1)}"


def through(count: int) -> str:
    """So many functions that hand a model and an optimizer on to ``train``."""
    names = ["train", *(f"level{number}" for number in range(count))]
    handed = (f"def {name}(model, optimizer):\n    {inner}(model, optimizer)\n" for inner, name in pairwise(names))
    return "".join(handed)


@pytest.mark.parametrize(
    ("code", "because"),
    [
        pytest.param(
            f"{MADE}def train():\n    global optimizer\n{loop(1)}train()\n",
            "the optimizers are kept in different places",
            id="a function may bind the module's name anew",
        ),
        pytest.param(
            f"{TRAIN}{MADE}train(*(model, optimizer))\n",
            "not every call of train() passes the optimizer in a way that can be seen",
            id="a call with a starred argument",
        ),
        pytest.param(
            f"{TRAIN}{MADE}options = {{}}\ntrain(model, optimizer, **options)\n",
            "not every call of train() passes the optimizer in a way that can be seen",
            id="a call with a dictionary of arguments",
        ),
        pytest.param(
            "def train(model, optimizer=None):\n"
            "    if optimizer is None:\n        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
            f"{loop(1)}train(network())\n",
            "not every call of train() passes the optimizer in a way that can be seen",
            id="a call that leaves it to the default",
        ),
        pytest.param(
            f"{TRAIN}model = network()\ntrain(model, torch.optim.SGD(model.parameters(), lr=0.1))\n",
            "the optimizer is not a plain name (line 21)",
            id="an optimizer that is made in the call",
        ),
        pytest.param(
            f"{TRAIN}class Trainer:\n    def __init__(self):\n{IN_CLASS}"
            "    def run(self):\n        train(self.model, self.optimizer)\n"
            f"Trainer().run()\n{MADE}train(model, optimizer)\n",
            "the calls of train() keep their optimizers in different ways",
            id="one call with an attribute, one with a name",
        ),
        pytest.param(
            f"class Base:\n    def __init__(self):\n{IN_CLASS}"
            f"class Trainer(Base):\n    def run(self):\n{loop(2, output='self.model(x)', optimizers=('self.optimizer',))}"
            "Trainer().run()\n",
            "where the optimizer is made is not seen",
            id="an attribute that a base class sets",
        ),
        pytest.param(
            f"{TRAIN}{MADE}step = train\ntrain(model, optimizer)\nstep(model, optimizer)\n",
            "train() is handed to other code, which would have to pass the scaler",
            id="a function with a second name",
        ),
        pytest.param(
            f"class Trainer:\n    def train(self, model, optimizer):\n{loop(2)}"
            f"trainer = Trainer()\n{MADE}print(trainer.train)\ntrainer.train(model, optimizer)\n",
            "train() is handed to other code, which would have to pass the scaler",
            id="a method that is given away",
        ),
        pytest.param(
            f"{TRAIN}    if len(data) > 6:\n        train(model, optimizer)\n{MADE}train(model, optimizer)\n",
            "train() hands its optimizer to itself",
            id="a function that calls itself",
        ),
        pytest.param(
            f"{TWO}"
            "first = torch.optim.SGD(one.parameters(), lr=0.1)\n"
            "def train():\n    second = torch.optim.SGD(two.parameters(), lr=0.1)\n"
            f"{loop(1, output='two(F.relu(one(x)))', optimizers=('first', 'second'))}train()\n",
            "the optimizers are kept in different places",
            id="one of the module, one of a function",
        ),
        pytest.param(
            f"{TWO}"
            "class Trainer:\n    def __init__(self):\n"
            "        self.first = torch.optim.SGD(one.parameters(), lr=0.1)\n        self.more()\n"
            "    def more(self):\n        self.second = torch.optim.SGD(two.parameters(), lr=0.1)\n"
            "    def run(self):\n"
            f"{loop(2, output='two(F.relu(one(x)))', optimizers=('self.first', 'self.second'))}"
            "Trainer().run()\n",
            "the optimizers are made in different functions",
            id="attributes that two methods set",
        ),
        pytest.param(
            f"class Trainer:\n    __slots__ = ('model', 'optimizer')\n    def __init__(self):\n{IN_CLASS}"
            f"    def run(self):\n{loop(2, output='self.model(x)', optimizers=('self.optimizer',))}"
            "Trainer().run()\n",
            "objects of class Trainer have only the attributes of its __slots__ (line 14): name '__dict__' among them",
            id="an object that takes no attribute more",
        ),
    ],
)
def test_without_a_place_for_it_there_is_bf16_alone(code: str, because: str) -> None:
    result = run(Amp, HEAD + code)

    assert [site.message.partition("as in fp16 ")[2] for site in result.sites if site.rewrites] == [because]
    compile(result.after, "train.py", "exec")
    assert "torch.autocast(" in result.after
    assert "GradScaler" not in result.after


@pytest.mark.parametrize(
    ("code", "call"),
    [
        pytest.param(
            f"{TRAIN}{MADE}train(optimizer=optimizer, model=model)\n",
            "train(optimizer=optimizer, model=model, scaler=scaler)",
            id="by name",
        ),
        pytest.param(
            f"class Trainer:\n    def train(self, model, optimizer):\n{loop(2)}"
            f"trainer = Trainer()\n{MADE}trainer.train(model, optimizer)\n",
            "trainer.train(model, optimizer, scaler=scaler)",
            id="to a method",
        ),
        pytest.param(
            f"{TRAIN}{through(5)}{MADE}level4(model, optimizer)\n",
            "level4(model, optimizer, scaler=scaler)",
            id="through five functions",
        ),
    ],
)
def test_it_is_made_where_the_optimizer_is_and_passed_along(code: str, call: str) -> None:
    after = run(Amp, HEAD + code).after

    compile(after, "train.py", "exec")
    assert after.count("torch.amp.GradScaler(") == 1
    assert after.index("optimizer = torch.optim.SGD") < after.index("torch.amp.GradScaler(") < after.index(call)
    assert "scaler.step(optimizer)" in after


def test_optimizers_that_train_one_after_the_other_have_a_scaler_each() -> None:
    main = (
        "def main():\n    model = network()\n"
        "    first = torch.optim.SGD(model.parameters(), lr=0.1)\n    train(model, first)\n"
        "    second = torch.optim.Adam(model.parameters())\n    train(model, second)\nmain()\n"
    )
    after = run(Amp, f"{HEAD}{TRAIN}{main}").after

    compile(after, "train.py", "exec")
    order = ["first = ", "GradScaler(", "train(model, first, scaler=scaler, amp_dtype=amp_dtype)"]
    order += ["second = ", "GradScaler(", "train(model, second, scaler=scaler, amp_dtype=amp_dtype)"]
    at = -1
    for part in order:
        at = after.index(part, at + 1)
    assert after.count("GradScaler(") == 2
    assert after.count("amp_dtype = ") == 1


@pytest.mark.parametrize(
    ("above", "below", "reads", "condition"),
    [
        pytest.param(
            'device = torch.device("cpu")',
            'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")',
            "x.to(device)",
            'device.type == "cuda"',
            id="chosen again under the guard",
        ),
        pytest.param(
            'if torch.cuda.is_available():\n    device = torch.device("cuda")\nelse:\n    device = torch.device("cpu")',
            "pass",
            "x.to(device)",
            'device.type == "cuda"',
            id="chosen in two branches",
        ),
        pytest.param(
            "device = None",
            'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")',
            "x.to(device)",
            "torch.cuda.is_available()",
            id="perhaps none",
        ),
        pytest.param(
            'if dir():\n    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")',
            "pass",
            "x.to(device) if len(x) else x",
            "torch.cuda.is_available()",
            id="perhaps unbound",
        ),
    ],
)
def test_a_function_asks_the_device_that_it_reads(above: str, below: str, reads: str, condition: str) -> None:
    code = f"""\
import torch
from torch import nn

{above}


def train(model, optimizer):
    for x in torch.randn(6, 16, 8):
        x = {reads}
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    {below}
    model = nn.Linear(8, 8).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, optimizer)
"""
    after = run(Amp, code).after
    (header,) = (line.strip() for line in after.splitlines() if "torch.autocast(" in line)

    assert header == f'with torch.autocast("cuda", dtype=amp_dtype, enabled={condition}):'


@pytest.mark.parametrize(
    ("before", "calls", "after"),
    [
        pytest.param(
            "def train(model, optimizer, epochs=3):",
            ["train(model, optimizer)", "train(model, optimizer, epochs=1)"],
            "def train(model, optimizer, scaler, epochs=3):",
            id="before defaults that no call passes by position",
        ),
        pytest.param(
            "def train(model, optimizer, epochs=3):",
            ["train(model, optimizer)", "train(model, optimizer, 1)"],
            "def train(model, optimizer, epochs=3, *, scaler):",
            id="by name alone, behind a default that a call passes by position",
        ),
        pytest.param(
            "def train(model=None, optimizer=None, epochs=3):",
            ["train(model, optimizer)"],
            "def train(model=None, optimizer=None, epochs=3, *, scaler):",
            id="by name alone, as all others have defaults that are passed by position",
        ),
        pytest.param(
            "def train(\n    model,\n    optimizer,\n    epochs=3,\n):",
            ["train(\n    model,\n    optimizer,\n    epochs=1,\n)"],
            "def train(\n    model,\n    optimizer,\n    scaler,\n    epochs=3,\n):",
            id="a line for each, with its comma",
        ),
        pytest.param(
            'def train(model, optimizer):\n    """Train.\n\n    Args:\n        model: the model\n    """',
            ["train(model, optimizer)"],
            'def train(model, optimizer, scaler):\n    """Train.\n\n    Args:\n        model: the model\n'
            "        scaler: the gradient scaler\n"
            '    """',
            id="described where others are",
        ),
    ],
)
def test_a_function_takes_the_scaler_as_a_colleague_would_write_it(before: str, calls: list[str], after: str) -> None:
    body = loop(1).replace("to(device)", "cuda()")
    head = HEAD.replace("to(device)", "cuda()").partition("device =")[0]
    code = f"{head}data = []\n\n\n{before}\n{body}\n\nmodel = nn.Linear(8, 4).cuda()\n"
    code += "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n" + "".join(f"{each}\n" for each in calls)

    result = run(Amp, code).after

    assert f"\n\n{after}\n    for x, y in data:" in result
    passed = [
        f"{each[:-2]}\n    scaler=scaler,\n)" if each.endswith("\n)") else f"{each[:-1]}, scaler=scaler)"
        for each in calls
    ]
    assert result.endswith("".join(f"{each}\n" for each in passed))


@pytest.mark.parametrize(
    ("before", "call", "after"),
    [
        pytest.param("def train(self, model", "Steps().train(model", "def train(self, model", id="a method"),
        pytest.param(
            "@staticmethod\n    def train(model", "Steps.train(model", "@staticmethod\n    def train(model", id="static"
        ),
    ],
)
def test_a_method_takes_the_scaler_before_its_defaults(before: str, call: str, after: str) -> None:
    code = f"{HEAD}class Steps:\n    {before}, optimizer, epochs=3):\n{loop(2)}\n\n{MADE}{call}, optimizer)\n"

    result = run(Amp, code).after

    assert f"    {after}, optimizer, scaler, epochs=3):\n" in result
    assert result.endswith(f"{call}, optimizer, scaler=scaler)\n")
