"""Which transformers return zeros for padding where no gradients are computed, and other numbers where they are?

``nn.TransformerEncoder`` drops padded positions in its inference path, and fills them with zeros again. A mean or
maximum over all positions is another one then. The path needs ``batch_first=True``, and ``enable_nested_tensor=False``
switches it off.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import argument_of
from codemods.dataflow.values import Made
from codemods.facts.reach import own
from codemods.facts.reason import HERE, Reason, at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.reach import Reach

_ENCODER, _LAYER, _TRANSFORMER = (
    f"torch.nn.{name}" for name in ("TransformerEncoder", "TransformerEncoderLayer", "Transformer")
)
_PADDING = {_ENCODER: 2, _TRANSFORMER: 5}
"""The position of ``src_key_padding_mask`` in a call of the model."""
_BATCH_FIRST = {_LAYER: 6, _TRANSFORMER: 10}
_NORM_FIRST = {_LAYER: 7, _TRANSFORMER: 11}


def why_padding_filled(reach: Reach, module: Module, calls: Iterable[ast.Call]) -> Reason | None:
    """Why calls of a module would return something else without gradients: they run such a transformer with padding."""
    flow = reach.flow
    if not any("Transformer" in each.text for each in flow.modules):
        return None
    for where, node in reach.code(module, calls):
        for call in own(node, ast.Call):
            for model in flow.values(call.func):
                if isinstance(model, Made) and _drops_padding(flow, call, model):
                    remedy = "make it with enable_nested_tensor=False" if model.name == _ENCODER else ""
                    text = f"without gradients {model.name} returns zeros for padding ({HERE}){':' if remedy else ''}"
                    return Reason("other-result", text, (at(where, call),), remedy)
    return None


def _drops_padding(flow: Flow, call: ast.Call, model: Made) -> bool:
    if model.name not in _PADDING or not _is_given(call, "src_key_padding_mask", _PADDING[model.name]):
        return False
    made = model.site
    if not isinstance(made, ast.Call):
        return True
    if model.name == _TRANSFORMER:
        return _is_nested(made, _TRANSFORMER)
    nested = argument_of(made, "enable_nested_tensor", 3)
    if _is_constant(nested, value=False):
        return False
    return any(_is_nested(layer, _LAYER) for layer in _layers(flow, made))


def _layers(flow: Flow, made: ast.Call) -> Iterator[ast.Call | None]:
    """What may make the layer that an encoder has copies of; None where it is not known, or another class."""
    given = argument_of(made, "encoder_layer", 0)
    values = frozenset() if given is None else flow.values(given)
    if not values:
        yield None
    for each in values:
        is_made = isinstance(each, Made) and each.name == _LAYER and isinstance(each.site, ast.Call)
        yield each.site if is_made else None  # type: ignore[misc]


def _is_nested(made: ast.Call | None, name: str) -> bool:
    """Whether a layer made by the call may take part in the inference path that drops padding."""
    if made is None:
        return True
    if any(isinstance(each, ast.Starred) for each in made.args) or any(each.arg is None for each in made.keywords):
        return True
    batch_first = argument_of(made, "batch_first", _BATCH_FIRST[name])
    norm_first = argument_of(made, "norm_first", _NORM_FIRST[name])
    return (
        batch_first is not None
        and not _is_constant(batch_first, value=False)
        and not _is_constant(norm_first, value=True)
    )


def _is_given(call: ast.Call, name: str, position: int) -> bool:
    """Whether an argument is given, or may be, and is not None."""
    if any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg is None for each in call.keywords):
        return True
    given = argument_of(call, name, position)
    return given is not None and not _is_constant(given, value=None)


def _is_constant(node: ast.expr | None, *, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value
