"""Which device does an expression name, and under which condition is that CUDA?"""

from __future__ import annotations

import ast
import enum
import re
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.signatures import argument_of
from codemods.dataflow.source import is_main_guard
from codemods.dataflow.values import (
    NOTHING,
    NUMBER,
    Choice,
    Instance,
    Literal,
    Made,
    Method,
    Plain,
    Unbound,
    Unknown,
    Value,
    Values,
    leading_text,
    owner_of,
    without_none,
)
from codemods.library.kinds import RANKS, Kind, described, is_dtype, kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module


class DeviceKind(enum.Enum):
    """What may stand behind a device expression."""

    CUDA = "always CUDA"
    CONDITIONAL = "CUDA where there is one"
    CPU = "the CPU"
    OTHER = "another accelerator"
    UNKNOWN = "unknown"


class Device(NamedTuple):
    """A device expression and what it may be."""

    kind: DeviceKind
    node: ast.expr | None
    is_string: bool = False
    """Whether it is a text such as ``"cuda"`` rather than a ``torch.device``."""
    names: frozenset[str] = frozenset()
    """The device names it may be, without index."""
    reason: str = ""
    """Why nothing is known, where the kind is unknown."""

    @property
    def may_be_mps(self) -> bool:
        """Whether it is seen that it may be Apple's MPS: by name, or as whatever accelerator there is."""
        return bool(self.names & {"mps", _AUTOMATIC})

    @property
    def is_chosen(self) -> bool:
        """Whether the user may choose it when the script is started."""
        return _CHOSEN in self.names


_CHOSEN = "(chosen)"
_AUTOMATIC = "(accelerator)"
_NOT_KNOWN = "(unknown)"
_ABOUT_CUDA = re.compile(r"cuda|gpu", re.IGNORECASE)
_AGAINST_CUDA = re.compile(r"cpu|no_?cuda|no_?gpu|disable_cuda|disable_gpu", re.IGNORECASE)
_ASKING_FOR_OTHERS = frozenset(
    f"torch.{name}.is_available" for name in ("backends.mps", "mps", "xpu", "mtia", "accelerator")
)
_ASKING = frozenset({"torch.cuda.is_available", "torch.cuda.device_count", "torch.accelerator.is_available"})


def device(flow: Flow, node: ast.expr, seen: Values = NOTHING) -> Device:
    """What the expression says about a device.

    Args:
        flow: the values of the script.
        node: the expression.
        seen: values that are looked into already: ``self.device = torch.device(self.device)`` holds itself.
    """
    values = without_none(flow.values(node))
    found = [each for value in values - seen for each in _names(flow, value, seen | {value})]
    if not found and not seen:
        found = [(_NOT_KNOWN, "the device is never given a value")]
    names = frozenset(name for name, _ in found)
    reason = min((reason for _, reason in found if reason), default="")
    return Device(_kind(names), node, bool(values) and all(map(_is_text, values)), names, reason)


def _kind(found: frozenset[str]) -> DeviceKind:
    if _NOT_KNOWN in found:
        return DeviceKind.UNKNOWN
    if found == {"cuda"}:
        return DeviceKind.CUDA
    if found & {"cuda", _CHOSEN, _AUTOMATIC}:
        return DeviceKind.CONDITIONAL
    return DeviceKind.CPU if found == {"cpu"} else DeviceKind.OTHER


def _names(flow: Flow, value: Value, seen: Values) -> Iterator[tuple[str, str]]:  # noqa: C901 - a table of cases
    """The device names that the value may stand for, each with the reason where it is not known."""
    text = leading_text(frozenset({value}))
    if text is not None:
        yield _name(text), "" if _name(text) != _NOT_KNOWN else "the device's name is put together when the script runs"
    elif (
        value in NUMBER
        or isinstance(_literal(value), int)
        or value.name in RANKS
        or value.name.startswith("torch.cuda.")
    ):
        yield "cuda", ""
    elif isinstance(value, Choice):
        yield _CHOSEN, ""
    elif isinstance(value, Method) and value.name == "type" and kind(flow, value.of) is Kind.DEVICE:
        yield from _names(flow, value.of, seen)
    elif (model := _model_of(flow, value)) is not None:
        yield from _names_of_model(flow, model, seen)
    elif kind(flow, value) is Kind.DEVICE and isinstance(value.site, ast.Call):
        if value.name.startswith("torch.accelerator"):
            yield _AUTOMATIC, ""
        elif value.site.args or value.site.keywords:
            inner = device(flow, value.site.args[0] if value.site.args else value.site.keywords[0].value, seen)
            for name in inner.names:
                yield name, inner.reason
        else:
            yield _NOT_KNOWN, "the device is made without a name"
    elif isinstance(value, Plain):
        yield _NOT_KNOWN, "where the device comes from is not followed"
    elif not isinstance(value, Unbound):
        yield _NOT_KNOWN, value.name if isinstance(value, Unknown) else f"the device comes from {described(value)}"


def _model_of(flow: Flow, value: Value) -> Value | None:
    """The model whose device the value is: ``next(model.parameters()).device``, ``model.device`` of Transformers."""
    if not isinstance(value, Method) or value.name != "device":
        return None
    owner = owner_of(value.of) if value.of.name == "torch.nn.Parameter" else value.of
    return owner if owner is not None and kind(flow, owner) is Kind.MODEL else None


def _names_of_model(flow: Flow, model: Value, seen: Values) -> Iterator[tuple[str, str]]:
    """The devices that a model is moved to, and the host where it may still be."""
    calls = [each for module in flow.modules for each in _model_moves(flow, module, model)]
    if not calls:
        yield _NOT_KNOWN, "it is that of a model or layer, which is not seen to be moved itself"
        return
    if not any(each.func.value is model.site and model.site is not None for each in calls):  # type: ignore[attr-defined]
        yield "cpu", ""
    for call in calls:
        target = _target(flow, call)
        if target is None:
            yield call.func.attr, ""  # type: ignore[attr-defined]
        else:
            inner = device(flow, target, seen)
            yield from ((name, inner.reason) for name in inner.names)


def _model_moves(flow: Flow, module: Module, model: Value) -> Iterator[ast.Call]:
    """The calls that move a model: ``model.cuda()``, ``model.to(device)``; not ``model.to(torch.float64)``."""
    for call in module.nodes(ast.Call):
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        is_move = method in {"cuda", "cpu"} or (method == "to" and _target(flow, call) is not None)
        if is_move and any(_is_same(each, model) for each in flow.values(call.func.value)):  # type: ignore[attr-defined]
            yield call


def _target(flow: Flow, call: ast.Call) -> ast.expr | None:
    """The argument of ``model.to(…)`` that names a device; None where none does, and for ``cuda()`` and ``cpu()``."""
    if call.func.attr != "to":  # type: ignore[attr-defined]
        return None
    given = argument_of(call, "device", 0)
    formats = flow.values(given) if given is not None else NOTHING
    return None if formats and all(is_dtype(each) for each in formats) else given


def _is_same(value: Value, model: Value) -> bool:
    """Whether it is the model, or may be: ``self`` is any object of its class."""
    if value == model or not isinstance(value, Instance) or not isinstance(model, Instance):
        return value == model
    return None in {value.site, model.site} and value.of == model.of


def _literal(value: Value) -> object:
    return value.value if isinstance(value, Literal) else None


def _is_text(value: Value) -> bool:
    """Whether the value is a text, or the user's choice, rather than a ``torch.device``."""
    is_type = isinstance(value, Method) and value.name == "type"
    return is_type or isinstance(value, Choice) or leading_text(frozenset({value})) is not None


def _name(text: str) -> str:
    return text.partition(":")[0].strip() or _NOT_KNOWN


def is_on_cuda(flow: Flow, node: ast.expr, text: str, quote: str) -> str | None:
    """The expression that says whether the device ``node``, written ``text``, is CUDA; None where none is certain.

    The user's choice cannot be compared with ``"cuda"``, nor ``"cuda:0"``, which is told from ``"cpu"``.
    """
    values = without_none(flow.values(node))
    if values and all(kind(flow, each) is Kind.DEVICE for each in values):
        return f"{text}.type == {quote}cuda{quote}"
    if values and all(
        (isinstance(each, Method) and each.name == "type") or _literal(each) in _PLAIN_NAMES for each in values
    ):
        return f"{text} == {quote}cuda{quote}"
    literals = {_literal(each) for each in values}
    others = literals - {"cpu"}
    if others < literals and others and all(str(each).startswith("cuda:") for each in others):
        return f"{text} != {quote}cpu{quote}"
    return None


_PLAIN_NAMES = frozenset({"cuda", "cpu", "mps", "xpu"})


def for_cuda(flow: Flow, test: ast.expr) -> bool | None:
    """Whether the condition holds where CUDA is used (True) or is not (False); None if it asks another thing.

    It is judged by what it calls, what it compares, and what the script calls it: ``args.no_cuda``, ``gpu is None``.
    """
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = for_cuda(flow, test.operand)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        found = {for_cuda(flow, each) for each in test.values}
        decided = found - {None}
        # `use_cuda and step > 0` holds only with CUDA; `use_cuda or step > 0` says nothing.
        return decided.pop() if len(decided) == 1 and (isinstance(test.op, ast.And) or None not in found) else None
    if _asks_for_cuda(flow.values(test)):
        return True
    if isinstance(test, ast.Compare):
        return _compared(test)
    text = ast.unparse(test)
    if _AGAINST_CUDA.search(text):
        return False
    return (
        True
        if isinstance(test, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)) and _ABOUT_CUDA.search(text)
        else None
    )


def asks_for_device(flow: Flow, test: ast.expr) -> bool:
    """Whether a condition asks which device is used, CUDA or another one, and nothing else."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return asks_for_device(flow, test.operand)
    if isinstance(test, ast.BoolOp):
        return all(asks_for_device(flow, each) for each in test.values)
    if isinstance(test, ast.Compare):
        is_compared = any(_literal(each) in _PLAIN_NAMES for each in flow.values(test.comparators[0]))
        return is_compared or for_cuda(flow, test) is not None
    is_answer = any(isinstance(each, Made) and each.name in _ASKING_FOR_OTHERS for each in flow.values(test))
    return is_answer or for_cuda(flow, test) is not None


def _compared(test: ast.Compare) -> bool | None:
    """``device.type == "cuda"``, ``args.gpu is not None``, ``gpu >= 0``, ``device != "cpu"``."""
    left, operator, right = ast.unparse(test.left), test.ops[0], test.comparators[0]
    other = right.value if isinstance(right, ast.Constant) else ast.unparse(right)
    equal = isinstance(operator, (ast.Eq, ast.Is, ast.In))
    unequal = isinstance(operator, (ast.NotEq, ast.IsNot, ast.NotIn))
    if isinstance(other, str) and (equal or unequal):
        about = True if "cuda" in other else False if "cpu" in other else None
        return about if equal or about is None else not about
    if not _ABOUT_CUDA.search(left) or _AGAINST_CUDA.search(left):
        return None
    if equal or unequal:
        none = other is None or other in {-1, 0}
        return (none is not equal) if none or isinstance(other, bool) else None
    return True if isinstance(operator, (ast.Gt, ast.GtE)) else None


def _asks_for_cuda(values: Values) -> bool:
    """Whether one of the values is the answer of ``torch.cuda.is_available()`` or its like."""
    return any(isinstance(each, Made) and each.name in _ASKING for each in values)


def always_asks_for_cuda(values: Values) -> bool:
    """Whether each of the values says whether there is CUDA, and nothing else."""
    return bool(values) and all(isinstance(each, Made) and each.name == "torch.cuda.is_available" for each in values)


class Branch(NamedTuple):
    """An ``if`` around a node, and the side on which the node stands."""

    test: ast.expr
    holds: bool
    """Whether the node runs where the test holds."""


def branches(module: Module, node: ast.AST) -> list[Branch]:
    """The conditions under which the node runs, from the inside out, within its function."""
    found: list[Branch] = []
    below = node
    for above in module.ancestors(node):
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            break
        if isinstance(above, ast.IfExp) and below is not above.test:
            found.append(Branch(above.test, holds=below is above.body))
        elif isinstance(above, ast.If) and below is not above.test and not is_main_guard(above):
            found.append(Branch(above.test, holds=below in above.body))
        elif isinstance(above, ast.BoolOp) and below is not above.values[0]:
            found.append(Branch(above.values[0], holds=isinstance(above.op, ast.And)))
        below = above
    return found


def cuda_branches(flow: Flow, module: Module, node: ast.AST) -> list[Branch]:
    """Those of the conditions that hold only where CUDA is used."""
    return [each for each in branches(module, node) if for_cuda(flow, each.test) is each.holds]
