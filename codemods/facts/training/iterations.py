"""What happens in a training iteration, in order."""

from __future__ import annotations

import ast
import enum
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from codemods.dataflow.source import FUNCTIONS, LEAVES, LOOPS, children, kept, lasting, walk
from codemods.dataflow.values import (
    NOTHING,
    Class,
    External,
    Function,
    Instance,
    Method,
    Tensor,
    Value,
    Values,
    library_names,
    owner_of,
)
from codemods.library.kinds import Kind, computes_loss, kind, may
from codemods.library.packages import Trait, packages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module

Node = TypeVar("Node", bound=ast.AST)

_LOGGING = frozenset({"item", "tolist", "add_scalar", "add_scalars", "log", "set_postfix", "set_description"})
_CLIPPING = frozenset(
    {"torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_norm", "torch.nn.utils.clip_grad_value_"}
)
# Functions that are not seen and train, by their names; libraries that have none of them.
_TRAINS = re.compile(r"(^|_)(train|fit|learn|finetune|fine_tune|optimi[sz]e)(_|\d|$)", re.IGNORECASE)
_NO_TRAINING = re.compile(r"load|data|set|split|transform|arg|config|path|dir|log|plot|print|save", re.IGNORECASE)
_TRAINERS = re.compile(r"(trainer|agent|learner|estimator)", re.IGNORECASE)
_OFTEN = 32
"""How often a function is followed in one iteration: further calls bring events that are there already. Functions that
call each other by very many ways, as solvers of differential equations do, could not be followed on each of them."""
_NEVER_TRAIN = frozenset({"torch", "torchvision", "builtins", "argparse", "random"}) | packages(Trait.GRAPHLESS)


class EventKind(enum.Enum):
    """What an event of a training iteration is."""

    TRANSFER = "transfer"
    ZERO = "zero"
    FORWARD = "forward"
    LOSS = "loss"
    BACKWARD = "backward"
    GRADIENT = "gradient"
    """Reads or changes gradients: clipping, norms, noise."""
    STEP = "step"
    SCHEDULE = "schedule"
    LOG = "log"


@dataclass(frozen=True, eq=False)
class Event:
    """One event of a training iteration."""

    kind: EventKind
    module: Module
    node: ast.AST
    subjects: Values
    """What it is about: the optimizer that steps, the model that is called, the loss."""
    conditions: tuple[ast.expr, ...]
    """The tests of the ``if`` around it, from the outside in, inside the iteration."""
    loops: tuple[ast.stmt, ...]
    """The loops around it inside the iteration, from the outside in."""
    frame: Callee | None
    """The function in whose code it stands; None at module level."""


@dataclass(frozen=True, eq=False)
class TrainingIteration:
    """One pass through the body of a loop, or through a function called per batch, that reaches a backward."""

    module: Module
    owner: ast.AST
    """The loop; or the function, or the module, where no loop is seen."""
    events: tuple[Event, ...]

    def of(self, *kinds: EventKind) -> tuple[Event, ...]:
        """Its events of these kinds, in order."""
        return tuple(each for each in self.events if each.kind in kinds)


class _Around(NamedTuple):
    """What is around a node of an iteration."""

    module: Module
    conditions: tuple[ast.expr, ...]
    loops: tuple[ast.stmt, ...]
    frame: Callee | None
    inside: frozenset[Callee]
    """The functions that are being followed: one that calls itself is not followed again."""


class Iterations:
    """The training iterations of some modules, and what calls reach."""

    def __init__(self, flow: Flow, modules: Sequence[Module]) -> None:
        self._flow = flow
        self._modules = modules
        self._followed: Counter[Callee] = Counter()
        """How often each function was met in the iteration that is looked at."""

    @cached_property
    def backwards(self) -> tuple[tuple[Module, ast.Call], ...]:
        """Every call that computes gradients, in the order of the text."""
        return tuple(
            (module, call)
            for module in self._modules
            for call in module.nodes(ast.Call)
            if is_backward(self._flow, call)
        )

    @cached_property
    def all(self) -> tuple[TrainingIteration, ...]:
        """The training iterations, in the order of their first backward."""
        owners: dict[ast.AST, Module] = {}
        for module, call in self.backwards:
            for owner, where in self._owners(module, call, frozenset()):
                owners.setdefault(owner, where)
        return tuple(self.of(owner, module) for owner, module in owners.items())

    def of(self, owner: ast.AST, module: Module) -> TrainingIteration:
        """One pass through the body of a loop, a function or a module."""
        function = owner if isinstance(owner, FUNCTIONS) else module.function(owner)
        inside: frozenset[Callee] = frozenset() if function is None else frozenset({function})
        around = _Around(module, (), (), module.function(owner), inside)
        body = getattr(owner, "body", [])
        self._followed = Counter()
        events = self._events(body if isinstance(body, list) else [body], around)
        return TrainingIteration(module, owner, tuple(events))

    def _owners(self, module: Module, node: ast.AST, inside: frozenset[ast.AST]) -> Iterator[tuple[ast.AST, Module]]:
        """The loops whose pass the node is part of, or else the functions that no loop here calls.

        Args:
            module: Where the node stands.
            node: What is looked at.
            inside: The functions that are being followed back: calls in them are no others.
        """
        below = node
        for above in module.ancestors(node):
            if isinstance(above, LOOPS) and below not in above.orelse:
                yield above, module
                return
            below = above
            if isinstance(above, FUNCTIONS):
                followed = inside | {above}
                found = False
                for call in self._flow.callers(above):
                    where = next((each for each in self._modules if each.holds(call)), None)
                    if where is not None and where.function(call) not in followed:
                        found = True
                        yield from self._owners(where, call, followed)
                if not found:
                    yield above, module
                return
        yield module.tree, module

    def _events(self, nodes: Iterable[ast.AST], around: _Around) -> Iterator[Event]:
        for node in nodes:
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                continue
            if isinstance(node, ast.If):
                yield from self._events([node.test], around)
                inside = around._replace(conditions=(*around.conditions, node.test))
                yield from self._events([*node.body, *node.orelse], inside)
                continue
            inner = around._replace(loops=(*around.loops, node)) if isinstance(node, LOOPS) else around
            yield from self._events(children(node), inner)
            found = self._classified(node)
            if found is not None:
                yield Event(found[0], around.module, node, found[1], around.conditions, around.loops, around.frame)
            elif isinstance(node, ast.Call):
                for callee in called_functions(self._flow, node):
                    self._followed[callee] += 1
                    if callee not in around.inside and self._followed[callee] <= _OFTEN:
                        body = [callee.body] if isinstance(callee, ast.Lambda) else callee.body
                        where = around._replace(
                            module=self._flow.module_of(callee),
                            frame=callee,
                            inside=around.inside | {callee},
                        )
                        yield from self._events(body, where)

    def _classified(self, node: ast.AST) -> tuple[EventKind, Values] | None:  # noqa: C901 - a table of cases
        flow = self._flow
        match node:
            case ast.Attribute(tensor, "grad", ast.Load()):
                return EventKind.GRADIENT, flow.values(tensor)
            case ast.AugAssign(ast.Attribute(tensor, "grad"), operator, value):
                is_zero = isinstance(operator, ast.Mult) and isinstance(value, ast.Constant) and value.value == 0
                return EventKind.ZERO if is_zero else EventKind.GRADIENT, flow.values(tensor)
            case ast.Assign(
                [ast.Attribute(tensor, "grad")], ast.Constant(None) | ast.Call(ast.Attribute(_, "zeros_like"))
            ):
                return EventKind.ZERO, flow.values(tensor)
        if not isinstance(node, ast.Call):
            return None
        if is_backward(flow, node):
            return EventKind.BACKWARD, flow.values(node.func.value) if isinstance(node.func, ast.Attribute) else NOTHING
        callees = flow.values(node.func)
        for callee in callees:
            if isinstance(callee, External):
                if callee.name in _CLIPPING or callee.name == "torch.autograd.grad":
                    return EventKind.GRADIENT, NOTHING
                if callee.name == "builtins.print":
                    return EventKind.LOG, NOTHING
        if any(kind(flow, each) is Kind.MODEL for each in callees):
            return EventKind.FORWARD, callees
        if computes_loss(flow, node):
            return EventKind.LOSS, callees
        if isinstance(node.func, ast.Attribute):
            return self._method_event(node, node.func)
        return None

    def _method_event(self, node: ast.Call, func: ast.Attribute) -> tuple[EventKind, Values] | None:
        flow = self._flow
        owners = flow.values(func.value)
        if func.attr == "zero_grad" and (may(flow, owners, Kind.OPTIMIZER) or may(flow, owners, Kind.MODEL)):
            return EventKind.ZERO, owners
        if func.attr == "step":
            if may(flow, owners, Kind.OPTIMIZER):
                return EventKind.STEP, owners
            if may(flow, owners, Kind.SCALER):
                return EventKind.STEP, flow.values(node.args[0]) if node.args else NOTHING
            if may(flow, owners, Kind.SCHEDULER):
                return EventKind.SCHEDULE, owners
        if func.attr in {"to", "cuda"} and any(isinstance(each, Tensor) for each in owners):
            return EventKind.TRANSFER, owners
        return (EventKind.LOG, owners) if func.attr in _LOGGING else None

    @cached_property
    def training_functions(self) -> dict[Callee, ast.AST]:
        """The functions that compute gradients or step, themselves or through others, each with a place."""
        found: dict[Callee, ast.AST] = {}
        for module in self._modules:
            for call in module.nodes(ast.Call):
                function = module.function(call)
                if function is not None and self._trains(call):
                    found.setdefault(function, call)
        todo = list(found)
        while todo:
            callee = todo.pop()
            for call in self._flow.callers(callee):
                where = next((each for each in self._modules if each.holds(call)), None)
                above = where.function(call) if where is not None else None
                if above is not None and above not in found:
                    found[above] = call
                    todo.append(above)
        return found

    def _trains(self, call: ast.Call) -> bool:
        """Whether the call computes gradients, steps, or runs code that is not seen and trains by its name."""
        if is_backward(self._flow, call):
            return True
        owners = self._flow.values(call.func.value) if isinstance(call.func, ast.Attribute) else NOTHING
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name == "step":
            return may(self._flow, owners, Kind.OPTIMIZER) or may(self._flow, owners, Kind.SCALER)
        if _TRAINS.search(name) is None or _NO_TRAINING.search(name) is not None:
            return False
        if name == "train" and isinstance(call.func, ast.Attribute):
            # Of a model it is a switch.
            return (
                not may(self._flow, owners, Kind.MODEL) and _TRAINERS.search(ast.unparse(call.func.value)) is not None
            )
        callees = self._flow.values(call.func)
        seen = any(isinstance(each, (Function, Class)) or each.site is not None for each in callees)
        return not seen and not any(each.name.partition(".")[0] in _NEVER_TRAIN for each in (*callees, *owners))

    def why_trains(self, node: ast.AST) -> ast.AST | None:
        """The place in the code under ``node`` that computes gradients or steps, itself or in a function it calls."""
        calls = (each for each in walk(node) if isinstance(each, ast.Call))
        return next((each for each in calls if self._trains(each) or self._calls_training(each)), None)

    def _calls_training(self, call: ast.Call) -> bool:
        return any(callee in self.training_functions for callee in called_functions(self._flow, call))


@lasting  # each walk along graphs asks of each call
def is_backward(flow: Flow, call: ast.Call) -> bool:
    """Whether it is ``loss.backward()``, ``torch.autograd.backward(…)`` or a framework's ``backward(loss)``."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "backward":
        # A method of that name that the project defines is looked into instead.
        return not any(
            isinstance(each, (Method, Function)) and each.site is not None for each in flow.values(call.func)
        )
    return "torch.autograd.backward" in library_names(flow.values(call.func))


@lasting  # each walk along graphs asks of each call
def called_functions(flow: Flow, call: ast.Call) -> Sequence[Callee]:
    """The project's functions that the call runs; of a model that is called, not its ``forward``.

    What a model computes is followed as the model's, whatever its layers are.
    """
    functions = ((each, flow.run_by(each)) for each in flow.values(call.func))
    return [function for each, function in functions if function is not None and not _is_forward(flow, each, function)]


def _is_forward(flow: Flow, callee: Value, function: Callee) -> bool:
    """Whether the function is the ``forward`` of a model, reached by no name of its own."""
    model = callee if isinstance(callee, Instance) else owner_of(callee)
    is_model = model is not None and kind(flow, model) is Kind.MODEL
    return is_model and callee.site is not function and getattr(function, "name", "") == "forward"


def own(node: ast.AST, type_: type[Node]) -> Iterator[Node]:
    """The nodes of that type under the node, from the outside in, without those of functions and classes in it."""
    return iter(_own(node, type_))


@lasting
def _own(node: ast.AST, type_: type[Node]) -> tuple[Node, ...]:
    return tuple([each for each in _from_outside_in(node) if isinstance(each, type_)])


@kept
def _from_outside_in(node: ast.AST) -> tuple[ast.AST, ...]:
    found = list(children(node)) if isinstance(node, (*FUNCTIONS, ast.Module)) else [node]
    for here in found:
        if type(here) not in _ENDS:
            found += children(here)
    return tuple(found)


_ENDS = LEAVES | {*FUNCTIONS, ast.ClassDef}
