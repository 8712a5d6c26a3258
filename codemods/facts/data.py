"""Loaders, the data sets they read, and the moves of their batches to a device."""

from __future__ import annotations

import ast
import enum
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.facts.devices import Device, DeviceKind, cuda_tests, device
from codemods.facts.kinds import LOADER, Kind, described, is_dtype, kind
from codemods.facts.values import NONE, NOTHING, Sort, Value, Values, without_none

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.facts.flow import Flow
    from codemods.facts.source import FunctionNode, Module

# DataLoader's parameters, in the order of its signature (torch 2.15); those after ``generator`` are keyword-only.
LOADER_PARAMETERS = (
    *("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory", "drop_last"),
    *("timeout", "worker_init_fn", "multiprocessing_context", "generator"),
)
_MOVES = frozenset({"to", "cuda", "type"})

# torchvision's data sets of images that all have one size.
ONE_SIZE = frozenset(
    f"torchvision.datasets.{name}"
    for name in ("MNIST", "FashionMNIST", "KMNIST", "EMNIST", "QMNIST", "CIFAR10", "CIFAR100", "SVHN", "STL10", "USPS", "FakeData", "PCAM")
)
_RANDOM_TRANSFORMS = frozenset({"ColorJitter", "AutoAugment", "RandAugment", "TrivialAugmentWide", "AugMix", "GaussianBlur", "GaussianNoise"})
_SIZING = frozenset({"CenterCrop", "RandomCrop", "RandomResizedCrop", "FiveCrop", "TenCrop", "RandomSizedCrop"})
# Transforms that keep an image's size, or change it by a fixed amount.
_KEEPS_SIZE = frozenset(
    {"ToTensor", "PILToTensor", "ToPILImage", "ToImage", "ToDtype", "ConvertImageDtype", "Normalize", "Grayscale", "RandomGrayscale"}
    | {"RandomHorizontalFlip", "RandomVerticalFlip", "RandomAffine", "RandomPerspective", "RandomErasing", "RandomAdjustSharpness"}
    | {"RandomAutocontrast", "RandomEqualize", "RandomInvert", "RandomPosterize", "RandomSolarize", "Pad", "LinearTransformation"}
    | _RANDOM_TRANSFORMS
)


class Given(enum.Enum):
    """How an argument reaches a call."""

    POSITIONAL = "by position"
    KEYWORD = "by keyword"
    SPREAD = "through **"


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a loader."""

    how: Given
    values: Values
    node: ast.expr | None
    """The expression, where it stands in the call itself."""


@dataclass(frozen=True, eq=False)
class Transfer:
    """A call that moves tensors to a device: ``x.to(device)``, ``x.cuda()``, ``x.type(Tensor)``."""

    flow: Flow
    module: Module
    call: ast.Call

    @property
    def receiver(self) -> ast.expr:
        """What is moved."""
        return self.call.func.value  # type: ignore[attr-defined, no-any-return]

    @property
    def method(self) -> str:
        """``to``, ``cuda`` or ``type``."""
        return self.call.func.attr  # type: ignore[attr-defined, no-any-return]

    @cached_property
    def sources(self) -> Values:
        """What may be moved."""
        return without_none(self.flow.values(self.receiver))

    @property
    def loaders(self) -> tuple[Value, ...]:
        """The loaders whose batches are moved as they came, still in the memory that the loader gave them."""
        return tuple(each.of for each in self.sources if each.sort is Sort.BATCH and each.of is not None)

    @cached_property
    def device(self) -> Device:
        """Where to."""
        if self.method == "cuda":
            index = self.call.args[0] if self.call.args else None
            return Device(DeviceKind.CUDA, index, names=frozenset({"cuda"}))
        argument = self.target
        if argument is None:
            return Device(DeviceKind.UNKNOWN, None, reason="the device is not given")
        if self.method == "type":
            return self._type_device(argument)
        if any(each.sort in {Sort.MOVED, Sort.HOST, Sort.BATCH, Sort.TENSOR} for each in self.flow.values(argument)):
            return Device(DeviceKind.UNKNOWN, argument, reason="the target is another tensor")
        return device(self.flow, argument)

    @property
    def target(self) -> ast.expr | None:
        """The argument that names the device (``to``, ``cuda``) or the tensor type (``type``)."""
        name = "dtype" if self.method == "type" else "device"
        for keyword in self.call.keywords:
            if keyword.arg == name:
                return keyword.value
        return self.call.args[0] if self.call.args else None

    def _type_device(self, argument: ast.expr) -> Device:
        """The device of ``x.type(Tensor)``, where ``Tensor`` is one of the legacy tensor types."""
        values = self.flow.values(argument)
        names = {each.name if each.sort is Sort.EXTERNAL else str(each.literal) for each in values if each.sort in {Sort.EXTERNAL, Sort.LITERAL}}
        if len(names) != len(without_none(values)) or not names:
            return Device(DeviceKind.UNKNOWN, argument, reason="the tensor type is not known")
        on_cuda = {name.startswith("torch.cuda.") for name in names}
        kinds = {frozenset({True}): DeviceKind.CUDA, frozenset({False}): DeviceKind.CPU}
        return Device(kinds.get(frozenset(on_cuda), DeviceKind.CONDITIONAL), argument)

    @cached_property
    def tests(self) -> list[ast.expr]:
        """The conditions about CUDA under which it runs, from the inside out."""
        return cuda_tests(self.flow, self.module, self.call)

    @property
    def non_blocking(self) -> ast.expr | None:
        """The ``non_blocking`` argument that is there."""
        for keyword in self.call.keywords:
            if keyword.arg in {"non_blocking", "async_"}:
                return keyword.value
        position = {"to": 2, "cuda": 1, "type": 1}[self.method]
        if self.method == "to" and self.call.args and isinstance(self.call.args[0], (ast.Name, ast.Attribute)):
            # x.to(dtype, non_blocking) and x.to(other, non_blocking) have it one place earlier.
            first = self.flow.values(self.call.args[0])
            position = 1 if any(is_dtype(each) for each in first) else 2
        return self.call.args[position] if len(self.call.args) > position else None

    @property
    def may_reach_cuda(self) -> bool:
        """Whether it may be a copy to a CUDA device."""
        return self.device.kind in {DeviceKind.CUDA, DeviceKind.CONDITIONAL}


def transfers(flow: Flow, modules: Sequence[Module]) -> Iterator[Transfer]:
    """Every call that moves a tensor, or something that may be one, to a device."""
    for module in modules:
        for call in module.nodes(ast.Call):
            if isinstance(call.func, ast.Attribute) and call.func.attr in _MOVES:
                values = flow.values(call.func.value)
                tensors = any(each.sort in {Sort.BATCH, Sort.HOST, Sort.MOVED, Sort.TENSOR} for each in values)
                if not tensors or (call.func.attr == "type" and not call.args):
                    continue
                first = flow.values(call.args[0]) if call.args and call.func.attr == "to" else NOTHING
                only_dtype = bool(first) and all(is_dtype(each) for each in first) and len(call.args) == 1
                if only_dtype or (call.func.attr == "to" and not call.args and not any(k.arg == "device" for k in call.keywords)):
                    continue
                yield Transfer(flow, module, call)


@dataclass(frozen=True, eq=False)
class Loader:
    """A ``torch.utils.data.DataLoader`` that the script makes."""

    flow: Flow
    module: Module
    value: Value
    call: ast.Call
    transfers: tuple[Transfer, ...]
    """The moves of its batches, as they came."""
    converted: tuple[Transfer, ...] = ()
    """The moves of tensors that were made from its batches on the host, in pageable memory."""

    @cached_property
    def arguments(self) -> dict[str, Argument]:
        """Its arguments by name, those that come through ``**`` of known dictionaries among them."""
        found: dict[str, Argument] = {}
        for position, node in enumerate(self.call.args):
            if isinstance(node, ast.Starred) or position >= len(LOADER_PARAMETERS):
                break
            found[LOADER_PARAMETERS[position]] = Argument(Given.POSITIONAL, self.flow.values(node), node)
        for keyword in self.call.keywords:
            if keyword.arg is not None:
                found[keyword.arg] = Argument(Given.KEYWORD, self.flow.values(keyword.value), keyword.value)
        for dictionary in self.dictionaries:
            for key in self.flow.keys(dictionary):
                if isinstance(key, str) and key not in found:
                    found[key] = Argument(Given.SPREAD, self.flow.items(dictionary, key), None)
        return found

    @cached_property
    def dictionaries(self) -> tuple[Value, ...]:
        """The dictionaries that may be given with ``**``."""
        return tuple(
            each
            for keyword in self.call.keywords
            if keyword.arg is None
            for each in without_none(self.flow.values(keyword.value))
            if each.sort is Sort.CONTAINER
        )

    @cached_property
    def unknown_arguments(self) -> str | None:
        """Why there may be arguments that cannot be seen, or None where there are none."""
        if any(isinstance(each, ast.Starred) for each in self.call.args):
            return "its arguments are given with *"
        for keyword in self.call.keywords:
            if keyword.arg is not None:
                continue
            for each in without_none(self.flow.values(keyword.value)) or {Value(Sort.UNKNOWN, "they are never given a value")}:
                if each.sort is not Sort.CONTAINER or None in self.flow.keys(each):
                    reason = each.name if each.sort is Sort.UNKNOWN else "they are not all written in this file"
                    return f"its arguments are given with **{ast.unparse(keyword.value)}: {reason}"
        return None

    @property
    def pin_memory(self) -> Argument | None:
        """The ``pin_memory`` argument that is there."""
        return self.arguments.get("pin_memory")

    @cached_property
    def dataset(self) -> Dataset:
        """The data set it reads."""
        argument = self.arguments.get("dataset")
        return Dataset(self.flow, argument.values if argument is not None else NOTHING)

    @cached_property
    def moves(self) -> tuple[Transfer, ...]:
        """The moves of its batches that may be copies to a CUDA device."""
        return tuple(each for each in self.transfers if each.may_reach_cuda)

    @cached_property
    def why_not_pinnable(self) -> str | None:
        """Why its batches cannot or should not be in pinned memory, or None where they can."""
        for name in ("dataset", "collate_fn", "sampler", "batch_sampler"):
            argument = self.arguments.get(name)
            problem = cuda_in(self.flow, argument.values) if argument is not None else None
            if problem is not None:
                return problem
        return self.dataset.why_unknown or self._why_not_moved

    @property
    def _why_not_moved(self) -> str | None:
        if self.moves:
            return None
        if not self.transfers and self.converted:
            line = self.converted[0].call.lineno
            return f"its batches are converted on the host before they are moved, which leaves pinned memory (line {line})"
        if not self.transfers:
            return "its batches are not moved to a device in this file"
        kinds = {each.device.kind for each in self.transfers}
        if kinds == {DeviceKind.CPU}:
            return "its batches stay on the CPU"
        if DeviceKind.UNKNOWN in kinds:
            reasons = sorted(each.device.reason for each in self.transfers if each.device.kind is DeviceKind.UNKNOWN)
            return f"the device its batches are moved to is not known: {reasons[0]}"
        return "its batches are moved to another accelerator than CUDA"

    @property
    def is_pinned(self) -> bool:
        """Whether the script pins its batches already, always or under a condition."""
        pinned = self.pin_memory
        return pinned is not None and not all(_is_false(each) for each in pinned.values)

    @property
    def is_left_unpinned(self) -> bool:
        """Whether the script says ``pin_memory=False``."""
        return self.pin_memory is not None and not self.is_pinned

    @property
    def can_be_pinned(self) -> bool:
        """Whether ``pin_memory`` can be given to it, so that its batches reach the device without blocking."""
        return self.pin_memory is None and self.unknown_arguments is None and self.why_not_pinnable is None


def _is_false(value: Value) -> bool:
    return value.sort is Sort.LITERAL and not value.literal


def loaders(flow: Flow, modules: Sequence[Module], moves: Sequence[Transfer]) -> Iterator[Loader]:
    """Every ``DataLoader`` that the modules make, in the order of the text."""
    for module in modules:
        for call in module.nodes(ast.Call):
            value = Value(Sort.MADE, LOADER, call)
            if value in flow.values(call) or _makes_loader(flow, call):
                of_this = value if value in flow.values(call) else next(iter(flow.values(call)))
                yield Loader(
                    flow,
                    module,
                    of_this,
                    call,
                    tuple(each for each in moves if of_this in each.loaders),
                    tuple(each for each in moves if any(source.sort is Sort.HOST and source.of == of_this for source in each.sources)),
                )


def _makes_loader(flow: Flow, call: ast.Call) -> bool:
    """Whether the call makes an object of a loader class that the project derives from torch's, with its signature."""
    for each in flow.values(call):
        if each.sort is Sort.INSTANCE and each.site is call and kind(flow, each) is Kind.LOADER and each.of is not None:
            class_ = each.of.site
            return isinstance(class_, ast.ClassDef) and flow.method(class_, "__init__") is None
    return False


@dataclass(frozen=True, eq=False)
class Dataset:
    """The data set that a loader reads: all that it may be."""

    flow: Flow
    values: Values

    @cached_property
    def parts(self) -> tuple[Value, ...]:
        """The data sets behind ``Subset``, ``random_split``, ``ConcatDataset`` and the like."""
        found: dict[Value, None] = {}
        todo = list(without_none(self.values))
        while todo:
            value = todo.pop()
            inner = self._inner(value)
            if inner is None:
                found[value] = None
            else:
                todo.extend(each for each in without_none(inner) if each not in found and each is not value)
        return tuple(found)

    def _inner(self, value: Value) -> Values | None:
        if value.sort is not Sort.MADE or not isinstance(value.site, ast.Call) or not value.site.args:
            return None
        first = self.flow.values(value.site.args[0])
        if value.name == "torch.utils.data.Subset":
            return first
        if value.name in {"torch.utils.data.ConcatDataset", "torch.utils.data.ChainDataset"}:
            return NOTHING.union(*[self.flow.items(each) for each in first]) or None
        return None

    @cached_property
    def why_unknown(self) -> str | None:
        """Why it is not known what the data set is, or None where it is.

        A library's data set yields host tensors, as all that are known do; a class of a file that was not read may not.
        """
        if not self.parts:
            return "its data set is never given a value in this file"
        for part in self.parts:
            if part.sort is Sort.UNKNOWN:
                return f"its data set is not known: {part.name}"
            if part.sort is Sort.CHOICE:
                return f"its data set is chosen when the script is started ({part.name})"
            if part.sort is Sort.MADE and part.name.startswith("."):
                return f"its data set comes from {described(part)}, in a file that was not read"
        return None

    @cached_property
    def is_iterable(self) -> bool:
        """Whether it is an ``IterableDataset``."""
        return any(
            "torch.utils.data.IterableDataset" in self.flow.bases(each.of.site)
            for each in self.parts
            if each.sort is Sort.INSTANCE and each.of is not None and isinstance(each.of.site, ast.ClassDef)
        )

    @cached_property
    def is_in_memory(self) -> bool:
        """Whether all of it is tensors, arrays or lists that are in memory already."""
        tensors = {Sort.HOST, Sort.TENSOR, Sort.MOVED, Sort.CONTAINER}
        return bool(self.parts) and all(
            each.sort in tensors or (each.sort is Sort.MADE and each.name == "torch.utils.data.TensorDataset") for each in self.parts
        )

    @cached_property
    def transforms(self) -> tuple[Value, ...] | None:
        """The transforms of its images in order, those inside ``Compose`` one by one; None where they are not known."""
        found: list[Value] = []
        for part in self.parts:
            if part.sort is not Sort.MADE or not isinstance(part.site, ast.Call) or not part.name.startswith("torchvision.datasets."):
                return None
            values = next((self.flow.values(each.value) for each in part.site.keywords if each.arg == "transform"), NOTHING)
            if any(each.arg is None for each in part.site.keywords):
                return None
            for value in without_none(values):
                steps = self._steps(value)
                if steps is None:
                    return None
                found.extend(steps)
        return tuple(found)

    def _steps(self, value: Value) -> list[Value] | None:
        if value.sort is not Sort.MADE or not isinstance(value.site, ast.Call):
            return None
        if value.name not in {"torchvision.transforms.Compose", "torchvision.transforms.Sequential", "torch.nn.Sequential"}:
            return [value]
        steps: list[Value] = []
        for argument in value.site.args[:1]:
            for each in self.flow.values(argument):
                for item in self.flow.items(each):
                    inner = self._steps(item)
                    if inner is None:
                        return None
                    steps.extend(inner)
        return steps

    @cached_property
    def draws(self) -> bool | None:
        """Whether reading an item draws random numbers; None where that is not known."""
        if self.is_in_memory:
            return False
        if self.transforms is None:
            return None
        names = [each.name.rpartition(".")[2] for each in self.transforms]
        if any(name.startswith("Random") or name in _RANDOM_TRANSFORMS for name in names):
            return True
        return None if any(name == "Lambda" for name in names) else False

    @cached_property
    def why_size_varies(self) -> str | None:
        """Why the images it yields may differ in height and width, or None where they are all of one size."""
        if self.why_unknown is not None:
            return self.why_unknown
        if self.is_in_memory and not any(each.sort is Sort.CONTAINER for each in self.parts):
            return None
        for part in self.parts:
            reason = self._why_part_varies(part)
            if reason is not None:
                return reason
        return None

    def _why_part_varies(self, part: Value) -> str | None:
        if part.sort is not Sort.MADE or not part.name.startswith("torchvision.datasets."):
            return None if part.name == "torch.utils.data.TensorDataset" else f"the size of the images of {described(part)} is not known"
        steps = Dataset(self.flow, frozenset({part})).transforms
        if steps is None:
            return f"the transforms of {described(part)} are not known"
        fixed = part.name in ONE_SIZE
        for step in steps:
            name = step.name.rpartition(".")[2]
            if name in _SIZING:
                fixed = True
            elif name in {"Resize", "Scale"}:
                # Resize(256) makes the shorter side 256 long and keeps the aspect ratio.
                fixed = fixed or self._names_both_sides(step)
            elif name == "RandomRotation":
                fixed = fixed and not any(each.arg == "expand" for each in getattr(step.site, "keywords", ()))
            elif name not in _KEEPS_SIZE:
                return f"what {described(step)} does to the size of an image is not known"
        return None if fixed else f"the images of {described(part)} are not cropped to one size"

    def _names_both_sides(self, step: Value) -> bool:
        call = step.site
        if not isinstance(call, ast.Call):
            return False
        size = next((each.value for each in call.keywords if each.arg == "size"), call.args[0] if call.args else None)
        values = self.flow.values(size) if size is not None else NOTHING
        return bool(values) and all(each.sort is Sort.CONTAINER and self.flow.keys(each) == {0, 1} for each in values)


def cuda_in(flow: Flow, values: Values) -> str | None:
    """Where the data set, transform, sampler or ``collate_fn`` that these values are works with CUDA tensors, in words."""
    seen: set[ast.AST] = set()
    for value in without_none(values):
        reason = _cuda_in_value(flow, value, seen)
        if reason is not None:
            return reason
    return None


def _cuda_in_value(flow: Flow, value: Value, seen: set[ast.AST]) -> str | None:
    if value.sort is Sort.MOVED:
        line = f" (line {value.site.lineno})" if isinstance(value.site, ast.Call) else ""
        return f"its data set already holds tensors on a device{line}"
    if value.sort in {Sort.FUNCTION, Sort.METHOD} and isinstance(value.site, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        return _cuda_in_code(flow, value.site, seen)
    if value.sort is Sort.INSTANCE and value.of is not None and isinstance(value.of.site, ast.ClassDef):
        return _cuda_in_class(flow, value, value.of.site, seen)
    site = value.site
    if site is None or site in seen:
        return None
    seen.add(site)
    inner: Values = NOTHING
    if value.sort is Sort.CONTAINER:
        inner = flow.items(value)
    elif value.sort is Sort.MADE and isinstance(site, ast.Call):
        arguments = (*site.args, *(each.value for each in site.keywords))
        inner = NOTHING.union(*[flow.values(each.value if isinstance(each, ast.Starred) else each) for each in arguments])
    for each in inner:
        reason = _cuda_in_value(flow, each, seen)
        if reason is not None:
            return reason
    return None


def _cuda_in_class(flow: Flow, value: Value, class_: ast.ClassDef, seen: set[ast.AST]) -> str | None:
    for statement in class_.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            reason = _cuda_in_code(flow, statement, seen)
            if reason is not None:
                return reason
    if isinstance(value.site, ast.Call) and value.site not in seen:
        return _cuda_in_value(flow, Value(Sort.MADE, class_.name, value.site), seen)
    return None


def _cuda_in_code(flow: Flow, function: FunctionNode | ast.Lambda, seen: set[ast.AST]) -> str | None:
    """Where the function, or one of the project's that it calls, moves something to a device that may be CUDA."""
    if function in seen:
        return None
    seen.add(function)
    for node in ast.walk(function):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Attribute) and _moves_to_cuda(flow, node):
            return f"the data set's own code uses CUDA (line {node.lineno})"
        for keyword in node.keywords:
            if keyword.arg == "device" and device(flow, keyword.value).kind is not DeviceKind.CPU and keyword_is_given(flow, keyword):
                return f"the data set's own code uses CUDA (line {node.lineno})"
        for callee in flow.values(node.func):
            if callee.sort in {Sort.FUNCTION, Sort.METHOD} and isinstance(callee.site, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                reason = _cuda_in_code(flow, callee.site, seen)
                if reason is not None:
                    return reason
    return None


def keyword_is_given(flow: Flow, keyword: ast.keyword) -> bool:
    """Whether the keyword has another value than ``None``."""
    return flow.values(keyword.value) != {NONE}


def _moves_to_cuda(flow: Flow, call: ast.Call) -> bool:
    attribute = call.func.attr  # type: ignore[attr-defined]
    if attribute == "cuda":
        return True
    if attribute != "to" or not (call.args or call.keywords):
        return False
    target = next((each.value for each in call.keywords if each.arg == "device"), call.args[0] if call.args else None)
    if target is None or all(is_dtype(each) for each in flow.values(target) or {NONE}):
        return False
    # `x.to(torch.float32)` and `.to("cpu")` stay on the host; anything else may leave it.
    return device(flow, target).kind is not DeviceKind.CPU
