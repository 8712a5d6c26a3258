"""Scores of attention, read backwards from their softmax: the product of queries and keys, the scale, the masks."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from codemods.facts.models.applied import applied, whole_number
from codemods.facts.models.attention_masks import holds_floats, kept
from codemods.facts.models.local_numbers import is_number, is_positive
from codemods.facts.models.local_shapes import Shapes
from codemods.facts.models.local_steps import Given, given_before
from codemods.facts.reason import HERE, Reason, at
from codemods.library.attention import CASTS, DIVISIONS, FACTORS, FILLS, PRODUCTS, SUMS, TURNING, scores_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.models.applied import Applied


@dataclass(frozen=True, eq=False)
class Operand:
    """A tensor that the fused function is given: an expression, and what is written behind it."""

    node: ast.expr
    suffix: str = ""
    depth: int = -1
    """Which dimension of the expression is the last behind the suffix: -1 where that leaves it in its place."""


@dataclass(frozen=True, eq=False)
class Scale:
    """A number by which scores are multiplied or divided."""

    node: ast.expr
    divides: bool
    is_before_masks: bool = True


@dataclass(frozen=True, eq=False)
class Mask:
    """What is masked: by a number in the place of scores, or by numbers that are added to them."""

    node: ast.expr
    text: str
    """What the fused function is given for it."""
    filled_with: ast.expr | None
    """The number that masked scores become; None where the mask is added."""
    is_filled_where_true: bool = True
    condition: ast.expr | None = None
    """What it depends on whether it is applied."""


@dataclass(eq=False)
class Scores:
    """The parts of scores."""

    query: Operand
    key: Operand
    dimensions: int | None
    is_turned: bool
    """Whether the keys are seen to be turned round for the product."""
    are_told: bool = False
    """Whether the operator takes as many dimensions as that, and no others."""
    scales: list[Scale] = field(default_factory=list)
    masks: list[Mask] = field(default_factory=list)
    widened: list[ast.expr] = field(default_factory=list)
    """The expressions that convert them to 32 bits."""


@dataclass(eq=False)
class Trail:
    """What was passed on the way: statements that are of no use any more, and the names that were read."""

    statements: list[ast.stmt] = field(default_factory=list)
    reads: list[ast.Name] = field(default_factory=list)
    names: dict[str, ast.stmt] = field(default_factory=dict)
    """The names under which steps were kept, each with the first statement that gives it one."""


class ScoreReader:
    """Reads the scores of one softmax."""

    def __init__(self, flow: Flow, module: Module, block: list[ast.stmt], trail: Trail) -> None:
        self._flow = flow
        self._module = module
        self._block = block
        self._trail = trail
        self._shapes = Shapes(flow)

    def read(self, node: ast.expr, before: ast.stmt) -> Scores | Reason:
        """The scores that an expression of a statement is; why they are none of the fused function's."""
        if isinstance(node, ast.Name):
            return self._of_name(node, before)
        product = self._product(node)
        if product is not None:
            return product
        call = applied(self._flow, node)
        if call is not None and is_widening(self._flow, call):
            scores = self.read(call.tensor, before)
            if isinstance(scores, Scores):
                scores.widened.append(node)
            return scores
        step = self._step(node)
        if step is None:
            return self._other(node)
        inner, change = step
        return self._changed(self.read(inner, before), change)

    def _of_name(self, name: ast.Name, before: ast.stmt) -> Scores | Reason:
        given = given_before(self._block, before, name.id)
        if not isinstance(given, Given) or given.value is None:
            return self._other(given.statement if isinstance(given, Given) else given or name)
        self._trail.reads.append(name)
        self._trail.statements.append(given.statement)
        self._trail.names[name.id] = given.statement
        if given.condition is None and given.update is None and not isinstance(given.statement, ast.Expr):
            return self.read(given.value, given.statement)
        return self._updated(given, name.id)

    def _updated(self, given: Given, name: str) -> Scores | Reason:
        """What was there before ``scores += mask``, or before a statement under a condition, and what that does."""
        if given.update is not None:
            step = self._operation(given.update.op, given.value)
            inner: ast.expr | None = None
        else:
            found = self._step(given.value) if given.value is not None else None
            inner, step = found if found is not None else (None, None)
            if inner is not None and not (isinstance(inner, ast.Name) and inner.id == name):
                step = None
        if step is None or (given.condition is not None and not isinstance(step, Mask)):
            return self._other(given.inside or given.statement)
        if isinstance(inner, ast.Name):
            self._trail.reads.append(inner)
        if isinstance(step, Mask):
            step = replace(step, condition=given.condition)
        before = ast.Name(name, ast.Load())
        ast.copy_location(before, given.statement)
        return self._changed(self._of_name(before, given.statement), step)

    @staticmethod
    def _changed(scores: Scores | Reason, change: Scale | Mask) -> Scores | Reason:
        if isinstance(scores, Reason):
            return scores
        if isinstance(change, Mask):
            scores.masks.append(change)
        else:
            scores.scales.append(replace(change, is_before_masks=not scores.masks))
        return scores

    def _other(self, node: ast.AST) -> Reason:
        call = applied(self._flow, node) if isinstance(node, ast.expr) else None
        operation = getattr(node, "op", None)
        if isinstance(operation, (ast.Mult, ast.Div)) or (call is not None and call.name in DIVISIONS | FACTORS):
            text = f"the scale is not known to be a number of Python, and the fused function takes no tensor ({HERE})"
            return Reason("other-attention", text, (at(self._module, node),))
        text = f"scores are more than a scaled product of queries and keys with a mask ({HERE})"
        return Reason("other-attention", text, (at(self._module, node),))

    # One step.

    def _step(self, node: ast.expr) -> tuple[ast.expr, Scale | Mask] | None:
        """What a step changes, and how it does."""
        if isinstance(node, ast.BinOp):
            return self._of_operator(node)
        call = applied(self._flow, node)
        if call is None:
            return None
        if call.name in FILLS and len(call.others) == 2:  # noqa: PLR2004 - a mask and a number
            mask, number = call.others
            return call.tensor, Mask(mask, kept(self._module, self._flow, mask), number)
        if call.name == "where" and len(call.others) == 2:  # noqa: PLR2004 - two cases
            return self._of_where(call.tensor, *call.others)
        if len(call.others) != 1 or call.named:
            return None
        if call.name in DIVISIONS | FACTORS and self._is_number(call.others[0]):
            return call.tensor, Scale(call.others[0], call.name in DIVISIONS)
        if call.name in SUMS:
            return call.tensor, self._added(call.others[0])
        return None

    def _of_where(self, test: ast.expr, one: ast.expr, other: ast.expr) -> tuple[ast.expr, Mask]:
        if self._is_number(one) or not isinstance(one, (ast.Name, ast.BinOp)):
            return other, Mask(test, kept(self._module, self._flow, test), one)
        return one, Mask(test, self._module.code(test), other, is_filled_where_true=False)

    def _of_operator(self, node: ast.BinOp) -> tuple[ast.expr, Scale | Mask] | None:
        for inner, other in ((node.left, node.right), (node.right, node.left)):
            is_first = inner is node.left
            if isinstance(node.op, (ast.Mult, ast.Div)) and self._is_number(other):
                divides = isinstance(node.op, ast.Div)
                return (inner, Scale(other, divides)) if is_first or not divides else None
        if isinstance(node.op, ast.Add):
            scores, mask = (node.right, node.left) if self._is_scores(node.right) else (node.left, node.right)
            return scores, self._added(mask)
        return None

    def _is_scores(self, node: ast.expr) -> bool:
        """Whether of two summands this one is a product."""
        return not isinstance(node, ast.Name) and self._product(node) is not None

    def _operation(self, operation: ast.operator, other: ast.expr | None) -> Scale | Mask | None:
        if other is None:
            return None
        if isinstance(operation, (ast.Mult, ast.Div)) and self._is_number(other):
            return Scale(other, isinstance(operation, ast.Div))
        return self._added(other) if isinstance(operation, ast.Add) else None

    def _added(self, mask: ast.expr) -> Mask:
        return Mask(mask, self._module.code(mask), None)

    def _is_number(self, node: ast.expr) -> bool:
        return is_number(self._flow, self._module, node)

    # The product.

    def _product(self, node: ast.expr) -> Scores | None:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            return self._of_factors(node.left, node.right, None)
        call = applied(self._flow, node)
        if call is None or call.named:
            return None
        if call.name in PRODUCTS and len(call.others) == 1:
            known = {"bmm": 3, "mm": 2}.get(call.name)
            return self._of_factors(call.tensor, call.others[0], known)
        if call.name != "einsum" or not isinstance(call.tensor, ast.Constant) or not isinstance(call.tensor.value, str):
            return None
        factors = factors_of(call.others)
        found = scores_of(call.tensor.value)
        if found is None or len(factors) != 2:  # noqa: PLR2004 - two are multiplied
            return None
        query = ordered(factors[found.query.position], found.query.order)
        key = ordered(factors[found.key.position], found.key.order)
        return self._without_scale(
            Scores(query, key, found.dimensions, is_turned=True, are_told=found.dimensions is not None)
        )

    def _of_factors(self, left: ast.expr, right: ast.expr, dimensions: int | None) -> Scores:
        are_told = dimensions is not None
        if dimensions is None:
            shape = self._shapes.of(self._module, left)
            dimensions = len(shape) if shape is not None else None
        turned = self._turned(right, dimensions)
        key = Operand(right, ".transpose(-2, -1)", depth=-2) if turned is None else Operand(turned)
        return self._without_scale(Scores(Operand(left), key, dimensions, turned is not None, are_told=are_told))

    def _turned(self, node: ast.expr, dimensions: int | None) -> ast.expr | None:
        """The keys of ``keys.transpose(-2, -1)``."""
        if isinstance(node, ast.Attribute) and node.attr == "mT":
            return node.value
        if isinstance(node, ast.Attribute) and node.attr == "T":
            return node.value
        call = applied(self._flow, node)
        if call is None or call.named:
            return None
        numbers = [whole_number(each) for each in call.others]
        if call.name in {"t", "adjoint"} and not numbers:
            return call.tensor
        if None in numbers or not numbers:
            return None
        if dimensions is None:
            shape = self._shapes.of(self._module, call.tensor)
            dimensions = len(shape) if shape is not None else None
        places = [each % dimensions if dimensions else each for each in numbers if each is not None]
        last = [dimensions - 2, dimensions - 1] if dimensions else [-2, -1]
        if call.name in TURNING:
            return call.tensor if sorted(places) == sorted(last) else None
        count = len(numbers)
        wanted = [*range(count - 2), count - 1, count - 2]
        is_swap = call.name == "permute" and [each % count for each in numbers if each is not None] == wanted
        return call.tensor if is_swap else None

    def _without_scale(self, scores: Scores) -> Scores:
        """The scores with the scale of ``(q * scale) @ k``, or of the keys, as one of their own."""
        for name in ("query", "key"):
            operand: Operand = getattr(scores, name)
            node = operand.node
            if not isinstance(node, ast.BinOp):
                continue
            if isinstance(node.op, (ast.Mult, ast.Div)) and self._is_number(node.right):
                setattr(scores, name, replace(operand, node=node.left))
                scores.scales.append(Scale(node.right, isinstance(node.op, ast.Div)))
            elif isinstance(node.op, ast.Mult) and self._is_number(node.left):
                setattr(scores, name, replace(operand, node=node.right))
                scores.scales.append(Scale(node.left, divides=False))
        return scores


def factors_of(given: Sequence[ast.expr]) -> list[ast.expr]:
    """The operands of an einsum, which may stand in a list."""
    if len(given) == 1 and isinstance(given[0], (ast.List, ast.Tuple)):
        return list(given[0].elts)
    return list(given)


def is_widening(flow: Flow, call: Applied) -> bool:
    """Whether an operator only converts a tensor to 32 bits: ``x.float()``, ``x.to(torch.float32)``."""
    if call.name == "float":
        return not call.others and not call.named
    given = [*call.others, *call.named.values()]
    is_cast = call.name in CASTS and len(given) == 1 and set(call.named) <= {"dtype"}
    return is_cast and is_32_bits(flow, given[0])


def is_32_bits(flow: Flow, node: ast.expr) -> bool:
    """Whether it is the number format of 32 bits."""
    return {each.name for each in flow.values(node)} in ({"torch.float32"}, {"torch.float"})


def ordered(node: ast.expr, order: tuple[int, ...] | None) -> Operand:
    """A tensor whose dimensions are put in an order."""
    return Operand(node, in_order(order), -1 if order is None else order[-1] - len(order))


def in_order(order: tuple[int, ...] | None) -> str:
    """What puts dimensions in an order: a swap where that is enough."""
    if order is None:
        return ""
    moved = [place for place, each in enumerate(order) if each != place]
    if len(moved) == 2:  # noqa: PLR2004 - two are swapped
        return f".transpose({moved[0]}, {moved[1]})"
    return f".permute({', '.join(map(str, order))})"


def why_not_masked(flow: Flow, module: Module, scores: Scores) -> Reason | None:
    """Why the fused function does not apply the masks in the same way."""
    if len(scores.masks) > 1:
        return Reason("other-attention", "several masks are applied one after the other:", remedy="join them to one")
    for mask in scores.masks:
        where = (at(module, mask.node),)
        if mask.filled_with is None and not holds_floats(flow, module, mask.node):
            text = f"whether the mask that is added holds floating-point numbers is not known ({HERE})"
            return Reason("unknown-mask", text, where)
    for scale in scores.scales:
        if scale.is_before_masks or not scores.masks:
            continue
        if any(each.filled_with is None for each in scores.masks) or not is_positive(flow, module, scale.node):
            text = f"scores are scaled after they are masked ({HERE}):"
            return Reason("other-attention", text, (at(module, scale.node),), remedy="scale them before")
    return None
