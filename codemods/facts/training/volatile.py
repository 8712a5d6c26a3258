"""Where scripts of old say ``volatile=True``, as ``torch.no_grad()`` was written before PyTorch 0.4."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import signature
from codemods.dataflow.source import FUNCTIONS

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow


def is_volatile(flow: Flow, call: ast.Call) -> bool:
    """Whether the call is ``Variable(x, volatile=True)``, or of the script's own function that hands it on."""
    return may_be_volatile(flow, call) and any(
        each.arg == "volatile" and isinstance(each.value, ast.Constant) for each in call.keywords
    )


def may_be_volatile(flow: Flow, call: ast.Call) -> bool:
    """Whether the call is ``Variable(x, volatile=…)`` with anything but ``False``, or hands that on."""
    given = bool(call.keywords) and any(
        each.arg == "volatile" and not (isinstance(each.value, ast.Constant) and not each.value.value)
        for each in call.keywords
    )
    return given and any(
        each.name == "torch.autograd.Variable"
        or (isinstance(each.site, FUNCTIONS) and signature(each.site).kwarg is not None)
        for each in flow.values(call.func)
    )
