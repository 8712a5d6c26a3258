"""Where does a model pass a tensor through a list of blocks, and may a block be computed once more in the backward?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.names import words
from codemods.dataflow.source import LOOPS, unparsed, walk
from codemods.dataflow.values import NOTHING, Class, Function, Instance, Made, Method, library_names
from codemods.facts.cost.amounts import Built, Layer, children
from codemods.facts.cost.constants import Constants
from codemods.facts.loops import module_of
from codemods.facts.models.compilability import code_of
from codemods.facts.models.layers import Model
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.iterations import EventKind, own
from codemods.library.hooks import is_of_modules
from codemods.library.operators import Memory, operator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Value, Values
    from codemods.facts.models.trained import TrainedModel
    from codemods.facts.script import Script

_LIST = "torch.nn.ModuleList"
_DICTIONARY = "torch.nn.ModuleDict"
_CHECKPOINTS = "torch.utils.checkpoint."
_DDP = "torch.nn.parallel.DistributedDataParallel"
_STATISTICS = ("torch.nn.BatchNorm", "torch.nn.SyncBatchNorm", "torch.nn.LazyBatchNorm", "torch.nn.InstanceNorm")
_SPECTRAL = frozenset({"torch.nn.utils.spectral_norm", "torch.nn.utils.parametrizations.spectral_norm"})
_PLAIN = ("torch.", "builtins.", "math.", "einops.")
_MAY_BE_IN_PLACE = words(
    "celu dropout dropout1d dropout2d dropout3d alphadropout elu hardsigmoid hardswish hardtanh leakyrelu mish relu "
    "relu6 rrelu selu silu threshold"
)
"""Layers and functions that may be told by position to write into what they are given, without underscores."""
_FEW = 4
"""Fewer blocks keep little that could be computed again."""


class BlockLoop(NamedTuple):
    """``for block in self.blocks: x = block(x)`` in the ``forward`` of a model that is trained."""

    module: Module
    call: ast.Call
    this: str
    """How the object is called there whose method it is: ``self``."""
    why_not: Reason | None
    """Why the blocks cannot be computed once more in the backward."""


def block_loops(script: Script) -> Iterator[BlockLoop]:
    """The loops of the module over blocks, each once."""
    constants = Constants(script)
    seen: set[ast.For] = set()
    for trained in script.trained_models:
        for function in code_of(trained.model):
            module = module_of(script.flow, function)
            for loop in (each for each in walk(function) if isinstance(each, ast.For)):
                call = _block_call(loop)
                if module is not script.module or loop in seen or call is None or not _lists_of(script, loop.iter):
                    continue
                seen.add(loop)
                if _checkpoint_in(script, loop) is None:
                    found = _Blocks(script, trained, constants, module, function, loop, call)
                    yield BlockLoop(module, call, _this(loop) or "self", found.why_not)


def _lists_of(script: Script, node: ast.expr) -> Values:
    """The lists of layers that an expression is, also of a dictionary of layers: ``self.transformer.h``."""
    values = script.flow.values(node)
    if {each.name for each in values} == {_LIST}:
        return values
    owners = script.flow.values(node.value) if isinstance(node, ast.Attribute) else NOTHING
    given = [_item(each.site, node.attr) for each in owners] if isinstance(node, ast.Attribute) else []
    if not given or {each.name for each in owners} != {_DICTIONARY} or _is_set_again(script, node):
        return NOTHING
    held = frozenset(value for each in given if each is not None for value in script.flow.values(each))
    return held if None not in given and {each.name for each in held} == {_LIST} else NOTHING


def _is_set_again(script: Script, node: ast.expr) -> bool:
    """Whether what a dictionary of layers was made with may not be what it holds."""
    path = unparsed(node)
    return any(path in module.stores for module in script.modules)


def _item(made: ast.AST | None, name: str) -> ast.expr | None:
    """What a dictionary of layers is made with for a name: ``nn.ModuleDict(dict(h=…))``, or ``{"h": …}``."""
    match made:
        case ast.Call(_, [ast.Call(ast.Name("dict"), [], keywords)], []):
            return next((each.value for each in keywords if each.arg == name), None)
        case ast.Call(_, [ast.Dict(keys, values)], []):
            pairs = zip(keys, values, strict=True)
            return next((value for key, value in pairs if isinstance(key, ast.Constant) and key.value == name), None)
    return None


def _blocks_of(script: Script, loop: ast.For, call: ast.Call) -> Values:
    """What the loop's own variable may be."""
    held = frozenset(each for one in _lists_of(script, loop.iter) for each in script.flow.items(one))
    return held or script.flow.values(call.func)


def _block_call(loop: ast.For) -> ast.Call | None:
    """The call of the loop's own variable, which is a block."""
    for node in walk(loop):
        match loop.target, node:
            case ast.Name(block), ast.Call(ast.Name(called)) if block == called:
                return node
    return None


def _this(loop: ast.For) -> str | None:
    match loop.iter:
        case ast.Attribute(ast.Name(this)) | ast.Attribute(ast.Attribute(ast.Name(this))):
            return this
    return None


class _Blocks(NamedTuple):
    """A loop over blocks, and what may stand against computing these once more."""

    script: Script
    trained: TrainedModel
    constants: Constants
    module: Module
    function: Callee
    loop: ast.For
    call: ast.Call

    @property
    def why_not(self) -> Reason | None:
        """The first that does."""
        script, module = self.script, self.module
        return (
            _why_used(script)
            or _why_another_form(module, self.function, self.loop)
            or _why_few(self)
            or _why_wrapped(self.trained)
            or _why_kept(script)
            or _why_in_another_mode(script)
            or _why_hooked(script)
            or _why_not_twice(script, _blocks_of(script, self.loop, self.call))
            or _why_written(module, self.function, self.loop)
        )


def _checkpoint_in(script: Script, code: ast.AST) -> ast.AST | None:
    """Where the code names one of torch's functions for checkpoints."""
    for node in walk(code):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            names = library_names(script.flow.values(node))
            if any(each.startswith(_CHECKPOINTS) for each in names):
                return node
    return None


def _why_used(script: Script) -> Reason | None:
    for module in (each for each in script.modules if "checkpoint" in each.text):
        node = _checkpoint_in(script, module.tree)
        if node is not None:
            return Reason("done-already", f"the script has checkpoints of its own ({HERE})", (at(module, node),))
    return None


def _why_another_form(module: Module, function: Callee, loop: ast.For) -> Reason | None:
    """Only ``x = block(x)``: of more arguments and results it is not known what becomes of them."""
    is_forward = isinstance(function, ast.FunctionDef) and function.name == "forward" and bool(function.args.args)
    match loop.body, loop.target:
        case [ast.Assign([ast.Name(given)], ast.Call(ast.Name(called), [ast.Name(taken)], []))], ast.Name(block):
            if given == taken and called == block and block != given and is_forward and not loop.orelse:
                this = function.args.args[0].arg if isinstance(function, ast.FunctionDef) else ""
                if _this(loop) == this:
                    return None
    return Reason(
        "other-loop",
        f"the loop does more than x = block(x), with one block after the other ({HERE})",
        (at(module, loop),),
    )


def _why_few(over: _Blocks) -> Reason | None:
    """They must be of one class, and at least four wherever their number is known."""
    module, loop = over.module, over.loop
    name = loop.iter.attr if isinstance(loop.iter, ast.Attribute) else ""
    blocks = [children(each) for each in _lists(over.constants.built(over.trained.model.value), name, set())]
    if not blocks or any(each is None for each in blocks):
        classes = {(type(each), each.name) for each in _blocks_of(over.script, loop, over.call)}
        text = f"it is not known whether all blocks are of one class ({HERE})"
        return None if len(classes) == 1 else Reason("unknown-blocks", text, (at(module, loop.iter),))
    for each in blocks:
        kinds = {one.class_ if isinstance(one, Built) else one.name for one in each or ()}
        if len(each or ()) < _FEW or len(kinds) != 1:
            text = f"there are fewer than {_FEW} blocks, or blocks of several classes ({HERE})"
            return Reason("nothing-to-gain", text, (at(module, loop.iter),))
    return None


def _lists(found: object, name: str, seen: set[int]) -> Iterator[Layer]:
    """The lists of layers that attributes of that name hold."""
    if id(found) in seen:
        return
    seen.add(id(found))
    parts: list[object] = []
    if isinstance(found, Built):
        kept = found.attributes.get(name)
        if isinstance(kept, Layer) and kept.name == _LIST:
            yield kept
        parts = list(found.attributes.values())
    elif isinstance(found, Layer):
        parts = list(children(found) or ())
    for each in parts:
        yield from _lists(each, name, seen)


def _why_wrapped(trained: TrainedModel) -> Reason | None:
    for each in trained.wrappers:
        if each.name != _DDP:
            name = each.name.rpartition(".")[2]
            code = {"DataParallel": "data-parallel", "script": "torchscript", "trace": "torchscript"}.get(name)
            return Reason(code or "unknown-model", f"{name} around the model may run it in a way of its own")
    return None


def _why_kept(script: Script) -> Reason | None:
    """What a backward keeps, or differentiates again, is computed again each time."""
    for iteration in script.iterations:
        for event in iteration.of(EventKind.BACKWARD, EventKind.GRADIENT):
            call = event.node
            given = {each.arg for each in call.keywords} if isinstance(call, ast.Call) else set()
            if given & {"retain_graph", "create_graph"}:
                text = f"the graph is kept, or differentiated again ({HERE})"
                return Reason("retained-graph", text, (at(event.module, call),))
    return None


def _why_in_another_mode(script: Script) -> Reason | None:
    """Blocks that are in another mode in the backward keep other tensors there, or drop other items."""
    for iteration in script.iterations:
        for forward in iteration.of(EventKind.FORWARD):
            module, (_, start) = forward.module, forward.module.span(forward.node)
            code = forward.frame or module.tree
            ends = [
                module.span(each.node)[0] for each in iteration.of(EventKind.BACKWARD) if each.frame is forward.frame
            ]
            for call in (each for each in own(code, ast.Call) if _switches(each)):
                if start <= module.span(call)[0] < max(ends, default=start):
                    text = f"the mode is switched between the forward and the backward ({HERE}):"
                    remedy = "switch it after the backward"
                    return Reason("runs-twice", text, (at(module, call),), remedy)
    return None


def _switches(call: ast.Call) -> bool:
    """``model.eval()``, ``model.train(False)``; not ``model.train()``, after which blocks are as they were."""
    match call:
        case ast.Call(ast.Attribute(_, "eval"), [], []):
            return True
        case ast.Call(ast.Attribute(_, "train"), [_], []):
            return True
    return False


def _why_hooked(script: Script) -> Reason | None:
    for module in script.modules:
        for call in module.nodes(ast.Call):
            if isinstance(call.func, ast.Attribute) and is_of_modules(call.func.attr):
                return Reason("runs-twice", f"hooks would run twice ({HERE})", (at(module, call),))
            if _SPECTRAL & library_names(script.flow.values(call.func)):
                return Reason("runs-twice", f"spectral_norm would go two steps ({HERE})", (at(module, call),))
    return None


def _why_not_twice(script: Script, blocks: Values) -> Reason | None:
    """What a second run of a block would do otherwise, or again."""
    for block in blocks:
        for layer in Model(script.flow, block).layers:
            reason = _why_not_layer(script, layer)
            if reason is not None:
                return reason
        for function in code_of(Model(script.flow, block)):
            for node in walk(function):
                effect = _effect(script, node)
                if effect:
                    text = f"a block {effect} ({HERE}), which would be done twice"
                    return Reason("runs-twice", text, (at(module_of(script.flow, function), node),))
    known = bool(blocks) and all(next(iter(Model(script.flow, each).layers), None) is not None for each in blocks)
    return None if known else Reason("unknown-model", "what the blocks are is not known")


def _why_not_layer(script: Script, layer: Value) -> Reason | None:
    site = layer.site
    places = (at(module_of(script.flow, site), site),) if isinstance(site, ast.Call) else ()
    where = f" ({HERE})" if places else ""
    name = layer.name.rpartition(".")[2]
    if layer.name.startswith(_STATISTICS):
        return Reason("runs-twice", f"{name} would count each batch twice{where}", places)
    if isinstance(layer, Made) and not layer.name.startswith("torch.nn."):
        return Reason("unknown-model", f"what {name} does in a block is not known{where}", places)
    if isinstance(site, ast.Call) and isinstance(layer, Made) and _writes_in_place(site, layer.name):
        return Reason("runs-twice", f"{name} may write into what the block was given{where}", places)
    return None


def _writes_in_place(call: ast.Call, name: str) -> bool:
    """``nn.ReLU(inplace=True)``, ``nn.ReLU(True)``, ``F.relu(x, inplace=True)``, ``torch.add(x, y, out=x)``."""
    given = [each.value for each in call.keywords if each.arg in {"inplace", "out"}]
    if name.rpartition(".")[2].replace("_", "").lower() in _MAY_BE_IN_PLACE:
        given += [each for each in call.args if isinstance(each, ast.Constant) and each.value is True]
    return any(not isinstance(each, ast.Constant) or bool(each.value) for each in given)


def _effect(script: Script, node: ast.AST) -> str:
    """What a node does that is not done by its value alone."""
    match node:
        case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()) | ast.AugAssign():
            return "writes to what others may have"
        case ast.Global() | ast.Nonlocal():
            return "sets a name of others"
        case ast.Expr(ast.Call()):
            return "calls a function for what that does"
        case ast.Call(ast.Attribute(_, name)) if _writes(name):
            return "writes into a tensor"
        case ast.Call(func):
            return _effect_of_call(node, func, script.flow.values(func))
    return ""


def _effect_of_call(call: ast.Call, func: ast.expr, values: Values) -> str:
    names = library_names(values)
    if any(_writes_in_place(call, each.name) for each in values):
        return "may write into a tensor"
    if any(each.arg == "generator" for each in call.keywords):
        return "draws from a generator of its own"
    if any(each.startswith(("random.", "numpy.random.")) for each in names):
        return "draws random numbers that are not torch's"
    return "" if _is_known(func, values) else "calls what is not known"


def _is_known(func: ast.expr, values: Values) -> bool:
    """Whether the code of what is called is followed, or is PyTorch's."""
    if isinstance(func, ast.Attribute) and operator(func.attr) is not None:
        return True
    return bool(values) and all(
        isinstance(each, (Instance, Class))
        or (each.site is not None and isinstance(each, (Function, Method)))
        or each.name.startswith(_PLAIN)
        for each in values
    )


def _writes(name: str) -> bool:
    found = operator(name)
    return name.endswith("_") and not name.endswith("__") and (found is None or found.memory is Memory.SELF)


def _why_written(module: Module, function: Callee, loop: ast.For) -> Reason | None:
    """What a block was given must still be the same in the backward."""
    is_repeated = any(isinstance(each, LOOPS) for each in module.ancestors(loop))
    for node in walk(function):
        is_written = isinstance(node, ast.AugAssign) or (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _writes(node.func.attr)
        )
        if is_written and (is_repeated or getattr(node, "lineno", 0) > loop.lineno):
            text = f"a tensor is written to after the blocks have been given it, perhaps ({HERE})"
            return Reason("runs-twice", text, (at(module, node),))
    return None
