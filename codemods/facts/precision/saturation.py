"""Probabilities and squares that 16 bits round to 1: what a logarithm makes of the rest has no gradient.

bf16 keeps 8 bits, so that a sigmoid of more than 6.2 is exactly 1, and a tanh of more than 3.4; in fp16 those of more
than 8.3 and 4.5. Autocast computes both in the format of what they are given, and a softmax in 32 bits.
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
_TANH_LAYER = "torch.nn.Tanh"
_TANHS = frozenset({"torch.tanh", "torch.tanh_", "torch.nn.functional.tanh"})
_SATURATING = {_SIGMOID_LAYER: _SIGMOIDS, _TANH_LAYER: _TANHS}
_METHODS = frozenset({"sigmoid", "sigmoid_", "softmax", "tanh", "tanh_"})
_LOGARITHMS = frozenset({"log", "log_", "log2", "log10"})
_OF_ONE_MORE = frozenset({"log1p", "log1p_"})
_REMEDY = "F.logsigmoid of the logits needs no sigmoid"
_REMEDY_OF_SQUARES = "2 * (math.log(2) - x - F.softplus(-2 * x)) is the same of what tanh is given"


def rounds_probabilities(
    reach: Reach, calls_model: Callable[[ast.Call], bool], module: Module, nodes: Sequence[ast.AST]
) -> bool:
    """Whether the nodes, or the code they reach, compute a sigmoid in 16 bits under autocast."""
    return _SIGMOID_LAYER in _rounded(reach, calls_model, module, nodes)


def _rounded(
    reach: Reach, calls_model: Callable[[ast.Call], bool], module: Module, nodes: Sequence[ast.AST]
) -> set[str]:
    """Which layers, sigmoid and tanh, the nodes or the code they reach compute in 16 bits, be it as a function."""
    found: set[str] = set()
    for _, node in reach.code(module, nodes):
        for call in own(node, ast.Call):
            names = _names(reach.flow, call)
            for layer, functions in _SATURATING.items():
                if names == {layer} or names & functions:
                    formats = formats_in(reach.flow, calls_model, node, nodes)
                    if any(formats.of(each) is not Format.OTHER for each in operands(reach.flow, call)[:1]):
                        found.add(layer)
                elif layer in names:
                    found.add(layer)
    return found


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
            if formats is None:
                continue
            roots = [root for each in probabilities for root in _roots(each)]
            squared = [_unconverted(one) for root in roots for one in (root, *_assigned(scope, root))]
            for layer, rounded, bound, remedy in (
                (_SIGMOID_LAYER, probabilities, "sigmoid is 1 in 16 bits, as it is above 6", _REMEDY),
                (_TANH_LAYER, squared, "tanh is 1 in 16 bits, as it is above 4.6", _REMEDY_OF_SQUARES),
            ):
                if any(formats.of(each) is not Format.OTHER for each in rounded) and layer in _rounded(
                    reach, calls_model, module, nodes
                ):
                    text = f"{where.code(call)} has no gradient where a {bound}:"
                    return Hazard(where, call, text, remedy=remedy, code="loss-of-probabilities")
    return None


def _roots(node: ast.expr) -> list[ast.expr]:
    """``a`` of ``a ** 2``, ``a * a``, ``a.pow(2)``, ``torch.square(a)`` and the like."""
    match node:
        case ast.BinOp(base, ast.Pow(), ast.Constant(2)):
            return [base]
        case ast.BinOp(one, ast.Mult(), other) if ast.dump(one) == ast.dump(other):
            return [one]
        case (
            ast.Call(ast.Attribute(ast.Name("torch"), "pow"), [base, ast.Constant(2)], [])
            | ast.Call(ast.Attribute(ast.Name("torch"), "square"), [base], [])
            | ast.Call(ast.Attribute(base, "pow"), [ast.Constant(2)], [])
            | ast.Call(ast.Attribute(base, "square"), [], [])
        ):
            return [base]
    return []


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
    if isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS:
        names = names_of_layers(flow, call)
        is_projects = bool(list(project_functions(flow.values(call.func))))
        return names if names or is_projects else {f"torch.{call.func.attr}"}
    return names_of_layers(flow, call)
