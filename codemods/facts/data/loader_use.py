"""How the training uses a loader: is all seen that reads it, is it read in each epoch, do its batches go to CUDA?"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from codemods.dataflow.source import LOOPS, walk
from codemods.facts.data.loaders import ONLY_FIRST
from codemods.facts.data.reads import How
from codemods.facts.devices.devices import DeviceKind
from codemods.facts.loops import around, module_of, places_that_run, repeats
from codemods.facts.reaching import targets
from codemods.facts.reason import HERE, Reason, at

if TYPE_CHECKING:
    from codemods.facts.data.loaders import Loader
    from codemods.facts.data.reads import Pass
    from codemods.facts.script import Script


def why_reading_is_unknown(script: Script, loader: Loader) -> Reason | None:
    """Why it is not known how the loader is read; None where all that reads it is seen."""
    handed = next((each for each in loader.passes if each.how is How.HANDED), None)
    prepared = is_prepared(script, loader)
    if handed is not None and not prepared:
        text = f"{handed.reader}() reads it, in code that is not followed ({HERE})"
        return Reason("unknown-reading", text, (loader.at(handed.node),))
    if loader.passes and not prepared:
        return None
    if script.framework is not None:
        return Reason("framework", f"the training loop runs inside {script.framework}, which reads it itself")
    return Reason("unknown-reading", f"its batches are not read in {_files(script, loader)}")


def _files(script: Script, loader: Loader) -> str:
    """What was read, in words, and where some of it could not be read, why."""
    why = next(iter(script.whole.unreadable.values()), None)
    return loader.files if why is None else f"the files that can be read: {why}"


def why_one_batch(script: Script, loop: ast.AST) -> Reason | None:
    """Why a loop has one pass: its loaders have as many items in a batch as in all, ``batch_size=len(data)``."""
    read = [each for each in script.loaders if any(one.node is loop for one in each.passes)]
    if not read or not all(_has_one_batch(script, each) for each in read):
        return None
    places = tuple(each.at(each.call) for each in read)
    return Reason("nothing-to-gain", f"the loop has one pass, as one batch holds all items ({HERE})", places)


def _has_one_batch(script: Script, loader: Loader) -> bool:
    size, data = (loader.arguments.get(name) for name in ("batch_size", "dataset"))
    if size is None or data is None or not isinstance(data.node, ast.Name):
        return False
    match size.node:
        case ast.Call(func, [ast.Name(name) as measured], []) if name == data.node.id:
            is_length = {each.name for each in script.flow.values(func)} == {"builtins.len"}
            scope = loader.module.function(measured) or loader.module.tree
            return is_length and targets(scope).are_bound_alike(measured, data.node)
    return False


def is_prepared(script: Script, loader: Loader) -> bool:
    """Whether Accelerate's ``prepare()`` makes a loader with the same workers of it, to train with."""
    handed = [each for each in loader.passes if each.how is How.HANDED]
    is_known = all(each.reader.endswith(".prepare") for each in handed)
    return bool(handed) and script.is_accelerated and is_known


def why_not_in_epochs(script: Script, loader: Loader) -> Reason | None:
    """Why the loader is not known to be read more than once, from the start to the end; None where it is."""
    whole = [each for each in loader.passes if each.how is not How.FIRST]
    if any(_is_in_loop(script, loader, each) for each in whole):
        return None
    if script.framework is not None and not loader.passes:
        remedy = "give it persistent_workers=True if it reads it in each epoch"
        return Reason("framework", f"{script.framework} reads it:", remedy=remedy)
    unknown = why_reading_is_unknown(script, loader)
    if unknown is not None:
        return unknown
    if not whole:
        return ONLY_FIRST
    place = at(whole[0].module, whole[0].module.statement(whole[0].node))
    functions = [function for each in whole if (function := each.module.function(each.node)) is not None]
    runs_again = any(len(list(places_that_run(script.flow, each))) > 1 for each in functions)
    if len(whole) > 1 or runs_again:
        text = f"no loop over epochs reads it, so that its workers are started few times ({HERE})"
        return Reason("read-once", text, (place,))
    return Reason("read-once", f"it is not seen to be read more than once ({HERE})", (place,))


def _is_in_loop(script: Script, loader: Loader, read: Pass) -> bool:
    """Whether a loop runs the reading of the loader that may be reached once it is made."""
    return any(
        isinstance(above, LOOPS)
        and repeats(above, below)
        and not _is_left_before(loader, above)
        and script.may_run(module_of(script.flow, above), above)
        for above, below in around(script.flow, read.module, read.node, given=loader.value)
    )


def _is_left_before(loader: Loader, loop: ast.AST) -> bool:
    """Whether the function that makes the loader returns before the loop: ``if test_only: …; return``."""
    module, made = loader.module, loader.call
    function = module.function(made)
    if function is None or not module.holds(loop) or module.function(loop) is not function:
        return False
    below: ast.AST = made
    for above in module.ancestors(made):
        if above is function or above is loop:
            return False
        if isinstance(above, ast.If) and below is not above.test:
            suite = above.body if below in above.body else above.orelse
            if isinstance(suite[-1], (ast.Return, ast.Raise)):
                return not any(loop is each for one in suite for each in walk(one))
        below = above
    return False


def with_all_moves(loader: Loader) -> Loader:
    """The loader with the moves of what is made from its batches among its own: to workers they are the same."""
    return replace(loader, transfers=(*loader.transfers, *loader.converted))


def why_not_cuda(script: Script, loader: Loader) -> Reason | None:
    """Why its batches are not known to go to CUDA, where alone workers are sure to bring something."""
    moves = with_all_moves(loader).transfers
    if any(each.may_reach_cuda for each in moves):
        return None
    if not moves and is_prepared(script, loader):
        return None
    if script.framework is not None and not moves:
        remedy = "give it num_workers if it moves them to a GPU"
        return Reason("framework", f"{script.framework} moves its batches:", remedy=remedy)
    if not moves:
        loss = "workers would take cores from training on the CPU"
        return Reason("batches-not-moved", f"its batches are not moved to a device in {_files(script, loader)}: {loss}")
    if all(each.device.kind is DeviceKind.CPU for each in moves):
        return Reason("no-cuda", "its batches stay on the CPU: workers would take cores from the training")
    unknown = sorted(each.device.reason for each in moves if each.device.kind is DeviceKind.UNKNOWN)
    if unknown:
        return Reason("unknown-device", f"the device its batches are moved to is not known: {unknown[0]}")
    return Reason("other-accelerator", "its batches are moved to another accelerator than CUDA")
