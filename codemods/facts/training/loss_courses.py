"""Is each loss of a training seen to be computed by the same parameters in each step?

Followed back from ``backward``: what the loss is computed of, the conditions under which that is, and the functions
that compute it, the ``forward`` of each layer among them. What does not depend on a parameter is left out: batches,
what is printed.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.names import words
from codemods.dataflow.recursion import closure
from codemods.dataflow.signatures import arguments_of, signature
from codemods.dataflow.source import FUNCTIONS, LOOPS, children, is_name, last_name, walk
from codemods.dataflow.values import (
    Container,
    External,
    Function,
    Instance,
    Made,
    Method,
    Partial,
    Tensor,
    Unknown,
    library_names,
    without_none,
)
from codemods.facts.loops import around, module_of
from codemods.facts.models.layers import Model
from codemods.facts.models.skipped_layers import has_parameters
from codemods.facts.training.iterations import EventKind
from codemods.facts.training.steady_tests import SteadyTests
from codemods.library.kinds import Kind, kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Value
    from codemods.facts.training.iterations import TrainingIteration

_KNOWN = ("torch", "torchvision", "timm", "segmentation_models_pytorch")
"""Libraries whose networks reach all of their layers in each call, in the same mode."""
_PICKING = frozenset(f"builtins.{each}" for each in words("min max sorted filter next"))
_DRAWING = ("random.", "numpy.random.", "itertools.", "functools.reduce", "torch.utils.checkpoint_sequential")
_TAKING = words("pop popleft popitem __next__")
_SHAPES = words("shape size ndim dim device dtype numel is_cuda")
_KEEPING = words(
    "dropout dropout1d dropout2d dropout3d alpha_dropout pad interpolate upsample relu flatten view reshape permute"
    " transpose contiguous unsqueeze squeeze float to mean expand repeat clone"
)
"""Operations whose result depends on what they are given, and on no parameter more."""
_Place = tuple["Module", ast.AST]


class _Scope(NamedTuple):
    """Code that computes a part of a loss."""

    module: Module
    node: ast.AST
    """The function, or the module."""
    step: ast.AST
    """The backward, or the call that leads to it; a function that computes a part, itself."""
    is_inside: bool
    """Whether all of it runs in each step."""
    above: frozenset[ast.AST] = frozenset()
    """What the step itself stands in."""
    carrying: frozenset[str] = frozenset()
    """The names that may depend on a parameter; all where it is inside."""


class Courses:
    """The ways by which the losses of some iterations are computed."""

    def __init__(self, flow: Flow, models: Iterable[Value], iterations: Iterable[TrainingIteration]) -> None:
        self._flow = flow
        self._layers = dict.fromkeys(layer for each in models for layer in Model(flow, each).layers)
        self._iterations = tuple(iterations)
        self._steady = self._around_steps()
        self._known: frozenset[str] = frozenset()
        """The conditions that a whole step stands under."""
        self._seen: set[ast.AST] = set()
        self._traced: set[tuple[ast.AST, str]] = set()
        self._mentions: dict[ast.AST, bool] = {}
        self._texts: list[str] = []

    def what_varies(self) -> _Place | None:
        """What may make a loss depend on other parameters in some steps, or is not known; None where nothing does."""
        return self._in_modules() or self._in_layers() or self._in_iterations()

    def _around_steps(self) -> SteadyTests:
        loops: set[ast.AST] = set()
        functions: set[Callee] = set()
        stepping: set[Callee] = set()
        for iteration in self._iterations:
            for event in iteration.of(EventKind.STEP, EventKind.BACKWARD):
                way = [above for above, _ in around(self._flow, event.module, event.node)]
                last = max((place for place, each in enumerate(way) if isinstance(each, LOOPS)), default=-1)
                loops.update(each for each in way if isinstance(each, LOOPS))
                functions.update(each for each in way[: last + 1] if isinstance(each, FUNCTIONS))
                stepping.update(each for each in way if isinstance(each, FUNCTIONS))
            if isinstance(iteration.owner, FUNCTIONS):
                functions.add(iteration.owner)
        functions |= {each for each in stepping if len(self._flow.callers(each)) > 1}
        return SteadyTests(
            self._flow, loops=frozenset(loops), functions=frozenset(functions), stepping=frozenset(stepping)
        )

    # Layers.

    def _in_modules(self) -> _Place | None:
        """A ``forward`` that is replaced; gradients that a function switches on later."""
        for module in self._flow.modules:
            for node in module.nodes(ast.Attribute):
                if node.attr == "forward" and isinstance(node.ctx, ast.Store):
                    return module, node
            for call in module.nodes(ast.Call):
                is_switch = isinstance(module.parent(call), ast.Expr) and last_name(call.func) == "set_grad_enabled"
                if is_switch and not all(map(self._is_steady, arguments_of(call))):
                    return module, call
        return None

    def _in_layers(self) -> _Place | None:
        for layer in self._layers:
            class_ = Model(self._flow, layer).class_
            if class_ is None:
                if isinstance(layer, Made) and layer.name.partition(".")[0] not in _KNOWN:
                    return None if layer.site is None else (module_of(self._flow, layer.site), layer.site)
                continue
            for base in self._flow.bases(class_):
                if isinstance(base, str) and base.partition(".")[0] not in {*_KNOWN, "builtins", "object"}:
                    return module_of(self._flow, class_), class_.bases[0]
            forward = self._flow.method(class_, "forward")
            found = None if forward is None else self._function(forward)
            if found is not None:
                return found
        return None

    # Iterations.

    def _in_iterations(self) -> _Place | None:
        courses: list[list[str]] = []
        for iteration in self._iterations:
            self._texts = []
            self._traced = set()
            found = self._in_iteration(iteration)
            if found is not None:
                return found
            if self._texts not in courses:
                courses.append(self._texts)
            if len(courses) > 1:
                # Trainings one after the other, by different losses.
                event = iteration.of(EventKind.BACKWARD)[0]
                return event.module, event.node
        return None

    def _in_iteration(self, iteration: TrainingIteration) -> _Place | None:
        steps = {each.node: each for each in iteration.of(EventKind.STEP)}
        conditions = [each for step in steps.values() for each in step.conditions] if len(steps) == 1 else []
        self._known = frozenset(map(ast.unparse, conditions))
        for event in iteration.of(EventKind.BACKWARD):
            for test in event.conditions:
                if not self._is_steady(test):
                    return module_of(self._flow, test), test
            call = event.node
            if isinstance(call, ast.Call):
                scope = self._outer(event.module, call)
                owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
                found = self._trace(scope, [*owner, *arguments_of(call)])
                if found is not None:
                    return found
        return None

    def _is_steady(self, test: ast.expr) -> bool:
        if isinstance(test, ast.BoolOp):
            return all(map(self._is_steady, test.values))
        return ast.unparse(test) in self._known or self._steady.holds(test)

    def _outer(self, module: Module, node: ast.AST) -> _Scope:
        function = module.function(node)
        scope = _Scope(module, function or module.tree, node, is_inside=False, above=frozenset(module.ancestors(node)))
        return scope._replace(carrying=self._names_that_carry(scope))

    def _names_that_carry(self, scope: _Scope) -> frozenset[str]:
        found: set[str] = set(signature(scope.node).names) if isinstance(scope.node, FUNCTIONS) else set()
        found = {name for name in found if self._is_given_model(scope, name)}
        stores = self._repeated_stores(scope)
        size = -1
        while size != len(found):
            size = len(found)
            for name, statement in stores:
                if name not in found and any(self._carries(each, found) for each in _given(statement)):
                    found.add(name)
        return frozenset(found)

    def _is_given_model(self, scope: _Scope, name: str) -> bool:
        uses = (each for each in walk(scope.node) if isinstance(each, ast.Name) and each.id == name)
        return any(self._is_model(each) or self._is_loss_of(each) for each in uses)

    def _is_loss_of(self, node: ast.Name) -> bool:
        """``def update(loss): loss.backward()``."""
        above = module_of(self._flow, node).parent(node)
        return isinstance(above, ast.Attribute) and above.attr == "backward"

    def _repeats(self, scope: _Scope, node: ast.AST) -> bool:
        return scope.is_inside or self._steady.repeats(scope.module, node)

    # What depends on parameters.

    def _is_model(self, node: ast.expr) -> bool:
        values = closure(
            self._flow.values(node), lambda each: self._flow.items(each) if isinstance(each, Container) else ()
        )
        return any(kind(self._flow, each) is Kind.MODEL or each.name == "torch.nn.Parameter" for each in values)

    def _runs_model(self, node: ast.expr) -> bool:
        """Whether it is a function, or holds one, whose code has a model."""
        values = closure(
            self._flow.values(node), lambda each: self._flow.items(each) if isinstance(each, Container) else ()
        )
        functions = (self._flow.run_by(each) for each in values if isinstance(each, (Function, Method, Partial)))
        return any(each is not None and self._mentions_model(each) for each in functions)

    def _carries(self, node: ast.AST, names: Iterable[str]) -> bool:
        """Whether an expression may depend on a parameter: not by a shape alone."""
        match node:
            case ast.Attribute(_, name) if name in _SHAPES:
                return False
            case ast.Name(name) if name in names:
                return True
            case ast.Name() | ast.Attribute() if self._is_model(node) or self._runs_model(node):
                return True
            case ast.Call() if any(map(self._mentions_model, self._called(node))):
                return True
        return any(self._carries(each, names) for each in children(node))

    def _mentions_model(self, function: ast.AST) -> bool:
        if function not in self._mentions:
            self._mentions[function] = False
            self._mentions[function] = self._carries(function, ())
        return self._mentions[function]

    def _called(self, call: ast.Call) -> list[Callee]:
        found = (self._flow.run_by(each) for each in self._flow.values(call.func))
        return [each for each in found if each is not None and getattr(each, "name", "") != "__init__"]

    # Back from the loss.

    def _trace(self, scope: _Scope, roots: list[ast.expr]) -> _Place | None:
        pending = list(roots)
        while pending:
            here = pending.pop()
            if not scope.is_inside:
                self._texts.append(ast.unparse(here))
            found = self._expression(scope, here)
            if found is not None:
                return found
            for name in dict.fromkeys(each.id for each in walk(here) if isinstance(each, ast.Name)):
                if (scope.node, name) in self._traced or not (scope.is_inside or name in scope.carrying):
                    continue
                self._traced.add((scope.node, name))
                found = self._through_callers(scope, name)
                for statement in self._setting(scope, name) if found is None else ():
                    found = found or self._conditions(scope, statement) or self._in_place(statement)
                    pending += _given(statement)
                if found is not None:
                    return found
        return None

    def _repeated_stores(self, scope: _Scope) -> list[tuple[str, ast.AST]]:
        """What sets the names of a scope in each step: a call of no function of the project does not."""
        found = []
        for name, each in _stores(scope):
            match each:
                case ast.Expr(ast.Call(ast.Name(), given) as call):
                    # A model that a function evaluates, or trains, is no loss that it adds to.
                    is_model = any(self._is_model(part) for part in given if is_name(part, name))
                    if is_model or not self._called(call):
                        continue
            if self._repeats(scope, each):
                found.append((name, each))
        return found

    def _in_place(self, statement: ast.AST) -> _Place | None:
        """A condition in a function that may change what it is given: ``add(losses, aux, epoch)``."""
        match statement:
            case ast.Expr(ast.Call(ast.Name()) as call):
                for function in self._called(call):
                    for node in walk(function):
                        if isinstance(node, (ast.If, ast.IfExp)) and not self._is_steady(node.test):
                            return self._flow.module_of(function), node.test
        return None

    def _setting(self, scope: _Scope, name: str) -> list[ast.AST]:
        """The statements that set a name, as the step reads it: in its own pass, where each pass sets it anew."""
        found = [each for stored, each in self._repeated_stores(scope) if stored == name]
        loop = next((each for each in scope.module.ancestors(scope.step) if isinstance(each, LOOPS)), None)
        inside = [each for each in found if loop is not None and loop in scope.module.ancestors(each)]
        anew = any(
            isinstance(each, ast.Assign)
            and scope.module.parent(each) in scope.above
            and not any(isinstance(part, ast.Name) and part.id == name for part in walk(each.value))
            for each in inside
        )
        return inside if anew and loop in scope.above else found

    def _through_callers(self, scope: _Scope, name: str) -> _Place | None:
        """What the calls of the function that steps give it."""
        function = scope.node
        if scope.is_inside or not isinstance(function, FUNCTIONS) or name not in signature(function).names:
            return None
        given: set[frozenset[Value]] = set()
        for call in self._flow.callers(function):
            expression = self._flow.bind(function, call).given.get(name)
            if expression is None or not (self._is_model(expression) or self._runs_model(expression)):
                continue
            given.add(frozenset(self._flow.values(expression)))
            outer = self._outer(module_of(self._flow, call), call)
            found = self._trace(outer, [expression])
            if found is not None or len(given) > 1:
                return found or (outer.module, call)
        return None

    def _function(self, function: Callee) -> _Place | None:
        """What varies in a function that a step runs."""
        if function in self._seen:
            return None
        self._seen.add(function)
        module = self._flow.module_of(function)
        scope = _Scope(module, function, function, is_inside=True)
        if isinstance(function, ast.Lambda):
            return self._trace(scope, [function.body])
        roots: list[ast.expr] = []
        for node in walk(function):
            if isinstance(node, (ast.Return, ast.Yield)) and module.function(node) is function:
                found = self._conditions(scope, node)
                if found is not None:
                    return found
                roots += [node.value] if node.value is not None else []
        return self._trace(scope, roots)

    # Conditions.

    def _conditions(self, scope: _Scope, node: ast.AST) -> _Place | None:
        """The condition under which a statement runs in some steps only."""
        below = node
        for above in scope.module.ancestors(node):
            if above is scope.node or above in scope.above:
                return None
            found = self._condition(scope, above, below)
            if found is not None:
                return scope.module, found
            below = above
        return None

    def _condition(self, scope: _Scope, above: ast.AST, below: ast.AST) -> ast.AST | None:
        match above:
            case ast.If(test):
                is_same = self._is_steady(test) or self._keeps(above) or self._agrees(scope, above)
                return None if is_same else test
            case ast.While(test):
                return (None if self._is_steady(test) else test) or self._leaving(scope, above)
            case ast.For(iter=passed) | ast.AsyncFor(iter=passed):
                return self._passes(scope, passed) or self._leaving(scope, above)
            case ast.Match(subject):
                return None if self._is_steady(subject) else subject
            case ast.ExceptHandler():
                return above
            case ast.Try(orelse=orelse) if below in orelse:
                return above
            case ast.With(items) | ast.AsyncWith(items):
                return next(filter(None, (self._switch(each.context_expr) for each in items)), None)
        return None

    def _leaving(self, scope: _Scope, loop: ast.AST) -> ast.AST | None:
        """The condition by which a loop ends early, or leaves out a pass."""
        for node in walk(loop):
            if isinstance(node, (ast.Break, ast.Continue, ast.Return)):
                for above in scope.module.ancestors(node):
                    if above is loop:
                        break
                    if isinstance(above, ast.If) and not self._is_steady(above.test):
                        return above.test
        return None

    def _passes(self, scope: _Scope, passed: ast.expr) -> ast.AST | None:
        """Whether a loop may go through nothing in some steps, or through other things."""
        if self._is_steady(passed) or _is_count(passed) or self._is_made_here(scope, passed):
            return None
        match passed:
            case ast.Call(ast.Name("enumerate" | "zip" | "reversed" | "list" | "tuple"), parts):
                return next(filter(None, (self._passes(scope, each) for each in parts)), None)
        grows = isinstance(passed, ast.Name) and self._is_list(passed)
        return None if not scope.is_inside and not grows and self._carries(passed, scope.carrying) else passed

    def _is_list(self, node: ast.expr) -> bool:
        return any(isinstance(each, Container) for each in self._flow.values(node))

    def _is_made_here(self, scope: _Scope, node: ast.expr) -> bool:
        """Whether it is a list or dictionary that code of the project makes."""
        owner = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else node
        if isinstance(owner, ast.Name) and not scope.is_inside:
            # A list that is made once may grow from one step to the next.
            sets = [each for name, each in _stores(scope) if name == owner.id and isinstance(each, ast.Assign)]
            if not any(self._repeats(scope, each) for each in sets):
                return False
        values = self._flow.values(owner)
        return bool(values) and all(isinstance(each, Container) for each in values)

    def _carrying(self, scope: _Scope) -> frozenset[str]:
        """The names in a scope that may depend on a parameter."""
        if not scope.is_inside:
            return scope.carrying
        return frozenset(each.id for each in walk(scope.node) if isinstance(each, ast.Name))

    def _switch(self, entered: ast.expr) -> ast.AST | None:
        """``with torch.set_grad_enabled(epoch > 3):``."""
        names = library_names(self._flow.values(entered.func)) if isinstance(entered, ast.Call) else ()
        if isinstance(entered, ast.Call) and "torch.set_grad_enabled" in names:
            tests = arguments_of(entered)
        else:
            tests = [each.test for each in walk(entered) if isinstance(each, ast.IfExp)]
        return next((each for each in tests if not self._is_steady(each)), None)

    def _keeps(self, choice: ast.If) -> bool:
        """Whether its branches only change a value that is there, by no parameter more: ``x = F.pad(x, p)``."""
        return all(self._keeps_statement(each) for each in (*choice.body, *choice.orelse))

    def _keeps_statement(self, statement: ast.stmt) -> bool:
        match statement:
            case ast.Raise() | ast.Assert() | ast.Pass():
                return True
            case ast.Expr(ast.Call(ast.Name("print"))):
                return True
            case ast.If():
                return self._keeps(statement)
            case ast.Assign([ast.Name(name)], value):
                return self._is_kept(value, name)
        return False

    def _agrees(self, scope: _Scope, choice: ast.If) -> bool:
        """Whether both branches compute the same names by the same models: ``f(model(x))``, of mixed images or not."""
        one, other = (self._computed(scope, each) for each in (choice.body, choice.orelse))
        return bool(choice.orelse) and one is not None and one == other

    def _computed(self, scope: _Scope, statements: list[ast.stmt]) -> frozenset[str] | None:
        """The names that statements compute by parameters, and by which models and names; None where not seen."""
        found: set[str] = set()
        stored: set[str] = set()
        for statement in statements:
            if not self._carries(statement, self._carrying(scope)):
                continue
            match statement:
                case ast.Assign([ast.Name(name)], value):
                    used = self._used(scope, value)
                    if used is None:
                        return None
                    found |= {f"={name}"} | (used - stored)
                    stored.add(name)
                case _:
                    return None
        return frozenset(found)

    def _used(self, scope: _Scope, value: ast.expr) -> frozenset[str] | None:
        found: set[str] = set()
        for node in walk(value):
            match node:
                case ast.Call(func) if self._is_model(func):
                    found.add(ast.unparse(func))
                case ast.Call(ast.Attribute(_, name)) if name in _KEEPING | {"sum", "log", "exp"}:
                    pass
                case ast.Call(func):
                    values = self._flow.values(func)
                    if not values or any(each.name.partition(".")[0] != "torch" for each in values):
                        return None
                case ast.Name(name) if name in self._carrying(scope):
                    found.add(name)
                case ast.Name() | ast.BinOp() | ast.UnaryOp() | ast.Constant() | ast.operator() | ast.unaryop():
                    pass
                case ast.Attribute(_, "detach" | "data"):
                    return None
                case ast.Attribute() | ast.keyword():
                    pass
                case _:
                    return None
        return frozenset(found)

    def _is_kept(self, value: ast.expr, name: str) -> bool:
        match value:
            case ast.Name(other):
                return other == name
            case ast.Call(ast.Attribute(owner, method), [first, *_]) if method in _KEEPING:
                owners = self._flow.values(owner)
                if owners and all(isinstance(each, External) for each in owners):
                    rest = arguments_of(value)[1:]
                    return self._is_kept(first, name) and not any(self._carries(each, ()) for each in rest)
        match value:
            case ast.Call(func, [first]) if self._has_no_parameters(func):
                return self._is_kept(first, name)
            case ast.Call(ast.Attribute(owner, method)) if method in _KEEPING:
                return self._is_kept(owner, name) and not any(self._carries(each, ()) for each in arguments_of(value))
        return False

    def _has_no_parameters(self, node: ast.expr) -> bool:
        values = without_none(self._flow.values(node))
        return bool(values) and all(
            kind(self._flow, each) is Kind.MODEL and not has_parameters(self._flow, each) for each in values
        )

    # Expressions.

    def _expression(self, scope: _Scope, expression: ast.expr) -> _Place | None:
        for node in walk(expression):
            found = self._choice(scope, node)
            if found is not None:
                return scope.module, found
            if isinstance(node, ast.Call):
                place = self._call(scope, node)
            elif isinstance(node, (ast.Name, ast.Attribute)):
                place = self._named(node)
            else:
                place = None
            if place is not None:
                return place
        return None

    def _choice(self, scope: _Scope, node: ast.AST) -> ast.AST | None:
        """What is computed at times only, or chosen."""
        match node:
            case ast.IfExp(test):
                return None if self._is_steady(test) else test
            case ast.BoolOp(values=values):
                return next((each for each in values[:-1] if not self._is_steady(each)), None)
            case ast.comprehension(iter=passed, ifs=tests):
                late = next((each for each in tests if not self._is_steady(each)), None)
                return late or self._passes(scope, passed)
            case ast.Subscript(value, index) | ast.Call(ast.Attribute(value, "get"), [index, *_]):
                return self._item(scope, value, index)
            case ast.BinOp(ast.List() | ast.Tuple() | ast.ListComp(), ast.Mult(), times):
                return None if self._is_steady(times) else times
            case ast.Attribute(owner, name) if self._steady.is_set_late(name):
                # An attribute of an object of the script, which may be another one later.
                owners = self._flow.values(owner)
                is_own = any(isinstance(each, Instance) or kind(self._flow, each) is Kind.MODEL for each in owners)
                return node if is_own else None
        return None

    def _item(self, scope: _Scope, value: ast.expr, index: ast.expr) -> ast.AST | None:
        is_tensor = self._is_tensor(value) or _indexes_tensor(index)
        if is_tensor or self._is_steady(index) or not self._carries(value, self._carrying(scope)):
            return None
        return index

    def _is_tensor(self, node: ast.expr) -> bool:
        values = self._flow.values(node)
        return bool(values) and all(isinstance(each, Tensor) for each in values)

    def _named(self, node: ast.Name | ast.Attribute) -> _Place | None:
        """What a function that is named there does: it is called there, or handed on."""
        for each in self._flow.values(node):
            if isinstance(each, (Function, Method)) and each.site is not None:
                found = self._function(each.site)
                if found is not None:
                    return found
        return None

    def _call(self, scope: _Scope, call: ast.Call) -> _Place | None:
        for each in self._called(call):
            place = self._function(each)
            if place is not None:
                return place
        callees = self._flow.values(call.func)
        names = library_names(callees)
        arguments = arguments_of(call)
        given = any(self._carries(each, self._carrying(scope)) for each in arguments)
        is_unknown = not callees or any(isinstance(each, Unknown) for each in callees)
        match call.func:
            case ast.Name("getattr" | "setattr") if arguments[1:] and not self._is_steady(arguments[1]):
                return scope.module, call
            case ast.Attribute(_, "__getattr__") if arguments and not self._is_steady(arguments[0]):
                return scope.module, call
            case ast.Attribute(_, name) if name in _TAKING and not isinstance(scope.module.parent(call), ast.Expr):
                return scope.module, call
            case ast.Attribute(owner, name) if is_unknown:
                return self._method_of_unknown(scope, call, owner, name)
            case ast.Name() if (is_unknown and given) or self._is_set_again(scope, call.func):
                return scope.module, call
        if given and any(each in _PICKING or each.startswith(_DRAWING) for each in names):
            return scope.module, call
        return None

    def _is_set_again(self, scope: _Scope, node: ast.Name) -> bool:
        """Whether a name of a function of the project is given another one in the training."""
        functions = any(isinstance(each, (Function, Method, Partial)) for each in self._flow.values(node))
        if not functions or node.id in scope.carrying:
            return False
        return any(self._steady.repeats(scope.module, each) for each in scope.module.stores.get(node.id, ()))

    def _method_of_unknown(self, scope: _Scope, call: ast.Call, owner: ast.expr, name: str) -> _Place | None:
        """A method of a tensor, as a rule; a method of that name which the project has may be what runs."""
        if self._is_model(owner):
            return scope.module, call
        for module in self._flow.modules:
            for function in module.nodes(ast.FunctionDef):
                if function.name == name and isinstance(module.parent(function), ast.ClassDef):
                    found = self._function(function)
                    if found is not None:
                        return found
        return None


def _stores(scope: _Scope) -> Iterator[tuple[str, ast.AST]]:
    """The names of a scope, each with a statement or expression that sets it, or changes what it holds."""
    for node in walk(scope.node):
        match node:
            case ast.Assign(targets=targets):
                parts: list[ast.expr] = targets
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target) | ast.NamedExpr(target=target):
                parts = [target]
            case ast.For(target=target) | ast.AsyncFor(target=target) | ast.comprehension(target=target):
                parts = [target]
            case ast.With(items) | ast.AsyncWith(items):
                parts = [each.optional_vars for each in items if each.optional_vars is not None]
            case ast.Expr(ast.Call(ast.Attribute(owner))):
                parts = [owner]
            case ast.Expr(ast.Call(ast.Name(), given)):
                parts = [each for each in given if isinstance(each, ast.Name)]
            case _:
                continue
        if (scope.module.function(node) or scope.module.tree) is scope.node:
            for part in parts:
                yield from ((each, node) for each in _bound(part))


def _bound(target: ast.expr) -> Iterator[str]:
    match target:
        case ast.Name(name):
            yield name
        case ast.Tuple(parts) | ast.List(parts):
            for each in parts:
                yield from _bound(each)
        case ast.Starred(value) | ast.Subscript(value) | ast.Attribute(value):
            yield from _bound(value)


def _given(statement: ast.AST) -> list[ast.expr]:
    """What a statement sets its targets by."""
    match statement:
        case ast.Assign(value=value) | ast.AugAssign(value=value) | ast.NamedExpr(value=value):
            return [value]
        case ast.AnnAssign(value=ast.expr() as value):
            return [value]
        case ast.For(iter=value) | ast.AsyncFor(iter=value) | ast.comprehension(iter=value):
            return [value]
        case ast.With(items) | ast.AsyncWith(items):
            return [each.context_expr for each in items]
        case ast.Expr(ast.Call() as call):
            return arguments_of(call)
    return []


def _is_count(passed: ast.expr) -> bool:
    """``range(x.size(1))``: at least one pass, as many as a tensor is long."""
    match passed:
        case ast.Call(ast.Name("range"), [stop]):
            return any(isinstance(each, ast.Attribute) and each.attr in {"size", "shape"} for each in walk(stop))
    return False


def _indexes_tensor(index: ast.expr) -> bool:
    """``x[:, :n]``: no list or dictionary takes that."""
    parts = index.elts if isinstance(index, ast.Tuple) else ()
    return any(isinstance(each, ast.Slice) or (isinstance(each, ast.Constant) and each.value is ...) for each in parts)
