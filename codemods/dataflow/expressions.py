"""What expressions may be at one point of a unit, and what they are bound to.

Local names are looked up in the environment of that point. Whatever other code can see, such as attributes, items and
parameters, is read from and joined into the flow.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, ClassVar

from codemods.dataflow import names
from codemods.dataflow.environments import Environment
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import children, kept, walk
from codemods.dataflow.values import (
    ANY,
    NONE,
    NOTHING,
    PLAIN,
    UNBOUND,
    UNKNOWN_KEY,
    Arguments,
    Choice,
    Container,
    Function,
    Instance,
    Literal,
    Tensor,
    Unknown,
    Value,
    Values,
    external,
    joined,
    keys_of,
    leading_text,
    path,
    text_starting,
    unknown,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee
    from codemods.dataflow.units import Unit

_UNBOUND: Values = frozenset({UNBOUND})
_MOST_SPREAD = 32
"""Arguments that ``*`` stands for: ``def f(*args): f(0, *args)`` would have one more in each pass."""
_OF_EVERY_MODULE = frozenset({"__name__", "__file__", "__doc__", "__package__", "__path__", "__spec__"})


class Expressions:
    """Evaluates the expressions of a unit.

    The method that handles a node is called like the node's class, as in ``ast.NodeVisitor``; a node of a class without
    one is only looked through.
    """

    handlers: ClassVar[Mapping[type[ast.AST], Callable[[Any, Any], Values]]]
    """The method that handles nodes of a class."""

    def __init_subclass__(cls) -> None:
        types = [each for each in vars(ast).values() if isinstance(each, type) and issubclass(each, ast.AST)]
        cls.handlers = {each: getattr(cls, f"_{each.__name__.lower()}", cls._look_through) for each in types}

    def __init__(self, flow: Flow, unit: Unit) -> None:
        self._flow = flow
        self._unit = unit
        self._env = Environment()
        self._class: ast.ClassDef | None = None

    def _evaluate(self, node: ast.expr) -> Values:
        values = self.handlers[type(node)](self, node)
        self._flow.see(node, values)
        return values

    def _value(self, node: ast.expr) -> Values:
        return self.handlers[type(node)](self, node)

    def _look_through(self, node: ast.AST) -> Values:
        """Evaluates the parts of a node of which nothing more is to be known."""
        for child in children(node):
            if isinstance(child, ast.expr):
                self._evaluate(child)
        return PLAIN

    def _constant(self, node: ast.Constant) -> Values:
        return _literal(node)

    def _joinedstr(self, node: ast.JoinedStr) -> Values:
        self._look_through(node)
        first = node.values[0] if node.values else None
        return text_starting(first.value) if isinstance(first, ast.Constant) and isinstance(first.value, str) else PLAIN

    def _name(self, node: ast.Name) -> Values:
        name = node.id
        values = self._env.find(name)
        if values is not None:
            return values if values.isdisjoint(_UNBOUND) else values - _UNBOUND
        home = self._home(name)
        if home is self._unit.node and name not in self._unit.shared:
            return NOTHING  # bound in this unit, but not on the way here
        if home is not None:
            return self._flow.read("name", home, name)
        own = self._flow.from_star(self._unit.module, name)
        if own is not None:
            return own  # nothing, until the module that is imported has been interpreted
        star = names.star_name(name, self._flow.star_sources(self._unit.module))
        if star is not None:
            return external(star)
        if name in names.BUILTINS:
            return external(f"builtins.{name}")
        if name in _OF_EVERY_MODULE:
            return PLAIN
        return unknown(f"'{name}' is defined in no place that can be seen")

    def _attribute(self, node: ast.Attribute) -> Values:
        found = NOTHING
        for owner in self._evaluate(node.value):
            if isinstance(owner, Choice) and node.attr in self._unit.scope.written:
                found = joined(found, self._chosen(owner, node.attr))
            else:
                found = joined(found, self._flow.attribute(owner, node.attr))
        return found

    def _chosen(self, owner: Value, name: str) -> Values:
        """The user's choice where the unit itself overwrites it: as chosen before that, as written after."""
        here = path(owner, name)
        written = self._env.get(here, _UNBOUND)
        return joined(written - _UNBOUND, frozenset({Choice(here)}) if UNBOUND in written else NOTHING)

    def _subscript(self, node: ast.Subscript) -> Values:
        key = self._evaluate(node.slice)
        owners = self._evaluate(node.value)
        return joined(*[self._flow.item(owner, key, node) for owner in owners])

    def _tuple(self, node: ast.Tuple | ast.List | ast.Set) -> Values:
        items: dict[object, Values] = {}
        for index, element in enumerate(node.elts):
            values = self._evaluate(element)
            key = UNKNOWN_KEY if isinstance(element, ast.Starred) or UNKNOWN_KEY in items else index
            items[key] = joined(items.get(key, NOTHING), values)
        return self._flow.container(type(node).__name__.lower(), node, items)

    _list = _set = _tuple

    def _dict(self, node: ast.Dict) -> Values:
        items: dict[object, Values] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            values = self._evaluate(value)
            if key is None:
                self._flow.merge(node, values)
            else:
                for each in keys_of(self._evaluate(key)):
                    items[each] = joined(items.get(each, NOTHING), values)
        return self._flow.container("dict", node, items)

    def _listcomp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Values:
        around = self._env
        for generator in node.generators:
            elements = self._flow.elements(self._evaluate(generator.iter), generator.iter)
            self._bind_inside(generator.target, elements)
            for condition in generator.ifs:
                self._evaluate(condition)
        if isinstance(node, ast.DictComp):
            kind, keys, values = "dict", keys_of(self._evaluate(node.key)), self._evaluate(node.value)
        else:
            kind, keys = "iterator" if isinstance(node, ast.GeneratorExp) else "list", frozenset({UNKNOWN_KEY})
            values = self._evaluate(node.elt)
        inside, self._env = self._env, around
        for each in walk(node):
            if isinstance(each, ast.NamedExpr):
                self._bind_name(each.target.id, inside.get(each.target.id, NOTHING))
        return self._flow.container(kind, node, dict.fromkeys(keys, values))

    _setcomp = _generatorexp = _dictcomp = _listcomp

    def _bind_inside(self, target: ast.expr, values: Values) -> None:
        """Binds a comprehension's target, which only the comprehension and the functions in it see."""
        self._flow.see(target, values)
        if isinstance(target, ast.Name):
            self._flow.write("name", self._unit.node, target.id, values)
            self._env = self._env.bind(target.id, values)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for element, each in self._unpacked(target, values):
                self._bind_inside(element, each)

    def _lambda(self, node: ast.Lambda) -> Values:
        self._flow.add_unit(node, self._unit)
        self._take_defaults(node)
        return frozenset({Function("a lambda", node)})

    def _ifexp(self, node: ast.IfExp) -> Values:
        self._evaluate(node.test)
        return joined(self._evaluate(node.body), self._evaluate(node.orelse))

    def _boolop(self, node: ast.BoolOp) -> Values:
        if isinstance(node.op, ast.And):
            return joined(*[self._evaluate(each) for each in node.values])
        return joined(*[self._where_true(each) for each in node.values[:-1]], self._evaluate(node.values[-1]))

    def _where_true(self, node: ast.expr) -> Values:
        """What the expression is wherever it is true: ``test and value`` is the value then."""
        if not (isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And)):
            return self._evaluate(node)
        values = [self._evaluate(each) for each in node.values]
        self._flow.see(node, joined(*values))
        return values[-1]

    def _unaryop(self, node: ast.UnaryOp) -> Values:
        operand = self._evaluate(node.operand)
        if isinstance(node.op, ast.Not):
            # `not args.no_cuda` is as much the user's choice as `args.no_cuda`.
            return frozenset(each for each in operand if isinstance(each, (Choice, Unknown))) or PLAIN
        if (
            isinstance(node.op, ast.USub)
            and isinstance(node.operand, ast.Constant)
            and isinstance(node.operand.value, int)
        ):
            return frozenset({Literal(f"-{each.name}") for each in operand if isinstance(each, Literal)}) or PLAIN
        return self._flow.combined(operand)

    def _binop(self, node: ast.BinOp) -> Values:
        left, right = self._evaluate(node.left), self._evaluate(node.right)
        if not left or not right:
            return NOTHING  # what a number makes of a tensor that is yet to come is no number
        start = leading_text(left) if isinstance(node.op, (ast.Add, ast.Mod)) else None
        if start is not None:
            return text_starting(start)
        operands = joined(left, right)
        containers = [each for each in operands if isinstance(each, Container)]
        if not containers or not isinstance(node.op, (ast.Add, ast.Mult, ast.BitOr)):
            return self._flow.operation(node, left, right)
        if isinstance(node.op, ast.BitOr):
            self._flow.merge(node, operands)
        elif isinstance(node.op, ast.Add) and _is_whole(node.left):
            self._flow.put_all(node, self._appended(left, right))
        else:
            others = frozenset(each for each in operands if isinstance(each, Unknown))
            self._flow.put(node, UNKNOWN_KEY, joined(others, *[self._flow.items(each) for each in containers]))
        return joined(*[self._flow.container(each.name, node) for each in containers])

    def _appended(self, first: Values, right: Values) -> Mapping[object, Values]:
        """The items of ``(loss,) + outputs``: those of the second tuple stand behind those of the first."""
        (left,) = first
        count = len(self._flow.keys(left))
        found: dict[object, Values] = {place: self._flow.items(left, place) for place in range(count)}
        for each in right:
            if isinstance(each, Container) and each.name == "tuple":
                for key in self._flow.keys(each):
                    place = key + count if isinstance(key, int) and key + count < _MOST_SPREAD else UNKNOWN_KEY
                    found[place] = joined(found.get(place, NOTHING), self._flow.items(each, key))
            else:
                rest = frozenset({each}) if isinstance(each, (Unknown, Tensor)) else NOTHING
                found[UNKNOWN_KEY] = joined(found.get(UNKNOWN_KEY, NOTHING), rest)
        return found

    def _compare(self, node: ast.Compare) -> Values:
        parts = joined(self._evaluate(node.left), *[self._evaluate(each) for each in node.comparators])
        return frozenset(each for each in self._flow.combined(parts) if not isinstance(each, Literal)) or PLAIN

    def _namedexpr(self, node: ast.NamedExpr) -> Values:
        values = self._evaluate(node.value)
        self._bind(node.target, values)
        return values

    def _starred(self, node: ast.Starred) -> Values:
        return self._flow.elements(self._evaluate(node.value), node)

    def _await(self, node: ast.Await) -> Values:
        return self._evaluate(node.value)

    def _yieldfrom(self, node: ast.YieldFrom) -> Values:
        return self._yielded(self._flow.elements(self._evaluate(node.value), node))

    def _yield(self, node: ast.Yield) -> Values:
        return self._yielded(self._evaluate(node.value) if node.value is not None else frozenset({NONE}))

    def _yielded(self, values: Values) -> Values:
        iterator = self._flow.container("iterator", self._unit.node, {UNKNOWN_KEY: values})
        self._flow.write("return", self._unit.node, "", iterator)
        return PLAIN

    def _call(self, node: ast.Call) -> Values:
        callees = self._flow.taking(self._evaluate(node.func), node)
        return self._flow.apply(callees, node, self._arguments(node))

    def _arguments(self, node: ast.Call) -> Arguments:
        positional: list[Values] = []
        keywords: dict[str, Values] = {}
        rest = NOTHING
        unknown_keywords = False
        for argument in node.args:
            values = self._evaluate(argument)
            if isinstance(argument, ast.Starred):
                fixed = self._fixed_items(self._flow.values(argument.value))
                positional.extend(fixed)
                rest = joined(rest, NOTHING if fixed else values)
            elif rest:
                rest = joined(rest, values)
            else:
                positional.append(values)
        for keyword in node.keywords:
            values = self._evaluate(keyword.value)
            if keyword.arg is not None:
                keywords[keyword.arg] = values
                continue
            for each in values - {NONE}:
                known = self._flow.keys(each) if isinstance(each, Container) else {UNKNOWN_KEY}
                unknown_keywords = unknown_keywords or UNKNOWN_KEY in known
                for key in known:
                    if isinstance(key, str):
                        keywords[key] = joined(keywords.get(key, NOTHING), self._flow.items(each, key))
        return Arguments(tuple(positional), keywords, rest, unknown_keywords)

    def _fixed_items(self, values: Values) -> list[Values]:
        """The items, in order, of what is spread into a call, where it is one sequence of known length."""
        containers = [each for each in values if isinstance(each, Container) and each.name in {"tuple", "list"}]
        keys = self._flow.keys(containers[0]) if len(containers) == len(values) == 1 else frozenset()
        if len(keys) > _MOST_SPREAD or not all(isinstance(key, int) for key in keys):
            return []
        return [self._flow.items(containers[0], index) for index in range(len(keys))]

    def _take_defaults(self, function: Callee) -> None:
        for name, default in signature(function).defaults.items():
            self._flow.write("parameter", function, name, self._evaluate(default))

    # What is bound.

    def _bind(self, target: ast.AST, values: Values) -> None:
        """Follows ``target = values``."""
        self._flow.see(target, values)
        if isinstance(target, ast.Name):
            self._bind_name(target.id, values)
        elif isinstance(target, ast.Starred):
            self._bind(target.value, self._flow.container("list", target, {UNKNOWN_KEY: values}))
        elif isinstance(target, (ast.Tuple, ast.List)):
            for element, each in self._unpacked(target, values):
                self._bind(element, each)
        elif isinstance(target, ast.Attribute):
            self._bind_attribute(target, values)
        elif isinstance(target, ast.Subscript):
            keys = keys_of(self._evaluate(target.slice))
            for owner in self._evaluate(target.value):
                for key in keys if isinstance(owner, Container) else ():
                    self._flow.put(owner.site, key, values)

    def _bind_attribute(self, target: ast.Attribute, values: Values) -> None:
        for owner in self._evaluate(target.value):
            now = self._flow.set_attribute(owner, target.attr, values)
            if isinstance(owner, Choice):
                self._env = self._env.bind(path(owner, target.attr), now)

    def _bind_name(self, name: str, values: Values) -> None:
        if self._class is not None:
            self._flow.write_attribute(self._class, name, values)
        elif name in self._unit.shared:
            self._flow.write("name", self._home(name) or self._unit.module.tree, name, values)
            return
        else:
            self._flow.write("name", self._unit.node, name, values)
        self._env = self._env.bind(name, values)

    def _unpacked(self, target: ast.Tuple | ast.List, values: Values) -> Iterable[tuple[ast.expr, Values]]:
        """The elements of a tuple of targets, each with what it is bound to."""
        starred = next((i for i, each in enumerate(target.elts) if isinstance(each, ast.Starred)), len(target.elts))
        for index, element in enumerate(target.elts):
            found = NOTHING
            for value in values:
                if isinstance(value, Container) and value.name != "dict":
                    found = joined(found, self._flow.items(value, index if index < starred else ANY))
                elif isinstance(value, Instance) and index < len(fields := self._flow.tuple_fields(value)):
                    found = joined(found, self._flow.attribute(value, fields[index]))
                else:
                    found = joined(found, self._flow.elements(frozenset({value}), target))
            yield element, found

    def _home(self, name: str) -> ast.AST | None:
        """The module or function whose name it is: the unit's own, or one around it."""
        unit: Unit | None = self._unit
        while unit is not None:
            if name in unit.scope.global_:
                return unit.module.tree
            if name in unit.scope.bound or (unit is not self._unit and name in unit.scope.local):
                return unit.node
            if unit.outer is None and name in unit.shared:
                return unit.node  # bound by functions alone
            unit = unit.outer
        return None


def _is_whole(node: ast.expr) -> bool:
    """Whether it is a tuple that is written out: each place of it is known."""
    return isinstance(node, ast.Tuple) and not any(isinstance(each, ast.Starred) for each in node.elts)


@kept
def _literal(node: ast.AST) -> Values:
    """What a constant is."""
    value = getattr(node, "value", None)
    # The digits of a very large int may not even be printed.
    if value is None or isinstance(value, str) or (isinstance(value, int) and abs(value) < 2**63):
        return frozenset({Literal(repr(value))})
    return PLAIN
