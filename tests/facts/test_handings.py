"""Calls that hand a tensor to a function which copies it, and the device as it is written at the call."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.devices.handings import Handing, handings
from codemods.facts.reason import HERE

HEAD = """\
import torch

use_cuda = torch.cuda.is_available()
device = torch.device("cuda" if use_cuda else "cpu")


"""


def handed(text: str, **others: str) -> Handing:
    """The one call of the text that gives a tensor to a function which copies it."""
    (found,) = handings(script(HEAD + text, **others))
    return found


WRITTEN = {
    "CUDA": ("def to_var(t):\n    return t.cuda()\n", "to_var(torch.ones(3))", '"cuda"'),
    "one of several": ("def to_var(t):\n    return t.cuda(1)\n", "to_var(torch.ones(3))", '"cuda:1"'),
    "a variable of the module": ("def to_var(t):\n    return t.to(device)\n", "to_var(torch.ones(3))", "device"),
    "by its name": ("def to_var(t):\n    return t.to(device=device)\n", "to_var(t=torch.ones(3))", "device"),
    "a name in the function": (
        "def to_var(t):\n    where = torch.device('cuda', 0)\n    return t.to(where)\n",
        "to_var(torch.ones(3))",
        'torch.device("cuda", 0)',
    ),
    "under a condition": (
        "def to_var(t):\n    if use_cuda:\n        t = t.cuda()\n    return t\n",
        "to_var(torch.ones(3))",
        '"cuda" if use_cuda else "cpu"',
    ),
    "where it does not hold": (
        "def to_var(t):\n    if not use_cuda:\n        return t\n    return t.cuda()\n",
        "to_var(torch.ones(3))",
        '"cuda" if use_cuda else "cpu"',
    ),
    "where an option says so": (
        "def to_var(t, cpu):\n    if cpu:\n        return t\n    return t.cuda()\n",
        "to_var(torch.ones(3), use_cuda)",
        '"cpu" if use_cuda else "cuda"',
    ),
    "where two conditions hold": (
        "def to_var(t, k=0):\n    if use_cuda and k == 0:\n        t = t.cuda()\n    return t\n",
        "to_var(torch.ones(3))",
        "",
    ),
    "where two names are true": (
        "def to_var(t, cuda):\n    if cuda and torch.cuda.is_available():\n        t = t.cuda()\n    return t\n",
        "to_var(torch.ones(3), use_cuda)",
        '"cuda" if use_cuda and torch.cuda.is_available() else "cpu"',
    ),
    "where it is compared": (
        "def to_var(t, index):\n    if index != 'cpu':\n        t = t.cuda()\n    return t\n",
        "to_var(torch.ones(3), device)",
        '"cuda" if device != "cpu" else "cpu"',
    ),
    "one of two devices": (
        "def to_var(t):\n    return t.to('cuda' if use_cuda else 'cpu')\n",
        "to_var(torch.ones(3))",
        '"cuda" if use_cuda else "cpu"',
    ),
    "one of two devices, under a condition": (
        "def to_var(t):\n    if use_cuda:\n        t = t.to('cuda' if use_cuda else 'cpu')\n    return t\n",
        "to_var(torch.ones(3))",
        "",
    ),
    "an argument": ("def to_var(t, d):\n    return t.to(d)\n", "to_var(torch.ones(3), device)", "device"),
    "an attribute of an argument": (
        "def to_var(t, x):\n    return t.to(x.device)\n",
        "to_var(torch.ones(3), x)",
        "x.device",
    ),
    "an argument that is computed": ("def to_var(t, d):\n    return t.to(d)\n", "to_var(torch.ones(3), f())", ""),
    "its default": ("def to_var(t, d='cuda'):\n    return t.to(d)\n", "to_var(torch.ones(3))", '"cuda"'),
    "a default that the module has": (
        "def to_var(t, d=device):\n    return t.to(d)\n",
        "to_var(torch.ones(3))",
        "device",
    ),
    "a default that is computed": ("def to_var(t, d=f()):\n    return t.to(d)\n", "to_var(torch.ones(3))", ""),
    "an argument that the function changes": (
        "def to_var(t, d):\n    if t is None:\n        d = 'cpu'\n    return t.to(d)\n",
        "to_var(torch.ones(3), device)",
        "",
    ),
    "a switch that is on": (
        "def to_var(t, cuda=True):\n    if cuda:\n        t = t.cuda()\n    return t\n",
        "to_var(torch.ones(3))",
        '"cuda"',
    ),
    "what only the function computes": (
        "def to_var(t):\n    return t.to(torch.cuda.current_device())\n",
        "to_var(torch.ones(3))",
        "",
    ),
    "a name that means something else": (
        "def to_var(t):\n    return t.to(device)\n",
        "def run(device):\n    return to_var(torch.ones(3))\n\n\nrun(3)",
        "",
    ),
    "a name that means something else in a lambda": (
        "def to_var(t):\n    return t.to(device)\n",
        "run = lambda device: to_var(torch.ones(3))\nrun(3)",
        "",
    ),
    "a name of the function around both": (
        "def run(gpu):\n    def to_var(t):\n        return t.to(gpu)\n\n    return to_var(torch.ones(3))\n",
        "run(device)",
        "gpu",
    ),
    "a name of the function that makes the function": (
        "def make(gpu):\n    def to_var(t):\n        return t.to(gpu)\n\n    return to_var\n",
        "to_var = make(device)\nto_var(torch.ones(3))",
        "",
    ),
    "a text that needs more than quotes": (
        "def to_var(t):\n    return t.to('cu\\'da')\n",
        "to_var(torch.ones(3))",
        "",
    ),
}


@pytest.mark.parametrize(("helper", "call", "written"), WRITTEN.values(), ids=WRITTEN)
def test_the_device_is_written_as_it_reads_at_the_call(helper: str, call: str, written: str) -> None:
    found = handed(f"{helper}\n\n{call}\n")

    assert found.written == written
    assert ast.unparse(found.argument) == "torch.ones(3)"
    assert found.receiver is found.argument
    assert (found.why_not is None) == bool(written)


def test_a_condition_decides_whether_it_is_copied() -> None:
    copies = ["return t.cuda()", "return t.cuda() if use_cuda else t"]
    texts = [f"def to_var(t):\n    {each}\n\n\nto_var(torch.ones(3))\n" for each in copies]

    assert [handed(each).is_chosen for each in texts] == [False, True]


OBJECT = """\
class Trainer:
    def __init__(self):
        self.device = device

    def to_var(self, t):
        return t.to(self.ATTRIBUTE)

    @property
    def where(self):
        return self.device

    def train(self):
        return self.to_var(torch.ones(3))


Trainer().train()
"""


def test_a_method_asks_its_object() -> None:
    found = handed(OBJECT.replace("ATTRIBUTE", "device"))

    assert (found.written, [ast.unparse(each) for each in found.asked]) == ("self.device", ["self", "self.device"])


def test_what_a_method_computes_is_not_asked_twice() -> None:
    assert handed(OBJECT.replace("ATTRIBUTE", "where")).written == ""


def test_a_class_may_override_the_method() -> None:
    other = "\n\nclass Other(Trainer):\n    def to_var(self, t):\n        return t.cpu()\n\n\nOther().train()\n"
    found = handed(OBJECT.replace("ATTRIBUTE", "device") + other)

    assert found.why_not is not None
    assert found.why_not.text == "whether self.to_var() copies it is not known, as it may be several functions"


def test_what_the_object_of_another_name_has_is_asked_of_that() -> None:
    text = OBJECT.replace("ATTRIBUTE", "device").replace("Trainer().train()", "trainer = Trainer()")

    found = [each.written for each in handings(script(f"{HEAD}{text}trainer.to_var(torch.ones(3))\n"))]
    assert found == ["self.device", "trainer.device"]


def test_a_function_of_another_module_asks_what_libraries_say() -> None:
    tools = "import torch\n\nflag = True\n\n\ndef to_var(t):\n    if CONDITION:\n        t = t.cuda()\n    return t\n"
    text = "from tools import to_var\n\nto_var(torch.ones(3))\n"
    conditions = ["torch.cuda.is_available()", "flag"]

    found = [handed(text, tools=tools.replace("CONDITION", each)).written for each in conditions]
    assert found == ['"cuda" if torch.cuda.is_available() else "cpu"', ""]


LEFT = {
    "arguments that are not seen": (
        "def to_var(t, *more):\n    return t.to(device)\n\n\nto_var(torch.ones(3), *f())\n",
        "what to_var() is given is not all known",
    ),
    "more than a copy": (
        "def to_var(t):\n    print(t)\n    return t.to(device)\n\n\nto_var(torch.ones(3))\n",
        "to_var() does more than to copy it first (another line):",
    ),
    "one function calls another": (
        "def on(t):\n    return t.to(device)\n\n\ndef to_var(t):\n    return [on(t)]\n\n\nto_var(torch.ones(3))\n",
        "to_var() lets another function copy it (another line):",
    ),
    "one of two functions": (
        "def to_var(t):\n    return t.to(device)\n\n\nif use_cuda:\n    def to_var(t):\n        return t\n\n\n"
        "to_var(torch.ones(3))\n",
        "whether to_var() copies it is not known, as it may be several functions",
    ),
}


@pytest.mark.parametrize(("text", "because"), LEFT.values(), ids=LEFT)
def test_what_stands_against_it_is_told(text: str, because: str) -> None:
    (*_, found) = handings(script(HEAD + text))

    assert found.why_not is not None
    assert found.why_not.text.replace(HERE, "another line") == because


def test_what_is_never_copied_is_not_mentioned() -> None:
    helper = "def to_var(t, cuda=False):\n    if cuda:\n        t = t.cuda()\n    return t\n\n\nto_var(torch.ones(3))\n"

    assert not list(handings(script(HEAD + helper)))
