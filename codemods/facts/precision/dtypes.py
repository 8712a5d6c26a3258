"""Which tensors may hold 16-bit floats under autocast, and so after it."""

from __future__ import annotations

import ast
import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from codemods.dataflow.recursion import Answers
from codemods.dataflow.source import FUNCTIONS, last_name, lasting, unparsed, walk
from codemods.dataflow.values import External, Made, Tensor, library_names, without_none
from codemods.facts.loops import module_of
from codemods.facts.reach import own
from codemods.facts.reaching import reaching
from codemods.library.kinds import Kind, kind
from codemods.library.layers import keeps_format, returns_32_bits
from codemods.library.operations import Parts, operands, operation, parts
from codemods.library.operators import Autocast, Memory, Result, attribute, reads_no_numbers
from codemods.library.packages import Trait, has

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee

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
    External(f"builtins.{name}")
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


class _Several(NamedTuple):
    """The formats of the tensors in a tuple."""

    first: Format
    others: Format

    @property
    def whole(self) -> Format:
        """The format of all of them: they are no tensor."""
        return Format.OTHER if max(self.first, self.others) is Format.OTHER else Format.UNKNOWN

    def item(self, index: ast.expr) -> Format:
        """The format of one of them."""
        number = unparsed(index)
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
    given: dict[str, Format] = field(default_factory=dict)
    """What the parameters hold, of a function."""
    _several: dict[str, _Several] = field(default_factory=dict)
    """The same of those that hold several tensors."""

    def run(self, statements: Iterable[ast.stmt]) -> None:
        """Takes the assignments of the statements in, in their order, until nothing new comes of them.

        Branches are joined. In a loop, what stands further up is given what was assigned further down.
        """
        nodes = [
            node
            for statement in statements
            for node in own(
                statement, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.With, ast.NamedExpr, ast.Call
            )
        ]
        before = None
        while before != self.names:
            before = dict(self.names)
            for node in nodes:
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
            self._several[unparsed(target)] = held
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
            return self._several.get(unparsed(value)) if isinstance(value, (ast.Name, ast.Attribute)) else None
        layers = {each.name for each in self.flow.values(value.func) if isinstance(each, Made)}
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
        text = unparsed(target)
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
            is_numpy = any(has(each, Trait.ARRAYS) for each in library_names(self.flow.values(call.func)))
            if is_numpy and any(self.of(each) is not Format.OTHER for each in call.args):
                return call
            functions = self._functions
            inside = (functions.leaving.of((each, self._given(each, call))) for each in self._run_by(call))
            found = next((each for each in inside if each is not None), None)
            if found is not None:
                return found
        return None

    # Expressions.

    def of(self, node: ast.expr) -> Format:
        """What the expression holds."""
        match node:
            case ast.Name() | ast.Attribute() if unparsed(node) in self.names:
                return self.names[unparsed(node)]
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
        if any(kind(self.flow, each) is Kind.LOSS and isinstance(each, Made) for each in values):
            return Format.OTHER
        functions = self._run_by(call)
        if functions:
            return max(format_ for each in functions for format_ in self._returned(each, call))
        several = self._parts(call)
        if several is not None:
            return several.whole
        if any(each.name == _DATA_PARALLEL for each in values) and call.args:
            layers = self.flow.values(call.args[0])
            is_one = all(kind(self.flow, each) is Kind.MODEL and isinstance(each, Made) for each in layers)
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
        names = {each.name for each in self.flow.values(function.value) if isinstance(each, Made)}
        if not names or not all(each.startswith("torch.distributions.") for each in names):
            return None
        if names == {"torch.distributions.Categorical"} and function.attr == "sample":
            return Format.OTHER
        is_known = names <= _FLOAT_SAMPLES or function.attr in _OF_DISTRIBUTIONS
        return Format.NARROW if is_known else Format.UNKNOWN

    def _asked_for(self, call: ast.Call) -> Format | None:
        """The format that the call asks for by ``dtype=…``, ``.to(torch.long)`` or ``.type_as(…)``; None where none."""
        name = last_name(call.func)
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
        texts = [unparsed(each) for each in given]
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

    def inside(self, call: ast.Call) -> Iterator[tuple[Callee, Formats]]:
        """The project's functions that the call runs, each with the formats in it once it has run."""
        for each in self._run_by(call):
            yield each, self._functions.after(each, self._given(each, call))

    def _returned(self, function: Callee, call: ast.Call, count: int | None = None) -> Sequence[Format]:
        """What the project's function returns for these arguments, or so many elements of that."""
        found = self._functions.returned.of((function, self._given(function, call), count))
        return found or [Format.OTHER] * (count or 1)

    def _given(self, function: Callee, call: ast.Call) -> _Given:
        binding = self.flow.bind(function, call)
        return frozenset((name, max(map(self.of, given))) for name, given in binding.filled())

    @property
    def _functions(self) -> _Functions:
        return _functions(self.flow, self.calls_model, type(self))

    def _is_tensor(self, node: ast.expr) -> bool:
        values = without_none(self.flow.values(node))
        return bool(values) and all(isinstance(each, Tensor) for each in values)


@dataclass(eq=False)
class ExactFormats(Formats):
    """The same, with what a name holds where it is read, and what a layer does with the format that it is given.

    ``x = embedding(x)`` has 32 bits, whatever ``x`` is given below.
    """

    _is_run: bool = False
    _read: Answers[ast.Name, Format] = field(init=False)

    def __post_init__(self) -> None:
        self._read = Answers(self._of_name, Format.OTHER, max)

    def run(self, statements: Iterable[ast.stmt]) -> None:
        """Takes the assignments of the statements in: from then on names are read where they stand."""
        super().run(statements)
        self._is_run = True

    def of(self, node: ast.expr) -> Format:
        """What the expression holds where it stands."""
        return self._read.of(node) if self._is_run and isinstance(node, ast.Name) else super().of(node)

    def _of_name(self, name: ast.Name) -> Format:
        module = module_of(self.flow, name)
        function = module.function(name)
        known = reaching(function or module.tree)
        given = known.given(name)
        if given:
            return max(map(self.of, given))
        stores = (each for each in module.stores.get(name.id, ()) if module.function(each) is function)
        if name.id in self.given and all(isinstance(module.parent(each), ast.Assign) for each in stores):
            return max(self.given[name.id], *map(self.of, known.known(name)), Format.OTHER)
        return super().of(name)

    def _call(self, call: ast.Call) -> Format:
        layers = without_none(self.flow.values(call.func))
        if layers and all(isinstance(each, Made) for each in layers):
            names = {each.name for each in layers}
            if all(map(returns_32_bits, names)):
                return Format.OTHER
            if call.args and all(map(keeps_format, names)):
                return self.of(call.args[0])
        return super()._call(call)

    def functions(self, nodes: Iterable[ast.AST]) -> Iterator[tuple[Callee, ExactFormats]]:
        """The project's functions that the nodes run, each with the formats in it, for all that it is given."""
        seen: set[tuple[Callee, _Given]] = set()
        todo: list[tuple[ast.AST, ExactFormats]] = [(each, self) for each in nodes]
        while todo:
            node, formats = todo.pop()
            for call in own(node, ast.Call):
                for each in formats._run_by(call):  # noqa: SLF001 - of its own class
                    key = each, formats._given(each, call)  # noqa: SLF001 - as above
                    if key not in seen:
                        seen.add(key)
                        inner = self._functions.after(*key)
                        assert isinstance(inner, ExactFormats)  # noqa: S101 - of the same class; for the type checker
                        todo.append((each, inner))
                        yield each, inner

    def given_anything(self, function: Callee) -> Formats:
        """The formats in a function that may be given 16 bits for each of its parameters."""
        names = self.flow.signature(function).names
        return self._functions.after(function, frozenset((each, Format.NARROW) for each in names))


_Given: TypeAlias = "frozenset[tuple[str, Format]]"


class _Functions:
    """What functions of the project do under autocast, by what their parameters hold."""

    def __init__(self, flow: Flow, calls_model: Callable[[ast.Call], bool], form: type[Formats]) -> None:
        self._form = form
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

    def after(self, function: Callee, given: _Given) -> Formats:
        """The formats in the function, once it has run."""
        inner = self._form(self._flow, self._calls_model, dict(given))
        inner.given.update(given)
        if not isinstance(function, ast.Lambda):
            inner.run(function.body)
        return inner

    def _returns(self, function: Callee, given: _Given, count: int | None) -> tuple[Format, ...]:
        inner = self.after(function, given)
        return (inner.of_results(function),) if count is None else (*inner.elements_of_results(function, count),)

    def _leaves_torch(self, function: Callee, given: _Given) -> ast.Call | None:
        body = function.body
        return self.after(function, given).leaves_torch(body) if isinstance(body, list) else None


@lasting  # what functions do is asked for again and again
def _functions(flow: Flow, calls_model: Callable[[ast.Call], bool], form: type[Formats]) -> _Functions:
    return _Functions(flow, calls_model, form)


def formats_in(flow: Flow, calls_model: Callable[[ast.Call], bool], node: ast.AST, nodes: Sequence[ast.AST]) -> Formats:
    """The formats in a function or a block; the arguments of a function count as 16 bits wide."""
    return _formats(flow, calls_model, node, tuple(_statements(node, nodes)))


@lasting  # each hazard of a block asks; nothing is added to formats that were worked out
def _formats(
    flow: Flow, calls_model: Callable[[ast.Call], bool], node: ast.AST, statements: tuple[ast.stmt, ...]
) -> Formats:
    formats = Formats(flow, calls_model)
    if isinstance(node, FUNCTIONS):
        formats.names |= dict.fromkeys(flow.signature(node).names, Format.NARROW)
    formats.run(statements)
    return formats


def _statements(node: ast.AST, nodes: Sequence[ast.AST]) -> list[ast.stmt]:
    """The statements that run with the node: those of its function, or of the block that it is a part of."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return node.body
    return [] if isinstance(node, ast.Lambda) else [each for each in nodes if isinstance(each, ast.stmt)]
