"""The sizes of tensors in a layer's code, as far as the code itself says them: by ``view``, ``permute``, unpacking.

A size is the text of what was written for it: two of one text are the same number, wherever in the function they
stand, as long as nothing binds their names twice.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import signature
from codemods.dataflow.source import FUNCTIONS, LOOPS, lasting, unparsed, walk
from codemods.facts.models.applied import applied, layers, whole_number
from codemods.facts.models.local_numbers import is_number
from codemods.library.attention import TURNING

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module

Size = str
UNKNOWN = ""
Shape = tuple[Size, ...]

_LAID_OUT = frozenset({"view", "reshape"})
_KEPT = frozenset(
    {
        "contiguous",
        "clone",
        "float",
        "half",
        "to",
        "type_as",
        "detach",
        "softmax",
        "masked_fill",
        "masked_fill_",
        "dropout",
    }
    | {"div", "mul", "div_", "mul_", "relu", "exp", "normalize", "abs", "neg", "type", "cuda", "cpu"}
)
_PARTS = frozenset({"chunk", "split", "unbind"})
_LINEAR = "torch.nn.Linear"
_KEEPING = frozenset(
    f"torch.nn.{name}" for name in ("Dropout", "LayerNorm", "RMSNorm", "Identity", "GELU", "ReLU", "SiLU")
)
_EINOPS = "einops.rearrange"


@dataclass(frozen=True, eq=False)
class Shapes:
    """Answers for one project."""

    flow: Flow

    def of(self, module: Module, node: ast.expr, seen: frozenset[ast.AST] = frozenset()) -> Shape | None:
        """The sizes of a tensor; None where not even their number is known, ``UNKNOWN`` for one that is not."""
        if node in seen:
            return None
        seen |= {node}
        match node:
            case ast.Name():
                return self._of_name(module, node, seen)
            case ast.Subscript(value, index):
                owner = self.of(module, value, seen)
                return owner[1:] if owner is not None and whole_number(index) is not None else None
            case ast.BinOp(left, ast.Mult() | ast.Div(), right) if is_number(self.flow, module, right):
                return self.of(module, left, seen)
            case ast.Compare(left) | ast.UnaryOp(ast.Invert(), left):
                return self.of(module, left, seen)
            case ast.Call():
                return self._of_call(module, node, seen)
        return None

    def _of_call(self, module: Module, call: ast.Call, seen: frozenset[ast.AST]) -> Shape | None:
        made = layers(self.flow, call)
        if made:
            given = self.of(module, call.args[0], seen)
            if given is not None and all(each.name == _LINEAR for each in made):
                return (*given[:-1], UNKNOWN)
            return given if all(each.name in _KEEPING for each in made) else None
        if {each.name for each in self.flow.values(call.func)} == {_EINOPS}:
            return _of_pattern(call.args[1]) if len(call.args) > 1 else None
        found = applied(self.flow, call)
        if found is None:
            return None
        if found.name == "arange":
            return (UNKNOWN,)
        if found.name in _LAID_OUT:
            return tuple(self._size(module, each) for each in found.others) if _is_plain(found.others) else None
        given = self.of(module, found.tensor, seen)
        if given is None or found.name in _KEPT:
            return given
        if found.name in TURNING:
            return _swapped(given, [whole_number(each) for each in found.others])
        if found.name == "permute":
            order = [whole_number(each) for each in found.others]
            return tuple(given[each] for each in order if each is not None) if len(order) == len(given) else None
        return None

    def _of_name(self, module: Module, node: ast.Name, seen: frozenset[ast.AST]) -> Shape | None:
        function = module.function(node)
        stores = [each for each in module.stores.get(node.id, ()) if module.function(each) is function]
        start = module.span(module.statement(node))[0]
        before = [each for each in stores if module.span(each)[0] < start]
        is_repeated = any(isinstance(each, LOOPS) for each in module.ancestors(node)) and len(stores) > len(before)
        if not before:
            is_given = isinstance(function, FUNCTIONS) and node.id in signature(function).names
            return self._unpacked(module, node, function, None) if is_given and not stores else None
        last = before[-1]
        statement = module.statement(last)
        if is_repeated or not isinstance(statement, ast.Assign) or not _is_above(module, statement, node):
            return None
        found: Shape | None = None
        match module.parent(last), statement.value:
            case ast.Assign(), value:
                found = self.of(module, value, seen)
            case ((ast.Tuple(targets) | ast.List(targets)), (ast.Tuple(values) | ast.List(values))) if len(
                targets
            ) == len(values):
                found = self.of(module, values[targets.index(last)], seen)
            case ((ast.Tuple() | ast.List()), value):
                found = self._of_part(module, value, seen)
        return found if found is not None else self._unpacked(module, node, function, statement)

    def _of_part(self, module: Module, node: ast.expr, seen: frozenset[ast.AST]) -> Shape | None:
        """The sizes that all things have which an expression is unpacked to."""
        match node:
            case ast.Call(ast.Name("map"), [ast.Lambda(_, body), _]) | ast.GeneratorExp(body) | ast.ListComp(body):
                # Each part is laid out alike, but by sizes of its own.
                found = self.of(module, body, seen)
                return (UNKNOWN,) * len(found) if found is not None else None
        call = applied(self.flow, node)
        whole = self.of(module, call.tensor, seen) if call is not None and call.name in _PARTS else None
        if call is None or whole is None:
            return None
        along = whole_number(call.argument(0 if call.name == "unbind" else 1, "dim"))
        along = 0 if along is None and call.argument(0 if call.name == "unbind" else 1, "dim") is None else along
        if along is None:
            return None
        along %= len(whole)
        if call.name == "unbind":
            return (*whole[:along], *whole[along + 1 :])
        return (*whole[:along], UNKNOWN, *whole[along + 1 :])

    def _unpacked(
        self, module: Module, node: ast.Name, function: ast.AST | None, since: ast.stmt | None
    ) -> Shape | None:
        """The sizes to which ``B, T, C = x.shape`` gives names after the tensor was made."""
        start = module.span(since) if since is not None else (0, 0)
        for statement in module.nodes(ast.Assign):
            is_between = start < module.span(statement) < module.span(module.statement(node))
            if module.function(statement) is not function or not is_between:
                continue
            match statement:
                case ast.Assign([ast.Tuple(targets)], ast.Attribute(ast.Name(name), "shape")) if name == node.id:
                    pass
                case ast.Assign([ast.Tuple(targets)], ast.Call(ast.Attribute(ast.Name(name), "size"), [])) if (
                    name == node.id
                ):
                    pass
                case _:
                    continue
            if not any(isinstance(each, ast.Starred) for each in targets):
                return tuple(self._size(module, each) for each in targets)
        return None

    def _size(self, module: Module, node: ast.expr) -> Size:
        """A size by what is written for it; ``UNKNOWN`` where that may be another number elsewhere in the function."""
        if whole_number(node) is not None:
            return UNKNOWN if isinstance(node, ast.UnaryOp) else unparsed(node)
        return unparsed(node) if is_settled(module, node) else UNKNOWN


@lasting
def is_settled(module: Module, node: ast.expr) -> bool:
    """Whether all names and attributes in the expression are bound once in the function, or only outside of it."""
    function = module.function(node)
    for each in walk(node):
        if isinstance(each, (ast.Call, ast.NamedExpr, ast.Await, ast.Starred)) and not _asks_size(each):
            return False
        if isinstance(each, (ast.Name, ast.Attribute)):
            stores = [one for one in module.stores.get(unparsed(each), ()) if module.function(one) is function]
            is_given = isinstance(function, FUNCTIONS) and unparsed(each) in signature(function).names
            if len(stores) + is_given > 1:
                return False
    return True


def _asks_size(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "size"


def _is_above(module: Module, statement: ast.stmt, node: ast.AST) -> bool:
    """Whether the statement stands in a block around the node, so that it has run where the node does."""
    block = module.suite(statement)
    around = (module.statement(node), *module.ancestors(node))
    return any(each is one for each in around for one in block)


def _is_plain(sizes: object) -> bool:
    """Whether each size is an argument of its own: ``view(B, T, -1)``, not ``view(shape)``."""
    return (
        isinstance(sizes, (list, tuple))
        and len(sizes) > 1
        and not any(isinstance(each, (ast.Starred, ast.Tuple, ast.List)) for each in sizes)
    )


def _swapped(shape: Shape, dims: list[int | None]) -> Shape | None:
    if len(dims) != 2 or None in dims:  # noqa: PLR2004 - two are swapped
        return None
    one, other = (each % len(shape) for each in dims if each is not None)
    found = list(shape)
    found[one], found[other] = found[other], found[one]
    return tuple(found)


def _of_pattern(node: ast.expr) -> Shape | None:
    """The dimensions on the right of einops' pattern: ``b n (h d) -> b h n d``."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or "..." in node.value:
        return None
    depth, count = 0, 0
    for word in node.value.partition("->")[2].replace("(", " ( ").replace(")", " ) ").split():
        if depth == 0:
            count += 1
        depth += {"(": 1, ")": -1}.get(word, 0)
    return (UNKNOWN,) * count if count else None
