"""Can workers live on from one epoch to the next."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.workers.payload import worker_code
from codemods.facts.workers.persistence import draws_nothing, why_workers_end

HEAD = """\
import random
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
class Data(Dataset):
    def __init__(self):
        self.items = list(range(8))
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return self.items[index]
    def mix(self):
        random.shuffle(self.items)
data = Data()
"""
LOADER = "loader = DataLoader(data, num_workers=2)\n"
EPOCHS = "for epoch in range(3):\n    for x in loader:\n        pass\n"


FIT = "def fit(loader):\n    for epoch in range(3):\n        for x in loader:\n            pass\n"


FILLED = f"""\
{FIT}
class Held(Dataset):
    def __init__(self, x):
        self.x = x
    def __len__(self):
        return 9
    def __getitem__(self, index):
        return self.x[index]
kept = torch.zeros(9)
def make():
    {{}}
    return x
"""
BETWEEN = "loader = DataLoader(Held(make()), num_workers=2)\nfit(loader)\nmake()\nfit(loader)\n"


def why(body: str, **others: str) -> str | None:
    known = script(HEAD + body, **others)
    reason = why_workers_end(known, worker_code(known.flow, known.loaders[0]))
    return None if reason is None else reason.code


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(LOADER + EPOCHS, id="epochs"),
        pytest.param(f"{LOADER}for epoch in range(3):\n    y = [x for x in loader]\n", id="a comprehension"),
        pytest.param(f"{LOADER}data.mix()\n{EPOCHS}", id="the data set is changed before"),
        pytest.param(
            "for split in ['train', 'val']:\n    loader = DataLoader(data, num_workers=2)\n"
            "    for epoch in range(3):\n        for x in loader:\n            pass\n",
            id="one for each of two splits",
        ),
        pytest.param(
            "for split in ['train', 'val']:\n    data.items = [split]\n    loader = DataLoader(data, num_workers=2)\n"
            "    for epoch in range(3):\n        for x in loader:\n            pass\n",
            id="the data set is changed before each is made",
        ),
        pytest.param(
            f"class Pad:\n    def __call__(self, items):\n        return items[: self.n]\npad = Pad()\n"
            f"{LOADER.replace('=2', '=2, collate_fn=pad')}for n in [1, 2]:\n    pad.n = n\n{EPOCHS}",
            id="how items are put together is chosen before",
        ),
        pytest.param(f"{LOADER}{FIT}data.items = [1]\nfit(loader)\nfit(loader)\n", id="it is changed before all"),
        pytest.param(f"{LOADER}{FIT}fit(loader)\nfit(loader)\ndata.items = [1]\n", id="it is changed after all"),
        pytest.param(
            f"{LOADER}{FIT}fit(loader)\ndata.items = [1]\nfit(DataLoader(data, num_workers=2))\n",
            id="it is changed for another loader",
        ),
        pytest.param(f"{LOADER}first = next(iter(loader))\n{EPOCHS}", id="the first batch before"),
        pytest.param(FILLED.format("x = torch.zeros(9)\n    x[0] = 1") + BETWEEN, id="a function fills what it makes"),
    ],
)
def test_they_can(body: str) -> None:
    assert why(body) is None


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(
            "for epoch in range(3):\n    loader = DataLoader(data, num_workers=2)\n    for x in loader:\n        pass\n",
            "made-in-loop",
            id="it is made in each epoch",
        ),
        pytest.param(
            LOADER.replace("=2", "=2, worker_init_fn=seed") + EPOCHS, "own-worker-init", id="a function at their start"
        ),
        pytest.param(
            f"{LOADER}for epoch in range(3):\n    data.mix()\n    for x in loader:\n        pass\n",
            "dataset-changes",
            id="the order changes between epochs",
        ),
        pytest.param(
            f"class Pad:\n    def __call__(self, items):\n        return items[: self.n]\npad = Pad()\n"
            f"{LOADER.replace('=2', '=2, collate_fn=pad')}"
            "for epoch in range(3):\n    pad.n = epoch\n    for x in loader:\n        pass\n",
            "dataset-changes",
            id="how items are put together changes between epochs",
        ),
        pytest.param(
            f"{LOADER}{FIT}fit(loader)\ndata.items = [1]\nfit(loader)\n",
            "dataset-changes",
            id="an attribute changes between two trainings",
        ),
        pytest.param(
            f"{LOADER}{FIT}def grow():\n    data.items = [1]\n"
            "def main():\n    fit(loader)\n    grow()\n    fit(loader)\nmain()\n",
            "dataset-changes",
            id="a function changes it between two trainings",
        ),
        pytest.param(
            f"{LOADER}for epoch in range(3):\n    data.items = [epoch]\n    for x in loader:\n        pass\n",
            "dataset-changes",
            id="an attribute changes between epochs",
        ),
        pytest.param(
            FILLED.format(
                "x = torch.zeros(9)\n    loader = DataLoader(Held(x), num_workers=2)\n"
                "    fit(loader)\n    x[0] = 1\n    fit(loader)"
            )
            + "make()\n",
            "dataset-changes",
            id="a function fills what it has made a loader of",
        ),
        pytest.param(
            FILLED.format("x = torch.as_tensor(kept)\n    x[0] = 1") + BETWEEN,
            "dataset-changes",
            id="what a function makes may be in the memory of another",
        ),
        pytest.param(
            f"{LOADER}for x in loader:\n    for y in loader:\n        pass\n",
            "read-at-once",
            id="one reading in another",
        ),
        pytest.param(f"{LOADER}for x, y in zip(loader, loader):\n    pass\n", "read-at-once", id="twice at once"),
        pytest.param(
            f"{LOADER}import library\nfor epoch in range(3):\n    library.fit(loader)\n",
            "unknown-reading",
            id="code that is not followed",
        ),
        pytest.param(
            "loader = DataLoader(make(), num_workers=2)\n" + EPOCHS,
            "unknown-dataset",
            id="a data set that is not known",
        ),
    ],
)
def test_they_end(body: str, code: str) -> None:
    assert why(body) == code


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(LOADER + EPOCHS, True, id="nothing"),
        pytest.param(LOADER.replace("=2", "=2, shuffle=True") + EPOCHS, False, id="it shuffles"),
        pytest.param(LOADER.replace("=2", "=2, shuffle=False") + EPOCHS, True, id="it does not"),
        pytest.param(f"{LOADER}{EPOCHS}    z = torch.rand(3)\n", False, id="the script draws"),
        pytest.param(f"{LOADER}net = nn.Linear(3, 3)\n{EPOCHS}", True, id="a layer"),
        pytest.param(f"{LOADER}net = nn.Sequential(nn.Dropout())\n{EPOCHS}", False, id="a layer that drops out"),
        pytest.param("loader = DataLoader(make())\n" + EPOCHS, False, id="a data set that is not known"),
    ],
)
def test_whether_anything_draws_between_epochs(body: str, expected: bool) -> None:  # noqa: FBT001 - the expectation
    known = script(HEAD + body)

    assert draws_nothing(known, [worker_code(known.flow, each) for each in known.loaders]) is expected
