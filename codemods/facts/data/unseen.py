"""Code that may move the batches of a loader, and is not seen."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.facts.data.reads import How
from codemods.facts.reason import HERE, Reason

if TYPE_CHECKING:
    from codemods.facts.data.loaders import Loader
    from codemods.facts.script import Script


def why_moves_are_unseen(script: Script, loader: Loader) -> Reason | None:
    """Which code that is not seen may move the batches; None where nothing else may."""
    unreadable = script.whole.unreadable
    handed = next((each for each in loader.passes if each.how is How.HANDED), None)
    if handed is not None and isinstance(handed.node, ast.Call):
        modules = {each.name.rpartition(".")[0] for each in script.flow.values(handed.node.func)}
        why = next((unreadable[each] for each in sorted(modules) if each in unreadable), None)
        text = f"{handed.reader}() reads it, in code that is not followed ({HERE})"
        text = text if why is None else f"{text}: {why}"
        return Reason("unknown-reading", text, (loader.at(handed.node),))
    imported = {
        name
        for module in script.flow.beside(loader.module)
        for node in module.nodes(ast.Import, ast.ImportFrom)
        for name in script.flow.imported_names(module, node)
    }
    # What reads it may be a file that imports this one.
    why = next((why for name, why in unreadable.items() if name in imported or not loader.passes), None)
    if why is None:
        return None
    return Reason("batches-not-moved", f"its batches are not moved to a device in the files that can be read: {why}")
