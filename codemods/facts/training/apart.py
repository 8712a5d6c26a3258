"""Which tensors that a loop would add up may lie on devices apart, or on one that has no floats of 64 bits?"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from codemods.dataflow.source import is_dotted_name, walk
from codemods.dataflow.values import Tensor
from codemods.facts.devices.chosen import is_free
from codemods.facts.reach import own
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.sums import Deferral

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.facts.reason import Place
    from codemods.facts.script import Script
    from codemods.facts.training.totals import Total

_WITHOUT_FLOAT64 = frozenset({"mps", "xpu", "hpu", "npu", "dml", "xla"})
_MOVES = frozenset({"to", "cuda"})


def why_apart(script: Script, total: Total, *, adds_one: bool) -> Reason | None:
    """Why what is added to one sum may lie on several CUDA devices, which cannot add up.

    Args:
        script: The script.
        total: The sum.
        adds_one: Whether each iteration adds one tensor, which has its device in all of them, or
            keeps what it has apart.
    """
    for place in _devices_of_passes(script.flow, total):
        text = f"each iteration may have a device of its own ({HERE}), and tensors of two cannot be added up"
        return Reason("several-devices", text, (at(total.module, place),))
    return None if adds_one else _why_model_apart(script)


def _why_model_apart(script: Script) -> Reason | None:
    """Why the tensors of one iteration may lie on several devices."""
    named: dict[str, Place] = {}
    for module in script.modules:
        for node in module.nodes(ast.Constant):
            if isinstance(node.value, str) and re.fullmatch(r"cuda:\d+", node.value):
                named.setdefault(node.value, at(module, node))
        for call in module.nodes(ast.Call):
            match call:
                case ast.Call(ast.Attribute(attr="cuda"), [ast.Constant(int(index))]):
                    named.setdefault(f"cuda:{index}", at(module, call))
            if any(each.arg == "device_map" and not _is_none(each.value) for each in call.keywords):
                text = f"a library may put a model on several devices ({HERE}), and tensors of two cannot be added up"
                return Reason("several-devices", text, (at(module, call),))
    if len(named) < 2:  # noqa: PLR2004 - one device can be written in many places
        return None
    text = f"the script uses several CUDA devices ({HERE}, {HERE}), and tensors of two cannot be added up"
    return Reason("several-devices", text, tuple(named.values())[:2])


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _devices_of_passes(flow: Flow, total: Total) -> Iterator[ast.expr]:
    """Where the loop names a device by what it goes through: ``for model, device in zip(models, devices):``."""
    if not isinstance(total.loop, ast.For):
        return
    counted = {each.id for each in walk(total.loop.target) if isinstance(each, ast.Name)}
    for call in own(total.loop, ast.Call):
        is_move = isinstance(call.func, ast.Attribute) and call.func.attr in _MOVES
        given = [*(call.args[:1] if is_move else ()), *(each.value for each in call.keywords if each.arg == "device")]
        for each in given:
            # `y.to(x.device)` and `y.to(x.dtype)` of a batch are about no other device.
            is_of_tensor = isinstance(each, ast.Attribute) and not isinstance(each.value, ast.Call)
            if is_of_tensor or _is_tensor(flow, each):
                continue
            if counted & {one.id for one in walk(each) if isinstance(one, ast.Name)}:
                yield each


def _is_tensor(flow: Flow, node: ast.expr) -> bool:
    return any(isinstance(each, Tensor) for each in flow.values(node))


def can_tell_device(deferral: Deferral) -> bool:
    """Whether each pass may ask what it adds whether it is on CUDA: ``loss.is_cuda``, of a name that is read twice."""
    is_sum = type(deferral) is Deferral
    return is_sum and all(is_dotted_name(each.tensor) and not each.copies for each in deferral.readings)


def other_device(script: Script) -> Reason | None:
    """Where the script may train on an accelerator that may have no floats of 64 bits."""
    for module in script.modules:
        for node in module.nodes(ast.Constant, ast.Attribute):
            named = node.value if isinstance(node, ast.Constant) else node.attr
            name = named.partition(":")[0] if isinstance(named, str) else ""
            is_accelerator = isinstance(node, ast.Attribute) and name == "current_accelerator"
            if name in _WITHOUT_FLOAT64 or is_accelerator:
                text = f"the script may run on another accelerator, which may have no floats of 64 bits ({HERE})"
                return Reason("other-accelerator", text, (at(module, node),))
    return _why_chosen(script)


def _why_chosen(script: Script) -> Reason | None:
    """Where the user may name any device when the script is started, and nothing in it needs CUDA."""
    if not is_free(script):
        return None
    moves = (each for each in script.transfers if script.runs(each.module, each.call))
    chosen = next((each for each in moves if each.device.is_chosen), None)
    if chosen is None:
        return None
    text = f"the device is named when the script is started ({HERE}), and may have no floats of 64 bits:"
    place = at(chosen.module, chosen.call)
    return Reason("other-accelerator", text, (place,), remedy="give the option choices=['cuda', 'cpu']")
