"""What does a statement of a training loop keep a graph of, and may it carry one at all?"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.source import unparsed
from codemods.dataflow.values import Choice, Literal, Plain
from codemods.facts.reach import switches_gradients_off

if TYPE_CHECKING:
    from codemods.dataflow.source import Module
    from codemods.facts.reason import Reason
    from codemods.facts.script import Script
    from codemods.facts.training.collecting import Collected
    from codemods.facts.training.totals import Loop


@dataclass(frozen=True, eq=False)
class History:
    """A statement of a training loop that adds a tensor with a graph to a sum, or puts it into a list."""

    module: Module
    statement: ast.stmt
    name: str
    """Of the sum or list."""
    tensor: ast.expr
    """What is to be detached."""
    why_not: Reason | None


@dataclass(frozen=True, eq=False)
class KeptGraph:
    """A statement that may keep a graph."""

    script: Script
    loop: Loop
    statement: ast.stmt
    found: Collected

    @property
    def module(self) -> Module:
        """Where it stands."""
        return self.script.module

    @property
    def root(self) -> str:
        """The name of the sum or list, or of what has it; of an attribute, nothing."""
        return self.found.root.id if isinstance(self.found.root, ast.Name) else ""

    @property
    def written(self) -> str:
        """The sum or list, as it is written."""
        return unparsed(self.found.owner)

    def is_without_gradients(self) -> bool:
        """Whether gradients are off there."""
        flow = self.script.flow
        return any(switches_gradients_off(flow, each) for each in self.module.ancestors(self.statement))

    @cached_property
    def before(self) -> frozenset[str] | None:
        """The names that may carry graphs of models before it; None where the loop does not come to it."""
        graphs = self.script.whole.graph_uses.of_models
        return graphs.before_each(self.module, self.loop.body).get(self.statement)

    def carries(self) -> bool:
        """Whether what is kept may carry a graph."""
        if self.before is None or self.is_number(self.found.value):
            return False
        graphs = self.script.whole.graph_uses.of_models
        course = graphs.statements(self.module, [self.statement], self.before - {self.root})
        return self.root in course.at_end or course.kept is not None

    def innermost(self) -> ast.expr:
        """The one tensor of a product, or else all of what is kept."""
        node = self.found.value
        while isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
            tensors = [each for each in (node.left, node.right) if not self.is_number(each)]
            if len(tensors) != 1:
                break
            node = tensors[0]
        return node

    def is_number(self, node: ast.expr) -> bool:
        """Whether an expression is a number of Python's for certain."""
        values = self.script.flow.values(node)
        return bool(values) and all(isinstance(each, (Literal, Plain, Choice)) for each in values)
