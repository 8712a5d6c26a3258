"""Rule ``gpu-normalize``: images travel as the bytes that they are, and the device normalises whole batches."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeAlias

from codemods.codemod import UNMEASURED, Codemod, Default, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.dataflow.placement import dominates
from codemods.editing.naming import written
from codemods.editing.values import Insert, Remove, RemoveItem, Replace, Surround
from codemods.facts.data.normalizing import normalized_images
from codemods.facts.data.normalizing_places import (
    given_name,
    home_before_loops,
    home_of_all,
    made_for,
    numbers_at,
    why_unsure,
)
from codemods.facts.reason import HERE, Reason, at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.codemod import Finding
    from codemods.editing.values import Edit
    from codemods.facts.data.normalize_steps import Normalized
    from codemods.facts.data.normalizing import Moved, Together
    from codemods.facts.script import Script

_MESSAGE = "each image is converted and normalised on the host, and is four times as large on its way to the device"
_PIL_TO_TENSOR = "torchvision.transforms.PILToTensor"
_Key: TypeAlias = "tuple[tuple[float, ...], tuple[float, ...]]"
_NAMES = (("mean", "std"), ("image_mean", "image_std"), ("pixel_mean", "pixel_std"))


class GpuNormalize(Codemod):
    """Sends images as bytes and normalises batches on the device (``ToTensor`` and ``Normalize`` → ``PILToTensor``).

    Why it is faster:
        ``ToTensor`` and ``Normalize`` make 32-bit floats of the images, one by one and on the host: 290 µs for one of
        CIFAR, where ``PILToTensor`` takes 60 µs, and 810 µs where it takes 120 µs for 224 x 224 pixels (torch 2.15, one
        core that others used, too). Workers then hand on a quarter of the bytes, and as many are pinned and copied. The
        device does the same arithmetic with whole batches.

        ``transforms.Normalize`` would do it there in one line, and wait: it makes tensors of its numbers and asks
        ``(std == 0).any()``, so that the host waits for the device three times a batch (each of the two calls waits for
        all work that is queued: seen on an H100). The numbers are put on the device before the loop; one number for all
        channels needs no tensor.

        What is left is to be had where the loop waits for its data: see ``torchfast profile``. Where small images are
        the same in each epoch, ``dataset-materialize`` saves more.

    When it is left:
        Something stands between ``ToTensor`` and ``Normalize`` or behind them, such as ``RandomErasing``, or a step
        before them is not torchvision's. The data set is the project's own, or its images may have more than 8 bits.
        The data set or the transform is used otherwise than through loaders; images are used before they are on the
        device, such as to be shown; a loader has a ``collate_fn``. Channels have numbers of their own, and it is not
        sure before the loop that there is CUDA, as it moves its batches under a condition. Of all transforms, data sets
        and loaders whose images get to the same place each changes, or none.

    Results:
        The same formula in 32 bits: on the CPU the same numbers bit for bit, on CUDA other ones in the last bit, as it
        multiplies by 1/255. Where there is no GPU nothing is gained: a batch is then normalised in the main process.

        Batches of the loader hold bytes from 0 to 255. What is added to the script later has to know that.

    References:
        torchvision, "Transforms: performance considerations"; ``PILToTensor``, ``Normalize``.
    """

    promise = Promise.PRECISION
    default = Default.OPT_IN
    gain = UNMEASURED
    # Older ones may stack images whose axes were permuted to a batch that lies in memory in another order.
    min_torch = (2, 0)
    needs_cuda = True
    phases = frozenset({Phase.DATA, Phase.COPIES, Phase.EVALUATION})
    causes = words(
        """
        batches-not-moved framework images-used-elsewhere no-cuda no-name not-normalized-last other-accelerator
        other-arguments other-images other-module other-precision own-loader-class read-once unknown-arguments
        unknown-dataset unknown-device unknown-images unknown-reading unknown-transform converted-on-host
        """
    )
    examples = (
        Rewrites(
            before="""\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

device = torch.device("cuda")
transform = transforms.Compose([
    transforms.RandomHorizontalFlip(),
    transforms.ToTensor(),
    transforms.Normalize((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
])
train_set = datasets.CIFAR10("data", transform=transform)
train_loader = DataLoader(train_set, batch_size=128, shuffle=True, num_workers=4)
for epoch in range(10):
    for images, labels in train_loader:
        images, labels = images.to(device), labels.to(device)
""",
            after="""\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

device = torch.device("cuda")
transform = transforms.Compose([
    transforms.RandomHorizontalFlip(),
    transforms.PILToTensor(),
])
train_set = datasets.CIFAR10("data", transform=transform)
train_loader = DataLoader(train_set, batch_size=128, shuffle=True, num_workers=4)
mean = torch.tensor((0.4914, 0.4822, 0.4465), device=device).view(-1, 1, 1)
std = torch.tensor((0.2023, 0.1994, 0.2010), device=device).view(-1, 1, 1)
for epoch in range(10):
    for images, labels in train_loader:
        images, labels = images.to(device), labels.to(device)
        images = images.float().div_(255).sub_(mean).div_(std)
""",
        ),
        Rewrites(
            before="""\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,), (0.5,))])
loader = DataLoader(datasets.ImageFolder("data", transform=transform), batch_size=64, num_workers=4)
for images, labels in loader:
    images = images.cuda()
""",
            after="""\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

transform = transforms.Compose([transforms.PILToTensor()])
loader = DataLoader(datasets.ImageFolder("data", transform=transform), batch_size=64, num_workers=4)
for images, labels in loader:
    images = images.cuda()
    images = images.float().div_(255).sub_(0.5).div_(0.5)
""",
        ),
        Leaves(
            code="""\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

transform = transforms.Compose([
    transforms.ToTensor(),
    transforms.Normalize((0.5,), (0.5,)),
    transforms.RandomErasing(),
])
loader = DataLoader(datasets.ImageFolder("data", transform=transform), batch_size=64, num_workers=4)
for images, labels in loader:
    images = images.cuda()
""",
            because="'transforms.RandomErasing()' follows Normalize (line 8)",
        ),
        Leaves(
            code="""\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
loader = DataLoader(datasets.MNIST("data", transform=transform), batch_size=64)
for images, labels in loader:
    print(images.mean())
    images = images.cuda()
""",
            because="its images are used before they are on the device (line 8), where they are not normalised yet",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every transform of the module that normalises the images of a data set."""
        found = list(normalized_images(script))
        numbers = _Numbers(script, [each for _, each in found if not isinstance(each, Reason)])
        for call, each in found:
            edits = each if isinstance(each, Reason) else _edits(script, each, numbers)
            if isinstance(edits, Reason):
                yield self.left(script.module, call, edits)
            else:
                yield self.rewrites(script.module, call, _MESSAGE, *edits)


def _edits(script: Script, together: Together, numbers: _Numbers) -> list[Edit] | Reason:
    edits: list[Edit] = []
    for transform in together.transforms:
        new = _to_tensor(script, transform)
        if isinstance(new, Reason):
            return new
        edits += new
    edits += [Remove(script.module, each) for each in made_for(script, together)]
    for move in together.moves:
        made = numbers.of(move)
        if isinstance(made, Reason):
            return made
        edits += [*made[0], _normalizing(move, made[1])]
    return edits


def _to_tensor(script: Script, transform: Normalized) -> list[Edit] | Reason:
    """``[…, ToTensor(), Normalize(…)]`` → ``[…, PILToTensor()]``."""
    module, function = transform.module, transform.to_tensor.func
    item = RemoveItem(module, transform.steps, transform.normalize)
    if isinstance(function, ast.Attribute):
        return [Replace(module, function, f"{module.code(function.value)}.PILToTensor"), item]
    name = written(script, module, _PIL_TO_TENSOR, function)
    if name is None:
        return Reason("no-name", "PILToTensor cannot be named where the transform is made")
    return [*name[1], Replace(module, function, name[0]), item]


def _normalizing(move: Moved, end: str) -> Edit:
    """What normalises a batch below the statement that moves it, or in that where it gets no name of its own."""
    module, call, name = move.transfer.module, move.transfer.call, given_name(move)
    if name is None:
        return Surround(module, call, "", end)
    return Insert(module, module.statement(call), f"{name} = {name}{end}", "after")


class _Numbers:
    """How batches are normalised: by a number, or by tensors that are made on the device before the loops."""

    def __init__(self, script: Script, several: Sequence[Together]) -> None:
        self._script = script
        self._module = script.module
        self._names = self._free_names(several)
        self._made: dict[ast.AST | None, list[Insert]] = {}
        """What is made in each function, in the order of the text."""
        self._homes = {key: home_of_all(script, [each for each in several if _key(each) == key]) for key in self._names}
        self._found: dict[ast.Call, tuple[list[Insert], str] | Reason] = {}
        moves = {move.transfer.call: (move, each) for each in several for move in each.moves}
        for call in sorted(moves, key=self._module.span):
            self._found[call] = self._of(*moves[call])

    def of(self, move: Moved) -> tuple[list[Insert], str] | Reason:
        """What makes the tensors, and what follows a batch of bytes: ``.float().div_(255).sub_(mean).div_(std)``."""
        return self._found[move.transfer.call]

    def _free_names(self, several: Sequence[Together]) -> dict[_Key, tuple[str, str]]:
        """Names of the numbers of the channels, where these differ, that nothing in the module has."""
        module = self._module
        taken = {each.id for each in module.nodes(ast.Name)} | {each.arg for each in module.nodes(ast.arg)}
        taken |= {each.name for each in module.nodes(ast.FunctionDef, ast.ClassDef)}
        taken |= {each.asname or each.name for each in module.nodes(ast.alias)}
        free = [pair for pair in _NAMES if taken.isdisjoint(pair)]
        keys = dict.fromkeys(_key(each) for each in several)
        return dict(zip((each for each in keys if len(each[0]) > 1 or len(each[1]) > 1), free, strict=False))

    def _of(self, move: Moved, together: Together) -> tuple[list[Insert], str] | Reason:
        names = self._names.get(_key(together))
        end, inserts = ".float().div_(255)", list[Insert]()
        for index, method in enumerate(("sub_", "div_")):
            numbers = _key(together)[index]
            text = repr(numbers[0])
            if len(numbers) > 1:
                if names is None:
                    return Reason("no-name", "no name is free for the means and standard deviations of the channels")
                made = self._tensor(move, together, names[index], index)
                if isinstance(made, Reason):
                    return made
                inserts.append(made)
                text = names[index]
            end += f".{method}({text})"
        return inserts, end

    def _tensor(self, move: Moved, together: Together, name: str, index: int) -> Insert | Reason:
        """What makes a tensor of the channels' numbers on the device before the loops around a move."""
        home = self._homes[_key(together)] or home_before_loops(self._script, move)
        torch = self._script.spelled(self._module, "torch.tensor", home.statement) if home is not None else None
        if home is None or torch is None:
            text = f"the device of the move cannot be named before the loop ({HERE})"
            return Reason("no-name", text, (at(self._module, move.loop),))
        unsure = why_unsure(self._script, move, home.statement)
        if unsure is not None:
            return unsure
        numbers = numbers_at(self._script, together.transforms[0], index, home.statement)
        code = f"{name} = {torch}({numbers}, device={home.device}).view(-1, 1, 1)"
        made = self._made.setdefault(self._module.function(home.statement), [])
        same = [each for each in made if each.code.partition(" ")[0] == name]
        if any(each.code != code for each in same):
            text = f"the same function needs the channels' numbers on another device, too ({HERE})"
            return Reason("no-name", text, (at(self._module, same[0].anchor),))
        for each in same:
            if each.anchor is home.statement or dominates(self._module, each.anchor, home.statement):
                return each
        made.append(Insert(self._module, home.statement, code, "before"))
        return made[-1]


def _key(together: Together) -> _Key:
    """The numbers by which images are normalised: the same for all of them."""
    return together.transforms[0].means, together.transforms[0].deviations
