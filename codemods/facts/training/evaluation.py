"""The code that only evaluates, and whether it can do without gradients."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import is_
from typing import TYPE_CHECKING, TypeAlias

from codemods.dataflow.source import FUNCTIONS, walk
from codemods.dataflow.values import TENSOR_SORTS, Sort, Value, Values, instance, without_none
from codemods.facts.autograd.uses import called_forwards, needs_gradients
from codemods.facts.loops import REPEATING, loop_around, module_of
from codemods.facts.models.layers import Model
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.graph_uses import GraphUses, escape
from codemods.facts.training.iterations import called_functions, own
from codemods.facts.training.modes import Modes, given_arguments, is_named
from codemods.library.kinds import MODULE_METHODS, Kind, kind
from codemods.library.losses import is_loss_function

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, FunctionNode, Module
    from codemods.facts.reason import Place
    from codemods.facts.training.iterations import Iterations

Kept: TypeAlias = "tuple[Module, Reason]"
"""A module that keeps tensors, and what does."""

_NOT_WRAPPED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
_IN_BLOCKS = "write `with torch.no_grad():` around the calls of models, with no await inside"
_ONCE = Reason("nothing-to-gain", "it computes a graph that nobody asks for, but only once")
_GAP = 3
"""Regions of one suite are one region where no more statements than these stand between them."""
_WORDS = (
    "(valid|validate|validation|val|eval|evaluate|evaluation|test|testing|infer|inference|predict|prediction|sample|generate"
    "|accuracy)"
)
_EVALUATES = re.compile(rf"(^|_){_WORDS}(_|\d|$)", re.IGNORECASE)
_TEST_DATA = re.compile(
    r"(^|_)(test|testing|valid|validation|val|eval|evaluation|dev)(_|\d|$|(data|set|load|iter|gen|dl))", re.IGNORECASE
)
_TRAINING = frozenset({"backward", "manual_backward", "step", "zero_grad"})
_FLAGS = frozenset({"train", "training", "is_train", "is_training", "optimizer", "mode", "phase", "evaluate"})

_MAY_CARRY = frozenset({Sort.TENSOR, Sort.MOVED, Sort.UNKNOWN, Sort.CONTAINER})
_PROFILERS = frozenset({"torch.profiler.profile", "torch.autograd.profiler.profile"})
_AUTOCAST = frozenset({"torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast", "torch.cpu.amp.autocast"})
# Decorators that only pass the call on, so that what stands below them may be wrapped.
_TRANSPARENT = re.compile(
    r"^(builtins|functools|abc|typing|contextlib|click|pytest|typer|torch\.(no_grad|enable_grad|inference_mode))\b"
)


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
    kept: tuple[Kept, ...]
    """Where the project may keep tensors from inside a model's forward, which training may read."""
    why_not: Reason | None
    """Why it cannot do without gradients, or None where it can."""
    flag: str = ""
    """The parameter of its function that says whether it is to have gradients, as it trains then."""

    def beside(self, modules: Collection[Module]) -> EvaluationRegion:
        """The same region where only these modules run in one process with it, and train."""
        keeping = next((reason for module, reason in self.kept if module in modules), None)
        return self if self.why_not is not None or keeping is None else replace(self, why_not=keeping)

    @property
    def node(self) -> ast.stmt:
        """The function, or the first statement."""
        return self.function if self.function is not None else self.statements[0]

    @cached_property
    def models(self) -> tuple[Model, ...]:
        """The models it calls, as far as they are known."""
        found: dict[Value, None] = {}
        for call in self.calls:
            for value in self.flow.values(call.func):
                owner = value.of if value.sort is Sort.METHOD else value
                if owner is not None and kind(self.flow, owner) is Kind.MODEL:
                    found[owner] = None
        return tuple(Model(self.flow, each) for each in found)

    @property
    def is_exact(self) -> bool:
        """Whether every model it calls is known to compute the same bits with gradients and without."""
        values = {value for call in self.calls for value in without_none(self.flow.values(call.func))}
        owners = {value.of if value.sort is Sort.METHOD else value for value in values}
        known = {model.value for model in self.models}
        return bool(owners) and owners <= known and all(model.is_exact_without_gradients for model in self.models)


class Evaluations:
    """Finds the evaluation regions of some modules."""

    def __init__(self, flow: Flow, modules: Sequence[Module], iterations: Iterations) -> None:
        self._flow = flow
        self._modules = modules
        self._iterations = iterations
        self._modes = Modes(flow, modules)
        self._uses = GraphUses(flow, self._modes, iterations)
        self._whole: dict[FunctionNode, EvaluationRegion | None] = {}

    def find(self) -> Iterator[EvaluationRegion]:
        """The regions, in the order of the text, without those that run without gradients already."""
        for module in self._modules:
            whole: set[Callee] = set()
            for function in self._functions(module):
                region = self._region_of(function)
                if region is not None:
                    whole.add(function)
                    if region.calls:
                        yield region
            done: set[ast.stmt] = set()
            seekers = (self._inlined, self._volatile, self._looped, self._flagged, self._unused)
            for region in (each for seek in seekers for each in seek(module, whole)):
                nodes = (each for statement in region.statements for each in walk(statement))
                if done.isdisjoint((*nodes, *module.ancestors(region.statements[0]))):
                    done.update(region.statements)
                    yield region

    # Whole functions.

    def _functions(self, module: Module) -> list[FunctionNode]:
        found = [function for function, where, _ in self._flow.functions() if where is module]
        return sorted(found, key=lambda each: (each.lineno, each.col_offset))

    def _region_of(self, function: FunctionNode) -> EvaluationRegion | None:
        """The same as ``_function_region``, once for each function; None of one that is being looked at."""
        if function not in self._whole:
            self._whole[function] = None
            self._whole[function] = self._function_region(self._flow.module_of(function), function)
        return self._whole[function]

    def _computes(self, call: ast.Call) -> bool:
        """Whether the call computes a graph where gradients are on, and will do so after the change."""
        if not self._uses.computes(call):
            return False
        called = [each for each in called_functions(self._flow, call) if isinstance(each, ast.FunctionDef)]
        regions = [self._region_of(each) for each in called]
        is_done = bool(called) and all(each is not None and each.why_not is None for each in regions)
        return not is_done or len(called) < len(self._flow.values(call.func))

    def _is_open(self, module: Module, call: ast.Call) -> bool:
        return self._computes(call) and not self._modes.without_gradients(module, call)

    def _function_region(self, module: Module, function: FunctionNode) -> EvaluationRegion | None:
        """The region that the whole function is; without calls where it has no gradients already."""
        if _is_unit_test(module, function) or self._is_frameworks(function):
            return None
        calls = [call for call in own(function, ast.Call) if self._computes(call)]
        if not calls:
            return None
        named = bool(_EVALUATES.search(function.name))
        is_models = self._is_model_method(function)
        switches = [call for call in own(function, ast.Call) if self._modes.sets(call, "eval")]
        if is_models:
            # Its other methods serve its training, but those that hand on no graph; a switched part is a frozen part.
            switches = [call for call in switches if ast.unparse(call.func) in {"self.eval", "self.train"}]
            named = named and self._hands_on_no_graph(function)
        trains = self._iterations.training_functions.get(function)
        needs = needs_gradients(self._flow, function)
        if not (named or switches) and (trains is not None or not self._is_unused(module, function, calls)):
            return None
        if trains is not None and not (named and (needs is not None or _flag(function) is not None)):
            return None
        open_calls = [call for call in calls if not self._modes.without_gradients(module, call)]
        if not open_calls or self._modes.is_decorated(function) or self._all_callers_without(function):
            return EvaluationRegion(self._flow, module, function, (), (), (), None)
        why_not = self._why_trains(function, trains) or self._why_function_not(function, needs)
        if why_not is None and all(self._tries_out(function, each) for each in open_calls):
            why_not = Reason("nothing-to-gain", "it only tries out a model that it makes, on numbers that it makes")
        return EvaluationRegion(self._flow, module, function, (), tuple(open_calls), self._kept_inside, why_not)

    def _is_unused(self, module: Module, function: FunctionNode, calls: Sequence[ast.Call]) -> bool:
        """Whether nothing may train on what models compute in the function, again and again, whatever its name."""
        if function.name in MODULE_METHODS or escape(self._uses.strict.function(function)) is not None:
            return False
        return not self._flow.callers(function) or any(self._is_repeated(module, each) for each in calls)

    def _is_repeated(self, module: Module, call: ast.Call) -> bool:
        return loop_around(self._flow, module, call, REPEATING) is not None

    def _hands_on_no_graph(self, function: FunctionNode) -> bool:
        """Whether no tensor that it computes with a graph is returned, kept or trained on: ``sample()`` of indices."""
        return needs_gradients(self._flow, function) is None and escape(self._uses.inside.function(function)) is None

    def _tries_out(self, function: FunctionNode, call: ast.Call) -> bool:
        """Whether it is ``Net()(torch.randn(2, 3, 32, 32))``, as files that define models end with to see them run."""
        made = {
            each.targets[0].id
            for each in own(function, ast.Assign)
            if isinstance(each.targets[0], ast.Name) and isinstance(each.value, ast.Call)
        }
        is_new = isinstance(call.func, ast.Call) or (isinstance(call.func, ast.Name) and call.func.id in made)
        loads = any(each.attr == "load_state_dict" for each in own(function, ast.Attribute))
        inputs = [value for each in given_arguments(call) for value in self._flow.values(each)]
        here = set(own(function, ast.Call))
        return is_new and not loads and all(each.sort is Sort.HOST and each.site in here for each in inputs)

    def _why_trains(self, function: FunctionNode, trains: ast.AST | None) -> Reason | None:
        flag = _flag(function)
        if trains is None or flag is None:
            return None
        text = f"the function also trains, as its parameter '{flag}' says ({HERE})"
        return Reason("also-trains", text, (self._at(function, trains),))

    def _is_no_place(self, module: Module, function: Callee) -> bool:
        """Whether what the function runs is not an evaluation, whatever it switches."""
        return self._is_model_method(function) or _is_unit_test(module, function) or self._is_frameworks(function)

    def _is_model_method(self, function: Callee) -> bool:
        return self._kind_of_owner(function) is Kind.MODEL

    def _is_frameworks(self, function: Callee) -> bool:
        """Whether it is a method of what Lightning or the like runs, which switches gradients off to validate."""
        return self._kind_of_owner(function) is Kind.FRAMEWORK

    def _kind_of_owner(self, function: Callee) -> Kind | None:
        owner = self._flow.owner(function)
        return None if owner is None else kind(self._flow, instance(owner))

    def _why_function_not(self, function: FunctionNode, needs: ast.AST | None) -> Reason | None:
        if needs is not None:
            return self._needs(function, needs)
        if isinstance(function, ast.AsyncFunctionDef):
            text = "it is a coroutine: a decorator would not act while it runs"
            return Reason("not-editable", text, remedy=_IN_BLOCKS)
        for decorator in function.decorator_list:
            if not self._is_transparent(decorator):
                text = f"@{ast.unparse(decorator)} may need the function as it is ({HERE})"
                return Reason("not-editable", text, (self._at(function, decorator),))
        calls = self._flow.callers(function)
        for call in calls:
            mixed = self._mixed_autocast(self._module(call), call, function)
            if mixed is not None:
                return mixed
        state = self._why_state(function)
        if state is not None:
            return state
        course = self._uses.inside.function(function)
        if course.kept is not None:
            return self._keeps(function, course.kept)
        return self._why_result_not(function) if course.returned is not None else None

    def _needs(self, home: ast.AST, node: ast.AST) -> Reason:
        return Reason("needs-gradients", f"gradients are needed in it ({HERE})", (self._at(home, node),))

    def _keeps(self, home: ast.AST, node: ast.AST) -> Reason:
        return Reason("graph-escapes", f"it keeps a tensor for later ({HERE})", (self._at(home, node),))

    def _is_transparent(self, decorator: ast.expr) -> bool:
        values = self._flow.values(decorator.func if isinstance(decorator, ast.Call) else decorator)
        return bool(values) and all(
            each.sort in {Sort.FUNCTION, Sort.CLASS}
            or (each.sort is Sort.EXTERNAL and _TRANSPARENT.match(each.name) is not None)
            or (each.sort is Sort.METHOD and each.name in {"setter", "getter", "command"})
            for each in values
        )

    def _why_result_not(self, function: Callee) -> Reason | None:
        """Why the tensors that the function returns may have to carry gradients."""
        calls = self._flow.callers(function)
        if not calls or self._flow.escapes(function):
            here = "this file" if len(self._modules) == 1 else "the project"
            return Reason("graph-escapes", f"it returns tensors to code outside {here}, which may train on them")
        for call in calls:
            module = self._module(call)
            statement = module.statement(call)
            graphs = self._uses.of(partial(is_, call), outside=False)
            course = graphs.statements(module, [statement])
            used = escape(course) or self._uses.used_after(graphs, module, statement, course)
            if used is not None:
                text = f"what it returns may be trained on ({HERE})"
                return Reason("graph-escapes", text, (self._at(function, used),))
        return None

    def _at(self, home: ast.AST, node: ast.AST) -> Place:
        """Where the node stands; in the module of ``home`` where no module holds it."""
        module = next((each for each in self._modules if each.holds(node)), None)
        return at(self._module(home) if module is None else module, node)

    def _module(self, node: ast.AST) -> Module:
        return next(each for each in self._modules if each.holds(node))

    # Regions after ``model.eval()``.

    def _inlined(self, module: Module, whole: set[Callee]) -> Iterator[EvaluationRegion]:
        for statement, call in self._switches(module):
            function = module.function(statement)
            if function in whole or (function is not None and self._is_no_place(module, function)):
                continue
            for statements in self._evaluated(module, statement, call):
                yield from self._regions(module, statements, self._modes.receivers(call))
            yield from self._chosen(module, statement, call)
        for call in module.nodes(ast.Call):
            if isinstance(module.parent(call), ast.Expr) and self._modes.sets(call, None):
                yield from self._mixed(module, module.statement(call), ast.unparse(given_arguments(call)[0]))

    def _switches(self, module: Module) -> Iterator[tuple[ast.stmt, ast.Call]]:
        """The statements ``model.eval()`` and ``model = model.eval()``."""
        for call in module.nodes(ast.Call):
            statement = module.parent(call)
            if not self._modes.sets(call, "eval") or not isinstance(call.func, ast.Attribute):
                continue
            again = isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == ast.unparse(
                call.func.value
            )
            if isinstance(statement, ast.Expr) or (isinstance(statement, ast.Assign) and again):
                yield statement, call

    def _evaluated(self, module: Module, statement: ast.stmt, call: ast.Call) -> Iterator[list[ast.stmt]]:
        """The statements from ``model.eval()`` to ``model.train()`` or training, without definitions and imports."""
        models = self._modes.receivers(call)
        suite = module.suite(statement)
        run: list[ast.stmt] = []
        for each in suite[_index(suite, statement) + 1 :]:
            if self._back_to_training(each, models):
                break
            if isinstance(each, _NOT_WRAPPED):
                yield run
                run = []
            elif self._iterations.why_trains(each) is not None:
                break
            else:
                run.append(each)
        yield run

    def _regions(self, module: Module, statements: Sequence[ast.stmt], models: Values) -> Iterator[EvaluationRegion]:
        """The stretches of the statements that call models, one of them at least."""
        open_of = [[call for call in own(each, ast.Call) if self._is_open(module, call)] for each in statements]
        with_calls = [index for index, calls in enumerate(open_of) if calls]
        while with_calls:
            first = last = with_calls.pop(0)
            while with_calls and with_calls[0] - last <= _GAP + 1:
                last = with_calls.pop(0)
            inside = self._with_losses(module, statements[first : last + 1], statements[last + 1 :])
            calls = tuple(call for each in open_of[first : last + 1] for call in each)
            if any(models & self._models_of(call) for call in calls):
                why_not = self._why_region_not(module, inside)
                if why_not is None and not any(self._is_repeated(module, each) for each in calls):
                    why_not = _ONCE
                yield EvaluationRegion(self._flow, module, None, inside, calls, self._kept_inside, why_not)

    def _with_losses(
        self, module: Module, run: Sequence[ast.stmt], following: Sequence[ast.stmt]
    ) -> tuple[ast.stmt, ...]:
        """The statements, and those directly behind them that go on computing from what they computed."""
        names = self._uses.inside.statements(module, run).names
        found = [*run]
        for statement in following:
            if not isinstance(statement, (ast.Assign, ast.AugAssign)) or self._iterations.why_trains(statement):
                break
            if any(self._is_open(module, each) for each in own(statement, ast.Call)):
                break
            before, names = names, self._uses.inside.statements(module, [statement], names).names
            bound = {each.id for each in own(statement, ast.Name) if isinstance(each.ctx, ast.Store)}
            reads = {each.id for each in own(statement, ast.Name) if isinstance(each.ctx, ast.Load)} & before
            if not reads or not (bound & names or any(map(self._is_loss, own(statement, ast.Call)))):
                break
            found.append(statement)
        return tuple(found)

    def _is_loss(self, call: ast.Call) -> bool:
        return any(kind(self._flow, each) is Kind.LOSS for each in self._flow.values(call.func)) or any(
            each.sort is Sort.EXTERNAL and is_loss_function(each.name) for each in self._flow.values(call.func)
        )

    def _models_of(self, call: ast.Call) -> Values:
        values = self._flow.values(call.func)
        return values | {each.of for each in values if each.sort is Sort.METHOD and each.of is not None}

    def _why_region_not(self, module: Module, statements: tuple[ast.stmt, ...]) -> Reason | None:
        reasons = (
            *map(self._why_statement_not, statements),
            self._mixed_autocast(module, statements[0], statements[0]),
        )
        reason = next(filter(None, (*reasons, *map(self._why_state, statements))), None)
        if reason is not None:
            return reason
        course = self._uses.inside.statements(module, statements)
        if course.kept is not None:
            return self._keeps(statements[0], course.kept)
        if course.returned is not None:
            function = module.function(statements[0])
            reason = self._why_result_not(function) if function is not None else None
            if reason is not None:
                return reason
        used = self._uses.used_after(self._uses.outside, module, statements[-1], course)
        if used is not None:
            text = f"a tensor computed in it may be trained on later ({HERE})"
            return Reason("graph-escapes", text, (self._at(statements[0], used),))
        return None

    def _why_statement_not(self, statement: ast.stmt) -> Reason | None:
        trains = self._iterations.why_trains(statement)
        if trains is not None:
            return Reason("also-trains", f"the region also trains ({HERE})", (self._at(statement, trains),))
        needs = needs_gradients(self._flow, statement)
        if needs is not None:
            return self._needs(statement, needs)
        for block in own(statement, ast.With):
            if any(is_named(self._flow, item.context_expr, _PROFILERS) for item in block.items):
                return Reason("script-decides", f"it is profiled as it is ({HERE})", (self._at(statement, block),))
        yields = next(iter((*own(statement, ast.Yield), *own(statement, ast.YieldFrom))), None)
        if yields is None:
            return None
        text = f"it yields to code that may need gradients ({HERE})"
        return Reason("graph-escapes", text, (self._at(statement, yields),))

    @cached_property
    def _kept_inside(self) -> tuple[Kept, ...]:
        """Where tensors from inside a model's forward may be kept: by a hook, or by an attribute of the model."""
        return tuple(self._keeps_inside())

    def _keeps_inside(self) -> Iterator[Kept]:
        for module in self._modules:
            for call in module.nodes(ast.Call):
                if isinstance(call.func, ast.Attribute) and call.func.attr == "register_forward_hook":
                    text = f"a forward hook may keep tensors for later ({HERE})"
                    yield module, Reason("graph-escapes", text, (at(module, call),))
            for target in module.nodes(ast.Attribute):
                if isinstance(target.ctx, ast.Store) and self._is_kept_by_forward(module, target):
                    text = f"the model's forward keeps a tensor that is read elsewhere ({HERE})"
                    yield module, Reason("graph-escapes", text, (at(module, target),))

    @cached_property
    def _reads(self) -> dict[str, list[tuple[Module, ast.Attribute]]]:
        """Where attributes are read, by their names."""
        found: dict[str, list[tuple[Module, ast.Attribute]]] = {}
        for module in self._modules:
            for each in module.nodes(ast.Attribute):
                if isinstance(each.ctx, ast.Load):
                    found.setdefault(each.attr, []).append((module, each))
        return found

    def _is_kept_by_forward(self, module: Module, target: ast.Attribute) -> bool:
        """Whether it is ``self.x = …`` in a model's own ``forward``, a tensor, and something else reads ``….x``."""
        function = module.function(target)
        if not isinstance(function, ast.FunctionDef) or function.name != "forward":
            return False
        if not self._is_model_method(function) or not any(
            each.sort in _MAY_CARRY for each in self._flow.values(target)
        ):
            return False
        reads = self._reads.get(target.attr, ())
        return not all(self._runs_in(where.function(each), function, set()) for where, each in reads)

    def _runs_in(self, reader: Callee | None, forward: FunctionNode, seen: set[Callee]) -> bool:
        """Whether the function is ``forward``, or is only called by it, or by what is only called by it."""
        if reader is None or reader is forward or reader in seen:
            return reader is not None
        seen.add(reader)
        callers = self._flow.callers(reader)
        return (
            bool(callers)
            and not self._flow.escapes(reader)
            and all(self._runs_in(module_of(self._flow, each).function(each), forward, seen) for each in callers)
        )

    def _chosen(self, module: Module, statement: ast.stmt, call: ast.Call) -> Iterator[EvaluationRegion]:
        """Where ``if …: model.train()`` and ``else: model.eval()`` choose what the code below does."""
        branch = module.parent(statement)
        if not isinstance(branch, ast.If):
            return
        models = self._modes.receivers(call)
        test = ast.unparse(branch.test)
        if module.suite(statement) is branch.body:
            other, test = branch.orelse, f"not ({test})"
        else:
            other = branch.body
        if any(self._back_to_training(each, models) for each in other):
            yield from self._mixed(module, branch, test)

    def _mixed(self, module: Module, statement: ast.stmt, test: str) -> Iterator[EvaluationRegion]:
        """The first statement after this one that trains or evaluates, as ``test`` says, with gradients on."""
        suite = module.suite(statement)
        for each in suite[_index(suite, statement) + 1 :]:
            trains = self._iterations.why_trains(each)
            calls = tuple(
                inner
                for inner in own(each, ast.Call)
                if self._modes.calls(inner) and not self._modes.without_gradients(module, inner)
            )
            if calls and trains is not None:
                remedy = f"torch.set_grad_enabled({test}) would serve both"
                why_not = Reason("also-trains", f"it also trains ({HERE}):", (self._at(each, trains),), remedy)
                yield EvaluationRegion(self._flow, module, None, (each,), calls, (), why_not)
                return

    # Loops over data without ``model.eval()``.

    def _looped(self, module: Module, whole: set[Callee]) -> Iterator[EvaluationRegion]:
        """The loops over data for evaluation, by their name, that feed models, as those that test beside the training.

        A loop over other data may train in a way that is not seen: ``loss_scaler(loss, optimizer)`` of a library.
        """
        for loop in module.nodes(ast.For):
            function = module.function(loop)
            if function in whole or (function is not None and self._is_no_place(module, function)):
                continue
            names = {each.id if isinstance(each, ast.Name) else each.attr for each in _names(loop.iter)}
            if not any(map(_TEST_DATA.search, names)) or self._iterations.why_trains(loop) is not None:
                continue
            calls = [*own(loop, ast.Call)]
            if any(map(self._is_fed, calls)) and not any(map(_serves_training, calls)):
                yield from self._stretch(module, (loop,))

    def _is_fed(self, call: ast.Call) -> bool:
        """Whether the call runs a model on what a loader handed out."""
        values = (value for each in given_arguments(call) for value in self._flow.values(each))
        return self._modes.calls(call) and any(value.sort in TENSOR_SORTS and value.of is not None for value in values)

    # Functions that train where a parameter says so.

    def _flagged(self, module: Module, whole: set[Callee]) -> Iterator[EvaluationRegion]:
        """What ``def run(loader, train=True)`` computes before ``if train:`` and its backward."""
        for function in self._functions(module):
            if function in whole or self._is_no_place(module, function):
                continue
            for name in self._switched_off(function):
                yield from self._before_training(module, function, name)

    def _switched_off(self, function: FunctionNode) -> Iterator[str]:
        """The parameters that are only read, and are True in some calls and False in others."""
        arguments = function.args
        names = [each.arg for each in (*arguments.args, *arguments.kwonlyargs)]
        stored = {each.id for each in own(function, ast.Name) if not isinstance(each.ctx, ast.Load)}
        for name in names:
            values = self._flow.before(function.body[0]).get(name, frozenset())
            known = [each.literal for each in values if each.sort is Sort.LITERAL]
            is_switch = len(known) == len(values) and all(isinstance(each, bool) for each in known)
            if name not in stored and is_switch and set(known) == {False, True}:
                yield name

    def _before_training(self, module: Module, function: FunctionNode, name: str) -> Iterator[EvaluationRegion]:
        """The stretch that computes what is differentiated under ``if name:`` alone, and used for nothing else."""
        course = self._uses.strict.function(function)
        training = [call for call in own(function, ast.Call) if self._iterations.why_trains(call) is not None]
        branches = [self._branch(module, call, name) for call in training]
        branch = branches[0] if branches else None
        if branch is None or any(each is not branch for each in branches) or course.kept or course.returned:
            return
        suite = module.suite(branch)
        before = suite[: _index(suite, branch)]
        computing = [
            at for at, each in enumerate(before) if any(self._is_open(module, call) for call in own(each, ast.Call))
        ]
        if not computing:
            return
        run = self._with_losses(module, before[computing[0] : computing[-1] + 1], before[computing[-1] + 1 :])
        calls = tuple(call for each in run for call in own(each, ast.Call) if self._computes(call))
        needs = next(filter(None, (needs_gradients(self._flow, each) for each in run)), None)
        why_not = self._needs(run[0], needs) if needs is not None else self._mixed_autocast(module, run[0], run[0])
        why_not = why_not or next(filter(None, map(self._why_state, run)), None)
        yield EvaluationRegion(self._flow, module, None, run, calls, self._kept_inside, why_not, name)

    @staticmethod
    def _branch(module: Module, call: ast.Call, name: str) -> ast.If | None:
        """The ``if name:`` that the call stands under, if it stands under one."""
        below: ast.AST = call
        for above in module.ancestors(call):
            if isinstance(above, FUNCTIONS):
                return None
            if isinstance(above, ast.If) and below in above.body and ast.unparse(above.test) == name:
                return above
            below = above
        return None

    # What nobody asks the gradients of, anywhere.

    def _unused(self, module: Module, whole: set[Callee]) -> Iterator[EvaluationRegion]:
        """The stretches of statements that compute a graph of which nothing comes, in training too."""
        unused: dict[ast.stmt, None] = {}
        used: set[ast.stmt] = set()
        for call in module.nodes(ast.Call):
            function = module.function(call)
            if function in whole or isinstance(function, ast.Lambda) or not self._is_open(module, call):
                continue
            if function is not None and self._is_no_place(module, function):
                continue
            statement = module.statement(call)
            if self._iterations.why_trains(statement) is not None:
                continue
            if self._uses.is_unused(module, call):
                unused[statement] = None
            else:
                used.update((statement, *(each for each in module.ancestors(statement) if isinstance(each, ast.stmt))))
        done: set[ast.stmt] = set()
        for statement in unused:
            if statement not in done and statement not in used:
                run = self._neighbours(module, statement, unused.keys() - used)
                done.update(run)
                yield from self._often(module, run)

    def _often(self, module: Module, run: list[ast.stmt]) -> Iterator[EvaluationRegion]:
        """The stretch, which is left where it runs once; none where it only tries out a model then."""
        calls = tuple(call for each in run for call in own(each, ast.Call) if self._computes(call))
        if any(self._is_repeated(module, each) for each in calls):
            suite = module.suite(run[0])
            yield from self._stretch(module, self._with_losses(module, run, suite[_index(suite, run[-1]) + 1 :]))
        elif not all(self._is_given_made(each) for each in calls):
            yield EvaluationRegion(self._flow, module, None, tuple(run), calls, (), _ONCE)

    def _is_given_made(self, call: ast.Call) -> bool:
        """Whether the call is given nothing but tensors that are made for it: ``model(torch.randn(2, 3, 32, 32))``."""
        given = given_arguments(call)
        inputs = [value for each in given for value in self._flow.values(each)]
        is_plain = all(isinstance(each, (ast.Name, ast.Call)) for each in given)
        return is_plain and all(each.sort in {Sort.HOST, Sort.MOVED} and each.of is None for each in inputs)

    def _neighbours(self, module: Module, first: ast.stmt, unused: Collection[ast.stmt]) -> list[ast.stmt]:
        """The statement, and those after it up to the last one of these, as long as few stand between two of them."""
        suite = module.suite(first)
        start = last = _index(suite, first)
        for index in range(start + 1, len(suite)):
            if index - last > _GAP + 1 or isinstance(suite[index], _NOT_WRAPPED):
                break
            if self._iterations.why_trains(suite[index]) is not None:
                break
            if suite[index] in unused:
                last = index
            elif any(self._is_open(module, each) for each in own(suite[index], ast.Call)):
                break
        return suite[start : last + 1]

    # ``Variable(x, volatile=True)``.

    def _volatile(self, module: Module, whole: set[Callee]) -> Iterator[EvaluationRegion]:
        """The statements from one that makes a volatile variable to the last one that calls a model with it."""
        for call in module.nodes(ast.Call):
            if not is_volatile(self._flow, call) or module.function(call) in whole:
                continue
            statement = module.statement(call)
            suite = module.suite(statement)
            graphs = self._uses.of(partial(is_, call), outside=False)
            names = graphs.statements(module, [statement]).names
            run = [statement]
            for each in suite[_index(suite, statement) + 1 :]:
                if isinstance(each, _NOT_WRAPPED) or self._iterations.why_trains(each) is not None:
                    break
                run.append(each)
            fed = [
                index
                for index, each in enumerate(run)
                for inner in own(each, ast.Call)
                if self._modes.calls(inner)
                and any(isinstance(name, ast.Name) and name.id in names for name in walk(inner))
            ]
            if fed:
                yield from self._stretch(module, run[: fed[-1] + 1])

    def _stretch(self, module: Module, statements: Sequence[ast.stmt]) -> Iterator[EvaluationRegion]:
        inside = tuple(statements)
        calls = tuple(call for each in inside for call in own(each, ast.Call) if self._computes(call))
        if calls and not any(self._modes.without_gradients(module, call) for call in calls):
            why_not = self._why_region_not(module, inside)
            yield EvaluationRegion(self._flow, module, None, inside, calls, self._kept_inside, why_not)

    def _why_state(self, node: ast.AST) -> Reason | None:
        """Why a model that the code calls may bring a graph along from an earlier call, or on to a later one."""
        for call in own(node, ast.Call):
            for forward in called_forwards(self._flow, call):
                kept = self._carried_on(forward)
                if kept is not None:
                    text = f"the model keeps self.{kept.attr} from one call to the next ({HERE})"
                    return Reason("graph-escapes", text, (self._at(node, kept),))
        return None

    def _carried_on(self, forward: Callee) -> ast.Attribute | None:
        """An attribute with a tensor that the forward reads before it writes it."""
        read: set[str] = set()
        for statement in forward.body if not isinstance(forward, ast.Lambda) else ():
            attributes = [
                each
                for each in own(statement, ast.Attribute)
                if isinstance(each.value, ast.Name) and each.value.id == "self"
            ]
            read.update(each.attr for each in attributes if isinstance(each.ctx, ast.Load))
            for each in attributes:
                tensors = any(value.sort in _MAY_CARRY for value in self._flow.values(each))
                if isinstance(each.ctx, ast.Store) and each.attr in read and tensors and not _is_detached(statement):
                    return each
        return None

    # What code does.

    @cached_property
    def _called_after_eval(self) -> set[Callee]:
        """The functions that code between ``model.eval()`` and ``model.train()`` calls."""
        found: set[Callee] = set()
        for module in self._modules:
            for statement, switch in self._switches(module):
                for each in (each for run in self._evaluated(module, statement, switch) for each in run):
                    for call in own(each, ast.Call):
                        found.update(called_functions(self._flow, call))
        return found

    def _back_to_training(self, statement: ast.stmt, models: Values) -> bool:
        """Whether the statement is ``model.train()`` of one of the models."""
        value = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
        return (
            isinstance(value, ast.Call)
            and self._modes.sets(value, "train")
            and bool(self._modes.receivers(value) & models)
        )

    def _all_callers_without(self, function: FunctionNode) -> bool:
        calls = self._flow.callers(function)
        return (
            bool(calls)
            and not self._flow.escapes(function)
            and all(self._modes.without_gradients(self._module(each), each) for each in calls)
        )

    def _mixed_autocast(self, module: Module, node: ast.AST, home: ast.AST) -> Reason | None:
        """Whether an autocast block around the node also runs models with gradients.

        One block keeps 16-bit copies of the weights; old versions of torch kept those that were made without a graph.
        """
        for above in module.ancestors(node):
            if isinstance(above, FUNCTIONS):
                return None
            if isinstance(above, ast.With) and any(
                is_named(self._flow, item.context_expr, _AUTOCAST) for item in above.items
            ):
                text = f"it shares an autocast block, which may keep weights without a graph ({HERE})"
                return Reason("shared-autocast", text, (self._at(home, above),))
        return None


def is_volatile(flow: Flow, call: ast.Call) -> bool:
    """Whether the call is ``Variable(x, volatile=True)``, or of the script's own function that hands it on."""
    return may_be_volatile(flow, call) and any(
        each.arg == "volatile" and isinstance(each.value, ast.Constant) for each in call.keywords
    )


def may_be_volatile(flow: Flow, call: ast.Call) -> bool:
    """Whether the call is ``Variable(x, volatile=…)`` with anything but ``False``, or hands that on."""
    given = any(
        each.arg == "volatile" and not (isinstance(each.value, ast.Constant) and not each.value.value)
        for each in call.keywords
    )
    return given and any(
        each.name == "torch.autograd.Variable"
        or (isinstance(each.site, FUNCTIONS) and each.site.args.kwarg is not None)
        for each in flow.values(call.func)
    )


def _is_detached(statement: ast.stmt) -> bool:
    """``self.x = y.detach()``."""
    match statement:
        case ast.Assign(_, ast.Call(ast.Attribute(_, "detach"))):
            return True
    return False


def _is_unit_test(module: Module, function: Callee) -> bool:
    """Whether it is a test of code, not of a model: the function of a file that a test runner collects."""
    imported = {each.name for node in module.nodes(ast.Import) for each in node.names}
    in_file = bool(imported & {"pytest", "unittest"}) or re.search(r"(^|[/\\])test_[^/\\]*\.py$", module.path)
    return bool(in_file) and getattr(function, "name", "").startswith("test")


def _names(node: ast.expr) -> Iterator[ast.Name | ast.Attribute]:
    return (each for each in own(node, ast.expr) if isinstance(each, (ast.Name, ast.Attribute)))


def _serves_training(call: ast.Call) -> bool:
    """Whether the call has the name of a step of training, whatever it belongs to."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in _TRAINING


def _flag(function: FunctionNode) -> str | None:
    """The parameter that says whether the function trains, if there is one."""
    arguments = function.args
    return next((each.arg for each in (*arguments.args, *arguments.kwonlyargs) if each.arg in _FLAGS), None)


def _index(suite: Sequence[ast.stmt], statement: ast.stmt) -> int:
    return next(i for i, each in enumerate(suite) if each is statement)
