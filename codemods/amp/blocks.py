"""The blocks under autocast: which statements of a phase go into one, and what has to be computed outside of it.

``binary_cross_entropy`` refuses to run under autocast. It stays outside, on probabilities turned back into 32 bits;
where its argument is a call of a model, that call gets a statement of its own in the block.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from codemods.amp.reasons import LeftError
from codemods.dataflow.names import bound_names
from codemods.facts.precision.hazards import is_bce
from codemods.facts.reach import is_model_call, own, switches_gradients_off, written
from codemods.facts.reason import HERE, at
from codemods.facts.training.loss_regions import read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.facts.script import Script
    from codemods.facts.training.loss_regions import Block, Phase, Phases

BCE = "binary_cross_entropy cannot run under autocast"
WITH_LOGITS = "use its with_logits form"


@dataclass(frozen=True, eq=False)
class Hoist:
    """An argument of ``binary_cross_entropy`` that becomes a statement of the block."""

    node: ast.expr
    name: str


@dataclass(frozen=True, eq=False)
class Piece:
    """One block."""

    anchor: ast.stmt
    """The statement before which it stands where it wraps none."""
    statements: Block
    """The statements that it wraps."""
    hoists: tuple[Hoist, ...] = ()


@dataclass(eq=False)
class Blocks:
    """Cuts the regions of phases into blocks."""

    script: Script
    phases: Phases
    _named: set[str] = field(default_factory=set)

    def of(self, phase: Phase) -> list[Piece]:
        """The blocks of a phase, in their order.

        Raises:
            LeftError: when something that autocast refuses cannot be taken out.
        """
        found: list[Piece] = []
        run: list[ast.stmt] = []
        refused: list[ast.stmt] = []
        last = (phase.statement,) if self.is_outside(phase) else ()
        for statement in (*phase.region, *last):
            if self._is_refused(statement):
                refused.append(statement)
                continue
            apart = self._is_apart(statement, phase)
            if refused or apart:
                found.extend(self._piece(phase, run, refused))
                run, refused = [], []
            run.append(statement)
            if apart:
                found.extend(self._piece(phase, run, refused))
                run = []
        found.extend(self._piece(phase, run, refused))
        return found

    def _is_apart(self, statement: ast.stmt, phase: Phase) -> bool:
        """Whether it runs, without gradients, a model that also runs with gradients for the same loss.

        Autocast keeps the weights in 16 bits until the block ends; those that were made without gradients get none.
        """
        if not switches_gradients_off(self.script.flow, statement) and not self._is_evaluated(statement):
            return False
        others = [each for each in phase.code if each is not statement]
        return bool(self.phases.called([statement]) & self.phases.called(others))

    def _is_evaluated(self, statement: ast.stmt) -> bool:
        """Whether gradients are of no use in the statement, or in a part of it, and can be switched off there."""
        parts = {each for region in self.script.evaluations if region.why_not is None for each in region.statements}
        return any(each in parts for each in own(statement, ast.stmt))

    def is_outside(self, phase: Phase) -> bool:
        """Whether the loss is computed in the backward's own expression and has to be computed outside of a block."""
        return phase.is_inline and self._is_refused(phase.loss)

    def _piece(self, phase: Phase, run: list[ast.stmt], refused: list[ast.stmt]) -> Iterator[Piece]:
        """The block for some statements and the calls of models in the refused statements after them."""
        hoists = self._hoists(phase, refused)
        while run and not self._computes(run[0]):
            run.pop(0)
        while run and refused and not hoists and not self._computes(run[-1]):
            run.pop()
        if run or hoists:
            yield Piece(refused[0] if refused else run[0], tuple(run), tuple(hoists))

    def _is_refused(self, node: ast.AST) -> bool:
        """Whether the node computes ``binary_cross_entropy``, itself or in a function that is no model's."""
        if self._has_bce(node):
            return True
        functions = [
            each
            for call in own(node, ast.Call)
            if not is_model_call(self.script.flow, call)
            for each in self.phases.reach.run_by(call)
        ]
        return any(self._has_bce(each) for each in functions)

    def _has_bce(self, node: ast.AST) -> bool:
        return any(is_bce(self.script.flow, each) for each in own(node, ast.Call))

    def _computes(self, node: ast.AST) -> bool:
        return any(self.phases.calls_model(each) for each in own(node, ast.Call))

    def _hoists(self, phase: Phase, refused: Sequence[ast.stmt]) -> list[Hoist]:
        found: list[Hoist] = []
        bound: set[str] = set()
        for statement in refused:
            calls = [each for each in own(statement, ast.Call) if self.phases.calls_model(each)]
            if not calls:
                bound |= written(statement)
                continue
            arguments = [
                call.args[0] for call in own(statement, ast.Call) if is_bce(self.script.flow, call) and call.args
            ]
            nodes = [each for each in arguments if self._computes(each)]
            covered = {call for node in nodes for call in own(node, ast.Call)}
            is_compound = isinstance(statement, (ast.For, ast.While, ast.With, ast.If))
            if is_compound or any(each not in covered for each in calls):
                place = at(phase.module, statement)
                raise LeftError("loss-of-probabilities", f"{BCE} ({HERE});", place, remedy=WITH_LOGITS)
            if bound & {name for node in nodes for name in read(node)}:
                text = f"the order of losses and models in {HERE} does not allow one block"
                raise LeftError("not-editable", text, at(phase.module, statement))
            found.extend(Hoist(node, self._name(phase, statement)) for node in nodes)
            bound |= written(statement)
        return found

    def _name(self, phase: Phase, statement: ast.stmt) -> str:
        """``real_loss = criterion(D(real), ones)`` → ``real_output``."""
        taken = bound_names(phase.function or self.script.module.tree) | self._named
        target = next(iter(written(statement)), "") if isinstance(statement, ast.Assign) else ""
        candidates = [target.replace("loss", "output")] if "loss" in target and target.isidentifier() else []
        name = next((each for each in (*candidates, "output", "prediction", "probability") if each not in taken), None)
        if name is None:
            text = f"what the model returns in {HERE} has no name"
            raise LeftError("not-editable", text, at(phase.module, statement))
        self._named.add(name)
        return name
