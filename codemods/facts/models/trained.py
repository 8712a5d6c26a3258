"""Which models the training iterations call, and what is added to them while they train."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import lasting, walk
from codemods.dataflow.values import Class, Instance, Made, Method, Unknown, Value
from codemods.facts.models.layers import HOLDERS, Model, holds_only_known
from codemods.facts.models.order import runs_only_before
from codemods.facts.models.placement import Home, home, wrappings
from codemods.facts.training.iterations import EventKind
from codemods.library.hooks import is_of_modules
from codemods.library.kinds import Kind, described, kind
from codemods.library.layers import has_no_parameters
from codemods.library.processes import sending_arguments

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import FunctionNode, Module
    from codemods.facts.reason import Reason
    from codemods.facts.training.iterations import TrainingIteration

# What runs a model under ``torch.jit.trace``: ``torch.onnx.export`` does before torch 2.9, and with ``dynamo=False``.
_TRACES = frozenset(
    {"torch.jit.trace", "torch.jit.trace_module", "torch.onnx.export", "torch.onnx.utils.export"}
    | {"fvcore.nn.FlopCountAnalysis"}
)
_TRACING_METHODS = frozenset({"add_graph"})
_VIEWS = frozenset({"view", "reshape", "flatten", "size", "squeeze", "unsqueeze", "permute", "transpose", "t", "dim"})
# Modules of torch.nn that hold others, or that are networks of their own.
_NETWORKS = frozenset(
    {"Sequential", "Transformer", "TransformerEncoder", "TransformerDecoder", "TransformerEncoderLayer"}
)


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A model that training iterations call, and the calls."""

    modules: tuple[Module, ...]
    """All that may run in one process with it."""
    model: Model
    calls: tuple[tuple[Module, ast.Call], ...]
    wrappers: tuple[Value, ...]
    """What it is wrapped in where it is called."""
    is_single: bool = False
    """Whether it is a single layer, in which there is nothing to fuse."""

    @cached_property
    def home(self) -> Home | Reason | None:
        """Where it is on its device and can be named, or why that is not certain; None where it stays on the CPU."""
        return home(self.model.flow, self.modules, self.model.value)

    def is_of(self, module: Module) -> bool:
        """Whether it is one of the module's own: it is put on its device there, or else made there."""
        if isinstance(self.home, Home):
            return self.home.module is module
        if self.is_single and self.home is None:
            return False
        return self.model.value.site is not None and module.holds(self.model.value.site)

    @property
    def name(self) -> str:
        """What it is called in the script, or else what it is."""
        place = self.home
        return place.module.code(place.name) if isinstance(place, Home) else described(self.model.value)

    def site(self, module: Module) -> ast.AST:
        """Where it is made in the module, or else put on its device."""
        site = self.model.value.site
        if site is not None and module.holds(site):
            return site
        return self.home.anchor if isinstance(self.home, Home) else module.tree


def trained_models(
    flow: Flow, modules: tuple[Module, ...], iterations: Iterable[TrainingIteration]
) -> Iterator[TrainedModel]:
    """The models that training iterations call, not as a layer of another, in the text's order.

    Losses without layers are left out, and what has no parameters, as ``nn.CosineSimilarity``.
    """
    calls: dict[Value, list[tuple[Module, ast.Call]]] = {}
    wrappers: dict[Value, dict[Value, None]] = {}
    for iteration in iterations:
        for event in iteration.of(EventKind.FORWARD):
            if event.frame is not None and in_model(flow, event.module, event.node):
                continue
            for subject in event.subjects:
                for *around, value in wrappings(flow, subject) if kind(flow, subject) is Kind.MODEL else ():
                    known = calls.setdefault(value, [])
                    if isinstance(event.node, ast.Call) and (event.module, event.node) not in known:
                        known.append((event.module, event.node))
                    wrappers.setdefault(value, {}).update(dict.fromkeys(around))
    for value in sorted((each for each in calls if each.site is not None and each.name not in HOLDERS), key=_place):
        if isinstance(value, Made) and has_no_parameters(value.name):
            continue
        model, is_single = Model(flow, value), not _is_network(flow, value)
        if not is_single or isinstance(value, Made) or len(model.layers) > 1:
            beside = _beside(flow, modules, (module for module, _ in calls[value]))
            yield TrainedModel(beside, model, tuple(calls[value]), tuple(wrappers[value]), is_single)


def _beside(flow: Flow, modules: tuple[Module, ...], training: Iterable[Module]) -> tuple[Module, ...]:
    """Of the modules those that may run in one process with the ones that train: no other script is."""
    found = {each for module in dict.fromkeys(training) for each in flow.beside(module)}
    return tuple(each for each in modules if each in found) or modules


def _place(value: Value) -> tuple[int, int]:
    return getattr(value.site, "lineno", 0), getattr(value.site, "col_offset", 0)


def in_model(flow: Flow, module: Module, node: ast.AST) -> bool:
    """Whether the node stands in a method of a model."""
    return any(
        isinstance(above, ast.ClassDef) and kind(flow, _instance(above)) is Kind.MODEL
        for above in module.ancestors(node)
    )


@lasting
def _is_network(flow: Flow, value: Value) -> bool:
    """Whether there is something to fuse in the model."""
    package, _, name = value.name.rpartition(".")
    if isinstance(value, Made) and package == "torch.nn":
        return name in _NETWORKS
    model = Model(flow, value)
    class_ = model.class_
    if class_ is None or any(isinstance(base, str) and base != "torch.nn.Module" for base in flow.bases(class_)):
        return True
    forward = flow.method(class_, "forward")
    calls = [each for each in walk(forward) if isinstance(each, ast.Call)] if forward is not None else []
    layers = len(model.layers) - 1
    if layers == 1 and sum(not _is_view(each) for each in calls) == 1:
        inner = model.layers[1]
        is_own = Model(flow, inner).class_ is not None
        return (is_own and _is_network(flow, inner)) or not holds_only_known(flow, inner)
    kept = [each for some in flow.attributes(class_).values() for each in some]
    # `self.features = vgg19().features`: a part of a library's model.
    parts = any(isinstance(each, Method) and kind(flow, each.of) is Kind.MODEL for each in kept)
    # A part that is not known may be a whole network: `import_module(name).Net()`.
    parts = parts or any(_is_unknown_part(flow, each) for each in calls)
    return parts or layers > 0 or any(each.name == "torch.nn.Parameter" for each in kept)


def _is_unknown_part(flow: Flow, call: ast.Call) -> bool:
    """``self.net(x)``, ``self.net.forward(x)``, where nothing is known of what that is."""
    match call.func:
        case ast.Attribute(ast.Attribute(ast.Name("self")) as part, "forward"):
            pass
        case ast.Attribute(ast.Name("self")) as part:
            pass
        case _:
            return False
    values = flow.values(part)
    return bool(values) and all(isinstance(each, Unknown) for each in values)


def _is_view(call: ast.Call) -> bool:
    """``x.view(x.size(0), -1)``, ``torch.flatten(x, 1)``: nothing is computed."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in _VIEWS


def _instance(class_: ast.ClassDef) -> Value:
    return Instance(class_.name, None, Class(class_.name, class_))


def late_hook(
    flow: Flow, entry: Module, modules: Iterable[Module], trained: TrainedModel, scope: FunctionNode | ast.Lambda | None
) -> ast.Call | None:
    """Where a hook may be added to a model or layer after the model was called.

    Args:
        flow: The values of the project.
        entry: The module in which the model is put on its device.
        modules: All that may run in one process with it.
        trained: The model, and the calls of it.
        scope: The function in which the model is put on its device; None at module level.
    """
    calls = training_calls(flow, entry, trained)
    for module in modules:
        for call in module.nodes(ast.Call):
            is_hook = isinstance(call.func, ast.Attribute) and is_of_modules(call.func.attr)
            if not is_hook or in_model(flow, module, call):
                continue
            first = min((each.lineno for each in calls if entry.function(each) is scope), default=0)
            if module is not entry or entry.function(call) is not scope or call.lineno > first:
                return call
    return None


def traced_by(flow: Flow, modules: Iterable[Module], trained: TrainedModel, place: ast.stmt | None) -> ast.Call | None:
    """Where the model is given to what runs it under ``torch.jit.trace``, which refuses models compiled by then.

    Args:
        flow: The values of the project.
        modules: All that may run in one process with it.
        trained: The model.
        place: The statement beside its home after which it can be compiled; None where that is the home.
    """
    for module in modules:
        for call in tracings(flow, module):
            given = arguments_of(call)
            is_done = place is not None and call in walk(place)
            is_done = is_done or _is_before(flow, call, trained.home, place)
            if not is_done and any(is_given(flow, each, trained) for each in given):
                return call
    return None


@lasting  # each model asks
def tracings(flow: Flow, module: Module) -> tuple[ast.Call, ...]:
    """The calls that trace what they are given."""
    traces = {*flow.calls_of(module, _TRACES)}
    return tuple(
        call
        for call in module.nodes(ast.Call)
        if call in traces or (isinstance(call.func, ast.Attribute) and call.func.attr in _TRACING_METHODS)
    )


def _is_before(flow: Flow, call: ast.Call, home: Home | Reason | None, place: ast.stmt | None) -> bool:
    """Whether the call has run for good where the model can be compiled."""
    return isinstance(home, Home) and runs_only_before(flow, call, home.module, place or home.anchor)


def given_to_process(flow: Flow, modules: Iterable[Module], trained: TrainedModel) -> ast.Call | None:
    """Where the model is handed to another process, to which it is sent uncompiled."""
    for module in modules:
        for call in flow.calls_of(module, sending_arguments()):
            given = arguments_of(call)
            parts = (part for each in given for part in (each, *getattr(each, "elts", ())))
            if any(is_given(flow, each, trained) for each in parts):
                return call
    return None


def is_given(flow: Flow, argument: ast.expr, trained: TrainedModel) -> bool:
    """Whether the argument is the model, as it is or in a wrapper."""
    return any(
        trained.model.value in layers
        for value in flow.values(argument)
        if kind(flow, value) is Kind.MODEL
        for layers in wrappings(flow, value)
    )


def training_calls(flow: Flow, entry: Module, trained: TrainedModel) -> list[ast.Call]:
    """The calls of the model, and the calls of functions in which it is called."""
    found = [call for where, call in trained.calls if where is entry]
    for call in found:
        function = entry.function(call)
        for caller in flow.callers(function) if function is not None else ():
            if caller not in found and entry.holds(caller):
                found.append(caller)
    return found
