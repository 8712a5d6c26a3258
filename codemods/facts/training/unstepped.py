"""Models that no optimizer steps, as teachers and target networks are, and who would see that they get no gradients."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.names import bound_names
from codemods.dataflow.recursion import closure
from codemods.dataflow.signatures import arguments_of, signature
from codemods.dataflow.source import is_name, lasting, walk
from codemods.dataflow.values import (
    Class,
    Container,
    External,
    Instance,
    Made,
    Method,
    instance,
    library_names,
    owner_of,
    without_none,
)
from codemods.facts.autograd.double_backward import differentiated
from codemods.facts.models.copied import Origin, origin
from codemods.facts.models.layers import Model
from codemods.facts.models.optimized import given_parameters, models_given
from codemods.facts.models.placement import wrappings
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.graphless import may_be_frozen
from codemods.facts.training.iterations import called_functions, own
from codemods.library.hooks import is_given_gradients
from codemods.library.kinds import Kind, kind, may
from codemods.library.packages import Trait, has

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value
    from codemods.facts.autograd.graphs import Graphs
    from codemods.facts.training.graph_uses import GraphUses

_REDUCING = ("torch.nn.parallel.", "torch.distributed.")
"""What wraps a model to exchange its gradients with other processes; ``DataParallel`` alone is in one process."""
_LOOKS_AT_GRADIENTS = ("torch.autograd.", "torch.func.", "torch.nn.utils.clip_grad", "torch.nn.utils.get_total_norm")
_UNDERSTOOD = ("builtins.", "torch.", "torchvision.", "copy.", "itertools.", "functools.", "collections.", "typing.")
_PASSES_ON = frozenset({"builtins.setattr", "builtins.vars"})
_NOT_THE_WEIGHT = frozenset({"data", "grad", "requires_grad"})
_CHECKPOINTING = frozenset(f"torch.utils.checkpoint.{name}" for name in ("checkpoint", "checkpoint_sequential"))
_CHECKPOINTS = frozenset({"checkpoint_wrapper", "gradient_checkpointing_enable"})
"""What lets other libraries checkpoint a model, in whichever way."""


class Unstepped:
    """Says which models of a project no optimizer steps while others are trained."""

    def __init__(self, flow: Flow, uses: GraphUses) -> None:
        self._flow = flow
        self._uses = uses

    @lasting
    def is_one(self, model: Value) -> bool:
        """Whether all that optimizers step is known, and is of other models."""
        known = isinstance(model, (Instance, Made)) and kind(self._flow, model) is Kind.MODEL
        if not known or model.site is None or not self._stepped:
            return False
        return not any(self._may_be_stepped(each) for each in self._inside(model))

    @lasting
    def is_idle(self, call: ast.Call) -> bool:
        """Whether the models that the call runs are surely none that an optimizer steps, copies of such ones included.

        Args:
            call: A call of models, or of their methods.
        """
        owners = self._owners(call)
        if owners and all(each is not None and self.is_one(each) for each in owners):
            return True
        (only,) = owners if len(owners) == 1 else (None,)
        return only is not None and self._is_apart(only, origin(self._flow, _object(call)))

    def may_run_stepped(self, call: ast.Call) -> bool:
        """Whether the call runs models that are known, and that optimizers may step."""
        owners = self._owners(call)
        are_known = all(isinstance(each, (Instance, Made)) and kind(self._flow, each) is Kind.MODEL for each in owners)
        return are_known and any(each is not None and self._may_be_stepped(each) for each in owners)

    def _owners(self, call: ast.Call) -> set[Value | None]:
        """The models that the call runs, itself or by a method."""
        values = without_none(self._flow.values(call.func))
        return {owner_of(each) if isinstance(each, Method) else each for each in values}

    @lasting
    def _is_apart(self, model: Value, side: Origin) -> bool:
        """Whether optimizers step the model itself, and this is a copy of it, or the other way around."""
        is_known = isinstance(model, (Instance, Made)) and kind(self._flow, model) is Kind.MODEL
        if side is Origin.UNKNOWN or not is_known or not self._stepped:
            return False
        layers = Model(self._flow, model).layers
        for each in self._stepped:
            is_near = model in Model(self._flow, each).layers or each in layers or self._may_be(model, each)
            if is_near and each != model:
                return False
        return all(self._is_of_other(module, asked, model, side) for module, asked in self._parameters_asked)

    @cached_property
    def _parameters_asked(self) -> tuple[tuple[Module, ast.Attribute], ...]:
        """Where models are asked for their parameters."""
        return tuple(
            (module, each)
            for module in self._flow.modules
            for each in module.nodes(ast.Attribute)
            if each.attr in {"parameters", "named_parameters"}
        )

    def _is_of_other(self, module: Module, asked: ast.Attribute, model: Value, side: Origin) -> bool:
        """Whether the parameters are of others than the copies or originals, or only a loop goes through them."""
        if self._flow.values(asked.value).isdisjoint(Model(self._flow, model).layers):
            return True
        found = self._side(asked.value, model)
        if found is not side:
            return found is not Origin.UNKNOWN
        call = module.parent(asked)
        above = module.parent(call) if call is not None else None
        if isinstance(above, ast.Call) and library_names(self._flow.values(above.func)) == {"builtins.zip"}:
            call, above = above, module.parent(above)
        return isinstance(above, ast.For) and above.iter is call

    def _side(self, node: ast.expr, model: Value) -> Origin:
        """Whether the expression, or what it is a part of, is a copy of the model or the model itself."""
        while model not in self._flow.values(node) and isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
            node = node.func if isinstance(node, ast.Call) else node.value
        return origin(self._flow, node) if model in self._flow.values(node) else Origin.UNKNOWN

    @lasting
    def is_differentiated_alone(self, model: Value) -> bool:
        """Whether a backward goes through no model that is trained, but through this one: its gradients are wanted."""
        for module, call in self._uses.iterations.backwards:
            found = differentiated(self._flow, module, call)
            if not found.isdisjoint(self._inside(model)) and not any(map(self._may_be_stepped, found)):
                return True
        return False

    def _inside(self, model: Value) -> Iterator[Value]:
        """The model, and what it wraps."""
        yield model
        for around in wrappings(self._flow, model):
            yield from (each for each in around if each != model)

    def _may_be_stepped(self, model: Value) -> bool:
        layers = Model(self._flow, model).layers
        return any(
            model in Model(self._flow, each).layers or each in layers or self._may_be(model, each)
            for each in self._stepped
        )

    def _may_be(self, model: Value, owner: Value) -> bool:
        """Whether the owner is ``self`` in a class of which the model is an object."""
        if owner.site is not None or not isinstance(owner, Instance) or not isinstance(model, Instance):
            return False
        return model.of.site in self._flow.family(owner.of.site)

    @cached_property
    def _stepped(self) -> tuple[Value, ...]:
        """The models whose parameters optimizers step; none where it is not known of one of them."""
        found: dict[Value, None] = {}
        for module in self._flow.modules:
            for call in module.nodes(ast.Call):
                given = self._given_to_optimizer(call)
                models = () if given is None else models_given(self._flow, self._flow.values(given))
                if isinstance(models, Reason):
                    return ()
                found.update(dict.fromkeys(models))
        return tuple(found)

    def _given_to_optimizer(self, call: ast.Call) -> ast.expr | None:
        """The parameters that a call makes an optimizer of, or adds to one."""
        if any(each.site is call and kind(self._flow, each) is Kind.OPTIMIZER for each in self._flow.values(call)):
            return given_parameters(call) or call
        match call:
            case ast.Call(ast.Attribute(owner, "add_param_group"), [given]) if may(
                self._flow, self._flow.values(owner), Kind.OPTIMIZER
            ):
                return given
        return None

    # Who would see it.

    def why_call_seen(self, call: ast.Call) -> Reason | None:
        """The same of the models that a call runs, which is one of those that are idle."""
        for each in self._owners(call):
            side = None if each is None or self.is_one(each) else origin(self._flow, _object(call))
            seen = None if each is None else self.why_seen(each, side)
            if seen is not None:
                return seen
        return None

    @lasting
    def why_seen(self, model: Value, side: Origin | None = None) -> Reason | None:
        """Why something may be otherwise where the model's parameters get no gradients.

        Args:
            model: One that no optimizer steps.
            side: Where an optimizer steps a copy of it, or it is a copy of what is stepped: which of the two it is.
        """
        if any(each.name.startswith(_REDUCING) for each in self._inside(model)):
            text = "no optimizer steps the model, but its gradients are exchanged with other processes"
            return Reason("gradients-read", text)
        if any(each.name == "torch.compile" and _has_mode(each.site) for each in self._inside(model)):
            text = "no optimizer steps the model, but it is compiled in a mode that may overwrite what it computed"
            return Reason("other-result", text)
        reasons = (
            self._shared(model),
            self._read(model, side),
            self._handed_out(model, side),
            self._checkpointed,
            self._differentiated(model, side),
        )
        for found in reasons:
            if found is not None:
                return found
        return None

    def _shared(self, model: Value) -> Reason | None:
        """Where a layer or weight of it may become a part of another model."""
        inner = self._parts(model) - set(self._inside(model))
        makers = {each.site for each in self._parts(model)}
        own_code = {Model(self._flow, each).class_ for each in (*self._inside(model), *inner)} - {None}
        for module, node, value in self._puttings:
            if node in makers or any(each in own_code for each in module.ancestors(node)):
                continue
            values = self._reached(value)
            weights = {owner_of(each) for each in values}
            if inner & values or (isinstance(node, ast.Attribute) and weights & self._parts(model)):
                text = f"no optimizer steps the model, but a part of it may be one of another model, too ({HERE})"
                return Reason("unknown-model", text, (at(module, node),))
        return None

    def _parts(self, model: Value) -> set[Value]:
        return {layer for each in self._inside(model) for layer in Model(self._flow, each).layers}

    def _reached(self, node: ast.expr) -> set[Value]:
        """What the expression may be, and what is in it where that is a list or dictionary."""
        values = self._flow.values(node)
        return set(closure(values, lambda each: self._flow.items(each) if isinstance(each, Container) else ()))

    @cached_property
    def _puttings(self) -> tuple[tuple[Module, ast.AST, ast.expr], ...]:
        """Where something may become a part of a model: ``net.head = head``, ``Net(head)``, ``layers.append(head)``."""
        found: list[tuple[Module, ast.AST, ast.expr]] = []
        for module in self._flow.modules:
            for statement in module.nodes(ast.Assign):
                stores = (each for each in statement.targets if isinstance(each, (ast.Attribute, ast.Subscript)))
                found += [
                    (module, each, statement.value)
                    for each in stores
                    if getattr(each, "attr", "") not in _NOT_THE_WEIGHT
                ]
            for call in module.nodes(ast.Call):
                if not self._only_runs(call):
                    found += [(module, call, each) for each in arguments_of(call)]
        return tuple(found)

    def _only_runs(self, call: ast.Call) -> bool:
        """Whether the call runs code that is seen, or something of a library that makes nothing of what it is given."""
        values = without_none(self._flow.values(call.func))
        is_seen = bool(values) and len(called_functions(self._flow, call)) == len(values)
        if is_seen and not any(isinstance(each, Class) for each in values):
            return True
        return bool(values) and all(
            isinstance(each, External)
            and each.name.startswith(("builtins.", "torch.nn.init.", "torch.save", "itertools."))
            and each.name not in _PASSES_ON
            for each in values
        )

    def _read(self, model: Value, side: Origin | None) -> Reason | None:
        """Where its gradients may be read: not by an optimizer, which has those of other models alone."""
        for module in self._flow.modules:
            for node, owner in _reads(module):
                if self._is_of_optimizer(module, node):
                    continue
                values = self._flow.values(owner)
                if any(isinstance(each, External) for each in values) or self._are_of_others(owner, model):
                    continue
                if side is not None and self._is_of_other_side(module, owner, model, side):
                    continue
                text = f"no optimizer steps the model, but its gradients may be read ({HERE})"
                return Reason("gradients-read", text, (at(module, node),))
        return None

    def _is_of_optimizer(self, module: Module, node: ast.AST) -> bool:
        """Whether it stands in an optimizer's class, or in a loop over ``optimizer.param_groups``."""
        for above in module.ancestors(node):
            if isinstance(above, ast.ClassDef) and kind(self._flow, instance(above)) is Kind.OPTIMIZER:
                return True
            iterated = [each.iter for each in (above, *getattr(above, "generators", ())) if hasattr(each, "iter")]
            if any(each.attr == "param_groups" for part in iterated for each in own(part, ast.Attribute)):
                return True
        return False

    def _are_of_others(self, node: ast.expr, model: Value) -> bool:
        """Whether it is known to be a model without parts of this one, or a parameter of one, or a batch."""
        values = without_none(self._flow.values(node))
        if values and not any(self._may_concern(each, model) for each in values):
            return True
        # The objects of a class have their layers from one place: whose they are, what stands before the dot says.
        return isinstance(node, (ast.Attribute, ast.Subscript)) and self._are_of_others(node.value, model)

    def _is_of_other_side(self, module: Module, node: ast.expr, model: Value, side: Origin) -> bool:
        """Whether it is a part of the original where copies are meant, or of a copy, or a parameter that a loop has."""
        if isinstance(node, ast.Name):
            loops = [each for each in module.ancestors(node) if isinstance(each, ast.For)]
            bound = (each for each in loops if any(is_name(one, node.id) for one in walk(each.target)))
            match next(bound, None):
                case ast.For(ast.Name() | ast.Tuple(), ast.Call(ast.Attribute(of), [])):
                    node = of
        return self._side(node, model) not in {side, Origin.UNKNOWN}

    def _may_concern(self, value: Value, model: Value) -> bool:
        owner = value if kind(self._flow, value) is Kind.MODEL else owner_of(value)
        if owner is None:
            return not isinstance(value, (Class, External))
        if kind(self._flow, owner) is not Kind.MODEL:
            return kind(self._flow, owner) is None
        return owner in self._parts(model) or self._holds(owner, model)

    def _holds(self, owner: Value, model: Value) -> bool:
        layers = Model(self._flow, owner).layers
        return any(each in layers or self._may_be(each, owner) for each in self._inside(model))

    def _handed_out(self, model: Value, side: Origin | None) -> Reason | None:
        """Where code that is not seen is given it or its parameters, and may train it or look at its gradients."""
        for module in self._flow.modules:
            for call in module.nodes(ast.Call):
                if call.func is model.site or self._is_harmless(call):
                    continue
                arguments = arguments_of(call)
                if side is not None:
                    arguments = [each for each in arguments if not self._is_of_other_side(module, each, model, side)]
                given = {value for each in arguments for value in self._reached(each)}
                owners = {each if kind(self._flow, each) is Kind.MODEL else owner_of(each) for each in given}
                if any(
                    each is not None and kind(self._flow, each) is Kind.MODEL and self._is_about(each, model)
                    for each in owners
                ):
                    text = f"no optimizer steps the model, but what it is given to may ask for its gradients ({HERE})"
                    return Reason("gradients-read", text, (at(module, call),))
        return None

    def _is_about(self, owner: Value, model: Value) -> bool:
        return owner in self._inside(model) or self._holds(owner, model)

    @lasting
    def _is_harmless(self, call: ast.Call) -> bool:
        """Whether what is called is seen, or is known neither to train nor to look at gradients."""
        values = without_none(self._flow.values(call.func))
        functions = called_functions(self._flow, call)
        if bool(values) and len(functions) == len(values):
            return True
        return bool(values) and all(map(self._is_harmless_value, values))

    def _is_harmless_value(self, value: Value) -> bool:
        if isinstance(value, Class) or self._flow.run_by(value) is not None:
            return True
        what = kind(self._flow, value)
        if isinstance(value, Method):
            owner = value.of
            return isinstance(owner, Container) or kind(self._flow, owner) in {Kind.MODEL, Kind.OPTIMIZER}
        if what is not None:
            return what is not Kind.FRAMEWORK
        return isinstance(value, External) and (
            (value.name.startswith(_UNDERSTOOD) and not value.name.startswith(_LOOKS_AT_GRADIENTS))
            or (has(value.name, Trait.GRAPHLESS) and not value.name.endswith(".watch"))
        )

    @cached_property
    def _checkpointed(self) -> Reason | None:
        """Where a checkpoint may be of the kind that hands on gradients only if it is given what has them."""
        for module in self._flow.modules:
            names = (each for each in module.nodes(ast.Attribute, ast.Name) if _name(each) in _CHECKPOINTS)
            calls = self._flow.calls_of(module, _CHECKPOINTING)
            for node in (*(each for each in calls if not _is_without_reentry(each)), *names):
                text = f"no optimizer steps the model, but a checkpoint may have to be given gradients ({HERE}):"
                remedy = "give it use_reentrant=False"
                return Reason("needs-gradients", text, (at(module, node),), remedy)
        return None

    def _differentiated(self, model: Value, side: Origin | None) -> Reason | None:
        """Where something may be differentiated that depends on it alone, or in another way than by a backward."""
        parts = set(self._inside(model))
        for module in self._flow.modules:
            for call in self._flow.calls_of(module, {"torch.autograd.grad"}):
                found = differentiated(self._flow, module, call)
                if not found or found & parts:
                    text = f"no optimizer steps the model, but it may be differentiated otherwise ({HERE})"
                    return Reason("needs-gradients", text, (at(module, call),))
        for module, call in self._uses.iterations.backwards:
            if not self._depends_on_trained(module, call, is_seen=side is not None):
                text = f"no optimizer steps the model, and what is differentiated may depend on nothing else ({HERE})"
                return Reason("needs-gradients", text, (at(module, call),))
        return None

    def _depends_on_trained(self, module: Module, call: ast.Call, *, is_seen: bool) -> bool:
        """Whether a backward goes through models that optimizers step, on every way that is seen to lead to it.

        Args:
            module: Where it stands.
            call: The backward.
            is_seen: Whether the ways have to be seen.
        """
        roots = self._roots(call)
        function = module.function(call)
        body = module.tree.body if function is None else function.body
        if any(isinstance(value, Container) for each in roots for value in self._flow.values(each)):
            return False  # of a list each item is differentiated
        if not isinstance(body, list) or self._trained.surely_carry(module, body, {module.statement(call): roots}):
            return True
        names = {each.id for root in roots for each in own(root, ast.Name)}
        mine = bound_names(module.tree) if function is None else bound_names(function) - {*signature(function).names}
        if names & mine or is_seen:
            return False
        # What it differentiates comes from elsewhere: a parameter, or an attribute.
        return any(map(self._is_trained, differentiated(self._flow, module, call)))

    def _roots(self, call: ast.Call) -> Sequence[ast.expr]:
        """What a backward differentiates."""
        if isinstance(call.func, ast.Attribute):
            owners = self._flow.values(call.func.value)
            if not any(isinstance(each, External) or kind(self._flow, each) is not None for each in owners):
                return [call.func.value]
        return [part for each in call.args[:1] for part in getattr(each, "elts", [each])]

    @cached_property
    def _trained(self) -> Graphs:
        """Follows what models compute that optimizers step."""
        return self._uses.of(self._runs_trained, outside=False)

    def _runs_trained(self, call: ast.Call) -> bool:
        is_trained = any(each is not None and self._is_trained(each) for each in self._owners(call))
        return is_trained and self._uses.makes_graph(call) and not self.is_idle(call)

    def _is_trained(self, model: Value) -> bool:
        return self._may_be_stepped(model) and not may_be_frozen(self._flow, model)


def _reads(module: Module) -> Iterator[tuple[ast.AST, ast.expr]]:
    """Where gradients are read, or given to a hook, and whose: ``p.grad``, ``getattr(p, "grad")``."""
    for node in module.nodes(ast.Attribute):
        is_read = node.attr == "grad" and isinstance(node.ctx, ast.Load)
        if is_read or (is_given_gradients(node.attr) and isinstance(module.parent(node), ast.Call)):
            yield node, node.value
    for call in module.nodes(ast.Call):
        match call.args:
            case [owner, ast.Constant("grad"), *_]:
                yield call, owner


def _has_mode(call: ast.AST | None) -> bool:
    """Whether ``torch.compile`` is told how: CUDA graphs write anew what no backward is to come for."""
    return isinstance(call, ast.Call) and any(each.arg != "backend" for each in call.keywords)


def _name(node: ast.Attribute | ast.Name) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id


def _is_without_reentry(call: ast.Call) -> bool:
    given = next((each.value for each in call.keywords if each.arg == "use_reentrant"), None)
    return isinstance(given, ast.Constant) and given.value is False


def _object(call: ast.Call) -> ast.expr:
    """``net`` of ``net(x)`` and of ``net.forward(x)``."""
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr == "forward"
    return call.func.value if isinstance(call.func, ast.Attribute) and is_method else call.func
