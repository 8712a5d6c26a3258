"""How large is a tensor, at the most, that a script makes of sizes that are written out, or of a data set's images?"""

from __future__ import annotations

import ast
from itertools import zip_longest
from math import prod
from typing import TYPE_CHECKING, TypeAlias

from codemods.dataflow.names import words
from codemods.dataflow.signatures import argument_of
from codemods.dataflow.values import library_names
from codemods.library.datasets import largest

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.values import Values
    from codemods.facts.cost.constants import Constants

Sides: TypeAlias = "tuple[int, ...]"

BYTES = 8
"""What a number takes at the most, but for complex ones."""
_OF_SIZES = words(
    """
    torch.randn torch.rand torch.zeros torch.ones torch.empty numpy.random.randn numpy.random.rand
    """
)
_OF_ONE_SIZE = words("torch.full numpy.zeros numpy.ones numpy.empty numpy.full numpy.random.random")
"""Functions that are given all sizes together, as their first argument."""
_WITH_SIZE = {"torch.randint": "size", "numpy.random.randint": "size", "numpy.random.normal": "size",
              "numpy.random.uniform": "size", "numpy.random.choice": "size"}  # fmt: skip
_COUNTED = {"torch.linspace": (2, "steps", 100), "numpy.linspace": (2, "num", 50), "torch.randperm": (0, "n", None),
            "numpy.random.permutation": (0, "x", None)}  # fmt: skip
"""Functions that make a row of numbers: which argument says how many, by position and by name, and what it is else."""
_RANGES = words("torch.arange numpy.arange")
_SAME_SIZE = words(
    """
    torch.tensor torch.as_tensor torch.from_numpy torch.Tensor torch.FloatTensor torch.LongTensor numpy.array
    numpy.asarray torch.sin torch.cos torch.exp torch.log torch.sqrt torch.abs torch.sigmoid torch.tanh torch.relu
    torch.sign torch.clamp torch.pow torch.randn_like torch.rand_like torch.zeros_like torch.ones_like numpy.sin
    numpy.cos numpy.exp numpy.log numpy.sqrt numpy.abs numpy.sign numpy.float32 numpy.zeros_like numpy.ones_like
    """
)
_SAME_SIZE_METHODS = words(
    """
    float double long int half bool type to cpu astype copy numpy clone detach contiguous abs add sub neg sqrt exp log
    sin cos pow clamp round floor ceil sigmoid tanh relu
    """
)
_REGROUPING = words("reshape view squeeze unsqueeze")
_IMAGES = words("data train_data test_data")
_LABELS = words("targets labels train_labels test_labels")


def elements(flow: Flow, constants: Constants, tensor: ast.expr) -> int | None:
    """How many elements a tensor, or an array, has at the most; None where that is not known."""
    found = _Extents(flow, constants).sides(tensor)
    return None if found is None else prod(found)


class _Extents:
    """Follows how a tensor was made, through names that one statement binds."""

    def __init__(self, flow: Flow, constants: Constants) -> None:
        self._flow = flow
        self._constants = constants
        self._around: set[ast.expr] = set()

    def sides(self, node: ast.expr) -> Sides | None:
        """Its sizes; where they were regrouped, their product alone."""
        if node in self._around:
            return None
        self._around.add(node)
        try:
            return self._sides(node)
        finally:
            self._around.discard(node)

    def _sides(self, node: ast.expr) -> Sides | None:
        match node:
            case ast.Constant(int() | float()):
                return ()
            case ast.Name():
                made = self._constants.definition(node)
                return None if made is None else self.sides(made)
            case ast.UnaryOp(_, operand) | ast.Compare(operand, [_], [ast.Constant()]):
                return self.sides(operand)
            case ast.BinOp(left, operator, right):
                combined = _multiplied if isinstance(operator, ast.MatMult) else _broadcast
                return combined(self.sides(left), self.sides(right))
            case ast.Subscript(value, index):
                return self._part(value, index)
            case ast.Attribute(owner, name):
                return self._of_images(self._flow.values(owner), name)
            case ast.List() | ast.Tuple() | ast.ListComp():
                return _of_lists(self._constants.of(node))
            case ast.Call():
                return self._made(node)
        return None

    def _part(self, value: ast.expr, index: ast.expr) -> Sides | None:
        """Rows ``x[:800]``, and one row ``x[0]``: no more than there are."""
        found = self.sides(value)
        return found if isinstance(index, ast.Slice) and index.step is None else None

    def _of_images(self, owners: Values, name: str) -> Sides | None:
        """``train_set.data``, ``train_set.targets`` of torchvision's."""
        known = [largest(each.name) for each in owners]
        found = [each for each in known if each is not None and each.side is not None]
        if not found or len(found) != len(owners) or name not in _IMAGES | _LABELS:
            return None
        counts = [max(each.training, each.test) for each in found]
        per_image = [each.channels * (each.side or 0) ** 2 for each in found]
        return (max(counts), max(per_image)) if name in _IMAGES else (max(counts),)

    def _made(self, call: ast.Call) -> Sides | None:
        names = library_names(self._flow.values(call.func))
        (name,) = names if len(names) == 1 else ("",)
        if not name:
            return self._of_method(call)
        if name in _OF_SIZES:
            return self._given(call.args[0] if len(call.args) == 1 else None, call.args)
        if name in _OF_ONE_SIZE:
            return self._given(call.args[0], call.args[:1]) if call.args else None
        if name in _WITH_SIZE:
            return self._drawn(call, _WITH_SIZE[name])
        if name in _COUNTED:
            return self._counted(call, *_COUNTED[name])
        if name in _RANGES:
            return self._range(call)
        return self.sides(call.args[0]) if name in _SAME_SIZE and call.args else None

    def _of_method(self, call: ast.Call) -> Sides | None:
        if not isinstance(call.func, ast.Attribute):
            return None
        found = self.sides(call.func.value)
        if found is None or call.func.attr not in _SAME_SIZE_METHODS | _REGROUPING:
            return None
        if call.func.attr not in _REGROUPING:
            return found
        if call.func.attr == "squeeze":
            return tuple(each for each in found if each != 1) if not call.args else None
        given = self._given(call.args[0] if len(call.args) == 1 else None, call.args)
        if given is None:
            return None
        return _unsqueezed(found, given[0]) if call.func.attr == "unsqueeze" else _regrouped(prod(found), given)

    def _given(self, first: ast.expr | None, args: list[ast.expr]) -> Sides | None:
        """Sizes that are written one by one, ``(3, 4)``, or together, ``((3, 4))``."""
        together = self._constants.of(first) if first is not None else None
        found = together if isinstance(together, (list, tuple)) else [self._constants.number(each) for each in args]
        known = [each for each in found if isinstance(each, int)]
        return tuple(known) if known and len(known) == len(found) else None

    def _drawn(self, call: ast.Call, name: str) -> Sides | None:
        """``torch.randint(10, (64,))``, ``np.random.normal(size=64)``."""
        named = [each.value for each in call.keywords if each.arg == name]
        listed = [each for each in call.args if isinstance(each, (ast.Tuple, ast.List))]
        (size,) = found if len(found := named or listed) == 1 else (None,)
        return None if size is None else self._given(size, [size])

    def _counted(self, call: ast.Call, position: int, name: str, otherwise: int | None) -> Sides | None:
        given = argument_of(call, name, position)
        count = otherwise if given is None else self._constants.number(given)
        return None if count is None else (count,)

    def _range(self, call: ast.Call) -> Sides | None:
        ends = [self._constants.number(each) for each in call.args]
        known = [each for each in ends if each is not None]
        if not known or len(known) != len(ends):
            return None
        return (len(range(*known)),) if all(known[2:3] or [1]) else None


def _broadcast(left: Sides | None, right: Sides | None) -> Sides | None:
    if left is None or right is None:
        return None
    pairs = zip_longest(reversed(left), reversed(right), fillvalue=1)
    return tuple(max(pair) for pair in pairs)[::-1]


def _multiplied(left: Sides | None, right: Sides | None) -> Sides | None:
    """Sizes of a product of matrices, or of a matrix and a vector."""
    if not left or not right:
        return None
    return (*left[:-1], *right[1:]) if len(right) <= 2 else None  # noqa: PLR2004 - a matrix


def _regrouped(count: int, given: Sides) -> Sides:
    """Sizes of ``view``, where ``-1`` is what is left of the number of all."""
    others = prod(each for each in given if each != -1)
    return tuple(each if each != -1 else -(-count // max(others, 1)) for each in given)


def _of_lists(found: object) -> Sides | None:
    """Sizes of lists in lists."""
    if isinstance(found, (int, float)):
        return ()
    if not isinstance(found, (list, tuple)) or not found:
        return None
    inner = _of_lists(found[0])
    return None if inner is None else (len(found), *inner)


def _unsqueezed(found: Sides, place: int) -> Sides:
    place = place if place >= 0 else len(found) + 1 + place
    return (*found[:place], 1, *found[place:])
