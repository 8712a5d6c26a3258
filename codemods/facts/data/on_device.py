"""Which data sets of tensors could be on the device as a whole, and what stands against it?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.names import words
from codemods.dataflow.placement import bound_inside
from codemods.dataflow.source import walk
from codemods.dataflow.values import NONE, HostTensor, Literal, Made, MovedTensor, SomeTensor, Tensor, without_none
from codemods.facts.cost.extents import BYTES, elements
from codemods.facts.cost.worth import worth
from codemods.facts.data.batching import Batches, batches
from codemods.facts.data.datasets import Dataset
from codemods.facts.data.decoded import decoded
from codemods.facts.data.host_uses import why_needed_on_host, why_written
from codemods.facts.data.loader_use import why_reading_is_unknown
from codemods.facts.data.loaders import Given
from codemods.facts.data.materializing import is_only_read
from codemods.facts.data.own_classes import why_own
from codemods.facts.data.tall_images import unmoved
from codemods.facts.devices.cuda_condition import said_as
from codemods.facts.devices.devices import DeviceKind
from codemods.facts.loops import loop_around, place
from codemods.facts.reach import passing_over
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.switches import starts_processes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value
    from codemods.facts.data.loaders import Loader
    from codemods.facts.devices.transfers import Transfer
    from codemods.facts.script import Script

MOST_BYTES = 2**30
"""What a data set may take of a device's memory: a tenth of what the smaller ones have that networks are trained on."""
_TENSORS = "torch.utils.data.TensorDataset"
_BATCH_SAMPLER = "torch.utils.data.BatchSampler"
_PARALLEL = words("torch.nn.DataParallel")
_UNKNOWN_SIZE = "how large its tensors are is not known"
_GRADIENTS = "requires_grad"
_PIXEL = 4
"""Bytes, of the 32-bit numbers that ``ToTensor`` makes."""


class Read(NamedTuple):
    """A loader of a data set, and how its batches can be cut by one index."""

    loader: Loader
    batches: Batches | None
    """None where they are cut so already."""


class Residence(NamedTuple):
    """How a data set gets to the device as a whole."""

    move: str
    """What is written behind a tensor: ``.to(device)``."""
    size: int
    """The bytes that it takes there, at the most."""
    reads: tuple[Read, ...]


def tensor_sets(script: Script) -> Iterator[tuple[ast.Call, Value]]:
    """The data sets of tensors on the host that the module makes and a loader reads, in their order."""
    for call in script.module.nodes(ast.Call):
        for value in script.flow.values(call):
            is_one = isinstance(value, Made) and value.name == _TENSORS
            if value.site is not call or not (is_one or why_own(script.flow, (value,), _TENSORS) is not None):
                continue
            is_there = all(_is_moved(script, each) for each in call.args)
            if not is_there and any(True for _ in _readers(script, value)):
                yield call, value


def _is_moved(script: Script, tensor: ast.expr) -> bool:
    """``x.to(device)``, and ``*(x.to(device) for x in …)``."""
    node = tensor.value if isinstance(tensor, ast.Starred) else tensor
    item = node.elt if isinstance(node, (ast.GeneratorExp, ast.ListComp)) else node
    is_there = any(isinstance(each, MovedTensor) for each in script.flow.values(item))
    return is_there or unmoved(script.flow, item) is not item


def residence(script: Script, module: Module, call: ast.Call, value: Value) -> Residence | Reason:
    """How the data set gets to the device once; why it cannot, or should not."""
    why_own_items = why_own(script.flow, (value,), _TENSORS)
    if why_own_items is not None:
        return why_own_items
    loaders = list(_readers(script, value))
    reads = [_read(script, each) for each in loaders]
    why_not_read = next((each for each in reads if isinstance(each, Reason)), None)
    moves = [move for each in loaders for move in (*each.transfers, *each.converted)]
    reason = (
        why_not_read
        or _why_not_moved(script, loaders, moves)
        or next((why for each in loaders if (why := why_needed_on_host(script.flow, each)) is not None), None)
        or _why_used_otherwise(script, value, loaders)
        or why_not_once(script, module, call)
        or why_written(module, call, call.args)
    )
    if reason is not None:
        return reason
    move, size = said_alike(script, module, call, moves), _size(script, module, call, value)
    if isinstance(move, Reason) or isinstance(size, Reason):
        return move if isinstance(move, Reason) else size  # type: ignore[return-value]
    return Residence(move, size, tuple(each for each in reads if isinstance(each, Read)))


def _readers(script: Script, value: Value) -> Iterator[Loader]:
    return (each for each in script.loaders if value in each.dataset.parts)


# How it is read.


def _read(script: Script, loader: Loader) -> Read | Reason:
    found = loader.dataset.why_replaced or batches(script, loader)
    if isinstance(found, Reason):
        return found
    pinned = loader.pin_memory
    if pinned is not None and loader.is_pinned and pinned.how is not Given.KEYWORD:
        text = f"pin_memory of its loader is not given by its name in the call ({HERE}), and has to go:"
        return Reason("unknown-arguments", text, (loader.at(loader.call),), "write pin_memory=False there")
    return Read(loader, found) if found is not None else _read_by_batches(script, loader)


def _read_by_batches(script: Script, loader: Loader) -> Read | Reason:
    """The same of a loader without a batch size: its sampler has to make the batches."""
    given = loader.arguments
    here = (loader.at(loader.call),)
    sampler = given["sampler"].values if "sampler" in given else frozenset()
    if not sampler or not all(each.name == _BATCH_SAMPLER for each in sampler):
        return Reason("nothing-to-gain", f"its items are read one by one ({HERE})", here)
    workers = given.get("num_workers")
    if workers is not None and not all(isinstance(each, Literal) and not each.value for each in workers.values):
        text = f"its batches are made in worker processes ({HERE}), which cannot use the device:"
        return Reason("script-decides", text, here, remedy="take num_workers away")
    if "collate_fn" in given and given["collate_fn"].values != {NONE}:
        return Reason("other-arguments", f"its batches are made by a collate_fn of its own ({HERE})", here)
    return loader.unknown_arguments or why_reading_is_unknown(script, loader) or Read(loader, None)


# Where its batches go.


def _why_not_moved(script: Script, loaders: list[Loader], moves: list[Transfer]) -> Reason | None:
    """Why its batches may go to another device than CUDA, or to none."""
    unmoved = next((each for each in loaders if not each.transfers and not each.converted), None)
    if unmoved is not None:
        text = f"the batches of one of its loaders are not moved to a device ({HERE})"
        return Reason("batches-not-moved", text, (unmoved.at(unmoved.call),))
    return next((why for each in moves if (why := why_not_to_cuda(each)) is not None), None) or why_several(script)


def why_not_to_cuda(move: Transfer) -> Reason | None:
    """Why what it moves may go to another device than CUDA, or only sometimes there."""
    where = (at(move.module, move.call),)
    if move.device.kind is DeviceKind.CPU:
        return Reason("no-cuda", f"its batches stay on the CPU ({HERE})", where)
    if move.device.kind is DeviceKind.UNKNOWN:
        text = f"the device its batches are moved to is not known ({HERE}): {move.device.reason}"
        return Reason("unknown-device", text, where)
    if not move.may_reach_cuda or move.may_reach_mps:
        return Reason("other-accelerator", f"its batches may go to another accelerator than CUDA ({HERE})", where)
    is_plain = move.method in {"to", "cuda"} and not move.branches and not move.may_fail_unseen()
    is_always = move.is_certain and passing_over(move.module, move.call) is None
    if not is_plain or (move.device.kind is DeviceKind.CUDA and not is_always):
        text = f"its batches are moved under a condition, or in a form that moves no whole data set ({HERE}):"
        return Reason("script-decides", text, where, remedy="write x.to(device), with a device that says where")
    return None


def why_several(script: Script) -> Reason | None:
    """Why a batch may go to several devices."""
    for module in script.modules:
        for call in script.flow.calls_of(module, _PARALLEL):
            text = f"nn.DataParallel spreads each batch over several GPUs ({HERE})"
            return Reason("data-parallel", text, (at(module, call),))
    return None


def said_alike(script: Script, module: Module, node: ast.AST, moves: list[Transfer]) -> str | Reason:
    """What moves the tensors where they are made, as the batches are moved now."""
    found = {_said(script, module, node, each) for each in moves}
    (text,) = found if len(found) == 1 else (None,)
    if text is not None:
        return text
    others = next((each for each in moves if _said(script, module, node, each) is None), None)
    if others is None:
        text = f"its batches are moved in several ways ({', '.join([HERE] * len(moves))}), perhaps to several devices"
        return Reason("script-decides", text, tuple(at(each.module, each.call) for each in moves))
    text = f"the device of its batches ({HERE}) has no name where the data set is made:"
    return Reason("no-name", text, (at(others.module, others.call),), remedy="name the device above that")


def _said(script: Script, module: Module, node: ast.AST, move: Transfer) -> str | None:
    target = move.target
    if target is None:
        return ".cuda()"
    if isinstance(target, ast.Constant):
        return f".{move.method}({move.module.code(target)})"
    said = said_as(script.flow, module, target, module.statement(node))
    if said is None or bound_inside(module, node) & {each.id for each in walk(said) if isinstance(each, ast.Name)}:
        return None
    return f".{move.method}({module.code(said)})"


# What else is done with it.


def _why_used_otherwise(script: Script, value: Value, loaders: list[Loader]) -> Reason | None:
    """Why somebody may need the items on the host: who does more than to read them through loaders."""
    parts = {each for loader in loaders for each in without_none(loader.dataset.values)}
    text = f"its items are used in another way than through a loader ({HERE}), and would be on the device"
    for each in (value, *(part for part in parts if value in Dataset(script.flow, frozenset({part})).parts)):
        for module, node in script.flow.places(each):
            if not is_only_read(script, module, node):
                return Reason("used-on-host", text, (at(module, node),))
    for loader in loaders:
        for module, node in script.flow.places(loader.value):
            above = module.parent(node)
            if isinstance(above, ast.Attribute) and above.attr == "dataset" and not is_only_read(script, module, above):
                return Reason("used-on-host", text, (at(module, above),))
    return None


def why_not_once(script: Script, module: Module, node: ast.AST) -> Reason | None:
    """Why a copy that is made there is made again, or does not go where batches go."""
    loop = loop_around(script.flow, module, node)
    if loop is not None:
        return Reason("made-in-loop", f"it is made anew in each pass of a loop ({HERE})", (place(script.flow, loop),))
    if script.default_device is not None:
        text = f"the script says on which device tensors are made ({HERE})"
        return Reason("default-device", text, (place(script.flow, script.default_device),))
    if starts_processes(script):
        text = "the script starts processes, which cannot use CUDA where it was used before they were forked"
        return Reason("other-process", text)
    return None


# How large it is.


def _size(script: Script, module: Module, call: ast.Call, value: Value) -> int | Reason:
    found = _of_images(script, value) if decoded(script.flow, value) is not None else 0
    for tensor in call.args if not found else ():
        size = bytes_of(script, module, tensor)
        if isinstance(size, Reason) or found is None:
            return size if isinstance(size, Reason) else Reason("too-large", _UNKNOWN_SIZE)
        found += size
    if not found:
        return Reason("too-large", _UNKNOWN_SIZE)
    return why_too_large(found) or found


def why_too_large(size: int) -> Reason | None:
    """Why so many bytes are too many."""
    if size <= MOST_BYTES:
        return None
    return Reason("too-large", f"it may take {size / 2**30:,.1f} GiB of the device's memory")


def bytes_of(script: Script, module: Module, tensor: ast.expr) -> int | Reason:
    """What a tensor takes at the most; why that is not known, or it is not plain data on the host."""
    count = elements(script.flow, worth(script).constants, tensor)
    where = (at(module, tensor),)
    if count is None:
        text = f"how large {ast.unparse(tensor)} is, is not known ({HERE}):"
        return Reason("too-large", text, where, "move it to the device there if it fits beside the model")
    if not _is_on_host(script, tensor):
        text = f"{ast.unparse(tensor)} may be something else than a tensor on the host ({HERE})"
        return Reason("unknown-dataset", text, where)
    if _is_learned(script, module, tensor):
        return Reason("needs-gradients", f"gradients are asked for of {ast.unparse(tensor)} ({HERE})", where)
    return count * BYTES


def _is_on_host(script: Script, tensor: ast.expr) -> bool:
    """Whether it is on the host for sure, or is computed of nothing that may be elsewhere."""
    values = script.flow.values(tensor)
    if values and all(isinstance(each, HostTensor) for each in values):
        return True
    if any(not isinstance(each, SomeTensor) for each in values):
        return False
    made = worth(script).constants.definition(tensor)
    if made is None or made is not tensor:
        return made is not None and _is_on_host(script, made)
    parts = [each for each in walk(tensor) if isinstance(each, ast.expr) and each is not tensor]
    operands = [each for each in parts if any(isinstance(value, Tensor) for value in script.flow.values(each))]
    return bool(operands) and all(_is_on_host(script, each) for each in operands)


def _is_learned(script: Script, module: Module, tensor: ast.expr) -> bool:
    """Whether gradients are asked for of it where it is made, or of what has its name."""
    made = worth(script).constants.definition(tensor) or tensor
    asks = any(isinstance(each, ast.keyword) and each.arg == _GRADIENTS for each in walk(made))
    named = {each.id for each in walk(tensor) if isinstance(each, ast.Name)}
    attributes = (each for each in module.nodes(ast.Attribute) if each.attr in {_GRADIENTS, f"{_GRADIENTS}_"})
    return asks or any(isinstance(each.value, ast.Name) and each.value.id in named for each in attributes)


def _of_images(script: Script, value: Value) -> int | None:
    """What images take that were decoded once, with their labels."""
    read = decoded(script.flow, value)
    lengths = worth(script).lengths
    count = lengths.items(frozenset({value}))
    image = lengths.image(Dataset(script.flow, read)) if read is not None else None
    if count is None or image is None:
        return None
    channels, height, width = image
    return count * (channels * height * width * _PIXEL + BYTES)
