"""Where does a script read a clock, or the use of memory?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.values import External, Made
from codemods.facts.reach import Reach, own
from codemods.library.diagnostics import reads_clock

if TYPE_CHECKING:
    from codemods.dataflow.source import Module
    from codemods.facts.script import Script


def clock(script: Script, module: Module, *nodes: ast.AST) -> tuple[Module, ast.AST] | None:
    """Where a clock is read when the nodes run, in them or in what they call."""
    for where, code in Reach(script.flow).code(module, nodes):
        for call in own(code, ast.Call):
            values = script.flow.values(call.func)
            if any(isinstance(each, (External, Made)) and reads_clock(each.name) for each in values):
                return where, call
    return None
