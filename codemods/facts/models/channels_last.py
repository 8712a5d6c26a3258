"""Can images lie in memory channel by channel throughout a model (``torch.channels_last``)? What must change for it?"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import argument_of, arguments_of
from codemods.dataflow.source import is_name, lasting, walk
from codemods.dataflow.values import (
    Container,
    Instance,
    Literal,
    Made,
    Method,
    Tensor,
    library_names,
    owner_of,
    without_none,
)
from codemods.facts.devices.cuda_use import located
from codemods.facts.loops import module_of
from codemods.facts.models.chosen_by_name import chosen_by_default
from codemods.facts.models.compilability import code_of
from codemods.facts.models.laid_out import LaidOut, is_grouped
from codemods.facts.models.layers import Model, function_in_threads
from codemods.facts.models.obstacles import branch_in_threads, wrappers_in_threads
from codemods.facts.models.one_pixel import joins_one_pixel
from codemods.facts.models.order import runs_only_before
from codemods.facts.models.replication import is_only_on_several
from codemods.facts.models.row_major import row_major
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.fusing import why_loaded
from codemods.facts.training.options import runs_by_default
from codemods.facts.unreached import never_runs
from codemods.library.hooks import is_given_gradients, is_given_outputs
from codemods.library.kinds import CHOSEN_BY_NAME, Kind, is_dtype, is_parameter, kind
from codemods.library.memory_format import (
    CONVOLUTIONS,
    COPIES,
    FAIL_ON_WEIGHTS,
    FUNCTIONAL_CONVOLUTIONS,
    KEEPING_FUNCTIONS,
    KEEPING_METHODS,
    MADE_IN_CODE,
    MOVING_OPERATORS,
    NETWORKS,
    OF_MEMORY,
    SHARED,
    THREE_DIMENSIONAL,
    VIEWS,
)
from codemods.library.operations import operation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Value
    from codemods.facts.models.placement import Home
    from codemods.facts.models.trained import TrainedModel
    from codemods.facts.script import Script

_IN_THREADS = Reason(
    "data-parallel",
    "nn.DataParallel copies the model in each iteration, and lays out the weights anew:",
    remedy="convert to DistributedDataParallel first",
)
_ONE_CHANNEL = Reason(
    "nothing-to-gain", "each of its convolutions reads one channel, of which both layouts are the same"
)
_LOST = f"what is written to a view of images would be lost in this layout ({HERE})"
_MODE_OF_PAD = 2
"""The position of the argument."""
_INITIALIZERS = "torch.nn.init."
_NAMES = frozenset({"torch.channels_last", "torch.channels_last_3d"})
_JIT = "torch.jit."


@lasting
def is_chosen(script: Script) -> bool:
    """Whether the script speaks of the layout itself."""
    return any(
        _NAMES & library_names(script.flow.values(node))
        for module in script.modules
        if "channels_last" in module.text
        for node in module.nodes(ast.Attribute, ast.Name)
    )


@dataclass(frozen=True, eq=False)
class ChannelsLast:
    """What stands against the layout in one model of a script."""

    script: Script
    trained: TrainedModel

    @property
    def flow(self) -> Flow:
        """The script's."""
        return self.script.flow

    @property
    def model(self) -> Model:
        """The model."""
        return self.trained.model

    @cached_property
    def convolves_images(self) -> bool:
        """Whether there is a convolution in it that may be one of images."""
        return self.model.has_convolution and (
            any(_is_of_images(self.flow, each) for each in self.model.layers)
            or any(FUNCTIONAL_CONVOLUTIONS & library_names(self.flow.values(each.func)) for _, each in self._calls)
        )

    @cached_property
    def views(self) -> tuple[ast.Call, ...]:
        """The calls of ``view`` in its code that would fail, and have to be ``reshape``."""
        layouts = row_major(self.flow)
        return tuple(
            call
            for _, call in self._calls
            if isinstance(call.func, ast.Attribute)
            and call.func.attr in VIEWS
            and not self.flow.called(call)
            and not layouts.holds(call.func.value)
            and not joins_one_pixel(self.flow, call)
        )

    def why_not(self, home: Home) -> Reason | None:
        """Why the model is left as it is; None where the views are all that has to change.

        Args:
            home: Where it is on its device.
        """
        if self._reads_one_channel:
            return _ONE_CHANNEL
        for why in (self._layers.why_not, self._why_code, self._why_views, self._why_outside):
            reason = why()
            if reason is not None:
                return reason
        return self._why_weights(home) or self._why_stepped()

    # What it is made of.

    @cached_property
    def _reads_one_channel(self) -> bool:
        """Whether all its convolutions are layers that read images of one channel: of words, or of a spectrum."""
        if any(FUNCTIONAL_CONVOLUTIONS & library_names(self.flow.values(each.func)) for _, each in self._calls):
            return False
        convolving = [each for each in self.model.layers if _is_of_images(self.flow, each)]
        return bool(convolving) and all(
            each.name == "torch.nn.Conv2d" and isinstance(each.site, ast.Call) and _is_of_one(self.flow, each.site)
            for each in convolving
        )

    def why_wrapped(self) -> Reason | None:
        """Why what the model is wrapped in does not allow it."""
        threads = wrappers_in_threads(self.script, self.trained)
        branch = branch_in_threads(self.script, threads)
        if branch is not None:
            text = f"nn.DataParallel lays out the weights anew in each iteration, in one branch ({HERE})"
            return Reason("data-parallel", text, (located(self.script, branch),))
        # On one GPU its weights stay as they are; on several ones the copies have the layout that they had.
        if threads and not is_only_on_several(self.flow, threads) and self._are_made_by_default(threads):
            return _IN_THREADS
        if any(each.name.startswith(_JIT) for each in (*self.trained.wrappers, self.model.value)):
            return Reason("torchscript", "TorchScript of the model is made, of which nothing is followed")
        return None

    def _are_made_by_default(self, wrappers: Iterable[Value]) -> bool:
        """Whether some may be made where the user gives no options."""
        return any(
            not isinstance(each.site, ast.Call)
            or runs_by_default(self.script, module_of(self.flow, each.site), each.site)
            for each in wrappers
        )

    @property
    def _layers(self) -> LaidOut:
        chosen = {each.name for each in self.model.layers if each.name.endswith(CHOSEN_BY_NAME)}
        by_default = {each: chosen_by_default(self.script, each) for each in chosen}
        plain = frozenset(name for name, networks in by_default.items() if networks and networks <= NETWORKS)
        return LaidOut(self.flow, self.model, plain)

    # What its code does.

    @cached_property
    def _calls(self) -> tuple[tuple[Callee, ast.Call], ...]:
        """The calls in the code that a call of the model runs."""
        return tuple(
            (function, node)
            for function in code_of(self.model)
            for node in walk(function)
            if isinstance(node, ast.Call)
        )

    def _why_code(self) -> Reason | None:
        for _, call in self._calls:
            reason = self._why_call(call)
            if reason is not None:
                return reason.followed(f" ({HERE})", at(module_of(self.flow, call), call))
        return None

    def _why_call(self, call: ast.Call) -> Reason | None:
        values = without_none(self.flow.values(call.func))
        if (self.flow.values(call.func) and not values) or never_runs(self.flow, call):
            return None  # `if self.attention is not None: …`, of what no model has
        names = library_names(values)
        found = operation(self.flow, call)
        name = _last(call, names)
        written = ast.unparse(call.func)
        if function_in_threads(self.flow, call) is not None:
            return _IN_THREADS
        if found is not None and name in VIEWS and self._reads_bytes(call):
            return Reason("other-layout", f"{written}() takes the bytes of images for other numbers, as they lie")
        if name in OF_MEMORY and found is not None:
            return Reason("other-layout", f"its code asks how a tensor lies in memory, by {written}()")
        if found is not None and name.removesuffix("_") in MOVING_OPERATORS:
            operand = call.func.value if isinstance(call.func, ast.Attribute) and not names else None
            if operand is not None and row_major(self.flow).holds(operand):
                return None
            return Reason("other-layout", f"{written}() lays images out as before")
        if name == "pad" and argument_of(call, "mode", _MODE_OF_PAD) is not None:
            return Reason("other-layout", f"{written}() of edges lays images out as before")
        if names & FUNCTIONAL_CONVOLUTIONS and is_grouped(self.flow, call):
            return Reason("other-layout", "its convolutions may have groups, which may be slower so in 16 bits")
        if found is not None or self._is_harmless(call, values, names):
            return None
        return Reason("unknown-model", f"whether {written}() keeps the layout is not known")

    def _reads_bytes(self, call: ast.Call) -> bool:
        """``x.view(torch.int16)``: the same bytes as other numbers, of which there is no ``reshape``."""
        return any(is_dtype(each) for given in arguments_of(call) for each in self.flow.values(given))

    def _is_harmless(self, call: ast.Call, values: frozenset[Value], names: frozenset[str]) -> bool:
        """Whether it is code that is looked at by itself, a layer, or what makes and asks for numbers."""
        if not values:
            return False
        if isinstance(call.func, ast.Attribute) and call.func.attr in KEEPING_METHODS and not names:
            return True
        if names & SHARED and call.args and row_major(self.flow).holds(call.args[0]):
            return True
        return all(
            self.flow.run_by(each) is not None
            or kind(self.flow, each) in {Kind.MODEL, Kind.LOSS}
            or (isinstance(each, Method) and isinstance(each.of, Container))
            or each.name in KEEPING_FUNCTIONS | MADE_IN_CODE
            or each.name.startswith(("builtins.", "math."))
            for each in values
        )

    def _why_views(self) -> Reason | None:
        """Why a view in its code cannot become a copy."""
        for call in self.views:
            module = module_of(self.flow, call)
            place = (at(module, call),)
            if module is not self.script.module:
                text = f"{ast.unparse(call.func)}() may fail on images in this layout ({HERE}):"
                return Reason("other-module", text, place, f"write {VIEWS[call.func.attr]} there")  # type: ignore[attr-defined]
            if _is_written_to(self.flow, module, call):
                return Reason("other-layout", _LOST, place)
        for _, call in self._calls:
            module = module_of(self.flow, call)
            operand = self._copied(call)
            if operand is None or row_major(self.flow).holds(operand):
                continue
            if _is_written_to(self.flow, module, call):
                return Reason("other-layout", _LOST, (at(module, call),))
        return None

    def _copied(self, call: ast.Call) -> ast.expr | None:
        """Of what ``x.reshape(…)`` and ``torch.flatten(x)`` make a view in the usual layout alone."""
        names = library_names(self.flow.values(call.func))
        if _last(call, names) not in COPIES or operation(self.flow, call) is None:
            return None
        if isinstance(call.func, ast.Attribute) and not names:
            return call.func.value
        return call.args[0] if call.args else None

    # What else the script does with what it computes, and with its weights.

    def _why_outside(self) -> Reason | None:
        layouts = row_major(self.flow)
        is_usual = layouts.returned_by(self.model) and not self._gives_more
        for module, call in self._outside:
            func = call.func
            copied = self._copied(call)
            if copied is not None and _is_written_to(self.flow, module, call):
                is_safe = layouts.holds(copied) and not self._may_be_weight(copied)
                if not is_safe and self.script.may_run(module, call):
                    text = f"what is written to a view of images or weights would be lost in this layout ({HERE})"
                    return Reason("other-layout", text, (at(module, call),))
            if not isinstance(func, ast.Attribute) or func.attr not in VIEWS or self.flow.called(call):
                continue
            is_weight = self._may_be_weight(func.value)
            is_safe = layouts.holds(func.value) or (is_usual and not self._is_own(module, call))
            if (is_safe and not is_weight) or not self.script.may_run(module, call):
                continue
            what = "fails on weights" if is_weight else "may fail on what the model computes, where that is images"
            text, place = f"{func.attr}() {what} in this layout ({HERE})", (at(module, call),)
            if _is_written_to(self.flow, module, call):
                return Reason("other-layout", text, place)
            return Reason("other-layout", f"{text}:", place, f"write {VIEWS[func.attr]}")
        return None

    @cached_property
    def _outside(self) -> tuple[tuple[Module, ast.Call], ...]:
        """The calls in all other code of the script."""
        inside = {call for _, call in self._calls}
        calls = ((module, call) for module in self.script.modules for call in module.nodes(ast.Call))
        return tuple((module, call) for module, call in calls if call not in inside)

    @cached_property
    def _classes(self) -> frozenset[ast.ClassDef]:
        """The project's classes of the model and of its layers."""
        found = (Model(self.flow, each).class_ for each in self.model.layers)
        return frozenset(base for each in found if each is not None for base in self.flow.project_bases(each))

    def _is_own(self, module: Module, node: ast.AST) -> bool:
        """Whether the node stands in one of these."""
        return any(each in self._classes for each in module.ancestors(node))

    @cached_property
    def _gives_more(self) -> bool:
        """Whether other code may get what the model computes on the way: by hooks, other methods, or its layers."""
        inner = frozenset(self.model.layers) - {self.model.value}
        run = {function for function, _ in self._calls}
        for module, call in self._outside:
            if isinstance(call.func, ast.Attribute) and (
                is_given_outputs(call.func.attr) or is_given_gradients(call.func.attr)
            ):
                return True
            functions = [each for each in self.flow.called(call) if self.flow.owner(each) in self._classes]
            gives = any(getattr(each, "name", "") != "__init__" and each not in run for each in functions)
            if not self._is_own(module, call) and (gives or inner & self.flow.values(call.func)):
                return True
        return False

    def _may_be_weight(self, node: ast.expr) -> bool:
        """``p``, ``p.data``, ``p.grad``: a parameter, or what has its layout."""
        values = without_none(self.flow.values(node))
        owners = {each for value in values for each in (value, owner_of(value)) if each is not None}
        if any(is_parameter(self.flow, each) for each in owners):
            return True
        is_part = isinstance(node, ast.Attribute) and node.attr in {"grad", "weight"}
        is_data = isinstance(node, ast.Attribute) and node.attr == "data"
        return is_part or (is_data and not all(isinstance(each, Tensor) for each in owners))

    def _why_weights(self, home: Home) -> Reason | None:
        """What lays weights out by ``view`` after they have the layout."""
        for module in self.script.modules:
            for call in self.flow.calls_of(module, FAIL_ON_WEIGHTS):
                is_before = runs_only_before(self.flow, call, home.module, home.anchor)
                if is_before or self._is_in_constructor(call) or not self.script.may_run(module, call):
                    continue
                text = f"{ast.unparse(call.func)}() fails on weights in this layout ({HERE})"
                return Reason("other-layout", text, (at(module, call),))
        return None

    def draws_weights_after(self, module: Module, statement: ast.stmt) -> bool:
        """Whether weights are drawn after the statement: in the order of memory, which is another in this layout."""
        return any(
            not runs_only_before(self.flow, place, module, statement)
            for where in self.script.modules
            for call in where.nodes(ast.Call)
            if any(name.startswith(_INITIALIZERS) for name in library_names(self.flow.values(call.func)))
            if not self._is_in_constructor(call) and self.script.may_run(where, call)
            for place in self._applied(where.function(call)) or [call]
        )

    def _applied(self, function: Callee | None) -> list[ast.Call]:
        """Where a model applies the function to all its layers."""
        return [
            call
            for module in self.script.modules
            for call in module.nodes(ast.Call)
            if function is not None and isinstance(call.func, ast.Attribute) and call.func.attr == "apply" and call.args
            if any(each.site is function for each in self.flow.values(call.args[0]))
        ]

    def _why_stepped(self) -> Reason | None:
        """What has a fused optimizer read gradients or moments that lie otherwise than the weights, one for another."""
        fused = [each for each in self.script.optimizers if _is_fused(each.call)]
        for made in fused:
            if why_loaded(self.script, made) is not None:
                text = (
                    f"it is stepped by a fused optimizer ({HERE}), which would misread a checkpoint in another layout"
                )
                return Reason("checkpoint-loaded", text, (at(made.module, made.call),))
        for module in self.script.modules if fused else ():
            for node in module.nodes(ast.Attribute):
                is_kept = isinstance(module.parent(node), ast.Assign) and not _is_none(module.statement(node))
                if node.attr == "grad" and isinstance(node.ctx, ast.Store) and is_kept:
                    text = f"a fused optimizer would misread gradients that the script makes ({HERE})"
                    return Reason("gradients-read", text, (at(module, node),))
        return None

    def _is_in_constructor(self, call: ast.Call) -> bool:
        function = module_of(self.flow, call).function(call)
        return getattr(function, "name", "") == "__init__"


def _is_fused(call: ast.Call) -> bool:
    fused = argument_of(call, "fused")
    return fused is not None and not (isinstance(fused, ast.Constant) and not fused.value)


def _is_none(statement: ast.stmt) -> bool:
    """``p.grad = None``."""
    return isinstance(statement, ast.Assign) and ast.unparse(statement.value) == "None"


def _is_of_images(flow: Flow, layer: Value) -> bool:
    if isinstance(layer, Instance):
        return any(base in CONVOLUTIONS for base in flow.bases(layer.of.site))
    return isinstance(layer, Made) and (
        layer.name in CONVOLUTIONS | THREE_DIMENSIONAL or layer.name.startswith(("torchvision.models.", "timm."))
    )


def _is_of_one(flow: Flow, call: ast.Call) -> bool:
    channels = argument_of(call, "in_channels", 0)
    return channels is not None and flow.values(channels) == frozenset({Literal("1")})


def _last(call: ast.Call, names: frozenset[str]) -> str:
    if names:
        return next(iter(names)).rpartition(".")[2]
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _is_written_to(flow: Flow, module: Module, call: ast.Call) -> bool:
    """``x.view(-1).add_(1)``, ``x.view(-1)[0] = 1``, ``y = x.view(-1)`` where ``y`` is written to."""
    operand = call.func.value if isinstance(call.func, ast.Attribute) else None
    operand = call.args[0] if library_names(flow.values(call.func)) and call.args else operand
    match module.parent(call):
        case ast.Attribute(_, method):
            return method.endswith("_") and not method.endswith("__")
        case ast.Subscript(_, _, context):
            return isinstance(context, ast.Store)
        case ast.Call() as user:
            return _works_in_place(flow, user)
        case ast.Assign([ast.Name(name)]) if operand is None or not is_name(operand, name):
            function = module.function(call) or module.tree
            return any(_writes(flow, each, name) for each in walk(function))
    return False


def _writes(flow: Flow, node: ast.AST, name: str) -> bool:
    match node:
        case ast.Call(func, given):
            is_method = isinstance(func, ast.Attribute) and is_name(func.value, name) and func.attr.endswith("_")
            return is_method or (any(is_name(each, name) for each in given[:1]) and _works_in_place(flow, node))
        case ast.Subscript(ast.Name(written), _, ast.Store()) | ast.AugAssign(ast.Name(written)):
            return written == name
    return False


def _works_in_place(flow: Flow, call: ast.Call) -> bool:
    """``F.relu_(x)``, ``F.relu(x, inplace=True)``, ``self.relu(x)`` of ``nn.ReLU(inplace=True)``."""
    values = flow.values(call.func)
    if any(each.endswith("_") for each in library_names(values)):
        return True
    made = [each.site for each in values if isinstance(each, Made) and isinstance(each.site, ast.Call)]
    flags = [each for one in (call, *made) for each in (argument_of(one, "inplace"), *one.args) if each is not None]
    return any(isinstance(each, ast.Constant) and each.value is True for each in flags)
