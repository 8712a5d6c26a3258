"""Rule ``cudnn-benchmark``: cuDNN measures which convolution algorithm is fastest for the sizes at hand."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.codemod import Codemod, Leaves, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.dataflow.placement import dominates, means_the_same
from codemods.dataflow.source import is_main_guard, walk
from codemods.dataflow.values import Sort
from codemods.editing.values import Insert
from codemods.facts.devices.cudnn import is_switched_on, optional, why_decided
from codemods.facts.devices.devices import DeviceKind, device
from codemods.facts.leads import frames, runs, sites_here
from codemods.facts.models.image_sizes import why_size_varies
from codemods.facts.precision.hazards import no_cuda, unknown_device
from codemods.facts.reason import Reason
from codemods.library.processes import starts_training
from codemods.library.seeds import seeded_by

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.codemod import Finding
    from codemods.dataflow.source import Module
    from codemods.facts.devices.cudnn import OptionalBranch
    from codemods.facts.models.layers import Model
    from codemods.facts.script import Script

_FLAG = "torch.backends.cudnn.benchmark"
_MESSAGE = "cuDNN guesses the convolution algorithms instead of measuring them"
_SMALL = 12
"""Statements of a helper that seeds; a longer function that seeds first is none."""


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
    gain = "0-15 %"
    min_torch = (0, 2)
    needs_cuda = True
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
            if each.has_convolution and each.value.site is not None
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
        varies = why_size_varies(script, model)
        reason = _why_no_cuda(script) or why_decided(script, other if free is not None else None)
        if reason is None and varies is not None:
            reason = varies.following("input size not provably fixed: ")
        if reason is not None:
            return self.left(module, site, reason)
        if free is not None:
            return self.rewrites(module, site, _MESSAGE, free)
        places = (place for each in (site, *others) if (place := _place(script, each)) is not None)
        named = ((each, script.spelled(module, _FLAG, _following(module, each))) for each in places)
        place, flag = next((each for each in named if each[1] is not None), (None, None))
        if place is None:
            text = "torch.backends.cudnn cannot be named before the model is made"
            return self.left(module, site, Reason("no-name", text))
        after_imports = isinstance(place, (ast.Import, ast.ImportFrom, ast.Try))
        code = f"\n{flag} = True" if after_imports else f"{flag} = True"
        return self.rewrites(module, site, _MESSAGE, Insert(module, place, code, "after"))


def _why_no_cuda(script: Script) -> Reason | None:
    """Why the flag would do nothing; Accelerate trains on CUDA where it is found."""
    if script.may_use_cuda or script.is_accelerated:
        return None
    return unknown_device(script, script.transfers) or no_cuda(script)


# Where a colleague would set the flag.


def _insertion(script: Script, other: OptionalBranch, sites: Sequence[ast.AST]) -> Insert | None:
    """The flag where an option is not given that is off by default: in the ``else``, or under the denied test."""
    module, statement = other.module, other.statement
    is_before = any(dominates(module, statement, frame) for site in sites for frame in frames(script, site))
    flag = script.spelled(module, _FLAG, statement)
    if not is_before or flag is None or _is_repeated(module, statement) or _starts_processes(script):
        return None
    if statement.orelse:
        is_chain = isinstance(statement.orelse[0], ast.If) and len(statement.orelse) == 1
        return None if is_chain else Insert(module, statement.orelse[-1], f"{flag} = True", "after")
    if not means_the_same(script.flow, module, statement.test, _following(module, statement)):
        return None
    return Insert(module, statement, f"if {other.denied}:\n    {flag} = True", "after")


def _place(script: Script, site: ast.AST) -> ast.stmt | None:
    """The statement after which it goes: the last seed, else where ``main()`` finds its device, else the imports."""
    module = script.module
    around = list(frames(script, site))
    if _starts_processes(script):
        return _last_import(script, around[-1])  # a new process runs the module, not what called its function
    all_seeds = [each for each in module.nodes(ast.Expr) if _seeds(script, each) and not _is_repeated(module, each)]
    for frame in around:
        seeds = [each for each in all_seeds if dominates(module, each, frame)]
        if seeds:
            return _last_of_run(script, seeds[-1])
    functions = [each for each in around if module.function(each) is not None]
    in_guard = any(is_main_guard(each) for each in module.ancestors(around[-1]) if isinstance(each, ast.stmt))
    if functions or in_guard:
        frame = functions[-1] if functions else around[-1]
        devices = [
            each for each in module.nodes(ast.Assign) if _finds_device(script, each) and dominates(module, each, frame)
        ]
        if devices:
            return devices[-1]
    return _last_import(script, around[-1])


def _starts_processes(script: Script) -> bool:
    return any(
        starts_training(each.name)
        for module in script.modules
        for call in module.nodes(ast.Call)
        for each in script.flow.values(call.func)
        if each.sort is Sort.EXTERNAL
    )


def _is_repeated(module: Module, statement: ast.stmt) -> bool:
    """Whether the statement stands in a loop of its function."""
    for above in module.ancestors(statement):
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return False
        if isinstance(above, (ast.For, ast.AsyncFor, ast.While)):
            return True
    return False


def _seeds(script: Script, statement: ast.Expr) -> bool:
    """Whether the statement sets a random seed, itself or in a small function of the script."""
    if not isinstance(statement.value, ast.Call):
        return False
    for callee in script.flow.values(statement.value.func):
        if callee.sort is Sort.EXTERNAL and seeded_by(callee.name):
            return True
        helper = callee.site
        if callee.sort is Sort.FUNCTION and isinstance(helper, ast.FunctionDef) and len(helper.body) <= _SMALL:
            calls = [each.func for each in walk(helper) if isinstance(each, ast.Call)]
            if any(
                value.sort is Sort.EXTERNAL and seeded_by(value.name)
                for func in calls
                for value in script.flow.values(func)
            ):
                return True
    return False


def _last_of_run(script: Script, seed: ast.stmt) -> ast.stmt:
    """The last of the seeds that follow each other, a seed under an ``if`` among them."""
    suite = script.module.suite(seed)
    last = seed
    for statement in suite[suite.index(seed) + 1 :]:
        body = statement.body if isinstance(statement, ast.If) and not statement.orelse else [statement]
        if not all(isinstance(each, ast.Expr) and _seeds(script, each) for each in body):
            break
        last = statement
    return last


def _finds_device(script: Script, statement: ast.Assign) -> bool:
    found = device(script.flow, statement.value)
    named = any(isinstance(each, ast.Name) and "dev" in each.id.lower() for each in statement.targets)
    return named and found.kind in {DeviceKind.CUDA, DeviceKind.CONDITIONAL}


def _last_import(script: Script, frame: ast.stmt) -> ast.stmt | None:
    """The last import of the first run of imports that leads to torch; calls between imports do not end the run."""
    module = script.module
    tops = [frame, *(each for each in module.ancestors(frame) if isinstance(each, ast.stmt))]
    body = module.tree.body[: module.tree.body.index(_end(script, tops[-1]))]
    last: ast.stmt | None = None
    for statement in body:
        inner = statement.body if isinstance(statement, ast.Try) else [statement]
        if any(isinstance(each, (ast.Import, ast.ImportFrom)) for each in inner):
            if script.spelled(module, _FLAG, _following(module, statement)) is not None:
                last = statement
        elif last is not None and not isinstance(statement, ast.Expr):
            break
    return last


def _end(script: Script, top: ast.stmt) -> ast.stmt:
    """The statement before which the flag has to be set: where an import makes the model, that follows the imports.

    An import that trains needs the flag before it.
    """
    trains = {each for _, backward in script.backwards for each in sites_here(script, backward)}
    suite = script.module.suite(top)
    following = suite[suite.index(top) :]
    for statement in following:
        if not isinstance(statement, (ast.Import, ast.ImportFrom)) or statement in trains:
            return statement
    return top


def _following(module: Module, place: ast.stmt) -> ast.stmt:
    """The statement before which the flag comes to stand."""
    suite = module.suite(place)
    return suite[min(suite.index(place) + 1, len(suite) - 1)]
