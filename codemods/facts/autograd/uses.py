"""Which code needs gradients itself, whether or not it trains."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from codemods.dataflow.source import walk
from codemods.dataflow.values import External, Literal, Made
from codemods.facts.loops import module_of
from codemods.facts.models.layers import Model
from codemods.facts.training.iterations import called_functions
from codemods.library.kinds import Kind, kind
from codemods.library.packages import Trait, has

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee

_NEEDS = frozenset({"requires_grad_", "retain_grad", "register_hook", "backward", "grad"})
_NEEDING_NAMES = re.compile(
    r"attack|fgsm|(^|_)pgd|adversar|perturb|saliency|grad_?cam|hessian|jacobian|influence|attribution", re.IGNORECASE
)
_TO_INTEGERS = frozenset({"long", "int", "short", "char", "byte", "bool"})


def needs_gradients(flow: Flow, node: ast.AST) -> ast.AST | None:
    """The place in the code under the node that needs gradients, itself or in code of the project that it calls."""
    todo: list[ast.AST] = [node]
    done: set[ast.AST] = set()
    models: set[ast.AST] = set()
    while todo:
        here = todo.pop()
        if here in done:
            continue
        done.add(here)
        for inner in walk(here):
            if isinstance(inner, ast.Attribute) and _asks_for_gradients(flow, inner, in_model=here in models):
                return inner
            if isinstance(inner, ast.Call):
                if _call_needs_gradients(flow, inner):
                    return inner
                called = called_functions(flow, inner)
                models.update(called if here in models else ())
                todo.extend(called)
                forwards = list(called_forwards(flow, inner))
                models.update(forwards)
                todo.extend(forwards)
    return None


def called_forwards(flow: Flow, call: ast.Call) -> Iterator[Callee]:
    """The forwards of the project's models that the call runs."""
    for callee in flow.values(call.func):
        if kind(flow, callee) is Kind.MODEL:
            yield from Model(flow, callee).forwards


def _asks_for_gradients(flow: Flow, node: ast.Attribute, *, in_model: bool) -> bool:
    if in_model and (
        node.attr == "requires_grad_" or (node.attr == "requires_grad" and isinstance(node.ctx, ast.Load))
    ):
        return False  # of a state that it starts with, or asked before it is detached: only training comes back to it
    if node.attr in {"requires_grad", "requires_grad_"} and _freezes(module_of(flow, node).parent(node)):
        return False
    if node.attr == "register_hook" and in_model and _is_asked_before(flow, node):
        return False
    if node.attr in _NEEDS:
        return not any(isinstance(each, External) and each.name != "torch.autograd.grad" for each in flow.values(node))
    return node.attr in {"requires_grad", "grad_fn"}


def _freezes(parent: ast.AST | None) -> bool:
    """``p.requires_grad = False``, ``model.requires_grad_(False)``."""
    match parent:
        case ast.Assign(_, value) | ast.Call(ast.Attribute(), [value], []):
            return _is_false(value)
    return False


def _is_asked_before(flow: Flow, node: ast.AST) -> bool:
    """``if x.requires_grad: x.register_hook(…)``: without gradients it is passed over, where it would fail."""
    return any(
        isinstance(above, ast.If)
        and any(isinstance(each, ast.Attribute) and each.attr == "requires_grad" for each in walk(above.test))
        for above in module_of(flow, node).ancestors(node)
    )


def _call_needs_gradients(flow: Flow, call: ast.Call) -> bool:
    asks = any(each.arg == "requires_grad" and not _is_always_false(flow, each.value) for each in call.keywords)
    if asks and not _becomes_integers(flow, call):
        return True
    for callee in flow.values(call.func):
        if isinstance(callee, (External, Made)):
            if callee.name in {"torch.autograd.grad", "torch.enable_grad", "torch.is_grad_enabled"}:
                return True
            if has(callee.name, Trait.GRADIENTS):
                return True
        if flow.run_by(callee) is not None:
            return False  # its code is looked at, whatever it is called
    last = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return _NEEDING_NAMES.search(last) is not None


def _becomes_integers(flow: Flow, call: ast.Call) -> bool:
    """``torch.zeros(3, requires_grad=train).long()``: nobody holds what asks for gradients, and integers have none."""
    module = module_of(flow, call)
    above = module.parent(call)
    is_method = isinstance(above, ast.Attribute) and above.attr in _TO_INTEGERS
    outer = module.parent(above) if above is not None and is_method else None
    if not isinstance(outer, ast.Call) or outer.func is not above:
        return False
    callees = flow.values(call.func)
    return bool(callees) and all(isinstance(each, External) and each.name.startswith("torch.") for each in callees)


def _is_always_false(flow: Flow, node: ast.expr) -> bool:
    """Whether it is false, or a parameter that is so wherever the function is called, as far as all calls are seen."""
    function = module_of(flow, node).function(node)
    is_seen = function is None or not flow.escapes(function)
    return _is_false(node) or (is_seen and flow.values(node) == {Literal("False")})


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value
