"""Rule ``as-tensor``: tensors are made of arrays without a copy."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.codemod import Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.editing.splitting import split
from codemods.editing.values import AddArgument, Replace
from codemods.facts.data.array_obstacles import (
    makes_floats,
    read_as,
    why_copied_alike,
    why_no_call,
    why_not_of_array,
    why_not_of_legacy,
    why_not_of_list,
    why_unknown,
    why_unknown_list,
)
from codemods.facts.data.arrays import Arrays
from codemods.facts.data.conversions import Form, conversions
from codemods.facts.data.number_likes import is_list, is_number, is_number_or_tensor, is_tensor
from codemods.facts.data.replayed import remembered
from codemods.facts.data.unknown_items import unknown_item, unknown_remembered
from codemods.facts.devices.filled_arrays import filled_arrays
from codemods.facts.reason import Reason
from codemods.library.sources import measured

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.codemod import Finding
    from codemods.dataflow.source import Module
    from codemods.editing.values import Edit
    from codemods.facts.data.array_values import Array
    from codemods.facts.data.conversions import Conversion
    from codemods.facts.script import Script

_COPIED = "an array is copied to make a tensor, and nothing needs the copy"
_ELEMENTS = "a list of arrays is read element by element"
_LEGACY = "the legacy constructor takes several times as long as as_tensor to look at an array"
_OF_TENSOR = "torch.tensor() of a tensor warns at each call"


class AsTensor(Codemod):
    """Makes tensors of NumPy arrays without a copy (``torch.as_tensor``), and of lists of arrays at once.

    Why it is faster:
        ``torch.tensor`` always copies. ``torch.as_tensor`` takes over the array's memory where number format and device
        allow it. A list of arrays is read number by number, a hundred times slower than joining the arrays first.

    When it is left:
        The tensor would share its memory with something that lives on: an array that is written, kept, returned or made
        elsewhere, a view of a data set whose batches are not copied together. It is not certain that it is an array, or
        that the arrays of a list have one number format, or that there is one at all in it, where the call does not
        name that of the tensor. The legacy constructor may
        be given a single integer, of which it makes a size. The copy happens anyway, to another device or number
        format. Outside of loops, data sets and methods that choose actions only what is read from files, and lists of
        arrays, are looked at.

    Results:
        The same values in the same number format, bit for bit.

    References:
        ``torch.as_tensor``; ``torch.tensor``; ``torch.from_numpy``; the warning "Creating a tensor from a list of
        numpy.ndarrays is extremely slow".
    """

    promise = Promise.BITWISE
    gain = "an array of 8 MiB 6x as fast, a list of 64 arrays 380x (CPU)"
    gain_sources = (measured("steps-and-syncs"),)
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
        found: dict[ast.stmt, list[Finding]] = {}
        there = {each.made for each in filled_arrays(script) if each.why_not is None}
        for conversion in conversions(script, Arrays(script.flow)):
            if conversion.call in there:
                because = Reason("nothing-to-gain", "device-ctor fills it on the device, without an array")
                yield self._left(conversion, because)
                continue
            finding = self._shared(conversion) if conversion.form is Form.SHARING else self._site(conversion)
            if finding is not None:
                found.setdefault(conversion.module.statement(conversion.call), []).append(finding)
        for statement, findings in found.items():
            yield from self._on_lines(statement, findings)

    def _on_lines(self, statement: ast.stmt, findings: Sequence[Finding]) -> Iterator[Finding]:
        """The findings of a statement, split into one for each name where its line gets too wide."""
        rewritten = [each for each in findings if each.rewrites]
        calls = [call for each in rewritten for call in _chained(each.module, each.node)]
        added = sum(_growth(edit) for each in rewritten for edit in each.edits)
        lines = split(rewritten[0].module, statement, calls, added) if rewritten else None
        for each in findings:
            if lines is None or not each.rewrites:
                yield each
            else:
                yield self.rewrites(each.module, each.node, each.message, *each.edits, lines)

    def _shared(self, conversion: Conversion) -> Finding | None:
        """``torch.as_tensor()``: of a list of arrays; of one array there is nothing to gain."""
        items = conversion.arrays.list_of(conversion.module, conversion.data)
        if items is None:
            return self._of_unknown_list(conversion)
        reason = why_no_call(conversion)
        return self._of_list(conversion, items) if reason is None else self._left(conversion, reason)

    def _of_unknown_list(self, conversion: Conversion) -> Finding | None:
        """A list of what may be arrays: a method that arrays have made some of it, or floats are made of anything."""
        flow, arrays, data = conversion.script.flow, conversion.arrays, conversion.data
        if not is_list(flow, data):
            return None
        put = remembered(flow, arrays.bound, conversion.module, data)
        if put:
            is_meant = makes_floats(conversion) or any(arrays.array(*each) is not None for each in put)
            unknown = unknown_remembered(arrays, flow, put) if is_meant else None
            return None if unknown is None else self._left(conversion, why_unknown_list(conversion, *unknown))
        made = arrays.made_by_methods(conversion.module, data)
        item = (conversion.module, made) if made is not None else None
        if item is None and makes_floats(conversion) and not isinstance(data, (ast.List, ast.Tuple)):
            item = unknown_item(arrays, flow, data)
        return None if item is None else self._left(conversion, why_unknown_list(conversion, *item))

    def _site(self, conversion: Conversion) -> Finding | None:
        flow, arrays, module, data = conversion.script.flow, conversion.arrays, conversion.module, conversion.data
        if isinstance(data, (ast.Constant, ast.Starred)) or is_number(arrays, flow, module, data):
            return None
        arrays.obstacle = None
        array, items = arrays.array(module, data), arrays.list_of(module, data)
        of_tensor = conversion.form is Form.COPYING and is_tensor(flow, data)
        if array is None and items is None and not of_tensor:
            if is_list(flow, data):
                return self._of_unknown_list(conversion)
            is_known = is_number_or_tensor(flow, data)
            return None if is_known else self._left(conversion, why_copied_alike(conversion) or why_unknown(conversion))
        reason = why_no_call(conversion)
        if reason is not None:
            return self._left(conversion, reason)
        if array is not None:
            return self._of_array(conversion, array)
        return self._of_tensor(conversion) if items is None else self._of_list(conversion, items)

    def _of_array(self, conversion: Conversion, array: Array) -> Finding | None:
        module, call, torch = conversion.module, conversion.call, conversion.torch
        if conversion.form is Form.LEGACY:
            reason = why_not_of_legacy(conversion, array)
            if reason is not None:
                return self._left(conversion, reason)
            edits: list[Edit] = [Replace(module, call.func, f"{torch}.as_tensor")]
            if array.format != conversion.format:
                edits.append(AddArgument(module, call, "dtype", f"{torch}.{conversion.format}"))
            return self.rewrites(module, call, _LEGACY, *edits)
        reason = why_not_of_array(conversion, array)
        if reason is not None and reason.code == "nothing-to-gain" and not conversion.is_repeated:
            return None  # one copy is as good as another
        if reason is not None:
            return self._left(conversion, reason)
        requires = conversion.arguments.get("requires_grad")
        if requires is None:
            return self.rewrites(module, call, _COPIED, Replace(module, call.func, f"{torch}.as_tensor"))
        gradient = ".requires_grad_()" if isinstance(requires, ast.Constant) and requires.value else ""
        handed_on, holes = _handed_on(conversion)
        template = f"{torch}.as_tensor({{data}}{handed_on}){gradient}"
        return self.rewrites(module, call, _COPIED, Replace(module, call, template, holes))

    def _of_list(self, conversion: Conversion, items: Array) -> Finding:
        module, call, torch = conversion.module, conversion.call, conversion.torch
        numpy = conversion.script.spelled(module, "numpy.array", module.statement(call))
        if numpy is None:
            return self._left(conversion, Reason("no-name", "NumPy cannot be named where the tensor is made"))
        reason = why_not_of_list(conversion, items)
        if reason is not None:
            return self._left(conversion, reason)
        handed_on, holes = _handed_on(conversion)
        joined, format_ = f"{numpy}({{data}})", read_as(conversion, items)
        if format_ is not None:
            named = conversion.script.spelled(module, f"numpy.{format_}", module.statement(call)) or f'"{format_}"'
            joined = f"{numpy}({{data}}, dtype={named})"
        if conversion.form is Form.LEGACY and conversion.format != format_:
            handed_on = f", dtype={torch}.{conversion.format}"
        template = f"{torch}.as_tensor({joined}{handed_on})" if handed_on else f"{torch}.from_numpy({joined})"
        return self.rewrites(module, call, _ELEMENTS, Replace(module, call, template, holes))

    def _of_tensor(self, conversion: Conversion) -> Finding:
        if conversion.call.keywords:
            text = "it is a tensor already, which is given other properties here"
            return self._left(conversion, Reason("other-arguments", text))
        edit = Replace(conversion.module, conversion.call, "{data}.detach().clone()", (("data", conversion.data),))
        return self.rewrites(conversion.module, conversion.call, _OF_TENSOR, edit)

    def _left(self, conversion: Conversion, because: Reason) -> Finding:
        return self.left(conversion.module, conversion.call, because)


def _chained(module: Module, call: ast.AST) -> Iterator[ast.Call]:
    """``torch.Tensor(x).to(device)``: the call, and the methods that move or shape the tensor after it."""
    above: ast.AST | None = call
    while isinstance(above, ast.Call):
        yield above
        method = module.parent(above)
        is_shaping = isinstance(method, ast.Attribute) and method.attr in _SHAPING
        above = module.parent(method) if is_shaping and method is not None else None


_SHAPING = frozenset({"to", "cuda", "view", "reshape", "flatten", "squeeze", "unsqueeze"})


def _growth(edit: Edit) -> int:
    """By how many columns an edit makes a line longer."""
    match edit:
        case AddArgument(_, _, name, value):
            return len(f", {name}={value}")
        case Replace(module, node, template, holes):
            kept = {name: module.code(hole) for name, hole in holes}
            return len(template.format_map(kept)) - len(module.code(node))
    return 0


def _handed_on(conversion: Conversion) -> tuple[str, tuple[tuple[str, ast.expr], ...]]:
    """The arguments that stay beside the data, as they stand in a template, and what goes into its holes."""
    stay = {str(name): node for name, node in conversion.arguments.items() if name != "requires_grad"}
    return "".join(f", {name}={{{name}}}" for name in stay), (("data", conversion.data), *stay.items())
