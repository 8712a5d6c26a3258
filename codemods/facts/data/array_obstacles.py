"""Why the tensor of an array, or of a list of arrays, is not to be made in another way."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.facts.data.aliasing import is_alone, is_copied, is_stacked
from codemods.facts.data.array_axes import has_axis_of_its_own
from codemods.facts.data.array_sources import format_of
from codemods.facts.data.conversions import Form
from codemods.facts.data.overwriting import is_looked_up, is_read_as_made
from codemods.facts.devices.devices import DeviceKind, device
from codemods.facts.loops import place as place_of
from codemods.facts.reason import HERE, Reason, at

if TYPE_CHECKING:
    from codemods.dataflow.source import Module
    from codemods.facts.data.array_values import Array
    from codemods.facts.data.conversions import Conversion

_LONG = 40
"""Expressions of more characters are named by their line alone."""
_ARGUMENTS = frozenset({"dtype", "device", "requires_grad"})
_NARROW = frozenset({"float16", "float32", "float64", "int8", "int16", "int32", "uint8", "bool"})
"""Formats of array elements whose every value a Python number holds and hands on exactly."""


def why_unknown(conversion: Conversion) -> Reason:
    """Why the data is not known to be an array."""
    arrays, data = conversion.arrays, conversion.data
    text, remedy = "it is not known to be a NumPy array", "write torch.as_tensor() where nothing changes it afterwards"
    if arrays.obstacle is None:
        return Reason("unknown-array", text, remedy=remedy)
    module, node = arrays.obstacle
    what, times = ast.unparse(node), arrays.times_bound(module, node)
    places = () if node is data else (at(module, node),)
    if places:
        text += f": that depends on {what if len(what) <= _LONG else 'what is computed there'} ({HERE})"
    if times:
        text += f"{', which' if places else ': it'} is bound in {times} places, more than are followed"
    return Reason("unknown-array", text, places, remedy)


def why_copied_alike(conversion: Conversion) -> Reason | None:
    """Why nothing is gained whatever the data is: it goes to a device, ``torch.tensor(x, device=device)``."""
    place = conversion.arguments.get("device")
    if place is None or device(conversion.script.flow, place).kind is DeviceKind.CPU:
        return None
    return Reason("nothing-to-gain", "it is copied once, to its device, in either form")


def why_unknown_list(conversion: Conversion, module: Module, item: ast.expr) -> Reason:
    """Why a list is not known to be one of arrays, by the item that may be something else."""
    what, data = ast.unparse(item), ast.unparse(conversion.data)
    shown = what if len(what) <= _LONG else "what is put into it"
    text = f"it is not known to be a list of NumPy arrays: that depends on {shown} ({HERE})"
    remedy = f"write np.array({data if len(data) <= _LONG else '…'}) if it is, which is read as a whole"
    return Reason("unknown-array", text, (at(module, item),), remedy)


def why_no_call(conversion: Conversion) -> Reason | None:
    """Why the call cannot be written otherwise, whatever it is given."""
    script, call, is_legacy = conversion.script, conversion.call, conversion.form is Form.LEGACY
    if conversion.torch is None:
        return Reason("no-name", "the call does not name the module torch")
    if not conversion.arguments.keys() <= _ARGUMENTS:
        return Reason("other-arguments", "as_tensor takes no other arguments than dtype and device")
    if script.default_device is not None:
        text = f"the script says on which device tensors are made ({HERE})"
        return Reason("default-device", text, (place_of(script.flow, script.default_device),))
    if is_legacy and call.keywords:
        return Reason("other-arguments", "it is made with other arguments than the data")
    if is_legacy and isinstance(call.func, ast.Attribute) and call.func.attr == "Tensor" and script.default_format:
        text = "the script changes the default number format, which torch.Tensor follows"
        return Reason("other-result", text)
    return None


def why_not_of_legacy(conversion: Conversion, array: Array) -> Reason | None:
    """Why ``torch.Tensor(a)`` is not ``as_tensor`` of an array, which shares memory wherever that does.

    ``torch.Tensor(np.array(3))`` has three elements, as ``torch.Tensor(3)`` has.
    """
    if array.has_axes or array.is_float or (array.format or "").startswith("float"):
        return None
    if has_axis_of_its_own(conversion.script.loaders, conversion.module, conversion.data):
        return None
    flow, module, call = conversion.script.flow, conversion.module, conversion.call
    if is_looked_up(flow, module, call) or (array.is_read and is_read_as_made(flow, module, call)):
        return None  # a size would leave there what was in the memory before
    data = ast.unparse(conversion.data)
    shown = f"'{data}'" if len(data) <= _LONG else "what it is given"
    text = f"{shown} may be a single integer, of which the legacy constructor makes a size:"
    return Reason(
        "other-result", text, remedy=f"write torch.as_tensor(…, dtype=torch.{conversion.format}) if it is an array"
    )


def why_not_of_array(conversion: Conversion, array: Array) -> Reason | None:
    """Why ``torch.tensor(a, …)`` is not ``as_tensor`` of an array."""
    flow, loaders, module, call = (
        conversion.script.flow,
        conversion.script.loaders,
        conversion.module,
        conversion.call,
    )
    wanted = conversion.arguments
    requires, alike = wanted.get("requires_grad"), why_copied_alike(conversion)
    given = format_of(flow, wanted["dtype"]) if "dtype" in wanted else array.format
    if requires is not None and not isinstance(requires, ast.Constant):
        return Reason("unknown-arguments", "whether it requires a gradient is decided when the script runs")
    if alike is not None:
        return alike
    if given is not None and array.format is not None and given != array.format:
        return Reason("nothing-to-gain", f"it is copied once, from {array.format} to {given}, in either form")
    if array.is_locked:
        text = "it is copied once in either form: the array of an image, or of a table of pandas, may be read-only"
        return Reason("nothing-to-gain", text)
    if not is_alone(conversion.arrays, module, call, array) and not is_copied(flow, loaders, module, call, given):
        return _shared(conversion, array)
    if not array.is_dense and not is_stacked(flow, loaders, module, call):
        return Reason("other-result", "its elements may have gaps between them, which those of a copy have not")
    return None


def _is_read_alike(read: str, given: str | None) -> bool:
    """Whether a legacy constructor makes of single numbers what it makes of an array of them."""
    if given is None or given == read or given.startswith("float"):
        return True
    return given == "int64" and read.startswith(("int", "uint8"))


def _shared(conversion: Conversion, array: Array) -> Reason:
    owner = array.owner if isinstance(array.owner, ast.expr) else conversion.data
    if isinstance(owner, ast.Call):
        what = f"with what {ast.unparse(owner)} returns, and that may be kept there"
    else:
        what = f"with '{ast.unparse(owner)}', which is used elsewhere"
    return Reason("memory-shared", f"the tensor would share its memory {what}")


def why_not_of_list(conversion: Conversion, items: Array) -> Reason | None:
    """Why the tensor of a list of arrays is not made of one array."""
    wanted, is_legacy = conversion.arguments, conversion.form is Form.LEGACY
    is_converted = read_as(conversion, items) is not None or _is_cast_after(conversion)
    if items.format is None and not is_converted:
        return Reason("unknown-array", "the number format of the list's arrays is not known")
    if "requires_grad" in wanted:
        return Reason("other-arguments", "it is made with a gradient of its own")
    is_filled = is_converted or conversion.arrays.bound.is_filled(conversion.module, conversion.data)
    if not wanted and not is_legacy and not is_filled:
        return Reason("other-result", "an empty list would become a tensor of another number format")
    given = _format_of_list(conversion) or items.format
    if is_legacy and items.format is not None and not _is_read_alike(items.format, given):
        text = f"numbers of {items.format} may be refused as {given} one by one, and are cut as a whole"
        return Reason("other-result", text)
    if given != items.format and items.format not in _NARROW and not is_converted:
        return Reason("other-result", f"numbers of {items.format} may be rounded otherwise on the way to {given}")
    return None


def read_as(conversion: Conversion, items: Array) -> str | None:
    """The format in which a list's arrays, of whatever format, are joined first: so torch reads them one by one.

    What is no whole number of 64 bits torch refuses, or cuts as NumPy does.
    """
    given = _format_of_list(conversion)
    if items.format not in _NARROW and given in {"float32", "float64"}:
        return "float64"
    return given if items.format is None and given == "int64" else None


def makes_floats(conversion: Conversion) -> bool:
    """Whether the tensor is one of floats, whatever is in the list that it is made of."""
    return (_format_of_list(conversion) or "").startswith("float") or _is_cast_after(conversion)


def _format_of_list(conversion: Conversion) -> str | None:
    """The number format that the call asks for, whatever the list's arrays have; None where it asks for none."""
    wanted = conversion.arguments.get("dtype")
    if conversion.form is Form.LEGACY:
        return conversion.format
    return format_of(conversion.script.flow, wanted) if wanted is not None else None


def _is_cast_after(conversion: Conversion) -> bool:
    """``torch.tensor(arrays).float()``: the tensor is of floats in the end, even where the list is empty."""
    method = conversion.module.parent(conversion.call)
    call = conversion.module.parent(method) if isinstance(method, ast.Attribute) else None
    is_called = isinstance(call, ast.Call) and call.func is method and not call.args and not call.keywords
    is_plain = conversion.form is not Form.LEGACY and "dtype" not in conversion.arguments
    return is_called and is_plain and method.attr in {"float", "double"}  # type: ignore[union-attr]
