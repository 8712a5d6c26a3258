"""Where a loader is read, how often, and whether that happens while the module is imported."""

from __future__ import annotations

import ast
import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.source import FUNCTIONS, is_main_guard, walk
from codemods.dataflow.values import Class, Container, Instance, Method, library_names
from codemods.facts.loops import REPEATING, around, may_give, module_of, places_that_run
from codemods.library.kinds import PROGRESS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Value

# Reading what these return is reading their arguments.
_PASSING_ON = PROGRESS | {
    *("builtins.enumerate", "builtins.zip", "builtins.map", "builtins.filter", "builtins.iter"),
    *("itertools.islice", "itertools.chain"),
}
# Functions that read all of their argument at once.
_EXHAUSTING = frozenset(
    {
        "builtins.list",
        "builtins.tuple",
        "builtins.set",
        "builtins.sorted",
        "builtins.sum",
        "builtins.max",
        "builtins.min",
    }
    | {"builtins.any", "builtins.all", "torch.optim.swa_utils.update_bn"}
)
# Functions that look at a loader without reading it.
_LOOKING = frozenset(
    f"builtins.{name}" for name in ("len", "isinstance", "print", "type", "id", "repr", "str", "getattr", "hasattr")
)


class How(enum.Enum):
    """How a pass reads its loader."""

    LOOP = "batch by batch"
    FIRST = "its first batch"
    ITERATOR = "through an iterator that is kept"
    HANDED = "in code that is not followed"


# `iter(loader).next()` of old, `loader.__iter__().__next__()`.
_ITERATOR_METHODS = frozenset({"next", "__next__"})


@dataclass(frozen=True, eq=False)
class Pass:
    """A place that reads a loader: a loop, a comprehension, or a call."""

    how: How
    module: Module
    node: ast.AST
    reader: str = ""
    """Who reads it, where it is handed to code that is not followed."""

    @property
    def is_of_first(self) -> bool:
        """Whether it surely ends at the first batch, as ``for x, y in loader: …; break`` does, too."""
        loop = self.node
        if self.how is How.ITERATOR:
            return _is_asked_once(self.module, loop)
        if self.how is not How.LOOP or not isinstance(loop, (ast.For, ast.AsyncFor)):
            return self.how is How.FIRST
        goes_on = any(isinstance(each, (ast.Continue, ast.Yield, ast.YieldFrom)) for each in walk(loop))
        return isinstance(loop.body[-1], ast.Break) and not goes_on


def _is_asked_once(module: Module, iterator: ast.AST) -> bool:
    """Whether a name is given an iterator, and all who have the name ask it for one batch then: ``next(it)``."""
    match module.parent(iterator):
        case ast.Assign([ast.Name(name)]):
            scope = module.function(iterator) or module.tree
        case _:
            return False
    found = [each for each in walk(scope) if isinstance(each, ast.Name) and each.id == name]
    found.sort(key=lambda each: (each.lineno, each.col_offset))
    if any(name in each.names for each in walk(scope) if isinstance(each, (ast.Global, ast.Nonlocal))):
        return False
    suites = [id(module.suite(module.statement(each))) for each in found]
    pairs = zip(found[::2], found[1::2], suites[::2], suites[1::2], strict=False)
    return len(found) == 2 * len(set(suites)) and all(
        isinstance(made.ctx, ast.Store) and suite == other and _is_next(module, asked)
        for made, asked, suite, other in pairs
    )


def _is_next(module: Module, name: ast.Name) -> bool:
    """``next(it)``, ``it.next()``, and nothing around that repeats it."""
    above = module.parent(name)
    around_it = [each for each in module.ancestors(name) if each in set(walk(module.statement(name)))]
    if any(isinstance(each, (*REPEATING, *FUNCTIONS)) for each in around_it):
        return False
    if isinstance(above, ast.Attribute):
        return above.attr in _ITERATOR_METHODS
    return isinstance(above, ast.Call) and isinstance(above.func, ast.Name) and above.func.id == "next"


def passes(flow: Flow, loader: Value) -> Iterator[Pass]:
    """The places that read the loader; one that reads it twice at once, as ``zip(loader, loader)`` does, twice."""
    for module, node in flow.places(loader):
        if not isinstance(getattr(node, "ctx", None), ast.Store):
            reading = _reading(flow, module, node)
            if reading is not None:
                yield reading


def _reading(flow: Flow, module: Module, node: ast.expr) -> Pass | None:
    """How what stands around a loader reads it."""
    here: ast.AST = node
    above = module.parent(here)
    is_iterator = False
    called = module.parent(above) if isinstance(above, ast.Attribute) and above.attr == "__iter__" else None
    if isinstance(called, ast.Call):
        here, above, is_iterator = called, module.parent(called), True
    while isinstance(above, ast.Call) and here is not above.func:
        names = library_names(flow.values(above.func))
        if not names or not names <= _PASSING_ON:
            return _called(flow, module, above, names, is_iterated=here is not node)
        is_iterator = is_iterator or "builtins.iter" in names
        here, above = above, module.parent(above)
    if isinstance(above, ast.Starred) or (isinstance(above, (ast.For, ast.AsyncFor)) and above.iter is here):
        return Pass(How.LOOP, module, above)
    if isinstance(above, ast.comprehension) and above.iter is here:
        return Pass(How.LOOP, module, module.parent(above) or above)
    if isinstance(above, ast.YieldFrom):
        return Pass(How.LOOP, module, above)
    if isinstance(above, ast.Attribute) and above.attr in _ITERATOR_METHODS:
        return Pass(How.FIRST, module, above)
    # `bar = tqdm(loader)` is read where `bar` is, once.
    return None if here is node else Pass(How.ITERATOR if is_iterator else How.LOOP, module, here)


def _called(flow: Flow, module: Module, call: ast.Call, names: frozenset[str], *, is_iterated: bool) -> Pass | None:
    """The pass that a function makes that is given a loader, or an iterator over it."""
    if "builtins.next" in names:
        return Pass(How.FIRST, module, call)
    if "itertools.cycle" in names:
        return Pass(How.ITERATOR, module, call)
    if is_iterated or names & _EXHAUSTING:
        return Pass(How.LOOP, module, call)
    callees = flow.values(call.func)
    if not callees or names & _LOOKING or any(map(_is_followed, callees)):
        return None
    return Pass(How.HANDED, module, call, ast.unparse(call.func))


def _is_followed(callee: Value) -> bool:
    """Whether it is the project's, or a method of a container: what it is given goes on from there."""
    of_container = isinstance(callee, Method) and isinstance(callee.of, Container)
    return of_container or isinstance(callee, (Instance, Class)) or isinstance(callee.site, FUNCTIONS)


def runs_meanwhile(flow: Flow, found: Sequence[Pass], module: Module, node: ast.AST) -> bool:
    """Whether the node may run between two batches of one of the readings."""
    loops = frozenset(loop for each in found for loop in _loops(flow, each))
    outside = [above for above, _ in around(flow, module, node)]
    if any(each in loops for each in outside):
        return True
    # `batches = iter(loader)`, of which a loop that does not start it anew asks for one after the other.
    begun = [[above for above, _ in around(flow, each.module, each.node)] for each in found if each.how is How.ITERATOR]
    return any(isinstance(each, REPEATING) and each not in above for above in begun for each in outside)


def _loops(flow: Flow, reading: Pass, seen: frozenset[ast.AST] = frozenset()) -> Iterator[ast.AST]:
    """The loops that run once for each batch: its own, and those over the generator that it stands in."""
    yield reading.node
    generator = generator_of(reading)
    if generator is not None and generator not in seen:
        for started in places_that_run(flow, generator):
            module = module_of(flow, started)
            loop = started if isinstance(module.parent(started), ast.YieldFrom) else loop_over(module, started)
            if loop is not None:
                yield from _loops(flow, Pass(How.LOOP, module, loop), seen | {generator})


def generator_of(reading: Pass) -> Callee | None:
    """The generator of the project that reads it, which may be left and resumed at any time."""
    module, function = reading.module, reading.module.function(reading.node)
    yields = (each for each in walk(function or reading.node) if isinstance(each, (ast.Yield, ast.YieldFrom)))
    return function if any(module.function(each) is function for each in yields) else None


def loop_over(module: Module, node: ast.AST) -> ast.AST | None:
    """The loop that goes through what the node is: ``for x in node``, ``for i, x in enumerate(node)``."""
    above = module.parent(node)
    while isinstance(above, ast.Call) and node in above.args:
        node, above = above, module.parent(above)
    return above if isinstance(above, (ast.For, ast.AsyncFor)) and above.iter is node else None


class Top(NamedTuple):
    """A statement of a module that runs some node when the module is imported, or run."""

    module: Module
    statement: ast.stmt
    is_guarded: bool
    """Whether it stands under the main guard, and so runs only where the module is run."""


def tops(
    flow: Flow, module: Module, node: ast.AST, seen: set[ast.AST] | None = None, given: Value | None = None
) -> Iterator[Top]:
    """The statements of the modules that run the node, through whatever calls.

    Args:
        flow: The values of the project.
        module: Where the node stands.
        node: What runs.
        seen: Functions that are looked into already.
        given: What it has to run with: a call of its function that gives it something else does not count.
    """
    seen = set() if seen is None else seen
    top = node
    is_guarded = False
    for above in module.ancestors(node):
        is_guarded = is_guarded or is_main_guard(above)
        if isinstance(above, FUNCTIONS):
            if above not in seen:
                seen.add(above)
                for place in places_that_run(flow, above):
                    if given is None or may_give(flow, above, node, place, given):
                        yield from tops(flow, module_of(flow, place), place, seen, given)
            return
        if isinstance(above, ast.Module) and isinstance(top, ast.stmt):
            yield Top(module, top, is_guarded)
        top = above
