"""What models keep from their calls."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.facts.training.kept_states import KeptStates

if TYPE_CHECKING:
    from codemods.facts.script import Script

HEAD = """\
import torch
from torch import nn
"""


def forward(body: str, below: str = "", **others: str) -> tuple[KeptStates, ast.FunctionDef]:
    """What is known of a model with this forward."""
    known = written(body, below, **others)
    function = next(each for each in known.module.nodes(ast.FunctionDef) if each.name == "forward")
    return KeptStates(known.flow, known.modules), function


def written(body: str, below: str = "", **others: str) -> Script:
    lines = "".join(f"        {line}\n" for line in body.split("\n"))
    return script(
        f"""{HEAD}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.state = torch.zeros(4)
        self.count = 0

    def forward(self, x):
{lines}        return y

    def peek(self):
        return self.layer.weight
net = Net()
{below}""",
        **others,
    )


@pytest.mark.parametrize(
    ("body", "attribute"),
    [
        pytest.param("y = self.layer(x + self.state)\nself.state = y", "state", id="read, then written"),
        pytest.param("self.state = self.layer(self.state + x)\ny = x", "state", id="in one statement"),
        pytest.param("self.state = self.layer(x)\ny = self.state + x", None, id="written first"),
        pytest.param("y = self.layer(x + self.state)\nself.state = y.detach()", None, id="without its graph"),
        pytest.param("y = self.layer(x) * self.count\nself.count = self.count + 1", None, id="a number"),
        pytest.param("y = self.layer(x + self.state)", None, id="only read"),
        pytest.param("y = self.layer(x)\nself.state = y", None, id="only written"),
        pytest.param("y = self.layer(x + self.state)\nsetattr(self, 'state', y)", "state", id="written by its name"),
        pytest.param("y = self.layer(x + getattr(self, 'state'))\nself.state = y", "state", id="read by its name"),
        pytest.param(
            "y = self.layer(x + self.state)\nvars(self)['state'] = y.detach()",
            None,
            id="by its name, without its graph",
        ),
        pytest.param("y = self.layer(x + self.state)\nself.state = y.detach().clone()", None, id="a copy without it"),
        pytest.param("y = self.layer(x + self.state)\nself.state = y - y.detach()", "state", id="a part has its graph"),
    ],
)
def test_what_is_carried_from_one_call_to_the_next(body: str, attribute: str | None) -> None:
    states, function = forward(body)

    found = states.carried_on(function)

    assert (None if found is None else found.name) == attribute


def inside(body: str, below: str = "", **others: str) -> list[str]:
    return [f"{each.module.path}: {each.reason.text}" for each in forward(body, below, **others)[0].inside]


KEEPS = "y = self.layer(x)\nself.last = y"
READ = "train.py: the model's forward keeps a tensor that is read elsewhere (\N{OBJECT REPLACEMENT CHARACTER})"
COLLECTED = READ.replace("keeps a tensor that", "puts a tensor where it")
HOOK = "train.py: a forward hook may keep tensors for later (\N{OBJECT REPLACEMENT CHARACTER})"


@pytest.mark.parametrize(
    ("body", "below", "expected"),
    [
        pytest.param(KEEPS, "", [], id="nobody reads it"),
        pytest.param(KEEPS, "net.last.sum().backward()", [READ], id="the script reads it"),
        pytest.param(f"{KEEPS}\ny = self.last * 2", "", [], id="the forward alone reads it"),
        pytest.param("y = self.layer(x)\nself.size = 4", "print(net.size)", [], id="a number"),
        pytest.param("y = x", "net.layer.register_forward_hook(keep)", [HOOK], id="a hook"),
        pytest.param("y = x", "net.layer.register_forward_pre_hook(keep)", [HOOK], id="a hook before the call"),
        pytest.param(
            "y = x", "nn.modules.module.register_module_forward_hook(keep)", [HOOK], id="a hook of all modules"
        ),
        pytest.param("y = x", "net.layer.register_full_backward_hook(keep)", [], id="a hook that is given gradients"),
    ],
)
def test_what_is_kept_inside_of_a_forward(body: str, below: str, expected: list[str]) -> None:
    assert inside(body, below) == expected


OTHER = """\
class Other{base}:
    def __init__(self):
        self.last = None

    def peek(self{more}):
        return self.last
"""


@pytest.mark.parametrize(
    ("below", "expected"),
    [
        pytest.param(OTHER.format(base="", more=""), [], id="an object of another class reads its own"),
        pytest.param(OTHER.format(base="(Net)", more=""), [READ], id="of a class that derives from it"),
        pytest.param(
            OTHER.format(base="", more="") + "class Both(Other, Net):\n    pass",
            [READ],
            id="of one beside it in a class",
        ),
        pytest.param(
            "def peek(self):\n    return self.last\nNet.read = peek", [READ], id="a function that may become a method"
        ),
        pytest.param(
            OTHER.format(base="", more=", net").replace("return", "self = net\n        return"),
            [READ],
            id="what is called self is another object",
        ),
        pytest.param(
            OTHER.format(base="", more=", net").replace("return self", "return net"), [READ], id="it is given the model"
        ),
        pytest.param(
            OTHER.format(base="", more="").replace("    def peek", "    @staticmethod\n    def peek"),
            [READ],
            id="a function that is given any object",
        ),
    ],
)
def test_who_reads_an_attribute_of_the_same_name(below: str, expected: list[str]) -> None:
    assert inside(KEEPS, below) == expected


@pytest.mark.parametrize(
    "kept",
    [
        "setattr(self, 'last', y)",
        "setattr(self, f'{name}', y)",
        "object.__setattr__(self, 'last', y)",
        "super().__setattr__('last', y)",
        "self.__dict__['last'] = y",
        "self.__dict__['last'], self.size = y, 4",
        "vars(self)['last'] = y",
        "vars(self).update(last=y)",
        "self.__dict__.update({'last': y})",
        "self.__dict__.setdefault('last', y)",
        "self.register_buffer('last', y)",
        "note(self, y)",
    ],
)
def test_a_forward_keeps_a_tensor_by_the_name_of_an_attribute(kept: str) -> None:
    helper = "def note(net, y):\n    net.last = y\n"

    assert inside(f"y = self.layer(x)\n{kept}", f"{helper}net.last.sum().backward()") == [READ]


@pytest.mark.parametrize(
    ("kept", "below"),
    [
        pytest.param("setattr(self, 'last', y)", "", id="nobody reads it"),
        pytest.param("setattr(self, 'last', y.detach().to(x.device))", "print(net.last)", id="without its graph"),
        pytest.param("setattr(self, 'last', 4)", "print(net.last)", id="a number"),
        pytest.param("setattr(torch, 'last', y)", "print(torch.last)", id="of a library"),
        pytest.param("vars(self).get('last')", "print(net.last)", id="it is only read"),
    ],
)
def test_nothing_is_kept_by_the_name_of_an_attribute(kept: str, below: str) -> None:
    assert inside(f"y = self.layer(x)\n{kept}", below) == []


@pytest.mark.parametrize(
    "read",
    [
        "getattr(net, 'last')",
        "getattr(net, f'{name}', None)",
        "net.__dict__['last']",
        "vars(net).get('last')",
        "list(vars(net).values())",
        "dict(vars(net))",
        "operator.attrgetter('last')(net)",
        "net.__getattribute__('last')",
    ],
)
def test_what_a_forward_keeps_is_read_by_the_name_of_an_attribute(read: str) -> None:
    assert inside(KEEPS, f"import operator\nfor name in input():\n    print({read})") == [READ]


@pytest.mark.parametrize(
    "read",
    [
        pytest.param("getattr(net, 'first')", id="another attribute"),
        pytest.param("getattr(nn, input())", id="of a library"),
        pytest.param("vars(argparse.ArgumentParser().parse_args())", id="of options"),
    ],
)
def test_nobody_reads_what_a_forward_keeps(read: str) -> None:
    assert inside(KEEPS, f"import argparse\nprint({read})") == []


def test_a_constructor_looks_its_layers_up_before_any_forward() -> None:
    other = "class Head:\n    def {}(self):\n        print(getattr(self, str(4)))\n"

    assert inside(KEEPS, other.format("__init__")) == []
    assert inside(KEEPS, other.format("show")) == [READ]


BY_TRAINER = """
class Trainer:
    def __init__(self, head):
        self.head = head
        self.train()
    def train(self):
        self.head.find()
trainer = Trainer(head)
"""


@pytest.mark.parametrize("name", ["'last'", "str(4)"])
@pytest.mark.parametrize(
    ("called", "expected"),
    [
        pytest.param("", [], id="by its constructor alone"),
        pytest.param("head.find()\n", [READ], id="by others, too"),
        pytest.param(BY_TRAINER, [READ], id="and by what a trainer runs in its constructor"),
        pytest.param("import runner\nrunner.start(Head.find)\n", [READ], id="maybe by code that is not seen"),
    ],
)
def test_a_method_of_a_constructor_looks_a_weight_up(name: str, called: str, expected: list[str]) -> None:
    head = (
        "class Head(nn.Module):\n    def __init__(self, net):\n        self.net = net\n        self.find()\n"
        f"    def find(self):\n        print(getattr(self.net, {name}))\nhead = Head(net)\n"
    )

    assert inside(KEEPS, head + called) == expected


@pytest.mark.parametrize("read", ["net.last.data.sum()", "net.last.detach()", "net.last.shape", "net.last.size(0)"])
def test_what_is_read_without_its_graph(read: str) -> None:
    assert inside(KEEPS, f"print({read})") == []


@pytest.mark.parametrize(
    ("body", "read"),
    [
        pytest.param(KEEPS, "net.last.detach()", id="read without its graph"),
        pytest.param("u = getattr(self.layer, 'u')\nu.data = self.layer(x)\ny = u.dot(x)", "net.data", id="data"),
    ],
)
def test_the_memory_of_what_has_no_graph_may_be_written_anew(body: str, read: str) -> None:
    known = written(body, f"print({read})")

    assert KeptStates(known.flow, known.modules).inside == ()
    assert len(KeptStates(known.flow, known.modules, with_memory=True).inside) == 1


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("u = getattr(self.layer, 'u')\nu.data = y\ny = u.dot(y)", 0, id="of a vector that is multiplied"),
        pytest.param("u = getattr(self.layer, 'u')\nu.data = y\ny = y.mv(u)", 0, id="by which is multiplied"),
        pytest.param("tree = self.tree(x)\ntree.data = y\nu = y\ny = y.mv(u)", 1, id="of what may be no tensor"),
        pytest.param("tree = self.tree(x)\ntree.data = y\ny = y.mv(tree.h)", 1, id="of what has parts"),
        pytest.param("self.data = y", 1, id="of the model"),
        pytest.param("u = self.tree(x)\nu.state = y\ny = y.mv(u)", 1, id="of another name"),
    ],
)
def test_data_of_a_tensor_has_no_graph(body: str, expected: int) -> None:
    reads = "print(net.data, net.tree.data, net.tree.state)"

    assert len(inside(f"y = self.layer(x)\n{body}", reads)) == expected


def test_a_forward_keeps_a_tensor_in_a_name_of_the_module() -> None:
    kept = "y = self.layer(x)\nglobal last\nlast = y"

    assert inside(kept, "last.sum().backward()") == [READ]
    assert inside(kept) == []


def test_a_function_that_only_the_forward_calls_reads_in_the_forward() -> None:
    helper = "def double(net):\n    return net.last * 2\n"

    assert inside(f"{KEEPS}\ny = double(self)", helper) == []
    assert inside(f"{KEEPS}\ny = double(self)", helper + "double(net)\n") == [READ]


KEPT = "net.kept = []\n"
GROUPS = "net.groups = {}\n"
FILLED = "net.groups = {'a': []}\n"


@pytest.mark.parametrize(
    ("body", "below", "expected"),
    [
        pytest.param("self.kept.append(y)", KEPT + "print(net.kept)", [COLLECTED], id="a list of the model"),
        pytest.param(
            "self.groups.setdefault('a', []).append(y)",
            GROUPS + "print(net.groups)",
            [COLLECTED],
            id="a list that is put into a dictionary",
        ),
        pytest.param(
            "self.groups['a'].append(y)", GROUPS + "print(net.groups)", [COLLECTED], id="a list of a dictionary"
        ),
        pytest.param(
            "self.groups['a']['b'] = y", GROUPS + "print(net.groups)", [COLLECTED], id="a dictionary of a dictionary"
        ),
        pytest.param(
            "kept = self.kept\nkept.append(y)", KEPT + "print(net.kept)", [COLLECTED], id="a list by another name"
        ),
        pytest.param("kept = self.kept\nkept += [y]", KEPT + "print(net.kept)", [COLLECTED], id="it is made longer"),
        pytest.param("(kept := self.kept).append(y)", KEPT + "print(net.kept)", [COLLECTED], id="a name in brackets"),
        pytest.param(
            "put = self.kept.append\nput(y)", KEPT + "print(net.kept)", [COLLECTED], id="a method by another name"
        ),
        pytest.param(
            "for name, kept in self.groups.items():\n    kept.append(y)",
            FILLED + "print(net.groups)",
            [COLLECTED],
            id="each list of a dictionary",
        ),
        pytest.param(
            "kept, n = self.groups['a'], 1\nkept.append(y)",
            FILLED + "print(net.groups)",
            [COLLECTED],
            id="one of two names",
        ),
        pytest.param(
            "kept = self.groups.setdefault('a', [])\nkept.append(y)",
            GROUPS + "print(net.groups)",
            [COLLECTED],
            id="a name for a list that is put into a dictionary",
        ),
        pytest.param(
            "kept = store()\nkept.append(y)",
            KEPT + "def store():\n    return net.kept\nprint(net.kept)",
            [COLLECTED],
            id="what a function returns",
        ),
        pytest.param("kept = self.kept\nkept.append(y)", KEPT, [], id="nobody reads it by the other name either"),
        pytest.param(
            "put = self.kept.append\nput(y.detach())",
            KEPT + "print(net.kept)",
            [],
            id="by the name of a method, without its graph",
        ),
        pytest.param(
            "kept = []\nkept.append(y)\ny = kept",
            "net.kept = net(torch.ones(4))\nprint(net.kept)",
            [],
            id="a list that it returns, and others keep",
        ),
        pytest.param("kept = []\nkept += [y]", KEPT + "print(net.kept)", [], id="a list of its own is made longer"),
        pytest.param("self.groups['a'].append(y)", GROUPS, [], id="nobody reads the dictionary"),
        pytest.param(
            "self.groups['a'].append(y.detach())",
            GROUPS + "print(net.groups)",
            [],
            id="in a dictionary, without its graph",
        ),
        pytest.param("self.kept.append(y)", KEPT, [], id="nobody reads it"),
        pytest.param("self.kept.append(y.detach())", KEPT + "print(net.kept)", [], id="without its graph"),
        pytest.param("self.kept.append(x.shape)", KEPT + "print(net.kept)", [], id="sizes"),
        pytest.param("STORE['y'] = y", "STORE = {}\nprint(STORE)", [COLLECTED], id="a dictionary of the module"),
        pytest.param("STORE.update(y=y)", "STORE = {}\nprint(STORE)", [COLLECTED], id="it is updated"),
        pytest.param("STORE['n'] = 4", "STORE = {}\nprint(STORE)", [], id="a number in a dictionary of the module"),
        pytest.param("STORE = {}\nSTORE['y'] = y", "STORE = {}\nprint(STORE)", [], id="a dictionary of its own"),
    ],
)
def test_what_a_forward_puts_where_others_read_it(body: str, below: str, expected: list[str]) -> None:
    assert inside(f"y = self.layer(x)\n{body}", below) == expected


@pytest.mark.parametrize(
    ("below", "expected"),
    [
        pytest.param(
            "def note(net, y):\n    KEPT.append(y)\nKEPT = []\nprint(KEPT)\n", [COLLECTED], id="and others read it"
        ),
        pytest.param("def note(net, y):\n    KEPT.append(y)\nKEPT = []\n", [], id="and nobody reads it"),
        pytest.param("def note(net, y):\n    print(y.shape)\nKEPT = []\nprint(KEPT)\n", [], id="which keeps nothing"),
    ],
)
def test_a_function_that_the_forward_calls_keeps_a_tensor(below: str, expected: list[str]) -> None:
    assert inside("y = self.layer(x)\nnote(self, y)", below) == expected


def test_a_method_that_the_forward_calls_keeps_a_tensor() -> None:
    code = HEAD + (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.layer = nn.Linear(4, 4)\n"
        "    def encode(self, x):\n        self.last = self.layer(x)\n        return self.last\n"
        "    def forward(self, x):\n        return self.encode(x) * 2\nnet = Net()\n"
    )

    for below, count in (("print(net.last)\n", 1), ("", 0)):
        known = script(code + below)
        assert len(KeptStates(known.flow, known.modules).inside) == count


def test_another_module_reads_it() -> None:
    assert inside(KEEPS, "import other", other="def show(net):\n    print(net.last)\n") == [READ]
