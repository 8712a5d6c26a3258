"""Which functions TorchScript may compile."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.models.scripted_code import may_be_scripted

TEXT = """
    import torch
    from torch import nn
    from torch.jit import script as compiled
    import other

    def helper(x):
        return x

    def train(x):
        return helper(x)

    class Layer(nn.Module):
        def call(self, x):
            return helper(x)

    class Plain:
        def run(self, x):
            return x

"""
EVERY = {"helper", "train", "call", "run"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("train(1)", set(), id="none without it"),
        pytest.param("@torch.jit.script\n    def f(x):\n        return x", {"f"}, id="one that is decorated"),
        pytest.param("@compiled\n    def f(x):\n        return helper(x)", {"f", "helper"}, id="what that calls"),
        pytest.param(
            "@torch.jit.script_if_tracing\n    def f(x):\n        return x", {"f"}, id="one in what is traced"
        ),
        pytest.param("compiled(train)", {"train", "helper"}, id="one that is given"),
        pytest.param("compiled(obj=helper)", {"helper"}, id="one that is given by name"),
        pytest.param("compiled(lambda x: helper(x))", {"helper", "<lambda>"}, id="a nameless one"),
        pytest.param("compiled(Plain().run)", {"run"}, id="a method"),
        pytest.param("compiled(Plain)", {"run"}, id="a class"),
        pytest.param(
            "@compiled\n    class Own:\n        def own(self):\n            return 1", {"own"}, id="one's own"
        ),
        pytest.param("compiled(Layer())", {"call", "helper"}, id="what a layer calls"),
        pytest.param("compiled(nn.Linear(1, 1))", {"call", "helper"}, id="any layer's, of a library's model"),
        pytest.param(
            "class Own(torch.jit.ScriptModule):\n        def own(self):\n            return 1",
            {"own", "call", "helper"},
            id="of a class that is compiled",
        ),
        pytest.param("isinstance(train, torch.jit.ScriptModule)", set(), id="none where the class is asked for"),
        pytest.param("compiled(torch.relu)", set(), id="none of the project"),
        pytest.param("compiled(other.things[0])", EVERY, id="all where it is not known what"),
        pytest.param("compiled(*other.things)", EVERY, id="all where arguments are not known"),
        pytest.param("list(map(compiled, other.things))", EVERY, id="all where it is handed on"),
        pytest.param(
            "def main(model):\n        compiled(model)\n        train(1)\n    def run_all():\n        main(other.things[0])\n"
            "    run_all()",
            EVERY,
            id="none that leads to where it is compiled",
        ),
        pytest.param(
            "def main(model):\n        def step(x):\n            return x\n        return compiled(model), step(1)\n"
            "    main(other.things[0])",
            {*EVERY, "step"},
            id="one that stands in such a function",
        ),
        pytest.param("torch.jit.trace(Layer(), 1)(1)", set(), id="none of what is traced"),
    ],
)
def test_the_functions_that_may_be_compiled(text: str, expected: set[str]) -> None:
    assert {getattr(each, "name", "<lambda>") for each in may_be_scripted(script(f"{TEXT}    {text}\n"))} == expected
