"""Of which models is an optimizer given the parameters?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemods.dataflow.signatures import argument_of
from codemods.dataflow.values import Choice, Container, Literal, Method, Plain, Unknown, in_order, owner_of
from codemods.facts.reason import Reason
from codemods.library.kinds import Kind, described, kind

if TYPE_CHECKING:
    import ast

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.values import Value, Values

_OF_MODEL = frozenset({"torch.nn.Module.parameters", "torch.nn.Module.named_parameters", "torch.nn.Parameter"})
_SETTINGS = (Literal, Plain, Choice)
"""What stands beside the parameters of a group: a learning rate, a decay."""


def given_parameters(call: ast.Call) -> ast.expr | None:
    """What an optimizer is given to step."""
    return argument_of(call, "params", 0)


def models_given(flow: Flow, given: Values) -> tuple[Value, ...] | Reason:
    """The models that the parameters are of, or why there are others among them."""
    found: dict[Value, None] = {}
    todo: list[tuple[Value, bool]] = [(each, False) for each in in_order(given)]
    seen: set[Value] = set()
    while todo:
        value, is_grouped = todo.pop(0)
        if value in seen:
            continue
        seen.add(value)
        owner = owner_of(value)
        if isinstance(value, Container):
            is_group = value.name == "dict"
            todo += [(each, is_group) for each in in_order(flow.items(value))]
        elif owner is not None and (value.name in _OF_MODEL or isinstance(value, Method)):
            if kind(flow, owner) is not Kind.MODEL:
                return _not_of_model(owner)
            found[owner] = None
        elif not (is_grouped and isinstance(value, _SETTINGS)):
            return _not_of_model(value)
    return tuple(found) or Reason("unknown-model", "what it steps is not known")


def _not_of_model(value: Value) -> Reason:
    what = value.name if isinstance(value, Unknown) and value.name else f"it is given {described(value)}"
    return Reason("unknown-model", f"not all that it steps is known to be parameters of models: {what}")
