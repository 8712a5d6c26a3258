"""Which edits make a loader gather each batch by one index."""

from __future__ import annotations

import pytest

from codemods.dataflow.source import Module
from codemods.editing.sampling import in_batches
from codemods.editing.values import AddArgument, ImportName, Insert, RemoveArgument, Replace
from codemods.facts.data.batching import Batches, batches
from codemods.facts.reason import Reason
from codemods.facts.script import Script

SCRIPT = """\
import torch
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.randn(1000, 8))
loader = {}
for (x,) in loader:
    print(x)
"""


def edits(loader: str) -> list[object] | Reason:
    """The edits for this loader."""
    script = Script.of(Module("train.py", SCRIPT.format(loader)))
    found = batches(script, script.loaders[0])
    assert isinstance(found, Batches)
    made = in_batches(script, script.loaders[0], found)
    return made if isinstance(made, Reason) else [*made]


def test_a_sampler_takes_the_place_of_size_and_order() -> None:
    found = edits("DataLoader(data, batch_size=64, shuffle=True)")

    assert isinstance(found, list)
    assert [type(each) for each in found] == [ImportName, ImportName, Replace, RemoveArgument, AddArgument]
    assert isinstance(found[-1], AddArgument)
    assert (found[-1].name, found[-1].value) == ("sampler", "BatchSampler(RandomSampler(data), 64, drop_last=False)")


@pytest.mark.parametrize(
    ("name", "sampler"),
    [
        ("the_train_loader", "the_train_sampler"),
        ("train_data_loader", "train_sampler"),
        ("batches_of_the_training", "batches_of_the_training_sampler"),
        ("data_loader", "sampler"),
    ],
)
def test_a_sampler_whose_line_would_be_wider_than_the_file_gets_a_name(name: str, sampler: str) -> None:
    loader = "DataLoader(dataset=data,\n" + " " * 43 + "batch_size=64,\n" + " " * 43 + "shuffle=True)"
    text = SCRIPT.replace("loader = {}", f"{name} = {loader}").replace("in loader", f"in {name}")
    script = Script.of(Module("train.py", text))
    found = batches(script, script.loaders[0])
    assert isinstance(found, Batches)
    made = in_batches(script, script.loaders[0], found)
    assert not isinstance(made, Reason)

    insert, added = made[-2:]
    assert isinstance(insert, Insert)
    assert isinstance(added, AddArgument)
    assert insert.code == f"{sampler} = BatchSampler(RandomSampler(data), 64, drop_last=False)"
    assert added.value == sampler


@pytest.mark.parametrize(
    "made",
    [
        pytest.param("loader = DataLoader({0}data, 64, True) if len(data) else []", id="in one of two cases"),
        pytest.param("loader = DataLoader({0}data, len(data) // 2, True)", id="a size that is computed"),
    ],
)
def test_a_sampler_that_cannot_be_made_before_gets_no_name(made: str) -> None:
    text = SCRIPT.replace("loader = {}", made.format("\n" + " " * 60))
    script = Script.of(Module("train.py", text))
    found = batches(script, script.loaders[0])
    assert isinstance(found, Batches)
    added = in_batches(script, script.loaders[0], found)
    assert not isinstance(added, Reason)
    assert not any(isinstance(each, Insert) for each in added)


@pytest.mark.parametrize("loader", ["DataLoader(data, 64, True, None)", "DataLoader(data, 64, False, None, None, 0)"])
def test_an_argument_before_others_cannot_be_taken_away(loader: str) -> None:
    reason = edits(loader)

    assert isinstance(reason, Reason)
    assert reason.code == "not-editable"
