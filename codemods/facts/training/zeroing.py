"""Where are gradients zeroed: with which call, or by which loop over parameters, and whose are they?"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import signature
from codemods.dataflow.source import is_name, walk
from codemods.dataflow.values import Made, Method, Unknown, Value, Values, owner_of, without_none
from codemods.facts.models.layers import Model
from codemods.facts.reason import HERE, Reason, at
from codemods.library.kinds import Kind, always, kind, why

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Module
    from codemods.facts.script import Script

_TYPES = frozenset({"torch.optim.Optimizer", "optim.Optimizer", "Optimizer", "torch.nn.Module", "nn.Module"})
_NEVER_ZEROED = frozenset({Kind.LOADER, Kind.DATASET, Kind.SCHEDULER, Kind.SCALER, Kind.DEVICE})


@dataclass(frozen=True, eq=False)
class ZeroGrad:
    """A call of ``zero_grad`` that fills gradients with zeros, or does so before torch 2."""

    module: Module
    call: ast.Call
    func: ast.Attribute
    owners: Values
    """The optimizers or models whose gradients these are, and whatever else they may be."""
    to_zeros: ast.keyword | ast.expr | None = None
    """What says so on every torch: ``set_to_none=False``."""
    is_unpacked: bool = False
    """Whether its arguments are not seen: ``**arguments``."""
    twin: str = ""
    """How a call next to it is written that zeroes the same gradients."""


@dataclass(frozen=True, eq=False)
class ZeroingLoop:
    """A loop that binds parameters and zeroes the gradient of each."""

    module: Module
    loop: ast.For
    owners: Values
    """The optimizers or models whose gradients these are, if all of them are known."""
    owner: ast.expr | None = None
    """How they are written, where it zeroes all of their gradients and does nothing else."""
    outermost: ast.For | None = None
    """The loop around it that goes through the groups of the optimizer, or else itself."""


@dataclass(frozen=True, eq=False)
class ZeroedTensor:
    """A statement that zeroes the gradient of one tensor."""

    module: Module
    statement: ast.stmt


def zeroings(script: Script) -> Iterator[ZeroGrad | ZeroingLoop | ZeroedTensor]:
    """The places of the module that zero gradients: first the calls, then what is written by hand."""
    module = script.module
    twins = dict(_doubles(script))
    for call in module.nodes(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "zero_grad":
            found = _zero_grad(script, call, call.func, twins.get(call, ""))
            if found is not None:
                yield found
    loops: set[ast.For] = set()
    for statement in module.nodes(ast.Expr, ast.AugAssign, ast.Assign):
        parameter = zeroed(statement)
        loop = None if parameter is None else _loop_over(module, statement, parameter)
        if loop is not None and loop not in loops:
            loops.add(loop)
            yield _by_hand(script, module, loop)
        elif parameter is not None and loop is None:
            yield ZeroedTensor(module, statement)


def _zero_grad(script: Script, call: ast.Call, func: ast.Attribute, twin: str) -> ZeroGrad | None:
    """The call with what its arguments say; None where it drops gradients, or may."""
    given = next((each for each in call.keywords if each.arg == "set_to_none"), None)
    value = given.value if given is not None else call.args[0] if call.args else None
    if value is not None and (not isinstance(value, ast.Constant) or value.value):
        return None
    is_unpacked = value is None and bool(call.keywords)
    return ZeroGrad(script.module, call, func, _zeroable(script, func.value), given or value, is_unpacked, twin)


def why_not_torchs(script: Script, zeroing: ZeroGrad) -> Reason | None:
    """Why ``zero_grad`` may not be torch's."""
    func, owners = zeroing.func, zeroing.owners
    own = next((each.site for each in script.flow.values(func) if isinstance(each, Method)), None)
    if own is not None:
        home = next((each for each in script.flow.modules if each.holds(own)), script.module)
        return Reason("own-method", f"zero_grad() is the script's own ({HERE})", (at(home, own),))
    if _annotation(script.module, func.value) in _TYPES:
        return None
    others = frozenset(each for each in owners if kind(script.flow, each) not in {Kind.OPTIMIZER, Kind.MODEL})
    if others and script.is_accelerated and all(isinstance(each, Unknown) for each in others):
        text = "the training step runs inside Accelerate, whose optimizer decides how gradients are zeroed"
        return Reason("framework", text)
    if others or not owners:
        text = f"what is zeroed is not known to be an optimizer or a model: {why(script.flow, others, Kind.OPTIMIZER)}"
        return Reason("unknown-optimizer", text)
    return None


def _annotation(module: Module, node: ast.expr) -> str | None:
    """What the parameter that the expression is says of its type."""
    function = module.function(node)
    if not isinstance(node, ast.Name) or function is None or isinstance(function, ast.Lambda):
        return None
    annotation = next((each.annotation for each in signature(function).named if each.arg == node.id), None)
    return None if annotation is None else ast.unparse(annotation).strip("'\"")


def _by_hand(script: Script, module: Module, loop: ast.For) -> ZeroingLoop:
    """``for p in model.parameters(): p.grad.zero_()`` and its variants."""
    outer = module.parent(loop)
    owner = _owner_of_parameters(loop)
    outermost: ast.For = loop
    wanted = Kind.MODEL
    if owner is None and isinstance(outer, ast.For) and len(outer.body) == 1 and not outer.orelse:
        owner, outermost, wanted = _owner_of_groups(outer, loop), outer, Kind.OPTIMIZER
    if owner is not None and only_zeroes(loop) and always(script.flow, script.flow.values(owner), wanted):
        return ZeroingLoop(module, loop, script.flow.values(owner), owner, outermost)
    return ZeroingLoop(module, loop, _owners_of(script, loop))


def _doubles(script: Script) -> Iterator[tuple[ast.Call, str]]:
    """Calls next to another one that zeroes their gradients too, each with how the other is written.

    Where both zero the same gradients, the model's call goes and the optimizer's stays.
    """
    module = script.module
    for statement in module.nodes(ast.Expr):
        suite = module.suite(statement)
        index = next(i for i, each in enumerate(suite) if each is statement)
        following = suite[index + 1] if index + 1 < len(suite) else None
        pair = [
            each.value
            for each in (statement, following)
            if isinstance(each, ast.Expr) and _is_plain_zero_grad(each.value)
        ]
        if len(pair) != 2:  # noqa: PLR2004 - two neighbours
            continue
        for call, other in (pair, pair[::-1]):
            parameters = _parameters_zeroed(script, call)
            others = _parameters_zeroed(script, other)
            if parameters and others and parameters <= others and (parameters < others or _is_model(script, call)):
                yield call, ast.unparse(other)  # type: ignore[misc]
                break


def _is_plain_zero_grad(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "zero_grad"
        and not (node.args or node.keywords)
    )


def _is_model(script: Script, call: ast.expr) -> bool:
    return always(script.flow, script.flow.values(call.func.value), Kind.MODEL)  # type: ignore[attr-defined]


def _parameters_zeroed(script: Script, call: ast.expr) -> frozenset[Value] | None:
    """The layers whose parameters the call surely zeroes, and no others; None where that is not known."""
    owners = without_none(script.flow.values(call.func.value))  # type: ignore[attr-defined]
    models = models_of(script, owners) if len(owners) == 1 else None
    if models is None or len(models) != 1 or adds_parameters(script) is not None:
        return None
    return frozenset(models[0].layers)


# Whose gradients these are.


def _zeroable(script: Script, node: ast.expr) -> Values:
    """What the expression may be where it has gradients to be zeroed.

    One function that makes whatever the configuration names returns loaders, models and optimizers alike.
    """
    values = without_none(script.flow.values(node))
    return frozenset(each for each in values if kind(script.flow, each) not in _NEVER_ZEROED) or values


def models_of(script: Script, owners: Values) -> list[Model] | None:
    """The models whose parameters the optimizer (or the model itself) zeroes; None where that is not known."""
    found: dict[Value, Model] = {}
    for owner in without_none(owners):
        values = frozenset({owner})
        if kind(script.flow, owner) is Kind.OPTIMIZER:
            if not isinstance(owner, Made) or not isinstance(owner.site, ast.Call):
                return None
            named = [each.value for each in owner.site.keywords if each.arg == "params"]
            given = (
                without_none(script.flow.values((owner.site.args or named)[0]))
                if owner.site.args or named
                else frozenset()
            )
            if not given or not all(
                each.name == "torch.nn.Module.parameters" and owner_of(each) is not None for each in given
            ):
                return None
            values = _owners(given)
        for value in values:
            if not _is_one(script, value):
                return None
            found[value] = Model(script.flow, value)
    return list(found.values())


def _is_one(script: Script, value: Value) -> bool:
    """Whether the value is one object, and not several that are made at the same place."""
    site, seen = value.site, set[ast.AST | None]()
    while site not in seen:
        module = next((each for each in script.flow.modules if site is not None and each.holds(site)), None)
        if module is None or site is None:
            return False
        for above in module.ancestors(site):
            if isinstance(above, (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.DictComp, ast.GeneratorExp)):
                return False
        function = module.function(site)
        if function is None:
            return True
        calls = script.flow.callers(function)
        if not calls:
            return True
        if len(calls) > 1:
            return False
        seen.add(site)
        site = calls[0]
    return False


def adds_parameters(script: Script) -> tuple[Module, ast.Attribute] | None:
    """Where an optimizer is given more parameters."""
    attributes = ((module, each) for module in script.modules for each in module.nodes(ast.Attribute))
    return next(((module, each) for module, each in attributes if each.attr == "add_param_group"), None)


# Zeroing by hand, as it is written.


def _owner_of_parameters(loop: ast.For) -> ast.expr | None:
    """``model`` of ``for p in model.parameters()`` and of ``for name, p in model.named_parameters()``."""
    call = loop.iter
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and not call.args and not call.keywords:
        if call.func.attr == "parameters" and isinstance(loop.target, ast.Name):
            return call.func.value
        if call.func.attr == "named_parameters" and isinstance(loop.target, ast.Tuple):
            return call.func.value
    return None


def _owner_of_groups(outer: ast.For, inner: ast.For) -> ast.expr | None:
    """``optimizer`` of ``for group in optimizer.param_groups: for p in group["params"]``."""
    match outer, inner:
        case (
            ast.For(ast.Name(group), ast.Attribute(owner, "param_groups")),
            ast.For(ast.Name(), ast.Subscript(ast.Name(indexed), ast.Constant("params"))),
        ) if group == indexed:
            return owner
    return None


def _owners_of(script: Script, loop: ast.For) -> Values:
    """The models whose parameters the loop goes through, as far as all of them are known."""
    target = loop.target.elts[-1] if isinstance(loop.target, ast.Tuple) else loop.target
    values = script.flow.values(target)
    if not values or not all(each.name == "torch.nn.Parameter" and owner_of(each) is not None for each in values):
        return frozenset()
    return _owners(values)


def _owners(values: Values) -> Values:
    """What the values are parts of."""
    return frozenset(owner for owner in map(owner_of, values) if owner is not None)


def _loop_over(module: Module, statement: ast.stmt, parameter: str) -> ast.For | None:
    """The loop that binds the parameter whose gradient the statement zeroes."""
    for above in module.ancestors(statement):
        if isinstance(above, ast.For) and any(is_name(each, parameter) for each in walk(above.target)):
            return above
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            break
    return None


def only_zeroes(loop: ast.For) -> bool:
    """Whether the loop does nothing but zero the gradient of each parameter."""
    body = loop.body
    if len(body) == 1 and isinstance(body[0], ast.If) and not body[0].orelse and _asks_for_gradient(body[0].test):
        body = body[0].body
    return not loop.orelse and zeroed(body[-1]) is not None and all(detaches(each) for each in body[:-1])


def zeroed(statement: ast.AST) -> str | None:
    """``p`` of ``p.grad.zero_()``, ``p.grad.data.fill_(0)``, ``p.grad *= 0`` and the like."""
    match statement:
        case ast.AugAssign(target, ast.Mult(), ast.Constant(0)):
            return _gradient_of(target)
        case ast.Expr(ast.Call(ast.Attribute(target, "zero_"), [])):
            return _gradient_of(target)
        case ast.Expr(ast.Call(ast.Attribute(target, "fill_" | "mul_"), [ast.Constant(0)])):
            return _gradient_of(target)
        case ast.Assign([target], value) if _makes_zeros(value):
            return _gradient_of(target)
    return None


def _makes_zeros(node: ast.expr) -> bool:
    """``torch.zeros_like(p)``, ``data.new().resize_as_(data).zero_()``, and either in ``Variable(…)``."""
    match node:
        case ast.Call(ast.Name("Variable") | ast.Attribute(_, "Variable"), [inner]):
            return _makes_zeros(inner)
        case ast.Call(ast.Attribute(_, "zeros_like" | "new_zeros" | "zeros"), [_, *_]):
            return True
        case ast.Call(ast.Attribute(_, "zero_"), []):
            return True
    return False


def detaches(statement: ast.stmt) -> bool:
    """Whether it is ``p.grad.detach_()``."""
    match statement:
        case ast.Expr(ast.Call(ast.Attribute(target, "detach_"), [])):
            return _gradient_of(target) is not None
    return False


def _asks_for_gradient(test: ast.expr) -> bool:
    """``p.grad is not None`` or ``p.grad``."""
    match test:
        case ast.Compare(left, [ast.IsNot() | ast.NotEq()], [ast.Constant(None)]):
            return _gradient_of(left) is not None
    return _gradient_of(test) is not None


def _gradient_of(node: ast.expr) -> str | None:
    """``p`` of ``p.grad`` and of ``p.grad.data``, as it is written."""
    match node:
        case ast.Attribute(ast.Attribute(ast.Name() | ast.Attribute() as parameter, "grad"), "data"):
            return ast.unparse(parameter)
        case ast.Attribute(ast.Name() | ast.Attribute() as parameter, "grad"):
            return ast.unparse(parameter)
    return None
