"""All that is known of a training script: what the codemods ask."""

from __future__ import annotations

import ast
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from codemods.dataflow import placement
from codemods.dataflow.flow import Flow
from codemods.dataflow.names import assigned
from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import lasting
from codemods.dataflow.values import External, Made, Value, instance, library_names
from codemods.facts.asserted import asserted, newest_used
from codemods.facts.data.loaders import Loader, loaders, why_only_first
from codemods.facts.data.number_formats import why_converted
from codemods.facts.data.parts import why_inputs_made_anew
from codemods.facts.data.reads import tops
from codemods.facts.devices.transfers import Transfer, makings, transfers
from codemods.facts.failures import Failure, failure
from codemods.facts.lifetimes import holder
from codemods.facts.loops import may_run
from codemods.facts.models.layers import Model
from codemods.facts.models.trained import TrainedModel, trained_models
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.target import UNKNOWN, Target
from codemods.facts.training.evaluation import Evaluations
from codemods.facts.training.graph_uses import GraphUses
from codemods.facts.training.iterations import Iterations, TrainingIteration
from codemods.facts.training.modes import Modes
from codemods.facts.unreached import never_runs
from codemods.library.kinds import FRAMEWORKS, Kind, framework, kind, may
from codemods.library.semantics import TorchSemantics

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codemods.dataflow.source import Module
    from codemods.facts.target import Version
    from codemods.facts.training.evaluation_region import EvaluationRegion

_DEFAULT_FORMATS = frozenset({"torch.set_default_dtype", "torch.set_default_tensor_type"})
_STOPS_WORKERS = (2, 13)
"""The first torch that tells workers that stay to stop before Python waits for them at its end."""


@dataclass(frozen=True, eq=False)
class Construction:
    """An optimizer, scheduler or other object, and the call that makes it."""

    module: Module
    call: ast.Call
    value: Value


@dataclass(eq=False)
class Whole:
    """What is known of all modules of a project."""

    flow: Flow
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Why other modules of the project, by their names, are not Python."""

    @classmethod
    def of(cls, modules: Sequence[Module], unreadable: Mapping[str, str] = MappingProxyType({})) -> Whole:
        """The facts about some modules, the scripts first.

        Args:
            modules: The modules.
            unreadable: Why others of the project, by their names, are not Python.

        Raises:
            RecursionError: when one of them is nested too deeply to be followed.
        """
        return cls(Flow(modules, TorchSemantics()), unreadable)

    @cached_property
    def transfers(self) -> tuple[Transfer, ...]:
        """The moves of tensors to a device."""
        return tuple(transfers(self.flow, self.flow.modules))

    @cached_property
    def loaders(self) -> tuple[Loader, ...]:
        """The loaders that are made."""
        return tuple(loaders(self.flow, self.flow.modules, self.transfers))

    @cached_property
    def models(self) -> tuple[tuple[Module, Model], ...]:
        """The models that are made and that no other model holds, and where."""
        made = [(each.module, Model(self.flow, each.value)) for each in self._made(Kind.MODEL)]
        held = {layer for _, model in made for layer in model.layers[1:]}
        return tuple((module, model) for module, model in made if model.value not in held)

    @cached_property
    def optimizers(self) -> tuple[Construction, ...]:
        """The optimizers that are made."""
        return tuple(self._made(Kind.OPTIMIZER))

    @cached_property
    def schedulers(self) -> tuple[Construction, ...]:
        """The learning rate schedulers that are made."""
        return tuple(self._made(Kind.SCHEDULER))

    def _made(self, wanted: Kind) -> Iterator[Construction]:
        for module in self.flow.modules:
            for call in module.nodes(ast.Call):
                for value in self.flow.values(call):
                    if value.site is call and kind(self.flow, value) is wanted:
                        yield Construction(module, call, value)

    @cached_property
    def iterations(self) -> Iterations:
        """The training iterations, and what calls reach."""
        return Iterations(self.flow, self.flow.modules)

    @cached_property
    def graph_uses(self) -> GraphUses:
        """Where the graphs of models go."""
        return GraphUses(self.flow, Modes(self.flow, self.flow.modules), self.iterations)

    @cached_property
    def evaluations(self) -> tuple[EvaluationRegion, ...]:
        """The code that evaluates with gradients on."""
        return tuple(Evaluations(self.flow, self.flow.modules, self.iterations).find())


@dataclass(eq=False)
class Script:
    """A module whose sites are sought, the modules that may run in one process with it, and the facts about them."""

    module: Module
    modules: tuple[Module, ...]
    """All that may run in one process with it, itself too; the same ones in the same order for each of them."""
    entries: tuple[Module, ...]
    """Those of them that are run as ``__main__``."""
    told: Target
    """What the user or the files beside the script say of the torch that it is run on."""
    whole: Whole
    """What is known of the whole project, other scripts too, whatever the module whose sites are sought."""

    @cached_property
    def flow(self) -> Flow:
        """The values of the project's expressions."""
        return self.whole.flow

    @classmethod
    def of(cls, module: Module, target: Target = UNKNOWN, others: Sequence[Module] = ()) -> Script:
        """The facts of a script that is run; the findings in ``module`` are the ones that codemods yield.

        Raises:
            RecursionError: when the script is nested too deeply to be followed.
        """
        modules = (module, *others)
        return cls(module, modules, (module,), target, Whole.of(modules))

    def seen_from(self, module: Module, target: Target = UNKNOWN) -> Script:
        """The same facts, to seek the sites of another of the modules."""
        other = copy(self)
        other.module, other.told = module, target
        for fact in ("target", "fails_today", "determinism", "determinisms"):
            other.__dict__.pop(fact, None)  # of all facts those that ask the module, or ask it first
        return other

    @cached_property
    def target(self) -> Target:
        """The torch that the script is known to be run on."""
        target = self.told
        for demanded in asserted(self.flow, self.modules):
            target = target.narrowed(demanded)
        return target

    @cached_property
    def newest_used(self) -> Version:
        """The torch that has everything that the script names, also where it does without."""
        return newest_used(self.flow, self.modules)

    @cached_property
    def fails_today(self) -> Failure | None:
        """Where the module whose sites are sought fails before any change, on current torch and Python."""
        return failure(self.flow, self.module, self.entries, self.target, self.whole.unreadable)

    @cached_property
    def transfers(self) -> tuple[Transfer, ...]:
        """The moves of tensors to a device, in the order of the text."""
        return tuple(each for each in self.whole.transfers if each.module in self.modules)

    @cached_property
    def loaders(self) -> tuple[Loader, ...]:
        """The loaders that the script makes, in the order of the text."""
        return tuple(each for each in self.whole.loaders if each.module in self.modules)

    def loader(self, value: Value) -> Loader | None:
        """The loader that the value is."""
        return next((each for each in self.loaders if each.value == value), None)

    def why_left_unpinned(self, loader: Loader) -> Reason | None:
        """Why the loader's batches are in pageable memory and stay there; None where they are pinned or can be."""
        if loader.is_pinned or loader.why_left_unpinned is not None:
            return loader.why_left_unpinned
        if self.seen_from(loader.module, self.told).fails_today is not None:
            return Reason("fails-today", "the script fails there before any change")
        reason = (
            why_converted(loader) or why_inputs_made_anew(loader, self.transfers) or why_only_first(self.flow, loader)
        )
        return reason or (self.why_ends_late(loader) if loader.keeps_workers else None)

    def can_be_pinned(self, loader: Loader) -> bool:
        """Whether ``pin_memory`` can be given to the loader, so that its batches reach the device without blocking."""
        return not loader.is_pinned and self.why_left_unpinned(loader) is None

    def why_ends_late(self, loader: Loader, *, surely: bool = False) -> Reason | None:
        """Why the script would end late if the loader's workers stayed and its batches were pinned; None if it did not.

        At its end Python waits up to 5 s for each such worker that is still there, which nobody has told to stop
        (pytorch issue 81794).

        Args:
            loader: The loader.
            surely: Whether only what is known to refer to the loader then counts.
        """
        held = holder(self.flow, loader.value) if not self.target.reaches(_STOPS_WORKERS) else None
        if held is None or (surely and not held.is_certain):
            return None
        name = f"'{held.name}' still refers" if held.is_certain else "something may still refer"
        together = "workers that stay and pinned memory make the script end 5 s later for each worker before torch 2.13"
        text = f"{together}, as {name} to the loader then ({HERE}):"
        remedy = "make the loader in a function, or require torch 2.13"
        return Reason("waits-at-exit", text, (at(held.module, held.node),), remedy)

    @cached_property
    def models(self) -> tuple[Model, ...]:
        """The models that the script makes and that no other model holds, in the order of the text."""
        return tuple(model for module, model in self.whole.models if module in self.modules)

    @cached_property
    def trained_models(self) -> tuple[TrainedModel, ...]:
        """The models that training iterations call, each once, in the order of the text."""
        return tuple(trained_models(self.flow, self.modules, self.iterations))

    @cached_property
    def optimizers(self) -> tuple[Construction, ...]:
        """The optimizers that the script makes, in the order of the text."""
        return tuple(each for each in self.whole.optimizers if each.module in self.modules)

    @cached_property
    def schedulers(self) -> tuple[Construction, ...]:
        """The learning rate schedulers that the script makes, in the order of the text."""
        return tuple(each for each in self.whole.schedulers if each.module in self.modules)

    @cached_property
    def iterations(self) -> tuple[TrainingIteration, ...]:
        """The training iterations that may run, in the order of their first backward.

        Not those of another script beside it, nor of a trainer that the project has, and this script makes none of.
        """
        found = (each for each in self.whole.iterations.all if each.module in self.modules)
        return tuple(each for each in found if self._trains(each.module, each.owner))

    def _trains(self, module: Module, owner: ast.AST) -> bool:
        """Whether what a training iteration belongs to may run: a loop, a function or a module."""
        inside = owner.body[0] if isinstance(owner, (ast.FunctionDef, ast.AsyncFunctionDef)) else owner
        return self.runs(module, inside) and (not self._starts_code or self.may_run(module, inside))

    @cached_property
    def _starts_code(self) -> bool:
        """Whether an entry calls code of the project: a package that only offers functions is for other projects."""
        calls = (call for each in self.entries for call in each.nodes(ast.Call) if each.function(call) is None)
        return any(self.flow.called(each) for each in calls)

    @cached_property
    def backwards(self) -> tuple[tuple[Module, ast.Call], ...]:
        """Every call that computes gradients."""
        return tuple(each for each in self.whole.iterations.backwards if each[0] in self.modules)

    @cached_property
    def evaluations(self) -> tuple[EvaluationRegion, ...]:
        """The code that evaluates with gradients on."""
        found = (each for each in self.whole.evaluations if each.module in self.modules)
        return tuple(each.beside(self.modules) if self.backwards else each for each in found)

    @cached_property
    def framework(self) -> str | None:
        """The framework that runs the training loop, where there is one: Lightning, Ignite and so on."""
        for module in self.modules:
            made = (value for call in module.nodes(ast.Call) for value in self.flow.values(call) if value.site is call)
            classes = (self.instance_of(each) for each in module.nodes(ast.ClassDef))
            for value in (*made, *classes):
                name = framework(self.flow, value) if kind(self.flow, value) is Kind.FRAMEWORK else None
                if name is not None:
                    return name
        return None

    @property
    def is_accelerated(self) -> bool:
        """Whether Hugging Face's Accelerate runs the training loop: it moves models and batches to CUDA by itself."""
        return self.framework == FRAMEWORKS["accelerate"]

    @staticmethod
    def instance_of(class_: ast.ClassDef) -> Value:
        """An object of the project's class, whichever."""
        return instance(class_)

    @cached_property
    def default_device(self) -> ast.Call | ast.With | None:
        """Where the script says on which device tensors and models are made where nothing else is said."""
        for module in self.modules:
            for call in module.nodes(ast.Call):
                if any(each.name == "torch.set_default_device" for each in self.flow.values(call.func)):
                    return call
            for block in module.nodes(ast.With):
                made = (value for item in block.items for value in self.flow.values(item.context_expr))
                if any(isinstance(each, Made) and each.name == "torch.device" for each in made):
                    return block
        return None

    @cached_property
    def default_format(self) -> ast.Call | None:
        """Where the script says which number format tensors have where nothing else is said."""
        for module in self.modules:
            for call in module.nodes(ast.Call):
                if any(each.name in _DEFAULT_FORMATS for each in self.flow.values(call.func)):
                    return call
        return None

    @cached_property
    def determinism(self) -> tuple[Module, ast.AST] | None:
        """Where the script asks for results that repeat, ``cudnn.deterministic = True`` and the like; here at first."""
        return next(iter(self.determinisms), None)

    @cached_property
    def determinisms(self) -> tuple[tuple[Module, ast.AST], ...]:
        """All places where it does."""
        return tuple(sorted(self._determinisms, key=lambda each: each[0] is not self.module))

    @cached_property
    def _determinisms(self) -> tuple[tuple[Module, ast.AST], ...]:
        """The same in the order of the modules, whichever of them asks; but what a parameter keeps from running."""
        places = ((module, node) for module in self.modules for node in module.nodes(ast.Assign, ast.Call))
        return tuple(
            (module, node)
            for module, node in places
            if self._asks_for_determinism(node) and not never_runs(self.flow, node)
        )

    def _asks_for_determinism(self, node: ast.Assign | ast.Call) -> bool:
        if isinstance(node, ast.Call):
            names = library_names(self.flow.values(node.func))
            given = arguments_of(node)[:1]
            off = any(isinstance(each, ast.Constant) and not each.value for each in given)
            if self.sets_attribute(node, "deterministic"):
                return self.is_cudnn(node.args[0])
            return not off and bool(names & {"torch.use_deterministic_algorithms", "torch.set_deterministic"})
        items = (each for each in node.targets if isinstance(each, ast.Subscript))
        if any(ast.unparse(each).endswith("environ['CUBLAS_WORKSPACE_CONFIG']") for each in items):
            return True
        return any(
            isinstance(target, ast.Attribute)
            and target.attr == "deterministic"
            and not (isinstance(value, ast.Constant) and not value.value)
            and self.is_cudnn(target.value)
            for target, value in assigned(node)
        )

    def sets_attribute(self, call: ast.Call, name: str) -> bool:
        """Whether this is ``setattr(thing, name, value)``, or may be where the name is computed."""
        if len(call.args) != 3 or not any(each.name == "builtins.setattr" for each in self.flow.values(call.func)):  # noqa: PLR2004
            return False
        return not isinstance(call.args[1], ast.Constant) or call.args[1].value == name

    def is_cudnn(self, node: ast.expr) -> bool:
        """Whether the expression is the module ``torch.backends.cudnn``."""
        return any(
            isinstance(each, External) and each.name == "torch.backends.cudnn" for each in self.flow.values(node)
        )

    @cached_property
    def may_use_cuda(self) -> bool:
        """Whether the script moves a model or tensors to, or makes them on, what may be a CUDA device."""
        if any(each.may_reach_cuda for each in (*self.transfers, *makings(self.flow, self.modules))):
            return True
        return any(
            isinstance(call.func, ast.Attribute)
            and call.func.attr in {"to", "cuda"}
            and may(self.flow, self.flow.values(call.func.value), Kind.MODEL)
            and Transfer(self.flow, module, call).may_reach_cuda
            for module in self.modules
            for call in module.nodes(ast.Call)
        )

    def runs(self, module: Module, node: ast.AST) -> bool:
        """Whether code may run: not what only the main guard of a module runs that is imported, its self-test."""
        if module in self.entries:
            return True
        found = list(tops(self.flow, module, node))
        return not found or any(not each.is_guarded or each.module in self.entries for each in found)

    def may_run(self, module: Module, node: ast.AST) -> bool:
        """Whether code may run with the script: of other modules not what nothing calls, and makes no object of."""
        return any(may_run(self.flow, each, module, node) for each in self.entries)

    # How the script says things.

    def spelled(self, module: Module, qualified: str, place: ast.stmt) -> str | None:
        """How the module writes a library's qualified name at a place, or None where no import leads to it."""
        return placement.spelled(self.flow, module, qualified, place)

    @staticmethod
    @lasting
    def quote(module: Module) -> str:
        """The quote that most of the module's short texts are written with."""
        double = sum(
            module.code(each).startswith('"') for each in module.nodes(ast.Constant) if isinstance(each.value, str)
        )
        texts = sum(isinstance(each.value, str) for each in module.nodes(ast.Constant))
        return '"' if 2 * double >= texts else "'"
