"""The code that only evaluates, and whether it can do without gradients."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.values import HostTensor
from codemods.facts.autograd.uses import needs_gradients
from codemods.facts.loops import REPEATING, loop_around, module_of
from codemods.facts.models.padded_encoders import why_padding_filled
from codemods.facts.reach import Reach
from codemods.facts.reason import Reason
from codemods.facts.training.acting import Acting
from codemods.facts.training.evaluation_region import EvaluationRegion
from codemods.facts.training.graph_obstacles import GraphObstacles, flag
from codemods.facts.training.graph_uses import GraphUses, escape
from codemods.facts.training.graphless import computes_no_graph
from codemods.facts.training.iterations import called_functions, own
from codemods.facts.training.modes import (
    Modes,
    functions_of,
    is_frameworks,
    is_models_method,
    is_unit_test,
)
from codemods.facts.training.side_graphs import SideGraphs
from codemods.facts.training.stretches import ONCE, Stretches
from codemods.facts.training.targets import Targets
from codemods.library.kinds import MODULE_METHODS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, FunctionNode, Module
    from codemods.facts.training.iterations import Iterations

_WORDS = (
    "(valid|validate|validation|val|eval|evaluate|evaluation|test|testing|infer|inference|predict|prediction|sample|generate"
    "|accuracy)"
)
_EVALUATES = re.compile(rf"(^|_){_WORDS}(_|\d|$)", re.IGNORECASE)


_REST = Reason(
    "nothing-to-gain", "its loops run models without gradients already, and what else it computes runs once in a call"
)


class Evaluations:
    """Finds the evaluation regions of some modules."""

    def __init__(self, flow: Flow, modules: Sequence[Module], iterations: Iterations) -> None:
        self._flow = flow
        self._reach = Reach(flow)
        self._modules = modules
        self._iterations = iterations
        self._modes = Modes(flow, modules)
        self._uses = GraphUses(flow, self._modes, iterations)
        self._obstacles = GraphObstacles(flow, modules, self._uses)
        self._stretches = Stretches(flow, self._uses, self._obstacles, self._computes)
        self._sides = SideGraphs(flow, self._uses, self._obstacles)
        self._acting = Acting(flow, self._uses, self._obstacles)
        self._targets = Targets(flow, self._uses, self._obstacles)
        self._whole: dict[FunctionNode, EvaluationRegion | None] = {}

    def find(self) -> Iterator[EvaluationRegion]:
        """The regions, in the order of the text, without those that run without gradients already."""
        found: list[EvaluationRegion] = []
        for region in self._chosen():
            is_open = region.why_not is None and not region.flag
            found.append(replace(region, why_not=self._obstacles.reaching_backward(region)) if is_open else region)
        taken: set[ast.AST] = {each for region in found for each in region.statements or (region.node,)}
        for module in self._modules:
            for region in self._targets.find(module, taken):
                before = [each for each in found if each.is_followed_by(region)]
                behind = [each for each in found if region.is_followed_by(each)]
                together = reduce(EvaluationRegion.followed_by, [*before, region, *behind])
                found = [each for each in found if each not in before and each not in behind] + [together]
        yield from map(self._without_padding, found)

    def _without_padding(self, region: EvaluationRegion) -> EvaluationRegion:
        """The region, which is left where a transformer in it would return zeros for padding without gradients."""
        if region.why_not is not None:
            return region
        return replace(region, why_not=why_padding_filled(self._reach, region.module, region.calls))

    def _chosen(self) -> Iterator[EvaluationRegion]:
        for module in self._modules:
            whole: set[Callee] = set()
            for function in functions_of(self._flow, module):
                region = self._region_of(function)
                if region is not None:
                    whole.add(function)
                    if region.calls:
                        yield region
            yield from self._stretches.find(module, whole)
            yield from self._sides.find(module, whole)
            yield from self._acting.find(module, whole)

    def _region_of(self, function: FunctionNode) -> EvaluationRegion | None:
        """The same as ``_function_region``, once for each function; None of one that is being looked at."""
        if function not in self._whole:
            self._whole[function] = None
            self._whole[function] = self._function_region(self._flow.module_of(function), function)
        return self._whole[function]

    def _computes(self, call: ast.Call) -> bool:
        """Whether the call computes a graph where gradients are on, and will do so after the change."""
        if not self._uses.computes(call) or computes_no_graph(self._flow, call):
            return False
        called = [each for each in called_functions(self._flow, call) if isinstance(each, ast.FunctionDef)]
        regions = [self._region_of(each) for each in called]
        is_done = bool(called) and all(each is not None and each.why_not is None for each in regions)
        return not is_done or len(called) < len(self._flow.values(call.func))

    def _function_region(self, module: Module, function: FunctionNode) -> EvaluationRegion | None:
        """The region that the whole function is; without calls where it has no gradients already."""
        if is_unit_test(module, function) or is_frameworks(self._flow, function):
            return None
        calls = [call for call in own(function, ast.Call) if self._computes(call)]
        if not calls:
            return None
        named = bool(_EVALUATES.search(function.name))
        is_models = is_models_method(self._flow, function)
        switches = [call for call in own(function, ast.Call) if self._modes.sets(call, "eval")]
        if is_models:
            # Its other methods serve its training, but those that hand on no graph; a switched part is a frozen part.
            switches = [call for call in switches if ast.unparse(call.func) in {"self.eval", "self.train"}]
            named = named and self._hands_on_no_graph(function)
        trains = self._iterations.training_functions.get(function)
        needs = needs_gradients(self._flow, function)
        if not (named or switches) and (trains is not None or not self._is_unused(module, function, calls)):
            return None
        if trains is not None and not (named and (needs is not None or flag(function) is not None)):
            return None
        open_calls = [call for call in calls if not self._modes.without_gradients(module, call)]
        if not open_calls or self._modes.is_decorated(function) or self._all_callers_without(function):
            return EvaluationRegion(self._flow, module, function, (), (), (), None)
        why_not = self._obstacles.of_training(function, trains) or self._obstacles.of_function(function, needs)
        if self._runs_once(module, function, open_calls):
            why_not = ONCE if why_not is None or function.name == "__init__" else why_not
        if self._has_repeated_without(module, function) and not any(map(self._is_looped_in(function), open_calls)):
            why_not = _REST
        if why_not is None and all(self._tries_out(function, each) for each in open_calls):
            why_not = Reason("nothing-to-gain", "it only tries out a model that it makes, on numbers that it makes")
        return EvaluationRegion(
            self._flow, module, function, (), tuple(open_calls), self._obstacles.kept_inside, why_not
        )

    def _has_repeated_without(self, module: Module, function: FunctionNode) -> bool:
        """Whether loops of the function run models without gradients already."""
        is_looped = self._is_looped_in(function)
        return any(
            is_looped(each) and self._uses.computes(each) and self._modes.without_gradients(module, each)
            for each in own(function, ast.Call)
        )

    def _is_looped_in(self, function: FunctionNode) -> Callable[[ast.Call], bool]:
        loops = [each for sort in REPEATING for each in own(function, sort)]
        looped = {call for loop in loops for call in own(loop, ast.Call)}
        return looped.__contains__

    def _is_unused(self, module: Module, function: FunctionNode, calls: Sequence[ast.Call]) -> bool:
        """Whether nothing may train on what models compute in the function, again and again, whatever its name."""
        if function.name in MODULE_METHODS or escape(self._uses.strict.function(function)) is not None:
            return False
        return len(self._flow.callers(function)) != 1 or any(self._is_repeated(module, each) for each in calls)

    def _runs_once(self, module: Module, function: FunctionNode, calls: Sequence[ast.Call]) -> bool:
        """Whether it makes an object, or is called from one place with no loop around any of the models' calls."""
        if function.name == "__init__":
            return True
        is_one = len(self._flow.callers(function)) == 1 and not self._flow.escapes(function)
        return is_one and not any(self._is_repeated(module, each) for each in calls)

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
        inputs = [value for each in arguments_of(call) for value in self._flow.values(each)]
        here = set(own(function, ast.Call))
        return is_new and not loads and all(isinstance(each, HostTensor) and each.site in here for each in inputs)

    def _all_callers_without(self, function: FunctionNode) -> bool:
        calls = self._flow.callers(function)
        return (
            bool(calls)
            and not self._flow.escapes(function)
            and all(self._modes.without_gradients(module_of(self._flow, each), each) for each in calls)
        )
