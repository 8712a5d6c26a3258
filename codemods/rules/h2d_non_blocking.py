"""Rule ``h2d-non-blocking``: batches in pinned memory are copied to the device without waiting."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, TypeGuard

from codemods.codemod import Codemod, Leaves, Promise, Rewrites
from codemods.dataflow.flow import class_of
from codemods.dataflow.names import words
from codemods.dataflow.source import lasting, walk
from codemods.dataflow.values import NONE, TENSOR_SORTS, Sort, Value, in_order, why_unknown, without_none
from codemods.editing.values import AddArgument, Replace
from codemods.facts.devices.devices import DeviceKind, is_on_cuda
from codemods.facts.devices.transfers import is_element, is_field, is_value_of_dictionary
from codemods.facts.loops import loop_around, module_of
from codemods.facts.loops import place as place_of
from codemods.facts.reason import HERE, Reason, at
from codemods.library.kinds import Kind, described, may
from codemods.library.operators import Memory, operator

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.codemod import Finding
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import FunctionNode, Module
    from codemods.facts.data.loaders import Loader
    from codemods.facts.devices.transfers import Transfer
    from codemods.facts.reason import Place
    from codemods.facts.script import Script

_FALSE = Value(Sort.LITERAL, "False")
_MPS = Reason(
    "perhaps-other-device",
    "the device may be MPS, where a batch copied without blocking may be read too early:",
    remedy="compare it with 'cuda'",
)
_NO_TENSOR = Reason("unknown-batch", "its collate_fn may return something else than tensors")
_IN_PLACE = re.compile(r"[a-z]\w*[^_]_")
_MESSAGE = "the host waits for the copy of a batch that is in pinned memory"
_TO_BE_PINNED = "the host waits for the copy of a batch that can be in pinned memory"
_PERHAPS_PINNED = "the host waits for the copy of a batch that may be in pinned memory"


class H2dNonBlocking(Codemod):
    """Copies batches from pinned memory to CUDA without blocking the host (``non_blocking=True``).

    Why it is faster:
        The host queues the copy and goes on to queue the forward pass, instead of waiting until the batch has arrived,
        behind all work that is queued before it (on an H100: 0.02 ms, and not the 10 ms of kernels before 64 MiB).
        Kernels that use the batch are queued behind the copy on the same stream, so that nothing reads it too early.
        Where ``non_blocking`` is a parameter that nobody passes, its default becomes ``True``.

    When it is left:
        The batch is not in pinned memory, and cannot be. The target is not CUDA, or is not known: from a device to the
        host a copy that does not block is read before it is there. The batch is written on the host after the copy was
        queued. The batch may be an object of a ``collate_fn`` whose ``to`` knows no ``non_blocking``.

    Results:
        The same values, bit for bit.

    References:
        ``torch.Tensor.to``; PyTorch tutorial "A guide on good usage of non_blocking and pin_memory()";
        pytorch/pytorch#127612, #140296 (device to host).
    """

    promise = Promise.BITWISE
    gain = "0-5 %"
    needs_cuda = True
    causes = words(
        """
        converted-on-host framework made-by-hand other-accelerator perhaps-other-device script-decides unknown-batch
        unknown-device unpinned-loader written-while-copied
        """
    )
    examples = (
        Rewrites(
            before="""\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets

loader = DataLoader(datasets.MNIST("data"), batch_size=64, pin_memory=True)
for images, labels in loader:
    images, labels = images.cuda(), labels.cuda()
""",
            after="""\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets

loader = DataLoader(datasets.MNIST("data"), batch_size=64, pin_memory=True)
for images, labels in loader:
    images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
""",
        ),
        Leaves(
            code="""\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets

loader = DataLoader(datasets.MNIST("data"), batch_size=64, pin_memory=False)
for images, labels in loader:
    images = images.cuda()
""",
            because="the loader in line 5 does not pin its batches: pin_memory is False there",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every copy to what may be a CUDA device that blocks, of a batch or of what was made from one."""
        for move in script.transfers:
            if move.module is not script.module or move.device.kind is DeviceKind.CPU:
                continue
            if not _is_about_batches(move):
                if _is_cut_by_hand(script, move):
                    yield self.left(move.module, move.call, _why_made(script, move))
                elif (
                    move.non_blocking is None
                    and move.method != "type"
                    and not all(each.sort is Sort.MOVED for each in move.sources)
                    and is_element(move.module, move.call)
                ):
                    yield self.left(move.module, move.call, _why_no_batch(move))
                continue
            given = move.non_blocking
            if given is None:
                yield self._site(script, move)
            elif isinstance(given, ast.Constant) and not given.value:
                remedy = "take non_blocking=False away"
                because = Reason("script-decides", "non_blocking=False is written there", remedy=remedy)
                yield self.left(move.module, move.call, because)
            elif {each for each in script.flow.values(given) if each.sort is not Sort.UNBOUND} == {_FALSE}:
                yield self._parameter(script, move, given)

        yield from self._in_place(script)

    def _in_place(self, script: Script) -> Iterator[Finding]:
        """What is not known, and moves itself."""
        for call in script.module.nodes(ast.Call):
            unknown = _unknown_in_place(script, call)
            if unknown is not None:
                yield self.left(script.module, call, _in_accelerate(script) or unknown)

    def _parameter(self, script: Script, move: Transfer, given: ast.expr) -> Finding:
        """A site where ``non_blocking`` is False wherever it comes from: the default of a parameter becomes True."""
        module, text = move.module, move.module.code(given)
        function = module.function(move.call)
        default = None if function is None else _default(function, text)
        if (
            function is None
            or default is None
            or any(_passes(call, function, text) for call in script.flow.callers(function))
        ):
            return self.left(module, move.call, Reason("script-decides", f"{text} is False wherever this runs"))
        same = [
            each
            for each in script.transfers
            if isinstance(each.non_blocking, ast.Name)
            and each.non_blocking.id == text
            and module.function(each.call) is function
        ]
        uses = [each for each in module.nodes(ast.Name) if each.id == text and module.function(each) is function]
        reasons = [_why_not(script, each) or (_MPS if each.may_reach_mps else None) for each in same]
        if len(uses) != len(same):
            other = f"{text} is False wherever this runs, and is used for something else, too"
            reasons.append(Reason("script-decides", other))
        reason = next((each for each in reasons if each is not None), None)
        if reason is not None:
            return self.left(module, move.call, reason)
        return self.rewrites(module, move.call, _MESSAGE, Replace(module, default, "True"))

    def _site(self, script: Script, move: Transfer) -> Finding:
        reason = _why_not(script, move)
        if reason is not None:
            return self.left(move.module, move.call, reason)
        value = _on_cuda(script, move) if move.may_reach_mps else "True"
        if value is None:
            return self.left(move.module, move.call, _MPS)
        loaders = [script.loader(each) for each in move.loaders]
        message = _MESSAGE if any(each is not None and each.is_pinned for each in loaders) else _TO_BE_PINNED
        return self.rewrites(
            move.module,
            move.call,
            message if loaders else _PERHAPS_PINNED,
            AddArgument(move.module, move.call, "non_blocking", value),
        )


def _default(function: FunctionNode | ast.Lambda, name: str) -> ast.expr | None:
    """The default of a parameter, where that is ``False``."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = list(zip(reversed(positional), reversed(arguments.defaults), strict=False))
    defaults += [(one, each) for one, each in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if each]
    found = next((default for parameter, default in defaults if parameter.arg == name), None)
    return found if isinstance(found, ast.Constant) and found.value is False else None


def _passes(call: ast.Call, function: FunctionNode | ast.Lambda, name: str) -> bool:
    """Whether a call may pass the parameter, with whatever value."""
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args) if each.arg not in {"self", "cls"}]
    place = names.index(name) if name in names else len(call.args)
    starred = any(isinstance(each, ast.Starred) for each in call.args)
    return starred or len(call.args) > place or any(each.arg in {name, None} for each in call.keywords)


def _is_about_batches(move: Transfer) -> bool:
    """Whether a batch is moved, something made from one, or an element of something unknown."""
    return bool(move.loaders or move.made_from) or all(each.sort is Sort.UNKNOWN for each in move.sources)


def _is_cut_by_hand(script: Script, move: Transfer) -> bool:
    """``X[i : i + 64].to(device)`` in a loop; not ``torch.randn(64, 9).to(device)``, which had better be made there."""
    if move.non_blocking is not None or any(each.sort is not Sort.HOST for each in move.sources):
        return False
    made = {each.site for each in move.sources}
    if not made.isdisjoint(walk(move.receiver)):
        return False
    calls = [each for each in move.module.nodes(ast.Call) if isinstance(each.func, ast.Attribute)]
    pinning = [each.func.value for each in calls if each.func.attr == "pin_memory"]  # type: ignore[attr-defined]
    is_pinned = any(move.sources & script.flow.values(each) for each in pinning)
    return not is_pinned and loop_around(script.flow, move.module, move.call) is not None


def _why_no_batch(move: Transfer) -> Reason:
    unknown = min((each.name for each in move.sources if each.sort is Sort.UNKNOWN), default=None)
    return _no_batch(unknown or "no loader is seen to hand it out")


def _no_batch(why: str) -> Reason:
    return Reason("unknown-batch", f"what is moved is not known to be a batch: {why}")


def _unknown_in_place(script: Script, call: ast.Call) -> Reason | None:
    """Why it is not known what moves itself, ``batch.to(device)``, and is used as batches are; None for all else."""
    module, func = script.module, call.func
    if not (isinstance(func, ast.Attribute) and func.attr in {"to", "cuda"} and isinstance(func.value, ast.Name)):
        return None
    given = any(each.arg == "non_blocking" for each in call.keywords)
    if given or not isinstance(module.parent(call), ast.Expr) or not is_element(module, call):
        return None
    values = without_none(script.flow.values(func.value))
    if not values or any(each.sort is not Sort.UNKNOWN for each in values):
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
    hole, places = _made(script, move)
    text = f"what is moved was made by the script itself{hole}, not by a loader, and is not in pinned memory"
    return Reason("made-by-hand", text, places)


def _made(script: Script, move: Transfer) -> tuple[str, tuple[Place, ...]]:
    """Where what is moved was made, as far as that is known: words with a hole, and what fills it."""
    sites = [each.site for each in in_order(move.sources) if isinstance(each.site, ast.expr)]
    return (f" ({HERE})", (place_of(script.flow, sites[0]),)) if sites else ("", ())


def _on_cuda(script: Script, move: Transfer) -> str | None:
    """The expression that says whether this move is one to CUDA."""
    node = move.device.node
    if not isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
        return None
    return is_on_cuda(script.flow, node, move.module.code(node), script.quote(move.module))


def _in_accelerate(script: Script) -> Reason | None:
    """Why what its ``prepare()`` hands out needs no move; None where the script trains without it."""
    text = "the training loop runs inside Accelerate, which moves the batches itself"
    return Reason("framework", text) if script.is_accelerated else None


def _why_not(script: Script, move: Transfer) -> Reason | None:
    is_unknown = move.device.kind is DeviceKind.UNKNOWN or any(each.sort is Sort.UNKNOWN for each in move.sources)
    if is_unknown and (reason := _in_accelerate(script)) is not None:
        return reason
    is_callers = _is_callers_batch(script, move)
    if any(each.sort is Sort.UNKNOWN for each in move.sources) and not is_callers:
        return _why_no_batch(move)
    if not move.loaders and not is_callers:
        hole, places = _made(script, move)
        text = f"what is moved was made from the batch on the host{hole}, and is not in pinned memory"
        return Reason("converted-on-host", text, places)
    if move.device.kind is DeviceKind.UNKNOWN:
        return Reason("unknown-device", f"the device is not known: {move.device.reason}")
    if not move.may_reach_cuda:
        return Reason("other-accelerator", "the batch goes to another accelerator than CUDA")
    if is_callers:
        return None
    return _why_other(move) or _why_pageable(script, move) or _why_written(script, move)


def _is_callers_batch(script: Script, move: Transfer) -> bool:
    """Whether it is a part of a batch of the caller's, who is not seen, and is only used where it was moved to.

    ``def train(loader): for x, y in loader: x, y = x.to(device), y.to(device)``. From pageable memory the copy is over
    when the call returns, or what is copied has been put aside. A part of a tuple is a tensor where it has a ``to``.
    """
    module, name = move.module, move.receiver
    function, statement = module.function(move.call), module.statement(move.call)
    if not isinstance(name, ast.Name) or not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    if script.flow.callers(function) or not isinstance(statement, ast.Assign):
        return False
    loop = next((each for each in module.ancestors(statement) if isinstance(each, (ast.For, ast.AsyncFor))), None)
    if loop is None:
        return False
    iterated, target = loop.iter, loop.target
    while isinstance(iterated, ast.Call) and iterated.args and _passes_on(script.flow, iterated):
        is_numbered = any(each.name == "builtins.enumerate" for each in script.flow.values(iterated.func))
        target = target.elts[-1] if is_numbered and isinstance(target, ast.Tuple) else target
        iterated = iterated.args[0]
    is_part = isinstance(target, ast.Tuple) and any(_is_named(each, name.id) for each in target.elts)
    stored = [each for target in statement.targets for each in walk(target)]
    others = [each for each in walk(statement.value) if _is_named(each, name.id) and each is not name]
    if not is_part or others or not any(_is_named(each, name.id) for each in stored):
        return False
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    required = {each.arg for each in positional[: len(positional) - len(arguments.defaults)]}
    return isinstance(iterated, ast.Name) and iterated.id in required


def _is_named(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _why_other(move: Transfer) -> Reason | None:
    """Why what is moved may be something for which a copy must block, or that knows no ``non_blocking``."""
    for source in move.sources:
        if source.sort is Sort.CHOICE:
            continue  # a text or number of the command line, as fire.Fire() would pass, has no such method at all
        if source.sort not in TENSOR_SORTS:
            other = described(source)
            text = "what is moved may be something else than a batch"
            return Reason("unknown-batch", f"{text}: {other}" if other != "a value" else text)
        on_host = source.sort in {Sort.BATCH, Sort.HOST}
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
    for value in in_order(move.loaders):
        loader = script.loader(value)
        if loader is None:
            return Reason("unpinned-loader", "the loader is not made in a way that can be seen")
        why = _why_no_tensor(loader, move)
        if why is not None:
            return why
        reason = script.why_left_unpinned(loader)
        if reason is None:
            is_pinned = True
        else:
            lead = f"the loader in {HERE} does not pin its batches: "
            reasons.append(reason.following(lead, at(loader.module, loader.call), code="unpinned-loader"))
    return None if is_pinned else reasons[0]


def _why_no_tensor(loader: Loader, move: Transfer) -> Reason | None:
    """Why the batch may be something else than a tensor, whose ``to`` may not know ``non_blocking``."""
    collate = loader.arguments.get("collate_fn")
    if collate is None or collate.values == {NONE}:
        # The default collate_fn makes tensors, and containers of tensors, which have no such method.
        return None
    for value in collate.values:
        class_ = class_of(value) if value.sort is Sort.INSTANCE else None
        called = value.sort in {Sort.FUNCTION, Sort.METHOD}
        function = value.site if called else class_ and loader.flow.method(class_, "__call__")
        if isinstance(function, (ast.FunctionDef, ast.Lambda)):
            place = _place_in_batch(loader.flow, move)
            for returned in loader.flow.returned(function):
                is_known = returned.sort is Sort.CONTAINER and place in loader.flow.keys(returned)
                parts = loader.flow.items(returned, place) if is_known else {returned}
                if any(_may_be_object(loader.flow, each, set()) for each in parts):
                    return _NO_TENSOR
        elif value.name.startswith("transformers."):
            # A BatchEncoding, whose own `to` knows no non_blocking in all versions; its fields are tensors.
            if not is_value_of_dictionary(move.module, move.receiver):
                return _NO_TENSOR
        elif not value.name.startswith("torch."):
            return _NO_TENSOR
    return None


def _place_in_batch(flow: Flow, move: Transfer) -> int:
    """Which part of each batch is moved, counted from 0, where ``for …, (x, y) in …`` alone names it; else -1."""
    module, name = move.module, move.receiver
    if not isinstance(name, ast.Name):
        return -1
    found = set()
    for store in module.nodes(ast.Name):
        if store.id != name.id or not isinstance(store.ctx, ast.Store):
            continue
        if module.function(store) is not module.function(name) or module.statement(store) is module.statement(
            move.call
        ):
            continue
        parts = module.parent(store)
        loop = module.parent(parts) if parts is not None else None
        numbered = isinstance(loop, ast.Tuple) and len(loop.elts) == 2 and _is_number(flow, loop.elts[0])  # noqa: PLR2004
        loop = module.parent(loop) if loop is not None and numbered else loop
        is_part = (
            isinstance(parts, ast.Tuple)
            and not any(isinstance(each, ast.Starred) for each in parts.elts)
            and isinstance(loop, ast.For)
            and parts in walk(loop.target)
            and _hands_on_batches(flow, loop.iter, move.loaders)
        )
        found.add(parts.elts.index(store) if is_part else -1)  # type: ignore[union-attr]
    return found.pop() if len(found) == 1 else -1


def _hands_on_batches(flow: Flow, node: ast.expr, loaders: Sequence[Value], depth: int = 3) -> bool:
    """Whether iterating yields the loaders' batches as they are: the loader itself, ``enumerate(loader)``, ``tqdm``."""
    values = flow.values(node) - set(loaders)
    made = [each.site for each in values if isinstance(each.site, ast.Call) and each.site.args]
    return (
        depth > 0
        and bool(flow.values(node))
        and len(made) == len(values)
        and all(_passes_on(flow, each) and _hands_on_batches(flow, each.args[0], loaders, depth - 1) for each in made)
    )


def _passes_on(flow: Flow, call: ast.Call) -> bool:
    names = {each.name for each in flow.values(call.func)}
    return bool(names) and all(each == "builtins.enumerate" or "tqdm" in each.lower() for each in names)


def _is_number(flow: Flow, node: ast.expr) -> bool:
    values = flow.values(node)
    return bool(values) and all(each.sort is Sort.PLAIN for each in values)


def _may_be_object(flow: Flow, value: Value, seen: set[Value]) -> bool:
    """Whether the value is, or holds, an object with a ``to`` of its own: numbers, texts and containers have none."""
    if value.sort is not Sort.CONTAINER:
        return value.sort not in {Sort.HOST, Sort.TENSOR, Sort.BATCH, Sort.PLAIN, Sort.LITERAL}
    if value in seen:
        return False
    seen.add(value)
    return any(_may_be_object(flow, each, seen) for each in flow.items(value))


# What is written on the host after the copy was queued.


def _why_written(script: Script, move: Transfer) -> Reason | None:
    loaders = frozenset(move.loaders)
    for module, call in _calls_around(script, move):
        for place, written in _writes(module):
            here = module.function(place) is module.function(call)
            if here and _is_batch(script, module, written, loaders) and _may_follow(script, module, call, place):
                text = f"the batch is written on the host again while it may be copied ({HERE})"
                return Reason("written-while-copied", text, (at(module, place),))
    return None


def _calls_around(script: Script, move: Transfer) -> Iterator[tuple[Module, ast.Call]]:
    """The move, and the calls of the functions that it stands in: what they move may be written after each."""
    todo = [move.call]
    seen: set[ast.Call] = set()
    while todo:
        call = todo.pop()
        if call not in seen:
            seen.add(call)
            module = module_of(script.flow, call)
            yield module, call
            function = module.function(call)
            todo.extend(script.flow.callers(function) if function is not None else ())


def _only_views(name: str) -> bool:
    """``squeeze_``, ``detach_``: the elements stay as they are."""
    row = operator(name)
    return row is not None and row.memory is Memory.VIEW


@lasting
def _writes(module: Module) -> tuple[tuple[ast.expr, ast.expr], ...]:
    """Where something is written in place, and what: ``x.mul_(2)``, ``x[0] = 0``, ``x += 1``, ``out=x``."""
    found: list[tuple[ast.expr, ast.expr]] = []
    for call in module.nodes(ast.Call):
        func = call.func
        if isinstance(func, ast.Attribute) and _IN_PLACE.fullmatch(func.attr) and not _only_views(func.attr):
            found.append((call, func.value))
        found.extend((call, each.value) for each in call.keywords if each.arg == "out")
    for statement in module.nodes(ast.AugAssign):
        target = statement.target
        found.append((target, target.value if isinstance(target, ast.Subscript) else target))
    items = (each for each in module.nodes(ast.Subscript) if isinstance(each.ctx, ast.Store))
    found.extend((each, each.value) for each in items if not is_field(module, each))
    return tuple(sorted(found, key=lambda pair: module.span(pair[0])))


def _is_batch(script: Script, module: Module, node: ast.expr, loaders: frozenset[Value]) -> bool:
    """Whether it is a batch of one of the loaders, or an array that shares its memory: ``x.numpy()``."""
    if any(each.sort is Sort.BATCH and each.of in loaders for each in script.flow.values(node)):
        return True
    if isinstance(node, ast.Name):
        function = module.function(node)
        arrays = [call for name, call in _arrays(module) if name == node.id and module.function(call) is function]
        return any(_is_batch(script, module, call, loaders) for call in arrays)
    return _is_array(node) and _is_batch(script, module, node.func.value, loaders)  # type: ignore[attr-defined]


@lasting
def _arrays(module: Module) -> tuple[tuple[str, ast.Call], ...]:
    """The names that arrays are assigned to: ``a = x.numpy()``."""
    return tuple(
        (target.id, statement.value)
        for statement in module.nodes(ast.Assign)
        if _is_array(statement.value)
        for target in statement.targets
        if isinstance(target, ast.Name)
    )


def _is_array(node: ast.expr) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "numpy"


def _may_follow(script: Script, module: Module, call: ast.Call, write: ast.expr) -> bool:
    """Whether the write may come after the call, with the same batch."""
    if module.span(write) > module.span(call):
        return True
    for loop in module.ancestors(call):
        if isinstance(loop, (ast.For, ast.AsyncFor, ast.While)) and loop in module.ancestors(write):
            bound = [each for each in walk(loop) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
            return not any(value.sort is Sort.BATCH for name in bound for value in script.flow.values(name))
    return False
