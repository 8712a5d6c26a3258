"""Which sums does a loop keep in a name, and who would see it if they were tensors while the loop runs?

Moving averages are sums, too, of which each pass keeps a part.
Lists to which a loop appends, and tensors of which it sets items, are followed in the same way.
"""

from __future__ import annotations

import ast
import enum
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from codemods.dataflow.forward import ForwardAnalysis
from codemods.dataflow.names import bound_names, lists_object
from codemods.dataflow.source import FUNCTIONS, is_name, last_name, unparsed, walk
from codemods.dataflow.values import Instance, Unknown, class_of
from codemods.facts.loops import module_of
from codemods.facts.reach import own
from codemods.facts.reaching import targets
from codemods.facts.reason import HERE, Reason, at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codemods.dataflow.effects import Doing
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module

Loop: TypeAlias = "ast.For | ast.While"

TELLING = frozenset({"update", "add"})
"""Methods by which a meter is told a number."""
_LOOK_AT_ALL = frozenset({"locals", "globals", "vars", "eval", "exec"})
_OLD_FORMATS = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?([a-zA-Z])")
_FORMATS = re.compile(r"\{(?::[^{}]*?([a-zA-Z%])?)?\}")
_WRITE_ALIKE = frozenset("eEfFgGd%")
"""Formats that write 0 and 0.0 alike; of ``str.format`` all but ``d``, which takes no floats at all."""


class Held(enum.Enum):
    """What the name may hold."""

    INTEGER = "an integer that is written out"
    FLOAT = "a float"
    TENSOR = "the sum, as a tensor, or the list, of tensors"
    LIST = "a new list without items"
    FILLED = "a new tensor of the host"
    TURNED = "an integer to which nothing was added, as a float"
    OTHER = "anything else"


States: TypeAlias = "frozenset[Held]"
_OTHER: States = frozenset({Held.OTHER})


def added(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    """The name to which a statement adds, or from which it takes, and what: ``s += x``, ``s = s + x``.

    Also an item of what has a name: ``s["loss"] += x``.
    """
    if appended(statement) is not None:
        return None
    match statement:
        case ast.AugAssign(ast.Name() | ast.Subscript(ast.Name()) as to, ast.Add() | ast.Sub(), value):
            return unparsed(to), value
        case ast.Assign(
            [ast.Name() | ast.Subscript(ast.Name()) as to], ast.BinOp(left, ast.Add() | ast.Sub(), value)
        ) if unparsed(left) == unparsed(to):
            return unparsed(to), value
        case ast.Assign([ast.Name() | ast.Subscript(ast.Name()) as to], ast.BinOp(value, ast.Add(), right)) if unparsed(
            right
        ) == unparsed(to):
            return unparsed(to), value
    return None


def decayed(statement: ast.stmt) -> tuple[str, ast.expr, ast.expr] | None:
    """The name of a moving average, what a statement adds to it, and its factor: ``s = s * 0.9 + x * 0.1``."""
    match statement:
        case ast.Assign([ast.Name(name)], ast.BinOp(left, ast.Add(), right)):
            for own_part, value in ((left, right), (right, left)):
                match own_part:
                    case ast.BinOp(ast.Name(each), ast.Mult(), factor) | ast.BinOp(factor, ast.Mult(), ast.Name(each)):
                        others = (node for part in (factor, value) for node in walk(part))
                        if each == name and not any(is_name(node, name) for node in others):
                            return name, value, factor
    return None


def appended(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    """The list to which a statement appends, and what: ``losses.append(x)``, ``losses["train"] += [x]``."""
    match statement:
        case ast.Expr(ast.Call(ast.Attribute(ast.Name() | ast.Subscript(ast.Name()) as to, "append"), [value], [])):
            pass
        case ast.AugAssign(ast.Name() | ast.Subscript(ast.Name()) as to, ast.Add(), ast.List([value])):
            if isinstance(value, ast.Starred):
                return None
        case _:
            return None
    return unparsed(to), value


def told(statement: ast.stmt) -> tuple[str, ast.Call] | None:
    """The meter that a statement tells something, and how: ``losses.update(loss.item(), n)``."""
    match statement:
        case ast.Expr(ast.Call(ast.Attribute(ast.Name(name), method), arguments, keywords) as call):
            is_plain = not any(isinstance(each, ast.Starred) for each in arguments)
            if method in TELLING and is_plain and all(each.arg is not None for each in keywords):
                return name, call
    return None


def written_item(statement: ast.stmt) -> tuple[ast.Subscript, ast.expr] | None:
    """The item that a statement sets, of something with a name, and to what: ``losses[k] = x``."""
    match statement:
        case ast.Assign([ast.Subscript(ast.Name()) as target], value):
            return target, value
    return None


class MadeTensor(NamedTuple):
    """A new tensor: ``torch.zeros(n)``."""

    maker: ast.Call
    is_there: bool
    """Whether it is made on a device, or copied there at once."""


@dataclass(frozen=True, eq=False)
class Total:
    """A name to which the passes of a loop add, a list to which they append, or a tensor of which they set items."""

    module: Module
    loop: Loop
    name: str
    additions: tuple[ast.stmt, ...]
    """The statements of the loop that add what a device computes."""
    made: MadeTensor | None = None
    """The tensor of which they set items."""
    is_inner: bool = False
    """Whether the loop is one of an iteration, which may add tensors of several shapes by one statement."""

    @property
    def root(self) -> str:
        """The name that leads to it."""
        return self.name

    @property
    def written(self) -> str:
        """How the script writes it."""
        return self.name

    @cached_property
    def function(self) -> Callee | None:
        """The function of the loop, if it has one."""
        return self.module.function(self.loop)

    @cached_property
    def uses(self) -> tuple[ast.expr, ...]:
        """Where its function reads it, but to add to it there; ``s /= n`` reads it, too."""
        return tuple(
            each
            for each in self.named
            if self.module.function(each) is self.function
            and self.module.statement(each) not in self.additions
            and (isinstance(each.ctx, ast.Load) or isinstance(self.module.parent(each), ast.AugAssign))
        )

    @cached_property
    def named(self) -> tuple[ast.Name, ...]:
        """Where the module writes the name that leads to it."""
        return tuple(each for each in self.module.nodes(ast.Name) if each.id == self.root)

    @cached_property
    def inside(self) -> frozenset[ast.AST]:
        """What the loop is made of."""
        return frozenset(walk(self.loop))

    @cached_property
    def _states(self) -> Mapping[ast.stmt, States]:
        """What the name may hold before each statement if the sum is a tensor from its first addition on."""
        return self._followed(converts=False)

    def _followed(self, *, converts: bool) -> Mapping[ast.stmt, States]:
        function = self.function
        walk_ = _Walk(self, converts=converts)
        walk_.run(self.module.tree.body if function is None else function.body)  # type: ignore[arg-type]
        return walk_.before

    def _may_be(self, node: ast.expr, states: Mapping[ast.stmt, States]) -> States:
        return states.get(self.module.statement(node), frozenset())

    @cached_property
    def starts(self) -> States:
        """What it may hold where something is added, besides the sum itself."""
        return frozenset().union(*[self._states.get(each, _OTHER) for each in self.additions]) - {Held.TENSOR}

    @cached_property
    def read_inside(self) -> tuple[ast.expr, ...]:
        """Where the loop reads the sum itself."""
        return tuple(
            each
            for each in self.uses
            if each in self.inside and (Held.TENSOR in self._may_be(each, self._states) or self._is_tested(each))
        )

    def _is_tested(self, name: ast.expr) -> bool:
        """Whether the loop asks for it before each of its passes."""
        return isinstance(self.loop, ast.While) and name in walk(self.loop.test)

    @cached_property
    def used_inside(self) -> tuple[ast.expr, ...]:
        """Where the loop uses the name, whatever it may hold there, besides adding to it."""
        return tuple(each for each in self.uses if each in self.inside)

    @property
    def is_read_after(self) -> bool:
        """Whether the sum is read after the loop."""
        return bool(self.read_after)

    @cached_property
    def read_after(self) -> tuple[ast.expr, ...]:
        """Where the sum is read after the loop."""
        found = (each for each in self.uses if each not in self.inside)
        return tuple(each for each in found if Held.TENSOR in self._may_be(each, self._states) or self._is_asked(each))

    def _is_asked(self, name: ast.expr) -> bool:
        """Whether a loop around asks for it before each of its passes."""
        statement = self.module.statement(name)
        return isinstance(statement, ast.While) and self.loop in walk(statement)

    def why_no_list(self) -> Reason | None:
        """Why it is not known to be a list that is made for each run of the loop, and that nothing else has yet."""
        return self._why_not_new(Held.LIST, "list", remedy="append to one, and extend this by it")

    def why_no_tensor(self) -> Reason | None:
        """Why it is not known to be a tensor that is made for each run of the loop, and that nothing else has yet."""
        return self._why_not_new(Held.FILLED, "tensor", remedy="make it there")

    def _why_not_new(self, held: Held, thing: str, remedy: str) -> Reason | None:
        if self._followed(converts=True).get(self.loop) != frozenset({held}):
            text = f"'{self.name}' is not known to be a new {thing} before each run of the loop ({HERE}):"
            return Reason("unknown-number", text, (at(self.module, self.loop),), remedy)
        return self.why_shared(held)

    @property
    def goes_on(self) -> bool:
        """Whether it is a list that is new before the first run of the loop, and to which each run appends."""
        return self._followed(converts=True).get(self.loop) == frozenset({Held.LIST, Held.FLOAT})

    def why_shared(self, held: Held = Held.LIST) -> Reason | None:
        """Why other code may have the new list, or tensor, before the loop does anything with it."""
        for each in self.uses:
            if each not in self.inside and self._may_be(each, self._states) == frozenset({held}):
                return self.seen(each, f"other code may have '{self.name}' already")
        return None

    def why_seen(self, flow: Flow) -> Reason | None:
        """Why other code may see the tensor: functions beside this one, or what runs after an exception."""
        function = self.function
        for node in self.module.nodes(ast.Global, ast.Nonlocal):
            if self.root in node.names and self._is_meant(node):
                return self.seen(node, f"other functions see '{self.root}'")
        for each in self.named:
            there = self.module.function(each)
            is_within = function is None or function in self.module.ancestors(each)
            if there is not function and is_within and self.root not in bound_names(there or self.module.tree):
                return self.seen(each, f"another function reads '{self.root}'")
        for call in own(self.module.tree if function is None else function, ast.Call):
            looks = isinstance(call.func, ast.Name) and call.func.id in _LOOK_AT_ALL
            if looks and not lists_object(self.module, call, {self.root}):
                return self.seen(call, f"{last_name(call.func)}() may see '{self.root}'")
        if function is None and self.module.notebook:
            text = f"other cells would find a tensor in '{self.root}' where this one is interrupted"
            return Reason("seen-elsewhere", text)
        return self._why_caught(flow)

    def _is_meant(self, declaration: ast.Global | ast.Nonlocal) -> bool:
        """Whether the declaration is of this name: one of another function may be of a name alike, that is global."""
        function, there = self.function, self.module.function(declaration)
        if there is function or (function is None and isinstance(declaration, ast.Global)):
            return True
        above = self.module.ancestors(declaration)
        return isinstance(declaration, ast.Nonlocal) and any(each is function for each in above)

    def _why_caught(self, flow: Flow) -> Reason | None:
        for above in self.module.ancestors(self.loop):
            if isinstance(above, FUNCTIONS):
                break
            if isinstance(above, (ast.With, ast.AsyncWith)) and any(_may_suppress(flow, each) for each in above.items):
                return self.seen(above, f"'{self.root}' may be read after an exception that is suppressed")
        for each in self.read_after_exceptions:
            return self.seen(each, f"'{self.root}' may be read after an exception has left the loop")
        return None

    @property
    def read_after_exceptions(self) -> Iterator[ast.expr]:
        """Where the tensor may be read because an exception has left the loop before its number was asked for."""
        states = self._followed(converts=True)
        return (each for each in self.uses if each not in self.inside and Held.TENSOR in self._may_be(each, states))

    def seen(self, node: ast.AST, text: str) -> Reason:
        """That something at a place may see the tensor."""
        return Reason("seen-elsewhere", f"{text} ({HERE})", (at(self.module, node),))

    def why_told_apart(self, flow: Flow) -> Reason | None:
        """Why it would show that a sum of floats, to which nothing was added yet, is 0.0 and no longer 0."""
        states = self._followed(converts=True)
        for each in self.uses:
            held = self._may_be(each, states)
            is_turned = Held.TURNED in held or (each in self.read_inside and Held.INTEGER in held)
            if is_turned and not is_alike(flow, self.module, each):
                return self.told_apart(each)
        return None

    def told_apart(self, use: ast.expr) -> Reason:
        """That it would show that 0 is 0.0 where nothing was added."""
        text = f"where nothing was added, '{self.name}' is 0, and would be 0.0 ({HERE}):"
        return Reason("integer-start", text, (at(self.module, use),), remedy="start it from 0.0")


@dataclass(eq=False)
class _Walk(ForwardAnalysis[States]):
    """Follows what one name holds."""

    total: Total
    converts: bool
    """Whether the sum is made a number of Python's again after the loop."""
    before: dict[ast.stmt, States] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__({}, _OTHER)

    def join(self, one: States, other: States) -> States:
        return one | other

    def put(self, name: str, held: States, *, certain: bool = True) -> None:
        if name == self.total.name:
            super().put(name, held, certain=certain)

    def reached(self, statement: ast.stmt) -> None:
        held = self.names.get(self.total.name, _OTHER)
        self.before[statement] = self.before.get(statement, frozenset()) | held

    def of(self, node: ast.expr) -> States:
        match node:
            case ast.Constant(bool()):
                return _OTHER
            case ast.Constant(int()) | ast.UnaryOp(ast.USub(), ast.Constant(int())):
                return frozenset({Held.INTEGER})
            case ast.Constant(float()) | ast.UnaryOp(ast.USub(), ast.Constant(float())):
                return frozenset({Held.FLOAT})
            case ast.Name(name) if name == self.total.name:
                return self.names.get(name, _OTHER)
            case ast.Call(ast.Name("float"), [_], []):
                return frozenset({Held.FLOAT})
            case ast.List([]) | ast.Call(ast.Name("list"), [], []) if self._has_one_name(node):
                return frozenset({Held.LIST})
            case ast.Call() if self.total.made is not None and node is self.total.made.maker:
                return frozenset({Held.FILLED})
        is_sum = any(isinstance(each, ast.Assign) and each.value is node for each in self.total.additions)
        return frozenset({Held.TENSOR}) if is_sum else _OTHER

    def _has_one_name(self, made: ast.expr) -> bool:
        """Whether what an assignment makes is given to one target alone: not as in ``losses = log = []``."""
        module = self.total.module
        above = next(each for each in module.ancestors(made) if not isinstance(each, ast.Tuple))
        return isinstance(above, ast.AnnAssign) or (isinstance(above, ast.Assign) and len(above.targets) == 1)

    def done(self, node: Doing, *, is_statement: bool) -> None:
        if is_statement and any(isinstance(each, ast.Expr) and each.value is node for each in self.total.additions):
            self.put(self.total.name, frozenset({Held.TENSOR}))

    def stored(self, target: ast.Attribute | ast.Subscript, held: States) -> None:  # noqa: ARG002 - whatever it is
        is_item = any(isinstance(each, ast.Assign) and target in each.targets for each in self.total.additions)
        if is_item:
            self.put(self.total.name, frozenset({Held.TENSOR}))

    def augmented(self, statement: ast.AugAssign) -> States:
        if statement in self.total.additions:
            return frozenset({Held.TENSOR})
        held = self.of(statement.target)
        return frozenset({Held.FLOAT}) if isinstance(statement.op, ast.Div) and Held.OTHER not in held else _OTHER

    def _for(self, statement: ast.For | ast.AsyncFor) -> None:
        super()._for(statement)
        self._convert_after(statement)

    def _while(self, statement: ast.While) -> None:
        super()._while(statement)
        self._convert_after(statement)

    def _convert_after(self, statement: ast.stmt) -> None:
        held = self.names.get(self.total.name)
        if self.converts and statement is self.total.loop and held is not None:
            turned = {Held.TENSOR: Held.FLOAT, Held.INTEGER: Held.TURNED}
            self.put(self.total.name, frozenset(turned.get(each, each) for each in held))


def _may_suppress(flow: Flow, item: ast.withitem) -> bool:
    """Whether a block may end an exception that leaves it: by a library, by code of the project, or unseen."""
    made = item.context_expr
    if isinstance(made, ast.Call) and last_name(made.func) in {"suppress", "raises"}:
        return True
    values = flow.values(made)
    classes = [class_of(each) for each in values if isinstance(each, Instance)]
    ends = [flow.method(each, "__exit__") for each in classes if each is not None]
    functions = flow.called(made) if isinstance(made, ast.Call) else ()
    is_unknown = any(isinstance(each, Unknown) for each in values)
    return is_unknown or any(map(_returns, ends)) or any(map(_catches, functions))


def _returns(function: ast.AST | None) -> bool:
    """Whether an ``__exit__`` may say that there is no exception any more."""
    returned = [each.value for each in own(function, ast.Return)] if function is not None else []
    return any(not isinstance(each, (ast.Constant, type(None))) or bool(getattr(each, "value", 0)) for each in returned)


def _catches(function: ast.AST) -> bool:
    """Whether a function that ``contextlib.contextmanager`` decorates handles what is raised at its ``yield``."""
    return any(each.handlers for each in own(function, ast.Try)) or any(own(function, ast.With))


def is_alike(flow: Flow, module: Module, number: ast.expr, seen: frozenset[Callee] = frozenset()) -> bool:
    """Whether what is made of the number is the same of 0 and of 0.0: it is divided, compared or formatted.

    What a function returns is so where each of its callers makes the same of it.
    """
    parent = module.parent(number)
    match parent:
        case ast.BinOp(op=ast.Div()) | ast.AugAssign(op=ast.Div()) | ast.Compare():
            return True
        case ast.BinOp(left, ast.Mult(), right) if (factor := _factor(right if left is number else left)) is not None:
            return isinstance(factor, float) or is_alike(flow, module, parent, seen)
        case ast.Return():
            return _is_alike_for_callers(flow, module, number, seen)
        case ast.Tuple() if isinstance(module.parent(parent), ast.Return):
            return _is_alike_for_callers(flow, module, number, seen)
        case ast.BinOp(left, ast.Pow(), right) if left is number:
            return _is_fraction(right)
        case ast.FormattedValue(format_spec=ast.JoinedStr([ast.Constant(str(text))])):
            return text[-1:] in _WRITE_ALIKE - {"d"}
        case ast.BinOp(ast.Constant(str(text)), ast.Mod()):
            return _writes_alike(_OLD_FORMATS, text.replace("%%", ""), 0)
        case ast.Tuple(items) if isinstance(above := module.parent(parent), ast.BinOp):
            formats = str(above.left.value) if isinstance(above.left, ast.Constant) else ""
            return _writes_alike(_OLD_FORMATS, formats.replace("%%", ""), items.index(number))
        case ast.Call(ast.Attribute(ast.Constant(str(text)), "format"), arguments) if number in arguments:
            return _writes_alike(_FORMATS, text.replace("{{", ""), arguments.index(number))
    return False


def _is_alike_for_callers(flow: Flow, module: Module, number: ast.expr, seen: frozenset[Callee]) -> bool:
    """Whether all callers of the function make the same of what it returns, be it 0 or 0.0: alone, or in a tuple."""
    function, parent = module.function(number), module.parent(number)
    if function is None or function in seen or flow.escapes(function) or not isinstance(function, ast.FunctionDef):
        return False
    items = parent.elts if isinstance(parent, ast.Tuple) else None
    calls, seen = flow.callers(function), seen | {function}
    return bool(calls) and all(_is_result_alike(flow, call, number, items, seen) for call in calls)


def _is_result_alike(
    flow: Flow, call: ast.Call, number: ast.expr, items: list[ast.expr] | None, seen: frozenset[Callee]
) -> bool:
    module = module_of(flow, call)
    match module.parent(call):
        case ast.Assign([ast.Tuple(names)]) if items is not None and len(names) == len(items):
            name = names[items.index(number)]
        case ast.Assign([ast.Name() as name]) if items is None:
            pass
        case _:
            return items is None and is_alike(flow, module, call, seen)
    scope = module.function(call)
    if not isinstance(name, ast.Name) or any(name.id in each.names for each in module.nodes(ast.Global, ast.Nonlocal)):
        return False
    binding = targets(module.tree if scope is None else scope)
    for each in module.nodes(ast.Name):
        if each.id != name.id or isinstance(each.ctx, ast.Store):
            continue
        there = module.function(each)
        if there is scope:
            bound = binding.of(each)
            if (bound is None or name in bound) and not is_alike(flow, module, each, seen):
                return False
        elif name.id not in bound_names(there or module.tree) and (scope is None or scope in module.ancestors(each)):
            return False
    return True


def _factor(node: ast.expr) -> int | float | None:
    """A number that is written out, none below 0: of that, 0.0 makes -0.0."""
    match node:
        case ast.Constant(int() | float() as value) if not isinstance(value, bool):
            return value
    return None


def _is_fraction(exponent: ast.expr) -> bool:
    """``x ** 0.5``, ``x ** (1 / norm_type)``: a float of an integer, too."""
    match exponent:
        case ast.Constant(float()) | ast.BinOp(op=ast.Div()):
            return True
    return False


def _writes_alike(formats: re.Pattern[str], text: str, index: int) -> bool:
    """Whether the format of that number in a text writes 0 and 0.0 alike; those with a name or number are not found."""
    found = formats.findall(text)
    return index < len(found) and found[index] in _WRITE_ALIKE
