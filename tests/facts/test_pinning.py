"""Which code makes batches that cannot be pinned."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.data.pinning import follows_input, why_batch_stays_pageable, why_default_not_host, why_not_on_host

HEAD = """\
import torch
from functools import partial
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset
from torchvision import datasets, transforms

THERE = torch.zeros(8, 3).cuda()
HERE = torch.zeros(8, 3)

class Items(Dataset):
    def __init__(self, data=None):
        self.data = torch.zeros(8, 3)

    def __getitem__(self, index):
        {}

    def helper(self, index):
        return self.data[index].cuda()
"""


def why(dataset: str, item: str = "return self.data[index]", after: str = "") -> str | None:
    """The code of the reason against this data set, whose class has this ``__getitem__``."""
    known = script(f"{HEAD.format(item)}data = {dataset}\n{after}\nloader = DataLoader(data)\n")
    (loader,) = known.loaders
    reason = why_not_on_host(known.flow, "data set", loader.arguments["dataset"].values)
    return None if reason is None else reason.code


@pytest.mark.parametrize(
    "dataset",
    [
        "TensorDataset(HERE)",
        "Items()",
        "Subset(Items(), [0])",
        "datasets.MNIST('d', transform=transforms.ToTensor())",
        "[HERE]",
        "unknown()",
    ],
)
def test_data_that_is_on_the_host(dataset: str) -> None:
    assert why(dataset) is None


@pytest.mark.parametrize(
    "dataset",
    [
        pytest.param("TensorDataset(THERE)", id="tensors"),
        pytest.param("Subset(TensorDataset(THERE), [0])", id="a part of them"),
        pytest.param("[torch.zeros(3).cuda() for _ in range(3)]", id="a list"),
        pytest.param("datasets.MNIST('d', transform=transforms.Lambda(lambda x: x.cuda()))", id="a transform"),
    ],
)
def test_data_that_is_on_a_device(dataset: str) -> None:
    assert why(dataset) == "already-on-device"


@pytest.mark.parametrize(
    ("item", "code"),
    [
        pytest.param("return self.data[index].cuda()", "already-on-device", id="it is moved"),
        pytest.param("return self.helper(index)", "already-on-device", id="it is moved in another method"),
        pytest.param("return torch.zeros(3, device='cuda')", "already-on-device", id="it is made there"),
        pytest.param("return THERE[index]", "already-on-device", id="a tensor of the module"),
        pytest.param("return THERE[index] * 2", "already-on-device", id="what is computed from one"),
        pytest.param("return THERE[index], 3", "already-on-device", id="a tensor of the module among others"),
        pytest.param("return torch.cuda.FloatTensor(3)", "already-on-device", id="a type of CUDA"),
        pytest.param("return self.data[index].to_sparse()", "unpinnable", id="it is sparse"),
        pytest.param("return torch.sparse.FloatTensor(a, b)", "unpinnable", id="a sparse type of old"),
        pytest.param("return HERE[index]", None, id="a tensor of the module on the host"),
        pytest.param("return THERE[index].cpu()", None, id="it is copied back"),
        pytest.param("return self.data[index].cuda().sqrt().cpu()", None, id="it is moved and copied back"),
        pytest.param("return self.data[index].to('cpu')", None, id="it stays there"),
        pytest.param("return self.data[index].to(torch.float16)", None, id="a number format"),
        pytest.param("return self.data[index] + torch.ones(3).to(self.data.device)", None, id="where the data is"),
        pytest.param("return len(THERE)", None, id="only its size"),
    ],
)
def test_what_an_item_is(item: str, code: str | None) -> None:
    assert why("Items()", item) == code


@pytest.mark.parametrize(
    "after",
    ["data.data = data.data.cuda()", "setattr(data, 'data', data.data.cuda())", "data.data = THERE"],
)
def test_data_that_is_moved_later(after: str) -> None:
    assert why("Items()", after=after) == "already-on-device"


@pytest.mark.parametrize(
    ("collate", "code"),
    [
        ("lambda batch: torch.stack(batch)", None),
        ("lambda batch: torch.stack(batch).cuda()", "already-on-device"),
        ("lambda batch: THERE[batch]", "already-on-device"),
        ("partial(gather, where='cuda')", "already-on-device"),
    ],
)
def test_what_a_collate_function_makes(collate: str, code: str | None) -> None:
    known = script(
        HEAD.format("pass")
        + "def gather(batch, where):\n    return torch.stack(batch).to(where)\n"
        + f"loader = DataLoader(HERE, collate_fn={collate})\n"
    )
    (loader,) = known.loaders
    reason = why_not_on_host(known.flow, "collate_fn", loader.arguments["collate_fn"].values)

    assert (None if reason is None else reason.code) == code


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("class Batch:\n    pass\n", "unpinnable"),
        ("class Batch:\n    def pin_memory(self):\n        return self\n", None),
        ("class Batch(dict):\n    pass\n", None),
        ("def Batch():\n    return {}\n", None),
    ],
)
def test_a_batch_of_a_class_has_to_know_how_it_is_pinned(body: str, code: str | None) -> None:
    known = script(f"{HEAD.format('pass')}{body}loader = DataLoader(HERE, collate_fn=lambda batch: Batch())\n")
    (loader,) = known.loaders
    reason = why_batch_stays_pageable(known.flow, loader.arguments["collate_fn"].values)

    assert (None if reason is None else reason.code) == code


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("torch.set_default_device('cuda')", True),
        ("torch.set_default_device(device='cuda')", True),
        ("torch.set_default_tensor_type('torch.cuda.FloatTensor')", True),
        ("with torch.device('cuda'):\n    x = torch.ones(3)", True),
        ("torch.set_default_device('cpu')", False),
        ("torch.set_default_tensor_type(torch.DoubleTensor)", False),
        ("torch.set_default_dtype(torch.float64)", False),
    ],
)
def test_where_new_tensors_appear(statement: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    known = script(f"import torch\n{statement}\n")

    assert (why_default_not_host(known.flow, known.module) is not None) is expected


@pytest.mark.parametrize(
    ("call", "expected"), [("x.to(HERE.device)", True), ("x.to(HERE)", True), ("x.to('cuda')", False)]
)
def test_what_is_moved_to_where_the_data_is(call: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    known = script(HEAD.format("pass") + call)
    node = known.module.tree.body[-1].value  # type: ignore[attr-defined]

    assert follows_input(known.flow, node) is expected
