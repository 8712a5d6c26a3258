"""Loaders: their arguments and how they are given, where their batches go, and whether these can be pinned."""

from __future__ import annotations

import ast
import enum
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.signatures import argument_of, signature
from codemods.dataflow.source import walk
from codemods.dataflow.values import NONE, NOTHING, Container, Instance, Literal, Unknown, Value, Values, without_none
from codemods.facts.data.datasets import Dataset
from codemods.facts.data.pinning import why_batch_stays_pageable, why_default_not_host, why_not_on_host
from codemods.facts.data.reads import passes
from codemods.facts.devices.devices import DeviceKind
from codemods.facts.loops import REPEATING, loop_around, place
from codemods.facts.overwritten import why_overwritten
from codemods.facts.reason import HERE, Reason, at
from codemods.library.kinds import LOADER, Kind, kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.data.reads import Pass
    from codemods.facts.devices.transfers import Transfer
    from codemods.facts.reason import Place

ONLY_FIRST = Reason("few-batches", "only its first batch is read")

# DataLoader's parameters, in the order of its signature (torch 2.15); those after ``generator`` are keyword-only.
LOADER_PARAMETERS = (
    *("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory"),
    *("drop_last", "timeout", "worker_init_fn", "multiprocessing_context", "generator"),
)
_ALL_PARAMETERS = {*LOADER_PARAMETERS, "prefetch_factor", "persistent_workers", "pin_memory_device", "in_order"}
_PARTIAL = [{"functools.partial"}, {LOADER}]
_ROLES = {"dataset": "data set", "collate_fn": "collate_fn", "sampler": "sampler", "batch_sampler": "batch_sampler"}


class Given(enum.Enum):
    """How an argument reaches a call."""

    POSITIONAL = "by position"
    KEYWORD = "by keyword"
    SPREAD = "through **"
    STORED = "by an attribute that is set later"


class Argument(NamedTuple):
    """One argument of a loader."""

    how: Given
    values: Values
    node: ast.expr | None
    """The expression, where it stands in the call itself."""


@dataclass(frozen=True, eq=False)
class Loader:
    """A ``torch.utils.data.DataLoader`` that the script makes."""

    flow: Flow
    module: Module
    value: Value
    call: ast.Call
    """The call that makes it."""
    passing: ast.Call | None
    """The call whose arguments reach ``DataLoader``: ``call``, or ``super().__init__(…)`` of a class of the project;
    None where that is not seen."""
    transfers: tuple[Transfer, ...]
    """The moves of its batches, as they came."""
    converted: tuple[Transfer, ...] = ()
    """The moves of tensors that were made from its batches on the host, in memory of their own."""

    @cached_property
    def arguments(self) -> dict[str, Argument]:
        """Its arguments by name, also those through ``**`` of known dictionaries, and a ``collate_fn`` that is set."""
        found: dict[str, Argument] = {}
        if self.passing is None:
            return found
        for position, node in enumerate(self.passing.args):
            if isinstance(node, ast.Starred) or position >= len(LOADER_PARAMETERS):
                break
            found[LOADER_PARAMETERS[position]] = Argument(Given.POSITIONAL, self.flow.values(node), node)
        for keyword in self.passing.keywords:
            if keyword.arg is not None:
                found[keyword.arg] = Argument(Given.KEYWORD, self.flow.values(keyword.value), keyword.value)
        for dictionary in self.dictionaries:
            for key in self.flow.keys(dictionary):
                if isinstance(key, str) and key not in found:
                    found[key] = Argument(Given.SPREAD, self.flow.items(dictionary, key), None)
        class_ = self.value.of.site if isinstance(self.value, Instance) else None
        stored = self.flow.attributes(class_ or self.call).get("collate_fn")
        if stored:
            given = found["collate_fn"].values if "collate_fn" in found else {NONE}
            is_always = class_ is not None and _always_sets(class_, "collate_fn")
            found["collate_fn"] = Argument(Given.STORED, stored if is_always else stored | given, None)
        return found

    @cached_property
    def dictionaries(self) -> tuple[Value, ...]:
        """The dictionaries that may be given with ``**``."""
        return tuple(
            each
            for keyword in (self.passing.keywords if self.passing is not None else ())
            if keyword.arg is None
            for each in sorted(without_none(self.flow.values(keyword.value)), key=_position)
            if isinstance(each, Container)
        )

    @cached_property
    def unknown_arguments(self) -> Reason | None:
        """Why there may be arguments that cannot be seen, or that are not torch's; None where there are none."""
        return why_overwritten(self.flow, self.module, {LOADER}) or self._why_unseen

    @property
    def _why_unseen(self) -> Reason | None:
        if self.passing is None:
            name = self.value.name
            if self.own_iteration is not None:
                text = f"class {name} has an __iter__ of its own, which arguments of DataLoader may not reach"
                return Reason("own-loader-class", text)
            return Reason("own-loader-class", f"how class {name} calls DataLoader's __init__ is not seen")
        if any(isinstance(each, ast.Starred) for each in self.passing.args):
            return Reason("unknown-arguments", "its arguments are given with *", remedy="write them out")
        for keyword in self.passing.keywords:
            if keyword.arg is not None:
                continue
            given = f"its arguments are given with **{ast.unparse(keyword.value)}"
            values = without_none(self.flow.values(keyword.value))
            if not values:
                return Reason("unknown-arguments", f"{given}, which is never given a value")
            for each in values:
                if isinstance(each, Unknown):
                    return Reason("unknown-arguments", f"{given}: {each.name}")
                if not isinstance(each, Container) or None in self.flow.keys(each):
                    return Reason("unknown-arguments", f"{given}, and not all of its keys can be seen")
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
    def passes(self) -> tuple[Pass, ...]:
        """The places that read it; one that reads it twice at once, as ``zip(loader, loader)`` does, twice."""
        return tuple(passes(self.flow, self.value))

    def at(self, node: ast.AST) -> Place:
        """Where a node of the project stands."""
        return place(self.flow, node)

    @property
    def own_iteration(self) -> Reason | None:
        """That a class of the project reads it in a way of its own; None where torch's does."""
        class_ = self.value.of.site if isinstance(self.value, Instance) else None
        if class_ is None or self.flow.method(class_, "__iter__") is None:
            return None
        text = f"class {class_.name} has an __iter__ of its own, which may keep its workers"
        return Reason("own-loader-class", text)

    @property
    def files(self) -> str:
        """What was read, in words."""
        return "this file" if len(self.flow.modules) == 1 else "the files of the project"

    @cached_property
    def why_not_pinnable(self) -> Reason | None:
        """Why its batches cannot or should not be in pinned memory, or None where they can."""
        for name, role in _ROLES.items():
            argument = self.arguments.get(name)
            problem = why_not_on_host(self.flow, role, argument.values) if argument is not None else None
            if problem is not None:
                return problem
        collate = self.arguments.get("collate_fn")
        pageable = why_batch_stays_pageable(self.flow, collate.values) if collate is not None else None
        return (
            pageable or self.dataset.why_unknown or self.why_not_moved or why_default_not_host(self.flow, self.module)
        )

    @property
    def why_not_moved(self) -> Reason | None:
        """Why its batches are not known to be moved to CUDA as they came; None where they may be."""
        if self.moves:
            return None
        if not self.transfers and self.converted:
            lines = {(each.module, each.call.lineno): at(each.module, each.call) for each in self.converted}
            holes = ", ".join([HERE] * len(lines))
            text = f"new tensors are made from its batches on the host, and those are moved ({holes})"
            return Reason("converted-on-host", text, tuple(lines.values()))
        if not self.transfers:
            text = f"its batches are not moved to a device in {self.files}"
            if len(self.flow.modules) > 1:  # attributes that several files pass on may not all be followed
                text = f"in {self.files}, its batches are not seen to be moved to a device"
            return Reason("batches-not-moved", text)
        kinds = {each.device.kind for each in self.transfers}
        if kinds == {DeviceKind.CPU}:
            return Reason("no-cuda", "its batches stay on the CPU")
        if DeviceKind.UNKNOWN in kinds:
            reasons = sorted(each.device.reason for each in self.transfers if each.device.kind is DeviceKind.UNKNOWN)
            return Reason("unknown-device", f"the device its batches are moved to is not known: {reasons[0]}")
        return Reason("other-accelerator", "its batches are moved to another accelerator than CUDA")

    @property
    def is_pinned(self) -> bool:
        """Whether the script pins its batches already, always or under a condition."""
        pinned = self.pin_memory
        return pinned is not None and not all(_is_false(each) for each in pinned.values)

    @property
    def keeps_workers(self) -> bool:
        """Whether its workers, where it has some, stay from one epoch to the next, always or under a condition."""
        stay = self.arguments.get("persistent_workers")
        return stay is not None and not all(_is_false(each) for each in stay.values)

    @cached_property
    def why_left_unpinned(self) -> Reason | None:
        """Why its batches are in pageable memory and stay there, but for what ``Script.why_left_unpinned`` adds."""
        if self.is_pinned:
            return None
        reason = self.unknown_arguments or self.why_not_pinnable
        if reason is not None or self.passing is None:
            return reason
        if self.pin_memory is not None:
            return Reason("script-decides", "pin_memory is False there", remedy="take pin_memory=False away")
        if self.passing is not self.call:
            text = f"class {self.value.name} has an __init__ of its own: pin_memory belongs into its call in {HERE}"
            remedy = "give pin_memory in the call of DataLoader's __init__"
            return Reason("own-loader-class", text, (self.at(self.passing),), remedy)
        return None


def _is_false(value: Value) -> bool:
    return isinstance(value, Literal) and not value.value


def _position(value: Value) -> tuple[int, int]:
    return getattr(value.site, "lineno", 0), getattr(value.site, "col_offset", 0)


def loaders(flow: Flow, modules: Sequence[Module], moves: Sequence[Transfer]) -> Iterator[Loader]:
    """Every ``DataLoader`` that the modules make, in the order of the text."""
    for module in modules:
        for call in module.nodes(ast.Call):
            for value in flow.values(call):
                if value.site is not call or kind(flow, value) is not Kind.LOADER:
                    continue
                yield Loader(
                    flow,
                    module,
                    value,
                    call,
                    _passing(flow, value, call),
                    tuple(each for each in moves if value in each.loaders),
                    tuple(each for each in moves if value in each.made_from and value not in each.loaders),
                )


def partial_loaders(flow: Flow, module: Module) -> Iterator[ast.Call]:
    """``partial(DataLoader, batch_size=64)``."""
    for call in flow.calls_of(module, ("functools.partial",)):
        if call.args and [{each.name for each in flow.values(node)} for node in (call.func, call.args[0])] == _PARTIAL:
            yield call


def _is_read_where_made(loader: Loader, reading: Pass) -> bool:
    """Whether the loader is made anew for each time that it is read there: in one function, in no other loop."""
    module = loader.module
    function = module.function(loader.call)
    if reading.module is not module or function is None or module.function(reading.node) is not function:
        return False
    loops = [
        {each for each in module.ancestors(node) if isinstance(each, REPEATING)} for node in (loader.call, reading.node)
    ]
    return loops[0] >= loops[1] - {reading.node}


def why_only_first(flow: Flow, loader: Loader) -> Reason | None:
    """That a single batch of the loader is read in all; None where more may be."""
    for each in loader.passes:
        function = each.module.function(each.node)
        is_run = function is None or bool(flow.callers(function))
        is_again = loop_around(flow, each.module, each.node, given=loader.value) is not None
        is_once = _is_read_where_made(loader, each) or (is_run and not is_again)
        if not each.is_of_first or not is_once:
            return None
    return ONLY_FIRST if loader.passes else None


def through_partial(flow: Flow, module: Module, is_about: Callable[[str], bool]) -> Iterator[tuple[ast.Call, Reason]]:
    """The loaders that ``functools.partial`` makes of certain data sets of libraries, each with why it is left."""
    for made in partial_loaders(flow, module):
        calls = [each for where in flow.modules for each in where.nodes(ast.Call)]
        called = [each for each in calls if flow.values(made) & flow.values(each.func)]
        given = [argument_of(each, "dataset", 0) for each in called] + [argument_of(made, "dataset", 1)]
        parts = [part for each in given if each is not None for part in Dataset(flow, flow.values(each)).parts]
        if any(is_about(each.name) for each in parts):
            text = "what functools.partial makes is not followed:"
            yield made, Reason("partial-loader", text, remedy="call DataLoader itself where its data set is given")


def _passing(flow: Flow, value: Value, call: ast.Call) -> ast.Call | None:
    """The call whose arguments reach ``DataLoader``."""
    class_ = value.of.site if isinstance(value, Instance) else None
    family = (class_, *flow.bases(class_)) if class_ is not None else ()
    own = [each for each in family if isinstance(each, ast.ClassDef) and flow.defines(each, "__init__")]
    own = [each for each in own if not _passes_on(each)]
    # Of several, the farthest is the one that calls torch's.
    return next(_calls_of_init(own[-1]), None) if own else call


def _passes_on(class_: ast.ClassDef) -> bool:
    """Whether the class's constructor gives all that torch takes, and nothing else, to that of its base."""
    init = next(each for each in class_.body if isinstance(each, ast.FunctionDef) and each.name == "__init__")
    taken = signature(init)
    options = {each.arg for each in taken.keyword_only}
    if taken.vararg is None or taken.kwarg is None or len(taken.positional) != 1 or options & _ALL_PARAMETERS:
        return False
    stars = [taken.vararg.arg, taken.kwarg.arg]
    uses = sorted(each.id for each in walk(init) if isinstance(each, ast.Name) and each.id in stars)
    if uses != sorted(stars):
        return False  # what is given may be changed before
    names = {"args": [f"*{taken.vararg.arg}"], "keywords": [f"**{taken.kwarg.arg}"]}
    passed = [
        {"args": [ast.unparse(each) for each in call.args], "keywords": [ast.unparse(each) for each in call.keywords]}
        for call in _calls_of_init(class_)
    ]
    return passed == [names]


def _always_sets(class_: ast.ClassDef, name: str) -> bool:
    """Whether the class's constructor sets an attribute, whatever it is given."""
    init = next((each for each in class_.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)
    for each in init.body if init is not None else ():
        match each:
            case ast.Assign([ast.Attribute(ast.Name("self"), set_name)]) if set_name == name:
                return True
    return False


def _calls_of_init(class_: ast.ClassDef) -> Iterator[ast.Call]:
    """``super().__init__(…)`` in a class."""
    for call in walk(class_):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "__init__":
            owner = call.func.value
            if isinstance(owner, ast.Call) and isinstance(owner.func, ast.Name) and owner.func.id == "super":
                yield call
