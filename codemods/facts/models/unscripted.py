"""The script as it would be if its models were not made TorchScript of, and what stands against writing it so."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import FUNCTIONS, Module, lasting, walk
from codemods.dataflow.values import library_names
from codemods.facts.models.candidates import NotCompiled, candidates
from codemods.facts.models.compilability import code_of
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.script import Script, Whole
from codemods.library.torchscript import CLASSES, MARKS, OF_SCRIPTS, SCRIPTS, TRACES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from codemods.facts.models.candidates import Candidate, Wanted
    from codemods.facts.models.trained import TrainedModel
    from codemods.facts.reason import Place

_CODE = "torchscript"


def scripted_models(script: Script) -> Iterator[tuple[TrainedModel, ast.Call]]:
    """The models that training iterations call as TorchScript, and the calls in this module that make it of them."""
    for trained in script.trained_models:
        for each in (*trained.wrappers, trained.model.value):
            made = each.name == SCRIPTS or each.name in TRACES
            if made and isinstance(each.site, ast.Call) and script.module.holds(each.site):
                yield trained, each.site
                break


def why_kept(script: Script, trained: TrainedModel, call: ast.Call) -> Reason | None:
    """Why the call that makes TorchScript of a model has to stay; None where the model may as well be called itself."""
    names = library_names(script.flow.values(call.func))
    written = f"{ast.unparse(call.func)}()"
    if names != {SCRIPTS}:
        text = f"{written} keeps one way through the code of the model, which may compute otherwise itself:"
        return Reason(_CODE, text, remedy="train the model itself where it does not")
    if len(call.args) != 1 or call.keywords or isinstance(call.args[0], ast.Starred):
        return Reason("unknown-arguments", f"{written} is given something else than one model by position")
    return (
        _why_decided(script, call)
        or _why_exported(script, trained)
        or _why_written_for_it(script, trained)
        or _why_beside(script, call)
    )


def _why_decided(script: Script, call: ast.Call) -> Reason | None:
    """Where only a condition leads to it."""
    for above in script.module.ancestors(call):
        if isinstance(above, FUNCTIONS):
            return None
        if isinstance(above, (ast.If, ast.IfExp, ast.Try, ast.ExceptHandler)):
            text = f"a condition decides whether TorchScript is made of it ({HERE})"
            return Reason("script-decides", text, (at(script.module, above),))
    return None


def _why_exported(script: Script, trained: TrainedModel) -> Reason | None:
    """Where the script is saved or looked at, or given to other functions of TorchScript."""
    scripts = {each for each in trained.wrappers if each.name == SCRIPTS}

    def is_used(node: ast.AST) -> bool:
        match node:
            case ast.Attribute(value, name) if name in OF_SCRIPTS and scripts & script.flow.values(value):
                return True
            case ast.Name() | ast.Attribute():
                return bool(CLASSES & library_names(script.flow.values(node)))
            case ast.Call(_, [asked, *_]) if _asks_for_class(script, node):
                return bool(scripts & script.flow.values(asked))
            case ast.Call(func):
                names = library_names(script.flow.values(func))
                is_other = SCRIPTS not in names and any(each.startswith("torch.jit.") for each in names)
                return is_other and any(scripts & script.flow.values(each) for each in arguments_of(node))
        return False

    for module in script.modules:
        for node in module.nodes(ast.Name, ast.Attribute, ast.Call):
            if is_used(node):
                return Reason(_CODE, f"the TorchScript itself is used ({HERE})", (at(module, node),))
    return None


def _asks_for_class(script: Script, call: ast.Call) -> bool:
    """``type(model)``, ``isinstance(model, Net)``: TorchScript of a model is a module, and not of the model's class."""
    names = library_names(script.flow.values(call.func))
    match call.args:
        case [_] if names == {"builtins.type"}:
            return True
        case [_, classes] if names == {"builtins.isinstance"}:
            parts = classes.elts if isinstance(classes, ast.Tuple) else [classes]
            return not all(library_names(script.flow.values(each)) for each in parts)
    return False


def _why_written_for_it(script: Script, trained: TrainedModel) -> Reason | None:
    """Where the code of the model is written for TorchScript."""
    functions = [*code_of(trained.model)]
    nodes = [*functions, *(each for function in functions for each in getattr(function, "decorator_list", ()))]
    for part in nodes:
        for node in walk(part):
            if isinstance(node, (ast.Name, ast.Attribute)) and MARKS & library_names(script.flow.values(node)):
                module = next(each for each in script.flow.modules if each.holds(node))
                text = f"the code of the model is written for TorchScript ({HERE})"
                return Reason(_CODE, text, (at(module, node),))
    return None


def _why_beside(script: Script, call: ast.Call) -> Reason | None:
    """Where the model is used beside the script of it: that has a mode and attributes of its own."""
    module, given = script.module, call.args[0]
    if not isinstance(given, (ast.Name, ast.Attribute)) or _binds(module.statement(call), given):
        return None
    function = module.function(call)
    for node in module.nodes(type(given)):
        is_read = ast.unparse(node) == ast.unparse(given) and not isinstance(node.ctx, ast.Store)
        if is_read and node is not given and not (module.function(node) is function and node.lineno <= call.lineno):
            text = f"{ast.unparse(given)} is used beside the TorchScript of it ({HERE}):"
            return Reason(_CODE, text, (at(module, node),), f"give both the name {ast.unparse(given)}")
    return None


def keeps_its_name(module: Module, call: ast.Call) -> bool:
    """Whether the statement is no more than ``model = torch.jit.script(model)``."""
    statement = module.statement(call)
    is_whole = isinstance(statement, ast.Assign) and statement.value is call
    return is_whole and len(call.args) == 1 and _binds(statement, call.args[0])


def _binds(statement: ast.stmt, name: ast.expr) -> bool:
    """Whether the statement gives the name, and no other, another value: ``model = torch.jit.script(model).cuda()``."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return len(targets) == 1 and ast.unparse(targets[0]) == ast.unparse(name)


def why_not_compiled(
    script: Script, trained: TrainedModel, call: ast.Call, wanted: Callable[[Script], Wanted]
) -> Reason | None:
    """Why the model would not be compiled if the call were not there; None where it would.

    Args:
        script: The script.
        trained: The model.
        call: What makes TorchScript of it.
        wanted: What else is asked of what is compiled, by the script.
    """
    other = _without(script, script.module)
    line = getattr(trained.model.value.site or call, "lineno", call.lineno)
    found = [each for each in candidates(other, wanted(other)) if line in _lines(each) or call.lineno in _lines(each)]
    if any(not isinstance(each, NotCompiled) for each in found):
        return None
    reasons = [each.because for each in found if isinstance(each, NotCompiled)]
    if not reasons:
        return Reason(_CODE, "what the training calls would not be known to be a model without it")
    return reasons[0]._replace(places=tuple(_here(script, other, each) for each in reasons[0].places))


def _lines(candidate: Candidate) -> frozenset[int]:
    """The lines of the sites of a candidate, and of the models that it is about."""
    match candidate:
        case NotCompiled(site):
            sites = [site]
        case _:
            placed = getattr(candidate, "models", None) or (getattr(candidate, "model", None),)
            sites = [candidate.site, *(each.model.model.value.site for each in placed if each is not None)]
    return frozenset(getattr(each, "lineno", 0) for each in sites)


def _here(script: Script, other: Script, place: Place) -> Place:
    """The place in this script: its lines are those of the other one."""
    return place._replace(module=script.module) if place.module is other.module else place


@lasting
def _without(script: Script, module: Module) -> Script:
    """The script without what makes TorchScript of the models that it trains, with the same lines."""
    text = module.text.encode()
    calls = {call for _, call in scripted_models(script) if library_names(script.flow.values(call.func)) == {SCRIPTS}}
    for call in sorted(calls, key=lambda each: module.span(each.func), reverse=True):
        start, end = module.span(call.func)
        text = text[:start] + text[end:]
    new = Module(module.path, text.decode(), module.name, module.is_package, module.local)

    def changed(modules: Iterable[Module]) -> tuple[Module, ...]:
        return tuple(new if each is module else each for each in modules)

    whole = Whole.of(changed(script.flow.modules), script.whole.unreadable)
    return Script(new, changed(script.modules), changed(script.entries), script.told, whole)
