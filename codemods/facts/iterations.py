"""What happens in a training iteration, in order, and the code that only evaluates."""

from __future__ import annotations

import ast
import enum
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.facts.kinds import Kind, kind, may
from codemods.facts.models import Model
from codemods.facts.values import NOTHING, Sort, Value, Values, without_none

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codemods.facts.flow import Callee, Flow
    from codemods.facts.source import FunctionNode, Module

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_DEEPEST = 3
"""Calls of the project's functions are looked into so far."""
_TENSORS = frozenset({Sort.BATCH, Sort.HOST, Sort.MOVED, Sort.TENSOR})
_NO_GRAD = frozenset({"torch.no_grad", "torch.inference_mode", "torch.set_grad_enabled"})
_LOGGING = frozenset({"item", "tolist", "add_scalar", "add_scalars", "log", "set_postfix", "set_description"})
_CLIPPING = frozenset({"torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_norm", "torch.nn.utils.clip_grad_value_"})
_NEEDS_GRADIENTS = frozenset({"requires_grad_", "retain_grad", "backward"})


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


class Iterations:
    """The training iterations of some modules, and what calls reach."""

    def __init__(self, flow: Flow, modules: Sequence[Module]) -> None:
        self._flow = flow
        self._modules = modules

    @cached_property
    def backwards(self) -> tuple[tuple[Module, ast.Call], ...]:
        """Every call that computes gradients, in the order of the text."""
        return tuple((module, call) for module in self._modules for call in module.nodes(ast.Call) if is_backward(self._flow, call))

    @cached_property
    def all(self) -> tuple[TrainingIteration, ...]:
        """The training iterations, in the order of their first backward."""
        owners: dict[ast.AST, Module] = {}
        for module, call in self.backwards:
            for owner, where in self._owners(module, call, _DEEPEST):
                owners.setdefault(owner, where)
        return tuple(
            TrainingIteration(module, owner, tuple(self._events(module, getattr(owner, "body", []), (), (), module.function(owner), _DEEPEST)))
            for owner, module in owners.items()
        )

    def _owners(self, module: Module, node: ast.AST, depth: int) -> Iterator[tuple[ast.AST, Module]]:
        """The loops whose pass the node is part of, or else the functions that no loop here calls."""
        for above in module.ancestors(node):
            if isinstance(above, _LOOPS):
                yield above, module
                return
            if isinstance(above, _FUNCTIONS):
                calls = self._flow.callers(above) if depth else ()
                found = False
                for call in calls:
                    where = next((each for each in self._modules if each.holds(call)), None)
                    if where is not None and where.function(call) is not above:
                        found = True
                        yield from self._owners(where, call, depth - 1)
                if not found:
                    yield above, module
                return
        yield module.tree, module

    def _events(
        self,
        module: Module,
        nodes: Sequence[ast.AST] | ast.AST,
        conditions: tuple[ast.expr, ...],
        loops: tuple[ast.stmt, ...],
        frame: Callee | None,
        depth: int,
    ) -> Iterator[Event]:
        for node in nodes if isinstance(nodes, list) else [nodes]:
            if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
                continue
            if isinstance(node, ast.If):
                yield from self._events(module, node.test, conditions, loops, frame, depth)
                inside = (*conditions, node.test)
                yield from self._events(module, node.body, inside, loops, frame, depth)
                yield from self._events(module, node.orelse, inside, loops, frame, depth)
                continue
            inner = (*loops, node) if isinstance(node, _LOOPS) else loops
            for child in ast.iter_child_nodes(node):
                yield from self._events(module, child, conditions, inner, frame, depth)
            event = self._event(module, node, conditions, loops, frame)
            if event is not None:
                yield event
            elif isinstance(node, ast.Call) and depth:
                for callee in self._local_callees(node):
                    where = self._flow.module_of(callee)
                    body = [callee.body] if isinstance(callee, ast.Lambda) else callee.body
                    yield from self._events(where, body, conditions, loops, callee, depth - 1)

    def _local_callees(self, call: ast.Call) -> list[Callee]:
        return [
            each.site
            for each in self._flow.values(call.func)
            if each.sort in {Sort.FUNCTION, Sort.METHOD} and isinstance(each.site, _FUNCTIONS)
        ]

    def _event(
        self, module: Module, node: ast.AST, conditions: tuple[ast.expr, ...], loops: tuple[ast.stmt, ...], frame: Callee | None
    ) -> Event | None:
        found = self._classified(node)
        return None if found is None else Event(found[0], module, node, found[1], conditions, loops, frame)

    def _classified(self, node: ast.AST) -> tuple[EventKind, Values] | None:  # noqa: C901, PLR0911 - a table of cases
        flow = self._flow
        if isinstance(node, ast.Attribute) and node.attr == "grad" and isinstance(node.ctx, ast.Load):
            return EventKind.GRADIENT, flow.values(node.value)
        if not isinstance(node, ast.Call):
            return None
        if is_backward(flow, node):
            return EventKind.BACKWARD, flow.values(node.func.value) if isinstance(node.func, ast.Attribute) else NOTHING
        callees = flow.values(node.func)
        for callee in callees:
            if callee.sort is Sort.EXTERNAL:
                if callee.name in _CLIPPING or callee.name == "torch.autograd.grad":
                    return EventKind.GRADIENT, NOTHING
                if callee.name.startswith("torch.nn.functional.") and (callee.name.endswith(("loss", "entropy")) or "entropy" in callee.name):
                    return EventKind.LOSS, callees
                if callee.name == "builtins.print":
                    return EventKind.LOG, NOTHING
        if any(kind(flow, each) is Kind.MODEL for each in callees):
            return EventKind.FORWARD, callees
        if any(kind(flow, each) is Kind.LOSS for each in callees):
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
        if func.attr in {"to", "cuda"} and any(each.sort in _TENSORS for each in owners):
            return EventKind.TRANSFER, owners
        return (EventKind.LOG, owners) if func.attr in _LOGGING else None

    @cached_property
    def training_functions(self) -> dict[Callee, ast.AST]:
        """The functions that compute gradients or step, themselves or through the project's functions, each with a place."""
        found: dict[Callee, ast.AST] = {}
        for module in self._modules:
            for call in module.nodes(ast.Call):
                function = module.function(call)
                if function is not None and (is_backward(self._flow, call) or self._is_step(call)):
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

    def _is_step(self, call: ast.Call) -> bool:
        return (
            isinstance(call.func, ast.Attribute)
            and call.func.attr == "step"
            and (may(self._flow, self._flow.values(call.func.value), Kind.OPTIMIZER) or may(self._flow, self._flow.values(call.func.value), Kind.SCALER))
        )

    def why_trains(self, node: ast.AST) -> ast.AST | None:
        """The place in the code under ``node`` that computes gradients or steps, itself or in a function it calls."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.Call):
                if is_backward(self._flow, inner) or self._is_step(inner):
                    return inner
                if any(callee in self.training_functions for callee in self._local_callees(inner)):
                    return inner
        return None


def is_backward(flow: Flow, call: ast.Call) -> bool:
    """Whether the call computes gradients: ``loss.backward()``, ``torch.autograd.backward(…)``, a framework's ``backward(loss)``."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "backward":
        # A method of that name that the project defines is looked into instead.
        return not any(each.sort in {Sort.METHOD, Sort.FUNCTION} and each.site is not None for each in flow.values(call.func))
    return any(each.sort is Sort.EXTERNAL and each.name == "torch.autograd.backward" for each in flow.values(call.func))


# Evaluation.

_WORDS = r"(valid|validate|validation|val|eval|evaluate|evaluation|test|testing|infer|inference|predict|prediction|sample|generate)"
_EVALUATES = re.compile(rf"(^|_){_WORDS}(_|\d|$)", re.IGNORECASE)
_LOOSE = re.compile(r"(infer|predict|sample|generate)", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class EvaluationRegion:
    """A function, or neighbouring statements, that call models and compute no gradients."""

    flow: Flow
    module: Module
    function: FunctionNode | None
    """The function, where all of it evaluates."""
    statements: tuple[ast.stmt, ...]
    """The statements from the first to the last call of a model, where only a region evaluates."""
    calls: tuple[ast.Call, ...]
    """The calls of models in it that compute a graph that nobody uses."""
    why_not: str | None
    """Why it cannot do without gradients, or None where it can."""

    @property
    def node(self) -> ast.stmt:
        """The function, or the first statement."""
        return self.function if self.function is not None else self.statements[0]

    @cached_property
    def models(self) -> tuple[Model, ...]:
        """The models it calls, as far as they are known."""
        return tuple(
            Model(self.flow, each)
            for each in dict.fromkeys(value for call in self.calls for value in self.flow.values(call.func))
            if kind(self.flow, each) is Kind.MODEL
        )

    @property
    def models_are_known(self) -> bool:
        """Whether all layers of the models it calls are seen."""
        values = {value for call in self.calls for value in without_none(self.flow.values(call.func))}
        return bool(values) and all(
            kind(self.flow, value) is Kind.MODEL and not value.name.startswith("timm.") for value in values
        )


class Evaluations:
    """Finds the evaluation regions of some modules."""

    def __init__(self, flow: Flow, modules: Sequence[Module], iterations: Iterations) -> None:
        self._flow = flow
        self._modules = modules
        self._iterations = iterations

    def find(self) -> Iterator[EvaluationRegion]:
        """The regions, in the order of the text, without those that run without gradients already."""
        for module in self._modules:
            functions: set[Callee] = set()
            for function in module.nodes(ast.FunctionDef, ast.AsyncFunctionDef):
                region = self._function_region(module, function)
                if region is not None:
                    functions.add(function)
                    if region.calls:
                        yield region
            yield from self._inlined(module, functions)

    # Whole functions.

    def _function_region(self, module: Module, function: FunctionNode) -> EvaluationRegion | None:
        """The region that the whole function is; without calls where it has no gradients already."""
        calls = [call for call in _own(function, ast.Call) if self._calls_model(module, call)]
        if not calls or function.name in {"forward", "__init__", "__call__", "loss", "training_step"}:
            return None
        named = bool(_EVALUATES.search(function.name))
        evaluates = any(self._sets_mode(call, "eval") for call in _own(function, ast.Call))
        in_model = self._is_model_method(function)
        if (not named and not evaluates) or (in_model and not evaluates and _LOOSE.search(function.name)):
            return None
        trains = self._iterations.training_functions.get(function)
        if trains is not None and not (named and _only_called_with_flag(function)):
            return None
        open_calls = [call for call in calls if not self._without_gradients(module, call)]
        if not open_calls or self._decorated(function) or self._all_callers_without(function):
            return EvaluationRegion(self._flow, module, function, (), (), None)
        why_not = f"the function also trains (line {_line(trains)})" if trains is not None else self._why_function_not(module, function)
        return EvaluationRegion(self._flow, module, function, (), tuple(open_calls), why_not)

    def _is_model_method(self, function: FunctionNode) -> bool:
        owner = self._flow.owner(function)
        return owner is not None and kind(self._flow, Value(Sort.INSTANCE, of=Value(Sort.CLASS, owner.name, owner))) is Kind.MODEL

    def _why_function_not(self, module: Module, function: FunctionNode) -> str | None:
        needs = self._needs_gradients(function)
        if needs is not None:
            return f"gradients are needed in it (line {needs.lineno})"
        for decorator in function.decorator_list:
            for value in self._flow.values(decorator.func if isinstance(decorator, ast.Call) else decorator):
                if value.sort is Sort.EXTERNAL and value.name.startswith(("torch.jit", "torch.compile", "torch._dynamo", "numba")):
                    return f"@{ast.unparse(decorator)} compiles the function (line {decorator.lineno})"
        kept = self._keeps_tensor(function)
        if kept is not None:
            return f"it keeps a tensor for later (line {kept.lineno})"
        if not any(_may_be_tensor(self._flow, each) for each in self._flow.returned(function)):
            return None
        return self._why_result_not(function)

    def _why_result_not(self, function: FunctionNode) -> str | None:
        """Why the tensors that the function returns may have to carry gradients."""
        calls = self._flow.callers(function)
        if not calls or self._flow.escapes(function):
            return "it returns tensors to code outside this file"
        for call in calls:
            module = next((each for each in self._modules if each.holds(call)), None)
            if module is None:
                return "it returns tensors to code outside this file"
            caller = module.function(call)
            trains = caller in self._iterations.training_functions if caller is not None else bool(self._iterations.backwards)
            if trains and not isinstance(module.parent(call), ast.Expr) and not self._goes_to_plain(module, call):
                return f"what it returns may be trained on (line {call.lineno})"
        return None

    def _goes_to_plain(self, module: Module, call: ast.Call) -> bool:
        """Whether the call's result is only printed or turned into a number where it stands."""
        parent = module.parent(call)
        if isinstance(parent, ast.Attribute):
            return parent.attr in {"item", "tolist", "detach", "data", "cpu", "numpy", "argmax"}
        return isinstance(parent, ast.Call) and any(
            each.sort is Sort.EXTERNAL and each.name in {"builtins.print", "builtins.float", "builtins.int"} for each in self._flow.values(parent.func)
        )

    # Regions after ``model.eval()``.

    def _inlined(self, module: Module, functions: set[Callee]) -> Iterator[EvaluationRegion]:
        done: set[ast.stmt] = set()
        for statement in module.nodes(ast.Expr):
            function = module.function(statement)
            if not isinstance(statement.value, ast.Call) or not self._sets_mode(statement.value, "eval") or function in functions:
                continue
            suite = module.suite(statement)
            models = self._mode_models(statement.value)
            following = suite[suite.index(statement) + 1 :]
            end = next((i for i, each in enumerate(following) if self._back_to_training(each, models)), len(following))
            region = self._inlined_region(module, following[:end])
            if region is not None and region.node not in done:
                done.add(region.node)
                yield region

    def _inlined_region(self, module: Module, statements: Sequence[ast.stmt]) -> EvaluationRegion | None:
        calls_of = {each: [call for call in _own(each, ast.Call) if self._calls_model(module, call)] for each in statements}
        open_of = {each: [call for call in calls if not self._without_gradients(module, call)] for each, calls in calls_of.items()}
        with_calls = [index for index, each in enumerate(statements) if open_of[each]]
        if not with_calls:
            return None
        inside = tuple(statements[with_calls[0] : with_calls[-1] + 1])
        calls = tuple(call for each in inside for call in open_of[each])
        return EvaluationRegion(self._flow, module, None, inside, calls, self._why_region_not(module, inside))

    def _why_region_not(self, module: Module, statements: Sequence[ast.stmt]) -> str | None:
        for statement in statements:
            trains = self._iterations.why_trains(statement)
            if trains is not None:
                return f"the region also trains (line {_line(trains)})"
            needs = self._needs_gradients(statement)
            if needs is not None:
                return f"gradients are needed in it (line {needs.lineno})"
            for node in ast.walk(statement):
                if isinstance(node, (ast.Yield, ast.YieldFrom)):
                    return f"it yields to code that may need gradients (line {node.lineno})"
            kept = self._keeps_tensor(statement)
            if kept is not None:
                return f"it keeps a tensor for later (line {kept.lineno})"
        used = _used_later(self._flow, module, statements)
        return None if used is None else f"a tensor computed in it is used later (line {used.lineno})"

    def _back_to_training(self, statement: ast.stmt, models: Values) -> bool:
        """Whether the statement is ``model.train()`` of one of the models."""
        return (
            isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Call)
            and self._sets_mode(statement.value, "train")
            and bool(self._mode_models(statement.value) & models or not models)
        )

    # What code does.

    def _calls_model(self, module: Module, call: ast.Call) -> bool:
        callees = self._flow.values(call.func)
        if any(kind(self._flow, each) is Kind.MODEL for each in callees):
            return not self._is_layer_of_self(module, call)
        # A parameter of a function that nothing here calls: a model if the function also switches its mode.
        if isinstance(call.func, ast.Name) and callees and all(each.sort is Sort.UNKNOWN for each in callees):
            function = module.function(call)
            return function is not None and any(
                isinstance(other.func, ast.Attribute)
                and other.func.attr == "eval"
                and isinstance(other.func.value, ast.Name)
                and other.func.value.id == call.func.id
                for other in _own(function, ast.Call)
            )
        return False

    def _is_layer_of_self(self, module: Module, call: ast.Call) -> bool:
        """Whether it is ``self.layer(x)`` in a model's own forward or constructor."""
        function = module.function(call)
        return isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) and function.name in {"forward", "__init__"}

    def _sets_mode(self, call: ast.Call, mode: str) -> bool:
        """Whether it is ``model.eval()`` or ``model.train()`` (or ``.train(True)``; ``.train(False)`` is ``eval``)."""
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in {"eval", "train"}:
            return False
        evaluates = call.func.attr == "eval"
        if not evaluates and (call.args or call.keywords):
            argument = call.args[0] if call.args else call.keywords[0].value
            if not isinstance(argument, ast.Constant):
                return False
            evaluates = not argument.value
        if evaluates != (mode == "eval"):
            return False
        owners = without_none(self._flow.values(call.func.value))
        return may(self._flow, owners, Kind.MODEL) or (bool(owners) and all(each.sort is Sort.UNKNOWN for each in owners))

    def _mode_models(self, call: ast.Call) -> Values:
        return without_none(self._flow.values(call.func.value)) if isinstance(call.func, ast.Attribute) else NOTHING

    def _without_gradients(self, module: Module, node: ast.AST) -> bool:
        """Whether the node runs under ``torch.no_grad()`` or its like, by a ``with`` or a decorator of its function."""
        for above in module.ancestors(node):
            if isinstance(above, (ast.With, ast.AsyncWith)):
                if any(self._switches_gradients(item.context_expr) for item in above.items):
                    return True
            elif isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return self._decorated(above) or self._switched_off_before(module, above, node)
        return self._switched_off_before(module, module.tree, node)

    def _switched_off_before(self, module: Module, scope: ast.AST, node: ast.AST) -> bool:
        """Whether ``torch.set_grad_enabled(…)`` is called as a statement before the node in its function."""
        for call in _own(scope, ast.Call):
            if isinstance(module.parent(call), ast.Expr) and call.lineno < getattr(node, "lineno", 0):
                if any(each.sort is Sort.EXTERNAL and each.name == "torch.set_grad_enabled" for each in self._flow.values(call.func)):
                    return True
        return False

    def _switches_gradients(self, node: ast.expr) -> bool:
        return any(each.sort in {Sort.MADE, Sort.EXTERNAL} and each.name in _NO_GRAD for each in self._flow.values(node))

    def _decorated(self, function: FunctionNode) -> bool:
        return any(self._switches_gradients(each) for each in function.decorator_list)

    def _all_callers_without(self, function: FunctionNode) -> bool:
        calls = self._flow.callers(function)
        if not calls or self._flow.escapes(function):
            return False
        for call in calls:
            module = next((each for each in self._modules if each.holds(call)), None)
            if module is None or not self._without_gradients(module, call):
                return False
        return True

    def _needs_gradients(self, node: ast.AST) -> ast.expr | None:
        """The place in the code under the node that needs gradients, itself or in a function of the project that it calls."""
        todo: list[ast.AST] = [node]
        done: set[ast.AST] = set()
        while todo:
            here = todo.pop()
            if here in done:
                continue
            done.add(here)
            for inner in ast.walk(here):
                if isinstance(inner, ast.Attribute):
                    if inner.attr in _NEEDS_GRADIENTS or inner.attr == "grad":
                        external = any(each.sort is Sort.EXTERNAL and each.name != "torch.autograd.grad" for each in self._flow.values(inner))
                        if not external:
                            return inner
                    if inner.attr == "requires_grad" and isinstance(inner.ctx, ast.Store):
                        return inner
                elif isinstance(inner, ast.Call):
                    if any(each.arg == "requires_grad" and not _is_false(each.value) for each in inner.keywords):
                        return inner
                    callees = self._flow.values(inner.func)
                    if any(each.sort is Sort.EXTERNAL and each.name in {"torch.autograd.grad", "torch.enable_grad"} for each in callees):
                        return inner
                    todo.extend(each.site for each in callees if each.sort in {Sort.FUNCTION, Sort.METHOD} and each.site is not None)
        return None

    def _keeps_tensor(self, node: ast.AST) -> ast.expr | None:
        """The place that stores a tensor where other code finds it: an attribute, a global, a list from outside."""
        own = {each.id for each in _own(node, ast.Name) if isinstance(each.ctx, ast.Store)}
        shared = {name for each in _own(node, ast.Global) for name in each.names}
        for target in _own(node, ast.Attribute):
            if isinstance(target.ctx, ast.Store) and any(_may_be_tensor(self._flow, each) for each in self._flow.values(target)):
                return target
        for name in _own(node, ast.Name):
            if isinstance(name.ctx, ast.Store) and name.id in shared and any(each.sort in _TENSORS for each in self._flow.values(name)):
                return name
        for call in _own(node, ast.Call):
            if isinstance(call.func, ast.Attribute) and call.func.attr in {"append", "extend", "add", "put", "push", "insert"}:
                root = call.func.value
                local = isinstance(root, ast.Name) and root.id in own
                tensors = any(_may_be_tensor(self._flow, each) for argument in call.args for each in self._flow.values(argument))
                if tensors and not local:
                    return call
        return None


def _own(node: ast.AST, type_: type) -> Iterator:  # type: ignore[type-arg]
    """The nodes of that type under the node, without those of functions and classes defined in it."""
    todo = list(ast.iter_child_nodes(node)) if isinstance(node, (*_FUNCTIONS, ast.Module)) else [node]
    while todo:
        here = todo.pop(0)
        if isinstance(here, type_):
            yield here
        if not isinstance(here, (*_FUNCTIONS, ast.ClassDef)):
            todo.extend(ast.iter_child_nodes(here))


def _may_be_tensor(flow: Flow, value: Value, depth: int = 3) -> bool:
    if value.sort in _TENSORS or value.sort is Sort.UNKNOWN or (value.sort is Sort.MADE and kind(flow, value) is None):
        return value.sort is not Sort.MADE or not _is_numeric(value.name)
    if value.sort is Sort.CONTAINER and depth:
        return any(_may_be_tensor(flow, each, depth - 1) for each in flow.items(value))
    return False


def _is_numeric(name: str) -> bool:
    """Whether a library's function of that name returns numbers or arrays, which carry no gradients."""
    return name.partition(".")[0] in {"numpy", "sklearn", "scipy", "math", "time", "collections", "os", "pathlib", "pandas", "matplotlib"}


def _only_called_with_flag(function: FunctionNode) -> bool:
    """Whether the function has a parameter that says whether it trains."""
    arguments = function.args
    return any(
        each.arg in {"train", "training", "is_train", "is_training", "optimizer", "mode", "phase", "evaluate"}
        for each in (*arguments.args, *arguments.kwonlyargs)
    )


def _used_later(flow: Flow, module: Module, statements: Sequence[ast.stmt]) -> ast.Name | None:
    """Where a tensor that the statements bind is read after them, before it is bound anew, for more than showing it."""
    bound = {
        name.id
        for statement in statements
        for name in _own(statement, ast.Name)
        if isinstance(name.ctx, ast.Store) and any(_may_be_tensor(flow, each) for each in flow.values(name))
    }
    return _first_use(flow, module, _following(module, statements[-1]), bound)


def _first_use(flow: Flow, module: Module, statements: Iterable[ast.stmt], bound: set[str]) -> ast.Name | None:
    """Where one of the names is read, for more than showing it, before the statements bind it anew."""
    for statement in statements:
        if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
            continue
        anew = {each.id for each in _certainly_bound(statement)}
        blocks = [block for name in ("body", "orelse", "finalbody", "handlers") for block in [getattr(statement, name, [])]]
        own = [each for each in ast.iter_child_nodes(statement) if isinstance(each, ast.expr)] if any(blocks) else [statement]
        for part in own:
            for name in _own(part, ast.Name):
                if name.id in bound and isinstance(name.ctx, ast.Load) and not _is_shown(flow, module, name):
                    return name
        for block in blocks:
            inner = [each for handler in block for each in getattr(handler, "body", [])] if block and isinstance(block[0], ast.ExceptHandler) else block
            found = _first_use(flow, module, inner, bound - anew)
            if found is not None:
                return found
        bound = bound - anew
        if not bound:
            return None
    return None


def _following(module: Module, statement: ast.stmt) -> Iterator[ast.stmt]:
    """The statements of the function that may run after this one, nearest first; a loop around it starts again."""
    here: ast.AST = statement
    while isinstance(here, ast.stmt):
        suite = module.suite(here)
        yield from suite[suite.index(here) + 1 :]
        parent = module.parent(here)
        if isinstance(parent, _LOOPS):
            yield from suite[: suite.index(here)]
        if parent is None or isinstance(parent, (*_FUNCTIONS, ast.ClassDef, ast.Module)):
            return
        here = parent if isinstance(parent, ast.stmt) else module.statement(parent)


def _certainly_bound(statement: ast.stmt) -> Iterator[ast.Name]:
    """The names that the statement binds whenever it runs."""
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, (ast.For, ast.AsyncFor)):
        targets = [statement.target]
    for target in targets:
        yield from (each for each in ast.walk(target) if isinstance(each, ast.Name))


_SHOWS = frozenset({"item", "tolist", "numpy", "cpu", "detach", "data", "shape", "size", "argmax", "max", "format"})


def _is_shown(flow: Flow, module: Module, name: ast.Name) -> bool:
    """Whether the name is read only to print, plot or convert it."""
    parent = module.parent(name)
    while isinstance(parent, (ast.BinOp, ast.Starred)):
        parent = module.parent(parent)
    if isinstance(parent, ast.Attribute):
        return parent.attr in _SHOWS
    if isinstance(parent, ast.FormattedValue):
        return True
    if isinstance(parent, ast.Call) and name is not parent.func:
        callees = flow.values(parent.func)
        return bool(callees) and all(each.sort is Sort.EXTERNAL and not each.name.startswith("torch.") for each in callees)
    return False


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value


def _line(node: ast.AST | None) -> int:
    return getattr(node, "lineno", 0)

