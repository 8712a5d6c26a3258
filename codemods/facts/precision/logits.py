"""Losses of probabilities, and the sigmoids that compute these for them alone."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.names import words
from codemods.dataflow.signatures import argument_of
from codemods.dataflow.values import (
    Class,
    External,
    Function,
    Instance,
    Made,
    Method,
    class_of,
    in_order,
    without_none,
)
from codemods.facts.precision.script_hazards import scripted
from codemods.facts.reach import own
from codemods.facts.reaching import reaching
from codemods.facts.reason import HERE, Reason, at
from codemods.library.hooks import is_given_outputs
from codemods.library.kinds import MODULE_METHODS, Kind, kind
from codemods.library.sigmoids import FUNCTIONS, LAYER, LIKES, MEASURES, METHOD, OF_LOGITS, RESHAPING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value
    from codemods.facts.script import Script

_SEQUENTIAL = "torch.nn.Sequential"
_LOOKS = words("builtins.print builtins.isinstance builtins.type builtins.id builtins.super")
_CLASSES = words("builtins.isinstance builtins.type")
_CHANGES = words("append extend insert pop add_module register_module")
"""Methods of a sequence after which its last layer may be another one."""
_DISPLAYS = (ast.Tuple, ast.List, ast.Dict, ast.keyword)
_OUTPUTS = frozenset({"forward", "__call__"} | {each for each in MODULE_METHODS if "hook" in each})
"""Methods of a model that compute what it returns, or hand it on."""


class _LeftError(Exception):
    """A loss keeps its probabilities."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.text)
        self.reason = reason


@dataclass(frozen=True, eq=False)
class Sigmoid:
    """A sigmoid that is to go."""

    module: Module
    node: ast.expr
    """The call of it; or the layer, where it is the last one of a sequence."""
    operand: ast.expr | None
    """What it is called with; None where the sequence calls it."""
    layer: Value | None = None
    """The layer that is called, where the model has it as an attribute."""


@dataclass(eq=False)
class Losses:
    """Losses that change together: they share a criterion, or a model whose outputs they take."""

    calls: list[tuple[Module, ast.Call]]
    makers: tuple[tuple[Module, ast.Call], ...] = ()
    """The calls that make the criteria; of a function, itself."""
    sigmoids: tuple[Sigmoid, ...] = ()
    idle: tuple[ast.stmt, ...] = ()
    """The statements that make layers which nothing calls without these sigmoids."""
    why_not: Reason | None = None

    @property
    def first(self) -> tuple[Module, ast.Call]:
        """The first place in the text that is about the loss."""
        return (self.makers or self.calls)[0]


def losses_of_probabilities(script: Script) -> list[Losses]:
    """The losses of probabilities that the script computes, those together that can only change together."""
    return (
        _Finder(script).groups()
        if any("BCELoss" in each.text or _has_function(each) for each in script.modules)
        else []
    )


def _has_function(module: Module) -> bool:
    return "binary_cross_entropy" in module.text


@dataclass(eq=False)
class _Trace:
    """What leads from sigmoids to a loss."""

    sigmoids: dict[ast.AST, Sigmoid] = field(default_factory=dict)
    models: dict[Value, None] = field(default_factory=dict)
    """What computes them: a layer, a sequence, or an object of a class of the project, and all others of that."""
    calls: set[ast.AST] = field(default_factory=set)
    """The calls of these on the way."""
    names: set[ast.AST] = field(default_factory=set)
    """The names on the way."""
    values: dict[ast.expr, Module] = field(default_factory=dict)
    """What was given to names on the way."""

    def add(self, other: _Trace) -> None:
        """Joins another one into it."""
        self.sigmoids |= other.sigmoids
        self.models |= other.models
        self.calls |= other.calls
        self.names |= other.names
        self.values |= other.values


class _Finder:
    def __init__(self, script: Script) -> None:
        self._script = script
        self._flow = script.flow

    def groups(self) -> list[Losses]:
        """All of them."""
        found: list[tuple[Losses, _Trace, set[Value]]] = []
        for module, call in self._calls:
            losses, trace = Losses([(module, call)]), _Trace()
            try:
                self._follow(module, self._prediction(module, call), trace)
            except _LeftError as left:
                losses.why_not = left.reason
            shared = {*trace.models, *self._criteria(call)}
            for other in [each for each in found if each[2] & shared]:
                losses.calls[:0] = other[0].calls
                losses.why_not = other[0].why_not or losses.why_not
                trace.add(other[1])
                shared |= other[2]
                found.remove(other)
            found.append((losses, trace, shared))
        return [self._finished(losses, trace) for losses, trace, _ in found]

    @cached_property
    def _calls(self) -> list[tuple[Module, ast.Call]]:
        """The calls that compute the losses."""
        return [
            (module, call)
            for module in self._script.modules
            for call in module.nodes(ast.Call)
            if any(
                each.name in OF_LOGITS and (isinstance(each, Made) or each.name.startswith("torch.nn.functional."))
                for each in self._flow.values(call.func)
            )
        ]

    def _criteria(self, call: ast.Call) -> list[Value]:
        """The objects that the call may call; none where it calls a function."""
        return [each for each in in_order(self._flow.values(call.func)) if isinstance(each, Made)]

    def _prediction(self, module: Module, call: ast.Call) -> ast.expr:
        values = without_none(self._flow.values(call.func))
        if len({(type(each), each.name) for each in values}) > 1:
            text = f"{module.code(call.func)} may be another loss, too ({HERE})"
            raise _LeftError(Reason("unknown-loss", text, (at(module, call),)))
        given = argument_of(call, "input", 0)
        if given is None or isinstance(given, ast.Starred):
            text = f"which arguments {module.code(call.func)} is given is not known ({HERE})"
            raise _LeftError(Reason("unknown-arguments", text, (at(module, call),)))
        return given

    # From the loss back to the sigmoids.

    def _follow(self, module: Module, node: ast.expr, trace: _Trace) -> None:
        """Follows what a loss is given back to the sigmoids that compute it.

        Raises:
            _LeftError: where it is not seen to be what a sigmoid returns, or not always.
        """
        match node:
            case ast.Name():
                self._follow_name(module, node, trace)
            case ast.Call(ast.Attribute(tensor, method)) if method in RESHAPING and self._is_method(node):
                self._follow(module, tensor, trace)
            case ast.Call():
                self._follow_call(module, node, trace)
            case _:
                raise self._unseen(module, node)

    def _follow_name(self, module: Module, name: ast.Name, trace: _Trace) -> None:
        given = reaching(module.function(name) or module.tree).given(name)
        if not given:
            raise self._unseen(module, name)
        trace.names.add(name)
        for each in given:
            if each not in trace.values:
                trace.values[each] = module
                self._follow(module, each, trace)

    def _follow_call(self, module: Module, call: ast.Call, trace: _Trace) -> None:
        operand = self._operand(call)
        values = in_order(self._flow.values(call.func))
        if operand is not None:
            layer = values[0] if values and values[0].name == LAYER and isinstance(values[0], Made) else None
            trace.sigmoids[call] = Sigmoid(module, call, operand, layer)
            trace.calls.add(call)
            return
        if not values or any(not isinstance(each, (Made, Instance)) for each in values):
            raise self._unseen(module, call)
        trace.calls.add(call)
        for each in values:
            if each not in trace.models:
                trace.models[each] = None
                self._follow_model(module, call, each, trace)

    def _follow_model(self, module: Module, call: ast.Call, model: Value, trace: _Trace) -> None:
        """Follows what a model returns, to the last of its layers or through its ``forward``."""
        class_ = class_of(model)
        where = next((each for each in self._flow.modules if model.site is not None and each.holds(model.site)), module)
        if isinstance(model, Made) and model.name == _SEQUENTIAL and isinstance(model.site, ast.Call):
            last = model.site.args[-1] if model.site.args and not model.site.keywords else None
            if last is None or not any(each.site is last and each.name == LAYER for each in self._flow.values(last)):
                raise self._unseen(module, call)
            trace.sigmoids[last] = Sigmoid(where, last, None)
            return
        forward = self._flow.method(class_, "forward") if class_ is not None else None
        if class_ is None or forward is None or self._flow.method(class_, "__call__") is not None:
            raise self._unseen(module, call)
        if len(self._flow.family(class_)) > 1:
            text = f"other classes derive from {class_.name}, or it from them ({HERE})"
            raise _LeftError(Reason("unknown-probabilities", text, (at(self._flow.module_of(forward), class_),)))
        trace.models.update(dict.fromkeys(self._objects(class_)))
        returns = [each.value for each in own(forward, ast.Return)]
        if not returns:
            raise self._unseen(module, call)
        for each in returns:
            if each is None:
                raise self._unseen(module, call)
            self._follow(self._flow.module_of(forward), each, trace)

    def _objects(self, class_: ast.ClassDef) -> list[Value]:
        """All objects of the class, ``self`` in it among them."""
        made = (
            value
            for module in self._flow.modules
            for call in module.nodes(ast.Call)
            for value in self._flow.values(call)
        )
        return [
            self._script.instance_of(class_),
            *(each for each in made if isinstance(each, Instance) and class_of(each) is class_),
        ]

    def _operand(self, call: ast.Call) -> ast.expr | None:
        """What the sigmoid is computed of, where the call computes one and does nothing else."""
        if call.keywords:
            return None
        callees = self._flow.values(call.func)
        is_layer = bool(callees) and all(isinstance(each, Made) and each.name == LAYER for each in callees)
        is_function = bool(callees) and all(isinstance(each, External) and each.name in FUNCTIONS for each in callees)
        if (is_layer or is_function) and len(call.args) == 1 and not isinstance(call.args[0], ast.Starred):
            return call.args[0]
        if (
            isinstance(call.func, ast.Attribute)
            and call.func.attr == METHOD
            and not call.args
            and self._is_method(call)
        ):
            return call.func.value
        return None

    def _is_method(self, call: ast.Call) -> bool:
        """Whether the call may be one of a tensor's method: it is no function of the project or a library."""
        values = self._flow.values(call.func)
        owners = self._flow.values(call.func.value) if isinstance(call.func, ast.Attribute) else frozenset()
        return not any(each.site is not None and isinstance(each, (Method, Function)) for each in values) and not any(
            isinstance(each, External) for each in owners
        )

    def _unseen(self, module: Module, node: ast.expr) -> _LeftError:
        text = f"{module.code(node)} is not seen to be what a sigmoid returns ({HERE})"
        if "\n" in text:
            text = f"what the loss is given is not seen to be what a sigmoid returns ({HERE})"
        return _LeftError(Reason("unknown-probabilities", text, (at(module, node),)))

    # Who else uses what they return.

    def _finished(self, losses: Losses, trace: _Trace) -> Losses:
        criteria = {each: None for _, call in losses.calls for each in self._criteria(call)}
        makers = [each.site for each in criteria if isinstance(each.site, ast.Call)]
        makers += [call for _, call in losses.calls if not self._criteria(call)]
        found = [(module, each) for module in self._script.modules for each in makers if module.holds(each)]
        losses.makers = tuple(sorted(found, key=lambda each: (each[0] is not self._script.module, each[1].lineno)))
        losses.sigmoids = tuple(trace.sigmoids.values())
        layers = dict.fromkeys(each.layer for each in losses.sigmoids if each.layer is not None)
        losses.idle = tuple(statement for each in layers for statement in self._idle(each, trace.calls))
        if losses.why_not is None:
            losses.why_not = next(
                (each for each in self._obstacles(losses, trace, list(criteria)) if each is not None), None
            )
        return losses

    def _idle(self, layer: Value, calls: set[ast.AST]) -> list[ast.stmt]:
        """The statement that makes a layer, where the calls are all that it is for."""
        places = self._flow.places(layer)
        read = [(module, node) for module, node in places if isinstance(getattr(node, "ctx", None), ast.Load)]
        makers = (module.statement(node) for module, node in places if node is layer.site)
        statements: list[ast.stmt] = [
            each for each in makers if isinstance(each, ast.Assign) and each.value is layer.site
        ]
        return statements if all(module.parent(node) in calls for module, node in read) else []

    def _obstacles(self, losses: Losses, trace: _Trace, criteria: list[Value]) -> Iterator[Reason | None]:
        for value, module in trace.values.items():
            for name in reaching(module.function(value) or module.tree).readers(value):
                if name not in trace.names and not self._is_renamed(module, name) and not self._measures(module, name):
                    yield self._used(module, name)
        for each in trace.models:
            yield self._why_used(each, trace.calls)
        called: set[ast.AST] = {call for _, call in losses.calls}
        for each in criteria:
            yield self._why_used(each, called)
            yield self._why_asked(each)
        if any(each.layer is not None or each.operand is None for each in losses.sigmoids):
            yield self._why_hooked()
        compiled = scripted(self._script)
        if compiled is not None:
            where = next(each for each in self._script.modules if each.holds(compiled))
            yield Reason("torchscript", f"TorchScript keeps the sigmoid ({HERE})", (at(where, compiled),))

    def _why_hooked(self) -> Reason | None:
        """Where a hook is hung on what may be a sigmoid: it is called no more once that is gone."""
        for module in self._script.modules:
            for call in module.nodes(ast.Call):
                if not isinstance(call.func, ast.Attribute) or not is_given_outputs(call.func.attr):
                    continue
                values = self._flow.values(call.func.value)
                others = [each for each in values if kind(self._flow, each) is Kind.MODEL and each.name != LAYER]
                if not values or len(others) < len(values):
                    text = f"a hook may be given the probabilities ({HERE})"
                    return Reason("probabilities-used", text, (at(module, call),))
        return None

    @staticmethod
    def _is_renamed(module: Module, name: ast.Name) -> bool:
        """``validity = x``: who reads that is asked instead."""
        parent = module.parent(name)
        return isinstance(parent, ast.Assign) and all(isinstance(each, ast.Name) for each in parent.targets)

    def _measures(self, module: Module, name: ast.Name) -> bool:
        """Whether only the sizes, the type or the device are asked for: ``torch.ones_like(out)``, ``out.size()``."""
        parent = module.parent(name)
        if isinstance(parent, ast.Attribute):
            return parent.attr in MEASURES
        is_like = isinstance(parent, ast.Call) and parent.args[:1] == [name]
        names = {each.name for each in self._flow.values(parent.func)} if isinstance(parent, ast.Call) else set()
        return is_like and bool(names) and names <= LIKES

    @staticmethod
    def _used(module: Module, node: ast.expr) -> Reason:
        text = f"the probabilities are used beside the loss ({HERE}):"
        return Reason("probabilities-used", text, (at(module, node),), "use the sigmoid of the logits there")

    def _why_used(self, value: Value, calls: set[ast.AST]) -> Reason | None:
        """Where a model or criterion is called beside these losses, or is handed to code that is not seen."""
        for module, node in self._flow.places(value):
            if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
                continue
            around = (each for each in module.ancestors(node) if not isinstance(each, _DISPLAYS))
            parent = next(around, None)
            if isinstance(parent, ast.Call) and parent.func is node:
                if parent not in calls:
                    return self._used(module, parent)
            elif isinstance(parent, ast.Attribute):
                if parent.attr in _OUTPUTS:
                    return self._used(module, parent)
                if parent.attr in _CHANGES and value.name == _SEQUENTIAL:
                    return self._unseen(module, node).reason
            elif isinstance(parent, (ast.Subscript, ast.Starred, ast.For, ast.comprehension)) or (
                isinstance(parent, ast.Call) and not self._is_given_to_known(parent)
            ):
                return self._handed(module, node)
        return None

    def _why_asked(self, criterion: Value) -> Reason | None:
        """Where the script asks for the class of a criterion, which would be another one."""
        for module, node in self._flow.places(criterion):
            around = (each for each in module.ancestors(node) if not isinstance(each, _DISPLAYS))
            parent = next(around, None)
            if isinstance(parent, ast.Call) and {each.name for each in self._flow.values(parent.func)} & _CLASSES:
                text = f"the script asks of which class {module.code(node)} is ({HERE})"
                return Reason("unknown-loss", text, (at(module, node),))
        return None

    def _is_given_to_known(self, call: ast.Call) -> bool:
        """Whether the call is one of the project's own code, or of a function that only looks at what it is given."""
        values = self._flow.values(call.func)
        known = (Function, Class, Method)
        return bool(values) and all(
            (isinstance(each, known) and each.site is not None) or each.name in _LOOKS for each in values
        )

    @staticmethod
    def _handed(module: Module, node: ast.expr) -> Reason:
        text = f"{module.code(node)} is handed to code that may use its outputs ({HERE})"
        return Reason("probabilities-used", text, (at(module, node),))
