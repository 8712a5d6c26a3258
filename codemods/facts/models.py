"""Models: their layers, what they are wrapped in, and which of their parameters surely get a gradient."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.facts.kinds import WRAPPERS, Kind, kind
from codemods.facts.values import Sort, Value, Values, without_none

if TYPE_CHECKING:
    from codemods.facts.flow import Flow
    from codemods.facts.source import FunctionNode

_CONVOLUTIONS = frozenset(f"{lazy}Conv{transpose}{n}d" for lazy in ("", "Lazy") for transpose in ("", "Transpose") for n in (1, 2, 3))
_FUNCTIONAL_CONVOLUTIONS = frozenset(f"torch.nn.functional.conv{transpose}{n}d" for transpose in ("", "_transpose") for n in (1, 2, 3))
# torchvision's and timm's constructors that make no convolutional network.
_NO_CONVOLUTION = ("vit_", "swin_", "mlp_mixer", "mixer_", "deit_", "raft_")
_VARIABLE_INPUT = ("torchvision.models.detection", "torchvision.models.segmentation")


@dataclass(frozen=True, eq=False)
class Model:
    """An ``nn.Module`` that the script makes."""

    flow: Flow
    value: Value

    @property
    def class_(self) -> ast.ClassDef | None:
        """Its class, where it is the project's."""
        of = self.value.of
        return of.site if of is not None and isinstance(of.site, ast.ClassDef) else None

    @cached_property
    def layers(self) -> tuple[Value, ...]:
        """Every layer in it that is known, from the outside in, the model itself among them."""
        found: dict[Value, None] = {}
        todo = [self.value]
        while todo:
            value = todo.pop()
            if value in found:
                continue
            found[value] = None
            todo.extend(self._inside(value))
        return tuple(found)

    def _inside(self, value: Value) -> Iterator[Value]:
        """The layers that a layer holds itself."""
        values: list[Values] = []
        if value.sort is Sort.INSTANCE and value.of is not None and isinstance(value.of.site, ast.ClassDef):
            values.extend(self.flow.attributes(value.of.site).values())
        elif value.sort is Sort.MADE and isinstance(value.site, ast.Call):
            arguments = (*value.site.args, *(each.value for each in value.site.keywords))
            values.extend(self.flow.values(each.value if isinstance(each, ast.Starred) else each) for each in arguments)
        todo = [each for some in values for each in without_none(some)]
        seen: set[Value] = set()
        while todo:
            each = todo.pop()
            if each in seen:
                continue
            seen.add(each)
            if each.sort is Sort.CONTAINER:
                todo.extend(self.flow.items(each))
            elif kind(self.flow, each) is Kind.MODEL:
                yield each

    @cached_property
    def has_convolution(self) -> bool:
        """Whether a convolution is known to be in it."""
        for layer in self.layers:
            package, _, name = layer.name.rpartition(".")
            if layer.sort is Sort.MADE:
                if package == "torch.nn" and name in _CONVOLUTIONS:
                    return True
                if package.startswith("torchvision.models") and not name.startswith(_NO_CONVOLUTION):
                    return True
            elif layer.of is not None and isinstance(layer.of.site, ast.ClassDef) and self._is_convolutional(layer.of.site):
                return True
        return False

    def _is_convolutional(self, class_: ast.ClassDef) -> bool:
        """Whether the class derives from a convolution or a convolutional network, or calls one as a function."""
        for base in self.flow.bases(class_):
            if isinstance(base, str) and (base.rpartition(".")[2] in _CONVOLUTIONS or base.startswith("torchvision.models.")):
                return True
        return any(
            value.sort is Sort.EXTERNAL and value.name in _FUNCTIONAL_CONVOLUTIONS
            for node in ast.walk(class_)
            if isinstance(node, ast.Call)
            for value in self.flow.values(node.func)
        )

    @property
    def takes_any_size(self) -> bool:
        """Whether it is made for images that differ in size."""
        return any(layer.name.startswith(_VARIABLE_INPUT) for layer in self.layers)

    @cached_property
    def has_transformer(self) -> bool:
        """Whether it holds a layer that computes otherwise in evaluation without gradients (the fused fast path)."""
        names = {"torch.nn.Transformer", "torch.nn.TransformerEncoder", "torch.nn.TransformerEncoderLayer", "torch.nn.MultiheadAttention"}
        return any(layer.name in names for layer in self.layers)

    @cached_property
    def why_gradients_may_miss(self) -> str | None:  # noqa: PLR0911 - one reason each
        """Why some parameter may get no gradient in an iteration, or None where each provably gets one."""
        if self.value.sort is Sort.MADE:
            if self.value.name in {"torch.nn.Sequential", "torch.nn.Linear"}:
                for layer in self.layers[1:]:
                    if layer.sort is Sort.INSTANCE:
                        reason = Model(self.flow, layer).why_gradients_may_miss
                        if reason is not None:
                            return reason
                return None
            if self.value.name in WRAPPERS:
                return "the model is wrapped"
            return None if self.value.name.startswith("torch.nn.") else f"what {self.value.name}() holds is not known"
        class_ = self.class_
        forward = self.flow.method(class_, "forward") if class_ is not None else None
        if class_ is None or forward is None:
            return "the model's forward is not known"
        for node in ast.walk(forward):
            if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Try, ast.Match)):
                return f"forward has a branch (line {node.lineno})"
            if isinstance(node, ast.Return) and node is not forward.body[-1]:
                return f"forward returns early (line {node.lineno})"
        used = _attributes_used(self.flow, class_, forward)
        for name, values in self.flow.attributes(class_).items():
            has_parameters = any(kind(self.flow, each) is Kind.MODEL or each.name == "torch.nn.Parameter" for each in values)
            in_list = any(each.sort is Sort.CONTAINER and any(kind(self.flow, i) is Kind.MODEL for i in self.flow.items(each)) for each in values)
            if (has_parameters or in_list) and name not in used:
                return f"self.{name} is not used in forward"
        for layer in self.layers[1:]:
            if layer.sort is Sort.INSTANCE:
                reason = Model(self.flow, layer).why_gradients_may_miss
                if reason is not None:
                    return reason
        return None


def _attributes_used(flow: Flow, class_: ast.ClassDef, method: FunctionNode) -> set[str]:
    """The attributes of ``self`` that the method reads, or one of the class's methods that it calls."""
    used: set[str] = set()
    todo = [method]
    done: set[FunctionNode] = set()
    while todo:
        here = todo.pop()
        if here in done:
            continue
        done.add(here)
        for node in ast.walk(here):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
                used.add(node.attr)
                called = flow.method(class_, node.attr)
                if called is not None:
                    todo.append(called)
    return used
