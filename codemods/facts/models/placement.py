"""Where a model has been moved to its device and can be named: where more can be done to it before it trains."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.placement import dominates
from codemods.dataflow.recursion import closure
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import lasting, walk
from codemods.dataflow.values import NOTHING, Function, Made, Value, in_order, library_names, owner_of
from codemods.facts.devices.devices import DeviceKind
from codemods.facts.devices.transfers import Transfer, makings
from codemods.facts.loops import REPEATING, loop_around, place
from codemods.facts.models.layers import HOLDERS, Model
from codemods.facts.models.order import calls_in_one_run
from codemods.facts.reach import written
from codemods.facts.reason import HERE, Reason, at
from codemods.library.kinds import SELF_METHODS, WRAPPERS, Kind, is_dtype, kind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import FunctionNode, Module
    from codemods.dataflow.values import Values


@dataclass(frozen=True, eq=False)
class Home:
    """The statement after which a model is on its device, and what it is called there."""

    module: Module
    anchor: ast.stmt
    name: ast.expr
    """The name, attribute or item that the model is bound to: ``model``, ``self.model``, ``models["encoder"]``."""
    move: Transfer
    is_certain: bool = False
    """Whether each arm of an ``if``, there or below, brings the model to CUDA on its own."""


def unwrapped(flow: Flow, value: Value) -> Iterator[Value]:
    """The models inside wrappers such as ``DistributedDataParallel``; the value itself where it is none."""
    yield from (layers[-1] for layers in wrappings(flow, value))


@lasting  # each call of a model in each iteration asks
def wrappings(flow: Flow, value: Value) -> tuple[tuple[Value, ...], ...]:
    """A value, the wrappers inside it if it is one, and the model inside them: one tuple for each model inside.

    After ``self.model = Wrapper(self.model)`` in two arms of an ``if`` each wrapper may be in the other.
    """
    inside: dict[Value, tuple[Value, ...]] = {}
    todo = [value]
    while todo:
        each = todo.pop(0)
        if each not in inside:
            inside[each] = tuple(_wrapped(flow, each)) if _is_wrapper(each) else ()
            todo.extend(inside[each])
    found = []
    for model in (each for each in inside if not _is_wrapper(each)):
        around = {model}
        while more := {each for each in inside if each not in around and not around.isdisjoint(inside[each])}:
            around |= more
        found.append((*(each for each in inside if each in around and each != model), model))
    return tuple(found)


def with_unknown(flow: Flow, value: Value) -> Values:
    """What is inside wrappers, be it known to be a model or not: ``DataParallel(other_package.Net())``."""
    if not _is_wrapper(value):
        return frozenset({value})
    around = closure([value], lambda each: given_to_wrapper(flow, each) if _is_wrapper(each) else ())
    return frozenset(each for each in around if not _is_wrapper(each))


def _is_wrapper(value: Value) -> bool:
    return isinstance(value, Made) and value.name in WRAPPERS and isinstance(value.site, ast.Call)


def _wrapped(flow: Flow, wrapper: Value) -> Iterator[Value]:
    """The models that a wrapper is given."""
    yield from (inner for inner in in_order(given_to_wrapper(flow, wrapper)) if kind(flow, inner) is Kind.MODEL)


def given_to_wrapper(flow: Flow, wrapper: Value) -> Values:
    """What is wrapped, as far as the call that makes the wrapper shows it."""
    match wrapper.site:
        case ast.Call(_, positional, keywords):
            given = [each.value for each in keywords if each.arg in {"module", "model", "obj", "func"}]
            for each in (given or positional)[:1]:
                return flow.values(each)
    return NOTHING


def moves(flow: Flow, modules: Iterable[Module], value: Value) -> Iterator[Transfer]:
    """The moves of a model to a device, those by methods of its own class (``self.to(device)``) among them.

    The move of a ``copy.deepcopy``, which averages its weights perhaps, is none of the model that trains.
    """
    found = [*_moves_of_same(flow, modules, value)]
    yield from [each for each in found if not _is_of_copy(flow, each)] or found


def _is_of_copy(flow: Flow, move: Transfer) -> bool:
    """``copy.deepcopy(model).to(device)``, or the move of a name that is only ever given such a copy."""
    receiver = _without_moves(move.receiver)
    if isinstance(receiver, ast.Name):
        function = move.module.function(receiver)
        stores = [each for each in move.module.stores.get(receiver.id, ()) if move.module.function(each) is function]
        given = [getattr(move.module.statement(each), "value", None) for each in stores]
        return bool(given) and all(each is not None and _is_copy(flow, each) for each in given)
    return _is_copy(flow, receiver)


def _is_copy(flow: Flow, node: ast.expr) -> bool:
    made = _without_moves(node)
    return isinstance(made, ast.Call) and library_names(flow.values(made.func)) == {"copy.deepcopy"}


def _moves_of_same(flow: Flow, modules: Iterable[Module], value: Value) -> Iterator[Transfer]:
    for module in modules:
        for move in _moves_in(flow, module):
            owners = flow.values(move.receiver)
            own = owner_of(value) is not None and any(
                each.site is None and owner_of(each) == owner_of(value) for each in owners
            )
            if value in owners or own:
                yield move


@lasting
def _moves_in(flow: Flow, module: Module) -> tuple[Transfer, ...]:
    """The calls of ``to`` and ``cuda`` that name a device, of whatever."""
    return tuple(
        Transfer(flow, module, call)
        for call in module.nodes(ast.Call)
        if isinstance(call.func, ast.Attribute) and call.func.attr in {"to", "cuda"} and _names_device(flow, call)
    )


@lasting  # each model asks
def _owners_of_parameters(module: Module) -> frozenset[str]:
    """What the module asks for parameters, as it is written."""
    asked = (each for each in module.nodes(ast.Attribute) if each.attr in {"parameters", "named_parameters"})
    return frozenset(ast.unparse(each.value) for each in asked)


def unknown_models(flow: Flow, modules: Iterable[Module]) -> Iterator[tuple[str, Transfer]]:
    """What may go to CUDA and has parameters, but is nothing that is known: its name, and the move."""
    modules = tuple(modules)
    owners = frozenset[str]().union(*map(_owners_of_parameters, modules))
    for move in (each for module in modules for each in _moves_in(flow, module)):
        bound = _named(move.module, move)
        if bound is None or ast.unparse(bound[1]) not in owners or not move.may_reach_cuda:
            continue
        values = flow.values(move.receiver)
        if values and all(kind(flow, each) is None for each in values):
            yield ast.unparse(bound[1]), move


def _names_device(flow: Flow, call: ast.Call) -> bool:
    """Whether ``to`` is given a device, and not a number format or a memory format."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "cuda":
        return True
    if any(each.arg == "device" for each in call.keywords):
        return True
    first = flow.values(call.args[0]) if call.args else NOTHING
    return bool(call.args) and not (first and all(is_dtype(each) for each in first))


def home(flow: Flow, modules: Sequence[Module], value: Value) -> Home | Reason | None:
    """The home of a model in these modules, or why none is certain; None for a model that stays on the CPU."""
    moved = [each for each in moves(flow, modules, value) if not _ends_in_error(each)]
    found = moved or _moves_around(flow, modules, value)
    to_cuda = [each for each in found if each.may_reach_cuda]
    if not to_cuda:
        unknown = next((each for each in found if each.device.kind is DeviceKind.UNKNOWN), None)
        return (
            None if unknown is None else Reason("unknown-device", f"the device is not known: {unknown.device.reason}")
        )
    bounds = [(each, _bound(flow, each, value)) for each in to_cuda if moved or each.call is value.site]
    named = [Home(each.module, *bound, each) for each, bound in bounds if bound is not None]
    if all(_given_to(each) is not None for each in named):
        # A function that is given the model moves it as well, for what it does with it.
        holding = [each for each in _moves_of_holders(flow, modules, value) if each.may_reach_cuda]
        named += [
            home for each in holding for home in _named_behind(flow, each, each.module.statement(each.call), value)
        ]
    if not named:
        named = [Home(module, *bound, to_cuda[0]) for module in modules for bound in _bindings(flow, module, value)][:1]
    if not named:
        named = [part for each in to_cuda if (part := _as_part(flow, each, value)) is not None]
    if not named:
        return _without_name()
    return _one_of(flow, named, value)


def _moves_around(flow: Flow, modules: Sequence[Module], value: Value) -> list[Transfer]:
    """What brings a model to its device that is not moved itself: its layers are made there, or a holder is moved."""
    layers = {each.site for each in Model(flow, value).layers}
    found: list[Transfer] = [each for each in makings(flow, modules) if each.call in layers]
    return found or _moves_of_holders(flow, modules, value)


def _moves_of_holders(flow: Flow, modules: Sequence[Module], value: Value) -> list[Transfer]:
    return [move for holder in _holders(flow, modules, value) for move in moves(flow, modules, holder)]


def _named_behind(flow: Flow, move: Transfer, statement: ast.stmt, value: Value) -> Iterator[Home]:
    """The homes of a model by the names that it has behind a statement that moves it by another name or with others.

    ``models.cuda()``, ``for each in (model, other): each.to(device)`` → ``model``.
    """
    module, before = move.module, flow.before(statement)
    for binding, target in _bindings(flow, module, value):
        if module.function(binding) is not module.function(statement):
            continue
        is_same = not isinstance(target, ast.Name) or before.get(target.id) == flow.values(target)
        if is_same and dominates(module, binding, statement):
            yield Home(module, statement, target, move)


def _without_name() -> Reason:
    text = "it has no name of its own where it is moved to its device"
    return Reason("no-name", text, remedy="give it a name there")


def _one_of(flow: Flow, named: Sequence[Home], value: Value) -> Home | Reason:
    """The one of a model's homes at which it can be prepared once for all, or why there is none."""
    together = [(loop, each.move) for each in named if (loop := _loop_over_models(each)) is not None]
    if together:
        named = [home for loop, move in together for home in _named_behind(flow, move, loop, value)]
    if not named:
        text, remedy = f"several models are moved to their device in one loop ({HERE}):", "compile each there"
        return Reason("made-in-loop", text, (place(flow, together[0][0]),), remedy)
    repeated = [(each, loop_around(flow, each.module, each.anchor, REPEATING)) for each in named]
    once = [each for each, loop in repeated if loop is None]
    if not once:
        loops = [place(flow, loop) for _, loop in repeated if loop is not None]
        text = f"it is made or moved again in each pass of a loop ({HERE})"
        return Reason("made-in-loop", text, (loops[0],))
    # A function that is given a model may be given several, and be called for each.
    receivers = [_given_to(each) for each in once]
    callers = [calls_in_one_run(flow, each) if each is not None else 0 for each in receivers]
    alone = [each for each, calls in zip(once, callers, strict=True) if calls == min(callers) and calls <= 1]
    if not alone:
        text = f"it is moved to its device in a function that is called more than once ({HERE})"
        return Reason("made-in-loop", text, (at(once[0].module, once[0].anchor),))
    return _ahead_of_all(flow, alone, value) or _after_all(alone)


def _ends_in_error(move: Transfer) -> bool:
    """Whether the model goes no further from there: ``model.cuda()``, ``raise NotImplementedError``."""
    return isinstance(move.module.suite(move.module.statement(move.call))[-1], ast.Raise)


def _ahead_of_all(flow: Flow, homes: list[Home], value: Value) -> Home | None:
    """Where the model is made, if an ``if`` below brings it to CUDA in each arm, in another way in each.

    There, ``DistributedDataParallel`` does not wrap it yet, and one statement serves all arms.
    """
    first = homes[0]
    module, name = first.module, ast.unparse(first.name)
    arms = [each for each in homes if each.module is module and ast.unparse(each.name) == name]
    anchors = {each.anchor for each in arms if each.move.device.kind is DeviceKind.CUDA}
    choices = [each for each in module.ancestors(first.anchor) if isinstance(each, ast.If)]
    function = module.function(first.anchor)
    for choice in reversed([each for each in choices if module.function(each) is function]):
        if not _is_moved_in_each_arm(choice, anchors):
            continue
        suite = module.suite(choice)
        for before in reversed(suite[: suite.index(choice)]):
            bound = next((each for each, given in _assigned(before) if value in flow.values(given)), None)
            if bound is not None and ast.unparse(bound) == name:
                return Home(module, before, bound, first.move, is_certain=True)
            if name in written(before):
                break
    return None


def _is_moved_in_each_arm(choice: ast.If, anchors: Collection[ast.stmt]) -> bool:
    """Whether one of the statements runs in each arm, unless the arm ends in an error."""
    return all(
        any(each in anchors or (isinstance(each, ast.If) and _is_moved_in_each_arm(each, anchors)) for each in arm)
        or (bool(arm) and isinstance(arm[-1], ast.Raise))
        for arm in (choice.body, choice.orelse)
    )


def twins(flow: Flow, modules: Sequence[Module], value: Value, first: Home) -> Iterator[Home]:
    """The homes of the other models that the function which makes this one is called for, beside its home.

    ``actor = make().to(device)``, ``critic = make().to(device)``: in the code of ``make`` they are one.
    """
    suite, seen = first.module.suite(first.anchor), {ast.unparse(first.name)}
    if value not in flow.values(first.move.receiver) or isinstance(first.anchor, ast.For):
        others = _named_behind(flow, first.move, first.anchor, value) if first.module is first.move.module else ()
        yield from (each for each in others if _is_another(flow, each, first))
    if not _is_from_factory(flow, first):
        return
    for move in moves(flow, modules, value):
        bound = _bound(flow, move, value) if move.module is first.module and move.may_reach_cuda else None
        if bound is None or ast.unparse(bound[1]) in seen or not any(bound[0] is each for each in suite):
            continue
        twin = Home(first.module, *bound, move)
        if _is_from_factory(flow, twin):
            seen.add(ast.unparse(twin.name))
            yield twin


def _is_another(flow: Flow, home_: Home, first: Home) -> bool:
    """Whether both names are given what calls of a project's function return: each names a model of its own."""
    given = [
        value
        for each in (home_, first)
        for statement in [each.module.statement(each.name)]
        for target, value in _assigned(statement)
        if target is each.name
    ]
    is_new = ast.unparse(home_.name) != ast.unparse(first.name)
    return is_new and len(given) == 2 and all(_is_made_by_function(flow, each) for each in given)  # noqa: PLR2004


def _is_from_factory(flow: Flow, home_: Home) -> bool:
    """Whether the home's name is given what a call of a project's function returns, there or beside it."""
    name = ast.unparse(home_.name)
    for statement in home_.module.suite(home_.anchor):
        for target, given in _assigned(statement):
            if ast.unparse(target) == name and isinstance(_without_moves(given), ast.Call):
                return _is_made_by_function(flow, given)
    return False


def _is_made_by_function(flow: Flow, given: ast.expr) -> bool:
    made = _without_moves(given)
    return isinstance(made, ast.Call) and any(isinstance(each, Function) for each in flow.values(made.func))


def _without_moves(made: ast.expr) -> ast.expr:
    """What is left of a chain of methods that return the model."""
    while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and made.func.attr in SELF_METHODS:
        made = made.func.value
    return made


def _after_all(homes: list[Home]) -> Home:
    """The first home, after the whole ``if`` where its branches move the model in different ways."""
    first = homes[0]
    suite = first.module.suite(first.anchor)
    others = [
        each for each in homes if each.module is first.module and ast.unparse(each.name) == ast.unparse(first.name)
    ]
    for above in (first.anchor, *first.module.ancestors(first.anchor)):
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)):
            break
        if isinstance(above, ast.If) and any(
            each.anchor in walk(above) and each.anchor not in suite for each in others
        ):
            anchors = {each.anchor for each in others if each.move.device.kind is DeviceKind.CUDA}
            return Home(first.module, above, first.name, first.move, _is_moved_in_each_arm(above, anchors))
    return first


def _holders(flow: Flow, modules: Iterable[Module], value: Value) -> Iterator[Value]:
    """The ``ModuleDict`` and ``ModuleList`` that hold the model."""
    for module in modules:
        yield from (each for each in _holders_in(flow, module) if value in Model(flow, each).layers)


@lasting
def _holders_in(flow: Flow, module: Module) -> tuple[Value, ...]:
    return tuple(
        holder
        for call in module.nodes(ast.Call)
        for holder in flow.values(call)
        if holder.name in HOLDERS and holder.site is call
    )


def _as_part(flow: Flow, move: Transfer, value: Value) -> Home | None:
    """The home of a model that is an item of something with a name: ``models["encoder"]``."""
    module, statement = move.module, move.module.statement(move.call)
    if loop_around(flow, module, move.call, REPEATING) is not None:
        return None
    bound = _named(module, move)
    holders = {ast.unparse(bound[1])} if bound is not None else {ast.unparse(each) for each, _ in _assigned(statement)}
    for node in module.nodes(ast.Subscript):
        if (
            isinstance(node.ctx, ast.Load)
            and isinstance(node.slice, ast.Constant)
            and holders & {ast.unparse(node.value), ast.unparse(node)}
            and (module.function(node) is module.function(statement) or ast.unparse(node).startswith("self."))
            and (flow.values(node) == frozenset({value}) or _is_item(flow, node, node.slice.value, value))
        ):
            return Home(module, statement, node, move)
    return None


def _is_item(flow: Flow, node: ast.Subscript, key: object, value: Value) -> bool:
    """Whether the model is what a ``ModuleDict`` or ``ModuleList`` is made with for this key."""
    for holder in flow.values(node.value):
        match holder.site:
            case ast.Call(_, [ast.Dict(keys, items)]) if holder.name in HOLDERS:
                pairs = [(each.value if isinstance(each, ast.Constant) else None) for each in keys]
            case ast.Call(_, [ast.List(items)]) if holder.name in HOLDERS:
                pairs = [*range(len(items))]
            case _:
                return False
        if [flow.values(item) for each, item in zip(pairs, items, strict=True) if each == key] != [frozenset({value})]:
            return False
    return True


def _loop_over_models(home_: Home) -> ast.For | None:
    """The loop that binds the home's name: ``for model in models.values(): model.to(device)``."""
    for above in home_.module.ancestors(home_.anchor):
        if isinstance(above, ast.For) and any(
            isinstance(each, ast.Name) and isinstance(home_.name, ast.Name) and each.id == home_.name.id
            for each in walk(above.target)
        ):
            return above
    return None


def _given_to(home_: Home) -> FunctionNode | ast.Lambda | None:
    """The function of which the home's name is a parameter."""
    function = home_.module.function(home_.anchor)
    if function is None or not isinstance(home_.name, ast.Name):
        return None
    return function if any(each.arg == home_.name.id for each in signature(function).named) else None


def _bound(flow: Flow, move: Transfer, value: Value) -> tuple[ast.stmt, ast.expr] | None:
    """The statement that moves the model, and the name that it has after it."""
    bound = _named(move.module, move)
    is_expression = bound is not None and isinstance(bound[0], ast.Expr)
    return None if bound is not None and is_expression and value not in flow.values(bound[1]) else bound


def _named(module: Module, move: Transfer) -> tuple[ast.stmt, ast.expr] | None:
    """The statement that moves something, and the name that it has after it."""
    node: ast.expr = move.call
    parent = module.parent(node)
    while True:
        if isinstance(parent, ast.Attribute) and parent.attr in SELF_METHODS:
            call = module.parent(parent)
            if not (isinstance(call, ast.Call) and call.func is parent):
                return None
            node = call
        elif isinstance(parent, ast.IfExp) and parent.test is not node:
            node = parent
        else:
            break
        parent = module.parent(node)
    if isinstance(parent, ast.Expr):
        receiver = _called_on(move.receiver)
        return None if receiver is None else (parent, receiver)
    return _target(module, node)


def _target(module: Module, node: ast.expr) -> tuple[ast.stmt, ast.expr] | None:
    """The assignment whose value the expression is, alone or as an element of a tuple, and the name it is given."""
    statement = module.statement(node)
    for target, given in _assigned(statement):
        if given is node and isinstance(target, (ast.Name, ast.Attribute)):
            return statement, target
    return None


def _assigned(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The targets of an assignment, each with the expression that it is given."""
    targets = statement.targets[-1:] if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    value = getattr(statement, "value", None)
    for target in targets:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            yield from zip(target.elts, value.elts, strict=True)
        elif isinstance(value, ast.expr):
            yield target, value


def _called_on(receiver: ast.expr) -> ast.expr | None:
    """The name that is left of a chain of methods that return the model: ``model.train().cuda()`` → ``model``."""
    receiver = _without_moves(receiver)
    is_item = isinstance(receiver, ast.Subscript) and isinstance(receiver.slice, ast.Constant)
    return receiver if is_item or isinstance(receiver, (ast.Name, ast.Attribute)) else None


def _bindings(flow: Flow, module: Module, value: Value) -> Iterator[tuple[ast.stmt, ast.expr]]:
    """The assignments that give the model a name, those of a function that makes and returns it last."""
    found = [
        (statement, target)
        for statement in module.nodes(ast.Assign, ast.AnnAssign)
        for target, given in _assigned(statement)
        if isinstance(target, (ast.Name, ast.Attribute)) and value in flow.values(given)
    ]
    yield from sorted(found, key=lambda each: _returns(flow, module, each[0], value))


def _returns(flow: Flow, module: Module, statement: ast.stmt, value: Value) -> bool:
    function = module.function(statement)
    return function is not None and value in flow.returned(function)
