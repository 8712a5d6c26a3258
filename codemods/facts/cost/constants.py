"""What expressions come to as the script stands: numbers, texts, lists of them, and the layers of models.

The flow knows which values an expression may have; here one of them is computed, by the defaults of the command line,
and constructors of models are followed step by step.
"""

from __future__ import annotations

import ast
import math
import operator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeGuard

from codemods.dataflow.signatures import signature
from codemods.dataflow.source import FUNCTIONS, walk
from codemods.dataflow.values import Sort, Value, instance, without_none
from codemods.facts.workers.arguments import click_options, options
from codemods.library.kinds import SELF_METHODS, Kind, kind
from codemods.library.spaces import LARGER, PACKAGES, SPACES, Space

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from codemods.dataflow.source import Callee
    from codemods.facts.script import Script

_MOST_STEPS = 20_000
"""Statements and expressions that are followed for one answer."""
_DEEPEST = 30
"""Calls within calls."""
_LONGEST = 1000
"""Items of a list that are followed."""
_LARGEST = 10**15
_OPERATIONS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda item, items: item in items,
    ast.NotIn: lambda item, items: item not in items,
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{f"builtins.{each.__name__}": each for each in (abs, bool, float, int, len, max, min, round, sum)},
    **{f"builtins.{each.__name__}": each for each in (list, tuple, range, dict)},
    "builtins.reversed": lambda items: list(reversed(items)),
    "builtins.sorted": sorted,
    "builtins.enumerate": lambda items, start=0: list(enumerate(items, start)),
    "builtins.zip": lambda *several: list(zip(*several, strict=False)),
    "collections.OrderedDict": dict,
    **{f"math.{each.__name__}": each for each in (math.ceil, math.floor, math.sqrt, math.log2, math.prod)},
    "numpy.prod": math.prod,
}
"""Functions without side effects that are called with what is known."""
_KEEPING = frozenset(
    {
        *(f"builtins.{name}" for name in ("int", "list", "tuple", "dict", "len", "reversed", "enumerate", "zip")),
        "collections.OrderedDict",
    }
)
"""Those that leave the items as they are that they are given."""
_COMPARISONS = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
_BRANCHING = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.With, ast.AsyncWith, ast.Match)
_ADDING = frozenset({"append", "extend", "insert", "add_module", "register_module"})
"""Methods that add to a list or a layer."""
_PLAIN = (int, float, str, bool, type(None), list, tuple, dict, range)


class Unknown:
    """What an expression comes to where that is not known."""

    def __repr__(self) -> str:
        return "?"


UNKNOWN = Unknown()


class AtMost(int):
    """A whole number that is not known, but not larger than this one."""

    __slots__ = ()


@dataclass(frozen=True)
class Shape:
    """The shape of a space."""

    of: Space


class NotKnownError(Exception):
    """What is asked for depends on what is not known."""


@dataclass(eq=False)
class Layer:
    """A layer or network of a library."""

    name: str
    """Its qualified name: ``torch.nn.Linear``."""
    arguments: list[Any] = field(default_factory=list)
    keywords: dict[str, Any] = field(default_factory=dict)
    added: list[Any] = field(default_factory=list)
    """What was added to it later."""
    is_spread: bool = False
    """Whether it may have been given more arguments, through what is not known."""

    def argument(self, position: int, name: str, default: object = UNKNOWN) -> Any:  # noqa: ANN401 - whatever it is
        """What was given at that position, from 0, or by that name."""
        if name in self.keywords:
            return self.keywords[name]
        given = self.arguments[position] if 0 <= position < len(self.arguments) else default
        return UNKNOWN if given is default and self.is_spread else given


@dataclass(eq=False)
class Built:
    """An object of a class of the project."""

    class_: ast.ClassDef
    attributes: dict[str, Any] = field(default_factory=dict)


class _ReturnError(Exception):
    """A function's end."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value


Names = dict[str, Any]


class Constants:
    """What expressions of a script come to."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._flow = script.flow
        self._steps = 0
        self._depth = 0
        self._looked_up: set[ast.AST] = set()

    @cached_property
    def _defaults(self) -> dict[str, object]:
        return {option.name: option.default for option in (*options(self._script), *click_options(self._script))}

    def of(self, node: ast.expr) -> Any:  # noqa: ANN401 - whatever it is
        """What an expression comes to, wherever it stands; ``UNKNOWN`` where that is not known."""
        self._steps = self._depth = 0
        try:
            return self._value(node, {})
        except (NotKnownError, RecursionError):
            return UNKNOWN

    def number(self, node: ast.expr | None) -> int | None:
        """The whole number that an expression comes to."""
        found = self.of(node) if node is not None else None
        return found if _is_exact(found) and not isinstance(found, bool) else None

    def definition(self, node: ast.expr) -> ast.expr | None:
        """The expression itself, or what the one statement that binds its name gives it."""
        return self._binding(node) if isinstance(node, ast.Name) else node

    def built(self, value: Value) -> Built | Layer | None:
        """The model that a value is, with all of its layers; None where what it is made of is not known."""
        if not isinstance(value.site, ast.Call):
            return None
        found = self.of(value.site)
        return found if isinstance(found, (Built, Layer)) else None

    def _step(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise NotKnownError

    # Expressions.

    def _value(self, node: ast.expr, names: Names) -> Any:  # noqa: ANN401, C901 - one case each
        self._step()
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
                return self._operate(node.op, self._value(node.left, names), self._value(node.right, names))
            case ast.UnaryOp():
                return self._operate(node.op, self._value(node.operand, names))
            case ast.BoolOp():
                return self._boolean(node, names)
            case ast.Compare():
                return self._compare(node, names)
            case ast.IfExp():
                test = self._truth(node.test, names)
                return UNKNOWN if test is None else self._value(node.body if test else node.orelse, names)
            case ast.Subscript():
                return self._item(node, names)
            case ast.ListComp() | ast.GeneratorExp():
                return list(self._comprehension(node.elt, node.generators, dict(names)))
            case ast.Call():
                return self._call(node, names)
            case ast.Starred():
                return self._value(node.value, names)
        return UNKNOWN

    def _items(self, nodes: Iterable[ast.expr], names: Names) -> list[Any] | None:
        """The items of a display or the arguments of a call; None where ``*`` unpacks what is not known."""
        found: list[Any] = []
        for node in nodes:
            value = self._value(node, names)
            if not isinstance(node, ast.Starred):
                found.append(value)
            elif isinstance(value, (list, tuple, range)) and not _is_long(value):
                found.extend(value)
            elif isinstance(value, Layer) and children(value) is not None:
                found.extend(children(value) or ())
            else:
                return None
        return found

    def _dictionary(self, node: ast.Dict, names: Names) -> Any:  # noqa: ANN401
        found: dict[Any, Any] = {}
        for key, item in zip(node.keys, node.values, strict=True):
            value = self._value(item, names)
            if key is None:
                if not isinstance(value, dict):
                    return UNKNOWN
                found.update(value)
                continue
            name = self._value(key, names)
            if not (isinstance(name, str) or _is_exact(name)):
                return UNKNOWN
            found[name] = value
        return found

    @staticmethod
    def _operate(operation: ast.AST, *operands: object) -> Any:  # noqa: ANN401
        function = _OPERATIONS.get(type(operation))
        if isinstance(operation, ast.Pow) and all(isinstance(each, (int, float)) for each in operands):
            function = _power
        if function is None or not all(isinstance(each, _PLAIN) for each in operands):
            return UNKNOWN
        if any(isinstance(each, AtMost) for each in operands):
            is_monotonic = isinstance(operation, (ast.Add, ast.Mult))
            is_natural = all(isinstance(each, int) and each >= 0 for each in operands)
            return AtMost(function(*operands)) if is_monotonic and is_natural else UNKNOWN
        if isinstance(operation, _COMPARISONS) and not all(map(_is_known, operands)):
            return UNKNOWN
        if any(map(_is_long, operands)) or (isinstance(operation, ast.Mod) and isinstance(operands[0], str)):
            return UNKNOWN
        numbers = [each for each in operands if isinstance(each, (int, float))]
        largest = _LARGEST if len(numbers) == len(operands) else _LONGEST  # [0] * 3
        if isinstance(operation, ast.Mult) and max(map(abs, numbers), default=0) > largest:
            return UNKNOWN
        try:
            return function(*operands)
        except (TypeError, ValueError, ArithmeticError):
            return UNKNOWN

    def _truth(self, node: ast.expr, names: Names) -> bool | None:
        """Whether a test holds; None where that is not known."""
        value = self._value(node, names)
        if isinstance(value, (Layer, Built)):
            return True
        return None if value is UNKNOWN or isinstance(value, AtMost) else bool(value)

    def _boolean(self, node: ast.BoolOp, names: Names) -> Any:  # noqa: ANN401
        value: Any = UNKNOWN
        for part in node.values:
            value = self._value(part, names)
            if isinstance(value, AtMost):
                return UNKNOWN  # it may be 0
            if value is UNKNOWN or bool(value) is isinstance(node.op, ast.Or):
                return value
        return value

    def _compare(self, node: ast.Compare, names: Names) -> Any:  # noqa: ANN401
        left = self._value(node.left, names)
        for operation, comparator in zip(node.ops, node.comparators, strict=True):
            right = self._value(comparator, names)
            holds = self._operate(operation, left, right)
            if isinstance(operation, (ast.Is, ast.IsNot)) and None in (left, right) and UNKNOWN not in (left, right):
                holds = (left is right) is isinstance(operation, ast.Is)
            if holds is UNKNOWN or not holds:
                return holds
            left = right
        return True

    def _item(self, node: ast.Subscript, names: Names) -> Any:  # noqa: ANN401
        shape = self._shape(node.value, names)
        if shape is not None:
            return AtMost(shape.of.vector) if self._value(node.slice, names) == 0 else UNKNOWN
        is_local = any(isinstance(each, ast.Name) and each.id in names for each in walk(node.value))
        if not is_local and len(without_none(self._flow.values(node))) != 1:
            return UNKNOWN  # what the flow does not know to be one thing may have been changed
        owner = self._value(node.value, names)
        if isinstance(node.slice, ast.Slice):
            bounds = [
                self._value(each, names) if each is not None else None
                for each in (node.slice.lower, node.slice.upper, node.slice.step)
            ]
            if isinstance(owner, (list, tuple)) and all(each is None or _is_exact(each) for each in bounds):
                return owner[slice(*bounds)]
            return UNKNOWN
        key = self._value(node.slice, names)
        if isinstance(owner, Layer):
            owner = children(owner)
        if not isinstance(owner, (list, tuple, dict, range)) or not (isinstance(key, str) or _is_exact(key)):
            return self._free(node)
        try:
            return owner[key]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            return UNKNOWN

    def _comprehension(self, element: ast.expr, generators: list[ast.comprehension], names: Names) -> Iterator[Any]:
        first, *rest = generators
        items = self._value(first.iter, names)
        if isinstance(items, Layer):
            items = children(items)
        if not isinstance(items, (list, tuple, range, dict)):
            raise NotKnownError
        for item in items:
            self._bind(first.target, item, names)
            tests = [self._truth(each, names) for each in first.ifs]
            if None in tests:
                raise NotKnownError
            if all(tests):
                yield from self._comprehension(element, rest, names) if rest else (self._value(element, names),)

    # Names that are bound elsewhere, and attributes.

    def _free(self, node: ast.expr) -> Any:  # noqa: ANN401
        """What an expression comes to by what the flow knows, or by the one statement that binds the name."""
        bound = self._binding(node) if self._has_spaces and isinstance(node, ast.Name) else None
        values = without_none(self._flow.values(node))
        if bound is not None and len(values) == 1 and self._asks_for_space(bound):
            return self._elsewhere(bound)
        if not values and self._flow.values(node):
            return None
        if len(values) != 1:
            return UNKNOWN
        (value,) = values
        if value.sort is Sort.LITERAL:
            return value.literal
        if value.sort is Sort.CHOICE:
            default = self._defaults.get(value.name.rpartition(".")[2])
            return UNKNOWN if default is None else default
        if value.site is node:
            return UNKNOWN
        if value.sort is Sort.CONTAINER and None in self._flow.keys(value):
            return UNKNOWN  # items are added to it
        if value.sort in {Sort.INSTANCE, Sort.MADE, Sort.CONTAINER} and isinstance(value.site, ast.expr):
            return self._elsewhere(value.site)
        bound = self._binding(node) if value.sort is Sort.PLAIN and isinstance(node, ast.Name) else None
        return UNKNOWN if bound is None else self._elsewhere(bound)

    def _elsewhere(self, node: ast.expr) -> Any:  # noqa: ANN401
        """What an expression comes to that stands elsewhere, where that does not ask for itself."""
        if node in self._looked_up:
            return UNKNOWN
        self._looked_up.add(node)
        try:
            return self._value(node, {})
        finally:
            self._looked_up.discard(node)

    def _binding(self, name: ast.Name) -> ast.expr | None:
        """What the only statement that binds a name in its function or module gives it."""
        module = next((each for each in self._flow.modules if each.holds(name)), None)
        if module is None:
            return None
        function = module.function(name)
        for scope in (function, None) if function is not None else (None,):
            bound = [
                each
                for each in module.nodes(ast.Name)
                if each.id == name.id and not isinstance(each.ctx, ast.Load) and module.function(each) is scope
            ]
            if len(bound) == 1:
                statement = module.parent(bound[0])
                is_plain = isinstance(statement, ast.Assign) and statement.targets == bound
                return statement.value if is_plain and isinstance(statement, ast.Assign) else None
            if bound or (scope is not None and name.id in signature(scope).names):
                return None
        return None

    @cached_property
    def _has_spaces(self) -> bool:
        """Whether a module of the project imports gym, and none a package whose environments may be larger."""
        imports = [each for module in self._flow.modules for each in module.nodes(ast.Import, ast.ImportFrom)]
        names = [alias.name for each in imports if isinstance(each, ast.Import) for alias in each.names]
        names += [each.module or "" for each in imports if isinstance(each, ast.ImportFrom) and not each.level]
        packages = {name.partition(".")[0] for name in names}
        return bool(packages & PACKAGES) and not packages & LARGER

    @cached_property
    def _own_spaces(self) -> frozenset[str]:
        """The attributes that the project gives spaces of its own: ``self.observation_space = spaces.Box(...)``."""
        found = {
            target.attr
            for module in self._flow.modules
            for target in module.nodes(ast.Attribute)
            if target.attr in SPACES
            and isinstance(target.ctx, ast.Store)
            and not self._passes_on(module.statement(target))
        }
        return frozenset(found | {f"single_{each}" for each in found})

    def _passes_on(self, statement: ast.stmt) -> bool:
        """Whether the statement only gives a space another place: ``self.action_space = env.action_space``."""
        value = statement.value if isinstance(statement, ast.Assign) else None
        return isinstance(value, ast.Attribute) and value.attr in SPACES

    def _asks_for_space(self, node: ast.expr) -> bool:
        """Whether an expression holds a space, or the size of one."""
        attributes = [each for each in walk(node) if isinstance(each, ast.Attribute)]
        return any(each.attr in SPACES or self._names_space(each.value) for each in attributes)

    def _names_space(self, node: ast.expr) -> bool:
        """Whether the expression is a space of an environment, or a name that is given one somewhere else."""
        bound = self._binding(node) if self._has_spaces and isinstance(node, ast.Name) else node
        return self._has_spaces and isinstance(bound, ast.Attribute) and bound.attr in SPACES

    def _shape(self, node: ast.expr, names: Names) -> Shape | None:
        """The shape of a space of gym, where the expression is one, or a name for one."""
        is_one = isinstance(node, ast.Attribute) and node.attr == "shape"
        is_one = is_one or (isinstance(node, ast.Name) and isinstance(names.get(node.id), Shape))
        found = self._value(node, names) if self._has_spaces and is_one else None
        return found if isinstance(found, Shape) else None

    def _attribute(self, node: ast.Attribute, names: Names) -> Any:  # noqa: ANN401
        if self._has_spaces and node.attr in SPACES:
            found = self._held(node, names)
            return SPACES[node.attr] if found is UNKNOWN and node.attr not in self._own_spaces else found
        return self._held(node, names)

    def _held(self, node: ast.Attribute, names: Names) -> Any:  # noqa: ANN401
        is_local = any(isinstance(each, ast.Name) and each.id in names for each in walk(node.value))
        owner = self._value(node.value, names) if is_local or self._names_space(node.value) else UNKNOWN
        if isinstance(owner, Space):
            return {"shape": Shape(owner), "n": AtMost(owner.count)}.get(node.attr, UNKNOWN)
        if isinstance(owner, Built):
            if node.attr in owner.attributes:
                return owner.attributes[node.attr]
            return self._of_class(owner.class_, node.attr)
        if isinstance(owner, Layer):
            return _attribute_of(owner, node.attr)
        return UNKNOWN if is_local and owner is not UNKNOWN else self._free(node)

    def _of_class(self, class_: ast.ClassDef, name: str) -> Any:  # noqa: ANN401
        """What the class's own body gives the name: ``expansion = 4``."""
        for each in self._flow.project_bases(class_):
            for statement in each.body:
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
        if callee.sort is Sort.EXTERNAL:
            return self._external(callee, node, names)
        if callee.sort is Sort.CLASS and isinstance(callee.site, ast.ClassDef):
            return self._construct(callee.site, node, names)
        if callee.sort is Sort.FUNCTION and isinstance(callee.site, FUNCTIONS):
            return self._run(callee.site, node, names, None)
        return UNKNOWN

    def _owner(self, node: ast.Call, names: Names) -> Any:  # noqa: ANN401
        """What a method is called on, where that is a model or a list that is being built."""
        if not isinstance(node.func, ast.Attribute):
            return None
        first: ast.expr = node.func
        while isinstance(first, (ast.Attribute, ast.Call, ast.Subscript)):
            first = first.func if isinstance(first, ast.Call) else first.value
        is_local = isinstance(first, ast.Name) and first.id in names
        return self._value(node.func.value, names) if is_local or isinstance(node.func.value, ast.Call) else None

    def _added(self, node: ast.Call, names: Names) -> Any:  # noqa: ANN401
        """What a method returns that adds to a list or a layer; None where the call does something else."""
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in _ADDING:
            return None
        owner = self._owner(node, names)
        given = self._items(node.args, names)
        if given is None or not given or not isinstance(owner, (list, Layer, Built)) or _is_long(owner):
            raise NotKnownError
        if isinstance(owner, Built):
            owner.attributes[str(given[0])] = given[-1]
            return owner
        new = given[-1:]
        if node.func.attr == "extend":
            items = children(given[0]) if isinstance(given[0], Layer) else given[0]
            if not isinstance(items, (list, tuple)) or _is_long(items):
                raise NotKnownError
            new = list(items)
        (owner if isinstance(owner, list) else owner.added).extend(new)
        return owner

    def _external(self, callee: Value, node: ast.Call, names: Names) -> Any:  # noqa: ANN401
        if callee.name in {"builtins.super", "builtins.print"}:
            return UNKNOWN
        given = self._items(node.args, names)
        keywords: dict[str, Any] = {}
        is_spread = given is None
        for each in node.keywords:
            value = self._value(each.value, names)
            if each.arg is not None:
                keywords[each.arg] = value
            elif isinstance(value, dict):
                keywords |= value
            else:
                is_spread = True
        made = Value(Sort.MADE, callee.name, node)
        if kind(self._flow, made) in {Kind.MODEL, Kind.LOSS} or callee.name == "torch.nn.Parameter":
            return Layer(callee.name, given or [], keywords, is_spread=is_spread)
        function = _FUNCTIONS.get(callee.name)
        values = [*(given or ()), *keywords.values()]
        if callee.name == "builtins.setattr" and given and isinstance(given[0], Built):
            given[0].attributes[f"{given[1]} {len(given[0].attributes)}"] = given[-1]
        is_lost = any(map(holds_bound, values)) and callee.name not in _KEEPING
        is_long = any(map(_is_long, values)) and callee.name not in {"builtins.len", "builtins.range"}
        if function is None or is_spread or is_lost or is_long or any(not isinstance(each, _PLAIN) for each in values):
            return UNKNOWN
        if callee.name == "builtins.int" and values and isinstance(values[0], AtMost):
            return values[0]
        try:
            return function(*(given or ()), **keywords)
        except (TypeError, ValueError, ArithmeticError):
            return UNKNOWN

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
        """What the constructor of a library's class is given: ``class Block(nn.Sequential)`` holds its layers."""
        given = self._items(node.args, names)
        if given is None:
            raise NotKnownError
        built.attributes |= {str(position): each for position, each in enumerate(given)}

    def _run(self, function: Callee, node: ast.Call, names: Names, this: Built | Layer | None) -> Any:  # noqa: ANN401
        """What a function of the project returns."""
        if isinstance(function, (ast.Lambda, ast.AsyncFunctionDef)):
            return UNKNOWN
        if self._depth >= _DEEPEST:
            raise NotKnownError
        inner = self._parameters(function, node, names, this)
        self._depth += 1
        try:
            self._statements(function.body, inner)
        except _ReturnError as end:
            return end.value
        finally:
            self._depth -= 1
        return None

    def _parameters(self, function: ast.FunctionDef, node: ast.Call, names: Names, this: object) -> Names:
        """The names of a function's parameters, bound for one call."""
        taken = signature(function)
        bound: Names = {each.arg: UNKNOWN for each in taken.named}
        for name, default in taken.defaults.items():
            bound[name] = self._value(default, {})
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
            value = self._value(keyword.value, names)
            if keyword.arg is None and not isinstance(value, dict):
                raise NotKnownError
            for name, each in {keyword.arg: value}.items() if keyword.arg is not None else value.items():
                (bound if name in bound else rest)[name] = each
        if taken.kwarg is not None:
            bound[taken.kwarg.arg] = rest
        return bound

    # Statements.

    def _statements(self, body: Iterable[ast.stmt], names: Names) -> None:  # noqa: C901 - one case each
        for statement in body:
            self._step()
            match statement:
                case ast.Return(value):
                    raise _ReturnError(self._value(value, names) if value is not None else None)
                case ast.Assign(targets, value):
                    found = self._value(value, names)
                    for target in targets:
                        self._bind(target, found, names)
                case ast.AnnAssign(target, _, value) if value is not None:
                    self._bind(target, self._value(value, names), names)
                case ast.AugAssign(target, operation, value):
                    self._augment(target, operation, self._value(value, names), names)
                case ast.Expr(ast.Call() as call):
                    self._expression(call, names)
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    names.pop(statement.name, None)
                case ast.If(test, then, otherwise):
                    holds = self._truth(test, names)
                    if holds is None:
                        self._skip(statement, names)
                    else:
                        self._statements(then if holds else otherwise, names)
                case ast.For():
                    self._loop(statement, names)
                case ast.With():
                    self._statements(statement.body, names)
                case _ if isinstance(statement, _BRANCHING):
                    self._skip(statement, names)

    def _expression(self, call: ast.Call, names: Names) -> None:
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
        self._value(call, names)

    def _loop(self, statement: ast.For, names: Names) -> None:
        items = self._value(statement.iter, names)
        if isinstance(items, Layer):
            items = children(items)
        if not isinstance(items, (list, tuple, range, dict)):
            self._skip(statement, names)
            return
        for item in items:
            self._bind(statement.target, item, names)
            self._statements(statement.body, names)
            if any(isinstance(each, (ast.Break, ast.Continue)) for each in walk(statement)):
                raise NotKnownError

    def _skip(self, statement: ast.stmt, names: Names) -> None:
        """Code that may run or may not: it must build nothing, and what it binds is not known any more."""
        for node in walk(statement):
            if isinstance(node, ast.Return):
                raise NotKnownError
            if isinstance(node, ast.Call):
                adds = isinstance(node.func, ast.Attribute) and node.func.attr in _ADDING
                if adds or any(kind(self._flow, each) is Kind.MODEL for each in self._flow.values(node)):
                    raise NotKnownError
            is_stored = isinstance(getattr(node, "ctx", None), ast.Store)
            if is_stored and isinstance(node, (ast.Name, ast.Attribute)):
                # A layer that is perhaps taken away counts.
                held = self._value(node, names)
                self._bind(node, held if isinstance(held, (Layer, Built)) else UNKNOWN, names)

    def _augment(self, target: ast.expr, operation: ast.operator, value: object, names: Names) -> None:
        before = self._value(target, names)
        if isinstance(before, (list, Layer)) and isinstance(operation, ast.Add):
            if isinstance(before, Layer) or not isinstance(value, (list, tuple)) or _is_long(before):
                raise NotKnownError
            before.extend(value)
            return
        self._bind(target, self._operate(operation, before, value), names)

    def _bind(self, target: ast.expr, value: object, names: Names) -> None:  # noqa: C901 - one case each
        match target:
            case ast.Name(name):
                names[name] = value
            case ast.Attribute(owner, name):
                holder = self._value(owner, names) if isinstance(owner, (ast.Name, ast.Attribute)) else UNKNOWN
                if isinstance(holder, Built):
                    holder.attributes[name] = value
            case ast.Tuple(elements) | ast.List(elements):
                is_known = isinstance(value, (list, tuple)) and len(value) == len(elements)
                parts = value if is_known and isinstance(value, (list, tuple)) else [UNKNOWN] * len(elements)
                for each, part in zip(elements, parts, strict=True):
                    self._bind(each, part, names)
            case ast.Subscript(ast.Name(name), key):
                holder, index = names.get(name), self._value(key, names)
                if isinstance(holder, dict) and (isinstance(index, str) or _is_exact(index)):
                    holder[index] = value
                elif isinstance(holder, (list, Layer)):
                    raise NotKnownError
            case ast.Subscript():
                if isinstance(value, (Layer, Built)):
                    raise NotKnownError


def children(layer: Layer) -> list[Any] | None:
    """What a container of layers holds, in order; None where it is no container or that is not known."""
    package, _, name = layer.name.rpartition(".")
    if package != "torch.nn" or name not in {"Sequential", "ModuleList", "ModuleDict"} or layer.is_spread:
        return None
    found = list(layer.arguments)
    if len(found) == 1 and isinstance(found[0], (list, tuple, dict)):
        found = list(found[0].values() if isinstance(found[0], dict) else found[0])
        # An OrderedDict may be given as pairs of names and layers.
        found = [each[1] if isinstance(each, tuple) and len(each) == 2 else each for each in found]  # noqa: PLR2004
    found += layer.added
    return found if all(isinstance(each, (Layer, Built)) for each in found) else None


_NAMED = {
    **dict.fromkeys(("in_features", "in_channels", "num_embeddings", "num_features", "embed_dim", "input_size"), 0),
    **dict.fromkeys(("out_features", "out_channels", "embedding_dim", "hidden_size"), 1),
    "kernel_size": 2,
}


def _attribute_of(layer: Layer, name: str) -> Any:  # noqa: ANN401
    """``fc.in_features``: what the layer was given by that name."""
    return layer.argument(_NAMED[name], name) if name in _NAMED else UNKNOWN


def _is_long(value: object) -> bool:
    return isinstance(value, (list, tuple, dict, range, str)) and len(value) > _LONGEST


def _is_exact(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, AtMost)


def holds_bound(value: object) -> bool:
    """Whether a value is known only from above, or something in it is."""
    if isinstance(value, dict):
        return any(map(holds_bound, value.values()))
    return any(map(holds_bound, value)) if isinstance(value, (list, tuple)) else isinstance(value, AtMost)


def _is_known(value: object) -> bool:
    """Whether nothing in a value is unknown, or a layer."""
    if isinstance(value, (list, tuple)):
        return all(map(_is_known, value))
    if isinstance(value, dict):
        return all(map(_is_known, value.values()))
    return isinstance(value, _PLAIN) and not isinstance(value, AtMost)


def _power(base: float, exponent: float) -> float:
    if abs(exponent) > 64 or abs(base) > _LARGEST:  # noqa: PLR2004 - no size of anything
        raise ValueError
    found: float = base**exponent
    return found
