"""What the rest of a script has against attention by torch's fused function, however it is written."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import FUNCTIONS, lasting, unparsed, walk
from codemods.dataflow.values import class_of
from codemods.facts.autograd.double_backward import differentiated_twice
from codemods.facts.loops import module_of
from codemods.facts.models.applied import applied
from codemods.facts.models.attention_dimensions import WITHOUT_HEADS, dimensions
from codemods.facts.models.innermost import needs_copy
from codemods.facts.models.layers import Model
from codemods.facts.models.local_steps import is_in_place, may_change
from codemods.facts.reason import HERE, Reason, at
from codemods.library.attention import DROPOUT, IDENTITY, KEEPS_LAYOUT, SOFTMAX, VIEWS
from codemods.library.hooks import is_given_outputs
from codemods.library.kinds import Kind, kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value
    from codemods.facts.models.attention import Attention
    from codemods.facts.script import Script

_DETERMINISTIC = "torch.use_deterministic_algorithms"
_PARTS = frozenset({SOFTMAX, DROPOUT, IDENTITY})


def why_not_fused(script: Script, attention: Attention) -> Reason | None:
    """Why attention that the fused function could compute is better left."""
    return (
        _why_changed(attention)
        or _why_layout(script, attention)
        or _why_hooked(script, attention)
        or _why_twice(script, attention)
        or _why_repeatable(script)
    )


def moved(attention: Attention) -> Iterator[ast.expr]:
    """The expressions that are computed later than before, where the weights meet the values."""
    yield from (attention.scores.query.node, attention.scores.key.node)
    yield from (each.node for each in attention.scales)
    for mask in attention.scores.masks:
        yield mask.node
        if mask.condition is not None:
            yield mask.condition
    dropped = attention.dropped
    if dropped is not None:
        yield from (each for each in (dropped.layer, dropped.share, dropped.training) if each is not None)


def _why_changed(attention: Attention) -> Reason | None:
    """Why a tensor or number is another one by the time that the weights meet the values."""
    module, last = attention.module, module_statement(attention)
    block, end = module.suite(last), module.span(last)[0]
    for part in moved(attention):
        names = {each.id for each in walk(part) if isinstance(each, ast.Name)}
        paths = {unparsed(each) for each in walk(part) if isinstance(each, ast.Attribute)}
        start = module.span(part)[0] if hasattr(part, "lineno") else end
        for statement in block:
            if statement in attention.gone or not start < module.span(statement)[0] < end:
                continue
            stored = {unparsed(each) for each in walk(statement) if _is_store(each)}
            if any(may_change(statement, each) for each in names) or stored & paths or _writes_in_place(statement):
                text = f"what the scores are made of is changed before they meet the values ({HERE}):"
                return Reason("other-attention", text, (at(module, statement),), remedy="change it before or after")
    return None


def module_statement(attention: Attention) -> ast.stmt:
    """The statement in which the weights meet the values."""
    return attention.module.statement(attention.output)


def _is_store(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)


def _writes_in_place(statement: ast.stmt) -> bool:
    """Whether a tensor is written to, which may be a view of another."""
    return any(
        isinstance(each, ast.AugAssign)
        or (isinstance(each, ast.Subscript) and not isinstance(each.ctx, ast.Load))
        or (isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and is_in_place(each.func.attr))
        for each in walk(statement)
    )


# How the result lies in memory.


def _why_layout(script: Script, attention: Attention) -> Reason | None:
    """Why a ``view`` of the result may fail: the fused kernels lay it out otherwise than a product.

    With one head, they lay it out as queries that are copied for them: in the order of the dimensions.
    """
    is_copied = needs_copy(script.flow, attention.module, attention.scores.query)
    if is_copied and not attention.behind and dimensions(script.flow, attention) == WITHOUT_HEADS:
        return None
    viewed = next(_views(script, attention.module, attention.output, set()), None)
    if viewed is None:
        return None
    text = f"the result is viewed, and the fused function lays it out otherwise in memory ({HERE}):"
    where = next(each for each in script.flow.modules if each.holds(viewed))
    return Reason("other-result", text, (at(where, viewed),), remedy="write reshape()")


def _views(script: Script, module: Module, node: ast.expr, seen: set[ast.AST]) -> Iterator[ast.expr]:
    """The calls of ``view`` on a tensor, or on what lies in memory as it does, also where it was returned to."""
    if node in seen:
        return
    seen.add(node)
    above = module.parent(node)
    if isinstance(above, (ast.Attribute, ast.Call)):
        call = module.parent(above) if isinstance(above, ast.Attribute) else above
        found = applied(script.flow, call) if isinstance(call, ast.Call) else None
        if found is None or found.tensor is not node or not isinstance(call, ast.Call):
            return
        if found.name in VIEWS:
            yield call
        elif found.name in KEEPS_LAYOUT:
            yield from _views(script, module, call, seen)
    for where, each in _passed_on(script, module, above):
        yield from _views(script, where, each, seen)


def _passed_on(script: Script, module: Module, statement: ast.AST | None) -> Iterator[tuple[Module, ast.expr]]:
    """Where the tensor is that a statement gives a name, or returns."""
    if isinstance(statement, ast.Assign):
        yield from ((module, each) for each in _reads(module, statement))
    function = module.function(statement) if isinstance(statement, ast.Return) else None
    if isinstance(function, FUNCTIONS):
        for call in script.flow.callers(function):
            yield module_of(script.flow, call), call


def _reads(module: Module, statement: ast.Assign) -> Iterator[ast.Name]:
    """Where the function reads what the statement gives a name, until a later one of the block binds that anew."""
    names = {each.id for each in statement.targets if isinstance(each, ast.Name)}
    block, scope = module.suite(statement), module.function(statement)
    later = [each for each in block if module.span(each) > module.span(statement)]
    for name in names:
        ends = [
            module.span(each)[1]
            for each in later
            if isinstance(each, ast.Assign)
            and any(isinstance(one, ast.Name) and one.id == name for one in each.targets)
        ]
        end = min(ends, default=None)
        for each in module.nodes(ast.Name):
            place = module.span(each)[0]
            is_read = each.id == name and isinstance(each.ctx, ast.Load) and module.function(each) is scope
            if is_read and module.span(statement)[1] <= place and (end is None or place < end):
                yield each


# The script around it.


def _why_hooked(script: Script, attention: Attention) -> Reason | None:
    """Why a hook may be given the weights, where these pass through layers."""
    hook = _hook(script) if attention.runs_layers else None
    if hook is None:
        return None
    text = f"a hook may be given the weights ({HERE})"
    return Reason("weights-used", text, (at(*hook),))


@lasting
def _hook(script: Script) -> tuple[Module, ast.Call] | None:
    """Where a hook is hung on what may be a part of an attention."""
    for module in script.modules:
        for call in module.nodes(ast.Call):
            if isinstance(call.func, ast.Attribute) and is_given_outputs(call.func.attr):
                values = script.flow.values(call.func.value)
                others = [each for each in values if kind(script.flow, each) is Kind.MODEL and each.name not in _PARTS]
                if not values or len(others) < len(values):
                    return module, call
    return None


def _why_twice(script: Script, attention: Attention) -> Reason | None:
    """Why the fused function would fail where gradients are differentiated again."""
    class_ = next(
        (each for each in attention.module.ancestors(attention.softmax) if isinstance(each, ast.ClassDef)), None
    )
    for value, call in _twice(script).items():
        classes = {class_of(each) for each in Model(script.flow, value).layers}
        if class_ is None or class_ in classes:
            where = module_of(script.flow, call)
            text = f"gradients are differentiated again ({HERE}), which fused kernels cannot"
            return Reason("double-backward", text, (at(where, call),))
    return None


@lasting
def _twice(script: Script) -> dict[Value, ast.Call]:
    return differentiated_twice(script.flow, script.modules, script.models, script.may_run)


def _why_repeatable(script: Script) -> Reason | None:
    """Why results would not repeat: on CUDA the gradients of fused kernels are added up in any order."""
    if not script.may_use_cuda or not script.determinisms:
        return None
    for _, node in script.determinisms:
        names = {each.name for each in script.flow.values(node.func)} if isinstance(node, ast.Call) else set()
        if names == {_DETERMINISTIC} and isinstance(node, ast.Call) and len(node.args) + len(node.keywords) == 1:
            return None
    text = f"results are to repeat ({HERE}), and gradients of fused kernels may not on CUDA:"
    remedy = "torch.use_deterministic_algorithms(True) makes them"
    return Reason("determinism", text, (at(*script.determinisms[0]),), remedy)
