"""Where a script replaces what a rule relies on, the rule leaves it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from kit import check_rewrites, run

from codemods.codemod import Rewrites
from codemods.rules.dataset_materialize import DatasetMaterialize
from codemods.rules.dataset_on_device import DatasetOnDevice
from codemods.rules.fused_optimizer import FusedOptimizer
from codemods.rules.gpu_normalize import GpuNormalize
from codemods.rules.loader_batched_index import LoaderBatchedIndex
from codemods.rules.loader_hoist import LoaderHoist
from codemods.rules.loader_persistent import LoaderPersistent
from codemods.rules.loader_pin import LoaderPin
from codemods.rules.loader_workers import LoaderWorkers
from codemods.rules.zero_grad_none import ZeroGradNone

if TYPE_CHECKING:
    from codemods.codemod import Codemod


def _example(rule: type[Codemod]) -> Rewrites:
    """The last of its examples: of ``zero_grad()`` nothing is said where it may be right already."""
    return [each for each in rule.examples if isinstance(each, Rewrites)][-1]


@pytest.mark.parametrize(
    ("rule", "replaced"),
    [
        (DatasetMaterialize, "torchvision.datasets.MNIST.__getitem__"),
        (DatasetMaterialize, "torchvision.datasets.mnist.MNIST"),
        (DatasetMaterialize, "torchvision.transforms.ToTensor.__call__"),
        (DatasetMaterialize, "torchvision.transforms.functional.to_tensor"),
        (DatasetMaterialize, "torch.utils.data.default_collate"),
        (DatasetMaterialize, "torch.utils.data.DataLoader.__iter__"),
        (DatasetOnDevice, "torch.utils.data.TensorDataset.__getitem__"),
        (GpuNormalize, "torchvision.datasets.ImageFolder.__getitem__"),
        (GpuNormalize, "torchvision.transforms.Normalize.forward"),
        (LoaderBatchedIndex, "torch.utils.data.TensorDataset.__getitem__"),
        (LoaderHoist, "torchvision.datasets.MNIST.__init__"),
        (LoaderHoist, "torch.utils.data.DataLoader.__init__"),
        (LoaderPersistent, "torch.utils.data.DataLoader.__iter__"),
        (LoaderPin, "torch.utils.data.DataLoader.__init__"),
        (LoaderWorkers, "torch.utils.data.DataLoader.__init__"),
        (FusedOptimizer, "torch.optim.Optimizer.step"),
        (ZeroGradNone, "torch.optim.SGD.step"),
    ],
)
def test_a_rule_leaves_what_the_script_replaces(rule: type[Codemod], replaced: str) -> None:
    example = _example(rule)
    text = f"{example.before}\nimport torch\nimport torchvision\n{replaced} = print\n"
    result = run(rule, text, example.target)

    assert result.after == text
    assert {each.code for each in result.sites} == {"library-changed"}


@pytest.mark.parametrize(
    "written",
    [
        pytest.param("torchvision.datasets.MNIST.resources = []", id="where files are loaded from"),
        pytest.param("torchvision.datasets.CIFAR10.__getitem__ = print", id="another data set"),
        pytest.param("torch.backends.cudnn.benchmark = True", id="a switch"),
        pytest.param("torchvision.transforms.Normalize.forward = print", id="a transform that it has not"),
    ],
)
def test_what_else_the_script_writes_to_libraries_is_nothing_to_a_rule(written: str) -> None:
    example = _example(DatasetMaterialize)
    end = f"\nimport torch\nimport torchvision\n{written}\n"

    check_rewrites(DatasetMaterialize, example.before + end, example.after + end)
