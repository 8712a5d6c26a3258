"""Which loaders have workers, and which can be given some."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from probe import script as probe_script

from codemods.dataflow.source import Module
from codemods.facts.data.loader_use import why_reading_is_unknown
from codemods.facts.reason import Reason
from codemods.facts.script import Script, Whole
from codemods.facts.target import UNKNOWN
from codemods.facts.workers.plan import WorkerFacts, Workers

if TYPE_CHECKING:
    from codemods.facts.data.loaders import Loader

LOADER = """\
from torch.utils.data import DataLoader
from torchvision import datasets

loader = DataLoader(datasets.MNIST("data"), batch_size=64, num_workers=4)
"""
NOT_PYTHON = "train.py cannot be imported: not Python 3: async is a keyword since Python 3.7"


@pytest.mark.parametrize(
    ("unreadable", "files"),
    [
        pytest.param({}, "this file", id="all is read"),
        pytest.param({"train": NOT_PYTHON}, f"the files that can be read: {NOT_PYTHON}", id="a file is not Python 3"),
    ],
)
def test_the_reason_names_the_file_that_may_read_the_loader(unreadable: dict[str, str], files: str) -> None:
    module = Module("data.py", LOADER)
    script = Script(module, (module,), (module,), UNKNOWN, Whole.of((module,), unreadable))
    (loader,) = script.loaders

    reason = why_reading_is_unknown(script, loader)

    assert reason is not None
    assert reason.text == f"its batches are not read in {files}"


IMAGES = """\
import argparse
import torch
from torch.utils.data import DataLoader, TensorDataset
from torchvision import datasets, transforms
parser = argparse.ArgumentParser()
{options}
args = parser.parse_args()
def main():
    loader = DataLoader({data}, batch_size=64{given})
    for epoch in range(10):
        for x, y in loader:
            x = x.cuda()
if __name__ == "__main__":
    main()
"""
MNIST = "datasets.MNIST('d', transform=transforms.ToTensor())"


def facts_of(given: str = "", options: str = "pass", data: str = MNIST) -> tuple[WorkerFacts, Loader]:
    known = probe_script(IMAGES.format(given=given, options=options, data=data))
    (loader,) = known.loaders
    return WorkerFacts(known, 3), loader


@pytest.mark.parametrize(
    ("given", "options", "text"),
    [
        pytest.param("", "pass", "3", id="the number that was asked for"),
        pytest.param(
            "", "parser.add_argument('--workers', type=int, default=2)", "args.workers", id="the script's own option"
        ),
        pytest.param(", num_workers=0", "pass", "3", id="instead of none"),
    ],
)
def test_the_workers_that_a_loader_can_be_given(given: str, options: str, text: str) -> None:
    facts, loader = facts_of(given, options)
    found = facts.given(loader)

    assert isinstance(found, Workers)
    assert found.are_new
    assert [each.text.split(" if ")[0] for each in found.counts] == [text]
    assert facts.present(loader) is None


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param({"data": "TensorDataset(torch.zeros(8, 3), torch.zeros(8))"}, "data-in-memory", id="in memory"),
        pytest.param({"data": "make()"}, "unknown-dataset", id="a data set that is not known"),
        pytest.param({"given": ", **options_of()"}, "unknown-arguments", id="arguments that are not seen"),
        pytest.param({"given": ", prefetch_factor=2"}, "script-decides", id="what needs workers already"),
    ],
)
def test_why_it_can_be_given_none(arguments: dict[str, str], code: str) -> None:
    facts, loader = facts_of(**arguments)
    found = facts.given(loader)

    assert isinstance(found, Reason)
    assert found.code == code


@pytest.mark.parametrize(
    ("given", "positive"),
    [
        pytest.param(", num_workers=2", "True", id="a number"),
        pytest.param(", num_workers=args.n", "args.n > 0", id="an option"),
    ],
)
def test_the_workers_that_it_has(given: str, positive: str) -> None:
    facts, loader = facts_of(given, "parser.add_argument('--n', type=int)")
    found = facts.present(loader)

    assert isinstance(found, Workers)
    assert not found.are_new
    assert [each.positive for each in found.counts] == [positive]
