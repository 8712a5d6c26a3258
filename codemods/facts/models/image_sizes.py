"""Have all images that a model is given one size?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.recursion import closure
from codemods.dataflow.source import FUNCTIONS, walk
from codemods.dataflow.values import NONE, library_names, why_unknown, without_none
from codemods.facts.data.collation import has_one_size
from codemods.facts.loops import module_of
from codemods.facts.reason import HERE, Reason, at
from codemods.library.kinds import Kind, kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codemods.dataflow.values import Values
    from codemods.facts.models.layers import Model
    from codemods.facts.script import Script

_RESIZING = (".interpolate", ".functional.resize", ".functional.crop", ".functional.resized_crop")
_DIMENSIONS = 3
"""Indices that reach the rows and columns of images: ``x[..., top:bottom, left:right]`` at the least."""


def why_size_varies(script: Script, model: Model) -> Reason | None:
    """Why the images that the model is given may differ in size; None where they provably do not."""
    if model.takes_any_size:
        return Reason("size-not-fixed", "the model is made for images that differ in size")
    if not script.loaders:
        unknown = [why_unknown(each.sources) for each in script.transfers]
        text = min((each for each in unknown if each is not None), default="no DataLoader is seen")
        return Reason("size-not-fixed", text)
    feeding = [each for each in script.loaders if each.transfers or each.converted]
    for loader in feeding or script.loaders:
        reason = loader.unknown_arguments or loader.dataset.why_size_varies
        if reason is not None and has_one_size(script, loader):
            continue
        if reason is not None:
            return reason
        collate = loader.arguments.get("collate_fn")
        if collate is not None and collate.values != {NONE} and not _stacks(script, collate.values):
            text = f"the loader in {HERE} has a collate_fn of its own"
            return Reason("size-not-fixed", text, (at(loader.module, loader.call),))
    return _why_images_change(script)


def _why_images_change(script: Script) -> Reason | None:
    """Where batches get another size between the loader and the model."""
    for module in script.modules:
        for call in module.nodes(ast.Call):
            resizes = any(each.endswith(_RESIZING) for each in library_names(script.flow.values(call.func)))
            if resizes and not _in_model(script, call):
                return Reason("size-not-fixed", f"images are resized ({HERE})", (at(module, call),))
        for crop in module.nodes(ast.Subscript):
            if _cuts_to_a_computed_size(crop) and not _in_model(script, crop):
                return Reason("size-not-fixed", f"images are cropped ({HERE})", (at(module, crop),))
        for statement in module.nodes(ast.Assign):
            if any(isinstance(target, ast.Attribute) and target.attr == "transform" for target in statement.targets):
                owner = module.function(statement)
                if owner is None or getattr(owner, "name", "") != "__init__":
                    text = f"the transform of a data set is replaced ({HERE})"
                    return Reason("size-not-fixed", text, (at(module, statement),))
    return None


def _cuts_to_a_computed_size(node: ast.Subscript) -> bool:
    """Whether it may cut images, ``x[:, :, :size, :size]``, by bounds that are no plain numbers."""
    is_read = isinstance(node.ctx, ast.Load)
    if not is_read or not isinstance(node.slice, ast.Tuple) or len(node.slice.elts) < _DIMENSIONS:
        return False
    images = node.slice.elts[-2:]
    bounds = [each for part in images if isinstance(part, ast.Slice) for each in (part.lower, part.upper, part.step)]
    return any(each is not None and not isinstance(each, (ast.Constant, ast.UnaryOp)) for each in bounds)


def _stacks(script: Script, collates: Values) -> bool:
    """Whether each of the functions stacks images as they are, which have to be of one size for it."""
    return all(
        isinstance(each.site, FUNCTIONS)
        and any(
            callee.name == "torch.stack"
            for call in walk(each.site)
            if isinstance(call, ast.Call)
            for callee in script.flow.values(call.func)
        )
        for each in without_none(collates)
    )


def _in_model(script: Script, node: ast.AST) -> bool:
    """Whether the node runs in a method of a model and nowhere else, where sizes follow from the input's."""

    def around(each: ast.AST) -> Sequence[ast.Call]:
        function = module_of(script.flow, each).function(each)
        return script.flow.callers(function) if function is not None and not _in_class_of_model(script, each) else ()

    return all(_in_class_of_model(script, each) or around(each) for each in closure([node], around))


def _in_class_of_model(script: Script, node: ast.AST) -> bool:
    above = module_of(script.flow, node).ancestors(node)
    classes = [each for each in above if isinstance(each, ast.ClassDef)]
    return any(kind(script.flow, script.instance_of(each)) is Kind.MODEL for each in classes)
