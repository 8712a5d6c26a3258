"""Where would a colleague set a switch of torch's that holds for the whole script."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.editing.imports import can_import
from codemods.facts.switches import following, is_repeated, place_of_switch, starts_processes

FLAG = "torch.backends.cudnn.benchmark"
LIBRARY = "model = Linear(3)\n"
MODEL = "model = torch.nn.Linear(3, 3)\n"


def place(text: str, **others: str) -> tuple[str, str, str] | None:
    """After which statement the flag goes for the model, how it is written there, and what stands before it."""
    known = script(text, **others)
    sites = [each for each in known.module.nodes(ast.Call) if ast.unparse(each.func).endswith("Linear")]
    found = place_of_switch(known, sites, FLAG, can_import)
    return None if found is None else (ast.unparse(found.anchor).split("\n")[0], found.name, found.lead)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(f"import torch\nimport os\n\n{MODEL}", ("import os", FLAG, "\n"), id="below the imports"),
        pytest.param(
            f"import torch as th\nfrom torch import nn\n{MODEL.replace('torch', 'th')}",
            ("from torch import nn", "th.backends.cudnn.benchmark", "\n"),
            id="as the script writes it",
        ),
        pytest.param(
            f"import torch\nprint(1)\ntorch.manual_seed(0)\n{MODEL}",
            ("torch.manual_seed(0)", FLAG, ""),
            id="below a seed",
        ),
        pytest.param(
            f"import random, torch\nrandom.seed(0)\ntorch.manual_seed(0)\nprint(1)\n{MODEL}",
            ("torch.manual_seed(0)", FLAG, ""),
            id="below the last seed",
        ),
        pytest.param(
            f"import torch\ndef settle():\n    torch.manual_seed(0)\nsettle()\n{MODEL}",
            ("settle()", FLAG, ""),
            id="below a function that seeds",
        ),
        pytest.param(
            f"import torch\nfor i in range(3):\n    torch.manual_seed(i)\n{MODEL}",
            ("import torch", FLAG, "\n"),
            id="not in a loop",
        ),
        pytest.param(
            f"import torch\ndef main():\n    device = torch.device('cuda')\n    print(device)\n    {MODEL}main()\n",
            ("device = torch.device('cuda')", FLAG, ""),
            id="where main finds its device",
        ),
        pytest.param(
            f"import torch\ntorch.manual_seed(0)\nimport torch.multiprocessing as mp\nmp.spawn(f)\n{MODEL}",
            ("import torch.multiprocessing as mp", FLAG, "\n"),
            id="below the imports, which new processes run",
        ),
    ],
)
def test_where_it_goes(text: str, expected: tuple[str, str, str]) -> None:
    assert place(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"from library import Linear, torch\n{LIBRARY}", id="torch is something else"),
        pytest.param(f"from library import *\nprint(torch)\n{LIBRARY}", id="a star import may bring torch"),
        pytest.param(f"import library\ndef main(torch):\n    {LIBRARY}main(3)\n", id="a parameter has the name"),
        pytest.param(f"def Linear(n):\n    return n\n{LIBRARY}", id="no imports to go below"),
        pytest.param(
            "import library\nmodel = library.Linear(3)\nfrom torch import nn\nprint(nn)\n",
            id="torch is imported below the model",
        ),
    ],
)
def test_it_cannot_be_named_before_the_model(text: str) -> None:
    assert place(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            f"from torch.nn import Linear\nimport os\n\nLIMIT = 3\n{LIBRARY}", "import os", id="below the imports"
        ),
        pytest.param(f"import random\nrandom.seed(0)\n{LIBRARY}", "random.seed(0)", id="below a seed"),
        pytest.param(
            f"import os\nos.environ['X'] = '1'\nfrom torch.nn import Linear\n{LIBRARY}",
            "from torch.nn import Linear",
            id="below where torch will be imported",
        ),
    ],
)
def test_torch_may_have_to_be_imported(text: str, expected: str) -> None:
    known = script(text)
    sites = [each for each in known.module.nodes(ast.Call) if ast.unparse(each.func).endswith("Linear")]
    found = place_of_switch(known, sites, FLAG, can_import)

    assert found is not None
    assert (ast.unparse(found.anchor), found.name, found.needs_import) == (expected, FLAG, True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch.multiprocessing as mp\nmp.spawn(f)", True),
        ("import torch\nprint(torch)", False),
    ],
)
def test_whether_it_trains_in_processes_of_its_own(text: str, expected: bool) -> None:  # noqa: FBT001 - expected
    assert starts_processes(script(text)) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("MARK", False),
        ("for i in x:\n    MARK", True),
        ("while x:\n    if y:\n        MARK", True),
        ("for i in x:\n    def f():\n        MARK", False),
    ],
)
def test_whether_a_statement_is_repeated(text: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    module = script(text).module
    (mark,) = [each for each in module.nodes(ast.Expr) if ast.unparse(each) == "MARK"]

    assert is_repeated(module, mark) is expected


def test_the_statement_before_which_it_stands() -> None:
    module = script("a\nb\n").module
    first, last = module.tree.body

    assert (following(module, first), following(module, last)) == (last, last)
