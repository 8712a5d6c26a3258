"""Under which conditions does code train, where a parameter or a name of a loop chooses: ``phase == "train"``?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeAlias

from codemods.dataflow.signatures import signature
from codemods.dataflow.source import unparsed, walk
from codemods.dataflow.values import NONE, Literal
from codemods.facts.decided import holds
from codemods.facts.training.iterations import own

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import FunctionNode, Module

Scope: TypeAlias = "FunctionNode | ast.For"
"""What has the name that chooses: a function as a parameter, or a loop as its target."""


def conditions(flow: Flow, scope: Scope) -> Iterator[ast.expr]:
    """The conditions of the scope's ``if`` that are true in some of its runs and false in others, each text once."""
    names = _names(scope)
    derived = _derived(scope, names)
    told: set[str] = set()
    for branch in own(scope, ast.If) if names else ():
        written = unparsed(branch.test)
        meant = _meant(branch.test, derived)
        if written not in told and _chooses(flow, meant, names):
            told.add(written)
            yield branch.test


def is_known_at(scope: Scope, test: ast.expr, statement: ast.stmt) -> bool:
    """Whether the names of a condition of the scope have been given what they hold where a statement begins."""
    asked = {each.id for each in walk(test) if isinstance(each, ast.Name)}
    stores = (each for each in own(scope, ast.Name) if each.id in asked and isinstance(each.ctx, ast.Store))
    return all(each.lineno < statement.lineno for each in stores)


def branch_of(module: Module, node: ast.AST, test: str, scope: ast.AST) -> ast.If | None:
    """The ``if`` of that condition in the scope under which a node runs; None where it runs otherwise, too."""
    below = node
    for above in module.ancestors(node):
        if isinstance(above, ast.If) and below in above.body and unparsed(above.test) == test:
            return above
        if above is scope:
            return None
        below = above
    return None


def passes_over(flow: Flow, call: ast.Call, function: FunctionNode, node: ast.AST) -> bool:
    """Whether the constants that a call gives a function keep it from coming to a node: ``run(epoch, train=False)``.

    Args:
        flow: What is known of the project.
        call: The call.
        function: The only function that it runs.
        node: A node of the function.
    """
    binding = flow.bind(function, call)
    given = {**(signature(function).defaults if binding.is_whole else {}), **binding.given}
    known = {name: given[name] for name in _names(function) & given.keys()}
    module = flow.module_of(function)
    below = node
    for above in module.ancestors(node):
        if isinstance(below, ast.stmt) and any(_leaves(each, known) for each in _before(above, below)):
            return True
        if isinstance(above, ast.If) and below is not above.test:
            taken = holds(above.test, lambda part: _of_constants(part, known))
            if taken is not None and taken != (below in above.body):
                return True
        if above is function:
            return False
        below = above
    return False


def _before(parent: ast.AST, statement: ast.stmt) -> list[ast.stmt]:
    """The statements before this one in its suite."""
    suites = (getattr(parent, name, None) for name in ("body", "orelse", "finalbody"))
    suite = next((each for each in suites if isinstance(each, list) and statement in each), [])
    return suite[: suite.index(statement)] if suite else []


def _leaves(statement: ast.stmt, known: Mapping[str, ast.expr]) -> bool:
    """Whether what comes after a statement is not come to: ``if not train: continue``."""
    if not isinstance(statement, ast.If):
        return False
    taken = holds(statement.test, lambda part: _of_constants(part, known))
    arm = statement.body if taken else statement.orelse if taken is False else []
    return bool(arm) and isinstance(arm[-1], (ast.Return, ast.Continue, ast.Break, ast.Raise))


def _of_constants(part: ast.expr, known: Mapping[str, ast.expr]) -> bool | None:
    """Whether a condition holds by the constants that names have."""
    match part:
        case ast.Name(name):
            value = known.get(name)
            return bool(value.value) if isinstance(value, ast.Constant) else None
        case ast.Compare(ast.Name(name), [operator], [ast.Constant(other)]):
            value = known.get(name)
            if not isinstance(value, ast.Constant):
                return None
            if isinstance(operator, (ast.Eq, ast.Is)):
                return bool(value.value == other)
            return bool(value.value != other) if isinstance(operator, (ast.NotEq, ast.IsNot)) else None
    return None


def _names(scope: Scope) -> frozenset[str]:
    """The names that choose, as nothing in the scope gives them anything else."""
    if isinstance(scope, ast.For):
        targets = {each for each in walk(scope.target) if isinstance(each, ast.Name)}
        given = {each.id for each in targets}
    else:
        targets, given = set(), set(signature(scope).names)
    stored = {each.id for each in own(scope, ast.Name) if not isinstance(each.ctx, ast.Load) and each not in targets}
    declared = {name for each in own(scope, ast.Nonlocal) for name in each.names}
    return frozenset(given - stored - declared)


def _derived(scope: Scope, names: frozenset[str]) -> dict[str, ast.Assign]:
    """What the scope itself makes of these names, once and in each of its runs: ``train = phase == "train"``."""
    inside = list(walk(scope))
    stored = [each.id for each in inside if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)]
    declared = {name for each in inside if isinstance(each, (ast.Nonlocal, ast.Global)) for name in each.names}
    found: dict[str, ast.Assign] = {}
    for statement in scope.body:
        match statement:
            case ast.Assign([ast.Name(name)], value) if stored.count(name) == 1 and name not in declared:
                read = {each.id for each in walk(value) if isinstance(each, ast.Name)}
                if read <= names:
                    found[name] = statement
    return found


def _meant(test: ast.expr, derived: Mapping[str, ast.Assign]) -> ast.expr:
    """The condition itself, or what the statement above it made of the name that it is: ``if train:``."""
    made = derived.get(test.id) if isinstance(test, ast.Name) else None
    return made.value if made is not None and made.lineno < test.lineno else test


def _chooses(flow: Flow, test: ast.expr, names: frozenset[str]) -> bool:
    """Whether a condition is True or False by one of the names, and both may be."""
    match test:
        case ast.UnaryOp(ast.Not(), ast.Name() as inner):
            return _chooses(flow, inner, names)
        case ast.Name(name) if name in names:
            return _literals(flow, test) == {True, False}
        case ast.Compare(ast.Name(name) as left, [ast.Eq() | ast.NotEq()], [ast.Constant(str(text))]) if name in names:
            texts = _literals(flow, left)
            return text in texts and len(texts) > 1 and all(isinstance(each, str) for each in texts)
        case ast.Compare(ast.Name(name) as left, [ast.Is() | ast.IsNot()], [ast.Constant(None)]) if name in names:
            values = flow.values(left)
            return NONE in values and len(values) > 1
    return False


def _literals(flow: Flow, name: ast.expr) -> frozenset[object]:
    """What the name may hold, where all of it is written out."""
    values = flow.values(name)
    known = [each.value for each in values if isinstance(each, Literal)]
    is_known = len(known) == len(values) and all(isinstance(each, (bool, str)) for each in known)
    return frozenset(known) if is_known else frozenset()
