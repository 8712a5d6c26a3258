"""One pass over the own code of a module or function: what its expressions may be, statement by statement.

Local names are followed in the order of the statements (``x = x.to(device)``). Whatever other code can see, such as
attributes, items, parameters and returns, is read from and joined into the flow.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from codemods.dataflow import names
from codemods.dataflow.environments import UNREACHABLE, Environment
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import Callee, FunctionNode, children, is_main_guard, kept, walk
from codemods.dataflow.values import (
    ANY,
    NONE,
    NOTHING,
    PLAIN,
    TENSOR_SORTS,
    UNBOUND,
    UNKNOWN_KEY,
    Arguments,
    Sort,
    Value,
    Values,
    combined,
    external,
    instance,
    joined,
    keys_of,
    leading_text,
    path,
    text_starting,
    unknown,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.units import Unit

_UNBOUND: Values = frozenset({UNBOUND})
_MOST_SPREAD = 32
"""Arguments that ``*`` stands for: ``def f(*args): f(0, *args)`` would have one more in each pass."""
_OF_EVERY_MODULE = frozenset({"__name__", "__file__", "__doc__", "__package__", "__path__", "__spec__"})


class Interpretation:
    """One visit of a unit.

    The method that handles a node is called like the node's class, as in ``ast.NodeVisitor``; a node of a class without
    one is only looked through.
    """

    def __init__(self, flow: Flow, unit: Unit) -> None:
        self._flow = flow
        self._unit = unit
        self._env = Environment()
        self._class: ast.ClassDef | None = None
        self._breaks: list[list[Environment]] = []
        self._continues: list[list[Environment]] = []
        self._exits: list[Environment] = []

    def run(self) -> None:
        """Interprets the unit's code once."""
        node = self._unit.node
        if isinstance(node, ast.Module):
            self._block(node.body)
        else:
            self._enter(node)
            if isinstance(node, ast.Lambda):
                self._flow.write("return", node, "", self._evaluate(node.body))
            else:
                self._block(node.body)
                if self._env is not UNREACHABLE and not self._unit.scope.yields:
                    self._flow.write("return", node, "", frozenset({NONE}))
        self._leave()

    def _enter(self, function: Callee) -> None:
        taken = signature(function)
        parameters = taken.named
        for parameter in parameters:
            self._bind_name(parameter.arg, self._flow.read("parameter", function, parameter.arg))
        if self._unit.owner is not None and self._unit.binds_self and parameters:
            this = instance(self._unit.owner)
            is_class = "classmethod" in self._unit.decorators and this.of is not None
            self._bind_name(parameters[0].arg, frozenset({this.of if is_class and this.of else this}))
        for star, kind in ((taken.vararg, "tuple"), (taken.kwarg, "dict")):
            if star is not None:
                self._bind_name(star.arg, self._flow.container(kind, star))

    def _leave(self) -> None:
        """Tells the rest of the script which choices of the user the unit leaves as they are on some way through it."""
        end = self._env
        for each in self._exits:
            end = end.join(each)
        for name, values in end.items():
            if "." in name and UNBOUND in values:
                self._flow.leave_choice(name)

    # Statements. Each handler takes the environment before the statement to the one after it.

    def _block(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            if self._env is UNREACHABLE:
                return
            self._flow.note_before(statement, self._env)
            _HANDLERS[type(statement)](self, statement)

    def _look_through(self, node: ast.AST) -> Values:
        """Evaluates the parts of a node of which nothing more is to be known."""
        for child in children(node):
            if isinstance(child, ast.expr):
                self._evaluate(child)
        return PLAIN

    def _assign(self, statement: ast.Assign) -> None:
        values = self._evaluate(statement.value)
        for target in statement.targets:
            self._bind(target, values)

    def _annassign(self, statement: ast.AnnAssign) -> None:
        if statement.value is not None:
            self._bind(statement.target, self._evaluate(statement.value))

    def _augassign(self, statement: ast.AugAssign) -> None:
        operand = self._evaluate(statement.value)
        old = self._value(statement.target)
        # `images /= 255` and `names += [name]` write into the same memory.
        kept = frozenset(each for each in old if each.sort in {Sort.CONTAINER, *TENSOR_SORTS})
        added = joined(*[self._flow.items(each) for each in operand if each.sort is Sort.CONTAINER])
        for each in kept:
            if each.sort is Sort.CONTAINER:
                self._flow.put(each.site, UNKNOWN_KEY, added)
        others = joined(old - kept, operand) if old - kept else NOTHING
        self._bind(statement.target, joined(kept, combined(others)))

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
                for key in keys if owner.sort is Sort.CONTAINER else ():
                    self._flow.put(owner.site, key, values)

    def _bind_attribute(self, target: ast.Attribute, values: Values) -> None:
        for owner in self._evaluate(target.value):
            now = self._flow.set_attribute(owner, target.attr, values)
            if owner.sort is Sort.CHOICE:
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
                if value.sort is Sort.CONTAINER and value.name != "dict":
                    found = joined(found, self._flow.items(value, index if index < starred else ANY))
                elif value.sort is Sort.INSTANCE and index < len(fields := self._flow.tuple_fields(value)):
                    found = joined(found, self._flow.attribute(value, fields[index]))
                else:
                    found = joined(found, self._flow.elements(frozenset({value}), target))
            yield element, found

    def _for(self, statement: ast.For | ast.AsyncFor) -> None:
        elements = self._flow.elements(self._evaluate(statement.iter), statement.iter)
        self._loop(statement, lambda: self._bind(statement.target, elements))

    _asyncfor = _for

    def _while(self, statement: ast.While) -> None:
        self._loop(statement, lambda: self._evaluate(statement.test))

    def _loop(self, statement: ast.For | ast.AsyncFor | ast.While, start: Callable[[], object]) -> None:
        """Follows passes through the loop until none of them brings anything new to its start."""
        entry = self._env.join(self._unit.loops.get(statement, UNREACHABLE))
        while True:
            self._breaks.append([])
            self._continues.append([])
            self._env = entry
            start()
            self._block(statement.body)
            breaks = self._breaks.pop()
            again = entry
            for each in (self._env, *self._continues.pop()):
                again = again.join(each)
            if again is entry:
                break
            self._unit.loops[statement] = entry = again
        self._env = entry
        if isinstance(statement, ast.While):
            start()
            if isinstance(statement.test, ast.Constant) and statement.test.value:
                self._env = UNREACHABLE
        self._block(statement.orelse)
        for each in breaks:
            self._env = self._env.join(each)

    def _break(self, _: ast.Break) -> None:
        if self._breaks:
            self._breaks[-1].append(self._env)
        self._env = UNREACHABLE

    def _continue(self, _: ast.Continue) -> None:
        if self._continues:
            self._continues[-1].append(self._env)
        self._env = UNREACHABLE

    def _if(self, statement: ast.If) -> None:
        self._evaluate(statement.test)
        before = self._env
        self._block(statement.body)
        if not is_main_guard(statement):
            after, self._env = self._env, before
            self._block(statement.orelse)
            self._env = after.join(self._env)

    def _with(self, statement: ast.With | ast.AsyncWith) -> None:
        for item in statement.items:
            entered = self._flow.entered(self._evaluate(item.context_expr))
            if item.optional_vars is not None:
                self._bind(item.optional_vars, entered)
        self._block(statement.body)

    _asyncwith = _with

    def _try(self, statement: ast.Try) -> None:
        before = self._env
        self._block(statement.body)
        # A handler starts from any point of the body: from before it or from after it is near enough.
        start = before.join(self._env)
        self._block(statement.orelse)
        end = self._env
        for handler in statement.handlers:
            self._env = start
            if handler.type is not None:
                self._evaluate(handler.type)
            if handler.name is not None:
                self._bind_name(handler.name, PLAIN)
            self._block(handler.body)
            end = end.join(self._env)
        self._env = start if end is UNREACHABLE else end
        self._block(statement.finalbody)
        if end is UNREACHABLE:
            self._env = UNREACHABLE

    _trystar = _try

    def _match(self, statement: ast.Match) -> None:
        subject = self._evaluate(statement.subject)
        before = end = self._env
        for case in statement.cases:
            self._env = before
            for node in walk(case.pattern):
                name = node.rest if isinstance(node, ast.MatchMapping) else getattr(node, "name", None)
                if isinstance(node, ast.expr):
                    self._evaluate(node)
                if isinstance(name, str):
                    whole = node is case.pattern
                    self._bind_name(name, subject if whole else unknown(f"'{name}' is a part of what is matched"))
            if case.guard is not None:
                self._evaluate(case.guard)
            self._block(case.body)
            end = end.join(self._env)
        self._env = end

    def _return(self, statement: ast.Return) -> None:
        values = self._evaluate(statement.value) if statement.value is not None else frozenset({NONE})
        if not self._unit.scope.yields:
            self._flow.write("return", self._unit.node, "", values)
        self._exits.append(self._env)
        self._env = UNREACHABLE

    def _raise(self, statement: ast.Raise) -> None:
        self._look_through(statement)
        self._env = UNREACHABLE

    def _functiondef(self, statement: FunctionNode) -> None:
        self._flow.add_unit(statement, self._unit, self._class)
        this = Value(Sort.FUNCTION, statement.name, statement)
        for decorator in statement.decorator_list:
            self._flow.decorate(this, self._evaluate(decorator))
        self._take_defaults(statement)
        self._bind_name(statement.name, frozenset({this}))

    _asyncfunctiondef = _functiondef

    def _take_defaults(self, function: Callee) -> None:
        for name, default in signature(function).defaults.items():
            self._flow.write("parameter", function, name, self._evaluate(default))

    def _classdef(self, statement: ast.ClassDef) -> None:
        for base in statement.bases:
            self._flow.derive(statement, base, self._evaluate(base))
        this = Value(Sort.CLASS, statement.name, statement)
        decorators = [self._evaluate(each) for each in statement.decorator_list]
        for keyword in statement.keywords:
            self._evaluate(keyword.value)
        around, env, self._class = self._class, self._env, statement
        self._block(statement.body)
        self._class, self._env = around, env
        for each in decorators:
            self._flow.decorate(this, each)
        self._bind_name(statement.name, frozenset({this}))

    def _import(self, statement: ast.Import | ast.ImportFrom) -> None:
        module = self._unit.module
        for name, target in names.imported(statement, module.package):
            self._bind_name(name, self._flow.imported(module.resolved(target)))
        if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
            for name, values in self._flow.star(module.resolved(names.source(statement, module.package))):
                self._bind_name(name, values)

    _importfrom = _import

    def _delete(self, statement: ast.Delete) -> None:
        for target in statement.targets:
            if isinstance(target, ast.Name):
                self._env = self._env.unbind(target.id)
            else:
                self._look_through(target)

    # Expressions.

    def _evaluate(self, node: ast.expr) -> Values:
        values = _HANDLERS[type(node)](self, node)
        self._flow.see(node, values)
        return values

    def _value(self, node: ast.expr) -> Values:
        return _HANDLERS[type(node)](self, node)

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
        if own:
            return own
        star = names.star_name(name, self._flow.star_sources(self._unit.module))
        if star is not None:
            return external(star)
        if name in names.BUILTINS:
            return external(f"builtins.{name}")
        if name in _OF_EVERY_MODULE:
            return PLAIN
        return unknown(f"'{name}' is defined in no place that can be seen")

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

    def _attribute(self, node: ast.Attribute) -> Values:
        found = NOTHING
        for owner in self._evaluate(node.value):
            if owner.sort is Sort.CHOICE and node.attr in self._unit.scope.written:
                found = joined(found, self._chosen(owner, node.attr))
            else:
                found = joined(found, self._flow.attribute(owner, node.attr))
        return found

    def _chosen(self, owner: Value, name: str) -> Values:
        """The user's choice where the unit itself overwrites it: as chosen before that, as written after."""
        here = path(owner, name)
        written = self._env.get(here, _UNBOUND)
        return joined(written - _UNBOUND, frozenset({Value(Sort.CHOICE, here)}) if UNBOUND in written else NOTHING)

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
        return frozenset({Value(Sort.FUNCTION, "a lambda", node)})

    def _ifexp(self, node: ast.IfExp) -> Values:
        self._evaluate(node.test)
        return joined(self._evaluate(node.body), self._evaluate(node.orelse))

    def _boolop(self, node: ast.BoolOp) -> Values:
        return joined(*[self._evaluate(each) for each in node.values])

    def _unaryop(self, node: ast.UnaryOp) -> Values:
        operand = self._evaluate(node.operand)
        if isinstance(node.op, ast.Not):
            # `not args.no_cuda` is as much the user's choice as `args.no_cuda`.
            return frozenset(each for each in operand if each.sort in {Sort.CHOICE, Sort.UNKNOWN}) or PLAIN
        if (
            isinstance(node.op, ast.USub)
            and isinstance(node.operand, ast.Constant)
            and isinstance(node.operand.value, int)
        ):
            return (
                frozenset({Value(Sort.LITERAL, f"-{each.name}") for each in operand if each.sort is Sort.LITERAL})
                or PLAIN
            )
        return combined(operand)

    def _binop(self, node: ast.BinOp) -> Values:
        left, right = self._evaluate(node.left), self._evaluate(node.right)
        if not left or not right:
            return NOTHING  # what a number makes of a tensor that is yet to come is no number
        start = leading_text(left) if isinstance(node.op, (ast.Add, ast.Mod)) else None
        if start is not None:
            return text_starting(start)
        operands = joined(left, right)
        containers = [each for each in operands if each.sort is Sort.CONTAINER]
        if not containers or not isinstance(node.op, (ast.Add, ast.Mult, ast.BitOr)):
            return combined(operands)
        if isinstance(node.op, ast.BitOr):
            self._flow.merge(node, operands)
        else:
            others = frozenset(each for each in operands if each.sort is Sort.UNKNOWN)
            self._flow.put(node, UNKNOWN_KEY, joined(others, *[self._flow.items(each) for each in containers]))
        return joined(*[self._flow.container(each.name, node) for each in containers])

    def _compare(self, node: ast.Compare) -> Values:
        parts = joined(self._evaluate(node.left), *[self._evaluate(each) for each in node.comparators])
        return frozenset(each for each in combined(parts) if each.sort is not Sort.LITERAL) or PLAIN

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
        callees = self._evaluate(node.func)
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
                known = self._flow.keys(each) if each.sort is Sort.CONTAINER else {UNKNOWN_KEY}
                unknown_keywords = unknown_keywords or UNKNOWN_KEY in known
                for key in known:
                    if isinstance(key, str):
                        keywords[key] = joined(keywords.get(key, NOTHING), self._flow.items(each, key))
        return Arguments(tuple(positional), keywords, rest, unknown_keywords)

    def _fixed_items(self, values: Values) -> list[Values]:
        """The items, in order, of what is spread into a call, where it is one sequence of known length."""
        containers = [each for each in values if each.sort is Sort.CONTAINER and each.name in {"tuple", "list"}]
        keys = self._flow.keys(containers[0]) if len(containers) == len(values) == 1 else frozenset()
        if len(keys) > _MOST_SPREAD or not all(isinstance(key, int) for key in keys):
            return []
        return [self._flow.items(containers[0], index) for index in range(len(keys))]


def _handler(type_: type[ast.AST]) -> Callable[[Interpretation, Any], Values]:
    name = f"_{type_.__name__.lower()}"
    handler: Callable[[Interpretation, Any], Values] = getattr(
        Interpretation, name if hasattr(Interpretation, name) else "_look_through"
    )
    return handler


_HANDLERS = {
    type_: _handler(type_) for type_ in vars(ast).values() if isinstance(type_, type) and issubclass(type_, ast.AST)
}
"""The method that handles nodes of a class."""


@kept
def _literal(node: ast.AST) -> Values:
    """What a constant is."""
    value = getattr(node, "value", None)
    # The digits of a very large int may not even be printed.
    if value is None or isinstance(value, str) or (isinstance(value, int) and abs(value) < 2**63):
        return frozenset({Value(Sort.LITERAL, repr(value))})
    return PLAIN
