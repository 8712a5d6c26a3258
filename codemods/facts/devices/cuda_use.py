"""Why is nothing known to go to CUDA, and does the script capture graphs of CUDA's itself?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import lasting
from codemods.facts.devices.devices import DeviceKind
from codemods.facts.reason import HERE, Place, Reason, at
from codemods.library.streams import CAPTURES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.devices.transfers import Transfer
    from codemods.facts.script import Script


def unknown_device(script: Script, moves: Iterable[Transfer]) -> Reason | None:
    """Why it is not known of one of the moves whether it goes to CUDA; None where nothing is unknown."""
    for move in moves:
        if move.device.kind is DeviceKind.UNKNOWN and move.device.node is not None and move.device.reason:
            device = ast.unparse(move.device.node)
            text = f"whether {device} is a CUDA device is not known ({HERE}): {move.device.reason}"
            return Reason("unknown-device", text, (located(script, move.call),))
    return None


def no_cuda(script: Script) -> Reason:
    """What is said where nothing is moved to CUDA."""
    if script.default_device is not None:
        text = f"whether the default device is CUDA is not followed ({HERE}):"
        return Reason("unknown-device", text, (located(script, script.default_device),), "move the model to it")
    return Reason("no-cuda", "no CUDA: nothing in this file moves a model or its batches to a CUDA device")


def located(script: Script, node: ast.expr | ast.stmt) -> Place:
    """Where the node stands."""
    return at(next((each for each in script.flow.modules if each.holds(node)), script.module), node)


def capture(script: Script) -> Reason | None:
    """Why training that the script itself captures as a CUDA graph is left as it is.

    What is captured must not wait for the device, as a gradient scaler's step does, nor bring graphs of its own, as
    compiled code may.
    """
    for module in script.modules:
        node = _capture_in(script.flow, module)
        if node is not None:
            return Reason("captured", f"the script captures CUDA graphs itself ({HERE})", (at(module, node),))
    return None


@lasting  # each model asks
def _capture_in(flow: Flow, module: Module) -> ast.AST | None:
    # Most modules do not even have the words, and this asks about every name.
    if "graph" not in module.text.lower() or "cuda" not in module.text:
        return None
    nodes = module.nodes(ast.Name, ast.Attribute)
    return next((each for each in nodes if any(one.name in CAPTURES for one in flow.values(each))), None)
