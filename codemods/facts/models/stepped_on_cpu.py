"""Which models' parameters does an optimizer step on the CPU, in each run of the script or where there is no CUDA?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemods.facts.devices.cuda_use import no_cuda, unknown_device
from codemods.facts.devices.devices import DeviceKind
from codemods.facts.models.stepped import given_models, moves_with, stepped
from codemods.facts.reason import HERE, Reason, at

if TYPE_CHECKING:
    from codemods.dataflow.values import Value
    from codemods.facts.script import Construction, Script

_KNOWN = frozenset({DeviceKind.CPU, DeviceKind.CUDA, DeviceKind.CONDITIONAL})


def stepped_on_cpu(script: Script, made: Construction) -> tuple[tuple[Value, ...], str] | Reason | None:
    """The models of an optimizer that may train on the CPU, and the condition under which they train on CUDA instead.

    The condition is empty where they never do. None where they always do.
    """
    models = given_models(script, made)
    if isinstance(models, Reason):
        return models
    moves = [each for model in models for each in moves_with(script, model)]
    for each in moves:
        if each.device.kind not in _KNOWN or each.device.may_be_mps or "xpu" in each.device.names:
            is_unknown = each.device.kind is DeviceKind.UNKNOWN
            what = f"is not known: {each.device.reason}" if is_unknown else "may be another accelerator"
            code = "unknown-device" if is_unknown else "other-accelerator"
            return Reason(code, f"the device of its model ({HERE}) {what}", (at(each.module, each.call),))
    if not script.may_use_cuda:
        otherwise = no_cuda(script)
        return unknown_device(script, script.transfers) or (otherwise if otherwise.code != "no-cuda" else (models, ""))
    if not any(each.may_reach_cuda for each in moves):
        return Reason("unknown-device", "the script uses CUDA, and its model is not moved in this file")
    found = stepped(script, made)
    if isinstance(found, Reason):
        return found
    return None if found.test == "True" else (models, found.test)
