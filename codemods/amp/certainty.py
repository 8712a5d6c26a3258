"""Has the script come to CUDA, or will it surely, where a header asks what the device can do?

``torch.cuda.get_device_capability()`` raises without CUDA. Where a script may evaluate on the CPU and trains on CUDA
alone, the header stands before both.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.placement import dominates
from codemods.dataflow.source import is_main_guard, walk
from codemods.dataflow.values import library_names
from codemods.facts.devices.devices import branches
from codemods.facts.loops import module_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codemods.dataflow.source import Callee
    from codemods.facts.devices.transfers import Transfer
    from codemods.facts.script import Script

_PASSED = (ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith)
"""What a statement may stand in that surely runs: a training has iterations."""
_ENDS = frozenset({"sys.exit", "builtins.exit", "builtins.quit", "os._exit"})


def is_surely_on_cuda(
    script: Script, moves: Iterable[Transfer], anchor: ast.stmt, training: Iterable[ast.stmt]
) -> bool:
    """Whether a run that comes to the anchor fails without CUDA, before it or after it.

    Args:
        script: The script.
        moves: What is moved to CUDA wherever it runs.
        anchor: A statement of the module.
        training: The statements that train, on CUDA alone.
    """
    return any(_has_run(script, each, anchor) for each in moves) or any(
        _follows(script, anchor, each, frozenset()) for each in training
    )


def _has_run(script: Script, move: Transfer, anchor: ast.stmt) -> bool:
    """Whether the move has run for certain when the anchor ends."""
    if move.branches or move.may_fail_unseen():
        return False
    if move.module is not script.module and move.module.function(move.call) is None:
        return True  # what is imported runs first
    return any(
        each is anchor or dominates(script.module, each, anchor) or _runs_at_import(script, each, anchor)
        for each in _statements(script, move.call, anchor, frozenset())
    )


def _statements(script: Script, node: ast.AST, anchor: ast.stmt, seen: frozenset[Callee]) -> Iterator[ast.stmt]:
    """The statements of the module that run the node under no condition: its own, or calls of its function."""
    module = module_of(script.flow, node)
    function = module.function(node)
    if module is script.module and function in {script.module.function(anchor), None}:
        yield module.statement(node)
        return
    if function is None or function in seen or script.flow.escapes(function):
        return
    for call in script.flow.callers(function):
        if not branches(module_of(script.flow, call), call):
            yield from _statements(script, call, anchor, seen | {function})


def _runs_at_import(script: Script, statement: ast.stmt, anchor: ast.stmt) -> bool:
    """Whether the statement is one of the module's own, above what runs the anchor's function."""
    module = script.module
    function = module.function(anchor)
    if module.function(statement) is not None or function is None:
        return False
    calls = [each for each in script.flow.callers(function) if module.holds(each) and module.function(each) is None]
    return bool(calls) and all(dominates(module, statement, module.statement(each)) for each in calls)


def _follows(script: Script, anchor: ast.stmt, place: ast.AST, seen: frozenset[Callee]) -> bool:
    """Whether the place surely runs after the anchor, itself or in a function that is called there."""
    module = module_of(script.flow, place)
    function = module.function(place)
    if module is script.module and function is module.function(anchor):
        return _is_straight(script, anchor, module.statement(place))
    if function is None or function in seen:
        return False
    if branches(module, place) or _leaves(script, function, module.statement(place).lineno):
        return False
    return any(_follows(script, anchor, call, seen | {function}) for call in script.flow.callers(function))


def _is_straight(script: Script, anchor: ast.stmt, statement: ast.stmt) -> bool:
    """Whether nothing between the two decides whether the second one runs."""
    module = script.module
    before: set[ast.AST] = {anchor, *module.ancestors(anchor)}
    for above in module.ancestors(statement):
        if above in before or isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)):
            break
        if not isinstance(above, _PASSED) and not is_main_guard(above):
            return False
    if statement.lineno < anchor.lineno:
        return False
    scope = module.function(anchor) or module.tree
    return not _leaves(script, scope, statement.lineno, (anchor.end_lineno or anchor.lineno))


def _leaves(script: Script, scope: ast.AST, before: int, after: int = 0) -> bool:
    """Whether the code between two lines may end the function, or the script."""
    module = module_of(script.flow, scope) if not isinstance(scope, ast.Module) else script.module
    function = scope if not isinstance(scope, ast.Module) else None
    for each in walk(scope):
        if not isinstance(each, (ast.Return, ast.Call)) or not after < each.lineno < before:
            continue
        if module.function(each) is function and (
            isinstance(each, ast.Return) or library_names(script.flow.values(each.func)) & _ENDS
        ):
            return True
    return False
