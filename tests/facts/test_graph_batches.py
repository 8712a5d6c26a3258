"""What batches of graphs tell of themselves."""

import ast

import pytest
from probe import script

from codemods.facts.data.graph_batches import is_count

HEAD = """\
import torch
from torch_geometric.loader import DataLoader

loader = DataLoader(data, batch_size=8)
"""


@pytest.mark.parametrize(
    ("head", "expression", "expected"),
    [
        pytest.param(HEAD, "batch.num_graphs", True, id="how many graphs a batch has"),
        pytest.param(HEAD.replace(".loader", ".data"), "batch.num_graphs", True, id="under the loader's old name"),
        pytest.param(HEAD, "batch.y", False, id="what may be a tensor"),
        pytest.param(HEAD, "num_graphs", False, id="a name"),
        pytest.param("import torch\n", "batch.num_graphs", False, id="without the library"),
        pytest.param(f"{HEAD}data.num_graphs = total\n", "batch.num_graphs", False, id="an attribute that is set"),
        pytest.param(f"{HEAD}setattr(data, 'num_graphs', 1)\n", "batch.num_graphs", False, id="one set by its name"),
        pytest.param(
            f"{HEAD}class Data:\n    def num_graphs(self):\n        return total\n",
            "batch.num_graphs",
            False,
            id="a method",
        ),
        pytest.param(f"{HEAD}class Data:\n    num_graphs = total\n", "batch.num_graphs", False, id="one of a class"),
    ],
)
def test_numbers_that_a_batch_of_graphs_tells(head: str, expression: str, *, expected: bool) -> None:
    known = script(f"{head}for batch in loader:\n    answer = {expression}\n")
    answer = next(each for each in known.module.nodes(ast.Assign) if ast.unparse(each.targets[0]) == "answer")

    assert is_count(known.flow, answer.value) is expected
