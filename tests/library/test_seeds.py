"""What sets seeds, held against the installed torch, NumPy and Python."""

from __future__ import annotations

import random
from collections.abc import Callable  # noqa: TC003 - read when the module is run

import numpy as np
import pytest
import torch

from codemods.library.seeds import Generator, seeded_by, seeds

STATES: dict[Generator, Callable[[], float]] = {
    Generator.PYTHON: random.random,
    Generator.NUMPY: lambda: float(np.random.random()),  # noqa: NPY002 - the generator that is seeded
    Generator.TORCH: lambda: float(torch.rand(())),
}
FUNCTIONS: dict[str, Callable[[int], object]] = {
    "random.seed": random.seed,
    "numpy.random.seed": np.random.seed,
    "torch.manual_seed": torch.manual_seed,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_which_numbers_repeat_after_it(name: str) -> None:
    seed = FUNCTIONS[name]
    repeated = Generator(0)
    for generator, draw in STATES.items():
        seed(3)
        first = draw()
        draw()
        seed(3)
        if draw() == first:
            repeated |= generator

    assert seeded_by(name) & ~Generator.CUDA == repeated


@pytest.mark.parametrize("name", sorted(each for each in seeds() if each.startswith("torch.")))
def test_torch_has_it(name: str) -> None:
    found: object = torch
    for part in name.split(".")[1:]:
        found = getattr(found, part)

    assert callable(found)
    assert (Generator.TORCH in seeded_by(name)) is not name.startswith("torch.cuda.")


def test_what_seeds_nothing() -> None:
    assert not seeded_by("torch.get_rng_state")
    assert not seeded_by("random.random")
