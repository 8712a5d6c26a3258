"""Which images could be normalised on the device: what has to change for it together, and what is against it?

A transform, the data sets that use it, their loaders and the places that move their batches change together, or not at
all: else images are normalised twice, or never.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import argument_of
from codemods.dataflow.values import (
    NONE,
    NOTHING,
    Batch,
    Class,
    Function,
    Made,
    Method,
    Tensor,
    Value,
    library_names,
    without_none,
)
from codemods.facts.data.batch_roles import RESHAPES, VARIABLE, Role, role_of, roles_in, takes_parts
from codemods.facts.data.datasets import is_concatenated
from codemods.facts.data.loader_use import why_reading_is_unknown
from codemods.facts.data.normalize_steps import COMPOSE, LeftError, may_normalize, normalized
from codemods.facts.loops import module_of
from codemods.facts.reason import HERE, Reason, at
from codemods.library.datasets import has_8_bit_images, transform_position
from codemods.library.kinds import Kind, described, kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Module
    from codemods.facts.data.loaders import Loader
    from codemods.facts.data.normalize_steps import Normalized
    from codemods.facts.devices.transfers import Transfer
    from codemods.facts.reason import Place
    from codemods.facts.script import Script

_PARTS = frozenset(f"torch.utils.data.{name}" for name in ("Subset", "ConcatDataset"))
_SPLIT = "torch.utils.data.random_split"
_LOOKING = frozenset({"builtins.len", "builtins.print", "builtins.isinstance", "builtins.type"})
_ABOUT = frozenset(
    {"classes", "class_to_idx", "targets", "labels", "train_labels", "test_labels", "samples", "imgs", "data", "root"}
    | {"train_data", "test_data", "train", "split", "dataset", "indices", "__len__"}
)
"""Attributes of data sets that hold no transformed image; ``data`` are the images before all transforms."""
_ABOUT_BATCH = frozenset({"shape", "size", "ndim", "dim", "device", "numel", "nelement", "is_cuda"})
"""Attributes and methods of a batch that are the same whatever its numbers and their format."""
_HANDING_ON = (ast.Assign, ast.AnnAssign, ast.Return, ast.Tuple, ast.List, ast.Dict, ast.DictComp, ast.ListComp)
_DEFAULTS = ("torch.set_default_dtype", "torch.set_default_tensor_type")
_MOVING = {"to": {"device", "non_blocking", "memory_format"}, "cuda": {"device", "non_blocking", "async_"}}
"""The methods that move a batch, and those of their arguments that leave the format of its numbers."""


@dataclass(frozen=True, eq=False)
class Moved:
    """A batch of images on its way to the device."""

    transfer: Transfer
    loop: ast.For | ast.AsyncFor
    """The loop over batches."""


@dataclass(frozen=True, eq=False)
class Together:
    """What has to change together."""

    transforms: tuple[Normalized, ...]
    moves: tuple[Moved, ...]


def normalized_images(script: Script) -> Iterator[tuple[ast.Call, Together | Reason]]:
    """The module's transforms that normalise the images of a data set, with what changes with each, or why none can."""
    for call in script.flow.calls_of(script.module, (COMPOSE,)):
        value = Made(COMPOSE, call)
        if may_normalize(script, call) and _is_for_data(script, value):
            try:
                yield call, _Search(script).around(value)
            except LeftError as error:
                yield call, error.reason


def _is_for_data(script: Script, transform: Value) -> bool:
    """Whether a data set is given the transform."""
    for module, node in script.flow.places(transform):
        call = _call_given(module, node)
        if call is not None and any(kind(script.flow, each) is Kind.DATASET for each in script.flow.values(call)):
            return True
    return False


def _call_given(module: Module, node: ast.expr) -> ast.Call | None:
    """The call that is given the expression as an argument."""
    above = module.parent(node)
    above = module.parent(above) if isinstance(above, ast.keyword) else above
    return above if isinstance(above, ast.Call) and above.func is not node else None


@dataclass(eq=False)
class _Search:
    """The search for all that hangs together with a transform, until something is against it."""

    script: Script
    transforms: dict[Value, Normalized] = field(default_factory=dict)
    sets: set[Value] = field(default_factory=set)
    loaders: set[Value] = field(default_factory=set)
    moves: dict[ast.Call, Moved] = field(default_factory=dict)

    def around(self, transform: Value) -> Together:
        """All that changes with a transform.

        Raises:
            LeftError: when something is against it.
        """
        self._check_script()
        self._add_transform(transform)
        if not self.moves:
            raise LeftError.of(self._why_not_moved())
        return Together(tuple(self.transforms.values()), tuple(self.moves.values()))

    def _check_script(self) -> None:
        for module in self.script.modules:
            for call in self.script.flow.calls_of(module, _DEFAULTS):
                text = f"the script sets the number format that images are made tensors of ({HERE})"
                raise LeftError("other-precision", text, at(module, call))

    def _why_not_moved(self) -> Reason:
        loaders = [each for each in self.script.loaders if each.value in self.loaders]
        reason = next((each.why_not_moved for each in loaders if each.why_not_moved is not None), None)
        return reason or Reason("batches-not-moved", "no images of its batches are moved to a device")

    # Transforms.

    def _add_transform(self, value: Value) -> None:
        if value in self.transforms:
            return
        transform = normalized(self.script, value)
        self.transforms[value] = transform
        first = next(iter(self.transforms.values()))
        if (transform.means, transform.deviations) != (first.means, first.deviations):
            text = f"images that are normalised by other numbers ({HERE}) are moved at the same place"
            raise LeftError("other-images", text, self._at(transform.call))
        for step in self.script.flow.values(transform.normalize):
            self._add_users(step)
        for module, node in self.script.flow.places(value):
            self._check_use(module, node, "the transform")
            call = _call_given(module, node)
            for data in self.script.flow.values(call) if call is not None else NOTHING:
                if kind(self.script.flow, data) is Kind.DATASET and data.site is call:
                    self._add_set(data)

    def _add_users(self, normalize: Value) -> None:
        """The other transforms that an object is part of, which all do without it, or none."""
        for module, node in self.script.flow.places(normalize):
            above = module.parent(node)
            call = module.parent(above) if isinstance(above, ast.List) else None
            if isinstance(call, ast.Call):
                value = Made(COMPOSE, call)
                if value in self.script.flow.values(call) and _is_for_data(self.script, value):
                    self._add_transform(value)

    # Data sets.

    def _add_set(self, value: Value) -> None:
        if value in self.sets:
            return
        self.sets.add(value)
        call = value.site
        place = (self._at(call),) if call is not None else ()
        where = f" ({HERE})" if place else ""
        if not isinstance(value, Made) or not isinstance(call, ast.Call) or not has_8_bit_images(value.name):
            name = described(value)
            text = f"what {name} makes its images of is not known{where}: they may have more than 8 bits"
            raise LeftError("unknown-images", text, *place)
        if any(each.arg in {"loader", "transforms", None} for each in call.keywords):
            text = f"the data set reads or transforms its images in a way of its own{where}"
            raise LeftError("unknown-images", text, *place)
        for transform in self._given_transforms(value, call):
            self._add_transform(transform)
        self._check_uses(value)
        for loader in self.script.loaders:
            if value in loader.dataset.parts:
                self._add_loader(loader)

    def _given_transforms(self, value: Value, call: ast.Call) -> list[Value]:
        given = argument_of(call, "transform", transform_position(value.name))
        values = self.script.flow.values(given) if given is not None else frozenset({NONE})
        if NONE in values:
            text = f"images that are not transformed ({HERE}) are moved at the same place"
            raise LeftError("other-images", text, self._at(call))
        return sorted(values, key=lambda each: getattr(each.site, "lineno", 0))

    def _check_uses(self, data: Value) -> None:
        """That nobody else reads items of a data set, or of a part of it."""
        todo, seen = [data], set[Value]()
        while todo:
            value = todo.pop()
            if value in seen:
                continue
            seen.add(value)
            for module, node in self.script.flow.places(value):
                self._check_use(module, node, "the data set")
                call = _call_given(module, node)
                made = self.script.flow.values(call) if call is not None else NOTHING
                todo.extend(each for each in made if each.site is call and each.name in _PARTS)

    def _check_use(self, module: Module, node: ast.expr, what: str) -> None:
        """That what stands around a transform or a data set only hands it on."""
        above = module.parent(node)
        is_stored = isinstance(getattr(node, "ctx", None), ast.Store)
        if is_stored or _hands_on(above, node) or is_concatenated(self.script.flow, above):
            return
        if what == "the data set" and isinstance(above, ast.Attribute) and above.attr in _ABOUT:
            return
        call = _call_given(module, node)
        if call is not None and self._may_be_given(call, what):
            return
        here = (at(module, node),)
        if call is not None and any(each.name == "builtins.list" for each in self.script.flow.values(call.func)):
            raise LeftError("read-once", f"the images are read once, and then kept ({HERE})", *here)
        text = f"{what} is used in another way than through a loader ({HERE})"
        if what == "the transform":
            text = f"the transform is used by itself, or by code that is not followed ({HERE})"
        raise LeftError("images-used-elsewhere", text, *here)

    def _may_be_given(self, call: ast.Call, what: str) -> bool:
        """Whether what is called reads no items but as a loader does: a loader, a sampler, the project."""
        if any(each.call is call for each in self.script.loaders):
            return True
        callees = self.script.flow.values(call.func)
        names = library_names(callees)
        if names:
            in_data = {each for each in names if each.startswith("torch.utils.data.") and each.endswith("Sampler")}
            sets = {each for each in names if each.startswith("torchvision.datasets.")}
            known = sets if what == "the transform" else _LOOKING | _PARTS | {_SPLIT} | in_data
            return len(names) == len(callees) and names <= known
        return bool(callees) and all(isinstance(each, (Function, Method, Class)) for each in callees)

    # Loaders, and where their batches go.

    def _add_loader(self, loader: Loader) -> None:
        if loader.value in self.loaders:
            return
        self.loaders.add(loader.value)
        reason = loader.unknown_arguments or loader.dataset.why_unknown or why_reading_is_unknown(self.script, loader)
        if reason is not None:
            raise LeftError.of(reason)
        collate = loader.arguments.get("collate_fn")
        if collate is not None and collate.values != {NONE}:
            text = f"a loader of the images has a collate_fn of its own ({HERE})"
            raise LeftError("other-arguments", text, loader.at(loader.call))
        for part in sorted(loader.dataset.parts, key=lambda each: getattr(each.site, "lineno", 0)):
            self._add_set(part)
        for value in without_none(loader.dataset.values):
            self._check_uses(value)
        loops: dict[ast.AST, dict[str, Role]] = {}
        for reading in loader.passes:
            names = roles_in(self.script, loader, reading)
            if isinstance(names, Reason):
                raise LeftError.of(names)
            loops[reading.node] = names
        for module, node in self.script.flow.places(Batch(of=loader.value)):
            if not isinstance(getattr(node, "ctx", None), ast.Store):
                self._check_batch(loader, module, node, loops)

    def _check_batch(
        self, loader: Loader, module: Module, node: ast.expr, loops: dict[ast.AST, dict[str, Role]]
    ) -> None:
        """That an expression is no image, or one that is moved, or asked for its size only."""
        loop = next((each for each in module.ancestors(node) if each in loops), None)
        role = None
        if loop is not None:
            role = role_of(self.script, node, loops[loop], may_reshape=self._is_alike_for_channels)
        above = module.parent(node)
        if role is Role.LABELS or (role is Role.BATCH and takes_parts(above, node)):
            return
        if role is Role.IMAGES and isinstance(above, ast.Attribute) and self._may_be_asked(module, above):
            return
        call = _call_given(module, node)
        called = {each.name for each in self.script.flow.values(call.func)} if call is not None else set()
        if called == {"builtins.len"} or (role is Role.IMAGES and called == {VARIABLE}):
            return  # what is asked of ``Variable(x)`` is asked of that expression
        move = self._move(module, node) if role is Role.IMAGES else None
        if move is None or not isinstance(loop, (ast.For, ast.AsyncFor)):
            text = f"its images are used before they are on the device ({HERE}), where they are not normalised yet"
            raise LeftError.of(loader.why_not_moved or Reason("images-used-elsewhere", text, (at(module, node),)))
        self._add_move(loader, Moved(move, loop))

    def _may_be_asked(self, module: Module, member: ast.Attribute) -> bool:
        """Whether an attribute or method of images is asked for that has no use of what their numbers are."""
        if member.attr in _ABOUT_BATCH:
            return True
        call = module.parent(member)
        # What is asked of ``x.view(-1, 784)`` is asked of that expression.
        reshaped = member.attr in RESHAPES and self._is_alike_for_channels and isinstance(call, ast.Call)
        return reshaped and {type(each) for each in self.script.flow.values(call)} == {Batch}  # type: ignore[arg-type]

    @property
    def _is_alike_for_channels(self) -> bool:
        """Whether all channels are normalised by the same number, so that it does not matter where they are."""
        transform = next(iter(self.transforms.values()))
        return len(transform.means) == len(transform.deviations) == 1

    def _move(self, module: Module, node: ast.expr) -> Transfer | None:
        """The move of images that stands around an expression: ``x.to(device)``."""
        method = module.parent(node)
        move = module.parent(method) if isinstance(method, ast.Attribute) else None
        return next((each for each in self.script.transfers if each.call is move and each.moved is node), None)

    def _add_move(self, loader: Loader, moved: Moved) -> None:
        move = moved.transfer
        here = (at(move.module, move.call),)
        if move.module is not self.script.module:
            raise LeftError("other-module", f"another module moves the images to the device ({HERE})", *here)
        target = self.script.flow.values(move.target) if move.target is not None else NOTHING
        allowed = _MOVING.get(move.method, set())
        is_plain = len(move.call.args) <= 1 and all(each.arg in allowed for each in move.call.keywords)
        if not allowed or not is_plain or any(isinstance(each, Tensor) for each in target):
            text = f"the move changes more than the device ({HERE})"
            raise LeftError("other-arguments", text, *here)
        if not move.may_reach_cuda:
            raise LeftError.of(loader.why_not_moved or Reason("no-cuda", "its batches stay on the CPU"))
        if any(not isinstance(each, Batch) for each in move.sources):
            text = f"other tensors than batches may be moved at the same place ({HERE})"
            raise LeftError("other-images", text, *here)
        self.moves.setdefault(move.call, moved)
        for other in self.script.loaders:
            if other.value in move.loaders:
                self._add_loader(other)

    def _at(self, node: ast.AST) -> Place:
        return at(module_of(self.script.flow, node), node)


def _hands_on(above: ast.AST | None, node: ast.expr) -> bool:
    """Whether what stands around an expression gives it a name, or another place."""
    if isinstance(above, ast.comprehension):
        return above.iter is not node
    if isinstance(above, ast.IfExp):
        return above.test is not node
    return isinstance(above, _HANDING_ON)
