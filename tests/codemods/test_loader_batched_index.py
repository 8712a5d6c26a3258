from __future__ import annotations

import itertools

import pytest
from kit import check_leaves, check_rewrites, check_silent, found_by, run

from codemods.rules.loader_batched_index import LoaderBatchedIndex

IMPORTS = "import torch\nfrom torch.utils.data import DataLoader, Subset, TensorDataset, random_split\n\n"
WITH_RANDOM = IMPORTS.replace(
    "torch.utils.data import DataLoader, Subset,",
    "torch.utils.data import BatchSampler, DataLoader, RandomSampler, Subset,",
)
WITH_SEQUENTIAL = WITH_RANDOM.replace("RandomSampler, Subset", "SequentialSampler, Subset")
DATA = "x, y = torch.randn(1000, 8), torch.randint(10, (1000,))\ndata = TensorDataset(x, y)\n"
READ = "for epoch in range(3):\n    for a, b in loader:\n        print(a.sum(), b.sum())\n"


def rewrites(before: str, after: str, imports: str = WITH_RANDOM) -> None:
    """Of a script with this loader the rule makes one with that."""
    check_rewrites(LoaderBatchedIndex, f"{IMPORTS}{DATA}{before}\n{READ}", f"{imports}{DATA}{after}\n{READ}")


def left(code: str, because: str, read: str = READ) -> None:
    check_leaves(LoaderBatchedIndex, f"{IMPORTS}{DATA}{code}\n{read}", because)


# What is written.


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "loader = DataLoader(data, batch_size=64, shuffle=True)",
            "loader = DataLoader(data, batch_size=None, sampler=BatchSampler(RandomSampler(data), 64, drop_last=False))",
            id="shuffled",
        ),
        pytest.param(
            "loader = DataLoader(data, 64, True, pin_memory=True)",
            "loader = DataLoader(data, None, pin_memory=True, "
            "sampler=BatchSampler(RandomSampler(data), 64, drop_last=False))",
            id="arguments by position",
        ),
        pytest.param(
            "loader = DataLoader(\n    data,\n    batch_size=64,  # as in the paper\n    shuffle=True,\n"
            "    drop_last=True,\n)",
            "loader = DataLoader(\n    data,\n    batch_size=None,  # as in the paper\n"
            "    sampler=BatchSampler(RandomSampler(data), 64, drop_last=True),\n)",
            id="arguments on lines of their own",
        ),
        pytest.param(
            "g = torch.Generator()\nloader = DataLoader(data, batch_size=8, shuffle=True, generator=g)",
            "g = torch.Generator()\nsampler = BatchSampler(RandomSampler(data, generator=g), 8, drop_last=False)\n"
            "loader = DataLoader(data, batch_size=None, generator=g, sampler=sampler)",
            id="before a line that gets too wide; its generator draws the order and the base seed",
        ),
        pytest.param(
            "loader, val_loader = DataLoader(data, 8, shuffle=True), DataLoader(data, 9, shuffle=True)\n"
            "for a, b in val_loader:\n    print(a.sum())",
            "sampler = BatchSampler(RandomSampler(data), 8, drop_last=False)\n"
            "val_sampler = BatchSampler(RandomSampler(data), 9, drop_last=False)\n"
            "loader, val_loader = DataLoader(data, None, sampler=sampler), DataLoader(data, None, sampler=val_sampler)\n"
            "for a, b in val_loader:\n    print(a.sum())",
            id="two in a statement that gets too wide",
        ),
        pytest.param(
            "loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)",
            "loader = DataLoader(TensorDataset(x, y), batch_size=None, "
            "sampler=BatchSampler(RandomSampler(x), 64, drop_last=False))",
            id="the first tensor has as many rows as a data set without a name",
        ),
        pytest.param(
            "part, rest = random_split(data, [800, 200])\nloader = DataLoader(part, batch_size=64, shuffle=True)",
            "part, rest = random_split(data, [800, 200])\n"
            "loader = DataLoader(part, batch_size=None, sampler=BatchSampler(RandomSampler(part), 64, drop_last=False))",
            id="a part of one",
        ),
    ],
)
def test_a_loader_that_shuffles_is_given_a_sampler_of_batches(before: str, after: str) -> None:
    rewrites(before, after)


def test_a_loader_that_does_not_shuffle_reads_in_order() -> None:
    before = "loader = DataLoader(data, batch_size=64, shuffle=False)"
    after = (
        "loader = DataLoader(data, batch_size=None, sampler=BatchSampler(SequentialSampler(data), 64, drop_last=False))"
    )
    rewrites(before, after, WITH_SEQUENTIAL)


def test_workers_are_the_users_choice() -> None:
    asked = "import argparse\nargs = argparse.ArgumentParser().parse_args()\n"
    before = "loader = DataLoader(data, batch_size=8, num_workers=args.workers)"
    after = (
        "loader = DataLoader(data, batch_size=None, num_workers=args.workers,\n"
        "                    sampler=BatchSampler(SequentialSampler(data), 8, drop_last=False))"
    )
    rewrites(asked + before, asked + after, WITH_SEQUENTIAL)


def test_a_name_that_is_imported_already_is_used() -> None:
    imports = "import torch\nimport torch.utils.data as td\n\n"
    data = "data = td.TensorDataset(torch.randn(1000, 8))\n"
    sampler = "td.BatchSampler(td.RandomSampler(data), 8, drop_last=False)"
    read = "\nfor (x,) in loader:\n    print(x)\n"
    before = imports + data + "loader = td.DataLoader(data, batch_size=8, shuffle=True)" + read
    after = f"{imports}{data}loader = td.DataLoader(data, batch_size=None, sampler={sampler}){read}"
    check_rewrites(LoaderBatchedIndex, before, after)


def test_a_subset_takes_lists_of_indices_since_torch_1_10() -> None:
    code = f"{IMPORTS}{DATA}part, _ = random_split(data, [800, 200])\nloader = DataLoader(part, batch_size=64)\n{READ}"
    assert run(LoaderBatchedIndex, code, target=(1, 9)).after == code
    assert run(LoaderBatchedIndex, code, target=(1, 10)).after != code


SHAPES = [
    ("data", shuffle, drop_last, generator)
    for shuffle, drop_last, generator in itertools.product((True, False), (True, False), (True, False))
] + [("part", True, False, False), ("part", False, True, True)]


@pytest.mark.parametrize(("data", "shuffle", "drop_last", "generator"), SHAPES)
def test_batches_and_random_numbers_are_the_same(data: str, *, shuffle: bool, drop_last: bool, generator: bool) -> None:
    """Over two epochs: the values, strides and containers of batches, the length, and what is drawn afterwards."""
    given = "g = torch.Generator().manual_seed(5)\n" if generator else ""
    arguments = f"shuffle={shuffle}, drop_last={drop_last}{', generator=g' if generator else ''}"
    before = (
        f"{IMPORTS}torch.manual_seed(3)\nx, y = torch.randn(100, 3, 4, 5), torch.randint(10, (100,))\n"
        f"data = TensorDataset(x, y)\npart, _ = random_split(data, [77, 23])\n{given}"
        f"loader = DataLoader({data}, batch_size=8, {arguments})\n"
        "found = [(type(batch), [(each.tolist(), each.stride(), each.dtype) for each in batch])\n"
        "         for _ in range(2) for batch in loader]\n"
        "found.append((len(loader), len(loader.dataset), torch.rand(3).tolist()))\n"
    )
    after = run(LoaderBatchedIndex, before).after
    assert "BatchSampler(" in after
    assert found_by(before) == found_by(after)


OWN = """\
class Rows(torch.utils.data.Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return {}


"""


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("part", ["data", "random_split(data, [77, 23])[0]"], ids=["all of it", "a part of it"])
@pytest.mark.parametrize(
    "item",
    [
        pytest.param("self.x[i], self.y[i]", id="rows of arrays"),
        pytest.param("torch.tensor(self.x[i], dtype=torch.float32), torch.tensor(self.y[i])", id="tensors of them"),
        pytest.param("{'x': torch.from_numpy(self.x[i]), 'y': self.y[i]}", id="by name"),
        pytest.param("[self.x[i].astype(np.float32), self.y[i]]", id="in a list"),
    ],
)
def test_a_class_that_indexes_arrays_makes_the_same_batches(item: str, part: str, *, shuffle: bool) -> None:
    """Over two epochs: the values, strides and containers of batches, the length, and what is drawn afterwards."""
    before = (
        f"import numpy as np\n{IMPORTS}torch.manual_seed(3)\nnp.random.seed(3)\n{OWN.format(item)}"
        "x, y = np.array([[float(i), float(i / 7), float(i * 0.1)] for i in range(100)]), np.arange(100)\n"
        f"data = Rows(x.T.T[np.random.permutation(100)], y)\npart = {part}\n"
        f"loader = DataLoader(part, batch_size=8, shuffle={shuffle})\n"
        "parts = lambda batch: batch.values() if isinstance(batch, dict) else batch\n"
        "found = [(type(batch), [(each.tolist(), each.stride(), each.dtype) for each in parts(batch)])\n"
        "         for _ in range(2) for batch in loader]\n"
        "found.append((len(loader), len(loader.dataset), torch.rand(3).tolist()))\n"
    )
    after = run(LoaderBatchedIndex, before).after
    assert "BatchSampler(" in after
    assert found_by(before) == found_by(after)


# What is left.


@pytest.mark.parametrize(
    ("given", "because"),
    [
        pytest.param(
            "[[0.5], [1.5]], np.arange(2)",
            "'self.x' is not known to be an array or a tensor (line 13), which takes many indices at once: "
            "make self.x one where it is set",
            id="a list takes one index",
        ),
        pytest.param(
            "np.load('x.npy'), np.arange(2)",
            "how the items of 'self.x' lie in memory is not known (line 16), and a batch of them would lie alike: "
            "give self.x np.ascontiguousarray(...)",
            id="an array that may lie in any order",
        ),
    ],
)
def test_a_class_is_left_whose_arrays_may_not_be_indexed_alike(given: str, because: str) -> None:
    own = OWN.format("self.x[i], self.y[i]")
    code = f"import numpy as np\n{own}data = Rows({given})\nloader = DataLoader(data, batch_size=8)\n"
    check_leaves(LoaderBatchedIndex, f"{IMPORTS}{code}{READ}", because)


NO_PARTS = "what the indices of its Subset are is not known (line 6), and a list of tensors would select otherwise"


@pytest.mark.parametrize(
    ("code", "because"),
    [
        pytest.param(
            "loader = DataLoader(data, batch_size=64, num_workers=2)",
            "its batches are made in worker processes, from which each has to be sent: take num_workers away, as the "
            "data set is in memory",
            id="workers",
        ),
        pytest.param(
            "loader = DataLoader(Subset(data, range(50)), batch_size=64)",
            "its data set has no name, by which its sampler could ask for its length: give it a name",
            id="a part without a name, which is shorter than the whole",
        ),
        pytest.param(
            "loader = DataLoader(data, batch_size=64, collate_fn=lambda items: items)",
            "its batches are made by a collate_fn of its own",
            id="collate_fn",
        ),
        pytest.param(
            "loader = DataLoader(data, 8, sampler=torch.utils.data.RandomSampler(data, num_samples=9))",
            "its batches are made by a sampler of its own",
            id="sampler",
        ),
        pytest.param("loader = DataLoader(data)", "its batches have one item", id="single items"),
        pytest.param(
            "loader = DataLoader(data, batch_size=1)", "its batches have one item", id="single items, written"
        ),
        pytest.param(
            "kwargs = {'batch_size': 64}\nloader = DataLoader(data, **kwargs)",
            "its batch_size comes through **: write batch_size in the call",
            id="batch_size through **",
        ),
        pytest.param(
            "import sys\nloader = DataLoader(data, batch_size=64, shuffle=len(sys.argv) > 1)",
            "whether it shuffles is decided when the script runs",
            id="shuffled or not",
        ),
        pytest.param(
            "def make(mixed=False):\n    return DataLoader(data, batch_size=64, shuffle=mixed)\nloader = make()",
            "whether it shuffles is set by 'mixed', which a sampler would not ask: write True or False there",
            id="by a parameter that nobody gives",
        ),
        pytest.param(
            "MIXED = True\nloader = DataLoader(data, batch_size=64, shuffle=MIXED)",
            "whether it shuffles is set by 'MIXED', which a sampler would not ask: write True or False there",
            id="by a constant",
        ),
        pytest.param(
            "loader = DataLoader(data, batch_size=64, generator=torch.Generator().manual_seed(0))",
            "its generator has no name, and its sampler has to draw from the same one: give it a name",
            id="two generators would draw the same",
        ),
        pytest.param(
            "loader = DataLoader(Subset(data, torch.arange(9)), batch_size=64)", NO_PARTS, id="indices that are tensors"
        ),
        pytest.param(
            "loader = DataLoader(torch.utils.data.ConcatDataset([data, data]), batch_size=64)",
            "its data set may be something else than a TensorDataset, which takes many indices at once",
            id="joined data sets take one index",
        ),
        pytest.param(
            "loader = DataLoader(data + data, batch_size=64)",
            "its data set may be something else than a TensorDataset, which takes many indices at once",
            id="so do those that are joined by +",
        ),
        pytest.param(
            "loader = DataLoader(TensorDataset(x.float()), batch_size=64)",
            "its data set has no name, by which its sampler could ask for its length: give it a name",
            id="no name",
        ),
        pytest.param(
            "loader = DataLoader(data, batch_size=64)\nprint(loader.batch_size)",
            "'.batch_size' of it is used (line 7), which a sampler of batches would change",
            id="its batch size is read",
        ),
        pytest.param(
            "loader = DataLoader(data, batch_size=64)\nprint(getattr(loader, 'sampler'))",
            "an attribute of it is used (line 7), which a sampler of batches would change",
            id="getattr",
        ),
    ],
)
def test_a_loader_is_left(code: str, because: str) -> None:
    left(code, because)


def test_a_loader_that_other_code_reads_is_left() -> None:
    read = "import some_package\nsome_package.fit(loader)\n"
    because = "some_package.fit() reads it, in code that is not followed (line 8)"
    left("loader = DataLoader(data, batch_size=64)", because, read)


def test_a_loader_of_a_framework_is_left() -> None:
    read = "import pytorch_lightning as pl\npl.Trainer(max_epochs=3).fit(object(), loader)\n"
    left("loader = DataLoader(data, 64)", "Lightning may make samplers of its own for it", read)


def test_a_loader_of_a_class_that_reads_in_its_own_way_is_left() -> None:
    own = (
        "class Twice(DataLoader):\n    def __iter__(self):\n        for batch in super().__iter__():\n"
        "            yield batch\n            yield batch\n\n\nloader = Twice(data, batch_size=64)"
    )
    left(own, "class Twice makes or reads its batches in a way of its own")


# What is no site.


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("loader = DataLoader(data, batch_size=None)", id="items as they are"),
        pytest.param("from torchvision.datasets import MNIST\nloader = DataLoader(MNIST('data'), 64)", id="no tensors"),
        pytest.param("loader = DataLoader([(0, 1), (2, 3)], batch_size=2)", id="a list"),
        pytest.param(
            f"{OWN.format('self.x[i] / 2, self.y[i]')}loader = DataLoader(Rows(x, y), 8)", id="a class that computes"
        ),
        pytest.param(
            f"import h5py\n{OWN.format('self.x[i], self.y[i]')}f = h5py.File('x.h5')\n"
            "loader = DataLoader(Rows(f['x'], f['y']), 8, num_workers=4)",
            id="workers read what may be no array in memory",
        ),
    ],
)
def test_other_loaders_are_no_sites(code: str) -> None:
    check_silent(LoaderBatchedIndex, f"{IMPORTS}{DATA}{code}\n{READ}")
