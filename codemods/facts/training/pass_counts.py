"""Does a loop surely end soon, as far as what it counts to is known, or is the default of an option?"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.names import bound_names
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import last_name, unparsed, walk
from codemods.dataflow.values import Choice, Literal, library_names
from codemods.facts.loops import module_of
from codemods.facts.reach import own
from codemods.facts.reaching import reaching
from codemods.facts.workers.arguments import options

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codemods.dataflow.source import Module
    from codemods.facts.script import Script
    from codemods.facts.training.totals import Loop

_COUNTING = frozenset({"builtins.range", "tqdm.trange", "tqdm.auto.trange", "itertools.count", "itertools.cycle"})
_LENGTHS = frozenset({"len", "size"})
_OF_INDICES = frozenset({"numpy.arange", "numpy.random.permutation", "torch.arange", "torch.randperm"})
"""What makes an index of so many items, which are in memory then."""
_BOUNDS = 2
"""How many arguments of ``range`` say how far it goes: a step makes passes fewer."""


def is_short(script: Script, module: Module, loop: Loop, most: int) -> bool:
    """Whether a loop goes through data, or counts to its length, or to no more than so many."""
    if not isinstance(loop, ast.For):
        return False
    counting = (
        each
        for each in walk(loop.iter)
        if isinstance(each, ast.Call) and library_names(script.flow.values(each.func)) & _COUNTING
    )
    counts = _Counts(script)
    return all(
        bool(each.args) and all(counts.is_bound(module, each, one, most) for one in each.args[:_BOUNDS])
        for each in counting
    )


@dataclass(frozen=True)
class _Counts:
    """What numbers come to that a script counts to, where the user leaves the defaults of options."""

    script: Script

    @cached_property
    def _defaults(self) -> Mapping[str, object]:
        return {f"args.{each.name}": each.default for each in options(self.script)}

    def is_small(self, module: Module, node: ast.expr, most: int) -> bool:
        """Whether it is of the length of data, or no more than so many."""
        if any(isinstance(each, ast.Call) and last_name(each.func) in _LENGTHS for each in walk(node)):
            return True
        amount = self._amount(module, node, frozenset())
        return amount is not None and amount <= most

    def is_bound(self, module: Module, counting: ast.Call, node: ast.expr, most: int) -> bool:
        """Whether the call counts to no more than this: so it does to what is small, or in steps through an index."""
        in_steps = len(counting.args) > _BOUNDS
        return self.is_small(module, node, most) or (in_steps and self._has_index(module, node))

    def _has_index(self, module: Module, node: ast.expr) -> bool:
        """Whether the function makes an index of so many items, of which passes take parts: ``torch.randperm(n)``."""
        text = unparsed(node)
        for call in own(module.function(node) or module.tree, ast.Call):
            if [unparsed(each) for each in call.args] == [text]:
                called = library_names(self.script.flow.values(call.func))
                if called and called <= _OF_INDICES:
                    return True
        return False

    def _amount(self, module: Module, node: ast.expr, within: frozenset[ast.expr]) -> float | None:
        """The most that an expression may come to; None where that is not known."""
        if node in within:
            return None
        within |= {node}
        match node:
            case ast.BinOp(left, ast.Mult() | ast.Add() as operator, right):
                one, other = (self._amount(module, each, within) for each in (left, right))
                if one is None or other is None or min(one, other) < 0:
                    return None
                return one * other if isinstance(operator, ast.Mult) else one + other
            case ast.BinOp(left, ast.FloorDiv() | ast.Div(), ast.Constant(int() | float() as by)) if by > 0:
                whole = self._amount(module, left, within)
                return whole / by if whole is not None and whole >= 0 else None
            case ast.Call(ast.Name("int"), [inner], []):
                return self._amount(module, inner, within)
            case ast.Attribute(attr=name) if (default := self._default(node, name)) is not None:
                return default
        values = self.script.flow.values(node)
        numbers = [each.value for each in values if isinstance(each, Literal)]
        known = [each for each in numbers if isinstance(each, (int, float)) and not isinstance(each, bool)]
        if values and len(known) == len(values):
            return max(known)
        given = [self._amount(where, each, within) for where, each in self._given(module, node)]
        return max(each for each in given if each is not None) if given and None not in given else None

    def _default(self, node: ast.Attribute, name: str) -> int | None:
        """The default of an option that nothing overwrites."""
        default = self._defaults.get(f"args.{name}")
        is_option = self.script.flow.values(node) == {Choice(f"args.{name}")}
        stores = (each for module in self.script.modules for each in module.nodes(ast.Attribute) if each.attr == name)
        if not is_option or any(isinstance(each.ctx, ast.Store) for each in stores):
            return None
        return default if isinstance(default, int) and not isinstance(default, bool) else None

    def _given(self, module: Module, name: ast.expr) -> Iterator[tuple[Module, ast.expr]]:
        """What a name holds, or a parameter that its function does not bind anew is given by all calls."""
        if not isinstance(name, ast.Name):
            return
        flow, function = self.script.flow, module.function(name)
        if function is None or name.id not in signature(function).names:
            scope = function if function is not None and name.id in bound_names(function) else module.tree
            yield from ((module, each) for each in reaching(scope).given(name) or ())
            return
        stores = (each for each in module.stores.get(name.id, ()) if module.function(each) is function)
        if any(stores) or flow.escapes(function):
            return
        found: list[tuple[Module, ast.expr]] = []
        for call in flow.callers(function):
            binding = flow.bind(function, call)
            given = binding.get(name.id) or signature(function).defaults.get(name.id)
            if not binding.is_whole or given is None:
                return
            found.append((module_of(flow, call), given))
        yield from found
