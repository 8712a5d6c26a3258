"""What sets the seeds of random numbers, and of which."""

from __future__ import annotations

import enum


class Generator(enum.Flag):
    """Where random numbers come from."""

    PYTHON = enum.auto()
    NUMPY = enum.auto()
    TORCH = enum.auto()
    """PyTorch's on the CPU."""
    CUDA = enum.auto()


_ALL = Generator.PYTHON | Generator.NUMPY | Generator.TORCH | Generator.CUDA
_SEEDS = {
    "random.seed": Generator.PYTHON,
    "numpy.random.seed": Generator.NUMPY,
    **{f"torch.{name}": Generator.TORCH | Generator.CUDA for name in ("manual_seed", "seed")},
    **{f"torch.random.{name}": Generator.TORCH | Generator.CUDA for name in ("manual_seed", "seed")},
    **{f"torch.cuda.{name}": Generator.CUDA for name in ("manual_seed", "manual_seed_all", "seed", "seed_all")},
    **{f"torch.cuda.random.{name}": Generator.CUDA for name in ("manual_seed", "manual_seed_all", "seed", "seed_all")},
    **dict.fromkeys(("transformers.set_seed", "transformers.trainer_utils.set_seed"), _ALL),
    **dict.fromkeys(("accelerate.utils.set_seed", "accelerate.utils.random.set_seed"), _ALL),
    **{
        f"{package}.seed_everything": _ALL
        for package in ("pytorch_lightning", "lightning", "lightning.pytorch", "lightning.fabric", "lightning_fabric")
    },
    "pytorch_lightning.utilities.seed.seed_everything": _ALL,
}


def seeded_by(name: str) -> Generator:
    """The generators whose seeds the function of that qualified name sets."""
    return _SEEDS.get(name, Generator(0))


def seeds() -> frozenset[str]:
    """The qualified names of what sets seeds."""
    return frozenset(_SEEDS)
