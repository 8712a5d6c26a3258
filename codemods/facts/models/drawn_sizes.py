"""Is a model given tensors whose size is drawn at random in each iteration?

A random number of Python's is followed from where it is drawn, through names and functions of the project, to where it
is a size (``x[:, :n]``, ``torch.randn(n, 2)``), and what has that size to the model's call.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import LOOPS, lasting, walk
from codemods.dataflow.values import library_names
from codemods.facts.loops import module_of
from codemods.library.drawing import draws_number
from codemods.library.sizing import sizes_given

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module

_OF_NUMBERS = frozenset(f"builtins.{each}" for each in ("int", "float", "max", "min", "round", "abs"))
_REDUCES = frozenset({"item", "sum", "mean", "size", "numel", "dim", "norm", "tolist", "backward"})
"""Methods whose result, where nothing is said of dimensions, has no size of the tensor's."""
_Sum: TypeAlias = "dict[tuple[str, ...], int]"
_Reached: TypeAlias = "tuple[ast.Call | None, ast.Call | None]"
"""Where a random number is drawn that something is computed from, and one that says how large it is."""
_Known: TypeAlias = "dict[tuple[Callee, frozenset[str], frozenset[str]], _Reached]"
_Code: TypeAlias = "ast.Module | Callee"
_Statement: TypeAlias = "ast.Assign | ast.For"


@lasting
def drawn_size(flow: Flow, module: Module, call: ast.Call) -> ast.Call | None:
    """Where a random number is drawn in each iteration that says how large what the call is given is."""
    if not _drawing(flow):
        return None
    scope = _around(flow, module, call, frozenset(), {})
    return next((found for each in arguments_of(call) if (found := scope.sized(each)) is not None), None)


@lasting
def _drawing(flow: Flow) -> frozenset[_Code]:
    """The modules and functions that draw a random number, or run a function that does."""
    drawing: set[_Code] = set()
    running: defaultdict[_Code, set[_Code]] = defaultdict(set)
    for module in flow.modules:
        for call in module.nodes(ast.Call):
            code = module.function(call) or module.tree
            if draws_number(flow, call):
                drawing.add(code)
            for function in flow.called(call):
                running[function].add(code)
    left = list(drawing)
    while left:
        new = running[left.pop()] - drawing
        drawing |= new
        left += new
    return frozenset(drawing)


@lasting
def _may_be_given(flow: Flow, function: Callee) -> bool:
    """Whether code that may draw calls the function, through any number of calls."""
    drawing = _drawing(flow)
    seen: dict[_Code, None] = {function: None}
    for code in (left := [function]):
        for caller in flow.callers(code):
            module = module_of(flow, caller)
            above = module.function(caller)
            if (above or module.tree) in drawing:
                return True
            if above is not None and above not in seen:
                seen[above] = None
                left.append(above)
    return False


def _home(flow: Flow, code: _Code) -> Module:
    return next(each for each in flow.modules if each.tree is code or each.holds(code))


@lasting
def _statements(flow: Flow, code: _Code) -> tuple[_Statement, ...]:
    """What gives names something in the code itself, without that of the functions in it."""
    module, function = _home(flow, code), None if isinstance(code, ast.Module) else code
    found = (each for each in walk(code) if isinstance(each, (ast.Assign, ast.For)))
    return tuple(each for each in found if module.function(each) is function)


def _around(flow: Flow, module: Module, call: ast.AST, outer: frozenset[Callee], known: _Known) -> _Scope:
    """What random numbers reach in the function, or module, in which the call stands."""
    function = module.function(call)
    above = [each for each in module.ancestors(call) if isinstance(each, LOOPS) and module.function(each) is function]
    loop = above[0] if above else None
    if function is None:
        scope = _Scope(flow, module.tree, loop, outer, known)
    else:
        scope = _Scope(flow, function, loop, outer | {function}, known)
        for caller in flow.callers(function) if function not in outer and _may_be_given(flow, function) else ():
            scope.give(function, caller, _around(flow, module_of(flow, caller), caller, scope.outer, known))
    scope.follow()
    return scope


@dataclass(eq=False)
class _Scope:
    """A function, or a module, and what random numbers reach in it: each name, with where the number is drawn."""

    flow: Flow
    code: _Code
    loop: ast.AST | None
    """The loop around the call: what is drawn above it is one number for all iterations."""
    outer: frozenset[Callee]
    """The functions that are looked into already."""
    known: _Known
    """What functions return to which arguments."""
    _numbers: dict[str, ast.Call] = field(default_factory=dict)
    _sized: dict[str, ast.Call] = field(default_factory=dict)
    _seen: dict[tuple[bool, ast.expr], ast.Call | None] = field(default_factory=dict)
    """What expressions come to, with the names as they are now; with True the numbers."""

    @property
    def _is_dry(self) -> bool:
        """Whether nothing random can reach anything in the code."""
        return not self._numbers and not self._sized and self.code not in _drawing(self.flow)

    @cached_property
    def _module(self) -> Module:
        return _home(self.flow, self.code)

    def give(self, function: Callee, call: ast.Call, there: _Scope) -> None:
        """Gives the function's parameters what a call gives them."""
        for name, given in self.flow.bind(function, call).given.items():
            self._note([name], there.number(given), there.sized(given))

    def _note(self, names: Iterable[str], number: ast.Call | None, sized: ast.Call | None) -> None:
        before = len(self._numbers) + len(self._sized)
        for name in names:
            if number is not None:
                self._numbers.setdefault(name, number)
            if sized is not None:
                self._sized.setdefault(name, sized)
        if before < len(self._numbers) + len(self._sized):
            self._seen.clear()

    def follow(self) -> None:
        """Follows names through the statements until nothing more is reached."""
        if self._is_dry:
            return
        statements = _statements(self.flow, self.code)
        before = -1
        while before < len(self._numbers) + len(self._sized):
            before = len(self._numbers) + len(self._sized)
            for each in statements:
                if isinstance(each, ast.For):
                    self._note(_names(each.target), None, self.sized(each.iter))
                else:
                    names = [name for target in each.targets for name in _names(target)]
                    self._note(names, self.number(each.value), self.sized(each.value))

    def _is_own(self, node: ast.AST) -> bool:
        return self._module.function(node) is (None if isinstance(self.code, ast.Module) else self.code)

    # What a random number is, or reaches.

    def number(self, node: ast.expr) -> ast.Call | None:
        """Where the number is drawn that the expression is computed from, if there is one."""
        return self._known_of(node, is_number=True)

    def sized(self, node: ast.expr) -> ast.Call | None:
        """Where the number is drawn that says how large the expression is, if there is one."""
        return self._known_of(node, is_number=False)

    def _known_of(self, node: ast.expr, *, is_number: bool) -> ast.Call | None:
        if self._is_dry:
            return None
        key = (is_number, node)
        if key not in self._seen:
            self._seen[key] = self._number(node) if is_number else self._size(node)
        return self._seen[key]

    def _number(self, node: ast.expr) -> ast.Call | None:
        match node:
            case ast.Name(name):
                return self._numbers.get(name)
            case ast.BinOp(left, _, right):
                return self.number(left) or self.number(right)
            case ast.UnaryOp(_, inner) | ast.Starred(inner) | ast.Subscript(_, inner):
                return self.number(inner)
            case ast.IfExp(_, left, right):
                return self.number(left) or self.number(right)
            case ast.Tuple(parts) | ast.List(parts):
                return self._first(self.number(each) for each in parts)
            case ast.Call():
                if draws_number(self.flow, node):
                    return node if self._is_in_loop(node) else None
                if library_names(self.flow.values(node.func)) & _OF_NUMBERS:
                    return self._first(self.number(each) for each in node.args)
                return self._first(number for number, _ in self._returned(node))
        return None

    def _size(self, node: ast.expr) -> ast.Call | None:
        match node:
            case ast.Name(name):
                return self._sized.get(name)
            case ast.Attribute(_, "shape") | ast.Constant():
                return None
            case ast.Subscript(value, index, ast.Load()):
                parts = index.elts if isinstance(index, ast.Tuple) else [index]
                return self._first(self._cut(each) for each in parts) or self.sized(value)
            case ast.Call():
                return self._made(node)
            case ast.ListComp() | ast.GeneratorExp():
                return self._first(self._counted(each.iter) for each in node.generators)
            case ast.Lambda():
                return None
        return self._first(self.sized(each) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))

    def _made(self, call: ast.Call) -> ast.Call | None:
        """The same of what a call returns."""
        method = call.func if isinstance(call.func, ast.Attribute) else None
        reduces = method is not None and method.attr in _REDUCES and not arguments_of(call)
        if reduces or library_names(self.flow.values(call.func)) == {"builtins.len"}:
            return None
        said = self._first(self.number(each) for each in sizes_given(self.flow, call))
        if said is not None:
            return said
        returned = list(self._returned(call))
        if returned:
            return self._first(sized for _, sized in returned)
        given = [*arguments_of(call), *([method.value] if method is not None else [])]
        return self._first(self.sized(each) for each in given)

    def _returned(self, call: ast.Call) -> Iterator[_Reached]:
        """What reaches the results of functions of the project that the call runs."""
        for function in self.flow.called(call):
            if function in self.outer or not self._is_in_loop(call):
                continue
            scope = _Scope(self.flow, function, None, self.outer | {function}, self.known)
            scope.give(function, call, self)
            key = (function, frozenset(scope._numbers), frozenset(scope._sized))
            if key not in self.known:
                scope.follow()
                self.known[key] = scope._results
            yield self.known[key]

    @property
    def _results(self) -> _Reached:
        """What reaches the results of the function itself."""
        if isinstance(self.code, ast.Lambda):
            results = [self.code.body]
        else:
            own = (each for each in walk(self.code) if isinstance(each, (ast.Return, ast.Yield)) and self._is_own(each))
            results = [each.value for each in own if each.value is not None]
        return self._first(map(self.number, results)), self._first(map(self.sized, results))

    def _counted(self, node: ast.expr) -> ast.Call | None:
        """``range(n)``, or something that is as large."""
        if isinstance(node, ast.Call) and library_names(self.flow.values(node.func)) == {"builtins.range"}:
            return self._first(self.number(each) for each in node.args)
        return self.sized(node)

    def _cut(self, index: ast.expr) -> ast.Call | None:
        """The same of an index: what ``x[start:start + size]`` has is ``size``, wherever it starts."""
        if not isinstance(index, ast.Slice):
            return self.sized(index)
        length = _difference(self._written(index.upper), self._written(index.lower))
        return self._first(self.number(each) for each in length)

    def _written(self, node: ast.expr | None) -> ast.expr | None:
        """What a name is given, where one statement gives it something: ``end = start + size``."""
        if isinstance(node, ast.Name):
            given = list(self._module.assignments(node))
            if len(given) == 1 and isinstance(given[0].targets[0], ast.Name):
                value = given[0].value
                return value if isinstance(value, ast.BinOp) else node
        return node

    def _is_in_loop(self, node: ast.AST) -> bool:
        return self.loop is None or self.loop in self._module.ancestors(node)

    @staticmethod
    def _first(found: Iterable[ast.Call | None]) -> ast.Call | None:
        return next((each for each in found if each is not None), None)


def _names(target: ast.expr) -> Iterator[str]:
    match target:
        case ast.Name(name):
            yield name
        case ast.Tuple(parts) | ast.List(parts):
            for each in parts:
                yield from _names(each)
        case ast.Starred(inner):
            yield from _names(inner)


def _difference(upper: ast.expr | None, lower: ast.expr | None) -> list[ast.expr]:
    """What is left of ``upper - lower``, as factors: ``n`` of ``(i + 1) * n`` and ``i * n``."""
    factors: dict[str, ast.expr] = {}
    left = dict(_expanded(upper, factors))
    for key, count in _expanded(lower, factors).items():
        left[key] = left.get(key, 0) - count
    return [factors[each] for key, count in left.items() if count for each in key]


def _expanded(node: ast.expr | None, factors: dict[str, ast.expr]) -> _Sum:
    """The expression as a sum of products, each with how often it is added."""
    match node:
        case None:
            return {}
        case ast.Constant(int(number)):
            return {(): number}
        case ast.UnaryOp(ast.USub(), inner):
            return {key: -count for key, count in _expanded(inner, factors).items()}
        case ast.BinOp(one, ast.Add() | ast.Sub() as operator, other):
            found = dict(_expanded(one, factors))
            sign = 1 if isinstance(operator, ast.Add) else -1
            for key, count in _expanded(other, factors).items():
                found[key] = found.get(key, 0) + sign * count
            return found
        case ast.BinOp(one, ast.Mult(), other):
            product: _Sum = {}
            for key, count in _expanded(one, factors).items():
                for second, times in _expanded(other, factors).items():
                    both = tuple(sorted((*key, *second)))
                    product[both] = product.get(both, 0) + count * times
            return product
    name = ast.dump(node)
    factors[name] = node
    return {(name,): 1}
