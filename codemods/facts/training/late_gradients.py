"""May a parameter that an optimizer steps get its first gradient only after others were stepped?

A fused SGD with momentum fails there with a ``TypeError``: of the parameters of a group that have gradients, its kernel
takes all buffers of momentum or none (``_fused_sgd`` of torch 2.3 to 2.14). Other optimizers, and other forms of SGD,
make each buffer when they need it.
"""

from __future__ import annotations

import ast
from itertools import chain, pairwise
from typing import TYPE_CHECKING, TypeAlias

from codemods.dataflow.signatures import argument_of
from codemods.dataflow.source import FUNCTIONS, LOOPS, walk
from codemods.dataflow.values import owner_of
from codemods.facts.loops import module_of
from codemods.facts.models.fixed_tests import FixedTests
from codemods.facts.models.layers import Model
from codemods.facts.models.placement import unwrapped
from codemods.facts.models.skipped_layers import skipped_layers
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.iterations import EventKind
from codemods.facts.training.loss_courses import Courses
from codemods.library.kinds import Kind, kind
from codemods.library.layers import USED_IN_PART

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Value
    from codemods.facts.script import Construction, Script
    from codemods.facts.training.iterations import Event, TrainingIteration

_Way: TypeAlias = "tuple[tuple[Module, Callee | None, ast.stmt], ...]"
"""The statements by which a place is come to, from the outside in, each with its module and function."""

CODE = "late-gradients"
_FAILS = "and a fused SGD with momentum fails at a first gradient that comes later than others;"
_REMEDY = "parameters that come later need a group of their own: then add fused=True by hand"
_CHECK = "where the first step gives all of them gradients, add fused=True by hand"
_ASKS = "requires_grad"


def why_late(script: Script, made: Construction, models: Iterable[Value]) -> Reason | None:
    """Why some of what an optimizer steps may get a gradient only after other parameters were stepped.

    None only where it is seen that each parameter gets its gradient in the first step or never.

    Args:
        script: The script.
        made: The optimizer.
        models: The models whose parameters it is given.
    """
    return _Late(script, made, tuple(models)).why()


class _Late:
    def __init__(self, script: Script, made: Construction, models: tuple[Value, ...]) -> None:
        self._script = script
        self._flow = script.flow
        self._made = made
        self._models = tuple(Model(self._flow, each) for each in models)
        self._layers = dict.fromkeys(layer for each in self._models for layer in each.layers)
        self._fixed = FixedTests(self._flow)

    def why(self) -> Reason | None:
        return (
            self._why_skipped()
            or self._why_thawed()
            or self._why_dropped()
            or self._why_told()
            or next(chain.from_iterable(map(self._in_iteration, self._iterations)), None)
            or self._why_other_iterations()
            or self._why_unseen()
        )

    def _late(self, text: str, module: Module, *nodes: ast.AST) -> Reason:
        return Reason(CODE, f"{text} ({HERE}), {_FAILS}", (at(module, *nodes),), _REMEDY)

    # The models.

    def _why_skipped(self) -> Reason | None:
        """Layers that some calls pass over."""
        classes = (Model(self._flow, each).class_ for each in self._layers)
        held = (self._flow.attributes(each).values() for each in classes if each is not None)
        for each in chain(self._layers, *chain.from_iterable(held)):
            if each.name in USED_IN_PART and each.site is not None:
                text = f"{each.name.rpartition('.')[2]} uses only the parts that its targets are in"
                return self._late(text, module_of(self._flow, each.site), each.site)
        for model in self._models:
            for skipped in skipped_layers(model):
                what = f"self.{skipped.name} is" if skipped.name else "layers are"
                text = f"{what} reached by some calls of forward and not by others"
                return self._late(text, skipped.module, skipped.node)
        return None

    # Gradients that are asked for later, or dropped.

    def _why_thawed(self) -> Reason | None:
        """Parameters that are frozen first, and then are not."""
        if self._is_filtered():
            return None
        for module in self._script.modules:
            for node in module.nodes(ast.Attribute) if _ASKS in module.text else ():
                if self._asks_for_gradients(module, node) and not self._precedes(module, node):
                    return self._late("gradients of its parameters may be asked for later", module, node)
        return None

    def _is_filtered(self) -> bool:
        """Whether it is only given what has gradients when it is made: ``if p.requires_grad``."""
        given = argument_of(self._made.call, "params", 0)
        parts: list[ast.AST] = [] if given is None else [given]
        if isinstance(given, ast.Name):
            parts += map(self._made.module.statement, self._made.module.stores.get(given.id, ()))
        return any(isinstance(each, ast.Attribute) and each.attr == _ASKS for part in parts for each in walk(part))

    def _asks_for_gradients(self, module: Module, node: ast.Attribute) -> bool:
        """``p.requires_grad = True``, ``model.requires_grad_()`` of what the optimizer may step."""
        above = module.parent(node)
        match node, above:
            case ast.Attribute(attr="requires_grad", ctx=ast.Store()), ast.Assign(value=given):
                asked: ast.expr | None = given
            case ast.Attribute(attr="requires_grad_"), ast.Call(func=func) if func is node:
                asked = argument_of(above, _ASKS, 0)
            case _:
                return False
        if isinstance(asked, ast.Constant) and not asked.value:
            return False
        values = self._flow.values(node.value)
        owners = {owner_of(each) if each.name == "torch.nn.Parameter" else each for each in values}
        return any(
            each is not None
            and kind(self._flow, each) is Kind.MODEL
            and any(layer in self._layers for layer in Model(self._flow, each).layers)
            for each in owners
        )

    def _precedes(self, module: Module, node: ast.AST) -> bool:
        """Whether the node runs before the optimizer is made, whenever it runs."""
        makings = list(self._ways(self._made.module, self._made.call, frozenset()))
        return all(any(_is_before(one, other) for other in makings) for one in self._ways(module, node, frozenset()))

    def _ways(self, module: Module, node: ast.AST, seen: frozenset[ast.AST]) -> Iterator[_Way]:
        """The ways on which the node is come to."""
        function = module.function(node)
        here = (module, function, module.statement(node))
        callers = () if function is None or function in seen else self._flow.callers(function)
        if function is None or not callers:
            yield (here,)
            return
        for call in callers:
            for way in self._ways(module_of(self._flow, call), call, seen | {function}):
                yield (*way, here)

    def _why_dropped(self) -> Reason | None:
        """``if "last_layer" in name: p.grad = None``, in the first epoch."""
        for module in self._script.modules:
            for node in module.nodes(ast.Assign):
                match node:
                    case ast.Assign([ast.Attribute(_, "grad")], ast.Constant(None)):
                        test = _choosing(module, node)
                        if test is not None:
                            return self._late("gradients of some parameters are dropped", module, node)
        return None

    def _why_told(self) -> Reason | None:
        """The script says that a pass may leave parameters out."""
        for module in self._script.modules:
            for call in module.nodes(ast.Call) if "find_unused_parameters" in module.text else ():
                given = argument_of(call, "find_unused_parameters")
                if isinstance(given, ast.Constant) and given.value:
                    return self._late("the script says that a pass may leave parameters out", module, call)
        return None

    # The iterations.

    @property
    def _iterations(self) -> Iterator[TrainingIteration]:
        return (each for each in self._script.iterations if self._steps(each))

    def _steps(self, iteration: TrainingIteration) -> list[Event]:
        found = {each.node: each for each in iteration.of(EventKind.STEP) if self._made.value in each.subjects}
        return list(found.values())

    def _reached(self, iteration: TrainingIteration) -> dict[Value, list[Event]]:
        """The optimizer's layers that are called in an iteration, each with its calls."""
        found: dict[Value, list[Event]] = {}
        for event in iteration.of(EventKind.FORWARD):
            subjects = {one for each in event.subjects for one in (each, *unwrapped(self._flow, each))}
            layers = {layer for each in subjects for layer in Model(self._flow, each).layers}
            for layer in self._layers:
                if layer in layers:
                    found.setdefault(layer, []).append(event)
        return found

    def _in_iteration(self, iteration: TrainingIteration) -> Iterator[Reason]:
        steps = self._steps(iteration)
        reached = self._reached(iteration)
        for first, second in pairwise(steps):
            if len(self._models) > 1 and not _exclude_each_other(self._flow, first, second):
                nodes = (first.node, second.node) if first.module is second.module else (first.node,)
                yield self._late("it steps several models, by one loss and then by another", first.module, *nodes)
        for events in reached.values():
            tests = [self._deciding(each, steps[0]) for each in events]
            if all(each is not None for each in tests) and not _covers(self._flow, events):
                (test, *_) = (each for each in tests if each is not None)
                yield self._late("a model that it steps is called in some iterations only", *self._place(test))
        for event in iteration.of(EventKind.FORWARD):
            if any(each in self._layers for each in event.subjects):
                late = self._output_used_late(iteration, event)
                if late is not None:
                    text = f"'{late.id}', which its model returns, is used in some iterations only"
                    yield self._late(text, event.module, late)

    def _place(self, node: ast.AST) -> tuple[Module, ast.AST]:
        return module_of(self._flow, node), node

    def _deciding(self, event: Event, step: Event) -> ast.expr | None:
        """A condition of an event that is not the step's, and holds at times only."""
        known = {ast.unparse(each) for each in step.conditions}
        others = (each for each in event.conditions if ast.unparse(each) not in known)
        return next((each for each in others if not self._fixed.holds(each)), None)

    def _output_used_late(self, iteration: TrainingIteration, event: Event) -> ast.Name | None:
        """The use of one of several outputs that is in the loss of some iterations only: ``a, b = model(x)``."""
        module, statement = event.module, event.module.statement(event.node)
        match statement:
            case ast.Assign([ast.Tuple(elements)], value) if value is event.node:
                names = [each.id for each in elements if isinstance(each, ast.Name)]
            case _:
                return None
        backwards = {each.node for each in iteration.of(EventKind.BACKWARD)}
        scope = module.function(statement) or module.tree
        for name in names:
            loads = (each for each in walk(scope) if isinstance(each, ast.Name) and each.id == name)
            uses = [each for each in loads if isinstance(each.ctx, ast.Load)]
            late = [each for each in uses if self._is_at_times(module, each, statement, backwards)]
            into = (ast.Assign, ast.AugAssign, ast.Return)
            if late and len(late) == len(uses) and any(isinstance(module.statement(each), into) for each in late):
                return late[0]
        return None

    def _is_at_times(self, module: Module, use: ast.AST, call: ast.stmt, backwards: set[ast.AST]) -> bool:
        """Whether a use stands under a condition that holds at times, and that the backward does not stand under."""
        around_call = set(module.ancestors(call))
        for above in module.ancestors(use):
            if above in around_call or isinstance(above, FUNCTIONS):
                return False
            if isinstance(above, ast.If) and backwards.isdisjoint(walk(above)) and not self._fixed.holds(above.test):
                return True
        return False

    def _why_other_iterations(self) -> Reason | None:
        """Trainings one after the other, of which a later one reaches layers that an earlier one did not."""
        before: frozenset[Value] = frozenset()
        for iteration in self._iterations:
            reached = frozenset(self._reached(iteration))
            if before and reached - before:
                step = self._steps(iteration)[0]
                return self._late("it first steps a part of what it steps here", step.module, step.node)
            before |= reached
        return None

    def _why_unseen(self) -> Reason | None:
        """What is not seen to be the same in each step."""
        for iteration in self._iterations:
            for first, second in pairwise(self._steps(iteration)):
                if not _exclude_each_other(self._flow, first, second):
                    return self._unseen(second.module, second.node)
        models = [each.value for each in self._models]
        found = Courses(self._flow, models, self._iterations).what_varies()
        return None if found is None else self._unseen(*found)

    def _unseen(self, module: Module, node: ast.AST) -> Reason:
        text = f"what computes its loss may reach other parameters in later steps ({HERE}), {_FAILS}"
        return Reason(CODE, text, (at(module, node),), _CHECK)


def _is_before(one: _Way, other: _Way) -> bool:
    """Whether one way is gone before the other in the innermost function that both come through."""
    for (module, function, statement), (where, scope, place) in reversed(list(zip(one, other, strict=False))):
        if module is where and function is scope and statement is not place:
            return statement.lineno < place.lineno and _leads_to(module, statement, place)
    return False


def _leads_to(module: Module, statement: ast.stmt, place: ast.stmt) -> bool:
    """Whether no loop runs the statement again after the place, or none that does not always come to both."""
    outer = set(module.ancestors(place))
    for above in module.ancestors(statement):
        if above in outer:
            loops = [each for each in (above, *module.ancestors(above)) if isinstance(each, LOOPS)]
            return not loops or module.parent(place) is above
    return True


def _choosing(module: Module, statement: ast.stmt) -> ast.expr | None:
    """The condition by which a statement is for some parameters of a loop: not that of whether there is a gradient."""
    test: ast.expr | None = None
    for above in module.ancestors(statement):
        if isinstance(above, ast.If):
            asks = {each.attr for each in walk(above.test) if isinstance(each, ast.Attribute)}
            test = test if asks & {"grad", _ASKS} else above.test
        elif isinstance(above, ast.For):
            return test
        elif isinstance(above, FUNCTIONS):
            return None
    return None


def _branch(flow: Flow, event: Event, test: ast.expr) -> bool | None:
    """Whether an event stands in the first branch of a condition; None where that is not seen."""
    module = module_of(flow, test)
    choice = module.parent(test)
    if not isinstance(choice, ast.If) or not module.holds(event.node):
        return None
    above = [event.node, *module.ancestors(event.node)]
    return any(each in above for each in choice.body) if choice in above else None


def _exclude_each_other(flow: Flow, one: Event, other: Event) -> bool:
    """Whether events stand in different branches of one condition."""
    shared = [each for each in one.conditions if each in other.conditions]
    return any(_branch(flow, one, each) is not _branch(flow, other, each) for each in shared)


def _covers(flow: Flow, events: Sequence[Event]) -> bool:
    """Whether some of the events stand in both branches of a condition, or may."""
    for test in {each for event in events for each in event.conditions}:
        sides = {_branch(flow, event, test) for event in events if test in event.conditions}
        choice = module_of(flow, test).parent(test)
        if len(sides) > 1 or (None in sides and isinstance(choice, ast.If) and choice.orelse):
            return True
    return False
