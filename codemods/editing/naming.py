"""How a name of a library is written at a place, with the import that it needs first; which names are taken."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.editing import imports
from codemods.editing.values import ImportName

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codemods.dataflow.source import Module
    from codemods.editing.values import Edit
    from codemods.facts.script import Script


OF_DATA = ("dataset", "data_set", "data", "set")
"""What names of data sets end with, before which they say what it is for."""


def written(script: Script, module: Module, qualified: str, node: ast.expr) -> tuple[str, tuple[Edit, ...]] | None:
    """How a colleague would write the name there, and what has to be imported; None where it cannot be named.

    A name that is imported already is used, and so is a short one, such as ``data.TensorDataset``, where the module
    imports none from the package. Else it is imported: ``torch.utils.data.TensorDataset`` makes long lines.

    Args:
        script: The script.
        module: The module.
        qualified: The name, with that of its package.
        node: An expression of the module.
    """
    package, _, name = qualified.rpartition(".")
    spelled = script.spelled(module, qualified, module.statement(node))
    dots = spelled.count(".") if spelled is not None else 0
    is_short = spelled is not None and (not dots or (dots == 1 and imports.importing(module, package) is None))
    if not is_short and imports.can_import_name(module, package, name, node):
        return name, (ImportName(module, package, name),)
    return (spelled, ()) if spelled is not None else None


def all_written(
    script: Script, module: Module, qualified: Iterable[str], node: ast.expr
) -> tuple[list[str], list[Edit]] | None:
    """How each of several names is written there, and all that has to be imported; None where one cannot be named.

    The arguments are those of ``written``.
    """
    names: list[str] = []
    edits: list[Edit] = []
    for each in qualified:
        found = written(script, module, each, node)
        if found is None:
            return None
        names.append(found[0])
        edits.extend(found[1])
    return names, edits


def taken_names(module: Module) -> set[str]:
    """All names that the module binds or reads: of variables, attributes, parameters, functions, classes, imports."""
    taken = {each.id for each in module.nodes(ast.Name)} | {each.attr for each in module.nodes(ast.Attribute)}
    taken |= {each.arg for each in module.nodes(ast.arg)} | {each.arg or "" for each in module.nodes(ast.keyword)}
    taken |= {each.name for each in module.nodes(ast.FunctionDef, ast.ClassDef)}
    taken |= {each.name for each in module.nodes(ast.AsyncFunctionDef)}
    return taken | {each.asname or each.name for each in module.nodes(ast.alias)}


def names_of_loader(data: ast.expr | None) -> list[str]:
    """What a colleague would call the loader of a data set: ``train_loader`` of ``train_set``."""
    name = data.id if isinstance(data, ast.Name) else ""
    ending = next((each for each in OF_DATA if name.endswith(each)), "")
    stem = name.removesuffix(ending)
    return [f"{stem}loader" if ending or not stem else f"{stem}_loader", "loader", "data_loader"]
