"""How large models are, as far as it is written out: parameters, the widest layer, and operations of a forward pass."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.values import (
    Choice,
    External,
    Function,
    HostTensor,
    Literal,
    MovedTensor,
    Plain,
    SomeTensor,
    Unbound,
    Value,
    instance,
)
from codemods.facts.cost.amounts import BASE, UNKNOWN, Built, Layer, base_layer, children, holds_bound
from codemods.facts.cost.layer_calls import LayerCalls
from codemods.facts.training.iterations import EventKind, own
from codemods.library.costs import MOST_OF_SAMPLE, MOST_ROWS, MOST_STEPS, MOST_STORED, NARROW, NARROW_RECURRENT
from codemods.library.kinds import Kind, kind
from codemods.library.networks import Network, network
from codemods.library.weights import Per, Weights, is_stack, weights

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codemods.facts.cost.constants import Constants
    from codemods.facts.cost.lengths import Lengths
    from codemods.facts.script import Script
    from codemods.facts.training.iterations import Event, TrainingIteration

_NO_LAYERS = (Literal, Plain, Choice, HostTensor, SomeTensor, MovedTensor, External, Function, Unbound)
"""What is no layer, nor holds any."""
_MOST_TENSORS = 18
"""Tensors of parameters of the layer that has the most: a decoder layer of a transformer."""
_LINEAR = "torch.nn.Linear"


@dataclass(frozen=True, slots=True)
class Part:
    """A layer of a model, and how often it is there."""

    weights: Weights
    count: int = 1
    more: int = 0
    """Tensors beside its weights and biases: the lengths of weights that are normalized."""

    @property
    def is_narrow(self) -> bool:
        """Whether 16 bits do not make it faster, however much it computes."""
        limits = {Per.ROW: NARROW, Per.ITEM: NARROW, Per.STEP: NARROW_RECURRENT}
        return self.weights.width <= limits.get(self.weights.per, 0)

    @property
    def tensors(self) -> int:
        """How many tensors its parameters are, at the most: weights and biases, or those of all that is inside."""
        if self.weights.parameters == 0:
            return 0
        is_compound = self.weights.per in {Per.ITEM, Per.STEP} and self.weights.products > 0
        return self.more + (_MOST_TENSORS if is_compound else 2)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large a model is."""

    parameters: int | None
    parts: tuple[Part, ...]
    published: Network | None = None
    """Where it is a network of torchvision."""
    uses: int | None = 1
    """How often a layer is called in a forward pass, at the most; None where other code multiplies, too."""
    is_acting: bool = False
    """Whether spaces of gym say how wide it is: then its parameters and widths are upper bounds."""
    mixes_rows: bool = False
    """Whether layers compute from several rows of a sample together, as attention does: it has many, then."""

    @property
    def width(self) -> int | None:
        """The width of the widest layer that multiplies; None where it is not known."""
        is_known = self.published is None and self.uses is not None
        return max((each.weights.width for each in self.parts), default=0) if is_known else None

    @property
    def of_matrices(self) -> Sizes:
        """The model without the layers that TF32 does not make faster than they are: cuDNN's, and narrow ones."""
        cudnn = {Per.PIXEL, Per.MORE, Per.STEP}
        parts = (each for each in self.without_narrow.parts if each.weights.per not in cudnn)
        return replace(self, parts=tuple(parts))

    @property
    def of_convolutions(self) -> Sizes:
        """The convolutions of the model alone; of one of torchvision all, as little else is in it."""
        return replace(self, parts=tuple(each for each in self.parts if each.weights.per in {Per.PIXEL, Per.MORE}))

    @property
    def tensors(self) -> int:
        """How many tensors its parameters are, at the most, where it is none of torchvision: weights and biases."""
        return sum(each.count * each.tensors for each in self.parts)

    @property
    def without_narrow(self) -> Sizes:
        """The model without the layers that 16 bits do not make faster."""
        return replace(self, parts=tuple(each for each in self.parts if not each.is_narrow))

    @property
    def for_a_pixel(self) -> int | None:
        """Multiplications for each pixel, at the most; None where they are not those of narrow convolutions alone.

        What enlarges images, as a decoder does, is taken to lead back to the size of those that are read.
        """
        multiplying = [each for each in self.parts if each.weights.products]
        forms = {each.weights.per for each in multiplying}
        if self.published is not None or self.uses is None or not forms or forms - {Per.PIXEL, Per.MORE}:
            return None
        is_narrow = all(each.weights.width <= NARROW for each in multiplying)
        return self.uses * sum(each.count * each.weights.products for each in multiplying) if is_narrow else None

    def forward(self, batch: int | None, image: tuple[int, int, int] | None) -> int | None:
        """Operations of a forward pass, at the most; None where that is not known.

        Args:
            batch: The samples of a batch.
            image: Channels, height and width of its images.
        """
        if self.published is not None:
            if batch is None or image is None:
                return None
            scale = image[1] * image[2] / self.published.side**2
            return int(2e9 * self.published.products * max(1.0, scale) * batch)
        forms = {each.weights.per for each in self.parts}
        if self.uses is None:
            return None
        if batch is not None and image is not None and not forms & {Per.ITEM, Per.STEP} and not self.is_acting:
            return 2 * batch * self.uses * self._products(image)
        if Per.MORE in forms or any(each.weights.per is Per.PIXEL and each.weights.sides > 1 for each in self.parts):
            return None
        rows = MOST_STEPS if self.is_acting and batch is None else MOST_ROWS
        if batch is not None and not self.mixes_rows:
            rows = min(rows, max(MOST_STORED, batch * MOST_OF_SAMPLE))
        return 2 * rows * self.uses * sum(each.count * each.weights.products for each in self.parts)

    def _products(self, image: tuple[int, int, int]) -> int:
        """Multiplications for an image: convolutions at its full size, linear layers for all rows that there may be.

        What enlarges images, as a decoder does, is taken to lead back to the size of those that are read.
        """
        channels, height, width = image
        pixels = height * width
        convolved = [each.weights.wide for each in self.parts if each.weights.per in {Per.PIXEL, Per.MORE}]
        numbers = pixels * max([channels, *convolved])
        rows = numbers // max((each.weights.narrow for each in self.parts if each.weights.per is Per.ROW), default=1)
        times = {Per.PIXEL: pixels, Per.MORE: pixels, Per.ROW: max(1, rows)}
        return sum(each.count * each.weights.products * times.get(each.weights.per, 0) for each in self.parts)


class Networks:
    """The sizes of the models of a script."""

    def __init__(self, script: Script, constants: Constants, lengths: Lengths) -> None:
        self._script = script
        self._flow = script.flow
        self._constants = constants
        self._lengths = lengths
        self._known: dict[Value, Sizes | None] = {}
        self._calls = LayerCalls(script)

    def sizes(self, model: Value) -> Sizes | None:
        """How large a model is; None where not all of its layers are known."""
        if model not in self._known:
            built = self._constants.built(model)
            self._known[model] = self._measured(built) if built is not None else None
        return self._known[model]

    def columns(self, model: Value) -> int | None:
        """The narrower side of a model that is one linear layer, as far as it is written out; None of other models."""
        built = self._constants.built(model)
        linear: list[Layer] = []
        for layer, count in _layers(built, set(), 1) if built is not None else ():
            if isinstance(layer, Layer) and layer.name == _LINEAR and count == 1:
                linear.append(layer)
            elif isinstance(layer, Built):
                if self._may_hold_more(layer) or self._calls.most(layer.class_) != 1:
                    return None
            elif not isinstance(layer, Layer) or _multiplies_more(layer):
                return None
        if len(linear) != 1:
            return None
        sides = (linear[0].argument(0, "in_features", None), linear[0].argument(1, "out_features", None))
        return min((each for each in sides if type(each) is int), default=None)

    def operations(self, model: Value, sizes: Sizes, iterations: Sequence[TrainingIteration]) -> int | None:
        """Operations that the model, or a part of it, computes in a training iteration, at the most.

        Args:
            model: The model.
            sizes: Of it, or of the part.
            iterations: Those that call it.
        """
        found = [self._operations(model, sizes, each) for each in iterations]
        return max((each for each in found if each is not None), default=None) if None not in found else None

    def _operations(self, model: Value, sizes: Sizes, iteration: TrainingIteration) -> int | None:
        calls = [each for each in iteration.of(EventKind.FORWARD) if model in each.subjects]
        loaders = self._lengths.loaders(iteration.module, iteration.owner)
        if sizes.is_acting and not loaders:
            return self._acting(sizes, calls)
        count = 0
        for call in calls:
            rounds = self._rounds(call.loops)
            if rounds is None:
                return None
            count += rounds
        found = [sizes.forward(self._lengths.batch_size(each), self._lengths.image(each.dataset)) for each in loaders]
        known = [each for each in found or [sizes.forward(None, None)] if each is not None]
        return 3 * max(known) * max(1, count) if known and len(known) == len(found or known) else None

    def _acting(self, sizes: Sizes, calls: Sequence[Event]) -> int | None:
        """The same of what acts in environments: each call in the code counts once, however often it is reached."""
        steps = sizes.forward(None, None)
        if steps is None:
            return None
        parts: dict[ast.AST, int] = {}
        for call in calls:
            rounds = self._rounds(call.loops)
            times = 1 if rounds is None else -(-rounds // MOST_STEPS)  # ``MOST_STEPS`` are those of all rounds
            part = steps // MOST_STEPS * MOST_STORED if self._draws_from_stored(call) else steps
            parts[call.node] = max(times * part, parts.get(call.node, 0))
        return 3 * sum(parts.values()) or 3 * steps

    def _draws_from_stored(self, call: Event) -> bool:
        """Whether the function of a call draws what it needs from what was stored: ``memory.sample(n)``, n as it is."""
        if call.frame is None or call.loops:
            return False
        drawn = [
            each
            for each in own(call.frame, ast.Call)
            if isinstance(each.func, ast.Attribute) and each.func.attr == "sample" and self._is_of_memory(each)
        ]
        numbers = [self._constants.number(each) for call in drawn for each in arguments_of(call)]
        return bool(drawn) and all(each is None or each <= MOST_STORED for each in numbers)

    def _is_of_memory(self, call: ast.Call) -> bool:
        """Whether it runs methods of the project's objects that are no models: a policy samples actions."""
        owners = [self._flow.owner(each) for each in self._flow.called(call)]
        return bool(owners) and all(
            each is not None and kind(self._flow, instance(each)) is not Kind.MODEL for each in owners
        )

    def _rounds(self, loops: Iterable[ast.AST]) -> int | None:
        """How often code within these loops runs; None where that is not known."""
        rounds = 1
        for loop in loops:
            inside = self._lengths.rounds(loop) if isinstance(loop, (ast.For, ast.While)) else None
            if inside is None:
                return None
            rounds *= inside
        return rounds

    def _measured(self, built: Built | Layer) -> Sizes | None:
        published = network(built.name) if isinstance(built, Layer) else None
        if published is not None:
            return Sizes(int(1e6 * published.parameters), (), published)
        parts: list[Part] = []
        is_acting = False
        classes: dict[ast.ClassDef, None] = {}
        for layer, count in _layers(built, set(), 1):
            if isinstance(layer, Built):
                classes[layer.class_] = None
                if self._may_hold_more(layer):
                    return None
            elif isinstance(layer, Layer):
                found = weights(layer.name, layer.argument)
                is_bounded = holds_bound([*layer.arguments, *layer.keywords.values()])
                if found is None or (is_bounded and found.per in {Per.PIXEL, Per.MORE}):
                    return None
                is_acting = is_acting or is_bounded
                parts.append(Part(found, count, int(layer.is_normalized)))
            else:
                return None
        counts = [each.weights.parameters for each in parts]
        each_one = [each.count * ((each.weights.parameters or 0) + each.more * each.weights.wide) for each in parts]
        total = sum(each_one) if None not in counts else None
        uses: int | None = 1
        for class_ in classes:
            found_uses = self._calls.most(class_)
            uses = uses * found_uses if uses is not None and found_uses is not None else None
        mixing = {Per.ITEM, Per.STEP, Per.PIXEL}
        mixes_rows = any(each.weights.per in mixing and each.weights.products for each in parts)
        return Sizes(total, tuple(parts), uses=uses, is_acting=is_acting, mixes_rows=mixes_rows)

    def _may_hold_more(self, built: Built) -> bool:
        """Whether it is a layer that is not seen to be given its sizes, or an attribute is not known and may be one."""
        if base_layer(self._flow, built.class_) is not None and BASE not in built.attributes:
            return True
        unknown = [name for name, value in built.attributes.items() if value is UNKNOWN]
        return any(self._may_be_layer(built.class_, each) for each in unknown)

    def _may_be_layer(self, class_: ast.ClassDef, name: str) -> bool:
        """Whether an attribute that is not known may be a layer that a forward pass runs."""
        held = [each for base in self._flow.project_bases(class_) for each in self._flow.attributes(base).get(name, ())]
        may_be_one = not held or any(not isinstance(each, _NO_LAYERS) for each in held)
        return may_be_one and self._calls.may_run(class_, name)


def _multiplies_more(layer: Layer) -> bool:
    """Whether the layer has weights that it multiplies by, or is not known."""
    found = weights(layer.name, layer.argument)
    return found is None or found.products > 0


def _layers(found: object, seen: set[int], count: int) -> Iterator[tuple[object, int]]:
    """The objects of the project, and the layers without those that only hold others; each once, with its number."""
    if found is UNKNOWN:
        yield found, count
    if not isinstance(found, (Built, Layer, list, tuple)) or id(found) in seen:
        return
    seen.add(id(found))
    inner = _held(found)
    if isinstance(found, Layer) and is_stack(found.name):
        number = found.argument(1, "num_layers")
        count, inner = (
            (count * number, [found.argument(0, "encoder_layer")]) if isinstance(number, int) else (1, [UNKNOWN])
        )
    elif isinstance(found, Built) or inner is None:
        yield found, count
    for each in inner or ():
        yield from _layers(each, seen, count)


def _held(found: Built | Layer | list[object] | tuple[object, ...]) -> Sequence[object] | None:
    """What holds layers, and which; None of a layer that is no container."""
    if isinstance(found, Built):  # what is not known of its attributes is looked at apart
        return [each for each in found.attributes.values() if each is not UNKNOWN]
    return children(found) if isinstance(found, Layer) else found
