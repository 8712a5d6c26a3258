"""Which tensors are made of one number, so that they could be filled: ``torch.tensor([0.5])``? Of identities, too.

To fill one on a device copies nothing there, as ``torch.tensor([0.5], device=device)`` does.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.source import walk
from codemods.dataflow.values import Literal, Plain, library_names
from codemods.facts.devices.identities import identity
from codemods.facts.devices.own_numbers import is_counted, is_integer, is_size
from codemods.facts.loops import module_of
from codemods.library.fills import is_legacy, is_of_numbers
from codemods.library.tensors import LEGACY_FORMATS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codemods.facts.script import Script

_BY_VALUE: Mapping[object, str] = {0: "torch.zeros", 1: "torch.ones"}
_SINGLE = "float32"
_FROM_ARRAY = "torch.from_numpy"
_AS_TENSOR = "torch.as_tensor"
_KEYWORDS = frozenset({"device", "dtype", "requires_grad"})


@dataclass(frozen=True, eq=False)
class NumberFill:
    """How else the tensor is made."""

    function: str | None
    """How the script writes ``torch.zeros``, ``torch.ones``, ``torch.eye`` or ``torch.full``; None where it cannot."""
    sizes: tuple[ast.expr, ...]
    value: ast.expr | None
    """What ``torch.full`` fills it with."""
    number_format: str | None
    """How the script writes the number format of a legacy constructor, where it has to be said."""
    dtype: ast.expr | None
    """The number format that it is given."""
    is_row: bool = False
    """Whether the numbers of the matrix that is made are in one row."""
    cast: ast.Call | None = None
    """The cast of whole numbers to floats directly after it, which goes: it is filled with floats."""


@dataclass(frozen=True)
class _Contents:
    value: ast.expr
    sizes: tuple[ast.expr, ...] = ()
    may_be_empty: bool = False


def number_fill(script: Script, name: str, maker: ast.Call) -> NumberFill | None:
    """How else a tensor is made whose elements are one number, written once or several times, or of an identity matrix.

    None for others.

    Args:
        script: The script.
        name: The qualified name of the constructor.
        maker: Its call.
    """
    if name == _FROM_ARRAY:
        return _of_identity(script, maker)
    if len(maker.args) != 1 or not (is_of_numbers(name) or is_legacy(name) or name == _AS_TENSOR):
        return None
    contents = _contents(script, maker.args[0])
    if contents is None:
        return None
    if is_legacy(name):
        return _of_legacy(script, name, maker, contents)
    return _in_floats(script, maker, contents) or _of_numbers(script, maker, contents)


def _of_identity(script: Script, maker: ast.Call) -> NumberFill | None:
    """Of ``torch.from_numpy``, of an identity matrix of float32."""
    found = identity(script, maker)
    if found is None or script.default_device:
        return None
    number_format = _spelled(script, f"torch.{_SINGLE}", maker) if script.default_format else None
    if script.default_format and number_format is None:
        return None
    size, is_row = found
    return NumberFill(_spelled(script, "torch.eye", maker), (size,), None, number_format, None, is_row)


def _of_numbers(script: Script, maker: ast.Call, contents: _Contents) -> NumberFill | None:
    """Of ``torch.tensor``, which takes over the format of the number: of a list without one it is that of floats."""
    dtype = next((each.value for each in maker.keywords if each.arg == "dtype"), None)
    is_plain = all(each.arg in _KEYWORDS for each in maker.keywords)
    value, is_said = contents.value, dtype is not None or _is_float(contents.value)
    if not is_plain or not is_counted(script, value) or (contents.may_be_empty and not is_said):
        return None
    exact = _exact(value) if is_said else None
    function = _spelled(script, exact or "torch.full", maker)
    return NumberFill(function, contents.sizes, None if exact else value, None, dtype)


def _in_floats(script: Script, maker: ast.Call, contents: _Contents) -> NumberFill | None:
    """Of ``torch.tensor(0).float()``: ``torch.zeros(())``, and of other whole numbers what is told the format."""
    module, value = module_of(script.flow, maker), contents.value
    named = module.parent(maker)
    cast = module.parent(named) if isinstance(named, ast.Attribute) and named.attr == "float" else None
    is_plain = all(each.arg == "device" for each in maker.keywords)
    if not isinstance(cast, ast.Call) or cast.args or cast.keywords or not (is_plain and is_integer(script, value)):
        return None
    exact = _exact(value)
    is_said = exact is None or script.default_format is not None
    number_format = _spelled(script, f"torch.{_SINGLE}", maker) if is_said else None
    function = _spelled(script, exact or "torch.full", maker)
    if function is None or (is_said and number_format is None):
        return None
    return NumberFill(function, contents.sizes, None if exact else value, number_format, None, cast=cast)


def _of_legacy(script: Script, name: str, maker: ast.Call, contents: _Contents) -> NumberFill | None:
    """Of ``torch.FloatTensor([0.5])``; a number alone is a size there."""
    made = LEGACY_FORMATS.get(name.rpartition(".")[2])
    if made is None or maker.keywords or not contents.sizes or script.default_format or script.default_device:
        return None
    value = contents.value
    is_float = made.startswith("float")
    if not (is_counted(script, value) or (is_float and _is_number(script, value))):
        return None
    if not is_float and not (isinstance(value, ast.Constant) or is_size(script, value)):
        return None
    exact = _exact(value)
    is_said = made != _SINGLE or (exact is None and not _is_float(value))
    number_format = _spelled(script, f"torch.{made}", maker) if is_said else None
    if is_said and number_format is None:
        return None
    function = _spelled(script, exact or "torch.full", maker)
    return NumberFill(function, contents.sizes, None if exact else value, number_format, None)


def _spelled(script: Script, name: str, maker: ast.Call) -> str | None:
    module = module_of(script.flow, maker)
    return script.spelled(module, name, module.statement(maker))


def _is_float(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and type(value.value) is float


def _exact(value: ast.expr) -> str | None:
    is_number = isinstance(value, ast.Constant) and type(value.value) in {int, float}
    return _BY_VALUE.get(value.value) if isinstance(value, ast.Constant) and is_number else None


def _is_number(script: Script, node: ast.expr) -> bool:
    values = script.flow.values(node)
    return bool(values) and all(
        isinstance(each, Plain) or (isinstance(each, Literal) and type(each.value) in {int, float}) for each in values
    )


def _contents(script: Script, node: ast.expr) -> _Contents | None:
    """The one number that is in a list, perhaps in lists of lists, and how often it is there."""
    match node:
        case ast.List(elts) | ast.Tuple(elts) if elts:
            inner = _contents(script, elts[0])
            is_alike = len(elts) == 1 or (all(isinstance(each, ast.Constant) for each in elts) and _are_alike(elts))
            size = ast.Constant(len(elts))
        case ast.BinOp(ast.List([one]), ast.Mult(), count) | ast.BinOp(count, ast.Mult(), ast.List([one])):
            inner, is_alike, size = _contents(script, one), is_size(script, count), count  # type: ignore[assignment]
        case ast.ListComp(one, [ast.comprehension(target, ast.Call(func, [count], []), [], 0)]):
            inner, size = _contents(script, one), count  # type: ignore[assignment]
            is_range = library_names(script.flow.values(func)) == {"builtins.range"}
            is_constant = not _names(one) & _names(target)
            is_alike = is_range and is_constant and is_size(script, count)
        case ast.List() | ast.Tuple() | ast.Starred():
            return None
        case ast.Call() if not is_integer(script, node):
            return None
        case _:
            return _Contents(node)
    if inner is None or not is_alike:
        return None
    return _Contents(inner.value, (size, *inner.sizes), inner.may_be_empty or not isinstance(size, ast.Constant))


def _names(node: ast.expr) -> set[str]:
    return {each.id for each in walk(node) if isinstance(each, ast.Name)}


def _are_alike(elements: list[ast.expr]) -> bool:
    """Whether constants are one number of one type."""
    return len({(type(each.value), repr(each.value)) for each in elements if isinstance(each, ast.Constant)}) == 1
