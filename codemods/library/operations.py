"""Which of torch's operators a call runs, and which parts its result has."""

from __future__ import annotations

import ast
import enum
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import lasting
from codemods.dataflow.values import (
    Choice,
    Class,
    External,
    Function,
    Instance,
    Literal,
    Made,
    Method,
    Plain,
    Tensor,
    without_none,
)
from codemods.library.operators import Result, function, operator

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.values import Value
    from codemods.library.operators import Operator

FROM_ARRAY = frozenset({"torch.from_numpy", "torch.frombuffer"})
"""What makes a tensor of an array, in the same memory."""
_NUMBERS = (Literal, Choice, Plain)
_DIMENSION = frozenset({"dim", "axis", "keepdim", "keepdims"})
_POOLING = "torch.nn."
_AFTER_OPERAND = {Result.POOLED: 6, Result.COUNTED: 1}
"""Arguments besides the operand before those that ask for integers too, where they may be given by position."""


class Parts(enum.Enum):
    """What the result of a call consists of."""

    ONE = "one tensor, or no tensor at all"
    VALUES_FIRST = "one of its operand's type, then integers"
    ALIKE = "several of its operand's type"
    ONE_OR_VALUES_FIRST = "one of the two: it depends on what an argument is"


@lasting  # each walk along graphs and formats asks of each call
def operation(flow: Flow, call: ast.Call) -> Operator | None:
    """The operator of torch that the call runs; None where it is none, or not known.

    A method of something of which nothing is known is taken for a tensor's, one of the project's never.
    """
    values = without_none(flow.values(call.func))
    externals = [each for each in values if isinstance(each, (External, Made))]
    if externals:
        found = {function(each.name) for each in values}
        return found.pop() if len(found) == 1 and len(externals) == len(values) else None
    if not isinstance(call.func, ast.Attribute) or any(map(_is_projects, values)):
        return None
    return operator(call.func.attr)


def _is_projects(value: Value) -> bool:
    is_method = isinstance(value, Method) and value.site is not None
    return is_method or isinstance(value, (Function, Class, Instance))


def operands(flow: Flow, call: ast.Call) -> list[ast.expr]:
    """What an operator is given, the tensor that it is called on first: ``x`` of ``x.add(y)`` and ``torch.add(x, y)``.

    A tensor that is given by its name stands where it is written.
    """
    given = arguments_of(call)
    return [call.func.value, *given] if isinstance(call.func, ast.Attribute) and _is_method(flow, call) else given


def _is_method(flow: Flow, call: ast.Call) -> bool:
    return not any(isinstance(each, (External, Made)) for each in flow.values(call.func))


@lasting
def parts(flow: Flow, call: ast.Call) -> Parts:
    """What the result of the call consists of, where an operator or a layer of torch is called."""
    found = operation(flow, call)
    if found is None:
        return Parts.VALUES_FIRST if _pools_with_indices(flow, call) else Parts.ONE
    match found.result:
        case Result.INDEXED:
            return Parts.VALUES_FIRST
        case Result.SEVERAL:
            return Parts.ALIKE
        case Result.REDUCED:
            return _reduced(flow, call)
        case Result.POOLED | Result.COUNTED as result:
            extra = len(operands(flow, call)) - len(call.keywords) - 1 > _AFTER_OPERAND[result]
            return Parts.VALUES_FIRST if extra or _asks_for_integers(call) else Parts.ONE
    return Parts.ONE


def _reduced(flow: Flow, call: ast.Call) -> Parts:
    """``x.max()``, ``x.max(1)`` or ``x.max(y)``."""
    if any(each.arg in _DIMENSION for each in call.keywords):
        return Parts.VALUES_FIRST
    given = call.args[0 if _is_method(flow, call) else 1 :]
    if not given:
        return Parts.ONE
    values = without_none(flow.values(given[0]))
    if len(given) > 1 or _is_number(given[0]) or (values and all(isinstance(each, _NUMBERS) for each in values)):
        return Parts.VALUES_FIRST
    is_tensor = values and all(isinstance(each, Tensor) for each in values)
    return Parts.ONE if is_tensor else Parts.ONE_OR_VALUES_FIRST


def _is_number(node: ast.expr) -> bool:
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)


def _asks_for_integers(call: ast.Call) -> bool:
    """``return_indices=True``, ``return_inverse=flag``."""
    given = [each.value for each in call.keywords if (each.arg or "return_").startswith("return_")]
    return any(not (isinstance(each, ast.Constant) and each.value is False) for each in given)


def _pools_with_indices(flow: Flow, call: ast.Call) -> bool:
    """Whether a layer is called that was made with ``return_indices=True``."""
    made = [each.site for each in flow.values(call.func) if isinstance(each, Made) and each.name.startswith(_POOLING)]
    return any(isinstance(each, ast.Call) and _asks_for_integers(each) for each in made)
