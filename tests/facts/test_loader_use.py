"""How the training uses a loader."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.data.loader_use import (
    is_prepared,
    why_not_cuda,
    why_not_in_epochs,
    why_one_batch,
    why_reading_is_unknown,
    with_all_moves,
)

HEAD = "import torch\nfrom torch.utils.data import DataLoader\nloader = DataLoader(torch.zeros(8, 3), 4)\n"
ACCELERATED = "from accelerate import Accelerator\naccelerator = Accelerator()\nloader = accelerator.prepare(loader)\n"


def asked(text: str, ask: object) -> object:
    """What a question about the only loader of the script comes to: a code, for a reason."""
    known = script(HEAD + text)
    (loader,) = known.loaders
    found = ask(known, loader)  # type: ignore[operator]
    return getattr(found, "code", found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("for x in loader:\n    pass", None, id="a loop reads it"),
        pytest.param("next(iter(loader))", None, id="its first batch is read"),
        pytest.param("train(loader)", "unknown-reading", id="code that is not followed may read it"),
        pytest.param("pass", "unknown-reading", id="nothing reads it"),
        pytest.param(
            "import pytorch_lightning as pl\nclass Net(pl.LightningModule):\n    pass\npl.Trainer().fit(Net())",
            "framework",
            id="a framework may read it",
        ),
    ],
)
def test_whether_all_is_seen_that_reads_it(text: str, expected: str | None) -> None:
    assert asked(text, why_reading_is_unknown) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("for epoch in range(3):\n    for x in loader:\n        pass", None, id="in each epoch"),
        pytest.param(
            "def train():\n    for x in loader:\n        pass\nfor epoch in range(3):\n    train()",
            None,
            id="in a function that each epoch calls",
        ),
        pytest.param("for x in loader:\n    pass", "read-once", id="once"),
        pytest.param("for x in loader:\n    pass\nfor x in loader:\n    pass", "read-once", id="twice, without a loop"),
        pytest.param(
            "for i in range(9):\n    next(iter(loader))", "few-batches", id="its first batch, again and again"
        ),
        pytest.param("train(loader)", "unknown-reading", id="in code that is not followed"),
        pytest.param(
            "import pytorch_lightning as pl\nclass Net(pl.LightningModule):\n    pass\npl.Trainer().fit(Net())",
            "framework",
            id="a framework reads it",
        ),
    ],
)
def test_whether_it_is_read_in_each_epoch(text: str, expected: str | None) -> None:
    assert asked(text, why_not_in_epochs) == expected


RUNNER = """\
import torch
from torch.utils.data import DataLoader


class Runner:
    def __init__(self, loader):
        self.loader = loader

    def run(self):
        for x in self.loader:
            print(x)


def main(only_test):
    if only_test:
        loader = DataLoader(torch.zeros(8, 3), 4)
        RUNS
        return
    runner = Runner(batches())
    for epoch in range(3):
        runner.run()


main(True)
"""


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        pytest.param("Runner(loader).run()", "read-once", id="before the function returns"),
        pytest.param("for _ in range(3): Runner(loader).run()", None, id="in a loop before the function returns"),
        pytest.param("Runner(loader).run()\n    if not only_test:", None, id="and the function may go on"),
    ],
)
def test_a_loader_of_a_branch_that_returns(runs: str, expected: str | None) -> None:
    """The loop over epochs is about another loader of the class, and is not reached where this one is made."""
    known = script(RUNNER.replace("RUNS", runs))
    (loader,) = known.loaders

    assert getattr(why_not_in_epochs(known, loader), "code", None) == expected


def test_a_loop_of_a_function_that_nothing_calls() -> None:
    helper = RUNNER.replace(
        "def main", "def folds(runner):\n    for _ in range(3):\n        runner.run()\n\n\ndef main"
    )
    text = helper.replace("RUNS", "Runner(loader).run()").replace("main(True)\n", "")
    known = script("from helper import main\nmain(True)\n", helper=text)
    (loader,) = known.loaders
    reason = why_not_in_epochs(known, loader)

    assert reason is not None
    assert reason.code == "read-once"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("for x in loader:\n    x.cuda()", None, id="they do"),
        pytest.param("for x in loader:\n    (x * 2).cuda()", None, id="what is made of them does"),
        pytest.param("for x in loader:\n    x.to('cpu')", "no-cuda", id="to the host"),
        pytest.param("for x in loader:\n    x.to('xpu')", "other-accelerator", id="to another accelerator"),
        pytest.param("for x in loader:\n    x.to(choose())", "unknown-device", id="to what is not known"),
        pytest.param("for x in loader:\n    print(x)", "batches-not-moved", id="nowhere"),
        pytest.param(
            "import pytorch_lightning as pl\nclass Net(pl.LightningModule):\n    pass\npl.Trainer().fit(Net())",
            "framework",
            id="a framework moves them",
        ),
        pytest.param(f"{ACCELERATED}for x in loader:\n    print(x)", None, id="Accelerate moves them"),
    ],
)
def test_whether_its_batches_go_to_cuda(text: str, expected: str | None) -> None:
    assert asked(text, why_not_cuda) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(ACCELERATED, True, id="by Accelerate"),
        pytest.param("loader = prepare(loader)", False, id="by a function of that name"),
        pytest.param(f"{ACCELERATED}train(loader)\nshow(accelerator, loader)", True, id="and what it made is read"),
        pytest.param("for x in loader:\n    pass", False, id="by nothing"),
    ],
)
def test_whether_it_is_prepared(text: str, *, expected: bool) -> None:
    assert asked(text, is_prepared) is expected


def test_moves_of_what_is_made_of_batches_are_the_loader_s() -> None:
    (loader,) = script(f"{HEAD}for x in loader:\n    x.cuda()\n    (x * 2).cuda()\n").loaders

    assert len(loader.transfers) == 1
    assert len(with_all_moves(loader).transfers) == 2


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        pytest.param("len(data)", "the loop has one pass, as one batch holds all items (line 4)", id="all items"),
        pytest.param("len(other)", None, id="those of other data"),
        pytest.param("9", None, id="a number"),
    ],
)
def test_whether_one_batch_holds_all_items(size: str, expected: str | None) -> None:
    found = script(
        "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\ndata, other = make(), make()\n"
        f"loader = DataLoader(data, batch_size={size})\nfor x in loader:\n    print(x)\n"
    )
    (loop,) = found.module.nodes(ast.For)
    reason = why_one_batch(found, loop)

    assert (reason and reason.words.said(found.module).text) == expected
