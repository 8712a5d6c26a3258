"""Which loaders loops build anew, and what could go above the loop."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.data.rebuilding import Once, build_once, rebuilt
from codemods.facts.reason import Reason

TOP = """\
import torch
from torch.utils.data import DataLoader, TensorDataset
from torchvision import datasets
data = TensorDataset(torch.arange(9))
"""
READ = "    for x in loader:\n        print(x)\n"


def test_statements_are_found_where_the_loop_stands() -> None:
    found = script(
        "from torch.utils.data import DataLoader\nfrom data import build, data\n"
        f"for epoch in range(3):\n    loader = build(data)\n{READ}",
        data="import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n"
        "data = TensorDataset(torch.arange(9))\ndef build(data):\n    return DataLoader(data, 3)\n",
    )
    (one,) = rebuilt(found)

    assert one.module is found.module
    assert one.names_them
    assert one.first.module is not found.module
    once = build_once(found, one)
    assert isinstance(once, Once)
    assert [ast.unparse(each) for each in once.statements] == ["loader = build(data)"]


def test_a_loader_may_be_chosen_by_an_expression() -> None:
    text = f"{TOP}for epoch in range(3):\n    loader = DataLoader(data, 3) if epoch else DataLoader(data, 2)\n{READ}"
    asked = script(text)
    (one,) = rebuilt(asked)
    assert isinstance(build_once(asked, one), Reason)


def test_two_loaders_of_one_statement_are_one() -> None:
    found = script(
        f"{TOP}for epoch in range(3):\n    loader, other = DataLoader(data, 2), DataLoader(data, 3)\n{READ}"
        "    for x in other:\n        print(x)\n"
    )
    (one,) = rebuilt(found)
    assert len(one.loaders) == 2


@pytest.mark.parametrize(
    ("loop", "reads"),
    [
        ("while True:", True),
        ("while 1 < 2:", None),
        ("for epoch in range(3):", True),
        ("for epoch in range(0):", None),
        ("for epoch in range(5, 5):", None),
        ("for epoch in range(5, 1, -1):", True),
        ("for epoch in [1, 2]:", None),
        ("for epoch in range(torch.get_num_threads()):", None),
    ],
)
def test_files_are_read_before_a_loop_that_surely_has_a_pass(loop: str, reads: bool | None) -> None:  # noqa: FBT001
    found = script(f"{TOP}{loop}\n    train = datasets.MNIST('data')\n    loader = DataLoader(train, 8)\n{READ}")
    (one,) = rebuilt(found)
    once = build_once(found, one)

    assert (once.reads_files if isinstance(once, Once) else None) is reads


@pytest.mark.parametrize(
    ("code", "count"),
    [
        pytest.param(f"loader = DataLoader(data, 3)\nfor epoch in range(3):\n{READ}", 0, id="built once"),
        pytest.param(f"for epoch in range(3):\n    loader = DataLoader(data, 3)\n{READ}", 1, id="built in each epoch"),
        pytest.param(
            f"def fit(epoch):\n    loader = DataLoader(data, 3)\n{READ}for epoch in range(3):\n    fit(epoch)\n",
            1,
            id="built by a function that a loop calls",
        ),
        pytest.param(
            "for run in range(3):\n    loader = DataLoader(data, 3)\n    for epoch in range(3):\n"
            "        for x in loader:\n            print(x)\n",
            0,
            id="built once for several epochs",
        ),
        pytest.param(
            "done = False\nfor epoch in range(3):\n    if epoch > 1 and not done:\n"
            "        loader = DataLoader(data, 3)\n        done = True\n        for x in loader:\n"
            "            print(x)\n",
            0,
            id="built in one pass alone",
        ),
    ],
)
def test_loaders_that_are_built_anew(code: str, count: int) -> None:
    assert len(list(rebuilt(script(TOP + code)))) == count


@pytest.mark.parametrize("does", ["self.order = torch.randperm(9)", "torch.rand(1)"])
def test_a_data_set_that_is_changed_where_its_length_is_asked_for_is_left(does: str) -> None:
    found = script(
        f"{TOP}class Own(torch.utils.data.Dataset):\n    def __len__(self):\n        {does}\n        return 9\n"
        "    def __getitem__(self, index):\n        return index\n"
        f"own = Own()\nfor epoch in range(3):\n    loader = DataLoader(own, 3, shuffle=True)\n{READ}"
    )
    (one,) = rebuilt(found)
    reason = build_once(found, one)

    assert isinstance(reason, Reason)
    assert reason.code == "dataset-changes"


def test_a_loader_of_unknown_arguments_is_left() -> None:
    found = script(f"{TOP}import some\nfor epoch in range(3):\n    loader = DataLoader(data, **some.thing())\n{READ}")
    (one,) = rebuilt(found)
    reason = build_once(found, one)

    assert isinstance(reason, Reason)
    assert reason.code == "unknown-arguments"
