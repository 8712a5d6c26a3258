"""Rule ``defer-sync``: sums of what the device computes stay there until they are read."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING

from codemods.codemod import Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.dataflow.placement import is_pythons_own
from codemods.dataflow.source import LOOPS
from codemods.editing import problems
from codemods.editing.values import AddArgument, Insert, Remove, Replace, Surround
from codemods.facts.numbers import is_without_dimensions
from codemods.facts.reason import Reason
from codemods.facts.training.apart import other_device
from codemods.facts.training.deferral import outcomes
from codemods.facts.training.deferred_copies import DeferredCopy
from codemods.facts.training.deferred_lists import DeferredList
from codemods.facts.training.deferred_tensors import DeferredTensor
from codemods.facts.training.deferred_updates import DeferredUpdates
from codemods.facts.training.seldom_uses import SeldomUse
from codemods.facts.training.step_loops import rare_suite
from codemods.facts.training.totals import added
from codemods.library.sources import measured

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.codemod import Finding
    from codemods.dataflow.source import Module
    from codemods.editing.values import Edit
    from codemods.facts.devices.readings import Reading
    from codemods.facts.script import Script
    from codemods.facts.training.sums import Deferral
    from codemods.facts.training.totals import Total

_MESSAGE = "each iteration waits for the device, to add up on the host what it has computed"
_KEPT = "each iteration waits for the device, to keep on the host what it has computed"
_SELDOM = "each iteration waits for the device, for a number that few iterations use"
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_BACK = "each iteration waits for the device, to bring back to it what it has computed"


class DeferSync(Codemod):
    """Adds losses and counts up on the device, and asks for the sum where it is read.

    Why it is faster:
        ``loss.item()`` waits until the device has computed the loss, and all that was queued before it. Meanwhile the
        host queues nothing and reads no batch, and when the wait is over the device has nothing to do. A sum that stays
        on the device lets the host run ahead, as does a list of tensors or of rows of them
        (``losses.append([loss.item(), error.item()])``), or a tensor on the device whose items are set
        (``losses[k] = loss.item()``). Sums and lists may be items of a dictionary that the function has to itself
        (``stats["loss"] += loss.item()``). Where few passes read a list and then empty it (``losses = []``), they make
        numbers of it; where each epoch appends to one list, each makes numbers of what it has appended. What is
        computed before it is kept, ``losses.append(loss.item() * len(x))``, is computed there.
        Floats are added in 64 bits, as Python adds them. Where the device may be another one, which may have none,
        ``total += loss.detach().double() if loss.is_cuda else loss.item()`` waits there as before. A count that
        copies what it adds to the host, ``correct += hits.cpu().sum()``, waits just so, and is a tensor without
        the copy, too: the copy goes, as it does where the number of such a sum is read. A loop within the
        iteration, such as one over all parameters for the norm of their gradients, waits in each of its passes:
        its sum stays on the device until that loop ends, and the host waits once.

        A meter of the script (``losses.update(loss.item(), n)``) that nothing asks before the loop is over is told all
        of it then, in the same order. Where few passes ask it (``if i % 100 == 0: print(losses.avg)``), these tell it
        first what it has not been told yet. So they do where an object of the script shows its meters at times, as
        ``progress.display(i)`` of ``ProgressMeter(n, [losses, top1])`` does.

        So does a moving average, ``shown = 0.9 * shown + 0.1 * loss.item()``.

        ``last = loss.item()``, where only ``if i % 100 == 0:`` below it uses ``last``, goes there.

    When it is left:
        The number is needed in each iteration: it is printed, shown by a progress bar, compared, returned, also by a
        function that trains on one batch (``total += step(batch)``), or kept where the loop reads it, in a
        NumPy array, in a list that may grow very long, or in a list or tensor that is not a new one before the
        loop. The iteration waits for the device anyway, with no backward between that and the sum. The loop
        reads a clock, which would show when work was queued and no longer when it was done. Other functions, or
        code after an exception, may see the sum. It starts from something else than a number that is written
        out. The device may be one that has no floats of 64 bits, and what is added has no name to ask. The loop
        has one pass, as a batch holds all items (``batch_size=len(data)``).

    Results:
        The same sums, lists and tensors, bit for bit, on the host wherever the script reads them. A count that was a
        tensor of the host is one of the device, where only its number is asked for; CUDA may round a share of it
        (``correct / size``) otherwise in the last bit. So it may what the loop divides before it adds or keeps it
        (``total += loss.item() / len(loader)``), as it multiplies by the reciprocal.

    References:
        The tuning guide, "Avoid unnecessary CPU-GPU synchronization"; ``torch.Tensor.item``.
    """

    promise = Promise.PRECISION
    gain = "an iteration 1.0-1.04x as fast (H100)"
    gain_sources = (measured("steps-and-syncs"),)
    needs_cuda = True
    phases = frozenset({Phase.WAITING, Phase.DATA, Phase.COPIES, Phase.OTHER})
    causes = words(
        """
        captured framework grows-long integer-start needed-each-step no-cuda no-name nothing-to-gain other-accelerator
        other-stream rounds-otherwise seen-elsewhere several-devices times-steps unknown-device unknown-number
        unread waits-anyway written-while-copied
        """
    )
    examples = (
        Rewrites(
            before="""\
import torch
from torch import nn

model = nn.Linear(784, 10).cuda()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(loader):
    running_loss = 0.0
    correct = 0
    for images, labels in loader:
        images, labels = images.cuda(), labels.cuda()
        outputs = model(images)
        loss = criterion(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running_loss += loss.item() * images.size(0)
        correct += (outputs.argmax(1) == labels).sum().item()
    return running_loss / len(loader.dataset), correct
""",
            after="""\
import torch
from torch import nn

model = nn.Linear(784, 10).cuda()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(loader):
    running_loss = 0.0
    correct = 0
    for images, labels in loader:
        images, labels = images.cuda(), labels.cuda()
        outputs = model(images)
        loss = criterion(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running_loss += loss.detach().double() * images.size(0)
        correct += (outputs.argmax(1) == labels).sum()
    running_loss = float(running_loss)
    correct = int(correct)
    return running_loss / len(loader.dataset), correct
""",
        ),
        Rewrites(
            before="""\
import torch
from torch import nn

model = nn.Linear(784, 10).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    running_loss = 0.0
    for i, images in enumerate(torch.randn(1000, 64, 784)):
        loss = model(images.cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running_loss += loss.item()
        if i % 100 == 99:
            print(epoch, running_loss / 100)
            running_loss = 0.0
""",
            after="""\
import torch
from torch import nn

model = nn.Linear(784, 10).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    running_loss = 0.0
    for i, images in enumerate(torch.randn(1000, 64, 784)):
        loss = model(images.cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running_loss += loss.detach().double()
        if i % 100 == 99:
            print(epoch, float(running_loss) / 100)
            running_loss = 0.0
""",
        ),
        Leaves(
            code="""\
import torch
from torch import nn

model = nn.Linear(784, 10).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = 0.0
for i, images in enumerate(torch.randn(1000, 64, 784)):
    loss = model(images.cuda()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.item()
    print(total / (i + 1))
""",
            because="'total' is read in each iteration (line 13): do that every so many iterations",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every sum that a loop keeps of what the device computes, and what else it reads in each iteration."""
        for node, outcome in outcomes(script):
            if isinstance(outcome, Reason):
                yield self.left(script.module, node, outcome)
            elif isinstance(outcome, SeldomUse):
                yield self.rewrites(script.module, node, _SELDOM, *_sunk(script, outcome), promise=Promise.BITWISE)
            else:
                yield self._site(script, node, outcome)

    def _site(self, script: Script, node: ast.AST, deferral: Deferral) -> Finding:
        total = deferral.total
        if isinstance(deferral, DeferredTensor):
            message = _BACK if deferral.made.is_there else _KEPT
            return self.rewrites(total.module, node, message, *_there(deferral), promise=Promise.BITWISE)
        if isinstance(deferral, DeferredUpdates):
            edits = [*_told_later(deferral), *_without_copies(deferral)]
            return self.rewrites(total.module, node, _KEPT, *edits, promise=Promise.BITWISE)
        if isinstance(deferral, DeferredList):
            return self._kept(deferral, node)
        if isinstance(deferral, DeferredCopy):
            promise = Promise.PRECISION if deferral.is_divided else Promise.BITWISE
            edits = _as_tensors(deferral)
            if deferral.copied_after is not None:
                edits.append(Surround(total.module, deferral.copied_after, "", ".cpu()"))
            return self.rewrites(total.module, node, _MESSAGE, *edits, promise=promise)
        builtin = "float" if deferral.has_floats else "int"
        if not is_pythons_own(total.module, builtin, total.loop):
            text = f"the script gives the name '{builtin}' to something else"
            return self.left(total.module, node, Reason("no-name", text))
        asks = deferral.has_floats and other_device(script) is not None
        edits = [(_on_cuda if asks else _on_device)(deferral, each) for each in deferral.readings]
        number = (f"{builtin}(", ")")
        edits += [*_without_copies(deferral), *_as_sums(script, deferral), *_read_inside(total, *number)]
        if total.is_read_after:
            edits.append(Insert(total.module, total.loop, _converted(total, *number), "after"))
        promise = Promise.PRECISION if deferral.rounds_otherwise else Promise.BITWISE
        return self.rewrites(total.module, node, _MESSAGE, *edits, promise=promise)

    def _kept(self, kept: DeferredList, node: ast.AST) -> Finding:
        """``losses.append(loss.item())`` → ``losses.append(loss.detach())``, and the numbers after the loop."""
        total = kept.total
        edits = [
            _on_device(kept, each) if kept.widens(each) else _as_tensor(kept, each, _counted(kept, each))
            for each in kept.readings
        ]
        edits += [*_without_copies(kept), *_read_inside(total, *kept.as_numbers)]
        if kept.goes_on:
            edits += _of_this_run(kept)
        elif total.is_read_after:
            edits.append(Insert(total.module, total.loop, _converted(total, *kept.as_numbers), "after"))
        promise = Promise.PRECISION if kept.rounds_otherwise else Promise.BITWISE
        return self.rewrites(total.module, node, _KEPT, *edits, promise=promise)


def _sunk(script: Script, use: SeldomUse) -> Iterator[Edit]:
    """``value = loss.item()`` goes under the condition below it, where alone ``value`` is used."""
    yield Remove(script.module, use.statement)
    yield Insert(script.module, use.anchor, script.module.code(use.statement), "before")


def _as_tensors(kept: Deferral) -> list[Edit]:
    return [_as_tensor(kept, each) for each in kept.readings]


def _as_tensor(kept: Deferral, one: Reading, cast: str = "") -> Edit:
    """``loss.item()`` → ``loss.detach()``."""
    template = f"{{tensor}}{_detached(kept, one)}{cast}"
    return Replace(one.module, one.node, template, (("tensor", one.tensor),))


def _counted(kept: Deferral, one: Reading) -> str:
    return ".long()" if kept.is_computed_with_truth(one) else ""


def _there(kept: DeferredTensor) -> Iterator[Edit]:
    """``losses[k] = loss.item()`` → ``losses[k] = loss.detach()`` of a tensor on the device, and its copy after it."""
    total = kept.total
    yield from _as_tensors(kept)
    if kept.made.is_there:
        return
    yield AddArgument(total.module, kept.made.maker, "device", kept.device)
    copies = [Surround(total.module, each, "", ".cpu()") for each in total.read_after]
    if kept.is_read_once and problems.problem(copies[0]) is None:
        yield copies[0]
    elif copies:
        yield Insert(total.module, total.loop, f"{total.name} = {total.name}.cpu()", "after")


def _of_this_run(kept: DeferredList) -> Iterator[Edit]:
    """``losses[len_losses:] = [each.item() for each in losses[len_losses:]]``, where earlier runs appended, too."""
    module, loop, name = kept.total.module, kept.total.loop, kept.total.written
    last = f"{name}[{kept.mark}:]"
    yield Insert(module, loop, f"{kept.mark} = len({name})", "before")
    yield Insert(module, loop, f"{last} = {last.join(kept.as_numbers)}", "after")


def _told_later(kept: DeferredUpdates) -> Iterator[Edit]:
    """``losses.update(loss.item(), n)`` → ``losses_updates.append((loss.detach(), n))``, and the updates after that."""
    module, loop, call, pending = kept.total.module, kept.total.loop, kept.call, kept.pending
    (one,) = kept.readings
    holes = {"tensor": one.tensor if kept.told is one.node else kept.told}
    holes |= {f"beside_{number}": each for number, each in enumerate(kept.beside)}
    detached = _detached(kept, one) if kept.told is one.node else ""
    items = [f"{{tensor}}{detached}", *(f"{{{each}}}" for each in list(holes)[1:])]
    item = f"({', '.join(items)})" if kept.beside else items[0]
    if kept.told is not one.node:
        yield _as_tensor(kept, one)
    yield Replace(module, call, f"{pending}.append({item})", tuple(holes.items()))
    if kept.meter.is_there:
        yield Insert(module, loop, f"{pending} = []", "before")
    for each in kept.tellings:
        if each.is_new:
            yield Insert(module, each.anchor, f"{pending} = []", "after")
        else:
            yield Insert(module, each.anchor, f"{kept.repeated}\n{pending}.clear()", "before")
    if kept.meter.is_read_after:
        yield Insert(module, loop, kept.repeated, "after")


def _without_copies(kept: Deferral) -> Iterator[Edit]:
    """``hits.cpu().sum()`` → ``hits.sum()``."""
    for one in kept.readings:
        for copy in one.copies:
            yield Replace(one.module, copy, "{tensor}", (("tensor", copy.func.value),))  # type: ignore[attr-defined]


def _detached(deferral: Deferral, reading: Reading) -> str:
    return ".detach()" if deferral.carries_graph(reading) else ""


def _on_device(deferral: Deferral, reading: Reading) -> Edit:
    """``loss.item()`` → ``loss.detach().double()``."""
    detached = _detached(deferral, reading) if deferral.has_floats else ""
    widened = ".double()" if deferral.has_floats else _counted(deferral, reading)
    template = f"{{tensor}}{detached}{widened}"
    return Replace(reading.module, reading.node, template, (("tensor", reading.tensor),))


def _on_cuda(deferral: Deferral, reading: Reading) -> Edit:
    """``loss.item()`` → ``loss.detach().double() if loss.is_cuda else loss.item()``: others may have no such floats."""
    name, number = reading.module.code(reading.tensor), reading.module.code(reading.node)
    text = f"{name}{_detached(deferral, reading)}.double() if {name}.is_cuda else {number}"
    return Replace(reading.module, reading.node, text)


def _as_sums(script: Script, deferral: Deferral) -> Iterator[Edit]:
    """``s += x`` → ``s = s + x``, where it could not be written into the tensor that the first ``+=`` makes."""
    module, total = deferral.total.module, deferral.total
    places = {module.statement(each.node) for each in deferral.readings}
    is_alike = all(is_without_dimensions(script.flow, module, each.tensor) for each in deferral.readings)
    is_one = len(places) == 1 and not total.is_inner
    places |= {module.statement(each) for each in deferral.named}
    if (is_alike or is_one) and not any(_is_inference(total, each) for each in places):
        return
    for statement in total.additions:
        pair = added(statement)
        if isinstance(statement, ast.AugAssign) and pair is not None:
            sign = "-" if isinstance(statement.op, ast.Sub) else "+"
            yield Replace(
                module, statement, f"{total.written} = {total.written} {sign} {{value}}", (("value", pair[1]),)
            )


def _is_inference(total: Total, statement: ast.stmt) -> bool:
    """Whether the statement makes a tensor that other code of the loop may not write to: under ``inference_mode``."""
    around = itertools.takewhile(lambda each: each is not total.loop, total.module.ancestors(statement))
    blocks = (item for each in around if isinstance(each, ast.With) for item in each.items)
    return any("inference_mode" in ast.unparse(each.context_expr) for each in blocks)


def _read_inside(total: Total, before: str, after: str) -> Iterator[Edit]:
    """The sum as a number of Python's, or the list as one of them, where few passes of the loop read it."""
    by_suite: dict[int, tuple[Sequence[ast.stmt], list[ast.expr]]] = {}
    for each in total.read_inside:
        suite = rare_suite(total.module, total.loop, each)
        if suite is not None:
            by_suite.setdefault(id(suite), (suite, []))[1].append(each)
    for suite, reads in by_suite.values():
        around = Surround(total.module, reads[0], before, after)
        anchor = next(each for each in suite if reads[0] in ast.walk(each))
        # A loop there may take the items out of the list, one in each pass.
        is_once = len(reads) == 1 and not _is_looped(total.module, reads[0], anchor)
        if is_once and problems.problem(around) is None:
            yield around
        else:
            yield Insert(total.module, anchor, _converted(total, before, after), "before")


def _is_looped(module: Module, node: ast.AST, within: ast.AST) -> bool:
    return any(
        isinstance(each, (*LOOPS, *_COMPREHENSIONS)) and each in ast.walk(within) for each in module.ancestors(node)
    )


def _converted(total: Total, before: str, after: str) -> str:
    return f"{total.written} = {before}{total.written}{after}"
