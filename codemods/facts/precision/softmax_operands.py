"""What ``torch.log_softmax`` cannot take that a sum of exponentials can: integers, complex numbers, two dimensions."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import walk
from codemods.dataflow.values import Literal, library_names
from codemods.facts.complex_numbers import may_be_computed
from codemods.facts.loops import module_of
from codemods.facts.precision.floats import content
from codemods.facts.reaching import reaching
from codemods.facts.reason import HERE, Reason, at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.script import Script

LOG_SOFTMAX = "torch.log_softmax"
_OF_DATA = frozenset({"torch.tensor", "torch.as_tensor", "torch.arange"})
_OF_INTEGERS = frozenset({"torch.randint", "torch.randperm", "torch.bincount"})
_ANY_ATTRIBUTE = frozenset({"__getattr__", "__getattribute__"})


def why_no_softmax(script: Script, module: Module, operand: ast.expr, dimension: ast.expr | None) -> Reason | None:
    """Why ``x - logsumexp(x, dimension, keepdim=True)`` is not written as a softmax; None where it may be.

    Args:
        script: The script.
        module: Where it stands.
        operand: ``x``, which reads names and attributes alone.
        dimension: The dimension, or the dimensions.
    """
    flow = script.flow
    for read in (each for each in walk(operand) if isinstance(each, ast.Attribute)):
        computing = (function for function, _, _ in flow.functions() if function.name in {read.attr, *_ANY_ATTRIBUTE})
        function = next((one for one in computing if one.decorator_list or one.name in _ANY_ATTRIBUTE), None)
        if function is not None:
            text = f"a function computes {module.code(read)!r} each time it is read ({HERE}):"
            return Reason("other-result", text, (at(module_of(flow, function), function),), "give it a name first")
    if dimension is not None and not _is_one(flow, dimension):
        text = (
            f"whether {module.code(dimension)!r} is one dimension is not known ({HERE}), and {LOG_SOFTMAX}() takes one"
        )
        return Reason("other-result", text, (at(module, dimension),))
    for where, each in _sources(flow, module, operand):
        held = content(flow, where, each)
        if _is_of_integers(flow, each) or (held is not None and not held.floats):
            text = f"what is summed may be integers ({HERE}), which {LOG_SOFTMAX}() does not take"
            return Reason("other-result", text, (at(where, each),))
    if may_be_computed(flow):
        text = (
            f"what is summed may be complex ({HERE}), as the project names complex numbers: {LOG_SOFTMAX}() takes none"
        )
        return Reason("other-result", text, (at(module, operand),))
    return None


def _is_one(flow: Flow, dimension: ast.expr) -> bool:
    values = flow.values(dimension)
    return bool(values) and all(isinstance(each, Literal) and type(each.value) is int for each in values)


def _sources(flow: Flow, module: Module, operand: ast.expr) -> Iterator[tuple[Module, ast.expr]]:
    """The operand, what it may have been given, and what made the tensors that it may be, as far as these are seen."""
    yield module, operand
    for name in (each for each in walk(operand) if isinstance(each, (ast.Name, ast.Attribute))):
        given = reaching(module.function(name) or module.tree).known(name) if isinstance(name, ast.Name) else ()
        yield from ((module, each) for each in given)
        for value in flow.values(name):
            if isinstance(value.site, ast.Call):
                yield module_of(flow, value.site), value.site


def _is_of_integers(flow: Flow, node: ast.expr) -> bool:
    """``torch.tensor([1, 2])``, ``torch.arange(3)`` and ``torch.randint(0, 5, (4, 6))``."""
    if not isinstance(node, ast.Call) or any(each.arg == "dtype" for each in node.keywords):
        return False
    names = library_names(flow.values(node.func))
    if names & _OF_DATA:
        parts = [part for each in node.args[:1] for part in walk(each)]
        numbers = [each for each in parts if not isinstance(each, (ast.List, ast.Tuple, ast.UnaryOp))]
        return bool(numbers) and all(isinstance(each, ast.Constant) and type(each.value) is int for each in numbers)
    return bool(names & _OF_INTEGERS)
