"""Which modules does a forward pass make anew each time, with a constant that the constructor copies to a device?"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.names import bound_names
from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import walk
from codemods.dataflow.values import Instance, class_of
from codemods.facts.devices.devices import DeviceKind
from codemods.facts.devices.fillings import is_forward
from codemods.facts.loops import module_of
from codemods.facts.reach import own
from codemods.library.drawing import call_draws
from codemods.library.kinds import Kind, kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Callee, Module
    from codemods.facts.script import Script


@dataclass(frozen=True, eq=False)
class RemadeModule:
    """``Regression(self.size)(x)`` in a ``forward``."""

    module: Module
    call: ast.Call
    """What makes it."""
    class_: ast.ClassDef
    home: Module
    """Where the class stands."""
    copy: ast.Call
    """What its constructor copies to what may be a GPU."""


def remade_modules(script: Script) -> Iterator[RemadeModule]:
    """The modules that the module makes anew in each pass, of the same numbers, in the order of the text."""
    module = script.module
    functions = script.flow.functions() if script.may_use_cuda else ()
    for forward in (each for each, home, _ in functions if home is module and is_forward(script, each)):
        for call in own(forward, ast.Call):
            class_ = _class(script, call)
            copy = _copy(script, class_) if class_ is not None and not _depends(forward, call) else None
            if class_ is not None and copy is not None and script.may_run(module, call):
                yield RemadeModule(module, call, class_, module_of(script.flow, class_), copy)


def _class(script: Script, call: ast.Call) -> ast.ClassDef | None:
    """The class of the project whose module it makes."""
    values = script.flow.values(call)
    made = next(iter(values)) if len(values) == 1 else None
    if not isinstance(made, Instance) or made.site is not call or kind(script.flow, made) is not Kind.MODEL:
        return None
    return class_of(made)


def _depends(forward: Callee, call: ast.Call) -> bool:
    """Whether what it is given depends on what the model is given: on names of the function, but for ``self``."""
    names = {each.id for given in arguments_of(call) for each in walk(given) if isinstance(each, ast.Name)}
    return bool((names - {"self"}) & bound_names(forward))


def _draws(script: Script, call: ast.Call) -> bool:
    """Whether the call draws random numbers, or makes a layer, whose weights are drawn."""
    is_layer = any(kind(script.flow, each) is Kind.MODEL for each in script.flow.values(call))
    return is_layer or call_draws(script.flow, call)


def _copy(script: Script, class_: ast.ClassDef) -> ast.Call | None:
    """What the constructor copies to what may be a GPU, the first, where made again it is the same module."""
    constructor = script.flow.method(class_, "__init__")
    if constructor is None or any(_draws(script, each) for each in own(constructor, ast.Call)):
        return None
    return next(
        (
            each.call
            for each in script.transfers
            if each.device.kind is not DeviceKind.CPU and each.module.function(each.call) is constructor
        ),
        None,
    )
