"""Whether TorchScript runs where the user gives no options, and what is said of the option that chooses it."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.precision.scripted_choice import scripted_by_default

LAYERS = """
    import torch
    from torch import nn
    class Gated(torch.jit.ScriptModule):
        scale = 2
        @torch.jit.script_method
        def forward(self, x):
            return x * Gated.scale
    class Plain(nn.Module):
        def forward(self, x):
            return x
    def gated():
        return Gated()
    def wide():
        return Gated()
"""
START = """
    import argparse
    import torch
    import layers
    parser = argparse.ArgumentParser()
    parser.add_argument("--net", default="plain")
    parser.add_argument("--other", required=True)
    args = parser.parse_args()
    from layers import Gated, Plain, gated
"""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("net = gated() if args.net == 'gated' else Plain()", id="the default is another network"),
        pytest.param("net = Gated() if args.net == 'gated' else Plain()", id="the class itself is chosen"),
        pytest.param("net = layers.Gated() if args.net == 'gated' else Plain()", id="as an attribute of its module"),
        pytest.param("net = Plain() if args.net == 'plain' else gated()", id="all others have it"),
        pytest.param(
            "if args.net == 'gated':\n        net = Gated()\n    if args.net == 'two':\n        net = gated()",
            id="two choices have it",
        ),
        pytest.param(
            "make = getattr(torch.optim, args.other)\n    net = gated() if args.net == 'gated' else Plain()",
            id="what a library has is taken by its name",
        ),
    ],
)
def test_an_option_that_is_off_by_default_leads_to_it(text: str) -> None:
    assert scripted_by_default(script(f"{START}    {text}\n", layers=LAYERS)) is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("net = Gated()", id="it is always made"),
        pytest.param("net = (gated() if args.net == 'gated' else Plain()), gated()", id="it is made elsewhere, too"),
        pytest.param("net = {'gated': Gated, 'plain': Plain}[args.net]()", id="a table has it"),
        pytest.param("net = getattr(layers, args.net)()", id="it may be what is taken by its name"),
        pytest.param("net = layers.__dict__[args.net]()", id="it may be what a dictionary has"),
        pytest.param("net = globals()[args.net]()", id="it may be what the module has"),
        pytest.param("import importlib\n    net = importlib.import_module(args.net).make()", id="it may be imported"),
        pytest.param(
            "from layers import Gated as Own\n    net = Own()\n    if args.net == 'gated':\n        net = Gated()",
            id="it has another name",
        ),
        pytest.param(
            "class More(Gated):\n        pass\n    net = More()\n    if args.net == 'gated':\n        net = Gated()",
            id="another class derives from it",
        ),
        pytest.param(
            "double = torch.jit.script(Plain())\n    if args.net == 'gated':\n        net = double(1)",
            id="a call makes it",
        ),
        pytest.param(
            "keep = print\n    @keep\n    @torch.jit.script\n    def double(x):\n        return x\n"
            "    if args.net == 'gated':\n        double(1)",
            id="something else is given it",
        ),
        pytest.param("net = Plain()", id="nothing is seen to use it"),
    ],
)
def test_it_may_run_without_options(text: str) -> None:
    reason = scripted_by_default(script(f"{START}    {text}\n", layers=LAYERS))

    assert reason is not None
    assert reason.code == "torchscript"
    assert "chooses it" not in reason.text


@pytest.mark.parametrize(
    "test",
    [
        pytest.param("args.other == 'gated'", id="an option that is required"),
        pytest.param("args.net == 'plain'", id="an option whose default it is"),
    ],
)
def test_the_option_that_alone_leads_to_it_is_named(test: str) -> None:
    text = f"{START}    net = gated() if {test} else Plain()\n"
    reason = scripted_by_default(script(text, layers=LAYERS))

    assert reason is not None
    assert f"and {test} chooses it" in reason.text
    assert [each.module.name for each in reason.places] == ["layers", "__main__"]


def test_nothing_is_said_where_nothing_is_scripted() -> None:
    assert scripted_by_default(script("import torch\nnet = torch.nn.Linear(1, 1)\n")) is None
