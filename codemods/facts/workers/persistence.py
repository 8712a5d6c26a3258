"""Whether the workers of a loader can stay alive from one epoch to the next, and what that does to random draws."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import LOOPS, is_name, walk
from codemods.dataflow.values import NONE, Container, Instance, Literal
from codemods.facts.data.reading_order import is_before_reading, is_between_batches, ways
from codemods.facts.data.reads import How, generator_of, loop_over, tops
from codemods.facts.loops import around, loop_around, module_of, places_that_run, repeats
from codemods.facts.reason import HERE, Reason
from codemods.facts.workers.changes import why_changed
from codemods.facts.workers.ingredients import changes_of_ingredients
from codemods.facts.workers.obstacles import why_unknown
from codemods.facts.workers.shared_state import changes_data_set
from codemods.library.drawing import call_draws, layer_draws
from codemods.library.kinds import Kind, kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Value
    from codemods.facts.data.loaders import Loader
    from codemods.facts.data.reads import Pass
    from codemods.facts.script import Script
    from codemods.facts.workers.payload import WorkerCode

_MOST_TOGETHER = 3
"""Loaders whose workers may well stay alive at once: for training, validation and test."""


def why_workers_end(script: Script, code: WorkerCode) -> Reason | None:
    """Why the loader's workers should not outlive an epoch; None where they can."""
    flow, loader = script.flow, code.loader
    seeding = loader.arguments.get("worker_init_fn")
    if seeding is not None and seeding.values != {NONE}:
        text = "its worker_init_fn runs when a worker starts, which would be once instead of once an epoch"
        return Reason("own-worker-init", text)
    return (
        _why_made_again(flow, loader)
        or _why_changed_outside(code)
        or why_unknown(code)
        or why_changed(code, stay=True)
        or _why_at_once(flow, loader)
    )


def _why_made_again(flow: Flow, loader: Loader) -> Reason | None:
    """Where the loader is made anew for each epoch, or so many are made that the workers of all would be too many.

    One that a loop makes, over splits, folds or runs, may be read in each of the epochs of a pass of that loop.
    """
    loops = _loops_that_make(flow, loader)
    if is_made_for_each_reading(flow, loader):
        return Reason("made-in-loop", f"it is made anew in each pass of a loop ({HERE})", (loader.at(loops[0]),))
    is_replaced = _is_named_anew(flow, loader.module, loader.call)
    within = [each for each in loader.module.ancestors(loader.call) if isinstance(each, _COMPREHENSIONS)]
    several = [*(each.generators[0].iter for each in within), *([] if is_replaced else map(_iterated, loops))]
    if all(each is not None and _are_few(flow, each) for each in several):
        return None
    text = f"one is made for each item of a list, and the workers of all would stay ({HERE})"
    return Reason("made-in-loop", text, (loader.at(loader.call),))


def is_made_for_each_reading(flow: Flow, loader: Loader) -> bool:
    """Whether loops make the loader anew, and no other loop reads it again."""
    loops = _loops_that_make(flow, loader)
    return bool(loops) and not any(_is_read_again(flow, each, loops, loader) for each in loader.passes)


def _loops_that_make(flow: Flow, loader: Loader) -> list[ast.AST]:
    """The loops that make the loader anew in each pass, from the inside out."""
    return [each for each in _repeating(flow, loader.module, loader.call) if not isinstance(each, _COMPREHENSIONS)]


def _is_named_anew(flow: Flow, module: Module, node: ast.AST, seen: frozenset[ast.AST] = frozenset()) -> bool:
    """Whether names alone refer to what the node makes, which refer to the next one in the next pass of a loop."""
    above = module.parent(node)
    if isinstance(above, ast.Tuple):
        above = module.parent(above)
    if isinstance(above, ast.Assign):
        parts = (part for each in above.targets for part in getattr(each, "elts", (each,)))
        return all(isinstance(each, ast.Name) for each in parts)
    function = module.function(node)
    if not isinstance(above, ast.Return) or function is None or function in seen:
        return False
    callers = flow.callers(function)
    return bool(callers) and all(
        _is_named_anew(flow, module_of(flow, each), each, seen | {function}) for each in callers
    )


_COMPREHENSIONS = (ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp)


def _repeating(flow: Flow, module: Module, node: ast.AST, given: Value | None = None) -> list[ast.AST]:
    """The loops that run the node more than once, from the inside out."""
    return [
        above
        for above, below in around(flow, module, node, given=given)
        if repeats(above, below) and not is_once(above, below)
    ]


def is_once(loop: ast.AST, statement: ast.AST) -> bool:
    """Whether the statement of a loop runs in one pass alone: ``if epoch > 5 and not done: …; done = True``."""
    if not isinstance(statement, ast.If) or statement not in getattr(loop, "body", ()):
        return False
    test = statement.test
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    flags = {
        part.operand.id
        for part in parts
        if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not) and isinstance(part.operand, ast.Name)
    }
    ended = {
        target.id
        for each in statement.body
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant) and each.value.value is True
        for target in each.targets
        if isinstance(target, ast.Name)
    }
    return any(_stores(loop, each) == 1 for each in flags & ended)


def _stores(loop: ast.AST, name: str) -> int:
    """How often the loop gives the name a value."""
    return sum(is_name(each, name) and isinstance(each.ctx, ast.Store) for each in walk(loop))


def _is_read_again(flow: Flow, reading: Pass, loops: Sequence[ast.AST], loader: Loader) -> bool:
    """Whether a loop that does not make the loader anew runs the reading again."""
    return any(each not in loops for each in _repeating(flow, reading.module, reading.node, loader.value))


def _iterated(loop: ast.AST) -> ast.expr | None:
    """What the loop goes over; None of one that has no end in sight."""
    return getattr(loop, "iter", None)


def _are_few(flow: Flow, items: ast.expr) -> bool:
    """Whether these are no more than training, validation and test: ``["train", "val"]``, ``data_sets.items()``."""
    if isinstance(items, ast.Call) and isinstance(items.func, ast.Attribute) and items.func.attr in _OF_DICTIONARIES:
        items = items.func.value
    if isinstance(items, ast.Call) and [each.name for each in flow.values(items.func)] == ["builtins.range"]:
        (number, *others) = [each.value if isinstance(each, ast.Constant) else None for each in items.args] or [None]
        return not others and isinstance(number, int) and number <= _MOST_TOGETHER
    found = flow.values(items)
    keys = [flow.keys(each) for each in found if isinstance(each, Container)]
    return len(keys) == len(found) > 0 and all(len(each) <= _MOST_TOGETHER and None not in each for each in keys)


_OF_DICTIONARIES = frozenset({"items", "keys", "values"})


def _why_changed_outside(code: WorkerCode) -> Reason | None:
    """Where the script changes what workers have again and again: ``train_set.set_epoch(epoch)``.

    What it does in the loops that make the loader, too, is done before there are workers.
    """
    flow, loader = code.flow, code.loader
    making = _loops(flow, loader.module, loader.call)
    reading = frozenset(loop for each in loader.passes for loop in _loops(flow, each.module, each.node))
    for what, module, node in changes_of_ingredients(code):
        loops = _loops(flow, module, node) - making
        is_repeated = bool(loops & reading) or (
            bool(loops) and changes_data_set(code, node) and not is_before_reading(flow, loader, module, node)
        )
        is_between = _is_between(flow, loader, module, node)
        if is_repeated or is_between or is_between_batches(flow, loader, module, node):
            text = f"{what} changes between epochs, and workers that stay keep the first copy ({HERE})"
            return Reason("dataset-changes", text, (loader.at(node),))
    return None


def _loops(flow: Flow, module: Module, node: ast.AST) -> frozenset[ast.AST]:
    return frozenset(above for above, _ in around(flow, module, node) if isinstance(above, LOOPS))


def _is_between(
    flow: Flow, loader: Loader, module: Module, node: ast.AST, seen: frozenset[ast.AST] = frozenset()
) -> bool:
    """Whether the node runs after one reading and before another: ``fit(loader); data.size = 64; fit(loader)``."""
    scope = module.function(node)
    found = (way for each in loader.passes for way in ways(flow, each.module, each.node, module, scope, loader.value))
    lines = [getattr(each, "lineno", 0) for each in found]
    if lines and min(lines) < getattr(node, "lineno", 0) < max(lines):
        return True
    if scope is None or scope in seen:
        return False
    places = [(module_of(flow, each), each) for each in places_that_run(flow, scope)]
    return any(_is_between(flow, loader, where, each, seen | {scope}) for where, each in places)


def _why_at_once(flow: Flow, loader: Loader) -> Reason | None:
    """Where two readings of the loader may run at once: its workers serve one."""
    found = loader.passes
    nodes = [each.node for each in found]
    one = "and workers that stay serve one reading at a time"
    for each in found:
        if each.how is How.HANDED:
            text = f"{each.reader}() reads it, in code that is not followed ({HERE})"
            return Reason("unknown-reading", text, (loader.at(each.node),))
        outside = around(flow, each.module, each.node, given=loader.value)
        if nodes.count(each.node) > 1 or any(outer in nodes for outer, _ in outside):
            return Reason("read-at-once", f"it is read twice at once, {one} ({HERE})", (loader.at(each.node),))
    found = tuple(each for each in found if not _is_over(flow, each, found))
    kept = next((each for each in found if each.how is How.ITERATOR or generator_of(each) is not None), None)
    if kept is not None and not _is_replaced(flow, found) and not _is_one_generator(flow, found):
        other = next((each for each in found if each is not kept), None)
        if kept.how is not How.ITERATOR and other is not None:
            text = (
                f"a generator reads it ({HERE}), which may wait in an epoch while it is read elsewhere ({HERE}), {one}"
            )
            return Reason("read-at-once", text, (loader.at(kept.node), loader.at(other.node)))
        text = f"it is read through an iterator that is kept, {one} ({HERE})"
        return Reason("read-at-once", text, (loader.at(kept.node),))
    return None


def _is_over(flow: Flow, reading: Pass, found: Sequence[Pass]) -> bool:
    """Whether it is an iterator that is used for the last time before another reading starts.

    ``batches = iter(loader); images, labels = next(batches)``, to look at some images before the training.
    """
    module, node = reading.module, reading.node
    if reading.how is not How.ITERATOR or loop_around(flow, module, node) is not None:
        return False
    names = [each for each in module.nodes(ast.Name) if isinstance(each.ctx, ast.Load)]
    uses = [each for each in names if any(value.site is node for value in flow.values(each))]
    function = module.function(node)
    if not isinstance(module.parent(node), ast.Assign) or any(module.function(each) is not function for each in uses):
        return False
    first, last = module.span(node)[0], max(module.span(each)[1] for each in (node, *uses))
    places = [place for each in found if each is not reading for place in _places(flow, each, module, function)]
    spans = [module.span(place) if place is not None else (first, last) for place in places]
    return all(end <= first or start >= last for start, end in spans)


def _places(flow: Flow, reading: Pass, module: Module, function: Callee | None) -> Iterator[ast.AST | None]:
    """Where the reading runs in a function, or in the module outside of functions; None where that is not known."""
    if reading.module is module and module.function(reading.node) is function:
        yield reading.node
    elif function is not None:
        yield None
    else:
        for top in tops(flow, reading.module, reading.node):
            yield top.statement if top.module is module else None


def _is_replaced(flow: Flow, found: Sequence[Pass]) -> bool:
    """Whether all readings are ``it = iter(loader)`` for one and the same name, so that the last one is forgotten."""
    places = set()
    for each in found:
        above = each.module.parent(each.node)
        if each.how is not How.ITERATOR or not isinstance(above, ast.Assign) or len(above.targets) != 1:
            return False
        target, function = above.targets[0], each.module.function(each.node)
        class_ = flow.owner(function) if isinstance(target, ast.Attribute) and function is not None else None
        places.add((class_ or function, ast.unparse(target)))
    return len(places) == 1


def _is_one_generator(flow: Flow, found: Sequence[Pass]) -> bool:
    """Whether the only reading stands in a generator that is started once, or by loops that do not overlap."""
    generator = generator_of(found[0]) if len(found) == 1 and found[0].how is How.LOOP else None
    if generator is None:
        return False
    started = list(places_that_run(flow, generator))
    loops = [loop_over(module_of(flow, each), each) for each in started]
    if not all(loops):
        return len(started) == 1 and loop_around(flow, module_of(flow, started[0]), started[0]) is None
    return bool(loops) and not any(
        outer in loops for each in loops if each is not None for outer, _ in around(flow, module_of(flow, each), each)
    )


def draws_nothing(script: Script, codes: Iterable[WorkerCode]) -> bool:
    """Whether no loader shuffles and nothing is seen to draw from the CPU's random numbers between epochs."""
    if any(_may_shuffle(code.loader) or why_unknown(code) is not None or code.draws for code in codes):
        return False
    if any(call_draws(script.flow, call) for module in script.modules for call in module.nodes(ast.Call)):
        return False
    layers = [layer for model in script.models for layer in model.layers]
    return all(isinstance(layer, Instance) or _draws_nothing(script.flow, layer) for layer in layers)


def _may_shuffle(loader: Loader) -> bool:
    given = [
        loader.arguments[name].values for name in ("shuffle", "sampler", "batch_sampler") if name in loader.arguments
    ]
    off = all(isinstance(each, Literal) and not each.value for values in given for each in values)
    return loader.unknown_arguments is not None or not off


def _draws_nothing(flow: Flow, layer: Value) -> bool:
    known = layer.name.startswith("torch.nn.") and kind(flow, layer) is Kind.MODEL
    return known and not layer_draws(layer)
