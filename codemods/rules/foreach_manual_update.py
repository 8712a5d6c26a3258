"""Rule ``foreach-manual-update``: parameters that a loop changes one by one are changed as a list."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from typing import TYPE_CHECKING

from codemods.codemod import UNMEASURED, Codemod, Default, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.dataflow.placement import is_pythons_own
from codemods.dataflow.source import last_name
from codemods.editing.naming import taken_names
from codemods.editing.splitting import width
from codemods.editing.values import Replace
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.elementwise import Change, Column, Kept, needed_torch, operands, rounds_alike
from codemods.facts.training.manual_updates import manual_updates
from codemods.library.foreach import qualified

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.codemod import Finding
    from codemods.dataflow.source import Module
    from codemods.facts.script import Script
    from codemods.facts.training.elementwise import Operand, Step
    from codemods.facts.training.manual_updates import ManualUpdate

_MESSAGE = "each parameter is changed by operations of its own, one after the other"


class ForeachManualUpdate(Codemod):
    """Changes all parameters of a model at once (``for p in model.parameters():`` → ``torch._foreach_mul_``).

    Why it is faster:
        A loop over parameters calls torch for each of them, and CUDA starts a kernel each time: an average of weights
        starts three or four for each parameter, in each iteration. torch's functions for lists of tensors start a few
        for all of them; torch's own optimizers use them. On the CPU the calls alone count.

        Averages of weights (EMA), target networks, weights that are clamped, gradients that are scaled or clamped and
        descent that is written by hand are seen, in place (``mul_``, ``add_``, ``lerp_``, ``-=``) or by ``copy_``. With
        ``copy_`` all that is added is computed first, which takes the memory of one more copy of the weights.

    When it is left:
        The loop does more with a parameter, or passes over some. What it goes through is not seen to be parameters of
        models, or two models are not seen to be of one make: ``zip`` ends with the shorter one, a list raises an error.
        Buffers are changed, too, of which some hold integers. A factor may be a tensor. The weights may be in 16
        bits. An error would be caught. The loop runs once, or goes through a model that has no parameters.

    Results:
        The same values bit for bit where each operation is one of IEEE 754: to add, to subtract, to multiply, to clamp.
        ``add_(p, alpha=a)``, ``lerp_`` and a division may round otherwise on CUDA. The functions for lists are not
        documented: their names begin with an underscore. So the rule has to be selected.

    References:
        ``torch/optim/_multi_tensor``; pytorch issue 58833; ``torch.optim.swa_utils.AveragedModel``.
    """

    promise = Promise.PRECISION
    default = Default.OPT_IN
    gain = "the soft update of a target network of three layers 1.5 to 1.8 times as fast (CPU)"
    gain_sources = ("docs/measured.md#foreach-manual-update",)
    min_torch = (2, 0)
    needs_cuda = False
    phases = frozenset({Phase.OTHER})
    causes = words(
        """
        error-caught graph-escapes integer-buffers no-name not-elementwise nothing-to-gain other-precision
        unknown-model unknown-number unpaired-parameters used-outside
        """
    )
    examples = (
        Rewrites(
            before="""\
import copy

import torch
from torch import nn

critic = nn.Linear(8, 1)
target = copy.deepcopy(critic)
tau = 0.005
for step in range(1000):
    loss = critic(torch.randn(64, 8)).mean()
    loss.backward()
    for p, q in zip(critic.parameters(), target.parameters()):
        q.data.copy_(tau * p.data + (1 - tau) * q.data)
""",
            after="""\
import copy

import torch
from torch import nn

critic = nn.Linear(8, 1)
target = copy.deepcopy(critic)
tau = 0.005
for step in range(1000):
    loss = critic(torch.randn(64, 8)).mean()
    loss.backward()
    critic_params = [p.data for p in critic.parameters()]
    target_params = [q.data for q in target.parameters()]
    scaled = torch._foreach_mul(critic_params, tau)
    torch._foreach_mul_(target_params, 1 - tau)
    torch._foreach_add_(target_params, scaled)
""",
        ),
        Rewrites(
            before="""\
import torch
from torch import nn

critic = nn.Linear(8, 1)
optimizer = torch.optim.RMSprop(critic.parameters(), lr=5e-5)
for x in torch.randn(100, 16, 8):
    optimizer.zero_grad()
    critic(x).mean().backward()
    optimizer.step()
    with torch.no_grad():
        for p in critic.parameters():
            p.clamp_(-0.01, 0.01)
""",
            after="""\
import torch
from torch import nn

critic = nn.Linear(8, 1)
optimizer = torch.optim.RMSprop(critic.parameters(), lr=5e-5)
for x in torch.randn(100, 16, 8):
    optimizer.zero_grad()
    critic(x).mean().backward()
    optimizer.step()
    with torch.no_grad():
        params = list(critic.parameters())
        torch._foreach_clamp_min_(params, -0.01)
        torch._foreach_clamp_max_(params, 0.01)
""",
        ),
        Leaves(
            code="""\
import torch
from torch import nn

model, average = nn.Linear(8, 1), nn.Linear(8, 1)
for x in torch.randn(100, 16, 8):
    for p, q in zip(model.state_dict().values(), average.state_dict().values()):
        q.mul_(0.99).add_(0.01 * p)
""",
            because="buffers are changed as well (line 6), and some of them hold integers",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every loop of the module that changes parameters one by one, in each iteration."""
        for found in manual_updates(script):
            module, loop = found.module, found.loop
            if found.why_not is not None:
                yield self.left(module, loop, found.why_not)
                continue
            code = _Writer(script, found).code()
            if isinstance(code, Reason):
                yield self.left(module, loop, code)
                continue
            promise = Promise.BITWISE if all(map(rounds_alike, found.steps)) else Promise.PRECISION
            since = max(self.min_torch, needed_torch(found.steps))
            edit = Replace(module, loop, code.replace("{", "{{").replace("}", "}}"))
            gain = self.gain if len(found.owners) > 1 else UNMEASURED
            yield self.rewrites(module, loop, _MESSAGE, edit, promise=promise, since=since, gain=gain)


class _Writer:
    """Writes what changes the lists."""

    def __init__(self, script: Script, found: ManualUpdate) -> None:
        self._script = script
        self._found = found
        self._module = found.module
        self._taken = taken_names(found.module)
        self._names: dict[Column, str] = {}
        self._room = width(found.module) - found.loop.col_offset

    def code(self) -> str | Reason:
        """The statements, or why they cannot be written."""
        found, module = self._found, self._module
        lines = [*_comments(module, found)]
        columns = Counter(each for step in found.steps for each in _columns(step))
        for each in sorted(columns, key=lambda column: list(found.owners).index(column.variable)):
            if each.is_gradient and columns[each] == 1:  # a name would keep the gradients after they were zeroed
                self._names[each] = self._list(each)
                continue
            name = self._name(each)
            if name is None:
                text = f"a list of '{each.code}' cannot be given a name here ({HERE})"
                return Reason("no-name", text, (at(module, found.loop),))
            lines.append(f"{name} = {self._list(each)}")
        for step in found.steps:
            line = self._step(step)
            if line is None:
                text = f"'torch' cannot be named here ({HERE})"
                return Reason("no-name", text, (at(module, found.loop),))
            lines.append(line)
        return "\n".join(self._broken(each) for each in lines)

    def _name(self, column: Column) -> str | None:
        """What a colleague would call the list: ``critic_params``, or ``params`` where there is one model."""
        owner = last_name(self._found.owners[column.variable])
        word = "grads" if column.is_gradient else "params"
        wanted = [f"{owner}_{word}"] if owner else []
        wanted = [word, *wanted] if len(self._found.owners) == 1 else [*wanted, f"{column.variable}s"]
        taken = self._taken | set(self._names.values())
        name = next((each for each in (*wanted, f"all_{word}") if each not in taken), None)
        if name is not None:
            self._names[column] = name
        return name

    def _list(self, column: Column) -> str:
        owner = ast.unparse(self._found.owners[column.variable])
        parameters = f"{owner}.parameters()"
        if column.code == column.variable:
            is_named = is_pythons_own(self._module, "list", self._found.loop)
            return f"list({parameters})" if is_named else f"[*{parameters}]"
        return f"[{column.code} for {column.variable} in {parameters}]"

    def _step(self, step: Step) -> str | None:
        if isinstance(step, Kept):
            value = self._operand(step.value)
            return f"{self._kept} = {value}" if value is not None else None
        function = self._function(step.name)
        operand = self._operand(step.operand) if step.operand is not None else ""
        if function is None or operand is None:
            return None
        scale = f"alpha={step.alpha}" if step.alpha and step.name != "lerp_" else step.alpha
        return f"{function}({', '.join(each for each in (self._names[step.target], operand, scale) if each)})"

    def _operand(self, operand: Operand) -> str | None:
        match operand:
            case str():
                return operand
            case Column():
                return self._names[operand]
            case Kept():
                return self._kept
        parts = [self._operand(each) for each in (operand.left, operand.right) if each is not None]
        function = self._function(operand.name)
        texts = [each for each in parts if each is not None]
        return f"{function}({', '.join(texts)})" if function is not None and len(texts) == len(parts) else None

    @property
    def _kept(self) -> str:
        return next(each for each in ("scaled", "scaled_params", "all_scaled") if each not in self._taken)

    def _function(self, name: str) -> str | None:
        return self._script.spelled(self._module, qualified(name), self._found.loop)

    def _broken(self, line: str) -> str:
        """The line, in three where it is too wide: what its first bracket holds stands on a line of its own."""
        if len(line) <= self._room or line.startswith("#"):
            return line
        start = min(line.index(each) for each in "([" if each in line) + 1
        return f"{line[:start]}\n    {line[start:-1]}\n{line[-1]}"


def _columns(step: Step) -> Iterator[Column]:
    if isinstance(step, Change):
        yield step.target
    yield from (each for each in operands(step) if isinstance(each, Column))


def _comments(module: Module, found: ManualUpdate) -> Iterator[str]:
    """The comments in the loop, which are to stand above what takes its place."""
    start, end = module.span(found.loop)
    rest = module.lines[(found.loop.end_lineno or found.loop.lineno) - 1].encode()[found.loop.end_col_offset or 0 :]
    text = module.between(start, end) + rest.decode()
    if "#" in text:
        tokens = tokenize.generate_tokens(io.StringIO(f"if 1:\n{' ' * found.loop.col_offset} {text}\n").readline)
        yield from (token.string for token in tokens if token.type == tokenize.COMMENT)
