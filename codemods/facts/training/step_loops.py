"""Which loops run a model in each of their passes, and which of their code do they run in a few passes only?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.names import scope_of
from codemods.dataflow.recursion import closure
from codemods.dataflow.source import FUNCTIONS, LOOPS, kept, lasting, walk
from codemods.facts.loops import module_of, repeats
from codemods.facts.reach import is_model_call, own
from codemods.facts.training.iterations import called_functions, is_backward
from codemods.library.kinds import Kind, computes_loss, may
from codemods.library.waits import CLOCKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.facts.training.totals import Loop

_LEAVES = (ast.Return, ast.Break, ast.Raise)


def step_loop(flow: Flow, module: Module, node: ast.AST) -> Loop | None:
    """The innermost loop around a node, in its function, whose passes run a model, differentiate a loss, or step."""
    below = node
    inner: list[ast.AST] = []
    for above in module.ancestors(node):
        if isinstance(above, (*FUNCTIONS, ast.ClassDef)):
            return None
        if isinstance(above, LOOPS) and repeats(above, below):
            inner.append(above)
            if isinstance(above, (ast.For, ast.While)) and _computes(flow, module, above, inner):
                return above
        below = above
    return None


def _computes(flow: Flow, module: Module, loop: Loop, inner: list[ast.AST]) -> bool:
    """Whether a loop runs a model itself, and not only in loops of its own other than these."""
    for call in own(loop, ast.Call):
        around = next(each for each in module.ancestors(call) if isinstance(each, LOOPS))
        if around in inner and (_is_step(flow, call) or any(_runs_step(flow, each) for each in _called(flow, call))):
            return True
    return False


def _called(flow: Flow, call: ast.Call) -> Iterator[Callee]:
    """The functions that a call runs once each, itself or through others that have no loops."""
    return closure(called_functions(flow, call), lambda each: () if _loops(each) else _called_by(flow, [each]))


def _called_by(flow: Flow, nodes: Iterable[ast.AST]) -> Iterator[Callee]:
    for each in nodes:
        for call in _calls(each):
            yield from called_functions(flow, call)


@lasting
def _runs_step(flow: Flow, function: Callee) -> bool:
    """Whether a function runs a model or differentiates, and has no loops; or steps, and its loops do nothing of it.

    Or it differentiates and steps once, and its loops do neither.
    """
    loops = _loops(function)
    if not loops:
        return any(_is_step(flow, each) or _steps(flow, each) for each in _calls(function))
    looped = {each for loop in loops for each in _calls(loop)}
    beside = [each for each in _calls(function) if each not in looped]
    if not any(_steps(flow, each) for each in beside):
        return False
    inside = closure(_called_by(flow, loops), lambda each: _called_by(flow, [each]))
    repeated = [call for each in (*loops, *inside) for call in _calls(each)]
    if any(is_backward(flow, each) for each in beside):  # of what its loops compute: of the words of a sentence
        return not any(is_backward(flow, each) or _steps(flow, each) for each in repeated)
    return not any(_is_step(flow, each) for each in repeated)


@kept
def _loops(function: Callee) -> tuple[ast.AST, ...]:
    return tuple(each for each in walk(function) if isinstance(each, LOOPS))


@kept
def _calls(node: ast.AST) -> tuple[ast.Call, ...]:
    return tuple(each for each in walk(node) if isinstance(each, ast.Call))


def _is_step(flow: Flow, call: ast.Call) -> bool:
    return is_model_call(flow, call) or is_backward(flow, call) or computes_loss(flow, call)


def _steps(flow: Flow, call: ast.Call) -> bool:
    """``optimizer.step()``."""
    match call.func:
        case ast.Attribute(optimizer, "step"):
            return may(flow, flow.values(optimizer), Kind.OPTIMIZER)
    return False


def rare_suite(module: Module, loop: Loop | Callee, node: ast.AST) -> Sequence[ast.stmt] | None:
    """The statements around a node, the innermost ones, where few passes of the loop come to it; None where more do.

    ``if i % 100 == 0:``, ``if i == len(loader) - 1:``, and what leaves the loop.
    """
    found = rare_suites(module, loop, node)
    return found[0] if found is not None else None


def rare_suites(
    module: Module, loop: Loop | Callee, node: ast.AST
) -> tuple[Sequence[ast.stmt], Sequence[ast.stmt]] | None:
    """The same, and those of the condition that few passes meet: the innermost may stand under others in these."""
    below: ast.AST = node
    innermost: Sequence[ast.stmt] | None = None
    for above in module.ancestors(node):
        if isinstance(above, ast.If) and below is not above.test:
            suite = above.body if any(below is each for each in above.body) else above.orelse
            innermost = suite if innermost is None else innermost
            if isinstance(suite[-1], _LEAVES) or _counts(module, loop, above.test):
                return innermost, suite
        elif isinstance(above, ast.Return) and not isinstance(loop, FUNCTIONS):
            return module.suite(above), module.suite(above)
        if above is loop:
            return None
        below = above
    return None


def is_remainder(node: ast.AST) -> bool:
    """``step % 100``, but no text that is filled in."""
    is_text = isinstance(node, ast.BinOp) and isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and not is_text


def _counts(module: Module, loop: Loop | Callee, test: ast.expr) -> bool:
    """Whether a condition counts passes: by a remainder, by the last one, or by the number of one."""
    for node in walk(test):
        if is_remainder(node):
            return True
        match node:
            case ast.Compare(left, [ast.Eq()], [right]):
                if any(_is_length(each) for each in (left, right)):
                    return True
                if any(isinstance(each, ast.Name) and each.id == _counter(loop) for each in (left, right)):
                    return True
            case ast.Name():
                assigned = [each.value for each in module.assignments(node)]
                if any(
                    isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mod)
                    for one in assigned
                    for each in walk(one)
                ):
                    return True
    return False


def _is_length(node: ast.expr) -> bool:
    """``len(loader)``, ``len(loader) - 1``."""
    inner = node.left if isinstance(node, ast.BinOp) else node
    return isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id == "len"


def _counter(loop: Loop | Callee) -> str | None:
    """The name of the number of a pass: ``for i, batch in enumerate(loader)``, ``for i in range(n)``."""
    match loop:
        case ast.For(ast.Tuple([ast.Name(name), _]), ast.Call(ast.Name("enumerate"))):
            return name
        case ast.For(ast.Name(name), ast.Call(ast.Name("range"))):
            return name
    return None


def clocks(flow: Flow, loop: Loop) -> Iterator[ast.Call]:
    """Where a loop reads a clock: itself, or in each of its passes by a function of the project, such as a timer's."""
    once = set(walk(loop.iter)) if isinstance(loop, ast.For) else set()
    for call in own(loop, ast.Call):
        if any(each.name in CLOCKS for each in flow.values(call.func)):
            yield call
        elif rare_suite(module_of(flow, loop), loop, call) is None:
            called = called_functions(flow, call)
            # What a loop goes through is called once, and a generator goes on in each pass.
            if any(_reads_clock(flow, each) for each in called if call not in once or scope_of(each).yields):
                yield call


@lasting
def _reads_clock(flow: Flow, function: Callee) -> bool:
    """Whether a function reads a clock, itself or by others."""
    everything = closure([function], lambda each: _called_by(flow, [each]))
    return any(value.name in CLOCKS for each in everything for call in _calls(each) for value in flow.values(call.func))
