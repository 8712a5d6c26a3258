"""Which edits write the workers of a loader."""

from __future__ import annotations

import ast

import pytest

from codemods.dataflow.source import Module
from codemods.editing.values import AddArgument, AddItem, Wrap
from codemods.editing.worker_edits import edits, pass_
from codemods.facts.reason import Reason
from codemods.facts.script import Script
from codemods.facts.workers.plan import WorkerFacts, Workers

LOADING = """\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
loader = DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), 64, shuffle=True)
for epoch in range(10):
    for x, y in loader:
        x = x.cuda()
"""


def given(text: str) -> tuple[Script, Workers]:
    """The workers that the only loader of the script can be given."""
    known = Script.of(Module("train.py", text))
    (loader,) = known.loaders
    workers = WorkerFacts(known, 4, main_guard=True).given(loader)
    assert isinstance(workers, Workers), workers
    return known, workers


def test_what_reads_the_loader_goes_under_a_guard() -> None:
    known, workers = given(LOADING)
    found = edits(known, workers, main_guard=True)

    assert not isinstance(found, Reason)
    assert [type(each) for each in found][:1] == [AddArgument]
    (argument,) = [each for each in found if isinstance(each, AddArgument)]
    assert (argument.name, argument.value) == ("num_workers", "4")
    wraps = [each for each in found if isinstance(each, Wrap)]
    assert {each.header for each in wraps} == {'if __name__ == "__main__":'}
    assert ast.unparse(wraps[-1].statements[-1]).startswith("for epoch in")


def test_without_a_guard_it_is_left() -> None:
    known, workers = given(LOADING)
    found = edits(known, workers, main_guard=False)

    assert isinstance(found, Reason)
    assert (found.code, found.remedy) == ("needs-main-guard", "leave --no-main-guard away")


def test_under_a_guard_there_is_the_argument_alone() -> None:
    head, loop = LOADING.split("for epoch", 1)
    lines = f"for epoch{loop}".replace("\n", "\n    ").rstrip()
    known, workers = given(f'{head}if __name__ == "__main__":\n    {lines}\n')
    found = edits(known, workers, main_guard=True)

    assert not isinstance(found, Reason)
    assert [type(each) for each in found] == [AddArgument]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("f(a)", AddArgument), ("{'a': 1}", AddItem)],
    ids=["a call", "a dictionary of arguments"],
)
def test_how_an_argument_is_passed(text: str, expected: type) -> None:
    module = Module("train.py", text)
    (site,) = module.nodes(ast.Call, ast.Dict)
    assert isinstance(site, (ast.Call, ast.Dict))

    assert type(pass_(module, site, "num_workers", "4")) is expected
