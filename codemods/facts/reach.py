"""Which code runs when a piece of code runs: its own, and that of the project's functions and layers it calls."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from codemods.dataflow.source import FUNCTIONS, children, is_main_guard, kept, lasting
from codemods.dataflow.values import Function, Instance, Made, Method, class_of
from codemods.facts.models.layers import Model
from codemods.library.kinds import MODULE_METHODS, Kind, kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Value

Node = TypeVar("Node", bound=ast.AST)

_ENTERS = ("__enter__", "__exit__")


def own(node: ast.AST, *types: type[Node]) -> Iterator[Node]:
    """The nodes of these types under the node, in the order of the text, not in functions and classes defined in it."""
    return iter(_own_of(node, types))


@lasting
def _own_of(node: ast.AST, types: tuple[type[Node], ...]) -> tuple[Node, ...]:
    return tuple([each for each in _own(node) if isinstance(each, types)])


@kept
def _own(node: ast.AST) -> tuple[ast.AST, ...]:
    found: list[ast.AST] = []
    todo: list[ast.AST] = [node]
    while todo:
        here = todo.pop()
        found.append(here)
        if here is node or not isinstance(here, (*FUNCTIONS, ast.ClassDef)):
            todo += reversed(children(here))
    return tuple(found)


def stores(node: ast.AST) -> Iterator[ast.Name | ast.Attribute]:
    """The names and attributes that the node writes, in the order of the text."""
    for name in own(node, ast.expr):
        if isinstance(name, (ast.Name, ast.Attribute)) and isinstance(name.ctx, ast.Store):
            yield name


def written(node: ast.AST) -> frozenset[str]:
    """The same, as they are written."""
    return frozenset(ast.unparse(each) for each in stores(node))


def project_functions(values: Iterable[Value]) -> Iterator[Callee]:
    """The functions and methods of the project among the values."""
    for each in values:
        if isinstance(each, (Function, Method)) and isinstance(each.site, FUNCTIONS):
            yield each.site


@dataclass(eq=False)
class Reach:
    """Answers, for one project, which functions a piece of code calls, directly or not."""

    flow: Flow
    _of_function: dict[Callee, frozenset[Callee]] = field(default_factory=dict)
    _of_model: dict[Value, tuple[Callee, ...]] = field(default_factory=dict)

    def functions(self, nodes: Iterable[ast.AST]) -> frozenset[Callee]:
        """The functions, methods and forwards that may run when the nodes run."""
        found: set[Callee] = set()
        todo = [callee for node in nodes for callee in self._called_in(node)]
        while todo:
            callee = todo.pop()
            if callee not in found:
                found.add(callee)
                todo.extend(self._called_by(callee))
        return frozenset(found)

    def run_by(self, call: ast.Call) -> frozenset[Callee]:
        """The functions that the call itself may run, directly or not; not those that its arguments' calls run."""
        direct = frozenset(self._run_by(call))
        return direct | self.functions(direct)

    def code(self, module: Module, nodes: Iterable[ast.AST]) -> Iterator[tuple[Module, ast.AST]]:
        """The nodes, and the bodies of the functions that they reach, each with its module."""
        nodes = list(nodes)
        for node in nodes:
            yield module, node
        for callee in sorted(self.functions(nodes), key=lambda each: each.lineno):
            yield self.flow.module_of(callee), callee

    def _called_by(self, callee: Callee) -> frozenset[Callee]:
        if callee not in self._of_function:
            self._of_function[callee] = frozenset(self._called_in(callee))
        return self._of_function[callee]

    def _called_in(self, node: ast.AST) -> Iterator[Callee]:
        for call in own(node, ast.Call):
            yield from self._run_by(call)
        for item in own(node, ast.withitem):
            yield from self._entered(item)

    def _entered(self, item: ast.withitem) -> Iterator[Callee]:
        """The project's code that runs where a block is entered and left."""
        for value in self.flow.values(item.context_expr):
            class_ = class_of(value) if isinstance(value, Instance) else None
            methods = [self.flow.method(class_, name) for name in _ENTERS] if class_ is not None else []
            yield from (each for each in methods if each is not None)

    def _run_by(self, call: ast.Call) -> Iterator[Callee]:
        values = self.flow.values(call.func)
        yield from project_functions(values)
        for value in values:
            if isinstance(value, (Instance, Made)):
                yield from self._forwards(value)

    def _forwards(self, value: Value) -> tuple[Callee, ...]:
        """The project's code that a call of the object runs."""
        if value not in self._of_model:
            layers = Model(self.flow, value).layers if kind(self.flow, value) is Kind.MODEL else (value,)
            classes = [each.of.site for each in layers if isinstance(each, Instance)]
            methods = [self.flow.method(class_, name) for class_ in classes for name in ("forward", "__call__")]
            self._of_model[value] = tuple(each for each in methods if each is not None)
        return self._of_model[value]


_NO_GRADIENTS = frozenset({"torch.no_grad", "torch.inference_mode"})


def switches_gradients_off(flow: Flow, node: ast.AST) -> bool:
    """Whether it is surely a ``with torch.no_grad():``, or a function decorated with it: not only ``if not train``."""
    switches: list[ast.expr] = []
    if isinstance(node, (ast.With, ast.AsyncWith)):
        switches = [each.context_expr for each in node.items]
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        switches = node.decorator_list
    values = map(flow.values, switches)
    return any(each and all(value.name in _NO_GRADIENTS for value in each) for each in values)


def is_model_call(flow: Flow, call: ast.Call) -> bool:
    """Whether the call runs a model: ``model(x)``, ``model.decode(x)``, ``self.layers[0](x)``."""
    for value in flow.values(call.func):
        if kind(flow, value) is Kind.MODEL:
            return True
        if isinstance(value, Method) and kind(flow, value.of) is Kind.MODEL:
            return value.name == "forward" or value.name not in MODULE_METHODS | {"__init__"}
    return False


_LEAVING = (ast.Break, ast.Continue, ast.Return, ast.Raise)


def passing_over(module: Module, node: ast.AST, home: ast.stmt | None = None) -> ast.AST | None:
    """What may keep a node from running where its function, or a statement around it, runs: an ``if``, a ``continue``.

    Of ``for`` it is taken that there is a first pass.
    """
    below = node
    for above in module.ancestors(node):
        if below is home:
            break
        if _may_pass_over(above, below):
            return above
        suite = module.suite(below) if isinstance(below, ast.stmt) else []
        for statement in suite[: suite.index(below)] if below in suite else ():
            for leaving in own(statement, *_LEAVING) if not isinstance(statement, FUNCTIONS) else ():
                return leaving
        if isinstance(above, FUNCTIONS):
            break
        below = above
    return None


def _may_pass_over(above: ast.AST, below: ast.AST) -> bool:
    """Whether a statement or an expression runs at times without running that part of it."""
    match above:
        case ast.While(ast.Constant(value)) if value:
            return False
        case ast.If(test) | ast.IfExp(test) | ast.While(test):
            return below is not test and not is_main_guard(above)
        case ast.BoolOp(values=[first, *_]):
            return below is not first
        case ast.Try(handlers=[_, *_]) | ast.Match():
            return True
    return False
