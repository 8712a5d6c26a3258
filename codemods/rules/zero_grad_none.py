"""Rule ``zero-grad-none``: gradients are dropped, not filled with zeros."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.codemod import Codemod, Leaves, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.dataflow.source import walk
from codemods.dataflow.values import Sort, Value, Values, without_none
from codemods.editing.values import AddArgument, Remove, RemoveArgument, Replace
from codemods.facts.autograd.coverage import depends, why_gradients_may_miss
from codemods.facts.models.layers import Model
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.iterations import EventKind
from codemods.library.kinds import Kind, always, kind, may, why

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.codemod import Finding
    from codemods.dataflow.source import Module
    from codemods.editing.values import Edit
    from codemods.facts.reason import Place
    from codemods.facts.script import Script
    from codemods.facts.training.iterations import Event, TrainingIteration

_MESSAGE = "gradients are filled with zeros instead of dropped"
_DEFAULT = (2, 0)
"""The torch from which ``set_to_none`` is the default."""
_INTRODUCED = (1, 7)
_FIRST = (0, 4)
"""The torch that runs what is written without ``set_to_none``."""
_NO_GAIN = "none on torch >= 2.0, 0-2 % before"
_GRAPHS = frozenset({"torch.cuda.graph", "torch.cuda.CUDAGraph", "torch.cuda.make_graphed_callables"})
_ANNOTATIONS = frozenset({"torch.optim.Optimizer", "optim.Optimizer", "Optimizer", "torch.nn.Module", "nn.Module"})
_DEEPEST = 5
"""Calls are followed back so far."""
_NEVER_ZEROED = frozenset({Kind.LOADER, Kind.DATASET, Kind.SCHEDULER, Kind.SCALER, Kind.DEVICE})
_TENSORS = frozenset({Sort.BATCH, Sort.HOST, Sort.MOVED})
_MISSES = "parameters without gradient would no longer be updated by momentum or weight decay"


class ZeroGradNone(Codemod):
    """Drops gradients instead of filling them with zeros (``zero_grad(set_to_none=True)``).

    Why it is faster:
        One pass over the memory of all gradients less, and the next backward writes instead of adding. Since torch 2.0
        it is the default of ``zero_grad()``: there only ``set_to_none=False`` and zeroing by hand cost something. Where
        the script is known to run on torch 2 (``--target-torch``, a requirement beside it), plain calls are left alone;
        where nothing is known, and the script uses nothing that torch 2 brought, they are made explicit if every
        parameter surely gets a gradient, and no more is said.

    When it is left:
        A parameter may get no gradient in an iteration: a zero gradient still applies momentum and weight decay, a
        missing one does not. Gradients are read before they are computed again, or kept. What is zeroed is not known.

    Results:
        The same values, bit for bit.

    References:
        ``torch.optim.Optimizer.zero_grad``; PyTorch performance tuning guide, "Use parameter.grad = None".
    """

    promise = Promise.BITWISE
    gain = "0-2 %"
    min_torch = _INTRODUCED
    needs_cuda = False
    causes = words(
        """
        framework gradients-may-miss gradients-read own-method single-tensor unknown-arguments unknown-optimizer
        unseen-step
        """
    )
    failures = (r"'NoneType' object has no attribute '(data|zero_|grad|detach_|norm|add_|mul_|clamp_)'",)
    examples = (
        Rewrites(
            before="""\
import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(10, 8, 4):
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
""",
            after="""\
import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(10, 8, 4):
    optimizer.zero_grad(set_to_none=True)
    model(x).mean().backward()
    optimizer.step()
""",
        ),
        Rewrites(
            target=(2, 1),
            before="""\
import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(10, 8, 4):
    for p in model.parameters():
        if p.grad is not None:
            p.grad.zero_()
    model(x).mean().backward()
    optimizer.step()
""",
            after="""\
import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(10, 8, 4):
    model.zero_grad()
    model(x).mean().backward()
    optimizer.step()
""",
        ),
        Leaves(
            code="""\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.near, self.far = nn.Linear(4, 1), nn.Linear(4, 1)

    def forward(self, x):
        return self.near(x) if x.sum() > 0 else self.far(x)


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for x in torch.randn(10, 8, 4):
    optimizer.zero_grad(set_to_none=False)
    model(x).mean().backward()
    optimizer.step()
""",
            because=f"{_MISSES}: forward has a branch (line 11)",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every place of the entry script that zeroes gradients."""
        module = script.module
        doubles = dict(_doubles(script))
        for call in module.nodes(ast.Call):
            if isinstance(call.func, ast.Attribute) and call.func.attr == "zero_grad":
                if call in doubles:
                    yield self.rewrites(
                        module,
                        call,
                        f"{doubles[call]} zeroes the same gradients",
                        Remove(module, module.statement(call)),
                        since=_FIRST,
                    )
                else:
                    yield from self._call(script, module, call, call.func)
        loops: set[ast.For] = set()
        for statement in module.nodes(ast.Expr, ast.AugAssign, ast.Assign):
            parameter = _zeroed(statement)
            loop = None if parameter is None else _loop_over(module, statement, parameter)
            if loop is not None and loop not in loops:
                loops.add(loop)
                yield self._by_hand(script, module, loop)
            elif parameter is not None and loop is None:
                because = Reason("single-tensor", "the gradient of a single tensor is zeroed")
                yield self.left(module, statement, because)

    # Calls of zero_grad.

    def _call(self, script: Script, module: Module, call: ast.Call, func: ast.Attribute) -> Iterator[Finding]:
        given = next((each for each in call.keywords if each.arg == "set_to_none"), None)
        value = given.value if given is not None else call.args[0] if call.args else None
        if value is None:
            if not _drops_by_default(script) and (script.target.known or script.newest_used) < _DEFAULT:
                yield from self._plain(script, module, call, func)
        elif isinstance(value, ast.Constant) and not value.value:
            reason = _why_not_zeroable(script, func) or _why_not_exactly(script, call, _zeroable(script, func.value))
            if reason is not None:
                yield self.left(module, call, reason)
            elif _drops_by_default(script):
                yield self.rewrites(module, call, _MESSAGE, RemoveArgument(module, call, given or value))
            else:
                yield self.rewrites(module, call, _MESSAGE, Replace(module, value, "True"))

    def _plain(self, script: Script, module: Module, call: ast.Call, func: ast.Attribute) -> Iterator[Finding]:
        """``zero_grad()``, which drops gradients by itself since torch 2."""
        is_old = not script.target.may_be(_DEFAULT) or script.target.known is not None
        if call.keywords:
            if is_old:
                because = Reason("unknown-arguments", "set_to_none may be among its ** arguments")
                yield self.left(module, call, because)
            return
        reason = _why_not_zeroable(script, func) or _why_not_exactly(script, call, _zeroable(script, func.value))
        if reason is not None:
            # Most scripts of which nothing is known run on torch 2, where there is nothing to change.
            if is_old:
                yield self.left(module, call, reason)
            return
        edit = AddArgument(module, call, "set_to_none", "True")
        yield self.rewrites(module, call, _MESSAGE, edit, gain=self.gain if is_old else _NO_GAIN, fails=is_old)

    # Loops that zero by hand.

    def _by_hand(self, script: Script, module: Module, loop: ast.For) -> Finding:
        """``for p in model.parameters(): p.grad.zero_()`` and its variants."""
        outer = module.parent(loop)
        owner = _owner_of_parameters(loop)
        whole: ast.For = loop
        wanted = Kind.MODEL
        if owner is None and isinstance(outer, ast.For) and len(outer.body) == 1 and not outer.orelse:
            owner, whole, wanted = _owner_of_groups(outer, loop), outer, Kind.OPTIMIZER
        is_all = owner is not None and _only_zeroes(loop) and always(script.flow, script.flow.values(owner), wanted)
        owners = script.flow.values(owner) if owner is not None and is_all else _owners_of(script, loop)
        if not owners:
            because = Reason("unknown-optimizer", "what the zeroed parameters belong to is not known")
            return self.left(module, loop, because)
        reason = _why_not_exactly(script, loop, owners)
        if reason is not None:
            return self.left(module, loop, reason)
        if owner is None or not is_all or not script.target.allows(_INTRODUCED):
            return self.rewrites(module, loop, _MESSAGE, *_dropped_in_place(module, loop), since=_FIRST)
        argument = "" if _drops_by_default(script) else "set_to_none=True"
        edit = Replace(module, whole, f"{{owner}}.zero_grad({argument})", (("owner", owner),))
        return self.rewrites(module, whole, _MESSAGE, edit)


def _drops_by_default(script: Script) -> bool:
    return script.target.reaches(_DEFAULT)


def _doubles(script: Script) -> Iterator[tuple[ast.Call, str]]:
    """Calls next to another one that zeroes their gradients too, each with how the other is written.

    Where both zero the same gradients, the model's call goes and the optimizer's stays.
    """
    module = script.module
    for statement in module.nodes(ast.Expr):
        suite = module.suite(statement)
        index = next(i for i, each in enumerate(suite) if each is statement)
        following = suite[index + 1] if index + 1 < len(suite) else None
        pair = [
            each.value
            for each in (statement, following)
            if isinstance(each, ast.Expr) and _is_plain_zero_grad(each.value)
        ]
        if len(pair) != 2:  # noqa: PLR2004 - two neighbours
            continue
        for call, other in (pair, pair[::-1]):
            parameters = _parameters_zeroed(script, call)
            others = _parameters_zeroed(script, other)
            if parameters and others and parameters <= others and (parameters < others or _is_model(script, call)):
                yield call, ast.unparse(other)  # type: ignore[misc]
                break


def _is_plain_zero_grad(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "zero_grad"
        and not (node.args or node.keywords)
    )


def _is_model(script: Script, call: ast.expr) -> bool:
    return always(script.flow, script.flow.values(call.func.value), Kind.MODEL)  # type: ignore[attr-defined]


def _parameters_zeroed(script: Script, call: ast.expr) -> frozenset[Value] | None:
    """The layers whose parameters the call surely zeroes, and no others; None where that is not known."""
    owners = without_none(script.flow.values(call.func.value))  # type: ignore[attr-defined]
    models = _models_of(script, owners) if len(owners) == 1 else None
    if models is None or len(models) != 1 or _adds_parameters(script) is not None:
        return None
    return frozenset(models[0].layers)


def _why_not_zeroable(script: Script, func: ast.Attribute) -> Reason | None:
    """Why ``zero_grad`` may not be torch's."""
    own = next((each.site for each in script.flow.values(func) if each.sort is Sort.METHOD), None)
    if own is not None:
        home = next((each for each in script.flow.modules if each.holds(own)), script.module)
        return Reason("own-method", f"zero_grad() is the script's own ({HERE})", (at(home, own),))
    if _annotation(script.module, func.value) in _ANNOTATIONS:
        return None
    values = _zeroable(script, func.value)
    others = frozenset(each for each in values if kind(script.flow, each) not in {Kind.OPTIMIZER, Kind.MODEL})
    if others and script.is_accelerated and all(each.sort is Sort.UNKNOWN for each in others):
        text = "the training step runs inside Accelerate, whose optimizer decides how gradients are zeroed"
        return Reason("framework", text)
    if others or not values:
        text = f"what is zeroed is not known to be an optimizer or a model: {why(script.flow, others, Kind.OPTIMIZER)}"
        return Reason("unknown-optimizer", text)
    return None


def _zeroable(script: Script, node: ast.expr) -> Values:
    """What the expression may be where it has gradients to be zeroed.

    One function that makes whatever the configuration names returns loaders, models and optimizers alike.
    """
    values = without_none(script.flow.values(node))
    return frozenset(each for each in values if kind(script.flow, each) not in _NEVER_ZEROED) or values


def _annotation(module: Module, node: ast.expr) -> str | None:
    """What the parameter that the expression is says of its type."""
    function = module.function(node)
    if not isinstance(node, ast.Name) or function is None or isinstance(function, ast.Lambda):
        return None
    arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    found = next((each.annotation for each in arguments if each.arg == node.id), None)
    return None if found is None else ast.unparse(found).strip("'\"")


# Z2 to Z4: who else looks at gradients.


def _why_seen(script: Script, place: ast.AST) -> Reason | None:
    """Why somebody may see that gradients are gone, or None."""
    read = _read_while_zero(script, place)
    if read is not None:
        return Reason("gradients-read", f"a gradient is read before it is computed again ({HERE})", (at(*read),))
    for module in script.modules:
        kept = _kept(script, module)
        if kept is not None:
            return Reason("gradients-read", f"gradients are kept by reference ({HERE})", (at(module, kept),))
        for node in module.nodes(ast.Call):
            if any(each.sort is Sort.EXTERNAL and each.name in _GRAPHS for each in script.flow.values(node.func)):
                text = f"a CUDA graph holds on to the gradients ({HERE})"
                return Reason("gradients-read", text, (at(module, node),))
    return None


def _read_while_zero(script: Script, place: ast.AST) -> tuple[Module, ast.AST] | None:
    """A gradient that is read after this zeroing and before the next backward, in whichever pass of the loop."""
    inside = set(walk(place))
    for iteration in script.iterations:
        zeroed = False
        for event in (*iteration.events, *iteration.events):
            if event.kind is EventKind.BACKWARD:
                zeroed = False
            elif _zeroes(event, inside):
                zeroed = True
            elif zeroed and _reads(event):
                return event.module, event.node
    return None


def _zeroes(event: Event, inside: set[ast.AST]) -> bool:
    """Whether the event is the zeroing that is looked at."""
    is_zero = event.kind is EventKind.ZERO or _zeroed(event.module.statement(event.node)) is not None
    return is_zero and event.node in inside


def _reads(event: Event) -> bool:
    """Whether the event reads a gradient, and not only to zero it."""
    if event.kind is not EventKind.GRADIENT or isinstance(event.node, ast.Call):
        return False
    statement = event.module.statement(event.node)
    asks = isinstance(statement, ast.If) and any(_zeroed(each) for each in statement.body)
    return not asks and not _detaches(statement) and _zeroed(statement) is None


def _read_outside(script: Script, place: ast.AST) -> tuple[Module, ast.AST] | None:
    """A gradient that is read where its order to the zeroing is not followed: after the loop, or by its name."""
    followed = {event.node for iteration in script.iterations for event in iteration.events} | set(walk(place))
    for module in script.modules:
        for loop in module.nodes(ast.For):
            if _only_zeroes(loop):
                followed |= set(walk(loop))
        for node in module.nodes(ast.Attribute, ast.Constant):
            if node not in followed and _reads_a_gradient(script, module, node):
                return module, node
    return None


def _reads_a_gradient(script: Script, module: Module, node: ast.Attribute | ast.Constant) -> bool:
    """Whether it is ``p.grad``, or ``"grad"`` as an argument: ``getattr(p, "grad")``."""
    if isinstance(node, ast.Constant):
        return node.value == "grad" and isinstance(module.parent(node), ast.Call)
    if node.attr != "grad" or not isinstance(node.ctx, ast.Load):
        return False
    is_of_library = any(each.sort is Sort.EXTERNAL for each in script.flow.values(node.value))
    return not is_of_library and not _is_of_a_batch(script, node.value)


def _kept(script: Script, module: Module) -> ast.expr | None:
    """Where a gradient itself, not what is computed from it, is kept: it would not be the one that is used later."""
    for node in module.nodes(ast.Attribute):
        parent = module.parent(node)
        if node.attr != "grad" or _is_of_a_batch(script, node.value) or _is_looked_at(script, module, node):
            continue
        if isinstance(node.ctx, ast.Store):
            # The gradient is made a part of another tensor, `p.grad = flat[a:b]`.
            made = isinstance(parent, ast.Assign) and isinstance(parent.value, (ast.Subscript, ast.Name, ast.Call))
            if made and parent is not None and _zeroed(parent) is None:
                return node
            continue
        while isinstance(parent, ast.Attribute) and parent.attr == "data":
            parent = module.parent(parent)
        if isinstance(
            parent, (ast.ListComp, ast.SetComp, ast.DictComp, ast.List, ast.Tuple, ast.Dict, ast.Return, ast.Assign)
        ):
            return node
        if (
            isinstance(parent, ast.Call)
            and isinstance(parent.func, ast.Attribute)
            and parent.func.attr in {"append", "put"}
        ):
            return node
    return next(
        (
            call
            for call in module.nodes(ast.Call)
            if any(each.arg == "gradient_as_bucket_view" for each in call.keywords)
        ),
        None,
    )


def _is_looked_at(script: Script, module: Module, node: ast.Attribute) -> bool:
    """Whether it is ``grad = p.grad`` in an optimizer of the script's own, which every step looks at anew."""
    owner = next((each for each in module.ancestors(node) if isinstance(each, ast.ClassDef)), None)
    statement = module.statement(node)
    return (
        owner is not None
        and kind(script.flow, script.instance_of(owner)) is Kind.OPTIMIZER
        and isinstance(statement, ast.Assign)
        and all(isinstance(each, ast.Name) for each in statement.targets)
    )


def _is_of_a_batch(script: Script, node: ast.expr) -> bool:
    """Whether the tensor is a part of a loader's batch, and so no parameter."""
    values = script.flow.values(node)
    return bool(values) and all(each.sort in _TENSORS and each.of is not None for each in values)


# Z1: does every parameter get a gradient?


def _why_not_exactly(script: Script, place: ast.AST, owners: Values) -> Reason | None:
    """Why results may change when gradients are dropped that the script says are to be zeros."""
    seen = _why_seen(script, place)
    if seen is not None:
        return seen
    read = _read_outside(script, place)
    if read is not None:
        return Reason("gradients-read", f"a gradient is read outside the training iteration ({HERE})", (at(*read),))
    models = _models_of(script, owners)
    if models is None:
        return _misses("its parameters are not known")
    if len(script.optimizers) > 1:
        return _misses("there are several optimizers")
    added = _adds_parameters(script)
    if added is not None:
        return _misses(f"parameters are added later ({HERE})", at(*added))
    unfrozen = _toggles_gradients(script)
    if unfrozen is not None:
        return _misses(f"parameters are frozen or unfrozen ({HERE})", at(*unfrozen))
    for model in models:
        missing = why_gradients_may_miss(model)
        if missing is not None:
            return missing.following(f"{_MISSES}: ")
    return _why_not_every_time(script, place, models)


def _misses(why_: str, *places: Place) -> Reason:
    return Reason("gradients-may-miss", f"{_MISSES}: {why_}", places)


def _why_not_every_time(script: Script, place: ast.AST, models: list[Model]) -> Reason | None:
    """Why there may be a step between this zeroing and the next backward through the models."""
    inside = set(walk(place))
    found = False
    for iteration in script.iterations:
        if not any(event.node in inside for event in iteration.events):
            continue
        found = True
        zeroed = False
        for event in (*iteration.events, *iteration.events):
            if _zeroes(event, inside):
                zeroed = True
            elif event.kind is EventKind.BACKWARD and zeroed and _reaches(script, iteration, event, models):
                zeroed = False
            elif zeroed and (event.kind is EventKind.STEP or _reads(event)):
                return _misses("no loss is seen that surely depends on the whole model before each step")
    return None if found else Reason("unseen-step", "it is not part of a training iteration that can be seen")


def _reaches(script: Script, iteration: TrainingIteration, event: Event, models: list[Model]) -> bool:
    """Whether the backward is computed in every pass, from a loss that depends on each of the models."""
    if not isinstance(event.node, ast.Call) or not isinstance(event.node.func, ast.Attribute):
        return False
    if event.frame is not iteration.module.function(iteration.owner):
        return False
    for above in iteration.module.ancestors(event.node):
        if above is iteration.owner:
            break
        if not isinstance(above, (ast.expr, ast.Expr, ast.With)):
            return False
    body = list(_straight(getattr(iteration.owner, "body", [])))
    return all(
        depends(script.flow, event.node.func.value, body, lambda call, model=model: _calls(script, call, model))  # type: ignore[misc]
        for model in models
    )


def _calls(script: Script, call: ast.Call, model: Model) -> bool:
    return model.value in script.flow.values(call.func)


def _straight(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, ast.With):
            yield from _straight(statement.body)
        else:
            yield statement


def _models_of(script: Script, owners: Values) -> list[Model] | None:
    """The models whose parameters the optimizer (or the model itself) zeroes; None where that is not known."""
    found: dict[Value, Model] = {}
    for owner in without_none(owners):
        values = frozenset({owner})
        if kind(script.flow, owner) is Kind.OPTIMIZER:
            if owner.sort is not Sort.MADE or not isinstance(owner.site, ast.Call):
                return None
            named = [each.value for each in owner.site.keywords if each.arg == "params"]
            given = (
                without_none(script.flow.values((owner.site.args or named)[0]))
                if owner.site.args or named
                else frozenset()
            )
            if not given or not all(
                each.name == "torch.nn.Module.parameters" and each.of is not None for each in given
            ):
                return None
            values = frozenset(each.of for each in given if each.of is not None)
        for value in values:
            if not _is_one(script, value):
                return None
            found[value] = Model(script.flow, value)
    return list(found.values())


def _is_one(script: Script, value: Value) -> bool:
    """Whether the value is one object, and not several that are made at the same place."""
    site = value.site
    for _ in range(_DEEPEST):
        module = next((each for each in script.flow.modules if site is not None and each.holds(site)), None)
        if module is None or site is None:
            return False
        for above in module.ancestors(site):
            if isinstance(above, (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.DictComp, ast.GeneratorExp)):
                return False
        function = module.function(site)
        if function is None:
            return True
        calls = script.flow.callers(function)
        if not calls:
            return True
        if len(calls) > 1:
            return False
        site = calls[0]
    return False


def _adds_parameters(script: Script) -> tuple[Module, ast.Attribute] | None:
    """Where an optimizer is given more parameters."""
    attributes = ((module, each) for module in script.modules for each in module.nodes(ast.Attribute))
    return next(((module, each) for module, each in attributes if each.attr == "add_param_group"), None)


def _toggles_gradients(script: Script) -> tuple[Module, ast.Attribute] | None:
    """Where parameters are frozen or unfrozen."""
    for module in script.modules:
        for node in module.nodes(ast.Attribute):
            is_set = node.attr == "requires_grad" and isinstance(node.ctx, ast.Store)
            if is_set and not _is_of_a_batch(script, node.value):
                return module, node
            if node.attr == "requires_grad_" and may(script.flow, script.flow.values(node.value), Kind.MODEL):
                return module, node
    return None


# Zeroing by hand, as it is written.


def _owner_of_parameters(loop: ast.For) -> ast.expr | None:
    """``model`` of ``for p in model.parameters()`` and of ``for name, p in model.named_parameters()``."""
    call = loop.iter
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and not call.args and not call.keywords:
        if call.func.attr == "parameters" and isinstance(loop.target, ast.Name):
            return call.func.value
        if call.func.attr == "named_parameters" and isinstance(loop.target, ast.Tuple):
            return call.func.value
    return None


def _owner_of_groups(outer: ast.For, inner: ast.For) -> ast.expr | None:
    """``optimizer`` of ``for group in optimizer.param_groups: for p in group["params"]``."""
    match outer, inner:
        case (
            ast.For(ast.Name(group), ast.Attribute(owner, "param_groups")),
            ast.For(ast.Name(), ast.Subscript(ast.Name(indexed), ast.Constant("params"))),
        ) if group == indexed:
            return owner
    return None


def _owners_of(script: Script, loop: ast.For) -> Values:
    """The models whose parameters the loop goes through, as far as all of them are known."""
    target = loop.target.elts[-1] if isinstance(loop.target, ast.Tuple) else loop.target
    values = script.flow.values(target)
    if not values or not all(each.name == "torch.nn.Parameter" and each.of is not None for each in values):
        return frozenset()
    return frozenset(each.of for each in values if each.of is not None)


def _loop_over(module: Module, statement: ast.stmt, parameter: str) -> ast.For | None:
    """The loop that binds the parameter whose gradient the statement zeroes."""
    for above in module.ancestors(statement):
        if isinstance(above, ast.For) and any(
            isinstance(each, ast.Name) and each.id == parameter for each in walk(above.target)
        ):
            return above
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            break
    return None


def _only_zeroes(loop: ast.For) -> bool:
    """Whether the loop does nothing but zero the gradient of each parameter."""
    body = loop.body
    if len(body) == 1 and isinstance(body[0], ast.If) and not body[0].orelse and _asks_for_gradient(body[0].test):
        body = body[0].body
    return not loop.orelse and _zeroed(body[-1]) is not None and all(_detaches(each) for each in body[:-1])


def _dropped_in_place(module: Module, loop: ast.For) -> Iterator[Edit]:
    """``p.grad.zero_()`` → ``p.grad = None``."""
    for node in walk(loop):
        if isinstance(node, ast.stmt) and _detaches(node):
            yield Remove(module, node)
        elif isinstance(node, ast.stmt) and _zeroed(node) is not None:
            yield Replace(module, node, f"{_zeroed(node)}.grad = None")


def _zeroed(statement: ast.AST) -> str | None:
    """``p`` of ``p.grad.zero_()``, ``p.grad.data.fill_(0)``, ``p.grad *= 0`` and the like."""
    match statement:
        case ast.AugAssign(target, ast.Mult(), ast.Constant(0)):
            return _gradient_of(target)
        case ast.Expr(ast.Call(ast.Attribute(target, "zero_"), [])):
            return _gradient_of(target)
        case ast.Expr(ast.Call(ast.Attribute(target, "fill_" | "mul_"), [ast.Constant(0)])):
            return _gradient_of(target)
        case ast.Assign([target], value) if _makes_zeros(value):
            return _gradient_of(target)
    return None


def _makes_zeros(node: ast.expr) -> bool:
    """``torch.zeros_like(p)``, ``data.new().resize_as_(data).zero_()``, and either in ``Variable(…)``."""
    match node:
        case ast.Call(ast.Name("Variable") | ast.Attribute(_, "Variable"), [inner]):
            return _makes_zeros(inner)
        case ast.Call(ast.Attribute(_, "zeros_like" | "new_zeros" | "zeros"), [_, *_]):
            return True
        case ast.Call(ast.Attribute(_, "zero_"), []):
            return True
    return False


def _detaches(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(ast.Call(ast.Attribute(target, "detach_"), [])):
            return _gradient_of(target) is not None
    return False


def _asks_for_gradient(test: ast.expr) -> bool:
    """``p.grad is not None`` or ``p.grad``."""
    match test:
        case ast.Compare(left, [ast.IsNot() | ast.NotEq()], [ast.Constant(None)]):
            return _gradient_of(left) is not None
    return _gradient_of(test) is not None


def _gradient_of(node: ast.expr) -> str | None:
    """``p`` of ``p.grad`` and of ``p.grad.data``, as it is written."""
    match node:
        case ast.Attribute(ast.Attribute(ast.Name() | ast.Attribute() as parameter, "grad"), "data"):
            return ast.unparse(parameter)
        case ast.Attribute(ast.Name() | ast.Attribute() as parameter, "grad"):
            return ast.unparse(parameter)
    return None
