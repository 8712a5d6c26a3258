"""Rule ``zero-grad-none``: gradients are dropped, not filled with zeros."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.declaration import Codemod, Leaves, Promise, Rewrites
from codemods.edit_values import AddArgument, RemoveArgument, Replace
from codemods.facts.iterations import EventKind
from codemods.facts.kinds import Kind, always, kind, may, why
from codemods.facts.models import Model
from codemods.facts.values import Value, without_none

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.declaration import Finding
    from codemods.edit_values import Edit
    from codemods.facts.iterations import TrainingIteration
    from codemods.facts.script import Script
    from codemods.facts.source import Module

_MESSAGE = "gradients are filled with zeros instead of dropped"
_DEFAULT = (2, 0)
"""The torch from which ``set_to_none`` is the default."""
_INTRODUCED = (1, 7)
_NO_GAIN = "none on torch >= 2.0, 0-2 % before"
_MISSES = "parameters without gradient would no longer be updated by momentum or weight decay"


class ZeroGradNone(Codemod):
    """Drops gradients instead of filling them with zeros (``zero_grad(set_to_none=True)``).

    Why it is faster:
        One pass over the memory of all gradients less, and the next backward writes instead of adding. Since torch 2.0 it
        is the default of ``zero_grad()``: there only ``set_to_none=False`` and zeroing by hand cost something. Where the
        script is known to run on torch 2 (``--target-torch``, a requirement beside it), plain calls are left as they are.

    When it is left:
        A parameter may get no gradient in an iteration: a zero gradient still applies momentum and weight decay, a missing
        one does not. Gradients are read before they are computed again, or kept. What is zeroed is not known.

    Results:
        The same values, bit for bit.

    References:
        ``torch.optim.Optimizer.zero_grad``; PyTorch performance tuning guide, "Use parameter.grad = None".
    """

    promise = Promise.BITWISE
    gain = "0-2 %"
    min_torch = _INTRODUCED
    needs_cuda = False
    failures = (r"'NoneType' object has no attribute '(data|zero_|grad|detach_|norm|add_|mul_|clamp_)'",)
    examples = (
        Rewrites(
            before="""\
import torch
from torch import nn

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

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(10, 8, 4):
    optimizer.zero_grad(set_to_none=True)
    model(x).mean().backward()
    optimizer.step()
""",
        ),
        Rewrites(
            target=(2, 1),
            before="""\
import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(10, 8, 4):
    for p in model.parameters():
        if p.grad is not None:
            p.grad.zero_()
    model(x).mean().backward()
    optimizer.step()
""",
            after="""\
import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(10, 8, 4):
    model.zero_grad()
    model(x).mean().backward()
    optimizer.step()
""",
        ),
        Leaves(
            code="""\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.near, self.far = nn.Linear(4, 1), nn.Linear(4, 1)

    def forward(self, x):
        return self.near(x) if x.sum() > 0 else self.far(x)


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for x in torch.randn(10, 8, 4):
    optimizer.zero_grad(set_to_none=False)
    model(x).mean().backward()
    optimizer.step()
""",
            because=f"{_MISSES}: forward has a branch (line 11)",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every place of the entry script that zeroes gradients."""
        module = script.entry
        for node in module.nodes(ast.Call, ast.For):
            if isinstance(node, ast.For):
                yield from self._by_hand(script, module, node)
            elif isinstance(node.func, ast.Attribute) and node.func.attr == "zero_grad":
                yield from self._call(script, module, node, node.func)

    # Calls of zero_grad.

    def _call(self, script: Script, module: Module, call: ast.Call, func: ast.Attribute) -> Iterator[Finding]:
        owners = script.flow.values(func.value)
        given = next((each for each in call.keywords if each.arg == "set_to_none"), None)
        value = given.value if given is not None else call.args[0] if call.args else None
        is_known = always(script.flow, owners, Kind.OPTIMIZER) or always(script.flow, owners, Kind.MODEL)
        if value is None:
            if script.target is not None and script.target >= _DEFAULT:
                return
            if not is_known:
                yield self.left(module, call, because=_why_not_zeroable(script, func))
                return
            reason = self._why_not_plain(script, call)
            edit = AddArgument(module, call, "set_to_none", "True")
            yield (
                self.left(module, call, because=reason)
                if reason is not None
                else self.rewrites(module, call, _MESSAGE, edit, gain=_NO_GAIN, fails=script.target is not None)
            )
        elif isinstance(value, ast.Constant) and not value.value:
            reason = self._why_not_exactly(script, owners, call) if is_known else _why_not_zeroable(script, func)
            if reason is not None:
                yield self.left(module, call, because=reason)
            else:
                yield self.rewrites(module, call, _MESSAGE, self._without_zeros(script, module, call, given or value))

    def _without_zeros(self, script: Script, module: Module, call: ast.Call, argument: ast.keyword | ast.expr) -> Edit:
        """``set_to_none=False`` → ``True``, or no argument where that is the default."""
        if script.target is not None and script.target >= _DEFAULT:
            return RemoveArgument(module, call, argument)
        value = argument.value if isinstance(argument, ast.keyword) else argument
        return Replace(module, value, "True" if isinstance(argument, ast.keyword) else "set_to_none=True")

    def _why_not_plain(self, script: Script, call: ast.Call) -> str | None:
        """Why a plain ``zero_grad()`` should not be told to drop gradients, as torch 2 does by itself."""
        read = _gradient_read(script, call)
        if read is not None:
            return f"a gradient is read before it is computed again (line {read.lineno})"  # type: ignore[attr-defined]
        kept = _gradients_kept(script)
        return None if kept is None else f"gradients are kept by reference (line {kept.lineno})"

    def _why_not_exactly(self, script: Script, owners: frozenset[Value], call: ast.AST) -> str | None:
        """Why results may change when gradients are dropped that the script says are to be zeros."""
        reason = self._why_not_plain(script, call) if isinstance(call, ast.Call) else None
        if reason is not None:
            return reason
        models = _models_of(script, owners)
        if models is None:
            return f"{_MISSES}: its parameters are not known"
        if len(script.optimizers) > 1:
            return f"{_MISSES}: there are several optimizers"
        for model in models:
            missing = model.why_gradients_may_miss
            if missing is not None:
                return f"{_MISSES}: {missing}"
        unfrozen = _toggles_gradients(script)
        if unfrozen is not None:
            return f"{_MISSES}: parameters are frozen or unfrozen (line {unfrozen.lineno})"  # type: ignore[attr-defined]
        return self._why_not_every_time(script, models)

    def _why_not_every_time(self, script: Script, models: list[Model]) -> str | None:
        """Why a model may not take part in the loss of every iteration that steps."""
        for iteration in script.iterations:
            if not iteration.of(EventKind.STEP):
                continue
            for model in models:
                used = [each for each in iteration.of(EventKind.FORWARD) if model.value in each.subjects]
                if not any(not each.conditions for each in used):
                    return f"{_MISSES}: the model is not called in every iteration"
            if not any(not each.conditions for each in iteration.of(EventKind.BACKWARD)):
                return f"{_MISSES}: not every iteration computes gradients"
        return None

    # Loops that zero by hand.

    def _by_hand(self, script: Script, module: Module, loop: ast.For) -> Iterator[Finding]:
        if loop.orelse or not isinstance(loop.target, ast.Name):
            return
        if not _zeroes(loop.body, loop.target.id):
            return
        owner = loop.iter.func.value if isinstance(loop.iter, ast.Call) and isinstance(loop.iter.func, ast.Attribute) else None
        values = script.flow.values(owner) if owner is not None else frozenset()
        if owner is None or not always(script.flow, values, Kind.MODEL) or not _is_parameters(loop.iter):
            yield self.left(module, loop, because="the zeroed parameters are not those of one model")
            return
        if module.function(loop) is not None and not any(loop in _nodes(iteration) for iteration in script.iterations):
            yield self.left(module, loop, because="the loop is not part of a training iteration that can be seen")
            return
        reason = self._why_not_exactly(script, values, loop)
        if reason is not None:
            yield self.left(module, loop, because=reason)
            return
        default = script.target is not None and script.target >= _DEFAULT
        argument = "" if default else "set_to_none=True"
        edit = Replace(module, loop, f"{{owner}}.zero_grad({argument})", (("owner", owner),))
        yield self.rewrites(module, loop, _MESSAGE, edit)


def _why_not_zeroable(script: Script, func: ast.Attribute) -> str:
    values = script.flow.values(func.value)
    return f"what is zeroed is not known to be an optimizer or a model: {why(script.flow, values, Kind.OPTIMIZER)}"


def _nodes(iteration: TrainingIteration) -> set[ast.AST]:
    """The nodes in which the iteration's events stand, and those around them."""
    found: set[ast.AST] = set()
    for event in iteration.events:
        found.add(event.node)
        found.update(event.module.ancestors(event.node))
    return found


def _gradient_read(script: Script, call: ast.Call) -> ast.AST | None:
    """A gradient that is read after this zeroing and before the next backward."""
    for iteration in script.iterations:
        zeroed = False
        for event in iteration.events:
            if event.node is call:
                zeroed = True
            elif event.kind is EventKind.BACKWARD:
                zeroed = False
            elif zeroed and event.kind is EventKind.GRADIENT and isinstance(event.node, ast.Attribute):
                return event.node
    return None


def _gradients_kept(script: Script) -> ast.expr | None:
    """A list of gradients that the script makes, which would hold the dropped ones."""
    for node in script.entry.nodes(ast.ListComp):
        if isinstance(node.elt, ast.Attribute) and node.elt.attr == "grad":
            return node
    return None


def _models_of(script: Script, owners: frozenset[Value]) -> list[Model] | None:
    """The models whose parameters the optimizer (or the model itself) zeroes; None where that is not known."""
    found: dict[Value, Model] = {}
    for owner in without_none(owners):
        values = frozenset({owner})
        if kind(script.flow, owner) is Kind.OPTIMIZER:
            if not isinstance(owner.site, ast.Call) or not owner.site.args:
                return None
            given = without_none(script.flow.values(owner.site.args[0]))
            if not given or not all(each.name == "torch.nn.Module.parameters" and each.of is not None for each in given):
                return None
            values = frozenset(each.of for each in given if each.of is not None)
        for value in values:
            found[value] = Model(script.flow, value)
    return list(found.values())


def _toggles_gradients(script: Script) -> ast.AST | None:
    """Where parameters are frozen or unfrozen."""
    for node in script.entry.nodes(ast.Attribute):
        if node.attr == "requires_grad" and isinstance(node.ctx, ast.Store):
            return node
        if node.attr == "requires_grad_" and may(script.flow, script.flow.values(node.value), Kind.MODEL):
            return node
    return None


def _is_parameters(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "parameters" and not node.args


def _zeroes(body: list[ast.stmt], name: str) -> bool:
    """Whether the statements do nothing but zero the gradient of the parameter of that name."""
    if len(body) == 1 and isinstance(body[0], ast.If) and not body[0].orelse and _asks_for_gradient(body[0].test, name):
        body = body[0].body
    *before, last = body
    return all(_is_call_on_gradient(each, name, {"detach_"}) for each in before) and _sets_to_zero(last, name)


def _asks_for_gradient(test: ast.expr, name: str) -> bool:
    """``p.grad is not None`` or ``p.grad``."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.IsNot, ast.NotEq)):
        compared = test.comparators[0]
        return _is_gradient(test.left, name) and isinstance(compared, ast.Constant) and compared.value is None
    return _is_gradient(test, name)


def _sets_to_zero(statement: ast.stmt, name: str) -> bool:
    """``p.grad.zero_()``, ``p.grad.data.fill_(0)``, ``p.grad *= 0``."""
    if isinstance(statement, ast.AugAssign):
        return isinstance(statement.op, ast.Mult) and _is_gradient(statement.target, name) and _is_zero(statement.value)
    if _is_call_on_gradient(statement, name, {"zero_"}):
        return True
    return _is_call_on_gradient(statement, name, {"fill_"}) and _is_zero(statement.value.args[0])  # type: ignore[attr-defined]


def _is_call_on_gradient(statement: ast.stmt, name: str, methods: set[str]) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and isinstance(statement.value.func, ast.Attribute)
        and statement.value.func.attr in methods
        and (statement.value.func.attr != "fill_" or bool(statement.value.args))
        and _is_gradient(statement.value.func.value, name)
    )


def _is_gradient(node: ast.expr, name: str) -> bool:
    if isinstance(node, ast.Attribute) and node.attr == "data":
        node = node.value
    return isinstance(node, ast.Attribute) and node.attr == "grad" and isinstance(node.value, ast.Name) and node.value.id == name


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0 and node.value is not False
