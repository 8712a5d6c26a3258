"""Which tensors get a name on the host first, and go to a device in a statement of their own?"""

from __future__ import annotations

import ast
import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.names import bound_names, declared_outer
from codemods.dataflow.source import FUNCTIONS, LOOPS, is_name, walk
from codemods.facts.devices.writes import writes
from codemods.facts.reason import HERE, Reason, at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.devices.transfers import Transfer

_OTHER_INDEX = re.compile(r"cuda:[1-9]\d*")
_TAKES_INDEX = frozenset({"cuda", "to"})
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr)


@dataclass(frozen=True, eq=False)
class LaterMove:
    """``zeros = torch.zeros(n)`` and, below, ``if x.is_cuda: zeros = zeros.cuda()``; nothing between reads the name."""

    made: ast.expr
    """What the name is given first: ``torch.zeros(n)``."""
    statement: ast.Assign
    """``zeros = zeros.cuda()``."""
    condition: ast.If
    other: ast.expr
    """The tensor whose device decides: ``x``."""
    earlier: Mapping[str, ast.expr]
    """What other names hold that it is made of, ``steps`` of ``zeros = steps[None]``, where nothing else reads them."""
    is_only_compared: bool
    """Whether below it is only compared with a column of numbers, so that its elements may share their memory."""


@dataclass(frozen=True, eq=False)
class NextMove:
    """``zeros = torch.zeros(n)`` and, below, ``zeros = zeros.to(device)``; nothing between reads either name."""

    made: ast.expr
    """What the name is given first: ``torch.zeros(n)``."""
    statement: ast.Assign
    """``zeros = zeros.to(device)``."""


def next_move(transfer: Transfer) -> NextMove | None:
    """The statements that a copy is one of, where it takes a name to a device whenever that gets its value."""
    module, target = transfer.module, transfer.target
    statement = module.parent(transfer.call)
    match statement:
        case ast.Assign([ast.Name(name)], value) if value is transfer.call and is_name(transfer.receiver, name):
            pass
        case _:
            return None
    suite = module.suite(statement)
    above = suite[: suite.index(statement)]
    between = list(itertools.takewhile(lambda each: not _mentions(each, name), reversed(above)))
    if len(between) == len(above) or (target is not None and _mentions(target, name)):
        return None
    match above[-1 - len(between)]:
        case ast.Assign([ast.Name(first)], made) if first == name:
            roots = {each.id for each in walk(target) if isinstance(each, ast.Name)} if target is not None else set()
            is_same = not any(_may_bind(each, root) for each in (made, *between) for root in roots)
            is_next = not between or _is_only_passed(module, between, target, {name, *roots})
            return NextMove(made, statement) if is_same and is_next else None
    return None


def read_before(transfer: Transfer) -> tuple[NextMove, ast.Name] | None:
    """The same where something between reads the name, and writes to nothing in it; with the first that does."""
    module = transfer.module
    statement = module.parent(transfer.call)
    match statement:
        case ast.Assign([ast.Name(name)], value) if value is transfer.call and is_name(transfer.receiver, name):
            pass
        case _:
            return None
    suite = module.suite(statement)
    above = suite[: suite.index(statement)]
    between = list(itertools.takewhile(lambda each: name not in bound_names(each), reversed(above)))
    reads = [each for one in reversed(between) for each in walk(one) if is_name(each, name)]
    written = {part for _, one in writes(module) for part in walk(one)}
    if len(between) == len(above) or not reads or any(each in written for each in reads):
        return None
    match above[-1 - len(between)]:
        case ast.Assign([ast.Name(first)], made) if first == name and isinstance(reads[0], ast.Name):
            return NextMove(made, statement), reads[0]
    return None


def _is_only_passed(module: Module, between: Sequence[ast.stmt], target: ast.expr | None, concerned: set[str]) -> bool:
    """Whether the statements between can neither leave, nor see or bind the names concerned in code that they call."""
    function = module.function(between[0])
    if function is None or not all(isinstance(each, _SIMPLE) for each in between):
        return False
    inner = [each for each in walk(function) if isinstance(each, FUNCTIONS) and each is not function]
    is_local = concerned <= bound_names(function) and declared_outer(function).isdisjoint(concerned)
    is_plain = isinstance(target, (ast.Name, ast.Constant, type(None))) or (
        isinstance(target, ast.Attribute) and target.attr == "device" and isinstance(target.value, ast.Name)
    )
    return is_local and is_plain and not any(_mentions(each, name) for each in inner for name in concerned)


def later_move(transfer: Transfer) -> LaterMove | None:
    """The statements that a copy is one of, where it takes a name to the device of a tensor that the ``if`` asks."""
    module = transfer.module
    statement = module.parent(transfer.call)
    match statement:
        case ast.Assign([ast.Name(name)], value) if value is transfer.call and is_name(transfer.receiver, name):
            condition = module.parent(statement)
        case _:
            return None
    match condition:
        case ast.If(ast.Attribute(other, "is_cuda"), _, []) if _root(other) not in {"", name}:
            making = _made_before(module, condition, name, other)
        case _:
            return None
    first = itertools.takewhile(lambda each: each is not statement, condition.body)
    if making is None or any(_mentions(each, name) for each in first) or not _goes_there(transfer, other):
        return None
    earlier = _earlier(module, condition, making, name, other)
    is_only_compared = _is_only_compared(module, condition, name)
    return LaterMove(making.value, statement, condition, other, earlier, is_only_compared)


def _goes_there(transfer: Transfer, other: ast.expr) -> bool:
    """Whether the copy goes to the current CUDA device, or to that of the other tensor."""
    target = transfer.target
    if target is None:
        return transfer.method == "cuda"
    return ast.unparse(target) == f"{ast.unparse(other)}.device"


def _made_before(module: Module, condition: ast.If, name: str, other: ast.expr) -> ast.Assign | None:
    """What gives a name its value above the ``if``, where nothing between mentions it, or binds the other's name."""
    suite = module.suite(condition)
    above = suite[: next(number for number, each in enumerate(suite) if each is condition)]
    between = list(itertools.takewhile(lambda each: not _mentions(each, name), reversed(above)))
    statement = above[-1 - len(between)] if len(between) < len(above) else None
    match statement:
        case ast.Assign([ast.Name(target)], made) if target == name:
            pass
        case _:
            return None
    is_same = not any(_may_bind(each, _root(other)) for each in (made, *between))
    return statement if is_same and (not between or _only_seen_here(module, condition, name, other)) else None


def _earlier(
    module: Module, condition: ast.If, making: ast.Assign, name: str, other: ast.expr
) -> Mapping[str, ast.expr]:
    """What the names hold that are read once, to make the tensor: each is bound above it in the same suite."""
    found: dict[str, ast.expr] = {}
    function, suite = module.function(condition), module.suite(condition)
    todo = [making]
    while todo and function is not None:
        here = todo.pop()
        for read in {each.id for each in walk(here.value) if isinstance(each, ast.Name)} - found.keys():
            last = _bound_above(suite, here, read)
            # The name that is moved is bound again where it is read.
            is_passed_on = (read == name and here is making) or _count(function, read) == len(("bound", "read"))
            if last is None or not is_passed_on or _count(here.value, read) > 1:
                continue
            between = suite[suite.index(last) : suite.index(condition)]
            is_same = not any(_may_bind(each, _root(other)) for each in between)
            if is_same and _only_seen_here(module, condition, read, other):
                found[read] = last.value
                todo.append(last)
    return found


def _bound_above(suite: Sequence[ast.stmt], statement: ast.stmt, name: str) -> ast.Assign | None:
    """The last statement above one that mentions the name, if that gives it a value of something else."""
    above = suite[: suite.index(statement)]
    last = next((each for each in reversed(above) if _mentions(each, name)), None)
    match last:
        case ast.Assign([ast.Name(target)], value) if target == name and not _mentions(value, name):
            return last
    return None


def _count(node: ast.AST, name: str) -> int:
    return sum(is_name(each, name) for each in walk(node))


def is_only_compared(transfer: Transfer) -> bool:
    """Whether the copy gets a name that is only compared with a column below, so that its elements may share memory."""
    statement = transfer.module.parent(transfer.call)
    match statement:
        case ast.Assign([ast.Name(name)], value) if value is transfer.call:
            return _is_only_compared(transfer.module, statement, name)
    return False


def _is_only_compared(module: Module, condition: ast.stmt, name: str) -> bool:
    """Whether all that reads a name below the statement compares it with a column, or asks for its size."""
    function = module.function(condition)
    in_loop = any(isinstance(each, LOOPS) for each in module.ancestors(condition))
    if function is None or in_loop or not _only_seen_here(module, condition, name, ast.Name(name)):
        return False
    names = [each for each in walk(function) if isinstance(each, ast.Name)]
    end = (condition.end_lineno or 0, condition.end_col_offset or 0)
    reads = [each for each in names if each.id == name and (each.lineno, each.col_offset) >= end]
    return bool(reads) and all(_only_looks(module, each) for each in reads)


def _only_looks(module: Module, read: ast.AST) -> bool:
    """``x < lengths.unsqueeze(1)``, ``lengths.unsqueeze(1).expand_as(x)``."""
    match module.parent(read):
        case ast.Compare(left, [ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE() | ast.Eq() | ast.NotEq()], [right]):
            return _is_column(module, right if left is read else left)
        case ast.Call(ast.Attribute(_, "expand_as" | "view_as"), [given], []):
            return given is read
    return False


def _is_column(module: Module, node: ast.expr) -> bool:
    """Whether it is ``x.unsqueeze(1)`` or ``x[:, None]``, maybe expanded, or a name that is given nothing else."""
    if isinstance(node, ast.Name):
        function = module.function(node)
        stores = [each for each in module.stores.get(node.id, ()) if module.function(each) is function]
        statement = module.parent(stores[0]) if len(stores) == 1 else None
        return (
            isinstance(statement, ast.Assign)
            and not is_name(statement.value, node.id)
            and (not isinstance(statement.value, ast.Name) and _is_column(module, statement.value))
        )
    match node:
        case ast.Call(ast.Attribute(value, "expand" | "expand_as")):
            return _is_column(module, value)
        case ast.Call(ast.Attribute(_, "unsqueeze"), [_], []):
            return True
        case ast.Subscript(_, ast.Tuple(parts)):
            return any(isinstance(each, ast.Constant) and each.value is None for each in parts)
    return False


def _only_seen_here(module: Module, condition: ast.stmt, name: str, other: ast.expr) -> bool:
    """Whether no other code can read the one name, or bind the other: what is called between might do so."""
    function = module.function(condition)
    if function is None or not isinstance(other, ast.Name):
        return False
    inner = [each for each in walk(function) if isinstance(each, FUNCTIONS) and each is not function]
    is_local = {name, other.id} <= bound_names(function) and declared_outer(function).isdisjoint({name, other.id})
    return is_local and not any(_mentions(each, name) or _mentions(each, other.id) for each in inner)


def _mentions(node: ast.AST, name: str) -> bool:
    return any(is_name(each, name) for each in walk(node))


def _may_bind(node: ast.AST, name: str) -> bool:
    """Whether it binds a name, or an attribute of what it holds."""
    return name in bound_names(node) or any(
        isinstance(each, (ast.Name, ast.Attribute)) and not isinstance(each.ctx, ast.Load) and _root(each) == name
        for each in walk(node)
    )


def _root(node: ast.AST) -> str:
    """``x`` of ``x.y.z``; nothing of anything but names and their attributes."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def why_other_device(flow: Flow, transfer: Transfer) -> Reason | None:
    """Why the current CUDA device may not be that of the other tensor: the script names one beside the first."""
    if transfer.target is not None:
        return None
    for module in flow.beside(transfer.module):
        for node in module.nodes(ast.Constant):
            if _is_other_index(module, node):
                text = f"the copy goes to the current device, and the script names several ({HERE}):"
                remedy = "name that of the other tensor in the constructor if it is the same"
                return Reason("unknown-device", text, (at(module, node),), remedy=remedy)
    return None


def _is_other_index(module: Module, node: ast.Constant) -> bool:
    """``"cuda:1"``, or ``1`` in ``x.cuda(1)``."""
    if isinstance(node.value, str):
        return _OTHER_INDEX.fullmatch(node.value) is not None
    call = module.parent(node)
    is_move = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _TAKES_INDEX
    return is_move and type(node.value) is int and node.value > 0
