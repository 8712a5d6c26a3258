"""Is a condition the same in all steps of a training, as far as the code that runs between them is known?

Stricter than ``FixedTests``: what a training loop counts, and what is changed in place or by ``setattr``, is not.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from codemods.dataflow.names import words
from codemods.dataflow.signatures import arguments_of, signature
from codemods.dataflow.source import FUNCTIONS, LOOPS, last_name, walk
from codemods.dataflow.values import Tensor, library_names
from codemods.facts.loops import module_of
from codemods.facts.models.fixed_tests import FixedTests
from codemods.library.kinds import Kind, kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Callee, Module

_CHANGES = words(
    "append appendleft extend insert pop popleft popitem remove clear update setdefault add discard __setitem__"
)
"""Methods that change the list, dictionary or set that they are called of."""
_LOOKING = frozenset({"builtins.isinstance", "builtins.hasattr", "builtins.callable", "builtins.type"})


@dataclass(eq=False)
class SteadyTests(FixedTests):
    """Answers for one training; what it does not know is not the same in each step."""

    loops: frozenset[ast.AST] = frozenset()
    """The loops of the training: the one over batches, and those around it."""
    functions: frozenset[Callee] = frozenset()
    """The functions that run again in those loops and hold a step of the training."""
    stepping: frozenset[Callee] = frozenset()
    """The functions that hold a step of the training, or call one that does."""
    _late: dict[str, bool] = field(default_factory=dict)

    def repeats(self, module: Module, node: ast.AST) -> bool:
        """Whether the node runs again in the training: in one of its loops, or in a function that they run."""
        return any(above in self.loops or above in self.functions for above in module.ancestors(node))

    def holds(self, node: ast.expr) -> bool:
        """Whether the expression is the same whenever its code runs for one object in one training."""
        match node:
            case ast.Compare(ast.Attribute(value, name), [ast.Is() | ast.IsNot()], [ast.Constant(None)]):
                return self.holds(value) and not self.is_set_late(name)
            case ast.Compare(ast.Name(name), [ast.Is() | ast.IsNot()], [ast.Constant(None)]) if self._fills(node, name):
                return True
            case ast.Attribute(_, "training"):
                return self._is_set_to_train()
            case ast.Attribute(_, name) if self.is_set_late(name) or self._is_tensor(node):
                return False
            case ast.Name(name) if self._is_changed(node):
                return False
            case ast.Call() if library_names(self.flow.values(node.func)) & _LOOKING:
                inside = (each for given in arguments_of(node) for each in walk(given))
                late = any(isinstance(each, ast.Attribute) and self.is_set_late(each.attr) for each in inside)
                return not late and super().holds(node)
        return super().holds(node)

    def _fills(self, node: ast.Compare, name: str) -> bool:
        """``if idx is None: idx = knn(x)``, where each call gives an ``idx`` or none does."""
        module = module_of(self.flow, node)
        function, choice = module.function(node), module.parent(node)
        if function is None or not isinstance(choice, ast.If) or name not in signature(function).names:
            return False
        own = [each for each in module.stores.get(name, ()) if module.function(each) is function]
        is_filled = all(choice in module.ancestors(each) or each.lineno > choice.lineno for each in own)
        in_loop = any(isinstance(above, LOOPS) for above in _around_in(module, choice))
        return (
            is_filled
            and not in_loop
            and isinstance(node.left, ast.Name)
            and self._is_fixed_parameter(node.left, function, name)
        )

    def is_set_late(self, name: str) -> bool:
        """Whether an attribute of that name may get another value after its object is made."""
        if name not in self._late:
            self._late[name] = self._is_set_late(name) or self._is_changed_late(name)
        return self._late[name]

    def _is_tensor(self, node: ast.expr) -> bool:
        return any(isinstance(each, Tensor) for each in self.flow.values(node))

    def _is_set_to_train(self) -> bool:
        """Whether no model evaluates, or they are set to train again in each pass of a loop."""
        calls = [
            (module, call)
            for module in self.flow.modules
            for call in module.nodes(ast.Call)
            if isinstance(call.func, ast.Attribute) and call.func.attr in {"eval", "train"}
        ]
        if not any(call.func.attr == "eval" for _, call in calls if isinstance(call.func, ast.Attribute)):
            return True
        return any(
            isinstance(call.func, ast.Attribute) and call.func.attr == "train" and self.repeats(module, call)
            for module, call in calls
        )

    def _is_changed_late(self, name: str) -> bool:
        """Whether ``setattr`` sets it later, or it is a list, a dictionary or a buffer that is changed in place."""
        for module in self.flow.modules:
            for node in module.nodes(ast.Call, ast.Subscript):
                is_late = self._changes(node, name) and (_registers(node) or self._is_late(module, node))
                if is_late and self._may_run(module, node):
                    return True
        return False

    def _changes(self, node: ast.Call | ast.Subscript, name: str) -> bool:
        match node:
            case ast.Call(ast.Name("setattr"), [_, ast.Constant(set_name), *_]):
                return set_name == name
            case ast.Call(ast.Name("setattr"), [owner, *_]):
                return self._may_be_model(owner)
            case ast.Call(ast.Attribute(_, "register_buffer"), [ast.Constant(set_name), *_]):
                return set_name == name
            case ast.Call(ast.Attribute(ast.Attribute(_, changed), method)) if method in _CHANGES:
                return changed in {name, "__dict__"}
            case ast.Subscript(ast.Attribute(_, changed), ctx=ast.Store() | ast.Del()):
                return changed in {name, "__dict__"}
        return False

    def _may_run(self, module: Module, node: ast.AST) -> bool:
        function = module.function(node)
        is_method = function is not None and isinstance(module.parent(function), ast.ClassDef)
        return function is None or is_method or bool(self.flow.callers(function)) or self.flow.escapes(function)

    def _may_be_model(self, owner: ast.expr) -> bool:
        kinds = {kind(self.flow, each) for each in self.flow.values(owner)}
        return last_name(owner) not in {"args", "opt", "config", "cfg"} and (not kinds or Kind.MODEL in kinds)

    def _is_changed(self, node: ast.Name) -> bool:
        """Whether a list or dictionary of that name is changed in place in a training."""
        module = module_of(self.flow, node)
        for each in module.nodes(ast.Call, ast.Subscript):
            match each:
                case ast.Call(ast.Attribute(ast.Name(name), method)) if method in _CHANGES:
                    found = name == node.id
                case ast.Subscript(ast.Name(name), ctx=ast.Store() | ast.Del()):
                    found = name == node.id
                case _:
                    found = False
            if found and self._shares_scope(module, each, node) and self._is_changed_there(module, each, node):
                return True
        return False

    def _shares_scope(self, module: Module, one: ast.AST, node: ast.Name) -> bool:
        """Whether two places mean the same thing by one name."""
        return _holder(module, one, node.id) is _holder(module, node, node.id)

    def _is_changed_there(self, module: Module, change: ast.AST, node: ast.Name) -> bool:
        function = module.function(change)
        is_own = function is not None and function is module.function(node)
        return is_own or self.repeats(module, change) or self._is_late(module, change)

    def _is_fixed_name(self, node: ast.Name, name: str) -> bool:
        module = module_of(self.flow, node)
        function = module.function(node)
        own = [
            each
            for each in module.stores.get(name, ())
            if isinstance(each, ast.Name) and module.function(each) is function
        ]
        if function is not None and own:
            if len(own) > 1 and any(self._is_in_loops(module, each) for each in own):
                return False
            return all(map(partial(self._is_fixed_binding, module), own))
        return super()._is_fixed_name(node, name)

    def _is_in_loops(self, module: Module, node: ast.AST) -> bool:
        return any(above in self.loops for above in module.ancestors(node))

    def _is_fixed_binding(self, module: Module, store: ast.Name) -> bool:
        if store in self._pending:
            return True
        self._pending.add(store)
        found = self._is_stored_always(module, store)
        self._pending.discard(store)
        return found and super()._is_fixed_binding(module, store)

    def _is_stored_always(self, module: Module, store: ast.Name) -> bool:
        for above in module.ancestors(store):
            if isinstance(above, FUNCTIONS):
                break
            if isinstance(above, ast.For) and above in self.loops and store in walk(above.target):
                return False
            if isinstance(above, ast.AugAssign) and self._is_in_loops(module, store):
                return False
            if isinstance(above, (ast.If, ast.While)) and not self.holds(above.test):
                return False
        return True

    def _is_fixed_parameter(self, node: ast.Name, function: Callee, name: str) -> bool:
        if super()._is_fixed_parameter(node, function, name):
            return True
        if function in self.stepping or function in self._pending:
            return False
        callers = self.flow.callers(function)
        bound = [self.flow.bind(function, call) for call in callers]
        given = [each.given.get(name, signature(function).defaults.get(name)) for each in bound]
        self._pending.add(function)
        # Each place in the code of a step gives it the same each time, though others may give something else.
        found = all(each.is_whole for each in bound) and all(each is not None and self.holds(each) for each in given)
        self._pending.discard(function)
        if not found or not callers:
            return False
        is_method = isinstance(module_of(self.flow, node).parent(function), ast.ClassDef)
        return not is_method or not any(map(self._runs_unseen, self._unseen_calls(function)))

    def _runs_unseen(self, call: ast.Call) -> bool:
        """Whether a call that is not followed may be of a model, and gives more than one argument."""
        kinds = {kind(self.flow, each) for each in self.flow.values(call.func)}
        return Kind.MODEL in kinds and len(arguments_of(call)) > 1


def _registers(node: ast.AST) -> bool:
    """Whether it makes a buffer, which may be changed in place."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "register_buffer"


def _around_in(module: Module, node: ast.AST) -> Iterator[ast.AST]:
    """What a node stands in, in its function."""
    for above in module.ancestors(node):
        if isinstance(above, FUNCTIONS):
            return
        yield above


def _holder(module: Module, node: ast.AST, name: str) -> Callee | None:
    """The function whose name it is at a place; None for the module's."""
    stores = {module.function(each) for each in module.stores.get(name, ())}
    for above in module.ancestors(node):
        if isinstance(above, FUNCTIONS) and (above in stores or name in signature(above).names):
            return above
    return None
