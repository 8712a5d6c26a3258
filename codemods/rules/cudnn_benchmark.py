"""Rule ``cudnn-benchmark``: cuDNN measures which convolution algorithm is fastest for the sizes at hand."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.codemod import Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.dataflow.placement import dominates
from codemods.editing.imports import can_import
from codemods.editing.values import AddElse, Import, Insert
from codemods.facts.devices.cuda_use import no_cuda, unknown_device
from codemods.facts.devices.cudnn import convolves, is_switched_on, optional, why_decided
from codemods.facts.leads import frames, runs, sites_here
from codemods.facts.models.image_sizes import why_size_varies
from codemods.facts.reason import Reason
from codemods.facts.switches import is_repeated, place_of_switch, starts_processes
from codemods.library.sources import measured

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.codemod import Finding
    from codemods.editing.values import Edit
    from codemods.facts.models.layers import Model
    from codemods.facts.script import Script

_FLAG = "torch.backends.cudnn.benchmark"
_MESSAGE = "cuDNN guesses the convolution algorithms instead of measuring them"


class CudnnBenchmark(Codemod):
    """Lets cuDNN measure which convolution algorithm is fastest (``torch.backends.cudnn.benchmark = True``).

    Why it is faster:
        For each new size of input cuDNN tries its algorithms once and keeps the fastest. Heuristics choose otherwise,
        which on older GPUs is often far from the best. It pays only where the sizes stay the same.

    When it is left:
        The size of the images is not provably fixed: each new size is measured again, which takes longer than it saves.
        It is fixed where transforms make it so, and where several images that are shuffled are stacked to a batch.
        The script asks for determinism (the measured choice differs from run to run); where it does so only under an
        option that is off by default, the flag is set where the option is not given. The flag is written already.

    Results:
        Another algorithm may round otherwise. Nothing changes without CUDA.

    References:
        PyTorch performance tuning guide, "Enable cuDNN auto-tuner"; notes/randomness, "CUDA convolution benchmarking".
    """

    promise = Promise.PRECISION
    gain = "0-5 % of an iteration (H100), an epoch 1.4x as fast (V100, SpeechBrain)"
    gain_sources = (measured("convolution-times"), "https://github.com/speechbrain/speechbrain/pull/294")
    min_torch = (0, 2)
    needs_cuda = True
    phases = frozenset({Phase.FORWARD, Phase.BACKWARD})
    causes = words(
        """
        determinism no-cuda no-name own-loader-class script-decides size-not-fixed unknown-arguments unknown-dataset
        unknown-device
        """
    )
    examples = (
        Rewrites(
            before="""\
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Flatten(), nn.Linear(5408, 10)).cuda()
for images, labels in DataLoader(datasets.MNIST("data"), batch_size=64):
    loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
""",
            after="""\
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets

torch.manual_seed(0)
torch.backends.cudnn.benchmark = True
model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Flatten(), nn.Linear(5408, 10)).cuda()
for images, labels in DataLoader(datasets.MNIST("data"), batch_size=64):
    loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
""",
        ),
        Leaves(
            code="""\
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

transform = transforms.Compose([transforms.Resize(256), transforms.ToTensor()])
loader = DataLoader(datasets.ImageFolder("data", transform=transform), batch_size=1)
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)).cuda()
for images, labels in loader:
    nn.functional.cross_entropy(model(images.cuda()), labels.cuda()).backward()
""",
            because="input size not provably fixed:"
            " the images of torchvision.datasets.ImageFolder() are not cropped to one size",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """One site a script: where its first convolutional network is made."""
        if not script.backwards or is_switched_on(script):
            return
        if script.module not in script.entries or not any(sites_here(script, each) for _, each in script.backwards):
            return
        found = [
            (each, site)
            for each in script.models
            if each.value.site is not None and convolves(script, each)
            for site in sites_here(script, each.value.site)
        ]
        if found:
            # Rather one that is made when the script runs than one of a function that nothing calls.
            model, site = min(found, key=lambda each: not runs(script, each[1]))
            yield self._site(script, model, site, [each for _, each in found])

    def _site(self, script: Script, model: Model, site: ast.AST, others: Sequence[ast.AST]) -> Finding:
        """The site; where torch is imported only after it, as cells of a notebook do, the flag is set at another."""
        module = script.module
        other = optional(script)
        free = None if other is None else _insertion(script, other, (site, *others))
        varies = why_size_varies(script, model, few_will_do=True)
        reason = _why_no_cuda(script) or why_decided(script, other if free is not None else None)
        if reason is None and varies is not None:
            reason = varies.following("input size not provably fixed: ")
        if reason is not None:
            return self.left(module, site, reason)
        if free is not None:
            return self.rewrites(module, site, _MESSAGE, free)
        switch = place_of_switch(script, (site, *others), _FLAG, can_import)
        if switch is None:
            text = "torch.backends.cudnn cannot be named before the model is made"
            return self.left(module, site, Reason("no-name", text))
        edits: list[Edit] = [Import(module, "import torch")] if switch.needs_import else []
        edits.append(Insert(module, switch.anchor, f"{switch.lead}{switch.name} = True", "after"))
        return self.rewrites(module, site, _MESSAGE, *edits)


def _why_no_cuda(script: Script) -> Reason | None:
    """Why the flag would do nothing; Accelerate trains on CUDA where it is found."""
    if script.may_use_cuda or script.is_accelerated:
        return None
    return unknown_device(script, script.transfers) or no_cuda(script)


# Where a colleague would set the flag.


def _insertion(script: Script, other: ast.If, sites: Sequence[ast.AST]) -> Insert | AddElse | None:
    """The flag where an option is not given that is off by default: in the ``else``."""
    module = script.module
    is_before = any(dominates(module, other, frame) for site in sites for frame in frames(script, site))
    flag = script.spelled(module, _FLAG, other)
    if not is_before or flag is None or is_repeated(module, other) or starts_processes(script):
        return None
    if not other.orelse:
        return AddElse(module, other, f"{flag} = True")
    is_chain = isinstance(other.orelse[0], ast.If) and len(other.orelse) == 1
    return None if is_chain else Insert(module, other.orelse[-1], f"{flag} = True", "after")
