"""Neighbouring statements that only evaluate, within code that trains."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from functools import partial
from operator import is_
from typing import TYPE_CHECKING

from codemods.dataflow.recursion import closure
from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import FUNCTIONS, unparsed, walk
from codemods.dataflow.values import HostTensor, Method, MovedTensor, Tensor
from codemods.facts.autograd.uses import called_forwards, needs_gradients
from codemods.facts.loops import REPEATING, loop_around, module_of
from codemods.facts.reason import HERE, Reason
from codemods.facts.training.chosen_training import branch_of, conditions, is_known_at, passes_over
from codemods.facts.training.evaluation_region import EvaluationRegion
from codemods.facts.training.graphless import may_be_frozen
from codemods.facts.training.iterations import called_functions, own
from codemods.facts.training.modes import functions_of, is_models_method, is_no_evaluation, is_unit_test
from codemods.facts.training.volatile import is_volatile
from codemods.library.kinds import MODULE_METHODS, computes_loss

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, FunctionNode, Module
    from codemods.dataflow.values import Values
    from codemods.facts.training.chosen_training import Scope
    from codemods.facts.training.graph_obstacles import GraphObstacles
    from codemods.facts.training.graph_uses import GraphUses

_NOT_WRAPPED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
ONCE = Reason("nothing-to-gain", "it computes a graph that nobody asks for, but only once")
_SHAPES = Reason("nothing-to-gain", "it only tries a model out: nothing but shapes is asked of what it computes")
_BESIDE = Reason(
    "not-editable",
    "a model computes a graph that nobody asks for, but the statement computes what is trained on, too:",
    remedy="compute it in a statement of its own, under torch.no_grad()",
)
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)
_FORWARD = "forward"
_GAP = 3
"""Regions of one suite are one region where no more statements than these stand between them."""
_TEST_DATA = re.compile(
    r"(^|_)(test|testing|valid|validation|val|eval|evaluation|dev)(_|\d|$|(data|set|load|iter|gen|dl))", re.IGNORECASE
)
_TRAINING = frozenset({"backward", "manual_backward", "step", "zero_grad"})


class Stretches:
    """Finds the stretches of statements in a module's code that compute graphs which nobody asks for.

    Args:
        flow: The values of the project.
        uses: Where their graphs go.
        obstacles: What keeps code from doing without gradients.
        computes: Whether a call computes a graph where gradients are on, and will do so after the changes.
    """

    def __init__(
        self,
        flow: Flow,
        uses: GraphUses,
        obstacles: GraphObstacles,
        computes: Callable[[ast.Call], bool],
    ) -> None:
        self._flow = flow
        self._modes = uses.modes
        self._uses = uses
        self._iterations = uses.iterations
        self._obstacles = obstacles
        self._computes = computes

    def find(self, module: Module, whole: set[Callee]) -> Iterator[EvaluationRegion]:
        """The stretches of a module, without those in functions that evaluate as a whole.

        A stretch that has to be left gives way to a part of it that need not be.
        """
        done: set[ast.stmt] = set()
        seekers = (self._flagged, self._inlined, self._volatile, self._looped, self._unused)
        found = [each for seek in seekers for each in seek(module, whole)]
        for region in sorted(found, key=lambda each: each.why_not is not None):
            nodes = (each for statement in region.statements for each in walk(statement))
            if done.isdisjoint((*nodes, *module.ancestors(region.statements[0]))):
                done.update(region.statements)
                yield region

    def _is_open(self, module: Module, call: ast.Call) -> bool:
        return self._computes(call) and not self._modes.without_gradients(module, call)

    def _is_repeated(self, module: Module, call: ast.Call) -> bool:
        """Whether models compute again and again there: in a loop, or in the loop of a function that is called."""
        if loop_around(self._flow, module, call, REPEATING) is not None or self._is_offered(module, call):
            return True
        return any(self._computes_in_loop(each) for each in self._flow.called(call))

    def _is_offered(self, module: Module, call: ast.Call) -> bool:
        """Whether a method leads there that code elsewhere calls, as often as it likes: ``agent.update(batch)``."""
        function = module.function(call)
        leading = closure([function] if function is not None else [], self._callers)
        return any(
            not self._flow.callers(each) and self._flow.owner(each) is not None and each.name != "__init__"
            for each in leading
            if isinstance(each, ast.FunctionDef)
        )

    def _callers(self, function: Callee) -> list[Callee]:
        """The functions that call it."""
        calls = self._flow.callers(function)
        found = (module_of(self._flow, each).function(each) for each in calls)
        return [each for each in found if each is not None]

    def _computes_in_loop(self, function: Callee) -> bool:
        """Whether a loop of the function calls a model of the project; that of a ``forward`` calls its parts."""
        if isinstance(function, ast.Lambda) or function.name in MODULE_METHODS:
            return False
        loops = [loop for kind in REPEATING for loop in own(function, kind)]
        calls = (call for loop in loops for call in own(loop, ast.Call) if self._computes(call))
        return any(getattr(each, "name", "") == _FORWARD for call in calls for each in self._flow.called(call))

    def _is_no_place(self, module: Module, function: Callee) -> bool:
        # A model's methods serve its training, but one that trains it or adapts it stands where other code does.
        trains_itself = is_models_method(self._flow, function) and (
            function in self._iterations.training_functions or self._adapts(function)
        )
        return is_no_evaluation(self._flow, module, function) and not trains_itself

    def _detaches(self, module: Module, function: Callee) -> bool:
        """Whether it is a model's method that detaches something: what a network in it computes may be a target."""
        is_models = is_models_method(self._flow, function) and not is_unit_test(module, function)
        return is_models and any(each.attr == "detach" for each in own(function, ast.Attribute))

    def _trains_inside(self, call: ast.Call) -> bool:
        """Whether the model that is called trains in its own ``forward``, whatever becomes of what that returns."""
        forwards = called_forwards(self._flow, call)
        return any(each in self._iterations.training_functions or self._adapts(each) for each in forwards)

    def _adapts(self, function: Callee) -> bool:
        """Whether the function itself differentiates, as one does that learns a task from a few examples."""
        return any(
            each.name == "torch.autograd.grad"
            for call in own(function, ast.Call)
            for each in self._flow.values(call.func)
        )

    # Regions after ``model.eval()``.

    def _inlined(self, module: Module, whole: set[Callee]) -> Iterator[EvaluationRegion]:
        for statement, call in self._switches(module):
            function = module.function(statement)
            if function in whole or (function is not None and self._is_no_place(module, function)):
                continue
            for statements in self._evaluated(module, statement, call):
                yield from self._regions(module, statements, self._modes.receivers(call))
            yield from self._chosen(module, statement, call)
            yield from self._spared(module, statement, call)
        for call in module.nodes(ast.Call):
            if isinstance(module.parent(call), ast.Expr) and self._modes.sets(call, None):
                yield from self._mixed(module, module.statement(call), ast.unparse(arguments_of(call)[0]))

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
                why_not = self._obstacles.of_statements(module, inside)
                if why_not is None and not any(self._is_repeated(module, each) for each in calls):
                    why_not = ONCE
                yield EvaluationRegion(self._flow, module, None, inside, calls, self._obstacles.kept_inside, why_not)

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
            # What is computed from graphs of elsewhere too, and not from these, may be trained on.
            before, names = names, self._uses.outside.statements(module, [statement], names).names
            bound = {each.id for each in own(statement, ast.Name) if isinstance(each.ctx, ast.Store)}
            reads = {each.id for each in own(statement, ast.Name) if isinstance(each.ctx, ast.Load)} & before
            is_loss = any(computes_loss(self._flow, each) for each in own(statement, ast.Call))
            if not reads or not (bound & names or is_loss):
                break
            found.append(statement)
        return tuple(found)

    def _models_of(self, call: ast.Call) -> Values:
        values = self._flow.values(call.func)
        return values | {each.of for each in values if isinstance(each, Method) and each.of is not None}

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

    def _spared(self, module: Module, statement: ast.stmt, call: ast.Call) -> Iterator[EvaluationRegion]:
        """The calls behind ``model.eval()`` of what would train, but for a constant that it is given there."""
        models = self._modes.receivers(call)
        suite = module.suite(statement)
        for each in suite[_index(suite, statement) + 1 :]:
            calls = [inner for inner in self._training(each) if self._iterations.why_trains(inner) is inner]
            functions = [self._passed_over(inner) for inner in calls]
            if self._back_to_training(each, models) or None in functions:
                return
            for inner, function in zip(calls, functions, strict=True):
                is_open = function is not None and not self._modes.without_gradients(module, inner)
                if function is not None and is_open and self._computes_alike(function):
                    why_not = self._why_spared(each, inner, function)
                    yield EvaluationRegion(self._flow, module, None, (each,), (inner,), (), why_not)

    def _passed_over(self, call: ast.Call) -> FunctionNode | None:
        """The only function that a call runs, where what it gives it keeps it from training; else None."""
        functions = called_functions(self._flow, call)
        function = functions[0] if len(functions) == 1 and len(self._flow.values(call.func)) == 1 else None
        if function is None or isinstance(function, ast.Lambda):
            return None
        training = self._training(function)
        is_spared = bool(training) and all(passes_over(self._flow, call, function, each) for each in training)
        return function if is_spared else None

    def _computes_alike(self, function: FunctionNode) -> bool:
        """Whether models compute the same graph in a function that trains or not, and no stretch of it is found."""
        module = self._flow.module_of(function)
        scopes: list[Scope] = [function, *own(function, ast.For)]
        is_found = any(
            True
            for scope in scopes
            for test in conditions(self._flow, scope)
            for _ in self._before_training(module, scope, test)
        )
        return not is_found and any(self._is_open(module, each) for each in own(function, ast.Call))

    def _why_spared(self, home: ast.stmt, call: ast.Call, function: FunctionNode) -> Reason:
        """Why a call that passes over the training of its function keeps its gradients."""
        nodes: list[ast.AST] = [*own(function, ast.Call), *own(function, ast.Attribute)]
        needing = (each for each in nodes if needs_gradients(self._flow, each) is not None)
        needs = next((each for each in needing if not passes_over(self._flow, call, function, each)), None)
        if needs is not None:
            return self._obstacles.needs(home, needs)
        used = self._used_after(self._flow.module_of(function), function)
        if used is not None:
            return self._obstacles.trained_later(home, used)
        text = f"what it calls also trains ({HERE}), but not as it is called here"
        place = self._obstacles.place(home, self._training(function)[0])
        return Reason("also-trains", text, (place,), "put torch.no_grad() around the call")

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
                is_served = all(branch_of(module, call, test, each) for call in self._training(each))
                why_not = Reason(
                    "also-trains",
                    f"it also trains ({HERE}){':' if is_served else ''}",
                    (self._obstacles.place(each, trains),),
                    remedy if is_served else "",
                )
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
        values = (value for each in arguments_of(call) for value in self._flow.values(each))
        return self._modes.calls(call) and any(isinstance(value, Tensor) and value.of is not None for value in values)

    # Functions that train where a parameter says so.

    def _flagged(self, module: Module, whole: set[Callee]) -> Iterator[EvaluationRegion]:
        """What ``def run(loader, train=True)``, or ``for phase in phases:``, computes before ``if train:`` trains."""
        scopes: list[Scope] = [*functions_of(self._flow, module), *module.nodes(ast.For)]
        for scope in scopes:
            function = scope if isinstance(scope, FUNCTIONS) else module.function(scope)
            if function in whole or (function is not None and self._is_no_place(module, function)):
                continue
            for test in conditions(self._flow, scope):
                yield from self._before_training(module, scope, test)

    def _before_training(self, module: Module, scope: Scope, test: ast.expr) -> Iterator[EvaluationRegion]:
        """The stretch that computes what is differentiated under a condition alone, and used for nothing else."""
        branches = [branch_of(module, call, unparsed(test), scope) for call in self._training(scope)]
        found = [each for each in branches if each is not None]
        if not found or len(found) < len(branches):
            return
        suite = module.suite(found[0])
        if not all(module.suite(each) is suite for each in found):
            return
        before = suite[: min(_index(suite, each) for each in found)]
        computing = [
            at for at, each in enumerate(before) if any(self._is_open(module, call) for call in own(each, ast.Call))
        ]
        if not computing:
            return
        run = self._with_losses(module, before[computing[0] : computing[-1] + 1], before[computing[-1] + 1 :])
        if not is_known_at(scope, test, run[0]):
            return
        calls = tuple(call for each in run for call in own(each, ast.Call) if self._computes(call))
        used = self._used_after(module, scope)
        reasons = (
            None if used is None else self._obstacles.trained_later(run[0], used),
            *map(self._obstacles.of_statement, run),
            self._obstacles.mixed_autocast(module, run[0], run[0]),
            *map(self._obstacles.of_state, run),
            self._why_needed_elsewhere(module, scope, unparsed(test), run[0]),
        )
        why_not = next(filter(None, reasons), None)
        flag = module.code(test)
        yield EvaluationRegion(self._flow, module, None, run, calls, self._obstacles.kept_inside, why_not, flag)

    def _why_needed_elsewhere(self, module: Module, scope: Scope, test: str, home: ast.stmt) -> Reason | None:
        """Why gradients have to be on where the condition is false, too: something asks for them there."""
        for kind in (ast.Call, ast.Attribute):
            for node in own(scope, kind):
                needs = None if branch_of(module, node, test, scope) else needs_gradients(self._flow, node)
                if needs is not None:
                    return self._obstacles.needs(home, needs)
        return None

    def _training(self, scope: ast.AST) -> list[ast.Call]:
        """The calls in some code that train, themselves or by a function that they run."""
        return [call for call in own(scope, ast.Call) if self._iterations.why_trains(call) is not None]

    def _used_after(self, module: Module, scope: Scope) -> ast.AST | None:
        """Where what the scope computes leaves it, and may be trained on elsewhere."""
        if not isinstance(scope, ast.For):
            course = self._uses.strict.function(scope)
            return course.kept or course.returned
        course = self._uses.strict.statements(module, scope.body)
        used = course.kept or course.returned
        return used or self._uses.used_after(self._uses.strictly_outside, module, scope.body[-1], course)

    # What nobody asks the gradients of, anywhere.

    def _unused(self, module: Module, whole: set[Callee]) -> Iterator[EvaluationRegion]:
        """The stretches of statements that compute a graph of which nothing comes, in training too."""
        unused: dict[ast.stmt, list[ast.Call]] = {}
        used: set[ast.stmt] = set()
        for call in module.nodes(ast.Call):
            function = module.function(call)
            if function in whole or isinstance(function, ast.Lambda) or not self._is_open(module, call):
                continue
            if function is not None and self._is_no_place(module, function) and not self._detaches(module, function):
                continue
            statement = module.statement(call)
            if self._iterations.why_trains(statement) is not None:
                continue
            if not self._trains_inside(call) and self._uses.is_unused(module, call):
                unused.setdefault(statement, []).append(call)
            else:
                used.update((statement, *(each for each in module.ancestors(statement) if isinstance(each, ast.stmt))))
        done: set[ast.stmt] = set()
        for statement, calls in unused.items():
            if statement in done:
                continue
            if statement not in used:
                run = self._neighbours(module, statement, unused.keys() - used)
                done.update(run)
                yield from self._often(module, run)
            elif isinstance(statement, _SIMPLE):
                yield from self._beside(module, statement, calls)

    def _beside(self, module: Module, statement: ast.stmt, calls: Sequence[ast.Call]) -> Iterator[EvaluationRegion]:
        """The calls whose graph is cut off again and again, in a statement that computes what is trained on, too."""
        often = tuple(each for each in calls if self._is_repeated(module, each) and not self._is_frozen(each))
        if often:
            yield EvaluationRegion(self._flow, module, None, (statement,), often, (), _BESIDE)

    def _is_frozen(self, call: ast.Call) -> bool:
        """Whether a model that the call runs may have no parameter that asks for gradients, as one of features."""
        return any(may_be_frozen(self._flow, each) for each in self._models_of(call))

    def _often(self, module: Module, run: list[ast.stmt]) -> Iterator[EvaluationRegion]:
        """The stretch, which is left where it runs once; none where it only tries out a model then."""
        calls = tuple(call for each in run for call in own(each, ast.Call) if self._computes(call))
        repeats = any(self._is_repeated(module, each) for each in calls)
        if repeats and _asks_shapes(module, run):
            yield EvaluationRegion(self._flow, module, None, tuple(run), calls, (), _SHAPES)
        elif repeats:
            suite = module.suite(run[0])
            longer = self._with_losses(module, run, suite[_index(suite, run[-1]) + 1 :])
            around = self._why_not_called_so(module, run[0])
            for region in self._stretch(module, run if self._spoils(module, run, longer) else longer, strict=True):
                yield region if region.why_not is not None else replace(region, why_not=around)
        elif not all(self._is_given_made(each) for each in calls):
            yield EvaluationRegion(self._flow, module, None, tuple(run), calls, (), ONCE)

    def _why_not_called_so(self, module: Module, home: ast.stmt) -> Reason | None:
        """Why the function around a statement keeps its gradients, for how it is called or compiled."""
        function = module.function(home)
        if function is None:
            return None
        if is_models_method(self._flow, function) and self._uses.makes_torchscript:
            return Reason("not-editable", "the model may be compiled to TorchScript, which knows few `with` blocks")
        for each in closure([function], self._callers):
            for call in self._flow.callers(each):
                mixed = self._obstacles.mixed_autocast(module_of(self._flow, call), call, home)
                if mixed is not None:
                    return mixed
        return None

    def _is_given_made(self, call: ast.Call) -> bool:
        """Whether the call is given nothing but tensors that are made for it: ``model(torch.randn(2, 3, 32, 32))``."""
        given = arguments_of(call)
        inputs = [value for each in given for value in self._flow.values(each)]
        is_plain = all(isinstance(each, (ast.Name, ast.Call)) for each in given)
        return is_plain and all(isinstance(each, (HostTensor, MovedTensor)) and each.of is None for each in inputs)

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
                if self._spoils(module, suite[start : last + 1], suite[start : index + 1]):
                    break
                last = index
            elif any(self._is_open(module, each) for each in own(suite[index], ast.Call)):
                break
        return suite[start : last + 1]

    def _spoils(self, module: Module, run: Sequence[ast.stmt], longer: Sequence[ast.stmt]) -> bool:
        """Whether a run can do without gradients, but not with what else the longer one binds: a loss of two graphs."""
        alone, together = (self._obstacles.of_statements(module, tuple(each), strict=True) for each in (run, longer))
        return alone is None and together is not None

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

    def _stretch(
        self, module: Module, statements: Sequence[ast.stmt], *, strict: bool = False
    ) -> Iterator[EvaluationRegion]:
        inside = tuple(statements)
        calls = tuple(call for each in inside for call in own(each, ast.Call) if self._computes(call))
        if calls and not any(self._modes.without_gradients(module, call) for call in calls):
            why_not = self._obstacles.of_statements(module, inside, strict=strict)
            yield EvaluationRegion(self._flow, module, None, inside, calls, self._obstacles.kept_inside, why_not)

    def _back_to_training(self, statement: ast.stmt, models: Values) -> bool:
        """Whether the statement is ``model.train()`` of one of the models."""
        value = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
        return (
            isinstance(value, ast.Call)
            and self._modes.sets(value, "train")
            and bool(self._modes.receivers(value) & models)
        )


def _asks_shapes(module: Module, run: Sequence[ast.stmt]) -> bool:
    """Whether nothing but the shapes of what the statements bind is read behind them, once at least."""
    inside = {each for statement in run for each in walk(statement)}
    bound = {each.id for each in inside if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    last = run[-1].end_lineno or run[-1].lineno
    reads = [
        each
        for each in module.nodes(ast.Name)
        if each.id in bound and isinstance(each.ctx, ast.Load) and (each.lineno > last or each in inside)
    ]
    shapes = [each for each in reads if _is_shape(module.parent(each))]
    return bool(shapes) and all(each in inside or each in shapes for each in reads)


def _is_shape(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in {"shape", "size", "ndim", "dim"}


def _names(node: ast.expr) -> Iterator[ast.Name | ast.Attribute]:
    return (each for each in own(node, ast.expr) if isinstance(each, (ast.Name, ast.Attribute)))


def _serves_training(call: ast.Call) -> bool:
    """Whether the call has the name of a step of training, whatever it belongs to."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in _TRAINING


def _index(suite: Sequence[ast.stmt], statement: ast.stmt) -> int:
    return next(i for i, each in enumerate(suite) if each is statement)
