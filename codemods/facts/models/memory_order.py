"""May a parameter lie in memory in another order than its gradient, or than what an optimizer keeps of it?

Autograd lays out a gradient as its parameter lies, where that takes up its memory without gaps, and an optimizer makes
its state like that in its first step. The fused steps on the CPU go through all of them in the order of memory,
whatever the strides, and raise nothing: where a model went to ``channels_last`` between two steps of Adam, losses
differed by 0.07 within ten more (torch 2.14).
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.names import words
from codemods.dataflow.signatures import argument_of, arguments_of
from codemods.dataflow.source import last_name, walk
from codemods.dataflow.values import Container, Instance, Tensor, library_names, owner_of
from codemods.facts.models.channels_last import is_chosen
from codemods.facts.models.layers import Model
from codemods.facts.reason import HERE, Reason, at
from codemods.library.kinds import Kind, kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value
    from codemods.facts.script import Script

_CODE = "other-order"
_GRADIENTS = frozenset({"grad", "_grad"})
_WITH_GAPS = words(
    "expand expand_as as_strided diagonal unfold narrow select chunk split unbind broadcast_to index_select real imag"
)
"""What may make a tensor of a part of another's memory, or that has elements of it several times."""
_TAKES_TENSORS = frozenset(
    {"torch.nn.Parameter", "torch.nn.Embedding.from_pretrained", "torch.nn.EmbeddingBag.from_pretrained"}
)


def why_other_order(script: Script, models: Iterable[Value]) -> Reason | None:
    """Why the models' parameters, their gradients and what an optimizer keeps may lie in memory in different orders."""
    if is_chosen(script):
        return Reason(_CODE, "the script chooses a memory format itself, and a fused step on the CPU knows of none")
    layers = frozenset(layer for each in models for layer in Model(script.flow, each).layers)
    for module in script.modules:
        for node, what in _places(script, module, layers):
            text = f"{what} ({HERE}), and a fused step on the CPU goes by the order in memory alone"
            return Reason(_CODE, text, (at(module, node),))
    return None


def _places(script: Script, module: Module, layers: frozenset[Value]) -> Iterator[tuple[ast.AST, str]]:
    for assignment in module.nodes(ast.Assign):
        for target in assignment.targets:
            if isinstance(target, ast.Attribute) and _is_no_parameter(script, target.value, layers):
                continue
            match target:
                case ast.Attribute(attr=name) if name in _GRADIENTS and not _is_emptied(assignment.value):
                    yield target, "a gradient is put in by hand"
                case ast.Attribute(ast.Attribute(attr=name), "data") if name in _GRADIENTS:
                    yield target, "a gradient is put in by hand"
                case ast.Attribute(attr="data"):
                    yield target, "a parameter may be given other memory"
    for call in module.nodes(ast.Call):
        given = argument_of(call, "assign")
        if last_name(call.func) == "load_state_dict" and isinstance(given, ast.Constant) and given.value:
            yield call, "parameters are replaced by those of a checkpoint"
        if library_names(script.flow.values(call.func)) & _TAKES_TENSORS and any(map(_has_gaps, arguments_of(call))):
            yield call, "a parameter may be a part of another tensor"


def _is_no_parameter(script: Script, node: ast.expr, layers: frozenset[Value]) -> bool:
    """Whether an expression is known to be no parameter of these layers: a tensor, another object, another model's."""
    values = script.flow.values(node)
    return bool(values) and all(_is_other(script, each, layers) for each in values)


def _is_other(script: Script, value: Value, layers: frozenset[Value]) -> bool:
    if isinstance(value, (Tensor, Container)) or value.name == "builtins.list":
        return True
    if isinstance(value, Instance):
        class_ = Model(script.flow, value).class_
        return class_ is not None and "torch.nn.Parameter" not in script.flow.bases(class_)
    owner = owner_of(value)
    is_of_model = owner is not None and kind(script.flow, owner) is Kind.MODEL
    return owner is not None and is_of_model and layers.isdisjoint(Model(script.flow, owner).layers)


def _is_emptied(value: ast.expr) -> bool:
    """``None``, ``torch.zeros_like(p)``."""
    if isinstance(value, ast.Constant):
        return value.value is None
    return isinstance(value, ast.Call) and last_name(value.func) == "zeros_like"


def _has_gaps(node: ast.expr) -> bool:
    """``matrix[:, :50]``, ``row.expand(3, -1)``."""
    for each in walk(node):
        if isinstance(each, ast.Subscript) and any(isinstance(part, ast.Slice) for part in walk(each.slice)):
            return True
        if isinstance(each, ast.Call) and last_name(each.func) in _WITH_GAPS:
            return True
    return False
