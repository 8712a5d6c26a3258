"""Tensors in 16 bits that leave autocast where no name shows it: kept in an object, or given to a hook.

NumPy has no bfloat16, and a tensor of 32 bits takes no item of 16.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.values import NUMBER, Container, Made, Plain, Tensor, Unknown, class_of
from codemods.facts.loops import may_run
from codemods.facts.precision.hazards import Hazard
from codemods.facts.reach import own
from codemods.library.hooks import is_given_outputs
from codemods.library.kinds import Kind, kind
from codemods.library.operators import Result, operator, reads_no_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value
    from codemods.facts.reach import Reach

_LEAVES = "leaves-in-16-bits"
_PARAMETER = "torch.nn.Parameter"
_GROW = frozenset({"append", "extend", "insert", "add", "update", "setdefault"})


def leak(reach: Reach, modules: Sequence[Module], module: Module, nodes: Sequence[ast.AST]) -> Hazard | None:
    """What the code keeps in an object where other code reads it, or gives to a hook.

    Args:
        reach: What code calls.
        modules: The modules that may read it.
        module: The module of the nodes.
        nodes: What is to run under autocast.
    """
    parts = list(reach.code(module, nodes))
    functions = [(where, part) for where, part in parts if isinstance(part, ast.FunctionDef)]
    hook = next(
        (each for here in modules for each in _hooks(here) if may_run(reach.flow, module, here, each.node)), None
    )
    if hook is not None:
        return hook
    inside = {node for _, part in parts for node in own(part, ast.Attribute)}
    kept = {each for where, function in functions for each in _kept(reach, where, function)}
    names = {name for name, _ in kept}
    reads = ((here, each) for here in modules for each in here.nodes(ast.Attribute) if each.attr in names)
    for here, read in reads:
        if read in inside or not isinstance(read.ctx, ast.Load) or _is_wide(here, read):
            continue
        family = {each for name, class_ in kept if name == read.attr for each in reach.flow.family(class_)}
        if _may_be(reach, read.value, family):
            return _read_outside(reach, here, read, family)
    return None


def _read_outside(reach: Reach, module: Module, read: ast.Attribute, family: set[ast.ClassDef]) -> Hazard:
    """The hazard; what is not known to be of the class may have another attribute of that name, and no ``float()``."""
    text = f".{read.attr} may be kept in 16 bits, and is read outside of autocast"
    if any(isinstance(each, Container) for each in reach.flow.values(read)):
        return Hazard(module, read, f"{text}:", remedy="convert what is put there with .float()", code=_LEAVES)
    if any(class_of(each) in family for each in reach.flow.values(read.value)):
        return Hazard(module, read, f"{text}:", remedy=f"read {ast.unparse(read)}.float()", code=_LEAVES)
    return Hazard(module, read, f"{text}, if {module.code(read.value)} is what keeps it", code=_LEAVES)


def _hooks(module: Module) -> Iterator[Hazard]:
    for call in module.nodes(ast.Call):
        if isinstance(call.func, ast.Attribute) and is_given_outputs(call.func.attr):
            yield Hazard(module, call, "a forward hook would be given tensors in 16 bits", code=_LEAVES)


def _kept(reach: Reach, module: Module, function: ast.AST) -> Iterator[tuple[str, ast.ClassDef]]:
    """The attributes in which a method keeps what may be a tensor, each with the class of the object that has it."""
    class_ = next((each for each in module.ancestors(function) if isinstance(each, ast.ClassDef)), None)
    if class_ is None:
        return
    written: list[ast.Assign | ast.AnnAssign | ast.AugAssign] = [
        *own(function, ast.Assign),
        *own(function, ast.AnnAssign),
        *own(function, ast.AugAssign),
    ]
    for statement in written:
        if statement.value is None or not _may_be_tensor(reach, statement.value):
            continue
        for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
            for each in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
                place = each.value if isinstance(each, ast.Subscript) else each
                if isinstance(place, ast.Attribute) and not _keeps_its_format(reach, statement, each, class_):
                    yield from ((place.attr, owner) for owner in _owners(reach, place.value, class_))
    for call in own(function, ast.Call):
        holder = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr in _GROW else None
        if isinstance(holder, ast.Attribute) and any(_may_be_tensor(reach, each) for each in call.args):
            yield from ((holder.attr, owner) for owner in _owners(reach, holder.value, class_))


def _owners(reach: Reach, node: ast.expr, class_: ast.ClassDef) -> Iterator[ast.ClassDef]:
    """The classes that the expression's object may have: the method's own, where it is not known."""
    for value in reach.flow.values(node):
        owner = class_of(value)
        if owner is not None:
            yield owner
        elif not isinstance(value, Tensor) and value.name != _PARAMETER:
            yield class_


def _keeps_its_format(reach: Reach, statement: ast.stmt, target: ast.expr, class_: ast.ClassDef) -> bool:
    """Whether what is written to is a tensor of 32 bits, and stays one: ``self.total += y``, if it starts as such."""
    if isinstance(statement, ast.AugAssign) and isinstance(target, ast.Attribute):
        values = reach.flow.attributes(class_).get(target.attr, frozenset())
        return bool(values) and all(isinstance(each, Tensor) for each in values)
    return _fills(reach, target)


def _fills(reach: Reach, target: ast.expr) -> bool:
    """Whether a part of a tensor is written, which keeps its format: ``self.queue[:, start:end] = keys``."""
    if not isinstance(target, ast.Subscript) or not _is_basic(reach, target.slice):
        return False
    values = reach.flow.values(target.value)
    return bool(values) and all(isinstance(each, Tensor) for each in values)


def _is_basic(reach: Reach, index: ast.expr) -> bool:
    """Whether the index is of slices and numbers: by a tensor, 32 bits take no item of 16."""
    if isinstance(index, ast.Tuple):
        return all(_is_basic(reach, each) for each in index.elts)
    return isinstance(index, (ast.Slice, ast.Constant)) or reach.flow.values(index) == NUMBER


def _may_be_tensor(reach: Reach, node: ast.expr) -> bool:
    if _asks_for_size(node):
        return False
    values = reach.flow.values(node)
    may = (Tensor, Unknown, Container)
    return not values or any(
        isinstance(each, may) or (isinstance(each, Plain) and isinstance(node, ast.Call)) for each in values
    )


def _asks_for_size(node: ast.expr) -> bool:
    """``x.size(0)``, ``x.shape[-1]``, ``x.device``: no number of the tensor's, whatever ``x`` is."""
    while isinstance(node, (ast.Subscript, ast.Call)):
        node = node.value if isinstance(node, ast.Subscript) else node.func
    return isinstance(node, ast.Attribute) and reads_no_numbers(node.attr)


def _may_be(reach: Reach, node: ast.expr, family: set[ast.ClassDef]) -> bool:
    """Whether the expression may be an object of one of the classes."""
    return any(
        class_of(each) in family or isinstance(each, Unknown) or (isinstance(each, Made) and _may_wrap(reach, each))
        for each in reach.flow.values(node)
    )


def _may_wrap(reach: Reach, made: Value) -> bool:
    """Whether what a library made may hand on the attributes of a model, as ``torch.compile(model)`` does."""
    is_named_tuple = made.name.startswith("collections.namedtuple")
    return made.name != _PARAMETER and not is_named_tuple and kind(reach.flow, made) in {None, Kind.MODEL}


def _ends(name: str) -> bool:
    """Whether what the attribute or method yields is in 32 bits, or no number of the tensor's."""
    row = operator(name)
    return reads_no_numbers(name) or (row is not None and row.result is Result.WIDE)


def _is_wide(module: Module, read: ast.Attribute) -> bool:
    """Whether all that is done with what is read is right in 16 bits."""
    node: ast.AST = read
    parent = module.parent(node)
    while isinstance(parent, (ast.Attribute, ast.Call, ast.Subscript)) and node in {
        getattr(parent, "value", None),
        getattr(parent, "func", None),
    }:
        if isinstance(parent, ast.Attribute) and (parent.attr == "numpy" or _ends(parent.attr)):
            return parent.attr != "numpy"
        node, parent = parent, module.parent(parent)
    if (
        isinstance(parent, ast.Call)
        and isinstance(parent.func, ast.Name)
        and parent.func.id in {"float", "len", "print"}
    ):
        return True
    # `model.hidden = model.hidden.detach()`
    return isinstance(parent, ast.Assign) and any(ast.unparse(each) == ast.unparse(read) for each in parent.targets)
