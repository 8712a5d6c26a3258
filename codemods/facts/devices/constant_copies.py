"""What a model makes once in its constructor, on the host, and copies to the device in each forward pass."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.names import words
from codemods.dataflow.source import FUNCTIONS, walk
from codemods.dataflow.values import HostTensor, instance, library_names
from codemods.facts.devices.devices import DeviceKind, device
from codemods.facts.devices.writes import writes
from codemods.facts.reach import own
from codemods.library.kinds import Kind, is_dtype, kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Module
    from codemods.facts.script import Script

_WRAPPERS = words("torch.nn.Parameter torch.nn.parameter.Parameter torch.autograd.Variable")


@dataclass(frozen=True, eq=False)
class ConstantCopy:
    """A copy to a device, in ``forward``, of an attribute that only the constructor gives the model."""

    module: Module
    call: ast.Call
    name: str
    made: ast.stmt
    """The statement of the constructor that makes it."""


def constant_copies(script: Script) -> Iterator[ConstantCopy]:
    """The copies of the module, in the order of the text."""
    if not script.may_use_cuda:
        return
    for class_ in script.module.nodes(ast.ClassDef):
        methods = {each.name: each for each in class_.body if isinstance(each, FUNCTIONS)}
        constructor, forward = methods.get("__init__"), methods.get("forward")
        if constructor is None or forward is None or kind(script.flow, instance(class_)) is not Kind.MODEL:
            continue
        for call in own(forward, ast.Call):
            name = _copied(script, call)
            made = _made(script, class_, constructor, name) if name and script.may_run(script.module, call) else None
            if made is not None:
                yield ConstantCopy(script.module, call, name, made)


def _copied(script: Script, call: ast.Call) -> str:
    """The attribute of ``self`` that the call copies to what may be a GPU, all or a part; empty for none."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in {"to", "cuda"}:
        return ""
    target = call.args[0] if call.args else next((each.value for each in call.keywords if each.arg == "device"), None)
    if call.func.attr == "to":
        if target is None or any(is_dtype(each) for each in script.flow.values(target)):
            return ""
        if device(script.flow, target).kind is DeviceKind.CPU:
            return ""
    node = call.func.value
    while True:
        match node:
            case ast.Attribute(ast.Name("self"), name):
                return name
            case ast.Call(function, [inner, *_]) if library_names(script.flow.values(function)) & _WRAPPERS:
                node = inner
            case ast.Call(ast.Attribute(inner)) | ast.Subscript(inner):
                node = inner
            case _:
                return ""


def _made(script: Script, class_: ast.ClassDef, constructor: ast.AST, name: str) -> ast.stmt | None:
    """Where the constructor makes it on the host, if no other code gives the attribute anything, or writes to it."""
    values = script.flow.attributes(class_).get(name, frozenset())
    if not values or not all(isinstance(each, HostTensor) for each in values):
        return None
    stores: list[ast.stmt] = []
    for module in script.modules:
        written = {part for _, each in writes(module) for part in walk(each)}
        for node in module.nodes(ast.Attribute):
            is_stored = isinstance(node.ctx, ast.Store)
            if node.attr != name or not (is_stored or node in written):
                continue
            if module.function(node) is not constructor:
                return None
            stores += [module.statement(node)] if is_stored else []
    return stores[0] if len(stores) == 1 else None
