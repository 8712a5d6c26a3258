"""Which transforms make a tensor of an image and normalise it as their last steps, and by which numbers?"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import argument_of, arguments_of
from codemods.dataflow.values import NONE, Container, Made, Value
from codemods.facts.loops import module_of
from codemods.facts.reason import HERE, Reason, at
from codemods.library.kinds import described
from codemods.library.transforms import keeps_8_bits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Module
    from codemods.facts.reason import Place
    from codemods.facts.script import Script

COMPOSE = "torchvision.transforms.Compose"
_TO_TENSOR = "torchvision.transforms.ToTensor"
_NORMALIZE = "torchvision.transforms.Normalize"
_NUMBERS = ("mean", "std")


@dataclass(frozen=True, eq=False)
class Normalized:
    """A transform whose last steps make a tensor of an image and normalise it: ``[…, ToTensor(), Normalize(…)]``."""

    module: Module
    call: ast.Call
    steps: ast.List
    to_tensor: ast.Call
    normalize: ast.expr
    """The last step as it stands there: a call, or the name of an object that is made elsewhere."""
    made: ast.Call
    """The call that makes that object."""
    given: tuple[ast.expr, ast.expr]
    """The means and standard deviations, as they are given to it."""
    means: tuple[float, ...]
    deviations: tuple[float, ...]
    """One number of each for all channels, or one for each channel."""


class LeftError(Exception):
    """Something is against it."""

    def __init__(self, code: str, text: str, *places: Place, remedy: str = "") -> None:
        """The parts of the reason."""
        super().__init__(text)
        self.reason = Reason(code, text, places, remedy)

    @classmethod
    def of(cls, reason: Reason) -> LeftError:
        """A reason that is there already."""
        return cls(reason.code, reason.text, *reason.places, remedy=reason.remedy)


def may_normalize(script: Script, call: ast.Call) -> bool:
    """Whether one of a transform's steps may be ``Normalize``, be they written out or not."""
    lists = (each for node in arguments_of(call) for each in script.flow.values(node))
    items = (item for each in lists for key in script.flow.keys(each) for item in script.flow.items(each, key))
    return any(isinstance(each, Made) and each.name == _NORMALIZE for each in items)


def normalized(script: Script, value: Value) -> Normalized:
    """What a transform does, where it ends in the two steps.

    Raises:
        LeftError: when it does not, or by numbers that are not known.
    """
    call = value.site
    places = (_at(script, call),) if isinstance(call, ast.Call) else ()
    if not isinstance(value, Made) or value.name != COMPOSE or not isinstance(call, ast.Call):
        name = described(value)
        if places:
            text = f"images that are transformed otherwise, by {name} ({HERE}), are moved at the same place"
        else:
            text = f"images that are transformed otherwise, by {name}, are moved at the same place"
        raise LeftError("other-images", text, *places)
    if module_of(script.flow, call) is not script.module:
        raise LeftError("other-module", f"another module makes a transform of such images ({HERE})", *places)
    steps = list(_steps(script, call))
    names = [next(iter(each)) if len(each) == 1 else "" for _, each in steps]
    _check_steps(script, call, steps, names)
    *_, (to_tensor, _), (normalize, _) = steps
    made = next(iter(script.flow.values(normalize))).site
    assert isinstance(made, ast.Call)  # noqa: S101 - for mypy: it was made by a call
    given = (_given_numbers(script, made, 0), _given_numbers(script, made, 1))
    means, deviations = (_numbers(script, made, *each) for each in zip(_NUMBERS, given, strict=True))
    assert isinstance(to_tensor, ast.Call)  # noqa: S101 - for mypy: ``_check_steps`` saw it
    display = script.module.parent(to_tensor)
    assert isinstance(display, ast.List)  # noqa: S101 - for mypy: ``_steps`` takes them from there
    return Normalized(script.module, call, display, to_tensor, normalize, made, given, means, deviations)


def _steps(script: Script, call: ast.Call) -> Iterator[tuple[ast.expr, set[str]]]:
    """The steps of a transform that are written out in its list, and the names of what each may be."""
    given = arguments_of(call)
    for step in given[0].elts if len(given) == 1 and isinstance(given[0], ast.List) else ():
        yield step, {value.name if isinstance(value, Made) else "" for value in script.flow.values(step)}


def _check_steps(script: Script, call: ast.Call, steps: list[tuple[ast.expr, set[str]]], names: list[str]) -> None:
    """That the list ends in the two steps, and that the others leave an image with 8 bits for each channel."""
    here = (_at(script, call),)
    if not steps:
        raise LeftError("unknown-transform", f"the steps of a transform are not written out ({HERE})", *here)
    if names[-1] != _NORMALIZE and _NORMALIZE in names:
        last = steps[-1][0]
        text = f"'{script.module.code(last)}' follows Normalize ({HERE})"
        raise LeftError("not-normalized-last", text, _at(script, last))
    if names[-1] != _NORMALIZE:
        text = f"images that are not normalised ({HERE}) are moved at the same place"
        raise LeftError("other-images", text, *here)
    if names[-2:-1] != [_TO_TENSOR] or not isinstance(steps[-2][0], ast.Call):
        text = f"no ToTensor() stands right before Normalize ({HERE})"
        raise LeftError("not-normalized-last", text, *here)
    for (node, _), name in zip(steps[:-2], names[:-2], strict=True):
        if not keeps_8_bits(name):
            text = f"whether '{script.module.code(node)}' leaves images 8 bits for each channel is not known"
            raise LeftError("unknown-transform", f"{text} ({HERE})", _at(script, node))


def _given_numbers(script: Script, call: ast.Call, position: int) -> ast.expr:
    node = argument_of(call, _NUMBERS[position], position)
    if node is None or isinstance(node, ast.Starred):
        text = f"the arguments of Normalize cannot be seen ({HERE})"
        raise LeftError("unknown-arguments", text, _at(script, call))
    return node


def _numbers(script: Script, call: ast.Call, name: str, node: ast.expr) -> tuple[float, ...]:
    """The means or the standard deviations that ``Normalize`` is given; one, where they are all the same."""
    values = script.flow.values(node)
    value = next(iter(values)) if len(values) == 1 else NONE
    made = value.site if isinstance(value, Container) and not _is_changed(script, value) else node
    items = made.elts if isinstance(made, (ast.List, ast.Tuple)) else [made]
    numbers = [_number(each) for each in items]
    known = tuple(each for each in numbers if each is not None)
    if not known or len(known) != len(numbers) or (name == "std" and not all(known)):
        text = f"the numbers that Normalize is given as {name} are not known ({HERE}):"
        raise LeftError("unknown-arguments", text, _at(script, call), remedy="write them out")
    return known[:1] if len(set(known)) == 1 else known


def _is_changed(script: Script, container: Value) -> bool:
    """Whether other numbers may stand in a list later."""
    for module, node in script.flow.places(container):
        above = module.parent(node)
        if isinstance(above, (ast.Attribute, ast.AugAssign)):
            return True
        if isinstance(above, ast.Subscript) and not isinstance(above.ctx, ast.Load):
            return True
    return False


def _at(script: Script, node: ast.AST) -> Place:
    return at(module_of(script.flow, node), node)


def _number(node: ast.AST | None) -> float | None:
    """The number that is written out."""
    match node:
        case ast.Constant(int(value) | float(value)) if not isinstance(value, bool):
            return float(value)
        case ast.UnaryOp(ast.USub(), operand):
            number = _number(operand)
            return None if number is None else -number
    return None
