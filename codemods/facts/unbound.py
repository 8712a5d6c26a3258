"""Which names nothing gives a value to, so that what reads them raises a ``NameError``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow import names
from codemods.dataflow.names import words
from codemods.dataflow.source import FUNCTIONS, is_main_guard, lasting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module

_GIVEN = words(
    """
    In Out WindowsError copyright credits dbutils display displayHTML exit get_ipython license profile quit
    reveal_type sc snakemake spark sqlContext
    """
)
"""What Python, its profilers, notebooks and other programs that run a script may put into it."""
_WRITES = words("exec execfile globals locals runfile __builtins__")
"""With what code may bind names that are not written as such."""
_OF_BUILTINS = ("builtins", "__builtin__", "gettext", "past.builtins", "six.moves.builtins", "sys.modules")
"""By what names are given to all modules."""
_TYPES = tuple(getattr(ast, each) for each in ("TypeVar", "ParamSpec", "TypeVarTuple") if hasattr(ast, each))


def is_bound_nowhere(flow: Flow, module: Module, node: ast.Name) -> bool:
    """Whether it is read, and neither the text nor Python binds such a name, in this scope or another one."""
    if not isinstance(node.ctx, ast.Load) or node.id in names.BUILTINS | _GIVEN or node.id.startswith("_"):
        return False
    bound = _bound_in(flow, module)
    return bound is not None and node.id not in bound and not _is_annotation(module, node)


def is_whole(flow: Flow) -> bool:
    """Whether there is a script that is started for certain, so that no lines of its own are missing in the text."""
    return any(is_main_guard(each) for module in flow.modules for each in module.tree.body)


@lasting
def _bound_in(flow: Flow, module: Module) -> frozenset[str] | None:
    """The names that any scope of the module binds, and those of star imports; None where others may be bound."""
    given = _given_by_others(flow)
    if module.path.endswith(".ipynb") or given is None:
        return None
    found = set(given)
    seen: set[Module] = set()
    todo = [module]
    while todo:
        here = todo.pop()
        seen.add(here)
        if any(each.id in _WRITES for each in here.nodes(ast.Name)):
            return None
        found.update(_bound(here))
        for source in names.star_imports(here):
            others = [each for each in flow.modules if each.name == source]
            if not others:
                return None
            todo += [each for each in others if each not in seen]
    return frozenset(found)


@lasting
def _given_by_others(flow: Flow) -> frozenset[str] | None:
    """The names that modules give to others: ``settings.rate = 1``; None where they may be any."""
    own = {each.name for each in flow.modules}
    found: set[str] = set()
    for module in flow.modules:
        statements = module.nodes(ast.Import, ast.ImportFrom)
        imported = [pair for each in statements for pair in names.imported(each, module.package)]
        if any(whole.startswith(_OF_BUILTINS) for _, whole in imported):
            return None
        modules = {name for name, whole in imported if module.resolved(whole) in own}
        for node in module.nodes(ast.Attribute, ast.Call):
            match node:
                case ast.Attribute(ast.Name("sys"), "modules"):
                    return None
                case ast.Attribute(ast.Name(owner), "__dict__") if owner in modules:
                    return None
                case ast.Call(ast.Name("setattr" | "vars"), [ast.Name(owner), *_]) if owner in modules:
                    return None
                case ast.Call(ast.Name("vars"), []):
                    return None
                case ast.Attribute(ast.Name(owner), given, ast.Store()) if owner in modules:
                    found.add(given)
    return frozenset(found)


def _bound(module: Module) -> Iterator[str]:
    """The names that the module's code binds, its functions and classes, and their parameters."""
    for scope in (module.tree, *module.nodes(*FUNCTIONS, ast.ClassDef)):
        known = names.scope_of(scope)
        yield from known.bound | known.global_ | known.nonlocal_
    yield from (each.id for each in module.nodes(ast.Name) if not isinstance(each.ctx, ast.Load))
    # What newer Pythons have: def first[T](items: list[T]) -> T
    yield from (each.name for each in module.nodes(*_TYPES) if isinstance(each.name, str))


def _is_annotation(module: Module, node: ast.Name) -> bool:
    """Whether it stands in an annotation, which newer Pythons do not evaluate."""
    below: ast.AST = node
    for above in module.ancestors(node):
        if isinstance(above, ast.arg) or below in (getattr(above, "annotation", None), getattr(above, "returns", None)):
            return True
        if isinstance(above, ast.stmt):
            return False
        below = above
    return False
