"""Which models score each word of a vocabulary, of which number, and by which layer?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.signatures import argument_of
from codemods.dataflow.values import Made
from codemods.facts.cost.constants import Constants

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.values import Value
    from codemods.facts.models.trained import TrainedModel
    from codemods.facts.script import Script

_EMBEDDING, _LINEAR = "torch.nn.Embedding", "torch.nn.Linear"


class Vocabulary(NamedTuple):
    """A vocabulary that a model embeds, and whose words its output layer scores."""

    model: TrainedModel
    output: ast.Call
    """Where the layer is made that scores the words."""
    size: int


def vocabularies(script: Script) -> Iterator[Vocabulary]:
    """Those of the models that training iterations call, by output layers that the module makes, each once."""
    constants = Constants(script)
    seen: set[ast.AST] = set()
    for trained in script.trained_models:
        layers = trained.model.layers
        if not {_EMBEDDING, _LINEAR} <= {each.name for each in layers}:
            continue
        embedded = {_number(constants, each, "num_embeddings", 0) for each in layers if each.name == _EMBEDDING}
        for layer in layers:
            call = layer.site
            is_here = isinstance(call, ast.Call) and script.module.holds(call) and call not in seen
            size = _number(constants, layer, "out_features", 1) if layer.name == _LINEAR and is_here else None
            if size is not None and size in embedded and isinstance(call, ast.Call):
                seen.add(call)
                yield Vocabulary(trained, call, size)


def _number(constants: Constants, layer: Value, name: str, position: int) -> int | None:
    """A size that a layer is given, where it is known."""
    if not isinstance(layer, Made) or not isinstance(layer.site, ast.Call):
        return None
    return constants.number(argument_of(layer.site, name, position))
