"""What the only statement that binds a name gives it, or the only call that fills a parameter."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.names import words
from codemods.dataflow.recursion import closure
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import lasting, walk
from codemods.dataflow.values import Class, Function, Method
from codemods.facts.attribute_access import written_by_name

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Container

_CHANGING = words("append extend insert pop remove clear reverse sort __setitem__ __delitem__ __iadd__")
"""Methods that change a list."""


def binding(flow: Flow, name: ast.Name) -> ast.expr | None:
    """What the only statement that binds a name in its function or module gives it."""
    module = next((each for each in flow.modules if each.holds(name)), None)
    if module is None:
        return None
    function = _scope(module, name)
    for scope in (function, None) if function is not None else (None,):
        bound = [
            each
            for each in module.nodes(ast.Name)
            if each.id == name.id and not isinstance(each.ctx, ast.Load) and module.function(each) is scope
        ]
        if len(bound) == 1:
            return _given(module.statement(bound[0]), bound[0])
        if bound or (scope is not None and name.id in signature(scope).names):
            return None
    return None


def origin(flow: Flow, name: ast.Name | ast.Attribute) -> ast.expr | None:
    """What a name holds at last, where only names hand it on: by assignments, or as arguments of their only calls.

    It may be an attribute that an object gives itself, ``self.size``, where one statement of the project does.
    """

    def handed_on(node: ast.expr) -> list[ast.expr]:
        before = binding(flow, node) or _argument(flow, node) if isinstance(node, ast.Name) else _kept(flow, node)
        return [] if before is None else [before]

    starts: list[ast.expr] = [name]
    found = list(closure(starts, handed_on))[-1]
    return None if handed_on(found) or isinstance(found, ast.Name) else found


@lasting  # asked for each attribute that a constructor reads
def _kept(flow: Flow, node: ast.expr) -> ast.expr | None:
    """What an object's constructor gives ``self.size``, read in another place of its class, where nothing else does."""
    if not isinstance(node, ast.Attribute) or not _is_of_self(node):
        return None
    places = [(module, each) for module in flow.modules for each in module.nodes(ast.Attribute)]
    stored = [
        (module, each) for module, each in places if each.attr == node.attr and not isinstance(each.ctx, ast.Load)
    ]
    by_name = (each.name for module in flow.modules for each in written_by_name(flow, module))
    if len(stored) != 1 or not _is_of_self(stored[0][1]) or any(each in {None, node.attr} for each in by_name):
        return None
    module, target = stored[0]
    function = module.function(target)
    reader = next((each.function(node) for each in flow.modules if each.holds(node)), None)
    if not isinstance(function, ast.FunctionDef) or function.name != "__init__" or reader is None:
        return None
    is_own = flow.owner(reader) is not None and flow.owner(reader) is flow.owner(function)
    return _given(module.statement(target), target) if is_own and node is not target else None


def _is_of_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"


def _argument(flow: Flow, name: ast.Name) -> ast.expr | None:
    """What the only call of its function gives a parameter that the function leaves as it is."""
    module = next((each for each in flow.modules if each.holds(name)), None)
    function = _scope(module, name) if module is not None else None
    if module is None or function is None or name.id not in signature(function).names or flow.escapes(function):
        return None
    stores = (each for each in module.nodes(ast.Name) if each.id == name.id and not isinstance(each.ctx, ast.Load))
    calls = flow.callers(function)
    if len(calls) != 1 or any(module.function(each) is function for each in stores):
        return None
    bound = flow.bind(function, calls[0])
    given = bound.get(name.id)
    return given if bound.is_whole or given is not None else _entry(flow, calls[0], name.id)


def _entry(flow: Flow, call: ast.Call, name: str) -> ast.expr | None:
    """What a call gives a parameter by ``**kwargs``: one dictionary's entry, which stays as it is written."""
    spread = [each.value for each in call.keywords if each.arg is None]
    is_starred = any(isinstance(each, ast.Starred) for each in call.args)
    is_direct = all(isinstance(each, (Class, Function, Method)) for each in flow.values(call.func))
    if len(spread) != 1 or is_starred or not is_direct or not isinstance(spread[0], ast.Name):
        return None
    made = binding(flow, spread[0])
    if not isinstance(made, ast.Dict) or not all(isinstance(each, ast.Constant) for each in made.keys):
        return None
    module = next(each for each in flow.modules if each.holds(call))
    if any(_may_set(module, each, name) for each in module.nodes(ast.Name) if each.id == spread[0].id):
        return None
    entries = (item for key, item in zip(made.keys, made.values, strict=True) if _is_key(key, name))
    return next(entries, None)


@lasting  # asked for each name of a list of widths
def is_changed(flow: Flow, container: Container) -> bool:
    """Whether a list may be changed where it is named: by a method that changes it, or by an item that is set."""
    for module in flow.modules:
        places = [each.value for each in module.nodes(ast.Attribute) if each.attr in _CHANGING]
        places += [each.value for each in module.nodes(ast.Subscript) if not isinstance(each.ctx, ast.Load)]
        places += [each.target for each in module.nodes(ast.AugAssign)]
        if any(container in flow.values(each) for each in places):
            return True
    return False


def _may_set(module: Module, owner: ast.Name, key: str) -> bool:
    """Whether an entry of a dictionary may be set where the dictionary's name stands."""
    match module.parent(owner):
        case ast.keyword(None):
            return False
        case ast.Subscript(ast.Name(), ast.Constant() as item) as place:
            return item.value == key and not isinstance(place.ctx, ast.Load)
    return isinstance(owner.ctx, ast.Load)


def _is_key(key: ast.expr | None, name: str) -> bool:
    return isinstance(key, ast.Constant) and key.value == name


def _scope(module: Module, name: ast.Name) -> Callee | None:
    """The function whose names an expression reads: what a parameter is by default is read around its function."""
    function = module.function(name)
    is_default = function is not None and any(each is name for each in walk(function.args))
    return module.function(function) if function is not None and is_default else function


def _given(statement: ast.stmt, name: ast.expr) -> ast.expr | None:
    """What an assignment with one target gives the name, or attribute: ``x = 1``, ``x, y = 1, 2``."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    (target,), value = statement.targets, statement.value
    if target is name:
        return value
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple) or len(target.elts) != len(value.elts):
        return None
    is_starred = any(isinstance(each, ast.Starred) for each in (*target.elts, *value.elts))
    pairs = zip(target.elts, value.elts, strict=True)
    return None if is_starred else next((given for each, given in pairs if each is name), None)
