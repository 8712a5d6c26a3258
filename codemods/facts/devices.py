"""Which device an expression names, under which condition the script uses CUDA, and how the script says so."""

from __future__ import annotations

import ast
import enum
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.facts.kinds import Kind, described, kind
from codemods.facts.values import Sort, Value, Values, without_none

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.facts.flow import Flow
    from codemods.facts.source import Module


class DeviceKind(enum.Enum):
    """What may stand behind a device expression."""

    CUDA = "always CUDA"
    CONDITIONAL = "CUDA where there is one"
    CPU = "the CPU"
    OTHER = "another accelerator"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Device:
    """A device expression and what it may be."""

    kind: DeviceKind
    node: ast.expr | None
    is_string: bool = False
    """Whether it is a text such as ``"cuda"`` rather than a ``torch.device``."""
    names: frozenset[str] = frozenset()
    """The literal device names it may be, without index."""
    reason: str = ""
    """Why nothing is known, where the kind is unknown."""


_CHOSEN = "(chosen)"
_AUTOMATIC = "(accelerator)"
_NOT_KNOWN = "(unknown)"
_ABOUT_CUDA = re.compile(r"cuda|gpu", re.IGNORECASE)


def device(flow: Flow, node: ast.expr) -> Device:
    """What the expression says about a device."""
    values = without_none(flow.values(node))
    found: set[str] = set()
    reasons: set[str] = set()
    is_string = bool(values)
    text = _leading_text(node)
    if text is not None:
        return Device(_kind({_name(text)}), node, is_string=True, names=frozenset({_name(text)}))
    for value in values:
        for name, reason in _names(flow, value):
            found.add(name)
            reasons.add(reason)
        is_string = is_string and (value.sort is Sort.LITERAL or value.sort is Sort.CHOICE)
    if not values:
        found.add(_NOT_KNOWN)
        reasons.add("the device is never given a value in this file")
    kind_ = _kind(found)
    return Device(kind_, node, is_string, frozenset(found), min((each for each in reasons if each), default=""))


def _kind(found: set[str]) -> DeviceKind:
    if _NOT_KNOWN in found:
        return DeviceKind.UNKNOWN
    if found == {"cuda"}:
        return DeviceKind.CUDA
    if found & {"cuda", _CHOSEN, _AUTOMATIC}:
        return DeviceKind.CONDITIONAL
    return DeviceKind.CPU if found == {"cpu"} else DeviceKind.OTHER


def _names(flow: Flow, value: Value) -> Iterator[tuple[str, str]]:
    """The device names that the value may stand for, each with the reason where it is not known."""
    if value.sort is Sort.LITERAL:
        literal = value.literal
        if isinstance(literal, str):
            yield _name(literal), ""
        elif isinstance(literal, int):
            yield "cuda", ""
    elif value.sort is Sort.CHOICE:
        yield _CHOSEN, ""
    elif kind(flow, value) is Kind.DEVICE and isinstance(value.site, ast.Call):
        if value.name.startswith("torch.accelerator"):
            yield _AUTOMATIC, ""
        elif value.site.args:
            inner = device(flow, value.site.args[0])
            for name in inner.names:
                yield name, inner.reason
        else:
            yield _NOT_KNOWN, "the device is made without a name"
    elif value.sort is Sort.MADE and value.name.startswith("torch.cuda."):
        yield "cuda", ""
    elif value.sort is Sort.UNKNOWN:
        yield _NOT_KNOWN, value.name
    elif value.sort is not Sort.UNBOUND:
        yield _NOT_KNOWN, f"the device comes from {described(value)}"


def _leading_text(node: ast.expr) -> str | None:
    """The text with which ``f"cuda:{rank}"`` or ``"cuda:" + str(rank)`` starts."""
    first = node.values[0] if isinstance(node, ast.JoinedStr) and node.values else node
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mod)):
        first = node.left
    if first is not node and isinstance(first, ast.Constant) and isinstance(first.value, str):
        return first.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return _leading_text(ast.BinOp(node.func.value, ast.Add(), node.func.value))
    return None


def _name(text: str) -> str:
    return text.partition(":")[0].strip() or _NOT_KNOWN


def is_cuda_test(flow: Flow, test: ast.expr) -> bool:
    """Whether the condition asks for CUDA: by what it calls, what it compares, or what the script calls it."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return False
    if asks_for_cuda(flow.values(test)):
        return True
    if isinstance(test, (ast.Name, ast.Attribute, ast.Subscript, ast.Compare, ast.BoolOp, ast.Call)):
        return bool(_ABOUT_CUDA.search(ast.unparse(test))) and not re.search(r"cpu", ast.unparse(test))
    return False


def asks_for_cuda(values: Values) -> bool:
    """Whether one of the values is the answer of ``torch.cuda.is_available()`` or its like."""
    return any(
        each.sort is Sort.MADE and each.name in {"torch.cuda.is_available", "torch.cuda.device_count", "torch.accelerator.is_available"}
        for each in values
    )


def cuda_tests(flow: Flow, module: Module, node: ast.AST) -> list[ast.expr]:
    """The conditions about CUDA under which the node runs, from the inside out, within its function."""
    found: list[ast.expr] = []
    below = node
    for above in module.ancestors(node):
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            break
        if (isinstance(above, ast.If) and any(each is below for each in above.body)) or (
            isinstance(above, ast.IfExp) and above.body is below
        ):
            if is_cuda_test(flow, above.test):
                found.append(above.test)
        below = above
    return found
