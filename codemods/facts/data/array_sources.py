"""Where arrays come from: objects of libraries that hand them out, files that are read, numbers that are drawn."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import argument_of
from codemods.dataflow.values import NONE, Choice, External, Literal, Made, Plain, without_none
from codemods.facts.data.array_values import Array
from codemods.library.ndarrays import (
    ALIASES,
    CONSTANTS,
    CONSTRUCTORS,
    FORMATS,
    NEED_AXES,
    RANDOM_FLOATS,
    RANDOM_OTHERS,
    READERS_OF_PARTS,
)

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module


def is_of(flow: Flow, node: ast.expr, packages: str | tuple[str, ...]) -> bool:
    """Whether it is an object that a library made."""
    values = without_none(flow.values(node))
    return bool(values) and all(isinstance(each, Made) and each.name.startswith(packages) for each in values)


def is_frame(flow: Flow, node: ast.expr) -> bool:
    """Whether it is a table of pandas, or a part of one: ``frame``, ``frame["x"]``, ``frame.iloc[:, 1:]``."""
    while isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr in {"loc", "iloc"}):
        node = node.value
    return is_of(flow, node, "pandas.")


def is_image(flow: Flow, node: ast.expr) -> bool:
    """Whether it is an image of Pillow's, whose array cannot be written to."""
    return is_of(flow, node, ("PIL.Image.", "torchvision.transforms.functional.to_pil_image"))


def is_archive(flow: Flow, module: Module, node: ast.expr) -> bool:
    """Whether it is a file of several arrays, each of which is read anew whenever it is asked for."""
    if isinstance(node, ast.Name):
        function = module.function(node)
        same = [each for each in module.nodes(ast.Name) if each.id == node.id and module.function(each) is function]
        given = [module.parent(each) for each in same if not isinstance(each.ctx, ast.Load)]
        loads = [each.value if isinstance(each, ast.Assign) else getattr(each, "context_expr", None) for each in given]
        is_managed = any(isinstance(each, ast.withitem) for each in given)
        is_asked = any(getattr(module.parent(each), "attr", "") in {"close", "files"} for each in same)
        return bool(loads) and all(_loads(flow, each, is_archive=is_managed or is_asked) for each in loads)
    return _loads(flow, node, is_archive=False)


def _loads(flow: Flow, node: ast.AST | None, *, is_archive: bool) -> bool:
    """``np.load("data.npz")``; of another path it has to be known that it is an archive."""
    if not isinstance(node, ast.Call) or not node.args:
        return False
    path = node.args[0]
    is_named = isinstance(path, ast.Constant) and str(path.value).endswith(".npz")
    return {each.name for each in flow.values(node.func)} == {"numpy.load"} and (is_archive or is_named)


def joins_arrays(flow: Flow, function: ast.expr) -> bool:
    """Whether it is a function of NumPy's that joins whatever it is given to a new array."""
    names = {each.name for each in flow.values(function)}
    return bool(names) and names <= {f"numpy.{each}" for each in CONSTRUCTORS.keys() - {"array", "full", "arange"}}


def is_number(flow: Flow, node: ast.expr) -> bool:
    """Whether it is a number for certain, or the user's choice of one."""
    if isinstance(node, ast.BinOp):
        return is_number(flow, node.left) and is_number(flow, node.right)
    values = flow.values(node)
    return isinstance(node, ast.Constant) or (
        bool(values)
        and all(
            isinstance(each, (Literal, Choice))
            or (isinstance(each, Plain) and each.name == "a number")
            or (isinstance(each, External) and each.name in CONSTANTS)
            for each in values
        )
    )


def is_float(node: ast.expr) -> bool:
    """Whether it is a float that is written out."""
    return isinstance(node, ast.Constant) and type(node.value) is float


def format_of(flow: Flow, node: ast.expr) -> str | None:
    """The number format that a ``dtype`` argument names: ``np.float32``, ``'float32'``, ``torch.float``."""
    for value in flow.values(node):
        package, _, name = value.name.rpartition(".")
        if isinstance(value, Literal):
            name = str(value.value)
        elif package == "torch":
            name = {"float": "float32", "half": "float16", "long": "int64", "int": "int32", "short": "int16"}.get(
                name, name
            )
        name = ALIASES.get(name, name)
        return name if name in FORMATS else None
    return None


def drawn(flow: Flow, name: str, call: ast.Call) -> Array | None:
    """The array of random numbers, where it is one and no number."""
    position = (RANDOM_FLOATS | RANDOM_OTHERS)[name]
    size = argument_of(call, "size", position)
    other = any(each.arg in {"dtype", "out"} for each in call.keywords)
    if size is None or NONE in flow.values(size) or other:
        return None
    axes = not is_no_shape(size) or is_number(flow, size)
    return Array("float64" if name in RANDOM_FLOATS else None, is_new=True, has_axes=axes, is_dense=True)


def from_file(flow: Flow, name: str, call: ast.Call) -> Array | None:
    """An array that is read from a file: an archive's are new, too, but not what is mapped from the file."""
    keywords = {each.arg for each in call.keywords}
    is_mapped = name == "load" and ("mmap_mode" in keywords or len(call.args) > 1)
    given = None if name == "load" else given_format(flow, call, 1, "float64")
    return None if is_mapped or not call.args else Array(given, is_new=True, is_dense=True, is_read=True)


def recording(flow: Flow, name: str, call: ast.Call, index: int) -> Array | None:
    """A recording, beside its sampling rate; not one that is mapped from its file, or whose memory is a file's."""
    position, format_ = READERS_OF_PARTS[name]
    asked = {each.arg: each.value for each in call.keywords}
    if index != position or not call.args or asked.keys() & {"mmap", "out", None} or is_of(flow, call.args[0], "io."):
        return None
    given = format_of(flow, asked["dtype"]) if "dtype" in asked else format_
    return Array(given, is_new=True, has_axes=True, is_dense=True, is_read=True)


def given_format(flow: Flow, call: ast.Call, position: int | None, default: str | None) -> str | None:
    """The number format that a call is given as ``dtype``, by position or by name."""
    given = argument_of(call, "dtype", position)
    return default if given is None else format_of(flow, given)


def is_no_shape(node: ast.expr) -> bool:
    """Whether a shape may be that of a single number: only ``()`` is, or what is not seen."""
    return least_axes(node) == 0


def least_axes(shape: ast.expr) -> int:
    """The fewest dimensions that an array of the shape has: of what is not seen, none."""
    return 1 if isinstance(shape, ast.Constant) and isinstance(shape.value, int) else _written_sizes(shape)


def _written_sizes(shape: ast.expr) -> int:
    """How many sizes a shape writes out: ``(n, 3) + x.shape[1:]`` two of them."""
    match shape:
        case ast.Tuple(sizes) | ast.List(sizes):
            return sum(not isinstance(each, ast.Starred) for each in sizes)
        case ast.BinOp(left, ast.Add(), right):
            return _written_sizes(left) + _written_sizes(right)
    return 0


def orders_axes(call: ast.Call) -> bool:
    """Whether it is ``a.transpose(2, 0, 1)``, which fails for another number of axes."""
    is_transpose = isinstance(call.func, ast.Attribute) and call.func.attr == "transpose"
    given = call.args[0].elts if len(call.args) == 1 and isinstance(call.args[0], ast.Tuple) else call.args
    return is_transpose and len(given) > 1 and not any(isinstance(each, ast.Starred) for each in given)


def gives_axes(method: str, arguments: list[ast.expr]) -> bool:
    """Whether what a method returns is surely no single number: ``a.ravel()``, ``a.reshape(-1, 1)``."""
    if method != "reshape":
        return method in NEED_AXES
    is_unpacked = any(isinstance(each, ast.Starred) for each in arguments)
    sizes = [_as_number(each) for each in arguments]
    return not is_unpacked and (len(sizes) > 1 or (len(sizes) == 1 and not is_no_shape(sizes[0])))


def _as_number(size: ast.expr) -> ast.expr:
    """``1`` of ``-1``."""
    return size.operand if isinstance(size, ast.UnaryOp) else size
