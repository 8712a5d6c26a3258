"""Code that mixed precision breaks: what is to be looked for in all that runs under autocast."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.facts.kinds import TENSOR_SORTS, Kind, kind
from codemods.facts.reach import is_model_call, own, project_functions
from codemods.facts.values import Sort

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codemods.facts.flow import Flow
    from codemods.facts.reach import Reach
    from codemods.facts.script import Script
    from codemods.facts.source import Module

_AUTOCAST = frozenset({"autocast", "GradScaler", "custom_fwd", "custom_bwd"})
_BCE = frozenset({"torch.nn.BCELoss", "torch.nn.functional.binary_cross_entropy"})
_LARGEST_HALF = 65504
_FILLS = frozenset({"masked_fill", "masked_fill_", "fill_", "full_like", "where", "index_fill_", "fill"})
_SCATTERS = frozenset({"scatter_", "scatter_add_", "index_copy_", "index_add_", "masked_scatter_", "index_put_", "scatter"})
# torch.linalg and torch.fft as a whole, and these by their names.
_WITHOUT_KERNEL = frozenset(
    {"inverse", "cholesky", "svd", "det", "logdet", "slogdet", "qr", "lstsq", "pinverse", "symeig", "eig", "quantile", "stft", "istft"}
    | {"view_as_complex", "cholesky_solve", "cholesky_inverse", "matrix_exp", "nanquantile"}
)
_WITHOUT_KERNEL_METHODS = _WITHOUT_KERNEL - {"eig"}


def mixed_precision_present(script: Script) -> ast.AST | None:
    """Where the script already uses autocast, a scaler or apex."""
    for module in script.modules:
        for node in module.nodes(ast.Import, ast.ImportFrom):
            names = [getattr(node, "module", None) or "", *(each.name for each in node.names)]
            if any(each.partition(".")[0] == "apex" for each in names):
                return node
        for node in module.nodes(ast.Call, ast.Attribute, ast.Name):
            values = script.flow.values(node.func if isinstance(node, ast.Call) else node)
            if any(each.name.rpartition(".")[2] in _AUTOCAST and each.name.startswith("torch.") for each in values):
                return node
            written = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
            if written in {"autocast", "GradScaler"}:
                return node
    return None


def other_precision(script: Script) -> tuple[ast.AST, str] | None:
    """Where the script chooses a number format for its model by hand, and which."""
    flow = script.flow
    for node in script.entry.nodes(ast.Call):
        if isinstance(node.func, ast.Attribute):
            is_model = any(kind(flow, each) is Kind.MODEL for each in flow.values(node.func.value))
            if node.func.attr in {"half", "bfloat16"} and not isinstance(node.func.value, ast.Name | ast.Constant):
                is_model = is_model or bool(flow.values(node.func.value))
            if node.func.attr == "double" and is_model:
                return node, "float64 model"
            if node.func.attr in {"half", "bfloat16"} and not any(each.sort is Sort.EXTERNAL for each in flow.values(node.func.value)):
                return node, "manual half precision"
        names = {each.name for each in flow.values(node.func) if each.sort is Sort.EXTERNAL}
        if names & {"torch.set_default_dtype", "torch.set_default_tensor_type"} and "ouble" in ast.unparse(node):
            return node, "float64 model"
        if names & {"torch.set_default_dtype"} and "64" in ast.unparse(node):
            return node, "float64 model"
    return None


def custom_function(script: Script) -> ast.ClassDef | None:
    """A class of the script that derives from ``torch.autograd.Function``."""
    for module in script.modules:
        for class_ in module.nodes(ast.ClassDef):
            if any(base == "torch.autograd.Function" for base in script.flow.bases(class_)):
                return class_
    return None


def data_parallel(script: Script) -> ast.Call | None:
    """Where a model is spread over GPUs by threads: ``nn.DataParallel``, or another library's that is called so."""
    for call in script.entry.nodes(ast.Call):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id if isinstance(call.func, ast.Name) else ""
        if name.startswith("DataParallel") or any(each.name == "torch.nn.DataParallel" for each in script.flow.values(call.func)):
            return call
    return None


def is_bce(flow: Flow, call: ast.Call) -> bool:
    """Whether the call is, or may be, ``binary_cross_entropy`` on probabilities."""
    return any(each.name in _BCE and each.sort in {Sort.MADE, Sort.EXTERNAL} for each in flow.values(call.func))


def bce_in_model(reach: Reach, nodes: Iterable[ast.AST]) -> ast.Call | None:
    """A ``binary_cross_entropy`` in the code of a model that the nodes run."""
    parts = [each for node in nodes for each in (node, *reach.functions([node]))]
    models = [call for part in parts for call in own(part, ast.Call) if is_model_call(reach.flow, call)]
    inside = [call for callee in reach.functions(models) for call in own(callee, ast.Call)]
    return next((each for each in inside if is_bce(reach.flow, each)), None)


def hazards(reach: Reach, module: Module, nodes: Iterable[ast.AST]) -> Iterator[tuple[Module, ast.AST, str, bool]]:
    """What breaks under autocast in the nodes and the code they reach: module, node, reason, whether only in fp16."""
    for where, node in reach.code(module, nodes):
        for call in own(node, ast.Call):
            yield from ((where, call, *each) for each in _of_call(reach.flow, call))
        for assignment in own(node, ast.Assign):
            yield from ((where, assignment, *each) for each in _of_assignment(reach.flow, assignment))
        for each in own(node, ast.Yield, ast.YieldFrom):
            yield where, each, "a generator would leave autocast on for the code that consumes it", False


def _of_call(flow: Flow, call: ast.Call) -> Iterator[tuple[str, bool]]:
    externals = {each.name for each in flow.values(call.func) if each.sort is Sort.EXTERNAL}
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    is_method = bool(method) and not externals and not list(project_functions(flow.values(call.func)))
    for name in externals:
        last = name.rpartition(".")[2]
        if name.startswith(("torch.linalg.", "torch.fft.", "torch.sparse.")) or (name == f"torch.{last}" and last in _WITHOUT_KERNEL):
            yield f"{name} has no 16-bit kernel", False
    if is_method and method in _WITHOUT_KERNEL_METHODS and any(each.sort in TENSOR_SORTS for each in flow.values(call.func.value)):  # type: ignore[attr-defined]
        yield f".{method}() has no 16-bit kernel", False
    if method in _FILLS or any(name.rpartition(".")[2] in _FILLS for name in externals):
        if any(_is_too_large(each) for each in (*call.args, *(each.value for each in call.keywords))):
            yield f"{method or call.func.id}() with a number that does not fit fp16", True  # type: ignore[attr-defined]
    if is_method and method in _SCATTERS and len(call.args) > 2 and not isinstance(call.args[2], ast.Constant):  # noqa: PLR2004 - dim, index, source
        yield f".{method}() needs both tensors in one number format", False


def _of_assignment(flow: Flow, assignment: ast.Assign) -> Iterator[tuple[str, bool]]:
    for target in assignment.targets:
        if isinstance(target, ast.Subscript) and _is_mask(flow, target.slice):
            if _is_too_large(assignment.value):
                yield "a number that does not fit fp16 is assigned", True
            elif not isinstance(assignment.value, (ast.Constant, ast.UnaryOp)):
                yield "masked assignment needs both tensors in one number format", False


def _is_mask(flow: Flow, index: ast.expr) -> bool:
    """Whether it indexes with a tensor rather than with numbers and slices."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return any(isinstance(each, ast.Compare) or any(value.sort in TENSOR_SORTS for value in flow.values(each)) for each in parts)


def _is_too_large(node: ast.expr) -> bool:
    value = node.operand if isinstance(node, ast.UnaryOp) else node
    if isinstance(value, ast.Call) and len(value.args) == 1 and ast.unparse(value.func) == "float":
        value = value.args[0].operand if isinstance(value.args[0], ast.UnaryOp) else value.args[0]
    return isinstance(value, ast.Constant) and isinstance(value.value, (int, float)) and _LARGEST_HALF < abs(value.value) < float("inf")
