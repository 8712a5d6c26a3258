"""How the script writes what mixed precision needs: ``scaler``, ``amp_dtype`` and ``use_amp``, at each place."""

from __future__ import annotations

import ast
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from codemods.amp.certainty import is_surely_on_cuda
from codemods.amp.reasons import LeftError
from codemods.amp.scaler_scope import Homes, path
from codemods.amp.sight import Sight
from codemods.dataflow import placement
from codemods.dataflow.names import bound_names
from codemods.dataflow.placement import dominates
from codemods.editing.docstrings import Described
from codemods.editing.naming import taken_names
from codemods.editing.values import AddArgument, AddParameter, Import, Insert
from codemods.facts.devices.cuda_condition import CudaCondition
from codemods.facts.reason import HERE, at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.amp.scaler_scope import Home
    from codemods.codemod import AmpForm
    from codemods.dataflow.source import Callee, FunctionNode
    from codemods.editing.values import Edit
    from codemods.facts.devices.conditions import Conditions
    from codemods.facts.reach import Reach
    from codemods.facts.script import Script
    from codemods.facts.target import Version

NEW_SCALER: Version = (2, 3)
OLD_SCALER: Version = (1, 10)
"""The torch that has the gradient scaler by its new name, and the one that has the blocks beside its old one."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Names(NamedTuple):
    """The names that are free in the whole module."""

    scaler: str
    use_amp: str
    dtype: str

    @classmethod
    def free(cls, script: Script) -> Names:
        """Names that nothing in the module has.

        Raises:
            LeftError: when there are none.
        """
        taken = taken_names(script.module)
        found: list[str] = []
        for candidates in (("scaler", "grad_scaler"), ("use_amp", "amp_enabled"), ("amp_dtype", "autocast_dtype")):
            name = next((each for each in candidates if each not in taken), None)
            if name is None:
                raise LeftError("no-name", f"the name {candidates[0]} is taken")
            found.append(name)
        return cls(*found)


def min_of_scaler(script: Script) -> Version:
    """The torch that has the gradient scaler by the name that is written: the old one warns since torch 2.4."""
    return NEW_SCALER if script.target.allows(NEW_SCALER) else OLD_SCALER


@dataclass(eq=False)
class Wording:
    """What is inserted so that the blocks and the scaler can be written, and how they are written at each place."""

    script: Script
    form: AmpForm
    names: Names
    conditions: Conditions
    home: Home | None
    """None where no scaler is needed."""
    places: Sequence[ast.stmt]
    """The statements that are to stand under autocast."""
    validations: Sequence[ast.stmt]
    """Those of them that validate."""
    reach: Reach
    only_wide: bool = False
    """Whether there is mixed precision only where there is bf16, as fp16 would not do."""
    edits: list[Edit] = field(default_factory=list)
    _chosen: list[ast.stmt] = field(default_factory=list)
    """The statements before which a function chooses the number format for itself."""
    _asks_for_cuda: bool = False
    """Whether a block can only ask for CUDA itself, and so all of them and the scaler do."""
    _is_always: bool = False
    """Whether the scaler is enabled on no condition: nothing is trained without CUDA, and no block has to ask."""
    _sight: Sight = field(init=False)

    def __post_init__(self) -> None:
        self._sight = Sight(self.script, self.reach)

    def torch(self, qualified: str, place: ast.stmt) -> str:
        """How ``torch.…`` is written at the place, after an import if need be."""
        module = self.script.module
        found = self.script.spelled(module, qualified, place)
        if found is None:
            if not placement.is_free_for(module, "torch", "torch"):
                raise LeftError("no-name", "the name torch stands for something else in this file")
            self._add(Import(module, "import torch"))
        return found or qualified

    def _add(self, edit: Edit) -> None:
        if edit not in self.edits:
            self.edits.append(edit)

    # The header.

    def write(self) -> None:
        """Adds the header, and what passes the scaler on."""
        module = self.script.module
        if self.home is None:
            return
        self.home = home = self._informed(self.home) if self.form == "auto" else self.home
        self._check_scaled(home)
        for index, anchor in enumerate(home.anchors):
            is_named = any(
                dominates(module, each, anchor) and self._condition(each) == self._condition(anchor)
                for each in home.anchors[:index]
            )
            self._add(Insert(module, anchor, self._header(anchor, is_named=is_named), "after"))
        for receiver in (*home.receivers, *home.keepers):
            self._take(receiver, self.names.scaler, "torch.amp.GradScaler", "the gradient scaler")
        for call in home.passing:
            scaler = self.scaler_at(module.statement(call)) or self.names.scaler
            self._add(AddArgument(module, call, self.names.scaler, scaler))
        for receiver in home.informed:
            is_optional = bool(self.script.flow.owner(receiver) or self.script.flow.signature(receiver).defaults)
            meaning = "the format of numbers under autocast"
            # Others may call a method, or count on the order of defaults: None is what autocast chooses itself.
            self._take(receiver, self.names.dtype, "torch.dtype", meaning, "None" if is_optional else None)
        for call in home.informing:
            dtype = self._dtype_at(module.statement(call)) or self.names.dtype
            self._add(AddArgument(module, call, self.names.dtype, dtype))

    def _check_scaled(self, home: Home) -> None:
        """Where the blocks of the training are enabled, so is the scaler: fp16 gradients underflow without it.

        Raises:
            LeftError: where the two have conditions of which that is not known.
        """
        self._is_always = all(self._condition(each).test is None for each in home.anchors)
        differing = list(self._unscaled(home))
        if differing and all(self._condition(each).is_any for _, each in differing):
            self._asks_for_cuda = True
            differing = list(self._unscaled(home))
        for anchor, place in differing:
            text = f"the scaler ({HERE}) and the forward pass ({HERE}) may be on CUDA on different conditions"
            module = self.script.module
            raise LeftError("unknown-device", text, at(module, anchor), at(module, place))

    def _unscaled(self, home: Home) -> Iterator[tuple[ast.stmt, ast.stmt]]:
        """Where the scaler is made, with each block of the training that it may not be enabled for."""
        for place in (each for each in self.places if each not in self.validations):
            is_seen = self._sight.is_seen(home, place)
            asked = self._condition(home.anchors[0] if is_seen else place)
            for anchor in home.anchors:
                scaled = self._condition(anchor)
                # A block that reads the name which the header gives to the condition needs it of each header.
                is_named = not is_seen or self._use_amp(scaled)[1] == self._use_amp(asked)[1]
                if not is_named or not scaled.covers(asked):
                    yield anchor, place

    def _take(self, function: FunctionNode, name: str, type_: str, meaning: str, default: str | None = None) -> None:
        """The function takes another parameter, before those with defaults where no call passes these by position."""
        taken = self.script.flow.signature(function)
        required = sum(each not in taken.defaults for each in taken.positional_names)
        is_free = all(
            len(each.args) <= required and not any(isinstance(given, ast.Starred) for given in each.args)
            for each in self.script.flow.callers(function)
        )
        described = Described(name, type_, meaning)
        is_before = is_free and default is None
        self._add(AddParameter(self.script.module, function, name, default, is_before, described))

    def _informed(self, home: Home) -> Home:
        """The home, from where the number format is handed to all blocks that do not see it, wherever it can be."""
        homes = Homes(self.script, self.reach)
        for place in self.places:
            function = self.script.module.function(place)
            if function not in home.informed and not self._sight.is_seen(home, place):
                with suppress(LeftError):  # It finds out by itself.
                    home = homes.informed(home, function, self._sight.is_seen)
        return home

    def _condition(self, place: ast.stmt, block: ast.stmt | None = None) -> CudaCondition:
        """What has to hold at the place; of a block that it is named for, where that is another one."""
        condition = self.conditions.at(place)
        function = self.script.module.function(place)
        is_validation = (block or place) in self.validations
        if (condition is None or condition.is_any) and is_validation and function is not None:
            # The function that validates may have a device or a flag of its own.
            own = self.conditions.of_code(self.reach, [function], frozenset()).at(place)
            is_flag = own is not None and own.test is not None and not own.is_any
            condition = own if condition is None or is_flag else condition
        if self._asks_for_cuda and condition is not None and condition.test is not None:
            condition = None
        if condition is not None and condition.test is None and self._may_be_without_cuda(place):
            asked = f"{self.torch('torch.cuda.is_available', place)}()"
            condition = CudaCondition(asked, condition.device, is_any=True)
        if self._is_always and (condition is None or condition.test is not None):
            return CudaCondition(None)
        # Where the device has no name: on another device than CUDA, autocast and the scaler for CUDA change nothing.
        return condition or CudaCondition(f"{self.torch('torch.cuda.is_available', place)}()", is_any=True)

    def _may_be_without_cuda(self, place: ast.stmt) -> bool:
        """Whether the scaler is made there although a run may go on without CUDA: one that only evaluates."""
        if self.home is None or place not in self.home.anchors:
            return False
        training = [each for each in self.places if each not in self.validations]
        return not is_surely_on_cuda(self.script, self.conditions.to_cuda, place, training)

    @property
    def _prefix(self) -> str:
        return "self." if self.home is not None and self.home.owner is not None else ""

    def _header(self, anchor: ast.stmt, *, is_named: bool) -> str:
        """The lines that make the scaler, and name what the blocks need unless another header has named it."""
        condition = self._condition(anchor)
        capability = f"{self.torch('torch.cuda.get_device_capability', anchor)}({condition.device})[0]"
        if all(self._dtype_at(each) is None for each in self.places):
            # The functions that take the scaler say the rest themselves.
            return "\n".join(
                self._scaler(anchor, condition.operand, f"{capability} < 8" if self.form == "auto" else "")
            )
        lines, test = self._use_amp(condition)
        tests = [test]
        if self.form == "auto":
            dtype = f"{self._prefix}{self.names.dtype}"
            lines += self._dtype(dtype, test, capability, anchor)
            tests.append(f"{dtype} is {self.torch('torch.float16', anchor)}")
        return "\n".join([*([] if is_named else lines), *self._scaler(anchor, *tests)])

    def _scaler(self, anchor: ast.stmt, *tests: str) -> list[str]:
        """The lines that make the scaler, enabled where all of the tests hold."""
        quote, enabled = self.script.quote(self.script.module), " and ".join(filter(None, tests))
        is_new = min_of_scaler(self.script) == NEW_SCALER
        scaler = self.torch("torch.amp.GradScaler" if is_new else "torch.cuda.amp.GradScaler", anchor)
        start = f"{self._prefix}{self.names.scaler} = {scaler}("
        arguments = ", ".join([*([f"{quote}cuda{quote}"] * is_new), *([f"enabled={enabled}"] if enabled else [])])
        if anchor.col_offset + len(start + arguments) < self.script.module.widest:
            return [f"{start}{arguments})"]
        return [start, f"    {arguments}", ")"]

    def _use_amp(self, condition: CudaCondition) -> tuple[list[str], str]:
        """The line that names the condition, where the script has no name for it that all blocks see, and the name."""
        if condition.test is None or self._is_seen_everywhere(condition):
            return [], condition.operand
        name = f"{self._prefix}{self.names.use_amp}"
        return [f"{name} = {condition.test}"], name

    def _is_seen_everywhere(self, condition: CudaCondition) -> bool:
        if not condition.is_name:
            return False
        if self.home is not None and self.home.owner is not None and (condition.test or "").startswith("self."):
            writes = [each for each in self.script.module.nodes(ast.Attribute) if isinstance(each.ctx, ast.Store)]
            return sum(ast.unparse(each) == condition.test for each in writes) == 1
        return all(self._condition(each) == condition for each in self.places)

    def _dtype(self, name: str, test: str, capability: str, place: ast.stmt) -> list[str]:
        choice = " and ".join(filter(None, [test, f"{capability} >= 8"]))
        wide, half = self.torch("torch.bfloat16", place), self.torch("torch.float16", place)
        line = f"{name} = {wide} if {choice} else {half}"
        if place.col_offset + len(line) <= self.script.module.widest:
            return [line]
        return [f"{name} = (", f"    {wide} if {choice}", f"    else {half}", ")"]

    # At each place.

    def scaler_at(self, place: ast.stmt) -> str | None:
        """How the scaler is written at the place; None where it is not seen there."""
        home = self.home
        if home is None:
            return None
        function = self.script.module.function(place)
        if function in home.receivers or function in home.keepers:
            return self.names.scaler
        return f"{self._prefix}{self.names.scaler}" if self._sight.is_seen(self.home, place) else None

    def _dtype_at(self, place: ast.stmt) -> str | None:
        """How the number format is written at the place; None where it is not seen there."""
        home = self.home
        if home is not None and self.script.module.function(place) in home.informed:
            return self.names.dtype
        return f"{self._prefix}{self.names.dtype}" if self._sight.is_seen(home, place) else None

    def block(self, place: ast.stmt) -> str:
        """The header of a block under autocast at the place.

        Raises:
            LeftError: when the condition cannot be said there.
        """
        quote = self.script.quote(self.script.module)
        named = self._dtype_at(place)
        if named is None:
            dtype, test = self._unnamed(place)
        else:
            dtype, test = named, self._test(place)
        if self.form != "auto":
            dtype = self.torch("torch.bfloat16" if self.form == "bf16" else "torch.float16", place)
        arguments = [f"{quote}cuda{quote}", f"dtype={dtype}", *([f"enabled={test}"] if test else [])]
        return f"with {self.torch('torch.autocast', place)}({', '.join(arguments)}):"

    def _test(self, place: ast.stmt) -> str:
        """The condition, as the header names it where that is seen."""
        if self.home is None or not self._sight.is_seen(self.home, place):
            return self._condition(place).test or ""
        return self._use_amp(self._condition(self.home.anchors[0]))[1]

    def _unnamed(self, place: ast.stmt) -> tuple[str, str]:
        """The same for a function that does not see the header; it gets a line that chooses the number format."""
        condition = self._condition(place)
        name = self.names.use_amp if self.only_wide else condition.test or ""
        if self.form == "auto" or self.only_wide:
            anchor = self._first_place(place, condition)
            if any(each is anchor or dominates(self.script.module, each, anchor) for each in self._chosen):
                return self.names.dtype, name
            self._chosen.append(anchor)
            self._add(Insert(self.script.module, anchor, self._local_dtype(place, condition), "before"))
        return self.names.dtype, name

    def _first_place(self, place: ast.stmt, condition: CudaCondition) -> ast.stmt:
        """The outermost loop around the place in its function, and in those that it is defined in inside of a loop.

        The condition is to hold there, too: a loop may bind the device that it asks for.
        """
        module = self.script.module
        around = [each for each in path(self.script, place) if isinstance(each, (ast.For, ast.While))]
        loops = [each for each in around if self._condition(each, place) == condition]
        function = module.function(place)
        if around or not self.only_wide or not isinstance(function, _FUNCTIONS):
            return loops[0] if loops else place
        above = self._first_place(function, condition)
        is_said = above is not function and not self._is_bound_inside(condition, function)
        return above if is_said and self._condition(above) == condition else place

    @staticmethod
    def _is_bound_inside(condition: CudaCondition, function: Callee) -> bool:
        read = {each.id for each in ast.walk(ast.parse(condition.test or "")) if isinstance(each, ast.Name)}
        return bool(read & bound_names(function))

    def _local_dtype(self, place: ast.stmt, condition: CudaCondition) -> str:
        scaler = self.scaler_at(place)
        if scaler is not None:
            wide, half = self.torch("torch.bfloat16", place), self.torch("torch.float16", place)
            return f"{self.names.dtype} = {half} if {scaler}.is_enabled() else {wide}"
        capability = f"{self.torch('torch.cuda.get_device_capability', place)}({condition.device})[0]"
        if self.only_wide:
            return f"{self.names.use_amp} = {' and '.join(filter(None, [condition.operand, f'{capability} >= 8']))}"
        return "\n".join(self._dtype(self.names.dtype, condition.operand, capability, place))
