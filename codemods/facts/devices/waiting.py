"""What in a script may rely on the host waiting for the device?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import argument_of
from codemods.dataflow.values import Batch, External, Made
from codemods.facts.devices.devices import DeviceKind, device
from codemods.facts.reason import HERE, Reason, at
from codemods.library.processes import starts_training, threads_and_processes
from codemods.library.streams import CAPTURES, ENTERS_STREAM, SETS_STREAM, has_own_streams

if TYPE_CHECKING:
    from codemods.dataflow.source import Module
    from codemods.facts.script import Script

_CODE = "other-stream"
_UNAWAITED = frozenset({"torch.distributed.isend", "torch.distributed.irecv"})


def why_wait(script: Script) -> Reason | None:
    """Why the script may read or write memory too early where the host does not wait for the device."""
    for module in script.modules:
        for call in module.nodes(ast.Call):
            what = _needs_wait(script, call)
            if what is not None and script.may_run(module, call):
                return Reason(_CODE, f"{what} ({HERE}), and may rely on the host waiting", (at(module, call),))
        package = _other_queue(module)
        if package is not None:
            text = f"another library than torch queues work on the device ({HERE}), and may rely on the host waiting"
            return Reason(_CODE, text, (at(module, package),))
    return None


def _needs_wait(script: Script, call: ast.Call) -> str | None:
    """What a call does that is ordered by nothing but the host waiting."""
    names = {each.name for each in script.flow.values(call.func) if isinstance(each, (External, Made))}
    if names & (ENTERS_STREAM | SETS_STREAM):
        return "work is queued on another stream"
    if names & CAPTURES:
        return "a CUDA graph is captured"
    if any(starts_training(each) for each in names) or names & threads_and_processes():
        return "other processes or threads are started"
    if names & _UNAWAITED or _is_asked(call, "async_op"):
        return "processes talk to each other without waiting"
    return "a copy between host and device does not block" if _copies_unordered(script, call) else None


def _is_asked(call: ast.Call, name: str) -> bool:
    given = argument_of(call, name)
    return given is not None and not (isinstance(given, ast.Constant) and not given.value)


def _copies_unordered(script: Script, call: ast.Call) -> bool:
    """``x.to("cpu", non_blocking=True)``, or a copy to the device of what may be written on the host meanwhile.

    What a loader hands out, or what is made in the expression itself, nobody writes to.
    """
    if not _is_asked(call, "non_blocking") or not isinstance(call.func, ast.Attribute):
        return False
    method, source = call.func.attr, call.func.value
    values = script.flow.values(source)
    is_new = isinstance(source, ast.Call) or (bool(values) and all(isinstance(each, Batch) for each in values))
    if method == "to":
        target = argument_of(call, "device", 0)
        kind = device(script.flow, target).kind if target is not None else DeviceKind.UNKNOWN
        return not is_new or kind not in {DeviceKind.CUDA, DeviceKind.CONDITIONAL}
    return method != "cuda" or not is_new


def _other_queue(module: Module) -> ast.AST | None:
    """Where a package is imported that queues work on streams of its own."""
    for statement in module.nodes(ast.Import, ast.ImportFrom):
        names = [each.name for each in statement.names]
        if isinstance(statement, ast.ImportFrom):
            names = [statement.module or ""] if not statement.level else []
        if any(map(has_own_streams, names)):
            return statement
    return None
