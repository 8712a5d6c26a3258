"""What is said of packages: that each is there by its own name, and which question finds which."""

from __future__ import annotations

import importlib
import sys

import pytest

from codemods.library.packages import Trait, has, is_scheduler, packages, steps_no_parameters


@pytest.mark.parametrize(
    ("name", "trait"),
    [
        ("numpy.random.rand", Trait.ARRAYS),
        ("skimage.metrics.structural_similarity", Trait.ARRAYS),
        ("math.exp", Trait.GRAPHLESS),
        ("PIL.Image.open", Trait.FORGETFUL),
        ("einops.rearrange", Trait.CHEAP),
        ("h5py.File", Trait.FILE),
        ("pydicom", Trait.DATA),
        ("torch_geometric.nn.GCNConv", Trait.KERNELS),
        ("MinkowskiEngine.MinkowskiConvolution", Trait.KERNELS),
        ("captum.attr.Saliency", Trait.GRADIENTS),
        ("transformers.set_seed", Trait.SEEDS),
    ],
)
def test_traits_of_what_is_in_a_package(name: str, trait: Trait) -> None:
    assert has(name, trait)


@pytest.mark.parametrize("name", ["numpyro.sample", "", "torch.numpy", "datetime64"])
def test_other_packages_have_none(name: str) -> None:
    assert not has(name, Trait.ARRAYS)
    assert not has(name, Trait.GRAPHLESS)


def test_what_makes_arrays_passes_no_graph_on() -> None:
    assert packages(Trait.ARRAYS) <= packages(Trait.GRAPHLESS)


@pytest.mark.parametrize("name", sorted(packages(Trait.GRAPHLESS) & sys.stdlib_module_names))
def test_no_standard_module_among_them_hands_on_what_it_is_given(name: str) -> None:
    """``random.choice`` and ``copy.copy`` do, so their modules are not among them."""
    module = importlib.import_module(name)

    assert not {"choice", "copy", "deepcopy", "partial", "chain", "Namespace"} & set(vars(module))


@pytest.mark.parametrize(
    "name",
    [
        "torch.optim.lr_scheduler.StepLR",
        "torch.optim.swa_utils.SWALR",
        "transformers.get_scheduler",
        "transformers.optimization.get_cosine_schedule_with_warmup",
        "diffusers.optimization.get_scheduler",
        "timm.scheduler.CosineLRScheduler",
    ],
)
def test_schedulers(name: str) -> None:
    assert is_scheduler(name)
    assert steps_no_parameters(name)


@pytest.mark.parametrize("name", ["gymnasium.make", "torch.profiler.profile", "gym.vector.SyncVectorEnv"])
def test_what_else_steps_no_parameters(name: str) -> None:
    assert steps_no_parameters(name)
    assert not is_scheduler(name)


@pytest.mark.parametrize(
    "name", ["torch.optim.SGD", "transformers.AdamW", "gymnastics.make", "diffusers.get_optimizer"]
)
def test_what_may_update_parameters(name: str) -> None:
    assert not steps_no_parameters(name)
