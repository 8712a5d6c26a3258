"""Where may the numbers be put on the device by which batches are normalised, and what do they make needless?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.names import bound_names
from codemods.dataflow.placement import dominates, means_the_same
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import is_main_guard
from codemods.facts.devices.devices import DeviceKind
from codemods.facts.reach import passing_over
from codemods.facts.reason import HERE, Reason, at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.facts.data.normalize_steps import Normalized
    from codemods.facts.data.normalizing import Moved, Together
    from codemods.facts.script import Script


class Home(NamedTuple):
    """A statement before which tensors can be made on the device."""

    statement: ast.stmt
    device: str
    """How the device is written there."""


def home_of_all(script: Script, several: Sequence[Together]) -> Home | None:
    """The statement of the module before which tensors are made for the loops of several functions, if any.

    Not where processes that import the module would make them, too: where it has a main guard.
    """
    module = script.module
    targets = [move.transfer.target for each in several for move in each.moves]
    functions = {module.function(move.loop) for each in several for move in each.moves}
    made = sorted((each.call for together in several for each in together.transforms), key=module.span)
    home, *others = (module.statement(each) for each in made)
    if len(functions) == 1 or any(map(is_main_guard, module.tree.body)) or home not in module.tree.body:
        return None
    is_first = all(each is home or dominates(module, home, each) for each in others)
    same = [isinstance(each, ast.Name) and means_the_same(script.flow, module, each, home) for each in targets]
    texts = {module.code(each) for each in targets if each is not None}
    return Home(home, texts.pop()) if is_first and all(same) and len(texts) == 1 else None


def home_before_loops(script: Script, move: Moved) -> Home | None:
    """The outermost loop around a move before which its device is known; None where it is not."""
    module, target = script.module, move.transfer.target
    function = module.function(move.loop)
    around = [each for each in module.ancestors(move.loop) if module.function(each) is function]
    loops = [move.loop, *(each for each in around if isinstance(each, (ast.For, ast.AsyncFor, ast.While)))]
    if target is None:
        quote = script.quote(module)
        return Home(loops[-1], f"{quote}cuda{quote}")
    if isinstance(target, ast.Constant):
        return Home(loops[-1], module.code(target))
    if move.transfer.method == "to" and isinstance(target, (ast.Name, ast.Attribute)):
        for loop in reversed(loops):
            if _is_from_outside(script, target) or means_the_same(script.flow, module, target, loop):
                return Home(loop, module.code(target))
    return None


def why_unsure(script: Script, move: Moved, home: ast.stmt) -> Reason | None:
    """Why there may be no CUDA before the loop, where a tensor would be made on it; None where there is.

    ``x.cuda()`` in a loop says that there is, unless a pass may come to its end without it.
    """
    module = script.module
    skipping = passing_over(module, move.transfer.call, home)
    if move.transfer.device.kind is not DeviceKind.CUDA or skipping is None:
        return None
    text = f"a pass of the loop may do without the move ({HERE}), as where there is no CUDA:"
    remedy = "move the batches to a device that is chosen above the loop"
    return Reason("unknown-device", text, (at(module, skipping),), remedy)


def _is_from_outside(script: Script, device: ast.expr) -> bool:
    """Whether a function finds it where it begins: a name from around it, or ``self.device``."""
    module = script.module
    function = module.function(device)
    if isinstance(device, ast.Attribute) and isinstance(function, ast.FunctionDef):
        return _is_of_object(script, device, function)
    if function is None or not isinstance(device, ast.Name) or device.id in bound_names(function):
        return False
    return not any(device.id in each.names for each in module.nodes(ast.Global, ast.Nonlocal))


def _is_of_object(script: Script, device: ast.Attribute, method: ast.FunctionDef) -> bool:
    """Whether it is an attribute of the method's object, which nothing but its constructor binds."""
    binding = [
        module.function(each) for module in script.modules for each in module.attribute_stores.get(device.attr, ())
    ]
    is_made = all(isinstance(each, ast.FunctionDef) and each.name == "__init__" for each in binding)
    own = signature(method).positional_names[:1]
    is_own = isinstance(device.value, ast.Name) and (device.value.id,) == own
    return bool(binding) and is_made and method not in binding and is_own


def given_name(move: Moved) -> str | None:
    """The name that a statement gives the batch that it moves: ``x`` of ``x, y = x.cuda(), y.cuda()``."""
    call = move.transfer.call
    match move.transfer.module.statement(call):
        case ast.Assign([ast.Name(name)], value) if value is call:
            return name
        case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)) if len(targets) == len(values):
            pairs = (target for target, value in zip(targets, values, strict=True) if value is call)
            target = next(pairs, None)
            return target.id if isinstance(target, ast.Name) else None
    return None


def made_for(script: Script, together: Together) -> Iterator[ast.stmt]:
    """The statements that made what only the transforms used: ``normalize = transforms.Normalize(…)``."""
    module, steps = script.module, [each.normalize for each in together.transforms]
    for made in dict.fromkeys(each.made for each in together.transforms):
        statement = module.parent(made)
        if isinstance(statement, ast.Assign) and [type(each) for each in statement.targets] == [ast.Name]:
            value = next(each for each in script.flow.values(made) if each.site is made)
            uses = [node for _, node in script.flow.places(value) if module.parent(node) is not statement]
            if all(any(node is each for each in steps) for node in uses):
                yield statement


def numbers_at(script: Script, transform: Normalized, index: int, place: ast.stmt) -> str:
    """How the means (0) or standard deviations (1) are written at a place: as they are given, if that is the same."""
    module, node, numbers = script.module, transform.given[index], (transform.means, transform.deviations)[index]
    if isinstance(node, (ast.List, ast.Tuple)) and all(isinstance(each, ast.Constant) for each in node.elts):
        code = module.code(node)
        if "\n" not in code:
            return code
    elif isinstance(node, ast.Name) and means_the_same(script.flow, module, node, place):
        return node.id
    return repr(numbers)
