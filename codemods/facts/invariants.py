"""Is what an expression of a loop makes the same in each pass, so that it could be made once, above the loop?"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.names import assigned, bound_names, decorators, scope_of
from codemods.dataflow.signatures import arguments_of, signature
from codemods.dataflow.source import last_name, walk
from codemods.dataflow.values import (
    Choice,
    Container,
    External,
    Literal,
    Method,
    Plain,
    Unknown,
    library_names,
    without_none,
)
from codemods.facts.data.datasets import is_concatenated
from codemods.facts.loops import module_of, place
from codemods.facts.reach import Reach, own
from codemods.facts.reason import HERE, Reason
from codemods.facts.workers.shared_state import changed_by, changes
from codemods.library.constructors import computes_of_numbers, is_the_same_again, reads_archives
from codemods.library.drawing import call_draws
from codemods.library.transforms import is_torchvisions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, FunctionNode, Module
    from codemods.dataflow.values import Value, Values
    from codemods.facts.script import Script

CODE = "changes-in-loop"
_GENERATOR = "torch.Generator"
_VARIABLES = frozenset(f"builtins.{name}" for name in ("globals", "locals", "vars"))
"""What returns, given nothing, the dictionary of the variables."""
_NUMBERS = (Literal, Choice, Plain)
_OPERATIONS = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp)
_PARTS = (ast.Tuple, ast.List, ast.Dict, ast.JoinedStr)


@dataclass(eq=False)
class Invariants:
    """Answers, for one loop, what is the same in each of its passes, and notes what has to stand above it for that."""

    script: Script
    module: Module
    loop: ast.For | ast.AsyncFor | ast.While
    statements: dict[ast.stmt, None] = field(default_factory=dict)
    """The assignments of the loop that were found to be the same in each pass."""
    reading: list[ast.Call] = field(default_factory=list)
    """The calls that read files."""
    _pending: set[ast.AST] = field(default_factory=set)
    _own_names: frozenset[str] = frozenset()
    """The names that mean something of their own in the function that is looked into."""
    _inside: FunctionNode | None = None
    """The function that is looked into, where it is another than that of the loop."""

    @property
    def _flow(self) -> Flow:
        return self.script.flow

    @cached_property
    def _code(self) -> Sequence[tuple[Module, ast.AST]]:
        """What runs in a pass of the loop."""
        return tuple(Reach(self._flow).code(self.module, [self.loop]))

    @cached_property
    def _bound(self) -> frozenset[str]:
        return bound_names(ast.Module([self.loop], []))

    def why_statement_varies(self, statement: ast.stmt) -> Reason | None:
        """Why an assignment directly in the loop does not give its names the same in each pass; None if it does."""
        names = names_of(statement)
        if not names or statement in self._pending:
            return self._varies(statement, "it is made anew of what was there before")
        self._pending.add(statement)
        for each in names:
            reason = self._why_not_only(each, statement)
            if reason is not None:
                return reason
        value = getattr(statement, "value", None)
        reason = self.why_varies(value) if value is not None else None
        if reason is None:
            self.statements[statement] = None
        self._pending.discard(statement)
        return reason

    def _why_not_only(self, target: ast.Name, statement: ast.stmt) -> Reason | None:
        """Why the name means something else at times than what the statement gives it."""
        function = self.module.function(self.loop)
        outer = scope_of(function).outer_bound if function is not None else frozenset()
        for each in self.module.nodes(ast.Name):
            if each.id != target.id or each is target or self._is_after(each, function):
                continue
            is_here = self.module.function(each) is function or target.id in outer
            if not isinstance(each.ctx, ast.Load) and (is_here or self._is_outer(each)):
                return self._varies(each, f"'{each.id}' is given another value elsewhere")
            if is_here and self.module.span(each) < self.module.span(statement):
                return self._varies(each, f"'{each.id}' is read before it is made")
        return None

    def _is_after(self, name: ast.Name, function: Callee | None) -> bool:
        """Whether the name stands below the loop, in its function: what it is given there comes after all passes."""
        outer = scope_of(function).outer_bound if function is not None else frozenset()
        is_here = self.module.function(name) is function and name.id not in outer
        return is_here and self.module.span(name) > self.module.span(self.loop) and not self._is_within(name)

    def _is_within(self, name: ast.Name) -> bool:
        return self.loop in self.module.ancestors(name)

    def _is_outer(self, name: ast.Name) -> bool:
        """Whether a function binds a name of what is around it."""
        function = self.module.function(name)
        return function is not None and name.id in scope_of(function).outer_bound

    def why_varies(self, node: ast.expr) -> Reason | None:
        """Why the expression may be something else in another pass of the loop, or above it; None if it is the same."""
        match node:
            case ast.Constant():
                return None
            case ast.Name():
                return self._why_name(node)
            case ast.Attribute(value):
                return self.why_varies(value) or self._why_attribute(node)
            case ast.Subscript(value, index):
                return self.why_varies(value) or self.why_varies(index) or self._why_content(value)
            case ast.Call():
                return self._why_call(node)
            case _ if isinstance(node, _OPERATIONS):
                return self._first(*_children(node)) or self._why_not_computed(node)
        return self._why_form(node)

    def _why_form(self, node: ast.expr) -> Reason | None:
        """The same of what is made of other expressions: lists, texts and functions."""
        if isinstance(node, _PARTS):
            return self._first(*_children(node))
        match node:
            case ast.FormattedValue(value):
                return self.why_varies(value) or self._why_not_number(value)
            case ast.Lambda(arguments, body):
                # Its body reads names when it is called, wherever it is made.
                own_names = bound_names(node) | {each.arg for each in walk(arguments) if isinstance(each, ast.arg)}
                read = (each for each in walk(body) if isinstance(each, ast.Name) and each.id not in own_names)
                return self._first(*_children(arguments), *read)
        return self._unknown(node)

    def _why_not_computed(self, node: ast.expr) -> Reason | None:
        """Why what is computed of the same may be another thing: it is of no numbers, nor one data set of two."""
        return None if is_concatenated(self._flow, node) else self._why_not_number(*_children(node))

    def _first(self, *nodes: ast.expr) -> Reason | None:
        return next((reason for each in nodes if (reason := self.why_varies(each)) is not None), None)

    def _varies(self, node: ast.AST, text: str) -> Reason:
        return Reason(CODE, f"{text} ({HERE})", (place(self._flow, node),))

    def _unknown(self, node: ast.expr) -> Reason:
        return self._varies(node, f"it is not known whether '{ast.unparse(node)}' is the same in each pass of the loop")

    # Names, attributes and items.

    def _why_name(self, node: ast.Name) -> Reason | None:
        name = node.id
        if name in self._own_names:
            return None
        home = module_of(self._flow, node)
        if name in self._bound and home is self.module and self._reads_of_loop():
            return self._why_bound(name)
        for function in home.nodes(ast.FunctionDef):
            if name in scope_of(function).outer_bound:
                return self._varies(function, f"'{name}' is given a value by {function.name}()")
        unseen = self._binds_unseen(name)
        if unseen is None:
            return None
        what = f"'{name}'" if isinstance(unseen, ast.Subscript) else "a variable that is not named"
        return self._varies(unseen, f"{what} may be given another value in the loop")

    def _binds_unseen(self, name: str) -> ast.expr | None:
        """What may give a variable a value in the loop without naming it: ``globals()["n"] = 3``, ``exec(code)``."""
        for _, code in self._code:
            for _, node in changes(code):
                owner = changed_by(node)
                called = self._flow.values(owner.func) if isinstance(owner, ast.Call) and not owner.args else ()
                if any(each.name in _VARIABLES for each in called) and not _is_of_another(node, name):
                    return node
            for call in own(code, ast.Call):
                if any(each.name == "builtins.exec" for each in self._flow.values(call.func)):
                    return call
        return None

    def _reads_of_loop(self) -> bool:
        """Whether what is looked into reads the variables of the loop, as a function beside it does."""
        function = self.module.function(self.loop)
        return self._inside is None or function is None or function in self.module.ancestors(self._inside)

    def _why_bound(self, name: str) -> Reason | None:
        """Why a name that the loop binds is not the same in each pass; None where its assignment can go above, too."""
        stores = [each for each in own(self.loop, ast.Name) if each.id == name and not isinstance(each.ctx, ast.Load)]
        statement = self.module.statement(stores[0]) if len(stores) == 1 else None
        if statement is not None and any(each is statement for each in self.loop.body) and names_of(statement):
            return None if statement in self.statements else self.why_statement_varies(statement)
        return self._varies(
            stores[0] if stores else self.loop, f"'{name}' changes from one pass of the loop to the next"
        )

    def _why_attribute(self, node: ast.Attribute) -> Reason | None:
        values = self._flow.values(node)
        if values and all(isinstance(each, External) for each in values):
            return None
        if not values or any(isinstance(each, Unknown) or _is_of_library(each) for each in values):
            return self._unknown(node)
        for module in self._flow.modules:
            for function in module.nodes(ast.FunctionDef):
                if function.name == node.attr and "property" in decorators(function):
                    return self._varies(function, f"'{ast.unparse(node)}' is computed each time that it is read")
        for _, code in self._code:
            unnamed = self._sets_unnamed(code, node.attr)
            if unnamed is not None:
                return self._varies(unnamed, f"'{ast.unparse(node)}' may be written in the loop")
            for each in own(code, ast.Attribute, ast.Call):
                is_set = isinstance(each, ast.Call) and self.script.sets_attribute(each, node.attr)
                is_stored = isinstance(each, ast.Attribute) and not isinstance(each.ctx, ast.Load)
                if is_set or (is_stored and getattr(each, "attr", "") == node.attr):
                    return self._varies(each, f"'{ast.unparse(node)}' is written in the loop")
        return None

    def _sets_unnamed(self, code: ast.AST, name: str) -> ast.expr | None:
        """What may set the attribute in another form: ``vars(args).update(…)``, ``parse_args(namespace=args)``."""
        for _, node in changes(code):
            if isinstance(node, ast.Attribute):
                is_set = node.attr == "__dict__"
            else:
                is_set = self._is_namespace(changed_by(node)) and not _is_of_another(node, name)
            if is_set:
                return node
        for statement in own(code, ast.AugAssign):
            if self._is_namespace(statement.target):
                return statement.target
        calls = own(code, ast.Call)
        return next((each for each in calls if _sets_attributes(each)), None)

    def _is_namespace(self, node: ast.expr) -> bool:
        """Whether an expression is the dictionary of an object's attributes, or may be another name of it."""
        values = self._flow.values(node)
        return _is_dictionary(self._flow, node) or any(
            bool(each & values) if each else not values for each in self._dictionaries
        )

    @cached_property
    def _dictionaries(self) -> frozenset[Values]:
        """What the dictionaries of objects' attributes may be; nothing of those that are not followed."""
        nodes = (each for module in self._flow.modules for each in module.nodes(ast.Call, ast.Attribute))
        return frozenset(self._flow.values(each) for each in nodes if _is_dictionary(self._flow, each))

    def _why_content(self, node: ast.expr) -> Reason | None:
        """Why what a list or dictionary holds may change in the loop."""
        values = without_none(self._flow.values(node))
        if not values or any(not isinstance(each, Container) for each in values):
            return self._unknown(node)
        return self.why_changed(values)

    def why_changed(self, values: Values) -> Reason | None:
        """Why one of the lists, dictionaries or tensors is changed by what runs in the loop; None where none is."""
        # `total += 1` gives a number's name another number: of numbers that are equal, none is changed.
        objects = frozenset(each for each in values if not isinstance(each, (Literal, Plain)))
        for module, code in self._code:
            for each in own(code, ast.AugAssign):
                if not isinstance(each.target, ast.Name) or _starts_as_constant(module, each.target):
                    continue
                if self._flow.values(each.target) & objects:
                    return self._varies(each, f"'{each.target.id}' is changed in the loop")
            for path, node in changes(code):
                if self._flow.values(changed_by(node)) & values:
                    return self._varies(node, f"'{path}' is changed in the loop")
        return None

    def _why_not_number(self, *nodes: ast.expr) -> Reason | None:
        for node in nodes:
            values = self._flow.values(node)
            is_plain = bool(values) and all(isinstance(each, _NUMBERS) for each in values)
            if not isinstance(node, ast.Constant) and not is_plain:
                return self._unknown(node)
        return None

    # Calls.

    def _why_call(self, call: ast.Call) -> Reason | None:
        return self._why_called(call.func) or self._why_made(call)

    def _why_called(self, called: ast.expr) -> Reason | None:
        """Why what is called may be something else, or have no name yet: it may be imported in the loop."""
        while isinstance(called, ast.Attribute):
            called = called.value
        return self._why_name(called) if isinstance(called, ast.Name) else None

    def _why_made(self, call: ast.Call) -> Reason | None:
        callees = self._flow.values(call.func)
        names = library_names(callees)
        functions = self._flow.called(call)
        if callees and len(names) == len(callees) and all(map(_is_known, names)):
            if any(map(computes_of_numbers, names)):
                return self._why_arguments(call) or self._why_not_number(*call.args)
            self.reading += [call] if any(map(reads_archives, names)) else []
            return self._why_arguments(call)
        if len(functions) == len(callees) == 1 and isinstance(functions[0], ast.FunctionDef):
            owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
            return self._first(*owner) or self._why_arguments(call) or self._why_function(functions[0])
        return self._why_not_alike(call)

    def _why_not_alike(self, call: ast.Call) -> Reason:
        """What a call does that is not known to make the same each time."""
        name = last_name(call.func)
        for each in walk(call):
            if isinstance(each, ast.Call) and any(made.name == _GENERATOR for made in self._flow.values(each)):
                return self._varies(call, "its generator is seeded anew in each pass of the loop")
            if isinstance(each, ast.Call) and call_draws(self._flow, each):
                return self._varies(call, f"{last_name(each.func)}() draws random numbers in each pass of the loop")
        where = (place(self._flow, call),)
        text = f"{name}() is not known to make the same in each pass of the loop ({HERE}):"
        return Reason(CODE, text, where, remedy="build it above the loop if it does")

    def _why_arguments(self, call: ast.Call) -> Reason | None:
        if any(isinstance(each, ast.Starred) for each in call.args):
            return self._unknown(call)
        spread = [each.value for each in call.keywords if each.arg is None]
        reason = self._first(*arguments_of(call))
        return reason or next((why for each in spread if (why := self._why_content(each)) is not None), None)

    def _why_function(self, function: FunctionNode) -> Reason | None:
        """Why a function of the project does more than to build something of what it is given."""
        if function in self._pending or function.decorator_list:
            return self._varies(function, f"{function.name}() may do more than build")
        self._pending.add(function)
        before = (self._own_names, self._inside)
        self._own_names = bound_names(function) | frozenset(signature(function).names)
        self._inside = function
        reason = next((why for each in function.body if (why := self._why_step(function, each)) is not None), None)
        self._own_names, self._inside = before
        self._pending.discard(function)
        return reason

    def _why_step(self, function: FunctionNode, statement: ast.stmt) -> Reason | None:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            return None
        is_return = isinstance(statement, ast.Return)
        if (is_return or names_of(statement)) and not scope_of(function).outer_bound:
            value = getattr(statement, "value", None)
            return self.why_varies(value) if value is not None else None
        return self._varies(statement, f"{function.name}() does more than build")


def names_of(statement: ast.stmt) -> list[ast.Name]:
    """The names that an assignment gives values; none where it is another statement, or binds something else."""
    match statement:
        case ast.Assign([ast.Name() as name]) | ast.AnnAssign(ast.Name() as name, value=ast.expr()):
            return [name]
        case ast.Assign([ast.Tuple(parts)]):
            names = [each for each in parts if isinstance(each, ast.Name)]
            return names if len(names) == len(parts) else []
    return []


def _is_known(name: str) -> bool:
    return is_the_same_again(name) or computes_of_numbers(name) or is_torchvisions(name) or reads_archives(name)


def _is_of_library(value: Value) -> bool:
    """Whether it is something that an object of a library has, and may change itself: ``model.training``."""
    return isinstance(value, Method) and value.site is None


def _is_dictionary(flow: Flow, node: ast.expr) -> bool:
    """``vars(args)``, ``args.__dict__``."""
    if isinstance(node, ast.Call):
        return bool(node.args) and any(each.name == "builtins.vars" for each in flow.values(node.func))
    return isinstance(node, ast.Attribute) and node.attr == "__dict__"


def _is_of_another(change: ast.expr, name: str) -> bool:
    """Whether ``options["epoch"] = 3`` and ``setattr(options, "epoch", 3)`` write an attribute of another name."""
    match change:
        case ast.Subscript(_, key) | ast.Call(ast.Name("setattr"), [_, key, *_]):
            return isinstance(key, ast.Constant) and key.value != name
    return False


def _sets_attributes(call: ast.Call) -> bool:
    """``parse_args(namespace=args)``, ``object.__setattr__(args, "size", 3)``."""
    is_setter = isinstance(call.func, ast.Attribute) and call.func.attr == "__setattr__"
    return is_setter or any(given.arg == "namespace" for given in call.keywords)


def _children(node: ast.AST) -> list[ast.expr]:
    return [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]


def _starts_as_constant(module: Module, name: ast.Name) -> bool:
    """Whether a name is only given constants, ``correct = 0``: what is added to that is in no other's memory."""
    function = module.function(name)
    is_given = function is not None and name.id in signature(function).names
    starts = False
    for each in module.stores.get(name.id, ()):
        statement = module.statement(each)
        pairs = assigned(statement) if isinstance(statement, ast.Assign) else ()
        is_constant = any(target is each and isinstance(value, ast.Constant) for target, value in pairs)
        if not is_constant and not (isinstance(statement, ast.AugAssign) and statement.target is each):
            return False
        starts = starts or (is_constant and module.function(each) is function)
    return starts and not is_given
