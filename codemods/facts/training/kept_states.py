"""What a model's forward keeps, in its attributes or by a hook, so that a graph outlives the call."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.names import bound_names, words
from codemods.dataflow.source import walk
from codemods.dataflow.values import Container, MovedTensor, SomeTensor, Unknown
from codemods.facts.loops import module_of
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.evaluation_region import Kept
from codemods.facts.training.iterations import own
from codemods.facts.training.modes import is_models_method
from codemods.library.hooks import is_given_outputs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, FunctionNode, Module
    from codemods.dataflow.values import Value, Values

_MAY_CARRY = (SomeTensor, MovedTensor, Unknown, Container)
_PUTTING = words("append appendleft extend insert setdefault")
_CUTTING = words("argmax data detach item shape size tolist")


class KeptStates:
    """Finds what the models of some modules keep from their calls."""

    def __init__(self, flow: Flow, modules: Sequence[Module]) -> None:
        self._flow = flow
        self._modules = modules

    @cached_property
    def inside(self) -> tuple[Kept, ...]:
        """Where tensors from inside a model's forward may be kept: by a hook, or by an attribute of the model."""
        return tuple(self._keeps_inside())

    def _keeps_inside(self) -> Iterator[Kept]:
        for module in self._modules:
            for call in module.nodes(ast.Call):
                name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
                if is_given_outputs(name):
                    text = f"a forward hook may keep tensors for later ({HERE})"
                    yield Kept(module, Reason("graph-escapes", text, (at(module, call),)), None)
            for target in module.nodes(ast.Attribute):
                forward = self._forward_that_keeps(module, target) if isinstance(target.ctx, ast.Store) else None
                if forward is not None:
                    text = f"the model's forward keeps a tensor that is read elsewhere ({HERE})"
                    yield Kept(module, Reason("graph-escapes", text, (at(module, target),)), forward)
            for node, container, given in _put_in(module):
                forward = self._forward_that_collects(module, node, container, given)
                if forward is not None:
                    text = f"the model's forward puts a tensor where it is read elsewhere ({HERE})"
                    yield Kept(module, Reason("graph-escapes", text, (at(module, node),)), forward)

    def _forward_that_collects(
        self, module: Module, node: ast.AST, container: ast.expr, given: ast.expr
    ) -> FunctionNode | None:
        """The model's own ``forward``, where it puts a tensor with a graph into ``self.x`` or the like."""
        function = module.function(node)
        forwards = self._forwards_that_run(function) if isinstance(function, ast.FunctionDef) else ()
        if function is None or not forwards or _is_cut(given):
            return None
        if not any(isinstance(each, Container) for each in self._flow.values(container)):
            return None
        reads: Sequence[tuple[Module, ast.AST]]
        match container:
            case ast.Attribute(_, name):
                reads = self._reads.get(name, ())
            case ast.Name(name) if name not in bound_names(function):
                loads = ((where, each) for where in self._modules for each in where.nodes(ast.Name) if each.id == name)
                reads = [(where, each) for where, each in loads if isinstance(each.ctx, ast.Load)]
            case _:
                return None
        return self._read_elsewhere(forwards, reads) if self._may_carry(self._flow.values(given)) else None

    @cached_property
    def _reads(self) -> dict[str, list[tuple[Module, ast.Attribute]]]:
        """Where attributes are read, by their names."""
        found: dict[str, list[tuple[Module, ast.Attribute]]] = {}
        for module in self._modules:
            for each in module.nodes(ast.Attribute):
                if isinstance(each.ctx, ast.Load):
                    found.setdefault(each.attr, []).append((module, each))
        return found

    def _forward_that_keeps(self, module: Module, target: ast.Attribute) -> FunctionNode | None:
        """The model's own ``forward``, where it is ``self.x = …`` in it, a tensor, and something else reads ``….x``."""
        function = module.function(target)
        if not isinstance(function, ast.FunctionDef) or not is_models_method(self._flow, function):
            return None
        forwards = self._forwards_that_run(function)
        if not forwards or not self._may_carry(self._flow.values(target)):
            return None
        return self._read_elsewhere(forwards, self._reads.get(target.attr, ()))

    def _forwards_that_run(self, function: Callee) -> Sequence[ast.FunctionDef]:
        """The ``forward`` of a model that the function is, or those that call it, maybe through others."""
        found: list[ast.FunctionDef] = []
        todo, seen = [function], {function}
        while todo:
            each = todo.pop()
            if isinstance(each, ast.FunctionDef) and each.name == "forward" and is_models_method(self._flow, each):
                found.append(each)
                continue
            above = (module_of(self._flow, call).function(call) for call in self._flow.callers(each))
            more = {one for one in above if one is not None} - seen
            seen |= more
            todo += more
        return found

    def _read_elsewhere(
        self, forwards: Sequence[ast.FunctionDef], reads: Sequence[tuple[Module, ast.AST]]
    ) -> ast.FunctionDef | None:
        """The first forward beside which something else reads what it keeps."""
        for forward in forwards:
            if not all(self._runs_in(where.function(each), forward, set()) for where, each in reads):
                return forward
        return None

    def _may_carry(self, values: Values) -> bool:
        """Whether a tensor may be among the values, or in a list or dictionary among them: not in one of numbers."""
        seen: set[Value] = set()
        todo = [*values]
        while todo:
            value = todo.pop()
            items = self._flow.items(value) if isinstance(value, Container) and value not in seen else frozenset()
            if isinstance(value, _MAY_CARRY) and not items and value not in seen:
                return True
            seen.add(value)
            todo += items
        return False

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

    def carried_on(self, forward: Callee) -> ast.Attribute | None:
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
                tensors = self._may_carry(self._flow.values(each))
                if isinstance(each.ctx, ast.Store) and each.attr in read and tensors and not _is_detached(statement):
                    return each
        return None


def _put_in(module: Module) -> Iterator[tuple[ast.AST, ast.expr, ast.expr]]:
    """Where something is put into a list or dictionary: ``x.append(y)``, ``x[key] = y``; with both."""
    for call in module.nodes(ast.Call):
        match call:
            case ast.Call(ast.Attribute(container, name), [*_, given], []) if name in _PUTTING:
                yield call, container, given
    for statement in module.nodes(ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Subscript):
                yield target, target.value, statement.value


def _is_cut(node: ast.expr) -> bool:
    """Whether what is kept has no graph: ``x.detach().cpu()``."""
    return any(isinstance(each, ast.Attribute) and each.attr in _CUTTING for each in walk(node))


def _is_detached(statement: ast.stmt) -> bool:
    """``self.x = y.detach()``."""
    match statement:
        case ast.Assign(_, ast.Call(ast.Attribute(_, "detach"))):
            return True
    return False
