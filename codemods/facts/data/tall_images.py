"""Which data sets can be transformed by one call, all of their images as one tall image, and which are the result?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import walk
from codemods.dataflow.values import Made
from codemods.facts.data.bindings import set_before
from codemods.facts.data.datasets import Dataset, given_transform
from codemods.facts.loops import module_of
from codemods.library.datasets import held
from codemods.library.kinds import is_dtype
from codemods.library.transforms import changes_each_pixel

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value, Values
    from codemods.library.datasets import Held


def as_tall_image(flow: Flow, value: Value) -> Held | None:
    """How the images of a data set are transformed by one call; None where that may make other numbers."""
    steps = Dataset(flow, frozenset({value})).transforms
    is_same = bool(steps) and all(isinstance(each, Made) and changes_each_pixel(each.name) for each in steps or ())
    return held(value.name) if is_same else None


def cut_from(flow: Flow, value: Value) -> Values | None:
    """The data set whose images and labels are the rows of a ``TensorDataset``; None where they are not made so.

    That is ``TensorDataset(images, data.targets)`` where ``images`` are what ``as_tall_image`` says.
    """
    match value.site:
        case ast.Call(_, [images, labels], []):
            images, labels = unmoved(flow, images), unmoved(flow, labels)
            made = _definition(module_of(flow, images), images)
        case _:
            return None
    is_list = isinstance(labels, ast.Call)
    if isinstance(labels, ast.Call):
        if {each.name for each in flow.values(labels.func)} != {"torch.tensor"} or len(labels.args) != 1:
            return None
        (labels,) = labels.args
    match labels:
        case ast.Attribute(data, "targets") if made is not None and flow.values(data):
            values = flow.values(data)
            return values if all(_is_cut(flow, each, made, data, is_list=is_list) for each in values) else None
    return None


def unmoved(flow: Flow, tensor: ast.expr) -> ast.expr:
    """``x`` of ``x.to(device)`` and of ``x.cuda()``; else the expression itself, as with ``x.to(torch.float64)``."""
    match tensor:
        case ast.Call(ast.Attribute(value, "cuda")):
            return value
        case ast.Call(ast.Attribute(value, "to"), [target, *_]):
            formats = flow.values(target)
            return tensor if formats and all(is_dtype(each) for each in formats) else value
    return tensor


def _definition(module: Module, images: ast.expr) -> ast.expr | None:
    """The expression that is given to a name: the only one, or that of the last statement before."""
    if not isinstance(images, ast.Name):
        return images
    before = set_before(module, images)
    if before is not None:
        return before
    stores = [each for each in module.stores.get(images.id, ()) if module.function(each) is module.function(images)]
    found = [each.value for each in module.assignments(images)]
    return found[0] if len(found) == len(stores) == 1 else None


def _is_cut(flow: Flow, value: Value, images: ast.expr, data: ast.expr, *, is_list: bool) -> bool:
    """Whether these are the images of a data set, as ``as_tall_image`` says."""
    known = as_tall_image(flow, value)
    if known is None or known.are_labels_listed is not is_list:
        return False
    name, text = ast.unparse(data), ast.unparse(images)
    calls = [each.func for each in walk(images) if isinstance(each, ast.Call)]
    return any(
        text == f"{ast.unparse(each)}({known.tall.format(data=name)}){known.cut.format(data=name)}"
        and _is_its_transform(flow, value, each, name)
        for each in calls
    )


def _is_its_transform(flow: Flow, value: Value, node: ast.expr, data: str) -> bool:
    given = given_transform(value.name, value.site) if isinstance(value.site, ast.Call) else None
    is_same = given is not None and flow.values(node) == flow.values(given)
    return is_same or ast.unparse(node) == f"{data}.transform"
