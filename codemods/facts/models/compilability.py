"""What in a model's code TorchDynamo cannot trace into one graph."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import FUNCTIONS, walk
from codemods.dataflow.values import TENSOR_SORTS, Sort, without_none
from codemods.facts.reason import HERE, Reason, at
from codemods.library.drawing import call_draws, layer_draws
from codemods.library.kinds import described
from codemods.library.packages import Trait, has

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee
    from codemods.facts.models.layers import Model

_TO_PYTHON = frozenset({"item", "tolist", "numpy"})
_CONVERTS = frozenset({"builtins.int", "builtins.float", "builtins.bool"})
# Parts of PyTorch that Inductor hands back to eager mode.
_FALLS_BACK = (
    *("torch.utils.cpp_extension.", "torch.sparse", "torch.quantization.", "torch.ao.quantization.", "torch.fft."),
    *("torchvision.ops.DeformConv2d", "torchvision.ops.deform_conv2d"),
)


# Its backward formula has no symbolic sizes: the second size of a batch, such as the last one's, raises.
_ONE_SIZE = frozenset({"torch.nn.functional.affine_grid", "torch.affine_grid_generator"})


def draws(model: Model) -> bool:
    """Whether calling the model may draw random numbers: dropout, or noise made in ``forward``."""
    if any(layer_draws(layer) for layer in model.layers if layer.sort is Sort.MADE):
        return True
    calls = (node for function in _code(model) for node in _own(function) if isinstance(node, ast.Call))
    return any(call_draws(model.flow, call) for call in calls)


def why_not_traced(model: Model) -> Reason | None:
    """Why compiling the model brings little or nothing; None where nothing is known against it."""
    if model.recurrent is not None:
        text = f"RNN model: TorchDynamo does not trace {described(model.recurrent)}"
        return Reason("recurrent-model", text)
    if model.takes_any_size:
        return Reason("dynamic-shapes", "dynamic shapes: the model is made for images that differ in size")
    for function in _code(model):
        for node in _own(function):
            reason = _breaks(model.flow, node)
            if reason is not None:
                return reason.followed(f" ({HERE})", at(model.flow.module_of(function), node))
    return None


def _code(model: Model) -> Iterator[Callee]:
    """The functions of the project that calling the model runs, as far as they are known."""
    flow = model.flow
    classes = [each.of.site for each in model.layers if each.of is not None and isinstance(each.of.site, ast.ClassDef)]
    todo: list[Callee] = [method for each in classes if (method := flow.method(each, "forward")) is not None]
    seen: set[Callee] = set()
    while todo:
        function = todo.pop(0)
        if function in seen:
            continue
        seen.add(function)
        yield function
        for call in walk(function):
            if isinstance(call, ast.Call):
                called = flow.values(call.func)
                todo.extend(
                    each.site
                    for each in called
                    if each.sort in {Sort.FUNCTION, Sort.METHOD} and isinstance(each.site, FUNCTIONS)
                )


def _own(function: Callee) -> Iterator[ast.expr | ast.stmt]:
    """The expressions and statements of a function in the order of the text."""
    nodes = [each for each in walk(function) if isinstance(each, (ast.expr, ast.stmt))]
    yield from sorted(nodes, key=lambda each: (each.lineno, each.col_offset))


def _breaks(flow: Flow, node: ast.AST) -> Reason | None:
    """What the node does that makes Python run between two graphs, or makes the graph stale."""
    if isinstance(node, ast.Call):
        return _call_breaks(flow, node)
    if isinstance(node, (ast.If, ast.While, ast.IfExp)) and _is_decided_by_tensor(flow, node.test):
        return Reason("graph-break", "forward has data-dependent Python: it branches on a tensor")
    if (
        isinstance(node, ast.AugAssign)
        and isinstance(node.target, ast.Attribute)
        and isinstance(node.target.value, ast.Name)
    ):
        values = without_none(flow.values(node.target))
        if node.target.value.id == "self" and not any(each.sort in TENSOR_SORTS for each in values):
            text = f"forward counts in {ast.unparse(node.target)}, and each new value compiles it anew"
            return Reason("graph-break", text)
    return None


def _call_breaks(flow: Flow, call: ast.Call) -> Reason | None:
    for callee in flow.values(call.func):
        if callee.sort not in {Sort.EXTERNAL, Sort.MADE}:
            continue
        if callee.name == "builtins.print":
            return Reason("graph-break", "forward prints", remedy="take the print out of forward")
        if callee.name in _CONVERTS and call.args and _is_tensor(flow, call.args[0]):
            text = f"forward has data-dependent Python: {callee.name.removeprefix('builtins.')}() of a tensor"
            return Reason("graph-break", text)
        if has(callee.name, Trait.KERNELS) or callee.name.startswith(_FALLS_BACK):
            return Reason("graph-break", f"forward calls {callee.name}, which is not compiled")
        if callee.name in _ONE_SIZE:
            text = f"forward calls {callee.name}, which fails compiled where batches differ in size"
            return Reason("dynamic-shapes", text)
    if isinstance(call.func, ast.Attribute) and call.func.attr in _TO_PYTHON and not call.args:
        return Reason("graph-break", f"forward has data-dependent Python: .{call.func.attr}()")
    return None


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
    return bool(values) and all(each.sort in TENSOR_SORTS for each in values)
