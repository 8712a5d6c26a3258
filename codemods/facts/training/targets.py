"""Statements of training that run models which nobody trains: teachers, target networks, features of a target image.

Their graphs may reach the backward. All that comes of it is gradients of parameters that no optimizer steps.
"""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.recursion import closure
from codemods.dataflow.signatures import arguments_of, signature
from codemods.dataflow.values import Container, Instance, Made, Method, Unknown, without_none
from codemods.facts.loops import REPEATING, loop_around, module_of
from codemods.facts.models.layers import Model
from codemods.facts.models.only_run import made_by_function
from codemods.facts.reason import HERE, Reason
from codemods.facts.training.evaluation_region import EvaluationRegion
from codemods.facts.training.graphless import is_without_parameters, may_be_frozen
from codemods.facts.training.iterations import EventKind, called_functions, own
from codemods.facts.training.modes import is_frameworks, is_models_method, is_unit_test
from codemods.facts.training.seen_tensors import SeenTensors, aliases_of, changed_by, names_read, nodes_in, root_of
from codemods.facts.training.stretches import ONCE
from codemods.facts.training.unstepped import Unstepped
from codemods.library.kinds import Kind, kind, may

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Value
    from codemods.facts.autograd.graphs import Graphs
    from codemods.facts.training.graph_obstacles import GraphObstacles
    from codemods.facts.training.graph_uses import GraphUses

_SIMPLE = (ast.Assign, ast.AnnAssign, ast.Expr, ast.Return)


class Targets:
    """Finds the statements of training that run models which nobody trains, and nothing else with a graph.

    Args:
        flow: The values of the project.
        uses: Where their graphs go.
        obstacles: What keeps code from doing without gradients.
    """

    def __init__(self, flow: Flow, uses: GraphUses, obstacles: GraphObstacles) -> None:
        self._flow = flow
        self._uses = uses
        self._obstacles = obstacles
        self._unstepped = Unstepped(flow, uses)
        self._known_bare: dict[Callee | None, frozenset[str]] = {}
        self._known_written: dict[Callee | None, frozenset[str]] = {}
        self._seen = SeenTensors(flow, uses, obstacles)

    def find(self, module: Module, taken: set[ast.AST]) -> Iterator[EvaluationRegion]:
        """The statements of a module, neighbours together, without those that are taken already."""
        by_scope: dict[Callee | None, dict[ast.stmt, list[ast.Call]]] = {}
        yield from self._made_alike(module, taken)
        for call in module.nodes(ast.Call):
            if self._is_idle(call) and self._is_site(module, call):
                statement = module.statement(call)
                if taken.isdisjoint((statement, *module.ancestors(statement))):
                    by_scope.setdefault(module.function(call), {}).setdefault(statement, []).append(call)
        for scope, found in by_scope.items():
            open_ = self._open(module, scope, found)
            run: list[ast.stmt] = []
            for statement in sorted(open_, key=lambda each: each.lineno):
                why_not = self._why_not(module, statement, open_[statement])
                if why_not is not None:
                    yield self._region(module, [statement], open_[statement], why_not)
                    continue
                if run and not _is_next(module, run[-1], statement):
                    yield self._region(module, run, [each for one in run for each in open_[one]], None)
                    run = []
                run.append(statement)
            if run:
                yield self._region(module, run, [each for one in run for each in open_[one]], None)

    def _region(
        self, module: Module, run: Sequence[ast.stmt], calls: Sequence[ast.Call], why_not: Reason | None
    ) -> EvaluationRegion:
        kept = self._obstacles.kept_inside
        return EvaluationRegion(self._flow, module, None, tuple(run), tuple(calls), kept, why_not, is_target=True)

    def _made_alike(self, module: Module, taken: set[ast.AST]) -> Iterator[EvaluationRegion]:
        """The calls of models that a function makes which also makes what optimizers step; each is left."""
        for call in module.nodes(ast.Call):
            if not self._uses.modes.calls(call) or self._is_idle(call) or not self._unstepped.may_run_stepped(call):
                continue
            made = made_by_function(self._flow, module, call.func)
            statement = module.statement(call)
            if made is None or self._is_layer(call.func) or not self._is_site(module, call):
                continue
            if taken.isdisjoint((statement, *module.ancestors(statement))):
                text = (
                    f"an optimizer steps what the function makes that makes the model ({HERE}), which may be this one:"
                )
                remedy = "put torch.no_grad() around it where nothing trains it"
                reason = Reason("unknown-model", text, (self._obstacles.place(statement, made),), remedy)
                yield self._region(module, [statement], [call], reason)

    def _is_layer(self, called: ast.expr) -> bool:
        """Whether it may be a part of another model, which is stepped as that is: ``self.layer`` in a model."""
        return isinstance(called, ast.Attribute) and may(self._flow, self._flow.values(called.value), Kind.MODEL)

    # Which calls are meant.

    def _is_idle(self, call: ast.Call) -> bool:
        """Whether the call runs models, and none that an optimizer steps."""
        return self._uses.modes.calls(call) and self._unstepped.is_idle(call)

    def _is_site(self, module: Module, call: ast.Call) -> bool:
        """Whether it computes a graph in training."""
        function = module.function(call)
        if isinstance(function, (ast.Lambda, ast.AsyncFunctionDef)) or not self._trains(module, function, call):
            return False
        if function is not None and (is_unit_test(module, function) or is_frameworks(self._flow, function)):
            return False
        owners = [*map(_owner, without_none(self._flow.values(call.func)))]
        if any(each is not None and self._unstepped.is_differentiated_alone(each) for each in owners):
            return False
        if all(each is not None and self._makes_none(each) for each in owners):
            return False
        return not self._uses.modes.without_gradients(module, call)

    def _makes_none(self, model: Value) -> bool:
        return is_without_parameters(self._flow, model) or may_be_frozen(self._flow, model)

    def _trains(self, module: Module, function: Callee | None, call: ast.Call) -> bool:
        """Whether it is called in training iterations: by their own code, or that of functions or models they run."""
        owners, frames = self._iterated
        return function in frames or function in self._run_by_models or not owners.isdisjoint(module.ancestors(call))

    @cached_property
    def _iterated(self) -> tuple[frozenset[ast.AST], frozenset[Callee]]:
        """The loops of training iterations, and the functions that these run."""
        found = self._uses.iterations.all
        frames = {event.frame for each in found for event in each.events if event.frame is not None}
        owners = {each.owner for each in found if not isinstance(each.owner, ast.Module)}
        return frozenset(owners), frozenset(frames)

    @cached_property
    def _run_by_models(self) -> frozenset[Callee]:
        """The functions that models run which training iterations call."""
        forwards: set[Callee] = {
            forward
            for iteration in self._uses.iterations.all
            for event in iteration.of(EventKind.FORWARD)
            for subject in event.subjects
            if kind(self._flow, subject) is Kind.MODEL
            for forward in Model(self._flow, subject).forwards
        }
        return frozenset(closure(forwards, self._calls_in))

    def _calls_in(self, function: Callee) -> list[Callee]:
        return [each for call in own(function, ast.Call) for each in called_functions(self._flow, call)]

    @cached_property
    def _trained(self) -> Graphs:
        return self._uses.trained(self._is_idle)

    @cached_property
    def _perhaps_trained(self) -> Graphs:
        return self._uses.perhaps_trained(self._is_idle)

    def _open(
        self, module: Module, scope: Callee | None, found: dict[ast.stmt, list[ast.Call]]
    ) -> dict[ast.stmt, list[ast.Call]]:
        """Those statements whose models are not surely given what others compute, as a loss of images is."""
        body = module.tree.body if scope is None else scope.body
        if isinstance(body, ast.expr):
            return {}
        asked = {each: [one for call in calls for one in arguments_of(call)] for each, calls in found.items()}
        given = self._trained.needing(module, body, asked)
        left = {each: calls for each, calls in found.items() if given.isdisjoint(asked[each])}
        if scope is None or not is_models_method(self._flow, scope):
            return left
        # In a model it may be any layer: those that are given plain tensors while the model is given others as well.
        perhaps = self._needing(module, scope, asked)
        if not self._is_given_graphs(module, scope, body):
            return {}
        return {each: calls for each, calls in left.items() if perhaps.isdisjoint(asked[each])}

    def _is_given_graphs(self, module: Module, method: Callee, body: Sequence[ast.stmt]) -> bool:
        """Whether a model's method is of a model that is trained, or given what a trained one has computed."""
        if not all(map(self._unstepped.is_one, self._made(method))):
            return True
        reads = [
            each
            for statement in body
            for each in own(statement, ast.Name)
            if each.id in signature(method).names and isinstance(each.ctx, ast.Load)
        ]
        asked: dict[ast.stmt, list[ast.expr]] = {}
        for each in reads:
            asked.setdefault(module.statement(each), []).append(each)
        return bool(self._needing(module, method, asked))

    def _made(self, method: Callee) -> set[Value]:
        """The objects that the project makes of the class of a method, or of one that derives from it."""
        class_ = self._flow.owner(method)
        family = self._flow.family(class_) if class_ is not None else ()
        return {
            each
            for where in self._flow.modules
            for call in where.nodes(ast.Call)
            for each in self._flow.values(call)
            if isinstance(each, Instance) and each.site is call and each.of.site in family
        }

    def _needing(
        self, module: Module, scope: Callee | None, asked: Mapping[ast.stmt, Sequence[ast.expr]]
    ) -> frozenset[ast.expr]:
        """Those of some expressions that may carry a graph to what is trained."""
        body = module.tree.body if scope is None else scope.body
        if isinstance(body, ast.expr):
            return frozenset(one for several in asked.values() for one in several)
        several = [one for each in asked.values() for one in each]
        unseen = {one for one in several if self._is_kept_unseen(module, one)}
        written = self._written(module, scope)
        unseen |= {one for one in several if not written.isdisjoint(names_read(one))}
        return self._perhaps_trained.needing(module, body, asked, self._bare(scope)) | unseen

    def _written(self, module: Module, scope: Callee | None) -> frozenset[str]:
        """The names into whose tensor, or one that shares its memory, something with a graph may be written."""
        if scope not in self._known_written:
            code = module.tree if scope is None else scope
            roots = frozenset(self._written_by_name(module, scope))
            sharing = {name for name in names_read(code) if not roots.isdisjoint(aliases_of(code, frozenset({name})))}
            self._known_written[scope] = aliases_of(code, roots) | sharing if roots else roots
        return self._known_written[scope]

    def _written_by_name(self, module: Module, scope: Callee | None) -> Iterator[str]:
        """The names by which something with a graph may be written into a tensor: ``x[:4] = y``, ``x.add_(y)``."""
        body = module.tree.body if scope is None else scope.body
        if isinstance(body, ast.expr):
            return
        for node, hidden in nodes_in(module.tree if scope is None else scope):
            changed = changed_by(node)
            name = "" if changed is None else root_of(changed)
            if name and name not in hidden and module.function(node) is scope:
                statement = module.statement(node)
                given = arguments_of(node) if isinstance(node, ast.Call) else [getattr(statement, "value", None)]
                known = [each for each in given if each is not None]
                if len(known) < len(given) or self._perhaps_trained.needing(module, body, {statement: known}):
                    yield name
            elif isinstance(node, ast.Call) and module.function(node) is scope:
                yield from (root_of(each) for each in arguments_of(node) if root_of(each) and self._writes(node))

    def _writes(self, call: ast.Call) -> bool:
        """Whether a function of the project that is called may write into what it is given."""
        return any(
            root_of(changed) in signature(each).names
            for each in called_functions(self._flow, call)
            for node, _ in nodes_in(each)
            if (changed := changed_by(node)) is not None
        )

    def _is_kept_unseen(self, module: Module, node: ast.expr) -> bool:
        """Whether an attribute of an object is read in it of which it is not known what others keep there."""
        for each in own(node, ast.Attribute):
            above = module.parent(each)
            is_called = isinstance(above, ast.Call) and above.func is each
            owners = self._flow.values(each.value)
            if is_called or not any(isinstance(owner, Instance) for owner in owners):
                continue
            values = self._flow.values(each)
            inside = [*closure(values, lambda one: self._flow.items(one) if isinstance(one, Container) else ())]
            if not inside or any(isinstance(one, Unknown) or _is_unseen(one) for one in inside):
                return True
        return False

    def _bare(self, function: Callee | None) -> frozenset[str]:
        """The parameters for which every caller gives what carries no graph."""
        if function not in self._known_bare:
            self._known_bare[function] = frozenset()  # of one that is being looked at
            self._known_bare[function] = self._given_bare(function)
        return self._known_bare[function]

    def _given_bare(self, function: Callee | None) -> frozenset[str]:
        calls = self._flow.callers(function) if function is not None else ()
        if function is None or not calls or self._flow.escapes(function) or self._is_run_by_others(function):
            return frozenset()
        found = frozenset(signature(function).names)
        for call in calls:
            binding, module = self._flow.bind(function, call), module_of(self._flow, call)
            given = {name: list(binding.candidates(name)) for name in found}
            asked = {module.statement(call): [each for several in given.values() for each in several]}
            needing = self._needing(module, module.function(call), asked)
            is_certain = binding.is_whole and not isinstance(module.function(call), ast.Lambda)
            found = frozenset(
                name for name, several in given.items() if is_certain and several and needing.isdisjoint(several)
            )
        return found

    def _is_run_by_others(self, method: Callee) -> bool:
        """Whether a model that holds its own may run the method, as ``nn.DataParallel``: then more calls it."""
        if not is_models_method(self._flow, method):
            return False
        made = self._made(method)
        return any(
            isinstance(each, Made) and not made.isdisjoint(Model(self._flow, each).layers)
            for module in self._flow.modules
            for call in module.nodes(ast.Call)
            for each in self._flow.values(call)
            if each.site is call and kind(self._flow, each) is Kind.MODEL
        )

    # What keeps a statement from doing without gradients.

    def _why_not(self, module: Module, statement: ast.stmt, calls: Sequence[ast.Call]) -> Reason | None:
        seen = next(filter(None, map(self._unstepped.why_call_seen, calls)), None)
        if seen is not None:
            return seen
        if self._runs_once(module, statement):
            return ONCE
        return (
            self._why_given_graphs(module, statement, calls)
            or self._why_not_alone(module, statement)
            or self._obstacles.of_statement(statement)
            or self._obstacles.of_state(statement)
            or self._why_compiled(module, statement)
            or self._seen.why_seen(module, statement, calls)
        )

    def _runs_once(self, module: Module, statement: ast.stmt) -> bool:
        """Whether no loop is seen around it, and no function that code elsewhere may call as often as it likes."""
        function = module.function(statement)
        leading = closure([function] if function is not None else [], self._callers)
        is_offered = any(not self._flow.callers(each) for each in leading)
        return not is_offered and loop_around(self._flow, module, statement, REPEATING) is None

    def _callers(self, function: Callee) -> list[Callee]:
        calls = self._flow.callers(function)
        above = (module_of(self._flow, each).function(each) for each in calls)
        return [each for each in above if each is not None]

    def _why_given_graphs(self, module: Module, statement: ast.stmt, calls: Sequence[ast.Call]) -> Reason | None:
        given = [one for call in calls for one in arguments_of(call)]
        needing = self._needing(module, module.function(statement), {statement: given})
        asking = self._asking_for_gradients(module, statement)
        if not needing and asking is None:
            return None
        place = self._obstacles.place(statement, asking if asking is not None else statement)
        if asking is not None:
            text = f"no optimizer steps the model, but what it is given may ask for gradients ({HERE})"
        else:
            text = f"no optimizer steps the model, but what it is given may have been computed by one ({HERE}):"
        remedy = "" if asking is not None else "put torch.no_grad() around it where it was not"
        return Reason("needs-gradients", text, (place,), remedy)

    def _asking_for_gradients(self, module: Module, statement: ast.stmt) -> ast.AST | None:
        """Where a tensor may be told to have gradients that the model is given: ``x.requires_grad_()``."""
        scope = module.function(statement)
        for where in self._flow.modules:
            for node in where.nodes(ast.Attribute):
                if node.attr not in {"requires_grad", "requires_grad_"} or _only_reads(where, node):
                    continue
                function = where.function(node)
                values = self._flow.values(node.value)
                owners = [*map(_owner_of_parameter, values)]
                if values and all(each is not None and kind(self._flow, each) is Kind.MODEL for each in owners):
                    continue
                parameters = signature(function).names if function is not None else ()
                is_given = isinstance(node.value, ast.Name) and node.value.id in parameters
                if function is scope or is_given or not isinstance(node.value, (ast.Name, ast.BinOp)):
                    return node
        return None

    def _why_not_alone(self, module: Module, statement: ast.stmt) -> Reason | None:
        """Why the statement cannot be put under ``torch.no_grad()`` as it is."""
        remedy = "compute it in a statement of its own, under torch.no_grad()"
        value = getattr(statement, "value", None)
        if not isinstance(statement, _SIMPLE) or value is None:
            text = "no optimizer steps the model that it calls, but it is no statement of its own:"
            return Reason("not-editable", text, remedy=remedy)
        if self._needing(module, module.function(statement), {statement: [value]}):
            text = "no optimizer steps the model that it calls, but it computes what is trained on, too:"
            return Reason("not-editable", text, remedy=remedy)
        return None

    def _why_compiled(self, module: Module, statement: ast.stmt) -> Reason | None:
        function = module.function(statement)
        if function is not None and is_models_method(self._flow, function) and self._uses.makes_torchscript:
            return Reason("not-editable", "the model may be compiled to TorchScript, which knows few `with` blocks")
        return None


def _is_unseen(value: Value) -> bool:
    """Whether it is an attribute of an object that nothing is seen to write."""
    return isinstance(value, Method) and value.site is None and isinstance(value.of, Instance)


def _owner(value: Value) -> Value | None:
    """The model that is called, itself or by a method."""
    return value.of if isinstance(value, Method) else value


def _owner_of_parameter(value: Value) -> Value | None:
    return value.of if value.name == "torch.nn.Parameter" and hasattr(value, "of") else value


def _only_reads(module: Module, node: ast.Attribute) -> bool:
    """``p.requires_grad``, ``p.requires_grad = False``, ``net.requires_grad_(False)``."""
    above = module.parent(node)
    if node.attr == "requires_grad" and isinstance(node.ctx, ast.Load):
        return True
    match above:
        case ast.Assign(_, ast.Constant(False)) | ast.Call(_, [ast.Constant(False)]):
            return True
    return False


def _is_next(module: Module, one: ast.stmt, other: ast.stmt) -> bool:
    """Whether the second statement follows the first one directly."""
    suite = module.suite(one)
    at = next(index for index, each in enumerate(suite) if each is one)
    return at + 1 < len(suite) and suite[at + 1] is other
