"""Which layers and weights of a model can have images in memory channel by channel (``torch.channels_last``)?"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import argument_of
from codemods.dataflow.source import walk
from codemods.dataflow.values import Instance, Literal, library_names, without_none
from codemods.facts.loops import module_of
from codemods.facts.models.layers import is_in_threads
from codemods.facts.reason import HERE, Reason, at
from codemods.library.kinds import described
from codemods.library.memory_format import (
    CONVOLUTIONS,
    GOES_BACK,
    GROUPS,
    LAYERS,
    MADE_OF_SIZES,
    NETWORKS,
    THREE_DIMENSIONAL,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.values import Value, Values
    from codemods.facts.models.layers import Model
    from codemods.facts.reason import Place

_MOST = 4
"""Dimensions of a weight that the layout can be given to."""
_BASES = frozenset({"torch.nn.Module", "builtins.object", "abc.ABC"})


@dataclass(frozen=True, eq=False)
class LaidOut:
    """Answers for one model."""

    flow: Flow
    model: Model
    plain: frozenset[str] = frozenset()
    """What is chosen by its name and, where the user gives no options, is a network of plain convolutions."""

    def why_not(self) -> Reason | None:
        """Why some layer does not allow it; None where all do."""
        for layer in self.model.layers:
            reason = self._why_class(layer) if isinstance(layer, Instance) else self._why_layer(layer)
            if reason is not None:
                return reason
        return None

    def _why_layer(self, layer: Value) -> Reason | None:
        where = self._places(layer.site)
        if layer.name in THREE_DIMENSIONAL:
            text = f"{described(layer)} has weights of five dimensions, which have another layout{where[0]}"
            return Reason("other-layout", text, where[1])
        if layer.name in GOES_BACK:
            return Reason("other-layout", f"{described(layer)} lays images out as before{where[0]}", where[1])
        if layer.name in CONVOLUTIONS and isinstance(layer.site, ast.Call) and is_grouped(self.flow, layer.site):
            verb = "have" if self._has_groups(layer.site) else "may have"
            text = f"its convolutions {verb} groups, which may be slower so in 16 bits{where[0]}"
            return Reason("other-layout", text, where[1])
        # What is in it is among the layers, and is asked for itself.
        if layer.name in CONVOLUTIONS | LAYERS | NETWORKS | self.plain or is_in_threads(self.flow, layer):
            return None
        text = f"whether {described(layer)} keeps the layout, or has convolutions with groups, is not known{where[0]}"
        return Reason("unknown-model", text, where[1])

    def _has_groups(self, call: ast.Call) -> bool:
        """Whether the convolution surely has groups: a default of 1 that some caller may change is no such thing."""
        groups = argument_of(call, "groups", GROUPS)
        values = self.flow.values(groups) if groups is not None else frozenset()
        return bool(values) and all(isinstance(each, Literal) and each.name != "1" for each in values)

    def _why_class(self, layer: Instance) -> Reason | None:
        class_ = layer.of.site
        for base in self.flow.bases(class_):
            if isinstance(base, str) and base not in _BASES | LAYERS | CONVOLUTIONS:
                text = f"whether {described(layer)}, which derives from {base}, keeps the layout is not known"
                return Reason("unknown-model", text)
        for each in self.flow.project_bases(class_):
            for call in (node for node in walk(each) if isinstance(node, ast.Call)):
                reason = self._why_made(layer, each, call)
                if reason is not None:
                    return reason
        return None

    def _why_made(self, layer: Instance, class_: ast.ClassDef, call: ast.Call) -> Reason | None:
        """Why what a class makes besides layers does not allow it: weights of its own, and groups of a base."""
        place = (at(module_of(self.flow, call), call),)
        is_init = isinstance(call.func, ast.Attribute) and call.func.attr == "__init__"
        bases = {each for each in self.flow.bases(class_) if isinstance(each, str)}
        if is_init and bases & CONVOLUTIONS and is_grouped(self.flow, call):
            text = f"the convolution {layer.of.name} may have groups, which may be slower so in 16 bits ({HERE})"
            return Reason("other-layout", text, place)
        weight = self._own_weight(call)
        if weight is not None and not self._has_few_dimensions(weight):
            text = (
                f"a tensor of the model is not seen to have four dimensions at most: five have another layout ({HERE})"
            )
            return Reason("other-layout", text, place)
        return None

    def _own_weight(self, call: ast.Call) -> ast.expr | None:
        """What is made a parameter or a buffer."""
        if "torch.nn.Parameter" in library_names(self.flow.values(call.func)):
            return argument_of(call, "data", 0)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "register_buffer":
            return argument_of(call, "tensor", 1)
        return None

    def _has_few_dimensions(self, node: ast.expr) -> bool:
        """``torch.zeros(1, 8, 1, 1)``, ``torch.tensor([1.0])``, also where a factor follows it."""
        match node:
            case ast.Constant():
                return True
            case ast.BinOp(left, _, right):
                return self._has_few_dimensions(left) and self._has_few_dimensions(right)
            case ast.Call(_, sizes) if library_names(self.flow.values(node.func)) & MADE_OF_SIZES:
                return self._are_few(sizes)
            case ast.Call(ast.Attribute(_, "view" | "reshape"), sizes):
                return self._are_few(sizes)
            case ast.Call(_, [ast.List(parts)]) if "torch.tensor" in library_names(self.flow.values(node.func)):
                return not any(isinstance(each, ast.List) for each in parts)
        return False

    def _are_few(self, sizes: Sequence[ast.expr]) -> bool:
        """Whether these are the sizes of at most four dimensions."""
        flat = [part for each in sizes for part in (each.elts if isinstance(each, ast.Tuple) else [each])]
        values = [without_none(self.flow.values(each)) for each in flat]
        # A single name may hold all sizes.
        are_numbers = len(sizes) > 1 or all(each and each <= _numbers(each) for each in values)
        return 0 < len(flat) <= _MOST and are_numbers and not any(isinstance(each, ast.Starred) for each in flat)

    def _places(self, site: ast.AST | None) -> tuple[str, tuple[Place, ...]]:
        return ("", ()) if site is None else (f" ({HERE})", (at(module_of(self.flow, site), site),))


def is_grouped(flow: Flow, call: ast.Call) -> bool:
    """Whether the call that makes or computes a convolution may give it groups."""
    if any(each.arg is None for each in call.keywords) or any(isinstance(each, ast.Starred) for each in call.args):
        return True
    groups = argument_of(call, "groups", GROUPS)
    return groups is not None and flow.values(groups) != frozenset({Literal("1")})


def _numbers(values: Values) -> Values:
    """Those of the values that are numbers."""
    return frozenset(
        each
        for each in values
        if (isinstance(each, Literal) and isinstance(each.value, (int, float))) or each.name == "a number"
    )
