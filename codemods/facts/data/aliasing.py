"""Whether a tensor that is made of an array may share its memory: nothing else holds it, or it is copied at once."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.placement import dominates
from codemods.dataflow.source import is_name, walk
from codemods.dataflow.values import NONE, Instance, Tensor, Value, owner_of
from codemods.facts.data.bindings import set_before
from codemods.facts.devices.devices import DeviceKind
from codemods.facts.devices.transfers import Transfer
from codemods.facts.loops import REPEATING
from codemods.library.kinds import Kind, may
from codemods.library.operators import joins

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.data.array_values import Array
    from codemods.facts.data.arrays import Arrays
    from codemods.facts.data.loaders import Loader

_METADATA = frozenset({"shape", "dtype", "ndim", "size", "nbytes"})
# What arrays compute by themselves, as numbers or new arrays.
_COMPUTES = frozenset({"sum", "mean", "std", "var", "min", "max", "any", "all", "argmax", "argmin", "item", "tolist"})
# Methods that hand on the same tensor, perhaps in another shape or place, and keep it nowhere.
_VIEWS = frozenset({"to", "cuda", "view", "reshape", "flatten", "squeeze", "unsqueeze", "float", "double", "long", "t"})
_CASTS = {"float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32", "bool": "bool"}


def is_alone(arrays: Arrays, module: Module, call: ast.Call, array: Array) -> bool:
    """Whether nothing but the tensor that the call makes will hold the array's memory, or look at it."""
    name = array.owner
    if array.is_new:
        return True
    if not isinstance(name, ast.Name) or name not in walk(call.args[0]):
        return False
    if _is_passed_on(arrays, module, call, name):
        return True
    scope = module.function(name) or module.tree
    names = [each for each in walk(scope) if is_name(each, name.id)]
    stores = [each for each in names if isinstance(each.ctx, ast.Store)]
    others = [each for each in names if each is not name and each not in stores]
    if len(stores) != 1 or not all(_reads_metadata(module, each) for each in others):
        return False
    binding = module.statement(stores[0])
    given = arrays.bound.given(module, stores[0])
    if not isinstance(binding, ast.Assign) or len(binding.targets) != 1 or given is None:
        return False
    if _loop(module, binding) is not _loop(module, call) or not dominates(module, binding, module.statement(call)):
        return False  # a pass may find the array of an earlier one
    made = arrays.array(module, given)
    return made is not None and made.is_new


def _is_passed_on(arrays: Arrays, module: Module, call: ast.Call, name: ast.Name) -> bool:
    """Whether the tensor takes the name of an array that was made in the same suite, and that nothing else holds.

    ``x = np.array(image); x -= mean; x = torch.tensor(x.transpose(2, 0, 1))``
    """
    statement = module.statement(call)
    made = set_before(module, name)
    scope = module.function(name)
    if made is None or not isinstance(statement, (ast.Assign, ast.Return)):
        return False
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if targets and not (len(targets) == 1 and isinstance(targets[0], ast.Name) and targets[0].id == name.id):
        return False
    known = arrays.array(module, made)
    if known is None or not known.is_new:
        return False
    suite = module.suite(statement)
    first, last = (
        next(at for at, each in enumerate(suite) if each is one) for one in (module.statement(made), statement)
    )
    between = [each for part in suite[first + 1 : last + 1] for each in walk(part)]
    reads = [each for each in between if is_name(each, name.id) and each is not name]
    if any(module.function(each) is not scope for each in walk(scope or module.tree) if is_name(each, name.id)):
        return False  # a function inside reads it whenever it runs
    return all(isinstance(each.ctx, ast.Store) or _only_computes(arrays, module, each) for each in reads)


def _only_computes(arrays: Arrays, module: Module, name: ast.Name) -> bool:
    """Whether what reads the array makes a new one, or a number, or writes into it: nothing that lives on holds it."""
    if _reads_metadata(module, name):
        return True
    above = module.parent(name)
    if isinstance(above, ast.Subscript) and above.value is name and not isinstance(above.ctx, ast.Load):
        return True
    if isinstance(above, (ast.BinOp, ast.UnaryOp, ast.Compare)):
        return True
    method = module.parent(above) if isinstance(above, ast.Attribute) else above
    if isinstance(above, ast.Attribute) and above.attr in _COMPUTES and isinstance(method, ast.Call):
        return method.func is above and not any(each.arg == "out" for each in method.keywords)
    computed = arrays.array(module, method) if isinstance(method, ast.Call) else None
    return computed is not None and computed.is_new


def _reads_metadata(module: Module, name: ast.Name) -> bool:
    parent = module.parent(name)
    is_length = isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id == "len"
    return is_length or (isinstance(parent, ast.Attribute) and parent.attr in _METADATA)


def _loop(module: Module, node: ast.AST) -> ast.AST | None:
    return next((each for each in module.ancestors(node) if isinstance(each, REPEATING)), None)


def is_copied(flow: Flow, loaders: Iterable[Loader], module: Module, call: ast.Call, format_: str | None) -> bool:
    """Whether the tensor is copied at once, so that no memory stays shared.

    Args:
        flow: The values of the project.
        loaders: Its loaders.
        module: Where the tensor is made.
        call: The call that makes it.
        format_: Its number format, where that is known.
    """
    parent = module.parent(call)
    if is_stacked(flow, loaders, module, call) or _is_written_into(flow, module, call):
        return True
    if isinstance(parent, ast.Attribute) and isinstance(following := module.parent(parent), ast.Call):
        if parent.attr in {"cuda", "to"}:
            return Transfer(flow, module, following).device.kind is DeviceKind.CUDA
        return parent.attr in _CASTS and format_ is not None and _CASTS[parent.attr] != format_
    return False


def _is_written_into(flow: Flow, module: Module, call: ast.Call) -> bool:
    """Whether the tensor is copied into a part of another one: ``rewards[step] = torch.tensor(a).to(device)``."""
    node = _handed_on(module, call)
    statement = module.parent(node)
    if not isinstance(statement, ast.Assign) or statement.value is not node:
        return False
    owners = [flow.values(each.value) if isinstance(each, ast.Subscript) else frozenset() for each in statement.targets]
    return all(values and all(isinstance(each, Tensor) for each in values) for values in owners)


def _handed_on(module: Module, call: ast.Call) -> ast.Call:
    """The last of the methods that are called on the tensor one after another, and hand it on in another shape."""
    node = call
    while isinstance(above := module.parent(node), ast.Attribute) and above.attr in _VIEWS:
        following = module.parent(above)
        if not isinstance(following, ast.Call) or following.func is not above:
            break
        node = following
    return node


def is_stacked(flow: Flow, loaders: Iterable[Loader], module: Module, call: ast.Call) -> bool:
    """Whether the tensor is copied at once into one of several, which has a layout of its own."""
    parent = module.parent(call)
    if isinstance(parent, (ast.List, ast.Tuple, ast.ListComp)):
        joined = module.parent(parent)
        if isinstance(joined, ast.Call) and joined.args[:1] == [parent]:
            return any(joins(each.name) for each in flow.values(joined.func))
    return _is_collated(flow, loaders, module, call)


def _is_collated(flow: Flow, loaders: Iterable[Loader], module: Module, call: ast.Call) -> bool:
    """Whether it is an item of a data set, returned as it is, and only read by loaders that copy a batch together."""
    function = module.function(call)
    if not isinstance(function, ast.FunctionDef) or function.name != "__getitem__":
        return False
    class_ = flow.owner(function)
    reading = [each for each in loaders if any(_is_of(value, class_) for value in each.dataset.values)]
    return (
        class_ is not None
        and bool(reading)
        and all(map(stacks_items, reading))
        and _is_only_loaded(flow, class_, {each.call for each in reading})
        and _is_returned(module, call, function)
    )


def _is_of(value: Value, class_: ast.ClassDef | None) -> bool:
    owner = owner_of(value)
    return owner is not None and owner.site is class_


def stacks_items(loader: Loader) -> bool:
    """Whether the loader stacks the items of a batch: ``batch_size=None`` hands them on, a ``collate_fn`` may."""
    handed_on = {
        name: loader.arguments[name].values for name in ("batch_size", "collate_fn") if name in loader.arguments
    }
    return (
        loader.unknown_arguments is None
        and NONE not in handed_on.get("batch_size", frozenset())
        and handed_on.get("collate_fn", {NONE}) == {NONE}
    )


def _is_only_loaded(flow: Flow, class_: ast.ClassDef, loaders: set[ast.Call]) -> bool:
    """Whether the objects of the class are only named, measured with ``len`` and given to these loaders.

    A class that derives from it may take its items and write to them, as may other methods of its own.
    """
    for module in flow.modules:
        if any(class_ in flow.bases(each) for each in module.nodes(ast.ClassDef)):
            return False
        if any(_takes_items(flow, module, each, class_) for each in module.nodes(ast.Attribute, ast.Subscript)):
            return False
        for node in module.nodes(ast.Name, ast.Attribute, ast.Call):
            if isinstance(getattr(node, "ctx", None), ast.Store) or class_ in module.ancestors(node):
                continue
            if not any(_is_of(value, class_) and isinstance(value, Instance) for value in flow.values(node)):
                continue
            user = module.parent(node)
            user = module.parent(user) if isinstance(user, ast.keyword) else user
            measured = isinstance(user, ast.Call) and isinstance(user.func, ast.Name) and user.func.id == "len"
            if not (isinstance(user, (ast.Assign, ast.AnnAssign)) or measured or user in loaders):
                return False
    return True


def _takes_items(flow: Flow, module: Module, node: ast.Attribute | ast.Subscript, class_: ast.ClassDef) -> bool:
    """Whether it may take items from a data set past its loader: ``self[0]``, ``loader.dataset[0]``."""
    if isinstance(node, ast.Subscript):
        own = isinstance(node.value, ast.Name) and node.value.id == "self"
        return own and class_ in module.ancestors(node)
    if node.attr == "__getitem__":
        return True
    user = module.parent(node)
    measured = isinstance(user, ast.Call) and isinstance(user.func, ast.Name) and user.func.id == "len"
    return node.attr == "dataset" and not measured and may(flow, flow.values(node.value), Kind.LOADER)


def _is_returned(module: Module, call: ast.Call, function: ast.FunctionDef) -> bool:
    """Whether the tensor is returned, at once or through a name that is used for nothing else."""
    statement, node = module.statement(call), _handed_on(module, call)
    if isinstance(statement, ast.Return):
        return _is_item(module, node, statement)
    if not isinstance(statement, ast.Assign) or statement.value is not node or len(statement.targets) != 1:
        return False
    (target,) = statement.targets
    if not isinstance(target, ast.Name):
        return False
    uses = [each for each in walk(function) if is_name(each, target.id)]
    returns = [(each, module.statement(each)) for each in uses if each is not target]
    return bool(returns) and all(
        isinstance(last, ast.Return) and _is_item(module, each, last) for each, last in returns
    )


def _is_item(module: Module, node: ast.expr, statement: ast.Return) -> bool:
    """Whether the expression is what is returned, or an element of it."""
    above = module.parent(node)
    while isinstance(above, (ast.Tuple, ast.List, ast.Dict)):
        above = module.parent(above)
    return above is statement
