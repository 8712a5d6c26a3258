"""What looks into a script's run and slows it down: anomaly detection, profilers, kernels that are waited for."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import argument_of
from codemods.dataflow.source import lasting
from codemods.dataflow.values import library_names
from codemods.facts.devices.waiting import why_wait
from codemods.facts.loops import loop_around
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.caught import caught
from codemods.facts.training.clocks import clock
from codemods.facts.training.options import deciding, is_off, is_true
from codemods.library.diagnostics import (
    ASKS_FOR_ANOMALY,
    HANDS_ON_PROFILE,
    LAUNCHES_BLOCK,
    READS_HISTORY,
    Diagnosis,
    diagnosis,
    switch,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codemods.dataflow.source import Module
    from codemods.facts.script import Script

_ON = "1"
_OFF = frozenset({"0", ""})
_ENVIRONMENT = "os.environ"


@dataclass(frozen=True, eq=False)
class Diagnostic:
    """A place where a script is looked into while it runs."""

    module: Module
    call: ast.Call
    kind: Diagnosis
    argument: ast.expr | None
    """What switches it on, where an argument does."""
    block: ast.With | None
    """The ``with`` statement of which it is the only item."""
    why_needed: Reason | None


def diagnostics(script: Script) -> Iterator[Diagnostic]:
    """The diagnostics of the module that are on, as far as is known, and of no use that is seen."""
    module = script.module
    known = [each for each in script.flow.called_names(module) if diagnosis(each) is not None]
    for call in script.flow.calls_of(module, known):
        names = library_names(script.flow.values(call.func))
        kinds = {diagnosis(each) for each in names}
        kind = kinds.pop() if len(kinds) == 1 else None
        if kind is None or not script.may_run(module, call):
            continue
        switches = {switch(each) for each in names}
        found = _diagnostic(script, call, kind, switches.pop() if len(switches) == 1 else None)
        if found is not None:
            yield found


def _diagnostic(script: Script, call: ast.Call, kind: Diagnosis, name: str | None) -> Diagnostic | None:
    """What the call switches on; None where it switches off, where an option that is off decides, or it is of use."""
    module = script.module
    argument = None
    if name is not None:
        argument = argument_of(call, name, 0)
    conditions = list(deciding(script, module, call))
    is_on = True if argument is None else is_true(script, argument)
    if is_on is False or any(is_off(script, each) for each in conditions) or _is_read(script, call, kind):
        return None
    reason = _why_unknown(module, call, argument)
    if reason is None and conditions:
        test = conditions[0].test
        where = next(each for each in script.modules if each.holds(test))
        text = f"the script switches it on by a condition of its own ({HERE})"
        reason = Reason("script-decides", text, (at(where, test),))
    if reason is None and kind in _WHY_NEEDED:
        reason = _WHY_NEEDED[kind](script, call)
    if kind is Diagnosis.COMPARISON and reason is None:
        return None
    return Diagnostic(module, call, kind, argument, _block(module, call), reason)


def _why_unknown(module: Module, call: ast.Call, argument: ast.expr | None) -> Reason | None:
    """Why it is not known, or not for the code to say, whether the call switches it on."""
    if any(each.arg is None for each in call.keywords) or any(isinstance(each, ast.Starred) for each in call.args):
        return Reason("unknown-arguments", "its arguments are not written out")
    if argument is not None and not isinstance(argument, ast.Constant):
        text = f"'{module.code(argument)}' decides whether it is on"
        return Reason("script-decides", text)
    return None


def _block(module: Module, call: ast.Call) -> ast.With | None:
    """The ``with`` statement of which the call is the only item."""
    item = module.parent(call)
    statement = module.parent(item) if isinstance(item, ast.withitem) else None
    return statement if isinstance(statement, ast.With) and len(statement.items) == 1 else None


# What makes each of them necessary.


def _why_anomalies(script: Script, call: ast.Call) -> Reason | None:
    test = _test_around(script, call)
    if test is not None:
        text = f"it is part of a test, which fails by it where a gradient is NaN ({HERE})"
        return Reason("script-decides", text, (at(script.module, test),))
    found = caught(script.flow, script.modules)
    if found is not None:
        text = f"anomaly detection raises an error where a gradient is NaN, and the script goes on after it ({HERE})"
        return Reason("error-caught", text, (at(*found),))
    for module in script.modules:
        for asking in module.nodes(ast.Call):
            if any(each.name in ASKS_FOR_ANOMALY for each in script.flow.values(asking.func)):
                return Reason("script-decides", f"the script asks whether it is on ({HERE})", (at(module, asking),))
    return None


def _test_around(script: Script, call: ast.Call) -> ast.FunctionDef | None:
    """The function around the call that pytest or unittest runs, by its name."""
    functions = (each for each in script.module.ancestors(call) if isinstance(each, ast.FunctionDef))
    return next((each for each in functions if each.name.startswith("test_") and not script.flow.callers(each)), None)


def _is_read(script: Script, call: ast.Call, kind: Diagnosis) -> bool:
    """Whether what a profiler or the history of memory records is used, or may be."""
    if kind is Diagnosis.HISTORY:
        named = (each for module in script.modules for each in module.nodes(ast.Attribute, ast.alias))
        is_told = not isinstance(script.module.parent(call), ast.Expr)
        return is_told or any({getattr(each, "attr", ""), getattr(each, "name", "")} & READS_HISTORY for each in named)
    if kind is not Diagnosis.PROFILE:
        return False
    block = _block(script.module, call)
    name = block.items[0].optional_vars if block is not None else None
    is_kept = block is None or not (name is None or isinstance(name, ast.Name))
    if is_kept or any(each.arg in HANDS_ON_PROFILE for each in call.keywords):
        return True
    return isinstance(name, ast.Name) and _is_named(script, name)


def _is_named(script: Script, name: ast.Name) -> bool:
    """Whether the profiler of that name is used, as far as names say."""
    module = script.module
    if any(each.id == name.id and isinstance(each.ctx, ast.Load) for each in module.nodes(ast.Name)):
        return True
    others = (each for other in script.modules if other is not module for each in other.nodes(ast.Attribute, ast.alias))
    return any(name.id in {getattr(each, "attr", ""), getattr(each, "name", "")} for each in others)


def _why_marks(*_: object) -> Reason:
    text = "it marks operators for a profiler outside of the script:"
    return Reason("profile-used", text, remedy="take it away where none is attached")


def _why_comparison(script: Script, call: ast.Call) -> Reason | None:
    if loop_around(script.flow, script.module, call) is None:
        return None
    text = "it raises an error where gradients are wrong, in each pass of the loop:"
    return Reason("script-decides", text, remedy="compare them once, in a test")


_WHY_NEEDED: dict[Diagnosis, Callable[[Script, ast.Call], Reason | None]] = {
    Diagnosis.ANOMALY: _why_anomalies,
    Diagnosis.MARKS: _why_marks,
    Diagnosis.COMPARISON: _why_comparison,
}


# The environment variable.


@dataclass(frozen=True, eq=False)
class Blocking:
    """A place where the script has the host wait for each kernel (``CUDA_LAUNCH_BLOCKING``)."""

    module: Module
    node: ast.AST
    value: ast.expr
    why_needed: Reason | None


def blocking(script: Script) -> Iterator[Blocking]:
    """The places of the module that set the variable, unless to what it is anyway, or by an option that is off."""
    module = script.module
    for node, value in _settings(script, module):
        conditions = list(deciding(script, module, node))
        is_set_off = isinstance(value, ast.Constant) and value.value in _OFF
        if is_set_off or not script.may_run(module, node) or any(is_off(script, each) for each in conditions):
            continue
        reason = _why_blocking(script)
        if not (isinstance(value, ast.Constant) and value.value == _ON):
            reason = Reason("script-decides", f"'{module.code(value)}' decides whether it is on")
        elif conditions:
            test = conditions[0].test
            where = next(each for each in script.modules if each.holds(test))
            text = f"the script switches it on by a condition of its own ({HERE})"
            reason = Reason("script-decides", text, (at(where, test),))
        yield Blocking(module, node, value, reason)


@lasting
def _settings(script: Script, module: Module) -> tuple[tuple[ast.AST, ast.expr], ...]:
    """Where a module sets the variable, and to what."""
    found: list[tuple[ast.AST, ast.expr]] = []
    for name in module.nodes(ast.Constant):
        if name.value != LAUNCHES_BLOCK:
            continue
        above = module.parent(name)
        statement = module.parent(above) if above is not None else None
        match above, statement:
            case ast.Subscript(owner), ast.Assign([target], value) if target is above and _ENVIRONMENT in _names(
                script, owner
            ):
                found.append((statement, value))
            case ast.Call(ast.Attribute(owner, "setdefault" | "putenv"), [first, value]), _ if first is name and _names(
                script, owner
            ) & {_ENVIRONMENT, "os"}:
                found.append((above, value))
            case ast.Dict(keys, values), ast.Call(ast.Attribute(owner, "update"), [given]) if (
                given is above and name in keys and _ENVIRONMENT in _names(script, owner)
            ):
                found.append((statement, values[keys.index(name)]))
    return tuple(found)


def _names(script: Script, node: ast.expr) -> set[str]:
    return {each.name for each in script.flow.values(node)}


def _why_blocking(script: Script) -> Reason | None:
    for module in script.modules:
        known = {each for node, _ in _settings(script, module) for each in ast.walk(node)}
        for name in module.nodes(ast.Constant):
            if name.value == LAUNCHES_BLOCK and name not in known:
                return Reason(
                    "script-decides", f"the script uses the variable elsewhere, too ({HERE})", (at(module, name),)
                )
    for iteration in script.iterations:
        found = clock(script, iteration.module, iteration.owner)
        if found is not None:
            text = f"the script times its iterations ({HERE}), and would see the launches of kernels alone"
            return Reason("timing", text, (at(*found),))
    return why_wait(script)
