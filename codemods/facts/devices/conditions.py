"""Under which condition the code of a training iteration runs on CUDA, and how the script says so."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeGuard

from codemods.dataflow.names import bound_names
from codemods.dataflow.placement import dominates, means_the_same
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import LOOPS
from codemods.dataflow.values import NONE, Sort, leading_text
from codemods.facts.devices.devices import Branch, DeviceKind, always_asks_for_cuda, branches, device, is_on_cuda
from codemods.facts.devices.transfers import Transfer, makings
from codemods.facts.models.layers import Model
from codemods.facts.precision.hazards import unknown_device
from codemods.facts.reach import own
from codemods.library.kinds import Kind, kind, may

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value, Values
    from codemods.facts.reach import Reach
    from codemods.facts.reason import Reason
    from codemods.facts.script import Script


@dataclass(frozen=True, slots=True)
class Asked:
    """What a flag, a comparison or a device asks."""

    form: tuple[object, ...]
    """The expression, with the values of a name or attribute in its place."""
    is_known: bool
    """Whether the values tell each name from others: two texts of the same form ask the same."""
    of_module: str = ""
    """The dotted name, where it is one that the module binds: functions read what it is when they run."""

    @classmethod
    def of(cls, flow: Flow, module: Module, node: ast.expr) -> Asked:
        """What the expression asks."""
        is_known = all(_tells(flow.values(each)) for each in _read(node))
        is_of_module = isinstance(node, ast.Name) and not _is_bound_around(module, node)
        return cls(_form(flow, node), is_known, f"{module.name}.{module.code(node)}" if is_of_module else "")

    def is_same(self, other: Asked, *, text: bool) -> bool:
        """Whether the other one is known to have the same answer; ``text`` says whether the two are written alike."""
        if self.of_module and self.of_module == other.of_module:
            return True
        return self.form == other.form and (text or self.is_known)


def _is_bound_around(module: Module, name: ast.Name) -> bool:
    """Whether a function around the name binds it."""
    function = module.function(name)
    while function is not None:
        if name.id in bound_names(function):
            return True
        function = module.function(function)
    return False


_TELLING = frozenset({Sort.CHOICE, Sort.MADE, Sort.METHOD, Sort.EXTERNAL})


def _tells(values: Values) -> bool:
    """Whether what has these values has the same one as all else that has them; not of ``"cuda"`` or ``"cpu"``."""
    is_constant = len(values) == 1 and all(each.sort is Sort.LITERAL for each in values)
    return is_constant or (bool(values) and all(each.sort in _TELLING for each in values))


def _form(flow: Flow, node: ast.AST) -> tuple[object, ...]:
    if isinstance(node, (ast.Name, ast.Attribute)):
        return (flow.values(node),)
    if isinstance(node, ast.Constant):
        return (node.value,)
    return (type(node), *(_form(flow, each) for each in ast.iter_child_nodes(node)))


def _read(node: ast.AST) -> Iterator[ast.expr]:
    """The names and attributes that the expression reads, each as a whole."""
    if isinstance(node, (ast.Name, ast.Attribute)):
        yield node
        return
    for each in ast.iter_child_nodes(node):
        yield from _read(each)


@dataclass(frozen=True, slots=True)
class Condition:
    """When the script trains on CUDA, as it can be said at some place."""

    test: str | None
    """The expression; None where it always does."""
    device: str = ""
    """The device's name there, if it has one."""
    asks: Asked | None = field(default=None, compare=False)
    """What the expression asks, by which it is told from another one of the same text."""
    is_any: bool = field(default=False, compare=False)
    """Whether it asks for CUDA itself, and so holds wherever anything runs there."""

    def covers(self, other: Condition) -> bool:
        """Whether it is known to hold wherever the other one does."""
        if self.test is None or self.is_any:
            return True
        if self.asks is None or other.asks is None or bool(self.device) is not bool(other.device):
            return False
        return self.asks.is_same(other.asks, text=self.test == other.test)

    @property
    def is_name(self) -> bool:
        """Whether it is a flag of the script's own."""
        return self.test is not None and self.test.replace(".", "").isidentifier()

    @property
    def operand(self) -> str:
        """The expression, to stand beside ``and``; empty where there is none."""
        test = self.test or ""
        if not test:
            return ""
        return f"({test})" if isinstance(ast.parse(test, mode="eval").body, (ast.IfExp, ast.BoolOp)) else test


class Conditions:
    """Finds out on which condition some code of the entry script runs on CUDA."""

    def __init__(
        self,
        script: Script,
        moves: Sequence[Transfer],
        of_script: Sequence[Transfer],
        considered: Sequence[Transfer] | None = None,
    ) -> None:
        self._script = script
        self._flow = script.flow
        self._module = script.module
        self._moves = moves
        self._of_script = of_script
        self._considered = of_script if considered is None else considered

    @classmethod
    def of_script(cls, script: Script) -> Conditions:
        """The conditions of all moves of batches and models, and of those made there, that may go to CUDA."""
        flow, moves = script.flow, [*script.transfers, *makings(script.flow, script.modules)]
        for module in script.modules:
            for call in module.nodes(ast.Call):
                if isinstance(call.func, ast.Attribute) and call.func.attr in {"to", "cuda"}:
                    values = flow.values(call.func.value)
                    # What other libraries make may be a model: that is asked where it is called like one.
                    made = bool(values) and all(each.sort is Sort.MADE and kind(flow, each) is None for each in values)
                    if made or may(flow, values, Kind.MODEL):
                        moves.append(Transfer(flow, module, call))
        return cls(script, [each for each in moves if each.may_reach_cuda], moves)

    def of_code(self, reach: Reach, nodes: Sequence[ast.AST], models: Values) -> Conditions:
        """The conditions of the moves of these models, and of tensors in this code and what it calls."""
        parts = [*nodes, *reach.functions(nodes)]
        inside = {call for part in parts for call in own(part, ast.Call)}
        if any(each.sort is Sort.UNKNOWN for each in models):
            return self
        layers = {layer for each in models for layer in Model(self._flow, each).layers}
        # `self` may be any object of its class.
        layers |= {each for move in self._of_script for each in self._moved(move) if _is_self_of(each, layers)}
        moves = [each for each in self._of_script if each.call in inside or self._moved(each) & layers]
        return Conditions(self._script, [each for each in moves if each.may_reach_cuda], self._of_script, moves)

    @property
    def are_about_cuda(self) -> bool:
        """Whether anything is moved to CUDA at all."""
        return bool(self._moves)

    @property
    def why_not(self) -> Reason | None:
        """Why nothing is known to be moved to CUDA, where something is moved; None where nothing is."""
        return unknown_device(self._script, self._considered)

    def at(self, place: ast.stmt) -> Condition | None:
        """The condition as it can be said at the place; None where it cannot."""
        certain = [
            each for each in self._moves if each.device.kind is DeviceKind.CUDA and self._is_certain(each, place)
        ]
        # Where some moves depend on a choice, another function's `.cuda()` may be one that this choice never runs.
        if certain and (len(certain) == len(self._moves) or any(self._runs_with(each, place) for each in certain)):
            return Condition(None, self._indexed(certain, place))
        if self._is_moved_on_each_side(place):
            return Condition(None)
        for move in (each for each in self._moves if each.module is self._module):
            found = self._flag(move, place) or self._device(move, place)
            if found is not None:
                return found
        handed = self._handed(place) if self._moves else None
        if handed is not None:
            return handed
        if any(each.method in {"cuda", "type"} for each in self._moves):
            name = self._script.spelled(self._module, "torch.cuda.is_available", place)
            return Condition(f"{name}()", is_any=True) if name is not None else None
        return None

    @property
    def _to_cuda(self) -> list[Transfer]:
        """The moves that go to CUDA wherever they run."""
        return [each for each in self._moves if each.device.kind is DeviceKind.CUDA]

    def _is_moved_on_each_side(self, place: ast.stmt) -> bool:
        """Whether a statement before the place in its function moves something to CUDA on each of its sides."""
        module = self._module
        moving = {module.statement(each.call) for each in self._to_cuda if each.module is module and _is_plain(each)}
        above = {each for move in moving for each in module.ancestors(move) if isinstance(each, ast.If)}
        return any(dominates(module, each, place) and _each_side_has(each, moving) for each in above)

    def _is_certain(self, move: Transfer, place: ast.stmt) -> bool:
        """Whether the move runs wherever the place does."""
        if move.module is self._module and move.module.function(move.call) is self._module.function(place):
            return not move.branches and not move.may_fail_unseen(place)
        return move.is_certain

    def _runs_with(self, move: Transfer, place: ast.stmt) -> bool:
        """Whether the move stands in the place's function, or in no function; of a module's code only what runs first.

        ``model.to("cuda:0")`` in a notebook's last cell says nothing of the training above it.
        """
        function, here = move.module.function(move.call), self._module.function(place)
        if move.module is self._module and function is None and here is None:
            moving = self._module.statement(move.call)
            return moving is place or moving in self._module.ancestors(place) or dominates(self._module, moving, place)
        return function is None or (move.module is self._module and function is here)

    def _indexed(self, moves: Sequence[Transfer], place: ast.stmt) -> str:
        """How the place can say that the device is not the first: ``DEVICE`` where it is ``"cuda:2"``; else nothing."""
        for move in (each for each in moves if each.module is self._module):
            node = move.device.node
            if node is not None and self._has_index(node) and means_the_same(self._flow, self._module, node, place):
                return self._module.code(node)
        return ""

    def _has_index(self, node: ast.expr) -> bool:
        texts = [node, *(each.site.args[0] for each in self._flow.values(node) if _is_made_of_one(each.site))]
        return any(":" in (leading_text(self._flow.values(each)) or "") for each in texts)

    def _moved(self, move: Transfer) -> Values:
        """What it moves, and what it returns."""
        return self._flow.values(move.receiver) | self._flow.values(move.call)

    def _is_read_here(self, node: ast.expr, place: ast.stmt) -> bool:
        """Whether the function of the place reads the module's name itself, which no function binds.

        Perhaps it is bound below, or several times: none of that happens while the function runs.
        """
        module = self._module
        function = module.function(place)
        if not isinstance(node, ast.Name) or function is None or module.function(node) is not function:
            return False
        bindings = [each for each in module.nodes(ast.Name) if each.id == node.id and isinstance(each.ctx, ast.Store)]
        is_global = {module.function(each) for each in bindings} == {None} and node.id not in bound_names(function)
        if not is_global or NONE in self._flow.read_module_name(module, node.id):
            return False
        is_always_bound = any(module.parent(module.statement(each)) is module.tree for each in bindings)
        return is_always_bound or not branches(module, node)

    def _flag(self, move: Transfer, place: ast.stmt) -> Condition | None:
        for branch in reversed(move.cuda_branches):
            test, holds = branch.test, branch.holds
            if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and not holds:
                test, holds = test.operand, True
            if holds and means_the_same(self._flow, self._module, test, place) and self._decides(test, place):
                is_any = always_asks_for_cuda(self._flow.values(test))
                return Condition(self._module.code(test), asks=Asked.of(self._flow, self._module, test), is_any=is_any)
        return None

    def _decides(self, test: ast.expr, place: ast.stmt) -> bool:
        """Whether nothing is moved to CUDA where the test does not hold.

        ``if gpu is not None: images.cuda()`` only says who moves the batch where the model is on CUDA without a gpu.
        """
        if always_asks_for_cuda(self._flow.values(test)):
            return True
        sides = {each: [self._side(test, each.module, branch) for branch in each.branches] for each in self._moves}
        is_all = all(any(sides[each]) for each in self._to_cuda if not self._runs_later(each, place))
        return is_all and not any(False in each for each in sides.values())

    def _runs_later(self, move: Transfer, place: ast.stmt) -> bool:
        """Whether the move stands below the place, and in no loop that comes back to it."""
        moving = move.module.statement(move.call)
        in_loop = any(isinstance(each, LOOPS) for each in move.module.ancestors(moving))
        return move.module is self._module and not in_loop and dominates(self._module, place, moving)

    def _side(self, test: ast.expr, module: Module, branch: Branch) -> bool | None:
        """On which side of the test that branch is: True where it holds, False where it does not, None for another."""
        node, holds = branch.test, branch.holds
        parts = node.values if holds and isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And) else [node]
        sought, is_sought = _plain(test)
        asked = Asked.of(self._flow, self._module, sought)
        for part in parts:
            plain, is_plain = _plain(part)
            if ast.unparse(plain) == ast.unparse(sought) or asked.is_same(
                Asked.of(self._flow, module, plain), text=False
            ):
                return holds == (is_plain == is_sought)
        return None

    def _device(self, move: Transfer, place: ast.stmt) -> Condition | None:
        node = move.device.node
        if move.device.kind is not DeviceKind.CONDITIONAL or node is None or move.method == "type":
            return None
        if any(_excludes(move, each) for each in self._to_cuda):
            return None
        if not means_the_same(self._flow, self._module, node, place) and not (
            self._is_set_once(node, place) or self._is_read_here(node, place)
        ):
            return None
        text = self._module.code(node)
        test = is_on_cuda(self._flow, node, text, self._script.quote(self._module))
        return None if test is None else Condition(test, text, asks=Asked.of(self._flow, self._module, node))

    def _handed(self, place: ast.stmt) -> Condition | None:
        """What a parameter says that the function of the place hands on as a device.

        Should it be another device than the model's, nothing is computed on CUDA for one of the two.
        """
        function = self._module.function(place)
        known = {each.arg for each in signature(function).named} if function is not None else set()
        for node in own(function, ast.Name) if function is not None else ():
            found = device(self._flow, node) if node.id in known and isinstance(node.ctx, ast.Load) else None
            if (
                found is not None
                and found.kind is DeviceKind.CONDITIONAL
                and means_the_same(self._flow, self._module, node, place)
            ):
                test = is_on_cuda(self._flow, node, node.id, self._script.quote(self._module))
                if test is not None:
                    return Condition(test, node.id, asks=Asked.of(self._flow, self._module, node))
        return None

    def _is_set_once(self, node: ast.expr, place: ast.stmt) -> bool:
        """Whether it is an attribute of ``self`` that only ``__init__`` sets, and the place is in another method."""
        here, there = self._module.function(place), self._module.function(node)
        if not isinstance(node, ast.Attribute) or here is None or there is None:
            return False
        owner, text = self._module.parent(here), ast.unparse(node)
        if (
            not isinstance(owner, ast.ClassDef)
            or self._module.parent(there) is not owner
            or not text.startswith("self.")
        ):
            return False
        writes = [each for each in self._module.nodes(ast.Attribute) if isinstance(each.ctx, ast.Store)]
        functions = [self._module.function(each) for each in writes if ast.unparse(each) == text]
        names = {each.name for each in functions if isinstance(each, ast.FunctionDef)}
        return names == {"__init__"} and here not in functions


def _plain(test: ast.expr) -> tuple[ast.expr, bool]:
    """The test without ``not``, and whether it holds where the test does."""
    is_not = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    return (test.operand, False) if is_not else (test, True)  # type: ignore[attr-defined]


def _is_made_of_one(site: ast.AST | None) -> TypeGuard[ast.Call]:
    """``torch.device("cuda:2")``."""
    return isinstance(site, ast.Call) and len(site.args) == 1


def _is_self_of(value: Value, layers: set[Value]) -> bool:
    """Whether the value is an object of the class whose ``self`` is among the layers."""
    is_made = value.sort is Sort.INSTANCE and value.site is not None
    return is_made and any(each.sort is Sort.INSTANCE and each.site is None and each.of == value.of for each in layers)


def _is_plain(move: Transfer) -> bool:
    """Whether it runs wherever its statement does, and the script ends where it fails."""
    tests = {each.test for each in move.branches}
    is_in_if = all(isinstance(move.module.parent(each), ast.If) for each in tests)
    return is_in_if and not move.may_fail_unseen()


def _each_side_has(branch: ast.If, statements: set[ast.stmt]) -> bool:
    """Whether one of the statements runs whichever way the ``if`` goes."""
    return all(
        any(each in statements or (isinstance(each, ast.If) and _each_side_has(each, statements)) for each in side)
        for side in (branch.body, branch.orelse)
    )


def _excludes(one: Transfer, other: Transfer) -> bool:
    """Whether the two stand on different sides of an ``if``."""
    return any(a.test is b.test and a.holds is not b.holds for a in one.branches for b in other.branches)
