"""When may the items of a tensor be set on the device, to what that computes, while a loop runs?"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.effects import COMPREHENSIONS
from codemods.dataflow.names import bound_names
from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import LOOPS, is_name, unparsed, walk
from codemods.dataflow.values import Literal, Plain, library_names
from codemods.facts.devices.cuda_condition import said_as
from codemods.facts.devices.devices import DeviceKind, device
from codemods.facts.devices.transfers import Transfer
from codemods.facts.precision.floats import content
from codemods.facts.reach import Reach
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.apart import other_device
from codemods.facts.training.sums import Deferral, needed
from codemods.facts.training.totals import MadeTensor, written_item
from codemods.library.fills import is_sized

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Callee, Module
    from codemods.facts.script import Script

_ROUNDING_ALIKE = frozenset({"torch.float32", "torch.float", "torch.float64", "torch.double"})
"""Formats that take whatever number the device computes, and round it alike there and on the host."""
_WIDE = frozenset({"torch.float64", "torch.double"})
_ARGUMENTS = frozenset({"size", "fill_value", "dtype"})


def made_tensor(script: Script, module: Module, name: ast.Name) -> MadeTensor | None:
    """The only thing that the function gives the name, where that is a new tensor; else None."""
    function = module.function(name)
    stores = [each for each in module.stores.get(name.id, ()) if module.function(each) is function]
    givers = [each for each in map(module.statement, stores) if not isinstance(each, ast.AugAssign)]
    match givers:
        case [ast.Assign([ast.Name()], ast.Call(ast.Attribute(ast.Call() as made, "to" | "cuda")) as call)]:
            given = arguments_of(call)
            is_move = len(given) <= 1 and not _is_on_device(script, made)
            is_there = is_move and Transfer(script.flow, module, call).may_reach_cuda
            return MadeTensor(made, is_there=True) if is_there and _is_sized(script, made) else None
        case [ast.Assign([ast.Name()], ast.Call() as made)] if _is_sized(script, made):
            found = _is_on_device(script, made)
            return None if found is None else MadeTensor(made, found)
    return None


def _is_sized(script: Script, call: ast.Call) -> bool:
    values = script.flow.values(call.func)
    names = library_names(values)
    is_known = len(values) == len(names) and bool(names) and all(map(is_sized, names))
    return is_known and {each.arg for each in call.keywords} <= _ARGUMENTS | {"device"}


def _is_on_device(script: Script, call: ast.Call) -> bool | None:
    """Whether it is told to be made on what may be CUDA; None where it is told another device, or one not known."""
    given = next((each.value for each in call.keywords if each.arg == "device"), None)
    if given is None:
        return False
    return True if device(script.flow, given).kind in {DeviceKind.CUDA, DeviceKind.CONDITIONAL} else None


@dataclass(frozen=True, eq=False)
class DeferredTensor(Deferral):
    """A tensor of which the passes of a loop set items, and which lies on the device, or can do so meanwhile."""

    script: Script
    made: MadeTensor

    def why_not(self) -> Reason | None:
        """Why the tensor has to lie on the host in each pass, or would not hold the same."""
        reason = self.why_unknown() or self._why_other_items() or self._why_other_format()
        if reason is not None or self.made.is_there:
            return reason
        return self._why_used() or self.total.why_seen(self.flow) or self._why_no_device()

    def _why_other_items(self) -> Reason | None:
        """Why an item would be given something else."""
        module = self.total.module
        readings = {each.node: each for each in self.readings}
        for statement in self.total.additions:
            pair = written_item(statement)
            if pair is None:
                continue
            target, value = pair
            one = readings.get(value) if isinstance(value, ast.Call) else None
            if one is None:
                return needed(module, statement, f"'{unparsed(value)}' is computed on the host")
            if one.cuts or (not isinstance(one.node.func, ast.Attribute) and not self._has_floats(one.tensor)):
                text = f"whether '{unparsed(value)}' changes the number is not known ({HERE})"
                return Reason("unknown-number", text, (at(module, value),))
            if not self._is_number(target.slice):
                text = f"whether '{unparsed(target.slice)}' is a number of Python's is not known ({HERE})"
                return Reason("unknown-number", text, (at(module, target),))
        return None

    def _has_floats(self, tensor: ast.expr) -> bool:
        found = content(self.flow, self.total.module, tensor)
        return found is not None and found.floats

    def _is_number(self, index: ast.expr) -> bool:
        if isinstance(index, ast.Tuple):
            return all(map(self._is_number, index.elts))
        if isinstance(index, ast.BinOp):
            return self._is_number(index.left) and self._is_number(index.right)
        values = self.flow.values(index)
        return bool(values) and all(isinstance(each, (Plain, Literal)) for each in values)

    def _why_other_format(self) -> Reason | None:
        """Why the tensor may round what it is given in another way there, or may not be made there."""
        module, default = self.total.module, self.script.default_format
        given = next((each.value for each in self.made.maker.keywords if each.arg == "dtype"), None)
        names = frozenset({each.name for each in self.flow.values(given)}) if given is not None else frozenset()
        if given is not None and not (names and names <= _ROUNDING_ALIKE):
            text = f"whether '{self.total.name}' has floats of 32 or 64 bits is not known ({HERE})"
            return Reason("unknown-number", text, (at(module, given),))
        if given is None and default is not None:
            text = f"the script sets the number format of new tensors ({HERE}), which '{self.total.name}' then has"
            return Reason("unknown-number", text, (at(self._where(default), default),))
        return other_device(self.script) if names & _WIDE else None

    def _where(self, node: ast.AST) -> Module:
        return next(each for each in self.script.modules if node in each.nodes(type(node)))

    def _why_used(self) -> Reason | None:
        """Why it is not a tensor of this loop alone, which nothing reads until that is over."""
        module, name = self.total.module, self.total.name
        for each in self.total.used_inside:
            if not self._is_counted(each):
                return needed(module, each, f"'{name}' is used in the loop", "use it after the loop")
        return self.total.why_no_tensor()

    def _is_counted(self, name: ast.expr) -> bool:
        """Whether only its length is asked for: ``for k in range(len(losses))``."""
        parent = self.total.module.parent(name)
        return isinstance(parent, ast.Call) and is_name(parent.func, "len")

    def _why_no_device(self) -> Reason | None:
        """Why the tensor cannot be made on the device of the model."""
        default = self.script.default_device
        if default is not None:
            text = f"the script sets the device of new tensors ({HERE}), which '{self.total.name}' may lie on already"
            return Reason("unknown-device", text, (at(self._where(default), default),))
        if not self.device:
            text = f"no name for the device of the batches is known where '{self.total.name}' is made ({HERE}):"
            return Reason("no-name", text, (at(self.total.module, self.made.maker),), "make it on the device")
        return None

    @property
    def is_read_once(self) -> bool:
        """Whether it is read as a whole, and once for each run of the loop: ``losses.mean()``."""
        module, read = self.total.module, self.total.read_after
        if len(read) != 1 or isinstance(module.parent(read[0]), (ast.Subscript, ast.AugAssign)):
            return False
        again = (each for each in module.ancestors(read[0]) if isinstance(each, (*LOOPS, *COMPREHENSIONS)))
        return all(each in module.ancestors(self.total.loop) for each in again)

    @cached_property
    def device(self) -> str:
        """How the place where the tensor is made can say where the loop copies its batches to; empty if it cannot."""
        return next(self._devices(), "")

    def _devices(self) -> Iterator[str]:
        module, place = self.total.module, self.total.module.statement(self.made.maker)
        code = Reach(self.flow).code(module, [self.total.loop])
        inside = {each for _, node in code for each in walk(node)}
        for move in self.script.transfers:
            text = self._written(move, module, place) if move.call in inside and move.may_reach_cuda else None
            if text is not None:
                yield text

    def _written(self, move: Transfer, module: Module, place: ast.stmt) -> str | None:
        """How the place can say where a copy goes: by the name that a function is given it by, for one."""
        is_safe = move.device.kind is DeviceKind.CONDITIONAL or self._is_there_anyway(move)
        match move.target:
            case None if move.method == "cuda" and is_safe:
                quote = self.script.quote(module)
                return f"{quote}cuda{quote}"
            case ast.Constant(str()) as target if is_safe:
                return move.module.code(target)
            case ast.Name() | ast.Attribute() as target if move.method == "to" and is_safe:
                if _is_global_of_both(move.module, target, module, place):
                    return module.code(target)
                said = said_as(self.flow, module, target, place)
                return None if said is None else module.code(said)
        return None

    def _is_there_anyway(self, move: Transfer) -> bool:
        """Whether the script only runs where there is CUDA: the copy, or one to a device of that name, always runs."""
        if move.is_certain:
            return True
        named = move.target
        if not isinstance(named, ast.Name) or move.method != "to":
            return False
        for call in move.module.nodes(ast.Call):
            match call:
                case ast.Call(ast.Attribute(attr="to"), [ast.Name(name) as given]) if name == named.id:
                    is_same = self.flow.values(given) == self.flow.values(named)
                    if is_same and Transfer(self.flow, move.module, call).is_certain:
                        return True
        return False


def _is_global_of_both(there: Module, node: ast.expr, here: Module, place: ast.stmt) -> bool:
    """Whether it is a name of the module which the function that is called reads, and the place can read as well."""
    if not isinstance(node, ast.Name) or there is not here:
        return False
    functions = (here.function(node), here.function(place))
    return None not in functions and not any(_is_bound_around(here, node.id, each) for each in functions)


def _is_bound_around(module: Module, name: str, function: Callee | None) -> bool:
    while function is not None:
        if name in bound_names(function):
            return True
        function = module.function(function)
    return False
