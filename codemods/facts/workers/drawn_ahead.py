"""What a sampler reads anew for each batch, while the loop changes it: with workers, several batches are drawn ahead.

A sampler that draws a whole epoch at once, as those of torch do, draws the same with workers and without.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from codemods.dataflow.names import bound_names, scope_of, words
from codemods.dataflow.source import FUNCTIONS, walk
from codemods.dataflow.values import (
    NOTHING,
    Container,
    Function,
    HostTensor,
    Instance,
    Made,
    Method,
    MovedTensor,
    class_of,
    without_none,
)
from codemods.facts.data.reads import runs_meanwhile
from codemods.facts.reach import own
from codemods.facts.reason import HERE, Reason
from codemods.facts.workers.shared_state import written_by
from codemods.library.kinds import Kind, argument, kind
from codemods.library.samplers import read_for_each_batch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Value, Values
    from codemods.facts.data.loaders import Loader

_PASSING_ON = words("builtins.enumerate builtins.filter builtins.iter builtins.map builtins.reversed builtins.zip")
"""Iterators that ask their arguments for one item after the other; those of itertools do, too."""
_LOOKING = words("__len__ state_dict")
_CHANGEABLE = (Container, HostTensor, Instance, Made, MovedTensor)
_ANY = "*"


def why_drawn_ahead(flow: Flow, loader: Loader) -> Reason | None:
    """Where the loop over the loader changes what its sampler draws the next batch by."""
    late = _Late(flow)
    for name in ("sampler", "batch_sampler"):
        if name in loader.arguments:
            late.add_order(loader.arguments[name].values)
    if late.model is not None:
        text = f"its sampler asks a model which batch is next ({HERE}), and workers draw several ahead of the training"
        return Reason("sampler-changes", text, (loader.at(late.model),))
    for module in flow.modules:
        for node in late.changed_in(module):
            if runs_meanwhile(flow, loader.passes, module, node):
                text = f"what its sampler draws each batch by is changed while it is read ({HERE})"
                return Reason("sampler-changes", f"{text}, and workers draw several ahead", (loader.at(node),))
    return None


@dataclass(eq=False)
class _Late:
    """What samplers read after they yielded the first index."""

    flow: Flow
    model: ast.AST | None = None
    """Where one of them calls a model."""
    _orders: dict[Value, None] = field(default_factory=dict)
    _code: dict[ast.AST, None] = field(default_factory=dict)
    _attributes: set[tuple[ast.AST, str]] = field(default_factory=set)
    """The attributes, each with the class or the call that made what has it."""
    _names: set[tuple[Module, str]] = field(default_factory=set)
    _things: set[Value] = field(default_factory=set)
    """The lists, arrays and other objects whose parts they read."""

    # What is read.

    def add_order(self, values: Values) -> None:
        """Notes what the samplers among the values read late; a list is read item by item."""
        for value in without_none(values):
            if value in self._orders:
                continue
            self._orders[value] = None
            class_ = class_of(value)
            if class_ is not None and isinstance(value, Instance):
                self._add_own(class_)
            elif isinstance(value, Made) and isinstance(value.site, ast.Call):
                self._add_library(value, value.site)
            elif isinstance(value, _CHANGEABLE):
                self._things.add(value)
                made_by = self.flow.called(value.site) if isinstance(value.site, ast.Call) else ()
                for function in made_by:
                    self._add_iterator(function)

    def _add_own(self, class_: ast.ClassDef) -> None:
        for name in ("__iter__", "__next__"):
            function = self.flow.method(class_, name)
            if name == "__next__" and function is not None:
                self._add_all(function)
            elif function is not None:
                self._add_iterator(function)
            elif name == "__iter__":
                bases = (each for each in self.flow.bases(class_) if isinstance(each, str))
                self._attributes |= {(class_, name) for base in bases for name in read_for_each_batch(base)}

    def _add_library(self, value: Value, call: ast.Call) -> None:
        """A sampler of torch, or of a library that is not known, which may read anything."""
        if not value.name.startswith("torch."):
            self._attributes.add((call, _ANY))
            return
        self._attributes |= {(call, name) for name in read_for_each_batch(value.name)}
        if value.name == "torch.utils.data.BatchSampler":
            self.add_order(argument(self.flow, call, 0, "sampler"))
        elif value.name == "torch.utils.data.SubsetRandomSampler":
            self._add_things(argument(self.flow, call, 0, "indices"))

    def _add_iterator(self, function: Callee) -> None:
        """Notes what a function reads that returns an iterator, once the first item was asked for."""
        if function in self._code:
            return
        self._code[function] = None
        yields = list(own(function, ast.Yield, ast.YieldFrom))
        for node in own(function, ast.AST):
            if isinstance(node, ast.For):
                self._add_iterated(node.iter)
            elif isinstance(node, (ast.YieldFrom, ast.Return)) and node.value is not None:
                self._add_iterated(node.value)
            elif isinstance(node, ast.GeneratorExp) and not yields:
                self._add_iterated(node.generators[0].iter)
                inner = [node.elt, *(test for each in node.generators for test in each.ifs)]
                self._add_nodes(function, [each for part in inner for each in walk(part)])
        self._add_nodes(function, list(_after(function, yields)))

    def _add_iterated(self, node: ast.expr) -> None:
        """Notes what is read of something that is asked for one item after the other."""
        self.add_order(frozenset(each for each in self.flow.values(node) if _is_order(self.flow, each)))
        self._add_things(self.flow.values(node))
        if isinstance(node, ast.Call):
            for function in self.flow.called(node):
                self._add_iterator(function)
            names = {each.name for each in self.flow.values(node.func)}
            if names & _PASSING_ON or any(each.startswith("itertools.") for each in names):
                for each in node.args:
                    self._add_iterated(each)
                    for value in self.flow.values(each):
                        if isinstance(value, (Function, Method)) and isinstance(value.site, FUNCTIONS):
                            self._add_all(value.site)

    def _add_all(self, function: Callee) -> None:
        """Notes all that a function reads."""
        if function not in self._code:
            self._code[function] = None
            self._add_nodes(function, [each for each in own(function, ast.AST) if each is not function])

    def _add_nodes(self, function: Callee, nodes: list[ast.AST]) -> None:
        outer = bound_names(self.flow.module_of(function).tree) - scope_of(function).local
        for node in nodes:
            if isinstance(node, ast.Call):
                self._add_called(node)
            if not isinstance(getattr(node, "ctx", None), ast.Load) or not isinstance(node, (ast.Name, ast.Attribute)):
                continue
            self._add_things(self.flow.values(node))
            if isinstance(node, ast.Attribute):
                owners = map(_identity, self.flow.values(node.value))
                self._attributes |= {(owner, node.attr) for owner in owners if owner is not None}
            elif node.id in outer:
                self._names.add((self.flow.module_of(function), node.id))

    def _add_called(self, call: ast.Call) -> None:
        if any(kind(self.flow, each) is Kind.MODEL for each in self.flow.values(call.func)):
            self.model = self.model or call
        for function in self.flow.called(call):
            self._add_all(function)

    def _add_things(self, values: Values) -> None:
        self._things |= {each for each in values if isinstance(each, _CHANGEABLE) and each.site is not None}

    # What is changed.

    def changed_in(self, module: Module) -> Iterator[ast.expr]:
        """Where a module changes what is read late."""
        for node in (*module.nodes(ast.Attribute, ast.Name), *module.nodes(ast.Subscript)):
            if not isinstance(node.ctx, ast.Load) and self._is_changed(module, node):
                yield node
        for call in module.nodes(ast.Call):
            if any(self._reads(each) for each in written_by(self.flow, call)) or self._may_change(call):
                yield call

    def _is_changed(self, module: Module, node: ast.Attribute | ast.Name | ast.Subscript) -> bool:
        """Whether a read attribute or name gets another value, or a read object another item."""
        if isinstance(node, ast.Subscript):
            return self._reads(node.value)
        above = module.parent(node)
        if isinstance(node, ast.Attribute):
            return self._reads_attribute(node)
        function = module.function(node)
        is_outer = function is None or node.id in scope_of(function).outer_bound
        if isinstance(above, ast.AugAssign):
            values = self.flow.before(above).get(node.id, NOTHING)
            return not self._things.isdisjoint(values) or (is_outer and (module, node.id) in self._names)
        return is_outer and (module, node.id) in self._names

    def _reads(self, node: ast.expr) -> bool:
        """Whether parts of what the expression is are read."""
        if isinstance(node, ast.Subscript) and self._reads(node.value):
            return True
        is_attribute = isinstance(node, ast.Attribute) and self._reads_attribute(node)
        return is_attribute or not self._things.isdisjoint(self.flow.values(node))

    def _reads_attribute(self, node: ast.Attribute) -> bool:
        owners = [each for each in map(_identity, self.flow.values(node.value)) if each is not None]
        return any((owner, name) in self._attributes for owner in owners for name in (node.attr, _ANY))

    def _may_change(self, call: ast.Call) -> bool:
        """Whether it sets an attribute by its name, or is a method of a sampler of a library that is not known."""
        func = call.func
        if call.args and any(each.name == "builtins.setattr" for each in self.flow.values(func)):
            changed = map(_identity, self.flow.values(call.args[0]))
            return not {owner for owner, _ in self._attributes}.isdisjoint(changed)
        if not isinstance(func, ast.Attribute) or func.attr in _LOOKING:
            return False
        owners = map(_identity, self.flow.values(func.value))
        return any((owner, _ANY) in self._attributes for owner in owners if owner is not None)


def _is_order(flow: Flow, value: Value) -> bool:
    """Whether it is another sampler, whose indices are handed on."""
    class_ = class_of(value)
    if isinstance(value, Instance) and class_ is not None:
        return kind(flow, value) is not Kind.DATASET and flow.method(class_, "__iter__") is not None
    return isinstance(value, Made) and value.name.startswith("torch.utils.data.") and value.name.endswith("Sampler")


def _identity(value: Value) -> ast.AST | None:
    """The class of a project's object, of which all are taken for one, or the call that made another one."""
    return class_of(value) or value.site


def _after(function: Callee, yields: Sequence[ast.expr]) -> Iterator[ast.AST]:
    """The nodes of a generator that may run after its first yield: in a loop with one, or below it."""
    first = min(((each.end_lineno or 0, each.end_col_offset or 0) for each in yields), default=None)
    if first is None:
        return
    repeated: set[ast.AST] = set()
    parts = [each.body for each in own(function, ast.For)]
    parts += [[each, *each.body] for each in own(function, ast.While)]
    for part in parts:
        nodes = {each for statement in part for each in walk(statement)}
        if not nodes.isdisjoint(yields):
            repeated |= nodes
    for node in own(function, ast.expr):
        if node in repeated or (node.lineno, node.col_offset) >= first:
            yield node
