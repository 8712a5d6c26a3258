"""What an expression may come to: a value of Python's, a bound of a number, a layer, an object, or unknown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    import ast

    from codemods.dataflow.flow import Flow
    from codemods.library.spaces import Space


LONGEST = 1000
"""Items of a list that are followed."""
PLAIN = (int, float, str, bool, type(None), list, tuple, dict, range)


class Unknown:
    """What an expression comes to where that is not known."""

    def __repr__(self) -> str:
        return "?"


UNKNOWN = Unknown()


class AtMost(int):
    """A whole number that is not known, but not larger than this one."""

    __slots__ = ()


@dataclass(frozen=True)
class Shape:
    """The shape of a space."""

    of: Space


@dataclass(eq=False)
class Layer:
    """A layer or network of a library."""

    name: str
    """Its qualified name: ``torch.nn.Linear``."""
    arguments: list[Any] = field(default_factory=list)
    keywords: dict[str, Any] = field(default_factory=dict)
    added: list[Any] = field(default_factory=list)
    """What was added to it later."""
    is_spread: bool = False
    """Whether it may have been given more arguments, through what is not known."""
    is_normalized: bool = False
    """Whether its weights are two tensors: how long they are, and where they point."""

    def argument(self, position: int, name: str, default: object = UNKNOWN) -> Any:  # noqa: ANN401 - whatever it is
        """What was given at that position, from 0, or by that name."""
        if name in self.keywords:
            return self.keywords[name]
        given = self.arguments[position] if 0 <= position < len(self.arguments) else default
        return UNKNOWN if given is default and self.is_spread else given


@dataclass(eq=False)
class Built:
    """An object of a class of the project."""

    class_: ast.ClassDef
    attributes: dict[str, Any] = field(default_factory=dict)


BASE = "super()"
"""The attribute under which an object holds the layer that its class derives from."""
_HOLDERS = frozenset({"Module", "Sequential", "ModuleList", "ModuleDict"})


def base_layer(flow: Flow, class_: ast.ClassDef) -> str | None:
    """The layer of torch.nn that a class of the project derives from; None where that only holds others."""
    bases = (each for each in flow.bases(class_) if isinstance(each, str))
    layers = (each for each in bases if each.startswith("torch.nn.") and each.rpartition(".")[2] not in _HOLDERS)
    return next(layers, None)


def children(layer: Layer) -> list[Any] | None:
    """What a container of layers holds, in order; None where it is no container or that is not known."""
    package, _, name = layer.name.rpartition(".")
    if package != "torch.nn" or name not in {"Sequential", "ModuleList", "ModuleDict"} or layer.is_spread:
        return None
    found = list(layer.arguments)
    if len(found) == 1 and isinstance(found[0], (list, tuple, dict)):
        found = list(found[0].values() if isinstance(found[0], dict) else found[0])
        # An OrderedDict may be given as pairs of names and layers.
        found = [each[1] if isinstance(each, tuple) and len(each) == 2 else each for each in found]  # noqa: PLR2004
    found += layer.added
    return found if all(isinstance(each, (Layer, Built)) for each in found) else None


_NAMED = {
    **dict.fromkeys(("in_features", "in_channels", "num_embeddings", "num_features", "embed_dim", "input_size"), 0),
    **dict.fromkeys(("out_features", "out_channels", "embedding_dim", "hidden_size"), 1),
    "kernel_size": 2,
}


def attribute_of(layer: Layer, name: str) -> Any:  # noqa: ANN401
    """``fc.in_features``: what the layer was given by that name."""
    return layer.argument(_NAMED[name], name) if name in _NAMED else UNKNOWN


def is_long(value: object) -> bool:
    """Whether there are too many items to follow."""
    return isinstance(value, (list, tuple, dict, range, str)) and len(value) > LONGEST


def is_exact(value: object) -> TypeGuard[int]:
    """Whether it is a whole number, and no bound of one."""
    return isinstance(value, int) and not isinstance(value, AtMost)


def holds_bound(value: object) -> bool:
    """Whether a value is known only from above, or something in it is."""
    if isinstance(value, dict):
        return any(map(holds_bound, value.values()))
    return any(map(holds_bound, value)) if isinstance(value, (list, tuple)) else isinstance(value, AtMost)


def is_known(value: object) -> bool:
    """Whether nothing in a value is unknown, or a layer."""
    if isinstance(value, (list, tuple)):
        return all(map(is_known, value))
    if isinstance(value, dict):
        return all(map(is_known, value.values()))
    return isinstance(value, PLAIN) and not isinstance(value, AtMost)
