"""Which backwards keep their graph (``retain_graph=True``), and what may need it afterwards?"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.effects import COMPREHENSIONS
from codemods.dataflow.names import bound_names, declared_outer, decorators, words
from codemods.dataflow.signatures import arguments_of, signature
from codemods.dataflow.source import FUNCTIONS, LOOPS, lasting, walk
from codemods.dataflow.values import (
    Choice,
    Container,
    External,
    HostTensor,
    Instance,
    Literal,
    Made,
    MovedTensor,
    Plain,
    Tensor,
    Unknown,
    library_names,
)
from codemods.facts.autograd.carriers import may_carry
from codemods.facts.autograd.double_backward import keeps_graph, retains, surely_retains
from codemods.facts.loops import place
from codemods.facts.reach import Reach, own, stores, switches_gradients_off
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.graph_obstacles import GraphObstacles
from codemods.facts.training.iterations import EventKind, called_functions, is_backward
from codemods.facts.training.loss_slices import LossSlices
from codemods.facts.training.modes import is_models_method
from codemods.facts.training.seen_tensors import changed_by
from codemods.library.kinds import PARAMETER, kind
from codemods.library.operators import Memory, operator
from codemods.library.operators import function as torch_function

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value
    from codemods.facts.script import Script

_CODE = "graph-used"
_RUN_TEXTS = frozenset({"builtins.exec", "builtins.eval", "builtins.getattr", "operator.methodcaller"})
_NO_GRAPH = frozenset({"data", "detach", "grad", "detach_"})
_OF_SEVERAL = words("broadcast_tensors meshgrid atleast_1d atleast_2d atleast_3d sparse_coo_tensor")
"""Functions that see several tensors in another shape."""
_SELECTS = frozenset({"builtins.min", "builtins.max"})
_CACHED = "torch.nn.utils.parametrize.cached"
"""In its block the weights that are computed once are used in every iteration."""


@dataclass(frozen=True, eq=False)
class Keeping:
    """A call of ``backward`` that keeps its graph."""

    module: Module
    call: ast.Call
    argument: ast.keyword | None
    """What asks for it, where that is written in the call by its name."""
    why_needed: Reason | None


def keepings(script: Script) -> Iterator[Keeping]:
    """The calls of ``backward`` in the module that may keep their graph so that it can be used again, in iterations."""
    module = script.module
    for call in module.nodes(ast.Call):
        if not is_backward(script.flow, call) or not retains(script.flow, call) or keeps_graph(script.flow, call):
            continue
        is_alone = module.function(call) is None and not any(isinstance(each, LOOPS) for each in module.ancestors(call))
        if script.may_run(module, call) and not is_alone:
            argument = next((each for each in call.keywords if each.arg == "retain_graph"), None)
            yield Keeping(module, call, argument, _why_decided(script, call, argument) or _why_needed(script, call))


def _why_decided(script: Script, call: ast.Call, argument: ast.keyword | None) -> Reason | None:
    if argument is None:
        return Reason("unknown-arguments", "what it is asked for is not written out by its name")
    if not surely_retains(script.flow, call) or not isinstance(argument.value, ast.Constant):
        return Reason("script-decides", f"'{script.module.code(argument.value)}' decides whether the graph is kept")
    return None


def _why_needed(script: Script, call: ast.Call) -> Reason | None:
    """Why something may use the graph after the backward; None where surely nothing does."""
    loop = _loop(script.module, call)
    if loop is None:
        text = "what calls its function again may use the graph, too:"
        return Reason(_CODE, text, remedy="take retain_graph away if nothing does")
    if isinstance(loop, Reason):
        return loop
    return (
        _why_later_backward(script, loop, call)
        or _why_called_unseen(script, loop)
        or _why_unseen(script, loop)
        or _why_changed(script, loop)
        or _why_model_keeps(script, loop)
        or _why_from_before(script, loop)
        or _why_batches_carry(script)
        or _why_used_later(script, loop, call)
        or _why_looked_at(script)
    )


def _loop(module: Module, node: ast.AST) -> ast.For | ast.While | Reason | None:
    """The innermost loop around what runs, in its function; or why it is not known how it runs again."""
    below = node
    for above in module.ancestors(node):
        if isinstance(above, FUNCTIONS):
            break
        if isinstance(above, COMPREHENSIONS):
            return Reason(_CODE, "a comprehension runs it for several tensors, whose graphs may be one")
        if isinstance(above, (ast.For, ast.While)) and below in above.body:
            return above
        below = above
    return None


def _why_later_backward(script: Script, loop: ast.For | ast.While, call: ast.Call) -> Reason | None:
    """Why another backward of the same iteration may go through the graph: one that comes later, and is not apart."""
    iteration = script.whole.iterations.of(loop, script.module)
    is_later = False
    for event in iteration.of(EventKind.BACKWARD, EventKind.GRADIENT):
        if event.node is call and not is_later:
            is_later = True
        elif is_later and isinstance(event.node, ast.Call) and _differentiates(script, event.node):
            is_here = event.module is script.module and script.module.holds(call)
            if is_here and _are_apart(script, loop, call, event.node):
                continue
            text = f"another backward of the iteration may go through the graph ({HERE})"
            return Reason(_CODE, text, (at(event.module, event.node),))
    return None


def _are_apart(script: Script, loop: ast.For | ast.While, one: ast.Call, other: ast.Call) -> bool:
    """Whether two backwards in the suite of a loop surely go through graphs that have no part in common."""
    module, uses = script.module, script.whole.graph_uses
    roots = [_root_of(script, loop, each) for each in (one, other)]
    slices = LossSlices(script.flow, module, loop)
    parts = [None if root is None else slices.of(root) for root in roots]
    if parts[0] is None or parts[1] is None:
        return False
    changed = {each.id for each in map(_root, _changed(script, module, loop)) if isinstance(each, ast.Name)}
    bound = {
        each: {name.id for name in walk(each.targets[0]) if isinstance(name, ast.Name)} for each in parts[0] | parts[1]
    }
    if any(changed & names for names in bound.values()):
        return False
    carrying = frozenset[str]().union(*uses.doubtful.before_each(module, loop.body, _carried_on(script, loop)).values())
    return not any(carrying & bound[each] for each in parts[0] & parts[1])


def _root_of(script: Script, loop: ast.For | ast.While, call: ast.Call) -> ast.expr | None:
    """What ``loss.backward()`` differentiates, where that is a statement of the loop's suite, and all that it does."""
    statement = script.module.statement(call)
    is_own = (
        any(statement is each for each in loop.body) and isinstance(statement, ast.Expr) and statement.value is call
    )
    is_plain = not call.args and all(each.arg == "retain_graph" for each in call.keywords)
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr == "backward"
    return call.func.value if is_own and is_plain and is_method and isinstance(call.func, ast.Attribute) else None


def _why_called_unseen(script: Script, loop: ast.stmt) -> Reason | None:
    """Why another backward may be called that is not written as a call: ``again = loss.backward``, ``exec``."""
    for module, code in Reach(script.flow).code(script.module, [loop]):
        for each in own(code, ast.Attribute):
            above = module.parent(each)
            if each.attr == "backward" and not (isinstance(above, ast.Call) and above.func is each):
                return Reason(_CODE, f"'backward' is handed on, and may be called later ({HERE})", (at(module, each),))
        if any("cache" in each or "memo" in each for each in decorators(code)):
            text = f"what a function has computed once, it may return again ({HERE})"
            return Reason(_CODE, text, (at(module, code),))
        for call in own(code, ast.Call):
            if _runs_text(script, call):
                text = f"what a text names may be another backward, or be computed before ({HERE})"
                return Reason(_CODE, text, (at(module, call),))
    return None


def _runs_text(script: Script, call: ast.Call) -> bool:
    """Whether it is ``exec(code)``, or ``getattr(loss, name)``."""
    return bool(_RUN_TEXTS & library_names(script.flow.values(call.func)))


def _differentiates(script: Script, call: ast.Call) -> bool:
    names = {each.name for each in script.flow.values(call.func)}
    return is_backward(script.flow, call) or "torch.autograd.grad" in names


# What the graph may hang together with beyond the iteration.


def _why_unseen(script: Script, loop: ast.stmt) -> Reason | None:
    """Why code that is not seen may differentiate what it is given, or keep it for a later iteration."""
    uses = script.whole.graph_uses
    for module, code in Reach(script.flow).code(script.module, [loop]):
        is_model = isinstance(code, FUNCTIONS) and is_models_method(script.flow, code)
        for call in own(code, ast.Call):
            given = (script.flow.values(each) for each in arguments_of(call))
            if uses.is_unseen(call) and any(is_model or may_carry(script.flow, each) for each in given):
                text = f"'{module.code(call.func)}' is not seen, and may use the graph again ({HERE})"
                return Reason(_CODE, text, (at(module, call),))
    return None


def _why_model_keeps(script: Script, loop: ast.stmt) -> Reason | None:
    """Why a model may use a tensor with a graph in one call that it has made in another, or when it was made."""
    obstacles = GraphObstacles(script.flow, script.modules, script.whole.graph_uses)
    if obstacles.kept_inside:
        return obstacles.kept_inside[0].reason
    for module, code in Reach(script.flow).code(script.module, [loop]):
        state = obstacles.of_state(code)
        if state is not None:
            return state
        read = next(_kept(script, module, code), None)
        if read is not None:
            text = f"'{module.code(read)}' may have a graph from before the iteration ({HERE})"
            return Reason(_CODE, text, (at(module, read),))
    return None


def _kept(script: Script, module: Module, code: ast.AST) -> Iterator[ast.expr]:
    """What code reads of objects, and functions of their module, that may hold a tensor that was computed earlier."""
    own_names = bound_names(code) if isinstance(code, FUNCTIONS) else None
    written = {each.attr for each in stores(code) if isinstance(each, ast.Attribute)}
    for each in own(code, ast.expr):
        if isinstance(each, (ast.Subscript, ast.BinOp)) and _is_of_object(script, each):
            yield each
        if not isinstance(getattr(each, "ctx", None), ast.Load) or isinstance(module.parent(each), ast.Attribute):
            continue
        if _is_size(script, module, each) or _is_for_numpy(script, module, each):
            continue
        read = _receiver(script, module, each)
        if isinstance(read, ast.Name):
            # The names of the iteration itself are followed as it runs.
            is_other = own_names is not None and (read.id not in own_names or _is_shared(module, read))
        elif isinstance(read, ast.Attribute) and read.attr not in _NO_GRAPH:
            is_other = own_names is not None or read.attr in written
        else:
            continue
        if is_other and (_is_computed(script, read) or _is_written(script, read)):
            yield read


def _is_computed(script: Script, read: ast.Name | ast.Attribute) -> bool:
    """Whether what is read may have been computed of other tensors, and does not come from a file."""
    computed = {each for each in script.flow.values(read) if _may_be_computed(script, each)}
    if not computed or isinstance(read, ast.Name):
        return bool(computed)
    stores = [(where, each) for where in script.modules for each in where.attribute_stores.get(read.attr, ())]
    statements = [where.parent(each) for where, each in stores]
    given = [each.value for each in statements if isinstance(each, (ast.Assign, ast.AnnAssign)) and each.value]
    saved = {value for each in given if _is_from_file(script, each) for value in script.flow.values(each)}
    return not computed <= saved


def _is_from_file(script: Script, node: ast.expr) -> bool:
    """Whether it is an item of what was saved to a file: ``torch.load(path)["scale"]``."""
    values = script.flow.values(node.value) if isinstance(node, ast.Subscript) else frozenset()
    return bool(values) and all(isinstance(each, Made) and each.name == "torch.load" for each in values)


def _is_written(script: Script, read: ast.expr) -> bool:
    return not _written_with_graphs(script.flow).isdisjoint(script.flow.values(read))


@lasting
def _written_with_graphs(flow: Flow) -> frozenset[Value]:
    """The tensors into which something with a graph may be written, by whatever name, anywhere in the project."""
    found: set[Value] = set()
    for module in flow.modules:
        for node in module.nodes(ast.Subscript, ast.AugAssign, ast.Call):
            changed = changed_by(node)
            values = {each for each in flow.values(_whole(changed)) if isinstance(each, Tensor)} if changed else set()
            if not values or any(switches_gradients_off(flow, each) for each in module.ancestors(node)):
                continue
            if _writes_graph(flow, module, node):
                found |= values
    return frozenset(found)


def _writes_graph(flow: Flow, module: Module, node: ast.AST) -> bool:
    """Whether what the node changes may be given something with a graph: ``x[0] = y``, ``x += y``, ``x.add_(y)``."""
    given = arguments_of(node) if isinstance(node, ast.Call) else [getattr(module.statement(node), "value", None)]
    return any(each is None or may_carry(flow, flow.values(each)) for each in given)


def _whole(node: ast.expr) -> ast.expr:
    """``x`` of ``x[0]`` and of ``x.view(-1)[0]``."""
    while True:
        match node:
            case ast.Subscript(value):
                node = value
            case ast.Call(ast.Attribute(value, method)) if operator(method) is not None:
                node = value
            case _:
                return node


def _receiver(script: Script, module: Module, node: ast.expr) -> ast.expr:
    """``x`` of ``x.reshape(n)``, as operators compute of their tensor, and no other object; else the node itself."""
    call = module.parent(node)
    if not isinstance(node, ast.Attribute) or not isinstance(call, ast.Call) or call.func is not node:
        return node
    is_other = called_functions(script.flow, call) or library_names(script.flow.values(node))
    return node if is_other or operator(node.attr) is None else node.value


def _is_size(script: Script, module: Module, node: ast.expr) -> bool:
    """Whether it says in which shape, format or place a tensor is seen: ``x.reshape(-1, size)``."""
    call = module.parent(node)
    if not isinstance(call, ast.Call) or node not in call.args or called_functions(script.flow, call):
        return False
    names = library_names(script.flow.values(call.func))
    if names:
        is_operand = node is call.args[0] or not _OF_SEVERAL.isdisjoint(each.rpartition(".")[2] for each in names)
        rows = [None] if is_operand else [torch_function(each) for each in names]
    else:
        rows = [operator(call.func.attr) if isinstance(call.func, ast.Attribute) else None]
    return all(row is not None and row.memory in {Memory.VIEW, Memory.EITHER} for row in rows)


def _is_for_numpy(script: Script, module: Module, node: ast.AST) -> bool:
    """Whether NumPy is given it, of whose results none has a graph: ``np.random.randint(min(self.size, n))``."""
    call = module.parent(node)
    if not isinstance(call, ast.Call) or node not in call.args:
        return False
    names = library_names(script.flow.values(call.func))
    if names and len(names) == len(script.flow.values(call.func)) and names <= _SELECTS:
        return _is_for_numpy(script, module, call)
    return bool(names) and all(each.startswith("numpy.") for each in names) and not called_functions(script.flow, call)


def _is_of_object(script: Script, node: ast.Subscript | ast.BinOp) -> bool:
    """Whether an object of the project says what an item of it is, or what it is to add something to it."""
    asked = [node.value] if isinstance(node, ast.Subscript) else [node.left, node.right]
    owners = [value for each in asked for value in script.flow.values(each)]
    return any(isinstance(each, Instance) and kind(script.flow, each) is None for each in owners)


def _is_shared(module: Module, name: ast.Name) -> bool:
    """Whether the name is a parameter with one object as default for all calls: ``def step(x, memory=[])``."""
    function = module.function(name)
    default = signature(function).defaults.get(name.id) if function is not None else None
    return default is not None and not isinstance(default, ast.Constant)


def _may_be_computed(script: Script, value: Value) -> bool:
    """Whether it may be a tensor that was computed of others, and no parameter, nor one that was just made."""
    if isinstance(value, (HostTensor, MovedTensor)) and value.of is None and value.site is not None:
        return may_carry(script.flow, frozenset({value}))
    if isinstance(value, Made) and value.name == PARAMETER:
        return False
    is_open = isinstance(value, (Tensor, Unknown))
    return is_open or may_carry(script.flow, frozenset({value}))


def _why_from_before(script: Script, loop: ast.For | ast.While) -> Reason | None:
    """Why an iteration may differentiate what was computed before it, as a state of a recurrent network."""
    graphs = script.whole.graph_uses.of(script.whole.graph_uses.is_unseen, outside=True)
    carried_on = _carried_on(script, loop)
    trained = graphs.statements(script.module, loop.body, carried_on).trained
    if trained is not None:
        bare = _cut(script, loop) - carried_on
        trained = graphs.statements(script.module, loop.body, carried_on, bare).trained
    if trained is None:
        return None
    text = f"what is differentiated may have been computed before the iteration, in part ({HERE})"
    return Reason(_CODE, text, (place(script.flow, trained),))


def _cut(script: Script, loop: ast.stmt) -> frozenset[str]:
    """The names of the function around a loop that are given nothing but tensors that were detached: ``h.detach()``."""
    module, function = script.module, script.module.function(loop)
    if not isinstance(function, ast.FunctionDef):
        return frozenset()
    shared = {each for inner in walk(function) if isinstance(inner, ast.Nonlocal) for each in inner.names}
    changed = {each.id for each in map(_root, _changed(script, module, function)) if isinstance(each, ast.Name)}
    is_cut: dict[str, bool] = {}
    for store in own(function, ast.Name):
        if isinstance(store.ctx, ast.Store):
            statement = module.parent(store)
            given = statement.value if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
            is_cut[store.id] = is_cut.get(store.id, True) and given is not None and _has_no_graph(script, given)
    names = frozenset(name for name, each in is_cut.items() if each)
    return names - shared - changed - declared_outer(function) - frozenset(signature(function).names)


def _has_no_graph(script: Script, node: ast.expr) -> bool:
    """Whether it is a tensor that is detached here, or a tuple of such."""
    if isinstance(node, ast.Tuple):
        return all(_has_no_graph(script, each) for each in node.elts)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    is_method = not called_functions(script.flow, node) and not library_names(script.flow.values(node.func))
    return is_method and node.func.attr == "detach"


def _why_batches_carry(script: Script) -> Reason | None:
    """Why batches may have a graph: a data set is made of what was computed before."""
    for loader in script.loaders:
        dataset = loader.arguments.get("dataset")
        for value in dataset.values if dataset is not None else ():
            made = value.site
            given = [script.flow.values(each) for each in arguments_of(made)] if isinstance(made, ast.Call) else []
            if any(may_carry(script.flow, each, opaque=False) for each in (frozenset({value}), *given)):
                text = f"the batches of a loader may have been computed together ({HERE})"
                return Reason(_CODE, text, (at(loader.module, loader.call),))
    return None


def _carried_on(script: Script, loop: ast.For | ast.While) -> frozenset[str]:
    """The names that may hold, where an iteration starts, what an earlier one has computed, or put there in place."""
    flow, held = script.flow, script.flow.before(loop.body[0])
    bound = {each.id for statement in loop.body for each in stores(statement) if isinstance(each, ast.Name)}
    roots = {_root(each) for each in _changed(script, script.module, loop)}
    target = (
        set() if isinstance(loop, ast.While) else {each.id for each in walk(loop.target) if isinstance(each, ast.Name)}
    )
    changed = {each.id for each in roots if isinstance(each, ast.Name)} - target
    read = {each.id: flow.values(each) for each in own(loop, ast.Name) if isinstance(each.ctx, ast.Load)}
    written = {name for name, values in read.items() if not _written_with_graphs(flow).isdisjoint(values)} - target
    return frozenset(written) | frozenset(
        name
        for name in bound | changed
        if any(
            _may_be_computed(script, value) or (name in changed and isinstance(value, (Tensor, Container)))
            for value in held.get(name, flow.read_module_name(script.module, name) if name in changed else frozenset())
        )
    )


def _changed(script: Script, module: Module, code: ast.AST) -> Iterator[ast.expr]:
    """What code changes in place, with its graph, and may be no number: ``x += y``, ``x[0] = y``, ``x.add_(y)``."""
    for each in own(code, ast.AugAssign, ast.Subscript, ast.Call):
        changed: ast.expr | None = None
        match each:
            case ast.AugAssign(target):
                changed = target
            case ast.Subscript(ctx=ast.Store()):
                changed = each
            case ast.Call(ast.Attribute(receiver, method)) if method.endswith("_") and method != "requires_grad_":
                changed = receiver
        if changed is None or any(switches_gradients_off(script.flow, above) for above in module.ancestors(each)):
            continue
        values = script.flow.values(changed)
        is_number = bool(values) and all(isinstance(value, (Literal, Plain, Choice, External)) for value in values)
        parts = {part.attr for part in walk(changed) if isinstance(part, ast.Attribute)}
        if not is_number and not parts & _NO_GRAPH:
            yield changed


def _root(node: ast.expr) -> ast.expr:
    """``x`` of ``x[0]`` and of ``x.mul_(2)``; of an attribute, that itself."""
    while isinstance(node, (ast.Subscript, ast.Call)):
        node = node.value if isinstance(node, ast.Subscript) else node.func
        node = node.value if isinstance(node, ast.Attribute) and node.attr.endswith("_") else node
    return node


def _why_changed(script: Script, loop: ast.stmt) -> Reason | None:
    """Why an object may keep a graph that is put in place into one of its tensors."""
    for module, code in Reach(script.flow).code(script.module, [loop]):
        given = {each.id for each in stores(code) if isinstance(each, ast.Name) and not _is_updated(module, each)}
        for each in _changed(script, module, code):
            root = _root(each)
            is_own = isinstance(root, ast.Name) and (code is loop or root.id in given)
            is_own = is_own or _is_made(script, each) or not _writes_graph(script.flow, module, _changing(module, each))
            if not is_own:
                text = f"'{module.code(each)}' is changed in place, and may keep a graph ({HERE})"
                return Reason(_CODE, text, (at(module, each),))
    return None


def _changing(module: Module, changed: ast.expr) -> ast.AST:
    """What changes an expression in place: an assignment of it, ``x += y``, or the call of ``x.add_(y)``."""
    above = module.parent(changed)
    return (module.parent(above) if isinstance(above, ast.Attribute) else above) or changed


def _is_made(script: Script, node: ast.expr) -> bool:
    """Whether the tensor is in memory that was just made for it: ``x.new_empty(n)``, ``torch.zeros(n)``."""
    if not isinstance(node, ast.Call) or called_functions(script.flow, node):
        return False
    names = library_names(script.flow.values(node.func))
    if names:
        rows = [torch_function(each) for each in names]
    else:
        rows = [operator(node.func.attr) if isinstance(node.func, ast.Attribute) else None]
    return all(row is not None and row.memory is Memory.NEW for row in rows)


def _is_updated(module: Module, name: ast.Name) -> bool:
    return isinstance(module.parent(name), ast.AugAssign)


def _why_used_later(script: Script, loop: ast.For | ast.While, call: ast.Call) -> Reason | None:
    """Why another backward, outside of the iteration, may go through the graph."""
    module, uses = script.module, script.whole.graph_uses
    events = script.whole.iterations.of(loop, module).events
    inside = {event.node for event in events if event.frame is module.function(call)}
    others = (
        (where, each)
        for where in script.modules
        for each in where.nodes(ast.Call)
        if each not in inside and _differentiates(script, each)
    )
    other = next(others, None)
    if other is None:
        return None
    course = uses.strict.statements(module, loop.body)
    found = course.kept or course.returned or uses.used_after(uses.differentiated, module, loop.body[-1], course)
    if found is None:
        return None
    text = f"a tensor of the iteration is kept ({HERE}), and another backward may go through it ({HERE})"
    return Reason(_CODE, text, (place(script.flow, found), at(*other)))


def _why_looked_at(script: Script) -> Reason | None:
    """Why something may read what the graph keeps: by ``grad_fn``, or as weights that are computed once."""
    for module in script.modules:
        for each in module.nodes(ast.Attribute):
            if each.attr == "grad_fn" and isinstance(each.ctx, ast.Load):
                return Reason(_CODE, f"the script looks at the graph itself ({HERE})", (at(module, each),))
        for cached in script.flow.calls_of(module, {_CACHED}):
            text = f"weights are computed once, and used in every iteration ({HERE})"
            return Reason(_CODE, text, (at(module, cached),))
    return None
