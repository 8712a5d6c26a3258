"""Where would a colleague set a switch of torch's that holds for the whole script?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from codemods.dataflow.placement import dominates
from codemods.dataflow.source import is_main_guard, walk
from codemods.dataflow.values import External, Function
from codemods.facts.devices.devices import DeviceKind, device
from codemods.facts.leads import frames, sites_here
from codemods.library.processes import starts_training
from codemods.library.seeds import seeded_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from codemods.dataflow.source import Module
    from codemods.facts.script import Script

    Named: TypeAlias = Callable[[ast.stmt], str | None]

_SMALL = 12
"""Statements of a helper that seeds; a longer function that seeds first is none."""


class Switch(NamedTuple):
    """Where a switch goes, and how it is written there."""

    anchor: ast.stmt
    """The statement after which it goes."""
    name: str
    """How its qualified name is spelled there."""
    lead: str
    """What stands before it: an empty line after imports."""
    needs_import: bool
    """Whether ``import torch`` has to be added, as no import leads to the name yet."""


def place_of_switch(
    script: Script,
    sites: Iterable[ast.AST],
    qualified: str,
    can_import: Callable[[Module, str, ast.AST], bool],
) -> Switch | None:
    """Where the switch goes for one of the sites; None where it cannot be named before any.

    Args:
        script: The script.
        sites: Where what it is for is made.
        qualified: The switch's name.
        can_import: Whether ``import torch``, added to the module, is what is read as ``torch`` at a place.
    """
    module = script.module
    sites = list(sites)

    def imported(place: ast.stmt) -> str | None:
        return qualified if can_import(module, "torch", following(module, place)) else None

    def spelled(place: ast.stmt) -> str | None:
        return script.spelled(module, qualified, following(module, place))

    for named in (spelled, imported):
        for site in sites:
            place = _place(script, site, named)
            name = named(place) if place is not None else None
            if place is not None and name is not None:
                after_imports = isinstance(place, (ast.Import, ast.ImportFrom, ast.Try))
                return Switch(place, name, "\n" if after_imports else "", needs_import=named is imported)
    return None


def _place(script: Script, site: ast.AST, named: Named) -> ast.stmt | None:
    """The statement after which it goes: the last seed, else where ``main()`` finds its device, else the imports."""
    module = script.module
    around = list(frames(script, site))
    if starts_processes(script):
        return _last_import(script, around[-1], named)  # a new process runs the module, not what called its function
    all_seeds = [each for each in module.nodes(ast.Expr) if _seeds(script, each) and not is_repeated(module, each)]
    for frame in around:
        seeds = [each for each in all_seeds if dominates(module, each, frame)]
        if seeds:
            return _last_of_run(script, seeds[-1])
    functions = [each for each in around if module.function(each) is not None]
    in_guard = any(is_main_guard(each) for each in module.ancestors(around[-1]) if isinstance(each, ast.stmt))
    if functions or in_guard:
        frame = functions[-1] if functions else around[-1]
        devices = [
            each for each in module.nodes(ast.Assign) if _finds_device(script, each) and dominates(module, each, frame)
        ]
        if devices:
            return devices[-1]
    return _last_import(script, around[-1], named)


def starts_processes(script: Script) -> bool:
    """Whether the script trains in processes that it starts: they run its module anew."""
    return any(
        starts_training(each.name)
        for module in script.modules
        for call in module.nodes(ast.Call)
        for each in script.flow.values(call.func)
        if isinstance(each, External)
    )


def is_repeated(module: Module, statement: ast.stmt) -> bool:
    """Whether the statement stands in a loop of its function."""
    for above in module.ancestors(statement):
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return False
        if isinstance(above, (ast.For, ast.AsyncFor, ast.While)):
            return True
    return False


def _seeds(script: Script, statement: ast.Expr) -> bool:
    """Whether the statement sets a random seed, itself or in a small function of the script."""
    if not isinstance(statement.value, ast.Call):
        return False
    for callee in script.flow.values(statement.value.func):
        if isinstance(callee, External) and seeded_by(callee.name):
            return True
        helper = callee.site
        if isinstance(callee, Function) and isinstance(helper, ast.FunctionDef) and len(helper.body) <= _SMALL:
            calls = [each.func for each in walk(helper) if isinstance(each, ast.Call)]
            if any(
                isinstance(value, External) and seeded_by(value.name)
                for func in calls
                for value in script.flow.values(func)
            ):
                return True
    return False


def _last_of_run(script: Script, seed: ast.stmt) -> ast.stmt:
    """The last of the seeds that follow each other, a seed under an ``if`` among them."""
    suite = script.module.suite(seed)
    last = seed
    for statement in suite[suite.index(seed) + 1 :]:
        body = statement.body if isinstance(statement, ast.If) and not statement.orelse else [statement]
        if not all(isinstance(each, ast.Expr) and _seeds(script, each) for each in body):
            break
        last = statement
    return last


def _finds_device(script: Script, statement: ast.Assign) -> bool:
    found = device(script.flow, statement.value)
    named = any(isinstance(each, ast.Name) and "dev" in each.id.lower() for each in statement.targets)
    return named and found.kind in {DeviceKind.CUDA, DeviceKind.CONDITIONAL}


def _last_import(script: Script, frame: ast.stmt, named: Named) -> ast.stmt | None:
    """The last import of the first run of imports that leads to torch; calls between imports do not end the run."""
    module = script.module
    tops = [frame, *(each for each in module.ancestors(frame) if isinstance(each, ast.stmt))]
    body = module.tree.body[: module.tree.body.index(_end(script, tops[-1]))]
    last: ast.stmt | None = None
    for statement in body:
        inner = statement.body if isinstance(statement, ast.Try) else [statement]
        if any(isinstance(each, (ast.Import, ast.ImportFrom)) for each in inner):
            if named(statement) is not None:
                last = statement
        elif last is not None and not isinstance(statement, ast.Expr):
            break
    return last


def _end(script: Script, top: ast.stmt) -> ast.stmt:
    """The statement before which it has to be set: where an import makes the model, that follows the imports.

    An import that trains needs it before.
    """
    trains = {each for _, backward in script.backwards for each in sites_here(script, backward)}
    suite = script.module.suite(top)
    following = suite[suite.index(top) :]
    for statement in following:
        if not isinstance(statement, (ast.Import, ast.ImportFrom)) or statement in trains:
            return statement
    return top


def following(module: Module, place: ast.stmt) -> ast.stmt:
    """The statement before which comes to stand what goes after the place."""
    suite = module.suite(place)
    return suite[min(suite.index(place) + 1, len(suite) - 1)]
