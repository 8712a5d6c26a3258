"""Which loaders are there, with which arguments, and can their batches be pinned."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.data.loaders import Loader, partial_loaders

HEAD = """\
import torch
from functools import partial
from torch.utils.data import DataLoader, Dataset, TensorDataset
data = TensorDataset(torch.zeros(8, 3))
"""
READ = "\nfor (x,) in loader:\n    x.cuda()\n"


def loader(code: str, before: str = "", read: str = READ, **others: str) -> Loader:
    known = script(f"{HEAD}{before}\nloader = {code}\n{read}", **others)
    (found,) = known.loaders
    return found


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("DataLoader(data, 4, True)", {"dataset", "batch_size", "shuffle"}, id="by position"),
        pytest.param("DataLoader(data, num_workers=2)", {"dataset", "num_workers"}, id="by keyword"),
        pytest.param("DataLoader(data, **options)", {"dataset", "batch_size", "drop_last"}, id="through a dict"),
        pytest.param("DataLoader(data, batch_size=2, **options)", {"dataset", "batch_size", "drop_last"}, id="both"),
    ],
)
def test_the_arguments_that_it_is_given(code: str, expected: set[str]) -> None:
    found = loader(code, "options = {'batch_size': 4, 'drop_last': True}")

    assert set(found.arguments) == expected
    assert found.unknown_arguments is None


@pytest.mark.parametrize(
    ("code", "text"),
    [
        pytest.param("DataLoader(*given)", "its arguments are given with *", id="a star"),
        pytest.param(
            "DataLoader(data, **{key: 1})",
            "its arguments are given with **{key: 1}, and not all of its keys can be seen",
            id="keys that are not known",
        ),
        pytest.param(
            "DataLoader(data, **config)", "its arguments are given with **config: ", id="a dict that is not known"
        ),
    ],
)
def test_arguments_that_are_not_seen(code: str, text: str) -> None:
    reason = loader(code).unknown_arguments

    assert reason is not None
    assert reason.code == "unknown-arguments"
    assert reason.text.startswith(text)


CLASS = "class Own(DataLoader):\n    def __init__(self, data{}):\n        super().__init__(data, 4{})\n"


def test_the_arguments_of_a_class_of_the_project_are_those_of_its_base() -> None:
    found = loader("Own(data)", CLASS.format("", ", shuffle=True"))

    assert found.passing is not found.call
    assert set(found.arguments) == {"dataset", "batch_size", "shuffle"}


def test_a_class_that_hands_all_on_is_asked_at_its_call() -> None:
    before = "class Own(DataLoader):\n    def __init__(self, *a, **k):\n        super().__init__(*a, **k)\n"
    found = loader("Own(data, 4)", before)

    assert found.passing is found.call
    assert set(found.arguments) == {"dataset", "batch_size"}


def test_a_class_whose_base_is_not_seen_to_be_called() -> None:
    reason = loader(
        "Own(data)", "class Own(DataLoader):\n    def __init__(self, data):\n        pass\n"
    ).unknown_arguments

    assert reason is not None
    assert reason.text == "how class Own calls DataLoader's __init__ is not seen"


@pytest.mark.parametrize(
    ("options", "is_pinned", "keeps_workers"),
    [
        ("", False, False),
        ("pin_memory=True", True, False),
        ("pin_memory=flag", True, False),
        ("pin_memory=False", False, False),
        ("num_workers=2, persistent_workers=True", False, True),
    ],
)
def test_what_the_script_decides_already(options: str, is_pinned: bool, keeps_workers: bool) -> None:  # noqa: FBT001
    found = loader(f"DataLoader(data, {options})")

    assert (found.is_pinned, found.keeps_workers) == (is_pinned, keeps_workers)


@pytest.mark.parametrize(
    ("code", "read", "reason"),
    [
        pytest.param("DataLoader(data)", READ, None, id="they are moved to CUDA"),
        pytest.param("DataLoader(data, pin_memory=True)", READ, None, id="they are pinned"),
        pytest.param("DataLoader(data, pin_memory=False)", READ, "script-decides", id="the script says no"),
        pytest.param("DataLoader(data)", "for (x,) in loader:\n    print(x)\n", "batches-not-moved", id="not moved"),
        pytest.param("DataLoader(data)", READ.replace("cuda()", "to('cpu')"), "no-cuda", id="on the host"),
        pytest.param("DataLoader(data)", READ.replace("cuda()", "to(where())"), "unknown-device", id="not known"),
        pytest.param("DataLoader(data)", READ.replace("cuda()", "to('xpu')"), "other-accelerator", id="elsewhere"),
        pytest.param("DataLoader(data)", READ.replace("x.cuda", "(x + 1).cuda"), "converted-on-host", id="new tensors"),
        pytest.param("DataLoader(make())", READ, "unknown-dataset", id="a data set that is not known"),
        pytest.param("DataLoader(*given)", READ, "unknown-arguments", id="arguments that are not seen"),
    ],
)
def test_why_its_batches_are_left_in_pageable_memory(code: str, read: str, reason: str | None) -> None:
    found = loader(code, read=read).why_left_unpinned

    assert (None if found is None else found.code) == reason


def test_a_loader_that_another_module_reads() -> None:
    found = loader(
        "DataLoader(data)",
        read="import steps\nsteps.run(loader)\n",
        steps="def run(data):\n    for x in data:\n        x[0].cuda()\n",
    )

    assert [each.module.path for each in found.moves] == ["steps.py"]


@pytest.mark.parametrize(
    ("code", "count"),
    [("partial(DataLoader, batch_size=4)", 1), ("partial(print, DataLoader)", 0), ("DataLoader(data)", 0)],
)
def test_a_loader_that_is_half_made(code: str, count: int) -> None:
    known = script(HEAD + code)

    assert len(list(partial_loaders(known.flow, known.module))) == count
    assert all(isinstance(each, ast.Call) for each in partial_loaders(known.flow, known.module))
