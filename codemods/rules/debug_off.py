"""Rule ``debug-off``: what looks into a run without telling anybody is switched off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemods.codemod import Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.editing.values import Remove, Replace, Unwrap
from codemods.facts.reason import Reason
from codemods.facts.training.debugging import blocking, diagnostics
from codemods.library.diagnostics import Diagnosis

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from codemods.codemod import Finding
    from codemods.editing.values import Edit
    from codemods.facts.script import Script
    from codemods.facts.training.debugging import Diagnostic

_MESSAGES = {
    Diagnosis.ANOMALY: "each backward is checked for NaN, operation by operation",
    Diagnosis.PROFILE: "each operation is recorded for a profile that nobody reads",
    Diagnosis.HISTORY: "each allocation on the GPU is recorded, and nobody reads it",
}
_BLOCKING = "the host waits for each kernel before it launches the next"
_SETTER = "torch.autograd.set_detect_anomaly"


class DebugOff(Codemod):
    """Switches off what was there to find a fault: anomaly detection, profiles that nobody reads, blocking launches.

    Why it is faster:
        Anomaly detection keeps a traceback of each operation of the forward pass, and looks for NaN in each gradient of
        the backward pass, for which the host waits on a GPU. A profiler records each operation. With
        ``CUDA_LAUNCH_BLOCKING=1`` the host waits for each kernel, and launches none ahead.

    When it is left:
        An option or a condition of the script switches it on. Anomaly detection: the script goes on after an error of
        its training, or it is part of a test. Blocking launches: iterations are timed, or the script may rely on the
        host waiting for the device, as where it copies to the host without blocking. ``emit_nvtx`` may serve a profiler
        outside of the script, and ``gradcheck`` in a loop is an assertion. Of a profile that is read nothing is said,
        nor of what an option switches on that is off by default.

    Results:
        The same values, bit for bit. Where a gradient is NaN, the script goes on with it as it would without anomaly
        detection; an error of a kernel is reported later, at another line.

    References:
        PyTorch performance tuning guide, "Disable debugging APIs"; ``torch.autograd.set_detect_anomaly``.
    """

    promise = Promise.BITWISE
    gain = "without anomaly detection an iteration 1.2-8x as fast (CPU)"
    gain_sources = ("docs/measured.md#anomaly-detection",)
    needs_cuda = False
    phases = frozenset({Phase.FORWARD, Phase.BACKWARD})
    causes = words("error-caught other-stream profile-used script-decides timing unknown-arguments")
    examples = (
        Rewrites(
            before="""\
import torch
from torch import nn

torch.autograd.set_detect_anomaly(True)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(10, 8, 4):
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
""",
            after="""\
import torch
from torch import nn

torch.autograd.set_detect_anomaly(False)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(10, 8, 4):
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
""",
        ),
        Rewrites(
            before="""\
import torch
from torch import nn

model = nn.Linear(4, 1)
for x in torch.randn(10, 8, 4):
    loss = model(x).mean()
    with torch.autograd.detect_anomaly():
        loss.backward()
""",
            after="""\
import torch
from torch import nn

model = nn.Linear(4, 1)
for x in torch.randn(10, 8, 4):
    loss = model(x).mean()
    loss.backward()
""",
        ),
        Leaves(
            code="""\
import torch
from torch import nn

model = nn.Linear(4, 1)
torch.autograd.set_detect_anomaly(True)
for x in torch.randn(10, 8, 4):
    try:
        model(x).log().mean().backward()
    except RuntimeError:
        print("skipped")
""",
            because=(
                "anomaly detection raises an error where a gradient is NaN, and the script goes on after it (line 9)"
            ),
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every place of the module that switches on what looks into the run."""
        for each in diagnostics(script):
            edit = each.why_needed or _edit(script, each)
            if isinstance(edit, Reason):
                yield self.left(each.module, each.call, edit)
            else:
                yield self.rewrites(each.module, each.call, _MESSAGES[each.kind], edit)
        for setting in blocking(script):
            if setting.why_needed is not None:
                yield self.left(setting.module, setting.node, setting.why_needed)
            else:
                quote = setting.module.code(setting.value)[-1]
                edit = Replace(setting.module, setting.value, f"{quote}0{quote}")
                yield self.rewrites(setting.module, setting.node, _BLOCKING, edit, needs="cuda")


def _edit(script: Script, found: Diagnostic) -> Edit | Reason:
    """What switches it off."""
    module, statement = found.module, found.module.statement(found.call)
    if found.kind is Diagnosis.HISTORY:
        return Remove(module, statement)
    if found.block is not None and _may_go(found, found.block):
        return Unwrap(module, found.block)
    if found.argument is not None:
        return Replace(module, found.argument, "False")
    name = script.spelled(module, _SETTER, statement)
    if name is None:
        return Reason("not-editable", "it is one of several contexts, and cannot be switched off by itself there")
    return Replace(module, found.call, f"{name}(False)")


def _may_go(found: Diagnostic, block: ast.With) -> bool:
    """Whether the whole block goes: its name is not used, and its suite stands in lines of its own."""
    is_profile = found.kind is Diagnosis.PROFILE
    is_apart = block.body[0].lineno > block.items[-1].context_expr.lineno
    return is_profile or (is_apart and block.items[0].optional_vars is None)
