"""What keeps batches out of pinned memory: code of the data set or ``collate_fn`` that makes what cannot be pinned."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from codemods.dataflow.names import bound_names
from codemods.dataflow.signatures import argument_of, arguments_of
from codemods.dataflow.source import FUNCTIONS, walk
from codemods.dataflow.values import (
    NONE,
    NOTHING,
    Class,
    Container,
    External,
    Function,
    Instance,
    Method,
    MovedTensor,
    Tensor,
    Value,
    Values,
    in_order,
    library_names,
    without_none,
)
from codemods.facts.devices.devices import DeviceKind, device
from codemods.facts.loops import module_of, place
from codemods.facts.reason import HERE, Reason
from codemods.library.kinds import CONCATENATED, HUGGING_FACE, Kind, is_dtype, kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module


_TENSORS = "torch.utils.data.TensorDataset"
_FORMATTING = frozenset({"set_format", "with_format", "set_transform", "with_transform"})
# The methods through which a loader, or a library, reads and calls an object.
_OF_DATA = ("__getitem__", "__getitems__", "__iter__", "__next__")
_WHEN_CALLED = ("__call__", "forward")
_ENTRIES = (*_OF_DATA, *_WHEN_CALLED)
_PLAIN_BASES = frozenset({"torch.utils.data.Dataset", "torch.utils.data.IterableDataset", "torch.nn.Module"}) | {
    *("builtins.object", "abc.ABC", "typing.Generic")
}
_SPARSE = re.compile(r"torch\.(sparse_\w+|(cuda\.)?sparse\.\w+Tensor)$")
_TO_HOST = frozenset({"cpu", "numpy", "tolist", "item"})


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
        self._classes: set[ast.ClassDef] = set()

    def _already_there(self, site: ast.AST | None) -> Reason:
        text = f"its {self._role} already holds tensors on a device"
        if site is None:
            return Reason("already-on-device", text)
        return Reason("already-on-device", f"{text} ({HERE})", (place(self._flow, site),))

    def _moves(self, call: ast.Call) -> Reason:
        text = f"its {self._role} moves tensors to a device itself ({HERE})"
        return Reason("already-on-device", text, (place(self._flow, call),))

    def _there(self, value: Value) -> Reason | None:
        site = value.site if isinstance(value.site, ast.Call) else None
        return None if site is not None and follows_input(self._flow, site) else self._already_there(site)

    def value(self, value: Value, entries: Sequence[str] = _ENTRIES) -> Reason | None:
        if isinstance(value, MovedTensor):
            return self._there(value)
        site = value.site
        if isinstance(value, (Function, Method)) and isinstance(site, FUNCTIONS):
            return self._code(site) or self._handed_out(site)
        class_ = _class(value)
        if class_ is not None:
            found_here = (self._flow.method(class_, name) for name in ("__init__", *entries))
            methods = [each for each in found_here if each is not None]
            reasons = [self._code(each) or self._handed_out(each) for each in methods]
            found = next(filter(None, reasons), None)
            if found is not None:
                return found
        return self._held(value, class_)

    def _handed_out(self, function: Callee) -> Reason | None:
        """A tensor that the function returns, which is on a device although no code of it moves it: a global one."""
        returned = self._flow.returned(function)
        items = NOTHING.union(*(self._flow.items(each) for each in returned if isinstance(each, Container)))
        moved: set[Value] = {each for each in (*returned, *items) if isinstance(each, MovedTensor)}
        if any(not isinstance(each.site, ast.Call) for each in moved):  # computed from what was moved somewhere
            moved |= {each for node in walk(function) if isinstance(node, ast.Name) for each in self._flow.values(node)}
        known = (each for each in in_order(moved) if isinstance(each, MovedTensor) and isinstance(each.site, ast.Call))
        return next(filter(None, map(self._there, known)), None)

    def _held(self, value: Value, class_: ast.ClassDef | None) -> Reason | None:
        """What a value holds: its attributes, its items, what it was made with."""
        # What a class of the project holds runs where its code calls it; what it hands to a library may run anyhow.
        entries = _ENTRIES if class_ is None or not _is_all_seen(self._flow, class_) else _OF_DATA
        if class_ is not None and class_ not in self._classes:
            self._classes.add(class_)
            attributes = self._flow.attributes(class_)
            own = (
                each
                for name, values in attributes.items()
                for each in values
                if not _is_method(self._flow, each) and not self._is_from_host(each, class_, name)
            )
            found = self._first(own, entries)
            if found is not None:
                return found
        site = value.site
        if site is None or site in self._seen:
            return None
        self._seen.add(site)
        if isinstance(value, Container):
            return self._first(self._flow.items(value), entries)
        if value.name == CONCATENATED and self._flow.items(value):
            return self._first(self._flow.items(value), entries)
        if not isinstance(site, ast.Call):
            return None
        moved = self._moved_into(site) if value.name == _TENSORS else None
        if moved is not None:
            return self._already_there(moved)
        arguments = arguments_of(site)
        given = (each.value if isinstance(each, ast.Starred) else each for each in arguments)
        return self._first(NOTHING.union(*map(self._flow.values, given)), entries)

    def _moved_into(self, made: ast.Call) -> ast.Call | None:
        """What moves a tensor that a ``TensorDataset`` is given, also one of which it is not known that it is one."""
        module = module_of(self._flow, made)
        for argument in made.args:
            tensor = argument.value if isinstance(argument, ast.Starred) else argument
            tensor = tensor.elt if isinstance(tensor, (ast.GeneratorExp, ast.ListComp)) else tensor
            named = [each.value for each in module.assignments(tensor)] if isinstance(tensor, ast.Name) else []
            for each in (tensor, *named):
                if isinstance(each, ast.Call) and self._is_move(each):
                    return each
        return None

    def _is_from_host(self, value: Value, class_: ast.ClassDef, attribute: str) -> bool:
        """Whether code that was looked through, and moves nothing, computes what an attribute holds.

        Of what is computed from ``mean.to(data.device)`` nothing says any more that the data is on the host.
        """
        if not isinstance(value, MovedTensor) or value.site is not None:
            return False
        kin = {class_, *self._flow.bases(class_)}
        stores = (
            module.function(each)
            for module in self._flow.modules
            for each in module.nodes(ast.Attribute)
            if each.attr == attribute
            and isinstance(each.ctx, ast.Store)
            and _class_of_self(module, each) in (None, *kin)
        )
        reached = [each for each in self._seen if isinstance(each, FUNCTIONS)]
        own = self._flow.attributes(class_)
        return all(each in self._seen for each in stores) and not any(
            self._brings_moved(function, node, own)
            for function in reached
            for node in walk(function)
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load)
        )

    def _brings_moved(self, function: Callee, node: ast.Name | ast.Attribute, own: Iterable[str]) -> bool:
        """Whether something that may be on a device comes from outside into the function by this name."""
        moved = [each for each in self._flow.values(node) if isinstance(each, MovedTensor)]
        calls = [each.site for each in moved if isinstance(each.site, ast.Call)]
        if any(not follows_input(self._flow, each) for each in calls):
            return True
        is_own = node.attr in own if isinstance(node, ast.Attribute) else node.id in bound_names(function)
        return len(calls) < len(moved) and not is_own

    def _is_move(self, call: ast.Call) -> bool:
        return self._leaves_host(call) and not follows_input(self._flow, call) and not _comes_back(self._flow, call)

    def _first(self, values: Iterable[Value], entries: Sequence[str] = _ENTRIES) -> Reason | None:
        for each in without_none(frozenset(values)):
            reason = self.value(each, entries)
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
                moved = any(isinstance(each, MovedTensor) for each in self._flow.values(value))
                if not moved and not (isinstance(value, ast.Call) and self._leaves_host(value)):
                    continue
                owners = [
                    self._flow.values(each.value) for each in statement.targets if isinstance(each, ast.Attribute)
                ]
                if any(data_set in each for each in owners):
                    return self._already_there(statement)
        return None

    def _code(self, function: ast.AST) -> Reason | None:
        """Where the function, or one of the project's that it uses, makes what is not dense, or not on the host."""
        if function in self._seen:
            return None
        self._seen.add(function)
        for node in walk(function):
            reason = self._made(node) if isinstance(node, ast.Call) else None
            if reason is None and isinstance(node, (ast.Name, ast.Attribute)):
                reason = self._used(node)
            if reason is not None:
                return reason
        return None

    def _made(self, call: ast.Call) -> Reason | None:
        """What a call makes that is not on the host, or not dense, itself or in a class of the project."""
        if self._is_move(call):
            return self._moves(call)
        if self._is_sparse(call):
            text = f"its {self._role} makes sparse tensors, which cannot be pinned ({HERE})"
            return Reason("unpinnable", text, (place(self._flow, call),))
        callees = self._flow.values(call.func)
        if any(each.name == "builtins.getattr" for each in callees):
            return self._any_method(call)
        for callee in callees:
            class_ = _class(callee)
            methods = [] if class_ is None else [self._flow.method(class_, each) for each in _WHEN_CALLED]
            if isinstance(callee, Class) and isinstance(callee.site, ast.ClassDef):
                methods = [self._flow.method(callee.site, "__init__")]
            for method in filter(None, methods):
                reason = self._code(method)
                if reason is not None:
                    return reason
        return None

    def _used(self, node: ast.Name | ast.Attribute) -> Reason | None:
        """What a function does that is named, to be called or handed on, or a property that is read."""
        values = self._flow.values(node)
        named = [each.site for each in values if isinstance(each, (Function, Method))]
        if isinstance(node, ast.Attribute):
            owners = filter(None, map(_class, self._flow.values(node.value)))
            named += [self._flow.method(each, node.attr) for each in owners]
        return next(filter(None, (self._code(each) for each in named if isinstance(each, FUNCTIONS))), None)

    def _any_method(self, call: ast.Call) -> Reason | None:
        """``getattr(self, name)``: whichever method of the object that is."""
        owners = filter(None, map(_class, self._flow.values(call.args[0]))) if call.args else ()
        methods = (each for owner in owners for each in owner.body if isinstance(each, FUNCTIONS))
        return next(filter(None, map(self._code, methods)), None)

    def _leaves_host(self, call: ast.Call) -> bool:
        """``x.cuda()``, ``x.to(device)``, ``torch.zeros(3, device=device)``; not ``x.to("cpu")``."""
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if method == "cuda":
            return True
        given = argument_of(call, "device", 0 if method == "to" else None)
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
            isinstance(each, External) and _SPARSE.match(each.name) is not None for each in self._flow.values(call.func)
        )


def _class(value: Value) -> ast.ClassDef | None:
    """The project's class that the value is an object of."""
    site = value.of.site if isinstance(value, Instance) and value.of is not None else None
    return site if isinstance(site, ast.ClassDef) else None


def _class_of_self(module: Module, node: ast.Attribute) -> ast.ClassDef | None:
    """The class in which it is an attribute of ``self``."""
    is_self = isinstance(node.value, ast.Name) and node.value.id == "self"
    return next((each for each in module.ancestors(node) if isinstance(each, ast.ClassDef) and is_self), None)


def _is_all_seen(flow: Flow, class_: ast.ClassDef) -> bool:
    """Whether no library's code calls what objects of the class hold."""
    return all(isinstance(each, ast.ClassDef) or each in _PLAIN_BASES for each in flow.bases(class_))


def _is_method(flow: Flow, value: Value) -> bool:
    """Whether a class of the project defines it: it runs where it is called."""
    return isinstance(value.site, FUNCTIONS) and flow.owner(value.site) is not None


def follows_input(flow: Flow, call: ast.Call) -> bool:
    """Whether what is made is where another tensor of the data set is, which was loaded to the host.

    ``x.to(y.device)``, ``x.to(y)``, ``x.cuda() if y.is_cuda else x``.
    """
    is_to = isinstance(call.func, ast.Attribute) and call.func.attr == "to"
    given = argument_of(call, "device", 0 if is_to else None)
    tests = list(_tests(flow, call))
    if given is None:
        return any(_asks_whether_on_cuda(flow, each) for each in tests)
    owner = given.value if isinstance(given, ast.Attribute) and given.attr == "device" else given
    if _is_on_host(flow, owner):
        return True
    is_tensor = any(_asks_whether_tensor(flow, each, owner) for each in tests)
    return owner is not given and is_tensor and not _may_be_moved(flow, owner)


def _tests(flow: Flow, call: ast.Call) -> Iterator[ast.expr]:
    """The tests that hold where the call runs, in its function."""
    below: ast.AST = call
    for above in module_of(flow, call).ancestors(call):
        if isinstance(above, FUNCTIONS):
            return
        is_body = isinstance(above, ast.IfExp) and below is above.body
        if is_body or (isinstance(above, ast.If) and below in above.body):
            yield above.test  # type: ignore[attr-defined]
        below = above


def _asks_whether_on_cuda(flow: Flow, test: ast.expr) -> bool:
    """``y.is_cuda``."""
    is_asked = isinstance(test, ast.Attribute) and test.attr == "is_cuda"
    return is_asked and isinstance(test.value, ast.Name) and not _may_be_moved(flow, test.value)  # type: ignore[attr-defined]


def _asks_whether_tensor(flow: Flow, test: ast.expr, owner: ast.expr) -> bool:
    """``torch.is_tensor(y)``, ``isinstance(y, torch.Tensor)``."""
    if not isinstance(test, ast.Call) or not test.args or ast.unparse(test.args[0]) != ast.unparse(owner):
        return False
    names = {each.name for each in flow.values(test.func)}
    classes = {each.name for argument in test.args[1:] for each in flow.values(argument)}
    return names == {"torch.is_tensor"} or (names == {"builtins.isinstance"} and classes == {"torch.Tensor"})


def _is_on_host(flow: Flow, node: ast.expr) -> bool:
    values = flow.values(node)
    return bool(values) and all(isinstance(each, Tensor) for each in values) and not _may_be_moved(flow, node)


def _may_be_moved(flow: Flow, node: ast.expr) -> bool:
    return any(isinstance(each, MovedTensor) for each in flow.values(node))


def _comes_back(flow: Flow, call: ast.Call) -> bool:
    """Whether the statement copies what it makes back at once: ``x.cuda().sqrt().cpu()``."""
    below: ast.AST = call
    for above in module_of(flow, call).ancestors(call):
        if not isinstance(above, ast.expr):
            return False
        is_copy = isinstance(above, ast.Attribute) and above.attr in _TO_HOST
        if is_copy and isinstance(module_of(flow, call).parent(above), ast.Call):
            return True
        is_chained = isinstance(above, ast.Attribute) or (isinstance(above, ast.Call) and below is above.func)
        if not is_chained:
            return False
        below = above
    return False


def formats(flow: Flow, data_set: Value) -> Iterator[ast.Call]:
    """The calls that say in which form one of Hugging Face's data sets gives its items."""
    for module in flow.modules if data_set.name in HUGGING_FACE else ():
        for call in module.nodes(ast.Call):
            function = call.func
            is_one = isinstance(function, ast.Attribute) and function.attr in _FORMATTING
            if is_one and data_set in flow.values(function.value):  # type: ignore[attr-defined]
                yield call


def _given(flow: Flow, call: ast.Call) -> Values:
    return NOTHING.union(*[flow.values(each) for each in arguments_of(call)])


def why_default_not_host(flow: Flow, reader: Module) -> Reason | None:
    """Where the script makes new tensors appear on a device, whoever makes them."""
    for module in flow.beside(reader):
        for node in _default_devices(flow, module):
            text = f"new tensors are made on a device ({HERE}), and only tensors on the host can be pinned"
            return Reason("default-device", text, (place(flow, node),))
    return None


def _default_devices(flow: Flow, module: Module) -> Iterator[ast.AST]:
    for call in module.nodes(ast.Call):
        names = library_names(flow.values(call.func))
        given = arguments_of(call)[:1]
        if "torch.set_default_device" in names and any(device(flow, each).kind is not DeviceKind.CPU for each in given):
            yield call
        types = [each.name for node in given for each in flow.values(node)]
        if "torch.set_default_tensor_type" in names and "cuda" in str(types):
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
        if not isinstance(value, (Function, Method)) or not isinstance(value.site, FUNCTIONS):
            continue
        for batch in flow.returned(value.site):
            class_ = batch.of.site if isinstance(batch, Instance) and batch.of is not None else None
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
