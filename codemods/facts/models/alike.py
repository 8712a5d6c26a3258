"""Which models have as many parameters as one another, of the same sizes and in the same order."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.names import bound_names, words
from codemods.dataflow.signatures import argument_of, arguments_of, signature
from codemods.dataflow.source import FUNCTIONS, is_name, lasting, walk
from codemods.dataflow.values import Instance, Made, Unknown, library_names, without_none
from codemods.facts.loops import module_of
from codemods.library.kinds import Kind, is_parameter, kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Value, Values

_CHANGES_LAYERS = words("add_module append extend insert pop register_module register_parameter")
_REPARAMETRIZES = (
    "torch.nn.utils.parametri",
    "torch.nn.utils.prune.",
    "torch.nn.utils.remove_",
    "torch.nn.utils.spectral_norm",
    "torch.nn.utils.weight_norm",
)
"""How the names begin of what gives a layer other parameters."""


@dataclass(frozen=True, eq=False)
class Alike:
    """Answers for one project."""

    flow: Flow

    def holds(self, module: Module, one: ast.expr, other: ast.expr, seen: frozenset[ast.AST] = frozenset()) -> bool:
        """Whether two expressions are models of one make: built alike, copied from one another, or loaded."""
        if ast.dump(one) == ast.dump(other):
            return True
        left, right = (without_none(self.flow.values(each)) for each in (one, other))
        if not left or not right or any(self._gets_layers(each) for each in left | right):
            return False
        if self._is_copied(module, one, other) or self._is_copied(module, other, one):
            return True
        wholes = self._wholes(one, other)
        if wholes is not None:
            return self.holds(module, *wholes, seen)
        if all(self._are_built_alike(each, counterpart) for each in left for counterpart in right):
            return True
        return {(left, right), (right, left)} & _loaded(self.flow) != set() or self._are_given(
            module, (one, other), seen
        )

    def _wholes(self, one: ast.expr, other: ast.expr) -> tuple[ast.expr, ast.expr] | None:
        """The models of which the two are the same part: ``net`` and ``target`` of ``net.head`` and ``target.head``."""
        match one, other:
            case ast.Attribute(whole, name), ast.Attribute(counterpart, also) if name == also:
                owners = self.flow.values(whole) | self.flow.values(counterpart)
                are_models = all(isinstance(each, Instance) and kind(self.flow, each) is Kind.MODEL for each in owners)
                return (whole, counterpart) if owners and are_models else None
        return None

    def _are_given(self, module: Module, pair: tuple[ast.expr, ast.expr], seen: frozenset[ast.AST]) -> bool:
        """Whether both are parameters of a function, which each call of it gives such models."""
        function = module.function(pair[0])
        if not isinstance(function, FUNCTIONS) or function in seen or self.flow.escapes(function):
            return False
        names = [each.id for each in pair if isinstance(each, ast.Name) and each.id in signature(function).names]
        is_bound = any(module.function(each) is function for name in names for each in module.stores.get(name, ()))
        calls = self.flow.callers(function)
        if len(names) < len(pair) or is_bound or not calls:
            return False
        return all(self._gives(function, each, names, seen | {function}) for each in calls)

    def _gives(self, function: Callee, call: ast.Call, names: Sequence[str], seen: frozenset[ast.AST]) -> bool:
        given = self.flow.bind(function, call).given
        if not all(each in given for each in names):
            return False
        return self.holds(module_of(self.flow, call), given[names[0]], given[names[1]], seen)

    def _are_built_alike(self, one: Value, other: Value) -> bool:
        if kind(self.flow, one) is not Kind.MODEL or not isinstance(one, (Instance, Made)) or one.site is None:
            return False
        if one == other:  # one call made both, or what one of them is a copy of
            return self._makes_alike(one.site, frozenset())
        if type(one) is not type(other) or one.name != other.name or (isinstance(one, Instance) and one.of != other.of):
            return False
        if not isinstance(one.site, ast.Call) or not isinstance(other.site, ast.Call):
            return False
        return _arguments(one.site) == _arguments(other.site) and self._mean_the_same(one.site, other.site)

    def _makes_alike(self, site: ast.AST, seen: frozenset[ast.AST]) -> bool:
        """Whether an expression makes the same each time, as each call of the function around it has the same text."""
        function = module_of(self.flow, site).function(site)
        if not isinstance(function, FUNCTIONS) or self.flow.owner(function) is not None:
            return True
        if function in seen or self.flow.escapes(function):
            return False
        calls = self.flow.callers(function)
        return all(
            _arguments(calls[0]) == _arguments(each)
            and (each is calls[0] or self._mean_the_same(calls[0], each))
            and self._makes_alike(each, seen | {function})
            for each in calls
        )

    def _is_copied(self, module: Module, one: ast.expr, other: ast.expr) -> bool:
        """Whether the second name is only ever given a ``copy.deepcopy`` of what the first one is."""
        if not isinstance(other, ast.Name):
            return False
        function = module.function(other)
        stores = [each for each in module.stores.get(other.id, ()) if module.function(each) is function]
        values = [getattr(module.statement(each), "value", None) for each in stores]
        return bool(values) and all(
            isinstance(each, ast.Call)
            and library_names(self.flow.values(each.func)) == {"copy.deepcopy"}
            and [ast.dump(given) for given in each.args] == [ast.dump(one)]
            for each in values
        )

    def _gets_layers(self, model: Value) -> bool:
        """Whether code beside its class may put layers or parameters into it, or into the one it is a copy of."""
        for module in self.flow.modules:
            if any(self._adds_to(each, model) for each in module.nodes(ast.Call)):
                return True
            for each in module.nodes(ast.Attribute):
                is_stored = isinstance(each.ctx, (ast.Store, ast.Del)) and not is_name(each.value, "self")
                if is_stored and model in self.flow.values(each.value) and self._may_be_layer(module, each):
                    return True
        return False

    def _adds_to(self, call: ast.Call, model: Value) -> bool:
        """``net.append(layer)``, ``net.head.add_module("out", layer)``, ``weight_norm(net.head)``."""
        if any(name.startswith(_REPARAMETRIZES) for name in library_names(self.flow.values(call.func))):
            return any(self._is_of(each, model) for each in arguments_of(call))
        match call.func:
            case ast.Attribute(owner, name) if name in _CHANGES_LAYERS:
                return not is_name(owner, "self") and self._is_of(owner, model)
        return False

    def _is_of(self, node: ast.expr, model: Value) -> bool:
        """Whether an expression is the model, or a layer of it: ``net``, ``net.head[0]``."""
        if model in self.flow.values(node):
            return True
        return isinstance(node, (ast.Attribute, ast.Subscript)) and self._is_of(node.value, model)

    def _may_be_layer(self, module: Module, store: ast.Attribute) -> bool:
        statement = module.statement(store)
        if not isinstance(statement, ast.Assign):
            return True
        values = self.flow.values(statement.value)
        return any(
            isinstance(each, Unknown) or is_parameter(self.flow, each) or kind(self.flow, each) is Kind.MODEL
            for each in values
        )

    def _mean_the_same(self, one: ast.Call, other: ast.Call) -> bool:
        """Whether the names in two calls are the same things: imported, or bound once in the function of both."""
        module = module_of(self.flow, one)
        stored = {each.id for each in walk(one) if isinstance(each, ast.Name) and each.id in module.stores}
        function = module.function(one)
        if not module.holds(other):
            return False
        if module.function(other) is not function:
            own = bound_names(function) if function is not None else frozenset()
            return not stored and not any(isinstance(each, ast.Name) and each.id in own for each in walk(one))
        return all(sum(module.function(each) is function for each in module.stores[name]) < 2 for name in stored)  # noqa: PLR2004 - once


def _arguments(call: ast.Call) -> list[str]:
    return [ast.dump(each) for each in (*call.args, *call.keywords)]


@lasting
def _loaded(flow: Flow) -> frozenset[tuple[Values, Values]]:
    """Pairs of models of which the first is given all weights of the second: they have the same names and sizes."""
    found = set()
    for module in flow.modules:
        for call in module.nodes(ast.Call):
            match call:
                case ast.Call(ast.Attribute(to, "load_state_dict"), [ast.Call(ast.Attribute(of, "state_dict"), [])]):
                    if argument_of(call, "strict", 1) is None:
                        found.add((without_none(flow.values(to)), without_none(flow.values(of))))
    return frozenset(found)
