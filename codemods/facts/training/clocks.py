"""Where does a script read a clock, or the use of memory?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import FUNCTIONS, walk
from codemods.dataflow.values import External, Made
from codemods.facts.reach import Reach, own, project_functions
from codemods.library.diagnostics import reads_clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Callee, Module
    from codemods.facts.script import Script


def clock(script: Script, module: Module, *nodes: ast.AST) -> tuple[Module, ast.AST] | None:
    """Where a clock is read when the nodes run, in them or in what they call."""
    reach = Reach(script.flow)
    for where, code in reach.code(module, nodes):
        parts = [(where, code)]
        for decorator in _decorators(script, code):
            parts += reach.code(script.flow.module_of(decorator), [decorator, *_functions_in(decorator)])
        for place, part in parts:
            found = _read_in(script, part)
            if found is not None:
                return place, found
    return None


def _read_in(script: Script, code: ast.AST) -> ast.AST | None:
    """Where the code itself reads a clock."""
    for call in own(code, ast.Call):
        values = script.flow.values(call.func)
        if any(isinstance(each, (External, Made)) and reads_clock(each.name) for each in values):
            return call
    return None


def _decorators(script: Script, code: ast.AST) -> Iterator[Callee]:
    """The functions of the project that decorate the function, if the code is one."""
    for decorator in code.decorator_list if isinstance(code, ast.FunctionDef) else ():
        named = decorator.func if isinstance(decorator, ast.Call) else decorator
        yield from project_functions(script.flow.values(named))


def _functions_in(function: Callee) -> Iterator[Callee]:
    """The functions that are defined in a function, such as what a decorator returns."""
    return (each for each in walk(function) if isinstance(each, FUNCTIONS) and each is not function)
