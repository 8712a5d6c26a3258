"""What is wrong with mixed precision that a script writes itself: its gradient scaler, and its blocks of autocast."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import argument_of
from codemods.dataflow.source import LOOPS
from codemods.dataflow.values import Unknown
from codemods.facts.reach import Reach, own
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.iterations import EventKind, is_backward
from codemods.facts.training.momentum import is_fused, keeps_momentum
from codemods.library.kinds import Kind, kind
from codemods.library.renamed import AUTOCAST

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value
    from codemods.facts.script import Script
    from codemods.facts.training.iterations import Event, TrainingIteration

_SCALER = "GradScaler"
_KEPT = frozenset({"state_dict", "load_state_dict", "get_scale", "is_enabled", "update", "step", "unscale_", "scale"})


def faults(script: Script) -> Iterator[tuple[ast.expr | ast.stmt, Reason]]:
    """The places of the module, each with what is wrong there."""
    if any(_SCALER in each.text for each in script.modules):
        yield from _idle_scalers(script)
        told: set[ast.AST] = set()
        for iteration in script.iterations:
            for node, reason in _faults_of_steps(script, iteration):
                if node not in told:
                    told.add(node)
                    yield node, reason
    if "autocast" in script.module.text:
        yield from _wide_blocks(script)


# The scaler.


def _is_scaler(script: Script, node: ast.expr) -> bool:
    """Whether the expression is surely a scaler that is not switched off."""
    values = script.flow.values(node)
    return bool(values) and all(kind(script.flow, each) is Kind.SCALER and not _is_off(each.site) for each in values)


def _is_off(call: ast.AST | None) -> bool:
    given = call.keywords if isinstance(call, ast.Call) else ()
    return any(
        each.arg == "enabled" and isinstance(each.value, ast.Constant) and not each.value.value for each in given
    )


def _of_scaler(script: Script, name: str) -> list[tuple[Module, ast.Attribute]]:
    """Where a method of that name is taken of what is a scaler, or may be one."""
    found = ((module, node) for module in script.modules for node in module.nodes(ast.Attribute) if node.attr == name)
    return [(module, node) for module, node in found if _may_be_scaler(script, node.value)]


def _may_be_scaler(script: Script, node: ast.expr) -> bool:
    values = script.flow.values(node)
    return not values or any(
        isinstance(each, Unknown) or kind(script.flow, each) in {Kind.SCALER, Kind.FRAMEWORK} for each in values
    )


def _idle_scalers(script: Script) -> Iterator[tuple[ast.expr, Reason]]:
    """The scalers that scale no loss, where a backward is computed without one."""
    module, flow = script.module, script.flow
    backwards = [each for where, each in script.backwards if where is module]
    if not backwards or _of_scaler(script, "scale"):
        return
    for call in module.nodes(ast.Call):
        for value in flow.values(call):
            is_made = value.site is call and kind(flow, value) is Kind.SCALER and not _is_off(call)
            if is_made and not _is_handed_on(script, value):
                text = f"the scaler scales no loss, as the backward ({HERE}) does without it:"
                remedy = "call scaler.scale(loss).backward(), scaler.step(optimizer) and scaler.update()"
                yield call, Reason("idle-scaler", text, (at(module, backwards[0]),), remedy)


def _is_handed_on(script: Script, scaler: Value) -> bool:
    """Whether other code than what is seen may scale with it."""
    for module, node in script.flow.places(scaler):
        if node is scaler.site or not isinstance(getattr(node, "ctx", None), ast.Load):
            continue
        parent = module.parent(node)
        if not (isinstance(parent, ast.Attribute) and parent.attr in _KEPT):
            return True
    return False


def _faults_of_steps(script: Script, iteration: TrainingIteration) -> Iterator[tuple[ast.expr, Reason]]:
    """What is wrong with the steps of an iteration whose losses are all scaled."""
    backwards = iteration.of(EventKind.BACKWARD)
    scaled = [each for each in map(_scaler_of, backwards) if each is not None and _is_scaler(script, each)]
    if not backwards or len(scaled) < len(backwards):
        return
    module = script.module
    steps = [each for each in iteration.of(EventKind.STEP) if each.module is module]
    loss, name = at(backwards[0].module, backwards[0].node), ast.unparse(scaled[0])
    own_steps = [each for each in steps if _is_plain(script, each)]
    unscales = _of_scaler(script, "unscale_")
    if own_steps and not unscales and not _of_scaler(script, "step"):
        call = own_steps[0].node
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            optimizer = ast.unparse(call.func.value)
            text = f"the loss is scaled ({HERE}), and {optimizer}.step() takes its gradients as they are:"
            yield (
                call,
                Reason("scaled-step", text, (loss,), f"{name}.step({optimizer}) divides them by the scale first"),
            )
        return
    scaler_steps = [each for each in steps if each not in own_steps]
    if scaler_steps and not _of_scaler(script, "update"):
        node = scaler_steps[0].node
        if isinstance(node, ast.expr):
            text = "nothing updates the scaler after its step, and the second step fails:"
            yield node, Reason("scale-not-updated", text, remedy=f"call {name}.update() at the end of each iteration")
    yield from _unset_momentum(script, scaler_steps)
    if scaler_steps and not unscales:
        for each in _while_scaled(iteration):
            if each.module is module and isinstance(each.node, ast.Call) and _clips(script, each.node):
                text = f"gradients are clipped while they are still scaled ({HERE}):"
                remedy = f"call {name}.unscale_(optimizer) before"
                yield each.node, Reason("clipped-scaled", text, (loss,), remedy)
                return


def _unset_momentum(script: Script, steps: Iterable[Event]) -> Iterator[tuple[ast.expr, Reason]]:
    """Steps of scalers that, where they are skipped, leave unset what a fused SGD then reads."""
    for each in steps:
        is_unset = any(is_fused(one) and keeps_momentum(script, one) for one in each.subjects)
        if is_unset and isinstance(each.node, ast.expr):
            text = "a first step that is skipped leaves the momentum of the fused SGD unset, and the next one reads it:"
            yield each.node, Reason("momentum-unset", text, remedy="make the SGD without fused, or use bf16 unscaled")


def _while_scaled(iteration: TrainingIteration) -> Iterator[Event]:
    """What is done with gradients between a backward and the step of the scaler, which divides them for good."""
    is_scaled = False
    for event in iteration.events:
        if event.kind is EventKind.BACKWARD:
            is_scaled = True
        elif event.kind is EventKind.STEP:
            is_scaled = False
        elif event.kind is EventKind.GRADIENT and is_scaled:
            yield event


def _scaler_of(event: Event) -> ast.expr | None:
    """``scaler`` of ``scaler.scale(loss).backward()``."""
    match event.node:
        case ast.Call(ast.Attribute(ast.Call(ast.Attribute(scaler, "scale"), [_]), "backward")):
            return scaler
    return None


def _is_plain(script: Script, step: Event) -> bool:
    """Whether an optimizer steps by itself."""
    match step.node:
        case ast.Call(ast.Attribute(optimizer, "step")):
            values = script.flow.values(optimizer)
            return bool(values) and all(kind(script.flow, each) is Kind.OPTIMIZER for each in values)
    return False


def _clips(script: Script, call: ast.Call) -> bool:
    return any(each.name.startswith("torch.nn.utils.clip_grad_") for each in script.flow.values(call.func))


# Blocks of autocast.


def _wide_blocks(script: Script) -> Iterator[tuple[ast.stmt, Reason]]:
    """Blocks of autocast that hold more than a forward pass and a loss."""
    module = script.module
    for block in module.nodes(ast.With):
        opened = next((each for each in _opened(block) if _opens_autocast(script, each)), None)
        if opened is not None:
            reason = _why_too_wide(script, block.body, keeps_copies=not _is_given_false(opened, "cache_enabled"))
            if reason is not None:
                yield block, reason
    for function in module.nodes(ast.FunctionDef):
        for decorator in function.decorator_list:
            if isinstance(decorator, ast.Call) and _opens_autocast(script, decorator):
                keeps = not _is_given_false(decorator, "cache_enabled")
                reason = _why_too_wide(script, function.body, keeps_copies=keeps)
                if reason is not None:
                    yield function, reason


def _opened(block: ast.With) -> Iterator[ast.Call]:
    return (each.context_expr for each in block.items if isinstance(each.context_expr, ast.Call))


def _opens_autocast(script: Script, call: ast.Call) -> bool:
    """Whether the call makes an autocast that is switched on, as far as its text says."""
    names = {each.name for each in script.flow.values(call.func)}
    return bool(names) and names <= AUTOCAST and not is_switched_off(call)


def is_switched_off(call: ast.Call) -> bool:
    """``autocast("cuda", enabled=False)``, ``autocast(False)``."""
    off = (isinstance(each, ast.Constant) and each.value is False for each in call.args)
    return _is_given_false(call, "enabled") or any(off)


def _is_given_false(call: ast.Call, name: str) -> bool:
    given = argument_of(call, name)
    return isinstance(given, ast.Constant) and given.value is False


def _why_too_wide(script: Script, body: Sequence[ast.stmt], *, keeps_copies: bool) -> Reason | None:
    code = list(Reach(script.flow).code(script.module, body))
    for module, node in code if keeps_copies else ():
        for loop in own(node, *LOOPS):
            step = next((each for each in own(loop, ast.Call) if _steps(script, each)), None)
            if step is not None and any(is_backward(script.flow, each) for each in own(loop, ast.Call)):
                text = (
                    f"several steps ({HERE}) are made in one block of autocast, which casts the weights once and keeps "
                    "the copies:"
                )
                remedy = "enter autocast in each iteration, around the forward pass and the loss"
                return Reason("autocast-over-steps", text, (at(module, step),), remedy)
    for module, node in code:
        for call in own(node, ast.Call):
            if is_backward(script.flow, call):
                text = f"the backward runs under autocast, too ({HERE}), which PyTorch advises against:"
                return Reason("backward-in-autocast", text, (at(module, call),), "end the block before it")
    return None


def _steps(script: Script, call: ast.Call) -> bool:
    match call:
        case ast.Call(ast.Attribute(owner, "step")):
            kinds = {kind(script.flow, each) for each in script.flow.values(owner)}
            return bool(kinds) and kinds <= {Kind.OPTIMIZER, Kind.SCALER}
    return False
