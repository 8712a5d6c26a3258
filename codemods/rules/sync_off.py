"""Rule ``sync-off``: no iteration waits for the device, or tidies up memory, where nothing needs it to."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.codemod import UNMEASURED, Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.editing.values import Remove
from codemods.facts.devices.devices import asks_for_device
from codemods.facts.training.pauses import pauses
from codemods.library.idling import Pause

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from codemods.codemod import Finding, Need
    from codemods.dataflow.source import Module
    from codemods.facts.script import Script

_MESSAGES = {
    Pause.CACHE: "cached memory is given back in each iteration, only to be asked for again",
    Pause.WAIT: "the host waits for the device in each iteration",
    Pause.COLLECTION: "garbage is sought among all objects in each iteration",
}


class SyncOff(Codemod):
    """Takes ``empty_cache()``, ``gc.collect()`` and ``synchronize()`` out of iterations.

    Why it is faster:
        After ``torch.cuda.empty_cache()`` the allocator has to ask the driver for memory again, which waits for the
        device; it gives cached memory back by itself before it reports that none is left. ``gc.collect()`` looks at all
        objects of the program, also those of libraries; Python collects garbage by itself. Where the host waits for the
        device in each iteration, it launches nothing ahead.

    When it is left:
        It runs between iterations or after an error, where it costs little: nothing is said of that. The script runs it
        by a condition of its own, such as in each hundredth iteration. Memory is measured, or the script goes on where
        none is left. Garbage: gradients that have a graph hold each other. Waiting: a clock is read, other streams,
        processes or CUDA libraries are used, or a copy to the host does not block. ``time.sleep()`` stays.

    Results:
        The same values, bit for bit. More memory may be in use between iterations.

    References:
        PyTorch performance tuning guide, "Avoid unnecessary CPU-GPU synchronization"; notes/cuda, "Memory management".
    """

    promise = Promise.BITWISE
    gain = "an iteration 160-180 ms shorter without gc.collect() (CPU)"
    gain_sources = ("docs/measured.md#gc-collect",)
    needs_cuda = False
    phases = frozenset({Phase.OTHER, Phase.EVALUATION})
    causes = words("memory-scarce other-stream script-decides timing")
    examples = (
        Rewrites(
            before="""\
import gc
import torch
from torch import nn

model = nn.Linear(4, 1).cuda()
for x in torch.randn(10, 8, 4):
    model(x.cuda()).mean().backward()
    torch.cuda.empty_cache()
gc.collect()
""",
            after="""\
import gc
import torch
from torch import nn

model = nn.Linear(4, 1).cuda()
for x in torch.randn(10, 8, 4):
    model(x.cuda()).mean().backward()
gc.collect()
""",
        ),
        Leaves(
            code="""\
import time
import torch
from torch import nn

model = nn.Linear(4, 1).cuda()
for x in torch.randn(10, 8, 4):
    start = time.time()
    model(x.cuda()).mean().backward()
    torch.cuda.synchronize()
    print(time.time() - start)
""",
            because="a clock is read (line 7), and would not see what the device has still to do",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every statement of the module that waits or tidies up in iterations."""
        found = list(pauses(script))
        taken = {each.statement for each in found if each.why_needed is None}
        for each in found:
            if each.why_needed is not None:
                yield self.left(each.module, each.statement, each.why_needed)
                continue
            message = next(text for kind, text in _MESSAGES.items() if kind in each.kinds)
            is_collection = Pause.COLLECTION in each.kinds
            needs: Need = "" if is_collection else "cuda"
            gain = self.gain if is_collection else UNMEASURED
            edit = Remove(each.module, _whole(script, each.module, each.statement, taken))
            yield self.rewrites(each.module, each.statement, message, edit, gain=gain, needs=needs)


def _whole(script: Script, module: Module, statement: ast.stmt, taken: Collection[ast.stmt]) -> ast.stmt:
    """The statement, or what is only there for it: the question which device is used, or the choice of one."""
    whole, above = statement, module.parent(statement)
    while isinstance(above, (ast.If, ast.With)) and _is_only_for(script, above, taken):
        whole = whole if module.code(above).startswith("elif") else above
        above = module.parent(above)
    return whole


def _is_only_for(script: Script, node: ast.stmt, taken: Collection[ast.stmt]) -> bool:
    """Whether nothing is left of a statement without those that are taken out."""
    if isinstance(node, ast.If):
        is_question = asks_for_device(script.flow, node.test) and not _runs_code(script, node.test)
        return is_question and all(_is_only_for(script, each, taken) for each in (*node.body, *node.orelse))
    if isinstance(node, ast.With):
        made = {value.name for item in node.items for value in script.flow.values(item.context_expr)}
        return made == {"torch.cuda.device"} and all(_is_only_for(script, each, taken) for each in node.body)
    return node in taken


def _runs_code(script: Script, test: ast.expr) -> bool:
    """Whether a test calls anything but torch."""
    calls = (each for each in ast.walk(test) if isinstance(each, ast.Call))
    names = ([value.name for value in script.flow.values(each.func)] for each in calls)
    return any(not some or not all(name.startswith("torch.") for name in some) for some in names)
