"""Can an optimizer be fused although checkpoints are loaded into it, which say how the one that was saved stepped?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.names import bound_names, declared_outer
from codemods.dataflow.source import FUNCTIONS, catches_errors, is_dotted_name, walk
from codemods.dataflow.values import Made, without_none
from codemods.facts.models.channels_last import ChannelsLast, is_chosen
from codemods.facts.models.placement import Home
from codemods.facts.models.uncalled import run_by_forward
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.fusing import loads_into, why_loaded
from codemods.library.fused import FUSED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value
    from codemods.facts.script import Construction, Script

_GROUPS = ("group", "param_group", "each_group")
_STATES = ("state", "saved", "saved_state")


class Load(NamedTuple):
    """``optimizer.load_state_dict(checkpoint["optimizer"])``, a statement of its own."""

    module: Module
    statement: ast.Expr
    optimizer: ast.expr
    state: ast.expr
    optimizers: frozenset[Value]
    """All that it may load into, each of which can be fused."""
    group: str
    """A name that is free there, for the groups of parameters in the state."""
    name: str
    """Another one, for the state."""

    @property
    def is_named(self) -> bool:
        """Whether the state has a name there: ``checkpoint["optimizer"]``, where ``torch.load(path)`` has none."""
        return _is_item(self.state)


def loads(script: Script, several: Sequence[Construction]) -> Sequence[Load] | Reason:
    """Where checkpoints are loaded into an optimizer, which may be one of several; or why it is not fused for them.

    What is loaded says how an optimizer steps, and so where its count of steps goes: it must be told of the fused form.
    """
    found: list[Load] = []
    for made in several:
        for module, call, name in loads_into(script, made):
            load = None if name or module is not script.module else _load(script, module, call)
            if load is None:
                reason = why_loaded(script, made)
                assert reason is not None  # noqa: S101 - one is loaded
                return reason
            found += [] if any(each.statement is load.statement for each in found) else [load]
    if found and _may_be_laid_out(script):
        text = f"a checkpoint is loaded into it ({HERE}), of which the weights may have another layout"
        return Reason("checkpoint-loaded", text, (at(found[0].module, found[0].statement),))
    return found


def _load(script: Script, module: Module, call: ast.Call) -> Load | None:
    """The load where lines before it can tell its state how the optimizer steps; None where they cannot."""
    statement = module.parent(call)
    if not isinstance(statement, ast.Expr) or not isinstance(call.func, ast.Attribute):
        return None
    tried = (each for each in module.ancestors(statement) if isinstance(each, ast.Try))
    if any(catches_errors(each, statement) for each in tried):
        return None  # what is no state fails otherwise in the lines before, which may not be caught
    match call:
        case ast.Call(args=[state], keywords=[]) | ast.Call(args=[], keywords=[ast.keyword("state_dict", state)]):
            optimizers = without_none(script.flow.values(call.func.value))
        case _:
            return None
    if isinstance(state, ast.Starred) or not is_dotted_name(call.func.value):
        return None
    if not all(isinstance(each, Made) and each.name in FUSED for each in optimizers):
        return None
    taken = _taken(module, statement)
    group, name = (next((each for each in some if each not in taken), None) for some in (_GROUPS, _STATES))
    if group is None or name is None:
        return None
    return Load(module, statement, call.func.value, state, optimizers, group, name)


def _taken(module: Module, statement: ast.stmt) -> set[str]:
    """The names that mean something in the function of the statement, or anywhere where that is the module."""
    function = module.function(statement)
    scope = module.tree if function is None else function
    inner = [each for each in walk(scope) if isinstance(each, (*FUNCTIONS, ast.ClassDef))]
    names = {each.id for each in walk(scope) if isinstance(each, ast.Name)}
    return names.union(*(bound_names(each) | declared_outer(each) for each in (scope, *inner)))


def _is_item(node: ast.expr) -> bool:
    """``state``, ``checkpoint["optimizer"]``."""
    match node:
        case ast.Name():
            return True
        case ast.Subscript(value, ast.Constant()):
            return _is_item(value)
    return False


def _may_be_laid_out(script: Script) -> bool:
    """Whether the weights of a model lie channel by channel, or may lie so after the same rewrite.

    The state of a checkpoint lies as the weights did where it was saved; a fused step reads both in order of memory.
    """
    if is_chosen(script):
        return True
    for trained in (*script.trained_models, *run_by_forward(script)):
        layout, home = ChannelsLast(script, trained), trained.home
        if not isinstance(home, Home) or not layout.convolves_images or layout.why_wrapped() is not None:
            continue
        if layout.why_not(home) is None:
            return True
    return False
