"""Tensors and losses that each training iteration makes anew, and that are the same each time."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.names import bound_names, scope_of, words
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import LOOPS, walk
from codemods.dataflow.values import (
    Choice,
    Container,
    External,
    Literal,
    Plain,
    Unknown,
    library_names,
    without_none,
)
from codemods.facts.asked_names import asked
from codemods.facts.devices.fillings import calls_of_chain
from codemods.facts.devices.writes import writes
from codemods.facts.invariants import names_of
from codemods.facts.reach import Reach, own
from codemods.facts.reaching import targets
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.constant_values import VARIABLE, ConstantValues, parts
from codemods.facts.training.tensor_uses import TensorUses
from codemods.library.fills import FILLING, copies, is_tensor_type
from codemods.library.losses import is_stateless_loss

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.script import Script

_DEVICE = "torch.device"
_PARAMETER = "torch.nn.Parameter"
_FULL, _FILL = "torch.full", "fill_value"
_HOLDERS = (ast.List, ast.Tuple, ast.Dict, ast.Set)
_NUMBERS = (Literal, Plain, Choice)
_FIXED = (*_NUMBERS, Container, External)
"""What is a number, or else a list, of which it is asked elsewhere whether it changes, or a constant of a library."""
_SETS_DEVICE = words(
    "torch.cuda.set_device torch.set_default_device torch.set_default_dtype torch.set_default_tensor_type"
)


@dataclass(frozen=True, eq=False)
class LoopConstant:
    """An assignment that each iteration of a training loop carries out to the same effect."""

    module: Module
    statement: ast.stmt
    loop: ast.For | ast.AsyncFor | ast.While
    statements: tuple[ast.stmt, ...]
    """What goes above the loop with it, itself among them: numbers that it is made of."""
    why_not: Reason | None


def loop_constants(script: Script) -> Iterator[LoopConstant]:
    """The constants that the training loops of the module make anew in each iteration, in the order of the text."""
    loops = dict.fromkeys(each.owner for each in script.iterations if isinstance(each.owner, LOOPS))
    for loop in loops:
        if not script.module.holds(loop):
            continue
        found = [
            each
            for statement in walk(loop)
            if isinstance(statement, ast.Assign) and _is_of_loop(script.module, statement, loop)
            for each in _Reader(script, loop, statement).found()
        ]
        yield from (each for each in found if not _is_said(each, found))


def _is_said(one: LoopConstant, found: Sequence[LoopConstant]) -> bool:
    """Whether it goes above the loop with another one, or stays there because what it is made of does."""
    moved = [each for each in found if each.why_not is None and one.statement in each.statements]
    if moved:
        return moved[0] is not one
    return any(each is not one and each.why_not is not None and each.statement in one.statements for each in found)


def _is_of_loop(module: Module, statement: ast.stmt, loop: ast.AST) -> bool:
    """Whether the loop is the innermost one around the statement, in one function with it."""
    around = next((each for each in module.ancestors(statement) if isinstance(each, LOOPS)), None)
    return around is loop and module.function(statement) is module.function(loop)


def _makes_loss(script: Script, value: ast.expr) -> bool:
    """Whether it makes a loss of torch that keeps nothing: ``nn.BCELoss().cuda()``."""
    calls = tuple(calls_of_chain(script, value))
    values = script.flow.values(calls[-1].func) if calls else frozenset()
    return bool(values) and all(isinstance(each, External) and is_stateless_loss(each.name) for each in values)


def _assignments(
    statements: Sequence[ast.stmt], gives: Callable[[ast.expr], bool] | None = None
) -> Iterator[ast.Assign | ast.AnnAssign]:
    """The assignments among them, and under an ``if`` among them, of those values that are asked for."""
    for each in (inner for statement in statements for inner in walk(statement)):
        if isinstance(each, (ast.Assign, ast.AnnAssign)) and (
            gives is None or (each.value is not None and gives(each.value))
        ):
            yield each


def asks_for_gradients(flow: Flow, node: ast.AST) -> bool:
    """``requires_grad=True``, ``x.requires_grad = True``, ``x.requires_grad_()``, ``nn.Parameter(x)``."""
    match node:
        case ast.keyword("requires_grad", ast.Constant(value)):
            return bool(value)
        case ast.keyword("requires_grad") | ast.Attribute(_, "requires_grad_"):
            return True
        case ast.Attribute(_, "requires_grad", ast.Store()):
            return True
        case ast.Call(_, [_, ast.Constant(value), *_]) if _wraps(flow, node, VARIABLE, _PARAMETER):
            return bool(value)
        case ast.Call(_, [_, _, *_]):
            return _wraps(flow, node, VARIABLE, _PARAMETER)
        case ast.Call():
            return _wraps(flow, node, _PARAMETER) and all(each.arg != "requires_grad" for each in node.keywords)
    return False


def _wraps(flow: Flow, call: ast.Call, *names: str) -> bool:
    return not library_names(flow.values(call.func)).isdisjoint(names)


class _Reader:
    def __init__(self, script: Script, loop: ast.For | ast.AsyncFor | ast.While, statement: ast.Assign) -> None:
        self._script = script
        self._flow = script.flow
        self._module = script.module
        self._loop = loop
        self._statement = statement

    def found(self) -> Iterator[LoopConstant]:
        """The constant, if the statement makes one, and is the first to give its names a value."""
        names = names_of(self._statement)
        if not names or any(map(self._is_written, names)):
            return
        for lengths_stay in (False, True):
            invariants = ConstantValues(self._script, self._module, self._loop, lengths_stay=lengths_stay)
            if not self._makes_constants(invariants, self._statement.value):
                return
            if invariants.why_varies(self._statement.value) is None:
                constant = self._constant(invariants)
                if constant is not None:
                    yield constant
                return

    def _constant(self, invariants: ConstantValues) -> LoopConstant | None:
        if not invariants.is_first(self._statement) or invariants.why_statement_varies(self._statement) is not None:
            is_computed = invariants.computes(self._statement.value) and not invariants.lengths_stay
            return self._as((self._statement,), self._why_several()) if is_computed else None
        statements = tuple(sorted(invariants.statements, key=self._module.span))
        if invariants.why_read_between() is not None or any(map(self._copies_what_may_be_written, statements)):
            return None
        arrays = (name for each in _assignments(statements, invariants.is_array) for name in names_of(each))
        if any(map(self._is_written, arrays)):
            return None
        is_within = not any(each is self._statement for each in self._loop.body)
        why_not = self._why_within() if is_within else self._why_not_all(invariants, statements)
        if invariants.lengths_stay:
            return None if why_not is not None else self._as(statements, self._why_as_long())
        return self._as(statements, why_not)

    def _as(self, statements: tuple[ast.stmt, ...], why_not: Reason | None) -> LoopConstant:
        return LoopConstant(self._module, self._statement, self._loop, statements, why_not)

    def _why_several(self) -> Reason:
        name = names_of(self._statement)[0].id
        text = f"the same is computed in each iteration, but '{name}' is given other values, too:"
        return Reason("made-in-loop", text, remedy="compute it once, above the loop, under a name of its own")

    def _why_as_long(self) -> Reason:
        if self._drops_last():
            text = "it is as long as the batch, and all batches are of one length:"
            return Reason("made-in-loop", text, remedy="make it once, above the loop, for the size that the loader has")
        text = "it is as long as the batch, and the last batch of an epoch may be shorter:"
        return Reason("made-in-loop", text, remedy="make it once for a full batch, and take as many rows of it here")

    def _drops_last(self) -> bool:
        """Whether the loop goes through loaders that drop a last batch which is not full."""
        iterated = self._loop.iter if isinstance(self._loop, (ast.For, ast.AsyncFor)) else None
        named = [each for each in walk(iterated) if isinstance(each, ast.Name)] if iterated is not None else []
        values = {value for each in named for value in self._flow.values(each)}
        drops = [each.arguments.get("drop_last") for each in self._script.loaders if each.value in values]
        return bool(drops) and all(
            each is not None and {value.name for value in each.values} == {"True"} for each in drops
        )

    def _makes_constants(self, invariants: ConstantValues, value: ast.expr) -> bool:
        """Whether it makes tensors that are filled with numbers, or losses of torch, and nothing else."""
        made = value.elts if isinstance(value, ast.Tuple) else [value]
        return all(
            (invariants.makes_tensors(each) and not invariants.is_array(each)) or _makes_loss(self._script, each)
            for each in made
        )

    def _copies_what_may_be_written(self, statement: ast.stmt) -> bool:
        """Whether it holds the elements of an array or tensor, into which other code may write in the loop."""
        copying = (each for each in walk(statement) if isinstance(each, ast.Call) and self._copies(each))
        given = ((*each.args, *(one.value for one in each.keywords if one.arg == _FILL)) for each in copying)
        return any(self._may_be_written(part) for some in given for each in some for part in parts(each))

    def _copies(self, call: ast.Call) -> bool:
        """Whether the call makes a tensor of elements that it is given, or fills one with what it is given."""
        if isinstance(call.func, ast.Attribute) and call.func.attr in FILLING:
            return True
        names = library_names(self._flow.values(call.func))
        return any(copies(each) or is_tensor_type(each) or each == _FULL for each in names)

    def _may_be_written(self, given: ast.expr) -> bool:
        if not isinstance(given, (ast.Name, ast.Attribute)):  # made anew, of what is known to be the same
            return False
        values = without_none(self._flow.values(given))
        if values and all(isinstance(each, _NUMBERS) for each in values):
            return False  # nothing can be written into a number
        if values and all(isinstance(each, _FIXED) for each in values):
            return isinstance(given, ast.Name) and self._is_written(given)
        if isinstance(given, ast.Attribute) or not values or any(isinstance(each, Unknown) for each in values):
            return True
        if given.id in bound_names(ast.Module([self._loop], [])):
            return False
        return (
            not self._is_local(given)
            or self._is_written(given)
            or any(TensorUses(self._flow).unsafe(self._module, each) for each in self._reads(given))
        )

    def _is_local(self, name: ast.Name) -> bool:
        """Whether only the code around the loop names it, so that no caller nor other function has it."""
        function = self._module.function(self._loop)
        return function is None or (
            name.id in bound_names(function)
            and name.id not in signature(function).names
            and name.id not in scope_of(function).outer_bound
        )

    def _why_not_all(self, invariants: ConstantValues, statements: Sequence[ast.stmt]) -> Reason | None:
        """Why one of the statements cannot go above the loop; what they make of numbers alone can."""
        for each in _assignments(statements):
            is_array = each.value is not None and invariants.is_array(each.value)
            is_constant = is_array or (each.value is not None and self._makes_constants(invariants, each.value))
            for name in names_of(each):
                if is_constant:
                    reason = self._why_not(each, name, statements)
                    if reason is not None:
                        return reason
                elif not self._never_changes(name):
                    text = f"what it is made of may be written to ({HERE})"
                    return Reason("may-be-written", text, (at(self._module, each),))
        return None

    def _never_changes(self, name: ast.Name) -> bool:
        """Whether it is a number or a device, which nothing can write to."""
        return all(isinstance(each, _NUMBERS) or each.name == _DEVICE for each in self._flow.values(name))

    def _is_written(self, name: ast.Name) -> bool:
        """Whether it is no constant, as it is written to."""
        function = self._module.function(name)
        return any(
            isinstance(each, ast.Name)
            and each.id == name.id
            and self._module.function(each) is function
            and self._may_hold(each, name)
            for _, written in writes(self._module)
            for each in walk(written)
        )

    def _why_within(self) -> Reason:
        above = self._module.parent(self._statement) or self._loop
        text = f"it does not stand in the loop itself, but in an inner block ({HERE}):"
        return Reason("made-in-loop", text, (at(self._module, above),), "make it above the loop")

    def _why_not(
        self, statement: ast.Assign | ast.AnnAssign, name: ast.Name, together: Sequence[ast.stmt]
    ) -> Reason | None:
        if self._is_written(name):
            text = f"'{name.id}', of which it is made, is written to ({HERE})"
            return Reason("may-be-written", text, (at(self._module, statement),))
        reached = Reach(self._flow).code(self._module, [statement])
        if any(asks_for_gradients(self._flow, each) for _, code in reached for each in walk(code)):
            text = "gradients are asked for of it, and would be added up from one iteration to the next"
            return Reason("other-result", text)
        for module, code in Reach(self._flow).code(self._module, [self._loop]):
            for call in own(code, ast.Call):
                if library_names(self._flow.values(call.func)) & _SETS_DEVICE:
                    text = f"the loop sets a device or a number format ({HERE})"
                    return Reason("script-decides", text, (at(module, call),))
        for node in self._reads(name):
            if not set(together).isdisjoint(self._module.ancestors(node)):
                continue  # what it goes into is looked at itself
            use = self._unsafe(node, frozenset())
            if use is not None:
                text = f"'{name.id}' may be written to or kept by what it is given to ({HERE}):"
                remedy = "make it once, above the loop, where that is not so"
                return Reason("may-be-written", text, (at(self._module, use),), remedy)
        seen = next(asked(self._script, self._module, self._loop, {name.id}, may_be_skipped=True), None)
        if seen is not None:
            text = f"the script asks which names there are ({HERE})"
            return Reason("seen-elsewhere", text, (at(self._module, seen),))
        return None

    # Who uses it.

    def _unsafe(self, node: ast.Name, seen: frozenset[str]) -> ast.AST | None:
        """A use after which it may be another tensor, be it by the name that the loop gives a part of it."""
        use = TensorUses(self._flow).unsafe(self._module, node)
        names = names_of(use) if isinstance(use, ast.stmt) and self._loop in self._module.ancestors(use) else []
        is_held = any(isinstance(each, _HOLDERS) for each in self._module.ancestors(node))
        if len(names) != 1 or is_held or self._is_written(names[0]) or not self._is_local(names[0]):
            return use
        reads = self._reads(names[0]) if names[0].id not in seen else ()
        return next(filter(None, (self._unsafe(each, seen | {names[0].id}) for each in reads)), None)

    def _reads(self, name: ast.Name) -> Iterator[ast.Name]:
        function = self._module.function(name)
        for each in self._module.nodes(ast.Name):
            home = self._module.function(each)
            inherits = home is not None and each.id not in bound_names(home)
            is_read = each.id == name.id and isinstance(each.ctx, ast.Load)
            if is_read and (home is function or inherits) and self._may_hold(each, name):
                yield each

    def _may_hold(self, name: ast.Name, given: ast.Name) -> bool:
        """Whether the name may hold there what the loop gives it, if it does, and not what another loop gives it."""
        if isinstance(given.ctx, ast.Load):
            return True
        bound = targets(self._module.function(self._loop) or self._module.tree).of(name)
        return bound is None or any(self._loop in self._module.ancestors(each) for each in bound)
