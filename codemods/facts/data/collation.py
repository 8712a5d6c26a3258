"""Loaders that work only if all items of their data sets have one size: those that join whatever comes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import FUNCTIONS, is_name, walk
from codemods.dataflow.values import NONE, Choice, Literal, Made, Unknown, Values, class_of, without_none
from codemods.facts.workers.arguments import options

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee
    from codemods.facts.data.loaders import Loader
    from codemods.facts.script import Script

_SHUFFLED = Literal("True")
_ORDERS = frozenset({"sampler", "batch_sampler"})
_STACK = "torch.stack"
# What a collate function may call, and still joins the items as they are.
_JOINING = frozenset(
    {f"torch.{name}" for name in ("stack", "cat", "Tensor", "FloatTensor", "LongTensor", "tensor", "as_tensor")}
    | {f"builtins.{name}" for name in ("zip", "list", "tuple", "len", "range", "enumerate", "map")}
    | {"torch.from_numpy"}
)
_GATHERING = frozenset({"append", "extend", "long", "float"})


def has_one_size(script: Script, loader: Loader) -> bool:
    """Whether the loader could not join its items unless all of them had one size.

    Each batch of a loader that shuffles joins several items at random: sooner or later any two of them meet, and
    ``torch.stack`` fails where they differ in size. A loader in order says as much of a data set of the same class.
    """
    if not _joins(script, loader) or _may_change(script, loader):
        return False
    shuffled = [each for each in script.loaders if _is_shuffled(each) and _joins(script, each)]
    return _kinds(loader) <= {each for other in shuffled for each in _kinds(other)}


def _is_shuffled(loader: Loader) -> bool:
    argument = loader.arguments.get("shuffle")
    return argument is not None and argument.values == {_SHUFFLED}


def _joins(script: Script, loader: Loader) -> bool:
    """Whether it joins several items of a data set to each batch that is moved to the device, whatever their sizes."""
    if loader.unknown_arguments is not None or loader.converted or loader.dataset.is_iterable:
        return False
    if not loader.transfers and not script.is_accelerated:
        return False
    if any(loader.arguments[name].values != {NONE} for name in _ORDERS & set(loader.arguments)):
        return False
    collate = loader.arguments.get("collate_fn")
    size = loader.arguments.get("batch_size")
    return (
        size is not None
        and _is_several(script, size.values)
        and (collate is None or all(_stacks(script.flow, each.site) for each in without_none(collate.values)))
    )


def _is_several(script: Script, sizes: Values) -> bool:
    """Whether the numbers are greater than one: those that are written, and the defaults of options."""
    known = without_none(sizes)
    defaults = {f"args.{each.name}": each.default for each in options(script)}
    numbers = [
        each.value if isinstance(each, Literal) else defaults.get(each.name) if isinstance(each, Choice) else None
        for each in known
    ]
    return bool(numbers) and all(isinstance(each, int) and each > 1 for each in numbers)


def _stacks(flow: Flow, function: ast.AST | None) -> bool:
    """Whether a collate function stacks the first parts of the items as they are, and returns that first."""
    if not isinstance(function, FUNCTIONS):
        return False
    calls = [each for each in walk(function) if isinstance(each, ast.Call)]
    only_joins = all(
        (isinstance(call.func, ast.Attribute) and call.func.attr in _GATHERING)
        or {each.name for each in flow.values(call.func)} <= _JOINING
        for call in calls
    )
    returned = [each.value for each in walk(function) if isinstance(each, ast.Return)]
    first = [each.elts[0] if isinstance(each, ast.Tuple) and each.elts else each for each in returned]
    return only_joins and bool(first) and all(_is_stacked(flow, function, each) for each in first)


def _is_stacked(flow: Flow, function: Callee, node: ast.expr | None) -> bool:
    if isinstance(node, ast.Name):
        stores = [each for each in walk(function) if isinstance(each, ast.Assign) and _binds(each, node.id)]
        return bool(stores) and all(_is_stacked(flow, function, each.value) for each in stores[-1:])
    return isinstance(node, ast.Call) and any(each.name == _STACK for each in flow.values(node.func))


def _binds(assignment: ast.Assign, name: str) -> bool:
    return any(is_name(each, name) for each in assignment.targets)


# The data sets.


def _kinds(loader: Loader) -> set[str | ast.ClassDef]:
    """The classes of its data sets, and the names of those of libraries."""
    return {class_of(each) or each.name for each in loader.dataset.parts}


def _may_change(script: Script, loader: Loader) -> bool:
    """Whether the items of its data sets may have another size later, or nothing is known of the data sets."""
    for part in loader.dataset.parts:
        class_ = class_of(part)
        if class_ is not None:
            if is_changed(script, class_):
                return True
        elif not isinstance(part, Made) or not part.name.startswith("torchvision.datasets."):
            return True
    return not loader.dataset.parts


def is_changed(script: Script, class_: ast.ClassDef) -> bool:
    """Whether anything but its constructor sets what the objects of a class read of themselves."""
    read = {each.attr for each in walk(class_) if _is_of_self(each) and isinstance(each.ctx, ast.Load)}  # type: ignore[attr-defined]
    for module in script.modules:
        for node in module.nodes(ast.Attribute):
            if node.attr not in read or not isinstance(node.ctx, ast.Store):
                continue
            if _is_of_self(node):
                function = module.function(node)
                inside = class_ in module.ancestors(node)
                if inside and function is not None and not _constructs(script.flow, function, class_):
                    return True
            elif any(isinstance(each, Unknown) or class_of(each) is class_ for each in script.flow.values(node.value)):
                return True
    return False


def _is_of_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _constructs(flow: Flow, method: Callee, class_: ast.ClassDef) -> bool:
    """Whether it is the constructor, or called by nothing else."""
    constructor = flow.method(class_, "__init__")
    callers = flow.callers(method)
    return method is constructor or (
        bool(callers) and constructor is not None and all(each in set(walk(constructor)) for each in callers)
    )
