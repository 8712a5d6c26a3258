"""May code outside of a class give its objects another tensor in an attribute, or write into the one that they have?

A mask that is a buffer is reached in more ways than by its name: by all buffers of a model, by its state and by
``setattr``.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import lasting, walk
from codemods.dataflow.values import Unknown, class_of
from codemods.facts.models.local_steps import is_in_place, is_written_to

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module

_BUFFERS = frozenset({"buffers", "named_buffers", "state_dict"})
_STATE = "state_dict"
_SCALING = frozenset({"mul_", "div_"})


def is_changed(flow: Flow, class_: ast.ClassDef, name: str) -> bool:
    """Whether code may write into the tensor that objects of the class have there, or give them another one.

    What the class itself assigns is not looked at, what it writes into is.

    Args:
        flow: The values of the project.
        class_: The class, of the project.
        name: The attribute.
    """
    family = flow.family(class_)
    return any(
        _is_written_by_name(flow, module, family, name)
        or any(_is_set(flow, module, family, name, call) for call in module.nodes(ast.Call))
        or any(_writes_constant(module, each) for each in _buffers(module))
        for module in flow.modules
    )


def _is_written_by_name(flow: Flow, module: Module, family: Collection[ast.AST], name: str) -> bool:
    for each in module.nodes(ast.Attribute):
        if each.attr != name or not _may_be_one(flow, module, each.value, family):
            continue
        is_given = not isinstance(each.ctx, ast.Load) and not set(family) & set(module.ancestors(each))
        if is_given or _is_written(module, each):
            return True
    return False


def _is_set(flow: Flow, module: Module, family: Collection[ast.AST], name: str, call: ast.Call) -> bool:
    """``setattr(layer, "mask", mask)``, ``layer.register_buffer("mask", mask)``."""
    match call:
        case ast.Call(ast.Name("setattr"), [owner, ast.Constant(value), *_]) if value == name:
            return _may_be_one(flow, module, owner, family)
        case ast.Call(ast.Attribute(owner, "register_buffer"), [ast.Constant(value), *_]) if value == name:
            is_own = bool(set(family) & set(module.ancestors(call)))
            return not is_own and _may_be_one(flow, module, owner, family)
    return False


def _may_be_one(flow: Flow, module: Module, node: ast.expr, family: Collection[ast.AST]) -> bool:
    """Whether an expression may be an object of the classes: the layers that a loop finds in a model are unknown."""
    values = flow.values(node)
    if any(class_of(each) in family for each in values):
        return True
    is_unknown = not values or any(isinstance(each, Unknown) for each in values)
    return is_unknown and not any(_is_of_library(flow, each, node) for each in module.ancestors(node))


def _is_of_library(flow: Flow, above: ast.AST, node: ast.expr) -> bool:
    """Whether code runs only where an object is of a library's class: ``if isinstance(layer, nn.Linear):``."""
    if not isinstance(above, ast.If) or not any(node in walk(each) for each in above.body):
        return False
    tests = (
        above.test.values if isinstance(above.test, ast.BoolOp) and isinstance(above.test.op, ast.And) else [above.test]
    )
    for test in tests:
        match test:
            case ast.Call(ast.Name("isinstance"), [owner, classes]) if ast.dump(owner) == ast.dump(node):
                parts = classes.elts if isinstance(classes, ast.Tuple) else [classes]
                found = [value for each in parts for value in flow.values(each)]
                return bool(found) and all(_is_layer(each.name) for each in found)
    return False


def _is_layer(name: str) -> bool:
    """Whether the class of that qualified name is one of PyTorch's layers: ``nn.Module`` is the script's base, too."""
    return name.startswith("torch.nn.") and name != "torch.nn.Module"


def _is_written(module: Module, node: ast.expr) -> bool:
    """As ``is_written_to``, also by way of ``data``."""
    above = module.parent(node)
    through_data = isinstance(above, ast.Attribute) and above.attr == "data" and is_written_to(module, above)
    return through_data or is_written_to(module, node)


def _buffers(module: Module) -> Iterator[ast.expr]:
    """Where buffers are read that a loop goes through, or that are taken from a state, which shares their memory."""
    yield from (each for each in module.nodes(ast.Subscript) if _is_state(module, each.value))
    for loop in module.nodes(ast.For):
        calls = {
            each.func.attr
            for each in walk(loop.iter)
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)
        }
        if calls & _BUFFERS:
            names = {each.id for each in walk(loop.target) if isinstance(each, ast.Name)}
            yield from (
                each for part in loop.body for each in walk(part) if isinstance(each, ast.Name) and each.id in names
            )


def _writes_constant(module: Module, node: ast.expr) -> bool:
    """``buffer.fill_(1)``, ``state[key][:, :4] = 1``.

    An average over several models, ``buffer.mul_(0.9).add_(other)``, keeps masks as they are: all have the same.
    """
    above, below = module.parent(node), node
    while isinstance(above, ast.Subscript) and above.value is below:
        below, above = above, module.parent(above)
    if isinstance(below, ast.Subscript) and below is not node and isinstance(below.ctx, ast.Store):
        return isinstance(above, ast.Assign) and isinstance(above.value, ast.Constant)
    called = module.parent(above) if isinstance(above, ast.Attribute) else None
    if not isinstance(above, ast.Attribute) or not isinstance(called, ast.Call):
        return False
    is_constant = all(isinstance(each, ast.Constant) for each in called.args)
    return is_constant and is_in_place(above.attr) and above.attr not in _SCALING


def _is_state(module: Module, node: ast.expr) -> bool:
    """Whether it is what ``state_dict()`` returned, there or under a name."""
    return node.id in _states(module) if isinstance(node, ast.Name) else _gives_state(node)


@lasting  # each subscript asks
def _states(module: Module) -> frozenset[str]:
    """The names in a module that are given what ``state_dict()`` returned."""
    given = (each for each in module.nodes(ast.Assign) if _gives_state(each.value))
    return frozenset(target.id for each in given for target in each.targets if isinstance(target, ast.Name))


def _gives_state(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == _STATE
