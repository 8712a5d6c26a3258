"""Does the script ask for runs that repeat each other, whatever is compiled, or only under an option of the user's?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import argument_of
from codemods.dataflow.source import walk
from codemods.dataflow.values import Choice
from codemods.facts.devices.cuda_condition import can_be_said
from codemods.facts.devices.cudnn import off_by_default
from codemods.facts.loops import module_of
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.options import asks_options, said
from codemods.facts.workers.arguments import namespace

if TYPE_CHECKING:
    from codemods.dataflow.source import Module
    from codemods.facts.script import Script

_KEEPS_TO_IT = "torch.use_deterministic_algorithms"


def why_runs_differ(script: Script, module: Module, place: ast.stmt | None) -> Reason | None:
    """Why a model is not to be compiled at a place: the script asks for runs that repeat each other.

    Inductor chooses among kernels that round differently by timing them, and may choose otherwise in the next run,
    unless ``torch.use_deterministic_algorithms(True)`` forbids it.
    """
    if not _is_broken(script) or (place is not None and unless_asked(script, module, place) is not None):
        return None
    where, node = script.determinisms[0]
    text_of_place, places = (HERE, (at(where, node),)) if where is script.module else (where.path, ())
    text = (
        f"determinism requested ({text_of_place}): without {_KEEPS_TO_IT}(True), kernels are chosen by "
        "timing them, and runs differ"
    )
    return Reason("determinism", text, places, f"call {_KEEPS_TO_IT}(True)")


def unless_asked(script: Script, module: Module, place: ast.stmt) -> str | None:
    """What holds where no option asks for such runs, as the place can say it.

    None where they are asked for without an option, or not at all, and where the place cannot say it.
    """
    if not _is_broken(script):
        return None
    choices = {off_by_default(script, where, node) for where, node in script.determinisms}
    if None in choices:
        return None
    tests = [_otherwise(script, each.test, module, place) for each in choices if each is not None]
    return None if None in tests else " and ".join(sorted({each for each in tests if each is not None}))


def _is_broken(script: Script) -> bool:
    """Whether it is asked for, and Inductor may not keep to it."""
    calls = (call for module in script.modules for call in script.flow.calls_of(module, {_KEEPS_TO_IT}))
    return script.determinism is not None and all(map(_is_switched_off, calls))


def _is_switched_off(call: ast.Call) -> bool:
    mode = argument_of(call, "mode", 0)
    return isinstance(mode, ast.Constant) and not mode.value


def _otherwise(script: Script, test: ast.expr, module: Module, place: ast.stmt) -> str | None:
    """The opposite of the test of an option, as the place can say it: ``args.seed is None``."""
    where = module_of(script.flow, test)
    text = said(where, test, holds=False)
    if text is None or not asks_options(script, test):
        return None
    read = [each for each in walk(test) if isinstance(each, ast.Attribute)]
    if not all(_is_only_given(script, each) for each in read):
        return None
    if where is module and can_be_said(script.flow, module, test, place):
        return text
    # In another function the options may have another name, or be another variable of the same name.
    there = namespace(script, module, place)
    if there is None or len(read) != 1:
        return None
    return text.replace(where.code(read[0]), f"{there}.{read[0].attr}")


def _is_only_given(script: Script, option: ast.Attribute) -> bool:
    """Whether the script itself never writes what the user has given."""
    values = script.flow.values(option)
    is_option = len(values) == 1 and all(isinstance(each, Choice) for each in values)
    return is_option and not any(
        each.attr == option.attr and not isinstance(each.ctx, ast.Load)
        for module in script.modules
        for each in module.nodes(ast.Attribute)
    )
