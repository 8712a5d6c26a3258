"""Whether the workers of a loader can stay alive from one epoch to the next, and what that does to random draws."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.facts.kinds import Kind, kind
from codemods.facts.passes import How, around, loop_around, passes
from codemods.facts.values import NONE, Sort, without_none

if TYPE_CHECKING:
    from codemods.facts.data import Loader
    from codemods.facts.flow import Flow
    from codemods.facts.passes import Pass
    from codemods.facts.script import Script
    from codemods.facts.source import FunctionNode, Module
    from codemods.facts.values import Value
    from codemods.facts.worker_code import WorkerCode

_DRAWS = frozenset({"rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "rand_like", "randn_like", "randint_like"})
_LAYERS_THAT_DRAW = ("torch.nn.Dropout", "torch.nn.AlphaDropout", "torch.nn.FeatureAlphaDropout", "torch.nn.RReLU", "torch.nn.Transformer")


def why_workers_end(script: Script, loader: Loader, code: WorkerCode) -> str | None:
    """Why the loader's workers should not outlive an epoch, in words; None where they can."""
    flow = script.flow
    if code.why_unknown is not None:
        return code.why_unknown
    made = loop_around(flow, loader.module, loader.call)
    if made is not None:
        return f"it is made anew in each pass of a loop (line {made.lineno})"
    if code.changes is not None:
        return code.changes
    seeding = loader.arguments.get("worker_init_fn")
    if seeding is not None and seeding.values != {NONE}:
        return "its worker_init_fn runs when a worker starts, which would be once instead of once an epoch"
    line = _changed_line(flow, loader)
    if line is not None:
        return f"its data set changes between epochs, and workers that stay keep the first copy (line {line})"
    return _why_at_once(flow, loader)


def _changed_line(flow: Flow, loader: Loader) -> int | None:
    """Where the script changes the data set again and again: ``train_set.set_epoch(epoch)``, ``loader.dataset.x = 1``."""
    data = without_none(loader.dataset.values) | set(loader.dataset.parts)
    for module in flow.modules:
        for node in module.nodes(ast.Attribute):
            if not data & flow.values(node.value) or loop_around(flow, module, node) is None:
                continue
            if isinstance(node.ctx, ast.Store) or _changes(flow, node) or _writes_item(module, node):
                return node.lineno
    return None


def _changes(flow: Flow, method: ast.Attribute) -> bool:
    """Whether the method writes attributes of its object."""
    for value in flow.values(method):
        if value.sort is Sort.METHOD and isinstance(value.site, (ast.FunctionDef, ast.AsyncFunctionDef)) and value.name != "__getitem__":
            if _stores(flow, value, value.site, set()):
                return True
    return False


def _stores(flow: Flow, method: Value, function: FunctionNode, seen: set[ast.AST]) -> bool:
    if function in seen:
        return False
    seen.add(function)
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            return True
        if isinstance(node, ast.Call):
            for callee in flow.values(node.func):
                own = callee.sort is Sort.METHOD and isinstance(callee.site, (ast.FunctionDef, ast.AsyncFunctionDef))
                if own and _stores(flow, method, callee.site, seen):  # type: ignore[arg-type]
                    return True
    return False


def _writes_item(module: Module, node: ast.Attribute) -> bool:
    """``loader.dataset.targets[i] = 0``."""
    parent = module.parent(node)
    return isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Store)


def _why_at_once(flow: Flow, loader: Loader) -> str | None:
    """Where two readings of the loader may run at once: its workers serve one."""
    found = passes(flow, loader)
    nodes = [each.node for each in found]
    for each in found:
        if each.how is How.ITERATOR or _in_generator(each):
            return f"it is read through an iterator that is kept, and workers that stay serve one at a time (line {each.line})"
        if nodes.count(each.node) > 1 or any(other in nodes for other in around(flow, each.module, each.node)):
            return f"it is read twice at once, and workers that stay serve one reading at a time (line {each.line})"
        if each.how is How.HANDED:
            return f"{each.reader}() reads it, in code that is not followed (line {each.line})"
    return None


def _in_generator(reading: Pass) -> bool:
    function = reading.module.function(reading.node)
    if function is None:
        return False
    return any(isinstance(each, (ast.Yield, ast.YieldFrom)) and reading.module.function(each) is function for each in ast.walk(function))


def draws_nothing(script: Script, codes: tuple[WorkerCode, ...]) -> bool:
    """Whether no loader shuffles and nothing is seen to draw from the CPU's random numbers between epochs."""
    for code in codes:
        ordered = all(name not in code.loader.arguments for name in ("sampler", "batch_sampler")) and not _may_shuffle(code.loader)
        if not ordered or code.loader.unknown_arguments is not None or code.why_unknown is not None or code.draws:
            return False
    for module in script.modules:
        for call in module.nodes(ast.Call):
            names = {each.name for each in script.flow.values(call.func) if each.sort is Sort.EXTERNAL}
            if any(name.startswith("torch.") and name.rpartition(".")[2] in _DRAWS for name in names):
                return False
    return all(layer.sort is Sort.INSTANCE or _draws_nothing(script.flow, layer) for model in script.models for layer in model.layers)


def _may_shuffle(loader: Loader) -> bool:
    shuffle = loader.arguments.get("shuffle")
    return shuffle is not None and any(each.sort is not Sort.LITERAL or bool(each.literal) for each in shuffle.values)


def _draws_nothing(flow: Flow, layer: Value) -> bool:
    known = layer.name.startswith("torch.nn.") and kind(flow, layer) is Kind.MODEL
    return known and not layer.name.startswith(_LAYERS_THAT_DRAW)


