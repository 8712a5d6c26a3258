"""Which tensors lie in memory row by row whatever layout images have: ``view`` may join their dimensions."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.recursion import Answers
from codemods.dataflow.signatures import argument_of
from codemods.dataflow.source import lasting, walk
from codemods.dataflow.values import (
    Batch,
    Choice,
    HostTensor,
    Instance,
    Literal,
    Made,
    MovedTensor,
    Plain,
    Value,
    library_names,
    without_none,
)
from codemods.facts.loops import module_of
from codemods.facts.models.layers import Model
from codemods.facts.reaching import reaching
from codemods.library.memory_format import ONE_PIXEL
from codemods.library.operations import operands, operation
from codemods.library.operators import Memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codemods.dataflow.flow import Flow

_LAYS_OUT = frozenset({"view", "reshape"})
_MOST = 2
"""Dimensions of a tensor that has no rows and columns of an image any more."""
_VECTORS = frozenset({"torch.nn.Linear", "torch.nn.LazyLinear", "torch.nn.Embedding", "torch.nn.BatchNorm1d"})
"""Layers whose results are new and lie row by row, whatever they are given."""
_CONVOLUTIONS = frozenset({"torch.nn.Conv2d", "torch.nn.ConvTranspose2d"})
_MAKES = frozenset(
    f"torch.{name}" for name in ("zeros", "ones", "full", "rand", "randn", "randint", "arange", "tensor", "linspace")
)
_OVER_PIXELS = frozenset({"mean", "sum", "amax"})
_ROWS_AND_COLUMNS = frozenset({"2, 3", "3, 2", "-2, -1", "-1, -2"})
_POOLS = frozenset({"avg_pool2d", "max_pool2d"})
_WHOLE = frozenset(
    {"{0}.size()[2:]", "{0}.shape[2:]", "{0}.size()[-2:]", "{0}.shape[-2:]"}
    | {"({0}.size(2), {0}.size(3))", "({0}.shape[2], {0}.shape[3])", "[{0}.size(2), {0}.size(3)]"}
)
"""How the rows and columns of images are written, which a pooling takes all at once."""
_REARRANGES = frozenset({"permute", "transpose", "t", "swapaxes", "movedim", "expand", "expand_as", "as_strided"})


class RowMajor:
    """Answers for one project."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        # Of tensors, and of what models and layers return whatever they are given.
        self._answers: Answers[ast.expr | Value, bool] = Answers(self._answer, bottom=False, join=bool.__or__)

    def holds(self, node: ast.expr) -> bool:
        """Whether the tensor lies row by row for certain."""
        return self._answers.of(node)

    def returned_by(self, model: Model) -> bool:
        """Whether all that a model returns does."""
        return self._answers.of(model.value)

    def _answer(self, asked: ast.expr | Value) -> bool:
        match asked:
            case Value():
                return self._layer_holds(asked, None)
            case ast.Name() if self._came_so(asked):
                return True
            case ast.Name():
                given = self._given(asked)
                return bool(given) and all(self.holds(each) for each in given)
            case ast.Tuple(parts) | ast.List(parts):
                return all(self.holds(each) for each in parts)
            case ast.Constant() | ast.BinOp(_, ast.MatMult(), _):
                return True  # a product of matrices is new
            case ast.BinOp(left, _, right):
                return self.holds(left) and self.holds(right)
            case ast.UnaryOp(_, whole) | ast.Subscript(whole, ast.Slice(_, _, None)) if self.holds(whole):
                return True
            case ast.Call():
                return self._call_holds(asked)
        return self._came_so(asked)

    def _came_so(self, node: ast.expr) -> bool:
        """Whether it is what a loader gave, as it came or moved, or was newly made: no model has computed it."""
        values = without_none(self.flow.values(node))
        return bool(values) and all(
            isinstance(each, Batch) or (isinstance(each, (HostTensor, MovedTensor)) and self._is_no_buffer(each))
            for each in values
        )

    def _is_no_buffer(self, tensor: Value) -> bool:
        """Whether it is made at a known place, which is no constructor: what models make there goes along with them."""
        if tensor.site is None:
            return False
        return getattr(module_of(self.flow, tensor.site).function(tensor.site), "name", "") != "__init__"

    def _given(self, name: ast.Name) -> Sequence[ast.expr]:
        module = module_of(self.flow, name)
        return reaching(module.function(name) or module.tree).given(name) or ()

    def _call_holds(self, call: ast.Call) -> bool:
        values = without_none(self.flow.values(call.func))
        names = library_names(values)
        if names and names <= _MAKES:
            return True
        if values and all(_is_layer(each) for each in values):
            return all(self._layer_holds(each, call) for each in values)
        operand = self._operand(call)
        found = operation(self.flow, call)
        if operand is None or found is None:
            return False
        name = call.func.attr if isinstance(call.func, ast.Attribute) else next(iter(names)).rpartition(".")[2]
        if self._leaves_vectors(call, operand, name):
            return True
        is_kept = name not in _REARRANGES and found.memory is not Memory.SELF
        return is_kept and all(self._is_no_tensor(each) or self.holds(each) for each in operands(self.flow, call))

    def _is_no_tensor(self, node: ast.expr) -> bool:
        """Whether it is a number, a text or the like."""
        values = without_none(self.flow.values(node))
        return bool(values) and all(isinstance(each, (Literal, Plain, Choice)) for each in values)

    def _leaves_vectors(self, call: ast.Call, operand: ast.expr, name: str) -> bool:
        """``x.view(n, -1)``, ``torch.flatten(x, 1)``, ``F.adaptive_avg_pool2d(x, 1)``."""
        given = [each for each in call.args if each is not operand]
        if name in _LAYS_OUT:
            sizes = [each for each in given if not isinstance(each, (ast.Starred, ast.Tuple, ast.List))]
            is_certain = len(given) > 1 or (len(given) == 1 and isinstance(given[0], (ast.Constant, ast.UnaryOp)))
            return is_certain and len(sizes) == len(given) <= _MOST
        if name == "flatten":
            start = given[0] if given else argument_of(call, "start_dim")
            is_whole = len(given) <= 1 and argument_of(call, "end_dim") is None
            return is_whole and (start is None or _is_number(start, 1))
        return self._leaves_one_pixel(call, operand, name, given)

    def _leaves_one_pixel(self, call: ast.Call, operand: ast.expr, name: str, given: Sequence[ast.expr]) -> bool:
        """``F.adaptive_avg_pool2d(x, 1)``, ``x.mean((2, 3), True)``, ``F.avg_pool2d(x, x.size()[2:])``."""
        if name in ONE_PIXEL:
            return _pools_to_one(given, call.keywords)
        by_name = {each.arg: each.value for each in call.keywords}
        if name in _OVER_PIXELS:
            dimensions = given[0] if given else by_name.get("dim")
            return dimensions is not None and ast.unparse(dimensions).strip("()[]") in _ROWS_AND_COLUMNS
        if name in _POOLS and by_name.keys() <= {"kernel_size"} and len(given) + len(by_name) == 1:
            size, image = (given or list(by_name.values()))[0], ast.unparse(operand)
            return isinstance(operand, ast.Name) and ast.unparse(size) in {each.format(image) for each in _WHOLE}
        return False

    def _operand(self, call: ast.Call) -> ast.expr | None:
        is_function = bool(library_names(self.flow.values(call.func)))
        if isinstance(call.func, ast.Attribute) and not is_function:
            return call.func.value
        return call.args[0] if call.args and not isinstance(call.args[0], ast.Starred) else None

    def _layer_holds(self, layer: Value, call: ast.Call | None) -> bool:
        """Whether what a layer returns lies row by row; without a call, whatever it is given."""
        package, _, name = layer.name.rpartition(".")
        made = layer.site if isinstance(layer.site, ast.Call) else None
        if not isinstance(layer, Made):
            return self._returned(layer) if call is None else self._answers.of(layer)
        if layer.name in _VECTORS or package.startswith("torchvision.models"):
            return True
        if name == "Flatten":
            return made is not None and not made.args and not made.keywords
        if name in ONE_PIXEL:
            return made is not None and _pools_to_one(made.args, made.keywords)
        if name == "Sequential":
            return self._sequence_holds(layer, call)
        if layer.name in _CONVOLUTIONS:
            return made is not None and self._gives_one_channel(made)
        return layer.name in _KEEPING and call is not None and bool(call.args) and self.holds(call.args[0])

    def _gives_one_channel(self, made: ast.Call) -> bool:
        """Whether a convolution computes images of one channel, of which both layouts are the same: a score."""
        channels = argument_of(made, "out_channels", 1)
        return channels is not None and self.flow.values(channels) == frozenset({Literal("1")})

    def _sequence_holds(self, layer: Value, call: ast.Call | None) -> bool:
        """Whether the last layers of ``nn.Sequential(…)`` leave it so."""
        made = layer.site
        if not isinstance(made, ast.Call) or made.keywords or not made.args:
            return False
        for each in reversed(made.args):
            values = self.flow.values(each) if not isinstance(each, ast.Starred) else frozenset()
            if not values or not all(_is_layer(one) for one in values):
                return False
            if all(self._answers.of(one) for one in values):
                return True
            if not all(one.name in _KEEPING for one in values):
                return False
        return call is not None and bool(call.args) and self.holds(call.args[0])

    def _returned(self, model: Value) -> bool:
        class_ = Model(self.flow, model).class_
        forward = self.flow.method(class_, "forward") if class_ is not None else None
        returns = [each for each in walk(forward) if isinstance(each, ast.Return)] if forward is not None else []
        own = [each for each in returns if module_of(self.flow, each).function(each) is forward]
        return bool(own) and all(each.value is not None and self.holds(each.value) for each in own)


@lasting
def row_major(flow: Flow) -> RowMajor:
    """The answers for a project, which are worked out once."""
    return RowMajor(flow)


_KEEPING = frozenset(
    f"torch.nn.{name}"
    for name in (
        *("ReLU", "ReLU6", "LeakyReLU", "ELU", "GELU", "SiLU", "Sigmoid", "Tanh", "Softmax", "LogSoftmax", "Dropout"),
        "Identity",
    )
)
"""Layers that leave the layout of vectors as it is."""


def _is_layer(value: Value) -> bool:
    return isinstance(value, (Made, Instance))


def _is_number(node: ast.expr, number: int) -> bool:
    return isinstance(node, ast.Constant) and node.value == number


def _pools_to_one(given: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> bool:
    """Whether the arguments of an adaptive pooling, besides what it pools, say that one pixel is left."""
    sizes = [*given, *(each.value for each in keywords if each.arg == "output_size")]
    return len(sizes) == len(given) + len(keywords) == 1 and _is_one(sizes[0])


def _is_one(node: ast.expr) -> bool:
    """``1``, ``(1, 1)``."""
    sides = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
    return bool(sides) and all(_is_number(each, 1) for each in sides)
