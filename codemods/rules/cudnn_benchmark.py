"""Rule ``cudnn-benchmark``: cuDNN measures which convolution algorithm is fastest for the sizes at hand."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from codemods.codemod import Codemod, Leaves, Promise, Rewrites
from codemods.dataflow import names
from codemods.dataflow.names import words
from codemods.dataflow.placement import dominates
from codemods.dataflow.source import FUNCTIONS, is_main_guard, walk
from codemods.dataflow.values import NONE, Sort, why_unknown, without_none
from codemods.editing.values import Insert
from codemods.facts.data.collation import has_one_size
from codemods.facts.devices.devices import DeviceKind, device
from codemods.facts.loops import module_of
from codemods.facts.precision.hazards import no_cuda, unknown_device
from codemods.facts.reason import HERE, Reason, at
from codemods.library.kinds import Kind, kind
from codemods.library.packages import Trait, has
from codemods.library.processes import starts_training
from codemods.library.seeds import seeded_by

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.codemod import Finding
    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Values
    from codemods.facts.models.layers import Model
    from codemods.facts.script import Script

_FLAG = "torch.backends.cudnn.benchmark"
_MESSAGE = "cuDNN guesses the convolution algorithms instead of measuring them"
_SMALL = 12
"""Statements of a helper that seeds; a longer function that seeds first is none."""
_RESIZING = (".interpolate", ".functional.resize", ".functional.crop", ".functional.resized_crop")
_DIMENSIONS = 3
"""Indices that reach the rows and columns of images: ``x[..., top:bottom, left:right]`` at the least."""
_SEEDING = re.compile(r"seed|determin|reproduc", re.IGNORECASE)


class CudnnBenchmark(Codemod):
    """Lets cuDNN measure which convolution algorithm is fastest (``torch.backends.cudnn.benchmark = True``).

    Why it is faster:
        For each new size of input cuDNN tries its algorithms once and keeps the fastest. Heuristics choose otherwise,
        which on older GPUs is often far from the best. It pays only where the sizes stay the same.

    When it is left:
        The size of the images is not provably fixed: each new size is measured again, which takes longer than it saves.
        It is fixed where transforms make it so, and where several images that are shuffled are stacked to a batch.
        The script asks for determinism (the measured choice differs from run to run). The flag is written already.

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
        if not script.backwards or any(_is_true(value) for _, _, value in _settings(script)):
            return
        if script.module not in script.entries or not any(_sites_here(script, each) for _, each in script.backwards):
            return
        found = [
            (each, site)
            for each in script.models
            if each.has_convolution and each.value.site is not None
            for site in _sites_here(script, each.value.site)
        ]
        if found:
            # Rather one that is made when the script runs than one of a function that nothing calls.
            model, site = min(found, key=lambda each: not _runs(script, each[1]))
            yield self._site(script, model, site, [each for _, each in found])

    def _site(self, script: Script, model: Model, site: ast.AST, others: Sequence[ast.AST]) -> Finding:
        """The site; where torch is imported only after it, as cells of a notebook do, the flag is set at another."""
        module = script.module
        reason = _why_no_cuda(script) or _why_decided(script) or _why_size_varies(script, model)
        if reason is not None:
            return self.left(module, site, reason)
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


def _settings(script: Script) -> Iterator[tuple[Module, ast.AST, ast.expr | None]]:
    """Where the flag is set, to what: ``cudnn.benchmark = …``, ``cudnn.flags(…)``."""
    for module in script.modules:
        for statement in module.nodes(ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Attribute) and target.attr == "benchmark" and script.is_cudnn(target.value):
                    yield module, statement, statement.value
        for call in module.nodes(ast.Call):
            named = len(call.args) > 1 and isinstance(call.args[1], ast.Constant)
            if named and script.sets_attribute(call, "benchmark") and script.is_cudnn(call.args[0]):
                yield module, call, call.args[2]
            if any(each.name == "torch.backends.cudnn.flags" for each in script.flow.values(call.func)):
                yield module, call, next((each.value for each in call.keywords if each.arg == "benchmark"), None)


def _is_true(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and bool(value.value)


def _why_decided(script: Script) -> Reason | None:
    """Why the script decides otherwise, or may: it asks for determinism, or sets the flag."""
    if script.determinism is not None:
        return Reason("determinism", f"determinism requested ({HERE})", (at(*script.determinism),))
    for module, node, value in _settings(script):
        said = "to False" if isinstance(value, ast.Constant) else "by a choice of the script's own"
        return Reason("script-decides", f"the flag is set {said} ({HERE})", (at(module, node),))
    for module in script.modules:
        for statement in module.nodes(ast.Assign):
            for target in statement.targets:
                switch = (
                    isinstance(target, ast.Attribute) and target.attr == "enabled" and script.is_cudnn(target.value)
                )
                if switch and not _is_true(statement.value):
                    return Reason("script-decides", f"cuDNN is switched off ({HERE})", (at(module, statement),))
        for call in module.nodes(ast.Call):
            name = _unread_seeding(script, call)
            if name is not None:
                text = f"{name}(), which was not read, may ask for determinism ({HERE})"
                return Reason("determinism", text, (at(module, call),))
    return None


def _unread_seeding(script: Script, call: ast.Call) -> str | None:
    """The name of a function of a file that was not read, where it seems to seed: ``utils.set_seed``."""
    for callee in script.flow.values(call.func):
        name = ast.unparse(call.func) if callee.sort is Sort.UNKNOWN else callee.name
        is_unread = callee.sort in {Sort.EXTERNAL, Sort.UNKNOWN} and not has(name, Trait.SEEDS)
        if is_unread and _SEEDING.search(name.rpartition(".")[2]):
            return name
    return None


def _why_size_varies(script: Script, model: Model) -> Reason | None:
    reason = _size_varies(script, model)
    return None if reason is None else reason.following("input size not provably fixed: ")


def _size_varies(script: Script, model: Model) -> Reason | None:
    if model.takes_any_size:
        return Reason("size-not-fixed", "the model is made for images that differ in size")
    if not script.loaders:
        unknown = [why_unknown(each.sources) for each in script.transfers]
        text = min((each for each in unknown if each is not None), default="no DataLoader is seen")
        return Reason("size-not-fixed", text)
    feeding = [each for each in script.loaders if each.transfers or each.converted]
    for loader in feeding or script.loaders:
        reason = loader.unknown_arguments or loader.dataset.why_size_varies
        if reason is not None and has_one_size(script, loader):
            continue
        if reason is not None:
            return reason
        collate = loader.arguments.get("collate_fn")
        if collate is not None and collate.values != {NONE} and not _stacks(script, collate.values):
            text = f"the loader in {HERE} has a collate_fn of its own"
            return Reason("size-not-fixed", text, (at(loader.module, loader.call),))
    return _why_images_change(script)


def _why_images_change(script: Script) -> Reason | None:
    """Where batches get another size between the loader and the model."""
    for module in script.modules:
        for call in module.nodes(ast.Call):
            resizes = any(
                each.name.endswith(_RESIZING) for each in script.flow.values(call.func) if each.sort is Sort.EXTERNAL
            )
            if resizes and not _in_model(script, module, call):
                return Reason("size-not-fixed", f"images are resized ({HERE})", (at(module, call),))
        for crop in module.nodes(ast.Subscript):
            if _cuts_to_a_computed_size(crop) and not _in_model(script, module, crop):
                return Reason("size-not-fixed", f"images are cropped ({HERE})", (at(module, crop),))
        for statement in module.nodes(ast.Assign):
            if any(isinstance(target, ast.Attribute) and target.attr == "transform" for target in statement.targets):
                owner = module.function(statement)
                if owner is None or getattr(owner, "name", "") != "__init__":
                    text = f"the transform of a data set is replaced ({HERE})"
                    return Reason("size-not-fixed", text, (at(module, statement),))
    return None


def _cuts_to_a_computed_size(node: ast.Subscript) -> bool:
    """Whether it may cut images, ``x[:, :, :size, :size]``, by bounds that are no plain numbers."""
    is_read = isinstance(node.ctx, ast.Load)
    if not is_read or not isinstance(node.slice, ast.Tuple) or len(node.slice.elts) < _DIMENSIONS:
        return False
    images = node.slice.elts[-2:]
    bounds = [each for part in images if isinstance(part, ast.Slice) for each in (part.lower, part.upper, part.step)]
    return any(each is not None and not isinstance(each, (ast.Constant, ast.UnaryOp)) for each in bounds)


def _stacks(script: Script, collates: Values) -> bool:
    """Whether each of the functions stacks images as they are, which have to be of one size for it."""
    return all(
        isinstance(each.site, FUNCTIONS)
        and any(
            callee.name == "torch.stack"
            for call in walk(each.site)
            if isinstance(call, ast.Call)
            for callee in script.flow.values(call.func)
        )
        for each in without_none(collates)
    )


def _in_model(script: Script, module: Module, node: ast.AST, depth: int = 3) -> bool:
    """Whether the node runs in a method of a model and nowhere else, where sizes follow from the input's."""
    classes = [each for each in module.ancestors(node) if isinstance(each, ast.ClassDef)]
    if any(kind(script.flow, script.instance_of(each)) is Kind.MODEL for each in classes):
        return True
    function = module.function(node)
    callers = script.flow.callers(function) if function is not None and depth else ()
    return bool(callers) and all(_in_model(script, module_of(script.flow, each), each, depth - 1) for each in callers)


# Where a colleague would set the flag.


def _sites_here(script: Script, site: ast.AST) -> Sequence[ast.AST]:
    """The site itself where it stands in the module, or else the calls and the imports there that lead to it."""
    found: dict[ast.AST, None] = {}
    todo = [site]
    seen: set[ast.AST] = set()
    while todo:
        here = todo.pop(0)
        module = next((each for each in script.modules if each.holds(here)), None)
        if module is None or here in seen:
            continue
        seen.add(here)
        function = module.function(here)
        if module is script.module:
            found[here] = None
        elif function is not None:
            todo += script.flow.callers(function)
        else:
            imports = script.module.nodes(ast.Import, ast.ImportFrom)
            found.update(dict.fromkeys(each for each in imports if module.name in _modules_read(script.module, each)))
    return list(found)


def _modules_read(module: Module, node: ast.Import | ast.ImportFrom) -> frozenset[str]:
    """The dotted names, in the project, of what an import may read: ``a.b`` and ``a`` of ``from a import b``."""
    targets = [module.resolved(target) for _, target in names.imported(node, module.package)]
    return frozenset([*targets, *(each.rpartition(".")[0] for each in targets)])


def _place(script: Script, site: ast.AST) -> ast.stmt | None:
    """The statement after which it goes: the last seed, else where ``main()`` finds its device, else the imports."""
    module = script.module
    frames = list(_frames(script, site))
    if _starts_processes(script):
        return _last_import(script, frames[-1])  # a new process runs the module, not what called its function
    all_seeds = [each for each in module.nodes(ast.Expr) if _seeds(script, each) and not _is_repeated(module, each)]
    for frame in frames:
        seeds = [each for each in all_seeds if dominates(module, each, frame)]
        if seeds:
            return _last_of_run(script, seeds[-1])
    functions = [each for each in frames if module.function(each) is not None]
    in_guard = any(is_main_guard(each) for each in module.ancestors(frames[-1]) if isinstance(each, ast.stmt))
    if functions or in_guard:
        frame = functions[-1] if functions else frames[-1]
        devices = [
            each for each in module.nodes(ast.Assign) if _finds_device(script, each) and dominates(module, each, frame)
        ]
        if devices:
            return devices[-1]
    return _last_import(script, frames[-1])


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


def _runs(script: Script, site: ast.AST) -> bool:
    return script.module.function(list(_frames(script, site))[-1]) is None


def _frames(script: Script, site: ast.AST) -> Iterator[ast.stmt]:
    """The statement of the site, the one that calls its function, and so on outwards, while there is one such call."""
    module = script.module
    seen: set[ast.AST] = set()
    node: ast.AST | None = site
    while node is not None:
        statement = module.statement(node)
        yield statement
        function = module.function(statement)
        calls = script.flow.callers(function) if function is not None and function not in seen else ()
        seen.add(function or module.tree)
        node = calls[0] if len(calls) == 1 and module.holds(calls[0]) else None


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
    body = module.tree.body[: module.tree.body.index(tops[-1])]
    last: ast.stmt | None = None
    for statement in body:
        inner = statement.body if isinstance(statement, ast.Try) else [statement]
        if any(isinstance(each, (ast.Import, ast.ImportFrom)) for each in inner):
            if script.spelled(module, _FLAG, _following(module, statement)) is not None:
                last = statement
        elif last is not None and not isinstance(statement, ast.Expr):
            break
    return last


def _following(module: Module, place: ast.stmt) -> ast.stmt:
    """The statement before which the flag comes to stand."""
    suite = module.suite(place)
    return suite[min(suite.index(place) + 1, len(suite) - 1)]
