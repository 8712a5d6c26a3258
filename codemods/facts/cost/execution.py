"""Runs code in thought: what an expression comes to where each name has one value, and what a constructor builds.

The flow knows which values an expression may have; here one of them is computed, by the defaults of the command line,
and constructors of models are followed step by step.
"""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING, Any

from codemods.dataflow.signatures import signature
from codemods.dataflow.source import FUNCTIONS, walk
from codemods.dataflow.values import (
    Choice,
    Class,
    Container,
    External,
    Function,
    Instance,
    Literal,
    Made,
    Plain,
    Value,
    instance,
    without_none,
)
from codemods.facts.cost.amounts import (
    BASE,
    UNKNOWN,
    AtMost,
    Built,
    Layer,
    Shape,
    attribute_of,
    base_layer,
    children,
    is_exact,
    is_long,
)
from codemods.facts.cost.arithmetic import apply, operate
from codemods.facts.cost.definitions import binding, is_changed, origin
from codemods.facts.cost.spaces import Spaces
from codemods.facts.cost.statements import ADDING, NotKnownError, Statements
from codemods.facts.workers.arguments import click_options, options
from codemods.library.kinds import SELF_METHODS, Kind, kind
from codemods.library.spaces import SPACES, Space
from codemods.library.weights import REPARAMETERIZING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codemods.dataflow.source import Callee
    from codemods.facts.cost.statements import Names
    from codemods.facts.script import Script


_MOST_STEPS = 20_000
"""Statements and expressions that are followed for one answer."""
_DEEPEST = 30
"""Functions that run one within the other, as a recursion of the script may have no end: Python's stack has one."""


class Execution:
    """What code of a script comes to."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._flow = script.flow
        self._spaces = Spaces(script.flow)
        self._statements = Statements(script.flow, self)
        self._steps = 0
        self._depth = 0
        self._looked_up: set[ast.AST] = set()

    @cached_property
    def _defaults(self) -> dict[str, object]:
        return {option.name: option.default for option in (*options(self._script), *click_options(self._script))}

    def of(self, node: ast.expr) -> Any:  # noqa: ANN401 - whatever it is
        """What an expression comes to, wherever it stands.

        Raises:
            NotKnownError: when that depends on what is not known.
        """
        self._steps = self._depth = 0
        return self.value(node, {})

    def step(self) -> None:
        """Counts what is followed.

        Raises:
            NotKnownError: when there were too many steps.
        """
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise NotKnownError

    # Expressions.

    def value(self, node: ast.expr, names: Names) -> Any:  # noqa: ANN401, C901 - one case each
        """What an expression comes to.

        Args:
            node: The expression.
            names: The names of the function that it stands in, with their values; all others are looked up.

        Raises:
            NotKnownError: when that depends on what is not known.
        """
        self.step()
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                return names[node.id] if node.id in names else self._free(node)
            case ast.Attribute():
                return self._attribute(node, names)
            case ast.Tuple() | ast.List() | ast.Set():
                items = self._items(node.elts, names)
                return UNKNOWN if items is None else tuple(items) if isinstance(node, ast.Tuple) else items
            case ast.Dict():
                return self._dictionary(node, names)
            case ast.BinOp():
                return operate(node.op, self.value(node.left, names), self.value(node.right, names))
            case ast.UnaryOp():
                return operate(node.op, self.value(node.operand, names))
            case ast.BoolOp():
                return self._boolean(node, names)
            case ast.Compare():
                return self._compare(node, names)
            case ast.IfExp():
                test = self.truth(node.test, names)
                return UNKNOWN if test is None else self.value(node.body if test else node.orelse, names)
            case ast.Subscript():
                return self._item(node, names)
            case ast.ListComp() | ast.GeneratorExp():
                return list(self._comprehension(node.elt, node.generators, dict(names)))
            case ast.Call():
                return self._call(node, names)
            case ast.Starred():
                return self.value(node.value, names)
        return UNKNOWN

    def _items(self, nodes: Iterable[ast.expr], names: Names) -> list[Any] | None:
        """The items of a display or the arguments of a call; None where ``*`` unpacks what is not known."""
        items: list[Any] = []
        for node in nodes:
            value = self.value(node, names)
            if not isinstance(node, ast.Starred):
                items.append(value)
            elif isinstance(value, (list, tuple, range)) and not is_long(value):
                items.extend(value)
            elif isinstance(value, Layer) and children(value) is not None:
                items.extend(children(value) or ())
            else:
                return None
        return items

    def _dictionary(self, node: ast.Dict, names: Names) -> Any:  # noqa: ANN401
        pairs: dict[Any, Any] = {}
        for key, item in zip(node.keys, node.values, strict=True):
            value = self.value(item, names)
            if key is None:
                if not isinstance(value, dict):
                    return UNKNOWN
                pairs.update(value)
                continue
            name = self.value(key, names)
            if not (isinstance(name, str) or is_exact(name)):
                return UNKNOWN
            pairs[name] = value
        return pairs

    def truth(self, node: ast.expr, names: Names) -> bool | None:
        """Whether a test holds; None where that is not known."""
        value = self.value(node, names)
        if isinstance(value, (Layer, Built)):
            return True
        return None if value is UNKNOWN or isinstance(value, AtMost) else bool(value)

    def _boolean(self, node: ast.BoolOp, names: Names) -> Any:  # noqa: ANN401
        value: Any = UNKNOWN
        for part in node.values:
            value = self.value(part, names)
            if isinstance(value, AtMost):
                return UNKNOWN  # it may be 0
            if value is UNKNOWN or bool(value) is isinstance(node.op, ast.Or):
                return value
        return value

    def _compare(self, node: ast.Compare, names: Names) -> Any:  # noqa: ANN401
        left = self.value(node.left, names)
        for operation, comparator in zip(node.ops, node.comparators, strict=True):
            right = self.value(comparator, names)
            holds = operate(operation, left, right)
            if isinstance(operation, (ast.Is, ast.IsNot)) and None in (left, right) and UNKNOWN not in (left, right):
                holds = (left is right) is isinstance(operation, ast.Is)
            if holds is UNKNOWN or not holds:
                return holds
            left = right
        return True

    def _item(self, node: ast.Subscript, names: Names) -> Any:  # noqa: ANN401
        shape = self._shape(node.value, names)
        if shape is not None:
            return AtMost(shape.of.vector) if self.value(node.slice, names) == 0 else UNKNOWN
        is_local = any(isinstance(each, ast.Name) and each.id in names for each in walk(node.value))
        if not is_local and len(without_none(self._flow.values(node))) != 1:
            return UNKNOWN  # what the flow does not know to be one thing may have been changed
        owner = self.value(node.value, names)
        if isinstance(node.slice, ast.Slice):
            bounds = [
                self.value(each, names) if each is not None else None
                for each in (node.slice.lower, node.slice.upper, node.slice.step)
            ]
            if isinstance(owner, (list, tuple)) and all(each is None or is_exact(each) for each in bounds):
                return owner[slice(*bounds)]
            return UNKNOWN
        key = self.value(node.slice, names)
        if isinstance(owner, Layer):
            owner = children(owner)
        if not isinstance(owner, (list, tuple, dict, range)) or not (isinstance(key, str) or is_exact(key)):
            return self._free(node)
        try:
            return owner[key]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            return UNKNOWN

    def _comprehension(self, element: ast.expr, generators: list[ast.comprehension], names: Names) -> Iterator[Any]:
        first, *rest = generators
        items = self.value(first.iter, names)
        if isinstance(items, Layer):
            items = children(items)
        if not isinstance(items, (list, tuple, range, dict)):
            raise NotKnownError
        for item in items:
            self._statements.bind(first.target, item, names)
            tests = [self.truth(each, names) for each in first.ifs]
            if None in tests:
                raise NotKnownError
            if all(tests):
                yield from self._comprehension(element, rest, names) if rest else (self.value(element, names),)

    # Names that are bound elsewhere, and attributes.

    def _free(self, node: ast.expr) -> Any:  # noqa: ANN401
        """What an expression comes to by what the flow knows, or by the one statement that binds the name."""
        bound = None
        if self._spaces.are_used and isinstance(node, (ast.Name, ast.Attribute)):
            bound = origin(self._flow, node)
        values = without_none(self._flow.values(node))
        if bound is not None and bound is not node and len(values) == 1 and self._spaces.are_asked_for(bound):
            return self._elsewhere(bound)
        if not values and self._flow.values(node):
            return None
        if len(values) != 1:
            return UNKNOWN
        (value,) = values
        if isinstance(value, Literal):
            return value.value
        if isinstance(value, Choice):
            default = self._defaults.get(value.name.rpartition(".")[2])
            return UNKNOWN if default is None else default
        if value.site is node:
            return UNKNOWN
        if isinstance(value, Container) and self._may_change(value):
            return UNKNOWN
        if isinstance(value, (Instance, Made, Container)) and isinstance(value.site, ast.expr):
            return self._elsewhere(value.site)
        bound = binding(self._flow, node) if isinstance(value, Plain) and isinstance(node, ast.Name) else None
        return UNKNOWN if bound is None else self._elsewhere(bound)

    def _may_change(self, container: Container) -> bool:
        """Whether items are added to a container, or what ``[64] * 4`` made is changed later."""
        if isinstance(container.site, ast.BinOp):
            return is_changed(self._flow, container)
        return None in self._flow.keys(container)

    def _elsewhere(self, node: ast.expr) -> Any:  # noqa: ANN401
        """What an expression comes to that stands elsewhere, where that does not ask for itself."""
        if node in self._looked_up:
            return UNKNOWN
        self._looked_up.add(node)
        try:
            return self.value(node, {})
        finally:
            self._looked_up.discard(node)

    def _shape(self, node: ast.expr, names: Names) -> Shape | None:
        """The shape of a space of gym, where the expression is one, or a name for one."""
        is_one = isinstance(node, ast.Attribute) and node.attr == "shape"
        is_one = is_one or (isinstance(node, ast.Name) and isinstance(names.get(node.id), Shape))
        shape = self.value(node, names) if self._spaces.are_used and is_one else None
        return shape if isinstance(shape, Shape) else None

    def _attribute(self, node: ast.Attribute, names: Names) -> Any:  # noqa: ANN401
        if self._spaces.are_used and node.attr in SPACES:
            held = self._held(node, names)
            return SPACES[node.attr] if held is UNKNOWN and node.attr not in self._spaces.of_the_project else held
        return self._held(node, names)

    def _held(self, node: ast.Attribute, names: Names) -> Any:  # noqa: ANN401
        is_local = any(isinstance(each, ast.Name) and each.id in names for each in walk(node.value))
        owner = self.value(node.value, names) if is_local or self._spaces.is_one(node.value) else UNKNOWN
        if isinstance(owner, Space):
            return {"shape": Shape(owner), "n": AtMost(owner.count)}.get(node.attr, UNKNOWN)
        if isinstance(owner, Built):
            if node.attr in owner.attributes:
                return owner.attributes[node.attr]
            return self._of_class(owner.class_, node.attr)
        if isinstance(owner, Layer):
            return attribute_of(owner, node.attr)
        return UNKNOWN if is_local and owner is not UNKNOWN else self._free(node)

    def _of_class(self, class_: ast.ClassDef, name: str) -> Any:  # noqa: ANN401
        """What the class's own body gives the name: ``expansion = 4``."""
        for base in self._flow.project_bases(class_):
            for statement in base.body:
                targets = statement.targets if isinstance(statement, ast.Assign) else []
                if isinstance(statement, ast.Assign) and [ast.unparse(target) for target in targets] == [name]:
                    return self._elsewhere(statement.value)
        return UNKNOWN

    # Calls.

    def _call(self, node: ast.Call, names: Names) -> Any:  # noqa: ANN401
        added = self._added(node, names)
        if added is not None:
            return added
        owner = self._owner(node, names)
        if isinstance(owner, (Built, Layer)) and isinstance(node.func, ast.Attribute):
            if node.func.attr in SELF_METHODS:
                return owner
            method = self._flow.method(owner.class_, node.func.attr) if isinstance(owner, Built) else None
            if method is not None:
                return self._run(method, node, names, owner)
        local = names.get(node.func.id) if isinstance(node.func, ast.Name) else None
        callees = {local} if isinstance(local, Value) else without_none(self._flow.values(node.func))
        if len(callees) != 1:
            return UNKNOWN
        (callee,) = callees
        if isinstance(callee, External):
            return self._external(callee, node, names)
        if isinstance(callee, Class) and isinstance(callee.site, ast.ClassDef):
            return self._construct(callee.site, node, names)
        if isinstance(callee, Function) and isinstance(callee.site, FUNCTIONS):
            return self._run(callee.site, node, names, None)
        return UNKNOWN

    def perform(self, call: ast.Call, names: Names) -> None:
        """A call whose result nobody reads: ``layers.append(…)``, or the constructor of a base."""
        is_init = isinstance(call.func, ast.Attribute) and call.func.attr == "__init__"
        this = next(iter(names.values()), None)
        if is_init and isinstance(this, Built):
            callees = [each for each in self._flow.values(call.func) if isinstance(each.site, FUNCTIONS)]
            if callees and isinstance(callees[0].site, FUNCTIONS):
                self._run(callees[0].site, call, names, this)
            else:
                self._give_to_base(this, call, names)
            return
        self.value(call, names)

    def _owner(self, node: ast.Call, names: Names) -> Any:  # noqa: ANN401
        """What a method is called on, where that is a model or a list that is being built."""
        if not isinstance(node.func, ast.Attribute):
            return None
        first: ast.expr = node.func
        while isinstance(first, (ast.Attribute, ast.Call, ast.Subscript)):
            first = first.func if isinstance(first, ast.Call) else first.value
        is_local = isinstance(first, ast.Name) and first.id in names
        return self.value(node.func.value, names) if is_local or isinstance(node.func.value, ast.Call) else None

    def _added(self, node: ast.Call, names: Names) -> Any:  # noqa: ANN401
        """What a method returns that adds to a list or a layer; None where the call does something else."""
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in ADDING:
            return None
        owner = self._owner(node, names)
        given = self._items(node.args, names)
        if given is None or not given or not isinstance(owner, (list, Layer, Built)) or is_long(owner):
            raise NotKnownError
        if isinstance(owner, Built):
            owner.attributes[str(given[0])] = given[-1]
            return owner
        new = given[-1:]
        if node.func.attr == "extend":
            items = children(given[0]) if isinstance(given[0], Layer) else given[0]
            if not isinstance(items, (list, tuple)) or is_long(items):
                raise NotKnownError
            new = list(items)
        (owner if isinstance(owner, list) else owner.added).extend(new)
        return owner

    def _external(self, callee: Value, node: ast.Call, names: Names) -> Any:  # noqa: ANN401
        if callee.name in {"builtins.super", "builtins.print"}:
            return UNKNOWN
        given, keywords, is_spread = self._arguments(node, names)
        if callee.name in REPARAMETERIZING and given and isinstance(given[0], (Layer, Built)):
            if isinstance(given[0], Layer):
                given[0].is_normalized |= REPARAMETERIZING[callee.name]
            return given[0]
        made = Made(callee.name, node)
        if kind(self._flow, made) in {Kind.MODEL, Kind.LOSS} or callee.name == "torch.nn.Parameter":
            return Layer(callee.name, given or [], keywords, is_spread=is_spread)
        if callee.name == "builtins.setattr" and given and isinstance(given[0], Built):
            given[0].attributes[f"{given[1]} {len(given[0].attributes)}"] = given[-1]
        return UNKNOWN if is_spread else apply(callee.name, given or [], keywords)

    def _construct(self, class_: ast.ClassDef, node: ast.Call, names: Names) -> Any:  # noqa: ANN401
        if kind(self._flow, instance(class_)) is not Kind.MODEL:
            return UNKNOWN
        built = Built(class_)
        init = self._flow.method(class_, "__init__")
        if init is not None:
            self._run(init, node, names, built)
        else:
            self._give_to_base(built, node, names)
        return built

    def _give_to_base(self, built: Built, node: ast.Call, names: Names) -> None:
        """What the constructor of a library's class is given: ``class Block(nn.Sequential)`` holds its layers.

        A class of another layer, ``class Masked(nn.Conv2d)``, is that layer and holds what it adds.
        """
        given, keywords, is_spread = self._arguments(node, names)
        given = [each for each in given or () if each is not built]  # ``nn.Conv2d.__init__(self, 3, 8)``
        layer = base_layer(self._flow, built.class_)
        if layer is not None:
            built.attributes[BASE] = Layer(layer, given, keywords, is_spread=is_spread)
        elif is_spread:
            raise NotKnownError
        else:
            built.attributes |= {str(position): each for position, each in enumerate(given)}

    def _arguments(self, node: ast.Call, names: Names) -> tuple[list[Any] | None, dict[str, Any], bool]:
        """What a call is given at positions and by names, and whether there may be more."""
        given = self._items(node.args, names)
        keywords: dict[str, Any] = {}
        is_spread = given is None
        for keyword in node.keywords:
            value = self.value(keyword.value, names)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
            elif isinstance(value, dict):
                keywords |= value
            else:
                is_spread = True
        return given, keywords, is_spread

    def _run(self, function: Callee, node: ast.Call, names: Names, this: Built | Layer | None) -> Any:  # noqa: ANN401
        """What a function of the project returns."""
        if isinstance(function, (ast.Lambda, ast.AsyncFunctionDef)):
            return UNKNOWN
        if self._depth >= _DEEPEST:
            raise NotKnownError
        inner = self._parameters(function, node, names, this)
        self._depth += 1
        try:
            return self._statements.run(function.body, inner)
        finally:
            self._depth -= 1

    def _parameters(self, function: ast.FunctionDef, node: ast.Call, names: Names, this: object) -> Names:
        """The names of a function's parameters, bound for one call."""
        taken = signature(function)
        bound: Names = {each.arg: UNKNOWN for each in taken.named}
        for name, default in taken.defaults.items():
            bound[name] = self.value(default, {})
        arguments = self._items(node.args, names)
        if arguments is None:
            raise NotKnownError
        is_method = self._flow.owner(function) is not None
        is_static = any(ast.unparse(each) == "staticmethod" for each in function.decorator_list)
        if is_method and not is_static:
            arguments = [this if this is not None else UNKNOWN, *arguments]
        bound.update(zip(taken.positional_names, arguments, strict=False))
        if taken.vararg is not None:
            bound[taken.vararg.arg] = tuple(arguments[len(taken.positional) :])
        rest: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.value(keyword.value, names)
            if keyword.arg is None and not isinstance(value, dict):
                raise NotKnownError
            for name, each in {keyword.arg: value}.items() if keyword.arg is not None else value.items():
                (bound if name in bound else rest)[name] = each
        if taken.kwarg is not None:
            bound[taken.kwarg.arg] = rest
        return bound
