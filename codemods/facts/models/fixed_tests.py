"""Is a condition the same each time that code runs: is it decided by options, or by how an object was made?"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from codemods.dataflow.names import assigned, decorators, scope_of, words
from codemods.dataflow.signatures import arguments_of, signature
from codemods.dataflow.source import FUNCTIONS, LOOPS, children
from codemods.dataflow.values import Choice, Class, Function, Literal, Unknown, library_names
from codemods.facts.loops import around, module_of
from codemods.library.kinds import WRAPPERS, Kind, kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Values

_OF_ANY = frozenset(f"builtins.{each}" for each in words("isinstance issubclass hasattr callable type"))
"""What says the same of all that a model is called with, as a rule."""
_OF_FIXED = frozenset(
    f"builtins.{each}"
    for each in words(
        "len range enumerate zip reversed list tuple sorted set dict str int float bool min max abs sum any all getattr"
        " round map filter iter"
    )
)
"""Functions that make the same of the same."""
_METHODS = words(
    "items keys values get lower upper startswith endswith strip split index count format children named_children"
)
_KEPT = words("training is_cuda device dtype ndim requires_grad")
"""Attributes that are the same in each iteration of a training."""
_MAKES = frozenset({"__init__", "__post_init__", "__new__"})


@dataclass(eq=False)
class FixedTests:
    """Answers for one project; what it does not know is not fixed."""

    flow: Flow
    _pending: set[ast.AST] = field(default_factory=set)

    def holds(self, node: ast.expr) -> bool:
        """Whether the expression is the same whenever its code runs for one object in one training."""
        values = self.flow.values(node)
        if values and all(isinstance(each, Choice) for each in values):
            return True
        match node:
            case ast.Constant() | ast.Lambda():
                return True
            case ast.Name(name):
                return self._is_fixed_name(node, name)
            case ast.Attribute(value, name):
                return name in _KEPT or (self.holds(value) and not self._is_set_late(name))
            case ast.NamedExpr(_, value):
                return self.holds(value)
            case ast.Call():
                return self._is_fixed_call(node)
            case ast.BoolOp() | ast.BinOp() | ast.UnaryOp() | ast.Compare() | ast.IfExp() | ast.Subscript():
                return self._all(node)
            case ast.Tuple() | ast.List() | ast.Set() | ast.Dict() | ast.JoinedStr() | ast.FormattedValue():
                return self._all(node)
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.Starred() | ast.Slice():
                return self._all(node)
        return False

    def _all(self, node: ast.AST) -> bool:
        """Whether all parts of an expression are."""
        for part in children(node):
            inner = (part.iter, *part.ifs) if isinstance(part, ast.comprehension) else (part,)
            if not all(self.holds(each) for each in inner if isinstance(each, ast.expr)):
                return False
        return True

    def _is_fixed_call(self, call: ast.Call) -> bool:
        """Whether a call returns the same each time: of what is the same itself, or of a type or a switch."""
        names = library_names(self.flow.values(call.func))
        if names and names <= _OF_ANY:
            return True
        if names and all(each.startswith("torch.") and each.rpartition(".")[2].startswith("is_") for each in names):
            return True
        arguments = all(map(self.holds, arguments_of(call)))
        if names and all(each in _OF_FIXED or each.startswith("os.") for each in names):
            return arguments
        if not isinstance(call.func, ast.Attribute):
            return False
        if call.func.attr == "dim":
            return True
        return call.func.attr in _METHODS and arguments and self.holds(call.func.value)

    def _is_fixed_name(self, node: ast.Name, name: str) -> bool:
        module = module_of(self.flow, node)
        function = module.function(node)
        stores = [each for each in module.stores.get(name, ()) if isinstance(each, ast.Name)]
        scopes = [function, *(each for each in module.ancestors(function or node) if isinstance(each, FUNCTIONS))]
        for scope in scopes if function is not None else ():
            own = [each for each in stores if module.function(each) is scope]
            if scope is not None and name in signature(scope).names:
                return not own and self._is_fixed_parameter(node, scope, name)
            if own:
                return all(map(partial(self._is_fixed_binding, module), own))
        if any(name in scope_of(each).outer_bound for each in module.nodes(ast.FunctionDef)):
            return False
        own = [each for each in stores if module.function(each) is None]
        return not any(isinstance(each, LOOPS) for store in own for each in module.ancestors(store))

    def _is_fixed_binding(self, module: Module, store: ast.Name) -> bool:
        """Whether what a name of a function is given there is the same each time."""
        if store in self._pending:
            return True
        self._pending.add(store)
        above = module.parent(store)
        while isinstance(above, (ast.Tuple, ast.List, ast.Starred)):
            above = module.parent(above)
        match above:
            case ast.For(iter=value) | ast.comprehension(iter=value) | ast.AugAssign(value=value):
                found = self.holds(value)
            case ast.Assign():
                pairs = dict(assigned(above))
                found = self.holds(pairs.get(store, above.value))
            case ast.AnnAssign(value=ast.expr() as value) | ast.NamedExpr(value=value):
                found = self.holds(value)
            case _:
                found = False
        self._pending.discard(store)
        return found

    def _is_fixed_parameter(self, node: ast.Name, function: Callee, name: str) -> bool:
        """Whether a function is given the same by all its calls, which are seen; or it is the object of a method."""
        module = module_of(self.flow, node)
        names = signature(function).positional_names
        is_method = isinstance(module.parent(function), ast.ClassDef)
        if is_method and names[:1] == (name,):
            return True
        values = self._given(function, name) or self.flow.values(node)
        if len(values) != 1 or not all(isinstance(each, Literal) for each in values):
            return False
        place = names.index(name) - is_method if name in names else None
        return not any(self._may_give(call, name, place) for call in self._unseen_calls(function))

    def _given(self, function: Callee, name: str) -> Values:
        """What the calls of a function that are seen give a parameter."""
        found: Values = frozenset()
        for call in self.flow.callers(function):
            binding = self.flow.bind(function, call)
            given = binding.given.get(name, signature(function).defaults.get(name))
            if not binding.is_whole or given is None or not self.flow.values(given):
                return frozenset()
            found |= self.flow.values(given)
        return found

    def _unseen_calls(self, function: Callee) -> Iterator[ast.Call]:
        """The calls that may run a function and are not followed into it: ``nn.DataParallel(net)(x, 3)``."""
        seen = set(self.flow.callers(function))
        for module in self.flow.modules:
            for call in module.nodes(ast.Call):
                values = self.flow.values(call.func)
                is_followed = call in seen or any(isinstance(each, (Function, Class)) for each in values)
                if not is_followed and all(kind(self.flow, each) in {None, Kind.MODEL} for each in values):
                    yield call

    def _may_give(self, call: ast.Call, name: str, place: int | None) -> bool:
        """Whether such a call may give the parameter something."""
        values = self.flow.values(call.func)
        is_wrapped = any(each.name in WRAPPERS for each in values)
        if is_wrapped and place is not None and len(call.args) > place:
            return True
        is_model = not values or any(
            kind(self.flow, each) is Kind.MODEL or isinstance(each, Unknown) for each in values
        )
        return is_model and any(each.arg == name for each in call.keywords)

    def _is_set_late(self, name: str) -> bool:
        """Whether an attribute of that name may be set after an object is made: by a method, or in a loop."""
        for module in self.flow.modules:
            if name not in module.text:
                continue
            for node in module.nodes(ast.Attribute):
                if node.attr == name and isinstance(node.ctx, ast.Store) and self._is_late(module, node):
                    return True
            for function in module.nodes(ast.FunctionDef):
                if function.name == name and "property" in decorators(function):
                    return True
        return False

    def _is_late(self, module: Module, node: ast.AST) -> bool:
        function = module.function(node)
        if isinstance(function, ast.FunctionDef) and isinstance(module.parent(function), ast.ClassDef):
            return not self._only_makes(function, frozenset())
        return any(isinstance(above, LOOPS) for above, _ in around(self.flow, module, node))

    def _only_makes(self, function: Callee, seen: frozenset[Callee]) -> bool:
        """Whether a method runs only while an object is made."""
        if getattr(function, "name", "") in _MAKES:
            return True
        callers = self.flow.callers(function)
        above = [module_of(self.flow, call).function(call) for call in callers]
        seen |= {function}
        return bool(callers) and all(
            each is not None and (each in seen or self._only_makes(each, seen)) for each in above
        )
