"""Which expressions are surely tensors of torch, by how the script uses them, where nothing says what made them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.names import words
from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.values import Literal, Unknown, without_none
from codemods.facts.reach import own
from codemods.facts.reaching import reaching, targets
from codemods.library.kinds import is_loss
from codemods.library.operations import operation

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module

_ALONG = words("argmax argmin sum mean prod any all softmax log_softmax")
"""Methods of tensors that make one tensor along a dimension, ``dim``: NumPy's ``axis``, of which xarray has names."""
_ONE = words("abs bool clone detach double eq exp float ge gt int le long lt ne sqrt squeeze view")
_PAIRS = words("max min")
"""Methods that make one tensor of a tensor where they are given nothing, and values with indices else."""


def is_only_tensor(flow: Flow, module: Module, node: ast.expr) -> bool:
    """Whether it is a tensor whatever made it: ``(y.argmax(dim=1) == t).sum()``, or what a loss of torch is given."""
    match node:
        case ast.Call(ast.Attribute(inner, name)) if operation(flow, node) is not None:
            if name in _ALONG and _is_along_number(flow, node) and _is_unknown(flow, inner):
                return True
            is_one = name in _ALONG | _ONE or (name in _PAIRS and not (node.args or node.keywords))
            return is_one and is_only_tensor(flow, module, inner)
        case ast.Subscript(ast.Call(ast.Attribute(inner, name)), ast.Constant(0 | 1)) if name in _PAIRS:
            return is_only_tensor(flow, module, inner)
        case ast.Compare(left, [operator], [right]):
            is_compared = isinstance(operator, (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE))
            return is_compared and any(is_only_tensor(flow, module, each) for each in (left, right))
        case ast.Name():
            return _is_given_to_loss(flow, module, node) or _is_given_tensors(flow, module, node)
    return False


def _is_unknown(flow: Flow, node: ast.expr) -> bool:
    values = without_none(flow.values(node))
    return all(isinstance(each, Unknown) for each in values)


def _is_along_number(flow: Flow, call: ast.Call) -> bool:
    """Whether a call names its dimension ``dim``, by a number."""
    given = next((each.value for each in call.keywords if each.arg == "dim"), None)
    if isinstance(given, ast.UnaryOp):
        given = given.operand
    values = flow.values(given) if given is not None else ()
    return bool(values) and all(isinstance(each, Literal) and isinstance(each.value, int) for each in values)


def _is_given_to_loss(flow: Flow, module: Module, name: ast.Name) -> bool:
    """Whether its function gives a loss of torch what the name holds there: whatever else it is, that would fail."""
    function = module.function(name)
    return any(
        isinstance(each, ast.Name)
        and each.id == name.id
        and targets(function or module.tree).are_bound_alike(each, name)
        for call in own(function or module.tree, ast.Call)
        if flow.values(call.func) and all(is_loss(flow, each) for each in flow.values(call.func))
        for each in arguments_of(call)[:2]
    )


def _is_given_tensors(flow: Flow, module: Module, name: ast.Name) -> bool:
    given = reaching(module.function(name) or module.tree).given(name)
    return all(is_only_tensor(flow, module, each) for each in given) if given else False
