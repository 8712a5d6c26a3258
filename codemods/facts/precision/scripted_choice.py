"""Does TorchScript run in a script where the user gives no options, and which option chooses what has it?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import lasting, walk
from codemods.dataflow.values import Choice, Unknown, library_names
from codemods.facts.devices.devices import branches
from codemods.facts.loops import module_of
from codemods.facts.precision.script_hazards import all_scripted
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.options import runs_by_default

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Module
    from codemods.facts.precision.script_hazards import Scripted
    from codemods.facts.script import Script

_BY_NAME = frozenset({"builtins.globals", "builtins.locals", "builtins.vars", "builtins.eval", "builtins.__import__"})
"""Through which code may use what it does not name."""


@lasting  # each module asks
def scripted_by_default(script: Script) -> Reason | None:
    """Why TorchScript's own rules for autocast count; None where only an option that is off by default leads to it."""
    for each in all_scripted(script):
        uses = list(_uses(script, each))
        # What nothing is seen to use may be used in a way that is not followed.
        if not uses or any(runs_by_default(script, *use) for use in uses):
            module = module_of(script.flow, each.node)
            tests = [_option(script, *use) for use in uses]
            known = sorted((test for test in tests if test is not None), key=lambda test: test.lineno)
            chosen, places = "", [at(module, each.node)]
            if known and len(known) == len(tests):
                where = module_of(script.flow, known[0])
                chosen = f", and {where.code(known[0])} chooses it ({HERE})"
                places.append(at(where, known[0]))
            text = f"TorchScript has its own rules for mixed precision ({HERE}){chosen}"
            return Reason("torchscript", text, tuple(places))
    return None


def _option(script: Script, module: Module, node: ast.AST, below: frozenset[ast.AST] = frozenset()) -> ast.expr | None:
    """The condition about an option under which alone the node runs; of several callers, the first one's."""
    for branch in branches(module, node):
        if branch.holds and _is_of_option(script, branch.test):
            return branch.test
    function = module.function(node)
    calls = script.flow.callers(function) if function is not None and function not in below else ()
    found = [_option(script, module_of(script.flow, call), call, below | {function}) for call in calls if function]
    return None if None in found else next(iter(found), None)


def _is_of_option(script: Script, test: ast.expr) -> bool:
    parts = (each for each in walk(test) if isinstance(each, (ast.Name, ast.Attribute)))
    return any(isinstance(value, Choice) for each in parts for value in script.flow.values(each))


def _uses(script: Script, scripted: Scripted) -> Iterator[tuple[Module, ast.AST]]:
    """Where the script names what TorchScript runs, outside it; nothing where it may be used without being named."""
    definition = scripted.definition
    if definition is None:
        return
    owner = module_of(script.flow, definition).parent(definition)
    definition = owner if isinstance(owner, ast.ClassDef) else definition
    is_registered = any(each is not scripted.node for each in definition.decorator_list)
    if is_registered or _is_renamed(script, definition.name) or _is_used_by_name(script, definition.name):
        return
    for module in script.modules:
        for node in module.nodes(ast.Name, ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            is_it = name == definition.name and isinstance(node.ctx, ast.Load)
            if is_it and definition not in module.ancestors(node) and script.may_run(module, node):
                yield module, node


def _is_renamed(script: Script, name: str) -> bool:
    """Whether an import gives it another name."""
    return any(
        alias.name == name and alias.asname is not None
        for module in script.modules
        for start in module.nodes(ast.ImportFrom)
        for alias in start.names
    )


def _is_used_by_name(script: Script, name: str) -> bool:
    """Whether code may get at the definition of that name by texts that it computes: ``getattr(models, args.net)``."""
    having = {each.name for each in script.flow.modules if _may_have(each, name)}
    return any(
        _looks_into(script, node, having, in_module=module.name in having)
        for module in script.modules
        for node in module.nodes(ast.Call, ast.Attribute)
    )


def _may_have(module: Module, name: str) -> bool:
    """Whether the module may have something of that name, its own or imported, or a module that has."""
    is_all_taken = any(alias.name == "*" for start in module.nodes(ast.ImportFrom) for alias in start.names)
    return module.is_package or is_all_taken or name in module.text


def _looks_into(script: Script, node: ast.Call | ast.Attribute, having: set[str], *, in_module: bool) -> bool:
    """Whether the expression takes from one of the modules what is not named, or may do so."""
    match node:
        case ast.Attribute(asked, "__dict__"):
            pass
        case ast.Call(func, given):
            called = library_names(script.flow.values(func))
            if any(each.startswith("importlib.") for each in called):
                return True
            is_named = len(given) > 1 and isinstance(given[1], ast.Constant)
            if "builtins.getattr" not in called or not given or is_named:
                return in_module and bool(called & _BY_NAME)
            asked = given[0]
        case _:
            return False
    values = script.flow.values(asked)
    return not values or any(isinstance(each, Unknown) or each.name in having for each in values)
