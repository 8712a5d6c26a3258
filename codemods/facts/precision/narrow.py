"""Which numbers and losses beside a 16-bit tensor need all of its 32 bits."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import FUNCTIONS, last_name
from codemods.dataflow.values import External, Made
from codemods.facts.devices.readings import is_copy_to_host
from codemods.facts.precision.dtypes import Format, formats_in
from codemods.facts.precision.hazards import Hazard, is_tiny, numbers
from codemods.facts.reach import own
from codemods.library.operators import needs_wide_operand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.precision.dtypes import Formats
    from codemods.facts.reach import Reach

_DETACHED = frozenset({"detach", "data"})
_LEAVE_THE_GRAPH = _DETACHED | {"numpy", "item", "tolist", "float", "double", "long", "int", "bool", "argmax", "size"}
_BELOW_ONE = {"bf16": 2.0**-9, "fp16": 2.0**-12}
"""How far below 1 a number is at most that is 1 in the format."""


def _code(
    reach: Reach, calls_model: Callable[[ast.Call], bool], module: Module, nodes: Sequence[ast.AST]
) -> Iterator[tuple[Module, ast.AST, Formats]]:
    """All code that runs with the nodes, and the formats in it.

    Of what a function is given it is not known, so it counts as 16 bits wide.
    """
    for where, node in reach.code(module, nodes):
        yield where, node, formats_in(reach.flow, calls_model, node, nodes)


def vanishing(
    reach: Reach, calls_model: Callable[[ast.Call], bool], module: Module, nodes: Sequence[ast.AST]
) -> Hazard | None:
    """Where a number that fp16 takes for zero is to keep a 16-bit tensor from being zero: ``x / (x.std() + 1e-8)``."""
    for where, node, formats in _code(reach, calls_model, module, nodes):
        for kept, number in _kept_from_zero(node):
            if is_tiny(where, number) and formats.of(kept) is not Format.OTHER:
                return Hazard(where, number, f"{where.code(number)} is zero in fp16", only_fp16=True)
    return None


def rounded_bound(
    reach: Reach, calls_model: Callable[[ast.Call], bool], module: Module, nodes: Sequence[ast.AST]
) -> Hazard | None:
    """Where a 16-bit tensor is kept off 1 by a bound that is 1 in 16 bits: ``p.clamp(1e-4, 1 - 1e-4)``."""
    for where, node, formats in _code(reach, calls_model, module, nodes):
        for kept, bound in _kept_below(node):
            distance = min((1 - each for each in _differences(where, bound) if 0 < each < 1), default=1.0)
            if distance <= _BELOW_ONE["bf16"] and formats.of(kept) is not Format.OTHER:
                only_bf16 = distance > _BELOW_ONE["fp16"]
                width = "bf16" if only_bf16 else "16 bits"
                text = f"{where.code(bound)} is 1 in {width}, so that nothing is kept off 1:"
                remedy = f"give it {where.code(kept)}.float()"
                return Hazard(where, bound, text, remedy=remedy, only_bf16=only_bf16)
    return None


def _kept_below(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What is kept below a bound, and the bound: ``torch.clamp(x, 0, 0.999)``, ``x.clamp_(max=0.999)``."""
    for call in own(node, ast.Call):
        name = last_name(call.func)
        if name not in {"clamp", "clamp_", "clip", "clip_", "clamp_max", "clamp_max_", "minimum"}:
            continue
        operands = [*call.args]
        is_method = isinstance(call.func, ast.Attribute) and not (
            isinstance(call.func.value, ast.Name) and call.func.value.id in {"torch", "np", "numpy"}
        )
        if is_method:
            operands.insert(0, call.func.value)  # type: ignore[attr-defined]
        bounds = [*operands[1:], *(each.value for each in call.keywords if each.arg == "max")]
        yield from ((operands[0], each) for each in bounds[-1:] if operands)


def _differences(module: Module, node: ast.expr) -> Iterator[float]:
    """The numbers that an expression may be, which may be written as a difference: ``1 - 1e-4``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        right = [abs(each) for each in numbers(module, node.right)]
        yield from (one - other for one in numbers(module, node.left) for other in right)
    else:
        yield from numbers(module, node)


def narrow_operand(
    reach: Reach, calls_model: Callable[[ast.Call], bool], module: Module, nodes: Sequence[ast.AST]
) -> Hazard | None:
    """Where a loss is given 16 bits, for which it has no kernel, and autocast does not widen them: ``ctc_loss(x, …)``.

    Of what a function is given it is not known, so it counts as 16 bits wide.
    """
    for where, node in reach.code(module, nodes):
        for call in own(node, ast.Call):
            if not call.args or not _is_only_wide(reach.flow, call):
                continue
            if formats_in(reach.flow, calls_model, node, nodes).of(call.args[0]) is not Format.OTHER:
                text = (
                    f"{where.code(call.func)} has no 16-bit kernel on CUDA, and autocast does not widen what it gets:"
                )
                given = where.code(call.args[0])
                return Hazard(where, call, text, remedy=f"give it {given}.float(), or torch.log_softmax of logits")
    return None


def computed_on_host(
    reach: Reach, calls_model: Callable[[ast.Call], bool], module: Module, nodes: Sequence[ast.AST]
) -> Hazard | None:
    """Where a loss goes on in 16 bits on the host, where autocast for CUDA widens nothing: ``criterion(x.cpu(), y)``.

    It is looked for in the nodes, and in the functions that they call themselves.
    """
    for node in nodes:
        if isinstance(node, FUNCTIONS):
            continue
        formats = formats_in(reach.flow, calls_model, node, nodes)
        parts = [(module, node, formats)]
        for call in own(node, ast.Call):
            if not calls_model(call):
                parts += [(reach.flow.module_of(each), each, inner) for each, inner in formats.inside(call)]
        for where, part, held in parts:
            for copy in own(part, ast.Call):
                if _goes_to_host(reach.flow, where, copy) and held.of(copy.func.value) is Format.NARROW:  # type: ignore[attr-defined]
                    text = f"{where.code(copy)} goes on in 16 bits, which autocast does not widen on the host:"
                    return Hazard(where, copy, text, remedy=f"move {where.code(copy.func.value)}.float()")  # type: ignore[attr-defined]
    return None


def _goes_to_host(flow: Flow, module: Module, call: ast.Call) -> bool:
    """Whether a tensor goes to the host by the call, and is still a part of the graph there, in the same format."""
    if not is_copy_to_host(flow, call) or not isinstance(call.func, ast.Attribute):
        return False
    above, tensor = module.parent(call), call.func.value
    is_plain = not isinstance(above, ast.Attribute) or above.attr not in _LEAVE_THE_GRAPH
    return is_plain and not any(
        isinstance(each, ast.Attribute) and each.attr in _DETACHED for each in (tensor, getattr(tensor, "func", None))
    )


def _is_only_wide(flow: Flow, call: ast.Call) -> bool:
    return any(needs_wide_operand(each.name) for each in flow.values(call.func) if isinstance(each, (External, Made)))


def _kept_from_zero(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What is kept from being zero by a number, and the number: ``x + 1e-8``, ``x.clamp(min=1e-8)``."""
    for sum_ in own(node, ast.BinOp):
        if isinstance(sum_.op, ast.Add):
            yield from [(sum_.left, sum_.right), (sum_.right, sum_.left)]
    for call in own(node, ast.Call):
        name = last_name(call.func)
        if name not in {"clamp", "clamp_", "clamp_min", "clamp_min_", "clip", "add", "maximum", "max"}:
            continue
        operands = [*call.args, *(each.value for each in call.keywords if each.arg in {"min", "other"})]
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.expr):
            operands.insert(0, call.func.value)
        yield from ((operands[0], each) for each in operands[1:])
        yield from ((operands[1], each) for each in operands[2:])
