"""Probabilities that 16 bits round to 1: what a logarithm makes of the rest has no gradient.

bf16 keeps 8 bits, so that a sigmoid of more than 6.2 is exactly 1; in fp16 it is one of more than 8.3. Autocast
computes a sigmoid in the format of what it is given, and a softmax in 32 bits.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import is_name
from codemods.facts.precision.dtypes import Format, formats_in
from codemods.facts.precision.hazards import Hazard, names_of_layers
from codemods.facts.reach import own, project_functions
from codemods.library.operations import operands

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.reach import Reach

_SIGMOID_LAYER = "torch.nn.Sigmoid"
_SIGMOIDS = frozenset({"torch.sigmoid", "torch.sigmoid_", "torch.nn.functional.sigmoid", "torch.special.expit"})
_SOFTMAXES = frozenset({"torch.softmax", "torch.nn.functional.softmax", "torch.nn.Softmax", "torch.nn.Softmax2d"})
_LOGARITHMS = frozenset({"log", "log_", "log2", "log10"})
_OF_ONE_MORE = frozenset({"log1p", "log1p_"})
_REMEDY = "F.logsigmoid of the logits needs no sigmoid"


def rounds_probabilities(
    reach: Reach, calls_model: Callable[[ast.Call], bool], module: Module, nodes: Sequence[ast.AST]
) -> bool:
    """Whether the nodes, or the code they reach, compute a sigmoid in 16 bits under autocast."""
    for _, node in reach.code(module, nodes):
        for call in own(node, ast.Call):
            names = _names(reach.flow, call)
            if names == {_SIGMOID_LAYER} or names & _SIGMOIDS:
                formats = formats_in(reach.flow, calls_model, node, nodes)
                if any(formats.of(each) is not Format.OTHER for each in operands(reach.flow, call)[:1]):
                    return True
            elif _SIGMOID_LAYER in names:
                return True
    return False


def makes_probabilities(reach: Reach, module: Module, nodes: Sequence[ast.AST]) -> bool:
    """Whether a sigmoid or a softmax is seen in the nodes, or in the code they reach."""
    known = _SIGMOIDS | _SOFTMAXES | {_SIGMOID_LAYER}
    parts = reach.code(module, nodes)
    return any(_names(reach.flow, call) & known for _, node in parts for call in own(node, ast.Call))


def log_of_rest(
    reach: Reach, calls_model: Callable[[ast.Call], bool], module: Module, nodes: Sequence[ast.AST]
) -> Hazard | None:
    """Where the logarithm of what a sigmoid leaves of 1 is computed: ``torch.log(1 - D(fake))``.

    Of what a function is given it is not known, so it counts as 16 bits wide.
    """
    for where, node in reach.code(module, nodes):
        for call in own(node, ast.Call):
            scope = where.function(call) or where.tree
            probabilities = list(_left_of_one(reach.flow, scope, call))
            formats = formats_in(reach.flow, calls_model, node, nodes) if probabilities else None
            if (
                formats is not None
                and any(formats.of(each) is not Format.OTHER for each in probabilities)
                and rounds_probabilities(reach, calls_model, module, nodes)
            ):
                text = f"{where.code(call)} has no gradient where a sigmoid is 1 in 16 bits, as it is above 6:"
                return Hazard(where, call, text, remedy=_REMEDY, code="loss-of-probabilities")
    return None


def _left_of_one(flow: Flow, scope: ast.AST, call: ast.Call) -> Iterator[ast.expr]:
    """``p`` of a logarithm of ``1 - p``, or of ``log1p(-p)``, and what is assigned to that name."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
    is_of_one_more = name in _OF_ONE_MORE
    if name not in _LOGARITHMS | _OF_ONE_MORE or list(project_functions(flow.values(call.func))):
        return
    for given in (each for operand in operands(flow, call)[:1] for each in (operand, *_assigned(scope, operand))):
        for part in ast.walk(given):
            match part:
                case ast.BinOp(ast.Constant(1), ast.Sub(), probability) if not isinstance(probability, ast.Constant):
                    yield from map(_unconverted, (probability, *_assigned(scope, probability)))
                case ast.UnaryOp(ast.USub(), probability) if is_of_one_more and part is given:
                    yield from map(_unconverted, (probability, *_assigned(scope, probability)))


def _assigned(scope: ast.AST, node: ast.expr) -> list[ast.expr]:
    """What the name is given in the scope."""
    assignments = own(scope, ast.Assign) if isinstance(node, ast.Name) else ()
    return [each.value for each in assignments if any(is_name(one, ast.unparse(node)) for one in each.targets)]


def _unconverted(node: ast.expr) -> ast.expr:
    """What ``.float()`` widens: what was rounded before stays rounded."""
    match node:
        case ast.Call(ast.Attribute(value, "float" | "double"), [], []):
            return _unconverted(value)
    return node


def _names(flow: Flow, call: ast.Call) -> set[str]:
    """The qualified names of torch's functions and layers that the call runs, a tensor's methods among them."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in {"sigmoid", "sigmoid_", "softmax"}:
        names = names_of_layers(flow, call)
        is_projects = bool(list(project_functions(flow.values(call.func))))
        return names if names or is_projects else {f"torch.{call.func.attr}"}
    return names_of_layers(flow, call)
