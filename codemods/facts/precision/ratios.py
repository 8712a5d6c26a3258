"""Which ratios compare what 16 bits give with what 32 bits gave before."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.source import FUNCTIONS, kept, walk
from codemods.dataflow.values import Choice, Literal, library_names
from codemods.facts.precision.hazards import Hazard
from codemods.facts.reach import own

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.reach import Reach


def old_against_new(
    reach: Reach, calls_model: Callable[[ast.Call], bool], module: Module, nodes: Sequence[ast.AST]
) -> Hazard | None:
    """Where ``exp(new - old)`` compares what a model computes under autocast with what was computed before.

    A policy that has not changed gives other probabilities in 16 bits than in 32, and the ratio of both is not 1.
    """
    for where, node in reach.code(module, nodes):
        scope = node if isinstance(node, FUNCTIONS) else where.function(node) or where.tree
        # The layers of a model compute with parameters, which are none of its results.
        if isinstance(scope, ast.Lambda) or getattr(scope, "name", "") == "forward":
            continue
        under = frozenset(each for part in ([node] if scope is node else nodes) for each in walk(part))
        origins = _Origins(reach.flow, calls_model, scope, under)
        for call in own(node, ast.Call):
            for one, other in origins.differences(_exponent(reach.flow, call)):
                if origins.is_new(one) is not origins.is_new(other) and origins.may_be_tensors(one, other):
                    text = f"{where.code(call)} compares what was computed in 32 bits with what 16 bits give;"
                    return Hazard(where, call, text, remedy="compute both under autocast")
    return None


@dataclass(frozen=True, eq=False)
class _Origins:
    """Where the names of one scope come from."""

    flow: Flow
    calls_model: Callable[[ast.Call], bool]
    scope: ast.AST
    under: frozenset[ast.AST]
    """All nodes of the scope that are under autocast."""

    def differences(self, node: ast.expr | None) -> Iterator[tuple[ast.expr, ast.expr]]:
        """The two sides of the differences that the expression may be."""
        for each in [node, *self._given(node)] if node is not None else ():
            if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Sub):
                yield each.left, each.right

    def is_new(self, node: ast.expr) -> bool:
        """Whether a model computes it, or a part of it, under autocast."""
        todo, seen = [node], set[ast.expr]()
        while todo:
            each = todo.pop()
            if each in seen:
                continue
            seen.add(each)
            parts = [part for part in walk(each) if isinstance(part, ast.expr)]
            if any(isinstance(part, ast.Call) and part in self.under and self.calls_model(part) for part in parts):
                return True
            todo.extend(given for part in parts for given in self._given(part))
        return False

    def may_be_tensors(self, *nodes: ast.expr) -> bool:
        """Whether none of them is known to be a number of Python."""
        values = [self.flow.values(each) for each in nodes if not isinstance(each, ast.Constant)]
        return len(values) == len(nodes) and not any(
            some and all(isinstance(each, (Literal, Choice)) for each in some) for some in values
        )

    def _given(self, node: ast.expr | None) -> Iterator[ast.expr]:
        """What the name is given in the scope."""
        if not isinstance(node, ast.Name):
            return
        yield from _assigned(self.scope).get(node.id, ())


@kept
def _assigned(scope: ast.AST) -> Mapping[str, Sequence[ast.expr]]:
    """What the names are assigned in a scope's own code, or what these are a part of."""
    found: defaultdict[str, list[ast.expr]] = defaultdict(list)
    for assignment in own(scope, ast.Assign):
        parts = (part for each in assignment.targets for part in walk(each))
        for name in dict.fromkeys(each.id for each in parts if isinstance(each, ast.Name)):
            found[name].append(assignment.value)
    return found


def _exponent(flow: Flow, call: ast.Call) -> ast.expr | None:
    """``x`` of ``torch.exp(x)`` and ``x.exp()``."""
    externals = library_names(flow.values(call.func))
    if externals:
        return call.args[0] if externals == {"torch.exp"} and call.args else None
    match call.func:
        case ast.Attribute(value, "exp" | "exp_") if not call.args:
            return value
    return None
