"""How many dimensions a tensor has at least, wherever it comes from: by indices, layout, callers, attributes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from codemods.dataflow.forward import ForwardAnalysis
from codemods.dataflow.names import words
from codemods.dataflow.recursion import Answers
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import FUNCTIONS, kept, lasting, walk
from codemods.dataflow.values import class_of
from codemods.facts.cost.definitions import binding
from codemods.facts.loops import module_of
from codemods.facts.models.applied import applied, layers, whole_number
from codemods.facts.models.local_shapes import Shapes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.facts.models.applied import Applied

_NO_TENSOR = 1 << 16
"""What ``None`` counts as: where it is one of several, the others alone are tensors."""
_MATRIX = 2

_NEW = frozenset(f"torch.{name}" for name in ("ones", "zeros", "full", "empty", "rand", "randn"))
_NEW_ARRAYS = frozenset(f"numpy.{name}" for name in ("ones", "zeros", "full", "empty"))
_MATRICES = frozenset(
    {
        "torch.eye",
        "torch.nn.utils.rnn.pad_sequence",
        "torch.nn.Transformer.generate_square_subsequent_mask",
        "torch.nn.modules.transformer._generate_square_subsequent_mask",
        "numpy.eye",
        "numpy.triu",
        "numpy.tril",
    }
)
"""Functions whose result has two dimensions, or more."""
_HALVES = frozenset({"tril", "triu"})
"""Operators that take matrices, or several of them."""
_OF_DATA = frozenset(
    {
        "torch.tensor",
        "torch.as_tensor",
        "torch.from_numpy",
        "torch.BoolTensor",
        "torch.FloatTensor",
        "torch.LongTensor",
        "torch.nn.Parameter",
        "torch.nn.parameter.Parameter",
        "numpy.array",
        "numpy.asarray",
    }
)
"""What has the dimensions of that which it is made of."""
_KEPT = words(
    """
    bool byte int long float half double bfloat16 to type type_as cuda cpu contiguous clone detach requires_grad_
    pin_memory logical_not logical_not_ bitwise_not logical_and logical_or logical_xor bitwise_and bitwise_or
    eq ne lt le gt ge neg abs exp log sqrt pow sigmoid tanh relu softmax log_softmax clamp masked_fill masked_fill_
    fill_ add sub mul div add_ sub_ mul_ div_ dropout flip roll cumsum isnan isinf nan_to_num tril triu ones_like
    zeros_like full_like empty_like rand_like randn_like
    """
)
"""Operators whose result has no fewer dimensions than their operand."""
_LAID_OUT = frozenset({"view", "reshape", "expand", "repeat", "permute", "new_ones", "new_zeros", "new_empty"})
"""Methods that are told as many sizes, or dimensions, as their result has."""
_TURNING = frozenset({"transpose", "swapaxes", "swapdims"})
_KEEPING_LAYERS = frozenset(f"torch.nn.{name}" for name in ("Dropout", "Identity", "Linear", "LayerNorm", "Sigmoid"))
_EMBEDDING = "torch.nn.Embedding"
_AS_MANY = frozenset({"T", "H", "data", "real"})
"""Attributes that are the tensor with as many dimensions."""


def least_dimensions(flow: Flow, module: Module, node: ast.expr) -> int:
    """How many dimensions the tensor has for certain; it may have more."""
    return _dimensions(flow).of(module, node)


# What names hold.


class _Given(NamedTuple):
    """What a name was given."""

    node: ast.expr | None
    """By which expression; None by none that is known."""
    item: int | None = None
    """Which item of it."""
    least: int = 0
    """How many dimensions tests of the script say that it has at least."""
    is_parameter: bool = False


_Held: TypeAlias = "frozenset[_Given]"
_UNKNOWN = _Given(None)


class _Names(ForwardAnalysis["_Held"]):
    """A name holds what it may have been given, without ``None``."""

    def __init__(self, scope: ast.AST) -> None:
        names = signature(scope).names if isinstance(scope, FUNCTIONS) else ()
        super().__init__({each: frozenset({_Given(None, is_parameter=True)}) for each in names}, frozenset({_UNKNOWN}))
        self.before: dict[ast.stmt, dict[str, _Held]] = {}

    def join(self, one: _Held, other: _Held) -> _Held:
        return one | other

    def of(self, node: ast.expr) -> _Held:
        if isinstance(node, ast.Name) and node.id in self.names:
            return self.names[node.id]
        is_none = isinstance(node, ast.Constant) and node.value is None
        return frozenset() if is_none else frozenset({_Given(node)})

    def element(self, node: ast.expr) -> _Held:  # noqa: ARG002 - whatever is gone through
        return frozenset({_UNKNOWN})

    def unpacked(self, node: ast.expr, count: int) -> Sequence[_Held]:
        return [frozenset({_Given(node, item)}) for item in range(count)]

    def collected(self, held: _Held) -> _Held:  # noqa: ARG002 - a list is no tensor
        return frozenset({_UNKNOWN})

    def augmented(self, statement: ast.AugAssign) -> _Held:
        # What is added to a tensor in place leaves it its dimensions.
        return frozenset({_UNKNOWN}) if isinstance(statement.op, ast.MatMult) else self.of(statement.target)

    def reached(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Assert):
            self.tested(statement.test, holds=True)
        match statement:
            case ast.Assign(
                [ast.Tuple(targets)],
                ast.Attribute(ast.Name(name), "shape") | ast.Call(ast.Attribute(ast.Name(name), "size"), []),
            ) if not any(isinstance(each, ast.Starred) for each in targets):
                self._has(name, len(targets))
        before = self.before.setdefault(statement, {})
        for name, held in self.names.items():
            before[name] = before.get(name, frozenset()) | held

    def tested(self, test: ast.expr, *, holds: bool) -> None:
        match test:
            case ast.UnaryOp(ast.Not(), inner):
                self.tested(inner, holds=not holds)
            case ast.BoolOp(operation, parts) if isinstance(operation, ast.And) is holds:
                for each in parts:
                    self.tested(each, holds=holds)
            case ast.BoolOp(_, [one, other]):
                # `mask is None or mask.dim() > 1`: the second part is asked where the first says nothing.
                self.branches(
                    lambda: self.tested(one, holds=holds),
                    lambda: self._tested_after(one, other, holds=holds),
                )
            case ast.Compare(ast.Name(name), [ast.Is() | ast.IsNot() as operation], [ast.Constant(None)]):
                if isinstance(operation, ast.Is) is holds and name in self.names:
                    self.put(name, frozenset())
            case ast.Compare(left, [operation], [ast.Constant(int(number))]):
                counted = _counted(left)
                if counted is not None:
                    self._has(counted, _least(operation, number, holds=holds))

    def _tested_after(self, one: ast.expr, other: ast.expr, *, holds: bool) -> None:
        self.tested(one, holds=not holds)
        self.tested(other, holds=holds)

    def _has(self, name: str, least: int) -> None:
        """A name is seen to hold what has so many dimensions."""
        if name in self.names:
            self.put(name, frozenset(each._replace(least=max(each.least, least)) for each in self.names[name]))


def _counted(node: ast.expr) -> str | None:
    """The name of ``x.dim()``, ``x.ndim`` and ``len(x.shape)``."""
    match node:
        case (
            ast.Call(ast.Attribute(ast.Name(name), "dim" | "ndimension"), [])
            | ast.Attribute(ast.Name(name), "ndim")
            | ast.Call(ast.Name("len"), [ast.Attribute(ast.Name(name), "shape")])
            | ast.Call(ast.Name("len"), [ast.Call(ast.Attribute(ast.Name(name), "size"), [])])
        ):
            return name
    return None


def _least(operation: ast.cmpop, number: int, *, holds: bool) -> int:
    """What is at least so much, as it is compared with a number."""
    match operation, holds:
        case (ast.Eq() | ast.GtE(), True) | (ast.NotEq() | ast.Lt(), False):
            return number
        case (ast.Gt(), True) | (ast.LtE(), False):
            return number + 1
    return 0


@kept
def _names_before(scope: ast.AST) -> Mapping[ast.stmt, Mapping[str, _Held]]:
    """What the names of a function or module hold before each of its statements."""
    names = _Names(scope)
    if isinstance(scope, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef)):
        names.run(scope.body)
    return names.before


# What is asked.


class _Item(NamedTuple):
    """What an expression gives, or one of the things to which it is unpacked."""

    module: Module
    node: ast.expr
    number: int | None


class _Parameter(NamedTuple):
    """What the calls of a function give a parameter."""

    function: Callee
    name: str


class _Result(NamedTuple):
    """What a function returns, or an item of it."""

    function: Callee
    number: int | None


class _Attribute(NamedTuple):
    """What the objects of a class have under a name."""

    class_: ast.ClassDef
    name: str


_Question: TypeAlias = "_Item | _Parameter | _Result | _Attribute"


@lasting
def _dimensions(flow: Flow) -> _Dimensions:
    return _Dimensions(flow)


class _Dimensions:
    """Answers for one project."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._answers: Answers[_Question, int] = Answers(self._computed, _NO_TENSOR, min)

    def of(self, module: Module, node: ast.expr) -> int:
        return self._answers.of(_Item(module, node, None))

    def _computed(self, question: _Question) -> int:
        match question:
            case _Item(module, node, number):
                return self._of(module, node) if number is None else self._of_item(module, node, number)
            case _Parameter(function, name):
                calls = [] if self._flow.escapes(function) else self._flow.callers(function)
                return min((self._argument(function, call, name) for call in calls), default=0)
            case _Result(function, number):
                return min(self._results(function, number), default=_NO_TENSOR)
            case _Attribute(class_, name):
                return min(self._stores(class_, name), default=0)

    def _of_item(self, module: Module, node: ast.expr, number: int) -> int:
        functions = self._functions(node)
        if functions:
            return min(self._answers.of(_Result(each, number)) for each in functions)
        if isinstance(node, (ast.Tuple, ast.List)) and number < len(node.elts):
            return self.of(module, node.elts[number])
        return 0

    def _functions(self, node: ast.expr) -> Sequence[Callee]:
        """The project's functions that a call runs, where it runs nothing else."""
        if not isinstance(node, ast.Call):
            return ()
        functions = self._flow.called(node)
        return functions if len(functions) == len(self._flow.values(node.func)) else ()

    def _argument(self, function: Callee, call: ast.Call, name: str) -> int:
        bound = self._flow.bind(function, call)
        given = bound.get(name)
        if not bound.is_whole:
            return 0
        if given is not None:
            return self.of(module_of(self._flow, call), given)
        default = signature(function).defaults.get(name)
        return self.of(self._flow.module_of(function), default) if default is not None else 0

    def _results(self, function: Callee, number: int | None) -> Iterator[int]:
        module = self._flow.module_of(function)
        if isinstance(function, ast.Lambda):
            yield self._answers.of(_Item(module, function.body, number))
        elif any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in walk(function)):
            yield 0
        for each in module.nodes(ast.Return):
            if module.function(each) is function and each.value is not None:
                yield self._answers.of(_Item(module, each.value, number))

    def _stores(self, class_: ast.ClassDef, name: str) -> Iterator[int]:
        """What gives the objects of a class something under the name."""
        family = set(self._flow.family(class_))
        for module in self._flow.modules:
            for each in module.nodes(ast.Attribute):
                if each.attr == name and not isinstance(each.ctx, ast.Load) and self._may_be_of(family, each.value):
                    yield self._stored(module, each)
            for call in module.nodes(ast.Call):
                if isinstance(call.func, ast.Attribute) and call.func.attr == "register_buffer":
                    named = {one.arg: one.value for one in call.keywords}
                    given = [*call.args, *(named[one] for one in ("name", "tensor") if one in named)]
                    is_other = isinstance(given[0], ast.Constant) and given[0].value != name if given else True
                    if not is_other and len(given) > 1 and self._may_be_of(family, call.func.value):
                        yield self.of(module, given[1])

    def _stored(self, module: Module, target: ast.Attribute) -> int:
        match module.statement(target):
            case ast.Assign(targets, value) if target in targets:
                return self.of(module, value)
            case ast.AnnAssign(_, _, ast.expr() as value):
                return self.of(module, value)
            case ast.AugAssign(_, operation) if not isinstance(operation, ast.MatMult):
                return _NO_TENSOR
        return 0

    def _may_be_of(self, family: set[ast.ClassDef], node: ast.expr) -> bool:
        owners = {class_of(each) for each in self._flow.values(node)}
        return not owners or None in owners or bool(owners & family)

    # Expressions.

    def _of(self, module: Module, node: ast.expr) -> int:
        shape = Shapes(self._flow).of(module, node)
        return max(len(shape) if shape is not None else 0, self._by_form(module, node))

    def _by_form(self, module: Module, node: ast.expr) -> int:
        match node:
            case ast.Constant(None):
                return _NO_TENSOR
            case ast.Name():
                return self._of_name(module, node)
            case ast.Attribute(value, name):
                return self._of_attribute(module, node, value, name)
            case ast.IfExp(_, one, other):
                return min(self.of(module, one), self.of(module, other))
            case ast.BoolOp(_, parts):
                return min(self.of(module, each) for each in parts)
            case ast.Call():
                return self._of_call(module, node)
        return self._of_operands(module, node)

    def _of_operands(self, module: Module, node: ast.expr) -> int:
        """What is computed element by element has as many as the operand that has most."""
        match node:
            case ast.Subscript(value, index):
                return _indexed(self.of(module, value), index)
            case ast.BinOp(left, operation, right) if not isinstance(operation, ast.MatMult):
                return max(self.of(module, left), self.of(module, right))
            case ast.Compare(left, operations, others):
                is_truth = any(isinstance(each, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for each in operations)
                return 0 if is_truth else max(self.of(module, each) for each in (left, *others))
            case ast.UnaryOp(ast.Invert() | ast.USub() | ast.UAdd(), value) | ast.NamedExpr(_, value):
                return self.of(module, value)
        return 0

    def _of_name(self, module: Module, name: ast.Name) -> int:
        statement, function = module.statement(name), module.function(name)
        if any(not isinstance(each, ast.stmt) and _binds(each, name.id) for each in module.ancestors(name)):
            return 0
        held = _names_before(function if function is not None else module.tree).get(statement, {}).get(name.id)
        if held is None:
            given = binding(self._flow, name)
            return self.of(module, given) if given is not None and module.holds(given) else 0
        return min((self._of_given(module, function, name.id, each) for each in held), default=_NO_TENSOR)

    def _of_given(self, module: Module, function: Callee | None, name: str, given: _Given) -> int:
        found = 0
        if given.is_parameter and function is not None:
            found = self._answers.of(_Parameter(function, name))
        elif given.node is not None:
            found = self._answers.of(_Item(module, given.node, given.item))
        return max(found, given.least)

    def _of_attribute(self, module: Module, node: ast.expr, value: ast.expr, name: str) -> int:
        if name in {"mT", "mH"}:
            return max(self.of(module, value), _MATRIX)
        if name in _AS_MANY:
            return self.of(module, value)
        classes = {class_of(each) for each in self._flow.values(value)}
        known = [each for each in classes if each is not None]
        if not known or len(known) < len(classes):
            return self._of_own_class(module, node, value, name)
        return min(self._answers.of(_Attribute(each, name)) for each in known)

    def _of_own_class(self, module: Module, node: ast.expr, value: ast.expr, name: str) -> int:
        """What ``self`` has under the name, also where nothing is known to call the method."""
        function = module.function(node)
        class_ = self._flow.owner(function) if isinstance(function, FUNCTIONS) else None
        names = signature(function).names if isinstance(function, FUNCTIONS) else ()
        is_self = isinstance(value, ast.Name) and value.id in list(names)[:1]
        return self._answers.of(_Attribute(class_, name)) if class_ is not None and is_self else 0

    def _of_call(self, module: Module, call: ast.Call) -> int:
        functions = self._functions(call)
        if functions:
            return min(self._answers.of(_Result(each, None)) for each in functions)
        made = layers(self._flow, call)
        if made:
            given = self.of(module, call.args[0])
            is_keeping = all(each.name in _KEEPING_LAYERS for each in made)
            return given + 1 if all(each.name == _EMBEDDING for each in made) else given if is_keeping else 0
        names = {each.name for each in self._flow.values(call.func)}
        if names:
            found = self._of_function(module, names, call)
            if found is not None:
                return found
        operator = applied(self._flow, call)
        if operator is not None:
            return self._of_operator(module, operator)
        is_array = isinstance(call.func, ast.Attribute) and call.func.attr == "astype"
        return self.of(module, call.func.value) if is_array and isinstance(call.func, ast.Attribute) else 0

    def _of_function(self, module: Module, names: set[str], call: ast.Call) -> int | None:
        """By the functions of libraries; None where they are others than are known here."""
        if names <= _MATRICES:
            return _MATRIX
        if names <= _NEW | _NEW_ARRAYS:
            sizes = next((each.value for each in call.keywords if each.arg in {"size", "shape"}), None)
            is_one = names <= _NEW_ARRAYS | {"torch.full"}
            return _told([sizes] if sizes is not None else call.args[:1] if is_one else call.args)
        if names <= _OF_DATA and call.args:
            return _nested(call.args[0]) or self.of(module, call.args[0])
        return None

    def _of_operator(self, module: Module, found: Applied) -> int:
        if found.name in _LAID_OUT:
            return _told(found.others)
        if found.name == "where":
            return max(self.of(module, each) for each in (found.tensor, *found.others))
        if found.name == "stack":
            return self._of_parts(module, found.tensor) + 1
        if found.name in {"cat", "concat", "concatenate"}:
            return self._of_parts(module, found.tensor)
        if found.name in {"view_as", "expand_as", "reshape_as"} and found.others:
            return self.of(module, found.others[0])
        if found.name == "unsqueeze":
            return _unsqueezed(self.of(module, found.tensor), whole_number(found.argument(0, "dim")))
        if found.name in _TURNING:
            return max(self.of(module, found.tensor), _turned([whole_number(each) for each in found.others]))
        if found.name in _KEPT:
            least = _MATRIX if found.name in _HALVES else 0
            return max(least, *(self.of(module, each) for each in (found.tensor, *found.others)))
        return 0

    def _of_parts(self, module: Module, node: ast.expr) -> int:
        parts = node.elts if isinstance(node, (ast.Tuple, ast.List)) else []
        return min((self.of(module, each) for each in parts), default=0)


def _binds(node: ast.AST, name: str) -> bool:
    """Whether a comprehension or ``lambda`` has a name of its own."""
    if isinstance(node, ast.Lambda):
        return name in signature(node).names
    targets = (each.target for each in getattr(node, "generators", ()))
    return any(isinstance(each, ast.Name) and each.id == name for target in targets for each in walk(target))


def _told(sizes: Sequence[ast.expr]) -> int:
    """How many sizes are written out: ``(2, T, T)`` or ``2, T, T``; one alone may be all of them."""
    if len(sizes) == 1 and isinstance(sizes[0], (ast.Tuple, ast.List)):
        sizes = sizes[0].elts
    elif len(sizes) == 1:
        return 0
    return sum(not isinstance(each, ast.Starred) for each in sizes)


def _nested(node: ast.expr) -> int:
    """How many lists stand one in the other: ``[[1, 0], [1, 1]]``, ``[True] * 5 + [False]``."""
    match node:
        case ast.BinOp(left, ast.Add() | ast.Mult(), right):
            return max(_nested(left), _nested(right))
        case ast.List([first, *_]) | ast.Tuple([first, *_]):
            return 1 + _nested(first)
    return 0


def _unsqueezed(least: int, at: int | None) -> int:
    """A dimension more; at the second place there is one for what has another, and so on."""
    if at is None or least >= _NO_TENSOR:
        return min(least + 1, _NO_TENSOR)
    return max(least + 1, at + 1 if at >= 0 else -at)


def _turned(places: Iterable[int | None]) -> int:
    """How many dimensions there are where two of them are swapped: the last one may be the first, too."""
    found = [each for each in places if each is not None]
    is_alike = len({each < 0 for each in found}) == 1
    return max(each + 1 if each >= 0 else -each for each in found) if is_alike else 0


def _indexed(least: int, index: ast.expr) -> int:
    """How many dimensions are left by ``x[0]``, ``x[:, :T]``, ``x[:, None, ...]``, ``x[rows]``."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    slices = sum(isinstance(each, ast.Slice) for each in parts)
    new = sum(isinstance(each, ast.Constant) and each.value is None for each in parts)
    rest = sum(isinstance(each, ast.Constant) and each.value is ... for each in parts)
    numbers = sum(whole_number(each) is not None for each in parts)
    is_known = slices + new + rest + numbers == len(parts)
    # A mask of truth values takes as many dimensions as it has, and leaves one.
    return new + slices + (max(least - slices - numbers, 0) if is_known else 0)
