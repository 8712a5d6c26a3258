"""What stands against the fused step of an optimizer, wherever its parameters are?"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from codemods.dataflow.values import Sort
from codemods.facts.devices.cuda_use import capture
from codemods.facts.reason import HERE, Reason, at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Module
    from codemods.facts.script import Made, Script

_LOADING = re.compile(r"load|resume|restore", re.IGNORECASE)
_COMPLEX = frozenset(f"torch.{name}" for name in ("complex32", "complex64", "complex128", "cfloat", "cdouble", "chalf"))
_APEX = "apex."
_HOOK = "gradients-read", "a hook runs with its steps, and may meet gradients that are scaled"
_USES = {
    "state": ("optimizer-state-used", "its state is used, in which the count of steps would be on the device"),
    "add_param_group": ("unknown-model", "parameters are added to it, which may be on another device"),
    "register_step_pre_hook": _HOOK,
    "register_step_post_hook": _HOOK,
}
"""What is done with an optimizer that a fused step does not go together with: the cause, and why."""


def why_not_fused(script: Script, made: Made) -> Reason | None:
    """Why the optimizer steps as it does, whatever it steps and wherever that is."""
    return (
        _why_loaded(script, made)
        or _why_used_otherwise(script, made)
        or capture(script)
        or _why_other_parameters(script)
    )


def _why_loaded(script: Script, made: Made) -> Reason | None:
    """A checkpoint is loaded into it, or may be.

    The optimizer then steps as the one that was saved, but a gradient scaler still leaves the scale to it.
    """
    for module, call in _calls(script):
        is_method = isinstance(call.func, ast.Attribute) and call.func.attr == "load_state_dict"
        if is_method and made.value in script.flow.values(call.func.value):  # type: ignore[attr-defined]
            text = f"a checkpoint is loaded into it, which decides how it steps ({HERE})"
            return Reason("checkpoint-loaded", text, (at(module, call),))
        name = _unread(script, call)
        given = [*call.args, *(each.value for each in call.keywords)]
        if _LOADING.search(name.rpartition(".")[2]) and any(made.value in script.flow.values(each) for each in given):
            text = f"{name}(), which was not read, may load a checkpoint into it ({HERE})"
            return Reason("checkpoint-loaded", text, (at(module, call),))
    return None


def _unread(script: Script, call: ast.Call) -> str:
    """The name of a function that was not read; empty for others."""
    for callee in script.flow.values(call.func):
        if callee.sort is Sort.UNKNOWN:
            return ast.unparse(call.func)
        if callee.sort is Sort.EXTERNAL and not callee.name.startswith("torch."):
            return callee.name
    return ""


def _why_used_otherwise(script: Script, made: Made) -> Reason | None:
    """Its state is read or written, parameters are added to it, hooks run with its steps, or apex has it."""
    for module in script.modules:
        for attribute in module.nodes(ast.Attribute):
            use = _USES.get(attribute.attr)
            if use is not None and made.value in script.flow.values(attribute.value):
                return Reason(use[0], f"{use[1]} ({HERE})", (at(module, attribute),))
    for module, call in _calls(script):
        if any(each.name.startswith(_APEX) for each in script.flow.values(call.func)):
            return Reason("other-precision", f"apex changes how optimizers step ({HERE})", (at(module, call),))
    return None


def _why_other_parameters(script: Script) -> Reason | None:
    """Gradients may be sparse, or parameters complex: no fused step takes them."""
    for module, call in _calls(script):
        for keyword in call.keywords:
            is_off = isinstance(keyword.value, ast.Constant) and not keyword.value.value
            if keyword.arg == "sparse" and not is_off:
                text = f"gradients may be sparse, which no fused step takes ({HERE})"
                return Reason("not-fusible", text, (at(module, call),))
    for module in script.modules:
        if "complex" not in module.text and "cfloat" not in module.text and "cdouble" not in module.text:
            continue
        for node in module.nodes(ast.Attribute, ast.Name):
            if any(each.sort is Sort.EXTERNAL and each.name in _COMPLEX for each in script.flow.values(node)):
                text = f"parameters may be complex, which no fused step takes ({HERE})"
                return Reason("not-fusible", text, (at(module, node),))
    return None


def _calls(script: Script) -> Iterator[tuple[Module, ast.Call]]:
    for module in script.modules:
        for call in module.nodes(ast.Call):
            yield module, call
