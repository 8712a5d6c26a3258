"""Which calls hand a tensor to a function of the project that copies it, and how is its device written at the call?"""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.calls import filled_by_owner
from codemods.dataflow.names import bound_names
from codemods.dataflow.placement import bound_inside
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import FUNCTIONS, walk
from codemods.dataflow.values import Function, Method, in_order, library_names
from codemods.facts.devices.copying_helpers import HelperCopy, first_copy, held, parameter_of
from codemods.facts.devices.transfers import Transfer
from codemods.facts.loops import module_of
from codemods.facts.reason import HERE, Reason, at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codemods.dataflow.source import Callee
    from codemods.facts.script import Script

_CALLED = ("torch.cuda.is_available", "torch.device")
_OPERATORS: Mapping[type[ast.AST], str] = MappingProxyType(
    {ast.Eq: "==", ast.NotEq: "!=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "is", ast.IsNot: "is not"}
)
_SIMPLE = (ast.Name, ast.Attribute, ast.Constant, ast.Call)


@dataclass(frozen=True, eq=False)
class Handing(Transfer):
    """A call of a function of the project that copies what it is given: ``to_var(x)``."""

    copy: Transfer
    """The copy in the function."""
    argument: ast.expr
    """What is given."""
    written: str
    """The device as it is written at the call; nothing where it is not known how."""
    is_chosen: bool
    """Whether a condition of the function decides whether it is copied at all."""
    read: Sequence[ast.expr]
    """What is read to say where to, at the call or in the function."""
    why_not: Reason | None

    @property
    def receiver(self) -> ast.expr:
        """What is copied."""
        return self.argument

    @property
    def method(self) -> str:
        """The one that the function calls."""
        return self.copy.method

    @property
    def target(self) -> ast.expr | None:
        """What says there where to."""
        return self.copy.target

    @property
    def asked(self) -> Sequence[ast.expr]:
        """What is read to say where to."""
        return self.read


def handings(script: Script) -> Iterator[Handing]:
    """The calls of the module that give a tensor to a function which copies it."""
    copies = _copies_of_helpers(script)
    for call in script.module.nodes(ast.Call) if copies else ():
        values = script.flow.values(call.func)
        callees = (each.site for each in in_order(values) if isinstance(each, (Function, Method)))
        helper = next((each for each in callees if each is not None and each in copies), None)
        for parameter, argument in script.flow.bind(helper, call).given.items() if helper is not None else ():
            transfers = copies[helper].get(parameter) if helper is not None else None
            if helper is not None and transfers:
                yield from _handing(script, _Handed(call, helper, parameter, argument), transfers)


class _Handed(NamedTuple):
    call: ast.Call
    helper: Callee
    parameter: str
    argument: ast.expr


def _copies_of_helpers(script: Script) -> Mapping[Callee, Mapping[str, list[Transfer]]]:
    """The copies of parameters in the functions of the project, by the functions, and the parameters' names.

    Also those in functions that these hand them on to.
    """
    found: defaultdict[Callee, defaultdict[str, list[Transfer]]] = defaultdict(lambda: defaultdict(list))
    for transfer in script.transfers:
        if transfer.method in {"to", "cuda", "type"}:
            given = parameter_of(script.flow, transfer.module, transfer.receiver)
            if given is not None:
                found[given.function][given.name].append(transfer)
    pending = list(found)
    for helper in pending:
        for call in script.flow.callers(helper):
            binding, module = script.flow.bind(helper, call), module_of(script.flow, call)
            for name in [each for each in found[helper] if binding.get(each) is not None]:
                given = parameter_of(script.flow, module, binding.given[name])
                if given is not None and not found[given.function][given.name]:
                    found[given.function][given.name] += found[helper][name]
                    pending.append(given.function)
    return found


def _handing(script: Script, handed: _Handed, transfers: Sequence[Transfer]) -> Iterator[Handing]:
    call, helper = handed.call, handed.helper
    own = [each for each in transfers if each.module.function(each.call) is helper]
    copy = first_copy(helper, handed.parameter, own) if own else transfers[0].call
    writing = _Writing(script, call, helper)
    written, transfer = "", transfers[0]
    if isinstance(copy, HelperCopy):
        written, transfer = writing.device(copy), copy.transfer
    if not writing.is_never:
        why_not = _why_not(script, handed, None if isinstance(copy, HelperCopy) else copy, written, is_own=bool(own))
        asked, is_chosen = tuple(writing.asked), writing.is_chosen
        yield Handing(script.flow, script.module, call, transfer, handed.argument, written, is_chosen, asked, why_not)


def _why_not(script: Script, handed: _Handed, obstacle: ast.AST | None, written: str, *, is_own: bool) -> Reason | None:
    """Why it cannot be made on the device where the function is called."""
    name = f"{ast.unparse(handed.call.func)}()"
    remedy = "name the device in the call that makes the tensor"
    if len(script.flow.values(handed.call.func)) > 1:
        return Reason("unknown-device", f"whether {name} copies it is not known, as it may be several functions")
    if not script.flow.bind(handed.helper, handed.call).is_whole:
        return Reason("unknown-arguments", f"what {name} is given is not all known")
    if obstacle is not None:
        does = "does more than to copy it first" if is_own else "lets another function copy it"
        place = at(module_of(script.flow, obstacle), obstacle)
        return Reason("other-result", f"{name} {does} ({HERE}):", (place,), remedy)
    text = f"the device to which {name} copies it cannot be written where that is called:"
    return None if written else Reason("unknown-device", text, remedy=remedy)


class _Writing:
    """Writes expressions of a function as they read where it is called, where they can be read there."""

    def __init__(self, script: Script, call: ast.Call, helper: Callee) -> None:
        self._script = script
        self._module = script.module
        self._call = call
        self._helper = helper
        self._place = script.module.statement(call)
        self._locals = held(helper)
        self.asked: list[ast.expr] = []
        """What is read at the call for it, or else in the function."""
        self.is_chosen = False
        """Whether a condition decides whether there is a copy."""
        self.is_never = False
        """Whether there is none, by what the call says."""

    def device(self, copy: HelperCopy) -> str:
        """``"cuda" if torch.cuda.is_available() else "cpu"``; nothing where it cannot be written."""
        quote, target = self._script.quote(self._module), copy.transfer.target
        device: str | None = f"{quote}cuda{quote}"
        if isinstance(target, ast.Constant) and copy.transfer.method == "cuda":
            device = f"{quote}cuda:{target.value!r}{quote}"
        elif target is not None:
            device = self._code(target)
        condition, is_met = copy.condition, copy.is_met
        while isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
            condition, is_met = condition.operand, not is_met
        met = self._code(condition) if condition is not None else None
        self.is_never = met == str(not is_met)
        if device is None or condition is None or met == str(is_met):
            return device or ""
        self.is_chosen = True
        there, elsewhere = (device, f"{quote}cpu{quote}") if is_met else (f"{quote}cpu{quote}", device)
        is_plain = met is not None and _is_simple(device) and not _is(met, ast.IfExp)
        return f"{there} if {met} else {elsewhere}" if is_plain else ""

    def _code(self, node: ast.expr) -> str | None:
        match node:
            case ast.Constant(str(text)):
                quote = self._script.quote(self._module)
                return f"{quote}{text}{quote}" if text.isprintable() and not {"'", '"', "\\"} & {*text} else None
            case ast.Constant():
                return repr(node.value)
            case ast.Name(name):
                return self._name(node, name)
            case ast.Attribute(value, name):
                base = self._code(value)
                is_hidden = name.startswith("__") or self._is_computed(name)
                self.asked.append(node)
                return None if base is None or is_hidden or not _is_simple(base) else f"{base}.{name}"
            case ast.UnaryOp(ast.Not(), ast.Name() | ast.Attribute() | ast.Call() as operand):
                return self._joined("not {}", operand)
            case ast.BoolOp(ast.And(), [left, right]) if isinstance(right, _SIMPLE) and isinstance(left, _SIMPLE):
                return self._joined("{} and {}", left, right)
            case ast.Compare(left, [operator], [right]) if type(operator) in _OPERATORS:
                return self._joined(f"{{}} {_OPERATORS[type(operator)]} {{}}", left, right)
            case ast.IfExp(test, body, orelse):
                asked, one, other = map(self._code, (test, body, orelse))
                is_plain = asked is not None and not _is(asked, ast.IfExp)
                is_plain = is_plain and one is not None and other is not None and _is_simple(one) and _is_simple(other)
                return f"{one} if {asked} else {other}" if is_plain else None
            case ast.Call(func, given, []):
                return self._called(func, given)
        return None

    def _joined(self, template: str, *parts: ast.expr) -> str | None:
        """What is written of the parts; nothing where one of them, as it reads at the call, would need brackets."""
        codes = [code for each in parts if (code := self._code(each)) is not None and _is_simple(code)]
        return template.format(*codes) if len(codes) == len(parts) else None

    def _called(self, func: ast.expr, given: Sequence[ast.expr]) -> str | None:
        called = next((each for each in _CALLED if library_names(self._script.flow.values(func)) == {each}), None)
        spelled = self._script.spelled(self._module, called, self._place) if called is not None else None
        codes = [code for each in given if (code := self._code(each)) is not None]
        return f"{spelled}({', '.join(codes)})" if spelled is not None and len(codes) == len(given) else None

    def _name(self, node: ast.Name, name: str) -> str | None:
        taken = signature(self._helper)
        if name in self._locals:
            return self._code(self._locals[name])
        if taken.positional_names[:1] == (name,) and self._is_bound():
            owner = self._call.func.value if isinstance(self._call.func, ast.Attribute) else None
            return self._at_call(owner) if isinstance(owner, ast.Name) else None
        if name in taken.names:
            is_written = any(each.id == name and isinstance(each.ctx, ast.Store) for each in _names(self._helper))
            given = self._script.flow.bind(self._helper, self._call).get(name)
            if given is None and not is_written:
                return self._default(taken.defaults.get(name))
            return None if given is None or is_written else self._at_call(given)
        if name in bound_names(self._helper) or not self._is_same(name):
            return None
        self.asked.append(node)
        return name

    def _default(self, default: ast.expr | None) -> str | None:
        """What a parameter has otherwise: a constant, or what a name of the module has, which is bound once."""
        match default:
            case ast.Constant():
                return self._code(default)
            case ast.Name(name) if len(self._module.stores.get(name, ())) == 1:
                return self._code(default)
        return None

    def _at_call(self, given: ast.expr) -> str | None:
        """An argument of the call, where it only reads names."""
        if isinstance(given, ast.Constant):
            return self._code(given)
        inner = given
        while isinstance(inner, ast.Attribute):
            inner = inner.value
        if not isinstance(inner, ast.Name):
            return None
        self.asked.append(given)
        return self._module.code(given)

    def _is_bound(self) -> bool:
        """Whether the function is a method of the object whose attribute it is called as."""
        values = self._script.flow.values(self._call.func)
        return {filled_by_owner(each) for each in values} == {1}

    def _is_same(self, name: str) -> bool:
        """Whether a name that the function does not bind is one variable, there and where the function is called."""
        if module_of(self._script.flow, self._helper) is not self._module or name in bound_inside(
            self._module, self._call
        ):
            return False
        here, there = (self._scope(each, name) for each in (self._call, self._helper))
        return here is there

    def _scope(self, node: ast.AST, name: str) -> ast.AST | None:
        """The function around the node that binds the name; None where the module does."""
        above = self._module.ancestors(node)
        return next((each for each in above if isinstance(each, FUNCTIONS) and name in bound_names(each)), None)

    def _is_computed(self, attribute: str) -> bool:
        """Whether a method of the project computes an attribute of that name."""
        modules = self._script.flow.modules
        return any(each.name == attribute for module in modules for each in module.nodes(ast.FunctionDef))


def _is(code: str, kind: type[ast.expr] | tuple[type[ast.expr], ...]) -> bool:
    return isinstance(ast.parse(code, mode="eval").body, kind)


def _is_simple(code: str) -> bool:
    """Whether an expression means the same without brackets, wherever it stands."""
    return _is(code, _SIMPLE)


def _names(node: ast.AST) -> Iterator[ast.Name]:
    return (each for each in walk(node) if isinstance(each, ast.Name))
