"""Which code that is not seen may move the batches of a loader."""

from __future__ import annotations

import pytest

from codemods.dataflow.source import Module
from codemods.facts.data.unseen import why_moves_are_unseen
from codemods.facts.script import Script, Whole
from codemods.facts.target import UNKNOWN

LOADER = """\
from torch.utils.data import DataLoader
from torchvision import datasets

loader = DataLoader(datasets.MNIST("data"), batch_size=64)
"""
NOT_PYTHON = "steps.py cannot be imported: not Python 3: async is a keyword since Python 3.7"
READ = "for x, y in loader:\n    print(x.shape)\n"
HANDED = "from steps import train\n\ntrain(loader)\n"
NOT_MOVED = f"its batches are not moved to a device in the files that can be read: {NOT_PYTHON}"
NOT_FOLLOWED = "train() reads it, in code that is not followed (line 7)"


@pytest.mark.parametrize(
    ("rest", "unreadable", "because"),
    [
        pytest.param("", {"steps": NOT_PYTHON}, NOT_MOVED, id="a file may import it"),
        pytest.param("import steps\n" + READ, {"steps": NOT_PYTHON}, NOT_MOVED, id="it imports a file"),
        pytest.param(HANDED, {"steps": NOT_PYTHON}, f"{NOT_FOLLOWED}: {NOT_PYTHON}", id="a file is given it"),
        pytest.param(HANDED, {"other": NOT_PYTHON}, NOT_FOLLOWED, id="a library is given it"),
        pytest.param("", {}, None, id="nothing else is there"),
        pytest.param(READ, {"steps": NOT_PYTHON}, None, id="a file has nothing to do with it"),
    ],
)
def test_the_reason_names_the_code(rest: str, unreadable: dict[str, str], because: str | None) -> None:
    module = Module("data.py", LOADER + rest)
    script = Script(module, (module,), (module,), UNKNOWN, Whole.of((module,), unreadable))
    (loader,) = script.loaders

    reason = why_moves_are_unseen(script, loader)

    assert (reason.words.said(module).text if reason is not None else None) == because
