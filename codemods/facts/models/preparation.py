"""What a careful colleague looks at before writing a line after the one that moves a model to its device."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.placement import bound_for, dominates, means_the_same
from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import FUNCTIONS, walk
from codemods.dataflow.values import without_none
from codemods.facts.devices.cuda_condition import of_move
from codemods.facts.devices.devices import DeviceKind
from codemods.facts.loops import module_of, places_that_run
from codemods.facts.models.order import may_have_run
from codemods.facts.models.placement import twins
from codemods.facts.models.repeatability import unless_asked
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.options import said
from codemods.library.kinds import SELF_METHODS, Kind, kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.facts.models.placement import Home
    from codemods.facts.models.trained import TrainedModel
    from codemods.facts.script import Script

_PREPARES = SELF_METHODS | {"load_state_dict"}


def last_preparation(script: Script, home: Home, place: ast.stmt | None = None) -> ast.stmt:
    """The last of the statements right after the home that move models, give them weights or add hooks to them.

    Losses and optimizers may be made among them.

    Args:
        script: Whose.
        home: The home.
        place: Another statement beside it, from which on they are sought.
    """
    last = place or home.anchor
    suite = home.module.suite(last)
    index = next(i for i, each in enumerate(suite) if each is last)
    for following in suite[index + 1 :]:
        subject = _prepared(script, following)
        if subject is None:
            break
        last = following if subject is Kind.MODEL else last
    return last


def _prepared(script: Script, statement: ast.stmt) -> Kind | None:
    """The kind of thing that the statement prepares and does nothing else: a model or a loss."""
    call = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
        return None
    method = call.func.attr
    if method not in _PREPARES and not (method.startswith("register_") and method.endswith("_hook")):
        return None
    kinds = {kind(script.flow, each) for each in without_none(script.flow.values(call.func.value))}
    (only,) = kinds if len(kinds) == 1 else (None,)
    return only if only in {Kind.MODEL, Kind.LOSS} else None


def condition(script: Script, trained: TrainedModel, home: Home, anchor: ast.stmt) -> str | None:
    """The expression that says whether the model is to be compiled; None where that is certain.

    It is on CUDA then, is to be trained, and the user has not asked for runs that repeat each other.
    """
    parts = [
        cuda_condition(script, home, anchor),
        unless_asked(script, home.module, home.anchor),
        *_tests_of_training(script, trained, home, anchor),
    ]
    return " and ".join(each for each in parts if each is not None) or None


def under(test: str, lines: Sequence[str]) -> str:
    """The lines, in the suite of an ``if`` where there is a test."""
    return "\n".join(lines) if not test else f"if {test}:\n" + "\n".join(f"    {each}" for each in lines)


def cuda_condition(script: Script, home: Home, anchor: ast.stmt) -> str | None:
    """The expression that says whether the model is on CUDA; None where that is certain."""
    if _is_certain(home):
        return None
    said = of_move(script, home.move, home.module, anchor)
    # A model without parameters has no first one to ask.
    if said is not None:
        return said.text
    return f"any(each.is_cuda for each in {home.module.code(home.name)}.parameters())"


def can_be_asked(script: Script, home: Home, place: ast.stmt) -> bool:
    """Whether the place can say if the model goes to CUDA, be it after that; or it surely does."""
    return _is_certain(home) or of_move(script, home.move, home.module, place) is not None


def _is_certain(home: Home) -> bool:
    """Whether the model goes to CUDA wherever the home's statement has run."""
    if home.is_certain:
        return True
    module, move = home.module, home.move
    around = [each for each in move.branches if not _inside(module, each.test, home.anchor)]
    inside = [each for each in move.branches if each not in around]
    at_home = move.module is module and module.statement(move.call) is home.anchor
    certain = move.device.kind is DeviceKind.CUDA or any(each in around for each in move.cuda_branches)
    return certain and not inside and (at_home or (not around and (move.is_certain or bool(move.cuda_branches))))


def why_too_early(script: Script, home: Home) -> Reason | None:
    """Why nothing says at the home whether the model goes to CUDA: it has not been moved there yet."""
    move = home.move
    if can_be_asked(script, home, home.anchor):
        return None
    if may_have_run(script.flow, move.call, home.module, home.anchor):
        return None
    text = f"it is moved to its device later, as a part of {ast.unparse(move.receiver)} ({HERE}):"
    return Reason("no-name", text, (at(move.module, move.call),), "compile it there")


def _tests_of_training(script: Script, trained: TrainedModel, home: Home, anchor: ast.stmt) -> Iterator[str]:
    """The tests that hold wherever the model is trained, and otherwise lead to code that runs it without training.

    To compile takes longer than one pass of an evaluation: ``if args.evaluate: evaluate(model); return``.
    """
    ways = [way for where, call in trained.calls for way in _ways(script.flow, where, call, home)]
    for branch in ways[0] if ways else ():
        if any(branch not in each for each in ways[1:]) or not dominates(home.module, home.anchor, branch.at):
            continue
        otherwise = branch.at.orelse if branch.holds else branch.at.body
        is_run = any(_names_it(script, trained, each) for each in otherwise)
        text = said(home.module, branch.at.test, holds=branch.holds)
        if is_run and text is not None and means_the_same(script.flow, home.module, branch.at.test, anchor):
            yield text


class _Side(NamedTuple):
    """What has to hold for code to run."""

    at: ast.If
    holds: bool


def _ways(
    flow: Flow, module: Module, node: ast.AST, home: Home, seen: frozenset[ast.AST] = frozenset()
) -> Iterator[tuple[_Side, ...]]:
    """For each way from the function of the home to the node, what has to hold in that function."""
    function, here = module.function(node), home.module.function(home.anchor)
    if module is home.module and function is here:
        yield tuple(_sides(module, node))
    elif function is not None and function not in seen:
        for place in places_that_run(flow, function):
            yield from _ways(flow, module_of(flow, place), place, home, seen | {function})


def _sides(module: Module, node: ast.AST) -> Iterator[_Side]:
    below = node
    for above in module.ancestors(node):
        if isinstance(below, ast.stmt):
            for before in module.suite(below):
                if before is below:
                    break
                if isinstance(before, ast.If) and not before.orelse and _leaves(before.body[-1]):
                    yield _Side(before, holds=False)
        if isinstance(above, ast.If) and below is not above.test:
            yield _Side(above, holds=below in above.body)
        if isinstance(above, (*FUNCTIONS, ast.ClassDef)):
            return
        below = above


def _leaves(statement: ast.stmt) -> bool:
    """``return``, ``sys.exit()``, ``raise SystemExit``."""
    match statement:
        case ast.Return() | ast.Raise():
            return True
        case ast.Expr(ast.Call(ast.Name(name) | ast.Attribute(_, name))):
            return name in {"exit", "quit", "_exit"}
    return False


def _names_it(script: Script, trained: TrainedModel, statement: ast.stmt) -> bool:
    """Whether the statement calls the model, or gives it to a function."""
    mine = {trained.model.value, *trained.wrappers}
    for call in (each for each in walk(statement) if isinstance(each, ast.Call)):
        owner = call.func.value if isinstance(call.func, ast.Attribute) else call.func
        given = arguments_of(call)
        if any(not mine.isdisjoint(script.flow.values(each)) for each in (owner, *given)):
            return True
    return False


def _inside(module: Module, node: ast.AST, statement: ast.stmt) -> bool:
    return statement in module.ancestors(node)


def why_one_name(script: Script, trained: TrainedModel, home: Home) -> Reason | None:
    """Why the training cannot call the model by another name than its home's; None where it can."""
    if not isinstance(home.name, ast.Name):
        return Reason("compiles-nothing", f"{home.module.code(home.name)} is no plain name")
    if next(twins(script.flow, script.modules, trained.model.value, home), None) is not None:
        return Reason("compiles-nothing", "the function that makes it makes others")
    for where, call in trained.calls:
        if where is not home.module or not _reads(script, call.func, home):
            text = f"a second name would not be seen where the training calls it ({HERE})"
            return Reason("compiles-nothing", text, (at(where, call),))
    return None


def _reads(script: Script, func: ast.expr, home: Home) -> bool:
    """Whether what is called is the home's own name: in its function, or as a name of the module."""
    name, module = home.name, home.module
    if not (isinstance(func, ast.Name) and isinstance(name, ast.Name) and func.id == name.id):
        return False
    here, there = module.function(home.anchor), module.function(func)
    only = set(script.flow.values(func)) <= set(script.flow.values(name))
    if here is there:
        return only and dominates(module, home.anchor, module.statement(func))
    return (
        only
        and here is None
        and there is not None
        and bound_for(module, name.id, there)
        and _runs_after(script, home.anchor, there)
    )


def _runs_after(script: Script, anchor: ast.stmt, function: Callee) -> bool:
    """Whether a function is only called where the statement at module level has run."""
    module, callers = script.module, script.flow.callers(function)
    if not callers or script.flow.escapes(function):
        return False
    for call in callers:
        if not module.holds(call):
            return False
        around = module.function(call)
        if around is function:
            continue
        if not (
            dominates(module, anchor, module.statement(call)) if around is None else _runs_after(script, anchor, around)
        ):
            return False
    return True
