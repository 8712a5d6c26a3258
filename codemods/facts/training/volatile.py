"""Where scripts of old say ``volatile=True``, as ``torch.no_grad()`` was written before PyTorch 0.4."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import signature
from codemods.dataflow.source import FUNCTIONS
from codemods.facts.loops import module_of

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee
    from codemods.facts.training.modes import Modes


def is_volatile(flow: Flow, call: ast.Call) -> bool:
    """Whether the call is ``Variable(x, volatile=True)``, or of the script's own function that hands it on."""
    return may_be_volatile(flow, call) and any(
        each.arg == "volatile" and isinstance(each.value, ast.Constant) for each in call.keywords
    )


def is_idle(flow: Flow, modes: Modes, call: ast.Call) -> bool:
    """Whether gradients are off wherever the call asks for that: around it, or around its function's callers.

    Of ``Variable(x, volatile=evaluation)`` only the callers count that do not leave ``evaluation`` at ``False``.
    """
    module = module_of(flow, call)
    function = module.function(call)
    if modes.without_gradients(module, call):
        return True
    asked = next((each.value for each in call.keywords if each.arg == "volatile"), None)
    if (
        not isinstance(asked, ast.Name)
        or function is None
        or flow.escapes(function)
        or flow.owner(function) is not None
    ):
        return False
    callers = flow.callers(function)
    return bool(callers) and all(
        _is_left_off(function, each, asked.id) or modes.without_gradients(module_of(flow, each), each)
        for each in callers
    )


def _is_left_off(function: Callee, call: ast.Call, name: str) -> bool:
    """Whether the function is called with ``False`` for a parameter, given or by default."""
    taken = signature(function)
    binding = taken.bind(call)
    given = binding.given.get(name, taken.defaults.get(name) if binding.is_whole else None)
    return isinstance(given, ast.Constant) and not given.value


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
