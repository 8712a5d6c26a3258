"""Which models' parameters is an optimizer given, and are they on CUDA when it steps them?"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.placement import dominates, means_the_same
from codemods.dataflow.recursion import closure
from codemods.dataflow.signatures import arguments_of, signature
from codemods.dataflow.source import is_dotted_name, lasting, walk
from codemods.dataflow.values import (
    Instance,
    in_order,
    owner_of,
    without_none,
)
from codemods.facts.devices.cuda_condition import of_argument, of_move
from codemods.facts.devices.devices import DeviceKind
from codemods.facts.devices.readings import is_sure
from codemods.facts.devices.transfers import Transfer
from codemods.facts.loops import module_of, places_that_run
from codemods.facts.models.layers import Model, is_in_threads
from codemods.facts.models.optimized import given_parameters, models_given
from codemods.facts.models.order import runs_only_before
from codemods.facts.models.placement import given_to_wrapper, moves, unwrapped
from codemods.facts.reach import Reach, own
from codemods.facts.reason import HERE, Reason, at
from codemods.library.kinds import COPYING_WRAPPERS, WRAPPERS, Kind, kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import FunctionNode, Module
    from codemods.dataflow.values import Value, Values
    from codemods.facts.script import Construction, Script

_ASKING = frozenset({"parameters", "named_parameters"})
_LEAVING = (ast.Return, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom)
_OTHERS = frozenset({"xpu", "(accelerator)"})
"""Devices on which an optimizer that is told not to be fused steps tensor by tensor, which it would not do else."""


class Stepped(NamedTuple):
    """The models whose parameters an optimizer steps on CUDA."""

    models: tuple[Value, ...]
    test: str
    """The expression, where the optimizer is made, that says whether they are on CUDA; ``True`` where they must be."""
    is_moved_later: bool = False
    """Whether one of them is still on the host when the optimizer is made: it is moved right after that."""


class _Test(NamedTuple):
    """What says whether one model is on CUDA."""

    text: str
    is_moved_later: bool = False


def given_models(script: Script, made: Construction) -> tuple[Value, ...] | Reason:
    """The models whose parameters an optimizer is given, or why it is not known that there are no others among them."""
    given = given_parameters(made.call)
    if given is None or isinstance(given, ast.Starred):
        return Reason("unknown-arguments", "what it is given cannot be seen")
    models = models_given(script.flow, script.flow.values(given))
    if isinstance(models, Reason):
        return models
    return tuple(dict.fromkeys(one for each in models for one in _as_made(script, each)))


def stepped(script: Script, made: Construction) -> Stepped | Reason:
    """The models of an optimizer, or why it is not known that their parameters are on CUDA when it steps them."""
    models = given_models(script, made)
    if isinstance(models, Reason):
        return models
    place = made.module.statement(made.call)
    tests: dict[_Test, None] = {}
    for model in models:
        test = _test(script, made, model, place)
        if isinstance(test, Reason):
            return test
        tests[test] = None
    others = list(dict.fromkeys(each.text for each in tests if each.text != "True"))
    if len(others) > 1:
        text = "no one expression says, where it is made, whether all of its models are on CUDA:"
        return Reason("unknown-device", text, remedy="move all of them by one device or flag that has a name")
    return Stepped(models, others[0] if others else "True", any(each.is_moved_later for each in tests))


def _as_made(script: Script, model: Value) -> tuple[Value, ...]:
    """The objects that the script makes of the class whose ``self`` the model is."""
    if not isinstance(model, Instance) or model.site is not None:
        return (model,)
    layers = (layer for each in script.models for layer in each.layers)
    return tuple(each for each in layers if owner_of(each) == owner_of(model) and each.site is not None) or (model,)


def _test(script: Script, made: Construction, model: Value, place: ast.stmt) -> _Test | Reason:
    """The expression that says whether the model is on CUDA, or why none is certain."""
    found = list(moves_with(script, model))
    to_cuda = [each for each in found if each.may_reach_cuda]
    if not to_cuda:
        unknown = next((each for each in found if each.device.kind is DeviceKind.UNKNOWN), None)
        if unknown is not None:
            text = f"whether its model goes to CUDA is not known ({HERE}): {unknown.device.reason}"
            return Reason("unknown-device", text, (at(unknown.module, unknown.call),))
        return Reason("no-cuda", "its model is not moved to CUDA in this file")
    before = [
        each
        for each in to_cuda
        if any(way.has_run(made.module, place) for way in _ways(script, each, model, to_cuda))
        or _is_moved_where_made(script, each, model, place)
    ]
    astray = [each for each in before if _may_move_another(script, each, made, model)]
    if astray and len(astray) == len(before):
        text = f"what is moved may be another model than the one that it steps ({HERE}):"
        return Reason("unknown-device", text, (at(astray[0].module, astray[0].call),), "move that one, too")
    before = [each for each in before if each not in astray]
    later = None if before else _test_of_later_move(script, made, model, to_cuda, place)
    if later is not None:
        return later
    if not before:
        last = to_cuda[-1]
        text = f"its model is not seen to be on the device already when it is made ({HERE}):"
        return Reason("moved-later", text, (at(last.module, last.call),), "make the optimizer after the model is moved")
    replaced = next((each for each in _replaced(script, model) if not _precedes(script, each, before)), None)
    if replaced is not None:
        text = f"a layer is put into its model after that was moved to the device ({HERE}):"
        place_of = at(module_of(script.flow, replaced), replaced)
        return Reason("moved-later", text, (place_of,), "move the model after that")
    if any(each.device.names & _OTHERS for each in before):
        return Reason("other-accelerator", "its model may be on an accelerator that is not CUDA")
    return _said(script, made, model, before, place)


def moves_with(script: Script, model: Value) -> Iterator[Transfer]:
    """The moves of the model, and of what it moves with."""
    for owner in _owners(script, model):
        yield from moves(script.flow, script.modules, owner)


def _owners(script: Script, model: Value) -> tuple[Value, ...]:
    """The model, what it wraps, the models that it is a part of, and what these are wrapped in."""
    same = (model, *unwrapped(script.flow, model))
    owners = dict.fromkeys(same)
    owners.update(
        dict.fromkeys(
            each.value for each in script.models if model in each.layers and each.value.name not in COPYING_WRAPPERS
        )
    )
    for wrapper in _wrappers(script):
        holders = list(_holders(script.flow, same, wrapper))
        owners.update(dict.fromkeys((*holders, wrapper) if holders else ()))
    return tuple(owners)


def _holders(flow: Flow, models: Sequence[Value], wrapper: Value) -> Iterator[Value]:
    """What a wrapper holds that may be one of the models, or have one as a layer."""
    for each in dict.fromkeys((*unwrapped(flow, wrapper), *in_order(given_to_wrapper(flow, wrapper)))):
        if kind(flow, each) is Kind.MODEL and not set(models).isdisjoint(Model(flow, each).layers):
            yield each


@lasting
def _wrappers(script: Script) -> tuple[Value, ...]:
    """What holds models, and moves with them: ``nn.DataParallel(model)``, or an object of a class of that kind."""
    calls = (each for module in script.modules for each in module.nodes(ast.Call))
    return tuple(
        each
        for call in calls
        for each in in_order(script.flow.values(call))
        if each.site is call and (each.name in WRAPPERS - COPYING_WRAPPERS or is_in_threads(script.flow, each))
    )


def _test_of_later_move(
    script: Script, made: Construction, model: Value, to_cuda: Sequence[Transfer], place: ast.stmt
) -> _Test | None:
    """What says that the model goes to CUDA in a statement that follows the optimizer's; None where that is not seen.

    A model is moved in place, and an optimizer makes its state in its first step.
    """
    said: set[str | None] = set()
    for each in to_cuda:
        if _may_move_another(script, each, made, model) or each.device.names & _OTHERS:
            continue
        if _follows(made.module, place, each.module, _lifted(each, to_cuda)):
            said.add(_test_of(script, each, made.module, place))
        calls = _calls_that_move(script, each, model, _lifted(each, to_cuda))
        later = (call for call in calls if _follows(made.module, place, *_statement_of(script.flow, call)))
        said.update(_test_of_call(script, each, call, made.module, place) for call in later)
    (only,) = said if len(said) == 1 and not any(_replaced(script, model)) else (None,)
    return None if only is None else _Test(only, is_moved_later=True)


def _statement_of(flow: Flow, call: ast.Call) -> tuple[Module, ast.stmt]:
    module = module_of(flow, call)
    return module, module.statement(call)


def _follows(module: Module, place: ast.stmt, where: Module, anchor: ast.stmt) -> bool:
    """Whether a statement runs after the place whenever that has run: in its suite, or in one around that."""
    if where is not module or module.function(anchor) is not module.function(place):
        return False
    suite = module.suite(anchor)
    start = next((index for index, each in enumerate(suite) if _holds(each, place)), len(suite))
    between = suite[start : suite.index(anchor) + 1]
    if not between or between[0] is anchor:
        return False
    ways = [each for each in module.ancestors(place) if _holds(between[0], each)]
    leaves = any(True for part in between for _ in own(part, *_LEAVING))
    return all(isinstance(each, (ast.If, ast.With)) for each in ways) and not leaves


def _calls_that_move(script: Script, move: Transfer, model: Value, anchor: ast.stmt) -> Iterator[ast.Call]:
    """The calls after which the model is moved, by a function or a constructor that they give it alone.

    ``Trainer(model, optimizer, device)``, which keeps ``model.to(device)``.
    """
    flow, mover, receiver = script.flow, move.module.function(move.call), move.receiver
    if not isinstance(mover, ast.FunctionDef) or not isinstance(receiver, ast.Name):
        return
    is_certain = is_sure(move.module, move.call, move.module.statement(move.call))
    if not is_certain or not _is_always_run_by(move.module, anchor, mover):
        return
    if not _is_as_given(move.module, mover, receiver):
        return
    for call in flow.callers(mover):
        given = flow.bind(mover, call).get(receiver.id)
        module, statement = _statement_of(flow, call)
        is_certain = isinstance(statement, (ast.Assign, ast.Expr)) and is_sure(module, call, statement)
        if is_certain and given is not None and without_none(flow.values(given)) == {model}:
            yield call


def _test_of_call(script: Script, move: Transfer, call: ast.Call, module: Module, place: ast.stmt) -> str | None:
    """The same of a move in a function that the call runs: of ``device`` it is what the call gives for that."""
    said = _test_of(script, move, module, place)
    node, mover = move.device.node, move.module.function(move.call)
    if said is not None or not isinstance(mover, ast.FunctionDef) or move.cuda_branches:
        return said
    if not isinstance(node, ast.Name) or not _is_as_given(move.module, mover, node):
        return None
    given = script.flow.bind(mover, call).get(node.id)
    condition = None if given is None else of_argument(script, given, module, place)
    return None if condition is None else condition.text


def _is_as_given(module: Module, function: ast.FunctionDef, name: ast.Name) -> bool:
    """Whether the name holds there what a caller gives for it: nothing else in the function binds that."""
    stores = (each for each in walk(function) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store))
    statement = module.statement(name)
    others = [each for each in stores if each.id == name.id and module.statement(each) is not statement]
    return name.id in signature(function).names and not others


def _said(
    script: Script, made: Construction, model: Value, before: Sequence[Transfer], place: ast.stmt
) -> _Test | Reason:
    """How the place can say whether what was moved is on CUDA.

    What moves a model beside its optimizer moves this one; other functions may do so with another of its kind.
    """
    module = made.module
    function = module.function(place)
    beside = [each for each in before if each.module is module and module.function(each.call) is function]
    for some in (before, beside):
        said = {_test_of(script, each, module, place) for each in some}
        (only,) = said if len(said) == 1 else (None,)
        if only is not None:
            return _Test(only)
    named = _named_beside(script, made, model)
    receiver = next((each for each in named if _is_known_at(script, module, each, place)), None)
    if receiver is None:
        text = f"whether its model is on CUDA cannot be said where it is made ({HERE})"
        return Reason("no-name", text, (at(before[-1].module, before[-1].call),))
    return _Test(f"next({module.code(receiver)}.parameters()).is_cuda")


def _named_beside(script: Script, made: Construction, model: Value) -> Iterator[ast.expr]:
    """What the script calls the model where it asks for parameters, in the call and then in its function."""
    owners = (model, *_owners(script, model))
    # `self` is any object of its class.
    same = {*owners, *(Instance(each.name, None, each.of) for each in owners if isinstance(each, Instance))}
    module, function = made.module, made.module.function(made.call)
    beside = (each for each in module.nodes(ast.Attribute) if module.function(each) is function)
    inside = (each for each in walk(made.call) if isinstance(each, ast.Attribute))
    for attribute in (*inside, *beside):
        is_asked = attribute.attr in _ASKING and is_dotted_name(attribute.value)
        if is_asked and not same.isdisjoint(script.flow.values(attribute.value)):
            yield attribute.value


def _is_known_at(script: Script, module: Module, name: ast.expr, place: ast.stmt) -> bool:
    """Whether the name stands in the statement itself, or means the same there."""
    return any(each is name for each in walk(place)) or means_the_same(script.flow, module, name, place)


def _test_of(script: Script, move: Transfer, module: Module, place: ast.stmt) -> str | None:
    """The expression, valid at the place, that says whether the move goes to CUDA; None where none is certain."""
    is_certain = move.device.kind is DeviceKind.CUDA and not move.cuda_branches and not move.may_fail_unseen(place)
    said = None if is_certain else of_move(script, move, module, place)
    return "True" if is_certain else None if said is None else said.text


# What has run before.


def _lifted(move: Transfer, others: Sequence[Transfer], made: Values = frozenset()) -> ast.stmt:
    """The statement after which the models are on the device wherever that is CUDA.

    It is the ``if use_cuda:`` around the move, an ``if`` in whose branches the others are moves, too, and one in whose
    branch what is made is made: there is none of it where another branch is run.
    """
    module = move.module
    tests = [each.test for each in move.cuda_branches]
    statement = module.statement(move.call)
    while isinstance(parent := module.parent(statement), ast.If):
        arms = [parent.body, parent.orelse]
        is_for_cuda = any(each is parent.test for each in tests)
        is_moved_in_all = all(any(_holds(each, other.call) for other in others for each in arm) for arm in arms)
        if not (is_for_cuda or is_moved_in_all or _are_made_in(module.suite(statement), made)):
            break
        statement = parent
    return statement


def _are_made_in(suite: Sequence[ast.stmt], models: Values) -> bool:
    sites = [each.site for each in models]
    return bool(sites) and all(site is not None and any(_holds(each, site) for each in suite) for site in sites)


def _holds(part: ast.AST, node: ast.AST) -> bool:
    return any(each is node for each in walk(part))


def _ways(script: Script, move: Transfer, model: Value, others: Sequence[Transfer]) -> Iterator[_Way]:
    """Statements of which each has the model on the device: inside the branch that makes it, and behind that."""
    moved = script.flow.values(move.receiver)
    mine = moved & frozenset(_owners(script, model)) or moved
    anchors = (_lifted(move, others), _lifted(move, others, mine))
    yield from (_Way(script.flow, mine, move.module, each) for each in dict.fromkeys(anchors))


def _is_moved_where_made(script: Script, move: Transfer, model: Value, place: ast.stmt) -> bool:
    """Whether the model is moved before anything but the statements from its making to the move has it.

    ``return Net().to(device)`` in one branch of a function that returns others in the other branches.
    """
    module, site = move.module, model.site
    if site is None or not module.holds(site) or module.function(site) is not module.function(move.call):
        return False
    anchor = _lifted(move, [move])
    suite = module.suite(anchor)
    first = next((each for each in suite if _holds(each, site)), None)
    is_alone = without_none(script.flow.values(move.receiver)) == {model} and first is module.statement(site)
    if first is None or not (_is_made_in(script, move, model) or (is_alone and not move.may_fail_unseen(place))):
        return False
    between = suite[suite.index(first) : suite.index(anchor) + 1]
    moving = module.statement(move.call)
    leaves = any(
        each is not moving and _start(each) < _start(moving) for part in between for each in own(part, *_LEAVING)
    )
    return bool(between) and not leaves and not _may_run_in(script.flow, place, between)


def _may_run_in(flow: Flow, place: ast.stmt, stretch: Sequence[ast.stmt]) -> bool:
    """Whether the place is in the statements, or in what these call, such as a constructor of the project."""

    def callers(node: ast.AST) -> list[ast.expr]:
        function = module_of(flow, node).function(node)
        return [] if function is None else list(places_that_run(flow, function))

    ways = list(closure(list[ast.AST]([place]), callers))
    functions = [module_of(flow, each).function(each) for each in ways]
    is_seen = not any(each is not None and flow.escapes(each) for each in functions)
    return not is_seen or any(_holds(part, each) for part in stretch for each in ways)


def _start(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _is_made_in(script: Script, move: Transfer, model: Value) -> bool:
    """``Net().to(device)``, ``(Net() if deep else Small()).to(device)``: nothing has the model before."""
    arms = [move.receiver]
    while any(isinstance(each, ast.IfExp) for each in arms):
        arms = [
            part for each in arms for part in ((each.body, each.orelse) if isinstance(each, ast.IfExp) else (each,))
        ]
    owners = frozenset(_owners(script, model))
    made = [each for each in arms if model.site is not None and _holds(each, model.site)]
    return bool(made) and all(without_none(script.flow.values(each)) <= owners for each in made)


@dataclass(frozen=True, eq=False)
class _Way:
    """A statement after which models are on the device."""

    flow: Flow
    models: Values
    module: Module
    anchor: ast.stmt

    def has_run(self, module: Module, place: ast.stmt, seen: frozenset[ast.AST] = frozenset()) -> bool:
        """Whether the statement has certainly run for the models that the place is about."""
        function = module.function(place)
        if self.module is module and self.module.function(self.anchor) is function:
            return dominates(module, self.anchor, place)
        if function is not None and function not in seen and not self.flow.escapes(function):
            ways = [(module_of(self.flow, each), each) for each in places_that_run(self.flow, function)]
            if ways and all(self.has_run(where, where.statement(each), seen | {function}) for where, each in ways):
                return True
        mover = self.module.function(self.anchor)
        if mover is None or isinstance(mover, ast.Lambda) or mover in seen:
            return False
        if not _is_always_run_by(self.module, self.anchor, mover):
            return False
        return self._hands_on(mover, module, place) or any(
            each.has_run(module, place, seen | {mover}) for each in self._calls(mover)
        )

    def _hands_on(self, mover: FunctionNode, module: Module, place: ast.stmt) -> bool:
        """Whether the function that moves the models also makes them, and nobody else has them before it returns."""
        made = [each.site for each in self.models]
        is_made_there = bool(made) and all(each is not None and self._runs_only_in(each, mover) for each in made)
        function = module.function(place)
        is_inside = function is not None and (function is mover or function in Reach(self.flow).functions([mover]))
        return is_made_there and not is_inside and not _may_run_in(self.flow, place, mover.body)

    def _runs_only_in(self, node: ast.AST, mover: FunctionNode, seen: frozenset[ast.AST] = frozenset()) -> bool:
        """Whether the node stands in the function, or in one that only it calls: ``self.model = self.build()``."""
        function = module_of(self.flow, node).function(node)
        if function is None or function is mover or function in seen or self.flow.escapes(function):
            return function is mover
        callers = self.flow.callers(function)
        return bool(callers) and all(self._runs_only_in(each, mover, seen | {function}) for each in callers)

    def _calls(self, mover: FunctionNode) -> Iterator[_Way]:
        """The statements that have the function move one model alone: ``model = prepared(Net(), device)``."""
        for call in self.flow.callers(mover):
            given = [self.flow.values(each) for each in arguments_of(call)]
            models = next((each for each in given if each and each <= self.models), None)
            if models is not None:
                where = module_of(self.flow, call)
                yield _Way(self.flow, models, where, where.statement(call))


def _is_always_run_by(module: Module, anchor: ast.stmt, mover: FunctionNode) -> bool:
    """Whether the function does not return before the statement has run."""
    before = [each for each in own(mover, ast.Return) if each is not anchor and not dominates(module, anchor, each)]
    return anchor in mover.body and not before and not any(own(mover, ast.Yield, ast.YieldFrom))


def _may_move_another(script: Script, move: Transfer, made: Construction, model: Value) -> bool:
    """Whether the name that is moved may hold another model by then, while the optimizer steps this one alone.

    ``first = model = Net()``, ``if large: model = Large()``, ``model.cuda()``, ``Adam(first.parameters())``. Which of
    several models a name holds is the same where both ask for it, and where a function is given it, its calls say.
    """
    receiver, function = move.receiver, move.module.function(move.call)
    is_given = isinstance(receiver, ast.Name) and function is not None and receiver.id in signature(function).names
    others = without_none(script.flow.values(receiver)) - frozenset(_owners(script, model))
    if is_given or not others or not isinstance(receiver, (ast.Name, ast.Attribute)):
        return False
    asked = [
        script.flow.values(each.func.value)
        for each in walk(made.call)
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr in _ASKING
    ]
    mine = [each for each in asked if model in each]
    return bool(mine) and any(others.isdisjoint(each) for each in mine)


def _replaced(script: Script, model: Value) -> Iterator[ast.stmt]:
    """Where something that is made, and not moved, is put into a model: ``model.fc = nn.Linear(512, 10)``."""
    inside = set(Model(script.flow, model).layers)
    for module in script.modules:
        for assignment in module.nodes(ast.Assign):
            for target in assignment.targets:
                is_own = isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self"
                if not isinstance(target, ast.Attribute) or is_own or _is_moved(script, module, assignment.value):
                    continue
                is_model = any(kind(script.flow, each) is Kind.MODEL for each in script.flow.values(assignment.value))
                if is_model and inside & script.flow.values(target.value):
                    yield assignment


def _is_moved(script: Script, module: Module, node: ast.expr) -> bool:
    is_move = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"to", "cuda"}
    return is_move and Transfer(script.flow, module, node).may_reach_cuda  # type: ignore[arg-type]


def _precedes(script: Script, assignment: ast.stmt, before: Sequence[Transfer]) -> bool:
    """Whether the model is moved after the assignment, as it is where that makes it."""
    moved = [(each.module, each.module.statement(each.call)) for each in before]
    where = module_of(script.flow, assignment)
    method = where.function(assignment)
    maker = where.parent(method) if getattr(method, "name", "") == "__init__" and method is not None else None
    owners = (each for move in before for each in script.flow.values(move.receiver))
    layers = (layer for each in owners for layer in Model(script.flow, each).layers)
    if isinstance(maker, ast.ClassDef) and any(Model(script.flow, each).class_ is maker for each in layers):
        return True
    return any(runs_only_before(script.flow, assignment, *each) for each in moved)
