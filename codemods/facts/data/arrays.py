"""Which expressions are NumPy arrays for certain, of which number format, and who else holds their memory."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.recursion import closure
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import FUNCTIONS, is_name, walk
from codemods.dataflow.values import NONE, NOTHING, TENSOR_SORTS, Sort, without_none
from codemods.facts.loops import module_of
from codemods.library.packages import steps_arrays, wraps_environments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Value, Values


FORMATS = frozenset(
    {"float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool", "complex64", "complex128"}
)
_ALIASES = {
    "float": "float64",
    "double": "float64",
    "float_": "float64",
    "single": "float32",
    "half": "float16",
    "bool_": "bool",
}
# Constructors whose result is float64 where no dtype is given, with the position of that argument.
_FLOATS = {"zeros": 1, "ones": 1, "empty": 1, "eye": 3, "identity": 1, "linspace": 5, "logspace": 5}
# Functions that make new arrays of whatever they are given, with the position of their dtype where they take one.
_CONSTRUCTORS = {
    "array": 1,
    "full": 2,
    "arange": 3,
    "concatenate": 4,
    "stack": 4,
    "vstack": 1,
    "hstack": 1,
    "column_stack": 1,
}
# Functions that draw arrays of float64, with the position of their size; without one they draw a Python number.
_RANDOM_FLOATS = {
    "random.rand": 0,
    "random.randn": 0,
    "random.random": 0,
    "random.random_sample": 0,
    "random.standard_normal": 0,
    "random.normal": 2,
    "random.uniform": 2,
}
# Those that draw numbers of other formats.
_RANDOM_OTHERS = {"random.randint": 2, "random.choice": 1, "random.binomial": 2, "random.poisson": 1}
# Functions that make new arrays of arrays; of a tensor they make a tensor.
_COMPUTE = frozenset(
    {
        "exp",
        "log",
        "log1p",
        "log2",
        "log10",
        "expm1",
        "sqrt",
        "sin",
        "cos",
        "tanh",
        "abs",
        "clip",
        "power",
        "multiply",
        "add",
        "subtract",
        "divide",
        "square",
        "sign",
    }
    | {
        "logical_or",
        "logical_and",
        "logical_not",
        "floor",
        "ceil",
        "maximum",
        "minimum",
        "repeat",
        "tile",
        "cumsum",
        "copy",
        "zeros_like",
        "ones_like",
        "empty_like",
    }
)
# Those whose results are floats, also of integers.
_GIVE_FLOATS = frozenset({"exp", "log", "log1p", "log2", "log10", "expm1", "sqrt", "sin", "cos", "tanh"})
# Functions that read arrays from files, as 64-bit numbers where nothing else is asked for, and ``load``.
_FROM_FILES = frozenset({"load", "loadtxt", "genfromtxt", "fromfile"})
# Those of other libraries.
_READERS = frozenset(
    {
        "cv2.imread",
        "cv2.imdecode",
        "imageio.imread",
        "imageio.v2.imread",
        "imageio.v3.imread",
        "matplotlib.image.imread",
    }
    | {"matplotlib.pyplot.imread", "skimage.io.imread", "tifffile.imread"}
)
# Those that return it in a tuple, with its position there, and its number format where none is asked for.
_READERS_OF_PARTS = {
    "librosa.load": (0, "float32"),
    "librosa.core.load": (0, "float32"),
    "scipy.io.wavfile.read": (1, None),
    "soundfile.read": (0, "float64"),
}
# The same memory as the argument where that is possible.
_VIEWS = frozenset(
    {"asarray", "ascontiguousarray", "squeeze", "expand_dims", "reshape", "transpose", "moveaxis", "swapaxes", "ravel"}
)
_VIEW_METHODS = frozenset({"reshape", "transpose", "squeeze", "ravel", "swapaxes"})
# Their results have no gaps, whatever they are given.
_LAID_OUT = frozenset({"ravel", "ascontiguousarray", "flatten", "copy", "repeat"})
_NEW_METHODS = frozenset({"copy", "flatten", "repeat", "clip", "cumsum"})
# They hand out new arrays, or numbers, and keep the format of floats.
_REDUCING = frozenset({"sum", "mean", "std", "var", "min", "max", "prod"})
_METHODS = _VIEW_METHODS | _NEW_METHODS | _REDUCING | {"astype"}
"""Methods whose results are arrays if they are called of one."""
_SEQUENCES = (ast.List, ast.Tuple, ast.ListComp)
# How many items of what an environment's method returns are arrays: observations, rewards, and whether an episode ends.
_ENVIRONMENT_ARRAYS = {"reset": 1, "step": 4}
_CONSTANTS = frozenset({"numpy.pi", "numpy.e", "numpy.inf", "math.pi", "math.e", "math.inf"})
_GENERATORS = frozenset({"numpy.random.default_rng", "numpy.random.RandomState"})
_MANY = 6
"""Names that are bound more often are not followed."""


@dataclass(frozen=True, slots=True)
class Array:
    """A NumPy array."""

    format: str | None = None
    """Its number format, where that is known: ``float32``."""
    is_new: bool = False
    """Whether its memory was made for it by the very expression, so that nothing else holds it."""
    owner: ast.AST | None = None
    """The attribute or name whose memory it shares."""
    has_axes: bool = False
    """Whether it has one dimension or more for certain, and is no single number."""
    is_dense: bool = False
    """Whether its elements lie without gaps, as those of a copy do: those of a slice may not."""
    is_read: bool = False
    """Whether its numbers come from a file, of which there may be gigabytes."""
    is_locked: bool = False
    """Whether it cannot be written to, as the array of an image's memory: tensors of it warn."""
    is_float: bool = False
    """Whether its numbers are floats, of whichever format."""


class Arrays:
    """What is known of arrays; every answer is certain, or there is none."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._busy: set[ast.AST] = set()
        self.obstacle: tuple[Module, ast.expr] | None = None
        """The last name that is not known to be an array, as something else may be given to it."""
        self._lengths: dict[ast.expr, int] = {}
        self._parts: dict[tuple[ast.expr, int], ast.Subscript] = {}
        """What a name of `a, b = call()` is given: `call()[1]`, which the script does not write."""

    def array(self, module: Module, node: ast.expr) -> Array | None:
        """The array that the expression is; None where it may be something else."""
        if node in self._busy:
            return None
        self._busy.add(node)
        before = self.obstacle
        try:
            found = self._of(module, node)
        finally:
            self._busy.discard(node)
        if found is not None:
            self.obstacle = before  # whatever of it is not known is none
        return found

    def _of(self, module: Module, node: ast.expr) -> Array | None:
        match node:
            case ast.Call():
                return self._call(module, node)
            case ast.BinOp(left, _, right):
                return self._computed(module, left, right)
            case ast.UnaryOp(ast.USub(), operand):
                inner = self.array(module, operand)
                return None if inner is None else replace(inner, is_new=True, owner=None, is_locked=False)
            case ast.Subscript(value):
                return self._item(module, value, node.slice)
            case ast.Attribute(value, "T"):
                return self.array(module, value)
            case ast.Attribute(value, "values") if self._is_frame(value):
                return Array(owner=node, has_axes=True, is_dense=True, is_read=True)
            case ast.Name() | ast.Attribute():
                return self._named(module, node)
        return None

    # Calls.

    def _call(self, module: Module, call: ast.Call) -> Array | None:
        callees = self._flow.values(call.func)
        if len(callees) > 1 and not isinstance(call.func, ast.Attribute):
            return None  # what is made depends on the run: `make = np.zeros if fast else list`
        for callee in callees:
            if callee.sort is Sort.EXTERNAL and callee.name.startswith("numpy."):
                return self._function(module, callee.name.removeprefix("numpy."), call)
            if callee.sort is Sort.EXTERNAL and callee.name in _READERS:
                return Array(None, is_new=True, has_axes=True, is_dense=True, is_read=True)
            if callee.sort in {Sort.FUNCTION, Sort.METHOD} and isinstance(callee.site, FUNCTIONS):
                return self._result(call)
        return self._method(module, call, call.func) if isinstance(call.func, ast.Attribute) else None

    def _function(self, module: Module, name: str, call: ast.Call) -> Array | None:
        keywords = {each.arg for each in call.keywords}
        if keywords & {"out", "copy", "order", "like", None}:
            return None
        if name in _FROM_FILES:
            return self._from_file(name, call, keywords)
        if name in _RANDOM_FLOATS or name in _RANDOM_OTHERS:
            return self._drawn(name, call)
        if not call.args:
            return None
        if name in _FLOATS:
            given = self._given_format(call, _FLOATS[name], "float64")
            return Array(given, is_new=True, has_axes=not _is_no_shape(call.args[0]), is_dense=True)
        if name == "asarray" and self._is_list(module, call.args[0]):
            name = "array"
        if name in _CONSTRUCTORS:
            inner = self.array(module, call.args[0]) or self.list_of(module, call.args[0])
            default = inner.format if name == "array" and inner is not None else None
            axes = name not in {"array", "full"} or self._is_list(module, call.args[0])
            axes = axes or (name == "array" and inner is not None and inner.has_axes)
            is_read = inner is not None and inner.is_read
            given = self._given_format(call, _CONSTRUCTORS[name], default)
            axes = axes or self._is_image(call.args[0])
            return Array(given, is_new=True, has_axes=axes, is_dense=True, is_read=is_read)
        if name in FORMATS:
            # `np.float32(a)` converts, unless it is that already.
            inner = self.array(module, call.args[0])
            is_new = inner is not None and inner.format not in {None, name}
            axes, is_dense = inner is not None and inner.has_axes, inner is not None and inner.is_dense
            return Array(name, is_new, call.args[0], axes, is_dense)
        return self._of_arrays(module, name, call, keywords)

    def _drawn(self, name: str, call: ast.Call) -> Array | None:
        """The array of random numbers, where it is one and no number."""
        position = (_RANDOM_FLOATS | _RANDOM_OTHERS)[name]
        sizes = [*call.args[position : position + 1], *(each.value for each in call.keywords if each.arg == "size")]
        is_number = not sizes or any(self._flow.values(each) & {NONE} for each in sizes)
        other = any(each.arg in {"dtype", "out"} for each in call.keywords)
        if is_number or other:
            return None
        axes = not _is_no_shape(sizes[0]) or self._is_number(sizes[0])
        return Array("float64" if name in _RANDOM_FLOATS else None, is_new=True, has_axes=axes, is_dense=True)

    def _from_file(self, name: str, call: ast.Call, keywords: set[str | None]) -> Array | None:
        """An array that is read from a file: an archive's are new, too, but not what is mapped from the file."""
        is_mapped = name == "load" and ("mmap_mode" in keywords or len(call.args) > 1)
        given = None if name == "load" else self._given_format(call, 1, "float64")
        return None if is_mapped or not call.args else Array(given, is_new=True, is_dense=True, is_read=True)

    def _of_arrays(self, module: Module, name: str, call: ast.Call, keywords: set[str | None]) -> Array | None:
        """What a function makes of arrays: a new one, or the same memory in another shape."""
        if name == "asarray" and self._is_image(call.args[0]):
            converts = "dtype" in keywords or len(call.args) > 1
            given = self._given_format(call, 1, None)
            return Array(given, is_new=True, has_axes=True, is_dense=True, is_locked=not converts)
        arrays = [self.array(module, each) for each in call.args if not isinstance(each, ast.Constant)]
        if name == "asarray" and arrays == [None]:
            # An array, whatever it is given: perhaps in the memory of that.
            return Array(self._given_format(call, 1, None), owner=call.args[0])
        if not arrays or any(each is None for each in arrays) or "dtype" in keywords:
            return None
        if name in _COMPUTE:
            return replace(self._new(_same_float(arrays), arrays), is_float=name in _GIVE_FLOATS)
        (viewed,) = arrays if name in _VIEWS and len(arrays) == 1 else (None,)
        return None if viewed is None else replace(viewed, is_dense=_is_laid_out(name, viewed))

    @staticmethod
    def _new(format_: str | None, parts: Sequence[Array | None]) -> Array:
        """The array that is computed from some others."""
        is_read = any(each is not None and each.is_read for each in parts)
        return Array(format_, is_new=True, has_axes=_any_axes(parts), is_dense=True, is_read=is_read)

    def _is_of(self, node: ast.expr, packages: str | tuple[str, ...]) -> bool:
        """Whether it is an object that a library made."""
        values = without_none(self._flow.values(node))
        return bool(values) and all(each.sort is Sort.MADE and each.name.startswith(packages) for each in values)

    def _is_frame(self, node: ast.expr) -> bool:
        """Whether it is a table of pandas, or a part of one: ``frame``, ``frame["x"]``, ``frame.iloc[:, 1:]``."""
        while isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr in {"loc", "iloc"}):
            node = node.value
        return self._is_of(node, "pandas.")

    def _is_image(self, node: ast.expr) -> bool:
        """Whether it is an image of Pillow's, whose array cannot be written to."""
        return self._is_of(node, ("PIL.Image.", "torchvision.transforms.functional.to_pil_image"))

    def _result(self, call: ast.Call, index: int | None = None) -> Array | None:
        """What the project's functions return that may be called there; they may keep hold of that.

        Args:
            call: The call.
            index: Which item of the tuple that they return is asked for, if not all of it.
        """
        functions = [each.site for each in self._flow.values(call.func)]
        # What returns nothing is no array either way: it is there for derived classes.
        ending = [each for each in functions if not isinstance(each, ast.FunctionDef) or self._ends(each)]
        found = [self._returned(each, call, index) if isinstance(each, ast.FunctionDef) else None for each in ending]
        known = [each for each in found if each is not None]
        return _any_of(known, call) if known and len(known) == len(found) else None

    def _handed_on(self, call: ast.Call, index: int) -> Array | None:
        """An item of what a function returns as another one returns it; none where that is the function itself."""
        if call in self._busy:
            return None
        self._busy.add(call)
        try:
            return self._part(call, index)
        finally:
            self._busy.discard(call)

    def _ends(self, function: ast.FunctionDef) -> list[ast.Return | ast.Yield | ast.YieldFrom]:
        own = self._flow.module_of(function)
        return [
            each
            for each in walk(function)
            if isinstance(each, (ast.Return, ast.Yield, ast.YieldFrom)) and own.function(each) is function
        ]

    def _returned(self, function: ast.FunctionDef, call: ast.Call, index: int | None) -> Array | None:
        own, ends = self._flow.module_of(function), self._ends(function)
        if function.decorator_list or not isinstance(function.body[-1], ast.Return):
            return None
        found = []
        for end in ends:
            value = end.value if isinstance(end, ast.Return) else None
            if index is not None and isinstance(value, ast.Call):
                array = self._handed_on(value, index)
            else:
                value = value if index is None else _item_of(value, index)
                array = self.array(own, value) if value is not None else None
            if array is None:
                return None
            found.append(array)
        return _any_of(found, call)

    def _method(self, module: Module, call: ast.Call, func: ast.Attribute) -> Array | None:
        if func.attr == "numpy" and not call.args:
            # Whatever has such a method is a tensor, of PyTorch or of another library.
            is_projects = any(isinstance(each.site, FUNCTIONS) for each in self._flow.values(func))
            return None if is_projects else Array(owner=func.value)
        if func.attr == "to_numpy" and self._is_frame(func.value):
            return Array(owner=call, has_axes=True, is_dense=True, is_read=True)
        if f"random.{func.attr}" in _RANDOM_FLOATS and self._is_of(func.value, tuple(_GENERATORS)):
            return self._drawn(f"random.{func.attr}", call)
        if func.attr not in _METHODS:
            if all(each.sort is not Sort.EXTERNAL for each in self._flow.values(func)):
                self._note(module, call)
            return None
        inner = self.array(module, func.value)
        if inner is None:
            return None
        if func.attr == "astype":
            # Without ``copy=False`` the result is always new.
            kept = any(each.arg == "copy" for each in call.keywords) or len(call.args) > 1
            given = self._given_format(call, 0, None)
            return None if kept else self._new(given, [inner])
        if func.attr in _REDUCING and not any(each.arg in {"dtype", "out"} for each in call.keywords):
            return Array(_same_float([inner]), is_new=True, is_dense=True)
        is_dense = _is_laid_out(func.attr, inner)
        if func.attr in _VIEW_METHODS:
            return replace(inner, has_axes=func.attr == "ravel", is_dense=is_dense)
        return replace(inner, is_new=True, owner=None, is_dense=True, is_locked=False)

    def _given_format(self, call: ast.Call, position: int | None, default: str | None) -> str | None:
        given = [each.value for each in call.keywords if each.arg == "dtype"]
        if position is not None:
            given += call.args[position : position + 1]
        return self.format(given[0]) if given else default

    def format(self, node: ast.expr) -> str | None:
        """The number format that a ``dtype`` argument names: ``np.float32``, ``'float32'``, ``torch.float``."""
        for value in self._flow.values(node):
            package, _, name = value.name.rpartition(".")
            if value.sort is Sort.LITERAL:
                name = str(value.literal)
            elif package == "torch":
                name = {"float": "float32", "half": "float16", "long": "int64", "int": "int32", "short": "int16"}.get(
                    name, name
                )
            name = _ALIASES.get(name, name)
            return name if name in FORMATS else None
        return None

    # Operators, items, names.

    def _computed(self, module: Module, left: ast.expr, right: ast.expr) -> Array | None:
        one, other = self.array(module, left), self.array(module, right)
        if one is None and other is None:
            return None
        for node, known in ((left, one), (right, other)):
            if known is None and not self._is_number(node):
                return None  # of an array and a tensor, PyTorch makes a tensor
        # A Python number keeps the format of floats; that of integers may change.
        both = [each for node, each in ((left, one), (right, other)) if not isinstance(node, ast.Constant)]
        return replace(self._new(_same_float(both), [one, other]), has_axes=_any_axes([one, other]))

    def _is_list(self, module: Module, node: ast.expr) -> bool:
        """Whether it is a list or a tuple for certain, and no array."""
        values = self._flow.values(node)
        is_container = bool(values) and all(each.sort is Sort.CONTAINER for each in values)
        return isinstance(node, _SEQUENCES) or is_container or self.list_of(module, node) is not None

    def _is_number(self, node: ast.expr) -> bool:
        """Whether it is a number for certain, or the user's choice of one."""
        if isinstance(node, ast.BinOp):
            return self._is_number(node.left) and self._is_number(node.right)
        values = self._flow.values(node)
        return isinstance(node, ast.Constant) or (
            bool(values)
            and all(
                each.sort in {Sort.LITERAL, Sort.CHOICE}
                or (each.sort is Sort.PLAIN and each.name == "a number")
                or (each.sort is Sort.EXTERNAL and each.name in _CONSTANTS)
                for each in values
            )
        )

    def _item(self, module: Module, value: ast.expr, index: ast.expr) -> Array | None:
        """A part of an array: a view, or a number of NumPy's own, which nothing can write to."""
        if isinstance(value, ast.Call) and isinstance(index, ast.Constant) and isinstance(index.value, int):
            part = self._part(value, index.value)
            if part is not None:
                return part
        if isinstance(index, ast.Constant) and isinstance(index.value, str) and self._is_archive(module, value):
            return Array(is_new=True, is_dense=True, is_read=True)
        inner = self.array(module, value)
        if inner is None:
            return None
        parts = index.elts if isinstance(index, ast.Tuple) else []
        is_gap = (isinstance(index, ast.Slice) and index.step is not None) or any(
            not isinstance(each, (ast.Name, ast.Constant)) for each in parts
        )
        is_dense = inner.is_dense and not is_gap
        owner = None if inner.is_new else inner.owner or value
        # A slice keeps its axis, whatever else is asked for.
        axes = any(isinstance(each, ast.Slice) for each in (index, *parts))
        return replace(inner, owner=owner, has_axes=axes, is_dense=is_dense)

    def _is_archive(self, module: Module, node: ast.expr) -> bool:
        """Whether it is a file of several arrays, each of which is read anew whenever it is asked for."""
        if isinstance(node, ast.Name):
            function = module.function(node)
            same = [each for each in module.nodes(ast.Name) if each.id == node.id and module.function(each) is function]
            given = [module.parent(each) for each in same if not isinstance(each.ctx, ast.Load)]
            loads = [
                each.value if isinstance(each, ast.Assign) else getattr(each, "context_expr", None) for each in given
            ]
            is_managed = any(isinstance(each, ast.withitem) for each in given)
            is_asked = any(getattr(module.parent(each), "attr", "") in {"close", "files"} for each in same)
            return bool(loads) and all(self._loads(each, is_archive=is_managed or is_asked) for each in loads)
        return self._loads(node, is_archive=False)

    def _loads(self, node: ast.AST | None, *, is_archive: bool) -> bool:
        """``np.load("data.npz")``; of another path it has to be known that it is an archive."""
        if not isinstance(node, ast.Call) or not node.args:
            return False
        path = node.args[0]
        is_named = isinstance(path, ast.Constant) and str(path.value).endswith(".npz")
        return {each.name for each in self._flow.values(node.func)} == {"numpy.load"} and (is_archive or is_named)

    def _part(self, call: ast.Call, index: int) -> Array | None:
        """An item of what is returned by a function of the project, an environment or ``map(np.stack, …)``."""
        callees = self._flow.values(call.func)
        if callees and all(isinstance(each.site, ast.FunctionDef) for each in callees):
            return self._result(call, index)
        (only,) = callees if len(callees) == 1 else (None,)
        if only is not None and only.name == "builtins.map" and self._are_made(call.args[0]):
            return Array(is_new=True, has_axes=True, is_dense=True)
        if only is not None and only.sort is Sort.EXTERNAL and only.name in _READERS_OF_PARTS:
            return self._read_part(only.name, call, index)
        arrays = _ENVIRONMENT_ARRAYS.get(only.name, 0) if only is not None and only.sort is Sort.METHOD else 0
        # The last of what a step returns is a dictionary.
        if only is not None and index < min(arrays, self._lengths.get(call, arrays + 1) - 1):
            return Array(owner=call, has_axes=True) if self._is_vector_environment(only.of) else None
        return None

    def _are_made(self, function: ast.expr) -> bool:
        """Whether it is a function of NumPy's that joins whatever it is given to a new array."""
        names = {each.name for each in self._flow.values(function)}
        return bool(names) and names <= {f"numpy.{each}" for each in _CONSTRUCTORS.keys() - {"array", "full", "arange"}}

    def _read_part(self, name: str, call: ast.Call, index: int) -> Array | None:
        """A recording, beside its sampling rate; not one that is mapped from its file, or whose memory is a file's."""
        position, format_ = _READERS_OF_PARTS[name]
        asked = {each.arg: each.value for each in call.keywords}
        if (
            index != position
            or not call.args
            or asked.keys() & {"mmap", "out", None}
            or self._is_of(call.args[0], "io.")
        ):
            return None
        given = self.format(asked["dtype"]) if "dtype" in asked else format_
        return Array(given, is_new=True, has_axes=True, is_dense=True, is_read=True)

    def _is_vector_environment(self, value: Value | None) -> bool:
        """Whether it is several environments that step together, perhaps wrapped: what they hand out has an axis."""
        return value is not None and all(
            each.sort is Sort.MADE
            and isinstance(each.site, ast.Call)
            and (steps_arrays(each.name) or (wraps_environments(each.name) and bool(self._wrapped(each))))
            for each in closure([value], self._wrapped)
        )

    def _wrapped(self, value: Value) -> Values:
        """The environments that another one wraps."""
        if steps_arrays(value.name) or not isinstance(value.site, ast.Call) or not value.site.args:
            return NOTHING
        return self._flow.values(value.site.args[0])

    def _made(self, node: ast.expr) -> Array | None:
        """What the expression is given on every way that leads to it, where NumPy made all of that; it may be kept."""
        values = without_none(self._flow.values(node))
        made = [each.site for each in values if each.sort is Sort.MADE and each.name.startswith("numpy.")]
        calls = [each for each in made if isinstance(each, ast.Call)]
        found = [self.array(module_of(self._flow, each), each) for each in calls]
        known = [each for each in found if each is not None]
        return _any_of(known, node) if known and len(known) == len(values) else None

    def _named(self, module: Module, node: ast.Name | ast.Attribute) -> Array | None:
        """What all assignments of the name say, or those that reach it; it is held by the name."""
        return self._assigned(module, node) or self._made(node)

    def _assigned(self, module: Module, node: ast.Name | ast.Attribute) -> Array | None:
        found: list[Array] = []
        assignments = list(self._assignments(module, node))
        if len(assignments) > _MANY:
            return None
        for where, given in assignments:
            if given in self._busy:
                continue  # `x = x / 255`: an array if the others are
            known = self.array(where, given) if given is not None else None
            if known is None:
                if given is not None and self._is_later(node, given):
                    continue
                self._note(module, node) if given is None else self._note(where, given)
                return None
            found.append(known)
        if not found:
            return None
        shared = next((each.owner for each in found if each.owner is not None), None)
        return _any_of(found, shared or node)

    def _note(self, module: Module, node: ast.expr) -> None:
        """Notes what is not known, where it is no part of a library."""
        named = node
        if isinstance(node, ast.Subscript) and node in self._parts.values():
            node = node.value
            named = node.func if isinstance(node, ast.Call) else node
        is_library = any(each.sort is Sort.EXTERNAL for each in self._flow.values(named))
        if self.obstacle is None and not is_library:
            self.obstacle = module, node

    def _is_later(self, node: ast.expr, given: ast.expr) -> bool:
        """Whether a name is given a tensor there that it never is here: ``x = torch.Tensor(x)``, and no loop around."""
        here, there = ({each.sort for each in self._flow.values(each)} for each in (node, given))
        return (
            isinstance(node, ast.Name)
            and given not in self._parts.values()
            and bool(here)
            and bool(there)
            and there <= TENSOR_SORTS
            and not here & there
        )

    def _assignments(self, module: Module, node: ast.Name | ast.Attribute) -> Iterator[tuple[Module, ast.expr | None]]:
        """What the name is given wherever it is bound; None where that is not an expression of its own."""
        if isinstance(node, ast.Attribute):
            if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
                yield module, None
                return
            yield from self._attribute(node.attr, module, node)
            return
        if node.id in self._written_from_inside(module):
            yield module, None
            return
        target = _stored_before(module, node, self._is_run)
        before = self.given(module, target) if target is not None else None
        if before is not None:
            yield module, before
            return
        scope = module.function(node)
        stores = self._stores(module, node.id)
        is_parameter = scope is not None and node.id in signature(scope).names
        if scope is not None and is_parameter:
            yield from self._parameter(scope, node.id)
        own = [each for each in stores if module.function(each) is scope]
        # A name that the function does not bind is the module's, or that of a function around it.
        for name in sorted(own or ([] if is_parameter else stores), key=lambda each: _distance(module, node, each)):
            if isinstance(module.parent(name), ast.AugAssign):
                continue  # in place: it stays what it is
            yield module, self.given(module, name) if own or module.function(name) is None else None

    @cached_property
    def _stored(self) -> dict[tuple[Module, str], list[ast.Name]]:
        found: dict[tuple[Module, str], list[ast.Name]] = {}
        for module in self._flow.modules:
            for name in module.nodes(ast.Name):
                if isinstance(name.ctx, ast.Store):
                    found.setdefault((module, name.id), []).append(name)
        return found

    def _stores(self, module: Module, name: str) -> list[ast.Name]:
        return self._stored.get((module, name), [])

    @staticmethod
    def _written_from_inside(module: Module) -> set[str]:
        """The names that functions may write outside of themselves."""
        return {name for each in module.nodes(ast.Global, ast.Nonlocal) for name in each.names}

    def _attribute(self, attribute: str, module: Module, node: ast.AST) -> Iterator[tuple[Module, ast.expr | None]]:
        """What ``self.x`` is given in the class; where another class or function writes it, nothing is certain."""
        class_ = _class_around(module, node)
        for where in self._flow.modules:
            for store in where.nodes(ast.Attribute):
                if store.attr == attribute and isinstance(store.ctx, ast.Store):
                    is_self = isinstance(store.value, ast.Name) and store.value.id == "self"
                    other = _class_around(where, store)
                    if is_self and class_ is not None and other is not None and not self._are_kin(class_, other):
                        continue
                    own = is_self and other is class_
                    yield where, self.given(where, store) if own else None

    def _are_kin(self, one: ast.ClassDef, other: ast.ClassDef) -> bool:
        """Whether an object may be of both classes: of others that derive from one of them too."""
        if one is other:
            return True
        classes = (each for module in self._flow.modules for each in module.nodes(ast.ClassDef))
        return any({one, other} <= {each, *self._flow.bases(each)} for each in classes)

    def given(self, module: Module, target: ast.expr) -> ast.expr | None:
        """The expression that an assignment gives to the target, alone or as an item of a tuple."""
        statement = module.statement(target)
        if isinstance(statement, ast.AnnAssign) and statement.target is target:
            return statement.value
        if not isinstance(statement, ast.Assign):
            return None
        for each in statement.targets:
            if each is target:
                return statement.value
            if isinstance(each, ast.Tuple) and target in each.elts:
                return self._item_given(each, target, statement.value)
        return None

    def _item_given(self, targets: ast.Tuple, target: ast.expr, value: ast.expr) -> ast.expr | None:
        index = targets.elts.index(target)
        if any(isinstance(each, ast.Starred) for each in targets.elts):
            return None
        if isinstance(value, ast.Tuple) and len(value.elts) == len(targets.elts):
            return value.elts[index]
        if not isinstance(value, ast.Call):
            return None
        self._lengths[value] = len(targets.elts)
        if (value, index) not in self._parts:
            item = ast.Subscript(value, ast.Constant(index), ast.Load())
            self._parts[value, index] = ast.copy_location(item, value)
        return self._parts[value, index]

    def _parameter(self, function: Callee, name: str) -> Iterator[tuple[Module, ast.expr | None]]:
        calls = self._flow.callers(function)
        if not calls or self._flow.escapes(function):
            yield self._flow.module_of(function), None
            return
        for call in calls:
            where = next(each for each in self._flow.modules if each.holds(call))
            yield where, self._flow.bind(function, call).get(name)

    # Lists.

    def list_of(self, module: Module, node: ast.expr) -> Array | None:
        """The array that each item of a list is, of their common format; None where one may be something else."""
        match node:
            case ast.List(items) | ast.Tuple(items) if items:
                found = [self.array(module, each) for each in items]
            case ast.ListComp(item):
                found = [self.array(module, item)]
            case ast.Name():
                found = [
                    self.list_of(where, each) if each is not None and not _is_empty(each) else None
                    for where, each in self._filled(module, node)
                ]
            case _:
                return None
        known = [each for each in found if each is not None]
        formats = {each.format for each in known}
        if not known or len(known) < len(found):
            return None
        return Array(formats.pop() if len(formats) == 1 else None, is_dense=_all_dense(known))

    def made_by_methods(self, module: Module, node: ast.expr) -> ast.expr | None:
        """An item of a list that a method of arrays made of something else: ``observation.copy()``."""
        match node:
            case ast.List(items) | ast.Tuple(items):
                found: list[ast.expr] = items
            case ast.ListComp(item):
                found = [item]
            case ast.Name():
                lists = [each for _, each in self._filled(module, node) if each is not None and not _is_empty(each)]
                found = [each.elts[0] for each in lists if isinstance(each, ast.List)]
            case _:
                return None
        methods = _NEW_METHODS | {"astype"}
        return next((each for each in found if _method_name(each) in methods), None)

    def is_filled(self, module: Module, node: ast.expr) -> bool:
        """Whether a list has at least one item for certain."""
        match node:
            case ast.List(items) | ast.Tuple(items):
                return bool(items)
            case ast.ListComp(_, [part]):
                return not part.ifs and self._runs(part.iter)
            case ast.Name():
                return any(
                    self._is_reached(module, node, each.elts[0])
                    for _, each in self._filled(module, node)
                    if isinstance(each, ast.List)
                )
        return False

    def _is_reached(self, module: Module, name: ast.Name, item: ast.expr) -> bool:
        """Whether the item comes into the list each time that the list is made anew, before it is read by ``name``."""
        stores = [each for each in self._stores(module, name.id) if module.function(each) is module.function(name)]
        emptied = any(
            each.attr in {"clear", "pop"} and isinstance(each.value, ast.Name) and each.value.id == name.id
            for each in module.nodes(ast.Attribute)
        )
        if len(stores) != 1 or emptied:
            return False
        made, suite = module.statement(stores[0]), module.suite(module.statement(stores[0]))
        for above in (module.statement(item), *module.ancestors(module.statement(item))):
            if above is made:
                return True
            if isinstance(above, ast.stmt) and not (isinstance(above, ast.Expr) or self._is_run(above)):
                return False
            if above in suite:
                return getattr(above, "lineno", 0) < name.lineno
        return False

    def _is_run(self, loop: ast.stmt) -> bool:
        skips = any(isinstance(each, (ast.Break, ast.Continue)) for each in walk(loop))
        return isinstance(loop, ast.For) and self._runs(loop.iter) and not skips

    def _runs(self, iterated: ast.expr) -> bool:
        """Whether a loop over this has at least one pass."""
        if isinstance(iterated, (ast.List, ast.Tuple)):
            return bool(iterated.elts)
        if not (isinstance(iterated, ast.Call) and len(iterated.args) == 1):
            return False
        counts = self._flow.values(iterated.args[0])
        return (
            any(each.name == "builtins.range" for each in self._flow.values(iterated.func))
            and bool(counts)
            and all(isinstance(n := each.sort is Sort.LITERAL and each.literal, int) and n > 0 for each in counts)
        )

    def _filled(self, module: Module, name: ast.Name) -> Iterator[tuple[Module, ast.expr | None]]:
        """What a list in a function is made of: its literals, and what is appended; None for any other use."""
        scope = module.function(name)
        for each in module.nodes(ast.Name):
            if each.id != name.id or module.function(each) is not scope:
                continue
            parent = module.parent(each)
            if isinstance(each.ctx, ast.Store):
                given = self.given(module, each)
                if given is None or not _is_empty(given):
                    yield module, given
            elif isinstance(parent, ast.Attribute):
                call = module.parent(parent)
                if (
                    isinstance(call, ast.Call)
                    and call.func is parent
                    and parent.attr == "append"
                    and len(call.args) == 1
                ):
                    yield module, ast.List(elts=[call.args[0]], ctx=ast.Load())
                elif parent.attr not in {"copy", "count", "index", "clear", "pop"}:
                    yield module, None


def set_before(module: Module, name: ast.Name) -> ast.expr | None:
    """What a statement before this one, of the same suite, gives to the name, where none in between may do so too."""
    target = _stored_before(module, name)
    statement = module.parent(target) if target is not None else None
    is_plain = isinstance(statement, ast.Assign) and len(statement.targets) == 1
    return statement.value if is_plain and isinstance(statement, ast.Assign) else None


def _stored_before(module: Module, name: ast.Name, runs: Callable[[ast.For], bool] | None = None) -> ast.Name | None:
    """The name as the last statement before this one, of the same suite, binds it, alone or in a tuple.

    Args:
        module: The module.
        name: The name, where it is read.
        runs: Tells of which loops each statement is run at least once: what they bind counts as well.
    """
    statement = module.statement(name)
    # What these bind, or run later, is another matter.
    other = (ast.NamedExpr, ast.comprehension, ast.Lambda)
    if hasattr(statement, "body") or any(isinstance(each, other) for each in walk(statement)):
        return None
    suite = module.suite(statement)
    index = next((i for i, each in enumerate(suite) if each is statement), 0)
    return _last_store(suite[:index], name.id, runs)


def _last_store(statements: Sequence[ast.stmt], name: str, runs: Callable[[ast.For], bool] | None) -> ast.Name | None:
    """The name as the statements leave it, where one of them surely binds it last."""
    for each in reversed(statements):
        stores = [part for part in walk(each) if is_name(part, name)]
        if isinstance(each, ast.AugAssign) and each.target in stores:
            continue  # in place: it stays what it is
        bound = [part for part in stores if isinstance(part.ctx, ast.Store)]
        if runs is not None and isinstance(each, ast.For) and bound and runs(each):
            return None if each.orelse else _last_store(each.body, name, runs)
        if any(not isinstance(part.ctx, ast.Load) for part in stores):
            return bound[0] if isinstance(each, ast.Assign) and len(bound) == 1 else None
    return None


def _distance(module: Module, name: ast.Name, store: ast.Name) -> tuple[bool, int]:
    """Sorts what binds the name by how likely it is to be what is read: the last one before it is likeliest."""
    is_later = store.lineno >= name.lineno and not isinstance(module.parent(store), ast.comprehension)
    return is_later, -store.lineno


def _class_around(module: Module, node: ast.AST) -> ast.ClassDef | None:
    return next((each for each in module.ancestors(node) if isinstance(each, ast.ClassDef)), None)


def _item_of(value: ast.expr | None, index: int) -> ast.expr | None:
    """The item of a tuple that is written out."""
    is_plain = isinstance(value, ast.Tuple) and not any(isinstance(each, ast.Starred) for each in value.elts)
    return value.elts[index] if is_plain and index < len(value.elts) else None  # type: ignore[union-attr]


def _same_float(arrays: list[Array | None]) -> str | None:
    """The floating-point format that all of the arrays have."""
    formats = {each.format if each is not None else None for each in arrays}
    (only,) = formats if len(formats) == 1 else (None,)
    return only if only is not None and only.startswith("float") else None


def _any_of(arrays: Sequence[Array], owner: ast.AST) -> Array:
    """What is one of some arrays, whichever it is."""
    formats = {each.format for each in arrays}
    return Array(
        formats.pop() if len(formats) == 1 else None,
        owner=owner,
        has_axes=all(each.has_axes for each in arrays),
        is_dense=_all_dense(arrays),
        is_read=any(each.is_read for each in arrays),
        is_locked=any(each.is_locked for each in arrays),
        is_float=all(each.is_float for each in arrays),
    )


def _is_laid_out(name: str, array: Array) -> bool:
    """Whether what the function or method makes of the array has no gaps."""
    return name in _LAID_OUT or array.is_dense


def _all_dense(arrays: Iterable[Array | None]) -> bool:
    return all(each is not None and each.is_dense for each in arrays)


def _any_axes(arrays: Iterable[Array | None]) -> bool:
    return any(each is not None and each.has_axes for each in arrays)


def _is_no_shape(node: ast.expr) -> bool:
    """Whether a shape may be that of a single number: only ``()`` is, or what is not seen."""
    shape = isinstance(node, ast.Tuple) and bool(node.elts)
    return not (shape or (isinstance(node, ast.Constant) and isinstance(node.value, int)))


def _method_name(node: ast.expr) -> str:
    is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    return node.func.attr if is_method else ""  # type: ignore[attr-defined]


def _is_empty(node: ast.expr) -> bool:
    return isinstance(node, ast.List) and not node.elts
