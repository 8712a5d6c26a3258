"""Of which functions may TorchScript compile the source, so that it reads by itself what is called there?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.recursion import closure
from codemods.dataflow.signatures import argument_of
from codemods.dataflow.source import FUNCTIONS, lasting, walk
from codemods.dataflow.values import Class, External, Function, Instance, Made, Method, library_names
from codemods.facts.loops import module_of
from codemods.library.torchscript import COMPILING, SCRIPT_MODULE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codemods.dataflow.source import Callee, Module
    from codemods.facts.script import Script


@lasting  # each old name asks
def may_be_scripted(script: Script) -> frozenset[Callee]:
    """The functions of the project of which TorchScript may compile the source.

    What it traces is run as Python, and is none of them. Of a model, any layer of the project may be a part.
    """
    flow = script.flow
    starts: set[Callee] = set()
    for module in script.modules:
        for name in module.nodes(ast.Name, ast.Attribute) if "jit" in module.text else ():
            if isinstance(name.ctx, ast.Load):
                starts.update(_compiled_by(script, module, name))

    def called(function: Callee) -> Iterator[Callee]:
        return (each for call in walk(function) if isinstance(call, ast.Call) for each in flow.called(call))

    return frozenset(closure(starts, called))


def _compiled_by(script: Script, module: Module, name: ast.Name | ast.Attribute) -> Iterable[Callee]:
    """What the function of TorchScript that the expression may name compiles where it is named."""
    names, parent = library_names(script.flow.values(name)), module.parent(name)
    if SCRIPT_MODULE in names:  # others only ask for the class
        return _methods(script) if isinstance(parent, ast.ClassDef) else ()
    if not names & COMPILING:
        return ()
    match parent:
        case ast.FunctionDef():
            return (parent,)
        case ast.ClassDef():
            return _functions_in(parent)
        case ast.Call(func) if func is name:
            return _given(script, module, parent)
    return _all(script, module, name)


def _given(script: Script, module: Module, call: ast.Call) -> Iterator[Callee]:
    """What ``torch.jit.script(model)`` compiles."""
    given = argument_of(call, "obj", 0)
    values = script.flow.values(given) if given is not None else frozenset()
    if not values:
        yield from _all(script, module, call)
    for each in values:
        match each:
            case Function(site=function) | Method(site=function) if isinstance(function, FUNCTIONS):
                yield function
            case Class():
                yield from _functions_in(each.site)
            case Instance() | Made():
                yield from _methods(script)
            case External():
                pass
            case _:
                yield from _all(script, module, call)


def _methods(script: Script) -> Iterator[Callee]:
    """The methods of all classes that derive from another one, as layers do."""
    for module in script.modules:
        for class_ in module.nodes(ast.ClassDef):
            yield from _functions_in(class_) if class_.bases else ()


def _functions_in(class_: ast.ClassDef) -> Iterator[Callee]:
    return (each for each in class_.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)))


def _all(script: Script, module: Module, node: ast.AST) -> Iterator[Callee]:
    """All functions but those that lead to the node: what compiles others is not compiled itself."""

    def callers(function: Callee) -> Iterator[Callee]:
        calls = script.flow.callers(function)
        return (each for each in (module_of(script.flow, call).function(call) for call in calls) if each is not None)

    function = module.function(node)
    leading = set(closure([function], callers)) if function is not None else set()
    return (each for each, _, _ in script.flow.functions() if each not in leading)
