"""Where do few passes of a loop ask a meter, which may be told there what all of them have for it?"""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.source import walk
from codemods.facts.training.plain_meters import is_looked_at
from codemods.facts.training.step_loops import clocks, rare_suites
from codemods.facts.training.sums import MANY, needed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.reason import Reason
    from codemods.facts.training.own_meters import Meter

_MOST = 2
"""In so many places a loop may tell a meter: what is repeated more often asks for another form."""


class Telling(NamedTuple):
    """Where few passes tell a meter all that it is still to be told, or forget that as they make a new one."""

    suite: Sequence[ast.stmt]
    """The statements that few passes come to."""
    anchor: ast.stmt
    """The one of them before which it is told, or which makes it anew."""
    is_new: bool


def tellings(flow: Flow, meter: Meter) -> tuple[Telling, ...] | Reason:
    """The places of the loop where the meter is asked or made anew, or why it has to be told in each pass."""
    module = meter.module
    nodes = sorted((*meter.used_inside, *meter.made_inside), key=module.span)
    for each in nodes:
        is_made = isinstance(each.ctx, ast.Store)
        if rare_suites(module, meter.loop, each) is None:
            text = "made anew" if is_made else "read"
            return needed(module, each, f"'{each.id}' is {text} in each iteration", MANY)
        if not is_made and (not is_asked(meter, each) or _is_put_off(module, each)):
            return meter.seen(each, f"other code may keep '{each.id}'")
    places = _places(meter, nodes)
    if len(places) > _MOST:
        text = f"'{meter.name}' is read in more than two places of the loop"
        return needed(module, places[_MOST][1][0], text, "do that in one")
    found = [_telling(flow, meter, suite, events) for suite, events in places]
    reason = next((each for each in found if not isinstance(each, Telling)), None)
    return reason or tuple(each for each in found if isinstance(each, Telling))


def _places(meter: Meter, nodes: Sequence[ast.Name]) -> list[tuple[Sequence[ast.stmt], list[ast.Name]]]:
    """The nodes by the statements that few passes come to, where one of them is; the outermost such."""
    found: dict[int, tuple[Sequence[ast.stmt], list[ast.Name]]] = {}
    pairs = [(suites[1], each) for each in nodes if (suites := rare_suites(meter.module, meter.loop, each))]
    for suite, each in pairs:
        around = (one for one, _ in pairs if any(suite[0] in walk(statement) for statement in one))
        outermost = max(around, key=lambda one: meter.module.span(one[-1])[1] - meter.module.span(one[0])[0])
        found.setdefault(id(outermost), (outermost, []))[1].append(each)
    return list(found.values())


def _telling(flow: Flow, meter: Meter, suite: Sequence[ast.stmt], events: Sequence[ast.Name]) -> Telling | Reason:
    """What becomes of the meter in such statements: they ask it, or make it anew."""
    module, first = meter.module, events[0]
    here = {node for each in suite for node in walk(each)}
    for each in meter.additions:
        if each in here:
            return needed(module, each, f"'{meter.name}' is told something where few iterations read it")
    anchor = next(each for each in suite if first in walk(each))
    if isinstance(first.ctx, ast.Store):
        is_sure = isinstance(anchor, ast.Assign)
        text = f"'{meter.name}' is made anew in some of the iterations that may read it"
        return Telling(suite, anchor, is_new=True) if is_sure else needed(module, first, text)
    # A clock there shows the same if the host waits before it.
    timed = (each for each in suite if any(one in walk(each) for one in clocks(flow, meter.loop)))
    return Telling(suite, min((anchor, *timed), key=module.span), is_new=False)


def is_asked(meter: Meter, name: ast.Name) -> bool:
    """Whether the loop only looks at the meter there, or at what holds it, and keeps no part that may change.

    Or it ends there.
    """
    module = meter.module
    if isinstance(module.statement(name), ast.Return):
        return True
    return is_looked_at(module, meter.class_of(name), name, has_parts=meter.has_parts(name))


def _is_put_off(module: Module, name: ast.expr) -> bool:
    """Whether a generator may ask it at any time: ``(m.mean for each in names)``."""
    statement = module.statement(name)
    around = itertools.takewhile(lambda each: each is not statement, module.ancestors(name))
    return any(isinstance(each, ast.GeneratorExp) for each in around)
