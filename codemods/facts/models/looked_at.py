"""Where does a script look at a model before it trains it: at its layers, its operations, its graph?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import unparsed, walk
from codemods.facts.models.preparation import can_be_asked
from codemods.facts.models.trained import is_given, tracings, training_calls
from codemods.library.diagnostics import RUNS_A_MODEL

if TYPE_CHECKING:
    from codemods.facts.models.placement import Home
    from codemods.facts.models.trained import TrainedModel
    from codemods.facts.script import Script


def last_look(script: Script, trained: TrainedModel, home: Home) -> ast.stmt | None:
    """The last statement beside the home that runs the model only to describe it; None where there is none.

    It hangs hooks on layers, or traces them, and gives the model one image, for which it would be compiled first.
    """
    module, name, found = home.module, unparsed(home.name), None
    looks = {*script.flow.calls_of(module, RUNS_A_MODEL), *tracings(script.flow, module)}
    trains = {*training_calls(script.flow, module, trained)}
    suite = module.suite(home.anchor)
    for statement in suite[suite.index(home.anchor) + 1 :]:
        inside = list(walk(statement))
        is_bound = any(isinstance(getattr(each, "ctx", None), ast.Store) and unparsed(each) == name for each in inside)
        if is_bound or not trains.isdisjoint(inside):
            break
        seen = (each for each in inside if isinstance(each, ast.Call) and each in looks)
        if any(is_given(script.flow, argument, trained) for call in seen for argument in arguments_of(call)):
            found = statement
    return found if found is not None and can_be_asked(script, home, found) else None
