"""The sizes of tensors in a layer's code, as far as the code itself says them: by ``view``, ``permute``, unpacking.

A size is the text of what was written for it: two of one text are the same number, wherever in the function they
stand, as long as nothing binds their names twice. Of what callers give and functions return, the number of sizes alone
is known: their texts mean something else there.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import signature
from codemods.dataflow.source import FUNCTIONS, LOOPS, lasting, unparsed, walk
from codemods.facts.loops import module_of
from codemods.facts.models.applied import applied, layers, whole_number
from codemods.facts.models.local_numbers import is_number
from codemods.library.attention import TURNING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.facts.models.applied import Applied

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
    | {"bfloat16", "double", "sigmoid", "tanh", "gelu", "silu", "requires_grad_"}
)
_JOINED = frozenset({"cat", "concat", "concatenate", "stack"})
_PARTS = frozenset({"chunk", "split", "unbind"})
_LINEAR = "torch.nn.Linear"
_EMBEDDING = "torch.nn.Embedding"
_KEEPING = frozenset(
    f"torch.nn.{name}" for name in ("Dropout", "LayerNorm", "RMSNorm", "Identity", "GELU", "ReLU", "SiLU")
)
_NEW = frozenset(f"torch.{name}" for name in ("randn", "rand", "zeros", "ones", "empty"))
_EINOPS = frozenset({"einops.rearrange", "einops.repeat"})


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
            case ast.Attribute(value, "mT"):
                whole = self.of(module, value, seen)
                return _swapped(whole, [-2, -1]) if whole is not None else None
            case ast.Subscript(value, index):
                return _indexed(self.of(module, value, seen), index)
            case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right) if is_number(
                self.flow, module, right
            ):
                return self.of(module, left, seen)
            case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right):
                return _broadcast(self.of(module, left, seen), self.of(module, right, seen))
            case ast.Compare(left, _, [right]) if not is_number(self.flow, module, right):
                return _broadcast(self.of(module, left, seen), self.of(module, right, seen))
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
            if given is not None and all(each.name == _EMBEDDING for each in made):
                return (*given, UNKNOWN)
            return given if all(each.name in _KEEPING for each in made) else None
        names = {each.name for each in self.flow.values(call.func)}
        if names and names <= _EINOPS:
            return _of_pattern(call.args[1]) if len(call.args) > 1 else None
        if names and names <= _NEW:
            return self._sizes(module, call.args)
        found = applied(self.flow, call)
        if found is None:
            return self._returned(call)
        if found.name == "arange":
            return (UNKNOWN,)
        if found.name in _LAID_OUT:
            return self._sizes(module, found.others)
        return self._of_operator(module, found, seen)

    def _of_operator(self, module: Module, found: Applied, seen: frozenset[ast.AST]) -> Shape | None:
        if found.name in _JOINED:
            parts = found.tensor.elts if isinstance(found.tensor, (ast.Tuple, ast.List)) else []
            whole = _unsized(self.of(module, each, seen) for each in parts)
            return whole if whole is None or found.name != "stack" else (*whole, UNKNOWN)
        given = self.of(module, found.tensor, seen)
        if given is None or found.name in _KEPT:
            return given
        if found.name == "unsqueeze" and len(found.others) == 1:
            return (UNKNOWN,) * (len(given) + 1)
        if found.name in TURNING:
            return _swapped(given, [whole_number(each) for each in found.others])
        if found.name == "permute":
            order = [whole_number(each) for each in found.others]
            return tuple(given[each] for each in order if each is not None) if len(order) == len(given) else None
        return None

    def _of_name(self, module: Module, node: ast.Name, seen: frozenset[ast.AST]) -> Shape | None:
        function = module.function(node)
        before, is_repeated = _stores(module, node)
        if not before:
            is_given = isinstance(function, FUNCTIONS) and node.id in signature(function).names
            if not is_given or is_repeated or not isinstance(function, FUNCTIONS):
                return None
            return self._unpacked(module, node, function, None) or self._passed(function, node.id)
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
            case ((ast.Tuple(targets) | ast.List(targets)), value):
                is_whole = not any(isinstance(each, ast.Starred) for each in targets)
                place = targets.index(last) if is_whole and last in targets[:-1] else None
                found = self._of_part(module, value, place, seen)
                if found is None and isinstance(value, ast.Call):
                    found = self._returned(value, targets.index(last))
        return found if found is not None else self._unpacked(module, node, function, statement)

    def given(self, module: Module, node: ast.Name) -> ast.expr | None:
        """What a name was given last, or what that is a part of; None where that is not known."""
        before, is_repeated = _stores(module, node)
        statement = module.statement(before[-1]) if before else None
        if is_repeated or not isinstance(statement, ast.Assign) or not _is_above(module, statement, node):
            return None
        match module.parent(before[-1]), statement.value:
            case ((ast.Tuple(targets) | ast.List(targets)), (ast.Tuple(values) | ast.List(values))):
                return values[targets.index(before[-1])] if len(targets) == len(values) else None
        return statement.value

    def _of_part(self, module: Module, node: ast.expr, place: int | None, seen: frozenset[ast.AST]) -> Shape | None:
        """The sizes that things have which an expression is unpacked to.

        Args:
            module: Where the expression stands.
            node: The expression.
            place: Which of the things it is; None for the last, which ``split`` may make smaller, and for any.
            seen: What is asked for already.
        """
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
        size = call.argument(0, "split_size", "split_size_or_sections") if call.name == "split" else None
        is_of_all = size is not None and place is not None and is_number(self.flow, module, size)
        return (
            *whole[:along],
            self._size(module, size) if size is not None and is_of_all else UNKNOWN,
            *whole[along + 1 :],
        )

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

    def _passed(self, function: Callee, name: str) -> Shape | None:
        """As many sizes as what every call gives a parameter has."""
        known = _asked(self.flow)
        if (function, name) not in known:
            known[function, name] = None  # what is computed of itself
            calls = [] if self.flow.escapes(function) else self.flow.callers(function)
            known[function, name] = _unsized(self._argument(function, call, name) for call in calls)
        return known[function, name]

    def _argument(self, function: Callee, call: ast.Call, name: str) -> Shape | None:
        binding = self.flow.bind(function, call)
        given = binding.get(name)
        module = module_of(self.flow, call)
        return self.of(module, given) if given is not None and binding.is_whole else None

    def _returned(self, call: ast.Call, item: int | None = None) -> Shape | None:
        """As many sizes as what the project's functions return has, or an item of the tuple that they do."""
        functions = self.flow.called(call)
        is_whole = len(functions) == len(self.flow.values(call.func))
        return _unsized(self._result(each, item) for each in functions) if is_whole else None

    def _result(self, function: Callee, item: int | None) -> Shape | None:
        known = _asked(self.flow)
        if (function, item) not in known:
            known[function, item] = None  # what is computed of itself
            module = self.flow.module_of(function)
            values = [each.value for each in module.nodes(ast.Return) if module.function(each) is function]
            results = [_item(each, item) for each in values]
            known[function, item] = _unsized(self.of(module, each) if each is not None else None for each in results)
        return known[function, item]

    def _sizes(self, module: Module, given: Sequence[ast.expr]) -> Shape | None:
        """The sizes that are told one by one, or in a tuple: ``view(B, T, -1)``, not ``view(shape)``."""
        sizes = given[0].elts if len(given) == 1 and isinstance(given[0], (ast.Tuple, ast.List)) else given
        is_plain = len(sizes) > 1 or sizes is not given
        if not is_plain or any(isinstance(each, (ast.Starred, ast.Tuple, ast.List)) for each in sizes):
            return None
        return tuple(self._size(module, each) for each in sizes)

    def _size(self, module: Module, node: ast.expr) -> Size:
        """A size by what is written for it; ``UNKNOWN`` where that may be another number elsewhere in the function."""
        if whole_number(node) is not None:
            return UNKNOWN if isinstance(node, ast.UnaryOp) else unparsed(node)
        return unparsed(node) if is_settled(module, node) else UNKNOWN


def _stores(module: Module, node: ast.Name) -> tuple[list[ast.Name | ast.Attribute], bool]:
    """Where a name is given something above a place that reads it, and whether a loop may bring what is given below."""
    function = module.function(node)
    stores = [each for each in module.stores.get(node.id, ()) if module.function(each) is function]
    # `x += y` leaves a tensor as many and as large dimensions as it has.
    stores = [each for each in stores if not _is_elementwise(module.parent(each))]
    start = module.span(module.statement(node))[0]
    before = [each for each in stores if module.span(each)[0] < start]
    return before, any(isinstance(each, LOOPS) for each in module.ancestors(node)) and len(stores) > len(before)


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


def _is_elementwise(statement: ast.AST | None) -> bool:
    """Whether a statement updates a tensor in place, and not by a product of matrices."""
    return isinstance(statement, ast.AugAssign) and not isinstance(statement.op, ast.MatMult)


def _indexed(shape: Shape | None, index: ast.expr) -> Shape | None:
    """The sizes of an item or a part: ``x[0]``, ``x[:, :T]``, ``x[:, None]``."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    found: list[Size] = []
    rest = list(shape or ())
    for part in parts:
        is_new = isinstance(part, ast.Constant) and part.value is None
        if shape is None or not (is_new or (rest and (whole_number(part) is not None or isinstance(part, ast.Slice)))):
            return None
        if is_new:
            found.append("1")
            continue
        size = rest.pop(0)
        if isinstance(part, ast.Slice):
            found.append(size if part.lower is part.upper is part.step is None else UNKNOWN)
    return (*found, *rest)


def _broadcast(one: Shape | None, other: Shape | None) -> Shape | None:
    """The sizes of a sum or product of two tensors: as many as the one has that has more."""
    return None if one is None or other is None else (UNKNOWN,) * max(len(one), len(other))


def _unsized(shapes: Iterable[Shape | None]) -> Shape | None:
    """As many sizes as all of the shapes have, each of them unknown; None where one is not known, or has others."""
    counts = {len(each) if each is not None else None for each in shapes}
    (count,) = counts if len(counts) == 1 else (None,)
    return None if count is None else (UNKNOWN,) * count


def _item(value: ast.expr | None, item: int | None) -> ast.expr | None:
    if item is None:
        return value
    return value.elts[item] if isinstance(value, ast.Tuple) and item < len(value.elts) else None


@lasting
def _asked(flow: Flow) -> dict[tuple[Callee, str | int | None], Shape | None]:  # noqa: ARG001 - what it lives with
    """What was found so far of parameters, by their names, and of results, by their places; None of what is asked."""
    return {}


def _swapped(shape: Shape, dims: list[int | None]) -> Shape | None:
    if len(dims) != 2 or None in dims:  # noqa: PLR2004 - two are swapped
        return None
    one, other = (each % len(shape) for each in dims if each is not None)
    found = list(shape)
    found[one], found[other] = found[other], found[one]
    return tuple(found)


def _of_pattern(node: ast.expr) -> Shape | None:
    """The dimensions on the right of einops' pattern: ``b n (h d) -> b h n d``."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return None
    depth, count = 0, 0
    for word in node.value.partition("->")[2].replace("(", " ( ").replace(")", " ) ").split():
        if depth == 0 and word == "...":
            return None
        if depth == 0:
            count += 1
        depth += {"(": 1, ")": -1}.get(word, 0)
    return (UNKNOWN,) * count if count else None
