"""What worker processes do not share with the script: names and settings that only running it changes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.names import bound_names, declared_outer, scope_of, words
from codemods.dataflow.signatures import arguments_of, signature
from codemods.dataflow.source import FUNCTIONS, is_main_guard, kept, lasting, walk
from codemods.dataflow.values import NOTHING, Container, HostTensor, Instance, Made, Method, library_names, without_none
from codemods.facts.loops import around
from codemods.facts.reach import Reach, own
from codemods.facts.reaching import reaching
from codemods.facts.reason import HERE, Reason
from codemods.library.fills import fills
from codemods.library.ndarrays import COMPUTE, CONSTRUCTORS, FLOATS
from codemods.library.operators import Memory, operator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Value, Values
    from codemods.facts.data.loaders import Loader
    from codemods.facts.workers.payload import WorkerCode

CHANGING_METHODS = words(
    "add append appendleft clear discard extend insert pop popitem remove reverse setdefault sort update"
)
CHANGING_FUNCTIONS = words(
    """
    builtins.delattr builtins.next builtins.setattr bisect.insort bisect.insort_left bisect.insort_right cv2.arrowedLine
    cv2.circle cv2.drawContours cv2.ellipse cv2.fillConvexPoly cv2.fillPoly cv2.line cv2.polylines cv2.putText
    cv2.rectangle heapq.heapify heapq.heappop heapq.heappush heapq.heappushpop heapq.heapreplace numpy.copyto
    numpy.fill_diagonal numpy.place numpy.put numpy.put_along_axis numpy.putmask numpy.random.shuffle random.shuffle
    """
)
"""They change their first argument."""
OF_ARRAYS = words("fill itemset put")
"""Methods that write into an array."""
_CHANGING_FIRST = words("setattr shuffle")
"""Functions, and methods of generators, that change their first argument."""
_DEFAULTS = words("torch.set_default_dtype torch.set_default_tensor_type torch.set_default_device")
_POOL_METHODS = words("apply apply_async imap imap_unordered map map_async starmap starmap_async")


def why_not_shared(code: WorkerCode) -> Reason | None:
    """Why workers, above all those that are not forked, would run with other values than the script; None where not."""
    return (
        _why_names_are_missing(code)
        or _why_names_are_changed(code)
        or _why_set_from_outside(code)
        or _why_default_is_lost(code)
        or _why_daemonic(code.flow, code.loader)
    )


def _why_names_are_missing(code: WorkerCode) -> Reason | None:
    """Which name that a worker reads only running the script gives a value; None where each has one at import."""
    for module in dict.fromkeys(home for home, _ in code.names_read):
        guards = [each for each in module.tree.body if is_main_guard(each)]
        outside = bound_names(ast.Module([each for each in module.tree.body if each not in guards], []))
        guarded = bound_names(ast.Module(list[ast.stmt](guards), [])) - outside
        written = {name for each in module.nodes(ast.FunctionDef) for name in scope_of(each).outer_bound}
        for name, node in ((name, node) for (home, name), node in code.names_read.items() if home is module):
            reads = f"the data set reads '{name}' ({HERE})"
            if name in guarded:
                text = f"{reads}, which is only bound under the __main__ guard"
                return Reason("unseen-by-workers", text, (code.at(node),), f"bind '{name}' above the guard")
            if name in written:
                text = f"{reads}, which a function sets while the script runs:"
                return Reason("unseen-by-workers", text, (code.at(node),), "pass it to the data set")
    return None


def _why_names_are_changed(code: WorkerCode) -> Reason | None:
    """``opt.root = …`` in code that only the script runs, where a worker reads ``opt.root``."""
    for module in code.flow.modules:
        for guard in (each for each in module.tree.body if is_main_guard(each)):
            for text, node in changes(guard):
                if code.reads(module, text) and module.function(node) is None:
                    return why_unseen(code, text, node)
        for function in (each for each in module.nodes(ast.FunctionDef) if each not in code.functions):
            for text, node in changes(function):
                if code.reads(module, text) and text.partition(".")[0] not in bound_names(function):
                    return why_unseen(code, text, node)
    return None


def _why_set_from_outside(code: WorkerCode) -> Reason | None:
    """``data.SCALE = 2`` in another module, ``mock.patch("data.load")``, where a worker reads the name in its own."""
    return next((why_unseen(code, name, node) for _, node, name in settings_from_outside(code)), None)


def settings_from_outside(code: WorkerCode) -> Iterator[tuple[Module, ast.expr, str]]:
    """Where another module sets a name that a worker reads in its own, and the name."""
    for module in code.flow.beside(code.loader.module):
        for node, owner, name in _settings_from_outside(module):
            homes = {each.name for each in code.flow.values(owner)} if owner is not None else None
            for home, read in code.names_read:
                if read == name and (homes is None or (home is not module and home.name in homes)):
                    yield module, node, name


@lasting  # each loader asks
def _settings_from_outside(module: Module) -> tuple[tuple[ast.expr, ast.expr | None, str], ...]:
    """The nodes of a module that set names in what may be a module."""
    nodes = module.nodes(ast.Attribute, ast.Call)
    return tuple((node, owner, name) for node in nodes for owner, name in _set_from_outside(node))


def _set_from_outside(node: ast.Attribute | ast.Call) -> Iterator[tuple[ast.expr | None, str]]:
    """The names that a node sets in what may be a module, and the module; None where it is named by a text."""
    match node:
        case ast.Attribute(value=owner, attr=name, ctx=ast.Store()):
            yield owner, name
        case ast.Call(func=ast.Name(id="setattr"), args=[owner, ast.Constant(value=str() as name), _]):
            yield owner, name
        case ast.Call(
            func=ast.Name(id="patch") | ast.Attribute(attr="patch"), args=[ast.Constant(value=str() as path), *_]
        ):
            yield None, path.rpartition(".")[2]
        case ast.Call(func=ast.Attribute(attr="object"), args=[owner, ast.Constant(value=str() as name), *_]):
            yield owner, name


def why_unseen(code: WorkerCode, read: str, node: ast.expr) -> Reason:
    """Why workers that are not forked have another value of what the data set reads: the node changes it."""
    text = f"the data set reads '{read}', which the script changes ({HERE}), unseen by workers that are not forked"
    return Reason("unseen-by-workers", text, (code.at(node),))


@kept
def changes(tree: ast.AST) -> tuple[tuple[str, ast.expr], ...]:
    """What code changes without binding a name: ``opt.root`` of ``opt.root = …``, ``cache`` of ``cache.append(…)``."""
    return tuple(_changes(tree))


def _changes(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    for node in walk(tree):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            yield _path(node), node
        elif isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Attribute) and changes_owner(function.attr):
                yield _path(function.value), node
            elif _name(function) in _CHANGING_FIRST and node.args:
                yield _path(node.args[0]), node


def changed_by(change: ast.expr) -> ast.expr:
    """What one of ``changes`` changes: ``steps`` of ``steps.append(crop)`` and of ``steps[0] = crop``."""
    match change:
        case ast.Call(ast.Attribute(owner, method)) if changes_owner(method):
            return owner
        case ast.Call(_, [first, *_]):
            return first
    return getattr(change, "value", change)


def written_by(flow: Flow, call: ast.Call) -> Iterator[ast.expr]:
    """What a call writes into: ``x`` of ``heapq.heappush(x, 1)``, ``x.mul_(2)``, ``rng.shuffle(x)``, ``f(out=x)``."""
    yield from (each.value for each in call.keywords if each.arg == "out")
    names = library_names(flow.values(call.func))
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if (names & CHANGING_FUNCTIONS or method == "shuffle") and call.args:
        yield call.args[0]
    elif not names and changes_owner(method) and isinstance(call.func, ast.Attribute):
        yield call.func.value


def changes_owner(method: str) -> bool:
    """Whether a method of that name changes the list, set, dictionary, array or tensor that it belongs to."""
    row = operator(method)
    in_place = row is not None and row.memory is Memory.SELF and method != "requires_grad_"
    return in_place or method in CHANGING_METHODS | OF_ARRAYS


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _path(node: ast.expr) -> str:
    """The name that an expression is reached from, with its first attribute: ``opt.model[0].size`` → ``opt.model``."""
    path = ""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        path = f".{node.attr}" if isinstance(node, ast.Attribute) else ""
        node = node.value
    return f"{node.id}{path}" if isinstance(node, ast.Name) else ""


def _why_default_is_lost(code: WorkerCode) -> Reason | None:
    for module in code.flow.beside(code.loader.module):
        for call in code.flow.calls_of(module, _DEFAULTS):
            names = library_names(code.flow.values(call.func)) & _DEFAULTS
            if names:
                text = f"workers that are not forked do not see {min(names)}() ({HERE})"
                return Reason("unseen-by-workers", text, (code.at(call),))
    return None


# --- where no process may be started --------------------------------------------------------------------------------


def _why_daemonic(flow: Flow, loader: Loader) -> Reason | None:
    """Where the loader is read in a process that must not start others: one of a pool, or a daemon."""
    started = {function: call for call in _daemons(flow) for function in _given_functions(flow, call)}
    for each in loader.passes:
        for above, _ in around(flow, each.module, each.node):
            if isinstance(above, FUNCTIONS) and above in started:
                name = getattr(above, "name", "a lambda")
                text = f"{name}() reads it in a process that may not start others ({HERE})"
                return Reason("daemonic-process", text, (loader.at(started[above]),))
    return None


@lasting
def _daemons(flow: Flow) -> tuple[ast.Call, ...]:
    """The calls that start pools' tasks and daemonic processes."""
    found = []
    for module in flow.modules:
        stores = [each for each in module.nodes(ast.Attribute) if isinstance(each.ctx, ast.Store)]
        set_later = {ast.unparse(each.value) for each in stores if each.attr == "daemon"}
        for call in module.nodes(ast.Call):
            above = module.parent(call)
            targets = {ast.unparse(each) for each in above.targets} if isinstance(above, ast.Assign) else set()
            is_daemon = any(each.arg == "daemon" and getattr(each.value, "value", True) for each in call.keywords)
            is_process = any("multiprocessing" in name for name in library_names(flow.values(call.func)))
            if (is_process and (is_daemon or targets & set_later)) or _is_task(flow, call):
                found.append(call)
    return tuple(found)


def _is_task(flow: Flow, call: ast.Call) -> bool:
    """``pool.map(train, …)``."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _POOL_METHODS:
        return False
    owners = (each.name for each in flow.values(call.func.value) if isinstance(each, Made))
    return any("multiprocessing" in name and name.endswith("Pool") for name in owners)


def _given_functions(flow: Flow, call: ast.Call) -> Iterator[Callee]:
    for argument in arguments_of(call):
        yield from (each.site for each in flow.values(argument) if isinstance(each.site, FUNCTIONS))


# --- data sets that the script changes ------------------------------------------------------------------------------


def changes_of_what_is_sent(code: WorkerCode) -> Iterator[tuple[Module, ast.expr]]:
    """Where the script changes what workers have copies of.

    The data set (``train_set.size = 3``, ``train_set.set_epoch(epoch)``), or what it, or ``collate_fn``, works with:
    ``collate.length += 1``, ``data.transform.transforms.append(crop)``, ``targets[index] = output`` of its tensor.
    """
    data = _data_sets(code.loader)
    held = frozenset(each for each in code.objects if isinstance(each, _HELD) and each.site is not None) - data
    yield from changes_of_objects(code, held, data)
    for module in code.flow.modules:
        for node in module.attribute_stores.get("collate_fn", ()):
            if code.loader.value in code.flow.values(node.value):
                yield module, node
        yield from ((module, each) for each in _filled(code, module, held))


def changes_of_objects(code: WorkerCode, held: Values, data: Values = NOTHING) -> Iterator[tuple[Module, ast.expr]]:
    """Where the script sets attributes of objects that workers use, or calls methods that change them.

    Args:
        code: What runs in the workers.
        held: Objects of which only that counts what workers read of them.
        data: Those of which everything counts.
    """
    flow = code.flow
    for module in flow.modules:
        for node in module.nodes(ast.Attribute):
            owners = flow.values(node.value)
            if owners & data or (owners & held and _is_read(code, node, owners & held)):
                changes_it = isinstance(node.ctx, ast.Store) or _is_changed_inside(module, node)
                if changes_it or _is_changing_method(flow, node):
                    yield module, node
        for call in module.nodes(ast.Call):
            if (
                "builtins.setattr" in library_names(flow.values(call.func))
                and call.args
                and (data | held) & flow.values(call.args[0])
            ):
                yield module, call


def _filled(code: WorkerCode, module: Module, held: Values) -> Iterator[ast.Subscript]:
    """Where a module writes items of an array that workers have a copy of: ``targets[index] = output``."""
    for item in module.nodes(ast.Subscript):
        if isinstance(item.ctx, ast.Store) and isinstance(item.value, ast.Name):
            arrays = frozenset(each for each in held & code.flow.values(item.value) if is_array(each))
            if arrays and not are_being_made(code, module, item.value, arrays):
                yield item


def are_being_made(code: WorkerCode, module: Module, name: ast.Name, arrays: Values) -> bool:
    """Whether a function fills arrays or lists that it has made, and reads no batch meanwhile: ``out[i] = x``."""
    function = module.function(name)
    if function is None or any(own(function, ast.Yield, ast.YieldFrom, ast.Await)):
        return False
    given = _given(module, function, name)
    if not all(any(each is array.site for each in given) and _is_new(code.flow, array) for array in arrays):
        return False
    run = {function, *Reach(code.flow).functions([function])}
    return not any(each.module.function(each.node) in run for each in code.loader.passes)


def _given(module: Module, function: Callee, name: ast.Name) -> Sequence[ast.expr]:
    """What a name may have been given before it is read, or counted up by ``+=``; nothing where that is not known."""
    if isinstance(name.ctx, ast.Load):
        return reaching(function).given(name) or ()
    stores = [each for each in module.stores.get(name.id, ()) if module.function(each) is function]
    bindings = [each for each in map(module.parent, stores) if not isinstance(each, ast.AugAssign)]
    found = [each.value for each in bindings if isinstance(each, ast.Assign)]
    return found if len(found) == len(bindings) and name.id not in declared_outer(function) else ()


def _is_new(flow: Flow, array: Value) -> bool:
    """Whether it has memory of its own: what ``np.asarray()`` returns may be its argument."""
    if isinstance(array, Container):
        return True
    call = array.site
    if not isinstance(call, ast.Call) or any(each.arg in {"copy", "out"} for each in call.keywords):
        return False
    names = library_names(flow.values(call.func))
    return bool(names) and all(each.removeprefix("numpy.") in _NEW or fills(each) for each in names)


def changes_data_set(code: WorkerCode, node: ast.expr) -> bool:
    """Whether the node changes the data set itself, and not only something that it, or ``collate_fn``, works with."""
    return bool(_data_sets(code.loader) & code.flow.values(changed_by(node)))


def _data_sets(loader: Loader) -> frozenset[Value]:
    return without_none(loader.dataset.values) | set(loader.dataset.parts)


def what_is_changed(code: WorkerCode, node: ast.expr) -> str:
    """What of the loader the node changes, in words."""
    collate = code.loader.arguments.get("collate_fn")
    owners = code.flow.values(node.value) if isinstance(node, ast.Attribute) else frozenset()
    is_collate = code.loader.value in owners or (collate is not None and bool(collate.values & owners))
    return "its collate_fn" if is_collate else "its data set"


_HELD = (Instance, Made, HostTensor)
_NEW = frozenset(FLOATS) | frozenset(CONSTRUCTORS) | COMPUTE
"""Functions of NumPy that make new arrays."""


def is_array(value: Value) -> bool:
    """Whether it is an array, or a tensor on the host."""
    return isinstance(value, HostTensor) or value.name.startswith("numpy.")


def _is_read(code: WorkerCode, node: ast.Attribute, owners: Iterable[Value]) -> bool:
    """Whether workers read the attribute, or call what may: a method, or a library's object."""
    is_method = any(isinstance(each, Method) for each in code.flow.values(node))
    return is_method or node.attr in code.attributes_read or any(isinstance(each, Made) for each in owners)


def _is_changing_method(flow: Flow, node: ast.Attribute) -> bool:
    methods = [each for each in flow.values(node) if isinstance(each, Method) and each.name != "__getitem__"]
    return any(_stores(flow, each, set()) for each in _functions(methods))


def _functions(values: Iterable[Value]) -> Iterator[Callee]:
    return (each.site for each in values if isinstance(each.site, FUNCTIONS))


def _stores(flow: Flow, function: Callee, seen: set[Callee]) -> bool:
    """Whether the method, or one that it calls, writes an attribute, or changes what its object holds."""
    if function in seen:
        return False
    seen.add(function)
    own = signature(function).positional_names[:1]
    shared = frozenset().union(*(_names_of_parts(function, name) for name in own))
    for path, _ in changes(function):
        if _root(path) in shared or (_root(path) in own and "." in path):
            return True
    for node in walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            return True
        if isinstance(node, ast.Call):
            called = [each for each in flow.values(node.func) if isinstance(each, Method)]
            if any(_stores(flow, each, seen) for each in _functions(called)):
                return True
    return False


def _root(path: str) -> str:
    return path.partition(".")[0]


def _names_of_parts(function: Callee, owner: str) -> frozenset[str]:
    """The names that a method gives to what its object holds: ``sample = self.samples[index]``."""
    found: set[str] = set()
    pairs = [(target, each.value) for each in walk(function) if isinstance(each, ast.Assign) for target in each.targets]
    pairs += [(each.target, each.iter) for each in walk(function) if isinstance(each, ast.For)]
    named = [(target.id, _path(value)) for target, value in pairs if isinstance(target, ast.Name)]
    while (
        new := {name for name, path in named if _root(path) in found or (_root(path) == owner and "." in path)} - found
    ):
        found |= new
    return frozenset(found)


def _is_changed_inside(module: Module, node: ast.Attribute) -> bool:
    """``data.targets[i] = 0``, ``data.items.append(x)``, ``random.shuffle(data.order)``."""
    parent = module.parent(node)
    match parent:
        case ast.Subscript(value) if value is node:
            return not isinstance(parent.ctx, ast.Load)
        case ast.Attribute(_, method) if changes_owner(method):
            return isinstance(module.parent(parent), ast.Call)
        case ast.Call(ast.Attribute(_, "shuffle"), [first, *_]):
            return first is node
    return False
