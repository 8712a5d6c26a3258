"""Batches whose sequences are as long as the longest of each: their lengths differ from batch to batch."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import argument_of
from codemods.dataflow.source import lasting
from codemods.facts.loops import loop_around

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.script import Script

_LARGEST = frozenset({"builtins.max", "numpy.max", "numpy.amax", "torch.max"})
_GATHERS = frozenset({"builtins.list", "builtins.tuple", "numpy.array", "numpy.asarray", "torch.tensor"})


@lasting  # each model asks
def pads_to_the_longest(script: Script) -> bool:
    """Whether batches are made whose sequences are as long as the longest of each, by a library or by hand."""
    collating = set(_collating(script))
    for module in script.modules:
        for call in module.nodes(ast.Call):
            if _is_padding_of_library(script.flow, call):
                return True
            if _is_longest(script.flow, module, call) and (
                module.function(call) in collating or loop_around(script.flow, module, call) is not None
            ):
                return True
    return False


def _collating(script: Script) -> Iterator[ast.AST]:
    """The functions that loaders make batches with."""
    for loader in script.loaders:
        given = loader.arguments.get("collate_fn")
        for value in given.values if given is not None else ():
            function = script.flow.run_by(value)
            if function is not None:
                yield function


def _is_padding_of_library(flow: Flow, call: ast.Call) -> bool:
    if any(
        each.name == "torch.nn.utils.rnn.pad_sequence"
        or (each.name.startswith("torchtext.") and each.name.endswith("Iterator"))
        for each in flow.values(call.func)
    ):
        return True
    padding = argument_of(call, "padding")
    return isinstance(padding, ast.Constant) and (padding.value is True or padding.value == "longest")


def _is_longest(flow: Flow, module: Module, call: ast.Call) -> bool:
    """``max(len(each) for each in batch)``, ``lengths.max()``, ``len(max(batch, key=len))``."""
    names = {each.name for each in flow.values(call.func)}
    if names & _LARGEST and len(call.args) == 1:
        is_by_length = any(each.arg == "key" and _is_len(flow, each.value) for each in call.keywords)
        return is_by_length or _are_lengths(flow, module, call.args[0])
    match call.func:
        case ast.Attribute(lengths, "max") if not call.args:
            return _are_lengths(flow, module, lengths)
    return False


def _are_lengths(flow: Flow, module: Module, node: ast.expr, looked_up: frozenset[str] = frozenset()) -> bool:
    """``[len(each) for each in batch]``, ``map(len, batch)``, or a name for that."""
    match node:
        case ast.GeneratorExp(element) | ast.ListComp(element):
            return isinstance(element, ast.Call) and _is_len(flow, element.func)
        case ast.Call(_, [function, _]) if _is_len(flow, function):
            return any(each.name == "builtins.map" for each in flow.values(node.func))
        case ast.Call(_, [inner, *_]):
            gathers = any(each.name in _GATHERS for each in flow.values(node.func))
            return gathers and _are_lengths(flow, module, inner, looked_up)
        case ast.Name(name) if name not in looked_up:  # `lengths = torch.tensor(lengths)`
            stores = [each for each in module.stores.get(name, ()) if module.function(each) is module.function(node)]
            given = [each.value for store in stores if isinstance(each := module.statement(store), ast.Assign)]
            others = (each for each in given if not isinstance(each, ast.Name))
            return any(_are_lengths(flow, module, each, looked_up | {name}) for each in others)
    return False


def _is_len(flow: Flow, node: ast.expr) -> bool:
    return any(each.name == "builtins.len" for each in flow.values(node))
