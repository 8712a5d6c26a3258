"""Where scripts make tensors of what they have as arrays: by which constructor, how often, and of how much."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import FUNCTIONS, lasting
from codemods.dataflow.values import Sort, instance
from codemods.facts.data.number_likes import makes_items
from codemods.facts.loops import REPEATING, around
from codemods.library.kinds import Kind, kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.facts.data.arrays import Arrays
    from codemods.facts.data.loaders import Loader

COPYING = "torch.tensor"
SHARING = "torch.as_tensor"
"""It copies no array, but reads lists of arrays element by element, too."""
_LEGACY_FLOATS = frozenset({"torch.Tensor", "torch.FloatTensor"})


def maker(flow: Flow, call: ast.Call) -> str | None:
    """The constructor that the call is of, where it is one of those that can be replaced, given one thing."""
    names = {each.name if each.sort is Sort.EXTERNAL else "" for each in flow.values(call.func)}
    (name,) = names if len(names) == 1 else ("",)
    return name if name in {COPYING, SHARING, *_LEGACY_FLOATS} and len(call.args) == 1 else None


def is_repeated(flow: Flow, loaders: Iterable[Loader], module: Module, call: ast.Call) -> bool:
    """Whether the call runs again and again: in a loop, in a data set, or for each batch that is put together."""
    if _is_looped(flow, module, call):
        return True
    collating = [each.arguments["collate_fn"] for each in loaders if "collate_fn" in each.arguments]
    collates = {value.site for each in collating for value in each.values}
    functions = (above for above, _ in around(flow, module, call) if isinstance(above, FUNCTIONS))
    return any(each in collates or makes_items(flow, each) for each in functions)


def _is_looped(flow: Flow, module: Module, call: ast.Call) -> bool:
    """Whether a loop runs the call; one that makes layers or data sets runs what they keep a few times at most."""
    for above, below in around(flow, module, call, set(_constructors(flow))):
        if isinstance(above, REPEATING) and below not in (getattr(above, "iter", None), *getattr(above, "orelse", ())):
            return True
    return False


@lasting
def _constructors(flow: Flow) -> tuple[Callee, ...]:
    """The functions that make the project's models and data sets."""
    classes = (each for module in flow.modules for each in module.nodes(ast.ClassDef))
    kept = (each for each in classes if kind(flow, instance(each)) in {Kind.MODEL, Kind.DATASET})
    return tuple(filter(None, (flow.defines(each, "__init__") for each in kept)))


def is_large(arrays: Arrays, module: Module, call: ast.Call, name: str) -> bool:
    """Whether what is copied once may be large: what was read from a file, or many arrays element by element."""
    (data,) = call.args
    array = arrays.array(module, data)
    if array is not None:
        return array.is_read and name == COPYING
    items = arrays.list_of(module, data)
    return items is not None and (items.is_read or isinstance(data, (ast.Name, ast.ListComp)))
