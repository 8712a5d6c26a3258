"""Which images could be normalised on the device: what has to change for it together, and what is against it?

A transform, the data sets that use it, their loaders and the places that move their batches change together, or not at
all: else images are normalised twice, or never.
"""

from __future__ import annotations

import ast
import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from codemods.dataflow.source import is_name, walk
from codemods.dataflow.values import NONE, NOTHING, TENSOR_SORTS, Sort, Value, without_none
from codemods.facts.data.loader_use import why_reading_is_unknown
from codemods.facts.data.reads import How
from codemods.facts.loops import module_of
from codemods.facts.reason import HERE, Reason, at
from codemods.library.datasets import has_8_bit_images, transform_position
from codemods.library.kinds import PROGRESS, Kind, described, kind
from codemods.library.transforms import keeps_8_bits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Module
    from codemods.facts.data.loaders import Loader
    from codemods.facts.data.reads import Pass
    from codemods.facts.devices.transfers import Transfer
    from codemods.facts.reason import Place
    from codemods.facts.script import Script

_COMPOSE = "torchvision.transforms.Compose"
_TO_TENSOR = "torchvision.transforms.ToTensor"
_NORMALIZE = "torchvision.transforms.Normalize"
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
_RESHAPES = frozenset({"view", "reshape", "flatten", "squeeze", "unsqueeze"})
"""Methods that make the same numbers a tensor of another shape, on which one number for all channels acts alike."""
_VARIABLE = "torch.autograd.Variable"
_INDEX_AND_BATCH = 2
_NUMBERS = ("mean", "std")
_MOVING = {"to": {"device", "non_blocking", "memory_format"}, "cuda": {"device", "non_blocking", "async_"}}
"""The methods that move a batch, and those of their arguments that leave the format of its numbers."""


class _Role(enum.Enum):
    """What a name holds in a loop over batches."""

    BATCH = "images and labels"
    IMAGES = "images"
    LABELS = "labels"


@dataclass(frozen=True, eq=False)
class Normalized:
    """A transform whose last steps make a tensor of an image and normalise it: ``[…, ToTensor(), Normalize(…)]``."""

    module: Module
    call: ast.Call
    steps: ast.List
    to_tensor: ast.Call
    normalize: ast.expr
    """The last step as it stands there: a call, or the name of an object that is made elsewhere."""
    made: ast.Call
    """The call that makes that object."""
    given: tuple[ast.expr, ast.expr]
    """The means and standard deviations, as they are given to it."""
    means: tuple[float, ...]
    deviations: tuple[float, ...]
    """One number of each for all channels, or one for each channel."""


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


class LeftError(Exception):
    """Something is against it."""

    def __init__(self, code: str, text: str, *places: Place, remedy: str = "") -> None:
        """The parts of the reason."""
        super().__init__(text)
        self.reason = Reason(code, text, places, remedy)

    @classmethod
    def of(cls, reason: Reason) -> LeftError:
        """A reason that is there already."""
        return cls(reason.code, reason.text, *reason.places, remedy=reason.remedy)


def normalized_images(script: Script) -> Iterator[tuple[ast.Call, Together | Reason]]:
    """The module's transforms that normalise the images of a data set, with what changes with each, or why none can."""
    for call in script.flow.calls_of(script.module, (_COMPOSE,)):
        value = Value(Sort.MADE, _COMPOSE, call)
        if _may_normalize(script, call) and _is_for_data(script, value):
            try:
                yield call, _Search(script).around(value)
            except LeftError as error:
                yield call, error.reason


def _steps(script: Script, call: ast.Call) -> Iterator[tuple[ast.expr, set[str]]]:
    """The steps of a transform that are written out in its list, and the names of what each may be."""
    given = _given(call)
    for each in given[0].elts if len(given) == 1 and isinstance(given[0], ast.List) else ():
        yield each, {value.name if value.sort is Sort.MADE else "" for value in script.flow.values(each)}


def _may_normalize(script: Script, call: ast.Call) -> bool:
    """Whether one of a transform's steps may be ``Normalize``, be they written out or not."""
    lists = (each for node in _given(call) for each in script.flow.values(node))
    items = (item for each in lists for key in script.flow.keys(each) for item in script.flow.items(each, key))
    return any(each.sort is Sort.MADE and each.name == _NORMALIZE for each in items)


def _given(call: ast.Call) -> list[ast.expr]:
    """What a call is given, by position or by name."""
    return [*call.args, *(each.value for each in call.keywords)]


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
        found = [each for each in self.script.loaders if each.value in self.loaders]
        reason = next((each.why_not_moved for each in found if each.why_not_moved is not None), None)
        return reason or Reason("batches-not-moved", "no images of its batches are moved to a device")

    # Transforms.

    def _add_transform(self, value: Value) -> None:
        if value in self.transforms:
            return
        found = self._normalized(value)
        self.transforms[value] = found
        first = next(iter(self.transforms.values()))
        if (found.means, found.deviations) != (first.means, first.deviations):
            text = f"images that are normalised by other numbers ({HERE}) are moved at the same place"
            raise LeftError("other-images", text, self._at(found.call))
        for each in self.script.flow.values(found.normalize):
            self._add_users(each)
        for module, node in self.script.flow.places(value):
            self._check_use(module, node, "the transform")
            call = _call_given(module, node)
            for data in self.script.flow.values(call) if call is not None else NOTHING:
                if kind(self.script.flow, data) is Kind.DATASET and data.site is call:
                    self._add_set(data)

    def _normalized(self, value: Value) -> Normalized:
        """What a transform does, where it ends in the two steps."""
        call = value.site
        places = (self._at(call),) if isinstance(call, ast.Call) else ()
        if value.sort is not Sort.MADE or value.name != _COMPOSE or not isinstance(call, ast.Call):
            name = described(value)
            if places:
                text = f"images that are transformed otherwise, by {name} ({HERE}), are moved at the same place"
            else:
                text = f"images that are transformed otherwise, by {name}, are moved at the same place"
            raise LeftError("other-images", text, *places)
        if module_of(self.script.flow, call) is not self.script.module:
            raise LeftError("other-module", f"another module makes a transform of such images ({HERE})", *places)
        steps = list(_steps(self.script, call))
        names = [next(iter(each)) if len(each) == 1 else "" for _, each in steps]
        self._check_steps(call, steps, names)
        *_, (to_tensor, _), (normalize, _) = steps
        made = next(iter(self.script.flow.values(normalize))).site
        assert isinstance(made, ast.Call)  # noqa: S101 - for mypy: it was made by a call
        given = (self._given_numbers(made, 0), self._given_numbers(made, 1))
        means, deviations = (self._numbers(made, *each) for each in zip(_NUMBERS, given, strict=True))
        assert isinstance(to_tensor, ast.Call)  # noqa: S101 - for mypy: ``_check_steps`` saw it
        display = self.script.module.parent(to_tensor)
        assert isinstance(display, ast.List)  # noqa: S101 - for mypy: ``_steps`` takes them from there
        return Normalized(self.script.module, call, display, to_tensor, normalize, made, given, means, deviations)

    def _check_steps(self, call: ast.Call, steps: list[tuple[ast.expr, set[str]]], names: list[str]) -> None:
        """That the list ends in the two steps, and that the others leave an image with 8 bits for each channel."""
        here = (self._at(call),)
        if not steps:
            raise LeftError("unknown-transform", f"the steps of a transform are not written out ({HERE})", *here)
        if names[-1] != _NORMALIZE and _NORMALIZE in names:
            last = steps[-1][0]
            text = f"'{self.script.module.code(last)}' follows Normalize ({HERE})"
            raise LeftError("not-normalized-last", text, self._at(last))
        if names[-1] != _NORMALIZE:
            text = f"images that are not normalised ({HERE}) are moved at the same place"
            raise LeftError("other-images", text, *here)
        if names[-2:-1] != [_TO_TENSOR] or not isinstance(steps[-2][0], ast.Call):
            text = f"no ToTensor() stands right before Normalize ({HERE})"
            raise LeftError("not-normalized-last", text, *here)
        for (node, _), name in zip(steps[:-2], names[:-2], strict=True):
            if not keeps_8_bits(name):
                text = f"whether '{self.script.module.code(node)}' leaves images 8 bits for each channel is not known"
                raise LeftError("unknown-transform", f"{text} ({HERE})", self._at(node))

    def _given_numbers(self, call: ast.Call, position: int) -> ast.expr:
        name = _NUMBERS[position]
        node = next((each.value for each in call.keywords if each.arg == name), None)
        if node is None and len(call.args) > position:
            node = call.args[position]
        if node is None or isinstance(node, ast.Starred):
            text = f"the arguments of Normalize cannot be seen ({HERE})"
            raise LeftError("unknown-arguments", text, self._at(call))
        return node

    def _numbers(self, call: ast.Call, name: str, node: ast.expr) -> tuple[float, ...]:
        """The means or the standard deviations that ``Normalize`` is given; one, where they are all the same."""
        values = self.script.flow.values(node)
        value = next(iter(values)) if len(values) == 1 else NONE
        made = value.site if value.sort is Sort.CONTAINER and not self._is_changed(value) else node
        items = made.elts if isinstance(made, (ast.List, ast.Tuple)) else [made]
        found = [_number(each) for each in items]
        known = tuple(each for each in found if each is not None)
        if not known or len(known) != len(found) or (name == "std" and not all(known)):
            text = f"the numbers that Normalize is given as {name} are not known ({HERE}):"
            raise LeftError("unknown-arguments", text, self._at(call), remedy="write them out")
        return known[:1] if len(set(known)) == 1 else known

    def _is_changed(self, container: Value) -> bool:
        """Whether other numbers may stand in a list later."""
        for module, node in self.script.flow.places(container):
            above = module.parent(node)
            if isinstance(above, (ast.Attribute, ast.AugAssign)):
                return True
            if isinstance(above, ast.Subscript) and not isinstance(above.ctx, ast.Load):
                return True
        return False

    def _add_users(self, normalize: Value) -> None:
        """The other transforms that an object is part of, which all do without it, or none."""
        for module, node in self.script.flow.places(normalize):
            above = module.parent(node)
            call = module.parent(above) if isinstance(above, ast.List) else None
            if isinstance(call, ast.Call):
                value = Value(Sort.MADE, _COMPOSE, call)
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
        if value.sort is not Sort.MADE or not isinstance(call, ast.Call) or not has_8_bit_images(value.name):
            name = described(value)
            text = f"what {name} makes its images of is not known{where}: they may have more than 8 bits"
            raise LeftError("unknown-images", text, *place)
        if any(each.arg in {"loader", "transforms", None} for each in call.keywords):
            text = f"the data set reads or transforms its images in a way of its own{where}"
            raise LeftError("unknown-images", text, *place)
        for each in self._given_transforms(value, call):
            self._add_transform(each)
        self._check_uses(value)
        for loader in self.script.loaders:
            if value in loader.dataset.parts:
                self._add_loader(loader)

    def _given_transforms(self, value: Value, call: ast.Call) -> list[Value]:
        given = next((each.value for each in call.keywords if each.arg == "transform"), None)
        position = transform_position(value.name)
        if given is None and position is not None and len(call.args) > position:
            given = call.args[position]
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
        if isinstance(getattr(node, "ctx", None), ast.Store) or _hands_on(above, node):
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
        names = {each.name for each in callees if each.sort is Sort.EXTERNAL}
        if names:
            in_data = {each for each in names if each.startswith("torch.utils.data.") and each.endswith("Sampler")}
            sets = {each for each in names if each.startswith("torchvision.datasets.")}
            known = sets if what == "the transform" else _LOOKING | _PARTS | {_SPLIT} | in_data
            return len(names) == len(callees) and names <= known
        return bool(callees) and all(each.sort in {Sort.FUNCTION, Sort.METHOD, Sort.CLASS} for each in callees)

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
        for each in sorted(loader.dataset.parts, key=lambda each: getattr(each.site, "lineno", 0)):
            self._add_set(each)
        for value in without_none(loader.dataset.values):
            self._check_uses(value)
        loops = {each.node: self._roles(loader, each) for each in loader.passes}
        for module, node in self.script.flow.places(Value(Sort.BATCH, of=loader.value)):
            if not isinstance(getattr(node, "ctx", None), ast.Store):
                self._check_batch(loader, module, node, loops)

    def _roles(self, loader: Loader, reading: Pass) -> dict[str, _Role]:
        """What a loop over the loader gives names to: whole batches, their images, or their labels."""
        loop = reading.node
        target = _target(self.script, loop) if isinstance(loop, (ast.For, ast.AsyncFor)) else None
        if reading.how is not How.LOOP or target is None:
            text = f"how its batches are read is not followed ({HERE})"
            if reading.how is How.FIRST:
                text = f"a single batch is read outside of a loop ({HERE})"
            raise LeftError("unknown-reading", text, loader.at(loop))
        if not isinstance(target, ast.Name):
            return _unpacked(target)
        found = {target.id: _Role.BATCH}
        for each in walk(loop):
            if isinstance(each, ast.Assign) and is_name(each.value, target.id):
                for unpacking in each.targets:
                    found |= _unpacked(unpacking)
        return found

    def _check_batch(
        self, loader: Loader, module: Module, node: ast.expr, loops: dict[ast.AST, dict[str, _Role]]
    ) -> None:
        """That an expression is no image, or one that is moved, or asked for its size only."""
        loop = next((each for each in module.ancestors(node) if each in loops), None)
        role = self._role(node, loops[loop]) if loop is not None else None
        above = module.parent(node)
        if role is _Role.LABELS or (role is _Role.BATCH and _takes_parts(above, node)):
            return
        if role is _Role.IMAGES and isinstance(above, ast.Attribute) and self._may_be_asked(module, above):
            return
        call = _call_given(module, node)
        called = {each.name for each in self.script.flow.values(call.func)} if call is not None else set()
        if called == {"builtins.len"} or (role is _Role.IMAGES and called == {_VARIABLE}):
            return  # what is asked of ``Variable(x)`` is asked of that expression
        move = self._move(module, node) if role is _Role.IMAGES else None
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
        reshaped = member.attr in _RESHAPES and self._is_alike_for_channels and isinstance(call, ast.Call)
        return reshaped and {each.sort for each in self.script.flow.values(call)} == {Sort.BATCH}  # type: ignore[arg-type]

    @property
    def _is_alike_for_channels(self) -> bool:
        """Whether all channels are normalised by the same number, so that it does not matter where they are."""
        transform = next(iter(self.transforms.values()))
        return len(transform.means) == len(transform.deviations) == 1

    def _role(self, node: ast.expr, roles: dict[str, _Role]) -> _Role | None:
        """What an expression in a loop over batches is."""
        match node:
            case ast.Name(name):
                return roles.get(name)
            case ast.Subscript(ast.Name(name), ast.Constant(int(index))) if roles.get(name) is _Role.BATCH:
                return _Role.IMAGES if index == 0 else _Role.LABELS if index > 0 else None
            case ast.Call(ast.Attribute(owner, method)) if method in _RESHAPES and self._is_alike_for_channels:
                return self._role(owner, roles)
            case ast.Call(function, [given], []):
                called = {each.name for each in self.script.flow.values(function)}
                return self._role(given, roles) if called == {_VARIABLE} else None
        return None

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
        if not allowed or not is_plain or any(each.sort in TENSOR_SORTS for each in target):
            text = f"the move changes more than the device ({HERE})"
            raise LeftError("other-arguments", text, *here)
        if not move.may_reach_cuda:
            raise LeftError.of(loader.why_not_moved or Reason("no-cuda", "its batches stay on the CPU"))
        if any(each.sort is not Sort.BATCH for each in move.sources):
            text = f"other tensors than batches may be moved at the same place ({HERE})"
            raise LeftError("other-images", text, *here)
        self.moves.setdefault(move.call, moved)
        for other in self.script.loaders:
            if other.value in move.loaders:
                self._add_loader(other)

    def _at(self, node: ast.AST) -> Place:
        return at(module_of(self.script.flow, node), node)


def _number(node: ast.AST | None) -> float | None:
    """The number that is written out."""
    match node:
        case ast.Constant(int(value) | float(value)) if not isinstance(value, bool):
            return float(value)
        case ast.UnaryOp(ast.USub(), operand):
            number = _number(operand)
            return None if number is None else -number
    return None


def _target(script: Script, loop: ast.For | ast.AsyncFor) -> ast.expr | None:
    """What a loop over a loader gives each batch to: ``x, y`` of ``for i, (x, y) in enumerate(loader)``."""
    target, node = loop.target, loop.iter
    while isinstance(node, ast.Call) and node.args:
        names = {each.name for each in script.flow.values(node.func)}
        if names == {"builtins.enumerate"}:
            if not isinstance(target, ast.Tuple) or len(target.elts) != _INDEX_AND_BATCH:
                return None
            target = target.elts[1]
        elif not names or not names <= PROGRESS:
            break
        node = node.args[0]
    return target if any(kind(script.flow, each) is Kind.LOADER for each in script.flow.values(node)) else None


def _hands_on(above: ast.AST | None, node: ast.expr) -> bool:
    """Whether what stands around an expression gives it a name, or another place."""
    if isinstance(above, ast.comprehension):
        return above.iter is not node
    if isinstance(above, ast.IfExp):
        return above.test is not node
    return isinstance(above, _HANDING_ON)


def _unpacked(target: ast.expr) -> dict[str, _Role]:
    """The names in ``images, labels``; none where the first is no name."""
    match target:
        case ast.Tuple([ast.Name(first), *others]) | ast.List([ast.Name(first), *others]):
            names = [each.id for each in others if isinstance(each, ast.Name)]
            return {**dict.fromkeys(names, _Role.LABELS), first: _Role.IMAGES} if first not in names else {}
    return {}


def _takes_parts(above: ast.AST | None, node: ast.expr) -> bool:
    """Whether what stands around a batch takes its parts: ``x, y = batch``, ``batch[0]``."""
    match above:
        case ast.Assign(targets):
            return all(_unpacked(each) for each in targets)
        case ast.Subscript(value, ast.Constant(int(index))):
            return value is node and index >= 0
    return False
