"""Copies of batches to a device: why one has to block, or is none of a batch in pinned memory."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import signature
from codemods.dataflow.source import FUNCTIONS, LOOPS, is_name, walk
from codemods.dataflow.values import (
    Batch,
    Choice,
    HostTensor,
    MovedTensor,
    Tensor,
    Unknown,
    Value,
    in_order,
    library_names,
    why_unknown,
    without_none,
)
from codemods.facts.data.elements import is_element
from codemods.facts.data.number_formats import why_cast
from codemods.facts.data.parts import is_callers_batch, may_hand_out, why_no_tensor
from codemods.facts.devices.devices import DeviceKind, asks_for_device, for_cuda
from codemods.facts.devices.later_moves import next_move
from codemods.facts.devices.streams import why_not_ordered
from codemods.facts.devices.transfers import from_arrays
from codemods.facts.devices.writes import why_written
from codemods.facts.loops import loop_around, module_of
from codemods.facts.loops import place as place_of
from codemods.facts.reach import own
from codemods.facts.reaching import targets
from codemods.facts.reason import HERE, Reason, at
from codemods.library.diagnostics import reads_clock
from codemods.library.kinds import Kind, described, may
from codemods.library.waits import SYNCHRONIZES

if TYPE_CHECKING:
    from codemods.facts.devices.transfers import Transfer
    from codemods.facts.reason import Place
    from codemods.facts.script import Script

_TENSORS = "torch.utils.data.TensorDataset"


def is_about_batches(move: Transfer) -> bool:
    """Whether a batch is moved, something made from one, or an element of something unknown."""
    return bool(move.loaders or move.made_from) or all(isinstance(each, Unknown) for each in move.sources)


def why_not_about_batches(script: Script, move: Transfer) -> Reason | None:
    """What keeps from a move what only looks like a batch: it was made by hand, or where it comes from is not known.

    None where nothing speaks for a batch.
    """
    if _is_for_data_set(script, move):
        return None
    if is_cut_by_hand(script, move):
        return _why_made(script, move)
    is_like_one = is_element(move.module, move.receiver) and not all(
        isinstance(each, MovedTensor) for each in move.sources
    )
    if move.non_blocking is None and move.method != "type" and is_like_one:
        return _why_no_batch(move)
    return None


def _is_for_data_set(script: Script, move: Transfer) -> bool:
    """``TensorDataset(*(each.to(device) for each in tensors))``: what is moved there is all items, and no batch."""
    around = (each for each in move.module.ancestors(move.call) if isinstance(each, ast.Call))
    return any(value.name == _TENSORS for each in around for value in script.flow.values(each.func))


def is_cut_by_hand(script: Script, move: Transfer) -> bool:
    """``X[i : i + 64].to(device)`` in a loop; not ``torch.randn(64, 9).to(device)``, which had better be made there.

    Nor is it ``z = torch.randn(64, 9)`` with ``z = z.to(device)`` below. An array, ``torch.from_numpy(a).to(device)``,
    is on the host.
    """
    if move.non_blocking is not None or any(not isinstance(each, HostTensor) for each in move.sources):
        return False
    made = {each.site for each in move.sources}
    following = next_move(move)
    making = move.receiver if following is None else following.made
    if not made.isdisjoint(walk(making)) and not from_arrays(script.flow, making):
        return False
    calls = [each for each in move.module.nodes(ast.Call) if isinstance(each.func, ast.Attribute)]
    pinning = [each.func.value for each in calls if each.func.attr == "pin_memory"]  # type: ignore[attr-defined]
    is_pinned = any(move.sources & script.flow.values(each) for each in pinning)
    return not is_pinned and loop_around(script.flow, move.module, move.call) is not None


def _why_no_batch(move: Transfer) -> Reason:
    """Why what is moved is not known to be a batch."""
    unknown = min((each.name for each in move.sources if isinstance(each, Unknown)), default=None)
    return _no_batch(unknown or "no loader is seen to hand it out")


def _no_batch(why: str) -> Reason:
    return Reason("unknown-batch", f"what is moved is not known to be a batch: {why}")


def unknown_in_place(script: Script, call: ast.Call) -> Reason | None:
    """Why it is not known what moves itself, ``batch.to(device)``, and is used as batches are; None for all else."""
    module, func = script.module, call.func
    if not (isinstance(func, ast.Attribute) and func.attr in {"to", "cuda"} and isinstance(func.value, ast.Name)):
        return None
    given = any(each.arg == "non_blocking" for each in call.keywords)
    if given or not isinstance(module.parent(call), ast.Expr) or not is_element(module, func.value):
        return None
    values = without_none(script.flow.values(func.value))
    if not values or any(not isinstance(each, Unknown) for each in values):
        return None
    loop = next((each for each in module.ancestors(call) if isinstance(each, (ast.For, ast.AsyncFor))), module.tree)
    unknown = why_unknown(values)
    is_taken_apart = any(_takes_apart(script, each, func.value.id) for each in walk(loop))
    return _no_batch(unknown) if unknown is not None and is_taken_apart else None


def _takes_apart(script: Script, node: ast.AST, name: str) -> bool:
    """``batch["x"]``, ``model(**batch)``, ``model(batch)``."""
    match node:
        case ast.Subscript(ast.Name(used)) | ast.keyword(None, ast.Name(used)):
            return used == name
        case ast.Call(func, [ast.Name(used), *_]):
            return used == name and may(script.flow, script.flow.values(func), Kind.MODEL)
    return False


def _why_made(script: Script, move: Transfer) -> Reason:
    """Where the script made by itself what it moves, and that this is not in pinned memory."""
    hole, places = _made(script, move)
    text = f"what is moved was made by the script itself{hole}, not by a loader, and is not in pinned memory"
    return Reason("made-by-hand", text, places)


def _made(script: Script, move: Transfer) -> tuple[str, tuple[Place, ...]]:
    """Where what is moved was made, as far as that is known: words with a hole, and what fills it."""
    sites = [each.site for each in in_order(move.sources) if isinstance(each.site, ast.expr)]
    return (f" ({HERE})", (place_of(script.flow, sites[0]),)) if sites else ("", ())


def in_accelerate(script: Script) -> Reason | None:
    """Why what its ``prepare()`` hands out needs no move; None where the script trains without it."""
    text = "the training loop runs inside Accelerate, which moves the batches itself"
    return Reason("framework", text) if script.is_accelerated else None


def why_blocking(script: Script, move: Transfer) -> Reason | None:
    """Why the copy has to block, or gains nothing if it does not; None where it is one of a batch in pinned memory."""
    is_unknown = move.device.kind is DeviceKind.UNKNOWN or any(isinstance(each, Unknown) for each in move.sources)
    if is_unknown and (reason := in_accelerate(script)) is not None:
        return reason
    is_callers = is_callers_batch(move)
    if any(isinstance(each, Unknown) for each in move.sources) and not is_callers:
        return _why_no_batch(move)
    if not move.loaders and not is_callers:
        hole, places = _made(script, move)
        if move.through_numpy:
            text = f"what is moved is what NumPy made of a batch{hole}, which may not be in pinned memory:"
            return Reason("converted-on-host", text, places, "move the batch itself")
        text = f"what is moved was made from the batch on the host{hole}, and is not in pinned memory"
        return Reason("converted-on-host", text, places)
    made = _made_in_loop(script, move)
    if made is not None:
        text = f"what the loop moves was made on the host ({HERE}), not in pinned memory, or came before the loop"
        return Reason("converted-on-host", text, (at(move.module, made),))
    if move.device.kind is DeviceKind.UNKNOWN:
        return Reason("unknown-device", f"the device is not known: {move.device.reason}")
    if not move.may_reach_cuda:
        return Reason("other-accelerator", "the batch goes to another accelerator than CUDA")
    if is_callers:
        return why_not_ordered(script.flow, move.module, move.call)
    return (
        _why_other(move)
        or _why_pageable(script, move)
        or why_written(script.flow, move)
        or why_not_ordered(script.flow, move.module, move.call)
        or _why_timed(script, move)
        or _why_there(script, move)
    )


def _made_in_loop(script: Script, move: Transfer) -> ast.expr | None:
    """What the loop around the copy makes anew in each pass, where no batch but one from above the loop is moved.

    ``if a: x = x0.clone()`` and ``elif b: x = one_hot(x0)``: where neither is so, ``x`` is what it was above the loop.
    """
    module, name = move.module, move.moved
    around = next((each for each in module.ancestors(move.call) if isinstance(each, (*LOOPS, *FUNCTIONS))), None)
    if not isinstance(name, ast.Name) or not isinstance(around, LOOPS):
        return None
    bound = targets(module.function(name) or module.tree).of(name)
    inside = set(walk(around))
    made: list[ast.expr] = []
    for target in bound or ():
        statement = module.statement(target)
        if target not in inside or statement is module.statement(move.call):
            continue
        if not isinstance(statement, ast.Assign) or target not in statement.targets:
            return None
        if not _is_made_on_host(script, statement.value):
            return None
        made.append(statement.value)
    return made[0] if made else None


def _is_made_on_host(script: Script, node: ast.expr) -> bool:
    """Whether it is surely a new tensor on the host, and so in no pinned memory."""
    values = without_none(script.flow.values(node))
    return bool(values) and all(isinstance(each, HostTensor) for each in values)


def _why_timed(script: Script, move: Transfer) -> Reason | None:
    """Why a copy that does not block would be a part of what is timed after it: ``start = time.time()`` comes next."""
    module, statement = move.module, move.module.statement(move.call)
    suite = module.suite(statement)
    for later in suite[suite.index(statement) + 1 :]:
        if _waits_for_device(script, later):
            return None
        for call in own(later, ast.Call):
            values = script.flow.values(call.func)
            if any(reads_clock(name) for name in library_names(values)):
                text = f"a time that is taken from there on ({HERE}) would then hold the copy, too"
                return Reason("times-steps", text, (at(module, call),))
            # What code computed that was given the model, `diffusion.losses(model, x)`, has its gradient here.
            is_backward = isinstance(call.func, ast.Attribute) and call.func.attr == "backward"
            if is_backward or may(script.flow, values, Kind.MODEL):
                return None
    return None


def _why_there(script: Script, move: Transfer) -> Reason | None:
    """Where each caller of the function has moved its argument wherever CUDA is used: what goes to CUDA is there."""
    flow, name, function = script.flow, move.receiver, move.module.function(move.call)
    if move.device.kind is not DeviceKind.CUDA or not isinstance(name, ast.Name) or function is None:
        return None
    is_given = any(each.arg == name.id for each in signature(function).named) and targets(function).of(name) is None
    calls = flow.callers(function)
    if not is_given or flow.escapes(function) or not calls:
        return None
    found = [_moved_for_cuda(script, flow.bind(function, each).get(name.id)) for each in calls]
    if any(each is None for each in found):
        return None
    places = tuple(dict.fromkeys(each for each in found if each is not None))
    return Reason("done-already", f"wherever CUDA is used, it is there already ({HERE})", places)


def _moved_for_cuda(script: Script, node: ast.expr | None) -> Place | None:
    """Where a name was moved last if CUDA is used: ``if use_cuda: x = x.cuda()``, above the place that reads it."""
    if not isinstance(node, ast.Name):
        return None
    module = module_of(script.flow, node)
    moves = {each.call: each for each in script.transfers if each.module is module and each.may_reach_cuda}
    for target in targets(module.function(node) or module.tree).of(node) or ():
        statement = module.parent(target)
        if not isinstance(statement, ast.Assign) or module.span(statement) > module.span(module.statement(node)):
            continue
        condition = module.parent(statement)
        is_for_cuda = (
            isinstance(condition, ast.If)
            and statement in condition.body
            and for_cuda(script.flow, condition.test) is True
            and asks_for_device(script.flow, condition.test)
            and any(each is module.parent(condition) for each in module.ancestors(node))
        )
        own_moves = (moves[each] for each in walk(statement.value) if isinstance(each, ast.Call) and each in moves)
        if is_for_cuda and any(is_name(each.receiver, node.id) for each in own_moves):
            return at(module, statement)
    return None


def _waits_for_device(script: Script, statement: ast.stmt) -> bool:
    """``torch.cuda.synchronize()``, or ``if device.type == "cuda": torch.cuda.synchronize()``."""
    match statement:
        case ast.Expr(ast.Call() as call):
            names = library_names(script.flow.values(call.func))
            return bool(names) and names <= SYNCHRONIZES
        case ast.If(test, body):
            is_for_cuda = for_cuda(script.flow, test) is True and asks_for_device(script.flow, test)
            return is_for_cuda and any(_waits_for_device(script, each) for each in body)
    return False


def _why_other(move: Transfer) -> Reason | None:
    """Why what is moved may be something for which a copy must block, or that knows no ``non_blocking``."""
    for source in move.sources:
        if isinstance(source, Choice):
            continue  # a text or number of the command line, as fire.Fire() would pass, has no such method at all
        if not isinstance(source, Tensor):
            other = described(source)
            text = "what is moved may be something else than a batch"
            return Reason("unknown-batch", f"{text}: {other}" if other != "a value" else text)
        on_host = isinstance(source, (Batch, HostTensor))
        if not on_host and move.device.kind is not DeviceKind.CUDA and not _same_target(source, move):
            # From CUDA to the CPU, a copy that does not block is read before it is there.
            text = "what is moved may be on a device already, and the target may be the CPU"
            return Reason("perhaps-other-device", text)
    return None


def _same_target(source: Value, move: Transfer) -> bool:
    """Whether a moved tensor was moved to the same device, so that this is no copy at all."""
    site = source.site
    if not isinstance(site, ast.Call) or move.target is None:
        return False
    return site is move.call or any(ast.dump(each) == ast.dump(move.target) for each in site.args[:1])


def _why_pageable(script: Script, move: Transfer) -> Reason | None:
    reasons: list[Reason] = []
    is_pinned = False
    found = [script.loader(value) for value in in_order(move.loaders)]
    loaders = [each for each in found if each is not None]
    if len(loaders) < len(found):
        return Reason("unpinned-loader", "the loader is not made in a way that can be seen")
    for loader in [each for each in loaders if may_hand_out(each, move)] or loaders:
        # What `copy_` is given has to be a tensor.
        why = why_no_tensor(loader, move) if move.method != "copy_" else None
        if why is not None:
            return why
        cast = why_cast(loader, move)
        reason = script.why_left_unpinned(loader)
        if cast is not None:
            reasons.append(cast)
        elif reason is None:
            is_pinned = True
        else:
            lead = f"the loader in {HERE} does not pin its batches: "
            reasons.append(reason.following(lead, at(loader.module, loader.call), code="unpinned-loader"))
    return None if is_pinned else reasons[0]
