"""Which models does DistributedDataParallel wrap, and may their gradients be views of what processes send each other?

With ``gradient_as_bucket_view=True`` a gradient is a part of the memory that is summed up over all processes. Who keeps
a gradient from one iteration to the next, or gives a parameter another one, would see that.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.values import Literal, library_names
from codemods.facts.reason import HERE, Reason, at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Module
    from codemods.facts.script import Script

_WRAPPER = "torch.nn.parallel.DistributedDataParallel"
_VIEWS = "gradient_as_bucket_view"
_BEFORE_VIEWS = 5
"""So many arguments by position are the same ones in all versions of torch."""
_HOOKS = frozenset({"register_comm_hook", "register_hook", "register_post_accumulate_grad_hook"})
_CAPTURES = frozenset({"torch.cuda.graph", "torch.cuda.CUDAGraph", "torch.cuda.make_graphed_callables"})
_OTHER_SENDERS = ("torch.distributed.rpc.", "torch.distributed.autograd.", "torch.distributed.optim.")
_OPTIMIZERS = "torch.optim."


@dataclass(frozen=True, eq=False)
class Wrapped:
    """A call of DistributedDataParallel."""

    module: Module
    call: ast.Call
    says: bool
    """Whether it says already if gradients are views."""
    unused: ast.keyword | None
    """``find_unused_parameters=True``."""


def wrapped_models(script: Script) -> Iterator[Wrapped]:
    """The models that the module wraps."""
    module = script.module
    for call in script.flow.calls_of(module, {_WRAPPER}):
        if library_names(script.flow.values(call.func)) == {_WRAPPER} and script.may_run(module, call):
            unused = next((each for each in call.keywords if each.arg == "find_unused_parameters"), None)
            is_on = unused is not None and script.flow.values(unused.value) == {Literal("True")}
            says = any(each.arg == _VIEWS for each in call.keywords)
            yield Wrapped(module, call, says, unused if is_on else None)


def why_no_views(script: Script, call: ast.Call) -> Reason | None:
    """Why gradients may not be views, or may be seen to be."""
    is_open = any(isinstance(each, ast.Starred) for each in call.args) or any(
        each.arg is None for each in call.keywords
    )
    if is_open or len(call.args) > _BEFORE_VIEWS:
        return Reason("unknown-arguments", "its arguments are given with *, ** or by position:", remedy="name them")
    return _why_sent_otherwise(script) or _why_read(script) or _why_optimizer(script)


def _why_sent_otherwise(script: Script) -> Reason | None:
    for module in script.modules:
        for name in sorted(script.flow.called_names(module)):
            is_capture = name in _CAPTURES
            if not is_capture and not name.startswith(_OTHER_SENDERS):
                continue
            node = script.flow.calls_of(module, {name})[0]
            text = "a CUDA graph holds on to gradients" if is_capture else f"{name}() has gradients of its own"
            return Reason("captured" if is_capture else "gradients-read", f"{text} ({HERE})", (at(module, node),))
    return None


def _why_read(script: Script) -> Reason | None:
    """Where the project's code has to do with gradients itself."""
    for module in script.modules:
        for node in module.nodes(ast.Attribute):
            if node.attr in _HOOKS:
                text = f"a hook is given gradients, and may keep them ({HERE})"
                return Reason("gradients-read", text, (at(module, node),))
            if node.attr == "grad" and "torch.autograd.grad" not in library_names(script.flow.values(node)):
                text = f"gradients are read, kept or replaced ({HERE})"
                return Reason("gradients-read", text, (at(module, node),))
        for call in module.nodes(ast.Call):
            create = next((each for each in call.keywords if each.arg == "create_graph"), None)
            if create is not None and script.flow.values(create.value) != {Literal("False")}:
                return Reason("double-backward", f"gradients may be differentiated again ({HERE})", (at(module, call),))
    return None


def _why_optimizer(script: Script) -> Reason | None:
    """Why an optimizer may keep gradients, or replace them: each of torch's own reads them in its step alone."""
    if not script.optimizers:
        return Reason("unknown-optimizer", "no optimizer is seen, and it may keep gradients")
    for each in script.optimizers:
        if not each.value.name.startswith(_OPTIMIZERS):
            text = f"the optimizer is not torch's, and may keep gradients ({HERE})"
            return Reason("unknown-optimizer", text, (at(each.module, each.call),))
    return None
