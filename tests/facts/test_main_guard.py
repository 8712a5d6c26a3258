"""What has to stand under the main guard."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.workers.main_guard import Unguarded, unguarded
from codemods.facts.workers.payload import worker_code

HEAD = """\
import torch
from torch.utils.data import DataLoader, Dataset
"""
DATA = """\
class Data(Dataset):
    def __len__(self):
        return SIZE
    def __getitem__(self, index):
        return index
"""


def guard(body: str, **others: str) -> Unguarded | None:
    known = script(HEAD + body, **others)
    codes = [worker_code(known.flow, each) for each in known.loaders]
    return unguarded(known, known.loaders[0], codes)


def parts(body: str) -> list[list[str]]:
    found = guard(body)
    assert found is not None
    assert found.why_not is None
    return [[ast.unparse(each).split("\n")[0] for each in part] for part in found.parts]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            "loader = DataLoader([1])\nif __name__ == '__main__':\n    for x in loader:\n        pass\n",
            id="it is there",
        ),
        pytest.param("def main():\n    for x in DataLoader([1]):\n        pass\n", id="nobody calls it here"),
        pytest.param(
            "def main():\n    for x in DataLoader([1]):\n        pass\nif __name__ == '__main__':\n    main()\n",
            id="a function that the guard calls",
        ),
        pytest.param("loader = DataLoader([1])\n", id="nobody reads it"),
    ],
)
def test_importing_the_script_reads_no_loader(body: str) -> None:
    assert guard(body) is None


def test_the_statements_that_run() -> None:
    body = "SIZE = 8\nloader = DataLoader([1])\nfor x in loader:\n    print(x)\nprint('done')\n"

    assert parts(body) == [["loader = DataLoader([1])", "for x in loader:", "print('done')"]] or parts(body) == [
        ["SIZE = 8", "loader = DataLoader([1])", "for x in loader:", "print('done')"]
    ]


def test_definitions_and_what_workers_read_stay_outside() -> None:
    found = parts(f"SIZE = 8\n{DATA}loader = DataLoader(Data())\nfor x in loader:\n    print(x)\n")

    assert found == [["loader = DataLoader(Data())", "for x in loader:"]]


def test_a_call_that_leads_to_the_reading() -> None:
    found = parts("def main():\n    for x in DataLoader([1]):\n        pass\nmain()\n")

    assert found == [["main()"]]


def test_a_definition_between_splits_what_runs() -> None:
    found = parts("for x in DataLoader([1]):\n    print(x)\ndef late():\n    pass\nlate()\n")

    assert found == [["for x in DataLoader([1]):"], ["late()"]]


def test_another_module_reads_it_when_it_is_imported() -> None:
    found = guard(
        "import steps\nloader = DataLoader([1])\nsteps.run(loader)\n",
        steps="def run(loader):\n    for x in loader:\n        pass\n",
    )

    assert found is not None
    assert [ast.unparse(each) for each in found.where.nodes] == ["steps.run(loader)"]


def test_a_script_that_gives_its_own_loader_to_the_same_function_is_no_obstacle() -> None:
    known = script(
        f"{HEAD}import steps\ndef main():\n    steps.run(DataLoader([1]))\nif __name__ == '__main__':\n    main()\n",
        steps="def run(loader):\n    for x in loader:\n        pass\n",
        tune="import steps\nfrom torch.utils.data import DataLoader\nsteps.run(DataLoader([2]))\n",
    )
    loader = next(each for each in known.loaders if each.module is known.module)

    assert unguarded(known, loader, [worker_code(known.flow, loader)]) is None
