"""Where is what ``view`` joins a map of one pixel, as each image gets one row?

``x.view(-1, channels)`` of a pooled map has a row for each pixel of each image, of numbers that belong together where
there is one pixel alone. All layouts of such a map are the same.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import argument_of
from codemods.dataflow.source import last_name, walk
from codemods.dataflow.values import Made, library_names, without_none
from codemods.facts.loops import module_of
from codemods.facts.reaching import reaching

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow

_POOLS = frozenset({"avg_pool2d", "max_pool2d", "AvgPool2d", "MaxPool2d"})
_KEEPS = frozenset({"relu", "relu_", "leaky_relu", "ReLU", "LeakyReLU", "dropout", "Dropout"})
_CHANNELS = {"BatchNorm2d": ("num_features", 0), "Conv2d": ("out_channels", 1)}
"""Layers, and the argument that says how many channels their results have."""


def joins_one_pixel(flow: Flow, call: ast.Call) -> bool:
    """Whether the call is ``x.view(-1, channels)`` of what a pooling has left of images of as many channels."""
    match call:
        case ast.Call(ast.Attribute(images, "view"), [ast.UnaryOp(ast.USub(), ast.Constant(1)), channels], []):
            pooled = _given(flow, images)
            if pooled is None or _named(flow, pooled) not in _POOLS:
                return False
            source = next(_sources(flow, pooled), None)
            return source is not None and _is_same(flow, channels, source)
    return False


def _sources(flow: Flow, call: ast.Call) -> Iterator[ast.expr]:
    """How many channels the layer makes from which the pooled images come, through what keeps them."""
    seen = 0
    while call.args and seen < _FURTHEST:
        inner = _given(flow, call.args[0])
        if inner is None:
            return
        name = _named(flow, inner)
        if name in _CHANNELS:
            for layer in without_none(flow.values(inner.func)):
                made = layer.site if isinstance(layer.site, ast.Call) else None
                channels = argument_of(made, *_CHANNELS[name]) if made is not None else None
                if channels is not None:
                    yield channels
            return
        if name not in _KEEPS:
            return
        call, seen = inner, seen + 1


_FURTHEST = 4
"""Layers between a normalisation and a pooling."""


def _given(flow: Flow, node: ast.expr) -> ast.Call | None:
    """The call that the expression is, or that alone gave the name its value."""
    if isinstance(node, ast.Name):
        module = module_of(flow, node)
        given = reaching(module.function(node) or module.tree).given(node) or ()
        node = given[0] if len(given) == 1 else node
    return node if isinstance(node, ast.Call) else None


def _named(flow: Flow, call: ast.Call) -> str:
    """The name of torch's function or layer that the call runs; nothing where that is not certain."""
    values = without_none(flow.values(call.func))
    layers = {each.name for each in values if isinstance(each, Made)}
    names = layers or set(library_names(values))
    if len(names) != 1 or len(names) < len({each.name for each in values}):
        return ""
    (name,) = names
    return name.rpartition(".")[2] if name.startswith("torch.") else ""


def _is_same(flow: Flow, one: ast.expr, other: ast.expr) -> bool:
    """Whether two expressions are one number: written alike, or the attribute that is given what is written there."""
    if ast.dump(one) == ast.dump(other):
        return isinstance(one, ast.Constant) or _is_kept(flow, one)
    if not isinstance(one, ast.Attribute) or last_name(one.value) != "self":
        return False
    module = module_of(flow, one)
    stores = [
        each
        for each in module.nodes(ast.Assign)
        if any(isinstance(target, ast.Attribute) and target.attr == one.attr for target in each.targets)
    ]
    maker = module.function(other) if module.holds(other) else None
    if len(stores) != 1 or maker is None or module.function(stores[0]) is not maker:
        return False
    names = {each.id for each in walk(other) if isinstance(each, ast.Name)}
    bound = [each for each in walk(maker) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
    is_bound_once = all(sum(each.id == name for each in bound) <= 1 for name in names)
    return is_bound_once and ast.dump(stores[0].value) == ast.dump(other)


def _is_kept(flow: Flow, node: ast.expr) -> bool:
    """Whether it is an attribute of ``self`` that one statement alone gives its value."""
    if not isinstance(node, ast.Attribute):
        return False
    stores = [each for each in module_of(flow, node).nodes(ast.Attribute) if each.attr == node.attr]
    return sum(isinstance(each.ctx, ast.Store) for each in stores) == 1
