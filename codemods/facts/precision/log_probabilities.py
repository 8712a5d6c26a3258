"""Logarithms of softmaxes, and whether something else uses the probabilities."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import walk
from codemods.dataflow.values import External, Function, Instance, Made, Method
from codemods.facts.asked_names import listed
from codemods.facts.reach import own
from codemods.facts.reaching import reaching
from codemods.facts.reason import HERE, Reason, at
from codemods.library.softmaxes import LAYER, LOG, LOGARITHMS, METHOD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Module
    from codemods.facts.script import Script

_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr)
_AT_TIMES = (ast.Lambda, ast.IfExp, ast.BoolOp, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
"""What may compute its parts later, several times or not at all."""


@dataclass(frozen=True, eq=False)
class LogProbability:
    """The logarithm of a softmax."""

    module: Module
    log: ast.Call
    softmax: ast.Call
    idle: ast.Assign | None = None
    """The statement that gives the probabilities a name, which only the logarithm reads."""
    why_not: Reason | None = None


def log_probabilities(script: Script) -> Iterator[LogProbability]:
    """The logarithms of softmaxes that the module computes, in the order of the text."""
    module = script.module
    for call in module.nodes(ast.Call) if METHOD in module.text.lower() else ():
        operand = operand_of(script, call, LOG)
        found = _of(script, module, call, operand) if operand is not None else None
        if found is not None:
            yield found


def operand_of(script: Script, call: ast.Call, function: str) -> ast.expr | None:
    """What ``torch.log``, or another function of one tensor, is taken of, where the call does nothing else."""
    values = script.flow.values(call.func)
    if values and all(isinstance(each, External) and each.name == f"torch.{function}" for each in values):
        given = arguments_of(call)
        return given[0] if len(given) == 1 and not isinstance(given[0], ast.Starred) else None
    match call:
        case ast.Call(ast.Attribute(owner, name), [], []) if name == function and is_method(script, call.func):
            return owner
    return None


def is_method(script: Script, function: ast.expr) -> bool:
    """Whether it may be a tensor's: it is no function of the project or a library, and no method of a class."""
    known = (External, Function, Instance)
    return not any(
        isinstance(each, known) or (isinstance(each, Method) and each.site is not None)
        for each in script.flow.values(function)
    )


def _is_softmax(script: Script, node: ast.expr) -> bool:
    """Whether the expression calls a softmax: a function, a method, or a layer that is made there."""
    if not isinstance(node, ast.Call):
        return False
    values = script.flow.values(node.func)
    if values and all(isinstance(each, External) and each.name in LOGARITHMS for each in values):
        return not any(each.name == LAYER for each in values)
    if isinstance(node.func, ast.Call):
        return _is_layer(script, node)
    return isinstance(node.func, ast.Attribute) and node.func.attr == METHOD and is_method(script, node.func)


def _is_layer(script: Script, call: ast.Call) -> bool:
    values = script.flow.values(call.func)
    return bool(values) and all(isinstance(each, Made) and each.name == LAYER for each in values)


def _of(script: Script, module: Module, log: ast.Call, operand: ast.expr) -> LogProbability | None:
    match operand:
        case ast.Call() if _is_softmax(script, operand):
            return LogProbability(module, log, operand)
        case ast.Call() if _is_layer(script, operand):
            text = f"a layer of the model computes the softmax ({HERE}), which it may do elsewhere as well:"
            remedy = "call torch.log_softmax() there"
            reason = Reason("probabilities-used", text, (at(module, operand),), remedy)
            return LogProbability(module, log, operand, why_not=reason)
        case ast.BinOp(left, ast.Add(), right):
            return _with_more(script, module, log, (left, right))
        case ast.Name():
            return _named(script, module, log, operand)
    return None


def _with_more(
    script: Script, module: Module, log: ast.Call, sides: tuple[ast.expr, ast.expr]
) -> LogProbability | None:
    """``torch.log(F.softmax(x, 1) + 1e-8)``."""
    for softmax, other in (sides, sides[::-1]):
        if isinstance(softmax, ast.Call) and _is_softmax(script, softmax):
            text = f"'{module.code(other)}' is added to the probabilities, and bounds their logarithm from below:"
            reason = Reason("other-result", text, remedy="log_softmax() is finite without it")
            return LogProbability(module, log, softmax, why_not=reason)
    return None


def _named(script: Script, module: Module, log: ast.Call, name: ast.Name) -> LogProbability | None:
    """``p = F.softmax(x, 1)``, then ``torch.log(p)``."""
    found = reaching(module.function(name) or module.tree)
    given = found.given(name) or ()
    softmax = given[0] if len(given) == 1 else None
    if not isinstance(softmax, ast.Call) or not _is_softmax(script, softmax):
        return None
    statement = module.statement(softmax)
    others = [each for each in found.readers(softmax) if each is not name]
    reason = None
    if others:
        text = f"the probabilities are used elsewhere as well ({HERE}), so that both would be computed"
        reason = Reason("probabilities-used", text, (at(module, others[0]),))
    elif (declared := _declared(module, name)) is not None:
        text = f"'{name.id}' is a name of other code, too ({HERE}), which may read the probabilities"
        reason = Reason("probabilities-used", text, (at(module, declared),))
    elif (listing := next(iter(listed(script, module, log, {name.id})), None)) is not None:
        text = f"{module.code(listing)!r} lists names ({HERE}), and {name.id!r} would be none any more"
        reason = Reason("probabilities-used", text, (at(module, listing),))
    elif (deleted := _deleted(module, name)) is not None:
        text = f"'{name.id}' is deleted, and would not be there ({HERE}):"
        reason = Reason("probabilities-used", text, (at(module, deleted),), "take that statement away")
    elif isinstance(statement, ast.Assign) and statement.value is not softmax:
        reason = Reason("not-editable", f"the statement of the softmax does more ({HERE})", (at(module, statement),))
    elif not isinstance(statement, ast.Assign) or not _may_move(module, statement, softmax, log):
        text = f"something may run between the softmax and its logarithm ({HERE}), and change what it is of"
        reason = Reason("other-result", text, (at(module, log),))
    idle = statement if isinstance(statement, ast.Assign) else None
    return LogProbability(module, log, softmax, idle, reason)


def _declared(module: Module, name: ast.Name) -> ast.Global | ast.Nonlocal | None:
    """Where the function says that the name of the probabilities is one of the module, or of a function around it."""
    function = module.function(name)
    for each in own(function, ast.stmt) if function is not None else ():
        if isinstance(each, (ast.Global, ast.Nonlocal)) and name.id in each.names:
            return each
    return None


def _deleted(module: Module, name: ast.Name) -> ast.Name | None:
    """Where the name of the probabilities is deleted."""
    function = module.function(name)
    named = (each for each in module.nodes(ast.Name) if each.id == name.id and module.function(each) is function)
    return next((each for each in named if isinstance(each.ctx, ast.Del)), None)


def _may_move(module: Module, statement: ast.Assign, softmax: ast.Call, log: ast.Call) -> bool:
    """Whether the softmax can be computed in the statement of the logarithm, which is the next one."""
    suite = module.suite(statement)
    after = suite[suite.index(statement) + 1 :]
    is_plain = len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name) and statement.value is softmax
    if not is_plain or not after or after[0] is not module.statement(log):
        return False
    if not isinstance(after[0], _SIMPLE):
        return False
    around = [each for each in module.ancestors(log) if isinstance(each, ast.expr)]
    earlier = (each for each in walk(after[0]) if isinstance(each, (ast.Call, ast.NamedExpr, ast.Await)))
    return not any(isinstance(each, _AT_TIMES) for each in around) and not any(
        module.span(each)[1] <= module.span(log)[0] for each in earlier
    )
