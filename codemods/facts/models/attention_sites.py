"""Where is attention computed by hand: which softmax stands between two products?"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.source import last_name, unparsed, walk
from codemods.dataflow.values import Unknown
from codemods.facts.models.applied import applied, layers
from codemods.facts.models.attention import Attention, AttentionReader
from codemods.library.attention import FUSED, PRODUCTS, SOFTMAX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.reason import Reason

_FUNCTION = "softmax"
_PASSED = frozenset(
    {_FUNCTION, "masked_fill", "masked_fill_", "where", "div", "mul", "add", "sub", "float", "to", "type", "type_as"}
)
_PASSED_ON = _PASSED | {
    "dropout",
    "contiguous",
    "clone",
    "half",
    "transpose",
    "permute",
    "view",
    "reshape",
    "unsqueeze",
}


@dataclass(frozen=True, eq=False)
class Site:
    """A softmax between two products, with what it is a part of, or why that is left."""

    softmax: ast.Call
    attention: Attention | Reason


def attentions(flow: Flow, module: Module) -> Iterator[Site]:
    """All sites of a module, but for those beside which the fused function stands already."""
    fused = flow.calls_of(module, {FUSED})
    named = flow.calls_of(module, [each for each in flow.called_names(module) if _is_softmax(each)])
    for call in module.nodes(ast.Call):
        if last_name(call.func) != _FUNCTION and call not in named:
            continue  # neither a method nor a function or layer of that name
        softmaxed = _softmaxed(flow, call)
        if (
            softmaxed is None
            or not _comes_from_product(flow, module, softmaxed)
            or not _goes_to_product(flow, module, call)
        ):
            continue
        home = _home(module, call)
        if not any(home is module.tree or home in module.ancestors(each) for each in fused):
            yield Site(call, AttentionReader(flow, module, call).read(softmaxed))


def _is_softmax(name: str) -> bool:
    return name == SOFTMAX or name.rpartition(".")[2] == _FUNCTION


def _home(module: Module, node: ast.AST) -> ast.AST:
    """The class around a node, or its function, or the module."""
    around = list(module.ancestors(node))
    class_ = next((each for each in around if isinstance(each, ast.ClassDef)), None)
    return class_ or module.function(node) or module.tree


def _softmaxed(flow: Flow, call: ast.Call) -> ast.expr | None:
    """What a softmax is computed of; None where the call is none."""
    found = applied(flow, call)
    if found is not None:
        return found.tensor if found.name == _FUNCTION else None
    made = layers(flow, call)
    return call.args[0] if made and all(each.name == SOFTMAX for each in made) else None


def _is_product(flow: Flow, node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.MatMult)
    call = applied(flow, node) if isinstance(node, ast.Call) else None
    return call is not None and (call.name in PRODUCTS or call.name == "einsum")


def _comes_from_product(flow: Flow, module: Module, node: ast.expr) -> bool:
    """Whether a tensor may be a product of matrices, but for what is done to it element by element."""
    todo, seen = [node], {node}
    while todo:
        here = todo.pop()
        if _is_product(flow, here):
            return True
        parts: list[ast.expr] = []
        call = applied(flow, here)
        if isinstance(here, ast.Name):
            parts = [each.value for each in module.assignments(here)]
        elif isinstance(here, ast.BinOp):
            parts = [here.left, here.right]
        elif isinstance(here, ast.IfExp):
            parts = [here.body, here.orelse]
        elif call is not None and call.name in _PASSED:
            parts = [call.tensor, *call.others]
        todo += [each for each in parts if each not in seen]
        seen.update(parts)
    return False


def _goes_to_product(flow: Flow, module: Module, node: ast.expr) -> bool:
    """Whether a tensor, or what is made of it element by element or by dropout, is a factor of a product."""
    todo: list[ast.AST] = [node]
    seen: set[ast.AST] = set()
    while todo:
        here = todo.pop()
        above = module.parent(here)
        if above is None or above in seen:
            continue
        if _is_product(flow, above) and not (isinstance(above, ast.Call) and above.func is here):
            return True
        if isinstance(above, (ast.Attribute, ast.List, ast.Tuple)) and isinstance(above.ctx, ast.Load):
            call = module.parent(above)
            if isinstance(call, ast.Call) and _is_product(flow, call):
                return True
            here, above = above, call
        if isinstance(above, (ast.BinOp, ast.IfExp, ast.NamedExpr)) or (
            isinstance(above, ast.Call) and _passes_on(flow, above)
        ):
            seen.add(above)
            todo.append(above)
        elif isinstance(above, ast.Assign) and above not in seen:
            seen.add(above)
            todo += _reads(module, above)
    return False


def _reads(module: Module, statement: ast.Assign) -> Iterator[ast.expr]:
    """Where the function reads the names and attributes that a statement gives something."""
    scope = module.function(statement)
    written = {unparsed(each) for target in statement.targets for each in walk(target)}
    for each in module.nodes(ast.Name, ast.Attribute):
        if isinstance(each.ctx, ast.Load) and module.function(each) is scope and unparsed(each) in written - {"self"}:
            yield each


def _passes_on(flow: Flow, call: ast.Call) -> bool:
    """Whether a call may change a tensor element by element; of what is not known, one that is given it alone."""
    found = applied(flow, call)
    is_unknown = len(call.args) == 1 and any(isinstance(each, Unknown) for each in flow.values(call.func))
    return found.name in _PASSED_ON if found is not None else is_unknown or bool(layers(flow, call))
