"""Tensors: what makes them, what their methods and attributes are, and what is computed of them, on the host or not."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.names import words
from codemods.dataflow.values import (
    NOTHING,
    PLAIN,
    TENSOR,
    Batch,
    Container,
    HostTensor,
    Literal,
    Method,
    MovedTensor,
    Tensor,
    Value,
    joined,
    owner_of,
    without_none,
)
from codemods.library import operators
from codemods.library.kinds import is_dtype
from codemods.library.operators import Memory, joins

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.values import Arguments, Values

# Methods of tensors. Views have the same memory, or (reshape, contiguous, flatten) the same memory wherever it can be.
_VIEWS = words(
    """
    view view_as reshape squeeze unsqueeze permute transpose t expand expand_as flatten detach narrow select chunk
    split unbind contiguous requires_grad_ squeeze_ unsqueeze_ swapaxes movedim unflatten pin_memory values items
    get pop
    """
)
CASTS = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "bfloat16": "bfloat16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
    "bool": "bool",
}
"""The methods that are named like a number format, and that format."""
# To the formats of what is collated: of Python's integers, and of images.
_COLLATED = words("float long")
_TO_PYTHON = words(
    """
    item tolist numpy size dim numel nelement is_contiguous stride data_ptr backward keys element_size get_device
    type_as_string ndimension is_floating_point register_hook retain_grad
    """
)
_MOVES = words("to cuda cpu type")
SAME_MEMORY = _VIEWS | CASTS.keys() | _MOVES | {"data", "T", "detach_", "numpy"}
"""Methods and attributes of a tensor that may have its memory: a cast or a copy has where nothing is to be done."""
_OTHER_METHODS = words(
    """
    add add_ sub sub_ mul mul_ div div_ sum mean std var max min argmax argmin eq ne gt lt ge le topk sort repeat
    norm pow sqrt exp log abs clamp clamp_ copy_ zero_ fill_ normal_ uniform_ random_ bernoulli_ resize_ resize_as_
    masked_fill gather scatter_ index_select softmax sigmoid tanh relu type_as new new_zeros new_ones new_tensor
    matmul mm bmm all any round floor ceil unique nonzero masked_select fill neg
    """
)
_KEEPING_FORMAT = words("clone cpu numpy repeat index_select masked_select gather abs neg clamp")
_TENSOR_METHODS = _VIEWS | CASTS.keys() | {"clone"} | _TO_PYTHON | _MOVES | _OTHER_METHODS

# Functions directly in torch.
LEGACY_FORMATS = {
    "Tensor": "float32",
    "FloatTensor": "float32",
    "DoubleTensor": "float64",
    "HalfTensor": "float16",
    "LongTensor": "int64",
    "IntTensor": "int32",
    "ShortTensor": "int16",
    "CharTensor": "int8",
    "ByteTensor": "uint8",
    "BoolTensor": "bool",
}
"""The legacy constructors, and the number format of the tensors that each makes."""
_LEGACY = LEGACY_FORMATS.keys() | {"BFloat16Tensor"}
MADE = {
    **LEGACY_FORMATS,
    **dict.fromkeys(("rand", "randn", "normal", "zeros", "ones", "empty", "eye", "linspace", "logspace"), "float32"),
    **dict.fromkeys(("randint", "randperm"), "int64"),
}
"""The number format of what torch's functions make where none is asked for, nor another one set for floats."""
_FACTORIES = words(
    """
    tensor as_tensor from_numpy asarray zeros ones full empty eye arange range linspace logspace rand randn randint
    randperm normal frombuffer scalar_tensor sparse_coo_tensor
    """
)
_NO_TENSOR = words(
    """
    save manual_seed seed set_num_threads set_default_dtype set_default_tensor_type set_default_device
    set_printoptions is_tensor numel finfo iinfo set_float32_matmul_precision use_deterministic_algorithms no_grad
    enable_grad set_grad_enabled inference_mode autocast Generator Size load compile device
    """
)
_FUNCTION_PACKAGES = ("torch.nn.functional.", "torch.linalg.", "torch.fft.", "torchvision.transforms.functional.")


def function(flow: Flow, name: str, node: ast.Call, arguments: Arguments) -> Values | None:
    """What a function of torch returns that makes a tensor, or computes one; None for all else."""
    package, _, last = name.rpartition(".")
    if last in _LEGACY and package in {"torch", "torch.cuda"}:
        return frozenset({MovedTensor(site=node) if package == "torch.cuda" else HostTensor(site=node)})
    if package == "torch" and last in _FACTORIES:
        device = without_none(arguments.keywords.get("device", NOTHING))
        on_host = not device or device == {Literal("'cpu'")}
        return frozenset({HostTensor(site=node) if on_host else MovedTensor(site=node)})
    if package == "torch" and last.endswith("_like"):
        return computed(arguments.get(0, "input"))
    if joins(name):
        operands = [flow.items(each) if isinstance(each, Container) else frozenset({each}) for each in arguments.all()]
        return _of_operands(joined(*operands), node)
    if last[:1].islower() and last not in _NO_TENSOR and (package == "torch" or name.startswith(_FUNCTION_PACKAGES)):
        return _of_operands(arguments.all(), node)
    return None


def method(owner: Value, name: str, node: ast.Call, arguments: Arguments) -> Values:
    """What a method of a tensor returns."""
    if name in _MOVES:
        return frozenset({_moved(owner, name, node, arguments)})
    if name in _TO_PYTHON:
        return PLAIN
    if name == "requires_grad_":
        return starting_graph(frozenset({owner}), arguments.get(0, name[:-1]))
    in_place = name.endswith("_") and not name.endswith("__")
    if name in _VIEWS or in_place or isinstance(owner, HostTensor):
        return frozenset({owner})
    if isinstance(owner, Batch):
        new = HostTensor(site=node, of=owner.of)
        # Of what is of that format already, they return the same tensor.
        return frozenset({owner, new}) if name in _COLLATED else frozenset({new})
    return frozenset({MovedTensor()}) if isinstance(owner, MovedTensor) else computed(arguments.all())


def starting_graph(tensor: Values, asked: Values) -> Values:
    """A tensor of which gradients may be asked: then something computes with it that can be differentiated.

    Args:
        tensor: What it may be.
        asked: Whether they are; nothing where that is not given, which asks for them.
    """
    return tensor if asked == {Literal("False")} else joined(tensor, TENSOR)


def _moved(owner: Value, name: str, node: ast.Call, arguments: Arguments) -> Value:
    """What ``x.to(…)``, ``x.cuda(…)``, ``x.type(…)`` and ``x.cpu()`` are."""
    here = HostTensor(site=node, of=owner_of(owner))
    there = MovedTensor(site=node, of=owner_of(owner))
    cast = here if isinstance(owner, Batch) else owner
    if name in {"cpu", "cuda"}:
        return here if name == "cpu" else there
    target = without_none(arguments.get(0, "dtype" if name == "type" else "device"))
    if name == "type":
        return there if any("cuda" in each.name for each in target) else cast
    if not target or all(is_dtype(each) for each in target):
        return cast
    return here if target == {Literal("'cpu'")} else there


def attribute(owner: Value, name: str) -> Values:
    """What an attribute of a tensor is."""
    row = operators.attribute(name)
    if row is not None and row.memory is Memory.VIEW:
        return frozenset({owner})
    if row is not None:
        return PLAIN if row.has_no_floats else TENSOR
    if isinstance(owner, Batch) and name not in _TENSOR_METHODS:
        # A field of the batch: `batch.text`.
        return frozenset({owner})
    return frozenset({Method(name, None, owner)})


def keeps_format(method: str) -> bool:
    """Whether what the tensor's method returns has the number format of the tensor."""
    is_in_place = method.endswith("_") and not method.endswith("__")
    return is_in_place or method in _VIEWS or method in _KEEPING_FORMAT


def is_view_with_graph(name: str) -> bool:
    """Whether the attribute is another tensor of the same memory that belongs to the graph of the first: ``x.T``."""
    row = operators.attribute(name)
    return row is not None and row.memory is Memory.VIEW and row.carries_graph


def leaves_torch(method: str) -> bool:
    """Whether the tensor's method returns no tensor: ``x.size()``, ``x.item()``, ``x.numpy()``."""
    return method in _TO_PYTHON


def computed(operands: Iterable[Value]) -> Values:
    """What a function of these tensors yields: on a device where one of them is."""
    return frozenset({MovedTensor()}) if any(isinstance(each, MovedTensor) for each in operands) else TENSOR


def _of_operands(operands: Values, node: ast.Call) -> Values:
    """What a function without parameters of its own yields: on the host where it is given a batch that is there."""
    if any(isinstance(each, MovedTensor) for each in operands):
        return frozenset({MovedTensor()})
    tensors = [each for each in operands if isinstance(each, Tensor)]
    on_host = [each for each in tensors if isinstance(each, (Batch, HostTensor))]
    of_batches = frozenset(HostTensor(site=node, of=each.of) for each in on_host if each.of is not None)
    return of_batches or (frozenset({HostTensor(site=node)}) if on_host and on_host == tensors else TENSOR)


def copies(flow: Flow, index: ast.expr) -> bool:
    """Whether indexing with it makes a new tensor: with a tensor or a list it does, not with numbers and slices."""
    if isinstance(index, ast.Tuple):
        return any(copies(flow, each) for each in index.elts)
    return any(isinstance(each, (Tensor, Container)) for each in flow.values(index))
