"""What keeps batches out of pinned memory: code of the data set or ``collate_fn`` that makes what cannot be pinned."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import FUNCTIONS, walk
from codemods.dataflow.values import NONE, NOTHING, Sort, Value, Values, without_none
from codemods.facts.devices.devices import DeviceKind, device
from codemods.facts.loops import place
from codemods.facts.reason import HERE, Reason
from codemods.library.kinds import HUGGING_FACE, Kind, is_dtype, kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module


_FORMATTING = frozenset({"set_format", "with_format", "set_transform", "with_transform"})


def why_not_on_host(flow: Flow, role: str, values: Values) -> Reason | None:
    """Why what these values make may not be dense tensors on the host.

    Args:
        flow: the values of the script.
        role: what they are to the loader: ``data set``, ``collate_fn``, ``sampler``.
        values: what that may be.
    """
    search = _Search(flow, role)
    for value in without_none(values):
        reason = search.value(value) or search.assigned_outside(value)
        if reason is not None:
            return reason
    return None


class _Search:
    """Looks through data sets, transforms and functions, each once."""

    def __init__(self, flow: Flow, role: str) -> None:
        self._flow = flow
        self._role = role
        self._seen: set[ast.AST] = set()

    def _already_there(self, site: ast.AST | None) -> Reason:
        text = f"its {self._role} already holds tensors on a device"
        if site is None:
            return Reason("already-on-device", text)
        return Reason("already-on-device", f"{text} ({HERE})", (place(self._flow, site),))

    def _moves(self, call: ast.Call) -> Reason:
        text = f"its {self._role} moves tensors to a device itself ({HERE})"
        return Reason("already-on-device", text, (place(self._flow, call),))

    def value(self, value: Value) -> Reason | None:
        if value.sort is Sort.MOVED:
            return self._already_there(value.site if isinstance(value.site, ast.Call) else None)
        site = value.site
        if value.sort in {Sort.FUNCTION, Sort.METHOD} and isinstance(site, FUNCTIONS):
            return self._code(site)
        inner: Values = NOTHING
        if value.sort is Sort.INSTANCE and value.of is not None and isinstance(value.of.site, ast.ClassDef):
            for statement in value.of.site.body:
                reason = self._code(statement) if isinstance(statement, FUNCTIONS) else None
                if reason is not None:
                    return reason
            inner = NOTHING.union(*self._flow.attributes(value.of.site).values())
        if site is not None and site not in self._seen:
            self._seen.add(site)
            if value.sort is Sort.CONTAINER:
                inner = self._flow.items(value)
            elif isinstance(site, ast.Call):
                arguments = (*site.args, *(each.value for each in site.keywords))
                inner = inner.union(
                    *[
                        self._flow.values(getattr(each, "value", each) if isinstance(each, ast.Starred) else each)
                        for each in arguments
                    ]
                )
            return self._first(inner)
        return None

    def _first(self, values: Values) -> Reason | None:
        for each in without_none(values):
            reason = self.value(each)
            if reason is not None:
                return reason
        return None

    def assigned_outside(self, data_set: Value) -> Reason | None:
        """``train_set.data = train_set.data.to(device)``, ``train_set.set_format("torch", device="cuda")``."""
        for call in formats(self._flow, data_set):
            found = self._moves(call) if self._leaves_host(call) else self._first(_given(self._flow, call))
            if found is not None:
                return found
        for module in self._flow.modules:
            for statement in module.nodes(ast.Assign):
                value = statement.value
                moved = any(each.sort is Sort.MOVED for each in self._flow.values(value))
                if not moved and not (isinstance(value, ast.Call) and self._leaves_host(value)):
                    continue
                owners = [
                    self._flow.values(each.value) for each in statement.targets if isinstance(each, ast.Attribute)
                ]
                if any(data_set in each for each in owners):
                    return self._already_there(statement)
        return None

    def _code(self, function: ast.AST) -> Reason | None:
        """Where the function, or one of the project's that it calls, makes what is not dense, or not on the host."""
        if function in self._seen:
            return None
        self._seen.add(function)
        for call in walk(function):
            if not isinstance(call, ast.Call):
                continue
            if self._leaves_host(call):
                return self._moves(call)
            if self._is_sparse(call):
                text = f"its {self._role} makes sparse tensors, which cannot be pinned ({HERE})"
                return Reason("unpinnable", text, (place(self._flow, call),))
            for callee in self._flow.values(call.func):
                reason = (
                    self._code(callee.site)
                    if callee.sort in {Sort.FUNCTION, Sort.METHOD} and callee.site is not None
                    else None
                )
                if reason is not None:
                    return reason
        return None

    def _leaves_host(self, call: ast.Call) -> bool:
        """``x.cuda()``, ``x.to(device)``, ``torch.zeros(3, device=device)``; not ``x.to("cpu")``."""
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if method == "cuda":
            return True
        given = next((each.value for each in call.keywords if each.arg == "device"), None)
        if given is None and method == "to" and call.args:
            given = call.args[0]
        if given is None:
            return False
        values = self._flow.values(given)
        if values == {NONE} or (values and all(is_dtype(each) for each in values)):
            return False
        return device(self._flow, given).kind is not DeviceKind.CPU

    def _is_sparse(self, call: ast.Call) -> bool:
        if isinstance(call.func, ast.Attribute) and call.func.attr.startswith("to_sparse"):
            return True
        return any(
            each.sort is Sort.EXTERNAL and each.name.startswith("torch.sparse_")
            for each in self._flow.values(call.func)
        )


def formats(flow: Flow, data_set: Value) -> Iterator[ast.Call]:
    """The calls that say in which form one of Hugging Face's data sets gives its items."""
    for module in flow.modules if data_set.name in HUGGING_FACE else ():
        for call in module.nodes(ast.Call):
            function = call.func
            is_one = isinstance(function, ast.Attribute) and function.attr in _FORMATTING
            if is_one and data_set in flow.values(function.value):  # type: ignore[attr-defined]
                yield call


def _given(flow: Flow, call: ast.Call) -> Values:
    return NOTHING.union(*[flow.values(each) for each in (*call.args, *(each.value for each in call.keywords))])


def why_default_not_host(flow: Flow, reader: Module) -> Reason | None:
    """Where the script makes new tensors appear on a device, whoever makes them."""
    for module in flow.beside(reader):
        for node in _default_devices(flow, module):
            text = f"new tensors are made on a device ({HERE}), and only tensors on the host can be pinned"
            return Reason("default-device", text, (place(flow, node),))
    return None


def _default_devices(flow: Flow, module: Module) -> Iterator[ast.AST]:
    for call in module.nodes(ast.Call):
        names = {each.name for each in flow.values(call.func) if each.sort is Sort.EXTERNAL}
        if not call.args or not names & {"torch.set_default_device", "torch.set_default_tensor_type"}:
            continue
        if "torch.set_default_device" in names and device(flow, call.args[0]).kind is not DeviceKind.CPU:
            yield call
        if "torch.set_default_tensor_type" in names and "cuda" in str(
            [each.name for each in flow.values(call.args[0])]
        ):
            yield call
    for block in module.nodes(ast.With):
        for item in block.items:
            context = item.context_expr
            if (
                any(kind(flow, each) is Kind.DEVICE for each in flow.values(context))
                and device(flow, context).kind is not DeviceKind.CPU
            ):
                yield block


def why_batch_stays_pageable(flow: Flow, collate: Values) -> Reason | None:
    """Why the batches that this ``collate_fn`` makes are not pinned: objects of a class without ``pin_memory``."""
    for value in collate:
        if value.sort not in {Sort.FUNCTION, Sort.METHOD} or not isinstance(value.site, FUNCTIONS):
            continue
        for batch in flow.returned(value.site):
            class_ = batch.of.site if batch.sort is Sort.INSTANCE and batch.of is not None else None
            if (
                isinstance(class_, ast.ClassDef)
                and flow.method(class_, "pin_memory") is None
                and not _is_tuple(flow, class_)
            ):
                text = f"its collate_fn returns an object of class {class_.name}, which has no method pin_memory()"
                remedy = f"give class {class_.name} a method pin_memory() that pins its tensors and returns self"
                return Reason("unpinnable", text, remedy=remedy)
    return None


def _is_tuple(flow: Flow, class_: ast.ClassDef) -> bool:
    """Whether objects of the class are tuples or dictionaries, whose items are pinned one by one."""
    bases = {each.rpartition(".")[2] for each in flow.bases(class_) if isinstance(each, str)}
    return bool(bases & {"NamedTuple", "dict", "list", "tuple", "UserDict", "OrderedDict", "Mapping", "Sequence"})
