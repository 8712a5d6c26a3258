"""The one qualified name of what an import binds, whatever the script calls it."""

from __future__ import annotations

import ast
import builtins
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.signatures import signature
from codemods.dataflow.source import FUNCTIONS, LEAVES, children, kept, lasting, walk

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from codemods.dataflow.source import Module

BUILTINS = frozenset(name for name in dir(builtins) if not name.startswith("_")) | {"__import__"}

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


def words(text: str) -> frozenset[str]:
    """A table of names, written as text."""
    return frozenset(text.split())


# torch.optim.adam.Adam, torch.nn.modules.conv.Conv2d, torchvision.models.resnet.resnet18
_FLATTENED = ("torch.nn.modules.", "torch.optim.", "torchvision.models.", "torchvision.datasets.")
_KEPT_PACKAGES = words("lr_scheduler swa_utils detection segmentation video quantization optical_flow")

# What `from X import *` is taken to bind where it is one star import of several: the names that the facts know.
_STAR = {
    "torch": words("no_grad device tensor as_tensor from_numpy randn rand zeros ones cuda nn optim"),
    "torch.nn": words(
        """
        Module Sequential ModuleList Linear Conv1d Conv2d Conv3d ConvTranspose2d BatchNorm1d BatchNorm2d ReLU LeakyReLU
        Sigmoid Tanh Dropout Embedding LSTM GRU RNN MSELoss CrossEntropyLoss BCELoss BCEWithLogitsLoss L1Loss NLLLoss
        DataParallel MaxPool2d Softmax
        """
    ),
    "torch.nn.functional": words("relu softmax log_softmax cross_entropy nll_loss mse_loss dropout max_pool2d"),
    "torch.optim": words("Adam AdamW SGD RMSprop Adagrad Adadelta LBFGS Adamax lr_scheduler"),
    "torch.utils.data": words("DataLoader Dataset IterableDataset TensorDataset Subset ConcatDataset random_split"),
    "torchvision": words("datasets transforms models utils"),
    "torchvision.transforms": words("Compose ToTensor Normalize Resize CenterCrop RandomCrop"),
    "torchvision.datasets": words("MNIST CIFAR10 CIFAR100 ImageFolder"),
    "torch.autograd": words("Variable grad"),
}

HIDDEN_BUILTINS = {"torch": words("abs all any bool compile complex float int max min pow range round sum")}
"""The builtins that star imports replace, of those that code is written with: ``float`` is a number format then."""


_LIST_OBJECTS = frozenset({"vars", "dir"})
_GIVE_MODULES = ("sys.modules", "import_module", "__import__", "import __main__", "import modules")


@lru_cache(maxsize=4096)
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


@lasting  # each name that nothing binds asks
def star_imports(module: Module) -> tuple[str, ...]:
    """The modules of which the module imports ``*``, in the order of the text."""
    return tuple(
        module.resolved(source(node, module.package))
        for node in module.nodes(ast.ImportFrom)
        if any(alias.name == "*" for alias in node.names)
    )


def star_name(name: str, sources: Sequence[str]) -> str | None:
    """What a name is that nothing in the module binds, where star imports of ``sources`` may bind it.

    The only star import of a module must be where such a name comes from; of several, the one that is known to have it.
    """
    for source_ in sources:
        if name in _STAR.get(source_, ()) or (len(sources) == 1 and source_ in _STAR):
            return canonical(f"{source_}.{name}")
    return None


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


class Scope(NamedTuple):
    """What the own code of a module, function, lambda or class says about names."""

    bound: frozenset[str]
    """The names that it binds, but for those that it declares ``global`` or ``nonlocal``."""
    global_: frozenset[str]
    nonlocal_: frozenset[str]
    outer_bound: frozenset[str]
    """Those of ``global`` and ``nonlocal`` that it binds itself."""
    local: frozenset[str]
    """The targets of its comprehensions, which are seen in them alone."""
    written: frozenset[str]
    """The attributes that it assigns, of whatever object."""
    yields: bool


def assigned(statement: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What an assignment binds, each with its value; those of ``a, b = c, d`` one by one."""
    for target in statement.targets:
        match target, statement.value:
            case ast.Tuple(targets), ast.Tuple(values) if len(targets) == len(values):
                yield from zip(targets, values, strict=True)
            case _:
                yield target, statement.value


def bound_names(scope: ast.AST) -> frozenset[str]:
    """Every name that the scope's own code binds: by assignments, loops, imports, definitions, ``as`` and patterns."""
    return scope_of(scope).bound


def declared_outer(scope: ast.AST) -> frozenset[str]:
    """The names that the scope's own code declares ``global`` or ``nonlocal``."""
    found = scope_of(scope)
    return found.global_ | found.nonlocal_


_SILENT = frozenset(
    {ast.Call, ast.Constant, ast.keyword, ast.BinOp, ast.Subscript, ast.Tuple, ast.Assign, ast.Expr, ast.Compare}
)
"""The nodes that there are most of and that say nothing of names themselves."""


def lists_object(module: Module, call: ast.Call, names: Collection[str]) -> bool:
    """Whether a call lists the attributes of an object that is none of these names: ``vars(args)``.

    Where a module has a name for itself, ``me = sys.modules[__name__]``, any object may be that.
    """
    if not (call.args and isinstance(call.func, ast.Name) and call.func.id in _LIST_OBJECTS):
        return False
    parts = {each.id for each in walk(call.args[0]) if isinstance(each, ast.Name)}
    return parts.isdisjoint(names) and not any(each in module.text for each in _GIVE_MODULES)


@kept
def scope_of(node: ast.AST) -> Scope:
    """The scope that a module, function, lambda or class is. Functions and classes inside it are not entered."""
    bound: set[str] = set()
    if isinstance(node, FUNCTIONS):
        bound.update(signature(node).names)
    outer: dict[type, set[str]] = {ast.Global: set(), ast.Nonlocal: set()}
    local: set[str] = set()
    written: set[str] = set()
    own = _own(node)
    types = set(map(type, own))
    for here in own:
        if isinstance(here, ast.Name):
            if not isinstance(here.ctx, ast.Load):
                bound.add(here.id)
        elif isinstance(here, ast.Attribute):
            if isinstance(here.ctx, ast.Store):
                written.add(here.attr)
        elif type(here) not in _SILENT:
            if isinstance(here, (ast.Global, ast.Nonlocal)):
                outer[type(here)].update(here.names)
            elif isinstance(here, ast.comprehension):
                local.update(each.id for each in walk(here.target) if isinstance(each, ast.Name))
            else:
                bound.update(_bound_by(here))
    yields = ast.Yield in types or ast.YieldFrom in types
    global_, nonlocal_ = frozenset(outer[ast.Global]), frozenset(outer[ast.Nonlocal])
    outer_names = global_ | nonlocal_
    return Scope(
        frozenset(bound) - outer_names,
        global_,
        nonlocal_,
        frozenset(bound) & outer_names,
        frozenset(local),
        frozenset(written),
        yields,
    )


def hands_back(function: ast.FunctionDef | ast.AsyncFunctionDef, position: int) -> bool:
    """Whether a function returns what it is given at a position, wherever it returns: a decorator that registers."""
    return _returned(function) == {*signature(function).positional_names[position : position + 1]}


@kept
def _returned(function: ast.AST) -> frozenset[str]:
    """The names that a function returns; an empty text for what is no name."""
    values = [each.value for each in _own(function) if isinstance(each, ast.Return)]
    return frozenset(each.id if isinstance(each, ast.Name) else "" for each in values) or frozenset({""})


@kept
def _own(scope: ast.AST) -> tuple[ast.AST, ...]:
    """The nodes of the scope's own code."""
    todo: list[ast.AST] = []
    if isinstance(scope, ast.Lambda):
        todo.append(scope.body)
    elif isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        todo.extend(scope.body)
    else:
        todo.extend(children(scope))
    found: list[ast.AST] = []
    while todo:
        here = todo.pop()
        found.append(here)
        if isinstance(here, _INNER_SCOPES):
            todo += _evaluated_around(here)
        elif type(here) not in LEAVES:
            todo += children(here)
    return tuple(found)


_INNER_SCOPES = (*FUNCTIONS, ast.ClassDef, ast.comprehension)
"""What has names of its own."""


def _evaluated_around(here: ast.AST) -> Sequence[ast.AST]:
    """The parts of a function, class or comprehension that belong to the scope around it."""
    if isinstance(here, ast.comprehension):
        return (here.iter, *here.ifs)
    return getattr(here, "decorator_list", ())


def _bound_by(node: ast.AST) -> Iterator[str]:
    """The names that a node other than a name binds."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (name for name, _ in imported(node))
    elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest


@kept
def decorators(node: ast.AST) -> frozenset[str]:
    """The last part of the name of each decorator: ``functools.cached_property`` → ``cached_property``."""
    found = set()
    for decorator in getattr(node, "decorator_list", ()):
        named = decorator.func if isinstance(decorator, ast.Call) else decorator
        found.add(named.attr if isinstance(named, ast.Attribute) else getattr(named, "id", ""))
    return frozenset(found)
