"""Rules that leave what cannot pay, by the sum, unless they are asked for by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from autotune_rewrite.rewriting.config import Options, settings
from autotune_rewrite.rewriting.rewrite import rewrite

if TYPE_CHECKING:
    from pathlib import Path

    from autotune_rewrite.rewriting.results import Site

IMPORTS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torchvision import datasets, models, transforms

"""
NET = """\
class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.hidden = nn.Linear(784, width)
        self.out = nn.Linear(width, 10)

    def forward(self, x):
        return self.out(self.hidden(x.flatten(1)).relu())

"""
MNIST = 'datasets.MNIST("data", transform=transforms.ToTensor())'


def trained(model: str, data: str = MNIST, batch: int = 64, epochs: str = "5") -> str:
    """A script that trains a model on CUDA."""
    return f"""\
{IMPORTS}{NET}
model = {model}.cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader({data}, {batch})
for epoch in range({epochs}):
    for images, labels in loader:
        images, labels = images.cuda(), labels.cuda()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
"""


def site(rule: str, text: str, folder: Path, *select: str) -> Site:
    """What the rule says of the script, among all rules, but for that which leaves workers nothing to do, or by name."""
    result = rewrite(
        "train.py", text, settings(folder, Options(select=select or None, ignore=("dataset-materialize",)))
    )
    (found,) = [each for each in result.sites if each.rule == rule]
    return found


SMALL = trained("Net(128)")


@pytest.mark.parametrize(
    ("rule", "text", "because"),
    [
        pytest.param(
            "compile",
            SMALL,
            "an iteration of a network of 0.1 million parameters computes at most 39 million operations: launching them "
            "takes longer, and compiled code launches no faster",
            id="a small network, however long it trains",
        ),
        pytest.param(
            "compile",
            trained("Net(65536)", batch=1024, epochs="2"),
            "at most 118 iterations of a network of 52.1 million parameters: starting compiled code takes longer than it "
            "can save",
            id="a larger network that trains for a moment",
        ),
        pytest.param(
            "compile",
            trained("Net(int(input()))", epochs="1", batch=4000),
            "at most 15 iterations: starting compiled code takes longer than it can save",
            id="few iterations, whatever the network",
        ),
        pytest.param(
            "amp",
            SMALL,
            "an iteration computes at most 39 million operations that 16 bits could speed up: casting takes longer than "
            "they save",
            id="a small network in 16 bits",
        ),
        pytest.param(
            "amp",
            trained("nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))", "read()"),
            "no layer is wider than 64: casting takes longer than they save",
            id="narrow layers, however many samples",
        ),
        pytest.param(
            "loader-workers",
            trained("Net(4096)", batch=10_000, epochs="1"),
            "it yields 6 batches in all: starting workers takes longer than they save",
            id="hardly any batches",
        ),
    ],
)
def test_what_cannot_pay_is_left_unless_it_is_asked_for(rule: str, text: str, because: str, tmp_path: Path) -> None:
    by_default, in_groups, by_name, beside = (
        site(rule, text, tmp_path, *select) for select in ((), ("ALL",), (rule,), ("DEFAULT", rule))
    )

    assert by_default == in_groups
    assert (by_default.rewrites, by_default.message) == (False, because)
    assert by_default.code == ("few-batches" if rule == "loader-workers" else "never-pays-back")
    assert by_default.remedy == "select the rule by name to apply it all the same"
    assert by_name.rewrites
    assert beside.rewrites


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        pytest.param("compile", trained("Net(65536)", batch=1024, epochs="500"), id="a large network that trains long"),
        pytest.param("compile", trained("Net(int(input()))"), id="a network of unknown size"),
        pytest.param("compile", trained("Net(4096)", "read()"), id="a large network on unknown data"),
        pytest.param("amp", trained("Net(65536)", batch=1024, epochs="1"), id="wide layers, however few iterations"),
        pytest.param("amp", trained("Net(int(input()))"), id="unknown widths"),
        pytest.param(
            "amp",
            trained("models.resnet18()", 'datasets.CIFAR10("data", transform=transforms.ToTensor())', 128),
            id="a network of torchvision",
        ),
        pytest.param("loader-workers", trained("Net(128)", batch=10_000, epochs="2"), id="twelve batches"),
        pytest.param(
            "loader-workers",
            trained("Net(128)", 'datasets.ImageFolder("d", transforms.ToTensor())', epochs="1"),
            id="as many as there are files",
        ),
    ],
)
def test_what_may_pay_is_rewritten(rule: str, text: str, tmp_path: Path) -> None:
    assert site(rule, text, tmp_path).rewrites


def test_the_project_may_ask_for_it_by_name(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.torchfast]\nselect = ["DEFAULT", "compile"]\n', encoding="utf-8")

    assert site("compile", SMALL, tmp_path).rewrites
    assert not site("amp", SMALL, tmp_path).rewrites


def test_each_of_several_models_is_weighed(tmp_path: Path) -> None:
    text = trained("Net(128)").replace("optimizer =", "large = Net(int(input())).cuda()\noptimizer =")
    text = text.replace("model(images)", "model(images) + large(images)")

    result = rewrite("train.py", text, settings(tmp_path, Options()))

    compiled = [each.line for each in result.sites if each.rule == "compile" and each.rewrites]
    assert [text.splitlines()[line - 1] for line in compiled] == ["large = Net(int(input())).cuda()"]
    assert any(each.rule == "amp" and each.rewrites for each in result.sites)


SCALED = SMALL.replace("self.hidden =", "self.scale = nn.Parameter(torch.ones(784))\n        self.hidden =", 1)


def test_a_parameter_beside_the_layers_counts_by_what_multiplies_with_it(tmp_path: Path) -> None:
    scaled, multiplied = (
        site("compile", SCALED.replace("x.flatten(1)", operation), tmp_path)
        for operation in ("(x.flatten(1) * self.scale)", "x.flatten(1).addmm(x, self.scale)")
    )

    assert (scaled.rewrites, scaled.code) == (False, "never-pays-back")
    assert scaled.message.startswith("an iteration computes at most 39 million operations:")
    assert multiplied.rewrites


RECOMMENDER = """\
class Ranks(nn.Module):
    def __init__(self, users, width, known=None):
        super().__init__()
        self.known = known
        self.users, self.layers = nn.Embedding(users, width), self.make(width, 3)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)

    def make(self, width, count):
        return nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(count)])

    def forward(self, x):
        if self.known is not None:
            x = x + self.known.offset
        return {}


"""
PASSES = "self.layers(self.users(x))"


def ranking(batch: int, returned: str = PASSES, width: int = 256) -> str:
    """A script that trains a recommender on data that are not known."""
    ranks = RECOMMENDER.format(returned)
    text = trained(f"Ranks(int(input()), {width}, torch.load('known.pt'))", "read()", batch)
    return text.replace("\nmodel =", f"{ranks}model =")


def test_a_network_that_never_mixes_rows_has_few_for_each_sample(tmp_path: Path) -> None:
    compiled, cast = (site(rule, ranking(256), tmp_path) for rule in ("compile", "amp"))

    assert (compiled.code, cast.code) == ("never-pays-back", "never-pays-back")
    assert compiled.message.startswith("an iteration computes at most 5 billion operations:")
    assert cast.message.startswith("an iteration computes at most 5 billion operations that 16 bits could speed up:")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(ranking(4096), id="large batches"),
        pytest.param(ranking(256, width=1024), id="wide layers"),
        pytest.param(ranking(256, "nn.functional.linear(self.users(x), self.users.weight)"), id="another product"),
        pytest.param(ranking(256).replace("nn.ReLU()", "nn.TransformerEncoderLayer(width, 4)"), id="attention"),
        pytest.param(
            ranking(256).replace("x = x + self.known.offset", "x = self.known(x)"), id="a layer that is loaded"
        ),
    ],
)
def test_a_network_may_have_many_rows(text: str, tmp_path: Path) -> None:
    assert site("compile", text, tmp_path).rewrites


def test_a_narrow_recurrent_layer_mixes_rows_although_it_does_not_count(tmp_path: Path) -> None:
    recurrent = ranking(256, "self.layers(self.steps(self.users(x))[0])")
    recurrent = recurrent.replace("self.known = known", "self.known, self.steps = known, nn.GRU(width, 64)", 1)

    assert site(
        "amp",
        recurrent.replace("Linear(width, width)", "Linear(64, 64), nn.Linear(64, 256), nn.Linear(256, 64)"),
        tmp_path,
    ).rewrites


STEPS = """\
class Steps(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.cell, self.out = nn.GRUCell(width, width), nn.Linear(width, 10)

    def forward(self, x):
        state = torch.zeros_like(x[0])
        for row in x:
            state = self.cell(row, state)
        return self.out(state)


"""


def test_recurrent_layers_that_a_loop_of_python_runs(tmp_path: Path) -> None:
    text = trained("Steps(int(input()))", "read()").replace("\nmodel =", f"{STEPS}model =")
    beside = text.replace("model(images)", "model(large(images))").replace(
        "optimizer =", "large = Net(int(input())).cuda()\noptimizer ="
    )

    alone, with_another = (site("amp", each, tmp_path) for each in (text, beside))

    assert alone.message == (
        "its recurrent layers run step by step in a loop of Python's: launching them takes longer than they compute"
    )
    assert alone.code == "never-pays-back"
    assert with_another.rewrites


def acting(layers: str, states: str = "env.observation_space.shape[0]", more: str = "", package: str = "gym") -> str:
    """A script that trains a network on CUDA to act in an environment."""
    return f"""\
import {package}
import torch
from torch import nn


class Agent(nn.Module):
    def __init__(self, states, actions, hidden):
        super().__init__()
        self.log_std = nn.Parameter(torch.zeros(1, actions))
        self.layers = {layers}

    def forward(self, x):
        mean = self.layers(x)
        return torch.distributions.Normal(mean, self.log_std.exp().expand_as(mean))


env = {package}.make("Walker-v1")
{more}
states = {states}
actions = env.action_space.shape[0]
model = Agent(states, actions, 256).cuda()
optimizer = torch.optim.Adam(model.parameters())


def update(seen, done):
    loss = -model(seen).log_prob(done).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


while True:
    update(*play(env, model))
"""


LAYERS = "nn.Sequential(nn.Linear(states, hidden), nn.ReLU(), nn.Linear(hidden, actions))"
PASSED_ON = """\
class Wrapper(gym.Wrapper):
    def __init__(self, env):
        self.observation_space = env.observation_space
"""
SIZES = """\
nn.Sequential(*[nn.Linear(one, two) for one, two in zip([states, hidden], [hidden, actions])])"""


BY_DEFAULT = (
    acting(LAYERS)
    .replace("states, actions, hidden)", "states, hidden, actions=actions)")
    .replace("(states, actions, 256)", "(states, 256)")
    .replace("import torch\n", "import torch\nactions = gym.make('Walker-v1').action_space.shape[0]\n", 1)
    .replace("actions = env.action_space.shape[0]\n", "")
)


STARTED = """\
def start(states, actions):
    return Player(states, actions)


"""


def owned(makes: str, more: str = "") -> str:
    """The same, where the network is made by the constructor of an object."""
    owner = """\
class Player:
    def __init__(self, states, actions):
        self.model = Agent(states, actions, 256).cuda()


"""
    made = f"{owner}{more}model = {makes}.model\n"
    return acting(LAYERS).replace("model = Agent(states, actions, 256).cuda()\n", made)


GIVEN_SPACE = (
    owned("Player(states, env.action_space)")
    .replace("(self, states, actions):\n        self.model", "(self, states, space):\n        self.model")
    .replace("Agent(states, actions, 256)", "Agent(states, space.shape[0], 256)")
)
KEPT_SIZE = (
    owned("Player(env)")
    .replace("(self, states, actions):\n        self.model", "(self, env):\n        self.model")
    .replace("        self.model", "        self.shape = env.observation_space.shape\n        self.model")
    .replace("Agent(states, actions, 256)", "Agent(self.shape[0], actions, 256)")
)


@pytest.mark.parametrize(
    ("text", "operations"),
    [
        pytest.param(acting(LAYERS), "1 billion", id="the first side of a space's shape"),
        pytest.param(acting(LAYERS, package="gymnasium"), "1 billion", id="the successor of gym"),
        pytest.param(acting(LAYERS, "env.observation_space.n"), "2 billion", id="states that are counted"),
        pytest.param(acting(LAYERS, "int(env.observation_space.shape[0])"), "1 billion", id="as an int"),
        pytest.param(acting(LAYERS, "2 * env.observation_space.shape[0] + 1"), "2 billion", id="computed from it"),
        pytest.param(acting(SIZES), "1 billion", id="widths in a list"),
        pytest.param(
            acting(LAYERS, "space.shape[0]", "space = env.observation_space"), "1 billion", id="a name for the space"
        ),
        pytest.param(acting(LAYERS, more=PASSED_ON), "1 billion", id="a wrapper with the same space"),
        pytest.param(
            acting(LAYERS.replace("states", "states.shape[0]"), "env.observation_space"),
            "1 billion",
            id="the space is given to the network",
        ),
        pytest.param(owned("Player(states, actions)"), "1 billion", id="sizes that a constructor hands on"),
        pytest.param(owned("start(states, actions)", STARTED), "1 billion", id="sizes that two functions hand on"),
        pytest.param(BY_DEFAULT, "1 billion", id="a size that is a parameter's default"),
        pytest.param(GIVEN_SPACE, "1 billion", id="a space that a constructor hands on"),
        pytest.param(KEPT_SIZE, "1 billion", id="a size that an object keeps"),
    ],
)
def test_a_network_that_acts_in_an_environment_of_gym_is_small(text: str, operations: str, tmp_path: Path) -> None:
    compiled, cast = (site(rule, text, tmp_path) for rule in ("compile", "amp"))

    assert (compiled.code, cast.code) == ("never-pays-back", "never-pays-back")
    assert compiled.message == (
        f"an iteration computes at most {operations} operations: launching them takes longer, and compiled code launches "
        "no faster"
    )
    assert cast.message == (
        f"an iteration computes at most {operations} operations that 16 bits could speed up: casting takes longer than "
        "they save"
    )


def test_parameters_that_spaces_decide_are_an_upper_bound(tmp_path: Path) -> None:
    text = acting(LAYERS).replace("        self.log_std = nn.Parameter(torch.zeros(1, actions))\n", "")
    text = text.replace("self.log_std.exp().expand_as(mean)", "torch.ones_like(mean)")

    found = site("compile", text, tmp_path)

    assert found.message.startswith("an iteration of a network of at most 0.1 million parameters computes at most")


MEMORY = """\
class Memory:
    def sample(self, n):
        return draw(n)


memory = Memory()
"""
WIDER = LAYERS.replace("nn.Linear(hidden, actions)", "nn.Linear(hidden, 4096), nn.Linear(4096, actions)")


def drawing(drawn: str, more: str = MEMORY) -> str:
    """The same, with a wider network that learns from what is drawn in each iteration."""
    learning = acting(WIDER, more=more).replace(
        "def update(seen, done):\n", f"def update():\n    seen, done = {drawn}\n"
    )
    return learning.replace("update(*play(env, model))", "update()")


def test_few_steps_are_drawn_at_once_from_what_was_stored(tmp_path: Path) -> None:
    found = site("compile", drawing("memory.sample(256)"), tmp_path)

    assert found.message.startswith("an iteration computes at most 7 billion operations")


def test_a_call_that_acts_counts_once_wherever_its_function_is_called(tmp_path: Path) -> None:
    acts = "\n\ndef act(seen):\n    return model(seen).sample()\n\n\nwhile True:\n    act(look(env))\n"
    once = drawing("memory.sample(256)").replace(
        "nn.Linear(hidden, 4096), nn.Linear(4096, actions)", "nn.Linear(hidden, 1024)"
    )
    once = once.replace("\n\nwhile True:\n", acts)
    several = once.replace("    act(look(env))\n", "    act(look(env))\n    if done(env):\n        act(start(env))\n")

    found = [site("compile", text, tmp_path).message for text in (once, several)]

    assert found[0].startswith("an iteration computes at most 7 billion operations:")
    assert found[1] == found[0]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(drawing("memory.sample(8192)"), id="thousands at once"),
        pytest.param(drawing("memory.rollout(256)"), id="by another method"),
        pytest.param(drawing("stored.sample(256)"), id="of a library"),
        pytest.param(drawing("model.sample(256)"), id="of a network, which samples actions"),
    ],
)
def test_more_steps_may_be_drawn(text: str, tmp_path: Path) -> None:
    own = "\n    def sample(self, n):\n        return self.layers(draw(n))\n\n    def forward"

    assert site("compile", text.replace("\n    def forward", own), tmp_path).rewrites


CONVOLVED = "nn.Sequential(nn.Conv2d(states, hidden, 3), nn.Flatten(), nn.LazyLinear(actions))"
BRANCHED = "nn.Linear(states, 8) if states > 100 else nn.Linear(states, 100_000)"
OWN = """\
class Walker(gym.Env):
    def __init__(self):
        self.observation_space = gym.spaces.Box(-1, 1, (100_000,))
        self.action_space = gym.spaces.Discrete(2)

walker = Walker()"""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(acting(CONVOLVED), id="images"),
        pytest.param(acting(LAYERS, "env.observation_space.shape[-1]"), id="another side, which images have"),
        pytest.param(acting(LAYERS, "math.prod(env.observation_space.shape)"), id="all sides, which images have"),
        pytest.param(acting(LAYERS, "4096 - env.observation_space.shape[0]"), id="what is larger for a smaller space"),
        pytest.param(acting(LAYERS, "4096 // env.observation_space.shape[0]"), id="divided by it"),
        pytest.param(acting(BRANCHED), id="a choice by its size"),
        pytest.param(
            acting(LAYERS, "walker.observation_space.shape[0]", OWN), id="a space that the script makes itself"
        ),
        pytest.param(acting(LAYERS, more=OWN), id="the environment may be one of the script's own"),
        pytest.param(
            KEPT_SIZE.replace("env = gym", f"{OWN}\nenv = gym"), id="a size of a space of its own that an object keeps"
        ),
        pytest.param(f"{KEPT_SIZE}model.shape = (65536,)\n", id="a size that may be set anew"),
        pytest.param(
            GIVEN_SPACE.replace("env = gym", f"{OWN}\nenv = gym"), id="a space of its own that a constructor hands on"
        ),
        pytest.param(acting(LAYERS).replace("import gym\n", "import gym\nimport isaacgym\n"), id="thousands at once"),
        pytest.param(acting(LAYERS.replace("states, hidden", "states, 65536")), id="a wide network"),
        pytest.param(acting(LAYERS).replace("import gym\n", "import simulation as gym\n"), id="another package"),
        pytest.param(owned("Player(int(input()), actions)"), id="another size that a constructor hands on"),
        pytest.param(owned("Player(65536, actions)", "other = Player(states, actions)\n"), id="two objects of a class"),
    ],
)
def test_networks_for_environments_are_compiled_where_their_size_is_not_known(text: str, tmp_path: Path) -> None:
    assert site("compile", text, tmp_path).rewrites
