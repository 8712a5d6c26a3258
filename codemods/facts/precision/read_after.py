"""What a block under autocast computes and other code reads in a way that needs 32 bits."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.source import FUNCTIONS, walk
from codemods.dataflow.values import library_names
from codemods.facts.precision.tolerance import Tolerance
from codemods.facts.reach import own, project_functions, stores
from codemods.library.operations import operation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.facts.training.loss_regions import Block


@dataclass(frozen=True, eq=False)
class Escape:
    """What a block computes and other code reads in a way that may need 32 bits."""

    target: ast.expr
    """The name or attribute, where the block writes it."""
    statement: ast.stmt
    """The statement that writes it."""
    use: ast.expr
    """The first such use."""
    is_tensor: bool = False
    """Whether a use shows that it is one tensor: its number format is asked for, ``y.to(x.dtype)``."""


@dataclass(frozen=True, eq=False)
class Uses:
    """Finds the uses, outside of all blocks, of what the blocks compute."""

    flow: Flow
    module: Module
    inside: frozenset[ast.AST]
    """The statements of all blocks, and expressions that become statements of one."""

    @cached_property
    def _tolerance(self) -> Tolerance:
        return Tolerance(self.flow)

    def escapes(self, block: Block) -> Iterator[Escape]:
        """What the block writes and other code reads, each once, unless every use is harmless in 16 bits."""
        targets = {ast.unparse(node): (node, statement) for statement in block for node in stores(statement)}
        for text, (target, statement) in targets.items():
            if isinstance(target, ast.Name) and self._is_carried(target):
                continue
            reads = list(self._reads(text, target, block))
            use = next((each for each in reads if not self._tolerance.is_harmless(self.module, each)), None)
            if use is not None:
                yield Escape(target, statement, use, any(map(self._is_asked_for_its_format, reads)))

    def _reads(self, text: str, target: ast.expr, block: Block) -> Iterator[ast.expr]:
        """Where the name is read outside of the blocks, perhaps with the value of this block."""
        if not isinstance(target, ast.Name):
            attributes = [each for each in self.module.nodes(ast.Attribute) if isinstance(each.ctx, ast.Load)]
            attributes += self._read_by_relatives(block[0])
            yield from (each for each in attributes if ast.unparse(each) == text and not self._is_inside(each))
            return
        scope = self.module.function(block[0]) or self.module.tree
        loop = next((each for each in self.module.ancestors(block[0]) if isinstance(each, (ast.For, ast.While))), None)
        for name in own(scope, ast.Name):
            if name.id != text or not isinstance(name.ctx, ast.Load) or self._is_inside(name):
                continue
            is_after = name.lineno > (block[-1].end_lineno or 0)
            is_next_pass = loop is not None and loop.lineno < name.lineno < block[0].lineno
            since = block[-1] if is_after else loop
            if (is_after or is_next_pass) and since is not None and not self._bound_between(text, since.lineno, name):
                yield name

    def _is_asked_for_its_format(self, node: ast.expr) -> bool:
        """Whether an operator of torch is given the format of what is read, which tensors alone have."""
        attribute = self.module.parent(node)
        if not isinstance(attribute, ast.Attribute) or attribute.attr != "dtype":
            return False
        call = self.module.parent(attribute)
        if isinstance(call, ast.keyword):
            call = self.module.parent(call)
        return isinstance(call, ast.Call) and operation(self.flow, call) is not None

    def _read_by_relatives(self, statement: ast.stmt) -> Iterator[ast.Attribute]:
        """The attributes that the bases and subclasses of the statement's class read in other files."""
        function = self.module.function(statement)
        owner = self.flow.owner(function) if function is not None else None
        for class_ in self.flow.family(owner) if owner is not None else ():
            if not self.module.holds(class_):
                yield from (
                    each for each in walk(class_) if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Load)
                )

    def _is_carried(self, target: ast.Name) -> bool:
        """Whether other code only detaches it for the next pass: ``state = tuple(each.detach() for each in state)``.

        Autocast takes a state in any format.
        """
        scope = self.module.function(target) or self.module.tree
        names = [each for each in own(scope, ast.Name) if each.id == target.id and isinstance(each.ctx, ast.Load)]
        reads = [each for each in names if not self._is_inside(each)]
        return bool(reads) and all(self._only_detaches(each, target.id) for each in reads)

    def _only_detaches(self, node: ast.Name, name: str) -> bool:
        """Whether the use compares it with None, or assigns it to the same name, detached."""
        parent = self.module.parent(node)
        if isinstance(parent, ast.Compare):
            return isinstance(parent.ops[0], (ast.Is, ast.IsNot))
        statement = self.module.statement(node)
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return False
        return ast.unparse(statement.targets[0]) == name and self._is_detached(statement.value, name, frozenset())

    def _is_detached(self, node: ast.expr, name: str, seen: frozenset[Callee]) -> bool:
        """Whether the expression is what the name holds, detached: a tensor, or several in a tuple or list."""
        match node:
            case ast.Name():
                return node.id == name
            case ast.Attribute(value, "data") | ast.Call(ast.Attribute(value, "detach" | "clone"), [], []):
                return self._is_detached(value, name, seen)
            case ast.Subscript(value):
                return self._is_detached(value, name, seen)
            case ast.Tuple(elements) | ast.List(elements):
                return all(self._is_detached(each, name, seen) for each in elements)
            case ast.IfExp(_, one, other):
                return self._is_detached(one, name, seen) and self._is_detached(other, name, seen)
            case ast.Call(ast.Name("tuple" | "list"), [inner], []):
                return self._is_detached(inner, name, seen)
            case ast.GeneratorExp(element, [loop]) | ast.ListComp(element, [loop]) if isinstance(loop.target, ast.Name):
                is_over = self._is_detached(loop.iter, name, seen)
                return is_over and self._is_detached(element, loop.target.id, seen)
            case ast.Call(_, [argument], []):
                functions = list(project_functions(self.flow.values(node.func)))
                known = self._is_detached(argument, name, seen) and bool(functions)
                return known and all(self._detaches(each, seen) for each in functions)
        return False

    def _detaches(self, function: Callee, seen: frozenset[Callee]) -> bool:
        """Whether the function returns its argument, detached."""
        taken = self.flow.signature(function).positional_names
        if function in seen or isinstance(function, ast.Lambda) or not taken:
            return function in seen
        results = [each.value for each in own(function, ast.Return)]
        return bool(results) and all(
            each is not None and self._is_detached(each, taken[0], seen | {function}) for each in results
        )

    def _bound_between(self, text: str, line: int, node: ast.expr) -> bool:
        """Whether the name surely gets another value between the line and the place where it is read."""
        here = self.module.statement(node)
        while True:
            suite = self.module.suite(here)
            between = self._always_run([each for each in suite[: suite.index(here)] if each.lineno > line])
            if any(isinstance(each, (ast.Assign, ast.For)) and text in _certainly_written(each) for each in between):
                return True
            parent = self.module.parent(here)
            if isinstance(parent, ast.For) and parent.lineno > line and text in _certainly_written(parent):
                return True
            if not isinstance(parent, ast.stmt) or isinstance(parent, (*FUNCTIONS, ast.ClassDef)):
                return False
            here = parent

    def _always_run(self, suite: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
        """The statements, and those in blocks of torch's among them: ``with torch.no_grad():`` hides no failure."""
        for each in suite:
            yield each
            if isinstance(each, ast.With) and all(self._is_of_torch(item.context_expr) for item in each.items):
                yield from self._always_run(each.body)

    def _is_of_torch(self, context: ast.expr) -> bool:
        made = context.func if isinstance(context, ast.Call) else context
        names = library_names(self.flow.values(made))
        return bool(names) and all(each.startswith("torch.") for each in names)

    def _is_inside(self, node: ast.AST) -> bool:
        return node in self.inside or any(each in self.inside for each in self.module.ancestors(node))


def _certainly_written(statement: ast.Assign | ast.For) -> frozenset[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return frozenset(
        ast.unparse(each) for target in targets for each in walk(target) if isinstance(each, (ast.Name, ast.Attribute))
    )
