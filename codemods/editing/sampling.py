"""The edits by which a loader gathers each batch of tensors by one index."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.names import assigned
from codemods.editing import problems
from codemods.editing.lifting import can_stand_before, purpose
from codemods.editing.naming import all_written, taken_names
from codemods.editing.splitting import width
from codemods.editing.values import AddArgument, Insert, RemoveArgument, Replace
from codemods.facts.data.loaders import Given
from codemods.facts.reason import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codemods.editing.values import Edit
    from codemods.facts.data.batching import Batches
    from codemods.facts.data.loaders import Loader
    from codemods.facts.script import Script

_DATA = "torch.utils.data."
_LOADERS = ("data_loader", "dataloader", "loader", "_dl")
"""What names of loaders end with, before which they say what it is for."""


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
    return [*edits, *_given(script, loader, found, sampler, edits)]


def _given(script: Script, loader: Loader, found: Batches, sampler: str, edits: Sequence[Edit]) -> list[Edit]:
    """The sampler as an argument or, where its line would be wider than the file's, with a name before the loader."""
    from codemods.editing.listed import columns  # which LibCST is for: a check does without

    module, call = loader.module, loader.call
    added = AddArgument(module, call, "sampler", sampler)
    removed = [each.argument for each in edits if isinstance(each, RemoveArgument)]
    line, several = columns(module, added, removed), len(_beside(script, loader)) + 1
    joined = len(module.lines[(call.end_lineno or call.lineno) - 1].rstrip()) + several * len(f", sampler={sampler}")
    is_wide = (line is not None and line > width(module)) or (several > 1 and joined > module.widest)
    name = _name_before(script, loader, found) if is_wide else None
    if name is None:
        return [added]
    return [
        Insert(module, module.statement(call), f"{name} = {sampler}", "before"),
        AddArgument(module, call, "sampler", name),
    ]


def _name_before(script: Script, loader: Loader, found: Batches) -> str | None:
    """What the sampler is called where it is made before the loader; None where it is not."""
    module, call = loader.module, loader.call
    statement = module.statement(call)
    parts = [each for each in (found.rows, found.size, found.drop_last, found.generator) if each is not None]
    has_name = isinstance(statement, ast.Assign) and any(each is call for _, each in assigned(statement))
    insert = Insert(module, statement, "", "before")
    if (
        (_beside(script, loader) and not has_name)
        or not all(map(_is_plain, parts))
        or problems.problem(insert) is not None
    ):
        return None
    if not can_stand_before(script.flow, module, call):
        return None
    taken = taken_names(module)
    return next((each for each in _names(purpose(module, found.size)) if each not in taken), None)


def _beside(script: Script, loader: Loader) -> list[Loader]:
    """The other loaders that its statement makes."""
    module, call = loader.module, loader.call
    others = [each for each in script.loaders if each.call is not call and module.holds(each.call)]
    return [each for each in others if module.statement(each.call) is module.statement(call)]


def _is_plain(node: ast.expr) -> bool:
    """Whether the expression is the same wherever it is evaluated: ``64``, ``args.batch_size``."""
    return isinstance(node, (ast.Constant, ast.Name)) or (isinstance(node, ast.Attribute) and _is_plain(node.value))


def _names(loader: str) -> list[str]:
    """What a colleague would call the sampler of a loader of that name: ``train_sampler`` of ``train_loader``."""
    ending = next((each for each in _LOADERS if loader.endswith(each)), "")
    stem = loader.removesuffix(ending).strip("_")
    return [f"{stem}_sampler", f"{stem}_batch_sampler"] if stem else ["sampler", "batch_sampler"]
