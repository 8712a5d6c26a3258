"""Whether an optimizer is given all parameters of its models, or a choice of them.

Gradients of parameters that it does not own stay scaled, and a norm over all of them would be a scaled one.
"""

from __future__ import annotations

import ast
from itertools import product
from typing import TYPE_CHECKING, TypeAlias

from codemods.dataflow.recursion import closure
from codemods.dataflow.source import walk
from codemods.dataflow.values import Container

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value

_Side: TypeAlias = tuple[str, bool]
"""A question about an element, and an answer."""

_MOST_QUESTIONS = 8
"""More about one element than this are not thought through, and some may be left out: each doubles the answers."""
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_ADDS = frozenset({"append", "extend", "add", "update"})
_OPPOSITES = {
    ast.NotIn: ast.In,
    ast.NotEq: ast.Eq,
    ast.IsNot: ast.Is,
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
}


def chosen(flow: Flow, given: ast.expr) -> ast.expr | ast.stmt | None:
    """Where some of the parameters are left out that need gradients; None where none are, as far as is seen.

    Two choices that are each other's opposite (``"bias" in name``, ``"bias" not in name``) leave none out, nor do
    branches with an ``else``, nor does a choice whose rest an ``assert`` says to be empty.

    Args:
        flow: The values of the project.
        given: What the optimizer is made with.
    """
    nodes = [each for each in _sources(flow, given) if isinstance(each, ast.expr)]
    sides: dict[ast.expr, frozenset[_Side]] = {}
    for node in nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            return node
        asked = frozenset(_side(each) for each in _tests(node))
        if asked:
            sides[node] = asked
    branches = (each for node in nodes if (each := _branch(flow, node)) is not None)
    found: ast.expr | ast.stmt | None = _incomplete(sides) or next(branches, None)
    return None if found is None or _says_none_is_left(flow, found) else found


def _incomplete(sides: Mapping[ast.expr, frozenset[_Side]]) -> ast.expr | None:
    """A choice, where all of them together may leave an element out.

    Args:
        sides: The choices, each with the sides on all of which an element has to be.
    """
    asked = frozenset[_Side]().union(*sides.values())
    for node, own in sides.items():
        if any((text, not holds) not in asked for text, holds in own):
            return node
    texts = sorted({text for text, _ in asked})
    if len(texts) > _MOST_QUESTIONS:
        return next(iter(sides))
    # Each question may have both answers, and still nobody asks for some of them together.
    elements = (frozenset(zip(texts, answers, strict=True)) for answers in product((True, False), repeat=len(texts)))
    is_complete = not sides or all(any(own <= element for own in sides.values()) for element in elements)
    return None if is_complete else next(iter(sides))


def _sources(flow: Flow, given: ast.expr) -> Iterator[ast.AST]:
    """All nodes of the expressions that the parameters come through, and the calls that add to a list of them."""
    todo: list[ast.AST] = [given, *_made_at(flow, flow.values(given))]
    seen: set[ast.AST] = set()
    while todo:
        for node in walk(todo.pop()):
            if node in seen:
                continue
            seen.add(node)
            yield node
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                todo.extend(_given_to(flow, node))


def _made_at(flow: Flow, values: frozenset[Value]) -> Iterator[ast.AST]:
    """Where the lists among the values, and those in them, are made."""
    for value in closure(values, lambda each: flow.items(each) if isinstance(each, Container) else ()):
        if isinstance(value, Container) and value.site is not None:
            yield value.site


def _given_to(flow: Flow, name: ast.Name) -> Iterator[ast.AST]:
    """What the name is given in its function, and the calls that add to it."""
    module = _module_of(flow, name)
    for node in module.nodes(ast.Name) if module is not None else ():
        if node.id != name.id or module is None or module.function(node) is not module.function(name):
            continue
        parent = module.parent(node)
        if isinstance(node.ctx, ast.Store) and isinstance(parent, (ast.Assign, ast.AnnAssign)):
            if parent.value is not None:
                yield parent.value
        elif isinstance(parent, ast.Attribute) and parent.attr in _ADDS:
            call = module.parent(parent)
            if isinstance(call, ast.Call):
                yield call


def _tests(node: ast.AST) -> Iterator[ast.expr]:
    """The conditions on which a comprehension or a ``filter`` takes an element, but whether it needs a gradient."""
    found: list[ast.expr] = []
    if isinstance(node, _COMPREHENSIONS):
        found = [test for part in node.generators for test in part.ifs]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "filter":
        found = [each.body if isinstance(each, ast.Lambda) else each for each in node.args[:1]]
    for test in found:
        parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
        yield from (each for each in parts if not _asks_for_gradient(each))


def _asks_for_gradient(test: ast.expr) -> bool:
    return isinstance(test, ast.Attribute) and test.attr == "requires_grad"


def _side(test: ast.expr) -> _Side:
    """The question that the test asks, and the answer on which it holds."""
    match test:
        case ast.UnaryOp(ast.Not(), operand):
            text, holds = _side(operand)
            return text, not holds
        case ast.Compare(left, [operator], [right]) if type(operator) in _OPPOSITES:
            opposite = ast.Compare(left, [_OPPOSITES[type(operator)]()], [right])
            return ast.unparse(opposite), False
    return ast.unparse(test), True


def _branch(flow: Flow, node: ast.expr) -> ast.stmt | None:
    """The ``if`` or ``continue`` that keeps an element from a list that the call adds to, and from every other."""
    module = _module_of(flow, node)
    if module is None or not (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ADDS
    ):
        return None
    for above in module.ancestors(node):
        if isinstance(above, ast.If) and not _asks_for_gradient(above.test) and not _adds_always([above]):
            # The outermost ``if`` of a chain decides.
            parent = module.parent(above)
            if not (isinstance(parent, ast.If) and above in parent.orelse and _adds_always([parent])):
                return above
        if isinstance(above, ast.For):
            leaving = [each for each in walk(above) if isinstance(each, (ast.Continue, ast.Break))]
            return next((each for each in leaving if not _leaves_frozen(module.parent(each))), None)
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)):
            break
    return None


def _adds_always(suite: list[ast.stmt]) -> bool:
    """Whether something is added to a list whenever the statements run."""
    for statement in suite:
        match statement:
            case ast.Expr(ast.Call(ast.Attribute(_, name))) if name in _ADDS:
                return True
            case ast.If(_, body, orelse) if _adds_always(body) and _adds_always(orelse):
                return True
    return False


def _leaves_frozen(parent: ast.AST | None) -> bool:
    """``if not parameter.requires_grad: continue``."""
    match parent:
        case ast.If(ast.UnaryOp(ast.Not(), ast.Attribute(_, "requires_grad"))):
            return True
    return False


def _says_none_is_left(flow: Flow, node: ast.AST) -> bool:
    """``assert len(parameters.keys() - chosen) == 0`` in the function of the choice."""
    module = _module_of(flow, node)
    return module is not None and any(
        module.function(each) is module.function(node)
        and any(isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub) for part in walk(each.test))
        and ast.unparse(each.test).startswith(("len(", "not "))
        for each in module.nodes(ast.Assert)
    )


def _module_of(flow: Flow, node: ast.AST) -> Module | None:
    return next((each for each in flow.modules if each.holds(node)), None)
