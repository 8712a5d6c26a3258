"""Whether a change pays for the training as the script stands: what an expert computes first."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.source import lasting, walk
from codemods.dataflow.values import Tensor, in_order, without_none
from codemods.facts.cost.constants import Constants
from codemods.facts.cost.lengths import Lengths
from codemods.facts.cost.networks import Networks
from codemods.facts.cost.one_at_a_time import sees_one_at_a_time
from codemods.facts.cost.steps_by_hand import steps_by_hand
from codemods.facts.precision.tf32 import only_looks_up
from codemods.facts.reason import Reason
from codemods.facts.training.iterations import EventKind
from codemods.facts.training.step_loops import is_remainder
from codemods.library.costs import (
    FEW_BATCHES,
    FEW_FOR_A_PIXEL,
    FEW_ITERATIONS,
    FEW_OF_PLAIN_STEPS,
    FEW_TENSORS,
    NARROW,
    OPERATIONS_A_SECOND,
    OPERATIONS_OF_SMALL,
    SAVED_BY_COMPILING,
    START_OF_COMPILED,
)
from codemods.library.kinds import Kind, is_parameter, kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value, Values
    from codemods.facts.cost.networks import Sizes
    from codemods.facts.data.loaders import Loader
    from codemods.facts.script import Script
    from codemods.facts.training.iterations import TrainingIteration

_CODE = "never-pays-back"
_WHATEVER = "select the rule by name to apply it all the same"
_LOOKED_UP = Reason(_CODE, "its model only looks up rows of a table: there is little to compute", remedy=_WHATEVER)

_ONE = Reason(
    _CODE,
    "its model is given one observation of an environment at a time: launching operations takes longer than they do",
    remedy=_WHATEVER,
)

_SELDOM = Reason(
    _CODE,
    "few iterations call it, and learn nothing from that: starting compiled code takes longer than it can save",
    remedy=_WHATEVER,
)

_BY_STEPS = Reason(
    _CODE,
    "its recurrent layers run step by step in a loop of Python's: launching them takes longer than they compute",
    remedy=_WHATEVER,
)


@dataclass(frozen=True, eq=False)
class Worth:
    """The sum for a script: how long it runs, how large its models are, and what that means for the rules."""

    script: Script

    @cached_property
    def constants(self) -> Constants:
        """What expressions come to."""
        return Constants(self.script)

    @cached_property
    def lengths(self) -> Lengths:
        """How often what runs."""
        return Lengths(self.script, self.constants)

    @cached_property
    def networks(self) -> Networks:
        """How large the models are."""
        return Networks(self.script, self.constants, self.lengths)

    def iterations(self, model: Value) -> tuple[TrainingIteration, ...]:
        """The training iterations that call the model."""
        return tuple(
            each
            for each in self.script.iterations
            if any(model in event.subjects for event in each.of(EventKind.FORWARD))
        )

    def length(self, model: Value) -> int | None:
        """How many training iterations call the model in a run, at the most."""
        found = [self.lengths.of_iteration(each) for each in self.iterations(model)]
        return sum(each for each in found if each is not None) if found and None not in found else None

    def operations(self, model: Value) -> int | None:
        """Operations of an iteration in which the model is trained, at the most."""
        sizes = self.networks.sizes(model)
        return self.networks.operations(model, sizes, self.iterations(model)) if sizes is not None else None

    def _sees_one_at_a_time(self, model: Value) -> bool:
        """Whether the model computes one observation in a pass, and is none of torchvision's large networks."""
        sizes = self.networks.sizes(model)
        is_published = sizes is not None and sizes.published is not None
        return not is_published and sees_one_at_a_time(self.script.flow, model)

    def _is_called_seldom(self, model: Value) -> bool:
        """Whether iterations call it under ``if step % 1000 == 0:`` alone, with no backward there: for a sample."""
        found = []
        for iteration in self.iterations(model):
            usual = {test for each in iteration.of(EventKind.BACKWARD) for test in each.conditions}
            calls = [each for each in iteration.of(EventKind.FORWARD) if model in each.subjects]
            found += [any(_counts(test) for test in each.conditions if test not in usual) for each in calls]
        return bool(found) and all(found)

    def why_compiled_in_vain(self, model: Value) -> Reason | None:
        """Why compiled code of the model cannot save what its start takes; None where it may, or that is not known."""
        if only_looks_up(self.script, model):
            return _LOOKED_UP
        if self._sees_one_at_a_time(model):
            return _ONE
        if self._is_called_seldom(model):
            return _SELDOM
        sizes, operations, length = self.networks.sizes(model), self.operations(model), self.length(model)
        named = f" of a network of {_parameters(sizes)}" if sizes and sizes.parameters else ""
        if operations is not None and operations <= OPERATIONS_OF_SMALL:
            small = f"an iteration{named} computes at most {_billions(operations)} operations"
            text = f"{small}: launching them takes longer, and compiled code launches no faster"
            return Reason(_CODE, text, remedy=_WHATEVER)
        enough = START_OF_COMPILED / SAVED_BY_COMPILING * OPERATIONS_A_SECOND
        is_short = length is not None and operations is not None and length * operations < enough
        if length is not None and (is_short or length <= FEW_ITERATIONS):
            text = f"at most {length:,} iterations{named}: starting compiled code takes longer than it can save"
            return Reason(_CODE, text, remedy=_WHATEVER)
        return None

    def why_in_32_bits(self, models: Values) -> Reason | None:
        """Why 16 bits cannot save what casting to them takes; None where they may, or that is not known."""
        called = without_none(models)
        trained = [each for each in in_order(called) if kind(self.script.flow, each) is Kind.MODEL]
        if any(kind(self.script.flow, each) not in {Kind.MODEL, Kind.LOSS} for each in called):
            return None
        if trained and all(only_looks_up(self.script, each) for each in trained):
            return _LOOKED_UP
        if trained and all(map(self._sees_one_at_a_time, trained)):
            return _ONE
        if trained and all(map(self._is_one_narrow_layer, trained)):
            text = f"its model is one linear layer of at most {NARROW} columns: casting takes longer than that saves"
            return Reason(_CODE, text, remedy=_WHATEVER)
        at_once = [each for each in trained if not steps_by_hand(self.script, each)]
        if trained and not at_once:
            return _BY_STEPS
        found = [self._in_16_bits(each) for each in at_once]
        known = [each for each in found if each is not None]
        if not known or len(known) < len(found):
            return None
        total, for_a_pixel = sum(each[0] for each in known), sum(each[1] for each in known)
        widest = max(each[2] for each in known)
        if total > OPERATIONS_OF_SMALL or for_a_pixel > FEW_FOR_A_PIXEL:
            return None
        if for_a_pixel:
            many = f"{for_a_pixel:,} multiplications at each position"
            few = f"no convolution is wider than {widest}, and all take at most {many}"
            return Reason(_CODE, f"{few}: casting may take longer than they save", remedy=_WHATEVER)
        small = f"an iteration computes at most {_billions(total)} operations that 16 bits could speed up"
        why = small if total else f"no layer is wider than {widest}"
        return Reason(_CODE, f"{why}: casting takes longer than they save", remedy=_WHATEVER)

    def _in_16_bits(self, model: Value) -> tuple[int, int, int] | None:
        """What 16 bits could speed up: operations of an iteration, or multiplications at each position; and the width.

        All are upper bounds. Of narrow convolutions alone, those at each position count where operations are many.
        """
        sizes = self.networks.sizes(model)
        if sizes is None:
            return None
        wide = sizes.without_narrow
        operations, shallow = self.networks.operations(model, wide, self.iterations(model)), wide.for_a_pixel
        if shallow is not None and (operations is None or operations > OPERATIONS_OF_SMALL):
            return 0, shallow, wide.width or 0
        return (operations, 0, sizes.width or 0) if operations is not None else None

    def _is_one_narrow_layer(self, model: Value) -> bool:
        """Whether it is one linear layer with few columns, which reads more than it multiplies: a probe."""
        columns = self.networks.columns(model)
        return columns is not None and columns <= NARROW

    def why_without_tf32(self, models: Iterable[Value]) -> Reason | None:
        """Why faster products of matrices save nothing that could be seen; None where they may, or it is not known."""
        total = 0
        for model in models:
            if self._is_one_narrow_layer(model):
                continue
            sizes = self.networks.sizes(model)
            parts = sizes.of_matrices if sizes is not None else None
            operations = self.networks.operations(model, parts, self.iterations(model)) if parts is not None else None
            if operations is None:
                return None
            total += operations
        if total > OPERATIONS_OF_SMALL:
            return None
        small = f"an iteration computes at most {_billions(total)} operations that TF32 could speed up"
        text = small if total else "no layer is wide enough for TF32 to speed up its products"
        return Reason(_CODE, text, remedy=_WHATEVER)

    def why_channels_last_in_vain(self, model: Value) -> Reason | None:
        """Why convolutions of images in another layout save nothing that could be seen; None where they may."""
        sizes = self.networks.sizes(model)
        parts = sizes.of_convolutions if sizes is not None else None
        operations = self.networks.operations(model, parts, self.iterations(model)) if parts is not None else None
        if operations is None or operations > OPERATIONS_OF_SMALL:
            return None
        text = f"the convolutions of an iteration compute at most {_billions(operations)} operations"
        return Reason(_CODE, f"{text}: launching them takes longer, whatever the layout", remedy=_WHATEVER)

    def why_fused_in_vain(self, models: Iterable[Value]) -> Reason | None:
        """Why a step in one kernel saves nothing that could be seen; None where it may, or that is not known."""
        tensors = self._tensors(models)
        if tensors is None or tensors >= FEW_TENSORS:
            return None
        text = f"it steps at most {tensors} tensors, which takes few launches anyway"
        return Reason(_CODE, text, remedy=_WHATEVER)

    def why_plain_step_fused_in_vain(self, models: Iterable[Value]) -> Reason | None:
        """The same of an SGD without momentum on a CPU, the step of which is one operation for each tensor."""
        tensors = self._tensors(models)
        if tensors is None or tensors >= FEW_OF_PLAIN_STEPS:
            return None
        text = f"without momentum the step is one operation for each of at most {tensors} tensors"
        return Reason(_CODE, text, remedy=_WHATEVER)

    def _tensors(self, models: Iterable[Value]) -> int | None:
        """How many tensors of parameters the models have; None where that is not known."""
        found = [self.networks.sizes(each) for each in models]
        known = [each for each in found if each is not None and each.published is None]
        return sum(each.tensors for each in known) if len(known) == len(found) else None

    def why_few_written(self, given: ast.expr | None) -> Reason | None:
        """The same of tensors that the call of the optimizer lists: ``[self.log_alpha]``, ``[scale, shift]``."""
        if not isinstance(given, (ast.List, ast.Tuple)) or not 0 < len(given.elts) < FEW_TENSORS:
            return None
        flow = self.script.flow
        listed = [flow.values(each) for each in given.elts]
        if not all(
            some and all(isinstance(each, Tensor) or is_parameter(flow, each) for each in some) for some in listed
        ):
            return None
        many = "one tensor" if len(listed) == 1 else f"{len(listed)} tensors"
        return Reason(_CODE, f"it steps {many}, which takes few launches anyway", remedy=_WHATEVER)

    def why_without_workers(self, loader: Loader) -> Reason | None:
        """Why workers take longer to start than they save; None where they may not, or that is not known."""
        batches = self.lengths.batches(loader)
        times = [self.lengths.times(each.module, each.node, given=loader.value) for each in loader.passes]
        if batches is None or not times or None in times:
            return None
        total = batches * sum(each for each in times if each is not None)
        if total > FEW_BATCHES:
            return None
        text = f"it yields {total} batches in all: starting workers takes longer than they save"
        return Reason("few-batches", text, remedy=_WHATEVER)


def worth(script: Script) -> Worth:
    """The sum for a script: made once, whatever asks for it, as following constructors and loops takes long."""
    return _seen_from(script, script.module)


@lasting
def _seen_from(script: Script, _module: Module) -> Worth:
    """The same: which options of the command line are followed depends on the module whose sites are sought."""
    return Worth(script)


def _counts(test: ast.expr) -> bool:
    return any(map(is_remainder, walk(test)))


def _parameters(sizes: Sizes) -> str:
    bound = "at most " if sizes.is_acting else ""
    return f"{bound}{_millions(sizes.parameters or 0)} parameters"


def _millions(count: int) -> str:
    return f"{count:,}" if count < 10**5 else f"{count / 1e6:,.1f} million"


def _billions(count: int) -> str:
    return f"{count / 1e6:,.0f} million" if count < 10**9 else f"{count / 1e9:,.0f} billion"
