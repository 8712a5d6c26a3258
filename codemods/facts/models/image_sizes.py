"""Have all images that a model is given one size?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.recursion import closure
from codemods.dataflow.signatures import argument_of
from codemods.dataflow.source import FUNCTIONS, walk
from codemods.dataflow.values import NONE, Literal, library_names, why_unknown, without_none
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
_INTERPOLATING = frozenset({"torch.nn.functional.interpolate"})
_RESIZING_TO = frozenset({"torchvision.transforms.functional.resize"})
_DIMENSIONS = 3
"""Indices that reach the rows and columns of images: ``x[..., top:bottom, left:right]`` at the least."""


def why_size_varies(script: Script, model: Model, *, few_will_do: bool = False) -> Reason | None:
    """Why the images that the model is given may differ in size; None where they provably do not.

    Args:
        script: The script.
        model: The model.
        few_will_do: Whether a few sizes are as good as one, where images are resized by constants in some places.
    """
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
    return _why_images_change(script, few_will_do=few_will_do)


def _why_images_change(script: Script, *, few_will_do: bool) -> Reason | None:
    """Where batches get another size between the loader and the model."""
    for module in script.modules:
        for call in module.nodes(ast.Call):
            resizes = any(each.endswith(_RESIZING) for each in library_names(script.flow.values(call.func)))
            is_fixed = resizes and few_will_do and _resizes_to_fixed_size(script, call)
            if resizes and not is_fixed and not _in_model(script, call):
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


def _resizes_to_fixed_size(script: Script, call: ast.Call) -> bool:
    """Whether it makes one size of images of one size: ``interpolate(x, scale_factor=4)``, ``resize(x, (64, 64))``.

    What a loop halves or doubles again and again has few sizes: it is a single row soon, or does not fit into memory.
    """
    names = library_names(script.flow.values(call.func))
    size = argument_of(call, "size", 1)
    if names <= _INTERPOLATING and names:
        factor = argument_of(call, "scale_factor", 2)
        given = factor if size is None or (isinstance(size, ast.Constant) and size.value is None) else size
        return given is not None and _is_fixed(script, given)
    return names <= _RESIZING_TO and bool(names) and isinstance(size, (ast.Tuple, ast.List)) and _is_fixed(script, size)


def _is_fixed(script: Script, node: ast.expr) -> bool:
    """Whether it is one number, or a tuple or list of such, said in place or by a name that always holds it."""
    if isinstance(node, (ast.Tuple, ast.List)):
        return all(_is_fixed(script, each) for each in node.elts)
    if isinstance(node, ast.Constant):
        return type(node.value) in {int, float}
    values = script.flow.values(node)
    return len(values) == 1 and all(isinstance(each, Literal) and type(each.value) in {int, float} for each in values)


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
