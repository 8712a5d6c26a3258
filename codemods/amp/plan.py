"""One training iteration that is to run in mixed precision: its blocks, its backwards, its validation."""

from __future__ import annotations

import ast
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from codemods.amp.blocks import BCE, WITH_LOGITS, Blocks
from codemods.amp.checkpoints import checkpoints, ends
from codemods.amp.gradient_obstacles import GradientObstacles
from codemods.amp.naming import Wording
from codemods.amp.reasons import BF16_CAN, NO_SCALER, LeftError
from codemods.amp.scaler import Scaling
from codemods.amp.scaler_scope import Homes
from codemods.amp.step_obstacles import StepObstacles
from codemods.dataflow.names import bound_names
from codemods.dataflow.source import LOOPS, lasting
from codemods.editing.values import Insert, Replace, Surround, Wrap
from codemods.facts.devices.cuda_use import located
from codemods.facts.loops import REPEATING, around, place
from codemods.facts.precision.bootstrap import bootstrapped
from codemods.facts.precision.dtypes import Format, Formats
from codemods.facts.precision.escapes import leak
from codemods.facts.precision.hazards import bce_in_model, grad_in_model, hazards, is_bce, without_bf16
from codemods.facts.precision.narrow import computed_on_host, narrow_operand, rounded_bound, vanishing
from codemods.facts.precision.positions import rounded_positions
from codemods.facts.precision.ratios import old_against_new
from codemods.facts.precision.read_after import Uses
from codemods.facts.precision.saturation import log_of_rest, makes_probabilities, rounds_probabilities
from codemods.facts.precision.script_hazards import line_search, quasi_newton
from codemods.facts.reach import own
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.iterations import EventKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codemods.amp.blocks import Piece
    from codemods.amp.checkpoints import End
    from codemods.amp.naming import Names
    from codemods.amp.scaler_scope import Home
    from codemods.codemod import AmpForm
    from codemods.editing.values import Edit
    from codemods.facts.devices.conditions import Conditions
    from codemods.facts.precision.hazards import Hazard
    from codemods.facts.precision.read_after import Escape
    from codemods.facts.script import Script
    from codemods.facts.training.iterations import TrainingIteration
    from codemods.facts.training.loss_regions import Block, Phase, Phases

_OF_A_TRAINING = 2
"""Loops around the steps of a training: over epochs, over batches."""
_GRAD_IN_MODEL = "nothing scales what a model gives torch.autograd.grad"
_IN_FP16 = "gradients of binary_cross_entropy of a sigmoid are no numbers in fp16 ({});"
_IN_BF16 = "probabilities above 0.998 are 1 in bf16, where binary_cross_entropy ({}) has no gradient;"


@dataclass(eq=False)
class Site:
    """One training iteration."""

    script: Script
    form: AmpForm
    phases: Phases
    conditions: Conditions
    names: Names
    group: tuple[Phase, ...]
    """Its backwards."""
    iteration: TrainingIteration
    validations: Sequence[Block]
    """The blocks of validation that run its models."""
    only_wide: bool = False
    """Whether there is mixed precision only where there is bf16, as fp16 would not do."""
    validated: list[Block] = field(default_factory=list, init=False)
    """Those of them that run in mixed precision too."""
    _edits: list[Edit] = field(default_factory=list, init=False)

    def edits(self) -> tuple[Edit, ...]:
        """All edits of the site.

        Raises:
            LeftError: when the site is left, with the reason.
        """
        self._check()
        scaling, home = self._scaling, None
        blocks = Blocks(self.script, self.phases)
        pieces = [(phase, piece) for phase in self.group for piece in blocks.of(phase)]
        self._check_probabilities(piece for _, piece in pieces)
        if self.form != "bf16":
            home = self._home(scaling)
        validations = list(self._certain())
        validated = [block[0] for block, _ in validations]
        inline = [phase.statement for phase in self.group if phase.is_inline]
        places = [*(piece.anchor for _, piece in pieces), *inline, *validated]
        wording = Wording(
            self.script,
            self.form,
            self.names,
            self.conditions,
            home,
            places,
            validated,
            self.phases.reach,
            only_wide=self.only_wide,
        )
        kept = self._kept(scaling, wording)
        wording.write()
        self._wrap(pieces, blocks, wording)
        for phase in self.group:
            if phase.is_inline:
                self._edits.extend(self._split(phase, blocks, wording))
        for block, lines in validations:
            self._validate(block, lines, wording)
        if home is not None:
            self._edits.extend(scaling.edits(wording.scaler_at))
            self._edits.extend(checkpoints(self.script, kept, wording.scaler_at))
        return (*wording.edits, *self._edits)

    @property
    def is_delicate(self) -> bool:
        """Whether gradients do more than to be stepped with, and 16 bits in them are for the user to ask for."""
        return StepObstacles(self._scaling).differentiates_gradients or self._scaling.applies_gradients

    @property
    def _scaling(self) -> Scaling:
        # A method of a subclass of which no object is made stands in the same iteration, and never runs.
        events = tuple(each for each in self.iteration.events if self.script.may_run(each.module, each.node))
        return Scaling(self.script, self.phases, tuple(self._aligned()), events)

    def _home(self, scaling: Scaling) -> Home:
        """Where the scaler is made."""
        reason = StepObstacles(scaling).why_not() or GradientObstacles(scaling).why_not()
        if reason is not None:
            raise LeftError.of(reason.followed(";", remedy=NO_SCALER))
        try:
            home = Homes(self.script, self.phases.reach).find([each.optimizer for each in scaling.steps], scaling.uses)
        except LeftError as left:
            raise LeftError.of(left.reason.followed(";", remedy=NO_SCALER)) from None
        reason = self._why_made_again(home)
        if reason is not None:
            raise LeftError.of(reason.followed(";", remedy=NO_SCALER))
        return home

    def _why_made_again(self, home: Home) -> Reason | None:
        """A loop that makes an optimizer for a few steps in each pass: each time the scaler would skip the first ones.

        Trainings one after the other, as those of a cross-validation, have loops over epochs and over batches.
        """
        flow, module = self.script.flow, self.script.module
        for anchor in home.anchors:
            outer = [each for each, _ in around(flow, module, anchor) if isinstance(each, REPEATING)]
            inner = {each for each, _ in around(flow, module, self.group[0].call) if isinstance(each, LOOPS)}
            if outer and len(inner.difference(outer)) < _OF_A_TRAINING:
                text = f"the scaler would be made anew in each pass of a loop ({HERE}), and skip its first steps"
                return Reason("made-in-loop", text, (place(flow, outer[0]),))
        return None

    def _kept(self, scaling: Scaling, wording: Wording) -> tuple[End, ...]:
        """Where the scaler's state is saved and loaded: the functions that do so are handed the scaler if need be."""
        home = wording.home
        if home is None:
            return ()
        found = ends(self.script, frozenset(value for step in scaling.steps for value in step.values))
        homes = Homes(self.script, self.phases.reach)
        try:
            for end in found:
                if wording.scaler_at(end.statement) is None:
                    wording.home = homes.handed_on(wording.home or home, end.optimizer, end.statement)
        except LeftError:
            wording.home = home  # Checkpoints stay without it: the scale is found again in a few steps.
            return ()
        return found

    def _check_probabilities(self, pieces: Iterable[Piece]) -> None:
        """Leaves a ``binary_cross_entropy`` of probabilities that a block rounds, or that are not seen to be made.

        A sigmoid of bf16 is exactly 1 from 6.2 on: there it has no gradient, and the sample is learned no more. One of
        fp16 is so from 8.3 on, where the gradient does not fit fp16, is multiplied by 0, and the scaler skips the step.
        """
        reach, module = self.phases.reach, self.script.module
        code = [node for phase in self.group for node in phase.code]
        calls = (call for _, part in reach.code(module, code) for call in own(part, ast.Call))
        bce = next((call for call in calls if is_bce(self.script.flow, call)), None)
        if bce is None:
            return
        inside = [each for piece in pieces for each in (*piece.statements, *(hoist.node for hoist in piece.hoists))]
        is_seen = makes_probabilities(reach, module, code)
        if not is_seen or rounds_probabilities(reach, self.phases.calls_model, module, inside):
            text = (_IN_FP16 if self.form == "fp16" else _IN_BF16).format(HERE)
            raise LeftError(
                "loss-of-probabilities", text, located(self.script, bce), remedy=f"return the logits and {WITH_LOGITS}"
            )

    def _aligned(self) -> Iterator[Phase]:
        """The phases, in the order and with the events of this iteration: they may have been found in another one's."""
        phases = {each.call: each for each in self.group}
        for event in self.iteration.of(EventKind.BACKWARD):
            phase = phases.pop(event.node, None) if isinstance(event.node, ast.Call) else None
            if phase is not None:
                yield phase.seen_in(self.iteration, event)

    def _check(self) -> None:
        search = line_search(self.script)
        if search is not None:
            text = f"the line search of LBFGS needs losses of 32 bits ({HERE})"
            raise LeftError("breaks-in-16-bits", text, located(self.script, search))
        made = quasi_newton(self.script)
        if made is not None:
            text = f"LBFGS learns the curvature from differences of gradients, for which 16 bits are too few ({HERE})"
            raise LeftError("breaks-in-16-bits", text, located(self.script, made))
        for phase in self.group:
            reason = phase.why_not or self.phases.why_unseen(phase)
            if reason is not None:
                raise LeftError.of(reason)
            for hazard in self._hazards(phase):
                if not (hazard.only_fp16 and self.form == "bf16") and not (hazard.only_bf16 and self.form == "fp16"):
                    because = hazard.because
                    raise LeftError.of(because.followed(";", remedy=BF16_CAN) if hazard.only_fp16 else because)
            inside = bce_in_model(self.phases.reach, phase.code)
            if inside is not None:
                text = f"{BCE}, and a model computes it ({HERE});"
                raise LeftError("loss-of-probabilities", text, located(self.script, inside), remedy=WITH_LOGITS)
            grad = grad_in_model(self.phases.reach, phase.code)
            if grad is not None:
                text = f"{_GRAD_IN_MODEL} ({HERE}): 16 bits may not tell its inputs apart"
                raise LeftError("gradients-read", text, located(self.script, grad))

        if not self.conditions.are_about_cuda:
            nothing = Reason("no-cuda", "no CUDA: this loop moves neither its model nor its batches to a CUDA device")
            raise LeftError.of(self.conditions.why_not or nothing)

    def _hazards(self, phase: Phase) -> Iterator[Hazard]:
        """What breaks under autocast in the phase, and beside it."""
        reach, module = self.phases.reach, self.script.module
        yield from _in_code(self.phases, phase)
        beside = (
            leak(reach, self.script.modules, module, self._under_autocast),
            without_bf16(reach, self.script.target, module, self._under_autocast),
        )
        yield from (each for each in beside if each is not None)
        yield from _in_values(self.phases, phase)

    @property
    def _under_autocast(self) -> list[ast.AST]:
        """All that would run there, validation too."""
        return [node for phase in self.group for node in phase.code] + [
            each for block in self.validations for each in block
        ]

    # Blocks.

    def _wrap(self, pieces: Sequence[tuple[Phase, Piece]], blocks: Blocks, wording: Wording) -> None:
        """Puts the pieces under autocast."""
        inside: set[ast.AST] = {each.loss for each in self.group if each.is_inline and not blocks.is_outside(each)}
        for _, piece in pieces:
            inside |= {*piece.statements, *(each.node for each in piece.hoists)}
        uses = Uses(self.script.flow, self.script.module, frozenset(inside))
        for phase, piece in pieces:
            ends_in_loss = (
                phase.is_inline and not blocks.is_outside(phase) and piece.statements[-1:] == phase.region[-1:]
            )
            self._edits.extend(self._wrapped(phase, piece, uses, wording, with_loss=ends_in_loss))

    def _wrapped(self, phase: Phase, piece: Piece, uses: Uses, wording: Wording, *, with_loss: bool) -> Iterator[Edit]:
        module = self.script.module
        header = wording.block(piece.statements[0] if piece.statements else piece.anchor)
        formats = Formats(self.script.flow, self.phases.calls_model)
        formats.run(piece.statements)
        wide = {each: "" if formats.of(each.node) is Format.OTHER else ".float()" for each in piece.hoists}
        lines = [f"{each.name} = {module.code(each.node)}{wide[each]}" for each in piece.hoists]
        for hoist in piece.hoists:
            yield Replace(module, hoist.node, hoist.name)
        if not piece.statements:
            yield Insert(module, piece.anchor, "\n    ".join([header, *lines]), "before")
            return
        yield Wrap(module, piece.statements, header)
        if with_loss:
            lines.append(f"{self._name_of_loss(phase)} = {module.code(phase.loss)}")
        for line in (*lines, *self._widened(piece.statements, uses)):
            yield Insert(module, piece.statements[-1], line, "after", outside=False)

    def _widened(self, block: Block, uses: Uses) -> list[str]:
        """The lines that turn what leaves the block into 32 bits, where its uses need them."""
        formats = Formats(self.script.flow, self.phases.calls_model)
        formats.run(block)
        array = formats.leaves_torch(block)
        if array is not None:
            text = f"an array is made from a tensor in 16 bits ({HERE}):"
            raise LeftError(
                "leaves-in-16-bits", text, located(self.script, array), remedy="convert that with .float() first"
            )
        found: list[str] = []
        for escape in uses.escapes(block):
            text = ast.unparse(escape.target)
            if formats.names.get(text, Format.OTHER) is Format.OTHER:
                continue
            is_known = formats.names[text] is not Format.UNKNOWN or escape.is_tensor
            if not is_known or not self._is_unconditional(escape):
                why = f"{text!r} leaves the block in 16 bits ({HERE}), and what it holds is not known"
                raise LeftError("leaves-in-16-bits", why, at(self.script.module, escape.use))
            found.append(f"{text} = {text}.float()")
        return found

    def _is_unconditional(self, escape: Escape) -> bool:
        """Whether the block writes it whenever it runs."""
        above = self.script.module.statement(escape.target)
        while above is not escape.statement:
            parent = self.script.module.parent(above)
            if not isinstance(parent, ast.With):
                return False
            above = parent
        return not isinstance(above, (ast.For, ast.While, ast.If, ast.Try))

    # Losses that are computed where they are differentiated.

    def _split(self, phase: Phase, blocks: Blocks, wording: Wording) -> Iterator[Edit]:
        """``loss_fn(model(x), y).backward()``: the loss becomes a statement of its own, in the block."""
        module = self.script.module
        scaler = wording.scaler_at(phase.statement)
        if blocks.is_outside(phase):
            if scaler is not None:
                yield Surround(module, phase.loss, f"{scaler}.scale(", ")")
            return
        name = self._name_of_loss(phase)
        scaled = name if scaler is None else f"{scaler}.scale({name})"
        if phase.region:
            yield Replace(module, phase.loss, scaled)
            return
        backward = phase.call.func
        if not isinstance(backward, ast.Attribute) or backward.value is not phase.loss:
            raise LeftError("not-editable", f"the loss in {HERE} has no name", at(module, phase.call))
        arguments = module.between(module.span(backward)[1], module.span(phase.call)[1])
        code = f"{scaled}.backward{arguments}".replace("{", "{{").replace("}", "}}")
        code = f"{wording.block(phase.statement)}\n    {name} = {{loss}}\n{code}"
        yield Replace(module, phase.statement, code, (("loss", phase.loss),))

    def _name_of_loss(self, phase: Phase) -> str:
        taken = bound_names(phase.function or self.script.module.tree)
        return next(each for each in ("loss", "batch_loss", "loss_of_batch") if each not in taken)

    # Validation.

    def _certain(self) -> Iterator[tuple[Block, list[str]]]:
        """The validations in which autocast is certain to be right, each with the lines that end its block."""
        uses = Uses(
            self.script.flow, self.script.module, frozenset(each for block in self.validations for each in block)
        )
        for block in self.validations:
            reach, module = self.phases.reach, self.script.module
            if any(hazards(reach, module, block)) or rounded_positions(reach, self.phases.calls_model, module, block):
                continue
            if bce_in_model(self.phases.reach, block) is None:
                with suppress(LeftError):  # It stays in 32 bits, which is slower and right.
                    yield block, self._widened(block, uses)

    def _validate(self, block: Block, lines: Sequence[str], wording: Wording) -> None:
        """Puts a validation under autocast too."""
        module = self.script.module
        try:
            header = wording.block(block[0])
        except LeftError:
            return
        self._edits.append(Wrap(module, block, header))
        self._edits.extend(Insert(module, block[-1], line, "after", outside=False) for line in lines)
        self.validated.append(block)


@lasting  # each form asks
def _in_code(phases: Phases, phase: Phase) -> tuple[Hazard, ...]:
    """What has no kernel in 16 bits, and the like, in the code of the phase."""
    return tuple(hazards(phases.reach, phase.module, phase.code))


@lasting  # each form asks
def _in_values(phases: Phases, phase: Phase) -> tuple[Hazard, ...]:
    """The values that the code of the phase computes and 16 bits are too few for."""
    reach, calls_model, module = phases.reach, phases.calls_model, phase.module
    found = (
        vanishing(reach, calls_model, module, phase.code),
        rounded_bound(reach, calls_model, module, phase.code),
        log_of_rest(reach, calls_model, module, phase.code),
        narrow_operand(reach, calls_model, module, phase.code),
        computed_on_host(reach, calls_model, module, phase.code),
        rounded_positions(reach, calls_model, module, phase.code),
        old_against_new(reach, calls_model, module, phase.code),
        bootstrapped(phases, phase),
    )
    return tuple(each for each in found if each is not None)
