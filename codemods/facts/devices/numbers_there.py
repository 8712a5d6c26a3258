"""Which tensors are made on a device of one number that is copied there: ``torch.tensor(0.0, device=device)``?

The host waits for the copy. To fill in the number there, as ``torch.zeros`` and ``torch.full`` do, copies nothing.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.values import library_names
from codemods.facts.devices.devices import DeviceKind, device
from codemods.facts.devices.fillings import runs_often, why_item, why_other_order
from codemods.facts.devices.number_fills import number_fill

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.facts.devices.number_fills import NumberFill
    from codemods.facts.reason import Reason
    from codemods.facts.script import Script

_COPYING = frozenset({"torch.tensor", "torch.as_tensor"})
_KEYWORDS = frozenset({"device", "dtype"})


@dataclass(frozen=True, eq=False)
class NumberThere:
    """``torch.tensor(0.0, device=device)``."""

    call: ast.Call
    fill: NumberFill
    """How else it is made."""
    device: ast.expr
    why_not: Reason | None


def numbers_there(script: Script) -> Iterator[NumberThere]:
    """The tensors that the module makes of one number on what may be a GPU, in a loop or for each batch."""
    module = script.module
    for call in module.nodes(ast.Call) if script.may_use_cuda else ():
        given = next((each.value for each in call.keywords if each.arg == "device"), None)
        if given is None or not {each.arg for each in call.keywords} <= _KEYWORDS:
            continue
        names = library_names(script.flow.values(call.func))
        fill = number_fill(script, next(iter(names)), call) if len(names) == 1 and names <= _COPYING else None
        if fill is None or fill.function is None or device(script.flow, given).kind is DeviceKind.CPU:
            continue
        if why_item(script, module, call) is None and script.may_run(module, call) and runs_often(script, module, call):
            yield NumberThere(call, fill, given, why_other_order(script, module, call))
