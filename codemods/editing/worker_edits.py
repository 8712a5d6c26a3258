"""The edits that write a loader's workers as they were decided, and the main guard."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.editing import imports
from codemods.editing.values import AddArgument, AddItem, Import, Replace, Wrap
from codemods.facts.reason import HERE, Reason

PREFETCH = "prefetch_factor"
_OPTIONAL = (2, 0)
"""The torch from which on ``prefetch_factor=None`` leaves the number to PyTorch, and may be given without workers."""

if TYPE_CHECKING:
    from codemods.dataflow.source import Module
    from codemods.editing.values import Edit
    from codemods.facts.script import Script
    from codemods.facts.workers.plan import Site, Workers


def edits(script: Script, workers: Workers, *, main_guard: bool) -> tuple[Edit, ...] | Reason:
    """What gives a loader these workers; why it cannot be done.

    Args:
        script: the script.
        workers: the workers that the loader is to have; for those that it has nothing is to be done.
        main_guard: whether code may go under ``if __name__ == "__main__":``.
    """
    if not workers.are_new:
        return ()
    module = script.module
    found: list[Edit] = []
    for count in workers.counts:
        if count.now is not None:
            found.append(Replace(module, count.now, count.text))
        else:
            found.append(pass_(module, count.site, "num_workers", count.text))
        if not count.is_imported:
            if not imports.can_import(module, "torch", count.site):
                return Reason("no-name", "torch cannot be imported before the loader is made")
            found.append(Import(module, "import torch"))
    if workers.unguarded is None:
        return tuple(found)
    needs, where = f"workers need a __main__ guard around what reads it ({HERE})", workers.unguarded.where
    if workers.unguarded.why_not is not None:
        return workers.unguarded.why_not.following(f"{needs}: ", where)
    if not main_guard:
        return Reason("needs-main-guard", needs, (where,), "leave --no-main-guard away")
    quote = script.quote(module)
    guard = f"if __name__ == {quote}__main__{quote}:"
    return (*found, *(Wrap(module, part, guard, takes_along=True) for part in workers.unguarded.parts))


def reading_ahead(script: Script, workers: Workers, batches: int) -> tuple[Edit, ...] | Reason:
    """What gives each of these workers so many batches ahead; why it cannot be written.

    Without workers DataLoader refuses every number since torch 2.0, and None before it.
    """
    found: list[Edit] = []
    for count in workers.counts:
        text = str(batches)
        if count.positive != "True":
            if not script.target.allows(_OPTIONAL):
                return script.target.why_too_old(_OPTIONAL, f"{PREFETCH}=None")
            text = f"{batches} if {_condition(count.positive)} else None"
        found.append(pass_(script.module, count.site, PREFETCH, text))
    return tuple(found)


def _condition(text: str) -> str:
    """The expression as it may stand between ``if`` and ``else``."""
    is_loose = isinstance(ast.parse(text, mode="eval").body, (ast.IfExp, ast.Lambda, ast.NamedExpr))
    return f"({text})" if is_loose else text


def pass_(module: Module, site: Site, name: str, value: str) -> Edit:
    """The edit that adds an argument to a call, or an item to a dictionary of arguments."""
    return AddArgument(module, site, name, value) if isinstance(site, ast.Call) else AddItem(module, site, name, value)
