"""Rule ``cudnn-benchmark``: cuDNN measures which convolution algorithm is fastest for the sizes at hand."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.declaration import Codemod, Leaves, Promise, Rewrites
from codemods.edit_values import Insert
from codemods.facts.kinds import Kind, kind
from codemods.facts.placement import dominates
from codemods.facts.values import NONE, Sort

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.declaration import Finding
    from codemods.facts.models import Model
    from codemods.facts.script import Script

_FLAG = "torch.backends.cudnn.benchmark"
_MESSAGE = "cuDNN guesses the convolution algorithms instead of measuring them"
_SEEDS = frozenset(
    {"torch.manual_seed", "torch.cuda.manual_seed", "torch.cuda.manual_seed_all", "torch.random.manual_seed"}
    | {"numpy.random.seed", "random.seed", "torch.seed"}
)


class CudnnBenchmark(Codemod):
    """Lets cuDNN measure which convolution algorithm is fastest (``torch.backends.cudnn.benchmark = True``).

    Why it is faster:
        For each new size of input cuDNN tries its algorithms once and keeps the fastest. Heuristics choose otherwise,
        which on older GPUs is often far from the best. It pays only where the sizes stay the same.

    When it is left:
        The size of the images is not provably fixed: each new size is measured again, which takes longer than it saves.
        The script asks for determinism (the measured choice differs from run to run). The flag is written already.

    Results:
        Another algorithm may round otherwise. Nothing changes without CUDA.

    References:
        PyTorch performance tuning guide, "Enable cuDNN auto-tuner"; notes/randomness, "CUDA convolution benchmarking".
    """

    promise = Promise.PRECISION
    gain = "0-15 %"
    needs_cuda = True
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
            because="input size not provably fixed: the images of torchvision.datasets.ImageFolder() are not cropped to one size",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """One site a script: where its first convolutional network is made."""
        model = next((each for each in script.models if each.has_convolution and each.value.site is not None), None)
        if model is None or not script.backwards or not script.may_use_cuda or self._is_set(script):
            return
        site = model.value.site
        if site is not None and script.entry.holds(site):
            yield self._site(script, model, site)

    def _is_set(self, script: Script) -> bool:
        """Whether the flag is written, either way."""
        return any(
            isinstance(target, ast.Attribute) and target.attr == "benchmark" and script.is_cudnn(target.value)
            for module in script.modules
            for node in module.nodes(ast.Assign)
            for target in node.targets
        )

    def _site(self, script: Script, model: Model, site: ast.AST) -> Finding:
        module = script.entry
        reason = self._why_not(script, model)
        if reason is not None:
            return self.left(module, site, because=reason)
        anchor = self._anchor(script, module.statement(site))
        flag = script.spelled(module, _FLAG, module.statement(site)) if anchor is not None else None
        if anchor is None or flag is None:
            return self.left(module, site, because="torch is not imported at the top of the file")
        after_imports = isinstance(anchor, (ast.Import, ast.ImportFrom))
        code = f"\n{flag} = True" if after_imports else f"{flag} = True"
        return self.rewrites(module, site, _MESSAGE, Insert(module, anchor, code, "after"))

    def _why_not(self, script: Script, model: Model) -> str | None:
        if script.determinism is not None:
            where, node = script.determinism
            place = f"line {node.lineno}" if where is script.entry else where.path  # type: ignore[attr-defined]
            return f"determinism requested ({place})"
        if model.takes_any_size:
            return "input size not provably fixed: the model is made for images that differ in size"
        feeding = [each for each in script.loaders if each.transfers or each.converted]
        if not feeding:
            return "input size not provably fixed: the batches do not come from a loader that can be seen"
        for loader in feeding:
            reason = loader.unknown_arguments or loader.dataset.why_size_varies
            if reason is not None:
                return f"input size not provably fixed: {reason}"
            collate = loader.arguments.get("collate_fn")
            if collate is not None and collate.values != {NONE}:
                return f"input size not provably fixed: the loader in line {loader.call.lineno} has a collate_fn of its own"
        for node in script.entry.nodes(ast.Call):
            if any(each.sort is Sort.EXTERNAL and each.name.endswith(".interpolate") for each in script.flow.values(node.func)):
                if script.entry.function(node) is None or not self._in_model(script, node):
                    return f"input size not provably fixed: images are resized (line {node.lineno})"
        return None

    def _in_model(self, script: Script, node: ast.AST) -> bool:
        """Whether the node stands in a method of a model, where sizes follow from the input's."""
        return any(
            isinstance(each, ast.ClassDef) and kind(script.flow, script.instance_of(each)) is Kind.MODEL for each in script.entry.ancestors(node)
        )

    def _anchor(self, script: Script, model: ast.stmt) -> ast.stmt | None:
        """The statement after which a colleague would set the flag: the last seed before the model, else the last import."""
        module = script.entry
        seeds = [
            statement
            for statement in module.nodes(ast.Expr)
            if isinstance(statement.value, ast.Call) and self._seeds(script, statement.value) and dominates(module, statement, model)
        ]
        if seeds:
            return seeds[-1]
        imports = [
            each for each in module.tree.body if isinstance(each, (ast.Import, ast.ImportFrom)) and each.lineno < self._top(script, model).lineno
        ]
        first_code = next((i for i, each in enumerate(module.tree.body) if not isinstance(each, (ast.Import, ast.ImportFrom, ast.Expr))), None)
        leading = [each for each in imports if first_code is None or module.tree.body.index(each) < first_code]
        return leading[-1] if leading else None

    def _seeds(self, script: Script, call: ast.Call) -> bool:
        """Whether the call sets a random seed, itself or in a function of the script."""
        for callee in script.flow.values(call.func):
            if callee.sort is Sort.EXTERNAL and callee.name in _SEEDS:
                return True
            if callee.sort is Sort.FUNCTION and isinstance(callee.site, ast.FunctionDef):
                inner = [each for each in ast.walk(callee.site) if isinstance(each, ast.Call)]
                small = len(callee.site.body) <= 12  # noqa: PLR2004 - a helper that seeds, not a main() that seeds first
                if small and any(value.sort is Sort.EXTERNAL and value.name in _SEEDS for each in inner for value in script.flow.values(each.func)):
                    return True
        return False

    def _top(self, script: Script, statement: ast.stmt) -> ast.stmt:
        """The top-level statement that holds the statement."""
        top: ast.stmt = statement
        for above in script.entry.ancestors(statement):
            if isinstance(above, ast.stmt):
                top = above
        return top
