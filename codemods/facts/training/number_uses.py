"""What does an iteration use a number for that it reads from the device: who reads it, not where it is put?"""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.source import last_name, unparsed, walk
from codemods.facts.reach import own
from codemods.facts.reaching import is_seen_elsewhere, reaching
from codemods.facts.training.step_loops import rare_suite
from codemods.facts.training.sums import MANY, needed

if TYPE_CHECKING:
    from codemods.dataflow.source import Callee, Module
    from codemods.facts.devices.readings import Reading
    from codemods.facts.reason import Reason
    from codemods.facts.training.totals import Loop

KEEPING = frozenset({"append", "extend", "insert", "add", "update", "put", "appendleft"})
"""Methods that keep what they are given."""
_HANDING_ON = frozenset({"format", "float", "int", "round", "str"})
"""Calls that hand a number on."""
_REPORTING = frozenset(
    {
        *("print", "write", "log", "debug", "info", "warning", "set_description", "set_description_str"),
        *("set_postfix", "set_postfix_str", "add_scalar", "add_scalars", "log_metric", "log_metrics", "report"),
    }
)
"""What tells the user of a number, and need not do so in each iteration."""
_LONG = 40
_APART = "write a statement for each"


class Use(NamedTuple):
    """What an iteration uses a number for."""

    node: ast.AST
    """Where it does."""
    text: str
    """As the first part of a sentence."""
    remedy: str = ""
    decides: bool = True
    """Whether it needs the number itself: what is only kept may be kept as a tensor."""

    def because(self, module: Module) -> Reason:
        """The reason for which the number is needed."""
        return needed(module, self.node, self.text, self.remedy)


def why_needed(module: Module, loop: Loop | Callee, one: Reading, *, if_kept: str = "") -> Reason:
    """What the number is needed for in each pass of the loop.

    Args:
        module: Where the loop stands.
        loop: The loop, or a function that each pass of one calls.
        one: What is read.
        if_kept: What to do where the number is only kept.
    """
    use = use_in_passes(module, loop, one.node) or Use(one.node, "its value is used on the host in each iteration")
    return (use if use.decides or use.remedy else use._replace(remedy=if_kept)).because(module)


def use_of_sum(module: Module, loop: Loop, target: ast.Attribute | ast.Subscript) -> Use | None:
    """What passes of the loop use the sum for that an attribute or item holds; None where none is seen to read it."""
    written = unparsed(target)
    for each in own(loop, type(target)):
        if isinstance(each.ctx, ast.Load) and unparsed(each) == written and rare_suite(module, loop, each) is None:
            use = _of_expression(module, each, f"'{written}'")
            if use is not None:
                return use
    return None


def use_in_passes(module: Module, loop: Loop | Callee, node: ast.expr, what: str = "its value") -> Use | None:
    """What passes of the loop use a number for; by the name that it is given, if it is given one.

    Args:
        module: Where the loop stands.
        loop: The loop, or a function that each pass of one calls.
        node: What gives the number.
        what: What the number is called.
    """
    statement = module.statement(node)
    around = itertools.takewhile(lambda each: each is not statement, module.ancestors(node))
    call = next(
        (each for each in around if isinstance(each, ast.Call) and last_name(each.func) not in _HANDING_ON), None
    )
    match statement:
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign() if call is not None:
            return _of_call(call.func, node, what)
        case ast.Assign([ast.Name(id=name)], value) | ast.AnnAssign(ast.Name(id=name), value=ast.expr() as value):
            return _of_name(module, loop, name, value) or _unread(module, name, value, what) or _kept(node, what, name)
        case ast.Assign([ast.Tuple()], ast.Tuple()):
            return Use(node, f"{what} is given to one of several names in each iteration", _APART, decides=False)
        case ast.Assign([target]) | ast.AugAssign(target):
            return _kept(node, what, unparsed(target))
    return _of_expression(module, node, what)


def _of_name(module: Module, loop: Loop | Callee, name: str, value: ast.expr) -> Use | None:
    """What the name is read for that the number was given; None where nobody is seen to read it."""
    inside = walk(loop)
    reads = [each for each in reaching(module.function(value) or module.tree).readers(value) if each in inside]
    often = [each for each in reads if rare_suite(module, loop, each) is None]
    uses = [use for each in often if (use := _of_expression(module, each, f"'{each.id}'")) is not None]
    if uses:
        return next((each for each in uses if each.decides), uses[0])
    if reads and not often:
        text = f"'{name}' is read from the device in each iteration, and used in few"
        return Use(reads[0], text, "ask for the number there")
    return None


def _unread(module: Module, name: str, value: ast.expr, what: str) -> Use | None:
    """That nothing reads the name that the number was given; None where something may."""
    scope = module.function(value)
    targets = (each for each in own(module.statement(value), ast.Name) if isinstance(each.ctx, ast.Store))
    is_shared = (scope is None and module.notebook) or any(is_seen_elsewhere(module, each) for each in targets)
    if is_shared or reaching(scope or module.tree).readers(value):
        return None
    return Use(value, f"{what} is kept in '{name}' in each iteration, and nothing reads that", "remove it")


def _of_expression(module: Module, node: ast.expr, what: str) -> Use | None:
    """What the statement around an expression does with it."""
    below: ast.AST = node
    statement = module.statement(node)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return _of_call(statement.value.func, node, what)
    for above in module.ancestors(node):
        match above:
            case ast.Call(func) if below is not func and last_name(func) not in _HANDING_ON:
                return _of_call(func, node, what)
            case ast.BinOp(left, op) if not (isinstance(op, ast.Mod) and _is_text(left)):
                written = unparsed(above)
                shown = f"'{written}'" if len(written) <= _LONG else "a sum or product"
                return Use(node, f"{shown} is computed with {what} in each iteration")
            case ast.Compare() | ast.BoolOp() | ast.IfExp() | ast.If() | ast.While():
                return Use(node, f"the iteration goes on by {what}", MANY)
            case ast.Return():
                return Use(node, f"{what} is returned in each iteration", decides=False)
            case ast.Assign([target]) | ast.AugAssign(target):
                return _kept(node, what, unparsed(target))
            case ast.stmt():
                return None
        below = above
    return None


def _of_call(func: ast.expr, node: ast.expr, what: str) -> Use:
    name = last_name(func) or unparsed(func)
    if name in KEEPING:
        return Use(node, f"{name}() keeps {what} in each iteration", decides=False)
    return Use(node, f"{name}() is given {what} in each iteration", MANY if name in _REPORTING else "")


def _kept(node: ast.expr, what: str, where: str) -> Use:
    return Use(node, f"{what} is kept in '{where}' in each iteration", decides=False)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
