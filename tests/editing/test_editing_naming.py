"""How a name of a library is written at a place, with the import that it needs."""

from __future__ import annotations

import ast

import pytest

from codemods.dataflow.source import Module
from codemods.editing.naming import all_written, names_of_loader, taken_names, written
from codemods.editing.values import ImportName
from codemods.facts.script import Script

LOADER = "torch.utils.data.DataLoader"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("from torch.utils.data import DataLoader\n", ("DataLoader", False), id="it is imported"),
        pytest.param("from torch.utils.data import DataLoader as Own\n", ("Own", False), id="by another name"),
        pytest.param(
            "from torch.utils.data import Dataset\n", ("DataLoader", True), id="another one of its package is"
        ),
        pytest.param("import torch\n", ("DataLoader", True), id="only torch is, and the whole name is long"),
        pytest.param(
            "from torch.utils import data\n", ("data.DataLoader", False), id="its package is, by a short name"
        ),
        pytest.param(
            "import torch\nfrom torch.utils.data import Dataset\n", ("DataLoader", True), id="torch and another one are"
        ),
        pytest.param("import os\n", ("DataLoader", True), id="nothing of it is"),
        pytest.param("import os\nDataLoader = 1\n", None, id="the name is something else's"),
        pytest.param("import torch\nDataLoader = 1\n", (LOADER, False), id="the name is, and torch is there"),
    ],
)
def test_how_a_name_is_written(text: str, expected: tuple[str, bool] | None) -> None:
    module = Module("train.py", f"{text}here\n")
    (here,) = [each for each in module.nodes(ast.Name) if each.id == "here"]
    found = written(Script.of(module), module, LOADER, here)

    assert (found and (found[0], bool(found[1]))) == expected
    if found is not None and found[1]:
        assert found[1] == (ImportName(module, "torch.utils.data", "DataLoader"),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "from torch.utils.data import Dataset, DataLoader as Own\n",
            (["Own", "Subset"], ["Subset"]),
            id="both can be",
        ),
        pytest.param("import os\nSubset = 1\n", None, id="one of them cannot be"),
    ],
)
def test_how_several_names_are_written(text: str, expected: tuple[list[str], list[str]] | None) -> None:
    module = Module("train.py", f"{text}here\n")
    (here,) = [each for each in module.nodes(ast.Name) if each.id == "here"]
    found = all_written(Script.of(module), module, (LOADER, "torch.utils.data.Subset"), here)

    imported = expected and [ImportName(module, "torch.utils.data", each) for each in expected[1]]
    assert found == (expected and (expected[0], imported))


def test_which_names_are_taken() -> None:
    text = "import a.b as c\nfrom d import e\nclass F: pass\nasync def g(h): i.j = k(l=m)\n"
    assert taken_names(Module("train.py", text)) == set("cefghijklm") - {"f"} | {"F"}


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ("train_set", "train_loader"),
        ("trainset", "trainloader"),
        ("test_dataset", "test_loader"),
        ("data", "loader"),
        ("digits", "digits_loader"),
        ("self.train_set", "loader"),
    ],
)
def test_what_a_loader_is_called_after_its_data(data: str, name: str) -> None:
    assert names_of_loader(ast.parse(data, mode="eval").body)[0] == name


def test_a_loader_of_data_without_a_name_is_called_so() -> None:
    assert names_of_loader(None) == ["loader", "loader", "data_loader"]
