"""Who would see that gradients are dropped: who reads them, and who keeps them?"""

from __future__ import annotations

import ast
import enum
from typing import TYPE_CHECKING

from codemods.dataflow.source import walk
from codemods.dataflow.values import Batch, External, HostTensor, MovedTensor, library_names
from codemods.facts.training.iterations import EventKind
from codemods.facts.training.zeroing import detaches, only_zeroes, zeroed
from codemods.library.kinds import Kind, kind

if TYPE_CHECKING:
    from codemods.dataflow.source import Module
    from codemods.facts.script import Script
    from codemods.facts.training.iterations import Event

_GRAPHS = frozenset({"torch.cuda.graph", "torch.cuda.CUDAGraph", "torch.cuda.make_graphed_callables"})
_TENSORS = (Batch, HostTensor, MovedTensor)


class GradientUse(enum.Enum):
    """What somebody does with gradients who may see that they are gone."""

    READ_EARLY = "a gradient is read before it is computed again"
    KEPT = "gradients are kept by reference"
    CAPTURED = "a CUDA graph holds on to the gradients"
    READ_OUTSIDE = "a gradient is read outside the training iteration"


def first_use(script: Script, place: ast.AST) -> tuple[GradientUse, Module, ast.AST] | None:
    """Who may see that the gradients that ``place`` zeroes are gone; None where nobody does."""
    early = _read_while_zero(script, place)
    if early is not None:
        return (GradientUse.READ_EARLY, *early)
    for module in script.modules:
        reference = _kept(script, module)
        if reference is not None:
            return GradientUse.KEPT, module, reference
        for call in script.flow.calls_of(module, _GRAPHS):
            if library_names(script.flow.values(call.func)) & _GRAPHS:
                return GradientUse.CAPTURED, module, call
    outside = _read_outside(script, place)
    return None if outside is None else (GradientUse.READ_OUTSIDE, *outside)


def _read_while_zero(script: Script, place: ast.AST) -> tuple[Module, ast.AST] | None:
    """A gradient that is read after this zeroing and before the next backward, in whichever pass of the loop."""
    inside = set(walk(place))
    for iteration in script.iterations:
        zeroed = False
        for event in (*iteration.events, *iteration.events):
            if event.kind is EventKind.BACKWARD:
                zeroed = False
            elif zeroes(event, inside):
                zeroed = True
            elif zeroed and reads(event):
                return event.module, event.node
    return None


def zeroes(event: Event, inside: set[ast.AST]) -> bool:
    """Whether the event is the zeroing that is looked at."""
    is_zero = event.kind is EventKind.ZERO or zeroed(event.module.statement(event.node)) is not None
    return is_zero and event.node in inside


def reads(event: Event) -> bool:
    """Whether the event reads a gradient, and not only to zero it."""
    if event.kind is not EventKind.GRADIENT or isinstance(event.node, ast.Call):
        return False
    statement = event.module.statement(event.node)
    asks = isinstance(statement, ast.If) and any(zeroed(each) for each in statement.body)
    return not asks and not detaches(statement) and zeroed(statement) is None


def _read_outside(script: Script, place: ast.AST) -> tuple[Module, ast.AST] | None:
    """A gradient that is read where its order to the zeroing is not followed: after the loop, or by its name."""
    followed = {event.node for iteration in script.iterations for event in iteration.events} | set(walk(place))
    for module in script.modules:
        for loop in module.nodes(ast.For):
            if only_zeroes(loop):
                followed |= set(walk(loop))
        for node in module.nodes(ast.Attribute, ast.Constant):
            if node not in followed and _reads_a_gradient(script, module, node):
                return module, node
    return None


def _reads_a_gradient(script: Script, module: Module, node: ast.Attribute | ast.Constant) -> bool:
    """Whether it is ``p.grad``, or ``"grad"`` as an argument: ``getattr(p, "grad")``."""
    if isinstance(node, ast.Constant):
        return node.value == "grad" and isinstance(module.parent(node), ast.Call)
    if node.attr != "grad" or not isinstance(node.ctx, ast.Load):
        return False
    is_of_library = any(isinstance(each, External) for each in script.flow.values(node.value))
    return not is_of_library and not is_of_a_batch(script, node.value)


def _kept(script: Script, module: Module) -> ast.expr | None:
    """Where a gradient itself, not what is computed from it, is kept: it would not be the one that is used later."""
    for node in module.nodes(ast.Attribute):
        parent = module.parent(node)
        if node.attr != "grad" or is_of_a_batch(script, node.value) or _is_looked_at(script, module, node):
            continue
        if isinstance(node.ctx, ast.Store):
            # The gradient is made a part of another tensor, `p.grad = flat[a:b]`.
            made = isinstance(parent, ast.Assign) and isinstance(parent.value, (ast.Subscript, ast.Name, ast.Call))
            if made and parent is not None and zeroed(parent) is None:
                return node
            continue
        while isinstance(parent, ast.Attribute) and parent.attr == "data":
            parent = module.parent(parent)
        if isinstance(
            parent, (ast.ListComp, ast.SetComp, ast.DictComp, ast.List, ast.Tuple, ast.Dict, ast.Return, ast.Assign)
        ):
            return node
        if (
            isinstance(parent, ast.Call)
            and isinstance(parent.func, ast.Attribute)
            and parent.func.attr in {"append", "put"}
        ):
            return node
    return next(
        (
            call
            for call in module.nodes(ast.Call)
            if any(each.arg == "gradient_as_bucket_view" for each in call.keywords)
        ),
        None,
    )


def _is_looked_at(script: Script, module: Module, node: ast.Attribute) -> bool:
    """Whether it is ``grad = p.grad`` in an optimizer of the script's own, which every step looks at anew."""
    owner = next((each for each in module.ancestors(node) if isinstance(each, ast.ClassDef)), None)
    statement = module.statement(node)
    return (
        owner is not None
        and kind(script.flow, script.instance_of(owner)) is Kind.OPTIMIZER
        and isinstance(statement, ast.Assign)
        and all(isinstance(each, ast.Name) for each in statement.targets)
    )


def is_of_a_batch(script: Script, node: ast.expr) -> bool:
    """Whether the tensor is a part of a loader's batch, and so no parameter."""
    values = script.flow.values(node)
    return bool(values) and all(isinstance(each, _TENSORS) and each.of is not None for each in values)
