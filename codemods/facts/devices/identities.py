"""Which tensors are identity matrices that NumPy makes, so that ``torch.eye`` could make them on a device?"""

from __future__ import annotations

import ast
from math import isqrt
from typing import TYPE_CHECKING

from codemods.dataflow.values import library_names
from codemods.facts.loops import module_of
from codemods.library.fills import is_single

if TYPE_CHECKING:
    from codemods.facts.script import Script

_EYES = frozenset({"numpy.eye", "numpy.identity"})
_FLATTENING = frozenset({"flatten", "ravel"})
_SHAPING = frozenset({"view", "reshape"})


def identity(script: Script, maker: ast.Call) -> tuple[ast.expr, bool] | None:
    """The size of the identity matrix of float32 that ``torch.from_numpy`` is given, and whether it is one row.

    ``np.eye(k).flatten().astype(np.float32)`` is one, and ``np.array([1, 0, 0, 1]).astype(np.float32)``, of size 2.
    What is given another shape at once counts as the matrix. None for other arrays.
    """
    array = maker.args[0] if len(maker.args) == 1 and not maker.keywords else None
    is_float = is_flat = False
    while isinstance(array, ast.Call) and isinstance(array.func, ast.Attribute) and not _name(script, array):
        match array:
            case ast.Call(ast.Attribute(inner, "astype"), [format_], []) if _is_single(script, format_):
                is_float = True
            case ast.Call(ast.Attribute(inner, method), [], []) if method in _FLATTENING:
                is_flat = True
            case _:
                return None
        array = inner
    if not isinstance(array, ast.Call) or not (is_float or _asks_for_singles(script, array)):
        return None
    made = _made(script, array)
    if made is None:
        return None
    return made[0], (is_flat or made[1]) and not _is_shaped(script, maker)


def _made(script: Script, array: ast.Call) -> tuple[ast.expr, bool] | None:
    """The size of the matrix, and whether its numbers are given in a row."""
    name = _name(script, array)
    others = [each for each in array.keywords if each.arg != "dtype"]
    if len(array.args) != 1 or others or isinstance(array.args[0], ast.Starred):
        return None
    if name in _EYES:
        return array.args[0], False
    if name != "numpy.array" or not isinstance(array.args[0], ast.List):
        return None
    numbers = [each.value if isinstance(each, ast.Constant) else None for each in array.args[0].elts]
    size = isqrt(len(numbers))
    is_identity = size > 1 and numbers == [int(i % (size + 1) == 0) for i in range(size * size)]
    return (ast.Constant(size), True) if is_identity else None


def _asks_for_singles(script: Script, array: ast.Call) -> bool:
    given = [each.value for each in array.keywords if each.arg == "dtype"]
    return len(given) == 1 and _is_single(script, given[0])


def _is_shaped(script: Script, maker: ast.Call) -> bool:
    """Whether the tensor is given another shape at once: ``Variable(torch.from_numpy(array)).view(1, 9)``."""
    module = module_of(script.flow, maker)
    above = module.parent(maker)
    if isinstance(above, ast.Call) and above.args == [maker]:
        above = module.parent(above)
    return isinstance(above, ast.Attribute) and above.attr in _SHAPING and isinstance(module.parent(above), ast.Call)


def _name(script: Script, call: ast.Call) -> str:
    names = library_names(script.flow.values(call.func))
    return next(iter(names)) if len(names) == 1 else ""


def _is_single(script: Script, node: ast.expr) -> bool:
    names = library_names(script.flow.values(node))
    is_text = isinstance(node, ast.Constant) and node.value == "float32"
    return is_text or (bool(names) and all(map(is_single, names)))
