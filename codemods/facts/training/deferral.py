"""Which numbers does a loop read from the device in each pass only to add them up, and could add up there?"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from codemods.dataflow.names import decorators, words
from codemods.dataflow.recursion import closure
from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import FUNCTIONS, LOOPS, last_name, unparsed, walk
from codemods.dataflow.values import HostTensor, Literal, MovedTensor
from codemods.facts.data.loader_use import why_one_batch
from codemods.facts.devices.cuda_use import capture, no_cuda
from codemods.facts.devices.readings import is_copy_to_host, is_sure, reading, waits
from codemods.facts.loops import module_of, repeats
from codemods.facts.models.local_steps import held_by, writes_into
from codemods.facts.models.scripted_code import may_be_scripted
from codemods.facts.precision.floats import is_differentiated
from codemods.facts.reach import own, stores
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.added_by_name import named
from codemods.facts.training.apart import can_tell_device, other_device, why_apart
from codemods.facts.training.arrays_of_one import ArrayOfOne, array_of_one
from codemods.facts.training.deferred_copies import Copy, DeferredCopy, copied
from codemods.facts.training.deferred_lists import NUMBERS, DeferredList
from codemods.facts.training.deferred_rows import ROWS, DeferredRows
from codemods.facts.training.deferred_tensors import DeferredTensor, made_tensor
from codemods.facts.training.deferred_updates import DeferredUpdates
from codemods.facts.training.iterations import called_functions, is_backward
from codemods.facts.training.kept_copies import kept_copies
from codemods.facts.training.number_uses import KEEPING, use_in_passes, use_of_sum, why_needed
from codemods.facts.training.own_meters import Meter, own_meter
from codemods.facts.training.seldom_uses import SeldomUse, seldom_uses
from codemods.facts.training.shown_tensors import shown_tensors
from codemods.facts.training.step_loops import clocks, rare_suite, step_loop
from codemods.facts.training.sums import Deferral
from codemods.facts.training.totals import Total, added, appended, decayed, told, written_item
from codemods.facts.training.totals_of_items import ItemTotal, item_of, own_dictionary
from codemods.facts.training.unread_copies import unread_copies
from codemods.library.streams import ENTERS_STREAM
from codemods.library.waits import SYNCHRONIZES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, FunctionNode, Module
    from codemods.facts.devices.readings import Reading
    from codemods.facts.script import Script
    from codemods.facts.training.totals import Loop, MadeTensor

_SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign)
_METERING = frozenset({"update", "add"})
_METER = "give it the tensor, detached, and make a number of its average where that is shown"
_CLOCK = "read it every so many iterations, below what these print of the device"
_CLOCK_THERE = "read it below what is printed there of the device"
_COMPUTING = frozenset(
    words("float int round abs sum mean average min max sqrt str format list tuple sorted array stack items values")
)
"""What makes a number, a text or a list of numbers."""
_COMPILERS = frozenset({"compile", "script", "jit"})


Outcome: TypeAlias = "tuple[ast.AST, Deferral | SeldomUse | Reason]"


def outcomes(script: Script) -> Iterator[Outcome]:
    """What the module reads from the device in each iteration: sums that can stay there, and why the others cannot."""
    found: dict[Loop, list[Reading]] = {}
    outside: list[Reading] = []
    for call in script.module.nodes(ast.Call):
        one = (
            reading(script.flow, script.module, call)
            or copied(script.flow, script.module, call)
            or array_of_one(script.flow, script.module, call)
        )
        if one is None:
            continue
        loop = step_loop(script.flow, script.module, call)
        if loop is None:
            outside += [one] if not isinstance(one, Copy) else []
        elif rare_suite(script.module, loop, call) is None:
            found.setdefault(loop, []).append(one)
    for loop, readings in found.items():
        yield from _Iteration(script, loop, _outermost(readings)).outcomes()
    outside = _outermost(outside)
    of_loops = _of_inner_loops(script, [each for each in outside if _is_in_iterations(script, each)])
    deferred = {one.node for each in of_loops for one in each.readings}
    yield from ((each.readings[0].node, each) for each in of_loops)
    for one in outside:
        reason = _why_returned(script, one) or _why_used(script, one) if one.node not in deferred else None
        if reason is not None:
            yield one.node, _obstacle_of_script(script) or reason
    yield from _of_other_waits(script)


def _of_other_waits(script: Script) -> Iterator[Outcome]:
    """What else each iteration waits for: tensors that are written out, lists of them, copies that nothing reads."""
    if _obstacle_of_script(script) is None:
        for node, use in (*shown_tensors(script.flow, script.module), *kept_copies(script.flow, script.module)):
            yield node, use.because(script.module)
        for name, copy in unread_copies(script.flow, script.module):
            text = f"'{name.id}' is copied to the host in each iteration, and nothing reads it:"
            yield copy, Reason("unread", text, remedy="remove the copy")


def _of_inner_loops(script: Script, readings: Sequence[Reading], within: Loop | None = None) -> Sequence[Deferral]:
    """The sums that loops keep which run in each iteration, where these can stay on the device until such a loop ends.

    The iteration waits once then, and no longer in each pass of the loop.
    """
    found: list[Deferral] = []
    left = list(readings)
    around = {loop for one in readings for loop in _loops_around(script.module, one.node, within)}
    for loop in sorted(around, key=script.module.span):
        inside = [each for each in left if each.node in walk(loop)]
        for deferral in _Iteration(script, loop, inside, is_inner=True).deferrals():
            found.append(deferral)
            left = [each for each in left if each not in deferral.readings]
    return found


def _loops_around(module: Module, node: ast.AST, within: Loop | None) -> Iterator[Loop]:
    """The loops whose passes come to a node, of its function and inside of another one."""
    below = node
    for above in module.ancestors(node):
        if above is within or isinstance(above, (*FUNCTIONS, ast.ClassDef)):
            return
        if isinstance(above, LOOPS) and repeats(above, below):
            if not isinstance(above, (ast.For, ast.While)):
                return
            yield above
        below = above


def _is_in_iterations(script: Script, one: Reading) -> bool:
    """Whether the function of what is read runs in each iteration of some loop, by whatever calls it."""
    function = one.module.function(one.node)
    return function is not None and any(
        _is_called_in_passes(script.flow, each)
        for each in closure([function], lambda each: _callers(script.flow, each))
    )


def _callers(flow: Flow, function: Callee) -> Iterator[Callee]:
    """The functions that call a function, which are not seen to do so at times only."""
    for call in flow.callers(function):
        caller = module_of(flow, call).function(call)
        if caller is not None:
            yield caller


def _is_called_in_passes(flow: Flow, function: Callee) -> bool:
    for call in flow.callers(function):
        where = module_of(flow, call)
        loop = step_loop(flow, where, call)
        if loop is not None and rare_suite(where, loop, call) is None:
            return True
    return False


def _why_returned(script: Script, one: Reading) -> Reason | None:
    """That a function returns the number in each iteration of a loop that calls it; None where it does not.

    So it does where another function calls it, and returns the number in turn.
    """
    ignored: Reason | None = None
    for function, call in _handing_on(script.flow, one):
        where = module_of(script.flow, call)
        loop = step_loop(script.flow, where, call)
        if loop is None or rare_suite(where, loop, call) is not None:
            continue
        if isinstance(where.parent(call), ast.Expr):
            text = f"'{function.name}()' returns its value in each iteration ({HERE}), where nobody takes it:"
            ignored = ignored or Reason("needed-each-step", text, (at(where, call),), "return the tensor, detached")
            continue
        use = use_in_passes(where, loop, call, "it")
        if use is not None and use.decides:
            remedy = f"return the tensor, detached, and {use.remedy}" if use.remedy else ""
            text = f"'{function.name}()' returns its value, and {use.text}"
            return use._replace(text=text, remedy=remedy).because(where)
        text = f"'{function.name}()' returns its value in each iteration ({HERE}):"
        remedy = "return the tensor, detached, and ask for its number as seldom as that is read"
        return Reason("needed-each-step", text, (at(where, call),), remedy)
    return ignored


def _handing_on(flow: Flow, one: Reading) -> Iterator[tuple[FunctionNode, ast.Call]]:
    """The calls of functions that return the number, also of those that return what such a call gives."""
    todo: list[tuple[Module, ast.expr]] = [(one.module, one.node)]
    seen: set[FunctionNode] = set()
    for module, node in todo:
        function = module.function(node)
        if function is None or isinstance(function, ast.Lambda) or not _is_returned(module, function, node):
            continue
        if function not in seen:
            seen.add(function)
            for call in flow.callers(function):
                yield function, call
                todo.append((module_of(flow, call), call))


def _why_used(script: Script, one: Reading) -> Reason | None:
    """What a function that each iteration calls needs the number for; None where it reads it at times only."""
    module, function = one.module, one.module.function(one.node)
    if function is None or isinstance(function, ast.Lambda) or not _is_in_iterations(script, one):
        return None
    is_moved = any(isinstance(each, MovedTensor) for each in script.flow.values(one.tensor))
    if not is_moved and not is_differentiated(module, one.tensor):
        return None  # it may well be on the host
    within = next(each for each in function.body if one.node in walk(each))
    if rare_suite(module, function, one.node) is not None or not is_sure(module, one.node, within):
        return None
    use = use_in_passes(module, function, one.node)
    is_returned = use is not None and isinstance(module.statement(use.node), ast.Return)
    return why_needed(module, function, one, if_kept="return the tensor, detached" if is_returned else NUMBERS)


def _is_returned(module: Module, function: Callee, node: ast.expr) -> bool:
    """Whether a number is in what the function returns: itself, or what it is assigned to, added to or kept in."""
    statement = module.statement(node)
    if isinstance(statement, ast.Return):
        return True
    names = _filled(statement) if _is_handed_on(module, node) else set()
    if not names:
        return False
    others = [each for each in own(function, ast.stmt) if not isinstance(each, ast.Return)]
    read = {each: _read(module, each) for each in own(function, ast.stmt)}
    while more := {name for each in others if not names.isdisjoint(read[each]) for name in _filled(each)} - names:
        names |= more
    return any(not names.isdisjoint(read[each]) for each in own(function, ast.Return))


def _is_handed_on(module: Module, node: ast.expr) -> bool:
    """Whether a statement goes on with a value itself, or with a number that is computed of it.

    So it does with an item of a dictionary, whatever function is given that; not with a size that a function is given.
    """
    below: ast.AST = node
    is_item = False
    for above in module.ancestors(node):
        match above:
            case ast.stmt():
                return True
            case ast.Dict():
                is_item = True
            case ast.Call(func) if below is not func:
                is_item = is_item or last_name(func) == "dict"
                if not is_item and last_name(func) not in KEEPING | _COMPUTING:
                    return False
            case ast.Subscript(value) if below is not value:
                return False
        below = above
    return False


def _filled(statement: ast.stmt) -> set[str]:
    """The names that a simple statement gives a value, or to which it adds or appends."""
    kept = added(statement) or appended(statement) or decayed(statement)
    if kept is not None:
        return {kept[0]}
    match statement:
        case ast.Expr(ast.Call(ast.Attribute(ast.Name(name), method))) if method in KEEPING:
            return {name}
        case ast.Assign([ast.Subscript(ast.Name(name))]):
            return {name}
    is_assignment = isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign))
    return {each.id for each in stores(statement) if isinstance(each, ast.Name)} if is_assignment else set()


def _read(module: Module, statement: ast.stmt) -> set[str]:
    """The names with whose values a simple statement goes on; none of what has statements of its own."""
    if not isinstance(statement, (*_SIMPLE, ast.AnnAssign, ast.Return)):
        return set()
    names = (each for each in walk(statement) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load))
    return {each.id for each in names if _is_handed_on(module, each)}


def _obstacle_of_script(script: Script) -> Reason | None:
    """What speaks against all of it in each loop of the script."""
    if not script.may_use_cuda:
        return no_cuda(script)
    if script.framework is not None and not script.is_accelerated:
        return Reason("framework", f"{script.framework} runs the training loop")
    return capture(script)


def _without_blocks(statements: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """The statements, with what a ``with`` enters and those within in its place."""
    for each in statements:
        if isinstance(each, ast.With):
            yield from each.items
            yield from _without_blocks(each.body)
        else:
            yield each


def _differentiates(flow: Flow, statement: ast.AST) -> bool:
    """Whether a statement calls ``backward()``, itself or in the functions of the project that it calls."""
    for call in own(statement, ast.Call):
        inner = (each for function in called_functions(flow, call) for each in walk(function))
        if is_backward(flow, call) or any(isinstance(each, ast.Call) and is_backward(flow, each) for each in inner):
            return True
    return False


def _outermost(readings: list[Reading]) -> list[Reading]:
    """The readings that are no part of others: ``float(loss.item())`` is one."""
    inner = {each for one in readings for each in walk(one.node) if each is not one.node}
    return [each for each in readings if each.node not in inner]


@dataclass(frozen=True, eq=False)
class _Iteration:
    """A loop that runs a model, and what it reads from the device in each pass."""

    script: Script
    loop: Loop
    readings: Sequence[Reading]
    is_inner: bool = False
    """Whether it is one that an iteration runs, of which each pass waits."""

    @property
    def _flow(self) -> Flow:
        return self.script.flow

    @property
    def _module(self) -> Module:
        return self.script.module

    def outcomes(self) -> Iterator[Outcome]:
        """For each sum, and each other reading, what can be done about it."""
        obstacle = self._obstacle()
        reasons, others = self._reasons(obstacle)
        seldom = {each: self._why_seldom_in_vain(each, reasons) for each in self._seldom} if obstacle is None else {}
        for use, reason in seldom.items():
            yield use.readings[0].node, reason or use
        covered = {one for each in seldom for one in each.readings}
        for deferral, reason in reasons.items():
            inner = [] if reason is None or obstacle is not None else self._inner(deferral)
            if inner:
                yield from ((each.readings[0].node, each) for each in inner)
            else:
                yield deferral.readings[0].node, reason or deferral
        for one in others:
            if one not in covered:
                yield one.node, obstacle or self._why_needed(one)

    def deferrals(self) -> Iterator[Deferral]:
        """The sums that can stay on the device while the loop runs."""
        reasons, _ = self._reasons(self._obstacle())
        yield from (each for each, reason in reasons.items() if reason is None)

    def _reasons(self, obstacle: Reason | None) -> tuple[dict[Deferral, Reason | None], list[Reading]]:
        """The sums, each with what speaks against it, and what is read for something else."""
        sums, others = self._sorted()
        deferrals = [self._deferral(total, tuple(readings)) for total, readings in sums]
        reasons = {each: obstacle or self._why_not(each) for each in deferrals}
        if obstacle is None:
            deferred = [each for each, reason in reasons.items() if reason is None]
            timed = self._times(deferred)
            waiting = list(self._other_waits(deferred))
            reasons.update({each: self._why_in_vain(each.readings, waiting) or timed for each in deferred})
        return reasons, others

    @cached_property
    def _seldom(self) -> Sequence[SeldomUse]:
        """What is read in each pass, and could be in few."""
        return () if self.is_inner else tuple(seldom_uses(self._flow, self.loop, self._others))

    @property
    def _others(self) -> Sequence[Reading]:
        """The numbers that are read for something else than a sum."""
        return [each for each in self._sorted()[1] if not isinstance(each, ArrayOfOne)]

    def _why_seldom_in_vain(self, use: SeldomUse, reasons: Mapping[Deferral, Reason | None]) -> Reason | None:
        """Why nothing is gained where few passes read it: each waits for something else, or is timed."""
        deferred = [each for each, reason in reasons.items() if reason is None]
        return self._why_in_vain(use.readings, list(self._other_waits(deferred))) or self._times(deferred)

    def _inner(self, deferral: Deferral) -> Sequence[Deferral]:
        """The sum as one of a loop of the iteration, which adds all of it; empty where that is none."""
        inner = _of_inner_loops(self.script, deferral.readings, within=self.loop)
        return inner if {one for each in inner for one in each.readings} == set(deferral.readings) else []

    def _deferral(self, total: Total, readings: tuple[Reading, ...]) -> Deferral:
        if total.made is not None:
            return DeferredTensor(self._flow, total, readings, self.script, total.made)
        if all(isinstance(each, Copy) for each in readings):
            return DeferredCopy(self._flow, total, readings)
        by_name = [named(self._flow, self.loop, each) for each in readings]
        by_names = {each.read: each.given for each in by_name if each is not None and each.total == total.name}
        if isinstance(total, Meter):
            return DeferredUpdates(self._flow, total, readings, named=by_names, script=self.script)
        kept = appended(total.additions[0])
        if kept is not None:
            of_kept = DeferredRows if isinstance(kept[1], ROWS) else DeferredList
            return of_kept(self._flow, total, readings, named=by_names, script=self.script)
        return Deferral(self._flow, total, readings, named=by_names)

    def _why_not(self, deferral: Deferral) -> Reason | None:
        """What speaks against one of them."""
        # Nothing is added up in a tensor, or in most lists: what is put there may be of any device.
        adds_floats = type(deferral) is Deferral and deferral.has_floats
        if isinstance(deferral, DeferredList):
            adds_floats = any(map(deferral.widens, deferral.readings))
        device = other_device(self.script) if adds_floats and not can_tell_device(deferral) else None
        return device or deferral.why_not() or self._why_apart(deferral)

    def _why_apart(self, deferral: Deferral) -> Reason | None:
        is_kept_apart = isinstance(deferral, DeferredTensor)
        is_kept_apart = is_kept_apart or (isinstance(deferral, DeferredList) and not deferral.joins)
        adds_one = is_kept_apart or (len(deferral.readings) == 1 and not self.is_inner)
        return why_apart(self.script, deferral.total, adds_one=adds_one)

    def _sorted(self) -> tuple[list[tuple[Total, list[Reading]]], list[Reading]]:
        """The sums that the loop keeps, each with what it reads for them; and what it reads for something else."""
        by_name: dict[str, list[Reading]] = {}
        makers: dict[str, MadeTensor] = {}
        others: list[Reading] = []
        for one in self.readings:
            if isinstance(one, ArrayOfOne):
                others.append(one)
                continue
            statement = self._module.statement(one.node)
            pair = added(statement) or appended(statement) or decayed(statement)
            item = written_item(statement)
            is_kept = pair is not None and self._has_own(statement)
            if pair is not None and is_kept and one.node in walk(pair[1]):
                by_name.setdefault(pair[0], []).append(one)
            elif item is not None and one.node in walk(item[1]) and (made := self._made(item[0])) is not None:
                name = unparsed(item[0].value)
                by_name.setdefault(name, []).append(one)
                makers[name] = made
            elif (
                not isinstance(one, Copy)
                and (by := named(self._flow, self.loop, one)) is not None
                and self._has_own(self._module.statement(by.read))
            ):
                by_name.setdefault(by.total, []).append(one)
            elif (
                (meter := told(statement)) is not None
                and one.node in arguments_of(meter[1])
                and self._has_own(statement)
            ):
                by_name.setdefault(meter[0], []).append(one)
            else:
                others.append(one)
        return [(self._total(name, makers.get(name)), readings) for name, readings in by_name.items()], others

    def _made(self, item: ast.Subscript) -> MadeTensor | None:
        """The new tensor of which it is an item."""
        return made_tensor(self.script, self._module, item.value) if isinstance(item.value, ast.Name) else None

    def _has_own(self, statement: ast.stmt) -> bool:
        """Whether a statement adds to what is of the function alone: a name, an item of its dictionary, or a meter."""
        if told(statement) is not None:
            return not self.is_inner and own_meter(self._flow, self._module, self.loop, statement) is not None
        item = item_of(statement)
        return item is None or own_dictionary(self._module, self.loop, item) is not None

    def _total(self, name: str, made: MadeTensor | None) -> Total:
        statements = own(self.loop, ast.stmt)
        found = tuple(each for each in statements if self._adds_to(each, name, is_tensor=made is not None))
        meter = own_meter(self._flow, self._module, self.loop, found[0])
        if meter is not None:
            return Meter(self._module, self.loop, name, found, own=meter)
        item = item_of(found[0]) if made is None else None
        kept = own_dictionary(self._module, self.loop, item) if item is not None else None
        if item is not None and kept is not None:
            return ItemTotal(self._module, self.loop, name, found, is_inner=self.is_inner, item=item, dictionary=kept)
        return Total(self._module, self.loop, name, found, made, is_inner=self.is_inner)

    @staticmethod
    def _adds_to(statement: ast.stmt, name: str, *, is_tensor: bool) -> bool:
        item = written_item(statement) if is_tensor else None
        if item is not None:
            return unparsed(item[0].value) == name
        pair = added(statement) or appended(statement) or decayed(statement) or told(statement)
        return not is_tensor and pair is not None and pair[0] == name

    def _obstacle(self) -> Reason | None:
        """What speaks against all of it."""
        of_loop = why_one_batch(self.script, self.loop) or self._why_unordered() or self._why_compiled()
        return _obstacle_of_script(self.script) or of_loop

    def _why_unordered(self) -> Reason | None:
        """Where the wait in each iteration keeps an order that nothing else does: of streams, and of copies."""
        for module in self.script.modules:
            for block in module.nodes(ast.With):
                entered = (value.name for each in block.items for value in self._flow.values(each.context_expr))
                if not ENTERS_STREAM.isdisjoint(entered):
                    text = f"the script runs kernels on streams of its own ({HERE}), which may wait for each other here"
                    return Reason("other-stream", text, (at(module, block),))
        for move in self.script.transfers:
            is_free = move.non_blocking is not None and not self._flow.values(move.non_blocking) <= {Literal("False")}
            is_here = move.module is self._module and move.call in walk(self.loop)
            if is_free and is_here and not move.loaders and any(isinstance(each, HostTensor) for each in move.sources):
                text = f"a copy in the loop does not block ({HERE}), and the host may write to its memory while it runs"
                return Reason("written-while-copied", text, (at(self._module, move.call),))
        for call in own(self.loop, ast.Call):
            is_free = any(each.arg == "non_blocking" for each in call.keywords)
            if is_free and isinstance(call.func, ast.Attribute) and is_copy_to_host(self._flow, call):
                text = f"a copy to the host does not block ({HERE}), and is over once the iteration waits"
                return Reason("written-while-copied", text, (at(self._module, call),))
        return None

    def _why_compiled(self) -> Reason | None:
        function = self._module.function(self.loop)
        if function is not None and decorators(function) & _COMPILERS:
            text = f"the function of the loop is compiled ({HERE}), and its sums may then be fused with what they add"
            return Reason("rounds-otherwise", text, (at(self._module, function),))
        if function is not None and function in may_be_scripted(self.script):
            text = f"TorchScript may compile the function of the loop ({HERE}), where a number stays a number"
            return Reason("unknown-number", text, (at(self._module, function),))
        return None

    def _other_waits(self, deferred: list[Deferral]) -> Iterator[tuple[int, Module, ast.expr]]:
        """Where each iteration waits for the device even if these sums stay there, and in which of its statements."""
        there = [*(each.readings for each in deferred), *(each.readings for each in self._seldom)]
        deferred_readings = [one for readings in there for one in readings]
        # What is computed before it is read still waits where that goes by way of the host.
        stays = {each for one in deferred_readings for each in walk(one.node)}
        stays -= {each for one in deferred_readings for each in walk(one.tensor)}
        stays |= {copy for each in deferred for one in each.readings for copy in one.copies}
        for number, statement in enumerate(self._statements):
            here = (each.node for each in self._unsure if each.node in walk(statement))
            perhaps = ((self._module, each) for each in here if is_sure(self._module, each, statement))
            for module, node in (*waits(self._flow, self._module, [statement]), *perhaps):
                if node not in stays:
                    yield number, module, node

    @property
    def _unsure(self) -> Sequence[Reading]:
        """What passes read of what may be a tensor, as far as is known; numbers have no ``item()``."""
        return [each for each in self.readings if not each.is_sure]

    @cached_property
    def _statements(self) -> Sequence[ast.AST]:
        """What runs in each pass, in this order."""
        body = list(_without_blocks(self.loop.body))
        return [self.loop.test, *body] if isinstance(self.loop, ast.While) else body

    @cached_property
    def _backwards(self) -> Sequence[int]:
        """Which of the statements differentiate a loss."""
        return [number for number, each in enumerate(self._statements) if _differentiates(self._flow, each)]

    def _why_in_vain(
        self, readings: Sequence[Reading], others: Sequence[tuple[int, Module, ast.expr]]
    ) -> Reason | None:
        """Where the iteration waits for the device anyway, if no backward lies between that and these readings.

        Where one does, the host goes on while the device computes gradients: to the next batch, or to the optimizer.
        """
        nodes = [each.node for each in readings]
        own_numbers = [number for number, each in enumerate(self._statements) if not set(walk(each)).isdisjoint(nodes)]
        for other, module, node in others:
            if all(any(min(other, each) < one < max(other, each) for one in self._backwards) for each in own_numbers):
                continue
            maybe = next(
                (f", if '{unparsed(each.tensor)}' is a tensor" for each in self._unsure if each.node is node), ""
            )
            text, place = f"each iteration waits for the device anyway{maybe} ({HERE})", (at(module, node),)
            function = module.function(node)
            if (
                isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
                and function is not self._module.function(self.loop)
                and reading(self._flow, module, node)
                and _is_returned(module, function, node)
            ):
                remedy = f"return the tensor from '{function.name}()', detached, and add it up as this one"
                return Reason("waits-anyway", f"{text}:", place, remedy)
            return Reason("waits-anyway", text, place)
        return None

    def _times(self, deferred: list[Deferral]) -> Reason | None:
        """Where the loop reads a clock that would show when work was queued, no longer when it was done."""
        for clock in clocks(self._flow, self.loop):
            suite = rare_suite(self._module, self.loop, clock)
            is_waited = suite is not None and any(self._waits_before(each, clock, suite, deferred) for each in suite)
            is_waited = is_waited or any(
                isinstance(each, DeferredUpdates) and each.waits_for(clock) for each in deferred
            )
            if not is_waited and not (suite is not None and self._reads_before(clock, suite)):
                text = (
                    f"the loop reads a clock, which shows how long the device took as long as the host waits ({HERE}):"
                )
                return Reason(
                    "times-steps", text, (at(self._module, clock),), _CLOCK if suite is None else _CLOCK_THERE
                )
        return None

    def _reads_before(self, clock: ast.Call, suite: Sequence[ast.stmt]) -> bool:
        """Whether a number that few passes use is read beside a clock, and before it."""
        here = self._module.statement(clock)
        return any(
            use.anchor in suite and self._module.span(use.anchor) <= self._module.span(here) for use in self._seldom
        )

    def _waits_before(
        self, statement: ast.stmt, clock: ast.Call, suite: Sequence[ast.stmt], deferred: list[Deferral]
    ) -> bool:
        """Whether a statement beside a clock, and before it, waits for the device: for a sum, or for something else."""
        module = self._module
        if not module.span(statement) < module.span(module.statement(clock)):
            return False
        sums = (each for one in deferred for each in one.total.read_inside)
        if any(module.statement(each) is statement and rare_suite(module, self.loop, each) is suite for each in sums):
            return True
        calls = [each for each in walk(statement) if isinstance(each, ast.Call)]
        if isinstance(statement, ast.Expr) and statement.value in calls[:1] and self._synchronizes(calls[0]):
            return True
        return isinstance(statement, _SIMPLE) and any(reading(self._flow, module, each) for each in calls)

    def _synchronizes(self, call: ast.Call) -> bool:
        """``torch.cuda.synchronize()``."""
        found = self._flow.values(call.func)
        return bool(found) and all(each.name in SYNCHRONIZES for each in found)

    def _why_needed(self, one: Reading) -> Reason:
        """What the number is needed for in each pass."""
        match self._module.statement(one.node):
            case ast.AugAssign(ast.Attribute() | ast.Subscript() as target, ast.Add() | ast.Sub()):
                use = use_of_sum(self._module, self.loop, target)
                if use is not None:
                    return use.because(self._module)
                text = f"other code may read '{unparsed(target)}' while the loop runs ({HERE}):"
                place = at(self._module, one.node)
                return Reason("seen-elsewhere", text, (place,), remedy="add up under a name of the function")
        in_vain = (self._why_kept_in_vain(one) or self._times([])) if self._is_only_kept(one) else None
        kept_apart = "" if self._is_written_to(one) or self._is_part(one) else NUMBERS
        remedy = _METER if self._is_given_to_meter(one) else kept_apart
        return in_vain or why_needed(self._module, self.loop, one, if_kept=remedy)

    def _is_written_to(self, one: Reading) -> bool:
        """Whether the loop writes to the tensor itself, so that it is another number later."""
        root = held_by(one.tensor)
        return root is not None and any(writes_into(each, root) for each in walk(self.loop))

    def _is_part(self, one: Reading) -> bool:
        """Whether it is written into a part of a tensor or an array: ``words[:, n] = best.item()``."""
        match self._module.statement(one.node):
            case ast.Assign([ast.Subscript(slice=ast.Tuple() | ast.Slice())]):
                return True
        return False

    def _is_only_kept(self, one: Reading) -> bool:
        """Whether each pass does nothing with the number but to keep it."""
        use = use_in_passes(self._module, self.loop, one.node)
        return use is not None and not use.decides and not use.remedy

    def _why_kept_in_vain(self, one: Reading) -> Reason | None:
        """Where the iteration waits for the device even if it kept all as tensors that it keeps as numbers."""
        decisive = {each.node for each in self._sorted()[1] if not self._is_only_kept(each)}
        kept = {node for each in self.readings if each.node not in decisive for node in walk(each.node)}
        return self._why_in_vain([one], [each for each in self._other_waits([]) if each[2] not in kept])

    def _is_given_to_meter(self, one: Reading) -> bool:
        """Whether a method of the project is given it: ``losses.update(loss.item(), n)``."""
        match self._module.parent(one.node):
            case ast.Call(ast.Attribute(attr=name), arguments) as call if name in _METERING and one.node in arguments:
                return bool(self._flow.called(call))
        return False
