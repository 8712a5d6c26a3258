"""How many dimensions the tensors of an attention have: torch's fused kernels take four, or else fall back."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.facts.models.applied import applied
from codemods.facts.models.least_dimensions import least_dimensions
from codemods.facts.models.local_shapes import Shapes
from codemods.facts.reason import HERE, Reason, at

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.models.attention import Attention
    from codemods.facts.models.attention_scores import Mask
    from codemods.facts.models.local_shapes import Shape

FUSED = 4
"""Batch, heads, length and width: ``check_tensor_shapes`` of ATen's sdp_utils. Of others torch computes all scores, as
the script does, but in 32 bits under autocast; of three dimensions it does so up to torch 2.14."""
WITHOUT_HEADS = 3
_MATRIX = 2
_TAKEN = "and the fused kernels take four: (batch, heads, length, width)"


def dimensions(flow: Flow, attention: Attention) -> int | None:
    """How many dimensions queries, keys, values have; None where it is not known, or not one number.

    That it is four follows from one of them: the others are broadcast alike by hand and by torch. Less than that has
    to be known of each, since the dimension of heads is put into each.
    """
    return _common(_counts(flow, attention))


def _common(counts: list[int | None]) -> int | None:
    known = {each for each in counts if each is not None}
    (count,) = known if len(known) == 1 else (None,)
    return count if count == FUSED or None not in counts else None


def _counts(flow: Flow, attention: Attention) -> list[int | None]:
    """How many dimensions queries, keys and values have, each."""
    scores, shapes = attention.scores, Shapes(flow)
    told = scores.dimensions if scores.are_told else None
    return [
        _count(shapes.of(attention.module, scores.query.node), told),
        _count(shapes.of(attention.module, scores.key.node), told),
        _count(shapes.of(attention.module, attention.value.node), _told(flow, attention.output)),
    ]


def _count(shape: Shape | None, told: int | None) -> int | None:
    return told if shape is None else len(shape)


def _told(flow: Flow, product: ast.expr) -> int | None:
    """How many dimensions the operator takes by which weights and values are multiplied, where it takes no others."""
    call = applied(flow, product)
    if call is not None and call.name == "einsum" and isinstance(call.tensor, ast.Constant):
        result = str(call.tensor.value).replace(" ", "").partition("->")[2]
        return None if "." in result else len(result)
    return WITHOUT_HEADS if call is not None and call.name == "bmm" else None


def why_not_taken(flow: Flow, attention: Attention) -> Reason | None:
    """Why the fused kernels do not take the tensors, so that nothing is gained."""
    module, scores = attention.module, attention.scores
    counts = _counts(flow, attention)
    count = _common(counts)
    where = (at(module, scores.query.node),)
    if len(set(counts) - {None}) > 1:
        text = f"queries, keys and values do not all have as many dimensions ({HERE}), {_TAKEN}"
        return Reason("other-dimensions", text, where)
    if count is None:
        text = f"how many dimensions the queries have is not known ({HERE}), {_TAKEN}:"
        named = next((each.node.id for each in (scores.query, scores.key) if isinstance(each.node, ast.Name)), None)
        remedy = f"write B, H, T, D = {named or 'q'}.shape before it if there are four"
        remedy += "" if named is not None else ", with q for the queries"
        return Reason("other-dimensions", text, where, remedy)
    if count not in {WITHOUT_HEADS, FUSED}:
        return Reason("other-dimensions", f"the queries have {count} dimensions ({HERE}), {_TAKEN}", where)
    mask = next((each for each in scores.masks if not attention.is_causal), None)
    if mask is not None and count == WITHOUT_HEADS and mask_dimensions(flow, attention) not in {_MATRIX, WITHOUT_HEADS}:
        text = f"the queries have three dimensions, the mask is not seen to have two or three ({HERE}), {_TAKEN}"
        return Reason("other-dimensions", text, (at(module, mask.node),))
    return None if mask is None else _why_mask_not_taken(flow, module, mask)


def _why_mask_not_taken(flow: Flow, module: Module, mask: Mask) -> Reason | None:
    """Why the fused function may raise an error for a mask, which the script broadcasts whatever dimensions it has."""
    if least_dimensions(flow, module, mask.node) >= _MATRIX:
        return None
    text = f"the mask is not seen to have two dimensions or more ({HERE}), and the fused function takes no fewer:"
    name = _named(mask.node)
    if name is None:
        remedy = "give it a name above the scores, and write assert mask.dim() > 1 there if it has"
    else:
        optional = f"{name} is None or " if mask.condition is not None else ""
        remedy = f"write assert {optional}{name}.dim() > 1 above the scores if it has"
    return Reason("unknown-mask", text, (at(module, mask.node),), remedy)


def _named(node: ast.expr) -> str | None:
    """The name of the mask in ``mask == 0``, ``~mask``, ``mask.bool()``."""
    match node:
        case ast.Name(name):
            return name
        case (
            ast.Compare(inner)
            | ast.UnaryOp(_, inner)
            | ast.Call(ast.Attribute(ast.Name() as inner))
            | ast.Call(ast.Attribute(ast.Compare() as inner))
        ):
            return _named(inner)
    return None


def mask_dimensions(flow: Flow, attention: Attention) -> int | None:
    """How many dimensions the one mask has; None where it is not known."""
    shape = Shapes(flow).of(attention.module, attention.scores.masks[0].node)
    return len(shape) if shape is not None else None
