"""How a place says, in the script's own words, that CUDA is used."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.devices.cuda_condition import of_loader, of_move, said_as

HEAD = """\
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda:0")
parser.add_argument("--place")
parser.add_argument("--no_cuda", action="store_true")
args = parser.parse_args()
model = nn.Linear(4, 2)
"""
ANY = 'torch.device("cuda" if torch.cuda.is_available() else "cpu")'


def at_mark(body: str) -> str | None:
    """How the statement ``mark()`` can say whether the last move of the script goes to CUDA."""
    known = script(HEAD + body)
    (mark,) = (
        each for each in known.module.nodes(ast.Expr) if ast.unparse(each) == "mark()" and isinstance(each, ast.stmt)
    )
    found = of_move(known, known.transfers[-1], known.module, mark)
    return None if found is None else found.text


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            "if not args.no_cuda:\n    torch.ones(3).cuda()\nmark()", "not args.no_cuda", id="the flag that is asked"
        ),
        pytest.param(
            f"device = {ANY}\ntorch.ones(3).to(device)\nmark()", 'device.type == "cuda"', id="the device it goes to"
        ),
        pytest.param(
            "torch.ones(3).to(args.device)\nmark()",
            'torch.device(args.device).type == "cuda"',
            id="a text that the user chooses",
        ),
        pytest.param("torch.ones(3).to(args.place)\nmark()", None, id="what the user may leave away"),
        pytest.param("torch.ones(3).to(unknown)\nmark()", None, id="a device that is not known"),
        pytest.param(
            'device = "cuda:1" if torch.cuda.is_available() else "mps"\ntorch.ones(3).to(device)\nmark()',
            'torch.device(device).type == "cuda"',
            id="a text with an index, beside another accelerator",
        ),
        pytest.param(
            f"device = {ANY}\ndef send(x, where):\n    return x.to(where)\nsend(torch.ones(3), device)\nmark()",
            'device.type == "cuda"',
            id="the device, which is called otherwise where the move stands",
        ),
        pytest.param(
            'where = "cuda" if torch.cuda.is_available() else "cpu"\nother = "cuda" if args.no_cuda else "cpu"\n'
            "def send(x):\n    here = where\n    return x.to(here)\nsend(torch.ones(3))\nmark()",
            None,
            id="no other text with the same choices",
        ),
    ],
)
def test_the_script_s_own_words(body: str, expected: str | None) -> None:
    assert at_mark(body) == expected


METHODS = """\
class Trainer:
    def __init__(self):
{}
    def load(self):
        mark()
    def train(self):
        torch.ones(3).to(self.device)
"""


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param((f"self.device = {ANY}",), 'self.device.type == "cuda"', id="set once"),
        pytest.param(
            (f"self.device = {ANY}", "self.load()"), 'self.device.type == "cuda"', id="set before the method is called"
        ),
        pytest.param(("self.load()", f"self.device = {ANY}"), None, id="the method is called before"),
        pytest.param(
            (
                "if args.no_cuda:",
                "    self.device = 'cpu'",
                "else:",
                "    self.load()",
                "    self.device = args.device",
            ),
            None,
            id="the method is called in one branch before",
        ),
    ],
)
def test_an_attribute_that_a_constructor_sets(lines: tuple[str, ...], expected: str | None) -> None:
    assert at_mark(METHODS.format("\n".join(f"        {each}" for each in lines))) == expected


def test_an_attribute_that_is_set_in_each_branch_above() -> None:
    body = """\
class Trainer:
    def __init__(self):
        if args.no_cuda:
            self.device = "cpu"
        else:
            self.device = args.device
        torch.ones(3).to(self.device)
        mark()
"""

    assert at_mark(body) == 'torch.device(self.device).type == "cuda"'
    assert at_mark(body.replace("        mark()", '        self.device = "cpu"\n        mark()')) is None


CHOSEN = """\
if torch.cuda.is_available() and not args.no_cuda:
    args.device = torch.device("cuda")
else:
    args.device = torch.device("cpu")
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            CHOSEN + "torch.ones(3).to(args.device)\nmark()",
            'args.device.type == "cuda"',
            id="set above, by the module",
        ),
        pytest.param(
            CHOSEN + "torch.ones(3).to(args.device)\nargs.device = 'cpu'\nmark()", None, id="set once more below"
        ),
        pytest.param(
            CHOSEN + "torch.ones(3).to(args.device)\nargs = parser.parse_args()\nmark()",
            None,
            id="another object below",
        ),
        pytest.param(
            CHOSEN + "def reset(args):\n    args.device = 'cpu'\ntorch.ones(3).to(args.device)\nreset(args)\nmark()",
            None,
            id="a function may set it",
        ),
        pytest.param(
            CHOSEN
            + "def reset():\n    global args\n    args = parser.parse_args()\n"
            + "torch.ones(3).to(args.device)\nreset()\nmark()",
            None,
            id="a function may bind another object",
        ),
        pytest.param(
            CHOSEN + "if small:\n    torch.ones(3).to(args.device)\nmark()", None, id="read in another branch"
        ),
        pytest.param(
            "for _ in range(2):\n    mark()\n" + CHOSEN + "torch.ones(3).to(args.device)\n", None, id="read below"
        ),
    ],
)
def test_an_attribute_that_the_module_sets_in_each_branch(body: str, expected: str | None) -> None:
    assert at_mark(body) == expected


@pytest.mark.parametrize(
    ("move", "condition"),
    [
        ("x.cuda()", "True"),
        ("x.to(device)", 'device.type == "cuda"'),
        ("print(x)", "torch.cuda.is_available()"),
    ],
)
def test_how_it_says_that_batches_go_to_cuda(move: str, condition: str) -> None:
    known = script(f"{HEAD}device = {ANY}\nloader = DataLoader(torch.zeros(3))\nfor x in loader:\n    {move}\n")
    (loader,) = known.loaders

    assert of_loader(known, loader, loader.call) == condition


def test_a_name_that_a_comprehension_means_otherwise_is_not_used() -> None:
    known = script(
        f"{HEAD}device = {ANY}\nloaders = [DataLoader(torch.zeros(3)) for device in range(2)]\n"
        "for x in loaders[0]:\n    x.to(device)\n"
    )
    (loader,) = known.loaders

    assert of_loader(known, loader, loader.call) == "torch.cuda.is_available()"


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        pytest.param("device = torch.device('cuda')\nmark()\n", "device", id="its name"),
        pytest.param("gpu = torch.device('cuda')\nmark()\ndevice = gpu\n", "gpu", id="another name"),
        pytest.param("mark()\ndevice = torch.device('cuda')\n", None, id="it has none yet"),
    ],
)
def test_how_a_place_says_a_device(place: str, expected: str | None) -> None:
    known = script(f"import torch\n{place}torch.zeros(3).to(device)\n")
    (move,) = known.transfers
    assert move.target is not None
    statement = next(each for each in known.module.tree.body if ast.unparse(each) == "mark()")

    found = said_as(known.flow, known.module, move.target, statement)
    assert (found and ast.unparse(found)) == expected


READING = """\
def main():
    {above}
    train(nn.Linear(4, 2))

def train(net):
    if {flag}:
        torch.ones(3).cuda()
    for step in range(9):
        mark()
        {below}

def change(x):
    args.cuda = False

def replace():
    global args
    args = parser.parse_args()

def change_by_name():
    setattr(args, "cuda", False)

main()
"""


@pytest.mark.parametrize(
    ("above", "below", "expected"),
    [
        pytest.param("args.cuda = not args.no_cuda", "pass", "args.cuda", id="what calls it writes it"),
        pytest.param("change(1)", "pass", "args.cuda", id="a function that runs before writes it"),
        pytest.param("pass", "args.cuda = False", None, id="the function writes it"),
        pytest.param("pass", "change(1)", None, id="what it calls writes it"),
        pytest.param("pass", "replace()", None, id="what it calls binds the options anew"),
        pytest.param("pass", "change_by_name()", None, id="what it calls writes it by its name"),
        pytest.param("pass", "yield step", None, id="its caller may write it meanwhile"),
        pytest.param("pass", "library.setup(args)", None, id="it is given to what is not read"),
        pytest.param("pass", "print(args)", "args.cuda", id="it is shown"),
    ],
)
def test_an_option_that_the_function_reads_itself(above: str, below: str, expected: str | None) -> None:
    assert at_mark(READING.format(above=above, below=below, flag="args.cuda")) == expected


def test_a_condition_of_an_option_that_the_function_reads_itself() -> None:
    body = READING.format(above="args.cuda = 0", below="pass", flag="args.cuda is not None")
    assert at_mark(body) == "args.cuda is not None"


def test_an_option_that_is_read_at_times_alone() -> None:
    body = READING.format(above="args.cuda = True", below="pass", flag="args.cuda")
    assert at_mark(body.replace("    if args.cuda:", "    if net and args.cuda:")) is None
