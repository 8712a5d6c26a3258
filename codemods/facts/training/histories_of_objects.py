"""Which objects does a training loop keep graphs in, itself or by a method: ``self.losses.append(loss)``?

Other code may find what an object keeps, and train on it.
"""

from __future__ import annotations

import ast
from functools import partial
from typing import TYPE_CHECKING

from codemods.dataflow.recursion import closure
from codemods.dataflow.source import unparsed, walk
from codemods.facts.autograd.courses import Course
from codemods.facts.loops import module_of, place
from codemods.facts.reach import own
from codemods.facts.reason import HERE, Reason
from codemods.facts.training.collecting import Collected, collected, is_of_pass
from codemods.facts.training.graph_keeping import History, KeptGraph
from codemods.facts.training.iterations import called_functions, is_backward

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Callee, Module
    from codemods.facts.script import Script
    from codemods.facts.training.totals import Loop


def of_object(script: Script, loop: Loop, statement: ast.stmt, found: Collected) -> History | None:
    """What a statement keeps in an object; None where it is nothing with a graph, or a part of the loss."""
    kept = KeptGraph(script, loop, statement, found)
    if kept.is_without_gradients() or not kept.carries() or is_of_pass(loop, found):
        return None
    if _is_differentiated(script, found.root):
        return None
    text = f"other code may find '{unparsed(found.root)}', and train on what it holds:"
    return _left(kept, Reason("graph-escapes", text))


def through_method(script: Script, loop: Loop, statement: ast.stmt) -> History | None:
    """What a method adds up or collects of what it is given: ``losses.update(loss, n)``."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return None
    call = statement.value
    for function in called_functions(script.flow, call) if isinstance(call.func, ast.Attribute) else ():
        for name, candidates in script.flow.bind(function, call).filled():
            inner = _collecting(script, function, name)
            for given in candidates if inner is not None else ():
                kept = KeptGraph(script, loop, statement, Collected(call.func, given))
                if inner is not None and _gives_graph(kept) and not is_of_pass(loop, kept.found):
                    text = f"'{kept.written}()' keeps the graph, and other code may train on it ({HERE}):"
                    return _left(kept, Reason("graph-escapes", text, (place(script.flow, inner),)))
    return None


def _left(kept: KeptGraph, because: Reason) -> History:
    tensor = kept.innermost()
    is_short = isinstance(tensor, (ast.Name, ast.Attribute, ast.Subscript, ast.Call))
    written = unparsed(tensor) if is_short else f"({unparsed(tensor)})"
    why_not = because._replace(remedy=f"keep {written}.detach() where none does")
    return History(kept.module, kept.statement, kept.written, tensor, why_not)


def _gives_graph(kept: KeptGraph) -> bool:
    """Whether the argument of a method may carry a graph."""
    graphs = kept.script.whole.graph_uses.of_models
    if kept.before is None or kept.is_without_gradients() or kept.is_number(kept.found.value):
        return False
    return graphs.carries(kept.module, kept.found.value, kept.before)


def _collecting(script: Script, function: Callee, name: str) -> ast.stmt | None:
    """Where a method adds a parameter to an attribute, or collects it there, and nothing is known to train on that."""
    if isinstance(function, ast.Lambda):
        return None
    module, graphs = script.flow.module_of(function), script.whole.graph_uses.outside
    before = graphs.before_each(module, function.body, frozenset({name}))
    for statement in own(function, ast.stmt):
        found = collected(statement, function) if statement in before else None
        is_kept = found is not None and isinstance(found.root, ast.Attribute)
        if found is not None and is_kept and graphs.carries(module, found.value, before[statement]):
            return None if _is_differentiated(script, found.root) else statement
    return None


def _is_differentiated(script: Script, root: ast.expr) -> bool:
    """Whether a backward that is seen goes through what any object has by the name of an attribute."""
    if not isinstance(root, ast.Attribute):
        return False
    names = closure([root.attr], partial(_computed_of, script))
    return any(_reaches_backward(script, *each) for name in names for each in _reads(script, name))


def _reads(script: Script, attribute: str) -> Iterator[tuple[Module, ast.Attribute]]:
    for module in script.modules:
        for each in module.nodes(ast.Attribute):
            if each.attr == attribute and isinstance(each.ctx, ast.Load):
                yield module, each


def _computed_of(script: Script, attribute: str) -> Iterator[str]:
    """The attributes that are assigned something that is computed of this one: ``self.total = sum(self.losses)``."""
    for module, read in _reads(script, attribute):
        for target in _targets(module.statement(read)):
            if isinstance(target, ast.Attribute):
                yield target.attr


def _reaches_backward(script: Script, module: Module, read: ast.Attribute) -> bool:
    """Whether what is read there is differentiated, by a statement of its function or where that is called."""
    statement = module.statement(read)
    if any(is_backward(script.flow, each) for each in module.ancestors(read) if isinstance(each, ast.Call)):
        return True
    graphs = script.whole.graph_uses.differentiated
    names = frozenset(each.id for each in _targets(statement) if isinstance(each, ast.Name))
    course = Course(at_end=names, ever=names)
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        course = graphs.statements(module, statement.body, names)
    if course.trained is not None or graphs.after(module, statement, course).trained is not None:
        return True
    function = module.function(statement)
    if function is None or not (isinstance(statement, ast.Return) or _returns(function, course.ever)):
        return False
    return any(_is_trained_on(script, call) for call in script.flow.callers(function))


def _is_trained_on(script: Script, call: ast.Call) -> bool:
    """Whether what a call returns is differentiated in the function that calls."""
    module = module_of(script.flow, call)
    graphs, statement = script.whole.graph_uses.reaching(call), module.statement(call)
    course = graphs.statements(module, [statement])
    return course.trained is not None or graphs.after(module, statement, course).trained is not None


def _returns(function: Callee, names: frozenset[str]) -> bool:
    returned = (each.value for each in own(function, ast.Return) if each.value is not None)
    return any(isinstance(each, ast.Name) and each.id in names for value in returned for each in walk(value))


def _targets(statement: ast.stmt) -> Iterator[ast.expr]:
    """What a statement itself gives something: names and attributes, each of several for itself."""
    match statement:
        case ast.Assign(targets):
            found = targets
        case ast.AugAssign(target) | ast.AnnAssign(target) | ast.For(target) | ast.AsyncFor(target):
            found = [target]
        case _:
            found = []
    for each in found:
        yield from each.elts if isinstance(each, (ast.Tuple, ast.List)) else [each]
