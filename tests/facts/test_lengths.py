"""How long are data sets and loaders, and how often does code run."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.cost.constants import Constants
from codemods.facts.cost.lengths import Lengths

HEAD = """\
import torch
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset
from torchvision import datasets, transforms as T
class Rows(Dataset):
    def __len__(self):
        return 100
class Files(Dataset):
    def __init__(self, root):
        self.files = list_files(root)
    def __len__(self):
        return len(self.files)
"""


@pytest.mark.parametrize(
    ("data", "options", "batches"),
    [
        ("Rows()", "batch_size=10", 10),
        ("Rows()", "batch_size=30", 4),
        ("Rows()", "batch_size=30, drop_last=True", 3),
        ("Rows()", "", 100),
        ("TensorDataset(torch.zeros(64, 3))", "batch_size=16", 4),
        ("Subset(Rows(), range(20))", "batch_size=10", 10),
        ("Rows() + TensorDataset(torch.zeros(64, 3))", "batch_size=41", 4),
        ("Rows() + Files('d')", "batch_size=10", None),
        ("datasets.MNIST('d')", "batch_size=1000", 60),
        ("datasets.CIFAR10('d', False)", "batch_size=1000", 10),
        ("datasets.EMNIST('d', 'digits')", "batch_size=1000", 240),
        ("datasets.EMNIST('d', split='digits', train=False)", "batch_size=1000", 40),
        ("datasets.EMNIST('d', choose())", "batch_size=1000", None),
        ("datasets.QMNIST('d', 'test10k')", "batch_size=1000", 10),
        ("datasets.QMNIST('d', None, True, False)", "batch_size=1000", 60),
        ("datasets.SVHN('d')", "batch_size=73257", 1),
        ("datasets.SVHN('d', 'test')", "batch_size=26032", 1),
        ("datasets.SVHN('d', choose())", "batch_size=1000", None),
        ("Files('d')", "batch_size=10", None),
        ("Rows()", "batch_sampler=own", None),
        ("Rows()", "batch_size=choose()", None),
        ("Rows()", "sampler=own", None),
    ],
)
def test_the_batches_of_a_loader_at_the_most(data: str, options: str, batches: int | None) -> None:
    known = script(f"{HEAD}loader = DataLoader({data}, {options})\n")
    (loader,) = known.loaders
    found = Lengths(known, Constants(known))

    assert found.batches(loader) == batches


@pytest.mark.parametrize(
    ("body", "times"),
    [
        pytest.param("MARK", 1, id="once"),
        pytest.param("for i in range(5):\n    MARK", 5, id="a loop"),
        pytest.param("for i in range(5):\n    for j in [1, 2]:\n        MARK", 10, id="two loops"),
        pytest.param("def f():\n    MARK\nf()\nf()", 2, id="two calls"),
        pytest.param("def f():\n    MARK\nfor i in range(3):\n    f()", 3, id="calls in a loop"),
        pytest.param("while True:\n    MARK", None, id="a loop without an end"),
        pytest.param("x = 1 if unknown else MARK", 1, id="what an expression chooses"),
        pytest.param("for x in unknown:\n    MARK", None, id="a loop over what is not known"),
        pytest.param("def f():\n    MARK\nlibrary(f)", None, id="a library may call it"),
    ],
)
def test_how_often_code_runs(body: str, times: int | None) -> None:
    known = script(HEAD + body)
    found = Lengths(known, Constants(known))
    (mark,) = [each for each in known.module.nodes(ast.Name) if each.id == "MARK"]

    assert found.times(known.module, mark) == times


def test_the_images_of_a_data_set() -> None:
    known = script(f"""{HEAD}
DataLoader(datasets.MNIST("d", transform=T.ToTensor()))
DataLoader(datasets.ImageFolder("d", T.Compose([T.Resize((32, 48)), T.ToTensor()])))
DataLoader(datasets.ImageFolder("d", T.ToTensor()))
""")
    found = Lengths(known, Constants(known))

    assert [found.image(each.dataset) for each in known.loaders] == [(1, 28, 28), (3, 32, 48), None]


def test_the_loaders_that_a_loop_reads() -> None:
    known = script(
        f"{HEAD}loader = DataLoader(Rows())\nfor x in loader:\n    for y in x:\n        print(y)\nfor i in [1]:\n    pass\n"
    )
    found = Lengths(known, Constants(known))
    outer, inner, other = sorted(known.module.nodes(ast.For), key=lambda each: each.lineno)

    assert [list(found.loaders(known.module, each)) for each in (outer, inner, other)] == [
        [known.loaders[0]],
        [known.loaders[0]],
        [],
    ]


@pytest.mark.parametrize(
    ("before", "items"),
    [
        pytest.param("data = " + 6 * "Subset(" + "Rows()" + 6 * ", range(20))", 100, id="however often it is wrapped"),
        pytest.param("data = Rows()\nfor _ in range(3):\n    data = Subset(data, chosen)", None, id="made of itself"),
    ],
)
def test_the_length_of_a_part_of_a_part(before: str, items: int | None) -> None:
    known = script(f"{HEAD}{before}\nloader = DataLoader(data, batch_size=1)\n")
    given = known.module.tree.body[-1].value.args[0]  # type: ignore[attr-defined]

    assert Lengths(known, Constants(known)).items(known.flow.values(given)) == items
