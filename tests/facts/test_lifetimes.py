"""What may still refer to an object when the script ends."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.lifetimes import holder

HEAD = """\
import torch
from torch.utils.data import DataLoader
class Trainer:
    def __init__(self, loader):
        self.loader = loader
    def run(self):
        for x in self.loader:
            pass
"""


def held(body: str, **others: str) -> tuple[str, bool] | None:
    """What refers to the loader, and whether that is certain."""
    known = script(HEAD + body, **others)
    found = holder(known.flow, known.loaders[0].value)
    return None if found is None else (found.name, found.is_certain)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            "def main():\n    loader = DataLoader([1])\n    for x in loader:\n        pass\nmain()\n", id="a local"
        ),
        pytest.param("for x in DataLoader([1]):\n    pass\n", id="no name"),
        pytest.param("def main():\n    Trainer(DataLoader([1])).run()\nmain()\n", id="an object that is a local"),
        pytest.param(
            "def main():\n    loaders = [DataLoader([1])]\n    return len(loaders)\nmain()\n", id="a local list"
        ),
        pytest.param("def main():\n    print(len(DataLoader([1])))\nmain()\n", id="what only looks at it"),
    ],
)
def test_nothing_refers_to_it(body: str) -> None:
    assert held(body) is None


@pytest.mark.parametrize(
    ("body", "name"),
    [
        pytest.param("loader = DataLoader([1])\n", "loader", id="a name of the module"),
        pytest.param("trainer = Trainer(DataLoader([1]))\n", "trainer", id="an object that has such a name"),
        pytest.param(
            "def main():\n    global loader\n    loader = DataLoader([1])\nmain()\n", "loader", id="a global name"
        ),
        pytest.param("loaders = {}\ndef main():\n    loaders['a'] = DataLoader([1])\nmain()\n", "loaders", id="a dict"),
        pytest.param("def main():\n    return DataLoader([1])\nkept = main()\n", "kept", id="what a function returns"),
    ],
)
def test_what_still_refers_to_it(body: str, name: str) -> None:
    assert held(body) == (name, True)


def test_code_that_is_not_followed_may() -> None:
    found = held("import library\ndef main():\n    library.fit(DataLoader([1]))\nmain()\n")

    assert found is not None
    assert not found[1]


def test_another_module_may() -> None:
    found = held(
        "import store\ndef main():\n    store.keep(DataLoader([1]))\nmain()\n",
        store="kept = []\ndef keep(x):\n    kept.append(x)\n",
    )

    assert found == ("kept", True)
