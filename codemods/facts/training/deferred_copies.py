"""When may a count that is copied to the host in each pass of a loop, ``n += hits.cpu().sum()``, stay on the device?"""

from __future__ import annotations

import ast
import itertools
import re
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.names import words
from codemods.dataflow.source import LOOPS, walk
from codemods.facts.devices.readings import Reading, is_copy_to_host, is_on_device
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.sums import Deferral, is_number, zero_division
from codemods.facts.training.totals import Held, added
from codemods.facts.training.totals_of_items import is_bound_otherwise, surely_before

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module

_READING = words("float int round")
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_AS_TEXT = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?[sra]")
_NONE = -1
"""The conversion of ``f"{n}"``, where ``f"{n!r}"`` has one: that writes a tensor with its device."""


class Copy(Reading):
    """The copy to the host in a sum that a loop keeps: ``hits.cpu()`` of ``n += hits.cpu().sum()``."""


class DeferredCopy(Deferral):
    """A count that is a tensor of the host because what is added is copied there, and can be one of the device."""

    def why_not(self) -> Reason | None:
        """Why the count has to be on the host, or would be another one, or show where it is."""
        return (
            self.why_unknown()
            or self._why_read()
            or self.total.why_seen(self.flow)
            or self._why_no_count()
            or self._why_shown()
        )

    @property
    def is_divided(self) -> bool:
        """Whether a share of it is computed, which CUDA may round otherwise."""
        reads = () if self.copied_after is not None else (*self.total.read_inside, *self.total.read_after)
        return any(
            isinstance(above, ast.BinOp) and isinstance(above.op, ast.Div)
            for each in reads
            for above in self.total.module.ancestors(each)
        )

    def _why_no_count(self) -> Reason | None:
        """Why it may be no sum of integers: those of floats round otherwise on a device."""
        total = self.total
        if total.starts <= {Held.INTEGER, Held.FLOAT} and all(map(self._is_integral, self.readings)):
            return None
        text = f"whether '{total.name}' is a sum of integers is not known ({HERE})"
        return Reason("unknown-number", text, (at(total.module, total.additions[0]),))

    def _why_shown(self) -> Reason | None:
        """Why something would tell a tensor of the device from one of the host: all but arithmetic and formats."""
        for each in (*self.total.read_inside, *self.total.read_after):
            if each is not self.copied_after and not _is_number_there(self.flow, self.total.module, each):
                text = f"'{self.total.name}' is used as a tensor of the host ({HERE}):"
                where = (at(self.total.module, each),)
                return Reason("seen-elsewhere", text, where, remedy=f"write {self.total.name}.item() there")
        return None

    @cached_property
    def copied_after(self) -> ast.expr | None:
        """Where the count itself can be copied to the host, as it is used as a tensor there: once, and if it is one.

        It is one if the loop has passes, and each adds to it. Where it has none, the script divides by 0 there.
        """
        total, module = self.total, self.total.module
        if total.read_inside or len(total.read_after) != 1 or not all(map(self._is_in_each_pass, total.additions)):
            return None
        (read,) = total.read_after
        if _is_number_there(self.flow, module, read) or zero_division(self.flow) is not None:
            return None
        above = itertools.takewhile(lambda each: not isinstance(each, ast.stmt), module.ancestors(read))
        divisors = (each.right for each in above if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Div))
        return read if any(isinstance(each, ast.Name) and self._is_zero_before(each) for each in divisors) else None

    def _is_in_each_pass(self, statement: ast.stmt) -> bool:
        """Whether each pass of the loop comes to a statement."""
        body = self.total.loop.body
        before = body[: body.index(statement)] if statement in body else None
        leaving = (ast.Continue, ast.Break)
        return before is not None and not any(isinstance(each, leaving) for one in before for each in walk(one))

    def _is_zero_before(self, name: ast.Name) -> bool:
        """Whether the name holds 0 where no pass of the loop has run: ``total`` of ``correct / total``."""
        module, loop = self.total.module, self.total.loop
        stores = [each for each in module.stores.get(name.id, ()) if module.function(each) is self.total.function]
        outside = [module.statement(each) for each in stores if each not in self.total.inside]
        match outside:
            case [ast.Assign([ast.Name()], ast.Constant(0)) as start]:
                around = (each for each in module.ancestors(loop) if isinstance(each, LOOPS))
                is_new = surely_before(module, start, loop) and all(start in walk(each) for each in around)
                return is_new and not is_bound_otherwise(module, loop, name.id)
        return False


def copied(flow: Flow, module: Module, node: ast.AST) -> Copy | None:
    """The copy that a node is, of what a statement adds up: ``x.cpu().sum()``, ``x.sum().cpu()``; None of all else."""
    if not isinstance(node, ast.Call) or not is_copy_to_host(flow, node) or node.keywords:
        return None
    tensor = node.func.value  # type: ignore[attr-defined]
    above = module.parent(module.parent(node) or node)
    whole = above if _is_sum(above) and above.func.value is node else node  # type: ignore[union-attr]
    pair = added(module.statement(node))
    if pair is None or not pair[0].isidentifier() or pair[1] is not whole or not (whole is not node or _is_sum(tensor)):
        return None
    return Copy(module, node, tensor, cuts=False, is_sure=is_on_device(flow, module, tensor))


def _is_sum(node: ast.AST | None) -> bool:
    """``x.sum()``, which has no dimensions."""
    match node:
        case ast.Call(ast.Attribute(attr="sum"), [], []):
            return True
    return False


def _is_number_there(flow: Flow, module: Module, name: ast.expr) -> bool:
    """Whether nothing but a number comes of the tensor: it is written into a text, or made one of Python's."""
    below: ast.AST = name
    for above in module.ancestors(name):
        match above:
            case ast.BinOp(ast.Constant(str(text)), ast.Mod()):
                return _AS_TEXT.search(text) is None
            case ast.FormattedValue(conversion=conversion):
                return conversion == _NONE
            case ast.BinOp(left, operator, right) if isinstance(operator, _ARITHMETIC):
                # An array or number of NumPy's that stands first asks the tensor for its memory.
                if below is right and not is_number(flow, module, left):
                    return False
            case ast.Tuple() if isinstance(module.parent(above), ast.BinOp):
                pass
            case ast.Attribute(attr="item"):
                return True
            case ast.Call(ast.Attribute(ast.Constant(str(text)), "format")):
                return "!" not in text
            case ast.Call(ast.Name(called)) if called in _READING and below in above.args:
                return True
            case _:
                return False
        below = above
    return False
