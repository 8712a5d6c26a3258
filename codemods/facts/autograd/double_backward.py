"""Which models are differentiated twice: through whose outputs gradients of gradients are computed."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.recursion import closure
from codemods.dataflow.source import children, lasting, walk
from codemods.dataflow.values import External, Instance, Literal, Method, Value, library_names
from codemods.facts.autograd.hooked import kept_by_hooks
from codemods.facts.models.placement import unwrapped
from codemods.facts.training.iterations import is_backward
from codemods.library.kinds import Kind, kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.facts.models.layers import Model

# Libraries and functions that differentiate gradients, or transform functions in ways that are not followed.
_TRANSFORMS = ("torch.func.", "functorch.", "torch.autograd.functional.", "torch.autograd.forward_ad.")
_DETACHES = frozenset({"detach", "data", "item"})
_NO_GRAPH = frozenset({"torch.no_grad", "torch.inference_mode"})
_POSITIONS = {"torch.autograd.grad": 4, "torch.autograd.backward": 3}
_POSITION_OF_METHOD = 2
"""Where ``create_graph`` stands among the arguments."""
_INPUTS = {"torch.autograd.grad": 1, "torch.autograd.backward": 5}
_INPUTS_OF_METHOD = 3
"""Where ``inputs`` stands."""
_META_LEARNING = ("higher.", "learn2learn.", "torchmeta.", "torchopt.", "betty.")


def differentiated_twice(
    flow: Flow,
    modules: Iterable[Module],
    models: tuple[Model, ...],
    may_run: Callable[[Module, ast.AST], bool] = lambda *_: True,
) -> dict[Value, ast.Call]:
    """The models through which second derivatives are computed, each with the place where they are asked for.

    Where it cannot be seen which models are meant, it is all of them. ``may_run`` says which code runs at all: the
    penalty of another trainer of the project does not.
    """
    found: dict[Value, ast.Call] = {}
    for module in modules:
        for call, involved in _twice_in(flow, module):
            if not may_run(module, call):
                continue
            meant = [each for each in models if each.value in involved or involved & set(each.layers)] or models
            for model in meant:
                found.setdefault(model.value, call)
    return found


def differentiated_inside(flow: Flow, modules: Iterable[Module], model: Model) -> ast.Call | None:
    """Where a gradient is asked for with respect to what the model computes on the way to its output.

    The compiled model is one node of autograd's graph: its outputs do not depend on each other there.
    """
    for module in modules:
        for call in _asking_for_gradients(flow, module):
            if isinstance(call.func, ast.Attribute) and call.func.attr == "retain_grad":
                if _is_part(flow, module, call.func.value, model):
                    return call
            else:
                outputs, inputs = _argument(call, 0, "outputs"), _argument(call, 1, "inputs")
                parts = [each for given in inputs for each in (getattr(given, "elts", None) or [given])]
                if any(_is_part(flow, module, each, model) for each in parts) and (
                    model.value in _Slice(flow).models(module, call, outputs, inputs)
                ):
                    return call
    return None


@lasting  # each model asks
def _asking_for_gradients(flow: Flow, module: Module) -> tuple[ast.Call, ...]:
    """The calls of ``torch.autograd.grad`` and ``retain_grad``."""
    of_torch = {*flow.calls_of(module, {"torch.autograd.grad"})}
    return tuple(
        call
        for call in module.nodes(ast.Call)
        if call in of_torch or (isinstance(call.func, ast.Attribute) and call.func.attr == "retain_grad")
    )


def _is_part(flow: Flow, module: Module, node: ast.expr, model: Model) -> bool:
    """Whether the expression is something that the model or a hook on it kept, or one of several things it returned."""
    if _is_hooked(flow, module, node, model):
        return True
    if isinstance(node, ast.Attribute):
        return model.value in flow.values(node.value) and _is_kept(flow, model, node.attr)
    if not isinstance(node, ast.Name):
        return False
    for target in module.nodes(ast.Name):
        if target.id != node.id or not isinstance(target.ctx, ast.Store):
            continue
        if module.function(target) is not module.function(node):
            continue
        statement = module.statement(target)
        given = statement.value if isinstance(statement, ast.Assign) else None
        several = isinstance(module.parent(target), (ast.Tuple, ast.List)) or isinstance(given, ast.Subscript)
        call = given.value if isinstance(given, ast.Subscript) else given
        if several and isinstance(call, ast.Call):
            called = (layer for each in flow.values(call.func) for layer in _models_in(flow, each))
            if model.value in called:
                return True
    return False


def _is_hooked(flow: Flow, module: Module, node: ast.expr, model: Model) -> bool:
    """Whether the expression comes from what a hook keeps that hangs on the model or a layer, as far as is seen."""
    parts = {model.value, *model.layers}
    kept = [
        each
        for where in flow.modules
        for each in kept_by_hooks(flow, where)
        if not each.owners or each.owners & parts or any(kind(flow, one) is not Kind.MODEL for one in each.owners)
    ]
    return bool(kept) and any(each.is_named(flow, one) for one in _sources(flow, module, node) for each in kept)


def _sources(flow: Flow, module: Module, node: ast.expr) -> Iterator[ast.AST]:
    """What an expression is made of: there, where its names are assigned, and where callers give them."""
    todo, seen = [(module, node)], {node}
    while todo:
        where, given = todo.pop()
        for each in walk(given):
            yield each
            scope = where.function(each)
            if not isinstance(each, ast.Name):
                continue
            before = [(where, one.value) for one in where.assignments(each)]
            before += _arguments(flow, scope, each.id) if scope is not None else ()
            todo += (one for one in before if one[1] not in seen)
            seen.update(one for _, one in before)


def _models_in(flow: Flow, value: Value) -> Iterator[Value]:
    return unwrapped(flow, value) if kind(flow, value) is Kind.MODEL else iter(())


def _is_kept(flow: Flow, model: Model, attribute: str) -> bool:
    """Whether a method of the model's class, other than the one that makes it, sets the attribute."""
    classes = flow.project_bases(model.class_) if model.class_ is not None else ()
    return any(
        isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr == attribute
        for class_ in classes
        for method in class_.body
        if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) and method.name != "__init__"
        for node in walk(method)
    )


@lasting
def _twice_in(flow: Flow, module: Module) -> tuple[tuple[ast.Call, set[Value]], ...]:
    """The calls in a module whose gradients may be differentiated again, each with the models that are involved."""
    found = []
    for call in module.nodes(ast.Call):
        parts = _differentiated(flow, call)
        if parts is not None:
            found.append((call, _Slice(flow).models(module, call, *parts)))
    return tuple(found)


@lasting  # each model asks
def differentiated(flow: Flow, module: Module, call: ast.Call) -> frozenset[Value]:
    """The models through which a call computes gradients, as far as they are seen."""
    return frozenset(_Slice(flow).models(module, call, *_outputs_and_inputs(flow, call)))


def _outputs_and_inputs(flow: Flow, call: ast.Call) -> tuple[list[ast.expr], list[ast.expr]]:
    """What a call differentiates, and with respect to what."""
    is_function = bool(library_names(flow.values(call.func)) & _POSITIONS.keys())
    if isinstance(call.func, ast.Attribute) and call.func.attr == "backward" and not is_function:
        return [call.func.value], asked_for(flow, call)
    return _argument(call, 0, "outputs") or _argument(call, 0, "tensors"), asked_for(flow, call)


def asked_for(flow: Flow, call: ast.Call) -> list[ast.expr]:
    """What a call that computes gradients says that they are asked for of; nothing where it is all that have some."""
    names = library_names(flow.values(call.func)) & _POSITIONS.keys()
    return _argument(call, min((_INPUTS[each] for each in names), default=_INPUTS_OF_METHOD), "inputs")


def _differentiated(flow: Flow, call: ast.Call) -> tuple[list[ast.expr], list[ast.expr]] | None:
    """What is differentiated so that it can be differentiated again, and with respect to what; None for other calls."""
    names = library_names(flow.values(call.func))
    if any(name.startswith((*_TRANSFORMS, *_META_LEARNING)) for name in names):
        return list(call.args), []
    return _outputs_and_inputs(flow, call) if keeps_graph(flow, call) else None


def _argument(call: ast.Call, position: int, name: str) -> list[ast.expr]:
    given = [each.value for each in call.keywords if each.arg == name]
    return given or list(call.args[position : position + 1])


class _Slice:
    """Follows an expression backwards to the calls of models that it comes from."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._seen: set[ast.AST] = set()
        self._found: set[Value] = set()
        self._stops: frozenset[str] = frozenset()

    def models(self, module: Module, call: ast.Call, outputs: list[ast.expr], inputs: list[ast.expr]) -> set[Value]:
        """The models between ``inputs`` and ``outputs`` of a call, the one within whose code it stands among them."""
        self._stops = frozenset(self._names(module, inputs))
        for output in outputs:
            self._follow(module, output)
        for above in module.ancestors(call):
            if isinstance(above, ast.ClassDef):
                self._found.update(value for value in self._instances(above) if kind(self._flow, value) is Kind.MODEL)
        return self._found

    def _names(self, module: Module, inputs: list[ast.expr]) -> Iterator[str]:
        """The names of what is differentiated by, in the function and, of its parameters, where it is called."""
        for _, node in closure([(module, node) for node in inputs], self._given_for):
            yield from (each.id for each in walk(node) if isinstance(each, ast.Name))

    def _given_for(self, place: tuple[Module, ast.expr]) -> Iterator[tuple[Module, ast.expr]]:
        """What callers give for the parameters in an expression."""
        module, node = place
        for name in (each for each in walk(node) if isinstance(each, ast.Name)):
            scope = module.function(name)
            if scope is not None:
                yield from _arguments(self._flow, scope, name.id)

    def _instances(self, class_: ast.ClassDef) -> Iterator[Value]:
        """The objects of the class that the script makes."""
        for module in self._flow.modules:
            for call in module.nodes(ast.Call):
                yield from (
                    each
                    for each in self._flow.values(call)
                    if each.site is call and isinstance(each, Instance) and each.of.site is class_
                )

    def _follow(self, module: Module, node: ast.AST) -> None:
        todo = [node]
        while todo:
            each = todo.pop()
            if each in self._seen or (isinstance(each, ast.Attribute) and each.attr in _DETACHES):
                continue
            self._seen.add(each)
            todo.extend(children(each))
            if isinstance(each, ast.Call):
                self._follow_call(each)
            elif isinstance(each, (ast.Name, ast.Attribute)) and isinstance(each.ctx, ast.Load):
                self._follow_name(module, each)

    def _follow_call(self, call: ast.Call) -> None:
        for callee in self._flow.values(call.func):
            if kind(self._flow, callee) is Kind.MODEL:
                self._found.update(unwrapped(self._flow, callee))
            elif isinstance(callee, Method) and kind(self._flow, callee.of) is Kind.MODEL:
                self._found.add(callee.of)
            else:
                function = self._flow.run_by(callee)
                if function is not None:
                    self._follow(self._flow.module_of(function), function)

    def _follow_name(self, module: Module, name: ast.Name | ast.Attribute) -> None:
        """Goes on at the assignments of a name in its function, and at what callers give for a parameter."""
        written = ast.unparse(name)
        if written in self._stops:
            return
        if any(kind(self._flow, each) is Kind.MODEL for each in self._flow.values(name)):
            # A model that is handed on: a function of it is differentiated.
            parent = module.parent(name)
            if not (isinstance(parent, ast.Call) and parent.func is name) and not isinstance(parent, ast.Attribute):
                self._found.update(each for each in self._flow.values(name) if kind(self._flow, each) is Kind.MODEL)
            return
        scope = module.function(name)
        for target in module.stores.get(written, ()):
            statement = module.statement(target)
            given = getattr(statement, "value", None)
            if (
                given is not None
                and not self._is_without_graph(module, statement)
                and (isinstance(name, ast.Attribute) or module.function(target) is scope)
            ):
                self._follow(module, given)
        if scope is not None and isinstance(name, ast.Name):
            for where, argument in _arguments(self._flow, scope, name.id):
                self._follow(where, argument)

    def _is_without_graph(self, module: Module, statement: ast.stmt) -> bool:
        """Whether the statement stands under ``torch.no_grad()``."""
        return any(
            each.name in _NO_GRAPH
            for above in module.ancestors(statement)
            if isinstance(above, ast.With)
            for item in above.items
            for each in self._flow.values(item.context_expr)
        )


def _arguments(flow: Flow, function: Callee, parameter: str) -> Iterator[tuple[Module, ast.expr]]:
    """What the callers of a function of the project give for a parameter."""
    for call in flow.callers(function):
        where = next((each for each in flow.modules if each.holds(call)), None)
        if where is not None:
            yield from ((where, each) for each in flow.bind(function, call).candidates(parameter))


def keeps_graph(flow: Flow, call: ast.Call) -> bool:
    """Whether a call that computes gradients may be asked to let them be differentiated again: ``create_graph=True``.

    What is handed on from a parameter counts by what its default and its callers say.
    """
    values, is_open = _given(flow, call, "create_graph", 0)
    return is_open or (values is not None and not _all_say(values, wanted=False))


def retains(flow: Flow, call: ast.Call) -> bool:
    """Whether a call that computes gradients may keep the graph: ``retain_graph=True``, or what needs it."""
    values, is_open = _given(flow, call, "retain_graph", 1)
    return is_open or (values is not None and not _all_say(values, wanted=False)) or keeps_graph(flow, call)


def surely_retains(flow: Flow, call: ast.Call) -> bool:
    """Whether it keeps the graph whenever it is called."""
    values, _ = _given(flow, call, "retain_graph", 1)
    return values is not None and _all_say(values, wanted=True)


def _all_say(values: list[Value], *, wanted: bool) -> bool:
    return bool(values) and all(isinstance(each, Literal) and bool(each.value) is wanted for each in values)


def _given(flow: Flow, call: ast.Call, name: str, before: int) -> tuple[list[Value] | None, bool]:
    """What a call that computes gradients is given by that name, so far before ``create_graph``.

    None where it is given nothing; and whether what it unpacks may give it something.
    """
    given = [each.value for each in call.keywords if each.arg == name]
    # Where there is nothing to be found by it, the position is not asked for: that takes longest.
    position = _position(flow, call) if call.args or any(each.arg is None for each in call.keywords) else None
    is_open = False
    if position is not None:
        given += call.args[position - before : position - before + 1]
        is_open = any(each.arg is None and _may_name(flow, each.value, name) for each in call.keywords)
    return [value for each in given for value in flow.values(each)] if given else None, is_open


def _position(flow: Flow, call: ast.Call) -> int | None:
    """Where ``create_graph`` may be given by position; None where the call is not known to compute gradients."""
    for callee in flow.values(call.func):
        if isinstance(callee, External) and callee.name in _POSITIONS:
            return _POSITIONS[callee.name]
    is_method = isinstance(call.func, ast.Attribute) and not any(
        isinstance(each, External)
        for each in flow.values(call.func)  # ``torch.distributed.autograd.backward``
    )
    return _POSITION_OF_METHOD if is_method and is_backward(flow, call) else None


def _may_name(flow: Flow, options: ast.expr, name: str) -> bool:
    """Whether the dict that a call unpacks may give it an argument of this name."""
    displays = [each.site for each in flow.values(options)]
    keys = [key for each in displays if isinstance(each, ast.Dict) for key in each.keys]
    is_known = bool(displays) and all(isinstance(each, ast.Dict) for each in displays)
    return not is_known or any(not isinstance(key, ast.Constant) or key.value == name for key in keys)
