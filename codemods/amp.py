"""Rule ``amp``: the forward pass and the loss are computed in 16 bits where the GPU is made for it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from codemods.amp_blocks import Blocks, CannotError
from codemods.amp_names import Conditions, Homes, Names, Wording
from codemods.amp_scaler import Scaling, checkpoints
from codemods.declaration import Codemod, Leaves, Promise, Rewrites
from codemods.edit_values import Insert, Replace, Surround, Wrap
from codemods.facts.formats import Format, Formats, Uses
from codemods.facts.hazards import bce_in_model, custom_function, data_parallel, hazards, mixed_precision_present, other_precision
from codemods.facts.iterations import EventKind
from codemods.facts.names import bound_names
from codemods.facts.phases import Phases
from codemods.facts.validations import validations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.amp_blocks import Piece
    from codemods.amp_names import Form
    from codemods.declaration import Finding
    from codemods.edit_values import Edit
    from codemods.facts.iterations import TrainingIteration
    from codemods.facts.phases import Block, Phase
    from codemods.facts.script import Script

_NO_CUDA_HERE = "no CUDA: this loop moves neither its model nor its batches to a CUDA device"
_MESSAGE = "the forward pass runs in 32 bits, without the GPU's 16-bit units"


class Amp(Codemod):
    """Trains in mixed precision: forward pass and loss under ``torch.autocast``, gradients of fp16 through a ``GradScaler``.

    Why it is faster:
        GPUs since Volta multiply 16-bit matrices several times as fast as 32-bit ones, and activations take half the
        memory. Autocast chooses for each operation whether 16 bits are enough. bf16, on capability 8 and above, has the
        range of fp32; fp16, below, needs the loss scaled so that small gradients survive. Without CUDA nothing changes.

    When it is left:
        The script never uses CUDA, or chooses its precision itself. The loss, the backward and the step cannot be put in
        order: a framework runs them, gradients are applied by hand, the step takes a closure. Gradients are differentiated
        again, or optimizers share parameters. The model does what 16 bits cannot: custom autograd functions, masks with
        -1e9, linear algebra, Fourier transforms, masked assignment.

    Results:
        Losses agree to about 1 %. Checkpoints of the model stay as they are; the scaler's state is saved beside the
        optimizer's. With fp16 the first one to three steps may be skipped while the scaler finds its scale.

    References:
        ``torch.amp``; notes/amp_examples; recipes/amp_recipe.
    """

    promise = Promise.PRECISION
    gain = "1.2-2x with large matrix products, below 1x for small networks"
    min_torch = (2, 3)
    needs_cuda = True
    failures = (
        r"binary_cross_entropy and torch\.nn\.BCELoss are unsafe to autocast",
        r"mat1 and mat2 must have the same dtype",
        r"expected scalar type",
        r"Index put requires the source and destination dtypes",
        r"scatter\(\): Expected self\.dtype",
        r"Got unsupported ScalarType BFloat16",
        r"not implemented for '(BFloat16|Half)'",
        r"Low precision dtypes not supported",
        r"value cannot be converted to type (c10|at)::Half without overflow",
        r"No inf checks were recorded",
        r"unscale_\(\) has already been called",
        r"step\(\) has already been called",
        r"Attempted \w+ but _scale is None",
        r"Attempting to unscale FP16 gradients",
        r"Closure use is not currently supported",
    )
    examples = (
        Rewrites(
            before="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(784, 10).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for images, labels in loader:
    images, labels = images.to(device), labels.to(device)
    optimizer.zero_grad()
    outputs = model(images)
    loss = criterion(outputs, labels)
    loss.backward()
    optimizer.step()
""",
            after="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(784, 10).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
use_amp = device.type == "cuda"
amp_dtype = torch.bfloat16 if use_amp and torch.cuda.get_device_capability(device)[0] >= 8 else torch.float16
scaler = torch.amp.GradScaler("cuda", enabled=use_amp and amp_dtype is torch.float16)

for images, labels in loader:
    images, labels = images.to(device), labels.to(device)
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
        outputs = model(images)
        loss = criterion(outputs, labels)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
""",
        ),
    )

    def __init__(self, form: Form = "auto") -> None:
        """A rule that writes one form of mixed precision.

        Args:
            form: ``auto`` chooses the number format by the GPU when the script runs; ``bf16`` and ``fp16`` are plainer.
        """
        self.form: Form = form

    def find(self, script: Script) -> Iterator[Finding]:
        """One site for each training iteration of the entry script: its first backward."""
        phases = Phases(script)
        conditions = Conditions.of_script(script)
        if not phases.all:
            return
        if mixed_precision_present(script) is not None:
            return
        first = phases.all[0]
        reason = self._why_not_at_all(script, conditions)
        names = Names.free(script)
        if reason is not None or isinstance(names, str):
            yield self.left(script.entry, first.statement, because=reason or str(names))
            return
        validated = list(validations(script, phases))
        for group, iteration in _groups(script, phases):
            models = frozenset(each for phase in group for each in phases.models(phase))
            functions = [script.entry.function(block[0]) for block in validated if phases.models_in(block) & models]
            here = conditions.of_code(phases.reach, [iteration.owner, *(each for each in functions if each is not None)], models)
            site = _Site(script, self.form, phases, here, names, group, iteration, Blocks(script, phases), tuple(validated))
            found = site.edits() if here.are_about_cuda else _NO_CUDA_HERE
            if isinstance(found, str):
                yield self.left(script.entry, group[0].statement, because=found)
            else:
                validated = [each for each in validated if each not in site.validated]
                yield self.rewrites(script.entry, group[0].statement, _MESSAGE, *found)

    def _why_not_at_all(self, script: Script, conditions: Conditions) -> str | None:
        if script.framework is not None:
            return f"the training step runs inside {script.framework}; use its own switch for mixed precision"
        if not conditions.are_about_cuda:
            return "no CUDA: nothing in this file moves a model or its batches to a CUDA device"
        other = other_precision(script)
        if other is not None:
            node, what = other
            return f"{what} (line {node.lineno})"  # type: ignore[attr-defined]
        custom = custom_function(script)
        if custom is not None:
            return f"custom autograd.Function {custom.name} (line {custom.lineno}) would get inputs in mixed number formats"
        if self.form != "fp16" and data_parallel(script) is not None:
            return "nn.DataParallel forgets bf16 in its replicas and would compute in fp16 without a scaler; the fp16 form is right there"
        return None


def _groups(script: Script, phases: Phases) -> Iterator[tuple[tuple[Phase, ...], TrainingIteration]]:
    """The phases that are parts of one training iteration, each group with the iteration that holds most of them."""
    remaining = list(phases.all)
    by_size = sorted(script.iterations, key=lambda each: -len(each.of(EventKind.BACKWARD)))
    found: list[tuple[tuple[Phase, ...], TrainingIteration]] = []
    for iteration in by_size:
        calls = {each.node for each in iteration.of(EventKind.BACKWARD)}
        group = tuple(each for each in remaining if each.call in calls)
        if group:
            found.append((group, iteration))
            remaining = [each for each in remaining if each not in group]
    return iter(sorted(found, key=lambda each: each[0][0].call.lineno))


@dataclass(eq=False)
class _Site:
    """One training iteration that is to run in mixed precision."""

    script: Script
    form: Form
    phases: Phases
    conditions: Conditions
    names: Names
    group: tuple[Phase, ...]
    iteration: TrainingIteration
    blocks: Blocks
    validations: tuple[Block, ...]
    """The blocks of validation that no other site takes."""
    validated: list[Block] = field(default_factory=list)
    """Those of them that this site takes."""
    _edits: list[Edit] = field(default_factory=list)

    def edits(self) -> tuple[Edit, ...] | str:
        """All edits of the site, or the reason why it is left."""
        reason = next((each.why_not for each in self.group if each.why_not is not None), None) or self._why_not()
        if reason is not None:
            return reason
        events = {each.event.node: each for each in self.group}
        scaling = Scaling(self.script, self.phases, tuple(self._aligned(events)), self.iteration.events)
        home = None
        if self.form != "bf16":
            reason = scaling.why_not()
            if reason is not None:
                return reason
            home = Homes(self.script, self.phases.reach).find([each.optimizer for each in scaling.steps], scaling.uses)
            if isinstance(home, str):
                return home
        try:
            pieces = [(phase, piece) for phase in self.group for piece in self.blocks.of(phase)]
        except CannotError as error:
            return str(error)
        places = [*(piece.anchor for _, piece in pieces), *(block[0] for block in self._own_validations())]
        wording = Wording(self.script, self.form, self.names, self.conditions, home, places)
        reason = wording.write() or self._wrap(pieces, wording)
        for phase in self.group:
            reason = reason or (self._split(phase, wording) if phase.is_inline else None)
        if reason is not None:
            return reason
        self._validate(wording)
        if home is not None:
            scaled = scaling.edits(wording.scaler_at)
            if isinstance(scaled, str):
                return scaled
            self._edits.extend(scaled)
            self._edits.extend(checkpoints(self.script, wording.scaler_at))
        return (*wording.edits, *self._edits)

    def _aligned(self, phases: dict[ast.AST, Phase]) -> Iterator[Phase]:
        """The phases with the events of this site's iteration, which may be another one's in which they were found."""
        for event in self.iteration.of(EventKind.BACKWARD):
            phase = phases.pop(event.node, None)
            if phase is not None:
                yield phase.seen_in(self.iteration, event)

    def _why_not(self) -> str | None:
        script = self.script
        for phase in self.group:
            for where, node, reason, only_fp16 in hazards(self.phases.reach, script.entry, phase.code):
                if not only_fp16 or self.form != "bf16":
                    place = f"line {node.lineno}" if where is script.entry else f"{where.path}, line {node.lineno}"  # type: ignore[attr-defined]
                    return f"{reason} ({place})"
            inside = bce_in_model(self.phases.reach, phase.code)
            if inside is not None:
                return f"binary_cross_entropy in a model cannot run under autocast (line {inside.lineno}); use its with_logits form"
        return None

    # Blocks.

    def _wrap(self, pieces: list[tuple[Phase, Piece]], wording: Wording) -> str | None:
        """Puts the pieces under autocast; the reason if one cannot be."""
        inside: set[ast.AST] = {each for _, piece in pieces for each in (*piece.statements, *(hoist.node for hoist in piece.hoists))}
        inside |= {each.loss for each in self.group if each.is_inline and not self.blocks.is_outside(each)}
        uses = Uses(self.script.flow, self.script.entry, frozenset(inside))
        for phase, piece in pieces:
            reason = self._wrap_piece(phase, piece, wording, uses)
            if reason is not None:
                return reason
        return None

    def _wrap_piece(self, phase: Phase, piece: Piece, wording: Wording, uses: Uses) -> str | None:
        module = self.script.entry
        place = piece.statements[0] if piece.statements else piece.anchor
        header = wording.block(place)
        if header is None:
            return f"whether the script trains on CUDA cannot be said in line {place.lineno}"
        lines = [f"{each.name} = {module.code(each.node)}.float()" for each in piece.hoists]
        self._edits.extend(Replace(module, each.node, each.name) for each in piece.hoists)
        if not piece.statements:
            code = "\n".join([header, *(f"    {line}" for line in lines)])
            self._edits.append(Insert(module, piece.anchor, code, "before"))
            return None
        self._edits.append(Wrap(module, piece.statements, header))
        widened = self._widened(piece.statements, uses)
        if isinstance(widened, str):
            return widened
        if phase.is_inline and piece.statements[-1] is phase.region[-1] and not self.blocks.is_outside(phase):
            name = self._name_of_loss(phase)
            lines.append(f"{name} = {module.code(phase.loss)}")
        for line in (*lines, *widened):
            self._edits.append(Insert(module, piece.statements[-1], line, "after", outside=False))
        return None

    def _widened(self, block: Block, uses: Uses) -> list[str] | str:
        """The lines that turn what leaves the block into 32 bits where its uses need them; a reason if that is not certain."""
        module = self.script.entry
        formats = Formats(self.script.flow, self.phases.calls_model)
        formats.run(block)
        array = formats.leaves_torch(block)
        if array is not None:
            return f"an array is made from a tensor in 16 bits (line {array.lineno})"
        found: list[str] = []
        for escape in uses.escapes(block):
            text = ast.unparse(escape.target)
            format_ = formats.names.get(text, Format.OTHER)
            if format_ is Format.OTHER:
                continue
            if format_ is Format.UNKNOWN or escape.statement is not module.statement(escape.target):
                return f"{text!r} leaves the block in 16 bits (line {escape.use.lineno}), and what it holds is not known"
            found.append(f"{text} = {text}.float()")
        return found

    # Validation.

    def _own_validations(self) -> list[Block]:
        """The blocks of validation that run a model that is trained here."""
        trained = {each for phase in self.group for each in self.phases.models(phase)}
        return [block for block in self.validations if self.phases.models_in(block) & trained]

    def _validate(self, wording: Wording) -> None:
        """Puts validation under autocast too, wherever that is certain to be right."""
        module = self.script.entry
        blocks = self._own_validations()
        uses = Uses(self.script.flow, module, frozenset(each for block in blocks for each in block))
        for block in blocks:
            widened = self._widened(block, uses)
            header = None if isinstance(widened, str) or any(hazards(self.phases.reach, module, block)) else wording.block(block[0])
            if header is not None and not isinstance(widened, str) and bce_in_model(self.phases.reach, block) is None:
                self._edits.append(Wrap(module, block, header))
                self._edits.extend(Insert(module, block[-1], line, "after", outside=False) for line in widened)
                self.validated.append(block)

    def _name_of_loss(self, phase: Phase) -> str:
        taken = bound_names(phase.function or self.script.entry.tree)
        return next((each for each in ("loss", "batch_loss") if each not in taken), "loss_of_batch")

    def _split(self, phase: Phase, wording: Wording) -> str | None:
        """``loss_fn(model(x), y).backward()``: the loss becomes a statement of its own, in the block."""
        module = self.script.entry
        scaler = wording.scaler_at(phase.statement)
        if self.blocks.is_outside(phase):
            if scaler is not None:
                self._edits.append(Surround(module, phase.loss, f"{scaler}.scale(", ")"))
            return None
        name = self._name_of_loss(phase)
        scaled = name if scaler is None else f"{scaler}.scale({name})"
        if phase.region:
            self._edits.append(Replace(module, phase.loss, scaled))
            return None
        header = wording.block(phase.statement)
        if header is None:
            return f"whether the script trains on CUDA cannot be said in line {phase.call.lineno}"
        backward = phase.call.func
        if not isinstance(backward, ast.Attribute) or backward.value is not phase.loss:
            return f"the loss in line {phase.call.lineno} has no name"
        arguments = module.between(module.span(backward)[1], module.span(phase.call)[1]).replace("{", "{{").replace("}", "}}")
        code = f"{header}\n    {name} = {{loss}}\n{scaled}.backward{arguments}"
        self._edits.append(Replace(module, phase.statement, code, (("loss", phase.loss),)))
        return None
