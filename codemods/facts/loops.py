"""Which code runs again and again."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.imports import computed_imports
from codemods.dataflow.names import decorators
from codemods.dataflow.signatures import arguments_of, signature
from codemods.dataflow.source import FUNCTIONS, LOOPS, lasting, walk
from codemods.dataflow.values import Class, External, Function, Instance, Unknown, class_of, library_names
from codemods.facts.reason import at
from codemods.library.processes import starts_training

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Value
    from codemods.facts.reason import Place

# Decorators that pass a call's arguments on as they are.
_SAME_ARGUMENTS = frozenset({"no_grad", "inference_mode"})
REPEATING = (*LOOPS, ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp)
"""Loops, and expressions that are loops."""


def around(
    flow: Flow, module: Module, node: ast.AST, seen: set[ast.AST] | None = None, given: Value | None = None
) -> Iterator[tuple[ast.AST, ast.AST]]:
    """What the node stands in, from the inside out, then what stands around where its function runs.

    Args:
        flow: The values of the project.
        module: Where the node stands.
        node: What runs.
        seen: Functions that are looked into already.
        given: What it has to run with: a call of its function that gives it something else does not count.

    Yields:
        Pairs: the outer node, and the one directly in it that holds the node, or what runs its function.
    """
    seen = set() if seen is None else seen
    below = node
    for above in module.ancestors(node):
        yield above, below
        if isinstance(above, FUNCTIONS):
            if above not in seen:
                seen.add(above)
                for place in places_that_run(flow, above):
                    if given is None or may_give(flow, above, node, place, given):
                        outer = around(flow, module_of(flow, place), place, seen, given)
                        is_apart = _starts_process(flow, place)
                        yield from (each for each in outer if not (is_apart and isinstance(each[0], REPEATING)))
            return
        below = above


def _starts_process(flow: Flow, place: ast.expr) -> bool:
    """Whether the function runs in a process of its own there: a loop that starts several runs it once in each."""
    return isinstance(place, ast.Call) and any(starts_training(each) for each in library_names(flow.values(place.func)))


def may_give(flow: Flow, function: Callee, node: ast.AST, place: ast.expr, value: Value) -> bool:
    """Whether the function's node may have the value where the place runs it: not where it comes as an argument."""
    parameters = {each.arg for each in signature(function).named}
    read: Sequence[ast.AST | None] = arguments_of(node) if isinstance(node, ast.Call) else ()
    read = read or [getattr(node, "iter", node if isinstance(node, ast.expr) else None)]
    names = [each for part in read if part is not None for each in walk(part) if isinstance(each, ast.Name)]
    through = {each.id for each in names if each.id in parameters and value in flow.values(each)}
    if not through or not isinstance(place, ast.Call):
        return True
    is_bound = any(
        isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store) and each.id in through for each in walk(function)
    )
    if is_bound:
        return True
    return any(_gives(flow, function, place, each, value) for each in through)


def _gives(flow: Flow, function: Callee, call: ast.Call, name: str, value: Value) -> bool:
    """Whether the call may give the function's parameter the value."""
    binding = flow.bind(function, call)
    if not binding.is_whole or decorators(function) - _SAME_ARGUMENTS:
        return True
    by_name = {**signature(function).defaults, **binding.given}
    values = flow.values(by_name[name]) if name in by_name else frozenset()
    return not values or value in values or any(isinstance(each, Unknown) for each in values)


def places_that_run(flow: Flow, function: Callee) -> Iterator[ast.expr]:
    """Where the function runs: its calls, the attributes that a property is, and what is iterated over."""
    yield from flow.callers(function)
    name = getattr(function, "name", "")
    is_property = "property" in decorators(function)
    if not is_property and name != "__iter__":
        return
    for module in flow.modules:
        for node in module.nodes(ast.Name, ast.Attribute, ast.Call, ast.Subscript):
            if is_property and not (isinstance(node, ast.Attribute) and node.attr == name):
                continue
            if is_property or _is_iterated(flow, module, node):
                owners = flow.values(node.value if is_property and isinstance(node, ast.Attribute) else node)
                classes = (class_of(each) for each in owners if isinstance(each, Instance))
                if any(each is not None and flow.method(each, name) is function for each in classes):
                    yield node


def _is_iterated(flow: Flow, module: Module, node: ast.expr) -> bool:
    """``for x in node``, or a library's function that is given it: ``enumerate(node)``, ``tqdm(node)``."""
    above = module.parent(node)
    if isinstance(above, ast.Call):
        callees = flow.values(above.func)
        return node in above.args and bool(callees) and all(isinstance(each, External) for each in callees)
    return isinstance(above, (ast.For, ast.AsyncFor, ast.comprehension, ast.YieldFrom)) and node is not getattr(
        above, "target", None
    )


def loop_around(
    flow: Flow,
    module: Module,
    node: ast.AST,
    kinds: tuple[type[ast.stmt | ast.expr], ...] = LOOPS,
    given: Value | None = None,
) -> ast.stmt | ast.expr | None:
    """The innermost loop that runs the node more than once, in its function or around a call of it.

    Args:
        flow: The values of the project.
        module: Where the node stands.
        node: What runs.
        kinds: What counts as a loop.
        given: What it has to run with, where its function may be given that, or something else.
    """
    for above, below in around(flow, module, node, given=given):
        if isinstance(above, kinds) and repeats(above, below):
            return above
    return None


def repeats(loop: ast.AST, part: ast.AST) -> bool:
    """Whether a loop runs the part directly in it in each pass: not what it iterates over, nor its ``else``."""
    return isinstance(loop, REPEATING) and part not in (getattr(loop, "iter", None), *getattr(loop, "orelse", ()))


def may_run(flow: Flow, entry: Module, module: Module, node: ast.AST) -> bool:
    """Whether code may run with the entry's: its own, and that of other modules but for functions that nobody calls.

    A package brings modules along of whose classes nothing makes an object, and which other scripts have functions for.
    """
    if module is entry:
        return True
    return _may_run(flow, module.function(node), _commands(flow, entry), flow.together(entry, (entry,)))


@lasting  # each site of each other module asks
def _commands(flow: Flow, entry: Module) -> frozenset[Callee]:
    """The functions of a script that only defines them, which nothing calls: the package's setup says which to run."""
    if any(flow.called(each) for each in entry.nodes(ast.Call) if entry.function(each) is None):
        return frozenset()
    functions = (each for each in entry.tree.body if isinstance(each, ast.FunctionDef))
    return frozenset(each for each in functions if not flow.callers(each))


def _may_run(flow: Flow, function: Callee | None, commands: frozenset[Callee], modules: Collection[Module]) -> bool:
    """Whether a way within the modules leads to the function from code in none, from a command, or from a library."""
    needs: dict[Callee, list[set[Callee | None]]] = {}
    todo = [function]
    while todo:
        here = todo.pop()
        if here is not None and here not in needs:
            needs[here] = _needs(flow, here, modules)
            todo += [each for some in needs[here] for each in some]
    running: set[Callee | None] = {None, *commands}
    new = running
    while new:
        new = {
            each for each, groups in needs.items() if each not in running and not any(map(running.isdisjoint, groups))
        }
        running |= new
    return function in running


def _needs(flow: Flow, function: Callee, modules: Collection[Module]) -> list[set[Callee | None]]:
    """The functions of which one has to run, for each group of them, so that this one may; None stands for a module."""
    if isinstance(function, ast.Lambda) or flow.escapes(function):
        return []
    unseen = _used_unseen(flow)
    if unseen and module_of(flow, function) in unseen:
        return []
    owner = flow.owner(function)
    if not _named_unseen(flow).isdisjoint({function, owner}):
        return []
    is_decorated = any(each not in _SAME_ARGUMENTS for each in decorators(function))
    is_called_unseen = is_decorated or (owner is not None and _may_be_hook(flow, owner, function.name))
    groups = [] if is_called_unseen else [list(places_that_run(flow, function))]
    if owner is not None:
        groups.append(list(makings(flow, owner)))
    inside = [[(home, each) for each in group if (home := module_of(flow, each)) in modules] for group in groups]
    return [{home.function(each) for home, each in group} for group in inside]


@lasting
def _used_unseen(flow: Flow) -> frozenset[Module]:
    """The modules that code may import by a name that is not followed, so that nobody sees what it uses of them."""
    return frozenset(
        found
        for module in flow.modules
        for call in computed_imports(module)
        if any(isinstance(each, Unknown) for each in flow.values(call))
        for found in flow.loaded_by_name(module)
    )


@lasting
def _named_unseen(flow: Flow) -> frozenset[ast.AST]:
    """The functions, and the classes with their bases, that a name may stand for which a script computes and calls."""
    found: set[ast.AST] = set()
    for module in flow.modules:
        if flow.calls_computed_names(module):
            for each in flow.defined_in(module.name) or ():
                if isinstance(each, Class) and isinstance(each.site, ast.ClassDef):
                    found.update(flow.project_bases(each.site))
                elif isinstance(each, Function) and each.site is not None:
                    found.add(each.site)
    return frozenset(found)


def _may_be_hook(flow: Flow, class_: ast.ClassDef, name: str) -> bool:
    """Whether Python, or a library whose class it derives from, may call the method of that name."""
    libraries = {each for each in flow.bases(class_) if isinstance(each, str)} - {"abc.ABC", "builtins.object"}
    is_special = name.startswith("__") and name != "__init__"
    return is_special or bool(libraries - {"torch.nn.Module"}) or (bool(libraries) and name == "forward")


@lasting  # each hook of each class asks
def makings(flow: Flow, class_: ast.ClassDef) -> tuple[ast.Call, ...]:
    """The calls that make an object of the class, or of one that derives from it."""
    return tuple(
        call
        for module in flow.modules
        for call in module.nodes(ast.Call)
        if any(_is_of(flow, each, class_) for each in flow.values(call))
    )


def _is_of(flow: Flow, value: Value, class_: ast.ClassDef) -> bool:
    """Whether it is an object of the class, or of one that derives from it."""
    made = class_of(value) if isinstance(value, Instance) else None
    return made is not None and class_ in flow.project_bases(made)


def module_of(flow: Flow, node: ast.AST) -> Module:
    """The module in which the node stands."""
    return next(module for module in flow.modules if module.holds(node))


def place(flow: Flow, node: ast.AST) -> Place:
    """Where the node stands."""
    return at(module_of(flow, node), node)
