"""Code that mixed precision breaks: what is to be looked for in all that runs under autocast."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, TypeAlias

from codemods.dataflow.names import bound_names, imported
from codemods.dataflow.recursion import closure
from codemods.dataflow.signatures import arguments_of, signature
from codemods.dataflow.source import unparsed
from codemods.dataflow.values import Container, External, Instance, Made, Tensor, class_of, library_names
from codemods.facts.loops import module_of
from codemods.facts.models.layers import Model
from codemods.facts.precision.coordinates import sampled
from codemods.facts.precision.densities import log_determinants
from codemods.facts.precision.gram import expanded_distances, is_gram, products
from codemods.facts.precision.transmittance import products_of_rests
from codemods.facts.reach import is_model_call, own, project_functions
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.sparse import may_be_made
from codemods.library.kinds import Kind, kind
from codemods.library.operations import operands, operation
from codemods.library.operators import Autocast, Memory, Result, bf16_since, function, operator
from codemods.library.packages import Trait, has

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value
    from codemods.facts.reach import Reach
    from codemods.facts.target import Target

_BCE = frozenset({"torch.nn.BCELoss", "torch.nn.functional.binary_cross_entropy"})
_GRAD = "torch.autograd.grad"
_LARGEST_HALF = 65504
_LARGEST_BFLOAT = 3.39e38
_FILLS = frozenset({"masked_fill", "masked_fill_", "fill_", "full_like", "where", "index_fill_", "fill"})
_TINIEST_HALF = 2.0**-24
"""A smaller number is zero in fp16, or becomes this one."""
_WRITTEN = {
    **dict.fromkeys(("scatter_", "scatter_add_", "scatter", "scatter_reduce_", "scatter_reduce"), (2, "src")),
    **dict.fromkeys(("index_add_", "index_add", "index_copy_", "index_copy"), (2, "source")),
    **dict.fromkeys(("masked_scatter_", "masked_scatter"), (1, "source")),
    "index_put_": (1, "values"),
}
"""What these write into a tensor, by the position and the name of the argument; autocast does not convert it."""
_NO_MATRICES = ("conv", "gru", "lstm", "rnn_", "prelu", "scaled_dot_product", "multi_head", "affine_grid", "einsum")
"""What autocast runs in 16 bits, too, and no sparse matrix is given to: ``einsum`` raises for one."""
_WITHOUT_KERNELS = ("torch.linalg.", "torch.fft.", "torch.sparse.")
_WITHOUT_KERNEL = frozenset(
    f"torch.{name}"
    for name in (
        *(
            "inverse",
            "cholesky",
            "svd",
            "det",
            "logdet",
            "slogdet",
            "qr",
            "lstsq",
            "pinverse",
            "quantile",
            "nanquantile",
            "histc",
            "polar",
        ),
        *("stft", "istft", "view_as_complex", "cholesky_solve", "cholesky_inverse", "matrix_exp"),
        *("spmm", "smm", "dsmm", "hsmm", "hspmm", "saddmm", "sspaddmm"),
    )
)


def is_bce(flow: Flow, call: ast.Call) -> bool:
    """Whether the call is, or may be, ``binary_cross_entropy`` on probabilities, or of a class that derives from it."""
    return any(
        (each.name in _BCE and isinstance(each, (Made, External))) or _derives_from_bce(flow, each)
        for each in flow.values(call.func)
    )


def _derives_from_bce(flow: Flow, value: Value) -> bool:
    class_ = class_of(value) if isinstance(value, Instance) else None
    return class_ is not None and any(isinstance(each, str) and each in _BCE for each in flow.bases(class_))


def bce_in_model(reach: Reach, nodes: Iterable[ast.AST]) -> ast.Call | None:
    """A ``binary_cross_entropy`` in the code of a model that the nodes run."""
    return next((each for each in _in_models(reach, nodes) if is_bce(reach.flow, each)), None)


def grad_in_model(reach: Reach, nodes: Iterable[ast.AST]) -> ast.Call | None:
    """A ``torch.autograd.grad`` in the code of a model that the nodes run, as of virtual adversarial training."""
    flow = reach.flow
    inside = _in_models(reach, nodes)
    return next((each for each in inside if any(of.name == _GRAD for of in flow.values(each.func))), None)


def _in_models(reach: Reach, nodes: Iterable[ast.AST]) -> Iterator[ast.Call]:
    """The calls in the code of models that the nodes run."""
    parts = [each for node in nodes for each in (node, *reach.functions([node]))]
    models = [call for part in parts for call in own(part, ast.Call) if is_model_call(reach.flow, call)]
    for callee in reach.functions(models):
        yield from own(callee, ast.Call)


@dataclass(frozen=True, eq=False)
class Hazard:
    """Code that breaks under autocast."""

    module: Module
    node: ast.expr | ast.stmt
    what: str
    """What breaks; where that ends with a colon or a semicolon, the remedy ends the sentence."""
    only_fp16: bool = False
    """Whether bf16 can do it."""
    remedy: str = ""
    code: str = "breaks-in-16-bits"
    only_bf16: bool = False
    """Whether fp16 can do it."""

    @property
    def because(self) -> Reason:
        """The reason against mixed precision."""
        code = "fp16-range" if self.only_fp16 else self.code
        return Reason(code, self.what, remedy=self.remedy).followed(f" ({HERE})", at(self.module, self.node))


def hazards(reach: Reach, module: Module, nodes: Iterable[ast.AST]) -> Iterator[Hazard]:
    """What breaks under autocast in the nodes and the code they reach."""
    code = list(reach.code(module, nodes))
    for where, node in code:
        for call in own(node, ast.Call):
            yield from (Hazard(where, call, *each) for each in _of_call(reach.flow, where, call))
        for assignment in own(node, ast.Assign):
            yield from (Hazard(where, assignment, *each) for each in _of_assignment(reach.flow, where, assignment))
        yield from _of_products(reach.flow, where, node)
        for scaled in own(node, ast.BinOp):
            if isinstance(scaled.op, ast.Mult) and _overflows(reach.flow, where, scaled):
                yield Hazard(where, scaled, f"{where.code(scaled)} is infinite in fp16", only_fp16=True)
            if isinstance(scaled.op, ast.MatMult) and may_be_made(reach.flow):
                yield Hazard(where, scaled, f"{where.code(scaled)} {_OF_SPARSE}")
        yield from _of_comparisons(where, node)
        yield from _of_digits(reach.flow, where, node)
        for each in (*own(node, ast.Yield), *own(node, ast.YieldFrom)):
            yield Hazard(where, each, "a generator would leave autocast on for the code that consumes it")
    for call in sampled(reach.flow, (node for _, node in code)):
        yield Hazard(module_of(reach.flow, call), call, _OF_COORDINATES, remedy=_WITHOUT_AUTOCAST)


def without_bf16(reach: Reach, target: Target, module: Module, nodes: Iterable[ast.AST]) -> Hazard | None:
    """What the nodes, and the code they reach, compute for which the script's torch may have no kernel in bf16."""
    for where, node in reach.code(module, nodes):
        for call in own(node, ast.Call):
            for name in sorted(names_of_layers(reach.flow, call)):
                since = bf16_since(name)
                if since is not None and not target.allows(since):
                    version = ".".join(map(str, since))
                    text = f"{name} has no bf16 kernel on CUDA before torch {version}; where the script runs on that:"
                    remedy = f"--target-torch {version}"
                    return Hazard(where, call, text, only_bf16=True, remedy=remedy, code="older-torch")
    return None


def names_of_layers(flow: Flow, call: ast.Call) -> set[str]:
    """The qualified names of torch's functions and layers that the call runs."""
    values = flow.values(call.func)
    of_torch = [each for each in values if isinstance(each, (External, Made))]
    # What a model of the project runs is read in its forward: it may hold layers that it does not call.
    held = (layer for each in of_torch if kind(flow, each) is Kind.MODEL for layer in Model(flow, each).layers)
    return {each.name for each in (*of_torch, *held)}


def _of_products(flow: Flow, where: Module, node: ast.AST) -> Iterator[Hazard]:
    """Gram matrices, and distances that are expanded."""
    for made, left, right in products(node):
        if is_gram(flow, where, left, right):
            yield Hazard(where, made, f"{where.code(made)} {_GRAM}", remedy=_WITHOUT_AUTOCAST)
    for made in expanded_distances(flow, where, node):
        yield Hazard(where, made, f"{where.code(made)} {_EXPANDED}", remedy=_DISTANCES)


def _of_digits(flow: Flow, where: Module, node: ast.AST) -> Iterator[Hazard]:
    """What is added up or multiplied so often that the digits count which 16 bits do not have."""
    for bound in log_determinants(node):
        yield Hazard(where, bound, f"'{bound.id}' {_OF_DENSITIES}", remedy=_WITHOUT_AUTOCAST)
    for made in products_of_rests(flow, node):
        yield Hazard(where, made, _OF_RESTS, remedy=_WITHOUT_AUTOCAST)


def _of_comparisons(where: Module, node: ast.AST) -> Iterator[Hazard]:
    """``x.type() == "torch.cuda.FloatTensor"``."""
    for compared in own(node, ast.Compare):
        if any(isinstance(each, ast.Constant) and each.value == _WIDE_ON_CUDA for each in ast.walk(compared)):
            yield Hazard(where, compared, f"{where.code(compared)} {_ASKS_FOR_BITS}", remedy=_ASK_THE_DEVICE)


_OF_DENSITIES = "is part of a density, of which 16 bits leave too few digits:"
_OF_COORDINATES = "images are sampled at coordinates that it computes, of which 16 bits leave too few digits:"
_OF_RESTS = "factors near 1 are multiplied one after the other, of which 16 bits leave too few digits:"
_GRAM = "sums over all positions (a Gram matrix), which 16 bits do not hold:"
_EXPANDED = "is part of an expanded distance, a small difference of large numbers, which 16 bits do not hold:"
_DISTANCES = "torch.cdist computes distances in 32 bits"
_WITHOUT_AUTOCAST = "compute it with autocast off"
_Wrong: TypeAlias = "tuple[str, bool, str]"
"""What is wrong, whether only in fp16, and the remedy."""


def _of_call(flow: Flow, module: Module, call: ast.Call) -> Iterator[_Wrong]:
    """What is wrong with the call."""
    externals = library_names(flow.values(call.func))
    name = call.func.attr if isinstance(call.func, ast.Attribute) else unparsed(call.func)
    if name == "einsum" and len({ast.dump(each) for each in call.args[1:]}) < len(call.args[1:]):
        yield f"{module.code(call)} {_GRAM}", False, _WITHOUT_AUTOCAST
    if name == "isinstance" and any(each.name == _WIDE_ON_CUDA for each in _asked(flow, call)):
        yield f"{module.code(call)} {_ASKS_FOR_BITS}", False, _ASK_THE_DEVICE
    for external in externals:
        if (external.startswith(_WITHOUT_KERNELS) and not _is_cast(external)) or external in _WITHOUT_KERNEL:
            yield f"{external} has no 16-bit kernel", False, ""
        if external.startswith(_OPERATIONS_OF_OTHERS):
            yield f"custom operation {external}, which autocast does not know", False, ""
    foreign = (each.name for each in flow.values(call.func) if isinstance(each, (External, Made)))
    yield from (
        (f"{each}, whose kernels are not known to take 16 bits", False, "")
        for each in foreign
        if has(each, Trait.KERNELS)
    )
    if name in _FILLS:
        yield from _of_fill(module, call, name)
    if _is_product(name) and any(each.arg == "out" for each in call.keywords):
        yield f"{name}(out=...) is not cast by autocast;", False, "assign what it returns"
    if isinstance(call.func, ast.Attribute) and not list(project_functions(flow.values(call.func))):
        yield from _of_method(flow, call, call.func, externals)
        if _is_product(name) and may_be_made(flow):
            yield f"{name}() {_OF_SPARSE}", False, ""


def _is_cast(name: str) -> bool:
    """Whether autocast converts what the function of that qualified name is given: norms take 32 bits."""
    row = function(name)
    return row is not None and row.autocast in {Autocast.HIGH, Autocast.LOW}


_WIDE_ON_CUDA = "torch.cuda.FloatTensor"
_ASKS_FOR_BITS = "is false for 16 bits:"
_ASK_THE_DEVICE = "ask is_cuda or the dtype instead"


def _asked(flow: Flow, call: ast.Call) -> Iterator[Value]:
    """What the second argument of ``isinstance`` may be, or its elements."""
    for given in call.args[1:]:
        for each in given.elts if isinstance(given, ast.Tuple) else (given,):
            yield from flow.values(each)


def _is_product(name: str) -> bool:
    """Whether autocast runs the product of matrices in 16 bits, unless it writes into a tensor that is there."""
    row = operator(name)
    return row is not None and row.autocast is Autocast.LOW and not name.startswith(_NO_MATRICES)


def _of_fill(module: Module, call: ast.Call, name: str) -> Iterator[_Wrong]:
    arguments = arguments_of(call)
    if any(_is_too_large(module, each, _LARGEST_BFLOAT) for each in arguments):
        yield f"{name}() with a number that does not fit 16 bits;", False, "use torch.finfo of the tensor's own dtype"
    elif any(_is_too_large(module, each) for each in arguments):
        yield f"{name}() with a number that does not fit fp16", True, ""


def _of_method(flow: Flow, call: ast.Call, method: ast.Attribute, externals: frozenset[str]) -> Iterator[_Wrong]:
    """The same for ``tensor.method(…)``, and for ``torch.function(…)`` of that name."""
    name, of_torch = method.attr, any(each.startswith("torch.") for each in externals)
    if name in _WRITTEN and (of_torch or not externals) and _is_written(call, name, shift=1 if of_torch else 0):
        yield f"{'torch' if of_torch else ''}.{name}() {_ONE_FORMAT}", False, _CONVERT
    if externals:
        return
    is_tensor = any(isinstance(each, Tensor) for each in flow.values(method.value))
    if is_tensor and f"torch.{name}" in _WITHOUT_KERNEL:
        yield f".{name}() has no 16-bit kernel", False, ""
    if name.endswith("_") and _is_product(name[:-1]):
        yield f".{name}() is not cast by autocast;", False, f"use {name[:-1]}()"


_OF_SPARSE = "may multiply a sparse matrix, for which CUDA may have no 16-bit kernel"
_OPERATIONS_OF_OTHERS = ("torch.ops.", "torch.utils.cpp_extension.")
_ONE_FORMAT = "needs both tensors in one number format;"
_CONVERT = "convert what is written with .to(dtype) of the other"


def _is_written(call: ast.Call, name: str, *, shift: int) -> bool:
    """Whether the call writes a tensor into another one, of which it is not sure to have the format."""
    position, keyword = _WRITTEN[name]
    given = call.args[position + shift : position + shift + 1]
    given += [each.value for each in call.keywords if each.arg == keyword]
    return any(not isinstance(each, ast.Constant) and not _is_converted(each) for each in given)


def _holds_no_floats(flow: Flow, module: Module, node: ast.expr) -> bool:
    """Whether it is a tensor of integers or truth values: what takes those takes them in any format of floats.

    A name is one where all that it is assigned is.
    """
    return all(
        isinstance(each, ast.Compare) or _makes_no_floats(flow, each) or bool(_copied(flow, module, each))
        for each in closure([node], lambda each: _copied(flow, module, each))
    )


def _makes_no_floats(flow: Flow, node: ast.expr) -> bool:
    """Whether a call makes, or converts something to, a tensor of integers or truth values."""
    if not isinstance(node, ast.Call):
        return False
    asked = [each.value for each in node.keywords if each.arg == "dtype"]
    asked += node.args if isinstance(node.func, ast.Attribute) and node.func.attr in {"to", "type"} else []
    found = operation(flow, node)
    return any(each.name in _INTEGERS for one in asked for each in flow.values(one)) or (
        found is not None and found.result in {Result.INTEGER, Result.BOOL}
    )


def _copied(flow: Flow, module: Module, node: ast.expr) -> Sequence[ast.expr]:
    """What the expression hands on in the format that it has; nothing where that is not all that it may be."""
    match node:
        case ast.Subscript(value):
            return [value]
        case ast.Name():
            return _all_assigned(module, node)
        case ast.Call() if not _makes_no_floats(flow, node):
            found = operation(flow, node)
            if found is not None and found.result is Result.SAME and found.memory in {Memory.VIEW, Memory.EITHER}:
                return operands(flow, node)[:1]
            if isinstance(node.func, ast.Attribute) and node.func.attr in _COPIES and not node.args:
                return [node.func.value]
    return []


def _all_assigned(module: Module, name: ast.Name) -> Sequence[ast.expr]:
    """What the name is assigned in its function; nothing where something else may give it a value."""
    scope = module.function(name)
    here = [each for each in module.stores.get(name.id, ()) if module.function(each) is scope]
    held = list(_held(module, name))
    imports = (bound for each in module.nodes(ast.Import, ast.ImportFrom) for bound, _ in imported(each))
    is_given = (scope is not None and name.id in signature(scope).names) or name.id in imports
    return held if len(held) == len(here) and not is_given else []


_COPIES = frozenset({"clone", "cpu", "cuda", "detach"})
_INTEGERS = frozenset(f"torch.{name}" for name in ("long", "int", "int64", "int32", "uint8", "int8", "int16", "bool"))


def _is_converted(node: ast.expr) -> bool:
    """``source.to(destination.dtype)``, ``source.type_as(destination)``."""
    match node:
        case ast.Call(ast.Attribute(_, "type_as")):
            return True
        case ast.Call(ast.Attribute(_, "to" | "type"), arguments, keywords):
            given = [*arguments, *(each.value for each in keywords)]
            return any(isinstance(each, ast.Attribute) and each.attr == "dtype" for each in given)
    return False


def _of_assignment(flow: Flow, module: Module, assignment: ast.Assign) -> Iterator[_Wrong]:
    for target in assignment.targets:
        if not isinstance(target, ast.Subscript) or _has_items(module, target):
            continue
        is_cast = _is_container(flow, target.value) or _is_array(flow, target.value)
        if _is_mask(flow, target.slice) and not is_cast:
            if _is_too_large(module, assignment.value):
                yield "a number that does not fit fp16 is assigned", True, ""
            elif (
                not any(numbers(module, assignment.value))
                and not isinstance(assignment.value, (ast.Constant, ast.UnaryOp))
                and not _is_converted(assignment.value)
                and not _holds_no_floats(flow, module, assignment.value)
            ):
                yield f"masked assignment {_ONE_FORMAT}", False, _CONVERT


def _overflows(flow: Flow, module: Module, scaled: ast.BinOp) -> bool:
    """Whether a tensor is multiplied by a number that does not fit fp16: ``-9e15 * torch.ones_like(scores)``."""
    for number, other in ((scaled.left, scaled.right), (scaled.right, scaled.left)):
        if _is_too_large(module, number) and any(isinstance(each, Tensor) for each in flow.values(other)):
            return True
    return False


def _is_mask(flow: Flow, index: ast.expr) -> bool:
    """Whether it indexes with a tensor, an array or a list rather than with numbers and slices."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return any(isinstance(each, ast.Compare) or any(map(_is_several, flow.values(each))) for each in parts)


def _is_several(value: Value) -> bool:
    """Whether it may be several indices, or truth values: the counts and indices of NumPy that are one number are not.

    ``numpy.argmax`` without an axis finds one.
    """
    match value:
        case Tensor():
            return True
        case Container(name=name):
            return name in {"list", "iterator"}  # `range(n)`
        case Made(name=name, site=ast.Call() as call):
            is_one = name in {"numpy.argmax", "numpy.argmin"} and len(arguments_of(call)) == 1
            return name.startswith("numpy.") and not is_one
    return False


def _is_array(flow: Flow, node: ast.expr) -> bool:
    """Whether it is an array of NumPy, which casts what is written to it."""
    values = flow.values(node)
    return bool(values) and all(isinstance(each, Made) and each.name.startswith("numpy.") for each in values)


def _has_items(module: Module, target: ast.Subscript) -> bool:
    """``for key, x in batch.items(): batch[key] = x.to(device)``: a tensor has no items."""
    for above in module.ancestors(target):
        match above:
            case ast.For(_, ast.Call(ast.Attribute(owner, "items" | "keys"), [], [])):
                if unparsed(owner) == unparsed(target.value):
                    return True
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                return False
    return False


def _is_container(flow: Flow, node: ast.expr) -> bool:
    """Whether it is a dict or list of Python, which takes anything."""
    values = flow.values(node)
    return bool(values) and all(isinstance(each, Container) for each in values)


def _is_too_large(module: Module, node: ast.expr, largest: float = _LARGEST_HALF) -> bool:
    return any(largest < abs(each) < float("inf") for each in numbers(module, node))


def is_tiny(module: Module, node: ast.expr) -> bool:
    """Whether it may be a number that fp16 takes for zero."""
    return any(0 < abs(each) < _TINIEST_HALF for each in numbers(module, node))


def numbers(module: Module, node: ast.expr) -> Sequence[float]:
    """The numbers that the expression is seen to stand for, whatever their sign: written out, or held by a name.

    A number that is computed from itself, as in a loop, stands for what it begins with.
    """
    return [*_numbers(module, node, {})]


_Known: TypeAlias = "dict[tuple[ast.expr, ...], list[float]]"
"""What names stand for, by what they are assigned; as far as it is worked out."""


def _numbers(module: Module, node: ast.expr, known: _Known) -> Iterator[float]:
    match node:
        case ast.Constant(int() | float() as value) if not isinstance(value, bool):
            yield float(value)
        case ast.UnaryOp(ast.USub() | ast.UAdd(), operand):
            yield from _numbers(module, operand, known)
        case ast.BinOp(left, ast.Mult() | ast.Pow() as operator, right):
            pairs = product([*_numbers(module, left, known)], [*_numbers(module, right, known)])
            yield from (_computed(one, other, is_power=isinstance(operator, ast.Pow)) for one, other in pairs)
        case ast.Call(ast.Name("float"), [ast.Constant(str() as text)], []):
            yield from [float(text)] if _IS_NUMBER.match(text) else []
        case ast.Call(ast.Name("float"), [argument], []):
            yield from _numbers(module, argument, known)
        case ast.Attribute(ast.Call(ast.Name("finfo") | ast.Attribute(_, "finfo"), [type_]), "min" | "max"):
            yield from [_LARGEST_FLOAT] if _IS_FLOAT.search(unparsed(type_)) else []
        case ast.Name() | ast.Attribute(ast.Name("self")):
            held = tuple(_held(module, node))
            if held not in known:
                known[held] = []
                known[held] = [number for each in held for number in _numbers(module, each, known)]
            yield from known[held]


def _computed(one: float, other: float, *, is_power: bool) -> float:
    if not is_power:
        return one * other
    return float(one**other) if one > 0 and abs(other) <= _LARGEST_EXPONENT else 0.0


def _held(module: Module, node: ast.expr) -> Iterator[ast.expr]:
    """What is assigned to the name or attribute of ``self``: in its function, by default, else in the module."""
    text = unparsed(node)
    scope = module.function(node)
    if isinstance(node, ast.Name) and scope is not None and node.id in bound_names(scope):
        default = signature(scope).defaults.get(node.id)
        yield from (default,) if default is not None else ()
    elif isinstance(node, ast.Name):
        scope = None
    above = dict.fromkeys(module.parent(each) for each in module.stores.get(text, ()))
    for assignment in above:
        is_here = isinstance(node, ast.Attribute) or (assignment is not None and module.function(assignment) is scope)
        if is_here and isinstance(assignment, ast.Assign):
            yield assignment.value


_LARGEST_EXPONENT = 30
_LARGEST_FLOAT = 3.4028235e38
_IS_NUMBER = re.compile(r"[+-]?(\d+\.?\d*(e[+-]?\d+)?|inf|nan)$", re.IGNORECASE)
_IS_FLOAT = re.compile(r"float(32|64)?$|double$")
