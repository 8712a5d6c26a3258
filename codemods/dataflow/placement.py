"""What can be said at a place: which names mean the same there, and how the module spells PyTorch."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow import names
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import FUNCTIONS, is_main_guard, walk
from codemods.dataflow.values import NONE, Choice, Method, Unbound, external

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Values


def means_the_same(flow: Flow, module: Module, expression: ast.expr, place: ast.stmt) -> bool:
    """Whether a name or attribute of somewhere else in the module is bound at ``place``, to the same value.

    Only what is certain counts: a local name of the same function that has exactly the same values before the
    statement, or a name that the module binds once, unconditionally, before the function that holds the place is
    defined.
    """
    if isinstance(expression, (ast.Compare, ast.BoolOp, ast.UnaryOp)):
        parts = [each for each in ast.iter_child_nodes(expression) if isinstance(each, ast.expr)]
        return all(isinstance(each, ast.Constant) or means_the_same(flow, module, each, place) for each in parts)
    if isinstance(expression, ast.Attribute):
        if _is_own(module, expression, place):
            return _attribute_stays(flow, module, expression, place)
        return means_the_same(flow, module, expression.value, place) and _attribute_stays(
            flow, module, expression, place
        )
    if not isinstance(expression, ast.Name):
        return False
    name = expression.id
    here = module.function(place)
    there = module.function(expression)
    local = flow.before(place).get(name)
    if local is not None:
        return (
            not any(isinstance(each, Unbound) for each in local)
            and local == flow.values(expression)
            and (there is here or there is None or here is None or not _is_parameter(here, name))
        )
    if here is None or (there is not None and there is not here and name in names.bound_names(there)):
        return False
    if name in names.declared_outer(here):
        return _is_set_above(module, name, place, is_here=there is here)
    # `device = None` at the top, and a `global device` somewhere, is not a device wherever it is read.
    return bound_for(module, name, here) and NONE not in flow.read_module_name(module, name)


def _is_set_above(module: Module, name: str, place: ast.stmt, *, is_here: bool) -> bool:
    """Whether ``global args`` in the function of the place lets that alone bind the module's name, once, before it.

    What the module binds it to before that, ``args = None``, is another value for what is read elsewhere.
    """
    here = module.function(place)
    declarations = [each for each in module.nodes(ast.Global, ast.Nonlocal) if name in each.names]
    bindings = [each for each in module.nodes(ast.Name) if each.id == name and not isinstance(each.ctx, ast.Load)]
    binders = [each for each in bindings if _declares(declarations, module, each)]
    return (
        here is not None
        and all(isinstance(each, ast.Global) for each in declarations)
        and (is_here or name not in names.bound_names(module.tree))
        and len(binders) == 1
        and isinstance(module.parent(binders[0]), (ast.Assign, ast.AnnAssign))
        and dominates(module, module.statement(binders[0]), place)
    )


def _declares(declarations: Sequence[ast.stmt], module: Module, binding: ast.Name) -> bool:
    """Whether the function that binds the name declares it."""
    function = module.function(binding)
    return any(module.function(each) is function for each in declarations)


def bound_inside(module: Module, node: ast.AST) -> frozenset[str]:
    """The names that a lambda or a comprehension around the node, within its statement, means otherwise."""
    found: set[str] = set()
    for above in module.ancestors(node):
        if isinstance(above, ast.stmt):
            break
        if isinstance(above, ast.Lambda):
            found |= names.bound_names(above)
        if isinstance(above, ast.comprehension):
            continue
        for generator in getattr(above, "generators", ()):
            found |= {each.id for each in walk(generator.target) if isinstance(each, ast.Name)}
    return frozenset(found)


def bound_for(module: Module, name: str, function: ast.AST) -> bool:
    """Whether a module's name is bound, once and unconditionally, before the top-level definition around a function."""
    top = function
    for above in module.ancestors(function):
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and name in names.bound_names(above):
            return False
        if isinstance(above, ast.Module):
            break
        top = above
    if name in names.bound_names(function):
        return False
    bindings = [each for each in module.nodes(ast.Name) if each.id == name and isinstance(each.ctx, ast.Store)]
    imports = [
        each for each in module.tree.body if isinstance(each, (ast.Import, ast.ImportFrom)) and _binds(each, name)
    ]
    places = [*(module.statement(each) for each in bindings if module.function(each) is None), *imports]
    return (
        len(places) == 1
        and module.parent(places[0]) is module.tree
        and isinstance(top, ast.stmt)
        and places[0].lineno < top.lineno
    )


def spelled(flow: Flow, module: Module, qualified: str, place: ast.stmt) -> str | None:
    """How the module writes a library's qualified name at ``place``: ``torch.no_grad``, ``th.no_grad``, ``no_grad``.

    None where no import that is visible there leads to it.
    """
    here = module.function(place)
    head, tail = qualified, ""
    while head:
        for candidate in _imported_as(flow, module, head, place, here):
            return candidate + tail
        head, _, last = head.rpartition(".")
        tail = f".{last}{tail}"
    return None


def _imported_as(flow: Flow, module: Module, qualified: str, place: ast.stmt, here: ast.AST | None) -> list[str]:
    wanted = external(qualified)
    found = [name for name, values in flow.before(place).items() if values == wanted]
    if here is None:
        return found
    for statement in _imports(module):
        # At module level, perhaps in a `try`; not under an `if TYPE_CHECKING:`.
        if all(isinstance(each, (ast.Module, ast.Try, ast.ExceptHandler)) for each in module.ancestors(statement)):
            for name, _ in names.imported(statement):
                if flow.read_module_name(module, name) == wanted and bound_for_import(module, name, here):
                    found.append(name)
    return found or [each for each in _from_star(flow, module, wanted) if bound_for_import(module, each, here)]


def _from_star(flow: Flow, module: Module, wanted: Values) -> Iterator[str]:
    """The names that the module reads, and has from the ``from utils import *`` of a module of the project alone."""
    if not any(alias.name == "*" for each in module.nodes(ast.ImportFrom) for alias in each.names):
        return
    bound = names.bound_names(module.tree)
    read = dict.fromkeys(each.id for each in module.nodes(ast.Name) if isinstance(each.ctx, ast.Load))
    yield from (each for each in read if each not in bound and flow.from_star(module, each) == wanted)


def is_free_for(module: Module, name: str, target: str) -> bool:
    """Whether the module binds the name nowhere, or only by imports of ``target``, and does not read it unbound.

    A name that is read and bound by nothing that can be seen comes from a star import, or the script does not run.
    """
    imports = [pair for each in _imports(module) for pair in names.imported(each)]
    importing = {module.function(each) for each in _imports(module) if _binds(each, name)}
    for each in module.nodes(ast.Name):
        is_read = each.id == name and isinstance(each.ctx, ast.Load)
        if is_read and None not in importing and importing.isdisjoint(module.ancestors(each)):
            return False
    stored = {each.id for each in module.nodes(ast.Name) if not isinstance(each.ctx, ast.Load)}
    parameters = {each.arg for each in module.nodes(ast.arg)}
    functions, classes = module.nodes(ast.FunctionDef), module.nodes(ast.ClassDef)
    defined = {each.name for each in functions} | {each.name for each in classes}
    return name not in stored | parameters | defined and all(of == target for bound, of in imports if bound == name)


def is_pythons_own(module: Module, name: str, place: ast.AST) -> bool:
    """Whether a builtin is Python's at the place: some scripts give a variable that name, or a star import does."""
    scopes = (each for each in module.ancestors(place) if isinstance(each, (ast.Module, *FUNCTIONS)))
    if any(name in names.bound_names(each) for each in scopes):
        return False
    return not any(name in names.HIDDEN_BUILTINS.get(each, ()) for each in names.star_imports(module))


def _imports(module: Module) -> list[ast.Import | ast.ImportFrom]:
    return [*module.nodes(ast.Import), *module.nodes(ast.ImportFrom)]


def bound_for_import(module: Module, name: str, function: ast.AST) -> bool:
    """Whether a name that the module imports at its top is the import wherever the function reads it."""
    for scope in (function, *module.ancestors(function)):
        if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and name in names.bound_names(scope):
            return False
    return True


def _binds(statement: ast.Import | ast.ImportFrom, name: str) -> bool:
    return any(bound == name for bound, _ in names.imported(statement))


def _is_parameter(function: ast.AST, name: str) -> bool:
    return isinstance(function, FUNCTIONS) and any(each.arg == name for each in signature(function).named)


def _attribute_stays(flow: Flow, module: Module, expression: ast.Attribute, place: ast.stmt) -> bool:
    """Whether ``args.cuda`` is the same at the place: the user's choice, or written only before it in one suite."""
    writes = [
        each
        for each in module.nodes(ast.Attribute)
        if each.attr == expression.attr
        and isinstance(each.ctx, ast.Store)
        and ast.unparse(each.value) == ast.unparse(expression.value)
        and (ast.unparse(each.value) != "self" or _class(module, each) is _class(module, expression))
    ]
    if not writes:
        # The user's choice, or what never changes: the type of a device.
        values = flow.values(expression)
        return bool(values) and all(
            isinstance(each, Choice) or (isinstance(each, Method) and each.name == "type") for each in values
        )
    return all(dominates(module, module.statement(each), place) for each in writes)


def _is_own(module: Module, expression: ast.Attribute, place: ast.stmt) -> bool:
    """Whether it is an attribute of ``self``, and both stand in methods of one class that call their object so."""
    functions = [module.function(expression), module.function(place)]
    owners = [
        module.parent(each) if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) else None for each in functions
    ]
    firsts = [name for each in functions if each is not None for name in signature(each).positional_names[:1]]
    name = expression.value.id if isinstance(expression.value, ast.Name) else None
    return isinstance(owners[0], ast.ClassDef) and owners[0] is owners[1] and firsts == [name, name]


def _class(module: Module, node: ast.AST) -> ast.AST | None:
    return next((each for each in module.ancestors(node) if isinstance(each, ast.ClassDef)), None)


def dominates(module: Module, first: ast.stmt, second: ast.stmt) -> bool:
    """Whether ``first`` has certainly run when ``second`` starts, both in one function or both at module level."""
    if module.function(first) is not module.function(second):
        return False
    chain = [second, *(each for each in module.ancestors(second) if isinstance(each, ast.stmt))]
    for outer in chain:
        suite = module.suite(outer)
        if any(each is first for each in suite):
            return suite.index(first) < suite.index(outer)
        guard = next((each for each in suite if is_main_guard(each) and first in each.body), None)
        if guard is not None:
            return suite.index(guard) < suite.index(outer)
    return False
