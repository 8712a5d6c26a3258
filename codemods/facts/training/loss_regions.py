"""For each backward of a script, the code that computes its loss: what is to run under autocast."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.source import LOOPS, lasting, unparsed
from codemods.dataflow.values import Class, External, Instance, Made, Method, Unknown, library_names, why_unknown
from codemods.facts.models.layers import function_in_threads
from codemods.facts.models.order import runs_only_before
from codemods.facts.models.placement import with_unknown
from codemods.facts.reach import Reach, is_model_call, own, project_functions
from codemods.facts.reason import HERE, Place, Reason, at
from codemods.facts.training.iterations import EventKind, is_backward
from codemods.library.kinds import Kind, kind, may, why

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Value, Values
    from codemods.facts.script import Script
    from codemods.facts.training.iterations import Event, TrainingIteration

Block = tuple[ast.stmt, ...]
"""Neighbouring statements of one suite."""

# Methods by which a model is known where it is a parameter of a function that nothing here calls.
_OF_MODELS = frozenset({"train", "eval", "parameters", "named_parameters", "state_dict", "zero_grad"})
# What may be done to a finished loss outside the block: it is a number in 32 bits by then.
_COMBINES = frozenset(
    {"mean", "sum", "squeeze", "values", "view", "div", "mul", "add", "item", "get", "keys", "items", "float"}
)
_FUNCTIONS_THAT_COMBINE = frozenset(
    {"builtins.sum", "torch.stack", "torch.sum", "torch.mean", "builtins.len", "builtins.float"}
)


@dataclass(frozen=True, eq=False)
class Phase:
    """One backward, and the statements that compute its loss."""

    module: Module
    call: ast.Call
    """The call that computes gradients."""
    iteration: TrainingIteration
    event: Event
    loss: ast.expr
    """What is differentiated."""
    region: Block
    """From the first statement that calls a model for this loss to the last that computes it, in one suite."""
    is_inline: bool
    """Whether (the rest of) the loss is computed in the expression that is differentiated itself."""
    why_not: Reason | None = None
    """Why no region is known."""

    @property
    def statement(self) -> ast.stmt:
        """The statement of the backward."""
        return self.module.statement(self.call)

    @property
    def function(self) -> Callee | None:
        """The function in which the backward stands; None at module level."""
        return self.module.function(self.call)

    @cached_property
    def code(self) -> tuple[ast.AST, ...]:
        """All that computes the loss, the inline part among it."""
        return (*self.region, self.loss) if self.is_inline else self.region

    def seen_in(self, iteration: TrainingIteration, event: Event) -> Phase:
        """The same phase as a part of another iteration, which reaches its backward too."""
        return replace(self, iteration=iteration, event=event)


class Phases:
    """Finds the phases of a script's entry module."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._flow = script.flow
        self._module = script.module
        self.reach = Reach(script.flow)

    @cached_property
    def all(self) -> tuple[Phase, ...]:
        """One phase for each backward of the entry module, in the order of the text."""
        found: dict[ast.AST, Phase] = {}
        for iteration in self._script.iterations:
            for event in iteration.of(EventKind.BACKWARD):
                if event.module is self._module and event.node not in found and isinstance(event.node, ast.Call):
                    found[event.node] = self._phase(iteration, event, event.node)
        return tuple(sorted(found.values(), key=lambda each: each.call.lineno))

    def _phase(self, iteration: TrainingIteration, event: Event, call: ast.Call) -> Phase:
        loss, here = differentiated(self._script, call), (Place(self._module, (call,)),)
        if loss is None:
            return Phase(
                self._module,
                call,
                iteration,
                event,
                call,
                (),
                is_inline=False,
                why_not=Reason(
                    "unknown-loss", f"{unparsed(call.func)}() is not known to differentiate a loss ({HERE})", here
                ),
            )
        is_inline = any(not self._combines(each) for each in own(loss, ast.Call))
        statement = self._module.statement(call)
        region = self._region(statement, loss, iteration.owner, is_complete=self._any_model_call(loss))
        why_not = None
        if not region and not (is_inline and self._any_model_call(loss)):
            text = f"the forward pass is not found before the backward in {HERE}{self._hint(loss)}"
            why_not = self._in_threads(self._module.function(call) or self._module.tree)
            why_not = why_not or self._why_shared(call, loss, iteration.owner) or Reason("unknown-loss", text, here)
        if is_inline and not (isinstance(statement, ast.Expr) and statement.value is call):
            why_not = Reason("not-editable", f"the backward in {HERE} stands inside another expression", here)
        return Phase(self._module, call, iteration, event, loss, region, is_inline, why_not)

    def _in_threads(self, scope: ast.AST) -> Reason | None:
        """Why no call of a model is seen in a scope that runs one in threads: ``data_parallel(model, x)``."""
        for call in own(scope, ast.Call):
            name = function_in_threads(self._flow, call)
            if name is not None and call.args and may(self._flow, self._flow.values(call.args[0]), Kind.MODEL):
                text = f"{name}() runs the model in threads ({HERE}), which compute in fp16 whatever autocast is told:"
                remedy = "use DistributedDataParallel"
                return Reason("data-parallel", text, (Place(self._module, (call,)),), remedy)
        return None

    def _why_shared(self, call: ast.Call, loss: ast.expr, owner: ast.AST) -> Reason | None:
        """Whether the forward pass is seen, and what stands between it and the backward: another one, or a step."""
        statement = self._module.statement(call)
        region = self._region(statement, loss, owner, is_complete=False, beyond_others=True)
        if not region:
            return None
        start, end = region[0].lineno, statement.lineno
        between = (each for each in self._module.nodes(ast.Call) if start < each.lineno < end)
        other = next((each for each in between if is_backward(self._flow, each)), None)
        if other is None:
            text = f"something else is differentiated or stepped between the forward pass and the backward in {HERE}"
            return Reason("unknown-loss", text, (Place(self._module, (call,)),))
        places = (Place(self._module, (call,)), Place(self._module, (other,)))
        text = f"the backward in {HERE} goes through the forward pass of the one in {HERE}, too:"
        return Reason("unknown-loss", text, places, "add the losses up, and differentiate the sum")

    def _hint(self, loss: ast.expr) -> str:
        reason = why_unknown(self._flow.values(loss))
        return f": {reason}" if reason is not None else ""

    # The region.

    def _region(
        self,
        statement: ast.stmt,
        loss: ast.expr,
        owner: ast.AST,
        *,
        is_complete: bool,
        beyond_others: bool = False,
    ) -> Block:
        """The slice of the loss, from its first call of a model; empty where no such call is seen.

        Args:
            statement: The statement of the backward.
            loss: What it differentiates.
            owner: The loop or function that is the iteration.
            is_complete: Whether the loss calls a model itself.
            beyond_others: Whether to go on above another backward or a step, which have a phase of their own.
        """
        wanted = read(loss)
        here = statement
        while True:
            suite = self._module.suite(here)
            members: list[int] = []
            index = next(number for number, each in enumerate(suite) if each is here)
            bounded = False
            for number in range(index - 1, -1, -1):
                if not beyond_others and self._ends_a_phase(suite[number]):
                    bounded = True
                    break
                bound = _bound(suite[number]) & wanted
                if bound:
                    members.append(number)
                    if isinstance(suite[number], (ast.Assign, ast.AnnAssign)):
                        wanted -= bound
                    wanted |= read(suite[number])
            members.reverse()
            first = next((number for number in members if self._any_model_call(suite[number])), None)
            if first is not None:
                last = index - 1 if here is statement and self._is_inline(loss) else members[-1]
                return tuple(suite[first : last + 1])
            parent = self._module.parent(here)
            if bounded or is_complete or parent is owner or not isinstance(parent, (ast.If, ast.With, ast.Try, *LOOPS)):
                return ()
            here = parent

    def _is_inline(self, loss: ast.expr) -> bool:
        return any(not self._combines(each) for each in own(loss, ast.Call))

    def _combines(self, call: ast.Call) -> bool:
        """Whether the call only sums or averages losses that are there."""
        if library_names(self._flow.values(call.func)) & _FUNCTIONS_THAT_COMBINE:
            return not any(is_model_call(self._flow, each) for each in own(call, ast.Call))
        return (
            isinstance(call.func, ast.Attribute)
            and call.func.attr in _COMBINES
            and not list(project_functions(self._flow.values(call.func)))
        )

    def models(self, phase: Phase) -> Values:
        """What the phase calls as models, unknown values among them, and the layers in them."""
        return self.models_in(phase.code)

    def models_in(self, nodes: Sequence[ast.AST]) -> Values:
        """What the nodes, and the functions that they call, call as models."""
        parts = (*nodes, *self.reach.functions(nodes))
        found: set[Value] = set()
        for call in (each for part in parts for each in own(part, ast.Call)):
            if is_model_call(self._flow, call):
                for value in self._flow.values(call.func):
                    found.add(value.of if isinstance(value, Method) and value.of is not None else value)
            elif self._is_called_like_a_model(call):
                found |= self._flow.values(call.func)
        return frozenset(found)

    def called(self, nodes: Sequence[ast.AST]) -> Values:
        """The models that the nodes call themselves, without their layers; all that they run where they call none."""
        calls = [call for node in nodes for call in own(node, ast.Call) if is_model_call(self._flow, call)]
        found = {value for call in calls for value in self._flow.values(call.func)}
        direct = {each.of if isinstance(each, Method) and each.of is not None else each for each in found}
        return frozenset(direct) or self.models_in(nodes)

    def unseen(self, phase: Phase, because: Collection[str] = ()) -> tuple[Module, ast.Call] | None:
        """A call of what may be a model that is not seen, outside of models' own code; None where all of them are.

        Args:
            phase: Where it is sought.
            because: Why it is not known; for any reason where there is none.
        """
        for module, part in self.reach.code(phase.module, phase.code):
            owner = self._flow.owner(part) if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)) else None
            if owner is not None and kind(self._flow, self._script.instance_of(owner)) is Kind.MODEL:
                continue
            for call in own(part, ast.Call):
                if not is_model_call(self._flow, call) and not self._is_called_like_a_model(call):
                    continue
                unseen = [each for each in self._flow.values(call.func) if self._is_unseen(each)]
                if because:
                    unseen = [each for each in unseen if self._reasons(each) & {*because}]
                if not all(self._is_given_later(module, call.func, each) for each in unseen):
                    return module, call
        return None

    def why_unseen(self, phase: Phase, because: Collection[str] = ()) -> Reason | None:
        """The same as a reason that names the call, and why it is not known."""
        unseen = self.unseen(phase, because)
        if unseen is None:
            return None
        module, call = unseen
        called = frozenset(each for one in self._flow.values(call.func) for each in with_unknown(self._flow, one))
        because = why(self._flow, called, Kind.MODEL)
        text = f"what {module.code(call.func)} computes is not seen ({HERE}): {because}"
        return Reason("unknown-model", text, (at(module, call),))

    def _is_given_later(self, module: Module, called: ast.expr, value: Value) -> bool:
        """Whether a module's name is given the value when the call has run for good: ``model = torch.load(best)``."""
        if not isinstance(called, ast.Name) or module.function(called) is None:
            return False
        statements = [module.statement(each) for each in module.stores.get(called.id, ())]
        given = [each for each in statements if isinstance(each, ast.Assign) and value in self._flow.values(each.value)]
        return bool(given) and all(
            module.function(each) is None
            and not any(isinstance(above, LOOPS) for above in module.ancestors(each))
            and runs_only_before(self._flow, called, module, each)
            for each in given
        )

    def _is_unseen(self, value: Value) -> bool:
        """Whether it may be a model that is not seen, or wraps one: ``DataParallel(other_package.Net())``."""
        inside = with_unknown(self._flow, value)
        return not may(self._flow, inside, Kind.MODEL) and any(
            isinstance(each, (Unknown, Made)) and kind(self._flow, each) is None for each in inside
        )

    def _reasons(self, value: Value) -> set[str]:
        return {each.name for each in with_unknown(self._flow, value) if isinstance(each, Unknown)}

    def _any_model_call(self, node: ast.AST) -> bool:
        return any(self.calls_model(each) for each in own(node, ast.Call))

    @lasting
    def calls_model(self, call: ast.Call) -> bool:
        """Whether the call runs a model, itself or in a function of the project."""
        if is_model_call(self._flow, call) or self._is_called_like_a_model(call):
            return True
        functions = self.reach.run_by(call)
        return any(is_model_call(self._flow, each) for callee in functions for each in own(callee, ast.Call))

    def _is_called_like_a_model(self, call: ast.Call) -> bool:
        """Whether what is called is unknown, and the module also uses it as only models are used."""
        values = self._flow.values(call.func)
        if not values or not all(
            isinstance(each, (Unknown, Made)) and kind(self._flow, each) is None for each in values
        ):
            return False
        return unparsed(call.func) in self._used_as_model

    @cached_property
    def _used_as_model(self) -> frozenset[str]:
        return frozenset(unparsed(each.value) for each in self._module.nodes(ast.Attribute) if each.attr in _OF_MODELS)

    def _ends_a_phase(self, statement: ast.stmt) -> bool:
        """Whether the statement computes gradients or steps, itself or in a function that it calls."""
        parts = (statement, *self.reach.functions([statement]))
        return any(
            is_backward(self._flow, each) or self.is_step(each) for part in parts for each in own(part, ast.Call)
        )

    def is_step(self, call: ast.Call) -> bool:
        """Whether the call is ``optimizer.step(…)``."""
        return (
            isinstance(call.func, ast.Attribute)
            and call.func.attr == "step"
            and may(self._flow, self._flow.values(call.func.value), Kind.OPTIMIZER)
        )


def differentiated(script: Script, call: ast.Call) -> ast.expr | None:
    """What the backward differentiates: ``loss.backward()``, ``torch.autograd.backward(loss)``; None if not known."""
    flow = script.flow
    if any(each.name == "torch.autograd.backward" for each in flow.values(call.func)):
        return call.args[0] if call.args else None
    if not isinstance(call.func, ast.Attribute):
        return None
    values = flow.values(call.func.value)
    if any(kind(flow, each) is not None or isinstance(each, (External, Class, Instance)) for each in values):
        return None
    return call.func.value


def read(node: ast.AST) -> frozenset[str]:
    """The names and the attributes of ``self`` that the node reads, as they are written."""
    names = {each.id for each in own(node, ast.Name) if isinstance(each.ctx, ast.Load)}
    names |= {each.target.id for each in own(node, ast.AugAssign) if isinstance(each.target, ast.Name)}
    return frozenset(names) | {unparsed(each) for each in own(node, ast.Attribute) if isinstance(each.value, ast.Name)}


def _bound(statement: ast.stmt) -> frozenset[str]:
    """The names and the attributes of ``self`` that the statement writes, and lists that it appends to."""
    found = {each.id for each in own(statement, ast.Name) if isinstance(each.ctx, ast.Store)}
    found |= {unparsed(each) for each in own(statement, ast.Attribute) if isinstance(each.ctx, ast.Store)}
    found |= {_root(each) for each in own(statement, ast.Subscript) if isinstance(each.ctx, ast.Store)}
    for call in own(statement, ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr in {"append", "extend"}:
            found.add(unparsed(call.func.value))
    return frozenset(found)


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript):
        node = node.value
    return unparsed(node)
