"""Where does a script go on after an error of its training, such as one that says that memory has run out?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import LOOPS, lasting
from codemods.dataflow.values import Class
from codemods.facts.reach import Reach, own
from codemods.facts.training.iterations import is_backward

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module

_CATCHING = frozenset(f"builtins.{name}" for name in ("RuntimeError", "Exception", "BaseException"))
_OF_TORCH = frozenset({"torch.cuda.OutOfMemoryError", "torch.OutOfMemoryError", "torch.AcceleratorError"})
_OTHERS = frozenset(
    f"builtins.{name}"
    for name in (
        "KeyboardInterrupt",
        "SystemExit",
        "GeneratorExit",
        "StopIteration",
        "StopAsyncIteration",
        "ImportError",
        "ModuleNotFoundError",
        "AttributeError",
        "NameError",
        "KeyError",
        "IndexError",
        "LookupError",
        "TypeError",
        "ValueError",
        "AssertionError",
        "ArithmeticError",
        "FloatingPointError",
        "OverflowError",
        "ZeroDivisionError",
        "EOFError",
        "OSError",
        "IOError",
        "FileNotFoundError",
        "FileExistsError",
        "PermissionError",
        "TimeoutError",
        "BrokenPipeError",
        "ConnectionError",
    )
)
"""What no error of autograd is."""
_SUPPRESSING = frozenset({"contextlib.suppress", "pytest.raises"})


@lasting
def caught(flow: Flow, modules: Sequence[Module], *, only_memory: bool = False) -> tuple[Module, ast.AST] | None:
    """Where an error that computing gradients raises does not end the script; None where each of them does.

    Args:
        flow: The values of the project.
        modules: Where it is sought.
        only_memory: Whether an error for memory that has run out is meant, and not any.
    """
    reach = Reach(flow)
    for module in modules:
        for block in module.nodes(ast.Try, ast.With):
            place = next(_catching(flow, block, only_memory=only_memory), None)
            if place is not None and _differentiates(reach, module, block):
                return module, place
    return None


def _catching(flow: Flow, block: ast.Try | ast.With, *, only_memory: bool) -> Iterator[ast.AST]:
    if isinstance(block, ast.Try):
        for handler in block.handlers:
            if _goes_on(handler) and _catches(flow, handler.type, only_memory=only_memory):
                yield handler
        return
    for item in block.items:
        call = item.context_expr
        if isinstance(call, ast.Call) and any(each.name in _SUPPRESSING for each in flow.values(call.func)):
            yield from (each for each in call.args if _catches(flow, each, only_memory=only_memory))


def _goes_on(handler: ast.ExceptHandler) -> bool:
    """Whether the script may go on after the handler: it does not end in a ``raise``, or leaves before that."""
    of_loops = {each for loop in own(handler, *LOOPS) for each in own(loop, ast.Continue, ast.Break)}
    leaving = (each for each in own(handler, ast.Continue, ast.Break, ast.Return) if each not in of_loops)
    return not isinstance(handler.body[-1], ast.Raise) or any(leaving)


def _catches(flow: Flow, type_: ast.expr | None, *, only_memory: bool) -> bool:
    """Whether the handler of that type catches an error that torch raises."""
    if type_ is None:
        return True
    if isinstance(type_, ast.Tuple):
        return any(_catches(flow, each, only_memory=only_memory) for each in type_.elts)
    values = flow.values(type_)
    return not values or any(
        not isinstance(each, Class)
        and each.name not in _OTHERS
        and (each.name in _CATCHING or each.name not in _OF_TORCH or only_memory)
        for each in values
    )


def _differentiates(reach: Reach, module: Module, block: ast.Try | ast.With) -> bool:
    """Whether gradients are computed in the block."""
    return any(
        is_backward(reach.flow, call)
        or any(each.name == "torch.autograd.grad" for each in reach.flow.values(call.func))
        for _, code in reach.code(module, block.body)
        for call in own(code, ast.Call)
    )
