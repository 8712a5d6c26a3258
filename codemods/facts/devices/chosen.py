"""May the user name any device when the script is started, or is it CUDA or the CPU that it can run on?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import lasting, walk

if TYPE_CHECKING:
    from codemods.dataflow.source import Module
    from codemods.facts.devices.transfers import Transfer
    from codemods.facts.script import Script

_FIRST_WITH_MPS = (1, 12)
_COPIES_WAIT_ON_MPS = (2, 13)


@lasting
def is_free(script: Script) -> bool:
    """Whether nothing in the script needs CUDA, and no option takes the names of some devices alone."""
    return not any(_settles(module, call) for module in script.modules for call in module.nodes(ast.Call))


def _settles(module: Module, call: ast.Call) -> bool:
    """Whether the script needs CUDA there, or its option takes the names of some devices alone."""
    match call:
        case ast.Call(ast.Attribute(attr="cuda"), []) | ast.Call(
            ast.Attribute(ast.Attribute(attr="cuda"), "set_device")
        ):
            return not any(isinstance(each, (ast.If, ast.IfExp)) for each in module.ancestors(call))
        case ast.Call(ast.Attribute(attr="add_argument")):
            given = next((each.value for each in call.keywords if each.arg == "choices"), None)
            return any(isinstance(each, ast.Constant) and each.value == "cuda" for each in walk(given or call.func))
    return False


def may_be_read_late(script: Script, move: Transfer) -> bool:
    """Whether a copy that does not block may go to Apple's MPS, and may read memory there that was given away.

    Before torch 2.13, such a copy to MPS keeps no reference to the batch on the host (pytorch#83015, #139550, #189690):
    a name that is bound anew gives its memory away before the copy has read it.
    """
    if move.may_reach_mps:
        return True
    knows_mps = script.target.below is None or script.target.below > _FIRST_WITH_MPS
    is_unsafe = knows_mps and not script.target.reaches(_COPIES_WAIT_ON_MPS)
    return move.device.is_chosen and is_unsafe and is_free(script)
