"""Products of matrices that need 32 bits: Gram matrices, and distances that are expanded.

A Gram matrix is the product of a tensor, laid out as a matrix, with its own transpose. The sums run over all positions
of an image, and are divided by their number only afterwards: in 16 bits they are infinite (fp16), or lose what tells
them apart (bf16).

``a ** 2 - 2 * a @ b.T + b ** 2`` is a small difference of large numbers: in 16 bits, or with the 11 bits of the
mantissa that TF32 reads, other points are the nearest.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.signatures import argument_of
from codemods.dataflow.source import last_name
from codemods.dataflow.values import External, library_names
from codemods.facts.models.layers import FUNCTIONAL_CONVOLUTIONS
from codemods.facts.reach import own
from codemods.facts.reaching import reaching

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module

_LAID_OUT = frozenset({"view", "reshape", "flatten"})
_TURNED = frozenset({"t", "transpose", "permute", "swapaxes", "swapdims", "T", "mT", "adjoint"})
_KEPT = frozenset({"contiguous", "clone", "unsqueeze", "squeeze", "float", "detach", "data", "to", "cuda", "cpu"})
_TWO = 2
_OF_TWO = frozenset({"mm", "bmm", "matmul"})
_ADDED = frozenset({"addmm", "baddbmm", "addbmm", "addmm_", "baddbmm_", "addbmm_"})
_BY_FUNCTIONS = dict.fromkeys(("torch.nn.functional.linear", *FUNCTIONAL_CONVOLUTIONS), ("input", "weight")) | {
    "torch.tensordot": ("a", "b"),
    "torch.inner": ("input", "other"),
}
"""Functions that multiply the first two of their parameters, which have these names."""
_SCALES = frozenset({"mul", "mul_", "multiply", "multiply_"})
_ADDS = frozenset({"add", "add_", "sub", "sub_", "subtract", "subtract_"})
_SQUARES = frozenset({"pow", "square"})
_NORMS = frozenset({"torch.norm", "torch.linalg.norm", "torch.linalg.vector_norm"})
_DIAGONALS = frozenset({"diag", "diagonal"})


class _Origin(NamedTuple):
    """What a tensor is a layout of."""

    name: str = ""
    """The name, or attribute, that holds it."""
    is_laid_out: bool = False
    """Whether positions were put into one dimension on the way."""
    is_turned: bool = False


def is_gram(flow: Flow, module: Module, left: ast.expr, right: ast.expr) -> bool:
    """Whether it is the product of a tensor with itself, over positions that were put into one dimension."""
    one, other = _origin(flow, module, left, frozenset()), _origin(flow, module, right, frozenset())
    is_of_itself = bool(one.name) and one.name == other.name and one.is_turned is not other.is_turned
    return is_of_itself and (one.is_laid_out or other.is_laid_out)


def expanded_distances(flow: Flow, module: Module, code: ast.AST) -> Iterator[ast.expr]:
    """The products ``2 * a @ b.T`` in the code where squares of one of both are computed too.

    Squares may also be read from the diagonal of ``a @ a.T``. Those of unit vectors are 1: ``2 - 2 * a @ b.T``.
    """
    for product, given in _products(flow, code):
        factors = [_without_two(each) for each in given]
        uses = list(_uses(module, product))
        if factors == given and not _is_doubled(product) and not any(_is_scaled(module, each) for each in uses):
            continue
        multiplied = {_origin(flow, module, each, frozenset()).name for each in factors}
        is_said = any(_is_diagonal(module, each) or _is_added_to_two(module, each) for each in uses)
        if is_said or multiplied & _squared(flow, module, product):
            yield product


def products(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr, ast.expr]]:
    """The products of two matrices in the code, each with its operands."""
    for each in own(node, ast.BinOp):
        if isinstance(each.op, ast.MatMult):
            yield each, each.left, each.right
    for call in own(node, ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr in _OF_TWO:
            operands = [*([] if len(call.args) == _TWO else [call.func.value]), *call.args]
            if len(operands) == _TWO:
                yield call, operands[0], operands[1]


def _products(flow: Flow, code: ast.AST) -> Iterator[tuple[ast.expr, list[ast.expr]]]:
    """The same, and those that are written in other ways: ``einsum``, ``addmm(x, a, b, alpha=-2)``, ``linear``."""
    for product, left, right in products(code):
        yield product, [left, right]
    for call in own(code, ast.Call):
        name = last_name(call.func)
        if name in _ADDED or name == "einsum":
            yield call, call.args[-_TWO:]
        elif name == "inner" and isinstance(call.func, ast.Attribute) and len(call.args) == 1:
            yield call, [call.func.value, call.args[0]]
        else:
            for known in _BY_FUNCTIONS.keys() & library_names(flow.values(call.func)):
                operands = [argument_of(call, each, index) for index, each in enumerate(_BY_FUNCTIONS[known])]
                yield call, [each for each in operands if each is not None]


def _without_two(node: ast.expr) -> ast.expr:
    """``a`` of ``-2 * a``."""
    match node:
        case ast.BinOp(left, ast.Mult(), right) if _is_two(left) or _is_two(right):
            return right if _is_two(left) else left
    return node


def _is_two(node: ast.expr) -> bool:
    inner = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(inner, ast.Constant) and type(inner.value) in {int, float} and inner.value == _TWO


def _is_doubled(product: ast.expr) -> bool:
    """Whether the call multiplies by 2 or -2 itself: ``addmm(x, a, b, alpha=-2)``, ``x.addmm_(1, -2, a, b)``."""
    if not isinstance(product, ast.Call):
        return False
    by_name = any(each.arg == "alpha" and _is_two(each.value) for each in product.keywords)
    return by_name or (last_name(product.func) in _ADDED and any(map(_is_two, product.args)))


def _uses(module: Module, product: ast.expr) -> Iterator[ast.expr]:
    """The product, and where its function reads the name that it is given."""
    yield product
    statement = module.parent(product)
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        name = statement.targets[0].id
        yield from (each for each in module.nodes(ast.Name) if each.id == name and _is_beside(module, each, product))


def _is_diagonal(module: Module, node: ast.expr) -> bool:
    """Whether the diagonal of it is taken: ``torch.diag(x)``, ``x.diagonal()``."""
    parent = module.parent(node)
    match parent:
        case ast.Attribute(_, name) if name in _DIAGONALS:
            return isinstance(module.parent(parent), ast.Call)
        case ast.Call(function, [first, *_]):
            return first is node and last_name(function) in _DIAGONALS
    return False


def _is_added_to_two(module: Module, node: ast.expr) -> bool:
    """Whether it is added to 2, or taken from that, perhaps times 2: ``2 - 2 * x``, ``2 - x.mul(2)``."""
    parent = module.parent(node)
    match parent:
        case ast.BinOp(left, ast.Sub(), right):
            return right is node and _is_two(left)
        case ast.BinOp(left, ast.Add(), right):
            return _is_two(left) or _is_two(right)
        case ast.BinOp(left, ast.Mult(), right):
            return (_is_two(left) or _is_two(right)) and _is_added_to_two(module, parent)
        case ast.Attribute(_, name) if name in _SCALES:
            call = module.parent(parent)
            return isinstance(call, ast.Call) and _is_added_to_two(module, call)
        case ast.Call(function) if last_name(function) in _SCALES:
            return _is_added_to_two(module, parent)
    return False


def _is_scaled(module: Module, node: ast.expr) -> bool:
    parent = module.parent(node)
    match parent:
        case ast.BinOp(left, ast.Mult(), right):
            return _is_two(left) or _is_two(right)
        case ast.UnaryOp():
            return _is_scaled(module, parent)
        case ast.AugAssign(_, ast.Mult(), value):
            return _is_two(value)
        case ast.Attribute(_, name) if name in _SCALES:
            call = module.parent(parent)
            return isinstance(call, ast.Call) and any(map(_is_two, call.args))
        case ast.Call(function, arguments) if last_name(function) in _SCALES:
            return any(map(_is_two, arguments))
        case ast.Call(function, _, keywords) if last_name(function) in _ADDS:
            return any(each.arg == "alpha" and _is_two(each.value) for each in keywords)
    return False


def _is_beside(module: Module, node: ast.AST, other: ast.AST) -> bool:
    """Whether both stand in one function, or in none."""
    return module.function(node) is module.function(other)


def _squared(flow: Flow, module: Module, product: ast.expr) -> frozenset[str]:
    """The tensors of which the product's function computes squares."""
    beside = (each for each in module.nodes(ast.BinOp, ast.Call) if _is_beside(module, each, product))
    bases = [base for each in beside for base in _bases(flow, each)]
    return frozenset(_origin(flow, module, _of_norm(flow, module, each), frozenset()).name for each in bases) - {""}


def _bases(flow: Flow, node: ast.AST) -> list[ast.expr]:
    """What the expression is the square of: ``x`` of ``x ** 2``, ``x * x``, ``x.pow(2)`` and ``torch.mul(x, x)``."""
    match node:
        case ast.BinOp(base, ast.Pow(), power) if _is_two(power):
            return [base]
        case ast.BinOp(one, ast.Mult(), other) if ast.dump(one) == ast.dump(other):
            return [one]
        case ast.Call(function, arguments) if last_name(function) in _SQUARES:
            is_function = any(isinstance(each, External) for each in flow.values(function))
            return arguments[:1] if is_function else [function.value] if isinstance(function, ast.Attribute) else []
        case ast.Call(ast.Attribute(one, name), [other]) if name in _SCALES and ast.dump(one) == ast.dump(other):
            return [one]
        case ast.Call(function, [*_, one, other]) if last_name(function) in _SCALES | {"einsum"}:
            return [one] if ast.dump(one) == ast.dump(other) else []
    return []


def _of_norm(flow: Flow, module: Module, node: ast.expr) -> ast.expr:
    """``x`` of ``torch.norm(x, dim=1)``, ``torch.linalg.norm(x, dim=1)`` ``x.norm(dim=1)``, and a name for that."""
    match node:
        case ast.Name():
            given = reaching(module.function(node) or module.tree).known(node)
            inner = _of_norm(flow, module, given[0]) if len(given) == 1 and isinstance(given[0], ast.Call) else node
            return node if inner in given else inner
        case ast.Call(function) if library_names(flow.values(function)) & _NORMS:
            return argument_of(node, "input", 0) or argument_of(node, "x", 0) or argument_of(node, "A", 0) or node
        case ast.Call(ast.Attribute(inner, "norm")):
            return inner
    return node


def _origin(flow: Flow, module: Module, node: ast.expr, seen: frozenset[str]) -> _Origin:
    if isinstance(node, ast.Name):
        return _of_name(flow, module, node, seen)
    attribute = node.func if isinstance(node, ast.Call) else node
    if not isinstance(attribute, ast.Attribute) or attribute.attr not in _LAID_OUT | _TURNED | _KEPT:
        return _Origin(ast.unparse(node) if isinstance(node, ast.Attribute) else "")
    inner: ast.expr = attribute.value
    if isinstance(node, ast.Call) and any(isinstance(each, External) for each in flow.values(attribute)):
        if not node.args:
            return _Origin()
        inner = node.args[0]  # torch.transpose(x, 1, 2)
    found = _origin(flow, module, inner, seen)
    return found._replace(
        is_laid_out=found.is_laid_out or attribute.attr in _LAID_OUT,
        is_turned=found.is_turned is not (attribute.attr in _TURNED),
    )


def _of_name(flow: Flow, module: Module, node: ast.Name, seen: frozenset[str]) -> _Origin:
    """What the name's function assigns to it: a layout of itself, or the one layout of another."""
    if node.id in seen:
        return _Origin(node.id)
    function = module.function(node)
    assigned = [
        _origin(flow, module, each.value, seen | {node.id})
        for each in module.nodes(ast.Assign)
        if module.function(each) is function and [ast.unparse(target) for target in each.targets] == [node.id]
    ]
    of_itself = [each for each in assigned if each.name == node.id]
    others = [each for each in assigned if each.name and each.name != node.id]
    if len(others) == 1 and len(assigned) == 1:
        return others[0]
    return _Origin(node.id, is_laid_out=any(each.is_laid_out for each in of_itself))
