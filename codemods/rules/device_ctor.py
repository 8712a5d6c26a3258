"""Rule ``device-ctor``: tensors that are filled are made on the device, not copied to it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.codemod import UNMEASURED, Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.editing.values import AddArgument, Remove, Replace
from codemods.facts.devices.array_indices import array_indices
from codemods.facts.devices.filled_arrays import filled_arrays
from codemods.facts.devices.fillings import counted_indices, filled, spelled_arange
from codemods.facts.devices.handings import Handing
from codemods.facts.devices.numbers_there import numbers_there
from codemods.facts.reason import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.codemod import Finding
    from codemods.dataflow.source import Module
    from codemods.editing.values import Edit
    from codemods.facts.devices.array_indices import ArrayIndex
    from codemods.facts.devices.filled_arrays import FilledArray
    from codemods.facts.devices.fillings import CountedIndex, Filled
    from codemods.facts.devices.legacy_fills import LegacyFill
    from codemods.facts.devices.number_fills import NumberFill
    from codemods.facts.devices.transfers import Transfer
    from codemods.facts.script import Script

_MESSAGE = "a tensor is filled on the host and copied to the device"
_ARRAY = "an array is filled in float64, cast, and copied to the device"
_NUMBER = "a number is copied to the device, where it can be filled in"
_INDEX = "an index is counted on the host and copied to the device"


class DeviceCtor(Codemod):
    """Makes filled tensors on the device (``torch.zeros(n, device=device)``) instead of copying them there.

    Why it is faster:
        ``torch.zeros(n).to(device)`` fills memory of the host and copies it, for which the host waits: the copy is from
        pageable memory. With ``device=`` one kernel fills the memory of the device, and the host goes on. Where a GAN
        makes its labels in each iteration, or a recurrent network its first state, that saves as many waits.

        ``type_as(x)`` and ``to(x)`` become ``dtype=x.dtype, device=x.device`` where the same comes out, as of zeros and
        ones. Other numbers are made on the device and cast there.

        ``type(torch.cuda.LongTensor)`` becomes ``device="cuda"``, and stays where it casts as well.

        ``mask = mask.to(x.device)`` below the tensor goes, as does ``if x.is_cuda: mask = mask.cuda()``, where nothing
        reads it in between: the tensor gets ``device=x.device``. Of ``if use_cuda: mask = mask.cuda()`` it gets
        ``device="cuda" if use_cuda else "cpu"``. Where another branch gives the name something else, the copy stays,
        which has nothing to copy then.

        A function of the project that copies what it is given stays as it is, and has nothing to copy then:
        ``to_var(torch.ones(n))`` becomes ``to_var(torch.ones(n, device="cuda" if use_cuda else "cpu"))``, with the
        condition and the device of the function, where both can be written at the call.

        A number may be added, multiplied or compared in between: ``(torch.ones(n) * i).to(device)``. The
        frequencies of an embedding are computed on the device as well:
        ``torch.exp(torch.arange(n) * -0.1).to(x.device)``.

        ``x[torch.arange(n), y]`` copies the index to where ``x`` is: it is counted there, with ``device=x.device``. Of
        ``x[range(n), y]`` and ``x[np.arange(n), y]`` Python makes a tensor first: these become ``torch.arange``, too.

        ``torch.LongTensor(range(n)).to(device)`` becomes ``torch.arange(n, device=device)``: the same integers.
        ``torch.LongTensor(n, 2).to(device)``, which nothing fills, becomes ``torch.empty`` with the device.

        ``Tensor(np.ones(shape))`` is filled in float64, cast and copied, where ``Tensor`` is
        ``torch.cuda.FloatTensor if cuda else torch.FloatTensor``. It becomes ``torch.ones(shape, device=x.device)``,
        where a statement above takes a batch to the same type: ``x = batch.type(Tensor)``. Tensors of NumPy's zeros and
        ones that are copied with ``to(device)`` are filled there as well. The identity that a spatial transformer adds,
        ``torch.from_numpy(np.eye(k).flatten().astype(np.float32))``, is ``torch.eye(k, device=x.device).flatten()``.

        ``torch.tensor(0.5).to(device)`` becomes ``torch.full((), 0.5, device=device)``, which copies nothing, and
        ``torch.LongTensor([start] * x.size(0)).to(device)`` likewise. So does ``torch.tensor(i / n).to(device)``, where
        ``i`` is counted by a loop and ``n`` is a number of the script's. ``torch.tensor(0.0, device=device)`` copies
        the number, too: it becomes ``torch.zeros((), device=device)``. ``torch.tensor([1, 2]).to(device)`` is not
        meant: it copies the numbers in either form.

    When it is left:
        Random numbers: a device has a generator of its own, so that others would be drawn, and the host's would yield
        others later, such as the order of a loader. What devices may round otherwise: ``linspace``, ``arange`` of
        floats. Gradients are asked for of the tensor on the host. The copy is cast as well, or gives each element of
        ``expand()`` memory of its own, and it is not only compared with a column. Other streams run, or what is written
        as the device may be something else. A function that copies it does more with it first, or asks for a device
        that only it knows. An array of NumPy's that has a name is an index. Items of data sets are made where CUDA may
        not be used. Outside of loops, and of what a model's constructor makes once for each layer, nothing is said, but
        of what a model runs for each batch, and of closures that an optimizer calls in each step.

    Results:
        The same values, bit for bit, in the same number format; of what ``exp``, ``sin`` and their like compute, the
        last bit may be another one on CUDA. Without CUDA it is the same tensor on the CPU.

    References:
        PyTorch performance tuning guide, "Create tensors directly on the target device".
    """

    promise = Promise.PRECISION
    gain = UNMEASURED
    needs_cuda = True
    phases = frozenset({Phase.COPIES, Phase.FORWARD, Phase.OTHER})
    causes = words(
        """
        cuda-in-worker default-device draws-elsewhere made-in-loop no-name other-arguments other-result other-stream
        unknown-arguments unknown-device
        """
    )
    examples = (
        Rewrites(
            before="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 1).to(device)
for x in torch.randn(10, 8, 4):
    real = torch.ones(8, 1).to(device)
    nn.functional.mse_loss(model(x.to(device)), real).backward()
""",
            after="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 1).to(device)
for x in torch.randn(10, 8, 4):
    real = torch.ones(8, 1, device=device)
    nn.functional.mse_loss(model(x.to(device)), real).backward()
""",
        ),
        Rewrites(
            before="""\
import torch
from torch import nn

model = nn.Linear(4, 1).cuda()
for x in torch.randn(10, 8, 4):
    mask = torch.tril(torch.ones(8, 8)).bool().cuda()
    model(x.cuda()).expand(8, 8).masked_fill(mask, 0).mean().backward()
""",
            after="""\
import torch
from torch import nn

model = nn.Linear(4, 1).cuda()
for x in torch.randn(10, 8, 4):
    mask = torch.tril(torch.ones(8, 8, device="cuda")).bool()
    model(x.cuda()).expand(8, 8).masked_fill(mask, 0).mean().backward()
""",
        ),
        Leaves(
            code="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 1).to(device)
for _ in range(10):
    noise = torch.randn(8, 4).to(device)
    model(noise).mean().backward()
""",
            because=(
                "random numbers are drawn from another generator on the device, and all later ones on the host change:"
                " name the device in the call where other numbers will do"
            ),
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every tensor of the module that is filled on the host again and again, and copied to a device."""
        found = tuple(filled(script))
        yield from self._of_names(script, [each for each in found if each.by_name is not None])
        for each in found:
            if each.by_name is not None:
                continue
            module = each.transfer.module
            node = each.transfer.call if each.later is None and each.following is None else each.maker
            together = _moved_together(found, each)
            edits = each.why_not or (_edits_there(script, together) if together else _edits(script, each))
            if isinstance(edits, Reason):
                yield self.left(module, node, edits)
            elif not together or each is together[0]:
                promise = Promise.PRECISION if each.rounds_otherwise else Promise.BITWISE
                message = _MESSAGE if each.counted is None else _INDEX
                yield self.rewrites(module, node, message, *edits, promise=promise)
        yield from self._of_indices(script)
        yield from self._of_numbers(script)
        for array in filled_arrays(script):
            changes = array.why_not or _edits_of_array(script, array)
            node = array.made if array.transfer is None else array.transfer.call
            if isinstance(changes, Reason):
                yield self.left(array.module, node, changes)
            else:
                yield self.rewrites(array.module, node, _ARRAY, *changes, promise=Promise.BITWISE)

    def _of_indices(self, script: Script) -> Iterator[Finding]:
        """What is copied to where it is an index."""
        for index in counted_indices(script):
            module, device = script.module, f"{script.module.code(index.tensor)}.device"
            if index.why_not is not None:
                yield self.left(module, index.maker, index.why_not)
            else:
                edit = _edit_of_index(script, index, device)
                yield self.rewrites(module, index.maker, _INDEX, edit, promise=Promise.BITWISE)
        for used in array_indices(script):
            yield self.left(script.module, used.name, _why_array(used))

    def _of_numbers(self, script: Script) -> Iterator[Finding]:
        """The numbers that are copied to a device where they can be filled in."""
        for number in numbers_there(script):
            device = script.module.code(number.device)
            why_not = number.why_not
            if why_not is None and "\n" in device:
                why_not = Reason("not-editable", "the device is written on several lines")
            if why_not is not None:
                yield self.left(script.module, number.call, why_not)
            else:
                edit = _of_number(script.module, number.call, number.fill, device)
                yield self.rewrites(script.module, number.call, _NUMBER, edit, promise=Promise.BITWISE)

    def _of_names(self, script: Script, found: Sequence[Filled]) -> Iterator[Finding]:
        """The tensors that are made under a name, and copied by it below."""
        for each in found:
            if each.why_not is not None:
                yield self.left(each.transfer.module, each.maker, each.why_not)
        for group in _named_together([each for each in found if each.why_not is None]):
            module, first = group[0].transfer.module, group[0].maker
            edits = _edits_of_names(script, group)
            if isinstance(edits, Reason):
                yield self.left(module, first, edits)
            else:
                promise = Promise.PRECISION if any(each.rounds_otherwise for each in group) else Promise.BITWISE
                yield self.rewrites(module, first, _MESSAGE, *edits, promise=promise)


def _why_array(used: ArrayIndex) -> Reason:
    """Why an array had better be no index of a tensor that may be on a device."""
    name, tensor = used.name.id, ast.unparse(used.tensor)
    text = f"each index by the array '{name}' makes a tensor of it, and copies that to where '{tensor}' is:"
    once = f"make it once, by torch.as_tensor({name}, device={tensor}.device)"
    return Reason("made-in-loop", text, remedy=once if used.uses > 1 else "make it there, by functions of torch")


def _edits_of_names(script: Script, group: Sequence[Filled]) -> list[Edit] | Reason:
    """``m = torch.ones(n)`` and ``if cuda: m = m.cuda()`` → ``m = torch.ones(n, device="cuda" if cuda else "cpu")``.

    The copy stays where it may be one of something else, too.
    """
    module, quote = group[0].transfer.module, script.quote(group[0].transfer.module)
    edits: list[Edit] = []
    for each in group:
        condition = each.by_name.condition if each.by_name is not None else None
        like = each.like if each.like is not None else None
        device = _device(script, each.transfer) if like is None else f"{module.code(like)}.device"
        if condition is not None:
            if isinstance(each.transfer, Handing) and each.transfer.is_chosen:
                return Reason("not-editable", "several conditions decide whether it is copied")
            device = f"{device} if {module.code(condition.test)} else {quote}cpu{quote}"
        if "\n" in device:
            return Reason("not-editable", "the device is written on several lines")
        edits.append(_on_device(script, each, device))
    return [*edits, *(_gone(module, each, group) for each in group if _goes(each, group))]


def _named_together(found: Sequence[Filled]) -> list[list[Filled]]:
    """What changes at once: all that one copy copies where it goes, and all that one ``if`` copies, as one of them."""
    groups: dict[object, list[Filled]] = {}
    for each in found:
        move = each.by_name
        condition = move.condition if move is not None else None
        key: object = each.maker
        if _goes(each, found):
            key = condition if isinstance(condition, ast.If) and _empties(condition, found) else each.transfer
        groups.setdefault(key, []).append(each)
    return list(groups.values())


def _goes(one: Filled, found: Sequence[Filled]) -> bool:
    """Whether a copy has nothing left to do: all that it may copy is made on the device, in its number format."""
    alike = [each for each in found if each.transfer is one.transfer]
    is_handed = isinstance(one.transfer, Handing)
    is_whole = not is_handed and one.by_name is not None and len(alike) == one.by_name.values
    return is_whole and one.number_format is None and one.like is None


def _empties(condition: ast.If, found: Sequence[Filled]) -> bool:
    """Whether nothing is left under an ``if`` without the copies that go."""
    gone = [each.by_name.statement for each in found if each.by_name is not None and _goes(each, found)]
    return all(any(each is one for one in gone) for each in condition.body)


def _gone(module: Module, found: Filled, group: Sequence[Filled]) -> Edit:
    """The copy goes, and the ``if`` around it where nothing is left there."""
    move = found.by_name
    condition, statement = (None, None) if move is None else (move.condition, move.statement)
    if isinstance(condition, ast.If) and _empties(condition, group):
        return Remove(module, condition, with_heading=True)
    if statement is not None:
        return Remove(module, statement, with_heading=True)
    return Replace(module, condition or found.transfer.call, "{made}", (("made", found.transfer.receiver),))


def _moved_together(found: Sequence[Filled], one: Filled) -> Sequence[Filled]:
    """The tensors that are all that one ``if x.is_cuda:`` moves, where each can be made on the device; or else the one.

    Nothing where the tensor is copied in the expression that makes it.
    """
    if one.later is None or one.why_not is not None:
        return ()
    condition = one.later.condition
    others = [each for each in found if each.later is not None and each.later.condition is condition]
    movable = [each for each in others if each.why_not is None]
    return movable if len(movable) == len(condition.body) else [one]


def _edits_there(script: Script, together: Sequence[Filled]) -> list[Edit]:
    """``m = torch.ones(n)`` and ``if x.is_cuda: m = m.cuda()`` → ``m = torch.ones(n, device=x.device)``."""
    added: list[Edit] = []
    removed: list[ast.stmt] = []
    for each in together:
        if each.later is not None:
            module, later = each.transfer.module, each.later
            added.append(_on_device(script, each, f"{module.code(later.other)}.device"))
            is_all = len(together) == len(later.condition.body)
            removed.append(later.condition if is_all else later.statement)
    module = together[0].transfer.module
    return [*added, *(Remove(module, each, with_heading=True) for each in dict.fromkeys(removed))]


def _edits(script: Script, found: Filled) -> list[Edit] | Reason:
    """``torch.zeros(n).view(2, -1).to(device)`` → ``torch.zeros(n, device=device).view(2, -1)``."""
    transfer, maker = found.transfer, found.maker
    module, number_format = transfer.module, found.number_format
    if found.like is not None:
        return _edits_like(script, found, module.code(found.like))
    device = _device(script, transfer)
    if "\n" in device:
        return Reason("not-editable", "the device is written on several lines")
    added = [_on_device(script, found, device)]
    if isinstance(transfer, Handing):
        return added  # the function that copies it is called for others, too
    if transfer.method == "type":
        return [*added, _not_copied(found)] if found.is_of_type else added  # else it casts, on the device
    if number_format is not None:
        if not found.is_exact_in_its_format:
            return Reason("other-arguments", "the copy is cast to another number format, too")
        code = module.code(number_format)
        if "\n" in code:
            return Reason("not-editable", "the number format is written on several lines")
        added.append(AddArgument(module, maker, "dtype", code))
    return [*added, _not_copied(found)]


def _not_copied(found: Filled) -> Edit:
    """The copy goes: of an expression, what is copied stays; a statement of its own goes with it."""
    transfer = found.transfer
    if found.following is not None:
        return Remove(transfer.module, found.following.statement)
    return Replace(transfer.module, transfer.call, "{made}", (("made", transfer.receiver),))


def _on_device(script: Script, found: Filled, device: str) -> Edit:
    """The constructor is given the device; of one number it is ``torch.full``, which need not copy that.

    Of a range it is ``torch.arange``.
    """
    module, maker = found.transfer.module, found.maker
    if found.legacy is not None:
        return _of_legacy(module, found.legacy, device)
    if found.counted is not None:
        return _counted_there(script, module, maker, found.counted, device)
    if found.numbers is None:
        return AddArgument(module, maker, "device", device)
    return _of_number(module, maker, found.numbers, device)


def _counted_there(script: Script, module: Module, made: ast.expr, counted: ast.Call, device: str) -> Edit:
    """``torch.LongTensor(range(n))`` → ``torch.arange(n, device=device)``."""
    arange = spelled_arange(script, counted) or "torch.arange"
    holes = [(f"number_{i}", each) for i, each in enumerate(counted.args)]
    numbers = ", ".join(f"{{{name}}}" for name, _ in holes)
    return Replace(module, made, f"{arange}({numbers}, device={_escaped(device)})", tuple(holes))


def _edit_of_index(script: Script, index: CountedIndex, device: str) -> Edit:
    """``x[torch.arange(n), y]`` → ``x[torch.arange(n, device=x.device), y]``, also of ``x[np.arange(n), y]``."""
    module = script.module
    if index.counted is None:
        return AddArgument(module, index.maker, "device", device)
    return _counted_there(script, module, index.part, index.counted, device)


def _of_number(module: Module, maker: ast.Call, fill: NumberFill, device: str) -> Edit:
    """``torch.tensor([0.5])`` → ``torch.full((1,), 0.5, device=device)``."""
    holes: list[tuple[str, ast.expr]] = []
    sizes: list[str] = []
    for i, each in enumerate(fill.sizes):
        sizes.append(str(each.value) if isinstance(each, ast.Constant) else f"{{size_{i}}}")
        holes += [] if isinstance(each, ast.Constant) else [(f"size_{i}", each)]
    shape = ", ".join(sizes)
    if not sizes or fill.value is not None:
        shape = f"({shape},)" if len(sizes) == 1 else f"({shape})"
    value = ""
    if fill.value is not None:
        value, holes = ", {value}", [*holes, ("value", fill.value)]
    dtype = "" if fill.number_format is None else f", dtype={fill.number_format}"
    if fill.dtype is not None:
        dtype, holes = ", dtype={dtype}", [*holes, ("dtype", fill.dtype)]
    row = ".flatten()" if fill.is_row else ""
    filling = f"{fill.function}({shape}{value}{dtype}, device={_escaped(device)}){row}"
    return Replace(module, fill.cast or maker, filling, tuple(holes))


def _of_legacy(module: Module, legacy: LegacyFill, device: str) -> Edit:
    """``torch.FloatTensor(n, 1).fill_(1)`` → ``torch.ones(n, 1, device=device)``."""
    holes = [(f"size_{i}", each) for i, each in enumerate(legacy.sizes)]
    sizes = ", ".join(f"{{{name}}}" for name, _ in holes)
    if legacy.value is not None:
        comma = "," if len(holes) == 1 else ""
        sizes = sizes if legacy.is_shape else f"({sizes}{comma})"
        sizes, holes = f"{sizes}, {{value}}", [*holes, ("value", legacy.value)]
    dtype = "" if legacy.number_format is None else f", dtype={legacy.number_format}"
    template = f"{legacy.function}({sizes}{dtype}, device={_escaped(device)})"
    return Replace(module, legacy.call, template, tuple(holes))


def _escaped(code: str) -> str:
    """As it stands in a template."""
    return code.replace("{", "{{").replace("}", "}}")


def _edits_like(script: Script, found: Filled, other: str) -> list[Edit]:
    """``torch.ones(n).type_as(x)`` → ``torch.ones(n, dtype=x.dtype, device=x.device)``.

    Other numbers may come out otherwise in another number format: they are still cast, on the device.
    """
    transfer, maker = found.transfer, found.maker
    on_device = _on_device(script, found, f"{other}.device")
    if not found.is_exact_in_its_format:
        return [on_device]
    of_format = AddArgument(transfer.module, maker, "dtype", f"{other}.dtype")
    return [of_format, on_device, _not_copied(found)]


def _edits_of_array(script: Script, found: FilledArray) -> list[Edit] | Reason:
    """``Tensor(np.ones(shape))`` → ``torch.ones(shape, device=x.device)``; ``….to(device)`` → ``device=device``."""
    module, made, transfer = found.module, found.made, found.transfer
    quote = script.quote(module)
    function = script.spelled(module, found.function, module.statement(made)) or found.function
    beside = f"{found.like}.device" if found.like is not None else f"{quote}cuda{quote}"
    device = beside if transfer is None else _device(script, transfer)
    if "\n" in device:
        return Reason("not-editable", "the device is written on several lines")
    template = f"{function}({{shape}}, device={_escaped(device)})"
    filling = Replace(module, made, template, (("shape", found.shape),))
    if transfer is None:
        return [filling]
    return [filling, Replace(module, transfer.call, "{made}", (("made", transfer.receiver),))]


def _device(script: Script, transfer: Transfer) -> str:
    """How the device is written as an argument."""
    target, quote = transfer.target, script.quote(transfer.module)
    if isinstance(transfer, Handing):
        return transfer.written
    if transfer.method == "type":
        return f"{quote}cuda{quote}"
    if target is not None and (transfer.method == "to" or not isinstance(target, ast.Constant)):
        return transfer.module.code(target)  # `x.cuda(y.device)`: anything else but a number is left
    index = f":{target.value!r}" if isinstance(target, ast.Constant) else ""
    return f"{quote}cuda{index}{quote}"
