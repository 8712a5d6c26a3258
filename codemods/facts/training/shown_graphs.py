"""Would anything show that some tensors carry no graph any more, as ``print(loss)``, ``loss.requires_grad`` do?

``print`` writes ``grad_fn=…`` beside the number; a format with a precision writes the number alone. What is not
understood may show it.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from codemods.dataflow.names import lists_object
from codemods.dataflow.source import walk
from codemods.dataflow.values import Literal, Plain, Tensor
from codemods.facts.loops import module_of
from codemods.facts.reach import own
from codemods.facts.training.iterations import called_functions
from codemods.library.operators import function, operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codemods.dataflow.source import Callee, Module
    from codemods.facts.autograd.graphs import Graphs
    from codemods.facts.training.graph_uses import GraphUses

_NUMBERS = frozenset({"builtins.float", "builtins.int", "builtins.len", "builtins.bool", "math.isnan", "math.isfinite"})
_WITHOUT = frozenset({"item", "tolist", "detach", "data", "size", "shape", "dtype", "device", "dim", "numel"})
"""Attributes and methods in which nothing of a graph is left."""
_OF_LISTS = frozenset({"append", "extend", "clear", "keys"})
_HAND_OUT_OF_DICTIONARIES = frozenset({"items", "values", "get"})
_ASK_FOR_GRAPH = frozenset({"register_hook", "retain_grad", "requires_grad_", "backward", "numpy"})
_HAND_OUT = frozenset(
    f"builtins.{name}" for name in ("list", "tuple", "zip", "enumerate", "sorted", "reversed", "iter")
)
_PICK = frozenset(f"builtins.{name}" for name in ("sum", "max", "min", "abs", "next"))
_SEE_ALL = frozenset(f"builtins.{name}" for name in ("exec", "eval", "locals", "globals", "vars"))
_WRITERS = frozenset({"torch.utils.tensorboard.SummaryWriter", "tensorboardX.SummaryWriter"})
_DISPLAYS = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_BARE_FIELD = re.compile(r"\{[^{}:]*\}")
_CONVERSIONS = re.compile(r"%(?:\(\w*\))?[-+ #0]*[\d*]*(?:\.[\d*]+)?([a-zA-Z])")
_OF_NUMBERS = frozenset("dioxXeEfFgG")


@dataclass(eq=False)
class Shown:
    """Looks for the first place where a text, a file, a number or an error may differ if some tensors had no graph.

    Args:
        uses: Where the graphs of models go.
        is_number: Whether the tensors have no dimensions, so that a format writes them as numbers.
    """

    uses: GraphUses
    is_number: bool
    _done: set[tuple[Callee | None, frozenset[str]]] = field(default_factory=set)

    def find(self, module: Module, scope: Callee | None, names: frozenset[str]) -> ast.AST | None:
        """The first one in a function or module, or in functions of the project that are given the tensors."""
        if (scope, names) in self._done:
            return None
        self._done.add((scope, names))
        for node in own(scope or module.tree, ast.Name, ast.Call):
            if isinstance(node, ast.Call):
                if _SEE_ALL & self._called(node) and not lists_object(module, node, names):
                    return node
            elif isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load):
                found = self._shows(module, node, names, is_boxed=self._is_boxed(node))
                if found is not None:
                    return found
        return None

    def of_result(self, callee: Callee, names: frozenset[str]) -> ast.AST | None:
        """The first one where a function is called that returns the tensors, which it has by these names."""
        returned = [each.value for each in own(callee, ast.Return) if each.value is not None]
        carrying = [value for value in returned if names & _names(value)]
        is_boxed = any(isinstance(each, _DISPLAYS) or self._is_boxed(each) for each in carrying)
        for call in self.uses.flow.callers(callee):
            module = module_of(self.uses.flow, call)
            graphs, statement = self.uses.reaching(call), module.statement(call)
            course = graphs.statements(module, [statement])
            names = course.ever | graphs.after(module, statement, course).ever
            found = self._shows(module, call, names, is_boxed=is_boxed)
            found = found or self.find(module, module.function(call), names)
            if found is not None:
                return found
        return None

    def _is_boxed(self, node: ast.expr) -> bool:
        """Whether it may be a container of tensors."""
        values = self.uses.flow.values(node)
        return not values or not all(isinstance(each, (Tensor, Literal, Plain)) for each in values)

    def _called(self, call: ast.Call) -> frozenset[str]:
        return frozenset(each.name for each in self.uses.flow.values(call.func))

    def _shows(self, module: Module, node: ast.expr, names: frozenset[str], *, is_boxed: bool) -> ast.AST | None:  # noqa: C901 - a table of cases
        """Follows a tensor outwards through expressions, to what uses it up; that itself where it may show a graph."""
        above = module.parent(node)
        match above:
            case ast.Attribute(attr=attr):
                return None if attr in _WITHOUT | _OF_LISTS else self._of_method(module, above, names)
            case ast.BinOp(ast.Constant(str(text)), ast.Mod()):
                return None if set(_CONVERSIONS.findall(text.replace("%%", ""))) <= _OF_NUMBERS else above
            case ast.BinOp(left) if not isinstance(left, ast.JoinedStr):
                return self._shows(module, above, names, is_boxed=is_boxed)
            case ast.Compare() | ast.Expr() | ast.Return():
                return None  # what is returned is looked at where the function is called
            case ast.UnaryOp() | ast.BoolOp() | ast.IfExp() | ast.NamedExpr():
                return self._shows(module, above, names, is_boxed=is_boxed)
            case ast.If() | ast.While() | ast.Assert():
                return None
            case ast.FormattedValue(conversion=-1, format_spec=spec) if spec or (self.is_number and not is_boxed):
                return None
            case ast.Subscript(value) if value is node:
                return self._shows(module, above, names, is_boxed=False)
            case ast.AugAssign(target) if target is node:
                return None
            case ast.Assign(targets) if node in targets or node is not above.value:
                return None
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                return None if _binds(above) <= names else above
            case ast.For(target, iterable) if iterable is node:
                return None if _names(target) <= names else above
            case ast.comprehension(target):
                return self._in_comprehension(module, above, names | _names(target))
            case ast.keyword():
                call = module.parent(above)
                return (
                    self._shows_argument(module, call, node, names, is_boxed=is_boxed)
                    if isinstance(call, ast.Call)
                    else above
                )
            case ast.Call():
                return self._shows_argument(module, above, node, names, is_boxed=is_boxed)
        if isinstance(above, _DISPLAYS):
            is_text = isinstance(above, ast.Tuple) and isinstance(module.parent(above), ast.BinOp)
            return self._shows(module, above, names, is_boxed=not is_text)
        return above

    def _of_method(self, module: Module, method: ast.Attribute, names: frozenset[str]) -> ast.AST | None:
        call = module.parent(method)
        if isinstance(call, ast.Call) and call.func is method and method.attr in _HAND_OUT_OF_DICTIONARIES:
            return self._shows(module, call, names, is_boxed=True)
        is_known = isinstance(call, ast.Call) and call.func is method and operator(method.attr) is not None
        if not is_known or method.attr in _ASK_FOR_GRAPH or not isinstance(call, ast.Call):
            return method
        return self._shows(module, call, names, is_boxed=False)

    def _in_comprehension(self, module: Module, made: ast.comprehension, names: frozenset[str]) -> ast.AST | None:
        """What shows the items of a container, by the names that they have in a comprehension."""
        targets = _names(made.target)
        for each in walk(module.parent(made) or made):
            if isinstance(each, ast.Name) and each.id in targets and isinstance(each.ctx, ast.Load):
                found = self._shows(module, each, names, is_boxed=False)
                if found is not None:
                    return found
        return None

    def _shows_argument(
        self, module: Module, call: ast.Call, node: ast.expr, names: frozenset[str], *, is_boxed: bool
    ) -> ast.AST | None:
        called = self._called(call)
        functions = called_functions(self.uses.flow, call)
        if functions:
            return self._shows_inside(module, call, functions, node, names)
        match call.func:
            case ast.Attribute(ast.Constant(str(text)), "format"):
                bare = _BARE_FIELD.search(text) is not None
                return call if bare and (is_boxed or not self.is_number) else None
            case ast.Attribute(ast.Name(name), "append"):
                return None if name in names else call
            case ast.Attribute(owner, "add_scalar"):
                return None if {each.name for each in self.uses.flow.values(owner)} <= _WRITERS else call
        if called and called <= _NUMBERS:
            return None
        if called and called <= _HAND_OUT:
            return self._shows(module, call, names, is_boxed=True)
        rows = [function(each) for each in called]
        if called and (called <= _PICK or all(each is not None for each in rows)):
            return self._shows(module, call, names, is_boxed=False)
        return call

    def _shows_inside(
        self, module: Module, call: ast.Call, functions: Sequence[Callee], node: ast.expr, names: frozenset[str]
    ) -> ast.AST | None:
        """What a function of the project shows of the tensor that it is given, and the caller of what it returns."""
        graphs: Graphs = self.uses.strictly_outside
        for each in functions:
            filled = self.uses.flow.bind(each, call).filled()
            given = frozenset(name for name, several in filled if any(node in walk(one) for one in several))
            if not given:
                return call
            course = graphs.function(each, given)
            found = self.find(self.uses.flow.module_of(each), each, course.ever | given)
            if found is None and course.returned is not None:
                found = self._shows(module, call, names, is_boxed=True)
            if found is not None:
                return found
        return None


def _binds(statement: ast.Assign | ast.AnnAssign | ast.AugAssign) -> frozenset[str]:
    """The names that a statement binds; one that no name has where it binds something else."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    parts = [each for target in targets for each in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return frozenset(each.id if isinstance(each, ast.Name) else "" for each in parts)


def _names(node: ast.AST) -> frozenset[str]:
    return frozenset(each.id for each in walk(node) if isinstance(each, ast.Name))
