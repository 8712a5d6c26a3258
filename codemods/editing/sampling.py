"""The edits by which a loader gathers each batch of tensors by one index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemods.editing.naming import all_written
from codemods.editing.values import AddArgument, RemoveArgument, Replace
from codemods.facts.data.loaders import Given
from codemods.facts.reason import Reason

if TYPE_CHECKING:
    import ast

    from codemods.editing.values import Edit
    from codemods.facts.data.batching import Batches
    from codemods.facts.data.loaders import Loader
    from codemods.facts.script import Script

_DATA = "torch.utils.data."


def in_batches(script: Script, loader: Loader, found: Batches) -> list[Edit] | Reason:
    """What gives the loader a sampler of batches; why it cannot be done.

    Args:
        script: The script.
        loader: The loader, which is read item by item.
        found: How its batches are cut now.
    """
    module, call = loader.module, loader.call
    kind = "RandomSampler" if found.is_shuffled else "SequentialSampler"
    named = all_written(script, module, (f"{_DATA}{each}" for each in ("BatchSampler", kind)), call)
    if named is None:
        return Reason("no-name", "torch's samplers cannot be named where the loader is made")
    (of_batches, of_rows), edits = named
    drawn = f", generator={module.code(found.generator)}" if found.generator is not None and found.is_shuffled else ""
    drop_last = "False" if found.drop_last is None else module.code(found.drop_last)
    order = f"{of_rows}({module.code(found.rows)}{drawn})"
    sampler = f"{of_batches}({order}, {module.code(found.size)}, drop_last={drop_last})"
    edits.append(Replace(module, found.size, "None"))
    for name in ("drop_last", "shuffle"):
        argument = loader.arguments.get(name)
        if argument is None:
            continue
        gone: ast.expr | ast.keyword | None = argument.node
        if argument.how is Given.KEYWORD:
            gone = next(each for each in call.keywords if each.arg == name)
        if gone is None or (argument.how is Given.POSITIONAL and call.args[-1] is not gone):
            return Reason("not-editable", f"{name} is given by position, and others behind it")
        edits.append(RemoveArgument(module, call, gone))
    edits.append(AddArgument(module, call, "sampler", sampler))
    return edits
