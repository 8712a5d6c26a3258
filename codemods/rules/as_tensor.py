"""Rule ``as-tensor``: tensors are made of arrays without a copy."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.codemod import Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.editing.values import AddArgument, Replace
from codemods.facts.data.aliasing import is_alone, is_copied, is_stacked
from codemods.facts.data.arrays import Array, Arrays
from codemods.facts.data.conversions import COPYING, SHARING, is_large, is_repeated, maker
from codemods.facts.data.number_likes import is_list, is_number, is_tensor
from codemods.facts.devices.devices import DeviceKind, device
from codemods.facts.loops import place as place_of
from codemods.facts.reason import HERE, Reason, at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.codemod import Finding
    from codemods.editing.values import Edit
    from codemods.facts.script import Script

_COPIED = "an array that nothing else holds is copied to make a tensor"
_ELEMENTS = "a list of arrays is read element by element"
_LEGACY = "the legacy constructor takes several times as long as as_tensor to look at an array"
_OF_TENSOR = "torch.tensor() of a tensor warns at each call"

_LONG = 40
"""Expressions of more characters are named by their line alone."""
_DEFAULT_TYPES = frozenset({"torch.set_default_dtype", "torch.set_default_tensor_type"})
_NARROW = frozenset({"float16", "float32", "float64", "int8", "int16", "int32", "uint8", "bool"})
"""Formats of array elements whose every value a Python number holds and hands on exactly."""


class AsTensor(Codemod):
    """Makes tensors of NumPy arrays without a copy (``torch.as_tensor``), and of lists of arrays at once.

    Why it is faster:
        ``torch.tensor`` always copies. ``torch.as_tensor`` takes over the array's memory where number format and device
        allow it. A list of arrays is read number by number, a hundred times slower than joining the arrays first.

    When it is left:
        The tensor would share its memory with something that lives on: an array that is written, kept, returned or made
        elsewhere, a view of a data set whose batches are not copied together. It is not certain that it is an array, or
        that the arrays of a list have one number format, or that there is one at all in it. The legacy constructor may
        be given a single integer, of which it makes a size. The copy happens anyway, to another device or number
        format. Outside of loops and data sets only what is read from files, and lists of arrays, are looked at.

    Results:
        The same values in the same number format, bit for bit.

    References:
        ``torch.as_tensor``; ``torch.tensor``; ``torch.from_numpy``; the warning "Creating a tensor from a list of
        numpy.ndarrays is extremely slow".
    """

    promise = Promise.BITWISE
    gain = "one copy on the host per call; lists of arrays 60-250x (CPU)"
    needs_cuda = False
    phases = frozenset({Phase.DATA, Phase.OTHER})
    causes = words(
        """
        default-device memory-shared no-name nothing-to-gain other-arguments other-result unknown-arguments
        unknown-array
        """
    )
    failures = (
        r"The given NumPy array is not writable",
        r"expected np\.ndarray \(got",
        r"setting an array element with a sequence",
    )
    examples = (
        Rewrites(
            before="""\
import numpy as np
import torch

for i in range(100):
    noise = torch.tensor(np.random.randn(64, 100).astype(np.float32))
""",
            after="""\
import numpy as np
import torch

for i in range(100):
    noise = torch.as_tensor(np.random.randn(64, 100).astype(np.float32))
""",
        ),
        Rewrites(
            before="""\
import numpy as np
import torch

for i in range(100):
    frames = [np.zeros((84, 84)) for _ in range(4)]
    state = torch.FloatTensor(frames)
""",
            after="""\
import numpy as np
import torch

for i in range(100):
    frames = [np.zeros((84, 84)) for _ in range(4)]
    state = torch.as_tensor(np.array(frames), dtype=torch.float32)
""",
        ),
        Leaves(
            code="""\
import numpy as np
import torch

state = np.zeros(4)
for i in range(100):
    state[i % 4] = i
    inputs = torch.tensor(state)
""",
            because="the tensor would share its memory with 'state', which is used elsewhere",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every tensor that is made of an array, a list of arrays or a tensor, in loops and data sets."""
        arrays = Arrays(script.flow)
        module = script.module
        for call in module.nodes(ast.Call):
            name = maker(script.flow, call)
            again = name is not None and is_repeated(script.flow, script.loaders, module, call)
            if name is not None and (again or is_large(arrays, module, call, name)):
                finding = (
                    self._shared(script, arrays, call)
                    if name == SHARING
                    else self._site(script, arrays, call, legacy=name != COPYING)
                )
                if finding is not None:
                    yield finding

    def _shared(self, script: Script, arrays: Arrays, call: ast.Call) -> Finding | None:
        """``torch.as_tensor()``: of a list of arrays; of one array there is nothing to gain."""
        module, (data,) = script.module, call.args
        items = arrays.list_of(module, data)
        if items is None:
            return self._of_unknown_list(script, arrays, call)
        reason = _why_no_call(script, call)
        return (
            self._of_list(script, arrays, call, items, legacy=False)
            if reason is None
            else self.left(module, call, reason)
        )

    def _of_unknown_list(self, script: Script, arrays: Arrays, call: ast.Call) -> Finding | None:
        """A list of what may be arrays: a method that arrays have made some of it."""
        module, (data,) = script.module, call.args
        made = arrays.made_by_methods(module, data) if is_list(script.flow, data) else None
        if made is None:
            return None
        text = f"it is not known to be a list of NumPy arrays: that depends on {ast.unparse(made)} ({HERE})"
        remedy = f"write np.array({ast.unparse(data)}) if it is, which is read as a whole"
        return self.left(module, call, Reason("unknown-array", text, (at(module, made),), remedy))

    def _site(self, script: Script, arrays: Arrays, call: ast.Call, *, legacy: bool) -> Finding | None:
        module, (data,) = script.module, call.args
        if isinstance(data, (ast.Constant, ast.Starred)) or is_number(arrays, script.flow, module, data):
            return None
        arrays.obstacle = None
        array, items = arrays.array(module, data), arrays.list_of(module, data)
        of_tensor = not legacy and is_tensor(script.flow, data)
        if array is None and items is None and not of_tensor:
            if is_list(script.flow, data):
                return self._of_unknown_list(script, arrays, call)
            return self.left(module, call, _unknown(arrays, data))
        reason = _why_no_call(script, call)
        if reason is not None:
            return self.left(module, call, reason)
        if array is not None:
            return self._of_legacy(script, call, array) if legacy else self._of_array(script, arrays, call, array)
        return (
            self._of_tensor(script, call)
            if items is None
            else self._of_list(script, arrays, call, items, legacy=legacy)
        )

    def _of_legacy(self, script: Script, call: ast.Call, array: Array) -> Finding:
        """``torch.Tensor(a)`` shares memory wherever ``as_tensor`` does: nothing else is to be asked but of a number.

        ``torch.Tensor(np.array(3))`` has three elements, as ``torch.Tensor(3)`` has.
        """
        if not array.has_axes and not array.is_float and not (array.format or "").startswith("float"):
            text = "a single integer would be a size to the legacy constructor"
            return self.left(script.module, call, Reason("other-result", text))
        torch = _module_name(call)
        edits: list[Edit] = [Replace(script.module, call.func, f"{torch}.as_tensor")]
        if array.format != "float32":
            edits.append(AddArgument(script.module, call, "dtype", f"{torch}.float32"))
        return self.rewrites(script.module, call, _LEGACY, *edits)

    def _of_array(self, script: Script, arrays: Arrays, call: ast.Call, array: Array) -> Finding:
        module, (data,) = script.module, call.args
        wanted = {each.arg: each.value for each in call.keywords}
        requires, place = wanted.pop("requires_grad", None), wanted.get("device")
        given = arrays.format(wanted["dtype"]) if "dtype" in wanted else array.format
        reason = None
        if requires is not None and not isinstance(requires, ast.Constant):
            reason = Reason("unknown-arguments", "whether it requires a gradient is decided when the script runs")
        elif place is not None and device(script.flow, place).kind is not DeviceKind.CPU:
            reason = Reason("nothing-to-gain", "it is copied once, to its device, in either form")
        elif given is not None and array.format is not None and given != array.format:
            text = f"it is copied once, from {array.format} to {given}, in either form"
            reason = Reason("nothing-to-gain", text)
        elif array.is_locked:
            text = "it is copied once in either form: the array of an image cannot be written to"
            reason = Reason("nothing-to-gain", text)
        elif not is_alone(arrays, module, call, array) and not is_copied(
            script.flow, script.loaders, module, call, given
        ):
            reason = _shared(call, array)
        elif not array.is_dense and not is_stacked(script.flow, script.loaders, module, call):
            reason = Reason("other-result", "its elements may have gaps between them, which those of a copy have not")
        if reason is not None:
            return self.left(module, call, reason)
        if requires is None:
            edit = Replace(module, call.func, f"{_module_name(call)}.as_tensor")
            return self.rewrites(module, call, _COPIED, edit)
        holes = [("data", data), *((str(name), node) for name, node in wanted.items())]
        given_on = "".join(f", {name}={{{name}}}" for name in wanted)
        gradient = ".requires_grad_()" if isinstance(requires, ast.Constant) and requires.value else ""
        template = f"{_module_name(call)}.as_tensor({{data}}{given_on}){gradient}"
        return self.rewrites(module, call, _COPIED, Replace(module, call, template, tuple(holes)))

    def _of_list(self, script: Script, arrays: Arrays, call: ast.Call, items: Array, *, legacy: bool) -> Finding:
        module, (data,) = script.module, call.args
        wanted = {each.arg: each.value for each in call.keywords}
        numpy, torch = script.spelled(module, "numpy.array", module.statement(call)), _module_name(call)
        given = "float32" if legacy else arrays.format(wanted["dtype"]) if "dtype" in wanted else items.format
        reason = None
        if numpy is None:
            reason = Reason("no-name", "NumPy cannot be named where the tensor is made")
        elif items.format is None:
            reason = Reason("unknown-array", "the number format of the list's arrays is not known")
        elif "requires_grad" in wanted:
            reason = Reason("other-arguments", "it is made with a gradient of its own")
        elif not wanted and not legacy and not arrays.is_filled(module, data):
            reason = Reason("other-result", "an empty list would become a tensor of another number format")
        elif given != items.format and items.format not in _NARROW:
            text = f"numbers of {items.format} may be rounded otherwise on the way to {given}"
            reason = Reason("other-result", text)
        if reason is not None:
            return self.left(module, call, reason)
        if not wanted and not legacy:
            template = f"{torch}.from_numpy({numpy}({{data}}))"
        else:
            given_on = f", dtype={torch}.float32" if legacy else "".join(f", {name}={{{name}}}" for name in wanted)
            template = f"{torch}.as_tensor({numpy}({{data}}){given_on})"
        holes = [("data", data), *((str(name), node) for name, node in wanted.items())]
        return self.rewrites(module, call, _ELEMENTS, Replace(module, call, template, tuple(holes)))

    def _of_tensor(self, script: Script, call: ast.Call) -> Finding:
        module, (data,) = script.module, call.args
        if call.keywords:
            text = "it is a tensor already, which is given other properties here"
            return self.left(module, call, Reason("other-arguments", text))
        return self.rewrites(
            module, call, _OF_TENSOR, Replace(module, call, "{data}.detach().clone()", (("data", data),))
        )


# Where, and of what.


def _why_no_call(script: Script, call: ast.Call) -> Reason | None:
    """Why the call cannot be written otherwise, whatever it is given."""
    if _module_name(call) is None:
        return Reason("no-name", "the call does not name the module torch")
    if any(each.arg not in {"dtype", "device", "requires_grad"} for each in call.keywords):
        return Reason("other-arguments", "as_tensor takes no other arguments than dtype and device")
    if script.default_device is not None:
        text = f"the script says on which device tensors are made ({HERE})"
        return Reason("default-device", text, (place_of(script.flow, script.default_device),))
    legacy = isinstance(call.func, ast.Attribute) and call.func.attr not in {"tensor", "as_tensor"}
    if legacy and call.keywords:
        return Reason("other-arguments", "it is made with other arguments than the data")
    if legacy and call.func.attr == "Tensor" and _default_type(script):  # type: ignore[attr-defined]
        text = "the script changes the default number format, which torch.Tensor follows"
        return Reason("other-result", text)
    return None


def _module_name(call: ast.Call) -> str | None:
    """How the call names PyTorch: ``torch`` in ``torch.tensor(…)``."""
    return ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else None


def _default_type(script: Script) -> bool:
    return any(
        each.name in _DEFAULT_TYPES
        for module in script.modules
        for call in module.nodes(ast.Call)
        for each in script.flow.values(call.func)
    )


def _unknown(arrays: Arrays, data: ast.expr) -> Reason:
    """What of the data is not known."""
    text, remedy = "it is not known to be a NumPy array", "write torch.as_tensor() where nothing changes it afterwards"
    if arrays.obstacle is None or arrays.obstacle[1] is data:
        return Reason("unknown-array", text, remedy=remedy)
    module, node = arrays.obstacle
    what = ast.unparse(node)
    text += f": that depends on {what if len(what) <= _LONG else 'what is computed there'} ({HERE})"
    return Reason("unknown-array", text, (at(module, node),), remedy)


def _shared(call: ast.Call, array: Array) -> Reason:
    owner = array.owner if isinstance(array.owner, ast.expr) else call.args[0]
    if isinstance(owner, ast.Call):
        what = f"with what {ast.unparse(owner)} returns, and that may be kept there"
    else:
        what = f"with '{ast.unparse(owner)}', which is used elsewhere"
    return Reason("memory-shared", f"the tensor would share its memory {what}")
