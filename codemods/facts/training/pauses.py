"""Where does each iteration wait for the device, or tidy up, and what needs it to?"""

from __future__ import annotations

import ast
import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.names import words
from codemods.dataflow.source import FUNCTIONS, LOOPS, lasting, walk
from codemods.dataflow.values import External, Made, Method, Unknown
from codemods.facts.autograd.double_backward import keeps_graph
from codemods.facts.devices.devices import asks_for_device
from codemods.facts.devices.waiting import why_wait
from codemods.facts.loops import module_of, place, repeats
from codemods.facts.reach import Reach, own
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.switches import starts_processes
from codemods.facts.training.caught import caught
from codemods.facts.training.clocks import clock
from codemods.facts.training.iterations import EventKind
from codemods.library.idling import SEES_COLLECTION, STEERS_COLLECTION, Pause, pause, reads_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Value
    from codemods.facts.script import Script


_READ = words("torch torchvision builtins gc logging math numpy os random tqdm")
"""Packages of which nothing times what stands beside it."""


class Rate(enum.Enum):
    """How often a statement runs."""

    EACH = "in each iteration"
    SOME = "in some iterations"
    SELDOM = "between iterations, or after an error"


@dataclass(frozen=True, eq=False)
class Pausing:
    """A statement of an iteration that makes the script wait or tidy up."""

    module: Module
    statement: ast.Expr
    kinds: frozenset[Pause]
    why_needed: Reason | None


def pauses(script: Script) -> Iterator[Pausing]:
    """The statements of the module that pause in each iteration, or in some; not those that do so less often."""
    module = script.module
    for statement in module.nodes(ast.Expr):
        kinds = _kinds(script, statement)
        if not kinds or _is_in_helper(script, module, statement) or not script.may_run(module, statement):
            continue
        ways = list(_ways(script, module, statement, set()))
        rates = {each.rate for each in ways}
        if rates & {Rate.EACH, Rate.SOME}:
            yield Pausing(module, statement, kinds, _why_needed(script, module, statement, kinds, ways))


# What pauses.


@lasting
def _kinds(script: Script, statement: ast.stmt) -> frozenset[Pause]:
    """What a statement does that does nothing but pause: a call of such a function, or of one that calls only such."""
    call = _only_call(script, statement.value) if isinstance(statement, ast.Expr) else None
    if call is None:
        return frozenset()
    values = script.flow.values(call.func)
    found = {pause(each.name) if isinstance(each, External) else None for each in values}
    if found and None not in found:
        return frozenset(each for each in found if each is not None)
    functions = script.flow.called(call)
    given = (*call.args, *(each.value for each in call.keywords))
    if len(functions) != 1 or len(values) != 1 or not all(isinstance(each, (ast.Name, ast.Constant)) for each in given):
        return frozenset()
    return _kinds_of(script, functions[0])


def _only_call(script: Script, node: ast.expr) -> ast.Call | None:
    """The call that an expression is where the device calls for it: ``use_cuda and f()``, ``f() if … else None``."""
    match node:
        case ast.IfExp(test, body, ast.Constant()) if asks_for_device(script.flow, test):
            node = body
        case ast.BoolOp(ast.And(), [*tests, last]) if all(asks_for_device(script.flow, each) for each in tests):
            node = last
    return node if isinstance(node, ast.Call) else None


@lasting
def _kinds_of(script: Script, function: Callee) -> frozenset[Pause]:
    """What a function does that does nothing but pause."""
    if not isinstance(function, ast.FunctionDef) or function.decorator_list:
        return frozenset()
    first = function.body[0]
    is_described = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    body = function.body[1:] if is_described else function.body
    found = [_kinds_in(script, each) for each in body]
    return frozenset().union(*found) if found and all(found) else frozenset()


def _kinds_in(script: Script, statement: ast.stmt) -> frozenset[Pause]:
    """The same of a statement, or of what stands under a question which device is used."""
    if not isinstance(statement, ast.If) or not asks_for_device(script.flow, statement.test):
        return _kinds(script, statement)
    found = [_kinds_in(script, each) for each in (*statement.body, *statement.orelse)]
    return frozenset().union(*found) if all(found) else frozenset()


def _is_in_helper(script: Script, module: Module, statement: ast.stmt) -> bool:
    """Whether the statement's function only pauses: its calls are looked at instead."""
    function = module.function(statement)
    return function is not None and bool(_kinds_of(script, function))


# How often.


@dataclass(frozen=True, eq=False)
class _Way:
    """One way in which a statement comes to run."""

    rate: Rate
    frames: tuple[tuple[Module, ast.AST], ...]
    """The code that it is part of, as far as the loop, and what calls that."""
    condition: ast.If | None = None


def _ways(script: Script, module: Module, node: ast.AST, seen: set[ast.AST]) -> Iterator[_Way]:
    """How often the node runs, for each way that leads to it."""
    below, conditions = node, list[ast.If]()
    for above in module.ancestors(node):
        if isinstance(above, ast.ExceptHandler):
            yield _Way(Rate.SELDOM, ())
            return
        if isinstance(above, LOOPS) and repeats(above, below) and not _is_part_of_pass(script, module, above):
            rate = _rate(script, module, above)
            about = next((each for each in conditions if _is_about_it(script, module, each)), None)
            if rate is Rate.EACH and about is not None:
                rate = Rate.SOME
            yield _Way(rate, ((module, module.function(above) or module.tree),), about)
            return
        if isinstance(above, FUNCTIONS):
            if above not in seen:
                seen.add(above)
                for call in script.flow.callers(above):
                    where = module_of(script.flow, call)
                    for way in _ways(script, where, call, seen):
                        about = next((each for each in conditions if _is_about_it(script, module, each)), None)
                        rate = Rate.SOME if way.rate is Rate.EACH and about is not None else way.rate
                        yield _Way(rate, ((module, above), *way.frames), about or way.condition)
            return
        if isinstance(above, ast.If) and below is not above.test:
            conditions.append(above)
        below = above
    yield _Way(Rate.SELDOM, ())


def _is_part_of_pass(script: Script, module: Module, loop: ast.stmt) -> bool:
    """Whether a loop over some things calls no model: how often it runs decides, as in ``forward``."""
    events = script.whole.iterations.of(loop, module).of(EventKind.BACKWARD, EventKind.FORWARD)
    return isinstance(loop, ast.For) and not events and not _makes_model(script, loop)


def _rate(script: Script, module: Module, loop: ast.stmt) -> Rate:
    """Whether a pass of the loop is an iteration, or holds many of them, or is about a model of its own."""
    if _makes_model(script, loop):
        return Rate.SELDOM
    iteration = script.whole.iterations.of(loop, module)
    for kind in (EventKind.BACKWARD, EventKind.FORWARD):
        inner = [each for each in iteration.of(kind) if each.loops]
        direct = [each for each in iteration.of(kind) if not each.loops]
        if inner or direct:
            is_each = bool(direct) and (kind is EventKind.BACKWARD or not inner)
            return Rate.EACH if is_each else Rate.SELDOM
    return Rate.SELDOM


def _makes_model(script: Script, loop: ast.stmt) -> bool:
    """Whether a model is made in the loop, which takes memory anew in each pass."""
    functions = Reach(script.flow).functions([loop])
    sites = {each.value.site for each in script.models if each.value.site is not None}
    return not sites.isdisjoint(walk(loop)) or any(
        module_of(script.flow, each).function(each) in functions for each in sites
    )


def _is_about_it(script: Script, module: Module, condition: ast.If) -> bool:
    """Whether the condition chooses iterations, or whether to pause at all: not which device is used, or to train."""
    if asks_for_device(script.flow, condition.test):
        return False
    return not script.whole.iterations.of(condition, module).of(EventKind.FORWARD, EventKind.BACKWARD)


# What needs it.


def _why_needed(
    script: Script, module: Module, statement: ast.Expr, kinds: frozenset[Pause], ways: Sequence[_Way]
) -> Reason | None:
    """Why the statement stays: what needs it, or else who decides that it does not run in each iteration."""
    frames = [frame for way in ways for frame in way.frames]
    found = (_WHY_NEEDED[each](script, module, statement, frames) for each in Pause if each in kinds)
    reason = next((each for each in found if each is not None), None)
    return reason or next((each for way in ways if (each := _why_sparing(script, way)) is not None), None)


def _why_sparing(script: Script, way: _Way) -> Reason | None:
    """Why it does not run in each iteration."""
    if way.rate is Rate.SELDOM:
        return Reason("script-decides", "other code runs it, too, where it is no part of an iteration")
    if way.condition is None:
        return None
    text = f"the script chooses by a condition of its own where it runs ({HERE})"
    return Reason("script-decides", text, (place(script.flow, way.condition.test),))


def _why_cache(script: Script, *_: object) -> Reason | None:
    if starts_processes(script):
        return Reason("memory-scarce", "other processes that the script starts may need the memory")
    return _why_memory(script)


def _why_collection(script: Script, *_: object) -> Reason | None:
    for module in script.modules:
        for call in module.nodes(ast.Call):
            names = {each.name for each in script.flow.values(call.func)}
            if names & STEERS_COLLECTION:
                text = f"the script chooses itself when garbage is collected ({HERE})"
                return Reason("script-decides", text, (at(module, call),))
            if names & SEES_COLLECTION:
                return Reason("script-decides", f"the script sees when objects are freed ({HERE})", (at(module, call),))
            if keeps_graph(script.flow, call):
                text = f"gradients that have a graph may hold each other ({HERE}), and are freed by it"
                return Reason("memory-scarce", text, (at(module, call),))
    return _why_memory(script)


def _why_memory(script: Script) -> Reason | None:
    """Why it matters how much memory is in use."""
    found = caught(script.flow, script.modules, only_memory=True)
    if found is not None:
        text = f"the script goes on where memory has run out ({HERE}), which may be elsewhere without it"
        return Reason("memory-scarce", text, (at(*found),))
    for module in script.modules:
        for call in module.nodes(ast.Call):
            names = [each.name for each in script.flow.values(call.func) if isinstance(each, (External, Made))]
            if any(map(reads_memory, names)):
                return Reason("memory-scarce", f"the script measures memory ({HERE})", (at(module, call),))
    return None


def _why_wait(
    script: Script, module: Module, statement: ast.Expr, frames: Sequence[tuple[Module, ast.AST]]
) -> Reason | None:
    for where, frame in frames:
        found = clock(script, where, frame)
        if found is not None:
            text = f"a clock is read ({HERE}), and would not see what the device has still to do"
            return Reason("timing", text, (at(*found),))
    for beside in _beside(module, statement):
        unread = _unread(script, beside)
        if unread is not None:
            text = f"what is called beside it is not read ({HERE}), and may time the device"
            return Reason("timing", text, (at(module, unread),))
    return why_wait(script)


def _beside(module: Module, statement: ast.stmt) -> Iterator[ast.AST]:
    """The statements before and after one, and what the blocks around it enter."""
    suite = module.suite(statement)
    index = next(index for index, each in enumerate(suite) if each is statement)
    yield from (*suite[max(index - 1, 0) : index], *suite[index + 1 : index + 2])
    for above in module.ancestors(statement):
        if isinstance(above, FUNCTIONS):
            return
        if isinstance(above, ast.With):
            yield from (each.context_expr for each in above.items)


def _unread(script: Script, node: ast.AST) -> ast.Call | None:
    """A call of something of a library that is not known, or of which nothing is known."""
    if isinstance(node, ast.stmt) and not isinstance(node, (ast.Expr, ast.Assign, ast.AugAssign)):
        return None
    for call in own(node, ast.Call):
        values = script.flow.values(call.func)
        if not values or any(map(_is_unread, values)):
            return call
    return None


def _is_unread(value: Value) -> bool:
    if isinstance(value, Method) and value.site is None and value.of is not None:
        return _is_unread(value.of)
    if isinstance(value, (External, Made)):
        return value.name.partition(".")[0] not in _READ
    return isinstance(value, Unknown)


def _why_sleep(*_: object) -> Reason:
    return Reason("script-decides", "the script sleeps by its own choice:", remedy="take it away where nobody needs it")


_WHY_NEEDED: dict[Pause, Callable[..., Reason | None]] = {
    Pause.SLEEP: _why_sleep,
    Pause.CACHE: _why_cache,
    Pause.COLLECTION: _why_collection,
    Pause.WAIT: _why_wait,
}
