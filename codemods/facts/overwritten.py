"""What of libraries does the script replace by something else: ``datasets.MNIST.__getitem__ = f``?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.names import canonical
from codemods.dataflow.source import lasting
from codemods.dataflow.values import Instance, Literal, Made, class_of, library_names
from codemods.facts.reason import HERE, Reason, at
from codemods.library.ancestry import depends_on

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value

_SETTERS = frozenset({"builtins.setattr", "builtins.delattr"})
_PATCH, _PATCH_OBJECT = "unittest.mock.patch", "unittest.mock.patch.object"
_TYPE = "builtins.type"
_NAMESPACE = ".__dict__"
_ANY = "?"
"""The name of an attribute that is computed."""


class Overwritten(NamedTuple):
    """A place that gives a name of a library another value."""

    node: ast.expr
    name: str
    """The qualified name: ``torchvision.datasets.MNIST.__getitem__``."""


def why_overwritten(flow: Flow, module: Module, names: Collection[str]) -> Reason | None:
    """Why things of libraries may not do what they are known for: a module that runs with this one changes them.

    Args:
        flow: The values of the project.
        module: Where they are used.
        names: Their qualified names.
    """
    for other in flow.beside(module):
        for each in overwritten(flow, other):
            changed = next((name for name in sorted(names) if depends_on(name, each.name)), None)
            if changed is not None:
                what = changed.rpartition(".")[2]
                text = f"the script replaces {each.name} ({HERE}), and what {what} does then is not known"
                return Reason("library-changed", text, (at(other, each.node),))
    return None


def names_of(flow: Flow, value: Value) -> frozenset[str]:
    """The qualified names of the libraries' classes that an object is one of."""
    class_ = class_of(value) if isinstance(value, Instance) else None
    if class_ is not None:
        return frozenset(each for each in flow.bases(class_) if isinstance(each, str))
    return frozenset({value.name}) if isinstance(value, Made) else frozenset()


@lasting
def overwritten(flow: Flow, module: Module) -> tuple[Overwritten, ...]:
    """The places of a module that do so."""
    found = [*_assigned(flow, module), *_set(flow, module), *_patched(flow, module)]
    return tuple(Overwritten(node, canonical(name)) for node, name in found)


def _assigned(flow: Flow, module: Module) -> Iterator[tuple[ast.expr, str]]:
    """``MNIST.__getitem__ = f``, ``del MNIST.__getitem__``, ``vars(datasets)["MNIST"] = Mine``."""
    for node in module.nodes(ast.Attribute):
        if not isinstance(node.ctx, ast.Load):
            yield from ((node, f"{each}.{node.attr}") for each in _owners(flow, node.value))
    for item in module.nodes(ast.Subscript):
        if not isinstance(item.ctx, ast.Load):
            for each in _owners(flow, item.value):
                if each.endswith(_NAMESPACE):
                    yield from _named(flow, item, {each.removesuffix(_NAMESPACE)}, item.slice)


def _set(flow: Flow, module: Module) -> Iterator[tuple[ast.expr, str]]:
    """``setattr(MNIST, "__getitem__", f)``, ``mock.patch.object(MNIST, "__getitem__", f)``."""
    for call in flow.calls_of(module, {*_SETTERS, _PATCH_OBJECT}):
        if len(call.args) > 1:
            yield from _named(flow, call, _owners(flow, call.args[0]), call.args[1])


def _patched(flow: Flow, module: Module) -> Iterator[tuple[ast.expr, str]]:
    """``mock.patch("torchvision.datasets.MNIST.__getitem__", f)``."""
    for call in flow.calls_of(module, {_PATCH}):
        for given in call.args[:1]:
            texts = (each.value for each in flow.values(given) if isinstance(each, Literal))
            yield from ((call, text) for text in texts if isinstance(text, str))


def _named(flow: Flow, node: ast.expr, owners: Collection[str], name: ast.expr) -> Iterator[tuple[ast.expr, str]]:
    texts = {str(each.value) if isinstance(each, Literal) else _ANY for each in flow.values(name)} or {_ANY}
    yield from ((node, f"{owner}.{text}") for owner in sorted(owners) for text in sorted(texts))


def _owners(flow: Flow, node: ast.expr) -> frozenset[str]:
    """The qualified names of the libraries' things that an expression may be, also of an object's class."""
    values = flow.values(node)
    found = library_names(values)
    match node:
        case ast.Attribute(value, "__class__"):
            found |= {each.name for each in flow.values(value) if isinstance(each, Made)}
        case ast.Call(function, [value], []) if library_names(flow.values(function)) == {_TYPE}:
            found |= {each.name for each in flow.values(value) if isinstance(each, Made)}
    return found
