"""Which optimizers keep momentum, and may a gradient scaler leave it unset if they step fused?

A fused SGD makes its buffers in its first step without filling them (``torch.empty_like``), as its kernel does that. A
scaler that finds an overflow in that step has the kernel do nothing; the second step then takes what lay in memory for
momentum. Seen with torch 2.14: parameters of 1e26, or NaN.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import argument_of
from codemods.dataflow.source import last_name
from codemods.dataflow.values import External, Literal, Unknown
from codemods.facts.reason import HERE, Reason, at
from codemods.library.fused import LEAVES_MOMENTUM_UNSET
from codemods.library.kinds import Kind, kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value
    from codemods.facts.script import Script

_FUSED = "fused"
_MOMENTUM = "momentum"
_OF_MOMENTUM = 2
"""The place of ``momentum`` among the arguments of SGD, from 0."""
_UNSET = "momentum-unset"
_SKIPS = "may skip the first step, after which a fused SGD takes its momentum from memory that was never set;"
_SCALER = re.compile(r"(grad|loss|amp|native)\w*scaler", re.IGNORECASE)
"""The names of scalers that are not read: timm's ``NativeScaler``, ``ShardedGradScaler``."""


def keeps_momentum(script: Script, value: Value) -> bool:
    """Whether it is, or may be, an SGD that keeps momentum: one whose fused step sets that in its kernel."""
    if value.name not in LEAVES_MOMENTUM_UNSET:
        return False
    if not isinstance(value.site, ast.Call):
        return True
    given = argument_of(value.site, _MOMENTUM, _OF_MOMENTUM)
    is_open = any(isinstance(each, ast.Starred) for each in value.site.args)
    is_open = is_open or any(each.arg is None for each in value.site.keywords)
    return is_open or not (given is None or _is_zero(script.flow, given)) or _is_set_by_group(script)


def _is_zero(flow: Flow, node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return node.value == 0
    values = flow.values(node)
    return bool(values) and all(isinstance(each, Literal) and each.value == 0 for each in values)


def _is_set_by_group(script: Script) -> bool:
    """Whether a group of parameters may be given momentum: ``{"momentum": 0.9}``, ``group["momentum"] = 0.9``."""
    for module in script.modules:
        if _MOMENTUM not in module.text:
            continue
        for node in module.nodes(ast.Dict, ast.Subscript, ast.Call):
            match node:
                case ast.Dict(keys):
                    if any(isinstance(each, ast.Constant) and each.value == _MOMENTUM for each in keys):
                        return True
                case ast.Subscript(_, ast.Constant("momentum"), ast.Store()):
                    return True
                case ast.Call(ast.Name("dict"), _, keywords):
                    if any(each.arg == _MOMENTUM for each in keywords):
                        return True
    return False


def scalers(script: Script) -> Iterator[tuple[Module, ast.Call]]:
    """Where gradient scalers are made, or may be, that are not switched off for good."""
    for module in script.modules:
        for call in module.nodes(ast.Call):
            is_known = any(kind(script.flow, each) is Kind.SCALER for each in script.flow.values(call))
            if (is_known or _is_unread_scaler(script.flow, call)) and not _is_off(call):
                yield module, call


def _is_unread_scaler(flow: Flow, call: ast.Call) -> bool:
    callees = flow.values(call.func)
    is_unread = not callees or any(isinstance(each, (External, Unknown)) for each in callees)
    return is_unread and _SCALER.fullmatch(last_name(call.func)) is not None


def _is_off(call: ast.Call) -> bool:
    given = argument_of(call, "enabled")
    return given is not None and _is_false(given)


def why_momentum_unset(script: Script, value: Value) -> Reason | None:
    """Why the momentum of a fused step may be what lay in memory; None where it is set before it is read."""
    made = next(scalers(script), None) if keeps_momentum(script, value) else None
    if made is None:
        return None
    return Reason(_UNSET, f"the gradient scaler ({HERE}) {_SKIPS}", (at(*made),), "bf16 needs no scaler")


def why_unset_beside(rule: str) -> Reason:
    """The same where the rule adds a scaler."""
    remedy = f"--{rule} bf16 needs no scaler, and --ignore {rule} adds none"
    return Reason(_UNSET, f"the gradient scaler that {rule} adds {_SKIPS}", remedy=remedy)


def is_fused(value: Value) -> bool:
    """Whether the script asks for the fused step of the optimizer, or may: it says how that steps."""
    given = value.site.keywords if isinstance(value.site, ast.Call) else ()
    return any(each.arg is None or (each.arg == _FUSED and not _is_false(each.value)) for each in given)


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value
