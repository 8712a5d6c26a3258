"""Where the graphs go that models compute: to a backward, out of the code, or nowhere."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.names import bound_names
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import lasting
from codemods.dataflow.values import External, Made, Partial, Unknown, without_none
from codemods.facts.autograd.carriers import runs_text
from codemods.facts.autograd.graphs import Graphs
from codemods.facts.loops import module_of
from codemods.facts.training.iterations import called_functions, own
from codemods.facts.training.modes import is_models_method
from codemods.library.kinds import MODULE_METHODS, Kind, kind
from codemods.library.operations import operation
from codemods.library.packages import is_known
from codemods.library.torchscript import COMPILING, SCRIPT_MODULE

if TYPE_CHECKING:
    from collections.abc import Callable

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.facts.autograd.courses import Course
    from codemods.facts.training.iterations import Iterations
    from codemods.facts.training.modes import Modes

_WRAPPERS = ("functools.", "operator.")
"""What calls what it was given earlier."""


class GraphUses:
    """Follows the graphs of some modules' models."""

    def __init__(self, flow: Flow, modes: Modes, iterations: Iterations) -> None:
        self.flow = flow
        self.modes = modes
        self.iterations = iterations
        self._handed_on: dict[Callee, bool] = {}

    def of(self, makes: Callable[[ast.Call], bool], *, outside: bool, strict: bool = False) -> Graphs:
        """What follows the graphs that some calls make; the arguments are those of ``Graphs``."""
        training = self.iterations.training_functions
        return Graphs(self.flow, makes, lambda each: each in training, outside=outside, strict=strict)

    @cached_property
    def inside(self) -> Graphs:
        """Follows what models compute, and what is computed from tensors that come from elsewhere."""
        return self.of(self.makes_graph, outside=True)

    @cached_property
    def outside(self) -> Graphs:
        """Follows tensors that are there already."""
        return self.of(lambda _: False, outside=False)

    @cached_property
    def strict(self) -> Graphs:
        """The same as ``inside``; what is not seen may keep tensors and train on them."""
        return self.of(self.makes_graph, outside=True, strict=True)

    @cached_property
    def strictly_outside(self) -> Graphs:
        """The same as ``outside``; what is not seen may keep tensors and train on them."""
        return self.of(lambda _: False, outside=False, strict=True)

    @cached_property
    def doubtful(self) -> Graphs:
        """The same as ``inside``; what code that is not seen returns may carry a graph, whatever it is given."""
        return Graphs(self.flow, self._may_make_graph, lambda _: False, outside=True)

    def trained(self, is_idle: Callable[[ast.Call], bool]) -> Graphs:
        """The same as ``of_models``, where some calls of models only hand on what they are given."""
        found = self.of(self.makes_graph, outside=False)
        found.hands_on = is_idle
        return found

    def perhaps_trained(self, is_idle: Callable[[ast.Call], bool]) -> Graphs:
        """The same as ``doubtful``, where some calls of models only hand on what they are given."""
        found = Graphs(self.flow, self._may_make_graph, lambda _: False, outside=True)
        found.hands_on = is_idle
        return found

    def reaching(self, call: ast.Call) -> Graphs:
        """Follows what a call returns to a backward that is seen, and to nothing else."""
        return Graphs(self.flow, lambda each: each is call, lambda _: False, outside=False)

    @cached_property
    def differentiated(self) -> Graphs:
        """Follows tensors that are there already to a backward that is seen, and to nothing else."""
        return Graphs(self.flow, lambda _: False, lambda _: False, outside=False)

    @cached_property
    def of_models(self) -> Graphs:
        """Follows what models compute, and nothing that comes from elsewhere."""
        return self.of(self.makes_graph, outside=False)

    def _may_make_graph(self, call: ast.Call) -> bool:
        return self.makes_graph(call) or self.is_unseen(call)

    def is_unseen(self, call: ast.Call) -> bool:
        """Whether code may run that is not seen, and may do anything with what it is given."""
        if operation(self.flow, call) is not None:
            return False
        return any(
            isinstance(each, (Unknown, Partial))
            or (isinstance(each, (External, Made)) and kind(self.flow, each) is None and _is_opaque(each.name))
            for each in without_none(self.flow.values(call.func))
        )

    @lasting
    def makes_graph(self, call: ast.Call) -> bool:
        """Whether the call runs a model, and gradients may be on."""
        if not self.modes.calls(call):
            owners = self.flow.values(call.func.value) if isinstance(call.func, ast.Attribute) else ()
            method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            if method in MODULE_METHODS or not any(kind(self.flow, each) is Kind.MODEL for each in owners):
                return False
            if self.modes.runs_without(call):
                return False
        return self.modes.may_have_gradients(module_of(self.flow, call), call)

    @cached_property
    def _running_models(self) -> frozenset[Callee]:
        """The functions that call models with gradients on, themselves or through others."""
        found: set[Callee] = set()
        todo: list[Callee] = []
        for module in self.flow.modules:
            for call in module.nodes(ast.Call):
                function = module.function(call)
                if function is None or function in found or not self.modes.calls(call):
                    continue
                if not self.modes.without_gradients(module, call):
                    found.add(function)
                    todo.append(function)
        while todo:
            for call in self.flow.callers(todo.pop()):
                module = module_of(self.flow, call)
                above = module.function(call)
                if above is not None and above not in found and not self.modes.without_gradients(module, call):
                    found.add(above)
                    todo.append(above)
        return frozenset(found)

    def hands_on(self, function: Callee) -> bool:
        """Whether the function returns what a model that it calls has computed, with the graph."""
        if function not in self._handed_on:
            self._handed_on[function] = (
                _may_return(function)
                and function in self._running_models
                and not self.modes.is_decorated(function)
                and self.of_models.function(function, frozenset()).returned is not None
            )
        return self._handed_on[function]

    @cached_property
    def given_graphs(self) -> dict[Callee, frozenset[str]]:
        """The functions that are given what models computed, and by which parameters."""
        for function in self._running_models:
            self.of_models.function(function, frozenset())
        for module in self.flow.modules:
            if module.tree.body:
                self.of_models.statements(module, module.tree.body)
        found = dict(self.of_models.entered)
        for function, names in self._given_by_forwards.items():
            found[function] = found.get(function, frozenset()) | names
        return found

    @property
    def _given_by_forwards(self) -> dict[Callee, frozenset[str]]:
        """The same of what forwards call: a loss of the project is given what another model has computed."""
        inside = self.of(self.makes_graph, outside=False)
        for function, _, _ in self.flow.functions() if not self.makes_torchscript else ():
            if function.name == "forward" and is_models_method(self.flow, function):
                inside.function(function, frozenset(signature(function).names) - {"self"})
        return inside.entered

    @cached_property
    def makes_torchscript(self) -> bool:
        """Whether forwards may be compiled to TorchScript, which knows no decorators."""
        return any(
            value.name in COMPILING or value.name == SCRIPT_MODULE
            for module in self.flow.modules
            if "jit" in module.text
            for each in module.nodes(ast.Attribute, ast.Name)
            for value in self.flow.values(each)
        )

    @lasting
    def computes(self, call: ast.Call) -> bool:
        """Whether the call computes a graph where gradients are on: of a model, or a function that hands one on."""
        return self.modes.calls(call) or any(map(self.hands_on, called_functions(self.flow, call)))

    def is_unused(self, module: Module, call: ast.Call) -> bool:
        """Whether nothing that is seen or unseen may train on what the call computes."""
        for function in called_functions(self.flow, call):
            inside = self.strict.function(function)
            if inside.trained is not None or inside.kept is not None:
                return False
        statement = module.statement(call)
        graphs = self.of(lambda each: each is call, outside=False, strict=True)
        course = graphs.statements(module, [statement])
        return escape(course) is None and self.used_after(graphs, module, statement, course) is None

    def only_reads(self, module: Module, statement: ast.stmt) -> bool:
        """Whether the statement neither trains on the tensors that it reads nor keeps one: ``print(loss.mean())``."""
        return escape(self.strict.statements(module, [statement])) is None

    def used_after(self, graphs: Graphs, module: Module, last: ast.stmt, course: Course) -> ast.AST | None:
        """Where a tensor is trained on, or leaves the function, after the statement."""
        if not course.ever:
            return None
        after = graphs.after(module, last, course)
        if escape(after) is not None:
            return escape(after)
        function, ever = module.function(last), course.ever | after.ever
        for name in module.nodes(ast.Name):
            if name.id in ever and isinstance(name.ctx, ast.Load) and _reads_from(module, name, function):
                return name
        return None


def _may_return(function: Callee) -> bool:
    """Whether the function's own code returns anything."""
    return isinstance(function, ast.Lambda) or any(each.value is not None for each in own(function, ast.Return))


def _is_opaque(name: str) -> bool:
    """Whether what the library's thing of that name returns when it is called may be anything."""
    return not is_known(name) or name.startswith(_WRAPPERS) or runs_text(name)


def escape(course: Course) -> ast.AST | None:
    """Where a graph is trained on, or leaves the code."""
    return course.trained or course.kept or course.returned


def _reads_from(module: Module, name: ast.Name, function: ast.AST | None) -> bool:
    """Whether the name is read in a function inside ``function`` (None: the module) that takes it from there."""
    here = module.function(name)
    while here is not None and here is not function:
        if name.id in bound_names(here):
            return False
        here = module.function(here)
        if here is function:
            return True
    return False
