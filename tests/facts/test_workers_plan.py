"""Which loaders have workers, and which can be given some."""

from __future__ import annotations

import pytest

from codemods.dataflow.source import Module
from codemods.facts.script import Script, Whole
from codemods.facts.target import UNKNOWN
from codemods.facts.workers.plan import why_reading_is_unknown

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
