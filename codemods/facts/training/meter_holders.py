"""Which objects of the project hold meters only to show them: ``progress = ProgressMeter(n, [losses, top1])``?"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.placement import is_pythons_own
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import walk
from codemods.facts.training.plain_meters import (
    class_alone,
    holds_containers,
    is_looked_at,
    may_leave,
    me_of,
    methods_alone,
)
from codemods.facts.training.totals_of_items import is_bound_otherwise, surely_before

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.training.totals import Loop

_DISPLAYS = (ast.List, ast.Tuple)


class Holder(NamedTuple):
    """An object that has one name of a function, and shows the meters that it was given."""

    name: str
    given: ast.Name
    """Where the call that makes it names the meter, after that is made and before the loop."""
    class_: ast.ClassDef


def holder(flow: Flow, module: Module, loop: Loop, meter: ast.Name, class_: ast.ClassDef) -> Holder | None:
    """The object that is given a meter where its name stands; None where other code may get the meter by that.

    Args:
        flow: The values of the project.
        module: Where the loop stands.
        loop: The loop that tells the meter numbers.
        meter: Where the function of the loop writes the name of the meter.
        class_: The class of the meter.
    """
    made = module.statement(meter)
    match made:
        case ast.Assign([ast.Name(name) as target], ast.Call() as call) if surely_before(module, made, loop):
            stores = [each for each in module.stores.get(name, ()) if module.function(each) is module.function(loop)]
            if stores != [target] or is_bound_otherwise(module, loop, name):
                return None
            found = _class_that_shows(flow, module, call, meter, class_)
            return None if found is None else Holder(name, meter, found)
    return None


def _class_that_shows(
    flow: Flow, module: Module, call: ast.Call, meter: ast.Name, class_: ast.ClassDef
) -> ast.ClassDef | None:
    """The class of what a call makes, where its methods do nothing but show the meter that the call is given."""
    made = class_alone(flow, call)
    methods = methods_alone(made) if made is not None else None
    init = next((each for each in methods or () if each.name == "__init__"), None)
    if methods is None or init is None:
        return None
    where = flow.module_of(init)
    parameter = _parameter(flow, module, init, call, meter)
    if parameter is None or any(may_leave(where, methods, each) or _takes_all(each) for each in methods):
        return None
    return made if _Showing(where, class_, methods).holds(init, *parameter) else None


def _takes_all(method: ast.FunctionDef) -> bool:
    """Whether it hands on all attributes of its object: ``**self.__dict__``."""
    return any(isinstance(each, ast.Attribute) and each.attr == "__dict__" for each in walk(method))


def _parameter(
    flow: Flow, module: Module, init: ast.FunctionDef, call: ast.Call, meter: ast.Name
) -> tuple[str, bool] | None:
    """The parameter that is given the meter, and whether it is the meter itself, not a list of several."""
    binding, above = flow.bind(init, call), module.parent(meter)
    if not binding.is_whole:
        return None
    for name, argument in binding.given.items():
        if argument is meter or (isinstance(argument, _DISPLAYS) and above is argument):
            return name, argument is meter
    rest = signature(init).vararg
    return (rest.arg, False) if rest is not None and meter in call.args and meter in binding.rest else None


@dataclass(frozen=True, eq=False)
class _Showing:
    """What methods of a class do with a meter, or several, that the constructor is given."""

    module: Module
    class_: ast.ClassDef
    """The class of the meter."""
    methods: list[ast.FunctionDef]

    def holds(self, init: ast.FunctionDef, parameter: str, is_one: bool) -> bool:  # noqa: FBT001 - of what is asked
        """Whether nothing is done with it but to show it."""
        uses = [each for each in walk(init) if isinstance(each, ast.Name) and each.id == parameter]
        kept = [each for each in map(self._attribute, uses) if each is not None]
        if any(not isinstance(each.ctx, ast.Load) for each in uses):
            return False
        others = (each for each in uses if self._attribute(each) is None)
        return all(self._is_shown(init, each, is_one) for each in others) and all(
            self._is_attribute_shown(each, is_one) for each in kept
        )

    def _attribute(self, use: ast.Name) -> ast.Attribute | None:
        """The attribute of the object that keeps what the constructor is given: ``self.meters = meters``."""
        match self.module.parent(use):
            case ast.Assign([ast.Attribute(ast.Name(id=me)) as kept], value) if value is use:
                return kept if any(me == me_of(each) for each in self.methods if use in walk(each)) else None
        return None

    def _is_attribute_shown(self, kept: ast.Attribute, is_one: bool) -> bool:  # noqa: FBT001 - of what is asked
        attributes = ((one, each) for one in self.methods for each in walk(one) if isinstance(each, ast.Attribute))
        return all(
            isinstance(each.ctx, ast.Load) and self._is_shown(method, each, is_one)
            for method, each in attributes
            if each.attr == kept.attr and each is not kept
        )

    def _is_shown(self, method: ast.FunctionDef, use: ast.expr, is_one: bool) -> bool:  # noqa: FBT001 - of what is asked
        return self._is_looked_at(use) if is_one else self._are_shown(method, use)

    def _is_looked_at(self, use: ast.expr) -> bool:
        return is_looked_at(self.module, self.class_, use, has_parts=holds_containers(self.class_))

    def _are_shown(self, method: ast.FunctionDef, use: ast.expr) -> bool:
        """Whether a method goes through several meters there and shows each, or makes texts of all."""
        match self.module.parent(use):
            case ast.For(ast.Name(name), iterated) if iterated is use:
                return self._is_each_shown(method, name)
            case ast.comprehension(ast.Name(name), iterated) if iterated is use:
                return self._is_at_once(use) and self._is_each_shown(method, name)
            case ast.Call(ast.Name("map"), [ast.Name("str"), _], []) as call:
                above = self.module.parent(call)
                is_joined = isinstance(above, ast.Call) and _is_join(above)
                return is_joined and all(is_pythons_own(self.module, each, method) for each in ("map", "str"))
            case ast.Call(ast.Name("len"), [_], []):
                return is_pythons_own(self.module, "len", method)
        return False

    def _is_at_once(self, iterated: ast.expr) -> bool:
        """Whether a comprehension runs where it stands: a generator, where it is joined."""
        around = self.module.parent(self.module.parent(iterated))  # type: ignore[arg-type]
        if not isinstance(around, ast.GeneratorExp):
            return True
        above = self.module.parent(around)
        return isinstance(above, ast.Call) and _is_join(above)

    def _is_each_shown(self, method: ast.FunctionDef, name: str) -> bool:
        uses = [each for each in walk(method) if isinstance(each, ast.Name) and each.id == name]
        return all(
            self._is_looked_at(each) if isinstance(each.ctx, ast.Load) else self._is_target(each) for each in uses
        )

    def _is_target(self, name: ast.Name) -> bool:
        """Whether a loop or comprehension gives the name its items."""
        parent = self.module.parent(name)
        return isinstance(parent, (ast.For, ast.comprehension)) and parent.target is name


def _is_join(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "join"
