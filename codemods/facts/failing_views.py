"""Which views fail since torch 1.7: of some rows of a comparison with what ``t()`` transposed, as accuracies make them.

``pred.t().eq(target)`` lies in memory as ``pred`` does since then, so that two rows of it are no view of one dimension.
"""

from __future__ import annotations

import ast
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.signatures import argument_of, signature
from codemods.dataflow.source import lasting
from codemods.facts.loops import module_of
from codemods.facts.reach import own
from codemods.facts.reaching import reaching, targets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.facts.reaching import Reaching

_LOADER = "torch.utils.data.DataLoader"
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_COMPREHENSIONS = (ast.ListComp, ast.GeneratorExp)
_GOES_ON = (
    *(ast.For, ast.With, ast.Expr, ast.Assign, ast.AugAssign, ast.Return),
    *(ast.Call, ast.keyword, ast.Attribute, ast.Subscript, ast.BinOp, *_COMPREHENSIONS),
)
"""What evaluates all of its parts; of loops it is known that they have something to go through."""


class FailingView(NamedTuple):
    """A view that fails whenever a node is evaluated."""

    view: ast.Call
    module: Module
    """That the view is in."""
    is_elsewhere: bool
    """Whether the node is a call of the function that the view is in, which decides on the number of rows."""


@lasting
def failing_views(flow: Flow) -> Mapping[ast.AST, FailingView]:
    """The views that fail, and the calls that let one fail, each with its view.

    One item is compared without failing: nothing is said where a loader may give batches of one.
    """
    found: dict[ast.AST, FailingView] = {}
    for module in flow.modules:
        if ".topk(" not in module.text or ".view(-1)" not in module.text:
            continue
        for call in module.nodes(ast.Call):
            found.update(_failing_by(flow, module, call))
    return found if found and not _has_batches_of_one(flow) else MappingProxyType({})


def _has_batches_of_one(flow: Flow) -> bool:
    for module in flow.modules:
        for call in flow.calls_of(module, (_LOADER,)):
            size = argument_of(call, "batch_size", 1)
            if size is None and argument_of(call, "batch_sampler") is None:
                return True
            if size is not None and (_number(size) == 1 or any(each.name == "1" for each in flow.values(size))):
                return True
    return False


def _failing_by(flow: Flow, module: Module, call: ast.Call) -> Iterator[tuple[ast.AST, FailingView]]:
    """The call, if it is a view that fails, or the calls of its function that let it fail."""
    match call:
        case ast.Call(
            ast.Attribute(ast.Subscript(ast.Name() as compared, ast.Slice(None | ast.Constant(0), rows, None)), "view"),
            [ast.UnaryOp(ast.USub(), ast.Constant(1))],
            [],
        ) if rows is not None:
            pass
        case _:
            return
    function = module.function(call)
    scope = module.tree if function is None else function
    count = _count(module, scope, compared)
    if count is None:
        return
    sizes = _sizes(module, scope, call, rows)
    if sizes is None or not _is_several(count, sizes, reaching(scope)):
        return
    if any(each.lineno < call.lineno for each in own(scope, *_LEAVES)):
        return
    if _is_some_more(sizes, reaching(scope)):
        yield call, FailingView(call, module, is_elsewhere=False)
    elif isinstance(sizes, ast.Name) and function is not None and _is_reached(module, function, call):
        for outer in _calls_with_several(flow, function, sizes.id):
            yield outer, FailingView(call, module, is_elsewhere=True)


def _count(module: Module, scope: ast.AST, compared: ast.Name) -> ast.expr | None:
    """How many ``topk`` takes, where the name is a comparison of the transposed indices of those."""
    known = reaching(scope)
    match _only(known, compared):
        case ast.Call(ast.Attribute(indices, "eq"), [_], []) | ast.Compare(indices, [ast.Eq()], [_]):
            pass
        case _:
            return None
    match _only(known, indices):
        case ast.Call(ast.Attribute(indices, "t"), [], []):
            pass
        case _:
            return None
    largest = _largest(module, scope, indices)
    if largest is None or not isinstance(largest.func, ast.Attribute) or largest.func.attr != "topk":
        return None
    shift = int(isinstance(largest.func.value, ast.Name) and largest.func.value.id == "torch")
    dimension = argument_of(largest, "dim", 1 + shift)
    # Of one dimension alone, t() transposes nothing.
    return argument_of(largest, "k", shift) if dimension is not None and _number(dimension) == 1 else None


def _largest(module: Module, scope: ast.AST, indices: ast.expr) -> ast.Call | None:
    """The call whose second result the indices are."""
    found = _only(reaching(scope), indices)
    match found:
        case ast.Subscript(ast.Call() as call, ast.Constant(1)) | ast.Attribute(ast.Call() as call, "indices"):
            return call
    bound = targets(scope).of(indices) if isinstance(indices, ast.Name) else None
    if bound is None or len(bound) != 1:
        return None
    several = module.parent(bound[0])
    match several, several and module.parent(several):
        case ast.Tuple([_, last]), ast.Assign([_], ast.Call() as call) if last is bound[0]:
            return call
    return None


def _only(known: Reaching, node: ast.expr) -> ast.expr | None:
    """The one expression that a name surely holds; the expression itself where it is no name."""
    if not isinstance(node, ast.Name):
        return node
    given = known.given(node)
    return given[0] if given is not None and len(given) == 1 else None


def _sizes(module: Module, scope: ast.AST, view: ast.Call, rows: ast.expr) -> ast.expr | None:
    """What has the numbers of rows in it: the number itself, or what a loop goes through."""
    if not isinstance(rows, ast.Name):
        return rows
    stores = [each for each in own(scope, ast.Name) if each.id == rows.id and isinstance(each.ctx, ast.Store)]
    for above in module.ancestors(view):
        loops: list[ast.For | ast.comprehension] = [above] if isinstance(above, ast.For) else []
        for loop in above.generators if isinstance(above, _COMPREHENSIONS) else loops:
            if isinstance(loop.target, ast.Name) and stores == [loop.target] and not getattr(loop, "ifs", ()):
                return loop.iter
    return None


def _is_several(count: ast.expr, sizes: ast.expr, known: Reaching) -> bool:
    """Whether so many of the largest are taken as the most rows of the sizes, or several in any case."""
    match _only(known, count):
        case ast.Call(ast.Name("max"), [ast.Name(name)], []):
            return isinstance(sizes, ast.Name) and sizes.id == name
        case ast.Constant(int(number)):
            return number > 1
    return False


def _is_some_more(sizes: ast.expr, known: Reaching) -> bool:
    """Whether one of the sizes is surely more than one."""
    whole = _only(known, sizes)
    items = whole.elts if isinstance(whole, (ast.Tuple, ast.List)) else [whole] if whole is not None else []
    return any(_number(each) > 1 for each in items)


def _number(node: ast.expr) -> int:
    """The number that is written there; 0 where none is."""
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else 0


def _is_reached(module: Module, function: Callee, view: ast.Call) -> bool:
    """Whether the view is evaluated whenever the function is called."""
    for above in module.ancestors(view):
        if above is function:
            break
        if not isinstance(above, _GOES_ON):
            return False
    return True


def _calls_with_several(flow: Flow, function: Callee, name: str) -> Iterator[ast.Call]:
    """The calls that run the function and no other, and give the parameter sizes of which one is more than one."""
    if all(each.arg != name for each in signature(function).named):
        return
    if any(each.id == name and isinstance(each.ctx, ast.Store) for each in own(function, ast.Name)):
        return
    for call in flow.callers(function):
        binding = flow.bind(function, call)
        given = binding.get(name) or signature(function).defaults.get(name)
        if given is None or not binding.is_whole or len(flow.values(call.func)) > 1:
            continue
        caller = module_of(flow, call)
        if _is_some_more(given, reaching(caller.function(call) or caller.tree)):
            yield call
