"""The one qualified name of what an import binds, whatever the script calls it."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.facts.source import Module

BUILTINS = frozenset(dir(builtins)) - {"_"}

# Where a name is defined → where PyTorch documents it. Longest prefix first.
_CANONICAL = (
    ("torch.utils.data.dataloader.", "torch.utils.data."),
    ("torch.utils.data.dataset.", "torch.utils.data."),
    ("torch.utils.data.sampler.", "torch.utils.data."),
    ("torch.utils.data.distributed.", "torch.utils.data."),
    ("torch.cuda.amp.grad_scaler.", "torch.amp."),
    ("torch.cuda.amp.GradScaler", "torch.amp.GradScaler"),
    ("torch.autograd.grad_mode.", "torch."),
    ("torch.autograd.variable.", "torch.autograd."),
    ("torch.autograd.no_grad", "torch.no_grad"),
    ("torch.autograd.enable_grad", "torch.enable_grad"),
    ("torch.autograd.set_grad_enabled", "torch.set_grad_enabled"),
    ("torch.nn.parameter.", "torch.nn."),
    ("torch.nn.parallel.DataParallel", "torch.nn.DataParallel"),
    ("torch.nn.parallel.data_parallel.", "torch.nn."),
    ("torch.nn.utils.clip_grad.", "torch.nn.utils."),
    ("torchvision.transforms.transforms.", "torchvision.transforms."),
    ("torchvision.transforms.v2.", "torchvision.transforms."),
)
# torch.optim.adam.Adam, torch.nn.modules.conv.Conv2d, torchvision.models.resnet.resnet18, torchvision.datasets.mnist.MNIST
_FLATTENED = ("torch.nn.modules.", "torch.optim.", "torchvision.models.", "torchvision.datasets.")
_KEPT_PACKAGES = frozenset({"lr_scheduler", "swa_utils", "detection", "segmentation", "video", "quantization", "optical_flow"})

# What `from X import *` is taken to bind: the names that the facts know. A name that the module binds itself wins.
_STAR = {
    "torch": frozenset({"no_grad", "device", "tensor", "as_tensor", "from_numpy", "randn", "rand", "zeros", "ones", "cuda", "nn", "optim"}),
    "torch.nn": frozenset(
        {"Module", "Sequential", "ModuleList", "Linear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose2d", "BatchNorm1d"}
        | {"BatchNorm2d", "ReLU", "LeakyReLU", "Sigmoid", "Tanh", "Dropout", "Embedding", "LSTM", "GRU", "RNN", "MSELoss"}
        | {"CrossEntropyLoss", "BCELoss", "BCEWithLogitsLoss", "L1Loss", "NLLLoss", "DataParallel", "MaxPool2d", "Softmax"}
    ),
    "torch.optim": frozenset({"Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "Adadelta", "LBFGS", "Adamax", "lr_scheduler"}),
    "torch.utils.data": frozenset(
        {"DataLoader", "Dataset", "IterableDataset", "TensorDataset", "Subset", "ConcatDataset", "random_split"}
    ),
    "torchvision": frozenset({"datasets", "transforms", "models", "utils"}),
    "torchvision.transforms": frozenset({"Compose", "ToTensor", "Normalize", "Resize", "CenterCrop", "RandomCrop"}),
    "torchvision.datasets": frozenset({"MNIST", "CIFAR10", "CIFAR100", "ImageFolder"}),
    "torch.autograd": frozenset({"Variable", "grad"}),
}


def canonical(name: str) -> str:
    """The name under which PyTorch documents what ``name`` is: ``torch.optim.adam.Adam`` → ``torch.optim.Adam``."""
    for prefix, replacement in _CANONICAL:
        if name.startswith(prefix):
            return replacement + name[len(prefix) :]
    for prefix in _FLATTENED:
        if name.startswith(prefix):
            package, _, rest = name[len(prefix) :].partition(".")
            if rest and package.islower() and package not in _KEPT_PACKAGES:
                return ("torch.nn." if prefix == "torch.nn.modules." else prefix) + rest
    return name


def star_names(module: Module) -> dict[str, str]:
    """Names that the module's star imports are taken to bind → their qualified names."""
    found: dict[str, str] = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and not node.level and node.names[0].name == "*":
            for name in _STAR.get(node.module or "", ()):
                found[name] = canonical(f"{node.module}.{name}")
    return found


def imported(node: ast.Import | ast.ImportFrom, package: str = "") -> Iterator[tuple[str, str]]:
    """What an import statement binds: (name in the module, dotted name of what it is).

    Args:
        node: the statement; star imports bind nothing here.
        package: the dotted name of the package that the module is in, for relative imports.
    """
    for alias in node.names:
        if isinstance(node, ast.Import):
            if alias.asname:
                yield alias.asname, alias.name
            else:
                yield alias.name.partition(".")[0], alias.name.partition(".")[0]
        elif alias.name != "*":
            yield alias.asname or alias.name, f"{source(node, package)}.{alias.name}"


def source(node: ast.ImportFrom, package: str = "") -> str:
    """The dotted name of the module that a ``from`` import reads."""
    if not node.level:
        return node.module or ""
    parts = package.split(".") if package else []
    parents = parts[: len(parts) - node.level + 1]
    return ".".join([*parents, node.module] if node.module else parents) or "."


def bound_names(scope: ast.AST) -> frozenset[str]:
    """Every name that the scope's own code binds: assignments, loops, imports, definitions, ``with … as``, ``except … as``.

    Args:
        scope: a module, function, lambda or class. Nested functions and classes are not entered; comprehensions are no
            scope here, since their targets cannot be read outside them.
    """
    names: set[str] = set()
    todo: list[ast.AST] = []
    if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        arguments = scope.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            names.add(argument.arg)
        names.update(each.arg for each in (arguments.vararg, arguments.kwarg) if each)
        todo.extend([scope.body] if isinstance(scope, ast.Lambda) else scope.body)
    else:
        todo.extend(ast.iter_child_nodes(scope))
    outer: set[str] = set()
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, (ast.Store, ast.Del)):
                names.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
            todo.extend(node.decorator_list)
            continue
        elif isinstance(node, ast.Lambda):
            continue
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update(name for name, _ in imported(node))
            continue
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
        elif isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names.add(node.rest)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            outer.update(node.names)
        todo.extend(ast.iter_child_nodes(node))
    return frozenset(names - outer)


def declared_outer(scope: ast.AST) -> frozenset[str]:
    """The names that a function declares ``global`` or ``nonlocal``."""
    names: set[str] = set()
    todo = list(ast.iter_child_nodes(scope))
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            names.update(node.names)
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            todo.extend(ast.iter_child_nodes(node))
    return frozenset(names)
