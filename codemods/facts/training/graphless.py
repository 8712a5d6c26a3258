"""Which calls of models compute no graph, though gradients are on: nothing in them needs a gradient."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import lasting, walk
from codemods.dataflow.values import (
    Batch,
    Choice,
    External,
    Function,
    HostTensor,
    Instance,
    Literal,
    Made,
    Method,
    MovedTensor,
    Plain,
    SomeTensor,
    Value,
    owner_of,
    without_none,
)
from codemods.facts.loops import module_of
from codemods.facts.models.layers import Model, holds_only_known
from codemods.library.kinds import Kind, kind
from codemods.library.layers import has_no_parameters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module

_PLAIN_SORTS = (Literal, Plain, Choice, External, Function, Method)
_REGISTERS = frozenset({"register_parameter", "add_module", "register_module"})
_ASKS = frozenset({"requires_grad", "requires_grad_"})
_BUFFERED = (HostTensor, MovedTensor, SomeTensor)
"""What a buffer is: a ``Parameter`` is none of these."""


def computes_no_graph(flow: Flow, call: ast.Call) -> bool:
    """Whether all models that the call may run have no parameters, or only frozen ones, and are given plain tensors."""
    values = without_none(flow.values(call.func))
    return bool(values) and all(
        kind(flow, each) is Kind.MODEL
        and (is_without_parameters(flow, each) or (_is_frozen(flow, each) and _is_given_plain(flow, call)))
        for each in values
    )


def _is_given_plain(flow: Flow, call: ast.Call) -> bool:
    """Whether what the model is given surely was computed by no other model."""
    given = arguments_of(call)
    plain = (Batch, HostTensor, MovedTensor, *_PLAIN_SORTS)
    return all(
        flow.values(each) and all(isinstance(value, plain) for value in flow.values(each)) for each in given
    ) and not any(isinstance(each, ast.Starred) for each in given)


@lasting
def is_without_parameters(flow: Flow, value: Value) -> bool:
    """Whether the model surely has no parameters: it has buffers at most."""
    return all(_has_none(flow, each) for each in Model(flow, value).layers)


def may_be_without_parameters(flow: Flow, value: Value) -> bool:
    """Whether nothing is seen that may give the model parameters, such as one that hands on what it is given."""
    if is_without_parameters(flow, value):
        return True
    class_ = Model(flow, value).class_
    if class_ is None or not all(
        isinstance(each, ast.ClassDef) or each == "torch.nn.Module" for each in flow.bases(class_)
    ):
        return False
    if any(kind(flow, each) is Kind.MODEL for values in flow.attributes(class_).values() for each in values):
        return False
    made = (each for base in (class_, *flow.project_bases(class_)) for each in walk(base) if isinstance(each, ast.Call))
    return all(_makes_no_parameters(flow, each) for each in made)


def _makes_no_parameters(flow: Flow, call: ast.Call) -> bool:
    """``super().__init__()``, ``len(shape)``: no call that could make a layer."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "__init__":
        return True
    values = flow.values(call.func)
    return bool(values) and all(isinstance(each, External) and each.name.startswith("builtins.") for each in values)


def _has_none(flow: Flow, layer: Value) -> bool:
    """Whether a layer has no parameters besides those of the layers in it."""
    class_ = Model(flow, layer).class_
    if class_ is None:
        is_empty = has_no_parameters(layer.name) or layer.name == "torch.nn.Sequential"
        return isinstance(layer, Made) and is_empty and holds_only_known(flow, layer)
    if not all(isinstance(each, ast.ClassDef) or each == "torch.nn.Module" for each in flow.bases(class_)):
        return False
    code = [node for base in (class_, *flow.project_bases(class_)) for node in walk(base)]
    names = {each.attr for each in code if isinstance(each, ast.Attribute)}
    asked = {each.arg for each in code if isinstance(each, ast.keyword)}
    buffers = {name for each in code for name in _buffer(each)}
    return not (names & (_REGISTERS | _ASKS) or asked & _ASKS) and all(
        isinstance(each, _PLAIN_SORTS)
        or kind(flow, each) is Kind.MODEL
        or (isinstance(each, _BUFFERED) and (name in buffers or each.site in code))
        for name, values in flow.attributes(class_).items()
        for each in values
    )


def _buffer(node: ast.AST) -> Iterator[str]:
    """``self.register_buffer("mean", mean)``: the name."""
    match node:
        case ast.Call(ast.Attribute(_, "register_buffer"), [ast.Constant(str(name)), *_]):
            yield name


@lasting
def _is_frozen(flow: Flow, value: Value) -> bool:
    """Whether the model is frozen as a whole where it is made, and nothing in it is thawed."""
    if not isinstance(value.site, ast.Call):
        return False
    module = module_of(flow, value.site)
    layers = set(Model(flow, value).layers)
    switches = list(_switches(flow))
    thawed = (owner for _, owner, needs in switches if needs)
    if any(not layers.isdisjoint(Model(flow, each).layers) for each in thawed):
        return False
    suite = module.suite(module.statement(value.site))
    return any(not needs and owner == value and statement in suite for statement, owner, needs in switches)


@lasting
def may_be_frozen(flow: Flow, value: Value) -> bool:
    """Whether something may say of all parameters of the model, or of its class, that they need no gradients."""
    for module in flow.modules:
        for node in module.nodes(ast.Attribute):
            is_switch = node.attr in {"requires_grad", "requires_grad_", "detach_"}
            is_read = node.attr == "requires_grad" and isinstance(node.ctx, ast.Load)
            if is_switch and not is_read and any(_is_about(flow, each, value) for each in flow.values(node.value)):
                return True
    return False


def _is_about(flow: Flow, switched: Value, model: Value) -> bool:
    """Whether what is switched is the model or a parameter of it, or ``self`` in its class."""
    owner = switched if kind(flow, switched) is Kind.MODEL else owner_of(switched)
    if owner is None or kind(flow, owner) is not Kind.MODEL:
        return False
    is_self = isinstance(owner, Instance) and isinstance(model, Instance) and owner.site is None
    is_self = is_self and model.of.site in flow.family(owner.of.site)  # type: ignore[attr-defined]
    return owner == model or is_self


@lasting
def _switches(flow: Flow) -> tuple[tuple[ast.stmt, Value, bool], ...]:
    """Where it is said of a model's parameters whether they need gradients: the statement, the model, and what."""
    return tuple(each for module in flow.modules for each in _switches_of(flow, module))


def _switches_of(flow: Flow, module: Module) -> Iterator[tuple[ast.stmt, Value, bool]]:
    """``model.requires_grad_(False)``, ``for p in model.parameters(): p.requires_grad = False``."""
    for call in module.nodes(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "requires_grad_":
            says_no = bool(call.args) and isinstance(call.args[0], ast.Constant) and not call.args[0].value
            statement = module.statement(call)
            # To the flow, an item of several layers may be all of them.
            is_all = not isinstance(call.func.value, ast.Subscript)
            for value in flow.values(call.func.value):
                if kind(flow, value) is Kind.MODEL and (is_all or not says_no):
                    yield statement, value, not says_no
    for target in module.nodes(ast.Attribute):
        if target.attr == "requires_grad" and isinstance(target.ctx, ast.Store):
            statement = module.statement(target)
            says_no = isinstance(statement, ast.Assign) and ast.unparse(statement.value) == "False"
            for value in flow.values(target.value):
                owner = owner_of(value)
                owner = owner if owner is not None and kind(flow, owner) is Kind.MODEL else None
                loop = _loop_over_all(flow, module, statement, owner)
                if owner is not None and (loop is not None or not says_no):
                    yield loop or statement, owner, not says_no


def _loop_over_all(flow: Flow, module: Module, statement: ast.stmt, owner: Value | None) -> ast.For | None:
    """The loop over all parameters of the model, in which the statement is carried out for each of them."""
    match module.parent(statement):
        case ast.For(_, ast.Call(ast.Attribute(ast.Name() | ast.Attribute() as of, "parameters"), [])) as loop:
            return loop if statement in loop.body and flow.values(of) == {owner} else None
    return None
