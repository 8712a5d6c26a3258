"""Code that mixed precision breaks: what is to be looked for in all that runs under autocast."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.facts.kinds import Kind, kind
from codemods.facts.reach import is_model_call, own, project_functions
from codemods.facts.values import TENSOR_SORTS, Sort

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codemods.facts.flow import Flow
    from codemods.facts.reach import Reach
    from codemods.facts.script import Script
    from codemods.facts.source import Module

_DOUBLE = re.compile(r"float64|double", re.IGNORECASE)
_AUTOCAST = frozenset({"autocast", "GradScaler", "custom_fwd", "custom_bwd"})
_BCE = frozenset({"torch.nn.BCELoss", "torch.nn.functional.binary_cross_entropy"})
_LARGEST_HALF = 65504
_FILLS = frozenset({"masked_fill", "masked_fill_", "fill_", "full_like", "where", "index_fill_", "fill"})
_SCATTERS = frozenset(
    {"scatter_", "scatter_add_", "index_copy_", "index_add_", "masked_scatter_", "index_put_", "scatter"}
)
_SOURCE = 2
"""The position of what they write: after the dimension and the index."""
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
        ),
        *("stft", "istft", "view_as_complex", "cholesky_solve", "cholesky_inverse", "matrix_exp"),
    )
)


def mixed_precision_present(script: Script) -> ast.AST | None:
    """Where the script already uses autocast, a scaler or apex."""
    for module in script.modules:
        for alias in module.nodes(ast.alias):
            if alias.name.partition(".")[0] == "apex":
                return alias
        for start in module.nodes(ast.ImportFrom):
            if (start.module or "").partition(".")[0] == "apex":
                return start
        names: list[ast.Attribute | ast.Name] = [*module.nodes(ast.Attribute), *module.nodes(ast.Name)]
        for name in names:
            written = name.attr if isinstance(name, ast.Attribute) else name.id
            values = script.flow.values(name)
            if written in _AUTOCAST or any(
                each.name.rpartition(".")[2] in _AUTOCAST and each.name.startswith("torch.") for each in values
            ):
                return name
    return None


def other_precision(script: Script) -> tuple[ast.Call, str] | None:
    """Where the script chooses a number format for its model or its inputs by hand, and which."""
    flow = script.flow
    for call in script.entry.nodes(ast.Call):
        names = {each.name for each in flow.values(call.func) if each.sort is Sort.EXTERNAL}
        if names & {"torch.set_default_dtype", "torch.set_default_tensor_type"} and _DOUBLE.search(ast.unparse(call)):
            return call, "float64 model"
        if not isinstance(call.func, ast.Attribute) or names:
            continue
        if call.func.attr in {"half", "bfloat16"}:
            return call, "manual half precision"
        if call.func.attr == "double" and any(kind(flow, each) is Kind.MODEL for each in flow.values(call.func.value)):
            return call, "float64 model"
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
        name = (
            call.func.attr
            if isinstance(call.func, ast.Attribute)
            else call.func.id
            if isinstance(call.func, ast.Name)
            else ""
        )
        if name.startswith("DataParallel") or any(
            each.name == "torch.nn.DataParallel" for each in script.flow.values(call.func)
        ):
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


@dataclass(frozen=True, eq=False)
class Hazard:
    """Code that breaks under autocast."""

    module: Module
    node: ast.expr | ast.stmt
    reason: str
    only_fp16: bool = False
    """Whether bf16 can do it."""

    def place(self, entry: Module) -> str:
        """Where it stands, as the user of the entry script would say it."""
        return f"line {self.node.lineno}" if self.module is entry else f"{self.module.path}, line {self.node.lineno}"


def hazards(reach: Reach, module: Module, nodes: Iterable[ast.AST]) -> Iterator[Hazard]:
    """What breaks under autocast in the nodes and the code they reach."""
    for where, node in reach.code(module, nodes):
        for call in own(node, ast.Call):
            yield from (Hazard(where, call, *each) for each in _of_call(reach.flow, call))
        for assignment in own(node, ast.Assign):
            yield from (Hazard(where, assignment, *each) for each in _of_assignment(reach.flow, assignment))
        for each in (*own(node, ast.Yield), *own(node, ast.YieldFrom)):
            yield Hazard(where, each, "a generator would leave autocast on for the code that consumes it")


def _of_call(flow: Flow, call: ast.Call) -> Iterator[tuple[str, bool]]:
    """What is wrong with the call, and whether only in fp16."""
    externals = {each.name for each in flow.values(call.func) if each.sort is Sort.EXTERNAL}
    arguments = [*call.args, *(each.value for each in call.keywords)]
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
    for external in externals:
        if external.startswith(_WITHOUT_KERNELS) or external in _WITHOUT_KERNEL:
            yield f"{external} has no 16-bit kernel", False
    if name in _FILLS and any(_is_too_large(each) for each in arguments):
        yield f"{name}() with a number that does not fit fp16", True
    if not isinstance(call.func, ast.Attribute) or externals or list(project_functions(flow.values(call.func))):
        return
    is_tensor = any(each.sort in TENSOR_SORTS for each in flow.values(call.func.value))
    if is_tensor and f"torch.{name}" in _WITHOUT_KERNEL:
        yield f".{name}() has no 16-bit kernel", False
    source = call.args[_SOURCE] if len(call.args) > _SOURCE else None
    if name in _SCATTERS and source is not None and not isinstance(source, ast.Constant):
        yield f".{name}() needs both tensors in one number format", False


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
    return any(
        isinstance(each, ast.Compare) or any(value.sort in TENSOR_SORTS for value in flow.values(each))
        for each in parts
    )


def _is_too_large(node: ast.expr) -> bool:
    value = node.operand if isinstance(node, ast.UnaryOp) else node
    if isinstance(value, ast.Call) and len(value.args) == 1 and ast.unparse(value.func) == "float":
        value = value.args[0].operand if isinstance(value.args[0], ast.UnaryOp) else value.args[0]
    return (
        isinstance(value, ast.Constant)
        and isinstance(value.value, (int, float))
        and _LARGEST_HALF < abs(value.value) < float("inf")
    )
