"""The edits that read a data set of images once, before the first epoch, and give its loaders what was read."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.editing import problems
from codemods.editing.naming import all_written, taken_names
from codemods.editing.splitting import width
from codemods.editing.suites import leading
from codemods.editing.values import Insert, Surround
from codemods.facts.data.datasets import given_transform
from codemods.facts.data.tall_images import as_tall_image
from codemods.facts.reason import Reason

if TYPE_CHECKING:
    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value
    from codemods.editing.values import Edit
    from codemods.facts.script import Script

_TENSORS = "torch.utils.data.TensorDataset"
_COLLATE = "torch.utils.data.default_collate"
_DATA_SETS = ("dataset", "data_set", "data", "set")
"""What names of data sets end with, before which they say what it is for."""


def edits(script: Script, module: Module, value: Value, node: ast.expr) -> list[Edit] | Reason:
    """What makes rows of tensors of the data set, which the node is; why it cannot be done."""
    reading = _Reading(script, module, value, node)
    name = reading.own_name()
    return (reading.at_once(name) if name is not None else None) or reading.one_by_one(name)


@dataclass(frozen=True, slots=True)
class _Reading:
    """How one data set is read."""

    script: Script
    module: Module
    value: Value
    node: ast.expr

    def at_once(self, data: str) -> list[Edit] | None:
        """Statements below the one that gives the data set this name, where its images can be transformed by a call."""
        how = as_tall_image(self.script.flow, self.value)
        images = next((each for each in _names_of_images(data) if each not in taken_names(self.module)), None)
        if how is None or images is None:
            return None
        needed = [_TENSORS, *["torch.tensor"] * how.are_labels_listed]
        named = all_written(self.script, self.module, needed, self.node)
        if named is None:
            return None
        (tensors, *others), found = named
        labels = f"{others[0]}({data}.targets)" if others else f"{data}.targets"
        call = (f"{images} = {self._transform(data)}(", how.tall.format(data=data), f"){how.cut}")
        statement = self.module.statement(self.node)
        fits = len(leading(self.module, statement)) + len("".join(call)) <= width(self.module)
        code = "".join(call) if fits else "{}\n    {}\n{}".format(*call)
        code = f"# all images at once, as one tall image\n{code}\n{data} = {tensors}({images}, {labels})"
        insert = Insert(self.module, statement, code, "after")
        return [*found, insert] if problems.problem(insert) is None else None

    def _transform(self, data: str) -> str:
        given = given_transform(self.value.name, self.value.site) if isinstance(self.value.site, ast.Call) else None
        return given.id if isinstance(given, ast.Name) and given.id != data else f"{data}.transform"

    def one_by_one(self, name: str | None) -> list[Edit] | Reason:
        """A list of the items, stacked: below the statement that gives the data set this name, or around it."""
        named = all_written(self.script, self.module, (_TENSORS, _COLLATE), self.node)
        if named is None:
            return Reason("no-name", "TensorDataset cannot be named where the data set is made")
        (tensors, collate), found = named
        before = f"{tensors}(*{collate}(list("
        if name is not None:
            code = f"{name} = {before}{name})))  # decode once"
            insert = Insert(self.module, self.module.statement(self.node), code, "after")
            if problems.problem(insert) is None:
                return [*found, insert]
        return [*found, Surround(self.module, self.node, before, ")))")]

    def own_name(self) -> str | None:
        """The name that the data set is given, where no function reads it that may meet what it was before."""
        module = self.module
        statement = module.parent(self.node)
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return None
        target = statement.targets[0]
        if not isinstance(target, ast.Name):
            return None
        here = module.function(statement)
        same = (each for each in module.nodes(ast.Name) if each.id == target.id and module.function(each) is not here)
        reading = [each for each in same if isinstance(each.ctx, ast.Load)]
        return target.id if all(map(self._asks_for_length, reading)) else None

    def _asks_for_length(self, name: ast.Name) -> bool:
        """``len(data)``, which is the same before and after."""
        above = self.module.parent(name)
        called = self.script.flow.values(above.func) if isinstance(above, ast.Call) else ()
        return {each.name for each in called} == {"builtins.len"}


def _names_of_images(data: str) -> list[str]:
    """What a colleague would call the images of a data set of that name: ``train_images`` of ``train_set``."""
    ending = next((each for each in _DATA_SETS if data.endswith(each)), "")
    stem = data.removesuffix(ending).rstrip("_")
    return [f"{stem}_images" if stem else "images", f"{data}_images"]
