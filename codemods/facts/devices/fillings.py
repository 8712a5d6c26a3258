"""Which tensors are filled on the host and copied to a device, where they could be made on it?"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.names import words
from codemods.dataflow.signatures import argument_of, arguments_of, signature
from codemods.dataflow.source import FUNCTIONS, last_name
from codemods.dataflow.values import (
    Batch,
    Choice,
    HostTensor,
    Literal,
    MovedTensor,
    Plain,
    SomeTensor,
    Tensor,
    instance,
    library_names,
    without_none,
)
from codemods.facts.devices.devices import DeviceKind, device
from codemods.facts.devices.handings import Handing, handings
from codemods.facts.devices.later_moves import is_only_compared, later_move, next_move, read_before, why_other_device
from codemods.facts.devices.legacy_fills import legacy_fill
from codemods.facts.devices.named_moves import named_moves
from codemods.facts.devices.number_fills import number_fill
from codemods.facts.devices.own_numbers import is_integer, is_tensor
from codemods.facts.devices.ranges import counted_in_index, may_go_backwards, range_of
from codemods.facts.devices.rounded import is_continuous, is_inexact, of_number, why_rounding_shows
from codemods.facts.devices.shapes_asked import has_shape
from codemods.facts.devices.streams import why_not_ordered
from codemods.facts.devices.transfers import Likening, likenings
from codemods.facts.loops import around, module_of, repeats
from codemods.facts.reaching import reaching
from codemods.facts.reason import HERE, Reason, at
from codemods.library.drawing import call_draws
from codemods.library.fills import (
    COMPUTING,
    EXACT_IN_EACH_FORMAT,
    FILLING,
    PLAIN_ARGUMENTS,
    SHARING,
    counts,
    fills,
    is_alike,
    is_legacy,
    is_smooth,
    keeps_triangle,
    spaces,
)
from codemods.library.kinds import Kind, is_dtype, kind, may
from codemods.library.tensors import LEGACY_FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Value
    from codemods.facts.devices.later_moves import LaterMove, NextMove
    from codemods.facts.devices.legacy_fills import LegacyFill
    from codemods.facts.devices.named_moves import NamedMove
    from codemods.facts.devices.number_fills import NumberFill
    from codemods.facts.devices.rounded import Part
    from codemods.facts.devices.transfers import Transfer
    from codemods.facts.script import Script

_VARIABLE = "torch.autograd.Variable"
_CASTS = frozenset({"to", "type"})
_NUMBERS = (Literal, Choice, Plain)
_OF_COPIES = frozenset({"device", "other", "dtype", "non_blocking"})
_ITEMS = frozenset({"__getitem__", "__getitems__", "__iter__"})
_IN_INDICES = frozenset({"long", "view", "reshape", "unsqueeze", "repeat", "flatten"})
"""What is called of such numbers where they are an index."""
_SHAPING = words("view reshape unsqueeze squeeze repeat t transpose permute flatten contiguous clone")
_CUDA = "torch.cuda"
_OPERATIONS = (ast.BinOp, ast.Subscript, ast.UnaryOp, ast.Compare)
_COMPARING = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_FORMAT_POSITION = 1
"""Where ``x.to(device, dtype)`` has the number format."""


@dataclass(frozen=True, eq=False)
class Filled:
    """A tensor that is filled on the host, and copied to a device in the same expression, or by its name below."""

    transfer: Transfer
    maker: ast.Call
    """What makes it: ``torch.zeros(…)`` of ``torch.zeros(…).view(…).to(device)``."""
    name: str
    """The qualified name of that."""
    steps: tuple[ast.Call, ...]
    """What is called between, from the outside in."""
    why_not: Reason | None

    like: ast.expr | None
    """The tensor whose number format and device it gets: ``other`` of ``.to(other)`` and ``.type_as(other)``."""
    later: LaterMove | None = None
    """The statement of its own that copies it where another tensor is on CUDA."""
    counted: ast.Call | None = None
    """The ``range(n)`` whose numbers it holds: ``torch.LongTensor(range(n))``."""
    following: NextMove | None = None
    """The statement of its own that copies it in any case."""
    by_name: NamedMove | None = None
    """How it is copied by a name that it is given above, and perhaps others are as well."""
    legacy: LegacyFill | None = None
    """How else it is made where a legacy constructor makes it, which takes no device."""
    numbers: NumberFill | None = None
    """How else it is made where its elements are one number: ``torch.tensor([0.5])``."""
    rounds_otherwise: bool = False
    """Whether the device may round the last bit of what is computed on the way otherwise."""
    is_of_type: bool = False
    """Whether it has the number format of the tensor type that it is cast to: ``x.type(torch.cuda.LongTensor)``."""

    @property
    def number_format(self) -> ast.expr | None:
        """The number format that the copy is cast to."""
        return argument_of(self.transfer.call, "dtype", _FORMAT_POSITION)

    @property
    def is_exact_in_its_format(self) -> bool:
        """Whether the same comes out where it is made in the number format of the copy."""
        has_own = any(each.arg == "dtype" for each in self.maker.keywords)
        made = self.transfer.receiver if self.following is None else self.following.made
        is_as_made = not self.steps and made is self.maker
        return self.name in EXACT_IN_EACH_FORMAT and is_as_made and not has_own


def filled(script: Script) -> Iterator[Filled]:
    """The tensors of the module that are filled on the host again and again, and copied to what may be CUDA."""
    likened = tuple(likenings(script.flow, script.module))
    copying = {each.call for each in likened}
    moving = copying | {each.call for each in script.transfers}
    for transfer in (*script.transfers, *likened, *handings(script)):
        later = later_move(transfer) if not isinstance(transfer, Handing) else None
        if later is not None and not _is_surely_tensor(script, transfer, later.other):
            later = None
        if transfer.module is not script.module or not _moves(transfer) or _stays(script, transfer, later):
            continue
        for origin in _origins(script, transfer, later):
            found = _filled(script, transfer, origin, moving if isinstance(transfer, Handing) else copying)
            if found is not None:
                yield found


@dataclass(frozen=True, eq=False)
class _Origin:
    """What is copied, and how it comes to be there: in the expression that makes it, or by a name."""

    made: ast.expr
    named: Mapping[str, ast.expr]
    """What names hold that may stand in the chain."""
    later: LaterMove | None = None
    following: NextMove | None = None
    by_name: NamedMove | None = None
    why_not: Reason | None = None
    """Why it may not be made on the device, whatever it is."""


def _origins(script: Script, transfer: Transfer, later: LaterMove | None) -> Iterator[_Origin]:
    following = next_move(transfer) if later is None and not isinstance(transfer, Handing) else None
    if later is not None:
        yield _Origin(later.made, later.earlier, later=later)
    elif following is not None:
        yield _Origin(following.made, {}, following=following)
    else:
        moves = named_moves(script.flow, transfer)
        for each in moves:
            if each.condition is None or not (script.default_device or script.default_format):
                yield _Origin(transfer.receiver, {each.name: each.made}, by_name=each)
        seen = read_before(transfer) if not moves and not isinstance(transfer, Handing) else None
        if seen is not None:
            before, read = seen
            text = f"'{read.id}' is read on the host before it is copied ({HERE}):"
            remedy = "name the device where it is made if it may be there already"
            because = Reason("other-result", text, (at(transfer.module, read),), remedy)
            yield _Origin(before.made, {}, following=before, why_not=because)
        elif not moves:
            yield _Origin(transfer.receiver, {})


def _filled(script: Script, transfer: Transfer, origin: _Origin, copying: set[ast.Call]) -> Filled | None:
    module, call, later = transfer.module, transfer.call, origin.later
    parts = tuple(_parts_of_chain(script, origin.made, with_numbers=True, named=origin.named, rounds=True))
    if isinstance(transfer, Handing):
        parts = (*_parts_of_chain(script, transfer.copy.receiver, with_numbers=False, named=None), *parts)
    steps = tuple(each for each in parts if isinstance(each, ast.Call))
    is_rounded = any(map(is_inexact, parts))
    if not copying.isdisjoint(steps) or (is_rounded and not is_continuous(parts)):
        return None  # `.type_as(x).to(device)`: the first copy is a site, and there is nothing left for the second one
    maker = steps[-1] if steps else None
    name = _name(script, maker) if maker is not None else ""
    if maker is None or not _is_about(script, name, steps) or not script.may_run(module, call):
        return None
    of_item = why_item(script, module, call)
    if _is_there(script, transfer, maker) or not (of_item is not None or runs_often(script, module, call)):
        return None
    is_named = origin.by_name is not None or isinstance(transfer, Handing)
    shares = later.is_only_compared if later is not None else not is_named and is_only_compared(transfer)
    why_not = of_item or origin.why_not
    why_not = why_not or _why_not(script, transfer, name, [each for each in steps if not (shares and _shares(each))])
    if later is not None:
        why_not = why_not or why_other_device(script.flow, transfer)
    if transfer.method == "type" and is_named:
        why_not = why_not or _why_other_type(transfer)
    if is_rounded:
        why_not = why_not or _why_rounding_shows(script, transfer, parts)
    return Filled(
        transfer,
        maker,
        name,
        steps[:-1],
        why_not,
        _like(script, transfer) if not isinstance(transfer, Handing) else None,
        later,
        range_of(script, name, maker),
        origin.following,
        origin.by_name,
        legacy_fill(script, name, steps),
        number_fill(script, name, maker),
        is_rounded,
        cuda_type(script, transfer) == _format_of(script, name, steps),
    )


def cuda_type(script: Script, transfer: Transfer) -> str | None:
    """The number format of the type of CUDA tensors that it is cast to, ``torch.cuda.LongTensor``; None for others."""
    values = script.flow.values(transfer.target) if transfer.target is not None else frozenset()
    names = library_names(values)
    package, _, type_ = next(iter(names)).rpartition(".") if len(names) == len(values) == 1 else ("", "", "")
    return LEGACY_FORMATS.get(type_) if transfer.method == "type" and package == _CUDA else None


def _format_of(script: Script, name: str, steps: Sequence[ast.Call]) -> str | None:
    """The number format that it is made in, where nothing asks for one, and nothing called on the way casts it."""
    maker = steps[-1]
    asks = any(each.arg == "dtype" for each in maker.keywords)
    if asks or script.default_format or not {_method(each) for each in steps[:-1]} <= _SHAPING:
        return None
    if counts(name):
        return "int64" if all(is_integer(script, each) for each in arguments_of(maker)) else None
    return "float32" if fills(name) and number_fill(script, name, maker) is None and "full" not in name else None


def _is_there(script: Script, transfer: Transfer, maker: ast.Call) -> bool:
    """Whether it is made on a device already, or only its number format changes."""
    return (
        any(each.arg in {"device", "out"} for each in maker.keywords)
        or (transfer.target is not None and _is_format(script, transfer.target))
        or _is_made_beside(script, maker)
    )


def _why_rounding_shows(script: Script, transfer: Transfer, parts: Sequence[Part]) -> Reason | None:
    """Why more than the last bit might be another one on the device."""
    if isinstance(transfer, Handing):
        shown: str | None = f"{ast.unparse(transfer.call.func)}()"
    else:
        shown = "the cast of the copy" if _like(script, transfer) is not None else why_rounding_shows(transfer, parts)
    return Reason("other-result", f"it may round otherwise on the device, which {shown} may show") if shown else None


def _is_made_beside(script: Script, maker: ast.expr) -> bool:
    """Whether it is ``torch.randn_like(x)`` of what is not known to be on the host: numbers are drawn where that is."""
    while isinstance(maker, ast.Attribute) or (isinstance(maker, ast.Call) and not _name(script, maker)):
        maker = maker.value if isinstance(maker, ast.Attribute) else maker.func  # ``torch.ones_like(x).data.normal_()``
    if not isinstance(maker, ast.Call) or not _name(script, maker).endswith("_like"):
        return False
    return bool(maker.args) and not _is_on_host(script, maker.args[0])


@dataclass(frozen=True, eq=False)
class CountedIndex:
    """``torch.arange(n)`` of ``x[torch.arange(n), y]``: made on the host, and copied to where the tensor is."""

    maker: ast.Call
    tensor: ast.expr
    """What is indexed: ``x``."""
    why_not: Reason | None
    part: ast.expr
    """The whole index, where Python or NumPy counts: ``list(range(n))``."""
    counted: ast.Call | None = None
    """What counts then: ``range(n)``, ``np.arange(n)``."""


def counted_indices(script: Script) -> Iterator[CountedIndex]:
    """What the module counts on the host, again and again, to index a tensor that may be on a device."""
    module = script.module
    for node in module.nodes(ast.Subscript) if script.may_use_cuda else ():
        if not _is_plain(node.value) or not may_be_there(script, node.value):
            continue
        for part in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
            found = _counted_by_torch(script, node, part) or _counted_otherwise(script, node, part)
            if found is None or why_item(script, module, found.maker) is not None:
                continue
            if script.may_run(module, found.maker) and runs_often(script, module, found.maker):
                yield found


def _counted_by_torch(script: Script, node: ast.Subscript, part: ast.expr) -> CountedIndex | None:
    steps = tuple(calls_of_chain(script, part, with_numbers=True))
    maker = steps[-1] if steps else None
    name = _name(script, maker) if maker is not None else ""
    if maker is None or not counts(name) or any(_method(each) not in _IN_INDICES for each in steps[:-1]):
        return None
    if any(each.arg in {"device", "out"} for each in maker.keywords):
        return None
    why_not = _why_other_numbers(script, name, steps) or _why_other_tensor(script, name, steps)
    return CountedIndex(maker, node.value, why_not or why_other_order(script, script.module, maker), part)


def _counted_otherwise(script: Script, node: ast.Subscript, part: ast.expr) -> CountedIndex | None:
    """``x[np.arange(n), y]``, ``x[list(range(n)), y]``: Python makes a tensor of it each time."""
    counted = counted_in_index(script, part)
    if counted is None:
        return None
    why_not = _why_not_counted(script, counted) or why_other_order(script, script.module, counted)
    return CountedIndex(counted, node.value, why_not, part, counted)


def may_be_there(script: Script, node: ast.expr) -> bool:
    """Whether it is a tensor that is not seen to be on the host."""
    values = without_none(script.flow.values(node))
    return bool(values) and all(isinstance(each, (SomeTensor, MovedTensor)) for each in values)


def runs_often(script: Script, module: Module, call: ast.expr) -> bool:
    """Whether a loop runs it, a model for each batch, or an optimizer in each step: the closure around it.

    What the constructor of a model makes is made once for each layer, whatever loop makes the layers.
    """
    function = module.function(call)
    is_of_layer = function is not None and _makes_model(script, function)
    for above, below in around(script.flow, module, call):
        if isinstance(above, FUNCTIONS):
            if is_forward(script, above):
                return True
            is_of_layer = is_of_layer or _makes_model(script, above)
        elif repeats(above, below) and (not is_of_layer or any(above is each.owner for each in script.iterations)):
            return True
    if function is None:
        return False
    return any(
        function is each.site
        for where in script.modules
        for step in where.nodes(ast.Call)
        if isinstance(step.func, ast.Attribute) and step.func.attr == "step"
        if may(script.flow, script.flow.values(step.func.value), Kind.OPTIMIZER)
        for given in arguments_of(step)
        for each in script.flow.values(given)
    )


def is_forward(script: Script, function: Callee) -> bool:
    """Whether it is the ``forward`` of a model of the project."""
    owner = script.flow.owner(function)
    return (
        getattr(function, "name", "") == "forward"
        and owner is not None
        and kind(script.flow, instance(owner)) is Kind.MODEL
    )


def _makes_model(script: Script, function: Callee) -> bool:
    owner = script.flow.owner(function)
    is_constructor = getattr(function, "name", "") == "__init__"
    return is_constructor and owner is not None and kind(script.flow, instance(owner)) is Kind.MODEL


def why_item(script: Script, module: Module, call: ast.expr) -> Reason | None:
    """Why it belongs into no item of a data set, and into no ``collate_fn``."""
    function = module.function(call)
    if function is None or not (_makes_items(script, function) or _collates(script, function)):
        return None
    text = "worker processes may run it, and forked ones cannot use CUDA:"
    return Reason("cuda-in-worker", text, remedy="copy the batch to the device in the training loop")


def _makes_items(script: Script, function: Callee) -> bool:
    owner = script.flow.owner(function)
    is_item = getattr(function, "name", "") in _ITEMS
    return is_item and owner is not None and kind(script.flow, instance(owner)) is Kind.DATASET


def _collates(script: Script, function: Callee) -> bool:
    given = (each.arguments.get("collate_fn") for each in script.loaders)
    return any(function is value.site for each in given if each is not None for value in each.values)


def calls_of_chain(
    script: Script, node: ast.expr | None, *, with_numbers: bool = False, named: Mapping[str, ast.expr] | None = None
) -> Iterator[ast.Call]:
    """The calls that an expression is a chain of, from the outside in, to the one that makes the tensor.

    Args:
        script: The script.
        node: The expression.
        with_numbers: Whether numbers may be added to it, or multiplied with it, and dimensions added, in between.
        named: What names hold that may stand in between.
    """
    parts = _parts_of_chain(script, node, with_numbers=with_numbers, named=named)
    return (each for each in parts if isinstance(each, ast.Call))


def _parts_of_chain(
    script: Script,
    node: ast.expr | None,
    *,
    with_numbers: bool,
    named: Mapping[str, ast.expr] | None,
    rounds: bool = False,
) -> Iterator[Part]:
    """The calls of a chain, and the operations with numbers between them; those that devices round otherwise if asked.

    ``torch.exp(torch.arange(n) / n)`` is such a chain then.
    """
    names = dict(named or {})
    while isinstance(node, (ast.Call, ast.Name)) or (with_numbers and isinstance(node, _OPERATIONS)):
        if isinstance(node, ast.Name):
            node = names.pop(node.id, None)
            continue
        if isinstance(node, ast.UnaryOp):
            node = node.operand if isinstance(node.op, (ast.Invert, ast.USub)) else None
            continue
        if isinstance(node, ast.Compare):
            node = _compared(script, node)
            inner = tuple(_parts_of_chain(script, node, with_numbers=True, named=names, rounds=rounds))
            yield from () if any(map(is_inexact, inner)) else inner
            return
        if isinstance(node, ast.BinOp):
            yield node
            node = of_number(script, node) if rounds else _of_number(script, node)
            continue
        if isinstance(node, ast.Subscript):
            node = node.value if _only_adds_dimensions(node) else None
            continue
        name = _name(script, node)
        is_step = name == _VARIABLE or keeps_triangle(name) or (rounds and is_smooth(name))
        if is_step and node.args:
            yield node
            node = node.args[0]
        elif not name and isinstance(node.func, ast.Attribute):
            yield node
            node = node.func.value
        else:
            yield node
            return


def _of_number(script: Script, node: ast.BinOp) -> ast.expr | None:
    """What a number is added to, or multiplied with, which every device rounds alike; None for other operations.

    A division by a number may be a multiplication on CUDA.
    """
    sides = [each for each in (node.left, node.right) if not _is_number(script, each)]
    rounds_alike = isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)) and len(sides) == 1
    return sides[0] if rounds_alike else None


def _compared(script: Script, node: ast.Compare) -> ast.expr | None:
    """What is compared with a number, which every device does alike; None for other comparisons."""
    sides = [each for each in (node.left, *node.comparators) if not _is_number(script, each)]
    is_plain = len(node.ops) == len(sides) == 1 and isinstance(node.ops[0], _COMPARING)
    return sides[0] if is_plain else None


def _only_adds_dimensions(node: ast.Subscript) -> bool:
    """``x[None, :, :]``, ``x[..., None]``: all its elements, in the order in which they are in memory."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return all(
        (isinstance(each, ast.Constant) and each.value in {None, ...})
        or (isinstance(each, ast.Slice) and each.lower is None and each.upper is None and each.step is None)
        for each in parts
    )


def _name(script: Script, call: ast.Call) -> str:
    """The qualified name of the library's function that is called; nothing for a method, or where several may be."""
    values = script.flow.values(call.func)
    names = library_names(values)
    return next(iter(names)) if len(names) == len(values) == 1 else ""


def _shares(call: ast.Call) -> bool:
    """Whether it keeps one element for several, by numbers and not by another tensor."""
    return _method(call) == "expand"


def _is_about(script: Script, name: str, steps: tuple[ast.Call, ...]) -> bool:
    """Whether it is a tensor that is filled, and none that is made of data."""
    if range_of(script, name, steps[-1]) is not None:
        return True
    if number_fill(script, name, steps[-1]) is not None:
        return True
    if is_legacy(name):
        is_sized = legacy_fill(script, name, steps) is not None
        return is_sized or any(_method(each) in FILLING or call_draws(script.flow, each) for each in steps)
    return fills(name) or counts(name) or spaces(name) or call_draws(script.flow, steps[-1])


def spelled_arange(script: Script, call: ast.Call) -> str | None:
    """How the script writes ``torch.arange`` where it makes a tensor; None where no import leads to it."""
    return _spelled(script, "torch.arange", call)


def _spelled(script: Script, name: str, call: ast.Call) -> str | None:
    module = module_of(script.flow, call)
    return script.spelled(module, name, module.statement(call))


def _method(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _moves(transfer: Transfer) -> bool:
    """Whether it may be taken to a device; a type that is not known may be a mere number format."""
    if transfer.method == "type":
        return transfer.may_reach_cuda or _is_type_of(transfer.target)
    return transfer.method in {"to", "cuda"}


def _is_type_of(node: ast.expr | None) -> bool:
    """``x.type()``: the name of a tensor type."""
    return isinstance(node, ast.Call) and _method(node) == "type" and not arguments_of(node)


def _stays(script: Script, transfer: Transfer, later: LaterMove | None) -> bool:
    """Whether the tensor stays on the host."""
    if later is not None:
        return _is_on_host(script, later.other)
    return transfer.device.kind is DeviceKind.CPU or _is_on_host(script, _like(script, transfer))


def _is_on_host(script: Script, node: ast.expr | None) -> bool:
    """Whether it is a tensor that was made on the host; what a framework or a model is given may have been moved."""
    if node is None or script.framework is not None:
        return False
    values = without_none(script.flow.values(node))
    is_host = bool(values) and all(isinstance(each, (Batch, HostTensor)) for each in values)
    above = module_of(script.flow, node).ancestors(node)
    return is_host and not any(isinstance(each, FUNCTIONS) and is_forward(script, each) for each in above)


def _like(script: Script, transfer: Transfer) -> ast.expr | None:
    """The tensor whose number format and device the copy gets."""
    target = transfer.target
    is_like = isinstance(transfer, Likening) or (
        transfer.method == "to" and target is not None and _is_surely_tensor(script, transfer, target)
    )
    return target if is_like else None


def _is_surely_tensor(script: Script, transfer: Transfer, target: ast.expr) -> bool:
    """Whether it is a tensor: of what ``to()`` takes, or what may be on CUDA, tensors alone have a shape."""
    return is_tensor(script, target) or (isinstance(target, ast.Name) and has_shape(transfer.module, target))


# What stands against it.


def _why_not(script: Script, transfer: Transfer, name: str, steps: Sequence[ast.Call]) -> Reason | None:
    return (
        _why_other_numbers(script, name, steps)
        or _why_other_tensor(script, name, steps)
        or (_why_not_handed(script, transfer) if isinstance(transfer, Handing) else None)
        or why_other_copy(script, transfer.copy if isinstance(transfer, Handing) else transfer, name)
        or _why_other_stream(script, transfer)
    )


def _why_not_handed(script: Script, handing: Handing) -> Reason | None:
    """Why the function that copies it might see that it is on the device already."""
    if handing.why_not is not None:
        return handing.why_not
    called = f"{ast.unparse(handing.call.func)}()"
    if _like(script, handing.copy) is not None:
        return Reason("other-arguments", f"{called} gives it the number format and the device of another tensor")
    if handing.is_chosen and (script.default_device or script.default_format):
        return Reason("default-device", "the script says on which device, or of which format, new tensors are made")
    return None


def _why_other_numbers(script: Script, name: str, steps: Sequence[ast.Call]) -> Reason | None:
    """Why other numbers might come out on the device."""
    maker = steps[-1]
    numbers = number_fill(script, name, maker)
    if numbers is not None and numbers.function is None:
        return Reason("no-name", "torch.full, which fills in the number there, cannot be named here")
    counted = range_of(script, name, maker)
    reason = _why_not_counted(script, counted) if counted is not None else None
    if reason is not None:
        return reason
    if any(call_draws(script.flow, each) for each in steps):
        text = "random numbers are drawn from another generator on the device, and all later ones on the host change:"
        return Reason("draws-elsewhere", text, remedy="name the device in the call where other numbers will do")
    if spaces(name):
        return Reason("other-result", f"{name}() may round otherwise on the device")
    if counts(name):
        unknown = next((each for each in _start_and_step(maker) if not is_integer(script, each)), None)
        if unknown is not None:
            text = f"'{ast.unparse(unknown)}' is not known to be an integer, and floats may round otherwise there"
            return Reason("other-result", text)
    return None


def _why_not_counted(script: Script, counted: ast.Call) -> Reason | None:
    """Why ``torch.arange`` may not count as ``range`` does."""
    if spelled_arange(script, counted) is None:
        return Reason("no-name", "torch.arange, which counts the same there, cannot be named here")
    if may_go_backwards(script, counted):
        text = f"whether '{ast.unparse(counted)}' may end before it starts is not known, for which torch.arange fails"
        return Reason("other-result", text)
    return None


def _start_and_step(call: ast.Call) -> list[ast.expr]:
    """What ``arange`` counts from, and in which steps.

    Where these are integers, so is each number: floats hold them without rounding, wherever it ends.
    """
    named = {each.arg: each.value for each in call.keywords}
    has_start = len(call.args) + ("end" in named) > 1
    given = [named.get("start"), *call.args[: int(has_start)], *call.args[2:], named.get("step")]
    spread = [each for each in call.args if isinstance(each, ast.Starred)]
    return [*(each for each in given if each is not None), *spread]


def _why_other_tensor(script: Script, name: str, steps: Sequence[ast.Call]) -> Reason | None:
    """Why what is made may not be made so on a device, or would be another thing there."""
    maker = steps[-1]
    others = (range_of(script, name, maker), legacy_fill(script, name, steps), number_fill(script, name, maker))
    is_known = any(each is not None for each in others)
    if is_legacy(name) and not is_known:
        text = "the legacy constructor takes no device:"
        return Reason("other-arguments", text, remedy="write torch.zeros(…) or torch.full(…) with the device")
    for call in steps:
        asked = next((each for each in call.keywords if each.arg == "requires_grad"), None)
        if (asked is not None and not _is_false(asked.value)) or _method(call) == "requires_grad_":
            text = "gradients are asked for of the tensor on the host, and would be of the one on the device"
            return Reason("other-result", text)
    if any(each.arg is None for each in maker.keywords):
        return Reason("unknown-arguments", "the device may be among its ** arguments")
    tensor = next((each for each in arguments_of(maker) if is_tensor(script, each)), None)
    if tensor is not None and not counts(name):  # what counts takes the number out of it, wherever it is
        return Reason("other-arguments", f"'{ast.unparse(tensor)}' is a tensor, which may be on the host")
    other = next((each.arg for each in maker.keywords if each.arg not in PLAIN_ARGUMENTS), None)
    if other is not None:
        return Reason("other-arguments", f"it is given {other}, which may not go together with a device")
    return next(filter(None, (_why_other_step(script, call) for call in steps[:-1])), None)


def _why_other_step(script: Script, call: ast.Call) -> Reason | None:
    """Why what is called on the way may make another thing of the tensor on a device."""
    if _method(call) in SHARING:
        text = f"'{_method(call)}()' keeps one element for several, and the copy has several of it"
        return Reason("other-result", text)
    if _method(call) in COMPUTING and call.keywords:
        return Reason("other-result", f"'{_method(call)}()' is given more than a number")
    if _method(call) in FILLING | COMPUTING and not all(_is_number(script, each) for each in arguments_of(call)):
        given = ast.unparse(arguments_of(call)[0])
        return Reason("other-result", f"whether '{given}' is a number is not known, and a tensor may be on the host")
    if not _is_kept(script, call):
        return Reason("other-result", f"'{last_name(call.func)}()' may compute otherwise on the device")
    return None


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value


def _is_kept(script: Script, call: ast.Call) -> bool:
    """Whether what is called on the way computes the same on each device."""
    name = _name(script, call)
    if name == _VARIABLE:
        return len(call.args) == 1 and all(each.arg == "requires_grad" for each in call.keywords)
    if keeps_triangle(name):
        return True
    given = arguments_of(call)
    if is_smooth(name or _method(call)):
        return len(given) == (1 if name else 0)
    if _method(call) in _CASTS and len(given) == 1:
        return _is_format(script, given[0])
    return is_alike(_method(call)) and not any(is_tensor(script, each) for each in given)


def _is_format(script: Script, node: ast.expr) -> bool:
    """``torch.long``, or ``x.dtype`` of whatever has a number format."""
    formats = script.flow.values(node)
    is_named = isinstance(node, ast.Attribute) and node.attr == "dtype"
    is_tensor = any(isinstance(each, Tensor) for each in formats)
    return (is_named and not is_tensor) or (bool(formats) and all(map(is_dtype, formats)))


def _is_number(script: Script, node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _is_number(script, node.operand)
    values = script.flow.values(node)
    return isinstance(node, ast.Constant) or (bool(values) and all(isinstance(each, _NUMBERS) for each in values))


def why_other_copy(script: Script, transfer: Transfer, name: str) -> Reason | None:
    """Why the copy does more than to go to a device."""
    call, target = transfer.call, transfer.target
    others = [each.arg or "**" for each in call.keywords if each.arg not in _OF_COPIES]
    is_long = len(call.args) > (1 if transfer.method == "cuda" else _FORMAT_POSITION + 1)
    if others or is_long or any(isinstance(each, ast.Starred) for each in call.args):
        return Reason("other-arguments", "the copy has arguments that the constructor does not take")
    if transfer.method == "type":
        return None if cuda_type(script, transfer) is not None else _why_other_type(transfer)
    if transfer.method == "to" and target is None:
        return Reason("unknown-device", "the device is not given")
    if len(call.args) > _FORMAT_POSITION or any(each.arg == "dtype" for each in call.keywords):
        given = call.args[_FORMAT_POSITION] if len(call.args) > _FORMAT_POSITION else None
        if name not in EXACT_IN_EACH_FORMAT or (given is not None and not _is_format(script, given)):
            return Reason("other-arguments", "the copy is cast to another number format, too")
    like = _like(script, transfer)
    if like is not None and not _is_plain(like):
        text = f"'{ast.unparse(like)}' would be computed twice, for its device and its number format:"
        return Reason("other-arguments", text, remedy="give it a name")
    if like is not None or target is None or _is_its_device(script, target):
        return None
    found = transfer.device if transfer.method == "to" else None
    if found is None:
        text = "the device may be None, which means the current one here"
        return None if _is_index(script, target) else Reason("unknown-device", text)
    is_named = any(each.arg == "device" for each in call.keywords)  # so that it is no tensor, and no number format
    if found.kind is DeviceKind.UNKNOWN and not is_named and not _is_given_device(script, target, frozenset()):
        because = f": {found.reason}" if found.reason else ""
        text = f"whether '{ast.unparse(target)}' is a device is not known{because}"
        return Reason("unknown-device", text)
    return None


def _is_index(script: Script, node: ast.expr) -> bool:
    """Whether it is surely the number of a device: ``0``, or ``self.index`` that is given nothing else."""
    values = script.flow.values(node)
    return bool(values) and all(isinstance(each, Literal) and type(each.value) is int for each in values)


def _is_given_device(script: Script, node: ast.expr, seen: frozenset[Callee]) -> bool:
    """Whether it is a parameter that each call of its function, or class, gives a device: ``f(device=y.device)``.

    Where a call does not give it, the default must be one.
    """
    flow, module = script.flow, module_of(script.flow, node)
    function = module.function(node)
    if not isinstance(node, ast.Name) or function is None or function in seen or flow.escapes(function):
        return False
    is_parameter = any(each.arg == node.id for each in signature(function).named)
    is_bound = any(module.function(each) is function for each in module.stores.get(node.id, ()))
    calls = flow.callers(function)
    if not is_parameter or is_bound or not calls:
        return False
    bound = [flow.bind(function, call) for call in calls]
    default = signature(function).defaults.get(node.id)
    given = [each.get(node.id) or default for each in bound]
    return all(each.is_whole for each in bound) and all(
        each is not None
        and (
            device(flow, each).kind is not DeviceKind.UNKNOWN
            or _is_its_device(script, each)
            or _is_given_device(script, each, seen | {function})
        )
        for each in given
    )


def _why_other_type(transfer: Transfer) -> Reason:
    """Why a tensor type is not what a constructor is given."""
    target = transfer.target
    if _is_type_of(target):
        of = ast.unparse(target.func.value)  # type: ignore[union-attr]
        text = f"'{ast.unparse(target)}' says that it is on CUDA, but not on which device:"  # type: ignore[arg-type]
        return Reason("unknown-device", text, remedy=f"write dtype={of}.dtype, device={of}.device")
    text = "a tensor type does not say on which device:"
    return Reason("unknown-device", text, remedy="give the constructor dtype=… and device=…")


def _is_plain(node: ast.expr) -> bool:
    """Whether it is a name, or attributes of one."""
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and _is_plain(node.value))


def _is_its_device(script: Script, node: ast.expr) -> bool:
    """``x.device`` of a tensor, or of what is not known: whatever has a device calls it that. Or a name for it."""
    if isinstance(node, ast.Name):
        function = module_of(script.flow, node).function(node)
        given = reaching(function).given(node) if function is not None else None
        return bool(given) and all(
            isinstance(each, ast.Attribute) and _is_its_device(script, each) for each in given or ()
        )
    values = script.flow.values(node)
    return isinstance(node, ast.Attribute) and node.attr == "device" and not any(map(_is_no_device, values))


def _is_no_device(value: Value) -> bool:
    return isinstance(value, Tensor) or is_dtype(value)


def _why_other_stream(script: Script, transfer: Transfer) -> Reason | None:
    """Why what uses the tensor may not wait for it to be filled, as it does for a copy."""
    return why_other_order(script, transfer.module, transfer.call)


def why_other_order(script: Script, module: Module, call: ast.Call) -> Reason | None:
    """Why what uses the tensor may not wait for it to be filled, wherever other streams are."""
    reason = why_not_ordered(script.flow, module, call)
    if reason is None:
        return None
    text = f"another stream is used ({HERE}), which may not wait for the tensor to be filled"
    return Reason("other-stream", text, reason.places[:1] or (at(module, call),))
