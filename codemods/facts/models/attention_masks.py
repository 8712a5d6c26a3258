"""Masks of attention: which entries of the scores they leave, and whether they are the triangle of causal attention."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import FUNCTIONS, unparsed
from codemods.dataflow.values import Made
from codemods.facts.cost.definitions import binding
from codemods.facts.models.applied import applied, layers, whole_number
from codemods.facts.models.changed_attributes import is_changed
from codemods.facts.models.local_numbers import is_infinite, is_large_negative
from codemods.facts.models.local_shapes import is_settled
from codemods.facts.models.local_steps import is_written_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module

Halves = tuple[float, float]
"""What a matrix holds on and below its diagonal, and above it."""
WHOLE = "whole"
"""The part of a triangle that is used where nothing is cut from it."""

_FILLED = {"torch.ones": 1.0, "torch.zeros": 0.0}
_LAID_OUT = frozenset(
    {"view", "reshape", "unsqueeze", "contiguous", "to", "type", "cuda", "expand", "clone", "detach", "squeeze", "cpu"}
)
_TRUTHS = frozenset({"bool", "byte"})
_KINDS = frozenset({"long", "int", "float"})
_CAUSAL_SUMS = frozenset(
    {
        "torch.nn.Transformer.generate_square_subsequent_mask",
        "torch.nn.modules.transformer._generate_square_subsequent_mask",
    }
)
_LOWEST = float("-inf")
_FLOATS = frozenset({"torch.nn.Parameter", "torch.randn", "torch.rand", "torch.nn.parameter.Parameter"})
_FLOATING = frozenset({"torch.nn.Embedding", "torch.nn.Linear"})
_KEEPING = (_LAID_OUT - {"to", "type"}) | {"permute", "transpose", "masked_fill", "masked_fill_", "exp", "sigmoid", "t"}


def triangle(flow: Flow, module: Module, node: ast.expr) -> tuple[Halves, str] | None:
    """What a mask holds below and above the diagonal, and by which one size it is cut to a square.

    None where the mask is no such triangle, or not for certain.
    """
    return _Triangles(flow).of(module, node, frozenset())


class _Triangles:
    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    def of(self, module: Module, node: ast.expr, seen: frozenset[ast.AST]) -> tuple[Halves, str] | None:
        if node in seen:
            return None
        seen |= {node}
        match node:
            case ast.Name() | ast.Attribute():
                return self._of_name(module, node, seen)
            case ast.Subscript(value, index):
                return self._cut(self.of(module, value, seen), module, index)
            case ast.Compare(left, [ast.Eq() | ast.NotEq() as operation], [ast.Constant(number)]):
                found = self.of(module, left, seen)
                is_equal = isinstance(operation, ast.Eq)
                return _mapped(found, lambda each: float((each == number) is is_equal))
            case ast.UnaryOp(ast.Invert() | ast.Not(), inner):
                return _mapped(self._of_truth(module, inner, seen), lambda each: 1.0 - each)
            case ast.BinOp(ast.Constant(1 | 1.0), ast.Sub(), inner):
                return _mapped(self.of(module, inner, seen), lambda each: 1.0 - each)
            case ast.Call():
                return self._of_call(module, node, seen)
        return None

    def _of_truth(self, module: Module, node: ast.expr, seen: frozenset[ast.AST]) -> tuple[Halves, str] | None:
        found = self.of(module, node, seen)
        return found if found is not None and set(found[0]) <= {0.0, 1.0} else None

    def _of_call(self, module: Module, call: ast.Call, seen: frozenset[ast.AST]) -> tuple[Halves, str] | None:
        if {each.name for each in self._flow.values(call.func)} & _CAUSAL_SUMS and len(call.args) == 1:
            return ((0.0, _LOWEST), unparsed(call.args[0]))
        found = applied(self._flow, call)
        if found is None:
            return None
        if found.name in {"tril", "triu"}:
            return self._half(module, found.name, found.tensor, found.argument(0, "diagonal"))
        if found.name in _LAID_OUT | _KINDS:
            return self.of(module, found.tensor, seen)
        if found.name in _TRUTHS:
            return _mapped(self.of(module, found.tensor, seen), lambda each: float(each != 0))
        if found.name == "logical_not":
            return _mapped(self.of(module, found.tensor, seen), lambda each: float(each == 0))
        if found.name in {"eq", "ne"} and len(found.others) == 1 and isinstance(found.others[0], ast.Constant):
            number = found.others[0].value
            return _mapped(
                self.of(module, found.tensor, seen), lambda each: float((each == number) is (found.name == "eq"))
            )
        return None

    def _half(
        self, module: Module, name: str, square: ast.expr, diagonal: ast.expr | None
    ) -> tuple[Halves, str] | None:
        """``torch.tril(torch.ones(n, n))``, ``torch.triu(torch.full((n, n), -inf), diagonal=1)``."""
        filled = self._filled(module, square)
        at = 0 if diagonal is None else whole_number(diagonal)
        if filled is None or at != (name == "triu"):
            return None
        number, size = filled
        return ((number, 0.0) if name == "tril" else (0.0, number)), size

    def _filled(self, module: Module, node: ast.expr) -> tuple[float, str] | None:
        """The one number in a new square matrix, and its size."""
        if isinstance(node, ast.Name):
            given = self._bound(module, node)
            return self._filled(module, given) if isinstance(given, ast.Call) and module.holds(given) else None
        if not isinstance(node, ast.Call):
            return None
        found = applied(self._flow, node)
        if found is not None and found.name in _LAID_OUT | _TRUTHS | _KINDS:
            return self._filled(module, found.tensor)
        names = {each.name for each in self._flow.values(node.func)}
        sizes, number = list(node.args), None
        if len(names) == 1 and names <= _FILLED.keys():
            number = _FILLED[next(iter(names))]
        elif names == {"torch.full"} and len(sizes) > 1 and is_infinite(self._flow, sizes.pop(1)):
            number = _LOWEST
        if len(sizes) == 1 and isinstance(sizes[0], (ast.Tuple, ast.List)):
            sizes = sizes[0].elts
        *lead, one, other = sizes if len(sizes) > 1 else (node, node)
        is_square = one is not other and unparsed(one) == unparsed(other) and is_settled(module, one)
        if number is None or not is_square or not all(whole_number(each) == 1 for each in lead):
            return None
        return number, unparsed(one)

    def _cut(self, found: tuple[Halves, str] | None, module: Module, index: ast.expr) -> tuple[Halves, str] | None:
        """A square from the corner: ``mask[:, :, :T, :T]``, ``mask[:T, :T]``, ``mask[None, None]``."""
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        slices = [each for each in parts if not _is_all(each) and not _is_none(each)]
        if found is None or not slices:
            return found
        if len(slices) != 2 or parts[-2:] != slices:  # noqa: PLR2004 - rows and columns
            return None
        ends = [
            each.upper for each in slices if isinstance(each, ast.Slice) and each.lower is None and each.step is None
        ]
        if len(ends) != 2 or None in ends:  # noqa: PLR2004
            return None
        one, other = (each for each in ends if each is not None)
        same = unparsed(one) == unparsed(other) and is_settled(module, one) and is_settled(module, other)
        return (found[0], unparsed(one)) if same else None

    def _of_name(
        self, module: Module, node: ast.Name | ast.Attribute, seen: frozenset[ast.AST]
    ) -> tuple[Halves, str] | None:
        if isinstance(node, ast.Name):
            given = self._bound(module, node)
            found = self.of(module, given, seen) if given is not None and module.holds(given) else None
            if found is None or given is None or module.function(given) is module.function(node):
                return found
            return found[0], WHOLE
        stored = list(self._stored(module, node))
        found_in = [self.of(where, each, seen) for where, each in stored]
        if not found_in or any(
            each is None or each[0] != found_in[0][0] for each in found_in if found_in[0] is not None
        ):
            return None
        return (found_in[0][0], WHOLE) if found_in[0] is not None else None

    def _bound(self, module: Module, name: ast.Name) -> ast.expr | None:
        """What the only statement that binds a name gives it, where nothing writes into that."""
        scope = module.function(name)
        alike = (each for each in module.nodes(ast.Name) if each.id == name.id and module.function(each) is scope)
        return None if any(is_written_to(module, each) for each in alike) else binding(self._flow, name)

    def _stored(self, module: Module, node: ast.Attribute) -> Iterator[tuple[Module, ast.expr]]:
        """What the class gives the attribute, by an assignment or as a buffer."""
        function = module.function(node)
        class_ = self._flow.owner(function) if isinstance(function, FUNCTIONS) else None
        if class_ is None or not isinstance(node.value, ast.Name):
            return
        if is_changed(self._flow, class_, node.attr):
            yield module, node
        for each in self._flow.family(class_):
            where = next(other for other in self._flow.modules if other.holds(each))
            for store in where.stores.get(unparsed(node), ()):
                if each in where.ancestors(store):
                    statement = where.statement(store)
                    is_plain = isinstance(statement, ast.Assign) and len(statement.targets) == 1
                    yield where, statement.value if is_plain and isinstance(statement, ast.Assign) else node
            for call in where.nodes(ast.Call):
                is_buffer = isinstance(call.func, ast.Attribute) and call.func.attr == "register_buffer"
                if is_buffer and each in where.ancestors(call):
                    given = [*call.args, *(one.value for one in call.keywords if one.arg in {"name", "tensor"})]
                    if len(given) > 1 and not (isinstance(given[0], ast.Constant) and given[0].value != node.attr):
                        yield where, given[1]


def _mapped(found: tuple[Halves, str] | None, change: Callable[[float], float]) -> tuple[Halves, str] | None:
    return ((change(found[0][0]), change(found[0][1])), found[1]) if found is not None else None


def _is_all(node: ast.expr) -> bool:
    if isinstance(node, ast.Slice):
        return node.lower is None and node.upper is None and node.step is None
    return isinstance(node, ast.Constant) and node.value is ...


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def kept(module: Module, flow: Flow, node: ast.expr) -> str:
    """The entries that are left, as the fused function wants them, of a mask of those that are filled."""
    match node:
        case ast.Compare(left, [ast.Eq()], [ast.Constant()] as right):
            return f"{tight(module, left)} != {module.code(right[0])}"
        case ast.Compare(left, [ast.NotEq()], [ast.Constant()] as right):
            return f"{tight(module, left)} == {module.code(right[0])}"
        case ast.UnaryOp(ast.Invert(), inner):
            return tight(module, inner)
    found = applied(flow, node)
    other = {"eq": "ne", "ne": "eq"}.get(found.name, "") if found is not None else ""
    if found is not None and other and len(found.others) == 1 and not found.named:
        return f"{tight(module, found.tensor)}.{other}({module.code(found.others[0])})"
    return f"~{tight(module, node)}"


LOOSE = (ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Lambda, ast.UnaryOp, ast.NamedExpr, ast.Await, ast.Starred)


def tight(module: Module, node: ast.expr) -> str:
    """The expression's text, in parentheses where something may be written before or behind it only with these."""
    code = module.code(node)
    is_whole = not isinstance(node, (*LOOSE, ast.GeneratorExp)) and (isinstance(node, ast.Tuple) or "\n" not in code)
    return code if is_whole else f"({code})"


def is_lowest(flow: Flow, node: ast.expr) -> tuple[bool, bool]:
    """Whether scores that are filled with the number count for nothing, and whether it is minus infinity."""
    infinite = is_infinite(flow, node)
    return infinite or is_large_negative(flow, node), infinite


def holds_floats(flow: Flow, module: Module, node: ast.expr, seen: frozenset[ast.AST] = frozenset()) -> bool:
    """Whether a mask that is added to scores surely holds floating-point numbers, as the fused function wants them."""
    found = triangle(flow, module, node)
    if found is not None:
        return _LOWEST in found[0]
    values = flow.values(node)
    if values and all(isinstance(each, Made) and each.name in _FLOATS for each in values):
        return True
    return node not in seen and any(
        each is None or holds_floats(flow, module, each, seen | {node}) for each in _makers(flow, module, node)
    )


def _makers(flow: Flow, module: Module, node: ast.expr) -> list[ast.expr | None]:
    """Of what a tensor is made whose floats become its own; None for floats that come from elsewhere."""
    match node:
        case ast.BinOp(left, operation, right) if isinstance(operation, ast.Div) or _is_float(left) or _is_float(right):
            return [None]
        case ast.BinOp(left, _, right):
            return [left, right]
        case ast.UnaryOp(ast.USub(), value) | ast.Subscript(value):
            return [value]
        case ast.Name():
            given = binding(flow, node)
            return [given] if given is not None and module.holds(given) else []
        case ast.Call():
            made, call = layers(flow, node), applied(flow, node)
            if made:
                return [None] if all(each.name in _FLOATING for each in made) else []
            is_float = call is not None and call.name == "float"
            return [None] if is_float else [call.tensor] if call is not None and call.name in _KEEPING else []
    return []


def _is_float(node: ast.expr) -> bool:
    inner = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(inner, ast.Constant) and isinstance(inner.value, float)
