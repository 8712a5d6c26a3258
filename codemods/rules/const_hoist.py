"""Rule ``const-hoist``: what each iteration makes anew, and is the same each time, is made above the loop."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.codemod import UNMEASURED, Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.editing.values import Move
from codemods.facts.devices.constant_copies import constant_copies
from codemods.facts.devices.copied_numbers import copied_numbers
from codemods.facts.devices.helper_copies import helper_copies
from codemods.facts.devices.listed_indices import listed_indices
from codemods.facts.devices.remade_modules import remade_modules
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.loop_constants import loop_constants
from codemods.facts.training.mode_switches import mode_switches

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from codemods.codemod import Finding
    from codemods.facts.devices.copied_numbers import CopiedNumbers
    from codemods.facts.devices.helper_copies import HelperCopy
    from codemods.facts.devices.listed_indices import ListedIndex
    from codemods.facts.devices.remade_modules import RemadeModule
    from codemods.facts.script import Script

_MESSAGE = "each iteration makes the same constant again"
_MODE = "each iteration goes through all layers to set the mode that they are in"


class ConstHoist(Codemod):
    """Makes constants of a training loop once, above it (``torch.ones(n, 1)``, ``nn.BCELoss()``).

    Why it is faster:
        Each tensor that an iteration makes takes some microseconds of the host and a kernel of its own. Where it is
        copied to the device, as ``torch.tensor(0.5).cuda()`` is, the host waits for the copy. The labels of a GAN,
        masks and indices that depend on no batch are the same in each iteration. So is a loss of torch: to make one
        takes as long as several operations.

        ``label = torch.arange(n)`` and ``label = label.cuda()`` below it go together, with the ``if use_cuda:`` around
        the copy, and so does what is computed of constants alone: ``minus = one * -1``, and the grid of pixels that
        ``torch.stack(torch.meshgrid(rows, columns), -1)`` makes.

        ``model.train()`` goes through all layers of a model. Where no iteration sets another mode, once is enough.

    When it is left:
        A model, a method of the project or a list is given the tensor, and may write to it or keep it. It stands under
        an ``if`` or ``with`` in the loop, or its name is given other values, too. Gradients are asked for of it. A
        model makes it in its constructor, and copies it to the device in each forward pass, or indexes by an array that
        it made there: as a buffer it would move with the model. A model makes a module of the project anew in each
        pass, whose constructor copies such a constant. A helper copies what it is given, and a constructor made that:
        the tables of a diffusion. Python counts an index in each pass. Numbers that are written in a list,
        ``torch.tensor([0.1, 0.2]).to(x.device)``, are copied in a model's forward pass, or within an expression. Labels
        are as long as the batch. Nothing is said of what else is not the same each time: of tensors that are written to
        or added to, of copies of arrays that other code may write to, of random numbers.

    Results:
        The same values, bit for bit. The memory of the tensor is kept from one iteration to the next.

    References:
        PyTorch performance tuning guide, "Create tensors directly on the target device".
    """

    promise = Promise.BITWISE
    gain = UNMEASURED
    needs_cuda = False
    phases = frozenset({Phase.COPIES, Phase.FORWARD, Phase.OTHER})
    causes = words("made-in-loop may-be-written other-result script-decides seen-elsewhere")
    examples = (
        Rewrites(
            before="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 1).to(device)
criterion = nn.BCEWithLogitsLoss()
for x in torch.randn(10, 8, 4):
    # All of them are real.
    real = torch.ones(8, 1).to(device)

    loss = criterion(model(x.to(device)), real)
    loss.backward()
""",
            after="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 1).to(device)
criterion = nn.BCEWithLogitsLoss()
# All of them are real.
real = torch.ones(8, 1).to(device)
for x in torch.randn(10, 8, 4):
    loss = criterion(model(x.to(device)), real)
    loss.backward()
""",
        ),
        Leaves(
            code="""\
import torch
from torch import nn

model = nn.Bilinear(4, 2, 1)
for x in torch.randn(10, 8, 4):
    kind = torch.zeros(8, 2)
    model(x, kind).mean().backward()
""",
            because=(
                "'kind' may be written to or kept by what it is given to (line 7): make it once, above the loop, where"
                " that is not so"
            ),
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every constant that a training loop of the module makes in each iteration, or a model copies in each pass."""
        found = tuple(loop_constants(script))
        for each in found:
            if each.why_not is not None:
                yield self.left(each.module, each.statement, each.why_not)
                continue
            moves = [Move(each.module, statement, each.loop) for statement in each.statements]
            yield self.rewrites(each.module, each.statement, _MESSAGE, *moves)
        for switch in mode_switches(script):
            move = Move(switch.module, switch.statement, switch.loop)
            yield self.rewrites(switch.module, switch.statement, _MODE, move)
        statements = {statement for each in found for statement in each.statements}
        for numbers in copied_numbers(script):
            if numbers.module.statement(numbers.call) not in statements:
                yield self.left(numbers.module, numbers.call, _why_copied(numbers))
        yield from self._of_passes(script, statements)
        for copy in constant_copies(script):
            text = f"each forward pass copies '{copy.name}' to the device, which the constructor made ({HERE}):"
            given = "a tensor of the array" if copy.is_array else "it"
            remedy = f"give {given} to register_buffer({copy.name!r}, …, persistent=False) there, and move the model"
            yield self.left(copy.module, copy.call, Reason("made-in-loop", text, (at(copy.module, copy.made),), remedy))

    def _of_passes(self, script: Script, statements: Collection[ast.stmt]) -> Iterator[Finding]:
        """What each pass of a model, or each call, makes or copies anew, beside the statements that are known."""
        for index in listed_indices(script):
            if script.module.statement(index.call) not in statements:
                yield self.left(script.module, index.call, _why_listed(script, index))
        for helper in helper_copies(script):
            yield self.left(script.module, helper.call, _why_handed(helper))
        for made in remade_modules(script):
            yield self.left(made.module, made.call, _why_remade(made))


def _why_listed(script: Script, index: ListedIndex) -> Reason:
    """Why an index that Python counts had better be kept."""
    tensor = ast.unparse(index.tensor)
    text = f"Python counts the index '{index.use.id}' anew each time, and it is copied to where '{tensor}' is ({HERE}):"
    remedy = f"keep it on the device of '{tensor}' as long as its length is the same"
    return Reason("made-in-loop", text, (at(script.module, index.use),), remedy)


def _why_handed(copy: HelperCopy) -> Reason:
    """Why what a helper is given had better be on the device already."""
    name, given = copy.name, ast.unparse(copy.attribute)
    text = f"each call copies '{name}', such as '{given}', unless the constructor made that on the device ({HERE}):"
    remedy = "make a tensor of it there, on the device"
    return Reason("made-in-loop", text, (at(copy.home, copy.made),), remedy)


def _why_remade(made: RemadeModule) -> Reason:
    """Why a module had better be made once, with the constant that its constructor copies."""
    name = made.class_.name
    text = f"each forward pass makes an object of class {name}, which copies a constant to the device ({HERE}):"
    remedy = "make it once, in the constructor"
    return Reason("made-in-loop", text, (at(made.home, made.copy),), remedy)


def _why_copied(numbers: CopiedNumbers) -> Reason:
    """Why a list of numbers had better be a tensor once."""
    text = "the same numbers are made a tensor and copied to the device each time, for which the host waits:"
    buffer = "give the tensor to register_buffer(…, persistent=False) in the constructor"
    return Reason("made-in-loop", text, remedy=buffer if numbers.is_in_forward else "make it once, above the loop")
