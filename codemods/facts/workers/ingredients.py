"""Where the script changes what items are made of: the data set, and names, classes, lists or models that it reads."""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import TYPE_CHECKING, TypeAlias

from codemods.dataflow.names import bound_names, declared_outer, decorators
from codemods.dataflow.recursion import closure
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import FUNCTIONS, LOOPS, is_main_guard, is_name, lasting, walk
from codemods.dataflow.values import NOTHING, Choice, Class, Container, Instance, Made, in_order, owner_of, without_none
from codemods.facts.data.reading_order import is_between_batches
from codemods.facts.models.layers import Model
from codemods.facts.models.optimized import given_parameters, models_given
from codemods.facts.reason import HERE, Reason
from codemods.facts.workers.payload import is_of_comprehension
from codemods.facts.workers.shared_state import (
    are_being_made,
    changed_by,
    changes,
    changes_of_objects,
    changes_of_what_is_sent,
    is_array,
    settings_from_outside,
    what_is_changed,
    why_unseen,
    written_by,
)
from codemods.library.kinds import Kind, kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Value, Values
    from codemods.facts.workers.payload import WorkerCode

    _Change: TypeAlias = tuple[Module, ast.expr, ast.expr]
    """Where something is changed, by which node, and what that says to be changed."""


def changes_of_ingredients(code: WorkerCode) -> Iterator[tuple[str, Module, ast.expr]]:
    """Where the script changes what items are made of, whether workers are sent that or read it, and what, in words."""
    for module, node in changes_of_what_is_sent(code):
        yield what_is_changed(code, node), module, node
    for module, node in changes_of_what_is_read(code):
        yield "what its items are made of", module, node


def why_changed_while_read(code: WorkerCode) -> Reason | None:
    """Where that is changed while the data set is read: workers would go on with what they were started with."""
    for what, module, node in changes_of_ingredients(code):
        if is_between_batches(code.flow, code.loader, module, node):
            text = f"{what} is changed while it is read, unseen by workers ({HERE})"
            return Reason("dataset-changes", text, (code.at(node),))
    return None


def changes_of_what_is_read(code: WorkerCode) -> Iterator[tuple[Module, ast.expr]]:
    """Where the script changes what items are made of, other than by an attribute or a method of what is sent.

    A list, a dictionary or options that the data set was given (``args.level = 3``), an attribute of a class
    (``Images.epoch = 3``), what a name stands for (``SIZE = 64``), the weights of a model.
    """
    named = frozenset(value for _, _, name in _outer_names(code) for value in without_none(code.flow.values(name)))
    used = (each for each in code.objects if each not in code.idle)
    things = frozenset(each for each in (*used, *named) if isinstance(each, (Choice, Class)) or _is_filled(each))
    yield from _changes_of_things(code, things | _classes(code))
    yield from changes_of_objects(code, frozenset(each for each in named if isinstance(each, (Instance, Made))))
    yield from _changes_of_names(code)
    yield from _changes_of_models(code)


def why_class_is_changed(code: WorkerCode) -> Reason | None:
    """``Images.level = 3`` in code that only the script runs, where a worker reads ``self.level``."""
    for module, node in _changes_of_things(code, _classes(code)):
        outside = module.ancestors(node)
        is_unseen = any(isinstance(each, FUNCTIONS) or is_main_guard(each) for each in outside)
        if is_unseen and isinstance(node, ast.Attribute):
            return why_unseen(code, node.attr, node)
    return None


def _classes(code: WorkerCode) -> Values:
    """The project's classes whose objects workers have copies of, and the bases of these."""
    return frozenset(Class(each.name, each) for each in code.classes)


# What workers have, and the script has, too.


def _changes_of_things(code: WorkerCode, things: Values) -> Iterator[tuple[Module, ast.expr]]:
    """Where lists, dictionaries, options or classes are changed: ``labels[i] = 0``, ``args.level = 3``."""
    beside = code.flow.beside(code.loader.module)
    known = _changes_by_value(code.flow)
    found: dict[_Change, list[Value]] = {}
    for thing in in_order(things):
        for change in known.get(thing, ()):
            found.setdefault(change, []).append(thing)
    for (module, node, changed), values in found.items():
        function = module.function(node)
        is_read = not isinstance(node, ast.Attribute) or node.attr in code.attributes_read
        if not is_read or function in code.functions or _is_part_of_self(code, function, node):
            continue
        if all(isinstance(each, Choice) for each in values) and module not in beside:
            continue  # the options of another script, which have the same name
        filled = frozenset(filter(_is_filled, values))
        if not (isinstance(changed, ast.Name) and filled and are_being_made(code, module, changed, filled)):
            yield module, node


def _is_part_of_self(code: WorkerCode, function: Callee | None, node: ast.expr) -> bool:
    """Whether a method changes what its object holds: what calls it changes that object."""
    if function is None or code.flow.owner(function) not in code.classes or "classmethod" in decorators(function):
        return False
    first = changed_by(node)
    while isinstance(first, (ast.Attribute, ast.Subscript)):
        first = first.value
    return any(is_name(first, each) for each in signature(function).positional_names[:1])


def changes_of_lists(flow: Flow, lists: Values) -> Iterator[tuple[Module, ast.expr]]:
    """Where the script changes one of the lists: ``steps.append(crop)``, ``steps[0] = crop``, ``steps += [crop]``."""
    known = _changes_by_value(flow)
    found = (change for each in in_order(lists) for change in known.get(each, ()))
    yield from dict.fromkeys((module, node) for module, node, _ in found)


@lasting  # each loader asks
def _changes_by_value(flow: Flow) -> Mapping[Value, Sequence[_Change]]:
    """The changes of all modules, each under what it changes."""
    found: defaultdict[Value, list[_Change]] = defaultdict(list)
    for module in flow.modules:
        for _, node in changes(module.tree):
            changed = changed_by(node)
            for value in _what_it_is(flow, changed):
                found[value].append((module, node, changed))
        for statement in module.nodes(ast.AugAssign):
            for value in filter(_is_filled, _before(flow, statement)):  # another number or text is another object
                found[value].append((module, statement.target, statement.target))
        for call in module.nodes(ast.Call):
            for changed in written_by(flow, call):
                for value in filter(_is_filled, flow.values(changed)):
                    found[value].append((module, call, changed))
    return found


def _before(flow: Flow, statement: ast.AugAssign) -> Values:
    """What the target of ``x += 1`` is before."""
    target = statement.target
    before = flow.before(statement).get(target.id, NOTHING) if isinstance(target, ast.Name) else NOTHING
    return before | flow.values(target)


def _is_filled(value: Value) -> bool:
    """Whether it can be another one afterwards without another name for it: a list, a dictionary, an array."""
    return isinstance(value, Container) or (is_array(value) and value.site is not None)


def _what_it_is(flow: Flow, node: ast.expr) -> Values:
    """What an expression is, also ``type(self)`` and ``self.__class__``."""
    match node:
        case ast.Call(ast.Name("type"), [of]) | ast.Attribute(of, "__class__"):
            return frozenset(each.of for each in flow.values(of) if isinstance(each, Instance))
    return flow.values(node)


# What names stand for.


def _outer_names(code: WorkerCode) -> Iterator[tuple[Module, Callee | None, ast.Name]]:
    """The names that workers read of modules, and of functions around theirs; with the function, or None."""
    yield from ((module, None, node) for (module, _), node in code.names_read.items())
    for function in code.functions:
        module = code.flow.module_of(function)
        around = [each for each in module.ancestors(function) if isinstance(each, FUNCTIONS)]
        own = bound_names(function)
        found: dict[str, ast.Name] = {}
        for node in walk(function) if around else ():
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in own:
                found.setdefault(node.id, node)
        for name, node in found.items():
            scope = next((each for each in around if name in bound_names(each)), None)
            if scope is not None:
                yield module, scope, node


def _changes_of_names(code: WorkerCode) -> Iterator[tuple[Module, ast.expr]]:
    """Where names that workers read are given another value, or what they name is changed."""
    for home, scope, name in _outer_names(code):
        stores = [each for each in home.stores.get(name.id, ()) if _is_of_scope(home, each, scope)]
        if len(stores) > 1 or any(home.function(each) is not scope or _is_in_loop(home, each) for each in stores):
            yield from ((home, each) for each in stores)
    yield from ((module, node) for module, node, _ in settings_from_outside(code))
    for module in code.flow.modules:
        for path, node in changes(module.tree):
            function = module.function(node)
            is_local = function is not None and path.partition(".")[0] in bound_names(function)
            if path and not is_local and function not in code.functions and code.reads(module, path):
                yield module, node


def _is_of_scope(module: Module, node: ast.expr, scope: Callee | None) -> bool:
    """Whether a name that is bound there is that of the function, or of the module."""
    if not isinstance(node, ast.Name) or is_of_comprehension(module, node):
        return False
    function = module.function(node)
    return function is scope or (function is not None and node.id in declared_outer(function))


def _is_in_loop(module: Module, node: ast.AST) -> bool:
    return any(isinstance(each, LOOPS) for each in module.ancestors(node))


# Models.


def _changes_of_models(code: WorkerCode) -> Iterator[tuple[Module, ast.expr]]:
    """Where a model that workers have a copy of gets other weights: by an optimizer, or as ``p.data.mul_(0.9)``."""
    models = [each for each in code.objects if each not in code.idle and kind(code.flow, each) is Kind.MODEL]
    layers = frozenset(_layers(code.flow, models))
    for optimizer, call in _optimizers(code.flow) if layers else ():
        given = given_parameters(call)
        trained = models_given(code.flow, code.flow.values(given)) if given is not None else ()
        if isinstance(trained, Reason) or not layers.isdisjoint(_layers(code.flow, trained)):
            yield from _called(code.flow, optimizer, "step")
    for model in in_order(layers):
        yield from _called(code.flow, model, "load_state_dict")
    for value, found in _changes_by_value(code.flow).items() if layers else ():
        if any(each in layers for each in closure([value], _owners)):
            yield from ((module, node) for module, node, _ in found)


def _owners(value: Value) -> Iterator[Value]:
    owner = owner_of(value)
    if owner is not None:
        yield owner


def _called(flow: Flow, value: Value, method: str) -> Iterator[tuple[Module, ast.expr]]:
    """The calls of the value's method, and those that give it to another object's: ``scaler.step(optimizer)``."""
    for module, node in flow.places(value):
        above = module.parent(node)
        call = module.parent(above) if isinstance(above, ast.Attribute) else above
        if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == method:
            yield module, call


def _layers(flow: Flow, models: Iterable[Value]) -> Iterator[Value]:
    return (layer for each in models for layer in Model(flow, each).layers)


@lasting
def _optimizers(flow: Flow) -> tuple[tuple[Value, ast.Call], ...]:
    """The optimizers that the script makes, each with the call."""
    return tuple(
        (value, call)
        for module in flow.modules
        for call in module.nodes(ast.Call)
        for value in flow.values(call)
        if value.site is call and kind(flow, value) is Kind.OPTIMIZER
    )
