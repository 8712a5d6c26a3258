"""Models that the script trains, but whose calls are not seen in a training iteration, and why."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.recursion import closure
from codemods.dataflow.signatures import arguments_of, signature
from codemods.dataflow.source import walk
from codemods.dataflow.values import NOTHING, Made, Method, Value, Values, owner_of, without_none
from codemods.facts.devices.cuda_use import no_cuda
from codemods.facts.devices.transfers import Transfer
from codemods.facts.loops import module_of
from codemods.facts.models.compilability import why_not_traced
from codemods.facts.models.layers import Model, function_in_threads, held
from codemods.facts.models.obstacles import SINGLE, in_framework, why_not_compiled
from codemods.facts.models.placement import home, unknown_models, unwrapped, wrappings
from codemods.facts.models.trained import TrainedModel, in_model
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.iterations import EventKind
from codemods.library.kinds import WRAPPERS, Kind, described, kind, may, why

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.source import Module
    from codemods.facts.script import Script

ON_CPU = Reason("no-cuda", "it is not moved to CUDA in this file")


def why_on_cpu(script: Script, model: Value) -> Reason:
    """Why a model that is moved nowhere as a whole is not compiled."""
    for module in script.modules:
        for call in module.nodes(ast.Call):
            part = (
                call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr in {"to", "cuda"} else None
            )
            if not isinstance(part, ast.Attribute) or model not in script.flow.values(part.value):
                continue
            if Transfer(script.flow, module, call).may_reach_cuda:
                return Reason("no-cuda", f"only a part of it is moved to CUDA ({HERE})", (at(module, call),))
    return ON_CPU


def run_by_methods(script: Script, modules: Sequence[Module]) -> Iterator[tuple[ast.Call, Method, Value]]:
    """The models of which training iterations call methods alone, each once: ``model.encode(x)``, ``model.forward(x)``.

    Each comes with the first such call in the modules, and the method.
    """
    done = {each.model.value for each in script.trained_models}
    for call in _trained_calls(script, modules):
        for callee in script.flow.values(call.func):
            model = owner_of(callee)
            is_own = callee.site is not None or callee.name == "forward"
            if not isinstance(callee, Method) or model is None or model in done or not is_own:
                continue
            if kind(script.flow, model) is Kind.MODEL and (model.site is not None or callee.name == "forward"):
                done.add(model)
                yield call, callee, model


def run_by_forward(script: Script) -> Iterator[TrainedModel]:
    """The models of which training iterations call ``forward`` alone, as if they called them."""
    done = {each.model.value for each in script.trained_models}
    for call, method, value in run_by_methods(script, script.modules):
        module = module_of(script.flow, call)
        if method.name != "forward" or in_model(script.flow, module, call):
            continue
        for *around, inner in wrappings(script.flow, value):
            if inner.site is not None and inner not in done:
                done.add(inner)
                yield TrainedModel(script.modules, Model(script.flow, inner), ((module, call),), tuple(around))


def only_methods(script: Script) -> Iterator[tuple[ast.AST, Reason]]:
    """Models that training iterations use, but do not call."""
    for call, callee, model in run_by_methods(script, [script.module]) if script.may_use_cuda else ():
        # A model that trains itself calls its own methods.
        site = model.site or call
        text = f"only __call__ is compiled, and the training calls {callee.name}() ({HERE}):"
        reason = Reason("not-called", text, (at(script.module, call),), _how_to_call(script, callee))
        otherwise = why_not_compiled(script, _as_trained(script, model))
        # Calling the model would be of no use where the user can do nothing about another obstacle.
        reason = otherwise if otherwise is not None and not otherwise.remedy else reason
        yield (site if script.module.holds(site) else call), reason


def unknown(script: Script) -> Iterator[tuple[ast.AST, Reason]]:
    """What is moved to CUDA, has parameters and is called in training like a model, but is not known to be one."""
    calls = list(_trained_calls(script))
    said: set[str] = set()
    for name, move in unknown_models(script.flow, script.modules):
        is_here = move.module is script.module
        values = without_none(script.flow.values(move.receiver))
        same = [each for each in calls if is_here and ast.unparse(each.func) == name]
        # By another name, in a function that is given it.
        same += [each for each in calls if isinstance(each.func, ast.Name) and values & script.flow.values(each.func)]
        if same and name not in said:
            said.add(name)
            reason = Reason("unknown-model", why(script.flow, values, Kind.MODEL))
            if is_here:
                yield move.call, reason
            else:
                what = f"what {ast.unparse(same[0].func)} is there is not known: "
                yield same[0], reason.following(what)
    for value in _made_of_models(script):
        if value.site is not None and script.module.holds(value.site):
            yield value.site, _taken(value)


def optimized(script: Script) -> Iterator[tuple[ast.AST, Reason]]:
    """The models of the module that optimizers train, and that are not called, or are all of it that is called."""
    for value in _optimized(script):
        if value.site is not None and script.module.holds(value.site):
            yield value.site, _why_not_called(script, value)


def owners(script: Script, nodes: set[ast.AST]) -> Iterator[tuple[ast.AST, Reason]]:
    """What the optimizers are given the parameters of, where it is not known.

    Args:
        script: Whose.
        nodes: The models of which something is said already.
    """
    reported = {part for each in nodes for part in walk(each)}
    named = {name for name, move in unknown_models(script.flow, script.modules) if move.call in nodes}
    for owner in _owners(script) if any(True for _ in _trained_calls(script)) else ():
        values = script.flow.values(owner)
        is_new = ast.unparse(owner) not in named and not any(each.site in reported for each in values)
        if is_new and script.module.holds(owner) and all(kind(script.flow, each) is None for each in values):
            named.add(ast.unparse(owner))
            yield owner, _why_unknown(script, owner)


def _trained_calls(script: Script, modules: Sequence[Module] = ()) -> Iterator[ast.Call]:
    """The calls in the modules, or in the entry script, that are part of a training iteration."""
    parts = {
        part
        for each in script.iterations
        for part in (each.owner, *(event.frame for event in each.events if event.frame is not None))
    }
    for module in (modules or [script.module]) if parts else ():
        yield from (each for each in module.nodes(ast.Call) if not parts.isdisjoint(module.ancestors(each)))


def _made_of_models(script: Script) -> Iterator[Value]:
    """What a library's function has made of a model that may train on CUDA, and the training calls."""
    found: dict[Value, None] = {}
    for call in _trained_calls(script) if script.may_use_cuda else ():
        found.update(dict.fromkeys(each for each in script.flow.values(call.func) if is_made_of_model(script, each)))
    yield from found


def is_made_of_model(script: Script, value: Value) -> bool:
    """Whether a library's function was given a model, or what another one made of that, and what it made is unknown."""
    makers = closure([value], lambda each: _given(script, each))
    return any(may(script.flow, _given(script, each), Kind.MODEL) for each in makers)


def _given(script: Script, value: Value) -> Values:
    """What the library's function was given that made something which is not known."""
    if not isinstance(value, Made) or not isinstance(value.site, ast.Call) or kind(script.flow, value) is not None:
        return NOTHING
    given = arguments_of(value.site)
    return NOTHING.union(*(script.flow.values(each) for each in given))


def _owners(script: Script) -> Iterator[ast.expr]:
    """What the optimizers of the script are given the parameters of, there or where their function is called."""
    for made in script.optimizers:
        function = made.module.function(made.call)
        names = {each.id for each in walk(made.call) if isinstance(each, ast.Name)}
        taken = function is not None and any(each.arg in names for each in signature(function).named)
        callers = script.flow.callers(function) if taken and function is not None else ()
        for call in (made.call, *callers):
            for node in walk(call):
                if isinstance(node, ast.Attribute) and node.attr in {"parameters", "named_parameters"}:
                    yield node.value


def _how_to_call(script: Script, method: Value) -> str:
    """What to do where the training calls another method than the one that is compiled."""
    if method.name == "forward":
        return "call the model itself"
    trains = any(module.function(call) is method.site for module, call in script.backwards)
    steps = method.site is not None and any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "step"
        and may(script.flow, script.flow.values(node.func.value), Kind.OPTIMIZER)
        for node in walk(method.site)
    )
    # An optimizer has no place in what is compiled.
    return f"let {method.name}() call a model to compute its loss" if trains or steps else "move that into forward()"


def _why_unknown(script: Script, owner: ast.expr) -> Reason:
    if script.framework is not None:
        return in_framework(script.framework)
    if not script.may_use_cuda and not any(True for _ in _moved_to_cuda(script)):
        return no_cuda(script)
    return not_known(ast.unparse(owner), why(script.flow, script.flow.values(owner), Kind.MODEL))


def not_known(what: str, why_: str) -> Reason:
    """Why something is left of which nobody knows what it is."""
    return Reason("unknown-model", f"what {what} is there is not known: {why_}")


def _optimized(script: Script) -> Iterator[Value]:
    """The models whose parameters the script's optimizers are given, but those that are called, and parts of models."""
    flow, found = script.flow, dict[Value, None]()
    for owner in _owners(script):
        models = (each for each in flow.values(owner) if kind(flow, each) is Kind.MODEL)
        inner = (part for each in models for part in unwrapped(flow, each))
        found.update(dict.fromkeys(part for each in inner for part in held(flow, each)))
    whole = (each.value for each in script.models if each.value.name not in WRAPPERS)
    parts = {layer for each in whole for part in held(flow, each) for layer in Model(flow, part).layers[1:]}
    done = parts | {each.model.value for each in script.trained_models if not each.is_single}
    # Of those that run by methods it is said where these are called.
    done |= {model for _, _, model in run_by_methods(script, script.modules)} if script.may_use_cuda else set()
    yield from (each for each in found if each not in done)


def _moved_to_cuda(script: Script) -> Iterator[Value]:
    """Whatever is moved to what may be a CUDA device, known to be a model or tensor or not."""
    for module in script.modules:
        for call in module.nodes(ast.Call):
            if isinstance(call.func, ast.Attribute) and call.func.attr in {"to", "cuda"}:
                move = Transfer(script.flow, module, call)
                if move.may_reach_cuda:
                    yield from script.flow.values(move.receiver)


def _taken(value: Value) -> Reason:
    text = f"{described(value)} takes the model, and what it returns is not known to be one"
    return Reason("unknown-model", text)


def _why_not_called(script: Script, value: Value) -> Reason:
    """Why a model that an optimizer trains is not to be compiled, where its calls are not seen, or all it calls."""
    place = home(script.flow, script.modules, value)
    if script.framework is not None:
        return in_framework(script.framework)
    moved = list(_moved_to_cuda(script)) if place is None else []
    taker = next((each for each in moved if value in _given(script, each)), None)
    if taker is not None:
        return _taken(taker)
    if place is None and not moved and not script.may_use_cuda:
        return no_cuda(script)
    if any(each.model.value == value for each in script.trained_models):
        return SINGLE
    if place is None:
        return why_on_cpu(script, value)
    events = (event for each in script.iterations for event in each.of(EventKind.FORWARD))
    if any(value in unwrapped(script.flow, subject) for event in events for subject in event.subjects):
        unknown = Reason("unknown-model", "what its layers do is not known")
        return why_not_traced(Model(script.flow, value)) or unknown
    reason = _in_threads(script, value) or why_not_compiled(script, _as_trained(script, value))
    return reason or Reason("not-called", "no training iteration is seen to call it")


def _as_trained(script: Script, value: Value) -> TrainedModel:
    """The model as if training iterations called it as optimizers are given it."""
    owners_ = (one for owner in _owners(script) for one in script.flow.values(owner))
    around = tuple(each for one in owners_ for each in _around(script, one, value))
    return TrainedModel(script.modules, Model(script.flow, value), (), around)


def _around(script: Script, owner: Value, value: Value) -> tuple[Value, ...]:
    """What the model is wrapped in where an optimizer is given the parameters of that."""
    if kind(script.flow, owner) is not Kind.MODEL:
        return ()
    return tuple(each for *outer, inner in wrappings(script.flow, owner) if inner == value for each in outer)


def _in_threads(script: Script, value: Value) -> Reason | None:
    """Why a model that ``data_parallel(model, x)`` runs is not compiled."""
    for module in script.modules:
        for call in module.nodes(ast.Call):
            name = function_in_threads(script.flow, call)
            if name is not None and call.args and value in script.flow.values(call.args[0]):
                text = f"{name}() copies the model in each iteration ({HERE}):"
                remedy = "convert to DistributedDataParallel first"
                return Reason("data-parallel", text, (at(module, call),), remedy)
    return None
