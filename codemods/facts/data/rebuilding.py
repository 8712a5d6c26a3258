"""Which loaders does a loop build anew in each pass, and why could they not be built once, above it?"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.source import LOOPS
from codemods.dataflow.values import Container, Literal, owner_of
from codemods.facts.asked_names import asked
from codemods.facts.data.reads import How
from codemods.facts.invariants import Invariants, names_of
from codemods.facts.loops import around, module_of, places_that_run, repeats
from codemods.facts.reach import own
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.workers.payload import worker_code
from codemods.facts.workers.persistence import is_made_for_each_reading, is_once
from codemods.facts.workers.shared_state import changes, changes_of_what_is_sent
from codemods.library.drawing import call_draws

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.source import Module
    from codemods.facts.data.loaders import Loader
    from codemods.facts.script import Script

_LOOP = "made-in-loop"
_SEEN_ALIKE = frozenset({"dataset", "batch_size", "drop_last", "num_workers", "sampler", "__iter__", "__len__"})
"""Attributes of a loader that say the same of one that is made once."""
_READING = (ast.For, ast.AsyncFor, ast.comprehension, ast.Starred, ast.Compare, ast.Expr)
_LEAVING = (ast.Break, ast.Continue, ast.Return, ast.Raise)


@dataclass(frozen=True, eq=False)
class Rebuilt:
    """Loaders that a statement of a loop builds anew in each pass, itself or by a function that it calls."""

    module: Module
    statement: ast.stmt
    loop: ast.For | ast.AsyncFor | ast.While
    loaders: tuple[Loader, ...]

    @property
    def first(self) -> Loader:
        """The first of them."""
        return self.loaders[0]

    @cached_property
    def names_them(self) -> bool:
        """Whether the statement gives them names, or makes them itself."""
        targets = names_of(self.statement)
        inside = any(each.call in ast.walk(self.statement) for each in self.loaders)
        flow = self.first.flow
        return inside or any(each.value in flow.values(name) for each in self.loaders for name in targets)


class Once(NamedTuple):
    """What can go above a loop: the statements that build loaders, and what these are made of, in their order."""

    statements: tuple[ast.stmt, ...]
    reads_files: bool
    """Whether data are read from files with it."""
    unnamed: ast.Call | None = None
    """The loader, where it has no name yet, as the header of a loop over its batches builds it."""


def rebuilt(script: Script) -> Iterator[Rebuilt]:
    """The statements of loops that build loaders which are read once and then built again, in the order of the text."""
    found: dict[tuple[Module, ast.stmt], tuple[ast.For | ast.AsyncFor | ast.While, list[Loader]]] = {}
    for loader in script.loaders:
        if is_made_for_each_reading(script.flow, loader):
            for module, node, loop in _built_at(script, loader.module, loader.call, set()):
                found.setdefault((module, module.statement(node)), (loop, []))[1].append(loader)
    for (module, statement), (loop, several) in found.items():
        yield Rebuilt(module, statement, loop, tuple(dict.fromkeys(several)))


def _built_at(
    script: Script, module: Module, node: ast.AST, seen: set[ast.AST]
) -> Iterator[tuple[Module, ast.AST, ast.For | ast.AsyncFor | ast.While]]:
    """The nodes of loops that run the node in each pass, with the loop in whose function they stand."""
    below, function = node, module.function(node)
    for above in module.ancestors(node):
        if above is function:
            break
        if isinstance(above, LOOPS) and repeats(above, below) and not is_once(above, below):
            yield module, node, above
            return
        below = above
    if function is not None and function not in seen:
        seen.add(function)
        for place in places_that_run(script.flow, function):
            yield from _built_at(script, module_of(script.flow, place), place, seen)


def build_once(script: Script, found: Rebuilt) -> Once | Reason:
    """What has to go above the loop, so that the loaders are built once; why they cannot, or should not."""
    if not found.names_them:
        return _why_in_function(found)
    invariants = Invariants(script, found.module, found.loop)
    call = _built_in_header(found)
    reason = (
        _why_not_torchs(found)
        or _why_no_assignment(found)
        or (invariants.why_statement_varies(found.statement) if call is None else invariants.why_varies(call))
        or next((why for each in found.loaders if (why := _why_seen(script, found, each)) is not None), None)
    )
    if reason is not None:
        return reason
    if call is not None and invariants.statements:
        return _why_no_name(found)
    statements = tuple(sorted(invariants.statements, key=found.module.span))
    reason = _why_missed(script, found, statements)
    last = found.statement if call is not None else statements[-1]
    reason = reason or (_why_not_read_before(script, found, last) if invariants.reading else None)
    return reason or Once(statements, bool(invariants.reading), call)


def _built_in_header(found: Rebuilt) -> ast.Call | None:
    """The only loader, where the header of a loop over its batches builds it: ``for x, y in DataLoader(data):``."""
    statement, call = found.statement, found.first.call
    if not isinstance(statement, ast.For) or len(found.loaders) > 1:
        return None
    above: ast.AST | None = found.module.parent(call)
    while isinstance(above, (ast.Call, ast.keyword)):
        above = found.module.parent(above)
    return call if above is statement else None


def _why_in_function(found: Rebuilt) -> Reason:
    text = f"a function builds it anew each time that a loop calls it, or calls what does ({HERE}):"
    return Reason(_LOOP, text, (at(found.module, found.statement),), "build it above the loop, and pass it on")


# How it is built.


def _why_not_torchs(found: Rebuilt) -> Reason | None:
    for loader in found.loaders:
        if loader.passing is not loader.call or loader.own_iteration is not None:
            text = f"class {loader.value.name} makes or reads its batches in a way of its own"
            return Reason("own-loader-class", text)
        if loader.unknown_arguments is not None:
            return loader.unknown_arguments
        if loader.keeps_workers:
            text = "its workers stay, and one that is built once draws no new seed, and so shuffles otherwise:"
            return Reason("script-decides", text, remedy="build it above the loop where that may be")
    return None


def _why_no_assignment(found: Rebuilt) -> Reason | None:
    """Why the statement could not stand above the loop, whatever it is made of."""
    statement, module = found.statement, found.module
    if any(isinstance(each, (ast.Yield, ast.YieldFrom, ast.Await)) for each in own(found.loop, ast.expr)):
        text = "other code runs where the loop yields, and may change what the loader is built of:"
        return Reason(_LOOP, text, remedy="build it above the loop")
    if not any(each is statement for each in found.loop.body):
        text = f"it does not stand in the loop itself, but in an inner block ({HERE}):"
        above = module.parent(statement)
        return Reason(_LOOP, text, (at(module, above or statement),), "build it above the loop")
    flow = found.first.flow
    held = frozenset().union(*(flow.values(each) for each in names_of(statement)))
    is_named = all(each.value in held for each in found.loaders)
    return None if is_named or _built_in_header(found) is not None else _why_no_name(found)


def _why_no_name(found: Rebuilt) -> Reason:
    text = f"it is built where it is read, or kept in something else than a name ({HERE}):"
    return Reason(_LOOP, text, (at(found.module, found.statement),), "give it a name above the loop")


# What is seen of it.


def _why_seen(script: Script, found: Rebuilt, loader: Loader) -> Reason | None:
    """Why somebody would see that a loader, or what it reads, is the same in each pass."""
    handed = next((each for each in loader.passes if each.how is How.HANDED), None)
    if handed is not None:
        text = f"{handed.reader}() reads it, in code that is not followed ({HERE})"
        return Reason("unknown-reading", text, (loader.at(handed.node),))
    for module, node in script.flow.places(loader.value):
        if not _is_only_read(script, module, node):
            text = f"it is kept or used in another way than to read its batches ({HERE})"
            return Reason("unknown-reading", text, (at(module, node),))
    return loader.dataset.why_unknown or _why_changed(script, found, loader)


def _is_only_read(script: Script, module: Module, node: ast.expr) -> bool:
    above = module.parent(node)
    if isinstance(above, ast.keyword):
        above = module.parent(above)
    if isinstance(getattr(node, "ctx", None), ast.Store):
        return isinstance(node, ast.Name)
    if isinstance(above, ast.Attribute):
        return above.attr in _SEEN_ALIKE and isinstance(above.ctx, ast.Load)
    if isinstance(above, (ast.Assign, ast.AnnAssign, ast.Return)):
        return True
    if isinstance(above, ast.Tuple):
        return isinstance(module.parent(above), (ast.Return, ast.Assign))
    if isinstance(above, ast.Call):
        callees = script.flow.values(above.func)
        return bool(callees) and not any(isinstance(owner_of(each), Container) for each in callees)
    return isinstance(above, _READING)


def _why_changed(script: Script, found: Rebuilt, loader: Loader) -> Reason | None:
    """Why what the loader reads changes in the loop."""
    code = worker_code(script.flow, loader)
    for class_ in code.classes:
        length = script.flow.method(class_, "__len__")
        if length is not None and (_draws(script, length) or changes(length)):
            text = f"its data set does more than to count its items where it is asked for its length ({HERE})"
            return Reason("dataset-changes", text, (loader.at(length),))
    for module, node in changes_of_what_is_sent(code):
        if any(above is found.loop for above, _ in around(script.flow, module, node)):
            text = f"its data set, or what that works with, is changed in the loop ({HERE})"
            return Reason("dataset-changes", text, (at(module, node),))
    held = frozenset(each for each in code.objects if not isinstance(each, Literal))
    return Invariants(script, found.module, found.loop).why_changed(held)


def _draws(script: Script, function: ast.AST) -> bool:
    return any(call_draws(script.flow, each) for each in ast.walk(function) if isinstance(each, ast.Call))


# When it is built.


def _why_missed(script: Script, found: Rebuilt, statements: Sequence[ast.stmt]) -> Reason | None:
    """Who sees that a name is there above the loop already, or after a loop that had no pass."""
    names = {name.id for statement in statements for name in names_of(statement)}
    may_be_skipped = not _surely_runs(script, found.loop)
    node = next(asked(script, found.module, found.loop, names, may_be_skipped=may_be_skipped), None)
    if node is None:
        return None
    text = f"the script asks which names there are ({HERE}), and its name would be there before the loop:"
    return Reason(_LOOP, text, (at(found.module, node),), "build it above the loop")


def _why_not_read_before(script: Script, found: Rebuilt, last: ast.stmt) -> Reason | None:
    """Why files would be read that are not read now: the loop may have no pass, or end one before it reads them."""
    if not _surely_runs(script, found.loop):
        text = f"the loop may have no pass, and then no data are read ({HERE}):"
        return Reason(_LOOP, text, (at(found.module, found.loop),), "build data set and loader above the loop")
    for each in found.loop.body:
        if each is last:
            break
        leaving = next(iter(own(each, *_LEAVING)), None)
        if leaving is not None:
            return Reason(_LOOP, f"a pass may end before it reads the data ({HERE})", (at(found.module, leaving),))
    return None


def _surely_runs(script: Script, loop: ast.For | ast.AsyncFor | ast.While) -> bool:
    """Whether the loop has a first pass: ``while True``, ``range(10)``."""
    if isinstance(loop, ast.While):
        return isinstance(loop.test, ast.Constant) and bool(loop.test.value)
    if not isinstance(loop.iter, ast.Call) or loop.iter.keywords:
        return False
    called = {each.name for each in script.flow.values(loop.iter.func)}
    bounds = [script.flow.values(each) for each in loop.iter.args]
    numbers = [each.value for values in bounds for each in values if isinstance(each, Literal)]
    counts = [each for each in numbers if isinstance(each, int)]
    is_known = all(len(values) == 1 for values in bounds) and len(counts) == len(bounds)
    return called == {"builtins.range"} and is_known and len(range(*counts)) > 0
