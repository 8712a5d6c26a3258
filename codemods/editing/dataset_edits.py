"""The edits that read a data set of images once, before the first epoch, and give its loaders what was read."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeGuard

from codemods.dataflow.names import assigned, bound_names, declared_outer
from codemods.dataflow.placement import is_pythons_own
from codemods.dataflow.source import FUNCTIONS, walk
from codemods.editing import problems
from codemods.editing.lifting import can_stand_before, lifted, purpose
from codemods.editing.naming import OF_DATA, all_written, taken_names
from codemods.editing.positions import leading
from codemods.editing.splitting import width
from codemods.editing.values import Insert, Replace, Surround
from codemods.facts.data.datasets import given_transform
from codemods.facts.data.tall_images import as_tall_image
from codemods.facts.reason import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Value
    from codemods.editing.values import Edit
    from codemods.facts.data.materializing import ReadOnce
    from codemods.facts.script import Script

_TENSORS = "torch.utils.data.TensorDataset"
_COLLATE = "torch.utils.data.default_collate"
_OF_LOADERS = {
    "_data_loader": "_dataset",
    "data_loader": "dataset",
    "dataloader": "dataset",
    "loader": "set",
    "_dl": "_ds",
}
"""What names of loaders end with, and those of their data sets."""


class DatasetEdits:
    """The edits of a module's data sets, of which no two in one function get the same new name."""

    def __init__(self, script: Script, module: Module) -> None:
        self._script = script
        self._module = module
        self._taken = taken_names(module)
        self._given: set[tuple[Callee | None, str]] = set()

    def reading_once(self, value: Value, found: ReadOnce) -> list[Edit] | Reason:
        """What makes rows of tensors of the data set; why it cannot be done."""
        node, is_singly = found.node, found.why_not_singly is None
        name = self._own_name(node)
        if name is not None:
            edits = self._below(value, node, name, is_singly=is_singly)
        elif isinstance(node, ast.Call):
            edits = self._named(value, node, is_singly=is_singly)
        else:
            edits = self._beside(value, node)
        return edits or found.why_not_singly or self._around(node)

    def _below(self, value: Value, node: ast.expr, name: str, *, is_singly: bool) -> list[Edit] | None:
        """Statements below the one that gives the data set its name."""
        lines, imports = self._lines(value, node, name, is_singly=is_singly)
        return self._placed([*imports, Insert(self._module, self._module.statement(node), lines, "after")])

    def _named(self, value: Value, call: ast.Call, *, is_singly: bool) -> list[Edit] | None:
        """Statements before the one that makes a loader of a data set without a name, which get it one."""
        module, holder = self._module, self._module.parent(call)
        name = self._free(_names_of_data(purpose(module, call)), call)
        made = lifted(module, call, name) if name is not None else None
        is_given = isinstance(holder, (ast.Call, ast.keyword)) and can_stand_before(self._script.flow, module, call)
        if name is None or made is None or not is_given:
            return None
        lines, imports = self._lines(value, call, name, is_singly=is_singly)
        insert = Insert(module, module.statement(call), f"{made}\n{lines}" if lines else "", "before")
        return self._placed([*imports, insert, Replace(module, call, name, comments_go_along=True)])

    def _beside(self, value: Value, node: ast.expr) -> list[Edit] | None:
        """Images before the statement that makes a loader of a data set, which stays what it is for others."""
        module, data = self._module, ast.unparse(node)
        tall = self._at_once(value, node, data, f"{data}.transform")
        if tall is None or not can_stand_before(self._script.flow, module, node):
            return None
        images, tensors, imports = tall
        insert = Insert(module, module.statement(node), images, "before")
        return self._placed([*imports, insert, Replace(module, node, tensors)])

    def _around(self, node: ast.expr) -> list[Edit] | Reason:
        """Calls around the data set."""
        named = all_written(self._script, self._module, (_TENSORS, _COLLATE), node)
        if named is None:
            return Reason("no-name", "TensorDataset cannot be named where the data set is made")
        if not is_pythons_own(self._module, "list", node):
            return Reason("no-name", "list is not Python's own where the data set is made, which is to list its items")
        (tensors, collate), imports = named
        return [*imports, Surround(self._module, node, f"{tensors}(*{collate}(list(", ")))")]

    def _placed(self, edits: list[Edit]) -> list[Edit] | None:
        """The edits, where all of them can be carried out and one of them does something."""
        is_empty = any(isinstance(each, Insert) and not each.code for each in edits)
        return None if is_empty or any(map(problems.problem, edits)) else edits

    def _lines(self, value: Value, node: ast.expr, data: str, *, is_singly: bool) -> tuple[str, list[Edit]]:
        """Statements that make tensors of the data set of that name; none where they cannot be named.

        Args:
            value: The data set.
            node: What it is made by, or given to a loader as.
            data: Its name.
            is_singly: Whether its images may be transformed one by one.
        """
        tall = self._at_once(value, node, data, _transform(value, self._module.statement(node), data))
        if tall is not None:
            return f"{tall[0]}\n{data} = {tall[1]}", tall[2]
        named = all_written(self._script, self._module, (_TENSORS, _COLLATE), node)
        if named is None or not is_singly or not is_pythons_own(self._module, "list", node):
            return "", []
        (tensors, collate), imports = named
        return f"{data} = {tensors}(*{collate}(list({data})))  # decode once", imports

    def _at_once(self, value: Value, node: ast.expr, data: str, transform: str) -> tuple[str, str, list[Edit]] | None:
        """How all images of the data set of that name are transformed by a call, and what is made of them then."""
        how = as_tall_image(self._script.flow, value)
        if how is None:
            return None
        needed = [_TENSORS, *["torch.tensor"] * how.are_labels_listed]
        named = all_written(self._script, self._module, needed, node)
        images = self._free(_names_of_images(data), node) if named is not None else None
        if named is None or images is None:
            return None
        (tensors, *others), imports = named
        labels = f"{others[0]}({data}.targets)" if others else f"{data}.targets"
        call = (f"{images} = {transform}(", how.tall.format(data=data), f"){how.cut.format(data=data)}")
        fits = len(leading(self._module, self._module.statement(node))) + len("".join(call)) <= width(self._module)
        code = "".join(call) if fits else "{}\n    {}\n{}".format(*call)
        return f"# all images at once, as one tall image\n{code}", f"{tensors}({images}, {labels})", imports

    def _own_name(self, node: ast.expr) -> str | None:
        """The name that the data set is given, where no function reads it that may meet what it was before."""
        module, statement = self._module, self._module.statement(node)
        given = [target for target, value in assigned(statement) if value is node] if _is_one(statement) else []
        target = given[0] if given else None
        if not isinstance(target, ast.Name):
            return None
        here = module.function(statement)
        same = (each for each in module.nodes(ast.Name) if each.id == target.id and module.function(each) is not here)
        reading = [each for each in same if isinstance(each.ctx, ast.Load) and self._is_of(each, here)]
        return target.id if all(map(self._asks_for_length, reading)) else None

    def _is_of(self, name: ast.Name, scope: Callee | None) -> bool:
        """Whether a function reads the variable of a function around it, or of the module, by that name."""
        if scope is not None and name.id in declared_outer(scope):
            return True
        around = [each for each in self._module.ancestors(name) if isinstance(each, FUNCTIONS)]
        inner = around[: around.index(scope)] if scope in around else around
        is_seen = scope is None or scope in around
        return is_seen and not any(name.id in bound_names(each) for each in inner)

    def _asks_for_length(self, name: ast.Name) -> bool:
        """``len(data)``, which is the same before and after."""
        above = self._module.parent(name)
        called = self._script.flow.values(above.func) if isinstance(above, ast.Call) else ()
        return {each.name for each in called} == {"builtins.len"}

    def _free(self, names: Iterable[str], place: ast.expr) -> str | None:
        """The first of the names that nothing has there; it is taken from then on."""
        function = self._module.function(place)
        if isinstance(self._module.parent(self._module.statement(place)), ast.ClassDef):
            return None  # it would be an attribute of the class
        free = (each for each in names if each not in self._taken and (function, each) not in self._given)
        name = next(free, None)
        if name is not None:
            self._given.add((function, name))
        return name


def _is_one(statement: ast.stmt) -> TypeGuard[ast.Assign]:
    """Whether it gives what is on its right to one name, or to each of several what is its: ``a, b = 1, 2``."""
    names = [each.id for each in walk(statement) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
    return isinstance(statement, ast.Assign) and len(statement.targets) == 1 and len(set(names)) == len(names)


def _transform(value: Value, statement: ast.stmt, data: str) -> str:
    """How the transform of the data set is written below the statement that makes it."""
    given = given_transform(value.name, value.site) if isinstance(value.site, ast.Call) else None
    is_there = isinstance(given, ast.Name) and given.id not in bound_names(ast.Module([statement], []))
    return ast.unparse(given) if given is not None and is_there else f"{data}.transform"


def _names_of_images(data: str) -> Sequence[str]:
    """What a colleague would call the images of a data set of that name: ``train_images`` of ``train_set``."""
    ending = next((each for each in OF_DATA if data.endswith(each)), "")
    stem = data.removesuffix(ending).rstrip("_")
    return [f"{stem}_images" if stem else "images", f"{data}_images"]


def _names_of_data(loader: str) -> Sequence[str]:
    """What a colleague would call the data set of a loader of that name: ``train_set`` of ``train_loader``."""
    ending = next((each for each in _OF_LOADERS if loader.endswith(each)), "")
    stem = loader.removesuffix(ending).lstrip("_")
    if not stem.rstrip("_"):
        return ["dataset", "data_set"]
    return [f"{stem}{_OF_LOADERS[ending]}" if ending else f"{stem}_set", f"{stem.rstrip('_')}_dataset"]
