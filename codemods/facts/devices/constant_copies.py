"""What a model makes once in its constructor, on the host, and copies to the device in each forward pass.

An array of NumPy's by which a tensor is indexed is copied to where that is.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.names import words
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import FUNCTIONS, walk
from codemods.dataflow.values import HostTensor, instance, library_names
from codemods.facts.data.arrays import Arrays
from codemods.facts.devices.devices import DeviceKind, device
from codemods.facts.devices.writes import writes
from codemods.facts.reach import own
from codemods.library.kinds import Kind, is_dtype, kind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from codemods.dataflow.source import Callee, Module
    from codemods.facts.script import Script

_WRAPPERS = words("torch.nn.Parameter torch.nn.parameter.Parameter torch.autograd.Variable")


@dataclass(frozen=True, eq=False)
class ConstantCopy:
    """A copy to a device, in ``forward``, of an attribute that only the constructor gives the model."""

    module: Module
    call: ast.expr
    """The copy, or what is indexed by an array, which is copied for that."""
    name: str
    made: ast.stmt
    """The statement of the constructor that makes it."""
    is_array: bool
    """Whether it is an array of NumPy's."""


def constant_copies(script: Script) -> Iterator[ConstantCopy]:
    """The copies of the module, in the order of the text."""
    if not script.may_use_cuda:
        return
    for class_ in script.module.nodes(ast.ClassDef):
        methods = {each.name: each for each in class_.body if isinstance(each, FUNCTIONS)}
        constructor, forward = methods.get("__init__"), methods.get("forward")
        if constructor is None or forward is None or kind(script.flow, instance(class_)) is not Kind.MODEL:
            continue
        for node in own(forward, ast.Call, ast.Subscript):
            is_array = isinstance(node, ast.Subscript)
            name = _copied(script, node) if isinstance(node, ast.Call) else _index(script, forward, node)
            made: list[ast.stmt] = []
            if name and script.may_run(script.module, node) and (is_array or _is_on_host(script, class_, name)):
                made = made_by(script, (constructor,), name)
            if len(made) == 1:
                yield ConstantCopy(script.module, node, name, made[0], is_array)


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


def _index(script: Script, forward: Callee, node: ast.expr) -> str:
    """The attribute of ``self`` that is an array, by which ``forward`` indexes what it is given; empty for none."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load):
        return ""
    if not isinstance(node.value, ast.Name) or node.value.id not in signature(forward).names[1:]:
        return ""
    arrays = Arrays(script.flow)
    for part in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
        match part:
            case ast.Attribute(ast.Name("self"), name) if arrays.array(script.module, part) is not None:
                return name if arrays.array(script.module, node.value) is None else ""
    return ""


def _is_on_host(script: Script, class_: ast.ClassDef, name: str) -> bool:
    values = script.flow.attributes(class_).get(name, frozenset())
    return bool(values) and all(isinstance(each, HostTensor) for each in values)


def made_by(script: Script, constructors: Collection[ast.AST], name: str) -> list[ast.stmt]:
    """Where constructors give the attribute its value; none where other code gives it anything, or writes to it."""
    stores: list[ast.stmt] = []
    for module in script.modules:
        written = {part for _, each in writes(module) for part in walk(each)}
        for node in module.nodes(ast.Attribute):
            is_stored = isinstance(node.ctx, ast.Store)
            if node.attr != name or not (is_stored or node in written):
                continue
            if module.function(node) not in constructors:
                return []
            stores += [module.statement(node)] if is_stored else []
    return stores
