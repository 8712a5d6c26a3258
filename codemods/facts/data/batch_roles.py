"""What do names in a loop over batches hold: whole batches, their images, or their labels?"""

from __future__ import annotations

import ast
import enum
from typing import TYPE_CHECKING

from codemods.dataflow.source import is_name, walk
from codemods.facts.data.reads import How
from codemods.facts.reason import HERE, Reason
from codemods.library.kinds import PROGRESS, Kind, kind

if TYPE_CHECKING:
    from codemods.facts.data.loaders import Loader
    from codemods.facts.data.reads import Pass
    from codemods.facts.script import Script

RESHAPES = frozenset({"view", "reshape", "flatten", "squeeze", "unsqueeze"})
"""Methods that make the same numbers a tensor of another shape, on which one number for all channels acts alike."""
VARIABLE = "torch.autograd.Variable"
_INDEX_AND_BATCH = 2


class Role(enum.Enum):
    """What a name holds in a loop over batches."""

    BATCH = "images and labels"
    IMAGES = "images"
    LABELS = "labels"


def roles_in(script: Script, loader: Loader, reading: Pass) -> dict[str, Role] | Reason:
    """The names that a loop over a loader gives something of its batches, or why they are not known."""
    loop = reading.node
    target = _target(script, loop) if isinstance(loop, (ast.For, ast.AsyncFor)) else None
    if reading.how is not How.LOOP or target is None:
        text = f"how its batches are read is not followed ({HERE})"
        if reading.how is How.FIRST:
            text = f"a single batch is read outside of a loop ({HERE})"
        return Reason("unknown-reading", text, (loader.at(loop),))
    if not isinstance(target, ast.Name):
        return _unpacked(target)
    names = {target.id: Role.BATCH}
    for node in walk(loop):
        if isinstance(node, ast.Assign) and is_name(node.value, target.id):
            for unpacking in node.targets:
                names |= _unpacked(unpacking)
    return names


def role_of(script: Script, node: ast.expr, names: dict[str, Role], *, may_reshape: bool) -> Role | None:
    """What an expression in a loop over batches is.

    Args:
        script: The script.
        node: The expression.
        names: What the loop gives names to.
        may_reshape: Whether images in another shape count as images.
    """
    match node:
        case ast.Name(name):
            return names.get(name)
        case ast.Subscript(ast.Name(name), ast.Constant(int(index))) if names.get(name) is Role.BATCH:
            return Role.IMAGES if index == 0 else Role.LABELS if index > 0 else None
        case ast.Call(ast.Attribute(owner, method)) if method in RESHAPES and may_reshape:
            return role_of(script, owner, names, may_reshape=may_reshape)
        case ast.Call(function, [given], []):
            called = {each.name for each in script.flow.values(function)}
            return role_of(script, given, names, may_reshape=may_reshape) if called == {VARIABLE} else None
    return None


def _target(script: Script, loop: ast.For | ast.AsyncFor) -> ast.expr | None:
    """What a loop over a loader gives each batch to: ``x, y`` of ``for i, (x, y) in enumerate(loader)``."""
    target, node = loop.target, loop.iter
    while isinstance(node, ast.Call) and node.args:
        names = {each.name for each in script.flow.values(node.func)}
        if names == {"builtins.enumerate"}:
            if not isinstance(target, ast.Tuple) or len(target.elts) != _INDEX_AND_BATCH:
                return None
            target = target.elts[1]
        elif not names or not names <= PROGRESS:
            break
        node = node.args[0]
    return target if any(kind(script.flow, each) is Kind.LOADER for each in script.flow.values(node)) else None


def _unpacked(target: ast.expr) -> dict[str, Role]:
    """The names in ``images, labels``; none where the first is no name."""
    match target:
        case ast.Tuple([ast.Name(first), *others]) | ast.List([ast.Name(first), *others]):
            names = [each.id for each in others if isinstance(each, ast.Name)]
            return {**dict.fromkeys(names, Role.LABELS), first: Role.IMAGES} if first not in names else {}
    return {}


def takes_parts(above: ast.AST | None, node: ast.expr) -> bool:
    """Whether what stands around a batch takes its parts: ``x, y = batch``, ``batch[0]``."""
    match above:
        case ast.Assign(targets):
            return all(_unpacked(each) for each in targets)
        case ast.Subscript(value, ast.Constant(int(index))):
            return value is node and index >= 0
    return False
