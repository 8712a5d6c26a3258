"""Which tensors may hold 16-bit floats after a block under autocast, and which of their uses need 32 bits."""

from __future__ import annotations

import ast
import enum
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from codemods.dataflow.recursion import Answers
from codemods.dataflow.source import FUNCTIONS, is_name, lasting, walk
from codemods.dataflow.values import TENSOR_SORTS, Sort, Value, without_none
from codemods.facts.precision.hazards import Hazard, is_tiny, numbers
from codemods.facts.precision.tolerance import Tolerance
from codemods.facts.reach import own, project_functions, stores
from codemods.library.kinds import Kind, kind
from codemods.library.operations import Parts, operands, operation, parts
from codemods.library.operators import Autocast, Memory, Result, attribute, needs_wide_operand, reads_no_numbers
from codemods.library.packages import Trait, has

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.facts.reach import Reach
    from codemods.facts.training.loss_regions import Block

_BELOW_ONE = {"bf16": 2.0**-9, "fp16": 2.0**-12}
"""How far below 1 a number is at most that is 1 in the format."""
_CONVERTS = frozenset({"to", "type", "view"})
_OF_PYTHON = frozenset({"int", "float", "bool"})
_HALF_TYPES = ("float16", "half", "bfloat16", "HalfTensor")
_FLOAT_SAMPLES = frozenset(
    f"torch.distributions.{name}"
    for name in (
        *("Normal", "Bernoulli", "Beta", "Gamma", "Dirichlet", "Exponential", "Laplace", "LogNormal", "Uniform"),
        *("MultivariateNormal", "OneHotCategorical", "RelaxedBernoulli", "RelaxedOneHotCategorical"),
    )
)
"""Distributions that draw numbers in the format of their parameters."""
_OF_DISTRIBUTIONS = frozenset({"log_prob", "entropy", "mean", "stddev", "variance"})
"""What yields numbers in that format whatever is drawn."""

_RECURRENT = frozenset(
    {"torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN", "torch.nn.LSTMCell", "torch.nn.MultiheadAttention"}
)
_DATA_PARALLEL = "torch.nn.parallel.data_parallel"
_ONE_STATE = frozenset({"torch.nn.GRU", "torch.nn.RNN"})
_PYTHON = frozenset(
    Value(Sort.EXTERNAL, f"builtins.{name}")
    for name in (
        *("len", "range", "str", "print", "format", "int", "float", "bool", "isinstance", "repr", "id", "type"),
        *("hasattr", "all", "any"),
    )
)
"""Functions of Python that return no tensor, whatever they are given."""


class Format(enum.IntEnum):
    """What an expression under autocast holds."""

    OTHER = 0
    """32-bit floats, integers, or no tensor at all."""
    NARROW = 1
    """A tensor that may hold 16-bit floats."""
    UNKNOWN = 2
    """Perhaps several tensors, or an object of the project's."""


@dataclass(frozen=True, slots=True)
class _Several:
    """The formats of the tensors in a tuple."""

    first: Format
    others: Format

    @property
    def whole(self) -> Format:
        """The format of all of them: they are no tensor."""
        return Format.OTHER if max(self.first, self.others) is Format.OTHER else Format.UNKNOWN

    def item(self, index: ast.expr) -> Format:
        """The format of one of them."""
        number = ast.unparse(index)
        if number == "0":
            return self.first
        is_other = number.isdecimal() or number == "-1"
        return self.others if is_other or self.first is self.others else Format.UNKNOWN

    def elements(self, count: int) -> list[Format]:
        """The formats of that many of them."""
        return [self.first, *([self.others] * (count - 1))][:count]


@dataclass(eq=False)
class Formats:
    """The formats of what a block under autocast computes."""

    flow: Flow
    calls_model: Callable[[ast.Call], bool]
    names: dict[str, Format] = field(default_factory=dict)
    """What the names and attributes bound so far hold."""
    _several: dict[str, _Several] = field(default_factory=dict)
    """The same of those that hold several tensors."""

    def run(self, statements: Iterable[ast.stmt]) -> None:
        """Takes the assignments of the statements in, in their order; branches are joined."""
        for statement in statements:
            for node in own(
                statement, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.With, ast.NamedExpr, ast.Call
            ):
                self._take(node)

    def _take(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets, value):
                for target in targets:
                    self._bind(target, value)
            case ast.AnnAssign(target, _, ast.expr() as value) | ast.NamedExpr(target, value):
                self._bind(target, value)
            case ast.AugAssign(target, _, value):
                self._join(target, max(self.of(value), self.of(target)))
            case ast.For(target, iterated):
                self._join_all(target, self.of(iterated))
            case ast.Call(ast.Attribute(container, "append"), [value]):
                if self.of(value) is not Format.OTHER:
                    self._join(container, Format.UNKNOWN)

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
                for one, other in zip(target.elts, value.elts, strict=True):
                    self._bind(one, other)
                return
            formats = self._elements(value, len(target.elts))
            for one, format_ in zip(target.elts, formats, strict=True):
                several = _Several(format_, format_)
                self._join_all(one, several.whole if isinstance(one, ast.Starred) else format_)
            return
        held = self._parts(value)
        if held is not None and isinstance(target, (ast.Name, ast.Attribute)):
            self._several[ast.unparse(target)] = held
        self._join(target, self.of(value))

    def _elements(self, value: ast.expr, count: int) -> list[Format]:
        """What the elements of an unpacked expression hold."""
        several = self._parts(value, is_unpacked=True)
        if several is not None:
            return several.elements(count)
        if isinstance(value, ast.Call):
            functions = self._run_by(value)
            if functions:
                each_returned = [self._returned(each, value, count) for each in functions]
                return [max(column) for column in zip(*each_returned, strict=True)]
        return [self.of(value)] * count

    def _parts(self, value: ast.expr, *, is_unpacked: bool = False) -> _Several | None:
        """What the tensors in a tuple hold; None where it is no tuple, or one of the project's."""
        if not isinstance(value, ast.Call):
            return self._several.get(ast.unparse(value)) if isinstance(value, (ast.Name, ast.Attribute)) else None
        layers = {each.name for each in self.flow.values(value.func) if each.sort is Sort.MADE}
        if layers and layers <= _RECURRENT:  # output and state
            return _Several(Format.NARROW, Format.NARROW if layers <= _ONE_STATE else Format.UNKNOWN)
        consists_of = parts(self.flow, value)
        if consists_of is Parts.ONE or (consists_of is Parts.ONE_OR_VALUES_FIRST and not is_unpacked):
            return None
        first = self._computed(value)
        return _Several(first, first if consists_of is Parts.ALIKE else Format.OTHER)

    def elements_of_results(self, function: Callee, count: int) -> list[Format]:
        """What the elements of the tuples hold that the function returns, of which these are the names."""
        found = [Format.OTHER] * count
        for node in own(function, ast.Return):
            if isinstance(node.value, ast.Tuple) and len(node.value.elts) == count:
                formats = [self.of(each) for each in node.value.elts]
            elif node.value is not None:
                formats = self._elements(node.value, count)
            else:
                continue
            found = [max(pair) for pair in zip(found, formats, strict=True)]
        return found

    def of_results(self, function: Callee) -> Format:
        """What the function returns, of which these are the names."""
        if isinstance(function, ast.Lambda):
            return self.of(function.body)
        results = [self.of(each.value) for each in own(function, ast.Return) if each.value is not None]
        return max(results, default=Format.OTHER)

    def _join_all(self, target: ast.expr, format_: Format) -> None:
        for each in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
            self._join(each, format_)

    def _join(self, target: ast.expr, format_: Format) -> None:
        while isinstance(target, (ast.Subscript, ast.Starred)):
            # What is assigned to an element takes the format of the whole.
            format_ = format_ if isinstance(target, ast.Starred) else Format.OTHER
            target = target.value
        text = ast.unparse(target)
        self.names[text] = max(self.names.get(text, Format.OTHER), format_)

    def leaves_torch(self, statements: Iterable[ast.stmt]) -> ast.Call | None:
        """Where a 16-bit tensor becomes an array, which bf16 cannot: in the statements, or in what they call."""
        for call in (each for statement in statements for each in own(statement, ast.Call)):
            if (
                isinstance(call.func, ast.Attribute)
                and call.func.attr == "numpy"
                and self.of(call.func.value) is not Format.OTHER
            ):
                return call
            is_numpy = any(
                has(each.name, Trait.ARRAYS) for each in self.flow.values(call.func) if each.sort is Sort.EXTERNAL
            )
            if is_numpy and any(self.of(each) is not Format.OTHER for each in call.args):
                return call
            functions = _functions(self.flow, self.calls_model)
            inside = (functions.leaving.of((each, self._given(each, call))) for each in self._run_by(call))
            found = next((each for each in inside if each is not None), None)
            if found is not None:
                return found
        return None

    # Expressions.

    def of(self, node: ast.expr) -> Format:
        """What the expression holds."""
        match node:
            case ast.Name() | ast.Attribute() if ast.unparse(node) in self.names:
                return self.names[ast.unparse(node)]
            case ast.Attribute(value, name):
                return self._attribute(value, name)
            case ast.Subscript(value, index):
                several = self._parts(value)
                return self.of(value) if several is None else several.item(index)
            case ast.Call():
                return self._call(node)
            case ast.Compare() | ast.Constant() | ast.JoinedStr() | ast.Lambda():
                return Format.OTHER
            case ast.BinOp(left, ast.Pow() | ast.Div(), right) if isinstance(left, ast.Constant) or isinstance(
                node.op, ast.Pow
            ):
                return (
                    Format.OTHER
                    if self.of(left) is not Format.UNKNOWN and self.of(right) is not Format.UNKNOWN
                    else Format.UNKNOWN
                )
            case ast.BinOp(left, ast.MatMult(), right) if self._is_tensor(node):
                return Format.NARROW
            case ast.Tuple() | ast.List() | ast.Dict() | ast.ListComp() | ast.DictComp() | ast.GeneratorExp():
                inside = max(
                    (self.of(each) for each in walk(node) if isinstance(each, (ast.Name, ast.Call, ast.Attribute))),
                    default=Format.OTHER,
                )
                return Format.OTHER if inside is Format.OTHER else Format.UNKNOWN
            case _:
                return max(
                    (self.of(each) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)),
                    default=Format.OTHER,
                )

    def _attribute(self, value: ast.expr, name: str) -> Format:
        """What an attribute holds: of a tensor, of several in one object, or of what ``max(dim)`` returns."""
        several = self._parts(value)
        if several is not None:
            return several.others if name == "indices" else several.first
        whole = self.of(value)
        if whole is Format.UNKNOWN:
            return Format.OTHER if name == "indices" or reads_no_numbers(name) else Format.UNKNOWN
        row = attribute(name)
        return whole if row is not None and row.memory is Memory.VIEW else Format.OTHER

    def _call(self, call: ast.Call) -> Format:
        values = self.flow.values(call.func)
        if any(kind(self.flow, each) is Kind.LOSS and each.sort is Sort.MADE for each in values):
            return Format.OTHER
        functions = self._run_by(call)
        if functions:
            return max(format_ for each in functions for format_ in self._returned(each, call))
        several = self._parts(call)
        if several is not None:
            return several.whole
        if any(each.name == _DATA_PARALLEL for each in values) and call.args:
            layers = self.flow.values(call.args[0])
            is_one = all(kind(self.flow, each) is Kind.MODEL and each.sort is Sort.MADE for each in layers)
            return Format.NARROW if is_one and not {each.name for each in layers} & _RECURRENT else Format.UNKNOWN
        if self.calls_model(call):
            is_several = any(each.name in _RECURRENT for each in values)
            return Format.NARROW if self._is_tensor(call) and not is_several else Format.UNKNOWN
        if isinstance(call.func, ast.Attribute):
            drawn = self._of_distribution(call.func)
            if drawn is not None:
                return drawn
        if isinstance(call.func, ast.Name) and values and values <= _PYTHON:
            return Format.OTHER
        if parts(self.flow, call) is Parts.ONE_OR_VALUES_FIRST and not self._is_elementwise(call):
            return Format.OTHER if self._computed(call) is Format.OTHER else Format.UNKNOWN
        return self._computed(call)

    def _is_elementwise(self, call: ast.Call) -> bool:
        """Whether ``torch.max(x, y)`` is of two tensors."""
        return any(self.of(each) is Format.NARROW for each in operands(self.flow, call)[1:])

    def _computed(self, call: ast.Call) -> Format:
        """What an operator of torch, or code that is not followed, computes: the first of it, where it is several."""
        found = operation(self.flow, call)
        asked = self._asked_for(call)
        if asked is not None:
            return asked
        given = operands(self.flow, call)
        if found is not None:
            if found.has_no_floats or found.is_wide or found.autocast is Autocast.BANNED:
                return Format.OTHER
            if found.result is Result.HALF or found.autocast is Autocast.LOW:
                return Format.NARROW
            if found.result is Result.CAST or found.memory is not Memory.NEW or found.result is Result.FRESH:
                # The others give a size, or a device.
                given = given[:1]
        formats = [self.of(each.value if isinstance(each, ast.Starred) else each) for each in given]
        widest = max(formats, default=Format.OTHER)
        if widest is Format.OTHER:
            return Format.OTHER
        if found is None or found.result is Result.COMPLEX:
            return Format.UNKNOWN
        return Format.NARROW if self._is_tensor(call) else widest

    def _of_distribution(self, function: ast.Attribute) -> Format | None:
        """What a method of a distribution yields; None where it is none of a distribution's."""
        names = {each.name for each in self.flow.values(function.value) if each.sort is Sort.MADE}
        if not names or not all(each.startswith("torch.distributions.") for each in names):
            return None
        if names == {"torch.distributions.Categorical"} and function.attr == "sample":
            return Format.OTHER
        is_known = names <= _FLOAT_SAMPLES or function.attr in _OF_DISTRIBUTIONS
        return Format.NARROW if is_known else Format.UNKNOWN

    def _asked_for(self, call: ast.Call) -> Format | None:
        """The format that the call asks for by ``dtype=…``, ``.to(torch.long)`` or ``.type_as(…)``; None where none."""
        name = _last_name(call)
        given = [each.value for each in call.keywords if each.arg == "dtype"]
        if name in _CONVERTS and isinstance(call.func, ast.Attribute):
            given += call.args
            if name == "type" and not given:
                return Format.OTHER  # the name of its type
        if name == "type_as" and call.args:
            return self.of(call.args[-1])
        for each in given:
            if isinstance(each, ast.Attribute) and each.attr == "dtype":
                return self.of(each.value)
            if name == "to" and self._is_tensor(each):
                return self.of(each)
        texts = [ast.unparse(each) for each in given]
        types = [each for each in texts if "torch." in each or each.endswith(("dtype", "Tensor")) or each in _OF_PYTHON]
        if name == "type" and not types:
            types = texts
        if any("cuda" in text and "Tensor" not in text for text in types) or not types:
            return None
        return Format.NARROW if any(half in text for text in types for half in _HALF_TYPES) else Format.OTHER

    def _run_by(self, call: ast.Call) -> Sequence[Callee]:
        """The project's functions that the call runs, where they are all that it may run."""
        found = self.flow.called(call)
        return found if len(found) == len(without_none(self.flow.values(call.func))) else []

    def _returned(self, function: Callee, call: ast.Call, count: int | None = None) -> Sequence[Format]:
        """What the project's function returns for these arguments, or so many elements of that."""
        found = _functions(self.flow, self.calls_model).returned.of((function, self._given(function, call), count))
        return found or [Format.OTHER] * (count or 1)

    def _given(self, function: Callee, call: ast.Call) -> _Given:
        binding = self.flow.bind(function, call)
        return frozenset((name, max(map(self.of, given))) for name, given in binding.filled())

    def _is_tensor(self, node: ast.expr) -> bool:
        values = without_none(self.flow.values(node))
        return bool(values) and all(each.sort in TENSOR_SORTS for each in values)


_Given: TypeAlias = "frozenset[tuple[str, Format]]"


class _Functions:
    """What functions of the project do under autocast, by what their parameters hold."""

    def __init__(self, flow: Flow, calls_model: Callable[[ast.Call], bool]) -> None:
        self._flow = flow
        self._calls_model = calls_model
        self.returned: Answers[tuple[Callee, _Given, int | None], tuple[Format, ...]] = Answers(
            lambda asked: self._returns(*asked), (), lambda one, other: tuple(map(max, one, other or one))
        )
        """What they return, or so many elements of that."""
        self.leaving: Answers[tuple[Callee, _Given], ast.Call | None] = Answers(
            lambda asked: self._leaves_torch(*asked), None, lambda one, other: one or other
        )
        """Where they make an array of a 16-bit tensor."""

    def _after(self, function: Callee, given: _Given) -> Formats:
        """The formats in the function, once it has run."""
        inner = Formats(self._flow, self._calls_model, dict(given))
        if not isinstance(function, ast.Lambda):
            inner.run(function.body)
        return inner

    def _returns(self, function: Callee, given: _Given, count: int | None) -> tuple[Format, ...]:
        inner = self._after(function, given)
        return (inner.of_results(function),) if count is None else (*inner.elements_of_results(function, count),)

    def _leaves_torch(self, function: Callee, given: _Given) -> ast.Call | None:
        body = function.body
        return self._after(function, given).leaves_torch(body) if isinstance(body, list) else None


@lasting  # what functions do is asked for again and again
def _functions(flow: Flow, calls_model: Callable[[ast.Call], bool]) -> _Functions:
    return _Functions(flow, calls_model)


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def vanishing(
    reach: Reach, calls_model: Callable[[ast.Call], bool], module: Module, nodes: Sequence[ast.AST]
) -> Hazard | None:
    """Where a number that fp16 takes for zero is to keep a 16-bit tensor from being zero: ``x / (x.std() + 1e-8)``.

    Of what a function is given it is not known, so it counts as 16 bits wide.
    """
    for where, node in reach.code(module, nodes):
        formats = formats_in(reach.flow, calls_model, node, nodes)
        for kept, number in _kept_from_zero(node):
            if is_tiny(where, number) and formats.of(kept) is not Format.OTHER:
                return Hazard(where, number, f"{where.code(number)} is zero in fp16", only_fp16=True)
    return None


def rounded_bound(
    reach: Reach, calls_model: Callable[[ast.Call], bool], module: Module, nodes: Sequence[ast.AST]
) -> Hazard | None:
    """Where a 16-bit tensor is kept off 1 by a bound that is 1 in 16 bits: ``p.clamp(1e-4, 1 - 1e-4)``.

    Of what a function is given it is not known, so it counts as 16 bits wide.
    """
    for where, node in reach.code(module, nodes):
        formats = formats_in(reach.flow, calls_model, node, nodes)
        for kept, bound in _kept_below(node):
            distance = min((1 - each for each in _differences(where, bound) if 0 < each < 1), default=1.0)
            if distance <= _BELOW_ONE["bf16"] and formats.of(kept) is not Format.OTHER:
                only_bf16 = distance > _BELOW_ONE["fp16"]
                width = "bf16" if only_bf16 else "16 bits"
                text = f"{where.code(bound)} is 1 in {width}, so that nothing is kept off 1:"
                remedy = f"give it {where.code(kept)}.float()"
                return Hazard(where, bound, text, remedy=remedy, only_bf16=only_bf16)
    return None


def _kept_below(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What is kept below a bound, and the bound: ``torch.clamp(x, 0, 0.999)``, ``x.clamp_(max=0.999)``."""
    for call in own(node, ast.Call):
        name = _last_name(call)
        if name not in {"clamp", "clamp_", "clip", "clip_", "clamp_max", "clamp_max_", "minimum"}:
            continue
        operands = [*call.args]
        is_method = isinstance(call.func, ast.Attribute) and not (
            isinstance(call.func.value, ast.Name) and call.func.value.id in {"torch", "np", "numpy"}
        )
        if is_method:
            operands.insert(0, call.func.value)  # type: ignore[attr-defined]
        bounds = [*operands[1:], *(each.value for each in call.keywords if each.arg == "max")]
        yield from ((operands[0], each) for each in bounds[-1:] if operands)


def _differences(module: Module, node: ast.expr) -> Iterator[float]:
    """The numbers that an expression may be, which may be written as a difference: ``1 - 1e-4``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        right = [abs(each) for each in numbers(module, node.right)]
        yield from (one - other for one in numbers(module, node.left) for other in right)
    else:
        yield from numbers(module, node)


def narrow_operand(
    reach: Reach, calls_model: Callable[[ast.Call], bool], module: Module, nodes: Sequence[ast.AST]
) -> Hazard | None:
    """Where a loss is given 16 bits, for which it has no kernel, and autocast does not widen them: ``ctc_loss(x, …)``.

    Of what a function is given it is not known, so it counts as 16 bits wide.
    """
    for where, node in reach.code(module, nodes):
        for call in own(node, ast.Call):
            if not call.args or not _is_only_wide(reach.flow, call):
                continue
            if formats_in(reach.flow, calls_model, node, nodes).of(call.args[0]) is not Format.OTHER:
                text = (
                    f"{where.code(call.func)} has no 16-bit kernel on CUDA, and autocast does not widen what it gets:"
                )
                given = where.code(call.args[0])
                return Hazard(where, call, text, remedy=f"give it {given}.float(), or torch.log_softmax of logits")
    return None


def _is_only_wide(flow: Flow, call: ast.Call) -> bool:
    return any(
        needs_wide_operand(each.name) for each in flow.values(call.func) if each.sort in {Sort.EXTERNAL, Sort.MADE}
    )


def formats_in(flow: Flow, calls_model: Callable[[ast.Call], bool], node: ast.AST, nodes: Sequence[ast.AST]) -> Formats:
    """The formats in a function or a block; the arguments of a function count as 16 bits wide."""
    formats = Formats(flow, calls_model)
    if isinstance(node, FUNCTIONS):
        formats.names |= dict.fromkeys(flow.signature(node).names, Format.NARROW)
    formats.run(_statements(node, nodes))
    return formats


def old_against_new(
    reach: Reach, calls_model: Callable[[ast.Call], bool], module: Module, nodes: Sequence[ast.AST]
) -> Hazard | None:
    """Where ``exp(new - old)`` compares what a model computes under autocast with what was computed before.

    A policy that has not changed gives other probabilities in 16 bits than in 32, and the ratio of both is not 1.
    """
    for where, node in reach.code(module, nodes):
        scope = node if isinstance(node, FUNCTIONS) else where.function(node) or where.tree
        # The layers of a model compute with parameters, which are none of its results.
        if isinstance(scope, ast.Lambda) or getattr(scope, "name", "") == "forward":
            continue
        under = frozenset(each for part in ([node] if scope is node else nodes) for each in walk(part))
        origins = _Origins(reach.flow, calls_model, scope, under)
        for call in own(node, ast.Call):
            for one, other in origins.differences(_exponent(reach.flow, call)):
                if origins.is_new(one) is not origins.is_new(other) and origins.may_be_tensors(one, other):
                    text = f"{where.code(call)} compares what was computed in 32 bits with what 16 bits give;"
                    return Hazard(where, call, text, remedy="compute both under autocast")
    return None


@dataclass(frozen=True, eq=False)
class _Origins:
    """Where the names of one scope come from."""

    flow: Flow
    calls_model: Callable[[ast.Call], bool]
    scope: ast.AST
    under: frozenset[ast.AST]
    """All nodes of the scope that are under autocast."""

    def differences(self, node: ast.expr | None) -> Iterator[tuple[ast.expr, ast.expr]]:
        """The two sides of the differences that the expression may be."""
        for each in [node, *self._given(node)] if node is not None else ():
            if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Sub):
                yield each.left, each.right

    def is_new(self, node: ast.expr) -> bool:
        """Whether a model computes it, or a part of it, under autocast."""
        todo, seen = [node], set[ast.expr]()
        while todo:
            each = todo.pop()
            if each in seen:
                continue
            seen.add(each)
            parts = [part for part in walk(each) if isinstance(part, ast.expr)]
            if any(isinstance(part, ast.Call) and part in self.under and self.calls_model(part) for part in parts):
                return True
            todo.extend(given for part in parts for given in self._given(part))
        return False

    def may_be_tensors(self, *nodes: ast.expr) -> bool:
        """Whether none of them is known to be a number of Python."""
        values = [self.flow.values(each) for each in nodes if not isinstance(each, ast.Constant)]
        return len(values) == len(nodes) and not any(
            some and all(each.sort in {Sort.LITERAL, Sort.CHOICE} for each in some) for some in values
        )

    def _given(self, node: ast.expr | None) -> Iterator[ast.expr]:
        """What the name is given in the scope."""
        if not isinstance(node, ast.Name):
            return
        for assignment in own(self.scope, ast.Assign):
            targets = [part for each in assignment.targets for part in walk(each)]
            if any(is_name(each, node.id) for each in targets):
                yield assignment.value


def _exponent(flow: Flow, call: ast.Call) -> ast.expr | None:
    """``x`` of ``torch.exp(x)`` and ``x.exp()``."""
    externals = {each.name for each in flow.values(call.func) if each.sort is Sort.EXTERNAL}
    if externals:
        return call.args[0] if externals == {"torch.exp"} and call.args else None
    match call.func:
        case ast.Attribute(value, "exp" | "exp_") if not call.args:
            return value
    return None


def _statements(node: ast.AST, nodes: Sequence[ast.AST]) -> list[ast.stmt]:
    """The statements that run with the node: those of its function, or of the block that it is a part of."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return node.body
    return [] if isinstance(node, ast.Lambda) else [each for each in nodes if isinstance(each, ast.stmt)]


def _kept_from_zero(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What is kept from being zero by a number, and the number: ``x + 1e-8``, ``x.clamp(min=1e-8)``."""
    for sum_ in own(node, ast.BinOp):
        if isinstance(sum_.op, ast.Add):
            yield from [(sum_.left, sum_.right), (sum_.right, sum_.left)]
    for call in own(node, ast.Call):
        name = _last_name(call)
        if name not in {"clamp", "clamp_", "clamp_min", "clamp_min_", "clip", "add", "maximum", "max"}:
            continue
        operands = [*call.args, *(each.value for each in call.keywords if each.arg in {"min", "other"})]
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.expr):
            operands.insert(0, call.func.value)
        yield from ((operands[0], each) for each in operands[1:])
        yield from ((operands[1], each) for each in operands[2:])


# --- uses after the block -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Escape:
    """What a block computes and other code reads in a way that may need 32 bits."""

    target: ast.expr
    """The name or attribute, where the block writes it."""
    statement: ast.stmt
    """The statement that writes it."""
    use: ast.expr
    """The first such use."""


@dataclass(frozen=True, eq=False)
class Uses:
    """Finds the uses, outside of all blocks, of what the blocks compute."""

    flow: Flow
    module: Module
    inside: frozenset[ast.AST]
    """The statements of all blocks, and expressions that become statements of one."""

    @cached_property
    def _tolerance(self) -> Tolerance:
        return Tolerance(self.flow)

    def escapes(self, block: Block) -> Iterator[Escape]:
        """What the block writes and other code reads, each once, unless every use is harmless in 16 bits."""
        targets = {ast.unparse(node): (node, statement) for statement in block for node in stores(statement)}
        for text, (target, statement) in targets.items():
            if isinstance(target, ast.Name) and self._is_carried(target):
                continue
            use = next(
                (
                    each
                    for each in self._reads(text, target, block)
                    if not self._tolerance.is_harmless(self.module, each)
                ),
                None,
            )
            if use is not None:
                yield Escape(target, statement, use)

    def _reads(self, text: str, target: ast.expr, block: Block) -> Iterator[ast.expr]:
        """Where the name is read outside of the blocks, perhaps with the value of this block."""
        if not isinstance(target, ast.Name):
            attributes = [each for each in self.module.nodes(ast.Attribute) if isinstance(each.ctx, ast.Load)]
            attributes += self._read_by_relatives(block[0])
            yield from (each for each in attributes if ast.unparse(each) == text and not self._is_inside(each))
            return
        scope = self.module.function(block[0]) or self.module.tree
        loop = next((each for each in self.module.ancestors(block[0]) if isinstance(each, (ast.For, ast.While))), None)
        for name in own(scope, ast.Name):
            if name.id != text or not isinstance(name.ctx, ast.Load) or self._is_inside(name):
                continue
            is_after = name.lineno > (block[-1].end_lineno or 0)
            is_next_pass = loop is not None and loop.lineno < name.lineno < block[0].lineno
            since = block[-1] if is_after else loop
            if (is_after or is_next_pass) and since is not None and not self._bound_between(text, since.lineno, name):
                yield name

    def _read_by_relatives(self, statement: ast.stmt) -> Iterator[ast.Attribute]:
        """The attributes that the bases and subclasses of the statement's class read in other files."""
        function = self.module.function(statement)
        owner = self.flow.owner(function) if function is not None else None
        for class_ in self.flow.family(owner) if owner is not None else ():
            if not self.module.holds(class_):
                yield from (
                    each for each in walk(class_) if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Load)
                )

    def _is_carried(self, target: ast.Name) -> bool:
        """Whether other code only detaches it for the next pass: ``state = tuple(each.detach() for each in state)``.

        Autocast takes a state in any format.
        """
        scope = self.module.function(target) or self.module.tree
        names = [each for each in own(scope, ast.Name) if each.id == target.id and isinstance(each.ctx, ast.Load)]
        reads = [each for each in names if not self._is_inside(each)]
        return bool(reads) and all(self._only_detaches(each, target.id) for each in reads)

    def _only_detaches(self, node: ast.Name, name: str) -> bool:
        """Whether the use compares it with None, or assigns it to the same name, detached."""
        parent = self.module.parent(node)
        if isinstance(parent, ast.Compare):
            return isinstance(parent.ops[0], (ast.Is, ast.IsNot))
        statement = self.module.statement(node)
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return False
        return ast.unparse(statement.targets[0]) == name and self._is_detached(statement.value, name, frozenset())

    def _is_detached(self, node: ast.expr, name: str, seen: frozenset[Callee]) -> bool:
        """Whether the expression is what the name holds, detached: a tensor, or several in a tuple or list."""
        match node:
            case ast.Name():
                return node.id == name
            case ast.Attribute(value, "data") | ast.Call(ast.Attribute(value, "detach" | "clone"), [], []):
                return self._is_detached(value, name, seen)
            case ast.Subscript(value):
                return self._is_detached(value, name, seen)
            case ast.Tuple(elements) | ast.List(elements):
                return all(self._is_detached(each, name, seen) for each in elements)
            case ast.IfExp(_, one, other):
                return self._is_detached(one, name, seen) and self._is_detached(other, name, seen)
            case ast.Call(ast.Name("tuple" | "list"), [inner], []):
                return self._is_detached(inner, name, seen)
            case ast.GeneratorExp(element, [loop]) | ast.ListComp(element, [loop]) if isinstance(loop.target, ast.Name):
                is_over = self._is_detached(loop.iter, name, seen)
                return is_over and self._is_detached(element, loop.target.id, seen)
            case ast.Call(_, [argument], []):
                functions = list(project_functions(self.flow.values(node.func)))
                known = self._is_detached(argument, name, seen) and bool(functions)
                return known and all(self._detaches(each, seen) for each in functions)
        return False

    def _detaches(self, function: Callee, seen: frozenset[Callee]) -> bool:
        """Whether the function returns its argument, detached."""
        taken = self.flow.signature(function).positional_names
        if function in seen or isinstance(function, ast.Lambda) or not taken:
            return function in seen
        results = [each.value for each in own(function, ast.Return)]
        return bool(results) and all(
            each is not None and self._is_detached(each, taken[0], seen | {function}) for each in results
        )

    def _bound_between(self, text: str, line: int, node: ast.expr) -> bool:
        """Whether the name surely gets another value between the line and the place where it is read."""
        here = self.module.statement(node)
        while True:
            suite = self.module.suite(here)
            between = [each for each in suite[: suite.index(here)] if each.lineno > line]
            if any(isinstance(each, (ast.Assign, ast.For)) and text in _certainly_written(each) for each in between):
                return True
            parent = self.module.parent(here)
            if isinstance(parent, ast.For) and parent.lineno > line and text in _certainly_written(parent):
                return True
            if not isinstance(parent, ast.stmt) or isinstance(parent, (*FUNCTIONS, ast.ClassDef)):
                return False
            here = parent

    def _is_inside(self, node: ast.AST) -> bool:
        return node in self.inside or any(each in self.inside for each in self.module.ancestors(node))


def _certainly_written(statement: ast.Assign | ast.For) -> frozenset[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return frozenset(
        ast.unparse(each) for target in targets for each in walk(target) if isinstance(each, (ast.Name, ast.Attribute))
    )
