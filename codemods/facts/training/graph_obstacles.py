"""Why code that only evaluates may need the graphs that it computes."""

from __future__ import annotations

import ast
import re
from functools import cached_property, partial
from operator import is_
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import signature
from codemods.dataflow.source import FUNCTIONS
from codemods.dataflow.values import Class, Container, External, Function, Method, MovedTensor, SomeTensor, Unknown
from codemods.facts.autograd.uses import called_forwards, needs_gradients
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.graph_uses import escape
from codemods.facts.training.iterations import own
from codemods.facts.training.kept_states import KeptStates
from codemods.facts.training.modes import is_named

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, FunctionNode, Module
    from codemods.facts.reason import Place
    from codemods.facts.training.evaluation_region import EvaluationRegion, Kept
    from codemods.facts.training.graph_uses import GraphUses

_IN_BLOCKS = "write `with torch.no_grad():` around the calls of models, with no await inside"
_PROFILERS = frozenset({"torch.profiler.profile", "torch.autograd.profiler.profile"})
_AUTOCAST = frozenset({"torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast", "torch.cpu.amp.autocast"})
_TRANSPARENT = re.compile(
    r"^(builtins|functools|abc|typing|contextlib|click|pytest|typer|torch\.(no_grad|enable_grad|inference_mode))\b"
)

_MAY_CARRY = (SomeTensor, MovedTensor, Unknown, Container)
_LEAVE = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)
"""What may let other code run meanwhile, for which a block would switch gradients off as well."""
_FLAGS = frozenset({"train", "training", "is_train", "is_training", "optimizer", "mode", "phase", "evaluate"})


class GraphObstacles:
    """Says of functions and statements of some modules why they cannot do without gradients."""

    def __init__(self, flow: Flow, modules: Sequence[Module], uses: GraphUses) -> None:
        self._flow = flow
        self._modules = modules
        self._uses = uses
        self._iterations = uses.iterations
        self._states = KeptStates(flow, modules)

    @cached_property
    def kept_inside(self) -> tuple[Kept, ...]:
        """Where tensors from inside a model's forward may be kept: by a hook, or by an attribute of the model."""
        return self._states.inside

    def of_training(self, function: FunctionNode, trains: ast.AST | None) -> Reason | None:
        """Why a function that trains somewhere is no evaluation: a parameter of it says whether it does."""
        parameter = flag(function)
        if trains is None or parameter is None:
            return None
        text = f"the function also trains, as its parameter '{parameter}' says ({HERE})"
        return Reason("also-trains", text, (self.place(function, trains),))

    def of_function(self, function: FunctionNode, needs: ast.AST | None) -> Reason | None:
        """Why a whole function cannot do without gradients, which are needed where ``needs`` says."""
        if needs is not None:
            return self.needs(function, needs)
        if isinstance(function, ast.AsyncFunctionDef):
            text = "it is a coroutine: a decorator would not act while it runs"
            return Reason("not-editable", text, remedy=_IN_BLOCKS)
        for decorator in function.decorator_list:
            if not self._is_transparent(decorator):
                text = f"@{ast.unparse(decorator)} may need the function as it is ({HERE})"
                return Reason("not-editable", text, (self.place(function, decorator),))
        calls = self._flow.callers(function)
        for call in calls:
            mixed = self.mixed_autocast(self._module(call), call, function)
            if mixed is not None:
                return mixed
        state = self.of_state(function)
        if state is not None:
            return state
        course = self._uses.inside.function(function)
        if course.kept is not None:
            return self._keeps(function, course.kept)
        return self.of_result(function) if course.returned is not None else None

    def needs(self, home: ast.AST, node: ast.AST) -> Reason:
        """The reason that gradients are needed at a node."""
        return Reason("needs-gradients", f"gradients are needed in it ({HERE})", (self.place(home, node),))

    def _keeps(self, home: ast.AST, node: ast.AST) -> Reason:
        return Reason("graph-escapes", f"it keeps a tensor for later ({HERE})", (self.place(home, node),))

    def _is_transparent(self, decorator: ast.expr) -> bool:
        values = self._flow.values(decorator.func if isinstance(decorator, ast.Call) else decorator)
        return bool(values) and all(
            isinstance(each, (Function, Class))
            or (isinstance(each, External) and _TRANSPARENT.match(each.name) is not None)
            or (isinstance(each, Method) and each.name in {"setter", "getter", "command"})
            for each in values
        )

    def of_result(self, function: Callee) -> Reason | None:
        """Why the tensors that the function returns may have to carry gradients."""
        calls = self._flow.callers(function)
        if not calls or self._flow.escapes(function):
            here = "this file" if len(self._modules) == 1 else "the project"
            return Reason("graph-escapes", f"it returns tensors to code outside {here}, which may train on them")
        for call in calls:
            module = self._module(call)
            statement = module.statement(call)
            graphs = self._uses.of(partial(is_, call), outside=False, strict=True)
            around = module.function(call)
            if isinstance(around, ast.Lambda) and graphs.function(around).returned is not None:
                used: ast.AST | None = around
            else:
                course = graphs.statements(module, [statement])
                used = escape(course) or self._uses.used_after(graphs, module, statement, course)
            if used is not None:
                return self._returned_trained(function, used)
        return None

    def place(self, home: ast.AST, node: ast.AST) -> Place:
        """Where the node stands; in the module of ``home`` where no module holds it."""
        module = next((each for each in self._modules if each.holds(node)), None)
        return at(self._module(home) if module is None else module, node)

    def _module(self, node: ast.AST) -> Module:
        return next(each for each in self._modules if each.holds(node))

    def of_statements(self, module: Module, statements: tuple[ast.stmt, ...], *, strict: bool = False) -> Reason | None:
        """Why some statements of a suite cannot do without gradients.

        Args:
            module: Where they stand.
            statements: The statements.
            strict: Whether code that is not seen may keep what it is given in them, too, and train on it.
        """
        reasons = (
            *map(self.of_statement, statements),
            self.mixed_autocast(module, statements[0], statements[0]),
        )
        reason = next(filter(None, (*reasons, *map(self.of_state, statements))), None)
        if reason is not None:
            return reason
        course = (self._uses.strict if strict else self._uses.inside).statements(module, statements)
        if course.kept is not None:
            return self._keeps(statements[0], course.kept)
        if course.returned is not None:
            function = module.function(statements[0])
            reason = self.of_result(function) if function is not None else None
            if reason is not None:
                return reason
        used = self._uses.used_after(self._uses.strictly_outside, module, statements[-1], course)
        return None if used is None else self.trained_later(statements[0], used)

    def trained_later(self, home: ast.AST, node: ast.AST) -> Reason:
        """The reason that a tensor may be trained on at a node."""
        text = f"a tensor computed in it may be trained on later ({HERE})"
        return Reason("graph-escapes", text, (self.place(home, node),))

    def reaching_backward(self, region: EvaluationRegion) -> Reason | None:
        """Why code that was found to do without gradients cannot: what it binds may reach a backward that is seen.

        The last look before an edit. It trusts no call that is not known to compute no graph.
        """
        if region.function is not None:
            return self._result_reaching_backward(region.function)
        course = self._uses.doubtful.statements(region.module, region.statements)
        used = course.trained or self._uses.differentiated.after(region.module, region.statements[-1], course).trained
        return None if used is None else self.trained_later(region.node, used)

    def _result_reaching_backward(self, function: FunctionNode) -> Reason | None:
        course = self._uses.doubtful.function(function)
        if course.trained is not None:
            return self.needs(function, course.trained)
        if course.returned is None:
            return None
        for call in self._flow.callers(function):
            module = self._module(call)
            statement = module.statement(call)
            graphs = self._uses.reaching(call)
            found = graphs.statements(module, [statement])
            used = found.trained or graphs.after(module, statement, found).trained
            if used is not None:
                return self._returned_trained(function, used)
        return None

    def _returned_trained(self, function: FunctionNode | Callee, used: ast.AST) -> Reason:
        text = f"what it returns may be trained on ({HERE})"
        return Reason("graph-escapes", text, (self.place(function, used),))

    def of_statement(self, statement: ast.stmt) -> Reason | None:
        """Why a statement cannot do without gradients, whatever becomes of what it computes."""
        trains = self._iterations.why_trains(statement)
        if trains is not None:
            return Reason("also-trains", f"the region also trains ({HERE})", (self.place(statement, trains),))
        needs = needs_gradients(self._flow, statement)
        if needs is not None:
            return self.needs(statement, needs)
        for block in own(statement, ast.With):
            if any(is_named(self._flow, item.context_expr, _PROFILERS) for item in block.items):
                return Reason("script-decides", f"it is profiled as it is ({HERE})", (self.place(statement, block),))
        left = next(_leaving(statement), None)
        if left is None:
            return None
        doing = "yields to" if isinstance(left, (ast.Yield, ast.YieldFrom)) else "awaits"
        text = f"it {doing} code that may need gradients ({HERE})"
        return Reason("graph-escapes", text, (self.place(statement, left),))

    def of_state(self, node: ast.AST) -> Reason | None:
        """Why a model that the code calls may bring a graph along from an earlier call, or on to a later one."""
        for call in own(node, ast.Call):
            for forward in called_forwards(self._flow, call):
                kept = self._states.carried_on(forward)
                if kept is not None:
                    what = "an attribute" if kept.name is None else f"self.{kept.name}"
                    text = f"the model keeps {what} from one call to the next ({HERE})"
                    return Reason("graph-escapes", text, (self.place(node, kept.node),))
        return None

    def mixed_autocast(self, module: Module, node: ast.AST, home: ast.AST) -> Reason | None:
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
                return Reason("shared-autocast", text, (self.place(home, above),))
        return None


def _leaving(statement: ast.stmt) -> Iterator[ast.AST]:
    """Where other code may run before the statement is over."""
    for kind in _LEAVE:
        yield from own(statement, kind)
    yield from (each.iter for each in own(statement, ast.comprehension) if each.is_async)


def flag(function: FunctionNode) -> str | None:
    """The parameter that says whether the function trains, if there is one."""
    return next((each.arg for each in signature(function).named if each.arg in _FLAGS), None)
