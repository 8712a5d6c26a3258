"""The copies of tensors to a device: what is copied, where to, and under which conditions."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeGuard

from codemods.dataflow.signatures import argument_of
from codemods.dataflow.source import catches_errors, children, lasting, walk
from codemods.dataflow.values import (
    NOTHING,
    Batch,
    Function,
    HostTensor,
    Literal,
    Method,
    MovedTensor,
    Tensor,
    Unknown,
    Value,
    Values,
    in_order,
    without_none,
)
from codemods.facts.data.elements import binds, is_element, is_field
from codemods.facts.devices.devices import Branch, Device, DeviceKind, branches, cuda_branches, device, for_cuda
from codemods.facts.loops import module_of
from codemods.library.kinds import Kind, is_dtype, kind
from codemods.library.operations import FROM_ARRAY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module

_MOVES = frozenset({"to", "cuda", "type"})
_COPIES = _MOVES | {"copy_"}
# Half as wide formats are left where they are: they may be there to halve what is copied.
_WIDE = frozenset({"float", "double", "float32", "float64"})
_COLLATED = frozenset({"long", "float"})
_DESCRIBES = frozenset({"shape", "size", "ndim", "dim", "dtype", "device"})
"""Attributes and methods of a tensor that hold none of its numbers."""


@dataclass(frozen=True, eq=False)
class Transfer:
    """A call that moves tensors to a device: ``x.to(device)``, ``x.cuda()``, ``x.type(Tensor)``."""

    flow: Flow
    module: Module
    call: ast.Call

    @property
    def receiver(self) -> ast.expr:
        """What is moved."""
        return self.call.func.value  # type: ignore[attr-defined, no-any-return]

    @property
    def method(self) -> str:
        """``to``, ``cuda``, ``type`` or ``copy_``."""
        return self.call.func.attr  # type: ignore[attr-defined, no-any-return]

    @cached_property
    def cast(self) -> ast.Call | None:
        """The change of format before the copy of a batch as it came that can as well follow it: ``x.float().cuda()``.

        To a floating format every device rounds alike. MPS has no float64, which the batch may have.
        """
        node = self.receiver
        if not isinstance(node, ast.Call) or not _is_cast(self.flow, node) or self.non_blocking is not None:
            return None
        on_one_line = node.lineno == self.call.end_lineno
        only_device = len(self.call.args) + len(self.call.keywords) == (self.target is not None)
        to_cuda = self.may_reach_cuda and not self.may_reach_mps
        if not (on_one_line and only_device and to_cuda) or (self.target is not None and self.device.node is None):
            return None
        return node if self._is_batch(node.func.value) else None  # type: ignore[attr-defined]

    @cached_property
    def moved(self) -> ast.expr:
        """What can be moved: the receiver, or the batch whose format is changed before.

        That can follow the copy, or may change nothing: numbers are collated to int64, images are float32 mostly, and
        ``y.long()`` of int64 is ``y``. From pageable memory, where it does, a copy need not block either.
        """
        node = self.receiver
        if self.cast is not None or (_may_change_nothing(node) and self._is_batch(node.func.value)):  # type: ignore[attr-defined]
            return node.func.value  # type: ignore[attr-defined, no-any-return]
        return node

    def _is_batch(self, node: ast.expr) -> bool:
        found = self._values(node)
        return bool(found) and all(isinstance(each, Batch) for each in found)

    @cached_property
    def sources(self) -> Values:
        """What may be moved."""
        return self._values(self.moved)

    def _values(self, node: ast.expr) -> Values:
        found = without_none(self.flow.values(node))
        if isinstance(node, ast.Subscript) and is_field(self.module, node):
            # To the flow, an index that comes from a batch might be a tensor, which makes a new one.
            new = frozenset(each for each in found if isinstance(each, HostTensor) and each.site is node)
            found = (found - new) | {Batch(of=each.of) for each in new if each.of is not None}
        return found

    @property
    def loaders(self) -> tuple[Value, ...]:
        """The loaders whose batches are moved as they came, still in the memory that the loader gave them."""
        return tuple(each.of for each in self.sources if isinstance(each, Batch) and each.of is not None)

    @property
    def made_from(self) -> tuple[Value, ...]:
        """The loaders from whose batches the moved tensor was made on the host."""
        direct = tuple(each.of for each in self.sources if isinstance(each, HostTensor) and each.of is not None)
        return direct or self.through_numpy

    @cached_property
    def through_numpy(self) -> tuple[Value, ...]:
        """The loaders of whose batches NumPy made what is moved: ``torch.from_numpy(x.numpy())``.

        Where the array is the batch's own memory, that may be pinned.
        """
        if any(not isinstance(each, HostTensor) or each.of is not None for each in self.sources):
            return ()
        sites = [each.site for each in in_order(self.sources) if isinstance(each.site, ast.expr)]
        arrays = [array for site in (self.moved, *sites) for array in from_arrays(self.flow, site)]
        found = [loader for array in arrays for loader in _batches_in(self.flow, array, set())]
        return tuple(dict.fromkeys(found))

    @cached_property
    def device(self) -> Device:
        """Where to."""
        if self.method == "cuda":
            return Device(DeviceKind.CUDA, self.target, names=frozenset({"cuda"}))
        if self.target is None:
            return Device(DeviceKind.UNKNOWN, None, reason="the device is not given")
        values = without_none(self.flow.values(self.target))
        if self.method == "type":
            return self._of_type(self.target, values)
        if values and all(isinstance(each, Tensor) for each in values):
            return self._of_tensor(self.target, values)
        return device(self.flow, self.target)

    @property
    def target(self) -> ast.expr | None:
        """The argument that names the device (``to``, ``cuda``) or the tensor type (``type``)."""
        names = {"type": {"dtype"}, "cuda": {"device"}, "to": {"device", "other"}}[self.method]
        for keyword in self.call.keywords:
            if keyword.arg in names:
                return keyword.value
        return self.call.args[0] if self.call.args else None

    @property
    def asked(self) -> Sequence[ast.expr]:
        """The expressions that say where to."""
        return () if self.target is None else (self.target,)

    def _of_type(self, argument: ast.expr, values: Values) -> Device:
        """The device of ``x.type(Tensor)``, where ``Tensor`` is one of the legacy tensor types."""
        names = [str(each.value) if isinstance(each, Literal) else each.name for each in values]
        if not names or not all(name.startswith("torch.") and name.endswith("Tensor") for name in names):
            return Device(DeviceKind.UNKNOWN, argument, reason="the tensor type is not known")
        on_cuda = {name.startswith("torch.cuda.") for name in names}
        kinds = {frozenset({True}): DeviceKind.CUDA, frozenset({False}): DeviceKind.CPU}
        return Device(kinds.get(frozenset(on_cuda), DeviceKind.CONDITIONAL), argument)

    def _of_tensor(self, argument: ast.expr, values: Values) -> Device:
        """The device of ``x.to(other)``: where ``other`` was moved to."""
        moved = [each.site for each in values if isinstance(each, MovedTensor) and isinstance(each.site, ast.Call)]
        moves = [each for each in moved if isinstance(each.func, ast.Attribute) and each.func.attr in _MOVES]
        found = [Transfer(self.flow, self.module, each).device for each in moves if each is not self.call]
        if len(found) == len(values) and len({each.kind for each in found}) == 1:
            # How that device is written is not how it is written here.
            return Device(found[0].kind, None, names=found[0].names, reason=found[0].reason)
        return Device(DeviceKind.UNKNOWN, argument, reason="it is that of another tensor, of which it is not known")

    @cached_property
    def branches(self) -> list[Branch]:
        """The conditions under which it runs, from the inside out, within its function."""
        return branches(self.module, self.call)

    @cached_property
    def cuda_branches(self) -> list[Branch]:
        """Those of the conditions that hold only where CUDA is used."""
        return cuda_branches(self.flow, self.module, self.call)

    @cached_property
    def is_certain(self) -> bool:
        """Whether it runs wherever the code around it does: under no condition, and not only where CUDA is found."""
        return (
            not self.branches
            and not _is_for_cuda(self.flow, self.module, self.call, set())
            and not self.may_fail_unseen()
            and not _may_be_passed_over(self.flow, self.module, self.call, set())
        )

    def may_fail_unseen(self, place: ast.AST | None = None) -> bool:
        """Whether the script goes on where it fails, as ``cuda()`` does without CUDA; what the place is in is aside."""
        module = self.module
        around = {place, *module.ancestors(place)} if place is not None and module.holds(place) else set()
        return any(_hides_failures(each, self.call) for each in module.ancestors(self.call) if each not in around)

    @property
    def non_blocking(self) -> ast.expr | None:
        """The ``non_blocking`` argument that is there."""
        for keyword in self.call.keywords:
            if keyword.arg in {"non_blocking", "async_"}:
                return keyword.value
        position = {"to": 2, "cuda": 1, "type": 1, "copy_": 1}[self.method]
        if self.method == "to" and self.call.args:
            # x.to(dtype, non_blocking) has it one place earlier.
            position = 1 if any(is_dtype(each) for each in self.flow.values(self.call.args[0])) else 2
        return self.call.args[position] if len(self.call.args) > position else None

    @property
    def may_reach_cuda(self) -> bool:
        """Whether it may be a copy to a CUDA device."""
        return self.device.kind in {DeviceKind.CUDA, DeviceKind.CONDITIONAL}

    @property
    def may_reach_mps(self) -> bool:
        """Whether the script lets see that it may be a copy to Apple's MPS."""
        return self.device.may_be_mps or (self.device.is_chosen and _mentions_mps(self.flow, self.module))


@dataclass(frozen=True, eq=False)
class Making(Transfer):
    """A call that makes a model or a tensor on a device: ``nn.Linear(8, 8, device=device)``."""

    @property
    def receiver(self) -> ast.expr:
        """What is made."""
        return self.call

    @property
    def method(self) -> str:
        """As good as what ``to`` returns."""
        return "to"


@dataclass(frozen=True, eq=False)
class Filling(Transfer):
    """A call that copies a tensor into one that is there: ``buffer.copy_(x)``."""

    @property
    def receiver(self) -> ast.expr:
        """What is copied."""
        given = _source(self.call)
        assert given is not None  # noqa: S101 - asked before; for the type checker
        return given

    @property
    def method(self) -> str:
        """The one that is called."""
        return "copy_"

    @property
    def cast(self) -> None:
        """None: the copy casts itself."""

    @property
    def target(self) -> ast.expr:
        """What is filled."""
        return self.call.func.value  # type: ignore[attr-defined, no-any-return]

    @cached_property
    def device(self) -> Device:
        """Where that was made, or moved to."""
        values = without_none(self.flow.values(self.target))
        found = [_where_made(self.flow, each) for each in in_order(values)]
        unknown = next((each.reason for each in found if each.kind is DeviceKind.UNKNOWN), None)
        if unknown is not None or not found:
            return Device(DeviceKind.UNKNOWN, None, reason=unknown or _BUFFER_NOT_SEEN)
        kinds = {each.kind for each in found}
        names = frozenset(name for each in found for name in each.names)
        if len(kinds) > 1:
            to_cuda = kinds & {DeviceKind.CUDA, DeviceKind.CONDITIONAL}
            return Device(DeviceKind.CONDITIONAL if to_cuda else DeviceKind.OTHER, None, names=names)
        node = found[0].node if len(found) == 1 else None
        here = node is not None and self.module.holds(node)
        return Device(found[0].kind, node if here else None, found[0].is_string, names)


_BUFFER_NOT_SEEN = "where the tensor was made that is filled is not seen"


def _source(call: ast.Call) -> ast.expr | None:
    """What ``copy_`` copies."""
    return argument_of(call, "other", 0)


def _where_made(flow: Flow, value: Value) -> Device:
    """The device on which a tensor was made, or to which it was moved."""
    if isinstance(value, (HostTensor, Batch)):
        return Device(DeviceKind.CPU, None, names=frozenset({"cpu"}))
    site = value.site
    if isinstance(value, MovedTensor) and isinstance(site, ast.Call):
        given = argument_of(site, "device")
        if given is not None:
            return device(flow, given)
        if isinstance(site.func, ast.Attribute) and site.func.attr in _MOVES:
            return Transfer(flow, module_of(flow, site), site).device
        if any(each.name.startswith("torch.cuda.") for each in flow.values(site.func)):
            return Device(DeviceKind.CUDA, None, names=frozenset({"cuda"}))
    return Device(DeviceKind.UNKNOWN, None, reason=_BUFFER_NOT_SEEN)


def _may_change_nothing(node: ast.expr) -> TypeGuard[ast.Call]:
    """``y.long()``, ``x.float()``."""
    is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _COLLATED
    return is_method and not node.args and not node.keywords  # type: ignore[attr-defined]


def _is_cast(flow: Flow, call: ast.Call) -> bool:
    """``x.float()``, ``x.to(torch.float32)``."""
    if not isinstance(call.func, ast.Attribute) or call.keywords:
        return False
    if call.func.attr in _WIDE:
        return not call.args
    formats = flow.values(call.args[0]) if call.func.attr == "to" and len(call.args) == 1 else NOTHING
    return bool(formats) and all(is_dtype(each) and each.name.rpartition(".")[2] in _WIDE for each in formats)


@dataclass(frozen=True, eq=False)
class Likening(Transfer):
    """A call that gives a tensor the number format of another, and takes it to its device: ``x.type_as(other)``."""

    @property
    def method(self) -> str:
        """The same as ``x.to(other)``."""
        return "to"

    @property
    def target(self) -> ast.expr | None:
        """The other tensor."""
        return argument_of(self.call, "other", 0)

    @cached_property
    def device(self) -> Device:
        """That of the other tensor."""
        if self.target is None:
            return Device(DeviceKind.UNKNOWN, None, reason="the device is not given")
        return self._of_tensor(self.target, without_none(self.flow.values(self.target)))


def likenings(flow: Flow, module: Module) -> Iterator[Likening]:
    """Every ``type_as`` of what may be a tensor."""
    for call in module.nodes(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "type_as":
            values = without_none(flow.values(call.func.value))
            if any(isinstance(each, Tensor) for each in values):
                yield Likening(flow, module, call)


def makings(flow: Flow, modules: Sequence[Module]) -> Iterator[Making]:
    """Every call that makes a model or a tensor on a device that it names."""
    for module in modules:
        yield from _makings_in(flow, module)


@lasting
def _makings_in(flow: Flow, module: Module) -> tuple[Making, ...]:
    return tuple(
        Making(flow, module, call)
        for call in module.nodes(ast.Call)
        if any(each.arg == "device" for each in call.keywords)
        and any(
            each.site is call and (isinstance(each, MovedTensor) or kind(flow, each) is Kind.MODEL)
            for each in flow.values(call)
        )
    )


def transfers(flow: Flow, modules: Sequence[Module]) -> Iterator[Transfer]:
    """Every call that moves a tensor, or an element of something unknown that may be one, to a device."""
    for module in modules:
        for call in module.nodes(ast.Call):
            if not isinstance(call.func, ast.Attribute) or call.func.attr not in _COPIES:
                continue
            if call.func.attr == "copy_":
                if _fills_device(flow, module, call):
                    yield Filling(flow, module, call)
                continue
            values = without_none(flow.values(call.func.value))
            is_tensor = any(isinstance(each, Tensor) for each in values)
            if (is_tensor or _is_unknown_element(module, call, values)) and _names_target(flow, call):
                yield Transfer(flow, module, call)


def _fills_device(flow: Flow, module: Module, call: ast.Call) -> bool:
    """Whether what may be a batch is copied into a tensor that may be on a device."""
    source = _source(call)
    if source is None:
        return False
    filling = Filling(flow, module, call)
    if filling.loaders or filling.made_from:
        return filling.device.kind is not DeviceKind.CPU
    values = filling.sources
    is_made = any(isinstance(each, Tensor) for each in values)
    is_unknown = all(isinstance(each, Unknown) for each in values) and is_element(module, source)
    return bool(values) and (is_made or is_unknown) and filling.may_reach_cuda


def from_arrays(flow: Flow, node: ast.expr) -> list[ast.expr]:
    """The arrays that the expression makes tensors of, which are on the host: ``torch.from_numpy(a).float()``."""
    return [
        each.args[0]
        for each in walk(node)
        if isinstance(each, ast.Call)
        and each.args
        and any(value.name in FROM_ARRAY for value in flow.values(each.func))
    ]


def _batches_in(flow: Flow, array: ast.expr, seen: set[str]) -> Iterator[Value]:
    """The loaders whose batches stand in the expression of an array, or in what its names are assigned."""
    module = module_of(flow, array)
    for each in _data(flow, array):
        if not isinstance(each, (ast.Name, ast.Attribute, ast.Subscript)):
            continue
        yield from (value.of for value in flow.values(each) if isinstance(value, Batch) and value.of is not None)
        if isinstance(each, ast.Name) and each.id not in seen:
            seen.add(each.id)
            for assignment in module.nodes(ast.Assign):
                same = module.function(assignment) is module.function(array)
                if same and any(binds(target, each.id) for target in assignment.targets):
                    yield from _batches_in(flow, assignment.value, seen)


def _data(flow: Flow, node: ast.AST) -> Iterator[ast.AST]:
    """What stands in an expression, without what is only asked for its size, number format or device."""
    is_length = isinstance(node, ast.Call) and any(each.name == "builtins.len" for each in flow.values(node.func))
    if not is_length and not (isinstance(node, ast.Attribute) and node.attr in _DESCRIBES):
        yield node
        for each in children(node):
            yield from _data(flow, each)


def _is_for_cuda(flow: Flow, module: Module, node: ast.AST, seen: set[ast.AST]) -> bool:
    """Whether the node is reached only where the script has found CUDA, as far as its function and its callers say."""
    if cuda_branches(flow, module, node):
        return True
    function = module.function(node)
    if function is None or isinstance(function, ast.Lambda) or function in seen:
        return False
    seen.add(function)
    earlier = [each for each in function.body if isinstance(each, ast.If) and each.lineno < node.lineno]  # type: ignore[attr-defined]
    # `if not use_cuda: return x`
    if any(isinstance(each.body[-1], ast.Return) and for_cuda(flow, each.test) is False for each in earlier):
        return True
    callers = flow.callers(function)
    return bool(callers) and all(_is_for_cuda(flow, module_of(flow, each), each, seen) for each in callers)


def _hides_failures(block: ast.AST, node: ast.AST) -> bool:
    """Whether a block around a node goes on after it where it raises an exception: ``try``, ``suppress``."""
    if isinstance(block, ast.Try):
        return catches_errors(block, node)
    if isinstance(block, ast.With):
        return any("suppress" in ast.unparse(each.context_expr) for each in block.items)
    # `for i in range(torch.cuda.device_count())`
    return isinstance(block, ast.For) and "device_count" in ast.unparse(block.iter)


def _may_be_passed_over(flow: Flow, module: Module, node: ast.AST, seen: set[ast.AST]) -> bool:
    """Whether the node's function, or one that calls it, may return before it, or another function run instead."""
    function = module.function(node)
    if function is None or function in seen:
        return False
    seen.add(function)
    returns = (each for each in walk(function) if isinstance(each, ast.Return) and each.value is not None)
    earlier = (each for each in returns if each.lineno < node.lineno)  # type: ignore[attr-defined]
    if any(module.function(each) is function for each in earlier):
        return True
    for call in flow.callers(function):
        called = {each.site for each in flow.values(call.func) if isinstance(each, (Function, Method))}
        if called - {function} or _may_be_passed_over(flow, module_of(flow, call), call, seen):
            return True
    return False


def _names_target(flow: Flow, call: ast.Call) -> bool:
    """Whether a device or a tensor type is given, and not a mere number format."""
    method = call.func.attr  # type: ignore[attr-defined]
    if method == "cuda":
        return True
    if any(each.arg == ("device" if method == "to" else "dtype") for each in call.keywords):
        return True
    first = flow.values(call.args[0]) if call.args else NOTHING
    return bool(call.args) and not (first and all(is_dtype(each) for each in first))


def _is_unknown_element(module: Module, call: ast.Call, values: Values) -> bool:
    """Whether what is moved, and kept, is an element of something unknown that is iterated over: perhaps a batch."""
    if not values or any(not isinstance(each, Unknown) for each in values):
        return False
    if isinstance(module.parent(call), ast.Expr) or call.func.attr == "type":  # type: ignore[attr-defined]
        return False
    return is_element(module, call.func.value)  # type: ignore[attr-defined]


def _mentions_mps(flow: Flow, here: Module) -> bool:
    return any(
        any(each.value == "mps" for each in module.nodes(ast.Constant))
        or any(each.attr == "mps" for each in module.nodes(ast.Attribute))
        for module in flow.beside(here)
    )
