"""Which models run a recurrent layer one step at a time, in a loop of Python's, and compute little else?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemods.dataflow.names import words
from codemods.dataflow.source import LOOPS, lasting, walk
from codemods.dataflow.values import Instance, Made, Unknown
from codemods.facts.cost.layer_calls import LayerCalls, repeated
from codemods.facts.models.layers import Model
from codemods.library.kinds import Kind, kind
from codemods.library.weights import multiplies_nothing

if TYPE_CHECKING:
    import ast

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.values import Value
    from codemods.facts.script import Script

_RECURRENT = frozenset(f"torch.nn.{name}{cell}" for name in ("RNN", "LSTM", "GRU") for cell in ("", "Cell"))
_OTHERS = frozenset(f"torch.nn.{name}" for name in words("Linear Sequential ModuleList"))
"""What such a model has beside them that multiplies, or holds layers: it runs once for each step, too, or for all."""
_LAYERS = {Kind.MODEL, Kind.LOSS}


@lasting  # each form of amp asks
def steps_by_hand(script: Script, model: Value) -> bool:
    """Whether each pass of a loop in its code runs a recurrent layer again, and no layer of it may be a large one.

    A convolution or attention beside it may be worth 16 bits, and so may be what is not known.
    """
    flow, calls = script.flow, LayerCalls(script)
    known = Model(flow, model)
    classes = [each.of.site for each in known.layers if isinstance(each, Instance)]
    if not all(isinstance(each, Instance) or _is_light(each) for each in known.layers):
        return False
    if any(_may_hold_more(flow, calls, each) for each in classes):
        return False
    loops = [each for method in known.forwards for each in walk(method) if isinstance(each, LOOPS)]
    return any(_is_stepped(flow, call) for loop in loops for call in repeated(loop))


def _is_light(layer: Value) -> bool:
    return layer.name in _RECURRENT | _OTHERS or multiplies_nothing(layer.name)


def _may_hold_more(flow: Flow, calls: LayerCalls, class_: ast.ClassDef) -> bool:
    """Whether an attribute of the class is not known, and may be a layer."""
    return any(
        any(isinstance(each, (Unknown, Made)) and kind(flow, each) not in _LAYERS for each in values)
        and calls.may_run(class_, name)
        for base in flow.project_bases(class_)
        for name, values in flow.attributes(base).items()
    )


def _is_stepped(flow: Flow, call: ast.Call) -> bool:
    """Whether a call runs a recurrent layer, or a model that has one."""
    return any(
        isinstance(layer, Made) and layer.name in _RECURRENT
        for value in flow.values(call.func)
        for layer in (Model(flow, value).layers if isinstance(value, Instance) else (value,))
    )
