"""What in a model's code TorchDynamo cannot trace into one graph."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.recursion import closure
from codemods.dataflow.signatures import argument_of, arguments_of, signature
from codemods.dataflow.source import walk
from codemods.dataflow.values import Class, Container, External, Literal, Made, Method, Plain, Tensor, library_names
from codemods.facts.loops import module_of
from codemods.facts.models.counting import counted, lengthened
from codemods.facts.models.sized_by_numbers import sized_by_numbers
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.sparse import may_be_made
from codemods.library.drawing import call_draws, layer_draws
from codemods.library.kinds import described
from codemods.library.packages import Trait, has

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.facts.models.layers import Model

_TO_PYTHON = frozenset({"item", "tolist", "numpy"})
_OF_NUMBERS = frozenset({"builtins.int", "builtins.min", "builtins.max"})
_CONVERTS = frozenset({"builtins.int", "builtins.float", "builtins.bool"})
_EXTENSIONS = "torch.utils.cpp_extension."
"""What loads modules of functions in C++ and CUDA, each of which ends the graph."""
# Parts of PyTorch that Inductor hands back to eager mode.
_FALLS_BACK = (
    *(_EXTENSIONS, "torch.sparse", "torch.quantization.", "torch.ao.quantization.", "torch.fft."),
    *("torchvision.ops.DeformConv2d", "torchvision.ops.deform_conv2d"),
)
_OF_SPARSE = frozenset({"spmm", "smm", "dsmm", "hsmm", "hspmm", "saddmm", "sspaddmm"})
"""Products that are there for sparse tensors."""
_PRODUCTS = frozenset({"mm", "matmul", "mv", "addmm", "bmm"})
"""Functions and methods that multiply sparse tensors as they do others."""


# Its backward formula has no symbolic sizes: the second size of a batch, such as the last one's, raises.
_ONE_SIZE = frozenset({"torch.nn.functional.affine_grid", "torch.affine_grid_generator"})


_ENDS = "which ends the graph:"
_PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})
_IN_PLACE = {ast.Mult: "mul_", ast.Add: "add_", ast.Sub: "sub_", ast.Div: "div_"}
_TYPED = frozenset(
    f"torch.{device}{name}Tensor"
    for device in ("", "cuda.")
    for name in ("", "Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool")
)
_POOLS = frozenset(
    {f"torch.nn.functional.{name}_pool{dimensions}d" for name in ("max", "avg", "lp") for dimensions in (1, 2, 3)}
    | {f"torch.nn.{name}Pool{dimensions}d" for name in ("Max", "Avg", "LP") for dimensions in (1, 2, 3)}
)


def draws(model: Model) -> bool:
    """Whether calling the model may draw random numbers: dropout, or noise made in ``forward``."""
    if any(layer_draws(layer) for layer in model.layers if isinstance(layer, Made)):
        return True
    calls = (node for function in code_of(model) for node in _own(function) if isinstance(node, ast.Call))
    return any(call_draws(model.flow, call) for call in calls)


def why_not_traced(model: Model) -> Reason | None:
    """Why compiling the model brings little or nothing; None where nothing is known against it."""
    if model.recurrent is not None:
        text = f"RNN model: TorchDynamo does not trace {described(model.recurrent)}"
        return Reason("recurrent-model", text)
    if model.takes_any_size:
        return Reason("dynamic-shapes", "dynamic shapes: the model is made for images that differ in size")
    seldom: list[Reason] = []
    for function in code_of(model):
        module = model.flow.module_of(function)
        for node in _own(function):
            reason = _breaks(model.flow, node)
            if reason is None:
                continue
            reason = reason.followed(f" ({HERE})", at(module, node))
            if _is_where_omitted(module, function, node):
                seldom.append(reason)
            elif not seldom or not reason.remedy:  # which is not said in the place of what nobody can mend
                return reason
    return seldom[0] if seldom else None


def _is_where_omitted(module: Module, function: Callee, node: ast.AST) -> bool:
    """Whether the node runs only where an argument is omitted: below ``if longest is None``."""
    below = node
    for above in module.ancestors(node):
        match above:
            case ast.If(ast.Compare(ast.Name(name), [ast.Is()], [ast.Constant(None)]), body) if below in body:
                if name in signature(function).defaults:
                    return True
        if above is function:
            return False
        below = above
    return False


def code_of(model: Model) -> Iterator[Callee]:
    """The functions of the project that calling the model runs, as far as they are known."""
    flow = model.flow
    todo: list[Callee] = [*model.forwards]
    seen: set[Callee] = set()
    while todo:
        function = todo.pop(0)
        if function in seen:
            continue
        seen.add(function)
        yield function
        for call in walk(function):
            if isinstance(call, ast.Call):
                todo += [*flow.called(call), *_applied(flow, call)]


def _applied(flow: Flow, call: ast.Call) -> Iterator[Callee]:
    """What ``apply`` of an ``autograd.Function`` of the project runs: TorchDynamo traces that, too."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "apply":
        return
    for value in flow.values(call.func.value):
        if isinstance(value, Class) and "torch.autograd.Function" in flow.bases(value.site):
            forward = flow.method(value.site, "forward")
            if forward is not None:
                yield forward


def _own(function: Callee) -> Iterator[ast.expr | ast.stmt]:
    """The expressions and statements of a function in the order of the text."""
    nodes = [each for each in walk(function) if isinstance(each, (ast.expr, ast.stmt))]
    yield from sorted(nodes, key=lambda each: (each.lineno, each.col_offset))


def _breaks(flow: Flow, node: ast.AST) -> Reason | None:
    """What the node does that makes Python run between two graphs, or makes the graph stale."""
    sized = sized_by_numbers(flow, node)
    if sized is not None:
        return Reason("graph-break", f"forward has data-dependent sizes: {sized}")
    if isinstance(node, ast.Call):
        kept = lengthened(flow, node)
        if kept is not None:
            return Reason("graph-break", f"forward adds to {ast.unparse(kept)}, and each new length compiles it anew")
        return _call_breaks(flow, node)
    if isinstance(node, (ast.If, ast.While, ast.IfExp)) and _is_decided_by_tensor(flow, node.test):
        return Reason("graph-break", "forward has data-dependent Python: it branches on a tensor")
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult) and may_be_made(flow):
        return _of_sparse("a product")
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute) and node.target.attr == "data":
        return _changes_data(node)
    number = counted(flow, node)
    if number is not None:
        text = f"forward counts in {ast.unparse(number)}, and each new value compiles it anew"
        return Reason("graph-break", text)
    return None


def _call_breaks(flow: Flow, call: ast.Call) -> Reason | None:
    values = flow.values(call.func)
    names = {each.name for each in values if isinstance(each, (External, Made))}
    names |= {each.of.name for each in values if isinstance(each, Method) and each.of.name.startswith(_EXTENSIONS)}
    for name in sorted(names):
        reason = _library_breaks(flow, call, name) or _makes_old_tensor(flow, call, name)
        if reason is not None:
            return reason
    product = _product(call, names)
    if product is not None and (product in _OF_SPARSE or may_be_made(flow)):
        return _of_sparse(f"{product}()")
    if _makes_a_leaf(flow, call):
        text = f"forward makes a tensor that requires gradients, {_ENDS}"
        return Reason("graph-break", text, remedy="make it before the model is called")
    if isinstance(call.func, ast.Attribute) and call.func.attr in _TO_PYTHON and not call.args:
        return Reason("graph-break", f"forward has data-dependent Python: .{call.func.attr}()")
    return None


def _changes_data(statement: ast.AugAssign) -> Reason:
    """``self.weight.data *= mask``: AOTAutograd refuses an input that is changed and then given its own data."""
    changed = ast.unparse(statement.target)
    method = _IN_PLACE.get(type(statement.op))
    remedy = f"write {changed}.{method}({ast.unparse(statement.value)})" if method is not None else ""
    text = f"{changed} is changed by an assignment in forward, which fails once that is compiled"
    return Reason("inductor-fault", f"{text}:" if remedy else text, remedy=remedy)


def _product(call: ast.Call, names: Collection[str]) -> str | None:
    """The product of matrices that is called: ``torch.mm(a, b)``, ``a.mm(b)``."""
    called = [each.removeprefix("torch.") for each in sorted(names)]
    if not names and isinstance(call.func, ast.Attribute):
        called = [call.func.attr]
    return next((each for each in called if each in _PRODUCTS | _OF_SPARSE), None)


def _of_sparse(multiplied: str) -> Reason:
    text = f"{multiplied} may multiply a sparse tensor: TorchDynamo compiles nothing of a function that is given one"
    return Reason("graph-break", text)


def _library_breaks(flow: Flow, call: ast.Call, name: str) -> Reason | None:
    if name == "builtins.print":
        return Reason("graph-break", "forward prints", remedy="take the print out of forward")
    if name in _CONVERTS and call.args and _is_tensor(flow, call.args[0]):
        text = f"forward has data-dependent Python: {name.removeprefix('builtins.')}() of a tensor"
        return Reason("graph-break", text)
    if name == "builtins.isinstance" and len(call.args) > 1 and _is_type_on_cuda(flow, call.args[1]):
        text = f"forward asks for the type of a tensor, {_ENDS}"
        return Reason("graph-break", text, remedy="ask for its is_cuda")
    if has(name, Trait.KERNELS) or name.startswith(_FALLS_BACK):
        return Reason("graph-break", f"forward calls {name}, which is not compiled")
    if name in _PARAMETERS:
        return Reason("graph-break", f"forward makes a Parameter, {_ENDS}", remedy="keep a buffer, and write to that")
    if name in _ONE_SIZE:
        text = f"forward calls {name}, which fails compiled where batches differ in size"
        return Reason("dynamic-shapes", text)
    return None


def _is_type_on_cuda(flow: Flow, node: ast.expr) -> bool:
    """``torch.cuda.FloatTensor``, of which TorchDynamo cannot say whether a tensor is one."""
    return any(each.name in _TYPED and each.name.startswith("torch.cuda.") for each in flow.values(node))


def _makes_old_tensor(flow: Flow, call: ast.Call, name: str) -> Reason | None:
    """What is left of torch 0.3: ``Variable(x)``, ``torch.FloatTensor(x.size())``, ``torch.LongTensor(array)``."""
    if name == "torch.autograd.Variable":
        text = f"forward makes a Variable, {_ENDS}"
        return Reason("graph-break", text, remedy="write the tensor itself: Variable does nothing since torch 0.4")
    if name in _TYPED and len(call.args) == 1 and _is_size(flow, call.args[0]):
        text = f"forward calls {name}(size), which takes the size for data once it is compiled:"
        return Reason("inductor-fault", text, remedy="write torch.empty(size, device=...)")
    if _looks_at_arrays(flow, call, name):
        text = f"forward calls {name} of what may be NumPy arrays, which fails once it is compiled:"
        return Reason("inductor-fault", text, remedy="write torch.tensor(..., dtype=...), or make it before")
    return None


def _looks_at_arrays(flow: Flow, call: ast.Call, name: str) -> bool:
    """Whether it makes a tensor of what may be a NumPy array, or a list of arrays or tensors, and fails once compiled.

    TorchDynamo takes an array for a tensor: ``torch.LongTensor(array)`` raises where its number format is another one,
    and ``torch.as_tensor([array, array])`` always (torch 2.14 under ``aot_eager``). Python's numbers are no arrays.
    """
    if len(call.args) != 1 or isinstance(call.args[0], ast.Starred):
        return False
    values = flow.values(call.args[0])
    if name == "torch.as_tensor":
        values = frozenset(each for each in values if isinstance(each, Container))
    elif name not in _TYPED or any(isinstance(each, Tensor) for each in values):
        return False
    held = closure(values, lambda each: flow.items(each) if isinstance(each, Container) else ())
    return not all(isinstance(each, (Container, Literal, Plain)) for each in held)


def _makes_a_leaf(flow: Flow, call: ast.Call) -> bool:
    """Whether it is ``torch.zeros(3, requires_grad=True)`` or ``x.requires_grad_()``."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "requires_grad_":
        asked = argument_of(call, "requires_grad", 0)
        return not (isinstance(asked, ast.Constant) and not asked.value) and _is_tensor(flow, call.func.value)
    given = argument_of(call, "requires_grad")
    return (
        isinstance(given, ast.Constant)
        and given.value is True
        and any(name.startswith("torch.") for name in library_names(flow.values(call.func)))
    )


def _is_size(flow: Flow, node: ast.expr) -> bool:
    """Whether it is the size of a tensor, or a part of it: ``x.size()``, ``x.shape[1:]``, or a name for that."""
    match node:
        case ast.Call(ast.Attribute(_, "size"), [], []) | ast.Attribute(_, "shape"):
            return True
        case ast.Subscript(whole, ast.Slice()):
            return _is_size(flow, whole)
        case ast.Call(func):
            return any(each.name == "torch.Size" for each in flow.values(func))
        case ast.Name(name):
            module = next(each for each in flow.modules if each.holds(node))
            given = [module.statement(each) for each in module.stores.get(name, ())]
            own = [each for each in given if module.function(each) is module.function(node)]
            return any(isinstance(each, ast.Assign) and _is_size(flow, each.value) for each in own)
    return False


def why_recompiled(model: Model) -> Reason | None:
    """Why each new length of a sequence is compiled anew; None where lengths are not seen to decide anything.

    A length that is the size of a kernel, or the number of passes of a loop, is a number of the graph. After eight
    graphs the model runs uncompiled for good.
    """
    flow = model.flow
    for function in code_of(model):
        for node in _own(function):
            place = at(flow.module_of(function), node)
            if isinstance(node, ast.Call) and any(each.name in _POOLS for each in flow.values(node.func)):
                given = arguments_of(node)
                if any(_is_a_length(flow, each) for each in given):
                    text = f"batches are padded to lengths of their own, which set the size of a kernel ({HERE})"
                    return Reason("dynamic-shapes", text, (place,))
            if isinstance(node, ast.For) and _counts_a_length(flow, node.iter):
                text = f"batches are padded to lengths of their own, each of which unrolls a loop anew ({HERE})"
                return Reason("dynamic-shapes", text, (place,))
    return None


def _counts_a_length(flow: Flow, node: ast.expr) -> bool:
    """``range(x.size(1))``."""
    return (
        isinstance(node, ast.Call)
        and any(each.name == "builtins.range" for each in flow.values(node.func))
        and any(_is_a_length(flow, each) for each in node.args)
    )


def _is_a_length(flow: Flow, node: ast.expr) -> bool:
    """Whether it is computed from a size of a tensor that is not the number of its rows, there or before."""
    return any(_is_side(flow, each) for each in closure([node], lambda each: _computed_from(flow, each)))


def _is_side(flow: Flow, node: ast.expr) -> bool:
    """``x.size(1)``, ``x.shape[-1]``, and a name for such a size by ``rows, length = x.shape``."""
    match node:
        case ast.Name(name):
            return any(_unpacks_a_length(*each, name) for each in _assigned(flow, node))
        case ast.Call(ast.Attribute(_, "size"), [ast.Constant(int(axis))]):
            return axis != 0
        case ast.Call(ast.Attribute(_, "size"), [ast.UnaryOp()]):
            return True
        case ast.Subscript(ast.Attribute(_, "shape") | ast.Call(ast.Attribute(_, "size"), []), index):
            return not (isinstance(index, ast.Constant) and index.value == 0)
    return False


def _computed_from(flow: Flow, node: ast.expr) -> Sequence[ast.expr]:
    """What a number is computed from, there or, of a name, before."""
    match node:
        case ast.Name(name):
            return [part for each in _assigned(flow, node) for part in _given_to(*each, name)]
        case ast.BinOp(left, _, right):
            return [left, right]
        case ast.Tuple(parts) | ast.List(parts):
            return parts
        case ast.Call(_, parts) if any(each.name in _OF_NUMBERS for each in flow.values(node.func)):
            return parts
    return []


def _assigned(flow: Flow, name: ast.Name) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What the name is assigned in its function: each target and what it is given."""
    for statement in module_of(flow, name).assignments(name):
        yield from ((each, statement.value) for each in statement.targets)


def _given_to(target: ast.expr, given: ast.expr, name: str) -> Sequence[ast.expr]:
    """What the name is given by ``name = x``, ``rows, name = len(x), y``."""
    if isinstance(target, ast.Name):
        return [given]
    names, parts = _names(target), getattr(given, "elts", [])
    return [each for one, each in zip(names, parts, strict=True) if one == name] if len(parts) == len(names) else []


def _unpacks_a_length(target: ast.expr, given: ast.expr, name: str) -> bool:
    """``rows, length = x.shape``."""
    match given:
        case ast.Attribute(_, "shape") | ast.Call(ast.Attribute(_, "size"), []):
            return name in _names(target)[1:]
    return False


def _names(target: ast.expr) -> list[str]:
    return [each.id if isinstance(each, ast.Name) else "" for each in getattr(target, "elts", ())]


def _is_decided_by_tensor(flow: Flow, test: ast.expr) -> bool:
    """Whether the values in a tensor decide a condition; its shape, or whether there is one at all, does not matter."""
    if isinstance(test, ast.BoolOp):
        return any(_is_decided_by_tensor(flow, each) for each in test.values)
    if isinstance(test, ast.UnaryOp):
        return _is_decided_by_tensor(flow, test.operand)
    if isinstance(test, ast.Compare) and any(
        isinstance(each, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for each in test.ops
    ):
        return False
    return _is_tensor(flow, test)


def _is_tensor(flow: Flow, node: ast.expr) -> bool:
    values = flow.values(node)
    return bool(values) and all(isinstance(each, Tensor) for each in values)
