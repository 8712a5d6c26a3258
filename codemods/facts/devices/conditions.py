"""Does a training iteration run on CUDA, and under which condition, by all the moves that it depends on?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeGuard

from codemods.dataflow.placement import dominates, means_the_same
from codemods.dataflow.source import LOOPS
from codemods.dataflow.values import Instance, Made, Unknown, leading_text
from codemods.facts.devices.cuda_condition import (
    Asked,
    CudaCondition,
    asked_by,
    can_be_said,
    compared,
    of_device,
    of_flag,
)
from codemods.facts.devices.cuda_use import unknown_device
from codemods.facts.devices.devices import Branch, DeviceKind, always_asks_for_cuda, device
from codemods.facts.devices.transfers import Transfer, makings
from codemods.facts.models.layers import Model
from codemods.facts.reach import own
from codemods.library.kinds import Kind, kind, may

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value, Values
    from codemods.facts.reach import Reach
    from codemods.facts.reason import Reason
    from codemods.facts.script import Script


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
        """The conditions of all moves of batches, models and losses, and of those made there, that may go to CUDA."""
        flow, moves = script.flow, [*script.transfers, *makings(script.flow, script.modules)]
        for module in script.modules:
            for call in module.nodes(ast.Call):
                if isinstance(call.func, ast.Attribute) and call.func.attr in {"to", "cuda"}:
                    values = flow.values(call.func.value)
                    # What other libraries make may be a model: that is asked where it is called like one.
                    made = bool(values) and all(isinstance(each, Made) and kind(flow, each) is None for each in values)
                    if made or may(flow, values, Kind.MODEL) or may(flow, values, Kind.LOSS):
                        moves.append(Transfer(flow, module, call))
        return cls(script, [each for each in moves if each.may_reach_cuda], moves)

    def of_code(self, reach: Reach, nodes: Sequence[ast.AST], models: Values) -> Conditions:
        """The conditions of the moves of these models, and of tensors and losses in this code and what it calls."""
        parts = [*nodes, *reach.functions(nodes)]
        inside = {call for part in parts for call in own(part, ast.Call)}
        if any(isinstance(each, Unknown) for each in models):
            return self
        layers = {layer for each in models for layer in Model(self._flow, each).layers}
        # `self` may be any object of its class.
        layers |= {each for move in self._of_script for each in self._moved(move) if _is_self_of(each, layers)}
        called = {each for call in inside for each in self._flow.values(call.func)}
        layers |= {each for each in called if kind(self._flow, each) is Kind.LOSS}
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

    def at(self, place: ast.stmt) -> CudaCondition | None:
        """The condition as it can be said at the place; None where it cannot."""
        certain = [each for each in self.to_cuda if self._is_certain(each, place) and self._counts(each)]
        # Where some moves depend on a choice, another function's `.cuda()` may be one that this choice never runs.
        if certain and (len(certain) == len(self._moves) or any(self._runs_with(each, place) for each in certain)):
            return CudaCondition(None, self._indexed(certain, place))
        if self._is_moved_on_each_side(place):
            return CudaCondition(None)
        for move in (each for each in self._moves if each.module is self._module):
            found = self._flag(move, place) or self._device(move, place)
            if found is not None:
                return found
        at_hand = self._at_hand(place) if self._moves else None
        if at_hand is not None:
            return at_hand
        if any(each.method in {"cuda", "type"} for each in self._moves):
            name = self._script.spelled(self._module, "torch.cuda.is_available", place)
            return CudaCondition(f"{name}()", is_any=True) if name is not None else None
        return None

    @property
    def to_cuda(self) -> list[Transfer]:
        """The moves that go to CUDA wherever they run."""
        return [each for each in self._moves if each.device.kind is DeviceKind.CUDA]

    def _counts(self, move: Transfer) -> bool:
        """Whether the move to CUDA says that it computes there: of a loss only where no device is chosen for the model.

        ``nn.CrossEntropyLoss().cuda()`` has nothing to move, and takes what is on the host, too.
        """
        is_chosen = any(each.device.kind is DeviceKind.CONDITIONAL for each in self._moves)
        return not is_chosen or not any(kind(self._flow, each) is Kind.LOSS for each in self._moved(move))

    def _is_moved_on_each_side(self, place: ast.stmt) -> bool:
        """Whether a statement before the place in its function moves something to CUDA on each of its sides."""
        module = self._module
        moving = {
            module.statement(each.call) for each in self.to_cuda if each.module is module and _is_unconditional(each)
        }
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

    def _flag(self, move: Transfer, place: ast.stmt) -> CudaCondition | None:
        for branch in reversed(move.cuda_branches):
            test, found = asked_by(branch), of_flag(self._script, branch, self._module, place)
            if test is not None and found is not None and self._decides(test, place):
                return found
        return None

    def _decides(self, test: ast.expr, place: ast.stmt) -> bool:
        """Whether nothing is moved to CUDA where the test does not hold.

        ``if gpu is not None: images.cuda()`` only says who moves the batch where the model is on CUDA without a gpu.
        """
        if always_asks_for_cuda(self._flow.values(test)):
            return True
        sides = {each: [self._side(test, each.module, branch) for branch in each.branches] for each in self._moves}
        is_all = all(any(sides[each]) for each in self.to_cuda if not self._runs_later(each, place))
        return is_all and not any(False in each for each in sides.values())

    def _runs_later(self, move: Transfer, place: ast.stmt) -> bool:
        """Whether the move stands below the place, and in no loop that comes back to it."""
        moving = move.module.statement(move.call)
        in_loop = any(isinstance(each, LOOPS) for each in move.module.ancestors(moving))
        return move.module is self._module and not in_loop and dominates(self._module, place, moving)

    def _side(self, test: ast.expr, module: Module, branch: Branch) -> bool | None:
        """On which side of the test that branch is: True where it holds, False where it does not, None for another."""
        sought, is_sought = _plain(test)
        asked = Asked.of(self._flow, self._module, sought)
        for part in _parts(branch):
            plain, is_plain = _plain(part)
            if ast.unparse(plain) == ast.unparse(sought) or asked.is_same(
                Asked.of(self._flow, module, plain), text=False
            ):
                return branch.holds == (is_plain == is_sought)
        return None

    def _device(self, move: Transfer, place: ast.stmt) -> CudaCondition | None:
        found = of_device(self._script, move, self._module, place)
        if found is None or any(_excludes(move, each) and not _asks(each, found) for each in self.to_cuda):
            return None
        return found

    def _at_hand(self, place: ast.stmt) -> CudaCondition | None:
        """What a device says that the function of the place names: a parameter that it hands on, a name of its own.

        Should it be another device than the model's, nothing is computed on CUDA for one of the two.
        """
        module, function = self._module, self._module.function(place)
        for node in own(function, ast.Name, ast.Attribute) if function is not None else ():
            if can_be_said(self._flow, module, node, place) and device(self._flow, node).kind is DeviceKind.CONDITIONAL:
                found = compared(self._script, module, node)
                if found is not None:
                    return found
        return None


def _plain(test: ast.expr) -> tuple[ast.expr, bool]:
    """The test without ``not``, and whether it holds where the test does."""
    is_not = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    return (test.operand, False) if is_not else (test, True)  # type: ignore[attr-defined]


def _is_made_of_one(site: ast.AST | None) -> TypeGuard[ast.Call]:
    """``torch.device("cuda:2")``."""
    return isinstance(site, ast.Call) and len(site.args) == 1


def _is_self_of(value: Value, layers: set[Value]) -> bool:
    """Whether the value is an object of the class whose ``self`` is among the layers."""
    if not isinstance(value, Instance) or value.site is None:
        return False
    return any(isinstance(each, Instance) and each.site is None and each.of == value.of for each in layers)


def _is_unconditional(move: Transfer) -> bool:
    """Whether it runs wherever its statement does, and the script ends where it fails."""
    tests = {each.test for each in move.branches}
    is_in_if = all(isinstance(move.module.parent(each), ast.If) for each in tests)
    return is_in_if and not move.may_fail_unseen()


def _each_side_has(branch: ast.If, statements: set[ast.stmt]) -> bool:
    """Whether one of the statements has run where the ``if`` is left, whichever way it goes; one may end the script."""
    return all(
        any(each in statements or (isinstance(each, ast.If) and _each_side_has(each, statements)) for each in side)
        or (bool(side) and isinstance(side[-1], ast.Raise))
        for side in (branch.body, branch.orelse)
    )


def _excludes(one: Transfer, other: Transfer) -> bool:
    """Whether the two stand on different sides of an ``if``."""
    return any(a.test is b.test and a.holds is not b.holds for a in one.branches for b in other.branches)


def _asks(move: Transfer, condition: CudaCondition) -> bool:
    """Whether the move runs only where the condition holds: ``if args.gpu is not None and device.type == "cuda":``."""
    asked = ast.unparse(ast.parse(condition.text, mode="eval"))
    return any(ast.unparse(part) == asked for each in move.branches if each.holds for part in _parts(each))


def _parts(branch: Branch) -> Sequence[ast.expr]:
    """What has to hold for the branch to be taken, or not to hold: each of ``a and b`` where the test holds."""
    node = branch.test
    is_several = branch.holds and isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And)
    return node.values if is_several else [node]  # type: ignore[attr-defined]
