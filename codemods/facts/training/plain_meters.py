"""Is a meter of the project an object whose numbers nothing but its own methods reads, before it is asked?"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.names import bound_names
from codemods.dataflow.placement import is_pythons_own
from codemods.dataflow.signatures import arguments_of, signature
from codemods.dataflow.source import FUNCTIONS, last_name, walk
from codemods.dataflow.values import Class
from codemods.facts.reach import own
from codemods.facts.reaching import reaching

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module

_CUSTOM = frozenset(
    {"__new__", "__del__", "__getattr__", "__getattribute__", "__setattr__", "__delattr__", "__init_subclass__"}
)
_COMPUTING = frozenset({"float", "int", "len", "min", "max", "abs", "isinstance"})
_ACTING = (
    *(ast.Global, ast.Nonlocal, ast.Await, ast.Raise, ast.Delete, ast.With, ast.Try),
    *(ast.Import, ast.ImportFrom, ast.Assert),
)
_SHOW = frozenset({"print", "str", "repr", "format", "float", "int", "round"})
_NUMBERS = frozenset({"float", "int", "bool", "str"})
_COPYING = frozenset({"tensor", "as_tensor", "Tensor", "FloatTensor", "DoubleTensor", "array", "join"})
"""What makes a tensor, an array or a text of the list that it is given."""
_CONTAINERS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)


def class_of_plain_meter(flow: Flow, making: ast.expr, telling: ast.FunctionDef) -> ast.ClassDef | None:
    """The class of what a call makes, where its numbers are its own alone.

    Its methods hand the object to nobody, and what it is told by ``telling`` is computed of nothing but that and of
    numbers that it started with. None where it may be anything else.
    """
    class_ = class_alone(flow, making)
    methods = methods_alone(class_) if class_ is not None else None
    if methods is None or telling not in methods or telling.decorator_list or not _only_computes(telling):
        return None
    module = flow.module_of(telling)
    if any(may_leave(module, methods, each) for each in methods):
        return None
    mine = {each.attr for each in _own_attributes(telling)} - {each.name for each in methods}
    plain = _constants(flow, methods, making)
    return class_ if _Attributes(methods, telling, plain, mine).are_plain else None


def class_alone(flow: Flow, making: ast.expr) -> ast.ClassDef | None:
    """The class of the project that a call makes an object of; None where it may be anything else."""
    makers = flow.values(making.func) if isinstance(making, ast.Call) else ()
    classes = [each.site for each in makers if isinstance(each, Class)]
    return classes[0] if len(classes) == len(makers) == 1 else None


def _constants(flow: Flow, methods: list[ast.FunctionDef], making: ast.expr) -> frozenset[str]:
    """The parameters of the constructor that are given what is written out, or have that by default."""
    init = next((each for each in methods if each.name == "__init__"), None)
    if init is None or not isinstance(making, ast.Call):
        return frozenset()
    binding, taken = flow.bind(init, making), signature(init)
    given = {name: binding.get(name) or taken.defaults.get(name) for name in binding.named}
    return frozenset(name for name, each in given.items() if binding.is_whole and isinstance(each, ast.Constant))


def holds_containers(class_: ast.ClassDef) -> bool:
    """Whether an attribute may be a list or the like, which a name may go on to hold while it changes."""
    calls = (each for each in walk(class_) if isinstance(each, ast.Call) and last_name(each.func) in _COPYING)
    copied = {given for each in calls for given in each.args}
    return any(isinstance(each, _CONTAINERS) and each not in copied for each in walk(class_))


def is_method(class_: ast.ClassDef, name: str) -> bool:
    """Whether an attribute of its objects is a method; a property is none."""
    methods = (each for each in class_.body if isinstance(each, ast.FunctionDef))
    return any(each.name == name and not each.decorator_list for each in methods)


def is_looked_at(module: Module, class_: ast.ClassDef, use: ast.expr, *, has_parts: bool) -> bool:
    """Whether an object is only looked at there, or a method of it called, and no part is kept that may change.

    Args:
        module: Where it stands.
        class_: The class of the object.
        use: What holds the object.
        has_parts: Whether what it has may be a list or the like.
    """
    attribute = module.parent(use)
    if not isinstance(attribute, ast.Attribute) or not isinstance(attribute.ctx, ast.Load):
        return _is_shown(module, use)
    if attribute.attr.startswith("__"):
        return False
    above = module.parent(attribute)
    is_called = isinstance(above, ast.Call) and above.func is attribute
    if not is_called and is_method(class_, attribute.attr):
        return False
    asked = above if is_called else attribute
    is_dropped = isinstance(module.parent(asked), ast.Expr)  # type: ignore[arg-type]
    return is_dropped or not has_parts or _is_shown(module, asked)  # type: ignore[arg-type]


def _is_shown(module: Module, node: ast.expr) -> bool:
    """Whether an expression is made a text or a number at once."""
    parent = module.parent(node)
    above = module.parent(parent) if isinstance(parent, (ast.keyword, ast.Tuple)) else parent
    match parent, above:
        case (ast.FormattedValue(), _) | (_, ast.BinOp(ast.Constant(str()), ast.Mod())):
            return True
        case (_, ast.Call(ast.Attribute(ast.Constant(str()), "format")) as call):
            return any(node is each for each in arguments_of(call))
        case (_, ast.Call(ast.Name(name)) as call) if name in _SHOW:
            is_given = any(node is each for each in arguments_of(call))
            return is_given and is_pythons_own(module, name, module.statement(node))
    return False


def methods_alone(class_: ast.ClassDef) -> list[ast.FunctionDef] | None:
    """Its methods, where it consists of them alone and inherits nothing; None where it does not."""
    if class_.decorator_list or class_.keywords or any(ast.unparse(each) != "object" for each in class_.bases):
        return None
    found: list[ast.FunctionDef] = []
    for each in class_.body:
        match each:
            case ast.FunctionDef(name) if name not in _CUSTOM:
                if [ast.unparse(one) for one in each.decorator_list] not in ([], ["property"]):
                    return None
                found.append(each)
            case ast.Pass() | ast.Expr(ast.Constant()):
                pass
            case _:
                return None
    return found


def me_of(method: ast.FunctionDef) -> str | None:
    """What a method calls its object: ``self``."""
    parameters = signature(method).positional_names
    return parameters[0] if parameters else None


def _only_computes(method: ast.FunctionDef) -> bool:
    """Whether a method changes numbers of its object, and asks nothing but them and what it is given."""
    me, known = me_of(method), bound_names(method) | _COMPUTING
    return not any(isinstance(each, _ACTING) or _does_more(each, me, known) for each in own(method, ast.AST))


def _does_more(node: ast.AST, me: str | None, known: frozenset[str]) -> bool:
    """Whether it calls what may do anything, changes anything but the object, or reads what others change."""
    match node:
        case ast.Call(ast.Name(name)):
            return name not in _COMPUTING
        case ast.Call(ast.Attribute(ast.Attribute(ast.Name(name)), "append")):
            return name != me
        case ast.Call():
            return True
        case ast.Attribute(value, ctx=ast.Store()) | ast.Subscript(ast.Attribute(value), ctx=ast.Store()):
            return not (isinstance(value, ast.Name) and value.id == me)
        case ast.Subscript(ctx=ast.Store()):
            return True
        case ast.Name(name, ast.Load()):
            return name not in known
    return False


def _own_attributes(method: ast.FunctionDef) -> Iterator[ast.Attribute]:
    me = me_of(method)
    for each in walk(method):
        match each:
            case ast.Attribute(ast.Name(name)) if name == me:
                yield each


def may_leave(module: Module, methods: list[ast.FunctionDef], method: ast.FunctionDef) -> bool:
    """Whether other code may get the object by the method, or one of its methods, or wait in it."""
    me = me_of(method)
    called = {each.name for each in methods if not each.decorator_list}
    if me is None:
        return True
    for node in walk(method):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Yield, ast.YieldFrom)) and node is not method:
            return True
        if isinstance(node, ast.Name) and node.id == me:
            above = module.parent(node)
            if not isinstance(above, ast.Attribute) or above.attr == "__class__":
                return True
            use = module.parent(above)
            if above.attr == "__dict__" and not (isinstance(use, ast.keyword) and use.arg is None):
                return True
            if above.attr in called and not (isinstance(use, ast.Call) and use.func is above):
                return True
    return False


@dataclass(frozen=True, eq=False)
class _Attributes:
    """What the methods of a class give the attributes that one of them, which tells it something, reads or changes."""

    methods: list[ast.FunctionDef]
    telling: ast.FunctionDef
    constants: frozenset[str]
    """The parameters of the constructor that are given numbers or texts."""
    names: set[str]

    @property
    def are_plain(self) -> bool:
        """Whether each is a number or an empty container that the other methods write, and at least one does."""
        found: dict[str, list[bool]] = {each: [] for each in self.names}
        for method in self.methods:
            if method is not self.telling:
                for target, value in _given(method):
                    for name in {each.attr for each in walk(target) if isinstance(each, ast.Attribute)} & self.names:
                        found[name].append(self._is_plain(method, value))
        return all(each and all(each) for each in found.values())

    def _is_plain(self, method: ast.FunctionDef, value: ast.expr | None) -> bool:
        """Whether it is a number, a text or a new container of such, or what the constructor is given, which is one."""
        match value:
            case ast.Constant():
                return True
            case ast.Name(name):
                return name in self.constants and method.name == "__init__"
            case ast.UnaryOp(_, operand):
                return self._is_computed(method, operand)
            case ast.BinOp(left, _, right):
                return self._is_computed(method, left) and self._is_computed(method, right)
            case ast.Call(ast.Name(name), [_], []):
                return name in _NUMBERS
            case ast.Subscript(ast.Name() as numbers, ast.Constant(int())):
                made = reaching(method).given(numbers)
                return bool(made) and all(map(_is_list_of_numbers, made or ()))
            case ast.List(elts) | ast.Tuple(elts):
                return all(self._is_plain(method, each) for each in elts)
            case ast.Dict([], []):
                return True
        return value is not None and _is_list_of_numbers(value)

    def _is_computed(self, method: ast.FunctionDef, value: ast.expr) -> bool:
        """Whether it is so of what is computed with: also one of these attributes."""
        match value:
            case ast.Attribute(ast.Name(me), name):
                return me == me_of(method) and name in self.names
        return self._is_plain(method, value)


def _given(method: ast.FunctionDef) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """What a method gives names and attributes, and what that is, where it is known."""
    for statement in walk(method):
        match statement:
            case ast.Assign(targets, value):
                yield from (pair for target in targets for pair in _pairs(target, value))
            case ast.AugAssign(target, _, value) | ast.AnnAssign(target, _, ast.expr() as value):
                yield target, value
            case ast.For(target) | ast.NamedExpr(target):
                yield target, None


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """``self.sum, self.count = 0, 0``."""
    if not isinstance(target, (ast.Tuple, ast.List)):
        yield target, value
    elif isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
        yield from zip(target.elts, value.elts, strict=True)
    else:
        yield from ((each, value if _is_list_of_numbers(value) else None) for each in target.elts)


def _is_list_of_numbers(node: ast.expr) -> bool:
    """``totals.tolist()``, or one number of that."""
    match node:
        case ast.Call(ast.Attribute(attr="tolist" | "item"), [], []):
            return True
    return False
