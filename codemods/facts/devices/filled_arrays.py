"""Which tensors of zeros or ones does NumPy make, in float64, before they are cast and copied to a device?"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.values import Batch, HostTensor, library_names
from codemods.facts.devices.devices import DeviceKind
from codemods.facts.devices.fillings import (
    runs_often,
    why_item,
    why_other_copy,
    why_other_order,
)
from codemods.facts.devices.own_numbers import is_integer, is_tensor
from codemods.facts.loops import place
from codemods.facts.reason import HERE, Reason
from codemods.library.fills import fills_array, is_float_type, is_single

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Module
    from codemods.facts.devices.transfers import Transfer
    from codemods.facts.script import Script

_VARIABLE = "torch.autograd.Variable"
_CUDA_TYPE = "torch.cuda.FloatTensor"
_FROM_ARRAY = frozenset({"torch.tensor", "torch.as_tensor", "torch.from_numpy"})
_CASTING = frozenset({"torch.tensor", "torch.as_tensor"})
_FORMAT_POSITION = 1
"""Where ``np.zeros(shape, dtype)`` has the number format."""


@dataclass(frozen=True, eq=False)
class FilledArray:
    """``Tensor(np.ones(shape))``, or ``torch.from_numpy(np.ones(shape)).float().to(device)``."""

    module: Module
    made: ast.Call
    """What makes the tensor of float32 on the host, or where its type says: all but the copy."""
    shape: ast.expr
    function: str
    """The function that fills a tensor alike, by its qualified name: ``torch.ones``."""
    transfer: Transfer | None
    """The copy; None where the tensor type says where the tensor is."""
    like: str | None
    """The name of a tensor that is on the same device, where the tensor type may say either; None for CUDA."""
    why_not: Reason | None


def filled_arrays(script: Script) -> Iterator[FilledArray]:
    """The tensors of the module that NumPy fills again and again, and that may be copied to CUDA."""
    for call in script.module.nodes(ast.Call):
        if _says_cuda(script, call):
            found = _typed(script, call)
            if found is not None:
                yield found
    for transfer in script.transfers:
        is_copy = transfer.method in {"to", "cuda"} and transfer.device.kind is not DeviceKind.CPU
        if is_copy and transfer.module is script.module:
            found = _copied(script, transfer)
            if found is not None:
                yield found


def _says_cuda(script: Script, call: ast.Call) -> bool:
    """Whether it calls a tensor type of float32 that may be CUDA's."""
    names = _names(script, call.func)
    return _CUDA_TYPE in names and all(name == _CUDA_TYPE or is_float_type(name) for name in names)


def _names(script: Script, node: ast.expr) -> frozenset[str]:
    """The qualified names that it may have; none where it may be something else."""
    values = script.flow.values(node)
    names = library_names(values)
    return names if len(names) == len(values) else frozenset()


def _is_one_of(script: Script, node: ast.expr, names: frozenset[str]) -> bool:
    found = _names(script, node)
    return bool(found) and found <= names


def _typed(script: Script, call: ast.Call) -> FilledArray | None:
    array = _array_of(script, call)
    if array is None or not _is_site(script, script.module, call):
        return None
    like, unknown = None, None
    if _names(script, call.func) != {_CUDA_TYPE}:
        like = _beside(script, call, array)
        unknown = None if like is not None else _why_unknown(script, call, array)
    why_not = (
        why_item(script, script.module, call)
        or unknown
        or _why_not(script, call, array)
        or why_other_order(script, script.module, call)
    )
    return FilledArray(script.module, call, array.args[0], _function(script, array), None, like, why_not)


def _copied(script: Script, transfer: Transfer) -> FilledArray | None:
    made = _without_variable(script, transfer.receiver)
    array = _array_in(script, made)
    if array is None or not isinstance(made, ast.Call) or not _is_site(script, transfer.module, transfer.call):
        return None
    if transfer.target is not None and is_tensor(script, transfer.target):
        return None  # `.to(x)`, which may cast as well
    why_not = (
        why_item(script, transfer.module, transfer.call)
        or _why_not(script, made, array)
        or why_other_copy(script, transfer, "")
        or why_other_order(script, transfer.module, transfer.call)
    )
    return FilledArray(transfer.module, made, array.args[0], _function(script, array), transfer, None, why_not)


def _without_variable(script: Script, node: ast.expr) -> ast.expr:
    """``x`` of ``Variable(x, requires_grad=False)``, where no gradients are asked for of what is copied after that."""
    match node:
        case ast.Call(args=[inner]) if library_names(script.flow.values(node.func)) == {_VARIABLE}:
            asks = any(not isinstance(each.value, ast.Constant) or each.value.value for each in node.keywords)
            return node if asks else inner
    return node


def _is_site(script: Script, module: Module, call: ast.Call) -> bool:
    is_often = why_item(script, module, call) is not None or runs_often(script, module, call)
    return is_often and script.may_run(module, call)


def _array_in(script: Script, made: ast.expr) -> ast.Call | None:
    """The array of zeros or ones that is all a tensor of float32 on the host is made of."""
    match made:
        case ast.Call(ast.Attribute(ast.Call() as tensor, "float"), [], []):
            return _array_of(script, tensor) if _is_one_of(script, tensor.func, _FROM_ARRAY) else None
        case ast.Call(args=[array], keywords=[ast.keyword("dtype", value)]):
            is_cast = _is_one_of(script, made.func, _CASTING)
            return _filled(script, array) if is_cast and _is_single(script, value) else None
        case ast.Call(args=[array], keywords=[]):
            found, names = _filled(script, array), _names(script, made.func)
            is_cast = bool(names) and all(map(is_float_type, names))
            is_kept = found is not None and _is_of_singles(script, found)
            return found if is_cast or (is_kept and _is_one_of(script, made.func, _FROM_ARRAY)) else None
    return None


def _array_of(script: Script, call: ast.Call) -> ast.Call | None:
    """The array that is the only argument."""
    is_only = len(call.args) == 1 and not call.keywords
    return _filled(script, call.args[0]) if is_only else None


def _filled(script: Script, node: ast.expr) -> ast.Call | None:
    """``np.zeros(shape)``, in NumPy's number format or one of the same numbers."""
    if not isinstance(node, ast.Call) or not node.args or isinstance(node.args[0], ast.Starred):
        return None
    return node if _function(script, node) else None


def _function(script: Script, array: ast.Call) -> str:
    """The function of torch that fills a tensor as the array is filled; nothing for other arrays."""
    names = _names(script, array.func)
    return fills_array(next(iter(names))) if len(names) == 1 else ""


def _is_of_singles(script: Script, array: ast.Call) -> bool:
    """Whether the array is of float32 itself."""
    given = [*array.args[_FORMAT_POSITION:], *(each.value for each in array.keywords if each.arg == "dtype")]
    return len(given) == 1 and _is_single(script, given[0])


def _is_single(script: Script, node: ast.expr) -> bool:
    names = _names(script, node)
    return bool(names) and all(map(is_single, names))


# What stands against it.


def _why_not(script: Script, made: ast.Call, array: ast.Call) -> Reason | None:
    """Why the function of torch may make another tensor of the same shape."""
    if (len(array.args) > 1 or array.keywords) and not (
        _is_of_singles(script, array) and len(array.args) + len(array.keywords) == _FORMAT_POSITION + 1
    ):
        return Reason("other-arguments", f"'{ast.unparse(array)}' is given more than its shape")
    shape, function = array.args[0], _function(script, array)
    if not _is_shape(script, shape):
        text = f"whether '{ast.unparse(shape)}' is a shape that {function} takes is not known:"
        return Reason("other-arguments", text, remedy="write its numbers in a tuple")
    module = script.module
    if script.spelled(module, function, module.statement(made)) is None:
        return Reason("no-name", f"{function}, which fills a tensor there, cannot be named here")
    default = script.default_format
    if default is not None:
        text = f"{function} makes tensors of the number format that is set ({HERE}):"
        remedy = f"write {function}(…, dtype=torch.float32, device=…)"
        return Reason("other-result", text, (place(script.flow, default),), remedy=remedy)
    return None


def _is_shape(script: Script, node: ast.expr) -> bool:
    """Whether it is a number, the shape of a tensor, or numbers in a tuple or list, of which there is one at least."""
    match node:
        case ast.Tuple(elts=[first, *_]) | ast.List(elts=[first, *_]):
            return not isinstance(first, ast.Starred)
        case ast.Call(ast.Attribute(owner, "size"), [], []) | ast.Attribute(owner, "shape"):
            return is_tensor(script, owner)
    return is_integer(script, node)


def _why_unknown(script: Script, call: ast.Call, array: ast.Call) -> Reason:
    """Why it is not known how to write the device that the tensor type means."""
    written = ast.unparse(call.func)
    text = f"which device '{written}' means is not known, and no batch is taken there above, with x.type({written}):"
    return Reason("unknown-device", text, remedy=f"write {_function(script, array)}(…, device=device)")


def _beside(script: Script, call: ast.Call, array: ast.Call) -> str | None:
    """The name of a tensor of a batch that a statement above, in the same block, takes to the same tensor type.

    One whose size the shape is made of is better than others, and a later one better than one before.
    """
    module, type_ = script.module, call.func
    if not isinstance(type_, ast.Name) or len(module.stores.get(type_.id, ())) > 1:
        return None
    here = module.statement(call)
    block = next((each for each in _blocks(module.parent(here)) if here in each), [])
    in_shape = {each.id for each in ast.walk(array) if isinstance(each, ast.Name)}
    bound, found = _written(here), []
    for statement in reversed(block[: block.index(here)] if block else []):
        name = _taken_to(script, statement, type_.id)
        if name is not None and name not in bound:
            found.append(name)
        bound |= _written(statement)
        if type_.id in bound:
            break
    return next((each for each in found if each in in_shape), found[0] if found else None)


def _blocks(above: ast.AST | None) -> list[list[ast.stmt]]:
    """The blocks of a statement."""
    return [getattr(above, name) for name in ("body", "orelse", "finalbody") if getattr(above, name, None)]


def _written(where: ast.AST) -> set[str]:
    """The names that get something else there, and whose attributes do: ``x = y``, ``x.data = y``."""
    written = set()
    for node in ast.walk(where):
        match node:
            case ast.Name(name, ast.Store() | ast.Del()) | ast.Attribute(ast.Name(name), _, ast.Store() | ast.Del()):
                written.add(name)
    return written


def _taken_to(script: Script, statement: ast.stmt, type_: str) -> str | None:
    """``x`` of ``x = Variable(batch["image"].type(Tensor))``."""
    match statement:
        case ast.Assign([ast.Name(name)], value):
            pass
        case _:
            return None
    transfer = next((each for each in script.transfers if each.call is _without_variable(script, value)), None)
    if transfer is None or transfer.method != "type" or not transfer.sources:
        return None
    is_of_host = all(isinstance(each, (Batch, HostTensor)) for each in transfer.sources)
    return name if is_of_host and isinstance(transfer.target, ast.Name) and transfer.target.id == type_ else None
